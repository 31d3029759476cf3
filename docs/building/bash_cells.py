"""Executed by every notebook's kernel before its first cell: cells that begin with `%%bash` print in one piece.

IPython's own magic hands on 100 bytes at a time, each of which comes out as a line, and asks programs for colours.
"""

import os
import subprocess

from IPython.core.magic import register_cell_magic


@register_cell_magic
def bash(_: str, cell: str) -> None:
    """Run commands; the first that fails ends the notebook."""
    plain = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", cell],  # noqa: S607
        env=plain,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout, end="")  # noqa: T201
    done.check_returncode()
