"""One builder of small image sets and studies for tests, and a detector that needs no network.

`write_image_set` makes images whose grey level says the answer: `shade` (in `shade_plugin.py`) calls bright images
female, dark ones male, and filters what is nearly black. So a test knows every prediction without a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

PLUGIN = Path(__file__).with_name("shade_plugin.py")


def write_image_set(
    folder: Path,
    *,
    t2i_models: Sequence[str] = ("sd",),
    prompts: int = 2,
    images: int = 4,
    annotators: Sequence[str] = ("ann",),
    size: int = 16,
    seed: int = 0,
) -> Path:
    """Write images.csv, prompts.csv, labels.csv and PNG files: `images` of each T2I model and prompt.

    The grey level of an image is drawn: below 40 low_quality (no_person), up to 140 male, above female.
    """
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    rows, labels = ["image_id,path,t2i_model,prompt_id"], ["image_id,annotator,attribute,label,reason"]
    for model in t2i_models:
        for prompt in range(prompts):
            for number in range(images):
                name, grey = f"{model}_p{prompt}_{number}", int(rng.integers(0, 256))
                pixels = np.full((size, size, 3), grey, np.uint8)
                pixels[0, 0] = rng.integers(0, 256, 3)  # no two files have one content
                Image.fromarray(pixels).save(folder / "images" / f"{name}.png")
                rows.append(f"{name},images/{name}.png,{model},p{prompt}")
                label = "low_quality" if grey < 40 else "male" if grey <= 140 else "female"
                reason = "no_person" if grey < 40 else ""
                labels += [f"{name},{who},gender,{label},{reason}" for who in annotators]
    words = [f"p{p},{'profession' if p % 2 == 0 else 'trait'},word{p},a photo of word{p}" for p in range(prompts)]
    tables = {"images": rows, "prompts": ["prompt_id,category,word,prompt", *words], "labels": labels}
    for name, lines in tables.items():
        if name != "labels" or annotators:
            (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_study(folder: Path, image_set: Path, *detectors: dict[str, object] | str, **fields: object) -> Path:
    """Write study.yaml beside the image set; without detectors, one `shade`."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"name": "small", "image_set": str(image_set), "detectors": list(detectors) or ["shade"], **fields}
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path
