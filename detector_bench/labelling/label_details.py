"""How each label came about, as a table: in which words it was asked for, what was proposed, how long it took."""

from __future__ import annotations

import pandas as pd

from detector_bench.labelling.store import LabelStore

COLUMNS = (
    *("image_id", "annotator", "attribute", "label", "reason", "note", "value"),
    *("language", "question", "way", "proposed", "proposed_by", "asked_again", "seconds", "recorded_at"),
)
"""One row per label that counts. `way`: `grid` or `alone`, empty for decisions and labels out of files; `question`
and `language`: as the annotator saw them, empty where it was not kept; `asked_again`: whether the image was sent
back before this label was given; `seconds`: of a grid, the page's time divided by its pictures."""


def label_details_csv(store: LabelStore, *, include_changed: bool = False) -> str:
    """The labels that count, with all that the store knows of how they came about, as the text of a CSV.

    Args:
        store: whose labels.
        include_changed: also labels on other content than an image has now.
    """
    wordings = {
        name: {question["name"]: question["text"] for question in content["questions"]}
        for name, content in store.wordings().items()
    }
    rows = []
    for given in store.given(include_changed=include_changed):
        asking, entry, choice = given.entry.asking, given.entry, given.choice
        way = "grid" if asking.in_grid else "alone" if asking.wording else ""
        seconds = "" if entry.milliseconds is None else f"{entry.milliseconds / 1000:g}"
        asked = wordings.get(asking.wording, {}).get(given.question, "")
        rows.append(
            (
                *(given.item.item_id, given.annotator, given.question, choice.label, choice.reason, choice.note),
                "" if choice.value is None else f"{choice.value:g}",
                *(asking.language, asked, way, asking.proposed, asking.proposed_by),
                "yes" if store.was_sent_back_before(entry) else "no",
                *(seconds, entry.recorded_at),
            )
        )
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype="str").to_csv(index=False, lineterminator="\n")
