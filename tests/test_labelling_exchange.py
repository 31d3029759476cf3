"""Labels out of the store and into it, as `labels.csv` and as Label Studio's JSON."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labelling_sets import numbered, saying, write_image_set
from package_environments import environment_of

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DataError
from detector_bench.labelling import Answer, Choice, DeskSettings, LabelStore
from detector_bench.labelling.label_studio import label_studio_tasks, labelling_config
from detector_bench.labelling.label_studio_reading import LabelStudioImport, import_label_studio
from detector_bench.labelling.labels_csv import import_labels_csv, labels_csv

IDS = ["i000", "i001", "i002", "i003", "i004", "i005"]


@pytest.fixture
def image_set(tmp_path: Path) -> ImageSet:
    return write_image_set(tmp_path / "set", IDS)


def made(path: Path, image_set: ImageSet, *attributes: str, task: str = "images") -> LabelStore:
    return LabelStore.open(path, image_set, settings=DeskSettings.checked(task=task, attributes=attributes))


@pytest.fixture
def store(image_set: ImageSet, tmp_path: Path) -> Iterator[LabelStore]:
    """Two annotators, all sorts of labels, a decision and one that was left unresolved."""
    with made(tmp_path / "s.sqlite", image_set, "gender", "age") as opened:
        ann: dict[str, dict[str, Choice]] = {
            "i000": {"gender": Choice("male"), "age": Choice("elderly", value=70.5)},
            "i001": {"gender": Choice("low_quality", reason="several_people")},
            "i002": {"gender": Choice("others", note='non-binary, "as the sign says"\nsecond line')},
            "i003": {"gender": Choice("female", note="a <b>hat</b>")},
            "i004": {"gender": Choice("male")},
        }
        for item, answers in ann.items():
            opened.record("ann", Answer(f"a-{item}", item, answers, milliseconds=1234))
        opened.record("Zoë@example.org", saying("i003", "male"))
        opened.record("Zoë@example.org", saying("i004", "female"))
        opened.record("Zoë@example.org", Answer("skip", "i005", skipped=True))
        opened.adjudicate("i003", "gender", Choice("female"), answer_id="d1")
        opened.adjudicate("i004", "gender", None, answer_id="d2")
        yield opened


LABELS_CSV = """\
image_id,annotator,attribute,label,reason,value
i003,Zoë@example.org,gender,male,,
i004,Zoë@example.org,gender,female,,
i003,adjudicator,gender,female,,
i000,ann,gender,male,,
i000,ann,age,elderly,,70.5
i001,ann,gender,low_quality,several_people,
i002,ann,gender,others,"non-binary, ""as the sign says""
second line",
i003,ann,gender,female,,
i004,ann,gender,male,,
"""


class TestLabelsCsv:
    def test_export(self, store: LabelStore) -> None:
        assert labels_csv(store) == LABELS_CSV

    def test_an_image_set_reads_it(self, store: LabelStore) -> None:
        root = store.image_set.root
        (root / "labels.csv").write_text(labels_csv(store), encoding="utf-8", newline="")
        truth = ImageSet.load(root, require_labels=False).truth("gender").set_index("image_id")
        assert truth["label"].dropna().to_dict() == {
            "i000": "male",
            "i001": "low_quality",
            "i002": "others",
            "i003": "female",
            "i004": "low_quality",
        }
        assert truth.loc["i004", "reason"] == "disagreement"

    def test_import_gives_the_same_labels_and_is_idempotent(self, store: LabelStore, tmp_path: Path) -> None:
        (tmp_path / "labels.csv").write_text(LABELS_CSV, encoding="utf-8", newline="")
        with made(tmp_path / "new.sqlite", store.image_set, "gender", "age") as new:
            imported = import_labels_csv(new, tmp_path / "labels.csv")
            assert (imported.stored, imported.known, imported.left_out) == (9, 0, 0)
            assert labels_csv(new) == LABELS_CSV
            version = new.version()
            again = import_labels_csv(new, tmp_path / "labels.csv")
            assert (again.stored, again.known) == (0, 9)
            assert new.version() == version

    def test_attributes_that_are_not_asked_are_left_out_and_counted(
        self, image_set: ImageSet, tmp_path: Path
    ) -> None:
        (tmp_path / "labels.csv").write_text(LABELS_CSV, encoding="utf-8", newline="")
        with made(tmp_path / "new.sqlite", image_set, "age") as new:
            assert import_labels_csv(new, tmp_path / "labels.csv").left_out == 8
        with (
            made(tmp_path / "race.sqlite", image_set, "race") as new,
            pytest.raises(ConfigError, match=r"no label of what this store asks for \(race\)"),
        ):
            import_labels_csv(new, tmp_path / "labels.csv")

    def test_a_label_that_contradicts_the_store_is_a_mistake_unless_told(
        self, store: LabelStore, tmp_path: Path
    ) -> None:
        path = tmp_path / "labels.csv"
        path.write_text("image_id,annotator,attribute,label\ni005,ann,gender,male\ni000,ann,gender,female\n")
        before = labels_csv(store)
        with pytest.raises(DataError) as caught:
            import_labels_csv(store, path)
        assert (
            "labels.csv, row 3, column label: ann has called this image male (gender) in the store: 'female'"
            in str(caught.value)
        )
        assert labels_csv(store) == before
        assert import_labels_csv(store, path, overwrite=True).stored == 2
        # What the file does not speak of stays.
        assert store.item("ann", "i000").answer == Answer(
            store.item("ann", "i000").answer.answer_id,  # type: ignore[union-attr]
            "i000",
            {"gender": Choice("female"), "age": Choice("elderly", value=70.5)},
        )

    def test_all_mistakes_are_reported_with_their_rows_and_nothing_is_stored(
        self, store: LabelStore, tmp_path: Path
    ) -> None:
        path = tmp_path / "labels.csv"
        rows = ["i000,ben,gender,man,", "nowhere,ben,gender,male,", "i001,ben,gender,low_quality,dark"]
        path.write_text("image_id,annotator,attribute,label,reason\n" + "\n".join(rows) + "\n")
        before = store.version()
        with pytest.raises(DataError) as caught:
            import_labels_csv(store, path)
        places = {(problem.row, problem.column, problem.value) for problem in caught.value.problems}
        assert places == {(2, "label", "man"), (3, "image_id", "nowhere"), (4, "reason", "dark")}
        path.write_text(
            "image_id,annotator,attribute,label,value\ni000,ben,age,young,old\ni001,ben,age,young,200\n"
        )
        with pytest.raises(DataError, match=r"row 2, column value: no number: 'old'[^$]*row 3.*0 to 120"):
            import_labels_csv(store, path)
        assert store.version() == before


class TestPairs:
    def test_answers_are_the_letters_of_the_questionnaire(self, tmp_path: Path) -> None:
        image_set = write_image_set(tmp_path / "pairs", IDS, pairs=True)
        with made(tmp_path / "p.sqlite", image_set, task="pairs") as store:
            choices = {
                "gender_change": Choice("female_male"),
                "age_change": Choice("younger"),
                "skin_tone_change": Choice("same"),
            }
            store.record("ann", Answer("1", "i001", choices))
            store.record("ann", saying("i000", "low_quality", question="age_change", reason="face_not_visible"))
            assert labels_csv(store).splitlines() == [
                "seed_image_id,image_id,annotator,question,answer,label,reason",
                "seed_i000,i000,ann,age,,low_quality,face_not_visible",
                "seed_i001,i001,ann,gender,C,female_male,",
                "seed_i001,i001,ann,age,B,younger,",
                "seed_i001,i001,ann,skin_tone,C,same,",
            ]
            with pytest.raises(ConfigError, match="this store is one of pairs"):
                import_labels_csv(store, tmp_path / "labels.csv")

    def test_they_go_through_label_studio(self, tmp_path: Path) -> None:
        image_set = write_image_set(tmp_path / "pairs", IDS, pairs=True)
        path = tmp_path / "tasks.json"
        with made(tmp_path / "p.sqlite", image_set, task="pairs") as store:
            store.record("ann", saying("i001", "older", question="age_change"))
            tasks = label_studio_tasks(store)
            assert tasks[1]["data"] == {
                "seed": "/data/local-files/?d=images/seed_i001.png",
                "edited": "/data/local-files/?d=images/i001.png",
                "item_id": "i001",
            }
            path.write_text(json.dumps(tasks))
            before = labels_csv(store)
        with made(tmp_path / "q.sqlite", image_set, task="pairs") as store:
            assert import_label_studio(store, path, settings=LabelStudioImport({})).stored == 1
            assert labels_csv(store) == before


def exported(store: LabelStore, path: Path, **options: Any) -> list[dict[str, Any]]:
    tasks = label_studio_tasks(store, **options)
    path.write_text(json.dumps(tasks, ensure_ascii=False), encoding="utf-8")
    return tasks


class TestLabelStudio:
    def test_export(self, store: LabelStore, tmp_path: Path) -> None:
        tasks = exported(store, tmp_path / "t.json", emails={"ann": "ann@example.org"})
        assert len(tasks) == 6
        assert all(task["predictions"] == [] for task in tasks)
        # Nothing that could lead an annotator: no prompt, no T2I model.
        assert tasks[0]["data"] == {"image": "/data/local-files/?d=images/i000.png", "item_id": "i000"}
        assert tasks[5]["annotations"] == []
        annotation = tasks[0]["annotations"][0]
        assert annotation["completed_by"] == {"email": "ann@example.org"}
        assert annotation["lead_time"] == 1.234
        assert [(part["from_name"], part["type"], part["value"]) for part in annotation["result"]] == [
            ("gender", "choices", {"choices": ["male"]}),
            ("age", "choices", {"choices": ["elderly"]}),
            ("age_value", "number", {"number": 70.5}),
        ]
        assert exported(store, tmp_path / "t.json") != tasks
        assert "completed_by" not in exported(store, tmp_path / "t.json")[0]["annotations"][0]

    def test_odd_paths_survive_as_addresses(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, ["i000"])
        name = "images/a b&c=#d+e%20ü.png"
        (tmp_path / "images" / "i000.png").rename(tmp_path / name)
        table = tmp_path / "images.csv"
        table.write_text(table.read_text().replace("images/i000.png", name), encoding="utf-8")
        image_set = ImageSet.load(tmp_path, require_labels=False)
        with made(tmp_path / "s.sqlite", image_set) as store:
            store.record("ann", saying("i000", "male"))
            tasks = exported(store, tmp_path / "t.json", image_address="https://host/files/")
            assert tasks[0]["data"]["image"] == "https://host/files/images/a%20b%26c%3D%23d%2Be%2520%C3%BC.png"
            for prefix in ("/data/local-files/?d=", "https://host/files/", ""):
                tasks = label_studio_tasks(store, image_address=prefix)
                del tasks[0]["data"]["item_id"]
                (tmp_path / "t.json").write_text(json.dumps(tasks))
                imported = import_label_studio(store, tmp_path / "t.json", settings=LabelStudioImport({}))
                assert imported.known == 1

    def test_a_round_trip_gives_the_same_labels(self, store: LabelStore, tmp_path: Path) -> None:
        exported(store, tmp_path / "t.json")
        with made(tmp_path / "new.sqlite", store.image_set, "gender", "age") as new:
            imported = import_label_studio(new, tmp_path / "t.json", settings=LabelStudioImport({}))
            assert imported.stored == 9
            assert labels_csv(new) == LABELS_CSV
            first = new.item("ann", "i003").answer
            assert first is not None
            assert first.answers == {"gender": Choice("female", note="a <b>hat</b>")}
            assert first.milliseconds == 1234
            version = new.version()
            assert import_label_studio(new, tmp_path / "t.json", settings=LabelStudioImport({})).known == 9
            assert new.version() == version

    def test_what_label_studio_itself_exports(self, image_set: ImageSet, tmp_path: Path) -> None:
        def annotation(choice: str, **more: Any) -> dict[str, Any]:
            value = {"from_name": "gender", "to_name": "image", "type": "choices", "value": {"choices": [choice]}}
            return {"id": 1, "result": [value], "was_cancelled": False, **more}

        early, late = {"updated_at": "2026-01-01T10:00:00Z"}, {"updated_at": "2026-01-02T10:00:00Z"}
        person = {"id": 7, "email": "eve@example.org", "first_name": "", "last_name": ""}
        tasks = [
            {
                "id": 11,
                "data": {"image": "/data/upload/3/0a1b2c3d-i001.png"},
                "annotations": [
                    annotation("female", completed_by=3, **late),
                    annotation("male", completed_by=3, **early),
                    annotation("others", completed_by=person, **early),
                    annotation("male", completed_by=4, **early) | {"was_cancelled": True},
                ],
                "drafts": [{"result": []}],
                "predictions": [{"result": []}],
            },
            {"id": 12, "data": {"image": "/data/local-files/?d=set/images/i002.png"}, "annotations": []},
        ]
        path = tmp_path / "export.json"
        path.write_text(json.dumps(tasks))
        with made(tmp_path / "s.sqlite", image_set) as store:
            settings = LabelStudioImport({"3": "ann"})
            imported = import_label_studio(store, path, settings=settings)
            assert (imported.stored, imported.skipped) == (2, 1)
            table = store.labels()
            assert table[["image_id", "annotator", "label"]].to_numpy().tolist() == [
                ["i001", "ann", "female"],
                ["i001", "eve@example.org", "others"],
            ]

    def test_the_small_export(self, image_set: ImageSet, tmp_path: Path) -> None:
        records = [
            {"id": 1, "image": "/data/upload/3/0a1b2c3d-i001.png", "gender": "low_quality",
             "gender_reason": "blurred", "annotator": 1, "annotation_id": 5, "created_at": "", "lead_time": 2.5},
            {"id": 2, "item_id": "i002", "image": "elsewhere", "gender": {"choices": ["male"]},
             "gender_note": ["one", "two"], "annotator": "eve@example.org"},
        ]  # fmt: skip
        path = tmp_path / "min.json"
        path.write_text(json.dumps(records))
        with made(tmp_path / "s.sqlite", image_set) as store:
            import_label_studio(store, path, settings=LabelStudioImport({}))
            found = {(a.annotator, a.answer.item_id): a.answer for a in store.answers(None)}
        assert found["label_studio_1", "i001"].answers == {"gender": Choice("low_quality", "blurred")}
        assert found["label_studio_1", "i001"].milliseconds == 2500
        assert found["eve@example.org", "i002"].answers == {"gender": Choice("male", note="one\ntwo")}

    def test_mistakes_are_reported_with_their_places_and_nothing_is_stored(
        self, store: LabelStore, tmp_path: Path
    ) -> None:
        tasks = exported(store, tmp_path / "t.json")
        tasks[0]["annotations"][0]["result"][0]["value"]["choices"] = ["man"]
        tasks[1]["annotations"][0]["result"][1]["value"]["choices"] = ["dark"]
        tasks[2]["annotations"][0]["result"][0]["from_name"] = "mood"
        tasks[3]["data"] = {"image": "images/nowhere.png"}
        tasks[4]["annotations"][0]["result"][0]["value"]["choices"] = ["male", "female"]
        tasks[5]["annotations"] = [{"result": [], "was_cancelled": False}]
        path = tmp_path / "t.json"
        path.write_text(json.dumps(tasks))
        version = store.version()
        with pytest.raises(DataError) as caught:
            import_label_studio(store, path, settings=LabelStudioImport({}))
        said = [str(problem) for problem in caught.value.problems]
        for expected in (
            "t.json, $[0].annotations[0].result[0].value.choices: unknown label for gender: 'man' "
            "(accepted: male, female, low_quality, others)",
            "t.json, $[1].annotations[0].result[1].value.choices: unknown reason: 'dark'",
            "t.json, $[2].annotations[0].result[0].value.choices: unknown question: 'mood'",
            't.json, $[3].data: no such image: \'{"image": "images/nowhere.png"}\'',
            "t.json, $[4].annotations[0].result[0].value.choices: several choices",
            "t.json, $[5].annotations[0]: it does not say whose it is",
        ):
            assert any(line.startswith(expected) for line in said), (expected, said)
        assert store.version() == version

    @pytest.mark.parametrize("content", ["{", '{"tasks": []}', "[" * 100_000, "\xff"])
    def test_other_files_are_refused(self, store: LabelStore, tmp_path: Path, content: str) -> None:
        path = tmp_path / "t.json"
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(DataError, match=r"t\.json: (cannot be read as JSON|it is no list)"):
            import_label_studio(store, path, settings=LabelStudioImport({}))

    def test_controls_of_others_can_be_ignored(self, store: LabelStore, tmp_path: Path) -> None:
        tasks = exported(store, tmp_path / "t.json")
        tasks[0]["annotations"][0]["result"] += [
            {"from_name": "mood", "type": "choices", "value": {"choices": ["good"]}},
            {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1}},
        ]
        (tmp_path / "t.json").write_text(json.dumps(tasks))
        settings = LabelStudioImport({}, ignore=("mood", "box"))
        assert import_label_studio(store, tmp_path / "t.json", settings=settings).known == 9


_CHECK = """
import json, sys, tempfile
from pathlib import Path
from label_studio_sdk.label_interface import LabelInterface
from label_studio_sdk.converter import Converter
config, tasks, small = (Path(name) for name in sys.argv[1:4])
interface = LabelInterface(config.read_text(encoding="utf-8"))
interface.validate()
for task in json.loads(tasks.read_text(encoding="utf-8")):
    # With annotations in it, version 2.1's validate_task calls another check without its argument.
    assert interface.validate_task({"data": task["data"]}), task
    for annotation in task["annotations"]:
        errors = interface.validate_prediction(annotation, return_errors=True)
        assert not errors, errors
        annotation["result"][0]["value"] = {"choices": ["man"]}
        assert interface.validate_prediction(annotation, return_errors=True)
