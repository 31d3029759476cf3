"""docs/judges.md: every detector that it shows can be built, with the attributes that it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from guides import blocks_of

from detector_bench.detectors import build_detector
from detector_bench.detectors.judge_presets import PRESETS
from detector_bench.perception.answers.chat_answers import ChatAnswers
from detector_bench.vocabulary.attribute_files import attributes_of


def test_what_the_page_shows_can_be_built(tmp_path: Path) -> None:
    shown = [yaml.safe_load(each.text) for each in blocks_of("judges.md") if each.language == "yaml"]
    (tmp_path / "attributes").mkdir()
    for each in shown:
        if isinstance(each, dict):
            (tmp_path / "attributes" / f"{each['name']}.yaml").write_text(yaml.safe_dump(each))
    assert set(attributes_of(tmp_path)) == {"eyewear", "ethnicity"}
    found: dict[str, Any] = {}
    for entry in (entry for each in shown if isinstance(each, list) for entry in each):
        kind, name = entry.pop("kind"), entry.pop("name")
        found[name] = build_detector(kind, name=name, parameters=entry)
    assert found["left"].stages == found["right"].stages != found["internvl"].stages
    assert [len(found[name].stages) for name in ("qwen", "cheap", "internvl", "communities")] == [3, 1, 3, 1]
    (asked,) = found["communities"].stages
    assert isinstance(asked, ChatAnswers)
    assert "white, asian, black, latin, native american, middle eastern? Reply" in asked.question


def test_the_page_names_every_preset() -> None:
    table = "\n".join(line for line in _page().splitlines() if line.startswith("| `"))
    assert all(f"| `{name}` |" in table for name in PRESETS)


def _page() -> str:
    return (Path(__file__).resolve().parents[1] / "docs" / "judges.md").read_text(encoding="utf-8")
