"""Draws the README's picture: two tables of a finished study, as the terminal shows them.

python docs/draw_readme_picture.py results/t2i_portraits docs/images/t2i_portraits.svg
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pandas as pd
from rich.console import Console

from detector_bench.tables import filtering_and_accuracy, model_bias_scores, to_rich


def main(result: Path, picture: Path) -> None:
    """Render the tables of `result/metrics.parquet` as SVG."""
    metrics = pd.read_parquet(result / "metrics.parquet")
    console = Console(record=True, width=84, file=io.StringIO(), force_terminal=True)
    console.print(to_rich(filtering_and_accuracy(metrics)))
    console.print()
    console.print(to_rich(model_bias_scores(metrics)))
    picture.write_text(console.export_svg(title="detector-bench run configs/t2i_portraits.yaml"), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
