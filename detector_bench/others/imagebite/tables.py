"""Tables of ImageBiTe's verdicts: the findings prompt by prompt, and each judge's share of them."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.others.failed_images import FailedImages
from detector_bench.others.imagebite.formulas import AGREEMENT
from detector_bench.others.imagebite.verdict_table import VERDICTS_FILE, surviving_findings
from detector_bench.others.study_scores import TableSources
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import count_cell, fixed, per_cent_cell, whole
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_MOST_ROWS = 60
_SHARES = {
    "stereotyped": "Stereotyped (%)",
    "under_represented": "Under-represented (%)",
    "ex_nominated": "Ex-nominated (%)",
}
_T2I_MODEL = Column("t2i_model", "T2I model", kind="name")
_Record = Mapping[Hashable, Any]


def imagebite_findings(
    verdicts: pd.DataFrame,
    *,
    requirement: str,
    detector: str = GROUND_TRUTH,
    prompts: pd.DataFrame | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """One judge's findings on one requirement: the prompts with a verdict, and each community's share there.

    A cell holds the community's share and its strongest verdict, followed for a detector by the verdict's
    survival. Ex-nominated is stronger than under-represented. The CSV form holds the shares; the words of all
    prompts stand in `imagebite_verdicts.csv`.

    Args:
        verdicts: columns as in `others.imagebite.verdict_table.VERDICT_COLUMNS`.
        requirement: its name.
        detector: whose verdicts.
        prompts: columns `prompt_id, word`; where it is missing or a word is empty, the prompt's id is shown.
        notes: of the requirement, shown below the table.

    Raises:
        ConfigError: there are no such verdicts.
    """
    rows = _rows_of(verdicts, requirement=requirement)
    rows = rows[rows["detector"] == detector]
    if rows.empty:
        known = [str(name) for name in pd.unique(verdicts["detector"])]
        raise ConfigError(f"no verdicts of {detector!r} on {requirement!r}: {nearest_hint(detector, known)}")
    communities = [str(name) for name in pd.unique(rows["community"])]
    words = _words(prompts)
    table_rows: list[Row] = []
    without = left = 0
    for (model, prompt), records in _by_prompt(rows).items():
        if not any(_verdict(record) for record in records.values()):
            first = next(iter(records.values()))
            without += first["images_identified"] == 0 and not first["stated"]
            continue
        if len(table_rows) == _MOST_ROWS:
            left += 1
            continue
        word = words.get(prompt, prompt)
        names = (Cell(model), Cell(word, key=prompt))
        cells = (_verdict_cell(records[name]) for name in communities)
        first = records[communities[0]]
        counts = (count_cell(first["images_identified"]), count_cell(first["images_unanswered"]))
        unknown = first["images_no_verdict"]
        said = (f"images without a verdict, left out: {whole(unknown)}",) if unknown else ()
        table_rows.append(Row(f"{model}, {word}", (*names, *cells, *counts), said))
    return Table(
        name=f"imagebite_findings_{_slug(requirement)}",
        caption=_caption(rows, detector=detector),
        attribute=str(rows["attribute"].iloc[0]),
        columns=(
            _T2I_MODEL,
            Column("prompt_id", "Prompt", kind="name"),
            *(Column(name, name) for name in communities),
            Column("images_identified", "Identified"),
            Column("images_unanswered", "Unanswered"),
        ),
        rows=tuple(table_rows),
        notes=(
            *notes,
            *(() if table_rows else ("No finding.",)),
            *((f"More prompts with findings, in imagebite_verdicts.csv: {left:,}.",) if left else ()),
            *((f"Prompts without a verdict, as no community was identified: {without:,}.",) if without else ()),
            *_survival_notes(rows, detector=detector),
        ),
        grouped=True,
    )


def imagebite_summary(
    metrics: pd.DataFrame,
    *,
    requirement: str,
    findings: pd.DataFrame | None = None,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    notes: Sequence[str] = (),
) -> Table:
    """How many verdicts each judge gives on a requirement, of which kind, and how many of them are the humans'.

    Args:
        metrics: a metric table; the rows whose `variant` is the requirement's name.
        requirement: its name.
        findings: as `surviving_findings` gives them; adds a column with the share of findings that survive.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets dashes there.
        notes: of the requirement, shown below the table.

    Raises:
        ConfigError: there are no metrics of this requirement.
    """
    rows = metrics[metrics["metric"].astype(object).str.startswith("imagebite_").fillna(value=False)]
    rows = _rows_of(rows, requirement=requirement, column="variant")
    failed = FailedImages.of_table(metrics, max_error_share=max_error_share)
    rows = failed.left_out(rows[(rows["category"] == ALL) & (rows["prompt_id"] == ALL)])
    numbers = {
        (row["t2i_model"], row["detector"], row["metric"].removeprefix("imagebite_")): row
        for row in rows.to_dict("records")
    }
    models = [model for model in pd.unique(rows["t2i_model"]) if model != ALL]
    models = [*models, ALL] if len(models) > 1 else models
    survive = {} if findings is None else _survive(findings, requirement)
    attribute = str(rows["attribute"].iloc[0])
    table_rows = [
        _summary_row(
            model,
            judge,
            numbers,
            None if findings is None else survive.get((model, judge), math.nan),
            also_said=() if model == ALL else failed.notes([attribute], judge, model),
        )
        for model in models
        for judge in pd.unique(rows["detector"])
        if (model, judge, "stereotyped") in numbers
    ]
    return Table(
        name=f"imagebite_summary_{_slug(requirement)}",
        caption=(
            f"ImageBiTe requirement {requirement}: share of each judge's verdicts of each kind. A verdict is "
            "about a community in a prompt; an ex-nominated community can be under-represented, too. Agreement: "
            "verdicts that are the ground truth's."
            + ("" if findings is None else " Survive: findings that would survive the detector's error.")
        ),
        attribute=attribute,
        columns=(
            _T2I_MODEL,
            Column("detector", "Judge", kind="name"),
            Column("verdicts", "Verdicts"),
            *(Column(f"imagebite_{kind}", heading) for kind, heading in _SHARES.items()),
            Column(AGREEMENT, "Agreement (%)"),
            *([] if findings is None else [Column("surviving", "Survive (%)")]),
        ),
        rows=tuple(table_rows),
        notes=tuple(notes),
        grouped=True,
    )


def imagebite_tables(sources: TableSources) -> dict[str, Table]:
    """Both tables of every requirement, by name; findings are those of the ground truth, or else of the first
    detector that could run."""
    if VERDICTS_FILE not in sources.files:
        return {}
    verdicts, metrics = sources.files[VERDICTS_FILE], sources.metrics
    findings = surviving_findings(verdicts)
    failed = FailedImages.of_table(metrics, max_error_share=sources.max_error_share)
    tables: dict[str, Table] = {}
    for name in map(str, pd.unique(verdicts["requirement"])):
        said = sources.notes.get(name, ())
        judge = _judge(verdicts[verdicts["requirement"] == name], failed)
        # Where every prompt states the attribute there are no shares of verdicts.
        if (metrics["variant"] == name).any():
            table = imagebite_summary(
                metrics,
                requirement=name,
                findings=findings,
                max_error_share=sources.max_error_share,
                notes=said,
            )
            _add(tables, table)
        table = imagebite_findings(verdicts, requirement=name, detector=judge, prompts=sources.prompts, notes=said)
        _add(tables, table)
    return tables


def _add(tables: dict[str, Table], table: Table) -> None:
    """Add a table; names of requirements may differ in signs that no file name has."""
    name, number = table.name, 2
    while name in tables:
        name, number = f"{table.name}_{number}", number + 1
    tables[name] = replace(table, name=name)


def _by_prompt(rows: pd.DataFrame) -> dict[tuple[str, str], dict[str, _Record]]:
    """By T2I model and prompt the rows of its communities, in the table's order."""
    found: dict[tuple[str, str], dict[str, _Record]] = {}
    for record in rows.to_dict("records"):
        found.setdefault((record["t2i_model"], record["prompt_id"]), {})[record["community"]] = record
    return found


