"""The labelling desk: people judge images one by one, blind to each other and to detectors."""

from __future__ import annotations

from detector_bench.labelling.assignment import Assignment, Shares
from detector_bench.labelling.questions import DeskSettings, Question, Task
from detector_bench.labelling.records import (
    Answer,
    AnswerConflictError,
    Calibration,
    Change,
    ChangeKind,
    Choice,
    Decision,
    Disagreement,
    Item,
    Progress,
    Recorded,
    RefusedAnswerError,
    StoredAnswer,
    StoreError,
    Undone,
)
from detector_bench.labelling.store import LabelStore

__all__ = [
    "Answer",
    "AnswerConflictError",
    "Assignment",
    "Calibration",
    "Change",
    "ChangeKind",
    "Choice",
    "Decision",
    "DeskSettings",
    "Disagreement",
    "Item",
    "LabelStore",
    "Progress",
    "Question",
    "Recorded",
    "RefusedAnswerError",
    "Shares",
    "StoreError",
    "StoredAnswer",
    "Task",
    "Undone",
]
