"""Checkpoints: found as folders, downloaded from a hub at a pinned commit, verified file by file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
from hub_server import HubServer, serving
from pydantic import ValidationError
from safetensors.numpy import save

from detector_bench.errors import WeightsError
from detector_bench.perception.identity import canonical
from detector_bench.study_proof import unlike_parts
from detector_bench.weights import Checkpoint, WeightsLocator

NAME, REVISION = "someone/small-network", "0123456789abcdef" * 2 + "01234567"
FILES = {
    "config.json": b'{"model_type": "clip"}',
    "model.safetensors": save({"weight": np.arange(6.0)}),
    "vocab.txt": b"a\nb\n",
    "pytorch_model.bin": b"a pickle that must not come",
    "modeling.py": b"raise SystemExit('must not come either')",
}
SAFE = ["config.json", "model.safetensors", "vocab.txt"]


def put(folder: Path, names: list[str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or SAFE:
        (folder / name).write_bytes(FILES[name])
    return folder


def locator(*folders: Path, beside: Path | None = None) -> WeightsLocator:
    return WeightsLocator(folders=folders, beside=beside, allow_download=False)


def sha256(name: str) -> str:
    return hashlib.sha256(FILES[name]).hexdigest()


@pytest.mark.parametrize("place", ["someone/small-network", "small-network"])
def test_a_checkpoint_is_found_in_a_weights_folder_under_its_whole_or_its_last_name(
    tmp_path: Path, place: str
) -> None:
    folder = put(tmp_path / place)
    assert locator(tmp_path).locate(Checkpoint(path=NAME)) == folder


def test_a_checkpoint_beside_the_study_file_comes_before_one_in_a_weights_folder(tmp_path: Path) -> None:
    near, far = put(tmp_path / "study" / "network"), put(tmp_path / "weights" / "network")
    found = locator(far.parent, beside=near.parent).locate(Checkpoint(path="network"))
    assert found == near


@pytest.mark.parametrize(
    "names", [["config.json"], ["model.safetensors"], ["config.json", "pytorch_model.bin"]], ids=str
)
def test_a_folder_without_settings_or_safe_weights_is_no_checkpoint(tmp_path: Path, names: list[str]) -> None:
    put(tmp_path / "network", names)
    with pytest.raises(WeightsError, match=r"checkpoint 'network' not found.*config\.json and \.safetensors"):
        locator(tmp_path).locate(Checkpoint(path="network"))


def test_large_weights_need_every_part_that_their_index_names(tmp_path: Path) -> None:
    folder = put(tmp_path / "network")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    parts = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    assert locator(tmp_path).find(Checkpoint(path="network")) is None
    (folder / "model-00002-of-00002.safetensors").write_bytes(FILES["model.safetensors"])
    assert locator(tmp_path).find(Checkpoint(path="network")) == folder


def test_another_content_than_the_pinned_one_is_refused_with_file_and_both_sha256(tmp_path: Path) -> None:
    put(tmp_path / "network")
    pinned = Checkpoint(path="network", sha256={"model.safetensors": "0" * 64})
    with pytest.raises(WeightsError, match=rf"model\.safetensors.*{sha256('model.safetensors')}.*0{{64}}"):
        locator(tmp_path).locate(pinned)


def test_the_fingerprint_follows_the_content_and_not_the_place(tmp_path: Path) -> None:
    one, other = put(tmp_path / "one" / "network"), put(tmp_path / "other" / "network")
    checkpoint = Checkpoint(path="network")
    (one / "notes.md").write_text("belongs to nothing")
    assert canonical(checkpoint, weights=locator(one.parent)) == canonical(
        checkpoint, weights=locator(other.parent)
    )
    (other / "vocab.txt").write_bytes(b"b\na\n")
    assert canonical(checkpoint, weights=locator(one.parent)) != canonical(
        checkpoint, weights=locator(other.parent)
    )


def test_a_pinned_checkpoint_has_its_fingerprint_before_it_is_there(tmp_path: Path) -> None:
    pins = {"model.safetensors": sha256("model.safetensors")}
    one = Checkpoint(path=NAME, revision=REVISION, sha256=pins)
    other = Checkpoint(path=NAME, revision="f" * 40, sha256=pins)
    assert locator().content_sha256(one) != locator().content_sha256(other)


def test_what_lies_in_the_folder_beside_the_pinned_files_counts_as_it_is_found(tmp_path: Path) -> None:
    folder = put(tmp_path / "network")
    half = Checkpoint(path="network", sha256={"model.safetensors": sha256("model.safetensors")})
    whole = half.model_copy(update={"sha256": {name: sha256(name) for name in SAFE}})
    own = locator(tmp_path)
    before = own.content_sha256(half)
    assert own.content_sha256(whole) == locator().content_sha256(whole) != before
    assert own.identity(half) == {"pinned": half.pinned_content, "found": ANY}
    assert own.contents(half) == {name: sha256(name) for name in SAFE}
    (folder / "preprocessor_config.json").write_text("{}")  # transformers reads it, whatever `files` says
    named = half.model_copy(update={"files": tuple(SAFE)})
    assert own.content_sha256(half) == own.content_sha256(named) != before
    (folder / "preprocessor_config.json").unlink()
    (folder / "config.json").write_bytes(FILES["config.json"].replace(b"clip", b"blip"))
    assert own.content_sha256(half) != before
    made, told = (canonical(half, weights=each) for each in (own, None))
    assert unlike_parts(told, made) == ([], ["weights.found was not compared"]), "the study's pins are compared"
    other = canonical(Checkpoint(path="network", sha256={"model.safetensors": "0" * 64}), weights=None)
    assert unlike_parts(other, made)[0][0].startswith("weights.pinned is ")
    own.locate(half)
    with pytest.raises(WeightsError, match=r"config\.json' is not the pinned one"):
        own.locate(whole)


@pytest.mark.parametrize(
    ("place", "counts"),
    [("additional_chat_templates/default.jinja", True), ("parts/code.py", True), ("parts/notes.json", False)],
)
def test_templates_and_code_in_folders_below_count(tmp_path: Path, place: str, counts: bool) -> None:
    folder = put(tmp_path / "network")
    checkpoint = Checkpoint(path="network", files=("*.safetensors", "*.json", "*.py"))
    before = locator(tmp_path).content_sha256(checkpoint)
    (folder / place).parent.mkdir()
    (folder / place).write_text("1")
    assert (locator(tmp_path).content_sha256(checkpoint) != before) == counts


@pytest.mark.parametrize("mistake", [{"revision": "main"}, {"sha256": {"model.safetensors": "abc"}}], ids=str)
def test_a_branch_or_half_a_sha256_is_no_pin(mistake: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Checkpoint.model_validate({"path": NAME, **mistake})


def test_without_a_commit_the_message_asks_for_one() -> None:
    with pytest.raises(WeightsError, match=r"give the `revision` \(a commit on the Hugging Face hub\)"):
        WeightsLocator().locate(Checkpoint(path=NAME))


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with serving(NAME, REVISION, FILES) as server:
        yield server


PROGRAM = """
import json, sys
from detector_bench.errors import WeightsError
from detector_bench.weights import Checkpoint, WeightsLocator
for text in sys.argv[1:]:
    try:
        print(WeightsLocator().locate(Checkpoint.model_validate_json(text)))
    except WeightsError as error:
        print("WeightsError:", error)
