"""What of a prompt the text encoders of a pipeline do not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detector_bench.errors import WeightsError

_NO_LIMIT = 100_000
"""Tokens from which on transformers means that it knows no limit."""


@dataclass(frozen=True)
class PromptCut:
    """What is not read of a prompt.

    Attributes:
        unread: its end that no text encoder reads; None: at least one reads all of it.
        partly: by tokenizer, the end that its text encoder does not read, though another may.
    """

    unread: str | None = None
    partly: Mapping[str, str] = field(default_factory=dict)


class PromptReaders:
    """The tokenizers of a pipeline, and how many tokens of a prompt each text encoder gets.

    Args:
        tokenizers: by the name of the part, such as `tokenizer_2`.
        longest: by name, the most tokens, with those that mark beginning and end; None: nobody knows a limit.
    """

    def __init__(self, tokenizers: Mapping[str, Any], longest: Mapping[str, int | None]) -> None:
        self._tokenizers = dict(tokenizers)
        self.longest = dict(longest)

    def cut_of(self, prompt: str) -> PromptCut:
        """What is not read of a prompt."""
        read = {name: self._characters_read(name, prompt) for name in self._tokenizers}
        partly = {name: prompt[end:] for name, end in read.items() if prompt[end:].strip()}
        shortest = prompt[max(read.values()) :] if read else ""
        return PromptCut(shortest if len(partly) == len(read) and partly else None, partly)

    def _characters_read(self, name: str, prompt: str) -> int:
        longest = self.longest[name]
        if longest is None:
            return len(prompt)
        tokenizer = self._tokenizers[name]
        marks = int(tokenizer.num_special_tokens_to_add())
        found = tokenizer(
            prompt, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
        )
        places = found["offset_mapping"]
        room = max(longest - marks, 0)
        return len(prompt) if len(places) <= room else int(places[room][0])


def readers_of(parts: Mapping[str, Any], *, max_sequence_length: int | None) -> PromptReaders:
    """The tokenizers among a pipeline's parts, those whose text encoder is missing left out.

    Args:
        parts: all parts, by name.
        max_sequence_length: of the pipeline's call; None: it has none.
    """
    tokenizers = {
        name: each
        for name, each in parts.items()
        if _is_tokenizer(name)
        and each is not None
        and parts.get(_encoder(name), each) is not None
        # Without the places of tokens nobody can say which words are cut.
        and getattr(each, "is_fast", False)
    }
    return PromptReaders(
        tokenizers, {name: _longest(each, max_sequence_length) for name, each in tokenizers.items()}
    )


def readers_in(
    folder: Path, parts: Mapping[str, tuple[str, str]], *, max_sequence_length: int | None
) -> PromptReaders:
    """The tokenizers of a checkpoint, without its networks.

    Args:
        folder: of the checkpoint.
        parts: library and class of every part.
        max_sequence_length: see `readers_of`.

    Raises:
        WeightsError: transformers cannot read one.
        MissingExtraError: transformers is not installed.
    """
    from detector_bench.installation import require

    transformers = require("transformers", extra="diffusers")
    found: dict[str, Any] = {}
    for name, (library, kind) in parts.items():
        if not _is_tokenizer(name) or library != "transformers" or _encoder(name) not in parts:
            continue
        try:
            found[name] = getattr(transformers, kind).from_pretrained(folder / name, local_files_only=True)
        except Exception as error:  # transformers raises many sorts
            line = (str(error).splitlines() or [""])[0]
            raise WeightsError(f"transformers cannot read {name!r} of {folder.name!r}: {line}") from error
    return readers_of(found, max_sequence_length=max_sequence_length)


def _is_tokenizer(name: str) -> bool:
    return name == "tokenizer" or name.startswith("tokenizer_")


def _encoder(name: str) -> str:
    return name.replace("tokenizer", "text_encoder", 1)


def _longest(tokenizer: Any, max_sequence_length: int | None) -> int | None:
    own = int(tokenizer.model_max_length)
    # CLIP's has places for so many tokens and no more; for others the pipeline says how many it hands on.
    if max_sequence_length is not None and not type(tokenizer).__name__.startswith("CLIP"):
        return max_sequence_length
    return own if own < _NO_LIMIT else None
