"""Refuses to replace what people wrote: a recipe and prompts in the folder, labels of images made anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from detector_bench.dataset.table_reading import read_table
from detector_bench.dataset.text_table import Findings
from detector_bench.errors import ConfigError


def check_nothing_is_written_over(folder: Path, texts: Mapping[str, Callable[[], str]]) -> None:
    """Refuse a folder in which somebody's own files bear the names of the image set's.

    Args:
        folder: in which nothing was made yet.
        texts: by name, gives what would be written there.

    Raises:
        ConfigError: a file of such a name says something else.
    """
    own = [name for name, text in texts.items() if _differs(folder / name, text)]
    if own:
        raise ConfigError(
            f"{str(folder)!r} holds files that the image set would replace: {', '.join(own)}; "
            "name another folder with --out"
        )


def _differs(path: Path, text: Callable[[], str]) -> bool:
    try:
        return path.read_bytes() != text().encode()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def check_no_labels_of(folder: Path, image_ids: Collection[str]) -> None:
    """Refuse to make images anew of which there are labels: they say what other pictures show.

    Args:
        folder: the image set.
        image_ids: of the images.

    Raises:
        ConfigError: `labels.csv`, or `labels.parquet`, speaks of some of them.
    """
    if not image_ids:
        return
    labels = read_table(folder, "labels", required=("image_id",), findings=Findings(), may_be_missing=True)
    if labels is None or not labels.has("image_id"):
        return
    wanted = set(image_ids)
    spoken_of = [each for each in labels.column("image_id").to_pylist() if each in wanted]
    if spoken_of:
        raise ConfigError(
            f"{labels.file} has {len(spoken_of):,} labels of {len(set(spoken_of)):,} images that would be made "
            f"anew, such as {spoken_of[0]}; they say what the present pictures show, and would stand beside "
            "others. Take those labels out first, or name another folder with --out"
        )
