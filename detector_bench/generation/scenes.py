"""What is generated for a list of prompts: a scene for each, with all its wordings, and one for two people.

A prompt for two people is two rows of a prompt table: the same sentence, and whom each row is about as its word
(`Employer at left`, `Employee at right`). Together they are one scene, one image shows both, and `halves` cuts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from detector_bench.prompt_lists import Prompt, PromptList
from detector_bench.prompt_lists.prompt_list import unused_id
from detector_bench.vocabulary import PARTLY
from detector_bench.vocabulary.columns import PROMPT_COLUMNS

SCENES_FILE = "scenes.csv"
"""In the folder of an image set: which prompts the two people of a scene's picture have. A row for each person:
`SCENE_COLUMNS`, and all columns of the prompt table."""

SIDES = ("left", "right")
SCENE_COLUMNS = ("scene_prompt_id", "side", *PROMPT_COLUMNS)

_AT_SIDE = re.compile(r"(?P<name>.*\S)\s+(?:at (?P<side>left|right)|\((?P<other>left|right)\))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SceneSubject:
    """One of the two people of a scene.

    Attributes:
        side: where in the picture: `left` or `right`.
        prompt_id: of the half that shows this person.
        word: of that prompt.
    """

    side: str
    prompt_id: str
    word: str


@dataclass(frozen=True, slots=True)
class Scene:
    """What one row of an image set's prompt table asks a T2I model for.

    Attributes:
        prompt_id: of the images.
        category: of the prompt.
        word: of the prompt.
        text: the sentence, or what all wordings have in common.
        wordings: the sentences that are sent: image number n gets wording n, and begins again after the last.
        subjects: the two people of a picture, left and right; empty: there is no need to cut it.
    """

    prompt_id: str
    category: str
    word: str
    text: str
    wordings: tuple[str, ...]
    subjects: tuple[SceneSubject, ...] = ()


def scenes_of(prompts: PromptList) -> list[Scene]:
    """The scenes of a list of prompts, in its order; one for two people stands where its first row does.

    Its id is made of its people's words (`employer_with_employee`), and never that of another prompt of the list.
    """
    pairs = _pairs(prompts)
    second = {right for _, right in pairs.values()}
    taken = set(prompts.prompts)
    scenes = []
    for prompt_id, prompt in prompts.prompts.items():
        if prompt_id in second:
            continue
        wordings = prompt.wordings or (prompt.text,)
        if prompt_id not in pairs:
            scenes.append(Scene(prompt_id, prompt.category, prompt.word, prompt.text, wordings))
            continue
        people = [(side, each) for each in pairs[prompt_id] for side in [_side(prompts.prompts[each])]]
        people.sort(key=lambda person: SIDES.index(person[0]))
        subjects = tuple(SceneSubject(side, each, prompts.prompts[each].word) for side, each in people)
        word = " with ".join(_name(subject.word) for subject in subjects)
        scene_id = unused_id(word, taken)
        taken.add(scene_id)
        scenes.append(Scene(scene_id, prompt.category, word, prompt.text, wordings, subjects))
    return scenes


def prompt_table_of_scenes(prompts: PromptList) -> pd.DataFrame:
    """The prompt table of an image set with a row for each scene, with what it states, its base and its weight.

    A scene of two people states a class that both state, `partly` where only one does or they differ; its base is
    the scene of their bases, and its weight the sum of theirs.

    Raises:
        ConfigError: see `PromptList.table`.
    """
    scenes = scenes_of(prompts)
    scene_of = {subject.prompt_id: scene for scene in scenes for subject in scene.subjects}
    made = []
    for scene in scenes:
        if not scene.subjects:
            prompt = prompts.prompts[scene.prompt_id]
            base_id = prompts.bases.get(scene.prompt_id, "")
            weight = prompts.weight_of(scene.prompt_id) if base_id in scene_of else prompt.weight
            made.append(replace(prompt, prompt_id=scene.prompt_id, base_id=base_id, base=None, weight=weight))
            continue
        people = [prompts.prompts[subject.prompt_id] for subject in scene.subjects]
        bases = {scene_of.get(prompts.bases.get(subject.prompt_id, "")) for subject in scene.subjects}
        base = next(iter(bases)) if len(bases) == 1 else None
        weights = [prompts.weight_of(subject.prompt_id) for subject in scene.subjects]
        of_base = base is not None and all(person.weight is None for person in people)
        weight = None if of_base or None in weights else sum(each for each in weights if each is not None)
        made.append(
            Prompt(
                scene.category,
                scene.word,
                scene.text,
                stated=_stated(people),
                weight=weight,
                prompt_id=scene.prompt_id,
                base_id="" if base is None else base.prompt_id,
            )
        )
    return PromptList.of(prompts.name, made).table()


def scenes_table(prompts: PromptList) -> pd.DataFrame:
    """What `scenes.csv` holds: a row for each person of each scene of two people; empty where there are none."""
    table = prompts.table().set_index("prompt_id", drop=False)
    people = [(scene.prompt_id, subject) for scene in scenes_of(prompts) for subject in scene.subjects]
    rows = table.loc[[subject.prompt_id for _, subject in people]].reset_index(drop=True)
    rows.insert(0, "side", [subject.side for _, subject in people])
    rows.insert(0, "scene_prompt_id", [prompt_id for prompt_id, _ in people])
    return rows


def _pairs(prompts: PromptList) -> dict[str, tuple[str, str]]:
    """By the id of the first of two rows, both: the rows of one sentence that are about one person each."""
    found: dict[tuple[str, str], list[str]] = {}
    for prompt_id, prompt in prompts.prompts.items():
        if _side(prompt):
            found.setdefault((prompt.category, prompt.text), []).append(prompt_id)
    return {
        rows[0]: (rows[0], rows[1])
        for rows in found.values()
        if len(rows) == len(SIDES) and {_side(prompts.prompts[each]) for each in rows} == set(SIDES)
    }


def _side(prompt: Prompt) -> str:
    """`left` or `right`, where the word says it of a person; else empty."""
    found = _AT_SIDE.fullmatch(prompt.word)
    return (found.group("side") or found.group("other")).casefold() if found else ""


def _name(word: str) -> str:
    found = _AT_SIDE.fullmatch(word)
    return found.group("name") if found else word


def _stated(people: Iterable[Prompt]) -> Mapping[str, str]:
    by_attribute: dict[str, set[str]] = {}
    for person in people:
        for attribute, stated in person.stated.items():
            by_attribute.setdefault(attribute, set()).add(stated)
    return {
        attribute: next(iter(stated)) if len(stated) == 1 else PARTLY for attribute, stated in by_attribute.items()
    }
