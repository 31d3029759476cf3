"""What the agreement page is sent: numbers, and plain words as far as these carry them; never which image."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from math import isnan
from typing import Any, NamedTuple

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.labelling import LabelStore, Question
from detector_bench.labelling.agreement_numbers import Agreement, LabelsSideBySide, Round
from detector_bench.labelling.label_table import GivenLabel
from detector_bench.labelling.ways import CAUTION, Ways, ways_of, ways_sentence
from detector_bench.labelling.web.wording import label_texts, question_view
from detector_bench.vocabulary import ALL

FEW_IMAGES = 50
"""With fewer images the normal approximation behind the intervals is rough."""

GRADES = (
    (0.0, "poor"),
    (0.2, "slight"),
    (0.4, "fair"),
    (0.6, "moderate"),
    (0.8, "substantial"),
    (1.0, "almost perfect"),
)
"""Up to which kappa (included, but for 0) a grade goes. Source: Landis and Koch 1977, page 165."""

GRADES_SOURCE = (
    "The grades are those of Landis and Koch (1977): a convention, not a test. Agreement says that people judge "
    "alike, not that they judge right."
)


class AgreementInWords(NamedTuple):
    """What a kappa says.

    Attributes:
        title: the grade, or the grades that its interval reaches.
        text: the numbers in a sentence.
        caution: what keeps the title from being more; "" if nothing does.
    """

    title: str
    text: str
    caution: str


def grade(kappa: float) -> str:
    """The name of a kappa's size."""
    if kappa < 0:
        return GRADES[0][1]
    return next(name for limit, name in GRADES[1:] if kappa <= limit)


def verdict(found: Agreement, *, annotators: int) -> AgreementInWords:
    """Put agreement into words; `annotators` is how many were compared."""
    if annotators < 2:
        who = "Only one person has" if annotators else "Nobody has"
        return AgreementInWords("Nothing to compare yet", f"{who} labelled a picture so far.", "")
    who = "both" if annotators == 2 else f"all {annotators} annotators"
    if found.compared == 0:
        return AgreementInWords("Nothing to compare yet", f"No picture was labelled by {who}.", "")
    pictures = f"{found.compared:,} {'picture' if found.compared == 1 else 'pictures'}"
    same = (
        f"On {pictures} that {'both' if annotators == 2 else 'two or more'} labelled, {_share(found, annotators)}."
    )
    if math.isnan(found.kappa):
        return AgreementInWords(
            "No kappa yet", same, "Everybody gave one and the same label, so chance alone explains all of it."
        )
    name = "Cohen's" if annotators == 2 else "Fleiss'"
    if math.isnan(found.low):
        rest = "" if found.percent < 1 else _unseen(found.images)
        return AgreementInWords(
            f"{grade(found.kappa).capitalize()} agreement" if found.percent < 1 else "No disagreement so far",
            f"{same} {name} kappa is {found.kappa:.2f}.",
            f"No interval can be given. {rest}".strip(),
        )
    lowest, highest = grade(found.low), grade(found.high)
    title = f"{lowest.capitalize()} agreement"
    if lowest != highest:
        title = f"{lowest.capitalize()} to {highest} agreement"
    interval = f"95\N{NO-BREAK SPACE}% interval {number(found.low)} to {number(found.high)}"
    few = f"With fewer than {FEW_IMAGES} pictures the interval is rough." if found.images < FEW_IMAGES else ""
    return AgreementInWords(title, f"{same} {name} kappa is {number(found.kappa)} ({interval}).", few)


def number(value: float) -> str:
    """A kappa with two decimals, and a true minus sign."""
    text = f"{abs(value):.2f}"
    return f"\N{MINUS SIGN}{text}" if value < 0 and text != "0.00" else text


def _share(found: Agreement, annotators: int) -> str:
    per_cent = f"{100 * found.percent:.0f}\N{NO-BREAK SPACE}%"
    if annotators == 2:
        return f"they gave the same label to {per_cent}"
    return f"{per_cent} of all pairs of labels are equal"


def _unseen(images: int) -> str:
    """What complete agreement leaves open: the exact 95 % upper limit of a share that was never seen."""
    share = 1 - 0.05 ** (1 / images)
    return f"Up to {100 * share:.0f}\N{NO-BREAK SPACE}% of disagreement would still be no surprise."


_SHORTEST_REST = 1.0
_REST_FOR_WORK = 10
_PARTS = {
    Round.ALL: "Everything",
    Round.CALIBRATION: "Calibration round",
    Round.AFTER: "After calibration",
}


class AgreementQuery(Declaration):
    """What of the agreement is asked for.

    Attributes:
        question: its name; "": the first one.
        part: which part of the labelling.
        first, second: two annotators; both "": all of them.
        t2i_model, category: which images the confusion table is about; "all" for all.
    """

    question: str = ""
    part: Round = Round.ALL
    first: str = ""
    second: str = ""
    t2i_model: str = ALL
    category: str = ALL


