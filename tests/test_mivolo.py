"""MiVOLO: a small checkpoint with its own code, whole runs, and the package where it is.

MiVOLO is on no package registry, so that its own class runs only in the test
`test_package_gives_what_its_own_program_gives`, which is skipped unless the package `mivolo`, and the timm 0.8
that its program needs, were installed by hand. All else runs on a small network of another architecture in the
same form: a transformers checkpoint that brings its own code, with the call and outputs that MiVOLO v2 documents.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mivolo_parts import NOBODY, SIDE, found, keep_code_in, published_input, subject, write_checkpoint
from running import Pixels, frames_of, judged, noise, plain
from small_parts import image_name, picture, small_run, write_image_set, write_tables
from yolo_networks import random_yolo

from detector_bench.detectors import build_detector
from detector_bench.detectors.mivolo import Mivolo
from detector_bench.errors import ConfigError, MissingExtraError, WeightsError
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.networks.mivolo_networks import CheckpointNetwork, PackageNetwork
from detector_bench.perception.networks.mivolo_outputs import MivoloOutputs
from detector_bench.perception.stage import Arrays, Batch, Frame
from detector_bench.perception.yolo import YoloFaces, YoloPersons
from detector_bench.runner.readiness import lacking
from detector_bench.trust import AllowedCode, add_code, code_sha256, program_files
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import MIVOLO_V2
from detector_bench.weights.files import WeightsFile

ANYWHERE = WeightsLocator(cache=Path("nowhere"), allow_download=False)
INSTALLED = find_spec("mivolo") is not None


# A small checkpoint with its own code


@pytest.fixture(scope="module")
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        keep_code_in(tmp_path_factory.mktemp("modules"), patch)
        yield


@pytest.fixture(scope="module")
def checkpoint(own_modules: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("small") / "checkpoint")


def outputs_stage(checkpoint: Path | str, **settings: Any) -> MivoloOutputs:
    network = {"backend": "transformers", "checkpoint": str(checkpoint), "run_checkpoint_code": True}
    return MivoloOutputs.model_validate({"network": network, "device": "cpu", **settings})


def frames_with(stage: MivoloOutputs, people: list[tuple[Pixels, Arrays, Arrays]]) -> list[Frame]:
    frames = frames_of([pixels for pixels, _, _ in people])
    for frame, (_, persons, faces) in zip(frames, people, strict=True):
        frame.results.update({stage.persons: persons, stage.faces: faces})
    return frames


PEOPLE = [
    (noise(120, 160, seed=1), found((5, 5, 100, 110)), found((30, 10, 60, 45))),
    (noise(120, 160, seed=2), found((5, 5, 100, 110)), NOBODY),
    (noise(120, 160, seed=3), found((5, 5, 40, 40)), found((10, 10, 30, 30))),  # too small for a body
    (noise(120, 160, seed=4), NOBODY, found((30, 10, 60, 45))),
    (noise(200, 90, seed=5), found((1, 1, 80, 190), (0, 0, 70, 20)), found((0, 0, 20, 20), (20, 30, 70, 80))),
]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
@pytest.mark.parametrize("without_person", ["filter", "face"])
def test_outputs_are_those_of_the_network_on_one_image(
    checkpoint: Path, batch_size: int, without_person: Any
) -> None:
    import torch
    from transformers import AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(checkpoint, trust_remote_code=True).eval()
    stage = outputs_stage(checkpoint, batch_size=batch_size, without_person=without_person)
    rows = stage.load(ANYWHERE)(frames_with(stage, PEOPLE))
    genders = set()
    for (pixels, persons, faces), row in zip(PEOPLE, rows, strict=True):
        crops = subject(pixels, persons, faces, without_person=without_person)
        if crops is None:
            assert row == {}
            continue
        with torch.inference_mode():
            alone = model(
                faces_input=published_input(crops.face, SIDE), body_input=published_input(crops.body, SIDE)
            )
        assert row["age"].shape == (1,)
        assert row["age"][0] == pytest.approx(float(alone.age_output), abs=1e-3)
        likelier = int(alone.gender_class_idx)
        assert row["gender"][likelier] == pytest.approx(float(alone.gender_probs), abs=1e-4)
        assert row["gender"].sum() == pytest.approx(1, abs=1e-6)
        genders.add(likelier)
    assert len(genders) == 2, "the test should see both genders"
    assert sum(row == {} for row in rows) == (1 if without_person == "filter" else 0)


def test_code_runs_only_if_it_is_allowed(checkpoint: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        build_detector(
            "mivolo", parameters={"network": {"backend": "transformers", "checkpoint": str(checkpoint)}}
        )
    assert str(raised.value).count("\n") == 0
    assert "detector 'mivolo': network.transformers: checkpoint" in str(raised.value)
    assert "brings its own program code" in str(raised.value)
    assert "set run_checkpoint_code: true" in str(raised.value)
    assert MIVOLO_V2.downloadable
    assert CheckpointNetwork(run_checkpoint_code=True).checkpoint == MIVOLO_V2
    named = {"path": "someone/mivolo", "files": ["*.safetensors"]}
    own = CheckpointNetwork.model_validate({"checkpoint": named, "run_checkpoint_code": True})
    assert own.checkpoint.files == ("*.safetensors", "*.py"), "code that runs counts"
    unpinned = CheckpointNetwork.model_validate({"checkpoint": "someone/mivolo", "run_checkpoint_code": True})
    with pytest.raises(WeightsError, match=r"checkpoint 'someone/mivolo' not found; .* give the `revision`"):
        unpinned.load(WeightsLocator(cache=Path("nowhere")), device="cpu", dtype=None)


def test_changed_code_is_another_fingerprint(own_modules: None, tmp_path: Path) -> None:
    stage = outputs_stage(write_checkpoint(tmp_path / "one"), persons="yunet_faces", faces="yunet_faces")
    before = fingerprint(stage, weights=WeightsLocator())
    with (tmp_path / "one" / "modeling_small.py").open("a") as file:
        file.write("# changed\n")
    assert fingerprint(stage, weights=WeightsLocator()) != before


def test_code_of_another_repository_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    for number, places in enumerate([{}, {"AutoConfig": "someone/else--configuration_small.SmallConfig"}]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in checkpoint.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        described = json.loads((checkpoint / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**described, "auto_map": places}))
        with pytest.raises(ConfigError, match=r"does not bring its own program code"):
            outputs_stage(folder).load(ANYWHERE)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("not finite", ValueError, "not finite"),
        (
            "two ages for one",
            ConfigError,
            r"ages of the shape \[2\] and genders of the shape \[1, 2\] for 1 people",
        ),
        ("no gender", ConfigError, "gives no `gender_probs`"),
    ],
)
def test_wrong_outputs(
    own_modules: None, tmp_path: Path, fault: str, error: type[Exception], message: str
) -> None:
    stage = outputs_stage(write_checkpoint(tmp_path / "faulty", fault=fault))
    run = stage.load(ANYWHERE)
    with pytest.raises(error, match=message):
        run(frames_with(stage, PEOPLE[:1]))


def test_checkpoints_that_do_not_fit(own_modules: None, checkpoint: Path, tmp_path: Path) -> None:
    swapped = write_checkpoint(tmp_path / "swapped", gender_id2label={"0": "female", "1": "male"})
    with pytest.raises(ConfigError, match=r"is no MiVOLO that .* gives age, male and female"):
        outputs_stage(swapped).load(ANYWHERE)
    from safetensors.torch import load_file, save_file

    lacking_weights = write_checkpoint(tmp_path / "lacking")
    held = load_file(lacking_weights / "model.safetensors")
    del held["body.weight"]
    save_file(held, lacking_weights / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightsError, match=r"do not fit the network: missing_keys: body\.weight"):
        outputs_stage(lacking_weights).load(ANYWHERE)
    for path in checkpoint.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "modeling_small.py").open("a") as file:
        file.write("\nimport mivolo_but_not_installed\n")
    with pytest.raises(ConfigError, match=r"is not allowed on this machine; .* detector-bench trust code /"):
        outputs_stage(tmp_path).load(ANYWHERE)
    add_code(AllowedCode(name="changed", sha256=code_sha256(program_files(tmp_path))))
    with pytest.raises(
        MissingExtraError, match=r"mivolo_but_not_installed\.; pip install .*MiVOLO\.git@[0-9a-f]{40}"
    ):
        outputs_stage(tmp_path).load(ANYWHERE)


# Verdicts


def test_verdicts() -> None:
    detector = build_detector("mivolo")
    assert isinstance(detector.implementation, Mivolo)
    (stage,) = detector.stages
    frames = frames_of([plain(0, 0, 0)] * 4)
    for frame, (age, male) in zip(frames, [(29.99, 0.8), (30.0, 0.4), (71.5, 0.5), (None, None)], strict=True):
        frame.results[stage] = (
            {} if age is None else {"age": np.float32([age]), "gender": np.float32([male, 1 - male])}
        )
    rows = detector.predict(Batch(frames))
    table = pd.DataFrame(
        [(row.image_id, row.attribute, row.reason, row.label, row.score, row.value) for row in rows]
    )
    genders, ages = table[table[1] == "gender"], table[table[1] == "age"]
    assert genders[3].tolist()[:3] == ["male", "female", "male"]
    assert genders[4].tolist()[:3] == pytest.approx([0.8, 0.6, 0.5])
    assert ages[3].tolist()[:3] == ["young", "middle_aged", "elderly"]
    assert ages[5].tolist()[:3] == pytest.approx([29.99, 30, 71.5], abs=1e-4)
    assert [genders[2].tolist()[3], ages[2].tolist()[3]] == ["no_person", "no_person"]
    with pytest.raises(ConfigError, match="bounds must rise"):
        build_detector("mivolo", parameters={"bounds": [60, 30]})


def test_persons_and_faces_come_from_one_run_of_the_authors_network() -> None:
    from detector_bench.perception.stage import with_inputs

    kinds = [stage.kind for stage in with_inputs(build_detector("mivolo").stages)]
    assert kinds == ["yolo_boxes", "yolo_persons", "yolo_faces", "mivolo_outputs"]


# A whole run


NETWORK_SIDE = 64


@pytest.fixture(scope="module")
def boxes_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A YOLOv8n of random weights with MiVOLO's two classes, tuned so that it finds something."""
    if find_spec("ultralytics") is None:
        pytest.skip("ultralytics (AGPL-3.0) is not installed")
    folder = tmp_path_factory.mktemp("yolo")
    network = random_yolo({0: "person", 1: "face"}, folder=folder)
    import torch

    with torch.no_grad():
        for classes in network.model.model[-1].cv3:
            classes[-1].weight.mul_(100)
            classes[-1].bias.fill_(0)
    network.save(folder / "person_face.pt")
    return folder / "person_face.pt"


