"""What `labels agreement --calibration` shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from detector_bench.cli.console import output

if TYPE_CHECKING:
    from detector_bench.labelling import LabelStore
    from detector_bench.labelling.calibration_round import AnswerAgreement, ToDiscuss


def show_calibration_round(store: LabelStore, out: Path | None) -> None:
    """Show how far people agree in the calibration round, on what they differ, and what to do next.

    Args:
        store: the desk's.
        out: a folder for both tables as CSV files; None: none are written.
    """
    import pandas as pd

    from detector_bench.atomic_files import write_text
    from detector_bench.labelling.calibration_round import answers_in_calibration, to_discuss
    from detector_bench.tables.calibration_round_tables import calibration_agreement, images_to_discuss

    if not store.calibration().total:
        output.say(
            f"{store.path} has no calibration round; `detector-bench sample {store.image_set.root} --calibration "
            "150`, before anybody labels, draws one"
        )
        return
    given = [one for one in store.given(independent=True) if one.item.in_calibration]
    images, measured = to_discuss(store), []
    for question in store.questions:
        answers = answers_in_calibration(given, question)
        if not answers:
            output.say(f"{question.name}: fewer than two annotators have labelled: there is nothing to compare")
            continue
        rows = [_agreement_row(question.name, each) for each in answers]
        people = sorted({one.annotator for one in given if one.question == question.name})
        table = calibration_agreement(answers, attribute=question.name, annotators=people)
        output.table(table, rows=pd.DataFrame(rows))
        measured += rows
        if listed := [each for each in images if each.question == question.name]:
            table = images_to_discuss(listed, attribute=question.name)
            output.table(table, rows=pd.DataFrame(map(_image_row, listed)))
    if out is not None:
        agreement, discussed = pd.DataFrame(measured), pd.DataFrame(map(_image_row, images))
        write_text(out / "calibration_agreement.csv", agreement.to_csv(index=False, lineterminator="\n"))
        write_text(out / "images_to_discuss.csv", discussed.to_csv(index=False, lineterminator="\n"))
    output.say(_next_step(store, images))


def _agreement_row(attribute: str, each: AnswerAgreement) -> dict[str, Any]:
    found = each.agreement
    return {
        "attribute": attribute,
        "label": each.label,
        "reason": each.reason,
        "kappa": found.kappa,
        "ci_low": found.low,
        "ci_high": found.high,
        "equal": found.percent,
        "said_by_any": each.said_by_any,
        "said_by_all": each.said_by_all,
        "n": found.images,
    }


def _image_row(each: ToDiscuss) -> dict[str, Any]:
    from detector_bench.tables.calibration_round_tables import answer_in_words

    said = "; ".join(f"{name}: {answer_in_words(choice)}" for name, choice in each.choices.items())
    return {
        "image_id": each.image_id,
        "attribute": each.question,
        "differs_in": each.differs_in,
        "answers": said,
        "decided": each.decided,
    }


def _next_step(store: LabelStore, images: list[ToDiscuss]) -> str:
    """What is to be done about the round now, in one line."""
    found = store.calibration()
    if found.discussed:
        return f"The round of {found.total:,} images was discussed and closed: its answers stay as they are."
    left = [f"{name} has {found.total - done:,} left" for name, done in found.done.items() if done < found.total]
    if left or len(found.done) < 2:
        why = ", ".join(left) or "fewer than two people have begun"
        return f"Next: label the calibration round of {found.total:,} images to its end ({why})."
    open_ = sum(each.differs_in == "label" and not each.decided for each in images)
    if open_:
        return (
            f"Next: decide the {open_:,} open disagreements together on the desk's adjudication page, and write "
            "what you agree on into your guideline."
        )
    return "Next: press *Mark as discussed* on the desk's agreement page; then everybody labels the rest alone."
