"""`kind: isolated`: verdicts of a script in another process, failures of an image alone, and who may run what."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from isolated_parts import BRIGHTNESS, READINGS, script, settings
from running import frames_of, judged, noise, plain
from small_parts import write_image_set

from detector_bench.detectors import Prediction, build_detector
from detector_bench.errors import ConfigError
from detector_bench.isolated.adapters import ADAPTERS
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.networks.isolated_outputs import IsolatedFunction, IsolatedOutputs
from detector_bench.perception.stage import StageFailure
from detector_bench.runner.batch_calls import each_or_failure, stage_failure
from detector_bench.runner.readiness import lacking
from detector_bench.runner.stored_predictions import read_predictions
from detector_bench.study import Study
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator(cache=Path("nowhere"), allow_download=False)
Command = Callable[..., tuple[int, str, str]]
IMAGES = [plain(250, 250, 250), plain(10, 10, 10), noise(20, 30), plain(130, 130, 130)]


@pytest.fixture(autouse=True)
def trust_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine: nothing is allowed yet, and no environment is made."""
    monkeypatch.setenv("DETECTOR_BENCH_TRUST", str(tmp_path / "allowed" / "trust.yaml"))
    monkeypatch.setenv("DETECTOR_BENCH_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setattr("detector_bench.trust.this_process._OF_THIS_CALL", [])
    return tmp_path / "allowed" / "trust.yaml"


def answers(found: list[Prediction]) -> list[tuple[Any, ...]]:
    return [(each.image_id, each.attribute, each.label or each.reason, each.score, each.value) for each in found]


def saying(tmp_path: Path, result: str, outputs: dict[str, Any] = READINGS, **more: Any) -> list[Prediction]:
    """The verdicts on one image of which a script says so."""
    path = script(tmp_path, f"def load(parameters):\n    return lambda images: [{result} for _ in images]\n")
    detector = build_detector("isolated", parameters=settings(path, outputs=outputs, **more))
    return judged(detector, IMAGES[:1], weights=NOWHERE)


def test_a_script_judges(tmp_path: Path) -> None:
    detector = build_detector("isolated", parameters=settings(script(tmp_path)))
    assert detector.classes == {"gender": ("male", "female"), "age": ("young", "middle_aged", "elderly")}
    found = judged(detector, IMAGES[:2], weights=NOWHERE)
    assert answers(found) == [
        ("0", "gender", "male", pytest.approx(250 / 255), None),
        ("0", "age", "elderly", None, pytest.approx(250 / 2.55)),
        ("1", "gender", "female", pytest.approx(245 / 255), None),
        ("1", "age", "young", None, pytest.approx(10 / 2.55)),
    ]
    assert [each.raw for each in found] == ["man", None, "woman", None]


@pytest.mark.parametrize(
    ("result", "reading", "expected"),
    [
        ({"filtered": "no_face"}, {"read": "label", "output": "gender"}, (Status.FILTERED, "no_face")),
        ({"gender": "male"}, {"read": "label", "output": "gender"}, (Status.CLEAR, "male")),
        ({"gender": "uncertain"}, {"read": "label", "output": "gender"}, (Status.FILTERED, "uncertain")),
        (
            {"gender": {"label": "man", "score": 0.6}},
            {**READINGS["gender"], "min_score": 0.7},
            (Status.FILTERED, "uncertain"),
        ),
        (
            {"gender": "x"},
            {"read": "label", "output": "gender", "classes": {"man": "male", "x": None}},
            (Status.FILTERED, "other_class"),
        ),
        (
            {"shares": [0.1, 0.9]},
            {"read": "classes", "output": "shares", "classes": ["male", "female"]},
            (Status.CLEAR, "female"),
        ),
    ],
)
def test_what_a_script_says_is_read(
    tmp_path: Path, result: dict[str, Any], reading: dict[str, Any], expected: tuple[Status, str]
) -> None:
    (found,) = saying(tmp_path, repr(result), {"gender": reading})
    assert (found.status, found.label or found.reason) == expected


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"gender": "alien"}, r"output 'gender' says 'alien', which is none of its words \(man, woman\)"),
        ({"age": 3}, r"gave no output 'gender' \(it gave: age\)"),
        ({"gender": {"label": "man", "score": 7}}, r"'gender\.score' holds 7, which is no probability"),
        ({"gender": [1, 2]}, r"output 'gender' is no text: float64 of shape \[2\]"),
        ({"filtered": "No face!"}, r"gives 'No face!' as a reason"),
        ({"gender": "man", "age": -4}, r"output 'age' holds -4, which is no age in years"),
        ({"gender": "man", "age": float("inf")}, r"output 'age' holds values that are not finite"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_the_image(
    tmp_path: Path, result: dict[str, Any], message: str
) -> None:
    text = repr(result).replace("inf", "float('inf')")
    with pytest.raises(ValueError, match=message):
        saying(tmp_path, text)


@pytest.mark.slow
def test_an_image_that_ends_the_process_costs_itself_alone(tmp_path: Path) -> None:
    deadly = "import os\n" + BRIGHTNESS.replace(
        "mean = float", "os._exit(9) if image[0, 0, 0] == 13 else 0\n        mean = float"
    )
    images = [*IMAGES[:3], plain(13, 0, 0), *IMAGES[1:], *IMAGES]
    stage = build_detector("isolated", parameters=settings(script(tmp_path, deadly))).stages[0]
    function = stage.load(NOWHERE)
    assert isinstance(function, IsolatedFunction)
    found = each_or_failure(function, frames_of(images), failed=stage_failure)
    failures = [number for number, each in enumerate(found) if isinstance(each, StageFailure)]
    assert failures == [3]
    failure = found[3]
    assert isinstance(failure, StageFailure)
    assert failure.reason == "isolated_process_ended"
    assert failure.detail.startswith("the process of brightness.py ended with status 9")


@pytest.mark.slow
def test_a_process_that_does_not_start_leaves_the_others_at_work(tmp_path: Path, command: Command) -> None:
    write_image_set(tmp_path / "images", 6)
    broken = script(tmp_path, f"import no_such_package  # in {tmp_path}/secret\n", name="broken.py")
    entries = [
        {"name": "broken", "kind": "isolated", **settings(broken)},
        {"name": "good", "kind": "isolated", **settings(script(tmp_path))},
    ]
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"image_set": "images", "detectors": entries}))
    out = tmp_path / "out"
    status, _, err = command("run", tmp_path / "study.yaml", "--out", out)
    assert status == 1
    assert "broken has judged no image" in err
    predictions = {name: found.to_pandas() for name, found in read_predictions(out, also=["reason"]).items()}
    states = {name: set(found["status"]) for name, found in predictions.items()}
    assert states == {"broken": {"error"}, "good": {"clear"}}
    reasons = set(predictions["broken"]["reason"])
    assert reasons == {
        "isolated_process_failed: broken.py, line 1: ModuleNotFoundError: No module named 'no_such_package'"
    }
    record = json.loads((out / "run.json").read_text())
    devices = [each["devices"] for each in record["stages"].values()]
    assert ["a process of Python {}.{}.{}".format(*sys.version_info[:3])] in devices