@pytest.mark.slow
def test_whole_run_shares_the_boxes_and_need_not_be_repeated(
    checkpoint: Path, boxes_network: Path, tmp_path: Path
) -> None:
    images = write_image_set(tmp_path / "images", 0)
    pictures = [picture(number, size=(96 + 32 * number, 120)) for number in range(4)]
    for number, image in enumerate(pictures):
        image.save(images / "images" / f"{image_name(number)}.png")
    write_tables(images, range(4))
    network = {"backend": "transformers", "checkpoint": str(checkpoint), "run_checkpoint_code": True}
    boxes_of = {"network": str(boxes_network), "image_size": 64}
    detectors = [
        build_detector(
            "mivolo",
            name=f"mivolo-{confidence}",
            parameters={
                "network": network,
                "persons": YoloPersons(**boxes_of, confidence=confidence),
                "faces": YoloFaces(**boxes_of, confidence=confidence),
                "device": "cpu",
            },
        )
        for confidence in (0.4, 0.999)
    ]
    record = small_run(images, tmp_path / "out", *detectors)
    runs = Counter(label.rsplit("-", 1)[0] for label in record.images_per_stage)
    assert runs == {"yolo_boxes": 1, "yolo_persons": 2, "yolo_faces": 2, "mivolo_outputs": 2}
    statuses = set()
    for detector in detectors:
        stored = pd.read_parquet(tmp_path / "out" / detector.name / "predictions.parquet")
        table = stored.set_index(["image_id", "attribute"])
        for expected in judged(detector, [np.asarray(image) for image in pictures], weights=ANYWHERE):
            row = table.loc[image_name(int(expected.image_id)), expected.attribute]
            assert row["status"] == expected.status
            assert (None if pd.isna(row["label"]) else row["label"]) == expected.label
            if expected.value is not None:
                assert row["value"] == pytest.approx(expected.value, abs=1e-3)
            statuses.add(row["status"])
    assert statuses == {"clear", "filtered"}
    assert small_run(images, tmp_path / "out", *detectors).images_per_stage == {}


