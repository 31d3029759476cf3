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
from detector_bench.labelling.sentences import IN_ENGLISH, Sentences
from detector_bench.labelling.ways import Ways, caution, ways_of, ways_sentence
from detector_bench.labelling.web.languages import Words
from detector_bench.labelling.web.wording import label_texts, question_view
from detector_bench.metrics.agreement import LEVEL
from detector_bench.vocabulary import ALL

FEW_IMAGES = 50
"""With fewer images the normal approximation behind the intervals is rough."""

GRADES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Up to which kappa (included, but for 0) each grade goes. Source: Landis and Koch 1977, page 165."""


def grade_names(sentences: Sentences = IN_ENGLISH) -> tuple[str, ...]:
    """What the grades are called, the lowest first."""
    say = sentences.say
    return (say("poor"), say("slight"), say("fair"), say("moderate"), say("substantial"), say("almost perfect"))


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


def grade(kappa: float, sentences: Sentences = IN_ENGLISH) -> str:
    """The name of a kappa's size."""
    names = grade_names(sentences)
    if kappa < 0:
        return names[0]
    return next(name for limit, name in zip(GRADES[1:], names[1:], strict=True) if kappa <= limit)


def verdict(found: Agreement, *, annotators: int, sentences: Sentences = IN_ENGLISH) -> AgreementInWords:
    """Put agreement into words; `annotators` is how many were compared."""
    say = sentences.say
    if annotators < 2 or found.compared == 0:
        return AgreementInWords(say("Nothing to compare yet"), _nothing(annotators, sentences), "")
    same = _same(found, annotators, sentences)
    if math.isnan(found.kappa):
        why = say("Everybody gave one and the same label, so chance alone explains all of it.")
        return AgreementInWords(say("No kappa yet"), same, why)
    kappa = _kappa(found, annotators, sentences)
    if math.isnan(found.low):
        none = say("No interval can be given.")
        if found.percent < 1:
            return AgreementInWords(_title(found.kappa, found.kappa, sentences), f"{same} {kappa}", none)
        title = say("No disagreement so far")
        return AgreementInWords(title, f"{same} {kappa}", f"{none} {_unseen(found.images, sentences)}")
    few = say("With fewer than {n} pictures the interval is rough.", n=FEW_IMAGES)
    caution = few if found.images < FEW_IMAGES else ""
    return AgreementInWords(_title(found.low, found.high, sentences), f"{same} {kappa}", caution)


def _nothing(annotators: int, sentences: Sentences) -> str:
    """Why there is nothing to compare."""
    if annotators == 0:
        return sentences.say("Nobody has labelled a picture so far.")
    if annotators == 1:
        return sentences.say("Only one person has labelled a picture so far.")
    if annotators == 2:
        return sentences.say("No picture was labelled by both.")
    return sentences.say("No picture was labelled by all {n} annotators.", n=annotators)


def _same(found: Agreement, annotators: int, sentences: Sentences) -> str:
    share = _per_cent(found.percent)
    if annotators == 2:
        return sentences.say_of(
            found.compared,
            "On {n} picture that both labelled, they gave the same label to {share}.",
            "On {n} pictures that both labelled, they gave the same label to {share}.",
            share=share,
        )
    return sentences.say_of(
        found.compared,
        "On {n} picture that two or more labelled, {share} of all pairs of labels are equal.",
        "On {n} pictures that two or more labelled, {share} of all pairs of labels are equal.",
        share=share,
    )


def _kappa(found: Agreement, annotators: int, sentences: Sentences) -> str:
    """Kappa with its interval, in a sentence."""
    kappa = sentences.number(found.kappa)
    if math.isnan(found.low):
        if annotators == 2:
            return sentences.say("Cohen's kappa is {kappa}.", kappa=kappa)
        return sentences.say("Fleiss' kappa is {kappa}.", kappa=kappa)
    limits = {"level": _per_cent(LEVEL), "low": sentences.number(found.low), "high": sentences.number(found.high)}
    if annotators == 2:
        return sentences.say("Cohen's kappa is {kappa} ({level} interval {low} to {high}).", kappa=kappa, **limits)
    return sentences.say("Fleiss' kappa is {kappa} ({level} interval {low} to {high}).", kappa=kappa, **limits)


