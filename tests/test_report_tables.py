"""Which bias scores of a metric table end up in which cell, in bold, with which arrow and which note."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from metric_entries import NAN, Entry, bias, images, metric_table, truth, written

from detector_bench.errors import ConfigError
from detector_bench.tables import (
    Arrow,
    Table,
    bias_errors,
    filtering_and_accuracy,
    label_shares,
    model_bias_scores,
    prompt_bias_score_difference,
)


class TestBiasErrors:
    @staticmethod
    def table(*entries: Entry, n_clear: str | None = None) -> Table:
        metrics = metric_table([*truth("sdxl", 0.5), *truth("sd3", 0.8), *entries])
        metrics.loc[metrics["metric"] == "model_bias_score_error", ["ci_low", "ci_high"]] = [-0.03, 0.01]
        return bias_errors(metrics, n_clear=n_clear)

    def test_both_errors_of_every_t2i_model_with_intervals_and_nothing_in_bold(self) -> None:
        table = self.table(
            *images("a", "sdxl"),
            Entry("a", "sdxl", "prompt_bias_error", 0.25, n=10, n_left_out=2, n_clear="detector"),
            Entry("a", "sdxl", "model_bias_score_error", -0.0104),
            *images("a", "sd3", errors=24),
            Entry("a", "sd3", "prompt_bias_error", 0.125, n_clear="detector"),
            Entry("a", "sd3", "model_bias_score_error", 0.5),
            *images("b", "sdxl"),
            Entry("b", "sdxl", "prompt_bias_error", 0.0, n_clear="detector"),
            Entry("b", "sdxl", "model_bias_score_error", 0.002),
        )
        assert [column.full_heading for column in table.columns[1:]] == [
            "sdxl, prompt bias error",
            "sdxl, model bias score error",
            "sd3, prompt bias error",
            "sd3, model bias score error",
        ]
        assert written(table) == [
            ["a", "0.250", "-0.010 [-0.030, 0.010]", "-", "-"],
            ["b", "0.000", "0.002 [-0.030, 0.010]", "-", "-"],
        ]
        assert table.rows[0].notes == (
            "not scored on sd3 (error on 24 of 24 images)",
            "prompts left out, fewer than two images clear to detector and humans: 2 of 12 (sdxl)",
        )

    def test_the_denominator_is_the_one_that_is_asked_for(self) -> None:
        both = [
            Entry("a", "sdxl", "prompt_bias_error", value, n_clear=name)
            for name, value in (("detector", 0.1), ("human", 0.7))
        ]
        entries = [*images("a", "sdxl"), *both]
        assert self.table(*entries).rows[0].cells[1].value == 0.1
        assert self.table(*entries, n_clear="human").rows[0].cells[1].value == 0.7


class TestModelBiasScores:
    def test_scores_with_deviation_arrow_and_bold(self) -> None:
        table = model_bias_scores(
            metric_table(
                [
                    *truth("sdxl", 0.5),
                    *truth("sd3", 0.8),
                    *bias("low", "sdxl", 0.45, -0.1),
                    *bias("low", "sd3", 0.8, 0.0),
                    *bias("high", "sdxl", 0.525, 0.05),
                    *bias("high", "sd3", 0.9, 0.125),
                ]
            )
        )
        assert [column.heading for column in table.columns] == ["Detector", "sdxl", "sd3"]
        assert written(table) == [
            ["Ground truth", "0.500", "0.800"],
            ["low", "0.450 (10.00 % ↓)", "*0.800 (0.00 %)*"],
            ["high", "*0.525 (5.00 % ↑)*", "0.900 (12.50 % ↑)"],
        ]
        assert [row.cells[1].arrow for row in table.rows] == [Arrow.NONE, Arrow.DOWN, Arrow.UP]
        assert table.rows[1].cells[1].value == 0.45
        assert table.rows[1].cells[1].deviation == -0.1

    def test_ties_are_all_bold_but_equal_roundings_are_no_tie(self) -> None:
        table = model_bias_scores(
            metric_table(
                [
                    *truth("sdxl", 0.5),
                    *bias("a", "sdxl", 0.475, -0.05),
                    *bias("b", "sdxl", 0.525, 0.05),
                    *bias("c", "sdxl", 0.52501, 0.05002),
                ]
            )
        )
        assert written(table)[1:] == [
            ["a", "*0.475 (5.00 % ↓)*"],
            ["b", "*0.525 (5.00 % ↑)*"],
            ["c", "0.525 (5.00 % ↑)"],
        ]

    def test_a_single_detector_is_best_of_nothing(self) -> None:
        table = model_bias_scores(metric_table([*truth("sdxl", 0.5), *bias("only", "sdxl", 0.475, -0.05)]))
        assert written(table)[1] == ["only", "0.475 (5.00 % ↓)"]

    def test_a_dash_says_whether_the_detector_failed_or_kept_nothing(self) -> None:
        failing = bias("api", "sd3", 0.7, -0.1)[3:] + images("api", "sd3", errors=3)
        table = model_bias_scores(
            metric_table(
                [
                    *truth("sdxl", 0.5),
                    *truth("sd3", 0.8),
                    *bias("api", "sdxl", 0.5, 0.0),
                    *failing,
                    *bias("strict", "sdxl", 0.4, -0.2, n=9, n_left_out=3),
                    *bias("strict", "sd3", NAN, NAN, n=0, n_left_out=12),
                ]
            )
        )
        assert written(table)[1:] == [
            ["api", "*0.500 (0.00 %)*", "-"],
            ["strict", "0.400 (20.00 % ↓)", "-"],
        ]
        # 3 of 24 images are 12.5 %, more than the 10 % that are tolerated.
        assert table.rows[1].notes == ("not scored on sd3 (error on 3 of 24 images)",)
        assert table.rows[2].notes == ("prompts left out, no image kept: 3 of 12 (sdxl), 12 of 12 (sd3)",)
        assert math.isnan(table.rows[1].cells[2].value or 0.0)

    @pytest.mark.parametrize(("limit", "dash"), [(0.125, False), (0.12, True), (1.0, False), (0.0, True)])
    def test_the_tolerated_share_of_errors_is_an_argument(self, limit: float, dash: bool) -> None:
        entries = bias("api", "sdxl", 0.45, -0.1)[3:] + images("api", "sdxl", errors=3)
        table = model_bias_scores(metric_table([*truth("sdxl", 0.5), *entries]), max_error_share=limit)
        assert (written(table)[1][1] == "-") == dash
        note = "not scored on sdxl (error on 3 of 24 images)" if dash else "images left out, error: 3 of 24"
        assert table.rows[1].notes == (note,)

    def test_images_that_were_never_run_count_like_errors_but_are_named(self) -> None:
        entries = [*bias("partial", "sdxl", 0.45, -0.1), Entry("partial", "sdxl", "images_not_run", 24)]
        table = model_bias_scores(metric_table([*truth("sdxl", 0.5), *entries]))
        assert written(table)[1][1] == "-"
        assert table.rows[1].notes == ("not scored on sdxl (not run on 24 of 24 images)",)

    def test_a_truth_of_zero_has_no_deviation(self) -> None:
        table = model_bias_scores(metric_table([*truth("fair", 0.0), *bias("a", "fair", 0.2, NAN)]))
        assert written(table)[1] == ["a", "0.200 (-)"]
        assert table.rows[1].notes == ("no deviation from a ground truth of 0 or without a score (fair)",)

    def test_without_a_detector_the_ground_truth_still_stands(self) -> None:
        table = model_bias_scores(metric_table(truth("sdxl", 0.5)))
        assert written(table) == [["Ground truth", "0.500"]]
        assert table.notes == ("No detector of this study judges gender.",)

    def test_a_table_read_from_csv_has_null_for_an_empty_word(self) -> None:
        entries = [*truth("sdxl", 0.5), *bias("a", "sdxl", 0.45, -0.1)]
        metrics = metric_table(entries)
        metrics["n_clear"] = None
        assert written(model_bias_scores(metrics)) == written(model_bias_scores(metric_table(entries)))


class TestMistakes:
    def test_unknown_attribute(self) -> None:
        with pytest.raises(ConfigError, match=r"'gendr'.*did you mean 'gender'"):
            model_bias_scores(metric_table(truth("sdxl", 0.5)), attribute="gendr")

    def test_error_share_is_a_fraction(self) -> None:
        with pytest.raises(ConfigError, match=r"max_error_share: 10 \(accepted: 0 to 1\)"):
            filtering_and_accuracy(metric_table(truth("sdxl", 0.5)), max_error_share=10)

    def test_not_a_metric_table(self) -> None:
        with pytest.raises(ValueError, match="lacks the columns detector, attribute"):
            label_shares(pd.DataFrame({"value": [1.0]}))


class TestPromptBiasScoreDifference:
    @staticmethod
    def entries(n_clear: str) -> list[Entry]:
        metric = "prompt_bias_score_difference"
        return [
            Entry("a", "sdxl", metric, 0.1, n=11, n_left_out=1, n_clear=n_clear),
            Entry("b", "sdxl", metric, 0.09996, n_clear=n_clear),
        ]

    def test_smallest_is_best_unrounded(self) -> None:
        table = prompt_bias_score_difference(metric_table(self.entries("detector")))
        assert written(table) == [["a", "0.100"], ["b", "*0.100*"]]
        assert table.rows[0].notes == ("prompts left out, no clear image by the detector or the humans: 1 of 12",)

    @pytest.mark.parametrize(
        ("n_clear", "words"),
        [("detector", "images that the detector keeps"), ("human", "images that the humans call clear")],
    )
    def test_the_caption_names_the_denominator_that_the_metric_table_holds(self, n_clear: str, words: str) -> None:
        table = prompt_bias_score_difference(metric_table(self.entries(n_clear)))
        assert f"divided by the {words} (n_clear: {n_clear})" in table.caption
        assert written(table)[1] == ["b", "*0.100*"]

    def test_of_two_denominators_one_can_be_chosen(self) -> None:
        both = [
            *self.entries("detector"),
            Entry("a", "sdxl", "prompt_bias_score_difference", 0.7, n_clear="human"),
        ]
        assert written(prompt_bias_score_difference(metric_table(both)))[0] == ["a", "0.100"]
        assert written(prompt_bias_score_difference(metric_table(both), n_clear="human"))[0] == ["a", "0.700"]
