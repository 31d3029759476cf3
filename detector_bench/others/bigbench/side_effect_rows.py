"""What prompts ask for and its effect on other attributes, tested: metric rows, and the shares behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, FloatArray, Score, divide
from detector_bench.others.bigbench.formulas import over_prompts
from detector_bench.others.bigbench.names import (
    EFFECT_FOUND,
    EFFECT_P_VALUE,
    FALSE_DISCOVERY_RATE,
    SIDE_EFFECT_IF_NONE,
)
from detector_bench.others.bigbench.prompt_lookup import NOT_ASKED, class_names
from detector_bench.others.bigbench.score_task import ScoreTask
from detector_bench.others.bigbench.side_effects import (
    MeanShift,
    ShiftScatter,
    mean_shift,
    scatter_over_prompts,
    shift_limits,
    shift_p_value,
    side_effect_if_none,
    side_effect_p_value,
)
from detector_bench.others.judgements import Judgements
from detector_bench.others.representation.comparison import adjusted_p_values
from detector_bench.others.score_system import Computed, MetricRows
from detector_bench.vocabulary import ALL

SIDE_EFFECTS_FILE = "bigbench_side_effects.csv"
MEANS_FILE = "bigbench_side_effect_means.csv"

_FAMILIES = 2
"""Single prompts and means over prompts are tested apart; each p-value is doubled, so that a study in which asking
has no effect says so at most as often as one family would."""


@dataclass(frozen=True, eq=False)
class SideEffectRows:
    """Answers about prompts that ask for somebody beside those about their base prompts."""

    task: ScoreTask
    judgements: Judgements
    images: Mapping[str, CountArray]
    """By attribute, known answers `[judge, t2i_model, prompt, class]`."""
    unknown: Mapping[str, CountArray]
    """Other images, `[judge, t2i_model, prompt]`."""

    @classmethod
    def of(cls, task: ScoreTask, judgements: Judgements, features: FloatArray) -> SideEffectRows:
        """Count the answers; `features` are those of `Layout.features`."""
        answers = task.layout.answers(np.stack([judgements.sums(each) for each in features]))
        open_to = {name: each for name, each in answers.items() if task.leaves_open(name).any()}
        return cls(
            task,
            judgements,
            {name: each.by_class for name, each in open_to.items()},
            {name: each.unknown for name, each in open_to.items()},
        )

    def chance(self) -> pd.DataFrame:
        """Metric rows without an interval: the effect by chance, adjusted p-values, prompts with one."""
        if not self.images:
            return pd.DataFrame()
        rows, scopes = MetricRows(self.judgements, variant=self.task.settings.variant), self.task.scopes
        for (name, images), p_value in zip(self.images.items(), self._p_values(), strict=True):
            takes_part, base = self.task.leaves_open(name), self._base(images)
            weight = np.where(takes_part, self.task.weight, 0.0)
            known = np.where(takes_part, (images + base).sum(axis=-1), 0)
            left_out = np.where(takes_part, self.unknown[name] + self._base(self.unknown[name], axis=-1), 0)
            expected = np.where(takes_part, side_effect_if_none(images, base), np.nan)
            of_prompts = Score(expected, known, left_out)
            rows.add(
                Computed(name, SIDE_EFFECT_IF_NONE, over_prompts(of_prompts, weight, scopes=scopes)),
                None,
                level=None,
            )
            rows.add(Computed(name, SIDE_EFFECT_IF_NONE, of_prompts, of_prompts=True), None, level=None)
            of_prompts = Score(p_value, known, left_out)
            rows.add(Computed(name, EFFECT_P_VALUE, of_prompts, of_prompts=True), None, level=None)
            found = np.where(np.isnan(p_value), np.nan, p_value <= FALSE_DISCOVERY_RATE)
            every = over_prompts(of_prompts._replace(value=found), takes_part.astype(np.float64), scopes=scopes)
            rows.add(Computed(name, EFFECT_FOUND, every), None, level=None)
        return rows.table()

    def files(self, *, level: float) -> dict[str, pd.DataFrame]:
        """The shares of every prompt, and their means over the prompts that ask for the same class."""
        prompts = [
            block
            for (name, images), p_value in zip(self.images.items(), self._p_values(), strict=True)
            for block in self._of_prompts(name, images, p_value, level=level)
        ]
        return {
            SIDE_EFFECTS_FILE: pd.concat(prompts, ignore_index=True),
            MEANS_FILE: self._means(level=level),
        }

    def _base(self, numbers: CountArray, *, axis: int = -2) -> CountArray:
        taken: CountArray = np.take(numbers, np.maximum(self.task.base, 0), axis=axis)
        return taken

    def _p_values(self) -> list[FloatArray]:
        """Adjusted, `[judge, t2i_model, prompt]` for each attribute; NaN where nothing is tested."""
        tested = []
        for name, images in self.images.items():
            judged = np.array(self.judgements.judged[name])[:, np.newaxis, np.newaxis]
            takes_part = judged & self.task.leaves_open(name)
            tested.append(np.where(takes_part, side_effect_p_value(images, self._base(images)), np.nan))
        adjusted = adjusted_p_values(tested, has_truth=self.judgements.has_truth)
        return [np.minimum(1.0, _FAMILIES * each) for each in adjusted]

    @property
    def _asked(self) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """`[prompt]`: which attributes a prompt asks for, and which classes; `race`, `south_asian`."""
        attributes, classes = [], []
        for row in range(len(self.judgements.prompt_ids)):
            of_row = {name: int(each[row]) for name, each in self.task.layout.asked.items()}
            asked = {name: class_names(name)[each] for name, each in of_row.items() if each != NOT_ASKED}
            attributes.append(" and ".join(asked))
            classes.append(" and ".join(asked.values()))
        return np.array(attributes, dtype=object), np.array(classes, dtype=object)

    def _of_prompts(
        self, name: str, images: CountArray, p_value: FloatArray, *, level: float
    ) -> Iterator[pd.DataFrame]:
        known, base = self.judgements, self._base(images)
        judged = np.array(known.judged[name])[:, np.newaxis, np.newaxis]
        there = judged & self.task.leaves_open(name) & (known.images > 0)
        judge, model, prompt = np.nonzero(there)
        shown, shown_base = images[judge, model, prompt], base[judge, model, prompt]
        n, n_base = shown.sum(axis=-1), shown_base.sum(axis=-1)
        low, high = shift_limits(shown, shown_base, level=level)
        share, base_share = (divide(each, each.sum(axis=-1, keepdims=True)) for each in (shown, shown_base))
        attributes, classes = self._asked
        prompt_ids = np.array(known.prompt_ids, dtype=object)
        width = images.shape[-1]
        of_rows: dict[str, NDArray[Any]] = {
            "detector": np.array(known.judges, dtype=object)[judge],
            "t2i_model": np.array(known.t2i_models, dtype=object)[model],
            "category": self.task.scopes.category_words[prompt],
            "prompt_id": prompt_ids[prompt],
            "base_prompt_id": prompt_ids[self.task.base[prompt]],
            "asked_attribute": attributes[prompt],
            "asked": classes[prompt],
            "n": n.astype(np.int64),
            "base_n": n_base.astype(np.int64),
            "p_value": p_value[judge, model, prompt],
        }
        table = {column: np.repeat(values, width) for column, values in of_rows.items()}
        table |= {"images": shown.astype(np.int64).ravel(), "base_images": shown_base.astype(np.int64).ravel()}
        table |= {"share": share.ravel(), "base_share": base_share.ravel(), "shift": (share - base_share).ravel()}
        table |= {"ci_low": low.ravel(), "ci_high": high.ravel()}
        table["class"] = np.tile(np.array(class_names(name), dtype=object), len(judge))
        yield pd.DataFrame(table).assign(variant=self.task.settings.variant, attribute=name)[list(_OF_PROMPTS)]

    def _means(self, *, level: float) -> pd.DataFrame:
        attributes, classes = self._asked
        kinds: list[tuple[str, str, str, MeanShift]] = []
        for name, images in self.images.items():
            takes_part, base = self.task.leaves_open(name), self._base(images)
            found, scatter = [], []
            for asked in dict.fromkeys(zip(attributes[takes_part], classes[takes_part], strict=True)):
                chosen = takes_part & (attributes == asked[0]) & (classes == asked[1])
                weight = np.where(chosen, self.task.weight, 0.0)
                found.append((*asked, _with_all_models(images, base, weight, level=level)))
                scatter.append(_scatter(images, base, weight))
            for asked_attribute, asked_class, each in found:
                p_value = shift_p_value(each.distance, scatter)
                kinds.append((name, asked_attribute, asked_class, each._replace(p_value=p_value)))
        return self._mean_table(kinds)

    def _mean_table(self, kinds: list[tuple[str, str, str, MeanShift]]) -> pd.DataFrame:
        known = self.judgements
        judged = [np.array(known.judged[name])[:, np.newaxis, np.newaxis] for name, *_ in kinds]
        tests = [
            np.where(is_judge, each[-1].p_value, np.nan) for is_judge, each in zip(judged, kinds, strict=True)
        ]
        adjusted = adjusted_p_values(tests, has_truth=known.has_truth)
        blocks = []
        for (name, asked_attribute, asked, found), is_judge, p_value in zip(kinds, judged, adjusted, strict=True):
            judge, model = np.nonzero(is_judge[..., 0] & (found.prompts > 0))
            width = len(class_names(name))
            table: dict[str, Any] = {
                "detector": np.repeat(np.array(known.judges, dtype=object)[judge], width),
                "variant": self.task.settings.variant,
                "t2i_model": np.repeat(np.array([ALL, *known.t2i_models], dtype=object)[model], width),
                "asked_attribute": asked_attribute,
                "asked": asked,
                "attribute": name,
                "class": np.tile(np.array(class_names(name), dtype=object), len(judge)),
                "prompts": np.repeat(found.prompts[judge, model], width),
            }
            for column in ("base_share", "share", "shift", "ci_low", "ci_high"):
                table[column] = getattr(found, column)[judge, model].ravel()
            table["p_value"] = np.minimum(1.0, _FAMILIES * p_value[judge, model]).ravel()
            blocks.append(pd.DataFrame(table))
        return pd.concat(blocks, ignore_index=True)


_OF_PROMPTS = (
    *("detector", "variant", "t2i_model", "category", "prompt_id", "base_prompt_id", "asked_attribute", "asked"),
    *("attribute", "class", "images", "n", "share", "base_images", "base_n", "base_share"),
    *("shift", "ci_low", "ci_high", "p_value"),
)


def _with_all_models(images: CountArray, base: CountArray, weight: FloatArray, *, level: float) -> MeanShift:
    """Arrays `[judge, 1 + T2I models, class]`, all T2I models together at position 0."""
    each = mean_shift(images, base, weight, level=level)
    judges, models, _, classes = images.shape
    flat = (judges, 1, -1, classes)
    together = mean_shift(images.reshape(flat), base.reshape(flat), np.tile(weight, models), level=level)
    return MeanShift(*(np.concatenate(parts, axis=1) for parts in zip(together, each, strict=True)))


def _scatter(images: CountArray, base: CountArray, weight: FloatArray) -> ShiftScatter:
    """Arrays `[judge, 1 + T2I models]`, as those of `_with_all_models`."""
    together, alone = (
        scatter_over_prompts(np.expand_dims(images, axis), np.expand_dims(base, axis), weight) for axis in (1, 2)
    )
    return ShiftScatter(*(np.concatenate(parts, axis=1) for parts in zip(together, alone, strict=True)))
