"""Pages from templates; every text is escaped, and no page holds a script or a style of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from detector_bench import __version__
from detector_bench.atomic_files import write_text
from detector_bench.report.metric_lookup import Number
from detector_bench.report.table import Cell, Table, group_headings, is_missing, printable
from detector_bench.web_report.verdict import ModelVerdict, Outcome

CONTENT_POLICY = (
    # `file:` stands beside 'self' because browsers differ on what 'self' is for a page that lies on a disk.
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; "
    "base-uri 'none'; form-action 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

CARE = (
    "Perceived gender, age group and race are what people and detectors see in a synthetic image. They are not an "
    "identity, and nobody's identity can be read off a picture. Labels that fit none of the classes are kept as "
    "“others”, and never dropped in silence. Use this report to question detectors and text-to-image models, not "
    "to classify people."
)

SHORT_CARE = (
    "Perceived gender, age group and race, as seen in synthetic images; not an identity. The report says more."
)
"""Where the page has to leave room for images."""

_OUTCOME_WORDS = {
    Outcome.TRUST: "a detector can be trusted",
    Outcome.NOT_SHOWN: "left open",
    Outcome.NONE_GOOD_ENOUGH: "no detector is good enough",
    Outcome.NO_INTERVALS: "no intervals",
    Outcome.NOTHING_TO_COMPARE: "nothing to compare",
}


_NOTHING = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Places deviations on a drawing that is 200 wide, 0 in its middle."""

    reach: float
    """The deviation at either end; what lies beyond is drawn at the end."""

    @classmethod
    def of(cls, verdict: ModelVerdict, *, tolerance: float) -> Scale:
        """Wide enough for all intervals, but not beyond 100 %."""
        ends = [
            abs(end)
            for each in verdict.evidence
            for end in (each.deviation.ci_low, each.deviation.ci_high, each.deviation.value)
        ]
        return cls(min(1.0, max([2 * tolerance, *(end for end in ends if math.isfinite(end))])))

    def x(self, value: float) -> float:
        """The place of a deviation."""
        return round(100 + 94 * max(-1.0, min(1.0, value / self.reach)), 1)

    @staticmethod
    def bounded(number: Number) -> bool:
        """Whether there is an interval to draw."""
        return math.isfinite(number.ci_low) and math.isfinite(number.ci_high)


class Says:
    """How numbers of the verdict are written."""

    @staticmethod
    def score(value: float) -> str:
        """A bias score."""
        return _NOTHING if math.isnan(value) else f"{value:.3f}"

    @staticmethod
    def share(value: float) -> str:
        """A share of resamples."""
        return _NOTHING if math.isnan(value) else "< 1 %" if 0 < value < 0.01 else f"{100 * value:.0f} %"

    @staticmethod
    def signed(value: float, *, unit: str = " %") -> str:
        """A deviation in per cent, with its sign."""
        if math.isnan(value):
            return _NOTHING
        per_cent = f"{100 * value:+.1f}" if abs(value) < 0.0995 else f"{100 * value:+.0f}"
        return per_cent.replace("-", "\N{MINUS SIGN}") + unit

    @staticmethod
    def value(value: float) -> str:
        """For sorting."""
        return "" if math.isnan(value) else repr(float(value))

    @staticmethod
    def size(value: float) -> str:
        """For sorting by size, whatever the sign."""
        return "" if math.isnan(value) else repr(abs(float(value)))


def with_groups(tables: Sequence[Table]) -> list[tuple[Table, Any]]:
    """Tables with their upper headings."""
    return [(table, group_headings(table.columns)) for table in tables]


def outcome_words(outcome: Outcome) -> str:
    """A label for a T2I model's heading."""
    return _OUTCOME_WORDS[outcome]


def write_page(path: Path, template: str, content: Mapping[str, Any]) -> None:
    """Render a template with `content` and what all pages share.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    shared = {"policy": CONTENT_POLICY, "care": CARE, "version": __version__, "says": Says}
    write_text(path, _environment().get_template(template).render({**shared, **content}))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("detector_bench.web_report"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        # Notes of an author keep their line breaks through style sheets, other texts have none.
        finalize=lambda value: _shown(value) if type(value) is str else value,
    )
    environment.globals.update(zip=zip)
    environment.filters["unbroken"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    environment.filters["sentences"] = _first_sentence
    environment.filters["sort_value"] = _sort_value
    environment.filters["is_hash"] = lambda text: len(text) == 64 and " " not in text
    return environment


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a caption, and the rest."""
    head, stop, rest = text.partition(". ")
    return head + stop.strip(), rest


def _sort_value(cell: Cell) -> str:
    return "" if cell.value is None or is_missing(cell.value) else repr(float(cell.value))
