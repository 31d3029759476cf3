"""How often does asking for a class seem to change whom else a T2I model shows, when it changes nobody?

    python benchmarks/bigbench_side_effects.py --studies 400

A study has prompts that ask for nobody, each with 9 more that ask for a gender, race or age group. The T2I model
shows whom it is asked for, and of the other attributes exactly the people that it shows unasked; prompts lean to
one gender, race and age group as real ones do. To reach: at most 5 % of studies with any finding, of a prompt or a
mean, by the human labels, and by eight detectors with errors that depend on nothing. Beside it, what breaks
the promise: images that share a scene, and a detector that errs more on one race; how many effects of 10 and 30
points are found, and how often the mean shift's 95 % interval holds it.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import Scopes
from detector_bench.others.bigbench.names import FALSE_DISCOVERY_RATE
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.bigbench.side_effects import mean_shift
from detector_bench.others.judgements import NO_CELL, Judgements
from detector_bench.vocabulary import ATTRIBUTES

CLASSES = {
    "gender": ("male", "female"),
    "race": ("white", "black", "east_asian", "south_asian"),
    "age": ("young", "middle_aged", "elderly"),
}
ASKED = [(name, each) for name, classes in CLASSES.items() for each in range(len(classes))]
DETECTORS, ACCURACY = 8, 0.9
SETTINGS = BigBench(references="equal")


def study(
    prompts: int,
    images: int,
    rng: np.random.Generator,
    *,
    models: int = 2,
    detectors: int = 0,
    scenes: int = 0,
    errs_on: float = 0.0,
    shift: float = 0.0,
) -> Judgements:
    """Labels of a study.

    Args:
        scenes: of each prompt; images of one share a leaning. 0: every image has its own.
        errs_on: part of the East Asian people whom a detector calls women, whoever they are.
        shift: by how much asking for somebody Black moves the share of men.
    """
    rows = [
        (model, base, *asked) for model in range(models) for base in range(prompts) for asked in [("", 0), *ASKED]
    ]
    leaning = {
        name: rng.dirichlet(np.full(len(classes), 0.6), size=(models, prompts))
        for name, classes in CLASSES.items()
    }
    said: dict[str, list[np.ndarray]] = {name: [] for name in CLASSES}
    for model, base, asked, wanted in rows:
        for name, classes in CLASSES.items():
            shares = leaning[name][model, base]
            if name == "gender" and asked == "race" and CLASSES["race"][wanted] == "black" and shift:
                men = np.clip(shares[0] + shift, 0, 1)
                shares = np.array([men, 1 - men])
            if name == asked:
                shown = np.full(images, wanted)
            elif scenes:
                each = rng.dirichlet(4 * shares + 1e-6, size=scenes)
                shown = np.array([rng.choice(len(classes), p=each[image % scenes]) for image in range(images)])
            else:
                shown = rng.choice(len(classes), size=images, p=shares)
            said[name].append(shown)
    truth = {name: np.concatenate(each) for name, each in said.items()}
    judges = 1 + max(detectors, int(errs_on > 0))
    labels = {name: np.repeat(each[np.newaxis], judges, axis=0) for name, each in truth.items()}
    for name, classes in CLASSES.items():
        wrong = rng.random(labels[name].shape) > ACCURACY
        wrong[0] = False
        labels[name][wrong] = rng.integers(len(classes), size=int(wrong.sum()))
        if errs_on and name == "gender":
            called = (rng.random(wrong.shape) < errs_on) & (truth["race"] == CLASSES["race"].index("east_asian"))
            called[0] = False
            labels[name][called] = classes.index("female")
    codes = {
        name: np.array([ATTRIBUTES[name].classes.index(each) for each in classes], dtype=np.int8)[labels[name]]
        for name, classes in CLASSES.items()
    }
    kinds = [("", 0), *ASKED]
    ids = [f"p{base}_{kind}" for base in range(prompts) for kind in range(len(kinds))]
    prompt = np.repeat(
        [base * len(kinds) + kinds.index((asked, wanted)) for _, base, asked, wanted in rows], images
    )
    stated = {
        f"stated_{name}": [CLASSES[name][wanted] if asked == name else "" for asked, wanted in kinds] * prompts
        for name in CLASSES
    }
    bases = [f"p{base}_0" if kind else "" for base in range(prompts) for kind in range(len(kinds))]
    total = len(prompt)
    return Judgements(
        image_ids=tuple(map(str, range(total))),
        t2i_models=tuple(f"m{model}" for model in range(models)),
        prompt_ids=tuple(ids),
        scopes=Scopes.of_prompts(["all prompts"] * len(ids)),
        t2i_model=np.repeat([model for model, *_ in rows], images),
        prompt=prompt,
        seed=np.full(total, NO_CELL),
        judges=("ground_truth", *(f"d{number}" for number in range(judges - 1))),
        judged=dict.fromkeys(CLASSES, (True,) * judges),
        labels=codes,
        values={name: np.full((judges, total), np.nan) for name in CLASSES},
        prompts=pd.DataFrame({"prompt_id": ids, "base_prompt_id": bases, **stated}),
    )


def findings(judgements: Judgements) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is said of prompts, and of means."""
    files = SETTINGS.files(judgements, Intervals(method="none"))
    prompts, means = files.values()
    return prompts[prompts["p_value"] <= FALSE_DISCOVERY_RATE], means[means["p_value"] <= FALSE_DISCOVERY_RATE]


