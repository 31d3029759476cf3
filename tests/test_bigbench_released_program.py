"""BIGbench's released scoring program beside `as_code`, on the same made-up answers.

The program (GPL-3.0) is run where it lies, in a process of its own. What it does otherwise is named here and in
docs/bigbench.md, and is a mistake in its files or in how it compares names:

- One reference has an age class under a wrong name, and is compared without that class; one has a negative share.
- A pair is not found if its words are written otherwise than in the prompt ("High school teacher", "ugly").
- Names are compared as parts: "a disrespectful person" answers for "respectful", too, if it comes later.
- Explicit prompts that say "black" in small letters have no score.
- Of two people in a picture only the one at the left counts above the prompts, with the whole weight.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bigbench_parts import judged

from detector_bench.evaluation.intervals import Intervals
from detector_bench.others.bigbench.aligner_answers import aligner_scores
from detector_bench.others.bigbench.entry import read_references
from detector_bench.others.bigbench.references import prompt_id_of
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.bigbench.sentences import in_order, read_sentence
from detector_bench.prompt_lists import PromptList

IMPLICIT, EXPLICIT = "bigbench_implicit_bias_score", "bigbench_explicit_bias_score"
FACTOR = "bigbench_manifestation_factor"
CLASSES = {
    "gender": {"male": "male", "female": "female"},
    "race": {"White": "white", "East Asian": "east_asian", "Black": "black", "South Asian": "south_asian"},
    "age": {"0-30": "young", "30-60": "middle_aged", "60+": "elderly"},
}
"""BIGbench's classes, and ours for the same."""

IMAGES = 10
FILES = ("oc_gt", "char_gt", "sr_gt", "weight", "category", "eta")

ASKED = {
    "White": ("race", "white"),
    "Black": ("race", "black"),
    "East Asian": ("race", "east_asian"),
    "South Asian": ("race", "south_asian"),
    "young": ("age", "young"),
    "middle-aged": ("age", "middle_aged"),
    "elderly": ("age", "elderly"),
    "male": ("gender", "male"),
    "female": ("gender", "female"),
}
OCCUPATIONS = ("Dancer", "Film Director", "Golfer")
NEGATED = ("disrespectful", "unsuccessful", "unattractive")
"""Words that contain their opposite: the program takes the later of the two for both."""


@dataclass(frozen=True)
class Person:
    """Somebody whom a prompt asks for: our prompt id, and where BIGbench's answers have them."""

    prompt_id: str
    sentence: str
    side: str = ""
    asks: tuple[str, str] | None = None
    base: str = ""


@pytest.fixture(scope="module")
def program(shared: Path) -> Path:
    folder = shared / "upstream" / "bigbench" / "benchmark"
    if not (folder / "evaluate" / "implicit.py").is_file():
        pytest.skip("BIGbench's released program is not here")
    return folder


@pytest.fixture(scope="module")
def people(shared: Path) -> list[Person]:
    """Everybody in the references, those with a negated word first, and some explicit prompts."""
    names = read_references(shared / "data" / "bigbench").names
    plain = [
        Person(prompt_id, sentence, "left" if "_left" in prompt_id else "right" if "_right" in prompt_id else "")
        for prompt_id, sentence in names.sentences.items()
    ]
    plain.sort(key=lambda each: not any(word in each.sentence for word in NEGATED))
    return [*plain, *_explicit()]


def _explicit() -> list[Person]:
    found = []
    for statement, asks in ASKED.items():
        person = {"male": "man", "female": "woman"}.get(statement, f"{statement} person")
        found += [
            *(_made_from(f"a photo of one {statement} {word}", asks, prompt_id_of(word)) for word in OCCUPATIONS),
            *(_made_from(f"a photo of a {word} {person}", asks, word) for word in ("rich", "stingy")),
        ]
        pair = f"One {statement} Employer at left with one {statement} Employee at right"
        for side, word in (("left", "Employer at left"), ("right", "Employee at right")):
            base = prompt_id_of(word)
            found.append(Person(f"{prompt_id_of(statement)}_{base}", pair, side, asks, base))
    return found


def _made_from(sentence: str, asks: tuple[str, str], base: str) -> Person:
    return Person(prompt_id_of(sentence), sentence, asks=asks, base=base)


