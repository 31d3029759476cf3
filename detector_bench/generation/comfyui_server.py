"""Speaks with a ComfyUI server: queues workflows, asks what became of them, fetches images, sends photos."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from threading import Condition, Event
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation.comfyui_graph import Place
from detector_bench.perception.answers.service_addresses import Secrets, is_on_this_machine
from detector_bench.transfers import BoundedClient, TransferError, TransferLimits, retry_after

_MOST_SAID = 64 * 1024**2
"""Bytes of an answer in JSON: a server's whole queue stands in one."""
_LARGEST_IMAGE = 512 * 1024**2
_LONGEST_SHOWN = 300
_LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class ServerFailure(Exception):  # noqa: N818 - a reason for an error row, not an error of the program
    """No image came of a request; the text is the reason. `unsure`: nobody knows if it was made all the same."""

    def __init__(self, reason: str, *, unsure: bool = False) -> None:
        super().__init__(reason)
        self.unsure = unsure


class UnreachedServer(ServerFailure):
    """Nobody took the request, and it may be sent again."""


class MissingFile(ServerFailure):
    """The server has no such file."""


class RefusedWorkflow(ServerFailure):
    """The server does not execute a workflow; `places` is where it found something wrong, as far as it says."""

    def __init__(self, reason: str, places: frozenset[Place]) -> None:
        super().__init__(reason)
        self.places = places


@dataclass(frozen=True)
class ServerPatience:
    """How patiently a server is asked.

    Attributes:
        timeout: seconds after which an attempt is given up.
        retries: further attempts while nobody answers or the server is busy.
        first_wait: seconds before the first of them; each further wait is twice as long.
        longest_wait: seconds; waits grow no further.
    """

    timeout: float
    retries: int
    first_wait: float
    longest_wait: float


@dataclass(frozen=True)
class SavedImage:
    """A file at the server.

    Attributes:
        filename: its name.
        subfolder: below the folder of its type.
        type: `output` or `temp`.
    """

    filename: str
    subfolder: str
    type: str


