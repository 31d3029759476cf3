"""Long tables of inference: who is compared, rows made of intervals, and what stands where nothing can be said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from detector_bench_next import intervals as I
from detector_bench_next.cells import Cells, Counted
from detector_bench_next.evaluate import Settings
from detector_bench_next.inference import COLUMNS, COMPARED, inference
from detector_bench_next.metrics import METRICS
from tests_next.counted import counted_of as only_counts
from tests_next.test_intervals import PBS, TRUTH, cells_of, study


def counted_of(cells: Cells, **changed: int) -> Counted:
    """Counts of odd and even prompts."""
    cells.pairs["category"] = np.where(np.arange(len(cells.pairs)) % 2, "odd", "even")
    return only_counts(cells)._replace(changed=changed)


SETTINGS: dict[str, Any] = Settings(resamples=200, primary=PBS)._asdict()


def three_models(seed: int = 20, prompts: int = 10, right: Any = (0.97, 0.9, 0.7)) -> Cells:
    """Three T2I models on the same prompts."""
    pair, truth, answers = study(seed, prompts=3 * prompts, right=right)
    cells = cells_of(pair, truth, *answers, models=np.repeat(["a", "b", "c"], prompts))
    cells.pairs["prompt_id"] = np.tile([f"p{i}" for i in range(prompts)], 3)
    return cells


def test_tables_of_a_study() -> None:
    cells = three_models()
    limits, tables = inference(counted_of(cells), **SETTINGS)
    assert {n: " ".join(t.columns) for n, t in tables.items()} == COLUMNS
    assert all((t["attribute"] == "gender").all() for t in tables.values())
    assert limits["d0", "f1"].shape == (12, 2)  # everything, three T2I models, two categories, both
    assert (TRUTH, "model_bias_score") in limits
    assert (TRUTH, "f1") not in limits
    ends = np.array([x for (_, name), x in limits.items() if name == PBS])
    assert (ends >= 0).all()  # cut to the range of the metric
    pairs, ranks = tables["comparisons"], tables["ranks"]
    assert pairs.groupby(["t2i_model", "metric"]).size().to_dict() == {
        (m, n): 3 for m in ("all", *"abc") for n in COMPARED
    }
    d = I.Draws.of(cells, [METRICS["f1"]], draws=200, seed=0, raters=(*cells.raters, TRUTH))
    same = pairs.query("t2i_model == 'all' and metric == 'f1'")
    assert same["difference"].to_numpy() == pytest.approx(I.compare(d, "f1").difference)
    assert (same["told_apart"] == (same["p_value"] <= 0.05)).all()
    best = ranks.query("t2i_model == 'all' and metric == 'accuracy'")
    assert best["detector"].tolist() == ["d0", "d1", "d2"]
    assert best["groups"].tolist() == ["a", "a", "b"]
    assert best["better_than"].tolist() == ["d2", "d2", ""]
    assert len(tables["verdicts"]) == 12
    assert set(tables["verdicts"]["word"]) <= {
        "good",
        "too far",
        "open",
        "good if it does not shift balanced prompts",
    }


def test_rows_of_t2i_models() -> None:
    cells = three_models()
    _, tables = inference(counted_of(cells), **SETTINGS)
    rows = tables["t2i_models"]
    own = rows.query("t2i_model == 'b' and category == 'all' and prompt_id == 'all' and estimand == 't2i_model'")
    b = I.bias_of_model(cells.only((cells.pair >= 10) & (cells.pair < 20)))
    values = own.set_index("quantity")[["value", "ci_low", "ci_high"]]
    assert values.loc["model_bias_score"].tolist() == pytest.approx(list(b.model_bias_score))
    assert values.loc["mean_prompt_bias_score"].tolist() == pytest.approx(list(b.mean_prompt_bias_score or ()))
    score = rows.query(
        "quantity == 'model_bias_score' and category == 'all' and estimand == 't2i_model' and t2i_model != 'all'"
    )
    raw = [I.bias_of_model(cells.only((cells.pair // 10) == m)).p_fair for m in range(3)]
    assert score["p_value"].tolist() == pytest.approx(multipletests(raw, method="holm")[1])
    assert (rows.query("estimand == 'these_images'")["ci_low"].isna()).all()  # all images are labelled: exact
    single = rows.query("quantity == 'prompt_bias_score' and t2i_model == 'a'")
    assert len(single) == 10
    assert ((single["ci_low"] <= single["value"]) & (single["value"] <= single["ci_high"])).all()
    between = tables["t2i_model_comparisons"]
    assert between.groupby("quantity").size().to_dict() == {"mean_prompt_bias_score": 3, "model_bias_score": 3}
    assert ((between["p_value"] >= 0.05) | (between["ci_low"] * between["ci_high"] > 0)).all()


def test_partly_labelled_t2i_models() -> None:
    cells = three_models(right=(0.95, 0.8))
    model, pair = cells.pair // 10, cells.pair
    truth = np.where((model == 0) | ((model == 1) & (pair % 2 == 0)), cells.truth, 4)  # a whole, b half, c none
    rows = inference(counted_of(cells.with_truth(truth)), **SETTINGS).tables["t2i_models"]
    whole = rows.query("category == 'all' and prompt_id == 'all' and quantity == 'class_share_c0'").copy()
    assert set(zip(whole["t2i_model"], whole["estimand"], whole["estimator"], strict=True)) == {
        ("all", "prompts", "labels_and_detectors"), ("a", "t2i_model", "labels"), ("a", "these_images", "labels"),
        ("b", "prompts", "labels_and_detectors"), ("c", "t2i_model", "detectors"),
    }  # fmt: skip
    assert whole.set_index("t2i_model").loc["c", ["ci_low", "ci_high"]].isna().all()
    assert whole.set_index("t2i_model").loc["b", "n_left_out"] == 5


def test_who_is_compared() -> None:
    cells = three_models(right=(0.97, 0.9, 0.85))
    answers = cells.answers.copy()
    answers[0] = np.where(answers[0] < 2, 1 - answers[0], answers[0])  # swapped classes
    answers[1, cells.pair < 10] = 3  # could not run on a
    cells = Cells(**{**{f: getattr(cells, f) for f in Cells.__dataclass_fields__}, "answers": answers})
    tables = inference(counted_of(cells), **SETTINGS).tables
    ranks = tables["ranks"].query("metric == 'filter_rate'").groupby("t2i_model")["detector"].agg(list).to_dict()
    assert ranks["all"] == ranks["a"] == ["d2", "d0"]  # below chance comes last, whatever the metric
    assert ranks["b"][-1] == ranks["c"][-1] == "d0"
    assert sorted(ranks["b"]) == ["d0", "d1", "d2"]
    assert "d1" not in set(tables["verdicts"].query("t2i_model == 'a'")["detector"])
    other = inference(counted_of(cells, d2=3), **SETTINGS).tables["ranks"]  # other files than the others
    assert "d2" not in set(other["detector"])


@pytest.mark.parametrize(
    "case", ["no labels", "one image a prompt", "one prompt", "no draws", "one detector", "none kept"]
)
def test_studies_at_the_edge(case: str) -> None:
    pair, truth, answers = study(25, prompts=40, n=4)
    if case == "no labels":
        truth = np.full(len(pair), 4)
    if case == "one image a prompt":
        pair, truth, answers = pair[::4], truth[::4], [a[::4] for a in answers]
    if case == "one prompt":
        pair = 0 * pair
    if case == "one detector":
        answers = answers[:1]
    if case == "none kept":
        answers[0] = np.full(len(pair), 2)
    limits, tables = inference(
        counted_of(cells_of(pair, truth, *answers)), **SETTINGS | {"resamples": 0 if case == "no draws" else 50}
    )
    sizes = {name: len(table) for name, table in tables.items()}
    assert bool(limits) == (case not in ("no labels", "one image a prompt", "no draws"))
    assert bool(sizes["verdicts"]) == bool(limits)
    assert bool(sizes["ranks"]) == (case not in ("no labels", "no draws"))
    assert bool(sizes["comparisons"]) == (case not in ("no labels", "no draws", "one detector"))
    assert sizes["t2i_models"] > 0
    if case == "none kept":
        last = tables["ranks"].query("detector == 'd0' and metric == 'accuracy' and t2i_model == 'all'").iloc[0]
        assert (last["rank"], last["rank_low"], last["rank_high"], last["groups"]) == (3, 3, 3, "")
    if case == "one image a prompt":
        assert tables["comparisons"]["ci_low"].notna().all()
