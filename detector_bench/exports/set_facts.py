"""What is known about an image set, counted once for every card that tells it: nothing here is guessed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.dataset import ADJUDICATOR, SEED_COLUMN, ImageSet
from detector_bench.dataset.generations import STATUSES, Generations, read_generations
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.published_text import without_folders
from detector_bench.dataset.sample_file import LabelSample, sample_of
from detector_bench.errors import DataError
from detector_bench.evaluation.agreement import agreement
from detector_bench.metrics.intervals import wilson_interval
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.metric_lookup import Number
from detector_bench.vocabulary import ALL, GROUND_TRUTH, attribute_named
from detector_bench.vocabulary.generations import GENERATIONS_FILE, GenerationStatus

LEVEL = 0.95
"""Of the intervals that are computed here; those of a result folder have its own."""

_MAKING = ("t2i_model", "model", "revision", "parameters", "versions", "made_at", "in_recipe", "status")
_OF_RECIPES = (
    "steps",
    "guidance",
    "guidance_scale",
    "width",
    "height",
    "size",
    "quality",
    "scheduler",
    "strength",
)


@dataclass(frozen=True)
class LabelShare:
    """How often one label stands in the consensus of a T2I model's images."""

    attribute: str
    t2i_model: str
    label: str
    number: Number


@dataclass(frozen=True)
class Annotation:
    """Who labelled one attribute, and how much of it.

    Attributes:
        attribute: its name.
        labels_by: labels of each annotator, by name, in the order of their first label; without the adjudicator.
        labelled: images with a label, of those that T2I models made.
        unlabelled: images without one.
        several: images that two or more annotators labelled.
        disagreed: of these, images with different labels.
        adjudicated: images with a row of the adjudicator.
    """

    attribute: str
    labels_by: dict[str, int]
    labelled: int
    unlabelled: int
    several: int
    disagreed: int
    adjudicated: int


@dataclass(frozen=True)
class Making:
    """How one T2I model was asked, as far as `generations.parquet` says; texts are "" where it does not.

    Attributes:
        t2i_model: its name in the set.
        requests: by status, in the order of `STATUSES`.
        refusals: the share of answered requests that were refused.
        checkpoint: its own name and revision.
        parameters: those that all requests share.
        first, last: days of the first and the last request that was answered.
    """

    t2i_model: str
    requests: dict[str, int]
    refusals: Number
    checkpoint: str
    parameters: str
    first: str
    last: str


