"""T2I models that ask a service on this machine, with waits that a test can afford."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from image_service import ImageService, serving_images
from local_server import prepare_environment

from detector_bench.generation.image_requests import ImageRequest, Outcome
from detector_bench.generation.openai_images import OpenAIImages
from detector_bench.generation.t2i_models import GenerationPlace, LoadedT2IModel, build_t2i_model
from detector_bench.weights import WeightsLocator

PLACE = GenerationPlace(weights=WeightsLocator(), folder=Path())
KEY = "sk-0123456789abcdefghijklmnop"
USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
    "output_tokens": 200,
    "total_tokens": 250,
}


@contextmanager
def playing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[ImageService]:
    """A running service, and no key in the environment."""
    prepare_environment(monkeypatch, folder)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving_images(patience=5) as running:
        yield running


def declared(service: ImageService, **options: Any) -> OpenAIImages:
    quick = {"first_wait": 0.01, "longest_wait": 2, "timeout": 5, "retries": 3, "price": 0.04}
    entry = {"kind": "openai", "name": "m", "model": "m", "base_url": f"{service.address}/v1", **quick, **options}
    found = build_t2i_model(entry, place="models[0]")
    assert isinstance(found, OpenAIImages)
    return found


def loaded(service: ImageService, **options: Any) -> LoadedT2IModel:
    return declared(service, **options).load(PLACE)


def wanted(prompt: str = "a photo of a nurse", **options: Any) -> ImageRequest:
    return ImageRequest(
        **{"image_id": prompt, "prompt_id": "p", "prompt": prompt, "number": 0, "seed": 7, **options}
    )


def made(service: ImageService, prompt: str = "a photo of a nurse", **options: Any) -> Outcome:
    return loaded(service, **options).make([wanted(prompt)])[0]


def elsewhere(**options: Any) -> OpenAIImages:
    entry = {"kind": "openai", "name": "m", "model": "gpt-image-1.5", "base_url": "https://api.openai.com/v1"}
    found = build_t2i_model({**entry, **options}, place="models[0]")
    assert isinstance(found, OpenAIImages)
    return found
