"""What a T2I model is for a recipe: a declaration, how it gets its name, and what it does once it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from pydantic import Field, ValidationError

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, config_error_from
from detector_bench.generation.image_requests import ImageRequest, Outcome
from detector_bench.perception.identity import canonical
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.plugins import source_fingerprint
from detector_bench.registry import Registry
from detector_bench.weights import WeightsLocator

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$"


@dataclass(frozen=True, kw_only=True)
class GenerationPlace:
    """Where a T2I model works.

    Attributes:
        weights: where its weights lie, and which commit a name on the hub stands for.
        folder: of the image set.
        device: such as `cpu`, `cuda:0`; None: the best that there is.
        requests: all requests of this T2I model in order, whatever became of them; a fresh iterator per call.
        report: takes a line for the user, such as what is downloaded.
    """

    weights: WeightsLocator
    folder: Path
    device: str | None = None
    requests: Callable[[], Iterable[ImageRequest]] = tuple
    report: Callable[[str], None] = lambda line: None  # noqa: ARG005


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """What is known of a T2I model once it is loaded, as `generations.parquet` has it.

    Attributes:
        model: its own name: of the checkpoint, the service's model, the workflow.
        revision: of the checkpoint: the commit on the hub; None: it has none.
        sha256: over the content of its weights; None: nobody shows them.
        versions: of the libraries that make the image, by name.
        device: that it works on; of a service its address, without a key.
    """

    model: str
    revision: str | None = None
    sha256: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None


@runtime_checkable
class LoadedT2IModel(Protocol):
    """A T2I model that is ready to be asked."""

    @property
    def record(self) -> ModelRecord:
        """What is known of it."""

    def make(self, requests: Sequence[ImageRequest]) -> Sequence[Outcome]:
        """Make the images of a batch, at most `batch_size` of them; one outcome for each, in their order.

        Where `concurrency` is above 1, several threads call it at the same time. What it raises (`Exception`s, but
        not `DetectorBenchError`s) is tried again on halves of the batch, down to the one request that it belongs
        to; a `DetectorBenchError` ends the run with its message, for no further request would go better; of
        its own batch nothing is charged.
        """

    def close(self) -> None:
        """Give back memory and connections."""


class T2IModel(Declaration):
    """A T2I model of a recipe: what decides its images, and how it is asked.

    A subclass is registered by `t2i_model("kind")`. Fields with `json_schema_extra=DESCRIPTIVE` (addresses, paces,
    devices) decide no image; all others are part of every request's identity. Parameters that are None are
    left to the checkpoint or the service, and `generations.parquet` says what they came to where that is known.
    A field declared as a `Path` (or `Path | None`) is a file that a recipe names from its own folder.
    """

    kind: ClassVar[str] = ""
    version: ClassVar[int] = 1
    """Raised when code changes what comes out."""
    summary: ClassVar[str] = ""
    """One line for lists."""
    extra: ClassVar[str | None] = None
    """The extra of detector-bench that it needs."""

    name: str = Field(pattern=_NAME, json_schema_extra=DESCRIPTIVE)
    """As tables call it (`t2i_model`); it is part of the seeds, though not of a request's identity."""
    width: int | None = Field(default=None, ge=8, le=16_384)
    """Of the image, in pixels."""
    height: int | None = Field(default=None, ge=8, le=16_384)
    """Of the image, in pixels."""
    steps: int | None = Field(default=None, ge=1, le=10_000)
    """Denoising steps."""
    guidance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Scale of classifier-free guidance."""
    scheduler: str | None = Field(default=None, min_length=1)
    """Which way the noise is taken out, by the name that the backend has for it."""
    negative_prompt: str | None = None
    """What images shall not show."""
    precision: str | None = Field(default=None, pattern=r"^(float32|float16|bfloat16)$")
    """Of the numbers that the network computes with."""
    price: float | None = Field(default=None, ge=0, allow_inf_nan=False, json_schema_extra=DESCRIPTIVE)
    """What one image costs, so that a run can say what it cost and keep to a budget."""
    currency: str = Field(default="USD", min_length=1, max_length=20, json_schema_extra=DESCRIPTIVE)
    """Of the prices."""

    @property
    def edits(self) -> bool:
        """Whether it edits photos: then every request has a seed photo, and a recipe needs `seed_photos`."""
        return False

    @property
    def batch_size(self) -> int:
        """How many images are made in one call."""
        return 1

    @property
    def concurrency(self) -> int:
        """How many threads call at the same time."""
        return 1

    @property
    def costs_money(self) -> bool:
        """Whether a request may be charged for: then it is recorded before it is sent, and never made again
        unasked if nobody knows what became of it."""
        return self.price is not None

    def most_it_costs(self, request: ImageRequest) -> float | None:  # noqa: ARG002
        """The most that one request may cost; None: nobody can say, and no budget can be kept to."""
        return self.price

    def mistakes(self) -> Iterable[str]:
        """What is wrong with the declaration and can be known before anything is loaded or downloaded, a line each
        that says what is accepted: a size that the model cannot make, a parameter that it does not take."""
        return ()

    def lacks(self, place: GenerationPlace) -> Iterable[str]:  # noqa: ARG002
        """What is missing on this machine, a line each that says what helps: an extra, a key, a licence that is
        not accepted, weights, a GPU that it cannot do without. Nothing is downloaded to find out, and a run does
        not begin while there is something."""
        return ()

    def sends(self) -> Iterable[str]:
        """Where prompts and photos go, and with which keys, a line each; nothing leaves this machine: empty."""
        return ()

    def prompts_cut(
        self,
        place: GenerationPlace,  # noqa: ARG002
        prompts: Iterable[str],  # noqa: ARG002
    ) -> Iterable[tuple[str, str]]:
        """Of those prompts whose end is not read, prompt and end; empty where nobody can say so before a run."""
        return ()

    def bytes_to_download(self, place: GenerationPlace) -> int | None:  # noqa: ARG002
        """Of weights that are not here yet; None: unknown."""
        return 0

    def seconds_of_an_image(self, place: GenerationPlace) -> float | None:  # noqa: ARG002
        """About how long an image takes here, for a forecast; None: unknown before the first one."""
        return None

    def pixels_of_an_image(self, place: GenerationPlace) -> tuple[int, int] | None:  # noqa: ARG002
        """Width and height of what comes out; None: unknown before the first one."""
        return None if self.width is None or self.height is None else (self.width, self.height)

    def identity(self) -> dict[str, Any]:
        """All of the declaration that decides an image, as plain data, without looking at any file."""
        found: dict[str, Any] = canonical(self, weights=None)
        return found

    def load(self, place: GenerationPlace) -> LoadedT2IModel:
        """Make it ready to be asked.

        Raises:
            ConfigError, MissingExtraError, WeightsError: it cannot be.
        """
        raise NotImplementedError


M = TypeVar("M", bound=type[T2IModel])


@dataclass(frozen=True)
class T2IModelType:
    """A registered kind of T2I model; `source` is the hash of a plugged-in class's code."""

    name: str
    factory: type[T2IModel]
    source: str | None = None


