"""Small image sets for tests of the labelling desk; their files are some bytes and no pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from detector_bench.dataset import ImageSet
from detector_bench.labelling import Answer, Choice

MODELS = ("sdxl", "sd3")
CATEGORIES = ("profession", "object")


def write_image_set(folder: Path, ids: Sequence[str], *, pairs: bool = False) -> ImageSet:
    """Write an image set; with `pairs` each image has a seed image `seed_<id>` that it was edited from.

    Image number i is of the T2I model i mod 2 and of prompt i mod 3; the first two prompts are professions.
    """
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows = ["image_id,path,t2i_model,prompt_id" + (",seed_image_id" if pairs else "")]
    for number, name in enumerate(ids):
        place = f"{MODELS[number % 2]},p{number % 3}"
        for image_id, seed in ((f"seed_{name}", ""), (name, f"seed_{name}")) if pairs else ((name, ""),):
            file = folder / "images" / f"{image_id}.png"
            if not file.exists():
                file.write_bytes(f"picture of {image_id}".encode())
            rows.append(f"{image_id},images/{image_id}.png,{place}" + (f",{seed}" if pairs else ""))
    (folder / "images.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    prompts = ["prompt_id,category,word,prompt"]
    prompts += [f"p{n},{CATEGORIES[n // 2]},word{n},a photo" for n in range(3)]
    (folder / "prompts.csv").write_text("\n".join(prompts) + "\n", encoding="utf-8")
    return ImageSet.load(folder, require_labels=False)


def numbered(count: int) -> list[str]:
    return [f"i{number:03d}" for number in range(count)]


def saying(
    item_id: str, label: str, *, answer_id: str | None = None, question: str = "gender", **more: str
) -> Answer:
    """An answer to one question; its id is made of what it says unless it is given."""
    name = answer_id or f"{item_id}-{question}-{label}"
    return Answer(name, item_id, {question: Choice(label, **more)}, milliseconds=1500)
