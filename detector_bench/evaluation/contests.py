"""The detectors of a study against each other: who is compared with whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation.comparison import (
    COMPARED_METRICS,
    ComparisonFamily,
    Contest,
    PairedImages,
    check_same_images,
    images_judged_differently,
)
from detector_bench.evaluation.counting import LabelledImages, count_verdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import NClear

CONTEST_COLUMNS = ("image_sha256",)
"""What `read_predictions` has to read for the functions of this module."""


@dataclass(frozen=True, eq=False)
class DetectorContest:
    """The detectors that judged the same images of one attribute."""

    attribute: str
    contest: Contest
    left_out: tuple[str, ...]
    """Detectors that were judged on other images."""

    @classmethod
    def of(
        cls,
        image_set: LabelledImages,
        predictions: Mapping[str, pa.Table],
        *,
        attribute: str,
        pair: tuple[str, str] | None = None,
    ) -> Self:
        """Gather the detectors.

        Args:
            image_set: images, prompts and human labels.
            predictions: by detector, with the columns `CONTEST_COLUMNS`.
            attribute: which one.
            pair: two detectors that must be comparable, while others may be left out; None: all must.

        Raises:
            ConfigError: one of the pair, or all but one detector, do not judge the attribute.
            DetectorBenchError: detectors were judged on different images.
        """
        tables = dict(predictions)
        judging = [name for name, table in tables.items() if _judges(table, attribute)]
        for name in pair or ():
            if name not in judging:
                raise ConfigError(f"{name} does not judge {attribute}: nothing to compare")
        if pair is not None:
            check_same_images(*pair, tables, attribute=attribute)
        left_out = []
        for name in judging:
            try:
                check_same_images(pair[0] if pair else judging[0], name, tables, attribute=attribute)
            except DetectorBenchError:
                if pair is None:
                    raise
                left_out.append(name)
        kept = {name: table for name, table in tables.items() if name not in left_out}
        counts = count_verdicts(image_set, kept, attribute=attribute, allow_incomplete=True)
        silent = [name for name in kept if name not in counts.detectors]
        if silent and len(counts.detectors) < 2:
            raise ConfigError(f"{', '.join(silent)} does not judge {attribute}: nothing to compare")
        return cls(attribute, Contest(counts.joint, counts.detectors), tuple(left_out))

    def family(
        self, intervals: Intervals, *, n_clear: NClear, metrics: Sequence[str] = COMPARED_METRICS
    ) -> ComparisonFamily:
        """All pairs of the detectors by all these metrics, tested at once.

        Raises:
            ConfigError: a metric that detectors cannot be compared by.
        """
        return ComparisonFamily.of(
            [self.contest],
            metrics=tuple(dict.fromkeys(metrics)),
            unit=intervals.unit,
            seed=intervals.seed,
            level=intervals.level,
            n_clear=n_clear,
        )

    def pair(self, first: str, second: str) -> tuple[int, int]:
        """The positions of two detectors."""
        return self.contest.detectors.index(first), self.contest.detectors.index(second)

    def images_judged_differently(self, first: str, second: str) -> list[PairedImages]:
        """McNemar's exact tests of two detectors."""
        return images_judged_differently(self.contest.joint, *self.pair(first, second))


def _judges(table: pa.Table, attribute: str) -> bool:
    return attribute in table["attribute"].unique().to_pylist()
