"""How many bits a network computes with: chosen once, fingerprinted, recorded, and refused in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from clip_networks import save_transformers_clip
from running import frames_of, noise
from small_parts import small_run, write_image_set

from detector_bench.detectors import Detector, build_detector
from detector_bench.errors import ConfigError, MissingExtraError
from detector_bench.perception import torch_settings
from detector_bench.perception.clip.stages import ClipImageEmbeddings
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.networks.fairface_outputs import FairfaceOutputs
from detector_bench.perception.stage import STAGES, Stage, with_inputs
from detector_bench.perception.torch_settings import TorchSettings, chosen_device, chosen_precision
from detector_bench.perception.yolo import YoloPersons
from detector_bench.runner.prediction_store import FINGERPRINT_KEY
from detector_bench.runner.readiness import lacking
from detector_bench.study import Study
from detector_bench.study_file import DetectorEntry
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import WeightsFile

ANYWHERE = WeightsLocator(cache=Path("nowhere"))


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def checkpoint(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_transformers_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    """The precision of a machine is found once in a process; here machines change."""
    torch_settings._precision_taken.cache_clear()
    yield
    torch_settings._precision_taken.cache_clear()


def with_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with instructions for bfloat16; PyTorch computes with it on any."""
    monkeypatch.setattr(torch_settings, "_cpu_computes_bfloat16", lambda torch: True)
    torch_settings._precision_taken.cache_clear()


def without_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_settings, "_cpu_computes_bfloat16", lambda torch: False)
    torch_settings._precision_taken.cache_clear()


def clip(checkpoint: Path, **settings: Any) -> Detector:
    encoder = {"checkpoint": str(checkpoint), "device": "cpu", **settings}
    return build_detector("clip", parameters={"encoder": encoder})


# The fingerprint


