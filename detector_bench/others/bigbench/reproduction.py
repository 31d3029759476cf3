"""BIGbench's printed numbers beside what follows from its own tables and its released files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.installation import resource
from detector_bench.others.bigbench.entry import read_references
from detector_bench.others.bigbench.prompt_files import is_bigbench_source, read_prompt_files
from detector_bench.others.bigbench.prompts import CHARACTERISTIC, OCCUPATION, SOCIAL_RELATION
from detector_bench.others.bigbench.references import PROTECTED, References, listing
from detector_bench.others.bigbench.released_files import REFERENCE_FILES, truth_folder
from detector_bench.others.bigbench.side_effects import side_effect_p_value
from detector_bench.others.findings import Finding
from detector_bench.others.recomputed import OutOfReach
from detector_bench.prompt_lists import Prompt

_DEBIASED = ("fair_diffusion", "precise_debias", "safe_latent_diffusion")
_DISTILLED = ("sdxl_lightning", "sdxl_turbo", "lcm_sdxl")
_IMPLICIT, _EXPLICIT, _FACTOR = "implicit_bias_score", "explicit_bias_score", "manifestation_factor"
_PROMPTS_OF = {OCCUPATION: 35_800, CHARACTERISTIC: 4_800, SOCIAL_RELATION: 6_440}
_SENTENCES_OF = {OCCUPATION: 179, CHARACTERISTIC: 24, SOCIAL_RELATION: 11}
_CHARACTERISTIC_KINDS = ("positive", "negative")
_RELATION_KINDS = {"equal": ("intimate", 2), "instr": ("instructional", 3), "hira": ("hierarchical", 6)}
_MOST_IMAGES = 600
_HALF_A_DIGIT = 0.005
_FEW = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class BigBenchTables:
    """Tables 2 to 5 of BIGbench as they are printed, in per cent; names as index."""

    table2: pd.DataFrame
    """By aligner: gender, race, age and mean (its column "Sum")."""
    table3: pd.DataFrame
    """By T2I model: the three scores; NaN for a dash."""
    table4: pd.DataFrame
    """By T2I model: female, white, young, for "an attractive person"."""
    table5: pd.DataFrame
    """By the race asked for ("" for none): female, for "tennis player" and SDXL-Turbo."""


@cache
def printed_tables() -> BigBenchTables:
    """Read the printed tables.

    Raises:
        DetectorBenchError: the installation lacks them.
    """

    def read(name: str, index: str) -> pd.DataFrame:
        return pd.read_csv(resource(f"labels/bigbench/{name}.csv")).set_index(index)

    table5 = read("table5_tennis_player", "asked")
    return BigBenchTables(
        table2=read("table2_alignment_accuracy", "method"),
        table3=read("table3_model_scores", "t2i_model"),
        table4=read("table4_attractive_person", "t2i_model"),
        table5=table5.set_axis(table5.index.fillna(""), axis=0),
    )


def printed_findings() -> list[Finding]:
    """All that follows from the printed tables alone."""
    tables = printed_tables()
    return [
        *_of_table2(tables.table2),
        *_of_table3(tables.table3),
        *_of_table4(tables.table4),
        *_of_table5(tables),
    ]


def _of_table2(table: pd.DataFrame) -> Iterator[Finding]:
    for method, row in table.iterrows():
        mean = float(row[["gender", "race", "age"]].mean())
        decimals = 1 if row["mean"] == round(row["mean"], 1) else 2
        yield Finding(
            "Table 2", f'{method}: "Sum", the mean of the three, %', row["mean"], mean, decimals, note=""
        )
    untuned = table.drop(index="internvl_finetuned")
    yield Finding(
        "Section 4.1", "internvl: rank by accuracy, of five not tuned", 1, _rank(untuned["mean"], "internvl"), 0
    )


def _of_table3(table: pd.DataFrame) -> Iterator[Finding]:
    general = table.drop(index=list(_DEBIASED))
    place = "Section 4.2"
    yield Finding("Abstract", "T2I models in Table 3", 11, len(table), 0)
    note = "section 4.2 says seven and lists eight, as the abstract has it"
    yield Finding(place, "general T2I models", 7, len(general), 0, note=note)
    for statement, said, model, score in (
        ("sdxl: rank by implicit bias score, of the general ones", 1, "sdxl", _IMPLICIT),
        ("pixart_sigma: the same", len(general), "pixart_sigma", _IMPLICIT),
        ("pixart_sigma: rank by explicit bias score", 1, "pixart_sigma", _EXPLICIT),
        ("sdxl: the same", 2, "sdxl", _EXPLICIT),
    ):
        yield Finding(place, statement, said, _rank(general[score], model), 0)
    yield Finding(
        place,
        "precise_debias: rank by implicit bias score, of all",
        1,
        _rank(table[_IMPLICIT], "precise_debias"),
        0,
    )
    worse = sum(_cell(table, each, _IMPLICIT) < _cell(table, "sdxl", _IMPLICIT) for each in _DISTILLED)
    yield Finding(place, "distilled models with a lower implicit bias score than sdxl", len(_DISTILLED), worse, 0)
    better = sum(_cell(table, each, _IMPLICIT) > _cell(table, "sd1_5", _IMPLICIT) for each in _DEBIASED)
    yield Finding(place, "debiasing methods with a higher implicit bias score than sd1_5", 3, better, 0)
    behind = sum(
        _cell(table, each, _IMPLICIT) < _cell(table, "sdxl", _IMPLICIT)
        for each in ("fair_diffusion", "safe_latent_diffusion")
    )
    yield Finding(place, "of fair_diffusion and safe_latent_diffusion, those behind sdxl", 2, behind, 0)
    below = int((table.loc[list(_DEBIASED), _FACTOR] < general[_FACTOR].min()).sum())
    yield Finding(place, "debiasing methods with a manifestation factor below all general models'", 3, below, 0)
    tending = int((table[_FACTOR] > 50).sum())
    note = "by the text's reading, above 50 is discrimination; its program's factor is high for the reverse"
    yield Finding(place, "T2I models that tend to discrimination", len(table), tending, 0, note=note)


def _of_table4(table: pd.DataFrame) -> Iterator[Finding]:
    place = "Section 4.2 and Table 4"
    for label in ("female", "white", "young"):
        statement = f'T2I models of the table that show mostly {label} people as "attractive"'
        yield Finding(place, statement, len(table), int((table[label] > 50).sum()), 0)
    balance = (table["female"] - 50).abs()
    for model in ("playground_v2_5", "sdxl"):
        statement = f"{model}: among the two with the best balance of gender (1: yes)"
        yield Finding(place, statement, 1, int(_rank(-balance, model) <= 2), 0)


def images_behind(shares: Sequence[float]) -> int:
    """The least number of images of which all printed percentages can be shares; 0: none up to 600."""
    values = np.asarray(shares)
    for images in range(1, _MOST_IMAGES + 1):
        nearest = 100 * np.round(values / 100 * images) / images
        if (np.abs(nearest - values) <= _HALF_A_DIGIT + 1e-9).all():
            return images
    return 0


def _of_table5(tables: BigBenchTables) -> Iterator[Finding]:
    women = tables.table5["female"]
    place = "Tables 4 and 5"
    shares = [*tables.table4.to_numpy().ravel().tolist(), *women.drop("white").tolist()]
    images = images_behind(shares)
    note = (
        "20 sentences with 8 images each make 160, its README says at least 400; without White's 56.28, which is "
        "no share of 320 images either"
    )
    yield Finding(place, "images behind a share, the least number that gives all", 160, images, 0, note=note)
    nearest = 100 * round(women["white"] / 100 * images) / images
    yield Finding(
        place, f"White: share of women as the nearest share of {images} images, %", women["white"], nearest, 2
    )
    place = "Section 4.3"
    races = [str(each) for each in women.index if each]
    counts = {str(asked): round(share / 100 * images) for asked, share in women.items()}
    each = {name: np.array([number, images - number]) for name, number in counts.items()}
    p_values = [float(side_effect_p_value(each[race], each[""])) for race in races]
    found = _holm_found(p_values)
    note = f"Fisher's exact tests, Holm's adjustment, with {images} images each: " + (
        ", ".join(race.replace("_", " ") for race, is_found in zip(races, found, strict=True) if is_found)
        or "none"
    )
    yield Finding(
        place, "races that change the share of women beyond chance", len(races), sum(found), 0, note=note
    )
    unbalanced = (women - 50).abs()
    first = 1 + int((unbalanced > unbalanced["south_asian"]).sum())
    yield Finding(place, "South Asian: rank by distance from half women", 1, first, 0)


def _holm_found(p_values: Sequence[float]) -> list[bool]:
    order = np.argsort(p_values)
    found = [False] * len(p_values)
    for place, number in enumerate(order.tolist()):
        if p_values[number] * (len(p_values) - place) > _FEW:
            break
        found[number] = True
    return found


@dataclass(frozen=True, eq=False)
class ReleasedParts:
    """What of BIGbench's released files a folder holds."""

    prompts: tuple[Prompt, ...] | None
    references: References | None

    @classmethod
    def read(cls, folder: Path) -> ReleasedParts:
        """Read the prompts, the reference files, or both.

        Raises:
            ConfigError: the folder has neither.
            DataError: a file is wrong.
        """
        truth = truth_folder(folder)
        has_references = any((truth / name).is_file() for name in REFERENCE_FILES)
        has_prompts = folder.is_dir() and is_bigbench_source(folder)
        if not has_references and not has_prompts:
            raise ConfigError(
                f"{folder}: neither BIGbench's prompt files (data/prompt) nor its reference files "
                f"({', '.join(REFERENCE_FILES)}, in data/truth); give the folder of its program"
            )
        return cls(
            tuple(read_prompt_files(folder)[0]) if has_prompts else None,
            read_references(folder) if has_references else None,
        )

    def findings(self) -> list[Finding]:
        """What the files say beside what is printed about them."""
        found: list[Finding] = []
        if self.prompts is not None:
            found += _of_prompts(self.prompts)
        if self.references is not None:
            found += _of_references(self.references)
        return found


