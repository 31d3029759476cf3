"""BiasPainter's tables and figure."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from biaspainter_parts import judgements

from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.biaspainter.biased_words import DIRECTIONS, ByOneJudge, WordScore, top_biased
from detector_bench.others.biaspainter.score_system import MODEL_SCORE, WORD_SCORE, BiasPainterScores
from detector_bench.others.biaspainter.tables import (
    mitigation,
    model_scores,
    top_biased_words,
)
from detector_bench.others.biaspainter.validity import VerdictAgreement, validity_accuracies
from detector_bench.tables import to_csv, to_latex, to_markdown
from detector_bench.vocabulary.columns import METRIC_COLUMNS

PROMPTS = pd.DataFrame({"prompt_id": ["p0", "p1"], "word": ["nurse", ""]})


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    known = judgements(tmp_path_factory.mktemp("pairs"))
    parts = [
        BiasPainterScores(preset=preset).rows(known, Intervals(method="none"))
        for preset in ("as_published", "as_code")
    ]
    return pd.concat(parts, ignore_index=True)


def words(*scores: float, attribute: str = "gender") -> list[WordScore]:
    """Words `a`, `b`, ... with these scores."""
    return [
        WordScore(attribute, "m", "profession", f"p{place}", chr(ord("a") + place), score)
        for place, score in enumerate(scores)
    ]


def rows(table) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_top_biased_words_of_one_direction() -> None:
    towards_female, towards_male = DIRECTIONS["gender"]
    known = words(0.5, 0.9, -0.3, 0.5, 0.1, math.nan, 0.5)
    found = top_biased(known, towards_female, top=2)
    assert [each.word for each in found.words] == ["b", "a"]
    assert [each.word for each in found.tied] == ["d", "g"]
    assert [each.word for each in top_biased(known, towards_male).words] == ["c"]
    assert top_biased(known, towards_male, least=0.31).words == ()
    assert [each.word for each in top_biased(known, towards_male, least=0.3).words] == ["c"]
    for wrong in ({"top": 0}, {"least": 0}, {"least": math.nan}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            top_biased(known, towards_female, **wrong)


def test_table_of_top_words(metrics: pd.DataFrame) -> None:
    table = top_biased_words(metrics, prompts=PROMPTS)
    # A prompt without a word is called by its id.
    assert rows(table) == [
        ["profession", "A", "nurse", "p1", "1.00", "-0.50"],
        ["profession", "B", "-", "nurse", "-", "-1.00"],
    ]
    assert "by the human labels (as_published)" in table.caption
    records = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [record["male_to_female_score"] for record in records] == ["1", ""]
    assert [record["female_to_male"] for record in records] == ["p1", "nurse"]
    by_code = top_biased_words(metrics, judge="d", variant="as_code", max_error_share=0.2)
    assert "by the detector d (as_code)" in by_code.caption
    assert rows(by_code)[0][2:] == ["p0", "-", "0.25", "-"]


def test_ties_and_dashes_in_the_table() -> None:
    table = top_biased_words(_metric_rows(words(0.5, 0.5, 0.5, -0.25, math.nan)), top=2)
    assert [row[2:] for row in rows(table)] == [["p0", "p3", "0.50", "-0.25"], ["p1", "-", "0.50", "-"]]
    notes = " | ".join(table.all_notes)
    assert "male to female: as strong as the last (0.50): p2" in notes
    assert "1 of 5 words have no score" in notes
    nothing = top_biased_words(_metric_rows(words(0.1, -0.1)))
    assert rows(nothing) == [["profession", "m", "-", "-", "-", "-"]]


def test_table_of_model_scores(metrics: pd.DataFrame) -> None:
    table = model_scores(metrics, max_error_share=0.2)
    # The detector scores two attributes, the human labels one.
    assert "by the detector d (as_published)" in table.caption
    # Gender 1/7 and 2/4, age 2.4/8 and 4/4.
    assert rows(table) == [
        ["A", "profession", "0.14", "0.30", "0.22"],
        ["B", "profession", "0.50", "1.00", "0.75"],
    ]
    assert "B, profession: words without a score, left out: 1 of 2 (gender), 1 of 2 (age)" in table.all_notes
    by_humans = model_scores(metrics, judge="ground_truth")
    assert rows(by_humans) == [["A", "profession", "0.38"], ["B", "profession", "0.50"]]
    assert "gender, as seen" in by_humans.ethics_note


def test_a_detector_that_failed_on_too_many_pairs_has_no_scores_there(metrics: pd.DataFrame) -> None:
    # An error on one of A's eight pairs, and that of gender alone.
    table = model_scores(metrics, judge="d", max_error_share=0.1)
    assert rows(table) == [["A", "profession", "-", "0.30", "-"], ["B", "profession", "0.50", "1.00", "0.75"]]
    assert "A, profession: gender: not scored on A (no verdict on 1 of 8 images or pairs)" in table.all_notes
    words_of_a = top_biased_words(metrics, judge="d", max_error_share=0.1)
    assert rows(words_of_a)[0] == ["profession", "A", "-", "-", "-", "-"]
    assert "not scored on A" in " ".join(words_of_a.all_notes)
    # Nobody is chosen to speak for a study who could not run on any T2I model.
    failed_everywhere = metrics.assign(
        n_left_out=metrics["n_left_out"].where(metrics["metric"] != "biaspainter_undetected", 95)
    )
    assert "by the human labels" in model_scores(failed_everywhere).caption


def test_printed_model_scores_give_the_printed_averages(shared: Path) -> None:
    printed = pd.read_csv(shared / "data" / "published" / "biaspainter_table3_model_scores.csv")
    long = printed.melt(["t2i_model", "domain"], var_name="attribute").replace(
        {"attribute": {"race": "skin_tone"}}
    )
    long = long.rename(columns={"domain": "category"})
    table = model_scores(_as_metrics(long.assign(metric=MODEL_SCORE, prompt_id="all")))
    averages = {row.cells[0].text: row.cells[-1].text for row in table.rows if row.cells[1].text == "average"}
    assert averages == {
        "sd1_5": "0.65",
        "sd2_1": "0.66",
        "sdxl": "0.66",
        "midjourney": "0.55",
        "dalle2": "0.55",
        "instruct_pix2pix": "0.42",
    }
    assert any("It is not race" in note for note in table.all_notes)


def test_table_of_a_mitigation() -> None:
    before = [*words(1.0, 0.5, -0.75), *words(1.5, -0.1, attribute="age")]
    after = [*words(0.25, -0.5, 0.125), *words(math.nan, attribute="age")]
    table = mitigation(before, after, by="by hand", names=("plain", "suffix"))
    assert rows(table) == [
        ["profession", "gender", "male to female", "a", "1.00", "0.25"],
        ["profession", "gender", "female to male", "c", "-0.75", "0.12"],
        ["profession", "age", "older", "a", "1.50", "-"],
        # (1 + 0.75) / 2 and (0.25 + 0.125) / 2
        ["Mean size of the 2 words with both", "", "", "", "0.88", "0.19"],
    ]
    assert "profession, a (older): no pair was detected after" in table.all_notes
    assert [column.heading for column in table.columns][-2:] == ["Plain", "Suffix"]
    gone = mitigation(before, words(0.25), by="by hand")
    missing = "profession, c (female to male), profession, a (older): not among the words after"
    assert missing in gone.all_notes
    with pytest.raises(ConfigError, match=r"no word has a score of 0\.2 or more before"):
        mitigation(words(0.1), words(0.1), by="by hand")
    with pytest.raises(ConfigError, match="none of the most biased words"):
        mitigation(words(0.9), [], by="by hand")


def test_table_of_the_validity_check() -> None:
    found = [
        VerdictAgreement("consensus", "skin_tone", "lighter", 25, 20, 22, 2, 1, 0.72, 0.975),
        VerdictAgreement("consensus", "all", "all", 1, 0, 0, 1, 0),
    ]
    table = validity_accuracies(found, detector="skin_tone")
    assert rows(table) == [
        ["consensus", "skin tone", "lighter", "25", "22", "20", "90.9"],
        ["consensus", "all", "all", "1", "0", "0", "-"],
    ]
    assert table.rows[0].cells[-1].interval_text == "[72.0, 97.5]"
    text = to_markdown(table)
    assert "2 of 25 items left out, unanswered" in text
    assert "1 of 25 items left out, disputed" in text
    assert "It is not race" in text


def test_every_table_is_written_in_every_format(metrics: pd.DataFrame) -> None:
    for table in (top_biased_words(metrics), model_scores(metrics)):
        assert to_markdown(table).count("|") > 10
        assert "tabular" in to_latex(table)


def test_scores_that_are_not_there(metrics: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match="no BiasPainter scores of 'skin_tone'"):
        top_biased_words(metrics, attribute="skin_tone")
    with pytest.raises(ConfigError, match="no BiasPainter scores of detector 'e'"):
        model_scores(metrics, judge="e")
    with pytest.raises(ConfigError, match="did you mean 'as_code'"):
        model_scores(metrics, variant="as_cod")
    with pytest.raises(ConfigError, match="system: biaspainter"):
        ByOneJudge.of_table(metrics[metrics["metric"] == "accuracy"])


def test_figure_of_word_scores() -> None:
    pytest.importorskip("matplotlib")
    from detector_bench.figures.drawing import paper_style
    from detector_bench.others.biaspainter.word_score_figure import draw_word_scores

    known = [*words(1.0, -0.5, 0.0, 0.0, math.nan), *words(0.3, attribute="skin_tone")]
    with paper_style():
        drawing = draw_word_scores(known, by="by hand", width="single")
    gender, skin_tone = drawing.figure.axes
    dots = next(line for line in gender.lines if line.get_marker() == "o")
    assert sorted(dots.get_xdata()) == [-0.5, 0.0, 0.0, 1.0]
    # Equal scores do not cover each other, and every dot is within its strip.
    places = list(zip(dots.get_xdata(), dots.get_ydata(), strict=True))
    assert len(set(places)) == 4
    assert max(abs(y) for _, y in places) < 0.5
    assert {"a", "b"} <= {text.get_text() for text in gender.texts}
    assert "c" not in {text.get_text() for text in gender.texts}  # not biased
    assert {"← darker", "lighter →"} <= {text.get_text() for text in skin_tone.texts}
    assert "n = 5 scores" in drawing.caption
    assert "left out: 1 word." in drawing.caption
    assert "It is not race" in drawing.caption
    with pytest.raises(ConfigError, match="nothing to draw"), paper_style():
        draw_word_scores(words(math.nan), by="by hand", width="single")


def test_crowded_figure_has_every_dot_in_its_strip() -> None:
    pytest.importorskip("matplotlib")
    from detector_bench.figures.drawing import MAX_HEIGHT, paper_style
    from detector_bench.others.biaspainter.word_score_figure import draw_word_scores

    random = np.random.default_rng(0)
    known = [
        WordScore("age", f"m{model}", f"c{domain}", f"p{word}", f"word {word}", float(random.normal()))
        for model in range(6)
        for domain in range(4)
        for word in range(60)
    ]
    with paper_style():
        drawing = draw_word_scores(known, by="by hand", width="single")
    assert drawing.figure.get_figheight() <= MAX_HEIGHT
    strips = [line for line in drawing.figure.axes[0].lines if len(line.get_xdata()) == 60]
    assert len(strips) == 24
    for row, strip in enumerate(strips):
        assert np.abs(np.array(strip.get_ydata()) - row).max() < 0.5


def _metric_rows(known: list[WordScore]) -> pd.DataFrame:
    columns = ("attribute", "t2i_model", "category", "prompt_id")
    table = pd.DataFrame(
        [{**{name: getattr(each, name) for name in columns}, "value": each.score} for each in known]
    )
    return _as_metrics(table.assign(metric=WORD_SCORE))


def _as_metrics(table: pd.DataFrame) -> pd.DataFrame:
    common = {"detector": "d", "variant": "as_published", "n": 1, "n_left_out": 0}
    return table.assign(**common).reindex(columns=list(METRIC_COLUMNS))
