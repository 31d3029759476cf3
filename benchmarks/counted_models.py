"""Kinds of T2I models for the benchmark of kills: as their own, but each image that is made leaves a line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from detector_bench.generation.diffusers_models import DiffusersModel
from detector_bench.generation.image_requests import ImageRequest, Made, Outcome
from detector_bench.generation.t2i_models import GenerationPlace, LoadedT2IModel, ModelRecord, t2i_model

LOG = "GENERATION_LOG"
"""The environment variable that names the file."""


@t2i_model("counted_diffusers")
class CountedDiffusers(DiffusersModel):
    """A pipeline of diffusers that says what it has made, before anybody keeps it."""

    def load(self, place: GenerationPlace) -> LoadedT2IModel:
        return _Counted(super().load(place))


class _Counted:
    def __init__(self, loaded: LoadedT2IModel) -> None:
        self._loaded = loaded

    @property
    def record(self) -> ModelRecord:
        return self._loaded.record

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        outcomes = self._loaded.make(requests)
        with Path(os.environ[LOG]).open("a") as log:
            for request, outcome in zip(requests, outcomes, strict=True):
                if isinstance(outcome, Made):
                    log.write(f"{request.image_id}\n")
        return outcomes

    def close(self) -> None:
        self._loaded.close()
