"""Which columns of a foreign table of labels hold labels: of which attribute, and by whom.

Long tables have one column `label`; wide ones a column for each attribute (`gender`, `age`), for each annotator
(`rater1`, `rater2`), or for both (`gender_rater1`). Who is no annotator for sure is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.foreign.column_meanings import columns_for, plain_name
from detector_bench.dataset.import_decisions import ImportChoice, UndecidedImportError
from detector_bench.dataset.text_table import TextTable
from detector_bench.errors import ConfigError
from detector_bench.vocabulary import ATTRIBUTES, reasons_of
from detector_bench.vocabulary.columns import VALUE_COLUMN

_PEOPLE = re.compile(
    r"(?:rater|annotator|coder|labell?er|judge|worker|reviewer|expert|person|human|observer|participant|assessor"
    r"|evaluator|ann)[ _-]?(?:\d+|[a-z])|[raw][ _-]?\d+|[a-z]",
    re.IGNORECASE,
)
"""Names of columns that are annotators to everybody."""

_DECISION = re.compile(
    r"discuss|final|consens|adjudic|agree|gold|majority|resol|truth|deci[ds]|merged|combined|overall",
    re.IGNORECASE,
)
"""Names of columns that hardly are one annotator, whoever listed them."""

_BESIDE = ("reason", VALUE_COLUMN)


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels.

    Attributes:
        column: its name in the file.
        attribute: what its labels are about; empty: what the table's column or the options say.
        annotator: whose they are; empty likewise.
        numbers: the column with their measured values, if any.
        reasons: the column with their reasons, if any.
    """

    column: str
    attribute: str = ""
    annotator: str = ""
    numbers: str | None = None
    reasons: str | None = None


@dataclass(frozen=True)
class LabelColumnSettings:
    """What is said about the columns of labels.

    Attributes:
        said: our column, or an attribute, to theirs; several are separated by commas.
        attribute: what labels are about, where no column says so.
        annotators: the columns, or parts of their names, that are annotators; empty: not said.
        adjudicator: the one that holds what was decided after a discussion; "" for none.
    """

    said: Mapping[str, str]
    attribute: str
    annotators: tuple[str, ...] = ()
    adjudicator: str = ""


def split_names(columns: str) -> list[str]:
    """Names that commas separate."""
    return [name.strip() for name in columns.split(",") if name.strip()]


def find_label_columns(table: TextTable, settings: LabelColumnSettings) -> tuple[list[LabelColumn], list[str]]:
    """The columns of labels, in the table's order of attributes; none: no column looks like one.

    Returns:
        The columns, and those that were left out because the settings name others as annotators.

    Raises:
        ConfigError: settings that contradict each other.
        UndecidedImportError: somebody must say whether a column is an annotator.
    """
    said = settings.said
    wide = {name: said[name] for name in said if name in ATTRIBUTES}
    if wide and "label" in said:
        raise ConfigError(f"mapping: label and {next(iter(wide))} both name columns of labels; leave one out")
    if wide:
        found = [
            column
            for attribute, theirs in wide.items()
            for column in _of_attribute(attribute, _columns_named(table, theirs), table)
        ]
        found = _with_own_columns(table, found, settings)
        return _decided(table, found, settings, explicit=True)
    if "label" in said or "label" in table.columns:
        return _long(table, settings)
    found = _with_own_columns(table, _recognised(table, settings), settings)
    return _decided(table, found, settings, explicit=False)


def _columns_named(table: TextTable, theirs: str) -> list[str]:
    return [theirs] if table.has(theirs) else list(dict.fromkeys(split_names(theirs)))


def _long(table: TextTable, settings: LabelColumnSettings) -> tuple[list[LabelColumn], list[str]]:
    names = _columns_named(table, settings.said.get("label", "label"))
    if len(names) > 1 and "annotator" in settings.said:
        raise ConfigError("mapping: several label columns name the annotators already; leave out annotator")
    values = _value_columns(table, names, settings)
    reasons = settings.said.get("reason", "reason")
    columns = [
        LabelColumn(name, "", name if len(names) > 1 else "", value, reasons if table.has(reasons) else None)
        for name, value in zip(names, values, strict=True)
    ]
    if len(names) == 1:
        return columns, []
    return _decided(table, columns, settings, explicit=True)


def _value_columns(table: TextTable, names: list[str], settings: LabelColumnSettings) -> Sequence[str | None]:
    """For each label column the one with its measured values, or None."""
    said = settings.said
    if VALUE_COLUMN in said:
        columns = _columns_named(table, said[VALUE_COLUMN])
        if len(columns) != len(names):
            raise ConfigError(
                f"mapping: value is {', '.join(columns)} and label is {', '.join(names)}; "
                "accepted: as many columns of values as of labels, in the same order"
            )
        return columns
    is_ours = table.has(VALUE_COLUMN) and VALUE_COLUMN not in (*said.values(), *names)
    return [VALUE_COLUMN if is_ours and len(names) == 1 else None] * len(names)


