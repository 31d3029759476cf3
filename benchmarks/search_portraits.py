"""On the portraits: does the expected error of a search hold on prompts that took no part in it?

    python benchmarks/search_portraits.py [--out DIR] [--splits N]

Half of the prompts are searched, as if there were no others; the winner is judged on the other half. Prints the
table of docs/search.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import get_args

import numpy as np
from measuring import REPOSITORY, machine, shared_folder

from detector_bench.evaluation.threshold_chooser import prompt_folds
from detector_bench.search.choosing import scatter
from detector_bench.search.compositions import Compositions
from detector_bench.search.prompt_sums import PromptSums, shown_error
from detector_bench.search.search import CompositionSearch
from detector_bench.search.settings import SearchedError, SearchSettings
from detector_bench.study import Study
from detector_bench.study_search import labelled_verdicts

HEADINGS = (
    "chosen by",
    "where chosen",
    "expected",
    "untouched prompts",
    "standard error",
    "difference in standard errors",
    "splits within one, %",
    '"beats the best single detector", %',
    "any composition, untouched prompts",
)


def main() -> None:
    """Search halves of the portraits, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="of a search of the portraits, by default a new one")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    study = Study.from_yaml(REPOSITORY / "configs" / "t2i_portraits.yaml")
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        out = arguments.out or Path(name)
        study.search(out, weights_dir=shared_folder() / "weights", settings=SearchSettings(repeats=1))
        compositions = Compositions.of(SearchSettings(), study.detectors, attribute="gender")
        verdicts = labelled_verdicts(study.load_image_set(), out, compositions)
    print(f"{len(compositions.listed)} compositions, {arguments.splits} splits of {verdicts.prompts} prompts\n")
    print("| " + " | ".join(HEADINGS) + " |")
    print("|---|" + "---:|" * (len(HEADINGS) - 1))
    halves = prompt_folds(
        verdicts.category_of_prompt, folds=2, repeats=arguments.splits, random=np.random.default_rng(0)
    )
    for by in get_args(SearchedError):
        settings = SearchSettings(choose_by=by, repeats=arguments.repeats)
        whole = CompositionSearch(settings, compositions, verdicts).sums
        rows = []
        for half in halves:
            search = CompositionSearch(settings, compositions, verdicts.on_prompts(np.flatnonzero(half == 0)))
            rows.append(one_split(search, whole, half))
        print(row(by, np.array(rows), is_squared=whole.is_squared), flush=True)


def one_split(search: CompositionSearch, whole: PromptSums, half: np.ndarray) -> tuple[float, ...]:
    """What the search of one half says, and what its winner does on the other."""
    chooser = search.chooser
    dealt = chooser.dealt()
    best, chosen = chooser.on_all_prompts(), chooser.chosen(dealt)
    single = chooser.chosen(dealt, among=np.array(search.compositions.singles()))
    expected = chooser.estimate(chosen.judged)
    (contest,) = chooser.contests(chosen.judged, [("single", single.judged, chooser.factor)])
    untouched = (half == 1).astype(np.float64)[np.newaxis]
    winner = whole.of(slice(best.choice, best.choice + 1))
    elsewhere = float(winner.errors(untouched)[0, 0])
    variance, _ = scatter(winner.influences(), np.zeros(whole.prompts, dtype=np.intp))
    error = float(np.sqrt(variance[0] * whole.prompts / untouched.sum()))
    beats = contest.p_value <= 0.05 and contest.difference.value < 0
    kept = whole.kept_shares(untouched)[:, 0] >= search.settings.least_kept
    anything = float(np.nanmean(whole.errors(untouched)[kept, 0]))
    # The doubt of both: of what is expected, and of what so few untouched prompts show.
    within = abs(expected.value - elsewhere) <= np.hypot(expected.error, error)
    return best.value, expected.value, elsewhere, error, within, beats, anything


def row(by: str, rows: np.ndarray, *, is_squared: bool) -> str:
    """One line of the table; of mean squares the roots of their means."""
    seems, expected, elsewhere, error, within, beats, anything = rows.T
    difference = (expected.mean() - elsewhere.mean()) / error.mean()
    shown = [float(shown_error(each.mean(), is_squared=is_squared)) for each in (seems, expected, elsewhere)]
    cells = [
        by.replace("_", " "),
        *(f"{each:.3f}" for each in shown),
        f"{error.mean():.4f}{' (of the mean square)' if is_squared else ''}",
        f"{difference:+.2f}",
        f"{100 * within.mean():.0f}",
        f"{100 * beats.mean():.0f}",
        f"{float(shown_error(anything.mean(), is_squared=is_squared)):.3f}",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
