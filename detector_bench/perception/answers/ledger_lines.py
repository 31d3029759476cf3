"""Lines of the ledger of paid answers: JSON with a checksum of itself, readable after a crash at any byte."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

from detector_bench.perception.answers.token_choices import Place, places_from, plain_places

MOST_TOKENS = 1_000_000_000
"""Of one request; a server that names more does not count tokens."""

_SEAL = re.compile(rb',"check":"([0-9a-f]{64})"\}$')
_SEAL_LENGTH = len(',"check":""}') + 64


class PaidAnswer(NamedTuple):
    """What a service answered about an image.

    Attributes:
        text: word for word.
        refused: the model or a filter before it declined to answer.
        prompt_tokens: what question and image cost; None if the service does not say.
        completion_tokens: what the answer cost.
        places: the tokens that it might have had instead, where they were asked for and given.
    """

    text: str
    refused: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A line of the ledger: a request, written before it is sent, or what became of it.

    Attributes:
        kind: `request`, `answer` or `failure`.
        id: of the request; the line of its outcome has the same.
        at: when, in ISO 8601 and UTC.
        session: of which run, however many processes it has.
        stage: the stage's label in `run.json`.
        fingerprint: of the stage.
        service: the address that was asked, without any key.
        model: its name there; None where a service has but one.
        image_sha256: of the image's file; None where it is not known.
        request_sha256: of the request's content, which holds the image as it was sent.
        size: width and height of the image as it was sent.
        may_cost: whether the service may charge for answers at all.
        counts_tokens: whether it charges by tokens.
        currency: of `worst` and `cost`; None without prices.
        worst: the most that the request may cost.
        after: earlier requests of the same content without an answer, that may have been paid for.
        seconds: from sending to outcome.
        answer: of an `answer`.
        cost: of an answer; None where it is not known.
        reason: of a `failure`.
        perhaps_paid: whether a failure may have been paid for: the request was on the wire, and the service did
            not refuse it.
        status: of HTTP, if there was any.
        said: what a service said in the place of an answer, as far as 2,000 characters.
    """

    kind: Literal["request", "answer", "failure"]
    id: str
    at: str
    session: str
    stage: str
    fingerprint: str
    service: str
    model: str | None
    image_sha256: str | None
    request_sha256: str
    size: tuple[int, int] | None = None
    may_cost: bool = True
    counts_tokens: bool = True
    currency: str | None = None
    worst: float | None = None
    after: tuple[str, ...] = ()
    seconds: float | None = None
    answer: PaidAnswer | None = None
    cost: float | None = None
    reason: str | None = None
    perhaps_paid: bool = False
    status: int | None = None
    said: str | None = None

    def as_data(self) -> dict[str, Any]:
        """Plain data, without what holds nothing."""
        found = {name: getattr(self, name) for name in self.__slots__}
        if self.answer is not None:
            del found["answer"]
            found |= {"answer": self.answer.text, "refused": self.answer.refused}
            if self.counts_tokens:
                tokens = {"prompt": self.answer.prompt_tokens, "completion": self.answer.completion_tokens}
                found |= {f"{name}_tokens": number for name, number in tokens.items()}
            if self.answer.places:
                found["token_choices"] = plain_places(self.answer.places)
        return {name: value for name, value in found.items() if value is not None and value != ()}


class DamagedLine(NamedTuple):
    """A line that is not as it was written: the file's name, the line's number, and what is wrong."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.why}"


def sealed(line: LedgerLine) -> bytes:
    """The line as it stands in a file: JSON in ASCII, whose last key is the sha256 of all before it."""
    body = json.dumps(line.as_data(), separators=(",", ":"), allow_nan=False).encode("ascii")
    check = hashlib.sha256(body).hexdigest()
    return body[:-1] + f',"check":"{check}"}}\n'.encode("ascii")


def unsealed(text: bytes) -> LedgerLine:
    """Read a line, without its line feed.

    Raises:
        ValueError: it is not as it was written; the message says why.
    """
    if not _SEAL.search(text[-_SEAL_LENGTH:]):
        raise ValueError("cut off, or no line of a ledger")
    body = text[:-_SEAL_LENGTH] + b"}"
    if hashlib.sha256(body).hexdigest().encode() != text[-_SEAL_LENGTH:-2].rpartition(b'"')[2]:
        raise ValueError("its checksum is not that of its content")
    try:
        return _line_of(json.loads(body))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"its content is none of a ledger: {type(error).__name__}") from None


def _line_of(data: Mapping[str, Any]) -> LedgerLine:
    known: dict[str, Any] = {name: data.get(name) for name in ("model", "image_sha256")}
    known |= {name: data[name] for name in LedgerLine.__slots__ if name in data}
    if known.get("kind") not in ("request", "answer", "failure"):
        raise ValueError("unknown kind")
    if "answer" in known:
        known["answer"] = PaidAnswer(
            str(data["answer"]),
            bool(data.get("refused")),
            counted_tokens(data.get("prompt_tokens")),
            counted_tokens(data.get("completion_tokens")),
            places_from(data.get("token_choices")),
        )
    for name in ("size", "after"):
        if name in known:
            known[name] = tuple(known[name])
    for name in ("worst", "cost"):
        if name in known and not isfinite(known[name]):
            raise ValueError(f"{name} is no amount")
    return LedgerLine(**known)


def counted_tokens(number: object) -> int | None:
    """A number of tokens as a server gives it, 0 to 10^9; None for all else."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MOST_TOKENS:
        return number
    return None


class LedgerFile:
    """A file of a ledger, read from where it was read last.

    Attributes:
        damaged: lines that were skipped for good.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines = 0
        self._rest = b""
        self.damaged: list[DamagedLine] = []

    @property
    def cut_off(self) -> DamagedLine | None:
        """The last line, if it has no end yet: it was cut off, or is being written."""
        return DamagedLine(self._path.name, self._lines + 1, "cut off") if self._rest else None

    def news(self) -> Iterator[LedgerLine]:
        """The lines that were added since, in their order.

        Raises:
            OSError: the file cannot be read.
        """
        if self._path.stat().st_size <= self._offset:
            return
        with self._path.open("rb") as stream:
            stream.seek(self._offset - len(self._rest))
            self._offset -= len(self._rest)
            self._rest = b""
            for text in stream:
                self._offset += len(text)
                if not text.endswith(b"\n"):
                    self._rest = text
                    return
                self._lines += 1
                try:
                    yield unsealed(text[:-1])
                except ValueError as error:
                    self.damaged.append(DamagedLine(self._path.name, self._lines, str(error)))