def _with_own_columns(
    table: TextTable, columns: list[LabelColumn], settings: LabelColumnSettings
) -> list[LabelColumn]:
    """Columns of labels with the values and reasons that somebody names, or that stand beside a single one."""
    if len(columns) == 1:
        columns = [_with_usual_columns(table, columns[0], settings)]
    for ours, field in (("reason", "reasons"), (VALUE_COLUMN, "numbers")):
        if not columns or ours not in settings.said:
            continue
        named = _columns_named(table, settings.said[ours])
        if len(named) != len(columns):
            where = ", ".join(each.column for each in columns)
            raise ConfigError(
                f"mapping: {ours} is {', '.join(named)}, and labels stand in {where}; "
                f"accepted: as many columns for {ours} as of labels, in the same order"
            )
        columns = [replace(column, **{field: name}) for column, name in zip(columns, named, strict=True)]
    return columns


def _with_usual_columns(table: TextTable, column: LabelColumn, settings: LabelColumnSettings) -> LabelColumn:
    """The only column of labels, with `value` and `reason` of the table if they can be what their names say."""
    attribute = ATTRIBUTES[column.attribute or settings.attribute]
    values = VALUE_COLUMN if table.has(VALUE_COLUMN) and attribute.unit is not None else None
    reasons = "reason" if table.has("reason") and _holds_reasons(table) else None
    return replace(column, numbers=column.numbers or values, reasons=column.reasons or reasons)


def _holds_reasons(table: TextTable) -> bool:
    known = reasons_of(ATTRIBUTES.values())
    return all(text.strip() in ("", *known) for text in table.encoded("reason").texts)


def _of_attribute(attribute: str, columns: Sequence[str], table: TextTable) -> Iterable[LabelColumn]:
    """Columns that are said to hold an attribute; several of them are annotators."""
    for column in columns:
        who = "" if len(columns) == 1 else _who(column, attribute) or column
        yield LabelColumn(column, attribute, who, *_beside(table, column))


def _beside(table: TextTable, column: str) -> tuple[str | None, str | None]:
    names = {plain_name(name): name for name in table.columns}
    values, reasons = (
        names.get(f"{plain_name(column)}_{what}") or names.get(f"{what}_{plain_name(column)}")
        for what in (VALUE_COLUMN, "reason")
    )
    return values, reasons


def _who(column: str, attribute: str) -> str:
    """What a column's name says besides an attribute: `rater1` of `gender_rater1` and `rater1.gender`."""
    pattern = rf"(?:{re.escape(attribute)}[ _.:-]+(.+)|(.+?)[ _.:-]+{re.escape(attribute)})"
    found = re.fullmatch(pattern, column.strip(), re.IGNORECASE)
    return (found[1] or found[2]) if found else ""


def _recognised(table: TextTable, settings: LabelColumnSettings) -> list[LabelColumn]:
    """Columns whose names, and labels, say that they hold labels."""
    named = [*settings.annotators, *filter(None, [settings.adjudicator])]
    images = columns_for("image_id", table.columns, settings.said)[:1]
    taken = {*images, *(name for theirs in settings.said.values() for name in split_names(theirs))}
    found: list[LabelColumn] = []
    for attribute in ATTRIBUTES:
        whole = [column for column in table.columns if plain_name(column) == attribute and column not in taken]
        if whole:
            found.append(LabelColumn(whole[0], attribute, "", *_beside(table, whole[0])))
            continue
        for column in table.columns:
            who = _who(column, attribute)
            is_beside = plain_name(who).endswith(_BESIDE) or plain_name(who).startswith(_BESIDE)
            if (
                who
                and column not in taken
                and not is_beside
                and (who in named or _holds_labels(table, column, attribute))
            ):
                found.append(LabelColumn(column, attribute, who, *_beside(table, column)))
    if found:
        return found
    people = [
        name for name in table.columns if name in named or (name not in taken and _PEOPLE.fullmatch(name.strip()))
    ]
    if any(name in named or _holds_labels(table, name, settings.attribute) for name in people):
        others = [
            name
            for name in table.columns
            if name not in people and name not in taken and _holds_labels(table, name, settings.attribute)
        ]
        wanted = [name for name in people if name in named or _holds_labels(table, name, settings.attribute)]
        columns = sorted([*wanted, *others], key=table.columns.index)
        return [LabelColumn(name, "", name, *_beside(table, name)) for name in columns]
    return []


