"""What a finished study can be asked: the answers as tables for people, and as long numbers for programs.

What the evaluation has written is read; what is asked with other settings, or was too large to be written, is
computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import pyarrow as pa

from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.evaluation.causes import PREDICTION_COLUMNS
from detector_bench.evaluation.comparison import COMPARED_METRICS, PairedImages, PairedTest
from detector_bench.evaluation.contests import (
    COMPARISON_COLUMNS,
    CONTEST_COLUMNS,
    PAIRED_IMAGE_COLUMNS,
    RANK_COLUMNS,
    DetectorContest,
    ranked_detectors,
)
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.out_of_sample import threshold_choices
from detector_bench.evaluation.sweeps import (
    even_thresholds,
    first_threshold,
    nearest_thresholds,
    sweep_counts,
    sweep_table,
)
from detector_bench.metrics import METRICS
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.results.long_tables import further_tables
from detector_bench.tables import Table, in_style_of, to_html
from detector_bench.tables.comparison_tables import (
    chosen_thresholds,
    comparison,
    images_judged_rightly,
    ranking_table,
    threshold_sweep,
)
from detector_bench.tables.error_tables import bias_error_causes, filter_errors
from detector_bench.tables.render_terminal import to_text
from detector_bench.tables.wording import labels_notes
from detector_bench.vocabulary import ALL

_OF_A_VERDICT = ("status", "label", "reason", "score", "value")


@dataclass(frozen=True, repr=False)
class ResultTables:
    """What a question to a study gives: tables for people, and the long numbers behind them for programs.

    In a notebook it shows its tables.

    Attributes:
        tables: by name, in the order in which a reader wants them.
        numbers: long tables, one row per number, by the name of their file without its ending.
        notes: what else has to be said, a sentence each.
    """

    tables: dict[str, Table]
    numbers: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        study: Mapping[str, Any],
        *tables: Table,
        numbers: Mapping[str, pd.DataFrame],
        notes: tuple[str, ...] = (),
    ) -> ResultTables:
        """Put tables together, each under its name and in the style of a study file."""
        whole = {name: rows.reset_index(drop=True) for name, rows in numbers.items()}
        return cls({table.name: in_style_of(study, table) for table in tables}, whole, notes)

    def to_pandas(self, name: str | None = None) -> pd.DataFrame:
        """One of the tables as numbers at full precision, see `Table.to_pandas`.

        Args:
            name: of the table; None: the first.

        Raises:
            ConfigError: no such table.
        """
        return self[name or next(iter(self.tables))].to_pandas()

    def __getitem__(self, name: str) -> Table:
        if name not in self.tables:
            raise ConfigError(f"no table {name!r}: {nearest_hint(name, self.tables)}")
        return self.tables[name]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.tables)})"

    def _repr_html_(self) -> str:
        return "\n".join(to_html(table) for table in self.tables.values())

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 (as IPython calls it)
        printer.text("\n\n".join(map(to_text, self.tables.values())))


def compare(part: FinishedStudy, first: str, second: str | None, *, asked: Intervals | None) -> ResultTables:
    """One detector against another, or against all others; see `Results.compare`.

    Args:
        part: the attribute.
        first: a detector's name.
        second: another's; None: all others that judge the attribute, one after the other.
        asked: settings of the tests; None: the study's.
    """
    part.need_labels()
    others = [second] if second is not None else [name for name in _comparable(part) if name != first]
    if first in others:
        raise ConfigError(f"{first!r} cannot be compared with itself")
    _check_comparable(part, [first, *others])
    settings = asked or part.intervals
    tables: dict[str, Table] = {}
    numbers: dict[str, list[pd.DataFrame]] = {"comparisons": [], "images_judged_rightly": []}
    for other in others:
        rows, images, left_out = _contest_rows(part, first, other, asked)
        about = _about(part, rows, settings, left_out=left_out)
        rows, images = (_of_pair(found, first, other) for found in (rows, images))
        tests, seen, whose = _tests(rows, first), _paired_images(images, first), part.attribute
        for table in (
            comparison(tests, first, other, attribute=whose, level=settings.level, about=about),
            images_judged_rightly(seen, first, other, attribute=whose),
        ):
            name = table.name if second is not None else f"{table.name}_{other}"
            tables[name] = replace(table, name=name)
        numbers["comparisons"].append(rows)
        numbers["images_judged_rightly"].append(images)
    joined = {name: pd.concat(each, ignore_index=True) for name, each in numbers.items()}
    return _answer(part, *tables.values(), numbers=joined)


def rank(part: FinishedStudy, by: Sequence[str] | None, *, asked: Intervals | None) -> ResultTables:
    """All detectors in order by each of some metrics; see `Results.rank`.

    Args:
        part: the attribute.
        by: metrics; None: those that detectors are compared by.
        asked: settings of the tests; None: the study's.
    """
    part.need_labels()
    if part.attribute in part.results.manifest.not_comparable:
        raise DetectorBenchError(part.results.manifest.not_comparable[part.attribute])
    _check_declared(part, by or ())
    if not _comparable(part):
        _check_comparable(part, part.detectors)
    settings = asked or part.intervals
    if asked is None and by is None:
        rows = part.rows("ranks")
        rows = rows[rows["t2i_model"] == ALL]
    else:
        stored = part.results.coded_predictions(CONTEST_COLUMNS)
        contest = DetectorContest.of(
            part.image_set, stored, attribute=part.attribute, max_error_share=part.max_error_share
        )
        family = contest.family(settings, n_clear=part.results.settings.n_clear, metrics=by or COMPARED_METRICS)
        rows = pd.DataFrame(contest.rank_rows(family), columns=list(RANK_COLUMNS))
    tables = [
        ranking_table(
            ranked_detectors(of_metric),
            metric=str(metric),
            attribute=part.attribute,
            level=settings.level,
            about=_about(part, rows, settings),
        )
        for metric, of_metric in rows.groupby("metric", sort=False)
    ]
    return _answer(part, *tables, numbers={"ranks": rows})


def _check_declared(part: FinishedStudy, names: Sequence[str]) -> None:
    """Check that what the folder has numbers of is declared now, too: a number alone has no direction."""
    for name in names:
        if name not in METRICS and (part.metrics["metric"] == name).any():
            file = part.results.manifest.plugin_of(name)
            raise ConfigError(
                f"{name!r} is a metric of {file or 'a file'} that is not named: say --plugin {file or 'FILE.py'}"
            )


def causes(part: FinishedStudy, *, resamples: int | None) -> ResultTables:
    """What filtering and classification add to the bias errors; see `Results.causes`."""
    part.need_labels()
    names = ("causes", "accuracy_gaps", "filter_outcomes")
    if resamples is None:
        numbers = {name: part.rows(name) for name in names}
    else:
        intervals = part.intervals.with_resamples(resamples)
        settings = part.results.settings.model_copy(
            update={"attributes": (part.attribute,), "intervals": intervals}
        )
        numbers, _ = further_tables(part.image_set, part.predictions, settings, names=names)
    error, gaps, outcomes = (numbers[name] for name in names)
    return _answer(
        part,
        bias_error_causes(error, attribute=part.attribute, gaps=gaps, max_error_share=part.max_error_share),
        filter_errors(outcomes, attribute=part.attribute),
        numbers=numbers,
    )


def sweep(part: FinishedStudy, detector: str, *, first: float | None, last: float, steps: int) -> ResultTables:
    """What a detector would report at other thresholds; see `Results.sweep`."""
    part.need_labels()
    table = part.results.predictions(PREDICTION_COLUMNS)[detector]
    n_clear = part.results.settings.n_clear
    if first is None:
        # `last` alone may lie below it.
        first = min(first_threshold([table], attribute=part.attribute), max(last - 0.05, 0))
    swept = sweep_counts(
        part.image_set,
        table,
        detector=detector,
        attribute=part.attribute,
        thresholds=even_thresholds(first=first, last=last, steps=steps),
        allow_incomplete=True,
    )
    numbers, intervals = sweep_table(swept, n_clear=n_clear), part.intervals
    choices = threshold_choices(swept, n_clear=n_clear, seed=intervals.seed, level=intervals.level)
    chosen = choices.loc[choices["t2i_model"] == ALL, "threshold"]
    shown = nearest_thresholds(swept.thresholds.tolist(), always=chosen.dropna())
    images = "1 image" if swept.without_score == 1 else f"{swept.without_score:,} images"
    return _answer(
        part,
        threshold_sweep(numbers, choices, thresholds=shown),
        chosen_thresholds(choices, level=intervals.level),
        numbers={"sweep": numbers, "sweep_chosen": choices},
        notes=(f"{images} kept without a score: kept at every threshold.",) if swept.without_score else (),
    )


def verdicts(part: FinishedStudy) -> pd.DataFrame:
    """One row per detector and image, with the human label; see `Results.verdicts`."""
    images = part.image_set.images[["image_id", "t2i_model", "prompt_id"]].reset_index(drop=True)
    human = images.assign(
        attribute=part.attribute, human_label=part.image_set.truth(part.attribute)["label"].array
    )
    blocks = []
    for detector, table in part.results.predictions(("reason", "score", "value")).items():
        rows = table.to_pandas()
        rows = rows[rows["attribute"] == part.attribute].set_index("image_id")[list(_OF_A_VERDICT)]
        if not rows.empty:
            said = rows.reindex(images["image_id"]).reset_index(drop=True)
            said["status"] = said["status"].astype(object).where(said["status"].notna(), "not_run")
            blocks.append(pd.concat([human.assign(detector=detector), said], axis=1))
    columns = ["attribute", "detector", *images.columns, "human_label", *_OF_A_VERDICT]
    return pd.concat(blocks, ignore_index=True)[columns] if blocks else pd.DataFrame(columns=columns)


def _answer(
    part: FinishedStudy, *tables: Table, numbers: Mapping[str, pd.DataFrame], notes: tuple[str, ...] = ()
) -> ResultTables:
    """Tables that compare with the humans; where not all images have a label, each says how many have."""
    said = labels_notes(part.lookup)
    counted = (replace(table, notes=(*table.notes, *said)) for table in tables)
    return ResultTables.of(part.results.study, *counted, numbers=numbers, notes=notes)


def _contest_rows(
    part: FinishedStudy, first: str, second: str, asked: Intervals | None
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """All comparisons that two detectors are tested with, and who is left out of them."""
    if asked is None and part.attribute not in part.results.manifest.not_comparable:
        comparisons = part.rows("comparisons")
        for name in (first, second):
            if name not in part.detectors:
                raise ConfigError(f"{name} does not judge {part.attribute}: nothing to compare")
        return comparisons, part.rows("images_judged_rightly"), ()
    stored = part.results.coded_predictions(CONTEST_COLUMNS)
    contest = DetectorContest.of(
        part.image_set,
        stored,
        attribute=part.attribute,
        pair=(first, second),
        max_error_share=part.max_error_share,
    )
    family = contest.family(asked or part.intervals, n_clear=part.results.settings.n_clear)
    return (
        pd.DataFrame(contest.test_rows(family), columns=list(COMPARISON_COLUMNS)),
        pd.DataFrame(contest.image_rows(), columns=list(PAIRED_IMAGE_COLUMNS)),
        contest.left_out,
    )


def _comparable(part: FinishedStudy) -> list[str]:
    """The detectors that could run on every T2I model: the others were judged on other images."""
    return [name for name in part.detectors if not part.lookup.could_not_run(name)]


def _check_comparable(part: FinishedStudy, detectors: Sequence[str]) -> None:
    for name in detectors:
        if failed := part.lookup.failed_on(name):
            raise DetectorBenchError(
                f"{name} gave no verdict on more than {100 * part.max_error_share:g} % of the images of "
                f"{', '.join(failed)} (max_error_share): it was judged on other images than the rest, so it is "
                "neither compared nor ranked over all T2I models"
            )


def _of_pair(rows: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    pair = (first, second)
    return rows[rows["first"].isin(pair) & rows["second"].isin(pair)]


def _tests(rows: pd.DataFrame, first: str) -> list[PairedTest]:
    """Tests of a pair with `first` first, whichever way round they were made."""
    found = []
    for row in rows.to_dict("records"):
        numbers = {name: row[name] for name in ("difference", "ci_low", "ci_high", "p_value", "told_apart")}
        test = PairedTest(row["metric"], row["first_value"], row["second_value"], **numbers)
        if row["first"] != first:
            test = test._replace(
                first=test.second,
                second=test.first,
                difference=-test.difference,
                ci_low=-test.ci_high,
                ci_high=-test.ci_low,
            )
        found.append(test)
    return found


def _paired_images(rows: pd.DataFrame, first: str) -> list[PairedImages]:
    found = []
    for row in rows.to_dict("records"):
        images = PairedImages(
            row["share"],
            row["first_value"],
            row["second_value"],
            int(row["only_first"]),
            int(row["only_second"]),
            row["p_value"],
        )
        if row["first"] != first:
            images = images._replace(
                first=images.second,
                second=images.first,
                only_first=images.only_second,
                only_second=images.only_first,
            )
        found.append(images)
    return found


def _about(part: FinishedStudy, rows: pd.DataFrame, settings: Intervals, *, left_out: Sequence[str] = ()) -> str:
    """How many tests were made together, on what, and who is not among them."""
    if rows.empty:
        return ""
    names = {*rows["detector"]} if "detector" in rows else {*rows["first"], *rows["second"]}
    pairs, metrics = len(names) * (len(names) - 1) // 2, rows["metric"].nunique()
    prompts = settings.unit == "prompt"
    could_be = "other prompts of the same categories" if prompts else "other images of the same prompts"
    about = (
        f"{int(rows['images'].iloc[0]):,} labelled images. {int(rows['tests'].iloc[0]):,} tests at once: {pairs} "
        f"{'pair' if pairs == 1 else 'pairs'} of {len(names)} detectors, {metrics} "
        f"{'metric' if metrics == 1 else 'metrics'}. What could have come out otherwise: {could_be}. "
        f"All hold together at {100 * settings.level:g} %. Seed {settings.seed}."
    )
    failed = [name for name in part.detectors if part.lookup.could_not_run(name)]
    missing = [name for name in dict.fromkeys([*left_out, *failed]) if name not in names]
    return f"{about} Not among them, as judged on other images: {', '.join(missing)}." if missing else about


def without_verdict(results: ResultFolder) -> dict[str, str]:
    """The detectors that have judged nothing, as all their images ended in an error, with the usual reason.

    Raises:
        DetectorBenchError: the predictions are not there.
    """
    failed = {
        name
        for name, by_attribute in results.manifest.counts.items()
        if any(counts["error"] for counts in by_attribute.values())
        and not any(counts["clear"] or counts["filtered"] for counts in by_attribute.values())
    }
    if not failed:
        return {}
    predictions = results.predictions(("reason",))
    reasons = {name: predictions[name]["reason"].cast(pa.string()).drop_null().to_pylist() for name in failed}
    return {name: Counter(found).most_common(1)[0][0] if found else "" for name, found in sorted(reasons.items())}
