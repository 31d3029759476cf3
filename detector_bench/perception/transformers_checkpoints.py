"""How transformers reads checkpoints: quietly, from their own folder alone, and all of them or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detector_bench.errors import WeightsError

_ADAPTER, _CONFIG, _TOKENIZER = "adapter_config.json", "config.json", "tokenizer_config.json"


def require_whole(folder: Path) -> None:
    """Refuse a folder whose settings lead transformers to files that lie elsewhere, and so would not count.

    Raises:
        WeightsError: it changes another network, names its vocabulary by a path, or has a part of it computed by
            a program on the hub.
    """
    if (folder / _ADAPTER).exists():
        raise WeightsError(f"{str(folder)!r} holds {_ADAPTER}, changes to another network: save the two merged")
    for program in _programs(_settings_in(folder / _CONFIG)):
        # With the package kernels, transformers would fetch and run it, whether or not code is allowed.
        raise WeightsError(
            f"{str(folder / _CONFIG)!r} has a part of the network computed by the program {program[:80]!r} on "
            "the hub (accepted: what PyTorch and transformers bring along, such as eager or sdpa)"
        )
    settings = _settings_in(folder / _TOKENIZER)
    for key in ("vocab", "merges"):
        if isinstance(settings, Mapping) and isinstance(settings.get(key), str):
            raise WeightsError(
                f"{str(folder / _TOKENIZER)!r}: {key} is the path {settings[key][:80]!r} (accepted: no path; the "
                "files of the folder are read)"
            )


def _settings_in(path: Path) -> Any:
    """What a file of settings says; None: it is not needed, and of one that cannot be read transformers tells."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _programs(settings: Any, *, named: bool = False) -> Iterator[str]:
    """What settings, and those of a network's parts, name as an `..._implementation` and is a name on the hub."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            yield from _programs(value, named=named or str(key).endswith("_implementation"))
    elif named and isinstance(settings, str) and "/" in settings:
        yield settings


def from_folder(cls: Any, folder: Path, **settings: Any) -> Any:
    """`cls.from_pretrained` of a folder on this machine.

    Raises:
        WeightsError: transformers cannot read it, or would read files elsewhere.
    """
    require_whole(folder)
    try:
        return cls.from_pretrained(folder, local_files_only=True, **settings)
    except Exception as error:  # transformers and safetensors raise many sorts
        raise WeightsError(f"transformers cannot read {cls.__name__} from {str(folder)!r}: {error}") from error


@contextmanager
def silenced(transformers: Any) -> Iterator[None]:
    """Without transformers' progress bars and its reports about weights; callers check those themselves."""
    log = transformers.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def whole_network(
    transformers: Any,
    cls: Any,
    folder: Path,
    *,
    what: str,
    read: Callable[..., Any] = from_folder,
    **settings: Any,
) -> Any:
    """A network with all its weights, ready to be asked; transformers fills gaps with random numbers.

    Args:
        transformers: the module.
        cls: what opens the network, such as `transformers.CLIPTextModelWithProjection`.
        folder: the checkpoint.
        what: it should be, in words, for who reads that it is not.
        read: `from_folder`, or another way to call it.
        settings: for `from_pretrained`.

    Raises:
        WeightsError: transformers cannot read it, or a part is missing or of another shape.
    """
    with silenced(transformers):
        model, found = read(
            cls,
            folder,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # else the error's message would point to the silenced report
            output_loading_info=True,
            **settings,
        )
    for key, problem in (("missing_keys", "it lacks"), ("mismatched_keys", "of another shape is")):
        if found[key]:
            raise WeightsError(f"{str(folder)!r} is no whole {what}: {problem} {str(sorted(found[key])[0])!r}")
    return model.eval()
