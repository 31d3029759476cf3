"""A server on this machine that plays the Face++ API, well and badly, as its documentation says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from local_server import Behaviour, LocalHandler, LocalServer, prepare_environment, says, serving, stop
from running import frames_of, noise

from detector_bench.detectors import Detector, build_detector
from detector_bench.perception.answers.facepp_answers import FaceppAnswers
from detector_bench.trust import Origin, add_key
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()
IMAGE = noise(60, 80)
KEY = "KEY-0123456789abcdefghijklmnop"
SECRET = "SECRET-ponmlkjihgfedcba9876543"  # noqa: S105


def face(left: int, top: int, width: int, height: int, gender: str = "Female", age: int = 25) -> dict[str, Any]:
    """A face as the documentation shows it."""
    return {
        "face_token": "c2fc0ad7c8da3af5a34b9c70ff764da0",
        "face_rectangle": {"left": left, "top": top, "width": width, "height": height},
        "attributes": {"gender": {"value": gender}, "age": {"value": age}},
    }


def answer(*faces: dict[str, Any]) -> str:
    """An answer as the documentation shows it."""
    return json.dumps(
        {"request_id": "1470472868,dacf2ff1", "time_used": 89, "faces": faces, "face_num": len(faces)}
    )


class Handler(LocalHandler):
    def read(self, body: bytes) -> dict[str, Any]:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        fields: dict[str, bytes] = {"path": self.path.encode()}
        for part in message_from_bytes(head + body).get_payload():
            fields[part.get_param("name", header="Content-Disposition")] = part.get_payload(decode=True)
        return fields


class Server(LocalServer):
    """Answers with one face unless told otherwise; a request is its form's fields."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(Handler, port)
        self.always = faces(face(10, 20, 30, 30))

    @property
    def endpoint(self) -> str:
        return f"{self.address}/facepp/v3/detect"


def faces(*found: dict[str, Any]) -> Behaviour:
    def behave(handler: Handler) -> None:
        handler.server.paid[sha256(handler.fields["image_file"]).hexdigest()] += 1
        handler.reply(200, answer(*found))

    return behave


def fails(status: int, message: str, **headers: str) -> Behaviour:
    return says(status, json.dumps({"time_used": 5, "error_message": message, "request_id": "1"}), **headers)


@contextmanager
def playing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Server]:
    """A running server, with key and secret in the environment."""
    prepare_environment(monkeypatch, folder)
    monkeypatch.setenv("FACEPP_API_KEY", KEY)
    monkeypatch.setenv("FACEPP_API_SECRET", SECRET)
    running = Server()
    for variable in ("FACEPP_API_KEY", "FACEPP_API_SECRET"):
        add_key(variable, Origin.of(running.address))
    thread = serving(running)
    yield running
    stop(running, thread)


def hasty(server: Server, **options: Any) -> dict[str, Any]:
    """The stage's parameters with waits that a test can afford."""
    quick = {"requests_per_second": 1000, "first_wait": 0.01, "longest_wait": 2, "timeout": 5, "retries": 3}
    return {"endpoint": server.endpoint, **quick, **options}


def facepp(server: Server, name: str = "facepp", **options: Any) -> Detector:
    return build_detector("facepp", name=name, parameters={"answers": hasty(server, **options)})


def ask(server: Server, *images: Any, **options: Any) -> list[Any]:
    """The stage's results, failures too, by one loaded function."""
    function = FaceppAnswers(**hasty(server, **options)).load(NOWHERE)
    return list(function(frames_of(images or (IMAGE,))))
