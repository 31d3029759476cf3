"""Makes the images of a recipe: asks its T2I models for what is not there yet, and keeps what becomes of it."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from threading import Thread
from typing import NamedTuple

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation.batch_outcomes import one_line, outcomes_of
from detector_bench.generation.image_files import PlacedFile, image_file, record_of
from detector_bench.generation.image_requests import Blocked, Failed, Outcome, Waiting
from detector_bench.generation.journal import Journal, JournalEntry
from detector_bench.generation.plan import ModelPlan, PlannedRequest
from detector_bench.generation.provenance import provenance_of
from detector_bench.generation.spending_limit import SpendingLimit
from detector_bench.generation.t2i_models import GenerationPlace, LoadedT2IModel, ModelRecord, T2IModel
from detector_bench.perception.answers.budget import BudgetReachedError
from detector_bench.vocabulary.generations import GENERATIONS_FILE, GenerationStatus

_FAILURES_AT_THE_START = 10
"""So many failures in a row without one image: the rest would fail, too."""
_SECONDS_FOR_WHAT_IS_ON_THE_WAY = 30.0
_SECONDS_FOR_WHAT_IS_PAID = 180.0


@dataclass
class GenerationProgress:
    """How far a run has come with one T2I model.

    Attributes:
        t2i_model: its name.
        total: how many images this run is to ask for.
        counts: by what became of them, how many are settled.
        spent: by currency, in this run.
        seconds: since its first request.
    """

    t2i_model: str
    total: int
    counts: dict[GenerationStatus, int] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """How many are settled."""
        return sum(self.counts.values())

    @property
    def seconds(self) -> float:
        """Since the first request."""
        return time.monotonic() - self.began


Listener = Callable[[GenerationProgress], None]


class _Batch(NamedTuple):
    planned: tuple[PlannedRequest, ...]


class _Answer(NamedTuple):
    planned: tuple[PlannedRequest, ...]
    outcomes: list[Outcome]
    error: BaseException | None


class ModelRun:
    """Makes images with one T2I model.

    Args:
        plan: its requests.
        journal: what becomes of them.
        place: where it works.
        limit: of what may be spent.
        listener: hears of every outcome.
        before: what was known of the T2I model when the images were made that are there; None: there are none.

    Attributes:
        left_behind: whether a thread of its still computes.
    """

    def __init__(
        self,
        plan: ModelPlan,
        journal: Journal,
        place: GenerationPlace,
        *,
        limit: SpendingLimit,
        listener: Listener,
        before: ModelRecord | None = None,
    ) -> None:
        self.left_behind = False
        self._before = before
        self._model: T2IModel = plan.t2i_model
        self._name = plan.name
        self._journal = journal
        self._place = place
        self._limit = limit
        self._listener = listener
        self._asked = plan.asked
        self._prompts = plan.sentences
        self._record = 0
        self._failed_at_the_start = 0
        self._held_back: _Batch | None = None
        self._on_the_way = 0
        self._unstored: list[_Answer] = []
        self._unsent: list[_Batch] = []

    def run(self, requests: Iterator[PlannedRequest], total: int) -> GenerationProgress:
        """Ask for these images.

        Raises:
            ConfigError, MissingExtraError, WeightsError: the T2I model cannot be loaded.
            DetectorBenchError: no further request would go better, the disk is full, or the budget is reached;
                what was made before is kept.
            KeyboardInterrupt: it was stopped; what was on its way is kept, where it came in time.
        """
        progress = GenerationProgress(self._name, total)
        if total == 0:
            return progress
        loaded = self._model.load(self._place)
        try:
            self._check_same_network(loaded)
            self._record = self._journal.add_record(record_of(loaded, self._model))
            self._failed_at_the_start = 0 if self._journal.counts().get("made") else _FAILURES_AT_THE_START
            self._tell_unread_ends()
            progress.began = time.monotonic()
            self._listener(progress)
            self._ask_for_all(loaded, requests, progress)
        finally:
            loaded.close()
        return progress

    def _check_same_network(self, loaded: LoadedT2IModel) -> None:
        """One set, one network: images of two versions of it would count as those of one T2I model."""
        before, now = self._before, loaded.record
        if before is None:
            return
        for what, then, here in (
            ("revision", before.revision, now.revision),
            ("weights", before.sha256, now.sha256),
        ):
            if then is not None and here is not None and then != here:
                raise ConfigError(
                    f"the T2I model {self._name!r} has other {what} ({here[:12]}) than when its images were made "
                    f"({then[:12]}); give back those, or name another folder with --out"
                )

    def _tell_unread_ends(self) -> None:
        """Say before the first image which prompts are longer than what the T2I model reads."""
        for line in unread_ends(self._model, self._place, self._prompts):
            self._place.report(line)

    def _ask_for_all(
        self, loaded: LoadedT2IModel, requests: Iterator[PlannedRequest], progress: GenerationProgress
    ) -> None:
        threads = self._model.concurrency
        given: queue.Queue[_Batch | None] = queue.Queue()
        answered: queue.Queue[_Answer] = queue.Queue()
        for _ in range(threads):
            Thread(target=_work, args=(loaded, given, answered, self._model.costs_money), daemon=True).start()
        # One batch more than there are threads waits for its turn, so that none idles while images are stored;
        # of what costs money none is recorded as sent that is not.
        most = threads if self._model.costs_money else threads + 1
        try:
            while True:
                self._give(requests, given, room=most - self._on_the_way)
                if self._on_the_way == 0:
                    return
                self._take(answered, progress)
        except BaseException:
            self._finish(given, answered, progress)
            raise
        finally:
            for _ in range(threads):
                given.put(None)

    def _give(
        self,
        requests: Iterator[PlannedRequest],
        given: queue.Queue[_Batch | None],
        *,
        room: int,
    ) -> None:
        """Hand out batches.

        Raises:
            BudgetReachedError: nothing is on its way, and the next batch could pass the budget.
        """
        batches = self._unsent
        with self._limit.alone():
            while len(batches) < room and (batch := self._next_batch(requests)):
                try:
                    self._limit.reserve([self._model.most_it_costs(each.request) for each in batch.planned])
                except BudgetReachedError:
                    self._held_back = batch
                    if batches or self._on_the_way:
                        break  # what is on its way may turn out cheaper
                    raise
                batches.append(batch)
            if batches and self._model.costs_money:
                planned = [each for batch in batches for each in batch.planned]
                self._journal.send(planned, record=self._record, parameters=self._asked)
        while batches:
            given.put(batches.pop(0))
            self._on_the_way += 1

    def _next_batch(self, requests: Iterator[PlannedRequest]) -> _Batch | None:
        held_back, self._held_back = self._held_back, None
        if held_back is not None:
            return held_back
        batch = tuple(islice(requests, max(1, self._model.batch_size)))
        return _Batch(batch) if batch else None

    def _take(self, answered: queue.Queue[_Answer], progress: GenerationProgress) -> None:
        """Wait for an answer, and store it with all others that are there."""
        # What is cut short here is stored when the run ends: it may have been paid for.
        answers = self._unstored
        answers.append(answered.get())
        with suppress(queue.Empty):
            while True:
                answers.append(answered.get_nowait())
        self._store(answers, progress)
        self._unstored = []
        self._on_the_way -= len(answers)
        for answer in answers:
            if answer.error is not None:
                raise answer.error

    def _finish(
        self,
        given: queue.Queue[_Batch | None],
        answered: queue.Queue[_Answer],
        progress: GenerationProgress,
    ) -> None:
        """Take in what is on its way: it costs work or money."""
        for answer in self._unstored:
            answered.put(answer)
        self._unstored = []
        never_sent = self._unsent
        with suppress(queue.Empty):
            while (batch := given.get_nowait()) is not None:
                never_sent.append(batch)
                self._on_the_way -= 1
        # If not even that can be written, they stay in doubt.
        with suppress(DetectorBenchError):
            self._journal.take_back([each for batch in never_sent for each in batch.planned])
        patience = _SECONDS_FOR_WHAT_IS_PAID if self._model.costs_money else _SECONDS_FOR_WHAT_IS_ON_THE_WAY
        until = time.monotonic() + patience
        if self._on_the_way > answered.qsize():
            self._place.report(
                f"waiting for what is on its way ({self._on_the_way:,}); interrupt again to leave it"
            )
        # A second interruption, or a disk that is full, ends it.
        with suppress(KeyboardInterrupt, DetectorBenchError, queue.Empty):
            while self._on_the_way > 0:
                answer = answered.get(timeout=max(0.0, until - time.monotonic()))
                self._on_the_way -= 1
                self._store([answer], progress)
        self.left_behind = self._on_the_way > 0

    def _store(self, answers: Sequence[_Answer], progress: GenerationProgress) -> None:
        files: list[PlacedFile] = []
        entries: list[JournalEntry] = []
        for answer in answers:
            for planned, outcome in zip(answer.planned, answer.outcomes, strict=False):
                entry = self._entry(planned, outcome, files)
                if entry is not None:
                    entries.append(entry)
        self._journal.settle(entries, record=self._record)
        for file in files:
            file.name()
        for entry in entries:
            self._count(entry, progress)
        for answer in answers:
            waiting = sum(isinstance(outcome, Waiting) for outcome in answer.outcomes)
            if waiting:
                progress.counts[GenerationStatus.WAITING] = (
                    progress.counts.get(GenerationStatus.WAITING, 0) + waiting
                )
        self._listener(progress)
        self._give_up_if_all_fail(entries)

    def _entry(self, planned: PlannedRequest, outcome: Outcome, files: list[PlacedFile]) -> JournalEntry | None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if isinstance(outcome, Waiting):
            return None
        currency = None if outcome.cost is None else self._model.currency
        entry = JournalEntry(
            planned=planned,
            status=GenerationStatus.ERROR,
            parameters=self._asked,
            seconds=round(float(outcome.seconds), 6),
            cost=None if outcome.cost is None else float(outcome.cost),
            currency=currency,
            made_at=now,
        )
        if isinstance(outcome, Failed):
            return replace(entry, reason=one_line(outcome.reason), may_have_been_paid=outcome.may_have_been_paid)
        entry = replace(entry, revised_prompt=outcome.revised_prompt)
        if isinstance(outcome, Blocked):
            return replace(entry, status=GenerationStatus.BLOCKED, reason=one_line(outcome.reason))
        made = image_file(outcome)
        path = f"{planned.stem}{made.suffix}"
        file = PlacedFile(self._place.folder / path)
        file.write(made.content)
        files.append(file)
        return replace(
            entry,
            status=GenerationStatus.MADE,
            prompt_cut=outcome.prompt_cut,
            parameters=json.dumps({**json.loads(self._asked), **outcome.parameters}, default=_number),
            path=path,
            image_sha256=made.sha256,
            provenance=provenance_of(made.content),
        )

    def _count(self, entry: JournalEntry, progress: GenerationProgress) -> None:
        progress.counts[entry.status] = progress.counts.get(entry.status, 0) + 1
        if entry.cost is not None and entry.currency is not None:
            progress.spent[entry.currency] = progress.spent.get(entry.currency, 0.0) + entry.cost
        if self._model.costs_money:
            self._limit.settle(
                self._model.most_it_costs(entry.planned.request), entry.cost, doubtful=entry.may_have_been_paid
            )

    def _give_up_if_all_fail(self, entries: Sequence[JournalEntry]) -> None:
        for entry in entries:
            if self._failed_at_the_start <= 0:
                return
            if entry.status is not GenerationStatus.ERROR:
                self._failed_at_the_start = 0
                return
            self._failed_at_the_start -= 1
            if self._failed_at_the_start == 0:
                raise DetectorBenchError(
                    f"the first {_FAILURES_AT_THE_START} requests to {self._name!r} failed, the last one: "
                    f"{entry.reason}; nothing more is asked for"
                )


def unread_ends(t2i_model: T2IModel, place: GenerationPlace, sentences: Sequence[str]) -> list[str]:
    """What to say of sentences that a T2I model reads only in part; nothing where nobody knows of any."""
    ends = dict(t2i_model.prompts_cut(place, sentences))
    if not ends:
        return []
    sentence, end = next(iter(ends.items()))
    return [
        f"{t2i_model.name} reads {len(ends):,} of {len(sentences):,} prompts only in part: of {sentence!r} it "
        f"does not read {end!r}. prompt_cut in {GENERATIONS_FILE} says so of each image"
    ]


def _work(
    loaded: LoadedT2IModel,
    given: queue.Queue[_Batch | None],
    answered: queue.Queue[_Answer],
    may_cost: bool,  # noqa: FBT001 - a thread's argument
) -> None:
    while (batch := given.get()) is not None:
        outcomes: list[Outcome] = []
        error: BaseException | None = None
        try:
            outcomes = outcomes_of(loaded, batch.planned, may_cost=may_cost)
        except DetectorBenchError as problem:
            # Nothing of it was charged for; without an outcome it would stay recorded as sent.
            reason = one_line(str(problem))
            outcomes = [Failed(reason=reason, seconds=0.0) for _ in batch.planned] if may_cost else []
            error = problem
        except BaseException as problem:  # noqa: BLE001 - it belongs to who waits for the answer
            error = problem
        answered.put(_Answer(batch.planned, outcomes, error))


def _number(value: object) -> object:
    """What JSON does not know: the numbers of NumPy and PyTorch; all else as a text."""
    return value.item() if hasattr(value, "item") else str(value)
