"""Command line: every option arrives, what goes wrong is told in a line, and the exit status is the right one."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import detector_bench_next as db
from detector_bench_next import cli, verbs
from detector_bench_next.engines import Claimed
from detector_bench_next.study import Study
from tests_next import shade_plugin  # noqa: F401 - registers `shade`
from tests_next.studies import PLUGIN, write_image_set
from tests_next.studies import write_study as write_whole_study

VERBS = {
    n: f
    for n, f in vars(verbs).items()
    if inspect.isfunction(f) and f.__module__ == verbs.__name__ and n[0] != "_"
}


write_study = partial(write_whole_study, intervals={"resamples": 0})  # what is drawn is tested elsewhere


def call(*words: str | Path) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command, in this process."""
    found = CliRunner().invoke(cli.app, [str(word) for word in words], prog_name="detector-bench")
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.stdout, found.stderr


def process(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as a user without a terminal runs it."""
    return subprocess.run(
        [sys.executable, "-m", "detector_bench_next", *map(str, words)],
        capture_output=True, text=True, timeout=60, check=False, **options,
    )  # fmt: skip


def path_of(verb: str) -> list[str]:
    """Words of a verb's command."""
    return ["import"] if verb == "import_images" else verb.split("_")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_image_set(tmp_path / "images")
    write_study(tmp_path, tmp_path / "images", "shade", {"name": "dim", "kind": "shade", "bright_above": 90})
    return tmp_path


@pytest.fixture
def done(folder: Path) -> Path:
    """A result folder."""
    Study.open(folder / "study.yaml").run(folder / "done", use_cache=False)
    return folder / "done"


# every verb


def given_to(verb: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a verb's function is given by a command's words; it is not called."""
    found: dict[str, Any] = {}
    own = inspect.signature(VERBS[verb])
    monkeypatch.setattr(verbs, verb, lambda *a, **k: found.update(own.bind(*a, **k).arguments))
    status, _, errors = call(*words)
    assert (status, errors) == (0, "")
    return found


def sample(name: str, annotation: str) -> tuple[list[str], Any]:
    """Words for a parameter's value, none of which is a default, and the value."""
    kind = annotation.removeprefix("Annotated[").partition(", ")[0]
    if kind.startswith("Sequence["):
        values = ["a=b", "c"] if "str" in kind else [Path("a"), Path("b")]
        return [str(value) for value in values], values
    if kind.startswith("Literal["):
        choice = annotation.partition("]")[0].rpartition("'" if "'" in annotation else '"')[0]
        last = choice.rpartition("'" if "'" in annotation else '"')[2]
        return [last], last
    return {
        "bool": ([], True), "int": (["7"], 7), "float": (["2.5"], 2.5), "float | None": (["2.5"], 2.5),
        "str": (["text"], "text"), "Path": (["some/path"], Path("some/path")),
        "Path | None": (["some/path"], Path("some/path")),
    }[kind]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_and_argument_arrives(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    words, wanted = path_of(verb), {}
    for name, own in inspect.signature(VERBS[verb]).parameters.items():
        if own.annotation.startswith("Hidden["):
            continue
        texts, wanted[name] = sample(name, own.annotation)
        if own.kind is own.KEYWORD_ONLY:
            option = f"--{name.replace('_', '-')}"
            words += [word for text in texts for word in (option, text)] if texts else [option]
        else:
            words += texts
    found = given_to(verb, words, monkeypatch)
    assert {name: value for name, value in found.items() if name != "progress"} == wanted


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_ends_with_an_example_that_is_a_valid_call(
    monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    status, output, errors = call(*path_of(verb), "--help")
    assert (status, errors) == (0, "")
    text, _, example = (inspect.getdoc(VERBS[verb]) or "").rpartition("\n\n")
    assert example.startswith(f"Example: detector-bench {' '.join(path_of(verb))}")
    assert " ".join(text.split()) in " ".join(output.split())
    given_to(verb, shlex.split(example.removeprefix("Example: detector-bench ")), monkeypatch)


def test_python_has_every_verb_by_its_name_also_where_a_module_has_the_same() -> None:
    import detector_bench_next.evaluate  # noqa: F401 - sets the package's attribute `evaluate`

    assert {verb for verb in VERBS if not verb.startswith(("detectors_", "weights_"))} <= {*dir(db)}
    assert [text for text in db.studies()["study"] if text == "quickstart"] == ["quickstart"]
    with pytest.raises(TypeError, match="result"):
        db.evaluate()
    with pytest.raises(AttributeError, match="no attribute 'judge'"):
        _ = db.judge


def test_options_of_a_run_reach_the_study_and_what_predicts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def run(job: Any, *others: Any) -> Claimed:
        found[:] = [job, others]
        return Claimed(0, (1,))

    for engine in ("run_here", "run_local", "run_ray"):
        monkeypatch.setattr(f"detector_bench_next.engines.{engine}", run)
    (folder / "w").mkdir()
    words = ["run", folder / "study.yaml", "--out", folder / "out", "--image-set", folder / "images"]
    words += ["--weights-dir", folder / "w", "--cache-dir", folder / "c", "--without", "dim", "--shards", "3"]
    words += ["--set", "batch_size=5", "--set", "detectors.shade.bright_above=7", "--allow", "example.org"]
    (folder / "own.py").write_text("")
    words += ["--budget", "1.5", "--workers", "2", "--plugin", folder / "own.py"]
    assert call(*words)[0] == 1, "shard 1 is held"
    job, (workers, progress) = found
    assert job.detectors == ({"name": "shade", "kind": "shade", "bright_above": 7},)
    assert (job.image_set, job.out, job.weights_dir) == (folder / "images", folder / "out", folder / "w")
    assert (job.cache_dir, job.shards, job.batch_size, job.allow) == (folder / "c", 3, 5, ("example.org",))
    assert (job.budget, job.plugins[-1:], workers) == (1.5, (folder / "own.py",), 2)
    assert callable(progress)

    assert (
        call(*words[:4], "--only", "dim", "--no-cache", "--engine", "ray", "--address", "auto", "--quiet")[0] == 1
    )
    job, others = found
    assert ([entry["name"] for entry in job.detectors], job.cache_dir, others) == (["dim"], None, (1, "auto"))
    assert call(*words[:4], "--shard", "2/3") == (
        0,
        "shard 1 of 3: with other processes; who ends last writes the results\n",
        "",
    )
    assert (found[0].shards, found[1][0].number) == (3, 2)


def test_a_slurm_script_hands_the_call_on(folder: Path) -> None:
    words = ["run", folder / "study.yaml", "--out", folder / "out", "--set", "n_clear=human", "--only", "dim"]
    (folder / "mine.py").write_text("")
    words += [
        "--no-cache",
        "--budget",
        "2",
        "--plugin",
        folder / "mine.py",
        "--shards",
        "4",
        "--slurm",
        folder / "job.sh",
    ]
    status, output, errors = call(*words)
    assert (status, errors) == (0, "")
    assert f"sbatch {folder / 'job.sh'}" in output
    script = " ".join((folder / "job.sh").read_text().replace("\\\n", "").split())
    for part in (
        "--set n_clear=human",
        "--only dim",
        "--no-cache",
        "--budget 2.0",
        f"--plugin {folder / 'mine.py'}",
        "--array=1-4",
    ):
        assert part in script
    assert subprocess.run(["bash", "-n", folder / "job.sh"], check=False).returncode == 0
    assert not (folder / "out" / "predictions").exists()


def test_options_of_evaluate_reach_the_numbers(done: Path, folder: Path) -> None:
    write_image_set(folder / "others", annotators=("one", "two"))
    words = [
        "evaluate",
        done,
        "--out",
        folder / "again",
        "--image-set",
        folder / "others",
        "--set",
        "n_clear=human",
    ]
    status, output, _ = call(*words, "--only", "shade", "--json")
    assert status == 0
    content = json.loads(output)
    assert {row["detector"] for row in content["rows"]} == {"shade"}
    written = yaml.safe_load((folder / "again" / "study.yaml").read_text())
    assert (written["n_clear"], written["image_set"], len(written["detectors"])) == ("human", "others", 1)
    assert call(*words, "--without", "shade", "--study", folder / "study.yaml")[0] == 0
    assert yaml.safe_load((folder / "again" / "study.yaml").read_text())["detectors"][0]["name"] == "dim"
    status, _, errors = call("evaluate", done, "--only", "shade")
    assert (status, "say with --out where the smaller study goes" in errors) == (1, True)


def test_evaluate_needs_no_plugin(done: Path) -> None:
    before = (done / "metrics.csv").read_bytes()
    study = done / "study.yaml"
    study.write_text(study.read_text().replace("kind: shade", "kind: of_a_plugin"))
    assert call("evaluate", done)[0] == 0
    assert (done / "metrics.csv").read_bytes() == before


# help, groups, exit statuses


def test_help_costs_little() -> None:
    program = (
        "import sys\nfrom detector_bench_next.__main__ import main\nsys.argv = ['x', *sys.argv[1:]]\nmain()\n"
    )
    program += "print(*sys.modules, file=sys.stderr)"
    for words in (["--help"], ["run", "--help"], ["detectors", "--help"]):
        found = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        loaded = found.stderr.split()
        assert {name for name in loaded if name.startswith("detector_bench_next.")} == {
            f"detector_bench_next.{name}" for name in ("__main__", "cli", "verbs")
        }
        assert not {"numpy", "pandas", "yaml", "rich", "pyarrow"} & set(loaded), "typer itself needs pydantic"


def test_a_group_shows_what_is_named_without_the_word_show(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_to("detectors", ["detectors"], monkeypatch) == {
        "name": "",
        "study": "",
        "weights_dir": None,
        "allow": [],
    }
    assert given_to("detectors", ["detectors", "clip"], monkeypatch)["name"] == "clip"
    assert given_to("detectors", ["detectors", "--study", "x"], monkeypatch)["study"] == "x"
    assert given_to("detectors_new", ["detectors", "new", "mine"], monkeypatch)["name"] == "mine"
    assert "new" in call("detectors", "--help")[1]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 2, "Commands"),
        (["--version"], 0, db.__version__),
        (["run"], 2, "Missing argument"),
        (["run", "study.yaml"], 2, "Missing option '--out'"),
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["run", "study.yaml", "--out", "x", "--no-such-option"], 2, "No such option"),
        (["run", "study.yaml", "--out", "x", "--workers", "many"], 2, "'--workers'"),
    ],
)
def test_a_wrong_call_ends_with_status_2(words: list[str], status: int, told: str) -> None:
    found, output, errors = call(*words)
    assert found == status
    assert told in output + errors


def other_image_set(folder: Path) -> list[str | Path]:
    return ["run", folder / "study.yaml", "--out", folder / "out", "--image-set", folder / "nowhere"]


def wrong_label(folder: Path) -> list[str | Path]:
    labels = folder / "images" / "labels.csv"
    labels.write_text(labels.read_text().replace(",male,", ",man,", 1))
    return ["run", folder / "study.yaml", "--out", folder / "out"]


def wrong_columns(folder: Path) -> list[str | Path]:
    images = folder / "images" / "images.csv"
    images.write_text(images.read_text().replace("t2i_model", "model", 1))
    return ["run", folder / "study.yaml", "--out", folder / "out"]


def plugin(text: str) -> Callable[[Path], list[str | Path]]:
    def made(folder: Path) -> list[str | Path]:
        (folder / "plugin.py").write_text(text)
        return ["run", folder / "study.yaml", "--out", folder / "out", "--plugin", folder / "plugin.py"]

    return made


def damaged_predictions(folder: Path) -> list[str | Path]:
    Study.open(folder / "study.yaml").run(folder / "done", use_cache=False)
    (file,) = (folder / "done" / "predictions" / "dim").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    return ["evaluate", folder / "done"]


def words(*own: str) -> Callable[[Path], list[str | Path]]:
    return lambda folder: [word.replace("HERE", str(folder)) for word in own]


RUN = ("run", "HERE/study.yaml", "--out", "HERE/out")

# By what is wrong: the command, and parts of the one line about it.
MISTAKES: dict[str, tuple[Callable[[Path], list[str | Path]], list[str]]] = {
    "no study": (words("run", "HERE/none.yaml", "--out", "HERE/out"), ["there is no file", "none.yaml"]),
    "no image set": (other_image_set, ["there is no image set", "nowhere", "--image-set DIR"]),
    "a study without images": (words("run", "lyu2025_authors_sd3", "--out", "HERE/out"), ["--image-set DIR"]),
    "wrong label": (wrong_label, ["labels.csv, row ", "column label", "'man'", "low_quality"]),
    "wrong column": (wrong_columns, ["images.csv, row 1, column t2i_model"]),
    "out is a file": (words("run", "HERE/study.yaml", "--out", "HERE/study.yaml"), ["--out", "is a file"]),
    "cache is a file": (words(*RUN, "--cache-dir", "HERE/study.yaml"), ["study.yaml"]),
    "no weights folder": (words(*RUN, "--weights-dir", "HERE/nowhere"), ["--weights-dir: there is no folder"]),
    "a setting that is none": (words(*RUN, "--set", "n_clear=both"), ["--set: n_clear: ", "'both'"]),
    "an unknown setting": (words(*RUN, "--set", "n_cler=human"), ["did you mean 'n_clear'"]),
    "no equals sign": (words(*RUN, "--set", "n_clear"), ["--set 'n_clear': KEY=VALUE"]),
    "no YAML": (words(*RUN, "--set", "n_clear=[a"), ["--set 'n_clear=[a'", "no YAML"]),
    "no such detector": (words(*RUN, "--only", "shady"), ["no detector 'shady'", "did you mean 'shade'"]),
    "a shard of nothing": (words(*RUN, "--shard", "4/3"), ["4/3"]),
    "a shard with workers": (words(*RUN, "--shard", "1/3", "--workers", "2"), ["--shard", "leave out --workers"]),
    "an address without ray": (words(*RUN, "--address", "auto"), ["--address", "--engine ray"]),
    "no plugin": (words(*RUN, "--plugin", "HERE/none.py"), ["none.py", "is no Python file"]),
    "a plugin that fails": (plugin("\nimport no_such_package\n"), ["plugin.py, line 2", "no_such_package"]),
    "no result folder": (words("evaluate", "HERE/nowhere"), ["nowhere", "study.yaml"]),
    "damaged predictions": (
        damaged_predictions,
        ["predictions/dim/00001-of-00001.parquet", "run the study again"],
    ),
    "nothing to copy": (words("studies", "--copy", "HERE/x.yaml"), ["studies NAME --copy FILE"]),
    "no such shipped study": (words("studies", "lyu"), ["did you mean 'lyu2025"]),
    "weights that nobody knows": (
        words("weights", "fetch", "yolo8n.pt"),
        ["unknown weights 'yolo8n.pt'", "yolov8n.pt"],
    ),
    "nothing to fetch": (words("weights", "fetch"), ["--study"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_what_the_user_can_mend_is_one_line_and_status_1(folder: Path, case: str) -> None:
    command, parts = MISTAKES[case]
    status, output, errors = call(*command(folder))
    assert (status, output) == (1, "")
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in errors
    for part in parts:
        assert part in lines[0]


def test_a_long_message_with_brackets_is_printed_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = folder / ("a long [red] name " * 5 + ".yaml")
    assert str(path) in call("run", path, "--out", folder / "out")[2].splitlines()[0]


def test_what_a_run_prints(folder: Path) -> None:
    words = [
        "run",
        folder / "study.yaml",
        "--out",
        folder / "out [red]",
        "--cache-dir",
        folder / "c",
        "--plugin",
        PLUGIN,
    ]
    found = process(*words, env={**os.environ, "COLUMNS": "40"})
    assert found.returncode == 0, found.stderr
    assert found.stderr == "8 images predicted\n"
    assert {"shade", "dim"} <= set(found.stdout.split())
    assert found.stdout.splitlines()[-1].startswith(f"Everything is in {folder / 'out [red]'}: ")
    assert "\x1b" not in found.stdout + found.stderr, "no colours where there is no terminal"
    assert call(*words[:-2], "--quiet")[1:] == (found.stdout, "")
    rows = json.loads(call(*words[:-2], "--json")[1])
    assert (rows["verb"], rows["version"], rows["notes"][0]) == ("run", db.__version__, "nothing to predict")
    assert {row["detector"] for row in rows["rows"]} == {"shade", "dim"}


def test_a_detector_left_out_makes_the_exit_status_1(folder: Path) -> None:
    net = {"name": "net", "kind": "image_classifier", "model": "nowhere.onnx", "input": {"size": [8, 8]}}
    net["outputs"] = {"gender": {"output": "p", "classes": ["male", "female"]}}  # type: ignore[assignment]
    path = write_study(folder, folder / "images", "shade", net)
    status, output, errors = call("run", path, "--out", folder / "out", "--no-cache", "--quiet")
    assert status == 1
    assert "shade" in output
    assert errors.startswith("detector 'net' is left out: ")


def test_a_dry_run_says_what_is_left_and_writes_nothing(folder: Path) -> None:
    words = [
        "run",
        folder / "study.yaml",
        "--out",
        folder / "out",
        "--cache-dir",
        folder / "c",
        "--dry-run",
        "--json",
    ]
    status, output, _ = call(*words)
    assert status == 0
    rows = json.loads(output)["rows"]
    assert [(row["detector"], row["images"], row["lacks"]) for row in rows] == [("shade", 8, ""), ("dim", 8, "")]
    assert not (folder / "out").exists()
    assert not (folder / "c").exists()
    assert call(*words[:6], "--only", "dim")[0] == 0
    rows = json.loads(call(*words)[1])["rows"]
    assert [(row["detector"], row["images"]) for row in rows] == [("shade", 8), ("dim", 0)]


# interruptions, progress


def test_ctrl_c_anywhere_in_a_verb_ends_with_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def studies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "studies", studies)
    assert call("studies") == (130, "", "interrupted\n")


def test_a_reader_that_has_enough_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as closed:  # noqa: PTH123 - a descriptor is no path
        monkeypatch.setattr(sys, "stdout", closed)
        monkeypatch.setattr(sys, "argv", ["detector-bench", "studies", "lyu2025"])
        assert cli.main() == 0


def test_ctrl_c_while_modules_are_imported_is_one_word(tmp_path: Path) -> None:
    stop = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise AssertionError('not stopped')\n"
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "import sys; sys.argv = ['x', 'studies']\nfrom detector_bench_next.__main__ import main\nmain()\n"
    for module in ("typer", "pandas"):  # at the top, and inside a verb
        (tmp_path / f"{module}.py").write_text(stop)
        there = os.pathsep.join([str(tmp_path), *sys.path])
        found = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60,
            env={**os.environ, "PYTHONPATH": there},
        )  # fmt: skip
        assert (found.returncode, found.stderr) == (130, "interrupted\n")
        (tmp_path / f"{module}.py").unlink()


SLOW = """
import time
from detector_bench_next.registry import register
from tests_next.shade_plugin import Shade

@register("detector", "slow")
class Slow(Shade):
    def predict(self, frames):
        time.sleep(0.2 * len(frames))
        return super().predict(frames)
"""


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    write_image_set(tmp_path / "images", images=20)
    path = write_study(tmp_path, tmp_path / "images", "slow", batch_size=2)
    command = [sys.executable, "-m", "detector_bench_next", "run", str(path), "--out", str(tmp_path / "out")]
    command += ["--no-cache", "--plugin", str(tmp_path / "slow.py")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lock = tmp_path / "out" / "predictions" / "_locks"
    while running.poll() is None and not (lock.is_dir() and [*lock.iterdir()]):
        pass
    signal.sigtimedwait([], 1.5)
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=30)
    assert (running.returncode, output) == (130, ""), errors
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    status, _, errors = call(*command[3:])
    assert status == 0
    predicted = int(errors.split(" images predicted")[0])
    assert 0 < predicted < 40


def test_progress_in_a_pipe_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(
        verbs, "quickstart", lambda *, out, progress: [progress(n, 40, n // 2) for n in (10, 20, 40)][3:]
    )
    lines = call("quickstart")[2].splitlines()
    assert [line.partition(", ")[0] for line in lines] == [
        "10 of 40 images (5 from cache)", "20 of 40 images (10 from cache)", "40 of 40 images (20 from cache)",
    ]  # fmt: skip
    assert lines[2].endswith(", 0 s left")
