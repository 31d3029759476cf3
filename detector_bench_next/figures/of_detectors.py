"""Figures of detectors: how good they are, what they filter, where their errors come from.

detectors, filter_plane, confusion, error_causes and threshold_sweep.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from detector_bench_next.attributes import ALL, Attribute
from detector_bench_next.errors import ConfigError
from detector_bench_next.figures import parts, style
from detector_bench_next.figures.parts import Number, Numbers
from detector_bench_next.figures.style import Drawn, Width
from detector_bench_next.results import Results

_SHOWN = {
    "f1": ("F1 of the filter (%)", 100.0),
    "filter_rate": ("Filter rate (%)", 100.0),
    "accuracy": ("Accuracy (%)", 100.0),
    "prompt_bias_score_difference": ("Prompt bias score error", 1.0),
}


@parts.figure("detectors", about="F1, filter rate, accuracy and bias error of each detector", needs="labels")
def detectors(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Four forests side by side with the letters of the detectors that are not told apart."""
    numbers = Numbers(results, attribute)
    ranks = numbers.table("ranks", t2i_model=ALL)
    letters = {(r["metric"], r["detector"]): r["groups"] for r in ranks.to_dict("records")}
    columns = 2 if width == "single" else 4
    rows = numbers.detectors
    page, grid = parts.panels(
        width, len(_SHOWN), columns=columns, height=0.15 * len(rows) + 0.32, other=0.2, sharex=False
    )
    data: dict[Any, Number] = {}
    for place, (axes, (metric, (heading, scale))) in enumerate(zip(grid, _SHOWN.items(), strict=True)):
        own = [numbers.of(metric, d).times(scale) for d in rows]
        data |= {(metric, d): n for d, n in zip(rows, own, strict=True)}
        parts.forest(axes, [[n] for n in own], missing="none")
        parts.name_rows(axes, rows, width)
        if place % columns:
            axes.tick_params(labelleft=False)
        for y, d in enumerate(rows):
            axes.text(
                1.02,
                y,
                letters.get((metric, d), ""),
                transform=axes.get_yaxis_transform(),
                size=style.SMALL,
                va="center",
            )
        axes.set_title(heading, size=style.SMALL)
    said = style.caption(
        attribute,
        f"Detectors of perceived {attribute.words} over all T2I models: F1 with clear images as positives, share "
        "of the low-quality images filtered out, accuracy on images clear to both, mean distance of the prompt "
        "bias scores from the labels' (smaller is better)."
        + (" Detectors that share a letter are not told apart by that number." if any(letters.values()) else ""),
        numbers.intervals(list(data.values())),
        notes=parts.left_out({d: n for (m, d), n in data.items() if m == "accuracy"}, "clear images"),
    )
    return Drawn(page, said, parts.as_data(data, ["metric", "detector"]))


def recall_for(level: float, filter_rate: float, share: float) -> float:
    """Recall at which the filter's F1 reaches `level`; above 1 it is out of reach.

    With c the share of clear images, f the filter rate, r the recall: F1 = 2 r c / (r c + (1 - f)(1 - c) + c).
    """
    return level * ((1 - filter_rate) * (1 - share) + share) / (share * (2 - level))


