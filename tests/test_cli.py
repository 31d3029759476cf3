"""The command line: it only calls, says what went wrong in a line, and ends with the right status."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from filelock import FileLock
from small_parts import write_image_set, write_tables

from detector_bench import __version__
from detector_bench.cli import studies
from detector_bench.cli.app import app

PLUGIN = Path(__file__).with_name("small_parts.py")
COUNT = 8

Command = Callable[..., tuple[int, str, str]]


def in_a_process(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, as a user without a terminal does."""
    return subprocess.run(
        [sys.executable, "-m", "detector_bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_image_set(tmp_path / "images", COUNT)
    (tmp_path / "study.yaml").write_text("image_set: images\ndetectors: [test-colour, test-brightness]\n")
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and its results in `out`, made by the command line."""
    folder = tmp_path_factory.mktemp("finished")
    images = write_image_set(folder / "images", COUNT)
    (images / "images" / "image_004.png").write_bytes(b"no image, really, only some text")
    (folder / "study.yaml").write_text("image_set: images\nbatch_size: 3\ndetectors: [test-colour]\n")
    result = in_a_process(
        "run", folder / "study.yaml", "-o", folder / "out", "--plugin", PLUGIN, "--cache-dir", folder / "cache"
    )
    (folder / "stdout").write_text(result.stdout)
    (folder / "stderr").write_text(result.stderr)
    assert result.returncode == 0, result.stderr
    return folder


# --- help


def all_commands() -> list[list[str]]:
    def below(group: Any, path: list[str]) -> Iterator[list[str]]:
        for name in group.list_commands(None):
            yield [*path, name]
            found = group.get_command(None, name)
            if hasattr(found, "list_commands"):
                yield from below(found, [*path, name])

    return list(below(typer.main.get_command(app), []))


@pytest.mark.parametrize("path", all_commands(), ids=" ".join)
def test_every_command_has_a_help_text_with_an_example(command: Command, path: list[str]) -> None:
    status, output, errors = command(*path, "--help")
    assert status == 0
    assert errors == ""
    assert f"detector-bench {' '.join(path)}" in output.split("Example")[1]
    assert "Placeholder" not in output


def test_the_commands_are_those_of_the_documentation() -> None:
    assert sorted(" ".join(path) for path in all_commands()) == [
        "agreement",
        "audit",
        "biaspainter",
        "biaspainter mitigation",
        "biaspainter neutrality",
        "biaspainter rating-sheet",
        "biaspainter sample",
        "biaspainter sheets",
        "biaspainter thresholds",
        "biaspainter validity",
        "bigbench",
        "bigbench check",
        "bigbench convert",
        "bigbench score",
        "calibrate",
        "card",
        "causes",
        "check",
        "compare",
        "conformance",
        "detectors",
        "detectors check",
        "detectors list",
        "detectors new",
        "detectors try",
        "environments",
        "environments list",
        "environments make",
        "environments remove",
        "estimate",
        "evaluate",
        "export",
        "export coco",
        "export fiftyone",
        "export huggingface",
        "export jsonl",
        "figures",
        "generate",
        "generations",
        "generations list",
        "generations remake",
        "generations show",
        "halves",
        "imagebite",
        "imagebite check",
        "imagebite checks",
        "import",
        "label",
        "labels",
        "labels agreement",
        "labels export",
        "labels import",
        "pack",
        "plan",
        "prompts",
        "quickstart",
        "rank",
        "recipes",
        "recipes copy",
        "recipes list",
        "recipes show",
        "report",
        "reproduce",
        "reproduce biaspainter",
        "reproduce bigbench",
        "reproduce imagebite",
        "reproduce lyu2025",
        "run",
        "sample",
        "search",
        "shards",
        "spending",
        "studies",
        "studies copy",
        "studies list",
        "sweep",
        "taxonomies",
        "trust",
        "trust code",
        "trust host",
        "trust key",
        "trust list",
        "trust python",
        "trust remove",
        "verify",
        "weights",
        "weights add",
        "weights fetch",
        "weights list",
        "weights verify",
    ]


def test_without_a_command_the_help_is_shown(command: Command) -> None:
    _, output, errors = command()
    assert "Commands" in output + errors
    assert "evaluate" in output + errors


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version") == (0, f"detector-bench {__version__}\n", "")


def test_the_console_script_is_the_same_program() -> None:
    script = Path(sys.executable).with_name("detector-bench")
    if not script.exists():
        pytest.skip("detector-bench is not installed into this environment")
    for start in ([str(script)], [sys.executable, "-m", "detector_bench"]):
        result = subprocess.run([*start, "--version"], capture_output=True, text=True, check=True)
        assert result.stdout == f"detector-bench {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run"], "Missing argument"),
        (["run", "study.yaml"], "Missing option '--out'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["run", "study.yaml", "--out", "x", "--no-such-option"], "No such option"),
        (["evaluate"], "Missing argument 'DIR'"),
    ],
)
def test_a_wrong_call_ends_with_status_2(command: Command, arguments: list[str], complaint: str) -> None:
    status, output, errors = command(*arguments)
    assert status == 2
    assert complaint in errors
    assert output == ""


# --- run


def test_a_run_prints_its_tables_to_standard_output_and_the_rest_to_standard_error(finished: Path) -> None:
    output = (finished / "stdout").read_text()
    errors = (finished / "stderr").read_text()
    for heading in ("Filtering of low-quality images", "Model bias scores", "Prompt bias score difference"):
        assert heading in output
    assert output.splitlines()[-1] == (
        f"Everything is in {finished / 'out'}: metrics.csv, tables/, predictions/, run.json"
    )
    assert "\x1b" not in output + errors, "no colours where there is no terminal"
    assert "test-colour, gender: 1 image ended in an error" in errors


def test_progress_without_a_terminal_is_lines(finished: Path) -> None:
    [line, _] = (finished / "stderr").read_text().splitlines()
    assert line.startswith("8 of 8 images, ")
    assert line.endswith(" images/s; clear 5 filtered 2 error 1")


@pytest.mark.slow
def test_running_again_says_that_there_is_little_to_do(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    arguments = ["run", tmp_path / "copy" / "study.yaml", "-o", tmp_path / "copy" / "out", "--plugin", PLUGIN]
    result = in_a_process(*arguments, DETECTOR_BENCH_CACHE=str(tmp_path / "cache"))
    assert result.returncode == 0
    # The copy has other files, so that nothing is known of them but their content; the broken one is tried again.
    assert result.stderr.splitlines()[0] == "7 of 8 images are judged already"
    (tmp_path / "copy" / "images" / "images" / "image_004.png").unlink()
    write_tables(tmp_path / "copy" / "images", [0, 1, 2, 3])
    again = in_a_process(*arguments, "--no-cache", "--changed-inputs")
    assert again.returncode == 0
    assert again.stderr.splitlines() == ["4 of 4 images are judged already; nothing to run"]


def test_all_options_of_a_run_reach_the_study(command: Command, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "images", tmp_path / "others")
    write_tables(tmp_path / "others", [1, 4])
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "factor.txt").write_text("1.0")
    (folder / "study.yaml").write_text(
        "image_set: images\ndetectors: [{name: w, kind: test-weighted, factor: factor.txt}]\n"
    )
    arguments = ["run", folder / "study.yaml", "--out", folder / "out", "--image-set", tmp_path / "others"]
    arguments += ["--n-clear", "human", "--cache-dir", tmp_path / "my-cache"]
    status, _, errors = command(*arguments)
    assert (status, "'factor.txt' not found" in errors) == (1, True)

    status, _, _ = command(*arguments, "--weights-dir", weights)
    assert status == 0
    written = (folder / "out" / "study.yaml").read_text()
    assert "n_clear: human" in written
    assert "image_set: others" in written
    assert (tmp_path / "my-cache" / "stages.sqlite").is_file()

    status, _, _ = command(
        *arguments[:-2], "--weights-dir", weights, "--no-cache", "--cache-dir", tmp_path / "none"
    )
    assert status == 0
    assert not (tmp_path / "none").exists()


def test_a_path_with_brackets_is_printed_as_it_is(command: Command, folder: Path) -> None:
    out = folder / "results [red] [/bold]"
    status, output, _ = command("run", folder / "study.yaml", "--out", out)
    assert status == 0
    assert f"Everything is in {out}:" in output


# --- mistakes


def test_some_of_a_studys_detectors_are_chosen_by_name(command: Command, folder: Path) -> None:
    arguments = ["run", folder / "study.yaml", "--cache-dir", folder / "cache", "--out"]
    assert command(*arguments, folder / "one", "--without", "test-brightness")[0] == 0
    assert command(*arguments, folder / "two", "--only", "test-brightness")[0] == 0
    assert [path.name for path in (folder / "one" / "predictions").glob("test-*")] == ["test-colour"]
    assert [path.name for path in (folder / "two" / "predictions").glob("test-*")] == ["test-brightness"]
    status, _, said = command(*arguments, folder / "three", "--only", "test-color")
    assert status == 1
    assert "no detector 'test-color' in this study: did you mean 'test-colour'" in said


@pytest.mark.slow
def test_one_of_a_studys_attributes_is_chosen_by_name(command: Command, folder: Path) -> None:
    study = folder / "both.yaml"
    study.write_text("image_set: images\nattributes: [gender, age]\ndetectors: [test-age-and-gender]\n")
    arguments = ["run", study, "--no-cache", "--out", folder / "one"]
    status, _, said = command(*arguments)
    assert (status, "no image of age has a label" in said) == (0, True)
    assert command(*arguments, "--attribute", "gender")[0] == 0
    metrics = pd.read_csv(folder / "one" / "metrics.csv")
    assert set(metrics["attribute"]) == {"gender"}
    status, _, said = command(*arguments, "--attribute", "agee")
    assert (status, "no attribute 'agee' in this study: did you mean 'age'" in said) == (1, True)


def test_mistakes_are_one_line_on_standard_error_without_a_traceback(folder: Path) -> None:
    result = in_a_process("run", folder / "none.yaml", "--out", folder / "out")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"error: there is no file '{folder / 'none.yaml'}'\n"


def mistaken_study(folder: Path) -> list[str | Path]:
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [test-color]\n")
    return ["run", folder / "study.yaml", "--out", folder / "out"]


def missing_image_set(folder: Path) -> list[str | Path]:
    return ["run", folder / "study.yaml", "--out", folder / "out", "--image-set", folder / "nowhere"]


def wrong_label(folder: Path) -> list[str | Path]:
    labels = folder / "images" / "labels.csv"
    labels.write_text(labels.read_text().replace(",male,", ",man,", 1))
    return ["run", folder / "study.yaml", "--out", folder / "out"]


def result_folder_is_a_file(folder: Path) -> list[str | Path]:
    return ["run", folder / "study.yaml", "--out", folder / "study.yaml"]


def evaluation_folder_is_a_file(folder: Path) -> list[str | Path]:
    _ran(folder)
    return ["evaluate", folder / "ran", "--out", folder / "study.yaml"]


def cache_folder_is_a_file(folder: Path) -> list[str | Path]:
    return ["run", folder / "study.yaml", "--out", folder / "out", "--cache-dir", folder / "study.yaml"]


def damaged_cache(folder: Path) -> list[str | Path]:
    (folder / "stages.sqlite").write_text("not a database" * 100)
    return ["run", folder / "study.yaml", "--out", folder / "out", "--cache-dir", folder]


def missing_weights_folder(folder: Path) -> list[str | Path]:
    return ["run", folder / "study.yaml", "--out", folder / "out", "--weights-dir", folder / "nowhere"]


def wrong_denominator(folder: Path) -> list[str | Path]:
    return ["run", folder / "study.yaml", "--out", folder / "out", "--n-clear", "both"]


def missing_plugin(folder: Path) -> list[str | Path]:
    return ["run", folder / "study.yaml", "--out", folder / "out", "--plugin", folder / "none.py"]


def failing_plugin(folder: Path) -> list[str | Path]:
    (folder / "plugin.py").write_text("import no_such_package\n")
    return ["run", folder / "study.yaml", "--out", folder / "out", "--plugin", folder / "plugin.py"]


def no_predictions(folder: Path) -> list[str | Path]:
    return ["evaluate", folder / "nowhere", "--study", folder / "study.yaml", "--out", folder / "out"]


def damaged_predictions(folder: Path) -> list[str | Path]:
    store = folder / "out" / "predictions" / "test-colour"
    store.mkdir(parents=True)
    (store / "predictions.parquet").write_bytes(b"PAR1 and no more")
    return ["evaluate", folder / "out", "--study", folder / "study.yaml", "--out", folder / "elsewhere"]


def _ran(folder: Path) -> None:
    from detector_bench.study import Study

    Study.from_yaml(folder / "study.yaml").run(folder / "ran")


MISTAKES: dict[Callable[[Path], list[str | Path]], str] = {
    mistaken_study: "study.yaml: unknown detector 'test-color': did you mean 'test-colour'",
    missing_image_set: "there is no folder",
    wrong_label: "labels.csv, row 2, column label: ",
    result_folder_is_a_file: "cannot write to",
    evaluation_folder_is_a_file: "cannot write",
    cache_folder_is_a_file: "the stage cache",
    damaged_cache: "file is not a database; name another folder",
    missing_weights_folder: "--weights-dir: there is no folder",
    wrong_denominator: "n_clear is 'detector' or 'human'; got 'both'",
    missing_plugin: "is not a Python file",
    failing_plugin: "ModuleNotFoundError: No module named 'no_such_package'",
    no_predictions: "no predictions in",
    damaged_predictions: "cannot be read",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_what_the_user_can_mend_ends_with_status_1_and_a_message(
    command: Command, folder: Path, mistake: Callable[[Path], list[str | Path]]
) -> None:
    status, output, errors = command(*mistake(folder))
    assert status == 1
    assert output == ""
    assert errors.startswith("error: ")
    assert MISTAKES[mistake] in errors
    assert "Traceback" not in errors


def test_a_long_message_is_not_broken_into_lines(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = folder / ("a_very_long_name_" * 8 + ".yaml")
    _, _, errors = command("run", path, "--out", folder / "out")
    assert errors.splitlines() == [f"error: there is no file '{path}'"]


def test_a_message_with_brackets_is_printed_as_it_is(command: Command, folder: Path) -> None:
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [[red], test-colour]\n")
    _, _, errors = command("run", folder / "study.yaml", "--out", folder / "out")
    assert errors.endswith("a detector is its name, or a mapping; got ['red']\n")


@pytest.mark.slow
def test_a_locked_result_folder_is_one_message(command: Command, folder: Path) -> None:
    predictions = folder / "out" / "predictions"
    predictions.mkdir(parents=True)
    with FileLock(predictions / ".lock"):
        status, _, errors = command("run", folder / "study.yaml", "--out", folder / "out")
        assert (status, errors) == (1, f"error: another run writes to '{predictions}' right now\n")
    status, _, _ = command("run", folder / "study.yaml", "--out", folder / "out")
    assert status == 0, "the lock goes with who held it"


@pytest.mark.parametrize("where", ["loaded", "_print"])
def test_ctrl_c_anywhere_ends_with_status_130(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, where, interrupted)
    status, _, errors = command("run", folder / "study.yaml", "--out", folder / "out")
    assert status == 130
    assert errors.splitlines()[-1] == "interrupted"


def test_ctrl_c_while_commands_are_imported_is_one_word(tmp_path: Path) -> None:
    # A module in the place of one that the commands need, which is being imported when Ctrl-C comes.
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise AssertionError('not stopped')\n"
    )
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from detector_bench.cli import main\n"
        "main()\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stderr) == (130, "interrupted\n")


# --- studies by name


def test_a_study_that_comes_along_runs_by_its_name(command: Command, folder: Path, tmp_path: Path) -> None:
    for arguments in (["run", "lyu2025"], ["audit", "lyu2025"]):
        status, output, errors = command(*arguments, "--out", tmp_path / "out")
        assert (status, output) == (1, "")
        assert errors == (
            "error: the study 'lyu2025' needs images, it brings none: say with --image-set DIR which ones it is "
            "to judge (in Python: image_set=)\n"
        )
    status, _, errors = command("run", "lyu2025", "--out", tmp_path / "out", "--image-set", tmp_path / "none")
    assert (status, errors) == (1, f"error: there is no folder '{tmp_path / 'none'}'\n")
    status, output, _ = command("weights", "list", "--study", "lyu2025")
    assert status == 0
    assert "yolov8x.pt" in output


def test_of_a_file_and_a_study_of_one_name_the_file_is_taken_and_said(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "study.yaml").rename(folder / "quickstart")
    status, _, errors = command("run", "quickstart", "--out", folder / "out", "--no-cache")
    assert status == 0
    assert "'quickstart' is a file here and a study that comes along: the file is taken" in errors
    assert (folder / "out" / "predictions" / "test-colour").is_dir()


@pytest.mark.slow
def test_the_quickstart_is_a_study_by_name(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    for call in (["run", "quickstart"], ["quickstart"]):
        status, _, errors = command(*call, "--out", tmp_path / call[0])
        assert status == 0, errors
    one, other = ((tmp_path / name / "metrics.csv").read_bytes() for name in ("run", "quickstart"))
    assert one == other


# --- plugins and evaluate


@pytest.mark.slow
def test_a_plugin_file_brings_its_detectors(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from detector_bench.detectors import Prediction, detector\n\n"
        "@detector('everyone-is-male', attributes=['gender'])\n"
        "class EveryoneIsMale:\n"
        "    '''Says male, whatever it sees.'''\n\n"
        "    def predict(self, batch):\n"
        "        return [Prediction.clear(frame, 'gender', 'male') for frame in batch]\n"
    )
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [everyone-is-male, test-colour]\n")
    arguments = ["run", folder / "study.yaml", "--out", folder / "out", "--no-cache"]
    result = in_a_process(*arguments, "--plugin", tmp_path / "mine.py", "--plugin", PLUGIN)
    assert result.returncode == 0, result.stderr
    assert "everyone-is-male" in result.stdout

    listed = in_a_process("detectors", "everyone-is-male", "--plugin", tmp_path / "mine.py", COLUMNS="200")
    assert "Says male, whatever it sees." in " ".join(listed.stdout.split())


@pytest.mark.slow
def test_evaluate_needs_no_plugin(finished: Path, tmp_path: Path) -> None:
    result = in_a_process("evaluate", finished / "out", "--out", tmp_path / "again")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "again" / "metrics.csv").read_bytes() == (finished / "out" / "metrics.csv").read_bytes()
    assert (
        result.stdout.splitlines()[-1] == f"Everything is in {tmp_path / 'again'}: metrics.csv, tables/, run.json"
    )
    assert "1 image ended in an error" in result.stderr


@pytest.mark.slow
def test_evaluate_refuses_incomplete_predictions_unless_told(command: Command, folder: Path) -> None:
    write_tables(folder / "images", range(COUNT - 2))
    _ran(folder)
    write_tables(folder / "images", range(COUNT))
    arguments = ["evaluate", folder / "ran", "--out", folder / "again"]
    status, output, errors = command(*arguments)
    assert (status, output) == (1, "")
    assert "test-colour: 2 of 8 images without a prediction, the first is 'image_006'" in errors
    assert "test-brightness: 2 of 8 images without a prediction" in errors
    assert "run `detector-bench run` again: it judges only what is missing" in errors
    assert re.search("leave these images out.* with .*allow.incomplete", errors)
    assert not (folder / "again").exists()

    status, _, _ = command(*arguments, "--allow-incomplete")
    assert status == 0
    assert (folder / "again" / "metrics.csv").is_file()
