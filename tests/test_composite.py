"""One judge made of several: verdicts, shared stages, failures, fingerprints; a score over three attributes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_parts import (
    Brightness,
    MeanColour,
    forget_calls,
    image_name,
    images_of,
    picture,
    write_csv,
    write_image_set,
)

from detector_bench.detectors import Detector, Prediction, build_detector, detector
from detector_bench.errors import ConfigError
from detector_bench.evaluation import read_predictions
from detector_bench.perception.stage import Batch
from detector_bench.study import Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator(cache=Path("nowhere"))


@detector("tried-shade", attributes=["skin_tone", "gender"], stages=[Brightness()], version=4)
class Shade:
    """Measures brightness, and calls everybody male."""

    def __init__(self, *, fails_above: float = 255) -> None:
        self.fails_above = fails_above

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            brightness = float(frame[Brightness()]["value"][0])
            if brightness > self.fails_above:
                raise RuntimeError("too bright")
            yield Prediction.clear(frame, "skin_tone", "monk_05", value=brightness)
            yield Prediction.clear(frame, "gender", "male")


@detector("tried-years", attributes=["age"], stages=[MeanColour()])
class Years:
    """Takes red for years."""

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            yield Prediction.clear(frame, "age", "young", value=float(frame[MeanColour()]["mean"][0]) / 4)


THREE = {"gender": "test-colour", "age": "tried-years", "skin_tone": "tried-shade"}


def composite(parts: dict[str, Any], name: str = "both") -> Detector:
    return build_detector("composite", name=name, parameters={"parts": parts})


def run(folder: Path, detectors: list[Any], **more: Any) -> pd.DataFrame:
    """All predictions, in the image set's order."""
    if not (folder / "images").is_dir():
        write_image_set(folder / "images", 6)
    study = Study(image_set=folder / "images", detectors=detectors, **more)
    study.run(folder / "results", use_cache=False)
    stored = read_predictions(folder / "results", also=["value", "reason"])
    tables = [table.to_pandas().assign(detector=name) for name, table in stored.items()]
    return pd.concat(tables).sort_values(["detector", "attribute", "image_id"], ignore_index=True)


@pytest.mark.slow
def test_verdicts_are_those_of_the_parts_and_shared_stages_run_once(tmp_path: Path) -> None:
    forget_calls()
    rows = run(tmp_path, [*THREE.values(), {"kind": "composite", "name": "both", "parts": THREE}])
    assert images_of("test_mean_colour") == [image_name(number) for number in range(6)]
    assert images_of("test_brightness") == [image_name(number) for number in range(6)]
    both = rows[rows["detector"] == "both"]
    assert sorted(set(both["attribute"])) == ["age", "gender", "skin_tone"]
    for attribute, part in THREE.items():
        of_part = rows[(rows["detector"] == part) & (rows["attribute"] == attribute)].drop(columns="detector")
        taken = both[both["attribute"] == attribute].drop(columns="detector")
        pd.testing.assert_frame_equal(taken.reset_index(drop=True), of_part.reset_index(drop=True))


def test_what_one_part_fails_on_stays_clear_for_the_others(tmp_path: Path) -> None:
    parts = {"gender": "test-colour", "skin_tone": {"kind": "tried-shade", "fails_above": 0}}
    rows = run(tmp_path, [{"kind": "composite", "name": "both", "parts": parts}])
    status = rows.groupby("attribute")["status"].agg(set)
    assert status["skin_tone"] == {"error"}
    assert status["gender"] == {"clear", "filtered"}
    assert rows.loc[rows["status"] == "error", "reason"].str.contains("too bright").all()


def test_a_part_may_be_another_detector_of_the_study(tmp_path: Path) -> None:
    strict = {"kind": "test-colour", "name": "strict", "green": 10.0}
    study = Study(
        image_set=tmp_path,
        detectors=[
            strict,
            {"kind": "composite", "name": "both", "parts": {"gender": "strict", "age": "tried-years"}},
        ],
    )
    (first, both) = study.build_detectors()
    assert both.parts["gender"].identity(weights=NOWHERE) == first.identity(weights=NOWHERE)
    assert both.settings["parts"]["gender"] == {"kind": "test-colour", "green": 10.0, "gain": 1.0, "seconds": 0.0}


def test_the_fingerprint_is_made_of_the_parts() -> None:
    plain = composite(THREE).identity(weights=NOWHERE)
    assert plain["parts"]["skin_tone"]["version"] == 4
    assert composite(THREE, "another").identity(weights=NOWHERE) == plain
    changed = {**THREE, "gender": {"kind": "test-colour", "green": 1.0}}
    assert composite(changed).identity(weights=NOWHERE) != plain
    # Of two attributes by one detector, it is one detector.
    twice = composite({"gender": "tried-shade", "skin_tone": "tried-shade"})
    assert twice.parts["gender"] is twice.parts["skin_tone"]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({}, "parts: Dictionary should have at least 1 item"),
        ({"gendr": "test-colour"}, "unknown attribute 'gendr': did you mean 'gender'"),
        ({"gender": "test-color"}, "gender: unknown detector 'test-color': did you mean 'test-colour'"),
        ({"age": "test-colour"}, "'test-colour' does not judge 'age' (it judges: gender)"),
        ({"gender": 3}, "gender: a detector is its name, or a mapping with `kind`; got 3"),
        ({"gender": {"kind": "test-colour", "gren": 1}}, "unknown key 'gren': did you mean 'green'"),
    ],
)
def test_wrong_parts_are_told_in_one_line(parts: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        composite(parts)
    assert str(caught.value).startswith("detector 'both': parts")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_biaspainters_table_has_three_attributes_by_one_judge(tmp_path: Path) -> None:
    write_image_set(tmp_path / "images", 6)
    rows = [(image_name(number), f"images/{image_name(number)}.png", "A", "p0", "") for number in (0, 1)]
    # Photo 0 is red (male), photo 1 blue (female); each is edited into the other's colour.
    for number, seed in ((3, 1), (4, 0)):
        picture(number).save(tmp_path / "images" / "images" / f"{image_name(number)}.png")
        rows.append((image_name(number), f"images/{image_name(number)}.png", "A", "p0", image_name(seed)))
    write_csv(tmp_path / "images" / "images.csv", (*IMAGE_COLUMNS, "seed_image_id"), rows)
    labels = (tmp_path / "images" / "labels.csv").read_text(encoding="utf-8").splitlines()
    kept = [line for line in labels if line.partition(",")[0] not in (image_name(2), image_name(5))]
    (tmp_path / "images" / "labels.csv").write_text("\n".join(kept) + "\n", encoding="utf-8")
    study = Study(
        image_set=tmp_path / "images",
        detectors=[{"kind": "composite", "name": "both", "parts": THREE}],
        scores=[{"system": "biaspainter"}],
    )
    table = study.run(tmp_path / "results", use_cache=False).tables["biaspainter_model_scores"]
    assert "by the detector both" in table.caption
    assert [column.key for column in table.columns][2:] == ["gender", "age", "skin_tone", "average"]
    assert table.rows[0].cells[2].text == "1.00"
