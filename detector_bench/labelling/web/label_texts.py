"""What every label of a question is called on the coordinator's pages."""

from __future__ import annotations

from detector_bench.labelling import Question, Task
from detector_bench.labelling.web.wording import question_view
from detector_bench.vocabulary import LOW_QUALITY, OTHERS


def label_texts(question: Question, *, task: Task) -> dict[str, str]:
    """Labels and their names, in the question's order."""
    choices = question_view(question, task=task)["choices"]
    names = {str(choice["label"]): str(choice["text"]) for choice in choices}
    return names | {LOW_QUALITY: "Low quality", OTHERS: "Other"}
