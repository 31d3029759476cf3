"""Agreement: published worked examples, the libraries themselves, and small studies by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from crowd_labels import write_crowd_labels
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as of_statsmodels
from stored_study import FAILED, Picture, filtered, kept, predictions_of, write_pictures, write_study
from typer.testing import CliRunner

from detector_bench.cli.analyses import agreement as agreement_command
from detector_bench.dataset import ImageSet
from detector_bench.evaluation.agreement import AGREEMENT_COLUMNS, agreement
from detector_bench.metrics.agreement import (
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    one_against_rest,
    percent_agreement,
)
from detector_bench.results.long_tables import added_columns, read_long_table
from detector_bench.tables.label_tables import annotator_agreement, pair_agreement


def label_counts(*raters: str) -> np.ndarray:
    """How often each label was given to each image; one string per rater, a dot is a missing label."""
    labels = sorted(set("".join(raters)) - {"."})
    return np.array([[[*image].count(label) for label in labels] for image in zip(*raters, strict=True)])


# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".
TWO_BINARY = ("0100000000", "1110010010")  # section A: alpha 0.095
TWO_NOMINAL = ("aabbdcccedda", "babbbccceddd")  # section B: alpha 0.692
FOUR_WITH_GAPS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")  # section C: alpha 0.743


def test_krippendorffs_examples() -> None:
    assert float(krippendorff_alpha(label_counts(*TWO_BINARY)).value) == pytest.approx(0.095, abs=5e-4)
    assert float(krippendorff_alpha(label_counts(*TWO_NOMINAL)).value) == pytest.approx(0.692, abs=5e-4)
    alpha = krippendorff_alpha(label_counts(*FOUR_WITH_GAPS))
    assert float(alpha.value) == pytest.approx(0.743, abs=5e-4)
    assert (int(alpha.n), int(alpha.n_left_out)) == (11, 1)  # the last image has one label


def test_krippendorffs_alpha_with_most_labels_missing() -> None:
    # The worked example of Wikipedia's article on Krippendorff's alpha (2024): nominal alpha 0.691.
    raters = (".....34121133.3", "1.213343.......", "..21344.21133.4")
    counts = label_counts(*raters)
    assert float(krippendorff_alpha(counts).value) == pytest.approx(0.691, abs=5e-4)


def test_fleiss_example() -> None:
    # Fleiss 1971 as in Wikipedia's worked example: 14 raters, 10 subjects, 5 labels; kappa 0.210.
    rows = ["0 0 0 0 14", "0 2 6 4 2", "0 0 3 5 6", "0 3 9 2 0", "2 2 8 1 1"]
    rows += ["7 7 0 0 0", "3 2 6 3 0", "2 5 3 2 2", "6 5 2 1 0", "0 2 2 3 7"]
    counts = np.array([row.split() for row in rows], dtype=int)
    kappa = fleiss_kappa(counts)
    assert float(kappa.value) == pytest.approx(0.210, abs=5e-4)
    assert int(kappa.n) == 10


def test_fleiss_takes_the_commonest_number_of_labels() -> None:
    counts = np.array([[3, 0], [2, 1], [0, 3], [1, 1], [1, 0]])
    kappa = fleiss_kappa(counts)
    assert float(kappa.value) == pytest.approx(float(of_statsmodels(counts[:3])))
    assert (int(kappa.n), int(kappa.n_left_out)) == (3, 2)


def test_cohens_example() -> None:
    # 50 grants read by two: 20 both yes, 15 both no, 5 and 10 apart: observed 0.7, by chance 0.5.
    kappa = cohen_kappa(np.array([[20, 5], [10, 15]]))
    assert float(kappa.value) == pytest.approx(0.4)
    assert int(kappa.n) == 50


def test_cohens_kappa_is_that_of_scikit_learn_to_the_last_digit() -> None:
    random = np.random.default_rng(3)
    for labels in range(2, 8):
        for _ in range(20):
            table = random.integers(0, 40, (labels, labels)) * (random.random((labels, labels)) < 0.4)
            first, second = np.nonzero(table)
            if len(set(first) | set(second)) > 1:
                expected = cohen_kappa_score(first, second, sample_weight=table[first, second])
                assert float(cohen_kappa(table).value) == expected


def test_percent_agreement_by_hand() -> None:
    # Pairs that agree: 3 of 3, 1 of 3, none of 1; the last image has no pair.
    agreed = percent_agreement(np.array([[3, 0], [2, 1], [1, 1], [1, 0]]))
    assert float(agreed.value) == pytest.approx(4 / 7)
    assert (int(agreed.n), int(agreed.n_left_out)) == (3, 1)


def test_one_label_only_is_undefined() -> None:
    same = np.array([[2, 0], [2, 0]])
    assert np.isnan(fleiss_kappa(same).value)
    assert np.isnan(krippendorff_alpha(same).value)
    assert np.isnan(cohen_kappa(np.array([[7, 0], [0, 0]])).value)
    assert float(percent_agreement(same).value) == 1
    nobody = np.zeros((2, 2), dtype=int)
    assert all(np.isnan(each(nobody).value) for each in (fleiss_kappa, krippendorff_alpha, percent_agreement))


def test_one_rater_who_never_varies_has_kappa_0() -> None:
    assert float(cohen_kappa(np.array([[4, 4], [0, 0]])).value) == pytest.approx(0)


def test_one_against_rest() -> None:
    assert one_against_rest(np.array([[1, 2, 3]]), label=1).tolist() == [[4, 2]]
    table = one_against_rest(np.arange(9).reshape(3, 3), label=0, axes=(-1, -2))
    assert table.tolist() == [[4 + 5 + 7 + 8, 3 + 6], [1 + 2, 0]]


PICTURES = [
    Picture("i1", "alpha", "nurse", ("male", "male")),
    Picture("i2", "alpha", "nurse", ("female", "female")),
    Picture("i3", "alpha", "nurse", ("low_quality", "female")),
    Picture("i4", "beta", "gym", ("male", "low_quality")),
    Picture("i5", "beta", "gym", ("male", "")),
    Picture("i6", "beta", "gym", ("female", "female")),
]
PROMPTS = {"nurse": "job", "gym": "place"}
VERDICTS = {
    "i1": kept("male"),
    "i2": kept("male"),
    "i3": filtered("no_face"),
    "i4": kept("male"),
    "i5": FAILED,
    "i6": kept("female"),
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = write_pictures(tmp_path_factory.mktemp("agreement") / "images", PICTURES, PROMPTS)
    tables = {"tiny": predictions_of(VERDICTS, detector="tiny")}
    return agreement(ImageSet.load(folder), tables, min_shared=2)


def found(measured: pd.DataFrame, **place: str) -> dict[str, tuple[float, int, int]]:
    place = {"first": "", "second": "", "t2i_model": "all", "category": "all", "label": "all"} | place
    rows = measured[np.logical_and.reduce([measured[name] == value for name, value in place.items()])]
    return {row["statistic"]: (row["value"], row["n"], row["n_left_out"]) for row in rows.to_dict("records")}


def test_annotators_by_hand(measured: pd.DataFrame) -> None:
    assert tuple(measured.columns) == AGREEMENT_COLUMNS
    everything = found(measured)
    assert everything["percent_agreement"] == (pytest.approx(3 / 5), 5, 1)
    # Labels of the five images with two: 3 male, 5 female, 2 low-quality: chance (9 + 25 + 4) / 100.
    assert everything["fleiss_kappa"] == (pytest.approx((0.6 - 0.38) / (1 - 0.38)), 5, 1)
    # Krippendorff draws without putting back: 1 - (10 - 1) (10 - 6) / (100 - 38).
    assert everything["krippendorff_alpha"] == (pytest.approx(1 - 9 * 4 / 62), 5, 1)
    pair = found(measured, first="a", second="b")
    # a: 2 male, 2 female, 1 low-quality; b: 1, 3, 1.
    assert pair["cohen_kappa"] == (pytest.approx((0.6 - 0.36) / (1 - 0.36)), 5, 1)
    assert found(measured, first="a", second="b", t2i_model="alpha")["percent_agreement"] == (
        pytest.approx(2 / 3),
        3,
        0,
    )
    assert found(measured, first="a", second="b", category="place")["percent_agreement"] == (0.5, 2, 1)
    assert found(measured, first="a", second="b", label="male")["percent_agreement"] == (0.8, 5, 1)
    assert np.isnan(found(measured, label="others")["fleiss_kappa"][0])


def test_detector_with_each_human_and_the_consensus(measured: pd.DataFrame) -> None:
    # Filtered counts as low_quality, the failed image is missing; disagreement makes a consensus of low_quality.
    assert found(measured, first="tiny", second="a")["percent_agreement"] == (pytest.approx(4 / 5), 5, 1)
    assert found(measured, first="tiny", second="b")["percent_agreement"] == (pytest.approx(2 / 5), 5, 1)
    assert found(measured, first="tiny", second="ground_truth")["percent_agreement"] == (
        pytest.approx(3 / 5),
        5,
        1,
    )


def test_pairs_with_few_images_in_common_are_left_out(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "images", PICTURES, PROMPTS)
    measured = agreement(ImageSet.load(folder), min_shared=6)
    assert set(measured["raters"]) == {"all_annotators"}


def test_one_annotator_alone(tmp_path: Path) -> None:
    pictures = [picture._replace(labels=picture.labels[:1]) for picture in PICTURES]
    image_set = ImageSet.load(write_pictures(tmp_path / "images", pictures, PROMPTS))
    assert agreement(image_set).empty
    table = annotator_agreement(agreement(image_set))
    assert table.notes == ("One annotator, or none: there is nobody to agree with.",)
    # With a detector there is one human, whose labels are the consensus.
    with_detector = agreement(image_set, {"tiny": predictions_of(VERDICTS, detector="tiny")}, min_shared=1)
    assert set(with_detector["second"]) == {"a"}


def test_the_adjudicator_is_no_annotator(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "images", PICTURES, PROMPTS)
    labels = folder / "labels.csv"
    labels.write_text(labels.read_text() + "i3,adjudicator,gender,female,\n")
    assert found(agreement(ImageSet.load(folder), min_shared=2))["percent_agreement"][1:] == (5, 1)


def test_tables(measured: pd.DataFrame) -> None:
    table = annotator_agreement(measured)
    names = [(row.cells[0].text, row.cells[1].text) for row in table.rows]
    assert names == [
        ("Everything", ""),
        ("Label", "Male"),
        ("Label", "Female"),
        ("Label", "Low-quality"),
        ("T2I model", "alpha"),
        ("T2I model", "beta"),
        ("Category", "job"),
        ("Category", "place"),
    ]
    assert [cell.text for cell in table.rows[0].cells[2:]] == ["60.00", "0.355", "0.419", "5"]
    pairs = pair_agreement(measured)
    assert [(row.cells[0].text, row.cells[1].text) for row in pairs.rows] == [
        ("a", "b"),
        ("tiny", "a"),
        ("tiny", "b"),
        ("tiny", "consensus"),
    ]
    assert "cohen_kappa_others" not in [column.key for column in pairs.columns]


def test_portraits_agree_with_scikit_learn(shared: Path) -> None:
    folder = shared / "data" / "t2i_portraits"
    labels = pd.read_csv(folder / "labels.csv")
    gender = labels[labels["attribute"] == "gender"].set_index("image_id")
    both = pd.concat({name: gender.loc[gender["annotator"] == name, "label"] for name in "ab"}, axis=1).dropna()
    measured = agreement(ImageSet.load(folder))
    expected = cohen_kappa_score(both["a"], both["b"])
    assert found(measured, first="a", second="b")["cohen_kappa"][0] == pytest.approx(expected)
    # 0.84 on the full set of portraits, of which these are a part.
    assert expected == pytest.approx(0.83, abs=0.01)
    for label in ("male", "low_quality"):
        expected = cohen_kappa_score(both["a"] == label, both["b"] == label)
        assert found(measured, first="a", second="b", label=label)["cohen_kappa"][0] == pytest.approx(expected)


@pytest.mark.slow
def test_three_crowd_workers_agree_with_statsmodels(shared: Path, tmp_path: Path) -> None:
    rated = write_crowd_labels(shared, tmp_path)
    measured = agreement(ImageSet.load(tmp_path), min_shared=1_000)
    for model in ("all", "stable-diffusion"):
        rows = rated if model == "all" else rated[rated["t2i_model"] == model]
        three = np.stack(rows.groupby("image_id")["label"].apply(np.array).to_list())
        expected = of_statsmodels(aggregate_raters(pd.factorize(three.ravel())[0].reshape(three.shape))[0])
        assert found(measured, t2i_model=model)["fleiss_kappa"][0] == pytest.approx(expected)
    assert found(measured)["fleiss_kappa"] == (pytest.approx(0.440, abs=5e-4), 1152, 0)
    assert set(measured["raters"]) == {"all_annotators"}  # 287 workers, of whom no two share 1,000 images


def test_a_file_of_an_earlier_version_has_no_intervals(measured: pd.DataFrame, tmp_path: Path) -> None:
    earlier = measured.drop(columns=["ci_low", "ci_high"])
    earlier.to_csv(tmp_path / "agreement.csv", index=False)
    assert added_columns(tmp_path / "agreement.csv") == ["ci_low", "ci_high"]  # `verify` does not compare these
    read = read_long_table(tmp_path / "agreement.csv")
    assert tuple(read.columns) == AGREEMENT_COLUMNS
    assert read[["ci_low", "ci_high"]].isna().all(axis=None)
    assert measured["ci_low"].notna().any()
    table = annotator_agreement(read)
    assert "In brackets" not in table.caption
    assert [cell.text for cell in table.rows[0].cells[2:]] == ["60.00", "0.355", "0.419", "5"]
    assert not any(cell.interval_text for row in table.rows for cell in row.cells)


def test_command(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(agreement_command)
    write_study(tmp_path, PICTURES, PROMPTS, {"tiny": VERDICTS})
    arguments = [str(tmp_path / "results"), "--min-shared", "2"]
    answer = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "a.csv")], env={"COLUMNS": "160"})
    assert answer.exit_code == 0, answer.output
    assert "0.355" in answer.output
    assert "consensus" in answer.output
    assert tuple(pd.read_csv(tmp_path / "a.csv").columns) == AGREEMENT_COLUMNS
    nothing = CliRunner().invoke(app, [str(tmp_path / "images"), "--attribute", "race"])
    assert "there is nothing to compare" in nothing.output
