"""MiVOLO's network from the package `mivolo`, or from a checkpoint that brings its own program code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, MissingExtraError, WeightsError
from detector_bench.installation import is_installed, require
from detector_bench.perception.networks.checkpoint_code import NEEDS_CODE, require_own_code, with_program_files
from detector_bench.perception.transformers_checkpoints import require_whole, silenced
from detector_bench.trust import ForeignCode, allowed_copy
from detector_bench.weights import Weights, WeightsLocator
from detector_bench.weights.catalogue import MIVOLO_IMDB, MIVOLO_V2
from detector_bench.weights.files import CheckpointField, WeightsField
from detector_bench.weights.torch_files import read_tensors

INSTALL = (
    "pip install 'setuptools<81' && pip install --no-deps --no-build-isolation "
    "'git+https://github.com/WildChlamydia/MiVOLO.git@37475e3f8818b5f22448003feec3e64b01bfb188'"
)
"""MiVOLO is on no package registry. Without `--no-deps` it would bring a timm and an ultralytics of 2023 along, of
which the latter cannot load `.pt` files in a restricted way; its setup.py needs the old setuptools."""

INSTALL_FOR_CHECKPOINT = f"{INSTALL} && pip install timm==0.8.13.dev0"
"""The code of MiVOLO's transformers checkpoints imports parts of the package that need a timm before 0.9."""

GENDERS = ("male", "female")
"""The order of MiVOLO's two gender outputs."""


class MivoloNetwork(NamedTuple):
    """A network ready to run.

    Attributes:
        side: of its square input, in pixels.
        judge: from faces and bodies, tensors (people, 3, side, side), to ages in years (people,) and probabilities
            of `GENDERS` (people, 2), float32.
    """

    side: int
    judge: Callable[[Any, Any], tuple[Any, Any]]


class PackageNetwork(Declaration):
    """The network of the package `mivolo`, with a `.pth.tar` file of its authors.

    MiVOLO is VOLO-D1, as timm has it, behind the package's own `PatchEmbed`, which joins face and body. Both are
    put together here, since the package's own function for it works with timm 0.8 only. The file is read as plain
    tensors, numbers and options of its training, so that loading it runs no code of its own; a `.safetensors` file
    has the tensors of `state_dict`, and the four values beside them as its metadata. Age = output x (oldest -
    youngest) + average, with the three numbers from the file.
    """

    backend: Literal["package"] = "package"
    file: WeightsField = MIVOLO_IMDB

    @property
    def modules(self) -> tuple[str, ...]:
        """The packages that it needs, besides `mivolo`."""
        return ("torch", "timm")

    def missing_settings(self) -> tuple[str, ...]:
        """What to do for the package `mivolo`, which no extra can install."""
        return () if is_installed("mivolo") else (f"the package 'mivolo' is not installed; {INSTALL}",)

    def foreign_code(self, weights: WeightsLocator) -> None:
        """None: its file is read as plain tensors."""

    def weights(self) -> tuple[Weights, ...]:
        """The file with the network's weights."""
        return (self.file,)

    def load(self, weights: WeightsLocator, *, device: str, dtype: Any) -> MivoloNetwork:
        """Build the network and fill it.

        Raises:
            MissingExtraError: no package `mivolo` or `timm`.
            WeightsError: the file cannot be read, or holds another network.
            ConfigError: a network that does not read face and body, or gives no gender.
        """
        torch = require("torch", extra="mivolo")
        path = weights.locate(self.file)
        held = _read(path)
        state = held["state_dict"]
        if held["no_gender"] or "patch_embed.conv1.0.weight" not in state:
            raise ConfigError(
                f"{path.name} holds a MiVOLO without gender or without bodies; one with both is needed"
            )
        side = int(state["pos_embed"].shape[1]) * 16
        model = _untrained(side)
        try:
            # Numbers of the training alone have this name.
            model.load_state_dict({name: value for name, value in state.items() if "fds." not in name})
        except RuntimeError as error:
            raise WeightsError(f"{path.name} does not fit mivolo_d1_{side}: {error}") from error
        model = model.eval().to(device, dtype)
        span, average = float(held["max_age"] - held["min_age"]), float(held["avg_age"])

        def judge(faces: Any, bodies: Any) -> tuple[Any, Any]:
            outputs = model(torch.cat([faces, bodies], dim=1)).float()
            return outputs[:, 2] * span + average, outputs[:, :2].softmax(dim=1)

        return MivoloNetwork(side, judge)


