"""Many annotators, a server that is killed again and again, and a flood of half-open connections beside it.

    python benchmarks/labelling_load.py [--clients N] [--answers N] [--kills N] [--flood N] [--pause S] [--tls]

Each client is an annotator with a token: it asks for a picture, thinks (`--pause` on average), sends the answer,
and sends the same answer again until the desk has confirmed it, as the page does. A process of its own holds
`--flood` connections open from the same address, and replaces within a second what the desk closes: in turn
silent, with half a header, and with half of a sign-in. The server gets `kill -9` at even distances and is started
again.

At the end the store is read: every answer that was confirmed must be there once, as it was sent, and nothing else.
Times are those from a request to its reply: for all answers, with the waits of those that a kill hit, and for
pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from labelling_desk import make_image_set
from measuring import machine

SECRET = "a secret of this benchmark alone"  # noqa: S105
SECONDS_BETWEEN_TRIES = 0.25
TO_REACH = 200
LABELS = ("male", "female", "low_quality")
HOST = "127.0.0.1"
HALVES = (
    b"",
    b"GET /label/c000 HTTP/1.1\r\nHost: local",
    b"POST /api/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 90\r\n\r\n{",
)


@dataclass
class Desk:
    """The command in a process of its own, on a port that stays."""

    folder: Path
    clients: Sequence[str]
    options: Sequence[str]
    port: int = 0
    kills: int = 0
    most_memory: int = 0
    seconds_away: list[float] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "detector_bench", "label", str(self.folder), "--no-browser", "--token"]
        command += ["--calibration", "0", "--port", str(self.port), *self.options]
        for name in self.clients:
            command += ["--annotator", name]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DETECTOR_BENCH_LABEL_SECRET": SECRET},
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("It listens at "):
                self.port = urlsplit(line.split()[-1]).port or 0
            if line.startswith("Stop with"):
                return
        raise SystemExit("the desk did not open")

    def kill(self) -> None:
        assert self._process is not None
        self.look()
        began = time.perf_counter()
        self._process.kill()
        self._process.wait()
        self.kills += 1
        self.start()
        self.seconds_away.append(time.perf_counter() - began)

    def stop(self) -> None:
        assert self._process is not None
        self.look()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    def look(self) -> None:
        """Note the most memory that the process had, in MiB."""
        assert self._process is not None
        with suppress(OSError):
            for line in Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii").splitlines():
                if line.startswith("VmHWM:"):
                    self.most_memory = max(self.most_memory, int(line.split()[1]) // 1024)


class Line:
    """One client's connection, opened again when it breaks."""

    def __init__(self, port: int, cookie: str, tls: ssl.SSLContext | None) -> None:
        self._port, self._cookie, self._tls = port, cookie, tls
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request; gives status and content.

        Raises:
            OSError, EOFError: the connection broke; nothing is known about the request.
        """
        try:
            if self._open is None:
                self._open = await asyncio.open_connection(HOST, self._port, ssl=self._tls)
            reader, writer = self._open
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {self._cookie}\r\n"
            if method == "POST":
                head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"\r\n" + body)
            said = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(said.partition("content-length:")[2].partition("\r\n")[0])
            return int(said.split(" ", 2)[1]), await reader.readexactly(length)
        except (OSError, EOFError, ValueError):
            self.close()
            raise

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
        self._open = None


@dataclass
class Seen:
    """What all clients together saw."""

    answers: list[float] = field(default_factory=list)
    pictures: list[float] = field(default_factory=list)
    sent_again: int = 0
    repeated: int = 0
    confirmed: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)


async def until_reply(line: Line, method: str, path: str, body: bytes = b"") -> tuple[bytes, int, float]:
    """Ask until there is an answer; gives it, the number of tries, and the milliseconds since the first."""
    began, tries = time.perf_counter(), 0
    while True:
        tries += 1
        with suppress(OSError, EOFError, ValueError):
            status, content = await line.ask(method, path, body)
            if status == 200:
                return content, tries, (time.perf_counter() - began) * 1000
            raise SystemExit(f"{method} {path}: {status} {content[:300]!r}")
        await asyncio.sleep(SECONDS_BETWEEN_TRIES)


async def label(name: str, line: Line, seen: Seen, *, answers: int, pause: float, chance: random.Random) -> None:
    """What one annotator does."""
    await asyncio.sleep(chance.uniform(0, 2 * pause))
    content, _, _ = await until_reply(line, "GET", f"/api/{name}/items?first=0&count=200")
    items = json.loads(content)["items"]
    while len(items) < answers:
        content, _, _ = await until_reply(line, "GET", f"/api/{name}/items?first={len(items)}&count=200")
        items += json.loads(content)["items"]
    for item in items[:answers]:
        item_id = item["item_id"]
        _, _, took = await until_reply(line, "GET", f"/images/{quote(item_id, safe='')}")
        seen.pictures.append(took)
        await asyncio.sleep(chance.expovariate(1 / pause))
        label_sent = chance.choice(LABELS)
        answer_id = f"{name}-{item_id}"
        answer = {"answer_id": answer_id, "item_id": item_id, "answers": {"gender": {"label": label_sent}}}
        body = json.dumps({"answers": [answer]}).encode()
        content, tries, took = await until_reply(line, "POST", f"/api/{name}/answers", body)
        (result,) = json.loads(content)["results"]
        seen.answers.append(took)
        seen.sent_again += tries - 1
        seen.repeated += result["status"] == "repeated"
        if result["status"] == "refused":
            seen.refused[result["message"]] += 1
        else:
            seen.confirmed[answer_id] = (name, item_id, label_sent)
    line.close()


async def kill_often(desk: Desk, seen: Seen, *, kills: int, answers: int) -> None:
    """Kill the server whenever another part of the answers is there."""
    for number in range(1, kills + 1):
        while len(seen.answers) < answers * number / (kills + 1):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(desk.kill)


async def load(desk: Desk, options: argparse.Namespace, tls: ssl.SSLContext | None) -> Seen:
    """All clients at once."""
    from detector_bench.labelling.web.desk import Tokens

    tokens, seen = Tokens(desk.clients, SECRET), Seen()
    each = -(-options.answers // options.clients)
    tasks = [
        label(
            name,
            Line(desk.port, f"{tokens.cookie}={tokens.of(name)}", tls),
            seen,
            answers=each,
            pause=options.pause,
            chance=random.Random(name),  # noqa: S311
        )
        for name in desk.clients
    ]
    killing = asyncio.create_task(kill_often(desk, seen, kills=options.kills, answers=each * options.clients))
    await asyncio.gather(*tasks)
    await killing
    return seen


async def flood(port: int, held: int) -> None:
    """Hold so many half-open connections, and replace each that the desk closes, until this process is ended."""
    opened = 0

    async def hold(number: int) -> None:
        nonlocal opened
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(HOST, port)
                opened += 1
                writer.write(HALVES[number % len(HALVES)])
                while await reader.read(4096):
                    pass
                writer.close()
            await asyncio.sleep(1)

    holding = [asyncio.create_task(hold(number)) for number in range(held)]
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    for task in holding:
        task.cancel()
    print(opened, flush=True)


def check(folder: Path, seen: Seen) -> str:
    """Compare the store with what was confirmed."""
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import LabelStore

    with LabelStore.open(
        folder / "labelling.sqlite", ImageSet.load(folder, require_labels=False), read_only=True
    ) as store:
        names = sorted({name for name, _, _ in seen.confirmed.values()})
        kept = [
            (name, stored.answer.item_id, stored.answer.answers["gender"].label)
            for name in names
            for stored in store.answers(name)
        ]
    expected = Counter(seen.confirmed.values())
    lost, more = expected - Counter(kept), Counter(kept) - expected
    with sqlite3.connect(f"file:{folder / 'labelling.sqlite'}?mode=ro", uri=True) as connection:
        (logged,) = connection.execute("SELECT count(*) FROM log").fetchone()
    return (
        f"{len(kept):,} in the store, {logged:,} lines in its log; lost {lost.total()}, "
        f"doubled or never confirmed {more.total()}"
    )


def quantiles(values: Sequence[float]) -> str:
    """Milliseconds in one line."""
    parts = statistics.quantiles(values, n=100)
    return f"median {parts[49]:.0f}, 95 % {parts[94]:.0f}, 99 % {parts[98]:.0f}, longest {max(values):.0f} ms"


def certificate_in(folder: Path) -> tuple[list[str], ssl.SSLContext]:
    """The desk's options for TLS, with a certificate that openssl makes, and what clients trust."""
    certificate, key = folder / "one.pem", folder / "one-key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    key.chmod(0o600)
    options = ["--certificate", str(certificate), "--key", str(key)]
    return options, ssl.create_default_context(cafile=str(certificate))


