"""How a sample is drawn; apart from the vocabulary, as `--help` names the designs and cannot wait for pydantic."""

from __future__ import annotations

from enum import StrEnum


class SampleDesign(StrEnum):
    """How the images to be labelled are drawn among those of one T2I model and prompt."""

    EQUAL = "equal"
    """Every image is as likely as any other."""
    VERDICTS = "verdicts"
    """Every image is as likely as any other, and each pattern of the detectors' verdicts has its share."""
    DISAGREEMENT = "disagreement"
    """Images that detectors differ on are more likely."""
