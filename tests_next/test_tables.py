"""Tables: the golden ones as CSV and Markdown, every form, display names, own ones, and notes."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from detector_bench_next import metrics as M
from detector_bench_next import registry
from detector_bench_next import tables as T
from detector_bench_next.errors import ConfigError
from detector_bench_next.results import Results
from detector_bench_next.tables import Cell, Col, Table, declare, fixed, heading_lines
from tests_next.counted import cells_of, counted_of, hostile, portraits, results_of

GONE = ("bias_errors", "bias_estimates", "corrected", "prompt_bias_error", "model_bias_score_error")


@pytest.fixture(scope="module")
def made(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Table]]:
    """All tables of the two golden studies, by name."""
    people = portraits(shared, tmp_path_factory.getbasetemp() / "portraits")
    return {"mixed": every(results_of(hostile(shared))), "t2i_portraits": every(results_of(people))}


def every(results: Results) -> dict[str, Table]:
    found: dict[str, Table] = {}
    for name in T.names(results):
        if name not in ("errors", "predictions"):
            with suppress(ConfigError):  # nothing to show
                found |= {table.name: table for table in T.of(results, name)}
    return found


def read(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), keep_default_na=False, dtype=str)


def near(one: str, other: str) -> bool:
    return one == other or math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)


def test_golden_tables_come_out_as_csv_and_markdown(shared: Path, made: dict[str, dict[str, Table]]) -> None:
    compared = {"csv": 0, "md": 0}
    with tarfile.open(shared / "design/golden/numbers/tables.tar.gz") as tar:
        golden = {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers()}  # type: ignore[union-attr]
    for file, text in golden.items():
        study, name = file.rsplit(".", 1)[0].split("/")
        if name.startswith(GONE):
            continue
        table = made[study][name]
        if file.endswith(".csv"):
            old, new = read(text), read(table.csv())
            kept = [c for c in old if c != "note" and "_ci_" not in c and not any(g in c for g in GONE)]
            old = old[~old["metric"].isin(GONE)] if "metric" in old else old
            assert len(old) == len(new), file
            for column in kept:
                assert all(map(near, old[column], new[column])), (file, column)
        elif "orrected" in text or name == "label_doubt":
            continue
        else:
            both = (text.replace("No verdict", "No answer"), table.md())
            one, other = ([line for line in t.splitlines() if line.startswith("|")] for t in both)
            assert one == other, file
        compared[file.rsplit(".", 1)[1]] += 1
    assert compared["csv"] >= 47
    assert compared["md"] >= 40


def test_every_table_has_every_form_and_ends_with_what_it_is_not(made: dict[str, dict[str, Table]]) -> None:
    for table in (t for tables in made.values() for t in tables.values()):
        assert table.all_notes()[-1].startswith("Perceived ")
        for form in (table.md(), table.html(), table.tex(), table.plain(60), table.plain(200)):
            assert "not an identity." in " ".join(form.split())
        assert list(table.to_pandas().columns)[-1] == "note"
        assert max(map(len, table.plain(100).splitlines())) <= 100


def test_a_detector_that_failed_has_a_dash_and_does_not_compete(made: dict[str, dict[str, Table]]) -> None:
    table = made["mixed"]["model_bias_scores"]
    row = next(i for i, cells in enumerate(table.rows) if cells[0].text == "silent_on_sd3")
    assert [c.text for c in table.rows[row][1:]] == ["-", "-", "0.810"]
    assert table.of_rows[row][0] == "no number on sdxl: no answer for 6 of 52 images"
    whole = made["mixed"]["filtering_and_accuracy"]
    assert any("does not compete" in note for note in whole.all_notes())
    best = {c[0].text for c in whole.rows if any(x.bold for x in c)}
    assert "silent_on_sd3" not in best
    over = "Over the 165 of 187 images that have a label of gender (sdxl 52 of 57, sd3 78 of 87, pixart 35 of 43)."
    assert over in whole.notes


def test_equal_notes_stand_once_with_their_rows() -> None:
    rows = [[Cell(f"d{i}"), Cell("1", 1.0)] for i in range(12)]
    table = Table("x", [Col("detector", "Detector"), Col("n", "N")], rows, ["end"], of_rows=[["same"]] * 12)
    assert table.all_notes() == ["d0, d1, d2, d3, d4, d5, d6, d7 and 4 others: same", "end"]


@pytest.mark.parametrize(
    ("value", "kind", "decimals", "limits", "text"),
    [
        (0.91234, "fraction", None, None, "91.23"), (0.91234, "fraction", None, (0.88, 0.94), "91.2 [88.0, 94.0]"),
        (0.5, "score", None, (math.nan, math.nan), "0.500"), (-0.0001, "score", None, None, "0.000"),
        (math.nan, "score", None, (0.1, 0.2), "-"), (1234.0, "count", None, None, "1,234"),
        (1.005, "measurement", None, None, "1.01"),
        (0.12345, "score", 2, None, "0.12"),
    ],
)  # fmt: skip
def test_numbers_are_printed_as_their_kind_is(
    value: float, kind: str, decimals: int | None, limits: tuple[float, float] | None, text: str
) -> None:
    assert T.number_cell(value, kind, decimals, limits).text == text
    assert fixed(-0.0, 2) == "0.00"


def test_a_deviation_has_an_arrow_unless_it_is_nothing() -> None:
    cell = Cell("0.686", 0.686, deviation=-0.0878)
    assert cell.written() == "0.686 (8.78 % ↓)"
    assert cell._replace(deviation=0.0).written() == "0.686 (0.00 %)"
    assert cell._replace(deviation=math.nan).written() == "0.686 (-)"
    assert cell._replace(deviation=0.1, value=math.nan, text="-").written() == "-"


HOSTILE = r"a[1]*{x}%$#_&~^|<b>--c\d"


def table_of(rows: int = 2, columns: int = 2, name: str = HOSTILE) -> Table:
    head = [Col(f"m{i}", f"M{i} (%)", "Group" if i < 2 else "") for i in range(columns - 1)]
    head = [Col("detector", "Detector"), *head]
    body = [[Cell(name), *(Cell("-1.50", -0.015, bold=i == 0) for i in range(columns - 1))] for _ in range(rows)]
    return Table("Caption 5 %", head, body, ["a note -- of <words>"], "x_gender")


def test_hostile_names_mean_themselves() -> None:
    table = table_of()
    tex = table.tex()
    assert r"a{[}1{]}{*}\{x\}\%\$\#\_\&\textasciitilde{}\textasciicircum{}\textbar{}\textless{}b" in tex
    assert r"b\textgreater{}-{}-c\textbackslash{}d" in tex
    assert r"\textbf{$-$1.50}" in tex
    assert r"\caption{Caption 5 \%}" in tex
    assert tex.startswith("% Needs \\usepackage{booktabs}.\n")
    assert r"\|&lt;b&gt;--c\\d" in table.md()
    assert "&lt;b&gt;" in table.html()
    assert "<b>" not in table.html()
    assert read(table.csv())["detector"].tolist() == [HOSTILE] * 2
    assert read(table.csv())["m0"].tolist() == ["-0.015"] * 2


def test_long_tables_break_over_pages_and_wide_ones_over_columns() -> None:
    assert r"\begin{longtable}" in table_of(rows=41).tex()
    assert r"\usepackage{longtable}" in table_of(rows=41).tex().splitlines()[0]
    assert r"\begin{table*}" in table_of(columns=11).tex()
    assert r"\begin{table}" in table_of(columns=9).tex()
    text = table_of(columns=12, name="d").plain(40)
    assert text.count("Detector") > 1, "blocks repeat the names"
    assert heading_lines("Prompt bias score difference", 6) == ["Prompt", "bias", "score", "difference"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
@pytest.mark.slow
def test_latex_takes_every_table(made: dict[str, dict[str, Table]], tmp_path: Path) -> None:
    body = "\n\\clearpage\n".join(t.tex() for t in [*made["mixed"].values(), table_of(rows=41)])
    head = "\\documentclass{article}\\usepackage{booktabs,longtable}\\begin{document}\n"
    (tmp_path / "x.tex").write_text(f"{head}{body}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "x.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]


def test_display_names_replace_whole_words_for_people_alone() -> None:
    columns = [Col("detector", "Detector"), Col("sdxl", "sdxl", full="sdxl")]
    rows = [[Cell("clip"), Cell("1", 1.0)], [Cell("clip_prob"), Cell("2", 2.0)]]
    table = Table("Of clip and clip_prob on sdxl.", columns, rows, ["clip: clip's"])
    shown = table.with_names({"clip": "CLIP L", "sdxl": "SDXL 1.0"})
    assert shown.caption == "Of CLIP L and clip_prob on SDXL 1.0."
    assert [row[0].text for row in shown.rows] == ["CLIP L", "clip_prob"]
    assert shown.columns[1].heading == "SDXL 1.0"
    assert shown.notes == ["CLIP L: CLIP L's"]
    assert read(shown.csv())["detector"].tolist() == ["clip", "clip_prob"]


def test_an_own_metric_and_an_own_table_are_in_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(M, "METRICS", dict(M.METRICS))
    plugin = Path(__file__).with_name("rate_plugin.py")
    assert len(plugin.read_text().splitlines()) <= 40
    monkeypatch.setattr(registry, "_ADDED", {kind: dict(own) for kind, own in registry._ADDED.items()})
    registry.load_plugin(plugin)
    table = [[[8, 0, 2, 0, 0], [2, 5, 1, 0, 0], [1, 0, 1, 0, 0], [0] * 5, [0] * 5]]
    results = results_of({"gender": counted_of(cells_of(table))})
    assert results.number("lost_share", detector="d").value == pytest.approx(3 / 18)
    assert results.number("leaning_male", detector="d").value == pytest.approx(11 / 16 - 10 / 18)
    (own,) = T.of(results, "lost_images")
    assert [c.text for c in own.rows[0]] == ["d", "16.67", "0.132", "-0.132"]
    assert [c.full for c in own.columns[1:]] == ["m, lost (%)", "m, leaning male", "m, leaning female"]
    (whole,) = T.of(results, "filtering_and_accuracy")
    assert "Lost (%)" in [c.heading for c in whole.columns]
    assert "lost_images" in T.names(results)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rows": "detectr"}, "detectr"), ({"across": "prompt"}, "across t2i_model, category"),
        ({"name": "a b"}, "a name of letters"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_is_refused(fields: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        declare(**{"name": "t", "caption": "c", "columns": [Col("f1")], "rows": "detector", **fields})


def test_show_prints_writes_and_says_what_there_is(shared: Path, tmp_path: Path) -> None:
    results = results_of(hostile(shared), display_names={"strict": "Strict one"})
    names = T.show(results)
    assert {"causes", "filtering_and_accuracy", "agreement"} <= set(names["table"])
    assert all(names["shows"])
    (one,) = T.show(results, "filtering_and_accuracy", attribute="age", detector="strict")
    assert [row[0].text for row in one.rows] == ["Strict one"]
    long = read(T.show(results, "causes", form="csv", attribute="gender", detector="no_age"))
    assert set(long["detector"]) == {"no_age"}
    assert "with_human_filter" in long
    assert T.show(results, "label_shares", form="tex", out=tmp_path / "x.tex").endswith("x.tex")
    assert "\\label{tab:label_shares-age}" in (tmp_path / "x.tex").read_text().replace("_age", "-age")
    T.show(results, form="csv", every=True, out=tmp_path / "all")
    assert {"metrics.csv", "causes.csv", "label_shares_age.csv"} <= {p.name for p in (tmp_path / "all").iterdir()}
    wrong = (("cause", {}, "did you mean 'causes'"), ("causes", {"attribute": "agee"}, "did you mean 'age'"))
    for name, more, told in (*wrong, ("ranks", {}, "nothing to show")):
        with pytest.raises(ConfigError, match=told):
            T.show(results, name, **more)
    with pytest.raises(ConfigError, match="accepted: terminal, csv"):
        T.show(results, "causes", form="xls")


def test_a_detector_below_chance_is_told_under_its_table() -> None:
    table = [[[5, 60, 0, 0, 0], [50, 5, 0, 0, 0], [0] * 5, [0] * 5, [0] * 5]]
    (shown,) = T.of(results_of({"gender": counted_of(cells_of(table, detector="gear"))}), "filtering_and_accuracy")
    assert shown.notes[0].endswith("are its classes swapped?")


def test_saturated_scores_and_unknown_thresholds_are_told_beside_a_sweep(shared: Path) -> None:
    counted = hostile(shared)["gender"]
    scores = counted.scores.assign(reached=201)
    (shown,) = T.of(results_of({"gender": counted._replace(scores=scores)}), "sweeps")
    assert any("scores are 0 or 1: is its input scaled as in training?" in note for note in shown.notes)
    assert not any(cell.bold for row in shown.rows for cell in row), "the best of a sweep is no finding"


@pytest.mark.parametrize(("truth", "row"), [(0, [3, 0, 0, 0, 0]), (0, [0, 0, 3, 0, 0]), (2, [1, 1, 1, 1, 1])])
def test_tables_of_next_to_nothing_are_made(truth: int, row: list[int]) -> None:
    table = [[row if i == truth else [0] * 5 for i in range(5)]]
    for shown in every(results_of({"gender": counted_of(cells_of(table))})).values():
        assert shown.md()
        assert shown.tex()
        assert "nan" not in shown.md()
