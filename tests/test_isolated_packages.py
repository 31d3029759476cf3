"""Real packages that cannot be installed beside this project's, at work in environments of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from isolated_parts import allow, script
from onnx_networks import mean_colour_classifier
from package_environments import environment_of, packages_of
from running import judged, plain, portraits

from detector_bench.detectors import build_detector
from detector_bench.isolated.adapters import ADAPTERS
from detector_bench.weights import WeightsLocator

ROOT = Path(__file__).resolve().parents[1]
OLD = ("numpy<2", "onnxruntime==1.17.3", "opencv-python-headless==4.9.0.80")
"""Versions of the spring of 2024, with which neither this project nor pandas 3 can be installed."""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_TRUST", str(tmp_path / "trust.yaml"))


def faceres() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / "configs" / "detectors" / "faceres.yaml").read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name not in ("name", "kind")}


def test_older_packages_give_the_verdicts_of_the_built_in_detector(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment_of(monkeypatch, *OLD)
    weights = WeightsLocator(folders=(shared / "weights",))
    described = {**faceres(), "crop": {"boxes": "yunet_faces", "margin": 1.2}}
    inside = build_detector("onnx", name="faceres", parameters=described)
    names = sorted({reading["output"] for reading in described["outputs"].values()})
    allow(shared / "weights" / "faceres.onnx")
    parameters = {
        "script": str(allow(ROOT / "benchmarks" / "isolated_faceres.py")),
        "requirements": list(OLD),
        "files": {"network": described["network"]},
        "parameters": {"outputs": names},
        **{name: described[name] for name in ("crop", "outputs")},
    }
    apart = build_detector("isolated", name="faceres", parameters=parameters)
    images = portraits(shared, 64)
    found, expected = (judged(each, images, weights=weights) for each in (apart, inside))
    assert "onnxruntime 1.17.3" in apart.stages[0].device_taken
    for one, other in zip(found, expected, strict=True):
        assert (one.image_id, one.attribute, one.status, one.label, one.reason) == (
            *(other.image_id, other.attribute, other.status, other.label, other.reason),
        )
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_the_tests_of_mediapipe_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old wheels have the networks in them, which new ones fetch."""
    old, new = environment_of(monkeypatch, "mediapipe==0.10.21"), environment_of(monkeypatch, "mediapipe>=1.2")
    networks = packages_of(old) / "mediapipe" / "modules" / "face_detection"
    variables = {
        "DETECTOR_BENCH_MEDIAPIPE_NETWORKS": str(networks),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(packages_of(new))]),
    }
    tests = str(ROOT / "tests" / "test_mediapipe_faces.py")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-rs", tests]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout.lower(), done.stdout


MEDIAPIPE = """
import numpy as np
def load(parameters):
    import mediapipe
    finder = mediapipe.solutions.face_detection.FaceDetection(model_selection=0, min_detection_confidence=0.5)
    def judge(images):
        return [judged(finder.process(np.ascontiguousarray(image)).detections or []) for image in images]
    def judged(faces):
        if not faces:
            return {"filtered": "no_face"}
        return {"gender": {"label": "male", "score": min(1.0, max(face.score[0] for face in faces))}}
    return judge
"""


def test_a_package_that_needs_numpy_1_runs_beside_numpy_2(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = environment_of(monkeypatch, "mediapipe==0.10.21")
    parameters = {
        "script": str(script(tmp_path, MEDIAPIPE)),
        "requirements": list(environment.requirements),
        "outputs": {"gender": {"read": "label", "output": "gender"}},
    }
    detector = build_detector("isolated", parameters=parameters)
    images = [*portraits(shared, 4), portraits(shared, 1)[0][:40, :40]]
    found = judged(detector, images, weights=WeightsLocator(cache=tmp_path))
    assert [each.reason for each in found] == [None, None, None, None, "no_face"]


def test_insightface_judges_by_a_network_of_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of(monkeypatch, *ADAPTERS["insightface"].requirements)
    # Bright is male and old. As in buffalo_l, three numbers: female, male, hundredths of an age.
    matrix, bias = [[-3, 3, 0.1]] * 3, [-4, 4, 0.4]
    network = mean_colour_classifier(tmp_path / "genderage.onnx", matrix, bias=bias, size=(96, 96))
    parameters = {"adapter": "insightface", "files": {"genderage": str(network)}}
    detector = build_detector("isolated", parameters=parameters)
    images = [plain(255, 255, 255, height=100, width=80), plain(0, 0, 0, height=50, width=50)]
    found = judged(detector, images, weights=WeightsLocator(cache=tmp_path))
    source = (
        "import json, sys, numpy as np\n"
        "from insightface.model_zoo import model_zoo\nfrom insightface.app.common import Face\n"
        "network = model_zoo.get_model(sys.argv[1], providers=['CPUExecutionProvider'])\n"
        "for height, width, grey in ((100, 80, 255), (50, 50, 0)):\n"
        "    face = Face(bbox=np.array([0, 0, width, height], np.float32))\n"
        "    gender, age = network.get(np.full((height, width, 3), grey, np.uint8), face)\n"
        "    print(json.dumps([int(gender), int(age)]))\n"
    )
    own = subprocess.run(
        [environment.interpreter, "-I", "-c", source, str(network)], capture_output=True, text=True, check=True
    )
    said = [json.loads(line) for line in own.stdout.splitlines() if line.startswith("[")]
    genders = [each.label for each in found if each.attribute == "gender"]
    years = [each.value for each in found if each.attribute == "age"]
    assert genders == [["female", "male"][gender] for gender, _ in said]
    assert years == [float(age) for _, age in said]
    assert len(set(genders)) == 2
