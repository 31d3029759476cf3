"""How long an annotator waits: from the key press to the next image on the screen, 10,000 images in the set.

    python benchmarks/labelling_desk.py [--images N] [--answers N] [--pause SECONDS]

The server runs in a process of its own, Chromium (headless) in others. Each time is the browser's own: from the
time stamp of the key event to the time at which it painted the new image (Element Timing). One in eight answers is
"low quality" with its reason, which takes a second key; the time counts from that. The first answers warm up.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from measuring import machine
from PIL import Image

WARM_UP = 20
PIXELS = 512
TO_REACH = 100

_WATCH = """
window.keyAt = 0;
window.waits = [];
addEventListener("keydown", (event) => { window.keyAt = event.timeStamp; }, { capture: true });
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.waits.push(entry.renderTime - window.keyAt);
}).observe({ type: "element", buffered: false });
new MutationObserver(() => {
  for (const image of document.querySelectorAll("#pictures img")) image.setAttribute("elementtiming", "picture");
}).observe(document.getElementById("pictures"), { childList: true });
"""


def make_image_set(folder: Path, images: int) -> None:
    """Write small JPEGs that differ, so that no cache takes one for another."""
    (folder / "images").mkdir(parents=True)
    random = np.random.default_rng(0)
    rows = ["image_id,path,t2i_model,prompt_id"]
    for number in range(images):
        small = random.integers(0, 256, (12, 12, 3), dtype=np.uint8)
        picture = Image.fromarray(small).resize((PIXELS, PIXELS), Image.Resampling.BILINEAR)
        picture.save(folder / "images" / f"{number:05d}.jpg", quality=85)
        rows.append(f"i{number:05d},images/{number:05d}.jpg,m{number % 3},p{number % 100}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    prompts = ["prompt_id,category,word,prompt", *(f"p{n},profession,w{n},a photo" for n in range(100))]
    (folder / "prompts.csv").write_text("\n".join(prompts) + "\n", encoding="utf-8")


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of an annotator's page, served by the command in a process of its own."""
    open_desk = (
        "import sys; from pathlib import Path; from detector_bench.cli.label import label; "
        "label(Path(sys.argv[1]), annotator=['ann'], port=0, calibration=0, browser=False)"
    )
    command = [sys.executable, "-u", "-c", open_desk, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(line.split()[-1] for line in server.stdout if "/label/ann" in line)
        finally:
            server.send_signal(signal.SIGINT)


def waits(address: str, *, answers: int, pause: float) -> list[float]:
    """Milliseconds from key to picture, one for each answer after the warm-up."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("DETECTOR_BENCH_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(address)
        page.wait_for_selector("figure img")
        page.evaluate(_WATCH)
        for number in range(WARM_UP + answers):
            for key in ("l", "1") if number % 8 == 7 else ("mf"[number % 2],):
                page.keyboard.press(key)
            page.wait_for_function("number => window.waits.length > number", arg=number, polling="raf")
            time.sleep(pause)
        found: list[float] = page.evaluate("window.waits")
        browser.close()
    return found[WARM_UP:]


def main() -> None:
    """Make the image set, label, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--answers", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.25, help="between a new image and the next key")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "images_of_benchmark"
        make_image_set(folder, options.images)
        with running(folder) as address:
            found = waits(address, answers=options.answers, pause=options.pause)
    print(machine())
    print(f"{options.images:,} images of {PIXELS} px, {len(found)} answers, {options.pause:g} s between")
    late = sum(wait > TO_REACH for wait in found)
    print(
        f"from key to next image, ms: median {statistics.median(found):.0f}, "
        f"95th percentile {np.quantile(found, 0.95):.0f}, longest {max(found):.0f}; "
        f"{late} above {TO_REACH}   (to reach: below {TO_REACH})"
    )


if __name__ == "__main__":
    main()
