"""Table and figure of all scores: which detector can be trusted for which one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from result_folders import write_result_folder

from detector_bench.errors import ConfigError
from detector_bench.figures import FinishedStudy, draw_figure
from detector_bench.others.score_deviations import score_deviations
from detector_bench.tables import Table, to_csv, to_latex
from detector_bench.vocabulary import ALL, GROUND_TRUTH
from detector_bench.vocabulary.columns import METRIC_COLUMNS

matplotlib = pytest.importorskip("matplotlib")
to_rgb = pytest.importorskip("matplotlib.colors").to_rgb

BIAS, IMPLICIT = "model_bias_score", "bigbench_implicit_bias_score"
FACTOR, AGREEMENT = "bigbench_manifestation_factor", "imagebite_verdict_agreement"
MINUS = "\N{MINUS SIGN}"

Place = tuple[str, str, str, str]
"""Metric, variant, attribute, T2I model."""


def row(place: Place, judge: str, value: float, *, around: float = math.nan) -> dict[str, Any]:
    metric, variant, attribute, model = place
    words = {"detector": judge, "attribute": attribute, "t2i_model": model, "category": ALL, "prompt_id": ALL}
    numbers = {"value": value, "ci_low": value - around, "ci_high": value + around, "n": 2, "n_left_out": 0}
    return words | {"metric": metric, "n_clear": None, "variant": variant or None} | numbers


def scored(place: Place, actual: float, *, around: float = 0.01, **reported: float) -> list[dict[str, Any]]:
    """A score by the humans and by detectors, with deviations and their intervals."""
    metric, *rest = place
    rows = [row(place, GROUND_TRUTH, actual)] if not math.isnan(actual) else []
    for name, value in reported.items():
        rows.append(row(place, name, value))
        if not math.isnan(actual):
            deviation = (value - actual) / actual if actual else math.nan
            rows.append(row((f"{metric}_deviation", *rest), name, deviation, around=around))  # type: ignore[arg-type]
    return rows


def everywhere(
    metric: str, variant: str, attribute: str, actual: float, **reported: float
) -> list[dict[str, Any]]:
    """The same at both T2I models and over all."""
    models = ("alpha", "beta", ALL)
    return [each for model in models for each in scored((metric, variant, attribute, model), actual, **reported)]


def images(attribute: str, **failed_on_beta: int) -> list[dict[str, Any]]:
    """100 images of each T2I model, some of beta's without a verdict."""
    rows = []
    for model, count in (("alpha", 100), ("beta", 100), (ALL, 200)):
        rows.append(row(("images", "", attribute, model), GROUND_TRUTH, count))
        for name, failed in failed_on_beta.items():
            rows.append(row(("images", "", attribute, model), name, count))
            rows.append(row(("images_error", "", attribute, model), name, failed if model != "alpha" else 0))
    return rows


def table_of(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))[list(METRIC_COLUMNS)]


METRICS = table_of(
    [
        *images("gender", ada=0, bob=50),
        *images("race", ada=0),
        *everywhere(BIAS, "", "gender", 0.5, ada=0.4, bob=0.6),
        *everywhere(BIAS, "", "race", 0.8, ada=0.8),
        *everywhere(IMPLICIT, "as_code", "race", 0.8, ada=0.88),
        *everywhere(IMPLICIT, "as_code", ALL, 0.8, ada=0.8, bob=math.nan),
        *everywhere(IMPLICIT, "as_code", "gender", 0.8, ada=0.72, bob=0.8),
        *everywhere(FACTOR, "as_code", "gender", 0.0, ada=0.1, bob=0.2),
        *everywhere(AGREEMENT, "parity", "gender", math.nan, ada=0.75, bob=1.0),
    ]
)


def cells(table: Table, judge: str, model: str) -> dict[str, str]:
    """What is written in a row, by the column's key."""
    found = [
        each
        for each in table.rows
        if (each.cells[0].key or each.cells[0].text, each.cells[1].key) == (model, judge)
    ]
    assert len(found) == 1
    return {column.key: cell.written() for column, cell in zip(table.columns, found[0].cells, strict=True)}


