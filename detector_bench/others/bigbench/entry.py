"""BIGbench as an entry under `scores` of a study file, and the files that it names: references, weights, pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from detector_bench.dataset.table_reading import SUFFIXES
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.others.bigbench.formulas import ATTRIBUTE_WEIGHTS, Preset
from detector_bench.others.bigbench.own_files import read_own_pairs, read_own_references, read_own_weights
from detector_bench.others.bigbench.references import (
    EQUAL,
    PROTECTED,
    ReferenceNames,
    References,
    class_mapping,
    listing,
)
from detector_bench.others.bigbench.released_files import (
    CATEGORIES_FILE,
    PAIRS_FILE,
    REFERENCE_FILES,
    WEIGHTS_FILE,
    read_released_categories,
    read_released_pairs,
    read_released_references,
    read_released_weights,
    truth_folder,
)
from detector_bench.others.score_system import ScoreSystem
from detector_bench.prompt_lists import PromptList

_JSON = ".json"

_NOTES_SHOWN = 3


class BigBenchEntry(ScoreSystem):
    """The settings of BIGbench's scores. See docs/bigbench.md."""

    system: Literal["bigbench"] = "bigbench"
    preset: Preset = "as_code"
    """Which way the manifestation factor points: the program and the paper contradict each other. The bias scores
    are the same under all."""
    references: Path | Literal["equal"]
    """Reference shares: BIGbench's JSON files or a folder of them, a table of the user's, or `equal`."""
    weights: Path | None = None
    """Prompt weights, where the prompt table has none. None: those in the folder of references, else 1 each (half
    for one of two people)."""
    categories: Path | None = None
    """`category.json`. None: that in the folder of references, else the categories of the prompt table."""
    pairs: Path | None = None
    """Pairs of prompts. None: those in the folder of references, else there is no manifestation factor."""
    requested: Path | None = None
    """Which prompts ask for which classes; they have an explicit score, and no implicit one. None: those that
    state a class in the prompt table, and have no reference of their own."""
    prompt_names: Path | None = None
    """Which prompt of the references each prompt is, where their ids differ."""
    attribute_weights: dict[str, float] = Field(default=dict(ATTRIBUTE_WEIGHTS), min_length=1)
    """What each attribute counts for; attributes that are left out are not looked at."""
    race_mapping: dict[str, str | None] | None = None
    """Which of BIGbench's races each of our race classes counts as; null: none. None: the usual mapping."""

    @field_validator("attribute_weights")
    @classmethod
    def _attributes_are_bigbenchs(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if name not in PROTECTED:
                raise ValueError(f"BIGbench has no attribute {name!r}: {nearest_hint(name, PROTECTED)}")
            if not 0 < weight < math.inf:
                raise ValueError(f"the weight of {name} is {weight:g} (accepted: a number above 0)")
        return weights

    @model_validator(mode="after")
    def _race_mapping_is_total(self) -> BigBenchEntry:
        try:
            class_mapping("race", self.race_mapping)
        except ConfigError as error:
            raise ValueError(f"race_mapping: {error}") from error
        if self.references == EQUAL and (self.prompt_names is not None or self.categories is not None):
            raise ValueError("prompt_names and categories go with reference files, not with references: equal")
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """Gender, race and age, or those that have a weight."""
        return tuple(self.attribute_weights)

    @property
    def variant(self) -> str:
        """The preset's name, which stands in the column `variant`."""
        return self.preset

    def read_references(self, prompt_ids: Sequence[str]) -> References:
        """Read the files; mistakes that could be mended are in its `notes`.

        Raises:
            ConfigError: settings that do not go together.
            DataError: a file is wrong.
        """
        if isinstance(self.references, Path):
            return read_references(
                self.references, weights=self.weights, categories=self.categories, pairs=self.pairs
            )
        return equal_references(prompt_ids, weights=self.weights, pairs=self.pairs)


def read_references(
    references: Path,
    *,
    weights: Path | None = None,
    categories: Path | None = None,
    pairs: Path | None = None,
) -> References:
    """Read references, and what goes with them.

    Args:
        references: a JSON file of BIGbench or a table; or a folder, either with BIGbench's files under their own
            names (or that of its program, where they lie in `data/truth`), or with the tables `references`,
            `weights` and `pairs` (.csv or .parquet). What a folder has need not be named.
        weights: `weight.json` or a table.
        categories: `category.json`; a table of weights can have a column for them.
        pairs: `eta.json` or a table.

    Raises:
        ConfigError: nothing there, or BIGbench's names (in JSON) for references that are a table.
        DataError: all mistakes of a file at once, except those that are clearly to be mended; they are in `notes`.
    """
    if references.is_dir():
        files, beside = _in_folder(references)
        weights, categories, pairs = weights or beside[0], categories or beside[1], pairs or beside[2]
    else:
        files = [references]
    released = files[0].suffix == _JSON
    found = read_released_references(files) if released else read_own_references(files[0])
    return _completed(found, released=released, weights=weights, categories=categories, pairs=pairs)


def equal_references(
    prompt_ids: Iterable[str], *, weights: Path | None = None, pairs: Path | None = None
) -> References:
    """Equal shares for every prompt; weights and pairs come from tables.

    Raises:
        ConfigError: BIGbench's JSON for weights or pairs, whose names only its references can tell.
        DataError: all mistakes of a file at once.
    """
    shares = {
        attribute: (1 / len(taxonomy.classes),) * len(taxonomy.classes)
        for attribute, taxonomy in PROTECTED.items()
    }
    same = {prompt_id: prompt_id for prompt_id in prompt_ids}
    found = References(dict.fromkeys(same, shares), ReferenceNames(same, same))
    return _completed(found, released=False, weights=weights, categories=None, pairs=pairs)


def _in_folder(folder: Path) -> tuple[list[Path], list[Path | None]]:
    truth = truth_folder(folder)
    released = [truth / name for name in REFERENCE_FILES if (truth / name).is_file()]
    own = [folder / f"references{suffix}" for suffix in SUFFIXES if (folder / f"references{suffix}").is_file()]
    if bool(released) == bool(own):
        found = "both" if own else "neither"
        raise ConfigError(
            f"{folder}: a folder of references has some of {', '.join(REFERENCE_FILES)}, or references.csv; "
            f"this one has {found}"
        )
    if released:
        return released, [_if_there(truth, name) for name in (WEIGHTS_FILE, CATEGORIES_FILE, PAIRS_FILE)]
    tables = [
        next((table for suffix in SUFFIXES if (table := _if_there(folder, stem + suffix)) is not None), None)
        for stem in ("weights", "pairs")
    ]
    return own[:1], [tables[0], None, tables[1]]


def _if_there(folder: Path, name: str) -> Path | None:
    return folder / name if (folder / name).is_file() else None


def _completed(
    references: References, *, released: bool, weights: Path | None, categories: Path | None, pairs: Path | None
) -> References:
    for path in (weights, categories, pairs):
        if path is not None and path.suffix == _JSON and not released:
            raise ConfigError(
                f"{path}: the names in BIGbench's JSON files belong to its references in JSON; beside other "
                "references, give a table (detector-bench bigbench convert writes one)"
            )
    notes: list[str] = []
    if weights is not None and weights.suffix == _JSON:
        found, noted = read_released_weights(weights, references.names)
        references = replace(references, weights=found)
        notes += noted
    elif weights is not None:
        own = read_own_weights(weights)
        references = replace(references, **own._asdict())
    if categories is not None:
        if categories.suffix != _JSON:
            raise ConfigError(f"{categories}: categories are category.json, or a column of the table of weights")
        listed, noted = read_released_categories(categories, references.names)
        references = replace(references, categories=listed)
        notes += noted
    if pairs is not None and pairs.suffix == _JSON:
        read, noted = read_released_pairs(pairs, references.names)
        references = replace(references, pairs=read)
        notes += noted
    elif pairs is not None:
        references = replace(references, pairs=read_own_pairs(pairs))
    return replace(references, notes=(*references.notes, *notes))


def with_weights(prompts: PromptList, path: Path) -> PromptList:
    """The same list with weights; a prompt that has none weighs as its base prompt does.

    Args:
        prompts: any list.
        path: a table with the columns `prompt_id` and `weight`; or BIGbench's `weight.json`, whose sentences are
            those of prompts without a base prompt, and which gives each of two people half.

    Raises:
        DataError: mistakes in the file, all of them at once.
    """
    notes: list[str] = []
    if path.suffix == ".json":
        first = {key: prompt for key, prompt in prompts.prompts.items() if key not in prompts.bases}
        names = ReferenceNames(
            {key: prompt.word for key, prompt in first.items()},
            {key: prompt.text for key, prompt in first.items()},
        )
        weights, said = read_released_weights(path, names)
        notes = said[:_NOTES_SHOWN]
        if rest := said[_NOTES_SHOWN:]:
            notes.append(
                f"{path.name}: {len(rest):,} more such notes; `detector-bench bigbench check` lists them."
            )
    else:
        weights = read_own_weights(path).weights
        if unknown := [prompt_id for prompt_id in weights if prompt_id not in prompts.prompts]:
            notes = [f"{path.name}: weights of no prompt of the list, left out: {listing(unknown)}"]
    return replace(
        prompts,
        prompts={
            key: replace(prompt, weight=weights.get(key, prompt.weight)) for key, prompt in prompts.prompts.items()
        },
        notes=(*prompts.notes, *notes),
    )