with tempfile.TemporaryDirectory() as folder:
    converter = Converter(config.read_text(encoding="utf-8"), project_dir=None)
    converter.convert_to_json_min(str(tasks), folder, is_dir=False)
    small.write_bytes((Path(folder) / "result.json").read_bytes())
print(sorted(interface._controls))
"""


@pytest.fixture(scope="session")
def label_studio_python() -> str:
    """A Python that has label-studio-sdk, which needs older packages than this project's other extras."""
    named = os.environ.get("DETECTOR_BENCH_LABEL_STUDIO_PYTHON")
    if named is None and importlib.util.find_spec("label_studio_sdk") is None:
        with pytest.MonkeyPatch.context() as patch:
            return str(environment_of(patch, "label-studio-sdk>=2").interpreter)
    return named or sys.executable


@pytest.mark.slow
@pytest.mark.parametrize("task", ["images", "pairs"])
def test_label_studio_accepts_it_and_its_small_export_comes_back(
    store: LabelStore, tmp_path: Path, label_studio_python: str, task: str
) -> None:
    config, tasks, small = (tmp_path / name for name in ("config.xml", "tasks.json", "small.json"))
    if task == "pairs":
        pairs = write_image_set(tmp_path / "pairs", numbered(4), pairs=True)
        store = made(tmp_path / "p.sqlite", pairs, task="pairs")
        store.record("ann", saying("i001", "low_quality", question="age_change", reason="blurred"))
    config.write_text(labelling_config(store.settings.task, store.questions), encoding="utf-8")
    exported(store, tasks, emails={"ann": "ann@example.org", "adjudicator": "both@example.org"})
    command = [label_studio_python, "-c", _CHECK, str(config), str(tasks), str(small)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "age_change" in done.stdout if task == "pairs" else "age_value" in done.stdout
    expected = labels_csv(store)
    names = {"ann@example.org": "ann", "both@example.org": "adjudicator"}
    with made(tmp_path / "new.sqlite", store.image_set, *store.settings.attributes, task=task) as new:
        import_label_studio(new, small, settings=LabelStudioImport(names))
        assert labels_csv(new) == expected
    store.close()
