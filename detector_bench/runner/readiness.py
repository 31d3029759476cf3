"""Tells before a run what it lacks: packages, settings and weights, all at once."""

from __future__ import annotations

from collections.abc import Iterable

from detector_bench.detectors.base import Detector, DetectorType
from detector_bench.errors import ConfigError, DetectorBenchError, MissingExtraError, WeightsError
from detector_bench.installation import is_installed
from detector_bench.installation import missing_message as missing_package
from detector_bench.perception.stage import Stage, with_inputs
from detector_bench.weights import WeightsLocator


def lacking(detector: Detector, *, weights: WeightsLocator) -> list[str]:
    """What a detector lacks on this machine, a line each; empty if it is ready."""
    messages = [
        message
        for kind in (detector, *detector.parts.values(), *detector.voters)
        for message in kind_lacking(kind.kind)
    ]
    messages += stages_lacking(with_inputs(detector.stages), weights=weights)
    return list(dict.fromkeys(messages))


def kind_lacking(kind: DetectorType) -> list[str]:
    """What a registered sort of detector lacks on this machine, before any parameters."""
    return _packages(kind.modules, extra=kind.extra)


def stages_lacking(stages: Iterable[Stage], *, weights: WeightsLocator) -> list[str]:
    """What some stages lack on this machine, a line each."""
    messages: list[str] = []
    for stage in stages:
        messages += _packages(stage.modules, extra=stage.extra)
        messages += stage.missing_settings()
        for file in stage.weights():
            lacking = weights.lacking(file)
            messages += [lacking] if lacking is not None else []
        messages += stage.mistakes(weights)
        code = stage.foreign_code(weights)
        if code is not None and (refusal := code.refusal()) is not None:
            messages.append(refusal)
    return list(dict.fromkeys(messages))


def require_ready(stages: Iterable[Stage], *, weights: WeightsLocator) -> None:
    """Check that stages can run.

    Raises:
        MissingExtraError: packages are missing.
        ConfigError: the environment lacks a setting, the machine what a setting asks for, the user has not
            allowed what a stage sends or runs, or parameters and weights contradict each other.
        WeightsError: weights are missing, or not the pinned ones.
    """
    stages = list(stages)
    messages = stages_lacking(stages, weights=weights)
    if messages:
        kind: type[DetectorBenchError] = WeightsError
        if any("not installed" in message for message in messages):
            kind = MissingExtraError
        elif any(
            stage.missing_settings() or stage.foreign_code(weights) or stage.mistakes(weights) for stage in stages
        ):
            kind = ConfigError
        raise kind("\n".join(messages))
    for stage in stages:
        for file in stage.weights():
            weights.locate(file)
    # Of what was downloaded just now, too.
    if contradictions := [line for stage in stages for line in stage.mistakes(weights)]:
        raise ConfigError("\n".join(dict.fromkeys(contradictions)))


def _packages(modules: Iterable[str], *, extra: str | None) -> list[str]:
    return [missing_package(module, extra=extra) for module in modules if not is_installed(module)]
