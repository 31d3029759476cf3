"""The one list of metrics: what each means, how it is computed, and where it takes part.

A metric is declared where it is defined, by `@metric(...)` (`declaration.py`) above a function of counts. All that
goes through metrics asks this list: the metric table, resamples and intervals, comparisons and ranks, threshold
sweeps, tables, and docs/metrics.md. A file of one's own (`--plugin FILE.py`) or an installed package (entry point
group `detector_bench.metrics`) adds to it in the same way; docs/add-a-metric.md shows how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics.counts import CountArray, FloatArray, Score
from detector_bench.metrics.scopes import Scopes, pool
from detector_bench.registry import Registry
from detector_bench.vocabulary import ATTRIBUTES, Attribute

Over: TypeAlias = Literal["images", "prompts"]
Better: TypeAlias = Literal["higher", "lower", "closest to zero", "none"]
Kind: TypeAlias = Literal["fraction", "score", "count", "measurement"]
Counted: TypeAlias = Literal["images", "prompts", "classes", "pairs", "verdicts"]
NClear: TypeAlias = Literal["detector", "human"]
"""Whose count of clear images is the denominator of a detector's prompt bias score."""

Rows: TypeAlias = Literal["scopes", "prompts", "human"]
"""Rows of a metric table: of everything, T2I models and categories; of single prompts; of the human labels."""

Form: TypeAlias = Literal[
    "share", "f1", "mean of shares", "concentration", "distance", "ratio", "signed", "standard error"
]
"""What kind of number a metric is, as far as its interval is concerned.

- share: a number of images divided by `n` others that they are part of; f1: 2 TP / (2 TP + FP + FN), which grows
  with the share TP / (TP + FP + FN);
- mean of shares: of those that `made_of` names;
- concentration: a mean over prompts of `concentration`, in which one image makes a step of K / (K - 1) images;
- distance: any other number between two bounds, in which one image makes a step of 1 / images;
- ratio: of the two that `made_of` names, less 1;
- signed: of single prompts, a share on a scale from -1 to 1;
- standard error: what has no bounds that its scatter would respect.
"""

CLASS = "<class>"
"""Stands for a class of the attribute in the names of metrics that exist once per class."""

LABEL = "<label>"
"""Stands for a human label (a class, low_quality or others) in the names of metrics that exist once per label."""

OURS = "ours"
"""The source of what no other benchmark has."""

SECTIONS = ("Images", "Filter", "Class and measured value", "Model bias", "Prompt bias")
"""Of docs/metrics.md, and the order of a metric table; all other sections follow as they come."""

OWN = "Own"
"""The section of metrics that name none."""

