"""Writes the files that a new detector or stage begins with: a plugin that works, and its test."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from importlib.metadata import packages_distributions
from pathlib import Path
from string import Template

from detector_bench.atomic_files import write_text
from detector_bench.errors import ConfigError, DetectorBenchError

_TEMPLATES = Path(__file__).with_name("templates")
_NAME = r"[A-Za-z][A-Za-z0-9_-]*"


def write_new(
    name: str, out: Path | None = None, *, with_stage: bool = False, taken: Collection[str] = ()
) -> tuple[Path, Path]:
    """Write a plugin and its test, which both run as they are.

    Args:
        name: the detector's: letters, digits, hyphens and underscores.
        out: the plugin, or the folder for `NAME.py`; by default the working directory. The test lies beside it.
        with_stage: with a stage of its own, which is called `NAME_outputs`.
        taken: names that other detectors have.

    Returns:
        The plugin and its test.

    Raises:
        ConfigError: a name that cannot be one or is taken, or a file that is there already or would hide a module.
        DetectorBenchError: the folder cannot be written.
    """
    if re.fullmatch(_NAME, name) is None:
        raise ConfigError(
            f"{name!r} is no name for a detector (accepted: a letter, then letters, digits, - and _)"
        )
    if name in taken:
        raise ConfigError(f"there is a detector {name!r} already: give yours a name of its own")
    words = re.split(r"[-_]+", name)
    module = "_".join(word for word in words if word).lower()
    out = Path() if out is None else out
    file = out if out.suffix == ".py" and not out.is_dir() else out / f"{module}.py"
    if _is_importable(file.stem):
        raise ConfigError(
            f"{file.name} would be imported in the place of the module {file.stem!r} by every Python that starts "
            "beside it, and by pytest: name another file with --out"
        )
    test = file.with_name(f"test_{file.name}")
    for each in (file, test):
        if each.exists():
            raise ConfigError(f"{str(each)!r} is there already; name another file with --out")
    class_name = "".join(word[:1].upper() + word[1:] for word in words)
    values = {
        "name": name,
        "file": file.name,
        "test_file": test.name,
        "class_name": class_name,
        "stage_name": f"{module}_outputs",
        "stage_class": f"{class_name}Outputs",
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DetectorBenchError(f"cannot write into {str(file.parent)!r}: {error.strerror or error}") from error
    for path, template in ((file, "stage" if with_stage else "detector"), (test, "test")):
        text = Template((_TEMPLATES / f"{template}.py.txt").read_text(encoding="utf-8"))
        write_text(path, text.substitute(values))
    return file, test


def _is_importable(module: str) -> bool:
    """Whether Python or an installed package has a module of this name, wherever one stands."""
    return module in sys.stdlib_module_names or module in packages_distributions()
