"""Draws one figure: model bias score of each T2I model and category, by humans and detectors.

python paper_figures/figure_model_bias_scores.py RESULT_DIR OUT_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

from detector_bench.figures import FinishedStudy, write_figures

if __name__ == "__main__":
    result, out = (Path(argument) for argument in sys.argv[1:3])
    write_figures(FinishedStudy.load(result), out, names=["model_bias_scores"])