def _judge(rows: pd.DataFrame, failed: FailedImages) -> str:
    attribute = str(rows["attribute"].iloc[0])
    judges = [str(name) for name in pd.unique(rows["detector"])]
    return next((name for name in judges if not failed.could_not_run(attribute, name)), judges[0])


def _rows_of(table: pd.DataFrame, *, requirement: str, column: str = "requirement") -> pd.DataFrame:
    rows = table[(table[column] == requirement).fillna(value=False)]
    if rows.empty:
        known = [str(name) for name in pd.unique(table[column]) if isinstance(name, str)]
        raise ConfigError(f"no verdicts on requirement {requirement!r}: {nearest_hint(requirement, known)}")
    return rows


def _verdict(record: _Record) -> str:
    """The strongest one in words; empty if there is none."""
    for name, words in (
        ("stereotyped", "stereotyped"),
        ("ex_nominated", "ex-nominated"),
        ("under_represented", "under-represented"),
    ):
        if not _missing(record[name]) and bool(record[name]):
            return words
    return ""


def _verdict_cell(record: _Record) -> Cell:
    share, verdict = float(record["share"]), _verdict(record)
    if math.isnan(share):
        return Cell(DASH, value=share)
    text = " ".join([fixed(share, decimals=3), *([verdict] if verdict else [])])
    survival = float(record["survival"])
    if not verdict or math.isnan(survival):
        return Cell(text, value=share)
    return Cell(f"{text} ({fixed(survival, decimals=2)})", value=share, bold=bool(record["survives"]))


