"""`shards`."""

from __future__ import annotations

from typing import Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command

Verify = Annotated[
    bool,
    typer.Option("--verify", help="Also read the files of finished shards, and compare them with their sha256."),
]


@command
def shards(folder: options.Folder, *, verify: Verify = False) -> None:
    """What of a run is done, running, failed (and why) and open, and how to go on. No detector runs.

    A run that is cut into shards is done when all of them are; the process that ends last writes the results.
    What a killed process had judged is kept, and its shard is open again; tasks that wait in a queue are open,
    too, and submitting one twice does no harm. With --verify, files that are not as
    they were written make the exit status 1; the next run judges what stood in them anew.

    Examples: `detector-bench shards results/large`,
    `detector-bench shards results/large --verify --json`
    """
    from detector_bench.cli.run_state import print_shards

    if not print_shards(folder, verify=verify):
        raise typer.Exit(1)