def test_the_word_auto_is_in_no_fingerprint(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(**settings: Any) -> str:
        return json.dumps(clip(checkpoint, **settings).identity(weights=ANYWHERE), sort_keys=True)

    without_bfloat16(monkeypatch)
    assert identity(precision="auto") == identity(precision="float32")
    with_bfloat16(monkeypatch)
    assert identity(precision="auto") == identity(precision="bfloat16")
    assert identity(precision="auto") != identity(precision="float32")
    for precision in ("auto", "float32"):
        assert '"auto"' not in identity(precision=precision)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("blip2", {}),
        ("fairface", {"network": "race7.pt"}),
        ("mivolo", {"network": "mivolo.pth.tar"}),
        ("clip_enhance", {}),
        (
            "vlm_judge",
            {"model": {"kind": "transformers", "checkpoint": "b"}},
        ),
    ],
)
def test_every_detector_of_pytorch_records_what_it_takes(
    kind: str, parameters: dict[str, Any], torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Content that is not pinned counts as it is found, so that something has to be there.
    for name in ("race7.pt", "mivolo.pth.tar", "yolov8x_person_face.pt", "b/config.json", "b/model.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    weights = WeightsLocator(folders=(tmp_path,), cache=tmp_path, allow_download=False)

    def identity(precision: str) -> str:
        settings = {"precision": precision, "device": "cpu"}
        if kind == "vlm_judge":
            given = {"model": {**parameters["model"], **settings}}
        elif kind == "clip_enhance":
            given = {"classifier": {"kind": "clip", "encoder": settings}}
        else:
            given = {**parameters, **settings}
        return json.dumps(build_detector(kind, parameters=given).identity(weights=weights), sort_keys=True)

    without_bfloat16(monkeypatch)
    assert identity("auto") == identity("float32")
    with_bfloat16(monkeypatch)
    assert identity("auto") == identity("bfloat16") != identity("float32")


def test_a_network_in_onnx_asks_pytorch_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").touch()
    monkeypatch.setitem(sys.modules, "torch", None)
    file = WeightsFile(path=str(tmp_path / "net.onnx"))
    stages = [FairfaceOutputs(network=file, precision=precision) for precision in ("auto", "float32")]
    assert stages[0].precision_taken == stages[1].precision_taken == "as in the network's file"
    assert fingerprint(stages[1], weights=ANYWHERE)
    assert stages[0].missing_settings() == ()


def test_without_pytorch_auto_cannot_be_resolved_and_all_that_is_missing_is_named(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image_set(tmp_path / "set", 2)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"'torch' is not installed; pip install 'detector-bench\[clip\]'"):
        small_run(tmp_path / "set", tmp_path / "out", clip(checkpoint, precision="auto"))


# Runs and the cache


def test_a_run_on_another_machine_begins_anew_and_mixes_nothing(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image_set(tmp_path / "set", 4)

    def run(out: str, precision: str) -> tuple[int, set[str]]:
        """How many images the encoder looked at, and by which precision's fingerprint rows are stored."""
        detector = clip(checkpoint, precision=precision)
        record = small_run(tmp_path / "set", tmp_path / out, detector)
        looked = sum(n for label, n in record.images_per_stage.items() if label.startswith("clip_image"))
        files = (tmp_path / out / "clip").glob("*.parquet")
        return looked, {pq.read_schema(file).metadata[FINGERPRINT_KEY].decode() for file in files}

    without_bfloat16(monkeypatch)
    first, exact = run("out", "auto")
    assert first == 4
    assert run("explicit", "float32") == (0, exact), "from the shared cache"
    with_bfloat16(monkeypatch)
    second, short = run("out", "auto")
    assert second == 4, "the same folder and cache, other bits: everything again"
    assert len(short) == 1
    assert short != exact
    assert run("short", "bfloat16") == (0, short)
    without_bfloat16(monkeypatch)
    assert run("out", "auto") == (0, exact)


def test_the_record_names_precision_and_device(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image_set(tmp_path / "set", 3)
    with_bfloat16(monkeypatch)
    entry = DetectorEntry(
        name="clip", kind="clip", parameters={"encoder": {"checkpoint": str(checkpoint), "device": "cpu"}}
    )
    study = Study(image_set=tmp_path / "set", detectors=(entry,))

    def recorded(out: str) -> tuple[dict[str, Any], dict[str, Any]]:
        study.run(tmp_path / out, cache_dir=tmp_path / "cache")
        record = json.loads((tmp_path / out / "run.json").read_text())
        return {name.rsplit("-", 1)[0]: found for name, found in record["stages"].items()}, record

    stages, record = recorded("out")
    assert stages["clip_image_embeddings"]["precision"] == "bfloat16"
    assert stages["clip_image_embeddings"]["devices"] == ["cpu"]
    assert stages["clip_similarities"]["precision"] == "float32"
    assert record["environment"]["packages"]["scipy"]
    assert record["environment"]["packages"]["statsmodels"]
    # A second time nothing runs: the record keeps where it ran.
    stages, record = recorded("out")
    assert stages["clip_image_embeddings"]["devices"] == ["cpu"]
    assert record["sessions"][1]["device_per_stage"] == {}
    # Beside it, from the cache: where that was computed is not known here.
    stages, _ = recorded("beside")
    assert stages["clip_image_embeddings"]["devices"] == []


def test_every_built_in_stage_says_where_and_how_it_computes() -> None:
    for name in STAGES.names():
        kind = STAGES.get(name)
        if kind.__module__.startswith("detector_bench."):
            assert kind.device_taken != "not stated", name
            service = name in ("chat_answers", "facepp_answers")
            assert (kind.precision_taken == "not stated") == service, name


# What the machine lacks


def fake_torch(torch: Any, *, cuda: bool, bfloat16: bool = True) -> Any:
    """PyTorch on a machine with another GPU, as far as the choice asks."""
    return SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: cuda, is_bf16_supported=lambda **_: bfloat16),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False)),
        float32=torch.float32,
        float16=torch.float16,
        bfloat16=torch.bfloat16,
        cpu=SimpleNamespace(_is_avx512_bf16_supported=lambda: False, _is_amx_tile_supported=lambda: False),
    )


@pytest.mark.parametrize(
    ("cuda", "bfloat16", "precision", "taken"),
    [
        (True, True, "auto", "bfloat16"),
        (True, False, "auto", "float16"),
        (True, False, "float16", "float16"),
        (False, False, "auto", "float32"),
        (False, False, "bfloat16", "bfloat16"),
    ],
)
def test_the_choice(torch: Any, cuda: bool, bfloat16: bool, precision: Any, taken: str) -> None:
    machine = fake_torch(torch, cuda=cuda, bfloat16=bfloat16)
    device = chosen_device(machine, "auto")
    assert str(chosen_precision(machine, precision, device=device)) == f"torch.{taken}"


def test_a_gpu_without_bfloat16_is_one_line(torch: Any) -> None:
    with pytest.raises(ConfigError, match=r"this GPU has none: set `precision: float16`, `float32` or `auto`"):
        chosen_precision(fake_torch(torch, cuda=True, bfloat16=False), "bfloat16", device="cuda")


