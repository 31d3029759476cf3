"""What a published classifier's own labels mean in our classes, and what its numbers then say about an image."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, TypeAdapter, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.vocabulary.taxonomies import TAXONOMIES, MappingField
from detector_bench.vocabulary.taxonomies import Mapping as TaxonomyMapping

UNCERTAIN = "uncertain"
"""What a label may mean besides a class: the network cannot decide."""

Activation = Literal["softmax", "sigmoid", "none"]
"""How numbers become probabilities: of labels of which one holds, of labels that each hold or not, or not at
all."""

_SHOWN_LABELS = 10
_TOLERANCE = 1e-3


def _read_classes(value: Any) -> dict[str, str | None] | TaxonomyMapping:
    """A table of the study's own stays as it is, since it need not name every label; a name is looked up."""
    if isinstance(value, Mapping):
        for label, meaning in value.items():
            if not isinstance(label, str) or not (meaning is None or isinstance(meaning, str)):
                raise ValueError(
                    f"an entry of `classes` is a label, then a class or null; got {label!r}: {meaning!r} "
                    "(numbers, yes and no need quotes)"
                )
        return dict(value)
    if isinstance(value, str | TaxonomyMapping):
        return _MAPPING.validate_python(value)
    raise ValueError(
        f"`classes` is {{label: class or null}}, or the name of a taxonomy or a mapping; got {value!r}"
    )


def _written_classes(value: dict[str, str | None] | TaxonomyMapping | None) -> Any:
    return value if value is None or isinstance(value, dict) else _MAPPING.dump_python(value)


_MAPPING: TypeAdapter[TaxonomyMapping] = TypeAdapter(MappingField)

Classes = Annotated[
    dict[str, str | None] | TaxonomyMapping, PlainValidator(_read_classes), PlainSerializer(_written_classes)
]
"""`{label: class or null}`, or the name of a taxonomy or mapping whose words the labels are."""


class LabelClasses(Declaration):
    """How a published classifier's labels are read for one attribute.

    A label means what `classes` says. One that `classes` does not name means the class whose name or synonym it
    is, whatever its case, blanks, hyphens and underscores. Several labels may mean one class.
    """

    classes: Classes | None = None
    """`{woman: female, man: male}`, or a taxonomy's or mapping's name. null: the label has no class of ours, and
    an image that it wins is filtered as `other_class`; `uncertain`: such an image is filtered as `uncertain`."""
    ignored: tuple[str, ...] | Literal["all_others"] = ()
    """Labels that are left out as if the network did not have them; `all_others`: those that nothing else
    names."""
    activation: Activation = "softmax"
    """`softmax` over the labels that are read, and the probabilities of labels that mean one class are added up;
    `sigmoid` of each number by itself, and of labels that mean one class the likeliest counts; `none`: the network
    gives probabilities already."""
    otherwise: str | None = None
    """With `sigmoid`: the class without a label of its own, whose probability is what the likeliest label leaves:
    `{classes: {Male: male}, otherwise: female}`."""
    years: dict[str, float] | None = None
    """By label, the years that stand for it; the mean by probability becomes the value. None: the taxonomy's."""

    @model_validator(mode="after")
    def _otherwise_needs_sigmoid(self) -> LabelClasses:
        if self.otherwise is not None and self.activation == "softmax":
            raise ValueError("`otherwise` goes with `activation: sigmoid`: softmax leaves nothing")
        return self

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def table(self) -> dict[str, str | None]:
        """By label, what it means, as far as it is written down."""
        if self.classes is None:
            return {}
        return dict(self.classes) if isinstance(self.classes, dict) else dict(self.classes.table)

    def bin_years(self) -> dict[str, float]:
        """By label, the years that stand for it; empty: none are known."""
        if self.years is not None:
            return dict(self.years)
        source = getattr(self.classes, "source", None)
        if source is None or source.years is None:
            return {}
        return dict(zip(source.classes, source.years, strict=True))


class LabelNumbers(NamedTuple):
    """What one image's numbers say.

    Attributes:
        probabilities: of each class of the attribute, of labels without a class, of `uncertain`.
        years: the mean of the labels' years; NaN: none are known.
        words: the likeliest labels with their probabilities, as JSON.
    """

    probabilities: NDArray[np.float64]
    years: float
    words: str


