"""Prints the commands in the ```sh blocks of Markdown files as one script.

python .ci/readme_commands.py README.md docs/portraits.md

A block is left out, with a message, if the line before it is a comment `<!-- needs: PATH -->` and PATH is missing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>\S+) -->\n)?```sh\n(?P<commands>.*?)```", re.DOTALL)


def commands(text: str) -> str:
    """Join the blocks, in their order."""
    parts = []
    for block in BLOCK.finditer(text):
        needs = block["needs"]
        if needs is not None and not Path(needs).exists():
            parts.append(f"echo 'left out, as there is no {needs}:' {' '.join(block['commands'].split()[:2])}")
        else:
            parts.append(block["commands"].strip())
    return "\n".join(parts)


if __name__ == "__main__":
    print("\n".join(commands(Path(page).read_text(encoding="utf-8")) for page in sys.argv[1:]))  # noqa: T201
