"""What a command says: for people, or as one JSON object; and what `--json`, `--quiet` and `--log` ask of it."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from detector_bench import __version__
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from detector_bench.study_questions import ResultTables
    from detector_bench.tables import Table

EXIT_CALL = 2
_UNBOUNDED = 100_000
"""Characters in a line where no terminal ends it."""
_PANEL = "Common options"

_AsJson = Annotated[
    bool,
    typer.Option(
        "--json", rich_help_panel=_PANEL, help="Print one JSON object: its `rows` are those of the CSV form."
    ),
]
_Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", rich_help_panel=_PANEL, help="Print nothing but results and errors.")
]
_LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log", metavar="FILE", rich_help_panel=_PANEL, help="Append what happens to this file, with times."
    ),
]
_AllowRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        metavar="FOLDER",
        help="Links of the image set may lead below this folder, too; may be repeated (or "
        "DETECTOR_BENCH_IMAGE_ROOTS). All others that leave the image set are refused.",
    ),
]
_Gone = Annotated[Path | None, typer.Option("--predictions", hidden=True)]

errors = Console(stderr=True)


class Printout:
    """Standard output of one command: results, and remarks about them.

    With `--json` nothing is printed before the command's end; then results are the object's `rows`, each with the
    name of its `table`, and remarks and warnings its `notes`.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self, *, as_json: bool = False, quiet: bool = False, log: TextIO | None = None) -> None:
        terminal = Console()
        # A pipe has no width, and a table in it is not to be broken up.
        self._console = terminal if terminal.is_terminal else Console(width=_UNBOUNDED)
        self._rows: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._as_json, self._quiet, self._log = as_json, quiet, log
        errors.quiet = quiet

    def table(self, table: Table, *, rows: pd.DataFrame | None = None) -> None:
        """Print a table, in the form that was asked for.

        Args:
            table: what people read.
            rows: for `--json`, the numbers that the table is an excerpt of; None: the table has them all.
        """
        from detector_bench.tables import to_rich

        self.log(f"table {table.name}")
        if not self._as_json:
            self._console.print(to_rich(table))
            self._console.print()
            return
        self.rows(table.name, (table.to_pandas() if rows is None else rows).to_dict("records"))
        self._note(table.all_notes)

    def answer(self, found: ResultTables, *, excerpt: bool = False) -> None:
        """Print the tables that a study was asked for.

        Args:
            found: the tables, and the long numbers behind them.
            excerpt: for `--json`, the numbers behind the tables, of which they show a part.
        """
        for table in found.tables.values():
            if table.rows and not (self._as_json and excerpt):
                self.table(table)
        if self._as_json and excerpt:
            for name, numbers in found.numbers.items():
                self.rows(name, numbers.to_dict("records"))
            self._note(note for table in found.tables.values() for note in table.all_notes)
        for note in found.notes:
            self.say(note)

    def row(self, text: str, *, table: str, style: str = "", **facts: Any) -> None:
        """Print a result that is a line, not a table; `facts` are its cells for `--json`."""
        if self._as_json:
            self.rows(table, [facts])
        else:
            self._line(text, style=style)

    def grid(self, frame: pd.DataFrame) -> None:
        """Print rows as they are, without caption and notes."""
        if self._as_json:
            return
        grid = Grid(*frame.columns, box=None, header_style="bold")
        for row in frame.itertuples(index=False):
            grid.add_row(*(Text(str(cell), overflow="fold") for cell in row))
        self._console.print()
        self._console.print(grid)

    def rows(self, table: str, rows: Iterable[Mapping[Any, Any]]) -> None:
        """Rows for `--json` alone, of what people read otherwise."""
        self._rows += [{"table": table, **row} for row in rows]

    def record(
        self, name: str, facts: Mapping[str, str], *, table: str, summary: str = "", good: bool = True
    ) -> None:
        """Print a name and what is known about it, one fact below the other; empty facts are left out."""
        if self._as_json:
            self.rows(table, [{"name": name, "summary": summary, **facts}])
            return
        heading = Text(name, style="bold green" if good else "bold yellow")
        if summary:
            heading.append(f"  {summary}", style="not bold default")
        self._console.print(heading)
        grid = Grid.grid(padding=(0, 2))
        for fact, text in facts.items():
            if text:
                grid.add_row(Text(f"  {fact}", style="dim"), Text(text, overflow="fold"))
        self._console.print(grid)
        self._console.print()

    def text(self, text: str) -> None:
        """Print a result that is prose."""
        if self._as_json:
            self._notes += text.splitlines()
        else:
            self._line(text)

    def say(self, text: str) -> None:
        """Print a remark; `--quiet` leaves it out."""
        self.log(text)
        self._notes.append(text)
        if not (self._as_json or self._quiet):
            self._line(text)

    def warn(self, *texts: str, style: str = "yellow") -> None:
        """Print on standard error what may be amiss; `--quiet` leaves it out."""
        for text in texts:
            self.log(text)
            self._notes.append(text)
            errors.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def log(self, text: str) -> None:
        """Append to the log, if there is one; a line each."""
        if self._log is not None:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._log.write("".join(f"{now} {line}\n" for line in text.splitlines()))
            self._log.flush()

    def _line(self, text: str, *, style: str = "") -> None:
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def _note(self, notes: Iterable[str]) -> None:
        self._notes += [note for note in dict.fromkeys(notes) if note not in self._notes]

    @contextmanager
    def command(
        self, name: str, folder: object, *, as_json: bool, quiet: bool, log: Path | None
    ) -> Iterator[None]:
        """What a command does between its beginning and its end; then come the object, and the log's last line."""
        try:
            file = None if log is None else log.open("a", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--log: cannot write to {str(log)!r}: {error.strerror}") from error
        self._start(as_json=as_json, quiet=quiet, log=file)
        self.log(f"detector-bench {__version__} {name}: {' '.join(sys.argv[1:])}")
        try:
            yield
            self._finish(name, folder)
        except typer.Exit as stop:
            self._finish(name, folder)
            self.log(f"ended with status {stop.exit_code}")
            raise
        except BaseException as error:
            self.log(f"stopped: {str(error) or type(error).__name__}")
            raise
        else:
            self.log("ended with status 0")
        finally:
            self._log, errors.quiet = None, False
            if file is not None:
                file.close()

    def _finish(self, name: str, folder: object) -> None:
        if self._as_json:
            content = {
                "command": name,
                "version": __version__,
                "folder": folder,
                "rows": self._rows,
                "notes": self._notes,
            }
            sys.stdout.write(json.dumps(_plain(content), ensure_ascii=False, allow_nan=False, indent=1) + "\n")


output = Printout()


def command(
    run: Callable[..., None] | None = None, *, prints_rows: bool = True, reads_images: bool = False
) -> Callable[..., Any]:
    """Add the options that every command has: `--json` (where it prints rows), `--quiet`, `--log`; and
    `--allow-root` where it reads images of an image set.

    A command that takes a result folder (its parameter `folder`) also learns what the study file and
    `--predictions`, which it used to take, have become.
    """
    if run is None:
        return partial(command, prints_rows=prints_rows, reads_images=reads_images)
    own = inspect.signature(run, eval_str=True)
    takes_folder = "folder" in own.parameters
    added: dict[str, tuple[object, object]] = {
        "context": (typer.Context, inspect.Parameter.empty),
        **({"as_json": (_AsJson, False)} if prints_rows else {}),
        "quiet": (_Quiet, False),
        "log": (_LogFile, None),
        **({"allow_root": (_AllowRoots, None)} if reads_images else {}),
        **({"gone": (_Gone, None)} if takes_folder else {}),
    }
    positional = [name for name, each in own.parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in added.items()
    ]

    @wraps(run)
    def called(
        *arguments: Any,
        context: typer.Context | None = None,
        quiet: bool = False,
        log: Path | None = None,
        as_json: bool = False,
        allow_root: list[Path] | None = None,
        gone: Path | None = None,
        **options: Any,
    ) -> None:
        whole = "" if context is None else context.command_path.removeprefix(context.find_root().command_path)
        name = whole.strip() or run.__name__
        given = own.bind(*arguments, **options).arguments
        if takes_folder:
            _refuse_old_form(name, gone, *(given.get(each) for each in positional))
        folder = given.get("folder", given.get("out"))
        with output.command(name, folder, as_json=as_json, quiet=quiet, log=log), _allowing(allow_root):
            run(*arguments, **options)

    together = own.replace(parameters=[*own.parameters.values(), *parameters])
    annotations = {name: each.annotation for name, each in together.parameters.items()}
    # Typer asks for both.
    vars(called).update(__signature__=together)
    called.__annotations__ = annotations
    return called


def _allowing(roots: Sequence[Path] | None) -> AbstractContextManager[None]:
    """What `--allow-root` allows while a command runs; the image set's rules are not imported for nothing."""
    if not roots:
        return nullcontext()
    from detector_bench.dataset.image_folder import allowing

    return allowing(roots)


def complain(what: str, why: str = "") -> None:
    """Say on standard error why a command stops: `error: ...`."""
    errors.print(
        f"{what}:" if why else what, style="red" if what == "error" else "yellow", end=" " if why else "\n"
    )
    if why:
        errors.print(why, markup=False, highlight=False, soft_wrap=True)


def _refuse_old_form(name: str, predictions: Path | None, folder: Path | None, *others: object) -> None:
    """Commands on a result folder used to be called with STUDY.yaml --predictions DIR."""
    if predictions is None and (folder is None or folder.suffix not in (".yaml", ".yml")):
        return
    words = ["detector-bench", name, predictions or "DIR", *(other for other in others if other is not None)]
    complain(
        "error",
        f"{name} takes the result folder in the place of a study file and --predictions: "
        f"`{' '.join(map(str, words))}`, with the same options",
    )
    raise typer.Exit(EXIT_CALL)


def _plain(value: Any) -> Any:
    """What JSON knows: undefined and infinite numbers are null, paths are text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # NumPy's numbers
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
