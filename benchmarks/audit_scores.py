"""How good are estimates of other benchmarks' scores from few labels, and do their intervals hold the truth?

    python benchmarks/audit_scores.py [--worlds NAME ...] [--labels N ...] [--draws N] [--csv FILE]

An image set of `audit_worlds.py` stays, and the images to be labelled are drawn anew; the truth is what the
system says of the labels of all images. Several sets take turns. Prints, for each world and number of labels, how
often 95 % intervals hold the truth, how wide they are against those of labels alone, bias and rmse.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from audit_coverage import partly_labelled
from audit_populations import WorldImages
from audit_worlds import world_named
from measuring import machine

from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import Scopes
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.estimated_scores import estimated_scores
from detector_bench.others.imagebite.score_system import ImageBiTe
from detector_bench.others.judgements import NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.others.representation.score_system import Representation
from detector_bench.others.score_system import ScoreSystem
from detector_bench.vocabulary import ALL, GROUND_TRUTH, attribute_named

WORLDS = ("half fair, half one-sided", "Lyu 2025, 8 detectors", "7 classes")
LABELS = (5, 10)
PER_TASK = 10
PLACE = ["metric", "t2i_model", "prompt_id"]
ATTRIBUTES = {2: "gender", 7: "race"}
"""By number of classes."""
COMMUNITIES = {"gender": ("gender", ("man", "woman")), "race": ("race", ("white", "black", "indian"))}


def judgements_of(images: WorldImages) -> Judgements:
    """What everybody says of a world's images."""
    name = ATTRIBUTES[images.classes]
    codes = np.arange(images.classes)
    truth = np.array([*codes, UNJUDGED, OTHERS], dtype=np.int8)[images.truth]
    said = np.array([*codes, UNJUDGED, NO_VERDICT], dtype=np.int8)[images.verdicts]
    judges = (GROUND_TRUTH, *images.detectors)
    t2i_model, prompt = np.divmod(images.cell, images.prompts)
    labels = np.concatenate([truth[np.newaxis], said])
    prompts = tuple(f"prompt {number}" for number in range(images.prompts))
    return Judgements(
        image_ids=tuple(map(str, range(len(truth)))),
        t2i_models=tuple(f"model {number}" for number in range(images.t2i_models)),
        prompt_ids=prompts,
        scopes=Scopes.of_prompts(["all of them"] * images.prompts),
        t2i_model=t2i_model.astype(np.intp),
        prompt=prompt.astype(np.intp),
        seed=np.full(len(truth), -1, dtype=np.intp),
        judges=judges,
        judged={name: (True,) * len(judges)},
        labels={name: labels},
        values={name: np.full(labels.shape, np.nan)},
        prompts=pd.DataFrame({"prompt_id": prompts}),
    )


@lru_cache
def systems_of(classes: int) -> tuple[ScoreSystem, ...]:
    """The score systems with plain settings."""
    name = ATTRIBUTES[classes]
    concern, communities = COMMUNITIES[name]
    share = round(1 / len(communities), 3)
    stated = [{"sensitive_community": each, "expected_distribution": share, "delta": 0.15} for each in communities]
    requirement = {
        "name": "parity",
        "ethical_concern": concern,
        "stereotyping_threshold": 0.7,
        "expected_distributions": stated,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump({"requirements": [requirement]}, file)
    return (
        BigBench.model_validate({"system": "bigbench", "references": "equal", "attribute_weights": {name: 1}}),
        ImageBiTe.model_validate({"system": "imagebite", "requirements": Path(file.name)}),
        Representation.model_validate({"system": "representation", "shares_of": [name]}),
    )


def _of_ground_truth(rows: pd.DataFrame) -> pd.DataFrame:
    kept = (rows["category"] == ALL) & (rows["t2i_model"] != ALL) | (rows["prompt_id"] != ALL)
    name = rows["attribute"].isin(attribute_named(each).name for each in ATTRIBUTES.values())
    return rows[(rows["detector"] == GROUND_TRUTH) & kept & name]


@lru_cache(maxsize=8)
def _staying(world: str, number: int) -> tuple[WorldImages, Judgements, pd.Series]:
    images = world_named(world).draw(number)
    judgements = judgements_of(images)
    rows = pd.concat(
        [each.rows(judgements, Intervals(method="none", prompts=True)) for each in systems_of(images.classes)]
    )
    return images, judgements, _of_ground_truth(rows).set_index(PLACE)["value"]


def drawn(world: str, labels: float, draws: Sequence[int], image_sets: int) -> pd.DataFrame:
    """Draw labels, estimate, and put the truth beside it."""
    stream = zlib.crc32(f"{world}, {labels}".encode())
    found = []
    for draw in draws:
        images, judgements, truth = _staying(world, draw % image_sets)
        partly = partly_labelled(images, labels, np.random.default_rng([stream, draw]))
        name = ATTRIBUTES[images.classes]
        said = judgements.labels[name].copy()
        said[0, partly.truth < 0] = NO_VERDICT
        known = replace(judgements, labels={name: said})
        rows = _of_ground_truth(
            estimated_scores(systems_of(images.classes), known, Intervals(prompts=True), complete=True)
        )
        rows = rows.assign(truth=truth.loc[pd.MultiIndex.from_frame(rows[PLACE])].to_numpy(), draw=draw)
        rows["estimator"] = rows["variant"].str.rsplit(", ", n=1).str[-1]
        rows["score"] = rows["metric"] + np.where(rows["prompt_id"] == ALL, "", ", of prompts")
        found.append(rows[["score", "estimator", "value", "ci_low", "ci_high", "truth"]])
    return pd.concat(found)


def summarised(found: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Rows of the CSV: one for each score."""
    numbers = found[["value", "ci_low", "ci_high", "truth"]].astype(float).replace([np.inf, -np.inf], np.nan)
    found = pd.concat([found[["score", "estimator"]], numbers], axis=1)
    wide = {}
    for (score, estimator), each in found.groupby(["score", "estimator"], sort=False):
        there = each.dropna()
        error = there["value"] - there["truth"]
        held = (there["ci_low"] <= there["truth"] + 1e-12) & (there["truth"] <= there["ci_high"] + 1e-12)
        wide.setdefault(score, {})[estimator] = {
            "intervals": len(there) / len(each),
            "held": held.mean(),
            "half_width": (there["ci_high"] - there["ci_low"]).mean() / 2,
            "bias": error.mean(),
            "rmse": float((error**2).mean()) ** 0.5,
            "truth": there["truth"].mean(),
        }
    for score, by in wide.items():
        for estimator, numbers in by.items():
            alone = by.get("labels_only", numbers)["half_width"]
            yield {"score": score, "estimator": estimator, **numbers, "width_ratio": numbers["half_width"] / alone}


def main() -> None:
    """Draw, estimate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=WORLDS)
    parser.add_argument("--labels", nargs="+", type=float, default=LABELS, help="per prompt")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--image-sets", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    print(f"{machine()}\n{options.draws} draws each")
    kept: list[pd.DataFrame] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for world in options.worlds:
            for labels in options.labels:
                parts = [
                    range(start, min(start + PER_TASK, options.draws))
                    for start in range(0, options.draws, PER_TASK)
                ]
                tasks = [pool.submit(drawn, world, labels, part, options.image_sets) for part in parts]
                table = pd.DataFrame(summarised(pd.concat([task.result() for task in tasks])))
                kept.append(table.assign(world=world, labels_per_prompt=labels))
                print(
                    f"\n### {world}: {labels:g} labels per prompt\n\n{table.round(3).to_string(index=False)}",
                    flush=True,
                )
                if options.csv:
                    pd.concat(kept).to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
