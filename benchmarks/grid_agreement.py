"""How often does the desk conclude that a grid changes agreement, where it does not, and where it does?

    python benchmarks/grid_agreement.py [STUDIES]

Simulated studies: 300 pictures, of which chance puts 80 % into a grid; two or three annotators who err each alone.
Without an effect both ways have 10 % of random labels; with one, labels out of the grid have 3 %.
"""

from __future__ import annotations

import sys

import numpy as np

from detector_bench.labelling.ways import LEVEL, permutation_p

PICTURES = 300
IN_GRID = 0.8


def share_found(people: int, *, in_grid_error: float, studies: int, seed: int) -> float:
    """The share of studies in which a difference is concluded."""
    random = np.random.default_rng(seed)
    found = 0
    for study in range(studies):
        truth = random.choice(3, PICTURES, p=[0.6, 0.3, 0.1])
        in_grid = random.random(PICTURES) < IN_GRID
        wrong = random.random((people, PICTURES)) < np.where(in_grid, in_grid_error, 0.10)
        codes = np.where(wrong, random.integers(0, 3, (people, PICTURES)), truth)
        found += permutation_p(codes, in_grid, labels=3, seed=study) < LEVEL
    return found / studies


def main() -> None:
    """Print a line for each number of annotators."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for people in (2, 3):
        none = share_found(people, in_grid_error=0.10, studies=studies, seed=people)
        some = share_found(people, in_grid_error=0.03, studies=studies, seed=people + 10)
        print(f"{people} annotators, {studies:,} studies: {none:.1%} without an effect, {some:.1%} with one")


if __name__ == "__main__":
    main()
