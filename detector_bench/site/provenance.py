"""What a result rests on, out of `run.json` and `results.json`, and how to cite it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from detector_bench import __version__
from detector_bench.results.manifest import Manifest

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Block:
    """Facts under one heading, as pairs or as a table."""

    heading: str
    facts: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def date_of(record: Record) -> str:
    """The day on which the last session of the run began, `2026-11-21`; empty where it is not known."""
    sessions = record.get("sessions")
    last = sessions[-1] if isinstance(sessions, list) and sessions else {}
    return str(_mapping(last).get("began", ""))[:10]


def provenance_blocks(
    record: Record, manifest: Manifest, *, version: str, settings: Mapping[str, str]
) -> list[Block]:
    """Lay out what a result rests on; parts that the record does not have are left out.

    Args:
        record: of the run that judged, as `read_run_record` gives it.
        manifest: of the evaluation.
        version: of detector_bench, which wrote the report.
        settings: how the report was written, for people.
    """
    environment, images = manifest.environment, manifest.image_set
    machine, packages = _mapping(environment.get("machine")), _mapping(environment.get("packages"))
    run = _pairs(
        {
            "Study": manifest.study,
            "Run began": " and ".join(_beginnings(record)),
            "Predictions from": "" if manifest.predictions == "predictions" else manifest.predictions,
            "Image set": images.get("name"),
            "Images": images.get("images"),
            "Fingerprint of the image set": images.get("fingerprint"),
            "detector_bench": environment.get("detector_bench"),
            "Commit": environment.get("git_commit"),
            "Python": environment.get("python"),
            **packages,
            "System": machine.get("system"),
            "Processor": machine.get("processor"),
            "Cores": machine.get("cores"),
            "Memory": f"{machine['memory_gib']} GiB" if machine.get("memory_gib") else None,
        }
    )
    nothing = () if record else (("Record", "There is no run.json: the numbers come from stored predictions."),)
    plugins = tuple(
        (each.file, "; ".join(f"{what} {', '.join(names)}" for what, names in each.adds.items()), each.sha256)
        for each in manifest.plugins
    )
    return [
        Block("Run", (*run, *nothing)),
        *_tables(record),
        *([Block("Plugin files", columns=("File", "Adds", "sha256"), rows=plugins)] if plugins else []),
        Block("Report", _pairs({"Written by": f"detector_bench {version}", **settings})),
    ]


def _tables(record: Record) -> list[Block]:
    detectors, weights, spending = (_mapping(record.get(name)) for name in ("detectors", "weights", "spending"))
    rows: list[tuple[str, ...]] = []
    for name, each in detectors.items():
        kind = _mapping(_mapping(each).get("identity")).get("kind", "")
        rows.append((str(name), str(kind), str(_mapping(each).get("fingerprint", ""))))
    files: list[tuple[str, ...]] = []
    for name, each in weights.items():
        files.append((str(name), *(str(_mapping(each).get(key, "")) for key in ("licence", "source", "sha256"))))
        parts = _mapping(_mapping(each).get("files"))
        files += [(f"{name}: {part}", "", "", str(sha256)) for part, sha256 in parts.items()]
    spent = {
        name: ", ".join(f"{what.replace('_', ' ')} {_shown(number)}" for what, number in _mapping(each).items())
        for name, each in spending.items()
    }
    blocks = [
        Block("Detectors", columns=("Detector", "Kind", "Fingerprint"), rows=tuple(rows)),
        Block("Stages", columns=("Stage", "Precision", "Ran on"), rows=_stage_rows(record)),
        Block("Weights", columns=("File", "Licence", "Source", "sha256"), rows=tuple(files)),
        Block("Paid services", _pairs(spent)),
    ]
    return [block for block in blocks if block.rows or block.facts]


def _shown(number: object) -> str:
    return f"{number:,.4f}" if isinstance(number, float) and not number.is_integer() else str(number)


def _stage_rows(record: Record) -> tuple[tuple[str, ...], ...]:
    """Of each stage the precision it took and where it ran; older records say neither."""
    stages = {str(label): _mapping(each) for label, each in _mapping(record.get("stages")).items()}
    return tuple(
        (label, str(each.get("precision", "")), ", ".join(map(str, each.get("devices", ()))) or "from the cache")
        for label, each in stages.items()
        if each
    )


def _beginnings(record: Record) -> list[str]:
    sessions = record.get("sessions")
    times = [str(_mapping(each).get("began", "")) for each in sessions] if isinstance(sessions, list) else []
    began = [time.replace("T", " ").replace("+00:00", " UTC") for time in times]
    return [began[0], began[-1]] if len(began) > 1 else began


def _pairs(facts: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in facts.items() if value not in (None, ""))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class Citation(NamedTuple):
    """One entry of a list of references."""

    sentence: str
    bibtex: str


def citations() -> tuple[Citation, ...]:
    """The study of 2025, whose protocol and scores these are, and this tool."""
    return (
        Citation(
            "The protocol, the scores and the comparison with human labels are those of Lyu et al. (2025).",
            "@inproceedings{lyu2025,\n"
            "  author    = {Lyu, Yunbo and Yang, Zhou and Niu, Yuqing and Jiang, Jing and Lo, David},\n"
            "  title     = {Do Existing Testing Tools Really Uncover Gender Bias in Text-to-Image Models?},\n"
            "  booktitle = {Proceedings of the 33rd ACM International Conference on Multimedia (MM '25)},\n"
            "  year      = {2025},\n"
            "  address   = {Dublin, Ireland},\n"
            "  doi       = {10.1145/3746027.3755748}\n"
            "}",
        ),
        Citation(
            f"The numbers of this report were computed by detector_bench {__version__}. Cite the detectors and "
            "their weights, too: their sources stand under Provenance.",
            "@software{detector_bench,\n"
            "  author  = {{The detector\\_bench authors}},\n"
            "  title   = {detector\\_bench: can a gender, age or race detector be trusted to measure the bias of "
            "a text-to-image model?},\n"
            f"  version = {{{__version__}}}\n"
            "}",
        ),
    )
