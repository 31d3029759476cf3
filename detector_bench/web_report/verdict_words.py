"""A verdict in sentences that a journalist can quote and a reviewer can check."""

from __future__ import annotations

import math
from collections.abc import Sequence

from detector_bench.report.metric_lookup import Number
from detector_bench.web_report.verdict import Evidence, ModelVerdict, Outcome, Standing, Tolerance, Verdict

_SCALE = "0 is perfect, 2 the worst"


def headline(verdict: Verdict, *, level: float = 0.95) -> tuple[str, ...]:
    """For every T2I model a sentence or two: whom to trust, and how sure that is.

    Args:
        verdict: of one attribute.
        level: of the intervals, 0.95 for 95 %.
    """
    perceived, interval = _perceived(verdict.attribute), f"{100 * level:g} % interval"
    return tuple(
        f"For {each.t2i_model}, {_conclusion(each, perceived, verdict.tolerance, interval=interval)}"
        for each in verdict.by_model
    ) or (f"No T2I model was judged, so nothing can be said about detectors of {perceived}.",)


def sentences(verdict: ModelVerdict, *, tolerance: Tolerance, level: float = 0.95) -> tuple[str, ...]:
    """What stands behind the headline for one T2I model.

    Args:
        verdict: the T2I model's.
        tolerance: how far off is near enough.
        level: of the intervals, 0.95 for 95 %.
    """
    best = _best(verdict)
    if best is None:
        return ("No detector has a score for the images of this T2I model.",)
    found = [_numbers(best, verdict, level=level), _prompts(best), *_ranking(verdict, best)]
    found += _too_far_off(verdict, tolerance)
    if verdict.outcome is Outcome.NOT_SHOWN:
        found.append("More labelled images for every prompt would narrow the intervals, and might settle it.")
    if verdict.outcome is Outcome.NO_INTERVALS:
        found.append("The metric table holds no intervals, so nobody knows how sure these numbers are.")
    if without := [each.detector for each in verdict.evidence if each.standing is Standing.NO_SCORE]:
        found.append(f"Without a score here: {listing(without)}.")
    return tuple(found)


def rule(tolerance: Tolerance, *, level: float = 0.95, resamples: int = 10_000) -> str:
    """How the verdict was reached.

    Args:
        tolerance: how far off is near enough.
        level: of the intervals.
        resamples: that the ranking rests on.
    """
    return (
        f"A detector counts as good enough for a T2I model if the {100 * level:g} % intervals of both its bias "
        f"errors stay within a tolerance: at most {_percent(tolerance.deviation)} off the actual model bias "
        f"score, and on average at most {tolerance.difference:g} off the actual prompt bias scores ({_SCALE}). "
        "The tolerance is a choice, no result. Detectors are ordered by the mean of their ranks by the two "
        "errors; two of them cannot be told apart if a paired bootstrap of the images "
        f"({resamples:,} resamples, Holm's adjustment over all pairs) leaves it open which is better. The human "
        "labels are taken for the truth."
    )


def off(value: float) -> str:
    """A deviation in words: -0.072 is `7.2 % too low`."""
    if math.isnan(value):
        return "undefined"
    size = _percent(abs(value))
    if size == "0.0 %":
        return "not off"
    return f"{size} too {'high' if value > 0 else 'low'}"


def off_between(low: float, high: float) -> str:
    """An interval of a deviation in words: `36 % too low to 32 % too high`, or `4.0 % to 12 % too low`."""
    if low < 0 < high:
        return f"{off(low)} to {off(high)}"
    near, far = sorted((low, high), key=abs)
    return f"{_percent(abs(near))} to {off(far)}"


