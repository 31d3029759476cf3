"""What figures show, of ordinary and of degenerate studies; and that they look as they did when last looked at."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from result_folders import write_result_folder
from synthetic_study import DETECTORS, write_study
from typer.testing import CliRunner

from detector_bench.cli.publishing import figures as figures_command
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation.out_of_sample import threshold_choices
from detector_bench.evaluation.sweeps import even_thresholds, sweep_counts
from detector_bench.figures import FIGURES, WIDTHS, FinishedStudy, draw_figure, known_figures, write_figures
from detector_bench.figures.drawing import GREEN, caption, text_width
from detector_bench.figures.figure_files import OF_ESTIMATES, OF_IMAGES, OF_REQUESTS
from detector_bench.figures.filter_plane import recall_for
from detector_bench.figures.label_curve import label_ticks
from detector_bench.figures.label_places import Box, place_labels
from detector_bench.figures.prompt_bias_histogram import histogram
from detector_bench.results.finished_study import ResultFolder
from detector_bench.tables import filtering_and_accuracy
from detector_bench.vocabulary import GROUND_TRUTH
from detector_bench.vocabulary.columns import LABELS_ONLY, METRIC_COLUMNS, PREDICTION_POWERED
from detector_bench.vocabulary.display_names import built_in_display_name, display_names

matplotlib = pytest.importorskip("matplotlib")

REFERENCES = Path(__file__).parent / "figures"
PAPER_FIGURES = Path(__file__).parents[1] / "paper_figures"
THREE = DETECTORS[5:8]
# The others are drawn with `-m slow`.
_QUICK = ("filter_plane", "prompt_heat_map", "bias_deviation")
ANY_STUDY = tuple(name for name in FIGURES if name not in (*OF_ESTIMATES, *OF_REQUESTS, *OF_IMAGES))
"""Those of estimates need images without a label (`test_audit.py`, `test_audit_plan.py`), that of requests what
became of them (`test_refusals.py`), one more edited photos (`test_biaspainter_tables.py`)."""
DEGENERATE: dict[str, dict[str, Any]] = {
    "one_detector": {"detectors": THREE[:1], "prompts": 4, "t2i_models": ("sdxl",)},
    "one_prompt": {"detectors": THREE, "prompts": 1},
    "no_low_quality": {"detectors": THREE, "prompts": 4, "low_quality_share": 0.0},
    "only_low_quality": {"detectors": THREE, "prompts": 4, "only": "low_quality"},
    "one_gender": {"detectors": THREE, "prompts": 4, "only": "male"},
    "filters_everything": {"detectors": DETECTORS[-1:], "prompts": 4},
}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three detectors, three T2I models, five prompts."""
    return write_study(tmp_path_factory.mktemp("study") / "three", detectors=THREE, prompts=5)


@pytest.fixture(scope="module")
def study(three: Path) -> FinishedStudy:
    return FinishedStudy.load(three)


def texts(figure: Any) -> list[str]:
    """Everything written in a figure."""
    figure.canvas.draw()
    return [found.get_text() for found in figure.findobj(matplotlib.text.Text) if found.get_visible()]


