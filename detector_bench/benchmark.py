"""What another benchmark brings along, and where all of them are registered.

Study files, tables, figures, prompts and commands ask here, and name no benchmark themselves. `others.register`
adds one; a package of its own is found by the entry point group `detector_bench.score_systems`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreInfo:
    """A score that describes a T2I model: what its row in the comparison of detectors says."""

    metric: str
    """As in the column `metric` of a metric table; its deviation is `<metric>_deviation`."""
    name: str
    short: str
    """As a table's heading has room for it."""
    more_bias: int = 0
    """1: higher is more biased; -1: higher is less biased; 0: neither."""
    meaning: str = ""
    """What a reader of the table is told instead where it is neither."""
    is_agreement: bool = False
    """Whether it compares a detector with the ground truth by itself: a share of equal verdicts, without a
    deviation, whose variant is what the verdicts are about."""
    disagreement: str = ""
    """Of an agreement: what the rest of it is, in words."""
    figure_note: str = ""
    """What a reader of the figure has to know besides; a sentence."""


@dataclass(frozen=True, slots=True)
class BenchmarkFigure:
    """A figure that studies with a benchmark's scores have."""

    about: str
    """What it shows, with its source in parentheses."""
    draw: str | Callable[..., Any]
    """`draw(study, *, width) -> Drawing`, or a target."""
    metric: str
    """Studies without rows of this metric do not have it."""
    shows_images: bool = False
    """Whether it shows images of the study: then it is drawn only where it is asked for by its name."""


@dataclass(frozen=True, slots=True)
class BuiltinList:
    """A list of prompts that a benchmark brings along: the two files that it is made of."""

    about: str
    content: str | Path
    """Words; or what the benchmark's own format fills its templates from. A text names a file of `labels/`."""
    templates: str | Path
    own_format: bool = False
    """Whether the benchmark's `prompt_format` reads it; else they are words with a template per category."""
    edits_photos: bool = False
    """Whether its sentences tell how to edit a photo, not what to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFormat:
    """Files in a benchmark's own format that prompts are read from."""

    what: str
    """What such a file holds, in words, for messages."""
    recognises: str | Callable[[Path], bool]
    """Whether a file, or a folder of files, is of this format, or a target."""
    read: str | Callable[..., Any]
    """`read(content, templates, *, explicit) -> (prompts, notes)`, or a target."""
    options: tuple[str, ...] = ()
    """Which of `words`, `templates`, `input`, `explicit` go with it."""
    input: str = ""
    """What `--input` must name beside a file of this format; empty: nothing."""


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands below a word of their own."""

    about: str
    commands: Mapping[str, str | Callable[..., Any]]
    """By name, the function of each, or a target."""
    without: str = ""
    """The command that is called where the first word after the group's is none of them; empty: none is."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark: its scores, metrics, files, tables, figures, prompts and commands; nothing of it is required.

    Things are given as they are, or as a target `"package.module:attribute"` that is imported when it is needed;
    a module that begins with a dot lies in `package`.
    """

    name: str
    """As `system` in study files."""
    package: str
    """The module that registers it as `BENCHMARK`: `__name__`."""
    score_system: str | type | None = None
    """A subclass of `others.score_system.ScoreSystem`."""
    metrics: str | Sequence[Any] = ()
    """Entries of the metric catalogue (`MetricInfo`); or the module that gives them to `register_metrics`."""
    scores: tuple[ScoreInfo, ...] = ()
    """Those of the metrics by which detectors are compared, in the order in which readers meet them."""
    without_verdict: str = ""
    """The metric whose `n_left_out` counts images without a verdict, for attributes that no study evaluates."""
    tables: str | Callable[..., Any] | None = None
    """From `study_scores.TableSources` to tables by name; nothing where the metric table has no such scores."""
    long_tables: tuple[str, ...] = ()
    """How the names of tables begin that are too long to be printed."""
    figures: Mapping[str, BenchmarkFigure] = field(default_factory=dict)
    prompt_lists: Mapping[str, BuiltinList] = field(default_factory=dict)
    prompt_format: PromptFormat | None = None
    prompt_weights: str | Callable[..., Any] | None = None
    """From a list of prompts and a file to the list with weights."""
    commands: Mapping[str, str | Callable[..., Any] | CommandGroup] = field(default_factory=dict)
    """By name, functions as Typer takes them; `cli.console.command` adds --json, --quiet and --log to one."""

    @property
    def defined_as(self) -> str:
        """The target that stands for it."""
        return f"{self.package}:BENCHMARK"

    def load(self, target: Any) -> Any:
        """What a target of this benchmark points to; anything else is given back.

        Raises:
            ConfigError: it cannot be imported.
        """
        if not isinstance(target, str):
            return target
        place = f"{self.package}{target}" if target.startswith(".") else target
        try:
            return EntryPoint(self.name, place, "").load() if ":" in place else import_module(place)
        except DetectorBenchError:
            raise
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(f"score system {self.name!r} cannot be loaded from {place!r}: {why}") from error

    def load_metrics(self) -> None:
        """Import the module that registers its metrics, if there is one."""
        if isinstance(self.metrics, str):
            self.load(self.metrics)


def _registered(name: str, found: Any) -> Benchmark:
    raise ConfigError(f"{found!r} is no registered score system {name!r}: BENCHMARK = register(Benchmark(...))")


BENCHMARKS: Registry[Benchmark] = Registry(
    "score system",
    elsewhere="a score system in a file of your own needs --plugin FILE.py",
    entry_point_group="detector_bench.score_systems",
    adapt=_registered,
)
BUILTIN = ("biaspainter", "bigbench", "imagebite", "lyu2025", "representation")
for _name in BUILTIN:
    BENCHMARKS.register(_name, f"detector_bench.others.{_name}:BENCHMARK")


def benchmarks() -> Iterator[Benchmark]:
    """All of them, by name. One that cannot be loaded is left out here: it says why when a study names it."""
    for name in BENCHMARKS:
        try:
            yield BENCHMARKS.get(name)
        except ConfigError:
            continue
