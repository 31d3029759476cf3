"""Long tables: golden numbers, the paper's own, oracles of agreement, and properties that every count has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters, cohens_kappa, fleiss_kappa

from detector_bench_next.attributes import built_in
from detector_bench_next.cells import GRID, Cells, count
from detector_bench_next.dataset import ImageSet
from detector_bench_next.evaluate import (
    LONG,
    Settings,
    agreement_of,
    at_thresholds,
    metric_table,
    told_below_chance,
)
from detector_bench_next.predictions import Predictions
from tests_next.counted import POINTS, cells_of, count_small, counted_of, hostile, portraits, write_predictions
from tests_next.lyu import write_image_set

KEYS = {
    "metrics": "detector attribute t2i_model category prompt_id metric n_clear variant",
    "confusion": "detector attribute t2i_model category human_label predicted",
    "causes": "detector attribute t2i_model category error_metric",
    "agreement": "attribute raters first second t2i_model category label statistic",
    "label_doubt": "labelled_by detector attribute t2i_model category prompt_id metric",
    "sweeps": "detector attribute t2i_model threshold metric",
    "filter_outcomes": "detector attribute t2i_model category human_label human_reason status detector_reason",
}
DROPPED = ["prompt_bias_error", "model_bias_score_corrected", "model_bias_score_error"]
DROPPED += ["explained_variance", "misclassification_p_value"]
MADE = {**LONG, "metrics": metric_table}  # without draws
NUMBERS = "value ci_low ci_high n n_left_out error filtering classification"
NUMBERS += " with_human_filter with_human_classes with_both"


def golden(path: Path, n_clear: str) -> pd.DataFrame:
    """Rows of a golden table that the new house has, too."""
    empty = {column: [""] for column in NUMBERS.split()}
    old = pd.read_csv(path, keep_default_na=False, low_memory=False, na_values=empty)
    old = old.rename(columns={"verdict": "predicted"})
    if "asked_n_clear" in old:
        old = old[old["asked_n_clear"] == n_clear].drop(columns="asked_n_clear")
    for column, gone in (("metric", DROPPED), ("labelled_by", ["dawid_skene"])):
        old = old[~old[column].isin(gone)] if column in old else old
    few = ~old["variant"].isin(["", "detector_only"]) if "variant" in old else False  # few-label estimates
    return old[~few] if "variant" in old else old


def same(name: str, old: pd.DataFrame, new: pd.DataFrame, *, drawn: bool = False) -> None:
    """Every golden row is there, to 1e-9."""
    keys = KEYS[name].split()
    if "threshold" in keys:
        old, new = (frame.assign(threshold=frame["threshold"].round(9)) for frame in (old, new))
    assert not new.duplicated(keys).any()
    both = old.merge(new, on=keys, how="left", suffixes=("_was", ""), indicator=True)
    assert (both["_merge"] == "both").all(), both[both["_merge"] != "both"].iloc[0]
    for column in [c for c in old if c not in keys and (drawn or "ci_" not in c) and "beyond_chance" not in c]:
        a, b = both[f"{column}_was"], both[column]
        if pd.api.types.is_numeric_dtype(a) and a.dtype != bool:
            np.testing.assert_allclose(b.astype(float), a.astype(float), rtol=1e-9, atol=1e-9, err_msg=column)
        else:
            assert a.fillna("").astype(str).tolist() == b.fillna("").astype(str).tolist(), column


@pytest.mark.parametrize("n_clear", ["detector", "human"])
@pytest.mark.parametrize("name", KEYS)
def test_the_hostile_studys_long_tables_come_out(shared: Path, name: str, n_clear: str) -> None:
    if n_clear == "human" and name not in ("metrics", "causes"):
        pytest.skip("it does not depend on n_clear")
    new = pd.concat([MADE[name](own, POINTS._replace(n_clear=n_clear)) for own in hostile(shared).values()])
    old = golden(shared / f"design/golden/numbers/{name}.csv.gz", n_clear)
    same(name, old, new, drawn=name == "agreement")
    assert len(old) == {"metrics": 10783, "confusion": 1654, "causes": 315, "agreement": 2401}.get(name, len(old))


@pytest.mark.parametrize("name", ["metrics", "confusion", "causes", "agreement"])
@pytest.mark.parametrize("folder", ["t2i_portraits", "scores_portraits", "face_sources"])
def test_the_portraits_long_tables_come_out(
    shared: Path, tmp_path_factory: pytest.TempPathFactory, name: str, folder: str
) -> None:
    counted = portraits(shared, tmp_path_factory.getbasetemp() / "portraits")
    new = pd.concat([MADE[name](own, POINTS) for own in counted.values()])
    old = golden(shared / f"golden/{folder}/{name}.csv.gz", "detector")
    for column in ("first" if name == "agreement" else "detector", "metric"):
        old = old[old[column].isin(set(new[column]))] if column in old else old
    same(name, old, new, drawn=name == "agreement")
    assert len(old) > 60


# the paper


@pytest.fixture(scope="module")
def paper(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Metric table of the authors' 6,000 labels."""
    folder = write_image_set(shared, tmp_path_factory.mktemp("lyu") / "all")
    image_set = ImageSet.load(folder)
    counted = count(image_set, Predictions(folder / "none"), image_set.attributes["gender"], [])
    return metric_table(counted, POINTS)


