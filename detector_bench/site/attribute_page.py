"""Everything that stands on one attribute's page, gathered and computed; and what a report leaves out, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from detector_bench.evaluation.agreement import ALL_ANNOTATORS, TWO_ANNOTATORS
from detector_bench.evaluation.contests import ranked_detectors
from detector_bench.evaluation.more_labels import MoreLabels, Tolerance
from detector_bench.results.label_plans import label_plans
from detector_bench.results.long_tables import no_rows
from detector_bench.results.metric_lookup import MetricLookup, no_labels
from detector_bench.site.audit_section import AuditSection
from detector_bench.site.error_counts import (
    CountTable,
    all_error_tables,
    browser_link,
    confusion,
    filter_reasons,
    pairs,
)
from detector_bench.site.pages import Scale, with_groups
from detector_bench.site.report_study import AttributePart, ReportStudy
from detector_bench.site.thumbnails import ReportPictures
from detector_bench.site.verdict import DIFFERENCE, Verdict, judge_detectors
from detector_bench.site.verdict_words import headline, label_doubt_words, rule, sentences
from detector_bench.study_agreement import agreement
from detector_bench.study_questions import causes
from detector_bench.tables import Table
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_PICTURES = {
    "copy": "Pictures were copied, made smaller, without the metadata of their files. The licence of the images "
    "is that of the image set, not of this report: check it before you publish.",
    "blur": "Pictures are blurred beyond recognition; the image set holds the sharp ones.",
    "link": "Pictures are not part of this folder: it links to the image set, and shows them only where that lies "
    "at the same place.",
    "none": "Pictures were left out; every image is still listed with its labels and verdicts.",
}


def left_out_of_numbers(part: AttributePart) -> list[str]:
    """Images without a label, images labelled `others`, images without a verdict, prompts without a score."""
    lookup, found = part.study.lookup, []
    for metric, words in (
        (
            "images_unlabelled",
            "without a human label of perceived {attribute}: in what detectors report by themselves, and in no "
            "comparison with the humans",
        ),
        ("images_others", "with the human label “others”: in the tables of labels, and in no comparison"),
    ):
        number = lookup.number(metric, detector=GROUND_TRUTH).value
        if number > 0:
            found.append(f"{_images(number)} {words.format(attribute=part.words)}.")
    for detector in lookup.detectors:
        found += [f"{detector}: {note}." for note in lookup.no_verdict_notes(detector, lookup.t2i_models)]
        if not lookup.is_withheld(DIFFERENCE, detector=detector):
            found += _prompts_without_score(lookup, detector)
    return found


def _prompts_without_score(lookup: MetricLookup, detector: str) -> list[str]:
    number = lookup.number(DIFFERENCE, detector=detector, n_clear=lookup.n_clear)
    if not number.n_left_out > 0:
        return []
    total = number.n + number.n_left_out
    return [
        f"{detector}: {number.n_left_out:,.0f} of {total:,.0f} pairs of T2I model and prompt have no bias score "
        "to compare (no image is clear to the detector, or to the humans)."
    ]


def left_out_of_pictures(
    pictures: ReportPictures, changed: int, boxes: Sequence[str], why_no_boxes: str
) -> list[str]:
    """How pictures are shown, which ones cannot be, and whether boxes are drawn.

    Args:
        pictures: what was made.
        changed: how many files are other ones now than when they were judged.
        boxes: the stages whose boxes are drawn.
        why_no_boxes: said where there are none.
    """
    found = [_PICTURES[pictures.mode]]
    problems = Counter(each.problem.partition(":")[0] for each in pictures.pictures if each.problem)
    found += [
        f"{_images(number)} cannot be shown: {reason.replace('_', ' ')}." for reason, number in problems.items()
    ]
    if changed:
        found.append(
            f"{_images(changed)} changed after being judged: the picture shown is not the one that the verdicts "
            "are about."
        )
    if boxes:
        found.append(
            f"Boxes drawn over pictures are stored results of {', '.join(boxes)}; nothing was computed anew."
        )
    elif why_no_boxes:
        found.append(why_no_boxes)
    return found


def _images(number: float) -> str:
    return "1 image" if number == 1 else f"{number:,.0f} images"


_SUMMARIES = (
    (TWO_ANNOTATORS, "The two annotators", "cohen_kappa", "Cohen's kappa"),
    (ALL_ANNOTATORS, "The annotators", "krippendorff_alpha", "Krippendorff's alpha"),
)
"""Of two annotators the first; with more there are several pairs, and the second speaks for all."""


_MAIN_TABLES = 4
"""So many of an attribute's tables show their rows at once: filtering and accuracy, and three of bias. A page with
all of them is a yard long."""


@dataclass(frozen=True, eq=False)
class AttributePage:
    """One attribute of a report."""

    study: ReportStudy
    part: AttributePart
    tolerance: Tolerance
    tables: list[Table]
    """The study's tables of this attribute."""
    suffix: str
    """Of the names of further tables; empty for the study's first attribute."""

    @cached_property
    def audit(self) -> AuditSection:
        """How biased the T2I models are."""
        return AuditSection(self.study, self.part, self.tables, self.suffix)

    @property
    def level(self) -> float:
        """The level of the study's confidence intervals, 0 to 1."""
        return self.part.study.intervals.level

    @cached_property
    def verdict(self) -> Verdict:
        """Which detector can be trusted for which T2I model."""
        return judge_detectors(
            self.part.study.lookup,
            {
                str(model): ranked_detectors(rows)
                for model, rows in self._ranks[self._ranks["attribute"] == self.part.name].groupby("t2i_model")
            },
            tolerance=self.tolerance,
            doubt=self.part.study.label_doubt,
            plan=self._plan,
        )

    @cached_property
    def _ranks(self) -> pd.DataFrame:
        """On each T2I model, of all attributes: one family of tests. Without images there are none."""
        ranks = self.study.results.table("ranks") if self.study.image_set is not None else no_rows("ranks")
        return ranks[ranks["t2i_model"] != ALL]

    def _plan(self, detector: str, model: str) -> MoreLabels | None:
        """Images that would settle an open verdict."""
        own = (self._plans["detector"] == detector) & (self._plans["t2i_model"] == model)
        images = self._plans.loc[own, "images"].to_numpy(dtype=np.int64)
        return MoreLabels(images) if len(images) else None

    @cached_property
    def _plans(self) -> pd.DataFrame:
        """Those of the study's own tolerance stand in its folder; for another one they are made, if there are
        images."""
        study = self.part.study
        if study.results.has_further_tables and self.tolerance == study.results.manifest.tolerance:
            return study.rows("label_plans")
        if self.part.judged is None:
            return no_rows("label_plans")
        return label_plans(study.lookup, study.counts, tolerance=self.tolerance, intervals=study.intervals)

    @property
    def headline(self) -> tuple[str, ...]:
        """The T2I models' bias where labels lack, else the verdict on the detectors, in a sentence or a few."""
        return self.audit.headline if self.audit.leads else self.verdict_headline

    @property
    def verdict_headline(self) -> tuple[str, ...]:
        """The verdict on the detectors in a sentence or a few."""
        if not self.has_labels:
            return self._without_labels
        return headline(self.verdict, level=self.level)

    @property
    def has_labels(self) -> bool:
        """Whether any image has a human label: without one nobody can say how right a detector is."""
        return self.part.study.lookup.has_labels

    @property
    def _without_labels(self) -> tuple[str, ...]:
        """What there is to say instead of a verdict: that there is none, and what the detectors report."""
        said = no_labels(self.part.name)
        alone = self.part.study.by_detectors_alone()
        found = [f"{said[:1].upper()}{said[1:]}.".replace("`", "")]
        for model in alone.t2i_models:
            scores = {
                name: number.value
                for name in alone.detectors
                if not (number := alone.estimate("model_bias_score", detector=name, t2i_model=model)).missing
            }
            if scores:
                low, high = min(scores, key=scores.__getitem__), max(scores, key=scores.__getitem__)
                found.append(
                    f"For {model}, the detectors by themselves report model bias scores of perceived "
                    f"{self.part.words} from {scores[low]:.3f} ({low}) to {scores[high]:.3f} ({high})."
                )
        return tuple(found)

    def content(self) -> dict[str, Any]:
        """The page for the template, pictures and figures aside."""
        return {
            **self._verdict_content(),
            **self._error_content(),
            **({} if self.has_labels else {"no_images": self._without_labels[0]}),
            "title": self.audit.title if self.audit.leads else self._question_of_detectors,
            "question_of_detectors": self._question_of_detectors,
            "attribute_words": self.part.words,
            "names_in_figures": self._names_in_figures,
            "summary": self._summary(),
            "browser_href": browser_link(self.part.name),
            "tables": with_groups(self.audit.other_tables),
            "main_tables": _MAIN_TABLES,
            "causes": with_groups(self.causes),
            "agreement": with_groups(self.agreement),
            "interval_words": f"{100 * self.level:g} % confidence intervals, where the study has them",
        }

    @property
    def _question_of_detectors(self) -> str:
        return f"Which detectors of perceived {self.part.words} can be trusted?"

    @property
    def _names_in_figures(self) -> list[tuple[str, str]]:
        """Detectors and T2I models that figures call by another name than the page: the plain name, the other."""
        study = self.part.study
        shown = [(name, study.shown(name)) for name in (*study.detectors, *study.t2i_models)]
        return [(plain, other) for plain, other in shown if plain != other]

    def _summary(self) -> list[str]:
        study = self.part.study
        labelled, unlabelled = study.estimate("images").value, study.lookup.images_unlabelled
        counted = {
            "image": labelled + unlabelled,
            "T2I model": len(study.t2i_models),
            "prompt": len(study.prompts),
            "detector": len(study.detectors),
        }
        parts = [f"{number:,.0f} {thing}{'' if number == 1 else 's'}" for thing, number in counted.items()]
        if unlabelled:
            parts.insert(1, f"{labelled:,.0f} of them with a human label")
        return [self.study.name, *([self.study.by_whom] if self.study.by_whom else []), *parts]

    def _verdict_content(self) -> dict[str, Any]:
        """The verdict for the template."""
        models = [
            {
                "number": number,
                "verdict": each,
                "sentences": sentences(
                    each,
                    tolerance=self.tolerance,
                    level=self.level,
                    prompts=tuple(dict.fromkeys(self._plans["prompt_id"])),
                    words=self.part.study.words,
                ),
                "scale": Scale.of(each, tolerance=self.tolerance.prompt_bias_error),
            }
            for number, each in enumerate(self.verdict.by_model)
        ]
        return {
            "verdict": self.verdict,
            "headline": self.headline,
            "verdict_headline": self.verdict_headline,
            "models": models,
            "rule": rule(
                self.tolerance,
                level=self.level,
                tests=0 if self._ranks.empty else int(self._ranks["tests"].iloc[0]),
            ),
            "label_words": self.label_words,
            "suffix": self.suffix,
            "label_doubt_words": label_doubt_words(self.part.study.lookup, self.part.study.label_doubt),
        }

    def _error_content(self) -> dict[str, Any]:
        """Counts of errors that lead to their images."""
        judged, image_set = self.part.judged, self.study.image_set
        if judged is None or image_set is None or not self.has_labels:
            return {"confusions": [], "pairs": None, "error_tables": []}
        tables: list[CountTable | None] = [*all_error_tables(judged, image_set), filter_reasons(judged)]
        return {
            "confusions": [confusion(judged, each) for each in judged.verdicts],
            "pairs": pairs(judged) if len(judged.verdicts) > 1 else None,
            "error_tables": [table for table in tables if table is not None],
        }

    @cached_property
    def causes(self) -> list[Table]:
        """What filtering and classification add to the bias errors; none without predictions."""
        if self.study.image_set is None or not self.part.study.detectors or not self.has_labels:
            return []
        return [self._named(table) for table in causes(self.part.study, resamples=None).tables.values()]

    @cached_property
    def agreement(self) -> list[Table]:
        """Agreement of annotators, and of detectors with them."""
        if self.study.image_set is None or not self.has_labels:
            return []
        return [self._named(table) for table in agreement(self.part.study).tables.values()]

    @property
    def label_words(self) -> str:
        """How far the annotators agree: a verdict cannot be surer than the labels it rests on."""
        if self.study.image_set is None or not self.has_labels:
            return ""
        numbers = self.part.study.rows("agreement")
        rows = numbers[(numbers["t2i_model"] == ALL) & (numbers["category"] == ALL) & (numbers["label"] == ALL)]
        for raters, who, statistic, name in _SUMMARIES:
            own = rows[rows["raters"] == raters].to_dict("records")
            found = {str(row["statistic"]): row for row in own}
            if statistic in found and len(found) == len(own):
                agreed, kappa = found["percent_agreement"], found[statistic]["value"]
                chance = f"{name} {kappa:.2f}" if math.isfinite(kappa) else f"{name} is undefined"
                return (
                    f"How sure are the human labels? {who} agree on {100 * agreed['value']:.1f} % of "
                    f"{agreed['n']:,.0f} images ({chance}). Where they do not, an "
                    "image counts as low-quality, unless an adjudicator decided."
                )
        return "How sure are the human labels? Each image was labelled by one annotator only, so nobody knows."

    def left_out(self) -> list[str]:
        """What this attribute's numbers leave out."""
        return left_out_of_numbers(self.part)

    def _named(self, table: Table) -> Table:
        return replace(table, name=table.name + self.suffix)
