"""What 16 bits do to CLIP's speed, and to a real network's decisions.

Speed: CLIP ViT-L/14's sizes with random weights, from decoded pixels to embeddings, in float32 and in 16 bits. The
figure to reach, where the CPU computes with bfloat16: 1.7 times as fast.

Decisions: random weights decide nothing, and no real CLIP is here. FaceRes, a real network for gender, stands in,
computed operation by operation on the faces that YuNet finds in the portraits: once in float32, once with operands
and results of all products rounded to 16 bits, as CLIP runs on such hardware. The figure to reach: the
same gender on 99.5 % of them.

    python benchmarks/clip_precision.py --images 8
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import yaml
from clip_sharing import save_large_clip
from measuring import REPOSITORY, machine, pairs, shared_folder, spread
from numpy.typing import NDArray
from onnx import numpy_helper
from PIL import Image

from detector_bench.perception.boxes import Crop
from detector_bench.perception.clip.stages import TransformersClip
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.networks.onnx_networks import OnnxInput, open_session
from detector_bench.perception.stage import Frame
from detector_bench.perception.torch_settings import chosen_device, chosen_precision
from detector_bench.weights import WeightsLocator

GENDER = "gender_pred_Sigmoid_0"


def images(count: int) -> list[NDArray[np.uint8]]:
    """The first portraits, decoded."""
    paths = sorted((shared_folder() / "data" / "t2i_portraits" / "images").iterdir())[:count]
    return [np.asarray(Image.open(path).convert("RGB")) for path in paths]


def seconds_per_image(encode: Callable[..., Any], pixels: list[NDArray[np.uint8]]) -> float:
    """Seconds from decoded pixels to an embedding on the CPU."""
    began = time.perf_counter()
    encode(pixels)
    return (time.perf_counter() - began) / len(pixels)


def compare_speed(pixels: list[NDArray[np.uint8]], *, short: Any, rounds: int) -> None:
    """Print how long float32 and 16 bits take."""
    with tempfile.TemporaryDirectory() as folder:
        save_large_clip(Path(folder) / "clip")
        encoders = [
            TransformersClip(checkpoint=str(Path(folder) / "clip"), precision=precision).image_encoder(
                WeightsLocator()
            )
            for precision in ("float32", str(short).removeprefix("torch."))
        ]
        for encode in encoders:
            encode(pixels[:1])
        full, half, ratios = pairs(*(lambda e=e: seconds_per_image(e, pixels) for e in encoders), rounds=rounds)
    print(f"CLIP ViT-L/14, {len(pixels)} images at once, {rounds} rounds")
    print(f"float32, s per image:          {spread(full)}")
    print(f"{short}, s per image:   {spread(half)}")
    print(f"float32 / {short}:      {spread(ratios)}   (to reach where the hardware has 16 bits: 1.7)")


def faces(pixels: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """FaceRes' input for the largest face of each image that has one, (faces, 224, 224, 3)."""
    settings = yaml.safe_load((REPOSITORY / "configs" / "detectors" / "faceres.yaml").read_text())
    stage = YuNetFaces()
    crop = Crop(boxes=stage, margin=settings["crop"]["margin"])
    find = stage.load(WeightsLocator(folders=(shared_folder() / "weights",)))
    frames = [Frame(str(number), pixels=each) for number, each in enumerate(pixels)]
    for frame, found in zip(frames, find(frames), strict=True):
        frame.results[stage] = found
    cut = [crop.cut(frame) for frame in frames]
    return OnnxInput(**settings["input"]).prepare([each for each in cut if each is not None])


