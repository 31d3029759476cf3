"""Files that lie beside a network: found, counted, pinned, and never swapped without a word."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto, helper
from onnx_networks import mean_colour_classifier, numbers_beside
from pydantic import ValidationError
from small_parts import write_image_set
from study_files import NET, run_record, write_network

from detector_bench.errors import WeightsError
from detector_bench.perception.networks.onnx_networks import open_session
from detector_bench.study import Study
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.side_files import DamagedNetworkError, side_files

COUNT = 6


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def locator(folder: Path) -> WeightsLocator:
    return WeightsLocator(beside=folder, cache=folder / "cache", allow_download=False)


# Reading


def tensor(location: str) -> TensorProto:
    found = TensorProto(data_type=TensorProto.FLOAT, dims=[1], name=location)
    found.data_location = TensorProto.EXTERNAL
    entry = found.external_data.add()
    entry.key, entry.value = "location", location
    found.external_data.add(key="offset", value="0")
    return found


def everywhere() -> onnx.ModelProto:
    """A model with a tensor at each place that onnx.proto has for one."""
    inner = helper.make_graph([], "inner", [], [], initializer=[tensor("inner")])
    innermost = helper.make_graph([], "innermost", [], [], initializer=[tensor("innermost")])
    sparse = onnx.SparseTensorProto(values=tensor("values"), indices=tensor("indices"), dims=[1])
    attributes = {
        "one": tensor("sub/attribute"),
        "many": [tensor("first"), tensor("second")],
        "graph": inner,
        "graphs": [innermost],
        "sparse": onnx.SparseTensorProto(values=tensor("sparse attribute"), dims=[1]),
    }
    graph = helper.make_graph([helper.make_node("Some", [], ["y"], **attributes)], "outer", [], [])
    graph.initializer.append(tensor("./initializer"))
    graph.sparse_initializer.append(sparse)
    function = helper.make_function("own", "F", [], ["y"], [helper.make_node("Constant", [], ["y"])], [])
    function.node[0].attribute.append(helper.make_attribute("value", tensor("function")))
    function.attribute_proto.append(helper.make_attribute("default", tensor("default")))
    model = helper.make_model(graph, functions=[function])
    model.training_info.add().algorithm.initializer.append(tensor("training"))
    return model


def test_every_place_where_a_tensor_can_stand_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(everywhere().SerializeToString())
    assert side_files(path) == tuple(
        sorted(
            [
                *("initializer", "values", "indices", "sub/attribute", "first", "second", "inner", "innermost"),
                *("sparse attribute", "function", "default", "training"),
            ]
        )
    )


@pytest.mark.parametrize(
    "location",
    ["/etc/hostname", "../net.data", "sub/../../net.data", "..\\net.data", "C:\\net.data", "", "a\0b", "."],
)
def test_a_file_outside_the_networks_folder_is_refused(tmp_path: Path, location: str) -> None:
    graph = helper.make_graph([], "g", [], [], initializer=[tensor(location)])
    (tmp_path / "net.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(WeightsError, match=r"^weights file '.*net\.onnx' refers to a file outside its folder"):
        locator(tmp_path).locate(WeightsFile(path="net.onnx"))


def test_no_damage_makes_the_reader_fail_otherwise_than_in_a_line(tmp_path: Path) -> None:
    whole, path = everywhere().SerializeToString(), tmp_path / "net.onnx"
    draw = np.random.default_rng(1)
    damaged = [whole[:end] for end in range(0, len(whole), 7)]
    for _ in range(500):
        content = bytearray(whole)
        for place in draw.integers(0, len(whole), 3):
            content[place] = draw.integers(0, 256)
        damaged.append(bytes(content))
    # A group, a length beyond the end, one beyond 64 bits, and a number without an end.
    damaged += [b"\x0b", b"\x3a\xff\xff\xff\xff\x07", b"\x3a" + b"\xff" * 9 + b"\x01", b"\x08" + b"\x80" * 30]
    refused = [error for content in damaged if (error := refusal(path, content)) is not None]
    assert not any("\n" in str(error) for error in refused)
    assert sum(isinstance(error, DamagedNetworkError) for error in refused) > len(damaged) / 4


def refusal(path: Path, content: bytes) -> WeightsError | None:
    path.write_bytes(content)
    try:
        side_files(path)
    except WeightsError as error:
        return error
    return None


def test_a_network_of_another_ending_may_not_have_side_files(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1], [0], [0]])
    numbers_beside(path)
    with pytest.raises(
        WeightsError, match=r"net\.bin' refers to 'net\.onnx\.data': call a network with side files"
    ):
        open_session(path.rename(tmp_path / "net.bin"))


# Identity


def test_side_files_count_and_a_network_without_any_counts_as_ever(tmp_path: Path) -> None:
    path, file = mean_colour_classifier(tmp_path / "net.onnx", [[1], [0], [0]]), WeightsFile(path="net.onnx")
    assert locator(tmp_path).content_sha256(file) == sha256(path)

    beside = numbers_beside(path)
    same = locator(tmp_path)
    before = same.content_sha256(file)
    assert same.contents(file) == {"net.onnx": sha256(path), "net.onnx.data": sha256(beside)}
    pinned = WeightsFile(path="net.onnx", sha256=sha256(path), side_files={"net.onnx.data": sha256(beside)})
    assert same.content_sha256(pinned) == before, "pinning what was found throws no result away"
    assert same.locate(pinned) == path

    for _ in range(20):  # as quickly as the clock of a file system may not notice
        beside.write_bytes(beside.read_bytes()[::-1])
        assert same.contents(file)["net.onnx.data"] == sha256(beside), "also in a process that has read it before"
    beside.write_bytes(bytes(len(beside.read_bytes())))
    assert same.content_sha256(file) != before
    assert same.content_sha256(pinned) == before
    with pytest.raises(WeightsError) as raised:
        same.locate(pinned)
    assert str(raised.value) == (
        f"weights file {str(beside)!r} is not the pinned one: its sha256 is {sha256(beside)}, expected "
        f"{pinned.side_files['net.onnx.data']}; delete it, or correct the sha256 in the configuration"
    )
    path.unlink()
    assert same.content_sha256(pinned) == before, "what is pinned need not be there"


def test_whoever_pins_a_network_pins_its_side_files(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1], [0], [0]])
    beside = numbers_beside(path)
    half = WeightsFile(path="net.onnx", sha256=sha256(path))
    for ask in (locator(tmp_path).locate, locator(tmp_path).content_sha256):
        with pytest.raises(WeightsError, match=rf"write side_files: {{net\.onnx\.data: {sha256(beside)}}}"):
            ask(half)
    other = WeightsFile(path="net.onnx", sha256="0" * 64)
    with pytest.raises(WeightsError, match=rf"net\.onnx' is not the pinned one: its sha256 is {sha256(path)}"):
        locator(tmp_path).locate(other)
    beside.unlink()
    with pytest.raises(WeightsError, match=r"refers to 'net\.onnx\.data', which does not lie beside it"):
        locator(tmp_path).locate(WeightsFile(path="net.onnx"))
    with pytest.raises(ValidationError, match="give its sha256, too"):
        WeightsFile(path="net.onnx", side_files={"net.onnx.data": "0" * 64})


# Runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of a network whose numbers lie beside it."""
    write_image_set(tmp_path / "images", COUNT)
    write_network(tmp_path / "nets" / "net.onnx")
    numbers_beside(tmp_path / "nets" / "net.onnx")
    write_study(tmp_path)
    return tmp_path


