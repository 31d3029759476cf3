"""Writes the report of a finished study: one folder that opens from a disk and asks no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from detector_bench import __version__
from detector_bench.atomic_files import write_text
from detector_bench.dataset.published_text import without_folders
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation.more_labels import Tolerance
from detector_bench.figures.figure_files import RECORD
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.manifest import NAME as RESULTS
from detector_bench.results.run_record import read_run_record
from detector_bench.runner.stage_cache import default_cache_folder
from detector_bench.sealed import sealed_digest
from detector_bench.site.attribute_page import AttributePage, left_out_of_pictures
from detector_bench.site.audit_section import CURVE, FIGURE
from detector_bench.site.beside_page import BesidePage
from detector_bench.site.browser_data import SCRIPTS, StoredBoxes, stored_boxes, write_browser_data
from detector_bench.site.error_counts import BROWSER_PAGE
from detector_bench.site.lyu2025_page import NAME as LYU_NAME
from detector_bench.site.lyu2025_page import PAGE as LYU_PAGE
from detector_bench.site.lyu2025_page import LyuPage
from detector_bench.site.pages import CARE, SHORT_CARE, ReportFolder, with_groups, with_own_care, write_page
from detector_bench.site.proof_section import proof_content
from detector_bench.site.provenance import citations, date_of, provenance_blocks
from detector_bench.site.report_study import MOST_IMAGES, ReportStudy, name_of_study
from detector_bench.site.table_sets import DrawnFigure, TableSets, draw_figures, table_sets
from detector_bench.site.thumbnails import (
    FOLDERS,
    LARGE_SIDE,
    PictureMode,
    ReportPictures,
    check_picture_settings,
    make_pictures,
)
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.tables import write_tables

_STATIC = Path(__file__).parent / "static"
_COPIED = {
    "run.json": "provenance/run.json",
    "results.json": "provenance/results.json",
    "metrics.csv": "tables/metrics.csv",
}
"""Files of the result folder, and where they stand in the report."""
_STYLES = ("base.css", "report.css", "browser.css", "detail.css")
BESIDE_PAGE = "beside.html"

_SECTIONS = (
    ("audit", "Bias"),
    ("verdict", "Verdict"),
    ("errors", "Errors"),
    ("tables", "Tables"),
    ("figures", "Figures"),
    ("causes", "Causes"),
    ("agreement", "Agreement"),
    ("left-out", "Left out"),
    ("provenance", "Provenance"),
    ("cite", "Cite"),
)


class ReportProgress(Protocol):
    """Is told how the report gets on."""

    def step(self, what: str) -> None:
        """Something that takes a while begins."""

    def pictures(self, done: int, total: int) -> None:
        """So many picture files are done."""


class SilentProgress:
    """Tells nobody."""

    def step(self, what: str) -> None:
        """Nothing."""

    def pictures(self, done: int, total: int) -> None:
        """Nothing."""


@dataclass(frozen=True)
class ReportSettings:
    """How a report is written; nothing here changes a number.

    Attributes:
        pictures: see `make_pictures`.
        large_side: longer side of the pictures in the detail view, in pixels; 0: thumbnails serve there, too.
        tolerance: how far off a detector may be and still be called good enough; None: as the study says.
        note: words below the title: where the labels come from, under which licence the images stand.
        figures: whether to draw figures.
        most_images: how many images the image browser shows; of more, a random sample.
        cache_folder: where stage results are, for the boxes over pictures; None: where runs keep them by default.
        weights_dir: weights folder, needed only for boxes of stages with unpinned weights.
        workers: how many processes draw figures.
        beside: another finished study, or another version of this one, for a page of what changed.
    """

    pictures: PictureMode = "copy"
    large_side: int = LARGE_SIDE
    tolerance: Tolerance | None = None
    note: str = ""
    figures: bool = True
    most_images: int = MOST_IMAGES
    cache_folder: Path | None = None
    weights_dir: Path | None = None
    workers: int = 1
    beside: ResultFolder | None = None


@dataclass(frozen=True)
class WrittenReport:
    """What was written."""

    page: Path
    headline: tuple[str, ...]
    not_shown: tuple[str, ...]
    """What the report had to do without, a sentence each."""


def write_report(
    results: ResultFolder,
    configuration: StudyConfiguration,
    out: Path | None = None,
    *,
    settings: ReportSettings | None = None,
    progress: ReportProgress | None = None,
) -> WrittenReport:
    """Write the report of a finished study; a repeated one makes only the pictures that are missing.

    Equal studies and settings give equal bytes.

    A study whose image set or predictions are gone gets a report without images. `index.html` is written last.

    Args:
        results: the result folder.
        configuration: its study.
        out: where to write; None: the folder `report` in it. New, empty, or an earlier report.
        settings: pictures, tolerance and the like.
        progress: is told before every step, and after every picture.

    Raises:
        ConfigError: wrong settings, or `out` holds something else.
        DetectorBenchError: the disk is full, read-only or the like.
    """
    settings, progress = settings or ReportSettings(), progress or SilentProgress()
    check_picture_settings(settings.pictures, large_side=settings.large_side)
    if settings.most_images < 1:
        raise ConfigError(f"images of the image browser: {settings.most_images} (accepted: 1 or more)")
    progress.step("reading the study")
    study = ReportStudy.of(results, configuration, most_images=settings.most_images)
    out = results.path / "report" if out is None else out
    if study.image_set is not None and out.resolve() == study.image_set.root:
        raise ConfigError(f"the report cannot be written into the image set {str(out)!r}: name another folder")
    return _Writer(ReportFolder.prepare(out), study, settings, progress).write()


@dataclass
class _Writer:
    """Writes one report, part by part."""

    folder: ReportFolder
    study: ReportStudy
    settings: ReportSettings
    progress: ReportProgress
    tables: TableSets = field(init=False)
    lyu2025: LyuPage | None = None

    def write(self) -> WrittenReport:
        self._write_assets()
        self.lyu2025 = LyuPage.of(self.study)
        about_pictures = self._write_images()
        self.progress.step("tables")
        self.tables = table_sets(self.study)
        pages = [
            AttributePage(
                self.study,
                part,
                self.settings.tolerance or self.study.configuration.tolerance,
                tables=self.tables.by_attribute[part.name],
                suffix="" if number == 0 else f"_{part.name}",
            )
            for number, part in enumerate(self.study.parts)
        ]
        self._write_shared_files()
        if self.lyu2025 is not None:
            self.lyu2025.write(self.folder, {"study_name": self.study.name, "pages": self._pages(LYU_PAGE)})
        self._write_beside()
        not_shown = [] if self.study.image_set else [self._no_images]
        # The first attribute's page is the one that is opened; it comes last.
        for number in reversed(range(len(pages))):
            not_shown += self._write_attribute(pages, number, about_pictures)
        pictures = [path for name in FOLDERS for path in (self.folder.path / name).rglob("*") if path.is_file()]
        self.folder.finish(
            self._manifest(pages), pictures=pictures, results=sealed_digest(self.study.results.path / RESULTS)
        )
        return WrittenReport(self.folder.path / "index.html", pages[0].headline, tuple(dict.fromkeys(not_shown)))

    def _write_assets(self) -> None:
        for name in (*(f"{script}.js" for script in SCRIPTS), *_STYLES, "icon.svg"):
            self.folder.copy(_STATIC / name, f"assets/{name}")

    def _write_shared_files(self) -> None:
        bibtex = "\n\n".join(each.bibtex for each in citations())
        write_text(self.folder / "provenance/cite.bib", bibtex + "\n")
        written = self.study.results.path
        for file, place in _COPIED.items():
            if (written / file).is_file():
                self.folder.copy(written / file, place)

    def _write_beside(self) -> None:
        """The page of what changed from the other study to this one."""
        if self.settings.beside is None:
            return
        self.progress.step("what changed")
        names = (name_of_study(self.settings.beside), self.study.name)
        if names[0] == names[1]:
            names = (
                f"{names[0]} ({self.settings.beside.path.name})",
                f"{names[1]} ({self.study.results.path.name})",
            )
        content = {
            "study_name": self.study.name,
            "pages": self._pages(BESIDE_PAGE),
            "care": with_own_care(CARE, (part.name for part in self.study.parts)),
            **BesidePage(self.settings.beside, self.study.results, names).content(),
        }
        write_page(self.folder / BESIDE_PAGE, "beside.html", content)

    def _write_images(self) -> list[str]:
        """Pictures, data and page of the error browser; what has to be said about them."""
        shown = self.study.browsed
        images = shown.image_set
        if images is None:
            return []
        self.progress.step("pictures")
        pictures = make_pictures(
            images.root,
            list(images.images["path"]),
            self.folder.path,
            mode=self.settings.pictures,
            large_side=self.settings.large_side,
            progress=self.progress.pictures,
        )
        self.progress.step("data of the image browser")
        boxes, why_not = self._boxes(pictures)
        scripts, changed = write_browser_data(self.folder, shown, pictures, boxes)
        content = {
            "study_name": self.study.name,
            "pages": self._pages(BROWSER_PAGE),
            "scripts": scripts,
            "sample_words": self.study.sample_words,
            "care": with_own_care(SHORT_CARE, (part.name for part in self.study.parts)),
        }
        write_page(self.folder / BROWSER_PAGE, "images.html", content)
        stages = [each.stage.replace("_", " ") for each in boxes]
        sample = [self.study.sample_words] if self.study.sample_words else []
        return [*sample, *left_out_of_pictures(pictures, changed, stages, why_not)]

    def _boxes(self, pictures: ReportPictures) -> tuple[list[StoredBoxes], str]:
        if pictures.mode == "none":
            return [], ""
        try:
            found = stored_boxes(
                self.study.configuration,
                self.settings.cache_folder or default_cache_folder(),
                self.study.browsed.judged_sha256,
                weights_dir=self.settings.weights_dir,
            )
        except DetectorBenchError as error:
            return [], f"No boxes are drawn: {without_folders(str(error))}."
        return found, "No boxes are drawn: the cache of stage results holds none for these images."

    def _write_attribute(
        self, pages: Sequence[AttributePage], number: int, about_pictures: list[str]
    ) -> list[str]:
        """One attribute's page with its tables and figures; returns what had to be left out of it."""
        page, place = pages[number], self._address(number)
        self.progress.step(f"verdict, causes and agreement of perceived {page.part.words}")
        other_scores = self.tables.of_other_scores if number == 0 else []
        tables = [*page.audit.other_tables, *page.audit.own_tables, *other_scores, *page.causes, *page.agreement]
        self.folder.add(*write_tables({table.name: table for table in tables}, self.folder.path / "tables"))
        figures, no_figures = self._draw(page)
        others = [
            {"name": f"Perceived {other.part.words}", "href": self._address(index), "headline": other.headline}
            for index, other in enumerate(pages)
            if index != number
        ]
        content = {
            **self._content_of_all(place),
            **page.content(),
            "care": with_own_care(CARE, (each.part.name for each in pages)),
            "other_attributes": others,
            "other_scores": with_groups(other_scores),
            "audit": page.audit.content(figures),
            "figures": [each for each in figures if each.name not in (FIGURE, CURVE)],
            "no_figures": no_figures,
            "left_out": [*page.left_out(), *(about_pictures or [self._no_images])],
        }
        write_page(self.folder / place, "report.html", content)
        return no_figures

    def _draw(self, page: AttributePage) -> tuple[list[DrawnFigure], list[str]]:
        if not self.settings.figures:
            return [], ["The figures were left out."]
        self.progress.step(f"figures of perceived {page.part.words}")
        place = f"figures/{page.part.name}"
        figures, missing = draw_figures(
            page.part.study, self.folder.path, place=place, workers=self.settings.workers
        )
        files = [path for each in figures for path in _files_of(each.name)]
        self.folder.add(*(self.folder.path / place / path for path in (*files, RECORD) if files))
        return figures, missing

    def _content_of_all(self, place: str) -> dict[str, Any]:
        """What stands on every attribute's page."""
        record = read_run_record(self.study.results.path)
        # Not when: the same study gives the same bytes, whoever writes it and whenever. The run says when it was.
        written = {"Pictures": self.settings.pictures if self.study.image_set else "no images"}
        return {
            "study_name": self.study.name,
            "pages": self._pages(place),
            "sections": [{"id": each, "name": name} for each, name in _SECTIONS],
            "note": self.settings.note,
            "question": self.study.configuration.question,
            "sample_words": self.study.sample_words,
            "no_images": self._no_images if self.study.missing else "No detector of this study judges this.",
            "provenance": provenance_blocks(
                record, self.study.results.manifest, version=__version__, settings=written
            ),
            "proof": proof_content(self.study.results.path, self.study.results.manifest),
            "run_file": bool(record),
            "run_date": date_of(record),
            "citations": citations(),
        }

    @property
    def _no_images(self) -> str:
        return f"There are no images: {self.study.missing}"

    def _address(self, number: int) -> str:
        return "index.html" if number == 0 else f"attribute-{self.study.parts[number].name}.html"

    def _pages(self, current: str) -> list[dict[str, object]]:
        several = len(self.study.parts) > 1
        listed = [
            (self._address(number), f"Perceived {part.words}" if several else "Report")
            for number, part in enumerate(self.study.parts)
        ]
        listed += [(BROWSER_PAGE, "Images")] if self.study.image_set else []
        listed += [(LYU_PAGE, LYU_NAME)] if self.lyu2025 is not None else []
        listed += [(BESIDE_PAGE, "What changed")] if self.settings.beside is not None else []
        return [{"href": href, "name": name, "current": href == current} for href, name in listed]

    def _manifest(self, pages: Sequence[AttributePage]) -> dict[str, Any]:
        return {
            "report": "detector_bench",
            "version": __version__,
            "study": self.study.name,
            "pictures": self.settings.pictures,
            "verdicts": {
                page.part.name: {
                    "headline": list(page.headline),
                    "t2i_models": [
                        {
                            "t2i_model": each.t2i_model,
                            "outcome": each.outcome.value,
                            "trusted": list(each.trusted),
                            "detectors": {every.detector: every.standing.value for every in each.evidence},
                        }
                        for each in page.verdict.by_model
                    ],
                }
                for page in pages
            },
        }


def _files_of(figure: str) -> tuple[str, str]:
    return f"{figure}_double.svg", f"{figure}.txt"
