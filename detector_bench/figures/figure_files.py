"""The list of figures, and writing them as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from detector_bench.atomic_files import write_text
from detector_bench.benchmark import benchmarks
from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.figures.drawing import (
    FORMATS,
    WIDTHS,
    Drawing,
    Format,
    Width,
    paper_style,
    save,
    with_display_names,
)
from detector_bench.figures.prompt_estimates import has_prompt_estimates
from detector_bench.installation import require
from detector_bench.plugins import load_plugins, loaded_plugins
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.manifest import NAME as RESULTS
from detector_bench.results.proof import digests
from detector_bench.sealed import read_sealed, sealed_digest, write_sealed
from detector_bench.vocabulary.columns import PREDICTION_POWERED

FIGURES: dict[str, str] = {
    "prompt_estimates": "prompts from the most to the least biased, estimated over all images",
    "prompt_bias_histogram": "distribution of prompt bias scores (Lyu 2025, figure 3)",
    "prompt_heat_map": "every prompt's bias score (Lyu 2025, table 7)",
    "model_bias_scores": "model bias score of each T2I model and category, by humans and detectors",
    "refusals": "refused, failed and low-quality images of each T2I model and category",
    "detected_against_actual": "detected against actual prompt bias scores",
    "bias_deviation": "forest plot of model bias score deviations",
    "score_deviations": "how far every detector misses every bias score, those of other benchmarks included",
    "filter_plane": "recall against filter rate, with lines of equal F1",
    "confusion": "verdicts by human label, filtered and failed images included",
    "rank_distribution": "ranks of the detectors with their doubt",
    "error_causes": "parts of filtering and classification in the bias error",
    "threshold_sweep": "recall, filter rate and bias error at every threshold",
    "agreement_matrix": "agreement of annotators and detectors",
    "label_curve": "half-width of the model bias score by the number of labels",
    "low_quality_examples": "examples of low-quality images by reason (Lyu 2025, figure 1)",
    "detector_steps": "every detector's steps on one image (Lyu 2025, figure 2)",
}
"""What each figure shows, by its name, which is also its module's; benchmarks have further ones."""

OF_ESTIMATES = ("prompt_estimates", "label_curve")
"""Figures of bias over all images, where only some have a label."""

OF_REQUESTS = ("refusals",)
"""Figures of requests to T2I models, where it is known what became of them."""

OF_IMAGES = ("low_quality_examples", "detector_steps")
"""Figures that show images themselves: no part of a report, whose pictures may be blurred or left out."""

ON_REQUEST = ("detector_steps",)
"""Figures that run detectors again, and are drawn where they are asked for by name."""

_NEEDS_NO_LABELS = ("model_bias_scores", "score_deviations", "refusals", "detector_steps")
"""Figures that show what there is; or say themselves why there is nothing to draw."""

_HOMES = {"score_deviations": "detector_bench.others.score_deviations_figure"}
"""Modules of figures that lie elsewhere."""


def known_figures() -> dict[str, str]:
    """What each figure shows, by its name: `FIGURES`, and those of all benchmarks."""
    return FIGURES | {name: figure.about for each in benchmarks() for name, figure in each.figures.items()}


def figures_of(study: FinishedStudy) -> tuple[str, ...]:
    """The names of the figures that belong to a study: those of estimates only where some images have no label,
    those of requests only where these are known, those of benchmarks only where it has their scores and they show
    no images."""
    known = set(study.metrics_of_all_attributes["metric"].astype(str))
    estimated = (study.metrics["variant"] == PREDICTION_POWERED).any()
    left_out = OF_REQUESTS if study.results.requests is None else ()
    own = [
        name
        for name in FIGURES
        if name not in left_out and name not in ON_REQUEST
        if name not in OF_ESTIMATES or (estimated and (name != "prompt_estimates" or has_prompt_estimates(study)))
    ]
    further = (item for each in benchmarks() for item in each.figures.items())
    return (*own, *(name for name, figure in further if figure.metric in known and not figure.shows_images))


RECORD = "figures.json"
"""Beside the figures: the seal of the results that they show, and the sha256 of every file."""


class WrittenFigures(NamedTuple):
    """The files that were written, and the figures that could not be drawn."""

    files: list[Path]
    not_drawn: dict[str, str]
    """Why there is no such figure of this study, by name."""


def draw_figure(study: FinishedStudy, name: str, *, width: Width = "double") -> Drawing:
    """Draw one figure.

    Args:
        study: a finished study.
        name: one of `known_figures`.
        width: 3.3 inches ("single") or 7 inches ("double").

    Raises:
        ConfigError: no such figure, or this study cannot have it.
        MissingExtraError: matplotlib is not installed.
        DetectorBenchError: the image set or the predictions are needed, and not there.
    """
    draw = _draw_function(name)
    if name in FIGURES and name not in _NEEDS_NO_LABELS:
        study.need_labels()
    with paper_style():
        drawing = with_display_names(draw(study, width=width), study.display_names)
        # Laid out here, once, and not anew for every format.
        if (layout := drawing.figure.get_layout_engine()) is not None:
            layout.execute(drawing.figure)
            drawing.figure.set_layout_engine("none")
    return drawing


