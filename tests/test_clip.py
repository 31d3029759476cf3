"""The CLIP detectors, on tiny networks of the real classes, against the libraries' own use, image by image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from clip_networks import (
    GENDER,
    LOOKS,
    PRESENCE,
    export_onnx_pair,
    odd_images,
    onnx_encoder,
    save_open_clip,
    save_transformers_clip,
    write_odd_images,
)
from numpy.typing import NDArray
from PIL import Image
from running import Pixels, frames_of, judged
from small_parts import counted, small_run

from detector_bench.detectors import Detector, Prediction, build_detector
from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import boxes
from detector_bench.perception.clip.stages import ClipImageEmbeddings, ClipSimilarities, TransformersClip
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import STAGES, Arrays, Frame, Stage, StageFunction
from detector_bench.weights import CATALOGUE, WeightsLocator
from detector_bench.weights.catalogue import CLIP_VIT_LARGE_PATCH14

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
IMAGES = odd_images()
Reference = Callable[[Pixels, tuple[str, ...]], NDArray[np.float64]]
"""Logits of one image and some prompts, as the library's documentation computes them."""


@dataclass
class Backend:
    """A saved network, as a study file names it, and its library's own use."""

    encoder: dict[str, Any]
    reference: Reference


class BrightFaces(Stage):
    """Finds a face in every image that is bright enough."""

    kind: ClassVar[str] = "tried_bright_faces"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def find(frame: Frame) -> Arrays:
            return boxes([[0, 0, 2, 2]], [0.9]) if is_bright(frame.pixels) else boxes([], [])

        return counted(self.kind, find)


if BrightFaces.kind not in STAGES:
    STAGES.register(BrightFaces.kind, BrightFaces)


def is_bright(image: Pixels) -> bool:
    return bool(image.mean() > 120)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Several threads make tiny networks wait for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_transformers_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture(scope="module")
def open_clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("open_clip")
    return save_open_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture(scope="module")
def onnx_folder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_onnx_pair(checkpoint, tmp_path_factory.mktemp("clip"))


def transformers_reference(folder: Path) -> Reference:
    import torch
    import transformers

    model = transformers.CLIPModel.from_pretrained(folder).eval()
    processor = transformers.CLIPProcessor.from_pretrained(folder, backend="pil")

    def logits(image: Pixels, prompts: tuple[str, ...]) -> NDArray[np.float64]:
        inputs = processor(text=list(prompts), images=Image.fromarray(image), return_tensors="pt", padding=True)
        with torch.no_grad():
            return np.asarray(model(**inputs).logits_per_image[0].double())

    return logits


def open_clip_reference(folder: Path) -> Reference:
    import open_clip
    import torch

    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    model.eval()
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")

    def logits(image: Pixels, prompts: tuple[str, ...]) -> NDArray[np.float64]:
        with torch.no_grad():
            seen = model.encode_image(preprocess(Image.fromarray(image)).unsqueeze(0))
            read = model.encode_text(tokenizer(list(prompts)))
            seen /= seen.norm(dim=-1, keepdim=True)
            read /= read.norm(dim=-1, keepdim=True)
            return np.asarray((model.logit_scale.exp() * seen @ read.T)[0].double())

    return logits


