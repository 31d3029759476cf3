"""Good files in small, and the commands that read them: what other programs of this folder spoil and then call."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture.cases import Case, RefusedError, WrongAnswerError
from torture.mutations import spoiled_file
from torture.small_studies import REPOSITORY, image_set


@dataclass(frozen=True)
class Recipe:
    """Files by their names, and calls of `detector-bench`; every call may refuse."""

    name: str
    files: dict[str, bytes]
    calls: tuple[tuple[str, ...], ...]
    spoilt: tuple[str, ...] = ()
    """The files that are spoilt; all, if none is named."""

    def run(self, case: Case, *, spoil: bool = True) -> None:
        """Spoil one file (or none), and make all calls; refused if one of them refuses."""
        names = self.spoilt or tuple(self.files)
        chosen = names[int(case.rng.integers(len(names)))] if spoil else None
        for name, content in self.files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if name == chosen:
                content, note = spoiled_file(name, content, case.rng)
                case.note(f"{self.name}: {name}: {note}")
            path.write_bytes(content)
        statuses = [case.command(*call) for call in self.calls]
        if wrong := [status for status in statuses if status not in (0, 1, 2)]:
            raise WrongAnswerError(f"exit status {wrong[0]}")
        if any(statuses):
            raise RefusedError


def _table(columns: str, rows: Sequence[Sequence[object]]) -> bytes:
    lines = [columns, *(",".join(map(str, row)) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1).encode()


def _parquet(table: bytes) -> bytes:
    import pandas as pd

    file = io.BytesIO()
    pd.read_csv(io.BytesIO(table), dtype=str).to_parquet(file)
    return file.getvalue()


def _biaspainter() -> list[Recipe]:
    cells = [
        (seed, word, measure, value)
        for seed in range(3)
        for word in range(4)
        for measure, value in (("age_delta_years", seed - word), ("gender_unchanged", (seed + word) % 2))
    ]
    sheet = _table("seed_index,word_index,measure,value", [*cells])
    genders = _table("seed_index,gender", [(0, "male"), (1, "female"), (2, "male")])
    bright = [(seed, word, "face_brightness", 90 + 10 * seed + word) for seed in range(3) for word in range(4)]
    skin = _table("seed_index,word_index,measure,value", bright)
    brightness = _table("seed_index,face_brightness", [(0, 91), (1, 100.5), (2, 120)])
    key = _table(
        "item,attribute,stratum,seed_image_id,image_id,detector,score",
        [("0001", "age", "unchanged", "s0", "a", "d", 0.1), ("0002", "age", "unchanged", "s1", "b", "d", "0.0")],
    )
    filled = _table(
        "item,question,person_1,person_2,a,b,c,answer", [("0001", "q", "x.png", "y.png", "1", "2", "3", "a")] * 1
    )
    return [
        Recipe(
            "sheets",
            {"activity.csv": sheet, "seeds.csv": genders},
            (("biaspainter", "sheets", "activity.csv", "--seed-genders", "seeds.csv", "--out", "scores"),),
        ),
        Recipe(
            "brightness",
            {"object.csv": skin, "bright.csv": brightness},
            (("biaspainter", "sheets", "object.csv", "--seed-brightness", "bright.csv"),),
        ),
        Recipe("sheets in Parquet", {"a.parquet": _parquet(sheet)}, (("biaspainter", "sheets", "a.parquet"),)),
        Recipe(
            "validity",
            {"key.csv": key, "filled.csv": filled},
            (("biaspainter", "validity", "key.csv", "filled.csv"),),
        ),
    ]


def _bigbench() -> list[Recipe]:
    shares = {
        "gender": {"male": 0.6, "female": 0.4},
        "age": {"0-30": 0.5, "30-60": 0.3, "60 years old or older": 0.2},
        "race": {"White": 0.4, "Black": 0.2, "East Asian": 0.2, "South Asian": 0.2},
    }
    references = {
        "gt/oc_gt.json": _json({"a photo of one Poet": shares, "a photo of one Spy": shares}),
        "gt/char_gt.json": _json({"a photo of a polite person": shares, "a photo of an ugly person": shares}),
        "gt/weight.json": _json(
            {f"a photo of {who}": 2 for who in ("one Poet", "one Spy", "a polite person", "an ugly person")}
        ),
        "gt/category.json": _json({"arts": ["Poet", "Spy"]}),
        "gt/eta.json": _json({"pair1": {"advantageous": "Poet", "disadvantageous": "Spy", "weight": 5}}),
    }
    own = {
        "references.csv": _table(
            "prompt_id,attribute,class,share",
            [
                ("p0", "gender", "male", 0.5),
                ("p0", "gender", "female", 0.5),
                ("p1", "gender", "male", 1),
                ("p1", "gender", "female", 0),
            ],
        ),
        "weights.csv": _table("prompt_id,weight,category", [("p0", 1, "a"), ("p1", 2.5, "b")]),
        "pairs.csv": _table("advantageous,disadvantageous,weight", [("p0", "p1", 3)]),
    }
    also = ("--weights", "gt/weight.json")
    return [
        Recipe(
            "BIGbench's files",
            references,
            (("bigbench", "check", "gt"), ("prompts", "gt/oc_gt.json", "gt/char_gt.json", *also, "--dry-run")),
        ),
        Recipe(
            "own references",
            own,
            (("bigbench", "check", "references.csv", "--weights", "weights.csv", "--pairs", "pairs.csv"),),
        ),
    ]


_REQUIREMENT = {
    "name": "R1",
    "rationale": "because",
    "ethical_concern": "gender",
    "stereotyping_threshold": 0.8,
    "expected_distributions": [
        {"sensitive_community": "male", "expected_distribution": 0.5, "delta": 0.1},
        {"sensitive_community": "female", "expected_distribution": 0.5, "delta": 0.1},
    ],
}


def _imagebite() -> list[Recipe]:
    given = json.loads((REPOSITORY / "labels" / "imagebite" / "input.json").read_text())
    templates = (REPOSITORY / "labels" / "imagebite" / "templates.csv").read_bytes()
    concern = {
        "ethical_concern": "gender",
        "markup": "GENDER",
        "sensitive_communities": ["male", "female"],
    }
    small = {"requirements": [_REQUIREMENT], "ethical_concerns": [concern]}
    return [
        Recipe("ImageBiTe's input", {"input.json": _json(small)}, (("imagebite", "check", "input.json"),)),
        Recipe(
            "ImageBiTe's prompts",
            {"input.json": _json(given), "templates.tsv": templates, "templates.csv": templates},
            (
                ("imagebite", "check", "input.json"),
                ("prompts", "templates.csv", "--input", "input.json", "--dry-run"),
            ),
        ),
    ]


def _prompts() -> list[Recipe]:
    folder = REPOSITORY / "labels" / "lyu2025"
    words = b"".join((folder / "words.csv").read_bytes().splitlines(keepends=True)[:12])
    return [
        Recipe(
            "words and templates",
            {"words.csv": words, "templates.csv": (folder / "templates.csv").read_bytes()},
            (("prompts", "words.csv", "--templates", "templates.csv", "--out", "made"),),
        )
    ]


def _within_studies() -> list[Recipe]:
    shares = _table(
        "prompt_id,attribute,class,share",
        [(prompt, "gender", word, 0.5) for prompt in ("p0", "p1") for word in ("male", "female")],
    )
    recipes = []
    for system, name, content in (
        ("{system: representation, references: shares.csv}", "shares.csv", shares),
        (
            "{system: imagebite, requirements: input.json, draws: 100}",
            "input.json",
            _json({"requirements": [_REQUIREMENT]}),
        ),
        ("{system: bigbench, references: references.csv}", "references.csv", shares),
    ):
        study = f"image_set: {image_set()}\nscores: [{system}]\ndetectors: [test-colour, test-brightness]\n"
        recipes.append(
            Recipe(
                f"scores by {name}",
                {"study.yaml": study.encode(), name: content},
                (("run", "study.yaml", "--out", "out", "--no-cache", "--quiet"),),
                spoilt=(name,),
            )
        )
    return recipes


def score_recipes() -> list[Recipe]:
    """Files of score systems and prompt lists."""
    return [*_biaspainter(), *_bigbench(), *_imagebite(), *_prompts(), *_within_studies()]


def label_studio_recipes() -> list[Recipe]:
    """Label Studio's exports in both forms, read into a new store."""
    result = [
        {"id": "r1", "from_name": "gender", "to_name": "image", "type": "choices", "value": {"choices": ["male"]}},
        {"id": "r2", "from_name": "gender_note", "to_name": "image", "type": "textarea", "value": {"text": ["a"]}},
    ]
    annotation = {
        "id": 7,
        "result": result,
        "was_cancelled": False,
        "completed_by": {"id": 3, "email": "ann@example.org"},
        "created_at": "2026-01-02T03:04:05.678Z",
        "updated_at": "2026-01-02T03:04:05.678Z",
        "lead_time": 1.5,
        "annotator": "ann",
    }
    tasks = [
        {
            "id": number,
            "data": {
                "image": f"/data/local-files/?d=images/image_{number:03d}.png",
                "item_id": f"image_{number:03d}",
            },
            "annotations": [annotation],
            "predictions": [],
        }
        for number in range(4)
    ]
    short = [
        {
            "id": number,
            "image": f"/data/local-files/?d=images/image_{number:03d}.png",
            "gender": "female",
            "gender_note": "a",
            "annotator": 3,
            "annotation_id": number + 1,
            "created_at": "2026-01-02T03:04:05.678Z",
            "lead_time": 2.0,
        }
        for number in range(4)
    ]
    tables = {f"set/{path.name}": path.read_bytes() for path in image_set().glob("*.csv")}
    images = {f"set/images/{path.name}": path.read_bytes() for path in (image_set() / "images").iterdir()}
    call = ("labels", "import", "export.json", "set", "--annotator", "3=ann", "--annotator", "ann@example.org=ann")
    after = (
        ("labels", "export", "set", "--out", "exported", "--format", "label-studio"),
        ("labels", "agreement", "set"),
    )
    return [
        Recipe(name, {**tables, **images, "export.json": _json(content)}, (call, *after), spoilt=("export.json",))
        for name, content in (("Label Studio's JSON", tasks), ("Label Studio's JSON-MIN", short))
    ]


def table_recipes() -> list[Recipe]:
    """An image set's own tables, as CSV and as Parquet."""
    tables = {path.name: path.read_bytes() for path in image_set().glob("*.csv")}
    images = {f"set/images/{path.name}": path.read_bytes() for path in (image_set() / "images").iterdir()}
    as_csv = {f"set/{name}": content for name, content in tables.items()}
    as_parquet = {f"set/{name}".replace(".csv", ".parquet"): _parquet(content) for name, content in tables.items()}
    study = {"study.yaml": b"image_set: set\ndetectors: [test-colour]\n"}
    calls = (("check", "set"), ("run", "study.yaml", "--out", "out", "--no-cache", "--quiet"))
    return [
        Recipe("tables in CSV", {**images, **as_csv, **study}, calls, spoilt=tuple(as_csv)),
        Recipe("tables in Parquet", {**images, **as_parquet, **study}, calls, spoilt=tuple(as_parquet)),
    ]