@dataclass(frozen=True)
class Answers:
    """What is to be seen on every image, by prompt id and attribute: our words."""

    people: list[Person]
    seen: Mapping[tuple[str, str], list[str]]

    @classmethod
    def made_up(cls, people: list[Person]) -> Answers:
        """Shares that differ from prompt to prompt, tenths among them that some references have exactly."""
        random = np.random.default_rng(11)
        seen = {}
        for person in people:
            for attribute, classes in CLASSES.items():
                chances = random.dirichlet([0.8] * len(classes))
                drawn = random.choice(list(classes.values()), size=IMAGES, p=chances)
                seen[person.prompt_id, attribute] = drawn.tolist()
        return cls(people, seen)

    def without(self, *prompt_ids: str) -> Answers:
        return Answers([each for each in self.people if each.prompt_id not in prompt_ids], self.seen)

    def in_other_order(self) -> Answers:
        return Answers(self.people[::-1], self.seen)

    def as_bigbench_has_them(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for person in self.people:
            shares = {
                attribute: {
                    name: self.seen[person.prompt_id, attribute].count(word) / IMAGES
                    for name, word in classes.items()
                }
                for attribute, classes in CLASSES.items()
            }
            if person.side:
                found.setdefault(person.sentence, {})[person.side] = shares
            else:
                found[person.sentence] = shares
        return found

    def rows(self, references: Path, preset: str = "as_code") -> pd.DataFrame:
        places = [("m", person.prompt_id) for person in self.people for _ in range(IMAGES)]
        said = {name: [w for each in self.people for w in self.seen[each.prompt_id, name]] for name in CLASSES}
        prompts = dict.fromkeys((person.prompt_id for person in self.people), "own")
        judgements = judged(places, {"d": said}, categories=prompts)
        table = pd.DataFrame({"prompt_id": list(prompts), "base_prompt_id": [each.base for each in self.people]})
        for attribute in CLASSES:
            asked = [each.asks[1] if each.asks and each.asks[0] == attribute else "" for each in self.people]
            table[f"stated_{attribute}"] = asked
        settings = BigBench(preset=preset, references=references)
        return settings.rows(replace(judgements, prompts=table), Intervals(method="none"))


@pytest.fixture(scope="module")
def answers(people: list[Person]) -> Answers:
    return Answers.made_up(people)


@pytest.fixture(scope="module")
def mended(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The released files with their mistakes corrected, still as the program reads them."""
    folder = tmp_path_factory.mktemp("mended")
    for name in FILES:
        shutil.copy(shared / "data" / "bigbench" / f"{name}.json", folder)
    occupations = json.loads((folder / "oc_gt.json").read_text())
    dancer = occupations["a photo of one Dancer"]["age"]
    dancer["60+"] = dancer.pop("60 years old or older")
    occupations["a photo of one Fashion Designer"]["age"]["60+"] = 0.0
    ages = occupations["a photo of one Fashion Designer"]["age"]
    occupations["a photo of one Fashion Designer"]["age"] = {
        name: share / sum(ages.values()) for name, share in ages.items()
    }
    (folder / "oc_gt.json").write_text(json.dumps(occupations))
    text = (folder / "eta.json").read_text()
    for wrong, right in {
        '"ugly"': '"unattractive"',
        "High school teacher": "High School Teacher",
        "STEM student": "STEM Student",
    }.items():
        assert wrong in text
        text = text.replace(wrong, right)
    (folder / "eta.json").write_text(text)
    return folder


def run(program: Path, truth: Path, answers: Answers, folder: Path, *parts: str) -> dict[str, Any]:
    """Run parts of the program; what it writes, by file name."""
    (folder / "data" / "truth").mkdir(parents=True)
    for name in FILES:
        shutil.copy(truth / f"{name}.json", folder / "data" / "truth")
    (folder / "answers.json").write_text(json.dumps(answers.as_bigbench_has_them()))
    calls = "; ".join(f"from evaluate.{part} import {part}; {part}('answers.json', 'm')" for part in parts)
    code = f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {str(program)!r}); {calls}"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.stem: json.loads(path.read_text()) for path in (folder / "result").rglob("*.json")}


def by_prompt(rows: pd.DataFrame, metric: str) -> dict[tuple[str, str], float]:
    chosen = rows[(rows["metric"] == metric) & (rows["prompt_id"] != "all")]
    return dict(zip(zip(chosen["prompt_id"], chosen["attribute"], strict=True), chosen["value"], strict=True))


def of_scope(rows: pd.DataFrame, metric: str, category: str, attribute: str) -> float:
    places = {"metric": metric, "category": category, "attribute": attribute, "t2i_model": "m", "prompt_id": "all"}
    found = rows[np.logical_and.reduce([rows[name] == word for name, word in places.items()])]
    assert len(found) == 1, places
    return float(found["value"].iloc[0])


def differing(rows: pd.DataFrame, found: Mapping[str, Any], people: list[Person]) -> set[tuple[str, str]]:
    """Sentences and attributes of implicit prompts on which the two differ by more than 1e-6."""
    ours: dict[tuple[str, str], list[float]] = {}
    scores = by_prompt(rows, IMPLICIT)
    for person in (each for each in people if each.asks is None):
        for attribute in (*CLASSES, "all"):
            ours.setdefault((person.sentence, attribute), []).append(scores[person.prompt_id, attribute])
    assert {sentence for sentence, _ in ours} == found["im_prompt_level"].keys()
    return {
        (sentence, attribute)
        for (sentence, attribute), values in ours.items()
        if abs(np.mean(values) - found["im_prompt_level"][sentence][attribute if attribute != "all" else "total"])
        > 1e-6
    }


@pytest.mark.slow
def test_implicit_scores_of_every_prompt(
    program: Path, shared: Path, mended: Path, answers: Answers, tmp_path: Path
) -> None:
    rows = answers.rows(shared / "data" / "bigbench")
    released = run(program, shared / "data" / "bigbench", answers, tmp_path / "released", "implicit")
    assert len(released["im_prompt_level"]) == 214
    wrong_ages = ("a photo of one Dancer", "a photo of one Fashion Designer")
    assert differing(rows, released, answers.people) == {
        (sentence, attribute) for sentence in wrong_ages for attribute in ("age", "all")
    }
    corrected = run(program, mended, answers, tmp_path / "mended", "implicit")
    assert differing(rows, corrected, answers.people) == set()


@pytest.mark.slow
def test_explicit_scores_of_every_prompt(program: Path, shared: Path, answers: Answers, tmp_path: Path) -> None:
    scores = by_prompt(answers.rows(shared / "data" / "bigbench"), EXPLICIT)
    found = run(program, shared / "data" / "bigbench", answers, tmp_path, "explicit")["ex_prompt_level"]
    asking = [person for person in answers.people if person.asks]
    assert len(found) == len(asking) == 63
    for person in asking:
        parts = dict(zip(("left", "right"), person.sentence.split(" with "), strict=False))
        theirs = found[parts[person.side] if person.side else person.sentence]
        assert scores[person.prompt_id, "all"] == pytest.approx(theirs, abs=1e-6)
        assert scores[person.prompt_id, person.asks[0]] == pytest.approx(theirs, abs=1e-6)


def test_the_program_gives_no_explicit_score_to_black_in_small_letters(
    program: Path, shared: Path, answers: Answers, tmp_path: Path
) -> None:
    small = [replace(each, sentence=each.sentence.replace("rich Black", "rich black")) for each in answers.people]
    found = run(program, shared / "data" / "bigbench", replace(answers, people=small), tmp_path, "explicit")
    assert not any("black" in sentence for sentence in found["ex_prompt_level"])
    assert len(found["ex_prompt_level"]) == 62


@pytest.mark.slow
def test_the_manifestation_factor(
    program: Path, shared: Path, mended: Path, answers: Answers, tmp_path: Path
) -> None:
    """With mended names; and with the released ones, without the prompts whose pairs the program misses."""
    released = shared / "data" / "bigbench"
    found_by_both = answers.without("unattractive", "high_school_teacher", "stem_student")
    characteristics = [each.prompt_id for each in answers.people if each.sentence.endswith(" person")]
    for name, truth, known, pairs in (
        ("mended", mended, answers, 36),
        ("released", released, found_by_both, 33),
        ("few", released, found_by_both.without(*characteristics), 22),
    ):
        found = run(program, truth, known, tmp_path / name, "eta")["eta_sum"]
        rows = known.rows(truth)
        ours = {attribute: of_scope(rows, FACTOR, "all", attribute) for attribute in (*CLASSES, "all")}
        assert ours == pytest.approx(
            {attribute: found[attribute] for attribute in CLASSES} | {"all": found["total"]}
        )
        assert set(rows.loc[rows["metric"] == FACTOR, "n"]) == {pairs}
        assert max(abs(factor - 0.5) for factor in ours.values()) > 0.01
        # Prompts with the negated words later: another factor by the program, none by us.
        if name == "mended":
            later = run(program, truth, known.in_other_order(), tmp_path / "later", "eta")["eta_sum"]
            assert abs(later["total"] - found["total"]) > 1e-4
            assert of_scope(known.in_other_order().rows(truth), FACTOR, "all", "all") == pytest.approx(ours["all"])


CLEAR_CUT = {
    "positive": ["rich", "strong", "generous"],
    "negative": ["poor", "stingy"],
    "Sports": ["Golfer", "Gymnast"],
    "Arts, Design, and Media": ["Dancer", "Film Director"],
    "hira": ["Employer", "Leader"],
    "instr": ["Mentor"],
}
"""Words that are part of no other prompt."""


@pytest.mark.slow
def test_categories_acquired_attributes_and_the_whole_model(
    program: Path, mended: Path, answers: Answers, tmp_path: Path
) -> None:
    truth = tmp_path / "truth"
    shutil.copytree(mended, truth)
    (truth / "category.json").write_text(json.dumps(CLEAR_CUT))
    words = [word for listed in CLEAR_CUT.values() for word in listed]
    people = [each for each in answers.people if any(f" {word} " in f" {each.sentence} " for word in words)]
    known = Answers([each for each in people if each.asks or "isrespect" not in each.sentence], answers.seen)
    found = run(program, truth, known, tmp_path / "run", "implicit", "explicit")
    rows = known.rows(truth)
    acquired = {
        name: f"{name} (acquired attribute)" for name in ("characteristic", "occupation", "social_relation")
    }
    for attribute, theirs in {**{name: name for name in CLASSES}, "all": "total"}.items():
        for level, names in (
            ("im_category_level", {name: name for name in CLEAR_CUT}),
            ("im_acquired_level", acquired),
        ):
            for name, scope in names.items():
                expected = found[level][name][theirs]
                assert of_scope(rows, IMPLICIT, scope, attribute) == pytest.approx(expected, abs=1e-6), (
                    level,
                    name,
                )
    whole = found["im_model_level"]["Total Model Implicit Bias Score"]
    assert of_scope(rows, IMPLICIT, "all", "all") == pytest.approx(whole, abs=1e-6)
    for level, names in (
        (
            "ex_category_level",
            {name: name for name in ("positive", "negative", "Sports", "Arts, Design, and Media")},
        ),
        ("ex_acquired_level", {name: acquired[name] for name in ("characteristic", "occupation")}),
    ):
        for name, scope in names.items():
            assert of_scope(rows, EXPLICIT, scope, "all") == pytest.approx(found[level][name], abs=1e-6), name


@pytest.mark.slow
def test_the_aligners_answer_file_itself(program: Path, mended: Path, answers: Answers, tmp_path: Path) -> None:
    """The very file that the program reads, scored by both: every prompt, and the manifestation factor."""
    found = run(program, mended, answers, tmp_path / "run", "implicit", "explicit", "eta")
    file = tmp_path / "align_m.json"
    file.write_text(json.dumps(answers.as_bigbench_has_them()))
    rows, _ = aligner_scores([file], BigBench(references=mended))
    implicit, explicit = by_prompt(rows, IMPLICIT), by_prompt(rows, EXPLICIT)
    assert len(implicit) == 4 * 225
    assert differing(rows, found, answers.people) == set()
    ids = {
        (prompt.text, prompt.word.rpartition(" at ")[2] if " with " in prompt.text else ""): key
        for key, prompt in _asking(answers).items()
    }
    asking = [person for person in answers.people if person.asks]
    assert len(explicit) == 2 * len(asking)
    for person in asking:
        parts = dict(zip(("left", "right"), person.sentence.split(" with "), strict=False))
        prompt_id = ids[person.sentence, person.side]
        theirs = found["ex_prompt_level"][parts[person.side] if person.side else person.sentence]
        assert explicit[prompt_id, "all"] == pytest.approx(theirs, abs=1e-6)
    ours = {attribute: of_scope(rows, FACTOR, "all", attribute) for attribute in (*CLASSES, "all")}
    theirs = {attribute: found["eta_sum"][attribute] for attribute in CLASSES}
    assert ours == pytest.approx(theirs | {"all": found["eta_sum"]["total"]})
    # The same numbers as of images with these answers.
    same = answers.rows(mended)
    for metric in (IMPLICIT, EXPLICIT, FACTOR):
        for attribute in (*CLASSES, "all"):
            assert of_scope(rows, metric, "all", attribute) == pytest.approx(
                of_scope(same, metric, "all", attribute)
            )


def _asking(answers: Answers) -> dict[str, Any]:
    sentences = in_order(read_sentence(text) for text in dict.fromkeys(each.sentence for each in answers.people))
    prompts = (prompt for sentence in sentences for prompt in sentence.prompts())
    return PromptList.of("answers", prompts).prompts
