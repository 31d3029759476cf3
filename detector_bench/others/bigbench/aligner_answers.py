"""BIGbench's scores from what its own aligner writes: `align_<T2I model>.json`, shares of answers by prompt.

A file has an entry for each folder of images: `{"a photo of one Dancer": {"gender": {"male": 0.4, ...}, "race":
..., "age": ...}}`, with `left` and `right` in between for two people. Shares are of the images with a known
answer; all 0: there was none. How many images there were it does not say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from detector_bench.dataset.text_table import Findings, shorten
from detector_bench.errors import ConfigError, Problem
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import Scopes
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.bigbench.names import KNOWN_SHARE, OUTSIDE_SHARE, SIDE_EFFECT
from detector_bench.others.bigbench.prompt_lookup import Layout
from detector_bench.others.bigbench.references import PROTECTED, SUM_TOLERANCE
from detector_bench.others.bigbench.score_system import BigBench
from detector_bench.others.bigbench.score_task import ScoreTask
from detector_bench.others.bigbench.sentences import Sentence, in_order, read_sentence
from detector_bench.others.judgements import NO_CELL, UNJUDGED, Judgements
from detector_bench.others.score_system import score_rows
from detector_bench.prompt_lists import PromptList
from detector_bench.prompt_lists.prompt_list import read_json_object
from detector_bench.vocabulary import ALL

ALIGNER = "aligner"
"""What its rows have as their detector."""

_PREFIX = "align_"
_STEPS = 2**40

Shares = Mapping[str, Mapping[str, Sequence[float]]]
"""By person (the sentence, and the side of one of two) and attribute: each class's share, in BIGbench's order."""


def t2i_model_of(path: Path) -> str:
    """The T2I model that a file is about: `align_sdxl.json` is about `sdxl`."""
    return path.stem.removeprefix(_PREFIX) or path.stem


def read_aligner_answers(path: Path) -> tuple[list[Sentence], Shares]:
    """Read the shares of a file.

    Returns:
        Its sentences, in its order; and the shares, by `person_of`.

    Raises:
        DataError: all mistakes at once: no such JSON, an unknown class or one that is missing, a share that is no
            number from 0 to 1, shares that add up to neither 1 nor 0, a sentence that stands there twice.
    """
    findings = Findings()
    sentences: dict[str, Sentence] = {}
    shares: dict[str, dict[str, list[float]]] = {}
    for key, given in read_json_object(path).items():
        sentence = read_sentence(key)
        if sentence.text in sentences:
            accepted = "each once; blanks make no difference"
            findings.add(Problem(path.name, "prompt that another entry has", None, key, shorten(key), accepted))
            continue
        sentences[sentence.text] = sentence
        for person in sentence.people:
            place = f"{key}.{person.side}" if person.side else key
            of_person = given.get(person.side) if person.side and isinstance(given, dict) else given
            found = {
                attribute: _shares(path.name, f"{place}.{attribute}", attribute, of_person, findings)
                for attribute in PROTECTED
            }
            shares[person_of(sentence, person.side)] = {name: each for name, each in found.items() if each}
    if not sentences:
        findings.add(Problem(path.name, "no answers", accepted="prompts as keys"))
    findings.raise_if_any()
    return list(sentences.values()), shares


def person_of(sentence: Sentence, side: str) -> str:
    """What shares are listed under."""
    return f"{sentence.text} ({side})" if side else sentence.text


def aligner_scores(files: Sequence[Path], settings: BigBench) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """BIGbench's scores of the T2I models that files are about.

    Args:
        files: one for each T2I model.
        settings: references, weights, categories and pairs; the preset.

    Returns:
        Rows as in a metric table, without intervals. `n` counts prompts and pairs; of a single prompt it is 1, as
        nobody knows of how many images its shares are. And notes for the reader.

    Raises:
        ConfigError, DataError: see `BigBench.rows`, `read_aligner_answers`.
    """
    names = [t2i_model_of(path) for path in files]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two files are about the T2I model {repeated[0]!r} (accepted: one for each)")
    read = {t2i_model_of(path): read_aligner_answers(path) for path in files}
    found = {sentence.text: sentence for sentences, _ in read.values() for sentence in sentences}
    ordered = in_order(found.values())
    prompts = PromptList.of("answers", (prompt for sentence in ordered for prompt in sentence.prompts()))
    people = [person_of(sentence, person.side) for sentence in ordered for person in sentence.people]
    places = [
        (model, prompt, shares[person])
        for model, (_, shares) in enumerate(read.values())
        for prompt, person in enumerate(people)
        if person in shares
    ]
    judgements = _judgements(
        prompts,
        tuple(read),
        np.array([model for model, _, _ in places]),
        np.array([prompt for _, prompt, _ in places]),
        settings.attributes,
    )
    task = ScoreTask.of(settings, judgements)
    features = np.array([_features(task.layout, prompt, shares) for _, prompt, shares in places])
    rows = score_rows(
        replace(judgements, scopes=task.scopes),
        features[np.newaxis],
        task.scores,
        variant=settings.variant,
        intervals=Intervals(method="none"),
    )
    # Without numbers of images nobody can say what of an effect is chance.
    silent = rows["metric"].isin([KNOWN_SHARE, OUTSIDE_SHARE, SIDE_EFFECT])
    says = ((rows["n"] > 0) | (rows["n_left_out"] > 0)) & ~silent
    unknown = [sentence.text for sentence in ordered if sentence.category == "unknown"]
    notes = (f"Prompts of no known form, taken to ask for nobody: {len(unknown)}.",) if unknown else ()
    return rows[says].reset_index(drop=True), (*task.notes, *notes)


def _shares(file: str, place: str, attribute: str, given: Any, findings: Findings) -> list[float] | None:
    classes = PROTECTED[attribute].classes
    by_class = given.get(attribute) if isinstance(given, dict) else None
    if not isinstance(by_class, dict) or set(by_class) != set(classes):
        found = ", ".join(map(str, by_class)) if isinstance(by_class, dict) else type(by_class).__name__
        accepted = f"a share for each of {', '.join(classes)}"
        findings.add(Problem(file, "unknown or missing classes", None, place, shorten(found), accepted))
        return None
    shares = [by_class[name] for name in classes]
    for share in shares:
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            findings.add(Problem(file, "no share", None, place, shorten(str(share)), "a number from 0 to 1"))
            return None
    total = sum(shares)
    if total and abs(total - 1) > SUM_TOLERANCE:
        accepted = "a sum of 1, or 0 without any known answer"
        findings.add(Problem(file, "shares do not add up to 1", None, place, f"{total:.6g}", accepted))
        return None
    return _adding_up(shares) if total else [0.0] * len(shares)


def _adding_up(shares: Sequence[float]) -> list[float]:
    """The same shares in steps of 2**-40, of which all sums are exact: together they are one image, not 0.999."""
    steps = [round(share / sum(shares) * _STEPS) for share in shares]
    steps[steps.index(max(steps))] += _STEPS - sum(steps)
    return [step / _STEPS for step in steps]


def _judgements(
    prompts: PromptList,
    t2i_models: tuple[str, ...],
    model: np.ndarray[Any, Any],
    prompt: np.ndarray[Any, Any],
    attributes: Sequence[str],
) -> Judgements:
    """One judge, and one image for each T2I model's prompt: what it says stands in the features."""
    images = len(prompt)
    return Judgements(
        image_ids=tuple(map(str, range(images))),
        t2i_models=t2i_models,
        prompt_ids=tuple(prompts.prompts),
        scopes=Scopes.of_prompts([each.category for each in prompts.prompts.values()]),
        t2i_model=model,
        prompt=prompt,
        seed=np.full(images, NO_CELL),
        judges=(ALIGNER,),
        judged=dict.fromkeys(attributes, (True,)),
        labels={name: np.full((1, images), UNJUDGED, dtype=np.int8) for name in attributes},
        values={name: np.full((1, images), np.nan) for name in attributes},
        prompts=prompts.table(),
    )


