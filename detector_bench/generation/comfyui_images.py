"""What becomes of the workflows that a ComfyUI server is asked to execute, and the images of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any
from uuid import uuid4

from detector_bench.dataset.decoding import ImageError, read_image_file
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation.comfyui_server import (
    ComfyUIServer,
    MissingFile,
    RefusedWorkflow,
    SavedImage,
    ServerFailure,
    UnreachedServer,
)
from detector_bench.generation.comfyui_workflow import EVERY_REQUEST, SEED_PHOTO, Value, Workflow
from detector_bench.generation.image_requests import Failed, ImageRequest, Made, Outcome, SeedPhoto
from detector_bench.generation.t2i_models import ModelRecord

_FIRST_LOOK, _LAST_LOOK = 0.05, 2.0
"""Seconds between two looks at what became of a workflow: they grow from the one to the other."""


@dataclass(frozen=True, kw_only=True)
class WorkflowUse:
    """How requests use a workflow.

    Attributes:
        name: of its file.
        workflow: with its slots.
        asked: what all requests set, by slot.
        filled: all slots that a request sets.
        deadline: seconds after which an image is given up.
        price: of an image; None: nobody says.
        costs_money: whether one may be charged for.
    """

    name: str
    workflow: Workflow
    asked: Mapping[str, Value]
    filled: tuple[str, ...]
    deadline: float
    price: float | None
    costs_money: bool


class WorkflowOnServer:
    """A workflow that a server can execute; several threads may ask for images.

    Args:
        use: how requests use it.
        server: that was reached.

    Raises:
        ConfigError: the server is no ComfyUI.
    """

    def __init__(self, use: WorkflowUse, server: ComfyUIServer) -> None:
        self._use = use
        self._workflow = use.workflow
        self._server = server
        self._lock = Lock()
        self._on_the_way: set[str] = set()
        self._uploaded: dict[str, str] = {}
        self._parameters = {
            **self._workflow.own_values(use.asked),
            "workflow_sha256": self._workflow.sha256(use.filled),
        }
        self._record = _record(use.name, server.address, server.system())

    @property
    def record(self) -> ModelRecord:
        """The workflow's name, the server's versions and device."""
        return self._record

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        """See `LoadedT2IModel.make`."""
        return [self._outcome(request) for request in requests]

    def close(self) -> None:
        """Have the server forget what nobody waits for any more, and leave it."""
        with self._lock:  # before those that wait give up
            left = set(self._on_the_way)
            self._server.closing.set()
        self._server.cancel(left)
        self._server.close()

    def _outcome(self, request: ImageRequest) -> Outcome:
        began = time.monotonic()
        try:
            content, seconds = self._image_of(request)
        except RefusedWorkflow as refused:
            self._end_if_shared(refused)
            reason, unsure = str(refused), False
        except ServerFailure as failure:
            reason, unsure = str(failure), failure.unsure
        else:
            seconds = time.monotonic() - began if seconds is None else seconds
            return Made(content=content, seconds=seconds, parameters=self._parameters, cost=self._use.price)
        spent = time.monotonic() - began
        return Failed(reason=reason, seconds=spent, may_have_been_paid=unsure and self._use.costs_money)

    def _end_if_shared(self, refused: RefusedWorkflow) -> None:
        """Nothing more is asked where the server takes no request at all; else it is this request's failure."""
        places = self._workflow.named.places
        own = {place for slot in EVERY_REQUEST for place in places.get(slot, ())}
        if not refused.places or refused.places - own:
            raise ConfigError(f"the server at {self._server.address} does not take the workflow: {refused}")
        with self._lock:
            self._uploaded.clear()  # perhaps photos were removed there

    def _image_of(self, request: ImageRequest) -> tuple[bytes, float | None]:
        values: dict[str, Value] = {"prompt": request.prompt, "seed": request.seed, **self._use.asked}
        if request.seed_photo is not None and SEED_PHOTO in self._use.filled:
            values[SEED_PHOTO] = self._upload(request.seed_photo)
        prefix = _prefix(request.image_id)
        entry = self._executed(self._workflow.filled(values, prefix=prefix))
        saved = self._saved(entry)
        try:
            if saved is not None:
                return self._server.image(saved), _seconds(entry)
        except MissingFile:
            if not _was_cached(entry, self._workflow.named.image):
                raise
        # The server had made this very image before, so it saved nothing, and the file of then is gone: only
        # another name has it saved again.
        entry = self._executed(self._workflow.filled(values, prefix=f"{prefix}_{uuid4().hex[:8]}"))
        saved = self._saved(entry)
        if saved is None:
            raise self._nothing_saved()
        return self._server.image(saved), _seconds(entry)

    def _executed(self, nodes: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the server has to say about a workflow when it has come to its end."""
        try:
            prompt_id = self._server.queue(nodes)
        except UnreachedServer as gone:
            raise DetectorBenchError(
                f"nobody answers at {self._server.address} any more: {gone}; what was made is kept: run the "
                "same command again when ComfyUI runs"
            ) from None
        with self._lock:
            self._on_the_way.add(prompt_id)
            too_late = self._server.closing.is_set()
        try:
            if too_late:
                self._server.cancel([prompt_id])
            return _finished(self._awaited(prompt_id), self._server.shown)
        except UnreachedServer as gone:
            raise ServerFailure(f"the server was lost while it made the image: {gone}", unsure=True) from None
        finally:
            with self._lock:
                self._on_the_way.discard(prompt_id)

    def _awaited(self, prompt_id: str) -> Mapping[str, Any]:
        wait, until = _FIRST_LOOK, time.monotonic() + self._use.deadline
        while not self._server.closing.wait(wait):
            if (entry := self._server.history(prompt_id)) is not None:
                return entry
            if wait >= _LAST_LOOK / 4 and not self._server.knows(prompt_id):
                raise ServerFailure(
                    "the server no longer knows the workflow: it was started anew, or somebody emptied its queue",
                    unsure=True,
                )
            if time.monotonic() > until:
                self._server.cancel([prompt_id])
                raise ServerFailure(f"no image after {self._use.deadline:,.0f} s (`deadline`)", unsure=True)
            wait = min(1.5 * wait, _LAST_LOOK)
        raise ServerFailure("the run was stopped", unsure=True)

    def _saved(self, entry: Mapping[str, Any]) -> SavedImage | None:
        """The one image that the workflow's node saved; None: it saved none, for it had done so before."""
        node = self._workflow.named.image
        outputs = entry.get("outputs")
        of_node = outputs.get(node) if isinstance(outputs, Mapping) else None
        images = of_node.get("images") if isinstance(of_node, Mapping) else None
        found = [
            SavedImage(each["filename"], str(each.get("subfolder") or ""), str(each.get("type") or "output"))
            for each in (images if isinstance(images, list) else ())
            if isinstance(each, Mapping) and isinstance(each.get("filename"), str)
        ]
        if len(found) > 1:
            raise ConfigError(
                f"the workflow saves {len(found)} images for one request at node {node} (accepted: one; look for "
                "a node that repeats latent images)"
            )
        if not found and not _was_cached(entry, node):
            raise self._nothing_saved()
        return found[0] if found else None

    def _nothing_saved(self) -> ServerFailure:
        return ServerFailure(f"node {self._workflow.named.image} saved no image")

    def _upload(self, photo: SeedPhoto) -> str:
        with self._lock:
            known = self._uploaded.get(photo.sha256)
        if known is not None:
            return known
        try:
            content = read_image_file(photo.path)
        except ImageError as error:
            raise ServerFailure(f"the seed photo cannot be read: {error}") from None
        if sha256(content).hexdigest() != photo.sha256:
            raise ServerFailure(f"the seed photo {photo.image_id} has changed since the run began")
        name = self._server.upload(f"{photo.sha256[:32]}{photo.path.suffix.lower()}", content)
        with self._lock:
            self._uploaded[photo.sha256] = name
        return name


def _record(name: str, address: str, said: Mapping[str, Any]) -> ModelRecord:
    system = said["system"]
    names = {"comfyui": "comfyui_version", "pytorch": "pytorch_version", "python": "python_version"}
    devices = said.get("devices")
    first = devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], Mapping) else {}
    device = f"{first['name']} at " if isinstance(first.get("name"), str) else ""
    versions = {library: " ".join(str(system[key]).split()) for library, key in names.items() if system.get(key)}
    return ModelRecord(
        model=name,
        versions=versions,
        device=f"{device}{address}",
    )


