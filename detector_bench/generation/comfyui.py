"""Images from a ComfyUI server: a workflow that was exported there, with slots for what a request sets.

What becomes of a request:

| the server | here |
|---|---|
| saves an image | made: the file as it is |
| saves a black one, as nodes with a safety checker do | blocked |
| stops with an error at a node, is interrupted, or forgets the workflow because it was started anew | an error |
| does not take the workflow because of a value that all requests share | the run stops |
| does not take it because of this prompt, seed or photo | an error |
| answers nobody, before anything was sent | the run stops |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from detector_bench.errors import ConfigError, DetectorBenchError, nearest_hint
from detector_bench.generation.comfyui_graph import Place
from detector_bench.generation.comfyui_workflow import (
    EVERY_REQUEST,
    SEED_PHOTO,
    SLOTS,
    Value,
    Workflow,
    read_graph,
)
from detector_bench.generation.t2i_models import GenerationPlace, T2IModel, t2i_model
from detector_bench.perception.answers.service_addresses import Secrets, ServiceAddress, is_on_this_machine
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.trust import Sending, key_from_environment, refusals, unset

if TYPE_CHECKING:
    from detector_bench.generation.comfyui_images import WorkflowOnServer
    from detector_bench.generation.comfyui_server import ComfyUIServer

_MOST_SHOWN = 20


@t2i_model("comfyui")
class ComfyUI(T2IModel, ServiceAddress):
    """A workflow on a ComfyUI server."""

    summary: ClassVar[str] = "a workflow on a ComfyUI server"

    # What the workflow says counts by its content (`identity`): where the file lies, what its nodes are called and
    # what stood in the slots when it was exported decide no image.
    workflow: Path = Field(json_schema_extra=DESCRIPTIVE)
    """The workflow's file, exported in API format (in ComfyUI's menu: Workflow, Export (API))."""
    slots: dict[str, str | list[str]] = Field(default_factory=dict, json_schema_extra=DESCRIPTIVE)
    """Where a request's values go: `{prompt: 6.text, seed: [3.seed, 33.seed], image: '9'}`; a node goes by its id
    or its title. What is not named is found by following the links, where no doubt is left. `seed_photo` names the
    place of the photo's file, such as `10.image`: then photos are edited."""
    values: dict[str, str | bool | int | float] = Field(default_factory=dict, json_schema_extra=DESCRIPTIVE)
    """Further values of the workflow that are others here: `{3.denoise: 0.6}`."""
    sampler: str | None = Field(default=None, min_length=1)
    """Of the denoising, as ComfyUI calls it, such as `euler`; its `scheduler` is what spaces the steps."""
    base_url: str = Field(default="http://127.0.0.1:8188", json_schema_extra=DESCRIPTIVE)
    """The server's address, up to `/prompt`."""
    key_variable: str | None = Field(
        default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", json_schema_extra=DESCRIPTIVE
    )
    """The environment variable with the key, for servers that want one."""
    key_header: str = Field(
        default="Authorization", pattern=r"^[A-Za-z][A-Za-z0-9-]*$", json_schema_extra=DESCRIPTIVE
    )
    """The header that the key is sent in: as it is, but as a bearer token in `Authorization`."""
    requests_at_once: int = Field(default=2, ge=1, le=256, json_schema_extra=DESCRIPTIVE)
    """Workflows that are at the server at the same time: while one is executed, the next one waits there."""
    timeout: float = Field(default=60.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds after which a question to the server is given up."""
    deadline: float = Field(default=3600.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds after which an image is given up, with the time that its workflow waits at the server."""
    retries: int = Field(default=5, ge=0, json_schema_extra=DESCRIPTIVE)
    """Further attempts while nobody answers or the server is busy."""
    first_wait: float = Field(default=1.0, ge=0, json_schema_extra=DESCRIPTIVE)
    """Seconds before the first of them; each further wait is twice as long."""
    longest_wait: float = Field(default=30.0, ge=0, json_schema_extra=DESCRIPTIVE)
    """Seconds; waits grow no further."""

    @field_validator("slots", mode="before")
    @classmethod
    def _ids_are_texts(cls, slots: Any) -> Any:
        """YAML takes `image: 9` for a number."""
        if not isinstance(slots, Mapping):
            return slots
        return {slot: str(named) if type(named) is int else named for slot, named in slots.items()}

    @property
    def edits(self) -> bool:
        """Whether a slot takes the photo."""
        return SEED_PHOTO in self.slots

    @property
    def concurrency(self) -> int:
        """How many threads call at the same time."""
        return self.requests_at_once

    @property
    def asked(self) -> dict[str, Value]:
        """What all requests set of the workflow, by slot."""
        return {
            slot: value
            for slot in SLOTS
            if slot not in EVERY_REQUEST and (value := getattr(self, slot)) is not None
        }

    @cached_property
    def read(self) -> Workflow:
        """The workflow.

        Raises:
            ConfigError: its file, or a place that `values` names, is not there.
        """
        graph = read_graph(self.workflow)
        values, lines = {}, []
        for text, value in self.values.items():
            try:
                place = graph.place_called(text)
                kinds = (str,) if isinstance(value, str) else (bool,) if isinstance(value, bool) else (int, float)
                values[graph.checked(place, kinds)] = value
            except ValueError as error:
                lines.append(f"values: {error}")
        if lines:
            raise ConfigError("\n".join(lines))
        slots = {slot: tuple(named) if isinstance(named, list) else named for slot, named in self.slots.items()}
        return Workflow(graph.with_values(values), slots)

    def mistakes(self) -> Iterable[str]:
        """What is wrong with the workflow, its slots, and parameters that it has no slot for."""
        try:
            return self.read.mistakes(self.asked)
        except ConfigError as error:
            return str(error).split("\n")

    def identity(self) -> dict[str, Any]:
        """See `T2IModel.identity`; the workflow counts with its content.

        Raises:
            ConfigError: the workflow cannot be read.
        """
        return {**super().identity(), "workflow": self.read.sha256(self._filled)}

    def pixels_of_an_image(self, place: GenerationPlace) -> tuple[int, int] | None:
        """As the recipe or else the workflow says."""
        own = self.read.size
        if own is None or self.edits:
            return super().pixels_of_an_image(place)
        return self.width or own[0], self.height or own[1]

    def sends(self) -> Iterable[str]:
        """Prompts, and photos that are edited, unless the server is on this machine."""
        if is_on_this_machine(self.base_url):
            return ()
        what = "prompts and seed photos" if self.edits else "prompts"
        key = "" if self.key_variable is None else f", with the key in {self.key_variable}"
        return (f"{what} to the ComfyUI server at {self.base_url}{key}",)

    def lacks(self, place: GenerationPlace) -> Iterable[str]:  # noqa: ARG002
        """A permission, the key, the server, or a node or file with weights that the server has not."""
        if missing := self._missing_settings():
            return missing
        try:
            server = self._server(retries=0)
        except ConfigError as error:
            return (str(error),)
        try:
            return self._lacks_there(server)
        except DetectorBenchError as error:
            return (str(error),)
        finally:
            server.close()

    def load(self, place: GenerationPlace) -> WorkflowOnServer:  # noqa: ARG002
        """Reach the server and look whether it has all that the workflow needs; see `T2IModel.load`."""
        from detector_bench.generation.comfyui_images import WorkflowOnServer, WorkflowUse  # httpx takes a while

        if lines := [*self.mistakes(), *self._missing_settings()]:
            raise ConfigError("\n".join(lines))
        server = self._server(retries=self.retries)
        try:
            if lines := self._lacks_there(server):
                raise ConfigError("\n".join(lines))
            use = WorkflowUse(
                name=self.workflow.name,
                workflow=self.read,
                asked=self.asked,
                filled=self._filled,
                deadline=self.deadline,
                price=self.price,
                costs_money=self.costs_money,
            )
            return WorkflowOnServer(use, server)
        except BaseException:
            server.close()
            raise

    @property
    def _filled(self) -> tuple[str, ...]:
        return ("prompt", "seed", *((SEED_PHOTO,) if self.edits else ()), *self.asked)

    def _missing_settings(self) -> tuple[str, ...]:
        variables = () if self.key_variable is None else (self.key_variable,)
        if self.key_variable is not None and unset(self.key_variable):
            return (
                f"the environment variable {self.key_variable} is not set; set it to the key for {self.base_url}",
            )
        return refusals(Sending(self.base_url, variables, "prompts and photos"))

    def _server(self, *, retries: int) -> ComfyUIServer:
        from detector_bench.generation.comfyui_server import ComfyUIServer, ServerPatience  # httpx takes a while

        key = None if self.key_variable is None else key_from_environment(self.key_variable, self.base_url)
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise ConfigError(f"the environment variable {self.key_variable} holds no key: keys are plain letters")
        as_sent = f"Bearer {key}" if self.key_header.lower() == "authorization" else str(key)
        return ComfyUIServer(
            self.base_url,
            key_header=None if key is None else (self.key_header, as_sent),
            key_variable=self.key_variable,
            secrets=Secrets(() if key is None else (key,)),
            patience=ServerPatience(self.timeout, retries, self.first_wait, self.longest_wait),
        )

    def _lacks_there(self, server: ComfyUIServer) -> list[str]:
        from detector_bench.generation.comfyui_server import ServerFailure

        try:
            server.system()
            nodes = self.read.sent.with_values(
                {place: value for slot, value in self.asked.items() for place in self.read.named.places[slot]}
            ).nodes
            known = {kind: server.node_inputs(kind) for kind in self.read.sent.class_types}
        except ServerFailure as failure:
            return [f"nobody answers at {self.base_url} as ComfyUI does: {failure}"]
        lines = [
            f"the server at {self.base_url} does not know the node {kind}; install there what brings it"
            for kind, inputs in known.items()
            if inputs is None
        ]
        photo_places = self.read.named.places.get(SEED_PHOTO, ())
        for node_id, node in nodes.items():
            declared = known[node["class_type"]] or {}
            for name, value in node["inputs"].items():
                choices = _choices(declared.get(name))
                if isinstance(value, str) and choices and value not in choices:
                    if Place(node_id, name) in photo_places:
                        continue
                    hint = nearest_hint(value, choices[:_MOST_SHOWN]) if choices else "known: none"
                    lines.append(
                        f"the server at {self.base_url} has no {value!r} for {node_id}.{name} "
                        f"({node['class_type']}): {hint}"
                    )
        return lines


def _choices(declared: Any) -> list[str]:
    """What an input of a node may be, as the server says; empty: anything, or files that are sent there."""
    if not isinstance(declared, list) or not declared:
        return []
    kind, settings = declared[0], declared[1] if len(declared) > 1 else {}
    settings = settings if isinstance(settings, Mapping) else {}
    if settings.get("image_upload"):
        return []
    found = settings.get("options") if kind == "COMBO" else kind
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
