"""Defaults: a fingerprint leaves them out, so one that changes must raise its class's `version`.

`python -m tests_next.detectors.test_defaults` writes the record anew, for new classes, fields and versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from detector_bench_next import registry
from detector_bench_next.detector import Settings

RECORD = Path(__file__).with_name("defaults.json")


def classes(base: type[Settings] = Settings) -> Iterator[type[Settings]]:
    for own in base.__subclasses__():
        if own.__module__.startswith("detector_bench_next."):
            yield own
        yield from classes(own)


def told(default: Any) -> Any:
    if isinstance(default, Settings):
        return default.key
    return getattr(default, "path", getattr(default, "name", repr(default)))


def defaults() -> dict[str, dict[str, Any]]:
    """Version and defaults of every class of settings that comes along."""
    for sort in ("detector", "stage"):
        for name in registry.BUILT_IN[sort]:
            registry.find(sort, name)
    found = {}
    for own in classes():
        described = {name for base in own.__mro__ for name in vars(base).get("describes", ())}
        fields = {
            name: field.get_default(call_default_factory=True, validated_data={})
            for name, field in own.model_fields.items()
            if not field.is_required() and name not in described
        }
        plain = json.loads(json.dumps(fields, default=told))
        found[f"{own.__module__.rpartition('.')[2]}.{own.__name__}"] = {"version": own.version, **plain}
    return dict(sorted(found.items()))


def test_a_changed_default_raises_the_version() -> None:
    record, now = json.loads(RECORD.read_text(encoding="utf-8")), defaults()
    unknown = now.keys() - record.keys()
    assert not unknown, "new classes: run `python -m tests_next.detectors.test_defaults`"
    for name, fields in now.items():
        if fields["version"] == record[name]["version"]:
            same = fields.keys() & record[name].keys()
            assert {n: fields[n] for n in same} == {n: record[name][n] for n in same}, f"{name}: raise `version`"


if __name__ == "__main__":
    RECORD.write_text(json.dumps(defaults(), indent=1) + "\n", encoding="utf-8")
