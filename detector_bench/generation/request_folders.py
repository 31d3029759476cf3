"""Images that somebody else makes elsewhere: the requests are written into a folder, and images are taken from it.

In `SET/requests/<model>/` lie `requests.jsonl` and `requests.csv` with all requests, the photos that are to be
edited, a `README.txt` for whoever makes the images, and, by their hand, `images/` and perhaps `answers.csv`.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from detector_bench.atomic_files import replacing, write_text
from detector_bench.dataset.decoding import ImageError, content_of, read_image_file
from detector_bench.dataset.image_folder import ImageFolder, LeavesFolderError, NotARegularFileError
from detector_bench.dataset.image_tree import slug
from detector_bench.errors import DetectorBenchError
from detector_bench.generation.image_requests import Blocked, Failed, ImageRequest, Made, Outcome, Waiting
from detector_bench.generation.request_answers import RequestAnswer, read_answers
from detector_bench.generation.t2i_models import GenerationPlace, ModelRecord, T2IModel, t2i_model
from detector_bench.vocabulary.generations import GenerationStatus

REQUESTS_FOLDER = "requests"
"""In the folder of an image set."""

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_PARAMETERS = ("negative_prompt", "width", "height", "steps", "guidance", "scheduler", "precision")
_COLUMNS = ("image_id", "file", "prompt_id", "number", "prompt", "seed", *_PARAMETERS, "seed_photo")
_LONGEST_NAME = 200
_MOST_TOLD = 5
_README = """Images that are to be made
==========================

T2I model: {name}

1. Each row of requests.csv, and each line of requests.jsonl (the same, for programs), asks for one image.
2. Make it of the sentence under `prompt`, as it stands. `seed` is meant for the random numbers, where one can be
   given.{parameters}{photos}
3. Save the image in the folder `images` beside this file, by the name that stands under `file`. PNG, JPEG and
   WebP are taken (.png, .jpg, .webp). Do not make images anew until one pleases: the first one counts.
4. If an image is refused or does not come, say so in a file `answers.csv` beside this one:

       image_id,status,reason
       {example},blocked,content policy

   `status` is `made`, `blocked` (it was refused) or `error` (something went wrong; it may be tried again).
   Further columns are taken where there are some: `revised_prompt`, `seconds`, `cost`, `model`, `version`.
   A file `answers.jsonl` with such objects, one in a line, does as well.
5. Then run the command again that wrote this file. It copies the images into the image set, and changes and
   removes nothing in here but its own files: requests.csv, requests.jsonl, README.txt and what is in `photos`.
   You may bring images in several rounds.
