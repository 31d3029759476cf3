"""Optional packages: imported only when used, and named in one line when they are missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from detector_bench.errors import MissingExtraError


def missing_message(module: str, *, extra: str | None) -> str:
    """One line that says what to install."""
    remedy = f"pip install 'detector-bench[{extra}]'" if extra is not None else f"install {module}"
    return f"the package {module!r} is not installed; {remedy}"


def require(module: str, *, extra: str | None) -> ModuleType:
    """Import an optional module.

    Raises:
        MissingExtraError: it is not installed; the message says what to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(missing_message(module, extra=extra)) from error


def is_installed(module: str) -> bool:
    """Whether a module can be found, without importing it."""
    return find_spec(module) is not None
