"""The guide `docs/add-a-t2i-model.md`, followed word by word, and T2I models of other packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from guides import Guide, block, command, entry_points, refused, write_files
from PIL import Image
from test_registry import install, python

from detector_bench.errors import ConfigError
from detector_bench.generation.image_requests import ImageRequest, Made
from detector_bench.generation.t2i_models import T2I_MODELS, GenerationPlace, LoadedT2IModel, build_t2i_model
from detector_bench.plugins import load_plugins
from detector_bench.weights import WeightsLocator

PAGE = "add-a-t2i-model.md"


@pytest.fixture(autouse=True)
def _own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(T2I_MODELS, "_entries", dict(T2I_MODELS._entries))


def test_both_classes_are_short() -> None:
    lines = block(PAGE, "file", "noise.py").partition("@t2i_model")[2].strip().splitlines()
    assert len([line for line in lines if line.strip()]) <= 25


def test_a_plugin_file_brings_a_t2i_model(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    load_plugins([tmp_path / "noise.py"])
    model = build_t2i_model({"kind": "noise", "name": "soft", "spread": 20, "width": 32, "height": 16}, place="r")
    loaded = model.load(GenerationPlace(weights=WeightsLocator(), folder=tmp_path))
    assert isinstance(loaded, LoadedT2IModel)
    requests = [ImageRequest(f"soft__{seed}", "p", "a nurse", seed, seed) for seed in (1, 1, 2)]
    pixels = []
    for outcome in loaded.make(requests):
        assert isinstance(outcome, Made)
        assert isinstance(outcome.content, Image.Image)
        assert outcome.content.size == (32, 16)
        pixels.append(np.asarray(outcome.content))
    assert np.array_equal(pixels[0], pixels[1])
    assert not np.array_equal(pixels[0], pixels[2])
    with pytest.raises(ConfigError, match="r: spred: unknown key 'spred': did you mean 'spread'"):
        build_t2i_model({"kind": "noise", "name": "soft", "spred": 20}, place="r")


def test_its_code_is_part_of_what_a_request_is(tmp_path: Path) -> None:
    """Whoever tries something out in a file of their own raises no version."""
    file = tmp_path / "noise.py"
    identities = []
    for spread in ("60.0", "61.0", "60.0"):
        file.write_text(block(PAGE, "file", "noise.py").replace("60.0", spread))
        load_plugins([file])
        identities.append(build_t2i_model({"kind": "noise", "name": "soft", "spread": 1}, place="r").identity())
    assert identities[0] == identities[2] != identities[1]


def test_an_unknown_kind_says_how_one_of_your_own_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown kind of T2I model 'nois': .*needs --plugin FILE.py"):
        build_t2i_model({"kind": "nois", "name": "soft"}, place="r")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("my_package.noise:Noise", "noise my_package.noise"),
        ("json:JSONDecoder", "is not a kind of T2I model: it lacks the decorator @t2i_model"),
        ("my_package.nois:Noise", "cannot be loaded from 'my_package.nois:Noise' (package my_package): ModuleNot"),
    ],
)
def test_a_package_brings_it_by_its_entry_point(tmp_path: Path, target: str, said: str) -> None:
    files = {"my_package/__init__.py": "", "my_package/noise.py": block(PAGE, "file", "noise.py")}
    declared = entry_points(PAGE).replace("my_package.noise:Noise", target)
    install(tmp_path, "my_package", files=files, entry_points=declared)
    done = python(
        tmp_path,
        """
        from detector_bench.errors import ConfigError
        from detector_bench.generation.t2i_models import T2I_MODELS, build_t2i_model

        assert set(T2I_MODELS) >= {"noise", "diffusers", "comfyui", "requests", "openai"}
        try:
            model = build_t2i_model({"kind": "noise", "name": "soft", "spread": 2.0}, place="r")
            print(model.kind, type(model).__module__)
        except ConfigError as error:
            print(error)
        """,
    )
    assert done.stderr == ""
    assert said in done.stdout


@pytest.mark.slow
def test_the_guide_ends_in_an_image_set(tmp_path: Path) -> None:
    guide = Guide(PAGE, tmp_path).follow()
    rows = pd.read_parquet(tmp_path / "set" / "generations.parquet")
    assert rows.groupby(["t2i_model", "prompt"]).size().to_dict() == {
        (model, f"a photo of a {word}"): 3 for model in ("hard", "soft") for word in ("judge", "nurse")
    }
    assert set(rows["status"]) == {"made"}
    assert '\'{"numpy": ' in guide.said["rows"]
    again = "detector-bench generate recipe.yaml --out set --plugin noise.py"
    assert "nothing to do" in command(again, tmp_path)
    recipe = (tmp_path / "recipe.yaml").read_text().replace("kind: noise", "kind: noise, steps: 30")
    (tmp_path / "wrong.yaml").write_text(recipe)
    line = "detector-bench generate wrong.yaml --out other --plugin noise.py"
    assert "steps: noise takes none; got 30 (accepted: no steps)" in refused(line, tmp_path)
    assert not (tmp_path / "other").exists()
    assert "unknown kind of T2I model 'noise'" in refused(
        "detector-bench generate recipe.yaml --out other", tmp_path
    )
