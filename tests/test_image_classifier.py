"""`kind: image_classifier`: published classifiers of four libraries, and their labels as our classes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clip_networks import odd_images
from PIL import Image
from published_networks import (
    GENDER,
    save_resnet,
    save_timm,
    save_torchscript,
    save_torchvision,
    save_vit,
    torchscript_model,
)
from running import judged, plain

from detector_bench.detectors import Detector, Prediction, build_detector
from detector_bench.errors import ConfigError, DetectorBenchError, WeightsError
from detector_bench.perception.networks.label_classes import LabelClasses, LabelTable
from detector_bench.runner.readiness import lacking
from detector_bench.trust import TRUST_VARIABLE, AllowedCode, add_code, code_sha256, program_files
from detector_bench.weights import WeightsLocator

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ANYWHERE = WeightsLocator(cache=Path("nowhere"), allow_download=False)
MEANT = {"woman": "female", "man": "male"}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vit(tmp_path_factory.mktemp("vit") / "vit")


def classifier(model: Any, **parameters: Any) -> Detector:
    if isinstance(model, Path):
        model = str(model)
    return build_detector("image_classifier", name="tried", parameters={"model": model, **parameters})


def squeezenet(path: Path, **settings: Any) -> dict[str, Any]:
    """How a study names a file of `save_torchvision`."""
    network = {"architecture": "squeezenet1_1", "weights_file": str(path), "labels": GENDER}
    return {"library": "torchvision", **network, **settings}


def shares(predictions: list[Prediction]) -> list[float]:
    """The probability of the first label, of each image."""
    return [json.loads(each.raw or "")["probabilities"][GENDER[0]] for each in predictions]


# The four libraries


@pytest.mark.slow
@pytest.mark.parametrize("save", [save_vit, save_resnet])
def test_transformers_gives_what_its_own_classes_give(save: Any, tmp_path: Path) -> None:
    folder = save(tmp_path / "network")
    found = judged(classifier(folder), odd_images(), weights=ANYWHERE)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        each = [model(**processor(Image.fromarray(image), return_tensors="pt")) for image in odd_images()]
    wanted = [float(output.logits.softmax(1)[0, 0]) for output in each]
    np.testing.assert_allclose(shares(found), wanted, atol=2e-4)
    labels = ["female" if share > 0.5 else "male" for share in wanted]
    assert [(each.status.value, each.label) for each in found] == [("clear", label) for label in labels]
    assert np.ptp(wanted) > 0.02, "the network tells the images apart"


@pytest.mark.parametrize("form", ["checkpoint", "architecture"])
def test_timm_gives_what_timm_gives(form: str, tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    folder = save_timm(tmp_path / "network")
    named = f"hf-hub:{folder}"
    if form == "architecture":
        file = folder / "model.safetensors"
        named = {"library": "timm", "architecture": "test_resnet", "weights_file": str(file), "labels": GENDER}
    found = judged(classifier(named), odd_images(), weights=ANYWHERE)
    settings = json.loads((folder / "config.json").read_text())["pretrained_cfg"] if form == "checkpoint" else {}
    model = timm.create_model("test_resnet", num_classes=2, checkpoint_path=folder / "model.safetensors").eval()
    transform = timm.data.create_transform(
        **timm.data.resolve_data_config(pretrained_cfg=settings or None, model=model)
    )
    with torch.inference_mode():
        each = [model(transform(Image.fromarray(image))[None]) for image in odd_images()]
    np.testing.assert_allclose(shares(found), [float(one.softmax(1)[0, 0]) for one in each], atol=2e-4)


@pytest.mark.parametrize("name", ["small.safetensors", "small.pt"])
def test_torchvision_with_a_file_of_tensors(name: str, tmp_path: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    path = save_torchvision(tmp_path / name)
    named = {
        "library": "torchvision",
        "architecture": "squeezenet1_1",
        "weights_file": str(path),
        "labels": GENDER,
    }
    found = judged(
        classifier({**named, "input": {"size": 64, "shorter_side": 72}}), odd_images(), weights=ANYWHERE
    )
    torch.manual_seed(0)
    model = torchvision.models.squeezenet1_1(num_classes=2).eval()
    steps = torchvision.transforms
    transform = steps.Compose(
        [
            *(steps.Resize(72), steps.CenterCrop(64), steps.ToTensor()),
            steps.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    with torch.inference_mode():
        each = [model(transform(Image.fromarray(image))[None]) for image in odd_images()]
    np.testing.assert_allclose(shares(found), [float(one.softmax(1)[0, 0]) for one in each], atol=2e-3)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(TRUST_VARIABLE, str(tmp_path / "trust.yaml"))
    with pytest.warns(FutureWarning):
        return save_torchscript(tmp_path / "script.pt")


def allow(path: Path) -> None:
    add_code(AllowedCode(name=path.name, sha256=code_sha256(program_files(path))))


def test_torchscript_runs_only_as_the_file_that_was_allowed(script: Path) -> None:
    made = classifier(torchscript_model(script), classes=MEANT)
    with pytest.raises(ConfigError, match=r"'script\.pt'.*not allowed on this machine.*trust code"):
        judged(made, [plain(255, 0, 0)], weights=ANYWHERE)
    allow(script)
    red, green = judged(made, [plain(255, 0, 0), plain(0, 255, 0)], weights=ANYWHERE)
    assert (red.label, green.label) == ("female", "male")
    assert red.score == pytest.approx(1 / (1 + math.exp(-10)))
    script.write_bytes(script.read_bytes() + b" ")
    with pytest.raises(ConfigError, match="has changed since it was allowed"):
        judged(made, [plain(255, 0, 0)], weights=ANYWHERE)


def test_two_detectors_with_one_model_share_its_outputs(vit: Path) -> None:
    one = classifier(vit)
    other = classifier({"checkpoint": str(vit)}, classes={"woman": "male", "man": "female"}, min_score=0.9)
    assert one.implementation.classifier == other.implementation.classifier
    assert hash(one.stages[0].inputs()) == hash(other.stages[0].inputs())
    assert one.stages != other.stages


# Labels


def table(labels: list[str], attribute: str = "gender", **reading: Any) -> LabelTable:
    elsewhere = {name: LabelClasses(**other) for name, other in reading.pop("elsewhere", {}).items()}
    return LabelTable.of(
        labels, attribute=attribute, reading=LabelClasses(**reading), elsewhere=elsewhere, name="it"
    )


def read(labels: list[str], numbers: list[float], attribute: str = "gender", **reading: Any) -> list[float]:
    found = table(labels, attribute, activation=reading.pop("activation", "none"), **reading)
    return found.read(np.array(numbers)).probabilities.round(6).tolist()


def test_labels_are_known_by_class_and_synonym_whatever_their_case_and_hyphens() -> None:
    assert read(["Woman", "MALE"], [0.75, 0.25]) == [0.25, 0.75, 0, 0]
    assert read(["Middle-Aged", "young", "elderly"], [0.5, 0.25, 0.25], "age") == [0.25, 0.5, 0.25, 0, 0]


def test_a_label_may_mean_no_class_or_that_the_network_cannot_tell() -> None:
    meant = {"dog": None, "blurred": "uncertain"}
    assert read(["man", "woman", "dog", "blurred"], [0.1, 0.2, 0.3, 0.4], classes=meant) == [0.1, 0.2, 0.3, 0.4]


def test_labels_of_one_class_are_added_up_under_softmax_and_the_likeliest_counts_under_sigmoid() -> None:
    labels, numbers = ["man", "boy", "woman"], [0.0, 0.0, math.log(1.5)]
    assert read(labels, numbers, activation="softmax") == [round(2 / 3.5, 6), round(1.5 / 3.5, 6), 0, 0]
    assert read(labels, numbers, activation="sigmoid") == [0.5, 0.6, 0, 0]


def test_ignored_labels_are_left_out_before_the_softmax() -> None:
    labels, numbers = ["man", "woman", "hat"], [0.0, 0.0, 50.0]
    assert read(labels, numbers, activation="softmax", ignored=["hat"]) == [0.5, 0.5, 0, 0]
    assert read(labels, numbers, activation="softmax", ignored="all_others") == [0.5, 0.5, 0, 0]


def test_one_label_of_a_multi_label_network_and_what_it_leaves() -> None:
    settings = {"classes": {"Male": "male"}, "otherwise": "female", "ignored": "all_others"}
    assert read(["Male", "Smiling"], [-math.log(4), 9], activation="sigmoid", **settings) == [0.2, 0.8, 0, 0]


def test_ages_in_bins_by_a_taxonomy_in_any_order_of_labels() -> None:
    bins = ["70+", "0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69"]
    made = table(bins, "age", classes="fairface_age9", activation="none")
    found = made.read(np.array([0.5, 0, 0, 0, 0, 0.5, 0, 0, 0]))
    assert found.probabilities.tolist() == [0, 0.5, 0.5, 0, 0]
    assert found.years == 0.5 * 75 + 0.5 * 34.5
    own = table(["young", "old"], "age", classes={"old": "elderly"}, years={"young": 20, "old": 70})
    assert own.read(np.array([0.0, 0.0])).years == 45


def test_labels_of_two_attributes_are_told_apart() -> None:
    labels, numbers = ["man", "woman", "young", "grey"], [0.0, 0.0, math.log(3), 0.0]
    age = {"classes": {"grey": "elderly"}}
    assert read(labels, numbers, activation="softmax", elsewhere={"age": age}) == [0.5, 0.5, 0, 0]
    found = read(labels, numbers, "age", activation="softmax", **age, elsewhere={"gender": {}})
    assert found == [0.75, 0, 0.25, 0, 0]
    made = classifier("somewhere", outputs={"gender": {}, "age": age})
    assert made.attributes == ("gender", "age")


@pytest.mark.parametrize(
    ("labels", "reading", "said"),
    [
        (["male", "cat", "a dog"], {}, "it has 2 labels without a class of 'gender': 'cat', 'a dog'; say"),
        (["male", "cat"], {"classes": {"kat": None}}, "'kat', no labels of the model (it has: 'male', 'cat')"),
        (["male", "cat"], {"classes": {"cat": "feline"}}, "'cat' means 'feline', which is no class of 'gender'"),
        (["male", "man"], {}, "mean 'male' of 'gender' alone, so every image would show it"),
        (["young", "elderly"], {}, "they look like `attribute: age`"),
        (["0-30", "30-60", "60+"], {}, "`attribute: age`, `classes: bigbench_age3`"),
    ],
)
def test_labels_without_a_meaning_are_told_in_a_line(
    labels: list[str], reading: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        table(labels, **reading)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_all_labels_without_a_class_are_told_before_any_image_is_judged(tmp_path: Path) -> None:
    folder = save_vit(tmp_path / "animals", ["male", "cat", "dog"])
    (line,) = lacking(classifier(folder), weights=ANYWHERE)
    assert line.startswith("animals has 2 labels without a class of 'gender': 'cat', 'dog'")
    assert line.endswith("(accepted: male, female, uncertain, or null for no class)")
    assert lacking(classifier(folder, classes={"cat": None, "dog": "female"}), weights=ANYWHERE) == []


def test_winners_that_are_no_clear_class_filter_the_image(script: Path) -> None:
    allow(script)
    images = [plain(255, 0, 0), plain(0, 255, 0), plain(9, 9, 9)]
    named = torchscript_model(script, ["thing", "woman"])

    def verdicts(**parameters: Any) -> list[tuple[str, str | None]]:
        meant = {"otherwise": "male", "activation": "sigmoid", **parameters}
        return [
            (each.status.value, each.reason or each.label)
            for each in judged(classifier(named, **meant), images, weights=ANYWHERE)
        ]

    assert verdicts(classes={"thing": None})[:2] == [("filtered", "other_class"), ("clear", "female")]
    assert verdicts(classes={"thing": "uncertain"})[:2] == [("filtered", "uncertain"), ("clear", "female")]
    assert verdicts(classes={"thing": None}, min_score=0.8)[2] == ("filtered", "uncertain")


# What is refused


def test_a_detector_that_is_described_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="put attribute, min_score into it"):
        classifier("somewhere", attribute="age", min_score=0.5, outputs={"gender": {}})
    with pytest.raises(ConfigError, match="unknown class 'woman' of 'gender'"):
        classifier("somewhere", attribute="gender", classes={"f": "woman"})
    with pytest.raises(ConfigError, match=r"'a\.safetensors' does not say which network its numbers belong to"):
        classifier("a.safetensors")
    with pytest.raises(ConfigError, match="softmax leaves nothing"):
        classifier("somewhere", classes={"m": "male"}, otherwise="female")


def changed(folder: Path, name: str, **settings: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    return folder


def _bert(folder: Path) -> None:
    changed(folder, "config.json", model_type="bert")


def _own_code(folder: Path) -> None:
    places = {"AutoModelForImageClassification": "modeling.Net"}
    changed(folder, "config.json", model_type="their_own", auto_map=places)


def _unknown(folder: Path) -> None:
    changed(folder, "config.json", model_type="of_tomorrow")


def _of_timm(folder: Path) -> None:
    (folder / "config.json").write_text('{"architecture": "resnet18"}')


def _label_twice(folder: Path) -> None:
    changed(folder, "config.json", id2label={"0": "woman", "1": "woman"})


def _gap(folder: Path) -> None:
    changed(folder, "config.json", id2label={"0": "woman", "2": "man"})


def _damaged(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])


def _headless(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    kept = {name: each for name, each in tensors.items() if not name.startswith("classifier")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def _no_processor(folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()


def _sizes_stay(folder: Path) -> None:
    changed(folder, "preprocessor_config.json", do_resize=False)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_bert, r"is no image classifier: it is of the type 'bert'"),
        (_own_code, r"'vit' brings its own program code.*set run_checkpoint_code: true.*trust code"),
        (_unknown, r"is of the type 'of_tomorrow', which transformers \S+ does not know"),
        (_of_timm, r"is one of timm, not of transformers: write hf-hub:vit"),
        (_label_twice, r"the label 'woman' stands twice among its labels, at 0 and 1"),
        (_gap, r"id2label in its config.json is .* \(accepted: a label for each of the numbers 0, 1, 2"),
        (_damaged, r"checkpoint 'vit': transformers cannot read it: "),
        (_headless, r"no whole image classifier: it lacks 'classifier.bias'"),
        (_no_processor, r"checkpoint 'vit': transformers cannot read it: "),
        (_sizes_stay, r"its settings make inputs of other sizes of other images"),
    ],
)
def test_what_is_no_classifier_is_refused_in_a_line(damage: Any, said: str, vit: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(vit, tmp_path / "vit"))
    damage(folder)
    with pytest.raises(DetectorBenchError, match=said) as error:
        judged(classifier(folder), odd_images()[:2], weights=ANYWHERE)
    assert "\n" not in str(error.value)
    # What the settings tell is told before any image is judged, by which the run goes on with other detectors.
    told = lacking(classifier(folder), weights=ANYWHERE)
    assert told == ([] if damage in (_damaged, _headless, _no_processor, _sizes_stay) else [str(error.value)])


def test_code_of_a_checkpoint_runs_only_if_it_is_asked_for_and_allowed(
    vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from mivolo_parts import keep_code_in

    keep_code_in(tmp_path / "modules", monkeypatch)
    monkeypatch.setenv(TRUST_VARIABLE, str(tmp_path / "trust.yaml"))
    folder = Path(shutil.copytree(vit, tmp_path / "their_own"))
    code = "import transformers\n\nclass Config(transformers.ViTConfig):\n    model_type = 'their_own'\n\n"
    code += "class Net(transformers.ViTForImageClassification):\n    config_class = Config\n"
    (folder / "theirs.py").write_text(code)
    places = {"AutoConfig": "theirs.Config", "AutoModelForImageClassification": "theirs.Net"}
    changed(folder, "config.json", model_type="their_own", auto_map=places)
    named = {"checkpoint": str(folder), "run_checkpoint_code": True}
    made = classifier(named)
    assert "is not allowed on this machine" in lacking(made, weights=ANYWHERE)[0]
    with pytest.raises(ConfigError, match="is not allowed on this machine"):
        judged(made, odd_images()[:2], weights=ANYWHERE)
    allow(folder)
    own, plain_one = (judged(each, odd_images(), weights=ANYWHERE) for each in (made, classifier(vit)))
    assert [each.score for each in own] == [each.score for each in plain_one]
    # Settings are not what was allowed: none of them may lead to other code than that.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "processor.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    place = f"{elsewhere}--processor.Processor"
    changed(folder, "preprocessor_config.json", parts=[{"auto_map": {"AutoImageProcessor": [place, None]}}])
    with pytest.raises(ConfigError, match="does not bring its own program code"):
        judged(classifier(named), odd_images()[:2], weights=ANYWHERE)
    changed(folder, "preprocessor_config.json", parts=[], auto_map={"AutoImageProcessor": place})
    with pytest.raises(ConfigError, match="does not bring its own program code"):
        judged(classifier(named), odd_images()[:2], weights=ANYWHERE)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", ["someone/program", {"": "someone/program:main"}])
def test_settings_that_name_a_program_on_the_hub_are_refused(form: Any, vit: Path, tmp_path: Path) -> None:
    """With the package kernels, transformers would fetch it and run it."""
    import shutil

    folder = Path(shutil.copytree(vit, tmp_path / "vit"))
    changed(folder, "config.json", attn_implementation=form)
    with pytest.raises(WeightsError, match="computed by the program 'someone/program"):
        judged(classifier(folder), odd_images()[:1], weights=ANYWHERE)
    changed(folder, "config.json", attn_implementation="eager")
    assert judged(classifier(folder), odd_images()[:1], weights=ANYWHERE)


def test_settings_for_timm_name_no_other_file(tmp_path: Path) -> None:
    pytest.importorskip("timm")
    folder = save_timm(tmp_path / "network")
    changed(folder, "config.json", model_args={"checkpoint_path": str(tmp_path / "theirs.pth")})
    with pytest.raises(ConfigError, match="model_args has 'checkpoint_path'"):
        judged(classifier({"library": "timm", "checkpoint": str(folder)}), odd_images()[:1], weights=ANYWHERE)


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (
            3,
            r"does not hold torchvision's squeezenet1_1 with 2 outputs: 'classifier\.1\.weight' is \[3, 512",
        ),
        (None, r"cannot be read as safetensors: "),
    ],
)
def test_a_file_of_another_network_or_a_damaged_one(outputs: int | None, said: str, tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    path = save_torchvision(tmp_path / "small.safetensors", outputs or 2)
    if outputs is None:
        path.write_bytes(path.read_bytes()[:-1000])
    named = {
        "library": "torchvision",
        "architecture": "squeezenet1_1",
        "weights_file": str(path),
        "labels": GENDER,
    }
    with pytest.raises(WeightsError, match=said):
        judged(classifier(named), odd_images()[:1], weights=ANYWHERE)


def test_an_image_that_could_not_be_resized_is_refused_as_that_image(vit: Path) -> None:
    with pytest.raises(ValueError, match="900 pixels wide and 1 high: too narrow to be resized"):
        judged(classifier(vit), [np.zeros((1, 900, 3), np.uint8)], weights=ANYWHERE)
