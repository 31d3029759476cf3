"""The numbers that claims of Lyu 2025 are about: of a study with its resamples, or as the paper prints them.

A claim is written once, as a function of such numbers. Asked of `CountedNumbers` it gives the study's number and
what other images of the same prompts could have given; asked of `PrintedNumbers`, the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.metrics import Scopes
from detector_bench.metrics.bias import model_bias_score, prompt_bias_score_actual, prompt_bias_score_difference
from detector_bench.metrics.causes import ErrorParts, accuracy_gap, replaced_scores
from detector_bench.metrics.classification import accuracy, accuracy_per_class
from detector_bench.metrics.counts import CountArray, FloatArray, divide, human_as_detector
from detector_bench.metrics.estimands import model_bias_score_if_fair
from detector_bench.metrics.filtering import f1, filter_rate, precision, recall
from detector_bench.metrics.scopes import pool
from detector_bench.others.lyu2025.published import PublishedTables, number
from detector_bench.vocabulary import ALL, GROUND_TRUTH

RATES = ("precision", "recall", "f1", "filter_rate", "accuracy_male", "accuracy_female", "accuracy")
"""Table 3's columns."""

OUTPUTS = ("only men", "more men", "balanced", "beyond 0.2", "mixed")
"""What is counted of prompt bias scores: shares of outputs (a prompt of a T2I model); `mixed`: of prompts."""

SPLIT = ("clip_prob", "blip2")
"""Detectors whose errors a claim splits into filtering and classification; splitting takes most of the time."""

_STRONG = 0.2
_LABELS = {"male": 0, "female": 1, "low_quality": 2}


class ClaimNumbers(Protocol):
    """Numbers by name, `[draw]`; the first draw is the number itself. NaN where there is none."""

    def model_bias_score(self, judge: str, t2i_model: str, category: str = ALL) -> FloatArray:
        """By the humans (`GROUND_TRUTH`) or a detector, at the number of images at hand."""
        ...

    def deviation(self, detector: str, t2i_model: str) -> FloatArray:
        """Reported minus actual model bias score, as a part of the actual one."""
        ...

    def prompt_difference(self, detector: str, t2i_model: str) -> FloatArray:
        """Prompt bias score difference, divided by the humans' count of clear images."""
        ...

    def rate(self, name: str, detector: str) -> FloatArray:
        """One of `RATES`, over the images of all T2I models."""
        ...

    def share(self, label: str, t2i_model: str) -> FloatArray:
        """Images with a human label of all labelled ones."""
        ...

    def outputs(self, what: str) -> FloatArray:
        """One of `OUTPUTS`."""
        ...

    def beyond_fair(self, t2i_model: str) -> FloatArray:
        """Actual model bias score minus what a fair T2I model shows with as many images."""
        ...

    def filtering_minus_classification(self, detector: str) -> FloatArray:
        """Parts of the prompt bias score difference, over all T2I models."""
        ...

    def kappa(self) -> FloatArray:
        """Cohen's kappa of the two annotators."""
        ...


