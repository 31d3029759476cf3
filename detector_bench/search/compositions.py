"""What competes: filters x crops x classifiers x prompts x thresholds, each a detector that a study file can
name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from pydantic import BaseModel, ValidationError

from detector_bench.detectors.base import Detector, build_detector
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.search.settings import AS_IT_IS, SearchSettings
from detector_bench.study_file import DetectorEntry, full_entry, merge

_JOINED_BY = "+"
_RAW = "parameters"


@dataclass(frozen=True)
class JudgedPart:
    """A detector that runs: everything of a composition but its threshold."""

    entry: DetectorEntry
    classifier: str
    filters: str
    crop: str
    prompts: str
    own_threshold: float | None
    """`min_score` of the classifier as it is; None: it has none."""
    threshold_at: tuple[tuple[str, ...], dict[str, Any]] | None
    """Where `min_score` stands among the parameters, and what must stand beside it; None: nowhere."""

    def at(self, threshold: float | None, name: str) -> DetectorEntry:
        """The composition with its threshold, as a study file has it."""
        parameters = self.entry.parameters
        if threshold is not None and self.threshold_at is not None:
            parameters = merge(parameters, _laid_at(self.threshold_at, threshold))
        return DetectorEntry(name=name, kind=self.entry.kind, parameters=parameters)


@dataclass(frozen=True)
class Composition:
    """One that competes."""

    name: str
    judged: int
    """Position of its `JudgedPart`."""
    threshold: float | None
    """None: the classifier has none."""
    single: bool
    """Whether it is a detector of the study just as it stands there."""


@dataclass(frozen=True)
class NotBuilt:
    """A combination that is no detector."""

    name: str
    reason: str


@dataclass
class Compositions:
    """All that competes, the study's own detectors first."""

    attribute: str
    judged: list[JudgedPart] = field(default_factory=list)
    detectors: list[Detector] = field(default_factory=list)
    """The built ones, in the order of `judged`."""
    listed: list[Composition] = field(default_factory=list)
    not_built: list[NotBuilt] = field(default_factory=list)
    equal: int = 0
    """Combinations that are another one by another name."""

    @classmethod
    def of(cls, settings: SearchSettings, study: Sequence[DetectorEntry], *, attribute: str) -> Compositions:
        """Combine all parts; what cannot be built is listed with its reason.

        Args:
            settings: what is combined.
            study: the study's detectors, which compete just as they are, too.
            attribute: what is judged.

        Raises:
            ConfigError: an unknown part, nothing that can be built, or too many compositions.
        """
        found = cls(attribute)
        classifiers = _classifiers(settings, study)
        filters = settings.filters or default_filters(study)
        parts = list(product(filters.items(), settings.crops.items(), settings.prompts.items()))
        number = len(classifiers) * len(parts) * (1 + len(settings.thresholds))
        if number > settings.limit:
            raise ConfigError(
                f"search: {number:,} compositions ({len(classifiers)} classifiers x {len(filters)} filters x "
                f"{len(settings.crops)} crops x {len(settings.prompts)} prompts x {1 + len(settings.thresholds)} "
                f"thresholds), and the limit is {settings.limit:,}: combine less, or raise `limit` (--limit)"
            )
        known: dict[str, int] = {}
        own = {}
        for entry in study:
            own[entry.name] = found._judge(known, entry, entry.name, {})
        for entry in classifiers:
            for named in parts:
                found._judge(
                    known, entry, entry.name, dict(zip(("filters", "crop", "prompts"), named, strict=True))
                )
        found._list(settings, {place for place in own.values() if place is not None})
        taken = {each.name.casefold() for each in found.listed}
        for ensemble in settings.ensembles:
            if ensemble.name.casefold() in taken:
                raise ConfigError(
                    f"search: a composition is called {ensemble.name!r}, as an ensemble is: call the detector or "
                    "the part otherwise"
                )
        if not found.listed:
            reasons = "; ".join(f"{each.name}: {each.reason}" for each in found.not_built[:3])
            raise ConfigError(f"search: not one composition for {attribute!r} can be built: {reasons}")
        return found

    def leave_out(self, reasons: Mapping[int, str]) -> None:
        """Take out what cannot run.

        Args:
            reasons: why, by position among `judged`.
        """
        if not reasons:
            return
        kept = [place for place in range(len(self.judged)) if place not in reasons]
        for place, reason in reasons.items():
            self._reject(self.judged[place].entry.name, reason)
        now = {before: place for place, before in enumerate(kept)}
        self.listed = [replace(each, judged=now[each.judged]) for each in self.listed if each.judged in now]
        self.judged = [self.judged[place] for place in kept]
        self.detectors = [self.detectors[place] for place in kept]

    def singles(self) -> list[int]:
        """Positions of the study's own detectors among `listed`."""
        return [place for place, each in enumerate(self.listed) if each.single]

    def named(self, name: str) -> int:
        """Position of a composition among `listed`.

        Raises:
            ConfigError: there is none of this name.
        """
        names = [each.name for each in self.listed]
        if name not in names:
            raise ConfigError(f"search: no composition {name!r}: {nearest_hint(name, names)}")
        return names.index(name)

    def entry(self, composition: Composition, name: str | None = None) -> DetectorEntry:
        """A composition as a study file has it."""
        return self.judged[composition.judged].at(composition.threshold, name or composition.name)

    def _judge(
        self, known: dict[str, int], entry: DetectorEntry, classifier: str, parts: Mapping[str, tuple[str, Any]]
    ) -> int | None:
        """Build a combination without its threshold; its position, or None where it cannot be built."""
        names = {what: name for what, (name, _) in parts.items() if name != AS_IT_IS}
        name = _JOINED_BY.join([classifier, *names.values()])
        parameters = entry.parameters
        try:
            for what, (_, given) in parts.items():
                parameters = _with_part(parameters, what, given)
            combined = DetectorEntry(name=name, kind=entry.kind, parameters=parameters)
            built = build_detector(entry.kind, name=name, parameters=parameters)
        except (ConfigError, ValidationError, TypeError) as error:
            self._reject(name, _reason(error, name))
            return None
        if self.attribute not in built.attributes:
            self._reject(name, f"it does not judge {self.attribute!r}")
            return None
        place = threshold_place(built.implementation, self.attribute)
        threshold = None if place is None else _number_at(built.implementation, place[0])
        if place is not None:
            try:
                combined, built = _without_threshold(combined, place)
            except (ConfigError, ValidationError, TypeError) as error:
                self._reject(f"{name} with other thresholds", _reason(error, name))
                place = threshold = None
        same = json.dumps([entry.kind, built.settings, threshold], sort_keys=True, default=str)
        if same in known:
            self.equal += bool(parts) and name != self.judged[known[same]].entry.name
            return known[same]
        if any(each.entry.name.casefold() == name.casefold() for each in self.judged):
            self._reject(name, "another composition has this name: call parts and detectors otherwise")
            return None
        known[same] = len(self.judged)
        words = {what: names.get(what, AS_IT_IS) for what in ("filters", "crop", "prompts")}
        self.judged.append(JudgedPart(combined, classifier, **words, own_threshold=threshold, threshold_at=place))
        self.detectors.append(built)
        return known[same]

    def _reject(self, name: str, reason: str) -> None:
        if all(each.name != name for each in self.not_built):
            self.not_built.append(NotBuilt(name, reason))

    def _list(self, settings: SearchSettings, own: set[int]) -> None:
        """Lay thresholds on; a threshold that the classifier has already is no further composition."""
        for place, judged in enumerate(self.judged):
            name = judged.entry.name
            self.listed.append(Composition(name, place, judged.own_threshold, place in own))
        taken = {each.name.casefold() for each in self.listed}
        for place, judged in enumerate(self.judged):
            for threshold in settings.thresholds if judged.threshold_at is not None else ():
                name = f"{judged.entry.name}{_JOINED_BY}{threshold:g}"
                if threshold == judged.own_threshold:
                    continue
                if name.casefold() in taken:
                    self._reject(name, "a part makes another composition of this name: call the part otherwise")
                    continue
                if len(name) > 80:
                    self._reject(name, "its name has more than 80 characters: give parts shorter names")
                    continue
                taken.add(name.casefold())
                self.listed.append(Composition(name, place, threshold, single=False))


