"""`croissant.json`: an exported image set as Croissant metadata with the fields for responsible AI.

Sources: the Croissant format 1.0 and its RAI vocabulary 1.0 (MLCommons). What nobody but people knows says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detector_bench.exports.carried_images import content_types
from detector_bench.exports.datasheet import CARE, missing
from detector_bench.exports.published_tables import FILE_NAME, PublishedTable
from detector_bench.exports.set_facts import ImageSetFacts
from detector_bench.runner.stored_predictions import sha256_of_file
from detector_bench.tables.wording import attribute_in_words
from detector_bench.vocabulary import ALL, LOW_QUALITY, OTHERS

CROISSANT_FILE = "croissant.json"

_CONFORMS_TO = ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"]
_MEDIA_TYPES = {".csv": "text/csv", ".jsonl": "application/jsonlines", ".parquet": "application/x-parquet"}
_NUMBERS = {"value": "sc:Float", "probability": "sc:Float", "cell_probability": "sc:Float", "weight": "sc:Float"}
_MEANINGS = {
    FILE_NAME: "The image's file in this folder.",
    "image_id": "Names the image in all tables.",
    "t2i_model": "The text-to-image model that made the image; empty: a photo that was only edited.",
    "prompt_id": "Names the prompt in all tables.",
    "prompt": "The sentence that the image was made from.",
    "category": "The group of prompts that the prompt belongs to.",
    "word": "The word that the prompt is about.",
    "seed_image_id": "The photo that the image was edited from.",
    "annotator": "Who gave the label.",
    "attribute": "What the label is about, such as perceived gender.",
    "label": f"A class, `{LOW_QUALITY}` (cannot be judged) or `{OTHERS}` (outside the classes).",
    "reason": "Why it cannot be judged.",
    "value": "A number beside the label, in the attribute's unit.",
}

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


@dataclass(frozen=True)
class PublishedAs:
    """What people said about the data set that its tables do not know; "" is unknown.

    Attributes:
        title: its name.
        licence: an identifier such as `cc-by-4.0`, or an address.
        creators: people or institutions.
    """

    title: str
    licence: str = ""
    creators: tuple[str, ...] = ()


def croissant(
    facts: ImageSetFacts,
    published: PublishedAs,
    folder: Path,
    *,
    images: PublishedTable,
    names: Sequence[str],
    tables: Sequence[PublishedTable],
) -> str:
    """The metadata of a folder whose other files are written.

    Args:
        facts: of the image set.
        published: what people said about it.
        folder: of the export.
        images: the table of images; a file name with `*` stands for Parquet files that hold the images.
        names: of the image files.
        tables: the others.
    """
    content: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": published.title,
        "description": describe(facts),
        "conformsTo": _CONFORMS_TO,
    }
    if published.licence:
        content["license"] = licence_address(published.licence)
    if published.creators:
        content["creator"] = [{"@type": "sc:Organization", "name": name} for name in published.creators]
    embedded = "*" in images.file
    content |= {"isLiveDataset": False, **_responsible_ai(facts)}
    whole = [each for each in tables if Path(each.file).suffix in _MEDIA_TYPES]
    files = [_file(folder, each.file) for each in (*(() if embedded else (images,)), *whole)]
    bundle = (
        _file_set("parquet-files", images.file, _MEDIA_TYPES[".parquet"])
        if embedded
        else _file_set("image-files", ["images/*", "images/**/*"], content_types(names))
    )
    content["distribution"] = [*files, bundle]
    content["recordSet"] = [_image_records(images, names, embedded=embedded), *map(_records, whole)]
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def describe(facts: ImageSetFacts) -> str:
    """The set in a few sentences."""
    labelled = ", ".join(f"perceived {attribute_in_words(each.attribute)}" for each in facts.annotations)
    return (
        f"{len(facts.made):,} images by {len(facts.t2i_models):,} text-to-image model(s) from "
        f"{len(facts.image_set.prompts):,} prompts, "
        + (f"with people's labels of {labelled}. " if labelled else "without labels. ")
        + "To check detectors of perceived attributes against, and to measure what the models show. "
        + CARE
    )


def licence_address(licence: str) -> str:
    """An identifier as its page in the list of SPDX, which takes any case; an address as it is."""
    return licence if "://" in licence else f"https://spdx.org/licenses/{licence}"


def _file(folder: Path, name: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{(folder / name).stat().st_size} B",
        "encodingFormat": _MEDIA_TYPES[Path(name).suffix],
        "sha256": sha256_of_file(folder / name),
    }


def _file_set(name: str, includes: str | list[str], media_type: str | list[str]) -> dict[str, Any]:
    return {"@type": "cr:FileSet", "@id": name, "name": name, "encodingFormat": media_type, "includes": includes}


def _image_records(images: PublishedTable, names: Sequence[str], *, embedded: bool) -> dict[str, Any]:
    source = {"fileSet": {"@id": "parquet-files"}} if embedded else {"fileObject": {"@id": images.file}}
    fields = [_field("images", name, {**source, "extract": {"column": name}}) for name in images.columns]
    picture = _field("images", "image", {}) | {"dataType": "sc:ImageObject", "description": "The picture."}
    if embedded:
        picture["source"] = {**source, "extract": {"column": "image"}, "transform": {"jsonPath": "bytes"}}
        return _record_set("images", [*fields, picture], key="images/image_id")
    pictures = {"fileSet": {"@id": "image-files"}}
    picture["source"] = {**pictures, "extract": {"fileProperty": "content"}}
    # Which picture belongs to which row. Readers join names of files more surely than whole paths, which some of
    # them do not take for text; where folders share names there are only paths.
    joined = fields[images.columns.index(FILE_NAME)]
    if len({name.rpartition("/")[2] for name in names}) == len(names):
        joined["source"]["transform"] = {"regex": ".*?([^/]+)$"}
        joined["references"] = {**pictures, "extract": {"fileProperty": "filename"}}
    else:
        joined["references"] = {**pictures, "extract": {"fileProperty": "fullpath"}}
    return _record_set("images", [*fields, picture], key="images/image_id")


def _records(table: PublishedTable) -> dict[str, Any]:
    name = Path(table.file).stem
    source = {"fileObject": {"@id": table.file}}
    fields = [_field(name, column, {**source, "extract": {"column": column}}) for column in table.columns]
    return _record_set(name, fields, key="prompts/prompt_id" if name == "prompts" else "")


def _record_set(name: str, fields: list[dict[str, Any]], *, key: str) -> dict[str, Any]:
    found: dict[str, Any] = {"@type": "cr:RecordSet", "@id": name, "name": name}
    if key:
        found["key"] = {"@id": key}
    return {**found, "field": fields}


def _field(records: str, name: str, source: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{records}/{name}",
        "name": name,
        "dataType": _NUMBERS.get(name, "sc:Text"),
        "source": dict(source),
    }
    if name in _MEANINGS:
        found["description"] = _MEANINGS[name]
    return found


def _responsible_ai(facts: ImageSetFacts) -> dict[str, Any]:
    people = [name for name in facts.annotators if name]
    several = sum(each.several for each in facts.annotations)
    first, last = min(_days(facts), default=""), max(_days(facts), default="")
    fields: dict[str, Any] = {
        "rai:dataCollection": " ".join(_collection(facts)),
        "rai:dataCollectionType": ["Others", *(["Manual Human Curator"] if people else [])],
        "rai:dataCollectionMissingData": ". ".join(missing(facts)),
        "rai:dataAnnotationProtocol": _protocol(facts),
        "rai:annotationsPerItem": "; ".join(
            f"{each.attribute}: {each.several} images by two or more annotators, "
            f"{each.labelled - each.several} by one"
            for each in facts.annotations
        )
        or "0",
        "rai:annotatorDemographics": "Unknown. To fill in: who the annotators are.",
        "rai:machineAnnotationTools": [],
        "rai:dataBiases": list(_biases(facts)),
        "rai:dataLimitations": "Labels are perceptions of a few annotators. The images show what these "
        "text-to-image models made of these prompts, and no population of people.",
        "rai:dataUseCases": "Testing. Checking detectors of perceived attributes, and measuring the bias of "
        "text-to-image models. Not for training or use of systems that classify people.",
        "rai:dataSocialImpact": CARE,
        "rai:personalSensitiveInformation": [
            "Perceived attributes of synthetic people: "
            + (", ".join(attribute_in_words(each.attribute) for each in facts.annotations) or "none"),
            *(["Photos of people that were edited."] if facts.photos else []),
        ],
        "rai:dataReleaseMaintenancePlan": "Unknown. To fill in: who keeps the data set.",
    }
    if several:
        fields["rai:dataAnnotationAnalysis"] = list(_analysis(facts))
    if first:
        fields["rai:dataCollectionTimeframe"] = [f"{day}T00:00:00Z" for day in (first, last)]
    return {name: value for name, value in fields.items() if value}


def _days(facts: ImageSetFacts) -> list[str]:
    return [day for each in facts.makings for day in (each.first, each.last) if day]


def _collection(facts: ImageSetFacts) -> Iterable[str]:
    yield f"Images were made by text-to-image models: {', '.join(facts.t2i_models)}."
    for each in facts.makings:
        counts = ", ".join(f"{count} {status}" for status, count in each.requests.items() if count)
        yield f"Requests to {each.t2i_model}: {counts}."


def _protocol(facts: ImageSetFacts) -> str:
    if not facts.annotations:
        return "There are no labels."
    return (
        "Annotators label each image by itself with a class, `low_quality` (cannot be judged) or `others` "
        "(outside "
        "the classes). The consensus is derived: the adjudicator's label, else the label on which all agree, else "
        "`low_quality`. Guideline and payment are unknown. To fill in."
    )


def _analysis(facts: ImageSetFacts) -> Iterable[str]:
    for each in facts.annotations:
        if each.several:
            yield f"{each.attribute}: annotators differ on {each.disagreed} of {each.several} images"
    for row in facts.agreement.fillna("").itertuples():
        if row.raters == "all_annotators":
            value = f"{float(str(row.value) or 'nan'):.3f}"
            yield f"{row.attribute}: {str(row.statistic).replace('_', ' ')} {value} on {row.n} images"


def _biases(facts: ImageSetFacts) -> Iterable[str]:
    models = [ALL] if len(facts.t2i_models) > 1 else facts.t2i_models
    for each in facts.annotations:
        found = [s for s in facts.shares if s.attribute == each.attribute and s.t2i_model in models]
        said = ", ".join(f"{s.label} {100 * s.number.value:.1f} %" for s in found if not s.number.missing)
        yield (
            f"Perceived {attribute_in_words(each.attribute)}, consensus over {each.labelled} labelled "
            f"images: {said}"
        )
