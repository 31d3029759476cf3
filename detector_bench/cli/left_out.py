"""What a command does where some of a study's detectors cannot judge on this machine: it goes on without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from detector_bench.cli.console import output
from detector_bench.errors import ConfigError, MissingExtraError, WeightsError

if TYPE_CHECKING:
    from detector_bench.study import Study

T = TypeVar("T")


def with_what_is_ready(
    study: Study, out: Path, work: Callable[[Study], T], *, weights_dir: Path | None
) -> tuple[T, Mapping[str, Sequence[str]]]:
    """Do something with a study; if some of its detectors cannot judge here, without these, and say of each why.

    Args:
        study: what is judged by whom.
        out: the result folder.
        work: what is done; called once more with what is left of the study.
        weights_dir: a folder with weights files.

    Returns:
        What the work gave, and what was left out, by name with its reasons.

    Raises:
        DetectorBenchError: another mistake, or no detector is ready.
    """
    from detector_bench.study_readiness import without_lacking

    try:
        return work(study), {}
    except (ConfigError, MissingExtraError, WeightsError) as error:
        # A mistake that is no detector's ends the run before anything is fetched for it.
        if (
            isinstance(error, ConfigError)
            and not study.readiness(out, weights_dir=weights_dir, fetch=False).lacking
        ):
            raise
        found = study.readiness(out, weights_dir=weights_dir)
        if not found.ready and len(found.lacking) > 1:
            raise type(error)(_by_name(found.lacking, ":")) from error
        if not found.ready or not found.lacking:
            raise
    smaller, unjudged = without_lacking(study, found)
    left_out = {
        **found.lacking,
        **{f"the attribute {each}": ("no detector is left that judges it",) for each in unjudged},
    }
    output.warn(_by_name(left_out, " is left out:"))
    return work(smaller), left_out


def refuse_left_out(left_out: Mapping[str, Sequence[str]]) -> None:
    """End with a mistake where detectors were left out, when all else is done.

    Raises:
        ConfigError: names them, with their reasons.
    """
    if left_out:
        raise ConfigError(_by_name(left_out, " is left out:"))


def _by_name(lacking: Mapping[str, Sequence[str]], what: str) -> str:
    return "\n".join(f"{name}{what} {line}" for name, lines in lacking.items() for line in lines)
