"""Which numbers of a metric table end up in which cell, in bold, with which arrow and which note."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd
import pytest

from detector_bench.errors import ConfigError
from detector_bench.tables import (
    Arrow,
    Table,
    bias_errors,
    filtering_and_accuracy,
    filtering_and_accuracy_by_t2i_model,
    label_shares,
    model_bias_scores,
    prompt_bias_score_difference,
    prompt_bias_scores,
)
from detector_bench.vocabulary.columns import METRIC_COLUMNS

NAN = math.nan
UNUSED = {"variant": None, "ci_low": NAN, "ci_high": NAN}
GENDER_METRICS = [
    "precision",
    "recall",
    "f1",
    "filter_rate",
    "recall_male",
    "recall_female",
    "accuracy_male",
    "accuracy_female",
    "accuracy",
]


class Entry(NamedTuple):
    detector: str
    t2i_model: str
    metric: str
    value: float
    n: int = 12
    n_left_out: int = 0
    n_clear: str = ""
    category: str = "all"
    prompt_id: str = "all"


def metric_table(entries: list[Entry], *, attribute: str = "gender") -> pd.DataFrame:
    rows = [{**entry._asdict(), "attribute": attribute, **UNUSED} for entry in entries]
    return pd.DataFrame(rows)[list(METRIC_COLUMNS)]


def images(detector: str, t2i_model: str, *, errors: int = 0, total: int = 24) -> list[Entry]:
    return [
        Entry(detector, t2i_model, "images", total),
        Entry(detector, t2i_model, "images_error", errors),
        Entry(detector, t2i_model, "images_not_run", 0),
    ]


def bias(detector: str, t2i_model: str, score: float, deviation: float, **counted: int) -> list[Entry]:
    return [
        *images(detector, t2i_model),
        Entry(detector, t2i_model, "model_bias_score", score, **counted),
        Entry(detector, t2i_model, "model_bias_score_deviation", deviation, **counted),
    ]


def truth(t2i_model: str, score: float) -> list[Entry]:
    return [
        Entry("ground_truth", t2i_model, "images", 24),
        Entry("ground_truth", t2i_model, "model_bias_score", score),
    ]


def written(table: Table) -> list[list[str]]:
    return [[f"*{cell.written()}*" if cell.bold else cell.written() for cell in row.cells] for row in table.rows]


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


def filtering(detector: str, values: list[float], *, t2i_model: str = "all") -> list[Entry]:
    return [
        Entry(detector, t2i_model, metric, value, n=0 if math.isnan(value) else 20)
        for metric, value in zip(GENDER_METRICS, values, strict=True)
    ]


class TestFilteringAndAccuracy:
    def test_per_cent_with_two_decimals_and_the_best_of_each_column(self) -> None:
        table = filtering_and_accuracy(
            metric_table(
                [
                    *images("a", "all"),
                    *images("a", "sdxl"),
                    *filtering("a", [0.5, 1.0, 2 / 3, 0.0, 1.0, 1.0, 0.25, 0.5, 0.375]),
                    *images("b", "all"),
                    *filtering("b", [0.75, 0.6, 2 / 3, 1.0, 0.7, 0.5, 0.125, 1.0, 0.5]),
                ]
            )
        )
        assert [(column.group, column.heading) for column in table.columns] == [
            ("", "Detector"),
            ("Filtering (%)", "Precision"),
            ("Filtering (%)", "Recall"),
            ("Filtering (%)", "F1"),
            ("Filtering (%)", "Filter rate"),
            ("Recall (%)", "Male"),
            ("Recall (%)", "Female"),
            ("Accuracy (%)", "Male"),
            ("Accuracy (%)", "Female"),
            ("Accuracy (%)", "Overall"),
        ]
        assert written(table) == [
            ["a", "50.00", "*100.00*", "*66.67*", "0.00", "*100.00*", "*100.00*", "*25.00*", "50.00", "37.50"],
            ["b", "*75.00*", "60.00", "*66.67*", "*100.00*", "70.00", "50.00", "12.50", "*100.00*", "*50.00*"],
        ]
        assert "addition to the paper" in table.caption

    def test_undefined_numbers_say_what_is_missing(self) -> None:
        table = filtering_and_accuracy(
            metric_table(
                [
                    *images("a", "all"),
                    *images("a", "sdxl"),
                    *filtering("a", [1.0, 1.0, 1.0, NAN, 1.0, NAN, 1.0, NAN, 1.0]),
                ]
            )
        )
        assert written(table) == [["a", "100.00", "100.00", "100.00", "-", "100.00", "-", "100.00", "-", "100.00"]]

    def test_the_reason_of_each_dash(self) -> None:
        entries = [Entry("a", "all", metric, NAN, n=0, n_left_out=1) for metric in GENDER_METRICS]
        table = filtering_and_accuracy(metric_table([*images("a", "sdxl"), *entries]))
        assert table.rows[0].notes == (
            "- for precision: the detector kept no image",
            "- for recall: no image is clear",
            "- for f1: no image is clear to the humans or the detector",
            "- for filter rate: no image is low-quality",
            "- for recall (male): no image is male by the human labels",
            "- for recall (female): no image is female by the human labels",
            "- for accuracy (male): no image is clear to the detector and male by the human labels",
            "- for accuracy (female): no image is clear to the detector and female by the human labels",
            "- for accuracy: no image is clear to both the humans and the detector",
        )

    def test_who_was_judged_on_other_images_does_not_compete(self) -> None:
        table = filtering_and_accuracy(
            metric_table(
                [
                    *[entry for model in ("sdxl", "sd3") for entry in images("a", model)],
                    *filtering("a", [0.5] * 9),
                    *[entry for model in ("sdxl", "sd3") for entry in images("b", model)],
                    *filtering("b", [0.6] * 9),
                    *images("api", "sdxl"),
                    *images("api", "sd3", errors=24),
                    *filtering("api", [0.9] * 9),
                ]
            )
        )
        assert [row[1] for row in written(table)] == ["50.00", "*60.00*", "90.00"]
        assert table.rows[2].notes == (
            "not scored on sd3 (error on 24 of 24 images)",
            "judged on the other T2I models only, so it does not compete for the best value",
        )

    def test_who_could_run_nowhere_has_dashes_only(self) -> None:
        table = filtering_and_accuracy(
            metric_table([*images("api", "sdxl", errors=24), *filtering("api", [0.9] * 9)])
        )
        assert written(table) == [["api", *["-"] * 9]]
        assert table.rows[0].notes == ("not scored on sdxl (error on 24 of 24 images)",)

    def test_per_t2i_model_there_is_one_best_in_each_block(self) -> None:
        values = {("a", "sdxl"): 0.5, ("b", "sdxl"): 0.6, ("a", "sd3"): 0.9, ("b", "sd3"): 0.8}
        table = filtering_and_accuracy_by_t2i_model(
            metric_table(
                [
                    entry
                    for (detector, model), value in values.items()
                    for entry in (
                        *images(detector, model, errors=1),
                        *filtering(detector, [value] * 9, t2i_model=model),
                    )
                ]
            )
        )
        assert [row[:3] for row in written(table)] == [
            ["sdxl", "a", "50.00"],
            ["sdxl", "b", "*60.00*"],
            ["sd3", "a", "*90.00*"],
            ["sd3", "b", "80.00"],
        ]
        assert table.all_notes[0] == ("a on sdxl, b on sdxl, a on sd3, b on sd3: images left out, error: 1 of 24")

    def test_three_classes_make_more_columns(self) -> None:
        classes = ["young", "middle_aged", "elderly"]
        metrics = ["precision", "recall", "f1", "filter_rate", "accuracy", "balanced_accuracy"]
        metrics += [f"{metric}_{name}" for metric in ("recall", "accuracy") for name in reversed(classes)]
        table = filtering_and_accuracy(
            metric_table(
                [*images("a", "sdxl"), *(Entry("a", "all", metric, 0.5) for metric in metrics)], attribute="age"
            ),
            attribute="age",
        )
        assert [column.key for column in table.columns] == [
            "detector",
            "precision",
            "recall",
            "f1",
            "filter_rate",
            "recall_young",
            "recall_middle_aged",
            "recall_elderly",
            "accuracy_young",
            "accuracy_middle_aged",
            "accuracy_elderly",
            "accuracy",
            "balanced_accuracy",
        ]
        assert table.columns[6].heading == "Middle aged"
        assert table.columns[6].full_heading == "Recall middle aged"
        assert written(table) == [["a", *["50.00"] * 12]]
        assert table.ethics_note == "Perceived age, as seen in synthetic images; not an identity."


def prompt(prompt_id: str, t2i_model: str, score: float, *, category: str = "object") -> Entry:
    return Entry("ground_truth", t2i_model, "prompt_bias_score", score, category=category, prompt_id=prompt_id)


def classes_of_gender() -> list[Entry]:
    return [Entry("ground_truth", "sdxl", f"label_share_{label}", 0.5) for label in ("male", "female")]


class TestPromptBiasScores:
    def test_sorted_within_categories_by_falling_average(self) -> None:
        entries = [
            *classes_of_gender(),
            *[Entry("ground_truth", model, "images", 60) for model in ("sdxl", "sd3")],
            prompt("tie", "sdxl", 1.0),
            prompt("cup", "sdxl", -0.004),
            prompt("judge", "sdxl", 0.5, category="profession"),
            prompt("tie", "sd3", 0.9),
            prompt("cup", "sd3", -1.0),
            prompt("judge", "sd3", NAN, category="profession"),
            prompt("empty", "sdxl", NAN),
            prompt("pen", "sdxl", 0.95),
            prompt("pen", "sd3", 0.95),
        ]
        words = pd.DataFrame({"prompt_id": ["tie", "pen", "cup"], "word": ["bow tie", "Pen", ""]})
        table = prompt_bias_scores(metric_table(entries), prompts=words)
        assert [column.heading for column in table.columns] == ["Category", "Word", "sdxl", "sd3", "Average"]
        assert written(table) == [
            ["object", "bow tie", "1.00", "0.90", "0.95"],
            ["object", "Pen", "0.95", "0.95", "0.95"],
            ["object", "cup", "0.00", "-1.00", "-0.50"],
            ["object", "empty", "-", "-", "-"],
            ["profession", "judge", "0.50", "-", "0.50"],
        ]
        assert table.rows[3].notes == ("no clear image (sdxl)", "no image (sd3)")
        assert table.rows[4].notes == ("no clear image (sd3)",)
        assert table.caption.endswith("1, all clear images are male; \N{MINUS SIGN}1, all are female.")

    def test_one_t2i_model_needs_no_average(self) -> None:
        table = prompt_bias_scores(
            metric_table([*classes_of_gender(), prompt("cup", "sdxl", -1.0), prompt("tie", "sdxl", 1.0)])
        )
        assert [column.key for column in table.columns] == ["category", "word", "sdxl"]
        assert [row[1] for row in written(table)] == ["tie", "cup"]

    def test_three_classes_have_no_signed_score(self) -> None:
        table = prompt_bias_scores(metric_table(truth("sdxl", 0.5), attribute="age"), attribute="age")
        assert table.rows == ()
        assert table.all_notes[0] == "Only attributes of two classes have a signed score."


class TestLabelShares:
    @staticmethod
    def entries(t2i_model: str, shares: list[float], count: int, *, unlabelled: int = 0) -> list[Entry]:
        labels = ("male", "female", "low_quality", "others")
        return [
            Entry("ground_truth", t2i_model, "images", count),
            Entry("ground_truth", t2i_model, "images_unlabelled", unlabelled),
            *(
                Entry("ground_truth", t2i_model, f"label_share_{label}", share)
                for label, share in zip(labels, shares, strict=True)
            ),
        ]

    def test_others_have_a_column_and_the_last_row_is_the_total(self) -> None:
        table = label_shares(
            metric_table(
                [
                    *self.entries("all", [0.5, 0.3125, 0.1875, 0.0], 32),
                    *self.entries("sdxl", [0.75, 0.25, 0.0, 0.0], 16),
                    *self.entries("sd3", [0.25, 0.375, 0.375, 0.0], 16),
                ]
            )
        )
        assert [column.heading for column in table.columns] == [
            "T2I model",
            "Male",
            "Female",
            "Low-quality",
            "Others",
            "Images",
        ]
        assert written(table) == [
            ["sdxl", "75.00", "25.00", "0.00", "0.00", "16"],
            ["sd3", "25.00", "37.50", "37.50", "0.00", "16"],
            ["Total", "50.00", "31.25", "18.75", "0.00", "32"],
        ]

    def test_unlabelled_images_are_counted(self) -> None:
        table = label_shares(metric_table(self.entries("sdxl", [0.5, 0.25, 0.0, 0.25], 16, unlabelled=4)))
        assert [column.heading for column in table.columns[-2:]] == ["Labelled", "Unlabelled"]
        assert written(table) == [["sdxl", "50.00", "25.00", "0.00", "25.00", "16", "4"]]

    def test_a_t2i_model_without_a_label_has_dashes(self) -> None:
        table = label_shares(metric_table(self.entries("sdxl", [NAN] * 4, 0, unlabelled=4)))
        assert written(table) == [["sdxl", "-", "-", "-", "-", "0", "4"]]
        assert table.rows[0].notes == ("-: no labelled image",)


class TestNotes:
    def test_equal_notes_of_several_rows_become_one(self) -> None:
        detectors = [f"d{index}" for index in range(10)]
        table = model_bias_scores(
            metric_table(
                [
                    *truth("sdxl", 0.5),
                    *[entry for name in detectors for entry in bias(name, "sdxl", NAN, NAN, n=0, n_left_out=12)],
                ]
            )
        )
        assert table.all_notes == (
            "d0, d1, d2, d3, d4, d5, d6, d7 and 2 others: prompts left out, no image kept: 12 of 12",
            "Perceived gender, as seen in synthetic images; not an identity.",
        )