# --- who may run what


def test_nothing_runs_that_the_user_has_not_allowed(tmp_path: Path, command: Command) -> None:
    tell = tmp_path / "ran"
    path = script(tmp_path, f"open({str(tell)!r}, 'w')\n{BRIGHTNESS}", allowed=False)
    other = tmp_path / "other" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to(sys.executable)
    detector = build_detector("isolated", parameters={**settings(path), "python": str(tmp_path / "other")})
    script_line, python_line = "\n".join(lacking(detector, weights=NOWHERE)).splitlines()
    assert "the script 'brightness.py'" in script_line
    assert script_line.endswith(f"then: detector-bench trust code {path}")
    assert python_line.endswith(f"detector-bench trust python {other}")
    # A folder of a study may be called so that the line, copied, would do something else.
    (tmp_path / "a; b").symlink_to(tmp_path / "other")
    odd = build_detector("isolated", parameters={**settings(path), "python": str(tmp_path / "a; b")})
    assert f"trust python '{tmp_path / 'a; b' / 'bin' / 'python'}'" in "".join(lacking(odd, weights=NOWHERE))
    with pytest.raises(ConfigError, match="not allowed on this machine"):
        detector.stages[0].load(NOWHERE)
    for what in (["code", path], ["python", tmp_path / "other"]):
        assert command("trust", *what)[0] == 0
    assert not tell.exists()
    assert lacking(detector, weights=NOWHERE) == []
    assert len(judged(detector, IMAGES, weights=NOWHERE)) == 8
    path.write_text(path.read_text() + "# changed")
    assert "has changed since it was allowed" in "\n".join(lacking(detector, weights=NOWHERE))
    assert command("trust", "remove", str(other))[0] == 0
    assert "may not be started" in "\n".join(lacking(detector, weights=NOWHERE))


