"""Prompts from templates in ImageBiTe's tab-separated format, and from its JSON input.

Source: ImageBiTe, project page, "Running example" and "Implementation". The article before a placeholder is fitted
to what is filled in ("An accountant"), although the original templates always say "A".
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from detector_bench.dataset.text_table import Findings, shorten
from detector_bench.errors import DataError, Problem, config_error_from, nearest_hint
from detector_bench.others.imagebite.communities import attribute_of, meaning_of, statement_in
from detector_bench.prompt_lists.prompt_list import ListCell, Prompt, check_text, read_json_object, report_repeats
from detector_bench.prompt_lists.word_lists import indefinite_article
from detector_bench.vocabulary import ALL, ATTRIBUTES, PARTLY

TEMPLATE_COLUMNS = ("prompt_id", "target_ethical_concerns", "template", "ethical_concern", "dimension")
"""Columns of the template file that are read; others may stand beside them."""

DIMENSION = "DIMENSION"
PLAIN = "plain"
"""Category of a sentence without any placeholder."""

_RESERVED = (ALL, DIMENSION)
_MARKUP = re.compile(r"\{([^{}]*)\}")
_MARKUP_WITH_ARTICLE = re.compile(r"(?:\b(an?) )?\{([^{}]*)\}", re.IGNORECASE)


class _Dimension(BaseModel):
    model_config = ConfigDict(strict=True)

    type: str
    values: list[str]


class _Concern(BaseModel):
    model_config = ConfigDict(strict=True)

    ethical_concern: str
    markup: str
    sensitive_communities: list[str]


class _Input(BaseModel):
    model_config = ConfigDict(strict=True)

    dimensions: list[_Dimension] = []
    ethical_concerns: list[_Concern] = []


@dataclass(frozen=True)
class Vocabulary:
    """What an input file offers to fill in: values by dimension, and (concern, communities) by markup."""

    dimensions: dict[str, list[str]]
    communities: dict[str, tuple[str, list[str]]]

    def markup_of(self, concern: str) -> str | None:
        """The markup under which a concern's communities are filled in, None if the input does not have it."""
        return next((markup for markup, (name, _) in self.communities.items() if name == concern), None)


@dataclass(frozen=True)
class _Template:
    """One row of the template file."""

    cells: dict[str, ListCell]

    def __getitem__(self, column: str) -> str:
        return self.cells[column].text

    @property
    def targets(self) -> frozenset[str]:
        """The ethical concerns for which images of it can be judged, unless their communities are filled in."""
        names = self["target_ethical_concerns"].split(";")
        return frozenset(name.strip() for name in names if name.strip())

    @property
    def markups(self) -> list[str]:
        return list(dict.fromkeys(_MARKUP.findall(self["template"])))


def is_template_file(path: Path) -> bool:
    """Whether a file has tabs, as ImageBiTe's templates have."""
    with path.open("rb") as file:
        return path.suffix.lower() != ".parquet" and b"\t" in file.readline(1 << 16)


def read_imagebite_prompts(
    input_file: Path,
    templates: Path,
    *,
    explicit: bool = False,  # noqa: ARG001 - of other formats
) -> tuple[list[Prompt], list[str]]:
    """Fill every template with all combinations of communities and of its dimension's values.

    What a prompt states of an attribute is the community that it is filled with. Of an attribute that neither is
    filled in nor stands among the targets, the sentence itself states something: the class that it names, or
    `partly`. The base prompt is the sentence without its communities, where another template gives it.

    Category is what a template is filled with: "occupation" for `{DIMENSION}` alone, "gender_occupation" beside
    `{GENDER}`, "plain" without placeholders; word is what was filled in, in the sentence's order. A template
    for an ethical concern whose communities the input does not list is left out, and a note says so.

    Returns:
        The prompts in file order, and notes for the reader.

    Raises:
        DataError, ConfigError: all mistakes of a file at once.
    """
    vocabulary = read_vocabulary(input_file)
    findings = Findings()
    prompts: list[Prompt] = []
    left_out: list[_Template] = []
    rows = _read_templates(templates, findings)
    known = _known_attributes(rows, vocabulary)
    for template in rows:
        if _is_left_out(template, vocabulary):
            left_out.append(template)
        elif _is_right(template, vocabulary, input_file.name, findings):
            prompts += _filled(template, vocabulary, known=known)
    if rows and not prompts and not findings:
        message = f"every template is for an ethical concern that {input_file.name} does not list"
        findings.add(Problem(templates.name, message, accepted="communities for one of them"))
    findings.raise_if_any()
    return prompts, [_note(left_out, input_file)] if left_out else []


