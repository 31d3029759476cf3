"""Figures of a paper, made of finished rows: `write_figures` draws them, with caption and numbers beside.

A figure is a function of results, an attribute and a width, registered by `@register("figure", NAME, about=...,
needs=...)`; it gives `style.Drawn(figure, caption, data)`. `needs="labels"`: it is left out where nobody labelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from detector_bench_next import registry
from detector_bench_next.attributes import GROUND_TRUTH, Attribute
from detector_bench_next.errors import ConfigError, nearest_hint
from detector_bench_next.figures.style import FORMATS, WIDTHS, Drawn, Width, paper, save, with_display_names
from detector_bench_next.files import write_text
from detector_bench_next.results import Results, write_made


def draw(results: Results, name: str, attribute: Attribute, width: Width = "double") -> Drawn:
    """Draw one figure, laid out and with the study's display names.

    Raises:
        ConfigError: no such figure, or this study cannot have it; with the reason.
        MissingExtraError: matplotlib is not installed.
    """
    entry = registry.find("figure", name)
    labels = results.row("images_clear", attribute=attribute.name, detector=GROUND_TRUTH)
    if entry.facts.get("needs") == "labels" and not (labels and labels["n"]):
        raise ConfigError(
            f"figure {name}: no image has a label of {attribute.name}; shares and model_bias_scores do"
        )
    with paper():
        drawn: Drawn = entry.thing(results, attribute, width)
        drawn = with_display_names(drawn, results.manifest.get("study", {}).get("display_names", {}))
        if (layout := drawn.figure.get_layout_engine()) is not None:  # once, not anew for every format
            layout.execute(drawn.figure)
            drawn.figure.set_layout_engine("none")
    return drawn


def write_figures(
    results: Results,
    out: Path,
    *,
    figures: Sequence[str] = (),
    formats: Sequence[str] = ("pdf", "png"),
    attribute: str = "",
) -> dict[str, str]:
    """Write `NAME_WIDTH.FORMAT` in both widths, the caption `NAME.txt` and the numbers `NAME.csv`.

    Figures of further attributes are called NAME_ATTRIBUTE. Equal results give equal bytes.

    Args:
        results: finished ones.
        out: folder, made if need be; `made.json` in it lists what was written.
        figures: names; none: all that this study can have.
        formats: pdf, png (300 dpi), svg.
        attribute: one alone.

    Returns:
        What could not be drawn and why, by name.

    Raises:
        ConfigError: an unknown name or format, or none of the figures asked for can be drawn.
    """
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(f"unknown format {kind!r}: {nearest_hint(kind, FORMATS)}")
    if attribute and attribute not in results.attributes:
        raise ConfigError(f"no attribute {attribute!r} here: {nearest_hint(attribute, results.attributes)}")
    for name in figures:
        registry.find("figure", name)
    first, written, left = next(iter(results.attributes)), [], {}
    for own in [results.attributes[attribute]] if attribute else results.attributes.values():
        for name in figures or registry.names("figure"):
            stem = name if own.name == first else f"{name}_{own.name}"
            try:
                for width in WIDTHS:
                    drawn = draw(results, name, own, width)
                    for kind in formats:
                        save(drawn.figure, out / f"{stem}_{width}.{kind}")
                        written.append(f"{stem}_{width}.{kind}")
            except ConfigError as error:
                left[stem] = str(error)
                continue
            write_text(out / f"{stem}.txt", drawn.caption)
            write_text(out / f"{stem}.csv", drawn.data.to_csv(index=False, lineterminator="\n"))
            written += [f"{stem}.txt", f"{stem}.csv"]
    if figures and not written:
        raise ConfigError("\n".join(left.values()))
    options = {"figures": list(figures), "formats": list(formats), "attribute": attribute}
    write_made(out, "figures", options, results, written)
    return left