@parts.figure("filter_plane", about="recall by filter rate with lines of equal F1", needs="labels")
def filter_plane(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Plane of recall by filter rate; marks are numbered, the list stands beside or below."""
    numbers = Numbers(results, attribute)
    points = {d: (numbers.of("filter_rate", d), numbers.of("recall", d)) for d in numbers.detectors}
    there = {d: p for d, p in points.items() if p[0].there and p[1].there}
    clear = numbers.of("images_clear").value
    low = numbers.of("label_share_low_quality")
    low_quality = round(low.value * low.n) if low.there else 0
    inches = 0.125 * (len(points) + 1) + 0.1
    page = style.new_figure(width, 2.7 if width == "double" else 2.6 + inches)
    if width == "double":
        axes, listed = page.subplots(1, 2, width_ratios=(1, 1))
    else:
        axes, listed = page.subplots(2, 1, height_ratios=(2.5, inches))
    across, up = (_ends([v for p in there.values() for v in p[i][:3]]) for i in (0, 1))
    axes.set_xlim(across)
    axes.set_ylim(up)
    axes.spines[["top", "right"]].set_visible(True)
    if clear and low_quality and there:
        share, drawn = clear / (clear + low_quality), list[float]()
        for level in (0.9, 0.8, 0.95, 0.7, 0.6, 0.98, 0.5, 0.99, 0.97, 0.96, 0.4, 0.93, 0.85, 0.3):
            ends = [recall_for(level, x, share) for x in across]
            if up[0] < ends[1] < min(up[1], 1) and all(abs(ends[1] - o) > 0.06 * (up[1] - up[0]) for o in drawn):
                drawn.append(ends[1])
                axes.plot(across, ends, color=style.PALE, lw=0.7, zorder=0)
                place = {"xytext": (3, 0), "textcoords": "offset points", "annotation_clip": False}
                axes.annotate(
                    f"F1 {100 * level:g}",
                    (across[1], ends[1]),
                    va="center",
                    size=style.SMALL,
                    color=style.GREY,
                    **place,
                )
    spots: dict[tuple[float, float], list[str]] = {}
    for number, (d, (x, y)) in enumerate(points.items(), start=1):
        if d in there:
            spots.setdefault((round(x.value, 3), round(y.value, 3)), []).append(str(number))
            axes.plot([x.low, x.high], [y.value] * 2, color=style.BLUE, lw=0.6, alpha=0.5)
            axes.plot([x.value] * 2, [y.low, y.high], color=style.BLUE, lw=0.6, alpha=0.5)
            axes.plot(
                x.value, y.value, "o", color=style.BLUE, ms=3.6, mec="white", mew=0.4, clip_on=False, zorder=3
            )
    for spot, own in spots.items():  # detectors that filter alike share one mark
        beside = {"xytext": (3.5, 3.5), "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(", ".join(own), spot, size=style.SMALL, zorder=4, **beside)
    if not there:
        style.say_instead(axes, "no detector has both\na recall and a filter rate")
    parts.percent(axes, "x")
    parts.percent(axes, "y")
    axes.set_xlabel("Filter rate (%): low-quality images filtered out")
    axes.set_ylabel("Recall (%): clear images kept")
    _list_points(listed, numbers, points)
    said = style.caption(
        attribute,
        f"Filtering by perceived {attribute.words}: recall against filter rate, over all T2I models; the upper "
        "right corner is best. Axes begin and end where the detectors are.",
        f"Grey: lines of equal F1 for {style.counted(clear, 'clear image')} and {low_quality:,} low-quality ones."
        if clear and low_quality
        else "F1 has no lines: there is no low-quality image."
        if clear
        else "F1 has no lines: no image is clear.",
        numbers.intervals([n for p in there.values() for n in p]),
        notes=[(d, "not in the plane") for d in points if d not in there],
    )
    data = parts.as_data(
        {(d, m): n for d, p in points.items() for m, n in zip(("filter_rate", "recall"), p, strict=True)},
        ["detector", "metric"],
    )
    return Drawn(page, said, data)


def _ends(values: list[float]) -> tuple[float, float]:
    known = [v for v in values if not math.isnan(v)] or [0.0, 1.0]
    low, high = max(0.0, min(known)), min(1.0, max(known))
    if high - low < 0.1:
        middle = min(max((low + high) / 2, 0.05), 0.95)
        low, high = middle - 0.05, middle + 0.05
    air = 0.06 * (high - low)
    return low - air, high + air


def _list_points(axes: Any, numbers: Numbers, points: dict[str, tuple[Number, Number]]) -> None:
    axes.set_axis_off()
    text = [
        [
            str(i),
            style.shortened(d, 1.15),
            *(style.signed(100 * n.value, 1) for n in (recall, rate, numbers.of("f1", d))),
        ]
        for i, (d, (rate, recall)) in enumerate(points.items(), start=1)
    ]
    heads, widths = ["", "", "Recall", "Filter rate", "F1"], [0.07, 0.45, 0.15, 0.2, 0.13]
    table = axes.table(text, colLabels=heads, colWidths=widths, loc="upper left", edges="open", cellLoc="right")
    table.auto_set_font_size(False)  # noqa: FBT003 - as matplotlib has it
    table.set_fontsize(style.SMALL)
    for (_, column), cell in table.get_celld().items():
        cell.set_height(0.125 / axes.get_window_extent().height * axes.figure.dpi)
        cell.set_text_props(ha="left" if column == 1 else "right")


@parts.figure("confusion", about="predictions by human label", needs="labels")
def confusion(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Heat map for each detector: human label by prediction, in per cent of the label's images."""
    numbers = Numbers(results, attribute)
    table = numbers.table("confusion", t2i_model=ALL, category=ALL)
    labels = [word for word in attribute.labels if (table["human_label"].astype("str") == word).any()]
    said_by = [*attribute.class_names, "filtered", "no_verdict"]
    images = table[table["human_label"].astype("str").isin(labels).to_numpy()]
    if not (images["images"].astype(float)[(images["predicted"] == "no_verdict").to_numpy()] > 0).any():
        said_by.remove("no_verdict")
    words = {c.name: parts.in_sentence(c.text) for c in attribute.classes} | {
        "low_quality": "low quality",
        "others": "others",
        "filtered": "filtered",
        "no_verdict": "error",
    }
    columns = (2 if width == "single" else 4) // (2 if len(attribute.class_names) > 3 else 1)
    page, grid = parts.panels(
        width, len(numbers.detectors), columns=columns, height=0.17 * len(labels) + 0.35, other=0.9
    )
    keys = ["detector", "human_label", "predicted"]
    counts = images.astype(dict.fromkeys(keys, "str")).groupby(keys)["images"].sum().to_dict()
    data: dict[Any, Number] = {}
    for axes, detector in zip(grid, numbers.detectors, strict=True):
        own = np.array([[float(counts.get((detector, lab, said), 0)) for said in said_by] for lab in labels])
        total = own.sum(1, keepdims=True)
        shares = np.divide(100 * own, total, out=np.full_like(own, np.nan), where=total > 0)
        for (i, j), n in np.ndenumerate(own):
            data[detector, labels[i], said_by[j]] = Number(n, n=total[i, 0])
        parts.heat(
            axes,
            shares,
            rows=[f"{words[lab]} ({n:,.0f})" for lab, n in zip(labels, total[:, 0], strict=True)],
            columns=[words[said] for said in said_by],
            colours=parts.map_of("#FFFFFF", style.BLUE),
            limits=(0, 100),
            words=lambda value: f"{value:.0f}",
            upright=True,
        )
        parts.title(axes, detector, width, min(columns, len(grid)))
    parts.name_axes(page, grid, "Prediction", "Human label (images)")
    text = style.caption(
        attribute,
        f"Predictions of perceived {attribute.words} by human label, over all T2I models, in per cent of the "
        "images with that label; a row adds up to 100.",
        "Images without any answer are errors, not filtered." if "no_verdict" in said_by else "",
    )
    return Drawn(page, text, parts.as_data(data, ["detector", "human_label", "predicted"]))


@parts.figure("error_causes", about="parts of filtering and classification in the bias error", needs="labels")
def error_causes(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Stacked parts of the prompt bias score error: filtering, classification, and what both leave."""
    numbers = Numbers(results, attribute)
    table = numbers.table("causes", t2i_model=ALL, category=ALL, error_metric="prompt_bias_score_difference")
    if not len(table):
        raise ConfigError("no detector has a prompt bias score error to take apart")
    rows = {r["detector"]: r for r in table.to_dict("records")}
    page = style.new_figure(width, 0.2 * len(rows) + 0.65)
    axes = page.subplots()
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    stacked = {"filtering": style.BLUE, "classification": style.ORANGE}
    data: dict[Any, Number] = {}
    for y, (d, r) in enumerate(rows.items()):
        ends = [0.0, 0.0]
        for hatch, (part, colour) in zip(style.HATCHES, stacked.items(), strict=False):
            value = float(r[part])
            data[d, part] = Number(value, n=float(r["n"]))
            if not math.isnan(value):
                look: dict[str, Any] = {"color": colour, "hatch": hatch, "ec": "white", "lw": 0.3}
                axes.barh(y, value, left=ends[value > 0], height=0.6, **look)
                ends[value > 0] += value
        data[d, "error"] = Number(float(r["error"]), n=float(r["n"]), left_out=float(r["n_left_out"]))
        axes.plot([float(r["error"])] * 2, [y - 0.38, y + 0.38], color=style.BLACK, lw=1.4)
    parts.name_rows(axes, list(rows), width)
    axes.axvline(0, color=style.BLACK, lw=0.5)
    parts.cut_to(axes, list(axes.dataLim.intervalx), keep=[0.0])
    axes.set_xlabel("Error of the prompt bias scores (mean distance)")
    looks = zip(stacked.items(), style.HATCHES, strict=False)
    handles: list[Any] = [Patch(facecolor=c, hatch=h, ec="white", label=word) for (word, c), h in looks]
    handles.append(Line2D([], [], color=style.BLACK, lw=1.4, label="the error"))
    parts.legend_above(page, handles, width)
    said = style.caption(
        attribute,
        f"Error of the prompt bias scores of perceived {attribute.words}, taken apart by putting the labels in "
        "the place of the filter, of the classes, or of both (each part the mean of both orders).",
        "The parts add up to the error less what stays when both are right. An accounting, not a test: filtered "
        "images are assumed to have been classified as the kept ones where their class is not known.",
    )
    return Drawn(page, said, parts.as_data(data, ["detector", "part"]))


@parts.figure("threshold_sweep", about="recall, filter rate and bias error at every threshold", needs="labels")
def threshold_sweep(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Lines of recall, filter rate and prompt bias score error by threshold, from where anything changes."""
    numbers = Numbers(results, attribute)
    table = numbers.table("sweeps", t2i_model=ALL)
    shown = {"recall": "recall", "filter_rate": "filter rate", "prompt_bias_score_difference": "bias score error"}
    table = table[table["metric"].astype("str").isin(shown).to_numpy()]
    names = list(dict.fromkeys(table["detector"].astype("str")))
    if not names:
        raise ConfigError("no detector has scores, so no threshold can be laid on them")
    columns = 2 if width == "single" else 4
    page, grid = parts.panels(width, len(names), columns=columns, height=1.35, other=0.6)
    data: dict[Any, Number] = {}
    starts: list[float] = []
    for axes, d in zip(grid, names, strict=True):
        own = table[(table["detector"].astype("str") == d).to_numpy()]
        for i, metric in enumerate(shown):
            rows = own[(own["metric"].astype("str") == metric).to_numpy()].sort_values("threshold")
            at, value = rows["threshold"].to_numpy(float), rows["value"].to_numpy(float)
            data |= {(d, metric, f"{t:g}"): Number(v) for t, v in zip(at, value, strict=True)}
            moved = np.flatnonzero(~np.isclose(value, value[:1], equal_nan=True))
            starts += [float(at[max(0, moved[0] - 1)])] if len(moved) else []
            line = axes.plot(at, value, color=style.SERIES[i], ls=("-", (0, (4, 1.5)), (0, (1, 1)))[i], lw=1)[0]
            line.set_label(shown[metric])
        axes.set_ylim(-0.03, 1.03)
        parts.title(axes, d, width, min(columns, len(grid)))
    grid[0].set_xlim(min(starts, default=0.0), 1)
    parts.legend_above(page, grid[0].get_lines(), width)
    parts.name_axes(page, grid, "Threshold on the detector's score", "Value")
    said = style.caption(
        attribute,
        f"Recall and filter rate of the filter, and mean distance of the prompt bias scores of perceived "
        f"{attribute.words} from the labels', if only predictions with at least this score were kept.",
        "Each axis begins where the first detector changes. The best threshold chosen here flatters itself: judge "
        "it on other prompts.",
    )
    return Drawn(page, said, parts.as_data(data, ["detector", "metric", "threshold"]))
