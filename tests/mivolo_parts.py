"""What the tests of MiVOLO share: boxes, the published preparation, and a small checkpoint with its own code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import cv2
import numpy as np
import pytest
from running import Pixels

from detector_bench.perception.boxes import boxes
from detector_bench.perception.networks.mivolo_outputs import main_subject
from detector_bench.perception.stage import Arrays
from detector_bench.trust import AllowedCode, add_code, code_sha256, program_files

NOBODY = boxes([], [])
SIDE = 32


def found(*corners: tuple[float, float, float, float]) -> Arrays:
    return boxes(corners, np.linspace(0.9, 0.5, len(corners)))


def subject(pixels: Pixels, persons: Arrays, faces: Arrays, **settings: Any) -> Any:
    return main_subject(pixels, persons, faces, **{"without_person": "filter", "hide_others": True, **settings})


def published_input(crop: Pixels | None, side: int) -> Any:
    """The preparation as the HF processor documents it, with torchvision's normalisation."""
    import torch
    from torchvision.transforms.functional import normalize, to_tensor

    square = np.zeros((side, side, 3), np.uint8)
    if crop is not None:
        height, width = crop.shape[:2]
        scale = min(side / height, side / width)
        resized = cv2.resize(crop, (round(width * scale), round(height * scale)), interpolation=cv2.INTER_LINEAR)
        top, left = (side - resized.shape[0]) // 2, (side - resized.shape[1]) // 2
        square[top : top + resized.shape[0], left : left + resized.shape[1]] = resized
    values = normalize(to_tensor(square), mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    return torch.unsqueeze(values, 0)


CODE = {
    "configuration_small.py": """
        from transformers import PretrainedConfig

        class SmallConfig(PretrainedConfig):
            model_type = "small_face_and_body"

            def __init__(self, input_size=32, min_age=0, max_age=122, avg_age=61.0, fault="",
                         gender_id2label={"0": "male", "1": "female"}, **others):
                self.input_size, self.fault = input_size, fault
                self.min_age, self.max_age, self.avg_age = min_age, max_age, avg_age
                self.gender_id2label = {int(key): value for key, value in gender_id2label.items()}
                super().__init__(**others)
    """,
    "modeling_small.py": """
        from dataclasses import dataclass
        import torch
        from transformers import PreTrainedModel
        from transformers.utils import ModelOutput
        from .configuration_small import SmallConfig

        @dataclass
        class SmallOutput(ModelOutput):
            age_output: torch.FloatTensor | None = None
            gender_probs: torch.FloatTensor | None = None
            gender_class_idx: torch.LongTensor | None = None

        class SmallForImageClassification(PreTrainedModel):
            config_class = SmallConfig

            def __init__(self, config):
                super().__init__(config)
                self.face = torch.nn.Conv2d(3, 8, 8, stride=8)
                self.body = torch.nn.Conv2d(3, 8, 8, stride=8)
                self.head = torch.nn.Linear(16, 3)
                self.post_init()

            def forward(self, faces_input=None, body_input=None, concat_input=None, return_dict=None):
                found = [part(values).relu().mean((2, 3)) for part, values in
                         ((self.face, faces_input), (self.body, body_input))]
                outputs = self.head(torch.cat(found, dim=1))
                probabilities, numbers = outputs[:, :2].softmax(-1).topk(1)
                ages = outputs[:, 2:] * (self.config.max_age - self.config.min_age) + self.config.avg_age
                if self.config.fault == "not finite":
                    ages = ages * float("nan")
                if self.config.fault == "two ages for one":
                    ages = torch.cat([ages, ages])
                if self.config.fault == "no gender":
                    return SmallOutput(age_output=ages)
                return SmallOutput(age_output=ages, gender_probs=probabilities, gender_class_idx=numbers)
    """,
}


def keep_code_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let transformers copy a checkpoint's code into a folder, not the user's, here and in other processes.

    What was imported from another such folder is forgotten: one package serves for all, and it would be looked for
    where that one found it.
    """
    dynamic = pytest.importorskip("transformers.dynamic_module_utils")
    package = "transformers_modules"
    patch.setenv("HF_MODULES_CACHE", str(folder))
    patch.setattr(dynamic, "HF_MODULES_CACHE", str(folder))
    patch.setattr(sys, "path", [place for place in sys.path if not (Path(place) / package).is_dir()])
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        patch.delitem(sys.modules, name)


def write_checkpoint(folder: Path, *, code: dict[str, str] = CODE, **settings: Any) -> Path:
    """A folder with code, settings and random weights, saved by the network itself."""
    import torch
    from transformers import AutoConfig, AutoModelForImageClassification

    folder.mkdir(parents=True)
    for name, text in code.items():
        (folder / name).write_text(dedent(text))
    places = {
        "AutoConfig": "configuration_small.SmallConfig",
        "AutoModelForImageClassification": "modeling_small.SmallForImageClassification",
    }
    described = {"model_type": "small_face_and_body", "auto_map": places, **settings}
    (folder / "config.json").write_text(json.dumps(described))
    torch.manual_seed(3)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForImageClassification.from_config(config, trust_remote_code=True)
    with torch.no_grad():
        model.head.weight.mul_(20)
        model.head.weight[2] /= 40
    model.save_pretrained(folder)
    add_code(AllowedCode(name=folder.name, sha256=code_sha256(program_files(folder))))
    return folder
