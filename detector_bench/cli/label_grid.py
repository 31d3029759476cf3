"""Pages of many pictures with proposed labels: `--grid`, `--propose` and `--alone`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.labelling import DeskSettings, LabelStore
    from detector_bench.labelling.grid import Grid

Size = Annotated[
    int | None,
    typer.Option(
        "--grid", metavar="N", help="Show N pictures at once with a proposed label each, to be confirmed."
    ),
]
Propose = Annotated[
    str | None,
    typer.Option(
        "--propose", metavar="DIR[:DETECTOR]", help="Whose verdicts a grid proposes; by default of most."
    ),
]
Alone = Annotated[
    float,
    typer.Option("--alone", min=0, max=1, help="With --grid, the share that is asked one at a time all the same."),
]


def check(size: int | None, propose: str | None) -> None:
    """Check that both options stand together, before anything is opened.

    Raises:
        ConfigError: one is given without the other.
    """
    if (size is None) != (propose is None):
        raise ConfigError(
            "--grid N and --propose DIR[:DETECTOR] belong together: the grid shows what a detector, or most of a "
            "result folder's detectors, say"
        )


def check_proposals(settings: DeskSettings, propose: str | None) -> None:
    """Refuse what `grid_of` would refuse of a store with these settings, before there is one.

    Raises:
        ConfigError: the desk asks more than one question, or there is nothing to propose.
    """
    if propose is not None:
        _proposals(settings, propose)


def grid_of(store: LabelStore, size: int | None, propose: str | None, alone: float) -> Grid | None:
    """The grid that was asked for; None: one picture at a time.

    Raises:
        ConfigError: the desk asks more than one question, or there is nothing to propose.
    """
    from detector_bench.labelling.grid import Grid
    from detector_bench.labelling.ways import caution

    if size is None or propose is None:
        return None
    proposals, proposed_by = _proposals(store.settings, propose)
    proposals = {
        each.item_id: proposals[each.item_id] for each in store.present_items() if each.item_id in proposals
    }
    output.say(
        f"{proposed_by} proposes a label for {len(proposals):,} of {len(store.present_items()):,} images, shown "
        f"{size} at a time; the others, {alone:.0%} of these and the calibration round are asked one at a time."
    )
    output.say(caution())
    return Grid(proposals, proposed_by, size, alone)


def _proposals(settings: DeskSettings, propose: str) -> tuple[Mapping[str, str], str]:
    from detector_bench.labelling.grid import check_grid, proposals_of
    from detector_bench.runner.stored_predictions import read_predictions

    attribute = check_grid(settings)
    folder, detector = _parted(propose)
    return proposals_of(read_predictions(folder), attribute=attribute, detector=detector)


def _parted(propose: str) -> tuple[Path, str | None]:
    folder, colon, detector = propose.rpartition(":")
    if Path(propose).exists() or not colon or not folder:
        return Path(propose), None
    return Path(folder), detector
