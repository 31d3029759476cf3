"""A server on this machine that answers as ComfyUI's documented interface does, and paints noise.

It executes one workflow after the other in a thread of its own, keeps what nodes gave for nodes that are asked for
the same again, and knows the nodes of `KNOWN`.
"""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID, uuid4

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

FILES = ["sd_xl_base_1.0.safetensors", "other.safetensors"]
SAMPLERS = ["euler", "euler_ancestral", "lcm"]
SCHEDULERS = ["normal", "simple", "sgm_uniform"]
_LINK: list[Any] = ["LINK"]
KNOWN: dict[str, dict[str, list[Any]]] = {
    "CheckpointLoaderSimple": {"ckpt_name": [FILES, {}]},
    "EmptyLatentImage": {"width": ["INT", {}], "height": ["INT", {}], "batch_size": ["INT", {"min": 1}]},
    "CLIPTextEncode": {"text": ["STRING", {}], "clip": _LINK},
    "KSampler": {
        "seed": ["INT", {}],
        "steps": ["INT", {"min": 1, "max": 10000}],
        "cfg": ["FLOAT", {}],
        "sampler_name": ["COMBO", {"options": SAMPLERS}],
        "scheduler": [SCHEDULERS],
        "denoise": ["FLOAT", {}],
        "model": _LINK,
        "positive": _LINK,
        "negative": _LINK,
        "latent_image": _LINK,
    },
    "VAEDecode": {"samples": _LINK, "vae": _LINK},
    "VAEEncode": {"pixels": _LINK, "vae": _LINK},
    "LoadImage": {"image": [["example.png"], {"image_upload": True}]},
    "SaveImage": {"filename_prefix": ["STRING", {}], "images": _LINK},
    "PreviewImage": {"images": _LINK},
    "RepeatLatentBatch": {"samples": _LINK, "amount": ["INT", {}]},
}
STALLS = (0, "", {})
"""In a script: no answer comes, for longer than a test waits."""
OUTPUTS = ("SaveImage", "PreviewImage")


def workflow(**changed: Any) -> dict[str, Any]:
    """Text to image, as ComfyUI exports it; `changed` are inputs by `node__input`."""
    nodes: dict[str, Any] = {
        "3": _node(
            "KSampler",
            seed=4515,
            steps=20,
            cfg=8,
            sampler_name="euler",
            scheduler="normal",
            denoise=1,
            model=["4", 0],
            positive=["6", 0],
            negative=["7", 0],
            latent_image=["5", 0],
        ),
        "4": _node("CheckpointLoaderSimple", ckpt_name=FILES[0]),
        "5": _node("EmptyLatentImage", width=64, height=48, batch_size=16),
        "6": _node("CLIPTextEncode", text="what stood in the page", clip=["4", 1]),
        "7": _node("CLIPTextEncode", text="text, watermark", clip=["4", 1]),
        "8": _node("VAEDecode", samples=["3", 0], vae=["4", 2]),
        "9": _node("SaveImage", filename_prefix="ComfyUI", images=["8", 0]),
    }
    for name, value in changed.items():
        node, _, name_of_input = name.partition("__")
        nodes[node.removeprefix("n")]["inputs"][name_of_input] = value
    return nodes


def editing() -> dict[str, Any]:
    """Image to image: the photo is loaded by node 10."""
    nodes = workflow(n3__latent_image=["11", 0])
    del nodes["5"]
    return nodes | {
        "10": _node("LoadImage", "Seed photo", image="example.png"),
        "11": _node("VAEEncode", pixels=["10", 0], vae=["4", 2]),
    }


def _node(class_type: str, title: str | None = None, **inputs: Any) -> dict[str, Any]:
    return {"inputs": inputs, "class_type": class_type, "_meta": {"title": title or class_type}}