def _title(low: float, high: float, sentences: Sentences) -> str:
    """The grade, or the lowest and the highest of several."""
    lowest, highest = grade(low, sentences), grade(high, sentences)
    title = (
        sentences.say("{grade} agreement", grade=lowest)
        if lowest == highest
        else sentences.say("{lowest} to {highest} agreement", lowest=lowest, highest=highest)
    )
    return title[:1].upper() + title[1:]


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def _unseen(images: int, sentences: Sentences) -> str:
    """What complete agreement leaves open: the exact 95 % upper limit of a share that was never seen."""
    share = _per_cent(1 - 0.05 ** (1 / images))
    return sentences.say("Up to {share} of disagreement would still be no surprise.", share=share)


_SHORTEST_REST = 1.0
_REST_FOR_WORK = 10


def _parts(sentences: Sentences) -> dict[Round, str]:
    say = sentences.say
    return {
        Round.ALL: say("Everything"),
        Round.CALIBRATION: say("Calibration round"),
        Round.AFTER: say("After calibration"),
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
    store: LabelStore, labels: RecentLabels, query: AgreementQuery, *, annotators: Sequence[str], words: Words
) -> dict[str, Any]:
    """Everything that the page shows.

    Args:
        store: the store.
        labels: its labels.
        query: what is asked for.
        annotators: who labels at this desk; others whose labels are in the store are listed too.
        words: what the coordinator reads.

    Raises:
        ConfigError: an unknown question, annotator, T2I model or category.
    """
    sentences, parts = words.sentences, _parts(words.sentences)
    question = _question(store, query.question)
    side_by_side = labels.of(question)
    compared = _compared(side_by_side, query)
    _check("T2I model", query.t2i_model, [ALL, *side_by_side.t2i_models])
    _check("category", query.category, [ALL, *side_by_side.categories])
    of_all = side_by_side.agreement(compared, part=query.part)
    return {
        "image_set": store.image_set.name,
        "questions": [_title_view(store, one, words) for one in store.questions],
        "question": question.name,
        "parts": [{"name": part.value, "title": title} for part, title in parts.items()],
        "part": query.part.value,
        "annotators": _progress_views(store, annotators),
        "pairs": _pair_views(side_by_side, query.part),
        "compared": compared,
        "agreement": _agreement_view(of_all),
        "verdict": verdict(of_all, annotators=len(compared), sentences=sentences)._asdict(),
        "grades": [
            {"up_to": limit, "name": name} for limit, name in zip(GRADES, grade_names(sentences), strict=True)
        ],
        "grades_source": sentences.say(
            "The grades are those of Landis and Koch (1977): a convention, not a test. Agreement says that people "
            "judge alike, not that they judge right."
        ),
        "rounds": [
            {"title": parts[part], **_agreement_view(side_by_side.agreement(compared, part=part))}
            for part in (Round.CALIBRATION, Round.AFTER)
        ],
        "calibration": asdict(store.calibration()),
        "ways": _ways_view(labels.ways(question, compared), sentences),
        "scopes": [
            {"t2i_model": one.t2i_model, "category": one.category, **_agreement_view(one.agreement)}
            for one in side_by_side.by_scope(compared, part=query.part)
        ],
        "t2i_models": side_by_side.t2i_models,
        "categories": side_by_side.categories,
        "confusion": _confusion_view(store, side_by_side, compared, query, words),
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


def _title_view(store: LabelStore, question: Question, words: Words) -> dict[str, str]:
    view = question_view(question, task=store.settings.task, words=words)
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
    store: LabelStore,
    side_by_side: LabelsSideBySide,
    compared: Sequence[str],
    query: AgreementQuery,
    words: Words,
) -> dict[str, Any] | None:
    if len(compared) != 2:
        return None
    first, second = compared
    counts = side_by_side.confusion(
        first, second, part=query.part, t2i_model=query.t2i_model, category=query.category
    )
    texts = label_texts(side_by_side.question, task=store.settings.task, words=words)
    return {
        "first": first,
        "second": second,
        "t2i_model": query.t2i_model,
        "category": query.category,
        "labels": list(texts.values()),
        "counts": counts.tolist(),
    }


def _ways_view(found: Ways | None, sentences: Sentences) -> dict[str, Any] | None:
    if found is None:
        return None
    rows = ((sentences.say("In a grid"), found.grid), (sentences.say("One at a time"), found.alone))
    return {
        "rounds": [{"title": title, **_agreement_view(one)} for title, one in rows],
        "text": ways_sentence(found, sentences=sentences),
        "caution": caution(sentences),
    }


def _agreement_view(found: Agreement) -> dict[str, Any]:
    """JSON knows no NaN."""
    return {
        name: None if isinstance(value, float) and isnan(value) else value for name, value in asdict(found).items()
    }
