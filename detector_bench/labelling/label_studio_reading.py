"""Reads Label Studio's exports: `JSON`, whose tasks hold all annotations, and `JSON-MIN`, a record for each."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from detector_bench.dataset import ImageSet
from detector_bench.dataset.text_table import Findings, shorten
from detector_bench.errors import DataError, Problem
from detector_bench.json_text import JsonMistake, read_json
from detector_bench.labelling.incoming import Imported, IncomingLabel, bring_in
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.label_studio import ANNOTATOR, NOTE, REASON, VALUE
from detector_bench.labelling.records import Choice
from detector_bench.labelling.store import LabelStore
from detector_bench.vocabulary import LOW_QUALITY

_KINDS = {"choices": "choices", "number": "number", "textarea": "text"}
_OWN_KEYS = {
    "id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "item_id", "image_id",
}  # fmt: skip
_UPLOAD_MARK = re.compile(r"^[0-9a-f]{8}-")
"""Label Studio puts this before the name of an uploaded file."""


@dataclass(frozen=True, slots=True)
class LabelStudioImport:
    """How to read an export.

    Attributes:
        annotators: our name of a person, by the email address or id in the file. Others keep their address, or are
            called `label_studio_<id>`.
        ignore: controls of the labelling configuration that are no questions of ours.
        overwrite: whether a different label of the same annotator in the store is replaced.
    """

    annotators: Mapping[str, str]
    ignore: Collection[str] = ()
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class _Said:
    """What one control of one annotation says, and where."""

    control: str
    value: Any
    place: str


@dataclass(frozen=True, slots=True)
class _Annotation:
    """One person's answers to one task."""

    item_id: str
    annotator: str
    said: list[_Said]
    seconds: float | None
    place: str


def import_label_studio(store: LabelStore, path: Path, *, settings: LabelStudioImport) -> Imported:
    """Put the annotations of an export into a store; of several by one person on one task the last one counts.

    Cancelled annotations (skips) are counted and left out, predictions and drafts are not looked at. A task is
    found by its `item_id` or `image_id`, else by the path or the name of its image.

    Args:
        store: where to.
        path: a `JSON` or `JSON-MIN` export.
        settings: names, and what to do with labels that contradict the store.

    Raises:
        DataError: with all mistakes at once, each with its place in the file: no such image, question or label, or
            a label that contradicts the store.
    """
    findings = Findings()
    reader = _Reader(store, path.name, settings, findings)
    newest: dict[tuple[str, str], _Annotation] = {}
    for number, task in enumerate(_tasks(path)):
        for annotation in reader.annotations(task, f"$[{number}]"):
            newest[annotation.annotator, annotation.item_id] = annotation
    labels = [label for annotation in newest.values() for label in reader.labels(annotation)]
    imported = bring_in(store, labels, findings, overwrite=settings.overwrite)
    return Imported(imported.stored, imported.known, skipped=reader.skipped)


def _tasks(path: Path) -> list[Any]:
    accepted = "a list of tasks, as Label Studio exports them (JSON or JSON-MIN)"
    try:
        found = read_json(path)
    except (OSError, JsonMistake) as error:
        place = error.place if isinstance(error, JsonMistake) else ""
        message = f"cannot be read as JSON ({error}{place})"
        raise DataError([Problem(path.name, message, accepted=accepted)]) from error
    if not isinstance(found, list):
        raise DataError([Problem(path.name, "it is no list", value=type(found).__name__, accepted=accepted)])
    return found