def default_filters(study: Sequence[DetectorEntry]) -> dict[str, Any]:
    """The classifiers' own filters, and every list of filters that a detector of the study has, by its name."""
    found: dict[str, Any] = {AS_IT_IS: None}
    for entry in study:
        own = entry.parameters.get("filters")
        if (
            isinstance(own, list | tuple)
            and own
            and list(own) not in [list(each) for each in found.values() if each]
        ):
            found[f"filters-of-{entry.name}"] = list(own)
    return found


def threshold_place(implementation: Any, attribute: str) -> tuple[tuple[str, ...], dict[str, Any]] | None:
    """Where a detector says below which score it filters: the path of `min_score` among its parameters, and what
    must stand beside it there; None where it says it nowhere."""
    if not isinstance(implementation, BaseModel):
        return None
    fields = type(implementation).model_fields
    # First what is said of the attribute by itself: where there is that, nothing is said of all together.
    outputs = getattr(implementation, "outputs", None)
    if isinstance(outputs, Mapping) and hasattr(outputs.get(attribute), "min_score"):
        return ("outputs", attribute, "min_score"), {}
    if "min_score" in fields:
        kind = getattr(implementation, "kind", None)
        return ("min_score",), {"kind": kind} if isinstance(kind, str) else {}
    if "classifier" in fields:
        below = threshold_place(implementation.classifier, attribute)  # type: ignore[attr-defined]
        return None if below is None else (("classifier", *below[0]), below[1])
    return None


