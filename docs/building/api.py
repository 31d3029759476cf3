"""The pages of the Python interface, from its docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import detector_bench


class Group(NamedTuple):
    """Names that belong together."""

    title: str
    place: str
    about: str
    names: tuple[str, ...]
    """Of `detector_bench`, or dotted."""


GROUPS = (
    Group(
        "Studies and results",
        "studies",
        "A study says which detectors judge which images; its results answer questions.",
        ("Study", "Results", "ResultTables", "evaluate", "read_predictions", "site.ReportSettings"),
    ),
    Group(
        "Image sets",
        "image-sets",
        "Images, prompts and labels.",
        ("ImageSet", "build_image_set", "check", "import_folder", "consensus"),
    ),
    Group(
        "T2I models",
        "t2i-models",
        "From prompts to images, and how a class of yours becomes a T2I model.",
        (
            "generate",
            "generation.t2i_models.T2IModel",
            "generation.t2i_models.ModelRecord",
            "generation.t2i_models.t2i_model",
            "generation.image_requests.Made",
            "generation.image_requests.Blocked",
        ),
    ),
    Group(
        "Detectors",
        "detectors",
        "What a detector is made of, how it is tried and checked.",
        (
            "build_detector",
            "detector",
            "detector_readiness",
            "try_detector",
            "check_detector",
            "check_stage",
            "check_card",
            "Card",
            "Prediction",
            "Status",
            "Stage",
            "Batch",
            "Frame",
        ),
    ),
    Group(
        "Metrics and tables",
        "metrics-and-tables",
        "Numbers of your own, and metrics of two lists of labels.",
        (
            "metric",
            "Table",
            "Column",
            "TableNumbers",
            "declare_table",
            "makes_table",
            "study_tables",
            "metrics.of_labels",
        ),
    ),
    Group("Errors", "errors", "What a program may catch.", ("DetectorBenchError",)),
)

_FOREIGN = ("BaseModel", "Enum", "BaseException", "Sequence", "str", "tuple")
"""Classes of other libraries, whose members nobody looks for here."""


def missing() -> set[str]:
    """Public names that are in no group."""
    return set(detector_bench.__all__) - {name for group in GROUPS for name in group.names}


def write_api(page: Path) -> None:
    """Write the page, and one for each group into the folder beside it."""
    if left := missing():
        raise ValueError(f"public names in no group of docs/building/api.py: {', '.join(sorted(left))}")
    folder = page.with_suffix("")
    folder.mkdir(exist_ok=True)
    page.write_text("\n".join(_overview()) + "\n", encoding="utf-8")
    for group in GROUPS:
        (folder / f"{group.place}.md").write_text("\n".join(_written(group)) + "\n", encoding="utf-8")


def _overview() -> Iterator[str]:
    yield "# Python interface\n"
    yield (
        "What `import detector_bench as db` offers, from its docstrings. [Python](python.md) shows it at work. "
        "What is not here may change without notice.\n"
    )
    for group in GROUPS:
        names = ", ".join(f"`{name}`" for name in group.names)
        yield f"- [{group.title}](api/{group.place}.md): {names}"
    yield "\n```{toctree}\n:hidden:\n"
    yield from (f"api/{group.place}" for group in GROUPS)
    yield "```"


def _written(group: Group) -> Iterator[str]:
    yield f"# {group.title}\n\n{group.about}\n"
    for name in group.names:
        yield f"## `{name}`\n\n```{{eval-rst}}"
        yield from _directive(name)
        yield "```\n"


def _directive(name: str) -> Iterator[str]:
    found = _named(name)
    home = getattr(found, "__module__", "") if name in detector_bench.__all__ else ""
    kind = "function" if callable(found) else "module"
    if isinstance(found, type):
        kind = "exception" if issubclass(found, BaseException) else "class"
    yield f".. auto{kind}:: {home or 'detector_bench'}.{name}"
    if kind != "function":
        yield "   :members:"
        # What people call on a class may stand in one that it is made of: `Results.number`.
        yield f"   :inherited-members: {', '.join(_FOREIGN)}"
        yield "   :exclude-members: model_config, model_post_init"


def _named(name: str) -> object:
    """What a name below `detector_bench` stands for, also in a module that nobody has imported yet."""
    home, _, last = name.rpartition(".")
    module = import_module(f"detector_bench.{home}" if home else "detector_bench")
    return getattr(module, last, None) or import_module(f"detector_bench.{name}")
