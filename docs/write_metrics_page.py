"""Writes the tables of docs/metrics.md, which stand in the metric catalogue.

python docs/write_metrics_page.py docs/metrics.md
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

from detector_bench.metrics import METRICS, MetricInfo
from detector_bench.metrics.bias_catalogue import BIAS_METRICS
from detector_bench.metrics.catalogue import CLASS_METRICS, FILTER_METRICS, IMAGE_COUNTS

BEGIN = "<!-- From here on written by docs/write_metrics_page.py: change the catalogue, not the page. -->\n"
GROUPS = {
    "Images": IMAGE_COUNTS,
    "Filter": FILTER_METRICS,
    "Class and measured value": CLASS_METRICS,
    "Bias": BIAS_METRICS,
    **{
        f"[{name}]({name.casefold()}.md)": tuple(
            info for info in METRICS.values() if info.name.startswith(f"{name.casefold()}_")
        )
        for name in ("BiasPainter", "BIGbench", "ImageBiTe")
    },
}
HEADINGS = ("metric", "what it says", "definition", "range", "better", "n", "n_left_out", "interval", "source")


def page(text: str) -> str:
    """The page with fresh tables behind what was written by hand."""
    before, marker, _ = text.partition(BEGIN)
    return before + marker + "".join(f"\n## {title}\n\n{_table(group)}" for title, group in GROUPS.items())


def _table(group: Iterable[MetricInfo]) -> str:
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(_cells(info) for info in group)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(info: MetricInfo) -> list[str]:
    cells = [
        f"`{info.name}`",
        info.meaning,
        info.definition,
        _range(info),
        info.better,
        info.counted,
        info.left_out or "0",
        f"none: {info.no_interval}" if info.no_interval else "yes",
        info.source,
    ]
    return [cell.replace("|", "\\|") for cell in cells]


def _range(info: MetricInfo) -> str:
    if info.highest is not None:
        return f"{info.lowest:g} to {info.highest:g}"
    return "any number" if math.isinf(info.lowest) else f"{info.lowest:g} or more"


if __name__ == "__main__":
    written = Path(sys.argv[1])
    written.write_text(page(written.read_text(encoding="utf-8")), encoding="utf-8")
