"""Where the detectors err, counted: each number leads to its images in the error browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote, urlencode

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.evaluation.image_index import NULL, first_words
from detector_bench.site.image_columns import DetectorVerdicts, Truth
from detector_bench.tables.wording import in_words, label_in_words
from detector_bench.vocabulary import LOW_QUALITY, Attribute

Tone: TypeAlias = Literal["right", "wrong", "neither"]

BROWSER_PAGE = "images.html"
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CountCell:
    """A number of images, and the way to see them."""

    count: int
    of: int
    """How many images there are in its row (or, of a pair, that both detectors judged)."""
    href: str
    tone: Tone = "wrong"

    @property
    def shade(self) -> int:
        """0 to 10, the share in tenths: how dark the cell is drawn."""
        return 0 if self.of == 0 else round(10 * self.count / self.of)


@dataclass(frozen=True, slots=True)
class CountRow:
    """One row: a name, more about it, and a cell for each column."""

    name: str
    cells: tuple[CountCell | None, ...]
    """None where there is nothing to count, such as a detector compared with itself."""
    images: int


@dataclass(frozen=True, slots=True)
class CountTable:
    """Numbers of images in rows and columns."""

    caption: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[CountRow, ...]
    kind: str
    """confusion, pairs or errors; decides how cells are shaded."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One attribute's truth and verdicts, ready to be counted."""

    truth: Truth
    verdicts: tuple[DetectorVerdicts, ...]

    @property
    def classes(self) -> int:
        """How many classes (K) the attribute has."""
        return len(self.truth.attribute.classes)

    def wrong(self, each: DetectorVerdicts) -> Mask:
        """Another class than the human's, a clear image filtered, or a low-quality image kept."""
        clear, label, verdict = self.truth.is_clear, self.truth.label, each.verdict
        lost_or_other = clear & (verdict <= self.classes) & (verdict != label)
        found: Mask = lost_or_other | (self.truth.is_low_quality & (verdict < self.classes))
        return found

    def right(self, each: DetectorVerdicts) -> Mask:
        """The human's class, or a low-quality image filtered."""
        same = self.truth.is_clear & (each.verdict == self.truth.label)
        found: Mask = same | (self.truth.is_low_quality & (each.verdict == self.classes))
        return found


def browser_link(attribute: str, *filters: tuple[str, str]) -> str:
    """The error browser with these filters set; any text may be a value.

    Args:
        attribute: the one that is looked at.
        filters: pairs of a filter's name and a value, as `static/state.js` reads them.
    """
    return f"{BROWSER_PAGE}#{urlencode([('attribute', attribute), *filters], quote_via=quote)}"


def confusion(judged: Judged, each: DetectorVerdicts) -> CountTable:
    """One detector's verdicts by human label: filtered and failed images are columns of their own."""
    attribute, classes = judged.truth.attribute, judged.classes
    names = [*attribute.classes, "filtered", "error", "not_run"]
    # Of two classes and filtered images the empty ones say something, too; of many they only take room.
    always = range(classes + 1) if classes == 2 else ()
    shown = [code for code in range(len(names)) if code in always or (each.verdict == code).any()]
    rows = []
    for position, label in enumerate(attribute.labels):
        own = judged.truth.label == position
        if not own.any() and (classes > 2 or label not in (*attribute.classes, LOW_QUALITY)):
            continue
        cells = []
        for code in shown:
            link = browser_link(
                attribute.name,
                ("detector", each.detector),
                ("truth", label),
                (f"verdict.{each.detector}", names[code]),
            )
            count = int((own & (each.verdict == code)).sum())
            cells.append(CountCell(count, int(own.sum()), link, _tone(label, code, attribute)))
        rows.append(CountRow(label_in_words(label), tuple(cells), int(own.sum())))
    return CountTable(
        each.detector,
        "Human label",
        tuple(label_in_words(names[code]) for code in shown),
        tuple(rows),
        "confusion",
    )


def _tone(label: str, code: int, attribute: Attribute) -> Tone:
    """Whether a verdict (a class, or K for filtered) is right for a human label; neither without a comparison."""
    classes = attribute.classes
    if label not in (*classes, LOW_QUALITY) or code > len(classes):
        return "neither"
    right = classes.index(label) if label in classes else len(classes)
    return "right" if code == right else "wrong"


def pairs(judged: Judged) -> CountTable:
    """How many images the detector of the row judges rightly and that of the column wrongly."""
    attribute, names = judged.truth.attribute.name, [each.detector for each in judged.verdicts]
    right = {each.detector: judged.right(each) for each in judged.verdicts}
    wrong = {each.detector: judged.wrong(each) for each in judged.verdicts}
    rows = []
    for one in names:
        cells: list[CountCell | None] = []
        for other in names:
            if one == other:
                cells.append(None)
                continue
            both = (right[one] | wrong[one]) & (right[other] | wrong[other])
            link = browser_link(attribute, ("detector", other), ("right", one), ("wrong", other))
            cells.append(CountCell(int((right[one] & wrong[other]).sum()), int(both.sum()), link))
        rows.append(CountRow(one, tuple(cells), int(right[one].sum())))
    return CountTable("Right and wrong on the same image", "Right", tuple(names), tuple(rows), "pairs")


