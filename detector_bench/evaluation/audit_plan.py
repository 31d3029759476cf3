"""How many images and labels take the interval of a T2I model's score to a half-width that somebody wants.

`evaluation.more_labels` answers another question: which images would settle whether a detector can be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.estimation import About
from detector_bench.estimation.planning import FEWEST_LABELS, HalfWidths
from detector_bench.evaluation.labels_of_sample import LabelsOfSample
from detector_bench.metrics import LABEL_SHARE
from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.estimands import concentration_if_fair
from detector_bench.vocabulary import ALL, Attribute
from detector_bench.vocabulary.columns import LABELS_ONLY, PREDICTION_POWERED

SCORES = ("model_bias_score", "mean_prompt_bias_score", "prompt_bias_score")
"""What can be planned for, beside `label_share_<label>`; the last two of attributes with two classes."""

AUDIT_PLAN_COLUMNS = (
    *("attribute", "t2i_model", "score", "variant", "images", "images_per_prompt", "labels", "half_width"),
    *("target_half_width", "labels_needed", "more_labels", "least_half_width", "minutes", "if_fair"),
)
"""One row per T2I model, estimator and number of images. `labels`, `half_width`: what is there now;
`labels_needed`: in all, NaN where no number suffices; `least_half_width`: with a label on every image; `minutes`:
    to give the further
labels; `if_fair`: the model bias score that so many images of a fair T2I model show on average."""

LABEL_CURVE_COLUMNS = ("attribute", "t2i_model", "score", "variant", "labels", "half_width", "is_now")
"""One row per T2I model, estimator and number of labels; `is_now`: estimated from the labels at hand, and not
foretold."""

PROMPTS_TO_LABEL_COLUMNS = (
    *("attribute", "t2i_model", "prompt_id", "images", "labels", "half_width", "labels_needed", "more_labels"),
)
"""One row per prompt of a T2I model. For `prompt_bias_score` what each prompt needs by itself (NaN: no number of
labels suffices); else the prompt's part of the labels that the T2I model's score needs."""

DETECTORS_WORTH_COLUMNS = ("attribute", "t2i_model", "detectors", "explained", "labels_needed")
"""One row per T2I model and set of detectors: all, without one, the best one and the best two. `explained`: part
of the labels' variance within prompts that they explain; `labels_needed` in proportion to what they leave."""

_TWO = 2
"""Of two detectors the best two are all."""
_MORE_IMAGES = (2.0, 5.0, 20.0)
"""Times those at hand."""
_POINTS = 12
_STRANGE = 1e-9


HALF_WIDTH = 0.05
"""Of an interval, unless another one is asked for; `--help` says it, too (`cli/options.py`)."""


class PlanSettings(BaseModel):
    """What an audit is planned for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    score: str = "model_bias_score"
    half_width: float = Field(default=HALF_WIDTH, gt=0, le=1, allow_inf_nan=False)
    """Half the length of the interval that is wanted."""
    about: About = "images"
    level: float = Field(default=0.95, gt=0, lt=1)
    seed: int = Field(default=0, ge=0)
    seconds_per_label: float = Field(default=4.0, gt=0, allow_inf_nan=False)

    def position(self, attribute: Attribute) -> str:
        """The score as `estimation.planning` names it.

        Raises:
            ConfigError: the attribute has no such score.
        """
        shares = {f"{LABEL_SHARE}{label}": f"{LABEL_SHARE}{at}" for at, label in enumerate(attribute.labels)}
        signed = len(attribute.classes) == SIGNED_CLASSES
        known = {name: name for name in (SCORES if signed else SCORES[:1])} | shares
        if self.score not in known:
            raise ConfigError(f"--score: {self.score!r} of {attribute.name}: {nearest_hint(self.score, known)}")
        return known[self.score]


@dataclass(frozen=True)
class AuditPlan:
    """What was planned."""

    rows: pd.DataFrame
    """Columns as in `AUDIT_PLAN_COLUMNS`."""
    curves: pd.DataFrame
    """Columns as in `LABEL_CURVE_COLUMNS`."""
    prompts: pd.DataFrame
    """Columns as in `PROMPTS_TO_LABEL_COLUMNS`."""
    detectors: pd.DataFrame
    """Columns as in `DETECTORS_WORTH_COLUMNS`."""
    images_needed: dict[str, float | None]
    """By T2I model of which no number of labels suffices: how many images per prompt do, all of them labelled;
    None: more than 1,000 times those at hand."""
    is_guess: bool
    """Whether no label says how much labels vary."""
    explained: float
    """The part of the labels' variance within prompts that all detectors explain, as estimated or assumed."""


