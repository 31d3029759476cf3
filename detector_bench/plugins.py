"""Python files that the user names, loaded as plugins, and the code of a plugged-in class, reduced to a hash.

What detector_bench brings along has a `version` that is raised by hand. A detector, stage or setting that comes
from elsewhere counts with its source: somebody who tries out a threshold in a file of their own raises no version.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import ModuleType

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.registry import REGISTRATIONS, Registration

PLUGIN_PREFIX = "detector_bench_plugin_"
"""What the names of plugin files' modules begin with."""


@dataclass(frozen=True, slots=True)
class PluginFile:
    """A plugin file, as a result that rests on it records it."""

    file: str
    """Its name; the folder that it lies in is nobody's business."""
    sha256: str
    """Of its source and what it imports from its own folder, as `source_fingerprint` has it for its classes."""
    adds: Mapping[str, tuple[str, ...]]
    """Names of what it registered, by sort: metric, table, score system, detector, stage."""


_LOADED: dict[Path, PluginFile] = {}


def load_plugins(files: Sequence[Path]) -> None:
    """Execute each file as a module.

    Raises:
        ConfigError: the file is missing, or it fails; where, why, and what to do, in one line.
    """
    for file in files:
        name, before = module_name(file), len(REGISTRATIONS)
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
        source, place = _source_of_files(_with_imports_beside(file)), file.resolve()
        # Loaded again, it finds what it imports executed already.
        earlier = _LOADED[place].adds if place in _LOADED else {}
        _LOADED[place] = PluginFile(file.name, source, _added(REGISTRATIONS[before:], earlier))


def plugin_paths() -> tuple[Path, ...]:
    """Where the plugin files lie that this process has loaded, for another process that does the same work."""
    return tuple(_LOADED)


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A plugin file with what it imports from its own folder, to be loaded on another machine.

    Attributes:
        path: where it lies on this machine.
        sha256: of its source, as `PluginFile` has it.
        files: content by path as seen from its folder.
    """

    path: Path
    sha256: str
    files: Mapping[str, bytes]


def plugin_sources() -> tuple[PluginSource, ...]:
    """The plugin files that this process has loaded, in order, as they lie there now.

    Raises:
        ConfigError: one has changed since it was loaded, so that another machine would judge by other code.
    """
    found = []
    for path, loaded in _LOADED.items():
        files = _with_imports_beside(path)
        if _source_of_files(files) != loaded.sha256:
            raise ConfigError(f"--plugin {path}: the file has changed since this run began; run the command again")
        content = {shown or path.name: file.read_bytes() for shown, file in files.items()}
        found.append(PluginSource(path, loaded.sha256, content))
    return tuple(found)


def placed_plugins(sources: Sequence[PluginSource]) -> list[Path]:
    """Where to load these plugin files from on this machine: their own place if they lie there as they are, else
    copies in a folder that stays as long as the process."""
    found = []
    for source in sources:
        if source.path.is_file() and _source_of_files(_with_imports_beside(source.path)) == source.sha256:
            found.append(source.path)
            continue
        folder = Path(mkdtemp(prefix="detector-bench-plugin-"))
        atexit.register(rmtree, folder, ignore_errors=True)
        for shown, content in source.files.items():
            (folder / shown).parent.mkdir(parents=True, exist_ok=True)
            (folder / shown).write_bytes(content)
        found.append(folder / source.path.name)
        if len(source.files) > 1:
            sys.path.append(str(folder))
    return found


def _added(
    registrations: Sequence[Registration], earlier: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """By sort, what a plugin brought; it may be the first that imports rooms of detector_bench."""
    found: dict[str, dict[str, None]] = {what: dict.fromkeys(names) for what, names in earlier.items()}
    for each in registrations:
        if not each.module.startswith("detector_bench."):
            found.setdefault(each.what, {})[each.name] = None
    return {what: tuple(names) for what, names in found.items()}


def loaded_plugins() -> list[Path]:
    """The files that this process has loaded, in order: what a process that it starts has to load, too."""
    return list(_LOADED)


def plugin_files() -> tuple[PluginFile, ...]:
    """What this process has loaded, in order, for the record of what it computes."""
    return tuple(_LOADED.values())


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


_NOT_PLUGGED_IN = ("detector_bench", "pydantic")
_LIBRARY_FOLDERS = ("site-packages", "dist-packages")


@cache
def source_fingerprint(defined: type) -> str | None:
    """Sha256 over the source of a class that does not belong to detector_bench; None for one that does.

    The source is:

    - of a class in a package: every `.py` file of that package (of a namespace package, the part the class is in);
    - of a class in a single file: that file, and what it imports, directly or through others, from the folder
      that it lies in. Libraries do not count: their versions are in `run.json`;
    - of a class without a file, as in a notebook: its methods and plain attributes, and nothing that they call.

    Where the files lie does not count. Files that the code reads while it runs are not seen: declare them as
    weights, or raise `version`.

    It is to be asked for first when the class is defined, and remembers the answer: what a process has loaded is
    what it judges with, whatever becomes of the file meanwhile.
    """
    name = defined.__module__
    if name.partition(".")[0] in _NOT_PLUGGED_IN:
        return None
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or file is None or not Path(file).is_file():
        return _sha256(_own_text(defined))
    package = _package_folder(module)
    if package is not None:
        files = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    else:
        files = _with_imports_beside(Path(file))
    return _source_of_files(files)


def _source_of_files(files: Mapping[str, Path]) -> str:
    """Sha256 over the content of files, by what they are called."""
    return _sha256("\n".join(f"{shown}: {_sha256(path.read_bytes())}" for shown, path in sorted(files.items())))


def _sha256(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _package_folder(module: ModuleType) -> Path | None:
    """The folder of the outermost package with an `__init__.py` around a module."""
    parts = (module.__package__ or "").split(".")
    for depth in range(1, len(parts) + 1):
        around = sys.modules.get(".".join(parts[:depth]))
        file = getattr(around, "__file__", None)
        if file is not None:
            return Path(file).parent
    return None


def _with_imports_beside(file: Path) -> dict[str, Path]:
    """A file and what it imports from its own folder; its own name does not matter."""
    found = {"": file}
    folder = file.parent
    if folder.name in _LIBRARY_FOLDERS:
        return found
    waiting = [file]
    while waiting:
        for name in _imported_names(waiting.pop()):
            for path in _beside(name, folder):
                shown = path.relative_to(folder).as_posix()
                if path != file and shown not in found:
                    found[shown] = path
                    waiting.append(path)
    return found


def _imported_names(file: Path) -> Iterator[str]:
    """The top names of all modules that a file imports, wherever in it the import stands."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # found, but never imported: Python could not have read it either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module.partition(".")[0]


def _beside(name: str, folder: Path) -> list[Path]:
    if name in _NOT_PLUGGED_IN:
        return []
    if (folder / name).is_dir():
        return [path for path in (folder / name).rglob("*.py") if path.is_file()]
    return [path for path in (folder / f"{name}.py",) if path.is_file()]


def _own_text(defined: type) -> str:
    parts = []
    for name, member in sorted(vars(defined).items()):
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if inspect.isfunction(function) and function.__module__ == defined.__module__:
            parts.append(_text_of(function))
        elif not name.startswith("__") and isinstance(member, str | int | float | tuple | list):
            parts.append(f"{name} = {member!r}")
    return "\n".join(parts)


def _text_of(function: object) -> str:
    try:
        return inspect.getsource(function)  # type: ignore[arg-type]
    except (OSError, TypeError):  # made by `exec`, say: then `version` has to tell
        return ""