def _of_prompts(prompts: Sequence[Prompt]) -> Iterator[Finding]:
    scenes = {prompt.text: prompt for prompt in prompts}
    images = {text: max(len(prompt.wordings), 1) for text, prompt in scenes.items()}
    yield Finding("Section 2.2", "prompts", 47_040, sum(images.values()), 0)
    for category, said in _PROMPTS_OF.items():
        count = sum(number for text, number in images.items() if scenes[text].category == category)
        yield Finding("README", f"prompts on {category.replace('_', ' ')}", said, count, 0)
    asking = sum(any(prompt.stated.values()) for prompt in scenes.values())
    for category, said in _SENTENCES_OF.items():
        open_ones = [
            each for each in scenes.values() if each.category == category and not any(each.stated.values())
        ]
        yield Finding(
            "Section 2.2", f"{category.replace('_', ' ')}: sentences that ask for nobody", said, len(open_ones), 0
        )
    sentences = len(scenes) - asking
    misspelt = "one that misspells whom it asks for counts as one that asks for nobody"
    yield Finding(
        "Section 2.2",
        "sentences that ask for nobody",
        214,
        sentences,
        0,
        note=misspelt if sentences != 214 else "",
    )


def _of_references(references: References) -> Iterator[Finding]:
    """Of the files that are there; what a missing one would say is out of reach."""
    kinds = list(references.acquired.values())
    people = {SOCIAL_RELATION: 2}
    for category, said in _SENTENCES_OF.items():
        if category in kinds:
            count = kinds.count(category) / people.get(category, 1)
            yield Finding("Section 2.2", f"references of {category.replace('_', ' ')}s", said, count, 0)
    if references.categories:
        yield from _of_categories(references)
    races = [shares["race"] for shares in references.shares.values() if "race" in shares]
    if races:
        usual, count = Counter(tuple(round(share, 4) for share in each) for each in races).most_common(1)[0]
        shares_said = ", ".join(
            f"{name} {share:g}" for name, share in zip(PROTECTED["race"].classes, usual, strict=True)
        )
        note = f"{shares_said}: one population for every word"
        statement = "people whose reference of race is the same"
        yield Finding("Section 4.2", statement, len(races), count, 0, note=note)
    if references.pairs:
        yield _of_pairs(references)


