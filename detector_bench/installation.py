"""What this installation has: optional packages, imported only when used, and files that are no code."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from detector_bench.errors import DetectorBenchError, MissingExtraError


def missing_message(module: str, *, extra: str | None) -> str:
    """One line that says what to install."""
    remedy = f"pip install 'detector-bench[{extra}]'" if extra is not None else f"install {module}"
    return f"the package {module!r} is not installed; {remedy}"


def require(module: str, *, extra: str | None) -> ModuleType:
    """Import an optional module.

    Raises:
        MissingExtraError: it is not installed (the message says what to install), or its import fails, as it
            does when a library of the operating system is missing.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if is_installed(module):
            raise MissingExtraError(f"the package {module!r} is installed, but it needs {error.name!r}") from error
        raise MissingExtraError(missing_message(module, extra=extra)) from error
    except (ImportError, OSError) as error:
        raise MissingExtraError(f"the package {module!r} is installed, but its import fails: {error}") from error


def is_installed(module: str) -> bool:
    """Whether a module can be found, without importing it."""
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # a parent is missing, or a module made by hand has no spec
        return False


def resource(relative: str) -> Path:
    """Find a file or folder under `configs` or `labels`, in an installed package or in a checkout.

    Args:
        relative: the path as in the repository, with slashes: "configs/quickstart.yaml".

    Raises:
        DetectorBenchError: the installation lacks it.
    """
    package = Path(__file__).parent
    # A wheel carries the folders inside the package; an editable installation reads them from the repository.
    for place in (package / "resources", package.parent):
        if (place / relative).exists():
            return place / relative
    raise DetectorBenchError(f"{relative} is missing from this installation of detector-bench; install it again")
