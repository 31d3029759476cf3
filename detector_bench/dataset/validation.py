"""The rules that an image set must keep: its three tables, checked on whole columns, and its image files.

What is said about files here needs no decoding: that they are there, and inside the folder. Images at addresses
are not looked for: who reads them learns whether they are there.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.dataset.consensus import RESERVED_ANNOTATORS, check_values
from detector_bench.dataset.image_folder import (
    LEAVES_THROUGH_LINK,
    ROOTS_VARIABLE,
    ImageFolder,
    LeavesFolderError,
)
from detector_bench.dataset.image_paths import (
    ADDRESS,
    PART,
    SOUND_ADDRESS,
    SOUND_PART,
    address_problem,
    is_file_below,
    parse_reference,
    shown,
)
from detector_bench.dataset.image_references import (
    MADE_BY,
    SEED_COLUMN,
    ImageCodes,
    check_image_ids,
    check_seeds,
    code_image_ids,
    report_repeats,
)
from detector_bench.dataset.image_set_tables import Tables
from detector_bench.dataset.prompts import check_prompt_statements
from detector_bench.dataset.text_table import (
    Findings,
    TextTable,
    distinct_texts,
    is_plain,
    shorten,
    trimmed,
    true_indices,
)
from detector_bench.errors import Problem, nearest_hint
from detector_bench.vocabulary import ALL, LOW_QUALITY, Attribute, reasons_of
from detector_bench.vocabulary.columns import BASE_PROMPT_COLUMN, STATED_PREFIX, VALUE_COLUMN, WEIGHT_COLUMN

# Values of these columns hardly ever repeat, so encoding them only to judge each value once would cost more.
_DISTINCT_COLUMNS = ("image_id", "path", SEED_COLUMN, VALUE_COLUMN)
_MAY_BE_EMPTY = (SEED_COLUMN, VALUE_COLUMN, BASE_PROMPT_COLUMN, WEIGHT_COLUMN, "prompt", "reason")
_FREE_TEXT = ("prompt", "reason")
# A wrong name in these columns is reported as unknown anyway, with the accepted ones.
_CLOSED_LISTS = ("attribute", "label")
_RESERVED = {
    "t2i_model": (ALL,),
    "category": (ALL,),
    "prompt_id": (ALL,),
    "annotator": RESERVED_ANNOTATORS,
}
LEAVES_FOLDER = r"^/|^[A-Za-z]:|\\|(^|/)\.\.(/|$)"
"""Regular expression of a path that is absolute, climbs with `..`, or has a backslash or drive letter."""

_CONTROL_CHARACTER = r"\p{Cc}"


def validate(
    tables: Tables, findings: Findings, *, require_labels: bool, require_pairs: bool = True
) -> ImageCodes | None:
    """Check all three tables and how they refer to each other; every mistake is added to `findings`.

    Args:
        tables: what was read.
        findings: receives the mistakes.
        require_labels: whether every image must have at least one label.
        require_pairs: whether to check the seeds of edited images; an import makes the pairs itself.

    Returns:
        The image ids as numbers, or None if there are none. They are right only if nothing was found; they are
        handed on so that a million ids are looked up only once.
    """
    images, prompts, labels = tables.images, tables.prompts, tables.labels
    with ThreadPoolExecutor(max_workers=1) as second_core:
        image_codes = second_core.submit(code_image_ids, images, labels, seeds=SEED_COLUMN, ids=tables.ids)
        for table in (images, prompts, labels):
            if table is not None:
                _check_cells(table, findings, tables.attributes)
                if len(table) == 0 and (table is not labels or require_labels):
                    message = "the file has no records"
                    findings.add(Problem(table.file, message, accepted="at least one row below the header"))
        if prompts is not None and prompts.has("prompt_id"):
            _check_prompt_ids(images, prompts, findings)
        if prompts is not None:
            check_prompt_statements(prompts, findings, tables.attributes)
        if images is not None and images.has("path"):
            _check_paths(images, findings)
        if labels is not None:
            _check_label_values(labels, findings, tables.attributes)
            check_values(labels, findings, tables.attributes)
    codes = image_codes.result()
    if images is None or codes is None:
        return None
    check_image_ids(images, labels, codes, findings, require_labels=require_labels)
    if require_pairs:
        check_seeds(images, codes, findings)
    return codes


def _check_cells(table: TextTable, findings: Findings, attributes: Mapping[str, Attribute]) -> None:
    # Of images made from others, `check_seeds` says which may have no T2I model and no prompt.
    may_be_empty = (*_MAY_BE_EMPTY, *(MADE_BY if table.has(SEED_COLUMN) else ()))
    for column in table.columns:
        is_statement = column.startswith(STATED_PREFIX)
        if column not in may_be_empty and not is_statement:
            empty = _records_matching(table, column, lambda cells: pc.equal(trimmed(cells), ""))
            accepts = _accepted_in(table, column, attributes)
            findings.add_rows(table, column, empty, message="empty cell", accepted=accepts)
        if column in _RESERVED:
            reserved = _RESERVED[column]
            rows = table.records_with(column, reserved.__contains__)
            accepted = f"any name but {', '.join(map(repr, reserved))}"
            findings.add_rows(table, column, rows, message="reserved name", accepted=accepted)
        is_closed = column in _CLOSED_LISTS or is_statement
        if column not in _FREE_TEXT and not is_closed and not is_plain(table.texts(column)):
            _check_characters(table, column, findings, may_be_empty=column in may_be_empty)


def _accepted_in(table: TextTable, column: str, attributes: Mapping[str, Attribute]) -> str | Callable[[int], str]:
    if column == "label" and table.has("attribute"):
        everything = {label: None for attribute in attributes.values() for label in attribute.labels}

        def labels_of_attribute(index: int) -> str:
            attribute = attributes.get(table.cell("attribute", index))
            return ", ".join(attribute.labels if attribute else everything)

        return labels_of_attribute
    return ", ".join(attributes) if column == "attribute" else "some text"


def _check_characters(table: TextTable, column: str, findings: Findings, *, may_be_empty: bool) -> None:
    control = _records_matching(table, column, lambda cells: pc.match_substring_regex(cells, _CONTROL_CHARACTER))
    findings.add_rows(
        table, column, control, message="control character", accepted="text without line breaks, tabs or NUL"
    )

    def has_blanks(cells: Any) -> Any:
        inner = pc.utf8_trim_whitespace(cells)
        blanks = pc.not_equal(inner, cells)
        return blanks if may_be_empty else pc.and_(blanks, pc.not_equal(inner, ""))

    blanks = np.setdiff1d(_records_matching(table, column, has_blanks), control, assume_unique=True)
    findings.add_rows(
        table,
        column,
        blanks,
        message="blanks around the text",
        accepted=lambda index: repr(table.cell(column, index).strip()),
    )


def _records_matching(table: TextTable, column: str, matches: Callable[[Any], Any]) -> NDArray[np.intp]:
    if column in _DISTINCT_COLUMNS:
        return table.matching(column, matches)
    encoded = table.encoded(column)
    bad = true_indices(matches(pa.chunked_array([encoded.texts], type=pa.large_string())))
    return np.flatnonzero(np.isin(encoded.codes, bad)) if len(bad) else bad


def _check_prompt_ids(images: TextTable | None, prompts: TextTable, findings: Findings) -> None:
    _, codes = distinct_texts(trimmed(prompts.column("prompt_id")))
    report_repeats(prompts, "prompt_id", codes, findings)
    if images is None or not images.has("prompt_id"):
        return
    known = {value.strip() for value in prompts.encoded("prompt_id").texts} - {""}
    readable = known | prompts.unreadable.get("prompt_id", frozenset()) | {""}
    unknown = images.records_with("prompt_id", lambda value: value.strip() not in readable)
    findings.add_rows(
        images,
        "prompt_id",
        unknown,
        message=f"prompt_id that {prompts.file} does not list",
        accepted=lambda index: _hint(images.cell("prompt_id", index), known),
    )


def _hint(value: str, known: Collection[str]) -> str:
    hint = nearest_hint(value, known)
    is_short = hint.startswith("did you mean") or len(known) <= 12
    return hint if is_short else f"one of the {len(known)} listed there"


def _check_paths(images: TextTable, findings: Findings) -> None:
    leaving = true_indices(pc.match_substring_regex(images.column("path"), LEAVES_FOLDER))
    findings.add_rows(
        images,
        "path",
        leaving,
        message="path that leaves the folder",
        accepted="a path below the image set's folder, with / between its parts and without ..",
    )
    _check_addresses(images, leaving, findings)


def _check_addresses(images: TextTable, leaving: NDArray[np.intp], findings: Findings) -> None:
    """Check addresses and parts of files; the few that are not plainly sound are taken apart one by one."""
    paths = images.column("path")
    is_part = pc.match_substring_regex(paths, PART)
    is_special = pc.or_(is_part, pc.match_substring_regex(paths, ADDRESS))
    is_sound = pc.and_not(pc.match_substring_regex(paths, SOUND_ADDRESS), is_part)
    is_sound = pc.or_(is_sound, pc.match_substring_regex(paths, SOUND_PART))
    doubtful = true_indices(pc.and_not(is_special, is_sound))
    problems: dict[tuple[str, str], list[int]] = {}
    for index in np.setdiff1d(doubtful, leaving).tolist():
        if (problem := address_problem(images.cell("path", index))) is not None:
            problems.setdefault(problem, []).append(index)
    for (message, accepted), indices in problems.items():
        findings.add_kind(
            [
                Problem(
                    file=images.file_of(index),
                    message=message,
                    row=images.row(index),
                    column="path",
                    value=shorten(shown(images.cell("path", index))),
                    accepted=accepted,
                )
                for index in indices
            ]
        )


def _check_label_values(labels: TextTable, findings: Findings, known: Mapping[str, Attribute]) -> None:
    if not labels.has("attribute", "label"):
        return
    unknown = labels.records_with("attribute", lambda value: bool(value.strip()) and value not in known)
    findings.add_rows(labels, "attribute", unknown, message="unknown attribute", accepted=", ".join(known))
    attributes, values = labels.encoded("attribute"), labels.encoded("label")
    for name, attribute in known.items():
        if name not in attributes.texts:
            continue
        is_wrong = np.array([bool(v.strip()) and v not in attribute.labels for v in values.texts], dtype=bool)
        if is_wrong.any():
            of_attribute = attributes.codes == attributes.texts.index(name)
            findings.add_rows(
                labels,
                "label",
                np.flatnonzero(of_attribute & is_wrong[values.codes]),
                message=f"unknown label for {name}",
                accepted=", ".join(attribute.labels),
            )
    _check_reasons(labels, findings, reasons_of(known.values()))


def _check_reasons(labels: TextTable, findings: Findings, reasons: Sequence[str]) -> None:
    values = labels.encoded("label")
    if not labels.has("reason") or LOW_QUALITY not in values.texts:
        return
    unknown = labels.records_with("reason", lambda value: value not in ("", *reasons))
    low_quality = values.codes[unknown] == values.texts.index(LOW_QUALITY)
    findings.add_rows(
        labels,
        "reason",
        unknown[low_quality],
        message=f"unknown reason for {LOW_QUALITY}",
        accepted=", ".join(reasons) + ", or nothing",
    )


def distinct_paths(images: TextTable) -> dict[str, int]:
    """The paths that lie below the image set's folder, each with the index of the first record that has it."""
    texts, codes = distinct_texts(images.column("path"))
    first_records = np.unique(codes, return_index=True)[1].tolist()
    leaving = pc.match_substring_regex(texts, LEAVES_FOLDER).to_pylist()
    paths = texts.to_pylist()
    return {
        path: record
        for path, record, leaves in zip(paths, first_records, leaving, strict=True)
        if path.strip() and not leaves
    }


