"""`representation_shares.csv`: the shares behind every distance, for the tables and the figure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.representation import expected_limits
from detector_bench.others.judgements import Judgements
from detector_bench.others.representation.groups import Compared


def shares_table(
    judgements: Judgements,
    compared: Compared,
    *,
    variant: str,
    shown: CountArray,
    reference: FloatArray,
    p_values: FloatArray,
) -> pd.DataFrame:
    """A row for each judge, T2I model, prompt and class that has a reference.

    Args:
        judgements: with what is compared among what is judged.
        compared: the attribute or pair.
        variant: the reference's name.
        shown: clear images, `[judge, t2i_model, prompt, class]`.
        reference: `[prompt, class]`.
        p_values: adjusted, `[judge, t2i_model, prompt]`.

    Returns:
        Columns `detector, attribute, variant, t2i_model, category, prompt_id, class, images` (clear and of the
        class), `n` (all clear ones), `share`, `reference`, `expected_low` and `expected_high` (where 95 % of the
        shares lie that chance gives with the reference), `p_value` (of the prompt, adjusted).
    """
    judged = np.array(judgements.judged[compared.name])[:, np.newaxis, np.newaxis]
    there = judged & (judgements.images > 0) & ~np.isnan(reference).any(axis=-1)
    judge, model, prompt = np.nonzero(there)
    images, of_prompt = shown[judge, model, prompt], reference[prompt]
    n = images.sum(axis=-1, keepdims=True)
    low, high = expected_limits(n, of_prompt)
    classes = len(compared.classes)

    def repeated(values: object) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return np.repeat(np.asarray(values), classes)

    return pd.DataFrame(
        {
            "detector": repeated(np.array(judgements.judges, dtype=object)[judge]),
            "attribute": compared.name,
            "variant": variant,
            "t2i_model": repeated(np.array(judgements.t2i_models, dtype=object)[model]),
            "category": repeated(judgements.scopes.category_words[prompt]),
            "prompt_id": repeated(np.array(judgements.prompt_ids, dtype=object)[prompt]),
            "class": np.tile(np.array(compared.classes, dtype=object), len(judge)),
            "images": images.astype(np.int64).ravel(),
            "n": repeated(n.astype(np.int64)[:, 0]),
            "share": divide(images, n).ravel(),
            "reference": of_prompt.ravel(),
            "expected_low": low.ravel(),
            "expected_high": high.ravel(),
            "p_value": repeated(p_values[judge, model, prompt]),
        }
    )
