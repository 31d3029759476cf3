"""`sample.csv`: the images of a set that were drawn to be labelled, with the probability of each."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.atomic_files import write_text
from detector_bench.dataset.calibration_file import check_listed_images, read_calibration
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.table_reading import check_columns, read_any_table
from detector_bench.dataset.text_table import Findings, TextTable, shorten
from detector_bench.errors import ConfigError, Problem
from detector_bench.sample_design import SampleDesign
from detector_bench.vocabulary.columns import SAMPLE_COLUMNS

SAMPLE_FILE = "sample.csv"
"""Its name in an image set's folder, where it is found by itself."""

_PROBABILITIES = ("probability", "cell_probability")
_PROBABILITY = "a number above 0, at most 1"
_VERSION_COLUMNS = ("image_id", "t2i_model", "prompt_id")


@dataclass(frozen=True, eq=False)
class LabelSample:
    """Images that were drawn to be labelled.

    Attributes:
        rows: one for each image, with the columns `image_id, stratum, probability, cell_probability, seed`; see
            `vocabulary.columns.SAMPLE_COLUMNS`.
        design: how they were drawn.
        calibration: images that were set apart before the sample was drawn, because people agree on a standard on
            them first: all of them are labelled, and the sample speaks for the others.
        drawn: False: no sample was drawn; the rows are all images that were not set apart.
    """

    rows: pd.DataFrame
    design: SampleDesign
    calibration: tuple[str, ...] = ()
    drawn: bool = True

    @property
    def image_ids(self) -> list[str]:
        """The images, in the order of the rows; without those that were set apart."""
        return [str(name) for name in self.rows["image_id"]]

    @property
    def asked(self) -> list[str]:
        """All images that people are to label: those that were set apart, then the sample."""
        return [*self.calibration, *self.image_ids]

    def positions(self, images: pd.DataFrame) -> NDArray[np.int64]:
        """Where each row's image stands in the images of a set."""
        ids = pd.Index(images["image_id"])
        found: NDArray[np.int64] = ids.get_indexer(pd.Index(self.rows["image_id"])).astype(np.int64)
        return found


def drawn_from(image_set: ImageSet, *, without: Collection[str] = ()) -> str:
    """What a sample was drawn from: the sha256 over id, T2I model and prompt of all images, whatever their
    order, `without` those that were set apart."""
    images = image_set.images.sort_values("image_id")
    if without:
        images = images[~images["image_id"].isin(without)]
    digest = hashlib.sha256()
    for name in _VERSION_COLUMNS:
        texts = [str(cell).encode() for cell in images[name].tolist()]
        # Lengths before the text: no cell can be mistaken for two.
        digest.update(b"".join(b"%d:%b" % (len(text), text) for text in texts))
    return digest.hexdigest()


def write_sample(path: Path, sample: LabelSample, image_set: ImageSet) -> None:
    """Write a sample, whole or not at all; the same sample gives the same bytes.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    version = drawn_from(image_set, without=sample.calibration)
    rows = sample.rows.assign(design=sample.design.value, drawn_from=version)
    write_text(path, rows[list(SAMPLE_COLUMNS)].to_csv(index=False, lineterminator="\n"))


def found_sample(image_set: Path) -> Path | None:
    """The sample that lies in an image set's folder; None: there is none."""
    path = image_set / SAMPLE_FILE
    return path if path.exists() else None


def sample_of(image_set: ImageSet) -> LabelSample | None:
    """The sample in the image set's own folder; None: there is none.

    Where images were set apart for a calibration and no sample was drawn, all the others stand in its place.

    Raises:
        DataError: see `read_sample`.
    """
    path = found_sample(image_set.root)
    if path is not None:
        return read_sample(path, image_set)
    apart = read_calibration(image_set)
    return _of_all_others(image_set, tuple(apart)) if apart else None


