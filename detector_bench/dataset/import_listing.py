"""Makes an image set of images in a bucket, in tar files or in Parquet files, such as Hugging Face's data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.import_settings import ImportSettings
from detector_bench.dataset.importing import plan_import


def import_listed(
    source: str,
    destination: Path | str,
    *,
    t2i_model: str = "",
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
    """Write `images.csv` and the other tables for images that stay in archives, tables or buckets.

    Images at addresses stay where they are: `images.csv` holds the addresses. Tar and Parquet files on this
    machine stay, too, if they lie in the destination, and are put into `images/` there otherwise.

    A bucket is a tree `t2i_model/prompt/image`, and so is a tar file; or a tar file holds WebDataset's samples,
    with T2I model and prompt in the fields of a `.json` (or the prompt in a `.txt`). Of Parquet files, `mapping`
    says which columns hold the image (`path`), `t2i_model`, `prompt` (the sentence) and, if there is one,
    `prompt_id`; a column `image_id` holds the ids.

    Args:
        source: an address, a `.tar` or `.parquet` file, or a folder of such files.
        destination: the image set's folder; made if it is missing.
        t2i_model: that of images of which the source says none.
        mapping: our column to theirs; what is none of `COLUMNS` is about the labels, as in `import_folder`.
        labels: as in `import_folder`; images may also be named by their path.
        values: as there, like all others.
        attribute: as there.
        annotator: as there.
        attribute_files: as there.
        prompts: as there; its `prompt_id` is the source's, or its `prompt` the source's sentence.
        category: as there.
        link: how files on this machine get into the destination.
        overwrite: as there.
        notes: as there.

    Returns:
        The new image set.

    Raises:
        ConfigError: a mapping, value or option is not valid.
        DataError: mistakes in the source or the tables, all of them at once.
        MissingExtraError: a package is needed that is not installed.
    """
    settings = ImportSettings(
        t2i_model=t2i_model,
        labels=None if labels is None else Path(labels),
        mapping=mapping or {},
        translations=values or {},
        attribute=attribute,
        annotator=annotator,
        attribute_files=tuple(map(Path, attribute_files)),
        prompts=None if prompts is None else Path(prompts),
        category=category,
        link=link,
        overwrite=overwrite,
    )
    plan = plan_import(source, destination, settings)
    if notes is not None:
        notes += plan.news.notes
    return plan.write()