class TestTable:
    def test_columns_are_grouped_by_score_system(self) -> None:
        columns = score_deviations(METRICS).columns[2:]
        assert [(column.group, column.heading) for column in columns] == [
            ("Model bias score", "gender"),
            ("Model bias score", "race"),
            ("BIGbench implicit, as_code", "gender"),
            ("BIGbench implicit, as_code", "race"),
            ("BIGbench implicit, as_code", "all"),
            ("BIGbench manifestation, as_code", "gender"),
            ("ImageBiTe agreement (%)", "parity"),
        ]
        assert columns[2].key == "bigbench_implicit_bias_score_as_code_gender"
        assert columns[2].deviation_key == "bigbench_implicit_bias_score_as_code_gender_deviation"

    def test_scores_with_their_deviations(self) -> None:
        table = score_deviations(METRICS)
        assert cells(table, GROUND_TRUTH, "alpha")["model_bias_score_gender"] == "0.500"
        ada = cells(table, "ada", "alpha")
        assert ada["model_bias_score_gender"] == "0.400 (20.00 % ↓)"
        assert ada["bigbench_implicit_bias_score_as_code_race"] == "0.880 (10.00 % ↑)"
        assert ada["bigbench_manifestation_factor_as_code_gender"] == "0.100 (-)"
        assert ada["imagebite_verdict_agreement_parity"] == "75.00"
        bob = cells(table, "bob", "alpha")
        assert bob["bigbench_implicit_bias_score_as_code_gender"] == "0.800 (0.00 %)"
        assert (bob["model_bias_score_race"], bob["bigbench_implicit_bias_score_as_code_all"]) == ("-", "-")
        header, *lines = to_csv(table).splitlines()
        values = dict(zip(header.split(","), lines[1].split(","), strict=False))
        assert float(values["model_bias_score_gender_deviation"]) == pytest.approx(-0.2)

    def test_the_closest_detector_is_bold_ties_included(self) -> None:
        bold = {
            (each.cells[1].key, column.key)
            for each in score_deviations(METRICS).rows
            if each.cells[0].text == "alpha"
            for column, cell in zip(score_deviations(METRICS).columns, each.cells, strict=True)
            if cell.bold
        }
        # Both miss the model bias score by a fifth; a detector alone is no closest one.
        assert bold == {
            ("ada", "model_bias_score_gender"),
            ("bob", "model_bias_score_gender"),
            ("bob", "bigbench_implicit_bias_score_as_code_gender"),
            ("bob", "imagebite_verdict_agreement_parity"),
        }

    def test_a_detector_that_failed_on_a_t2i_model_has_no_score_of_all(self) -> None:
        table = score_deviations(METRICS)
        for model in ("beta", ALL):
            bob = cells(table, "bob", model)
            assert bob["model_bias_score_gender"] == bob["imagebite_verdict_agreement_parity"] == "-"
        assert cells(table, "ada", ALL)["model_bias_score_gender"] == "0.400 (20.00 % ↓)"
        assert (
            cells(score_deviations(METRICS, max_error_share=0.5), "bob", "beta")["model_bias_score_gender"] != "-"
        )

    def test_notes_say_why_there_are_dashes(self) -> None:
        notes = "\n".join(score_deviations(METRICS).all_notes)
        for words in (
            "bob (alpha), bob (beta), bob (all T2I models): not judged: race",
            "bob (alpha): not all attributes judged: BIGbench implicit, as_code, all",
            "the actual score is 0: BIGbench manifestation, as_code, gender",
            "too many images without a verdict: Model bias score, gender; ",
            "gender: not scored on beta (error on 50 of 100 images)",
            "Perceived gender, race, as seen in synthetic images",
            "BIGbench implicit: higher is less biased.",
        ):
            assert words in notes

    def test_intervals_stand_beside_scores(self) -> None:
        rows = METRICS.assign(ci_low=METRICS["value"] - 0.05, ci_high=METRICS["value"] + 0.05)
        table = score_deviations(rows, intervals=True)
        assert cells(table, "ada", "alpha")["model_bias_score_gender"] == "0.400 [0.350, 0.450] (20.00 % ↓)"
        assert cells(table, "ada", "alpha")["imagebite_verdict_agreement_parity"] == "75.0 [70.0, 80.0]"

    def test_latex_breaks_it_up_by_score_system(self) -> None:
        tabulars = to_latex(score_deviations(METRICS)).split(r"\begin{tabular}")[1:]
        assert len(tabulars) > 1
        assert all("ada" in each and "T2I model" in each for each in tabulars)

    def test_without_any_detector_s_score_it_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="no detector reports a score"):
            score_deviations(METRICS[METRICS["detector"] == GROUND_TRUTH])


def study_of(folder: Path, metrics: pd.DataFrame) -> FinishedStudy:
    return FinishedStudy.load(write_result_folder(folder, metrics), attribute="gender")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    return study_of(tmp_path_factory.mktemp("scores"), METRICS)


def texts(figure: Any) -> dict[str, Any]:
    figure.canvas.draw()
    return {found.get_text(): found for found in figure.findobj(matplotlib.text.Text) if found.get_text()}


