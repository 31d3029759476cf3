"""What the Hugging Face hub has of a pipeline: whether it may be had, which files, how many bytes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.generation.diffusers_checkpoints import INDEX_FILE, PipelineCheckpoint, PipelineIndex
from detector_bench.installation import require
from detector_bench.weights import WeightsLocator
from detector_bench.weights.download import commit_on_hub

_EXTRA = "diffusers"
_SECONDS = 10.0
_MINUTE = 60.0
_SETTINGS_FILE = "config.json"


def out_of_reach() -> str | None:
    """Why the hub cannot be asked, in a few words; None: it answers. Tried once a minute at most.

    The hub's own package asks again and again for half a minute, for every file, with a line for each attempt.
    """
    endpoint = str(require("huggingface_hub.constants", extra=_EXTRA).ENDPOINT)
    return _unreached(endpoint, int(time.monotonic() // _MINUTE))


@lru_cache(maxsize=4)
def _unreached(endpoint: str, _minute: int) -> str | None:
    session = require("huggingface_hub.utils", extra=_EXTRA).get_session()
    try:
        session.head(endpoint, timeout=_SECONDS)
    except Exception as error:  # noqa: BLE001 - of whichever HTTP library the hub's package has
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return None


def unknown_line(name: str, why: str) -> str:
    """For who asks about a checkpoint that nobody can see."""
    return (
        f"{name!r} is not on this machine, and the Hugging Face hub cannot be asked ({why}): put its folder "
        "beside the recipe, or come back with a network"
    )


def closed_door(name: str) -> str | None:
    """A line where a name on the hub may not be had: its terms are not accepted, or there is no such model.

    Asks the hub, and downloads nothing. None where it may be had.
    """
    if (why := out_of_reach()) is not None:
        return unknown_line(name, why)
    hub = require("huggingface_hub", extra=_EXTRA)
    page = f"{require('huggingface_hub.constants', extra=_EXTRA).ENDPOINT}/{name}"
    try:
        hub.HfApi().auth_check(name)
    except hub.errors.GatedRepoError:
        return (
            f"{name!r} is gated: accept its terms at {page}, then log in with `hf auth login` (or set HF_TOKEN); "
            "nothing was downloaded"
        )
    except hub.errors.RepositoryNotFoundError:
        return (
            f"there is no model {name!r} on the Hugging Face hub, or a private one: look at {page}, and log in "
            "with `hf auth login`"
        )
    except Exception:  # noqa: BLE001 - an old hub: the download says it
        return None
    return None


@lru_cache(maxsize=64)
def _listing(name: str, revision: str) -> dict[str, int]:
    """The bytes of every file at a commit, by path."""
    hub = require("huggingface_hub", extra=_EXTRA)
    found = hub.HfApi().list_repo_tree(name, revision=revision, recursive=True)
    return {each.path: int(each.size) for each in found if hasattr(each, "size")}


def files_on_hub(checkpoint: PipelineCheckpoint) -> dict[str, int]:
    """The files of a checkpoint that its pipeline reads, and their bytes.

    Args:
        checkpoint: with a name on the hub and a revision.

    Raises:
        WeightsError: the hub does not give them, or they are no pipeline.
    """
    hub = require("huggingface_hub", extra=_EXTRA)
    name, revision = str(checkpoint.hub_name), str(checkpoint.revision)
    if (why := out_of_reach()) is not None:
        raise WeightsError(unknown_line(name, why))
    try:
        listing = _listing(name, revision)
        if INDEX_FILE not in listing:
            raise WeightsError(
                f"{name!r} has no {INDEX_FILE} at {revision}, so it is no diffusers pipeline (accepted: a "
                "repository with one; some models have a second one whose name ends in -diffusers)"
            )
        index = PipelineIndex.read(Path(hub.hf_hub_download(name, INDEX_FILE, revision=revision)))
    except (WeightsError, ConfigError):
        raise
    except Exception as error:  # the hub's, the HTTP library's and the system's own sorts
        raise _not_given(name, revision, error) from error
    parts = [part for part in index.parts if part not in checkpoint.without]
    for part in parts:
        own = [each.removeprefix(f"{part}/") for each in listing if each.startswith(f"{part}/")]
        if (problem := checkpoint.unusable_part(part, own)) is not None:
            raise WeightsError(f"{name!r} at {revision}: {problem}; nothing was downloaded")
    return {each: listing[each] for each in checkpoint.chosen(listing, parts)}


def located(checkpoint: PipelineCheckpoint, weights: WeightsLocator) -> Path:
    """Where a checkpoint lies; it is downloaded if need be, and only what its pipeline reads.

    Raises:
        WeightsError: it is not found, not whole, or the hub does not give it.
    """
    found = weights.find(checkpoint)
    if found is not None:
        return weights.locate(checkpoint)
    for place in weights.candidates(checkpoint):
        if (place / INDEX_FILE).is_file() and (lacking := checkpoint.lacking_in(place)) is not None:
            raise WeightsError(f"the pipeline {checkpoint.path!r} is not whole: {lacking}")
    if not weights.downloadable(checkpoint):
        raise WeightsError(_missing(checkpoint, weights))
    name = str(checkpoint.hub_name)
    if (line := closed_door(name)) is not None:
        raise WeightsError(line)
    pinned = checkpoint.model_copy(update={"revision": settled(checkpoint, weights, anew=True)})
    files = files_on_hub(pinned)
    return weights.locate(pinned.model_copy(update={"files": tuple(files)}))


def settled(checkpoint: PipelineCheckpoint, weights: WeightsLocator, *, anew: bool = False) -> str | None:
    """The commit that a checkpoint's name stands for; `anew`: the hub is asked where none is written down.

    Raises:
        ConfigError, WeightsError: see `RevisionLock`.
    """
    if checkpoint.revision is not None or checkpoint.hub_name is None:
        return checkpoint.revision
    if weights.revisions is None:
        return commit_on_hub(checkpoint.hub_name) if anew else None
    return weights.revisions.settle(checkpoint.path) if anew else weights.revisions.known(checkpoint.path)


def bytes_lacking(checkpoint: PipelineCheckpoint, weights: WeightsLocator) -> int | None:
    """Bytes that a download would take; 0 where the checkpoint is here, None where the hub cannot be asked."""
    if weights.find(checkpoint) is not None:
        return 0
    with suppress(WeightsError, ConfigError):
        return sum(files_on_hub(_at_commit(checkpoint, weights)).values())
    return None


def _at_commit(checkpoint: PipelineCheckpoint, weights: WeightsLocator) -> PipelineCheckpoint:
    """A checkpoint with the commit that a download would take; nothing is written down.

    Raises:
        WeightsError: it is not to be downloaded, or the hub cannot be asked.
        ConfigError: see `RevisionLock`.
    """
    if not weights.downloadable(checkpoint):
        raise WeightsError(_missing(checkpoint, weights))
    if (why := out_of_reach()) is not None:
        raise WeightsError(unknown_line(str(checkpoint.hub_name), why))
    revision = settled(checkpoint, weights) or commit_on_hub(str(checkpoint.hub_name))
    return checkpoint.model_copy(update={"revision": revision})


def settings_on_hub(checkpoint: PipelineCheckpoint, weights: WeightsLocator) -> Path:
    """A folder with the settings of a checkpoint's parts, some kilobytes; no weights are downloaded.

    Raises:
        WeightsError: it is not to be downloaded, or the hub does not give them.
        ConfigError: see `RevisionLock`.
    """
    hub = require("huggingface_hub", extra=_EXTRA)
    pinned = _at_commit(checkpoint, weights)
    name, revision = str(pinned.hub_name), str(pinned.revision)
    small = [each for each in files_on_hub(pinned) if each.endswith(f"/{_SETTINGS_FILE}")]
    try:
        for each in small:
            hub.hf_hub_download(name, each, revision=revision)
        return Path(hub.hf_hub_download(name, INDEX_FILE, revision=revision)).parent
    except Exception as error:  # the hub's, the HTTP library's and the system's own sorts
        raise _not_given(name, revision, error) from error


def weights_on_hub(checkpoint: PipelineCheckpoint, weights: WeightsLocator, part: str) -> Mapping[str, int]:
    """How many numbers the weights of a part have, by their format (`F32`, `F16`, ...), from the heads of files.

    Raises:
        WeightsError: it is not to be downloaded, or the hub does not give them.
        ConfigError: see `RevisionLock`.
    """
    hub = require("huggingface_hub", extra=_EXTRA)
    pinned = _at_commit(checkpoint, weights)
    name, revision = str(pinned.hub_name), str(pinned.revision)
    found: dict[str, int] = {}
    try:
        for each in files_on_hub(pinned):
            if each.startswith(f"{part}/") and each.endswith(".safetensors"):
                head = hub.HfApi().parse_safetensors_file_metadata(name, each, revision=revision)
                for kind, count in head.parameter_count.items():
                    found[kind] = found.get(kind, 0) + int(count)
    except WeightsError:
        raise
    except Exception as error:  # the hub's, the HTTP library's and the system's own sorts
        raise _not_given(name, revision, error) from error
    return found


def _not_given(name: str, revision: str, error: Exception) -> WeightsError:
    line = (str(error).splitlines() or [""])[0]
    return WeightsError(f"{name!r} at {revision}: {type(error).__name__}: {line}")


def _missing(checkpoint: PipelineCheckpoint, weights: WeightsLocator) -> str:
    if checkpoint.hub_name is None:
        return (
            f"there is no pipeline {checkpoint.path!r} (accepted: a folder with a {INDEX_FILE}, absolute or "
            "relative to the recipe, or the name of a model on the Hugging Face hub)"
        )
    remedy = (
        "allow the download"
        if not weights.allow_download
        else "give the `revision` (a commit on the Hugging Face hub) to download"
    )
    return (
        f"the pipeline {checkpoint.path!r} is not on this machine; put its folder beside the recipe, or {remedy}"
    )
