"""A finished figure with its caption, and how captions are put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detector_bench.metrics.bootstrap import Unit
from detector_bench.results.finished_study import Estimate, FinishedStudy
from detector_bench.tables.table import ethics_note

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
        attribute: one of the vocabulary's, such as gender.
        notes: pairs of a name and what has to be said about it; equal notes are said once, with all names.
    """
    names_of_note: dict[str, list[str]] = {}
    for name, note in notes:
        names = names_of_note.setdefault(note, [])
        if name and name not in names:
            names.append(name)
    parts = [sentence for sentence in sentences if sentence]
    parts += [f"{', '.join(names)}: {note}." if names else f"{note}." for note, names in names_of_note.items()]
    return " ".join([*parts, ethics_note(attribute)]) + "\n"


def interval_sentence(
    study: FinishedStudy, shown: Iterable[Estimate], *, drawn_as: str = "Bars", of_scores: bool = False
) -> str:
    """Say what the intervals are, and on how many numbers they are missing.

    Args:
        study: whose settings say how the intervals were found.
        shown: the numbers of the figure.
        drawn_as: what stands for an interval in the figure.
        of_scores: whether the numbers are scores of other benchmarks, for which images are drawn and percentiles
            taken whatever the study says.
    """
    present = [number for number in shown if not number.missing]
    without = sum(not number.has_interval for number in present)
    if without == len(present):
        return "The metric table holds no intervals for these numbers." if present else ""
    exception = f"; {without} of {len(present)} numbers have none" if without else ""
    return f"{drawn_as}: {_interval_method(study, of_scores=of_scores)}{exception}."


def label_doubt_sentence(study: FinishedStudy) -> str:
    """Say what the pale bars are; nothing where there are none."""
    if not study.label_doubt.by_labels:
        return ""
    return (
        "Pale bars: from the lowest to the highest value by the consensus, by each annotator alone, and on the "
        "images on which all annotators agree."
    )


_METHODS = {"score": "Wilson's by the effective number of images", "percentile": "percentiles", "bca": "BCa"}


def _interval_method(study: FinishedStudy, *, of_scores: bool) -> str:
    settings = study.intervals
    if of_scores:
        settings = settings.model_copy(update={"unit": "image", "method": "percentile"})
    level, images = f"{100 * settings.level:g} % intervals of the metric table", study.estimate("images").value
    if resamples := settings.resamples_for(round(images)):
        return f"{level} ({_METHODS[settings.method]}, {resamples:,} resamples of {drawn(settings.unit)})"
    return f"{level} (Wilson's)"


def drawn(unit: Unit) -> str:
    """What a resample draws, in words."""
    return {"image": "images within each prompt", "prompt": "prompts within each category"}[unit]


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
