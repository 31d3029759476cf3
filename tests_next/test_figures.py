"""Every figure draws every kind of study, says so where it cannot, and comes out equal to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from detector_bench_next import registry
from detector_bench_next.attributes import built_in
from detector_bench_next.errors import ConfigError
from detector_bench_next.figures import draw, write_figures
from detector_bench_next.figures.of_bias import histogram
from detector_bench_next.figures.of_detectors import recall_for
from detector_bench_next.figures.style import FORMATS, INCHES, MAX_HEIGHT, SMALL, WIDTHS
from detector_bench_next.registry import load_plugin
from detector_bench_next.results import Results
from detector_bench_next.study import Study
from tests_next.studies import PLUGIN, write_image_set, write_study

load_plugin(PLUGIN)
SHADE, HIGH = "shade", {"kind": "shade", "name": "high", "bright_above": 200.0}
WORLDS: dict[str, dict[str, Any]] = {
    "usual": {"set": {"t2i_models": ("sd", "xl"), "prompts": 4, "images": 8, "annotators": ("a", "b")}},
    "one of each": {"set": {"prompts": 1, "images": 6}, "detectors": [SHADE]},
    "no label": {"set": {"annotators": ()}},
    "no interval": {"set": {"images": 6}, "intervals": 0},
    "low quality alone": {"label": "low_quality"},
    "one class alone": {"label": "female"},
    "a detector that filters all": {"detectors": [SHADE, {"kind": "table", "name": "none", "file": "none.csv",
                                    "columns": {"gender": "answer"}, "without_row": "no_face"}]},
    "long names": {"detectors": [{"kind": "shade", "name": f"{n}{'x' * 56}"} for n in "abc"],
                   "set": {"t2i_models": ("y" * 60, "z" * 60)}},
}  # fmt: skip


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Results]:
    found: dict[str, Results] = {}
    for name, world in WORLDS.items():
        folder = tmp_path_factory.mktemp("world")
        images = write_image_set(folder / "set", **world.get("set", {}))
        if label := world.get("label"):
            rows = (images / "labels.csv").read_text().splitlines()
            ids = [row.split(",")[0] for row in rows[1:]]
            (images / "labels.csv").write_text(
                "\n".join([rows[0], *(f"{i},ann,gender,{label}," for i in ids)]) + "\n"
            )
        (folder / "none.csv").write_text("image_id,answer\n")
        study = Study.open(write_study(folder, images, *world.get("detectors", [SHADE, HIGH])))
        study = study.with_settings({"intervals": {"resamples": world.get("intervals", 50)}})
        found[name] = study.run(folder / "out", use_cache=False)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", registry.names("figure"))
def test_every_figure_draws_every_study_or_says_why_not(worlds: dict[str, Results], world: str, name: str) -> None:
    results = worlds[world]
    for width in WIDTHS:
        try:
            drawn = draw(results, name, results.attributes["gender"], width)
        except ConfigError:  # told by `figures` in one line
            continue
        wide, high = drawn.figure.get_size_inches()
        assert wide <= INCHES[width] + 1e-9
        assert high <= MAX_HEIGHT
        sizes = [
            t.get_fontsize() for t in drawn.figure.findobj(lambda a: hasattr(a, "get_fontsize")) if t.get_text()
        ]
        assert min(sizes) >= SMALL
        assert "not an identity" in drawn.caption
        assert "nan" not in drawn.caption


def test_without_labels_shares_and_scores_are_drawn_by_detectors(worlds: dict[str, Results]) -> None:
    results = worlds["no label"]
    drawn = draw(results, "model_bias_scores", results.attributes["gender"])
    assert set(drawn.data["detector"]) == {"shade", "high"}
    assert drawn.data["value"].notna().all()
    assert set(draw(results, "shares", results.attributes["gender"]).data["t2i_model"]) == {"shade", "high"}
    with pytest.raises(ConfigError, match="no image has a label of gender"):
        draw(results, "detectors", results.attributes["gender"])


def test_files_are_equal_to_the_byte_and_those_of_an_earlier_run_go(
    worlds: dict[str, Results], tmp_path: Path
) -> None:
    results = worlds["usual"]
    for out in ("a", "b"):
        write_figures(results, tmp_path / out, figures=["confusion", "shares"], formats=FORMATS)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) == 2 * (2 * len(FORMATS) + 2) + 1
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)
    write_figures(results, tmp_path / "a", figures=["shares"], formats=["png"])
    assert {p.suffix for p in (tmp_path / "a").iterdir()} == {".png", ".txt", ".csv", ".json"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"figures": ["shape"]}, "shape"),
        ({"formats": ["gif"]}, "pdf, png, svg"),
        ({"attribute": "gendre"}, "gender"),
    ],
)
def test_a_wrong_name_is_one_line(worlds: dict[str, Results], tmp_path: Path, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        write_figures(worlds["usual"], tmp_path, **options)


def test_bins_are_closed_away_from_0_and_0_is_a_bin_of_its_own() -> None:
    counts = histogram([0.0, 0.1, 0.3, -0.3, 0.31, 1.0, -1.0, float("nan")])
    assert {k: n for k, n in counts.items() if n} == {0: 1, 1: 1, 3: 1, -3: 1, 4: 1, 10: 1, -10: 1}


def test_a_line_of_equal_f1_has_that_f1() -> None:
    share, rate, level = 0.8, 0.35, 0.9
    recall = recall_for(level, rate, share)
    tp, fp, fn = recall * share, (1 - rate) * (1 - share), (1 - recall) * share
    assert 2 * tp / (2 * tp + fp + fn) == pytest.approx(level)


def test_an_attribute_of_three_classes_has_shares_and_no_signed_scores(tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", prompts=3, images=8)
    ids = [row.split(",")[0] for row in (images / "images.csv").read_text().splitlines()[1:]]
    age = built_in()["age"]
    labels = [f"{i},ann,age,{age.class_names[n % 3]}" for n, i in enumerate(ids)]
    (images / "labels.csv").write_text("\n".join(["image_id,annotator,attribute,label", *labels]) + "\n")
    (tmp_path / "ages.csv").write_text("\n".join(["image_id,answer", *(f"{i},{age.class_names[0]}" for i in ids)]))
    table = {"kind": "table", "name": "theirs", "file": "ages.csv", "columns": {"age": "answer"}}
    study = Study.open(write_study(tmp_path, images, table, attributes=["age"]))
    results = study.with_settings({"intervals": {"resamples": 50}}).run(tmp_path / "out", use_cache=False)
    assert set(draw(results, "shares", age).data["class"]) == set(age.class_names)
    with pytest.raises(ConfigError, match="two classes"):
        draw(results, "prompt_bias_histogram", age)


FIGURE_PLUGIN = '''"""A figure as somebody else would write it."""

from detector_bench_next.figures.parts import Numbers, as_data, figure, forest, name_rows
from detector_bench_next.figures.style import Drawn, caption, new_figure


@figure("recalls", about="recall of each detector", needs="labels")
def recalls(results, attribute, width):
    """Forest of recalls."""
    numbers = Numbers(results, attribute)
    found = {d: numbers.of("recall", d) for d in numbers.detectors}
    page = new_figure(width, 0.2 * len(found) + 0.5)
    axes = page.subplots()
    forest(axes, [[number] for number in found.values()])
    name_rows(axes, list(found), width)
    axes.set_xlabel("Recall")
    return Drawn(page, caption(attribute, "Recall.", numbers.intervals(list(found.values()))), as_data(
        {(d,): n for d, n in found.items()}, ["detector"]))
'''


def test_a_figure_of_a_plugin_is_drawn_like_ours(worlds: dict[str, Results], tmp_path: Path) -> None:
    (tmp_path / "recalls.py").write_text(FIGURE_PLUGIN)
    load_plugin(tmp_path / "recalls.py")
    assert not write_figures(worlds["usual"], tmp_path / "out", figures=["recalls"], formats=["png"])
    assert (tmp_path / "out/recalls_single.png").stat().st_size > 1000