@dataclass(frozen=True)
class CountedNumbers:
    """Numbers of counted images, with resamples of them behind the first."""

    detectors: tuple[str, ...]
    t2i_models: tuple[str, ...]
    categories: tuple[str, ...]
    scores: FloatArray
    """`[draw, 1 + detector, 1 + t2i_model, 1 + category]`, the humans first."""
    differences: FloatArray
    """`[draw, detector, 1 + t2i_model]`."""
    rates: Mapping[str, FloatArray]
    """`[draw, detector]` each."""
    shares: FloatArray
    """`[draw, 1 + t2i_model, label]`."""
    of_outputs: Mapping[str, FloatArray]
    """`[draw]` each."""
    excess: FloatArray
    """`[draw, t2i_model]`."""
    parts: FloatArray
    """Filtering minus classification, `[draw, detector]`."""
    kappas: FloatArray
    """`[draw]`."""

    @classmethod
    def of(
        cls,
        drawn: Iterable[CountArray],
        *,
        detectors: tuple[str, ...],
        t2i_models: tuple[str, ...],
        scopes: Scopes,
        kappas: FloatArray | None = None,
        with_causes: bool = True,
    ) -> CountedNumbers:
        """Compute all numbers.

        Args:
            drawn: counts `[draw, 1 + detector, t2i_model, prompt, truth, verdict]`, the humans first, in pieces;
                the first draw of all is the study itself.
            detectors: their names.
            t2i_models: their names.
            scopes: the prompts' categories.
            kappas: `[draw]`; None: there are no two annotators.
            with_causes: whether errors are split, for the detectors in `SPLIT`.
        """
        split = [place for place, name in enumerate(detectors) if with_causes and name in SPLIT]
        pieces = [_numbers_of(each, scopes, split) for each in drawn]
        whole = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        draws = len(whole["scores"])
        return cls(
            detectors,
            t2i_models,
            scopes.categories,
            whole["scores"],
            whole["differences"],
            {name: whole[f"rate {name}"] for name in (*RATES, "gap")},
            whole["shares"],
            {name: whole[f"output {name}"] for name in OUTPUTS},
            whole["excess"],
            whole["parts"],
            np.full(draws, np.nan) if kappas is None else kappas,
        )

    def model_bias_score(self, judge: str, t2i_model: str, category: str = ALL) -> FloatArray:
        """See `ClaimNumbers`."""
        row = 0 if judge == GROUND_TRUTH else 1 + self.detectors.index(judge)
        column = 0 if category == ALL else 1 + self.categories.index(category)
        found: FloatArray = self.scores[:, row, self._model(t2i_model), column]
        return found

    def deviation(self, detector: str, t2i_model: str) -> FloatArray:
        """See `ClaimNumbers`."""
        actual = self.model_bias_score(GROUND_TRUTH, t2i_model)
        return divide(self.model_bias_score(detector, t2i_model) - actual, actual)

    def prompt_difference(self, detector: str, t2i_model: str) -> FloatArray:
        """See `ClaimNumbers`."""
        found: FloatArray = self.differences[:, self.detectors.index(detector), self._model(t2i_model)]
        return found

    def rate(self, name: str, detector: str) -> FloatArray:
        """See `ClaimNumbers`."""
        found: FloatArray = self.rates[name][:, self.detectors.index(detector)]
        return found

    def share(self, label: str, t2i_model: str) -> FloatArray:
        """See `ClaimNumbers`."""
        found: FloatArray = self.shares[:, self._model(t2i_model), _LABELS[label]]
        return found

    def outputs(self, what: str) -> FloatArray:
        """See `ClaimNumbers`."""
        return self.of_outputs[what]

    def beyond_fair(self, t2i_model: str) -> FloatArray:
        """See `ClaimNumbers`."""
        found: FloatArray = self.excess[:, self._model(t2i_model) - 1]
        return found

    def filtering_minus_classification(self, detector: str) -> FloatArray:
        """See `ClaimNumbers`."""
        found: FloatArray = self.parts[:, self.detectors.index(detector)]
        return found

    def kappa(self) -> FloatArray:
        """See `ClaimNumbers`."""
        return self.kappas

    def _model(self, name: str) -> int:
        return 0 if name == ALL else 1 + self.t2i_models.index(name)


