"""Draws one figure: how far every detector misses every bias score.

python paper_figures/figure_score_deviations.py RESULT_DIR OUT_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

from detector_bench.figures import FinishedStudy, write_figures

if __name__ == "__main__":
    result, out = (Path(argument) for argument in sys.argv[1:3])
    write_figures(FinishedStudy.load(result), out, names=["score_deviations"])