def over_all(metrics: pd.DataFrame) -> pd.DataFrame:
    """Rows over all categories and prompts."""
    return metrics.query("category == 'all' and prompt_id == 'all'")


def published(shared: Path, table: str) -> pd.DataFrame:
    return pd.read_csv(next((shared / "data/published").glob(f"lyu2025_table{table}_*.csv")))


def printed(value: float, decimals: int) -> float:
    """Rounded as the paper does, ties up."""
    return float(np.floor(value * 10**decimals + 0.5 + 1e-9) / 10**decimals)


def test_table_5_comes_out_of_the_authors_labels(shared: Path, paper: pd.DataFrame) -> None:
    whole = over_all(paper).set_index(["t2i_model", "metric"])["value"]
    numbers = 0
    for row in published(shared, "5").to_dict("records"):
        model = "all" if row["t2i_model"] in ("all", "total", "overall") else row["t2i_model"]
        for label in ("male", "female", "low_quality"):
            assert printed(100 * whole[model, f"label_share_{label}"], 2) == row[f"{label}_pct"], (row, label)
            numbers += 1
    assert numbers == 12


def test_table_6_comes_out_of_the_authors_labels(shared: Path, paper: pd.DataFrame) -> None:
    own = paper.query("metric == 'model_bias_score' and detector == 'ground_truth' and prompt_id == 'all'")
    score = own.set_index(["t2i_model", "category"])["value"]
    table = published(shared, "6").set_index("t2i_model").rename(columns={"model_bias_score": "all"})
    assert table.size == 18
    for model, row in table.iterrows():
        assert {c: printed(score[model, c], 3) for c in row.index} == row.to_dict()


def test_table_7_comes_out_of_the_authors_labels(shared: Path, paper: pd.DataFrame) -> None:
    words = pd.read_csv(Path(__file__).parents[1] / "labels/lyu2025/prompts.csv").set_index("prompt_id")["word"]
    own = paper[(paper["metric"] == "prompt_bias_score") & (paper["prompt_id"] != "all")]
    wide = own.pivot_table(index=own["prompt_id"].map(words).str.casefold(), columns="t2i_model", values="value")
    table = published(shared, "7")
    table.index = pd.Index(table["word"].str.casefold().replace({"real estate": "real estate agent"}))
    made = wide.loc[[w if w in wide.index else next(x for x in wide.index if x[:6] == w[:6]) for w in table.index]]
    made = made.assign(average=made.mean(axis=1))[["sdxl", "sd3", "dreamlike", "average"]]
    assert made.size == 400
    for column in made:
        shown = [printed(abs(x), 2) * np.sign(x) for x in made[column]]
        assert shown == pytest.approx(table[column].tolist(), abs=1e-9)


