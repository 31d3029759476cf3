"""How often does a sentence about T2I models say that refusals could have made it, where they have?

    python benchmarks/refusals.py [--draws N] [--worlds NAME ...]

In each world three T2I models are asked for the same images: 40 prompts of 20, or 12 of 20. What they would show
is known, and the first one refuses some of it. Three sentences are followed: that the first one is biased towards
a class, that its prompts are not all balanced, and that it and the second one are told apart. For each the table
has three shares of studies: said; said with the note that it could be an effect of what was refused; and the
opposite note, that refusals could hide it, where it was not said.

Where a sentence is wrong of what was asked for (columns of fair worlds), said without the note is to happen in at
most 5 % of studies. Where nothing was refused no note may stand anywhere: the script stops if one does.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from measuring import machine
from numpy.typing import NDArray

from detector_bench.estimation import UNLABELLED, PartlyLabelled
from detector_bench.estimation.refusal_effects import refusal_effects
from detector_bench.estimation.t2i_model_tests import t2i_model_tests
from detector_bench.metrics import Scopes

T2I_MODELS, REQUESTS = 3, 20
LEVEL = 0.95
DETECTOR_IS_RIGHT = 0.9
MEAN, SCORE = "mean_prompt_bias_score", "model_bias_score"


@dataclass(frozen=True)
class World:
    """What the T2I models would show, and what the first of them refuses."""

    name: str
    refuses_first: float = 0.0
    """The chance that a request is refused whose image would show the first class."""
    refuses_second: float = 0.0
    first_share: float = 0.5
    """Of the first T2I model's requests; the others are balanced."""
    prompts: int = 40
    labels: int = REQUESTS
    """Per prompt; fewer than all: with one detector, which is right on 90 %."""
    lean: float = 0.0
    """Half of the prompts lean towards the first class by so much, in all T2I models, and half towards the
    second."""

    @property
    def is_fair(self) -> bool:
        """Whether every sentence is wrong of what was asked for; leaning prompts are not balanced."""
        return self.first_share == 0.5 and not self.lean

    def draw(self, seed: int) -> tuple[PartlyLabelled, NDArray[np.int64]]:
        """The images that were made, and the refused requests, `[t2i_model, prompt]`."""
        random = np.random.default_rng(seed)
        share = np.full((T2I_MODELS, self.prompts, 1), 0.5)
        share[0] = self.first_share
        share += np.where(np.arange(self.prompts) % 2 == 0, self.lean, -self.lean)[:, np.newaxis]
        shown = (random.random((T2I_MODELS, self.prompts, REQUESTS)) >= share).astype(np.int64)
        gone = random.random(shown.shape) < np.where(shown == 0, self.refuses_first, self.refuses_second)
        gone[1:] = False
        cells = np.broadcast_to(np.arange(T2I_MODELS * self.prompts).reshape(T2I_MODELS, -1, 1), shown.shape)
        truth, cell = shown[~gone], cells[~gone]
        right = random.random(len(truth)) < DETECTOR_IS_RIGHT
        verdicts = np.where(right, truth, 1 - truth).astype(np.int8)[np.newaxis]
        if self.labels < REQUESTS:
            # The images of a prompt in random order, of which the first get labels.
            order = np.lexsort((random.random(len(cell)), cell))
            starts = np.searchsorted(cell[order], cell[order], side="left")
            truth[order[np.arange(len(cell)) - starts >= self.labels]] = UNLABELLED
        scopes = Scopes.of_prompts(["all"] * self.prompts)
        images = PartlyLabelled.drawn_evenly(
            truth, verdicts, cell, t2i_models=T2I_MODELS, scopes=scopes, classes=2
        )
        return images, gone.sum(axis=2)