class FileInspector:
    """Tells what is wrong with a file below a folder; remembers the folders it has seen.

    Args:
        root: the image set's folder.
    """

    def __init__(self, root: Path) -> None:
        self._folder = ImageFolder(root)

    def fault(self, path: str) -> str | None:
        """Say what is wrong with a file, or None: missing, not a file, or outside the folder through a link.

        Of an archive's member the archive is looked at; of an image at an address nothing is said.
        """
        if "#" in path or "://" in path:
            reference = parse_reference(path)
            return self._fault(reference.place) if reference.is_local else None
        return self._fault(path)

    def _fault(self, path: str) -> str | None:
        try:
            _, status = self._folder.find(path)
        except LeavesFolderError:
            return LEAVES_THROUGH_LINK
        except FileNotFoundError:
            return "missing image file"
        except (OSError, ValueError) as error:
            return f"image file cannot be read ({getattr(error, 'strerror', None) or error})"
        if stat.S_ISDIR(status.st_mode):
            return "path of a folder, not of an image file"
        if not stat.S_ISREG(status.st_mode):
            return "path of something that is not a regular file"
        return None


def check_image_files(images: TextTable, root: Path, findings: Findings) -> None:
    """Report every image file that is missing, is no file, or lies outside the folder; nothing is decoded."""
    inspector = FileInspector(root)
    faults = [
        image_problem(images, record, path, fault)
        for path, record in distinct_paths(images).items()
        if (fault := inspector.fault(path)) is not None
    ]
    add_by_kind(faults, findings)


