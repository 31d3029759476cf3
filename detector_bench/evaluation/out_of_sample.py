"""What a threshold chosen on these prompts would do on prompts that did not choose it.

The best of many thresholds looks better than it is: its luck with these prompts was a reason to choose it. So the
prompts are dealt out into parts (`prompt_folds`), the threshold is chosen on all parts but one, and its result
counted on the one that is left, for each part in turn, and all of it again with other parts.

- **A metric with a best end** (F1, a mean of distances): held-out images of all parts are counted together, as one
  study in which each prompt is judged with the threshold that other prompts chose. Mean over the repetitions.
- **A signed metric that is best at 0** (a deviation): that count would flatter. A threshold that brings the other
  parts to 0 leaves the held-out part about as far on the other side, so that signs even out over the parts,
  whatever the threshold is worth (docs/uncertainty.md shows by how much). What is asked is how far from 0 other
  prompts end up. Their mean square is the squared mean of the chosen threshold over all prompts that there could
  be, plus the chance of as many new prompts as there are here. Both are estimated from the held-out prompts: the
  square of a part's mean, less what chance adds to it, and the variance of prompts within categories. Values of
  single prompts are the jackknife's: `N value - (N - 1) value without the prompt`, at each threshold.

Both are for prompts from the same categories as these. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from detector_bench.evaluation.sweeps import Sweep
from detector_bench.evaluation.threshold_chooser import ThresholdChooser
from detector_bench.metrics import METRICS, NClear
from detector_bench.metrics.intervals import standard_error_interval, stretched
from detector_bench.vocabulary import ALL

REPEATS = 20
"""How often the prompts are dealt out anew: the mean then moves by a tenth of its standard error from seed to
seed."""

RESAMPLES = 200
"""How many resamples of the prompts are drawn; enough for a standard deviation."""

FEWEST_PROMPTS = 4
"""Two to choose on and two to judge on."""

CHOICE_COLUMNS = (
    "detector",
    "attribute",
    "t2i_model",
    "chosen_by",
    "n_clear",
    "threshold",
    "value",
    "other_prompts",
    "ci_low",
    "ci_high",
    "unchosen",
    "prompts",
    "lowest_chosen",
    "highest_chosen",
    "reason",
)
"""One row per metric to choose by. `threshold` and `value`: the best on these prompts. `other_prompts`: what a
threshold so chosen gives on others (for a signed metric the root of its mean square), from `prompts` prompts, with
its interval; `unchosen`: what the lowest threshold gives there, which nobody chose; `lowest_chosen` and
`highest_chosen`: between them lie 90 % of the choices; `reason`: why there is no number, or no interval."""


class ThresholdChoice(NamedTuple):
    """What choosing by one metric gives, here and on other prompts."""

    threshold: float = np.nan
    value: float = np.nan
    other_prompts: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    unchosen: float = np.nan
    prompts: int = 0
    lowest_chosen: float = np.nan
    highest_chosen: float = np.nan
    reason: str = ""


def threshold_choices(
    sweep: Sweep,
    *,
    n_clear: NClear = "detector",
    chosen_by: Sequence[str] | None = None,
    t2i_models: Sequence[str] | None = None,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> pd.DataFrame:
    """Choose a threshold by each metric, and judge the choice on prompts that took no part in it.

    Only thresholds above `Sweep.known_above` compete; of equally good ones the lowest is chosen, which keeps most
    images. The interval of `other_prompts` is for other prompts of the same categories: prompts are drawn with
    replacement within their category, and everything is chosen and judged anew in each resample, a prompt that was
    drawn twice staying in one part. It is the value plus and minus Student's t times the standard deviation of the
    resamples. There is none for signed metrics: the root of a mean square is itself how far off to expect.

    Args:
        sweep: a detector's counts at every threshold.
        n_clear: denominator of its prompt bias scores.
        chosen_by: names of metrics, out of those that declare `chooses`; None: all of these.
        t2i_models: which ones to choose for, "all" for all together; None: all together, and each.
        seed: of the random numbers.
        level: of the interval.
        resamples: how many; 0: no interval.

    Returns:
        Columns as in `CHOICE_COLUMNS`.
    """
    rows = []
    for model in t2i_models or (ALL, *sweep.t2i_models):
        for metric in METRICS.swept_for(sweep.attribute):
            if not metric.chooses or (chosen_by is not None and metric.name not in chosen_by):
                continue
            chooser = ThresholdChooser.of_sweep(sweep, metric, n_clear=n_clear, t2i_model=model)
            choice = _choice(chooser, np.random.default_rng(seed), level=level, resamples=resamples)
            about = (sweep.detector, sweep.attribute.name, model, metric.name)
            rows.append((*about, n_clear if metric.depends_on_n_clear else "", *choice))
    return pd.DataFrame(rows, columns=list(CHOICE_COLUMNS))


def _choice(
    chooser: ThresholdChooser, random: np.random.Generator, *, level: float, resamples: int
) -> ThresholdChoice:
    """The best threshold here, and what others like it give on other prompts."""
    here = _best_here(chooser)
    if here.reason:
        return here
    fold = chooser.dealt(repeats=REPEATS, random=random)
    chosen = chooser.chosen(fold)
    value = np.sqrt(chooser.mean_square(fold, chosen)) if chooser.signed else chooser.held_out(fold, chosen)
    if np.isnan(value):
        return here._replace(reason=_why_not(chooser))
    low, high = np.quantile(chooser.thresholds[chosen[chosen >= 0]], [0.05, 0.95], method="nearest")
    judged = here._replace(
        other_prompts=float(value),
        unchosen=_unchosen(chooser),
        lowest_chosen=float(low),
        highest_chosen=float(high),
    )
    if chooser.signed:
        return judged._replace(reason="a root mean square has no interval: it is itself how far off to expect")
    return _with_interval(judged, chooser, random, level=level, resamples=resamples)


def _best_here(chooser: ThresholdChooser) -> ThresholdChoice:
    """The best threshold on these prompts; with a reason where it cannot be judged on others."""
    here = ThresholdChoice(prompts=chooser.prompts)
    if chooser.thresholds.size == 0:
        return here._replace(reason="at no threshold does the sweep know what a run would keep")
    values = chooser.values(np.ones((1, chooser.prompts)))[0]
    best = int(chooser.best(values))
    if best < 0:
        return here._replace(reason="undefined at every threshold")
    here = here._replace(threshold=float(chooser.thresholds[best]), value=float(values[best]))
    if chooser.prompts < FEWEST_PROMPTS:
        few = "1 prompt" if chooser.prompts == 1 else f"{chooser.prompts} prompts"
        here = here._replace(reason=f"{few}, where two to choose on and two to judge on are needed")
    return here


def _unchosen(chooser: ThresholdChooser) -> float:
    """What the lowest threshold gives on other prompts; of a metric without a sign that is what it gives here."""
    if not chooser.signed:
        return float(chooser.values(np.ones((1, chooser.prompts)))[0, 0])
    all_in_one, lowest = np.zeros((1, chooser.prompts), dtype=np.intp), np.zeros((1, 1), dtype=np.intp)
    return float(np.sqrt(chooser.mean_square(all_in_one, lowest)))


def _why_not(chooser: ThresholdChooser) -> str:
    if chooser.signed and _categories(chooser) == chooser.prompts:
        return "every category has a single prompt, so nothing shows how prompts of one category differ"
    return "undefined on most of the prompts held out"


def _categories(chooser: ThresholdChooser) -> int:
    return len(np.unique(chooser.category_of_prompt))


def _with_interval(
    judged: ThresholdChoice,
    chooser: ThresholdChooser,
    random: np.random.Generator,
    *,
    level: float,
    resamples: int,
) -> ThresholdChoice:
    categories = _categories(chooser)
    if resamples == 0:
        return judged
    if categories == chooser.prompts:
        return judged._replace(reason="no interval: every category has a single prompt")
    value = np.array(judged.other_prompts)
    interval = standard_error_interval(chooser.resampled(random, resamples=resamples), value, level=level)
    # Within a category of n prompts the bootstrap's variance is (n - 1) / n of what it should be.
    factor = np.sqrt(np.array(chooser.prompts / (chooser.prompts - categories)))
    limits = [float(limit) for limit in stretched(interval, value, factor=factor)]
    if np.isnan(limits).any():
        return judged._replace(reason="no interval: all resamples agree, or most are undefined")
    low, high = np.clip(limits, chooser.metric.lowest, chooser.metric.highest)
    return judged._replace(ci_low=float(low), ci_high=float(high))
