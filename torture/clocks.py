"""A clock that jumps, forwards and backwards, while images change: does a cache say anything that is not true?

    python -m torture.clocks --cases 40 --seed 1

A file that was written a moment ago may be written again within the same tick of the clock, with the same size.
The cache of contents has a rule for that. Here files are overwritten with pictures of another colour (same size in
bytes), their times are set to the past, to now and to the future, and a run follows at once; its verdicts must be
those of a run without any cache.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from torture.cases import Case, WrongAnswerError, expect, main
from torture.small_studies import MODULES, image_set

STEPS = 3


def run(case: Case) -> None:
    """Runs that follow each other, images that change between them, and a clock that nobody can rely on."""
    from pyarrow import parquet
    from small_parts import image_name

    shutil.copytree(image_set(), "set")
    Path("study.yaml").write_text("image_set: set\ndetectors: [test-colour]\n")
    images = [Path("set/images") / f"{image_name(number)}.png" for number in range(12)]
    pictures = [path.read_bytes().ljust(2_000, b"\0") for path in images]
    for step in range(STEPS):
        for path in images:
            if step == 0 or case.rng.random() < 0.4:
                path.write_bytes(pictures[int(case.rng.integers(len(pictures)))])
            jump = float(case.rng.choice([0.0, 0.0, -1e-3, -1.0, -3600.0, -1e8, 3600.0, 1e9]))
            at = time.time() + jump
            os.utime(path, (at, at))
        case.note(f"step {step}")
        expect(case.command("run", "study.yaml", "--out", "out", "--cache-dir", "cache", "--changed-inputs"), 1)
        fresh = f"fresh-{step}"
        expect(case.command("run", "study.yaml", "--out", fresh, "--no-cache"), 1)
        found, true = (
            {
                row["image_id"]: (row["status"], row["label"])
                for file in Path(out, "predictions/test-colour").glob("*.parquet")
                for row in parquet.read_table(file).to_pylist()
            }
            for out in ("out", fresh)
        )
        if wrong := [image for image in true if found.get(image) != true[image]]:
            raise WrongAnswerError(
                f"step {step}: {len(wrong)} of {len(true)} verdicts are of earlier pictures: {wrong}"
            )


if __name__ == "__main__":
    image_set()
    main("clocks", run, modules=MODULES, cases=40, about="Images that change under a clock that jumps.")
