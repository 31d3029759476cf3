"""From predictions to table files: whole studies, degenerate ones included, and a TeX engine's verdict."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation import evaluate
from detector_bench.tables import study_tables, to_html, to_markdown, write_tables
from detector_bench.vocabulary.columns import CONFUSION_COLUMNS

TABLES = [
    "filtering_and_accuracy",
    "model_bias_scores",
    "prompt_bias_score_difference",
    "bias_errors",
    "prompt_bias_scores",
    "label_shares",
    "filtering_and_accuracy_by_t2i_model",
]
NASTY = "a_b & c% <script>|"


@dataclass(frozen=True)
class SmallImageSet:
    """Labelled images in memory: one letter per image, by T2I model and prompt."""

    labels: Mapping[tuple[str, str], str]
    letters: Mapping[str, str]
    attributes: Sequence[str] = ("gender",)

    @property
    def images(self) -> pd.DataFrame:
        rows = [
            {"image_id": f"{model}/{prompt}/{index}", "t2i_model": model, "prompt_id": prompt}
            for (model, prompt), letters in self.labels.items()
            for index in range(len(letters))
        ]
        return pd.DataFrame(rows)

    @property
    def prompts(self) -> pd.DataFrame:
        prompts = list(dict.fromkeys(prompt for _, prompt in self.labels))
        return pd.DataFrame({"prompt_id": prompts, "category": "object", "word": [f"the {p}" for p in prompts]})

    def truth(self, attribute: str) -> pd.DataFrame:
        labels = [self.letters[letter] for letters in self.labels.values() for letter in letters]
        return pd.DataFrame({"image_id": self.images["image_id"], "label": labels})


GENDER = {"m": "male", "f": "female", "-": "low_quality", "o": "others"}
AGE = {"y": "young", "a": "middle_aged", "e": "elderly", "-": "low_quality", "o": "others"}


def metrics_of(
    labels: Mapping[tuple[str, str], str],
    verdicts: Mapping[str, Mapping[tuple[str, str], str]],
    *,
    attribute: str = "gender",
    letters: Mapping[str, str] = GENDER,
    n_clear: str = "detector",
) -> pd.DataFrame:
    """Evaluate detectors given as letters: a class, `-` for filtered, `x` for an error."""
    image_set = SmallImageSet(labels, letters, (attribute,))
    predictions = {}
    for detector, by_prompt in verdicts.items():
        said = [letter for key in labels for letter in by_prompt[key]]
        status = [{"-": "filtered", "x": "error"}.get(letter, "clear") for letter in said]
        predictions[detector] = pa.table(
            {
                "image_id": image_set.images["image_id"].to_list(),
                "detector": [detector] * len(said),
                "attribute": [attribute] * len(said),
                "status": status,
                "label": [letters[letter] if letter not in "-x" else None for letter in said],
            }
        )
    return evaluate(image_set, predictions, n_clear=n_clear)  # type: ignore[arg-type]


LABELS = {
    ("sdxl", "cup"): "mmmf-",
    ("sdxl", "tie"): "mmmm-",
    ("sd3", "cup"): "fffmo",
    ("sd3", "tie"): "mm--f",
}
PERFECT = {key: letters.replace("o", "-") for key, letters in LABELS.items()}
DOUBTFUL = {**PERFECT, ("sdxl", "cup"): "m--fm", ("sd3", "tie"): "mmmmf"}
BROKEN_ON_SD3 = {key: "x" * 5 if key[0] == "sd3" else letters for key, letters in PERFECT.items()}


@pytest.fixture(scope="module")
def metrics() -> pd.DataFrame:
    verdicts = {"perfect": PERFECT, "doubtful": DOUBTFUL, NASTY: BROKEN_ON_SD3}
    return metrics_of(LABELS, verdicts)


def rows_of_markdown(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in [lines[0], *lines[2:]]]


def test_every_table_in_every_format(metrics: pd.DataFrame, tmp_path: Path) -> None:
    written = write_tables(study_tables(metrics), tmp_path / "deep" / "tables")
    assert [path.name for path in written] == [
        f"{table}.{ending}" for table in TABLES for ending in ("csv", "md", "tex")
    ]
    assert sorted(path.name for path in (tmp_path / "deep" / "tables").iterdir()) == sorted(
        path.name for path in written
    )


def test_equal_metrics_give_equal_bytes_and_new_ones_replace_old(metrics: pd.DataFrame, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_tables(study_tables(metrics), tmp_path)}
    for path in tmp_path.iterdir():
        path.write_text("old")
    again = {path.name: path.read_bytes() for path in write_tables(study_tables(metrics.copy()), tmp_path)}
    assert first == again
    assert b"\r" not in b"".join(first.values())


def test_the_numbers_of_a_study_by_hand(metrics: pd.DataFrame, tmp_path: Path) -> None:
    write_tables(study_tables(metrics), tmp_path)
    # The truth: sdxl |3-1|/4 = 0.5 and 1, mean 0.75; sd3 |1-3|/4 = 0.5 and |2-1|/3 = 1/3, mean 0.417.
    # doubtful: sdxl cup m--fm has 2 m and 1 f, 1/3, mean 0.667, 11.11 % too low;
    # sd3 tie mmmmf 3/5, mean 0.55, 32 % too high.
    assert rows_of_markdown((tmp_path / "model_bias_scores.md").read_text()) == [
        ["Detector", "sdxl", "sd3"],
        ["Ground truth", "0.750", "0.417"],
        ["perfect", "**0.750 (0.00 %)**", "**0.417 (0.00 %)**"],
        ["doubtful", "0.667 (11.11 % ↓)", "0.550 (32.00 % ↑)"],
        ["a_b &amp; c% &lt;script&gt;\\|", "**0.750 (0.00 %)**", "-"],
    ]
    assert "not scored on sd3 (error on 10 of 10 images)" in (tmp_path / "model_bias_scores.md").read_text()
    # doubtful: sdxl cup |1/3 - 1/2| and 0, mean 0.083; sd3 0 and |3/5 - 1/3|, mean 0.133.
    assert rows_of_markdown((tmp_path / "prompt_bias_score_difference.md").read_text())[1:3] == [
        ["perfect", "**0.000**", "**0.000**"],
        ["doubtful", "0.083", "0.133"],
    ]
    assert rows_of_markdown((tmp_path / "prompt_bias_scores.md").read_text()) == [
        ["Category", "Word", "sdxl", "sd3", "Average"],
        ["object", "tie", "1.00", "0.33", "0.67"],
        ["object", "cup", "0.50", "-0.50", "0.00"],
    ]
    assert rows_of_markdown((tmp_path / "label_shares.md").read_text()) == [
        ["T2I model", "Male", "Female", "Low-quality", "Others", "Images"],
        ["sdxl", "70.00", "10.00", "20.00", "0.00", "10"],
        ["sd3", "30.00", "40.00", "20.00", "10.00", "10"],
        ["Total", "50.00", "25.00", "20.00", "5.00", "20"],
    ]


def test_words_and_denominator(metrics: pd.DataFrame, tmp_path: Path) -> None:
    prompts = SmallImageSet(LABELS, GENDER).prompts
    write_tables(study_tables(metrics, prompts=prompts), tmp_path)
    assert "| object | the tie |" in (tmp_path / "prompt_bias_scores.md").read_text()
    human = metrics_of(LABELS, {"doubtful": DOUBTFUL}, n_clear="human")
    tables = study_tables(human)
    # sdxl cup (2-1)/4 against 1/2; sd3 tie (4-1)/3 against 1/3: in human counts.
    assert [cell.text for cell in tables["prompt_bias_score_difference"].rows[0].cells] == [
        "doubtful",
        "0.125",
        "0.333",
    ]
    assert "n_clear: human" in tables["prompt_bias_score_difference"].caption


def test_further_attributes_get_a_suffix_and_their_own_label(metrics: pd.DataFrame, tmp_path: Path) -> None:
    labels = {("sdxl", "cup"): "yae-o", ("sd3", "cup"): "yya--"}
    age = metrics_of(
        labels,
        {"d": {key: value.replace("o", "-") for key, value in labels.items()}},
        attribute="age",
        letters=AGE,
    )
    both = pd.concat([metrics.astype({"detector": str}), age.astype({"detector": str})], ignore_index=True)
    names = [path.name for path in write_tables(study_tables(both, attributes=["gender", "age"]), tmp_path)]
    assert names[:1] + names[21:22] == ["filtering_and_accuracy.csv", "filtering_and_accuracy_age.csv"]
    assert names[42:] == [f"alignment_accuracy.{ending}" for ending in ("csv", "md", "tex")]
    assert "\\label{tab:label_shares_age}" in (tmp_path / "label_shares_age.tex").read_text()
    assert rows_of_markdown((tmp_path / "filtering_and_accuracy_age.md").read_text())[0] == [
        *("Detector", "Precision", "Recall", "F1", "Filter rate"),
        *("Recall young", "Recall middle-aged", "Recall elderly"),
        *("Accuracy young", "Accuracy middle-aged", "Accuracy elderly", "Accuracy", "Balanced accuracy"),
    ]
    assert "Perceived age" in (tmp_path / "prompt_bias_scores_age.md").read_text()


def test_confusion_matrices_are_tabulated_where_they_are_given(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        [
            (detector, "gender", model, "all", label, verdict, images)
            for detector, factor in (("net", 1), ("other", 10))
            for model, share in (("all", 2), ("sdxl", 1))
            for label, verdict, number in (
                ("male", "male", 3),
                ("male", "female", 0),
                ("male", "filtered", 1),
                ("male", "no_verdict", 0),
                ("low_quality", "male", 2),
                ("low_quality", "female", 0),
                ("low_quality", "filtered", 4),
                ("low_quality", "no_verdict", 5),
            )
            for images in [number * factor * share]
        ],
        columns=list(CONFUSION_COLUMNS),
    )
    metrics = metrics_of(LABELS, {"net": PERFECT})
    assert "confusion" not in study_tables(metrics)
    tables = study_tables(metrics, confusion=rows)
    assert [[cell.text for cell in row.cells] for row in tables["confusion"].rows] == [
        ["net", "Male", "6", "0", "2", "0"],
        ["net", "Low-quality", "4", "0", "8", "10"],
        ["other", "Male", "60", "0", "20", "0"],
        ["other", "Low-quality", "40", "0", "80", "100"],
    ]
    write_tables({"confusion": tables["confusion"]}, tmp_path)
    assert (tmp_path / "confusion.csv").read_text().splitlines()[:2] == [
        "detector,human_label,male,female,filtered,no_verdict,note",
        "net,male,6,0,2,0,",
    ]
    assert rows_of_markdown((tmp_path / "confusion.md").read_text())[0][:2] == ["Detector", "Human label"]
    none = study_tables(metrics, confusion=rows[rows["detector"] == "nobody"])["confusion"]
    assert none.notes == ("No detector of this study judges gender.",)
    with pytest.raises(ValueError, match="the columns detector, attribute"):
        study_tables(metrics, confusion=rows[["images"]])


@pytest.mark.parametrize(
    ("labels", "verdict", "expected"),
    [
        pytest.param("mmff", "mmff", "- for filter rate: no image is low-quality", id="no low-quality image"),
        pytest.param("----", "mf--", "- for recall: no image is clear", id="only low-quality images"),
        pytest.param("mf--", "----", "- for precision: the detector kept no image", id="everything filtered"),
        pytest.param("mf--", "xxxx", "not scored on sdxl (error on 4 of 4 images)", id="errors only"),
        pytest.param("oooo", "mf-x", "- for recall: no image is clear", id="only others"),
        pytest.param("mmmm", "m---", "- for recall (female): no image is female", id="one gender"),
    ],
)
def test_degenerate_studies_print(labels: str, verdict: str, expected: str, tmp_path: Path) -> None:
    key = ("sdxl", "cup")
    metrics = metrics_of({key: labels}, {"only": {key: verdict}})
    write_tables(study_tables(metrics, max_error_share=0.3), tmp_path)
    assert expected in (tmp_path / "filtering_and_accuracy.md").read_text()
    for name, table in study_tables(metrics, max_error_share=0.3).items():
        text = to_markdown(table)
        assert "nan" not in text.lower(), name
        assert len(rows_of_markdown(text)) > 1, name
        assert "not an identity" in to_html(table)


def test_an_attribute_without_metrics(metrics: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match="no metrics of attribute 'race'"):
        study_tables(metrics, attributes=["gender", "race"])


def test_an_interrupted_write_leaves_the_old_file(
    metrics: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "filtering_and_accuracy.csv").write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(DetectorBenchError, match="no space left"):
        write_tables(study_tables(metrics), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["filtering_and_accuracy.csv"]
    assert (tmp_path / "filtering_and_accuracy.csv").read_text() == "old"


ENGINES = {
    "tectonic": ["tectonic", "--chatter=minimal"],
    "pdflatex": ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"],
    "lualatex": ["lualatex", "-interaction=nonstopmode", "-halt-on-error", "--no-shell-escape"],
    "latexmk": ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error"],
}


@pytest.fixture
def tex_command() -> list[str]:
    for name, command in ENGINES.items():
        if shutil.which(name):
            return command
    pytest.skip(f"no TeX engine on PATH ({', '.join(ENGINES)})")


def test_a_tex_engine_takes_the_files(metrics: pd.DataFrame, tmp_path: Path, tex_command: list[str]) -> None:
    names = [path.stem for path in write_tables(study_tables(metrics), tmp_path) if path.suffix == ".tex"]
    wild = {f"{NASTY}[1]*~^\\{{}}#${index}": verdict for index, verdict in enumerate([PERFECT, DOUBTFUL])}
    write_tables(study_tables(metrics_of(LABELS, wild)), tmp_path / "wild")
    prompts = {(model, f"prompt {index}"): "mf-" for model in ("sdxl", "sd3") for index in range(100)}
    write_tables(study_tables(metrics_of(prompts, {"d": prompts})), tmp_path / "long")
    inputs = [f"\\input{{{folder}{name}.tex}}" for folder in ("", "wild/", "long/") for name in names]
    document = [
        "\\documentclass{article}",
        "\\usepackage{booktabs}",
        "\\begin{document}",
        *inputs,
        "\\end{document}",
    ]
    (tmp_path / "paper.tex").write_text("\n".join(document))
    result = subprocess.run(
        [*tex_command, "paper.tex"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000
    assert "Float too large" not in result.stdout
    assert "Overfull" not in result.stdout
