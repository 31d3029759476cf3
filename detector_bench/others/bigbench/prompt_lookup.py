"""Each prompt of the image set among the references, what it asks for, and judges' answers counted by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.dataset.prompts import bases_of, stated_by
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics import Scopes
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.scopes import LayeredScopes
from detector_bench.others.bigbench.entry import BigBenchEntry
from detector_bench.others.bigbench.formulas import Pairs
from detector_bench.others.bigbench.own_files import read_prompt_names, read_requested
from detector_bench.others.bigbench.prompts import asking_words
from detector_bench.others.bigbench.references import EQUAL, PROTECTED, References, class_mapping, listing
from detector_bench.others.judgements import NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.vocabulary import ALL, ATTRIBUTES
from detector_bench.vocabulary.taxonomies import Mapping as ClassMapping

ACQUIRED_ATTRIBUTE = "{} (acquired attribute)"
"""How the scope of all occupations, characteristics or social relations is called."""

ASKED_FOR = "{} (asked for)"
"""How the scope of all prompts is called that ask for a class: `east_asian (asked for)`."""

_REST = 3
"""Behind the classes: outside of them, unjudged or `others`, no verdict."""

NOT_ASKED = -1
"""A prompt that asks for no class of an attribute."""

NO_BASE = -1
"""A prompt that was made from no other one of the image set."""


class PromptLookup(NamedTuple):
    """Finds the image set's prompts among the references."""

    prompt_ids: Sequence[str]
    references: References
    name_of: Mapping[str, str]
    """By the image set's id, the references' id, where they differ."""
    base_of: Mapping[str, str]
    """By the image set's id, that of the prompt which it was made from, where there is one."""

    @classmethod
    def of(cls, settings: BigBenchEntry, judgements: Judgements) -> PromptLookup:
        """Read the files of the settings.

        Raises:
            ConfigError, DataError: see `BigBench.rows`.
        """
        prompt_ids = judgements.prompt_ids
        references = settings.read_references(prompt_ids)
        names = {}
        if settings.prompt_names is not None:
            names = read_prompt_names(settings.prompt_names, references.names)
            _check_known(names, prompt_ids, place=settings.prompt_names)
        return cls(prompt_ids, references, names, bases_of(judgements.prompts))

    def find(self, table: Mapping[str, object], prompt_id: str) -> str | None:
        """The id under which a table has a prompt itself."""
        return next((name for name in (prompt_id, self.name_of.get(prompt_id)) if name in table), None)

    def find_or_base(self, table: Mapping[str, object], prompt_id: str) -> str | None:
        """The id under which a table has a prompt, or else its base prompt, or that one's."""
        seen = set()
        each: str | None = prompt_id
        while each is not None and each not in seen:
            seen.add(each)
            if (found := self.find(table, each)) is not None:
                return found
            each = self.base_of.get(each)
        return None

    def layout(self, settings: BigBenchEntry, judgements: Judgements) -> Layout:
        """Which prompts ask for which class: by the table of the settings, or else by what prompts state.

        A prompt with reference shares of its own asks for nobody, whatever it states: BIGbench compares it with
        these. One that states what BIGbench has no class for takes part in no score.

        Raises:
            ConfigError, DataError: the table names unknown prompts, or is wrong.
        """
        if settings.requested is None:
            return self._layout_of_statements(settings, judgements)
        requested = read_requested(settings.requested)
        _check_known(requested, self.prompt_ids, place=settings.requested)
        for prompt_id, asked in requested.items():
            for attribute in asked:
                if attribute not in settings.attributes:
                    raise ConfigError(
                        f"{settings.requested}: {prompt_id!r} asks for {attribute}, which attribute_weights "
                        "leaves out"
                    )
        closed = np.zeros(len(self.prompt_ids), dtype=np.bool_)
        return Layout(settings.attributes, self._asked(settings, requested), closed)

    def _layout_of_statements(self, settings: BigBenchEntry, judgements: Judgements) -> Layout:
        known = {name: stated_by(judgements.prompts, name) for name in settings.attributes}
        requested: dict[str, dict[str, int]] = {}
        closed = np.zeros(len(self.prompt_ids), dtype=np.bool_)
        for row, prompt_id in enumerate(self.prompt_ids):
            if settings.references != EQUAL and self.find(self.references.shares, prompt_id) is not None:
                continue
            for attribute, of_prompts in known.items():
                stated = "" if of_prompts is None else of_prompts[prompt_id]
                if not stated:
                    continue
                position = _position(attribute, stated, settings.race_mapping)
                closed[row] |= position is None
                if position is not None:
                    requested.setdefault(prompt_id, {})[attribute] = position
        for row in np.flatnonzero(closed).tolist():
            requested.pop(self.prompt_ids[row], None)
        return Layout(settings.attributes, self._asked(settings, requested), closed)

    def _asked(
        self, settings: BigBenchEntry, requested: Mapping[str, Mapping[str, int]]
    ) -> dict[str, NDArray[np.intp]]:
        """By attribute that some prompt asks for, `[prompt]`."""
        asked = {
            name: np.array(
                [requested.get(each, {}).get(name, NOT_ASKED) for each in self.prompt_ids], dtype=np.intp
            )
            for name in settings.attributes
        }
        return {name: of_prompt for name, of_prompt in asked.items() if (of_prompt != NOT_ASKED).any()}

    def reference(self, attribute: str) -> FloatArray:
        """`[prompt, class]`; NaN where a prompt has no reference shares."""
        reference = np.full((len(self.prompt_ids), len(PROTECTED[attribute].classes)), np.nan)
        for row, prompt_id in enumerate(self.prompt_ids):
            found = self.find(self.references.shares, prompt_id)
            if found is not None and attribute in self.references.shares[found]:
                reference[row] = self.references.shares[found][attribute]
        return reference

    def weights(
        self, own: pd.Series[float] | None, asks: NDArray[np.bool_], *, place: Path | str
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """What each prompt counts for, and what is to be said about it.

        The prompt table's weights, where it has them; else those of the files, a prompt that asks for somebody
        having that of its base prompt. 1 where there are no weights; of two people in a picture half each.

        Raises:
            ConfigError: the files have weights for some prompts only.
        """
        if own is not None:
            return np.array(own.loc[list(self.prompt_ids)], dtype=np.float64), ()
        weight = np.ones(len(self.prompt_ids))
        lacking: dict[bool, list[str]] = {True: [], False: []}
        for row, prompt_id in enumerate(self.prompt_ids):
            found = self.find_or_base(self.references.weights, prompt_id)
            reference = self.find_or_base(self.references.shares, prompt_id)
            if found is not None:
                weight[row] = self.references.weights[found]
            elif self.references.weights and (asks[row] or reference is not None):
                lacking[bool(asks[row])].append(prompt_id)
            elif reference in self.references.subjects:
                weight[row] = 0.5
        notes: tuple[str, ...] = ()
        # Weights are made for the prompts of the references; prompts that ask for a class may all have none.
        if lacking[True] and len(lacking[True]) == int(asks.sum()):
            notes = (
                f"Prompts that ask for somebody and have no weight, nor a base prompt with one: "
                f"{len(lacking[True])}, such as {listing(lacking[True], shown=3)}. Each counts 1; the column "
                "base_prompt_id of the prompts would give them the weights of their base prompts.",
            )
            lacking[True] = []
        if missing := [*lacking[False], *lacking[True]]:
            raise ConfigError(
                f"{place}: no weight for prompts of the image set: {listing(missing)}; give each a weight there, "
                "or in the prompts a base_prompt_id whose weight it shares"
            )
        return weight, notes

    def pairs(self, asks: NDArray[np.bool_]) -> Pairs | None:
        """Pairs of prompts that ask for nobody; None: the files have none.

        Raises:
            ConfigError: two prompts are the same one of the references.
        """
        pairs = self.references.pairs
        if not pairs:
            return None
        row_of: dict[str, int] = {}
        for row, prompt_id in enumerate(self.prompt_ids):
            name = self.name_of.get(prompt_id, prompt_id)
            if asks[row]:
                continue
            if name in row_of:
                raise ConfigError(
                    f"the prompts {self.prompt_ids[row_of[name]]!r} and {prompt_id!r} are both {name!r} of the "
                    "references: give their images one prompt_id"
                )
            row_of[name] = row
        return Pairs(
            np.array([row_of.get(pair.advantageous, -1) for pair in pairs], dtype=np.intp),
            np.array([row_of.get(pair.disadvantageous, -1) for pair in pairs], dtype=np.intp),
            np.array([pair.weight for pair in pairs]),
        )

    def scopes(self, own: Scopes, layout: Layout) -> tuple[Scopes, tuple[str, ...]]:
        """Categories, above them the acquired attributes, as far as the files have them, and beside them what
        prompts ask for, an attribute each; notes on the first two.

        With categories in the files, a prompt outside of them is in no category, as it would be a category of
        another kind; it counts in its acquired attribute and in everything.
        """
        categories, acquired = (
            [table.get(self.find_or_base(table, prompt_id) or "", "") for prompt_id in self.prompt_ids]
            for table in (self.references.categories, self.references.acquired)
        )
        if not any(categories) and not any(acquired) and not layout.asked:
            return own, ()
        notes: tuple[str, ...] = ()
        words = own.category_words.tolist()
        if not any(categories):
            categories = words
        elif without := [each for each, name in zip(self.prompt_ids, categories, strict=True) if not name]:
            notes = (f"Prompts in none of the categories: {len(without)}, such as {listing(without, shown=3)}.",)
        acquired = [ACQUIRED_ATTRIBUTE.format(name) if name else "" for name in acquired]
        asked = [
            [ASKED_FOR.format(class_names(name)[each]) if each >= 0 else "" for each in of_prompt.tolist()]
            for name, of_prompt in layout.asked.items()
        ]
        return LayeredScopes.of_levels(categories, acquired, *asked, otherwise=words), notes

    def bases(self, layout: Layout) -> NDArray[np.intp]:
        """`[prompt]`: the position of the base prompt of a prompt that asks for somebody; `NO_BASE` where it asks
        for nobody, or the image set has no such prompt, or one that asks, too."""
        position = {prompt_id: row for row, prompt_id in enumerate(self.prompt_ids)}
        found = np.array(
            [position.get(self.base_of.get(each, ""), NO_BASE) for each in self.prompt_ids], dtype=np.intp
        )
        usable = layout.asks & (found != NO_BASE) & ~layout.asks[found] & ~layout.closed[found]
        return np.where(usable, found, NO_BASE)


def class_names(attribute: str) -> tuple[str, ...]:
    """What the classes that a prompt can ask for are called here, in the order of all arrays."""
    return tuple(asking_words()[attribute])


def class_in_words(label: str) -> str:
    """A class as BIGbench's prompts have it: `East Asian`, `middle-aged`; any other text as it is."""
    return next((words[label] for words in asking_words().values() if label in words), label)


def _check_known(found: Mapping[str, object], prompt_ids: Sequence[str], *, place: Path) -> None:
    known = set(prompt_ids)
    if unknown := [each for each in found if each not in known]:
        raise ConfigError(
            f"{place}: the image set has no prompt {unknown[0]!r}: {nearest_hint(unknown[0], known)}"
            + (f" ({len(unknown) - 1} more are unknown)" if len(unknown) > 1 else "")
        )


def _position(attribute: str, stated: str, race_mapping: Mapping[str, str | None] | None) -> int | None:
    """Which of BIGbench's classes a prompt asks for; None: of none, or of several."""
    classes = ATTRIBUTES[attribute].classes
    if stated not in classes:
        return None
    position = int(class_mapping(attribute, race_mapping).positions[classes.index(stated)])
    return position if position >= 0 else None


class AnswerCounts(NamedTuple):
    """Numbers of images of one attribute, `[..., t2i_model, prompt, ...]`."""

    by_class: FloatArray
    """With a known answer, `[..., class]`."""
    outside: FloatArray
    """Of a class that BIGbench does not have."""
    unjudged: FloatArray
    """Images that are filtered, low-quality or `others`."""
    no_verdict: FloatArray
    """An error, not run, or without a human label."""

    @property
    def unknown(self) -> FloatArray:
        """All images that are in no share."""
        return self.outside + self.unjudged + self.no_verdict


@dataclass(frozen=True)
class Layout:
    """Which feature is where, for some attributes and what prompts ask for."""

    attributes: tuple[str, ...]
    asked: Mapping[str, NDArray[np.intp]]
    """By attribute that some prompt asks for: `[prompt]`, position of the class, or `NOT_ASKED`."""
    closed: NDArray[np.bool_]
    """`[prompt]`: whether it states what BIGbench has no class for, and is in no score."""

    @property
    def asks(self) -> NDArray[np.bool_]:
        """`[prompt]`: whether it asks for any class."""
        asks: NDArray[np.bool_] = np.zeros_like(self.closed)
        for asked in self.asked.values():
            asks = asks | (asked >= 0)
        return asks

    @property
    def requests(self) -> tuple[str, ...]:
        """What explicit scores there are: each attribute that is asked for, then all at once."""
        return (*self.asked, ALL) if self.asked else ()

    def features(self, judgements: Judgements, *, race_mapping: Mapping[str, str | None] | None) -> FloatArray:
        """`[judge, image, feature]`; seed photos have features, too, and are left out later."""
        codes = {
            name: _codes(class_mapping(name, race_mapping), judgements.labels[name]) for name in self.attributes
        }
        counts = {name: judgements.asked(name) for name in self.attributes}
        blocks = [
            np.eye(len(PROTECTED[name].classes) + _REST)[code] * counts[name][:, np.newaxis]
            for name, code in codes.items()
        ]
        known = np.ones(next(iter(codes.values())).shape, dtype=np.bool_)
        right, asks = known.copy(), np.zeros(len(judgements.image_ids), dtype=np.bool_)
        every = np.ones(len(judgements.image_ids), dtype=np.bool_)
        for name, of_prompt in self.asked.items():
            wanted = of_prompt[judgements.prompt]
            of_image = codes[name] < len(PROTECTED[name].classes)
            blocks.append(
                _of_request((codes[name] == wanted) & (wanted >= 0), of_image & (wanted >= 0), counts[name])
            )
            every &= counts[name] | (wanted < 0)
            known &= of_image | (wanted < 0)
            right &= (codes[name] == wanted) | (wanted < 0)
            asks |= wanted >= 0
        if self.asked:
            blocks.append(_of_request(right & known & asks, known & asks, every))
        return np.concatenate(blocks, axis=-1)

    def answers(self, sums: FloatArray) -> dict[str, AnswerCounts]:
        """By attribute, from sums of the features."""
        found, start = {}, 0
        for name in self.attributes:
            classes = len(PROTECTED[name].classes)
            block = sums[..., start : start + classes + _REST]
            outside, unjudged, no_verdict = (block[..., classes + place] for place in range(_REST))
            found[name] = AnswerCounts(block[..., :classes], outside, unjudged, no_verdict)
            start += classes + _REST
        return found

    def requested(self, sums: FloatArray) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
        """By request: images that show what is asked for, images with a known answer to it, and all that count."""
        start = sums.shape[-1] - _PER_REQUEST * len(self.requests)
        found = {}
        for place, name in enumerate(self.requests):
            right, known, every = (sums[..., start + _PER_REQUEST * place + part] for part in range(_PER_REQUEST))
            found[name] = right, known, every
        return found


def _codes(to_bigbench: ClassMapping, labels: NDArray[np.int8]) -> NDArray[np.intp]:
    """Positions among BIGbench's classes, then those of the rest."""
    outside, unjudged, no_verdict = (len(to_bigbench.target.classes) + place for place in range(_REST))
    places = np.where(to_bigbench.positions < 0, outside, to_bigbench.positions)
    return np.select(
        [labels >= 0, (labels == UNJUDGED) | (labels == OTHERS), labels == NO_VERDICT],
        [places[np.maximum(labels, 0)], unjudged, no_verdict],
    ).astype(np.intp)


_PER_REQUEST = 3


def _of_request(right: NDArray[np.bool_], known: NDArray[np.bool_], counts: NDArray[np.bool_]) -> FloatArray:
    return np.stack([right & counts, known & counts, np.broadcast_to(counts, known.shape)], axis=-1).astype(
        np.float64
    )
