"""Are our means those of `ppi-python`, the program of prediction-powered inference's authors?

    python -m venv ~/ppi && ~/ppi/bin/pip install ppi-python
    python benchmarks/ppi_oracle.py --ppi-python ~/ppi/bin/python

`ppi-python` brings numba, statsmodels and much else, so it lies in an environment of its own and is no dependency.
It knows neither prompts nor several detectors. What both can estimate is one detector's verdicts as they are, from
200 labels of 2,000 images without strata. Compared are means with a given slope and with the best one: of one
outcome, of three at once with one slope, and with a slope for each; and, with a given slope, from labels of
unequal probability.

Its predictions are those of images without a label, ours those of all N. With n labels its slope is ours times
(N - n) / N (Angelopoulos, Duchi and Zrnic 2023, PPI++; arXiv 2311.01453), and lies in [0, 1].
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from audit_populations import Floats
from audit_worlds import world_named
from measuring import machine

from detector_bench.estimation import PartlyLabelled
from detector_bench.estimation.working_model import cell_moments
from detector_bench.metrics import Scopes

FIGURE_TO_REACH = 1e-9
ORACLE = """
import sys
import numpy as np
from ppi_py import ppi_mean_pointestimate
given = np.load(sys.argv[1])
settings = {}
if "slope" in given:
    settings["lam"] = float(given["slope"])
else:
    settings["lam_optim_mode"] = str(given["mode"])
weights = given["weights"] if "weights" in given else None
found = ppi_mean_pointestimate(given["outcome"], given["predicted"], given["rest"], w=weights, **settings)
np.save(sys.argv[2], np.atleast_1d(found))
"""


@dataclass(frozen=True, eq=False)
class Case:
    """What both estimate."""

    name: str
    outcome: Floats
    """`[label, outcome]`: 1 where the human label is the outcome's class."""
    predicted: Floats
    """`[label, outcome]`: 1 where the detector's verdict is that class."""
    rest: Floats
    """`[image, outcome]`: the same verdicts on images without a label; if labels have weights, on all images."""
    slope: float | None = None
    """As `ppi-python` has it; None: the best."""
    each_its_own: bool = False
    """Whether each outcome has a slope of its own."""
    weights: Floats | None = None
    """`[label]`: 1 / probability; None: all the same."""


def cases() -> list[Case]:
    """From a world with errors as published of FairFace."""
    images = world_named("Lyu 2025, FairFace").draw(0)
    first = images.cell < images.prompts
    truth, verdicts = (np.eye(4)[each[first]] for each in (images.truth, images.verdicts[0]))
    random = np.random.default_rng(0)
    labelled = np.zeros(len(truth), dtype=bool)
    labelled[random.choice(len(truth), 200, replace=False)] = True
    y, f, rest = truth[labelled], verdicts[labelled], verdicts[~labelled]
    chance = np.where(verdicts[:, 0] == 1, 0.05, 0.3)
    drawn = random.random(len(truth)) < chance
    one = y[:, :1], f[:, :1], rest[:, :1]
    backwards = 1 - f[:, :1], 1 - rest[:, :1]
    return [
        *(Case(f"one outcome, slope {slope}", *one, slope) for slope in (0.0, 0.5, 1.0)),
        Case("one outcome", *one),
        Case("one outcome, the detector says the opposite", y[:, :1], *backwards),
        Case("one outcome, most images labelled", truth[200:, :1], verdicts[200:, :1], verdicts[:200, :1]),
        Case("three outcomes, one slope", y[:, :3], f[:, :3], rest[:, :3]),
        Case("three outcomes, a slope each", y[:, :3], f[:, :3], rest[:, :3], each_its_own=True),
        Case(
            "unequal probabilities, slope 0.8", truth[drawn, :3], verdicts[drawn, :3], verdicts[:, :3],
            0.8, weights=1 / chance[drawn],
        ),
    ]  # fmt: skip


