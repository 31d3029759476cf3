"""Twenty shapes in which people have images and labels: one command imports each, or names the one that would."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from detector_bench.cli.app import main
from detector_bench.dataset import ImageSet, check

SENTENCE = "a photo of one real person who is a nurse"
NAMES = ("sdxl__nurse__1.png", "sdxl__nurse__2.png", "sd3__taxi_driver__1.png", "sd3__taxi_driver__2.png")
PATTERN = "{t2i_model}__{word}__{number}.png"
IDS = ["sdxl__nurse__1", "sdxl__nurse__2", "sd3__taxi_driver__1", "sd3__taxi_driver__2"]


def picture(path: Path, number: int = 0, texts: Mapping[str, str] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    info = PngInfo()
    for name, text in (texts or {}).items():
        info.add_text(name, text)
    Image.new("RGB", (8, 8), (number % 256, 40, 0)).save(path, pnginfo=info)
    return path


def flat(folder: Path) -> Path:
    for number, name in enumerate(NAMES):
        picture(folder / "pics" / name, number)
    return folder / "pics"


def tree(folder: Path, names: tuple[str, ...] = ("nurse", "taxi_driver")) -> Path:
    for number, name in enumerate(names):
        for model in ("sdxl", "sd3"):
            picture(folder / "tree" / model / name / "1.png", number)
    return folder / "tree"


class Run(NamedTuple):
    status: int
    said: str
    errors: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    def called(*words: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["detector-bench", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return Run(int(stop.value.code or 0), said.out, said.err)

    return called


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def labels_of(image_set: ImageSet) -> list[list[str]]:
    return sorted(image_set.labels[["image_id", "annotator", "attribute", "label"]].to_numpy().tolist())


LONG = [("sdxl__nurse__1", "imported", "gender", "female"), ("sd3__taxi_driver__1", "imported", "gender", "male")]
FRAME = pd.DataFrame({"file_name": [NAMES[0], NAMES[2]], "label": ["female", "male"]})


def a_csv(folder: Path) -> Path:
    return write(folder / "labels.csv", FRAME.to_csv(index=False))


def a_semicolon_table_in_windows_letters(folder: Path) -> Path:
    text = "file_name;label;Bemerkung\n" + "".join(
        f"{name};{label};schön, größer, müde für Ärzte\n" for name, label in FRAME.to_numpy()
    )
    return write(folder / "labels.csv", text, "cp1252")


def a_tab_table_in_utf16(folder: Path) -> Path:
    return write(folder / "labels.txt", FRAME.to_csv(index=False, sep="\t"), "utf-16")


def a_table_with_excels_first_line(folder: Path) -> Path:
    return write(folder / "labels.csv", "sep=;\r\n" + FRAME.to_csv(index=False, sep=";", lineterminator="\r\n"))


def json_lines(folder: Path) -> Path:
    return write(folder / "labels.jsonl", FRAME.to_json(orient="records", lines=True))


def json_by_image(folder: Path) -> Path:
    return write(folder / "labels.json", json.dumps(dict(FRAME.to_numpy().tolist())))


def excel(folder: Path) -> Path:
    pytest.importorskip("openpyxl")
    FRAME.assign(label=FRAME["label"].str.title()).to_excel(folder / "labels.xlsx", index=False)
    return folder / "labels.xlsx"


def parquet(folder: Path) -> Path:
    FRAME.to_parquet(folder / "labels.parquet")
    return folder / "labels.parquet"


def foreign_heading(folder: Path) -> Path:
    return write(folder / "labels.csv", FRAME.rename(columns={"file_name": "Bild"}).to_csv(index=False))


def paths_of_another_machine(folder: Path) -> Path:
    table = FRAME.assign(file_name="C:\\Users\\kim\\pics\\" + FRAME["file_name"])
    return write(folder / "labels.csv", table.to_csv(index=False))


@pytest.mark.parametrize(
    "make",
    [
        a_csv,
        a_semicolon_table_in_windows_letters,
        a_tab_table_in_utf16,
        a_table_with_excels_first_line,
        json_lines,
        json_by_image,
        excel,
        parquet,
        foreign_heading,
        paths_of_another_machine,
    ],
)
def test_a_table_of_labels(make: Callable[[Path], Path], here: Path, call: Callable[..., Run]) -> None:
    done = call("import", flat(here), "set", "--pattern", PATTERN, "--labels", make(here))
    assert done.status == 0, done.errors
    image_set = ImageSet.load("set")
    assert sorted(image_set.images["image_id"]) == sorted(IDS)
    assert labels_of(image_set) == sorted(map(list, LONG))
    assert image_set.prompts[["word", "category"]].to_numpy().tolist() == [
        ["nurse", "profession"],
        ["taxi driver", "profession"],
    ]
    assert check("set").ok


def metadata_table(here: Path) -> list[object]:
    folder = flat(here)
    rows = [{"file_name": name, "model": name.split("__")[0], "text": SENTENCE} for name in NAMES]
    write(folder / "metadata.jsonl", "\n".join(map(json.dumps, rows)))
    return [folder]


def metadata_with_labels(here: Path) -> list[object]:
    folder = here / "hf"
    for number in range(4):
        picture(folder / "train" / f"{number}.png", number)
    table = pd.DataFrame({"file_name": [f"{number}.png" for number in range(4)], "prompt": SENTENCE})
    table.assign(gender=["male", "female", "", "male"]).to_csv(folder / "train" / "metadata.csv", index=False)
    return [folder, "--t2i-model", "sdxl"]


def script_of_diffusers(here: Path) -> list[object]:
    rows = [
        {"image": name, "prompt": SENTENCE, "seed": 5, "model_id": "stabilityai/sdxl", "guidance_scale": 7.5}
        for name in NAMES
    ]
    write(here / "run.json", json.dumps(rows))
    return [flat(here), "--metadata", here / "run.json"]


def parameters_of_automatic1111(here: Path) -> list[object]:
    text = (
        f"{SENTENCE}\nNegative prompt: blurry\nSteps: 20, Sampler: Euler a, Seed: 7, Size: 8x8, Model: sd_xl_base"
    )
    for number in range(4):
        picture(here / "a1111" / f"0000{number}-7.png", number, {"parameters": text})
    return [here / "a1111"]


def graph_of_comfyui(here: Path) -> list[object]:
    graph = {
        "3": {
            "class_type": "KSampler",
            "inputs": {"seed": 7, "positive": ["6", 0], "negative": ["7", 0], "model": ["4", 0]},
        },
        "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd_xl_base.safetensors"}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": ["9", 0], "clip": ["4", 1]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["4", 1]}},
        "9": {"class_type": "PrimitiveString", "inputs": {"value": SENTENCE}},
    }
    for number in range(4):
        texts = {"prompt": json.dumps(graph), "workflow": "{}"}
        picture(here / "comfy" / f"ComfyUI_0000{number}_.png", number, texts)
    return [here / "comfy"]


def comment_of_a_jpeg(here: Path) -> list[object]:
    (here / "jpeg").mkdir()
    for number in range(4):
        exif = Image.Exif()
        text = f"{SENTENCE}\nSteps: 20, Seed: {number}, Model: sd_xl_base"
        exif.get_ifd(0x8769)[0x9286] = b"UNICODE\0" + text.encode("utf-16-be")
        Image.new("RGB", (8, 8), (number, 0, 0)).save(here / "jpeg" / f"{number}.jpg", exif=exif)
    return [here / "jpeg"]


def folders_named_by_the_text(here: Path) -> list[object]:
    folder = here / "tree"
    for number, name in enumerate((SENTENCE, SENTENCE.replace(" ", "_"), SENTENCE.replace(" ", "-"), "Nurse")):
        picture(folder / f"model{number}" / name / "1.png", number)
    return [folder]


def folders_of_one_model(here: Path) -> list[object]:
    for number in range(4):
        picture(here / "renders" / "nurse" / f"{number}.png", number)
    return [here / "renders", "--t2i-model", "sdxl"]


def labels_beside_a_tree(here: Path) -> list[object]:
    for number in range(4):
        picture(here / "tree" / "sdxl" / "nurse" / f"{number}.png", number)
    rows = "".join(f"sdxl/nurse/{number}.png,male\n" for number in range(4))
    write(here / "tree" / "metadata.csv", f"file_name,gender\n{rows}")
    return [here / "tree"]


def notes_beside_a_tree(here: Path) -> list[object]:
    source = labels_beside_a_tree(here)
    write(here / "tree" / "metadata.csv", "steps,sampler\n20,euler\n")
    return source


def hugging_face_shards(here: Path) -> list[object]:
    content = io.BytesIO()
    Image.new("RGB", (8, 8)).save(content, "PNG")
    image = {"bytes": content.getvalue(), "path": "0.png"}
    rows = {"image": [image] * 4, "prompt": [SENTENCE] * 4, "model": ["sdxl"] * 4}
    (here / "hub" / "data").mkdir(parents=True)
    pq.write_table(pa.table(rows), here / "hub" / "data" / "train-00000-of-00001.parquet")
    return [here / "hub", "--column", "t2i_model=model"]


@pytest.mark.parametrize(
    "make",
    [
        metadata_table,
        metadata_with_labels,
        script_of_diffusers,
        parameters_of_automatic1111,
        graph_of_comfyui,
        comment_of_a_jpeg,
        folders_named_by_the_text,
        folders_of_one_model,
        labels_beside_a_tree,
        notes_beside_a_tree,
        hugging_face_shards,
    ],
)
def test_images_that_say_what_they_show(
    make: Callable[[Path], list[object]], here: Path, call: Callable[..., Run]
) -> None:
    source, *options = make(here)
    done = call("import", source, "set", *options)
    assert done.status == 0, done.errors
    image_set = ImageSet.load("set")
    assert len(image_set.images) == 4
    assert image_set.prompts.to_numpy().tolist() == [["nurse", "profession", "nurse", SENTENCE]]
    assert set(image_set.images["t2i_model"]) <= {
        *("sdxl", "sd3", "stabilityai/sdxl", "sd_xl_base", "model0", "model1", "model2", "model3")
    }
    assert check("set").ok
    if make is metadata_with_labels:
        assert [row[3] for row in labels_of(image_set)] == ["male", "female", "male"]
        assert "1 of 4 label cells are empty" in done.errors


WIDE = "file_name,sex,agegroup,race\n" + "".join(f"{name},Female,elderly,east-asian\n" for name in NAMES[:2])


def test_a_wide_table_of_several_attributes(here: Path, call: Callable[..., Run]) -> None:
    table = write(here / "wide.csv", WIDE)
    columns = ["--column", "gender=sex", "--column", "age=agegroup", "--column", "race=race"]
    done = call("import", flat(here), "set", "--pattern", PATTERN, "--labels", table, *columns)
    assert done.status == 0, done.errors
    assert labels_of(ImageSet.load("set")) == [
        [image, "imported", attribute, label]
        for image in IDS[:2]
        for attribute, label in (("age", "elderly"), ("gender", "female"), ("race", "east_asian"))
    ]


def test_attributes_by_annotator_are_recognised(here: Path, call: Callable[..., Run]) -> None:
    table = write(here / "w.tsv", f"image\tgender_rater1\tgender_rater2\tage\n{NAMES[0]}\tmale\tfemale\tyoung\n")
    done = call("import", flat(here), "set", "--pattern", PATTERN, "--labels", table)
    assert done.status == 0, done.errors
    assert labels_of(ImageSet.load("set")) == [
        [IDS[0], "imported", "age", "young"],
        [IDS[0], "rater1", "gender", "male"],
        [IDS[0], "rater2", "gender", "female"],
    ]


def proposed(done: Run) -> list[str]:
    """The command that a refusal names."""
    assert done.status == 1, done.said
    (line,) = re.findall(r"this command works: detector-bench (.+)", done.errors)
    return shlex.split(line)


def test_a_flat_folder_is_answered_with_the_pattern_that_fits(here: Path, call: Callable[..., Run]) -> None:
    flat(here)
    words = proposed(call("import", "pics", "set"))
    assert words == ["import", "pics", "set", "--pattern", PATTERN]
    assert not (here / "set").exists()
    assert call(*words).status == 0
    assert sorted(ImageSet.load("set").images["image_id"]) == sorted(IDS)


def test_folders_of_prompts_are_answered_with_a_t2i_model(here: Path, call: Callable[..., Run]) -> None:
    picture(here / "sdxl" / "nurse" / "1.png")
    words = proposed(call("import", "sdxl", "set"))
    assert words == ["import", "sdxl", "set", "--t2i-model", "sdxl"]
    assert call(*words).status == 0


def test_other_words_for_labels_are_answered_with_their_meaning(here: Path, call: Callable[..., Run]) -> None:
    flat(here)
    write(here / "l.csv", f"file;rater1;rater2\n{NAMES[0]};m;w\n{NAMES[1]};m;?\nother.png;m;m\n")
    words = proposed(call("import", "pics", "set", "--pattern", PATTERN, "--labels", "l.csv"))
    # Nobody knows what ? means: with an empty meaning such labels are left out, and counted.
    for option in ("m=male", "w=female", "?=", "--allow-unknown-images"):
        assert option in words
    done = call(*words)
    assert done.status == 0, done.errors
    assert labels_of(ImageSet.load("set")) == [
        [IDS[0], "rater1", "gender", "male"],
        [IDS[0], "rater2", "gender", "female"],
        [IDS[1], "rater1", "gender", "male"],
    ]
    assert "1 labels are left out: '?'" in done.errors
    assert "1 of 3 rows are about images that are not there, and left out" in done.errors


DISCUSSED = "image,rater1,rater2,after_discussion\n" + f"{NAMES[0]},male,female,female\n{NAMES[1]},male,male,\n"


@pytest.mark.slow
def test_a_column_that_may_be_no_annotator_is_asked_about(here: Path, call: Callable[..., Run]) -> None:
    write(here / "d.csv", DISCUSSED)
    flat(here)
    done = call("import", "pics", "set", "--pattern", PATTERN, "--labels", "d.csv")
    assert done.status == 1
    assert "is the column 'after_discussion' an annotator?" in done.errors
    assert len(done.errors.strip().splitlines()) == 1
    commands = [shlex.split(line) for line in re.findall(r"`detector-bench (.+?)`", done.errors)]
    people = [{"rater1", "rater2", "adjudicator"}, {"rater1", "rater2", "after_discussion"}, {"rater1", "rater2"}]
    for number, (words, expected) in enumerate(zip(commands, people, strict=True)):
        words[2] = f"set{number}"
        assert call(*words).status == 0
        image_set = ImageSet.load(f"set{number}")
        assert set(image_set.labels["annotator"]) == expected
    truth = ImageSet.load("set0").truth("gender").set_index("image_id")["label"]
    assert truth[IDS[0]] == "female"


def test_a_terminal_is_asked(here: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Run]) -> None:
    write(here / "d.csv", DISCUSSED)
    flat(here)
    monkeypatch.setattr("detector_bench.cli.import_console.at_a_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("3\n"))
    done = call("import", "pics", "set", "--pattern", PATTERN, "--labels", "d.csv")
    assert done.status == 0, done.errors
    assert set(ImageSet.load("set").labels["annotator"]) == {"rater1", "rater2"}


def test_a_preview_shows_all_and_writes_nothing(here: Path, call: Callable[..., Run]) -> None:
    flat(here)
    write(
        here / "l.csv", f"file;gender;age_value;age\n{NAMES[0]};male;34,5;middle_aged\n{NAMES[1]};;;\n", "cp1252"
    )
    done = call("import", "pics", "set", "--pattern", PATTERN, "--labels", "l.csv", "--preview")
    assert done.status == 0, done.errors
    shown = " ".join(done.said.split())
    for text in (
        "labels l.csv: text, separated by semicolon, utf-8; 2 rows",
        "column file: image_id",
        "column gender: labels of gender",
        "numbers with a decimal comma",
        "labels of gender: male 1; by imported 1",
        "images.csv (4 rows), prompts.csv (2 rows), labels.csv (2 rows); 4 image files copied",
    ):
        assert text in shown
    assert "2 of 2 prompts are known from 'lyu2025'" in done.errors
    assert "2 of 4 label cells are empty" in done.errors
    assert not (here / "set").exists()
    facts = json.loads(call("import", "pics", "set", "--pattern", PATTERN, "--preview", "--json").said)
    assert {"what": "images", "recognised": f"names {PATTERN}"}.items() <= facts["rows"][0].items()


def test_a_number_that_may_be_two_is_asked_about(here: Path, call: Callable[..., Run]) -> None:
    flat(here)
    write(here / "l.csv", f"file;label;value\n{NAMES[0]};young;1,234\n")
    words = ["import", "pics", "set", "--pattern", PATTERN, "--labels", "l.csv", "--attribute", "age"]
    done = call(*words)
    assert done.status == 1
    assert "is the comma in '1,234' the decimal sign?" in done.errors
    assert call(*words, "--decimal", ",").status == 0
    assert ImageSet.load("set").labels["value"].tolist() == ["1.234"]


@pytest.mark.parametrize(
    ("content", "suffix", "said"),
    [
        (b"\xd0\xcf\x11\xe0" + bytes(600), ".xls", "save it as .xlsx without a password, or as CSV"),
        (b"[1, 2]", ".json", "JSON without a table"),
        (b'{"a": 1}\n{"a": \n', ".jsonl", "row 2: no JSON"),
        (b"image;label\na;b;c\nd;e\n", ".csv", "row has 3 cells"),
        (b"PK\x03\x04 no zip", ".xlsx", "cannot be read as Excel"),
        (b"\x00\x01", ".parquet", "cannot be read as Parquet"),
        (b"colour,size\nred,1\n", ".csv", "no such column to read label from"),
    ],
)
def test_what_is_no_table_of_labels(
    content: bytes, suffix: str, said: str, here: Path, call: Callable[..., Run]
) -> None:
    (here / f"l{suffix}").write_bytes(content)
    done = call("import", flat(here), "set", "--pattern", PATTERN, "--labels", f"l{suffix}")
    assert done.status == 1
    assert said in done.errors
    assert "Traceback" not in done.errors
    assert not (here / "set").exists()


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("{t2i_model}_{wrd}.png", "unknown field {wrd}: did you mean 'word'"),
        ("{word}_{word}.png", "{word} stands there twice"),
        ("{t2i_model}_*.png", "names no prompt"),
        ("{word}__*.png", "names no T2I model"),
        ("{t2i_model}_{word}_{number.png", "has a brace without its partner"),
    ],
)
def test_a_pattern_that_is_none(pattern: str, said: str, here: Path, call: Callable[..., Run]) -> None:
    done = call("import", flat(here), "set", "--pattern", pattern)
    assert (done.status, said in done.errors) == (1, True), done.errors


def test_a_pattern_that_fits_twice_is_decided_by_known_words_or_refused(
    here: Path, call: Callable[..., Run]
) -> None:
    picture(here / "a" / "sd_3_taxi_driver_1.png")
    pattern = "{t2i_model}_{word}_{number}.png"
    assert call("import", "a", "set", "--pattern", pattern).status == 0
    assert ImageSet.load("set").images[["t2i_model", "prompt_id"]].to_numpy().tolist() == [["sd_3", "taxi_driver"]]
    picture(here / "b" / "sd_3_snow_queen_1.png")
    done = call("import", "b", "set2", "--pattern", pattern)
    assert done.status == 1
    assert "name that may mean t2i_model 'sd', word '3_snow_queen'" in done.errors


@pytest.mark.slow
def test_the_shared_portraits_as_a_wide_table(shared: Path, here: Path, call: Callable[..., Run]) -> None:
    source = shared / "data" / "t2i_portraits"
    labels = pd.read_csv(source / "labels.csv", dtype=str, keep_default_na=False)
    by_person = labels.query("attribute == 'gender'").groupby("annotator")
    wide = pd.DataFrame({who: rows.set_index("image_id")["label"] for who, rows in by_person})
    (wide.rename(columns="rater_{}".format).reset_index()).to_csv(here / "wide.csv", index=False, sep=";")
    done = call("import", source, "set", "--link", "--labels", "wide.csv")
    assert done.status == 0, done.errors
    image_set, original = ImageSet.load("set"), ImageSet.load(source)
    pd.testing.assert_frame_equal(image_set.images, original.images)
    assert image_set.truth("gender")["label"].equals(original.truth("gender")["label"])
    pd.testing.assert_frame_equal(image_set.prompts, original.prompts)
    # The images stay where they are, and both commands ask for the same word.
    assert (here / "set" / "images").is_dir()
    assert not check("set").ok


@pytest.mark.slow
def test_the_shared_scenes_are_an_image_set_and_come_whole(
    shared: Path, here: Path, call: Callable[..., Run]
) -> None:
    source = shared / "data" / "group_scenes"
    assert call("import", source, "set", "--hardlink").status in (0, 1)  # another file system has no hard links
    assert call("import", source, "set", "--overwrite").status == 0
    assert ImageSet.load("set").fingerprint() == ImageSet.load(source).fingerprint()


@pytest.mark.slow
def test_the_shared_annotations_are_images_at_addresses(
    shared: Path, here: Path, call: Callable[..., Run]
) -> None:
    """A long table of three crowd workers for each image is all there is; the images stay on their servers."""
    source = shared / "data" / "entigen" / "annotations.csv"
    words = proposed(call("import", source, "set"))
    assert sorted(words[4::2]) == ["cannot-tell?=low_quality", "other/none?="]
    assert call(*words).status == 0
    image_set, table = ImageSet.load("set"), pd.read_csv(source, dtype=str, keep_default_na=False)
    assert len(image_set.images) == table["image"].nunique() == 1152
    assert sorted(image_set.images["path"]) == sorted(set(table["image"]))
    assert len(image_set.prompts) == table["prompt"].nunique()
    expected = table["gender"].replace({"cannot-tell?": "low_quality", "other/none?": None}).value_counts()
    assert image_set.labels["label"].value_counts().to_dict() == expected.to_dict()


@pytest.mark.slow
def test_what_is_exported_in_the_form_of_hugging_face_comes_back(here: Path, call: Callable[..., Run]) -> None:
    write(here / "l.csv", WIDE.replace("sex", "gender").replace("agegroup", "age"))
    assert call("import", flat(here), "set", "--pattern", PATTERN, "--labels", "l.csv").status == 0
    before = ImageSet.load("set")
    shutil.copytree("set", "hub")
    (here / "hub" / "images.csv").unlink()
    images = before.images.merge(before.prompts, on="prompt_id", how="left").rename(columns={"path": "file_name"})
    for suffix, store in {
        "csv": lambda path: images.to_csv(path, index=False),
        "parquet": images.to_parquet,
        "jsonl": lambda path: images.to_json(path, orient="records", lines=True),
    }.items():
        (here / "hub" / f"metadata.{suffix}").unlink(missing_ok=True)
        store(here / "hub" / f"metadata.{suffix}")
        assert call("import", "hub", f"again_{suffix}").status == 0
        assert ImageSet.load(f"again_{suffix}").fingerprint() == before.fingerprint()
        assert check(f"again_{suffix}").ok
        (here / "hub" / f"metadata.{suffix}").unlink()


@pytest.mark.parametrize(
    ("labels", "taken"),
    [
        (("0", "1"), None),  # nobody knows which is which, and a command that leaves all of them out is no help
        (("männlich", "weiblich"), {"male": 2, "female": 2}),
        (("m", "?!"), {"male": 2}),
    ],
)
def test_a_proposed_command_keeps_labels(
    labels: tuple[str, str], taken: dict[str, int] | None, here: Path, call: Callable[..., Run]
) -> None:
    flat(here)
    rows = "".join(f"{name},{labels[number % 2]}\n" for number, name in enumerate(NAMES))
    write(here / "l.csv", "file,gender\n" + rows)
    run = call("import", "pics", "set", "--pattern", PATTERN, "--labels", "l.csv")
    assert "--value THEIRS=OURS maps others" in run.errors
    if taken is None:
        assert "this command" not in run.errors
        return
    assert call(*proposed(run)).status == 0
    assert ImageSet.load("set").labels["label"].value_counts().to_dict() == taken


def test_a_file_name_may_have_its_marks_apart(here: Path, call: Callable[..., Run]) -> None:
    picture(here / "tree" / "sdxl" / "nurse" / "\u00f6.png")
    write(here / "l.csv", "file,gender\no\u0308.png,male\n")
    assert call("import", "tree", "set", "--labels", "l.csv").status == 0
    assert ImageSet.load("set").labels["label"].tolist() == ["male"]


def test_a_stray_zero_byte_is_a_cell_with_its_row(here: Path, call: Callable[..., Run]) -> None:
    flat(here)
    write(here / "l.csv", f"file,gender\n{NAMES[0]},ma\0le\n")
    run = call("import", "pics", "set", "--pattern", PATTERN, "--labels", "l.csv")
    assert (run.status, "l.csv, row 2" in run.errors) == (1, True)


# Nothing vanishes in silence


def test_sheets_that_are_not_read_are_named(here: Path, call: Callable[..., Run]) -> None:
    pytest.importorskip("openpyxl")
    folder = flat(here)
    with pd.ExcelWriter(here / "labels.xlsx") as book:
        FRAME[:1].to_excel(book, sheet_name="ann", index=False)
        FRAME[1:].to_excel(book, sheet_name="ben", index=False)
        pd.DataFrame().to_excel(book, sheet_name="Sheet3", index=False)
    told = "labels.xlsx: sheet 'ann' is read, and not 'ben' (--excel-sheet NAME reads another)"
    done = call("import", folder, here / "set", "--pattern", PATTERN, "--labels", here / "labels.xlsx")
    assert (done.status, told in done.errors) == (0, True)
    more = ("--labels", here / "labels.xlsx", "--excel-sheet", "ben", "--add")
    done = call("import", here / "set", here / "set", *more)
    assert (done.status, "sheet" in done.errors) == (0, False)
    assert labels_of(ImageSet.load(here / "set")) == sorted(map(list, LONG))


def test_a_wide_table_keeps_its_values_and_reasons(here: Path, call: Callable[..., Run]) -> None:
    folder = flat(here)
    write(here / "a.csv", f"file;years;group\n{NAMES[0]};20,5;young\n{NAMES[1]};61;elderly\n")
    write(here / "g.csv", f"file,gender,reason,note\n{NAMES[0]},low_quality,no_person,x\n{NAMES[1]},male,,y\n")
    said = ("--column", "age=group", "--column", "value=years")
    assert (
        call("import", folder, here / "set", "--pattern", PATTERN, "--labels", here / "a.csv", *said).status == 0
    )
    done = call("import", here / "set", here / "set", "--labels", here / "g.csv", "--add", "--preview")
    assert "columns not used: note\n" in done.said
    assert call("import", here / "set", here / "set", "--labels", here / "g.csv", "--add").status == 0
    labels = ImageSet.load(here / "set").labels.set_index(["attribute", "image_id"])
    assert labels.loc["age"]["value"].astype(float).to_dict() == {IDS[0]: 20.5, IDS[1]: 61.0}
    assert labels.loc[("gender", IDS[0]), "reason"] == "no_person"


def test_a_value_that_belongs_to_no_column_of_labels_is_a_mistake(here: Path, call: Callable[..., Run]) -> None:
    folder = flat(here)
    write(here / "l.csv", f"file,gender,age,years\n{NAMES[0]},male,young,20\n")
    done = call(
        "import", folder, here / "set", "--pattern", PATTERN, "--labels", "l.csv", "--column", "value=years"
    )
    assert "value is years, and labels stand in gender, age; accepted: as many columns" in done.errors
    done = call("import", folder, here / "set", "--pattern", PATTERN, "--labels", here / "l.csv", "--preview")
    assert "columns not used: years\n" in done.said


def test_rows_that_repeat_an_image_and_models_that_look_alike_are_told(
    here: Path, call: Callable[..., Run]
) -> None:
    folder = flat(here)
    rows = [f"{NAMES[0]},sdxl,a nurse", f"{NAMES[1]},SDXL,a nurse", f"{NAMES[0]},sdxl,a nurse"]
    write(here / "made.csv", "\n".join(["file,model,prompt", *rows]))
    done = call("import", folder, here / "set", "--metadata", here / "made.csv")
    assert "made.csv: 3 rows are about 2 images" in done.errors
    assert "'SDXL', 'sdxl' are 2 T2I models, though only upper and lower case" in done.errors


def test_a_mistake_is_told_once_and_advice_is_none(here: Path, call: Callable[..., Run]) -> None:
    folder = flat(here)
    write(here / "made.csv", "\n".join(["file,prompt", *(f"{name},a nurse" for name in NAMES)]))
    done = call("import", folder, here / "set", "--metadata", here / "made.csv")
    assert done.errors.startswith(
        "error: 1 mistake in the data files:\n  made.csv, row 2: 4 images without a T2I model"
    )
    assert "images.csv" not in done.errors
    assert done.errors.splitlines()[-1].startswith("  this command works: detector-bench import")


def test_a_table_and_a_file_of_images_make_a_set_beside_them(here: Path, call: Callable[..., Run]) -> None:
    flat(here)
    picture(here / "unrelated.png")
    write(here / "made.csv", f"file,model,prompt\npics/{NAMES[0]},sdxl,a nurse\n")
    done = call("import", "made.csv", "set")
    assert (done.status, "left out" in done.errors) == (0, False)
    assert list(ImageSet.load(here / "set").images["path"]) == [f"images/pics/{NAMES[0]}"]
    shard = pa.table(
        {"image": [{"bytes": (here / "unrelated.png").read_bytes(), "path": "1.png"}], "prompt": ["a"]}
    )
    pq.write_table(shard, here / "train.parquet")
    assert call("import", "train.parquet", "other", "--t2i-model", "sdxl").status == 0
    assert not check(here / "other").problems
    assert call("import", ".", "inside", "--pattern", "{word}.png", "--t2i-model", "x").status == 1


def test_pictures_that_are_no_images_here_and_labels_inside_of_files_are_told(
    here: Path, call: Callable[..., Run]
) -> None:
    tree(here)
    (here / "tree" / "sdxl" / "nurse" / "2.HEIC").write_bytes(b"ftypheic")
    Image.new("RGB", (8, 8)).save(here / "tree" / "sdxl" / "nurse" / "3.jfif", format="JPEG")
    done = call("import", here / "tree", here / "set")
    assert "left out for their suffix: 1 .heic (images are .png, .jpg" in done.errors
    assert "sdxl__nurse__3" in ImageSet.load(here / "set").images["image_id"].tolist()
    content = {"bytes": picture(here / "one.png").read_bytes(), "path": "1.png"}
    rows = {"image": [content], "prompt": ["a"], "t2i_model": ["x"], "gender": ["male"], "note": ["n"]}
    pq.write_table(pa.table(rows), here / "train.parquet")
    done = call("import", here / "train.parquet", here / "other")
    assert (done.status, "train.parquet: not read as labels: gender; " in done.errors) == (0, True)


def test_a_prompt_is_one_whether_its_marks_are_apart_or_not(here: Path, call: Callable[..., Run]) -> None:
    for number, name in enumerate(("\u00c4rztin", "A\u0308rztin")):
        picture(here / "tree" / "sdxl" / name / f"{number}.png")
    assert call("import", here / "tree", here / "set").status == 0
    image_set = ImageSet.load(here / "set")
    assert (len(image_set.images), len(image_set.prompts)) == (2, 1)
    assert not check(here / "set").problems


def test_years_become_labels_only_where_somebody_says_that_they_are_years(
    here: Path, call: Callable[..., Run]
) -> None:
    folder = flat(here)
    rows = (f"{NAMES[0]};29,5;male", f"{NAMES[1]};30;female", f"{NAMES[2]};;male")
    write(here / "ages.csv", "\n".join(["file;age;gender", *rows]))
    named = ("import", folder, here / "set", "--pattern", PATTERN, "--labels", here / "ages.csv")
    done = call(*named)
    assert (
        done.status,
        "if these are years, --column age=age --column value=age makes labels" in done.errors,
    ) == (
        1,
        True,
    )
    done = call(*named, "--column", "age=age", "--column", "value=age")
    assert "column age: 2 labels of age follow from the years: young from 0, middle_aged from 30, " in done.errors
    labels = ImageSet.load(here / "set").labels[["image_id", "label", "value"]].to_numpy().tolist()
    assert [[name, label, float(value)] for name, label, value in labels] == [
        [IDS[0], "young", 29.5],
        [IDS[1], "middle_aged", 30.0],
    ]
