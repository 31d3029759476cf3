"""Do promised errors hold? Simulated studies whose truth is known, and the portraits over splits.

    python benchmarks/promised_errors.py [--studies N] [--portraits]

Simulated: prompts drawn from a population, 20 images each; a verdict is wrong with its prompt's own probability,
and wrong verdicts have lower scores, or, where the world says so, scores that say nothing. A study's labels give
the threshold that promises an error with 95 % confidence. Broken: studies whose threshold keeps verdicts of which
more are wrong, in the population (other prompts) or among endlessly many images of the study's own prompts. To
reach: at most 5 % of studies, of unit prompt in the first of these columns, of unit image in the second.

`--portraits`: half of the portraits' prompts, or half of their images, give the threshold, the other half tells
how many of the kept verdicts are wrong; 200 splits. What is seen there is noisy: half of them are 170 images.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from measuring import REPOSITORY, machine, shared_folder
from numpy.typing import NDArray
from scipy.stats import norm

from detector_bench.estimation.calibration import JudgedScores
from detector_bench.estimation.promises import Unit, promises
from detector_bench.evaluation.judged_scores import ScoredImages
from detector_bench.study import Study

FloatArray = NDArray[np.float64]

IMAGES = 20
CONFIDENCE = 0.95
SPREAD = 1.5
"""Standard deviation of the logits of scores."""
UNITS: tuple[Unit, ...] = ("prompt", "image")


class World(NamedTuple):
    """A population of prompts.

    Attributes:
        name: for the table.
        wrong: the share of wrong verdicts.
        likeness: of a prompt's verdicts: 0: each is wrong by itself; 1: all are wrong, or none.
        right_logit, wrong_logit: mean logits of the scores of right and of wrong verdicts.
    """

    name: str
    wrong: float
    likeness: float
    right_logit: float = 4.0
    wrong_logit: float = 1.5

    def wrong_by_prompt(self, prompts: int, random: np.random.Generator) -> FloatArray:
        """The probability that a verdict on an image of the prompt is wrong, for each drawn prompt."""
        if self.likeness in (0, 1):
            drawn = np.full(prompts, self.wrong) if self.likeness == 0 else random.random(prompts) < self.wrong
            return np.asarray(drawn, np.float64)
        strength = 1 / self.likeness - 1
        return random.beta(self.wrong * strength, (1 - self.wrong) * strength, prompts)

    def study(self, by_prompt: FloatArray, random: np.random.Generator) -> JudgedScores:
        """The labelled images of a study with these prompts."""
        prompt = np.repeat(np.arange(len(by_prompt)), IMAGES)
        right = random.random(len(prompt)) >= by_prompt[prompt]
        logits = random.normal(np.where(right, self.right_logit, self.wrong_logit), SPREAD)
        # A softmax over two classes is never below one half.
        return JudgedScores(1 / (1 + np.exp(-np.abs(logits))), right, prompt)

    def error_at(self, threshold: float, wrong: float) -> float:
        """The share of wrong verdicts among those that a threshold keeps, where so many are wrong in all."""
        at = np.log(max(threshold, 0.5) / (1 - max(threshold, 0.5)))
        kept = [
            norm.sf(at, mean, SPREAD) + norm.cdf(-at, mean, SPREAD)
            for mean in (self.right_logit, self.wrong_logit)
        ]
        return float(wrong * kept[1] / (wrong * kept[1] + (1 - wrong) * kept[0]))


WORLDS = (
    World("informative scores, prompts alike", 0.08, 0.0),
    World("informative scores, likeness 0.1", 0.08, 0.1),
    World("informative scores, likeness 0.5", 0.08, 0.5),
    World("accurate, likeness 0.1", 0.02, 0.1),
    # Whatever is promised is broken: the error is just above it at every threshold.
    World("no promise is true, prompts alike", 0.101, 0.0, 3.0, 3.0),
    World("no promise is true, likeness 0.1", 0.101, 0.1, 3.0, 3.0),
    World("no promise is true, likeness 0.5", 0.101, 0.5, 3.0, 3.0),
    World("no promise is true, whole prompts wrong", 0.101, 1.0, 3.0, 3.0),
)


def simulate(world: World, *, prompts: int, error: float, studies: int) -> None:
    """Print one row for each unit."""
    random = np.random.default_rng([prompts, round(1000 * error), WORLDS.index(world)])
    drawn = [world.wrong_by_prompt(prompts, random) for _ in range(studies)]
    samples = [world.study(each, random) for each in drawn]
    for unit in UNITS:
        found = [promises(each, unit=unit, confidence=CONFIDENCE, errors=(error,))[0] for each in samples]
        promised = [(each, own) for each, own in zip(found, drawn, strict=True) if each.threshold is not None]
        others = sum(world.error_at(each.threshold or 0, world.wrong) > error for each, _ in promised)
        same = sum(world.error_at(each.threshold or 0, float(own.mean())) > error for each, own in promised)
        kept = np.mean([each.kept for each, _ in promised]) if promised else np.nan
        print(
            f"{world.name:40}{prompts:8}{100 * error:7.0f} %  {unit:8}{100 * len(promised) / studies:9.1f}"
            f"{100 * kept:8.1f}{100 * others / studies:15.1f}{100 * same / studies:15.1f}"
        )


def fewest_prompts() -> None:
    """Print how many prompts promise an error where not one verdict is wrong, and all have a score of 0.995."""
    print("\nfewest prompts without any wrong verdict, and fewest images (unit: image)")
    for error in (0.01, 0.02, 0.05, 0.1, 0.2):
        row = []
        for unit in UNITS:
            count = next(n for n in range(1, 2000) if _promised(n, unit, error))
            row.append(f"{count:6}")
        print(f"{100 * error:5.0f} %{''.join(row)}")


def _promised(count: int, unit: Unit, error: float) -> bool:
    sure = JudgedScores(np.full(count, 0.995), np.ones(count, dtype=np.bool_), np.arange(count))
    return promises(sure, unit=unit, confidence=CONFIDENCE, errors=(error,))[0].threshold is not None


def portrait_scores() -> Iterator[tuple[str, JudgedScores]]:
    """The scores of three detectors of gender on the portraits."""
    shared = shared_folder()
    with tempfile.TemporaryDirectory() as folder:
        detectors = [
            {
                "name": name,
                "extends": str(REPOSITORY / "configs" / "detectors" / f"{name}.yaml"),
                "crop": {"boxes": "yunet_faces"},
            }
            for name in ("faceres", "gear", "ssrnet")
        ]
        study = {
            "image_set": str(shared / "data" / "t2i_portraits"),
            "detectors": detectors,
            "attributes": ["gender"],
        }
        file = Path(folder) / "study.yaml"
        file.write_text(yaml.safe_dump(study))
        results = Study.from_yaml(file).run(
            Path(folder) / "out", weights_dir=shared / "weights", cache_dir=Path(folder) / "cache"
        )
        stored = results.reader.predictions(("reason", "score"))
        for name, table in stored.items():
            yield name, ScoredImages.of(results.image_set, table, detector=name, attribute="gender").verdicts


def split(verdicts: JudgedScores, by: str, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which images give the threshold: those of half of the prompts, or half of each prompt's."""
    if by == "prompts":
        prompts = verdicts.prompts
        return np.isin(verdicts.prompt, random.permutation(prompts)[: len(prompts) // 2])
    order = np.lexsort((random.random(len(verdicts)), verdicts.prompt))
    chosen = np.zeros(len(verdicts), dtype=np.bool_)
    chosen[order[random.integers(2) :: 2]] = True
    return chosen


def portraits(splits: int = 200) -> None:
    """Print how many of the kept verdicts are wrong in the half that gave no threshold."""
    print(f"\nportraits, {splits} splits, unit: image")
    print(f"{'detector':12}{'split by':10}{'error':>8}{'promised':>10}{'kept':>8}{'wrong':>8}{'above':>8}")
    for name, verdicts in portrait_scores():
        for by in ("images", "prompts"):
            for error in (0.05, 0.1, 0.2):
                random = np.random.default_rng(0)
                seen = []
                for _ in range(splits):
                    fit = split(verdicts, by, random)
                    [promise] = promises(verdicts.of(fit), unit="image", confidence=CONFIDENCE, errors=(error,))
                    if promise.threshold is not None:
                        other = verdicts.of(~fit)
                        kept = other.scores >= promise.threshold
                        seen.append((kept.mean(), (~other.right[kept]).mean()))
                kept, wrong = np.mean(seen, axis=0) if seen else (np.nan, np.nan)
                above = np.mean([each[1] > error for each in seen]) if seen else np.nan
                print(
                    f"{name:12}{by:10}{100 * error:6.0f} %{100 * len(seen) / splits:10.1f}{100 * kept:8.1f}"
                    f"{100 * wrong:8.2f}{100 * above:8.1f}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000, help="of each world and number of prompts")
    parser.add_argument("--portraits", action="store_true", help="the portraits in place of simulated studies")
    asked = parser.parse_args()
    print(machine())
    if asked.portraits:
        portraits()
        return
    print(f"{asked.studies} studies each, {IMAGES} images per prompt; all numbers in per cent")
    head = f"{'world':40}{'prompts':>8}{'error':>9}  {'unit':8}{'promised':>9}{'kept':>8}"
    print(f"{head}{'other prompts':>15}{'own prompts':>15}")
    for world in WORLDS:
        for prompts in (30, 100, 300):
            simulate(world, prompts=prompts, error=0.1 if world.wrong > 0.02 else 0.05, studies=asked.studies)
    fewest_prompts()


if __name__ == "__main__":
    main()
