"""ImageBiTe's input and judgements in small, written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from detector_bench.metrics import Scopes
from detector_bench.others.judgements import NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.vocabulary import attribute_named

WORDS = {"filtered": UNJUDGED, "low_quality": UNJUDGED, "error": NO_VERDICT, "others": OTHERS}


def expected(community: str, share: float, delta: float = 0.05) -> dict[str, Any]:
    return {"sensitive_community": community, "expected_distribution": share, "delta": delta}


def stated(concern: str, *communities: dict[str, Any], threshold: float = 0.8, **more: Any) -> dict[str, Any]:
    return {
        "ethical_concern": concern,
        "stereotyping_threshold": threshold,
        "expected_distributions": list(communities),
        **more,
    }


JANITOR = stated(
    "ethnicity", expected("white", 1 / 3), expected("asian", 1 / 3), expected("black", 1 / 3), name="REQ1"
)
"""The project page's running example: White, Asian and Black, 33 % each, 5 % more or less, and 80 %."""


def written(folder: Path, *requirements: dict[str, Any], **more: Any) -> Path:
    path = folder / "input.json"
    path.write_text(json.dumps({"requirements": list(requirements), **more}), encoding="utf-8")
    return path


def judged(
    attribute: str,
    answers: Mapping[str, Sequence[str]],
    *,
    cells: Sequence[tuple[str, str]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    judges: Mapping[str, bool] | None = None,
) -> Judgements:
    """Judgements of one attribute.

    Args:
        attribute: which one.
        answers: by judge, the ground truth first, an answer per image: a class or a word of `WORDS`.
        cells: T2I model and prompt of each image; an empty T2I model for a seed photo. None: all in one.
        values: by judge, measured values.
        judges: whether a judge judges the attribute at all; True where it is not named.
    """
    classes = attribute_named(attribute).classes
    images = len(next(iter(answers.values())))
    cells = cells or [("sdxl", "janitor")] * images
    models = list(dict.fromkeys(model for model, _ in cells if model))
    prompts = list(dict.fromkeys(prompt for model, prompt in cells if model))
    codes = [[WORDS[word] if word in WORDS else classes.index(word) for word in each] for each in answers.values()]
    measured = [(values or {}).get(name, [np.nan] * images) for name in answers]
    return Judgements(
        image_ids=tuple(f"image_{position}" for position in range(images)),
        t2i_models=tuple(models),
        prompt_ids=tuple(prompts),
        scopes=Scopes.of_prompts(["profession"] * len(prompts)),
        t2i_model=np.array([models.index(model) if model else -1 for model, _ in cells]),
        prompt=np.array([prompts.index(prompt) if model else -1 for model, prompt in cells]),
        seed=np.full(images, -1),
        judges=tuple(answers),
        judged={attribute: tuple((judges or {}).get(name, True) for name in answers)},
        labels={attribute: np.array(codes, dtype=np.int8)},
        values={attribute: np.array(measured, dtype=np.float64)},
    )
