"""Three jobs as a good engineer would write them for one purpose: no cache, no tables, no errors, all cores busy.

Each prints its verdicts as JSON, by image id. The bar for `strong_loops.py`, which starts them.

    python benchmarks/loops_by_hand.py faces IMAGE_SET WEIGHTS THREADS
    python benchmarks/loops_by_hand.py clip IMAGE_SET CHECKPOINT THREADS
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

Verdict = dict[str, str]


def paths_of(image_set: Path) -> dict[str, Path]:
    """Where each image lies."""
    with (image_set / "images.csv").open(encoding="utf-8") as file:
        return {row["image_id"]: image_set / row["path"] for row in csv.DictReader(file)}


def open_network(path: Path) -> Any:
    """An onnxruntime session that computes with one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class FaceFinder:
    """The largest face that YuNet finds."""

    def __init__(self, path: Path) -> None:
        self._session = open_network(path)

    def largest(self, bgr: Any) -> tuple[float, float, float, float] | None:
        """Left, top, width and height of the box."""
        import cv2

        height, width = (side + -side % 32 for side in bgr.shape[:2])
        values = np.zeros((1, 3, height, width), np.float32)
        values[0, :, : bgr.shape[0], : bgr.shape[1]] = bgr.transpose(2, 0, 1)
        names = [each.name for each in self._session.get_outputs()]
        found = dict(zip(names, self._session.run(names, {"input": values}), strict=True))
        boxes, scores = [], []
        for step in (8, 16, 32):
            score = np.sqrt(found[f"cls_{step}"][0, :, 0].clip(0, 1) * found[f"obj_{step}"][0, :, 0].clip(0, 1))
            sure = np.flatnonzero(score >= 0.7)
            if len(sure) == 0:
                continue
            rows, columns = np.divmod(sure, width // step)
            x, y, w, h = found[f"bbox_{step}"][0, sure].T
            w, h = np.exp(w) * step, np.exp(h) * step
            boxes += np.stack([(columns + x) * step - w / 2, (rows + y) * step - h / 2, w, h], axis=1).tolist()
            scores += score[sure].tolist()
        if not boxes:
            return None
        kept = cv2.dnn.NMSBoxes([[int(side) for side in box] for box in boxes], scores, 0.7, 0.3)
        left, top, w, h = max((boxes[number] for number in kept), key=lambda box: box[2] * box[3])
        return left, top, w, h


def crop_around(bgr: Any, box: tuple[float, float, float, float], margin: float) -> Any:
    """The box, made larger about its centre and cut off at the border."""
    left, top, width, height = box
    x, y, width, height = left + width / 2, top + height / 2, width * margin, height * margin
    rows = slice(max(round(y - height / 2), 0), round(y + height / 2))
    return np.ascontiguousarray(bgr[rows, max(round(x - width / 2), 0) : round(x + width / 2)])


def judge_faces(weights: Path, names: Sequence[str]) -> Callable[[Path], Verdict]:
    """A function that judges the largest face of an image by one network, or by several that share the face."""
    import cv2

    cv2.setNumThreads(1)
    finder = FaceFinder(weights / "yunet.onnx")
    known = {
        "faceres": ("faceres.onnx", ["gender_pred_Sigmoid_0", "age_pred_Softmax_0"], 224, 1.2, True),
        "ssrnet": ("ssrnet_gender_imdb.onnx", ["Identity"], 64, 1.6, False),
    }
    networks = {name: (open_network(weights / known[name][0]), *known[name][1:]) for name in names}

    def judge(path: Path) -> Verdict:
        bgr = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR)
        box = finder.largest(bgr)
        if box is None:
            return dict.fromkeys(networks, "filtered")
        verdict = {}
        for name, (session, outputs, side, margin, rgb) in networks.items():
            crop = cv2.resize(crop_around(bgr, box, margin), (side, side))
            values = (crop[..., ::-1] if rgb else crop)[None].astype(np.float32)
            number = session.run(outputs, {session.get_inputs()[0].name: values})[0].reshape(-1)[0]
            verdict[name] = "male" if number > 0.5 else "female"
        return verdict

    return judge


def clip_by_hand(paths: Sequence[Path], checkpoint: Path, prompts: dict[str, str], threads: int) -> list[Verdict]:
    """CLIP with a prompt for each class, four images in each call, a thread for each core."""
    import torch
    from PIL import Image
    from transformers import (
        CLIPImageProcessorPil,
        CLIPTextModelWithProjection,
        CLIPTokenizer,
        CLIPVisionModelWithProjection,
    )

    processor = CLIPImageProcessorPil.from_pretrained(checkpoint)
    with torch.inference_mode():
        tokens = CLIPTokenizer.from_pretrained(checkpoint)(
            list(prompts.values()), padding=True, return_tensors="pt"
        )
        text = CLIPTextModelWithProjection.from_pretrained(checkpoint)(**tokens).text_embeds
    text = text / text.norm(dim=1, keepdim=True)
    vision = CLIPVisionModelWithProjection.from_pretrained(checkpoint).eval()

    def judge(group: Sequence[Path]) -> list[Verdict]:
        images = [Image.open(path).convert("RGB") for path in group]
        with torch.inference_mode():
            embedded = vision(**processor(images, return_tensors="pt")).image_embeds
            best = ((embedded / embedded.norm(dim=1, keepdim=True)) @ text.T).argmax(dim=1)
        return [{"clip": list(prompts)[number]} for number in best]

    groups = [paths[start : start + 4] for start in range(0, len(paths), 4)]
    with ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(1)) as pool:
        return [verdict for part in pool.map(judge, groups) for verdict in part]


def main() -> None:
    """Do one job."""
    job, image_set, weights, threads = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    paths = paths_of(image_set)
    if job == "clip":
        verdicts = clip_by_hand(list(paths.values()), weights, json.loads(sys.argv[5]), threads)
    else:
        judge = judge_faces(weights, job.split(","))
        with ThreadPoolExecutor(threads) as pool:
            verdicts = list(pool.map(judge, paths.values()))
    print(json.dumps(dict(zip(paths, verdicts, strict=True))))


if __name__ == "__main__":
    main()
