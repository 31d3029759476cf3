"""Rooms know only what stands below them, no modules import each other in circles, every name has one meaning."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import detector_bench

PACKAGE = Path(detector_bench.__file__).parent

ORDER = (
    ("errors",),
    ("atomic_files", "installation", "interruption", "limited_text", "registry", "sample_design", "transfers"),
    ("json_text", "yaml_text"),
    ("declarations",),
    ("benchmark", "named_files", "plugins", "quickstart", "sealed", "trust"),
    ("vocabulary",),
    ("dataset", "isolated", "weights"),
    ("perception",),
    ("detectors",),
    ("runner",),
    ("conformance", "metrics"),
    ("estimation",),
    ("labelling", "prompt_lists"),
    ("evaluation", "generation"),
    ("named_studies", "study_file"),
    ("detector_kit", "results"),
    ("tables",),
    ("audit", "figures", "study_numbers"),
    ("others", "search"),
    ("study_declaration",),
    ("study_configuration",),
    ("study_calibration_notes", "study_proof", "study_session"),
    ("study_effects", "study_forecast", "study_ray", "study_readiness", "study_results", "study_workers"),
    ("study_run", "study_questions", "study_worth"),
    ("study_agreement", "study_calibration", "study_estimates", "study_plan", "study_search"),
    ("site", "study_answers"),
    ("study_outputs",),
    ("study",),
    ("exports", "verification"),
    ("cli",),
    ("__init__", "__main__"),
)
"""The rooms and single modules of the package, the lowest first; those of one line do not know each other."""

ONLY = {
    "vocabulary": {"declarations", "errors", "atomic_files", "limited_text"},
    "metrics": {"errors", "registry", "benchmark", "plugins", "vocabulary"},
    "estimation": {"errors", "sample_design", "vocabulary", "metrics"},
    "labelling": {
        *("declarations", "errors", "atomic_files", "installation", "json_text", "limited_text"),
        *("vocabulary", "dataset", "metrics"),
    },
    "prompt_lists": {
        *("errors", "atomic_files", "installation", "benchmark", "json_text", "limited_text"),
        *("vocabulary", "dataset", "metrics"),
    },
}
"""Rooms that may know less than all that stands below them: what a number is hangs on no detector and no file."""

SHARED_NAMES: dict[str, str] = {}
"""Public classes that may share a name, each with the reason."""


class Arrow(NamedTuple):
    """One module imports another."""

    source: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


@cache
def modules() -> dict[str, Path]:
    """Every module's file, by its name without `detector_bench.`; a package is called like its folder."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        is_package = parts[-1] == "__init__" and len(parts) > 1
        found[".".join(parts[:-1] if is_package else parts)] = path
    return found


@cache
def arrows() -> tuple[Arrow, ...]:
    """All imports between modules of the package: also those inside functions, and those for types alone."""
    return tuple(arrow for name in sorted(modules()) for arrow in said_in(name).arrows)


class Said(NamedTuple):
    """What a module's text says about it."""

    arrows: tuple[Arrow, ...]
    classes: tuple[str, ...]
    """The public ones."""


@cache
def said_in(name: str) -> Said:
    """A module's imports and classes: its text is parsed once, for that takes most of these tests' time."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    public = tuple(each for each in classes if not each.startswith("_"))
    return Said(tuple(_arrows_of(name, tree)), public)


def _arrows_of(name: str, tree: ast.Module) -> Iterator[Arrow]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative imports hide the room that they come from"
            imported = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for each in imported:
            root, _, rest = each.partition(".")
            # The package's own version is there before anything else is.
            if root == "detector_bench" and rest != "__version__":
                target = _module_of(rest)
                if target != name:
                    yield Arrow(name, target, node.lineno)


def _module_of(dotted: str) -> str:
    while dotted and dotted not in modules():
        dotted = dotted.rpartition(".")[0]
    return dotted or "__init__"


def room(module: str) -> str:
    """The folder of the package, or the single module, that a module belongs to.

    A benchmark's commands stand in its package and are part of the command line, which knows them by name only.
    """
    return "cli" if module.startswith("others.") and module.endswith(".command") else module.partition(".")[0]


def test_every_room_has_its_place_in_the_order() -> None:
    there = {room(module) for module in modules()}
    named = [each for level in ORDER for each in level]
    assert len(named) == len(set(named))
    assert there - set(named) == set(), "rooms without a place"
    assert set(named) - there == set(), "places without a room"
    assert set(ONLY) <= there


def test_rooms_know_only_what_stands_below_them() -> None:
    height = {each: level for level, rooms in enumerate(ORDER) for each in rooms}
    between = [arrow for arrow in arrows() if room(arrow.source) != room(arrow.target)]
    between = [arrow for arrow in between if {room(arrow.source), room(arrow.target)} <= set(height)]
    wrong = [str(arrow) for arrow in between if height[room(arrow.source)] <= height[room(arrow.target)]]
    wrong += [
        str(arrow)
        for arrow in between
        if room(arrow.source) in ONLY and room(arrow.target) not in ONLY[room(arrow.source)]
    ]
    assert not wrong, "\n".join(dict.fromkeys(wrong))


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports: dict[str, set[str]] = defaultdict(set)
    for arrow in arrows():
        # A package is imported before what is in it.
        parents = [".".join(arrow.target.split(".")[:depth]) for depth in range(1, arrow.target.count(".") + 1)]
        around = [each for each in parents if each in modules() and not f"{arrow.source}.".startswith(f"{each}.")]
        imports[arrow.source] |= {arrow.target, *around}
    circles = [", ".join(sorted(circle)) for circle in _circles(imports)]
    assert not circles, "\n".join(circles)


def _circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules of which each can be reached from each."""
    reached: dict[str, set[str]] = {}
    for start in modules():
        found, waiting = set(), [start]
        while waiting:
            new = imports[waiting.pop()] - found
            found |= new
            waiting += new
        reached[start] = found
    on_one = {start: {other for other in reached[start] if start in reached[other]} for start in modules()}
    return [set(each) for each in {frozenset(group) for group in on_one.values()} if each]


def test_a_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in sorted(modules()):
        for name in said_in(module).classes:
            places[name].append(module)
    shared = {name: ", ".join(where) for name, where in places.items() if len(where) > 1}
    unexplained = [f"{name}: {where}" for name, where in shared.items() if name not in SHARED_NAMES]
    assert not unexplained, "\n".join(unexplained)
    assert set(SHARED_NAMES) <= set(shared)
