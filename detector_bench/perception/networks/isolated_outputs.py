"""What a script in another Python environment says about images, asked in a process of its own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, JsonValue, field_validator, model_validator

from detector_bench.dataset.published_text import without_folders
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.isolated.adapters import ADAPTERS, Adapter
from detector_bench.isolated.environments import (
    OWN_VERSION,
    PYTHON_VERSION,
    Environment,
    check_requirements,
    interpreter_in,
    package_pins,
    requirement_lines,
)
from detector_bench.isolated.process import (
    IsolatedProcess,
    IsolatedProcessError,
    IsolatedScriptError,
    IsolatedStartError,
    Program,
)
from detector_bench.perception.boxes import Crop
from detector_bench.perception.cores import threads_per_call
from detector_bench.perception.stage import DESCRIPTIVE, Arrays, Frame, Stage, StageFailure, StageResult
from detector_bench.trust import BUILT_IN_KEYS, ForeignCode, allowed_bytes, code_refusal, granted
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import WeightsField, WeightsFile

FILTERED = "filtered"
"""Under this name a script says, in place of a result, why an image cannot be judged: a word such as no_face."""


def _requirements(value: Any) -> Any:
    # A bare text, or a path, is the name of a file; a mapping may pin that.
    return {"path": str(value)} if isinstance(value, str | Path) else value


Requirements = Annotated[tuple[str, ...] | WeightsFile, BeforeValidator(_requirements)]
"""Requirements as pip has them: a list of them, or a file."""

_taken: dict[str, str] = {}
"""By interpreter and script, the versions that a process of this run really had."""


class IsolatedOutputs(Stage):
    """What a script says about a crop of each image, in the Python of another environment.

    The script defines `load(parameters)`, which gives a function from a list of images, (height, width, 3), RGB,
    to a list of dicts: for each image named numbers, arrays of numbers, or texts. Gives these as arrays, a text as
    UTF-8 in uint8; `{"gender": {"label": "man", "score": 0.9}}` as `gender.label` and `gender.score`; no array at
    all for an image without a crop. `{"filtered": "no_face"}` says that an image cannot be judged.

    `parameters` has `files` besides what the study sets: by role, where on this machine each file lies.

    Script, parameters, files and requirements decide the results; where the interpreter lies does not, and what is
    installed there is recorded. The process is started when it is needed, and anew when it dies. It ends with its
    parent.
    """

    kind: ClassVar[str] = "isolated_outputs"
    precision_taken: ClassVar[str] = "that of the script"

    script: WeightsField | None = None
    """A Python file, which nothing is imported from beside; the user of the machine has to allow it."""
    adapter: str | None = None
    """In place of a script one that comes along, for a package."""
    python: str | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    """The other environment's folder, or its interpreter; the user of the machine has to allow it."""
    requirements: Requirements | None = None
    """What the environment is made of, by `detector-bench environments make`; with `python`, what has to be there:
    versions pinned with == are compared. None: those of the adapter."""
    python_version: str | None = Field(default=None, pattern=PYTHON_VERSION)
    """Of the environment that is made of `requirements`; None: that of this Python, or the adapter's."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Handed to the script's `load`. They are the study's: a script runs and unpickles nothing that they name."""
    files: dict[str, WeightsField] = Field(default_factory=dict)
    """By role, weights and the like that the script reads: found as weights are, and counted by their content.
    The user of the machine has to allow each as if it were code, unless an adapter reads numbers alone from it."""
    crop: Crop = Field(default_factory=Crop)
    batch: int = Field(default=32, ge=1, le=1024, json_schema_extra=DESCRIPTIVE)
    """At most so many images are handed over at once."""
    timeout: float = Field(default=300.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds for a call; a process that takes longer is ended, and its images are tried in halves."""
    start_timeout: float = Field(default=600.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds until the script has loaded what it needs."""

    @field_validator("requirements", mode="after")
    @classmethod
    def _fetched(cls, given: Any) -> Any:
        return check_requirements(given) if isinstance(given, tuple) else given

    @model_validator(mode="after")
    def _one_of_two(self) -> IsolatedOutputs:
        if (self.script is None) == (self.adapter is None):
            raise ValueError(f"either `script`, a Python file, or `adapter` ({', '.join(ADAPTERS)}); not both")
        if self.adapter is not None and self.adapter not in ADAPTERS:
            raise ValueError(f"adapter: unknown adapter {self.adapter!r}: {nearest_hint(self.adapter, ADAPTERS)}")
        if self.script is not None and self.python is None and self.requirements is None:
            raise ValueError("a script needs `python`, another environment's, or `requirements` to make one of")
        if self.python is not None and self.python_version is not None:
            raise ValueError("python_version belongs to `requirements`; `python` has a version already")
        if "files" in self.parameters:
            raise ValueError("parameters: `files` is a key of its own, beside `parameters`")
        return self

    @cached_property
    def _hash(self) -> int:
        return hash(self.model_dump_json())

    def __hash__(self) -> int:
        # Dicts have none of their own.
        return self._hash

    @property
    def version(self) -> int | str:  # type: ignore[override]
        """Its own and the adapter's, which decides the results as a script does."""
        return 1 if self.adapter is None else f"1, {self.adapter} {ADAPTERS[self.adapter].version}"

    @property
    def images_per_call(self) -> int | None:  # type: ignore[override]
        """At most so many images are handed over at once."""
        return self.batch

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """The other Python's version, and those of the packages that the requirements name."""
        return _taken.get(self._key, "a process of another Python")

    @property
    def _key(self) -> str:
        return self.model_dump_json()

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.adapter or PurePath("" if self.script is None else self.script.path).name

    @property
    def _adapter(self) -> Adapter | None:
        return None if self.adapter is None else ADAPTERS[self.adapter]

    def weights(self) -> tuple[WeightsFile, ...]:
        """Script, files, and the requirements' file."""
        named = (self.script, self.requirements)
        return (*(each for each in named if isinstance(each, WeightsFile)), *self.files.values())

    def programs(self) -> tuple[str, ...]:
        """The interpreter that the study names."""
        return () if self.python is None else (self.python,)

    def requirements_in(self, weights: WeightsLocator) -> tuple[str, ...]:
        """The requirements, one a line; none where the study names an interpreter and nothing else.

        Raises:
            ConfigError: the file holds something else.
            WeightsError: the file is missing.
        """
        if self.requirements is None:
            return () if self._adapter is None or self.python is not None else self._adapter.requirements
        if isinstance(self.requirements, tuple):
            return self.requirements
        path = weights.locate(self.requirements)
        try:
            return check_requirements(requirement_lines(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: {error}") from error

    def environment(self, weights: WeightsLocator) -> Environment | None:
        """The environment that is made of requirements; None: `python` names another.

        Raises:
            ConfigError, WeightsError: see `requirements_in`.
        """
        if self.python is not None:
            return None
        version = self.python_version or (OWN_VERSION if self._adapter is None else self._adapter.python_version)
        return Environment(self.requirements_in(weights), version)

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode | None:
        """The script, files in which code may lie, and the other Python with its packages."""
        return IsolatedCode(
            self.name, weights.find(self.script) if self.script else None, stage=self, where=weights
        )

    def refusals(self, weights: WeightsLocator) -> tuple[str, ...]:
        """What the user of this machine has not allowed or made, a line each.

        Raises:
            ConfigError: the user's file, or a file of the study, cannot be read.
        """
        return tuple(filter(None, (*self._code_refusals(weights), self._python_refusal(weights))))

    def _code_refusals(self, weights: WeightsLocator) -> list[str | None]:
        script = None if self.script is None else weights.find(self.script)
        found = [] if script is None else [code_refusal(self.name, script, what="the script")]
        numbers = () if self._adapter is None else self._adapter.numbers
        for role, file in self.files.items():
            path = weights.find(file)
            if path is not None and role not in numbers:
                # By its ending nobody can tell: what unpickles asks for none.
                what = f"a file that {self.name} may read as a pickle, in which code may lie:"
                found.append(code_refusal(file.name, path, what=what))
        return found

    def _python_refusal(self, weights: WeightsLocator) -> str | None:
        if self.python is None:
            if isinstance(self.requirements, WeightsFile) and weights.find(self.requirements) is None:
                return None  # that it is missing is told elsewhere
            environment = self.environment(weights)
            return None if environment is None or environment.is_made else environment.missing_message()
        found = self._named_interpreter(weights)
        if found is None:
            return f"python: there is no Python at {self.python!r} on this machine"
        if str(found) in granted().interpreters or found == interpreter_in(Path(sys.executable)):
            return None
        return (
            f"the Python at {str(found)!r} may not be started for studies on this machine. If its packages are "
            f"ones you trust: detector-bench trust python {shlex.quote(str(found))}"
        )

    def _named_interpreter(self, weights: WeightsLocator) -> Path | None:
        text = self.python or ""
        named = WeightsFile(path=text)
        return next((found for place in weights.candidates(named) if (found := interpreter_in(place))), None)

    def load(self, weights: WeightsLocator) -> IsolatedFunction:
        """Start the process; see `Stage.load`.

        A process that does not start is no error here but a failure of each image, so that a run goes on with its
        other detectors.
        """
        files = {role: str(weights.locate(file)) for role, file in self.files.items()}
        source = self._source(weights)
        if refusals := self.refusals(weights):
            raise ConfigError("\n".join(refusals))
        environment = self.environment(weights)
        interpreter = self._named_interpreter(weights) if environment is None else environment.interpreter
        assert interpreter is not None  # noqa: S101 - else it was refused
        pins = package_pins(self.requirements_in(weights))
        allowed = granted()
        program = Program(
            interpreter=interpreter,
            name=self.name,
            source=source,
            parameters={**self.parameters, "files": files},
            packages=tuple(pins),
            without=frozenset((*allowed.keys, *BUILT_IN_KEYS)),
            threads=threads_per_call(),
            start_timeout=self.start_timeout,
            timeout=self.timeout,
            pins={name: pin for name, pin in pins.items() if pin is not None},
        )
        function = IsolatedFunction(self, IsolatedProcess(program))
        function.begin()
        return function

    def _source(self, weights: WeightsLocator) -> str:
        """The text of the script, of just the content that is allowed."""
        if self._adapter is not None:
            return self._adapter.script
        assert self.script is not None  # noqa: S101 - one of the two is there
        content = allowed_bytes(self.name, weights.locate(self.script), what="the script")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"the script {self.name!r} is no text in UTF-8: {error}") from error

    def note(self, versions: Mapping[str, str | None]) -> None:
        """Remember what the process has, for the record of a run."""
        packages = ", ".join(
            f"{name} {version or '(missing)'}" for name, version in versions.items() if name != "python"
        )
        _taken[self._key] = f"a process of Python {versions.get('python')}{': ' if packages else ''}{packages}"


@dataclass(frozen=True)
class IsolatedCode(ForeignCode):
    """What an isolated detector runs, for the question whether it is allowed."""

    stage: IsolatedOutputs | None = None
    where: WeightsLocator | None = None

    def _parts(self) -> tuple[IsolatedOutputs, WeightsLocator]:
        assert self.stage is not None  # noqa: S101 - made with both
        assert self.where is not None  # noqa: S101
        return self.stage, self.where

    def refusal(self) -> str | None:
        """See `ForeignCode.refusal`; a line for each part."""
        stage, where = self._parts()
        return "\n".join(stage.refusals(where)) or None

    @property
    def kind(self) -> str:
        """See `ForeignCode.kind`."""
        return "process of another Python"

    @property
    def content(self) -> str:
        """See `ForeignCode.content`."""
        stage, where = self._parts()
        script = f"sha256 {self.sha256}" if self.folder else "a script that comes along"
        if stage.script is not None and self.folder is None:
            script = "not here"
        return f"{script}; {stage.python or ', '.join(stage.requirements_in(where))}"

    @property
    def allowed(self) -> str:
        """See `ForeignCode.allowed`."""
        return self.refusal() or "by detector-bench trust and environments"


class IsolatedFunction:
    """The loaded stage."""

    def __init__(self, stage: IsolatedOutputs, process: IsolatedProcess) -> None:
        self._stage = stage
        self.process = process

    def begin(self) -> None:
        """Start the process, unless it cannot: then each image says so."""
        try:
            self.process.start()
        except IsolatedStartError:
            return
        self._stage.note(self.process.versions)

    def __call__(self, frames: Sequence[Frame]) -> Sequence[StageResult]:
        """See `StageFunction`."""
        cut = [self._stage.crop.cut(frame) for frame in frames]
        crops = [crop for crop in cut if crop is not None]
        try:
            found = iter(self.process.judge(crops) if crops else [])
        except IsolatedStartError as error:
            return [_failure("isolated_process_failed", error)] * len(frames)
        except (IsolatedProcessError, IsolatedScriptError) as error:
            if len(frames) > 1:
                raise
            died = isinstance(error, IsolatedProcessError)
            return [_failure("isolated_process_ended" if died else "isolated_script_failed", error)]
        results: list[Arrays] = [{} if crop is None else next(found) for crop in cut]
        return results


def _failure(reason: str, error: Exception) -> StageFailure:
    return StageFailure(reason, without_folders(str(error)))
