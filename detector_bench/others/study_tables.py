"""The tables of score systems that a study writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from detector_bench.others.biaspainter.tables import model_scores, top_biased_words
from detector_bench.others.bigbench.tables import bigbench_tables
from detector_bench.others.imagebite.tables import imagebite_tables
from detector_bench.others.imagebite.verdict_table import surviving_findings
from detector_bench.others.score_deviations_table import score_deviations
from detector_bench.results.metric_lookup import DEFAULT_MAX_ERROR_SHARE
from detector_bench.tables.table import Table
from detector_bench.vocabulary import GROUND_TRUTH


def score_tables(
    metrics: pd.DataFrame,
    *,
    verdicts: pd.DataFrame | None,
    notes: Mapping[str, tuple[str, ...]],
    prompts: pd.DataFrame,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    intervals: bool = False,
) -> dict[str, Table]:
    """Build the tables of every score system in a metric table, and one that compares the detectors on all scores.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        verdicts: ImageBiTe's single verdicts; None without them.
        notes: by variant, what else has to be said.
        prompts: columns `prompt_id, word`.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets dashes there.
        intervals: show confidence intervals where a table has them.

    Returns:
        By name.
    """
    tables: dict[str, Table] = {}
    known = set(metrics["metric"].astype(str))
    if "biaspainter_model_score" in known:
        tables["biaspainter_model_scores"] = model_scores(metrics, max_error_share=max_error_share)
        rows = metrics[metrics["metric"] == "biaspainter_word_score"]
        for attribute in dict.fromkeys(rows["attribute"].astype(str)):
            table = top_biased_words(
                metrics, attribute=attribute, prompts=prompts, max_error_share=max_error_share
            )
            name = f"{table.name}_{attribute}"
            tables[name] = replace(table, name=name)
    tables |= bigbench_tables(metrics, max_error_share=max_error_share, intervals=intervals, notes=notes)
    if verdicts is not None:
        findings = surviving_findings(verdicts)
        tables |= imagebite_tables(
            metrics,
            verdicts,
            findings=findings,
            prompts=prompts,
            max_error_share=max_error_share,
            notes=notes,
        )
    judges = set(metrics.loc[metrics["variant"].notna(), "detector"].astype(str))
    if GROUND_TRUTH in judges and len(judges) > 1:
        tables["score_deviations"] = score_deviations(
            metrics, max_error_share=max_error_share, intervals=intervals
        )
    return tables
