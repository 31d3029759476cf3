"""Scripts for processes of another Python, and what allows them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from detector_bench.trust import AllowedCode, add_code, code_sha256, program_files

BRIGHTNESS = """
import sys
print("a script may print what it likes", flush=True)

def load(parameters):
    sys.stdout.write("wherever")
    def judge(images):
        return [judged(image) for image in images]
    def judged(image):
        mean = float(image.mean()) / 255
        label = "man" if mean > parameters.get("bound", 0.5) else "woman"
        gender = {"label": label, "score": max(mean, 1 - mean)}
        return {"gender": gender, "age": 100 * mean, "shares": [mean, 1 - mean]}
    return judge
"""
"""A label by the mean brightness, with its score; an age; and shares of two classes."""

WORDS = {"man": "male", "woman": "female"}
READINGS: dict[str, Any] = {
    "gender": {"read": "label", "output": "gender", "classes": WORDS},
    "age": {"read": "years", "output": "age"},
}


def allow(path: Path) -> Path:
    """Allow a script in the user's file; gives back the path."""
    add_code(AllowedCode(name=path.name, sha256=code_sha256(program_files(path))))
    return path


def script(folder: Path, text: str = BRIGHTNESS, *, name: str = "brightness.py", allowed: bool = True) -> Path:
    """Write a script, and allow it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return allow(path) if allowed else path


def settings(path: Path, **more: Any) -> dict[str, Any]:
    """Parameters of a detector that runs a script in another process of this very Python."""
    return {"script": str(path), "python": sys.executable, "outputs": READINGS, **more}
