"""Agreement between annotators in plain words, as far as the numbers carry them."""

from __future__ import annotations

import math
from typing import NamedTuple

from detector_bench.labelling.agreement_numbers import Agreement

FEW_IMAGES = 50
"""With fewer images the normal approximation behind the intervals is rough."""

GRADES = (
    (0.0, "poor"),
    (0.2, "slight"),
    (0.4, "fair"),
    (0.6, "moderate"),
    (0.8, "substantial"),
    (1.0, "almost perfect"),
)
"""Up to which kappa (included, but for 0) a grade goes. Source: Landis and Koch 1977, page 165."""

GRADES_SOURCE = (
    "The grades are those of Landis and Koch (1977): a convention, not a test. Agreement says that people judge "
    "alike, not that they judge right."
)


class Verdict(NamedTuple):
    """What a kappa says.

    Attributes:
        title: the grade, or the grades that its interval reaches.
        text: the numbers in a sentence.
        caution: what keeps the title from being more; "" if nothing does.
    """

    title: str
    text: str
    caution: str


def grade(kappa: float) -> str:
    """The name of a kappa's size."""
    if kappa < 0:
        return GRADES[0][1]
    return next(name for limit, name in GRADES[1:] if kappa <= limit)


def verdict(found: Agreement, *, annotators: int) -> Verdict:
    """Put agreement into words; `annotators` is how many were compared."""
    if annotators < 2:
        who = "Only one person has" if annotators else "Nobody has"
        return Verdict("Nothing to compare yet", f"{who} labelled a picture so far.", "")
    who = "both" if annotators == 2 else f"all {annotators} annotators"
    if found.compared == 0:
        return Verdict("Nothing to compare yet", f"No picture was labelled by {who}.", "")
    pictures = f"{found.compared:,} {'picture' if found.compared == 1 else 'pictures'}"
    same = (
        f"On {pictures} that {'both' if annotators == 2 else 'two or more'} labelled, {_share(found, annotators)}."
    )
    if math.isnan(found.kappa):
        return Verdict(
            "No kappa yet", same, "Everybody gave one and the same label, so chance alone explains all of it."
        )
    name = "Cohen's" if annotators == 2 else "Fleiss'"
    if math.isnan(found.low):
        rest = "" if found.percent < 1 else _unseen(found.images)
        return Verdict(
            f"{grade(found.kappa).capitalize()} agreement" if found.percent < 1 else "No disagreement so far",
            f"{same} {name} kappa is {found.kappa:.2f}.",
            f"No interval can be given. {rest}".strip(),
        )
    lowest, highest = grade(found.low), grade(found.high)
    title = f"{lowest.capitalize()} agreement"
    if lowest != highest:
        title = f"{lowest.capitalize()} to {highest} agreement"
    interval = f"95\N{NO-BREAK SPACE}% interval {number(found.low)} to {number(found.high)}"
    few = f"With fewer than {FEW_IMAGES} pictures the interval is rough." if found.images < FEW_IMAGES else ""
    return Verdict(title, f"{same} {name} kappa is {number(found.kappa)} ({interval}).", few)


def number(value: float) -> str:
    """A kappa with two decimals, and a true minus sign."""
    text = f"{abs(value):.2f}"
    return f"\N{MINUS SIGN}{text}" if value < 0 and text != "0.00" else text


def _share(found: Agreement, annotators: int) -> str:
    per_cent = f"{100 * found.percent:.0f}\N{NO-BREAK SPACE}%"
    if annotators == 2:
        return f"they gave the same label to {per_cent}"
    return f"{per_cent} of all pairs of labels are equal"


def _unseen(images: int) -> str:
    """What complete agreement leaves open: the exact 95 % upper limit of a share that was never seen."""
    share = 1 - 0.05 ** (1 / images)
    return f"Up to {100 * share:.0f}\N{NO-BREAK SPACE}% of disagreement would still be no surprise."
