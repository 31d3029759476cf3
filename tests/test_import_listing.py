"""Image sets of images that stay in tar files, Parquet files and buckets."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_server import serving_files
from PIL import Image
from test_image_sources import write_tar

from detector_bench.dataset import ImageSet, check
from detector_bench.dataset.decoding import decode_image
from detector_bench.dataset.image_listing import is_listed_place
from detector_bench.dataset.import_listing import import_listed
from detector_bench.errors import ConfigError, DataError

LONG_PROMPT = "a photograph of a nurse, who looks into the camera, in the light of a late afternoon in autumn"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_IMAGE_CACHE", str(tmp_path / "kept"))


def picture(number: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((8, 6, 3), number, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def shade(image_set: ImageSet, number: int) -> int:
    return int(decode_image(image_set.sources.read(image_set.images["path"].iloc[number]))[0, 0, 0])


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """A data set as the Hugging Face Hub has them: Parquet files with images as structs."""
    folder = tmp_path / "downloaded" / "data"
    folder.mkdir(parents=True)
    for part in range(2):
        rows = range(part * 4, part * 4 + 4)
        table = pa.table(
            {
                "image": [{"bytes": picture(row), "path": f"{row}.png"} for row in rows],
                "model": ["sdxl" if row % 2 else "flux" for row in rows],
                "caption": [LONG_PROMPT if row < 3 else "a doctor" for row in rows],
            }
        )
        pq.write_table(table, folder / f"train-0000{part}-of-00002.parquet")
    return folder.parent


COLUMNS = {"t2i_model": "model", "prompt": "caption"}


def test_a_data_set_of_parquet_files_becomes_an_image_set(downloaded: Path, tmp_path: Path) -> None:
    made = import_listed(str(downloaded), tmp_path / "set", mapping=COLUMNS)
    assert list(made.images["path"][:2]) == [
        "images/data/train-00000-of-00002.parquet#0",
        "images/data/train-00000-of-00002.parquet#1",
    ]
    assert [shade(made, number) for number in range(8)] == list(range(8))
    assert made.images["t2i_model"].tolist() == ["flux", "sdxl"] * 4
    assert sorted(made.prompts["prompt"]) == ["a doctor", LONG_PROMPT]
    assert made.images["image_id"].str.len().max() < 150
    report = check(made.root)
    assert (report.problems, report.n_image_files) == ((), 8)


def test_files_that_lie_in_the_image_set_stay_there(downloaded: Path) -> None:
    made = import_listed(str(downloaded), downloaded, mapping=COLUMNS)
    assert made.images["path"].iloc[0] == "data/train-00000-of-00002.parquet#0"
    assert sorted(path.name for path in downloaded.iterdir()) == ["data", "images.csv", "prompts.csv"]


def test_labels_and_prompts_come_along(downloaded: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("file,sex\ndata/train-00001-of-00002.parquet#3,f\n")
    (tmp_path / "prompts.csv").write_text(
        f'prompt_id,category,word,prompt\nn,job,nurse,"{LONG_PROMPT}"\nd,job,d,a doctor\n'
    )
    made = import_listed(
        str(downloaded),
        tmp_path / "set",
        mapping=COLUMNS | {"image_id": "file", "label": "sex"},
        values={"f": "female"},
        labels=tmp_path / "labels.csv",
        prompts=tmp_path / "prompts.csv",
    )
    assert made.labels["image_id"].tolist() == [made.images["image_id"].iloc[7]]
    assert sorted(made.images["prompt_id"].unique()) == ["d", "n"]


def test_what_the_columns_lack_is_said(downloaded: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"4 images without a T2I model \(accepted: --column t2i_model=THEIRS"):
        import_listed(str(downloaded), tmp_path / "set", mapping={"prompt": "caption"})
    assert not (tmp_path / "set").exists()
    made = import_listed(str(downloaded), tmp_path / "set", mapping={"prompt": "caption"}, t2i_model="dalle")
    assert set(made.images["t2i_model"]) == {"dalle"}
    with pytest.raises(DataError, match=r"no column of images \(accepted: --column path=NAME with one of: image"):
        import_listed(str(downloaded), tmp_path / "other", mapping=COLUMNS | {"path": "caption"})
    with pytest.raises(ConfigError, match="unknown column 'picture'"):
        import_listed(str(downloaded), tmp_path / "other", mapping={"picture": "image"})


def test_a_tar_file_is_a_tree_or_holds_samples(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    write_tar(folder / "tree.tar", {f"sdxl/nurse/{number}.png": picture(number) for number in range(3)})
    made = import_listed(str(folder / "tree.tar"), tmp_path / "tree")
    assert made.images["image_id"].tolist() == [f"sdxl__nurse__{number}" for number in range(3)]
    assert [shade(made, number) for number in range(3)] == [0, 1, 2]
    samples: dict[str, bytes] = {}
    for number in range(3):
        samples[f"{number:03d}.png"] = picture(number)
        samples[f"{number:03d}.json"] = json.dumps({"generator": "flux", "prompt": "a nurse"}).encode()
    (folder / "tree.tar").unlink()
    write_tar(folder / "000.tar", samples)
    made = import_listed(str(folder), tmp_path, mapping={"t2i_model": "generator"})
    assert made.images["path"].tolist() == [f"shards/000.tar#{number:03d}.png" for number in range(3)]
    assert [shade(made, number) for number in range(3)] == [0, 1, 2]
    assert made.prompts["prompt"].tolist() == ["a nurse"]


def test_a_file_on_a_web_server_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    write_tar(tmp_path / "a.tar", {f"sdxl/nurse/{number}.png": picture(number) for number in range(3)})
    with serving_files() as server:
        server.files["/a.tar"] = (tmp_path / "a.tar").read_bytes()
        made = import_listed(f"{server.address}/a.tar", tmp_path / "set")
        assert made.images["path"].iloc[1] == f"{server.address}/a.tar#sdxl/nurse/1.png"
        assert [shade(made, number) for number in range(3)] == [0, 1, 2]
        with pytest.raises(DataError, match="a web server lists no folders"):
            import_listed(f"{server.address}/images", tmp_path / "other")


def test_a_folder_tree_is_no_listed_place(tmp_path: Path, downloaded: Path) -> None:
    (tmp_path / "tree" / "sdxl" / "nurse").mkdir(parents=True)
    (tmp_path / "tree" / "sdxl" / "nurse" / "1.png").write_bytes(picture(1))
    (tmp_path / "tree" / "labels.parquet").write_bytes(b"")
    assert not is_listed_place(str(tmp_path / "tree"))
    assert not is_listed_place(str(tmp_path / "nowhere"))
    assert is_listed_place(str(downloaded))
    assert is_listed_place("s3://bucket/renders")
