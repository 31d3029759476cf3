"""Agreement between the annotators of a labelling store: in numbers, and in words that do not claim more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_answers import CALIBRATION, COUNT, labels_at_random, record, store_in
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa as of_statsmodels
from statsmodels.stats.inter_rater import fleiss_kappa

from detector_bench.evaluation.agreement import agreement as agreement_table
from detector_bench.labelling import Choice, LabelStore
from detector_bench.labelling.agreement_numbers import (
    Agreement,
    LabelsSideBySide,
    Round,
)
from detector_bench.labelling.web.agreement_view import grade, verdict
from detector_bench.metrics.agreement import (
    cohen_interval,
    fleiss_interval,
    krippendorff_alpha,
    krippendorff_interval,
    label_counts,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LabelStore]:
    with store_in(tmp_path) as opened:
        yield opened


def sklearn_kappa(one: Mapping[int, Choice], other: Mapping[int, Choice], numbers: Sequence[int]) -> float:
    return float(cohen_kappa_score(*([given[number].label for number in numbers] for given in (one, other))))


def side_by_side(store: LabelStore) -> LabelsSideBySide:
    return LabelsSideBySide(store.image_set, store.given(independent=True), store.questions[0])


# Numbers


def test_kappa_is_that_of_scikit_learn_everywhere(store: LabelStore) -> None:
    ann, ben = labels_at_random(seed=1, noise=0.3)
    del ben[5]  # not labelled by both
    record(store, "ann", ann)
    record(store, "ben", ben)
    labels = side_by_side(store)
    calibration = [item for item in store.items("ann", 0, COUNT) if item.in_calibration]
    in_calibration = {int(item.item_id[-3:]) for item in calibration}
    both = sorted(ben)
    assert len(in_calibration) == CALIBRATION

    def kappa(**scope: Any) -> float:
        return labels.agreement(("ann", "ben"), **scope).kappa

    assert kappa() == pytest.approx(sklearn_kappa(ann, ben, both))
    rest = [number for number in both if number not in in_calibration]
    assert kappa(part=Round.AFTER) == pytest.approx(sklearn_kappa(ann, ben, rest))
    of_b = [number for number in both if number % 2 == 1]  # small_parts: the T2I models A and B by turns
    assert kappa(t2i_model="B") == pytest.approx(sklearn_kappa(ann, ben, of_b))
    cups = [number for number in both if number // 2 % 2 == 1]
    assert kappa(category="object") == pytest.approx(sklearn_kappa(ann, ben, cups))
    whole = labels.agreement(("ann", "ben"))
    assert whole.images == COUNT - 1
    assert whole.percent == np.mean([ann[number] == ben[number] for number in both])
    found = {(one.t2i_model, one.category): one.agreement.kappa for one in labels.by_scope(("ann", "ben"))}
    assert set(found) == {("A", "all"), ("B", "all"), ("all", "profession"), ("all", "object")}
    assert found["B", "all"] == kappa(t2i_model="B")


def test_numbers_are_those_of_the_agreement_command(store: LabelStore) -> None:
    for name, given in zip(("ann", "ben"), labels_at_random(seed=2, noise=0.3), strict=True):
        record(store, name, given)
    record(store, "cem", labels_at_random(seed=2, noise=0.5)[1])
    labels = side_by_side(store)
    labelled = replace(store.image_set, labels=store.labels(independent=True), _image_of_label=None)
    table = agreement_table(labelled, min_shared=1)
    everywhere = table[table["label"] == "all"].set_index(["first", "t2i_model", "category", "statistic"])
    for scope in [("all", "all"), *labels.scopes]:
        place = {"t2i_model": scope[0], "category": scope[1]}
        of_three = labels.agreement(("ann", "ben", "cem"), **place)
        assert of_three.kappa == pytest.approx(everywhere.loc[("", *scope, "fleiss_kappa"), "value"])
        assert of_three.percent == pytest.approx(everywhere.loc[("", *scope, "percent_agreement"), "value"])
        of_two = labels.agreement(("ben", "cem"), **place)
        assert of_two.kappa == pytest.approx(everywhere.loc[("ben", *scope, "cohen_kappa"), "value"])


def test_interval_of_cohens_kappa_by_hand() -> None:
    # kappa 0.4, p_e 0.5. Variance by Fleiss, Cohen and Everitt (1969): (A + B - C) / ((1 - p_e)^2 n) with
    # A = 0.4 x 0.34^2 + 0.3 x 0.46^2 = 0.10972, B = 0.36 (0.1 x 1.1^2 + 0.2 x 0.9^2) = 0.10188, C = 0.1^2.
    error = math.sqrt((0.10972 + 0.10188 - 0.01) / (0.25 * 50))
    found = cohen_interval(np.array([[20, 5, 0], [10, 15, 0], [0, 0, 0]]))
    assert (float(found.low), float(found.high)) == pytest.approx((0.4 - 1.959964 * error, 0.4 + 1.959964 * error))


def test_interval_of_fleiss_kappa_leaves_out_every_image_once() -> None:
    random = np.random.default_rng(0)
    seen = random.integers(0, 3, 40)
    codes = np.where(random.random((3, 40)) < 0.25, random.integers(0, 3, (3, 40)), seen)
    counts = np.stack([(codes == label).sum(axis=0) for label in range(4)], axis=-1)
    left_out = [fleiss_kappa(np.delete(counts, row, axis=0)) for row in range(40)]
    error = math.sqrt(39 / 40 * ((left_out - np.mean(left_out)) ** 2).sum())
    found = fleiss_interval(counts)
    half = 1.959964 * error
    assert (float(found.low), float(found.high)) == pytest.approx(
        (fleiss_kappa(counts) - half, fleiss_kappa(counts) + half), rel=1e-6
    )
    extra = np.array([[2, 0, 0, 0], [1, 0, 0, 0]])  # a different number of labels: not part of the kappa
    assert fleiss_interval(np.vstack([counts, extra])) == found


def test_interval_of_cohens_kappa_is_that_of_statsmodels() -> None:
    random = np.random.default_rng(4)
    for labels in (2, 3, 6):
        table = random.integers(0, 30, (labels, labels)) + 10 * np.eye(labels, dtype=int)
        expected = of_statsmodels(table)
        found = cohen_interval(table)
        half = 1.959964 * expected.std_kappa
        assert (float(found.low), float(found.high)) == pytest.approx(
            (expected.kappa - half, expected.kappa + half), rel=1e-6
        )
    never_varies = np.array([[4, 4], [0, 0]])  # kappa is 0 whatever the other says: that is no finding
    assert np.isnan(cohen_interval(never_varies)).all()


def test_interval_of_krippendorffs_alpha_leaves_out_every_image_once() -> None:
    random = np.random.default_rng(1)
    codes = np.where(random.random((3, 40)) < 0.3, random.integers(0, 3, (3, 40)), random.integers(0, 3, 40))
    codes[2, :10] = -1
    counts = label_counts(list(codes), labels=3)
    left_out = [float(krippendorff_alpha(np.delete(counts, row, axis=0)).value) for row in range(40)]
    half = 1.959964 * math.sqrt(39 / 40 * ((left_out - np.mean(left_out)) ** 2).sum())
    value, found = float(krippendorff_alpha(counts).value), krippendorff_interval(counts)
    assert (float(found.low), float(found.high)) == pytest.approx((value - half, value + half), rel=1e-6)


@pytest.mark.parametrize(
    "contingency",
    [np.diag([7, 5, 0]), np.diag([7, 0, 0]), np.zeros((3, 3), dtype=int)],
    ids=["always agreed", "one label", "no image"],
)
def test_no_interval_where_nothing_varies(contingency: np.ndarray[Any, Any]) -> None:
    assert np.isnan(cohen_interval(contingency)).all()
    counts = np.repeat(2 * np.eye(3, dtype=int), contingency.diagonal(), axis=0)
    assert np.isnan(fleiss_interval(counts)).all()
    assert np.isnan(krippendorff_interval(counts)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("images", "lowest"), [(50, 0.90), (300, 0.93)])
@pytest.mark.parametrize("annotators", [2, 3])
def test_intervals_hold_the_truth_about_as_often_as_they_say(images: int, lowest: float, annotators: int) -> None:
    random = np.random.default_rng(0)

    def codes(count: int) -> np.ndarray[Any, Any]:
        seen = random.choice(3, count, p=[0.55, 0.3, 0.15])
        return np.where(random.random((annotators, count)) < 0.1, random.integers(0, 3, (annotators, count)), seen)

    def counts(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.stack([(given == label).sum(axis=0) for label in range(4)], axis=-1)

    def contingency(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.bincount(4 * given[0] + given[1], minlength=16).reshape(4, 4)

    whole = codes(200_000)
    fleiss, cohen = fleiss_kappa(counts(whole)), cohen_kappa_score(whole[0], whole[1])
    alpha = float(krippendorff_alpha(counts(whole)).value)
    held = []
    for _ in range(300):
        given = codes(images)
        of_all, of_two = fleiss_interval(counts(given)), cohen_interval(contingency(given))
        of_alpha = krippendorff_interval(counts(given))
        held.append(
            (
                of_all.low <= fleiss <= of_all.high,
                of_two.low <= cohen <= of_two.high,
                of_alpha.low <= alpha <= of_alpha.high,
            )
        )
    assert (np.mean(held, axis=0) >= lowest).all()
    assert (np.mean(held, axis=0) <= 0.99).all()


def test_an_annotator_may_bear_any_name(store: LabelStore) -> None:
    ann, ben = labels_at_random(seed=3, noise=0.2)
    record(store, "in_calibration", ann)
    record(store, "image_id", ben)
    labels = side_by_side(store)
    assert labels.annotators == ["image_id", "in_calibration"]
    assert labels.agreement(labels.annotators).images == COUNT


# Words


def agreement(kappa: float, low: float, high: float, *, percent: float = 0.9, images: int = 200) -> Agreement:
    return Agreement(kappa=kappa, low=low, high=high, percent=percent, images=images, compared=images)


@pytest.mark.parametrize(
    ("kappa", "name"),
    [
        *((-0.1, "poor"), (0, "slight"), (0.2, "slight"), (0.4, "fair"), (0.6, "moderate")),
        *((0.61, "substantial"), (0.8, "substantial"), (0.81, "almost perfect"), (1, "almost perfect")),
    ],
)
def test_grades_are_those_of_landis_and_koch(kappa: float, name: str) -> None:
    assert grade(kappa) == name


def test_a_verdict_names_every_grade_that_the_interval_reaches() -> None:
    assert verdict(agreement(0.7, 0.62, 0.78), annotators=2).title == "Substantial agreement"
    wide = verdict(agreement(0.7, 0.55, 0.85, images=40), annotators=2)
    assert wide.title == "Moderate to almost perfect agreement"
    assert "0.70 (95\N{NO-BREAK SPACE}% interval 0.55 to 0.85)" in wide.text
    assert wide.caution == "With fewer than 50 pictures the interval is rough."


def test_a_verdict_does_not_claim_what_was_not_measured() -> None:
    nothing = Agreement(math.nan, math.nan, math.nan, math.nan, 0, 0)
    assert verdict(nothing, annotators=2).title == "Nothing to compare yet"
    assert verdict(nothing, annotators=0).text == "Nobody has labelled a picture so far."
    assert verdict(nothing, annotators=1).text == "Only one person has labelled a picture so far."
    one_label = agreement(math.nan, math.nan, math.nan, percent=1.0, images=30)
    assert verdict(one_label, annotators=2).title == "No kappa yet"
    perfect = verdict(agreement(1.0, math.nan, math.nan, percent=1.0, images=30), annotators=2)
    assert perfect.title == "No disagreement so far"
    # Nothing in 30: the exact upper limit is 1 - 0.05^(1/30) = 0.095.
    assert perfect.caution.endswith("Up to 10\N{NO-BREAK SPACE}% of disagreement would still be no surprise.")
