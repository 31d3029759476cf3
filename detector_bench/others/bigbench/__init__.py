"""BIGbench: implicit and explicit bias scores, manifestation factor."""

from __future__ import annotations

from detector_bench.others import Benchmark, CommandGroup, PromptFormat, ScoreInfo, register

BENCHMARK = register(
    Benchmark(
        name="bigbench",
        package=__name__,
        score_system=".score_system:BigBench",
        metrics=".formulas",
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
        prompt_format=PromptFormat(
            what="BIGbench's reference shares",
            recognises=".prompts:is_reference_file",
            read=".prompts:read_bigbench_prompts",
            options=("explicit",),
        ),
        prompt_weights=".entry:with_weights",
        commands={
            "bigbench": CommandGroup(
                "BIGbench's reference files: check them, write them as tables.",
                {name: f".command:{name}" for name in ("check", "convert")},
            )
        },
    )
)