@pytest.fixture(scope="module", params=["transformers", "open_clip", "onnx"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "open_clip":
        folder = request.getfixturevalue("open_clip_folder")
        encoder = {"backend": "open_clip", "checkpoint": str(folder), "precision": "float32", "device": "cpu"}
        return Backend(encoder, open_clip_reference(folder))
    folder = request.getfixturevalue("checkpoint")
    if request.param == "onnx":
        pair = request.getfixturevalue("onnx_folder")
        return Backend(onnx_encoder(pair, folder / "tokenizer.json"), transformers_reference(folder))
    encoder = {"checkpoint": str(folder), "precision": "float32", "device": "cpu"}
    return Backend(encoder, transformers_reference(folder))


def probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(logits) / np.exp(logits).sum())


def stored(out: Path, detector: str) -> list[dict[str, Any]]:
    [path] = (out / detector).glob("*")
    return sorted(pq.read_table(path).to_pylist(), key=lambda row: row["image_id"])


def verdict(found: Prediction | dict[str, Any]) -> tuple[str, str | None]:
    row = found if isinstance(found, dict) else {name: getattr(found, name) for name in found.__slots__}
    return str(row["status"]), row["label"] or row["reason"]


# Equal to the libraries' own use


@pytest.mark.slow
def test_three_detectors_in_a_run_judge_as_the_library_does(backend: Backend, tmp_path: Path) -> None:
    image_set, out = write_odd_images(tmp_path / "set"), tmp_path / "predictions"
    detectors = [
        build_detector("clip", parameters={"encoder": backend.encoder}),
        build_detector(
            "clip_prob",
            parameters={"encoder": backend.encoder, "faces": "tried_bright_faces", "min_score": 0.8},
        ),
        build_detector("clip_uncertain", parameters={"encoder": backend.encoder}),
    ]
    record = small_run(image_set, out, *detectors, weights=ANYWHERE)

    expected: dict[str, list[tuple[str, str]]] = {"clip": [], "clip_prob": [], "clip_uncertain": []}
    for number, image in enumerate(IMAGES):
        gender = probabilities(backend.reference(image, GENDER))
        label, score = ("male", "female")[gender.argmax()], gender.max()
        expected["clip"].append(("clear", label))
        assert stored(out, "clip")[number]["score"] == pytest.approx(score, abs=1e-4)
        sure = ("clear", label) if score >= 0.8 else ("filtered", "uncertain")
        expected["clip_prob"].append(sure if is_bright(image) else ("filtered", "no_face"))
        person, thing = backend.reference(image, PRESENCE)
        looks = probabilities(backend.reference(image, LOOKS))
        answer = (("clear", "male"), ("clear", "female"), ("filtered", "uncertain"))[looks.argmax()]
        expected["clip_uncertain"].append(("filtered", "no_person") if person < thing else answer)
        if person >= thing:
            assert stored(out, "clip_uncertain")[number]["score"] == pytest.approx(looks.max(), abs=1e-4)
    for name, verdicts in expected.items():
        assert [verdict(row) for row in stored(out, name)] == verdicts
    # The images are varied enough for the comparison to mean something.
    assert {label for _, label in expected["clip"]} == {"male", "female"}
    assert len(set(expected["clip_prob"])) >= 3
    assert len(set(expected["clip_uncertain"])) >= 3

    embedded = {name: count for name, count in record.images_per_stage.items() if "clip_image" in name}
    assert list(embedded.values()) == [len(IMAGES)], "one embedding of each image serves all three"


@pytest.mark.slow
def test_a_changed_prompt_looks_at_no_image_again(backend: Backend, tmp_path: Path) -> None:
    image_set, out = write_odd_images(tmp_path / "set"), tmp_path / "predictions"
    small_run(image_set, out, build_detector("clip", parameters={"encoder": backend.encoder}), weights=ANYWHERE)
    prompts = {"male": "an image of a man", "female": "an image of a woman"}
    changed = build_detector("clip", parameters={"encoder": backend.encoder, "prompts": prompts})
    record = small_run(image_set, out, changed, weights=ANYWHERE)
    assert [name.split("-")[0] for name in record.images_per_stage] == ["clip_similarities"]
    for row, image in zip(stored(out, "clip"), IMAGES, strict=True):
        expected = probabilities(backend.reference(image, tuple(prompts.values())))
        assert row["score"] == pytest.approx(expected.max(), abs=1e-4)


def test_results_do_not_depend_on_the_batch(backend: Backend) -> None:
    stage = ClipImageEmbeddings(encoder=backend.encoder)
    run = stage.load(ANYWHERE)
    together = [result["embedding"] for result in run(frames_of(IMAGES))]  # type: ignore[call-overload,index]
    alone = [run([frame])[0]["embedding"] for frame in frames_of(IMAGES)]  # type: ignore[index,call-overload]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert together[0].dtype == np.float32


def test_an_image_without_a_crop_has_no_embedding_and_is_filtered(backend: Backend) -> None:
    parameters = {"encoder": backend.encoder, "crop": {"boxes": "tried_bright_faces"}}
    found = judged(build_detector("clip", parameters=parameters), IMAGES, weights=ANYWHERE)
    for prediction, image in zip(found, IMAGES, strict=True):
        if is_bright(image):
            expected = probabilities(backend.reference(image[:2, :2], GENDER))
            assert prediction.score == pytest.approx(expected.max(), abs=1e-4)
        else:
            assert verdict(prediction) == ("filtered", "no_face")


def test_images_too_narrow_to_resize_become_errors(backend: Backend) -> None:
    run = ClipImageEmbeddings(encoder=backend.encoder).load(ANYWHERE)
    with pytest.raises(ValueError, match="300 pixels wide and 1 high"):
        run(frames_of([np.zeros((1, 300, 3), np.uint8)]))


# Parameters


def clip_on(checkpoint: Path, **parameters: Any) -> Detector:
    encoder = {"checkpoint": str(checkpoint), "precision": "float32", "device": "cpu"}
    return build_detector("clip", parameters={"encoder": encoder, **parameters})


def test_another_attribute_with_uncertain_as_a_class(checkpoint: Path) -> None:
    prompts = {"young": "a young person", "elderly": "an old person", "uncertain": "nobody"}
    detector = clip_on(checkpoint, attribute="age", prompts=prompts)
    assert detector.attributes == ("age",)
    reference = transformers_reference(checkpoint)
    answers = (("clear", "young"), ("clear", "elderly"), ("filtered", "uncertain"))
    expected = [answers[reference(image, tuple(prompts.values())).argmax()] for image in IMAGES]
    assert [verdict(each) for each in judged(detector, IMAGES, weights=ANYWHERE)] == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("clip", {"prompts": {"male": "a man", "woman": "a woman"}}, "'woman', which is no class of 'gender'"),
        ("clip", {"prompts": {"male": "a man", "uncertain": "who knows"}}, "at least two classes"),
        ("clip", {"prompts": {"male": "a man"}}, "at least 2 items"),
        ("clip", {"attribute": "gendre"}, "did you mean 'gender'?"),
        ("clip_prob", {"attribute": "age"}, "'male', which is no class of 'age'"),
        ("clip_prob", {"min_score": 90}, "less than or equal to 1"),
        ("clip_uncertain", {"prompts": {"mann": "x", "frau": "y"}}, "'mann', which is no class"),
        ("clip", {"prompts": {"male": [], "female": "x"}}, "prompts.male"),
        ("clip", {"templates": ["a photo"]}, "a template has one `{}`, where the prompt goes; got 'a photo'"),
        ("clip_uncertain", {"templates": ["{} {}"]}, "a template has one `{}`"),
        ("clip", {"encoder": {"backend": "keras"}}, "keras"),
        ("clip", {"encoder": {"precison": "float32"}}, "did you mean 'precision'"),
        ("clip", {"encoder": {"backend": "open_clip"}}, "give a `checkpoint`, or an `architecture`"),
        ("clip", {"encoder": {"backend": "open_clip", "architecture": "RN50"}}, "give a `checkpoint`, or"),
        ("clip", {"encoder": {"backend": "onnx", "image_network": "a.onnx"}}, "text_network: is missing"),
    ],
)
def test_mistakes_in_parameters_are_named(kind: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        build_detector(kind, parameters=parameters)
    assert message in str(error.value)


def test_blank_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="should match pattern"):
        ClipSimilarities(prompts=("a photo", "  "))