def _caption(rows: pd.DataFrame, *, detector: str) -> str:
    requirement, threshold = rows["requirement"].iloc[0], float(rows["threshold"].iloc[0])
    judge = "the ground truth" if detector == GROUND_TRUTH else detector
    communities = rows.drop_duplicates("community")
    expected = ", ".join(
        f"{name} {share:.3g} ± {delta:.3g}"
        for name, share, delta in zip(
            communities["community"], communities["expected"], communities["delta"], strict=True
        )
    )
    survival = "" if detector == GROUND_TRUTH else " In parentheses: survival of a verdict; bold: it survives."
    return (
        f"ImageBiTe requirement {requirement} by {judge}: shares of the communities and verdicts, prompts with a "
        f"finding. Expected: {expected}; stereotyped above {threshold:.3g}.{survival}"
    )


def _survival_notes(rows: pd.DataFrame, *, detector: str) -> tuple[str, ...]:
    if detector == GROUND_TRUTH:
        return ()
    if rows["survival"].isna().all():
        return ("Without human labels there is no telling which verdicts survive.",)
    return (
        "Survival: share of simulations in which the verdict stays, if the detector errs alike in all prompts.",
    )


def _summary_row(
    model: str,
    judge: str,
    numbers: Mapping[tuple[str, str, str], _Record],
    survive: float | None,
    *,
    also_said: Sequence[str],
) -> Row:
    of = {kind: numbers[model, judge, kind] for kind in _SHARES}
    agreement = numbers.get((model, judge, AGREEMENT.removeprefix("imagebite_")), {"value": math.nan})
    count = of["stereotyped"]
    truth = judge == GROUND_TRUTH
    name = "All" if model == ALL else model
    names = (Cell(name, key=model), Cell("Ground truth" if truth else judge, key=judge))
    cells = [count_cell(float(count["n"])), *(per_cent_cell(float(each["value"])) for each in of.values())]
    cells.append(per_cent_cell(float(agreement["value"])))
    if survive is not None:
        cells.append(per_cent_cell(math.nan if math.isnan(float(count["value"])) else survive))
    left_out = float(count["n_left_out"])
    notes = (f"no verdict, left out: {whole(left_out)}",) if left_out else ()
    return Row(f"{names[1].text} ({name})", (*names, *cells), (*also_said, *notes))


def _survive(findings: pd.DataFrame, requirement: str) -> dict[tuple[str, str], float]:
    rows = findings[findings["requirement"] == requirement]
    return {
        (row["t2i_model"], row["detector"]): float(row["surviving"]) / float(row["findings"])
        for row in rows.to_dict("records")
        if not _missing(row["surviving"]) and row["findings"]
    }


def _missing(value: object) -> bool:
    return value is pd.NA or value is None or (isinstance(value, float) and math.isnan(value))


def _words(prompts: pd.DataFrame | None) -> dict[str, str]:
    if prompts is None:
        return {}
    pairs = zip(prompts["prompt_id"], prompts["word"], strict=True)
    return {prompt: word for prompt, word in pairs if isinstance(word, str) and word}


def _slug(requirement: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "_", requirement).strip("_").lower() or "requirement"
