"""How often does a study in which every T2I model shows exactly the reference get a verdict that a prompt differs?

    python benchmarks/representation_null.py --studies 2000

A study has gender, race and gender x race of 12 to 200 prompts with 5 to 50 clear images each, against equal
shares or against shares as rounded statistics state them (rare classes and a class of 0 included), by the human
labels alone, or by them and eight detectors with symmetric errors. To reach: at most 5 % of studies have any
prompt that is said to differ. Beside it: how many prompts are seen that show another share of men, when half of
the prompts do so.
"""

from __future__ import annotations

import argparse

import numpy as np

from detector_bench.metrics.representation import p_value
from detector_bench.others.representation.comparison import adjusted_p_values
from detector_bench.others.representation.names import FALSE_DISCOVERY_RATE

GENDERS, RACES, DETECTORS = 2, 7, 8
ACCURACY = 0.9
STATED_RACE = np.array([0.62, 0.12, 0.18, 0.05, 0.02, 0.01, 0.0])


def references(kind: str, prompts: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Shares of each prompt, `[prompt, class]`."""
    if kind == "equal":
        gender, race = (np.full((prompts, size), 1 / size) for size in (GENDERS, RACES))
    else:
        men = rng.integers(2, 99, size=prompts) / 100
        gender, race = np.stack([men, 1 - men], axis=1), np.tile(STATED_RACE, (prompts, 1))
    both = (gender[:, :, np.newaxis] * race[:, np.newaxis]).reshape(prompts, -1)
    return {"gender": gender, "race": race, "gender x race": both}


def verdicts(
    reference: dict[str, np.ndarray], both: np.ndarray, images: int, judges: int, rng: np.random.Generator
) -> np.ndarray:
    """Whether a prompt is said to differ, `[judge, comparison, prompt]`; images show the shares `both`."""
    shown = np.stack([rng.choice(both.shape[1], p=each, size=images) for each in both])
    gender, race = (np.repeat(each[np.newaxis], judges, axis=0) for each in np.divmod(shown, RACES))
    # Detectors, all but the first judge, answer at random in some images.
    for labels, size in ((gender, GENDERS), (race, RACES)):
        wrong = rng.random(labels.shape) > ACCURACY
        wrong[0] = False
        labels[wrong] = rng.integers(size, size=wrong.sum())
    of_judges = {"gender": gender, "race": race, "gender x race": gender * RACES + race}
    found = []
    for name, shares in reference.items():
        labels, classes = of_judges[name], shares.shape[1]
        counts = (labels[..., np.newaxis] == np.arange(classes)).sum(axis=-2)
        found.append(p_value(counts, shares)[:, np.newaxis])
    return np.concatenate(adjusted_p_values(found, has_truth=True), axis=1) <= FALSE_DISCOVERY_RATE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print("studies with any verdict, %, nothing being true")
    for kind in ("equal", "stated"):
        for prompts, images in ((12, 5), (12, 30), (100, 10), (100, 50), (200, 20)):
            judges = 1 + DETECTORS if kind == "equal" else 1
            studies = options.studies if judges == 1 else options.studies // 4
            said = np.zeros((studies, judges), dtype=bool)
            for study in range(studies):
                reference = references(kind, prompts, rng)
                said[study] = verdicts(reference, reference["gender x race"], images, judges, rng).any(axis=(1, 2))
            nine = f", or by any of nine judges {100 * said.any(axis=1).mean():.1f}" if judges > 1 else ""
            truth = f"{100 * said[:, 0].mean():.1f}"
            print(
                f"  {kind:6} {prompts:3} prompts x {images:2} images, {studies} studies: {truth}{nine}", flush=True
            )
    print("prompts seen of those that show another share of men, gender against equal shares, half of 100 prompts")
    for men in (0.7, 0.9):
        for images in (10, 20, 50):
            seen, wrong = [], []
            for _ in range(options.studies // 20):
                reference = references("equal", 100, rng)
                gender = np.full((100, 2), 0.5)
                gender[:50] = [men, 1 - men]
                both = (gender[:, :, np.newaxis] * reference["race"][:, np.newaxis]).reshape(100, -1)
                said = verdicts({"gender": reference["gender"]}, both, images, 1, rng)[0, 0]
                seen.append(said[:50].mean())
                wrong.append(said[50:].sum() / max(said.sum(), 1))
            rate = f"{100 * np.mean(seen):.0f} % seen, false {100 * np.mean(wrong):.1f} %"
            print(f"  {100 * men:.0f} % men, {images} images: {rate}", flush=True)


if __name__ == "__main__":
    main()
