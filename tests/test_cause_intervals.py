"""Intervals of causes: those of the metric table for the same number, and the metrics in the same resamples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from joint_studies import made_up
from stored_study import FAILED, Picture, Said, filtered, kept, predictions_of, write_pictures

from detector_bench import metrics
from detector_bench.dataset import ImageSet
from detector_bench.evaluation import evaluate
from detector_bench.evaluation.causes import accuracy_gaps, causes
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import JointVerdicts
from detector_bench.metrics.bootstrap import Unit, resample
from detector_bench.metrics.cause_doubt import beyond_chance, resample_causes
from detector_bench.metrics.causes import PARTS, ReplacedScores, replaced_scores
from detector_bench.metrics.resampling import RESAMPLES_PER_BLOCK, Resampler, prompt_weights
from detector_bench.tables.error_tables import bias_error_causes as causes_table

SHARED = ("prompt_bias_score_difference", "model_bias_score_deviation")
"""Errors that are metrics, too."""

SCOPE = ["detector", "t2i_model", "category"]
PROMPTS = {f"prompt{number}": f"category{number % 2}" for number in range(8)}
LABELS = ["male", "female", "low_quality", "others"]


def verdict_on(label: str, *, right: float, random: np.random.Generator) -> Said:
    """What a mediocre detector says; it fails now and then, and stores a class with some of what it filters."""
    if random.random() < 0.03:
        return FAILED
    said = label if random.random() < right else str(random.choice(["male", "female", "low_quality"]))
    if said in ("male", "female"):
        return kept(said)
    return filtered(label=str(random.choice(["male", "female"])) if random.random() < 0.5 else None)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[ImageSet, dict[str, pa.Table]]:
    """Two T2I models, 4 to 12 images of a prompt, 90 of one."""
    random = np.random.default_rng(11)
    pictures = [
        Picture(
            f"{model}_{prompt}_{number}", model, prompt, (str(random.choice(LABELS, p=[0.5, 0.3, 0.15, 0.05])),)
        )
        for model in ("alpha", "beta")
        for prompt in PROMPTS
        for number in range(90 if (model, prompt) == ("beta", "prompt3") else int(random.integers(4, 13)))
    ]
    folder = write_pictures(tmp_path_factory.mktemp("causes") / "images", pictures, PROMPTS)
    tables = {
        name: predictions_of(
            {each.image_id: verdict_on(each.labels[0], right=right, random=random) for each in pictures},
            detector=name,
        )
        for name, right in (("good", 0.95), ("poor", 0.6))
    }
    return ImageSet.load(folder), tables


@pytest.mark.parametrize("n_clear", ["detector", "human"])
@pytest.mark.parametrize("method", ["score", "percentile", "bca"])
@pytest.mark.parametrize("unit", ["image", "prompt"])
def test_one_number_has_one_interval(
    judged: tuple[ImageSet, dict[str, pa.Table]], unit: Unit, method: str, n_clear: metrics.NClear
) -> None:
    settings = Intervals.model_validate(
        {"unit": unit, "method": method, "seed": 7, "level": 0.9, "resamples": 500}
    )
    split = causes(*judged, n_clear=n_clear, intervals=settings)
    table = evaluate(*judged, n_clear=n_clear, intervals=settings)
    table = table[(table["prompt_id"] == "all") & table["n_clear"].isin([n_clear, None, np.nan])]
    for metric in SHARED:
        ours = split[split["error_metric"] == metric].set_index(SCOPE).sort_index()
        known = table[(table["metric"] == metric) & (table["detector"] != "ground_truth")]
        known = known.set_index(SCOPE).sort_index()
        assert list(ours.index) == list(known.index)
        assert len(ours) == 2 * 3 * 3
        for own, column in (("error", "value"), ("error_ci_low", "ci_low"), ("error_ci_high", "ci_high")):
            np.testing.assert_allclose(ours[own], known[column], atol=1e-9, rtol=0, err_msg=f"{metric} {own}")
        # Percentiles need 400 images or 50 prompts; four prompts of a category say nothing about others.
        least = 0 if method != "score" else 12 if unit == "image" else 6
        assert known["ci_low"].notna().sum() >= least
        assert ours["n"].to_list() == known["n"].to_list()


def made_up_with_names(
    *, classes: int = 2, images: int = 6, errors: float = 0.1
) -> tuple[JointVerdicts, np.ndarray]:
    """A small study, and a class that is stored with about half of what was filtered."""
    joint = made_up(classes=classes, images=images, errors=errors, right=0.6)
    random = np.random.default_rng(4)
    stored = random.integers(-1, classes, joint.verdicts.shape)
    return joint, np.where(joint.verdicts == classes, stored, -1).astype(np.int8)


def expected_scores(
    joint: JointVerdicts, named: np.ndarray, weights: np.ndarray, *, n_clear: metrics.NClear
) -> list[np.ndarray]:
    """The scores with every image counted so often, axes as `resample_causes` has them but for the resample."""
    counts = joint.counts(weights)
    classes = joint.classes
    filtered = np.zeros((*counts.shape[:-2], classes, classes))
    for detector, model, prompt in np.ndindex(*filtered.shape[:3]):
        here = (joint.pair == model * joint.prompts + prompt) & (joint.truth < classes) & (named[detector] >= 0)
        np.add.at(filtered[detector, model, prompt], (joint.truth[here], named[detector][here]), weights[here])
    scores = replaced_scores(counts, n_clear=n_clear, filtered_classes=filtered, scopes=joint.scopes)
    return [
        np.moveaxis(scores.model_bias_score, 1, -1),
        np.moveaxis(scores.model_bias_score_actual, 0, -1)[..., :1],
        np.moveaxis(scores.prompt_bias_score_difference, 1, -1),
    ]


def assert_equal_scores(drawn: ReplacedScores, number: int, expected: list[np.ndarray]) -> None:
    for found, wanted in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(found[..., number], wanted, atol=2e-5)


@pytest.mark.parametrize("n_clear", ["detector", "human"])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_resample_is_the_score_of_the_drawn_images(classes: int, n_clear: metrics.NClear) -> None:
    joint, named = made_up_with_names(classes=classes)
    settings = {"resamples": RESAMPLES_PER_BLOCK, "seed": 3, "n_clear": n_clear}
    drawn = resample_causes(joint, named, borrow=False, **settings).scores
    # How often each image is drawn is told by a detector of its own, that calls no other image clear.
    marks = np.where(np.eye(joint.images, dtype=bool), 0, classes).astype(np.int8)
    marked = JointVerdicts(joint.truth, marks, joint.pair, joint.t2i_models, joint.scopes, classes)
    weights = Resampler(marked, borrow=False).block(0, seed=3).class_counts[:, 0, 1:].sum(axis=0)
    for number in range(0, RESAMPLES_PER_BLOCK, 7):
        expected = expected_scores(joint, named, weights[:, number].astype(float), n_clear=n_clear)
        assert_equal_scores(drawn, number, expected)


@pytest.mark.parametrize("n_clear", ["detector", "human"])
def test_every_resample_is_the_score_of_the_drawn_prompts(n_clear: metrics.NClear) -> None:
    joint, named = made_up_with_names()
    settings = {"resamples": RESAMPLES_PER_BLOCK, "seed": 3, "n_clear": n_clear}
    drawn = resample_causes(joint, named, unit="prompt", **settings).scores
    times = prompt_weights(joint, 0, seed=3).astype(int)
    assert times.max() > 1
    for number in range(0, RESAMPLES_PER_BLOCK, 7):
        prompts = np.repeat(np.arange(joint.prompts), times[:, number])  # one drawn twice is two prompts
        rows = [np.flatnonzero(joint.pair % joint.prompts == prompt) for prompt in prompts]
        images = np.concatenate(rows)
        place = np.repeat(np.arange(len(prompts)), [len(each) for each in rows])
        copied = JointVerdicts(
            joint.truth[images],
            joint.verdicts[:, images],
            joint.pair[images] // joint.prompts * len(prompts) + place,
            joint.t2i_models,
            metrics.Scopes(joint.scopes.categories, joint.scopes.category_of_prompt[prompts]),
            joint.classes,
        )
        expected = expected_scores(copied, named[:, images], np.ones(len(images)), n_clear=n_clear)
        assert_equal_scores(drawn, number, expected)


def test_counts_of_large_prompts_scatter_as_drawn_images_do() -> None:
    joint, named = made_up_with_names(images=60)
    settings = {"resamples": 4_000, "seed": 1}
    drawn = resample_causes(joint, named, **settings).scores
    normal = resample_causes(joint, named, one_by_one=0, **settings).scores
    assert not np.array_equal(drawn.model_bias_score, normal.model_bias_score)
    for exact, approximate in zip(drawn, normal, strict=True):
        spread = exact.std(axis=-1)
        np.testing.assert_allclose(approximate.mean(axis=-1), exact.mean(axis=-1), atol=0.15 * spread.max())
        np.testing.assert_allclose(approximate.std(axis=-1), spread, rtol=0.2)


@pytest.mark.parametrize("unit", ["image", "prompt"])
@pytest.mark.parametrize("one_by_one", [64, 0])  # drawn images, and normally distributed counts
def test_the_detector_as_it_is_has_the_resamples_of_the_metric_table(unit: Unit, one_by_one: int) -> None:
    joint, named = made_up_with_names(images=30)
    settings = {"resamples": 100, "unit": unit, "seed": 2, "one_by_one": one_by_one}
    table = resample(joint, **settings).detectors
    scores, accuracies = resample_causes(joint, named, **settings)
    for metric in ("model_bias_score", "prompt_bias_score_difference"):
        np.testing.assert_array_equal(getattr(scores, metric)[0], table[metric])
    for index, of_class in enumerate(accuracies):
        np.testing.assert_array_equal(of_class, table[f"accuracy_{index}"])


def test_limits_stay_in_the_range_of_their_number_and_hold_it(
    judged: tuple[ImageSet, dict[str, pa.Table]],
) -> None:
    split = causes(*judged, intervals=Intervals(resamples=500))
    gaps = accuracy_gaps(*judged, intervals=Intervals(resamples=500))
    errors = [part for part in PARTS if part not in ("filtering", "classification")]
    distances = split[split["error_metric"] != "model_bias_score_deviation"]
    assert (distances[[f"{part}_ci_low" for part in errors]].min() >= 0).all()
    absolute = split[split["error_metric"] == "model_bias_score_absolute_error"]
    assert absolute["error_ci_low"].min() == 0  # some signed errors may be 0
    assert (absolute[[f"{part}_ci_high" for part in PARTS]].max() <= 1).all()
    assert absolute["filtering_ci_low"].min() >= -1
    assert gaps["ci_low"].notna().any()
    for table, names in ((split, [f"{part}_" for part in PARTS]), (gaps, [""])):
        for prefix in names:
            known = table[table[f"{prefix}ci_low"].notna()]
            value = known[prefix.removesuffix("_") or "value"]
            assert known[f"{prefix}ci_low"].lt(known[f"{prefix}ci_high"]).all()
            assert (known[f"{prefix}ci_low"] - 1e-9 <= value).mean() > 0.9
            assert (known[f"{prefix}ci_high"] + 1e-9 >= value).mean() > 0.9


def drawn_study(
    *,
    prompts: int,
    images: int,
    men: float,
    wrong: tuple[float, float],
    kept: tuple[float, float],
    studies: int,
    seed: int,
) -> np.ndarray:
    """Counts `[study, 1, prompt, truth, verdict]`; shares of images kept and named wrongly by true class."""
    random = np.random.default_rng(seed)
    counts = np.zeros((studies, 1, prompts, 4, 4), dtype=np.int64)
    of_men = random.binomial(images, men, (studies, 1, prompts))
    for truth, number in enumerate((of_men, images - of_men)):
        clear = random.binomial(number, kept[truth])
        confused = random.binomial(clear, wrong[truth])
        counts[..., truth, truth], counts[..., truth, 1 - truth] = clear - confused, confused
        counts[..., truth, 2] = number - clear
    return counts


BLIND = {"kept": (0.7, 0.7), "wrong": (0.2, 0.2), "men": 0.5}


@pytest.mark.parametrize(
    ("changed", "filtering", "classification"),
    [
        ({}, False, False),
        ({"kept": (1.0, 1.0)}, False, False),
        ({"wrong": (0.0, 0.0), "men": 0.8}, False, False),
        ({"kept": (0.9, 0.6), "wrong": (0.0, 0.0)}, True, False),
        ({"kept": (1.0, 1.0), "wrong": (0.05, 0.3)}, False, True),
    ],
)
def test_what_favours_no_class_is_rarely_beyond_chance(
    changed: dict[str, object], filtering: bool, classification: bool
) -> None:
    studies = 200
    counts = drawn_study(prompts=60, images=20, studies=studies, seed=9, **{**BLIND, **changed})
    scopes = metrics.Scopes.of_prompts(["category"] * 60)
    found = beyond_chance(counts, scopes=scopes, level=0.95)
    for part, real in (("filtering", filtering), ("classification", classification)):
        share = getattr(found, part)[:, 0, 0].mean()
        assert share > 0.9 if real else share <= 0.05, part


def test_a_part_that_hides_errors_of_the_other_step_is_found() -> None:
    # Women are called men, which a filter that loses a few men hides in part.
    counts = drawn_study(prompts=100, images=40, men=0.5, wrong=(0.0, 0.3), kept=(0.8, 1.0), studies=20, seed=2)
    found = beyond_chance(counts, scopes=metrics.Scopes.of_prompts(["category"] * 100), level=0.95)
    assert found.classification[:, 0, 0].all()
    assert found.filtering[:, 0, 0].mean() > 0.9


def test_steps_that_never_err_are_never_beyond_chance() -> None:
    perfect = drawn_study(prompts=20, images=10, men=0.5, wrong=(0.0, 0.0), kept=(1.0, 1.0), studies=20, seed=1)
    found = beyond_chance(perfect, scopes=metrics.Scopes.of_prompts(["category"] * 20), level=0.95)
    assert not any(part.any() for part in found)
    one = beyond_chance(perfect[:, :, :1] + 1, scopes=metrics.Scopes.of_prompts(["category"]), level=0.95)
    assert not any(part.any() for part in one)  # a single prompt does not tell how prompts scatter


def test_bold_is_beyond_chance(judged: tuple[ImageSet, dict[str, pa.Table]]) -> None:
    image_set, predictions = judged
    blind = predictions_of({image: kept("male") for image in image_set.images["image_id"]}, detector="blind")
    split = causes(image_set, {**predictions, "blind": blind}, intervals=Intervals(resamples=500))
    signed = split[split["error_metric"] == "model_bias_score_deviation"]
    for part in PARTS:
        outside = (signed[f"{part}_ci_low"] > 0) | (signed[f"{part}_ci_high"] < 0)
        assert (signed[f"{part}_beyond_chance"] == outside).all()
    bold = {
        (row.cells[0].key, row.cells[1].text, column.key)
        for row in causes_table(split).rows
        for column, cell in zip(causes_table(split).columns, row.cells, strict=True)
        if cell.bold
    }
    whole = split[(split["category"] == "all") & (split["error_metric"] != "model_bias_score_absolute_error")]
    expected = {
        (row["t2i_model"], row["detector"], f"{row['error_metric']}_{part}")
        for row in whole.to_dict("records")
        for part in ("error", "filtering", "classification", "with_both")
        if row[f"{part}_beyond_chance"]
    }
    assert bold == expected != set()
    assert not causes(*judged, intervals=Intervals(method="none"))["error_beyond_chance"].any()