def test_ten_numbers_of_tables_1_and_2_come_out_of_sd3s_predictions(shared: Path, tmp_path: Path) -> None:
    data = shared / "data/lyu2025_authors"
    image_set = ImageSet.load(write_image_set(shared, tmp_path / "sd3", "sd3"))
    said = pd.read_csv(data / "predictions_sd3.csv.gz", keep_default_na=False)
    sure = said[said["detector"] == "clip"].assign(detector="clip_prob")  # the printed numbers have no face filter
    sure["answer"] = sure["answer"].where(pd.to_numeric(sure["score"]) >= 0.9, "uncertain")
    faces = pd.read_csv(data / "fairface_faces_sd3.csv.gz").query("face == 0").rename(columns={"gender": "answer"})
    faceless = sorted(set(image_set.images["image_id"]) - set(faces["image_id"]))
    none = pd.DataFrame({"image_id": faceless, "answer": "no_face"})
    rows = pd.concat([said, sure, pd.concat([faces, none]).assign(detector="fairface")])
    clear = rows["answer"].isin(["male", "female"])
    rows = rows.assign(label=rows["answer"].where(clear, None), reason=rows["answer"].mask(clear, None))
    rows = rows.assign(status=np.where(clear, "clear", "filtered"))
    kept = rows[["image_id", "detector", "label", "reason", "status"]].to_dict("records")
    table = [{str(k): v for k, v in row.items() if isinstance(v, str)} for row in kept]
    names = ["clip", "clip_prob", "clip_uncertain", "clip_enhance", "fairface"]
    counted = count(image_set, write_predictions(tmp_path / "p", table), image_set.attributes["gender"], names)
    own = over_all(metric_table(counted, POINTS._replace(n_clear="images"))).query("t2i_model == 'sd3'")
    value = own.set_index(["detector", "metric"])["value"]
    one, two = (published(shared, t).set_index("detector")["sd3"] for t in "12")
    for name in names:
        assert printed(value[name, "model_bias_score"], 3) == one[name], name
        assert printed(value[name, "prompt_bias_score_difference"], 3) == two[name], name


# properties


def some_counted(seed: int = 0, images: int = 300) -> Any:
    rng = np.random.default_rng(seed)
    pairs = pd.DataFrame({"t2i_model": list("aabb"), "prompt_id": list("pqpq"), "category": list("xyxy")})
    codes = (rng.integers(0, 4, images), rng.integers(0, 5, images), rng.integers(0, 5, (3, images)))
    return counted_of(Cells.of(("male", "female"), pairs, ["d", "e", "ann"], 2, *codes))


def test_unlabelled_images_are_as_if_they_were_not_there() -> None:
    counted = some_counted()
    cells = counted.cells
    one = metric_table(counted, POINTS)
    two = metric_table(counted._replace(cells=cells.labelled()), POINTS)
    one = one[(one["variant"] == "") & ~one["metric"].str.startswith(("images_unlabelled", "label_share"))]
    keys = KEYS["metrics"].split()
    both = one[one["detector"] != "ground_truth"].merge(two, on=keys, suffixes=("", "_other"))
    assert len(both) > 500
    np.testing.assert_allclose(both["value"], both["value_other"])


def test_the_labels_as_a_detector_are_always_right() -> None:
    counted = some_counted()
    cells = counted.cells.labelled()
    pair, truth, answer = (np.repeat(x, cells.n) for x in (cells.pair, cells.truth, cells.answer("ground_truth")))
    right = Cells.of(cells.classes, cells.pairs, ["d"], 1, pair, truth, [answer])
    rows = metric_table(counted_of(right), POINTS).query("detector == 'd' and prompt_id == 'all'")
    value = rows.set_index("metric")["value"]
    for name in ("f1", "filter_rate", "accuracy", "recall_male"):
        assert (value[name] == 1).all()
    for name in ("prompt_bias_score_difference", "model_bias_score_difference", "model_bias_score_deviation"):
        assert (value[name] == 0).all()


def test_images_add_up_over_scopes_and_prompts_and_hundredfold_images_change_no_value() -> None:
    counted = some_counted()
    metrics = metric_table(counted, POINTS)
    own = metrics.query("metric == 'images_filtered' and detector == 'd' and variant == ''")
    total = own[own["t2i_model"] == "all"].set_index("category")["value"]
    assert total["all"] == total.drop("all").sum() == own[own["prompt_id"] != "all"]["value"].sum()
    many = Cells(**{**counted.cells.__dict__, "n": counted.cells.n * 100})
    more = metric_table(counted._replace(cells=many), POINTS)
    ratios = ~metrics["metric"].str.contains("images|if_fair")
    np.testing.assert_allclose(metrics["value"][ratios], more["value"][ratios])


