"""A real browser for tests: headless Chromium through Playwright, as it is installed on the machine."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from scipy.spatial import KDTree

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP = (1440, 900)
TABLET_WIDE = (1024, 768)
TABLET_TALL = (820, 1180)
LARGEST_SCREENSHOT = 200_000

SCREENSHOTS = Path(__file__).resolve().parents[1] / "docs" / "images"
KEEP_SCREENSHOTS = "DETECTOR_BENCH_SCREENSHOTS"
"""Environment variable: if it is set, tests that take screenshots replace those of the documentation."""


def executable() -> str | None:
    """Where Chromium is."""
    return os.environ.get("DETECTOR_BENCH_CHROMIUM") or shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, from the extra dev")
    path = executable()
    if path is None:
        pytest.skip("there is no Chromium here (install chromium, or set DETECTOR_BENCH_CHROMIUM)")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, *, size: tuple[int, int] = DESKTOP, dark: bool = False, touch: bool = False, **context: Any
) -> Iterator[Page]:
    """A page in a profile of its own. At the end, nothing may have gone wrong in it that no test asked for.

    Scripts that fail and whatever the content security policy refused count; an answer that is an error does not.
    """
    width, height = size
    session = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        has_touch=touch,
        **context,
    )
    page = session.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "console",
        lambda message: faults.append(message.text) if is_fault(message.type, message.text) else None,
    )
    try:
        yield page
        assert faults == []
    finally:
        session.close()


def is_fault(kind: str, text: str) -> bool:
    """Whether a line of the console is a mistake of the page, and no request that failed."""
    return kind == "error" and not text.startswith("Failed to load resource")


def serious_findings(page: Page) -> list[str]:
    """What the accessibility checker axe finds serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    violations = axe.Axe().run(page).response["violations"]
    return [
        f"{each['impact']}: {each['id']}: {node['html']}: {node['failureSummary']}"
        for each in violations
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def keep_screenshot(page: Page, name: str, *, folder: Path, full_page: bool = False) -> Path:
    """Take a screenshot as a small PNG: into the documentation if that is asked for, otherwise into `folder`."""
    path = (SCREENSHOTS if os.environ.get(KEEP_SCREENSHOTS) else folder) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    taken = Image.open(io.BytesIO(page.screenshot(animations="disabled", full_page=full_page))).convert("RGB")
    for shades in (208, 128, 64, 32):
        _with_few_colours(taken, shades).save(path, optimize=True)
        if path.stat().st_size < LARGEST_SCREENSHOT:
            break
    return path


def _with_few_colours(picture: Image.Image, shades: int) -> Image.Image:
    """A page that holds a photograph: its large areas exactly, its small signs nearly, and shades for the rest."""
    largest = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)[:24]
    colours = [channel for _, colour in largest for channel in colour]
    for method, count in ((Image.Quantize.MAXCOVERAGE, 24), (Image.Quantize.MEDIANCUT, shades)):
        colours += (picture.quantize(count, method).getpalette() or [])[: 3 * count]
    # Pillow would look for the nearest colour only roughly, and tint what is white.
    nearest = KDTree(np.reshape(colours, (-1, 3))).query(np.asarray(picture))[1]
    made = Image.fromarray(nearest.astype(np.uint8))
    made.putpalette(colours)
    return made
