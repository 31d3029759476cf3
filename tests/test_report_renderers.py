"""One table in every format, character by character; and names that want to break out of their cell."""

from __future__ import annotations

import csv
import io
import math
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from rich.console import Console

from detector_bench.tables import Arrow, Cell, Column, Row, Table, to_csv, to_html, to_latex, to_markdown, to_rich

NASTY = "a_b & c% <script>|"


def small_table(name: str = "clip_prob") -> Table:
    return Table(
        name="model_bias_scores",
        caption="Scores; ↑ too high, ↓ too low.",
        attribute="gender",
        columns=(
            Column("detector", "Detector", kind="name"),
            Column("sdxl", "sdxl", deviation_key="sdxl_deviation"),
            Column("recall_male", "Male", group="Recall (%)", full_heading="Recall male"),
            Column("filter_rate", "Filter rate", group="Recall (%)"),
        ),
        rows=(
            Row(
                "Ground truth",
                (
                    Cell("Ground truth", key="ground_truth"),
                    Cell("0.752", 0.7524),
                    Cell("-", math.nan),
                    Cell("12", 12.0),
                ),
            ),
            Row(
                name,
                (
                    Cell(name),
                    Cell("0.686", 0.6861, -0.08779, "8.78 %", Arrow.DOWN, bold=True),
                    Cell("-0.10", -0.1),
                    Cell("1.00", 1.0, bold=True),
                ),
                ("error on 3 of 24 images",),
            ),
        ),
    )


def many_columns(count: int, *, rows: int = 2, name: str = "stable-diffusion-3.5-large-turbo") -> Table:
    models = [f"model {index}" for index in range(count)]
    cells = tuple(Cell("0.686", 0.6861, -0.08779, "8.78 %", Arrow.DOWN, bold=index == 3) for index in range(count))
    return Table(
        name="wide",
        caption="A wide table.",
        attribute="gender",
        columns=(
            Column("detector", "Detector", kind="name"),
            *(Column(model, model, deviation_key=f"{model}_deviation") for model in models),
        ),
        rows=tuple(Row(f"{name} {index}", (Cell(f"{name} {index}"), *cells)) for index in range(rows)),
    )


class TestCsv:
    def test_full_precision_without_decoration(self) -> None:
        assert to_csv(small_table()) == (
            "detector,sdxl,sdxl_deviation,recall_male,filter_rate,note\n"
            "ground_truth,0.7524,,,12,\n"
            "clip_prob,0.6861,-0.08779,-0.1,1,error on 3 of 24 images\n"
        )

    def test_names_survive(self) -> None:
        name = 'x,"y"\n' + NASTY
        rows = list(csv.reader(io.StringIO(to_csv(small_table(name)), newline="")))
        assert rows[2][0] == name


class TestMarkdown:
    def test_whole_table(self) -> None:
        assert to_markdown(small_table()) == (
            "Scores; ↑ too high, ↓ too low.\n"
            "\n"
            "| Detector | sdxl | Recall male | Filter rate |\n"
            "| --- | --- | ---: | ---: |\n"
            "| Ground truth | 0.752 | - | 12 |\n"
            "| clip_prob | **0.686 (8.78 % ↓)** | -0.10 | **1.00** |\n"
            "\n"
            "- clip_prob: error on 3 of 24 images\n"
            "- Perceived gender, as seen in synthetic images; not an identity.\n"
        )

    @pytest.mark.parametrize(
        ("name", "escaped"),
        [
            (NASTY, r"a_b &amp; c% &lt;script&gt;\|"),
            ("_a_ *b* `c` [d](e) ~f~ $g$", r"\_a\_ \*b\* \`c\` \[d\](e) \~f\~ \$g\$"),
            ("back\\slash", r"back\\slash"),
            ("two\nlines", "two lines"),
        ],
    )
    def test_special_characters(self, name: str, escaped: str) -> None:
        line = to_markdown(small_table(name)).splitlines()[5]
        assert line.startswith(f"| {escaped} | **")


