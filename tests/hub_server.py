"""A small hub on this machine: it tells the commits of its checkpoints, lists the files, and hands them out."""

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
        self.also: dict[str, tuple[str, Mapping[str, bytes]]] = {}
        """Commit and files of further checkpoints, by name."""

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
        name = next((each for each in hub.also if f"/{each}" in path), hub.name)
        revision, held = hub.also.get(name, (hub.revision, hub.files))
        about = [f"/api/models/{name}", *(f"/api/models/{name}/revision/{each}" for each in ("main", revision))]
        tree = f"/api/models/{name}/tree/{revision}"
        files = f"/{name}/resolve/{revision}/"
        if hub.refusal is not None and hub.name in path:
            self._refuse(*hub.refusal)
        elif path in about:
            facts = {"id": name, "sha": revision, "siblings": [], "private": False}
            self._reply(json.dumps(facts).encode(), body=body, kind="application/json", commit=revision)
        elif path == tree:
            listed = [
                {"type": "file", "path": file, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}  # noqa: S324
                for file, content in held.items()
            ]
            self._reply(json.dumps(listed).encode(), body=body, kind="application/json", commit=revision)
        elif path.startswith(files) and path.removeprefix(files) in held:
            file = path.removeprefix(files)
            # Who wants the first bytes alone looks at a file's head.
            if body and "Range" not in self.headers:
                hub.asked.append(file)
            self._reply(held[file], body=body, commit=revision)
        elif path.startswith((f"/api/models/{name}/", f"/{name}/resolve/")):
            self._refuse(404, "RevisionNotFound")
        else:
            self._refuse(404, "RepoNotFound")

    def _refuse(self, status: int, error: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", error)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _reply(self, content: bytes, *, body: bool, commit: str, kind: str = "application/octet-stream") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Repo-Commit", commit)
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
