"""Small made-up studies as `JointVerdicts`, and the plain way of resampling them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics import JointVerdicts, Scopes


def made_up(
    *,
    t2i_models: int = 2,
    prompts: int = 4,
    images: int = 8,
    detectors: int = 2,
    classes: int = 2,
    errors: float = 0.0,
    right: float = 0.8,
    seed: int = 0,
) -> JointVerdicts:
    """Truth and verdicts at random; every prompt has another mix of classes, and up to `images` images."""
    random = np.random.default_rng(seed)
    pair = np.repeat(np.arange(t2i_models * prompts), images)
    pair = pair[random.random(pair.size) < 0.9]
    share = random.dirichlet(np.ones(classes), size=t2i_models * prompts)[pair]
    truth = (random.random(pair.size)[:, np.newaxis] > share.cumsum(axis=1)).sum(axis=1).clip(0, classes - 1)
    truth = np.where(random.random(pair.size) < 0.25, classes, truth)
    truth = np.where(random.random(pair.size) < 0.05, classes + 1, truth)
    verdicts = np.stack(
        [
            np.where(
                random.random(pair.size) < right,
                np.minimum(truth, classes),
                random.integers(0, classes + 1, pair.size),
            )
            for _ in range(detectors)
        ]
    )
    verdicts = np.where(random.random(verdicts.shape) < errors, classes + 1, verdicts)
    shuffled = random.permutation(pair.size)
    return JointVerdicts(
        truth[shuffled].astype(np.int8),
        verdicts[:, shuffled].astype(np.int8),
        pair[shuffled],
        t2i_models,
        Scopes.of_prompts([f"category {number % 2}" for number in range(prompts)]),
        classes,
    )


def of_images(truth: list[int], verdicts: list[list[int]], pair: list[int], *, prompts: int = 1) -> JointVerdicts:
    """A study of one T2I model, image by image."""
    return JointVerdicts(
        np.array(truth, dtype=np.int8),
        np.array(verdicts, dtype=np.int8).reshape(len(verdicts), len(truth)),
        np.array(pair, dtype=np.intp),
        1,
        Scopes.of_prompts(["all of them"] * prompts),
        2,
    )


def plainly_drawn(joint: JointVerdicts, random: np.random.Generator) -> NDArray[np.float64]:
    """How often each image is drawn, when as many as there are are drawn within every prompt: `[image]`."""
    weights = np.zeros(joint.images)
    for pair in np.unique(joint.pair):
        images = np.flatnonzero(joint.pair == pair)
        np.add.at(weights, random.choice(images, size=images.size), 1.0)
    return weights
