"""What the browser gets: columns in few bytes, and counts that lead to their images."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pyarrow as pa
import pytest
from web_report_study import IMAGES, Shown, write_study

from detector_bench.dataset import ImageSet
from detector_bench.site.error_counts import (
    CountTable,
    Judged,
    all_error_tables,
    browser_link,
    confusion,
    filter_reasons,
    pairs,
)
from detector_bench.site.image_columns import (
    annotators_disagree,
    changed_images,
    coded,
    codes,
    image_columns,
    numbers,
    raw_answers,
    write_data,
)
from detector_bench.site.report_study import ReportStudy
from detector_bench.study import Results, Study


def decoded(column: dict[str, Any]) -> list[float]:
    """A column of numbers, read as the browser reads it."""
    return list(np.frombuffer(base64.b64decode(column["bytes"]), f"<{column['type']}"))


def words_of(column: dict[str, Any]) -> list[str | None]:
    """A column of words; a code beyond their end is an empty cell."""
    words = column["words"]
    return [words[int(code)] if code < len(words) else None for code in decoded(column["codes"])]


def opened(folder: Path) -> ReportStudy:
    results = Results.open(folder)
    return ReportStudy.of(results.reader, results.study)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ReportStudy:
    return opened(write_study(tmp_path_factory.mktemp("columns"), raw="he said", intervals="none"))


@pytest.fixture(scope="module")
def images(study: ReportStudy) -> ImageSet:
    assert study.image_set is not None
    return study.image_set


@pytest.fixture(scope="module")
def judged(study: ReportStudy) -> Judged:
    found = study.parts[0].judged
    assert found is not None
    return found


def counts(table: CountTable) -> dict[str, list[int | None]]:
    return {row.name: [None if cell is None else cell.count for cell in row.cells] for row in table.rows}


@pytest.mark.parametrize(
    ("values", "kind", "size"),
    [([0, 255], "u1", 2), ([0, 65535], "u2", 4), ([0, 4_000_000_000], "u4", 8), ([-3, 7], "i2", 4)],
)
def test_numbers_take_as_many_bytes_as_they_need(values: list[int], kind: str, size: int) -> None:
    column = numbers(np.array(values), kind)
    assert len(base64.b64decode(column["bytes"])) == size
    assert decoded(column) == values


def test_scores_keep_their_gaps() -> None:
    found = decoded(numbers(np.array([0.5, np.nan]), "f4"))
    assert found[0] == 0.5
    assert np.isnan(found[1])


@pytest.mark.parametrize(
    ("words", "kind", "empty"), [(254, "u1", 255), (255, "u2", 65535), (70_000, "u4", 2**32 - 1)]
)
def test_an_empty_cell_has_the_largest_code(words: int, kind: str, empty: int) -> None:
    column = codes(np.array([-1, 3]), words=words)
    assert column["type"] == kind
    assert decoded(column) == [empty, 3]


def test_each_word_is_stored_once() -> None:
    column = coded(["b", None, "a", "", "b"])
    assert column["words"] == ["b", "a"]
    assert words_of(column) == ["b", None, "a", None, "b"]


def test_data_is_read_back_as_it_was(tmp_path: Path) -> None:
    content = {
        "__proto__": "</script><!--",
        "lines": "\u2028 ü \U0001f600 \ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
    }
    write_data(tmp_path / "data.js", "some name", content)
    text = (tmp_path / "data.js").read_text(encoding="ascii")
    inner = text.removeprefix('window.detectorBenchReport.add("some name", ').removesuffix(");\n")
    assert json.loads(json.loads(inner)) == content


def test_images_come_with_their_prompts_and_every_annotators_label(images: ImageSet) -> None:
    columns = image_columns(images)
    assert columns["image_id"] == [each.image_id for each in IMAGES]
    assert words_of(columns["t2i_model"]) == [each.t2i_model for each in IMAGES]
    prompts = [columns["prompts"]["prompt_id"][int(code)] for code in decoded(columns["prompt"])]
    assert prompts == [each.prompt_id for each in IMAGES]
    labels = columns["labels"]
    rows = list(
        zip(decoded(labels["image"]), words_of(labels["annotator"]), words_of(labels["label"]), strict=True)
    )
    assert (6, "ann", "female") in rows
    assert (6, "ben", "male") in rows
    assert decoded(labels["image"]) == sorted(decoded(labels["image"]))


def test_the_truth_is_the_consensus(judged: Judged) -> None:
    columns = judged.truth.as_columns()
    labels = [columns["labels"][int(code)] for code in decoded(columns["truth"])]
    expected = [
        "female",
        "female",
        "male",
        "male",
        "low_quality",
        "female",
        "low_quality",
        "male",
        "male",
        "others",
    ]
    assert labels == expected
    reasons = words_of(columns["reason"])
    assert reasons[4] == "no_person"
    assert reasons[6] == "disagreement"


def test_a_verdict_is_a_class_filtered_or_failed(judged: Judged) -> None:
    good, poor = (each.as_columns(classes=2) for each in judged.verdicts)
    # male, female, filtered, error
    assert decoded(good["verdict"]) == [1, 1, 0, 2, 2, 1, 1, 0, 0, 0]
    assert decoded(poor["verdict"]) == [0, 1, 0, 0, 0, 0, 2, 1, 3, 1]
    assert words_of(poor["reason"])[8] == "timeout"
    assert np.isnan(decoded(good["score"])[3])
    assert decoded(good["score"])[0] == 0.75
    assert good["named"] is None


def test_an_image_without_a_prediction_was_not_run(tmp_path: Path) -> None:
    results = write_study(tmp_path, intervals="none")
    table = pa.parquet.read_table(results / "predictions" / "poor" / "predictions.parquet")
    pa.parquet.write_table(table.slice(1), results / "predictions" / "poor" / "predictions.parquet")
    Study.from_yaml(results / "study.yaml").evaluate(results, results, allow_incomplete=True)
    part = opened(results).parts[0]
    assert part.judged is not None
    assert list(part.judged.verdicts[1].verdict[:2]) == [4, 1]


def test_right_and_wrong_by_hand(judged: Judged) -> None:
    ids = np.array([each.image_id for each in IMAGES])
    good, poor = judged.verdicts
    assert list(ids[judged.right(good)]) == ["a1", "a2", "a3", "a5", "b1", "b3", "b4"]
    assert list(ids[judged.wrong(good)]) == ["a4", "b2"]
    assert list(ids[judged.right(poor)]) == ["a2", "a3", "a4", "b2"]
    # An error is no verdict, and `others` is compared with nothing.
    assert list(ids[judged.wrong(poor)]) == ["a1", "a5", "b1", "b3"]


def test_confusion_counts_lead_to_their_images(judged: Judged) -> None:
    table = confusion(judged, judged.verdicts[1])
    assert table.columns == ("Male", "Female", "Filtered", "Error")
    assert counts(table) == {
        "Male": [2, 1, 0, 1],
        "Female": [2, 1, 0, 0],
        "Low-quality": [1, 0, 1, 0],
        "Others": [0, 1, 0, 0],
    }
    cell = table.rows[1].cells[0]
    assert cell is not None
    assert cell.tone == "wrong"
    assert dict(parse_qsl(urlsplit(cell.href).fragment)) == {
        "attribute": "gender",
        "detector": "poor",
        "truth": "female",
        "verdict.poor": "male",
    }
    right, filtered = table.rows[0].cells[0], table.rows[2].cells[2]
    assert right is not None
    assert filtered is not None
    assert right.tone == filtered.tone == "right"
    # Errors are no verdict, and `others` is compared with nothing.
    assert {each.tone for row in table.rows for each in row.cells[3:] if each} == {"neither"}
    assert {each.tone for each in table.rows[3].cells if each} == {"neither"}


def test_pairs_count_one_right_and_one_wrong(judged: Judged) -> None:
    # good is right and poor wrong on a1, a5, b1, b3; poor is right and good wrong on a4, b2.
    assert counts(pairs(judged)) == {"good": [None, 4], "poor": [2, None]}


def test_errors_by_prompt_begin_with_the_worst(judged: Judged, images: ImageSet) -> None:
    tables = {table.corner: table for table in all_error_tables(judged, images)}
    assert counts(tables["T2I model"]) == {"alpha": [1, 2], "beta": [1, 2]}
    # nurse: good misses b2, poor a1 and b1 of four images; chef: good misses a4, poor a5 and b3 of five.
    assert counts(tables["Prompt"]) == {"nurse": [1, 2], "chef": [1, 2]}
    assert [row.images for row in tables["Prompt"].rows] == [4, 5]
    cell = tables["Prompt"].rows[0].cells[1]
    assert cell is not None
    filters = parse_qsl(urlsplit(cell.href).fragment)
    assert ("prompt", "nurse") in filters
    assert [value for name, value in filters if name == "outcome.poor"] == ["wrong_class", "lost", "kept"]


def test_reasons_are_counted_without_their_detail(judged: Judged) -> None:
    table = filter_reasons(judged)
    assert table is not None
    assert counts(table) == {"No face": [1, 0]}


def test_annotators_agree_or_not(images: ImageSet) -> None:
    assert list(annotators_disagree(images, "gender")) == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]


def test_changed_files_are_noticed(judged: Judged) -> None:
    first = judged.verdicts[0].image_sha256.to_pylist()
    now = ["0" * 64, None, *first[2:]]
    assert list(np.flatnonzero(changed_images(judged.verdicts, now))) == [0]


def test_raw_answers_are_kept_where_there_are_some(judged: Judged) -> None:
    (answers,) = raw_answers({"gender": judged.verdicts})["answers"]
    assert answers["detector"] == "poor"
    assert set(words_of(answers["raw"])) == {"he said"}


def test_any_text_survives_in_a_link() -> None:
    nasty = 'a&b=c #"<>+%20 é'
    fragment = urlsplit(browser_link("gender", ("prompt", nasty))).fragment
    assert dict(parse_qsl(fragment))["prompt"] == nasty


def test_names_that_are_words_of_the_language_are_plain_names(tmp_path: Path) -> None:
    shown = [
        Shown(f"i{number}", "__proto__", "constructor", ("male", "male"), "male", "male") for number in range(2)
    ]
    part = opened(write_study(tmp_path, images=shown, intervals="none"))
    assert part.image_set is not None
    columns = image_columns(part.image_set)
    assert words_of(columns["t2i_model"]) == ["__proto__", "__proto__"]