class TestNumbers:
    """Figures show what the metric table says."""

    def test_the_histogram_closes_its_bins_away_from_zero(self) -> None:
        counts = histogram([0.0, 0.1, 0.10001, 0.3, -0.3, 1.0, -1.0, 0.05, math.nan])
        assert {place: count for place, count in counts.items() if count} == {
            -10: 1,  # -1
            -3: 1,  # -0.3, which times ten is a little off 3
            0: 1,
            1: 2,  # 0.05 and 0.1
            2: 1,  # 0.10001
            3: 1,
            10: 1,
        }

    def test_the_histogram_of_table_7_has_figure_3_s_shares(self, tmp_path: Path) -> None:
        published = pd.read_csv(Path(__file__).parents[1] / "labels/lyu2025/table7_prompt_bias_scores.csv")
        scores = published[["sdxl", "sd3", "dreamlike"]].to_numpy().ravel().tolist()
        counts = histogram(scores)
        assert sum(counts.values()) == 300
        assert sum(score == 1 for score in scores) == 95  # 31.7 %
        assert sum(count for place, count in counts.items() if place > 0) == 224
        assert counts[0] == 6

    def test_a_line_of_equal_f1_holds_points_of_that_f1(self) -> None:
        # Share of clear images 0.8, filter rate 0.5: of 100 images 80 are clear, and 10 of 20 others are kept.
        recall = recall_for(0.9, filter_rate=0.5, share=0.8)
        kept_clear = 80 * recall
        precision = kept_clear / (kept_clear + 10)
        assert 2 * precision * recall / (precision + recall) == pytest.approx(0.9)

    def test_the_filter_plane_puts_detectors_where_the_table_has_them(self, study: FinishedStudy) -> None:
        axes = draw_figure(study, "filter_plane", width="single").figure.axes[0]
        points = [line.get_xydata()[0] for line in axes.lines if line.get_marker() == "o"]
        table = filtering_and_accuracy(study.metrics)
        keys = [column.key for column in table.columns]
        expected = [
            [row.cells[keys.index("filter_rate")].value, row.cells[keys.index("recall")].value]
            for row in table.rows
        ]
        assert np.asarray(points) == pytest.approx(np.asarray(expected))

    @pytest.mark.slow
    def test_the_sweep_marks_the_smallest_difference_and_what_one_so_chosen_gives_on_other_prompts(
        self, study: FinishedStudy
    ) -> None:
        panels = draw_figure(study, "threshold_sweep", width="single").figure.axes
        assert len(panels) == len(study.predictions)
        for axes, (detector, table) in zip(panels, study.predictions.items(), strict=True):
            here, elsewhere = (
                [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == marker]
                for marker in ("o", "D")
            )
            curve = next(line.get_xydata() for line in axes.lines if line.get_color() == GREEN)
            assert here == [curve[np.nanargmin(curve[:, 1])].tolist()]
            thresholds = even_thresholds(first=curve[0, 0], steps=len(curve) - 1)
            sweep = sweep_counts(study.image_set, table, detector=detector, thresholds=thresholds)
            choices = threshold_choices(sweep, t2i_models=["all"], resamples=0).set_index("chosen_by")
            assert elsewhere == [[here[0][0], choices.loc["prompt_bias_score_difference", "other_prompts"]]]

    @pytest.mark.slow
    def test_the_sweep_of_one_prompt_marks_nothing_and_says_why(self, tmp_path: Path) -> None:
        folder = write_study(tmp_path / "study", detectors=THREE[:1], prompts=1)
        drawing = draw_figure(FinishedStudy.load(folder), "threshold_sweep", width="single")
        assert {line.get_marker() for line in drawing.figure.axes[0].lines} == {"None"}
        assert "1 prompt, where two to choose on and two to judge on are needed" in drawing.caption

    def test_the_heat_map_writes_every_score(self, study: FinishedStudy) -> None:
        written = texts(draw_figure(study, "prompt_heat_map", width="double").figure)
        rows = study.metrics[
            (study.metrics["detector"] == GROUND_TRUTH)
            & (study.metrics["metric"] == "prompt_bias_score")
            & (study.metrics["t2i_model"] != "all")
        ]
        assert len(rows) == 15
        for value in rows["value"]:
            assert f"{value:.2f}".replace("-", "\N{MINUS SIGN}") in written

    @pytest.mark.slow
    @pytest.mark.parametrize("width", WIDTHS)
    def test_the_heat_map_of_a_hundred_prompts_is_legible_on_one_page(self, tmp_path: Path, width: Any) -> None:
        folder = write_study(tmp_path / "study", detectors=THREE[:1], images_per_prompt=5)
        drawing = draw_figure(FinishedStudy.load(folder), "prompt_heat_map", width=width)
        written = texts(drawing.figure)
        assert sum(text[-3:-2] == "." or text == "\N{EN DASH}" for text in written) == 300
        words = {text for text in written if text[:1].isalpha()}
        if width == "double":
            assert {"software developer", "Personality", "real estate agent"} <= words
        else:  # nothing is printed below 6 points: two long words give way to the numbers, in the middle
            assert {text for text in words if "\N{HORIZONTAL ELLIPSIS}" in text} == {
                "softwar\u2026eloper",
                "real es\u2026 agent",
            }
        assert drawing.figure.get_size_inches()[1] <= 9.2
        assert "No room" not in drawing.caption

    @pytest.mark.slow
    def test_more_prompts_than_a_page_holds_become_strips(self, study: FinishedStudy, tmp_path: Path) -> None:
        rows = study.metrics[(study.metrics["prompt_id"] != "all") & (study.metrics["detector"] == GROUND_TRUTH)]
        others = study.metrics[study.metrics["prompt_id"] == "all"]
        copies = [
            rows.assign(prompt_id=rows["prompt_id"].astype(str) + f"_{number}", value=-rows["value"].abs())
            for number in range(100)
        ]
        folder = write_result_folder(tmp_path, pd.concat([others, *copies]))
        drawing = draw_figure(FinishedStudy.load(folder), "prompt_heat_map", width="single")
        assert drawing.figure.get_size_inches()[1] <= 9.2
        assert "postman_1" not in texts(drawing.figure)
        assert "stripes mark negative scores" in drawing.caption

    def test_the_confusion_matrix_counts_what_was_judged(self, study: FinishedStudy) -> None:
        figure = draw_figure(study, "confusion", width="double").figure
        numbers = [text.replace(",", "") for text in texts(figure)]
        counts = study.counts.verdicts.sum(axis=(1, 2))
        for truth in range(3):
            for verdict in range(4):
                assert str(counts[0, truth, verdict]) in numbers
        assert any(text == "Filtered" for text in numbers)
        assert any(text == "Error" for text in numbers)

    def test_the_forest_has_an_interval_for_every_number(self, study: FinishedStudy) -> None:
        drawing = draw_figure(study, "bias_deviation", width="double")
        rows = study.metrics[
            (study.metrics["metric"] == "model_bias_score_deviation")
            & (study.metrics["t2i_model"] != "all")
            & (study.metrics["category"] == "all")
        ]
        marks = sorted(
            float(line.get_xdata()[0]) for line in drawing.figure.axes[0].lines if line.get_linestyle() == "None"
        )
        assert marks == pytest.approx(sorted(100 * rows["value"]))
        if rows["ci_low"].notna().all():
            assert "95 % intervals" in drawing.caption

    def test_the_parts_of_a_bar_add_up_to_its_mark(self, study: FinishedStudy) -> None:
        axes = draw_figure(study, "error_causes", width="single").figure.axes[0]
        bars = [patch for patch in axes.patches if patch.get_height() == pytest.approx(0.62)]
        marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"]
        assert len(bars) == 2 * len(marks) == 6
        for row, mark in enumerate(marks):
            own = [bar.get_width() for bar in bars if round(bar.get_y() + 0.31) == row]
            assert sum(own) == pytest.approx(mark)

    def test_every_output_has_a_mark_of_its_own(self, study: FinishedStudy) -> None:
        panels = draw_figure(study, "detected_against_actual", width="single").figure.axes
        for axes, detector in zip(panels, study.detectors, strict=True):
            rows = study.metrics[
                (study.metrics["metric"] == "prompt_bias_score") & (study.metrics["prompt_id"] != "all")
            ]
            rows = rows[rows["t2i_model"] != "all"].pivot_table(
                index=["t2i_model", "prompt_id"], columns="detector", values="value", observed=True
            )
            marks = sorted(tuple(place) for marks in axes.collections for place in marks.get_offsets().tolist())
            expected = sorted(zip(rows[GROUND_TRUTH], rows[detector], strict=True))
            assert np.asarray(marks) == pytest.approx(np.asarray(expected))

    def test_what_each_side_of_the_forest_means_stands_at_0(self, study: FinishedStudy) -> None:
        axes = draw_figure(study, "bias_deviation", width="single").figure.axes[0]
        sides = [text for text in axes.texts if "estimates" in text.get_text()]
        assert [(text.xy[0], text.get_ha()) for text in sides] == [(0, "right"), (0, "left")]

    def test_the_histogram_has_a_linear_axis_and_says_how_many_are_exactly_0(self, study: FinishedStudy) -> None:
        figure = draw_figure(study, "prompt_bias_histogram", width="single").figure
        bars = [bar for bar in figure.axes[0].patches if bar.get_width() == pytest.approx(0.1) and bar.get_fill()]
        assert sorted(round(bar.get_x(), 6) for bar in bars) == [round(each / 10 - 1, 6) for each in range(20)]
        assert any(text.startswith("exactly 0:\n") for text in texts(figure))

    def test_the_sweep_starts_where_something_changes(self, study: FinishedStudy) -> None:
        panels = draw_figure(study, "threshold_sweep", width="single").figure.axes
        lines = [line for axes in panels for line in axes.lines if line.get_marker() == "None"]
        [start] = {line.get_xdata()[0] for line in lines if line.get_color() == GREEN}
        rows = study.rows("sweeps")
        flat = rows[rows["threshold"] <= start].groupby(["detector", "metric"], observed=True)["value"]
        assert start > rows["threshold"].min()
        assert (flat.max() - flat.min()).max() == 0
        after = rows[rows["threshold"] <= start + 0.011].groupby(["detector", "metric"], observed=True)["value"]
        assert (after.max() - after.min()).max() > 0


