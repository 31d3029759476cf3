"""A model card of a detector: what one study measured about it, in the words and numbers of its result folder.

The sections are those of Mitchell et al., "Model Cards for Model Reporting" (FAT* 2019), in own words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detector_bench import __version__
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.exports import card_text as md
from detector_bench.metrics import metric_info
from detector_bench.results.finished_study import FinishedStudy, ResultFolder
from detector_bench.results.metric_lookup import Number
from detector_bench.results.run_record import read_run_record
from detector_bench.tables.wording import attribute_in_words, labels_notes
from detector_bench.vocabulary import ALL, GROUND_TRUTH, OTHERS

_FILTERING = ("precision", "recall", "f1", "filter_rate")
_BIAS = (
    "model_bias_score_actual",
    "model_bias_score",
    "model_bias_score_deviation",
    "model_bias_score_error",
    "prompt_bias_score_difference",
    "prompt_bias_error",
)
_IN_DOUBT = ("accuracy", "filter_rate", "model_bias_score_deviation")

CARE = (
    "A verdict is what the detector sees in a synthetic image. It is not an identity, and nobody's "
    "identity can be "
    "read off a picture. The classes are those that the detector knows; people whom annotators put outside them "
    "(`others`) are counted, and the detector has no right answer for them."
)


def model_card(results: ResultFolder, detector: str) -> str:
    """The card as Markdown; every number is a row of the folder.

    Args:
        results: the result folder.
        detector: one of its detectors.

    Raises:
        ConfigError: there is no such detector, or it judges none of the study's attributes.
    """
    if detector not in results.settings.detectors:
        raise ConfigError(f"no detector {detector!r}: {nearest_hint(detector, results.settings.detectors)}")
    studies = [results.of_attribute(name) for name in results.settings.attributes]
    studies = [study for study in studies if detector in study.detectors]
    if not studies:
        raise ConfigError(
            f"{detector!r} judges none of {', '.join(results.settings.attributes)}: it has no numbers"
        )
    record = read_run_record(results.path)
    parts = [f"# Model card: {md.text(detector)}", _head(results), f"> {CARE}", "## What it is"]
    parts += [md.bullets(_identity(detector, record)), "## What it is for", _uses(studies)]
    parts += ["## What was varied", md.bullets(_factors(results, studies))]
    for study in studies:
        parts += [f"## Perceived {attribute_in_words(study.attribute)}", *_measured(study, detector)]
    parts += ["## Calibration", _calibration(results, detector, record)]
    parts += ["## To be careful about", md.bullets(_caveats(results, studies, detector))]
    parts += [
        "## Weights",
        _weights(detector, record),
        "## Tested with",
        md.bullets(_versions(results, detector, record)),
    ]
    return md.document(*parts)


def _head(results: ResultFolder) -> str:
    images = results.manifest.image_set
    return (
        f"Written by detector_bench {__version__} from the study “{md.text(results.manifest.study)}” on "
        "the image set "
        f"{md.text(images.get('name', ''))} ({int(images.get('images', 0)):,} images, fingerprint "
        f"`{md.text(str(images.get('fingerprint', ''))[:12])}`). What only people know is marked {md.TO_FILL_IN}."
    )


def _identity(detector: str, record: Mapping[str, Any]) -> Iterator[str]:
    own = _mapping(_mapping(record.get("detectors")).get(detector))
    identity = _mapping(own.get("identity"))
    if not identity:
        yield f"Kind and parameters: {md.unknown('there is no run.json that says what judged')}"
        return
    yield f"Kind: {md.text(identity.get('kind', ''))}, version {md.text(identity.get('version', ''))}"
    yield f"Judges: {md.words(identity.get('attributes', ()))}"
    stages = [_mapping(each).get("kind", "") for each in identity.get("stages", ())]
    yield f"Stages, in their order: {md.words(stages)}"
    yield f"Fingerprint of kind, parameters and weights: `{md.text(own.get('fingerprint', ''))}`"
    yield f"Trained on: {md.unknown('training data; see the sources of the weights')}"


def _uses(studies: Sequence[FinishedStudy]) -> str:
    perceived = ", ".join(attribute_in_words(study.attribute) for study in studies)
    return md.bullets(
        [
            f"Measuring how often images of T2I models show each class of perceived {perceived}, with "
            "errors as below.",
            "Not for judging people or photographs of people, nor for any decision about a person.",
            f"What its authors made it for: {md.unknown('their own statement')}",
        ]
    )


def _factors(results: ResultFolder, studies: Sequence[FinishedStudy]) -> Iterator[str]:
    first = studies[0]
    yield f"T2I models: {md.words(first.t2i_models)}"
    yield f"Categories of prompts: {md.words(first.categories)} ({len(first.prompts):,} prompts)"
    for study in studies:
        counted = study.lookup.images_labelled
        others = study.lookup.number(f"label_share_{OTHERS}", detector=GROUND_TRUTH)
        words = attribute_in_words(study.attribute)
        yield (
            f"Human labels of perceived {words}: {md.count(counted)} images; classes {md.words(study.classes)}; "
            f"`{OTHERS}` {md.share(others)}"
        )
    yield f"Not varied: light, pose, style, photographs of people: {md.unknown('how it does there')}"
    if results.settings.intervals.method == "none":
        yield "Intervals: the study asked for none"
    else:
        intervals = results.settings.intervals
        yield (
            f"In brackets stand intervals ({intervals.level * 100:g} %, method {md.text(intervals.method)}, by "
            f"{md.text(intervals.unit)}); a number without brackets has none. n counts what a number "
            "rests on: images, prompts for scores of a T2I model, classes for the balanced accuracy"
        )


def _measured(study: FinishedStudy, detector: str) -> Iterator[str]:
    if not study.lookup.has_labels:
        yield "No image has a label, so nothing says how right the detector is."
        return
    classes = study.classes
    yield "### Filtering"
    yield (
        "A clear image is the positive class; the filter rate is the share of human-low-quality images that were "
        "filtered out. Recall is the share of human-clear images kept: where it differs between classes, "
        "the filter "
        "alone shifts every bias score."
    )
    yield _table(study, detector, [*_FILTERING, *(f"recall_{name}" for name in classes)])
    yield "### Classification"
    yield "Over images that humans and detector both call clear."
    yield _table(study, detector, ["accuracy", *(f"accuracy_{name}" for name in classes), "balanced_accuracy"])
    yield "### Bias scores"
    yield (
        "What the detector reports of the T2I models beside what the labels say. Deviation and difference "
        "depend on "
        "the number of images per prompt; the two errors do not."
    )
    yield _table(study, detector, _BIAS)
    yield "### Verdicts"
    yield "Images of each kind: an error is no verdict, and is not counted as filtered."
    yield _table(study, detector, ("images", "images_clear", "images_filtered", "images_error", "images_not_run"))


def _table(study: FinishedStudy, detector: str, metrics: Sequence[str]) -> str:
    """A row for each metric that has a number anywhere, and a column for each T2I model."""
    models = [*study.t2i_models, *([ALL] if len(study.t2i_models) > 1 else [])]
    rows = []
    for name in metrics:
        numbers = [study.estimate(name, detector=detector, t2i_model=model) for model in models]
        if not all(number.missing for number in numbers):
            cells = (_cell(name, number) for number in numbers)
            rows.append([f"`{name}`", md.text(metric_info(name).meaning), *cells])
    if not rows:
        return "There are no numbers."
    head = ["all" if model == ALL else md.text(model) for model in models]
    return md.table(["Metric", "What it says", *head], rows, numbers_from=2)


def _cell(metric: str, number: Number) -> str:
    """The number, and what it rests on: `93.1 [90.0, 95.3] % (n 334)`."""
    shown = _value(metric, number)
    if number.missing or metric_info(metric).kind == "count":
        return shown
    left_out = f", {md.count(number.n_left_out)} left out" if number.n_left_out else ""
    return f"{shown} (n {md.count(number.n)}{left_out})"


def _value(metric: str, number: Number) -> str:
    kind = metric_info(metric).kind
    if kind == "count":
        return md.count(number.value)
    is_share = kind == "fraction" or metric == "model_bias_score_deviation"
    return md.share(number) if is_share else md.score(number)


def _calibration(results: ResultFolder, detector: str, record: Mapping[str, Any]) -> str:
    notes = [note for note in results.manifest.calibration_notes if note.startswith(f"{detector}:")]
    identity = json.dumps(_mapping(_mapping(record.get("detectors")).get(detector)).get("identity", {}))
    if not record:
        return f"Whether its scores are calibrated: {md.unknown('there is no run.json')}"
    if "score_calibration" not in identity:
        said = "No calibration file was used: the scores are the networks' own, and no error is promised."
    else:
        said = "Its scores go through a calibration file, which is listed among the weights."
    return md.document(said, md.bullets(map(md.text, notes))).strip()


def _caveats(results: ResultFolder, studies: Sequence[FinishedStudy], detector: str) -> Iterator[str]:
    for study in studies:
        words = attribute_in_words(study.attribute)
        for note in (*labels_notes(study.lookup), *study.lookup.no_verdict_notes(detector, study.t2i_models)):
            yield f"{words}: {md.text(note)}"
        if (why := results.manifest.not_comparable.get(study.attribute)) is not None:
            yield f"{words}: {md.text(why)}"
        for metric in _IN_DOUBT:
            band = study.label_doubt_band(metric, detector=detector)
            low, high = Number(band.low), Number(band.high)
            if not low.missing:
                yield (
                    f"{words}: had other labels been the truth, `{metric}` would be {_value(metric, low)} "
                    f"to {_value(metric, high)}"
                )
    yield "The numbers hold for these T2I models, prompts and labels; other images may be harder"
    yield f"Known failures beyond the numbers: {md.unknown('what was seen in the report')}"


def _weights(detector: str, record: Mapping[str, Any]) -> str:
    identity = json.dumps(_mapping(_mapping(record.get("detectors")).get(detector)).get("identity", {}))
    rows = []
    for name, each in _mapping(record.get("weights")).items():
        found = _mapping(each)
        hashes = [str(found.get("sha256", "")), *map(str, _mapping(found.get("files")).values())]
        if any(sha256 and sha256 in identity for sha256 in hashes):
            facts = [md.text(found.get(key) or "unknown") for key in ("licence", "source")]
            rows.append([md.text(name), *facts, f"`{md.text(found.get('sha256') or 'unknown')}`"])
            rows += [
                [md.text(f"{name}: {part}"), "", "", f"`{md.text(sha)}`"]
                for part, sha in _mapping(found.get("files")).items()
            ]
    if not rows:
        return f"Files: {md.unknown('no file of weights is recorded for it')}"
    return md.table(["File", "Licence", "Source", "sha256"], rows, numbers_from=4)


def _versions(results: ResultFolder, detector: str, record: Mapping[str, Any]) -> Iterator[str]:
    environment = _mapping(record.get("environment")) or results.manifest.environment
    packages = _mapping(environment.get("packages"))
    yield (
        f"detector_bench {md.text(environment.get('detector_bench', ''))}, Python "
        f"{md.text(environment.get('python', ''))}"
    )
    yield "Packages: " + ", ".join(f"{md.text(name)} {md.text(version)}" for name, version in packages.items())
    machine = _mapping(environment.get("machine"))
    named = [str(machine.get(key)) for key in ("system", "architecture", "processor") if machine.get(key)]
    yield f"Machine: {md.words(named) or 'unknown'}"
    identity = _mapping(_mapping(_mapping(record.get("detectors")).get(detector)).get("identity"))
    used = {str(_mapping(each).get("kind")) for each in identity.get("stages", ())}
    for label, stage in _mapping(record.get("stages")).items():
        if str(label).rpartition("-")[0] in used:
            where = md.words(_mapping(stage).get("devices", ())) or "from the cache"
            yield f"Stage {md.text(label)}: {md.text(_mapping(stage).get('precision', ''))}, on {where}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