def read_vocabulary(path: Path) -> Vocabulary:
    """Read dimensions and sensitive communities of an ImageBiTe input; its requirements are not looked at.

    Raises:
        DataError, ConfigError: all mistakes at once, with their place in the file.
    """
    try:
        content = _Input.model_validate(read_json_object(path))
    except ValidationError as error:
        raise config_error_from(error, place=path.name, model=_Input) from None
    findings = Findings()
    names: list[tuple[str, ListCell]] = []
    for index, dimension in enumerate(content.dimensions):
        place = f"dimensions[{index}]"
        names.append((dimension.type, ListCell(path.name, None, f"{place}.type", dimension.type)))
        _check_values(path.name, f"{place}.values", dimension.type, dimension.values, findings)
    for index, concern in enumerate(content.ethical_concerns):
        place = f"ethical_concerns[{index}]"
        names.append((f"{{{concern.markup}}}", ListCell(path.name, None, f"{place}.markup", concern.markup)))
        name, communities = concern.ethical_concern, concern.sensitive_communities
        names.append((f"concern {name}", ListCell(path.name, None, f"{place}.ethical_concern", name)))
        _check_values(path.name, f"{place}.sensitive_communities", name, communities, findings)
    for _, cell in names:
        if check_text(cell, findings) and cell.text in _RESERVED:
            findings.add(cell.problem("reserved name", accepted=f"none of {', '.join(_RESERVED)}"))
    report_repeats(names, findings, what="name")
    findings.raise_if_any()
    return Vocabulary(
        {each.type: each.values for each in content.dimensions},
        {each.markup: (each.ethical_concern, each.sensitive_communities) for each in content.ethical_concerns},
    )


def _check_values(file: str, place: str, name: str, values: list[str], findings: Findings) -> None:
    if not values:
        findings.add(Problem(file, "no values", column=place, value=name, accepted="at least one"))
    cells = [ListCell(file, None, f"{place}[{index}]", value) for index, value in enumerate(values)]
    for cell in cells:
        check_text(cell, findings)
    report_repeats(((cell.text.casefold(), cell) for cell in cells), findings, what="value")


def _read_templates(path: Path, findings: Findings) -> list[_Template]:
    try:
        # Strict: without it, the csv module takes a quotation mark that is never closed for an ordinary cell.
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t", strict=True)
            records = [(reader.line_num, record) for record in reader]
    except OSError as error:
        problem = Problem(path.name, f"the file cannot be read ({error.strerror})", accepted="a readable file")
        raise DataError([problem]) from error
    except (csv.Error, UnicodeDecodeError) as error:
        message = f"cannot be read ({error})"
        raise DataError([Problem(path.name, message, accepted="UTF-8 text, cells separated by tabs")]) from error
    header = records[0][1] if records else []
    missing = [name for name in TEMPLATE_COLUMNS if name not in header]
    for name in missing:
        accepted = ", ".join(TEMPLATE_COLUMNS)
        findings.add(Problem(path.name, "the column is missing", 1, name, shorten(" ".join(header)), accepted))
    if missing:
        return []
    rows = [(row, record) for row, record in records[1:] if any(cell.strip() for cell in record)]
    if not rows:
        findings.add(Problem(path.name, "the file has no records", accepted="at least one row below the header"))
    for row, record in rows:
        if any(cell.strip() for cell in record[len(header) :]):
            message = f"row has {len(record)} cells"
            findings.add(Problem(path.name, message, row, accepted=f"at most {len(header)}, as in the header"))
    templates = [_template(path.name, row, dict(zip(header, record, strict=False))) for row, record in rows]
    _check_cells(templates, findings)
    return templates


def _template(file: str, row: int, record: dict[str, str]) -> _Template:
    # Rows may end early: the empty cells at their end are not written.
    return _Template({name: ListCell(file, row, name, record.get(name, "")) for name in TEMPLATE_COLUMNS})


def _check_cells(templates: list[_Template], findings: Findings) -> None:
    for template in templates:
        for column in ("prompt_id", "template"):
            check_text(template.cells[column], findings)
    ids = ((template["prompt_id"], template.cells["prompt_id"]) for template in templates)
    report_repeats(ids, findings, what="prompt_id")
    sentences = (((each["template"], each["dimension"]), each.cells["template"]) for each in templates)
    report_repeats(sentences, findings, what="template for its dimension")


def _is_left_out(template: _Template, vocabulary: Vocabulary) -> bool:
    concern = template["ethical_concern"]
    markup = concern.upper()
    return bool(concern) and markup in template.markups and markup not in vocabulary.communities


