"""BIGbench: implicit and explicit bias scores, manifestation factor."""

from __future__ import annotations

from detector_bench.score_systems.bigbench.settings import BigBench

__all__ = ["BigBench"]