def errors_by(judged: Judged, groups: Groups, *, caption: str, corner: str) -> CountTable:
    """How many images of each group every detector judges wrongly; groups with the most errors first."""
    attribute = judged.truth.attribute.name
    wrong = [groups.count(judged.wrong(each)) for each in judged.verdicts]
    compared = groups.count(judged.truth.is_clear | judged.truth.is_low_quality)
    rows = []
    for place in np.flatnonzero(compared).tolist():
        images, filters = int(compared[place]), groups.filters(place)
        cells = tuple(
            CountCell(
                int(of_detector[place]),
                images,
                browser_link(
                    attribute,
                    ("detector", each.detector),
                    *filters,
                    *((f"outcome.{each.detector}", outcome) for outcome in ("wrong_class", "lost", "kept")),
                ),
            )
            for each, of_detector in zip(judged.verdicts, wrong, strict=True)
        )
        rows.append(CountRow(groups.shown(groups.words[place]), cells, images))
    rows.sort(key=lambda row: -sum(cell.count for cell in row.cells if cell) / row.images)
    return CountTable(caption, corner, tuple(each.detector for each in judged.verdicts), tuple(rows), "errors")


@dataclass(frozen=True, eq=False)
class Groups:
    """The images by a word that each of them has, and the filter that shows those of one word."""

    name: str
    """Of the filter."""
    words: tuple[str, ...]
    codes: NDArray[np.integer]
    """`[image]`: position of its word; -1 where it has none."""
    shown: Callable[[str], str]
    """How people read a word."""

    @classmethod
    def by(cls, values: Any, *, name: str, shown: Callable[[str], str] = str) -> Self:
        """A group for every distinct text of a column, in the order of appearance; empty cells belong to none.

        Args:
            values: a text for every image.
            name: of the filter.
            shown: how people read a value.
        """
        found, distinct = pd.factorize(np.asarray(values, dtype=object))
        is_word = np.array([isinstance(word, str) and word != "" for word in distinct], dtype=bool)
        # One entry more than there are words: an empty cell has code -1, the last.
        places = np.append(np.where(is_word, np.cumsum(is_word) - 1, -1), -1)
        return cls(
            name, tuple(word for word, kept in zip(distinct, is_word, strict=True) if kept), places[found], shown
        )

    def __len__(self) -> int:
        return len(self.words)

    def count(self, images: Mask) -> NDArray[np.int64]:
        """How many of some images each group has."""
        return _counts(self.codes[images], len(self.words))

    def filters(self, place: int) -> tuple[tuple[str, str], ...]:
        """What shows the images of one group."""
        return ((self.name, self.words[place]),)


def _counts(codes: NDArray[np.integer], length: int) -> NDArray[np.int64]:
    """How often each code occurs; negative ones are left out."""
    found: NDArray[np.int64] = np.bincount(codes[codes >= 0], minlength=length)
    return found


def all_error_tables(judged: Judged, image_set: ImageSet) -> list[CountTable]:
    """Errors by T2I model, category, prompt and human reason, each where there is more than one group."""
    images, prompts = image_set.images, image_set.prompts.set_index("prompt_id")
    category = prompts["category"].reindex(images["prompt_id"]).to_numpy(dtype=object)
    words = {str(prompt): str(word) for prompt, word in prompts["word"].items()}
    tables = [
        (Groups.by(images["t2i_model"], name="model"), "T2I model"),
        (Groups.by(category, name="category"), "category"),
        (Groups.by(images["prompt_id"], name="prompt", shown=lambda each: words.get(each) or each), "prompt"),
        (Groups.by(judged.truth.reason, name="reason", shown=in_words), "human reason"),
    ]
    return [
        errors_by(
            judged,
            groups,
            caption=f"Wrong verdicts by {corner}",
            corner=corner[:1].upper() + corner[1:],
        )
        for groups, corner in tables
        if len(groups) > 1 or (groups and corner == "T2I model")
    ]


def filter_reasons(judged: Judged) -> CountTable | None:
    """Why detectors filtered images that humans find clear; None where no detector says."""
    reasons = [first_words(each.reason) for each in judged.verdicts]
    lost = [judged.truth.is_clear & (each.verdict == judged.classes) for each in judged.verdicts]
    counts: list[dict[str, int]] = []
    names: dict[str, None] = {}
    for (codes, words), mask in zip(reasons, lost, strict=True):
        own = codes[mask]
        numbers = _counts(own, len(words))
        counts.append({word: int(number) for word, number in zip(words, numbers, strict=True) if word})
        names.update(dict.fromkeys(words[code] for code in pd.unique(own) if code >= 0 and words[code]))
    if not names:
        return None
    clear = int(judged.truth.is_clear.sum())
    rows = []
    for name in names:
        cells = []
        for each, of_detector in zip(judged.verdicts, counts, strict=True):
            link = browser_link(
                judged.truth.attribute.name,
                ("detector", each.detector),
                (f"outcome.{each.detector}", "lost"),
                (f"reason.{each.detector}", name),
            )
            cells.append(CountCell(of_detector.get(name, 0), clear, link))
        rows.append(CountRow(in_words(name), tuple(cells), sum(cell.count for cell in cells)))
    rows.sort(key=lambda row: -row.images)
    detectors = tuple(each.detector for each in judged.verdicts)
    return CountTable("Clear images lost, by the detector's reason", "Reason", detectors, tuple(rows), "errors")


def unlabelled(judged: Judged) -> int:
    """Images without a human label for the attribute."""
    return int((judged.truth.label == NULL).sum())
