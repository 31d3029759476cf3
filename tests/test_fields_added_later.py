"""A parameter that a stage got after results had been stored."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from detector_bench.perception.identity import canonical
from detector_bench.perception.stage import ADDED_LATER, Stage, StageFunction
from detector_bench.weights import WeightsLocator


class Before(Stage):
    kind: ClassVar[str] = "test_added_later"

    size: int = 3

    def load(self, weights: WeightsLocator) -> StageFunction:
        raise NotImplementedError


class After(Stage):
    kind: ClassVar[str] = "test_added_later"

    size: int = 3
    shape: tuple[str, ...] = Field(default_factory=lambda: ("as it is",), json_schema_extra=ADDED_LATER)

    def load(self, weights: WeightsLocator) -> StageFunction:
        raise NotImplementedError


def test_stored_results_are_good_for_the_default_of_a_later_field_and_for_no_other_value() -> None:
    def parameters(stage: Stage) -> Any:
        return canonical(stage, weights=WeightsLocator())["parameters"]

    assert parameters(After()) == parameters(Before()) == {"size": 3}
    assert parameters(After(shape=("as it is",))) == {"size": 3}
    assert parameters(After(shape=("square",))) == {"size": 3, "shape": ["square"]}
