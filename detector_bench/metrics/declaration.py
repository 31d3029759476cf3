"""`@metric(...)`: how a function of counts becomes a metric, and what it must be for that."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any, TypeVar, get_args

import numpy as np

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics.catalogue import CLASS, METRICS, OF_PACKAGE, Better, Kind, MetricInfo, Over, Rows
from detector_bench.metrics.own_functions import checked_by_trial, guarded, mean_of_terms

_NAME = re.compile(r"[a-z][a-z0-9_]*(<class>|<label>)?")
_F = TypeVar("_F", bound=Callable[..., Any])


def metric(
    name: str = "",
    *,
    over: Over | None,
    definition: str = "",
    share: bool = False,
    per_class: bool = False,
    swept: int | bool = False,
    **more: Any,
) -> Callable[[_F], _F]:
    """Declare a function of counts as a metric.

    Over images the function takes counts `[..., truth, verdict]` and returns one number for each element of the
    leading axes (one for each class, `[..., K]`, with `per_class`): a `Score`, or an array, for which `n` is the
    images with a verdict and `n_left_out` those without. Over prompts it takes the counts of a prompt in the
    same way; the metric is the mean over all pairs of T2I model and prompt for which the number is no NaN. (A
    function of detector_bench that takes `scopes` does all of this itself.) It may take `n_clear`, and then gets
    the study's. Leading axes can be any number of detectors, resamples or thresholds; counts can be floats; NaN
    stands for an empty denominator.

    Its docstring begins with what the metric says and how it is computed: "MEANING: DEFINITION."

    Args:
        name: in metric tables; by default the function's.
        over: "images": a function of all images of a scope; "prompts": a mean over prompts; None: no function of
            counts, so that something else has to put it into a metric table.
        definition: how it is computed; by default as the docstring says.
        share: the number is a share of `Score.n` images: it gets Wilson's interval.
        per_class: one number for each class; the metrics are called `<name>_<class>`.
        swept: whether threshold sweeps show it (an int: its place).
        more: other fields of `MetricInfo`, such as `better`, `lowest`, `highest`, `kind`, `left_out`, `rows` and
            `column`.

    Returns:
        The function, as it was.

    Raises:
        ConfigError: a declaration or a function that cannot work, or a name that is taken.
    """
    unknown = sorted(more.keys() - MetricInfo.__dataclass_fields__.keys())
    if unknown:
        raise ConfigError(f"metric: {unknown[0]!r}: {nearest_hint(unknown[0], MetricInfo.__dataclass_fields__)}")

    def declare(function: _F) -> _F:
        own_name = f"{name or function.__name__}{f'_{CLASS}' if per_class else ''}"
        if not _NAME.fullmatch(own_name):
            raise ConfigError(f"metric name {own_name!r} (accepted: small letters, digits and _, a letter first)")
        parameters = signature(function).parameters
        meaning, computed = _first_sentence(function)
        if not (definition or computed):
            raise ConfigError(
                f"metric {own_name!r}: no definition (accepted: a docstring that begins 'MEANING: DEFINITION.')"
            )
        info = MetricInfo(
            name=own_name,
            meaning=meaning,
            definition=definition or computed,
            over=over,
            function=None if over is None else function,
            depends_on_n_clear="n_clear" in parameters,
            swept=1_000 if swept is True else int(swept),
            **{"counted": over, "form": "share" if share else "distance", **more},
        )
        _check_words(info)
        if info.form == "distance" and (info.highest is None or np.isinf(info.lowest)):
            info = replace(info, form="standard error")
        if over is not None and not function.__module__.startswith(OF_PACKAGE):
            info = _own(info, function)
        if over == "prompts" and "scopes" not in parameters:
            term = info.function or function
            info = replace(info, function=mean_of_terms(term), term=term, is_mean_of_terms=True)
        METRICS.add(info)
        function.metric_info = info  # type: ignore[attr-defined]
        return function

    return declare


def _check_words(info: MetricInfo) -> None:
    words = [("over", info.over, Over), ("better", info.better, Better), ("kind", info.kind, Kind)]
    for option, word, accepted in (*words, *(("rows", each, Rows) for each in info.rows)):
        if word is not None and word not in get_args(accepted):
            raise ConfigError(
                f"metric {info.name!r}: {option}: {word!r} (accepted: {', '.join(get_args(accepted))})"
            )


def _first_sentence(function: Callable[..., Any]) -> tuple[str, str]:
    """What a docstring's first paragraph says before and behind its colon."""
    paragraph = (function.__doc__ or function.__name__.replace("_", " ")).strip().split("\n\n")[0]
    meaning, _, definition = " ".join(paragraph.split()).removesuffix(".").partition(": ")
    small = meaning[:1].lower() + meaning[1:] if meaning[1:2].islower() else meaning
    return small, definition


def _own(info: MetricInfo, function: Callable[..., Any]) -> MetricInfo:
    """A metric that does not belong to detector_bench, tried out."""
    METRICS.check_free(info)
    over_images, share = info.over == "images", info.form == "share"
    tried = guarded(function, info.name, over_images=over_images, per_class=CLASS in info.name, share=share)
    sizes = (2,) if info.two_classes else (2, 3)
    keywords = {"n_clear": "detector"} if info.depends_on_n_clear else {}
    checked_by_trial(tried, info.name, keywords, sizes=sizes, lowest=info.lowest, highest=info.highest)
    left_out = "images without a verdict" if over_images else "prompts without a value"
    return replace(info, function=tried, left_out=info.left_out or left_out)
