"""Writes the tables of docs/audit.md that come from measurements.

python docs/write_worth_table.py docs/audit.md --worlds coverage.csv --portraits portraits.csv

The CSV files are those of benchmarks/audit_coverage.py and benchmarks/audit_portraits.py.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

LABELS_ONLY, POWERED = "labels_only", "prediction_powered"
WAYS = {
    "hidden": "a quarter of each prompt",
    "equal": "8 of each prompt",
    "verdicts": "8, by verdicts",
    "disagreement": "8, by disagreement",
}
SCORES = {
    "label_share_male": "share of men",
    "label_share_female": "share of women",
    "label_share_low_quality": "share of low-quality images",
    "mean_prompt_bias_score": "mean prompt bias score",
    "model_bias_score": "model bias score",
    "prompt_bias_score": "prompt bias scores",
}


def worlds(rows: pd.DataFrame) -> list[str]:
    """What verdicts are worth in each world, at each number of labels per prompt."""
    head = ["world", "images per prompt", "labels per prompt"]
    for name in ("first class", "model bias score"):
        head += [f"{name}: held, %", "width / labels alone", "worth"]
    lines = _head([*head, "bias alone, with"], words=1)
    rows = rows[rows["about"] == "images"]
    for place, own in rows.groupby(["world", "images_per_prompt", "labels_per_prompt"], sort=False):
        means = own.groupby(["score", "variant"])[["coverage", "bias", "width_ratio", "worth_labels"]].mean()
        cells = [str(place[0]), f"{place[1]:g}", f"{place[2]:g}"]
        for score in ("share_0", "model_bias_score"):
            found = means.loc[score, POWERED]
            cells += [
                f"{100 * found['coverage']:.1f}",
                _number(found["width_ratio"], ".2f"),
                _number(found["worth_labels"], ".1f"),
            ]
        off = (means.loc["model_bias_score", variant]["bias"] for variant in (LABELS_ONLY, POWERED))
        lines.append(_line([*cells, ", ".join(f"{each:+.3f}" for each in off)]))
    return lines


def portraits(rows: pd.DataFrame) -> list[str]:
    """The portraits with three of four labels hidden."""
    head = ["labels", "score", "of all labels", "held, %: labels alone", "with detectors", "half-width: alone"]
    lines = _head([*head, "with", "worth"], words=2)
    rows = rows[(rows["attribute"] == "gender") & rows["score"].isin(SCORES)]
    for (way, score), own in rows.groupby(["way", "score"], sort=False):
        alone, powered = (own[own["variant"] == variant].iloc[0] for variant in (LABELS_ONLY, POWERED))
        held = [f"{100 * each['coverage']:.1f}" for each in (alone, powered)]
        widths = [f"{each['half_width']:.3f}" for each in (alone, powered)]
        shown = [WAYS[way], SCORES[score], f"{alone['truth']:.3f}"]
        lines.append(_line([*shown, *held, *widths, f"{powered['worth_labels']:.1f}"]))
    return lines


def _number(value: float, form: str) -> str:
    """A dash where there is no number: of a score that labels alone know as exactly, for instance."""
    return "-" if pd.isna(value) else format(value, form)


def _head(names: Sequence[str], *, words: int) -> list[str]:
    return [_line(names), "|" + "---|" * words + "---:|" * (len(names) - words)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def replaced(text: str, name: str, lines: Sequence[str]) -> str:
    """The page with other lines between the markers of this name."""
    pattern = rf"(<!-- {name}: .*?-->\n).*?(<!-- /{name} -->)"
    body = "".join(f"{line}\n" for line in lines)
    found, places = re.subn(pattern, lambda match: match[1] + body + match[2], text, flags=re.DOTALL)
    if places != 1:
        raise SystemExit(f"the page has {places} places for {name!r}")
    return found


def main() -> None:
    """Rewrite the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    makers: dict[str, Callable[[pd.DataFrame], list[str]]] = {"worlds": worlds, "portraits": portraits}
    for name in makers:
        parser.add_argument(f"--{name}", type=Path)
    options = vars(parser.parse_args())
    text = options["page"].read_text(encoding="utf-8")
    for name, make in makers.items():
        if options[name]:
            text = replaced(text, name, make(pd.read_csv(options[name])))
    options["page"].write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