class CheckpointNetwork(Declaration):
    """A checkpoint that transformers loads together with the checkpoint's own program files.

    They run with your rights: they can read, change and send whatever you can. `run_checkpoint_code: true` says in
    the study that they run; only the user of a machine can allow it there: `detector-bench trust code FOLDER`,
    which holds for files of just that content. From the hub they come only at the pinned `revision`, and a
    checkpoint whose settings name program files of yet another repository is refused. MiVOLO's own checkpoints
    need the package `mivolo` and an old timm (`INSTALL_FOR_CHECKPOINT`).
    """

    backend: Literal["transformers"] = "transformers"
    checkpoint: CheckpointField = MIVOLO_V2
    run_checkpoint_code: bool = False

    @model_validator(mode="before")
    @classmethod
    def _code_belongs_to_it(cls, values: Any) -> Any:
        """Let the program files count as content: what they say decides the results."""
        if not isinstance(values, Mapping) or "checkpoint" not in values:
            return values
        return {**values, "checkpoint": with_program_files(values["checkpoint"])}

    @model_validator(mode="after")
    def _code_is_allowed(self) -> CheckpointNetwork:
        if not self.run_checkpoint_code:
            raise ValueError(f"checkpoint {self.checkpoint.path!r} {NEEDS_CODE}")
        return self

    @property
    def modules(self) -> tuple[str, ...]:
        """The packages that it needs, besides those that its code imports."""
        return ("torch", "transformers")

    def missing_settings(self) -> tuple[str, ...]:
        """What its code needs is known only when it is loaded."""
        return ()

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode:
        """That of the checkpoint."""
        return ForeignCode(self.checkpoint.name, weights.find(self.checkpoint))

    def weights(self) -> tuple[Weights, ...]:
        """The checkpoint with the network's weights and code."""
        return (self.checkpoint,)

    def load(self, weights: WeightsLocator, *, device: str, dtype: Any) -> MivoloNetwork:
        """Load the checkpoint, running its code.

        Raises:
            MissingExtraError: its code needs a package that is not there.
            WeightsError: it cannot be loaded, or lacks weights.
            ConfigError: the user has not allowed its code; the code lies elsewhere; or it is no MiVOLO with face,
                body and gender.
        """
        transformers = require("transformers", extra="mivolo")
        folder = weights.locate(self.checkpoint)
        require_whole(folder)
        with allowed_copy(self.checkpoint.name, folder) as copied:
            require_own_code(copied, self.checkpoint.name)
            model = _from_code(transformers, copied, folder).eval().to(device, dtype)
        side = _side(model.config, self.checkpoint.name)

        def judge(faces: Any, bodies: Any) -> tuple[Any, Any]:
            found = model(faces_input=faces, body_input=bodies, return_dict=True)
            return _ages(found, self.checkpoint.name), _genders(found, self.checkpoint.name)

        return MivoloNetwork(side, judge)


def _with_backend(value: Any) -> Any:
    if isinstance(value, str | Path):
        return {"backend": "package", "file": str(value)}
    if isinstance(value, Mapping) and "backend" not in value:
        return {"backend": "package", **value}
    return value


MivoloNetworkField = Annotated[
    Annotated[PackageNetwork | CheckpointNetwork, Field(discriminator="backend")], BeforeValidator(_with_backend)
]
"""MiVOLO's network in a configuration: `{backend: transformers, run_checkpoint_code: true}`, or for the package
(the default backend) `{file: ...}` or the file alone."""