def test_an_ensemble_is_the_mean_of_its_prompts_directions(backend: Backend) -> None:
    words = {"male": ("male", "man"), "female": "female"}
    templates = ("a photo of a {}", "the face of a {}")
    texts = {
        "male": ("a photo of a male", "the face of a male", "a photo of a man", "the face of a man"),
        "female": ("a photo of a female", "the face of a female"),
    }
    parameters = {"encoder": backend.encoder, "prompts": words, "templates": templates}
    found = judged(build_detector("clip", parameters=parameters), IMAGES, weights=ANYWHERE)
    encoder = build_detector("clip", parameters=parameters).implementation.encoder  # type: ignore[attr-defined]
    means = []
    for each in texts.values():
        mean = encoder.embed_prompts(each, ANYWHERE).vectors.astype(np.float64).mean(axis=0)
        means.append(mean / np.linalg.norm(mean))
    images = ClipImageEmbeddings(encoder=backend.encoder).load(ANYWHERE)(frames_of(IMAGES))
    scale = encoder.embed_prompts(GENDER, ANYWHERE).scale
    for prediction, image in zip(found, images, strict=True):
        expected = probabilities(scale * np.stack(means) @ image["embedding"])  # type: ignore[index,call-overload]
        assert prediction.label == ("male", "female")[expected.argmax()]
        assert prediction.score == pytest.approx(expected.max(), abs=1e-4)


