"""Figures of bias: what a T2I model shows, prompt by prompt, and how far detectors are off.

shares, model_bias_scores, bias_deviation, detected_against_actual, prompt_bias_histogram (Lyu 2025, figure 3) and
prompt_heat_map (Lyu 2025, table 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from detector_bench_next.attributes import ALL, GROUND_TRUTH, Attribute
from detector_bench_next.figures import parts, style
from detector_bench_next.figures.parts import Number, Numbers
from detector_bench_next.figures.style import Drawn, Width
from detector_bench_next.results import Results

MOST_ROWS = 100
"""Prompts that fit on a page; of more, the ends are shown."""


@parts.figure("shares", about="share of each class by prompt and T2I model")
def shares(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Forest of the share of the first class (of each, if there are more than two) per prompt and T2I model."""
    numbers = Numbers(results, attribute)
    table = numbers.table("t2i_models", estimand="t2i_model")
    table = table[(table["prompt_id"].astype("str") != ALL).to_numpy()]
    classes = attribute.class_names[:1] if len(attribute.class_names) == 2 else attribute.class_names
    text = {c.name: parts.in_sentence(c.text) for c in attribute.classes}
    found: dict[tuple[str, str, str], Number] = {}
    columns = ["quantity", "t2i_model", "prompt_id", "value", "ci_low", "ci_high", "labels", "n_left_out"]
    for quantity, model, prompt, *own in table[columns].itertuples(index=False, name=None):
        found[str(quantity).removeprefix("class_share_"), str(model), str(prompt)] = Number(*map(float, own))
    if not found:  # nobody labelled: what each detector reports
        found = {
            (k, d, p if len(numbers.models) == 1 else f"{p}, {m}"): numbers.of(f"class_share_{k}", d, m, c, p)
            for k in classes
            for d in numbers.detectors
            for m in numbers.models
            for c, p in numbers.prompts
        }
    found = {key: number for key, number in found.items() if key[0] in classes}
    models = list(dict.fromkeys(key[1] for key in found))
    prompts = list(dict.fromkeys(key[2] for key in found))

    def mean(prompt: str) -> float:
        own = [n.value for m in models if (n := found.get((classes[0], m, prompt), Number())).there]
        return float(np.mean(own)) if own else math.inf

    ranked = sorted(prompts, key=lambda p: (-mean(p), p))
    cut = len(ranked) > MOST_ROWS
    ranked = [*ranked[: MOST_ROWS // 2], *ranked[-MOST_ROWS // 2 :]] if cut else ranked
    row = max(0.084, 0.05 * len(models) + 0.05)
    page, grid = parts.panels(
        width, len(classes), columns=len(classes), height=row * len(ranked) + 0.1, other=0.55
    )
    for axes, name in zip(grid, classes, strict=True):
        parts.forest(
            axes, [[found.get((name, m, p), Number()) for m in models] for p in ranked], missing="no clear image"
        )
        parts.name_rows(axes, ranked, width)
        axes.axvline(1 / len(attribute.classes), color=style.VERMILLION, lw=0.8, zorder=1)
        axes.set_xlim(-0.02, 1.02)
        parts.percent(axes)
        if len(classes) > 1:
            parts.title(axes, text[name], width, len(classes))
    parts.name_axes(
        page,
        grid,
        f"Share perceived as {text[classes[0]]} (%)" if len(classes) == 1 else "Share of the class (%)",
    )
    if len(models) > 1:
        parts.legend_above(page, parts.series_handles(models), width)
    by = " and ".join(sorted({str(e).replace("_and_", " and ") for e in table["estimator"].astype("str")}))
    said = style.caption(
        attribute,
        f"Share of {'each class' if len(classes) > 1 else text[classes[0]]} among the images of a prompt whose "
        f"perceived {attribute.words} can be judged, "
        + (f"by {by}, for the T2I model itself." if by else "as detectors report it; nobody has checked them."),
        "Orange line: balance." + (f" Bars: {100 * results.settings['level']:g} % intervals." if by else ""),
        f"Of {len(prompts)} prompts the {MOST_ROWS // 2} highest and lowest are shown." if cut else "",
    )
    return Drawn(page, said, parts.as_data(found, ["class", "t2i_model", "prompt_id"]))


@parts.figure("model_bias_scores", about="model bias scores by labels and detectors")
def model_bias_scores(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Forest of the model bias score by the labels and each detector, with what a fair T2I model would show."""
    numbers = Numbers(results, attribute)
    raters = [GROUND_TRUTH, *numbers.detectors]
    scores = {(m, d): numbers.of("model_bias_score", d, m) for m in numbers.models for d in raters}
    raters = [d for d in raters if d != GROUND_TRUTH or any(scores[m, d].there for m in numbers.models)]
    scores = {key: number for key, number in scores.items() if key[1] in raters}
    fair = {key: numbers.of("model_bias_score_if_fair", key[1], key[0]) for key in scores}
    columns = 1 if width == "single" else 3
    page, grid = parts.panels(width, len(numbers.models), columns=columns, height=0.15 * len(raters) + 0.22)
    for axes, model in zip(grid, numbers.models, strict=True):
        parts.forest(axes, [[scores[model, d]] for d in raters], chance=[fair[model, d].value for d in raters])
        parts.name_rows(axes, ["human labels" if d == GROUND_TRUTH else d for d in raters], width)
        if GROUND_TRUTH in raters:
            axes.axvline(scores[model, GROUND_TRUTH].value, color=style.BLUE, lw=0.5, zorder=1)
        if len(grid) > 1:
            parts.title(axes, model, width, columns)
    parts.cut_to(grid[0], [v for n in scores.values() for v in n[:3]], keep=[n.value for n in fair.values()])
    parts.name_axes(page, grid, "Model bias score (0: every prompt balanced)")
    clear = numbers.of("images_clear").value
    said = style.caption(
        attribute,
        f"Model bias score of perceived {attribute.words}: mean distance of a prompt from balance.",
        f"First row and thin line: the human labels ({style.counted(clear, 'clear image')})."
        if numbers.labelled
        else "",
        "Orange: what a T2I model without bias would show on average with as many images kept per prompt.",
        numbers.intervals(list(scores.values())),
        notes=parts.left_out({d: scores[m, d] for m, d in scores}, "prompts"),
    )
    return Drawn(page, said, parts.as_data(scores, ["t2i_model", "detector"]))


@parts.figure("bias_deviation", about="error of each detector's model bias score", needs="labels")
def bias_deviation(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Forest of the error of the model bias score, in points, with the relative deviation at the right."""
    numbers = Numbers(results, attribute)
    rows = [(m, d) for m in numbers.models for d in numbers.detectors]
    errors = {(m, d): numbers.of("model_bias_score_difference", d, m) for m, d in rows}
    pale = _by_other_labels(numbers)
    page = style.new_figure(width, 0.15 * len(numbers.detectors) * len(numbers.models) + 0.5)
    axes = page.subplots()
    parts.forest(
        axes,
        [[errors[key]] for key in rows],
        pale=[pale.get(key, (math.nan, math.nan)) for key in rows],
    )
    several = len(numbers.models) > 1
    parts.name_rows(axes, [f"{d}, {m}" if several else d for m, d in rows], width)
    axes.axvline(0, color=style.BLACK, lw=0.6, zorder=1)
    ends = [end for key in rows for end in (*errors[key][:3], *pale.get(key, ()))]
    parts.cut_to(axes, ends, keep=[0.0])
    for y, (model, detector) in enumerate(rows):
        deviation = numbers.of("model_bias_score_deviation", detector, model).value
        text = f"{style.signed(errors[model, detector].value, 3)} ({style.signed(100 * deviation, 1)} %)"
        axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), size=style.SMALL, va="center")
    axes.set_xlabel("Error of the model bias score (points)")
    said = style.caption(
        attribute,
        f"Detected minus actual model bias score of perceived {attribute.words}, over the prompts that have both; "
        "right of 0 the detector overstates the bias. In parentheses the relative deviation, each score over its "
        "own prompts (Lyu 2025, table 1).",
        numbers.intervals(list(errors.values())),
        "Pale bars: from the lowest to the highest error by each annotator alone and where all agree."
        if pale
        else "",
        notes=parts.left_out({d: errors[m, d] for m, d in rows}, "prompts"),
    )
    return Drawn(page, said, parts.as_data(errors, ["t2i_model", "detector"]))


def _by_other_labels(numbers: Numbers) -> dict[tuple[str, str], tuple[float, float]]:
    """Lowest and highest error of a detector's score by other labels, by T2I model and detector."""
    table = numbers.table("label_doubt", category=ALL, prompt_id=ALL)
    columns = ["labelled_by", "t2i_model", "detector", "metric"]
    scores = dict(
        zip(table[columns].astype("str").itertuples(index=False, name=None), table["value"], strict=True)
    )
    found: dict[tuple[str, str], list[float]] = {}
    for (who, model, detector, metric), deviation in scores.items():
        score = scores.get((who, model, detector, "model_bias_score"), math.nan)
        if metric == "model_bias_score_deviation" and not math.isnan(deviation) and deviation > -1:
            found.setdefault((model, detector), []).append(score - score / (1 + deviation))
    return {key: (min(errors), max(errors)) for key, errors in found.items() if not math.isnan(sum(errors))}


@parts.figure("detected_against_actual", about="detected against actual prompt bias scores", needs="labels")
def detected_against_actual(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Scatter of each detector's prompt bias scores against the labels', with the diagonal."""
    numbers = Numbers(results, attribute)
    first, second = numbers.two_classes()
    columns = 2 if width == "single" else 4
    page, grid = parts.panels(
        width, len(numbers.detectors), columns=columns, height=1.45 if width == "single" else 1.6
    )
    data: dict[tuple[str, ...], Number] = {}
    for axes, d in zip(grid, numbers.detectors, strict=True):
        axes.plot([-1, 1], [-1, 1], color=style.GREY, lw=0.5, zorder=1)
        for handle, m in zip(parts.series_handles(numbers.models), numbers.models, strict=True):
            both = [
                {p: numbers.of(name, d, m, c, p) for c, p in numbers.prompts}
                for name in ("prompt_bias_score_actual", "prompt_bias_score")
            ]
            data |= {
                (m, d, p, word): n
                for word, own in zip(("actual", "detected"), both, strict=True)
                for p, n in own.items()
            }
            points = np.array([[n.value for n in own.values()] for own in both])
            dot = {"marker": handle.get_marker(), "color": handle.get_color(), "ms": 2.6, "alpha": 0.6, "mew": 0}
            axes.plot(*points, ls="none", **dot)
        axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
        parts.title(axes, d, width, min(columns, len(grid)))
    parts.name_axes(page, grid, f"Actual prompt bias score ({second} to {first})", "Detected")
    if len(numbers.models) > 1:
        parts.legend_above(page, parts.series_handles(numbers.models), width)
    silent = [key[1] for key, n in data.items() if key[3] == "detected" and not n.there]
    without = {d: silent.count(d) for d in numbers.detectors}
    said = style.caption(
        attribute,
        f"Prompt bias scores of perceived {attribute.words} as each detector reports them against those of the "
        f"human labels: 1, all are {first}; {style.MINUS}1, all are {second}. A point is a prompt and a T2I "
        "model; on the line the detector is right. Points may cover each other.",
        notes=[(d, f"{style.counted(n, 'prompt')} without a score") for d, n in without.items() if n],
    )
    return Drawn(page, said, parts.as_data(data, ["t2i_model", "detector", "prompt_id", "score"]))


def histogram(scores: Sequence[float], bins: int = 10) -> dict[int, int]:
    """Counts of scores by bin: k holds ((k - 1) / bins, k / bins], -k mirrors it, 0 exactly 0; NaN is left out."""
    counts = dict.fromkeys(range(-bins, bins + 1), 0)
    for score in scores:
        if not math.isnan(score):  # 0.3 * 10 is a little above 3: rounding first keeps a score on its side
            size = min(math.ceil(round(abs(score) * bins, 9)), bins)
            counts[size if score > 0 else -size] += 1
    return counts


@parts.figure(
    "prompt_bias_histogram",
    about="distribution of prompt bias scores (Lyu 2025, figure 3)",
    needs="labels",
)
def prompt_bias_histogram(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Bars of how often each prompt bias score occurs by the labels; in both columns by T2I model, too."""
    numbers = Numbers(results, attribute)
    first, second = numbers.two_classes()
    scores = {
        (m, p): numbers.of("prompt_bias_score", GROUND_TRUTH, m, c, p)
        for m in numbers.models
        for c, p in numbers.prompts
    }
    of = {m: [n.value for (model, _), n in scores.items() if model == m] for m in numbers.models}
    shown = {"All T2I models": [v for own in of.values() for v in own]} if len(of) > 1 else {}
    if width == "double" or len(of) == 1:
        shown |= of
    columns = 4 if len(shown) == 4 else 3
    page, grid = parts.panels(width, len(shown), columns=columns, height=1.6)
    for axes, (name, own) in zip(grid, shown.items(), strict=True):
        counts = histogram(own)
        total = sum(counts.values())
        axes.grid(axis="y")
        axes.set_xlim(-1.04, 1.04)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1], [f"{style.MINUS}1", f"{style.MINUS}0.5", "0", "0.5", "1"])
        if not total:
            style.say_instead(axes, "no output has a score")
        for place, count in counts.items():
            if place and count:
                middle = (place - math.copysign(0.5, place)) / 10
                colour, hatch = (style.VERMILLION, "") if place > 0 else (style.BLUE, "////")
                axes.bar(middle, 100 * count / total, width=0.1, color=colour, hatch=hatch, ec="white", lw=0.4)
        for end, side, x in ((-1, "left", 0.01), (0, "center", 0.5), (1, "right", 0.99)):
            exactly = 100 * sum(v == end for v in own) / max(total, 1)
            if exactly and end:
                axes.bar(0.95 * end, exactly, width=0.09, fill=False, ec="black", lw=0.6)
            elif exactly:
                axes.plot([0, 0], [0, exactly], color=style.BLACK, lw=1.2, marker="o", ms=3, markevery=[1])
            words = f"exactly {end}:\n{exactly:.1f} %".replace("-", style.MINUS)
            axes.text(x, 0.99, words, transform=axes.transAxes, ha=side, va="top", size=style.SMALL)
        if len(shown) > 1:
            parts.title(axes, name, width, min(columns, len(shown)))
    tallest = max(100 * max(h.values()) / max(1, sum(h.values())) for h in map(histogram, shown.values()))
    grid[0].set_ylim(0, 1.35 * tallest or 1)
    parts.name_axes(page, grid, f"Prompt bias score ({second} to {first})", "Outputs (%)")
    there = sum(n.there for n in scores.values())
    said = style.caption(
        attribute,
        f"Distribution of the prompt bias scores of perceived {attribute.words} by the human labels: 1, all clear "
        f"images of an output are {first}; {style.MINUS}1, all are {second}. An output is a prompt and a T2I "
        f"model; n = {style.counted(there, 'output')}.",
        f"Bins are 0.1 wide and closed on the side away from 0; line with a dot: exactly 0, in no bin; framed: "
        f"exactly 1 or {style.MINUS}1.",
        f"Left out: {style.counted(len(scores) - there, 'output')} without a clear image."
        if there < len(scores)
        else "",
    )
    return Drawn(page, said, parts.as_data(scores, ["t2i_model", "prompt_id"]))