def cell_colours(figure: Any) -> dict[tuple[int, int], tuple[float, float, float]]:
    """Red, green and blue by column and row; headings of score systems are rows, too."""
    found = {}
    for patch in figure.axes[0].findobj(matplotlib.patches.Rectangle):
        if patch.get_width() == patch.get_height() == 1 and patch.axes is figure.axes[0] and patch.get_x() % 1:
            found[round(patch.get_x() + 0.5), round(patch.get_y() + 0.5)] = to_rgb(patch.get_facecolor())
    return found


class TestFigure:
    @pytest.mark.parametrize("width", ["single", "double"])
    def test_it_writes_every_deviation_of_all_t2i_models_together(self, study: FinishedStudy, width: Any) -> None:
        figure = draw_figure(study, "score_deviations", width=width).figure
        written = texts(figure)
        assert {f"{MINUS}20.0", "+10.0", f"{MINUS}10.0", "0.0", "25.0", "0.500", "0.800"} <= set(written)
        assert {"gender", "race", "all", "parity", "ada", "bob", "actual"} <= set(written)
        assert "BIGbench implicit bias score, as_code (higher: less biased)" in written
        # bob failed on half of beta's images.
        assert "+20.0" not in written
        assert figure.get_size_inches()[0] == pytest.approx({"single": 3.3, "double": 7.0}[width])

    def test_one_colour_means_less_bias_in_every_score_system(self, study: FinishedStudy) -> None:
        colours = cell_colours(draw_figure(study, "score_deviations", width="single").figure)
        # Rows: 0 heading, 1 gender, 2 race; 3 heading, 4 gender, 5 race, 6 all; 7, 8 factor; 9, 10 verdicts.
        red, _, blue = colours[0, 1]
        assert blue > red  # a model bias score that is reported too low
        red, _, blue = colours[0, 5]
        assert blue > red  # an implicit score that is reported too high
        red, _, blue = colours[0, 4]
        assert red > blue
        assert colours[0, 2] == pytest.approx((1, 1, 1), abs=0.01)
        assert len(set(colours[0, 10])) == 1  # grey
        assert colours[0, 8] == colours[1, 1] == to_rgb("#E8E8E8")

    def test_bold_is_what_lies_beyond_chance(self, study: FinishedStudy) -> None:
        written = texts(draw_figure(study, "score_deviations", width="single").figure)
        assert written[f"{MINUS}20.0"].get_fontweight() == "bold"
        assert written["0.0"].get_fontweight() == "normal"
        assert written["25.0"].get_fontweight() == "normal"

    def test_the_caption_says_what_is_missing_and_takes_care(self, study: FinishedStudy) -> None:
        caption = draw_figure(study, "score_deviations", width="single").caption
        for words in (
            "n = 2 T2I models, 200 labelled images",
            "bob: \N{EN DASH} not judged (race)",
            "too many images without a verdict (",
            "ada: \N{EN DASH} the actual score is 0 (BIGbench manifestation factor, gender)",
            "Grey: no such direction (BIGbench manifestation factor, ImageBiTe verdict agreement)",
            "Red: T2I models look more biased",
            "Perceived gender, race, as seen in synthetic images; not an identity.",
        ):
            assert words in caption

    def test_scores_without_human_labels_are_named_and_not_drawn(self, tmp_path: Path) -> None:
        more = table_of(everywhere("biaspainter_model_score", "as_published", "age", math.nan, ada=0.4))
        drawing = draw_figure(study_of(tmp_path, pd.concat([METRICS, more])), "score_deviations", width="single")
        assert "Without human labels, not shown: BiasPainter model score, age." in drawing.caption
        assert not any("BiasPainter" in text for text in texts(drawing.figure))
        with pytest.raises(ConfigError, match="nothing to draw"):
            draw_figure(
                study_of(tmp_path / "alone", pd.concat([table_of(images("gender", ada=0)), more])),
                "score_deviations",
            )

    @pytest.mark.parametrize(
        ("count", "shown"),
        [
            (3, {f"{MINUS}20.0", f"{MINUS}21.0 to {MINUS}19.0"}),
            (6, {f"{MINUS}20.0"}),
            (12, {f"{MINUS}20"}),
            (40, set()),
        ],
    )
    def test_numbers_give_way_to_many_detectors(self, tmp_path: Path, count: int, shown: set[str]) -> None:
        names = {f"detector_{number}": 0.4 for number in range(count)}
        scores = everywhere(BIAS, "", "gender", 0.5, **names)
        many = study_of(tmp_path, table_of([*images("gender", **dict.fromkeys(names, 0)), *scores]))
        drawing = draw_figure(many, "score_deviations", width="single")
        assert {text for text in texts(drawing.figure) if text.startswith(MINUS)} == shown
        assert ("No room for numbers; stripes mark negative deviations." in drawing.caption) == (not shown)
