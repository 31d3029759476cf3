"""Lyu 2025 again: every published number that can be recomputed, beside what comes out.

Without images, the printed tables are checked against each other and against the text. With the authors' images as
an image set, and predictions of the paper's detectors, Tables 1 to 7 are computed from them. The image set is the
usual folder:

- `images.csv`: 6,000 rows; `t2i_model` is `sdxl`, `sd3` or `dreamlike`;
- `prompts.csv`: `labels/lyu2025/prompts.csv`, which ships with the package;
- `labels.csv`: both annotators' labels of `gender`, and rows of the annotator `adjudicator` where they discussed;

and the study's detectors bear the names of `configs/lyu2025.yaml`: clip, clip_prob, clip_uncertain, blip2, facepp,
mivolo, fairface and clip_enhance, or some of them.
"""

from __future__ import annotations

from detector_bench.others import Benchmark, BuiltinList, CommandGroup, register

BENCHMARK = register(
    Benchmark(
        name="lyu2025",
        package=__name__,
        prompt_lists={
            "lyu2025": BuiltinList(
                "the 100 words of Lyu 2025, one real person each",
                "labels/lyu2025/words.csv",
                "labels/lyu2025/templates.csv",
            )
        },
        commands={
            "reproduce": CommandGroup(
                "Recompute a paper's numbers, and print them beside the published ones.",
                {"lyu2025": ".command:lyu2025"},
            )
        },
    )
)
