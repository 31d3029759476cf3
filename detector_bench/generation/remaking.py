"""Makes an image of a set once more, from what is recorded of it, and compares the two."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.generation.image_files import ImageContent, checked, image_file, record_of
from detector_bench.generation.image_requests import (
    Blocked,
    Failed,
    ImageRequest,
    Made,
    Outcome,
    SeedPhoto,
    Waiting,
)
from detector_bench.generation.making import RECIPE_FILE
from detector_bench.generation.plan import asked_parameters, request_sha256
from detector_bench.generation.recipe import Recipe
from detector_bench.generation.stored_requests import StoredRequest, listed_path, requests_of_image
from detector_bench.generation.t2i_models import GenerationPlace, LoadedT2IModel, ModelRecord, T2IModel
from detector_bench.perception.answers.spending import money
from detector_bench.sealed import digest_of
from detector_bench.vocabulary.generations import GenerationStatus
from detector_bench.weights import WeightsLocator
from detector_bench.weights.revisions import RevisionLock, lock_beside

_NONE = "not recorded"
_SHORT = 12


class ChangedFact(NamedTuple):
    """Something that is not as it was when the image was made."""

    what: str
    then: str
    now: str


class PixelDifference(NamedTuple):
    """How far the pixels of two images of one size are apart, on a scale of 0 to 255."""

    largest: int
    mean: float
    """Over all pixels and colours."""
    share: float
    """Of pixels of which any colour differs, 0 to 1."""


@dataclass(frozen=True)
class Remade:
    """What became of the request this time, beside what was recorded.

    Attributes:
        stored: what was recorded.
        status: made, blocked or error.
        reason: of a refusal or an error.
        image: what was made; None: nothing was.
        same: the bytes have the recorded sha256; of a refusal: it was refused again.
        pixels: how far they are apart; None: the bytes are the same, or the pixels cannot be compared.
        kept: why the pixels cannot be compared, or what is amiss with the image that is kept; "": nothing.
        differences: what is not as it was; empty: nothing that is recorded differs.
        seconds: that it took.
        cost: what was charged; None: nothing, or nobody says what.
        currency: of the cost.
    """

    stored: StoredRequest
    status: GenerationStatus
    reason: str | None
    image: ImageContent | None
    same: bool
    pixels: PixelDifference | None
    kept: str
    differences: tuple[ChangedFact, ...]
    seconds: float
    cost: float | None
    currency: str


@dataclass(frozen=True, kw_only=True)
class Remaker:
    """Makes images of a set once more.

    Attributes:
        folder: of the image set.
        recipe: that the set was made by; of its models alone.
        device: see `GenerationPlace`; None: the best that there is.
        weights_dir: see `WeightsLocator`.
        pay: whether a request may be charged for.
        anyway: make it although model or request are others than those that were recorded.
        report: takes a line for the user.
    """

    folder: Path
    recipe: Recipe
    device: str | None = None
    weights_dir: Path | None = None
    pay: bool = False
    anyway: bool = False
    report: Callable[[str], None] = lambda line: None  # noqa: ARG005

    def remake(self, image_id: str) -> Remade:
        """Make an image once more; nothing in the set is changed.

        Raises:
            ConfigError: no such request; one that came to nothing; a T2I model that the recipe does not have; a
                seed photo that is gone; one that costs money, without `pay`; another request, weights or revision
                than recorded, without `anyway`.
            DetectorBenchError: the T2I model cannot be loaded, or no request would go well.
        """
        stored = requests_of_image(self.folder, image_id)[0]
        self._check_status(stored)
        model = self._model(stored)
        request = self._request(stored)
        differences = [*_of_request(stored, model, request)]
        self._refuse("request", stored, differences)
        self._check_price(model, request)
        place = self._place(request)
        loaded = model.load(place)
        try:
            record = record_of(loaded, model)
            decisive = [*_of_weights(stored, record)]
            self._refuse("T2I model", stored, decisive)
            differences += [*decisive, *_of_surroundings(stored, record)]
            outcome = _outcome(loaded, request, model)
        finally:
            loaded.close()
        return self._compared(stored, outcome, tuple(differences), currency=model.currency)

    def _check_status(self, stored: StoredRequest) -> None:
        if stored.status not in (GenerationStatus.MADE, GenerationStatus.BLOCKED):
            why = f" ({stored.row['reason']})" if stored.row["reason"] else ""
            raise ConfigError(
                f"there is nothing to make again of {stored.image_id!r}: its status is {stored.status.value}{why};"
                " `detector-bench generate` asks for it"
            )

    def _model(self, stored: StoredRequest) -> T2IModel:
        name = stored.row["t2i_model"]
        models = {model.name: model for model in self.recipe.models}
        if name not in models:
            raise ConfigError(f"{self.recipe.path} has no T2I model {name!r}: {nearest_hint(name, models)}")
        return models[name]

    def _request(self, stored: StoredRequest) -> ImageRequest:
        row = stored.row
        return ImageRequest(
            image_id=stored.image_id,
            prompt_id=row["prompt_id"],
            prompt=row["prompt"],
            number=row["number"],
            seed=row["seed"],
            seed_photo=self._photo(row["seed_image_id"]),
        )

    def _photo(self, image_id: str | None) -> SeedPhoto | None:
        if not image_id:
            return None
        listed = listed_path(self.folder, image_id)
        path = None if listed is None else self.folder / listed
        if path is None or not path.is_file():
            raise ConfigError(
                f"the seed photo {image_id!r} that was edited is gone from the image set"
                f"{'' if path is None else f' ({path})'}: put it back"
            )
        return SeedPhoto(image_id, path, hashlib.sha256(path.read_bytes()).hexdigest())

    def _refuse(self, what: str, stored: StoredRequest, differences: list[ChangedFact]) -> None:
        if differences and not self.anyway:
            told = "; ".join(f"{each.what}: {each.then}, now {each.now}" for each in differences)
            raise ConfigError(
                f"the {what} is not the one that made {stored.image_id!r} ({told}); bring that back, or "
                "compare all the same with --anyway"
            )

    def _check_price(self, model: T2IModel, request: ImageRequest) -> None:
        if not model.costs_money or self.pay:
            return
        most = model.most_it_costs(request)
        price = "an amount that nobody can say" if most is None else f"up to {money({model.currency: most})}"
        raise ConfigError(f"one image of {model.name!r} costs {price}; --pay asks for it")

    def _place(self, request: ImageRequest) -> GenerationPlace:
        lock = RevisionLock([lock_beside(self.folder / RECIPE_FILE), lock_beside(self.recipe.path)])
        weights = WeightsLocator.from_environment(
            weights_dir=self.weights_dir, beside=self.recipe.folder, allow_download=True, revisions=lock
        )
        return GenerationPlace(
            weights=weights,
            folder=self.folder,
            device=self.device,
            requests=lambda: iter((request,)),
            report=self.report,
        )

    def _compared(
        self, stored: StoredRequest, outcome: Outcome, differences: tuple[ChangedFact, ...], *, currency: str
    ) -> Remade:
        if isinstance(outcome, Waiting):
            raise ConfigError("this T2I model's images are made elsewhere: there is nothing to compare")
        status, reason, image = GenerationStatus.MADE, None, None
        pixels, kept = None, ""
        if isinstance(outcome, Made):
            image = image_file(outcome)
            same = image.sha256 == stored.row["image_sha256"]
            if not same and stored.status is GenerationStatus.MADE:
                pixels, kept = self._pixels(stored, image)
        else:
            is_blocked = isinstance(outcome, Blocked)
            status = GenerationStatus.BLOCKED if is_blocked else GenerationStatus.ERROR
            reason = outcome.reason
            same = is_blocked and stored.status is GenerationStatus.BLOCKED
        return Remade(
            stored=stored,
            status=status,
            reason=reason,
            image=image,
            same=same,
            pixels=pixels,
            kept=kept,
            differences=differences,
            seconds=outcome.seconds,
            cost=outcome.cost,
            currency=currency,
        )

    def _pixels(self, stored: StoredRequest, image: ImageContent) -> tuple[PixelDifference | None, str]:
        if stored.path is None:
            return None, "the image set does not list the image"
        try:
            content = (self.folder / stored.path).read_bytes()
        except OSError as error:
            return None, f"{stored.path} cannot be read ({error.strerror or error})"
        kept = ""
        if hashlib.sha256(content).hexdigest() != stored.row["image_sha256"]:
            kept = f"{stored.path} is not the file that was made: its content has changed since"
        try:
            then, now = decode_image(content).astype(np.int16), decode_image(image.content).astype(np.int16)
        except ImageError as error:
            return None, f"{stored.path}: {error}"
        if then.shape != now.shape:
            sizes = " and ".join(f"{each.shape[1]} x {each.shape[0]}" for each in (then, now))
            return None, "; ".join(filter(None, [kept, f"the images are of different sizes ({sizes} pixels)"]))
        off = np.abs(then - now)
        share = float((off.max(axis=-1) > 0).mean())
        return PixelDifference(int(off.max()), float(off.mean()), share), kept


def _of_request(stored: StoredRequest, model: T2IModel, request: ImageRequest) -> Iterator[ChangedFact]:
    """Why the request is another one than was recorded; nothing where it is the same."""
    photo = "" if request.seed_photo is None else request.seed_photo.sha256
    now = request_sha256(digest_of(model.identity()), request.prompt, request.seed, photo)
    if now == stored.row["request_sha256"]:
        return
    asked, before = asked_parameters(model), stored.row["parameters"]
    changed = [key for key, value in asked.items() if before.get(key, _NONE) != value]
    yield from (ChangedFact(key, str(before.get(key, _NONE)), str(asked[key])) for key in changed)
    if not changed:
        what = "the T2I model's code or declaration" + (", or the seed photo" if photo else "")
        yield ChangedFact(what, stored.row["request_sha256"][:_SHORT], now[:_SHORT])


def _of_weights(stored: StoredRequest, now: ModelRecord) -> Iterator[ChangedFact]:
    for what, then, here in (
        ("revision", stored.row["revision"], now.revision),
        ("sha256 of the weights", stored.row["model_sha256"], now.sha256),
    ):
        if then is not None and here is not None and then != here:
            yield ChangedFact(what, then[:_SHORT], here[:_SHORT])


def _of_surroundings(stored: StoredRequest, now: ModelRecord) -> Iterator[ChangedFact]:
    """Libraries and device: they may decide the last bits of an image."""
    before: dict[str, Any] = stored.row["versions"]
    for library in sorted({*before, *now.versions}):
        then, here = before.get(library, _NONE), now.versions.get(library, _NONE)
        if then != here:
            yield ChangedFact(library, then, here)
    if (then := stored.row["device"] or _NONE) != (here := now.device or _NONE):
        yield ChangedFact("device", then, here)


def _outcome(loaded: LoadedT2IModel, request: ImageRequest, model: T2IModel) -> Outcome:
    began = time.monotonic()
    try:
        outcome = loaded.make([request])[0]
    except DetectorBenchError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a library raises is what became of it
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Failed(reason=reason, seconds=time.monotonic() - began, may_have_been_paid=model.costs_money)
    return checked(outcome, may_cost=model.costs_money)