"""


def located(hub_address: str, home: Path, *checkpoints: Checkpoint) -> list[str]:
    """What `locate` gives in a process of its own, because the hub's address is read when its package loads."""
    pytest.importorskip("huggingface_hub")
    environment = {**os.environ, "HF_ENDPOINT": hub_address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", PROGRAM, *(each.model_dump_json() for each in checkpoints)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.splitlines()


@pytest.mark.slow
def test_a_download_brings_the_safe_files_once_and_verifies_what_is_pinned(hub: HubServer, tmp_path: Path) -> None:
    pinned = Checkpoint(path=NAME, revision=REVISION, sha256={name: sha256(name) for name in SAFE})
    wrong = Checkpoint(path=NAME, revision=REVISION, sha256={"vocab.txt": "0" * 64})
    first, again, refused = located(hub.address, tmp_path, pinned, pinned, wrong)
    assert first == again
    assert sorted(path.name for path in Path(first).iterdir()) == SAFE
    assert sorted(hub.asked) == SAFE
    assert refused.startswith("WeightsError: weights file")
    assert "vocab.txt" in refused


@pytest.mark.slow
def test_a_checkpoint_without_safe_weights_or_at_an_unknown_commit_is_refused_in_a_line(
    hub: HubServer, tmp_path: Path
) -> None:
    del hub.files["model.safetensors"]
    pickles, unknown = located(
        hub.address,
        tmp_path,
        Checkpoint(path=NAME, revision=REVISION),
        Checkpoint(path=NAME, revision="f" * 40),
    )
    assert "lacks settings or .safetensors files (it has: config.json, vocab.txt)" in pickles
    assert unknown.startswith(f"WeightsError: checkpoint '{NAME}'")


def test_a_checkpoint_that_once_came_needs_no_network(hub: HubServer, tmp_path: Path) -> None:
    checkpoint = Checkpoint(path=NAME, revision=REVISION)
    (first,) = located(hub.address, tmp_path, checkpoint)
    (again,) = located("http://127.0.0.1:9", tmp_path, checkpoint)
    assert again == first


@pytest.mark.slow
def test_a_file_of_the_hubs_cache_that_was_changed_is_refused_by_name(hub: HubServer, tmp_path: Path) -> None:
    checkpoint = Checkpoint(
        path=NAME, revision=REVISION, sha256={"model.safetensors": sha256("model.safetensors")}
    )
    (found,) = located(hub.address, tmp_path, checkpoint)
    config, vocabulary = (Path(found) / name for name in ("config.json", "vocab.txt"))
    # The hub names small files as git does.
    content = FILES["config.json"]
    named_by_git = config.resolve().with_name(hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest())  # noqa: S324
    config.resolve().rename(named_by_git)
    config.unlink()
    config.symlink_to(named_by_git)
    assert located(hub.address, tmp_path, checkpoint) == [found]

    named_by_git.write_bytes(content + b" ")
    (refused,) = located(hub.address, tmp_path, checkpoint)
    assert "config.json' is not the one of revision" in refused
    assert f"expected {named_by_git.name}; delete it" in refused
    named_by_git.write_bytes(content)

    vocabulary.resolve().write_bytes(b"b\na\n")
    (refused,) = located(hub.address, tmp_path, checkpoint)
    assert f"vocab.txt' is not the one of revision {REVISION}: its sha256 is" in refused
    vocabulary.unlink()
    vocabulary.write_bytes(FILES["vocab.txt"])
    (refused,) = located(hub.address, tmp_path, checkpoint)
    assert "vocab.txt' did not come with revision" in refused