def check_brought_files(folder: Path, paths: Sequence[str], *, into: Path, findings: Findings) -> None:
    """Report the files of a folder that are not to be brought into an image set.

    Args:
        folder: where they are, with links resolved.
        paths: of the files, below it.
        into: the image set's folder; what lies below it already may be linked from anywhere below it.
        findings: receives those that are missing, are no files, or lie outside.
    """
    is_inside = folder.is_relative_to(into)
    prefix = f"{folder.relative_to(into).as_posix()}/" if is_inside else ""
    inspector = FileInspector(into if is_inside else folder)
    accepted = f"an image file in the folder, or below one that --allow-root or {ROOTS_VARIABLE} names"
    faults = ((path, inspector.fault(f"{prefix}{path}")) for path in paths)
    add_by_kind([Problem(path, fault, accepted=accepted) for path, fault in faults if fault is not None], findings)


def check_target_folders(destination: Path, paths: Sequence[str], findings: Findings) -> None:
    """Report the folders of an image set that files cannot go into, as they would lie outside then."""
    inside = ImageFolder(destination)
    folders = dict.fromkeys(path.rpartition("/")[0] for path in paths)
    accepted = f"a folder of the image set's own, or a link below one that --allow-root or {ROOTS_VARIABLE} names"
    findings.add_kind(
        [
            Problem(folder, "folder that is a link out of the image set", accepted=accepted)
            for folder in folders
            if inside.leads_out(folder)
        ]
    )


def image_problem(images: TextTable, record: int, path: str, message: str) -> Problem:
    """A mistake about one image file, placed at the first record that names it."""
    accepted = "an image file in the image set's folder"
    if not is_file_below(path):
        accepted = "an image there, which may be read"
    if message == LEAVES_THROUGH_LINK:
        accepted += f", or below a folder that --allow-root or {ROOTS_VARIABLE} names"
    return Problem(
        file=images.file_of(record),
        message=message,
        row=images.row(record),
        column="path",
        value=shorten(shown(path)),
        accepted=accepted,
    )


def add_by_kind(problems: list[Problem], findings: Findings) -> None:
    """Keep mistakes sorted into kinds, so that a long list of one hides no other.

    The kind is the message up to its bracket, which may hold details of the single file.
    """
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(problem.message.split(" (")[0], []).append(problem)
    for kind in kinds.values():
        findings.add_kind(kind)