# The package


@pytest.mark.skipif(INSTALLED, reason="the package mivolo is installed")
def test_missing_package_is_named_with_its_address(tmp_path: Path) -> None:
    lines = lacking(build_detector("mivolo"), weights=ANYWHERE)
    assert any(
        line.startswith("the package 'mivolo' is not installed; pip install") and "MiVOLO.git@" in line
        for line in lines
    )
    assert any(
        "'model_imdb_cross_person_4.22_99.46.pth.tar' not found (nor as model_imdb_cross_person_4.24_99.46" in line
        for line in lines
    )


class _Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_file_of_the_package_is_read_as_plain_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    torch.save({"state_dict": _Harmful(tmp_path / "trace")}, tmp_path / "harmful.pth.tar")
    torch.save({"state_dict": {"pos_embed": torch.zeros(1)}}, tmp_path / "other.pth.tar")
    ages = {"min_age": 1, "max_age": 95, "avg_age": 48.0}
    torch.save(
        {"state_dict": {"pos_embed": torch.zeros(1, 14, 14, 384)}, "no_gender": False, **ages},
        tmp_path / "faces_only.pth.tar",
    )
    real = {"args": Namespace(lr=1e-3), "metric": np.float64(4.2), "max_age": np.int64(95)}
    held = torch.load(tmp_path / "faces_only.pth.tar", weights_only=True)
    torch.save({**held, **real}, tmp_path / "as_published.pth.tar")
    notes = {name: str(held[name]) for name in ("no_gender", "min_age", "max_age", "avg_age")}
    save_file(held["state_dict"], tmp_path / "converted.safetensors", metadata=notes)
    save_file(held["state_dict"], tmp_path / "bare.safetensors")
    for name, error, message in [
        ("as_published", ConfigError, "without gender or without bodies"),
        ("converted.safetensors", ConfigError, "without gender or without bodies"),
        ("bare.safetensors", WeightsError, "is no checkpoint of MiVOLO"),
        ("harmful", WeightsError, r"it names .*, which could run code"),
        ("other", WeightsError, "is no checkpoint of MiVOLO: it should hold avg_age, max_age"),
        ("faces_only", ConfigError, "without gender or without bodies"),
    ]:
        path = tmp_path / (name if "." in name else f"{name}.pth.tar")
        network = PackageNetwork(file=WeightsFile(path=str(path)))
        with pytest.raises(error, match=message):
            network.load(ANYWHERE, device="cpu", dtype=torch.float32)
    assert not (tmp_path / "trace").exists()


