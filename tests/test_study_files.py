"""Study files are read strictly, and every mistake is named with its place, its value and what is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_parts import write_image_set  # registers the detectors, too

from detector_bench.errors import ConfigError
from detector_bench.study import Study
from detector_bench.study_file import DetectorEntry, merge

SET = "image_set: images\n"


def read(folder: Path, text: str, *, build: bool = True) -> Study:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    study = Study.from_yaml(path)
    if build:
        study.build_detectors()
    return study


def mistakes(folder: Path, text: str) -> list[str]:
    """The lines of the message, with the folder left out."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_a_minimal_study_has_the_documented_defaults(tmp_path: Path) -> None:
    study = read(tmp_path, SET + "detectors: [test-colour]\n")
    assert study.name == "mine"
    assert study.image_set == tmp_path / "images"
    assert study.detectors == (DetectorEntry(name="test-colour", kind="test-colour"),)
    assert study.attributes == ("gender",)
    assert (study.n_clear, study.max_error_share, study.batch_size) == ("detector", 0.1, 32)


def test_all_keys_are_read(tmp_path: Path) -> None:
    study = read(
        tmp_path,
        """\
name: Überprüfung
image_set: /elsewhere/images
attributes: [age, gender]
n_clear: human
max_error_share: 0.5
batch_size: 7
max_pixels: 1000
intervals: {method: bca, level: 0.9, resamples: 500, unit: prompt, seed: 3, prompts: true}
estimated_labels: dawid_skene
tolerance: {prompt_bias_error: 0.1}
question: Who can count?
author: A. Author
date: May 2026
display_names: {strict: Strict one}
table_style: {shaded: true}
scores: [{system: biaspainter, preset: as_code, age_threshold: 30}]
detectors:
  - test-age-and-gender
  - {name: strict, kind: test-colour, green: 90}
""",
    )
    assert study.model_dump() == {
        "tolerance": {"prompt_bias_error": 0.1, "model_bias_score_error": 0.1},
        "question": "Who can count?",
        "author": "A. Author",
        "date": "May 2026",
        "display_names": {"strict": "Strict one"},
        "table_style": {"mark_worst": False, "shaded": True},
        "name": "Überprüfung",
        "image_set": Path("/elsewhere/images"),
        "attributes": ("age", "gender"),
        "n_clear": "human",
        "max_error_share": 0.5,
        "batch_size": 7,
        "max_pixels": 1000,
        "intervals": {
            "method": "bca",
            "level": 0.9,
            "resamples": 500,
            "unit": "prompt",
            "seed": 3,
            "prompts": True,
        },
        "estimated_labels": "dawid_skene",
        "estimates": {"about": "images", "level": 0.95, "seed": 0},
        "searched": None,
        "scores": (
            {"system": "biaspainter", "preset": "as_code", "age_threshold": 30.0, "skin_tone_threshold": None},
        ),
        "detectors": (
            {"name": "test-age-and-gender", "kind": "test-age-and-gender", "parameters": {}},
            {"name": "strict", "kind": "test-colour", "parameters": {"green": 90}},
        ),
    }
    assert [detector.name for detector in study.build_detectors()] == ["test-age-and-gender", "strict"]


def test_the_image_set_may_be_replaced_and_is_then_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image_set(tmp_path / "work" / "mine", 3)
    (tmp_path / "study.yaml").write_text(SET + "detectors: [test-colour]\n")
    monkeypatch.chdir(tmp_path / "work")
    study = Study.from_yaml(tmp_path / "study.yaml", image_set="mine")
    assert study.image_set == Path("mine")
    assert study.run(tmp_path / "out").counts["test-colour"]["gender"] == {"clear": 2, "filtered": 1, "error": 0}


ONNX = """\
image_set: images
detectors:
  - name: net
    kind: onnx
    network: {network}
    input: {{size: [8, 8]{shape}}}
    crop: {crop}
    outputs: {{gender: {{read: classes, output: p, classes: [male, female]{reading}}}}}
"""


def onnx_study(*, network: str = "a.onnx", shape: str = "", crop: str = "{}", reading: str = "") -> str:
    return ONNX.format(network=network, shape=shape, crop=crop, reading=reading)


