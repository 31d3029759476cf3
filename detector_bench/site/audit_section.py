"""What leads a report: how biased each T2I model is, how sure that is, and what would make it surer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from detector_bench.audit import (
    AttributeAudit,
    HumanLabels,
    differences_in_words,
    in_words,
    next_steps,
    what_carried,
)
from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.audit_plan import HALF_WIDTH
from detector_bench.site.pages import with_groups
from detector_bench.site.report_study import AttributePart, ReportStudy
from detector_bench.site.table_sets import DrawnFigure
from detector_bench.study_plan import plan, plan_settings
from detector_bench.study_questions import ResultTables
from detector_bench.tables import Table, in_style_of
from detector_bench.tables.t2i_model_tables import t2i_model_comparisons

_LEADING = ("bias_estimates", "prompt_estimates")
"""Tables that stand here instead of among the others."""

FIGURE, CURVE = "prompt_estimates", "label_curve"


@dataclass(frozen=True, eq=False)
class AuditSection:
    """The audit of one attribute."""

    study: ReportStudy
    part: AttributePart
    tables: list[Table]
    """The study's tables of this attribute."""
    suffix: str
    """Of the names of further tables."""

    @cached_property
    def audit(self) -> AttributeAudit:
        """What the folder says."""
        return AttributeAudit.of(self.part.study)

    @property
    def leads(self) -> bool:
        """Whether the page asks for the T2I models' bias first, and for the detectors after that."""
        return self.audit.labels is not HumanLabels.ALL

    @property
    def title(self) -> str:
        """The question of a page that leads with it."""
        names = [each.t2i_model for each in self.audit.t2i_models]
        who = f"is {names[0]}" if len(names) == 1 else "are these T2I models"
        return f"How biased {who} in {self.audit.words}?"

    @property
    def headline(self) -> tuple[str, ...]:
        """The most important sentence of each T2I model."""
        return tuple(in_words(self.audit, model)[0] for model in self.audit.t2i_models)

    @cached_property
    def own_tables(self) -> list[Table]:
        """Tables of this section: estimates, prompts, and T2I models compared."""
        level = self.part.study.results.settings.estimates.level
        results = self.part.study.results
        found = t2i_model_comparisons(
            results.table("t2i_model_comparisons"),
            attribute=self.part.name,
            level=level,
            effects=results.table("refusal_effects"),
        )
        compared = [] if found is None else [self._named(found)]
        leading = [table for table in self.tables if table.name.startswith(_LEADING)]
        return [*leading[:1], *compared, *leading[1:], *self.further_tables]

    @property
    def other_tables(self) -> list[Table]:
        """The attribute's tables that stand elsewhere."""
        return [table for table in self.tables if not table.name.startswith(_LEADING)]

    @cached_property
    def further_tables(self) -> list[Table]:
        """What it would take to be surer; none without images, or where all or none have a label."""
        return [] if self._plan is None else [self._named(table) for table in self._plan.tables.values()]

    @cached_property
    def _plan(self) -> ResultTables | None:
        if self.study.image_set is None or self.audit.labels is not HumanLabels.SOME:
            return None
        own = self.part.study.results.settings.estimates
        settings = plan_settings(half_width=HALF_WIDTH, about=own.about, level=own.level)
        try:
            return plan(self.part.study.results, self.part.name, settings, published=True)
        except DetectorBenchError:
            return None  # as for the estimates: their notes say why

    def content(self, figures: Sequence[DrawnFigure]) -> dict[str, Any]:
        """The section for the template.

        Args:
            figures: of the attribute; the one of this section is among them.
        """
        audit = self.audit
        tables = {table.name: with_groups([table])[0] for table in self.own_tables}
        found = {each.name: each for each in figures}
        plan_names = {table.name for table in self.further_tables}
        return {
            "leads": self.leads,
            "models": [
                # What leads the page is not said twice.
                {"name": each.t2i_model, "says": in_words(audit, each)[1 if self.leads else 0 :]}
                for each in audit.t2i_models
            ],
            "differences": differences_in_words(audit),
            "carried": what_carried(audit) if audit.labels is HumanLabels.SOME else "",
            "tables": [
                {"table": table, "groups": groups, "folded": name.startswith("prompt_estimates")}
                for name, (table, groups) in tables.items()
                if name not in plan_names
            ],
            "figure": found.get(FIGURE),
            "surer": self._steps,
            "curve": found.get(CURVE),
            "plan_tables": [pair for name, pair in tables.items() if name in plan_names],
            "notes": (*audit.notes, *audit.without_images),
        }

    @property
    def _steps(self) -> tuple[str, ...]:
        if self._plan is not None:
            return self._plan.notes
        folder = self.study.configuration.image_set
        return next_steps(self.audit, folder, shown=folder.name)

    def _named(self, table: Table) -> Table:
        styled = in_style_of(self.part.study.results.study, table)
        return replace(styled, name=styled.name + self.suffix)
