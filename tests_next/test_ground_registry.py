"""Names for things: by decorator, by target, from another package, from a plugin file; and their sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from detector_bench_next import registry
from detector_bench_next.errors import ConfigError

Write, Lazy = Callable[[str, str], Path], dict[str, str]


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lazy]:
    """Targets of a kind of its own; what is registered is forgotten."""
    kinds = {kind: dict(own) for kind, own in registry._ADDED.items()}
    loaded, path = dict(registry._LOADED), [*sys.path]
    monkeypatch.setitem(registry.BUILT_IN, "thing", {})
    yield registry.BUILT_IN["thing"]
    for now, before in ((registry._ADDED, kinds), (registry._LOADED, loaded)):
        now.clear()  # type: ignore[attr-defined]
        now.update(before)  # type: ignore[attr-defined]
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("tried_")]:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lazy: Lazy) -> Write:
    """Writes modules that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def made(name: str, text: str) -> Path:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
        return tmp_path / name

    return made


def test_things_come_by_a_decorator_or_by_a_target_that_is_imported_when_asked_for(
    write: Write, lazy: Lazy
) -> None:
    assert registry.register("thing", "it", better="lower")(_Other) is _Other
    entry = registry.find("thing", "it")
    assert (entry.thing, entry.facts, _Other.kind) == (_Other, {"better": "lower"}, "it")
    write("tried_lazy.py", "class Outer:\n    class Inner: pass\n")
    lazy["lazy"] = "tried_lazy:Outer.Inner"
    assert registry.names("thing") == ["it", "lazy"]
    assert "tried_lazy" not in sys.modules
    assert registry.find("thing", "lazy").thing.__qualname__ == "Outer.Inner"
    with pytest.raises(ConfigError, match=r"unknown thing 'lazi': did you mean 'lazy'\?"):
        registry.find("thing", "lazi")


@pytest.mark.parametrize("text", ["", "import tried_absent", "class Thing(", "raise SystemExit('no licence')"])
def test_an_import_that_fails_can_be_tried_again(write: Write, lazy: Lazy, text: str) -> None:
    path, lazy["it"] = write("tried_failing.py", text), "tried_failing:Thing"
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^thing 'it' cannot be loaded from 'tried_failing:Thing': [A-Z]"):
            registry.find("thing", "it")
    path.write_text("class Thing:\n    version = 2\n")
    sys.modules.pop("tried_failing", None)
    assert registry.find("thing", "it").thing.version == 2


def test_a_name_is_taken_once(write: Write, lazy: Lazy) -> None:
    def define() -> type:
        class Local:
            pass

        return Local

    write("tried_again.py", "class Thing: pass")
    lazy["lazy"] = "tried_again:Thing"
    import tried_again  # type: ignore[import-not-found]

    registry.register("thing", "lazy", tried_again.Thing)
    exec("class Thing: pass", vars(tried_again))  # noqa: S102 - a notebook's cell that is run twice
    registry.register("thing", "lazy", tried_again.Thing)
    assert registry.find("thing", "lazy").thing is tried_again.Thing
    with pytest.raises(ConfigError, match=rf"as 'tried_again:Thing' and as '{__name__}:_Other'; give each a name"):
        registry.register("thing", "lazy", _Other)
    registry.register("thing", "local", define())
    with pytest.raises(ConfigError, match="registered twice"):  # what a function defines twice is two things
        registry.register("thing", "local", define())
    registry.register("thing", "value", 1)
    with pytest.raises(ConfigError, match="as '1' and as '2'"):
        registry.register("thing", "value", 2)


class _Other:
    kind = ""


def _install(folder: Path, name: str, files: dict[str, str], points: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)


def _python(code: str, *paths: Path) -> str:
    here = Path(registry.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*paths, here)))}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


def test_another_package_brings_things_and_cannot_take_a_name(tmp_path: Path) -> None:
    tiny = (
        "from detector_bench_next.registry import register as r\n@r('table', 'tiny', rows=3)\ndef tiny(): pass\n"
    )
    files = {"tiny/__init__.py": "from tiny.deep import tiny", "tiny/deep.py": tiny}
    _install(tmp_path, "tiny", files, "[detector_bench.tables]\ntiny = tiny:tiny\n")
    code = """if True:
        import sys; from detector_bench_next import registry
        print("tiny" in registry.names("table"), "tiny" in sys.modules)
        entry = registry.find("table", "tiny")
        print(entry.facts, entry.module, len(registry.source_of(entry.thing)))"""
    assert _python(code, tmp_path) == "True False\n{'rows': 3} tiny.deep 64\n"
    _install(tmp_path, "rival", {"rival.py": ""}, "[detector_bench.tables]\ntiny = rival:tiny\n")
    _install(tmp_path, "thief", {}, "[detector_bench.detectors]\ntable = thief:Table\n")
    code = """if True:
        from detector_bench_next import registry
        for kind, name in (("table", "tiny"), ("detector", "table")) * 2:
            try:
                registry.find(kind, name)
            except registry.ConfigError as error:
                print(error)"""
    tables, detectors, *again = _python(code, tmp_path).splitlines()
    assert again == [tables, detectors]
    assert "'tiny:tiny' (package tiny)" in tables
    assert "'rival:tiny' (package rival)" in tables
    assert "detectors.table:Table' and as 'thief:Table' (package thief)" in detectors