def test_a_file_in_which_code_may_lie_has_to_be_allowed(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "weights.onnx"  # as a pickle may be called, too
    path.write_bytes(b"numbers")
    detector = build_detector("isolated", parameters=settings(script(tmp_path), files={"network": str(path)}))
    (line,) = lacking(detector, weights=NOWHERE)
    assert "'weights.onnx'" in line
    assert command("trust", "code", path)[0] == 0
    assert lacking(detector, weights=NOWHERE) == []
    path.write_bytes(b"others")
    assert "has changed since it was allowed" in lacking(detector, weights=NOWHERE)[0]

    def asked(adapter: str, role: str) -> bool:
        files = {role: str(path)}
        made = build_detector(
            "isolated", parameters={"adapter": adapter, "python": sys.executable, "files": files}
        )
        return "weights.onnx" in "".join(lacking(made, weights=NOWHERE))

    assert not asked("insightface", "genderage")
    assert not asked("deepface", "gender")
    assert asked("deepface", "face_detector")
    assert asked("mivolo", "checkpoint")


def test_packages_of_a_study_are_not_installed_by_a_run(tmp_path: Path) -> None:
    parameters = {"script": str(script(tmp_path)), "requirements": ["some-package==1", "x<2"], "outputs": READINGS}
    detector = build_detector("isolated", parameters={**parameters, "python_version": "3.9"})
    (line,) = lacking(detector, weights=NOWHERE)
    assert line.endswith("detector-bench environments make some-package==1 'x<2' --python-version 3.9")
    with pytest.raises(ConfigError, match="is not made on this machine"):
        detector.stages[0].load(NOWHERE)
    assert not (tmp_path / "environments").exists()


def test_a_dry_run_tells_what_would_run(tmp_path: Path, command: Command) -> None:
    write_image_set(tmp_path / "images", 3)
    entry = {"name": "other", "kind": "isolated", **settings(script(tmp_path, allowed=False))}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"image_set": "images", "detectors": [entry]}))
    _, out, err = command("run", tmp_path / "study.yaml", "--out", tmp_path / "out", "--dry-run")
    assert "process of another Python" in out + err
    assert "detector-bench trust code" in out + err


def test_the_published_study_names_no_folder_and_can_be_run_again(tmp_path: Path) -> None:
    write_image_set(tmp_path / "images", 3)
    environment = tmp_path / "private" / "my-env"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text((Path(sys.prefix) / "pyvenv.cfg").read_text())
    (environment / "bin" / "python").symlink_to(sys.executable)
    from detector_bench.trust import add_interpreter

    add_interpreter(environment / "bin" / "python")
    path = script(tmp_path / "private", BRIGHTNESS.replace("float(image.mean())", "image[0, 0, 0]"))
    entry = {"name": "other", "kind": "isolated", **settings(path), "python": str(environment / "bin" / "python")}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"image_set": "images", "detectors": [entry]}))
    Study.from_yaml(tmp_path / "study.yaml").run(out=tmp_path / "out")
    written = yaml.safe_load((tmp_path / "out" / "study.yaml").read_text())["detectors"][0]
    assert (written["script"], written["python"]) == ("brightness.py", "my-env")
    again = StudyConfiguration.from_yaml(tmp_path / "out" / "study.yaml")
    assert lacking(again.build_detectors()[0], weights=again.locator()) == []


# --- what decides a result


def test_what_decides_a_result_is_in_its_fingerprint(tmp_path: Path) -> None:
    path = script(tmp_path / "a")
    copied = script(tmp_path / "b", name="renamed.py")
    changed = script(tmp_path / "c", BRIGHTNESS + "# changed\n")

    def of(path: Path, **more: Any) -> str:
        fields: dict[str, Any] = {"script": str(path), "python": sys.executable, **more}
        return fingerprint(IsolatedOutputs.model_validate(fields), weights=NOWHERE)

    first = of(path)
    assert first == of(copied) == of(path, python="/elsewhere", timeout=1, start_timeout=1, batch=2)
    others = [
        of(changed),
        of(path, parameters={"bound": 0.4}),
        of(path, requirements=["numpy<2"]),
        of(path, python=None, requirements=["numpy<2"], python_version="3.10"),
        of(path, files={"network": str(path)}),
    ]
    assert len({first, *others}) == 6


def test_an_adapter_counts_with_its_version_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gender_model_weights.h5").write_bytes(b"1")
    where = WeightsLocator(folders=(tmp_path,), cache=tmp_path / "nowhere", allow_download=False)
    outputs = {"gender": ADAPTERS["deepface"].outputs["gender"]}
    detector = build_detector("isolated", parameters={"adapter": "deepface", "outputs": outputs})
    before = fingerprint(detector.stages[0], weights=where)
    (line,) = lacking(detector, weights=where)
    assert "detector-bench environments make deepface==" in line
    (tmp_path / "gender_model_weights.h5").write_bytes(b"2")
    again = WeightsLocator(folders=(tmp_path,), cache=tmp_path / "nowhere", allow_download=False)
    assert fingerprint(detector.stages[0], weights=again) != before
    object.__setattr__(ADAPTERS["deepface"], "version", 2)
    try:
        assert '"1, deepface 2"' in json.dumps(detector.identity(weights=where))
    finally:
        object.__setattr__(ADAPTERS["deepface"], "version", 1)


