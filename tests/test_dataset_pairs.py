"""Edited images and the seeds they were made from: how they are read, and counted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from image_pairs import IMAGES, damaged, mistakes, replace, write_pairs

from detector_bench.dataset import ImageSet, check
from detector_bench.errors import DataError, IncompletePredictionsError
from detector_bench.evaluation import evaluate
from detector_bench.evaluation.counting import count_verdicts
from detector_bench.evaluation.image_index import ImageIndex, human_label_codes

ONLY_A_SEED = "only the seed of an edited image may have none"
A_MODEL = f"(accepted: the T2I model that made the image; {ONLY_A_SEED})"
A_PROMPT = f"(accepted: the prompt that the image was made with; {ONLY_A_SEED})"
A_PAIR = "(accepted: an image whose seed_image_id names it; or the T2I model and the prompt that it was made with)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "set")


class TestSeeds:
    def test_a_sound_set(self, folder: Path) -> None:
        image_set = ImageSet.load(folder, check_files=True)
        assert image_set.images[["image_id", "t2i_model", "prompt_id", "seed_image_id"]].to_numpy().tolist()[
            :3
        ] == [
            ["tom", "", "", ""],
            ["ann", "", "", ""],
            ["e1", "sd15", "nurse", "tom"],
        ]
        truth = image_set.truth("gender")
        assert truth["image_id"].tolist() == ["tom", "ann", "e1", "e2", "e3", "m1", "m2"]
        assert truth["label"].tolist() == ["male", "female", "female", "female", "male", "male", "low_quality"]

    def test_report(self, folder: Path) -> None:
        report = check(folder)
        assert (report.n_images, report.n_seeds, report.n_edited) == (7, 3, 4)
        assert report.summary().splitlines() == [
            "Image set set: 7 images, 2 prompts",
            "  2 T2I models: sd15, sdxl",
            "  2 annotators: a, b",
            "  4 edited images of 3 seed images",
            "    seed photos by gender: male 2, female 1: not balanced",
            "    seed photos by age: young 1, middle_aged 0, elderly 0; without a class: 2: not balanced",
            "    seed photos have no labels of race or skin_tone: whether they are balanced by it "
            "cannot be checked",
            "    seed photos by gender x age: 1 of 6 groups, 1 in each",
            "    scores of edited photos weigh groups as they are among the seeds, and a score that takes half of "
            "the seeds to be women is wrong for others",
            "  gender: 7 labels of 7 images",
            "    consensus: male 3 (42.9%), female 3 (42.9%), low_quality 1 (14.3%)",
            "    low_quality for disagreement: 0",
            "  age: 2 labels of 1 of 7 images",
            "    consensus: young 1 (100.0%)",
            "    low_quality for disagreement: 0",
            "    measured: 2 values, agreed on for 1 image",
            "  7 image files read",
            "No mistakes.",
        ]

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            (
                [("sd15,pilot,tom", "sd15,pilot,tomm")],
                [
                    "images.csv, row 6, column seed_image_id: seed that is not an image of the set: 'tomm' "
                    "(accepted: did you mean 'tom'?)"
                ],
            ),
            (
                [("sd15,pilot,tom", "sd15,pilot,0815")],
                [
                    "images.csv, row 6, column seed_image_id: seed that is not an image of the set: '0815' "
                    "(accepted: an image_id that images.csv lists)"
                ],
            ),
            (
                [("sdxl,pilot,\n", "sdxl,pilot,m1\n")],
                [
                    "images.csv, row 7, column seed_image_id: image that is its own seed: 'm1' "
                    "(accepted: the id of another image, or an empty cell)"
                ],
            ),
            (
                [("sdxl,pilot,\n", "sdxl,pilot,m2\n")],
                [
                    f"images.csv, row {row}, column seed_image_id: image that is made from itself, by way "
                    f"of other "
                    f"images: '{seed}' (accepted: an image that is not made from this one, or an empty cell)"
                    for row, seed in ((7, "m2"), (8, "m1"))
                ],
            ),
            (
                [("sd15,nurse,ann", "sd15,nurse,tom")],
                [f"images.csv, row 3, column image_id: seed without its pair: 'ann' {A_PAIR}"],
            ),
            (
                [("ann.png,,,", "ann.png,,nurse,")],
                [
                    "images.csv, row 3, column prompt_id: prompt of a seed that no T2I model made: 'nurse' "
                    "(accepted: an empty cell, or the T2I model too)"
                ],
            ),
            (
                [("ann.png,,,", "ann.png,sdxl,,")],
                [f"images.csv, row 3, column prompt_id: empty cell: '' {A_PROMPT}"],
            ),
            (
                [("ann.png,,,", "ann.png,,,tom")],
                [
                    f"images.csv, row 3, column t2i_model: empty cell: '' {A_MODEL}",
                    f"images.csv, row 3, column prompt_id: empty cell: '' {A_PROMPT}",
                ],
            ),
            (
                [("sd15,pilot,tom", ",pilot,tom")],
                [f"images.csv, row 6, column t2i_model: empty cell: '' {A_MODEL}"],
            ),
            (
                [("sd15,pilot,tom", "sd15,,tom")],
                [f"images.csv, row 6, column prompt_id: empty cell: '' {A_PROMPT}"],
            ),
            (
                [("sdxl,pilot,\n", ",pilot,\n"), ("sdxl,nurse,m1", "sdxl,nurse,")],
                [f"images.csv, row 7, column t2i_model: empty cell: '' {A_MODEL}"],
            ),
            (
                [("ann.png,,,", "ann.png, ,,")],
                ["images.csv, row 3, column t2i_model: blanks around the text: ' ' (accepted: '')"],
            ),
            (
                [("sdxl,pilot,\n", "sdxl,pilot,  \n")],
                ["images.csv, row 7, column seed_image_id: blanks around the text: '  ' (accepted: '')"],
            ),
        ],
    )
    def test_refused(self, folder: Path, changes: list[tuple[str, str]], expected: list[str]) -> None:
        assert damaged(folder, "images.csv", *changes) == expected

    def test_without_the_column_every_image_needs_a_model_and_a_prompt(self, folder: Path) -> None:
        lines = [line.rsplit(",", 1)[0] for line in IMAGES.splitlines()]
        (folder / "images.csv").write_text("\n".join(lines))
        assert mistakes(lambda: ImageSet.load(folder)) == [
            f"images.csv, row {row}, column {column}: empty cell: '' (accepted: some text)"
            for column in ("t2i_model", "prompt_id")
            for row in (2, 3)
        ]

    def test_the_pair_of_a_seed_may_stand_in_a_row_that_cannot_be_read(self, folder: Path) -> None:
        (problem,) = damaged(folder, "images.csv", ("sd15,nurse,ann", "sd15,nurse,ann,more"))
        assert problem.startswith("images.csv, row 5: row has 6 cells: 'e2,images/2.png,sd15,nurse,ann,more'")

    def test_a_chain_of_edits_is_no_circle(self, folder: Path) -> None:
        rows = "".join(f"m{number},images/5.png,sdxl,nurse,m{number - 1}\n" for number in range(3, 40))
        (folder / "images.csv").write_text(IMAGES + rows)
        assert len(ImageSet.load(folder, require_labels=False).images) == 44
        # m20 from m39, which comes from it; m1 to m19 lie before the circle.
        replace(folder, "images.csv", ("nurse,m19\n", "nurse,m39\n"))
        found = mistakes(lambda: ImageSet.load(folder, require_labels=False))
        assert [line.split(", column")[0] for line in found] == [f"images.csv, row {row}" for row in range(26, 46)]

    def test_a_large_set_of_pairs_is_checked_as_a_whole(self, folder: Path) -> None:
        n = 100_000
        images = pd.DataFrame({"image_id": ["tom", *(f"i{number}" for number in range(1, n))]})
        images = images.assign(path="x.png", t2i_model="m", prompt_id="nurse", seed_image_id="tom")
        images.loc[0, ["t2i_model", "prompt_id", "seed_image_id"]] = ""
        images.loc[n - 1, "seed_image_id"] = "tomm"
        images.to_csv(folder / "images.csv", index=False)
        (folder / "labels.csv").unlink()
        assert mistakes(lambda: ImageSet.load(folder, require_labels=False)) == [
            "images.csv, row 100001, column seed_image_id: seed that is not an image of the set: 'tomm' "
            "(accepted: did you mean 'tom'?)"
        ]


def predictions(**verdicts: str) -> pa.Table:
    """By image: male, female, filtered or error."""
    clear = [verdict in ("male", "female") for verdict in verdicts.values()]
    return pa.table(
        {
            "image_id": pa.array(list(verdicts)),
            "attribute": pa.array(["gender"] * len(verdicts)),
            "status": pa.array(
                [
                    "clear" if is_clear else verdict
                    for is_clear, verdict in zip(clear, verdicts.values(), strict=True)
                ]
            ),
            "label": pa.array(
                [
                    verdict if is_clear else None
                    for is_clear, verdict in zip(clear, verdicts.values(), strict=True)
                ],
                pa.string(),
            ),
        }
    )


ALL_SEVEN = {
    "tom": "female",
    "ann": "female",
    "e1": "female",
    "e2": "male",
    "e3": "filtered",
    "m1": "male",
    "m2": "error",
}
EDITED = {name: verdict for name, verdict in ALL_SEVEN.items() if name not in ("tom", "ann")}


class TestCounting:
    def test_photos_are_in_no_count(self, folder: Path) -> None:
        counts = count_verdicts(ImageSet.load(folder), {"net": predictions(**ALL_SEVEN)}, attribute="gender")
        assert (counts.t2i_models, counts.prompt_ids) == (("sd15", "sdxl"), ("nurse", "pilot"))
        # Human labels: male, female, low_quality, others.
        assert counts.human.tolist() == [[[0, 2, 0, 0], [1, 0, 0, 0]], [[0, 0, 1, 0], [1, 0, 0, 0]]]
        assert counts.unlabelled.tolist() == [[0, 0], [0, 0]]
        # Rows: human labels; columns: male, female, filtered, no verdict. e1 and e2, e3, m2, m1:
        assert counts.verdicts[0, 0, 0].tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert counts.verdicts[0, 0, 1].tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert counts.verdicts[0, 1, 0].tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
        assert counts.verdicts[0, 1, 1].tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert counts.not_run.tolist() == [[[0, 0], [0, 0]]]
        assert counts.joint.truth.tolist() == [1, 1, 0, 0, 2]
        assert counts.joint.verdicts.tolist() == [[1, 0, 2, 0, 3]]
        assert counts.joint.pair.tolist() == [0, 0, 1, 3, 2]

    def test_photos_without_a_label_are_not_among_the_unlabelled(self, folder: Path) -> None:
        replace(folder, "labels.csv", ("tom,a,gender,male,,\n", ""), ("e3,a,gender,male,,\n", ""))
        counts = count_verdicts(ImageSet.load(folder, require_labels=False), {}, attribute="gender")
        assert counts.unlabelled.tolist() == [[0, 1], [0, 0]]

    def test_a_prediction_about_a_photo_is_neither_needed_nor_refused(self, folder: Path) -> None:
        image_set = ImageSet.load(folder)
        both = {"with": predictions(**ALL_SEVEN), "without": predictions(**EDITED)}
        table = evaluate(image_set, both, attributes=["gender"])
        assert set(table["t2i_model"]) == {"all", "sd15", "sdxl"}
        of = {name: table[table["detector"] == name].drop(columns="detector") for name in both}
        pd.testing.assert_frame_equal(*(rows.reset_index(drop=True) for rows in of.values()))
        labelled = table[
            (table["metric"] == "accuracy") & (table["t2i_model"] == "all") & (table["category"] == "all")
        ]
        assert labelled["n"].tolist() == [3, 3]  # e1, e2 and m1 are clear to the humans and to the detector

    def test_a_missing_prediction_about_an_edited_image_is(self, folder: Path) -> None:
        few = predictions(**{name: verdict for name, verdict in EDITED.items() if name != "e2"})
        with pytest.raises(IncompletePredictionsError) as caught:
            count_verdicts(ImageSet.load(folder), {"net": few}, attribute="gender")
        assert str(caught.value).splitlines()[1] == (
            "  net: 1 of 5 images without a prediction, the first is 'e2'"
        )

    def test_labels_of_photos_can_be_had(self, folder: Path) -> None:
        image_set = ImageSet.load(folder)
        index = ImageIndex.of(image_set)
        from detector_bench.vocabulary import attribute_named

        assert index.counted.tolist() == [False, False, True, True, True, True, True]
        assert human_label_codes(image_set, index, attribute_named("gender")).tolist() == [0, 1, 1, 1, 0, 0, 2]

    @pytest.mark.parametrize("column", ["t2i_model", "prompt_id"])
    def test_half_a_photo_belongs_nowhere(self, folder: Path, column: str) -> None:
        loaded = ImageSet.load(folder)
        images = loaded.images.copy()
        images.loc[5, column] = ""
        made = ImageSet(root=loaded.root, images=images, prompts=loaded.prompts, labels=loaded.labels)
        with pytest.raises(DataError, match="1 images without a known prompt or a T2I model, the first is: 'm1'"):
            ImageIndex.of(made)
