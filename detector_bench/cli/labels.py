"""`labels export`, `labels import` and `labels agreement`: what goes into the labelling desk's store, and out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.cli.console import errors, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.labelling import LabelStore
    from detector_bench.labelling.agreement_numbers import Agreement, LabelsSideBySide
    from detector_bench.labelling.incoming import Imported
    from detector_bench.tables.label_tables import DeskAgreement

app = typer.Typer(
    help=(
        "Labels of the labelling desk: export, import, agreement."
        "\n\nExample: `detector-bench labels export my_images --out my_images/labels.csv`"
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


class ExportFormat(StrEnum):
    """What `labels export` writes."""

    CSV = "csv"
    LABEL_STUDIO = "label-studio"


class TaskName(StrEnum):
    """Which store of an image set."""

    IMAGES = "images"
    PAIRS = "pairs"


Where = Annotated[
    Path, typer.Argument(metavar="STORE|IMAGE_SET", help="A store (.sqlite), or the image set that it lies in.")
]
ImageSetOption = Annotated[
    Path | None, typer.Option("--image-set", metavar="DIR", help="The image set of a store that lies elsewhere.")
]
TaskOption = Annotated[TaskName, typer.Option("--task", help="Which store of the image set.")]


@app.command()
def export(
    where: Where,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")],
    format_: Annotated[ExportFormat, typer.Option("--format", help="labels.csv, or Label Studio's JSON.")] = (
        ExportFormat.CSV
    ),
    image_set: ImageSetOption = None,
    task: TaskOption = TaskName.IMAGES,
    include_changed: Annotated[
        bool, typer.Option("--include-changed", help="Also labels on images that have changed since.")
    ] = False,
    image_address: Annotated[
        str, typer.Option("--image-address", help="What stands before an image's path for Label Studio.")
    ] = "/data/local-files/?d=",
    email: Annotated[
        list[str] | None,
        typer.Option("--email", metavar="NAME=ADDRESS", help="An annotator's address in Label Studio."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Write the labels of a store. For Label Studio, a labelling configuration (.xml) is written beside the file.

    Examples: `detector-bench labels export my_images --out my_images/labels.csv`,
    `detector-bench labels export my_images --format label-studio --out tasks.json`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.labelling.label_studio import label_studio_tasks, labelling_config
    from detector_bench.labelling.labels_csv import labels_csv

    config = out.with_suffix(".xml")
    for path in (out, *([config] if format_ is ExportFormat.LABEL_STUDIO else [])):
        if path.exists() and not overwrite:
            raise ConfigError(
                f"{str(path)!r} exists; name another file with --out, or replace it with --overwrite"
            )
    with _opened(where, image_set, task, read_only=True) as store:
        if format_ is ExportFormat.CSV:
            write_text(out, labels_csv(store, include_changed=include_changed))
        else:
            tasks = label_studio_tasks(
                store, image_address=image_address, emails=_pairs(email), include_changed=include_changed
            )
            write_text(config, labelling_config(store.settings.task, store.questions))
            write_text(out, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
            nameless = sorted(
                {one["annotator"] for each in tasks for one in each["annotations"]} - _addressed(tasks)
            )
            if nameless:
                _warn(
                    f"without an address (see --email): {', '.join(nameless)}; Label Studio will put their labels "
                    "down to whoever imports the file"
                )
        labels, every = len(store.given(include_changed=include_changed)), len(store.given(include_changed=True))
    _say(f"{out}: {labels:,} labels")
    if every > labels:
        changed = every - labels
        _warn(
            f"left out: {changed:,} labels on images that have changed since, or are gone (see --include-changed)"
        )


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="labels.csv, .parquet, or Label Studio's .json.")],
    where: Where,
    *,
    image_set: ImageSetOption = None,
    task: TaskOption = TaskName.IMAGES,
    annotator: Annotated[
        list[str] | None,
        typer.Option("--annotator", metavar="THEIRS=OURS", help="A person in Label Studio: address or id."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="CONTROL", help="A control that is no question of ours."),
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option("--attributes", metavar="NAMES", help="What a new store asks for; by default gender."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace other labels of the same annotators.")
    ] = False,
) -> None:
    """Put labels of a file into a store, which is made if it is missing: all of them, or none if one is wrong.

    Examples: `detector-bench labels import their_labels.csv my_images`,
    `detector-bench labels import export.json my_images --annotator 3=ann`
    """
    from detector_bench.labelling.label_studio_reading import LabelStudioImport, import_label_studio
    from detector_bench.labelling.labels_csv import import_labels_csv

    asked = tuple(name.strip() for name in (attributes or "").split(",") if name.strip())
    with _opened(where, image_set, task, read_only=False, attributes=asked) as store:
        if file.suffix.lower() == ".json":
            settings = LabelStudioImport(_pairs(annotator), tuple(ignore or ()), overwrite)
            _report(import_label_studio(store, file, settings=settings), store)
        else:
            _report(import_labels_csv(store, file, overwrite=overwrite), store)


@app.command()
def agreement(
    where: Where,
    *,
    image_set: ImageSetOption = None,
    task: TaskOption = TaskName.IMAGES,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.csv", help="Also write the numbers to this file.")
    ] = None,
) -> None:
    """Measure how far annotators agree on what they labelled on their own: Cohen's or Fleiss' kappa.

    Labels that were revised after the calibration round's discussion, and adjudicated ones, do not count.

    Example: `detector-bench labels agreement my_images`
    """
    import pandas as pd

    from detector_bench.atomic_files import write_text
    from detector_bench.labelling.agreement_numbers import LabelsSideBySide
    from detector_bench.tables import to_rich
    from detector_bench.tables.label_tables import desk_agreement

    rows: list[dict[str, object]] = []
    with _opened(where, image_set, task, read_only=True) as store:
        given = store.given(independent=True)
        for question in store.questions:
            labels = LabelsSideBySide(store.image_set, given, question)
            if len(labels.annotators) > 1:
                found = list(_measured(labels))
                output.print(to_rich(desk_agreement(found, attribute=question.name)))
                output.print()
                rows += [_as_stored(question.name, row) for row in found]
            else:
                _say(f"{question.name}: fewer than two annotators have labelled: there is nothing to compare")
    if out is not None:
        write_text(out, pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


def _opened(
    where: Path, image_set: Path | None, task: TaskName, *, read_only: bool, attributes: tuple[str, ...] = ()
) -> LabelStore:
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import DeskSettings, LabelStore, Task
    from detector_bench.labelling.opening import default_path

    is_folder = where.is_dir()
    kind = Task(task.value)
    path = default_path(where, kind) if is_folder else where
    folder = image_set or (where if is_folder else where.parent)
    if not path.exists() and (read_only or not is_folder):
        raise ConfigError(f"there is no labelling store {str(path)!r}; `detector-bench label` makes one")
    settings = None if path.exists() else DeskSettings.checked(task=kind, attributes=attributes)
    return LabelStore.open(
        path, ImageSet.load(folder, require_labels=False), settings=settings, read_only=read_only
    )


def _measured(labels: LabelsSideBySide) -> Iterator[DeskAgreement]:
    """Agreement of all annotators and of every two of them, over everything and by scope."""
    groups = [tuple(labels.annotators)]
    if len(labels.annotators) > 2:
        groups += list(combinations(labels.annotators, 2))
    for annotators in groups:
        names = " and ".join(annotators) if len(annotators) == 2 else "all"
        yield _row(names, "all", "all", labels.agreement(annotators))
        for scope in labels.by_scope(annotators):
            yield _row(names, scope.t2i_model, scope.category, scope.agreement)


def _row(annotators: str, t2i_model: str, category: str, agreement: Agreement) -> DeskAgreement:
    from detector_bench.tables.label_tables import DeskAgreement

    return DeskAgreement(
        annotators,
        t2i_model,
        category,
        kappa=agreement.kappa,
        low=agreement.low,
        high=agreement.high,
        equal=agreement.percent,
        images=agreement.images,
    )


def _as_stored(attribute: str, row: DeskAgreement) -> dict[str, object]:
    names = {"annotators": row.annotators, "t2i_model": row.t2i_model, "category": row.category}
    numbers = {"kappa": row.kappa, "ci_low": row.low, "ci_high": row.high, "equal": row.equal, "n": row.images}
    return {"attribute": attribute, **names, **numbers}


def _report(imported: Imported, store: LabelStore) -> None:
    _say(f"{store.path}: {imported.stored:,} labels stored, {imported.known:,} were there already")
    if imported.left_out:
        asked = ", ".join(store.settings.attributes)
        _warn(f"left out: {imported.left_out:,} labels of attributes that this store does not ask for ({asked})")
    if imported.skipped:
        _warn(f"left out: {imported.skipped:,} images that were skipped there")


def _pairs(texts: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        name, equals, meaning = text.partition("=")
        if not (name and equals and meaning):
            raise ConfigError(f"the option has the form NAME=MEANING; got {text!r}")
        pairs[name] = meaning
    return pairs


def _addressed(tasks: list[dict[str, Any]]) -> set[str]:
    every = (annotation for task in tasks for annotation in task["annotations"])
    return {annotation["annotator"] for annotation in every if "completed_by" in annotation}


def _say(text: str) -> None:
    output.print(text, markup=False, highlight=False, soft_wrap=True)


def _warn(text: str) -> None:
    errors.print(text, markup=False, highlight=False, soft_wrap=True)
