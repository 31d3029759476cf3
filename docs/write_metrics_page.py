"""Writes the tables of docs/metrics.md, which are the declarations of the metrics; your own have a section, too.

python docs/write_metrics_page.py docs/metrics.md
python docs/write_metrics_page.py my_metrics.md my_metric.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

from detector_bench.metrics import METRICS, MetricInfo
from detector_bench.plugins import load_plugins

BEGIN = "<!-- From here on written by docs/write_metrics_page.py: change the declarations, not the page. -->\n"
BENCHMARKS = ("BiasPainter", "BIGbench", "ImageBiTe")
HEADINGS = ("metric", "what it says", "definition", "range", "better", "n", "n_left_out", "interval", "source")


def page(text: str) -> str:
    """The page with fresh tables behind what was written by hand."""
    before, marker, _ = text.partition(BEGIN)
    groups: dict[str, list[MetricInfo]] = {}
    for info in METRICS.values():
        groups.setdefault(_title(info), []).append(info)
    # Other benchmarks' scores stand in the order in which their pages are named.
    last = [f"[{name}]({name.casefold()}.md)" for name in BENCHMARKS]
    titles = [*(title for title in groups if title not in last), *last]
    return before + marker + "".join(f"\n## {title}\n\n{_table(groups[title])}" for title in titles)


def _title(info: MetricInfo) -> str:
    names = [name for name in BENCHMARKS if info.name.startswith(f"{name.casefold()}_")]
    return f"[{names[0]}]({names[0].casefold()}.md)" if names else info.section


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
    load_plugins([Path(name) for name in sys.argv[2:]])
    known = written if written.is_file() else Path(__file__).with_name("metrics.md")
    written.write_text(page(known.read_text(encoding="utf-8")), encoding="utf-8")