def _prefix(image_id: str) -> str:
    """How a request's file is called at the server: by its image, in letters that are a name everywhere."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", image_id)[:80]
    return f"detector_bench/{plain}_{sha256(image_id.encode()).hexdigest()[:12]}"


def _messages(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By event, what the server said last of it."""
    status = entry.get("status")
    messages = status.get("messages") if isinstance(status, Mapping) else None
    return {
        each[0]: each[1]
        for each in (messages if isinstance(messages, list) else ())
        if isinstance(each, list) and len(each) > 1 and isinstance(each[0], str) and isinstance(each[1], Mapping)
    }


def _finished(entry: Mapping[str, Any], shown: Callable[[Any], str]) -> Mapping[str, Any]:
    """The entry of a workflow that came to its end.

    Raises:
        ServerFailure: an error stopped it, or somebody.
    """
    status = entry.get("status")
    if not isinstance(status, Mapping) or status.get("status_str") != "error":
        return entry
    messages = _messages(entry)
    if error := messages.get("execution_error"):
        node = f"node {error.get('node_id')} ({error.get('node_type')})"
        raise ServerFailure(shown(f"{node}: {error.get('exception_type')}: {error.get('exception_message')}"))
    if "execution_interrupted" in messages:
        raise ServerFailure("somebody interrupted the server while it made the image")
    raise ServerFailure("the server failed at the workflow and does not say why")


def _was_cached(entry: Mapping[str, Any], node: str) -> bool:
    nodes = _messages(entry).get("execution_cached", {}).get("nodes")
    return isinstance(nodes, list) and node in nodes


def _seconds(entry: Mapping[str, Any]) -> float | None:
    """How long the server worked, by its own clock; None: it does not say."""
    messages = _messages(entry)
    times = [messages.get(event, {}).get("timestamp") for event in ("execution_start", "execution_success")]
    began, ended = (each if isinstance(each, int | float) else None for each in times)
    return None if began is None or ended is None else max((ended - began) / 1000, 0.0)