class TestNames:
    def test_names_are_written_as_their_authors_do(self) -> None:
        assert [built_in_display_name(name) for name in ("clip_enhance", "faceres-yunet", "sdxl", "my_net")] == [
            "CLIP-Enhance",
            "FaceRes-YuNet",
            "SDXL",
            "my net",
        ]

    def test_a_study_s_own_names_come_first_and_no_two_look_alike(self) -> None:
        assert display_names(["clip", "blip2"], {"clip": "CLIP ViT-B/32"}) == {
            "clip": "CLIP ViT-B/32",
            "blip2": "BLIP-2",
        }
        assert display_names(["my_net", "my net"], {}) == {"my_net": "my_net", "my net": "my net"}

    def test_no_figure_shows_an_underscore(self, study: FinishedStudy) -> None:
        for name in ("filter_plane", "bias_deviation", "agreement_matrix"):
            drawing = draw_figure(study, name, width="double")
            assert not [text for text in [*texts(drawing.figure), drawing.caption] if "_" in text]
            assert "CLIP-Enhance" in texts(drawing.figure)


class TestLabels:
    @pytest.mark.parametrize("name", ["confusion", "prompt_heat_map", "filter_plane", "score_deviations"])
    def test_nothing_is_printed_smaller_than_6_points(self, study: FinishedStudy, name: str) -> None:
        figure = draw_figure(study, name, width="single").figure
        written = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text()]
        assert min(text.get_size() for text in written) >= 6

    def test_detectors_that_filter_alike_share_a_label(self, study: FinishedStudy, tmp_path: Path) -> None:
        twin = study.metrics[study.metrics["detector"] == "mivolo"].assign(detector="clip")
        metrics = pd.concat([study.metrics.astype({"detector": str}), twin])
        twins = FinishedStudy.load(write_result_folder(tmp_path, metrics))
        assert "MiVOLO\nCLIP" in texts(draw_figure(twins, "filter_plane", width="single").figure)

    def test_no_label_covers_another_or_a_point(self) -> None:
        random = np.random.default_rng(3)
        crowd = 1.5 + 0.05 * random.standard_normal((15, 2))
        points = [(float(x), float(y)) for x, y in crowd]
        sizes = [(0.12, 0.1)] * 15
        places = place_labels(points, sizes, width=3, height=3, clearance=0.03)
        boxes = [Box(x, y, 0.06, 0.05) for x, y in places]
        for number, box in enumerate(boxes):
            assert all(box.overlap(other) < 1e-9 for other in boxes[:number])
            assert all(box.overlap(Box(x, y, 0.03, 0.03)) < 1e-9 for x, y in points)
            assert box.outside(3, 3) == 0

    def test_the_same_points_give_the_same_places(self) -> None:
        points, sizes = [(0.1, 0.1), (0.1, 0.1), (0.9, 0.9)], [(0.1, 0.1)] * 3
        first = place_labels(points, sizes, width=1, height=1, clearance=0.02)
        assert first == place_labels(points, sizes, width=1, height=1, clearance=0.02)

    @pytest.mark.parametrize(
        "name", ["model_bias_scores", pytest.param("rank_distribution", marks=pytest.mark.slow)]
    )
    def test_names_of_rows_do_not_overlap(self, study: FinishedStudy, name: str) -> None:
        figure = draw_figure(study, name, width="single").figure
        figure.canvas.draw()
        for axes in figure.axes:
            boxes = [label.get_window_extent() for label in axes.get_yticklabels() if label.get_text()]
            boxes.sort(key=lambda box: box.y0)
            assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))

    def test_a_dollar_sign_in_a_name_is_no_formula(self, three: Path, tmp_path: Path) -> None:
        study = FinishedStudy.load(three)
        metrics = study.metrics.assign(detector=study.metrics["detector"].astype(str).replace("mivolo", "$a_b$"))
        renamed = FinishedStudy.load(write_result_folder(tmp_path, metrics))
        assert "$a b$" in texts(draw_figure(renamed, "bias_deviation", width="single").figure)