def _draw_function(name: str) -> Callable[..., Drawing]:
    if name in FIGURES:
        drawn: Callable[..., Drawing] = import_module(_HOMES.get(name, f"detector_bench.figures.{name}")).draw
        return drawn
    for each in benchmarks():
        if name in each.figures:
            of_benchmark: Callable[..., Drawing] = each.load(each.figures[name].draw)
            return of_benchmark
    raise ConfigError(f"unknown figure {name!r}: {nearest_hint(name, known_figures())}")


def write_figures(
    study: FinishedStudy,
    out: Path,
    *,
    names: Sequence[str] | None = None,
    widths: Sequence[Width] = WIDTHS,
    formats: Sequence[Format] = ("pdf", "png"),
    workers: int = 1,
) -> WrittenFigures:
    """Write `out/<name>_<width>.<format>`, and the caption as `out/<name>.txt`.

    Equal studies give equal bytes. A figure that this study cannot have, as its image set is gone for instance, is
    left out and named in the result; if it is the only one asked for, that is an error.

    Args:
        study: a finished study.
        out: created if need be.
        names: which ones; None: those that belong to the study.
        widths: in which widths.
        formats: "pdf", "png" (300 dpi) or "svg".
        workers: how many processes draw at the same time. With more than one, a script has to guard its entry with
            `if __name__ == "__main__"`, and the study is read again from its folder.

    Raises:
        ConfigError: an unknown figure, width or format.
        MissingExtraError: matplotlib is not installed.
        DetectorBenchError: the only figure cannot be drawn, or the disk is full, read-only or the like.
    """
    names = figures_of(study) if names is None else names
    _check_names(names, widths, formats)
    require("matplotlib", extra="figures")
    write = partial(_write_figure, out=out, widths=widths, formats=formats)
    if workers > 1 and len(names) > 1:
        # A fresh process each: a fork would inherit the threads of Arrow and numpy in any state.
        with ProcessPoolExecutor(
            min(workers, len(names)),
            mp_context=get_context("spawn"),
            initializer=load_plugins,
            initargs=(loaded_plugins(),),
        ) as pool:
            done = list(
                pool.map(partial(write, (study.folder, study.attribute, study.results.own_image_set)), names)
            )
    else:
        done = [write(study, name) for name in names]
    not_drawn = {name: each for name, each in zip(names, done, strict=True) if isinstance(each, str)}
    if len(names) == 1 and not_drawn:
        raise DetectorBenchError(next(iter(not_drawn.values())))
    files = [path for each in done if not isinstance(each, str) for path in each]
    _remember(files, out, results=sealed_digest(study.folder / RESULTS))
    return WrittenFigures(files, not_drawn)


def _remember(files: Sequence[Path], out: Path, *, results: str | None) -> None:
    """Write down which results the figures of a folder were drawn from, and what they are like."""
    sha256 = digests(out, [path.relative_to(out).as_posix() for path in files])
    try:
        earlier = read_sealed(out / RECORD)
    except (OSError, ValueError):
        earlier = {}
    if earlier.get("results") == results:
        # Figures that are drawn one after another, or of several attributes, belong together.
        sha256 = {**earlier["sha256"], **sha256}
    write_sealed(out / RECORD, {"figures": "detector_bench", "results": results, "sha256": sha256})


def _check_names(names: Sequence[str], widths: Sequence[Width], formats: Sequence[Format]) -> None:
    known = known_figures()
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown figure {name!r}: {nearest_hint(name, known)}")
    for width in widths:
        if width not in WIDTHS:
            raise ConfigError(f"unknown width {width!r} (accepted: {', '.join(WIDTHS)})")
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(f"unknown format {kind!r} (accepted: {', '.join(FORMATS)})")


def _write_figure(
    study: FinishedStudy | tuple[Path, str, Path | None],
    name: str,
    *,
    out: Path,
    widths: Sequence[Width],
    formats: Sequence[Format],
) -> list[Path] | str:
    """Write one figure's files; why it cannot be drawn, if it cannot."""
    if not isinstance(study, FinishedStudy):
        study = _loaded(*study)
    try:
        drawings = {width: draw_figure(study, name, width=width) for width in widths}
    except DetectorBenchError as error:
        return str(error)
    files = []
    for width, drawing in drawings.items():
        for kind in formats:
            path = out / f"{name}_{width}.{kind}"
            save(drawing.figure, path)
            files.append(path)
    caption = out / f"{name}.txt"
    write_text(caption, drawings[widths[0]].caption)
    return [*files, caption]


@cache
def _loaded(folder: Path, attribute: str, image_set: Path | None) -> FinishedStudy:
    """A worker's study, which serves all figures that fall to it."""
    return FinishedStudy.load(folder, attribute=attribute, image_set=image_set)