def _read(path: Path) -> Mapping[str, Any]:
    held, notes = read_tensors(path, extra="mivolo")
    if notes:
        held = {"state_dict": held, **{name: _noted(text) for name, text in notes.items()}}
    needed = {"state_dict", "min_age", "max_age", "avg_age", "no_gender"}
    if not isinstance(held, Mapping) or not needed <= held.keys() or "pos_embed" not in held["state_dict"]:
        raise WeightsError(f"{path.name} is no checkpoint of MiVOLO: it should hold {', '.join(sorted(needed))}")
    return held


def _noted(text: str) -> Any:
    """A number, true or false, as `.safetensors` files note them; or the text itself."""
    try:
        return json.loads(text.lower())
    except ValueError:
        return text


def _untrained(side: int) -> Any:
    """VOLO-D1 with the patch embedding of `mivolo_d1_{side}`, and 3 outputs: two genders and age."""
    volo = require("timm.models.volo", extra="mivolo").VOLO
    try:
        patch_embed = require("mivolo.model.mivolo_model", extra="mivolo").PatchEmbed
    except MissingExtraError as error:
        if is_installed("mivolo"):
            raise
        raise MissingExtraError(f"the package 'mivolo' is not installed; {INSTALL}") from error
    widths = (192, 384, 384, 384)
    model = volo((4, 4, 8, 2), img_size=side, num_classes=3, embed_dims=widths, num_heads=(6, 12, 12, 12))
    model.patch_embed = patch_embed(
        img_size=side, stem_conv=True, stem_stride=2, patch_size=8, in_chans=6, hidden_dim=64, embed_dim=widths[0]
    )
    return model


def _side(config: Any, name: str) -> int:
    """Side of the network's input, if its settings say that it reads face and body, and gives gender and age."""
    labels = dict(getattr(config, "gender_id2label", None) or enumerate(GENDERS))
    labels = {int(number): name for number, name in labels.items()}
    side = getattr(config, "input_size", None)
    whole = getattr(config, "with_persons_model", True) and not getattr(config, "only_age", False)
    if not whole or labels != dict(enumerate(GENDERS)) or not isinstance(side, int):
        raise ConfigError(
            f"checkpoint {name!r} is no MiVOLO that reads face and body of `input_size` pixels and gives age, "
            f"{' and '.join(GENDERS)}"
        )
    return side


def _from_code(transformers: Any, copied: Path, folder: Path) -> Any:
    """The network of the allowed copy; messages name the folder that it was made of."""
    try:
        with silenced(transformers):
            model, report = transformers.AutoModelForImageClassification.from_pretrained(
                copied,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=True,
                output_loading_info=True,
            )
    except ImportError as error:
        text = str(error).partition(" Run `pip")[0]
        hint = f"; {INSTALL_FOR_CHECKPOINT}" if "mivolo" in text or "timm" in text else ""
        raise MissingExtraError(
            f"the code of checkpoint {folder.name!r} cannot be imported: {text}{hint}"
        ) from error
    except Exception as error:  # whatever the checkpoint's own code raises
        raise WeightsError(f"transformers cannot load {str(folder)!r}: {error}") from error
    # transformers fills gaps with random numbers, and says so in a log only.
    for what in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        if report[what]:
            names = ", ".join(str(name) for name in sorted(report[what])[:3])
            raise WeightsError(f"the weights in {str(folder)!r} do not fit the network: {what}: {names}")
    return model


def _ages(found: Any, name: str) -> Any:
    ages = getattr(found, "age_output", None)
    if ages is None:
        raise ConfigError(f"checkpoint {name!r} gives no `age_output`")
    return ages.float().reshape(len(ages), -1)[:, 0]


def _genders(found: Any, name: str) -> Any:
    """Probabilities of both genders, from that of the likelier one and its number."""
    surer, number = getattr(found, "gender_probs", None), getattr(found, "gender_class_idx", None)
    if surer is None or number is None:
        raise ConfigError(f"checkpoint {name!r} gives no `gender_probs` and `gender_class_idx`")
    surer = surer.float().reshape(-1)
    male = surer.where(number.reshape(-1) == 0, 1 - surer)
    return require("torch", extra="mivolo").stack([male, 1 - male], dim=1)
