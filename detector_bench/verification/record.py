"""What `results.json` and the folder `tables` say besides long tables: does it follow from the same evaluation?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from detector_bench.results.finished_study import ResultFolder
from detector_bench.results.manifest import EvaluationSettings, Manifest
from detector_bench.results.proof import digests
from detector_bench.study_results import stored_score_tables, stored_tables
from detector_bench.tables import write_tables

_FOLDER = "tables/"
_SAID = ("study", "seeds", "counts", "not_comparable", "tolerance", "estimate_notes", "score_notes", "tables")


def unlike_settings(manifest: Manifest, settings: EvaluationSettings) -> list[str]:
    """The settings that `results.json` names otherwise than the folder's study, a line each.

    Score systems' settings name their files as they are seen from a folder, so that they are not compared.
    """
    then, now = (each.model_dump(mode="json", exclude={"scores"}) for each in (manifest.settings, settings))
    return [
        f"results.json: {name} is {then[name]!r}, in the study {now[name]!r}"
        for name in then
        if then[name] != now[name]
    ]


def unlike_counts(manifest: Manifest, counts: Mapping[str, Any]) -> list[str]:
    """Where `results.json` counts other verdicts than the predictions hold, a line for each detector."""
    names = dict.fromkeys([*manifest.counts, *counts])
    return [
        f"results.json: it counts other verdicts of {name}"
        for name in names
        if manifest.counts.get(name) != counts.get(name)
    ]


def unlike_record(manifest: Manifest, again: Manifest) -> list[str]:
    """What `results.json` says otherwise than that of a new evaluation, a line each."""
    problems = unlike_settings(manifest, again.settings)
    for name in _SAID:
        then, now = getattr(manifest, name), getattr(again, name)
        # Of tables there are more where they were asked for with intervals; `unlike_tables` looks at them.
        if then != now and not (name == "tables" and set(now) <= set(then)):
            problems.append(f"results.json: {name} does not come out again")
    if manifest.image_set.get("images") != again.image_set["images"]:
        problems.append(f"results.json: there are {again.image_set['images']:,} images")
    problems += [f"{name}: not listed in results.json" for name in again.files if name not in manifest.files]
    return problems


def unlike_tables(manifest: Manifest, out: Path, *, prompts: pd.DataFrame) -> list[str]:
    """The rendered tables of a folder that a new evaluation does not give, with or without intervals, a line each.

    Args:
        manifest: of the folder.
        out: the new evaluation.
        prompts: of the image set.
    """
    again = Manifest.read(out)
    known = {name: {sha256} for name, sha256 in _rendered(again.proof.files).items()}
    listed = _rendered(manifest.proof.files)
    if any(sha256 not in known.get(name, ()) for name, sha256 in listed.items()):
        results = ResultFolder.open(out)
        tables = stored_tables(results, prompts=prompts) | stored_score_tables(results, prompts=prompts)
        with TemporaryDirectory(prefix="detector-bench-") as temporary:
            folder = Path(temporary)
            written = [path.relative_to(folder).as_posix() for path in write_tables(tables, folder / _FOLDER)]
            for name, sha256 in digests(folder, written).items():
                known.setdefault(name, set()).add(sha256)
    problems = [
        f"{name}: it does not come out again"
        for name, sha256 in listed.items()
        if sha256 not in known.get(name, ())
    ]
    lacking = [name for name in _rendered(again.proof.files) if name not in listed]
    return problems + [f"{name}: not listed in results.json" for name in lacking]


def _rendered(files: Mapping[str, str]) -> dict[str, str]:
    return {name: sha256 for name, sha256 in files.items() if name.startswith(_FOLDER)}
