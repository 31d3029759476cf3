"""A claim of Lyu 2025 as a record: where it stands, what it says, and what it asks of a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from detector_bench.others.lyu2025.claim_draws import PAPER_IMAGES, PAPER_PROMPTS
from detector_bench.others.lyu2025.claim_statements import Statement
from detector_bench.others.lyu2025.published import T2I_MODELS

FEWEST_IMAGES = 15
"""Of a prompt: with fewer a model bias score is so much higher by chance that the paper's is another number."""

FEWEST_PROMPTS = 10
"""As many as the paper's smallest categories have: a mean over fewer says little beside one over a hundred."""

SCORE_TOLERANCE = 0.05
"""Of bias scores that are compared with the paper's numbers."""
CATEGORY_TOLERANCE = 0.1
"""Of bias scores of ten prompts."""
DEVIATION_TOLERANCE = 0.05
"""Of deviations: 5 points of per cent."""
SHARE_TOLERANCE = 0.05
"""Of rates and shares of images."""
OUTPUTS_TOLERANCE = 0.1
"""Of shares of outputs."""
KAPPA_TOLERANCE = 0.05


@dataclass(frozen=True)
class StudyAsked:
    """What a study has that claims may need."""

    detectors: tuple[str, ...]
    """Of the study."""
    t2i_models: tuple[str, ...]
    categories: tuple[str, ...]
    images_of_prompt: float
    """Labelled images of a prompt of a T2I model, on average."""
    annotators: int
    prompts: int
    """With labelled images."""

    @property
    def has_paper_models(self) -> bool:
        """Whether the paper's three T2I models are among its own."""
        return set(T2I_MODELS) <= set(self.t2i_models)

    @property
    def is_alike(self) -> bool:
        """Whether it has the paper's three T2I models and no other."""
        return set(T2I_MODELS) == set(self.t2i_models)

    def lacks(self, *detectors: str) -> str:
        """Why detectors cannot be asked; empty if all are there."""
        missing = [each for each in detectors if each not in self.detectors]
        return f"the study has no detector {' and no '.join(missing)}" if missing else ""

    @property
    def too_few(self) -> str:
        """Why the sizes of bias scores cannot be asked; empty if they can."""
        if self.prompts < FEWEST_PROMPTS:
            return (
                f"means over prompts are compared from {FEWEST_PROMPTS} prompts on: the paper has "
                f"{PAPER_PROMPTS}, the study {self.prompts}"
            )
        if self.images_of_prompt >= FEWEST_IMAGES:
            return ""
        return (
            f"a bias score grows by chance as images get fewer: the paper has {PAPER_IMAGES} images per prompt, "
            f"the study {self.images_of_prompt:.1f}"
        )


class AskedClaim(NamedTuple):
    """A claim as a study can be asked."""

    statement: Statement
    instead: str = ""
    """How it is understood where it is not asked word by word."""


class NotAsked(NamedTuple):
    """Why a study cannot be asked."""

    reason: str


Question: TypeAlias = AskedClaim | NotAsked


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    Attributes:
        id: a short name.
        research_question: `RQ1` to `RQ3`, `Labels` or `CLIP-Enhance`.
        place: where it stands.
        says: the claim, in our words with the paper's numbers.
        ask: what it asks of a study.
    """

    id: str
    research_question: str
    place: str
    says: str
    ask: Callable[[StudyAsked], Question]
