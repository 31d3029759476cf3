"""A datasheet of an image set: what is known about it, in the order in which a reader asks, and what is not.

The questions are those of Gebru et al., "Datasheets for Datasets" (Communications of the ACM 64, 2021), in own
words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from detector_bench import __version__
from detector_bench.exports import card_text as md
from detector_bench.exports.set_facts import LEVEL, Annotation, ImageSetFacts
from detector_bench.tables.wording import attribute_in_words, fixed
from detector_bench.vocabulary import ALL, LOW_QUALITY, OTHERS
from detector_bench.vocabulary.generations import GENERATIONS_FILE, GenerationStatus

CARE = (
    "Perceived gender, age group, race and the like are what people see in a synthetic image. They are not an "
    "identity, and nobody's identity can be read off a picture. Labels that fit none of the classes are kept as "
    "`others`, and never dropped."
)

_STATISTICS = {
    "percent_agreement": "Agreement",
    "cohen_kappa": "Cohen's kappa",
    "fleiss_kappa": "Fleiss' kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
}
_MOST_NAMES = 20


class CardSection(NamedTuple):
    """A part of a card: its heading, and Markdown below it."""

    heading: str
    body: str


def datasheet(facts: ImageSetFacts) -> str:
    """The whole datasheet as Markdown."""
    origin = "" if facts.results is None else f", and from the result folder {md.text(_folder_name(facts))}"
    head = (
        f"Written by detector_bench {__version__} from the image set's own tables{origin}. What only "
        "people know is "
        f"marked {md.TO_FILL_IN}."
    )
    sections = [part for each in datasheet_sections(facts) for part in (f"## {each.heading}", each.body)]
    return md.document(f"# Datasheet: {md.text(facts.image_set.name)}", head, f"> {CARE}", *sections)


def datasheet_sections(facts: ImageSetFacts) -> list[CardSection]:
    """The datasheet's parts, which a data set's card has, too."""
    return [
        CardSection("Why it was made", _why()),
        CardSection("What is in it", _composition(facts)),
        CardSection("How the images were made", _collection(facts)),
        CardSection("Who labelled, and how far they agree", _labelling(facts)),
        CardSection("What the labels say", distribution(facts)),
        CardSection("What is missing", md.bullets(missing(facts))),
        CardSection("What it is for, and what not", _uses()),
        CardSection("Licence and upkeep", _upkeep()),
    ]


def _folder_name(facts: ImageSetFacts) -> str:
    return "" if facts.results is None else facts.results.path.resolve().name


def _why() -> str:
    return md.bullets(
        [
            f"For which question: {md.unknown('purpose')}",
            f"By whom, and who paid: {md.unknown('people, institution, funding')}",
        ]
    )


def _composition(facts: ImageSetFacts) -> str:
    images, prompts = facts.image_set.images, facts.image_set.prompts
    fewest, median, most = facts.per_cell
    models = len(facts.t2i_models)
    lines = [
        f"{len(images):,} images: {len(facts.made):,} by {md.plural(models, 'T2I model')} from "
        f"{md.plural(len(prompts), 'prompt')}"
        + (
            f", and {md.plural(facts.photos, 'photo')} that {facts.edited:,} of them were edited from"
            * bool(facts.photos)
        ),
        f"Images per T2I model and prompt, where there are any: {fewest:,} to {most:,}, median {median:g}",
        "Files: "
        + ", ".join(f"{count:,} {md.text(name or 'without an ending')}" for name, count in facts.formats.items()),
        "An image is one record. Its prompt, T2I model and labels are linked to it by `image_id` and `prompt_id`.",
    ]
    if own := [name for name in facts.image_set.attributes if name not in ("gender", "age", "race", "skin_tone")]:
        lines.append(f"Attributes of its own, defined in `attributes/`: {md.words(own)}")
    if stated := [name.removeprefix("stated_") for name in prompts.columns if name.startswith("stated_")]:
        lines.append(f"Prompts say what they ask for by themselves of: {md.words(stated)}")
    counts = facts.by_category
    rows = [
        [md.text(name), *(f"{int(each):,}" for each in row)]
        for name, row in zip(counts.index, counts.to_numpy(), strict=True)
    ]
    head = ["Category", "Prompts", *map(md.text, counts.columns[1:])]
    return md.document(md.bullets(lines), md.table(head, rows)).strip()


def _collection(facts: ImageSetFacts) -> str:
    if not facts.makings:
        return md.bullets(
            [
                f"There is no `{GENERATIONS_FILE}`, so nobody knows from the set how many requests were "
                "refused or "
                "failed, nor with which seeds and parameters the images were made.",
                f"T2I models and their versions: {md.unknown('checkpoint and commit, or service and date')}",
            ]
        )
    statuses = [each.value for each in GenerationStatus]
    rows = [
        [
            md.text(each.t2i_model),
            *(f"{each.requests[name]:,}" for name in statuses),
            md.share(each.refusals),
        ]
        for each in facts.makings
    ]
    head = ["T2I model", *(name.capitalize() for name in statuses), "Refused"]
    lines = []
    for each in facts.makings:
        period = each.first if each.first == each.last else f"{each.first} to {each.last}"
        said = [md.text(each.checkpoint) or "its own name is unknown", md.text(each.parameters), period]
        lines.append(f"{md.text(each.t2i_model)}: {'; '.join(filter(None, said))}")
    note = (
        "Refused: share of the answered requests (made and blocked) that the T2I model, or the service around it, "
        f"blocked; in brackets Wilson's interval at {LEVEL * 100:g} %. What refused images would have "
        "shown is unknown."
    )
    return md.document(md.table(head, rows), note, md.bullets(lines)).strip()


def _labelling(facts: ImageSetFacts) -> str:
    if not facts.annotations:
        return "There are no labels."
    rows = [[attribute_in_words(each.attribute), *_annotation_cells(each)] for each in facts.annotations]
    head = [
        "Attribute",
        "Annotators",
        "Labelled",
        "Unlabelled",
        "By two or more",
        "Of these, differing",
        "Adjudicated",
    ]
    people = [name for each in facts.annotations for name in each.labels_by]
    counts = {
        name: sum(each.labels_by.get(name, 0) for each in facts.annotations) for name in dict.fromkeys(people)
    }
    shown = [f"{md.text(name)} {count:,}" for name, count in list(counts.items())[:_MOST_NAMES]]
    more = f", and {len(counts) - _MOST_NAMES:,} more" if len(counts) > _MOST_NAMES else ""
    lines = [
        f"Labels by annotator: {', '.join(shown)}{more}",
        "Consensus: the adjudicator's label if there is one, else the label on which all annotators agree, else "
        f"`{LOW_QUALITY}` for want of agreement. It is derived, and never stored.",
        f"Who the annotators are, what they were told and paid: {md.unknown('people, guideline, payment')}",
    ]
    agreed = _agreement(facts)
    return md.document(md.table(head, rows), md.bullets(lines), agreed).strip()


def _annotation_cells(each: Annotation) -> list[str]:
    numbers = (each.labelled, each.unlabelled, each.several, each.disagreed, each.adjudicated)
    return [f"{len(each.labels_by):,}", *(f"{number:,}" for number in numbers)]


def _agreement(facts: ImageSetFacts) -> str:
    rows = facts.agreement
    if rows.empty:
        return "No agreement can be told: no two annotators labelled enough of the same images."
    lines = []
    keys = ["attribute", "raters", "first", "second"]
    for (attribute, raters, first, second), group in rows.fillna("").groupby(keys, sort=False):
        values = group.set_index("statistic")
        who = "all" if raters == "all_annotators" else f"{md.text(first)} and {md.text(second)}"
        cells = [_statistic(values, name) for name in _STATISTICS]
        lines.append([attribute_in_words(str(attribute)), who, f"{int(values['n'].max()):,}", *cells])
    note = (
        "Agreement is over the labels as first given, `low_quality` and `others` included; the adjudicator is no "
        "annotator here. Kappa and alpha: 1 is full agreement, 0 what chance gives."
    )
    return md.document(
        md.table(["Attribute", "Annotators", "Images", *_STATISTICS.values()], lines, numbers_from=2), note
    )


def _statistic(values: pd.DataFrame, name: str) -> str:
    if name not in values.index:
        return ""
    value = float(values["value"].to_numpy(dtype=float)[values.index.get_loc(name)])
    return f"{fixed(100 * value, decimals=1)} %" if name == "percent_agreement" else fixed(value, decimals=2)


def distribution(facts: ImageSetFacts) -> str:
    """The consensus by T2I model, one table for each attribute, with the intervals and what they mean."""
    parts = []
    for annotation in facts.annotations:
        shares = [each for each in facts.shares if each.attribute == annotation.attribute]
        numbers = {(each.label, each.t2i_model): each.number for each in shares}
        labels, models = (list(dict.fromkeys(names)) for names in zip(*numbers, strict=True))
        images = {model: max(numbers[label, model].n for label in labels) for model in models}
        head = [
            f"{'all' if name == ALL else md.text(name)} ({md.plural(int(images[name]), 'image')})"
            for name in models
        ]
        rows = [[f"`{label}`", *(md.share(numbers[label, model]) for model in models)] for label in labels]
        parts.append(f"Perceived {attribute_in_words(annotation.attribute)}, share of the labelled images:")
        parts.append(md.table(["Label", *head], rows))
    if not parts:
        return "Nothing: there are no labels."
    return md.document(*parts, _interval_note(facts)).strip()


def _interval_note(facts: ImageSetFacts) -> str:
    said = []
    stored = () if facts.results is None else facts.results.settings.attributes
    own = [each.attribute for each in facts.annotations if each.attribute not in stored]
    if facts.results is not None:
        intervals = facts.results.settings.intervals
        how = f"{intervals.level * 100:g} %, method {md.text(intervals.method)}, by {md.text(intervals.unit)}"
        shown = (
            "without intervals, which it did not ask for"
            if intervals.method == "none"
            else f"with its intervals ({how})"
        )
        said.append(f"{md.words(stored).capitalize()}: as the study's metrics.csv says, {shown}.")
    if own:
        begin = "In brackets" if facts.results is None else f"{md.words(own).capitalize()}, in brackets"
        said.append(
            f"{begin}: Wilson's interval at {LEVEL * 100:g} % over the labelled images, as if each were drawn by "
            "itself. It is about other images of these prompts, not about other prompts."
        )
    said.append(
        f"`{LOW_QUALITY}`: the attribute cannot be judged from the image, or the annotators do not agree. "
        f"`{OTHERS}`: "
        "outside the classes; kept and counted apart."
    )
    if any(each.unlabelled for each in facts.annotations):
        said.append(
            "Shares of labelled images speak for the others only as far as those were chosen at random: "
            "`detector-bench estimate` says what holds for all."
        )
    return " ".join(said)


def missing(facts: ImageSetFacts) -> Iterator[str]:
    """What the set does not say, a line each."""
    for each in facts.annotations:
        if each.unlabelled:
            of = each.labelled + each.unlabelled
            yield (
                f"{each.unlabelled:,} of {of:,} images have no label of perceived "
                f"{attribute_in_words(each.attribute)}"
            )
        if len(each.labels_by) < 2:
            words = attribute_in_words(each.attribute)
            yield f"Perceived {words} was labelled by one annotator alone: how far people agree is unknown"
    if not facts.annotations:
        yield "There are no labels"
    if facts.sample is not None:
        how = f"{len(facts.sample.rows):,} images (design: {facts.sample.design.value})"
        drawn = (
            f"Labels were asked of a random sample of {how}" if facts.sample.drawn else f"Sample: all other {how}"
        )
        apart = len(facts.sample.calibration)
        yield drawn + (f"; {apart:,} more were set apart for a calibration" if apart else "")
    for making in facts.makings:
        lost = {name: making.requests[name] for name in ("blocked", "error", "waiting") if making.requests[name]}
        if lost:
            said = ", ".join(f"{count:,} {name}" for name, count in lost.items())
            yield f"Requests without an image, {md.text(making.t2i_model)}: {said}"
    if facts.generations is None:
        yield f"What became of requests: there is no `{GENERATIONS_FILE}`"
    empty = int((facts.image_set.prompts["prompt"] == "").sum())
    if empty:
        yield f"The sentence of {md.plural(empty, 'prompt')}: the cell is empty"
    cells = facts.by_category
    holes = int((cells.drop(columns="prompts") == 0).sum().sum())
    if holes:
        cases = cells.size - len(cells)
        yield f"Images of a T2I model in a category: there are none in {holes:,} of {cases:,} cases"
    yield (
        "Who is shown: nobody on purpose, as the images are synthetic"
        if not facts.photos
        else (
            f"Whether the people in the {md.plural(facts.photos, 'photo')} agreed: "
            f"{md.unknown('consent, source of the photos')}"
        )
    )


def _uses() -> str:
    return md.bullets(
        [
            "For: checking detectors of perceived attributes against human labels, and measuring what T2I "
            "models show.",
            "Not for: classifying people, training systems that do, or saying anything about a person's identity.",
            f"Used so far in: {md.unknown('papers, reports')}",
        ]
    )


def _upkeep() -> str:
    return md.bullets(
        [
            f"Licence of images and labels: {md.unknown('licence; the terms of the T2I models hold, too')}",
            f"Who keeps it, and where mistakes are told: {md.unknown('contact')}",
        ]
    )
