"""The page "Lyu 2025: what holds" of a report: the paper's claims, asked of the study one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

from detector_bench.errors import DetectorBenchError
from detector_bench.others.lyu2025.claim_tables import (
    PARTS,
    claims_table,
    in_short,
    left_out_notes,
    not_asked_table,
    part_rows,
)
from detector_bench.others.lyu2025.referee import JudgedClaim
from detector_bench.others.lyu2025.study_claims import GENDER, claims_of_study, concerns
from detector_bench.site.pages import ReportFolder, with_groups, write_page
from detector_bench.site.report_study import AttributePart, ReportStudy
from detector_bench.tables import Table, in_style_of, write_tables

PAGE, NAME = "lyu2025.html", "Lyu 2025"
MOST_LABELLED = 100_000
"""Of more labelled images the resamples would take minutes; the command asks them, too."""

_TEMPLATE = "lyu2025.html"


class LyuPage(NamedTuple):
    """What the page shows."""

    judged: list[JudgedClaim]
    part: AttributePart

    @classmethod
    def of(cls, study: ReportStudy) -> LyuPage | None:
        """None where the study has no labels of gender, no images, or no detector or T2I model of the paper."""
        part = next((each for each in study.parts if each.name == GENDER), None)
        if part is None or study.image_set is None or not concerns(part.study.detectors, part.study.t2i_models):
            return None
        try:
            counts = part.study.counts
        except DetectorBenchError:
            return None  # the report says elsewhere why predictions are not there
        if not 0 < counts.joint.images <= MOST_LABELLED:
            return None
        return cls(claims_of_study(study.image_set, counts, seed=part.study.intervals.seed), part)

    def write(self, folder: ReportFolder, shared: dict[str, Any]) -> None:
        """Write page and tables.

        Args:
            folder: of the report.
            shared: the study's name and the pages, for every page's head.
        """
        notes = left_out_notes(self.part.study.counts)
        found = claims_table(self.judged, notes=notes), not_asked_table(self.judged)
        tables = [self._styled(each) for each in found]
        folder.add(*write_tables({table.name: table for table in tables}, folder.path / "tables"))
        rows = folder / f"tables/{PARTS}.csv"
        part_rows(self.judged).to_csv(rows, index=False, lineterminator="\n")
        claims, others = with_groups(tables)
        content = {"headline": in_short(self.judged), "claims": claims, "others": others, "parts": PARTS}
        write_page(folder / PAGE, _TEMPLATE, {**shared, **content})

    def _styled(self, table: Table) -> Table:
        return in_style_of(self.part.study.results.study, table)
