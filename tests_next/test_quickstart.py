"""Quickstart: an image set out of installed packages, and a study over it that anybody can run at once."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

import detector_bench_next as db
from detector_bench_next import quickstart
from detector_bench_next.dataset import ImageSet
from detector_bench_next.errors import MissingExtraError
from detector_bench_next.quickstart import build_image_set

pytest.importorskip("skimage", reason="the extra `quickstart` is not installed")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_image_set(tmp_path_factory.mktemp("quickstart") / "image_set")


def test_it_is_a_checked_image_set_of_36_small_pictures(built: Path) -> None:
    images = ImageSet.load(built, require_labels=True).images
    assert len(images) == 36
    for path in images["path"]:
        with Image.open(built / path) as picture:
            assert max(picture.size) <= 1024
            assert picture.mode == "RGB"


def test_the_same_packages_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    def contents(folder: Path) -> dict[str, str]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    (tmp_path / "again" / "images").mkdir(parents=True)
    (tmp_path / "again" / "images" / "large_hat_1.png").write_text("something else")
    assert contents(build_image_set(tmp_path / "again")) == contents(built)


def test_a_package_that_is_missing_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quickstart, "find_spec", lambda name: None if name == "skimage" else find_spec(name))
    with pytest.raises(
        MissingExtraError, match=r"'skimage' is not installed: pip install 'detector-bench\[quickstart\]'"
    ):
        build_image_set(tmp_path / "set")


@pytest.mark.slow
def test_the_example_of_its_help_gives_the_numbers_that_it_always_gave(tmp_path: Path) -> None:
    pytest.importorskip("dlib")
    results = db.quickstart(out=tmp_path / "first")
    rows = results.metrics.set_index(["detector", "metric", "t2i_model", "category", "prompt_id"])["value"]
    whole = rows.xs(("all", "all", "all"), level=("t2i_model", "category", "prompt_id"))
    found = {
        name: [whole[name, metric] for metric in ("images", "images_clear", "f1")]
        for name in ("largest-face", "single-face")
    }
    # Counts by hand, as the old package has them: 2 x right / (clear by people + clear to the detector).
    assert found == {
        "largest-face": [36, 22, pytest.approx(34 / 47)],
        "single-face": [36, 25, pytest.approx(44 / 50)],
    }
    named = db.run("quickstart", out=tmp_path / "second")
    assert named.metrics.equals(results.metrics)
