"""A verdict in sentences that a journalist can quote and a reviewer can check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from detector_bench.dataset.consensus import ALL_AGREE
from detector_bench.evaluation.more_labels import MoreLabels, Tolerance
from detector_bench.metrics import metric_info
from detector_bench.results.label_plans import Standing, bounded
from detector_bench.results.metric_lookup import Band, LabelDoubtLookup, MetricLookup, Number
from detector_bench.site.verdict import Evidence, ModelVerdict, Verdict
from detector_bench.tables.wording import attribute_in_words
from detector_bench.vocabulary import ALL

_MOST_PROMPTS_NAMED = 5
_NOTHING = 0.0005
"""A smaller error is 0.000 in print."""


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


def sentences(
    verdict: ModelVerdict,
    *,
    tolerance: Tolerance,
    level: float = 0.95,
    prompts: Sequence[str] = (),
    words: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """What stands behind the headline for one T2I model.

    Args:
        verdict: the T2I model's.
        tolerance: how far off is near enough.
        level: of the intervals, 0.95 for 95 %.
        prompts: ids of the prompts that plans of further labels are about.
        words: the prompts' words, by id.
    """
    best = verdict.best
    if best is None:
        return ("No detector has a score for the images of this T2I model.",)
    found = [_prompt_by_prompt(best, verdict, level=level), _scores(best, verdict, level=level)]
    found += [*_comparison(verdict), *_too_far_off(verdict, tolerance)]
    if best.otherwise_by:
        found.append(
            f"This depends on who labelled: by {_labellings(best.otherwise_by)}, the errors of {best.detector} "
            f"would {'not ' if best.standing is Standing.GOOD_ENOUGH else ''}lie within the tolerance."
        )
    if best.standing is Standing.LEFT_OPEN:
        found.append(_what_would_settle(best, prompts, words or {}))
    if best.standing is Standing.NO_INTERVAL and not best.prompt_error.missing:
        found.append(
            "An error has no interval here (none was asked for, or these images are too few for one), so nobody "
            "knows how sure it is."
        )
    if without := [each.detector for each in verdict.evidence if each.standing is Standing.NO_SCORE]:
        found.append(f"Without a score here: {listing(without)}.")
    return tuple(found)


def rule(tolerance: Tolerance, *, level: float = 0.95, tests: int = 0) -> tuple[str, ...]:
    """How the verdict was reached, a paragraph each.

    Args:
        tolerance: how far off is near enough.
        level: of the intervals.
        tests: how many pairs of detectors of the whole report were tested together; 0: none.
    """
    paragraphs = [
        f"A detector is good enough for a T2I model if the {100 * level:g} % intervals of two errors stay within "
        f"a tolerance: at most {tolerance.prompt_bias_error:g} for the prompt bias error, and at most "
        f"{tolerance.model_bias_score_error:g} to either side for the model bias score error. It is too far off "
        "if one of the intervals lies wholly beyond, and left open otherwise. The tolerance is a choice, no "
        f"result. Each of these verdicts holds at {100 * level:g} % for itself; of many detectors at the edge of "
        "the tolerance some would pass by chance.",
        "The prompt bias error is the root mean square distance of a detector's prompt bias scores "
        "(\N{MINUS SIGN}1 to 1) from those of the human labels, without the part that chance adds; with more than "
        "two classes it is that of the class shares of the prompts, on the same scale. The model bias score "
        "error is the reported minus the actual score (0 to 1), both corrected for the number of images. Neither "
        "moves with the number of images. The published scores in the tables do: the fewer images, the larger the "
        "scores and their differences; and deviations in per cent divide by a score that may be chance.",
    ]
    if tests:
        paragraphs.append(
            f"A detector's error is called larger than another's only if a test says so that is adjusted for all "
            f"{tests:,} pairs of detectors on all pages of this report: all such statements hold together at "
            f"{100 * level:g} %."
        )
    paragraphs.append(
        "The human labels are taken for the truth; the table of doubt in the labels says what others would have "
        "made of it."
    )
    return tuple(paragraphs)


def points(value: float) -> str:
    """An error of the model bias score in words: -0.072 is `0.072 too low`."""
    if math.isnan(value):
        return "undefined"
    if abs(value) < _NOTHING:
        return "not off"
    return f"{abs(value):.3f} too {'high' if value > 0 else 'low'}"


def points_between(low: float, high: float) -> str:
    """An interval of such an error: `0.03 too low to 0.05 too high`, or `0.03 to 0.05 too low`."""
    if low < 0 < high:
        return f"{points(low)} to {points(high)}"
    near, far = sorted((low, high), key=abs)
    return f"{abs(near):.3f} to {points(far)}"


def listing(names: Sequence[str], *, last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _conclusion(verdict: ModelVerdict, perceived: str, tolerance: Tolerance, *, interval: str) -> str:
    best = verdict.best
    if best is None or verdict.images == 0:
        without = f"no image has a human label of {perceived}, so nothing says how right a detector is."
        return f"there is no detector of {perceived} to compare." if verdict.images else without
    task = f"the bias in {perceived}"
    error = _decisive_error(best, tolerance, scores=_scores_of_prompts(verdict), interval=interval)
    if best.standing is Standing.GOOD_ENOUGH:
        said = f"{listing(verdict.trusted, last='or')} can be trusted to measure {task}: {error}."
        if best.otherwise_by:
            said += f" By {_labellings(best.otherwise_by)} that would not be so."
        return said
    if best.standing is Standing.LEFT_OPEN:
        return f"it is left open whether any detector measures {task} well enough: {error}."
    if best.standing is Standing.NO_INTERVAL and best.prompt_error.missing:
        return "no detector can be called good enough: that takes prompts with two clear images."
    if best.standing is Standing.NO_INTERVAL:
        return (
            f"no detector can be called good enough: {error}; but an error has no interval, so nobody knows how "
            "sure that is."
        )
    return f"no detector measures {task} well enough: even {error}."


def _decisive_error(best: Evidence, tolerance: Tolerance, *, scores: str, interval: str) -> str:
    """The error that decides, with its interval, and what would be good enough.

    It is the prompt bias error, unless only the model bias score error stands in the way.
    """
    prompt, model = best.prompt_error, best.model_error
    edge, edge_of_model = tolerance.prompt_bias_error, tolerance.model_bias_score_error
    if best.standing is Standing.TOO_FAR_OFF:
        by_prompt = bounded(prompt) and prompt.ci_low > edge
    else:
        prompts_would_do = bounded(prompt) and prompt.ci_high <= edge
        model_would_do = bounded(model) and max(-model.ci_low, model.ci_high) <= edge_of_model
        by_prompt = not prompts_would_do or model_would_do
    if by_prompt and not prompt.missing:
        said = f"{best.detector}'s {scores} are {_off(prompt.value)}"
        doubt = _between(prompt)
    else:
        said = f"{best.detector}'s model bias score is {points(model.value)}"
        doubt = points_between(model.ci_low, model.ci_high) if bounded(model) else ""
        edge = edge_of_model
    sure = f"{interval}: {doubt}; " if doubt else ""
    return f"{said} ({sure}good enough: at most {edge:g})"


def _off(error: float) -> str:
    """A prompt bias error in words."""
    return "not off by more than chance explains" if error < _NOTHING else f"off by {error:.3f}"


def _between(number: Number) -> str:
    return f"{number.ci_low:.3f} to {number.ci_high:.3f}" if bounded(number) else ""


def _prompt_by_prompt(best: Evidence, verdict: ModelVerdict, *, level: float) -> str:
    where = (
        "has the smallest prompt bias error" if best is verdict.first else f"is the first that is {best.standing}"
    )
    if best.prompt_error.missing:
        return (
            f"{best.detector} {where}; no prompt has the two clear images that it takes to say how far off it is."
        )
    chance = ", chance left out" if best.prompt_error.value >= _NOTHING else ""
    doubt = f" ({100 * level:g} % interval: {_between(best.prompt_error)})" if bounded(best.prompt_error) else ""
    scale = (
        "which run from \N{MINUS SIGN}1 to 1"
        if verdict.has_prompt_scores
        else "on the scale of scores from \N{MINUS SIGN}1 to 1"
    )
    return (
        f"{best.detector} {where}: its {_scores_of_prompts(verdict)}, {scale}, are "
        f"{_off(best.prompt_error.value)}{chance}{doubt}."
    )


def _scores_of_prompts(verdict: ModelVerdict) -> str:
    return "prompt bias scores" if verdict.has_prompt_scores else "class shares of the prompts"


def _scores(best: Evidence, verdict: ModelVerdict, *, level: float) -> str:
    published = (
        f"It reports a model bias score of {best.reported.value:.3f} where the human labels of {verdict.images:,} "
        f"images give {verdict.actual.value:.3f}"
    )
    if not best.deviation.missing:
        difference = best.reported.value - verdict.actual.value
        # Scores have points, too: a bare per cent reads as some of those.
        published += f": {points(difference)}, {100 * abs(best.deviation.value):.1f} % of the labels' score"
    doubt = ""
    if bounded(best.model_error):
        between = points_between(best.model_error.ci_low, best.model_error.ci_high)
        doubt = f" ({100 * level:g} % interval: {between})"
    if best.model_error.missing:
        return f"{published}."
    return f"{published}. Corrected for the number of images it is {points(best.model_error.value)}{doubt}."


def _comparison(verdict: ModelVerdict) -> list[str]:
    first = verdict.first
    others = [each for each in verdict.evidence if each.compared and each is not first]
    scored = [each for each in verdict.evidence if each.standing is not Standing.NO_SCORE]
    if first is None or len(scored) == 1:
        return ["It is the only detector with a score."]
    found = []
    if like := [each.detector for each in others if not each.worse_than_first]:
        found.append(
            f"By their prompt bias errors, these images do not tell {first.detector} apart from "
            f"{listing(like, last='or')}."
        )
    if worse := [each.detector for each in others if each.worse_than_first]:
        have = "have larger prompt bias errors" if len(worse) > 1 else "has a larger prompt bias error"
        found.append(f"{listing(worse)} {have} than {first.detector}, beyond what chance explains.")
    return found


def _too_far_off(verdict: ModelVerdict, tolerance: Tolerance) -> list[str]:
    parts = []
    for each in verdict.evidence:
        if each.standing is Standing.TOO_FAR_OFF:
            by_prompt = bounded(each.prompt_error) and each.prompt_error.ci_low > tolerance.prompt_bias_error
            how = (
                f"{_scores_of_prompts(verdict)} off by {each.prompt_error.value:.3f}"
                if by_prompt
                else f"model bias score {points(each.model_error.value)}"
            )
            parts.append(f"{each.detector} ({how})")
    return [f"Too far off: {listing(parts)}."] if parts else []


def _what_would_settle(best: Evidence, prompts: Sequence[str], words: Mapping[str, str]) -> str:
    if best.to_settle is None:
        return (
            f"No realistic number of further labelled images would settle this: the errors of {best.detector} lie "
            "too close to the tolerance, or too little is known of them."
        )
    plan = best.to_settle
    return (
        f"If the errors of {best.detector} are what they seem, about {plan.images:,} more labelled images would "
        f"probably settle it{_of_prompts(plan, prompts, words)}."
    )


def _of_prompts(plan: MoreLabels, prompts: Sequence[str], words: Mapping[str, str]) -> str:
    if len(prompts) != len(plan.by_prompt):
        return ""
    order = sorted(range(len(prompts)), key=lambda number: -int(plan.by_prompt[number]))
    wanted = [number for number in order if plan.by_prompt[number] > 0]
    named = [
        f"{words.get(prompts[number], prompts[number])} ({plan.by_prompt[number]:,})"
        for number in wanted[:_MOST_PROMPTS_NAMED]
    ]
    if len(wanted) > 1 and len({int(plan.by_prompt[number]) for number in wanted}) == 1:
        which = "the prompts" if len(wanted) == len(prompts) else f"{len(wanted)} prompts"
        return f", {plan.by_prompt[wanted[0]]:,} of each of {which}"
    if len(wanted) > len(named):
        return f", of {len(wanted)} prompts, most of {listing(named)}"
    return f", of {listing(named)}"


def _labellings(names: Sequence[str]) -> str:
    said = [
        "the images on which all annotators agree" if each == ALL_AGREE else f"the labels of {each}"
        for each in names
    ]
    return listing(said)


def _perceived(attribute: str) -> str:
    return f"perceived {attribute_in_words(attribute)}"


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
            shown = not consensus.is_withheld(metric, detector=detector, t2i_model=model)
            if doubt.by_labels and math.isfinite(band.low) and shown:
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
