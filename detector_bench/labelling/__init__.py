"""The labelling desk: people judge images one by one, blind to each other and to detectors."""

from __future__ import annotations

from detector_bench.labelling.assignment import Assignment, Shares
from detector_bench.labelling.questions import DeskSettings, Question, Task
from detector_bench.labelling.records import (
    Answer,
    AnswerConflictError,
    Asking,
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
    SentBack,
    StoredAnswer,
    StoreError,
    Undone,
)
from detector_bench.labelling.store import LabelStore

__all__ = [
    "Answer",
    "AnswerConflictError",
    "Asking",
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
    "SentBack",
    "Shares",
    "StoreError",
    "StoredAnswer",
    "Task",
    "Undone",
]
