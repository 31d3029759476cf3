"""What a report does not count or show, and why: a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from detector_bench.site.report_study import AttributePart
from detector_bench.site.thumbnails import Pictures
from detector_bench.site.verdict import DIFFERENCE
from detector_bench.tables.metric_lookup import MetricLookup
from detector_bench.vocabulary import GROUND_TRUTH

_PICTURES = {
    "copy": "Pictures were copied, made smaller, without the metadata of their files. The licence of the images "
    "is that of the image set, not of this report: check it before you publish.",
    "blur": "Pictures are blurred beyond recognition; the image set holds the sharp ones.",
    "link": "Pictures are not part of this folder: it links to the image set, and shows them only where that lies "
    "at the same place.",
    "none": "Pictures were left out; every image is still listed with its labels and verdicts.",
}


def left_out_of_numbers(part: AttributePart) -> list[str]:
    """Images without a label, images labelled `others`, images without a verdict, prompts without a score."""
    lookup, found = part.study.lookup, []
    for metric, words in (
        ("images_unlabelled", "without a human label of perceived {attribute}: in no number"),
        ("images_others", "with the human label “others”: in the tables of labels, and in no comparison"),
    ):
        number = lookup.number(metric, detector=GROUND_TRUTH).value
        if number > 0:
            found.append(f"{_images(number)} {words.format(attribute=part.words)}.")
    for detector in lookup.detectors:
        found += [f"{detector}: {note}." for note in lookup.no_verdict_notes(detector, lookup.t2i_models)]
        found += _prompts_without_score(lookup, detector)
    return found


def _prompts_without_score(lookup: MetricLookup, detector: str) -> list[str]:
    number = lookup.number(DIFFERENCE, detector=detector, n_clear=lookup.n_clear)
    if not number.n_left_out > 0:
        return []
    total = number.n + number.n_left_out
    return [
        f"{detector}: {number.n_left_out:,.0f} of {total:,.0f} pairs of T2I model and prompt have no bias score "
        "to compare (no image is clear to the detector, or to the humans)."
    ]


def left_out_of_pictures(pictures: Pictures, changed: int, boxes: Sequence[str], why_no_boxes: str) -> list[str]:
    """How pictures are shown, which ones cannot be, and whether boxes are drawn.

    Args:
        pictures: what was made.
        changed: how many files are other ones now than when they were judged.
        boxes: the stages whose boxes are drawn.
        why_no_boxes: said where there are none.
    """
    found = [_PICTURES[pictures.mode]]
    problems = Counter(each.problem.partition(":")[0] for each in pictures.pictures if each.problem)
    found += [
        f"{_images(number)} cannot be shown: {reason.replace('_', ' ')}." for reason, number in problems.items()
    ]
    if changed:
        found.append(
            f"{_images(changed)} changed after being judged: the picture shown is not the one that the verdicts "
            "are about."
        )
    if boxes:
        found.append(
            f"Boxes drawn over pictures are stored results of {', '.join(boxes)}; nothing was computed anew."
        )
    elif why_no_boxes:
        found.append(why_no_boxes)
    return found


def _images(number: float) -> str:
    return "1 image" if number == 1 else f"{number:,.0f} images"
