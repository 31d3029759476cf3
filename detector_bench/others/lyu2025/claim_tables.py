"""The referee's answer as tables for people, and as rows for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from detector_bench.others.lyu2025.claim_draws import PAPER_IMAGES
from detector_bench.others.lyu2025.claim_statements import ClaimEstimate, Part
from detector_bench.others.lyu2025.referee import LEVEL, ClaimVerdict, JudgedClaim
from detector_bench.tables.table import DASH, Cell, Column, Row, Table

if TYPE_CHECKING:
    import pandas as pd

    from detector_bench.evaluation.counting import Counts

CLAIMS_TABLE, NOT_ASKED_TABLE = "lyu2025_claims", "lyu2025_not_asked"
PARTS = "lyu2025_claim_parts"
"""Every inequality, one row each."""

_ASKED = (ClaimVerdict.HOLDS, ClaimVerdict.DOES_NOT_HOLD, ClaimVerdict.OPEN)
_SMALLEST_P = 0.0001
_NOTHING = ClaimEstimate(math.nan, math.nan)
_ABOUT = (
    f"Verdicts are adjusted for all claims asked (Holm), {100 * LEVEL:g} % for `holds` and {100 * LEVEL:g} % for "
    "`does not hold`: at most 5 % of such pages have a false one. `holds` of a number: within the tolerance, by "
    "a test of equivalence between two independent studies.",
    "Brackets: 95 % intervals of single numbers over other images of the same prompts, not adjusted; the "
    "paper's are simulated from its printed tables (docs/reproduce-lyu2025.md). p: of the verdict, adjusted; "
    "of an open claim the smaller one.",
    f"Bias scores rest on at most {PAPER_IMAGES} images of each prompt, drawn at random where there are more: "
    "they depend on how many there are. By the paper's own numbers: whether they show the claim, by themselves "
    "and unadjusted.",
)


def in_short(judged: Sequence[JudgedClaim]) -> tuple[str, ...]:
    """A sentence on all claims, and one for each research question."""
    asked = [each for each in judged if each.verdict in _ASKED]
    if not asked:
        return ("None of the claims of Lyu 2025 can be asked of this study.",)
    said = [
        f"Of {len(judged)} claims of Lyu 2025 this study can be asked {len(asked)}: {_counted(asked)}. "
        "Open is neither for nor against a claim."
    ]
    for name in dict.fromkeys(each.claim.research_question for each in judged):
        own = [each for each in asked if each.claim.research_question == name]
        said.append(f"{name}: {_counted(own)}." if own else f"{name}: no claim can be asked.")
    return tuple(said)


def left_out_notes(counts: Counts) -> tuple[str, ...]:
    """Of each detector: on how many labelled images it gave no verdict, so that its claims rest on the others."""
    images = counts.joint.images
    notes = []
    for name, verdicts, not_run in zip(counts.detectors, counts.verdicts, counts.not_run, strict=True):
        absent = int(not_run.sum())
        for what, number in (("error", int(verdicts[..., -1].sum()) - absent), ("not run", absent)):
            if number:
                notes.append(f"{name}: images left out, {what}: {number:,} of {images:,}.")
    return tuple(notes)


def claims_table(judged: Sequence[JudgedClaim], *, notes: Sequence[str] = ()) -> Table:
    """Every claim that was asked, with the part that its verdict hangs on.

    Args:
        judged: all claims.
        notes: about the study, see `left_out_notes`; they stand before those about the table.
    """
    return Table(
        name=CLAIMS_TABLE,
        caption="Lyu 2025, claim by claim: what this study says, and the part that each verdict hangs on.",
        attribute="gender",
        columns=(
            Column("research_question", "Question", kind="name"),
            Column("claim", "Claim", kind="name"),
            Column("verdict", "Verdict", kind="name"),
            Column("hangs_on", "Hangs on", kind="name"),
            Column("held_against", "Held against", kind="name"),
            Column("paper", "Paper", has_intervals=True),
            Column("study", "This study", has_intervals=True),
            Column("p_value", "p"),
            Column("in_paper", "By the paper's own numbers", kind="name"),
        ),
        rows=tuple(_row(each) for each in judged if each.verdict in _ASKED),
        notes=(*notes, *_ABOUT),
        grouped=True,
    )


def not_asked_table(judged: Sequence[JudgedClaim]) -> Table:
    """The claims that this study cannot be asked, with the reason."""
    rows = tuple(
        Row(
            each.claim.id,
            (
                Cell(each.claim.research_question),
                Cell(f"{each.claim.says} ({each.claim.place})", key=each.claim.id),
                Cell(each.instead),
                Cell(each.in_paper or DASH),
            ),
        )
        for each in judged
        if each.verdict is ClaimVerdict.NOT_ASKED
    )
    return Table(
        name=NOT_ASKED_TABLE,
        caption="Claims of Lyu 2025 that this study cannot be asked.",
        attribute="gender",
        columns=(
            Column("research_question", "Question", kind="name"),
            Column("claim", "Claim", kind="name"),
            Column("reason", "Why not", kind="name"),
            Column("in_paper", "By the paper's own numbers", kind="name"),
        ),
        rows=rows,
        grouped=True,
    )


def part_rows(judged: Sequence[JudgedClaim]) -> pd.DataFrame:
    """Every inequality of every claim: numbers of both studies at full precision."""
    import pandas as pd

    rows = [
        {
            "claim": each.claim.id,
            "research_question": each.claim.research_question,
            "place": each.claim.place,
            "says": each.claim.says,
            "asked_as": each.instead,
            "verdict": str(each.verdict),
            "p_holds": each.p_holds,
            "p_does_not_hold": each.p_fails,
            "by_the_paper": each.in_paper,
            **_numbers(part),
        }
        for each in judged
        for part in (each.parts or (None,))
    ]
    return pd.DataFrame(rows)


def _numbers(part: Part | None) -> dict[str, float | str]:
    study, paper = (_NOTHING, _NOTHING) if part is None else (part.study, part.paper)
    return {
        "part": "" if part is None else part.what,
        "held_against": "" if part is None else part.border,
        "paper": paper.value,
        "paper_ci_low": paper.interval[0],
        "paper_ci_high": paper.interval[1],
        "study": study.value,
        "study_ci_low": study.interval[0],
        "study_ci_high": study.interval[1],
        "part_p_holds": math.nan if part is None else part.p_holds,
        "part_p_does_not_hold": math.nan if part is None else part.p_fails,
    }


def _row(judged: JudgedClaim) -> Row:
    part = judged.decisive or Part("", _NOTHING, _NOTHING, "", math.nan, math.nan)
    p_value = {ClaimVerdict.HOLDS: judged.p_holds, ClaimVerdict.DOES_NOT_HOLD: judged.p_fails}.get(
        judged.verdict, min(judged.p_holds, judged.p_fails)
    )
    return Row(
        judged.claim.says,
        (
            Cell(judged.claim.research_question),
            Cell(f"{judged.claim.says} ({judged.claim.place})", key=judged.claim.id),
            Cell(str(judged.verdict), bold=judged.verdict is not ClaimVerdict.OPEN),
            Cell(part.what),
            Cell(part.border),
            _estimate(part.paper, part.unit),
            _estimate(part.study, part.unit),
            Cell("< 0.0001" if p_value < _SMALLEST_P else f"{p_value:.4f}", value=p_value),
            Cell(judged.in_paper or DASH),
        ),
        (f"asked as: {judged.instead}",) if judged.instead else (),
    )


def _estimate(found: ClaimEstimate, unit: str) -> Cell:
    if math.isnan(found.value):
        return Cell(DASH, value=math.nan, ci_low=math.nan, ci_high=math.nan)
    low, high = found.interval
    interval = "" if math.isnan(low) else f"[{_written(low, unit)}, {_written(high, unit)}]"
    text = f"{_written(found.value, unit)} %" if unit else _written(found.value, unit)
    return Cell(text, value=found.value, ci_low=low, ci_high=high, interval_text=interval)


def _written(value: float, unit: str) -> str:
    text = f"{100 * value:.1f}" if unit else f"{value:.3f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _counted(judged: Sequence[JudgedClaim]) -> str:
    numbers = {verdict: sum(each.verdict is verdict for each in judged) for verdict in _ASKED}
    words = {
        ClaimVerdict.HOLDS: ("holds", "hold"),
        ClaimVerdict.DOES_NOT_HOLD: ("does not hold", "do not hold"),
        ClaimVerdict.OPEN: ("is open", "are open"),
    }
    return ", ".join(f"{count} {words[verdict][count != 1]}" for verdict, count in numbers.items() if count)
