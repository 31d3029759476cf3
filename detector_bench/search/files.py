"""The files of a search: `search.csv`, `search.json` and `search.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from detector_bench import __version__
from detector_bench.atomic_files import replacing, write_text
from detector_bench.results.proof import digests
from detector_bench.sealed import write_sealed
from detector_bench.search.findings import BEST_SINGLE, SearchFindings, error_in_words

TABLE = "search.csv"
PAGE = "search.md"
RECORD = "search.json"
WINNER = "winner.yaml"

_SHOWN = 15


def write_search(
    found: SearchFindings,
    out: Path,
    *,
    winner: Mapping[str, Any],
    figures: Sequence[str],
    inputs: Mapping[str, str],
    judged: Mapping[str, str],
    checked: Mapping[str, str],
    title: str,
) -> list[Path]:
    """Write what a search found, the record last.

    Args:
        found: by the search.
        out: the folder.
        winner: a study file with the winner.
        figures: names of files in the folder that are written already.
        inputs: sha256 of what was read beside predictions.
        judged: fingerprints of the detectors that judged, by name.
        checked: the fingerprint of the winner's own run, whose verdicts were compared with those that won.
        title: of the study.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    with replacing(out / TABLE) as temporary:
        found.rows.to_csv(temporary, index=False, lineterminator="\n")
    write_text(out / WINNER, yaml.safe_dump(dict(winner), sort_keys=False, allow_unicode=True))
    write_text(out / PAGE, page(found, title=title, figures=figures))
    names = [TABLE, WINNER, PAGE, *figures]
    record = {
        "search": "detector_bench",
        "version": __version__,
        "settings": found.settings.model_dump(mode="json"),
        **found.record(),
        "checked_by_a_run": dict(checked),
        "proof": {"inputs": dict(inputs), "judged": dict(judged), "files": digests(out, names)},
    }
    write_sealed(out / RECORD, record)
    return [out / name for name in (*names, RECORD)]


def page(found: SearchFindings, *, title: str, figures: Sequence[str]) -> str:
    """The page for people, in Markdown."""
    lines = [f"# Search: {title}, {found.attribute}", ""]
    lines += [f"- {sentence}" for sentence in found.sentences()]
    for name in figures:
        if name.endswith(".png"):
            lines += ["", f"![Where chosen, and on other prompts]({name})"]
        if name.endswith(".txt"):
            lines += ["", "The caption of the figure is in `" + name + "`."]
    lines += [
        "",
        f"## The first {min(_SHOWN, len(found.rows))} of {len(found.rows):,}",
        "",
        *_table(best_rows(found)),
    ]
    lines += [
        "",
        f"Error: {error_in_words(found.settings)} on all prompts, which chose the first of them. Interval: of "
        f"each by itself, as if nobody had chosen. All {len(found.rows):,} are in `{TABLE}`.",
    ]
    if found.not_built:
        lines += ["", f"## Not built or not run: {len(found.not_built):,}", ""]
        lines += [f"- {name}: {reason}" for name, reason in found.not_built]
    return "\n".join(lines) + "\n"


def best_rows(found: SearchFindings) -> pd.DataFrame:
    """The best compositions, and the best single detector, as people read them."""
    rows = found.rows.head(_SHOWN)
    if found.single not in set(rows["composition"]):
        rows = pd.concat([rows, found.rows[found.rows["composition"] == found.single]])
    shown = pd.DataFrame(
        {"composition": rows["composition"].where(rows["kind"] != "single", rows["composition"] + " *")}
    )
    shown["error"] = rows["error"].map("{:.3f}".format)
    shown["interval"] = [
        "" if pd.isna(low) else f"{low:.3f} to {high:.3f}"
        for low, high in zip(rows["ci_low"], rows["ci_high"], strict=True)
    ]
    shown["ranks open"] = [
        "" if pd.isna(low) else f"{low:.0f} to {high:.0f}"
        for low, high in zip(rows["rank_low"], rows["rank_high"], strict=True)
    ]
    shown["keeps"] = rows["kept_share"].map("{:.0%}".format)
    shown["chosen"] = rows["times_chosen"].map("{:.0%}".format)
    shown["error on other prompts, when chosen"] = [
        "" if pd.isna(each) else f"{each:.3f}" for each in rows["error_on_other_prompts"]
    ]
    return shown


def _table(rows: pd.DataFrame) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return [
        line(list(rows.columns)),
        "|---|" + "---:|" * (len(rows.columns) - 1),
        *(line(list(row)) for row in rows.itertuples(index=False)),
        "",
        f"\\* a detector of the study as it stands there, one of which is {BEST_SINGLE}.",
    ]