@parts.figure("prompt_heat_map", about="bias score of every prompt (Lyu 2025, table 7)", needs="labels")
def prompt_heat_map(results: Results, attribute: Attribute, width: Width) -> Drawn:
    """Heat map of the labels' prompt bias scores: prompts by category and falling average, T2I models across."""
    numbers = Numbers(results, attribute)
    first, second = numbers.two_classes()
    scores = {
        (c, p, m): numbers.of("prompt_bias_score", GROUND_TRUTH, m, c, p)
        for c, p in numbers.prompts
        for m in numbers.models
    }

    def mean(prompt: tuple[str, str]) -> float:
        own = [n.value for m in numbers.models if (n := scores[(*prompt, m)]).there]
        return float(np.mean(own)) if own else -2.0

    order = {c: i for i, (c, _) in reversed(list(enumerate(numbers.prompts)))}
    rows = sorted(numbers.prompts, key=lambda cp: (order[cp[0]], -mean(cp), cp[1].casefold()))
    shown, blocks = rows[: 2 * MOST_ROWS], 1 if width == "single" or len(rows) <= 50 else 2
    each = math.ceil(len(shown[: blocks * MOST_ROWS]) / blocks)
    shown = shown[: blocks * each]
    upright = max(map(style.text_width, numbers.models)) > 1.6 / len(numbers.models)
    page = style.new_figure(
        width, 0.088 * each + (1.2 if upright else 0.6), filled=style.INCHES["single"] * blocks
    )
    for block, axes in enumerate(page.subplots(1, blocks, squeeze=False)[0]):
        own = shown[block * each : (block + 1) * each]
        parts.heat(
            axes,
            np.array([[scores[(*cp, m)].value for m in numbers.models] for cp in own]).reshape(len(own), -1),
            rows=[style.shortened(f"{p} ({c})", 1.5) for c, p in own],
            columns=[style.shortened(m, 1.0) for m in numbers.models],
            colours=parts.map_of(style.BLUE, style.VERMILLION),
            limits=(-1.0, 1.0),
            words=lambda value: style.signed(value, 2),
            upright=upright,
        )
    said = style.caption(
        attribute,
        f"Prompt bias score of perceived {attribute.words} by the human labels: 1, all clear images are {first}; "
        f"{style.MINUS}1, all are {second}; a dash where no image is clear. Prompts by category, then by average.",
        f"{len(rows) - len(shown)} further prompts are in the file of numbers." if len(shown) < len(rows) else "",
    )
    return Drawn(page, said, parts.as_data(scores, ["category", "prompt_id", "t2i_model"]))