def _is_right(template: _Template, vocabulary: Vocabulary, input_name: str, findings: Findings) -> bool:
    cell, dimension = template.cells["template"], template.cells["dimension"]
    problems: list[Problem] = []
    known = [DIMENSION, *vocabulary.communities]
    for markup in template.markups:
        if markup not in known:
            accepted = ", ".join(f"{{{name}}}" for name in known)
            problems.append(cell.problem("unknown placeholder", value=f"{{{markup}}}", accepted=accepted))
    if re.search(r"[{}]", _MARKUP.sub("", cell.text)):
        problems.append(cell.problem("brace without its partner", accepted="{NAME}"))
    if (DIMENSION in template.markups) != bool(dimension.text):
        message = f"a dimension and {{{DIMENSION}}} in the template go together"
        problems.append(dimension.problem(message, accepted=f"both or neither; the template is {cell.text!r}"))
    elif dimension.text and dimension.text not in vocabulary.dimensions:
        hint = nearest_hint(dimension.text, vocabulary.dimensions)
        problems.append(dimension.problem(f"dimension without values in {input_name}", accepted=hint))
    expected = vocabulary.markup_of(template["ethical_concern"])
    if expected is not None and expected not in template.markups:
        message = "the template does not have this concern's placeholder"
        problems.append(template.cells["ethical_concern"].problem(message, accepted=f"{{{expected}}} in it"))
    for problem in problems:
        findings.add(problem)
    return not problems


def _known_attributes(templates: list[_Template], vocabulary: Vocabulary) -> tuple[str, ...]:
    """Attributes of which the templates say whether they leave them open, in the vocabulary's order."""
    concerns = {concern for concern, _ in vocabulary.communities.values()}
    concerns.update(*(template.targets for template in templates))
    found = {attribute_of(concern) for concern in concerns}
    return tuple(name for name in ATTRIBUTES if name in found)


def _filled(template: _Template, vocabulary: Vocabulary, *, known: Sequence[str]) -> Iterator[Prompt]:
    markups = template.markups
    choices = [
        vocabulary.dimensions[template["dimension"]] if markup == DIMENSION else vocabulary.communities[markup][1]
        for markup in markups
    ]
    fixed = [vocabulary.communities[markup][0] for markup in markups if markup != DIMENSION]
    dimension = [template["dimension"]] if template["dimension"] else []
    category = "_".join([*fixed, *dimension]) or PLAIN
    said = {
        attribute: statement_in(template["template"], attribute)
        for attribute in known
        if attribute not in map(attribute_of, (*template.targets, *fixed))
    }
    for values in itertools.product(*choices):
        filled = dict(zip(markups, values, strict=True))
        text = _sentence(template["template"], filled)
        stated = dict.fromkeys(known, "") | said | _stated_communities(filled, vocabulary)
        base = _base(template["template"], filled, dimension) if fixed else None
        concerns = template.targets - set(fixed)
        yield Prompt(category, _word(filled, text), text, concerns, stated=stated, base=base)


def _stated_communities(filled: Mapping[str, str], vocabulary: Vocabulary) -> dict[str, str]:
    """By attribute, what the communities that stand in a sentence are to us."""
    stated: dict[str, str] = {}
    for markup, community in filled.items():
        attribute = None if markup == DIMENSION else attribute_of(vocabulary.communities[markup][0])
        if attribute is not None:
            meaning = meaning_of(community, attribute, own={})
            statement = PARTLY if meaning is None else meaning.statement_of(attribute)
            stated[attribute] = statement if stated.get(attribute, statement) == statement else PARTLY
    return stated


def _base(template: str, filled: Mapping[str, str], dimension: list[str]) -> tuple[str, str, str]:
    """Category, word and text of the sentence without its communities, as another template may give it."""
    open_template = re.sub(r" ?\{(?!DIMENSION\})[^{}]*\}", "", template)
    left = {markup: value for markup, value in filled.items() if markup == DIMENSION}
    text = _sentence(open_template, left)
    return "_".join(dimension) or PLAIN, _word(left, text), text


def _word(filled: Mapping[str, str], text: str) -> str:
    return ", ".join(filled.values()) or text.rstrip(".")


def _sentence(template: str, values: dict[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        article, value = found.group(1), values[found.group(2)]
        if article is None:
            return value
        fitting = indefinite_article(value)
        return f"{fitting.capitalize() if article[0].isupper() else fitting} {value}"

    return _MARKUP_WITH_ARTICLE.sub(fill, template)


def _note(left_out: list[_Template], input_file: Path) -> str:
    concerns = ", ".join(dict.fromkeys(template["ethical_concern"] for template in left_out))
    number = "1 template" if len(left_out) == 1 else f"{len(left_out)} templates"
    return f"{number} left out: {input_file.name} lists no communities for {concerns}."
