"""How much the headline numbers depend on who labelled, in a sentence."""

from __future__ import annotations

import math
from typing import NamedTuple

from detector_bench.metrics import metric_info
from detector_bench.tables.label_doubt_lookup import Band, LabelDoubtLookup
from detector_bench.tables.metric_lookup import MetricLookup
from detector_bench.vocabulary import ALL

_SAID = {
    "filter_rate": "filter rate",
    "accuracy": "accuracy",
    "model_bias_score_error": "model bias score error",
}
"""The filter, the class, the bias: of each the detector whose number depends most on who labelled."""


class _Widest(NamedTuple):
    metric: str
    detector: str
    t2i_model: str
    band: Band


def label_doubt_words(consensus: MetricLookup, doubt: LabelDoubtLookup) -> str:
    """Say how far filter rate, accuracy and model bias score error depend on who labelled; empty if nobody knows.

    Args:
        consensus: the metric table's numbers.
        doubt: those by other labels.
    """
    found = [widest for metric in _SAID if (widest := _widest(metric, consensus, doubt)) is not None]
    if not found:
        return ""
    several = len(consensus.t2i_models) > 1
    parts = [_in_words(each, several=several) for each in found]
    return (
        "How much depends on who labelled? By the consensus, by one annotator alone, or on the images on which "
        f"all agree, {', '.join(parts)}: of each, the detector for which it matters most. Nobody's labels are the "
        "truth."
    )


def _widest(metric: str, consensus: MetricLookup, doubt: LabelDoubtLookup) -> _Widest | None:
    models = consensus.t2i_models if metric_info(metric).counted == "prompts" else (ALL,)
    bands = []
    for detector in consensus.detectors:
        for model in models:
            number = consensus.number(metric, detector=detector, t2i_model=model)
            band = doubt.band(metric, number, detector=detector, t2i_model=model)
            if doubt.by_labels and math.isfinite(band.low) and not consensus.could_not_run(detector, model):
                bands.append(_Widest(metric, detector, model, band))
    return max(bands, key=lambda each: each.band.high - each.band.low, default=None)


def _in_words(found: _Widest, *, several: bool) -> str:
    place = f" on {found.t2i_model}" if several and found.t2i_model != ALL else ""
    low, high = found.band
    if metric_info(found.metric).kind == "fraction":
        numbers = f"{100 * low:.1f} to {100 * high:.1f} %"
    else:
        numbers = f"{low:+.3f} to {high:+.3f}".replace("-", "\N{MINUS SIGN}")
    return f"the {_SAID[found.metric]} of {found.detector}{place} is {numbers}"