class _Reader:
    def __init__(self, store: LabelStore, file: str, settings: LabelStudioImport, findings: Findings) -> None:
        self.skipped = 0
        self._file = file
        self._settings = settings
        self._findings = findings
        self._items = _ItemFinder(store.present_items(), store.image_set)
        self._questions = {question.name: question for question in store.questions}

    def annotations(self, task: Any, place: str) -> Iterator[_Annotation]:
        """The annotations of a task, or the one that a record of JSON-MIN is; skips are counted."""
        if not isinstance(task, dict):
            self._mistake(place, "it is no object", task, "a task")
            return
        is_whole = isinstance(task.get("data"), dict)
        data = task["data"] if is_whole else task
        item_id = self._items.find(data)
        if item_id is None:
            shown = {name: value for name, value in data.items() if isinstance(value, str)}
            accepted = "item_id, or the path of one of the images"
            self._mistake(f"{place}.data" if is_whole else place, "no such image", shown, accepted)
            return
        if not is_whole:
            # An image that nobody has annotated has a record, too.
            if task.get(ANNOTATOR) or task.get("annotation_id") is not None:
                yield self._record(task, item_id, place)
            return
        annotations = task.get("annotations")
        in_time = sorted(enumerate(annotations if isinstance(annotations, list) else []), key=_time)
        for number, annotation in in_time:
            where = f"{place}.annotations[{number}]"
            if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
                self._mistake(where, "it has no list of results", annotation, "an annotation")
            elif annotation.get("was_cancelled") or annotation.get("skipped"):
                self.skipped += 1
            else:
                yield _Annotation(
                    item_id,
                    self._annotator(annotation.get(ANNOTATOR) or annotation.get("completed_by"), where),
                    list(self._results(annotation["result"], where)),
                    _seconds(annotation),
                    where,
                )

    def labels(self, annotation: _Annotation) -> Iterator[IncomingLabel]:
        """The labels of an annotation; what no question of ours is said by is a mistake."""
        said = {one.control: one for one in annotation.said}
        known = {name + end for name in self._questions for end in ("", REASON, NOTE, VALUE)}
        for one in annotation.said:
            if one.control not in known and one.control not in self._settings.ignore:
                accepted = ", ".join(self._questions) + "; or ignore it"
                self._mistake(one.place, "unknown question", one.control, accepted)
        for name, question in self._questions.items():
            if name not in said:
                continue
            label, reason, note = (self._text(said.get(name + end)) for end in ("", REASON, NOTE))
            if label not in question.labels:
                self._mistake(said[name].place, f"unknown label for {name}", label, ", ".join(question.labels))
                continue
            if label != LOW_QUALITY:
                reason = ""  # the control is hidden then, and may hold what was chosen before
            if reason and reason not in question.reasons:
                self._mistake(said[name + REASON].place, "unknown reason", reason, ", ".join(question.reasons))
                continue
            value = self._number(said.get(name + VALUE)) if label in question.classes else None
            place = Problem(f"{self._file}, {said[name].place}", "")
            time = None if annotation.seconds is None else round(annotation.seconds * 1000)
            choice = Choice(label, reason, note, value)
            yield IncomingLabel(annotation.annotator, annotation.item_id, name, choice, place, time)

    def _record(self, record: Mapping[str, Any], item_id: str, place: str) -> _Annotation:
        names = [name + end for name in self._questions for end in ("", REASON, NOTE, VALUE)]
        said = [_Said(name, record[name], f"{place}.{name}") for name in names if name in record]
        if not any(one.control in self._questions for one in said):
            shown = [name for name in record if name not in _OWN_KEYS]
            self._mistake(place, "no answer to any question", shown, ", ".join(self._questions))
        return _Annotation(item_id, self._annotator(record.get(ANNOTATOR), place), said, _seconds(record), place)

    def _results(self, results: list[Any], place: str) -> Iterator[_Said]:
        for number, result in enumerate(results):
            where = f"{place}.result[{number}]"
            if not isinstance(result, dict) or not isinstance(result.get("value"), dict):
                self._mistake(where, "it has no value", result, "a result")
                continue
            control, kind = str(result.get("from_name")), str(result.get("type"))
            if kind in _KINDS:
                key = _KINDS[kind]
                yield _Said(control, result["value"].get(key), f"{where}.value.{key}")
            elif control not in self._settings.ignore:
                accepted = ", ".join(_KINDS) + "; or ignore it"
                self._mistake(f"{where}.type", f"{control} is of a kind that is not read", kind, accepted)

    def _annotator(self, completed_by: Any, place: str) -> str:
        if isinstance(completed_by, dict):
            completed_by = completed_by.get("email") or completed_by.get("id")
        if isinstance(completed_by, bool) or not isinstance(completed_by, int | str) or completed_by == "":
            self._mistake(
                place, "it does not say whose it is", completed_by, "completed_by: an id or an email address"
            )
            return ""
        name = self._settings.annotators.get(str(completed_by))
        if name is not None:
            return name
        return f"label_studio_{completed_by}" if str(completed_by).isdigit() else str(completed_by)

    def _text(self, said: _Said | None) -> str:
        """The single text of a control, whichever way it is written; "" where there is none."""
        value = None if said is None else said.value
        if isinstance(value, dict):
            value = value.get("choices", value.get("text"))
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value in (None, []):
            return ""
        if said is not None and isinstance(value, list) and all(isinstance(part, str) for part in value):
            if said.control.endswith(NOTE):
                return "\n".join(value)
            self._mistake(said.place, "several choices", value, "one of them")
            return ""
        return str(value)

    def _number(self, said: _Said | None) -> float | None:
        value = None if said is None else said.value
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, dict):
            value = value.get("number")
        if value is None or said is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._mistake(said.place, "no number", value, "a number")
            return None
        return float(value)

    def _mistake(self, place: str, message: str, value: Any, accepted: str) -> None:
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self._findings.add(Problem(f"{self._file}, {place}", message, value=shorten(shown), accepted=accepted))


class _ItemFinder:
    """Finds the item that a task is about.

    Args:
        items: what there is.
        image_set: where the images' paths are.
    """

    def __init__(self, items: Collection[DeskItem], image_set: ImageSet) -> None:
        paths = dict(zip(image_set.images["image_id"], image_set.images["path"], strict=True))
        # The last image of an item is the one that it is named after.
        self._by_path = {paths[item.images[-1][1]]: item.item_id for item in items}
        self._role = next((item.images[-1][0] for item in items), "image")
        self._ids = {item.item_id for item in items}
        self._by_name: dict[str, list[str]] = {}
        for path, item_id in self._by_path.items():
            self._by_name.setdefault(path.rpartition("/")[2], []).append(item_id)

    def find(self, data: Mapping[str, Any]) -> str | None:
        """The item's id; None if no image is meant, or several could be."""
        for key in ("item_id", "image_id"):
            if data.get(key) in self._ids:
                return str(data[key])
        address = data.get(self._role)
        if not isinstance(address, str):
            return None
        if address in self._by_path:
            return self._by_path[address]
        parts = urlsplit(address)
        path = parse_qs(parts.query).get("d", [unquote(parts.path)])[0].strip("/")
        while path:
            if path in self._by_path:
                return self._by_path[path]
            name = path.rpartition("/")[2]
            for candidate in (name, _UPLOAD_MARK.sub("", name)) if "/" not in path else ():
                if len(self._by_name.get(candidate, [])) == 1:
                    return self._by_name[candidate][0]
            path = path.partition("/")[2]
        return None


def _time(numbered: tuple[int, Any]) -> str:
    annotation = numbered[1]
    if not isinstance(annotation, dict):
        return ""
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _seconds(holder: Mapping[str, Any]) -> float | None:
    seconds = holder.get("lead_time")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 10**9:
        return None
    return float(seconds)
