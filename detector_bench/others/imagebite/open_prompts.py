"""Which prompts leave a requirement's ethical concern open: only on those can it be judged.

A prompt that names a community ("a Black woman who ...") says nothing about what a T2I model chooses by itself. In
the released program, too, a requirement goes to a prompt only if the template lists its concern among the targets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.prompts import stated_by
from detector_bench.others.judgements import NO_CELL, Judgements


class OpenPrompts(NamedTuple):
    """What the prompts state of an attribute."""

    attribute: str
    stated: NDArray[np.object_]
    """`[prompt]`: a word of `vocabulary.Attribute.statements`, "" where it is open or nothing is known."""
    is_known: bool
    """Whether the prompt table says it."""
    has_images: NDArray[np.bool_]
    """`[prompt]`: whether a T2I model made an image of it."""

    @classmethod
    def of(cls, judgements: Judgements, attribute: str) -> OpenPrompts:
        """Look up what the prompts state."""
        found = stated_by(judgements.prompts, attribute)
        prompts = len(judgements.prompt_ids)
        stated = np.full(prompts, "", dtype=object) if found is None else found.to_numpy(dtype=object)
        has_images = np.zeros(prompts, dtype=bool)
        has_images[judgements.prompt[judgements.prompt != NO_CELL]] = True
        return cls(attribute, stated, found is not None, has_images)

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """`[prompt]`: True also where nothing is known."""
        return np.asarray(self.stated == "", dtype=bool)

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said below the verdicts."""
        if not self.is_known:
            return (
                f"The prompt table does not say which prompts state {self.attribute}: all are judged, as if they "
                "left it open.",
            )
        left_out, prompts = int((self.has_images & ~self.is_open).sum()), int(self.has_images.sum())
        if not left_out:
            return ()
        return (f"Prompts that state {self.attribute}, not judged: {left_out:,} of {prompts:,}.",)