def null(studies: int, rng: np.random.Generator) -> None:
    print("studies with any finding, %, asking having no effect: of a prompt / of a mean / of any")
    for prompts, images in ((1, 20), (3, 8), (12, 8), (12, 30), (60, 8)):
        for detectors in (0, DETECTORS):
            said = []
            for _ in range(studies // (4 if detectors else 1)):
                of_prompts, of_means = findings(study(prompts, images, rng, detectors=detectors))
                judges = set(of_prompts["detector"]) | set(of_means["detector"])
                judge = judges - {"ground_truth"} if detectors else judges & {"ground_truth"}
                parts = [each["detector"].isin(judge).any() for each in (of_prompts, of_means)]
                said.append([*parts, any(parts)])
            who = "eight detectors" if detectors else "human labels"
            rates = " / ".join(f"{100 * each:.1f}" for each in np.mean(said, axis=0))
            size = f"{prompts:2} prompts x 10 x {images:2} images, 2 T2I models"
            print(f"  {size}, {len(said)} studies, {who}: {rates}", flush=True)


def broken(studies: int, rng: np.random.Generator) -> None:
    print("what the tests do not know, 12 prompts: studies with a finding, %, of a prompt / of a mean")
    for what, options, judge in (
        ("8 scenes of 4 images each", {"images": 32, "scenes": 8}, "ground_truth"),
        ("32 scenes of 1 image each", {"images": 32, "scenes": 32}, "ground_truth"),
        ("a detector that calls 20 % of East Asian people women", {"images": 30, "errs_on": 0.2}, "d0"),
        ("the human labels of the same studies", {"images": 30, "errs_on": 0.2}, "ground_truth"),
    ):
        said = []
        for _ in range(studies // 4):
            found = findings(study(12, rng=rng, **options))
            said.append([(each["detector"] == judge).any() for each in found])
        of_prompts, of_means = 100 * np.mean(said, axis=0)
        print(f"  {what}, {len(said)} studies: {of_prompts:.1f} / {of_means:.1f}", flush=True)


def power(studies: int, rng: np.random.Generator) -> None:
    print("effects of asking for somebody Black on the share of men, 12 prompts, 2 T2I models: found, %")
    for shift in (0.1, 0.3):
        for images in (8, 30):
            of_means, of_prompts, others = [], [], []
            for _ in range(studies // 8):
                prompts, means = findings(study(12, images, rng, shift=shift))
                is_true = (means["asked"] == "black") & (means["attribute"] == "gender")
                of_means.append((is_true & (means["t2i_model"] == "all")).any())
                true_prompts = (prompts["asked"] == "black") & (prompts["attribute"] == "gender")
                of_prompts.append(true_prompts.sum() / 2 / 24)
                others.append((~is_true).any() | (~true_prompts).any())
            print(
                f"  {100 * shift:.0f} points, {images} images: mean {100 * np.mean(of_means):.0f}, "
                f"prompts {100 * np.mean(of_prompts):.0f}; with another finding {100 * np.mean(others):.0f}",
                flush=True,
            )


def coverage(rng: np.random.Generator, repeats: int = 4000) -> None:
    print("how often the mean shift's 95 % interval holds it, %")
    for prompts, images in ((1, 20), (3, 8), (12, 8), (12, 30), (60, 8)):
        held = []
        for moved in (0.0, 0.2):
            men = rng.beta(0.6, 0.6, size=(repeats, prompts))
            asked = np.clip(men + moved, 0, 1)
            base_men, asked_men = rng.binomial(images, men), rng.binomial(images, asked)
            counts = [np.stack([each, images - each], axis=-1) for each in (asked_men, base_men)]
            found = mean_shift(*counts, np.ones(prompts))
            actual = (asked - men).mean(axis=-1)
            held.append(100 * np.mean((found.ci_low[:, 0] <= actual) & (actual <= found.ci_high[:, 0])))
        rates = f"{held[0]:.1f} without an effect, {held[1]:.1f} with 20 points"
        print(f"  {prompts:2} prompts x {images:2} images: {rates}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    coverage(rng)
    null(options.studies, rng)
    broken(options.studies, rng)
    power(options.studies, rng)


if __name__ == "__main__":
    main()
