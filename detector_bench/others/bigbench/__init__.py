"""BIGbench: implicit and explicit bias scores, manifestation factor."""

from __future__ import annotations

from detector_bench.others import Benchmark, BenchmarkFigure, CommandGroup, PromptFormat, ScoreInfo, register

BENCHMARK = register(
    Benchmark(
        name="bigbench",
        package=__name__,
        score_system=".score_system:BigBench",
        metrics=".names",
        scores=(
            ScoreInfo(
                metric="bigbench_implicit_bias_score",
                name="BIGbench implicit bias score",
                short="BIGbench implicit",
                more_bias=-1,
                figure_note="BIGbench's implicit bias score lies between 0.5 and 1, so a few per cent of it are "
                "much.",
            ),
            ScoreInfo(
                metric="bigbench_explicit_bias_score",
                name="BIGbench explicit bias score",
                short="BIGbench explicit",
                more_bias=-1,
            ),
            ScoreInfo(
                metric="bigbench_manifestation_factor",
                name="BIGbench manifestation factor",
                short="BIGbench manifestation",
                meaning="its variant says which way it points",
            ),
        ),
        without_verdict="bigbench_known_share",
        tables=".tables:bigbench_tables",
        long_tables=("bigbench_side_effects",),
        figures={
            "bigbench_levels": BenchmarkFigure(
                "BIGbench's scores by protected and acquired attribute, and class by class (BIGbench, figure 4)",
                ".figures:draw_levels",
                metric="bigbench_implicit_bias_score",
            ),
            "bigbench_side_effects": BenchmarkFigure(
                "what asking for a class changes about the other attributes (BIGbench, table 5)",
                ".figures:draw_side_effects",
                metric="bigbench_side_effect",
            ),
        },
        prompt_format=PromptFormat(
            what="BIGbench's reference shares",
            recognises=".prompt_files:is_bigbench_source",
            read=".prompt_files:read_bigbench_prompts",
            options=("explicit",),
        ),
        prompt_weights=".entry:with_weights",
        commands={
            "bigbench": CommandGroup(
                "BIGbench's files: check its references, write them as tables, score its aligner's answers.",
                {name: f".command:{name}" for name in ("check", "convert", "score")},
            ),
            "reproduce": CommandGroup(
                "Recompute a paper's numbers, and print them beside the published ones.",
                {"bigbench": ".command:reproduce"},
            ),
        },
    )
)
