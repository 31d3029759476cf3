"""Prompt lists: sentences for T2I models, from words and templates or from other benchmarks' files."""

from __future__ import annotations

from detector_bench.prompt_lists.prompt_list import KEEP_ATTRIBUTES, Prompt, PromptList
from detector_bench.prompt_lists.sources import builtin_lists, read_prompts, with_weights
from detector_bench.prompt_lists.word_lists import indefinite_article

__all__ = [
    "KEEP_ATTRIBUTES",
    "Prompt",
    "PromptList",
    "builtin_lists",
    "indefinite_article",
    "read_prompts",
    "with_weights",
]
