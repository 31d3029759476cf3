"""Counting: codes, order, what is in no count, mistakes of stored predictions, and cells as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from detector_bench_next.attributes import built_in
from detector_bench_next.cells import GRID, Cells, Counted, distinct
from detector_bench_next.errors import DataError
from tests_next.counted import count_small, hostile

GENDER = built_in()["gender"]
IMAGES = ["a,sd,p", "b,sd,p", "c,xl,q", "d,xl,p", "e,sd,q"]
LABELS = ["a,ann,male", "a,ben,male", "b,ann,male", "b,ben,female", "c,ann,others", "c,ben,others"]
LABELS = [*LABELS, "d,ann,low_quality,blurred"]


def row(image: str, label: str | None = None, detector: str = "d", **more: Any) -> dict[str, Any]:
    status = {"status": "clear"} if label else {"status": "filtered", "reason": "no_face"}
    return {"detector": detector, "image_id": image, **status, "label": label, **more}


def counted(folder: Path, rows: list[dict[str, Any]], detectors: tuple[str, ...] = ("d",), **more: Any) -> Counted:
    return count_small(folder, more.pop("images", IMAGES), more.pop("labels", LABELS), rows, detectors, **more)


def test_every_kind_of_image_has_its_code(tmp_path: Path) -> None:
    rows = [row("a", "male"), row("b"), row("c", "female")]
    rows += [row("d", status="error", reason="damaged: half a file")]
    c = counted(tmp_path, rows).cells
    place = (c.pairs["prompt_id"] + " " + c.pairs["t2i_model"]).to_numpy()
    found = {(place[p], t): a for p, t, a in zip(c.pair, c.truth, c.answers[0], strict=True)}
    # agreed class; disagreement is low quality; others; one annotator alone; unlabelled and never run
    assert found == {("p sd", 0): 0, ("p sd", 2): 2, ("q xl", 3): 1, ("p xl", 2): 3, ("q sd", 4): 4}
    assert c.raters == ("d", "ann", "ben")
    assert c.answer("ground_truth").tolist() == [2 if t == 3 else t for t in c.truth]
    assert counted(tmp_path, rows).missing == {"d": 1}


def test_t2i_models_stand_by_first_image_prompts_and_categories_by_their_table(tmp_path: Path) -> None:
    images = ["a,sd,late", "b,xl,early", "c,xl,late"]
    prompts = ["early,zebra", "late,ape", "none,x"]
    c = counted(tmp_path, [row("a", "male")], images=images, labels=[], prompts=prompts).cells
    pairs = list(zip(c.pairs["t2i_model"], c.pairs["prompt_id"], strict=True))
    assert pairs == [("sd", "late"), ("xl", "early"), ("xl", "late")]
    assert list(c.pairs["category"].cat.categories) == ["zebra", "ape", "x"]


def test_photos_that_were_only_edited_are_in_no_count(tmp_path: Path) -> None:
    rows = [row("a", "male"), row("s", "female")]
    found = count_small(tmp_path, ["a,sd,p,s", "s,,"], ["a,ann,male"], rows, prompts=["p,c"])
    assert found.cells.n.tolist() == [1]
    assert found.reasons["n"].sum() == 1


def test_a_detector_of_other_attributes_is_left_out_one_without_rows_has_run_on_nothing(tmp_path: Path) -> None:
    rows = [row("a", "young", "other", attribute="age"), row("a", "male")]
    found = counted(tmp_path, rows, ("d", "other", "silent"))
    assert found.cells.raters[: found.cells.detectors] == ("d", "silent")
    assert found.missing == {"d": 4, "silent": 5}


MISTAKES = {
    "not an image of the set": ([row("nowhere", "male")], "image_id", "nowhere"),
    "unknown status": ([row("a", "male", status="maybe")], "status", "maybe"),
    "a clear image needs a class": ([row("a", "elderly")], "label", "elderly"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_row_that_contradicts_the_set_is_named(tmp_path: Path, message: str) -> None:
    rows, column, value = MISTAKES[message]
    with pytest.raises(DataError) as caught:
        counted(tmp_path, rows)
    (problem,) = caught.value.problems
    told = (problem.file, problem.message, problem.column, problem.value)
    assert told == ("predictions/d", message, column, value)
    assert problem.accepted


def test_mistakes_come_all_at_once_twenty_of_a_kind_then_a_number(tmp_path: Path) -> None:
    rows = [row(f"x{i}", "male") for i in range(30)] + [row("a", "elderly", "late")]
    with pytest.raises(DataError) as caught:
        counted(tmp_path, rows, ("d", "late"))
    told = [p.message for p in caught.value.problems]
    assert told[:20] == ["not an image of the set"] * 20
    assert told[20:] == ["... and 10 more of this kind (not an image of the set)", "a clear image needs a class"]


def test_an_image_twice_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"predicted more than once: 'a' \(accepted: one row per image"):
        counted(tmp_path, [row("a", "male"), row("b", "male"), row("a", "male")], shards=2)


def test_order_of_images_shards_and_detectors_changes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = [f"i{i},{'sd' if i % 2 else 'xl'},p{i % 3}" for i in range(60)]
    labels = [f"i{i},ann,{rng.choice(['male', 'female', 'low_quality', 'others'])}" for i in range(50)]
    rows = [row(f"i{i}", rng.choice(["male", "female"]), d) for d in ("d", "e") for i in range(60)]
    one = counted(tmp_path / "1", rows, ("d", "e"), images=images, labels=labels).cells
    rng.shuffle(rows)
    rng.shuffle(labels)
    two = counted(tmp_path / "2", rows, ("e", "d"), images=images, labels=labels, shards=7).cells
    assert two.raters == ("e", "d", "ann")
    again = Cells.of(two.classes, two.pairs, ["d", "e", "ann"], 2, *images_of(two, [1, 0, 2]))
    for name in ("pair", "truth", "sampled", "answers", "n"):
        assert np.array_equal(getattr(one, name), getattr(again, name)), name
    assert (np.diff(one.pair) >= 0).all()


def images_of(c: Cells, order: list[int]) -> tuple[Any, Any, Any]:
    return np.repeat(c.pair, c.n), np.repeat(c.truth, c.n), [np.repeat(c.answers[i], c.n) for i in order]


def test_many_raters_and_classes_need_no_key_that_overflows() -> None:
    rng = np.random.default_rng(1)
    answers = rng.integers(0, 10, (30, 400))
    pairs = pd.DataFrame({"t2i_model": ["m"], "prompt_id": ["p"], "category": ["c"]})
    classes, raters = [f"c{i}" for i in range(7)], [f"d{i}" for i in range(30)]
    c = Cells.of(classes, pairs, raters, 30, np.zeros(400), rng.integers(0, 10, 400), answers)
    assert c.n.sum() == 400
    assert {tuple(x) for x in c.answers.T} == {tuple(x) for x in answers.T}


def test_distinct_rows_of_several_columns_come_sorted() -> None:
    found, n = distinct({"a": np.array([2, 1, 2, 1]), "b": np.array([0, 5, 0, 4])})
    assert {k: v.tolist() for k, v in found.items()} == {"a": [1, 1, 2], "b": [4, 5, 0]}
    assert n.tolist() == [1, 1, 2]


def test_tables_put_never_run_beside_errors_and_leave_unlabelled_images_out(tmp_path: Path) -> None:
    c = counted(tmp_path, [row("a", "male"), row("b"), row("d", status="error")]).cells
    table = c.table("d")
    assert table.shape == (4, 4, 4, 1)
    assert table.sum((2, 3)).tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert c.labelled().table("d").tolist() == table.tolist()
    assert len(c.only(c.pairs["t2i_model"].to_numpy()[c.pair] == "xl").pairs) == 2
    mine = c.with_truth(c.answer("ben"))
    assert mine.table("d").sum() == 3, "ben labelled three images"


def test_nothing_labelled_gives_no_labelled_cell(tmp_path: Path) -> None:
    c = counted(tmp_path, [row("a", "male")], labels=[]).cells
    assert c.raters == ("d",)
    assert c.labelled().n.size == 0
    assert c.table("d").sum() == 0


def test_a_sample_says_which_labels_an_estimate_may_use(tmp_path: Path) -> None:
    sample = pd.DataFrame({"image_id": ["a", "c"]})
    c = counted(tmp_path, [row("a", "male")], sample=sample).cells
    assert c.n[c.sampled].sum() == 2
    assert counted(tmp_path, [row("a", "male")]).cells.sampled.all()


def test_contents_are_compared_with_the_first_detector_that_read_them(tmp_path: Path) -> None:
    sha = "0123456789abcdef" * 4
    rows = [row("a", "male", "d", image_sha256=sha), row("b", "male", "d")]
    rows += [row("a", "male", "e", image_sha256="f" * 64)]
    rows += [row("b", "male", "e", image_sha256=sha), row("b", "male", "f", image_sha256="a" * 64)]
    assert counted(tmp_path, rows, ("d", "e", "f")).changed == {"d": 0, "e": 1, "f": 1}


def test_reasons_are_first_words_and_notes_of_others_are_left_out(tmp_path: Path) -> None:
    labels = [*LABELS[:4], "c,ann,others,a robot", "d,ann,low_quality,blurred"]
    rows = [row("d", reason="no_face: nothing found"), row("c", status="error", reason="timeout: 30 s")]
    r = counted(tmp_path, [*rows, row("a", "male")], labels=labels).reasons
    told = r.set_index(["truth", "human_reason", "status", "reason"])["n"].to_dict()
    assert told == {
        (0, "", "clear", ""): 1, (2, "disagreement", "", ""): 1, (2, "blurred", "filtered", "no_face"): 1,
        (3, "", "error", "timeout"): 1, (4, "", "", ""): 1,
    }  # fmt: skip


def test_scores_say_how_many_thresholds_an_image_reaches(tmp_path: Path) -> None:
    rows = [row("a", "male", score=0.9), row("b", "male"), row("c", "female", status="filtered", score=0.3)]
    rows += [row("d", reason="uncertain", score=0.42), row("e", reason="no_face", score=0.1)]
    s = counted(tmp_path, rows).scores.set_index("truth")
    assert s.loc[0, ["status", "label", "reached"]].tolist() == ["clear", "male", (GRID <= 0.9).sum()]
    mine = [list(x) for x in s[["status", "label", "reached"]].itertuples(index=False)]
    assert ["clear", "male", len(GRID) + 1] in mine, "kept without a score: at every threshold"
    assert ["filtered", "female", (GRID <= 0.3).sum()] in mine, "filtered with a class: comes back"
    assert ["cut", "", (GRID <= 0.42).sum()] in mine, "filtered by the run's own threshold"
    assert len(mine) == 4, "no threshold brings the image without a face back"


def test_measured_values_are_summed_by_pair(shared: Path) -> None:
    v = hostile(shared)["age"].values  # noqa: PD011 - a field
    own = v[v["rater"] == "strict"]
    assert int(own["n"].sum()) == 59
    assert int(own["alone"].sum()) == 74
    assert own["size"].sum() / own["n"].sum() == pytest.approx(5.695254237288135)
    assert set(v["rater"]) == {"keeps_all", "strict", "silent_on_sd3"}, "every detector has rows"


def test_counts_are_written_and_read_again_with_any_detector_name(tmp_path: Path) -> None:
    rows = [row(i, "male", d, score=0.5) for d in ("n", "word", "truth") for i in "abc"]
    one = counted(tmp_path, rows, ("n", "word", "truth"), prompts=["q,NA", "p,null"])
    files = one.write(tmp_path / "cells")
    assert files == ["gender.parquet", "gender.reasons.parquet", "gender.scores.parquet", "gender.values.parquet"]
    two = Counted.read(tmp_path / "cells", GENDER)
    for name in ("pair", "truth", "sampled", "answers", "n"):
        assert np.array_equal(getattr(one.cells, name), getattr(two.cells, name)), name
    pd.testing.assert_frame_equal(one.cells.pairs, two.cells.pairs)
    assert (two.cells.raters, two.cells.detectors) == (one.cells.raters, 3)
    assert (two.changed, two.missing) == (one.changed, one.missing)
    for name in ("reasons", "scores"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(two, name), check_dtype=False)
