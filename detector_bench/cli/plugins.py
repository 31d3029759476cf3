"""Loads Python files that the user names on the command line; their `@detector` classes register themselves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from detector_bench.errors import ConfigError


def load_plugins(files: Sequence[Path]) -> None:
    """Execute each file as a module.

    Raises:
        ConfigError: the file is missing, or it fails.
    """
    for file in files:
        # Files of one name in different folders are different modules.
        name = f"detector_bench_plugin_{file.stem}_{sha256(bytes(file.resolve())).hexdigest()[:8]}"
        spec = spec_from_file_location(name, file)
        if not file.is_file() or spec is None or spec.loader is None:
            raise ConfigError(f"--plugin: {str(file)!r} is not a Python file")
        module = module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            sys.modules.pop(name, None)
            raise ConfigError(f"--plugin {file}: {type(error).__name__}: {error}") from error
