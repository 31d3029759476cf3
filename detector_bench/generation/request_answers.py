"""What somebody who made images elsewhere says of them: `answers.csv` or `answers.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detector_bench.dataset.table_reading import read_table
from detector_bench.dataset.text_table import Findings
from detector_bench.errors import Problem
from detector_bench.json_text import JsonMistake, parse_json
from detector_bench.vocabulary.generations import GenerationStatus

STATUSES = (GenerationStatus.MADE, GenerationStatus.BLOCKED, GenerationStatus.ERROR)
"""What may be said of a request."""

_REQUIRED = ("image_id", "status")
_TEXTS = ("reason", "revised_prompt", "model", "version")
_NUMBERS = ("seconds", "cost")
_LONGEST_LINE = 1_000_000


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """What is said of one request.

    Attributes:
        status: None: nothing is said.
        reason: of a refusal or an error.
        revised_prompt: the sentence that the prompt was made into.
        seconds: that it took.
        cost: what was charged.
        model: which T2I model it was.
        version: of it.
        place: where that stands, for messages.
    """

    status: GenerationStatus | None = None
    reason: str | None = None
    revised_prompt: str | None = None
    seconds: float | None = None
    cost: float | None = None
    model: str | None = None
    version: str | None = None
    place: str = ""

    @property
    def parameters(self) -> dict[str, str | int | float]:
        """What is said of the T2I model, as a row of `generations.parquet` keeps it."""
        named = {"model": self.model, "version": self.version}
        return {name: value for name, value in named.items() if value is not None}


def read_answers(folder: Path, image_ids: Collection[str]) -> dict[str, RequestAnswer]:
    """The answers that lie in a folder, by image; nothing where there are none.

    Raises:
        DataError: an unknown image or status, a number that is none, two answers for an image, an unreadable file.
    """
    findings = Findings()
    found: dict[str, RequestAnswer] = {}
    kinds: dict[tuple[str, str], list[Problem]] = {}
    for file, row, record in _records(folder, findings):
        problems = list(_problems(file, row, record, image_ids, found))
        for problem in problems:
            kinds.setdefault((file, problem.message), []).append(problem)
        if not problems:
            found[str(record["image_id"])] = _answer(f"{file}, row {row},", record)
    for alike in kinds.values():
        findings.add_kind(alike)
    findings.raise_if_any()
    return found


def _records(folder: Path, findings: Findings) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Every answer with its file and row."""
    columns = (*_REQUIRED, *_TEXTS, *_NUMBERS)
    table = read_table(
        folder,
        "answers",
        required=_REQUIRED,
        optional=(*_TEXTS, *_NUMBERS),
        numbers=_NUMBERS,
        findings=findings,
        may_be_missing=True,
        distinct=("image_id", "revised_prompt"),
    )
    if table is not None and table.has(*_REQUIRED):
        cells = {name: table.column(name).to_pylist() for name in columns if table.has(name)}
        for index, values in enumerate(zip(*cells.values(), strict=True)):
            texts = {name: text.strip() for name, text in zip(cells, values, strict=True)}
            yield table.file_of(index), table.row(index), {name: text for name, text in texts.items() if text}
    yield from _json_records(folder / "answers.jsonl", findings)


def _json_records(path: Path, findings: Findings) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for row, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE), ""), start=1):
                if not line.strip():
                    continue
                record = parse_json(line)
                if not isinstance(record, dict):
                    findings.add(
                        Problem(path.name, "no object", row, value=line[:60], accepted="an object in each line")
                    )
                    return
                yield path.name, row, {name: value for name, value in record.items() if value not in (None, "")}
    except FileNotFoundError:
        return
    except JsonMistake as error:
        findings.add(Problem(path.name, str(error), row))
    except UnicodeDecodeError:
        findings.add(Problem(path.name, "wrong encoding", accepted="UTF-8 text"))
    except OSError as error:
        findings.add(Problem(path.name, f"the file cannot be read ({error.strerror})", accepted="a readable file"))


def _problems(
    file: str, row: int, record: Mapping[str, Any], image_ids: Collection[str], found: Mapping[str, RequestAnswer]
) -> Iterator[Problem]:
    image_id, status = record.get("image_id"), record.get("status")
    if not isinstance(image_id, str) or image_id not in image_ids:
        yield Problem(file, "no such request", row, "image_id", str(image_id or ""), "an image_id of requests.csv")
    elif image_id in found:
        yield Problem(file, "a second answer for one image", row, "image_id", image_id, "one for each image")
    if status not in [str(each) for each in STATUSES]:
        yield Problem(file, "unknown status", row, "status", str(status or ""), ", ".join(STATUSES))
    for name in _TEXTS:
        if not isinstance(record.get(name, ""), str):
            yield Problem(file, "no text", row, name, str(record[name]), "a text")
    for name in _NUMBERS:
        if name in record and _number(record[name]) is None:
            yield Problem(file, "no number", row, name, str(record[name]), "a number, 0 or above, or nothing")


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _answer(place: str, record: Mapping[str, Any]) -> RequestAnswer:
    return RequestAnswer(
        status=GenerationStatus(record["status"]),
        seconds=_number(record.get("seconds")),
        cost=_number(record.get("cost")),
        place=place,
        **{name: record.get(name) for name in _TEXTS},
    )
