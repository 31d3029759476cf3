"""The analysis scripts: their sentences are true of any study, also of one that can answer nothing."""

from __future__ import annotations

import re
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest
from stored_study import FAILED, Picture, Said, filtered, kept, portraits, write_study

from detector_bench.errors import ConfigError, DetectorBenchError

pytestmark = pytest.mark.slow

ANALYSIS = Path(__file__).resolve().parents[1] / "analysis"
SCRIPTS = ("rq1_model_bias", "rq2_detector_deviation", "rq3_error_causes")


@pytest.fixture(autouse=True)
def _scripts_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ANALYSIS))


def text_of(script: str, folder: Path, **options: object) -> str:
    out = folder / f"{script}.md"
    if script.startswith("rq3"):
        options.setdefault("resamples", 0)
    import_module(script).main(folder / "results", out=out, **options)
    text = out.read_text()
    assert "nan" not in text
    assert "undefined" not in text
    return text


def without_intervals(text: str) -> str:
    return re.sub(r" \[[^]]*\]", "", text)


def all_right(pictures: list[Picture]) -> dict[str, Said]:
    labels = {picture.image_id: picture.labels[0].partition(":")[0] for picture in pictures}
    return {
        image: kept(label) if label in ("male", "female") else filtered("no_face")
        for image, label in labels.items()
    }


TWO_MODELS = [
    *portraits({"male": 8, "female": 2, "low_quality:several_people": 2}),
    *portraits({"male": 5, "female": 5}, prompt="gym"),
    *portraits({"male": 4, "female": 6}, t2i_model="beta"),
    *portraits({"female": 10}, t2i_model="beta", prompt="gym"),
]
PROMPTS = {"nurse": "job", "gym": "place"}


def two_detectors() -> dict[str, dict[str, Said]]:
    right = all_right(TWO_MODELS)
    ids = [picture.image_id for picture in TWO_MODELS]
    # Keeps the low-quality images as men, and loses two women of the nurses of alpha.
    loose = right | dict.fromkeys(ids[10:12], kept("male")) | dict.fromkeys(ids[8:10], filtered("uncertain"))
    # Says "male" of four women of beta's nurses, and fails on one image.
    confused = right | dict.fromkeys(ids[26:30], kept("male")) | {ids[0]: FAILED}
    return {"loose": loose, "confused": confused}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis")
    write_study(folder, TWO_MODELS, PROMPTS, two_detectors(), intervals="score")
    return folder


def test_rq1_by_hand(folder: Path) -> None:
    text = without_intervals(text_of("rq1_model_bias", folder))
    # alpha: 0.6 and 0; beta: 0.2 and 1.
    assert "The most biased is beta, the least biased alpha." in text
    assert "beta is the most biased T2I model (0.600), alpha the least (0.300)." in text
    assert "alpha is most biased for job (0.600) and least for place (0.000)." in text
    assert "0 of 4 (0.0 %) are 1, 1 of 4 (25.0 %) are -1." in text
    assert (
        "1 of 4 (25.0 %) lean towards male, 2 of 4 (50.0 %) towards female, and 1 of 4 (25.0 %) are balanced."
        in text
    )
    assert "2 of 4 (50.0 %) lie further than 0.2 from 0." in text
    assert "For 1 of 2 prompts the T2I models lean in opposite directions, such as nurse." in text
    assert "People labelled 42 images by 2 T2I models (alpha and beta)." in text


def test_rq2_by_hand(folder: Path) -> None:
    text = without_intervals(text_of("rq2_detector_deviation", folder))
    # loose, alpha: nurses 10 : 0, so (1 + 0) / 2 = 0.5 in place of 0.3; beta right.
    assert "| loose | 0.500 | 66.7 % | 0.200 | 0.600 | 0.0 % | 0.000 |" in text
    assert "Closest to it is loose (deviation 0.0 %), farthest from it confused" in text
    assert "confused: images left out, error: 1 of 22 (alpha)." in text
    assert "By the human labels the order from most to least biased is beta, alpha." in text


def test_rq3_by_hand(folder: Path) -> None:
    text = without_intervals(text_of("rq3_error_causes", folder))
    assert "- loose filtered 2 of 40 images that are clear: uncertain (2), and kept 2 of 2 images that are" in text
    assert "low-quality; the humans' reasons: several people (2)." in text
    assert "- confused filtered 0 of 39 images that are clear, and kept 0 of 2 images" in text
    assert "The errors of loose come mainly from filtering." in text
    assert "The errors of confused come mainly from classification." in text
    # loose errs on one of four prompts, by 0.4; the classifier is always right.
    assert (
        "of a prompt bias score difference of 0.100, 0.100 come from filtering and 0.000 from classification"
        in text
    )


def test_rq3_with_intervals(folder: Path) -> None:
    text = text_of("rq3_error_causes", folder, resamples=200)
    assert "confidence interval" in text
    assert "0.100 [" in text


DEGENERATE = {
    "one detector, one prompt": ([*portraits({"male": 3, "female": 1, "low_quality": 1})], all_right),
    "no low-quality image": ([*portraits({"male": 3, "female": 1})], all_right),
    "only low-quality images": ([*portraits({"low_quality": 4})], all_right),
    "one gender": ([*portraits({"female": 4, "low_quality": 1})], all_right),
    "balanced": ([*portraits({"female": 2, "male": 2})], all_right),
    "filters everything": (
        [*portraits({"male": 3, "female": 1})],
        lambda pictures: {picture.image_id: filtered() for picture in pictures},
    ),
    "fails on everything": (
        [*portraits({"male": 3, "female": 1})],
        lambda pictures: {picture.image_id: FAILED for picture in pictures},
    ),
    "keeps everything as men": (
        [*portraits({"male": 1, "female": 3, "low_quality": 2, "others": 1})],
        lambda pictures: {picture.image_id: kept("male") for picture in pictures},
    ),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_studies_have_sentences(case: str, tmp_path: Path) -> None:
    pictures, judge = DEGENERATE[case]
    write_study(tmp_path, pictures, {"nurse": "job"}, {"only": judge(pictures)})
    texts = [text_of(script, tmp_path) for script in SCRIPTS]
    for text in texts:
        assert "## Answer" in text
        answer = text.split("## Answer")[1].strip()
        assert answer.endswith(".")
    one, two, three = texts
    if case == "only low-quality images":
        assert "No image is clear, so there is no bias score." in one
        assert "no bias to compare with" in two
    if case in ("filters everything", "fails on everything"):
        assert "there is nothing to compare" in two
        assert "has no prompt bias score to split" in three
    if case == "no low-quality image":
        assert "There is no filter rate to compare." in three
    if case == "one gender":
        assert "Every T2I model shows only female for 1 prompt: nurse." in one


def test_a_script_prints_to_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = str(ANALYSIS / "rq1_model_bias.py")
    monkeypatch.setattr(sys, "argv", [script, str(folder / "results")])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(script, run_name="__main__")
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("# RQ1: how biased are the T2I models?\n")


def test_mistakes_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DetectorBenchError, match="is no result folder"):
        import_module("rq1_model_bias").main(tmp_path)
    with pytest.raises(ConfigError, match="no metrics of attribute 'race'"):
        import_module("rq2_detector_deviation").main(folder / "results", attribute="race")
