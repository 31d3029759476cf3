"""The ledger of paid answers: every request is recorded before it is sent, and its outcome as soon as it is known.

It lies beside the results and apart from the stage cache, one file per process, to which lines are only added.
What it holds is asked for no more, whatever becomes of the cache. A request without an outcome was on the wire
when its process died: it is asked again, and the new request says which one may have been paid for before it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Condition
from typing import Protocol, runtime_checkable

from filelock import FileLock

from detector_bench.errors import DetectorBenchError
from detector_bench.perception.answers.budget import Budget
from detector_bench.perception.answers.ledger_index import Asked, LedgerIndex
from detector_bench.perception.answers.ledger_lines import (
    DamagedLine,
    LedgerFile,
    LedgerLine,
    PaidAnswer,
    sealed,
)
from detector_bench.perception.answers.ledger_writing import LedgerWriter
from detector_bench.perception.answers.prices import Prices
from detector_bench.perception.answers.spending import Record, spending_record

FOLDER = "paid"
"""In a result folder."""

_SECONDS_FOR_OTHERS = 120.0
_MARGIN = 1e-9  # of sums of floats


class PaidLedger:
    """The ledger of a result folder; several threads may use it, and other processes write beside it.

    Args:
        folder: where its files lie; None keeps it in memory alone.
        session: of which run; processes that work on one run share it.
        budget: what may be spent, with what the folder holds already.
        prices: by fingerprint of the stage, for answers that were recorded without any.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        session: str | None = None,
        budget: Budget | None = None,
        prices: Mapping[str, Prices] | None = None,
    ) -> None:
        self.folder = folder
        self.session = session or new_session()
        self.budget = budget
        self._prices = dict(prices or {})
        self._name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{self.session}-{secrets.token_hex(3)}"
        self._changed = Condition()
        self._writer = None if folder is None else LedgerWriter(folder / f"{self._name}.jsonl")
        self._broken: DetectorBenchError | None = None
        self._written = 0
        self._others: dict[str, LedgerFile] = {}
        self._is_read = folder is None
        self._index = LedgerIndex()

    def of_stage(
        self,
        *,
        stage: str,
        fingerprint: str,
        service: str,
        model: str | None,
        prices: Prices | None,
        may_cost: bool,
        counts_tokens: bool,
    ) -> StageLedger:
        """The ledger as a stage uses it; see `LedgerLine`."""
        blank = LedgerLine(
            kind="request",
            id="",
            at="",
            session=self.session,
            stage=stage,
            fingerprint=fingerprint,
            service=service,
            model=model,
            image_sha256=None,
            request_sha256="",
            may_cost=may_cost,
            counts_tokens=counts_tokens,
            currency=None if prices is None else prices.currency,
        )
        return StageLedger(self, blank, prices)

    def answer(self, service: str, asked: Asked, *, fingerprint: str) -> PaidAnswer | None:
        """What stands in the ledger about a request, or about the image by an equal stage."""
        with self._changed:
            self._read_once()
            found = self._index.answer(service, asked, fingerprint=fingerprint)
            if found is None:
                self._read()  # perhaps a process that has died meanwhile was told
                found = self._index.answer(service, asked, fingerprint=fingerprint)
            return found

    def most_prompt_tokens(self, fingerprint: str, size: tuple[int, int]) -> int | None:
        """The most that a stage's question with an image of this size has cost so far; None: there was none."""
        with self._changed:
            self._read_once()
            return self._index.prompt_tokens.get((fingerprint, size))

    def send(self, draft: LedgerLine, *, worst: Callable[[], float | None]) -> LedgerLine:
        """Record a request that is about to be sent; it is on the disk when this returns.

        Args:
            draft: what is known of it.
            worst: the most that it may cost, by what is known now; None where there are no prices.

        Raises:
            BudgetReachedError: it could pass the budget.
            DetectorBenchError: the ledger cannot be written.
        """
        patience = time.monotonic() + _SECONDS_FOR_OTHERS
        with self._changed:
            self._read_once()
            while True:
                if self._broken is not None:
                    raise self._broken
                draft = replace(draft, worst=worst())
                with self._alone():
                    if self.budget is None or self._affordable(draft, self.budget, patience=patience):
                        line = self._append(self._completed(draft))
                        break
                self._changed.wait(0.25)
        self._sync()
        return line

    def settle(self, line: LedgerLine) -> None:
        """Record what became of a request. A disk that is full stops the next request, not this answer."""
        with self._changed:
            with suppress(DetectorBenchError):  # `send` raises it
                self._append(replace(line, at=_now()))
            self._changed.notify_all()
        with suppress(DetectorBenchError):
            self._sync()

    def refresh(self) -> None:
        """Take in what other processes have written since."""
        with self._changed:
            self._read()

    def spending(self) -> dict[str, Record]:
        """By stage, what was paid in all, and for this session; see `spending_record`."""
        with self._changed:
            self._read()
            labels = {line.stage: line.fingerprint for line in self._index.stages.values()}
            prices = {label: self._prices[own] for label, own in labels.items() if own in self._prices}
            return spending_record(self._index.sums(), self._index.sums(session=self.session), prices)

    def spent_in_session(self) -> dict[str, float]:
        """What this process knows to be spent for this session, by currency."""
        with self._changed:
            found: dict[str, float] = {}
            for spent in self._index.by_session[self.session].values():
                for currency, amount in spent.cost.items():
                    found[currency] = found.get(currency, 0.0) + amount
            return found

    def has_answer(self, fingerprint: str, image_sha256: str) -> bool:
        """Whether an equal stage was answered about the image."""
        with self._changed:
            self._read_once()
            return (fingerprint, image_sha256) in self._index.by_image

    @property
    def damaged(self) -> list[DamagedLine]:
        """Lines that could not be read; what stood in them counts as never written."""
        with self._changed:
            self._read_once()
            found = [line for file in self._others.values() for line in file.damaged]
            return found + [file.cut_off for file in self._others.values() if file.cut_off is not None]

    def lines(self) -> Iterator[LedgerLine]:
        """All lines of all files, file by file; damaged ones are left out."""
        if self.folder is not None:
            for path in sorted(self.folder.glob("*.jsonl")):
                yield from _news(LedgerFile(path), path)

    def _completed(self, draft: LedgerLine) -> LedgerLine:
        self._written += 1
        earlier = self._index.unanswered.get((draft.service, draft.request_sha256), ())
        return replace(draft, id=f"{self._name[-15:]}-{self._written}", at=_now(), after=tuple(earlier))

    def _affordable(self, draft: LedgerLine, budget: Budget, *, patience: float) -> bool:
        """Whether a request may be sent now; False: perhaps when those that are on the way have come.

        Raises:
            BudgetReachedError: it may not.
        """
        if draft.worst is None:
            return True
        self._read()
        spent, doubtful, on_the_way = self._index.committed(budget.currency, self._prices, session=self.session)
        doubtful += draft.worst * self._index.unknown(self._prices)
        left = budget.amount - spent - doubtful
        if draft.worst <= left - on_the_way + _MARGIN:
            return True
        if draft.worst <= left + _MARGIN and on_the_way > 0 and time.monotonic() < patience:
            return False
        raise budget.reached(spent=spent, doubtful=doubtful, worst=draft.worst)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """With a budget, no other process reserves at the same time."""
        if self.budget is None or self.folder is None:
            yield
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / ".budget.lock", thread_local=False)
            lock.acquire()
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            yield
        finally:
            lock.release()

    def _append(self, line: LedgerLine) -> LedgerLine:
        if self._writer is not None:
            try:
                add = self._writer.add if line.kind == "request" else self._writer.add_outcome
                add(sealed(line))
            except OSError as error:
                self._broken = self._unwritable(error)
                raise self._broken from error
        self._index.take(line)
        return line

    def _sync(self) -> None:
        # Outside the lock: several threads wait for the disk together.
        if self._writer is not None:
            try:
                self._writer.sync()
            except OSError as error:
                raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> DetectorBenchError:
        return DetectorBenchError(
            f"the ledger of paid answers in {str(self.folder)!r} cannot be written ({error.strerror or error}), "
            "so nothing more is asked for; what stands there is kept: make room, and run the same command again"
        )

    def _read_once(self) -> None:
        if not self._is_read:
            self._read()

    def _read(self) -> None:
        self._is_read = True
        if self.folder is None:
            return
        for path in sorted(self.folder.glob("*.jsonl")):
            if path.stem != self._name:
                for line in _news(self._others.setdefault(path.name, LedgerFile(path)), path):
                    self._index.take(line)