class TestLatex:
    def test_whole_table(self) -> None:
        assert to_latex(small_table()) == (
            "% Needs \\usepackage{booktabs}.\n"
            "\\begin{table}[tbp]\n"
            "  \\centering\n"
            "  \\caption{Scores; $\\uparrow$ too high, $\\downarrow$ too low.}\n"
            "  \\label{tab:model_bias_scores}\n"
            "  \\medskip\n"
            "  \\small\n"
            "  \\setlength{\\tabcolsep}{4pt}\n"
            "  \\begin{tabular}{@{}llrr@{}}\n"
            "    \\toprule\n"
            "     &  & \\multicolumn{2}{c}{Recall (\\%)} \\\\\n"
            "    \\cmidrule(lr){3-4}\n"
            "    Detector & sdxl & Male & \\shortstack[r]{Filter\\\\rate} \\\\\n"
            "    \\midrule\n"
            "    Ground truth & 0.752 & -- & 12 \\\\\n"
            "    clip\\_prob & \\textbf{0.686 (8.78 \\% $\\downarrow$)} & $-$0.10 & \\textbf{1.00} \\\\\n"
            "    \\bottomrule\n"
            "  \\end{tabular}\n"
            "\n"
            "  \\smallskip\n"
            "  \\begin{minipage}{\\linewidth}\n"
            "  \\footnotesize\\raggedright\n"
            "  clip\\_prob: error on 3 of 24 images\\par\n"
            "  Perceived gender, as seen in synthetic images; not an identity.\n"
            "  \\end{minipage}\n"
            "\\end{table}\n"
        )

    @pytest.mark.parametrize(
        ("name", "escaped"),
        [
            (NASTY, r"a\_b \& c\% \textless{}script\textgreater{}\textbar{}"),
            (r"\input{x}", r"\textbackslash{}input\{x\}"),
            ("#1 $2 ~3 ^4", r"\#1 \$2 \textasciitilde{}3 \textasciicircum{}4"),
            ("[1] *2", "{[}1{]} {*}2"),
            ("a--b", "a-{}-b"),
            ("a---b", "a-{}-{}-b"),
            ("↑↓", r"$\uparrow$$\downarrow$"),
        ],
    )
    def test_special_characters(self, name: str, escaped: str) -> None:
        assert f"    {escaped} & \\textbf{{0.686" in to_latex(small_table(name))

    def test_a_long_table_breaks_over_pages_with_its_header_on_each(self) -> None:
        text = to_latex(many_columns(1, rows=90))
        assert text.startswith("% Needs \\usepackage{booktabs} and \\usepackage{longtable}.\n")
        assert text.count("\\begin{longtable}") == text.count("\\end{longtable}") == 1
        assert text.count("\\caption{A wide table.}") == text.count("\\label{tab:wide}") == 1
        assert text.count("\\toprule") == 2
        first, _, below = text.split("\\end{longtable}")[0].partition("\\endfirsthead")
        assert "stable-diffusion" not in first
        assert "\\caption[]{(continued)} \\\\" in below.partition("\\endhead")[0]
        assert text.count("0.686") == 90
        assert text.count("Perceived gender") == 1

    def test_a_wide_table_is_broken_up_between_columns(self) -> None:
        text = to_latex(many_columns(8))
        assert text.count("\\begin{table}") == 1
        assert text.count("\\begin{tabular}") == text.count("\\toprule") == 4
        assert text.count("stable-diffusion-3.5-large-turbo 1 &") == 4
        assert [f"& model {index}" in text for index in range(8)] == [True] * 8

    def test_long_and_wide_at_once(self) -> None:
        text = to_latex(many_columns(6, rows=50, name="short"))
        # Two blocks of columns, one number.
        assert text.count("\\begin{longtable}") == 2
        assert text.count("\\addtocounter{table}{-1}") == text.count("\\label") == 1
        assert "\\begin{table}" not in text
        assert text.count("0.686") == 6 * 50

    def test_headings_of_several_parts_take_several_lines(self) -> None:
        table = Table(
            name="t",
            caption="",
            attribute="gender",
            columns=(Column("x", "stable-diffusion_3.5 large"),),
            rows=(Row("r", (Cell("0.5", 0.5),)),),
        )
        assert "\\shortstack[r]{stable-\\\\diffusion\\_\\\\3.5\\\\large}" in to_latex(table)

    def test_a_wider_page_takes_more_columns(self) -> None:
        assert to_latex(many_columns(8), text_width=2000).count("\\begin{tabular}") == 1


