"""Gives the prompts of a list their weights, from BIGbench's file or a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from detector_bench.others.bigbench.benchmark import ReferenceNames, listing
from detector_bench.others.bigbench.own_files import read_own_weights
from detector_bench.others.bigbench.released_files import read_released_weights
from detector_bench.prompt_lists import PromptList

_NOTES_SHOWN = 3


def with_weights(prompts: PromptList, path: Path) -> PromptList:
    """The same list with weights; a prompt that has none weighs as its base prompt does.

    Args:
        prompts: any list.
        path: a table with the columns `prompt_id` and `weight`; or BIGbench's `weight.json`, whose sentences are
            those of prompts without a base prompt, and which gives each of two people half.

    Raises:
        DataError: mistakes in the file, all of them at once.
    """
    notes: list[str] = []
    if path.suffix == ".json":
        first = {key: prompt for key, prompt in prompts.prompts.items() if key not in prompts.bases}
        names = ReferenceNames(
            {key: prompt.word for key, prompt in first.items()},
            {key: prompt.text for key, prompt in first.items()},
        )
        weights, said = read_released_weights(path, names)
        notes = said[:_NOTES_SHOWN]
        if rest := said[_NOTES_SHOWN:]:
            notes.append(
                f"{path.name}: {len(rest):,} more such notes; `detector-bench bigbench check` lists them."
            )
    else:
        weights = read_own_weights(path).weights
        if unknown := [prompt_id for prompt_id in weights if prompt_id not in prompts.prompts]:
            notes = [f"{path.name}: weights of no prompt of the list, left out: {listing(unknown)}"]
    return replace(
        prompts,
        prompts={
            key: replace(prompt, weight=weights.get(key, prompt.weight)) for key, prompt in prompts.prompts.items()
        },
        notes=(*prompts.notes, *notes),
    )
