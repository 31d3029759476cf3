"""What of a run is done, as `shards` prints it; and what a run leaves for it: its call, and an array job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detector_bench.atomic_files import write_text
from detector_bench.cli.console import output
from detector_bench.errors import ConfigError
from detector_bench.runner.run_call import RunCall, remember_call, remembered_call
from detector_bench.runner.shard_ledger import ShardLedger, ShardState, ShardStatus, repeat_line
from detector_bench.runner.shards import Shard, ranges

if TYPE_CHECKING:
    from detector_bench.study_configuration import StudyConfiguration
    from detector_bench.study_session import RunOrder

_LONGEST_LIST = 60
"""Characters of a list of shards in the table; `--json` has all of them."""

_MOST_REASONS = 10


def print_shards(folder: Path, *, verify: bool) -> bool:
    """Print what of a run is done and what is open; with `verify` also read the files of finished shards.

    Returns:
        Whether all files that were read are as they were written.

    Raises:
        ConfigError: there is no run in the folder.
    """
    ledger = ShardLedger(folder / "predictions")
    if not ledger.predictions.is_dir():
        raise ConfigError(f"no run in {str(folder)!r}: it has no folder 'predictions'")
    states = ledger.states()
    damaged = _damaged(ledger, states) if verify else {}
    output.rows("shards", [_row(each, damaged) for each in states])
    _print_states(states, damaged)
    _print_reasons(states)
    for shard, files in damaged.items():
        for file in files:
            output.say(f"Damaged, shard {shard}: {str(file)!r} is not as it was written.")
    _print_how_to_go_on(folder, ledger, states, damaged)
    return not damaged


def _damaged(ledger: ShardLedger, states: Sequence[ShardStatus]) -> dict[Shard, list[Path]]:
    found = {each.shard: ledger.damaged(each.shard) for each in states if each.state is ShardState.DONE}
    return {shard: files for shard, files in found.items() if files}


def _row(status: ShardStatus, damaged: Mapping[Shard, Sequence[Path]]) -> dict[str, Any]:
    return {
        "shard": str(status.shard),
        "state": "damaged" if status.shard in damaged else status.state.value,
        "images": status.images,
        "reason": status.reason,
    }


def _print_states(states: Sequence[ShardStatus], damaged: Mapping[Shard, Sequence[Path]]) -> None:
    import pandas as pd

    rows = pd.DataFrame([_row(each, damaged) for each in states])
    lines = []
    for state in [*ShardState, "damaged"]:
        found = rows[rows["state"] == str(state)]
        if not found.empty:
            numbers = ranges(int(name.partition("/")[0]) for name in found["shard"])
            images = found["images"].sum()
            lines.append((str(state), f"{len(found):,}", f"{int(images):,}" if images else "", _short(numbers)))
    output.grid(pd.DataFrame(lines, columns=["state", "shards", "images", "which"]))


def _short(numbers: str) -> str:
    if len(numbers) <= _LONGEST_LIST:
        return numbers
    return numbers[:_LONGEST_LIST].rpartition(",")[0] + ", ..."


def _print_reasons(states: Sequence[ShardStatus]) -> None:
    by_reason: dict[str, list[int]] = {}
    for each in states:
        if each.state is ShardState.FAILED:
            by_reason.setdefault(each.reason, []).append(each.shard.number)
    for reason, numbers in list(by_reason.items())[:_MOST_REASONS]:
        output.say(f"Failed, {_short(ranges(numbers))}: {reason}")
    if len(by_reason) > _MOST_REASONS:
        output.say(f"{len(by_reason) - _MOST_REASONS:,} more reasons: --json has them all.")


def _print_how_to_go_on(
    folder: Path,
    ledger: ShardLedger,
    states: Sequence[ShardStatus],
    damaged: Mapping[Shard, Sequence[Path]],
) -> None:
    from detector_bench.results.manifest import NAME

    again = [each._replace(state=ShardState.OPEN) if each.shard in damaged else each for each in states]
    left = repeat_line(again)
    call = remembered_call(ledger)
    if call is None:
        study = folder / "study.yaml"
        words = ("detector-bench", "run", str(study) if study.is_file() else "STUDY.yaml", "--out", str(folder))
        call = RunCall(words=words, folder=str(Path.cwd()))
    if given := call.needs_trust:
        output.warn(
            f"As the folder {str(folder)!r} has it, what is to be repeated says {', '.join(given)}: "
            "do that only if you, or somebody you trust, wrote it.",
            style="",
        )
    if not left:
        running = sum(each.state is ShardState.RUNNING for each in states)
        if running:
            output.say("Nothing need be repeated: who ends last writes the results.")
        elif (folder / NAME).is_file():  # the last that is written
            output.say(f"All is judged; the numbers stand in {folder}.")
        else:
            output.say(f"All is judged; this writes the results: {call.line()}")
        return
    first = next(each.shard for each in again if each.state in (ShardState.FAILED, ShardState.OPEN))
    where = "" if call.folder == str(Path.cwd()) else f" (in {call.folder})"
    facts = {"command": call.line(), "array": left, "folder": call.folder}
    output.row(f"All that is left, by one command{where}: {call.line()}", table="to_repeat", **facts)
    if first.count > 1:
        output.say(f"One shard: {call.line(first)}")
        output.say(f"As tasks of an array job: {call.array_line(left)}")


def call_of(study_file: Path, given: Mapping[str, Any]) -> RunCall:
    """The call of `run` as words.

    Args:
        study_file: as it was typed.
        given: options and their values; those without one are left out.

    The folders that links may lead to are named, wherever they are known from: tasks elsewhere need them, too.
    """
    from detector_bench.dataset.image_folder import allowed_roots

    given = {**given, "--allow-root": list(allowed_roots())}
    words = ["detector-bench", "run", str(study_file)]
    for name, value in given.items():
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            for each in value if isinstance(value, list) else [value]:
                words += [name, str(each)]
    return RunCall(words=tuple(words), folder=str(Path.cwd()))


@contextmanager
def kept_call(out: Path, call: RunCall) -> Iterator[None]:
    """Remember how a run was called, as soon as its folder holds a run, and however it ends."""
    ledger = ShardLedger(out / "predictions")
    remember_call(ledger, call)
    try:
        yield
    finally:
        remember_call(ledger, call)


def write_array_job(study: StudyConfiguration, out: Path, script: Path, *, order: RunOrder, call: RunCall) -> None:
    """Cut the result folder, and write an array job of Slurm with a task for each shard."""
    from detector_bench.runner.array_job import MOST_TASKS, ArrayJob
    from detector_bench.study_session import cut_for_tasks

    if script.exists():
        raise ConfigError(
            f"--slurm-script: {str(script)!r} exists, and may have been changed by hand: remove it, or name "
            "another file"
        )
    images, count = cut_for_tasks(study, out, order)
    job = ArrayJob(words=call.words[1:], out=out, script=script, images=images, shards=count)
    try:
        job.logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write to {str(job.logs)!r}: {error.strerror}") from error
    write_text(script, job.text())
    remember_call(ShardLedger(out / "predictions"), call.model_copy(update={"script": str(script)}))
    tasks = "1 task" if count == 1 else f"{count:,} tasks"
    output.say(f"{script} judges {images:,} images in {tasks}. Read it, then submit it: sbatch {script}")
    output.say(f"What is done, and what to submit again, says: detector-bench shards {out}")
    if count > MOST_TASKS:
        output.warn(f"Slurm refuses array indices above its MaxArraySize, {MOST_TASKS:,} unless it was raised.")