class ComfyUIService(ThreadingHTTPServer):
    """The server.

    Attributes:
        script: HTTP answers (status, text, headers) to the next calls, by the beginning of their path.
        calls: method and path of every call.
        prompts: every workflow that was taken, in order.
        files: content by (type, subfolder, name).
        executed: how often each kind of node was executed.
        may_run: cleared, workflows wait.
        key: what `X-API-Key` has to be; None: no key is needed.
        mints_ids: it takes no prompt_id, as older versions.
        drops: how many answers to /prompt get lost after the workflow is queued.
        interrupted: ids that were stopped.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.script: dict[str, list[tuple[int, str, dict[str, str]]]] = {}
        self.calls: list[tuple[str, str]] = []
        self.prompts: list[dict[str, Any]] = []
        self.files: dict[tuple[str, str, str], bytes] = {}
        self.executed: dict[str, int] = {}
        self.may_run = threading.Event()
        self.may_run.set()
        self.key: str | None = None
        self.mints_ids = False
        self.drops = 0
        self.interrupted: list[str] = []
        self.lock = threading.RLock()
        self.ended = False
        self.restart()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def restart(self) -> None:
        """Forget all but files, as a program that is started anew."""
        with self.lock:
            self.pending: list[tuple[str, dict[str, Any]]] = []
            self.running: tuple[str, dict[str, Any]] | None = None
            self.history: dict[str, Any] = {}
            self.cache: dict[str, Any] = {}

    def work(self) -> None:
        """Execute what is queued, one after the other, until the server ends."""
        while not self.ended:
            with self.lock:
                if self.pending and self.may_run.is_set():
                    self.running = self.pending.pop(0)
            if self.running is None:
                time.sleep(0.002)
                continue
            self._execute(*self.running)

    def _execute(self, prompt_id: str, nodes: dict[str, Any]) -> None:
        began = int(time.time() * 1000)
        messages: list[Any] = [["execution_start", {"prompt_id": prompt_id, "timestamp": began}]]
        outputs: dict[str, Any] = {}
        names = {node: _signature(nodes, node) for node in nodes}
        cached = [node for node in nodes if names[node] in self.cache]
        messages.append(["execution_cached", {"nodes": cached, "prompt_id": prompt_id, "timestamp": began}])
        error = self._error_in(prompt_id, nodes)
        for node in nodes:
            if error is None and node not in cached:
                kind = nodes[node]["class_type"]
                self.executed[kind] = self.executed.get(kind, 0) + 1
                self.cache[names[node]] = self._save(nodes, node) if kind in OUTPUTS else {}
            if error is None and self.cache[names[node]]:
                outputs[node] = self.cache[names[node]]
        messages.append(error or ["execution_success", {"prompt_id": prompt_id, "timestamp": began + 1500}])
        with self.lock:
            if self.running is not None and self.running[0] == prompt_id:
                self.running = None
                status = {
                    "status_str": "error" if error else "success",
                    "completed": not error,
                    "messages": messages,
                }
                self.history[prompt_id] = {"prompt": [1, prompt_id, nodes], "outputs": outputs, "status": status}

    def _error_in(self, prompt_id: str, nodes: dict[str, Any]) -> list[Any] | None:
        text = _texts(nodes)
        if "wait" in text:
            while prompt_id not in self.interrupted and self.running is not None and not self.ended:
                time.sleep(0.002)
        told = {"prompt_id": prompt_id, "node_id": "3", "node_type": "KSampler"}
        if prompt_id in self.interrupted or "interrupt" in text:
            return ["execution_interrupted", told]
        if "crash" in text:
            return [
                "execution_error",
                {**told, "exception_type": "RuntimeError", "exception_message": "shapes\ncannot be multiplied\n"},
            ]
        return None

    def _save(self, nodes: dict[str, Any], node: str) -> dict[str, Any]:
        inputs = nodes[node]["inputs"]
        kind = "output" if nodes[node]["class_type"] == "SaveImage" else "temp"
        subfolder, _, name = str(inputs.get("filename_prefix", "preview")).rpartition("/")
        latent = [each["inputs"] for each in nodes.values() if "batch_size" in each["inputs"]]
        sizes = [each for each in latent if isinstance(each["width"], int)]  # another node may say it
        repeats = [each["inputs"]["amount"] for each in nodes.values() if "amount" in each["inputs"]]
        width, height, count = (
            (sizes[0][key] for key in ("width", "height", "batch_size")) if sizes else (32, 32, 1)
        )
        saved = []
        for number in range(count * (repeats[0] if repeats else 1)):
            seed = int(sha256(f"{_signature(nodes, inputs['images'][0])}{number}".encode()).hexdigest()[:8], 16)
            pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
            content = io.BytesIO()
            told = PngInfo()
            told.add_text("prompt", json.dumps(nodes))
            Image.fromarray(pixels * ("black" not in _texts(nodes))).save(content, format="PNG", pnginfo=told)
            file = f"{name}_{len(self.files) + 1:05d}_.png"
            self.files[kind, subfolder, file] = b"no image" if "broken" in _texts(nodes) else content.getvalue()
            saved.append({"filename": file, "subfolder": subfolder, "type": kind})
        return {} if "saves nothing" in _texts(nodes) else {"images": saved}

    def refusal(self, nodes: dict[str, Any]) -> dict[str, Any] | None:
        """What ComfyUI says against a workflow; None: nothing."""
        for node_id, node in nodes.items():
            if node["class_type"] not in KNOWN:
                message = f"Node '{node['class_type']}' not found. The custom node may not be installed."
                error = {"type": "missing_node_type", "message": message, "details": f"Node ID '#{node_id}'"}
                return {"error": {**error, "extra_info": {}}, "node_errors": {}}
        found = {node_id: errors for node_id in nodes if (errors := list(self._errors_at(nodes[node_id])))}
        if not found:
            return None
        told = {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation"}
        return {
            "error": {**told, "details": "", "extra_info": {}},
            "node_errors": {
                node_id: {"errors": errors, "class_type": nodes[node_id]["class_type"], "dependent_outputs": ["9"]}
                for node_id, errors in found.items()
            },
        }

    def _errors_at(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for name, (kind, *rest) in KNOWN[node["class_type"]].items():
            settings = rest[0] if rest else {}
            value, extra = node["inputs"].get(name), {"extra_info": {"input_name": name}}
            choices = settings.get("options", kind if isinstance(kind, list) else None)
            if name not in node["inputs"]:
                yield {
                    "type": "required_input_missing",
                    "message": "Required input is missing",
                    "details": name,
                    **extra,
                }
            elif settings.get("image_upload"):
                where, _, file = str(value).rpartition("/")
                if value not in kind and ("input", where, file) not in self.files:
                    told = f"{name} - Invalid image file: {value}"
                    message = "Custom validation failed for node"
                    yield {"type": "custom_validation_failed", "message": message, "details": told, **extra}
            elif choices is not None and value not in choices:
                told = f"{name}: {value!r} not in {choices}"
                yield {"type": "value_not_in_list", "message": "Value not in list", "details": told, **extra}
            elif "max" in settings and value > settings["max"]:
                message = f"Value {value} bigger than max of {settings['max']}"
                yield {"type": "value_bigger_than_max", "message": message, "details": name, **extra}
            elif name == "text" and "refused" in value:
                yield {"type": "custom_validation_failed", "message": "Not this text", "details": name, **extra}


def _signature(nodes: dict[str, Any], node: str) -> str:
    inputs = {
        name: _signature(nodes, value[0]) if isinstance(value, list) else value
        for name, value in nodes[node]["inputs"].items()
    }
    return sha256(json.dumps([nodes[node]["class_type"], inputs], sort_keys=True).encode()).hexdigest()


def _texts(nodes: dict[str, Any]) -> str:
    return " ".join(str(node["inputs"].get("text", "")) for node in nodes.values())


class _Handler(BaseHTTPRequestHandler):
    server: ComfyUIService
    wbufsize = -1

    def do_GET(self) -> None:
        path, asked = self._asked()
        if path is None:
            return
        server = self.server
        if path == "/system_stats":
            system = {
                "comfyui_version": "0.36.0",
                "pytorch_version": "2.9.0+cu128",
                "python_version": "3.12.1\n(gcc)",
            }
            self._json({"system": system, "devices": [{"name": "cuda:0 NVIDIA H100", "type": "cuda"}]})
        elif path.startswith("/object_info/"):
            kind = unquote(path.rpartition("/")[2])
            self._json({kind: {"input": {"required": KNOWN[kind]}, "name": kind}} if kind in KNOWN else {})
        elif path.startswith("/history/"):
            prompt_id = path.rpartition("/")[2]
            with server.lock:
                self._json({prompt_id: server.history[prompt_id]} if prompt_id in server.history else {})
        elif path == "/queue":
            with server.lock:
                running = [[1, *server.running]] if server.running else []
                self._json({"queue_running": running, "queue_pending": [[2, *each] for each in server.pending]})
        elif path == "/view":
            found = server.files.get((asked["type"], asked.get("subfolder", ""), asked["filename"]))
            self._send(200, found) if found is not None else self._send(404, b"")
        else:
            self._send(404, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, _ = self._asked()
        if path is None:
            return
        server = self.server
        if path == "/prompt":
            self._queue(json.loads(body))
        elif path == "/upload/image":
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            parts = BytesParser().parsebytes(head + body).get_payload()
            fields = {part.get_param("name", header="content-disposition"): part for part in parts}
            subfolder = fields["subfolder"].get_payload()
            name = fields["image"].get_filename()
            server.files["input", subfolder, name] = fields["image"].get_payload(decode=True)
            self._json({"name": name, "subfolder": subfolder, "type": "input"})
        elif path == "/queue":
            with server.lock:
                gone = json.loads(body).get("delete", [])
                server.pending = [each for each in server.pending if each[0] not in gone]
            self._send(200, b"")
        elif path == "/interrupt":
            server.interrupted.append(json.loads(body)["prompt_id"])
            self._send(200, b"")
        else:
            self._send(404, b"")

    def _queue(self, body: dict[str, Any]) -> None:
        server, nodes = self.server, body["prompt"]
        if (refusal := server.refusal(nodes)) is not None:
            self._json(refusal, 400)
            return
        prompt_id = str(uuid4()) if server.mints_ids else str(UUID(body["prompt_id"]))
        with server.lock:
            server.prompts.append(nodes)
            server.pending.append((prompt_id, nodes))
            dropped = server.drops > 0
            server.drops -= dropped
        if dropped:
            self.connection.close()
        else:
            self._json({"prompt_id": prompt_id, "number": len(server.prompts), "node_errors": {}})

    def _asked(self) -> tuple[str | None, dict[str, str]]:
        parts = urlsplit(self.path)
        self.server.calls.append((self.command, parts.path))
        for beginning, answers in self.server.script.items():
            if parts.path.startswith(beginning) and answers:
                status, text, headers = answers.pop(0)
                if not status:
                    time.sleep(1)
                    return None, {}
                self._send(status, text.encode(), headers)
                return None, {}
        if self.server.key is not None and self.headers.get("X-API-Key") != self.server.key:
            self._send(401, f"no: {self.headers.get('X-API-Key')}".encode())
            return None, {}
        return parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}

    def _json(self, content: Any, status: int = 200) -> None:
        self._send(status, json.dumps(content).encode())

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet."""


@contextmanager
def comfyui(port: int = 0) -> Iterator[ComfyUIService]:
    """A running server."""
    service = ComfyUIService(port)
    threads = [
        threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True),
        threading.Thread(target=service.work, daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield service
    finally:
        service.ended = True
        service.shutdown()
        for thread in threads:
            thread.join()
        service.server_close()