_PLUGIN = """
{imports}
from detector_bench_next.registry import register

@register("thing", "it")
class Thing:
    number = {number}
"""


def test_a_plugin_is_recorded_and_its_copy_loads_in_a_process_whose_folder_is_elsewhere(
    write: Write, tmp_path: Path
) -> None:
    text = "from detector_bench_next.registry import register\nregister('thing', 'two', 2)\nLIMIT = 3"
    beside = write("tried_beside.py", text)
    path = write("plug.py", _PLUGIN.format(imports="from tried_beside import LIMIT", number="LIMIT"))
    registry.load_plugin(path)
    plugin = registry.plugins()[-1]
    assert plugin[:2] == ("plug.py", path.resolve())
    assert plugin.adds == {"thing": ("two", "it")}
    assert plugin.files == {"plug.py": path.resolve(), "tried_beside.py": beside.resolve()}
    (tmp_path / "job").mkdir()
    for name, file in plugin.files.items():
        shutil.copyfile(file, tmp_path / "job" / name)
    code = f"""if True:
        from pathlib import Path; from detector_bench_next import registry
        registry.load_plugin(Path({str(tmp_path / "job" / "plug.py")!r}))
        thing = registry.find("thing", "it").thing
        print(thing.number, registry.source_of(thing))"""
    assert _python(code) == f"3 {plugin.sha256}\n"
    registry.load_plugin(path)
    registry.load_plugin(tmp_path / "job" / "plug.py")  # the same, from elsewhere
    assert registry.plugins()[-1] == plugin


def test_two_saves_within_a_second_are_two_versions(write: Write) -> None:
    found = {}
    for number in (1, 2):
        path = write("quick.py", _PLUGIN.format(imports="", number=number))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        registry.load_plugin(path)
        found[registry.find("thing", "it").thing.number] = registry.plugins()[-1].sha256
    assert list(found) == [1, 2]
    assert found[1] != found[2] == registry.source_of(registry.find("thing", "it").thing)
    assert sum(plugin.file == "quick.py" for plugin in registry.plugins()) == 1


@pytest.mark.parametrize(
    ("imports", "changed", "counts"),
    [
        ("import tried_first", "tried_second.py", True),  # which `tried_first` imports
        ("def late():\n    from tried_folder.below import LIMIT", "tried_folder/below.py", True),
        ("import tried_first, numpy", "tried_unrelated.py", False),
    ],
)
def test_what_a_plugin_imports_from_its_folder_counts(
    write: Write, imports: str, changed: str, counts: bool
) -> None:
    write("tried_first.py", "import tried_second\n")
    for name in ("tried_second.py", "tried_unrelated.py", "tried_folder/__init__.py", "tried_folder/below.py"):
        write(name, "LIMIT = 1\n")
    sources = []
    for limit in (1, 2):
        write(changed, f"LIMIT = {limit}\n")
        registry.load_plugin(write("plug.py", _PLUGIN.format(imports=imports, number=1)))
        sources.append(registry.plugins()[-1].sha256)
    assert (sources[0] != sources[1]) == counts


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nimport tried_gone\n", ", line 2: ModuleNotFoundError: No module named 'tried_gone'; mend it"),
        ("def f(:\n", "line 1); mend it"),
        ("import sys\n\nsys.exit(3)\n", ", line 3: SystemExit: 3; mend it"),
        ("a = 1\n\0", "null bytes; mend it"),
        (
            "import detector_bench_next.registry as r\nr.register('detector', 'table', 1)",
            ", line 2: detector 'table' is",
        ),
    ],
)
def test_a_plugin_that_fails_is_told_in_one_line_with_its_place(write: Write, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        registry.load_plugin(path := write("bad.py", text))
    assert str(raised.value).startswith(f"--plugin {path}")
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    for other in (path.parent, path / "x.py", Path("\0.py"), Path("x" * 5000 + ".py")):
        with pytest.raises(ConfigError, match="is no Python file"):
            registry.load_plugin(other)


def test_a_things_own_text_counts_where_it_has_no_file(lazy: Lazy) -> None:
    def cell(number: int) -> str | None:
        space: dict[str, type] = {"__name__": "__notebook__"}
        exec(f"class Mine:\n    limit = {number}\n", space)  # noqa: S102
        return registry.source_of(space["Mine"])

    assert cell(1) == cell(1) != cell(2)
