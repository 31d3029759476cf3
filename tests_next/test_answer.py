"""Every number of every sentence stands in a row, and every row comes out of the counts again."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from detector_bench_next.answer import MOST, Sentence, answer, percent, points, probability, text
from detector_bench_next.evaluate import LONG, Settings, evaluate
from detector_bench_next.registry import load_plugin
from detector_bench_next.results import Results
from detector_bench_next.study import Study
from tests_next.studies import PLUGIN, write_image_set, write_study

FEW = {"intervals": {"resamples": 200}}


def run(folder: Path, *detectors: dict[str, Any] | str, **image_set: Any) -> Results:
    load_plugin(PLUGIN)
    images = write_image_set(folder / "set", **image_set)
    return (
        Study.open(write_study(folder, images, *detectors)).with_settings(FEW).run(folder / "out", use_cache=False)
    )


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two T2I models, two annotators, three detectors; one of them calls bright images male."""
    swapped = {"kind": "table", "name": "swapped", "file": "swapped.csv", "columns": {"gender": "answer"}}
    folder = tmp_path_factory.mktemp("answer")
    load_plugin(PLUGIN)
    images = write_image_set(
        folder / "set", t2i_models=("sd", "xl"), prompts=4, images=12, annotators=("a", "b"), seed=3
    )
    labels = pd.read_csv(images / "labels.csv").drop_duplicates("image_id")
    other = {"male": "female", "female": "male", "low_quality": "male"}
    answers = labels.assign(answer=labels["label"].map(other))[["image_id", "answer"]]
    answers.to_csv(folder / "swapped.csv", index=False)
    high = {"kind": "shade", "name": "high", "bright_above": 225.0}
    study = Study.open(write_study(folder, images, "shade", high, swapped))
    return study.with_settings(FEW).run(folder / "out", use_cache=False)


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run(tmp_path_factory.mktemp("unlabelled"), annotators=(), prompts=3, images=8)


def printed(row: dict[str, Any]) -> set[str]:
    """Every way in which a sentence may print a row's numbers."""
    found: set[str] = set()
    if row.get("metric") == "accuracy":
        found |= {f"{100 * row['value']:.1f}", f"{row['n']:,}"}
    for value in (v for v in row.values() if isinstance(v, int | float) and not isinstance(v, bool)):
        if not math.isnan(value):
            found |= {
                points(value),
                points(abs(value)),
                percent(abs(value)),
                probability(abs(value)),
                f"{value:,.0f}",
            }
    if {"error", "tolerance"} <= row.keys() and row["tolerance"] != abs(row["error"]):
        times = ((row["ci_high"] - row["ci_low"]) / 2 / abs(row["tolerance"] - abs(row["error"]))) ** 2
        found.add(f"{math.ceil(10 * times) / 10:.1f}" if times < 1e6 else "")
    return {number for said in found for number in re.findall(r"\d[\d,]*(?:\.\d+)?", said)}


def numbers_of(sentence: Sentence, results: Results) -> set[str]:
    said = sentence.text.replace("95 % interval", "")
    for name in (*results.cells("gender").pairs["prompt_id"].astype("str"), "100 images", "at least 4", "has 0"):
        said = said.replace(name, "")
    return set(re.findall(r"\d[\d,]*(?:\.\d+)?", re.sub(r"\d+ more( pairs)?", "", said)))


@pytest.mark.parametrize("study", ["labelled", "unlabelled"])
def test_every_number_of_a_sentence_stands_in_its_rows(study: str, request: pytest.FixtureRequest) -> None:
    results = request.getfixturevalue(study)
    said = answer(results, "gender")
    assert 2 <= len(said) <= MOST
    for sentence in said:
        allowed = {n for row in sentence.rows for n in printed(row)}
        allowed |= {str(n) for n in range(len(results.detectors) + 1)} | {"50", "100"}
        allowed |= {f"{len(sentence.rows)}"}
        assert numbers_of(sentence, results) <= allowed, sentence.text


def test_every_row_comes_out_of_the_counts_again(labelled: Results) -> None:
    settings = Settings(**{key: labelled.settings[key] for key in Settings._fields})
    counted = Results.open(labelled.folder or "").counted["gender"]
    tables = evaluate(counted, settings)
    for row in (row for sentence in answer(labelled, "gender") for row in sentence.rows):
        name = row["table"]
        made = tables[name] if name in tables else LONG[name](counted, settings)
        own = {key: value for key, value in row.items() if key != "table"}
        words = [c for c in own if isinstance(own[c], str) and c != "attribute"]
        same = made[(made[words].astype("str") == pd.Series({c: own[c] for c in words})).all(axis=1)]
        values = [c for c in own if isinstance(own[c], float)]
        assert any(
            all(math.isclose(own[c], r[c], rel_tol=1e-9, abs_tol=1e-9) or math.isnan(own[c]) for c in values)
            for r in same.to_dict("records")
        ), row


def test_a_detector_with_swapped_classes_is_told_and_never_first(labelled: Results) -> None:
    said = [sentence.text for sentence in answer(labelled, "gender")]
    assert any("swapped is worse than chance" in line and "are its classes swapped?" in line for line in said)
    assert any(line.startswith("shade comes closest") for line in said)
    ranks = labelled.table("ranks")
    assert (ranks[ranks["detector"] == "swapped"]["rank"] > 1).all()


def test_without_labels_it_says_what_detectors_report_and_that_nobody_checked(unlabelled: Results) -> None:
    said = text(unlabelled)
    assert "nobody has checked them" in said
    assert "Next: label 100 images" in said
    assert "nan" not in said
    assert "closest" not in said


def test_a_t2i_model_that_shows_nobody_has_no_score(tmp_path: Path) -> None:
    load_plugin(PLUGIN)
    images = write_image_set(tmp_path / "set", t2i_models=("sd", "b"), prompts=2, images=6)
    labels = pd.read_csv(images / "labels.csv", dtype=str, keep_default_na=False)
    nobody = labels["image_id"].str.startswith("b_")
    labels.assign(
        label=labels["label"].mask(nobody, "low_quality"), reason=labels["reason"].mask(nobody, "no_person")
    ).to_csv(images / "labels.csv", index=False)
    results = Study.open(write_study(tmp_path, images)).with_settings(FEW).run(tmp_path / "out", use_cache=False)
    said = text(results)
    assert "No image of b can be judged: it has no score." in said
    assert "nan" not in said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0.00"), (0.004, "less than 0.01"), (-0.004, "less than 0.01"), (-0.126, "\N{MINUS SIGN}0.13")],
)
def test_points_are_never_minus_nothing(value: float, said: str) -> None:
    assert points(value) == said


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "0 %"), (0.001, "less than 1 %"), (0.999, "more than 99 %"), (1.0, "100 %")]
)
def test_shares_that_are_not_0_or_1_are_not_rounded_to_these(share: float, said: str) -> None:
    assert percent(share) == said


def test_the_level_of_the_study_decides_what_is_more_than_chance(tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", prompts=3, images=20, seed=1)
    study = Study.open(write_study(tmp_path, images))
    found = {}
    for level in (0.5, 0.999999):
        settings = {"intervals": {"resamples": 200, "level": level}}
        results = study.with_settings(settings).run(tmp_path / "out", use_cache=False)
        said = [sentence for sentence in answer(results, "gender") if "chance could" in sentence.text]
        bias = results.table("t2i_models")
        p = bias[(bias["quantity"] == "model_bias_score") & (bias["estimand"] == "t2i_model")]["p_value"].iloc[0]
        assert bool(said) == (p > 1 - level)
        found[level] = bool(said)
    assert found == {0.5: False, 0.999999: True}
