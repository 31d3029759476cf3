"""The options and arguments that several commands have, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from detector_bench.cli.completion import (
    complete_attributes,
    complete_detectors,
    complete_figures,
    complete_metrics,
    complete_t2i_models,
)
from detector_bench.errors import ConfigError


class TaskName(StrEnum):
    """What is labelled at the labelling desk."""

    IMAGES = "images"
    PAIRS = "pairs"


def _named(flag: str, about: str, complete: Callable[[str], list[str]] = complete_detectors) -> OptionInfo:
    option: OptionInfo = typer.Option(flag, metavar="NAME", help=about, autocompletion=complete)
    return option


_FOLDER = typer.Argument(metavar="DIR", help="Result folder of `run` or `evaluate`.")
Folder = Annotated[Path, _FOLDER]
MaybeFolder = Annotated[Path | None, _FOLDER]
StudyFile = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY",
        help="The study file, or the name of a study that comes along (`detector-bench studies` lists them).",
    ),
]
ImageSetFolder = Annotated[
    Path,
    typer.Argument(
        metavar="IMAGE_SET", help="Folder with images.csv, prompts.csv and, if there are any, labels.csv."
    ),
]
StudyOption = Annotated[
    Path | None,
    typer.Option(
        "--study", metavar="STUDY", help="Use this study file, or study that comes along, such as lyu2025."
    ),
]
ImageSetOption = Annotated[
    Path | None,
    typer.Option("--image-set", metavar="DIR", help="The image set, if it lies elsewhere than recorded."),
]
_OUT = typer.Option("--out", "-o", metavar="DIR", help="Folder that is written into.")
Out = Annotated[Path, _OUT]
OptionalOut = Annotated[Path | None, _OUT]

_ATTRIBUTE = _named(
    "--attribute", "gender, age, race, skin_tone or another that the study has.", complete_attributes
)
Attribute = Annotated[str, _ATTRIBUTE]
AttributeOption = Annotated[str | None, _ATTRIBUTE]
Attributes = Annotated[list[str] | None, _ATTRIBUTE]
"""May be repeated; none: all of the study."""


def t2i_model(flag: str, about: str) -> OptionInfo:
    """An option that names one of the result folder's T2I models."""
    return _named(flag, about, complete_t2i_models)


