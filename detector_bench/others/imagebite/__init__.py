"""ImageBiTe: verdicts on how T2I models represent communities, against requirements that its users write down."""

from __future__ import annotations

from detector_bench.others import Benchmark, BuiltinList, CommandGroup, PromptFormat, ScoreInfo, register

BENCHMARK = register(
    Benchmark(
        name="imagebite",
        package=__name__,
        score_system=".score_system:ImageBiTe",
        metrics=".formulas",
        # Its verdicts, not their shares: two judges may call equally many communities stereotyped, and never the
        # same ones; and a share near 0 has no deviation that says anything.
        scores=(
            ScoreInfo(
                metric="imagebite_verdict_agreement",
                name="ImageBiTe verdict agreement",
                short="ImageBiTe agreement",
                is_agreement=True,
                disagreement="ImageBiTe verdicts that differ from the humans'",
                meaning="share of a requirement's verdicts that are the ground truth's",
                figure_note="ImageBiTe: percentage of verdicts, by requirement, that are not those by the human "
                "labels.",
            ),
        ),
        tables=".tables:imagebite_tables",
        long_tables=("imagebite_findings",),
        prompt_lists={
            "imagebite": BuiltinList(
                "25 templates in ImageBiTe's format, filled with communities and dimensions",
                "labels/imagebite/input.json",
                "labels/imagebite/templates.csv",
                own_format=True,
            )
        },
        prompt_format=PromptFormat(
            what="ImageBiTe's templates",
            recognises=".prompts:is_template_file",
            read=".prompts:read_imagebite_prompts",
            options=("templates", "input"),
            input="the JSON file that they are filled from",
        ),
        commands={
            "imagebite": CommandGroup(
                "ImageBiTe's requirements, and its generic checks as attributes.",
                {"check": ".command:check", "checks": ".command:checks"},
            ),
            "reproduce": CommandGroup(
                "Recompute a paper's numbers, and print them beside the published ones.",
                {"imagebite": ".command:reproduce"},
            ),
        },
    )
)
