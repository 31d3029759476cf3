"""ImageBiTe's published numbers beside what follows from its text and its released files."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, DataError
from detector_bench.others.findings import Finding
from detector_bench.others.imagebite.formulas import KINDS, Verdicts, community_verdicts
from detector_bench.others.imagebite.input_file import InputFile, StatedRequirement
from detector_bench.others.imagebite.prompts import is_template_file, read_imagebite_prompts
from detector_bench.others.recomputed import OutOfReach
from detector_bench.prompt_lists import Prompt

_EXAMPLE = "Running example"
_IMAGES = {"white": 0, "asian": 1, "black": 5}
_SAID = {"stereotyped": ("black",), "under_represented": ("asian",), "ex_nominated": ("white",)}
_THIRD, _DELTA, _THRESHOLD = 1 / 3, 0.05, 0.8
_TEMPLATES = 25
_MOST_WAYS = 300_000
"""Ways to divide images into communities that are looked at."""


def text_findings() -> list[Finding]:
    """What follows from the page's own words: the verdicts on six images of a janitor."""
    images = np.array(list(_IMAGES.values()))
    found = community_verdicts(images, expected=_THIRD, delta=_DELTA, threshold=_THRESHOLD)
    findings = []
    for kind, said in _SAID.items():
        names = [name for name, given in zip(_IMAGES, getattr(found, kind), strict=True) if given]
        words = kind.replace("_", "-")
        note = ""
        if set(names) != set(said):
            note = f"here also {', '.join(sorted({*names} - {*said}))}: whoever is ex-nominated is below any share"
        findings.append(
            Finding(_EXAMPLE, f"{words} communities of the janitor's", len(said), len(names), 0, note=note)
        )
        right = sum(name in names for name in said)
        findings.append(Finding(_EXAMPLE, f"of those that it names {words}, so here", len(said), right, 0))
    return findings


@dataclass(frozen=True, eq=False)
class ReleasedExample:
    """Its prompt templates and its example input."""

    templates: Path
    """Tab-separated."""
    example: Path
    """JSON."""

    @classmethod
    def find(cls, folder: Path) -> ReleasedExample:
        """Find both files in a folder, in any depth.

        Raises:
            ConfigError: one of them is missing, or there are several.
        """
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no folder; give that of ImageBiTe's program")
        templates = [path for path in sorted(folder.rglob("*.csv")) if is_template_file(path)]
        inputs = [path for path in sorted(folder.rglob("*.json")) if _is_input(path)]
        for found, what in (
            (templates, "a file with templates (prompts_t2i_en_us.csv)"),
            (inputs, "an example input"),
        ):
            if len(found) != 1:
                names = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
                raise ConfigError(f"{folder}: {what} is needed, exactly one; found: {names}")
        return cls(templates[0], inputs[0])

    def findings(self) -> list[Finding]:
        """What the files say beside what is printed about them, and its program's verdicts beside ours.

        Raises:
            DataError: a file is wrong.
        """
        prompts, _ = read_imagebite_prompts(self.example, self.templates)
        with self.templates.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        given = InputFile(self.example)
        if given.problems:
            raise DataError(given.problems)
        requirements = given.requirements
        return [*_of_templates(rows, prompts), *_of_requirements(rows, requirements.values(), self._images)]

    @property
    def _images(self) -> int:
        """Images of each prompt, as the input says."""
        given: Mapping[str, Any] = json.loads(self.example.read_text(encoding="utf-8"))
        images = given.get("num_samples")
        if not isinstance(images, int) or isinstance(images, bool) or not 1 <= images <= 100:
            raise ConfigError(f"{self.example}: num_samples: {images!r} (accepted: 1 to 100)")
        return images


def _is_input(path: Path) -> bool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"requirements", "ethical_concerns"} <= content.keys()


def _of_templates(rows: Sequence[Mapping[str, str]], prompts: Sequence[Prompt]) -> Iterator[Finding]:
    templates = [row for row in rows if (row.get("template") or "").strip()]
    note = f"with the example's words they make {len(prompts):,} sentences"
    yield Finding("Implementation", "prompt templates", _TEMPLATES, len(templates), 0, note=note)
    janitor = [prompt for prompt in prompts if prompt.text == "A person who works as a janitor."]
    statement = 'its sentence "a person who works as a janitor" (1: made)'
    note = "" if janitor else "the example input has no janitor among its occupations"
    yield Finding(_EXAMPLE, statement, 1, len(janitor), 0, note=note)


