"""The folder that a report is written to, and its pages from templates.

Every text is escaped, and no page holds a script or a style of its own. What an earlier report left in the folder
goes; what is somebody else's stays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

from jinja2 import Environment, PackageLoader, StrictUndefined

from detector_bench import __version__
from detector_bench.atomic_files import replacing, write_text
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.results.label_plans import bounded
from detector_bench.results.metric_lookup import Number
from detector_bench.results.proof import digests
from detector_bench.sealed import write_sealed
from detector_bench.site.verdict import ModelVerdict
from detector_bench.tables.layout import group_headings
from detector_bench.tables.table import Cell, Table, ethics_note, is_missing, printable
from detector_bench.vocabulary import ATTRIBUTES

CONTENT_POLICY = (
    # `file:` stands beside 'self' because browsers differ on what 'self' is for a page that lies on a disk.
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; "
    "base-uri 'none'; form-action 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

CARE = (
    "Perceived gender, age group and race are what people and detectors see in a synthetic image. They are not an "
    "identity, and nobody's identity can be read off a picture. Labels that fit none of the classes are kept as "
    "“others”, and never dropped in silence. Use this report to question detectors and text-to-image models, not "
    "to classify people."
)

SHORT_CARE = (
    "Perceived gender, age group and race, as seen in synthetic images; not an identity. The report says more."
)
"""Where the page has to leave room for images."""


def with_own_care(care: str, attributes: Iterable[str]) -> str:
    """What numbers are not, with a sentence for each attribute that is not built in."""
    return " ".join([care, *(ethics_note(name) for name in attributes if name not in ATTRIBUTES.built_in)])


_NOTHING = "\N{EN DASH}"
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Places prompt bias errors on a drawing that is 200 wide, 0 at its left."""

    reach: float
    """The error at the right end; what lies beyond is drawn there."""

    @classmethod
    def of(cls, verdict: ModelVerdict, *, tolerance: float) -> Scale:
        """Wide enough for all intervals, but not beyond 1."""
        ends = [end for each in verdict.evidence for end in (each.prompt_error.ci_high, each.prompt_error.value)]
        return cls(min(1.0, max([1.5 * tolerance, *(end for end in ends if math.isfinite(end))])))

    def x(self, value: float) -> float:
        """The place of an error."""
        return round(6 + 188 * min(1.0, value / self.reach), 1)

    @staticmethod
    def bounded(number: Number) -> bool:
        """Whether there is an interval to draw."""
        return bounded(number)


class Says:
    """How numbers of the verdict are written."""

    @staticmethod
    def score(value: float) -> str:
        """A bias score with three decimals."""
        return _NOTHING if math.isnan(value) else f"{value:.3f}"

    @staticmethod
    def points(value: float) -> str:
        """An error of a score, with its sign."""
        return _NOTHING if math.isnan(value) else f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")

    @staticmethod
    def per_cent(value: float) -> str:
        """A deviation in per cent, with its sign."""
        if math.isnan(value):
            return _NOTHING
        per_cent = f"{100 * value:+.1f}" if abs(value) < 0.0995 else f"{100 * value:+.0f}"
        return per_cent.replace("-", "\N{MINUS SIGN}") + " %"

    @staticmethod
    def value(value: float) -> str:
        """A number in full, by which the page sorts; empty where there is none."""
        return "" if math.isnan(value) else repr(float(value))

    @staticmethod
    def size(value: float) -> str:
        """For sorting by size, whatever the sign."""
        return "" if math.isnan(value) else repr(abs(float(value)))


def with_groups(tables: Sequence[Table]) -> list[tuple[Table, Any]]:
    """Tables with their upper headings."""
    return [(table, group_headings(table.columns)) for table in tables]


