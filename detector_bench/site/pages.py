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
from detector_bench.site.verdict import ModelVerdict, bounded
from detector_bench.tables.metric_lookup import Number
from detector_bench.tables.table import Cell, Table, group_headings, is_missing, printable

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

_NOTHING = "\N{EN DASH}"
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Places prompt bias errors on a drawing that is 200 wide, 0 at its left."""

    reach: float
    """The error at the right end; what lies beyond is drawn there."""

    @classmethod
    def of(cls, verdict: ModelVerdict, *, tolerance: float) -> Scale:
        """Wide enough for all intervals, but not beyond 1."""
        ends = [end for each in verdict.evidence for end in (each.prompt_error.ci_high, each.prompt_error.value)]
        return cls(min(1.0, max([1.5 * tolerance, *(end for end in ends if math.isfinite(end))])))

    def x(self, value: float) -> float:
        """The place of an error."""
        return round(6 + 188 * min(1.0, value / self.reach), 1)

    @staticmethod
    def bounded(number: Number) -> bool:
        """Whether there is an interval to draw."""
        return bounded(number)


class Says:
    """How numbers of the verdict are written."""

    @staticmethod
    def score(value: float) -> str:
        """A bias score."""
        return _NOTHING if math.isnan(value) else f"{value:.3f}"

    @staticmethod
    def points(value: float) -> str:
        """An error of a score, with its sign."""
        return _NOTHING if math.isnan(value) else f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")

    @staticmethod
    def per_cent(value: float) -> str:
        """A deviation in per cent, with its sign."""
        if math.isnan(value):
            return _NOTHING
        per_cent = f"{100 * value:+.1f}" if abs(value) < 0.0995 else f"{100 * value:+.0f}"
        return per_cent.replace("-", "\N{MINUS SIGN}") + " %"

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
        loader=PackageLoader("detector_bench.site"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        # Notes of an author keep their line breaks through style sheets, other texts have none.
        finalize=lambda value: _shown(value) if type(value) is str else value,
    )
    environment.globals.update(zip=zip)
    environment.filters["unbroken"] = lambda text: text.replace(" %", f"{_NO_BREAK}%")
    environment.filters["sentences"] = _first_sentence
    environment.filters["sort_value"] = _sort_value
    environment.filters["is_hash"] = lambda text: len(text) == 64 and " " not in text
    return environment


def _shown(text: str) -> str:
    """Nothing but what can be seen, and spaces; some of them keep a number and its per cent sign on one line."""
    return "\n".join(_NO_BREAK.join(map(printable, line.split(_NO_BREAK))) for line in text.split("\n"))


def _first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a caption, and the rest."""
    head, stop, rest = text.partition(". ")
    return head + stop.strip(), rest


def _sort_value(cell: Cell) -> str:
    return "" if cell.value is None or is_missing(cell.value) else repr(float(cell.value))
