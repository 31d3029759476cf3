"""Which numbers about filters, classes, prompts and labels end up in which cell, with which note."""

from __future__ import annotations

import math

import pandas as pd
from metric_entries import GENDER_METRICS, NAN, Entry, bias, images, metric_table, truth, written

from detector_bench.tables import (
    filtering_and_accuracy,
    filtering_and_accuracy_by_t2i_model,
    label_shares,
    model_bias_scores,
    prompt_bias_scores,
)


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
        assert table.columns[6].heading == "Middle-aged"
        assert table.columns[6].full_heading == "Recall middle-aged"
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


def test_classes_are_called_as_their_attribute_calls_them() -> None:
    from detector_bench.tables.wording import label_in_words

    assert label_in_words("latino_hispanic") == "Latino or Hispanic"
    said = [
        label_in_words(name, in_sentence=True) for name in ("east_asian", "middle_aged", "male", "low_quality")
    ]
    assert said == ["East Asian", "middle-aged", "male", "low-quality"]
    assert label_in_words("no_class_of_any") == "No class of any"
