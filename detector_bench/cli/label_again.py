"""What is sent back to be labelled again: `--again`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.errors import ConfigError, nearest_hint

if TYPE_CHECKING:
    from detector_bench.labelling import LabelStore

Again = Annotated[
    str | None,
    typer.Option(
        "--again",
        metavar="FILE|IDS",
        help="Only send images back to be labelled anew: a CSV with image_id, a list, or ids with commas.",
    ),
]
_LARGEST_LIST = 50_000_000
_SHOWN = 3


def read_ids(given: str) -> list[str]:
    """The ids of a CSV file with a column `image_id`, of a list with a line each, or separated by commas.

    Raises:
        ConfigError: a file that cannot be read, or nothing in it.
    """
    path = Path(given)
    try:
        is_file = path.is_file()
    except OSError:  # a name that no file system takes
        is_file = False
    if not is_file:
        if path.suffix in (".csv", ".txt"):
            raise ConfigError(f"--again: there is no file {given!r}")
        found = given.split(",")
    else:
        found = _ids_in(path)
    ids = list(dict.fromkeys(name for each in found if (name := each.strip())))
    if not ids:
        raise ConfigError(
            f"--again {given}: no image is named (accepted: a column image_id, or an id in each line)"
        )
    return ids


def _ids_in(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _LARGEST_LIST:
            raise ConfigError(f"--again: {path} is larger than {_LARGEST_LIST:,} bytes")
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"--again: {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    head = rows[0] if rows else []
    if "image_id" in head:
        place = head.index("image_id")
        return [row[place] for row in rows[1:] if len(row) > place]
    if len(head) > 1:
        raise ConfigError(f"--again: {path}, row 1: the column image_id is missing (found: {', '.join(head)})")
    return [row[0] for row in rows if row]


def send_back(store: LabelStore, given: str, annotators: Sequence[str]) -> None:
    """Put images back into the queues of those who have labelled them, and say what became of it.

    Raises:
        ConfigError: images that the desk does not know; then nothing is sent back. Annotators without any label.
    """
    ids = read_ids(given)
    known = {item.item_id for item in store.present_items()}
    if unknown := [name for name in ids if name not in known]:
        more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
        raise ConfigError(
            f"--again: no image {', '.join(map(repr, unknown[:_SHOWN]))}{more} in {store.image_set.root}: "
            f"{nearest_hint(unknown[0], known)}; nothing was sent back"
        )
    there = store.annotators()
    if strangers := [name for name in annotators if name not in there]:
        raise ConfigError(f"--again: {strangers[0]!r} has labelled nothing: {nearest_hint(strangers[0], there)}")
    found = store.ask_again(ids, annotators)
    whom = ", ".join(annotators) or "everybody who labelled them"
    parts = [f"{found.asked:,} of {len(ids):,} images are asked again of {whom}"]
    if found.waiting:
        parts.append(f"{found.waiting:,} wait for it already")
    if found.unlabelled:
        parts.append(f"{found.unlabelled:,} have no label yet")
    output.text("; ".join(parts) + ".")
    output.say(
        "Their labels count until new ones are given, and agreement stays measured on the first ones. Images that "
        "were chosen because a detector differs make the labels follow that detector: send back as many that were "
        "chosen at random, and say in the paper what was labelled again."
    )