def _of_all_others(image_set: ImageSet, calibration: tuple[str, ...]) -> LabelSample:
    images = image_set.images
    others = images.loc[(images["t2i_model"] != "") & ~images["image_id"].isin(calibration), ["image_id"]]
    rows = others.assign(stratum="", probability=1.0, cell_probability=1.0, seed=0).reset_index(drop=True)
    return LabelSample(rows, SampleDesign.EQUAL, calibration, drawn=False)


def read_sample(path: Path, image_set: ImageSet) -> LabelSample:
    """Read a sample that was drawn from this image set.

    Raises:
        DataError: with all mistakes at once: unknown, repeated or seed images, a probability that is no number in
            (0, 1], an unknown design, or several, or a sample that was drawn from another version of the set or
            beside another calibration.
        ConfigError: there is no such file.
    """
    if not path.exists():
        raise ConfigError(f"there is no sample {str(path)!r}; `detector-bench sample {image_set.root}` draws one")
    findings = Findings()
    table = read_any_table(path, findings, wanted=SAMPLE_COLUMNS, numbers=_PROBABILITIES)
    if table is not None:
        check_columns(table, SAMPLE_COLUMNS, findings)
    findings.raise_if_any()
    assert table is not None  # noqa: S101 - a table that cannot be read is a mistake
    if not len(table):
        findings.add(Problem(table.file, "no image is listed", accepted="a row for each image that was drawn"))
    check_listed_images(table, image_set, findings)
    for name in _PROBABILITIES:
        numbers = _numbers(table, name)
        wrong = np.flatnonzero(~((numbers > 0) & (numbers <= 1)))
        findings.add_rows(table, name, wrong, message="no probability", accepted=_PROBABILITY)
    seeds = table.records_with("seed", lambda text: not text.isdecimal())
    findings.add_rows(table, "seed", seeds, message="no seed", accepted="a whole number, 0 or more")
    _check_design(table, findings)
    # Images that the sample lists were drawn for the calibration later, and change nothing.
    listed = set(table.column("image_id").to_pylist())
    apart = tuple(name for name in read_calibration(image_set) if name not in listed)
    _check_version(table, image_set, apart, findings)
    findings.raise_if_any()
    columns = {name: table.column(name).to_pylist() for name in ("image_id", "stratum")}
    rows = pd.DataFrame(columns, dtype="str").assign(
        **{name: _numbers(table, name) for name in _PROBABILITIES},
        seed=[int(text) for text in table.column("seed").to_pylist()],
    )
    return LabelSample(rows, SampleDesign(table.cell("design", 0)), apart)


def _check_design(table: TextTable, findings: Findings) -> None:
    accepted = ", ".join(SampleDesign)
    unknown = table.records_with("design", lambda text: text not in list(SampleDesign))
    findings.add_rows(table, "design", unknown, message="unknown design", accepted=accepted)
    if len(table) and not len(unknown):
        first = table.cell("design", 0)
        others = table.records_with("design", lambda text: text != first)
        findings.add_rows(table, "design", others, message="a second design", accepted=f"{first}, as in row 2")


def _check_version(table: TextTable, image_set: ImageSet, apart: tuple[str, ...], findings: Findings) -> None:
    now = drawn_from(image_set, without=apart)
    others = table.records_with("drawn_from", lambda text: text != now)
    if len(others):
        first = int(others[0])
        message = (
            "drawn from another version of the image set: images, T2I models, prompts or the images of the "
            "calibration have changed since; draw "
            f"anew with `detector-bench sample {image_set.root} --labels {len(table)} --overwrite`"
        )
        value = shorten(table.cell("drawn_from", first))
        findings.add(Problem(table.file, message, table.row(first), "drawn_from", value, now))


def _numbers(table: TextTable, name: str) -> NDArray[np.float64]:
    found = pd.to_numeric(pd.Series(table.column(name).to_pylist(), dtype="str"), errors="coerce")
    return found.to_numpy(dtype=np.float64)
