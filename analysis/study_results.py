"""What the three analysis scripts share: a result folder, its numbers by name, and how they are put into words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from detector_bench.errors import DetectorBenchError
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.study import Study
from detector_bench.tables.metric_lookup import MetricLookup
from detector_bench.vocabulary import ALL, GROUND_TRUTH, Attribute, attribute_named


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the metric table, with its confidence interval where it has one."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: float = 0
    n_left_out: float = 0

    @property
    def known(self) -> bool:
        """Whether there is a number at all."""
        return not math.isnan(self.value)


UNKNOWN = Number(math.nan)
_UNDEFINED = "undefined"

_KEY = ("detector", "t2i_model", "category", "prompt_id", "metric")
_NUMBER = ("value", "ci_low", "ci_high", "n", "n_left_out")


@dataclass(frozen=True)
class Results:
    """A result folder, as `detector-bench run` and `evaluate` write it."""

    finished: FinishedStudy
    _numbers: dict[tuple[str, str, str, str, str], Number]

    @classmethod
    def load(cls, folder: Path, *, attribute: str | None = None) -> Results:
        """Read a result folder.

        Raises:
            DetectorBenchError: it lacks a file, has no numbers of the attribute, or its study was changed since.
        """
        if not (folder / "study.yaml").is_file():
            raise DetectorBenchError(f"{folder} has no study.yaml: give the folder that `run` wrote")
        finished = FinishedStudy.load(folder, attribute=attribute)
        keys = zip(*(finished.metrics[column] for column in _KEY), strict=True)
        numbers = zip(*(finished.metrics[column].astype(float) for column in _NUMBER), strict=True)
        return cls(finished, {key: Number(*number) for key, number in zip(keys, numbers, strict=True)})

    @property
    def study(self) -> Study:
        """What was judged, by whom, and how it was evaluated."""
        assert self.finished.study is not None  # noqa: S101 - `load` looks for it
        return self.finished.study

    @property
    def attribute(self) -> Attribute:
        """Which attribute the numbers are about."""
        return attribute_named(self.finished.attribute)

    @property
    def lookup(self) -> MetricLookup:
        """The rows that cover whole T2I models."""
        return self.finished.lookup

    @property
    def detectors(self) -> tuple[str, ...]:
        """In the order of the study."""
        return self.lookup.detectors

    @property
    def t2i_models(self) -> tuple[str, ...]:
        """In the order of the metric table."""
        return self.lookup.t2i_models

    @property
    def categories(self) -> list[str]:
        """The prompt categories."""
        return list(dict.fromkeys(key[2] for key in self._numbers if key[2] != ALL))

    def number(
        self,
        metric: str,
        *,
        detector: str = GROUND_TRUTH,
        t2i_model: str = ALL,
        category: str = ALL,
        prompt_id: str = ALL,
    ) -> Number:
        """A number; `UNKNOWN` where the table has none, or the detector could not run on the T2I model."""
        if detector != GROUND_TRUTH and t2i_model != ALL and self.lookup.could_not_run(detector, t2i_model):
            return UNKNOWN
        return self._numbers.get((detector, t2i_model, category, prompt_id, metric), UNKNOWN)

    def prompt_scores(self) -> dict[tuple[str, str], dict[str, float]]:
        """Actual prompt bias scores by category and prompt, then by T2I model; undefined ones are left out."""
        scores: dict[tuple[str, str], dict[str, float]] = {}
        for (detector, model, category, prompt_id, metric), number in self._numbers.items():
            if detector == GROUND_TRUTH and metric == "prompt_bias_score" and prompt_id != ALL and number.known:
                scores.setdefault((category, prompt_id), {})[model] = number.value
        return scores

    @property
    def has_intervals(self) -> bool:
        """Whether any number has a confidence interval."""
        return any(not math.isnan(number.low) for number in self._numbers.values())


def render(template: str, facts: dict[str, Any]) -> str:
    """Fill a template of the folder `templates`; a missing fact is an error."""
    text = _environment().get_template(template).render(**facts)
    lines = [" ".join(line.split()) if not line.startswith("|") else line for line in text.splitlines()]
    kept = [line for position, line in enumerate(lines) if line or (position and lines[position - 1])]
    return "\n".join(kept).strip() + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - Markdown
    )
    environment.filters.update(listing=listing, percent=percent, score=score, points=points, images=images)
    return environment


def listing(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *before, last = list(names) or ["none"]
    return f"{', '.join(before)} and {last}" if before else last


def percent(value: float | Number, *, decimals: int = 1) -> str:
    """A fraction in per cent, with its interval."""
    return _with_interval(value, lambda number: f"{100 * number:.{decimals}f}", unit=" %")


def score(value: float | Number) -> str:
    """A score with three decimals, with its interval."""
    return _with_interval(value, lambda number: f"{number:.3f}", unit="")


def points(value: float | Number) -> str:
    """A signed fraction in percentage points."""
    return _with_interval(value, lambda number: f"{100 * number:+.1f}", unit=" points")


def images(count: float) -> str:
    """A number of images in words."""
    return "1 image" if count == 1 else f"{count:,.0f} images"


def _with_interval(value: float | Number, write: Any, *, unit: str) -> str:
    number = value if isinstance(value, Number) else Number(value)
    if not number.known:
        return _UNDEFINED
    text = f"{write(number.value)}{unit}"
    return text if math.isnan(number.low) else f"{text} [{write(number.low)} to {write(number.high)}]"


def extreme(numbers: dict[str, Number], *, largest: bool, of_size: bool = False) -> list[str]:
    """Who has the largest or smallest number (or size of it), ties included; empty where nobody has one."""
    known = {name: number.value for name, number in numbers.items() if number.known}
    values = {name: abs(value) for name, value in known.items()} if of_size else known
    if not values:
        return []
    best = max(values.values()) if largest else min(values.values())
    return [name for name, value in values.items() if value == best]


def count_phrase(count: int, total: int) -> str:
    """`3 of 12 (25.0 %)`."""
    return f"{count} of {total} ({100 * count / total:.1f} %)" if total else "none"


def ranking(numbers: dict[str, Number]) -> list[str]:
    """Names from the largest number to the smallest; those without one are left out."""
    return sorted((name for name in numbers if numbers[name].known), key=lambda name: -numbers[name].value)


def write_or_print(text: str, out: Path | None) -> None:
    """Write a report to a file, or to standard output."""
    if out is None:
        print(text, end="")  # noqa: T201 - the report is the output
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers, with a dash where there is none."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(
        "| " + " | ".join("-" if cell == _UNDEFINED else cell for cell in line) + " |" for line in lines
    )
