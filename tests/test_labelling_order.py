"""The order in which annotators see images: random, their own, and the same whatever happens in between."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from labelling_sets import numbered, saying, write_image_set
from scipy.stats import chisquare

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.labelling import ChangeKind, DeskSettings, LabelStore
from detector_bench.labelling.items import DeskItem, order_for

_ORDER_SCRIPT = """
import sys
from detector_bench.dataset import ImageSet
from detector_bench.labelling import LabelStore
with LabelStore.open(sys.argv[1], ImageSet.load(sys.argv[2], require_labels=False)) as store:
    print(" ".join(item.item_id for item in store.items(sys.argv[3], 0, 1000)))
"""


def order(store: LabelStore, annotator: str) -> list[str]:
    return [item.item_id for item in store.items(annotator, 0, 1000)]


def opened(folder: Path, **settings: object) -> LabelStore:
    chosen = DeskSettings.checked(**settings) if settings else None
    return LabelStore.open(folder / "s.sqlite", ImageSet.load(folder, require_labels=False), settings=chosen)


class TestOwnOrder:
    def test_everybody_sees_every_image_once_in_an_order_of_their_own(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(40))
        with opened(tmp_path) as store:
            orders = {name: order(store, name) for name in ("ann", "ben", "cleo")}
        assert all(sorted(seen) == numbered(40) for seen in orders.values())
        assert len({tuple(seen) for seen in [*orders.values(), numbered(40)]}) == 4

    def test_it_is_the_same_in_another_process(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(40))
        with opened(tmp_path, seed=7) as store:
            here = order(store, "Zoë")
        command = [sys.executable, "-c", _ORDER_SCRIPT, str(tmp_path / "s.sqlite"), str(tmp_path), "Zoë"]
        environment = {**os.environ, "PYTHONHASHSEED": "1"}
        there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert there.stdout.split() == here

    def test_it_is_what_it_was_when_this_was_written(self) -> None:
        # Written down once: another order, by a new numpy for instance, would shuffle studies under way.
        items = [DeskItem(name, (("image", name),)) for name in numbered(8)]
        seen = [item.item_id for item in order_for("ann", items, seed=0)]
        assert seen == ["i002", "i007", "i000", "i003", "i005", "i004", "i001", "i006"]

    def test_the_order_of_the_file_has_no_influence(self, tmp_path: Path) -> None:
        orders = []
        for name, ids in (("one", numbered(30)), ("two", numbered(30)[::-1])):
            write_image_set(tmp_path / name, ids)
            with opened(tmp_path / name) as store:
                orders.append(order(store, "ann"))
        assert orders[0] == orders[1]

    def test_the_seed_has(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(30))
        with opened(tmp_path, seed=1) as store:
            first = order(store, "ann")
        (tmp_path / "s.sqlite").unlink()
        with opened(tmp_path, seed=2) as store:
            assert order(store, "ann") != first

    def test_every_place_is_equally_likely(self) -> None:
        items = [DeskItem(name, (("image", name),)) for name in numbered(10)]
        places = Counter(
            [item.item_id for item in order_for(f"annotator {number}", items, seed=3)].index("i004")
            for number in range(2000)
        )
        assert chisquare([places[place] for place in range(10)]).pvalue > 0.001

    def test_a_name_typed_with_combining_accents_is_the_same_name(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(20))
        with opened(tmp_path) as store:
            assert order(store, "Zoe\u0308") == order(store, "Zo\u00eb")


class TestChangedImageSets:
    def test_new_images_come_at_the_end_and_move_no_other(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(20))
        with opened(tmp_path) as store:
            before = order(store, "ann")
        write_image_set(tmp_path, ["a_new", *numbered(20), "z_new"])
        with opened(tmp_path) as store:
            assert order(store, "ann")[:20] == before
            assert sorted(order(store, "ann")[20:]) == ["a_new", "z_new"]
            # Also for somebody who comes later, so that two annotators of one part have one part.
            assert set(order(store, "ben")[20:]) == {"a_new", "z_new"}
            added = [change.image_id for change in store.changes() if change.kind is ChangeKind.ADDED]
        assert sorted(added) == ["a_new", "z_new"]
        write_image_set(tmp_path, ["a_new", *numbered(20), "z_new", "third"])
        with opened(tmp_path) as store:
            assert order(store, "ann")[22:] == ["third"]

    def test_removed_images_leave_the_others_in_their_order(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(20))
        with opened(tmp_path) as store:
            before = order(store, "ann")
            store.record("ann", saying("i003", "male"))
        write_image_set(tmp_path, [name for name in numbered(20) if name not in ("i003", "i011")])
        with opened(tmp_path) as store:
            assert order(store, "ann") == [name for name in before if name not in ("i003", "i011")]
            assert store.progress("ann").total == 18
            assert store.progress("ann").done == 0
            removed = {c.image_id: c.answers for c in store.changes() if c.kind is ChangeKind.REMOVED}
            assert removed == {"i003": 1, "i011": 0}
            assert store.labels().empty
            assert [answer.image_changed for answer in store.answers("ann")] == [True]
        write_image_set(tmp_path, numbered(20))
        with opened(tmp_path) as store:  # back again: nothing was lost
            assert order(store, "ann") == before
            assert store.progress("ann").done == 1


class TestCalibrationRound:
    @pytest.mark.parametrize(
        ("items", "wanted", "size"),
        [(6000, 150, 150), (1500, 150, 150), (60, 150, 6), (61, 150, 7), (0, 150, 0), (60, 4, 4), (60, 0, 0)],
    )
    def test_it_has_150_images_or_a_tenth(self, items: int, wanted: int, size: int) -> None:
        assert DeskSettings(calibration_images=wanted).calibration_size(items) == size

    def test_all_annotators_begin_with_the_same_images_in_orders_of_their_own(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(80))
        with opened(tmp_path) as store:
            first = {name: order(store, name)[:8] for name in ("ann", "ben", "cleo")}
            flags = [item.in_calibration for item in store.items("ann", 0, 80)]
            assert store.progress("ann").calibration_total == 8
        assert len({frozenset(images) for images in first.values()}) == 1
        assert len({tuple(images) for images in first.values()}) == 3
        assert flags == [True] * 8 + [False] * 72

    def test_it_stays_the_same_when_images_are_added(self, tmp_path: Path) -> None:
        write_image_set(tmp_path, numbered(20))
        with opened(tmp_path) as store:
            before = order(store, "ann")[:2]
        write_image_set(tmp_path, numbered(200))
        with opened(tmp_path) as store:
            assert [item.item_id for item in store.items("ann", 0, 200) if item.in_calibration] == before

    def test_it_hangs_on_the_seed(self, tmp_path: Path) -> None:
        chosen = []
        for seed in (1, 2):
            write_image_set(tmp_path / str(seed), numbered(80))
            with opened(tmp_path / str(seed), seed=seed) as store:
                chosen.append(frozenset(order(store, "ann")[:8]))
        assert chosen[0] != chosen[1]


class TestPairs:
    def test_an_item_is_an_edited_image_with_its_seed(self, tmp_path: Path) -> None:
        image_set = write_image_set(tmp_path, numbered(12), pairs=True)
        with LabelStore.open(tmp_path / "p.sqlite", image_set, settings=DeskSettings(task="pairs")) as store:
            items = {item.item_id: item.images for item in store.items("ann", 0, 100)}
        assert len(items) == 12
        assert items["i004"] == (("seed", "seed_i004"), ("edited", "i004"))

    def test_an_image_set_without_pairs_is_refused_and_no_file_is_made(self, tmp_path: Path) -> None:
        image_set = write_image_set(tmp_path, numbered(3))
        with pytest.raises(ConfigError, match=r"no pairs to judge.*seed_image_id"):
            LabelStore.open(tmp_path / "p.sqlite", image_set, settings=DeskSettings(task="pairs"))
        assert not (tmp_path / "p.sqlite").exists()

    def test_a_seed_image_that_is_not_listed_is_refused(self, tmp_path: Path) -> None:
        image_set = write_image_set(tmp_path, numbered(3), pairs=True)
        images = image_set.images
        images.loc[images["image_id"] == "i001", "seed_image_id"] = "nobody"
        with pytest.raises(ConfigError, match="'i001' names the seed image 'nobody'"):
            LabelStore.open(tmp_path / "p.sqlite", image_set, settings=DeskSettings(task="pairs"))
