"""An image set whose pictures of two people are cut: images, prompts, labels and requests of the new one."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from detector_bench.atomic_files import remove, replacing, write_text
from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import ImageError, image_format
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.image_sources import read_image
from detector_bench.dataset.image_tree import slug
from detector_bench.errors import ConfigError
from detector_bench.generation.halves import JOURNAL_FILE, CutPicture, Cutter, HalfVerdict, ScenePicture, cut_all
from detector_bench.generation.people import CutRule, PeopleFinder
from detector_bench.generation.scenes import SIDES
from detector_bench.generation.scenes_file import Subjects, read_scenes
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import Stage
from detector_bench.vocabulary.generations import GENERATIONS_FILE, GenerationStatus
from detector_bench.weights import WeightsLocator

HALVES_FILE = "halves.csv"
HALVES_COLUMNS = (
    *("image_id", "scene_image_id", "side", "prompt_id", "verdict", "people", "cut_at", "cut", "in_set", "reason"),
)
"""A row for each half of each picture, whether it is an image of the new set or not."""

SCENE_IMAGE_COLUMN = "scene_image_id"
"""Of the new images.csv: the picture that an image is a half of, or empty."""

_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, kw_only=True)
class HalvesSettings:
    """How pictures are cut and checked.

    Attributes:
        people: the stage that finds the people.
        rule: cut between the people where the middle does not separate them, or always in the middle.
        smallest: a box counts as a person if it has at least this share of the largest one's area.
        keep_all: whether halves that do not show exactly one person are images of the new set, too.
    """

    people: Stage
    rule: CutRule = "between"
    smallest: float = 0.1
    keep_all: bool = False

    def line(self, weights: WeightsLocator) -> str:
        """What decides the halves, in one line."""
        people = f"{self.people.kind} {fingerprint(self.people, weights=weights)[:12]}"
        return f"{people}, cut {self.rule}, smallest {self.smallest:g}, keep_all {self.keep_all}".lower()


@dataclass
class HalvesSummary:
    """How many of what there are.

    Attributes:
        pictures: of two people.
        verdicts: halves by verdict.
        between: pictures that were not cut in the middle.
        carried: images of one person, which are the same in both sets.
        images: of the new set.
        labels_left: labels of pictures of two people, which say nothing about a half.
    """

    pictures: int = 0
    verdicts: Counter[HalfVerdict] = field(default_factory=Counter)
    between: int = 0
    carried: int = 0
    images: int = 0
    labels_left: int = 0


def halve_image_set(
    folder: Path,
    out: Path,
    settings: HalvesSettings,
    *,
    weights: WeightsLocator,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> HalvesSummary:
    """Make an image set in which each picture of two people is its two halves; all other images stay as they are.

    Which pictures are cut, and which prompts their halves have, `scenes.csv` says. Halves that do not show exactly
    one person are no images of the new set, unless all are kept; `halves.csv` lists every half with its verdict.
    Called again, it goes on where it stopped.

    Args:
        folder: the image set.
        out: the new one's folder.
        settings: how pictures are cut and checked.
        weights: where networks are found.
        progress: is told how many pictures of how many are done.

    Raises:
        ConfigError: no `scenes.csv`, `out` is another image set, or somebody else is at work in it.
        DataError: mistakes in the tables.
    """
    image_set = ImageSet.load(folder)
    subjects = read_scenes(image_set)
    _check_out(image_set, out)
    out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(out / ".halves.lock", timeout=0):
            for left_over in out.rglob(".*.tmp"):  # of a run that was killed
                remove(left_over)
            return _Halving(image_set, subjects, out, settings, weights).run(progress)
    except Timeout:
        raise ConfigError(f"{out}: another process cuts pictures into this folder") from None


def _check_out(image_set: ImageSet, out: Path) -> None:
    if out.resolve() == image_set.root:
        raise ConfigError(f"--out {out} is the image set itself (accepted: a new folder)")
    if out.is_dir() and any(out.iterdir()) and not (out / JOURNAL_FILE).is_file():
        raise ConfigError(
            f"--out {out} holds something else (accepted: a new folder, or one that halves were cut into)"
        )


class _Halving:
    """One run."""

    def __init__(
        self, image_set: ImageSet, subjects: Subjects, out: Path, settings: HalvesSettings, weights: WeightsLocator
    ) -> None:
        self.image_set, self.subjects, self.out, self.settings = image_set, subjects, out, settings
        self.weights = weights
        self.images = image_set.images
        self.is_scene = self.images["prompt_id"].isin(list(subjects))
        self.summary = HalvesSummary(pictures=int(self.is_scene.sum()))
        self.half_sha256: dict[str, str | None] = {}
        self.reasons: dict[str, str] = {}

    def run(self, progress: Callable[[int, int], None]) -> HalvesSummary:
        pictures = self._pictures()
        finder = PeopleFinder(self.settings.people, self.weights, smallest=self.settings.smallest)
        cutter = Cutter(finder, self.settings.rule, self.settings.keep_all, self._read, self.out)
        rows = []
        settings = self.settings.line(self.weights)
        for number, found in enumerate(cut_all(cutter, pictures, settings=settings), 1):
            rows += list(self._rows(found))
            progress(number, len(pictures))
        self._write(pictures, pd.DataFrame(rows, columns=list(HALVES_COLUMNS), dtype="str"))
        return self.summary

    def _read(self, path: str) -> bytes:
        return read_image(self.image_set.image_place(path))

    def _pictures(self) -> list[ScenePicture]:
        taken = set(self.images["image_id"])
        files: set[str] = set()
        found = []
        chosen = self.images[self.is_scene]
        columns = (chosen[name] for name in ("image_id", "path", "t2i_model", "prompt_id"))
        for image_id, path, model, scene in zip(*columns, strict=True):
            if clash := [each for side in SIDES if (each := f"{image_id}__{side}") in taken]:
                raise ConfigError(f"the image set has an image {clash[0]!r}, as a half would be called")
            names = []
            for side in SIDES:
                stem = (
                    f"halves/{slug(model) or 'model'}/{self.subjects[scene][side]['prompt_id']}/{slug(image_id)}"
                )
                file, number = f"{stem}__{side}.png", 2
                while file.casefold() in files:
                    file, number = f"{stem}_{number}__{side}.png", number + 1
                files.add(file.casefold())
                names.append(file)
            found.append(ScenePicture(image_id, path, (names[0], names[1])))
        return found

    def _rows(self, found: CutPicture) -> Iterator[dict[str, str]]:
        scene = self._scene_of[found.image_id]
        self.summary.between += found.cut == "between"
        for side, half in zip(SIDES, found.halves, strict=True):
            self.summary.verdicts[half.verdict] += 1
            image_id = f"{found.image_id}__{side}"
            self.half_sha256[image_id] = half.sha256
            self.reasons[image_id] = f"half_{half.verdict}" + (f": {found.reason}" if found.reason else "")
            yield {
                "image_id": image_id,
                "scene_image_id": found.image_id,
                "side": side,
                "prompt_id": self.subjects[scene][side]["prompt_id"],
                "verdict": half.verdict.value,
                "people": "" if half.people is None else str(half.people),
                "cut_at": "" if found.cut_at is None else str(found.cut_at),
                "cut": found.cut,
                "in_set": "no" if half.sha256 is None else "yes",
                "reason": found.reason,
            }

    @property
    def _scene_of(self) -> Mapping[str, str]:
        if not hasattr(self, "_scenes"):
            chosen = self.images[self.is_scene]
            self._scenes = dict(zip(chosen["image_id"], chosen["prompt_id"], strict=True))
        return self._scenes

    def _write(self, pictures: list[ScenePicture], halves: pd.DataFrame) -> None:
        """All tables; images.csv last, so that there is no image set before it is whole."""
        rest = self.images[~self.is_scene].copy()
        rest["path"] = [self._carried(*row) for row in zip(rest["image_id"], rest["path"], strict=True)]
        self.summary.carried = len(rest)
        cut = self._images_of(pictures, halves)
        images = pd.concat([rest, cut], ignore_index=True).fillna("")
        self.summary.images = len(images)
        write_csv(self.out / HALVES_FILE, halves)
        write_csv(self.out / "prompts.csv", self._prompts())
        self._write_labels(set(rest["image_id"]))
        source = self.image_set.root / GENERATIONS_FILE
        if source.is_file():
            self._write_generations(source)
        if images.empty:
            raise ConfigError(
                f"no half shows one person, so that {self.out} has no images; {HALVES_FILE} there says what each "
                "half shows, and --keep-all keeps them"
            )
        write_csv(self.out / "images.csv", images)
        ImageSet.load(self.out)

    def _images_of(self, pictures: list[ScenePicture], halves: pd.DataFrame) -> pd.DataFrame:
        files = {
            f"{each.image_id}__{side}": file
            for each in pictures
            for side, file in zip(SIDES, each.files, strict=True)
        }
        kept = halves[halves["in_set"] == "yes"]
        models = dict(zip(self.images["image_id"], self.images["t2i_model"], strict=True))
        columns = {
            "image_id": kept["image_id"],
            "path": kept["image_id"].map(files),
            "t2i_model": kept["scene_image_id"].map(models),
            "prompt_id": kept["prompt_id"],
        }
        if SEED_COLUMN in self.images:
            columns[SEED_COLUMN] = pd.Series("", index=kept.index, dtype="str")
        return pd.DataFrame({**columns, SCENE_IMAGE_COLUMN: kept["scene_image_id"]}, dtype="str")

    def _carried(self, image_id: str, path: str) -> str:
        """Where an image that is not cut lies in the new set: the same file, taking no room twice if possible."""
        if "://" in path:
            return path
        source = self.image_set.image_path(path)
        is_file = is_file_below(path)
        try:
            content = b"" if is_file and source.resolve() == source else self._read(path)
            name = path if is_file else f"images/{slug(image_id)}.{image_format(content).casefold()}"
        except ImageError as error:
            raise ConfigError(f"image {image_id!r} cannot be carried over: {error.detail}") from error
        if not (self.out / name).exists() and (content or source.is_file()):
            with replacing(self.out / name) as temporary:
                if content:  # a link, or a part of an archive
                    temporary.write_bytes(content)
                    return name
                try:
                    os.link(source, temporary)
                except OSError:  # another disk
                    shutil.copyfile(source, temporary)
        return name

    def _prompts(self) -> pd.DataFrame:
        prompts = self.image_set.prompts
        kept = prompts[~prompts["prompt_id"].isin(list(self.subjects))]
        people = [sides[side] for sides in self.subjects.values() for side in SIDES]
        added = pd.DataFrame([dict(row) for row in people])
        return pd.concat([kept, added], ignore_index=True).fillna("")

    def _write_labels(self, kept: set[str]) -> None:
        labels = self.image_set.labels
        if labels.empty:
            return
        is_kept = labels["image_id"].isin(kept)
        self.summary.labels_left = int((~is_kept).sum())
        if is_kept.any():
            write_csv(self.out / "labels.csv", labels[is_kept])
        own = self.image_set.root / "attributes"
        if own.is_dir():
            shutil.copytree(own, self.out / "attributes", dirs_exist_ok=True)

    def _write_generations(self, source: Path) -> None:
        """Requests: one for two people is a request for each, with half its seconds and cost.

        A half that is no image of the set is an `error` whose reason says what it shows.
        """
        with pq.ParquetFile(source) as file, replacing(self.out / GENERATIONS_FILE) as temporary:
            schema = file.schema_arrow.remove_metadata()
            with pq.ParquetWriter(temporary, schema) as writer:
                for batch in file.iter_batches(_ROWS_AT_ONCE):
                    piece = pa.Table.from_batches([batch]).replace_schema_metadata(None)
                    of_two = pc.is_in(piece["prompt_id"], pa.array(list(self.subjects), pa.string()))
                    writer.write_table(piece.filter(pc.invert(of_two)))
                    rows = [half for row in piece.filter(of_two).to_pylist() for half in self._requests(row)]
                    writer.write_table(pa.Table.from_pylist(rows, schema=schema))

    def _requests(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for side in SIDES:
            image_id = f"{row['image_id']}__{side}"
            half = {
                **row,
                "image_id": image_id,
                "prompt_id": self.subjects[row["prompt_id"]][side]["prompt_id"],
                "seconds": None if row.get("seconds") is None else row["seconds"] / len(SIDES),
                "cost": None if row.get("cost") is None else row["cost"] / len(SIDES),
            }
            if row["status"] == GenerationStatus.MADE and row["in_recipe"] and image_id in self.half_sha256:
                half["image_sha256"] = self.half_sha256[image_id]
                if half["image_sha256"] is None:
                    half |= {"status": GenerationStatus.ERROR.value, "reason": self.reasons[image_id]}
            yield half


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table whole or not at all."""
    write_text(path, table.to_csv(index=False, lineterminator="\n"))