class TestCaptions:
    @pytest.mark.parametrize(
        "name", [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ANY_STUDY]
    )
    def test_every_caption_says_n_and_takes_care(self, study: FinishedStudy, name: str) -> None:
        caption = draw_figure(study, name, width="single").caption
        assert "n = " in caption
        assert caption.endswith(filtering_and_accuracy(study.metrics).ethics_note + "\n")
        assert "interval" in caption or "bootstrap" in caption or "max-t" in caption
        assert "nan" not in caption.split()

    def test_errors_are_named(self, tmp_path: Path) -> None:
        folder = write_study(tmp_path / "study", detectors=DETECTORS[4:5], prompts=2)
        caption = draw_figure(FinishedStudy.load(folder), "bias_deviation", width="single").caption
        assert "Face++: not scored on SD 3 (error on 40 of 40 images)." in caption

    @pytest.mark.slow
    def test_a_mean_over_some_t2i_models_is_in_no_figure_one_over_all(self, tmp_path: Path) -> None:
        study = FinishedStudy.load(write_study(tmp_path / "study", detectors=DETECTORS[3:5], prompts=2))
        drawing = draw_figure(study, "detected_against_actual", width="single")
        titles = {axes.get_title().split("\n")[0]: axes.get_title().split("\n")[1] for axes in drawing.figure.axes}
        assert titles["Face++"] == "\u2013 errors"
        assert titles["BLIP-2"][0] == "0"
        assert (
            "Face++: 2 of 6 outputs without a score left out; marks of SDXL, Dreamlike alone." in drawing.caption
        )
        assert "\u2013 errors" in texts(draw_figure(study, "error_causes", width="single").figure)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_studies_draw(kind: str, tmp_path: Path) -> None:
    study = FinishedStudy.load(write_study(tmp_path / "study", **DEGENERATE[kind]))
    drawings = {name: draw_figure(study, name, width="single") for name in ANY_STUDY}
    written = {name: " ".join(texts(drawing.figure)) for name, drawing in drawings.items()}
    if kind == "only_low_quality":
        assert "no output has a score" in written["prompt_bias_histogram"]
        assert "no actual score" in written["bias_deviation"]
        assert "no detector has both" in written["filter_plane"]
        assert "no image is clear" in drawings["filter_plane"].caption
    if kind == "no_low_quality":
        assert "(no filter rate)" in written["filter_plane"]
        assert "No image is low-quality" in drawings["filter_plane"].caption
        assert "F1 is not drawn: no image is low-quality" in drawings["filter_plane"].caption
        assert not any(text.startswith("F1 ") for text in texts(drawings["filter_plane"].figure))
        assert "Filter rate" not in texts(drawings["threshold_sweep"].figure)
        assert "no line: filter rate." in drawings["threshold_sweep"].caption
    if kind == "filters_everything":
        assert "no image kept" in written["bias_deviation"]
        assert "no image kept" in written["model_bias_scores"]
        assert "0.0" not in written["bias_deviation"].split()
        assert "nothing to sweep" in drawings["threshold_sweep"].caption


