"""Weights under any published name, read without running their code, recognised, and made from packages."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnxruntime
import pytest
from fairface_networks import saved_resnet
from file_server import FileServer, serving_files
from onnx_networks import mean_colour_classifier
from typer.testing import CliRunner, Result

from detector_bench.cli.app import app
from detector_bench.errors import WeightsError
from detector_bench.weights import CATALOGUE, Checkpoint, WeightsFile, WeightsLocator, archives
from detector_bench.weights.catalogue import FACERES, FAIRFACE_RACE4, FAIRFACE_RACE7, GEAR, MIVOLO_IMDB, SSRNET
from detector_bench.weights.files import GraphModel
from detector_bench.weights.graph_model import onnx_of_graph_model
from detector_bench.weights.locate import missing_message
from detector_bench.weights.recognition import recognise
from detector_bench.weights.torch_files import read_tensors


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(path: Path, content: bytes = b"numbers") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# Names


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (FAIRFACE_RACE7, "fairface_alldata_20191111.pt"),
        (FAIRFACE_RACE4, "res34_fair_align_multi_4_20190809.pt"),
        (MIVOLO_IMDB, "mivolo_imbd.pth.tar"),
        (MIVOLO_IMDB, "model_imdb_cross_person_4.24_99.46.pth.tar"),
    ],
)
def test_a_file_is_found_by_its_other_published_names(tmp_path: Path, file: WeightsFile, name: str) -> None:
    place = put(tmp_path / name)
    locator = WeightsLocator(folders=(tmp_path,), cache=tmp_path / "cache")
    assert locator.locate(file) == place
    assert locator.content_sha256(file) == sha256(b"numbers")
    assert name in missing_message(file)


def test_the_list_shows_all_names_and_what_lies_there(tmp_path: Path) -> None:
    own, other = (put(tmp_path / name) for name in FAIRFACE_RACE4.names[:2])

    def listed() -> str:
        return CliRunner().invoke(app, ["weights", "list", "--weights-dir", str(tmp_path)]).output

    assert all(name in listed() for file in (FAIRFACE_RACE7, FAIRFACE_RACE4, MIVOLO_IMDB) for name in file.names)
    assert f"{other.name}: the same" in listed()
    put(own, b"mine")
    assert "two names of it with different content" in listed()


def test_of_two_files_that_may_be_meant_one_has_to_be_named(tmp_path: Path) -> None:
    locator = WeightsLocator(folders=(tmp_path,), cache=tmp_path / "cache")
    own, other = (put(tmp_path / name) for name in FAIRFACE_RACE7.names[:2])
    assert locator.locate(FAIRFACE_RACE7) == own, "the same content under two names is no question"
    put(other, b"other numbers")
    for asked in (locator.locate, locator.content_sha256):
        with pytest.raises(
            WeightsError, match=r"res34.*\.pt' \(sha256 .* and 'fairface_alldata.*different content"
        ):
            asked(FAIRFACE_RACE7)
    assert "different content" in (locator.lacking(FAIRFACE_RACE7) or "")
    assert locator.locate(WeightsFile(path=own.name)) == own
    assert locator.locate(WeightsFile(path=other.name)) == other
    pinned = FAIRFACE_RACE7.model_copy(update={"sha256": sha256(b"other numbers")})
    assert locator.locate(pinned) == other


# What a pickle may hold


class _Call:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


CHECKPOINT = {
    "args": Namespace(lr=[1e-3], name="volo", nested=Namespace(deep=True)),
    "metric": np.float64(4.22),
    "max_age": np.int64(95),
    "min_age": np.float32(0.5),
    "no_gender": np.bool_(False),
    "best": {"epoch": np.uint8(7)},
}


def renamed(path: Path, old: bytes, new: bytes) -> Path:
    """The same zipped pickle with another module's name in it."""
    out = path.with_name(f"renamed_{path.name}")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for member in source.infolist():
            target.writestr(member, source.read(member).replace(old, new))
    return out


