"""Draws one figure: distribution of prompt bias scores (Lyu 2025, figure 3).

python paper_figures/figure_prompt_bias_histogram.py RESULT_DIR OUT_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

from detector_bench.figures import FinishedStudy, write_figures

if __name__ == "__main__":
    result, out = (Path(argument) for argument in sys.argv[1:3])
    write_figures(FinishedStudy.load(result), out, names=["prompt_bias_histogram"])
