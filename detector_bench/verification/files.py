"""The links that rest on files alone: is everything that a result folder lists there, and as it was written?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.dataset.published_text import without_folders
from detector_bench.figures.figure_files import RECORD as FIGURES_RECORD
from detector_bench.results.manifest import NAME as RESULTS
from detector_bench.results.manifest import STUDY_FILE, Manifest
from detector_bench.results.verification_record import Link, Outcome
from detector_bench.runner.prediction_store import written_maker
from detector_bench.runner.shard_ledger import ShardLedger
from detector_bench.runner.stored_predictions import sha256_of_file
from detector_bench.sealed import read_sealed
from detector_bench.site.pages import MANIFEST as REPORT_RECORD

MOST_PROBLEMS = 20


def link(name: str, outcome: Outcome, says: str, problems: Iterable[str] = ()) -> Link:
    """A link with the first of its problems, without this machine's folders: it is published, and cited."""
    found = [without_folders(problem) for problem in problems]
    if len(found) > MOST_PROBLEMS:
        found = [*found[:MOST_PROBLEMS], f"... and {len(found) - MOST_PROBLEMS:,} more"]
    return Link(name=name, outcome=outcome, says=without_folders(says), problems=tuple(found))


def files_of_results(folder: Path, manifest: Manifest) -> Link:
    """Every file that the evaluation wrote, against the sha256 in `results.json`."""
    problems = unlike(folder, manifest.proof.files)
    of = len(manifest.proof.files)
    written = [*manifest.files, STUDY_FILE, *(f"tables/{name}.csv" for name in manifest.tables)]
    untold = [name for name in written if name not in manifest.proof.files]
    problems += [f"{name}: {RESULTS} does not say what was written" for name in untold]
    says = f"{of - len(problems) + len(untold):,} of {of:,} files of the evaluation are as they were written"
    return link("files", Outcome.FALSE if problems else Outcome.PROVED, says, problems)


def unlike(folder: Path, listed: Mapping[str, str]) -> list[str]:
    """The files of a folder that do not have the sha256 that is listed, a line each."""
    problems = []
    for name, sha256 in listed.items():
        path = folder / name
        if not _is_below(path, folder):
            problems.append(f"{name}: a path that leads out of the folder")
        elif (found := sha256_of_file(path)) is None:
            problems.append(f"{name}: not there")
        elif found != sha256:
            problems.append(f"{name}: not as it was written")
    return problems


def _is_below(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


def predictions(judged: Path, manifest: Manifest) -> Link:
    """The files of predictions: against `results.json`, their shards' manifests, and their own metadata."""
    problems: list[str] = []
    files = rows = 0
    if not judged.is_dir():
        return link(
            "predictions", Outcome.OPEN, f"the predictions are not here: there is no folder {judged.name!r}"
        )
    vouched = ShardLedger(judged).vouched()
    counts: dict[str, Counter[tuple[str, str]]] = {}
    lacking = [name for name in manifest.settings.detectors if name not in manifest.proof.predictions]
    problems += [f"{name}: results.json does not say which files its predictions are" for name in lacking]
    for name, judged_files in manifest.proof.predictions.items():
        problems += [f"{name}/{problem}" for problem in unlike(judged / name, judged_files.files)]
        counts[name] = Counter()
        for file, sha256 in judged_files.files.items():
            path = judged / name / file
            files += 1
            if vouched.get(path, sha256) != sha256:
                problems.append(f"{name}/{file}: its shard's manifest names another sha256")
            if not path.is_file():
                continue
            try:
                problems += [f"{name}/{file}: {why}" for why in _wrong_maker(path, judged_files.fingerprint)]
                rows += _count(path, counts[name])
            except (OSError, ValueError, pa.ArrowException) as error:
                problems.append(f"{name}/{file}: cannot be read ({str(error).splitlines()[0]})")
    problems += _other_counts(manifest, counts)
    says = f"{rows:,} predictions in {files:,} files are those that were counted"
    return link("predictions", Outcome.FALSE if problems else Outcome.PROVED, says, problems)


def _wrong_maker(path: Path, fingerprint: str | None) -> list[str]:
    made = written_maker(path)
    if made.fingerprint != fingerprint:
        return ["it is of another version of the detector than results.json says"]
    return [made.damage] if made.damage else []


def _count(path: Path, counts: Counter[tuple[str, str]]) -> int:
    """Add the rows of a file by attribute and status; returns how many there are."""
    with pq.ParquetFile(path, read_dictionary=["attribute", "status"], page_checksum_verification=True) as file:
        for batch in file.iter_batches(batch_size=1_000_000, columns=["attribute", "status"]):
            found = pa.Table.from_batches([batch]).group_by(["attribute", "status"]).aggregate([([], "count_all")])
            for row in found.to_pylist():
                counts[row["attribute"], row["status"]] += row["count_all"]
        return int(file.metadata.num_rows)


def _other_counts(manifest: Manifest, counts: Mapping[str, Counter[tuple[str, str]]]) -> list[str]:
    """Where `results.json` counts other verdicts than the files hold; parts of a run may repeat each other."""
    problems = []
    for name, by_attribute in manifest.counts.items():
        listed = manifest.proof.predictions.get(name)
        if listed is None or any("part-" in file for file in listed.files):
            continue
        for attribute, by_status in by_attribute.items():
            for status, number in by_status.items():
                found = counts.get(name, Counter())[attribute, status]
                if found != number:
                    problems.append(
                        f"{name}, {attribute}: {found:,} images are {status}, results.json counts {number:,}"
                    )
    return problems


def figures(folder: Path, seal: str) -> Link | None:
    """The figures in a folder, if there are any: as they were drawn, and from these results."""
    return _derived("figures", folder, FIGURES_RECORD, seal)


def report(folder: Path, seal: str) -> Link | None:
    """A report's pages and pictures, if there is one: as they were written, and about these results."""
    return _derived("report", folder, REPORT_RECORD, seal)


def _derived(name: str, folder: Path, record: str, seal: str) -> Link | None:
    if not folder.is_dir():
        return None
    try:
        content = read_sealed(folder / record)
    except FileNotFoundError:
        return link(name, Outcome.OPEN, f"no {record} says what the files in {folder.name}/ show")
    except (OSError, ValueError) as error:
        return link(name, Outcome.FALSE, f"{folder.name}/{record} cannot be relied on", [str(error)])
    listed = content.get("sha256")
    if not isinstance(listed, dict):
        return link(name, Outcome.OPEN, f"{folder.name}/ is of an older version, which kept no sha256")
    problems = unlike(folder, {str(file): str(sha256) for file, sha256 in listed.items()})
    says = f"{len(listed) - len(problems):,} of {len(listed):,} files in {folder.name}/ are as they were written"
    if content.get("results") != seal:
        # Right once, but not about these numbers.
        problems.insert(0, f"{folder.name}/ shows other results than those in this folder: write it anew")
    return link(name, Outcome.FALSE if problems else Outcome.PROVED, says, problems)
