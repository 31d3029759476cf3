"""How a run was called, so that whoever looks at its shards can say how to go on."""

from __future__ import annotations

import shlex
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, ValidationError

from detector_bench.atomic_files import write_text
from detector_bench.errors import DetectorBenchError
from detector_bench.runner.shard_ledger import ShardLedger
from detector_bench.runner.shards import Shard

_WITH_TRUST = ("--plugin", "--allow-key", "--allow-host", "--allow-root")


class RunCall(BaseModel):
    """A command line as it was typed, without what says which shards it is for.

    Attributes:
        words: such as `detector-bench`, `run`, `study.yaml`, `--out`, `results/large`.
        folder: the working directory that its relative paths start from.
        script: an array job that was written for it, if one was.
    """

    model_config = ConfigDict(frozen=True)

    words: tuple[str, ...]
    folder: str
    script: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it is a call of `run` that a shell's line can hold; what a stranger's file says need not be."""
        texts = (*self.words, self.folder, *(() if self.script is None else (self.script,)))
        is_run = self.words[:2] == ("detector-bench", "run") and len(self.words) > 2
        return (
            is_run
            and all(text and text.isprintable() for text in texts)
            and not (self.words[2].startswith("-") or (self.script or "").startswith("-"))
        )

    @property
    def needs_trust(self) -> list[str]:
        """What in it runs code or gives a permission, as a shell's words."""
        following = (*self.words[1:], "")
        pairs = [pair for pair in zip(self.words, following, strict=True) if pair[0].split("=")[0] in _WITH_TRUST]
        said = [shlex.join(pair if "=" not in pair[0] else pair[:1]) for pair in pairs]
        return [*said, *([] if self.script is None else [shlex.join(["sbatch", self.script])])]

    def line(self, shard: Shard | None = None) -> str:
        """The command, for all that is left or for one shard, as a shell takes it."""
        return shlex.join([*self.words, *(["--shard", str(shard)] if shard else [])])

    def array_line(self, numbers: str) -> str:
        """Submits these shards again, such as `3,7-9`, where there is a script; else the option alone."""
        option = f"--array={numbers}"
        return option if self.script is None else shlex.join(["sbatch", option, self.script])


def remembered_call(ledger: ShardLedger) -> RunCall | None:
    """The last call of a run of this folder; None: not known, or no call of `run`."""
    try:
        found = RunCall.model_validate_json((ledger.folder / "call.json").read_bytes())
    except (OSError, ValidationError):
        return None
    return found if found.is_sound else None


def remember_call(ledger: ShardLedger, call: RunCall) -> None:
    """Keep a call beside the shards; a script that was written earlier is not forgotten.

    A folder without a layout holds no run yet, and a call that cannot be kept is no reason to stop.
    """
    with suppress(DetectorBenchError):
        if ledger.layout() is None:
            return
        before = remembered_call(ledger)
        if before is not None and call.script is None:
            call = call.model_copy(update={"script": before.script})
        if call != before:
            with ledger.deciding():
                write_text(ledger.folder / "call.json", call.model_dump_json(indent=2) + "\n")
