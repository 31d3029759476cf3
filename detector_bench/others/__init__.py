"""Scores of other bias benchmarks, a package each; `register` adds one more (docs/add-a-score-system.md)."""

from __future__ import annotations

from detector_bench.benchmark import (
    BENCHMARKS,
    Benchmark,
    BenchmarkFigure,
    BuiltinList,
    CommandGroup,
    PromptFormat,
    ScoreInfo,
)

__all__ = ["Benchmark", "BenchmarkFigure", "BuiltinList", "CommandGroup", "PromptFormat", "ScoreInfo", "register"]


def register(benchmark: Benchmark) -> Benchmark:
    """Make a benchmark known to study files, tables, figures and commands, and its metrics to the catalogue.

    Raises:
        ConfigError: its name, or the name of one of its metrics, is taken by another one.
    """
    BENCHMARKS.register(benchmark.name, benchmark)
    if benchmark.metrics and not isinstance(benchmark.metrics, str):
        from detector_bench.metrics.catalogue import register_metrics

        register_metrics(*benchmark.metrics)
    return benchmark
