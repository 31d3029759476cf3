"""The lines of a text file that holds prompts, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from detector_bench.dataset.text_table import Findings, shorten
from detector_bench.errors import Problem

_LARGEST_BYTES = 200_000_000


class TextLine(NamedTuple):
    """A line that is not empty, without blanks around it."""

    file: str
    row: int
    text: str

    @property
    def place(self) -> str:
        """Where it stands, for notes."""
        return f"{self.file}, row {self.row}"

    def problem(self, message: str, *, accepted: str) -> Problem:
        """A mistake in this line."""
        return Problem(self.file, message, self.row, None, shorten(self.text), accepted)


def read_lines(path: Path, findings: Findings) -> Iterator[TextLine]:
    """The lines of a text file in UTF-8; empty ones are passed over. A last line needs no line break.

    Lines that are no UTF-8 are reported, each with its row, as is a file that cannot be read.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            findings.add(Problem(path.name, "the file is too large", accepted=f"at most {_LARGEST_BYTES:,} bytes"))
            return
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        findings.add(Problem(path.name, f"the file cannot be read ({reason})", accepted="a readable file"))
        return
    for row, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            shown = shorten(line.decode("utf-8", errors="replace").strip())
            findings.add(Problem(path.name, "no UTF-8", row, None, shown, "text in UTF-8"))
            continue
        if text:
            yield TextLine(path.name, row, text)
