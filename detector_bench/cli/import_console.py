"""What `import` prints: what was recognised, what would be written, questions, and the command that would work."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from detector_bench.cli.console import output
from detector_bench.errors import ConfigError, DataError, DetectorBenchError

if TYPE_CHECKING:
    from detector_bench.dataset.import_decisions import UndecidedImportError
    from detector_bench.dataset.import_settings import ImportSettings
    from detector_bench.dataset.importing import ImportPlan, ImportRefusedError
    from detector_bench.dataset.text_table import TextTable

_FIRST_ROWS = 3
_MOST_TRIED = 5
_MOST_COUNTED = 12


def show_plan(plan: ImportPlan) -> None:
    """Print an import of which nothing is written."""
    output.row(f"images: {plan.layout}", table="recognised", style="bold", what="images", recognised=plan.layout)
    for what, text in dict.fromkeys(plan.news.recognised):
        output.row(f"  {what}: {text}", table="recognised", what=what, recognised=text)
    tables = {"images": plan.tables.images, "prompts": plan.tables.prompts, "labels": plan.tables.labels}
    for name, table in tables.items():
        if table is not None and len(table):
            _show_rows(name, table)
    _show_labels(plan.tables.labels)
    added = plan.additions
    written = {
        name: len(table)
        for name, table in tables.items()
        if table is not None and (added is None or name in dict(added.tables))
    }
    rows = ", ".join(f"{name}.csv ({number:,} rows)" for name, number in written.items())
    verb = {"copy": "copied", "hardlink": "linked", "symlink": "linked"}[plan.settings.link]
    files = f"{len(plan.moved):,} image files {verb}" if plan.moved else "no image file is moved"
    if plan.beside:
        files += f"; beside them {', '.join(plan.beside)}"
    output.row(
        f"would be written to {plan.destination}: {rows or 'nothing'}; {files}",
        table="written",
        style="bold",
        image_set=plan.destination,
        files=len(plan.moved),
        rows=written,
    )
    if added is not None:
        output.row(said_of_additions(plan), table="added", **_added(plan))
    output.warn(*plan.news.notes)
    output.say("Nothing was written; the same command without --preview does it.")


def said_of_additions(plan: ImportPlan) -> str:
    """What comes to an image set, in a line."""
    added = plan.additions
    assert added is not None  # noqa: S101 - the caller asks
    return (
        f"added: {added.images:,} images ({added.known_images:,} are there already), {added.prompts:,} prompts, "
        f"{added.labels:,} labels ({added.known_labels:,} are there already)"
    )


def _added(plan: ImportPlan) -> dict[str, Any]:
    added = plan.additions
    assert added is not None  # noqa: S101 - the caller asks
    return {name: number for name, number in asdict(added).items() if isinstance(number, int)}


def _show_rows(name: str, table: TextTable) -> None:
    import pandas as pd

    first = min(_FIRST_ROWS, len(table))
    frame = pd.DataFrame({column: table.column(column).slice(0, first).to_pylist() for column in table.columns})
    output.rows(f"first_{name}", frame.to_dict("records"))
    output.grid(frame)
    if len(table) > first:
        output.row(f"  ... {len(table):,} {name}", table=name, rows=len(table))


def _show_labels(labels: TextTable | None) -> None:
    if labels is None or not len(labels):
        return
    import pandas as pd

    columns = ["attribute", "annotator", "label"]
    frame = pd.DataFrame({column: labels.column(column).to_pylist() for column in columns})
    for attribute, rows in frame.groupby("attribute", sort=False):
        counts = rows["label"].value_counts()
        people = rows["annotator"].value_counts()
        shown = ", ".join(f"{label} {count:,}" for label, count in counts.items())
        named = ", ".join(f"{who} {count:,}" for who, count in people.head(_MOST_COUNTED).items())
        more = "" if len(people) <= _MOST_COUNTED else f" and {len(people) - _MOST_COUNTED:,} more"
        output.row(
            f"labels of {attribute}: {shown}; by {named}{more}",
            table="label_counts",
            attribute=attribute,
            labels=counts.to_dict(),
            annotators=people.to_dict(),
        )


def command_with(options: Sequence[str]) -> str:
    """The command that was called, with more options; of an option that may stand once, the new one counts."""
    words = ["detector-bench", *sys.argv[1:]]
    for option in ("--pattern", "--t2i-model", "--annotators", "--adjudicator", "--decimal"):
        if option in options and option in words:
            at = words.index(option)
            del words[at : at + 2]
    return shlex.join([*words, *options])


def refusal(
    error: ImportRefusedError, settings: ImportSettings, retry: Callable[[ImportSettings], object]
) -> DataError:
    """The mistakes, and the command that works, or that goes further, if one is known.

    Args:
        error: what was refused.
        settings: with which.
        retry: plans the import with other settings.
    """
    from detector_bench.dataset.importing import ImportRefusedError

    remedies: list[str] = []
    verdict, left = "this command goes further", error
    for _ in range(_MOST_TRIED):
        if not left.remedies:
            break
        remedies += left.remedies
        settings = with_options(settings, left.remedies)
        try:
            retry(settings)
        except ImportRefusedError as further:
            left = further
        except DetectorBenchError:
            break  # the next thing is somebody's decision
        else:
            verdict = "this command works"
            break
    if not remedies:
        return DataError(error.problems)
    return DataError(error.problems, advice=f"{verdict}: {command_with(remedies)}")


def with_options(settings: ImportSettings, said: Sequence[str]) -> ImportSettings:
    """The settings with more options of the command line."""
    words = list(said)
    while words:
        option = words.pop(0)
        if option == "--allow-unknown-images":
            settings = replace(settings, allow_unknown_images=True)
            continue
        given = words.pop(0)
        if option == "--value":
            theirs, _, ours = given.rpartition("=")
            settings = replace(settings, translations={**settings.translations, theirs: ours})
        elif option == "--decimal":
            settings = replace(settings, table=replace(settings.table, decimal=given))
        elif option == "--annotators":
            settings = replace(settings, annotators=names_in(given))
        else:
            name = {"--adjudicator": "adjudicator", "--pattern": "pattern", "--t2i-model": "t2i_model"}[option]
            settings = replace(settings, **{name: given})  # type: ignore[arg-type]
    return settings


def names_in(text: str | None) -> tuple[str, ...]:
    """Names that commas separate."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def asked(error: UndecidedImportError) -> Sequence[str]:
    """The options by which somebody at a terminal answers; elsewhere a line with the command that decides.

    Raises:
        ConfigError: nobody is there to answer.
    """
    if not at_a_terminal():
        said = "; ".join(f"{each.text}: `{command_with(each.options)}`" for each in error.choices)
        raise ConfigError(f"{error.question} {said}") from error
    import typer

    output.warn(error.question)
    for number, choice in enumerate(error.choices, start=1):
        output.warn(f"  {number}: {choice.text} ({shlex.join(choice.options)})")
    answer = typer.prompt("Which", type=int, default=1)
    if not 1 <= answer <= len(error.choices):
        raise ConfigError(f"{answer} (accepted: 1 to {len(error.choices)})")
    options: Sequence[str] = error.choices[answer - 1].options
    return options


def at_a_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