def test_options_of_a_training_and_numpy_numbers_are_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "real.pth.tar"
    torch.save({**CHECKPOINT, "state_dict": {"weight": torch.ones(2)}}, path)
    for each in (path, renamed(path, b"numpy._core", b"numpy.core")):  # as numpy 1 wrote it
        held = read_tensors(each, extra="mivolo").content
        assert held["state_dict"]["weight"].tolist() == [1, 1]
        assert held["args"] == CHECKPOINT["args"]
        numbers = [held["metric"], held["max_age"], held["min_age"], held["no_gender"], held["best"]["epoch"]]
        assert numbers == [4.22, 95, 0.5, False, 7]
        assert {type(number) for number in numbers} == {float, int, bool}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (_Call(Path.touch, Path("trace")), "pathlib"),
        (_Call(eval, "open('trace', 'w')"), "eval"),
        (PurePosixPath("a"), "pathlib"),
        (np.zeros(3), "_reconstruct"),
        (_Call(np.dtype, "O"), "'O'"),
        (_Call(np.dtype, "V8"), "'V8'"),
    ],
)
def test_everything_else_is_refused_in_a_line_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, name: str
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    torch.serialization.add_safe_globals([np.dtype, PurePosixPath])  # as other packages do
    before = set(torch.serialization.get_safe_globals())
    torch.save({"state_dict": {}, "more": value}, tmp_path / "harmful.pt")
    with pytest.raises(WeightsError) as caught:
        read_tensors(tmp_path / "harmful.pt", extra="fairface")
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "trace").exists()
    assert set(torch.serialization.get_safe_globals()) == before, "others accept what they accepted"


# Adding


def add(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["weights", "add", *map(str, arguments)])


@pytest.mark.slow
def test_files_are_known_by_what_they_hold(tmp_path: Path, shared: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    folder = tmp_path / "weights"
    folder.mkdir()
    fair = saved_resnet(torch, tmp_path / "download (1).pt", seed=0)
    tensors = {"pos_embed": torch.zeros(1, 14, 14, 8), "patch_embed.conv1.0.weight": torch.zeros(1)}
    mivolo = {"state_dict": {**tensors, "head.weight": torch.zeros(3, 8)}, "args": Namespace(lr=1)}
    torch.save(mivolo, tmp_path / "checkpoint.pth.tar")
    (tmp_path / "faces.bin").write_bytes((shared / "weights" / "yunet.onnx").read_bytes())

    result = add(tmp_path / "checkpoint.pth.tar", tmp_path / "faces.bin", "--weights-dir", folder)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in folder.iterdir()) == [MIVOLO_IMDB.name, "yunet.onnx"]
    assert "a MiVOLO of 224 pixels" in result.output

    undecided = add(fair, "--weights-dir", folder)
    assert undecided.exit_code == 1
    assert f"--as {FAIRFACE_RACE7.name} or --as {FAIRFACE_RACE4.name}" in undecided.output
    wrong = add(fair, "--as", "yunet.onnx", "--weights-dir", folder)
    assert "not 'yunet.onnx'" in wrong.output
    said = add(fair, "--as", FAIRFACE_RACE4.name, "--link", "--weights-dir", folder)
    assert said.exit_code == 0, said.output
    assert (folder / FAIRFACE_RACE4.name).is_symlink()
    by_name = add(fair.rename(tmp_path / "fairface_alldata_20191111.pt"), "--weights-dir", folder)
    assert "7 races" in by_name.output
    assert (folder / FAIRFACE_RACE7.name).is_file()
    assert any(line.split()[1] == "fairface:" for line in by_name.output.splitlines()), by_name.output
    again = add(tmp_path / "fairface_alldata_20191111.pt", "--weights-dir", folder)
    assert again.output.startswith("here"), again.output


