"""An image set or a finished study as JSON lines: one image per line, with all labels and all verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from detector_bench.atomic_files import replacing
from detector_bench.dataset import ImageSet
from detector_bench.dataset.image_paths import shown
from detector_bench.dataset.published_text import without_folders
from detector_bench.errors import ConfigError
from detector_bench.exports.carried_images import Progress
from detector_bench.exports.export_folder import WrittenExport
from detector_bench.exports.image_records import ImageRecord, image_records, verdict_tables
from detector_bench.results.finished_study import ResultFolder


def export_json_lines(
    image_set: ImageSet,
    out: Path,
    *,
    results: ResultFolder | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WrittenExport:
    """Write the file, whole or not at all.

    Empty facts have no key. `verdicts` are as the detectors gave them: status, reason, label, score, and the value
    and raw answer where there are any. Images are named, not brought.

    Args:
        image_set: images, prompts and labels.
        out: the file.
        results: whose verdicts come along.
        overwrite: replace the file.
        progress: is told how many images are done, of how many.

    Raises:
        ConfigError: the file exists.
        DetectorBenchError: predictions are not there, or the disk is full.
    """
    if out.exists() and not overwrite:
        raise ConfigError(f"{str(out)!r} exists; name another file with --out, or replace it with --overwrite")
    verdicts = None if results is None else verdict_tables(results)
    total = len(image_set.image_ids)
    with replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for done, record in enumerate(image_records(image_set, verdicts), start=1):
            file.write(json.dumps(_line(record, with_verdicts=results is not None), ensure_ascii=False) + "\n")
            if progress is not None:
                progress(done, total)
    hidden = [path for path in image_set.table("images").column("path").to_pylist() if shown(path) != path]
    said = (
        f"without what follows their ?, which may be secret: the addresses of {len(hidden):,} of {total:,} images"
    )
    notes = (said,) if hidden else ()
    return WrittenExport(total, notes)


def _line(record: ImageRecord, *, with_verdicts: bool) -> dict[str, Any]:
    line: dict[str, Any] = {"image_id": record.facts["image_id"], "path": shown(record.path), **record.facts}
    line |= {"labels": record.labels, "consensus": record.consensus}
    if with_verdicts:
        line["verdicts"] = [
            {name: without_folders(text) if name == "reason" else text for name, text in verdict.items()}
            for verdict in record.verdicts
        ]
    return line