class RecentLabels:
    """The labels of a store as they were a moment ago, however many pages ask for them.

    Reading all labels holds up those who label. So the time between two readings is at least ten times as long as
    a reading takes.
    """

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._side_by_side: dict[str, LabelsSideBySide] = {}
        self._given: list[GivenLabel] = []
        self._ways: dict[tuple[str, ...], Ways] = {}
        self._rest_until = 0.0
        self._version: int | None = None

    def of(self, question: Question) -> LabelsSideBySide:
        """The labels of a question."""
        with self._lock:
            if time.monotonic() >= self._rest_until and self._store.version() != self._version:
                self._read()
            return self._side_by_side[question.name]

    def ways(self, question: Question, annotators: Sequence[str]) -> Ways | None:
        """What a grid does to agreement, of labels as they were a moment ago; None: nobody used one."""
        with self._lock:
            if len(annotators) < 2 or not any(one.entry.asking.in_grid for one in self._given):
                return None
            key = (question.name, *annotators)
            if key not in self._ways:
                self._ways[key] = ways_of(self._given, question, annotators)
            return self._ways[key]

    def forget(self) -> None:
        """Read again when the labels are asked for next."""
        with self._lock:
            self._rest_until = 0.0

    def _read(self) -> None:
        started = time.monotonic()
        self._version = self._store.version()
        given = self._given = self._store.given(independent=True)
        self._ways = {}
        self._side_by_side = {
            question.name: LabelsSideBySide(self._store.image_set, given, question)
            for question in self._store.questions
        }
        finished = time.monotonic()
        self._rest_until = finished + max(_SHORTEST_REST, _REST_FOR_WORK * (finished - started))


def agreement_view(
    store: LabelStore, labels: RecentLabels, query: AgreementQuery, *, annotators: Sequence[str]
) -> dict[str, Any]:
    """Everything that the page shows.

    Args:
        store: the store.
        labels: its labels.
        query: what is asked for.
        annotators: who labels at this desk; others whose labels are in the store are listed too.

    Raises:
        ConfigError: an unknown question, annotator, T2I model or category.
    """
    question = _question(store, query.question)
    side_by_side = labels.of(question)
    compared = _compared(side_by_side, query)
    _check("T2I model", query.t2i_model, [ALL, *side_by_side.t2i_models])
    _check("category", query.category, [ALL, *side_by_side.categories])
    of_all = side_by_side.agreement(compared, part=query.part)
    return {
        "image_set": store.image_set.name,
        "questions": [_title_view(store, one) for one in store.questions],
        "question": question.name,
        "parts": [{"name": part.value, "title": title} for part, title in _PARTS.items()],
        "part": query.part.value,
        "annotators": _progress_views(store, annotators),
        "pairs": _pair_views(side_by_side, query.part),
        "compared": compared,
        "agreement": _agreement_view(of_all),
        "verdict": verdict(of_all, annotators=len(compared))._asdict(),
        "grades": [{"up_to": limit, "name": name} for limit, name in GRADES],
        "grades_source": GRADES_SOURCE,
        "rounds": [
            {"title": _PARTS[part], **_agreement_view(side_by_side.agreement(compared, part=part))}
            for part in (Round.CALIBRATION, Round.AFTER)
        ],
        "calibration": asdict(store.calibration()),
        "ways": _ways_view(labels.ways(question, compared)),
        "scopes": [
            {"t2i_model": one.t2i_model, "category": one.category, **_agreement_view(one.agreement)}
            for one in side_by_side.by_scope(compared, part=query.part)
        ],
        "t2i_models": side_by_side.t2i_models,
        "categories": side_by_side.categories,
        "confusion": _confusion_view(store, side_by_side, compared, query),
    }


def _question(store: LabelStore, name: str) -> Question:
    known = {question.name: question for question in store.questions}
    if not name:
        return store.questions[0]
    _check("question", name, list(known))
    return known[name]


def _compared(side_by_side: LabelsSideBySide, query: AgreementQuery) -> list[str]:
    if not query.first and not query.second:
        return side_by_side.annotators
    for name in (query.first, query.second):
        _check("annotator", name, side_by_side.annotators)
    if query.first == query.second:
        raise ConfigError(f"annotator {query.first!r} is named twice")
    return [query.first, query.second]


def _check(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ConfigError(f"unknown {what} {name!r}: {nearest_hint(name, known)}")


def _title_view(store: LabelStore, question: Question) -> dict[str, str]:
    view = question_view(question, task=store.settings.task)
    return {"name": question.name, "title": view["title"], "text": view["text"]}


def _progress_views(store: LabelStore, annotators: Sequence[str]) -> list[dict[str, Any]]:
    names = list(dict.fromkeys([*annotators, *store.annotators()]))
    return [
        {
            "name": name,
            "done": progress.done,
            "total": progress.total,
            "calibration_done": progress.calibration_done,
            "calibration_total": progress.calibration_total,
        }
        for name in names
        for progress in [store.progress(name)]
    ]


def _pair_views(side_by_side: LabelsSideBySide, part: Round) -> list[dict[str, Any]]:
    return [
        {"first": first, "second": second, **_agreement_view(side_by_side.agreement((first, second), part=part))}
        for first, second in combinations(side_by_side.annotators, 2)
    ]


def _confusion_view(
    store: LabelStore, side_by_side: LabelsSideBySide, compared: Sequence[str], query: AgreementQuery
) -> dict[str, Any] | None:
    if len(compared) != 2:
        return None
    first, second = compared
    counts = side_by_side.confusion(
        first, second, part=query.part, t2i_model=query.t2i_model, category=query.category
    )
    texts = label_texts(side_by_side.question, task=store.settings.task)
    return {
        "first": first,
        "second": second,
        "t2i_model": query.t2i_model,
        "category": query.category,
        "labels": list(texts.values()),
        "counts": counts.tolist(),
    }


def _ways_view(found: Ways | None) -> dict[str, Any] | None:
    if found is None:
        return None
    rows = (("In a grid", found.grid), ("One at a time", found.alone))
    return {
        "rounds": [{"title": title, **_agreement_view(one)} for title, one in rows],
        "text": ways_sentence(found),
        "caution": CAUTION,
    }


def _agreement_view(found: Agreement) -> dict[str, Any]:
    """JSON knows no NaN."""
    return {
        name: None if isinstance(value, float) and isnan(value) else value for name, value in asdict(found).items()
    }
