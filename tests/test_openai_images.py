"""T2I models behind an images API: what is declared and sent, and many requests at the same time."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from image_asking import KEY, PLACE, USAGE, elsewhere, loaded, made, playing, wanted
from image_faults import complains, stalls
from image_service import ImageService
from service_pictures import SIDE, picture

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation.image_requests import Failed, Made, SeedPhoto
from detector_bench.generation.t2i_models import build_t2i_model
from detector_bench.trust import Origin, add_key


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ImageService]:
    with playing(monkeypatch, tmp_path) as running:
        yield running


def test_image_is_kept_as_it_came(service: ImageService) -> None:
    service.c2pa, service.revises = True, True
    service.told = {"size": "32x32", "quality": "low", "usage": USAGE, "peak_memory_mb": 3.0}
    options = {"width": 64, "height": 48, "steps": 20, "guidance": 4.5, "negative_prompt": "text"}
    outcome = made(service, **options, request_fields={"true_cfg_scale": 2})
    sent = service.requests[0]
    assert sent.fields == {
        "model": "m",
        "prompt": "a photo of a nurse",
        "n": 1,
        "size": "64x48",
        "response_format": "b64_json",
        "num_inference_steps": 20,
        "guidance_scale": 4.5,
        "negative_prompt": "text",
        "seed": 7,
        "true_cfg_scale": 2,
    }
    assert isinstance(outcome, Made)
    assert outcome.content == picture(sent.identity.encode(), 64, 48, c2pa=True)
    assert (outcome.cost, outcome.revised_prompt) == (0.04, "a photo of a nurse, in detail")
    counted = {"input_tokens": 50, "output_tokens": 200}
    assert outcome.parameters == {"size": "32x32", "quality": "low", **counted, "seed_field": "seed"}


def test_photo_is_sent_as_its_file_is(service: ImageService, tmp_path: Path) -> None:
    content = picture(b"a face\r\n", 40, 30)
    (tmp_path / "face.png").write_bytes(content)
    photo = SeedPhoto("face", tmp_path / "face.png", hashlib.sha256(content).hexdigest())
    editor = loaded(service, edit=True, request_fields={"background": "opaque", "moderation": None})
    (outcome,) = editor.make([wanted("make him a nurse 護士", seed_photo=photo)])
    sent = service.requests[0]
    assert isinstance(outcome, Made)
    assert sent.path == "/v1/images/edits"
    assert sent.photo == content
    assert sent.fields["image"] == ("photo.png", "image/png")
    assert (sent.fields["prompt"], sent.fields["seed"], sent.fields["n"]) == ("make him a nurse 護士", "7", "1")
    (tmp_path / "face.png").write_bytes(picture(b"another"))
    (changed,) = editor.make([wanted(seed_photo=photo)])
    assert isinstance(changed, Failed)
    assert "another one than when the run began" in changed.reason
    assert (changed.may_have_been_paid, len(service.requests)) == (False, 1)


def test_openai_gets_what_it_takes() -> None:
    model = elsewhere(width=1024, height=1536, quality="low", output_format="webp")
    assert list(model.mistakes()) == []
    assert model.body(wanted()) == {
        "model": "gpt-image-1.5",
        "prompt": "a photo of a nurse",
        "n": 1,
        "size": "1024x1536",
        "quality": "low",
        "output_format": "webp",
    }
    assert elsewhere(model="dall-e-3").body(wanted())["response_format"] == "b64_json"
    assert (elsewhere().costs_money, elsewhere().seed_name) == (True, None)


def test_models_of_the_documentation_are_as_they_should_be() -> None:
    page = (Path(__file__).parents[1] / "docs" / "image-services.md").read_text(encoding="utf-8")
    models = yaml.safe_load(page.partition("```yaml")[2].partition("```")[0])
    built = [build_t2i_model(entry, place=entry["name"]) for entry in models]
    assert [list(model.mistakes()) for model in built] == [[], [], []]
    assert [model.edits for model in built] == [False, False, True]
    assert [model.most_it_costs(wanted()) is not None for model in built] == [True, False, True]


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        ({"width": 512, "height": 512}, "makes no image of 512x512 (accepted: 1024x1024, 1536x1024, 1024x1536)"),
        (
            {"model": "gpt-image-2", "width": 1000, "height": 1024},
            "makes no image of 1000x1024 (accepted: multiples",
        ),
        ({"width": 1024}, "width and height go together"),
        ({"steps": 20}, "steps: api.openai.com does not take it"),
        ({"negative_prompt": "text"}, "negative_prompt: api.openai.com does not take it"),
        ({"seed_field": "seed"}, "takes no seed (accepted: null)"),
        ({"scheduler": "ddim"}, "scheduler: no server takes it"),
        ({"quality": "hd"}, "quality: gpt-image-1.5 has no 'hd' (accepted: low, medium, high, auto)"),
        ({"response_format": "url"}, "response_format: gpt-image-1.5 takes none"),
        ({"model": "dall-e-3", "edit": True}, "edits no photos"),
        ({"price": 0.04, "prices": {"text_input": 5, "image_output": 40}}, "give one"),
        ({"seed_field": "size", "base_url": "http://localhost:1/v1"}, "'size' holds something else already"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(options: dict[str, Any], mistake: str) -> None:
    (found,) = elsewhere(**options).mistakes()
    assert mistake in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "http://api.openai.com/v1"}, "readable by anyone"),
        ({"base_url": "https://me:pw@api.openai.com/v1"}, "has no user name"),
        ({"request_fields": {"n": 4}}, "'n' is not set by request_fields"),
        ({"requests_at_once": 0}, "models[0]: requests_at_once: "),
        ({"stepps": 4}, "stepps"),
    ],
)
def test_declarations_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        elsewhere(**options)
    assert message in str(raised.value)


def test_identity_is_what_decides_an_image() -> None:
    plain = elsewhere().identity()
    assert plain == elsewhere(requests_at_once=9, timeout=5, price=1, name="other", key_variable="K").identity()
    assert plain != elsewhere(base_url="https://images.example/v1").identity()
    assert plain != elsewhere(quality="low").identity()
    local = {"base_url": "http://localhost:8000/v1", "key_variable": None}
    assert elsewhere(**local).identity() == elsewhere(**{**local, "base_url": "http://127.0.0.1:9/v1"}).identity()


def test_nothing_is_sent_that_nobody_allowed(service: ImageService, monkeypatch: pytest.MonkeyPatch) -> None:
    (missing,) = elsewhere().lacks(PLACE)
    assert "OPENAI_API_KEY is not set" in missing
    (refused,) = elsewhere(base_url="https://images.example/v1", key_variable=None).lacks(PLACE)
    assert refused.startswith("prompts may not be sent to https://images.example")
    assert "detector-bench trust host images.example" in refused
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert list(elsewhere().lacks(PLACE)) == []
    assert list(elsewhere(edit=True).sends()) == [
        "prompts and photos, as their files are, to https://api.openai.com/v1, "
        "with the key in OPENAI_API_KEY (set)"
    ]
    with pytest.raises(ConfigError, match="not bound to"):
        loaded(service)
    assert service.requests == []
    add_key("OPENAI_API_KEY", Origin.of(service.address))
    service.key = KEY
    assert isinstance(made(service), Made)
    service.key = "another"
    with pytest.raises(DetectorBenchError, match="refuses the key in OPENAI_API_KEY") as raised:
        made(service)
    assert KEY not in str(raised.value)
    assert raised.value.__context__ is None


# Many at the same time


def test_many_threads_share_connections_and_pay_once(service: ImageService) -> None:
    faults = ["fault:busy_without_date ", "fault:cut ", "fault:moderation ", "", "", ""]
    prompts = [f"{faults[number % 6]}{number}" for number in range(120)]
    model = loaded(service, requests_at_once=8)
    with ThreadPoolExecutor(8) as threads:
        outcomes = [found[0] for found in threads.map(lambda prompt: model.make([wanted(prompt)]), prompts)]
    kinds = [type(outcome).__name__ for outcome in outcomes]
    assert {name: kinds.count(name) for name in kinds} == {"Made": 80, "Failed": 20, "Blocked": 20}
    assert service.counts()["most_paid_of_one"] == 1
    assert service.paid.total() == 100
    assert service.connections <= 8 + 20, "a connection that was cut is replaced, and no other"


def test_pace_is_kept_by_all_threads_together(service: ImageService) -> None:
    model = loaded(service, requests_at_once=8, requests_per_second=20)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: model.make([wanted(str(number))]), range(9)))
    assert service.times[-1] - service.times[0] >= 8 / 20 * 0.9


def test_closing_ends_what_is_on_its_way(service: ImageService) -> None:
    model = loaded(service, retries=9, first_wait=60, longest_wait=60)
    service.script = [stalls, complains(429, "Later")]
    with ThreadPoolExecutor(2) as threads:
        sent = [threads.submit(model.make, [wanted(str(number))]) for number in range(2)]
        while len(service.requests) < 2:
            time.sleep(0.01)
        time.sleep(0.05)
        model.close()
        outcomes = [each.result(timeout=5)[0] for each in sent]
    assert all(isinstance(each, Failed) for each in outcomes)
    assert sorted(each.may_have_been_paid for each in outcomes if isinstance(each, Failed)) == [False, True]


@pytest.mark.slow
def test_service_runs_in_a_process_of_its_own() -> None:
    script = Path(__file__).parent / "image_service.py"
    with subprocess.Popen([sys.executable, str(script), "--c2pa"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            model = elsewhere(base_url=address, key_variable=None).load(PLACE)
            (outcome,) = model.make([wanted()])
            assert isinstance(outcome, Made)
            assert outcome.content[16:24] == SIDE.to_bytes(4, "big") * 2
            counted = httpx.get(address.removesuffix("/v1") + "/counts", trust_env=False).json()
            assert (counted["requests"], counted["paid"]) == (1, 1)
        finally:
            process.kill()
