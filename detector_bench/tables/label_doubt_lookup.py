"""Finds the numbers by other labels than the consensus; computes none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import pandas as pd

from detector_bench.dataset.consensus import ALL_AGREE, DAWID_SKENE
from detector_bench.tables.metric_lookup import DEFAULT_MAX_ERROR_SHARE, NOT_EVALUATED, MetricLookup, Number
from detector_bench.vocabulary import ALL


class Band(NamedTuple):
    """The lowest and the highest of the numbers that different labels give; NaN without any number."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LabelDoubtLookup:
    """One attribute's numbers by other labels than the consensus."""

    by_labels: Mapping[str, MetricLookup]
    """By annotator, then `all_agree`, then `dawid_skene` if labels were estimated: the numbers, found as those of
    the metric table are. Empty where nobody knows how much depends on who labelled."""

    @classmethod
    def of_table(
        cls, doubt: pd.DataFrame, *, attribute: str, max_error_share: float = DEFAULT_MAX_ERROR_SHARE
    ) -> Self:
        """Read the columns `vocabulary.columns.LABEL_DOUBT_COLUMNS`.

        Args:
            doubt: as `evaluation.label_doubt` and `evaluation.read_label_doubt` give it.
            attribute: the one to look up.
            max_error_share: see `DEFAULT_MAX_ERROR_SHARE`.

        Raises:
            ConfigError: the share is no fraction.
        """
        rows = doubt[doubt["attribute"] == attribute]
        return cls(
            {
                str(name): MetricLookup.of_table(own, attribute=attribute, max_error_share=max_error_share)
                for name, own in rows.groupby("labelled_by", sort=False)
            }
        )

    @property
    def annotators(self) -> tuple[str, ...]:
        """The people who labelled enough images to have numbers of their own."""
        return tuple(name for name in self.by_labels if name not in (ALL_AGREE, DAWID_SKENE))

    def number(
        self, metric: str, *, detector: str, labelled_by: str, t2i_model: str = ALL, n_clear: str = ""
    ) -> Number:
        """The metric's row by these labels; `NOT_EVALUATED` if there is none."""
        if labelled_by not in self.by_labels:
            return NOT_EVALUATED
        return self.by_labels[labelled_by].number(metric, detector=detector, t2i_model=t2i_model, n_clear=n_clear)

    def band(
        self, metric: str, consensus: Number, *, detector: str, t2i_model: str = ALL, n_clear: str = ""
    ) -> Band:
        """From the lowest to the highest of consensus, annotators and images on which all agree.

        Estimated labels are no part of it: they rest on a model's assumption, and on the same people's labels.

        Args:
            metric: its name.
            consensus: the metric table's number.
            detector, t2i_model, n_clear: whose number it is.
        """
        place = {"detector": detector, "t2i_model": t2i_model, "n_clear": n_clear}
        found = [self.number(metric, labelled_by=name, **place) for name in (*self.annotators, ALL_AGREE)]
        values = [each.value for each in (consensus, *found) if not each.missing]
        return Band(min(values), max(values)) if values else Band(math.nan, math.nan)
