"""The audit: in one command from images to sentences, each of whose numbers stands in a row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from small_parts import write_csv
from study_files import write_study_file

from detector_bench.audit import AttributeAudit, HumanLabels, differences_in_words, in_words
from detector_bench.study import Results, Study

Command = Callable[..., tuple[int, str, str]]


def keep_labels(folder: Path, number: int) -> None:
    """Leave the labels of so many images."""
    labels = pd.read_csv(folder / "images" / "labels.csv", dtype=str).fillna("")
    kept = labels["image_id"].drop_duplicates()[:: max(1, 12 // number)][:number] if number else []
    rows = labels[labels["image_id"].isin(kept)]
    write_csv(folder / "images" / "labels.csv", list(labels.columns), rows.to_numpy().tolist())


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study_file(tmp_path) / "study.yaml"


@pytest.mark.parametrize("labels", [0, 6, 12])
@pytest.mark.slow
def test_one_command_says_what_is_known_and_what_to_do_next(study: Path, command: Command, labels: int) -> None:
    keep_labels(study.parent, labels)
    out = study.parent / "out"
    status, printed, _ = command("audit", study, "--out", out, "--no-cache")
    assert status == 0
    page = (out / "report" / "index.html").read_text()
    results = Results.open(out)
    (told,) = results.audit().attributes
    for line in told.says:
        assert line in printed
        assert re.sub(r"\s+", " ", line).split(":")[0] in page.replace("\N{NO-BREAK SPACE}", " ")
    state = {0: HumanLabels.NONE, 6: HumanLabels.SOME, 12: HumanLabels.ALL}[labels]
    assert AttributeAudit.of(results.of_attribute()).labels is state
    assert ("nobody has checked" in printed) == (labels == 0)
    assert ("sample" in printed.partition("Next:")[2]) == (labels < 12)
    # Nobody is told to label more images than there are.
    asked_for = re.findall(r"sample\s+\S+\s+--labels\s+(\d+)", printed)
    images = len(pd.read_csv(study.parent / "images" / "images.csv"))
    assert asked_for == ([] if labels == 12 else [str(images)])
    assert ("How biased" in page.partition("</h1>")[0].rpartition("<h1>")[2]) == (labels < 12)
    assert page.index('id="audit"') < page.index('id="verdict"')


@pytest.mark.slow
def test_an_audit_goes_on_where_it_was_and_prints_rows(study: Path, command: Command) -> None:
    keep_labels(study.parent, 0)
    out = study.parent / "out"
    assert command("audit", study, "--out", out, "--no-cache")[0] == 0
    judged = {path: path.stat().st_mtime_ns for path in (out / "predictions").rglob("*.parquet")}
    status, printed, _ = command("audit", study, "--out", out, "--no-cache", "--json")
    assert status == 0
    assert {path: path.stat().st_mtime_ns for path in (out / "predictions").rglob("*.parquet")} == judged
    tables = {row["table"] for row in json.loads(printed)["rows"]}
    assert tables == {"audit", "next_steps", "report"}


@pytest.mark.slow
def test_python_gives_the_same_sentences(study: Path) -> None:
    keep_labels(study.parent, 6)
    found = Study.from_yaml(study).audit(study.parent / "out", use_cache=False)
    assert found.report == study.parent / "out" / "report" / "index.html"
    assert found.attributes == Results.open(study.parent / "out").audit().attributes


@pytest.mark.slow
def test_bias_and_difference_are_said_only_where_the_test_says_so(study: Path) -> None:
    keep_labels(study.parent, 6)
    results = Study.from_yaml(study).run(study.parent / "out", use_cache=False)
    audit = AttributeAudit.of(results.of_attribute())
    model = audit.t2i_models[0]
    row = dict.fromkeys(("ci_low", "ci_high", "p_adjusted"), 0.01) | {"value": -0.4, "chance": 0.1}
    difference = dict.fromkeys(("ci_low", "ci_high", "p_adjusted", "first_value", "second_value"), 0.01)
    difference |= {"metric": "model_bias_score", "first": "x", "second": "y", "difference": 0.2, "prompts": 3}
    for beyond in (True, False):
        biases = {name: row | {"beyond_chance": beyond} for name in ("mean_prompt_bias_score", "model_bias_score")}
        said = " ".join(in_words(audit, replace(model, biases=biases)))
        assert ("is biased towards female" in said) == beyond
        assert ("Chance could explain" in said) != beyond
        assert f"model bias score of perceived gender is {model.score.value:.2f}" in said
        pair = replace(audit, differences=(difference | {"told_apart": beyond},))
        said = " ".join(differences_in_words(pair))
        assert ("x is more biased than y" in said) == beyond
        assert ("do not tell x and y apart" in said) != beyond
