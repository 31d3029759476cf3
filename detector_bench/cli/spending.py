"""`spending`: what paid services were asked, and what it cost."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.atomic_files import replacing
from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.perception.answers.ledger_lines import LedgerLine

_ENDINGS = (".csv", ".jsonl")
_MOST_DAMAGE_SHOWN = 10
_COLUMNS = (
    *("id", "outcome", "at", "seconds", "session", "stage", "fingerprint", "service", "model"),
    *("image_sha256", "request_sha256", "width", "height", "answer", "refused", "prompt_tokens"),
    *("completion_tokens", "cost", "currency", "worst", "reason", "perhaps_paid", "status", "said", "after"),
)

Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="Write a row for every request to a .csv or .jsonl file: the answer word for word, tokens, cost.",
    ),
]


@command
def spending(folder: options.Folder, *, export: Export = None, overwrite: options.Overwrite = False) -> None:
    """What paid services were asked by the runs of a result folder, and what it cost. Nothing is sent.

    The numbers come from the ledger of paid answers (the folder `paid`), which every run writes before and after
    each request; they need no finished run. `perhaps paid` are requests without an answer that were on the wire.

    Examples: `detector-bench spending results/judged`,
    `detector-bench spending results/judged --export answers.csv`
    """
    from detector_bench.perception.answers.paid_ledger import FOLDER, PaidLedger

    if export is not None and export.suffix not in _ENDINGS:
        raise ConfigError(f"--export {str(export)!r}: the name ends in {' or '.join(_ENDINGS)}")
    if export is not None and export.exists() and not overwrite:
        raise ConfigError(f"--export: {str(export)!r} exists; add --overwrite to replace it")
    if not folder.is_dir():
        raise ConfigError(f"no folder {str(folder)!r}")
    ledger = PaidLedger(folder / FOLDER)
    rows = [{"stage": label, **_without_session(each)} for label, each in ledger.spending().items()]
    output.rows("spending", rows)
    for row in rows:
        numbers = ", ".join(
            f"{name.replace('_', ' ')} {_in_words(value)}" for name, value in row.items() if name != "stage"
        )
        output.say(f"{row['stage']}: {numbers}")
    if not rows:
        output.say(f"No paid service was asked: {str(folder)!r} has no ledger of paid answers, or an empty one.")
    for each in ledger.damaged[:_MOST_DAMAGE_SHOWN]:
        output.warn(f"damaged, and in no number: {each}")
    if len(ledger.damaged) > _MOST_DAMAGE_SHOWN:
        output.warn(f"{len(ledger.damaged) - _MOST_DAMAGE_SHOWN:,} more damaged lines")
    if export is not None:
        written = _write(export, exported(ledger.lines()))
        output.say(f"{written:,} requests are in {export}.")


def exported(lines: Iterable[LedgerLine]) -> list[dict[str, Any]]:
    """A row for every request, with its outcome; requests without one have the outcome `unknown`."""
    found: dict[str, LedgerLine] = {}
    for line in lines:
        before = found.get(line.id)
        found[line.id] = (
            line if before is None else replace(line, at=before.at, worst=before.worst, after=before.after)
        )
    return [_row(line) for line in sorted(found.values(), key=lambda each: (each.at, each.id))]


def _row(line: LedgerLine) -> dict[str, Any]:
    data = line.as_data()
    width, height = line.size or (None, None)
    data |= {
        "outcome": "unknown" if line.kind == "request" else line.kind,
        "width": width,
        "height": height,
        "after": " ".join(line.after),
        "perhaps_paid": line.perhaps_paid or line.kind == "request",
    }
    return {name: data.get(name) for name in _COLUMNS}


def _write(path: Path, rows: list[dict[str, Any]]) -> int:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="", errors="replace") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return len(rows)


def _without_session(record: dict[str, float | str]) -> dict[str, float | str]:
    return {name: value for name, value in record.items() if not name.endswith("_this_session")}


def _in_words(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if float(value).is_integer() else f"{value:,.4f}"
