"""`labels export`, `labels import` and `labels agreement`: what goes into the labelling desk's store, and out."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.labelling import LabelStore, Question
    from detector_bench.labelling.incoming import Imported
    from detector_bench.labelling.label_table import GivenLabel


class ExportFormat(StrEnum):
    """Which file `labels export` writes."""

    CSV = "csv"
    DETAILS = "details"
    LABEL_STUDIO = "label-studio"


_FILES = {
    ExportFormat.CSV: "labels.csv",
    ExportFormat.DETAILS: "label_details.csv",
    ExportFormat.LABEL_STUDIO: "tasks.json",
}
Where = Annotated[
    Path, typer.Argument(metavar="STORE|IMAGE_SET", help="A store (.sqlite), or the image set that it lies in.")
]


@command(reads_images=True)
def export(
    where: Where,
    *,
    out: options.Out,
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="labels.csv, how each came about, or Label Studio's JSON.")
    ] = (ExportFormat.CSV),
    image_set: options.ImageSetOption = None,
    task: options.Task = options.TaskName.IMAGES,
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
    overwrite: options.Overwrite = False,
) -> None:
    """Write the labels of a store: labels.csv, label_details.csv, or Label Studio's tasks.json with its .xml.

    label_details.csv says of each label how it came about: the question in its words and language, what was
    proposed in a grid, how long it took, and whether the image was asked again.

    An --out that ends in .csv or .json is taken for the file itself.

    Examples: `detector-bench labels export my_images --out my_images`,
    `detector-bench labels export my_images --format label-studio --out for_label_studio`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.labelling.label_details import label_details_csv
    from detector_bench.labelling.label_studio import label_studio_tasks, labelling_config
    from detector_bench.labelling.labels_csv import labels_csv

    file = options.file_in(out, _FILES[format_])
    config = file.with_suffix(".xml")
    for path in (file, *([config] if format_ is ExportFormat.LABEL_STUDIO else [])):
        if path.exists() and not overwrite:
            raise ConfigError(
                f"{str(path)!r} exists; name another folder with --out, or replace it with --overwrite"
            )
    with _opened(where, image_set, task, read_only=True) as store:
        if format_ is ExportFormat.CSV:
            _refuse_none(store, include_changed=include_changed)
            write_text(file, labels_csv(store, include_changed=include_changed))
        elif format_ is ExportFormat.DETAILS:
            write_text(file, label_details_csv(store, include_changed=include_changed))
        else:
            tasks = label_studio_tasks(
                store,
                image_address=image_address,
                emails=options.pairs(email, option="--email"),
                include_changed=include_changed,
            )
            write_text(config, labelling_config(store.settings.task, store.questions))
            write_text(file, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
            nameless = sorted(
                {one["annotator"] for each in tasks for one in each["annotations"]} - _addressed(tasks)
            )
            if nameless:
                output.warn(
                    f"without an address (see --email): {', '.join(nameless)}; Label Studio will put their labels "
                    "down to whoever imports the file"
                )
        labels, every = len(store.given(include_changed=include_changed)), len(store.given(include_changed=True))
    output.row(f"{file}: {labels:,} labels", table="labels", file=file, labels=labels)
    if every > labels:
        changed = every - labels
        output.warn(
            f"left out: {changed:,} labels on images that have changed since, or are gone (see --include-changed)"
        )


@command(reads_images=True)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="labels.csv, .parquet, or Label Studio's .json.")],
    where: Where,
    *,
    image_set: options.ImageSetOption = None,
    task: options.Task = options.TaskName.IMAGES,
    annotator: Annotated[
        list[str] | None,
        typer.Option("--annotator", metavar="THEIRS=OURS", help="A person in Label Studio: address or id."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="CONTROL", help="A control that is no question of ours."),
    ] = None,
    attributes: options.AskedAttributes = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Put labels of a file into a store, which is made if it is missing: all of them, or none if one is wrong.

    --overwrite replaces other labels of the same annotators.

    Examples: `detector-bench labels import their_labels.csv my_images`,
    `detector-bench labels import export.json my_images --annotator 3=ann`
    """
    from detector_bench.labelling.label_studio_reading import LabelStudioImport, import_label_studio
    from detector_bench.labelling.labels_csv import import_labels_csv

    if file.is_dir() or file.suffix == ".sqlite" or where.suffix.lower() in {".csv", ".parquet", ".json"}:
        raise ConfigError(
            f"{str(file)!r} is to be the file with labels, and {str(where)!r} the store or image set that they go "
            f"to; the other way round it is `detector-bench labels import {where} {file}`"
        )
    asked = tuple(name.strip() for name in (attributes or "").split(",") if name.strip())
    with _opened(where, image_set, task, read_only=False, attributes=asked) as store:
        if file.suffix.lower() == ".json":
            settings = LabelStudioImport(
                options.pairs(annotator, option="--annotator"), tuple(ignore or ()), overwrite
            )
            _report(import_label_studio(store, file, settings=settings), store)
        else:
            _report(import_labels_csv(store, file, overwrite=overwrite), store)


@command(reads_images=True)
def agreement(
    where: Where,
    *,
    image_set: options.ImageSetOption = None,
    task: options.Task = options.TaskName.IMAGES,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Of the calibration round alone; and what to discuss.")
    ] = False,
    out: options.OptionalOut = None,
) -> None:
    """Measure how far the desk's annotators agreed on their own: Cohen, Fleiss, Krippendorff, with intervals.

    It reads the desk's store while labelling goes on, and shows the tables of `agreement`, which reads finished
    labels and compares detectors, too. With --out, every number comes into agreement.csv. Labels that were revised
    after the calibration round's discussion, and adjudicated ones, do not count.
    --calibration shows that round apart: kappa of every label and reason, and the images on which people differ.

    Examples: `detector-bench labels agreement my_images`,
    `detector-bench labels agreement my_images --calibration`
    """
    if calibration:
        from detector_bench.cli.label_calibration import show_calibration_round

        with _opened(where, image_set, task, read_only=True) as store:
            show_calibration_round(store, out)
        return
    from detector_bench.cli.analyses import show
    from detector_bench.study_agreement import desk_agreement

    with _opened(where, image_set, task, read_only=True) as store:
        found = desk_agreement(store)
        if found.numbers:
            show(found, out, excerpt=True)
        else:
            output.answer(found)
        given = store.given(independent=True)
        for question in store.questions:
            people = sorted({one.annotator for one in given if one.question == question.name})
            _say_ways(given, question, people)


def _refuse_none(store: LabelStore, *, include_changed: bool) -> None:
    """A table without rows is no `labels.csv`: whatever reads it would refuse the image set."""
    if store.given(include_changed=include_changed):
        return
    changed = len(store.given(include_changed=True))
    why = (
        f"all {changed:,} labels are on images that have changed since, or are gone (see --include-changed)"
        if changed
        else "nobody has labelled yet; `detector-bench label` asks"
    )
    raise ConfigError(f"{str(store.path)!r} has no labels to write: {why}")


def _opened(
    where: Path,
    image_set: Path | None,
    task: options.TaskName,
    *,
    read_only: bool,
    attributes: tuple[str, ...] = (),
) -> LabelStore:
    from detector_bench.dataset import ImageSet
    from detector_bench.dataset.calibration_file import read_calibration
    from detector_bench.labelling import Assignment, DeskSettings, LabelStore, Task
    from detector_bench.labelling.opening import default_path

    is_folder = where.is_dir()
    kind = Task(task.value)
    path = default_path(where, kind) if is_folder else where
    folder = image_set or (where if is_folder else where.parent)
    if not path.exists() and (read_only or not is_folder):
        raise ConfigError(f"there is no labelling store {str(path)!r}; `detector-bench label` makes one")
    images = ImageSet.load(folder, require_labels=False)
    if path.exists():
        return LabelStore.open(path, images, read_only=read_only)
    settings = DeskSettings.checked(task=kind, attributes=attributes)
    first = Assignment(calibration=frozenset(named) if (named := read_calibration(images)) else None)
    return LabelStore.open(path, images, settings=settings, read_only=read_only, assignment=first)


def _say_ways(given: list[GivenLabel], question: Question, annotators: list[str]) -> None:
    """Of labels that were proposed in a grid: how people agree on them, beside those given one at a time."""
    from detector_bench.labelling.ways import caution, ways_of, ways_sentence

    if len(annotators) < 2 or not any(one.entry.asking.in_grid for one in given):
        return
    found = ways_of(given, question, annotators)
    for title, of_way in (("in a grid", found.grid), ("one at a time", found.alone)):
        output.row(
            f"{question.name}, {title}: kappa {of_way.kappa:.2f} ({of_way.low:.2f} to {of_way.high:.2f}), "
            f"{of_way.images:,} images",
            table="ways",
            attribute=question.name,
            labelled=title,
            kappa=of_way.kappa,
            ci_low=of_way.low,
            ci_high=of_way.high,
            n=of_way.images,
            p_value=found.p_value,
        )
    output.say(f"{ways_sentence(found)} {caution()}")


def _report(imported: Imported, store: LabelStore) -> None:
    output.row(
        f"{store.path}: {imported.stored:,} labels stored, {imported.known:,} were there already",
        table="labels",
        store=store.path,
        stored=imported.stored,
        known=imported.known,
        left_out=imported.left_out,
        skipped=imported.skipped,
    )
    if imported.left_out:
        asked = ", ".join(store.settings.attributes)
        output.warn(
            f"left out: {imported.left_out:,} labels of attributes that this store does not ask for ({asked})"
        )
    if imported.skipped:
        output.warn(f"left out: {imported.skipped:,} images that were skipped there")


def _addressed(tasks: list[dict[str, Any]]) -> set[str]:
    every = (annotation for task in tasks for annotation in task["annotations"])
    return {annotation["annotator"] for annotation in every if "completed_by" in annotation}
