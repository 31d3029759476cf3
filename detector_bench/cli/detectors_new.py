"""`detectors new`: the files that a detector begins with."""

from __future__ import annotations

from typing import Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output


@command
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new detector's name.")],
    *,
    stage: Annotated[
        bool, typer.Option("--stage", help="With a stage of its own, whose results are kept, such as a network.")
    ] = False,
    out: options.OptionalOut = None,
) -> None:
    """Write a detector that works, and its test beside it, to be made into one's own.

    They are NAME.py and test_NAME.py, here or in the folder --out; or what --out names. Refuses to write over
    anything. Both run as they are, with the extra `quickstart`.

    Examples: `detector-bench detectors new my_detector`,
    `detector-bench detectors new my_detector --stage --out detectors/mine.py`
    """
    from detector_bench.detector_kit.new_files import write_new
    from detector_bench.detectors import DETECTORS

    file, test = write_new(name, out, with_stage=stage, taken=DETECTORS.names())
    for each in (file, test):
        output.row(f"Wrote {each}", table="files", file=each)
    output.say(f"Next: detector-bench detectors try {name} IMAGE... --plugin {file}")
    output.say(f"      detector-bench detectors check {name} --plugin {file}")
    output.say(f"      pytest {test}")