OF_PACKAGE = "detector_bench."
"""How the names of the modules begin whose metrics are built in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """One metric; docs/metrics.md is made of these."""

    name: str
    """As in the column `metric` of a metric table."""
    meaning: str
    """What it says, in one line of words."""
    definition: str
    """How it is computed, in the symbols of docs/metrics.md."""
    source: str = OURS
    """The paper and its section, or `OURS`."""
    lowest: float = 0.0
    highest: float | None = 1.0
    """The range of the values; minus infinity: no lower bound, None: no upper bound."""
    better: Better = "higher"
    """Which value makes the better detector; "none" where the metric describes the images or the T2I model."""
    kind: Kind = "fraction"
    """A fraction (papers print it in per cent), a bias score (printed as it is), a number of images, or a
    measurement in the attribute's unit, such as years."""
    counted: Counted
    """What the column `n` counts for this metric."""
    left_out: str = ""
    """What the column `n_left_out` counts; empty: it is always 0."""
    no_interval: str = ""
    """Why it has no confidence interval; empty: it has one."""
    section: str = OWN
    """The section of docs/metrics.md that it stands in."""
    column: str = ""
    """Heading of its column in the table `filtering_and_accuracy`; empty: it has none there."""

    over: Over | None = None
    """What it adds up or averages over; None: it is no function of counts alone, and computed elsewhere."""
    function: Callable[..., Score] | None = field(default=None, repr=False)
    """Over images: from counts `[..., truth, verdict]`; over prompts: from counts `[..., t2i_model, prompt, truth,
    verdict]` and `scopes`."""
    term: Callable[..., Score] | None = field(default=None, repr=False)
    """Over prompts: from counts `[..., truth, verdict]` of a prompt to what stands in its row."""
    is_mean_of_terms: bool = False
    """Whether it is the mean of `term` over the prompts that have one, as all metrics over prompts are that are
    declared by their term."""
    rows: tuple[Rows, ...] = ("scopes", "prompts")
    """Which rows it has in a metric table."""
    two_classes: bool = False
    """Whether it exists for attributes of two classes alone."""
    depends_on_n_clear: bool = False
    form: Form = "distance"
    made_of: tuple[str, ...] = ()
    """The metrics that it is a mean or a ratio of."""
    actual_of: str = ""
    """The metric whose true value it is, by the human labels."""
    own_interval: Callable[..., Any] | None = field(default=None, repr=False)
    """From counts, `n_clear`, `scopes`, `level` and `unit` to an interval that needs no resamples."""
    own_bias: Callable[..., FloatArray] | None = field(default=None, repr=False)
    """From counts and `scopes` to what the interval is widened by on either side."""

    headline: int = 0
    """Its place among the metrics that stand for a detector where only a few can be shown; 0: none."""
    compared: int = 0
    """Its place among those that detectors are compared and ranked by unless others are named; 0: none."""
    swept: int = 0
    """Its place in a threshold sweep; 0: none."""
    chooses: bool = False
    """Whether a threshold may be chosen by its best value."""

    @property
    def heading(self) -> str:
        """What tables call it where it heads a row or a column of its own; fractions are printed in per cent."""
        words = self.name.replace("_", " ")
        return f"{words[:1].upper()}{words[1:]}{' (%)' if self.kind == 'fraction' else ''}"

    def exists_for(self, attribute: Attribute) -> bool:
        """Whether it is a function of counts, and the attribute has classes that it can count."""
        return self.function is not None and (not self.two_classes or len(attribute.classes) == 2)

    def scores(
        self, counts: CountArray, *, scopes: Scopes | None, n_clear: NClear, pooled: CountArray | None = None
    ) -> Score:
        """The metric over prompts and T2I models.

        Args:
            counts: `[..., t2i_model, prompt, truth, verdict]`.
            scopes: for one number for each T2I model and category; None: everything at once.
            n_clear: denominator of prompt bias scores.
            pooled: the counts of each scope, where they are known already.
        """
        if self.over == "images":
            return self.prompt_scores(pool(counts, scopes=scopes) if pooled is None else pooled, n_clear=n_clear)
        assert self.function is not None  # noqa: S101 - asked of functions of counts alone
        return self.function(counts, scopes=scopes, **({"n_clear": n_clear} if self.depends_on_n_clear else {}))

    def prompt_scores(self, counts: CountArray, *, n_clear: NClear) -> Score:
        """The metric of single prompts, or of pooled images: counts `[..., truth, verdict]` to `[...]`."""
        function = self.function if self.over == "images" else self.term
        assert function is not None  # noqa: S101 - asked of functions of counts alone
        return function(counts, **({"n_clear": n_clear} if self.depends_on_n_clear else {}))

    def words(self, attribute: Attribute) -> tuple[str, ...]:
        """The classes or labels that it exists once for; empty where it is a single number."""
        return attribute.classes if CLASS in self.name else attribute.labels if LABEL in self.name else ()

    def called(self, word: str) -> str:
        """Its name for one class or label."""
        return self.name.replace(CLASS, word).replace(LABEL, word)

    def named(self, score: Score, words: Sequence[str]) -> list[tuple[str, Score]]:
        """The score with its name; of one for each class or label `[..., word]` each with its own."""
        if CLASS not in self.name and LABEL not in self.name:
            return [(self.name, score)]
        return [
            (self.called(word), Score(*(array[..., index] for array in score))) for index, word in enumerate(words)
        ]

    def loss(self, values: FloatArray) -> FloatArray:
        """How far values are from the best that the direction allows, but for a constant; lower is better.

        Raises:
            ValueError: no direction is better.
        """
        if self.better == "none":
            raise ValueError(f"nothing is best by {self.name!r}: no direction is better")
        return -values if self.better == "higher" else values if self.better == "lower" else np.abs(values)