def test_what_is_not_known_is_described_and_left_alone(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = tmp_path / "weights"
    folder.mkdir()
    torch.save({"layer.weight": torch.zeros(2, 3)}, tmp_path / "mine.pt")
    torch.save({"more": np.zeros(2)}, tmp_path / "refused.pt")
    mean_colour_classifier(tmp_path / "net.onnx", [[1, 0]] * 3)
    put(tmp_path / "broken.onnx")
    (tmp_path / "folder").mkdir()
    names = ["mine.pt", "refused.pt", "net.onnx", "broken.onnx", "folder", "absent.pt"]
    result = add(*(tmp_path / name for name in names), "--weights-dir", folder)
    assert result.exit_code == 1
    for said in (
        "1 tensors of PyTorch: layer.weight [2, 3]",
        "'numpy._core.multiarray._reconstruct', 'numpy.ndarray', which could run code",
        "an ONNX network with the inputs",
        "no ONNX network",
        "a folder without a config.json",
        "there is no file",
    ):
        assert said in result.output
    assert list(folder.iterdir()) == []
    assert len(result.output.strip().splitlines()) == len(names)


def test_a_folder_is_known_by_the_sha256_of_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = put(tmp_path / "download" / "model.safetensors")
    put(tmp_path / "download" / "config.json", b'{"model_type": "clip"}')
    folder = tmp_path / "weights"
    folder.mkdir()
    assert "transformers (clip)" in recognise(held.parent).what
    known = Checkpoint(path="someone/clip", sha256={held.name: sha256(b"numbers")})
    monkeypatch.setitem(CATALOGUE, known.name, known)
    result = add(held.parent, "--link", "--weights-dir", folder)
    assert result.exit_code == 0, result.output
    locator = WeightsLocator(folders=(folder,), cache=tmp_path / "cache")
    assert locator.locate(known) == folder / "someone" / "clip"


def test_another_file_under_the_same_name_is_not_replaced(tmp_path: Path, shared: Path) -> None:
    put(tmp_path / "yunet.onnx", b"mine")
    result = add(shared / "weights" / "yunet.onnx", "--weights-dir", tmp_path)
    assert result.exit_code == 1
    assert "is another file already" in result.output
    assert (tmp_path / "yunet.onnx").read_bytes() == b"mine"


def test_networks_of_ultralytics_are_known_without_ultralytics_running(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    words = {"yaml_file": "yolov8x.yaml", "names": {0: "person", 1: "face"}}
    path = tmp_path / "some.pt"
    torch.save({"model": _Call(print, words)}, path)
    path = renamed(path, b"c__builtin__\nprint\n", b"cultralytics.nn.tasks\nDetectionModel\n")
    found = recognise(path)
    assert found.what == "a network of ultralytics, yolov8x, for persons and faces"
    assert [each.name for each in found.meant] == ["yolov8x_person_face.pt"]


# Networks that are made from what a package holds


def small_graph_model() -> tuple[bytes, bytes]:
    """A convolution, the mean of what it gives, and a dense layer with a softmax, half of it in 16 bits."""
    random = np.random.default_rng(0)
    values = {
        "kernel": random.normal(size=(3, 3, 3, 4)).astype("<f2"),
        "bias": random.normal(size=4).astype("<f4"),
        "axes": np.array([1, 2], "<i4"),
        "dense": random.normal(size=(4, 2)).astype("<f4"),
    }

    def said(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "shape": list(values[name].shape)}
        found["dtype"] = "int32" if name == "axes" else "float32"
        if values[name].dtype == np.dtype("<f2"):
            found["quantization"] = {"dtype": "float16"}
        return found

    strides = {"list": {"i": ["1", "2", "2", "1"]}}
    image = {"shape": {"shape": {"dim": [{"size": size} for size in ("-1", "8", "8", "3")]}}}
    convolution = {
        "strides": strides,
        "dilations": {"list": {"i": ["1"] * 4}},
        "padding": {"s": "U0FNRQ=="},
        "fused_ops": {"list": {"s": ["Qmlhc0FkZA==", "UmVsdQ=="]}},
    }
    nodes = [
        *({"name": name, "op": "Const"} for name in values),
        {"name": "image", "op": "Placeholder", "attr": image},
        {"name": "seen", "op": "_FusedConv2D", "input": ["image", "kernel", "bias"], "attr": convolution},
        {"name": "mean", "op": "Mean", "input": ["seen", "axes"], "attr": {"keep_dims": {"b": False}}},
        {"name": "logits", "op": "MatMul", "input": ["mean", "dense"], "attr": {}},
        {"name": "shares", "op": "Softmax", "input": ["logits"], "attr": {}},
    ]
    model = {"modelTopology": {"node": nodes}, "weightsManifest": [{"weights": [said(name) for name in values]}]}
    return json.dumps(model).encode(), b"".join(each.tobytes() for each in values.values())


OUTPUTS = {"answer": "shares"}


def test_a_graph_model_computes_the_same_as_onnx() -> None:
    model, weights = small_graph_model()
    made = onnx_of_graph_model(model, weights, outputs=OUTPUTS)
    assert made == onnx_of_graph_model(model, weights, outputs=OUTPUTS)
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(1).random((2, 8, 8, 3), np.float32)
    (found,) = session.run(None, {"image": images})
    np.testing.assert_allclose(found, by_hand(images, weights), atol=1e-6)


def by_hand(images: Any, weights: bytes) -> Any:
    kernel = np.frombuffer(weights, "<f2", 108).reshape(3, 3, 3, 4).astype(np.float64)
    bias = np.frombuffer(weights, "<f4", 4, 216)
    dense = np.frombuffer(weights, "<f4", 8, 240).reshape(4, 2)
    padded = np.pad(images.astype(np.float64), ((0, 0), (0, 1), (0, 1), (0, 0)))  # `SAME` pads the end first
    places = [(row, column) for row in range(0, 8, 2) for column in range(0, 8, 2)]
    seen = [np.einsum("nhwc,hwcd->nd", padded[:, y : y + 3, x : x + 3], kernel) + bias for y, x in places]
    logits = np.maximum(seen, 0).mean(axis=0) @ dense
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def node(name: str, operation: str, read: str = "", **attributes: Any) -> dict[str, Any]:
    return {"name": name, "op": operation, "input": read.split(), "attr": attributes}


def numbers(*values: int) -> dict[str, Any]:
    return {"list": {"i": [str(value) for value in values]}}


def test_pooling_slices_and_arithmetic_are_those_of_tensorflow() -> None:
    """Operations of the three networks that the small one lacks, against numpy."""
    random = np.random.default_rng(3)
    values = {
        "depth": random.normal(size=(3, 3, 3, 1)).astype("<f4"),
        "scale": np.array(2.5, "<f4"),
        "first": np.array([0, 1], "<i4"),
        "last": np.array([0, 2], "<i4"),
        "steps": np.array([1, 1], "<i4"),
        "axis": np.array(-1, "<i4"),
        "flat": np.array([-1, 12], "<i4"),
    }
    valid, two = {"s": "VkFMSUQ="}, numbers(1, 2, 2, 1)
    pooled = {"padding": valid, "ksize": two, "strides": two}
    ones = {"strides": numbers(1, 1, 1, 1), "dilations": numbers(1, 1, 1, 1), "padding": valid}
    masks = {"begin_mask": {"i": "1"}, "end_mask": {"i": "1"}, "shrink_axis_mask": {"i": "2"}}
    shape = {"shape": {"dim": [{"size": size} for size in ("-1", "6", "6", "3")]}}
    nodes = [
        *(node(name, "Const") for name in values),
        node("image", "Placeholder", shape=shape),
        node("seen", "DepthwiseConv2dNative", "image depth", **ones),
        node("largest", "MaxPool", "seen", **pooled),
        node("average", "AvgPool", "seen", **pooled),
        node("sum", "AddV2", "largest average"),
        node("tanh", "Tanh", "sum"),
        node("row", "Reshape", "tanh flat"),
        node("second", "StridedSlice", "row first last steps", **masks),
        node("column", "ExpandDims", "second axis"),
        node("share", "RealDiv", "column scale"),
    ]
    said = [{"name": name, "shape": list(each.shape), "dtype": _word(each)} for name, each in values.items()]
    model = {"modelTopology": {"node": nodes}, "weightsManifest": [{"weights": said}]}
    weights = b"".join(each.tobytes() for each in values.values())
    made = onnx_of_graph_model(json.dumps(model).encode(), weights, outputs={"answer": "share"})

    images = random.random((2, 6, 6, 3), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))  # n, y, x, channel, 3, 3
    seen = np.einsum("nyxcij,ijc->nyxc", windows, values["depth"][..., 0])
    blocks = seen.reshape(2, 2, 2, 2, 2, 3)
    expected = np.tanh(blocks.max(axis=(2, 4)) + blocks.mean(axis=(2, 4))).reshape(2, 12)[:, 1, None] / 2.5
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"image": images})[0], expected, atol=1e-5)