def explained_by(labels: LabelsOfSample, detectors: Sequence[str]) -> float:
    """The part of the labels' variance within prompts that these detectors explain in another study.

    Raises:
        ConfigError: it has none of them, or too few labels to tell.
    """
    places = [place for place, name in enumerate(labels.detectors) if name in detectors]
    if not places:
        raise ConfigError(
            f"the other study has none of these detectors (it has: {', '.join(labels.detectors) or 'none'})"
        )
    images = replace(labels.images, verdicts=labels.images.verdicts[places])
    if not says_enough(labels):
        raise ConfigError(
            f"the other study has too few labels of {labels.attribute.name} to tell what detectors explain"
        )
    return 1 - HalfWidths.of(images).unexplained


def says_enough(labels: LabelsOfSample) -> bool:
    """Whether the labels at hand say how much labels vary within prompts."""
    if not labels.any_label:
        return False
    try:
        HalfWidths.of(labels.images, use_detectors=False)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class AuditPlanner:
    """Plans for the T2I models of one image set.

    Attributes:
        labels: what is known of one attribute.
        settings: what is wanted.
        explained: the part of the labels' variance that the detectors are assumed to explain where no label says
            so.
    """

    labels: LabelsOfSample
    settings: PlanSettings
    explained: float = 0.0

    @cached_property
    def is_guess(self) -> bool:
        """Whether no label says how much labels vary."""
        return not says_enough(self.labels)

    @cached_property
    def by_variant(self) -> dict[str, HalfWidths]:
        """Forecasts by estimator."""
        images = self.labels.images
        of_labels = partial(
            HalfWidths.of,
            images,
            about=self.settings.about,
            confidence=self.settings.level,
            seed=self.settings.seed,
        )
        if not self.is_guess:
            return {PREDICTION_POWERED: of_labels(), LABELS_ONLY: of_labels(use_detectors=False)}
        guess = partial(
            HalfWidths.guessed,
            images,
            about=self.settings.about,
            confidence=self.settings.level,
            seed=self.settings.seed,
        )
        return {PREDICTION_POWERED: guess(explained=self.explained), LABELS_ONLY: guess()}

    def plan(self, t2i_models: Sequence[str]) -> AuditPlan:
        """Plan for some of the T2I models, each by itself.

        Raises:
            ConfigError: no detector, an unknown T2I model, an unknown score.
        """
        if not self.labels.detectors:
            raise ConfigError(f"no detector judges {self.labels.attribute.name}: there is nothing to plan with")
        score = self.settings.position(self.labels.attribute)
        known = list(self.labels.index.t2i_models)
        for name in t2i_models:
            if name not in known:
                raise ConfigError(f"--t2i-model: {name!r}: {nearest_hint(name, known)}")
        rows, prompts, detectors = [], [], []
        needed: dict[str, float | None] = {}
        for name in t2i_models:
            model = known.index(name) + 1
            of_model = self._rows(name, model, score)
            rows += of_model
            first = of_model[0]["labels_needed"]
            prompts += self._prompts(name, model, first)
            detectors += self._detectors(name, model, first)
            if math.isnan(first):
                times = self.by_variant[PREDICTION_POWERED].images_needed(score, self.settings.half_width, model)
                size = self.labels.images.images_of_cell.reshape(len(known), -1)[model - 1]
                needed[name] = None if times is None else times * float(size[size > 0].mean())
        return AuditPlan(
            rows=pd.DataFrame(rows, columns=list(AUDIT_PLAN_COLUMNS)),
            curves=self.curves(t2i_models),
            prompts=pd.DataFrame(prompts, columns=list(PROMPTS_TO_LABEL_COLUMNS)),
            detectors=pd.DataFrame(detectors, columns=list(DETECTORS_WORTH_COLUMNS)),
            images_needed=needed,
            is_guess=self.is_guess,
            explained=1 - self.by_variant[PREDICTION_POWERED].unexplained,
        )

    def curves(self, t2i_models: Sequence[str]) -> pd.DataFrame:
        """Half-widths at every number of labels, columns as in `LABEL_CURVE_COLUMNS`."""
        score, known = self.settings.position(self.labels.attribute), list(self.labels.index.t2i_models)
        rows = [row for name in t2i_models for row in self._curve(name, known.index(name) + 1, score)]
        return pd.DataFrame(rows, columns=list(LABEL_CURVE_COLUMNS))

    def _about(self, name: str) -> dict[str, Any]:
        return {"attribute": self.labels.attribute.name, "t2i_model": name}

    def _rows(self, name: str, model: int, score: str) -> list[dict[str, Any]]:
        found = []
        size = self.labels.images.images_of_cell.reshape(self.labels.images.t2i_models, -1)[model - 1]
        # Of the images at hand more images would only be more to know about.
        more_images = _MORE_IMAGES if self.settings.about == "t2i_model" else ()
        for variant, times in (
            (PREDICTION_POWERED, 1.0),
            *((PREDICTION_POWERED, times) for times in more_images),
            (LABELS_ONLY, 1.0),
        ):
            forecast = self.by_variant[variant]
            needed = forecast.labels_needed(score, self.settings.half_width, model, times=times)
            now, most = forecast.labels_now(model), forecast.images_of(model, times=times)
            labels = math.nan if needed.labels is None else float(needed.labels)
            further = max(labels - now, 0.0) if not math.isnan(labels) else math.nan
            found.append(
                {
                    **self._about(name),
                    "score": self.settings.score,
                    "variant": variant,
                    "images": most,
                    "images_per_prompt": times * float(size[size > 0].mean()),
                    "labels": now,
                    "half_width": forecast.now(score, model) if now else math.nan,
                    "target_half_width": self.settings.half_width,
                    "labels_needed": labels,
                    "more_labels": further,
                    "least_half_width": forecast.at(score, most, model, times=times),
                    "minutes": further * self.settings.seconds_per_label / 60,
                    "if_fair": self._if_fair(model, times),
                }
            )
        return found

    def _if_fair(self, model: int, times: float) -> float:
        """The model bias score of a fair T2I model with as many clear images, on average."""
        images, classes = self.labels.images, self.labels.images.classes
        kept = (images.verdicts < classes).mean(axis=0)
        clear = np.bincount(images.cell, kept, minlength=images.cells).reshape(images.t2i_models, -1)[model - 1]
        seen = clear * times >= 1
        return (
            float(concentration_if_fair(clear[seen] * times, classes=classes).mean()) if seen.any() else math.nan
        )

    def _curve(self, name: str, model: int, score: str) -> list[dict[str, Any]]:
        found = []
        for variant, forecast in self.by_variant.items():
            most, now = forecast.images_of(model), forecast.labels_now(model)
            least = min(most, max(FEWEST_LABELS, now))
            # A label on every image is no forecast of anything if the images are all that is asked about.
            last = max(least, most if self.settings.about == "t2i_model" else round(0.95 * most))
            points = np.unique(np.rint(np.geomspace(least, last, _POINTS)).astype(int))
            widths = dict(zip(points.tolist(), forecast.curve(score, points.tolist(), model), strict=True))
            rows = [(labels, width, False) for labels, width in widths.items()]
            if now and not forecast.is_guess:
                rows = [(now, forecast.now(score, model), True), *(row for row in rows if row[0] > now)]
            found += [
                {
                    **self._about(name),
                    "score": self.settings.score,
                    "variant": variant,
                    "labels": labels,
                    "half_width": float(width),
                    "is_now": is_now,
                }
                for labels, width, is_now in rows
            ]
        return found

    def _prompts(self, name: str, model: int, labels: float) -> list[dict[str, Any]]:
        forecast, images = self.by_variant[PREDICTION_POWERED], self.labels.images
        shape = (images.t2i_models, images.prompts)
        widths = np.full(images.cells, np.nan)
        if images.classes == SIGNED_CLASSES:
            widths, of_prompts = forecast.labels_of_prompts(self.settings.half_width)
        if self.settings.score == "prompt_bias_score":
            needed = np.where(of_prompts < 0, np.nan, of_prompts)
        elif math.isnan(labels):
            needed = np.full(images.cells, np.nan)
        else:
            needed = np.ceil(forecast.spread(labels, model) - _STRANGE)
        have, size = images.labels_of_cell, images.images_of_cell
        found = []
        for prompt in np.flatnonzero(size.reshape(shape)[model - 1]):
            cell = (model - 1) * images.prompts + prompt
            found.append(
                {
                    **self._about(name),
                    "prompt_id": self.labels.index.prompt_ids[prompt],
                    "images": int(size[cell]),
                    "labels": int(have[cell]),
                    "half_width": float(widths[cell]),
                    "labels_needed": float(needed[cell]),
                    "more_labels": float(np.maximum(needed[cell] - have[cell], 0)),
                }
            )
        return found

    def _detectors(self, name: str, model: int, labels: float) -> list[dict[str, Any]]:
        if self.is_guess:
            return []
        names = self.labels.detectors
        sets: list[tuple[str, ...]] = [names]
        if len(names) > 1:
            sets += [tuple(other for other in names if other != one) for one in names]
            best = max(names, key=lambda one: self._explained((one,)))
            sets.append((best,))
            if len(names) > _TWO:
                pairs = [(best, other) for other in names if other != best]
                sets.append(max(pairs, key=self._explained))
        most = self.by_variant[PREDICTION_POWERED].images_of(model)
        left = 1 - self._explained(names)
        found = []
        for chosen in dict.fromkeys(sets):
            explained = self._explained(chosen)
            times = (1 - explained) / max(left, _STRANGE)
            # The variance is what is left unexplained, times 1/n - 1/N.
            n = 1 / ((1 / labels - 1 / most) / max(times, _STRANGE) + 1 / most)
            found.append(
                {
                    **self._about(name),
                    "detectors": ", ".join(sorted(chosen, key=names.index)),
                    "explained": explained,
                    "labels_needed": math.ceil(n - _STRANGE) if not math.isnan(n) else math.nan,
                }
            )
        return found

    @cached_property
    def _known(self) -> dict[tuple[str, ...], float]:
        return {}

    def _explained(self, detectors: tuple[str, ...]) -> float:
        """The part of the labels' variance that some detectors explain."""
        key = tuple(sorted(detectors))
        if key not in self._known:
            places = [self.labels.detectors.index(name) for name in key]
            images = replace(self.labels.images, verdicts=self.labels.images.verdicts[places])
            self._known[key] = 1 - HalfWidths.of(images).unexplained
        return self._known[key]


def all_t2i_models(labels: LabelsOfSample) -> list[str]:
    """The T2I models that made an image."""
    images = labels.images.images_of_cell.reshape(labels.images.t2i_models, -1).sum(axis=1)
    return [name for name, number in zip(labels.index.t2i_models, images, strict=True) if number and name != ALL]
