"""What a chosen threshold does on prompts that did not choose it: by loops over prompts, and where the truth is
known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from detector_bench.evaluation.out_of_sample import CHOICE_COLUMNS, REPEATS, threshold_choices
from detector_bench.evaluation.sweeps import Sweep, sweep_table
from detector_bench.evaluation.threshold_chooser import ThresholdChooser, drawn_prompts, prompt_folds
from detector_bench.metrics import METRICS, MetricInfo, Scopes
from detector_bench.metrics.scopes import PromptSubsets
from detector_bench.tables.comparison_tables import chosen_thresholds, threshold_sweep
from detector_bench.vocabulary import attribute_named

SWEPT = METRICS.swept_for(attribute_named("gender"))
CHOSEN_BY = tuple(each.name for each in SWEPT if each.chooses)
EVERYTHING = Scopes(("",), np.zeros(1, dtype=np.intp))
DIFFERENCE = "prompt_bias_score_difference"
DEVIATION = "model_bias_score_deviation"


def study(
    random: np.random.Generator, *, prompts: int, thresholds: int = 10, models: int = 1, categories: int = 1
) -> Sweep:
    """Every threshold keeps a random part of the images, of equal size on average: none is better than another."""
    images = 20
    shape = (models, prompts, images)
    share = 1 / (1 + np.exp(-random.normal(0.8, 1.5, size=(models, prompts, 1))))
    truth = np.where(random.random(shape) < 0.85, random.random(shape) >= share, 2)
    right = random.random(shape) < 0.9
    named = np.where(truth == 2, random.random(shape) < 0.5, np.where(right, truth, 1 - truth))
    kept = random.random((thresholds, *shape)) < np.where(truth == 2, 0.4, 0.8)
    verdict = np.where(kept, named, 2)
    place = np.arange(thresholds * models * prompts).reshape(thresholds, models, prompts, 1)
    counts = np.bincount(((place * 4 + truth) * 4 + verdict).ravel(), minlength=place.size * 16)
    return Sweep(
        detector="simulated",
        attribute=attribute_named("gender"),
        t2i_models=tuple(f"model {number}" for number in range(models)),
        thresholds=np.linspace(0.5, 0.95, thresholds),
        counts=counts.reshape(thresholds, models, prompts, 4, 4),
        category_of_prompt=np.arange(prompts) % categories,
        known_above=-np.inf,
        without_score=0,
    )


def metric_named(name: str) -> MetricInfo:
    return METRICS[name]


def value(metric: MetricInfo, counts: NDArray[np.int64]) -> float:
    """Of counts `[t2i_model, prompt, truth, verdict]`, without sets of prompts or folds."""
    scopes = Scopes(("",), np.zeros(counts.shape[1], dtype=np.intp))
    return float(metric.scores(counts, scopes=scopes, n_clear="detector").value[0, 0])


def best(metric: MetricInfo, counts: NDArray[np.int64]) -> int:
    values = np.array([value(metric, each) for each in counts])
    return int(np.nanargmin(np.round(metric.loss(values), 12)))


class TestSetsOfPrompts:
    @pytest.mark.parametrize("metric", SWEPT, ids=lambda each: each.name)
    def test_a_set_is_a_study_of_its_prompts(self, metric: MetricInfo) -> None:
        sweep = study(np.random.default_rng(1), prompts=6, models=2)
        drawn = [[0, 1, 2], [5], [1, 3, 3, 3, 4], [2, 2]]
        weights = np.array([np.bincount(each, minlength=6) for each in drawn], dtype=float)
        scores = metric.scores(sweep.counts, scopes=PromptSubsets.of_weights(weights), n_clear="detector")
        for number, prompts in enumerate(drawn):
            for threshold, counts in enumerate(sweep.counts):
                assert scores.value[threshold, 0, number] == pytest.approx(value(metric, counts[:, prompts]))

    def test_parts_are_even_in_every_category_and_deterministic(self) -> None:
        categories = np.array([0] * 11 + [1] * 7 + [2] * 2 + [3])
        folds = prompt_folds(categories, folds=5, repeats=30, random=np.random.default_rng(3))
        assert folds.shape == (30, 21)
        for fold in folds:
            for category in range(4):
                sizes = np.bincount(fold[categories == category], minlength=5)
                assert sizes.max() - sizes.min() <= 1
            assert np.ptp(np.bincount(fold, minlength=5)) <= 1
        assert len({tuple(fold) for fold in folds}) == 30
        again = prompt_folds(categories, folds=5, repeats=30, random=np.random.default_rng(3))
        assert (folds == again).all()

    def test_prompts_are_drawn_within_their_category(self) -> None:
        categories = np.array([0, 1, 0, 1, 2])
        for seed in range(20):
            drawn = drawn_prompts(categories, random=np.random.default_rng(seed))
            assert (categories[drawn] == categories).all()


class TestJudging:
    @pytest.mark.parametrize("name", CHOSEN_BY)
    def test_as_loops_over_parts_and_prompts_do_it(self, name: str) -> None:
        sweep = study(np.random.default_rng(2), prompts=9, models=2, categories=2)
        metric = metric_named(name)
        chooser = ThresholdChooser.of_sweep(sweep, metric, n_clear="detector")
        fold = chooser.dealt(repeats=3, random=np.random.default_rng(0))
        chosen = chooser.chosen(fold)
        values = []
        for repeat in range(3):
            together = np.zeros_like(sweep.counts[0])
            for part in range(chooser.folds):
                others = np.flatnonzero(fold[repeat] != part)
                assert chosen[repeat, part] == best(metric, sweep.counts[:, :, others])
                held_out = np.flatnonzero(fold[repeat] == part)
                together[:, held_out] = sweep.counts[chosen[repeat, part]][:, held_out]
            values.append(value(metric, together))
        assert chooser.held_out(fold, chosen) == pytest.approx(np.mean(values))

    def test_a_mean_square_is_the_square_of_the_mean_less_its_chance_and_more_that_of_new_prompts(self) -> None:
        sweep = study(np.random.default_rng(4), prompts=8, categories=2)
        metric = metric_named(DEVIATION)
        chooser = ThresholdChooser.of_sweep(sweep, metric, n_clear="detector")
        fold = chooser.dealt(repeats=1, random=np.random.default_rng(0))
        chosen = chooser.chosen(fold)
        assert chooser.folds == 4
        squares, variances = [], []
        for part in range(4):
            counts = sweep.counts[chosen[0, part]]
            without = [value(metric, np.delete(counts, prompt, axis=1)) for prompt in range(8)]
            shares = 8 * value(metric, counts) - 7 * np.array(without)
            # Two categories of four prompts each: six degrees of freedom.
            variance = sum(3 * shares[sweep.category_of_prompt == category].var(ddof=1) for category in (0, 1)) / 6
            squares.append(shares[fold[0] == part].mean() ** 2 - variance / 2)
            variances.append(variance)
        expected = max(np.mean(squares), 0) + np.mean(variances) / 8
        assert chooser.mean_square(fold, chosen) == pytest.approx(expected)

    def test_a_prompt_has_no_say_in_its_own_threshold(self) -> None:
        sweep = study(np.random.default_rng(5), prompts=10)
        chooser = ThresholdChooser.of_sweep(sweep, metric_named(DIFFERENCE), n_clear="detector")
        fold = chooser.dealt(repeats=10, random=np.random.default_rng(0))
        # Prompt 3 is now right at the last threshold and wrong at all others.
        sweep.counts[:, :, 3] = 0
        sweep.counts[:-1, :, 3, 0, 1] = sweep.counts[-1, :, 3, 0, 0] = 20
        changed = ThresholdChooser.of_sweep(sweep, metric_named(DIFFERENCE), n_clear="detector")
        own = (np.arange(10), fold[:, 3])
        assert (changed.chosen(fold)[own] == chooser.chosen(fold)[own]).all()
        assert (changed.chosen(fold) != chooser.chosen(fold)).any()

    def test_copies_of_a_prompt_in_a_resample_do_not_choose_for_each_other(self) -> None:
        # Every prompt has a threshold of its own at which it is right; a copy among the choosers would find it.
        counts = np.zeros((8, 1, 8, 4, 4), dtype=np.int64)
        counts[..., 0, 1] = 20
        for prompt in range(8):
            counts[prompt, 0, prompt] = 0
            counts[prompt, 0, prompt, 0, 0] = 20
        sweep = study(np.random.default_rng(6), prompts=8)
        sweep = Sweep(
            "eight", sweep.attribute, ("model",), np.arange(8) / 10, counts, np.zeros(8, dtype=np.intp), -np.inf, 0
        )
        chooser = ThresholdChooser.of_sweep(sweep, metric_named(DIFFERENCE), n_clear="detector")
        assert chooser.resampled(np.random.default_rng(0), resamples=50).tolist() == [2.0] * 50

    def test_the_lowest_of_equal_thresholds_is_chosen_and_none_that_a_run_would_know_better(self) -> None:
        sweep = study(np.random.default_rng(7), prompts=5)
        sweep.counts[:] = sweep.counts[:1]
        assert set(threshold_choices(sweep, resamples=0)["threshold"]) == {0.5}
        known = Sweep(**{name: getattr(sweep, name) for name in Sweep.__slots__} | {"known_above": 0.6})
        assert set(threshold_choices(known, resamples=0)["threshold"]) == {0.65}
        nothing = Sweep(**{name: getattr(sweep, name) for name in Sweep.__slots__} | {"known_above": 1.0})
        choices = threshold_choices(nothing, resamples=0)
        assert choices["threshold"].isna().all()
        assert set(choices["reason"]) == {"at no threshold does the sweep know what a run would keep"}


class TestWhereThereIsNoNumber:
    @pytest.mark.parametrize(("prompts", "said"), [(1, "1 prompt,"), (2, "2 prompts,"), (3, "3 prompts,")])
    def test_too_few_prompts(self, prompts: int, said: str) -> None:
        choices = threshold_choices(study(np.random.default_rng(8), prompts=prompts))
        assert choices["value"].notna().all()
        assert choices[["other_prompts", "ci_low", "ci_high", "unchosen"]].isna().all(axis=None)
        assert choices["reason"].str.startswith(said).all()
        table = threshold_sweep(sweep_table(study(np.random.default_rng(8), prompts=prompts)), choices)
        assert not any(cell.bold for row in table.rows for cell in row.cells)

    def test_four_prompts_are_enough(self) -> None:
        choices = threshold_choices(study(np.random.default_rng(9), prompts=4), resamples=50)
        assert choices["other_prompts"].notna().all()

    def test_a_category_each(self) -> None:
        sweep = study(np.random.default_rng(10), prompts=6, categories=6)
        choices = threshold_choices(sweep, t2i_models=["all"]).set_index("chosen_by")
        assert choices.loc[DIFFERENCE, "other_prompts"] > 0
        assert choices.loc[DIFFERENCE, "reason"] == "no interval: every category has a single prompt"
        assert np.isnan(choices.loc[DEVIATION, "other_prompts"])
        assert "every category has a single prompt" in choices.loc[DEVIATION, "reason"]

    def test_a_metric_that_is_nowhere_defined(self) -> None:
        sweep = study(np.random.default_rng(11), prompts=5)
        sweep.counts[..., :2, :] = 0
        choices = threshold_choices(sweep, t2i_models=["all"]).set_index("chosen_by")
        assert choices.loc[DEVIATION, "reason"] == "undefined at every threshold"
        table = threshold_sweep(sweep_table(sweep), choices.reset_index())
        assert any(
            note.startswith("No threshold is chosen by Model bias score deviation:") for note in table.notes
        )


class TestTables:
    def test_bold_is_the_chosen_threshold_and_a_sentence_says_what_it_is_worth(self) -> None:
        sweep = study(np.random.default_rng(12), prompts=12)
        choices = threshold_choices(sweep, t2i_models=["all"], resamples=60)
        assert tuple(choices.columns) == CHOICE_COLUMNS
        table = threshold_sweep(sweep_table(sweep), choices)
        for choice, note in zip(choices.itertuples(), table.notes, strict=False):
            column = [each.key for each in table.columns].index(choice.chosen_by)
            bold = [row.cells[0].key for row in table.rows if row.cells[column].bold]
            assert bold == [repr(choice.threshold)]
            assert f"at {choice.threshold:.3f}: " in note
            written = f"{100 * choice.other_prompts:.1f} %" if "%" in note else f"{choice.other_prompts:.3f}"
            assert f"so chosen {'ends up' if choice.chosen_by == DEVIATION else 'gives'} {written}" in note
            assert "the lowest threshold, which nobody chose" in note
        worth = chosen_thresholds(choices, level=0.95)
        difference = worth.rows[-1].cells
        assert difference[0].key == DIFFERENCE
        assert difference[4].value == choices["other_prompts"].iloc[-1]
        assert difference[4].interval_text.startswith("[")
        assert worth.rows[1].cells[4].interval_text == ""
        assert any("itself how far off to expect" in note for note in worth.all_notes)

    def test_every_rule_has_a_direction(self) -> None:
        assert CHOSEN_BY
        assert all(METRICS[name].better != "none" for name in CHOSEN_BY)
        with pytest.raises(ValueError, match="no direction is better"):
            METRICS["model_bias_score"].loss(np.zeros(1))


@pytest.fixture(scope="module")
def many_studies() -> pd.DataFrame:
    """What each rule chooses in a study, what that is said to give on other prompts, and what it gives there."""
    rows = []
    for seed in range(200):
        random = np.random.default_rng([17, seed])
        sweep, fresh = study(random, prompts=10), study(random, prompts=10)
        choices = threshold_choices(sweep, t2i_models=["all"], resamples=0)
        for choice in choices.itertuples(index=False):
            metric = metric_named(choice.chosen_by)
            there = ThresholdChooser.of_sweep(fresh, metric, n_clear="detector").values(np.ones((1, 10)))[0]
            place = list(sweep.thresholds).index(choice.threshold)
            rows.append((choice.chosen_by, choice.value, choice.other_prompts, there[place]))
    return pd.DataFrame(rows, columns=["metric", "here", "others", "fresh"])


class TestWhereTheTruthIsKnown:
    """Every threshold is equally good, so what is chosen does on fresh prompts what any would do."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", CHOSEN_BY)
    def test_the_best_here_flatters_and_the_number_for_other_prompts_does_not(
        self, many_studies: pd.DataFrame, name: str
    ) -> None:
        rows = many_studies[many_studies["metric"] == name]
        # A mean square is what is estimated of a signed metric; smaller is better for all but F1.
        power, sign = (2, 1) if name == DEVIATION else (1, -1 if name == "f1" else 1)
        here, others, fresh = (sign * rows[column] ** power for column in ("here", "others", "fresh"))

        def standard_errors_from_0(values: pd.Series) -> float:
            return float(values.mean() / values.std() * np.sqrt(len(values)))

        assert standard_errors_from_0(fresh - here) > 5
        assert abs(standard_errors_from_0(others - fresh)) < 3

    def test_other_seeds_deal_other_parts_and_change_little(self) -> None:
        sweep = study(np.random.default_rng(13), prompts=12)
        chooser = ThresholdChooser.of_sweep(sweep, metric_named(DIFFERENCE), n_clear="detector")
        values = []
        for seed in range(10):
            fold = chooser.dealt(repeats=REPEATS, random=np.random.default_rng(seed))
            values.append(chooser.held_out(fold, chooser.chosen(fold)))
        scatter = chooser.resampled(np.random.default_rng(0), resamples=60).std()
        assert len(set(values)) > 1
        assert np.std(values) < scatter / 5
