"""Makes the image set of a recipe in a folder, in as many runs as it takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from detector_bench.atomic_files import write_text
from detector_bench.dataset.importing import IMAGE_FOLDER
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.generation.generation_order import GenerationOrder, ModelStanding, wanted
from detector_bench.generation.generation_run import GenerationProgress, ModelRun, unread_ends
from detector_bench.generation.journal import JOURNAL_FOLDER, Journal
from detector_bench.generation.plan import ModelPlan, Plan, PlannedRequest, in_parts
from detector_bench.generation.recipe import Recipe
from detector_bench.generation.recipe_changes import changed_keys
from detector_bench.generation.seed_photos import add_seed_labels, copy_seed_photos
from detector_bench.generation.set_spending import check_budget, most_of_one, spending_of
from detector_bench.generation.set_tables import (
    IMAGES_FILE,
    PROMPTS_FILE,
    state_of,
    write_tables,
    written_counts,
    written_state,
)
from detector_bench.generation.setting_aside import move_aside
from detector_bench.generation.spending_limit import Spending, SpendingLimit
from detector_bench.generation.standing import RequestStanding, Standings, standings, with_standing
from detector_bench.generation.t2i_models import GenerationPlace
from detector_bench.generation.work_of_people import check_no_labels_of, check_nothing_is_written_over
from detector_bench.vocabulary.generations import GENERATIONS_FILE, GenerationStatus
from detector_bench.weights import WeightsLocator
from detector_bench.weights.revisions import RevisionLock, lock_beside

RECIPE_FILE = "recipe.yaml"
"""In the image set: what its images were made by."""

_SET_ASIDE_AT_ONCE = 100


@dataclass
class ImageSetMaking:
    """A recipe and the folder that its image set is made in.

    Args:
        recipe: what to make.
        folder: of the image set.
        order: what is asked of this run.
        report: takes lines for the user.

    Raises:
        ConfigError: another recipe's images lie there, their journal is gone, an unknown T2I model is named, or a
            budget cannot be kept to.
    """

    recipe: Recipe
    folder: Path
    order: GenerationOrder = field(default_factory=GenerationOrder)
    report: Callable[[str], None] = lambda line: None  # noqa: ARG005

    def __post_init__(self) -> None:
        known = {model.name for model in self.recipe.models}
        for name in self.order.t2i_models:
            if name not in known:
                raise ConfigError(f"--model {name!r}: {nearest_hint(name, known)}")
        self.plan = Plan.of(self.recipe)
        self.left_behind = False  # whether a thread still computes
        check_budget(self.order.budget, self.models)
        self._check_folder()
        self._check_journals()

    def _check_folder(self) -> None:
        own = self.folder / RECIPE_FILE
        if own.is_file():
            before = read_mapping(own, keys="`name` and `models`").get("name")
            if before != self.recipe.name:
                raise ConfigError(
                    f"{str(self.folder)!r} holds the images of the recipe {before!r}, not of "
                    f"{self.recipe.name!r}; name another folder with --out"
                )
        elif (self.folder / IMAGES_FILE).exists():
            if self._journal_folder.is_dir():
                raise ConfigError(f"{own} is gone, by which the images of this folder were made: put it back")
            raise ConfigError(f"{str(self.folder)!r} holds an image set that no recipe made; name another folder")
        if not self._journal_folder.is_dir():
            own_files = {RECIPE_FILE: self._recipe_text, PROMPTS_FILE: self.plan.prompt_table}
            check_nothing_is_written_over(self.folder, own_files)

    def _check_journals(self) -> None:
        """Without its journal, all images of a T2I model would be asked for, and paid for, once more.

        Raises:
            ConfigError: the table knows of requests whose journal is gone.
        """
        gone = [plan.name for plan in self.plan.models if not _has_content(self._journal_path(plan))]
        counts: Mapping[tuple[str, str, bool], int] = (written_counts(self.folder) if gone else None) or {}
        for name in gone:
            known = sum(
                number
                for (model, status, _), number in counts.items()
                if model == name and status != GenerationStatus.WAITING
            )
            if known:
                path = next(self._journal_path(plan) for plan in self.plan.models if plan.name == name)
                raise ConfigError(
                    f"{path} is gone or empty, and {GENERATIONS_FILE} has {known:,} requests that stood in it: "
                    "put it back, or name another folder with --out, where they are all made once more"
                )

    def warnings(self) -> list[str]:
        """What a reader should know of the recipe's prompts and photos before anything is made, a line each."""
        seeds = self.recipe.seeds
        return [*self.recipe.prompt_list().notes, *(() if seeds is None else seeds.notes())]

    def without_face(self) -> list[str]:
        """Which photos that are to be edited show no face, a line each; it looks at all of them."""
        from detector_bench.generation.seed_faces import seed_photos_without_face

        seeds = self.recipe.seeds
        if seeds is None:
            return []
        weights = WeightsLocator.from_environment(weights_dir=self.order.weights_dir, beside=self.recipe.folder)
        return seed_photos_without_face(seeds, weights=weights).lines()

    def unread_ends(self) -> list[str]:
        """Which prompts T2I models read only in part, as far as that is known without a download, a line each."""
        return [
            line for plan in self.models for line in unread_ends(plan.t2i_model, self.place(plan), plan.sentences)
        ]

    @property
    def models(self) -> tuple[ModelPlan, ...]:
        """The plans of the T2I models that are asked for."""
        named = self.order.t2i_models
        return tuple(plan for plan in self.plan.models if not named or plan.name in named)

    def place(self, plan: ModelPlan) -> GenerationPlace:
        """Where a T2I model works."""
        lock = RevisionLock([lock_beside(self.folder / RECIPE_FILE), lock_beside(self.recipe.path)])
        weights = WeightsLocator.from_environment(
            weights_dir=self.order.weights_dir,
            beside=self.recipe.folder,
            allow_download=self.order.allow_download,
            revisions=lock,
        )
        return GenerationPlace(
            weights=weights,
            folder=self.folder,
            device=self.order.device,
            requests=plan.requests,
            report=self.report,
        )

    def finished(self) -> list[ModelStanding] | None:
        """How far the recipe has come where all is answered, all images are there and all tables are written;
        None: something is left to do. Takes a fraction of the time that `standing` takes."""
        if self.order.ask_again or self.order.remake_changed or written_state(self.folder) is None:
            return None
        found = []
        counts: Mapping[tuple[str, str, bool], int] = written_counts(self.folder) or {}
        with self._journals() as journals:
            if written_state(self.folder) != state_of(self.plan, journals):
                return None
            for plan in self.plan.models:
                answered = {
                    each: counts.get((plan.name, each.value, True), 0)
                    for each in (RequestStanding.MADE, RequestStanding.BLOCKED)
                }
                if sum(answered.values()) != len(plan) or plan.name not in journals:
                    return None
                journal = journals[plan.name]
                # Of 100,000 paths, joining takes longer than asking.
                if not all(os.path.isfile(f"{self.folder}/{path}") for path in journal.paths()):  # noqa: PTH113
                    return None
                no_longer = journal.count() - len(plan)
                found.append(ModelStanding(plan, Standings(answered, no_longer), journal.spent()))
        return found

    def standing(self) -> list[ModelStanding]:
        """How far the recipe has come; nothing is written where nothing was made."""
        found = []
        for plan in self.models:
            with self.journal_of(plan) as journal:
                if journal is None:
                    found.append(ModelStanding(plan, Standings({RequestStanding.NEW: len(plan)}, 0), {}))
                else:
                    found.append(ModelStanding(plan, standings(plan, journal, self.folder), journal.spent()))
        return found

    def run(self, listener: Callable[[GenerationProgress], None]) -> list[GenerationProgress]:
        """Make what is left, and write the tables, also if it is interrupted or fails on the way.

        Raises:
            ConfigError: the recipe has changed since images were made, and nothing is said of them; or something
                is missing on this machine for a T2I model that has images to make. Nothing is made or sent then.
            DetectorBenchError, KeyboardInterrupt: see `ModelRun.run`.
        """
        standing = self.standing()
        if (changes := self.changes(standing)) is not None:
            raise ConfigError(changes)
        self._check_nothing_lacks(standing)
        self._check_labels(standing)
        if self.recipe.seeds is not None:
            copy_seed_photos(self.recipe.seeds, self.folder)
        self._write_recipe()
        done = []
        try:
            left = self.order.most
            for plan in self.models:
                progress = self._run_model(plan, listener, left)
                done.append(progress)
                if left is not None:
                    left -= progress.done
                    if left <= 0:
                        break
        except BaseException:
            try:
                self.write_tables()
            except DetectorBenchError as error:  # what ended the run is the news, and the next run writes them
                self.report(str(error))
            raise
        self.write_tables()
        return done

    def _run_model(
        self, plan: ModelPlan, listener: Callable[[GenerationProgress], None], most: int | None
    ) -> GenerationProgress:
        with Journal(self._journal_path(plan), t2i_model=plan.name) as journal:
            if lost := journal.take_over():
                self.report(
                    f"{plan.name}: {lost:,} requests were on their way when an earlier run was stopped; they may "
                    "have been charged for, and are made again only with --ask-again"
                )
            found = standings(plan, journal, self.folder)
            total = sum(found.of(each) for each in wanted(self.order))
            total = total if most is None else min(total, most)
            before = None if found.record is None else journal.record_of(found.record)
            place, limit = self.place(plan), self._limit(plan, journal)
            run = ModelRun(plan, journal, place, limit=limit, listener=listener, before=before)
            try:
                return run.run(self._asked(plan, journal, total), total)
            finally:
                self.left_behind |= run.left_behind

    def _asked(self, plan: ModelPlan, journal: Journal, total: int) -> Iterator[PlannedRequest]:
        """The first requests that are to be made; what they replace is set aside just before, so that nothing is
        of which nothing new is made."""
        todo = islice(with_standing(plan, journal, self.folder, wanted(self.order)), total)
        for part in in_parts(todo, _SET_ASIDE_AT_ONCE):
            move_aside(journal, part, self.folder)
            yield from part

    def _check_nothing_lacks(self, standing: Sequence[ModelStanding]) -> None:
        """Refuse to begin with one T2I model where another could not be asked after it.

        Raises:
            ConfigError: a line for each thing that is missing, with the T2I models that need it.
        """
        needed_by: dict[str, list[str]] = {}
        left = self.order.most
        for each in standing:
            todo = each.todo(self.order)
            if left is not None:
                todo = min(todo, left)
                left -= todo
            if todo:
                for line in each.plan.t2i_model.lacks(self.place(each.plan)):
                    needed_by.setdefault(line, []).append(each.plan.name)
        if needed_by:
            raise ConfigError("\n".join(f"{', '.join(names)}: {line}" for line, names in needed_by.items()))

    def _check_labels(self, standing: Sequence[ModelStanding]) -> None:
        """Refuse to put other pictures under ids of which people have said what the present ones show."""
        changed: set[str] = set()
        for plan in (each.plan for each in standing if each.standings.of(RequestStanding.CHANGED)):
            with self.journal_of(plan) as journal:
                assert journal is not None  # noqa: S101 - it told what has changed
                planned = with_standing(plan, journal, self.folder, {RequestStanding.CHANGED})
                changed.update(each.request.image_id for each in planned)
        check_no_labels_of(self.folder, changed)

    def changes(self, standing: Sequence[ModelStanding] | None = None) -> str | None:
        """Why images of another recipe would be left among those of this one; None: none would be.

        Args:
            standing: as `standing` gives it; None: it is asked.
        """
        if self.order.remake_changed:
            return None
        found = self.standing() if standing is None else standing
        found = [each for each in found if each.standings.of(RequestStanding.CHANGED)]
        if not found:
            return None
        changed = sum(each.standings.of(RequestStanding.CHANGED) for each in found)
        kept = sum(
            each.standings.of(RequestStanding.MADE) + each.standings.of(RequestStanding.BLOCKED) for each in found
        )
        names = ", ".join(each.plan.name for each in found)
        keys = changed_keys(self.recipe, self.folder / RECIPE_FILE)
        return (
            f"the recipe has changed ({keys}) since {changed:,} images of {names} were made; "
            f"{kept:,} others of theirs are as it asks. --remake-changed makes those {changed:,} anew, and keeps "
            f"what they were in {JOURNAL_FOLDER}/replaced; or name another folder with --out"
        )

    def _limit(self, plan: ModelPlan, journal: Journal) -> SpendingLimit:
        if self.order.budget is None or not plan.t2i_model.costs_money:
            return SpendingLimit(None, spent={})
        return SpendingLimit(
            self.order.budget,
            currency=plan.t2i_model.currency,
            spent=journal.spent(),
            doubtful=journal.doubtful() * most_of_one(plan),
            elsewhere=partial(self._spent_elsewhere, plan),
            lock=FileLock(self._journal_folder / "budget.lock"),
        )

    def _spent_elsewhere(self, own: ModelPlan) -> Spending:
        with self._journals(without=own) as journals:
            return spending_of(journals, self.plan.models, currency=own.t2i_model.currency)

    def left_out(self) -> list[str]:
        """What lies in the folder of T2I models that the recipe no longer has, a line each."""
        named = {plan.name for plan in self.plan.models}
        with self._journals() as journals:
            return [
                f"{name} is no longer in the recipe: its {journal.count():,} requests stay in {GENERATIONS_FILE} "
                f"(in_recipe false), and its images in {IMAGE_FOLDER}/{journal.path.stem}; {IMAGES_FILE} leaves "
                "them out"
                for name, journal in journals.items()
                if name not in named
            ]

    def write_tables(self) -> None:
        """Write the image set's tables, where they are not written already."""
        with FileLock(self._journal_folder / "tables.lock"), self._journals() as journals:
            is_written = written_state(self.folder) == state_of(self.plan, journals)
            if not is_written or written_counts(self.folder) is None:
                seeds = self.recipe.seeds
                photos = {} if seeds is None else copy_seed_photos(seeds, self.folder)
                edited = write_tables(self.plan, journals, self.folder, photos=photos)
                if seeds is not None:
                    add_seed_labels(seeds, self.folder, images=edited)

    @contextmanager
    def journal_of(self, plan: ModelPlan) -> Iterator[Journal | None]:
        """The journal of a T2I model, to be read; None: nothing was asked of it yet."""
        if not self._journal_path(plan).is_file():
            yield None
            return
        with Journal(self._journal_path(plan), alone=False) as journal:
            yield journal

    @contextmanager
    def _journals(self, *, without: ModelPlan | None = None) -> Iterator[dict[str, Journal]]:
        """By T2I model, all that there are, to be read: those of T2I models that the recipe no longer has last."""
        names = {self._journal_path(plan): plan.name for plan in self.plan.models}
        others = sorted(set(self._journal_folder.glob("*.sqlite")) - set(names))
        with ExitStack() as open_files:
            found: dict[str, Journal] = {}
            for path in (*names, *others):
                if path.is_file() and (without is None or path != self._journal_path(without)):
                    journal = open_files.enter_context(Journal(path, alone=False))
                    found.setdefault(names.get(path) or journal.t2i_model, journal)
            yield found

    @property
    def _journal_folder(self) -> Path:
        return self.folder / JOURNAL_FOLDER

    def _journal_path(self, plan: ModelPlan) -> Path:
        return self._journal_folder / f"{plan.file_name}.sqlite"

    def _recipe_text(self) -> str:
        document: dict[str, Any] = self.recipe.document()
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)

    def _write_recipe(self) -> None:
        text = self._recipe_text()
        path = self.folder / RECIPE_FILE
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
        self._journal_folder.mkdir(parents=True, exist_ok=True)


def _has_content(journal: Path) -> bool:
    # What was written last may stand in the file beside it.
    return any(
        path.is_file() and path.stat().st_size for path in (journal, journal.with_name(f"{journal.name}-wal"))
    )
