"""A finished figure with its caption, and how captions are put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detector_bench.figures.finished_study import Estimate, FinishedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure that is ready to be saved, and the text that belongs below it."""

    figure: Figure
    caption: str
    """One paragraph: what is shown, n, intervals, what is left out, and what the numbers are not."""


def caption(*sentences: str, attribute: str, notes: Iterable[tuple[str, str]] = ()) -> str:
    """Put a caption together.

    Args:
        sentences: what is shown, n and intervals; empty ones are left out.
        attribute: gender, age or race.
        notes: pairs of a name and what has to be said about it; equal notes are said once, with all names.
    """
    names_of_note: dict[str, list[str]] = {}
    for name, note in notes:
        names = names_of_note.setdefault(note, [])
        if name and name not in names:
            names.append(name)
    parts = [sentence for sentence in sentences if sentence]
    parts += [f"{', '.join(names)}: {note}." if names else f"{note}." for note, names in names_of_note.items()]
    return " ".join([*parts, care_sentence(attribute)]) + "\n"


def care_sentence(attribute: str) -> str:
    """What the numbers are not; as below every table."""
    return f"Perceived {attribute}, as seen in synthetic images; not an identity."


def interval_sentence(study: FinishedStudy, shown: Iterable[Estimate], *, drawn_as: str = "Bars") -> str:
    """Say what the intervals are, and on how many numbers they are missing.

    Args:
        study: whose settings say how the intervals were found.
        shown: the numbers of the figure.
        drawn_as: what stands for an interval in the figure.
    """
    present = [number for number in shown if not number.missing]
    without = sum(not number.has_interval for number in present)
    if without == len(present):
        return "The metric table holds no intervals for these numbers." if present else ""
    exception = f"; {without} of {len(present)} numbers have none" if without else ""
    return f"{drawn_as}: {_interval_method(study)}{exception}."


def _interval_method(study: FinishedStudy) -> str:
    # Study files of before there were intervals do not have them.
    settings = getattr(study.study, "intervals", None)
    if settings is None:
        return "confidence intervals of the metric table"
    drawn = {"image": "images within each prompt", "prompt": "prompts and of images within them"}[settings.unit]
    images = study.estimate("images").value
    return (
        f"{100 * settings.level:g} % intervals of the metric table (bootstrap of {drawn}, {settings.method}, "
        f"{settings.resamples_for(round(images)):,} resamples)"
    )


def verdict_notes(study: FinishedStudy, detectors: Sequence[str]) -> list[tuple[str, str]]:
    """On which images detectors gave no verdict, for the caption."""
    return [
        (detector, note)
        for detector in detectors
        for note in study.lookup.no_verdict_notes(detector, study.t2i_models)
    ]


def left_out_notes(numbers: Iterable[tuple[str, Estimate]], *, what: str) -> list[tuple[str, str]]:
    """How much each named number leaves out; nothing about those that leave nothing out."""
    return [
        (name, f"{number.n_left_out:.0f} of {number.n + number.n_left_out:.0f} {what}")
        for name, number in numbers
        if number.n_left_out > 0
    ]


def counted(count: float, thing: str) -> str:
    """`1 image`, `6,000 images`."""
    return f"{count:,.0f} {thing}" if count == 1 else f"{count:,.0f} {thing}s"