def _without_threshold(
    entry: DetectorEntry, place: tuple[tuple[str, ...], dict[str, Any]]
) -> tuple[DetectorEntry, Detector]:
    """A detector that filters nothing for its score.

    Raises:
        ConfigError, ValidationError, TypeError: it cannot be built with another threshold than its own.
    """
    for threshold in (1.0, 0.0):
        parameters = merge(entry.parameters, _laid_at(place, threshold))
        laid = entry.model_copy(update={"parameters": parameters})
        built = build_detector(entry.kind, name=entry.name, parameters=parameters)
    return laid, built


def _number_at(implementation: Any, path: Sequence[str]) -> float:
    found = implementation
    for part in path:
        found = found[part] if isinstance(found, Mapping) else getattr(found, part)
    return float(found)


def _laid_at(place: tuple[tuple[str, ...], dict[str, Any]], threshold: float) -> dict[str, Any]:
    (*above, last), beside = place
    # The kind stands beside the threshold only where a mapping of its own describes the classifier.
    laid: dict[str, Any] = {**(beside if above else {}), last: threshold}
    for part in reversed(above):
        laid = {part: laid}
    return laid


def _with_part(parameters: Mapping[str, Any], what: str, given: Any) -> dict[str, Any]:
    if given is None:
        return dict(parameters)
    if isinstance(given, Mapping) and set(given) == {_RAW}:
        if not isinstance(given[_RAW], Mapping):
            raise ConfigError(f"`{_RAW}` of a part is a mapping; got {given[_RAW]!r}")
        return merge(parameters, given[_RAW])
    if what == "prompts":  # a prompt for a class that the classifier has and the part has not is none of it
        return {**parameters, what: dict(given)}
    if what == "filters" and isinstance(given, Mapping):
        raise ConfigError(f"filters are a list, or a mapping with the one key `{_RAW}`; got {dict(given)!r}")
    return merge(parameters, {what: given})


def _classifiers(settings: SearchSettings, study: Sequence[DetectorEntry]) -> list[DetectorEntry]:
    if settings.classifiers is None:
        return list(study)
    known = {entry.name: entry for entry in study}
    found = []
    for number, each in enumerate(settings.classifiers):
        if isinstance(each, str) and each in known:
            found.append(known[each])
        elif isinstance(each, str):
            raise ConfigError(f"search: no detector {each!r} in this study: {nearest_hint(each, known)}")
        else:
            entry = full_entry(each, place=f"search: classifiers.{number}")
            entry = entry if isinstance(entry, DetectorEntry) else _entry(entry, number)
            if entry.name in known:
                raise ConfigError(f"search: classifiers.{number}: two detectors have the name {entry.name!r}")
            known[entry.name] = entry
            found.append(entry)
    return found


def _entry(described: Any, number: int) -> DetectorEntry:
    from detector_bench.errors import config_error_from

    try:
        return DetectorEntry.model_validate(described)
    except ValidationError as error:
        raise config_error_from(error, place=f"search: classifiers.{number}", model=DetectorEntry) from error


def _reason(error: Exception, name: str) -> str:
    if isinstance(error, ValidationError):
        lines = [str(each["msg"]).removeprefix("Value error, ") for each in error.errors(include_url=False)]
    else:
        lines = [line.removeprefix(f"detector {name!r}: ") for line in str(error).splitlines()]
    return "; ".join(lines)
