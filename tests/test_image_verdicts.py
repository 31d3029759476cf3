"""One coding of verdicts: whatever begins with it takes an image for the same thing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from biaspainter_parts import SEEDS, predictions, write_image_set
from stored_study import FAILED, Picture, filtered, kept, predictions_of, write_pictures

from detector_bench.dataset import ImageSet
from detector_bench.errors import DataError, IncompletePredictionsError
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.image_index import NULL
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.others.judgements import NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.site.image_columns import DetectorVerdicts

SHOWN = ("male", "female", "low_quality", "others", "", "male", "female")
SAID = {
    "i0": kept("male", 0.9),
    "i1": filtered("no_face: too small", 0.4, label="female"),
    "i2": kept("female"),
    "i3": filtered(),
    "i4": FAILED,
    "i5": FAILED,
    # i6 was never run
}
MALE, FEMALE, NO_CLEAR_IMAGE, NONE = range(4)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    pictures = [Picture(f"i{number}", "alpha", "nurse", (label,)) for number, label in enumerate(SHOWN)]
    return ImageSet.load(write_pictures(tmp_path_factory.mktemp("coding") / "images", pictures, {"nurse": "job"}))


def about_age(table: pa.Table) -> pa.Table:
    """The same rows as verdicts on another attribute."""
    return pa.Table.from_pylist([row | {"attribute": "age"} for row in table.to_pylist()], schema=table.schema)


def read(images: ImageSet, *, shuffled: bool = False) -> ImageVerdicts:
    table = predictions_of(SAID, detector="net")
    years = about_age(table)
    table = pa.concat_tables([years, table])
    if shuffled:
        table = table.take(pa.array(np.random.default_rng(1).permutation(len(table))))
    silent = table.filter(pa.array([False] * len(table)))
    tables = {"silent": silent, "net": table, "years": years}
    return ImageVerdicts.read(images, tables, attribute="gender", allow_incomplete=True)


@pytest.mark.parametrize("shuffled", [False, True])
def test_every_image_has_its_verdict_whatever_the_order_of_the_rows(images: ImageSet, shuffled: bool) -> None:
    found = read(images, shuffled=shuffled)
    assert found.detectors == ("silent", "net")
    assert list(found.has_judged) == [False, True]
    assert found.truth.tolist() == [0, 1, 2, 3, NULL, 0, 1]
    assert found.verdicts[1].tolist() == [MALE, NO_CLEAR_IMAGE, FEMALE, NO_CLEAR_IMAGE, NONE, NONE, NULL]
    assert found.counted[1].tolist() == [MALE, NO_CLEAR_IMAGE, FEMALE, NO_CLEAR_IMAGE, NONE, NONE, NONE]
    assert found.named[1].tolist() == [MALE, FEMALE, FEMALE, NULL, NULL, NULL, NULL]
    np.testing.assert_array_equal(found.numbers("score")[1], [0.9, 0.4, *[np.nan] * 5])
    reason, words = found.reasons(1)
    assert [words[code] if code != NULL else None for code in reason] == [
        None, "no_face", None, "no_face", "test_error", "test_error", None,
    ]  # fmt: skip
    assert np.isnan(found.numbers("no such column")).all()


def test_all_that_begins_with_it_agrees(images: ImageSet) -> None:
    found = read(images)
    counts = Counts.of(found)
    np.testing.assert_array_equal(counts.joint.counts(), counts.verdicts)
    assert counts.verdicts[1, 0, 0].tolist() == [[1, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert counts.not_run[:, 0, 0].tolist() == [6, 1]
    assert counts.unlabelled.tolist() == [[1]]
    judged = Judgements.of(images, {"net": predictions_of(SAID, detector="net")}, attributes=["gender"])
    assert judged.labels["gender"].tolist() == [
        [MALE, FEMALE, UNJUDGED, OTHERS, NO_VERDICT, MALE, FEMALE],
        [MALE, UNJUDGED, FEMALE, UNJUDGED, NO_VERDICT, NO_VERDICT, NO_VERDICT],
    ]
    assert judged.images.tolist() == [[7]]
    (columns,) = DetectorVerdicts.of_detectors(found)
    assert columns.verdict.tolist() == [MALE, NO_CLEAR_IMAGE, FEMALE, NO_CLEAR_IMAGE, NONE, NONE, NONE + 1]
    assert columns.named.tolist() == [NULL, FEMALE, *[NULL] * 5]


def test_an_attribute_without_labels_has_none(images: ImageSet) -> None:
    table = predictions_of(SAID, detector="net")
    found = ImageVerdicts.read(images, {"net": table}, attribute="race")
    assert found.detectors == ()
    assert (found.truth == NULL).all()
    with pytest.raises(IncompletePredictionsError, match="net: 1 of 7 images without a prediction"):
        ImageVerdicts.read(images, {"net": table}, attribute="gender")


def test_mistakes_in_two_attributes_come_at_once(images: ImageSet) -> None:
    wrong = predictions_of({"i0": kept("man"), "ghost": FAILED}, detector="net")
    both = {"net": pa.concat_tables([wrong, about_age(wrong)])}
    with pytest.raises(DataError) as caught:
        Judgements.of(images, both, attributes=["gender", "age"])
    assert [problem.value for problem in caught.value.problems] == ["ghost", "man"] * 2


def test_photos_that_no_t2i_model_made_have_verdicts_and_no_count(tmp_path: Path) -> None:
    images = ImageSet.load(write_image_set(tmp_path / "images"))
    found = ImageVerdicts.read(images, {"d": predictions()}, attribute="gender")
    seeds = np.arange(len(found.truth)) < len(SEEDS)
    np.testing.assert_array_equal(found.labelled, ~seeds)
    assert (found.verdicts[0, seeds] == found.truth[seeds]).all()
    assert found.joint().images == Counts.of(found).human.sum() == 12
    for place in found.index.places:
        np.testing.assert_array_equal(place == NULL, seeds)