def _holds_labels(table: TextTable, column: str, attribute: str) -> bool:
    """Whether most cells that are not empty are labels of an attribute, perhaps in short."""
    labels = ATTRIBUTES[attribute].labels
    texts = [text for text in table.encoded(column).texts if text.strip()]
    known = {plain_name(label) for label in labels}
    fitting = [text for text in texts if plain_name(text) in known or guessed_label(text, labels)]
    return bool(texts) and len(fitting) * 2 >= len(texts)


_WORDS = {
    "man": "male",
    "men": "male",
    "boy": "male",
    "woman": "female",
    "women": "female",
    "girl": "female",
    **dict.fromkeys(("männlich", "mann", "homme", "masculin", "hombre", "masculino", "uomo", "maschio"), "male"),
    **dict.fromkeys(("weiblich", "frau", "femme", "féminin", "mujer", "femenino", "donna", "femmina"), "female"),
    "m": "male",
    "f": "female",
    "w": "female",
    "other": "others",
    "unclear": "low_quality",
    "low": "low_quality",
    "lq": "low_quality",
    "cannot_tell": "low_quality",
    "can't_tell": "low_quality",
}


def guessed_label(text: str, labels: Sequence[str]) -> str:
    """Which label somebody may mean who writes it otherwise; empty: nobody knows. It is proposed, never taken."""
    name = re.sub(r"[^\w']+", "_", plain_name(text)).strip("_")
    if _WORDS.get(name) in labels:
        return _WORDS[name]
    near = [label for label in labels if name and (label.startswith(name) or name.startswith(label))]
    return near[0] if len(near) == 1 else ""


def _decided(
    table: TextTable, columns: list[LabelColumn], settings: LabelColumnSettings, *, explicit: bool
) -> tuple[list[LabelColumn], list[str]]:
    """The columns under the annotators that they belong to, or a question about those of which nobody knows."""
    names = list(dict.fromkeys(each.annotator for each in columns if each.annotator))
    if not names:
        return columns, []
    is_said = bool(settings.annotators or settings.adjudicator)
    kept = {
        name: ADJUDICATOR if name == settings.adjudicator else name
        for name in names
        if not is_said
        or name in (*settings.annotators, settings.adjudicator)
        or _is_column(name, columns, settings)
    }
    if not is_said:
        unsure = [
            name
            for name in names
            if name != ADJUDICATOR and (_DECISION.search(name) or not (explicit or _PEOPLE.fullmatch(name)))
        ]
        if unsure:
            raise _question(table, names, unsure)
    missing = [name for name in (*settings.annotators, settings.adjudicator) if name and name not in names]
    columns_too = [each.column for each in columns]
    missing = [name for name in missing if name not in columns_too]
    if missing:
        raise ConfigError(
            f"{table.file}: no labels of {missing[0]!r} (accepted: {', '.join(names)}, as --annotators or "
            "--adjudicator)"
        )
    taken = [
        LabelColumn(each.column, each.attribute, _name_of(each, kept, settings), each.numbers, each.reasons)
        for each in columns
        if not each.annotator or each.annotator in kept
    ]
    return taken, [each.column for each in columns if each.annotator and each.annotator not in kept]


def _is_column(name: str, columns: Sequence[LabelColumn], settings: LabelColumnSettings) -> bool:
    """Whether an annotator's column, in whole, is what the settings name."""
    own = {each.column for each in columns if each.annotator == name}
    return bool(own & {*settings.annotators, settings.adjudicator})


def _name_of(column: LabelColumn, kept: Mapping[str, str], settings: LabelColumnSettings) -> str:
    if settings.adjudicator and column.column == settings.adjudicator:
        return ADJUDICATOR
    return kept.get(column.annotator, "")


def _question(table: TextTable, names: Sequence[str], unsure: Sequence[str]) -> UndecidedImportError:
    sure = [name for name in names if name not in unsure]
    shown = ", ".join(map(repr, unsure))
    everybody = ",".join(names)
    if len(unsure) == 1 and sure:
        choices = [
            ImportChoice(
                "it holds what was decided after a discussion",
                ("--annotators", ",".join(sure), "--adjudicator", unsure[0]),
            ),
            ImportChoice("an annotator who labelled alone", ("--annotators", everybody)),
            ImportChoice("it is left out", ("--annotators", ",".join(sure))),
        ]
        question = f"{table.file}: is the column {shown} an annotator?"
    else:
        choices = [ImportChoice("each of them labelled alone", ("--annotators", everybody))]
        if sure:
            choices.append(ImportChoice("the others are left out", ("--annotators", ",".join(sure))))
        question = f"{table.file}: are the columns {shown} annotators?"
    return UndecidedImportError(question, choices)
