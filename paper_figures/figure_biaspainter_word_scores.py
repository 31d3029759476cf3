"""Draws one figure: what each word does to the people in edited photos (BiasPainter, figure 4).

python paper_figures/figure_biaspainter_word_scores.py RESULT_DIR OUT_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

from detector_bench.figures import FinishedStudy, write_figures

if __name__ == "__main__":
    result, out = (Path(argument) for argument in sys.argv[1:3])
    write_figures(FinishedStudy.load(result), out, names=["biaspainter_word_scores"])
