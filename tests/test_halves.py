"""Pictures of two people are cut into halves that show one person each, and whatever does not is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy import ndimage
from small_parts import write_csv

from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import decode_image
from detector_bench.errors import ConfigError, DataError
from detector_bench.generation.halved_set import HalvesSettings, HalvesSummary, halve_image_set
from detector_bench.generation.halves import JOURNAL_FILE, HalfVerdict
from detector_bench.generation.people import on_each_side, where_to_cut
from detector_bench.generation.scenes import SCENES_FILE, prompt_table_of_scenes, scenes_table
from detector_bench.perception.boxes import boxes
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.prompt_lists import Prompt, PromptList
from detector_bench.vocabulary.generations import GENERATIONS
from detector_bench.weights import WeightsLocator

LOOKED_AT: list[int] = []


class RedPeople(Stage):
    """Everybody is a red rectangle."""

    kind: ClassVar[str] = "test_red_people"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def find(frames: Sequence[Frame]) -> list[Arrays]:
            LOOKED_AT.append(len(frames))
            return [self._boxes(frame.pixels) for frame in frames]

        return find

    def _boxes(self, pixels: np.ndarray[Any, Any]) -> Arrays:
        found = ndimage.find_objects(ndimage.label(pixels[..., 0] > 200)[0])
        return boxes([[x.start, y.start, x.stop, y.stop] for y, x in found], np.ones(len(found)))


PROMPTS = PromptList.of(
    "list",
    [
        Prompt("relation", "A at left", "A at left with B at right", stated={"gender": "male"}, weight=1),
        Prompt("relation", "B at right", "A at left with B at right", stated={"gender": "female"}, weight=1),
        Prompt("job", "cook", "a cook", stated={"gender": ""}, weight=1),
    ],
)
PICTURES: Mapping[str, Sequence[tuple[int, int]]] = {
    "apart": [(10, 20), (60, 70)],
    "aside": [(10, 20), (30, 40)],
    "close": [(20, 48), (52, 90)],
    "cut": [(20, 40), (45, 90)],
    "alone": [(10, 20)],
    "three": [(10, 20), (60, 70), (80, 90)],
    "bystander": [(10, 30), (60, 80), (40, 43)],
}
"""Where people stand, in columns of 100."""


def write_set(folder: Path) -> Path:
    (folder / "images").mkdir(parents=True)
    for name, people in PICTURES.items():
        pixels = np.zeros((40, 100, 3), np.uint8)
        for left, right in people:
            pixels[5 : 5 + 2 * (right - left) if right - left < 5 else 35, left:right, 0] = 255
        Image.fromarray(pixels).save(folder / "images" / f"{name}.png")
    (folder / "images" / "broken.png").write_bytes(b"no picture")
    Image.new("RGB", (8, 8)).save(folder / "images" / "cook.png")
    scenes = [(name, f"images/{name}.png", "sdxl", "a_with_b") for name in (*PICTURES, "broken")]
    header = ("image_id", "path", "t2i_model", "prompt_id")
    write_csv(folder / "images.csv", header, [*scenes, ("cook", "images/cook.png", "sdxl", "cook")])
    (folder / "prompts.csv").write_text(prompt_table_of_scenes(PROMPTS).to_csv(index=False))
    (folder / SCENES_FILE).write_text(scenes_table(PROMPTS).to_csv(index=False))
    return folder


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    return write_set(tmp_path / "set")


Halve = Callable[..., HalvesSummary]


@pytest.fixture
def halve(image_set: Path, tmp_path: Path) -> Halve:
    def run(out: str = "halves", progress: Callable[[int, int], None] = lambda *_: None, **settings: Any) -> Any:
        chosen = HalvesSettings(people=RedPeople(), **settings)
        return halve_image_set(image_set, tmp_path / out, chosen, weights=WeightsLocator(), progress=progress)

    return run


def listed(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "halves.csv", dtype="str", keep_default_na=False).set_index("image_id")


def test_every_half_has_a_verdict_and_those_with_one_person_are_the_set(
    halve: Halve, image_set: Path, tmp_path: Path
) -> None:
    done = halve()
    found = listed(tmp_path / "halves")
    assert found.groupby("scene_image_id", sort=False)["verdict"].agg(list).to_dict() == {
        "apart": ["one_person"] * 2,
        "aside": ["one_person"] * 2,
        "close": ["one_person"] * 2,
        "cut": ["one_person"] * 2,
        "alone": ["one_person", "nobody"],
        "three": ["one_person", "several_people"],
        "bystander": ["one_person"] * 2,
        "broken": ["error"] * 2,
    }
    assert found.loc[["apart__left", "aside__left", "cut__left"], ["cut_at", "cut"]].to_numpy().tolist() == [
        ["50", "middle"],
        ["25", "between"],
        ["42", "between"],
    ]
    assert found.loc["broken__left", "reason"].startswith("not_an_image: ")
    made = ImageSet.load(tmp_path / "halves", check_files=True)
    kept = found.index[found["in_set"] == "yes"]
    assert list(made.images["image_id"]) == ["cook", *kept]
    assert set(found.loc[kept, "verdict"]) == {"one_person"}
    assert made.images.set_index("image_id").loc["apart__right", "prompt_id"] == "b_at_right"
    stated, weights = made.stated("gender"), made.prompt_weights
    assert stated is not None
    assert weights is not None
    assert stated.to_dict() == {"cook": "", "a_at_left": "male", "b_at_right": "female"}
    assert (done.pictures, done.carried, done.images, done.between) == (8, 1, len(kept) + 1, 2)
    # The two halves are the picture, to the pixel.
    whole = decode_image((image_set / "images" / "aside.png").read_bytes())
    places = made.images.set_index("image_id")["path"]
    halves = [decode_image((made.root / places[f"aside__{side}"]).read_bytes()) for side in ("left", "right")]
    assert np.array_equal(np.concatenate(halves, axis=1), whole)


def test_all_can_be_kept_and_the_middle_forced(halve: Halve, tmp_path: Path) -> None:
    done = halve(keep_all=True, rule="middle")
    found = listed(tmp_path / "halves")
    assert set(found["cut"]) == {"middle", ""}
    # A cut through somebody shows them on both sides.
    assert found.loc[["cut__left", "cut__right"], "verdict"].tolist() == ["several_people", "one_person"]
    assert found.loc[found["verdict"] != "error", "in_set"].unique().tolist() == ["yes"]
    assert done.images == 1 + 2 * len(PICTURES)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_an_interrupted_run_goes_on_and_ends_the_same(halve: Halve, image_set: Path, tmp_path: Path) -> None:
    halve("whole")

    def stop(number: int, _: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        halve(progress=stop)
    journal = tmp_path / "halves" / JOURNAL_FILE
    # As a crash leaves it: half a line at the end.
    journal.write_bytes(journal.read_bytes() + b'{"image')
    assert not (tmp_path / "halves" / "images.csv").exists()
    left_over = tmp_path / "halves" / "halves" / ".x.png.1.tmp"
    left_over.write_bytes(b"half a file")
    halve()
    assert not left_over.exists()
    assert files_of(tmp_path / "halves") == files_of(tmp_path / "whole")
    LOOKED_AT.clear()
    halve()
    assert LOOKED_AT == []
    # A picture that is another one now is cut again.
    (image_set / "images" / "alone.png").write_bytes((image_set / "images" / "apart.png").read_bytes())
    halve()
    assert len(LOOKED_AT) == 3
    assert listed(tmp_path / "halves").loc["alone__right", "verdict"] == "one_person"
    with pytest.raises(ConfigError, match="its halves were cut by other settings"):
        halve(smallest=0.5)


def request(image_id: str, status: str, **more: Any) -> dict[str, Any]:
    made = dict.fromkeys(GENERATIONS.names) | {
        "image_id": image_id,
        "t2i_model": "sdxl",
        "prompt_id": "a_with_b",
        "number": 0,
        "seed": 1,
        "status": status,
        "prompt": "A with B",
        "parameters": "{}",
        "cost": 0.5,
        "may_have_been_paid": False,
        "request_sha256": image_id,
        "in_recipe": True,
    }
    return made | more


def test_requests_for_two_are_a_request_for_each(halve: Halve, image_set: Path, tmp_path: Path) -> None:
    rows = [
        request("apart", "made", image_sha256="1"),
        request("alone", "made", image_sha256="2"),
        request("never", "blocked", reason="moderation_blocked"),
        request("cook", "made", prompt_id="cook", image_sha256="3"),
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=GENERATIONS), image_set / "generations.parquet")
    halve()
    table = pq.read_table(tmp_path / "halves" / "generations.parquet")
    assert table.schema == GENERATIONS
    found = table.to_pandas().set_index("image_id")
    assert found["status"].to_dict() == {
        "cook": "made",
        "apart__left": "made",
        "apart__right": "made",
        "alone__left": "made",
        "alone__right": "error",
        "never__left": "blocked",
        "never__right": "blocked",
    }
    assert found.loc["alone__right", "reason"] == "half_nobody"
    assert found.loc["never__right", ["prompt_id", "reason"]].tolist() == ["b_at_right", "moderation_blocked"]
    assert found["cost"].sum() == 4 * 0.5
    assert found.loc["cook", "image_sha256"] == "3"
    assert len(found.loc["apart__left", "image_sha256"]) == 64


def test_labels_of_whole_pictures_are_left_out(halve: Halve, image_set: Path, tmp_path: Path) -> None:
    header = ("image_id", "annotator", "attribute", "label", "reason")
    rows = [(name, "ann", "gender", "male", "") for name in ("cook", "apart")]
    write_csv(image_set / "labels.csv", header, rows)
    assert halve().labels_left == 1
    assert ImageSet.load(tmp_path / "halves").labels["image_id"].tolist() == ["cook"]


def test_mistakes(halve: Halve, image_set: Path, tmp_path: Path) -> None:
    scenes = image_set / SCENES_FILE
    right = scenes.read_text()
    scenes.write_text(right.replace("right,b_at_right", "middle,b_at_right"))
    with pytest.raises(DataError, match=re.escape("scenes.csv, row 3, column side: unknown side")):
        halve()
    scenes.write_text(right.replace("b_at_right", "cook", 1))
    with pytest.raises(
        DataError, match=re.escape("scenes.csv, row 3, column prompt_id: empty, or an id that another prompt")
    ):
        halve()
    scenes.write_text("\n".join(right.splitlines()[:2]))
    with pytest.raises(
        DataError, match=re.escape("scenes.csv, column scene_prompt_id: a scene with one side: 'a_with_b'")
    ):
        halve()
    scenes.unlink()
    with pytest.raises(ConfigError, match=re.escape("scenes.csv: the file is missing")):
        halve()
    scenes.write_text(right)
    with pytest.raises(ConfigError, match="is the image set itself"):
        halve("set")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else"):
        halve("mine")


@pytest.mark.parametrize(
    ("people", "cut", "sides"),
    [
        ([(0, 40), (60, 100)], (50, "middle"), (1, 1)),
        ([(0, 52), (54, 100)], (50, "middle"), (1, 1)),
        ([(0, 60), (62, 100)], (61, "between"), (1, 1)),
        ([(0, 60), (50, 100)], (55, "between"), (1, 1)),
        ([(0, 70), (40, 100)], (55, "between"), (2, 2)),
        ([(40, 60)], (50, "middle"), (1, 1)),
        ([], (50, "middle"), (0, 0)),
    ],
)
def test_where_to_cut(people: list[tuple[int, int]], cut: tuple[int, str], sides: tuple[int, int]) -> None:
    corners = np.array([[left, 0, right, 10] for left, right in people], dtype=np.float64).reshape(-1, 4)
    found = where_to_cut(100, corners, rule="between")
    assert tuple(found) == cut
    assert on_each_side(corners, found.at) == sides


@pytest.mark.slow
def test_real_faces(shared: Path, tmp_path: Path) -> None:
    """Portraits side by side; a group; a portrait beside nothing."""
    portraits = sorted((shared / "data" / "t2i_portraits" / "images").iterdir())[:12]
    group = next((shared / "data" / "group_scenes" / "images").iterdir())
    folder = write_set(tmp_path / "set")
    rows = []
    for number, (left, right) in enumerate(zip(portraits[::2], portraits[1::2], strict=True)):
        beside = [np.asarray(Image.open(each).convert("RGB").resize((256, 256))) for each in (left, right)]
        rows.append((f"two{number}", np.hstack(beside)))
    rows.append(("one", np.hstack([rows[0][1][:, :256], np.zeros_like(rows[0][1][:, :256])])))
    rows.append(("group", np.asarray(Image.open(group).convert("RGB"))))
    for name, pixels in rows:
        Image.fromarray(pixels).save(folder / "images" / f"{name}.png")
    header = ("image_id", "path", "t2i_model", "prompt_id")
    write_csv(folder / "images.csv", header, [(name, f"images/{name}.png", "m", "a_with_b") for name, _ in rows])
    settings = HalvesSettings(people=YuNetFaces())
    weights = WeightsLocator(folders=(shared / "weights",), allow_download=False)
    done = halve_image_set(folder, tmp_path / "halves", settings, weights=weights)
    verdicts = listed(tmp_path / "halves")["verdict"]
    assert verdicts[["one__left", "one__right"]].tolist() == ["one_person", "nobody"]
    assert set(verdicts[["group__left", "group__right"]]) == {"several_people"}
    assert done.verdicts[HalfVerdict.ONE_PERSON] >= 12
    lines = (tmp_path / "halves" / JOURNAL_FILE).read_text().splitlines()
    assert json.loads(lines[0])["settings"].startswith("yunet_faces ")
