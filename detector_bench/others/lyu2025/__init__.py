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

from detector_bench.others.lyu2025.bias_statements import bias_findings
from detector_bench.others.lyu2025.detector_statements import detector_findings
from detector_bench.others.lyu2025.finding import Finding, Verdict, findings_table, in_words, summary
from detector_bench.others.lyu2025.published import PublishedTables, published_tables
from detector_bench.others.lyu2025.side_by_side import layout_problems, study_findings

__all__ = [
    "Finding",
    "PublishedTables",
    "Verdict",
    "findings_table",
    "in_words",
    "layout_problems",
    "published_findings",
    "published_tables",
    "study_findings",
    "summary",
]

_ORDER = ("Abstract", "Section", "Table", "Figure", "Appendix")


def published_findings() -> list[Finding]:
    """All that can be recomputed from the printed tables, in the order of the paper."""
    tables = published_tables()
    findings = [*bias_findings(tables), *detector_findings(tables)]
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.place.split()[0]), finding.place))