class ComfyUIServer:
    """A server, which several threads may ask.

    Args:
        address: up to `/prompt`.
        key_header: the name of the header with the key, and its value; None: there is none.
        key_variable: where the key came from, for messages.
        secrets: what no message and no log may hold.
        patience: how patiently it is asked.

    Raises:
        ConfigError: a proxy or certificates that the environment names cannot be used.
    """

    def __init__(
        self,
        address: str,
        *,
        key_header: tuple[str, str] | None,
        key_variable: str | None,
        secrets: Secrets,
        patience: ServerPatience,
    ) -> None:
        self.address = address
        self._headers = {} if key_header is None else dict([key_header])
        self._asked_with = f"the key in {key_variable}" if key_header else "a request without a key"
        self._secrets = secrets
        secrets.hide_in_logs_of(*_LOGGERS)
        self._patience = patience
        self._client_id = uuid4().hex
        self._http = BoundedClient(timeout=patience.timeout, direct=is_on_this_machine(address))
        self._http.open()
        self._speaking, self._quiet = 0, Condition()
        self.closing = Event()
        """Set when nothing is waited for any more."""

    def system(self) -> Mapping[str, Any]:
        """Its versions and devices.

        Raises:
            ServerFailure: nobody answers.
            ConfigError: it is no ComfyUI.
        """
        found = self._json("GET", "/system_stats")
        if not isinstance(found, Mapping) or not isinstance(found.get("system"), Mapping):
            raise ConfigError(f"{self.address} answers, but not as ComfyUI does (asked: /system_stats)")
        return found

    def node_inputs(self, class_type: str) -> Mapping[str, Any] | None:
        """What a kind of node takes: by input, its type or list of choices and its settings; None: it is unknown.

        Raises:
            ServerFailure: there is no answer.
        """
        found = self._json("GET", f"/object_info/{quote(class_type, safe='')}")
        node = found.get(class_type) if isinstance(found, Mapping) else None
        if not isinstance(node, Mapping):
            return None
        declared = node.get("input")
        groups = [declared.get(each) for each in ("required", "optional")] if isinstance(declared, Mapping) else []
        return {name: kind for group in groups if isinstance(group, Mapping) for name, kind in group.items()}

    def queue(self, nodes: Mapping[str, Any]) -> str:
        """Have a workflow executed: the id by which to ask what became of it.

        Raises:
            RefusedWorkflow: it is not executed.
            ServerFailure: there is no answer.
        """
        # Named here, so that it can be found again if the answer is lost; older servers give one of their own.
        prompt_id = str(uuid4())
        body = {"prompt": nodes, "client_id": self._client_id, "prompt_id": prompt_id}
        try:
            response = self._answered("POST", "/prompt", json=body)
        except UnreachedServer:
            raise
        except ServerFailure as lost:
            with suppress(ServerFailure):
                if self.knows(prompt_id):
                    return prompt_id
            raise lost from None
        if response.status_code == HTTPStatus.BAD_REQUEST:
            raise _refusal(_content(response), self.shown)
        given = self._read(response).get("prompt_id")
        if not isinstance(given, str) or not given:
            raise ServerFailure("the server took the workflow and gave no prompt_id", unsure=True)
        return given

    def history(self, prompt_id: str) -> Mapping[str, Any] | None:
        """What became of a workflow; None: it is not finished, or unknown.

        Raises:
            ServerFailure: there is no answer.
        """
        found = self._json("GET", f"/history/{quote(prompt_id, safe='')}")
        entry = found.get(prompt_id) if isinstance(found, Mapping) else None
        return entry if isinstance(entry, Mapping) else None

    def knows(self, prompt_id: str) -> bool:
        """Whether a workflow waits there, is being executed, or was.

        Raises:
            ServerFailure: there is no answer.
        """
        # In this order: what ends between the two questions is in its history by then.
        return prompt_id in {*self._queued("queue_running"), *self._queued("queue_pending")} or (
            self.history(prompt_id) is not None
        )

    def image(self, saved: SavedImage) -> bytes:
        """The content of a file, as it was saved there.

        Raises:
            MissingFile: there is none.
            ServerFailure: there is no answer.
        """
        asked = {"filename": saved.filename, "subfolder": saved.subfolder, "type": saved.type}
        response = self._answered("GET", "/view", most_bytes=_LARGEST_IMAGE, params=asked)
        if response.status_code == HTTPStatus.NOT_FOUND:
            raise MissingFile(f"the server no longer has the image {self.shown(saved.filename)}")
        if not response.is_success:
            raise self._failure(response)
        return response.content

    def upload(self, name: str, content: bytes) -> str:
        """Send a photo: what a node that loads it has to call it.

        Raises:
            ServerFailure: it was not taken.
        """
        files = {"image": (name, content, "application/octet-stream")}
        data = {"subfolder": "detector_bench", "type": "input", "overwrite": "true"}
        response = self._answered("POST", "/upload/image", repeatable=True, files=files, data=data)
        found = self._read(response)
        name, subfolder = found.get("name"), found.get("subfolder") or ""
        if not isinstance(name, str) or not isinstance(subfolder, str):
            raise ServerFailure("the server took the photo and did not say what it is called there")
        return f"{subfolder}/{name}" if subfolder else name

    def cancel(self, prompt_ids: Iterable[str]) -> None:
        """Take workflows out of the queue, and stop the one that is being executed if it is among them."""
        ids = list(prompt_ids)
        with suppress(ServerFailure, DetectorBenchError):
            if ids:
                self._answered("POST", "/queue", attempts=1, json={"delete": ids})
                # Older servers stop whatever runs, whichever id they are told.
                for running in set(self._queued("queue_running", attempts=1)) & set(ids):
                    self._answered("POST", "/interrupt", attempts=1, json={"prompt_id": running})

    def close(self) -> None:
        """Close all connections, once those that speak have had their answers."""
        self.closing.set()
        with self._quiet:
            # Who still waits for an answer when connections are closed would wait for ever.
            if self._quiet.wait_for(lambda: self._speaking == 0, timeout=self._patience.timeout):
                self._http.close()

    def shown(self, text: Any) -> str:
        """A server's words, fit for a message: short, in one line, without secrets."""
        whole = str(text).encode(errors="replace").decode()
        line = " ".join(self._secrets.hidden_in(whole).split())
        return line if len(line) <= _LONGEST_SHOWN else line[:_LONGEST_SHOWN] + "..."

    def _queued(self, which: str, **how: Any) -> list[str]:
        found = self._json("GET", "/queue", **how)
        entries = found.get(which) if isinstance(found, Mapping) else None
        # [number, prompt_id, nodes, ...]
        return [
            each[1]
            for each in (entries if isinstance(entries, list) else ())
            if isinstance(each, list) and len(each) > 1 and isinstance(each[1], str)
        ]

    def _json(self, method: str, path: str, **how: Any) -> Any:
        response = self._answered(method, path, **how)
        if response.status_code == HTTPStatus.NOT_FOUND:
            raise ConfigError(f"{self.address} is no ComfyUI server: it has no {path.split('/')[1]} (HTTP 404)")
        return self._read(response)

    def _read(self, response: httpx.Response) -> Any:
        if not response.is_success:
            raise self._failure(response)
        found = _content(response)
        if not isinstance(found, dict):
            raise ServerFailure(f"the server's answer to {response.request.url.path} is no JSON object")
        return found

    def _failure(self, response: httpx.Response) -> ServerFailure:
        said = self.shown(response.text) or response.reason_phrase
        return ServerFailure(f"{response.request.url.path}: {said} (HTTP {response.status_code})")

    def _answered(
        self,
        method: str,
        path: str,
        *,
        most_bytes: int = _MOST_SAID,
        attempts: int | None = None,
        repeatable: bool | None = None,
        **request: Any,
    ) -> httpx.Response:
        """An answer that is none of "busy", "who are you?" and "elsewhere", after as many attempts as it takes."""
        patience = self._patience
        again = method == "GET" if repeatable is None else repeatable
        wait = patience.first_wait
        left = patience.retries + 1 if attempts is None else attempts
        while True:
            left -= 1
            try:
                response = self._fetched(method, path, most_bytes, request)
            except (httpx.HTTPError, httpx.InvalidURL, TransferError) as error:
                unsent = isinstance(error, _NEVER_SENT)
                reason = self.shown(f"{path}: {type(error).__name__}: {error}")
                failure: ServerFailure = (
                    UnreachedServer(reason) if unsent or again else ServerFailure(reason, unsure=True)
                )
                may_repeat, asked = unsent or again, 0.0
            else:
                failure, may_repeat = self._failure(response), response.status_code in _BUSY
                asked = retry_after(response.headers)
                if not may_repeat:
                    return self._accepted(response)
            if not may_repeat or left <= 0 or asked > patience.longest_wait:
                raise failure
            if self.closing.wait(max(wait, asked)):
                raise ServerFailure("the run was stopped", unsure=failure.unsure)
            wait = min(2 * wait, patience.longest_wait)

    def _fetched(self, method: str, path: str, most_bytes: int, request: Mapping[str, Any]) -> httpx.Response:
        limits = TransferLimits(most_bytes=most_bytes, seconds=self._patience.timeout)
        with self._quiet:
            self._speaking += 1
        try:
            return self._http.fetch(method, self.address + path, limits=limits, headers=self._headers, **request)
        finally:
            with self._quiet:
                self._speaking -= 1
                self._quiet.notify_all()

    def _accepted(self, response: httpx.Response) -> httpx.Response:
        if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PAYMENT_REQUIRED):
            raise DetectorBenchError(f"{self.address} refuses {self._asked_with} (HTTP {response.status_code})")
        if response.is_redirect:
            target = self.shown(response.headers.get("Location", ""))
            raise ConfigError(f"{self.address} redirects to {target!r}, where nothing is sent")
        return response


def _content(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return None


def _refusal(content: Any, shown: Any) -> RefusedWorkflow:
    """What a server says against a workflow, in a line, and where."""
    said = content if isinstance(content, Mapping) else {}
    error, nodes = said.get("error"), said.get("node_errors")
    lines, places = [], set()
    for node, found in nodes.items() if isinstance(nodes, Mapping) else ():
        kind, errors = (found.get("class_type"), found.get("errors")) if isinstance(found, Mapping) else ("", ())
        for each in errors if isinstance(errors, list) else ():
            told = each if isinstance(each, Mapping) else {}
            extra = told.get("extra_info")
            name = extra.get("input_name") if isinstance(extra, Mapping) else None
            if isinstance(name, str):
                places.add(Place(str(node), name))
            lines.append(f"node {node} ({kind}): {told.get('message')}: {told.get('details')}")
    if not lines:
        told = error if isinstance(error, Mapping) else {"message": error}
        lines = [": ".join(str(told[key]) for key in ("message", "details") if told.get(key))]
    return RefusedWorkflow(
        shown("; ".join(lines)) or "the workflow was refused without a reason", frozenset(places)
    )