class CollectingParser(HTMLParser):
    """Collects text and tags, and fails on tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


class TestHtml:
    def test_cells_groups_and_bold(self) -> None:
        text = to_html(small_table())
        parser = CollectingParser()
        parser.feed(text)
        assert parser.open == []
        assert parser.cells == [
            *("", "Recall (%)"),
            *("Detector", "sdxl", "Male", "Filter rate"),
            *("Ground truth", "0.752", "-", "12"),
            *("clip_prob", "0.686 (8.78 % ↓)", "-0.10", "1.00"),
        ]
        assert (
            '<th colspan="2" style="padding: 0.15em 0.7em; text-align: center" scope="colgroup">Recall (%)</th>'
            in text
        )
        assert (
            '<strong>0.686 (8.78 % <span title="underestimates the bias">↓</span>)</strong></td>'
            '<td style="padding: 0.15em 0.7em; text-align: right">-0.10</td>'
        ) in text
        assert "<li>Perceived gender, as seen in synthetic images; not an identity.</li>" in text

    def test_no_name_becomes_markup(self) -> None:
        text = to_html(small_table('<img src=x onerror="alert(1)">' + NASTY))
        parser = CollectingParser()
        parser.feed(text)
        assert not parser.tags & {"script", "img"}
        assert '<img src=x onerror="alert(1)">' + NASTY in parser.cells

    def test_a_notebook_shows_the_same(self) -> None:
        assert small_table()._repr_html_() == to_html(small_table())

    def test_where_a_notebook_is_read_as_text_its_lines_are_those_of_the_terminal(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said: list[str] = []
        monkeypatch.setenv("COLUMNS", "100")
        small_table()._repr_pretty_(SimpleNamespace(text=said.append), False)
        assert said[0].startswith(small_table().caption.split()[0])
        assert "Table(" not in said[0]
        assert "\x1b" not in said[0]
        assert all(row.name in said[0] for row in small_table().rows)
        assert max(map(len, said[0].splitlines())) <= 100


def on_terminal(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), legacy_windows=False)
    console.print(to_rich(table))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


class TestTerminal:
    def test_whole_table(self) -> None:
        lines = [line.rstrip() for line in on_terminal(small_table(), 80).splitlines()]
        assert lines == [
            "Scores; ↑ too high, ↓ too low.",
            "",
            "                                ─── Recall (%) ───",
            "Detector      sdxl               Male  Filter rate",
            "─" * 50,
            "Ground truth  0.752                 -           12",
            "clip_prob     0.686 (8.78 % ↓)  -0.10         1.00",
            "",
            "  clip_prob: error on 3 of 24 images",
            "  Perceived gender, as seen in synthetic images; not an identity.",
        ]

    @pytest.mark.parametrize("width", [40, 60, 80, 100])
    @pytest.mark.parametrize("count", [1, 3, 12])
    def test_no_line_is_too_long_and_no_number_is_lost(self, count: int, width: int) -> None:
        text = on_terminal(many_columns(count, name="short"), width)
        assert max(len(line) for line in text.splitlines()) <= width
        assert text.count("0.686 (8.78 % ↓)") == 2 * count

    def test_names_are_no_markup(self) -> None:
        name = "[bold red]x[/] \x1b[31m" + NASTY
        assert "[bold red]x[/]  [31ma_b" in on_terminal(small_table(name), 100)

    def test_a_console_takes_the_table_itself(self) -> None:
        console = Console(width=80, file=io.StringIO())
        console.print(small_table())
        output = console.file
        assert isinstance(output, io.StringIO)
        assert output.getvalue() == on_terminal(small_table(), 80)


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="row 'x': 1 cells for 2 columns"):
        Table(
            name="t",
            caption="",
            attribute="gender",
            columns=(Column("a", "A"), Column("b", "B")),
            rows=(Row("x", (Cell("1", 1.0),)),),
        )