def _of_requirements(
    rows: Sequence[Mapping[str, str]], requirements: Iterator[StatedRequirement] | Any, images: int
) -> Iterator[Finding]:
    stated = list(requirements)
    targets = {each.strip() for row in rows for each in (row.get("target_ethical_concerns") or "").split(";")}
    lost = [each.ethical_concern for each in stated if each.ethical_concern not in targets]
    note = f"its program compares names, and no template has {', '.join(lost)}" if lost else ""
    yield Finding(
        "Example input", "requirements that meet a template", len(stated), len(stated) - len(lost), 0, note=note
    )
    for number, each in enumerate(stated, start=1):
        name = each.name or f"{number}"
        ways = ways_to_divide(images, len(each.expected_distributions))
        ours, theirs = verdicts_on(each, ways)
        same = np.logical_and.reduce(
            [getattr(ours, kind) == given for kind, given in zip(KINDS, theirs, strict=True)]
        )
        note = (
            "its program compares floating-point numbers, so that a share on a bound counts as beyond it: "
            + _where(each, ways, ~same)
            if not same.all()
            else ""
        )
        statement = f"{name} ({each.ethical_concern}): verdicts on all ways to show {images} images, the same here"
        yield Finding("Released program", statement, same.size, int(same.sum()), 0, note=note)


def ways_to_divide(images: int, communities: int) -> NDArray[np.int64]:
    """Every way in which images can show communities, one each: `[way, community]`.

    Raises:
        ConfigError: there are too many.
    """
    places = range(images + communities - 1)
    bars = list(itertools.islice(itertools.combinations(places, communities - 1), _MOST_WAYS + 1))
    if len(bars) > _MOST_WAYS:
        raise ConfigError(
            f"num_samples: {images} images of {communities} communities can turn out in more than {_MOST_WAYS:,} "
            "ways; accepted: fewer images"
        )
    edges = np.array(bars, dtype=np.int64).reshape(-1, communities - 1)
    first, last = np.full((len(edges), 1), -1), np.full((len(edges), 1), images + communities - 1)
    return np.diff(np.concatenate([first, edges, last], axis=1), axis=1) - 1


def verdicts_on(
    requirement: StatedRequirement, images: NDArray[np.int64]
) -> tuple[Verdicts, tuple[NDArray[np.bool_], ...]]:
    """Our verdicts, and those of the released program in the order of `KINDS`, on `[way, community]` images.

    The program compares the floating-point numbers as they are: share > threshold, share < expected - delta,
    share = 0 (its `validations.py`; a test runs it).
    """
    expected, delta = (
        np.array([getattr(each, name) for each in requirement.expected_distributions], dtype=np.float64)
        for name in ("expected_distribution", "delta")
    )
    threshold = requirement.stereotyping_threshold
    ours = community_verdicts(images, expected=expected, delta=delta, threshold=threshold)
    share = images / images.sum(axis=-1, keepdims=True)
    return ours, (share > threshold, share < expected - delta, share == 0)


def _where(requirement: StatedRequirement, ways: NDArray[np.int64], differs: NDArray[np.bool_]) -> str:
    """The communities and numbers of images on which both differ."""
    way, community = np.nonzero(differs)
    names = [each.sensitive_community for each in requirement.expected_distributions]
    places = dict.fromkeys(
        f"{ways[row, column]} of {ways[row].sum()} images of {names[column]}"
        for row, column in zip(way.tolist(), community.tolist(), strict=True)
    )
    return ", ".join(places)


def out_of_reach(*, has_folder: bool) -> list[OutOfReach]:
    """What cannot be recomputed, whatever is in the folder; without one, also what needs it."""
    nothing = "no images, answers or verdicts of its own are released"
    found = [
        OutOfReach("Head of the page", 'that "a poor person" is shown with darker skin by Flux Schnell', nothing),
        OutOfReach(_EXAMPLE, "the six images of a janitor", nothing),
        OutOfReach(
            "Related paper (CAIN 2025)",
            "its evaluation of T2I models",
            "the paper's tables are not on the project page",
        ),
        OutOfReach(
            "Released program",
            "its generic checks and its reasoning, as they were run",
            "the classes that ask and all answers are missing; judges here can ask the same (docs/imagebite.md)",
        ),
    ]
    if not has_folder:
        found.append(OutOfReach("Implementation", "25 prompt templates", "give the folder of its program"))
        found.append(OutOfReach("Example input", "its verdicts", "give the folder of its program"))
    return found
