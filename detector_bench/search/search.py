"""From verdicts to findings: choose, judge elsewhere, compare; no detector runs here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.evaluation.threshold_chooser import prompt_folds
from detector_bench.metrics import FloatArray, NClear
from detector_bench.search.choosing import FEWEST_PROMPTS, Chooser, Chosen, competing, scatter, strata_of
from detector_bench.search.compositions import Composition, Compositions
from detector_bench.search.ensembles import Ensembles, LearntEnsemble
from detector_bench.search.findings import BEST_SINGLE, SEARCH_COLUMNS, SearchFindings
from detector_bench.search.prompt_sums import PromptSums, shown_error
from detector_bench.search.ranks import MOST_RANKED, open_ranks
from detector_bench.search.settings import SearchSettings
from detector_bench.search.verdicts import LabelledVerdicts

_COUNTED_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class CompositionSearch:
    """Chooses among compositions whose verdicts are known.

    Args:
        settings: by which error, and how.
        compositions: what competes.
        verdicts: of `compositions.judged`, in that order.
        n_clear: denominator of detectors' prompt bias scores.
        compare_with: names of compositions that the search is compared with, besides the best single detector.

    Raises:
        ConfigError: too few prompts with labels, or ensembles of a single classifier.
    """

    settings: SearchSettings
    compositions: Compositions
    verdicts: LabelledVerdicts
    n_clear: NClear = "detector"
    compare_with: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is something to choose on and something to judge on."""
        check_can_be_judged(self.settings, self.compositions, clear_prompts=self.verdicts.clear_prompts)

    @cached_property
    def sums(self) -> PromptSums:
        """Of all compositions, in their order."""
        listed = self.compositions.listed
        blocks = []
        for start in range(0, len(listed), _COUNTED_AT_ONCE):
            said = np.stack([self._said(each) for each in listed[start : start + _COUNTED_AT_ONCE]])
            counts = self.verdicts.counts(said)
            blocks.append(PromptSums.of_counts(counts, self.settings.weights, n_clear=self.n_clear))
        return PromptSums.joined(blocks)

    @cached_property
    def chooser(self) -> Chooser:
        """Chooses among them."""
        settings = self.settings
        return Chooser(
            self.sums,
            self.verdicts.category_of_prompt,
            least_kept=settings.least_kept,
            parts=settings.parts,
            repeats=settings.repeats,
            seed=settings.seed,
            level=settings.level,
        )

    @cached_property
    def ensembles(self) -> Ensembles | None:
        """Learns the ensembles that compete; None: there are none."""
        if not self.settings.ensembles:
            return None
        listed, judged = self.compositions.listed, self.compositions.judged
        _, classifier = np.unique([judged[each.judged].classifier for each in listed], return_inverse=True)
        return Ensembles(
            asked=self.settings.ensembles,
            verdicts=self.verdicts,
            detector=np.array([each.judged for each in listed]),
            threshold=np.array([np.nan if each.threshold is None else each.threshold for each in listed]),
            classifier=classifier,
            weights=self.settings.weights,
            n_clear=self.n_clear,
        )

    @property
    def names(self) -> list[str]:
        """Of all that competes, ensembles last."""
        return [
            *(each.name for each in self.compositions.listed),
            *(each.name for each in self.settings.ensembles),
        ]

    def learnt_on_all_prompts(self, name: str) -> LearntEnsemble | None:
        """An ensemble as it is handed over; None: no ensemble is called so."""
        asked = next((each for each in self.settings.ensembles if each.name == name), None)
        if asked is None or self.ensembles is None:
            return None
        return self.ensembles.on_all_images(asked, self._losses[:, 0])

    @cached_property
    def _losses(self) -> FloatArray:
        return self.chooser.losses(self.sums, np.ones((1, self.verdicts.prompts)))

    def findings(self, *, not_built: Sequence[tuple[str, str]] = (), notes: Sequence[str] = ()) -> SearchFindings:
        """Choose, judge elsewhere, compare.

        Args:
            not_built: names of what could not be built or run, with reasons.
            notes: what else has to be said of the verdicts, a sentence each.

        Raises:
            ConfigError: no composition has an error on all prompts, or none on prompts that did not choose it.
        """
        chooser, singles = self.chooser, np.array(self.compositions.singles(), dtype=np.intp)
        if (self.verdicts.verdicts > self.verdicts.classes).all():
            raise ConfigError(
                "search: all detectors failed on all labelled images; the predictions say why (column `reason`)"
            )
        dealt = chooser.dealt()
        best = chooser.on_all_prompts(learns=self.ensembles)
        if best.choice < 0 or np.isnan(best.value):
            raise ConfigError(
                f"search: no composition keeps {self.settings.least_kept:.0%} of the images that humans call "
                "clear (least_kept), or none has an error at all"
            )
        chosen = chooser.chosen(dealt, learns=self.ensembles)
        expected = chooser.estimate(chosen.judged)
        if np.isnan(expected.value):
            raise ConfigError(
                "search: what was chosen has no error on prompts that did not choose it: too few of them have "
                "images that humans give a class and detectors keep"
            )
        single = chooser.on_all_prompts(among=singles)
        others = [(BEST_SINGLE, chooser.chosen(dealt, among=singles).judged, chooser.factor)]
        for name in self.compare_with:
            always = chooser.always(self.compositions.named(name), len(dealt))
            others.append((name, always, 1.0))
        return SearchFindings(
            attribute=self.compositions.attribute,
            settings=self.settings,
            rows=self._rows(chosen, dealt),
            winner=self.names[best.choice],
            winner_where_chosen=best.value,
            expected=expected,
            single=self.names[single.choice],
            single_where_chosen=single.value,
            contests=tuple(chooser.contests(chosen.judged, others)),
            chosen=chosen,
            **self._halves(),
            prompts=self.verdicts.prompts,
            images=len(self.verdicts.truth),
            t2i_models=len(self.verdicts.t2i_models),
            not_built=tuple(not_built),
            notes=tuple(notes),
            is_squared=self.sums.is_squared,
        )

    def _said(self, composition: Composition) -> NDArray[np.int8]:
        return self.verdicts.at(composition.judged, composition.threshold)

    def _halves(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Errors on halves of the prompts, as the picture shows them: compositions alone, without ensembles."""
        chooser = self.chooser
        half = prompt_folds(
            self.verdicts.category_of_prompt,
            folds=2,
            repeats=self.settings.repeats,
            random=np.random.default_rng([self.settings.seed, 1]),
        ).astype(np.float64)
        there, elsewhere = [], []
        for each in half:
            losses = chooser.losses(self.sums, each[np.newaxis])[:, 0]
            best = slice(int(losses.argmin()), int(losses.argmin()) + 1)
            there.append(float(self.sums.of(best).errors(each[np.newaxis])[0, 0]))
            elsewhere.append(float(self.sums.of(best).errors(1 - each[np.newaxis])[0, 0]))
        competes = competing(self._losses[:, 0])
        one, other = (self.sums.errors(each[np.newaxis])[competes, 0] for each in (half[0], 1 - half[0]))
        shown = [
            shown_error(np.array(each), is_squared=self.sums.is_squared) for each in (one, other, there, elsewhere)
        ]
        return {"halves": (shown[0], shown[1]), "halves_chosen": (shown[2], shown[3])}

    def _rows(self, chosen: Chosen, dealt: NDArray[np.intp]) -> pd.DataFrame:
        sums, everyone = self.sums, np.ones((1, self.verdicts.prompts))
        errors = sums.errors(everyone)[:, 0]
        low, high = self.chooser.of_compositions()
        first, last = self._ranks(errors)
        squared = sums.is_squared
        rows = pd.DataFrame(
            {
                "composition": [each.name for each in self.compositions.listed],
                **self._parts(),
                "error": shown_error(errors, is_squared=squared),
                "ci_low": shown_error(low, is_squared=squared),
                "ci_high": shown_error(high, is_squared=squared),
                "rank_low": first,
                "rank_high": last,
                "kept_share": sums.kept_shares(everyone)[:, 0],
                "without_verdict": [
                    int((self._said(each) > self.verdicts.classes).sum()) for each in self.compositions.listed
                ],
                "competes": competing(self._losses[:, 0]),
            }
        )
        if self.ensembles is not None:
            learnt = self.ensembles.learnt(everyone[0], self._losses[:, 0])
            errors = np.concatenate([errors, learnt.errors(everyone)[:, 0]])
            failed = self.ensembles.without_verdict(everyone[0], self._losses[:, 0])
            rows = pd.concat([rows, self._ensemble_rows(learnt, failed)], ignore_index=True)
        rows = pd.concat([rows, self._when_chosen(chosen, dealt)], axis=1)
        # By the error itself: mean squares below 0 are all shown as 0.
        order = np.lexsort((np.nan_to_num(errors, nan=np.inf), ~rows["competes"].to_numpy(dtype=bool)))
        return rows.iloc[order].reset_index(drop=True)[list(SEARCH_COLUMNS)]

    def _parts(self) -> dict[str, list[object]]:
        judged = [self.compositions.judged[each.judged] for each in self.compositions.listed]
        return {
            "classifier": [each.classifier for each in judged],
            "filters": [each.filters for each in judged],
            "crop": [each.crop for each in judged],
            "prompts": [each.prompts for each in judged],
            "threshold": [
                np.nan if each.threshold is None else each.threshold for each in self.compositions.listed
            ],
            "kind": ["single" if each.single else "composition" for each in self.compositions.listed],
        }

    def _ensemble_rows(self, learnt: PromptSums, without_verdict: Sequence[int]) -> pd.DataFrame:
        everyone = np.ones((1, learnt.prompts))
        return pd.DataFrame(
            {
                "composition": [each.name for each in self.settings.ensembles],
                "kind": "ensemble",
                "error": shown_error(learnt.errors(everyone)[:, 0], is_squared=learnt.is_squared),
                "kept_share": learnt.kept_shares(everyone)[:, 0],
                "without_verdict": without_verdict,
                "competes": competing(self.chooser.losses(learnt, everyone)[:, 0]),
            }
        )

    def _ranks(self, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
        if len(errors) > MOST_RANKED:
            return (np.full(len(errors), np.nan),) * 2
        influences = self.sums.influences()
        strata = strata_of(self.verdicts.category_of_prompt)
        for stratum in np.unique(strata):
            own = influences[:, strata == stratum]
            influences[:, strata == stratum] = own - own.mean(axis=1, keepdims=True)
        _, freedom = scatter(influences, self.verdicts.category_of_prompt)
        found = open_ranks(errors, influences, freedom=freedom, level=self.settings.level, seed=self.settings.seed)
        first, last = (np.where(each > 0, each, np.nan) for each in found)
        return first, last

    def _when_chosen(self, chosen: Chosen, dealt: NDArray[np.intp]) -> pd.DataFrame:
        """How often each was chosen, and its errors on the prompts that chose it and on those that did not."""
        of_prompt = np.take_along_axis(chosen.choice, dealt, axis=1)
        share, there, elsewhere = np.zeros(len(self.names)), *np.full((2, len(self.names)), np.nan)
        for place in np.unique(chosen.choice[chosen.choice >= 0]):
            times = chosen.choice == place
            share[place], there[place] = times.mean(), chosen.where_chosen[times].mean()
            judged = (of_prompt == place).ravel().astype(np.float64)
            elsewhere[place] = chosen.judged.flattened().errors(judged[np.newaxis])[0, 0]
        shown = [shown_error(each, is_squared=self.sums.is_squared) for each in (there, elsewhere)]
        return pd.DataFrame(
            {"times_chosen": share, "error_where_chosen": shown[0], "error_on_other_prompts": shown[1]}
        )


def check_can_be_judged(settings: SearchSettings, compositions: Compositions, *, clear_prompts: int) -> None:
    """Check what a search needs; possible before any detector runs.

    Args:
        settings: of the search.
        compositions: that can run.
        clear_prompts: how many prompts have images that humans give a class.

    Raises:
        ConfigError: too few prompts with labels, ensembles of a single classifier, or nothing to compare with.
    """
    if clear_prompts < FEWEST_PROMPTS:
        few = "1 prompt has" if clear_prompts == 1 else f"{clear_prompts} prompts have"
        raise ConfigError(
            f"search: {few} images that humans give a class of {compositions.attribute!r}, where two to choose on "
            "and two to judge on are needed: what is chosen on a prompt cannot be judged there"
        )
    if settings.ensembles and len({each.classifier for each in compositions.judged}) < 2:
        raise ConfigError("search: ensembles need two classifiers or more, and there is one")
    if not compositions.singles():
        raise ConfigError(
            f"search: no detector of the study itself judges {compositions.attribute!r} here, so the "
            "search can be compared with nothing"
        )
