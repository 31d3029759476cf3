"""Small image sets and studies that the programs of this folder attack; detectors judge by the mean colour."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

PLUGIN = REPOSITORY / "tests" / "small_parts.py"
"""Detectors that are quick and real; who runs commands in a process of its own names it with `--plugin`."""

MODULES = (
    "detector_bench.cli.app",
    "detector_bench.cli.studies",
    "detector_bench.cli.detectors",
    "detector_bench.cli.image_sets",
    "detector_bench.cli.progress",
    "detector_bench.study",
    "detector_bench.tables.tables_of_study",
    "detector_bench.dataset.validation",
    "small_parts",
)
"""What a small study needs."""

ATTRIBUTE: dict[str, Any] = {
    "name": "headwear",
    "question": "What does the person wear on the head?",
    "classes": [
        {"name": "hat", "text": "A hat", "offered": "Hat", "answers": ["hat", "cap"]},
        {"name": "scarf", "answers": ["scarf", "veil"]},
        {"name": "nothing"},
    ],
}
"""An image set's own attribute, with the keys that it may have."""

STUDY: dict[str, Any] = {
    "name": "small",
    "attributes": ["gender"],
    "n_clear": "human",
    "max_error_share": 0.5,
    "batch_size": 7,
    "max_pixels": 100_000,
    "intervals": {"method": "bca", "level": 0.9, "resamples": 200, "unit": "prompt", "seed": 3, "prompts": True},
    "estimated_labels": "none",
    "tolerance": {"prompt_bias_error": 0.1, "model_bias_score_error": 0.2},
    "question": "Who can count?",
    "author": "A. Author",
    "date": "May 2026",
    "display_names": {"strict": "Strict one", "A": "Model A"},
    "table_style": {"shaded": True, "mark_worst": True},
    "scores": [{"system": "representation"}],
    "detectors": [
        "test-age-and-gender",
        {"name": "strict", "kind": "test-colour", "green": 90, "gain": 1.0, "seconds": 0.0},
        {"kind": "test-brightness", "threshold": 80.0},
    ],
}
"""A study that runs, with every key of a study file."""

_NEEDED: dict[str, dict[str, Any]] = {
    "onnx": {
        "network": {"path": "net.onnx"},
        "input": {"size": [8, 8]},
        "outputs": {
            "gender": {"read": "classes", "output": "answers", "classes": ["male", "female"]},
            "age": {"read": "age", "output": "age"},
        },
    },
    "composite": {"parts": {"gender": {"kind": "clip"}, "age": {"kind": "age-and-gender"}}},
    "vlm_judge": {"model": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m", "prices": {}}},
}


@cache
def image_set() -> Path:
    """Twelve images with labels, written once."""
    from small_parts import write_image_set

    return write_image_set(Path(tempfile.mkdtemp(prefix="torture-set-")) / "images", 12)


@cache
def detector_entries() -> tuple[dict[str, Any], ...]:
    """Every kind of detector with every key that it has, those of its stages included, at the default's value."""
    from detector_bench.detectors.base import DETECTORS, build_detector
    from detector_bench.errors import DetectorBenchError

    entries = []
    for kind in DETECTORS.names():
        try:
            settings = build_detector(kind, parameters=_NEEDED.get(kind, {})).settings
            build_detector(kind, parameters=settings)
        except DetectorBenchError:
            settings = _NEEDED.get(kind, {})
        entries.append({"name": f"my-{kind}", "kind": kind, **settings})
    return tuple(entries)


def text_of(content: Any) -> str:
    """Plain data as YAML."""
    return yaml.safe_dump(content, sort_keys=False, width=100)