def same_padding(values: Any, kernel: tuple[int, int], strides: list[int]) -> Any:
    """Pad (images, channels, height, width) as ONNX's SAME_UPPER does: the odd pixel goes right and below."""
    padding: list[int] = []
    for size, width, stride in zip(values.shape[:1:-1], kernel[::-1], strides[::-1], strict=True):
        missing = max((-(-size // stride) - 1) * stride + width - size, 0)
        padding += [missing // 2, missing - missing // 2]
    return torch.nn.functional.pad(values, padding)


def convolution(values: Any, filters: Any, *, strides: list[int], group: int, **_: Any) -> Any:
    """ONNX's Conv without a bias, as FaceRes has it."""
    padded = same_padding(values, tuple(filters.shape[2:]), strides)
    return torch.nn.functional.conv2d(padded, filters, stride=strides, groups=group)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "Transpose": lambda values, perm: values.permute(perm),
    "Conv": convolution,
    "Add": torch.add,
    "Mul": torch.mul,
    "Min": torch.minimum,
    "Max": torch.maximum,
    "MatMul": torch.matmul,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Softmax": lambda values, axis: values.softmax(axis),
    "ReduceMean": lambda values, axes, keepdims: values.mean(tuple(axes.int().tolist()), keepdim=bool(keepdims)),
    "Identity": lambda values: values,
}


def genders(network: onnx.ModelProto, values: NDArray[np.float32], *, dtype: Any) -> NDArray[np.float32]:
    """The probability of male by FaceRes, with products in a number format and all else in float32.

    That is how CLIP runs (`torch_settings.shorten_products`): operands and results of convolutions and matrix
    products are rounded.
    """

    def rounded(tensor: Any) -> Any:
        return tensor.to(dtype).float()

    known = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in network.graph.initializer}
    known[network.graph.input[0].name] = torch.from_numpy(values)
    for node in network.graph.node:
        settings = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        operands = [known[name] for name in node.input]
        operation = OPERATIONS[node.op_type]
        if node.op_type in ("Conv", "MatMul"):
            known[node.output[0]] = rounded(operation(*map(rounded, operands), **settings))
        else:
            known[node.output[0]] = operation(*operands, **settings)
    return np.asarray(known[GENDER].numpy().reshape(-1))


def compare_decisions(pixels: list[NDArray[np.uint8]], *, short: Any) -> None:
    """Print on how many faces the gender is the same."""
    path = shared_folder() / "weights" / "faceres.onnx"
    network, session = onnx.load(path), open_session(path)
    found: dict[str, list[NDArray[np.float32]]] = {"runtime": [], "float32": [], "short": []}
    inputs = faces(pixels)
    with torch.inference_mode():
        for start in range(0, len(inputs), 32):
            batch = inputs[start : start + 32]
            found["runtime"].append(session.run([GENDER], {network.graph.input[0].name: batch})[0].reshape(-1))
            found["float32"].append(genders(network, batch, dtype=torch.float32))
            found["short"].append(genders(network, batch, dtype=short))
    male = {name: np.concatenate(parts) for name, parts in found.items()}
    drift = np.abs(male["runtime"] - male["float32"]).max()
    assert drift < 1e-2, f"the graph is computed wrongly: it differs from onnxruntime's by {drift}"
    equal = (male["float32"] > 0.5) == (male["short"] > 0.5)
    print(
        f"FaceRes on {len(equal)} faces: the same gender in float32 and {short} on {equal.sum()} of them, "
        f"{equal.mean():.2%}   (to reach: 99.5 %)"
    )
    print(
        f"largest difference of a probability: {np.abs(male['float32'] - male['short']).max():.4f}; "
        f"median {np.median(np.abs(male['float32'] - male['short'])):.4f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=8, help="for the speed")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--portraits", type=int, default=384, help="for the decisions")
    parser.add_argument("--skip-speed", action="store_true")
    arguments = parser.parse_args()
    device = chosen_device(torch, "auto")
    automatic = chosen_precision(torch, "auto", device=device)
    short = torch.bfloat16 if automatic == torch.float32 else automatic
    print(machine())
    if automatic == torch.float32:
        print(f"this {device.upper()} has no bfloat16 units: `precision: auto` takes float32 here")
    if not arguments.skip_speed:
        compare_speed(images(arguments.images), short=short, rounds=arguments.rounds)
    compare_decisions(images(arguments.portraits), short=short)


if __name__ == "__main__":
    main()
