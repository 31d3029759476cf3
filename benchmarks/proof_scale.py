"""What proof costs: `verify` of a large result folder; `run` and `evaluate` beside a version without checksums.

    python benchmarks/proof_scale.py verify [--images 100000]
    python benchmarks/proof_scale.py cost --before CHECKOUT [--images 1000000] [--runs 5]

`verify` writes a made-up study (8 detectors, 1,000 prompts, 10 T2I models; files as `run` writes them, with
fingerprints, content hashes and manifests), evaluates it, and verifies it with the tables of its image set and
without; there are no images. `cost` times `evaluate` of such a study, and `run` of 384 portraits without a cache
(YuNet and FaceRes), in pairs with the same command of another checkout of this project. Processor seconds count
where a machine is shared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from evaluate_scale import DETECTORS, write_inputs, write_study
from measuring import REPOSITORY, machine, shared_folder, spread

_RUN = """\
image_set: images
detectors:
  - {{name: faceres, extends: {detectors}/faceres.yaml, crop: {{boxes: yunet_faces}}}}
"""


def write_finished_run(folder: Path, *, images: int) -> None:
    """A study whose prediction files are as a run writes them."""
    import json

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from detector_bench.runner.judging import BatchJudge
    from detector_bench.runner.prediction_store import FINGERPRINT_KEY, IDENTITY_KEY, write_predictions
    from detector_bench.runner.shard_ledger import ShardFile, ShardLayout, ShardLedger, ShardManifest, file_sha256
    from detector_bench.runner.shards import Shard
    from detector_bench.study import Study

    write_inputs(folder, images=images, shards=1, parquet=False, shuffled=False)
    study = Study.from_yaml(write_study(folder))
    judge = BatchJudge(study.build_detectors(), weights=study.locator())
    ledger = ShardLedger(folder / "predictions")
    files = {}
    for entry, version in zip(study.detectors, judge.versions, strict=True):
        path = folder / "predictions" / entry.name / "predictions.parquet"
        table = pq.read_table(path)
        made_up = pc.utf8_lpad(pc.cast(pc.random(len(table), initializer=1), pa.string()), 64, "0")
        place = table.schema.get_field_index("image_sha256")
        table = table.set_column(place, table.schema.field(place), pc.utf8_slice_codeunits(made_up, 0, 64))
        identity = json.dumps(version.identity, sort_keys=True)
        metadata = {FINGERPRINT_KEY: version.fingerprint.encode(), IDENTITY_KEY: identity.encode()}
        write_predictions(table.replace_schema_metadata(metadata), path)
        sha256 = file_sha256(path) or ""
        files[entry.name] = ShardFile(
            fingerprint=version.fingerprint, file=path.name, rows=len(table), sha256=sha256
        )
    ledger.write_layout(ShardLayout(shards=1))
    ledger.complete(Shard(), ShardManifest(shard="1/1", images=images, detectors=files))


def timed(arguments: list[str], *, repository: Path = REPOSITORY, status: int = 0) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory in MiB of one command, from start to exit."""
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "detector_bench", *arguments], stdout=subprocess.DEVNULL, env=environment
    )
    _, ended, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(ended)
    assert process.returncode == status, arguments
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def verify(folder: Path, *, images: int, runs: int) -> None:
    """Time `verify` of a large folder."""
    write_finished_run(folder, images=images)
    timed(["evaluate", str(folder), "--study", str(folder / "study.yaml"), "--out", str(folder)])
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    print(f"{images:,} images x {DETECTORS} detectors, {size:,.0f} MiB, no images there")
    for name in ("with the image set's tables: every value computed again", "without the image set"):
        seconds, processor, memory = zip(*(timed(["verify", str(folder)]) for _ in range(runs)), strict=True)
        print(f"verify, {name}: {spread(seconds)} s, processor {spread(processor)} s, {max(memory):,.0f} MiB")
        shutil.rmtree(folder / "image_set", ignore_errors=True)


def cost(folder: Path, *, images: int, runs: int, before: Path) -> None:
    """Time `evaluate` and `run` in pairs with another checkout."""
    write_finished_run(folder / "large", images=images)
    shared = shared_folder()
    (folder / "images").symlink_to(shared / "data" / "t2i_portraits")
    (folder / "study.yaml").write_text(_RUN.format(detectors=REPOSITORY / "configs" / "detectors"))
    weights = ["--weights-dir", str(shared / "weights")]
    ratios: dict[str, list[float]] = {"evaluate": [], "run": []}
    for number in range(runs):
        found: dict[tuple[str, str], float] = {}
        for name, repository in [("now", REPOSITORY), ("before", before)][:: 1 if number % 2 else -1]:
            out = folder / f"out-{number}-{name}"
            large = ["evaluate", str(folder / "large"), "--study", str(folder / "large" / "study.yaml")]
            found["evaluate", name] = timed([*large, "--out", str(out / "large")], repository=repository)[1]
            run = ["run", str(folder / "study.yaml"), "--out", str(out / "run"), "--no-cache", *weights]
            found["run", name] = timed(run, repository=repository)[1]
            shutil.rmtree(out)
        for what, each in ratios.items():
            each.append(found[what, "now"] / found[what, "before"])
            print(
                f"{what}: processor {found[what, 'now']:.2f} s, before {found[what, 'before']:.2f} s", flush=True
            )
    for what, each in ratios.items():
        print(f"{what}, processor seconds over those before: {spread(each)}")


def main() -> None:
    """Write the inputs, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["verify", "cost"])
    parser.add_argument("--images", type=int)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--before", type=Path, help="a checkout of this project to compare with")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        if options.what == "verify":
            verify(Path(name) / "study", images=options.images or 100_000, runs=options.runs)
        elif options.before is None:
            parser.error("cost needs --before CHECKOUT")
        else:
            cost(Path(name), images=options.images or 1_000_000, runs=options.runs, before=options.before)


if __name__ == "__main__":
    main()
