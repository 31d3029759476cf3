"""`prompts`: prompt tables from lists of words, templates and other benchmarks' files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.prompt_lists import PromptList

PREVIEWED = 10
"""Rows that `--dry-run` shows."""


@command
def prompts(
    sources: Annotated[
        list[str] | None, typer.Argument(metavar="SOURCE", help="Built-in lists (see --list), or files.")
    ] = None,
    *,
    out: options.Out = Path(),
    category: Annotated[
        list[str] | None, typer.Option("--category", help="Only this category; may be repeated.")
    ] = None,
    concern: Annotated[
        str | None,
        typer.Option("--concern", help="ImageBiTe: only prompts that leave this ethical concern open."),
    ] = None,
    words: Annotated[
        Path | None, typer.Option("--words", metavar="FILE", help="Words instead of the list's own.")
    ] = None,
    templates: Annotated[
        Path | None, typer.Option("--templates", metavar="FILE", help="Templates instead of the list's own.")
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE.json", help="ImageBiTe's input: what is filled in.")
    ] = None,
    explicit: Annotated[
        bool, typer.Option("--explicit", help="BIGbench: also prompts that ask for a gender, race or age group.")
    ] = False,
    weights: options.PromptWeights = None,
    attribute_file: options.AttributeFiles = None,
    suffix: Annotated[
        str | None, typer.Option("--suffix", metavar="TEXT", help="Text after every prompt.")
    ] = None,
    keep_attributes: Annotated[
        bool, typer.Option("--keep-attributes", help="A suffix that asks to keep gender, skin tone and age.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the first rows; write nothing.")] = False,
    overwrite: options.Overwrite = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the built-in lists, and stop.")] = False,
) -> None:
    """Build the prompt table of an image set: prompt_id, category, word, prompt, and what the prompts state.

    A SOURCE is a built-in list; or a file: words with their categories (.csv or .parquet; with templates.csv
    beside it, or --templates), a prompt table (with a column prompt; ids are kept), sentences (.txt, one a line),
    templates in ImageBiTe's tab-separated format (with --input), BIGbench's reference shares (.json), or the
    folder of its prompts. Written is prompts.csv, and prompts_wordings.csv where prompts have several wordings; an
    --out that ends in .csv is taken for the file itself.

    Examples: `detector-bench prompts lyu2025 --dry-run`,
    `detector-bench prompts biaspainter --category profession --keep-attributes --out mitigated`,
    `detector-bench prompts words.csv --templates templates.csv`,
    `detector-bench prompts prompts_t2i_en_us.csv --input input.json --concern gender`,
    `detector-bench prompts oc_gt.json char_gt.json sr_gt.json --explicit --weights weight.json`,
    `detector-bench prompts BIGbench/data/prompt --out bigbench`
    """
    from detector_bench.atomic_files import remove, write_text
    from detector_bench.prompt_lists import read_prompts, with_weights
    from detector_bench.prompt_lists.prompt_tables import wordings_file
    from detector_bench.vocabulary import read_attributes

    read_attributes(attribute_file or ())
    if list_:
        _show_builtin_lists()
        return
    named: list[str | Path] = [*(sources or [])]
    if not named and words is not None:
        named, words = [words], None
    if not named:
        raise ConfigError("name a SOURCE: a file or a built-in prompt list; --list shows those")
    made = read_prompts(*named, words=words, templates=templates, input_file=input_file, explicit=explicit)
    if weights is not None:
        made = with_weights(made, weights)
    made = made.restricted(categories=category or [], concern=concern)
    added = _suffix(suffix, keep_attributes=keep_attributes)
    if added is not None:
        made = made.with_suffix(added)
    if not dry_run:
        file = options.file_in(out, "prompts.csv")
        for each in (file, wordings_file(file)):
            if each.exists() and not overwrite:
                raise ConfigError(f"{each} exists; --overwrite replaces it")
        wordings = made.wording_table()
        remove(wordings_file(file))  # of a list that was here before
        if not wordings.empty:
            write_text(wordings_file(file), wordings.to_csv(index=False, lineterminator="\n"))
        write_text(file, made.csv())
    _show_counts(made)
    output.rows("prompts", made.table().to_dict("records"))
    if dry_run:
        _show_rows(made)
    else:
        beside = "" if wordings.empty else f", {len(wordings):,} wordings to {wordings_file(file)}"
        output.say(f"written to {file}{beside}")


def _suffix(suffix: str | None, *, keep_attributes: bool) -> str | None:
    from detector_bench.prompt_lists import KEEP_ATTRIBUTES

    if keep_attributes and suffix is not None:
        raise ConfigError("--keep-attributes is a suffix of its own: give it or --suffix, not both")
    return KEEP_ATTRIBUTES if keep_attributes else suffix


def _show_builtin_lists() -> None:
    from detector_bench.prompt_lists import builtin_lists, read_prompts

    for name, builtin in builtin_lists().items():
        made = read_prompts(name)
        facts = {
            "prompts": f"{len(made.prompts):,}",
            "categories": ", ".join(f"{category} {count}" for category, count in made.counts().items()),
            "files": f"{builtin.content}, {builtin.templates}",
        }
        output.record(name, facts, table="prompt_lists", summary=builtin.about)


def _show_counts(made: PromptList) -> None:
    counts = made.counts()
    width = max(len(category) for category in counts)
    lines = [f"{made.name}: {len(made.prompts):,} prompts"]
    lines += [f"  {category:<{width}}  {count:>6,}" for category, count in counts.items()]
    lines += made.notes
    if repeated := made.repeated_texts():
        lines.append(f"{repeated:,} with the sentence of an earlier prompt of another category.")
    output.text("\n".join(lines))


def _show_rows(made: PromptList) -> None:
    from detector_bench.vocabulary.columns import PROMPT_COLUMNS

    table = made.table()
    first = table.head(PREVIEWED)
    table = table[[name for name in table.columns if name in PROMPT_COLUMNS or any(first[name])]]
    output.grid(table.head(PREVIEWED))
    if len(table) > PREVIEWED:
        output.say(f"... and {len(table) - PREVIEWED:,} more; nothing was written")
    else:
        output.say("nothing was written")
