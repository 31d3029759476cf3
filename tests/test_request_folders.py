"""Requests that are written down for somebody else, and what is taken in of what they bring."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from detector_bench.errors import DataError
from detector_bench.generation.generation_order import GenerationOrder
from detector_bench.generation.image_files import checked
from detector_bench.generation.image_requests import Blocked, Failed, ImageRequest, Made, SeedPhoto, Waiting
from detector_bench.generation.making import ImageSetMaking
from detector_bench.generation.recipe import read_recipe
from detector_bench.generation.request_folders import RequestFolder
from detector_bench.generation.t2i_models import GenerationPlace, build_t2i_model
from detector_bench.weights import WeightsLocator

PROMPTS = ("a nurse", 'a "chief", smiling', "ein Bäcker")


def requests(photo: SeedPhoto | None = None) -> list[ImageRequest]:
    return [
        ImageRequest(f"theirs__p{at}__0000", f"p{at}", prompt, 0, 100 + at, photo)
        for at, prompt in enumerate(PROMPTS)
    ]


def loaded(folder: Path, asked: Sequence[ImageRequest] | None = None, **fields: Any) -> tuple[Any, list[str]]:
    """The requests, written down in a folder, and what the user was told."""
    model = build_t2i_model({"kind": "requests", "name": "theirs", **fields}, place="recipe")
    told: list[str] = []
    given = requests() if asked is None else asked
    place = GenerationPlace(
        weights=WeightsLocator(), folder=folder, requests=lambda: iter(given), report=told.append
    )
    return model.load(place), told


def outcomes(folder: Path, **fields: Any) -> list[Any]:
    found, _ = loaded(folder, **fields)
    return list(found.make(requests()))


def brought(folder: Path) -> Path:
    path = folder / "requests" / "theirs" / "images"
    path.mkdir(parents=True, exist_ok=True)
    return path


def picture(path: Path, colour: str = "red") -> bytes:
    content = io.BytesIO()
    kind = {".jpg": "JPEG", ".webp": "WEBP"}.get(path.suffix.lower(), "PNG")
    Image.new("RGB", (8, 8), colour).save(content, format=kind)
    path.write_bytes(content.getvalue())
    return content.getvalue()


def say(folder: Path, rows: Iterable[str], name: str = "answers.csv") -> None:
    (brought(folder).parent / name).write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_all_requests_are_written_down_in_two_forms(tmp_path: Path) -> None:
    _, told = loaded(tmp_path, width=512, negative_prompt="hats, caps")
    folder = tmp_path / "requests" / "theirs"
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()]
    with (folder / "requests.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [line["prompt"] for line in lines] == [row["prompt"] for row in rows] == list(PROMPTS)
    assert lines[1] == {
        "image_id": "theirs__p1__0000",
        "file": "theirs__p1__0000.png",
        "prompt_id": "p1",
        "number": 0,
        "prompt": PROMPTS[1],
        "seed": 101,
        "negative_prompt": "hats, caps",
        "width": 512,
    }
    assert {name: text for name, text in rows[1].items() if text} == {
        name: str(text) for name, text in lines[1].items()
    }
    read_me = (folder / "README.txt").read_text(encoding="utf-8")
    assert "Use `negative_prompt`, `width` as they stand there." in read_me
    assert "theirs__p0__0000,blocked,content policy" in read_me
    assert told == [
        f"{folder}: 3 requests written down, 0 of them have an image there; README.txt says what to do"
    ]
    assert outcomes(tmp_path) == [Waiting()] * 3


def test_images_are_taken_in_as_they_are_and_stay(tmp_path: Path) -> None:
    images = brought(tmp_path)
    contents = [
        picture(images / "theirs__p0__0000.png"),
        picture(images / "theirs__p1__0000.JPG"),
        picture(images / "theirs__p2__0000.webp"),
    ]
    say(
        tmp_path,
        [
            "image_id,status,revised_prompt,seconds,cost,model,version",
            'theirs__p1__0000,made,"a, b",2.5,0.04,mj,7',
        ],
    )
    found = outcomes(tmp_path, price=0.01)
    assert [each.content for each in found] == contents
    assert (found[1].revised_prompt, found[1].seconds, found[1].cost) == ("a, b", 2.5, 0.04)
    assert found[1].parameters == {"model": "mj", "version": "7"}
    assert (found[0].cost, dict(found[0].parameters)) == (0.01, {})
    assert sorted(path.name for path in images.iterdir()) == [
        "theirs__p0__0000.png",
        "theirs__p1__0000.JPG",
        "theirs__p2__0000.webp",
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_refusals_and_errors_are_what_was_said(tmp_path: Path, form: str) -> None:
    said = [
        {"image_id": "theirs__p0__0000", "status": "blocked", "reason": "content\npolicy", "cost": 0.02},
        {"image_id": "theirs__p1__0000", "status": "error", "reason": "the page hung"},
        {"image_id": "theirs__p2__0000", "status": "made"},
    ]
    if form == "csv":
        rows = [
            f'{each["image_id"]},{each["status"]},"{each.get("reason", "")}",{each.get("cost", "")}'
            for each in said
        ]
        say(tmp_path, ["image_id,status,reason,cost", *rows])
    else:
        say(tmp_path, [json.dumps(each) for each in said], "answers.jsonl")
    first, second, third = outcomes(tmp_path)
    assert first == Blocked(reason="content policy", seconds=first.seconds, cost=0.02)
    assert second == Failed(reason="the page hung", seconds=second.seconds)
    row = {"csv": 4, "jsonl": 3}[form]
    assert third.reason == f"answers.{form}, row {row}, says made, and there is no file of it"


def test_what_contradicts_itself_is_an_error_of_its_image(tmp_path: Path) -> None:
    images = brought(tmp_path)
    picture(images / "theirs__p0__0000.png")
    picture(images / "theirs__p0__0000.jpg")
    picture(images / "theirs__p1__0000.png")
    (images / "theirs__p2__0000.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    say(tmp_path, ["image_id,status", "theirs__p1__0000,blocked"])
    reasons = [checked(each, may_cost=False).reason for each in outcomes(tmp_path)]
    assert reasons[:2] == [
        "several files for one image: theirs__p0__0000.jpg, theirs__p0__0000.png",
        "answers.csv, row 2, says blocked, and there is images/theirs__p1__0000.png",
    ]
    assert reasons[2].startswith("what came is no image: ")


def test_files_that_nobody_asked_for_are_told(tmp_path: Path) -> None:
    images = brought(tmp_path)
    for name in ("nurse 1.png", "theirs__p0__0000.gif", ".DS_Store", "Thumbs.db"):
        (images / name).write_bytes(b"x")
    picture(images / "theirs__p1__0000.png")
    found, told = loaded(tmp_path)
    assert told[0] == (
        f"{images}: no request is called so: nurse 1.png, theirs__p0__0000.gif (accepted: the names under `file` "
        "in requests.csv)"
    )
    assert "3 requests written down, 1 of them have an image there" in told[1]
    assert [type(each) for each in found.make(requests())] == [Waiting, Made, Waiting]


def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    images = brought(tmp_path / "set")
    picture(tmp_path / "private.png")
    (images / "theirs__p0__0000.png").symlink_to(tmp_path / "private.png")
    (images / "theirs__p1__0000.png").mkdir()
    first, second, third = outcomes(tmp_path / "set")
    assert first.reason.startswith("outside_folder: images/theirs__p0__0000.png: ")
    assert second.reason == "not_a_file: images/theirs__p1__0000.png: it is no file"
    assert third == Waiting()


@pytest.mark.parametrize(
    ("rows", "name", "lines"),
    [
        (
            [
                "image_id,status,cost",
                "theirs__p0__0000,refused,1",
                "theirs__p9__0000,made,",
                "theirs__p1__0000,made,-1",
            ],
            "answers.csv",
            [
                "answers.csv, row 2, column status: unknown status: 'refused' (accepted: made, blocked, error)",
                "answers.csv, row 3, column image_id: no such request: 'theirs__p9__0000' (accepted: an ",
                "answers.csv, row 4, column cost: no number: '-1' (accepted: a number, 0 or above, or nothing)",
            ],
        ),
        (
            ["image_id,status", "theirs__p0__0000,made", "theirs__p0__0000,error"],
            "answers.csv",
            ["answers.csv, row 3, column image_id: a second answer for one image: 'theirs__p0__0000' (accepted: "],
        ),
        (["image_id,state", "x,made"], "answers.csv", ["column status"]),
        (
            ['{"image_id": "theirs__p0__0000", "status": "made", "reason": 5}', '{"image_id": }'],
            "answers.jsonl",
            [
                "answers.jsonl, row 2: Expecting value",
                "answers.jsonl, row 1, column reason: no text: '5' (accepted: a text)",
            ],
        ),
        (["[1]"], "answers.jsonl", ["answers.jsonl, row 1: no object: '[1]"]),
    ],
)
def test_mistakes_in_answers_name_file_row_and_column(
    tmp_path: Path, rows: list[str], name: str, lines: list[str]
) -> None:
    say(tmp_path, rows, name)
    with pytest.raises(DataError) as raised:
        loaded(tmp_path)
    told = [str(problem) for problem in raised.value.problems]
    assert len(told) == len(lines)
    assert all(line in each for line, each in zip(lines, told, strict=True))


def test_photos_to_edit_are_laid_beside_the_requests(tmp_path: Path) -> None:
    content = picture(tmp_path / "face.jpg")
    photo = SeedPhoto("seed__tom", tmp_path / "face.jpg", sha256(content).hexdigest())
    model = build_t2i_model({"kind": "requests", "name": "theirs", "edits_photos": True}, place="recipe")
    assert model.edits
    loaded(tmp_path, requests(photo), edits_photos=True)
    folder = tmp_path / "requests" / "theirs"
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["seed_photo"] for line in lines} == {"photos/seed__tom.jpg"}
    assert (folder / "photos" / "seed__tom.jpg").read_bytes() == content
    assert "Edit the photo that `seed_photo` names." in (folder / "README.txt").read_text(encoding="utf-8")


def test_names_are_no_longer_than_file_systems_take(tmp_path: Path) -> None:
    asked = [ImageRequest(f"theirs__{'ä' * 200}__000{n}", "p", "x", n, n) for n in (0, 1)]
    loaded(tmp_path, asked)
    with (tmp_path / "requests" / "theirs" / "requests.csv").open(encoding="utf-8", newline="") as file:
        names = [row["file"] for row in csv.DictReader(file)]
    contents = [
        picture(brought(tmp_path) / name, colour) for name, colour in zip(names, ("red", "blue"), strict=True)
    ]
    found, _ = loaded(tmp_path, asked)
    assert [each.content for each in found.make(asked)] == contents


def test_a_large_recipe_is_written_as_a_stream(tmp_path: Path) -> None:
    class Many(Sequence[ImageRequest]):
        def __len__(self) -> int:
            return 3_000

        def __getitem__(self, at: Any) -> Any:
            if at >= len(self):
                raise IndexError
            return ImageRequest(f"theirs__{at:06d}", "p", "a photo of a nurse, " * 100, at, at)

    tracemalloc.start()
    loaded(tmp_path, Many())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    written = (tmp_path / "requests" / "theirs" / "requests.jsonl").stat().st_size
    assert written > 5_000_000
    assert peak < written / 2


def test_what_somebody_pays_elsewhere_is_no_matter_of_budgets() -> None:
    model = RequestFolder(name="theirs", price=0.04)
    assert not model.costs_money


def test_a_recipe_takes_in_what_comes_in_several_rounds(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("category,word\nthings,nurse\nthings,judge\n")
    (tmp_path / "templates.csv").write_text("category,template\nthings,a photo of [word]\n")
    models = [{"name": "theirs", "kind": "requests", "model": "midjourney", "price": 0.04}]
    recipe = {"name": "small", "prompts": "words.csv", "images_per_prompt": 2, "models": models}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))

    def round_of() -> dict[str, str]:
        making = ImageSetMaking(read_recipe(tmp_path / "recipe.yaml"), tmp_path / "set", GenerationOrder())
        making.run(lambda _progress: None)
        rows = pd.read_parquet(tmp_path / "set" / "generations.parquet")
        return dict(zip(rows["image_id"], rows["status"], strict=True))

    first = round_of()
    assert set(first.values()) == {"waiting"}
    one, two, three, four = first
    images = brought(tmp_path / "set")
    content = picture(images / f"{one}.jpg")
    say(tmp_path / "set", ["image_id,status,reason", f"{two},blocked,policy", f"{three},error,timeout"])
    assert round_of() == {one: "made", two: "blocked", three: "error", four: "waiting"}
    picture(images / f"{four}.png", "blue")
    say(tmp_path / "set", ["image_id,status,reason", f"{two},blocked,policy"])
    picture(images / f"{three}.png", "green")
    assert round_of() == {one: "made", two: "blocked", three: "made", four: "made"}
    rows = pd.read_parquet(tmp_path / "set" / "generations.parquet").set_index("image_id")
    assert rows.loc[one, "image_sha256"] == sha256(content).hexdigest()
    assert (images / f"{one}.jpg").read_bytes() == content
    assert set(rows["model"]) == {"midjourney"}
