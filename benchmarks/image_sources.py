"""How fast images are read from files, tar files, Parquet files and servers; nothing is decoded.

    python benchmarks/image_sources.py [--images N] [--kilobytes N] [--milliseconds N] [--rounds N]

Servers run in processes of their own on this machine: a web server that waits before each answer, as a distant one
does, and an S3 server (moto, of the extra `dev`; it is slow, and the figure is its own). Local files are in the
memory of the system after the first round. Copies are off, indexes of archives are kept.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from measuring import REPOSITORY, machine, spread

from detector_bench.dataset.image_sources import ImageSources
from detector_bench.dataset.image_sources.sources import READERS

_WEB_SERVER = """
import sys, time
sys.path.insert(0, "tests")
from pathlib import Path
from file_server import FileServer

class Distant(FileServer):
    def answer(self, handler):
        time.sleep(float(sys.argv[2]) / 1000)
        return False

server = Distant()
server.files = {f"/{path.name}": path.read_bytes() for path in Path(sys.argv[1]).iterdir()}
print(server.address, flush=True)
server.serve_forever(0.01)
"""

_S3_SERVER = """
from moto.server import ThreadedMotoServer
import time
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%s" % server.get_host_and_port(), flush=True)
time.sleep(10**6)
"""


@contextmanager
def served(program: str, *arguments: str) -> Iterator[str]:
    """A server in a process of its own; gives its address."""
    command = [sys.executable, "-c", program, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=REPOSITORY
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        yield next(line.strip() for line in lines if line.startswith("http"))
    finally:
        process.kill()
        process.wait()


def write_everything(folder: Path, images: int, size: int) -> list[str]:
    """Files, a tar file and a Parquet file of the same content; the files' names."""
    names = [f"{number:06d}.png" for number in range(images)]
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name in names:
            data = os.urandom(size)
            (folder / name).write_bytes(data)
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(data))
    cells = [(folder / name).read_bytes() for name in names]
    pq.write_table(pa.table({"image": cells}), folder / "a.parquet", row_group_size=100, compression="none")
    return names


def upload(folder: Path, names: Sequence[str]) -> None:
    """Put the files into a bucket of the server that the environment names."""
    import s3fs

    system = s3fs.S3FileSystem()
    system.mkdir("bench")
    system.put([str(folder / name) for name in names], [f"bench/{name}" for name in names])


def per_second(sources: ImageSources, paths: Sequence[str], readers: int) -> float:
    """Images that are read in a second, with their marks asked for in groups of 32, as a run does."""
    began = time.perf_counter()
    with ThreadPoolExecutor(readers) as pool:
        for start in range(0, len(paths), 32):
            part = paths[start : start + 32]
            for _ in pool.map(lambda path, mark: sources.read(path, mark=mark), part, sources.marks(part)):
                pass
    return len(paths) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=640)
    parser.add_argument("--kilobytes", type=int, default=200)
    parser.add_argument("--milliseconds", type=float, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(machine())
    os.environ["NO_PROXY"] = "127.0.0.1"
    with (
        tempfile.TemporaryDirectory() as temporary,
        tempfile.TemporaryDirectory() as kept,
        served(_S3_SERVER) as store,
    ):
        folder = Path(temporary)
        names = write_everything(folder, given.images, given.kilobytes * 1000)
        os.environ.update(AWS_ENDPOINT_URL=store, AWS_ACCESS_KEY_ID="name", AWS_SECRET_ACCESS_KEY="key")  # noqa: S106
        os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
        upload(folder, names)
        with served(_WEB_SERVER, str(folder), str(given.milliseconds)) as web:
            sources = ImageSources(folder, folder=Path(kept), copies=0)
            cases = {
                "files": (names, 4),
                "members of a tar file": ([f"a.tar#{name}" for name in names], 4),
                "rows of a Parquet file": ([f"a.parquet#{row}" for row in range(len(names))], 4),
                f"web server, {READERS} at once": ([f"{web}/{name}" for name in names], READERS),
                "web server, 1 at once": ([f"{web}/{name}" for name in names[:64]], 1),
                f"tar file there, {READERS} at once": ([f"{web}/a.tar#{name}" for name in names], READERS),
                f"S3 server, {READERS} at once": ([f"s3://bench/{name}" for name in names], READERS),
            }
            found: dict[str, list[float]] = {name: [] for name in cases}
            for paths, _ in cases.values():  # connections are made, and archives indexed
                sources.read(paths[0])
            for _ in range(given.rounds):
                for name, (paths, readers) in cases.items():
                    found[name].append(per_second(sources, paths, readers))
    print(
        f"{given.images} images of {given.kilobytes} kB; web server: {given.milliseconds:g} ms before each answer"
    )
    for name, values in found.items():
        print(f"{name:28} {spread(values)} images/s")


if __name__ == "__main__":
    main()
