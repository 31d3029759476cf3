"""What hangs on BiasPainter's thresholds, which pairs its gallery shows, and which words people call neutral."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from biaspainter_parts import judgements, predictions, row, write
from PIL import Image
from result_folders import write_result_folder
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.errors import ConfigError, DataError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.biaspainter.biased_words import DIRECTIONS
from detector_bench.others.biaspainter.formulas import MODEL_SCORE, PRESETS, WORD_SCORE
from detector_bench.others.biaspainter.score_system import BiasPainterScores
from detector_bench.others.biaspainter.suspicious_pairs import suspicious_pairs
from detector_bench.others.biaspainter.threshold_ablation import definition_of, threshold_ablation
from detector_bench.others.biaspainter.word_ratings.neutrality import (
    interval_alpha,
    rated_prompts,
    read_prompts,
    read_ratings,
)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def results(tmp_path: Path) -> Path:
    known = judgements(tmp_path / "pairs")
    folder = tmp_path / "result"
    (folder / "predictions" / "d").mkdir(parents=True)
    pq.write_table(predictions(), folder / "predictions" / "d" / "part.parquet")
    rows = BiasPainterScores().rows(known, Intervals(method="none"))
    write_result_folder(folder, rows, image_set="../pairs", max_error_share=0.2)
    return folder


class TestThresholds:
    def test_scores_at_another_threshold_are_those_computed_with_it(self, tmp_path: Path) -> None:
        known = judgements(tmp_path / "pairs")
        usual = BiasPainterScores().rows(known, Intervals(method="none"))
        other = BiasPainterScores(age_threshold=40).rows(known, Intervals(method="none"))
        found = threshold_ablation(usual, thresholds={"age": (25, 40)}, judge="d", max_error_share=0.5)
        assert [(each.threshold, each.t2i_model) for each in found] == [(25, "A"), (25, "B"), (40, "A"), (40, "B")]
        for each in found:
            table = usual if each.threshold == 25 else other
            place = {"attribute": "age", "detector": "d", "t2i_model": each.t2i_model}
            score = row(table, MODEL_SCORE, category="profession", **place).value
            assert each.score == pytest.approx(score)
            gender = row(table, MODEL_SCORE, **{**place, "attribute": "gender"}, category="profession").value
            assert each.average == pytest.approx((score + gender) / 2)
            words = table[(table["metric"] == WORD_SCORE) & (table["detector"] == "d")]
            words = words[(words["attribute"] == "age") & (words["t2i_model"] == each.t2i_model)]["value"].dropna()
            assert each.words == len(words)
            assert each.biased == ((words >= 0.2).sum(), (words <= -0.2).sum())

    def test_an_order_by_the_average_may_turn(self) -> None:
        """A changes age by 1.0 and gender by 0.1, B by 0.6 and 0.4: at a threshold of half, 2.1 against 1.6; at
        twice, 0.6 against 0.7."""
        scores = {("A", "age"): 1.0, ("A", "gender"): 0.1, ("B", "age"): 0.6, ("B", "gender"): 0.4}
        rows = [
            {
                "detector": "d",
                "attribute": attribute,
                "t2i_model": model,
                "category": "x",
                "n": 1,
                "prompt_id": "all",
                "metric": MODEL_SCORE,
                "variant": "as_published",
                "value": value,
                "n_left_out": 0,
                "n_clear": None,
                "ci_low": np.nan,
                "ci_high": np.nan,
            }
            for (model, attribute), value in scores.items()
        ]
        found = threshold_ablation(pd.DataFrame(rows), thresholds={"age": (12.5, 50)})
        assert [(each.t2i_model, each.average, each.rank) for each in found] == [
            ("A", pytest.approx(1.05), 1),
            ("B", pytest.approx(0.8), 2),
            ("A", pytest.approx(0.3), 2),
            ("B", pytest.approx(0.35), 1),
        ]

    def test_thresholds_in_a_variant_count(self) -> None:
        assert definition_of("as_published") == PRESETS["as_published"]
        own = definition_of("as_code, age 30, skin_tone 12.5")
        assert (own.name, own.age_threshold, own.skin_tone_threshold) == ("as_code", 30, 12.5)
        assert definition_of(BiasPainterScores(age_threshold=7).variant).age_threshold == 7
        assert definition_of("as_published, detector_only").age_threshold == 25

    def test_mistakes(self, tmp_path: Path) -> None:
        usual = BiasPainterScores().rows(judgements(tmp_path / "pairs"), Intervals(method="none"))
        with pytest.raises(ConfigError, match="'gender' has no threshold"):
            threshold_ablation(usual, thresholds={"gender": (1,)})
        with pytest.raises(ConfigError, match="threshold of age: 0"):
            threshold_ablation(usual, thresholds={"age": (0,)})
        with pytest.raises(ConfigError, match="neither age nor skin tone is scored"):
            threshold_ablation(usual, judge="ground_truth")

    def test_from_the_command_line(self, results: Path, tmp_path: Path) -> None:
        run("biaspainter", "thresholds", results, "--age-threshold", 50, "--judge", "d", "--out", tmp_path / "out")
        table = pd.read_csv(tmp_path / "out" / "biaspainter_thresholds.csv")
        assert table["threshold"].unique().tolist() == ["50 years"]
        # Two of four pairs of B are 50 years older: 1 each, of four.
        assert table.set_index("t2i_model").loc["B", "score"] == 0.5


class TestPairs:
    def test_the_largest_changes_of_different_words_and_photos(self, tmp_path: Path) -> None:
        known = judgements(tmp_path / "pairs")
        found = suspicious_pairs(known, judge="d", preset=PRESETS["as_published"], top=2)
        female, male = DIRECTIONS["gender"]
        older, younger = DIRECTIONS["age"]
        assert [(each.image_id, each.score) for each in found["gender", female][0]] == [("A_nurse_s0", 1.0)]
        pairs, number = found["gender", male]
        assert (len(pairs), number) == (1, 2)  # both of one word
        pairs, number = found["age", older]
        assert [(each.seed_image_id, each.image_id, each.score) for each in pairs] == [("s0", "B_nurse_s0", 2.0)]
        assert number == 3
        pairs, number = found["age", younger]
        assert ([each.score for each in pairs], number) == ([-1.0], 1)

    def test_mistakes(self, tmp_path: Path) -> None:
        known = judgements(tmp_path / "pairs")
        with pytest.raises(ConfigError, match="nobody called 'e' judges these pairs"):
            suspicious_pairs(known, judge="e", preset=PRESETS["as_published"], top=2)
        with pytest.raises(ConfigError, match="top: 0"):
            suspicious_pairs(known, judge="d", preset=PRESETS["as_published"], top=0)

    def test_the_figure_is_drawn_where_it_is_asked_for(self, results: Path, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        from detector_bench.figures.drawing import paper_style
        from detector_bench.figures.figure_files import figures_of
        from detector_bench.others.biaspainter.suspicious_pairs import draw
        from detector_bench.results.finished_study import FinishedStudy

        for number, path in enumerate(pd.read_csv(tmp_path / "pairs" / "images.csv")["path"]):
            if number % 3:  # the others are missing
                (tmp_path / "pairs" / path).parent.mkdir(exist_ok=True)
                Image.new("RGB", (30, 40), (20 * number % 255, 99, 99)).save(tmp_path / "pairs" / path)
        study = FinishedStudy.load(results)
        assert "biaspainter_pairs" not in figures_of(study)
        assert {"biaspainter_word_scores", "biaspainter_thresholds"} <= set(figures_of(study))
        with paper_style():
            drawing = draw(study, width="single")
        texts = [text.get_text() for text in drawing.figure.texts]
        assert texts[0] == "Gender: male to female"
        assert "nurse (1.00)" in texts
        assert any("no image" in [text.get_text() for text in axes.texts] for axes in drawing.figure.axes)
        assert "male to female 1, female to male 2, older 3, younger 1" in drawing.caption


PROMPTS = [
    ["p0", "nurse", "a person who is a nurse"],
    ["p1", "brave", "a brave person"],
    ["p2", "actress", "an actress"],
]


class TestNeutrality:
    def prompts(self, folder: Path) -> Path:
        return write(folder / "prompts.csv", ("prompt_id", "word", "prompt"), PROMPTS)

    def test_from_the_sheets_to_the_prompts_that_stay(self, tmp_path: Path) -> None:
        prompts = self.prompts(tmp_path)
        given = {"anna": (3, 1, 5), "ben": (4, 1, 5), "cleo": (1, 2, 5)}
        for seed, (name, ratings) in enumerate(given.items()):
            sheet = tmp_path / f"{name}.csv"
            run("biaspainter", "rating-sheet", prompts, "--sheet", sheet, "--seed", seed)
            rows = list(csv.reader(sheet.open(encoding="utf-8")))
            by_prompt = dict(zip(("p0", "p1", "p2"), ratings, strict=True))
            write(sheet, rows[0], [[*each[:-1], by_prompt[each[0]]] for each in rows[1:]])
        sheets = [tmp_path / f"{name}.csv" for name in given]
        said = run("biaspainter", "neutrality", prompts, *sheets, "--out", tmp_path / "out").stdout
        assert "2 words are neutral, 1 dropped, 0 not rated; 1 are open." in said
        table = pd.read_csv(tmp_path / "out" / "biaspainter_neutrality.csv")
        assert table["word"].tolist() == ["actress", "nurse", "brave"]
        assert table["mean"].round(3).tolist() == [5, 2.667, 1.333]
        assert pd.read_csv(tmp_path / "out" / "prompts.csv")["prompt_id"].tolist() == ["p0", "p1"]
        with pytest.raises(ConfigError, match="may hold ratings"):
            run("biaspainter", "rating-sheet", prompts, "--sheet", sheets[0], "--seed", 1)

    def test_alpha_of_numbers(self) -> None:
        """By hand: pairs (1, 2), (3, 3), (4, 5), so 2 * (1 + 0 + 1) / 6 = 2/3 are observed; of 1, 2, 3, 3, 4, 5
        are expected 2 * 6 * 10 / 30 = 4."""
        found = interval_alpha(np.array([[1, 3, 4, 2], [2, 3, 5, np.nan]]))
        assert found == pytest.approx(1 - (2 / 3) / 4)
        assert interval_alpha(np.array([[2.0, 4, 1], [2, 4, 1]])) == 1
        assert np.isnan(interval_alpha(np.array([[1, np.nan], [np.nan, 2]])))
        assert np.isnan(interval_alpha(np.array([[3.0, 3], [3, 3]])))

    def test_random_ratings_agree_as_by_chance(self) -> None:
        random = np.random.default_rng(1)
        found = [interval_alpha(random.integers(1, 6, (5, 60)).astype(float)) for _ in range(200)]
        assert abs(np.mean(found)) < 0.01

    def test_words_without_a_rating_stay_and_are_told(self, tmp_path: Path) -> None:
        table = read_prompts(self.prompts(tmp_path))
        rated = rated_prompts(table, {"anna": {"p0": 4}, "ben": {"p0": 4, "p1": 2}})
        assert [(each.verdict, each.ratings) for each in rated] == [
            ("dropped", 2),
            ("neutral", 1),
            ("not rated", 0),
        ]
        assert not any(each.is_open for each in rated)

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            ([["p0", "6"]], "row 2, column rating: no rating: '6'"),
            ([["p9", "1"]], "row 2, column prompt_id: unknown prompt: 'p9'"),
            ([["p0", "1"], ["p0", "2"]], "row 3, column prompt_id: prompt rated twice: 'p0'"),
        ],
    )
    def test_mistakes_in_a_sheet(self, tmp_path: Path, rows: list[list[str]], said: str) -> None:
        table = read_prompts(self.prompts(tmp_path))
        with pytest.raises(DataError) as caught:
            read_ratings([write(tmp_path / "anna.csv", ("prompt_id", "rating"), rows)], table)
        assert said in str(caught.value)

    def test_what_cannot_be_rated(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="row 3, column prompt_id: prompt listed twice"):
            read_prompts(write(tmp_path / "p.csv", ("prompt_id", "word", "prompt"), [PROMPTS[0], PROMPTS[0]]))
        table = read_prompts(self.prompts(tmp_path))
        with pytest.raises(ConfigError, match="no prompt is rated yet"):
            rated_prompts(table, {"anna": {}})
        with pytest.raises(ConfigError, match="most: 5"):
            rated_prompts(table, {"anna": {"p0": 1}}, most=5)