class TestTicks:
    """Numbers beside axes can be read."""

    @pytest.mark.parametrize("room", [1.2, 2.0, 2.7, 6.4])
    @pytest.mark.parametrize("span", [(10, 100_000), (94, 365), (500, 1_900), (60, 70), (9_000, 11_000), (1, 3)])
    def test_numbers_of_labels_are_round_and_do_not_touch(self, span: tuple[int, int], room: float) -> None:
        ticks = label_ticks(*span, room=room)
        assert 2 <= len(ticks) <= 6
        assert span[0] <= ticks[0] < ticks[-1] <= span[1]
        places = [room * math.log(tick / span[0]) / math.log(span[1] / span[0]) for tick in ticks]
        for (left, before), (right, after) in pairwise(zip(places, ticks, strict=True)):
            assert right - left > (text_width(f"{before:,}") + text_width(f"{after:,}")) / 2

    def test_prompts_of_three_t2i_models_below_each_other_can_be_read(self, study: FinishedStudy) -> None:
        prompts = [(f"prompt_{number}", 1 - number / 60) for number in range(60)]
        rows = [
            {
                **dict.fromkeys(METRIC_COLUMNS),
                "detector": GROUND_TRUTH,
                "attribute": "gender",
                "t2i_model": model,
                "category": "profession",
                "prompt_id": prompt,
                "metric": "prompt_bias_score",
                "variant": variant,
                "value": score,
                "ci_low": score - 0.2,
                "ci_high": score,
                "n": 5,
                "n_left_out": 0,
            }
            for model in study.t2i_models
            for prompt, score in prompts
            for variant in (PREDICTION_POWERED, LABELS_ONLY)
        ]
        results = ResultFolder.open(study.folder)
        results._tables["metrics"] = pd.concat([study.metrics, pd.DataFrame(rows)], ignore_index=True)
        for width in WIDTHS:
            drawing = draw_figure(results.of_attribute(), "prompt_estimates", width=width)
            drawing.figure.canvas.draw()
            for axes in drawing.figure.axes:
                boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
                assert len(boxes) >= 15
                assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))
            said = "Of the 60 prompts the 20 most biased (in the figure of double width: 50) are shown"
            assert said in drawing.caption

    def test_no_line_of_the_histogram_runs_through_its_words(self, study: FinishedStudy) -> None:
        figure = draw_figure(study, "prompt_bias_histogram", width="single").figure
        figure.canvas.draw()
        (axes,) = figure.axes
        words = min(text.get_window_extent().y0 for text in axes.texts)
        lines = [axes.transData.transform((0, tick))[1] for tick in axes.get_yticks()]
        assert 3 <= len(lines) <= 6
        assert max(lines) < words


