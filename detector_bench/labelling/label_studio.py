"""Tasks with annotations as Label Studio's JSON, and the labelling configuration that they belong to.

A question is a `Choices` control of its own name; `<question>_reason` holds the reason of `low_quality`,
`<question>_note` a free note, `<question>_value` a number. Source: Label Studio's documentation of its task format
and tags, checked with label-studio-sdk 2.1.

T2I model, prompt and detectors are left out: annotators must not see them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from detector_bench.dataset.image_paths import parse_reference, shown
from detector_bench.errors import ConfigError
from detector_bench.labelling.label_table import GivenLabel
from detector_bench.labelling.questions import Question, Task
from detector_bench.labelling.records import Choice
from detector_bench.labelling.store import LabelStore
from detector_bench.vocabulary import LOW_QUALITY

LOCAL_FILES = "/data/local-files/?d="
"""Label Studio's address of a file below its document root, which is to be the image set's folder."""

REASON, NOTE, VALUE = "_reason", "_note", "_value"
IMAGE_ROLES = {Task.IMAGES: ("image",), Task.PAIRS: ("seed", "edited")}
ANNOTATOR = "annotator"
"""Our own key of an annotation: a name that Label Studio, which knows people by their email address, has no place
for. Label Studio ignores it."""

_IDS = uuid.UUID("6f0c3c51-7d0e-4b3c-9a0e-51d0a6d1f7a2")


def labelling_config(task: Task, questions: Sequence[Question]) -> str:
    """The labelling configuration (XML) of a Label Studio project for these questions."""
    view = Xml.Element("View")
    roles = IMAGE_ROLES[task]
    for role in roles:
        Xml.SubElement(view, "Image", name=role, value=f"${role}", zoom="true", zoomControl="true")
    for question in questions:
        Xml.SubElement(view, "Header", value=question.text)
        about = {"toName": roles[-1]}
        choices = Xml.SubElement(
            view, "Choices", {"name": question.name, **about, "choice": "single", "required": "true"}
        )
        for label in question.labels:
            Xml.SubElement(choices, "Choice", value=label)
        shown = {"visibleWhen": "choice-selected", "whenTagName": question.name, "whenChoiceValue": LOW_QUALITY}
        reasons = Xml.SubElement(
            view, "Choices", {"name": question.name + REASON, **about, "choice": "single", **shown}
        )
        for reason in question.reasons:
            Xml.SubElement(reasons, "Choice", value=reason)
        if question.value_range is not None:
            lowest, highest = (f"{limit:g}" for limit in question.value_range)
            Xml.SubElement(view, "Number", {"name": question.name + VALUE, **about, "min": lowest, "max": highest})
        note = {"name": question.name + NOTE, **about, "rows": "2", "maxSubmissions": "1", "editable": "true"}
        Xml.SubElement(view, "TextArea", {**note, "placeholder": "A note, for others in any case"})
    Xml.indent(view)
    return Xml.tostring(view, encoding="unicode") + "\n"


def label_studio_tasks(
    store: LabelStore,
    *,
    image_address: str = LOCAL_FILES,
    emails: Mapping[str, str] | None = None,
    include_changed: bool = False,
) -> list[dict[str, Any]]:
    """Every item as a task, with everybody's answers as annotations and without predictions.

    Label Studio finds people by their email address, and refuses a file with an address that it does not know. So
    `completed_by` is there only for annotators with an address; others are put down to whoever imports the file.

    Args:
        store: whose items.
        image_address: what stands before an image's path, which follows percent-encoded.
        emails: address by annotator; names that are addresses need none.
        include_changed: also labels on other content than an image has now.

    Raises:
        ConfigError: an image lies in an archive or a table, where Label Studio cannot show it.
    """
    answers: dict[str, dict[str, list[GivenLabel]]] = {}
    for given in store.given(include_changed=include_changed):
        answers.setdefault(given.item.item_id, {}).setdefault(given.annotator, []).append(given)
    paths = dict(zip(store.image_set.images["image_id"], store.image_set.images["path"], strict=True))
    tasks = []
    for number, item in enumerate(store.present_items(), start=1):
        data = {role: _address(paths[image_id], image_address) for role, image_id in item.images}
        annotations = [
            _annotation(labels, to_name=item.images[-1][0], emails=emails or {})
            for labels in answers.get(item.item_id, {}).values()
        ]
        ids = {"item_id": item.item_id}
        tasks.append({"id": number, "data": {**data, **ids}, "annotations": annotations, "predictions": []})
    return tasks


def _address(path: str, image_address: str) -> str:
    reference = parse_reference(path)
    if reference.kind != "file":
        message = f"{shown(path)}: Label Studio cannot show what lies in a file"
        raise ConfigError(f"{message} (accepted: images that are files or addresses of their own)")
    return image_address + quote(path) if reference.is_local else path


def _annotation(labels: Sequence[GivenLabel], *, to_name: str, emails: Mapping[str, str]) -> dict[str, Any]:
    newest = max((label.entry for label in labels), key=lambda entry: entry.sequence)
    annotator = labels[0].annotator
    email = emails.get(annotator, annotator if "@" in annotator else None)
    annotation: dict[str, Any] = {
        "result": [part for label in labels for part in _results(label, to_name)],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": newest.recorded_at,
        "updated_at": newest.recorded_at,
        ANNOTATOR: annotator,
    }
    if newest.milliseconds is not None:
        annotation["lead_time"] = newest.milliseconds / 1000
    if email is not None:
        annotation["completed_by"] = {"email": email}
    return annotation


def _results(label: GivenLabel, to_name: str) -> list[dict[str, Any]]:
    return [
        {
            # The same label has the same id each time it is exported.
            "id": uuid.uuid5(_IDS, f"{label.entry.entry_id} {from_name}").hex[:10],
            "from_name": from_name,
            "to_name": to_name,
            "type": kind,
            "value": value,
            "origin": "manual",
        }
        for from_name, kind, value in _controls(label.question, label.choice)
    ]


def _controls(question: str, choice: Choice) -> list[tuple[str, str, dict[str, Any]]]:
    found: list[tuple[str, str, dict[str, Any]]] = [(question, "choices", {"choices": [choice.label]})]
    if choice.reason:
        found.append((question + REASON, "choices", {"choices": [choice.reason]}))
    if choice.value is not None:
        found.append((question + VALUE, "number", {"number": choice.value}))
    if choice.note:
        found.append((question + NOTE, "textarea", {"text": [choice.note]}))
    return found
