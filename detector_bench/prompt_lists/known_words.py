"""The prompts of the lists that come along, to be found by what others call them."""

from __future__ import annotations

from detector_bench.dataset.known_prompts import KnownPrompt, KnownPrompts
from detector_bench.prompt_lists.sources import builtin_lists, read_prompts


def known_prompts(*, edits_photos: bool = False) -> KnownPrompts:
    """The prompts of all built-in lists of words.

    Args:
        edits_photos: those that tell how to edit a photo; otherwise those that tell what to show.
    """
    lists = [
        name for name, each in builtin_lists().items() if each.edits_photos == edits_photos and not each.own_format
    ]
    return KnownPrompts.of(
        KnownPrompt(name, prompt_id, prompt.category, prompt.word, prompt.text)
        for name in lists
        for prompt_id, prompt in read_prompts(name).prompts.items()
    )