class TestFiles:
    @pytest.mark.slow
    def test_files_are_equal_when_drawn_again(self, three: Path, tmp_path: Path) -> None:
        for folder in ("one", "two"):
            study = FinishedStudy.load(three)
            write_figures(
                study, tmp_path / folder, names=["filter_plane"], widths=("single",), formats=("pdf", "png", "svg")
            )
        names = sorted(path.name for path in (tmp_path / "one").iterdir())
        kinds = ("pdf", "png", "svg")
        assert names == ["figures.json", "filter_plane.txt", *(f"filter_plane_single.{kind}" for kind in kinds)]
        for name in names:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

    def test_fonts_are_embedded_as_fonts_and_no_date_is_written(self, three: Path, tmp_path: Path) -> None:
        write_figures(
            FinishedStudy.load(three), tmp_path, names=["confusion"], formats=("pdf",), widths=("single",)
        )
        content = (tmp_path / "confusion_single.pdf").read_bytes()
        assert b"/FontFile2" in content  # TrueType
        assert b"/Type3" not in content
        assert b"CreationDate" not in content

    @pytest.mark.parametrize(("width", "inches"), [("single", 3.3), ("double", 7.0)])
    def test_figures_are_as_wide_as_a_column_and_no_taller_than_a_page(
        self, study: FinishedStudy, width: Any, inches: float
    ) -> None:
        for name in ("prompt_heat_map", "model_bias_scores", "confusion"):
            size = draw_figure(study, name, width=width).figure.get_size_inches()
            assert size[0] == pytest.approx(inches) or (name == "prompt_heat_map" and size[0] < inches)
            assert size[1] <= 9.2

    @pytest.mark.slow
    def test_several_processes_write_what_one_writes(self, three: Path, tmp_path: Path) -> None:
        study, names = FinishedStudy.load(three), ("filter_plane", "confusion", "bias_deviation")
        for folder, workers in (("one", 1), ("two", 2)):
            written = write_figures(study, tmp_path / folder, names=names, widths=("single",), workers=workers)
            assert [path.parent.name for path in written.files] == [folder] * 9
            assert not written.not_drawn
        for path in (tmp_path / "one").iterdir():
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()

    def test_what_needs_the_image_set_is_named_when_it_is_gone(self, three: Path, tmp_path: Path) -> None:
        metrics = FinishedStudy.load(three).metrics_of_all_attributes
        study = FinishedStudy.load(write_result_folder(tmp_path, metrics))
        written = write_figures(
            study, tmp_path / "out", names=["filter_plane", "confusion"], formats=("png",), widths=("single",)
        )
        assert list(written.not_drawn) == ["confusion"]
        assert (tmp_path / "out" / "filter_plane_single.png").is_file()
        with pytest.raises(DetectorBenchError):
            write_figures(study, tmp_path / "out", names=["confusion"])

    def test_prompts_may_be_called_null(self, study: FinishedStudy, tmp_path: Path) -> None:
        metrics = study.metrics.assign(prompt_id=study.metrics["prompt_id"].astype(str).replace("postman", "null"))
        assert ("profession", "null") in FinishedStudy.load(write_result_folder(tmp_path, metrics)).prompts

    def test_mistakes_are_told(self, study: FinishedStudy, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="did you mean 'filter_plane'"):
            draw_figure(study, "filter_plain")
        with pytest.raises(ConfigError, match="unknown format 'gif'"):
            write_figures(study, tmp_path, formats=("gif",))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="unknown width 'wide'"):
            write_figures(study, tmp_path, widths=("wide",))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="is no result folder"):
            FinishedStudy.load(tmp_path)

    def test_the_command_writes_beside_the_study(self, three: Path, tmp_path: Path) -> None:
        import typer

        app = typer.Typer()
        app.command()(figures_command)
        options = ["--only", "filter_plane", "--format", "png", "--width", "single", "--out", str(tmp_path)]
        done = CliRunner().invoke(app, [str(three), *options])
        assert done.exit_code == 0, done.output
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "figures.json",
            "filter_plane.txt",
            "filter_plane_single.png",
        ]

    def test_the_page_of_the_script_lists_every_figure(self) -> None:
        page = (PAPER_FIGURES / "README.md").read_text(encoding="utf-8")
        listed = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE))
        assert listed == known_figures()

    @pytest.mark.slow
    def test_the_script_draws_one_figure_and_says_what_is_wrong(self, three: Path, tmp_path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(PAPER_FIGURES.parent)}
        command = [sys.executable, PAPER_FIGURES / "draw.py"]
        subprocess.run([*command, "bias_deviation", three, tmp_path], check=True, env=environment)
        assert {path.stem.removesuffix("_double") for path in tmp_path.glob("*_double.*")} == {"bias_deviation"}
        wrong = subprocess.run(
            [*command, "filter_plan", three, tmp_path],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert wrong.returncode == 1
        (said,) = wrong.stderr.splitlines()
        assert said.startswith("unknown figure 'filter_plan': did you mean 'filter_plane'")

    @pytest.mark.slow
    def test_matplotlib_is_imported_by_the_first_figure_only(self) -> None:
        code = "import sys, detector_bench.figures; sys.exit('matplotlib' in sys.modules)"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0


_LARGEST_DIFFERENCE = 1.0
"""Root of the mean square over all channels, of 255. A lost mark gives 1.3, a lost label 2 or more."""


@pytest.mark.parametrize(
    "name", [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ANY_STUDY]
)
def test_figures_look_as_they_did(study: FinishedStudy, name: str, tmp_path: Path) -> None:
    """Compares with `tests/figures/`; after a wanted change, look at the new pictures and put them there.

    UPDATE_FIGURES=1 pytest tests/test_figures.py -m "slow or not slow" -k look_as
    """
    from matplotlib.testing.compare import compare_images

    # Fixed intervals, so that pictures do not hang on how resamples are drawn.
    fixed = study.metrics.assign(ci_low=study.metrics["value"] - 0.1, ci_high=study.metrics["value"] + 0.05)
    results = ResultFolder.open(study.folder)
    results._tables["metrics"] = fixed
    figure = draw_figure(results.of_attribute(), name, width="single").figure
    reference, drawn = REFERENCES / f"{name}.png", tmp_path / f"{name}.png"
    figure.savefig(drawn, dpi=80, metadata={"Software": None})
    if os.environ.get("UPDATE_FIGURES"):
        shutil.copy(drawn, reference)
        (REFERENCES / "renderer.txt").write_text(_renderer() + "\n", encoding="utf-8")
    if _renderer() != (REFERENCES / "renderer.txt").read_text(encoding="utf-8").strip():
        pytest.skip("other versions of matplotlib and FreeType draw letters differently")
    difference = compare_images(str(reference), str(drawn), tol=_LARGEST_DIFFERENCE)
    assert difference is None, difference


def test_captions_say_attributes_in_words(tmp_path: Path) -> None:
    said = caption("Skin.", attribute="skin_tone")
    assert said == "Skin. Perceived skin tone, as seen in synthetic images; not an identity.\n"
    metrics = pd.DataFrame([dict.fromkeys(METRIC_COLUMNS) | {"detector": "net", "attribute": "skin_tone"}])
    folder = write_result_folder(tmp_path, metrics.astype({"value": float}))
    assert FinishedStudy.load(folder).perceived == "perceived skin tone"


def _renderer() -> str:
    from matplotlib import ft2font

    minor = ".".join(matplotlib.__version__.split(".")[:2])
    return f"matplotlib {minor}, FreeType {ft2font.__freetype_version__}"
