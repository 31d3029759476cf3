"""What a T2I model's bias is over all images, from all detectors' verdicts and the labels of a few: pure
functions."""

from __future__ import annotations
