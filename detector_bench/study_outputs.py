"""What people read of a study's results: tables, figures, the report, and an audit in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from detector_bench.audit import (
    AttributeAudit,
    HumanLabels,
    differences_in_words,
    in_words,
    next_steps,
    what_carried,
)
from detector_bench.evaluation.audit_plan import HALF_WIDTH
from detector_bench.study_answers import StudyAnswers
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_results import stored_score_tables, stored_tables
from detector_bench.tables import Table, to_html
from detector_bench.tables.render_terminal import to_text
from detector_bench.tables.wording import attribute_in_words

if TYPE_CHECKING:
    from detector_bench.figures import Format, Width, WrittenFigures
    from detector_bench.site import ReportProgress, ReportSettings, WrittenReport

_SHOWN_IN_NOTEBOOKS = (
    "filtering_and_accuracy",
    "model_bias_scores",
    "prompt_bias_score_difference",
    "bias_errors",
    "detected_bias_scores",
)


@dataclass(frozen=True, eq=False, repr=False)
class StudyOutputs(StudyAnswers):
    """What a study found, shown: `study.Results` is this, and opens result folders.

    Attributes:
        study: what was judged, by whom, and how it was evaluated.
    """

    study: StudyConfiguration
    _written: dict[str, Table] = field(default_factory=dict)
    """The tables that a run has just made."""

    def with_n_clear(self, n_clear: str) -> Self:
        """The same study, asked with another denominator of detectors' prompt bias scores.

        Causes, ranks and comparisons are then computed from the stored predictions; the metric table stays as it
        was evaluated.

        Raises:
            ConfigError: neither "detector" nor "human".
        """
        study = self.study.with_n_clear(n_clear)
        return (
            self
            if study.n_clear == self.reader.settings.n_clear
            else replace(self, reader=self.reader.asked_anew(n_clear=study.n_clear), study=study)
        )

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The study's tables, by name; those of an opened folder with intervals, where it has them."""
        return self._written or stored_tables(self.reader) | stored_score_tables(self.reader)

    def figures(
        self,
        out: Path | str | None = None,
        *,
        attribute: str | None = None,
        only: Sequence[str] | None = None,
        widths: Sequence[Width] = ("single", "double"),
        formats: Sequence[Format] = ("pdf", "png"),
        workers: int = 1,
    ) -> WrittenFigures:
        """Draw the paper's figures, each with its caption as a text file.

        Args:
            out: where to write; None: the folder `figures` of the result folder.
            attribute: None: the study's first.
            only: names of figures; None: all that this study has.
            widths, formats, workers: see `write_figures`.

        Raises:
            ConfigError: no such figure, width or format.
            MissingExtraError: matplotlib is not installed.
        """
        from detector_bench.figures import figures_of, write_figures

        part = self.of_attribute(attribute)
        return write_figures(
            part,
            self.folder / "figures" if out is None else Path(out),
            names=tuple(only or figures_of(part)),
            widths=widths,
            formats=formats,
            workers=workers,
        )

    def report(
        self,
        out: Path | str | None = None,
        *,
        settings: ReportSettings | None = None,
        progress: ReportProgress | None = None,
    ) -> WrittenReport:
        """Write the report that opens from a disk.

        Args:
            out: where to write; None: the folder `report` of the result folder.
            settings: pictures, tolerance and the like.
            progress: is told before every step, and after every picture.
        """
        from detector_bench.site import write_report

        return write_report(
            self.reader, self.study, None if out is None else Path(out), settings=settings, progress=progress
        )

    def audit(self, *, half_width: float = HALF_WIDTH, report: Path | None = None) -> StudyAudit:
        """What the folder says about each T2I model's bias, in sentences, and what to do next.

        Args:
            half_width: wanted of the intervals of model bias scores, to either side.
            report: the page that was written, if one was.
        """
        audits = [AttributeAudit.of(self.of_attribute(name)) for name in self.attributes]
        steps = [
            self.plan(half_width=half_width, attribute=each.attribute).notes
            if each.labels is HumanLabels.SOME
            else next_steps(each, self.study.image_set)
            for each in audits
        ]
        return StudyAudit(
            self,
            tuple(AuditOfAttribute.of(each) for each in audits),
            tuple(dict.fromkeys(step for each in steps for step in each)),
            report,
        )

    def __repr__(self) -> str:
        tables, metrics = ", ".join(self.tables), len(self.metrics)
        return f"{type(self).__name__}({str(self.folder)!r}, metrics: {metrics:,} rows, tables: {tables})"

    def _repr_html_(self) -> str:
        tables = self.tables
        return "\n".join(to_html(tables[name]) for name in _SHOWN_IN_NOTEBOOKS if name in tables)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 (as IPython calls it)
        tables = self.tables
        printer.text("\n\n".join(to_text(tables[name]) for name in _SHOWN_IN_NOTEBOOKS if name in tables))


@dataclass(frozen=True)
class AuditOfAttribute:
    """What an audit says about one attribute."""

    name: str
    title: str
    """The name for people."""
    says: tuple[str, ...]
    """Sentences: each T2I model, then which two differ, and which detector carried the estimate."""

    @classmethod
    def of(cls, audit: AttributeAudit) -> Self:
        """Put what was found into sentences."""
        says = [line for model in audit.t2i_models for line in in_words(audit, model)]
        says += [*differences_in_words(audit), *audit.without_images]
        carried = what_carried(audit)
        return cls(audit.attribute, attribute_in_words(audit.attribute), (*says, *([carried] if carried else [])))


@dataclass(frozen=True, eq=False)
class StudyAudit:
    """An audit of T2I models: the sentences, and the results that they are read from."""

    results: StudyOutputs
    attributes: tuple[AuditOfAttribute, ...]
    next_steps: tuple[str, ...]
    report: Path | None
    """The page to open; None: none was written."""