def _adapt(name: str, found: Any) -> T2IModelType:
    registered = getattr(found, "t2i_model_type", None)
    if not isinstance(registered, T2IModelType) or registered.factory is not found:
        raise ConfigError(f"{found!r} is not a kind of T2I model: it lacks the decorator @t2i_model")
    if registered.name != name:
        raise ConfigError(f"{found!r} calls itself {registered.name!r}, so it cannot be the kind {name!r}")
    return registered


T2I_MODELS: Registry[T2IModelType] = Registry(
    "kind of T2I model",
    elsewhere="one in a file of your own needs --plugin FILE.py",
    entry_point_group="detector_bench.t2i_models",
    adapt=_adapt,
)
for _name, _target in {
    "comfyui": "detector_bench.generation.comfyui:ComfyUI",
    "diffusers": "detector_bench.generation.diffusers_models:DiffusersModel",
    "openai": "detector_bench.generation.openai_images:OpenAIImages",
    "requests": "detector_bench.generation.request_folders:RequestFolder",
}.items():
    T2I_MODELS.register(_name, _target)


def t2i_model(kind: str) -> Callable[[M], M]:
    """Register a subclass of `T2IModel` as a kind that recipes can name.

    Raises:
        ConfigError: the name is taken.
    """

    def decorate(cls: M) -> M:
        cls.kind = kind
        registered = T2IModelType(kind, cls, source_fingerprint(cls))
        T2I_MODELS.register(kind, registered)
        cls.t2i_model_type = registered  # type: ignore[attr-defined]
        return cls

    return decorate


def build_t2i_model(entry: Mapping[str, Any], *, place: str) -> T2IModel:
    """Build a T2I model out of its mapping in a recipe.

    Args:
        entry: `kind` and the fields of that kind.
        place: where it stands, for messages.

    Raises:
        ConfigError: an unknown kind or key, or a value that is not accepted.
    """
    fields = dict(entry)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str):
        raise ConfigError(f"{place}: the key kind is missing (accepted: {', '.join(T2I_MODELS.names())})")
    factory = T2I_MODELS.get(kind).factory
    try:
        return factory(**fields)
    except ValidationError as error:
        raise config_error_from(error, place=place, model=factory) from error
    except TypeError:
        raise ConfigError(f"{place}: keys are texts; got {', '.join(map(repr, fields))}") from None
