"""Do the labels of a calibration round bend what is estimated from a sample?

    python benchmarks/audit_calibration.py [--worlds NAME ...] [--calibration N] [--labels N] [--draws N]

Draws a calibration of images that detectors differ on (`evaluation.label_sample`), then a sample of the others,
from image sets of known labels (`audit_worlds.py`), and estimates in three ways. The calibration's labels count
for their own images alone (`estimation.images_set_apart`, as `estimate` does). They count as if they were drawn
like the sample. They are left out, and the sample is taken to speak for all images. The truth is that of all.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
import pandas as pd
from audit_coverage import scores_of
from audit_populations import Floats, WorldImages
from audit_worlds import WORLDS, world_named
from measuring import machine
from numpy.typing import NDArray

from detector_bench.estimation import UNLABELLED, PartlyLabelled, estimate
from detector_bench.estimation.images_set_apart import labels_that_count
from detector_bench.estimation.sampling import NO_CELL, draw, opinions
from detector_bench.metrics import Scopes
from detector_bench.metrics.image_counts import LABEL_SHARE
from detector_bench.sample_design import SampleDesign

WORLDS_ASKED = ("Lyu 2025, 8 detectors", "portraits, 5 detectors, 50 images", "filters follow the prompt")
WAYS = ("set apart", "as if drawn", "left out")
SCORES = ("share of low quality", "mean_prompt_bias_score", "model_bias_score")
_ROUNDING = 1e-9


class Task(NamedTuple):
    """Some draws of one world."""

    world: str
    calibration: int
    labels: int
    draws: range


def drawn(task: Task) -> pd.DataFrame:
    """Errors of the estimates of each draw, and whether intervals held the truth."""
    images = world_named(task.world).draw(0)
    truth = _truth(images)
    rows = []
    for number in task.draws:
        for way, given in _labelled(images, task, seed=number).items():
            for use_detectors in (True, False):
                found = estimate(given, use_detectors=use_detectors, seed=number).scopes
                for score in SCORES:
                    name = f"{LABEL_SHARE}{images.classes}" if score == SCORES[0] else score
                    if name not in found:
                        continue
                    value, low, high = (part[1:, 0] for part in found[name][:3])
                    held = (low <= truth[score] + _ROUNDING) & (truth[score] <= high + _ROUNDING)
                    who = "with detectors" if use_detectors else "labels alone"
                    error = value - truth[score]
                    rows.append((score, who, way, error.mean(), (error**2).mean(), held.mean()))
    return pd.DataFrame(rows, columns=["score", "estimator", "way", "error", "squared_error", "held"])


def _truth(images: WorldImages) -> dict[str, Floats]:
    counts = images.counts.astype(np.float64)
    sizes = counts.sum(axis=1)
    found = dict(scores_of(counts / np.maximum(sizes, 1)[:, np.newaxis], sizes, t2i_models=images.t2i_models))
    of_model = counts.reshape(images.t2i_models, -1, counts.shape[1]).sum(axis=1)
    return found | {SCORES[0]: of_model[:, images.classes] / of_model.sum(axis=1)}


def _labelled(images: WorldImages, task: Task, *, seed: int) -> dict[str, PartlyLabelled]:
    """The labels of one draw, by the way in which those of the calibration count."""
    shape = (images.t2i_models, images.prompts)
    cells = images.t2i_models * images.prompts
    said = opinions(images.verdicts, classes=images.classes)
    design = SampleDesign.DISAGREEMENT
    first = draw(images.cell, shape=shape, labels=task.calibration, seed=seed, design=design, said=said)
    apart = np.zeros(len(images.cell), dtype=np.bool_)
    apart[first.images] = True
    others = np.where(apart, NO_CELL, images.cell)
    second = draw(others, shape=shape, labels=task.labels * cells, seed=seed)
    in_sample = np.zeros_like(apart)
    in_sample[second.images] = True
    no_one = np.zeros_like(apart)
    return {
        "set apart": _given(images, labels_that_count(apart | in_sample, apart, images.cell, cells=cells), apart),
        "as if drawn": _given(images, apart | in_sample, no_one),
        "left out": _given(images, in_sample, no_one),
    }


def _given(images: WorldImages, labelled: NDArray[np.bool_], certain: NDArray[np.bool_]) -> PartlyLabelled:
    """As `evaluation.labels_of_sample` lays labels out."""
    cells = images.t2i_models * images.prompts
    certain = labelled & certain
    number = np.bincount(images.cell[~certain], minlength=cells)
    labels = np.bincount(images.cell[labelled & ~certain], minlength=cells)
    chance = np.where(certain, 1.0, (labels / np.maximum(number, 1))[images.cell])
    return PartlyLabelled(
        truth=np.where(labelled, images.truth, UNLABELLED),
        verdicts=images.verdicts,
        cell=images.cell,
        t2i_models=images.t2i_models,
        scopes=Scopes.of_prompts(["all of them"] * images.prompts),
        classes=images.classes,
        probability=np.where(labelled, chance, np.nan),
        cell_probability=np.ones(cells),
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=[world.name for world in WORLDS], default=WORLDS_ASKED)
    parser.add_argument("--calibration", type=int, default=150, help="images, over all T2I models and prompts")
    parser.add_argument("--labels", type=int, default=5, help="of the sample, per prompt of each T2I model")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print(machine(), f"\n{options.draws} draws, calibration {options.calibration}, {options.labels} per prompt\n")
    print("| world | score | estimator | calibration's labels | bias | its error | rmse | held, % |")
    print("|---|---|---|---|---:|---:|---:|---:|")
    with ProcessPoolExecutor(options.processes) as pool:
        for world in options.worlds:
            parts = [range(first, options.draws, options.processes) for first in range(options.processes)]
            tasks = [Task(world, options.calibration, options.labels, part) for part in parts]
            every = pd.concat(pool.map(drawn, tasks))
            for (score, who, way), of in every.groupby(["score", "estimator", "way"], sort=False):
                doubt = of["error"].std() / np.sqrt(len(of))
                print(
                    f"| {world} | {score} | {who} | {way} | {of['error'].mean():+.4f} | {doubt:.4f} "
                    f"| {of['squared_error'].mean() ** 0.5:.4f} | {100 * of['held'].mean():.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
