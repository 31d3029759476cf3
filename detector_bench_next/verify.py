"""Proof of a result folder: everything in it is made again from what it rests on, and compared.

Numbers and tables come from the stored predictions and the labels, folders of verbs (`*/made.json`) from their
writers, called on the original folder. Then the real folder is walked, not a list that it brings: each file is
equal, different, or made by nobody. Predictions are compared with the record in `results.json`, images with the
content that was predicted; detectors are asked again only with `recompute`.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout

from detector_bench_next import registry
from detector_bench_next.attributes import Status
from detector_bench_next.detector import Frame, Stages, fingerprint, identity
from detector_bench_next.errors import ConfigError, DetectorBenchError, ImageError
from detector_bench_next.files import sha256_file
from detector_bench_next.images import decode
from detector_bench_next.results import Difference, Results, Verification, compare_folder
from detector_bench_next.runner import content_of
from detector_bench_next.study import Study
from detector_bench_next.weights import Where

Link = Literal["proved", "open", "false"]
NEAR = 1e-4
"""How near scores and values must come when an image is predicted again."""


def verify(
    results: Results, *, weights_dir: Path | None = None, recompute: int = 0, seed: int = 0
) -> Verification:
    """Make a result folder again and compare.

    Args:
        results: an opened folder.
        weights_dir: folder of weights; with it the fingerprints of detectors are compared, too.
        recompute: images, drawn with `seed`, that are predicted again without cache; services are not asked.
        seed: of that draw.

    Raises:
        ConfigError: the results are in memory alone, or somebody is writing the folder.
        DataError: the image set or a file of predictions is damaged.
    """
    if recompute < 0 or seed < 0:
        raise ConfigError(f"--recompute {recompute}, --seed {seed}: accepted are numbers from 0")
    if results.folder is None:
        raise ConfigError("these results are in memory alone; write them first")
    folder, study = results.folder, Study.of(results.folder, results._image_set)
    lock = folder / "predictions" / "_locks" / "results.lock"
    record = sha256_file(folder / "results.json")
    links: dict[str, Link] = {}
    found = list(_evidence(results, folder))
    links["predictions and study are those of results.json"] = "false" if found else "proved"
    with TemporaryDirectory() as made:
        again = Path(made) / folder.name
        again.mkdir()
        try:
            if lock.parent.is_dir():
                with FileLock(lock).acquire(timeout=0):
                    pass
            study.evaluate(again, predictions=folder, allow_incomplete=True)
        except Timeout:
            raise ConfigError(f"{folder}: is being written; verify it when that is done") from None
        unknown = _made_by_verbs(results, folder, again)
        differences = compare_folder(again, folder)
    numbers = [d for d in differences if len(Path(d.file).parts) == 1 or d.file.startswith(("cells/", "tables/"))]
    rest = [d for d in differences if d not in numbers]
    links["numbers and tables come out of predictions and labels"] = "false" if numbers else "proved"
    if rest or unknown or any(folder.glob("*/made.json")):
        wrong = [d for d in rest if d.kind != "open"]
        links["pages and figures come out of the numbers"] = "false" if wrong else "open" if unknown else "proved"
    images, changed = _images(results)
    links["images are those that were predicted"] = images
    links["detectors are those of the study"] = _detectors(results, study, weights_dir)
    links[
        f"predictions come out again ({recompute} images)" if recompute else "predictions were taken as they are"
    ] = "open" if not recompute else "proved"
    if recompute:
        other = _predicted_again(results, study, weights_dir, recompute, seed)
        changed += other
        if other:
            links[f"predictions come out again ({recompute} images)"] = "false"
    if sha256_file(folder / "results.json") != record:
        raise ConfigError(f"{folder}: was written while it was verified; verify it again")
    return Verification(links, (*found, *numbers, *rest, *unknown, *changed), record)


def _evidence(results: Results, folder: Path) -> list[Difference]:
    """Files that results.json records and that are others now: predictions, paid requests, study, attributes."""
    manifest, found = results.manifest, []
    recorded = {
        **{
            f"predictions/{d}/{n}": s
            for d, own in manifest["predictions"].items()
            for n, s in own["files"].items()
        },
        **{f"paid/{name}": sha256 for name, sha256 in manifest.get("paid", {}).items()},
        **manifest["evidence"],
    }
    root = results.predictions.folder.parent
    for name, sha256 in recorded.items():
        path = (root if name.startswith(("predictions/", "paid/")) else folder) / name
        if not path.is_file():
            found.append(Difference(name, "gone"))
        elif sha256_file(path) != sha256:
            found.append(Difference(name, "different", "its sha256 is not the recorded one"))
    for detector in results.predictions.detectors:
        known = manifest["predictions"].get(detector, {}).get("files", {})
        new = sorted(set(results.predictions.files(detector)) - set(known)) if known else []
        found += [Difference(f"predictions/{detector}/{name}", "made by nobody") for name in new]
    return found


def _made_by_verbs(results: Results, folder: Path, again: Path) -> list[Difference]:
    """Call the writer of each folder of a verb; those that nobody here can write are told."""
    found = []
    for record in sorted(folder.glob("*/made.json")):
        name = record.parent.name
        try:
            made = json.loads(record.read_text(encoding="utf-8"))
            writer = registry.find("folder", made["verb"]).thing
            writer(results, again / name, **made["options"])
        except (OSError, ValueError, KeyError, TypeError, DetectorBenchError) as error:
            why = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | TypeError) else str(error)
            found.append(Difference(f"{name}/made.json", "made by nobody", " ".join(why.split())))
    return found


def _images(results: Results) -> tuple[Link, list[Difference]]:
    """Contents of the images against those that were predicted."""
    try:
        image_set = results.image_set
    except ConfigError:
        return "open", []
    read: dict[str, str] = {}
    for detector in results.predictions.detectors:
        table = results.predictions.table(detector, ["image_id", "image_sha256"])
        read |= {i: s for i, s in zip(*(table[c].to_pylist() for c in table.column_names), strict=True) if s}
    found = []
    images = image_set.images
    regions = images["region"].astype("str") if "region" in images else [""] * len(images)
    for image_id, path, region in zip(images["image_id"], images["path"], regions, strict=True):
        if image_id in read and path:
            try:
                sha256 = content_of(image_set.store.read(path), region)
            except ImageError as error:
                found.append(Difference(f"image {image_id}", "gone", str(error)))
                continue
            if sha256 != read[image_id]:
                found.append(Difference(f"image {image_id}", "different", "not the content that was predicted"))
    return ("false" if found else "proved" if read else "open"), found


def _detectors(results: Results, study: Study, weights_dir: Path | None) -> Link:
    """Identity of each detector's files against the study, with weights at hand their fingerprint, too."""
    detectors, where = study.build_detectors(), Where((weights_dir,) if weights_dir else (), beside=study._beside)
    link: Link = "proved"
    for detector in detectors:
        if detector.name not in results.predictions.detectors:
            continue
        maker = results.predictions.maker(detector.name)
        if maker is None:
            link = "open"
        elif maker[1] != json.loads(json.dumps(identity(detector))):
            return "false"
        elif weights_dir is not None:
            if detector.lacks(where):
                link = "open"
            elif fingerprint(detector, where) != maker[0]:
                return "false"
    return link