class MetricList(Mapping[str, MetricInfo]):
    """Metrics by name, section by section; `<class>` and `<label>` in a name stand for each of the attribute's."""

    def __init__(self) -> None:
        self._registry: Registry[MetricInfo] = Registry(
            "metric", entry_point_group="detector_bench.metrics", adapt=_adapt
        )

    def add(self, info: MetricInfo) -> None:
        """Put a metric into the list.

        Raises:
            ConfigError: the name is taken by another one.
        """
        self._registry.register(info.name, info)

    def check_free(self, info: MetricInfo) -> None:
        """Check that no metric of detector_bench bears a name of this one; asks no installed package.

        Raises:
            ConfigError: one does, or one of its names for a class is the same.
        """
        own = set(_names_of(info))
        for known in self._registry.loaded():
            taken = own.intersection(_names_of(known))
            theirs = known.function is None or known.function.__module__.startswith(OF_PACKAGE)
            if taken and (theirs or known.name != info.name):
                raise ConfigError(
                    f"metric {info.name!r}: the name {min(taken)!r} is taken by the metric {known.name!r} "
                    "(accepted: a name of its own)"
                )

    def built_in(self, order: Literal["headline", "compared"]) -> tuple[str, ...]:
        """Names of the metrics that have a place in one of the orders; asks no installed package."""
        infos = [each for each in self._registry.loaded() if getattr(each, order)]
        return tuple(each.name for each in sorted(infos, key=lambda each: int(getattr(each, order))))

    def with_rows(self, rows: Rows, attribute: Attribute) -> list[MetricInfo]:
        """The functions of counts that have such rows in a metric table of the attribute, in their order."""
        return [each for each in self.values() if rows in each.rows and each.exists_for(attribute)]

    def swept_for(self, attribute: Attribute) -> list[MetricInfo]:
        """The metrics of a threshold sweep of the attribute's verdicts, in the order of its table."""
        swept = [each for each in self.values() if each.swept and each.exists_for(attribute)]
        return sorted(swept, key=lambda each: each.swept)

    def __getitem__(self, name: str) -> MetricInfo:
        if name not in self._registry:
            raise KeyError(name)
        return self._registry.get(name)

    def __iter__(self) -> Iterator[str]:
        for name in self._registry:
            self._registry.get(name)
        infos = self._registry.loaded()
        sections = dict.fromkeys([*SECTIONS, *(each.section for each in infos)])
        return iter([each.name for section in sections for each in infos if each.section == section])

    def __len__(self) -> int:
        return len(self._registry.names())


def _adapt(name: str, found: Any) -> MetricInfo:
    info = getattr(found, "metric_info", None)
    if not isinstance(info, MetricInfo):
        raise ConfigError(f"{found!r} is not a metric: it lacks the decorator @metric")
    raise ConfigError(f"{found!r} calls itself {info.name!r}, so it cannot be the metric {name!r}")


METRICS = MetricList()
"""The list of all metrics, by name."""


def register_metrics(*infos: MetricInfo) -> None:
    """Put metrics into the list that are no functions of counts, such as other benchmarks' scores.

    Raises:
        ConfigError: a name is taken.
    """
    for info in infos:
        METRICS.add(info)


def with_deviations(*scores: MetricInfo) -> tuple[MetricInfo, ...]:
    """Scores that describe a T2I model, and of each how far a detector misses it, as a part of the score."""
    deviations = (
        replace(
            score,
            name=f"{score.name}_deviation",
            meaning=f"reported minus actual {score.name}, as a part of the actual one",
            definition=f"(reported - actual `{score.name}`) / actual `{score.name}`",
            source=OURS,
            # A score can be near or below 0.
            lowest=-1 if score.lowest >= 0 else -np.inf,
            highest=None,
            better="closest to zero",
            kind="fraction",
        )
        for score in scores
    )
    return (*scores, *deviations)


def metric_info(name: str) -> MetricInfo:
    """Look a metric up, class-specific names such as `recall_female` included.

    Raises:
        ConfigError: no such metric; the message names the nearest known ones.
    """
    if name in METRICS:
        return METRICS[name]
    known = {
        info.called(word): (info, word)
        for info in METRICS.values()
        for attribute in ATTRIBUTES.values()
        for word in info.words(attribute)
    }
    if name not in known:
        plain = [pattern for pattern in METRICS if "<" not in pattern]
        raise ConfigError(f"unknown metric {name!r}: {nearest_hint(name, [*plain, *known])}")
    info, word = known[name]
    return replace(info, name=name, meaning=f"{info.meaning} ({word})")


def _names_of(info: MetricInfo) -> list[str]:
    words = [word for attribute in ATTRIBUTES.values() for word in info.words(attribute)]
    return [info.called(word) for word in words] or [info.name]
