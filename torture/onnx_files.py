"""Mutated ONNX networks: bytes, graph, shapes, metadata, files beside them; they judge or are refused.

    python -m torture.onnx_files --cases 500 --seed 1

One network classifies, another finds persons as a YOLO does, with its metadata. Both run through `weights`-free
studies: `run` opens them, compares them with the study, and judges.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from torture.cases import Case, expect, main
from torture.mutations import NASTY_TEXTS, pick, short, spoiled_bytes
from torture.small_studies import MODULES, image_set

ONNX_MODULES = (
    *MODULES,
    "onnx",
    "onnxruntime",
    "cv2",
    "detector_bench.detectors.onnx",
    "detector_bench.perception.yolo",
)

STUDY = """\
image_set: {images}
detectors:
  - kind: onnx
    name: net
    network: net.onnx
    input: {{size: [8, 8]}}
    outputs: {{gender: {{read: classes, output: answers, classes: [male, female]}}}}
    crop: {{boxes: {{kind: yolo_persons, network: persons.onnx, image_size: 32}}, without_box: whole_image}}
"""
_NAMES = (
    *("{}", "[]", "{0: 1}", "{'0': 'person'}", "{0: 'person', 0: 'face'}", "{-1: 'person'}", "{10**30: 'person'}"),
    *("{0: ['person']}", "person", "{0: 'person'", "(" * 3_000, "{0: 'person', 99: 'face'}", "{0.5: 'person'}"),
    *("{True: 'person'}", "__import__('os').system('id')", "{0: 'p\\0'}", "['person'] * 9", "{0: None}"),
)
_FACTS: dict[str, tuple[str, ...]] = {
    "names": _NAMES,
    "task": ("segment", "", "DETECT", "detect\0"),
    "imgsz": ("[32]", "[0, 0]", "x", "[1e9, 1e9]", "[-32, 32]", "None"),
    "batch": ("0", "-1", "x", "64"),
    "stride": ("0", "x"),
    "end2end": ("True", "x"),
    "args": ("{'nms': True}", "x", "{'batch': 1", "[]"),
    "nms": ("True",),
}
_OPERATORS = (
    "Loop",
    "If",
    "Gather",
    "Reshape",
    "Sqrt",
    "Log",
    "Div",
    "Identity",
    "NoSuch",
    "Softmax",
    "Tile",
    "Expand",
    "",
)
_LOCATIONS = (
    "../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "",
    "persons.onnx",
    "missing.bin",
    "a\0b",
    "x" * 4_000,
)


@cache
def networks() -> dict[str, bytes]:
    """The two good networks."""
    from onnx import helper
    from onnx_networks import mean_colour_classifier, save

    folder = Path(tempfile.mkdtemp(prefix="torture-onnx-"))
    mean_colour_classifier(folder / "net.onnx", [[0.05, 0], [0, 0], [0, 0.05]], activation="Softmax", size=(8, 8))
    found = np.array([[[16.0], [16.0], [24.0], [24.0], [0.9], [0.1]]], np.float32)
    save(
        folder / "persons.onnx",
        [
            helper.make_node("ReduceMean", ["image"], ["mean"], axes=[2, 3], keepdims=0),
            helper.make_node("ReduceMean", ["mean"], ["brightness"], axes=[1], keepdims=0),
            helper.make_node("Mul", ["brightness", "nothing"], ["zero"]),
            helper.make_node("Add", ["boxes", "zero"], ["output0"]),
        ],
        inputs={"image": [1, 3, 32, 32]},
        outputs={"output0": [1, 6, 1]},
        constants={"nothing": np.zeros(1, np.float32), "boxes": found},
        facts={"names": "{0: 'person', 1: 'face'}", "task": "detect", "imgsz": "[32, 32]", "stride": "32"},
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run(case: Case) -> None:
    """Spoil one of the two networks, and run a study with both."""
    chosen = ("net.onnx", "persons.onnx")[case.number % 2]
    for name, content in networks().items():
        if name == chosen:
            content, note = _spoilt(name, content, case.rng)
            case.note(f"{name}: {note}")
        Path(name).write_bytes(content)
    Path("study.yaml").write_text(STUDY.format(images=image_set()))
    expect(case.command("run", "study.yaml", "--out", "out", "--no-cache", "--quiet"))


def _spoilt(name: str, content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    import onnx

    if rng.random() < 0.3:
        return spoiled_bytes(content, rng)
    model = onnx.load_from_string(content)
    changes = [_shapes, _operators, _constants, _outside, _words]
    if name == "persons.onnx":
        changes += [_facts] * 4
    note = pick(changes, rng)(model, rng)
    return model.SerializeToString(), note


def _facts(model: Any, rng: np.random.Generator) -> str:
    key = pick(list(_FACTS), rng)
    value = pick([*_FACTS[key], *NASTY_TEXTS], rng).encode("utf-8", "replace").decode()
    kept = {each.key: each.value for each in model.metadata_props if each.key != key}
    del model.metadata_props[:]
    for name, text in {**kept, key: value}.items():
        model.metadata_props.add(key=name, value=text)
    return f"{key} = {short(value)}"


def _shapes(model: Any, rng: np.random.Generator) -> str:
    values = [*model.graph.input, *model.graph.output]
    value = pick(values, rng)
    shape = value.type.tensor_type.shape
    kind = int(rng.integers(4))
    if kind == 0 and shape.dim:
        pick(list(shape.dim), rng).dim_value = int(pick([0, -1, 2**31, 2**62, 7], rng))
    elif kind == 1:
        shape.dim.add(dim_value=3)
    elif kind == 2:
        value.type.tensor_type.elem_type = int(rng.integers(0, 20))
    else:
        del shape.dim[:]
    return f"shape or type of {value.name}: {kind}"


def _operators(model: Any, rng: np.random.Generator) -> str:
    node = pick(list(model.graph.node), rng)
    kind = int(rng.integers(5))
    if kind == 0:
        node.op_type = pick(_OPERATORS, rng)
    elif kind == 1 and node.attribute:
        attribute = node.attribute[0]
        attribute.ints[:] = [int(pick([0, -9, 99, 2**62], rng))]
    elif kind == 2:
        node.input[0] = pick([node.output[0], "nowhere", ""], rng)
    elif kind == 3:
        model.graph.node.reverse()
    else:
        node.domain = pick(["com.example", "ai.onnx.ml", "x" * 5_000], rng)
    return f"node {node.op_type}: {kind}"


def _constants(model: Any, rng: np.random.Generator) -> str:
    tensor = pick(list(model.graph.initializer), rng)
    kind = int(rng.integers(5))
    if kind == 0:
        tensor.dims[:] = [int(pick([0, -1, 2**31, 2**62, 10_000_000], rng))]
    elif kind == 1:
        tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data) + 1))]
    elif kind == 2:
        tensor.raw_data = np.full(
            len(tensor.raw_data) // 4, pick([np.nan, np.inf, 3e38, -3e38], rng), np.float32
        ).tobytes()
    elif kind == 3:
        tensor.data_type = int(rng.integers(0, 25))
    else:
        tensor.name = pick(["", "image", "nowhere"], rng)
    return f"constant {tensor.name}: {kind}"


def _outside(model: Any, rng: np.random.Generator) -> str:
    tensor = pick(list(model.graph.initializer), rng)
    where = pick(_LOCATIONS, rng)
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value=where)
    for key in ("offset", "length"):
        tensor.external_data.add(key=key, value=pick(["0", "-1", "9" * 30, "x", ""], rng))
    return f"constant {tensor.name} in the file {short(where)}"


def _words(model: Any, rng: np.random.Generator) -> str:
    text = pick(NASTY_TEXTS, rng).encode("utf-8", "replace").decode()
    kind = int(rng.integers(5))
    if kind == 0:
        pick([*model.graph.input, *model.graph.output], rng).name = text
    elif kind == 1:
        model.opset_import[0].version = int(pick([0, -1, 1, 99, 2**62], rng))
    elif kind == 2:
        model.ir_version = int(pick([0, -1, 99, 2**62], rng))
    elif kind == 3:
        model.graph.node[-1].output[0] = text
    else:
        model.graph.name = model.producer_name = text
    return f"words {kind}: {short(text)}"


if __name__ == "__main__":
    image_set()
    networks()
    main("ONNX files", run, modules=ONNX_MODULES, cases=500, about="Mutated ONNX networks.")