def listing(names: Sequence[str], *, last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _conclusion(verdict: ModelVerdict, perceived: str, tolerance: Tolerance, *, interval: str) -> str:
    best = _best(verdict)
    if best is None:
        return f"there is no detector of {perceived} to compare."
    error, doubt = _decisive_error(best, tolerance)
    bounded = f"{error} ({interval}: {doubt})" if doubt else error
    task = f"the bias in {perceived}"
    if verdict.outcome is Outcome.TRUST:
        who = "its score" if len(verdict.trusted) == 1 else f"the score of {best.detector}"
        return f"{listing(verdict.trusted, last='or')} can be trusted to measure {task}: {who} is {bounded}."
    if verdict.outcome is Outcome.NOT_SHOWN:
        return (
            f"no detector is shown to measure {task} well enough. {best.detector} comes first: its score is "
            f"{error}, but these images leave open anything from {doubt}."
        )
    if verdict.outcome is Outcome.NO_INTERVALS:
        return (
            f"no detector can be called trustworthy. {best.detector} comes first, its score is {error}; but the "
            "numbers have no intervals, so nobody knows how sure that is."
        )
    return f"no detector measures {task} well enough: even the score of the first, {best.detector}, is {bounded}."


def _decisive_error(best: Evidence, tolerance: Tolerance) -> tuple[str, str]:
    """The error that decides, with its interval in words: that of single prompts where the deviation would do."""
    deviation, difference = best.deviation, best.difference
    deviation_will_do = _bounded(deviation) and (
        -tolerance.deviation <= deviation.ci_low and deviation.ci_high <= tolerance.deviation
    )
    if deviation.missing or (deviation_will_do and best.standing is not Standing.GOOD_ENOUGH):
        doubt = f"{difference.ci_low:.3f} to {difference.ci_high:.3f}" if _bounded(difference) else ""
        return f"off by {difference.value:.3f} prompt by prompt", doubt
    return off(deviation.value), off_between(deviation.ci_low, deviation.ci_high) if _bounded(deviation) else ""


def _best(verdict: ModelVerdict) -> Evidence | None:
    """The first of the trusted ones, else the first of all."""
    trusted = [each for each in verdict.evidence if each.standing is Standing.GOOD_ENOUGH]
    return trusted[0] if trusted else verdict.first


def _numbers(best: Evidence, verdict: ModelVerdict, *, level: float) -> str:
    where = "comes first" if best is verdict.first else "is the first that is good enough"
    if best.deviation.missing:
        return (
            f"{best.detector} {where}. The human labels show a model bias score of {verdict.actual.value:.3f}, "
            "from which no deviation can be formed as a part of it; the prompts decide alone."
        )
    doubt = ""
    if _bounded(best.deviation):
        low, high = best.deviation.ci_low, best.deviation.ci_high
        doubt = f" ({100 * level:g} % interval: {off_between(low, high)})"
    return (
        f"{best.detector} {where}: it reports a model bias score of {best.reported.value:.3f} where the human "
        f"labels of {verdict.images:,} images give {verdict.actual.value:.3f}. That is "
        f"{off(best.deviation.value)}{doubt}."
    )


def _prompts(best: Evidence) -> str:
    doubt = ""
    if _bounded(best.difference):
        doubt = f"{best.difference.ci_low:.3f} to {best.difference.ci_high:.3f}; "
    return (
        f"Prompt by prompt it is off by {best.difference.value:.3f} on average ({doubt}{_SCALE}); errors on "
        "single prompts can even out in the score over all of them."
    )


def _ranking(verdict: ModelVerdict, best: Evidence) -> list[str]:
    scored = [each for each in verdict.evidence if each.standing is not Standing.NO_SCORE]
    if len(scored) == 1:
        return ["It is the only detector with a score."]
    first = scored[0]
    if math.isnan(first.probability_best):
        return []
    like = [each.detector for each in scored[1:] if each.like_the_first]
    unlike = [each.detector for each in scored[1:] if not each.like_the_first]
    subject = "It" if best is first else first.detector
    found = [
        f"{subject} is the best in {_share(first.probability_best)} of the resamples"
        + (f", and cannot be told apart from {listing(like)}." if like else ".")
    ]
    if unlike:
        found.append(f"Worse than {first.detector}, beyond what chance explains: {listing(unlike)}.")
    return found


def _too_far_off(verdict: ModelVerdict, tolerance: Tolerance) -> list[str]:
    parts = []
    for each in verdict.evidence:
        if each.standing is Standing.TOO_FAR_OFF:
            beyond = _bounded(each.deviation) and (
                each.deviation.ci_low > tolerance.deviation or each.deviation.ci_high < -tolerance.deviation
            )
            how = off(each.deviation.value) if beyond else f"{each.difference.value:.3f} off prompt by prompt"
            parts.append(f"{each.detector} ({how})")
    return [f"Too far off, whatever chance did: {listing(parts)}."] if parts else []


def _bounded(number: Number) -> bool:
    return math.isfinite(number.ci_low) and math.isfinite(number.ci_high)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def _share(share: float) -> str:
    return "less than 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _perceived(attribute: str) -> str:
    return f"perceived {attribute.replace('_', ' ')}"
