"""Two studies, or two versions of one, side by side: numbers, what differs beyond chance, which settings do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.comparison import COMPARED_METRICS
from detector_bench.evaluation.contests import CONTEST_COLUMNS
from detector_bench.evaluation.study_differences import (
    StudyDifference,
    holm,
    independent_difference,
    paired_differences,
)
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.results.inputs import IMAGE_SET
from detector_bench.results.metric_lookup import Number
from detector_bench.tables.wording import attribute_in_words, in_per_cent, metric_in_words
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_MODEL_BIAS_SCORE = "model_bias_score"
_DASH = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"


class BesideRow(NamedTuple):
    """One number of both studies, for the page."""

    what: str
    metric: str
    first: str
    second: str
    difference: str
    p_value: str
    finding: str
    """`larger`, `smaller`, `no difference shown` or `not tested`."""


@dataclass(frozen=True, eq=False)
class BesidePage:
    """What changed from one study to another."""

    first: ResultFolder
    second: ResultFolder
    names: tuple[str, str]

    @cached_property
    def attributes(self) -> list[str]:
        """Those that both studies judge."""
        return [name for name in self.first.settings.attributes if name in self.second.settings.attributes]

    @cached_property
    def same_images(self) -> bool:
        """Whether image tables and human labels are the same: then studies are compared image by image."""
        inputs = [each.manifest.proof.inputs.get(IMAGE_SET) for each in (self.first, self.second)]
        return inputs[0] is not None and inputs[0] == inputs[1]

    @cached_property
    def share_images(self) -> bool:
        """Whether some images, by their content, were judged in both studies."""
        found: list[set[str]] = []
        for results in (self.first, self.second):
            tables = results.predictions(CONTEST_COLUMNS).values()
            found.append({each for table in tables for each in table["image_sha256"].to_pylist() if each})
        return bool(found[0] & found[1])

    def content(self) -> dict[str, Any]:
        """The page for the template."""
        design, why_not = self._design()
        rows = {name: self._rows(name, design) for name in self.attributes}
        groups = [
            {"heading": f"Perceived {attribute_in_words(name)}", "rows": each} for name, each in rows.items()
        ]
        findings = [row.finding for each in rows.values() for row in each]
        changed = sum(each in ("larger", "smaller") for each in findings)
        tested = sum(each != "not tested" for each in findings)
        return {
            "names": self.names,
            "headline": self._headline(changed, tested, why_not),
            "how": self._how(design),
            "groups": groups,
            "settings": list(self._settings()),
            "same_settings": self._same_settings,
            "only": list(self._only()),
        }

    def _design(self) -> tuple[str, str]:
        """`paired`, `independent` or `none`, and why nothing is tested."""
        try:
            if self.same_images:
                return "paired", ""
            if not self.share_images:
                return "independent", ""
        except DetectorBenchError as error:
            return "none", f"nothing is tested: {error}"
        return "none", (
            "nothing is tested: the studies share images, but not all of them or not their labels, so their "
            "numbers are neither paired nor independent"
        )

    def _rows(self, attribute: str, design: str) -> list[BesideRow]:
        parts = self.first.of_attribute(attribute), self.second.of_attribute(attribute)
        level = parts[0].intervals.level
        places = list(_places(*parts))
        paired: dict[tuple[str, str], StudyDifference] = {}
        if design == "paired":
            paired = self._paired(attribute)
        numbers = [
            (parts[0].estimate(metric, **place), parts[1].estimate(metric, **place)) for place, metric in places
        ]
        found = []
        for (place, metric), (one, other) in zip(places, numbers, strict=True):
            if any(part.lookup.could_not_run(place["detector"]) for part in parts):
                found.append(StudyDifference(one.value, other.value, *(4 * (math.nan,))))
            elif design == "paired":
                unknown = StudyDifference(one.value, other.value, other.value - one.value, *(3 * (math.nan,)))
                found.append(paired.get((place["detector"], metric), unknown))
            else:
                found.append(independent_difference(_limits(one), _limits(other), level=level))
        # Paired ones are adjusted already, all of the attribute together.
        p_values = [each.p_value for each in found]
        if design == "none":
            p_values = [math.nan] * len(found)
        elif design == "independent":
            p_values = holm(p_values)
        return [
            _row(parts[0], (place, metric), pair, each._replace(p_value=p_value), level=level)
            for (place, metric), pair, each, p_value in zip(places, numbers, found, p_values, strict=True)
        ]

    def _paired(self, attribute: str) -> dict[tuple[str, str], StudyDifference]:
        part = self.first.of_attribute(attribute)
        if not part.lookup.has_labels:
            return {}
        one, other = (each.predictions(CONTEST_COLUMNS) for each in (self.first, self.second))
        lookups = part.lookup, self.second.of_attribute(attribute).lookup
        shared = {
            name: table
            for name, table in one.items()
            if all(name in each.detectors and not each.could_not_run(name) for each in lookups)
        }
        return paired_differences(
            self.first.image_set,
            shared,
            other,
            attribute=attribute,
            intervals=part.intervals,
            n_clear=self.first.settings.n_clear,
        )

    def _headline(self, changed: int, tested: int, why_not: str) -> str:
        if why_not:
            return f"{why_not[:1].upper()}{why_not[1:]}."
        if not tested:
            return "The studies have no number in common that can be tested."
        if not changed:
            return f"None of the {tested:,} numbers that were tested is shown to differ."
        return f"{changed:,} of the {tested:,} numbers that were tested differ beyond chance."

    def _how(self, design: str) -> list[str]:
        level = 100 * self.first.settings.intervals.level
        if design == "paired":
            first = (
                "Both studies have the same images and human labels: each detector is compared with itself image "
                "by image (paired max-t tests; intervals and p-values of an attribute hold together at "
                f"{level:g} %). What the humans say is the same in both, and is not tested."
            )
        elif design == "independent":
            first = (
                "The studies share no image: their numbers are independent. Intervals of differences come from "
                f"the {level:g} % intervals of both numbers (Zou and Donner 2008), each for itself; p-values are "
                "adjusted for all tests of an attribute (Holm)."
            )
        else:
            first = "Numbers stand beside each other without a test."
        return [
            first,
            "A difference is the second study's number minus the first's. “No difference shown” does not say "
            "that there is none.",
            "All numbers are over the prompts of their own study. Other prompts or T2I models are a reason to "
            "differ, too.",
        ]

    @cached_property
    def _same_settings(self) -> int:
        flat = [_flat(each) for each in self._declared]
        return sum(flat[0].get(name) == value for name, value in flat[1].items() if name in flat[0])

    @cached_property
    def _declared(self) -> tuple[dict[str, Any], dict[str, Any]]:
        one, other = (_declared(each) for each in (self.first, self.second))
        return one, other

    def _settings(self) -> Iterator[tuple[str, str, str]]:
        one, other = (_flat(each) for each in self._declared)
        for name in dict.fromkeys([*one, *other]):
            if one.get(name) != other.get(name):
                yield name, str(one.get(name, _DASH)), str(other.get(name, _DASH))

    def _only(self) -> Iterator[tuple[str, str, str]]:
        for thing, sets in (
            ("detectors", tuple(each.settings.detectors for each in (self.first, self.second))),
            ("attributes", tuple(each.settings.attributes for each in (self.first, self.second))),
            ("T2I models", tuple(each.of_attribute().t2i_models for each in (self.first, self.second))),
        ):
            only = [
                ", ".join(name for name in sets[place] if name not in sets[1 - place]) or "none"
                for place in (0, 1)
            ]
            if only != ["none", "none"]:
                yield thing, only[0], only[1]


def _places(first: FinishedStudy, second: FinishedStudy) -> Iterator[tuple[dict[str, str], str]]:
    """What both studies have: T2I models by the human labels, and detectors over all T2I models."""
    if first.lookup.has_labels and second.lookup.has_labels:
        for model in first.t2i_models:
            if model in second.t2i_models:
                yield {"detector": GROUND_TRUTH, "t2i_model": model}, _MODEL_BIAS_SCORE
    for detector in first.detectors:
        if detector in second.detectors:
            for metric in COMPARED_METRICS:
                yield {"detector": detector, "t2i_model": ALL}, metric


def _limits(number: Number) -> tuple[float, float, float]:
    return number.value, number.ci_low, number.ci_high


def _row(
    part: FinishedStudy,
    placed: tuple[Mapping[str, str], str],
    numbers: tuple[Number, Number],
    found: StudyDifference,
    *,
    level: float,
) -> BesideRow:
    (place, metric), p_value = placed, found.p_value
    human = place["detector"] == GROUND_TRUTH
    what = f"{part.shown(place['t2i_model'])}, by the human labels" if human else part.shown(place["detector"])
    finding = "not tested"
    if not math.isnan(p_value):
        differs = p_value < 1 - level
        finding = ("larger" if found.difference > 0 else "smaller") if differs else "no difference shown"
    unit = " percentage points" if in_per_cent(metric) else ""
    low, high = found.ci_low, found.ci_high
    difference = _number(found.difference, metric, sign=True)
    if not math.isnan(low) and not math.isnan(p_value):
        difference += f" [{_number(low, metric, sign=True)}, {_number(high, metric, sign=True)}]"
    return BesideRow(
        what,
        metric_in_words(metric) + (" (%)" if in_per_cent(metric) else ""),
        _with_interval(numbers[0], metric),
        _with_interval(numbers[1], metric),
        difference + (unit if difference != _DASH else ""),
        _DASH if math.isnan(p_value) else "< 0.001" if p_value < 0.001 else f"{p_value:.3f}",
        finding,
    )


def _number(value: float, metric: str, *, sign: bool = False) -> str:
    if math.isnan(value):
        return _DASH
    text = f"{100 * value:.1f}" if in_per_cent(metric) else f"{value:.3f}"
    if float(text) == 0:
        return text.removeprefix("-")
    return f"{'+' if sign and value > 0 else ''}{text}".replace("-", _MINUS)


def _with_interval(number: Number, metric: str) -> str:
    text = _number(number.value, metric)
    if number.missing or not number.has_interval:
        return text
    return f"{text} [{_number(number.ci_low, metric)}, {_number(number.ci_high, metric)}]"


def _declared(results: ResultFolder) -> dict[str, Any]:
    """How a study judged and counted, as its manifest and study file say; its name and paths are no settings."""
    settings = results.settings.model_dump(mode="json", exclude={"detectors", "attributes", "scores"})
    entries = {each.get("name", str(place)): each for place, each in enumerate(_entries(results))}
    images = {name: value for name, value in results.manifest.image_set.items() if not isinstance(value, str)}
    return {"evaluation": settings, "detector": entries, "number of": images}


def _entries(results: ResultFolder) -> list[dict[str, Any]]:
    found = results.study.get("detectors") or []
    return [each if isinstance(each, dict) else {"name": str(each)} for each in found]


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested settings as one list: `evaluation, intervals, seed`."""
    if isinstance(value, Mapping):
        return {
            key: each
            for inner, own in value.items()
            for key, each in _flat(own, f"{name}, {inner}" if name else str(inner)).items()
        }
    return {name: value}
