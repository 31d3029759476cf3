"""The table of confusion matrices: what each detector said about the images of each human label."""

from __future__ import annotations

import pandas as pd

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, count_cell, in_words
from detector_bench.vocabulary import ALL, attribute_named
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS


def confusion(rows: pd.DataFrame, *, attribute: str = "gender", t2i_model: str = ALL) -> Table:
    """Numbers of images by human label and verdict, a block of rows for each detector.

    A verdict is a class, filtered, or no verdict (an error, or never run). Human labels without an image have no
    row.

    Args:
        rows: confusion matrices (`schema.CONFUSION_COLUMNS`).
        attribute: the one to tabulate.
        t2i_model: one of them; "all" for all images.

    Raises:
        ConfigError: no such attribute in the vocabulary, or no such T2I model among the rows.
        ValueError: columns are missing.
    """
    if lacking := [name for name in CONFUSION_COLUMNS if name not in rows.columns]:
        raise ValueError(f"no confusion matrices: the columns {', '.join(lacking)} are missing")
    labels = attribute_named(attribute).labels
    of_attribute = rows[(rows["attribute"] == attribute) & (rows["category"] == ALL)]
    known = [str(name) for name in pd.unique(of_attribute["t2i_model"])]
    if known and t2i_model not in known:
        raise ConfigError(f"no confusion matrices of T2I model {t2i_model!r}: {nearest_hint(t2i_model, known)}")
    chosen = of_attribute[of_attribute["t2i_model"] == t2i_model]
    verdicts = [str(name) for name in pd.unique(chosen["verdict"])]
    images = {
        (str(detector), str(label), str(verdict)): float(number)
        for detector, label, verdict, number in zip(
            *(chosen[name] for name in ("detector", "human_label", "verdict", "images")), strict=True
        )
    }
    detectors = list(dict.fromkeys(detector for detector, _, _ in images))
    found = [
        Row(
            f"{detector}, {in_words(label).lower()}",
            (
                Cell(detector),
                Cell(in_words(label), key=label),
                *(count_cell(images[detector, label, verdict]) for verdict in verdicts),
            ),
        )
        for detector in detectors
        for label in labels
        if (detector, label, verdicts[0]) in images
    ]
    of_model = "" if t2i_model == ALL else f" of {t2i_model}"
    return Table(
        name="confusion",
        caption=(
            f"Images{of_model} by human label and detector's verdict on perceived "
            f"{attribute_in_words(attribute)}. No verdict: an error, or never run."
        ),
        attribute=attribute,
        columns=(
            Column("detector", "Detector", kind="name"),
            Column("human_label", "Human label", kind="name"),
            *(Column(verdict, in_words(verdict), group="Verdict (images)") for verdict in verdicts),
        ),
        rows=tuple(found),
        notes=() if found else (f"No detector of this study judges {attribute}.",),
        grouped=True,
    )
