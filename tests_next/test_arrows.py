"""Imports go down only: a file imports from names before its own, folders of one floor never from each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import detector_bench_next

FLOORS = [
    "errors",
    "files",
    "registry",
    "attributes",
    "images",
    "dataset",
    "quickstart",
    "allowed",
    "weights",
    "services",
    "detector",
    "cache",
    "detectors",
    "predictions",
    "runner",
    "engines",
    "cells",
    "metrics",
    "intervals",
    "inference",
    "evaluate",
    "scores",
    "results",
    "tables",
    "figures",
    "answer",
    "study",
    "verify",
    "convert/label/generate/papers/audit/search/report",
    "verbs",
    "cli",
]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split("/")}
PACKAGE = Path(detector_bench_next.__file__).parent


def imported(path: Path) -> Iterator[str]:
    """First name below the package of every import in a file, also those in functions and for checkers alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}, line {node.lineno}: imports are absolute"
            modules = [f"{node.module}.{a.name}" for a in node.names]
        else:
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        yield from (m.split(".")[1] for m in modules if m.startswith("detector_bench_next.") and m.count("."))
        assert not any(m.split(".")[0] == "detector_bench" for m in modules), (
            f"{path.name} imports the old package"
        )


def test_imports_go_down_only() -> None:
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if own in ("__init__", "__main__", "resources"):
            continue
        up = [name for name in imported(path) if name != own and FLOOR[name] >= FLOOR[own]]
        wrong += [f"{path.relative_to(PACKAGE)} imports {name}" for name in up]
    assert not wrong