def test_adapters_are_whole() -> None:
    for name, adapter in ADAPTERS.items():
        detector = build_detector("isolated", name=name, parameters={"adapter": name})
        assert set(detector.attributes) == set(adapter.outputs)
        assert "def load(parameters" in adapter.script
        lines = lacking(detector, weights=NOWHERE)
        assert all("not found; put it" in line or "is not made on this machine" in line for line in lines)
        assert len(lines) == len(adapter.files) + 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "either `script`, a Python file, or `adapter`"),
        ({"adapter": "deepfaces"}, "unknown adapter 'deepfaces': did you mean 'deepface'"),
        ({"script": "x.py"}, "needs `python`, another environment's, or `requirements`"),
        ({"script": "x.py", "requirements": ["-e ."]}, "requirement '-e .' names a file of this machine"),
        ({"script": "x.py", "requirements": []}, "at least one requirement"),
        ({"script": "x.py", "python": "p", "python_version": "3.9"}, "python_version belongs to `requirements`"),
        ({"script": "x.py", "requirements": ["a"], "python_version": "2"}, "python_version"),
        (
            {
                "script": "x.py",
                "python": "p",
                "outputs": {"gender": {"read": "label", "output": "g", "classes": {"a": "x"}}},
            },
            "unknown class 'x' of 'gender'",
        ),
    ],
)
def test_mistakes_in_a_study_are_one_line(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")) as raised:
        build_detector("isolated", parameters={"outputs": READINGS, **parameters})
    assert "\n" not in str(raised.value)


# --- killed


@pytest.mark.slow
def test_killed_ten_times_the_predictions_are_the_same(tmp_path: Path) -> None:
    images = tmp_path / "images"
    write_image_set(images, 240)
    slow = BRIGHTNESS.replace("mean = float", "__import__('time').sleep(0.02)\n        mean = float")
    entry = {"name": "other", "kind": "isolated", **settings(script(tmp_path, slow))}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"image_set": "images", "detectors": [entry]}))
    found = []
    for times in (0, 10):
        out = tmp_path / str(times)
        with Killing(times, seed=4) as killed:
            Study.from_yaml(tmp_path / "study.yaml").run(out=out, use_cache=False)
        assert len(killed) == times
        stored = read_predictions(out, also=["reason", "score", "value", "raw"])["other"].to_pandas()
        found.append(stored.to_csv(index=False).encode())
    assert found[0] == found[1]


class Killing:
    """Kills the isolated processes of this one, now and then, as often as asked for."""

    def __init__(self, times: int, *, seed: int) -> None:
        self._times, self._random = times, random.Random(seed)  # noqa: S311
        self._killed: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._kill)

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self._killed

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _kill(self) -> None:
        while len(self._killed) < self._times and not self._stop.wait(self._random.uniform(0.15, 0.45)):
            for number in children():
                os.kill(number, signal.SIGKILL)
                self._killed.append(number)
                break


def children() -> Iterator[int]:
    """Processes of this one that run the isolated program."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and any(word.endswith(b"isolated/child.py") for word in words):
            yield int(path.name)


def test_an_ensemble_does_not_count_where_a_members_python_lies(tmp_path: Path) -> None:
    """Else its predictions name this machine, and nobody else can verify them."""

    def ensemble(**more: Any) -> dict[str, Any]:
        member = {"kind": "isolated", **settings(script(tmp_path), **more)}
        made = build_detector("ensemble", parameters={"members": [member, member]})
        return made.identity(weights=NOWHERE)

    found = ensemble(python=sys.executable)
    assert sys.executable not in json.dumps(found)
    assert ensemble(python="/elsewhere", batch=3, timeout=7.0) == found
    assert ensemble(parameters={"bound": 0.9}) != found


@pytest.mark.parametrize("wrong", [{"weights": [float("nan"), 1.0]}, {"weights": [float("inf"), 1.0]}])
def test_what_votes_count_for_are_numbers(tmp_path: Path, wrong: dict[str, Any]) -> None:
    member = {"kind": "isolated", **settings(script(tmp_path))}
    with pytest.raises(ConfigError, match="finite number"):
        build_detector("ensemble", parameters={"members": [member, member], **wrong})
