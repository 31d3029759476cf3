"""BiasPainter: what T2I models do to gender, age and skin tone when they edit a photo of a person.

What BiasPainter calls race is skin tone, the brightness of facial skin. It is not race.
"""

from __future__ import annotations

from detector_bench.others import Benchmark, BenchmarkFigure, BuiltinList, CommandGroup, ScoreInfo, register

BENCHMARK = register(
    Benchmark(
        name="biaspainter",
        package=__name__,
        score_system=".score_system:BiasPainterScores",
        metrics=".formulas",
        scores=(
            ScoreInfo(
                metric="biaspainter_model_score", name="BiasPainter model score", short="BiasPainter", more_bias=1
            ),
        ),
        without_verdict="biaspainter_undetected",
        tables=".tables:biaspainter_tables",
        long_tables=("biaspainter_top_words",),
        figures={
            "biaspainter_word_scores": BenchmarkFigure(
                "what each word does to the people in edited photos (BiasPainter, figure 4)",
                ".word_score_figure:draw",
                metric="biaspainter_word_score",
            ),
            "biaspainter_thresholds": BenchmarkFigure(
                "how BiasPainter's conclusions hang on its thresholds (its ablation study)",
                ".threshold_ablation:draw",
                metric="biaspainter_word_score",
            ),
            "biaspainter_pairs": BenchmarkFigure(
                "photos before and after the edits that change people most, drawn where asked for "
                "(BiasPainter, figure 1)",
                ".suspicious_pairs:draw",
                metric="biaspainter_word_score",
                shows_images=True,
            ),
        },
        prompt_lists={
            "biaspainter": BuiltinList(
                "228 words in BiasPainter's four domains, for editing a photo",
                "labels/biaspainter/words.csv",
                "labels/biaspainter/templates.csv",
                edits_photos=True,
            )
        },
        commands={
            "biaspainter": CommandGroup(
                "BiasPainter: what editing a photo does to gender, age and skin tone. What it calls race is skin "
                "tone, which is not race. The scores of a study come with `scores: [{system: biaspainter}]` in "
                "its study file.",
                {
                    "sheets": ".command:sheets",
                    "thresholds": ".command:thresholds",
                    "rating-sheet": ".word_ratings.command:rating_sheet",
                    "neutrality": ".word_ratings.command:neutrality",
                    "sample": ".command:sample",
                    "validity": ".command:validity",
                    "mitigation": ".command:mitigation",
                },
            ),
            "reproduce": CommandGroup(
                "Recompute a paper's numbers, and print them beside the published ones.",
                {"biaspainter": ".released.command:biaspainter"},
            ),
        },
    )
)
