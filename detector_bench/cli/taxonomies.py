"""`taxonomies`: the words of networks and other benchmarks, and what becomes of them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError, nearest_hint

if TYPE_CHECKING:
    from detector_bench.vocabulary.taxonomies import Mapping as ClassMapping
    from detector_bench.vocabulary.taxonomies import Taxonomy


@command
def taxonomies(
    name: Annotated[str | None, typer.Argument(help="A taxonomy or a mapping: show it whole.")] = None,
) -> None:
    """List taxonomies and the mappings between them; for one of them, the tables and what they lose.

    Examples: `detector-bench taxonomies`, `detector-bench taxonomies gear_age7`,
    `detector-bench taxonomies race_to_bigbench_race4`
    """
    from detector_bench.vocabulary.taxonomies import MAPPINGS, TAXONOMIES

    if name is None:
        for taxonomy in TAXONOMIES.values():
            _print_taxonomy(taxonomy)
    elif name in TAXONOMIES:
        _print_taxonomy(TAXONOMIES[name])
        for each in MAPPINGS.values():
            if name in (each.source.name, each.target.name):
                _print_mapping(each)
    elif name in MAPPINGS:
        _print_mapping(MAPPINGS[name])
    else:
        raise ConfigError(f"unknown taxonomy or mapping {name!r}: {nearest_hint(name, [*TAXONOMIES, *MAPPINGS])}")


def _print_taxonomy(taxonomy: Taxonomy) -> None:
    from detector_bench.vocabulary.taxonomies import MAPPINGS

    starting = [each.name for each in MAPPINGS.values() if each.source == taxonomy]
    rows = {
        "attribute": taxonomy.attribute,
        "classes": ", ".join(taxonomy.classes),
        "years": ", ".join(f"{years:g}" for years in taxonomy.years or ()),
        "mappings": "\n".join(starting),
    }
    output.record(taxonomy.name, rows, table="taxonomies", summary=taxonomy.source)


def _print_mapping(mapping: ClassMapping) -> None:
    rows = {word: label or "outside: it has no class" for word, label in mapping.table.items()}
    rows["never occurs"] = ", ".join(mapping.unreached)
    rows["loses"] = mapping.loses
    output.record(mapping.name, rows, table="mappings", summary=f"{mapping.source.name} to {mapping.target.name}")
