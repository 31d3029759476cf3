"""Loads Python files that the user names; what they register is known from then on."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from detector_bench.errors import ConfigError, DetectorBenchError

PLUGIN_PREFIX = "detector_bench_plugin_"
"""What the names of plugin files' modules begin with."""

_LOADED: dict[Path, None] = {}


def load_plugins(files: Sequence[Path]) -> None:
    """Execute each file as a module.

    Raises:
        ConfigError: the file is missing, or it fails; where, why, and what to do, in one line.
    """
    for file in files:
        _LOADED[file.resolve()] = None
        name = module_name(file)
        loader = SourceFileLoader(name, str(file))
        spec = spec_from_loader(name, loader)
        if not file.is_file() or file.suffix != ".py" or spec is None:
            raise ConfigError(f"--plugin: {str(file)!r} is not a Python file")
        module = module_from_spec(spec)
        sys.modules[name] = module
        try:
            # Not by way of Python's compiled files: they take a file that was saved twice within a second for
            # unchanged if its length is, and then old code would judge in the name of the new one.
            exec(loader.source_to_code(file.read_bytes(), str(file)), module.__dict__)  # noqa: S102
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            raise ConfigError(
                f"--plugin {_place(error, file)}: {_in_one_line(error, file)}; mend it, or install what it needs, "
                "and run the same command again: what is stored stays as it is"
            ) from error


def loaded_plugins() -> list[Path]:
    """The files that this process has loaded, in order: what a process that it starts has to load, too."""
    return list(_LOADED)


def module_name(file: Path) -> str:
    """What the file is called as a module; files of one name in different folders are different modules."""
    return f"{PLUGIN_PREFIX}{file.stem}_{sha256(bytes(file.resolve())).hexdigest()[:8]}"


def _place(error: BaseException, file: Path) -> str:
    if _is_its_own_syntax(error, file):
        return f"{file}, line {error.lineno}"  # type: ignore[attr-defined]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}, line {lines[-1]}" if lines else str(file)


def _in_one_line(error: BaseException, file: Path) -> str:
    text = error.msg if _is_its_own_syntax(error, file) else str(error)  # type: ignore[attr-defined]
    kind = "" if isinstance(error, DetectorBenchError) else f"{type(error).__name__}: "
    return kind + " ".join(text.split())


def _is_its_own_syntax(error: BaseException, file: Path) -> bool:
    return isinstance(error, SyntaxError) and error.filename == str(file)
