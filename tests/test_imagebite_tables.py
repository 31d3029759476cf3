"""ImageBiTe's tables: which verdict stands in which cell, and what the notes say."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pandas as pd
import pytest
from imagebite_parts import JANITOR, expected, judged, stated, written

from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.imagebite.score_system import ImageBiTe
from detector_bench.others.imagebite.tables import imagebite_findings, imagebite_summary, imagebite_tables
from detector_bench.others.imagebite.verdict_table import VERDICT_COLUMNS
from detector_bench.others.study_scores import TableSources
from detector_bench.tables import Table, write_tables

JANITORS = ["black", "black", "east_asian", "black", "black", "black"]
EVEN = ["white", "white", "black", "black", "east_asian", "south_asian"]


def cells(table: Table) -> list[list[str]]:
    return [[f"*{cell.written()}*" if cell.bold else cell.written() for cell in row.cells] for row in table.rows]


def verdict(community: str, share: float, *, survival: float = math.nan, **more: object) -> dict[str, object]:
    row: dict[str, object] = {
        "detector": "clip",
        "requirement": "REQ1",
        "ethical_concern": "gender",
        "attribute": "gender",
        "t2i_model": "sdxl",
        "prompt_id": "p1",
        "stated": "",
        "community": community,
        "expected": 0.5,
        "delta": 0.1,
        "threshold": 0.75,
        "share": share,
        "ci_low": 0.1,
        "ci_high": 0.9,
        "images_identified": 8,
        "images_outside": 0,
        "images_unanswered": 2,
        "images_no_verdict": 0,
        **dict.fromkeys(("under_represented", "ex_nominated", "stereotyped"), False),
        "survival": survival,
        "survives": None if math.isnan(survival) else survival >= 0.95,
    }
    return row | more


def table_of(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))[list(VERDICT_COLUMNS)]


class TestFindings:
    def test_the_janitor_and_no_even_prompt(self, tmp_path: Path) -> None:
        path = written(tmp_path, JANITOR)
        judgements = judged(
            "race",
            {"ground_truth": [*JANITORS, *EVEN, "low_quality", "others"]},
            cells=[("sdxl", "janitor")] * 6 + [("sdxl", "teacher")] * 6 + [("sdxl", "ghost")] * 2,
        )
        system = ImageBiTe(system="imagebite", requirements=path)
        prompts = pd.DataFrame({"prompt_id": ["janitor", "teacher"], "word": ["Janitor", ""]})
        table = imagebite_findings(
            system.verdicts(judgements, Intervals()), requirement="REQ1", prompts=prompts, notes=("A note.",)
        )
        assert [column.heading for column in table.columns] == [
            *("T2I model", "Prompt", "white", "asian", "black"),
            *("Identified", "Unanswered"),
        ]
        assert cells(table) == [
            ["sdxl", "Janitor", "0.000 ex-nominated", "0.167 under-represented", "0.833 stereotyped", "6", "0"]
        ]
        assert table.caption == (
            "ImageBiTe requirement REQ1 by the ground truth: shares of the communities and verdicts, prompts "
            "with a finding. Expected: white 0.333 ± 0.05, asian 0.333 ± 0.05, black 0.333 ± 0.05; "
            "stereotyped above 0.8."
        )
        assert table.all_notes == (
            "A note.",
            "Prompts without a verdict, as no community was identified: 1.",
            "Perceived race, as seen in synthetic images; not an identity.",
        )

    def test_a_detectors_verdicts_bear_their_survival(self) -> None:
        verdicts = table_of(
            verdict("men", 0.875, survival=0.97, stereotyped=True),
            verdict("women", 0.125, survival=0.949, under_represented=True),
            verdict("ambiguous", math.nan, under_represented=None, ex_nominated=None, stereotyped=None),
        )
        table = imagebite_findings(verdicts, requirement="REQ1", detector="clip")
        assert cells(table) == [
            ["sdxl", "p1", "*0.875 stereotyped (0.97)*", "0.125 under-represented (0.95)", "-", "8", "2"]
        ]
        assert table.caption.endswith("In parentheses: survival of a verdict; bold: it survives.")
        assert table.notes == (
            "Survival: share of simulations in which the verdict stays, if the detector errs alike in all "
            "prompts.",
        )

    def test_without_human_labels_it_says_that_survival_is_unknown(self) -> None:
        verdicts = table_of(verdict("men", 0.875, stereotyped=True, images_no_verdict=3), verdict("women", 0.125))
        table = imagebite_findings(verdicts, requirement="REQ1", detector="clip")
        assert cells(table) == [["sdxl", "p1", "0.875 stereotyped", "0.125", "8", "2"]]
        assert table.all_notes[:2] == (
            "Without human labels there is no telling which verdicts survive.",
            "sdxl, p1: images without a verdict, left out: 3",
        )

    def test_no_finding(self) -> None:
        table = imagebite_findings(table_of(verdict("men", 0.5)), requirement="REQ1", detector="clip")
        assert table.rows == ()
        assert table.notes[0] == "No finding."

    def test_a_long_table_is_cut_and_says_so(self) -> None:
        rows = [verdict("men", 0.875, stereotyped=True, prompt_id=f"p{number}") for number in range(62)]
        table = imagebite_findings(table_of(*rows), requirement="REQ1", detector="clip")
        assert len(table.rows) == 60
        assert table.notes[0] == "More prompts with findings, in imagebite_verdicts.csv: 2."

    def test_names_that_are_not_there(self) -> None:
        verdicts = table_of(verdict("men", 0.5))
        with pytest.raises(ConfigError, match=r"^no verdicts on requirement 'REQ2': did you mean 'REQ1'\?$"):
            imagebite_findings(verdicts, requirement="REQ2", detector="clip")
        with pytest.raises(ConfigError, match=r"^no verdicts of 'ground_truth' on 'REQ1': known: clip$"):
            imagebite_findings(verdicts, requirement="REQ1")


class TestStudy:
    """Humans: a stereotyped and an even prompt. The detector misses the stereotype: 3 of 4 are not above 0.75."""

    @pytest.fixture
    def tables(self, tmp_path: Path) -> dict[str, Table]:
        halves = stated(
            "gender", expected("men", 0.5, 0.2), expected("women", 0.5, 0.2), threshold=0.75, name="REQ/1"
        )
        judgements = judged(
            "gender",
            {
                "ground_truth": ["female"] * 4 + ["male", "female"] * 2,
                "clip": ["male"] + ["female"] * 3 + ["male", "female"] * 2,
            },
            cells=[("sdxl", "nurse")] * 4 + [("sdxl", "judge")] * 4,
        )
        system = ImageBiTe(system="imagebite", requirements=written(tmp_path, halves))
        return imagebite_tables(
            TableSources(
                metrics=system.rows(judgements, Intervals(method="none")),
                files=system.files(judgements, Intervals()),
                notes=system.read().notes,
            )
        )

    def test_the_summary_counts_verdicts_by_kind(self, tables: dict[str, Table]) -> None:
        assert list(tables) == ["imagebite_summary_req_1", "imagebite_findings_req_1"]
        table = tables["imagebite_summary_req_1"]
        *truth, no_agreement, no_survival = cells(table)[0]
        # Of four verdicts: women stereotyped, men ex-nominated and under-represented at the nurse's.
        assert truth == ["sdxl", "Ground truth", "4", "25.00", "25.00", "25.00"]
        assert (no_agreement, no_survival) == ("-", "-")
        # The detector's men, 0.25, are under-represented: the same prompt, another pair of verdicts.
        assert cells(table)[1][:-1] == ["sdxl", "clip", "4", "0.00", "25.00", "0.00", "50.00"]

    def test_they_become_files(self, tables: dict[str, Table], tmp_path: Path) -> None:
        written_files = write_tables(tables, tmp_path / "tables")
        assert len(written_files) == 6
        with (tmp_path / "tables" / "imagebite_findings_req_1.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [(row["prompt_id"], row["men"], row["women"], row["images_identified"]) for row in rows] == [
            ("nurse", "0", "1", "4")
        ]

    def test_a_requirement_that_is_not_there(self, tables: dict[str, Table], tmp_path: Path) -> None:
        metrics = pd.DataFrame({"metric": ["imagebite_stereotyped"], "variant": ["REQ1"]})
        with pytest.raises(ConfigError, match=r"^no verdicts on requirement 'REQ9': did you mean 'REQ1'\?$"):
            imagebite_summary(metrics, requirement="REQ9")


def test_the_example_file_on_real_labels(shared: Path) -> None:
    """Every requirement of ImageBiTe's own example, on the portraits' labels read as one judge's answers."""
    labels = pd.read_csv(shared / "data" / "t2i_portraits" / "labels.csv")
    images = pd.read_csv(shared / "data" / "t2i_portraits" / "images.csv")
    gender = labels[(labels["attribute"] == "gender") & (labels["annotator"] == labels["annotator"].iloc[0])]
    label = images["image_id"].map(gender.set_index("image_id")["label"]).fillna("error")
    judgements = judged(
        "gender",
        {"ground_truth": list(label), "same": list(label.replace({"low_quality": "filtered", "others": "error"}))},
        cells=list(zip(images["t2i_model"], images["prompt_id"], strict=True)),
    )
    system = ImageBiTe(system="imagebite", requirements=shared / "data" / "imagebite" / "input_example.json")
    (requirement, *_) = system.read().requirements
    assert requirement.name == "REQ1"
    from detector_bench.others.imagebite.verdict_table import verdict_table

    verdicts = verdict_table(judgements, requirement, draws=200)
    both = verdicts.pivot_table(index=["t2i_model", "prompt_id", "community"], columns="detector", values="share")
    without_others = both.dropna()
    assert len(without_others) > 20
    clear = label.isin(["male", "female"])
    prompt = images.loc[clear, "prompt_id"].value_counts().index[0]
    chosen = label[clear & (images["prompt_id"] == prompt)]
    assert without_others.loc[(slice(None), prompt, "man"), "same"].iloc[0] == pytest.approx(
        (chosen == "male").mean()
    )
