"""What `run --dry-run` prints: what the run reads, sends, costs and executes, and how long it takes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from detector_bench.cli.console import output
from detector_bench.runner.forecast import EVENING, Forecast, Range

if TYPE_CHECKING:
    from detector_bench.study_configuration import StudyConfiguration
    from detector_bench.study_effects import StudyEffects
    from detector_bench.study_session import RunOrder


def print_dry_run(study: StudyConfiguration, out: Path, order: RunOrder) -> None:
    """Say what the run would do here, then measure a sample, and say how long it will take.

    Raises:
        DetectorBenchError: as the run would; behind what it would do.
    """
    from detector_bench.study_effects import effects_of
    from detector_bench.study_forecast import asks_services

    effects = effects_of(study, out, order)
    _print_effects(effects)
    if asking := asks_services(study):
        names = " ".join(f"--without {name}" for name in asking)
        others = f" Measure the others with {names}." if len(asking) < len(study.detectors) else ""
        output.say(
            f"No time is measured: {', '.join(asking)} would send images, and a dry run sends none.{others}"
        )
        return
    if any(read.downloads for read in effects.reads):
        output.say(
            "No time is measured, for weights are not here yet. To download them: detector-bench weights fetch "
            "--study STUDY.yaml"
        )
        return
    _print_forecast(study, out, order)


def _print_effects(found: StudyEffects) -> None:
    output.say("It reads")
    for read in found.reads:
        output.row(f"  {read.what}: {read.place} ({read.state})", table="reads", **asdict(read))
    output.say("It sends" if found.sends else "It sends no image anywhere.")
    for sent in found.sends:
        keys = ", ".join(f"{variable} ({state})" for variable, state in sent.keys) or "no key"
        output.row(
            f"  {sent.stage} (for {', '.join(sent.detectors)}): at most {sent.images:,} images to {sent.host}, "
            f"each: {sent.form}; answers kept from earlier runs: {sent.kept:,}; key: {keys}; cost: {sent.cost}",
            table="sends",
            **{**asdict(sent), "keys": dict(sent.keys)},
        )
    output.say("It executes, besides detector_bench" if found.runs else "It executes nothing but detector_bench.")
    for code in found.runs:
        output.row(
            f"  {code.what}: {code.name}, {code.version} ({code.allowed})", table="executes", **asdict(code)
        )
    refused = dict.fromkeys(line for sent in found.sends for line in sent.refusals)
    output.warn(*(f"Not allowed here: {line}" for line in refused))
    output.say("")


def _print_forecast(study: StudyConfiguration, out: Path, order: RunOrder) -> None:
    import pandas as pd

    from detector_bench.study_forecast import forecast_study

    found = forecast_study(study, out, order)
    sampled = found.sampled
    if not sampled.left:
        output.say("All images are judged already; the run would only evaluate them.")
        return
    cores = order.cores_each
    rows = _rows(found)
    output.rows("kinds", rows)
    shown = pd.DataFrame(rows)
    shown["images"] = [f"{number:,.0f}" for number in shown["images"]]
    shown["ms per image"] = [f"{1000 * row['seconds_per_image']:,.2f}" for row in rows]
    shown["plus or minus"] = [f"{1000 * row['half_width']:,.2f}" for row in rows]
    output.grid(shown.drop(columns=["seconds_per_image", "half_width"]))
    seconds = found.seconds
    each = "1 core" if cores == 1 else f"{cores} cores"
    who = f"one process with {each}" if order.processes == 1 else f"{order.processes} workers with {each} each"
    output.row(
        f"{sampled.left:,} images take {who} {duration(seconds.middle)} ({_range(seconds)}), "
        f"{duration(sampled.loading)} of it loading.",
        table="forecast",
        images=sampled.left,
        workers=order.processes,
        seconds=seconds.middle,
        seconds_low=seconds.low,
        seconds_high=seconds.high,
        loading_seconds=sampled.loading,
        memory_mib=found.memory_mib,
        prediction_bytes=sampled.left * sampled.prediction_bytes,
        stage_result_bytes=sampled.left * sampled.cache_bytes,
        processes_for_an_evening=found.processes_for(EVENING),
    )
    stages = f", {size(sampled.left * sampled.cache_bytes)} for stage results" if sampled.cache_bytes else ""
    memory = f"{found.memory_mib:,.0f} MiB of memory"
    if order.processes > 1:
        memory += f" ({sampled.memory_mib:,.0f} each)"
    predictions = f"{size(sampled.left * sampled.prediction_bytes)} for predictions"
    output.say(f"It needs about {memory}, and on disk {predictions}{stages}.")
    output.say(_evening(found, each))
    judged = sum(pace.images for pace in sampled.paces.values())
    output.say(
        f"The range is how sure {judged:,} images make it that were judged for this, with the machine as busy as "
        "now and the images just read; where others use the machine, a run may well end outside of it. Workers "
        "are taken not to slow each other down. Not counted: the evaluation, and stage results of earlier runs, "
        "which make it shorter."
    )


def _rows(found: Forecast) -> list[dict[str, float | int | str]]:
    rows: list[dict[str, float | int | str]] = []
    for kind, number in sorted(found.images.items(), key=lambda each: -each[1]):
        pace = found.sampled.paces[kind]
        rows.append(
            {
                "kind": str(kind),
                "images": number,
                "measured": pace.images,
                "seconds_per_image": pace.mean,
                "half_width": pace.half_width,
            }
        )
    return rows


def _evening(found: Forecast, each: str) -> str:
    middle, most = found.processes_for(EVENING), found.processes_for(EVENING, judging=found.judging.high)
    if middle is None:
        return "Loading alone takes longer than an evening (4 hours)."
    if middle == 1:
        return "One such process is done within an evening (4 hours)."
    upper = "" if most is None or most == middle else f" ({most:,} by the upper end of the range)"
    return (
        f"In an evening (4 hours) it is done by {middle:,} such processes{upper}, each with {each} of its own, on "
        "this machine or on several (--workers, --slurm-script)."
    )


def _range(seconds: Range) -> str:
    return f"{duration(seconds.low)} to {duration(seconds.high)}"


def duration(seconds: float) -> str:
    """Seconds in the unit that people would take: `4.2 s`, `12 min`, `3.5 hours`, `2.1 days`."""
    for limit, unit, name in ((90, 1, "s"), (90 * 60, 60, "min"), (48 * 3600, 3600, "hours")):
        if seconds < limit:
            return f"{seconds / unit:,.{1 if seconds / unit < 10 else 0}f} {name}"
    return f"{seconds / 86_400:,.1f} days"


def size(content: float) -> str:
    """Bytes in the unit that people would take."""
    for limit, unit, name in ((1e6, 1e3, "KB"), (1e9, 1e6, "MB")):
        if content < limit:
            return f"{content / unit:,.{1 if content / unit < 10 else 0}f} {name}"
    return f"{content / 1e9:,.1f} GB"
