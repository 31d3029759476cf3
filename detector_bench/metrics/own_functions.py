"""Functions of counts that somebody else wrote: tried when they are declared, and checked whenever they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.metrics.counts import CountArray, Score, count_images, images_without_verdict
from detector_bench.metrics.scopes import Scopes, mean_over_prompts, one_prompt_each

_LEADING = (2, 3)
"""Axes of the counts that functions are tried on."""

_MOST_IMAGES = 20


def guarded(
    function: Callable[..., Any], name: str, *, over_images: bool, per_class: bool, share: bool
) -> Callable[..., Score]:
    """The function with a `Score` of the right shape as its answer, or a `ConfigError` that says what is wrong.

    Args:
        function: from counts `[..., truth, verdict]` to a `Score` or an array.
        name: the metric's.
        over_images: for an array `n` is the images with a verdict, and `n_left_out` those without; otherwise both
            say whether a prompt with images has a value.
        per_class: it answers with one number for each class.
        share: it has to say what it is a share of.
    """

    @wraps(function)
    def checked(counts: CountArray, **keywords: Any) -> Score:
        try:
            with np.errstate(all="ignore"):
                found = function(counts, **keywords)
            if share and not isinstance(found, Score):
                raise ConfigError(
                    f"metric {name!r}: it returns {type(found).__name__} (accepted: a Score, whose n says what a "
                    "share is a share of)"
                )
            value = np.asarray(found.value if isinstance(found, Score) else found, dtype=np.float64)
        except DetectorBenchError:
            raise
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            classes = counts.shape[-1] - 2
            raise ConfigError(
                f"metric {name!r}: of counts of shape {counts.shape}, an attribute of {classes} classes, it makes "
                f"no number: {why} (accepted: counts of any K, or two_classes=True)"
            ) from error
        shape = (*counts.shape[:-2], *((counts.shape[-1] - 2,) if per_class else ()))
        if value.shape != shape:
            raise ConfigError(
                f"metric {name!r}: of counts of shape {counts.shape} it makes numbers of shape {value.shape} "
                f"(accepted: {shape}, one for each element of the leading axes{' and class' if per_class else ''})"
            )
        if isinstance(found, Score):
            return Score(value, *(np.broadcast_to(each, shape) for each in found[1:]))
        if not over_images:
            return one_prompt_each(value, counts)
        without = images_without_verdict(counts)
        numbers = (count_images(counts) - without, without)
        return Score(value, *(np.broadcast_to(each[..., None] if per_class else each, shape) for each in numbers))

    return checked


def checked_by_trial(
    function: Callable[..., Score],
    name: str,
    keywords: Mapping[str, Any],
    *,
    sizes: Sequence[int],
    lowest: float,
    highest: float | None,
) -> None:
    """Try a guarded function on made-up counts of attributes of several sizes, one set of them without images.

    Raises:
        ConfigError: it cannot answer, leaves its range, divides by 0, or changes the counts.
    """
    random = np.random.default_rng(0)
    for classes in sizes:
        counts = random.integers(0, _MOST_IMAGES, size=(*_LEADING, classes + 2, classes + 2))
        counts[0, 0] = 0
        given = counts.copy()
        values = function(given, **keywords).value
        if not (given == counts).all():
            raise ConfigError(
                f"metric {name!r}: it changes the counts that it is given (accepted: a change of a copy)"
            )
        if np.isinf(values).any():
            raise ConfigError(
                f"metric {name!r}: it divides by 0 (accepted: NaN where a denominator is empty, as `divide` of "
                "detector_bench.metrics gives it)"
            )
        outside = values[(values < lowest) | (values > (np.inf if highest is None else highest))]
        if outside.size:
            raise ConfigError(
                f"metric {name!r}: a value of {outside[0]:g} (accepted: {lowest:g} "
                f"{'or more' if highest is None else f'to {highest:g}'}, as its `lowest` and `highest` say)"
            )


def mean_of_terms(term: Callable[..., Score]) -> Callable[..., Score]:
    """The mean of a function of single prompts over all pairs of T2I model and prompt, or those of each scope."""

    @wraps(term)
    def mean(counts: CountArray, *, scopes: Scopes | None = None, **keywords: Any) -> Score:
        return mean_over_prompts(one_prompt_each(term(counts, **keywords).value, counts), scopes)

    return mean
