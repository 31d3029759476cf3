"""BIGbench: implicit and explicit bias scores, manifestation factor."""

from __future__ import annotations

from detector_bench.others.bigbench.settings import BigBench

__all__ = ["BigBench"]
