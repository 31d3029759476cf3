"""Where the desk's pages, scripts and styles lie."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
