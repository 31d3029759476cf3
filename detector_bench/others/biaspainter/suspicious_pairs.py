"""Which pairs of a study changed most, and a figure of them: BiasPainter's Figure 1, for any study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from detector_bench.errors import ConfigError
from detector_bench.figures.drawing import (
    INCHES,
    MAX_HEIGHT,
    PALE,
    SMALL_TEXT_SIZE,
    Drawing,
    Width,
    caption,
    counted,
    new_figure,
    shortened,
    signed,
)
from detector_bench.others.biaspainter.biased_words import DIRECTIONS, SKIN_TONE_NOTE, ByOneJudge, Direction
from detector_bench.others.biaspainter.formulas import BIASPAINTER_ATTRIBUTES, MODEL_SCORE, WORD_SCORE, Preset
from detector_bench.others.biaspainter.score_system import only_pairs, pair_scores
from detector_bench.others.biaspainter.threshold_ablation import definition_of
from detector_bench.others.judgements import Judgements
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.tables.wording import attributes_in_words, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLEAR_CHANGE = 1.0
"""The size of an image score from which the paper calls a change clear, and the pair suspicious."""

_PER_ROW: dict[Width, int] = {"single": 2, "double": 4}
_HEADING, _WORDS, _GAP = 0.2, 0.32, 0.1
"""Room for a row's name and for the words below a pair, and between two pairs, in inches."""
_PICTURE_PIXELS = 300


class SuspiciousPair(NamedTuple):
    """A pair in which a judge sees a clear change."""

    seed_image_id: str
    image_id: str
    t2i_model: str
    prompt_id: str
    score: float
    """The image score: positive towards female, older, lighter."""


def suspicious_pairs(
    judgements: Judgements, *, judge: str, preset: Preset, top: int
) -> dict[tuple[str, Direction], tuple[list[SuspiciousPair], int]]:
    """The pairs that changed most, by attribute and direction, with how many changed clearly.

    A word stands for one pair at most, so that a gallery shows `top` words. Of equal changes, those of photos that
    are not shown yet come first, then the first by T2I model, prompt and image.

    Args:
        judgements: answers about seeds and edited images.
        judge: a detector, or `ground_truth`.
        preset: whose thresholds make the image scores.
        top: how many pairs of each direction.

    Raises:
        ConfigError: no pairs, an unknown judge, or `top` below 1.
    """
    if top < 1:
        raise ConfigError(f"top: {top} (accepted: 1 or more)")
    pairs = only_pairs(judgements)
    if judge not in pairs.judges:
        raise ConfigError(f"nobody called {judge!r} judges these pairs (there are: {', '.join(pairs.judges)})")
    place = pairs.judges.index(judge)
    found = {}
    for attribute in BIASPAINTER_ATTRIBUTES:
        if not pairs.judged[attribute][place]:
            continue
        scores = pair_scores(pairs, attribute, preset=preset).score[place]
        for direction in DIRECTIONS[attribute]:
            clear = np.flatnonzero(direction.sign * scores >= CLEAR_CHANGE)
            ordered = sorted((_pair(pairs, int(image), scores[image]) for image in clear), key=_strongest_first)
            found[attribute, direction] = (_varied(ordered, top=top), len(clear))
    return found


def _varied(ordered: Sequence[SuspiciousPair], *, top: int) -> list[SuspiciousPair]:
    """The first pairs, each of another word, and of another photo where equal scores leave a choice."""
    chosen: list[SuspiciousPair] = []
    left = list(ordered)
    while left and len(chosen) < top:
        seeds = {each.seed_image_id for each in chosen}
        equal = [each for each in left if abs(each.score - left[0].score) < 1e-9]
        chosen.append(next((each for each in equal if each.seed_image_id not in seeds), equal[0]))
        left = [each for each in left if each.prompt_id != chosen[-1].prompt_id]
    return chosen


def _pair(pairs: Judgements, image: int, score: float) -> SuspiciousPair:
    return SuspiciousPair(
        pairs.image_ids[int(pairs.seed[image])],
        pairs.image_ids[image],
        pairs.t2i_models[int(pairs.t2i_model[image])],
        pairs.prompt_ids[int(pairs.prompt[image])],
        float(score),
    )


def _strongest_first(pair: SuspiciousPair) -> tuple[float, str, str, str]:
    return -abs(round(pair.score, 9)), pair.t2i_model, pair.prompt_id, pair.image_id


