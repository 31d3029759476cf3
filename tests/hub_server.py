"""A small hub on this machine: it tells the commit of its one checkpoint, lists the files, and hands them out."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HubServer(ThreadingHTTPServer):
    """Serves `files` as `name` at `revision`; remembers which paths were asked for."""

    daemon_threads = True

    def __init__(self, name: str, revision: str, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name, self.revision, self.files = name, revision, dict(files)
        self.asked: list[str] = []
        self.refusal: tuple[int, str] | None = None
        """A status and what the real hub calls the error, given to whoever asks for the checkpoint."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        hub, path = self.server, self.path.split("?")[0]
        about = [f"/api/models/{hub.name}", f"/api/models/{hub.name}/revision/main"]
        tree = f"/api/models/{hub.name}/tree/{hub.revision}"
        files = f"/{hub.name}/resolve/{hub.revision}/"
        if hub.refusal is not None and hub.name in path:
            self._refuse(*hub.refusal)
        elif path in about:
            facts = {"id": hub.name, "sha": hub.revision, "siblings": [], "private": False}
            self._reply(json.dumps(facts).encode(), body=body, kind="application/json")
        elif path == tree:
            listed = [
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}  # noqa: S324
                for name, content in hub.files.items()
            ]
            self._reply(json.dumps(listed).encode(), body=body, kind="application/json")
        elif path.startswith(files) and path.removeprefix(files) in hub.files:
            name = path.removeprefix(files)
            if body:
                hub.asked.append(name)
            self._reply(hub.files[name], body=body)
        elif path.startswith((f"/api/models/{hub.name}/", f"/{hub.name}/resolve/")):
            self._refuse(404, "RevisionNotFound")
        else:
            self._refuse(404, "RepoNotFound")

    def _refuse(self, status: int, error: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", error)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _reply(self, content: bytes, *, body: bool, kind: str = "application/octet-stream") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Repo-Commit", self.server.revision)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(name: str, revision: str, files: Mapping[str, bytes]) -> Iterator[HubServer]:
    """A running hub."""
    server = HubServer(name, revision, files)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