def _of_categories(references: References) -> Iterator[Finding]:
    categories = pd.Series(dict(references.categories), dtype=object)
    others = (*_CHARACTERISTIC_KINDS, *_RELATION_KINDS)
    of_occupations = [name for name in pd.unique(categories) if name not in others]
    yield Finding("Section 2.2", "categories of occupations", 15, len(of_occupations), 0)
    for name, (words, relations) in _RELATION_KINDS.items():
        count = float((categories == name).sum()) / 2
        yield Finding("Section 2.2", f"{words} relations", relations, count, 0)
    without = [each for each in references.shares if each not in references.categories]
    note = f"without: {listing(without)}" if without else ""
    statement = "references with a category"
    yield Finding("Section 2.2", statement, len(references.shares), len(categories), 0, note=note)


def _of_pairs(references: References) -> Finding:
    names = references.names
    known = [pair for pair in references.pairs if all(each in names.words for each in pair[:2])]
    alone = sum(all(names.containing(names.words[each]) == 1 for each in pair[:2]) for pair in known)
    note = "its program compares words as parts of sentences, so that others stand for several prompts or none"
    statement = "pairs of prompts whose words are in one sentence each"
    return Finding("Section 3.2", statement, len(references.pairs), alone, 0, note=note)


_NO_IMAGES = "neither its images nor its aligner's answers are released"


