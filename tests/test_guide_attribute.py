"""The guide `docs/add-an-attribute.md`, followed word by word."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from guides import Guide, overall

PAGE = "add-an-attribute.md"


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guide, dict[str, Any]]]:
    """The guide, and what its desk asks."""
    with Guide(
        PAGE,
        tmp_path_factory.mktemp("guide"),
        needs=("skimage", "sklearn", "matplotlib", "fastapi", "uvicorn", "jinja2", "tenacity"),
        replaced={"8123": free_port()},
        more={"desk": ("--no-browser", "--port", "0")},
    ) as guide:
        desk = guide.follow(until="desk").background["desk"]
        assert desk.stdout is not None
        address = next(found[1] for line in desk.stdout if (found := re.search(r"ann +(http\S+)/label/", line)))
        with urlopen(f"{address}/api/ann/session", timeout=30) as answer:  # noqa: S310 - of this machine
            asked = json.load(answer)["questions"][0]
        yield guide.follow(), asked


@pytest.mark.slow
def test_the_desk_of_the_guide_asks_as_the_file_says(followed: tuple[Guide, dict[str, Any]]) -> None:
    _, asked = followed
    assert asked["text"] == "Is the head covered?"
    assert asked["care"].startswith("A covered head says nothing about a faith")
    assert [choice["key"] for choice in asked["choices"]] == ["c", "b"]


@pytest.mark.slow
def test_the_guide_ends_with_ranks_of_the_judges(followed: tuple[Guide, dict[str, Any]]) -> None:
    guide, _ = followed
    assert "prompts that state an attribute: head_cover 1" in guide.said["check"]
    assert "consensus: covered 6 (16.7%), uncovered 19 (52.8%), low_quality 11 (30.6%)" in guide.said["check"]
    accuracy = overall(guide.folder / "results", "accuracy")
    assert accuracy.keys() == {"light-and-dark", "bare"}
    assert accuracy["bare"] == pytest.approx(19 / 25)
    report = (guide.folder / "results" / "report" / "index.html").read_text(encoding="utf-8")
    assert "says nothing about a faith" in guide.said["run"]
    assert "says nothing about a faith" in report
    *_, last = guide.said
    assert last == "rank"
    # As the page says: the prompt bias error tells the two apart, the other metrics leave both ranks open.
    ranked = re.findall(r"^(light-and-dark|bare) +(\w+) +[\d.]+ \[(.*?)\]", guide.said["rank"], flags=re.MULTILINE)
    closed = [row for row in ranked if row[2] != "1, 2"]
    assert (len(ranked), closed) == (10, [("light-and-dark", "a", "1, 1"), ("bare", "b", "2, 2")])