@dataclass(frozen=True, eq=False)
class ImageSetFacts:
    """What can be counted about an image set.

    Attributes:
        image_set: the images, prompts and labels.
        generations: what became of the requests behind them; None: nobody knows.
        sample: which images were drawn to be labelled; None: none were.
        results: a result folder whose stored numbers are told in the place of own ones; None: there is none.
    """

    image_set: ImageSet
    generations: Generations | None
    sample: LabelSample | None
    results: ResultFolder | None = None

    @classmethod
    def of(cls, image_set: ImageSet, results: ResultFolder | None = None) -> Self:
        """Read what lies beside the tables, too.

        Raises:
            DataError: a damaged `generations.parquet`, or a sample of other images.
        """
        return cls(image_set, read_generations(image_set), sample_of(image_set), results)

    @cached_property
    def made(self) -> pd.DataFrame:
        """The images that T2I models made: without the photos that were only edited."""
        images = self.image_set.images
        return images[images["t2i_model"] != ""]

    @property
    def photos(self) -> int:
        """How many photos were only edited."""
        return len(self.image_set.images) - len(self.made)

    @property
    def edited(self) -> int:
        """How many images were made from a photo."""
        images = self.image_set.images
        return int((images[SEED_COLUMN] != "").sum()) if SEED_COLUMN in images else 0

    @property
    def t2i_models(self) -> list[str]:
        """In the order of their first image."""
        return list(dict.fromkeys(self.made["t2i_model"]))

    @cached_property
    def by_category(self) -> pd.DataFrame:
        """Images by category (rows, with the number of their prompts in `prompts`) and T2I model."""
        prompts = self.image_set.prompts
        category = self.made["prompt_id"].map(prompts.set_index("prompt_id")["category"])
        counts = pd.crosstab(category.to_numpy(), self.made["t2i_model"].to_numpy())
        order = list(dict.fromkeys(prompts["category"]))
        counts = counts.reindex(index=order, columns=self.t2i_models, fill_value=0)
        counts.insert(0, "prompts", prompts["category"].value_counts().reindex(order))
        return counts

    @cached_property
    def per_cell(self) -> tuple[int, float, int]:
        """Fewest, median and most images of a T2I model's prompt, of those that have any."""
        sizes = self.made.groupby(["t2i_model", "prompt_id"], sort=False).size()
        return (int(sizes.min()), float(sizes.median()), int(sizes.max())) if len(sizes) else (0, np.nan, 0)

    @cached_property
    def formats(self) -> dict[str, int]:
        """Images by their file's ending, and those at addresses or in other files; the most frequent first."""
        paths = self.image_set.images["path"]
        kinds = [PurePosixPath(path).suffix.lower() if is_file_below(path) else "elsewhere" for path in paths]
        return {str(name): int(count) for name, count in pd.Series(kinds, dtype="str").value_counts().items()}

    @cached_property
    def annotations(self) -> tuple[Annotation, ...]:
        """Of every attribute that has a label."""
        return tuple(self._annotation(name) for name in self.image_set.attributes)

    def _annotation(self, attribute: str) -> Annotation:
        labels = self.image_set.labels
        labels = labels[(labels["attribute"] == attribute) & labels["image_id"].isin(self.made["image_id"])]
        people = labels[labels["annotator"] != ADJUDICATOR]
        by_image = people.groupby("image_id", sort=False)["label"]
        several = by_image.size() > 1
        labelled = labels["image_id"].nunique()
        return Annotation(
            attribute,
            {str(name): int(count) for name, count in people.groupby("annotator", sort=False).size().items()},
            labelled=labelled,
            unlabelled=len(self.made) - labelled,
            several=int(several.sum()),
            disagreed=int((by_image.nunique()[several] > 1).sum()),
            adjudicated=labels.loc[labels["annotator"] == ADJUDICATOR, "image_id"].nunique(),
        )

    @property
    def annotators(self) -> list[str]:
        """All who labelled, the adjudicator too, in the order of their first label."""
        return self.image_set.table("labels").encoded("annotator").texts

    @cached_property
    def shares(self) -> tuple[LabelShare, ...]:
        """The consensus by attribute, T2I model and label, over all T2I models first where there are several.

        Of a result folder its rows `label_share_*`; else Wilson's intervals, which take images for independent.
        """
        found: list[LabelShare] = []
        for name in self.image_set.attributes:
            models = [ALL, *self.t2i_models] if len(self.t2i_models) > 1 else self.t2i_models
            found += [share for model in models for share in self._shares(name, model)]
        return tuple(found)

    def _shares(self, attribute: str, model: str) -> Iterable[LabelShare]:
        labels = attribute_named(attribute).labels
        if self.results is not None and attribute in self.results.settings.attributes:
            study = self.results.of_attribute(attribute)
            for label in labels:
                name = f"label_share_{label}"
                number = study.lookup.number(name, detector=GROUND_TRUTH, t2i_model=model)
                yield LabelShare(attribute, model, label, number)
            return
        is_of_model = self.image_set.images["t2i_model"] == model
        rows = is_of_model if model != ALL else self.image_set.images["t2i_model"] != ""
        given = self.image_set.truth(attribute)["label"][rows.to_numpy()]
        n = int(given.notna().sum())
        for label in labels:
            yield LabelShare(attribute, model, label, share_of(int((given == label).sum()), n, len(given) - n))

    @cached_property
    def agreement(self) -> pd.DataFrame:
        """Agreement of the annotators over all images; columns as in `AGREEMENT_COLUMNS`. Without rows where each
        image has one label."""
        if self.results is not None and self.results.has_further_tables:
            rows = self.results.table("agreement")
        else:
            names = self.image_set.attributes
            found = [agreement(self.image_set, attribute=name) for name in names]
            rows = pd.concat(found) if found else pd.DataFrame()
        if rows.empty:
            return rows
        overall = (rows[["t2i_model", "category", "label"]] == ALL).all(axis=1)
        return rows[overall & (rows["raters"] != "detector_and_human")]

    @cached_property
    def makings(self) -> tuple[Making, ...]:
        """How each T2I model was asked; nothing where there is no `generations.parquet`."""
        if self.generations is None:
            return ()
        rows = self._requests()
        return tuple(
            _making(name, self.generations.counts[place].sum(axis=0), rows[rows["t2i_model"] == name])
            for place, name in enumerate(self.generations.t2i_models)
        )

    def _requests(self) -> pd.DataFrame:
        path = self.image_set.root / GENERATIONS_FILE
        try:
            there = [name for name in _MAKING if name in pq.read_schema(path).names]
            rows: pd.DataFrame = pq.read_table(path, columns=there).to_pandas()
        except (OSError, pa.ArrowException) as error:
            raise DataError([]) from error  # `read_generations` has named it
        if "in_recipe" in rows:
            rows = rows[rows["in_recipe"].fillna(value=True).astype(bool)]
        return rows.reindex(columns=list(_MAKING))


def share_of(count: int, n: int, left_out: int = 0) -> Number:
    """A share with Wilson's interval at `LEVEL`; NaN of nothing."""
    if n == 0:
        return Number(n=0, n_left_out=left_out)
    low, high = wilson_interval(np.array(count / n), np.array(n), level=LEVEL)
    return Number(count / n, n, left_out, float(low), float(high))


def _making(name: str, counts: np.ndarray, rows: pd.DataFrame) -> Making:
    requests = {status.value: int(count) for status, count in zip(STATUSES, counts, strict=True)}
    made, blocked = requests[GenerationStatus.MADE], requests[GenerationStatus.BLOCKED]
    checkpoints = [
        " at ".join(filter(None, (without_folders(str(model)), "" if pd.isna(revision) else str(revision)[:12])))
        for model, revision in rows[["model", "revision"]].drop_duplicates().itertuples(index=False)
        if not pd.isna(model)
    ]
    days = sorted(str(each)[:10] for each in rows["made_at"].dropna() if str(each))
    return Making(
        name,
        requests,
        share_of(blocked, made + blocked, requests[GenerationStatus.ERROR] + requests[GenerationStatus.WAITING]),
        checkpoint="; ".join(dict.fromkeys(checkpoints)),
        parameters=_shared_parameters(rows["parameters"].dropna().unique()),
        first=days[0] if days else "",
        last=days[-1] if days else "",
    )


def _shared_parameters(texts: Iterable[str]) -> str:
    """Plain values that are the same in all requests, as `steps 30, width 1024`."""
    shared: dict[str, object] | None = None
    for text in texts:
        try:
            content = json.loads(text)
        except ValueError:
            return ""
        if not isinstance(content, dict):
            return ""
        plain: dict[str, object] = {
            str(key): value for key, value in content.items() if isinstance(value, str | int | float | bool)
        }
        shared = plain if shared is None else {k: v for k, v in shared.items() if plain.get(k) == v}
    ordered = sorted((shared or {}).items(), key=lambda pair: (pair[0] not in _OF_RECIPES, pair[0]))
    return without_folders(", ".join(f"{key} {value}" for key, value in ordered))