def write_study(folder: Path, network: str = "nets/net.onnx") -> None:
    (folder / "net.yaml").write_text(NET.replace("nets/net.onnx", network))
    (folder / "study.yaml").write_text(
        "name: nets\nimage_set: images\ndetectors: [{name: net, extends: net.yaml}]\n"
    )


def run(folder: Path, out: str) -> tuple[Any, list[str]]:
    """What is recorded of the session, and the labels."""
    study = Study.from_yaml(folder / "study.yaml")
    study.run(folder / out, cache_dir=folder / "cache")
    rows = pq.read_table(next((folder / out / "predictions" / "net").rglob("*.parquet")), columns=["label"])
    return run_record(folder / out), rows["label"].to_pylist()


def turn_around(folder: Path) -> None:
    """Exchange the numbers for their negatives: whoever was male is female."""
    path = folder / "nets" / "net.onnx.data"
    values = np.frombuffer(path.read_bytes(), np.float32)
    path.write_bytes((-values).tobytes())


@pytest.mark.slow
def test_other_numbers_beside_a_network_are_judged_anew_and_never_come_from_the_cache(folder: Path) -> None:
    _, labels = run(folder, "results")
    again, _ = run(folder, "results")
    assert again["sessions"][-1]["images_judged"] == 0, "nothing has changed"
    turn_around(folder)

    after, others = run(folder, "results")
    _, fresh = run(folder, "new")

    assert others == fresh != labels
    assert [set(pair) for pair in zip(labels, others, strict=True)] == [{"male", "female"}] * COUNT
    assert after["sessions"][-1]["images_judged"] == COUNT
    recorded = after["weights"]["net.onnx"]["files"]
    assert recorded == {name: sha256(folder / "nets" / name) for name in ("net.onnx", "net.onnx.data")}


def test_a_pinned_network_refuses_other_numbers_beside_it(folder: Path) -> None:
    own, beside = (sha256(folder / "nets" / name) for name in ("net.onnx", "net.onnx.data"))
    write_study(folder, f"{{path: nets/net.onnx, sha256: {own}, side_files: {{net.onnx.data: {beside}}}}}")
    run(folder, "results")
    turn_around(folder)
    other = sha256(folder / "nets" / "net.onnx.data")
    study = Study.from_yaml(folder / "study.yaml")
    with pytest.raises(
        WeightsError, match=rf"net\.onnx\.data' is not the pinned one: .*{other}, expected {beside}"
    ):
        study.run(folder / "new", use_cache=False)


@pytest.mark.slow
def test_weights_list_and_verify_name_every_side_file(folder: Path) -> None:
    def weights(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "detector_bench", "weights", *words]
        command += ["--study", str(folder / "study.yaml"), "--json"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    own, beside = (sha256(folder / "nets" / name) for name in ("net.onnx", "net.onnx.data"))
    assert f"{beside} net.onnx.data" in weights("list").stdout
    write_study(folder, f"{{path: nets/net.onnx, sha256: {own}, side_files: {{net.onnx.data: {beside}}}}}")
    assert weights("verify", "net.onnx").returncode == 0
    turn_around(folder)
    found = weights("verify", "net.onnx")
    assert found.returncode == 1
    assert "net.onnx.data' is not the pinned one" in found.stdout
