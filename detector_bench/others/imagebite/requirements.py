"""Requirements as this project understands them: each community with the answers that stand for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import DataError, Problem, nearest_hint
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.imagebite.communities import (
    CONCERNS,
    UNJUDGED_CONCERNS,
    Meaning,
    check_own_words,
    meaning_of,
    normal,
)
from detector_bench.others.imagebite.input_file import (
    ExpectedDistribution,
    InputFile,
    StatedRequirement,
)

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Community:
    """A sensitive community of a requirement."""

    name: str
    expected: float
    delta: float
    meaning: Meaning

    @property
    def tolerates_absence(self) -> bool:
        """Whether the tolerance reaches down to a share of 0, so that it can never be under-represented."""
        return 0 < self.expected <= self.delta


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement that somebody can judge."""

    name: str
    rationale: str
    ethical_concern: str
    attribute: str
    threshold: float
    communities: tuple[Community, ...]

    @property
    def expected(self) -> FloatArray:
        """Each community's expected share, `[community]`."""
        return np.array([community.expected for community in self.communities])

    @property
    def delta(self) -> FloatArray:
        """How far each community's share may be off, `[community]`."""
        return np.array([community.delta for community in self.communities])

    @property
    def answered_by_humans(self) -> NDArray[np.bool_]:
        """Whether a human label can stand for each community, `[community]`."""
        return np.array([community.meaning.answered_by_humans for community in self.communities])

    @property
    def answered_by_detectors(self) -> NDArray[np.bool_]:
        """Whether a detector's answer can stand for each community, `[community]`."""
        return np.array([community.meaning.answered_by_detectors for community in self.communities])

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said below its numbers."""
        notes = []
        total = math.fsum(community.expected for community in self.communities)
        if abs(total - 1) > _SUM_TOLERANCE:
            notes.append(f"The expected shares add up to {total:.6g}, not to 1; they are taken as they are.")
        absent = [each.name for each in self.communities if each.tolerates_absence]
        if absent:
            notes.append(
                f"The delta of {', '.join(absent)} is no smaller than the expected share: never under-represented."
            )
        exceeding = [each.name for each in self.communities if each.expected > self.threshold]
        if exceeding:
            notes.append(
                f"Above the threshold already with the expected share: {', '.join(exceeding)}; as expected is "
                "stereotyped."
            )
        nobody = [each.name for each in self.communities if not each.meaning.answered_by_humans]
        if nobody:
            notes.append(f"No answer stands for {', '.join(nobody)}: no verdict on it.")
        humans = [
            each.name
            for each in self.communities
            if each.meaning.answered_by_humans and not each.meaning.answered_by_detectors
        ]
        if humans:
            notes.append(f"Only humans can answer {', '.join(humans)}: no verdict by a detector.")
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class RequirementsCheck:
    """What an input file asks for, and what is wrong or odd about it."""

    requirements: tuple[Requirement, ...]
    """Those without a mistake, in the order of the file."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    """What ImageBiTe accepts although it looks wrong, and what is left out."""
    left_out: tuple[str, ...] = ()
    """Requirements without a mistake that no detector here can judge."""

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """By requirement, what has to be said below its numbers."""
        names = ", ".join(self.left_out)
        missing = (f"Requirements left out, as no detector here judges them: {names}.",) if names else ()
        return {each.name: (*each.notes, *missing) for each in self.requirements}


def check_requirements(
    path: Path,
    *,
    communities: Mapping[str, Sequence[str]] | None = None,
    concerns: Mapping[str, str] | None = None,
) -> RequirementsCheck:
    """Read an input file and find all mistakes.

    Args:
        path: JSON, as ImageBiTe reads it.
        communities: the study's own meanings: by community our classes, or `others`; with none of them, no answer
            stands for it.
        concerns: by ethical concern one of our attributes.

    Raises:
        ConfigError: there is no such file, or `communities` or `concerns` name something that does not exist.
    """
    check_own_words(communities or {}, concerns or {})
    given = InputFile(path)
    _check_concerns(given)
    reader = _Reader(given, own=communities or {}, concerns=concerns or {})
    found = tuple(
        requirement
        for position, stated in given.requirements.items()
        if (requirement := reader.requirement(position, stated)) is not None
    )
    if not given.problems:
        reader.check_own_words_are_used()
    return RequirementsCheck(found, tuple(given.problems), tuple(given.warnings), tuple(reader.left_out))


def read_requirements(
    path: Path,
    *,
    communities: Mapping[str, Sequence[str]] | None = None,
    concerns: Mapping[str, str] | None = None,
) -> RequirementsCheck:
    """Read the requirements of a sound file; see `check_requirements`.

    Raises:
        ConfigError: as there.
        DataError: there is a mistake, or no requirement that somebody can judge; all mistakes at once.
    """
    check = check_requirements(path, communities=communities, concerns=concerns)
    problems = list(check.problems)
    if not problems and not check.requirements:
        problems = [*check.warnings, Problem(str(path), "no requirement that a detector judges")]
    if problems:
        raise DataError(problems)
    return check


def _check_concerns(given: InputFile) -> None:
    seen: set[str] = set()
    for position, concern in given.concerns.items():
        place = f"ethical_concerns[{position}]"
        name = normal(concern.ethical_concern)
        if name in seen:
            given.problem(f"{place}.ethical_concern", "stands here a second time", value=concern.ethical_concern)
        seen.add(name)
        for index in _repeated(concern.sensitive_communities):
            where = f"{place}.sensitive_communities[{index}]"
            given.problem(where, "stands here a second time", value=concern.sensitive_communities[index])


def _repeated(names: Sequence[str]) -> list[int]:
    same = [normal(name) for name in names]
    return [index for index, name in enumerate(same) if name in same[:index]]


class _Reader:
    """Gives meanings to stated requirements; what it cannot give one to becomes a problem or a warning."""

    def __init__(self, given: InputFile, *, own: Mapping[str, Sequence[str]], concerns: Mapping[str, str]) -> None:
        self._given = given
        self._own = own
        self._own_concerns = concerns
        self._attributes = CONCERNS | {normal(concern): name for concern, name in concerns.items()}
        self._names: set[str] = set()
        self.left_out: list[str] = []
        self._communities_seen: set[str] = set()
        self._concerns_seen: set[str] = set()

    def requirement(self, position: int, stated: StatedRequirement) -> Requirement | None:
        """The requirement, or None if it has a mistake or nobody can judge it."""
        place = f"requirements[{position}]"
        before = len(self._given.problems)
        name = self._name(stated, place)
        names = [each.sensitive_community for each in stated.expected_distributions]
        self._communities_seen.update(map(normal, names))
        for index in _repeated(names):
            where = f"{place}.expected_distributions[{index}].sensitive_community"
            self._given.problem(where, "stands here a second time", value=names[index])
        total = math.fsum(each.expected_distribution for each in stated.expected_distributions)
        if abs(total - 1) > _SUM_TOLERANCE:
            where = f"{place}.expected_distributions"
            self._given.warn(where, f"the shares add up to {total:.6g}, not to 1; taken as they are")
        attribute = self._attribute(stated, place)
        communities = () if attribute is None else self._communities(stated, attribute, place)
        if len(self._given.problems) > before:
            return None
        if attribute is None or not any(each.meaning.answered_by_detectors for each in communities):
            concern = stated.ethical_concern
            self.left_out.append(name if name == concern else f"{name} ({concern})")
            return None
        return Requirement(
            name=name,
            rationale=stated.rationale,
            ethical_concern=stated.ethical_concern,
            attribute=attribute,
            threshold=stated.stereotyping_threshold,
            communities=communities,
        )

    def check_own_words_are_used(self) -> None:
        """A name in the study's settings that the file does not have is probably misspelt."""
        for key, own, seen in (
            ("communities", self._own, self._communities_seen),
            ("concerns", self._own_concerns, self._concerns_seen),
        ):
            for name in own:
                if normal(name) not in seen:
                    message = f"no requirement has what the study's settings name under `{key}`"
                    self._given.problem("", message, value=name, accepted=", ".join(sorted(seen)))

    def _name(self, stated: StatedRequirement, place: str) -> str:
        if stated.name is None:
            name, number = stated.ethical_concern, 1
            while name in self._names:
                number += 1
                name = f"{stated.ethical_concern} {number}"
        else:
            name = stated.name
            if name in self._names:
                self._given.problem(f"{place}.name", "stands here a second time", value=name)
        self._names.add(name)
        return name

    def _attribute(self, stated: StatedRequirement, place: str) -> str | None:
        concern = normal(stated.ethical_concern)
        self._concerns_seen.add(concern)
        if concern in self._attributes:
            return self._attributes[concern]
        where = f"{place}.ethical_concern"
        declared = {normal(each.ethical_concern) for each in self._given.concerns.values()}
        if concern in declared or concern in {normal(name) for name in UNJUDGED_CONCERNS}:
            message = "no detector here judges it, the requirement is left out"
            self._given.warn(where, message, value=stated.ethical_concern)
            return None
        known = [*self._attributes, *UNJUDGED_CONCERNS, *declared]
        hint = nearest_hint(concern, known)
        self._given.problem(where, f"unknown ethical concern, {hint}", value=stated.ethical_concern)
        return None

    def _communities(self, stated: StatedRequirement, attribute: str, place: str) -> tuple[Community, ...]:
        found: list[Community] = []
        for index, each in enumerate(stated.expected_distributions):
            where = f"{place}.expected_distributions[{index}].sensitive_community"
            meaning = meaning_of(each.sensitive_community, attribute, own=self._own)
            if meaning is None:
                message = (
                    f"no {attribute} class stands for it, no verdict (the study's `communities` can name one)"
                )
                self._given.warn(where, message, value=each.sensitive_community)
                meaning = Meaning()
            elif not meaning.answered_by_humans:
                self._given.warn(
                    where, f"no {attribute} class stands for it, no verdict", value=each.sensitive_community
                )
            elif not meaning.answered_by_detectors:
                message = "only humans can answer it, no verdict by a detector"
                self._given.warn(where, message, value=each.sensitive_community)
            self._warn_of_shares(stated, each, place, index)
            self._check_meaning(each.sensitive_community, meaning, attribute, found, where)
            found.append(Community(each.sensitive_community, each.expected_distribution, each.delta, meaning))
        if not any(each.meaning.answered_by_detectors for each in found):
            message = "no detector here can answer any of its communities, the requirement is left out"
            self._given.warn(place, message)
        return tuple(found)

    def _warn_of_shares(
        self, stated: StatedRequirement, each: ExpectedDistribution, place: str, index: int
    ) -> None:
        where = f"{place}.expected_distributions[{index}]"
        if 0 < each.expected_distribution <= each.delta:
            message = (
                f"no smaller than the expected share of {each.expected_distribution:g}, so that "
                f"{each.sensitive_community!r} is never under-represented"
            )
            self._given.warn(f"{where}.delta", message, value=each.delta)
        if each.expected_distribution > stated.stereotyping_threshold:
            message = (
                f"above the stereotyping threshold of {stated.stereotyping_threshold:g}, so that "
                f"{each.sensitive_community!r} is stereotyped with just the share that is expected"
            )
            self._given.warn(f"{where}.expected_distribution", message, value=each.expected_distribution)

    def _check_meaning(
        self, name: str, meaning: Meaning, attribute: str, earlier: Sequence[Community], where: str
    ) -> None:
        problem = self._given.problem
        if meaning.years is not None and meaning.years.first > meaning.years.last:
            problem(where, "the first age is above the last", value=name)
        for label in meaning.foreign_to(attribute):
            problem(where, f"its class {label!r} in the study's settings is no {attribute} class", value=name)
        for other in earlier:
            clash = meaning.clash(other.meaning)
            if clash and normal(other.name) != normal(name):
                message = f"cannot be told apart from {other.name!r}, both are {clash}"
                accepted = "other meanings, or [] for one of them, in the study's `communities`"
                problem(where, message, value=name, accepted=accepted)
