"""Representation: whom a T2I model shows, against equal or stated shares, for attributes and pairs of them."""

from __future__ import annotations

from detector_bench.others import Benchmark, BenchmarkFigure, ScoreInfo, register

BENCHMARK = register(
    Benchmark(
        name="representation",
        package=__name__,
        score_system=".score_system:Representation",
        metrics=".names",
        scores=(
            ScoreInfo(
                metric="representation_total_variation",
                name="Total variation from the reference",
                short="Total variation",
                more_bias=1,
            ),
        ),
        without_verdict="representation_clear_share",
        tables=".tables:representation_tables",
        long_tables=("representation_prompts",),
        figures={
            "representation": BenchmarkFigure(
                "shares of the classes in every prompt against the reference, with what chance allows",
                ".figure:draw",
                metric="representation_total_variation",
            )
        },
    )
)