WORLDS = (
    World("fair, nothing refused"),
    World("fair, nothing refused, 5 labels per prompt", labels=5),
    World("fair, refuses 10 % whatever it shows", 0.1, 0.1),
    World("fair, refuses 40 % whatever it shows", 0.4, 0.4),
    World("fair, refuses 5 % of the second class", 0.0, 0.05),
    World("fair, refuses 10 % of the second class", 0.0, 0.1),
    World("fair, refuses 30 % of the second class", 0.0, 0.3),
    World("fair, refuses 60 % of the second class", 0.0, 0.6),
    World("fair, refuses all of the second class", 0.0, 1.0),
    World("fair, refuses 30 %, 12 prompts", 0.0, 0.3, prompts=12),
    World("fair, refuses 30 %, 5 labels per prompt", 0.0, 0.3, labels=5),
    World("fair, refuses 60 %, 5 labels per prompt", 0.0, 0.6, labels=5),
    World("prompts lean both ways, refuses 30 %", 0.0, 0.3, lean=0.3),
    World("80 % first class, refuses 10 % whatever it shows", 0.1, 0.1, first_share=0.8),
    World("80 % first class, refuses 40 % whatever it shows", 0.4, 0.4, first_share=0.8),
    World("60 % first class, refuses a third of it", 1 / 3, 0.0, first_share=0.6),
    World("60 % first class, the same, 5 labels per prompt", 1 / 3, 0.0, first_share=0.6, labels=5),
)


def measured(world: World, *, draws: int) -> NDArray[np.float64]:
    """`[sentence, (said, said with the note, could be hidden)]`: shares of studies; and the share refused."""
    found = np.zeros((draws, 3, 3), dtype=bool)
    for draw in range(draws):
        images, refused = world.draw(draw)
        tests = t2i_model_tests(images, confidence=LEVEL, seed=draw)
        effects = refusal_effects(images, refused, tests, confidence=LEVEL, seed=draw)
        if not refused.any() and any(each is not None for family in effects for each in family):
            raise SystemExit(f"{world.name}, study {draw}: a note without a refusal")
        biases = {
            each.metric: (each, note)
            for each, note in zip(tests.biases, effects[0], strict=True)
            if each.t2i_models == (0,)
        }
        apart = [
            (each, note)
            for each, note in zip(tests.differences, effects[1], strict=True)
            if each.t2i_models == (0, 1)
        ]
        for place, sentences in enumerate(([biases[MEAN]], [biases[SCORE]], apart)):
            said = [(each, note) for each, note in sentences if each.beyond_chance(LEVEL)]
            # Two scores may tell a pair apart: what bears the note is the pair whose every such sentence does.
            noted = bool(said) and all(note is not None and note.could_explain for _, note in said)
            hidden = not said and any(note is not None and note.could_hide for _, note in sentences)
            found[draw, place] = bool(said), noted, hidden
    shares: NDArray[np.float64] = found.mean(axis=0)
    return shares


def main() -> None:
    """Draw, test, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="studies of each world")
    parser.add_argument("--worlds", nargs="*", help="by default all")
    options = parser.parse_args()
    chosen = [each for each in WORLDS if not options.worlds or each.name in options.worlds]
    if not chosen:
        parser.error(f"no such world; there are: {'; '.join(each.name for each in WORLDS)}")
    print(
        f"{machine()}\n{options.draws} studies each, tests at {LEVEL:g}; per cent of studies: said, with the note,"
    )
    print("could be hidden\n")
    print(
        "| world | biased towards a class | prompts not all balanced | told apart | wrong without the note | s |"
    )
    print("|---|---|---|---|---|---:|")
    for world in chosen:
        began = time.perf_counter()
        shares = 100 * measured(world, draws=options.draws)
        cells = [", ".join(f"{share:.1f}" for share in row) for row in shares]
        cells.append(", ".join(f"{said - noted:.1f}" for said, noted, _ in shares) if world.is_fair else "-")
        cells.append(f"{time.perf_counter() - began:.0f}")
        print(f"| {world.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