@dataclass(frozen=True, eq=False)
class PrintedNumbers:
    """What the paper prints; NaN where it prints nothing. One draw."""

    tables: PublishedTables

    def model_bias_score(self, judge: str, t2i_model: str, category: str = ALL) -> FloatArray:
        """Tables 1 and 6."""
        if category != ALL:
            table, row = self.tables.table6, t2i_model
            return _one(number(table, row, category) if judge == GROUND_TRUTH and row in table.index else np.nan)
        return _cell(self.tables.table1_scores, judge, t2i_model)

    def deviation(self, detector: str, t2i_model: str) -> FloatArray:
        """Table 1."""
        return _cell(self.tables.table1_deviations, detector, t2i_model)

    def prompt_difference(self, detector: str, t2i_model: str) -> FloatArray:
        """Table 2."""
        return _cell(self.tables.table2, detector, t2i_model)

    def rate(self, name: str, detector: str) -> FloatArray:
        """Table 3."""
        table = self.tables.table3
        if detector not in table.index:
            return _one(np.nan)
        if name == "gap":
            return _one(number(table, detector, "accuracy_male") - number(table, detector, "accuracy_female"))
        return _one(number(table, detector, name))

    def share(self, label: str, t2i_model: str) -> FloatArray:
        """Table 5."""
        row = "total" if t2i_model == ALL else t2i_model
        return _one(number(self.tables.table5, row, label) if row in self.tables.table5.index else np.nan)

    def outputs(self, what: str) -> FloatArray:
        """Table 7, counted."""
        printed = self.tables.table7.drop(columns=["category", "word", "average"], errors="ignore")
        return _output_shares(printed.to_numpy(dtype=np.float64).T[np.newaxis])[what]

    def beyond_fair(self, t2i_model: str) -> FloatArray:  # noqa: ARG002
        """The paper does not ask what a fair T2I model would show."""
        return _one(np.nan)

    def filtering_minus_classification(self, detector: str) -> FloatArray:  # noqa: ARG002
        """The paper does not split the error."""
        return _one(np.nan)

    def kappa(self) -> FloatArray:
        """Section 3.3."""
        return _one(PAPER_KAPPA)


PAPER_KAPPA = 0.86


def _cell(table: pd.DataFrame, row: str, column: str) -> FloatArray:
    return _one(number(table, row, column) if row in table.index and column in table.columns else np.nan)


def _one(value: float) -> FloatArray:
    return np.array([value], dtype=np.float64)


def _numbers_of(counts: CountArray, scopes: Scopes, split: Sequence[int]) -> dict[str, FloatArray]:
    """All numbers of some draws, by name; see the fields of `CountedNumbers`."""
    human, detectors = counts[:, 0], counts[:, 1:]
    pooled = pool(detectors)
    per_class = accuracy_per_class(pooled).value
    rates = {
        "precision": precision(pooled).value,
        "recall": recall(pooled).value,
        "f1": f1(pooled).value,
        "filter_rate": filter_rate(pooled).value,
        "accuracy": accuracy(pooled).value,
        "accuracy_male": per_class[..., 0],
        "accuracy_female": per_class[..., 1],
        "gap": accuracy_gap(pooled).value,
    }
    labels = scopes.sums(human.sum(axis=-1), prompt_axis=-2)[:, :, 0]
    scores = model_bias_score(counts, scopes=scopes).value
    fair = model_bias_score_if_fair(human_as_detector(human.sum(axis=-1)), scopes=scopes).value[:, 1:, 0]
    parts = np.full(detectors.shape[:2], np.nan)
    for place in split:
        replaced = replaced_scores(detectors[:, place], n_clear="human", scopes=scopes)
        errors = ErrorParts.of_errors(replaced.prompt_bias_score_difference[..., 0, 0])
        parts[:, place] = errors.filtering - errors.classification
    return {
        "scores": scores,
        "differences": prompt_bias_score_difference(detectors, n_clear="human", scopes=scopes).value[..., 0],
        **{f"rate {name}": value for name, value in rates.items()},
        "shares": divide(labels, labels.sum(axis=-1, keepdims=True)),
        **{f"output {name}": each for name, each in _output_shares(prompt_bias_score_actual(human).value).items()},
        "excess": scores[:, 0, 1:, 0] - fair,
        "parts": parts,
    }


def _output_shares(scores: FloatArray) -> dict[str, FloatArray]:
    """Shares of prompt bias scores `[draw, t2i_model, prompt]`, as `OUTPUTS`; prompts without a score apart."""
    known = ~np.isnan(scores)
    scored = known.sum(axis=(-2, -1))

    def share(which: NDArray[np.bool_]) -> FloatArray:
        return divide((which & known).sum(axis=(-2, -1)), scored)

    both = (scores > 0).any(axis=-2) & (scores < 0).any(axis=-2)
    mixed = divide(both.sum(axis=-1), known.any(axis=-2).sum(axis=-1))
    return {
        "only men": share(scores >= 1),
        "more men": share(scores > 0),
        "balanced": share(scores == 0),
        "beyond 0.2": share(np.abs(scores) > _STRONG + 1e-9),
        "mixed": mixed if scores.shape[-2] > 1 else np.full(len(scores), np.nan),
    }