def test_package_gives_what_its_own_program_gives(tmp_path: Path) -> None:
    program = pytest.importorskip("mivolo.model.mi_volo", reason="needs mivolo and timm 0.8", exc_type=ImportError)
    import torch
    from mivolo.model.create_timm_model import create_model
    from mivolo.structures import PersonAndFaceResult
    from ultralytics.engine.results import Results

    torch.manual_seed(0)
    network = create_model("mivolo_d1_224", num_classes=3, in_chans=6, pretrained=False).eval()
    with torch.no_grad():
        network.head.weight.mul_(30)
    facts = {"min_age": 1, "max_age": 95, "avg_age": 48.0, "no_gender": False, "with_persons_model": True}
    path = tmp_path / "random.pth.tar"
    torch.save({"state_dict": network.state_dict(), **facts}, path)
    program = program.MiVOLO(str(path), device="cpu", half=False)
    stage = MivoloOutputs.model_validate({"network": str(path), "device": "cpu", "batch_size": 2})
    rows = stage.load(ANYWHERE)(frames_with(stage, PEOPLE))
    for (pixels, persons, faces), row in zip(PEOPLE, rows, strict=True):
        if len(persons["scores"]) == 0:
            assert row == {}
            continue
        corners = np.concatenate([persons["corners"], faces["corners"]])
        numbers = [0] * len(persons["scores"]) + [1] * len(faces["scores"])
        rows_of_boxes = [[*box, 0.9, number] for box, number in zip(corners, numbers, strict=True)]
        bgr = np.ascontiguousarray(pixels[..., ::-1])
        detected = PersonAndFaceResult(
            Results(bgr, path="", names={0: "person", 1: "face"}, boxes=torch.tensor(np.array(rows_of_boxes)))
        )
        program.predict(bgr, detected)
        # The largest person comes first in these examples; ages are rounded to 2 decimals there.
        assert row["age"][0] == pytest.approx(detected.ages[0], abs=0.006)
        assert detected.genders[0] == ("male" if row["gender"][0] > 0.5 else "female")
        assert row["gender"].max() == pytest.approx(detected.gender_scores[0], abs=1e-4)