def our_means(case: Case) -> Floats:
    """Our estimate, `[outcome]`, of one cell and one detector, with the slope of PPI++."""
    predicted_all = case.rest if case.weights is not None else np.concatenate([case.predicted, case.rest])
    images, labels = len(predicted_all), len(case.outcome)
    scale = 1.0 if case.weights is not None else images / (images - labels)
    slope = (
        tuned_slope(case, predicted_all, highest=scale) if case.slope is None else np.asarray(case.slope * scale)
    )
    # Of weighted labels the images stand twice: ours are all N, the labelled ones among them, and theirs apart.
    weighted = case.weights is not None
    kinds = case.outcome.shape[1]
    classes = max(kinds - 1, 2)
    rows = np.concatenate([case.predicted, predicted_all if weighted else case.rest])
    verdicts = np.where(rows.any(axis=1), rows.argmax(axis=1), classes + 1)
    truth = np.full(len(rows), -1)
    truth[:labels] = np.where(case.outcome.any(axis=1), case.outcome.argmax(axis=1), classes + 1)
    chance = np.full(len(rows), np.nan)
    chance[:labels] = labels / images if case.weights is None else 1 / case.weights
    coefficients = np.zeros((2 * (classes + 1), classes + 2))
    place = np.arange(kinds)
    coefficients[place, place] = slope
    cell = np.zeros(len(rows), dtype=np.int64)
    given = PartlyLabelled(
        truth,
        verdicts[np.newaxis].astype(np.int8),
        cell,
        1,
        Scopes.of_prompts(["one"]),
        classes,
        chance,
        np.ones(1),
    )
    found = cell_moments(given, coefficients=coefficients)
    share = found.share[0, :kinds]
    if weighted:  # our mean of predictions is over the labelled ones once more
        share = share + slope * (predicted_all.mean(axis=0) - rows.mean(axis=0))
    return np.asarray(share, dtype=np.float64)


def tuned_slope(case: Case, predicted_all: Floats, *, highest: float) -> Floats:
    """The slope of PPI++: covariance over the labelled images, variance over all, cut off at both ends."""
    centred = case.outcome - case.outcome.mean(axis=0)
    covariance = (centred * (case.predicted - case.predicted.mean(axis=0))).mean(axis=0)
    variance = predicted_all.var(axis=0, ddof=1)
    if not case.each_its_own:
        covariance, variance = covariance.sum(keepdims=True), variance.sum(keepdims=True)
    return np.clip(covariance / variance, 0, highest)


def their_means(case: Case, python: str) -> Floats:
    """The estimate of `ppi-python`, `[outcome]`."""
    given = {"outcome": case.outcome, "predicted": case.predicted, "rest": case.rest}
    if case.slope is not None:
        given["slope"] = np.array(case.slope)
    else:
        given["mode"] = np.array("element" if case.each_its_own else "overall")
    if case.weights is not None:
        given["weights"] = case.weights
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.npz", Path(folder) / "answered.npy"
        np.savez(asked, **given)
        done = subprocess.run([python, "-c", ORACLE, asked, answered], check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit(
                f"{python} cannot ask ppi-python: {done.stderr.strip().splitlines()[-1]}\n"
                "Make an environment for it: python -m venv ~/ppi && ~/ppi/bin/pip install ppi-python; "
                "then name its interpreter with --ppi-python ~/ppi/bin/python."
            )
        return np.asarray(np.load(answered), dtype=np.float64)


def main() -> None:
    """Ask both, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ppi-python", default=sys.executable, help="an interpreter that has ppi-python")
    options = parser.parse_args()
    print(f"{machine()}\n\n| what | ppi-python | ours | difference |\n|---|---|---|---:|")
    largest = 0.0
    for case in cases():
        theirs = their_means(case, options.ppi_python)
        ours = our_means(case)
        difference = float(np.abs(ours - theirs).max())
        largest = max(largest, difference)
        shown = (", ".join(f"{value:.12f}" for value in each) for each in (theirs, ours))
        print(f"| {case.name} | {' | '.join(shown)} | {difference:.1e} |")
    reached = "reached" if largest <= FIGURE_TO_REACH else "not reached"
    print(f"\nlargest difference {largest:.1e}; figure to reach {FIGURE_TO_REACH:g}: {reached}")
    sys.exit(largest > FIGURE_TO_REACH)


if __name__ == "__main__":
    main()