def test_rows_of_detectors_alone_exist_where_a_label_is_missing() -> None:
    counted = some_counted()
    assert (metric_table(counted, POINTS)["variant"] == "detector_only").any()
    labelled = counted._replace(cells=counted.cells.labelled())
    assert not (metric_table(labelled, POINTS)["variant"] == "detector_only").any()


def test_the_parts_of_an_error_add_up_to_it() -> None:
    rows = LONG["causes"](some_counted(), POINTS)
    np.testing.assert_allclose(rows["filtering"] + rows["classification"], rows["error"] - rows["with_both"])
    answered = [[[4, 1, 2, 0, 0], [2, 3, 1, 0, 0], [1, 1, 1, 0, 0], [0] * 5, [0] * 5]]
    assert (LONG["causes"](counted_of(cells_of(answered)), POINTS)["with_both"].abs() < 1e-12).all()


def test_filtered_images_with_a_stored_class_are_not_guessed(tmp_path: Path) -> None:
    images = [f"i{i},m,p" for i in range(8)]
    labels = [f"i{i},ann,{'male' if i < 4 else 'female'}" for i in range(8)]
    kept = [{"detector": "d", "image_id": f"i{i}", "label": "male"} for i in range(6)]
    lost = [{"detector": "d", "image_id": f"i{i}", "status": "filtered", "label": "female"} for i in (6, 7)]
    rows = LONG["causes"](count_small(tmp_path, images, labels, [*kept, *lost]), POINTS)
    row = rows.query("error_metric == 'prompt_bias_score_difference' and category == 'all'").iloc[0]
    assert row["error"] == 1  # reported 6 to 0, actual 4 to 4
    assert row["with_human_filter"] == pytest.approx(0.5)  # 6 to 2 once the two are kept


# thresholds


def test_a_threshold_of_a_sweep_says_what_a_run_with_it_would(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = [f"i{i},m,p{i % 3}" for i in range(90)]
    labels = [f"i{i},ann,{rng.choice(['male', 'female', 'low_quality'])}" for i in range(90)]
    scores = np.round(rng.random(90), 3)
    said = rng.choice(["male", "female"], 90).tolist()
    rows = [{"detector": "d", "image_id": f"i{i}", "label": said[i], "score": scores[i]} for i in range(90)]
    counted = count_small(tmp_path / "one", images, labels, rows)
    shown = LONG["sweeps"](counted, POINTS).query("t2i_model == 'm'").set_index(["threshold", "metric"])["value"]
    for t in (0.25, 0.5, 0.9):
        again = [r if r["score"] >= t else {**r, "status": "filtered", "label": None} for r in rows]
        run = count_small(tmp_path / f"at{t}", images, labels, again)
        metrics = over_all(metric_table(run, POINTS)).query("t2i_model == 'm' and detector == 'd'")
        value = metrics.set_index("metric")["value"]
        for name in ("f1", "filter_rate", "accuracy", "prompt_bias_score_difference", "images_clear"):
            assert shown[t, name] == pytest.approx(value[name], nan_ok=True)
        cut = LONG["sweeps"](run, POINTS)
        assert cut["known"].all(), "filtered without a score: nothing is known to be cut"


def test_thresholds_below_the_runs_own_are_not_known(tmp_path: Path) -> None:
    rows = [
        {"detector": "d", "image_id": "a", "label": "male", "score": 0.9},
        {"detector": "d", "image_id": "b", "status": "filtered", "reason": "uncertain", "score": 0.62},
    ]
    counted = count_small(tmp_path, ["a,m,p", "b,m,p"], ["a,ann,male"], rows)
    swept = LONG["sweeps"](counted, POINTS).query("metric == 'f1' and t2i_model == 'all'")
    swept = swept.set_index("threshold")["known"]
    assert not swept[GRID[GRID <= 0.62]].any()
    assert swept[GRID[GRID > 0.62]].all()
    none = count_small(tmp_path / "none", ["a,m,p"], ["a,ann,male"], [{**rows[0], "score": None}])
    assert at_thresholds(none, "d") is None


# agreement


def test_agreement_is_that_of_the_libraries() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 4, (3, 120))
    labels[1] = np.where(rng.random(120) < 0.6, labels[0], labels[1])
    rows = agreement_of(labels, np.ones(120, np.int64), ["a", "b", "c"], ["w", "x", "y", "z"])
    found = {(r["first"], r["second"], r["label"], r["statistic"]): r for r in rows}
    pair = found["a", "b", "all", "cohen_kappa"]
    theirs = cohens_kappa(np.histogram2d(labels[0], labels[1], [range(5)] * 2)[0])
    assert pair["value"] == pytest.approx(cohen_kappa_score(labels[0], labels[1]))
    assert pair["ci_high"] - pair["ci_low"] == pytest.approx(2 * 1.959963984540054 * theirs.std_kappa)
    fleiss = fleiss_kappa(aggregate_raters(labels.T)[0])
    assert found["", "", "all", "fleiss_kappa"]["value"] == pytest.approx(fleiss)
    one = found["a", "c", "x", "cohen_kappa"]["value"]
    assert one == pytest.approx(cohen_kappa_score(labels[0] == 1, labels[2] == 1))