def _features(layout: Layout, prompt: int, shares: Mapping[str, Sequence[float]]) -> FloatArray:
    """What `Layout.features` would have counted, as shares of one."""
    return np.array([*_of_classes(layout, shares), *_of_requests(layout, prompt, shares)])


def _of_classes(layout: Layout, shares: Mapping[str, Sequence[float]]) -> Iterator[float]:
    for name in layout.attributes:
        is_known = any(shares[name])
        outside, unjudged, no_verdict = 0.0, float(not is_known), 0.0
        yield from (*shares[name], outside, unjudged, no_verdict)


def _of_requests(layout: Layout, prompt: int, shares: Mapping[str, Sequence[float]]) -> Iterator[float]:
    """For each request: the share that shows what is asked for, whether an answer is known, and one image.

    Of several attributes at once the shares say nothing; BIGbench's prompts ask for one.
    """
    asked = {name: int(of_prompt[prompt]) for name, of_prompt in layout.asked.items() if of_prompt[prompt] >= 0}
    for request in layout.requests:
        names = list(asked) if request == ALL else [request] if request in asked else []
        if len(names) != 1 or not any(shares[names[0]]):
            yield from (0.0, 0.0, float(bool(names)))
        else:
            yield from (shares[names[0]][asked[names[0]]], 1.0, 1.0)