def _word(values: Any) -> str:
    return "int32" if values.dtype.kind == "i" else "float32"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"Softmax"', b'"Einsum"', "the operation 'Einsum' is not known"),
        (b'["logits"]', b'["shares"]', "the node 'shares' reads itself"),
        (b"[4, 2]", b"[4, 3]", "the weights end before 'dense'"),
        (b"[4, 2]", b"[4, 1]", "bytes of weights, expected"),
        (b"U0FNRQ==", b"Tk9ORQ==", "KeyError: 'NONE'"),
        (b'"float16"', b'"float8"', "KeyError: 'float8'"),
        (b"{", b"[", "JSONDecodeError"),
    ],
)
def test_what_is_no_known_graph_model_is_one_line(old: bytes, new: bytes, message: str) -> None:
    model, weights = small_graph_model()
    with pytest.raises(WeightsError, match=message) as caught:
        onnx_of_graph_model(model.replace(old, new), weights, outputs=OUTPUTS)
    assert "\n" not in str(caught.value)


def packed(*members: tuple[str, bytes | str]) -> bytes:
    """A `.tgz`: contents by name, or for a text a link to it."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving_files() as found:
        yield found


def made_file(
    server: FileServer, archive: bytes, *, sha: str | None = None, name: str = "made.onnx"
) -> WeightsFile:
    """A file that is made from an archive of this server."""
    server.files["/models.tgz"] = archive
    model, weights = small_graph_model()
    source = GraphModel(
        archive=f"{server.address}/models.tgz",
        archive_sha256=sha256(archive),
        archive_bytes=len(archive),
        topology="package/net.json",
        weights="package/net.bin",
        outputs=OUTPUTS,
    )
    return WeightsFile(
        path=name, sha256=sha or sha256(onnx_of_graph_model(model, weights, outputs=OUTPUTS)), made_from=source
    )


def good_archive() -> bytes:
    model, weights = small_graph_model()
    return packed(("../outside", b"x"), ("package/net.json", model), ("package/net.bin", weights))


def test_a_file_is_made_once_from_its_archive(tmp_path: Path, server: FileServer) -> None:
    file = made_file(server, good_archive())
    locator = WeightsLocator(cache=tmp_path / "cache")
    assert locator.lacking(file) is None
    place = locator.locate(file)
    assert sha256(place.read_bytes()) == file.sha256
    assert locator.locate(file) == place
    assert server.asked("GET") == ["/models.tgz"]
    kept = {path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert kept == {"made.onnx"}, "neither the archive nor what else it holds stays"


def test_a_bare_name_that_the_catalogue_knows_is_fetched_and_own_files_of_that_name_are_taken_as_they_are(
    tmp_path: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/net.bin"] = b"numbers"
    known = WeightsFile(path="net.bin", sha256=sha256(b"numbers"), url=f"{server.address}/net.bin")
    monkeypatch.setitem(CATALOGUE, "net.bin", known)
    bare = WeightsFile(path="net.bin")
    locator = WeightsLocator(cache=tmp_path / "cache", folders=(tmp_path / "own",))
    assert "detector-bench weights fetch net.bin" in missing_message(bare)
    assert locator.locate(bare).read_bytes() == b"numbers"
    assert locator.find(bare) == locator.find(known)
    own = put(tmp_path / "own" / "net.bin", b"of another release")
    assert locator.locate(bare) == own
    assert locator.content_sha256(bare) == sha256(b"of another release")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"package/net.bin": None}, "does not hold 'package/net.bin'"),
        ({"package/net.bin": "/etc/hostname"}, "'package/net.bin' is no ordinary file"),
        ({"package/net.bin": b"short"}, "no TensorFlow.js graph model that can be converted"),
    ],
)
def test_members_that_are_not_taken_are_named(
    tmp_path: Path, server: FileServer, change: dict[str, Any], message: str
) -> None:
    model, weights = small_graph_model()
    members = {"package/net.json": model, "package/net.bin": weights, **change}
    file = made_file(server, packed(*((name, each) for name, each in members.items() if each is not None)))
    with pytest.raises(WeightsError, match=message):
        WeightsLocator(cache=tmp_path / "cache").locate(file)
    assert not list(tmp_path.rglob("made.onnx*"))


def test_archives_that_unpack_to_too_much_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = put(tmp_path / "bomb.tgz", packed(("zeros", bytes(3_000_000)), ("package/net.bin", b"late")))
    monkeypatch.setattr(archives, "MOST_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(WeightsError, match=r"more than 1,000,000 bytes"):
        archives.read_members(bomb, ["package/net.bin"])
    monkeypatch.setattr(archives, "MOST_UNPACKED_BYTES", 10_000_000)
    assert archives.read_members(bomb, ["package/net.bin"]) == {"package/net.bin": b"late"}
    monkeypatch.setattr(archives, "MOST_MEMBER_BYTES", 2_000_000)
    with pytest.raises(WeightsError, match=r"'zeros' is 3,000,000 bytes"):
        archives.read_members(bomb, ["zeros"])
    twice = put(tmp_path / "twice.tgz", packed(("net", b"1"), ("net", b"2")))
    with pytest.raises(WeightsError, match="twice"):
        archives.read_members(twice, ["net"])
    for name, content in (("cut.tgz", twice.read_bytes()[:60]), ("page.tgz", b"<html>")):
        with pytest.raises(WeightsError, match=f"{name}' cannot be read"):
            archives.read_members(put(tmp_path / name, content), ["net"])


@pytest.mark.parametrize(
    "content",
    [
        {"a": Namespace(shape=5)},
        {"pos_embed": np.float64(1.0), "patch_embed.conv1.0.weight": Namespace(shape=[1])},
        {"pos_embed": 1, "patch_embed.conv1.0.weight": 1, "head.weight": 0},
        {"pos_embed": 2, "patch_embed.conv1.0.weight": 1, "head.weight": 0},
    ],
)
def test_what_only_looks_like_a_known_network_is_no_traceback(tmp_path: Path, content: dict[str, Any]) -> None:
    """Whole numbers stand for a tensor of so many axes."""
    torch = pytest.importorskip("torch")
    made = {name: torch.zeros((3,) * each) if isinstance(each, int) else each for name, each in content.items()}
    torch.save(made, tmp_path / "odd.pt")
    assert recognise(tmp_path / "odd.pt").meant == ()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_damaged_archive_is_told_in_a_line(tmp_path: Path, method: int) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "damaged.pt"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("archive/data.pkl", bytes(range(256)) * 40)
    whole = path.read_bytes()
    for begin in range(50, 90, 2):
        path.write_bytes(whole[:begin] + b"\xff\xff" + whole[begin + 2 :])
        assert "cannot be read" in recognise(path).what


def test_a_small_file_that_unpacks_to_a_very_large_one_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(300 * 1024**2))
    with pytest.raises(WeightsError, match=r"unpacks to 314,572,800: PyTorch writes no such file"):
        read_tensors(path, extra="torch")


def test_another_network_than_the_pinned_one_is_not_kept(tmp_path: Path, server: FileServer) -> None:
    file = made_file(server, good_archive(), sha="0" * 64)
    with pytest.raises(WeightsError, match=r"made of package/net.json by onnx .* is not the pinned file"):
        WeightsLocator(cache=tmp_path / "cache").locate(file)
    assert not list(tmp_path.rglob("made.onnx*"))


def test_detectors_that_come_along_say_what_makes_them_ready(shared: Path) -> None:
    """A study that pins a known content need not say where it comes from."""
    for file, name in ((FACERES, "faceres"), (GEAR, "gear"), (SSRNET, "ssrnet")):
        pinned = WeightsFile(path=file.name, sha256=file.sha256)
        assert WeightsLocator(cache=Path("nowhere")).lacking(pinned) is None
        assert f"weights fetch {file.name}" in missing_message(pinned)
        assert sha256((shared / "weights" / file.name).read_bytes()) == file.sha256
        wanted = CliRunner().invoke(app, ["weights", "fetch", name, "--weights-dir", str(shared / "weights")])
        assert wanted.output.startswith(f"here      {file.name}"), wanted.output
    unknown = CliRunner().invoke(app, ["weights", "fetch", "gaer"])
    assert "did you mean 'gear'" in str(unknown.exception)


def test_a_study_with_such_a_detector_says_what_it_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gear = "{name: gear, extends: detectors/gear.yaml}"
    (tmp_path / "study.yaml").write_text(f"image_set: .\nattributes: [race]\ndetectors: [{gear}]\n")
    result = CliRunner().invoke(app, ["detectors", "--study", str(tmp_path / "study.yaml"), "--json"])
    (row,) = json.loads(result.output)["rows"]
    assert row["ready"] == "to fetch: 144.5 MB (gear.onnx)"