def out_of_reach(parts: ReleasedParts | None) -> list[OutOfReach]:
    """What cannot be recomputed, whatever is in the folder; without one, also what needs it."""
    found = [
        OutOfReach("Table 2", "accuracies of the aligners", "the 1,000 labelled images are not among the files"),
        OutOfReach("Table 3", "scores of the 11 T2I models", _NO_IMAGES),
        OutOfReach(
            "Table 3",
            "that scores over all attributes weigh gender 0.4, race 0.4 and age 0.2",
            "the table has no scores by attribute to add up; the weights stand in its program",
        ),
        OutOfReach(
            "Section 3.2",
            "the formula of the manifestation factor",
            "it is not printed, and the program's points the other way than the text (docs/bigbench.md)",
        ),
        OutOfReach("Table 4", 'shares for "an attractive person"', _NO_IMAGES),
        OutOfReach("Table 5", 'shares of women for "tennis player"', _NO_IMAGES),
        OutOfReach("Figures 4, 5 and 7", "scores by attribute, of prompts and of debiasing methods", _NO_IMAGES),
        OutOfReach("Section 4.2", "couples of an East Asian husband and a European wife", _NO_IMAGES),
        OutOfReach(
            "Section 4.3",
            "that distillation lowers scores",
            "a difference of scores without its images has no test",
        ),
    ]
    if parts is None or parts.prompts is None:
        found.append(OutOfReach("Section 2.2", "47,040 prompts", "give the folder with its prompt files"))
    references = None if parts is None else parts.references
    for claim, file, is_there in (
        ("reference shares", "its reference files", references is not None),
        ("categories", "category.json", references is not None and bool(references.categories)),
        ("pairs of prompts", "eta.json", references is not None and bool(references.pairs)),
    ):
        if not is_there:
            found.append(OutOfReach("Section 2.2", claim, f"give the folder with {file}"))
    return found


def _rank(scores: pd.Series[float], name: str) -> int:
    """The place among the highest, from 1."""
    return 1 + int((scores > scores[name]).sum())


def _cell(table: pd.DataFrame, row: str, column: str) -> float:
    return float(cast(float, table.loc[row, column]))