"""


@t2i_model("requests")
class RequestFolder(T2IModel):
    """Requests that are written down for somebody else, who brings the images."""

    summary: ClassVar[str] = "a folder of requests that somebody else fills with images"

    model: str | None = Field(default=None, min_length=1)
    """Which T2I model is to make the images, as tables name it."""
    revision: str | None = Field(default=None, min_length=1)
    """Which version of it."""
    edits_photos: bool = False
    """Whether photos are to be edited; then the recipe has `seed_photos`."""

    @property
    def edits(self) -> bool:
        """See `T2IModel.edits`."""
        return self.edits_photos

    @property
    def costs_money(self) -> bool:
        """Nothing is bought here, whatever somebody pays elsewhere."""
        return False

    def load(self, place: GenerationPlace) -> RequestsOfOthers:
        """Write all requests down, and look at what was brought; see `T2IModel.load`.

        Raises:
            DataError: mistakes in the answers.
            DetectorBenchError: the folder cannot be written to.
        """
        return RequestsOfOthers(self, place)


class RequestsOfOthers:
    """The folder of one T2I model's requests; several threads may ask for images.

    Args:
        declared: the T2I model.
        place: where the image set is, and all requests.

    Raises:
        DataError: mistakes in the answers.
        DetectorBenchError: the folder cannot be written to.
    """

    def __init__(self, declared: RequestFolder, place: GenerationPlace) -> None:
        self._declared = declared
        self._folder = place.folder / REQUESTS_FOLDER / declared.name
        self._files = ImageFolder(self._folder)
        self._found = dict(_images_in(self._folder / "images"))
        unknown = self._write(place)
        self._answers = read_answers(self._folder, self._ids)
        self._tell(unknown, place)

    @property
    def record(self) -> ModelRecord:
        """As the recipe says; nobody here sees the T2I model."""
        return ModelRecord(model=self._declared.model or self._declared.name, revision=self._declared.revision)

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        """Take in the images that were brought; see `LoadedT2IModel.make`."""
        return [self._outcome(request) for request in requests]

    def close(self) -> None:
        """Nothing is open."""

    def _outcome(self, request: ImageRequest) -> Outcome:
        began = time.monotonic()
        answer = self._answers.get(request.image_id, RequestAnswer())
        names = self._found.get(_stem(request.image_id).casefold(), ())
        try:
            content = self._content(f"images/{names[0]}") if names else None
            problem = _contradiction(answer, names)
        except ImageError as error:
            content, problem = None, str(error)
        seconds = time.monotonic() - began if answer.seconds is None else answer.seconds
        if problem is not None:
            return Failed(reason=problem, seconds=seconds, cost=answer.cost)
        told: dict[str, Any] = {"seconds": seconds, "revised_prompt": answer.revised_prompt}
        if content is not None:
            cost = self._declared.price if answer.cost is None else answer.cost
            return Made(content=content, parameters=answer.parameters, cost=cost, **told)
        reason = _in_one_line(answer.reason or str(answer.status))
        if answer.status == GenerationStatus.BLOCKED:
            return Blocked(reason=reason, cost=answer.cost, **told)
        if answer.status == GenerationStatus.ERROR:
            return Failed(reason=reason, seconds=seconds, cost=answer.cost)
        return Waiting()

    def _content(self, path: str) -> bytes:
        try:
            return content_of(lambda: self._files.open(path), path)
        except LeavesFolderError as error:
            raise ImageError("outside_folder", f"{path}: {error}") from None
        except NotARegularFileError:
            raise ImageError("not_a_file", f"{path}: it is no file") from None

    def _write(self, place: GenerationPlace) -> set[str]:
        """Write the requests down; gives the files in `images/` that belong to none."""
        unknown = set(self._found)
        photos: dict[str, str] = {}
        self._ids: set[str] = set()
        example = "IMAGE_ID"
        with ExitStack() as files:
            lines = files.enter_context(replacing(self._folder / "requests.jsonl"))
            cells = files.enter_context(replacing(self._folder / "requests.csv"))
            as_lines = files.enter_context(lines.open("w", encoding="utf-8", newline="\n"))
            as_cells = files.enter_context(cells.open("w", encoding="utf-8", newline=""))
            table = csv.writer(as_cells, lineterminator="\n")
            table.writerow(_COLUMNS)
            for request in place.requests():
                row = self._row(request, photos)
                as_lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                table.writerow([row.get(column, "") for column in _COLUMNS])
                example = request.image_id if not self._ids else example
                self._ids.add(request.image_id)
                unknown.discard(_stem(request.image_id).casefold())
        given = [name for name in _PARAMETERS if getattr(self._declared, name) is not None]
        read_me = _README.format(
            name=self._declared.name,
            parameters=f" Use {', '.join(f'`{name}`' for name in given)} as they stand there." if given else "",
            photos=" Edit the photo that `seed_photo` names." if self._declared.edits_photos else "",
            example=example,
        )
        write_text(self._folder / "README.txt", read_me)
        _make_folder(self._folder / "images")
        return unknown

    def _row(self, request: ImageRequest, photos: dict[str, str]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "image_id": request.image_id,
            "file": f"{_stem(request.image_id)}.png",
            "prompt_id": request.prompt_id,
            "number": request.number,
            "prompt": request.prompt,
            "seed": request.seed,
        }
        for name in _PARAMETERS:
            value = getattr(self._declared, name)
            if value is not None:
                row[name] = value
        if request.seed_photo is not None:
            photo = request.seed_photo
            if photo.image_id not in photos:
                name = f"{slug(photo.image_id)[:_LONGEST_NAME] or 'photo'}{photo.path.suffix.lower()}"
                _copy(photo.path, self._folder / "photos" / name, photo.sha256)
                photos[photo.image_id] = f"photos/{name}"
            row["seed_photo"] = photos[photo.image_id]
        return row

    def _tell(self, unknown: set[str], place: GenerationPlace) -> None:
        strange = sorted(name for stem in unknown for name in self._found[stem])
        if strange:
            more = f" and {len(strange) - _MOST_TOLD:,} more" if len(strange) > _MOST_TOLD else ""
            place.report(
                f"{self._folder / 'images'}: no request is called so: {', '.join(strange[:_MOST_TOLD])}{more} "
                "(accepted: the names under `file` in requests.csv)"
            )
        brought = len(self._found) - len(unknown)
        place.report(
            f"{self._folder}: {len(self._ids):,} requests written down, {brought:,} of them have an image there; "
            "README.txt says what to do"
        )


def _contradiction(answer: RequestAnswer, names: Sequence[str]) -> str | None:
    """What speaks against a request's files and what is said of it; None: nothing."""
    if len(names) > 1:
        return f"several files for one image: {', '.join(sorted(names))}"
    if names and answer.status == GenerationStatus.BLOCKED:
        return f"{answer.place} says blocked, and there is images/{names[0]}"
    if not names and answer.status == GenerationStatus.MADE:
        return f"{answer.place} says made, and there is no file of it"
    return None


def _images_in(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of the files of a folder, by what they are called without their ending, in small letters."""
    found: dict[str, tuple[str, ...]] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.startswith(".") or path.name in ("Thumbs.db", "desktop.ini"):
            continue
        is_image = path.suffix.lower() in _SUFFIXES
        stem = (path.stem if is_image else path.name).casefold()
        found[stem] = (*found.get(stem, ()), path.name)
    yield from found.items()


def _stem(image_id: str) -> str:
    """How the file of an image is called, without its ending; not all file systems take a name of any length."""
    if len(image_id.encode()) <= _LONGEST_NAME:
        return image_id
    short = image_id.encode()[:_LONGEST_NAME].decode(errors="ignore")
    return f"{short}_{sha256(image_id.encode()).hexdigest()[:12]}"


def _copy(source: Path, target: Path, digest: str) -> None:
    if target.is_file():
        with target.open("rb") as there:
            if file_digest(there, "sha256").hexdigest() == digest:
                return
    try:
        content = read_image_file(source)
    except ImageError as error:
        raise DetectorBenchError(f"the seed photo cannot be read: {error}") from error
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DetectorBenchError(f"cannot write {str(folder)!r}: {error}") from error


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
