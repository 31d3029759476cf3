"""The report that people look at: a folder of pages about a finished study, which opens from a disk.

The verdict comes first (`verdict`), then tables, figures, causes and agreement, each from the rooms that compute
them; the page of images shows every error. Python lays everything out beforehand; the scripts in `static/` sort,
filter and show, and ask no network.
"""

from __future__ import annotations

from detector_bench.evaluation.more_labels import Tolerance
from detector_bench.site.build import (
    ReportProgress,
    ReportSettings,
    SilentProgress,
    WrittenReport,
    write_report,
)
from detector_bench.site.thumbnails import PICTURE_MODES, PictureMode

__all__ = [
    "PICTURE_MODES",
    "PictureMode",
    "ReportProgress",
    "ReportSettings",
    "SilentProgress",
    "Tolerance",
    "WrittenReport",
    "write_report",
]