def test_what_the_machine_lacks_is_said_before_anything_runs(checkpoint: Path, tmp_path: Path) -> None:
    write_image_set(tmp_path / "set", 3)
    detector = clip(checkpoint, precision="float16")
    (line,) = lacking(detector, weights=ANYWHERE)
    assert line == (
        "precision 'float16' needs a GPU, and this is to run on the CPU: set `precision: bfloat16`, `float32` or "
        "`auto`"
    )
    small_run(tmp_path / "set", tmp_path / "out", clip(checkpoint, precision="float32"))
    before = (tmp_path / "out" / "clip" / "predictions.parquet").read_bytes()
    with pytest.raises(ConfigError) as caught:
        small_run(tmp_path / "set", tmp_path / "out", detector)
    assert str(caught.value) == line
    assert (tmp_path / "out" / "clip" / "predictions.parquet").read_bytes() == before, "nothing is lost"


@pytest.mark.parametrize("kind", ["fairface", "blip2"])
def test_a_gpu_that_is_not_there_is_one_line(kind: str, torch: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    messages = lacking(build_detector(kind, parameters={"device": "cuda"}), weights=ANYWHERE)
    (line,) = (each for each in messages if "cuda" in each)
    assert line == "device 'cuda' is asked for, but PyTorch finds none; set `device: auto`"


def test_defaults_import_no_pytorch() -> None:
    settings = TorchSettings()
    assert settings.missing_settings() == TorchSettings(precision="float32").missing_settings() == ()


def test_every_context_of_exact_numbers_serves_once_and_another_again(torch: Any) -> None:
    before = torch.backends.cudnn.allow_tf32
    for _ in range(3):
        with torch_settings.exact_convolutions(torch):
            assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32 == before


def test_batches_of_any_size_give_the_same_embeddings(checkpoint: Path) -> None:
    stage: Stage = ClipImageEmbeddings(encoder={"checkpoint": str(checkpoint), "precision": "float32"})  # type: ignore[arg-type]
    function = stage.load(ANYWHERE)
    images = [noise(40, 50, seed=seed) for seed in range(6)]
    together = np.stack([found["embedding"] for found in function(frames_of(images))])  # type: ignore[index]
    parts = [
        found["embedding"]  # type: ignore[index]
        for part in (images[:1], images[1:4], images[4:])
        for found in function(frames_of(part))
    ]
    np.testing.assert_allclose(parts, together, atol=1e-6)


# The paper's study


def test_the_papers_study_is_the_same_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with_bfloat16(monkeypatch)
    study = Study.from_yaml(Path(__file__).parents[1] / "configs" / "lyu2025.yaml")
    stages = with_inputs([stage for detector in study.build_detectors() for stage in detector.stages])
    networks = {
        stage.kind: stage.precision_taken
        for stage in stages
        if stage.kind in ("clip_image_embeddings", "generated_answers", "mivolo_outputs", "fairface_outputs")
    }
    assert len(networks) == 4
    assert set(networks.values()) == {"float32"}
    # The three CLIPs share one look at an image, and CLIP-Enhance has its own at the crop.
    assert sum(stage.kind == "clip_image_embeddings" for stage in stages) == 2


def test_the_papers_persons_are_ultralytics_own() -> None:
    study = Study.from_yaml(Path(__file__).parents[1] / "configs" / "lyu2025.yaml").with_detectors(
        only=["clip_enhance"]
    )
    (detector,) = study.build_detectors()
    (persons,) = (stage for stage in with_inputs(detector.stages) if isinstance(stage, YoloPersons))
    assert persons.network.path == "yolov8x.pt"
    assert persons.confidence == 0.25  # of its predictor; its settings file leaves it open
    spec = find_spec("ultralytics")
    if spec is None or spec.origin is None:
        pytest.skip("ultralytics is not installed")
    defaults = yaml.safe_load((Path(spec.origin).parent / "cfg" / "default.yaml").read_text(encoding="utf-8"))
    assert (persons.overlap_threshold, persons.image_size) == (defaults["iou"], defaults["imgsz"])


@pytest.mark.parametrize("quicker", [True, False])
def test_float32_on_a_cpu_is_the_same_through_either_library(
    torch: Any, quicker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 8, bias=False))
    images = torch.randn(5, 64)
    with torch.inference_mode():
        expected = network.eval()(images)
        seconds = iter((0.5, 1.0) if quicker else (0.9, 1.0))
        monkeypatch.setattr(torch_settings, "_seconds", lambda layer, rows: next(seconds))
        torch_settings.quicken_products(torch, network, device="cpu", dtype=torch.float32)
        assert (network[0].weight is None) is quicker
        torch.testing.assert_close(network(images), expected, rtol=0, atol=1e-5)