class StageLedger:
    """The ledger as one stage uses it.

    Args:
        ledger: of the result folder.
        blank: what all its lines have in common.
        prices: of its service.
    """

    def __init__(self, ledger: PaidLedger, blank: LedgerLine, prices: Prices | None) -> None:
        self._ledger = ledger
        self._blank = blank
        self._prices = prices

    def answer(self, asked: Asked) -> PaidAnswer | None:
        """What stands there already."""
        return self._ledger.answer(self._blank.service, asked, fingerprint=self._blank.fingerprint)

    def most_prompt_tokens(self, size: tuple[int, int]) -> int | None:
        """See `PaidLedger.most_prompt_tokens`."""
        return self._ledger.most_prompt_tokens(self._blank.fingerprint, size)

    def entry(self, asked: Asked, *, worst: Callable[[], float | None] = lambda: None) -> LedgerEntry:
        """Where attempts to have a request answered are recorded; `worst`: see `PaidLedger.send`."""
        draft = replace(
            self._blank,
            request_sha256=asked.request_sha256,
            image_sha256=asked.image_sha256,
            size=asked.size,
        )
        return LedgerEntry(self._ledger, draft, self._prices, worst)


class LedgerEntry:
    """The attempts at one request: `send` before each, and one of the others after it."""

    def __init__(
        self, ledger: PaidLedger, draft: LedgerLine, prices: Prices | None, worst: Callable[[], float | None]
    ) -> None:
        self._ledger = ledger
        self._worst = worst
        self._draft = draft
        self._prices = prices
        self._sent: LedgerLine | None = None
        self._began = 0.0

    def send(self) -> None:
        """Record the request; it must be sent right after. See `PaidLedger.send`."""
        self._sent = self._ledger.send(self._draft, worst=self._worst)
        self._began = time.monotonic()

    def answered(self, answer: PaidAnswer) -> None:
        """Record the answer."""
        cost = None if self._prices is None else self._prices.cost(answer)
        self._settle(kind="answer", answer=answer, cost=cost)

    def failed(
        self, reason: str, *, perhaps_paid: bool, status: int | None = None, said: str | None = None
    ) -> None:
        """Record that there is no answer; see `LedgerLine`."""
        self._settle(kind="failure", reason=reason, perhaps_paid=perhaps_paid, status=status, said=said)

    def _settle(self, **outcome: object) -> None:
        if self._sent is not None:
            seconds = round(time.monotonic() - self._began, 3)
            line = replace(self._sent, worst=None, after=(), seconds=seconds, **outcome)  # type: ignore[arg-type]
            self._sent = None
            self._ledger.settle(line)


@runtime_checkable
class TakesLedger(Protocol):
    """A loaded stage that asks a service which may be paid for; a run gives it the ledger before it is called."""

    def take_ledger(self, ledger: PaidLedger, *, stage: str, fingerprint: str) -> None:
        """Record everything there from now on.

        Args:
            ledger: of the result folder.
            stage: the label under which the run records the stage.
            fingerprint: of the stage.
        """


def new_session() -> str:
    """A name for a run, that no other has."""
    return secrets.token_hex(4)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _news(file: LedgerFile, path: Path) -> Iterator[LedgerLine]:
    try:
        yield from file.news()
    except OSError as error:
        raise DetectorBenchError(
            f"the ledger of paid answers {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error