MISTAKES: dict[str, tuple[str, list[str]]] = {
    "unknown keys": (
        SET + "detectorss: [test-colour]\nbatchsize: 3\n",
        [
            "mine.yaml: detectors: is missing",
            "mine.yaml: detectorss: unknown key 'detectorss': did you mean 'detectors' or 'scores'?",
            "mine.yaml: batchsize: unknown key 'batchsize': did you mean 'batch_size'?",
        ],
    ),
    "a key like no other": (
        SET + "detectors: [test-colour]\nzzz: 3\n",
        [
            "mine.yaml: zzz: unknown key 'zzz': known: attributes, author, batch_size, date, detectors, "
            "display_names, estimated_labels, estimates, image_set, intervals, max_error_share, max_pixels, "
            "n_clear, name, question, scores, search, table_style, tolerance"
        ],
    ),
    "unknown parameter of a model": (
        SET + "detectors: [{name: d, kind: test-colour, gren: 3}]\n",
        ["mine.yaml: detector 'd': gren: unknown key 'gren': did you mean 'green' or 'gain'?"],
    ),
    "unknown parameter of a class": (
        SET + "detectors: [{kind: test-brightness, treshold: 3}]\n",
        ["mine.yaml: detector 'test-brightness': unknown parameter 'treshold': did you mean 'threshold'?"],
    ),
    "unknown key in the input": (
        onnx_study(shape=", meen: 0"),
        ["mine.yaml: detector 'net': input.meen: unknown key 'meen': did you mean 'mean'?"],
    ),
    "unknown key in a stage": (
        onnx_study(crop="{boxes: {kind: test_mean_colour, gane: 2}}"),
        [
            "mine.yaml: detector 'net': crop.boxes: stage 'test_mean_colour': gane: unknown key 'gane': "
            "did you mean 'gain'?"
        ],
    ),
    "unknown stage": (
        onnx_study(crop="{boxes: test_mean_color}"),
        [
            "mine.yaml: detector 'net': crop.boxes: unknown stage 'test_mean_color': "
            "did you mean 'test_mean_colour'..."
        ],
    ),
    "unknown key in the weights": (
        onnx_study(network="{path: a.onnx, sha265: abc}"),
        ["mine.yaml: detector 'net': network.sha265: unknown key 'sha265': did you mean 'sha256'?"],
    ),
    "unknown key in a reading": (
        onnx_study(reading=", activaton: softmax"),
        [
            "mine.yaml: detector 'net': outputs.gender.classes.activaton: unknown key 'activaton': "
            "did you mean 'activation' or 'calibration' or 'abstain'?"
        ],
    ),
    "several detectors are wrong": (
        SET + "detectors: [test-color, {kind: test-colour, green: lots}]\n",
        [
            "mine.yaml: unknown detector 'test-color': did you mean 'test-colour'...",
            "mine.yaml: detector 'test-colour': green: Input should be a valid number, unable to parse string as "
            "a number; got 'lots'",
        ],
    ),
    "a key twice": (
        SET + "detectors: [test-colour]\ndetectors: [test-brightness]\n",
        ["mine.yaml, line 3, column 1: the key 'detectors' stands here a second time"],
    ),
    "a key twice, deeper": (
        SET + "detectors: [{kind: test-colour, green: 1, green: 2}]\n",
        ["mine.yaml, line 2, column 43: the key 'green' stands here a second time"],
    ),
    "a list as key": (
        SET + "? [a]\n: 3\ndetectors: [test-colour]\n",
        ["mine.yaml, line 2, column 3: found unhashable key"],
    ),
    "an open bracket": (
        SET + "detectors: [test-colour\nbatch_size: 2\n",
        ["mine.yaml, line 3, column 11: expected ',' or ']', but got ':'"],
    ),
    "a tab": (
        SET + "detectors:\n\t- test-colour\n",
        ["mine.yaml, line 3, column 1: found character '\\t' that cannot start any token"],
    ),
    "code": (
        SET + "x: !!python/object/apply:os.system [echo]\n",
        [
            "mine.yaml, line 2, column 4: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.system'"
        ],
    ),
    "wrong types": (
        SET + "detectors: [test-colour]\nbatch_size: 1.5\nattributes: gender\nmax_error_share: 3\nn_clear: both\n",
        [
            "mine.yaml: attributes: a list is expected; got 'gender'",
            "mine.yaml: n_clear: Input should be 'detector' or 'human'; got 'both'",
            "mine.yaml: max_error_share: Input should be less than or equal to 1; got 3",
            "mine.yaml: batch_size: Input should be a valid integer, got a number with a fractional part; got 1.5",
        ],
    ),
    "numbers as keys": (SET + "detectors: [test-colour]\n3: 4\n", ["mine.yaml: 3: Keys should be strings; got 3"]),
    "an empty file": ("", ["mine.yaml: a mapping is expected, with keys such as `image_set` and `detectors`"]),
    "a list": ("- a\n", ["mine.yaml: a mapping is expected, with keys such as `image_set` and `detectors`"]),
    "no image set": ("detectors: [test-colour]\n", ["mine.yaml: image_set: is missing"]),
    "no detectors": (SET + "detectors: []\n", ["mine.yaml: detectors: at least one is needed"]),
    "nothing as detectors": (SET + "detectors:\n", ["mine.yaml: detectors: a list is expected"]),
    "a word as detectors": (
        SET + "detectors: test-colour\n",
        ["mine.yaml: detectors: a list is expected; got 'test-colour'"],
    ),
    "a number as detector": (
        SET + "detectors: [3]\n",
        ["mine.yaml: detectors.0: a detector is its name, or a mapping; got 3"],
    ),
    "a detector without kind": (
        SET + "detectors: [test-colour, {name: x}]\n",
        ["mine.yaml: detectors.1: `kind` is missing: the registered name of a detector"],
    ),
    "a number as name": (
        SET + "detectors: [{name: 3, kind: test-colour}]\n",
        ["mine.yaml: detectors.0: `name` is text; got 3"],
    ),
    "one name twice": (
        SET + "detectors: [test-colour, test-colour]\n",
        ["mine.yaml: detectors: two detectors have the name 'test-colour': give each its own `name`"],
    ),
    "one name in capitals": (
        SET + "detectors: [test-colour, {name: Test-Colour, kind: test-colour}]\n",
        ["mine.yaml: detectors: two detectors have the name 'test-colour': give each its own `name`"],
    ),
    "the reserved name": (
        SET + "detectors: [{name: ground_truth, kind: test-colour}]\n",
        ["mine.yaml: detectors.0.name: 'ground_truth' is reserved for the human labels"],
    ),
    "a path as name": (
        SET + "detectors: [{name: ../up, kind: test-colour}]\n",
        ["mine.yaml: detectors.0.name: String should match pattern '^[A-Za-z0-9][A-Za-z0-9._+-]*$'; got '../up'"],
    ),
    "an unknown attribute": (
        SET + "detectors: [test-colour]\nattributes: [gendr]\n",
        ["mine.yaml: attributes: unknown attribute 'gendr': did you mean 'gender' or 'age'?"],
    ),
    "an attribute twice": (
        SET + "detectors: [test-colour]\nattributes: [gender, gender]\n",
        ["mine.yaml: attributes: 'gender' stands here twice"],
    ),
    "an attribute that nobody judges": (
        SET + "detectors: [test-colour]\nattributes: [gender, race]\n",
        ["mine.yaml: no detector of this study judges the attribute 'race'"],
    ),
    "extends a missing file": (
        SET + "detectors: [test-colour, {extends: base.yaml}]\n",
        ["mine.yaml: detectors.1: extends: there is no file 'base.yaml'"],
    ),
    "extends a list": (
        SET + "detectors: [{extends: [base.yaml]}]\n",
        ["mine.yaml: detectors.0: `extends` is the name of a file; got ['base.yaml']"],
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(tmp_path: Path, case: str) -> None:
    text, expected = MISTAKES[case]
    found = mistakes(tmp_path, text)
    assert len(found) == len(expected)
    for line, wanted in zip(found, expected, strict=True):
        # Which other names are near depends on what the tests of other files register.
        assert line.startswith(wanted[:-3]) if wanted.endswith("...") else line == wanted


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^there is no file '.*none\.yaml'$"):
        Study.from_yaml(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"cannot be read: .*[Dd]irectory"):
        Study.from_yaml(tmp_path)


def test_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes("name: Prüfung\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"mine\.yaml: cannot be read: 'utf-8' codec"):
        Study.from_yaml(tmp_path / "mine.yaml")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SET + "detectors: [test-colour]\n", encoding="utf-8-sig")
    assert Study.from_yaml(tmp_path / "mine.yaml").name == "mine"


def test_anchors_and_merge_keys_of_yaml_work(tmp_path: Path) -> None:
    study = read(
        tmp_path,
        SET
        + """\
detectors:
  - &strict {name: one, kind: test-colour, green: 90, gain: 2}
  - {<<: *strict, name: two, gain: 3}
""",
    )
    assert study.detectors[1] == DetectorEntry(name="two", kind="test-colour", parameters={"green": 90, "gain": 3})


# --- extends


def parameters(study: Study) -> dict[str, Any]:
    [entry] = study.detectors
    return entry.parameters


def test_extends_starts_from_a_file_and_the_entrys_own_keys_win(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("name: base\nkind: test-colour\ngreen: 90\ngain: 2\n")
    study = read(tmp_path, SET + "detectors: [{extends: base.yaml, green: 80}]\n")
    assert study.detectors == (
        DetectorEntry(name="base", kind="test-colour", parameters={"green": 80, "gain": 2}),
    )


def test_a_chain_of_files_is_followed_each_relative_to_the_one_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "deeper" / "still").mkdir(parents=True)
    (tmp_path / "deeper" / "still" / "c.yaml").write_text("kind: test-colour\ngreen: 1\ngain: 1\nseconds: 1\n")
    (tmp_path / "deeper" / "b.yaml").write_text("extends: still/c.yaml\ngreen: 2\ngain: 2\n")
    study = read(tmp_path, SET + "detectors: [{name: mine, extends: deeper/b.yaml, green: 3}]\n")
    assert study.detectors[0].name == "mine"
    assert parameters(study) == {"green": 3, "gain": 2, "seconds": 1}


@pytest.mark.parametrize("files", [{"a.yaml": "a.yaml"}, {"a.yaml": "b.yaml", "b.yaml": "a.yaml"}])
def test_a_circle_of_files_is_named(tmp_path: Path, files: dict[str, str]) -> None:
    for name, target in files.items():
        (tmp_path / name).write_text(f"extends: {target}\nkind: test-colour\n")
    [message] = mistakes(tmp_path, SET + "detectors: [{extends: a.yaml}]\n")
    assert message.endswith("`extends` goes deeper than 5 files; is it a circle?")


def test_mistakes_in_an_extended_file_name_that_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("kind: test-colour\nkind: test-brightness\n")
    [message] = mistakes(tmp_path, SET + "detectors: [{extends: base.yaml}]\n")
    assert (
        message
        == "mine.yaml: detectors.0: extends: base.yaml, line 2, column 1: the key 'kind' stands here a second time"
    )


def test_mappings_are_merged_key_by_key_and_lists_replaced() -> None:
    base = {"crop": {"boxes": "a", "margin": 1.2}, "filters": [1, 2], "kind": "x"}
    own = {"crop": {"boxes": "b"}, "filters": [3]}
    assert merge(base, own) == {"crop": {"boxes": "b", "margin": 1.2}, "filters": [3], "kind": "x"}
    assert base == {"crop": {"boxes": "a", "margin": 1.2}, "filters": [1, 2], "kind": "x"}
    assert merge({"crop": {"a": 1}}, {"crop": None}) == {"crop": None}


# --- the rest


def test_n_clear_may_be_replaced(tmp_path: Path) -> None:
    study = read(tmp_path, SET + "detectors: [test-colour]\n")
    assert study.with_n_clear("human").n_clear == "human"
    assert study.n_clear == "detector"
    with pytest.raises(ConfigError, match="n_clear is 'detector' or 'human'; got 'both'"):
        study.with_n_clear("both")
    (tmp_path / "factor.txt").write_text("1")
    assert study.with_n_clear("human").locator().beside == tmp_path


def test_a_study_with_some_of_its_detectors_keeps_its_order_and_folder(tmp_path: Path) -> None:
    entries = ", ".join(f"{{name: {name}, kind: test-colour}}" for name in "abc")
    study = read(tmp_path, SET + f"detectors: [{entries}]\n")

    def names(**choice: list[str]) -> list[str]:
        return [entry.name for entry in study.with_detectors(**choice).detectors]

    assert names(only=["c", "a"]) == ["a", "c"]
    assert names(without=["b"]) == ["a", "c"]
    assert names(only=["a", "b"], without=["a"]) == ["b"]
    assert study.with_detectors(only=["a"]).locator().beside == tmp_path
    with pytest.raises(ConfigError, match="no detector 'd' in this study"):
        study.with_detectors(without=["d"])
    with pytest.raises(ConfigError, match="no detector of this study is left"):
        study.with_detectors(only=["a"], without=["a"])


def test_a_study_is_frozen(tmp_path: Path) -> None:
    study = read(tmp_path, SET + "detectors: [test-colour]\n")
    with pytest.raises(ValueError, match="frozen"):
        study.batch_size = 3


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "configs").glob("*.yaml")), ids=lambda p: p.name
)
def test_the_studies_that_come_along_are_right(path: Path) -> None:
    study = Study.from_yaml(path)
    assert len(study.build_detectors()) >= 2


def test_mistakes_in_python_are_as_plain_as_in_a_file() -> None:
    with pytest.raises(ConfigError, match=r"^Study: image_set: is missing$"):
        Study(detectors=["age-and-gender"])  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="Study: searhc: unknown key 'searhc': did you mean 'search'"):
        Study(image_set="images", detectors=["age-and-gender"], searhc={})