def test_krippendorffs_alpha_is_that_of_his_example() -> None:
    # Krippendorff 2011, section C: four observers, twelve units, missing values, nominal alpha 0.743
    values = np.array([
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]) - 1  # fmt: skip
    rows = agreement_of(values, np.ones(12, np.int64), list("abcd"), list("12345"))
    alpha = next(r for r in rows if r["statistic"] == "krippendorff_alpha" and r["label"] == "all")
    assert alpha["value"] == pytest.approx(0.743, abs=5e-4)
    assert (alpha["n"], alpha["n_left_out"]) == (11, 1)


def test_one_label_alone_or_no_shared_image_gives_no_kappa() -> None:
    same = np.zeros((2, 20), int)
    rows = agreement_of(same, np.ones(20, np.int64), ["a", "b"], ["x", "y"])
    assert all(np.isnan(r["value"]) for r in rows if r["statistic"] != "percent_agreement")
    apart = np.array([[0, -1], [-1, 1]])
    rows = agreement_of(apart, np.ones(2, np.int64), ["a", "b"], ["x", "y"])
    assert "two_annotators" not in [r["raters"] for r in rows]


# below chance


def test_a_detector_with_swapped_classes_is_told() -> None:
    table = np.zeros((1, 5, 5), int)
    table[0, :2, :2] = [[20, 100], [150, 30]]
    counted = counted_of(cells_of(table, detector="gear"))
    told = told_below_chance(metric_table(counted, POINTS), built_in()["gender"])
    assert list(told) == ["gear"]
    sentence = "gear is worse than chance on the labelled images (16.7 % of 300 classes right; guessing: 50 %): "
    assert told["gear"] == f"{sentence}are its classes swapped?"
    table[0, :2, :2] = [[50, 60], [50, 60]]
    assert told_below_chance(metric_table(counted_of(cells_of(table)), POINTS), built_in()["gender"]) == {}


def test_limits_of_measured_values_pool_the_scatter_within_prompts(shared: Path) -> None:
    counted = hostile(shared)["age"]
    metrics = metric_table(counted, Settings())
    row = over_all(metrics).query("metric == 'mean_error' and detector == 'strict' and t2i_model == 'all'").iloc[0]
    v = counted.values  # noqa: PD011 - a field
    v = v[(v["rater"] == "strict") & (v["n"] > 0)]
    n, h = v["n"].sum(), len(v)
    error = np.sqrt((v["square"] - v["e"] ** 2 / v["n"]).sum() / (n * (n - h)))
    assert (row["ci_high"] - row["ci_low"]) / 2 / error == pytest.approx(2.04, abs=0.03)  # t of n - h = 31 or so
    own = metrics.query("metric == 'cumulative_score_5' and detector == 'strict' and prompt_id == 'all'")
    assert (own["ci_low"] >= 0).all()
    assert (own["ci_high"] <= 1).all()