def main() -> None:
    """Make the image set, let everybody label, kill, flood, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--answers", type=int, default=50_000, help="of all clients together")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--flood", type=int, default=1_500, help="half-open connections at any time; 0: none")
    parser.add_argument("--pause", type=float, default=1.0, help="mean seconds between a picture and its answer")
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "images_of_benchmark"
        make_image_set(folder, -(-options.answers // options.clients))
        certificate, tls = certificate_in(Path(name)) if options.tls else ([], None)
        desk = Desk(folder, [f"c{number:03d}" for number in range(options.clients)], certificate)
        desk.start()
        arguments = [sys.executable, __file__, "flood", str(desk.port), str(options.flood)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as flooding:
            began = time.perf_counter()
            try:
                seen = asyncio.run(load(desk, options, tls))
            finally:
                seconds = time.perf_counter() - began
                flooding.terminate()
                opened = int(flooding.communicate()[0])
                desk.stop()
        print(machine())
        print(
            f"{options.clients} clients, {len(seen.answers):,} answers in {seconds:.0f} s "
            f"({len(seen.answers) / seconds:.0f} a second), {desk.kills} kills, {options.flood:,} half-open "
            f"connections at any time ({opened:,} opened)"
        )
        print(f"answers: {quantiles(seen.answers)}   (to reach: median below {TO_REACH})")
        print(f"pictures: {quantiles(seen.pictures)}")
        if desk.seconds_away:
            print(f"from kill to open again: {quantiles([1000 * each for each in desk.seconds_away])}")
        print(
            f"sent again {seen.sent_again:,}, answered as repeated {seen.repeated}, refused {dict(seen.refused)}"
        )
        print(f"confirmed {len(seen.confirmed):,}, {check(folder, seen)}")
        print(f"most memory of the server: {desk.most_memory} MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        asyncio.run(flood(int(sys.argv[2]), int(sys.argv[3])))
    else:
        main()
