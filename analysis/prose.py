"""How the three analysis scripts put a study's numbers into words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number

_UNDEFINED = "undefined"


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
    if number.missing:
        return _UNDEFINED
    text = f"{write(number.value)}{unit}"
    return text if not number.has_interval else f"{text} [{write(number.ci_low)} to {write(number.ci_high)}]"


def extreme(numbers: dict[str, Number], *, largest: bool, of_size: bool = False) -> list[str]:
    """Who has the largest or smallest number (or size of it), ties included; empty where nobody has one."""
    known = {name: number.value for name, number in numbers.items() if not number.missing}
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
    return sorted((name for name in numbers if not numbers[name].missing), key=lambda name: -numbers[name].value)


def has_intervals(study: FinishedStudy) -> bool:
    """Whether any number of the study has a confidence interval."""
    return bool(study.metrics["ci_low"].notna().any())


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
