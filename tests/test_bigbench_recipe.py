"""From BIGbench's own files to its scores, without a step by hand: generate, halves, evaluate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest
import yaml
from bigbench_parts import number
from small_parts import write_csv

from detector_bench.dataset import ImageSet, check
from detector_bench.evaluation.intervals import Intervals
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.halved_set import HalvesSettings, halve_image_set
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.judgements import Judgements
from detector_bench.perception.boxes import boxes
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.weights import WeightsLocator
from tests import drawing_model

assert drawing_model.Drawing.kind == "drawing"


class Somebody(Stage):
    """In every picture one person, who fills it."""

    kind: ClassVar[str] = "test_somebody"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def find(frames: Sequence[Frame]) -> list[Arrays]:
            return [boxes([[0, 0, frame.pixels.shape[1], frame.pixels.shape[0]]], [1.0]) for frame in frames]

        return find


PAIR = "One {}Doctor at left with one {}Patient at right"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The program's folder, with two scenes for each sentence."""
    folder = tmp_path / "BIGbench"
    files = {
        "implicit/oc": ["a photo of one Boxer"],
        "implicit/sr": [PAIR.format("", "")],
        "occupation/oc _female": ["a photo of one female Boxer"],
        "relation/gender/sr_male_female": [PAIR.format("male ", "female ")],
    }
    for name, sentences in files.items():
        path = folder / "data" / "prompt" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'--prompt "{each}, {place}"' for each in sentences for place in ("at work", "at home")]
        path.write_text("\n".join(lines), encoding="utf-8")
    equal = {"gender": {"male": 0.5, "female": 0.5}}
    truth = {
        "oc_gt": {"a photo of one human Boxer": equal},
        "sr_gt": {PAIR.format("", ""): {"left": equal, "right": equal}},
        "weight": {"a photo of one human Boxer": 1, PAIR.format("", ""): 6},
    }
    (folder / "data" / "truth").mkdir()
    for name, content in truth.items():
        (folder / "data" / "truth" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_from_its_files_to_its_scores(checkout: Path, tmp_path: Path) -> None:
    recipe = {
        "name": "small",
        "prompts": "BIGbench",
        "images_per_prompt": 2,
        "models": [{"name": "one", "kind": "drawing"}],
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    making = ImageSetMaking(read_recipe(tmp_path / "recipe.yaml"), tmp_path / "set", GenerationOrder())
    making.run(lambda _progress: None)
    requests = pd.read_parquet(tmp_path / "set" / "generations.parquet")
    assert requests["prompt"].tolist()[:2] == ["a photo of one Boxer, at work", "a photo of one Boxer, at home"]
    # Two people are asked for once.
    assert len(requests) == 4 * 2
    assert set(requests["prompt_id"]) == {
        *("human_boxer", "female_human_boxer", "doctor_with_patient", "male_doctor_with_female_patient")
    }
    settings = HalvesSettings(people=Somebody())
    halve_image_set(tmp_path / "set", tmp_path / "halves", settings, weights=WeightsLocator())
    assert not check(tmp_path / "halves").problems
    images = ImageSet.load(tmp_path / "halves").images
    assert len(images) == 2 * 2 + 2 * 2 * 2
    # All boxers and patients are seen as women, all doctors as men, but for one.
    genders = {
        image_id: "male" if "doctor" in prompt_id and image_id != images["image_id"].iloc[-2] else "female"
        for image_id, prompt_id in zip(images["image_id"], images["prompt_id"], strict=True)
    }
    header = ("image_id", "annotator", "attribute", "label", "reason")
    rows = [(image_id, "ann", "gender", label, "") for image_id, label in genders.items()]
    write_csv(tmp_path / "halves" / "labels.csv", header, rows)
    judgements = Judgements.of(ImageSet.load(tmp_path / "halves"), {}, attributes=("gender",))
    scores = BigBench(references=checkout, attribute_weights={"gender": 1}).rows(
        judgements, Intervals(method="none")
    )
    found = number(scores, "bigbench_explicit_bias_score")
    # Weights: 1 for the boxer, 3 each for the doctor, half of whose images are men, and the patient.
    assert found == (pytest.approx((1 * 1 + 3 * 0.5 + 3 * 1) / 7), 3, 0)
    assert number(scores, "bigbench_implicit_bias_score")[1:] == (3, 0)
