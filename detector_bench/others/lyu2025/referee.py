"""Claim by claim: does Lyu 2025 hold in a study?

Every claim that the study can be asked has one of three verdicts:

- **holds**: a test shows it, an equivalence to the paper's number within a stated tolerance or an order;
- **does not hold**: a test rejects it;
- **open**: neither. That a claim is not shown is nothing against it.

The p-values of all claims that are asked are adjusted together (Holm 1979), those for `holds` and those for `does
not hold` each at 2.5 %, so that the chance of a single false verdict on the whole page is at most 5 %, whichever
claims are true. `benchmarks/claims_null.py` measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from detector_bench.evaluation.counting import Counts
from detector_bench.metrics.counts import CountArray, FloatArray
from detector_bench.others.lyu2025.claim_draws import (
    DRAWS,
    PAPER_IMAGES,
    PAPER_PROMPTS,
    images_of_paper,
    numbers_of_paper,
    numbers_of_study,
)
from detector_bench.others.lyu2025.claim_numbers import PrintedNumbers
from detector_bench.others.lyu2025.claim_statements import NOTHING, Part, Sides, Tested
from detector_bench.others.lyu2025.claims import AskedClaim, Claim, NotAsked, StudyAsked
from detector_bench.others.lyu2025.claims_on_detectors import CLAIMS_ON_DETECTORS
from detector_bench.others.lyu2025.claims_on_t2i_models import CLAIMS_ON_T2I_MODELS
from detector_bench.others.lyu2025.published import CATEGORIES, T2I_MODELS, PublishedTables

CLAIMS: tuple[Claim, ...] = (*CLAIMS_ON_T2I_MODELS, *CLAIMS_ON_DETECTORS)

LEVEL = 0.025
"""For `holds`, and again for `does not hold`: together 5 % for the page."""

_PAPER_ANNOTATORS = 2


class ClaimVerdict(StrEnum):
    """What a study says about a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    OPEN = "open"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict.

    Attributes:
        claim: the paper's.
        verdict: the study's.
        instead: how it was understood where it was not asked word by word; or why it was not asked.
        p_holds: adjusted for all claims; NaN where it was not asked.
        p_fails: likewise, against the claim.
        parts: the inequalities that it consists of.
        decisive: the one that the verdict hangs on, or what it would take to hold; None where it was not asked.
        in_paper: whether the paper's own numbers show it, at 2.5 %, unadjusted; empty where it is a number.
    """

    claim: Claim
    verdict: ClaimVerdict
    instead: str
    p_holds: float
    p_fails: float
    parts: tuple[Part, ...]
    decisive: Part | None
    in_paper: str


def judged_claims(
    counts: Counts,
    tables: PublishedTables,
    *,
    annotators: CountArray | None = None,
    number_of_annotators: int = 0,
    seed: int = 0,
    draws: int = DRAWS,
) -> list[JudgedClaim]:
    """Ask a study all claims.

    Args:
        counts: of gender.
        tables: what the paper prints.
        annotators: images by both annotators' labels; None: there are no two.
        number_of_annotators: without the adjudicator.
        seed: of all draws.
        draws: resamples of the study, and simulated studies for the paper.
    """
    joint = counts.joint
    resampled = partial(
        numbers_of_study, detectors=counts.detectors, t2i_models=counts.t2i_models, draws=draws, seed=seed
    )
    whole, thinned = resampled(joint, annotators=annotators), images_of_paper(joint, seed=seed)
    few = whole if thinned is joint else resampled(thinned)
    printed, paper = PrintedNumbers(tables), numbers_of_paper(tables, draws=draws, seed=seed)
    pairs = np.bincount(joint.pair)
    study = StudyAsked(
        counts.detectors,
        tuple(name for name in counts.t2i_models if not np.isnan(whole.share("male", name)[0])),
        joint.scopes.categories,
        float(pairs[pairs > 0].mean()) if joint.images else 0.0,
        number_of_annotators,
        int(np.unique(joint.pair % joint.prompts).size),
    )
    asked = [claim.ask(study) for claim in CLAIMS]
    tested = [
        NOTHING
        if isinstance(question, NotAsked)
        # Bias scores depend on the number of images; rates and shares of images do not.
        else question.statement.test(Sides(whole if _of_images(claim) else few, printed, paper))
        for claim, question in zip(CLAIMS, asked, strict=True)
    ]
    in_paper = _shown_in_paper(Sides(None, printed, paper))
    return _with_verdicts(asked, tested, in_paper)


def _of_images(claim: Claim) -> bool:
    return claim.research_question in ("Labels", "RQ3") or claim.id in ("more-men", "enhance-f1", "enhance-filter")


def _shown_in_paper(sides: Sides) -> list[str]:
    """What the paper's own numbers say about each claim that is an order or a size."""
    as_study = StudyAsked(
        sides.paper.detectors, T2I_MODELS, CATEGORIES, PAPER_IMAGES, _PAPER_ANNOTATORS, PAPER_PROMPTS
    )
    found = []
    for claim in CLAIMS:
        question = claim.ask(as_study)
        tested = NOTHING if isinstance(question, NotAsked) else question.statement.test(sides)
        if not tested.parts:
            found.append("")
        elif tested.p_holds <= LEVEL:
            found.append("shown")
        else:
            found.append("contradicted" if tested.p_fails <= LEVEL else "not shown")
    return found


def _with_verdicts(
    asked: Sequence[AskedClaim | NotAsked], tested: Sequence[Tested], in_paper: Sequence[str]
) -> list[JudgedClaim]:
    holds = adjusted(np.array([each.p_holds for each in tested]))
    fails = adjusted(np.array([each.p_fails for each in tested]))
    judged = []
    for claim, question, each, p_holds, p_fails, shown in zip(
        CLAIMS, asked, tested, holds, fails, in_paper, strict=True
    ):
        if isinstance(question, NotAsked):
            verdict, instead = ClaimVerdict.NOT_ASKED, question.reason
        elif not each.parts:
            verdict, instead = ClaimVerdict.NOT_ASKED, "the study has no number for it"
        else:
            verdict, instead = _verdict(float(p_holds), float(p_fails)), question.instead
        decisive = each.refuting if verdict is ClaimVerdict.DOES_NOT_HOLD else each.hinge
        judged.append(
            JudgedClaim(claim, verdict, instead, float(p_holds), float(p_fails), each.parts, decisive, shown)
        )
    return judged


def _verdict(p_holds: float, p_fails: float) -> ClaimVerdict:
    if p_holds <= LEVEL:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.DOES_NOT_HOLD if p_fails <= LEVEL else ClaimVerdict.OPEN


def adjusted(p_values: FloatArray) -> FloatArray:
    """Holm's adjusted p-values; NaN stay NaN and do not count."""
    found = np.full(p_values.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    if not known.size:
        return found
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(known.size, 0, -1)
    found[order] = np.minimum(1, np.maximum.accumulate(factors * p_values[order]))
    return found
