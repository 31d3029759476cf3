"""Command line: every option arrives, what goes wrong is told in a line, and the exit status is the right one."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from typer.testing import CliRunner

import detector_bench_next as db
from detector_bench_next import cli, verbs
from detector_bench_next.engines import Claimed
from detector_bench_next.study import Study
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


def here(folder: Path, text: str) -> list[str]:
    """Words of a command in which HERE is a folder."""
    return [word.replace("HERE", str(folder)) for word in shlex.split(text)]


def process(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as a user without a terminal runs it."""
    command = [sys.executable, "-m", "detector_bench_next", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


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


def sample(annotation: str) -> tuple[list[str], Any]:
    """Words for a parameter's value, none of which is a default, and the value."""
    kind = get_args(eval(annotation, vars(verbs)))[0]  # noqa: S307 - our own source
    if get_origin(kind) in (Sequence, Literal):
        own, values = get_args(kind)[-1], ("a=b", "c")
        return (list(values), [own(v) for v in values]) if get_origin(kind) is Sequence else ([own], own)
    (own,) = [own for own in get_args(kind) or (kind,) if own is not type(None)]
    text = {int: "7", float: "2.5"}.get(own, "some/path")
    return ([], True) if own is bool else ([text], own(text))


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_and_argument_arrives(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    words, wanted = path_of(verb), {}
    for name, own in inspect.signature(VERBS[verb]).parameters.items():
        if own.annotation.startswith("Hidden["):
            continue
        texts, wanted[name] = sample(own.annotation)
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
    assert "quickstart" in {row["study"] for row in db.studies()}
    with pytest.raises(TypeError, match="result"):
        db.evaluate()
    assert db.detector("shade", bright_above=9).bright_above == 9
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
    (folder / "own.py").write_text("")
    first = here(folder, "run HERE/study.yaml --out HERE/out")
    words = "--image-set HERE/images --weights-dir HERE/w --cache-dir HERE/c --without dim --set batch_size=5 "
    words += "--set detectors.shade.bright_above=7 --allow example.org --budget 1.5 --workers 2 --shards 3 "
    assert call(*first, *here(folder, words + "--plugin HERE/own.py"))[0] == 1, "shard 1 is held"
    job, (workers, progress) = found
    assert job.detectors == ({"name": "shade", "kind": "shade", "bright_above": 7},)
    assert (job.image_set, job.out, job.weights_dir) == (folder / "images", folder / "out", folder / "w")
    assert (job.cache_dir, job.shards, job.batch_size, job.allow) == (folder / "c", 3, 5, ("example.org",))
    assert (job.budget, job.plugins[-1:], workers) == (1.5, (folder / "own.py",), 2)
    assert callable(progress)

    assert call(*first, *here(folder, "--only dim --no-cache --engine ray --address auto --quiet"))[0] == 1
    job, others = found
    assert ([entry["name"] for entry in job.detectors], job.cache_dir, others) == (["dim"], None, (1, "auto"))
    status, output, errors = call(*first, "--shard", "2/3")
    assert (status, errors) == (0, "")
    assert output == "shard 1 of 3: with other processes; who ends last writes the results\n"
    assert (found[0].shards, found[1][0].number) == (3, 2)


def test_a_slurm_script_hands_the_call_on(folder: Path) -> None:
    (folder / "mine.py").write_text("")
    own = "--set n_clear=human --only dim --no-cache --budget 2.0 --plugin HERE/mine.py"
    words = f"run HERE/study.yaml --out HERE/out {own} --shards 4 --slurm HERE/job.sh"
    status, output, errors = call(*here(folder, words))
    assert (status, errors) == (0, "")
    assert f"sbatch {folder / 'job.sh'}" in output
    script = " ".join((folder / "job.sh").read_text().replace("\\\n", "").split())
    for part in (*re.findall("--[^-]+(?<! )", own), "--array=1-4"):
        assert part.replace("HERE", str(folder)) in script
    assert subprocess.run(["bash", "-n", folder / "job.sh"], check=False).returncode == 0
    assert not (folder / "out" / "predictions").exists()


def test_options_of_evaluate_reach_the_numbers(done: Path, folder: Path) -> None:
    write_image_set(folder / "others", annotators=("one", "two"))
    words = here(folder, "evaluate HERE/done --out HERE/again --image-set HERE/others --set n_clear=human")
    status, output, _ = call(*words, "--only", "shade", "--json")
    assert status == 0
    assert {row["detector"] for row in json.loads(output)["rows"]} == {"shade"}
    written = yaml.safe_load((folder / "again" / "study.yaml").read_text())
    assert (written["n_clear"], written["image_set"], len(written["detectors"])) == ("human", "others", 1)
    assert call(*words, "--without", "shade", "--study", folder / "study.yaml")[0] == 0
    assert yaml.safe_load((folder / "again" / "study.yaml").read_text())["detectors"][0]["name"] == "dim"


def test_evaluate_needs_no_plugin(done: Path) -> None:
    before = (done / "metrics.csv").read_bytes()
    study = done / "study.yaml"
    study.write_text(study.read_text().replace("kind: shade", "kind: of_a_plugin"))
    assert call("evaluate", done)[0] == 0
    assert (done / "metrics.csv").read_bytes() == before


# help, groups, exit statuses


def test_help_costs_little() -> None:
    program = "import sys\nfrom detector_bench_next.__main__ import main\nsys.argv[0] = 'x'\nmain()\n"
    program += "print(*sys.modules, file=sys.stderr)"
    for words in (["--help"], ["run", "--help"], ["detectors", "--help"]):
        found = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        loaded = set(found.stderr.split())
        own = {name.partition(".")[2] for name in loaded if name.startswith("detector_bench_next.")}
        assert own == {"__main__", "cli", "verbs"}
        assert not {"numpy", "pandas", "yaml", "rich", "pyarrow"} & loaded, "typer itself needs pydantic"


def test_a_group_shows_what_is_named_without_the_word_show(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {"name": "", "study": "", "weights_dir": None, "allow": []}
    assert given_to("detectors", ["detectors"], monkeypatch) == alone
    assert given_to("detectors", ["detectors", "clip"], monkeypatch) == {**alone, "name": "clip"}
    assert given_to("detectors", ["detectors", "--study", "x"], monkeypatch) == {**alone, "study": "x"}
    assert given_to("detectors_new", ["detectors", "new", "mine"], monkeypatch)["name"] == "mine"
    assert "new" in call("detectors", "--help")[1]


MISTAKES = yaml.safe_load(Path(__file__).with_name("bad_calls.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", MISTAKES)
def test_what_the_user_can_mend_is_one_line_and_status_1_and_a_wrong_call_is_2(folder: Path, case: str) -> None:
    wrong = MISTAKES[case]
    if "done" in wrong:
        Study.open(folder / "study.yaml").run(folder / "done", use_cache=False)
    for name, text in wrong.get("write", {}).items():
        (folder / name).write_text(text)
    for name, (old, new) in wrong.get("change", {}).items():
        (folder / name).write_text((folder / name).read_text().replace(old, new, 1))
    status, output, errors = call(*here(folder, wrong["call"]))
    assert (status, output) == (wrong.get("status", 1), "")
    line = errors
    if status == 1:
        (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in errors
    assert all(part in line for part in wrong["told"]), line


def test_the_version_and_the_commands_are_shown() -> None:
    assert call("--version") == (0, f"detector-bench {db.__version__}\n", "")
    assert "quickstart" in "".join(call()[1:])


def test_a_long_message_with_brackets_is_printed_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = folder / ("a long [red] name " * 5 + ".yaml")
    assert str(path) in call("run", path, "--out", folder / "out")[2].splitlines()[0]


def test_what_a_run_prints(folder: Path) -> None:
    words = here(folder, f"run HERE/study.yaml --out 'HERE/out [red]' --cache-dir HERE/c --plugin {PLUGIN}")
    found = process(*words, env={**os.environ, "COLUMNS": "40"})
    assert (found.returncode, found.stderr) == (0, "8 images predicted\n")
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
    words = here(folder, "run HERE/study.yaml --out HERE/out --cache-dir HERE/c --dry-run --json")

    def left() -> list[tuple[str, int, str]]:
        return [(row["detector"], row["images"], row["lacks"]) for row in json.loads(call(*words)[1])["rows"]]

    assert left() == [("shade", 8, ""), ("dim", 8, "")]
    assert sorted(path.name for path in folder.iterdir()) == ["images", "study.yaml"]
    assert call(*words[:-2], "--only", "dim")[0] == 0
    assert left() == [("shade", 8, ""), ("dim", 0, "")]


def test_a_dry_run_says_how_much_is_to_be_fetched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "net.onnx").write_bytes(b"x" * 2_500_000)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/net.onnx"
        net = {"name": "net", "kind": "image_classifier", "input": {"size": [8, 8]}}
        net |= {"model": {"path": "away.onnx", "sha256": "0" * 64, "url": url}}
        net |= {"outputs": {"gender": {"output": "p", "classes": ["male", "female"]}}}
        path = write_study(folder / "sub", folder / "images", net)
        (row,) = json.loads(call("run", path, "--out", folder / "out", "--dry-run", "--json")[1])["rows"]
        server.shutdown()
    assert (row["lacks"], row["fetches"], row["sends_to"]) == ("", "away.onnx (2.5 MB)", "")


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
    for module in ("typer", "numpy"):  # at the top, and inside a verb
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
from detector_bench_next.registry import find, register

@register("detector", "slow")
class Slow(find("detector", "shade").thing):
    def predict(self, frames):
        time.sleep(0.2 * len(frames))
        return super().predict(frames)
"""


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    write_image_set(tmp_path / "images", images=20)
    write_study(tmp_path, tmp_path / "images", "slow", batch_size=2)
    plugins = f"--plugin {PLUGIN} --plugin HERE/slow.py"
    words = here(tmp_path, f"run HERE/study.yaml --out HERE/out --no-cache {plugins}")
    command = [sys.executable, "-m", "detector_bench_next", *words]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not [*tmp_path.glob("out/predictions/_locks/*")]:
        time.sleep(0.1)
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=30)
    assert (running.returncode, output) == (130, ""), errors
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    status, _, errors = call(*words)
    assert (status, 0 < int(errors.split(" images predicted")[0]) < 40) == (0, True)


def test_progress_in_a_pipe_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    def quickstart(*, out: Path, progress: Any) -> None:
        progress(20, 40, 10)
        progress(40, 40, 20)

    monkeypatch.setattr(cli, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(verbs, "quickstart", quickstart)
    first, last = call("quickstart")[2].splitlines()
    assert first.startswith("20 of 40 images (10 from cache), ")
    assert last == "40 of 40 images (20 from cache), 0 s left"
