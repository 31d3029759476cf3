"""Makes an image set of a folder tree `t2i_model/prompt/image`: `import_images` with every setting spelt out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.import_settings import ImportSettings
from detector_bench.dataset.importing import plan_import


def import_folder(
    source: Path | str,
    destination: Path | str,
    *,
    seeds: Path | str | None = None,
    labels: Path | str | None = None,
    mapping: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
    attribute: str = "gender",
    annotator: str = "imported",
    attribute_files: Iterable[Path | str] = (),
    prompts: Path | str | None = None,
    category: str = "unknown",
    link: Literal["copy", "hardlink", "symlink"] = "copy",
    overwrite: bool = False,
    notes: list[str] | None = None,
) -> ImageSet:
    """Write `images.csv`, `prompts.csv` and `labels.csv` for a tree `t2i_model/prompt/image`.

    Without labels there is no `labels.csv` either: the labelling desk writes it.

    Where the source is the destination or lies in it, the images stay where they are; otherwise they are put
    into `images/` there; likewise seeds, into `seeds/`. Nothing is written if there is any mistake. Each file is
    written whole or not at all, and `images.csv` last, so an import that was cut short is no image set and can be
    run again.

    Args:
        source: the folder tree; a prompt folder of the same name below several T2I models is one prompt.
        destination: the image set's folder; made if it is missing.
        seeds: a folder of photos from which all images of the tree were edited. An image belongs to the seed
            whose file name, without the suffix, its own begins with (see `match_seeds`).
        labels: a table with human labels (`foreign.table_form.READABLE`). Its image column holds an image id, a
            path below `source` (of a seed: the name of its folder and its own), or a file name that only one image
            has. None: the images are to be labelled later.
        mapping: our column (`image_id, annotator, attribute, label, reason, value`) or an attribute to theirs.
            `label` or an attribute may name several columns, separated by commas: each is one annotator, who bears
            the column's name. `value` then names as many, in the same order.
        values: their label or reason to ours; "" leaves such labels out.
        attribute: what the labels are about, where no column says so.
        annotator: whose labels they are, where no column says so.
        attribute_files: YAML files of attributes that are not built in; they get into the image set.
        prompts: a table with `prompt_id` (the prompt folder's name, or its id) and any of
            `category`, `word`, `prompt` and `columns.optional_prompt_columns`. A folder may also bear the sentence
            in the column `prompt`. Base prompts come along, though they have no images. None: the word is the
            folder's name with blanks for underscores.
        category: of prompts that the prompts file gives none.
        link: how images get into the destination; a hard link needs no space, but must stay on one file system; a
            symbolic one leads out of the image set, which `run` and `check` have to be told (`--allow-root`).
        overwrite: whether tables that exist may be replaced.
        notes: receives what is no mistake and should be known, a sentence each: how many label cells are empty,
            who the annotators of several label columns are, what prompts lack without a file of them.

    Returns:
        The new image set.

    Raises:
        ConfigError: a mapping, value or option is not valid.
        DataError: mistakes in the tree or the tables, all of them at once.
    """
    settings = ImportSettings(
        seeds=_path(seeds),
        labels=_path(labels),
        mapping=mapping or {},
        translations=values or {},
        attribute=attribute,
        annotator=annotator,
        attribute_files=tuple(map(Path, attribute_files)),
        prompts=_path(prompts),
        category=category,
        link=link,
        overwrite=overwrite,
    )
    plan = plan_import(source, destination, settings)
    if notes is not None:
        notes += plan.news.notes
    return plan.write()


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)