_ONLY = "Only this one; may be repeated."
Only = Annotated[list[str] | None, _named("--only", _ONLY)]
OnlyFigures = Annotated[list[str] | None, _named("--only", _ONLY, complete_figures)]
Without = Annotated[list[str] | None, _named("--without", "Leave this detector out; may be repeated.")]
_OF_STUDY = _named("--detector", "A detector of the study.")
Detector = Annotated[str, _OF_STUDY]
DetectorOption = Annotated[str | None, _OF_STUDY]
Baseline = Annotated[str | None, _named("--baseline", "Compare every other detector with this one.")]
_DETECTOR = typer.Argument(
    metavar="NAME", help="A detector's name, or a YAML file that describes one.", autocompletion=complete_detectors
)
OneDetector = Annotated[str, _DETECTOR]
FirstDetector = Annotated[
    str | None, typer.Argument(metavar="A", help="A detector.", autocompletion=complete_detectors)
]
SecondDetector = Annotated[
    str | None,
    typer.Argument(metavar="B", help="Another; without it, all others.", autocompletion=complete_detectors),
]
By = Annotated[
    list[str] | None,
    _named(
        "--by",
        "Rank by this metric; may be repeated. By default by f1, filter_rate, accuracy and both bias errors.",
        complete_metrics,
    ),
]
MaybeDetector = Annotated[str | None, _DETECTOR]
NClear = Annotated[
    str | None,
    typer.Option(
        "--n-clear",
        metavar="detector|human",
        help="Denominator of a detector's prompt bias score: its own count of clear images, or the humans'.",
    ),
]
AllowIncomplete = Annotated[
    bool, typer.Option("--allow-incomplete", help="Leave out images without a prediction, and count them.")
]
AllowUnproved = Annotated[
    bool,
    typer.Option(
        "--allow-unproved",
        help="Also from predictions that this study did not make, by what they say of themselves, or about images "
        "that are others now; the results say so.",
    ),
]
ChangedInputs = Annotated[
    bool,
    typer.Option(
        "--changed-inputs",
        help="Labels, prompts or images that the folder's present numbers were made of may be others now, and so "
        "may its study.yaml. Labels and images that only came along need no word.",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="image|prompt",
        help="What else could have been: other images of these prompts, or other prompts of these categories; by "
        "default as the study's intervals say.",
    ),
]
_SEED = typer.Option(
    "--seed", min=0, help="Of what is drawn at random: equal seeds give equal results; by default the study's."
)
Seed = Annotated[int, _SEED]
SeedOption = Annotated[int | None, _SEED]
_LEVEL = typer.Option("--level", help="That the intervals hold, such as 0.95 for 95 %; by default the study's.")
Level = Annotated[float, _LEVEL]
LevelOption = Annotated[float | None, _LEVEL]
Intervals = Annotated[
    bool, typer.Option("--intervals", help="Show confidence intervals in the tables; metrics.csv always has them.")
]
EstimatedLabels = Annotated[
    str | None,
    typer.Option(
        "--estimated-labels",
        metavar="none|dawid_skene",
        help="In label_doubt.csv, also the numbers by true labels estimated from three or more annotators.",
    ),
]
WeightsDir = Annotated[
    Path | None,
    typer.Option("--weights-dir", metavar="DIR", help="Folder with weights files (or DETECTOR_BENCH_WEIGHTS)."),
]
CacheDir = Annotated[
    Path | None,
    typer.Option("--cache-dir", metavar="DIR", help="Folder for stage results (or DETECTOR_BENCH_CACHE)."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="How many share the work: one per GPU, or each with its share of cores.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Who shares the work: `processes` on this machine, or `ray`, a Ray cluster.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="The Ray cluster: auto, or ray://HOST:PORT; by default one is started on this machine.",
    ),
]
Shards = Annotated[
    int | None,
    typer.Option(
        "--shards",
        metavar="K",
        min=1,
        help="Cut the image set into so many shards; by default as the folder is, or by the number of images.",
    ),
]
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/K",
        help="Judge shard I of K alone, as one of many processes, on any machines that see the folder; the one "
        "that ends last writes the results.",
    ),
]
SlurmScript = Annotated[
    Path | None,
    typer.Option(
        "--slurm-script",
        metavar="FILE",
        help="Judge nothing; write an array job of Slurm with a task for each shard (--shards K of them).",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Keep and send nothing; say what the run reads, sends where, may cost and executes; judge some "
        "images of each kind, and say how long all that is left takes here, and how much memory and disk.",
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="AMOUNT",
        min=0,
        help="The most that all requests of this folder to paid services may cost together, in the currency of "
        "their prices; the run stops before it could be passed.",
    ),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep no stage results, and use none.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Python file of your own: detectors, T2I models, metrics, tables, score systems; may be repeated.",
    ),
]
AllowKey = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-key",
        metavar="VARIABLE=HOST",
        help="For this call, this environment variable's value may be sent to this host; may be repeated. For all "
        "calls: `detector-bench trust key`.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="HOST",
        help="For this call, images and prompts may be sent to this host without a key; may be repeated.",
    ),
]
AttributeFiles = Annotated[
    list[Path] | None,
    typer.Option("--attribute-file", metavar="FILE.yaml", help="An attribute of your own; may be repeated."),
]
_TASK = typer.Option("--task", help="One picture, or a seed and its edit; each has a store of its own.")
Task = Annotated[TaskName, _TASK]
MaybeTask = Annotated[TaskName | None, _TASK]
AskedAttributes = Annotated[
    str | None,
    typer.Option("--attributes", metavar="NAMES", help="What is asked, such as gender,age; by default gender."),
]
Verdicts = Annotated[
    Path | None,
    typer.Option("--results", metavar="DIR", help="What detectors say: a result folder, or its predictions."),
]
_HALF_WIDTH = typer.Option(
    "--half-width",
    metavar="X",
    help="What is wanted: a score plus or minus X, above 0 to 1; labels are planned for it. By default 0.05.",
)
HalfWidthOption = Annotated[float | None, _HALF_WIDTH]
ValidatedOn = Annotated[
    Path | None,
    typer.Option(
        "--validated-on",
        metavar="DIR2",
        help="Result folder of another study with labels, of the same detectors: what it learnt about them stands "
        "in for labels of these images.",
    ),
]
PromptWeights = Annotated[
    Path | None,
    typer.Option("--weights", metavar="FILE", help="What prompts weigh: prompt_id, weight; or weight.json."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what exists.")]


def file_in(out: Path, name: str) -> Path:
    """The file that `--out` means: of this name in the folder, or `out` itself if it has the name's ending."""
    return out if out.suffix == Path(name).suffix and not out.is_dir() else out / name


def checked_half_width(half_width: float | None) -> float:
    """What `--half-width` says, before anything runs.

    Raises:
        ConfigError: not above 0, or above 1.
    """
    from detector_bench.evaluation.audit_plan import HALF_WIDTH

    if half_width is None:
        return HALF_WIDTH
    if not 0 < half_width <= 1:
        raise ConfigError(f"--half-width {half_width:g} (accepted: above 0, at most 1)")
    return half_width


def pairs(texts: Iterable[str] | None, *, option: str, may_be_empty: bool = False) -> dict[str, str]:
    """Read options of the form NAME=MEANING; where the meaning may be empty, NAME= is one of them.

    Raises:
        ConfigError: another form, or a name that stands there twice.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, meaning = (part.strip() for part in text.partition("="))
        if not (name and equals and (meaning or may_be_empty)):
            raise ConfigError(f"{option}: {text!r} (accepted: NAME=MEANING)")
        if name in found:
            raise ConfigError(f"{option} names {name!r} twice")
        found[name] = meaning
    return found