def write_page(path: Path, template: str, content: Mapping[str, Any]) -> None:
    """Render a template with `content` and what all pages share.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    shared = {"policy": CONTENT_POLICY, "care": CARE, "version": __version__, "says": Says}
    write_text(path, _environment().get_template(template).render({**shared, **content}))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("detector_bench.site"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        # Notes of an author keep their line breaks through style sheets, other texts have none.
        finalize=lambda value: _shown(value) if type(value) is str else value,
    )
    environment.globals.update(zip=zip)
    environment.filters["unbroken"] = lambda text: text.replace(" %", f"{_NO_BREAK}%")
    environment.filters["sentences"] = _first_sentence
    environment.filters["sort_value"] = _sort_value
    environment.filters["is_hash"] = lambda text: len(text) == 64 and " " not in text
    return environment


def _shown(text: str) -> str:
    """Nothing but what can be seen, and spaces; some of them keep a number and its per cent sign on one line."""
    return "\n".join(_NO_BREAK.join(map(printable, line.split(_NO_BREAK))) for line in text.split("\n"))


def _first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a caption, and the rest."""
    head, stop, rest = text.partition(". ")
    return head + stop.strip(), rest


def _sort_value(cell: Cell) -> str:
    return "" if cell.value is None or is_missing(cell.value) else repr(float(cell.value))


MANIFEST = "report.json"
"""Says that a folder is a report, which files belong to it, and its verdict for programs."""


@dataclass(frozen=True)
class ReportFolder:
    """A folder with the files that the present report has written so far, pictures aside."""

    path: Path
    _earlier: frozenset[str]
    _written: set[str] = field(default_factory=set)

    @classmethod
    def prepare(cls, path: Path) -> Self:
        """Take a folder that is new, empty, or an earlier report.

        Raises:
            ConfigError: it holds something else.
            DetectorBenchError: it cannot be made or read.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            holds_something = any(path.iterdir())
        except OSError as error:
            raise DetectorBenchError(f"cannot write to {str(path)!r}: {error}") from error
        if not holds_something:
            write_text(path / MANIFEST, json.dumps({"report": "unfinished", "files": []}) + "\n")
        elif not (path / MANIFEST).is_file():
            raise ConfigError(
                f"{str(path)!r} holds files and is no report: name a new folder with --out, or empty this one"
            )
        return cls(path, frozenset(_listed(path / MANIFEST)))

    def __truediv__(self, name: str) -> Path:
        """A file of this report; naming it here makes it one that stays."""
        self._written.add(name)
        return self.path / name

    def add(self, *paths: Path) -> None:
        """Count files in that something else has written."""
        self._written.update(path.relative_to(self.path).as_posix() for path in paths)

    def copy(self, source: Path, name: str) -> None:
        """Copy a file, whole or not at all.

        Raises:
            DetectorBenchError: it cannot be read, or not be written.
        """
        with replacing(self / name) as temporary:
            temporary.write_bytes(source.read_bytes())

    def finish(self, about: Mapping[str, Any], *, pictures: Iterable[Path], results: str | None) -> None:
        """Remove what only the earlier report had, and write the manifest, with the sha256 of every file.

        Args:
            about: what the manifest says besides.
            pictures: of the images; who made them looks after those of an earlier report.
            results: the seal of the `results.json` that the report is about.

        Raises:
            DetectorBenchError: files cannot be removed or written.
        """
        for name in sorted(self._earlier - self._written):
            target = self.path / name
            try:
                target.unlink(missing_ok=True)
            except OSError as error:
                raise DetectorBenchError(f"cannot remove {str(target)!r} of an earlier report: {error}") from error
            for folder in target.parents:
                if folder == self.path:
                    break
                with suppress(OSError):  # not empty
                    folder.rmdir()
        shown = [path.relative_to(self.path).as_posix() for path in pictures]
        sha256 = digests(self.path, [*self._written, *shown])
        content = {**about, "results": results, "files": sorted(self._written), "sha256": sha256}
        write_sealed(self.path / MANIFEST, content)


def _listed(manifest: Path) -> list[str]:
    """The files of an earlier report; a manifest that somebody altered can name nothing outside the folder."""
    try:
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
    parts = {name: name.split("/") for name in names}
    return [
        name for name in names if all(part not in ("", ".", "..") and "\\" not in part for part in parts[name])
    ]
