"""Draws one figure from a finished study, as PDF and PNG in two widths, with its caption as a text file.

python paper_figures/draw.py NAME RESULT_DIR OUT_DIR

`--help` lists the names. All figures at once: `detector-bench figures RESULT_DIR`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from detector_bench import DetectorBenchError
from detector_bench.figures import FinishedStudy, known_figures, write_figures


def main() -> None:
    """Read the arguments and write the figure's files."""
    names = "\n".join(f"  {name:26}{shows}" for name, shows in known_figures().items())
    parser = argparse.ArgumentParser(
        description=f"Draw one figure of a finished study.\n\nNames:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="which figure")
    parser.add_argument("result", metavar="RESULT_DIR", type=Path, help="the study's result folder")
    parser.add_argument("out", metavar="OUT_DIR", type=Path, help="where to write; made if need be")
    asked = parser.parse_args()
    try:
        write_figures(FinishedStudy.load(asked.result), asked.out, names=[asked.name])
    except DetectorBenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