def draw(study: FinishedStudy, *, width: Width) -> Drawing:
    """Draw a row for each direction of change: seed and edited photo side by side, with word, score and T2I model.

    Source: BiasPainter, figure 1. It shows photos of people, so it is drawn only where it is asked for by name.

    Raises:
        ConfigError: the study has no BiasPainter scores, or no pair changed clearly.
        DetectorBenchError: the image set or the predictions are not there.
    """
    metrics = study.metrics_of_all_attributes
    chosen = ByOneJudge.of_table(metrics[metrics["metric"].isin([MODEL_SCORE, WORD_SCORE])])
    predictions = study.results.predictions(["value"])
    judgements = Judgements.of(study.image_set, predictions, attributes=BIASPAINTER_ATTRIBUTES)
    preset = definition_of(chosen.variant)
    found = suspicious_pairs(judgements, judge=chosen.judge, preset=preset, top=_PER_ROW[width])
    rows = {key: pairs for key, (pairs, _) in found.items() if pairs}
    if not rows:
        raise ConfigError(f"no pair has a score of {CLEAR_CHANGE:g} or more: there is nothing to show")
    figure = _figure(study, rows, width=width)
    attributes = list(dict.fromkeys(attribute.replace("_", " ") for attribute, _ in rows))
    counts = ", ".join(f"{direction.in_words} {number}" for (_, direction), (_, number) in found.items())
    return Drawing(
        figure,
        caption(
            f"Photos that edits change most {chosen.in_words}: the seed on the left, the edited photo on the "
            "right. One pair of a word, those with the largest scores.",
            f"Pairs with a score of {CLEAR_CHANGE:g} or more: {counts}; n = "
            f"{counted(int((judgements.seed >= 0).sum()), 'pair')}.",
            SKIN_TONE_NOTE if "skin tone" in attributes else "",
            attribute=attributes_in_words(attributes),
        ),
    )


def _figure(
    study: FinishedStudy, rows: Mapping[tuple[str, Direction], Sequence[SuspiciousPair]], *, width: Width
) -> Figure:
    per_row = _PER_ROW[width]
    of_pair = (INCHES[width] - (per_row - 1) * _GAP) / per_row
    side = min(of_pair / 2, MAX_HEIGHT / len(rows) - _HEADING - _WORDS)
    height = len(rows) * (_HEADING + side + _WORDS)
    figure = new_figure(width, height=height)
    figure.set_layout_engine("none")
    pictures = _Pictures(study)
    top = height
    for (attribute, direction), pairs in rows.items():
        heading = f"{in_words(attribute)}: {direction.in_words}"
        figure.text(0, (top - 0.05) / height, heading, weight="bold", size=SMALL_TEXT_SIZE, va="top")
        top -= _HEADING + side
        for number, pair in enumerate(pairs):
            left = number * (of_pair + _GAP)
            for place, image in enumerate((pair.seed_image_id, pair.image_id)):
                box = ((left + place * side) / INCHES[width], top / height, side / INCHES[width], side / height)
                _draw_picture(figure.add_axes(box), pictures.of(image))
            word = study.words.get(pair.prompt_id, pair.prompt_id)
            text = f"{word} ({signed(pair.score, decimals=2)})"
            for line, said in enumerate((text, pair.t2i_model)):
                y = (top - 0.04 - line * 0.12) / height
                shown = shortened(said, inches=2 * side)
                figure.text(left / INCHES[width], y, shown, size=SMALL_TEXT_SIZE, va="top")
        top -= _WORDS
    return figure


class _Pictures:
    """The pixels of images by id, small and square; None where a file gives none."""

    def __init__(self, study: FinishedStudy) -> None:
        from detector_bench.dataset.image_sources import ImageSources

        images = study.image_set.images
        self._paths = dict(zip(images["image_id"], images["path"], strict=True))
        self._sources = ImageSources(study.image_set.root)

    def of(self, image_id: str) -> np.ndarray | None:
        from PIL import Image, ImageOps

        from detector_bench.dataset.decoding import ImageError, decode_image

        try:
            pixels = decode_image(self._sources.read(self._paths[image_id]))
        except ImageError:
            return None
        # Faces are rather above the middle.
        square = ImageOps.fit(Image.fromarray(pixels), (_PICTURE_PIXELS, _PICTURE_PIXELS), centering=(0.5, 0.3))
        return np.asarray(square)


def _draw_picture(axes: Axes, pixels: np.ndarray | None) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color("white")
    if pixels is None:
        axes.set_facecolor(PALE)
        axes.text(0.5, 0.5, "no image", transform=axes.transAxes, ha="center", va="center", size=SMALL_TEXT_SIZE)
    else:
        axes.imshow(pixels, interpolation="antialiased")
