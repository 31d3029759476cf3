"""Names on the hub without a commit: settled once, written into the study's lock, and the same from then on.

Each run is a process of its own, because the hub's address is read when its package loads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml
from clip_networks import write_odd_images
from guides import block
from hub_server import HubServer, serving
from published_networks import save_vit

from detector_bench.errors import ConfigError
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.weights.revisions import RevisionLock, lock_beside, write_lock

PAGE = "published-classifiers.md"
NAME, COMMIT = "someone/gender-classifier", "0123456789abcdef" * 2 + "01234567"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = save_vit(tmp_path_factory.mktemp("network") / "vit")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def hub(files: dict[str, bytes]) -> Iterator[HubServer]:
    with serving(NAME, COMMIT, files) as server:
        yield server


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The study of the page, with its image set beside it."""
    write_odd_images(tmp_path / "my_images")
    path = tmp_path / "study.yaml"
    path.write_text(block(PAGE, "file", "study.yaml"), encoding="utf-8")
    return path


def call(line: str, study: Path, address: str) -> subprocess.CompletedProcess[str]:
    """Run `detector-bench ...` beside the study, with a hub at an address."""
    home = {"HF_HOME": str(study.parent / "home"), "XDG_CACHE_HOME": str(study.parent / "cache")}
    environment = {**os.environ, **home, "HF_ENDPOINT": address, "HF_HUB_DISABLE_XET": "1", "COLUMNS": "500"}
    command = [sys.executable, "-P", "-m", "detector_bench", *line.split()[1:]]
    return subprocess.run(
        command, cwd=study.parent, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def verdicts(out: Path) -> dict[str, str]:
    rows = pd.read_parquet(out / "predictions" / "image_classifier")
    assert set(rows["status"]) == {"clear"}
    return dict(zip(rows["image_id"], rows["label"], strict=True))


def test_the_yaml_of_the_page_has_at_most_six_lines() -> None:
    assert len(block(PAGE, "file", "study.yaml").strip().splitlines()) <= 6


@pytest.mark.slow
def test_the_page_runs_and_the_same_commit_is_taken_ever_after(hub: HubServer, study: Path) -> None:
    line = block(PAGE, "command", "run").strip()
    dry = call(f"{line} --dry-run", study, hub.address)
    assert dry.returncode == 0, dry.stderr
    assert "to be downloaded from the Hugging Face hub, someone/gender-classifier" in dry.stdout
    assert not lock_beside(study).exists()
    assert hub.asked == []

    first = call(line, study, hub.address)
    assert first.returncode == 0, first.stderr
    assert yaml.safe_load(lock_beside(study).read_text()) == {"revisions": {NAME: COMMIT}}
    assert "model.safetensors" in hub.asked
    judged = verdicts(study.parent / "results")
    verified = call("detector-bench verify results", study, NOWHERE)
    assert verified.returncode == 0, verified.stdout

    hub.revision = "f" * 40  # the name stands for something else now
    again = call(f"{line}_again", study, hub.address)
    assert again.returncode == 0, again.stderr
    offline = call("detector-bench run results/study.yaml --out offline", study, NOWHERE)
    assert offline.returncode == 0, offline.stderr
    assert verdicts(study.parent / "results_again") == verdicts(study.parent / "offline") == judged
    record = json.loads((study.parent / "offline" / "run.json").read_text())
    assert NAME in record["weights"]


@pytest.mark.slow
def test_what_the_hub_does_not_give_is_told_in_a_line(hub: HubServer, study: Path) -> None:
    def said(address: str = hub.address) -> str:
        failed = call("detector-bench run study.yaml --out results", study, address)
        assert failed.returncode != 0
        assert "Traceback" not in failed.stderr
        (line,) = failed.stderr.strip().splitlines()
        return line

    assert "the Hugging Face hub cannot be reached (" in said(NOWHERE)
    hub.refusal = (403, "GatedRepo")
    assert "is gated: accept its terms on the Hugging Face hub, then log in with `hf auth login`" in said()
    hub.refusal = (404, "RepoNotFound")
    assert "there is no model of this name on the Hugging Face hub, or a private one" in said()
    assert not lock_beside(study).exists()
    hub.refusal = None
    write_lock(lock_beside(study), {NAME: "e" * 40})
    assert f"revision {'e' * 40} is not on the Hugging Face hub any more; put a copy" in said()
    # In one line, too: the hub's own library writes two for each of its retries.
    assert f"checkpoint '{NAME}' at {'e' * 40}: " in said(NOWHERE)
    assert yaml.safe_load(lock_beside(study).read_text()) == {"revisions": {NAME: "e" * 40}}


@pytest.mark.slow
def test_labels_without_a_class_leave_out_that_detector_alone(hub: HubServer, study: Path) -> None:
    settings = json.loads(hub.files["config.json"])
    hub.files["config.json"] = json.dumps({**settings, "id2label": {"0": "woman", "1": "a cat"}}).encode()
    half = study.read_text().replace("{woman: female, man: male}", "{woman: female}")
    whole = "{name: right, kind: image_classifier, model: NAME, classes: {woman: female, a cat: male}}"
    study.write_text(f"{half}  - {whole.replace('NAME', NAME)}\n")
    done = call("detector-bench run study.yaml --out results", study, hub.address)
    assert done.returncode == 1
    assert f"image_classifier is left out: {NAME} has a label without a class of 'gender': 'a cat';" in done.stderr
    stored = (study.parent / "results" / "predictions").rglob("*.parquet")
    assert {path.parent.name for path in stored} == {"right"}


@pytest.mark.slow
def test_without_a_folder_to_write_to_the_lock_is_in_the_result_folder(hub: HubServer, study: Path) -> None:
    lock_beside(study).mkdir()  # nothing can be written under this name
    done = call("detector-bench run study.yaml --out results", study, hub.address)
    assert done.returncode == 0, done.stderr
    kept = lock_beside(study.parent / "results" / "study.yaml")
    assert yaml.safe_load(kept.read_text()) == {"revisions": {NAME: COMMIT}}
    hub.revision = "f" * 40
    again = call("detector-bench run study.yaml --out results", study, hub.address)
    assert again.returncode == 0, again.stderr
    assert yaml.safe_load(kept.read_text()) == {"revisions": {NAME: COMMIT}}


def test_a_result_folder_keeps_the_commits_that_its_study_names(study: Path) -> None:
    write_lock(lock_beside(study), {NAME: COMMIT, "someone/else": COMMIT})
    read = StudyConfiguration.from_yaml(study)
    read.write(study.parent / "results")
    kept = lock_beside(study.parent / "results" / "study.yaml")
    assert yaml.safe_load(kept.read_text()) == {"revisions": {NAME: COMMIT}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("revisions: {a/b: main}", "revisions.a/b: 'main' is no commit (accepted: 40 hexadecimal digits"),
        ("revisions: [a/b]", "a lock holds `revisions`, a mapping of names to commits, and nothing else"),
        ("a/b: 1", "a lock holds `revisions`"),
        ("{", "line 1"),
    ],
)
def test_a_damaged_lock_is_an_error_with_its_file(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "study.lock.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        RevisionLock([path]).known("a/b")
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)