class LabelTable(NamedTuple):
    """What each label of one network means for one attribute.

    Attributes:
        labels: in the order of the network's numbers.
        chosen: which of them are read.
        positions: by label that is read, the position of its probability in `LabelNumbers.probabilities`.
        width: how many probabilities there are.
        activation: how numbers become probabilities.
        otherwise: the position that what is left goes to; None: nowhere.
        years: by label that is read; None: none are known.
        name: of the model.
    """

    labels: tuple[str, ...]
    chosen: NDArray[np.intp]
    positions: NDArray[np.intp]
    width: int
    activation: Activation
    otherwise: int | None
    years: NDArray[np.float64] | None
    name: str

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        *,
        attribute: str,
        reading: LabelClasses,
        elsewhere: Mapping[str, LabelClasses],
        name: str,
    ) -> LabelTable:
        """Find the meaning of every label.

        Raises:
            ConfigError: labels without a meaning, all at once, with the classes there are; a table that names
            labels
                which the network does not have; or too few classes.
        """
        meanings = _meanings(labels, attribute=attribute, reading=reading, elsewhere=elsewhere, name=name)
        places = (*ATTRIBUTES[attribute].classes, None, UNCERTAIN)
        chosen = [number for number, label in enumerate(labels) if label in meanings]
        reached = {meanings[labels[number]] for number in chosen} | {reading.otherwise}
        if len(reached - {None, UNCERTAIN}) < 2:
            raise ConfigError(
                f"{name}: its labels ({_listed(labels)}) mean {_listed(sorted(map(str, reached - {None})))} of "
                f"{attribute!r} alone, so every image would show it (accepted: labels for at least two classes, "
                "or with `activation: sigmoid` one and `otherwise`)"
            )
        known = reading.bin_years()
        read = [labels[number] for number in chosen]
        years = np.array([known[label] for label in read]) if known and set(read) <= set(known) else None
        return cls(
            labels=tuple(labels),
            chosen=np.array(chosen, np.intp),
            positions=np.array([places.index(meanings[label]) for label in read], np.intp),
            width=len(places),
            activation=reading.activation,
            otherwise=None if reading.otherwise is None else places.index(reading.otherwise),
            years=years,
            name=name,
        )

    def read(self, numbers: NDArray[Any]) -> LabelNumbers:
        """Read one image's numbers, (labels,).

        Raises:
            ConfigError: `activation: none`, and they are no probabilities.
        """
        shares = self._shares(np.asarray(numbers, np.float64)[self.chosen])
        probabilities = np.zeros(self.width)
        if self.activation == "softmax":
            np.add.at(probabilities, self.positions, shares)
        else:
            np.maximum.at(probabilities, self.positions, shares)
        if self.otherwise is not None:
            probabilities[self.otherwise] = 1 - shares.max()
        years = float("nan")
        if self.years is not None and shares.sum() > 0:
            years = float(shares @ self.years / shares.sum())
        order = np.argsort(-shares, kind="stable")[:_SHOWN_LABELS]
        words = {self.labels[self.chosen[number]]: round(float(shares[number]), 4) for number in order}
        text = json.dumps({"answer": next(iter(words)), "probabilities": words}, ensure_ascii=False)
        # Rounding errors of a sum must not leave [0, 1].
        return LabelNumbers(probabilities.clip(0, 1), years, text)

    def _shares(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.activation == "softmax":
            exponentials = np.exp(numbers - numbers.max())
            return np.asarray(exponentials / exponentials.sum())
        if self.activation == "sigmoid":
            # The hyperbolic tangent gives the sigmoid without an overflow on the way.
            return np.asarray((1 + np.tanh(numbers / 2)) / 2)
        strange = numbers[~((numbers >= -_TOLERANCE) & (numbers <= 1 + _TOLERANCE))]
        if strange.size:
            raise ConfigError(f"{self.name} gives {strange[0]:.4g}, which is no probability: set its `activation`")
        return numbers.clip(0, 1)


def _meanings(
    labels: Sequence[str],
    *,
    attribute: str,
    reading: LabelClasses,
    elsewhere: Mapping[str, LabelClasses],
    name: str,
) -> dict[str, str | None]:
    """By label that is read, the class that it means, None or `uncertain`."""
    table, synonyms = reading.table, synonyms_of(attribute)
    ignored = () if reading.ignored == "all_others" else reading.ignored
    if unknown := [label for label in (*table, *ignored, *(reading.years or ())) if label not in labels]:
        if reading.classes is not None and not isinstance(reading.classes, dict):
            of = f"the words of {reading.classes.source.name!r}"
        else:
            of = "what the study says of it"
        raise ConfigError(
            f"{name}: {of} names {_listed(unknown)}, no labels of the model (it has: {_listed(labels)})"
        )
    accepted = (*ATTRIBUTES[attribute].classes, UNCERTAIN)
    for label, meaning in (*table.items(), ("otherwise", reading.otherwise)):
        if meaning is not None and meaning not in accepted:
            raise ConfigError(
                f"{name}: {label!r} means {meaning!r}, which is no class of {attribute!r} (accepted: "
                f"{', '.join(accepted)}, null)"
            )
    meanings: dict[str, str | None] = {}
    unmapped = []
    for label in labels:
        if label in ignored:
            continue
        if label in table:
            meanings[label] = table[label]
        elif (found := synonyms.get(plain_word(label))) is not None:
            meanings[label] = found
        elif reading.ignored != "all_others" and not _is_read_elsewhere(label, elsewhere):
            unmapped.append(label)
    if unmapped:
        raise ConfigError(_unmapped_message(unmapped, labels, attribute=attribute, name=name))
    return meanings


def _is_read_elsewhere(label: str, elsewhere: Mapping[str, LabelClasses]) -> bool:
    return any(
        label in reading.table or label in reading.ignored or plain_word(label) in synonyms_of(attribute)
        for attribute, reading in elsewhere.items()
    )


def _unmapped_message(unmapped: Sequence[str], labels: Sequence[str], *, attribute: str, name: str) -> str:
    classes = ", ".join(ATTRIBUTES[attribute].classes)
    hint = ""
    same = [each.name for each in TAXONOMIES.values() if set(each.classes) == set(labels)]
    others = [each for each in ATTRIBUTES if each != attribute and _fits(labels, each)]
    if same and TAXONOMIES[same[0]].attribute == attribute:
        hint = f"; they are the words of the taxonomy {same[0]!r}: `classes: {same[0]}`"
    elif same:
        about = TAXONOMIES[same[0]].attribute
        hint = f"; they are the words of {same[0]!r}: `attribute: {about}`, `classes: {same[0]}`"
    elif others:
        hint = f"; they look like `attribute: {others[0]}`"
    count = "a label" if len(unmapped) == 1 else f"{len(unmapped)} labels"
    example = f"{{{_quoted(unmapped[0])}: {ATTRIBUTES[attribute].classes[0]}}}"
    return (
        f"{name} has {count} without a class of {attribute!r}: {_listed(unmapped)}; say with `classes: {example}` "
        f"what each means (accepted: {classes}, uncertain, or null for no class){hint}"
    )


def _fits(labels: Sequence[str], attribute: str) -> bool:
    synonyms = synonyms_of(attribute)
    return all(plain_word(label) in synonyms for label in labels)


def synonyms_of(attribute: str) -> dict[str, str]:
    """By plain word, the class of an attribute that it means: names, texts, and the words that a judge may use."""
    found: dict[str, str] = {}
    for choice in ATTRIBUTES[attribute].choices:
        for word in (choice.name, choice.text, *choice.answers):
            found.setdefault(plain_word(word), choice.name)
    return found


def plain_word(label: str) -> str:
    """A label without regard to case, blanks, hyphens and underscores."""
    return re.sub(r"[\s_\-]+", " ", label).strip().casefold()


def _listed(words: Sequence[str]) -> str:
    shown = ", ".join(repr(word[:80]) for word in words[:50])
    return shown if len(words) <= 50 else f"{shown} and {len(words) - 50} more"


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z][\w ]*", word) else json.dumps(word)
