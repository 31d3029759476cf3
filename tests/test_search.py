"""The search: what competes, choices judged by hand, ensembles, the winner as a study, bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from search_parts import FACES, MATRICES, write_search_study

from detector_bench.detectors import build_detector
from detector_bench.detectors.combining import by_stacking, by_votes, stacking_inputs
from detector_bench.errors import ConfigError
from detector_bench.evaluation import read_predictions
from detector_bench.metrics import METRICS, Scopes
from detector_bench.sealed import read_sealed
from detector_bench.search.choosing import Chooser, scatter
from detector_bench.search.compositions import Compositions, threshold_place
from detector_bench.search.ensembles import Ensembles, stacking_coefficients
from detector_bench.search.prompt_sums import PromptSums
from detector_bench.search.ranks import open_ranks
from detector_bench.search.search import CompositionSearch
from detector_bench.search.settings import SearchedEnsemble, SearchSettings
from detector_bench.search.verdicts import LabelledVerdicts
from detector_bench.study import Study
from detector_bench.study_file import DetectorEntry
from detector_bench.study_search import SearchResult, labelled_verdicts, search_settings
from detector_bench.weights import WeightsLocator

pytestmark = pytest.mark.slow

SECTION: dict[str, Any] = {
    "filters": {"as_it_is": None, **FACES},
    "crops": {"as_it_is": None, "cut": {"boxes": "test_bright_faces"}},
    "thresholds": [0.6, 0.8],
    "ensembles": [{"kind": "majority"}, {"kind": "weighted"}, {"kind": "stacking"}],
    "repeats": 6,
    "least_kept": 0.3,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    folder = tmp_path_factory.mktemp("search")
    study = Study.from_yaml(write_search_study(folder, **SECTION))
    return study.search(folder / "out", cache_dir=folder / "cache")


def random_counts(compositions: int, prompts: int, *, models: int = 2, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 4, (compositions, models, prompts, 4, 4))


def test_the_cross_product_competes_once_each_with_names_made_of_parts(found: SearchResult) -> None:
    names = set(found.table["composition"])
    # No filters is what they have anyway; three classifiers, two filters, two crops, their own threshold and two.
    assert len(names) == 3 * 2 * 2 * 3 + 3
    assert {"sure", "sure+face", "poor+face+cut+0.8", "leaning+cut+0.6", "majority-of-3"} <= names
    singles = found.table.loc[found.table["kind"] == "single", "composition"]
    assert set(singles) == set(MATRICES)
    assert found.findings.not_built == ()


@pytest.mark.parametrize("name", ["prompt_bias_error", "prompt_bias_score_difference", "accuracy", "f1"])
def test_errors_on_sets_of_prompts_are_those_of_the_metrics(name: Any) -> None:
    counts = random_counts(5, 6)
    sums = PromptSums.of_counts(counts, {name: 1.0}, n_clear="detector")
    some = np.array([[1.0, 0, 1, 1, 0, 1]])
    subset = counts[:, :, some[0] > 0]
    scopes = Scopes(("",), np.zeros(subset.shape[2], dtype=np.intp))
    value = METRICS[name].scores(subset, scopes=scopes, n_clear="detector").value[:, 0, 0]
    expected = {"accuracy": 1 - value, "f1": 1 - value}.get(name, value)
    own = sums.errors(some)[:, 0]
    assert np.allclose(np.sqrt(np.maximum(own, 0)) if name == "prompt_bias_error" else own, expected)


def test_each_prompt_is_judged_by_what_the_other_parts_chose() -> None:
    sums = PromptSums.of_counts(random_counts(7, 9), {"accuracy": 1.0}, n_clear="detector")
    chooser = Chooser(sums, np.zeros(9, dtype=np.intp), parts=3, repeats=4)
    dealt = chooser.dealt()
    chosen = chooser.chosen(dealt)
    ratio = sums.ratios["accuracy"]
    for repeat, parts in enumerate(dealt):
        for prompt in range(9):
            others = (parts != parts[prompt]).astype(float)
            best = int(np.argmin(np.round((ratio.above @ others) / (ratio.below @ others), 12)))
            assert chosen.choice[repeat, parts[prompt]] == best
            assert chosen.judged.ratios["accuracy"].above[repeat, prompt] == ratio.above[best, prompt]
    everyone = np.ones((1, 9))
    assert chooser.estimate(chosen.judged).value == pytest.approx(chosen.judged.errors(everyone).mean())


def test_what_keeps_too_few_images_does_not_compete() -> None:
    counts = np.zeros((2, 1, 4, 4, 4), dtype=np.int64)
    counts[0, :, :, 0, :3] = [6, 3, 1]  # two thirds right, one filtered
    counts[1, :, :, 0, :3] = [1, 0, 9]  # always right, and hardly ever there
    sums = PromptSums.of_counts(counts, {"accuracy": 1.0}, n_clear="detector")
    category = np.zeros(4, dtype=np.intp)
    assert Chooser(sums, category, least_kept=0.5).on_all_prompts().choice == 0
    assert Chooser(sums, category, least_kept=0.0).on_all_prompts().choice == 1


def test_equal_compositions_are_no_contest_and_a_better_one_is_found() -> None:
    random = np.random.default_rng(3)
    counts = np.zeros((12, 1, 20, 4, 4), dtype=np.int64)
    wrong = random.binomial(20, 0.3, (12, 20))
    for better, beats in ((0.3, False), (0.02, True)):
        wrong[11] = random.binomial(20, better, 20)
        counts[..., 0, 0], counts[..., 0, 1] = (20 - wrong)[:, np.newaxis], wrong[:, np.newaxis]
        sums = PromptSums.of_counts(counts, {"accuracy": 1.0}, n_clear="detector")
        chooser = Chooser(sums, np.zeros(20, dtype=np.intp), repeats=10)
        dealt = chooser.dealt()
        search, single = chooser.chosen(dealt), chooser.chosen(dealt, among=np.arange(4))
        (contest,) = chooser.contests(search.judged, [("single", single.judged, chooser.factor)])
        assert (contest.p_value <= 0.05 and contest.difference.value < 0) is beats
        assert (contest.difference.high < 0) is beats
        if not beats:
            assert chooser.on_all_prompts().value < chooser.estimate(search.judged).value
    assert (search.choice == 11).all()


def test_doubt_is_the_scatter_of_prompts_within_categories() -> None:
    values = np.array([1.0, 3.0, 11.0, 13.0])
    apart, freedom = scatter(values, np.array([0, 0, 1, 1]))
    assert (apart, freedom) == (pytest.approx((2 * 2 + 2 * 2) / 16), 2)
    together, freedom = scatter(values, np.array([0, 0, 1, 2]))  # one prompt alone says nothing of its category
    assert (together, freedom) == (pytest.approx(values.var(ddof=1) / 4), 3)


def test_ranks_are_open_where_chance_explains_the_difference() -> None:
    noise = np.random.default_rng(0).normal(0, 1, (3, 40))
    noise -= noise.mean(axis=1, keepdims=True)
    first, last = open_ranks(np.array([0.0, 0.1, 9.0]), noise, freedom=39, level=0.95)
    assert (first.tolist(), last.tolist()) == ([1, 1, 3], [2, 2, 3])


def test_votes_and_stacking() -> None:
    said = np.array([[0, 0, 1, 2], [0, 1, 1, 2], [1, 2, 0, 0]], dtype=np.int8)
    equal = np.ones(3)
    verdicts, share = by_votes(said, classes=2, weights=equal)
    assert verdicts.tolist() == [0, 2, 1, 2]  # the second is a tie of three
    assert share.tolist() == pytest.approx([2 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert by_votes(said, classes=2, weights=np.array([1.0, 1, 3]))[0].tolist() == [1, 2, 0, 0]
    scores = np.full((3, 4), np.nan)
    inputs = stacking_inputs(said, scores, classes=2)
    assert inputs[1].tolist() == [1, 1, 0, 0, 1, 0, 0]
    truth = np.array([1, 2, 0, 0], dtype=np.int8)  # the third member is right, always
    learnt = stacking_coefficients(inputs.repeat(50, axis=0), truth.repeat(50), 2, 1.0)
    assert by_stacking(inputs, learnt)[0].tolist() == truth.tolist()


def test_members_of_ensembles_compete_themselves() -> None:
    learns = Ensembles(
        asked=(),
        verdicts=None,  # type: ignore[arg-type]  # members are named before anybody's verdicts are read
        detector=np.arange(4),
        threshold=np.full(4, np.nan),
        classifier=np.array([0, 0, 1, 2]),
        weights={"accuracy": 1.0},
        n_clear="detector",
    )
    losses = np.array([0.3, 0.2, 0.1, 1.2e9])  # the last keeps too few images
    assert learns.members(SearchedEnsemble(kind="majority"), losses) == (2, 1)


def test_stacking_coefficients_are_those_of_a_reference() -> None:
    sklearn = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(0)
    inputs = np.column_stack([np.ones(300), random.normal(0, 1, (300, 3))])
    truth = (inputs @ np.array([0, 2, -1, 0.5]) + random.logistic(size=300) > 0).astype(np.int8)
    truth[::7] = 2
    own = stacking_coefficients(inputs, truth, 2, 3.0)
    reference = sklearn.LogisticRegression(C=1 / 3.0, tol=1e-10, max_iter=5000).fit(inputs[:, 1:], truth)
    assert np.allclose(own[:, 1:], reference.coef_, atol=1e-3)


def test_the_winner_run_as_a_study_judges_as_the_search_said(found: SearchResult, tmp_path: Path) -> None:
    found.write_winner(tmp_path / "best.yaml")
    study = Study.from_yaml(tmp_path / "best.yaml")
    results = study.run(tmp_path / "out", cache_dir=tmp_path / "cache")
    (detector,) = study.detectors
    numbers = results.metrics.astype({"t2i_model": str, "category": str})
    (value,) = numbers.query("metric == 'prompt_bias_score_difference' and t2i_model == category == 'all'")[
        "value"
    ]
    row = found.table[found.table["composition"] == found.findings.winner].iloc[0]
    if row["kind"] != "ensemble":  # of an ensemble the search shows what it learnt on the other half
        assert value == pytest.approx(row["error"])
    record = read_sealed(found.folder / "search.json")
    assert record["winner"] == detector.name
    assert detector.name in record["checked_by_a_run"]


@pytest.mark.parametrize("kind", ["majority", "weighted", "stacking"])
def test_an_ensemble_judges_as_a_run_of_its_yaml(found: SearchResult, tmp_path: Path, kind: str) -> None:
    folder = found.folder.parent
    study = Study.from_yaml(folder / "study.yaml")
    settings = search_settings(study)
    compositions = Compositions.of(settings, study.detectors, attribute="gender")
    verdicts = labelled_verdicts(study.load_image_set(), found.folder, compositions)
    search = CompositionSearch(settings, compositions, verdicts)
    learnt = search.learnt_on_all_prompts(f"{kind}-of-3")
    assert learnt is not None
    assert search.ensembles is not None
    members = [compositions.entry(compositions.listed[place]) for place in learnt.members]
    assert len({member.name.partition("+")[0] for member in members}) == 3
    described = [{"kind": each.kind, **each.parameters} for each in members]
    entry = DetectorEntry(name="three", kind="ensemble", parameters=learnt.parameters("gender", described))
    alone = study.model_copy(update={"detectors": (entry,), "n_clear": "detector"})
    alone.run(tmp_path / "out", cache_dir=folder / "cache")
    stored = read_predictions(tmp_path / "out" / "predictions")["three"].to_pandas().set_index("image_id")
    labels = study.load_image_set().images["image_id"]
    said = ["male", "female", None]
    expected = [said[code] for code in search.ensembles.apply(learnt)]
    truly = stored.loc[labels, "label"].astype(object).where(stored.loc[labels, "label"].notna(), None)
    assert truly.tolist() == expected
    assert {"male", "female"} <= set(expected)


def test_a_threshold_on_stored_scores_gives_what_a_run_with_it_gives(found: SearchResult, tmp_path: Path) -> None:
    folder = found.folder.parent
    study = Study.from_yaml(folder / "study.yaml")
    settings = search_settings(study)
    compositions = Compositions.of(settings, study.detectors, attribute="gender")
    listed = compositions.listed[compositions.named("leaning+face+cut+0.8")]
    entry = compositions.entry(listed)
    assert entry.parameters["outputs"]["gender"]["min_score"] == 0.8
    alone = study.model_copy(update={"detectors": (entry,)})
    alone.run(tmp_path / "out", cache_dir=folder / "cache")
    truly = read_predictions(tmp_path / "out" / "predictions")[entry.name].to_pandas()
    stored = read_predictions(found.folder / "predictions", also=["score"])["leaning+face+cut"].to_pandas()
    kept = (stored["status"] == "clear") & (stored["score"] >= 0.8)
    assert (truly["status"] == "clear").tolist() == kept.tolist()
    assert 0 < kept.sum() < (stored["status"] == "clear").sum()


def test_files_say_what_was_found_and_twice_is_the_same(found: SearchResult) -> None:
    folder = found.folder
    assert pd.read_csv(folder / "search.csv")["composition"].tolist() == found.table["composition"].tolist()
    page = (folder / "search.md").read_text(encoding="utf-8")
    assert all(sentence in page for sentence in found.sentences)
    assert (folder / "search_figure.png").read_bytes().startswith(b"\x89PNG")
    before = {
        name: (folder / name).read_bytes() for name in ("search.csv", "search.json", "search.md", "winner.yaml")
    }
    again = Study.from_yaml(folder.parent / "study.yaml").search(folder, cache_dir=folder.parent / "cache")
    assert again.sentences == found.sentences
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_the_sentences_follow_the_numbers(found: SearchResult) -> None:
    findings = found.findings
    text = " ".join(found.sentences)
    contest = findings.contests[0]
    assert ("The search beats the best single detector" in text) is found.beats_single
    assert ("Nothing beats the best single detector" in text) is not found.beats_single
    assert f"p = {contest.p_value:.3f}" in text
    assert f"{findings.expected.value:.3f} [" in text
    assert findings.optimism == pytest.approx(findings.expected.value - findings.winner_where_chosen)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("clip", (("min_score",), {})),
        ("clip_prob", (("min_score",), {})),
        ("clip_enhance", (("classifier", "min_score"), {"kind": "clip"})),
        ("clip_uncertain", None),
        ("fairface", None),
    ],
)
def test_thresholds_go_where_a_detector_has_one(kind: str, place: Any) -> None:
    built = build_detector(kind)
    assert threshold_place(built.implementation, "gender") == place
    if place is None:
        return
    entry = DetectorEntry(name=kind, kind=kind)
    compositions = Compositions.of(SearchSettings(thresholds=(0.7,)), [entry], attribute="gender")
    found = compositions.entry(compositions.listed[compositions.named(f"{kind}+0.7")])
    steps = build_detector(kind, parameters=found.parameters).implementation
    assert (steps.classifier if kind == "clip_enhance" else steps).min_score == 0.7


MAPPED = {"classes": {"woman": "female", "man": "male"}}
JUDGE = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}


@pytest.mark.parametrize(
    ("kind", "parameters", "found"),
    [
        ("image_classifier", {"model": "org/name", **MAPPED}, {"min_score": 0.7}),
        (
            "image_classifier",
            {"model": "org/name", "outputs": {"gender": {**MAPPED, "min_score": 0.9}}},
            {"outputs": {"gender": {**MAPPED, "min_score": 0.7}}},
        ),
        (
            "isolated",
            {"adapter": "deepface"},
            None,
        ),  # its readings are the adapter's
        ("vlm_judge", {"model": JUDGE}, None),  # without log-probabilities there are no scores
        ("vlm_judge", {"model": {**JUDGE, "top_logprobs": 5}}, {"min_score": 0.7}),
    ],
)
def test_thresholds_are_laid_where_the_detector_can_be_built_with_them(
    kind: str, parameters: dict[str, Any], found: dict[str, Any] | None
) -> None:
    entry = DetectorEntry(name="mine", kind=kind, parameters=parameters)
    compositions = Compositions.of(SearchSettings(thresholds=(0.7,)), [entry], attribute="gender")
    if found is None:
        assert [each.name for each in compositions.listed] == ["mine"]
        assert compositions.not_built[0].name == "mine with other thresholds"
        return
    laid = compositions.entry(compositions.listed[compositions.named("mine+0.7")])
    assert laid.parameters == {**parameters, **found}
    build_detector(kind, parameters=laid.parameters)
    own = compositions.listed[compositions.named("mine")].threshold
    assert own == (0.9 if "outputs" in parameters else 0.0)


def test_a_judge_without_a_score_fails_at_a_threshold() -> None:
    verdicts = LabelledVerdicts(
        verdicts=np.array([[0, 1, 0, 2]], dtype=np.int8),
        scores=np.array([[0.6, 0.9, np.nan, np.nan]]),
        truth=np.zeros(4, dtype=np.int8),
        prompt=np.arange(4),
        t2i_model=np.zeros(4, dtype=np.intp),
        category_of_prompt=np.zeros(4, dtype=np.intp),
        prompt_ids=("a", "b", "c", "d"),
        t2i_models=("A",),
        classes=2,
    )
    assert verdicts.at(0, 0.8).tolist() == [2, 1, 0, 2]
    judge = replace(verdicts, fails_without_score=(True,))
    assert judge.at(0, 0.8).tolist() == [2, 1, 3, 2]
    assert judge.at(0, 0.0).tolist() == [0, 1, 0, 2]
    assert build_detector("vlm_judge", parameters={"model": JUDGE}).implementation.fails_without_score


def test_without_a_section_the_studys_own_detectors_filters_and_thresholds_compete(tmp_path: Path) -> None:
    study = Study.from_yaml(write_search_study(tmp_path))
    compositions = Compositions.of(search_settings(study), study.detectors, attribute="gender")
    assert len(compositions.listed) == 3 * 11
    assert [compositions.listed[place].name for place in compositions.singles()] == list(MATRICES)


@pytest.mark.slow
def test_what_cannot_be_built_is_listed_and_the_others_go_on(tmp_path: Path) -> None:
    section = {"prompts": {"as_it_is": None, "words": {"male": "a man", "female": "a woman"}}, "thresholds": []}
    study = Study.from_yaml(write_search_study(tmp_path, **section, repeats=2, least_kept=0))
    result = study.search(tmp_path / "out", cache_dir=tmp_path / "cache")
    assert dict(result.findings.not_built).keys() == {f"{name}+words" for name in MATRICES}
    assert "unknown key 'prompts'" in result.findings.not_built[0][1]
    assert "could not be built or run" in result.sentences[0]
    (tmp_path / "poor.onnx").unlink()
    result = study.search(tmp_path / "again", cache_dir=tmp_path / "cache")
    assert "poor.onnx" in dict(result.findings.not_built)["poor"]
    assert "poor" not in set(result.table["composition"])


def changed(file: Path, **content: Any) -> Study:
    described = yaml.safe_load(file.read_text(encoding="utf-8"))
    described["detectors"] += content.pop("more", [])
    file.write_text(yaml.safe_dump(described | content), encoding="utf-8")
    return Study.from_yaml(file)


def test_a_compared_detector_that_cannot_run_is_listed_or_refused_before_anything_runs(tmp_path: Path) -> None:
    more = [{"name": "steps", "kind": "clip_enhance"}]
    study = changed(write_search_study(tmp_path, thresholds=[], repeats=2, least_kept=0), more=more)
    result = study.search(tmp_path / "out", weights_dir=tmp_path, cache_dir=tmp_path / "cache")
    assert "steps" in dict(result.findings.not_built)
    assert [each.name for each in result.contests] == ["the best single detector"]
    with pytest.raises(ConfigError, match=r"compare_with: steps cannot run: .*not found"):
        study.search(tmp_path / "asked", settings=SearchSettings(compare_with=("steps",)), weights_dir=tmp_path)
    assert not (tmp_path / "asked").exists()


def test_no_two_compositions_have_one_name(tmp_path: Path) -> None:
    parts = {"crops": {"as_it_is": None, "0.6": {"boxes": "test_bright_faces"}}, "thresholds": [0.6]}
    study = Study.from_yaml(write_search_study(tmp_path, **parts))
    compositions = Compositions.of(search_settings(study), study.detectors, attribute="gender")
    names = [each.name for each in compositions.listed]
    assert len(names) == len(set(names)) == 9
    assert "sure+0.6" in {each.name for each in compositions.not_built}
    settings = SearchSettings(ensembles=({"kind": "majority"},))  # type: ignore[arg-type]
    entry = study.detectors[0].model_copy(update={"name": "majority-of-3"})
    with pytest.raises(ConfigError, match="a composition is called 'majority-of-3', as an ensemble is"):
        Compositions.of(settings, [entry], attribute="gender")


def test_images_on_which_detectors_failed_are_told(tmp_path: Path) -> None:
    file = write_search_study(tmp_path, thresholds=[], repeats=2, least_kept=0, ensembles=[{"kind": "weighted"}])
    for number in range(0, 80, 8):
        (tmp_path / "set" / "images" / f"i{number:03d}.png").write_bytes(b"no picture")
    result = Study.from_yaml(file).search(tmp_path / "out", cache_dir=tmp_path / "cache")
    assert result.table["without_verdict"].tolist() == [10] * 4
    assert f"{result.findings.winner} failed on 10 of 80 labelled images" in result.sentences[1]
    assert "without_verdict" in (tmp_path / "out" / "search.csv").read_text(encoding="utf-8")
    assert "Left, without ensembles: " in (tmp_path / "out" / "search_figure.txt").read_text(encoding="utf-8")
    for picture in (tmp_path / "set" / "images").iterdir():
        picture.write_bytes(b"no picture")
    with pytest.raises(ConfigError, match="all detectors failed on all labelled images"):
        Study.from_yaml(file).search(tmp_path / "failed", cache_dir=tmp_path / "cache")


@pytest.mark.slow
def test_prompts_that_do_not_differ_give_no_interval_and_the_number_of_images_is_told(tmp_path: Path) -> None:
    file = write_search_study(tmp_path, thresholds=[], repeats=2, least_kept=0)
    labels = pd.read_csv(tmp_path / "set" / "labels.csv").assign(label="male")
    labels.to_csv(tmp_path / "set" / "labels.csv", index=False)
    study = changed(file)
    study = study.model_copy(update={"detectors": study.detectors[2:]})  # it names nobody but men
    result = study.search(tmp_path / "out", cache_dir=tmp_path / "cache")
    text = " ".join(result.sentences)
    assert np.isnan([result.expected.low, result.expected.high]).all()
    assert "0.000 (no interval can be told: no two prompts differ)" in text
    assert "(here 10 of a T2I model on average)" in text
    record = read_sealed(tmp_path / "out" / "search.json")
    assert record["expected_error"] == {"value": 0.0, "low": None, "high": None}


@pytest.mark.slow
def test_a_calibration_that_was_fitted_on_these_prompts_is_told(tmp_path: Path) -> None:
    file = write_search_study(tmp_path, thresholds=[], repeats=2, least_kept=0)
    Study.from_yaml(file).run(tmp_path / "run").calibrate("poor", file=tmp_path / "poor.json")
    described = yaml.safe_load(file.read_text(encoding="utf-8"))
    described["detectors"][2]["outputs"]["gender"]["calibration"] = "poor.json"
    result = changed(file, **described).search(tmp_path / "out", cache_dir=tmp_path / "cache")
    (note,) = result.findings.notes
    assert note.startswith("poor: 8 of 8 prompts are among those that its calibration")
    assert note in (tmp_path / "out" / "search.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"thresholds": [0.5, 1.5]}, "the threshold 1.5 (accepted: 0 to 1)"),
        ({"thresholds": [0.5, 0.5]}, "must ascend"),
        ({"filters": {}}, "it is empty"),
        ({"classifiers": []}, "the list is empty"),
        ({"classifiers": ["sore"]}, "no detector 'sore' in this study: did you mean 'sure'"),
        ({"compare_with": ["shure"]}, "no detector 'shure' of this study judges 'gender'"),
        ({"filters": {"a": []}, "crops": {"a": {"margin": 1}}}, "two parts are called 'a'"),
        ({"limit": 5}, "33 compositions (3 classifiers x 1 filters"),
        ({"choose_by": "f2"}, "choose_by: unknown error 'f2': did you mean 'f1'"),
        ({"choose_by": {"f1": -1}}, "weights above 0"),
        ({"attribute": "gendr"}, "unknown attribute 'gendr': did you mean 'gender'"),
        ({"attribute": "race"}, "not one composition for 'race' can be built"),
        ({"croops": {}}, "unknown key 'croops'"),
    ],
)
def test_bad_settings_are_one_line(tmp_path: Path, section: dict[str, Any], says: str) -> None:
    file = write_search_study(tmp_path, **section)
    with pytest.raises(ConfigError) as error:
        Study.from_yaml(file).search(tmp_path / "out", cache_dir=tmp_path / "cache")
    assert says in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_few_prompts_no_labels_and_a_folder_of_a_run_are_refused(tmp_path: Path) -> None:
    study = Study.from_yaml(write_search_study(tmp_path / "one", number_of_prompts=1, repeats=2))
    with pytest.raises(ConfigError, match="1 prompt has images that humans give a class of 'gender'"):
        study.search(tmp_path / "out", cache_dir=tmp_path / "cache")
    assert not (tmp_path / "out").exists()  # it is known before any detector runs
    labels = tmp_path / "one" / "set" / "labels.csv"
    labels.write_text(labels.read_text().splitlines()[0] + "\n")
    with pytest.raises(ConfigError, match="no image has a label of 'gender'"):
        study.search(tmp_path / "out", cache_dir=tmp_path / "cache")
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "results.json").write_text("{}")
    with pytest.raises(ConfigError, match="is the result folder of a run"):
        study.search(tmp_path / "result")


@pytest.mark.slow
def test_the_command_prints_and_writes(
    found: SearchResult, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from detector_bench.cli.app import main

    def call(*arguments: object) -> str:
        monkeypatch.setattr("sys.argv", ["detector-bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code in (0, None)
        return capsys.readouterr().out

    folder = found.folder.parent
    asked = (folder / "study.yaml", "--out", tmp_path / "out", "--cache-dir", folder / "cache")
    (tmp_path / "parts.yaml").write_text(yaml.safe_dump({"search": {"thresholds": [0.7], "repeats": 2}}))
    said = call(
        "search",
        *asked,
        "--section",
        tmp_path / "parts.yaml",
        "--write-winner",
        tmp_path / "w.yaml",
        "--choose-by",
        "f1",
    )
    assert "6 compositions of gender on 80 labelled images of 8 prompts, chosen by 1 - F1 of filtering" in said
    assert yaml.safe_load((tmp_path / "w.yaml").read_text())["detectors"]
    told = json.loads(call("search", *asked, "--section", tmp_path / "parts.yaml", "--json"))
    assert {row["table"] for row in told["rows"]} == {"search"}
    assert len(told["rows"]) == 6


def test_the_winner_does_not_take_the_place_of_the_study(tmp_path: Path) -> None:
    file = write_search_study(tmp_path)
    before = file.read_bytes()
    from typer.testing import CliRunner

    from detector_bench.cli.app import app

    line = ["search", str(file), "--out", str(tmp_path / "out"), "--write-winner", str(file)]
    found = CliRunner().invoke(app, line)
    assert isinstance(found.exception, ConfigError)
    assert "would overwrite what is searched" in str(found.exception)
    assert file.read_bytes() == before


def test_an_ensembles_members_are_part_of_its_version(tmp_path: Path) -> None:
    study = Study.from_yaml(write_search_study(tmp_path))
    members = [{"kind": entry.kind, **entry.parameters} for entry in study.detectors]
    weights = WeightsLocator(cache=tmp_path / "nowhere")
    parameters: dict[str, Any] = {"members": members, "weights": [1, 2, 1]}
    ensemble = build_detector("ensemble", parameters=parameters)
    assert len(ensemble.stages) == 3
    other = build_detector("ensemble", parameters={**parameters, "weights": [1, 1, 1]})
    assert ensemble.identity(weights=weights) != other.identity(weights=weights)
    assert build_detector("ensemble", parameters=ensemble.settings).identity(weights=weights) == ensemble.identity(
        weights=weights
    )
    for wrong, says in (
        ({"members": members, "weights": [1]}, "weights: one of 0 or more for each of 3 members"),
        ({"members": [*members, {"kind": "nothing"}]}, "members: 3: unknown detector 'nothing'"),
        ({"members": members, "decide": "stacking"}, "coefficients belong to"),
        ({"members": members, "attribute": "race"}, "does not judge 'race'"),
    ):
        with pytest.raises(ConfigError, match=says):
            build_detector("ensemble", parameters=wrong)


def test_the_section_goes_with_a_study(tmp_path: Path) -> None:
    study = Study.from_yaml(write_search_study(tmp_path, thresholds=[0.7], seed=4))
    (tmp_path / "out").mkdir()
    study.write(tmp_path / "out")
    again = Study.from_yaml(tmp_path / "out" / "study.yaml")
    assert again.searched == study.searched
    assert again.searched is not None
    assert (again.searched.thresholds, again.searched.seed) == ((0.7,), 4)
    assert search_settings(study, seed=5).seed == 5
    assert "search" not in yaml.safe_load((write_plain(tmp_path / "plain") / "study.yaml").read_text())


def write_plain(folder: Path) -> Path:
    study = Study.from_yaml(write_search_study(folder))
    (folder / "out").mkdir()
    study.write(folder / "out")
    return folder / "out"
