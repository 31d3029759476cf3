"""`run`, `evaluate` and `quickstart`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detector_bench.benchmark import benchmarks
from detector_bench.cli import options
from detector_bench.cli.chosen_detector import say_if_passed_over
from detector_bench.cli.console import command, errors, output
from detector_bench.cli.left_out import refuse_left_out, with_what_is_ready
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.study import Results, Study

ENGINES = ("processes", "ray")

_LONG_TABLES = ("prompt_bias_scores", "confusion", "label_doubt")
"""They have many rows, and stand in files only."""


@command(reads_images=True)
def run(
    study_file: options.StudyFile,
    *,
    out: options.Out,
    image_set: options.ImageSetOption = None,
    weights_dir: options.WeightsDir = None,
    cache_dir: options.CacheDir = None,
    no_cache: options.NoCache = False,
    budget: options.BudgetOption = None,
    workers: options.Workers = None,
    engine: options.Engine = "processes",
    address: options.Address = None,
    shards: options.Shards = None,
    shard: options.ShardOption = None,
    slurm_script: options.SlurmScript = None,
    dry_run: options.DryRun = False,
    changed_inputs: options.ChangedInputs = False,
    n_clear: options.NClear = None,
    attribute: options.Attributes = None,
    only: options.Only = None,
    without: options.Without = None,
    intervals: options.Intervals = False,
    estimated_labels: options.EstimatedLabels = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
) -> None:
    """Run a study's detectors over its image set, evaluate them, and print the comparison.

    Interrupted or repeated, it goes on where it was: only images without a verdict, changed images and changed
    detectors are judged. Large image sets are cut into shards, which several processes or machines can share.
    Detectors that cannot judge on this machine are left out, each with a line that says why: exit status 1.

    Examples: `detector-bench run configs/t2i_portraits.yaml --out results/portraits --weights-dir weights`,
    `detector-bench run lyu2025 --image-set my_images --out results/mine --without facepp`,
    `detector-bench run quickstart --out results/first`,
    `detector-bench run my_study.yaml --out results/large --workers 4`,
    `detector-bench run my_study.yaml --out results/large --shard 3/16`,
    `detector-bench run my_study.yaml --out results/large --slurm-script large.sbatch`,
    `detector-bench run my_study.yaml --out results/large --engine ray --address auto`,
    `detector-bench run my_study.yaml --out results/large --budget 5.00`,
    `detector-bench run my_study.yaml --out results/large --dry-run`
    """
    if engine not in ENGINES:
        raise ConfigError(f"--engine {engine!r}: expected {' or '.join(ENGINES)}")
    if address is not None and engine != "ray":
        raise ConfigError("--address names a Ray cluster: add --engine ray")
    shared = (workers or 1) > 1 or engine != "processes"
    if shard is not None and (shared or shards is not None):
        raise ConfigError("--shard is for one process among many: leave out --workers, --engine and --shards")
    if slurm_script is not None and (shared or shard is not None):
        raise ConfigError("--slurm-script writes a task for each shard: leave out --workers, --engine and --shard")
    if dry_run and (slurm_script is not None or shard is not None):
        raise ConfigError("--dry-run is about all that is left: leave out --shard and --slurm-script")
    if dry_run and engine != "processes":
        raise ConfigError("--dry-run measures this machine: leave out --engine")
    # Not above: `--help` need not wait for all that judges.
    from detector_bench.cli.dry_run import print_dry_run
    from detector_bench.cli.run_state import call_of, kept_call, write_array_job
    from detector_bench.trust import allow_for_this_process

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    study = restricted(
        loaded(study_file, image_set=image_set, out=out),
        n_clear=n_clear,
        attribute=attribute,
        only=only,
        without=without,
        estimated_labels=estimated_labels,
    )
    call = call_of(
        study_file,
        {
            "--out": out,
            "--image-set": image_set,
            "--weights-dir": weights_dir,
            "--cache-dir": cache_dir,
            "--no-cache": no_cache,
            "--budget": budget,
            "--changed-inputs": changed_inputs,
            "--n-clear": n_clear,
            "--attribute": attribute,
            "--only": only,
            "--without": without,
            "--intervals": intervals,
            "--estimated-labels": estimated_labels,
            "--plugin": plugin,
            "--allow-key": allow_key,
            "--allow-host": allow_host,
        },
    )
    if slurm_script is not None or dry_run:
        from detector_bench.study_session import RunOrder

        order = RunOrder(
            weights_dir=weights_dir,
            cache_dir=cache_dir,
            use_cache=not no_cache,
            budget=budget,
            shards=shards,
            workers=workers,
        )
        if slurm_script is None:
            print_dry_run(study, out, order)
        else:
            write_array_job(study, out, slurm_script, order=order, call=call)
        return
    with kept_call(out, call):
        _run_and_print(
            study,
            out,
            shard=shard,
            weights_dir=weights_dir,
            cache_dir=cache_dir,
            use_cache=not no_cache,
            budget=budget,
            changed_inputs=changed_inputs,
            tables_with_intervals=intervals,
            **({} if shard else {"workers": workers, "shards": shards, "engine": engine, "address": address}),
        )


@command(reads_images=True)
def evaluate(
    folder: options.Folder,
    *,
    study_file: options.StudyOption = None,
    out: options.OptionalOut = None,
    image_set: options.ImageSetOption = None,
    n_clear: options.NClear = None,
    allow_incomplete: options.AllowIncomplete = False,
    allow_unproved: options.AllowUnproved = False,
    changed_inputs: options.ChangedInputs = False,
    attribute: options.Attributes = None,
    only: options.Only = None,
    without: options.Without = None,
    intervals: options.Intervals = False,
    estimated_labels: options.EstimatedLabels = None,
    plugin: options.Plugins = None,
) -> None:
    """Compute metrics and tables from a result folder's predictions; no detector runs.

    The study is the folder's own, or --study; the numbers come into the folder itself, or where --out says.

    Examples: `detector-bench evaluate results/one`,
    `detector-bench evaluate results/one --out results/two --n-clear human --intervals`,
    `detector-bench evaluate results/one --changed-inputs` after labels were corrected
    """
    if out is None and (attribute or only or without):
        raise ConfigError(
            "--attribute, --only and --without would leave less in the folder than it has: say with --out where "
            "the smaller study goes"
        )
    from detector_bench.results.inputs import refuse_changed_study
    from detector_bench.results.local_paths import folder_with_predictions
    from detector_bench.results.manifest import Manifest

    load_plugins(plugin or [])
    if study_file is None and not changed_inputs:
        refuse_changed_study(folder)
    study = restricted(
        loaded(study_file or folder / "study.yaml", image_set=image_set),
        n_clear=n_clear,
        attribute=attribute,
        only=only,
        without=without,
        estimated_labels=estimated_labels,
    )
    with suppress(ConfigError):  # of an older schema, or half a folder
        output.warn(*Manifest.read(folder).plugins_left_out())
    result = study.evaluate(
        folder_with_predictions(folder),
        folder if out is None else out,
        allow_incomplete=allow_incomplete,
        allow_unproved=allow_unproved,
        changed_inputs=changed_inputs,
        tables_with_intervals=intervals,
    )
    _print(result, ["metrics.csv", "tables/", "run.json"])


@command
def quickstart(
    *, out: options.Out = Path("detector-bench-quickstart"), cache_dir: options.CacheDir = None
) -> None:
    """Try it out: two detectors on pictures that installed packages carry. No download, under a minute.

    Example: `detector-bench quickstart`
    """
    from detector_bench.named_studies import named_studies

    study = named_studies()["quickstart"]
    image_set = study.build_images(out / "image_set")
    _run_and_print(loaded(study.path, image_set=image_set), out, cache_dir=cache_dir)


def loaded(study_file: Path, *, image_set: Path | None, out: Path | None = None) -> Study:
    """Read a study file, or a study that comes along; `image_set` takes the place of its image set.

    Args:
        study_file: a file, or a name; see `named_studies.study_path`.
        image_set: a folder.
        out: where images are made, by a study that makes its own; None: it is read without.

    Raises:
        ConfigError: no such study, a mistake in it, or a study that comes along is to be run without images.
    """
    from detector_bench.named_studies import named_study
    from detector_bench.study import Study

    say_if_passed_over(study_file)
    named = named_study(study_file)
    if named is not None and named.makes_images and image_set is None and out is not None:
        image_set = named.build_images(out / "image_set")
    study = Study.from_yaml(study_file, image_set=image_set)
    # Said before anything is fetched for it.
    if named is not None and out is not None and not study.image_set.is_dir():
        raise ConfigError(named.lacks_images if image_set is None else f"there is no folder {str(image_set)!r}")
    return study


def restricted(
    study: Study,
    *,
    n_clear: str | None,
    attribute: list[str] | None,
    only: list[str] | None,
    without: list[str] | None,
    estimated_labels: str | None,
) -> Study:
    """The study with what the command line asks for in the place of its own."""
    study = study.with_detectors(only=only or (), without=without or ())
    study = study if n_clear is None else study.with_n_clear(n_clear)
    study = study.with_attributes(attribute) if attribute else study
    return study.with_estimated_labels(estimated_labels) if estimated_labels else study


def _run_and_print(study: Study, out: Path, *, shard: str | None = None, **settings: Any) -> None:
    from detector_bench.cli.progress import RunProgressDisplay, what_it_waited_for

    began = datetime.now(UTC).isoformat(timespec="seconds")
    left_out: Mapping[str, Sequence[str]] = {}
    if shard is None:

        def run_all(some: Study) -> Results:
            with RunProgressDisplay(errors) as display:
                return some.run(out, progress=display, **settings)

        # On Ray other machines judge than the one that asks.
        if settings.get("engine", "processes") == "processes":
            result, left_out = with_what_is_ready(study, out, run_all, weights_dir=settings.get("weights_dir"))
        else:
            result = run_all(study)
    else:
        with RunProgressDisplay(errors) as display:
            found = study.run_shard(out, shard, progress=display, **settings)
        if isinstance(found, list):
            from detector_bench.runner.shards import ranges

            left = f"{len(found)} of {found[0].count} shards are not: {ranges(each.number for each in found)}"
            output.say(f"Shard {shard} is done, {left}. Who ends last writes the results.")
            return
        result = found
    _print(result, ["metrics.csv", "tables/", "predictions/", "run.json"])
    refuse_without_verdict(result)
    refuse_left_out(left_out)
    if waited := what_it_waited_for(*_waiting(result.sessions(began))):
        output.warn(waited, style="")


def refuse_without_verdict(results: Results) -> None:
    """End with a mistake where a detector has judged nothing: all its images ended in an error.

    Raises:
        DetectorBenchError: names the detectors, with a reason of each.
    """
    from detector_bench.study_questions import without_verdict

    if failed := without_verdict(results.reader):
        raise DetectorBenchError(
            "\n".join(f"{name} has judged no image, each ended in an error: {why}" for name, why in failed.items())
        )


def _waiting(sessions: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, str]]:
    """What all processes of a run waited for, in seconds, and where each stage ran."""
    seconds: Counter[str] = Counter()
    devices: dict[str, str] = {}
    for session in sessions:
        seconds.update(session.get("waited_for", {}))
        devices |= session.get("device_per_stage", {})
    return dict(seconds), devices


def _print(result: Results, files: Sequence[str]) -> None:
    from detector_bench.perception.answers.paid_ledger import FOLDER, PaidLedger
    from detector_bench.results.metric_lookup import no_labels

    long = (*_LONG_TABLES, *(name for each in benchmarks() for name in each.long_tables))
    for table in result.tables.values():
        if not table.name.startswith(long):
            output.table(table)
    for attribute in result.attributes:
        if not result.of_attribute(attribute).lookup.has_labels:
            output.warn(no_labels(attribute), style="")
    for name, by_attribute in result.counts.items():
        for attribute, counts in by_attribute.items():
            if counts["error"]:
                images = "1 image" if counts["error"] == 1 else f"{counts['error']:,} images"
                output.warn(
                    f"{name}, {attribute}: {images} ended in an error; "
                    "the column `reason` of its predictions says why"
                )
    output.warn(*result.reader.manifest.calibration_notes)
    if damaged := PaidLedger(result.folder / FOLDER).damaged:
        output.warn(
            f"the ledger of paid answers has {len(damaged):,} damaged lines, which count as never written; the "
            f"first: {damaged[0]} (all: detector-bench spending {result.folder})"
        )
    for stage, spent in result.spending.items():
        numbers = ", ".join(f"{name.replace('_', ' ')} {_in_words(number)}" for name, number in spent.items())
        output.warn(f"{stage}, so far: {numbers}", style="")
    output.say(f"Everything is in {result.folder}: {', '.join(files)}")


def _in_words(number: float | str) -> str:
    if isinstance(number, str):
        return number
    return f"{number:,}" if float(number).is_integer() else f"{number:,.4f}"
