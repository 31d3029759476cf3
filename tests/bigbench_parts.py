"""Made-up answers about images, and numbers out of the rows that BIGbench's scores make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from detector_bench.metrics import Scopes
from detector_bench.others.judgements import NO_CELL, NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.vocabulary import ATTRIBUTES

CODES = {"?": UNJUDGED, "-": NO_VERDICT, "others": OTHERS}

Said = Mapping[str, Sequence[str]]
"""By attribute: a word for each image; ? is unjudged, - is no verdict."""


def judged(
    places: Sequence[tuple[str, str]], judges: Mapping[str, Said], *, categories: Mapping[str, str]
) -> Judgements:
    """Answers about images at (T2I model, prompt); prompts in the order of `categories`."""
    models = tuple(dict.fromkeys(model for model, _ in places if model))
    prompts = tuple(categories)
    attributes = list(dict.fromkeys(name for said in judges.values() for name in said))

    def codes(attribute: str, words: Sequence[str]) -> list[int]:
        classes = ATTRIBUTES[attribute].classes
        return [CODES[word] if word in CODES else classes.index(word) for word in words]

    nothing = ["-"] * len(places)
    return Judgements(
        image_ids=tuple(f"i{number}" for number in range(len(places))),
        t2i_models=models,
        prompt_ids=prompts,
        scopes=Scopes.of_prompts([categories[prompt] for prompt in prompts]),
        t2i_model=np.array([models.index(model) if model else NO_CELL for model, _ in places]),
        prompt=np.array([prompts.index(prompt) if prompt else NO_CELL for _, prompt in places]),
        seed=np.full(len(places), NO_CELL),
        judges=tuple(judges),
        judged={name: tuple(name in said for said in judges.values()) for name in attributes},
        labels={
            name: np.array([codes(name, said.get(name, nothing)) for said in judges.values()], dtype=np.int8)
            for name in attributes
        },
        values={name: np.full((len(judges), len(places)), np.nan) for name in attributes},
    )


def number(
    rows: pd.DataFrame, metric: str, detector: str = "ground_truth", **words: str
) -> tuple[float, int, int]:
    """Value, n and n_left_out of the one row; scopes are "all" where nothing is said."""
    wanted = {"t2i_model": "all", "category": "all", "prompt_id": "all", "attribute": "gender"} | words
    if "prompt_id" in words and "category" not in words:
        del wanted["category"]
    found = rows[(rows["metric"] == metric) & (rows["detector"] == detector)]
    for column, word in wanted.items():
        found = found[found[column] == word]
    assert len(found) == 1, (metric, detector, wanted, len(found))
    row = found.iloc[0]
    return float(row["value"]), int(row["n"]), int(row["n_left_out"])