def test_a_template_around_a_single_prompt_is_that_text_and_shares_its_fingerprint() -> None:
    plain = build_detector("clip").implementation
    templated = build_detector(
        "clip", parameters={"prompts": {"male": ["male"], "female": "female"}, "templates": ["a photo of a {}"]}
    ).implementation
    assert templated.similarities == plain.similarities  # type: ignore[attr-defined]
    assert templated.similarities.prompts == GENDER  # type: ignore[attr-defined]


def test_both_views_have_one_embedding_between_theirs(backend: Backend) -> None:
    def embeddings(views: str, images: list[Pixels]) -> NDArray[np.float32]:
        stage = ClipImageEmbeddings(encoder=backend.encoder, crop={"views": views})  # type: ignore[arg-type]
        return np.stack([found["embedding"] for found in stage.load(ANYWHERE)(frames_of(images))])  # type: ignore[index,call-overload]

    images = [image for image in IMAGES if image.shape[1] > 3]
    mirror = [np.ascontiguousarray(image[:, ::-1]) for image in images]
    mean = embeddings("as_is", images) + embeddings("as_is", mirror)
    both = embeddings("as_is_and_mirrored", images)
    np.testing.assert_allclose(both, mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(both, embeddings("as_is_and_mirrored", mirror), atol=1e-5)


def test_defaults_are_the_papers() -> None:
    for kind in ("clip", "clip_prob", "clip_uncertain"):
        detector = build_detector(kind)
        assert detector.implementation.encoder.checkpoint == CLIP_VIT_LARGE_PATCH14  # type: ignore[attr-defined]
        assert detector.kind.stages == detector.stages or set(detector.kind.stages) >= set(detector.stages)
        assert "not stated" in detector.kind.card.licence
    assert build_detector("clip_prob").implementation.min_score == 0.9  # type: ignore[attr-defined]
    assert CATALOGUE["openai/clip-vit-large-patch14"] is CLIP_VIT_LARGE_PATCH14


def test_a_checkpoints_name_alone_is_an_encoder(checkpoint: Path) -> None:
    detector = build_detector("clip", parameters={"encoder": str(checkpoint)})
    assert detector.implementation.encoder == TransformersClip(checkpoint=checkpoint)  # type: ignore[attr-defined]


def test_precision_is_part_of_the_fingerprint_and_the_device_is_not(checkpoint: Path) -> None:
    def identity(**settings: Any) -> str:
        return fingerprint(
            ClipImageEmbeddings(encoder={"checkpoint": str(checkpoint), **settings}),  # type: ignore[arg-type]
            weights=ANYWHERE,
        )

    assert identity(device="cpu") == identity(device="auto")
    assert identity(precision="float32") != identity(precision="bfloat16")


# Precision


@pytest.mark.parametrize("name", ["transformers", "open_clip"])
def test_bfloat16_gives_nearly_the_same(name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue("checkpoint" if name == "transformers" else "open_clip_folder")
    vectors = {}
    for precision in ("float32", "bfloat16"):
        encoder = {"backend": name, "checkpoint": str(folder), "precision": precision, "device": "cpu"}
        run = ClipImageEmbeddings(encoder=encoder).load(ANYWHERE)  # type: ignore[arg-type]
        vectors[precision] = np.stack([result["embedding"] for result in run(frames_of(IMAGES))])  # type: ignore[call-overload,index]
    assert vectors["bfloat16"].dtype == np.float32
    assert not np.array_equal(vectors["float32"], vectors["bfloat16"])
    assert (vectors["float32"] * vectors["bfloat16"]).sum(axis=1).min() > 0.95


def test_float16_on_a_cpu_is_refused(checkpoint: Path) -> None:
    encoder = TransformersClip(checkpoint=checkpoint, precision="float16", device="cpu")
    with pytest.raises(ConfigError, match="float16"):
        encoder.image_encoder(ANYWHERE)