def _predicted_again(
    results: Results, study: Study, weights_dir: Path | None, recompute: int, seed: int
) -> list[Difference]:
    """Predict drawn images again and compare with what is stored."""
    where = Where((weights_dir,) if weights_dir else (), beside=study._beside)
    detectors = [d for d in study.build_detectors() if d.name in results.predictions.detectors and not d.sends()]
    if lacking := {d.name: d.lacks(where) for d in detectors if d.lacks(where)}:
        raise ConfigError("; ".join(f"{name}: {', '.join(why)}" for name, why in lacking.items()))
    images = results.image_set.images
    at = np.random.default_rng(seed).choice(len(images), min(recompute, len(images)), replace=False)
    frames = []
    for row in images.iloc[np.sort(at)].astype("str").to_dict("records"):
        frame = Frame(row["image_id"], row["path"], row.get("region", ""))
        try:
            data = results.image_set.store.read(frame.path)
            frame.sha256 = content_of(data, frame.region)
            frame.pixels = decode(data, frame.region, max_pixels=study.max_pixels)
        except ImageError as error:
            frame.error = str(error)
        frames.append(frame)
    made: dict[Any, Any] = {}
    for detector in detectors:
        for p in Stages([detector], where).predict(frames):
            made[detector.name, p.image_id, p.attribute] = p
    found = []
    for detector in detectors:
        stored = results.predictions.table(detector.name).to_pandas()
        for row in stored[stored["image_id"].isin([f.image_id for f in frames])].itertuples():
            new = made.get((detector.name, row.image_id, row.attribute))
            if new is None or str(new.status) == row.status == str(Status.ERROR):
                continue
            words = (str(new.status), new.label or "") == (row.status, "" if pd.isna(row.label) else row.label)
            numbers = [(new.score, row.score), (new.value, row.value)]
            near = all(
                abs(float(a) - float(b)) <= NEAR * max(1, abs(float(b)))
                for a, b in numbers
                if a is not None and not pd.isna(b)
            )
            if not (words and near):
                where_it_is = f"predictions/{detector.name}, image {row.image_id}, {row.attribute}"
                now = f"{row.status} {row.label} is {new.status} {new.label} when predicted again"
                found.append(Difference(where_it_is, "different", now))
    return found
