"""Networks of the published sizes with random weights, for benchmarks: they cost what the real ones cost.

Each function writes what a detector loads, and returns its path. None is of any use as a judge.

    .venv/bin/python benchmarks/real_size_networks.py FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from textwrap import dedent

SEED = 0


def write_clip_vit_large_patch14(folder: Path) -> Path:
    """CLIP ViT-L/14 (428 million parameters, 224 pixels) as transformers saves it, with a tokenizer.

    The tokenizer knows single characters and no longer parts of words: prompts of up to 75 characters fit.
    """
    return _write_clip(folder, text_heads=12, vision_heads=16, vision_layers=24, patch=14)


def write_clip_vit_base_patch32(folder: Path) -> Path:
    """CLIP ViT-B/32 (151 million parameters, 224 pixels), otherwise as the larger one."""
    return _write_clip(folder, text_heads=8, vision_heads=12, vision_layers=12, patch=32)


_PER_HEAD = 64


def _write_clip(folder: Path, *, text_heads: int, vision_heads: int, vision_layers: int, patch: int) -> Path:
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    torch.manual_seed(SEED)
    text, vision = text_heads * _PER_HEAD, vision_heads * _PER_HEAD
    config = CLIPConfig(
        text_config={
            "hidden_size": text,
            "intermediate_size": 4 * text,
            "num_attention_heads": text_heads,
            "num_hidden_layers": 12,
            "projection_dim": text,
            "vocab_size": 49408,
        },
        vision_config={
            "hidden_size": vision,
            "intermediate_size": 4 * vision,
            "num_attention_heads": vision_heads,
            "num_hidden_layers": vision_layers,
            "image_size": 224,
            "patch_size": patch,
            "projection_dim": text,
        },
        projection_dim=text,
    )
    CLIPModel(config).save_pretrained(folder)
    CLIPImageProcessor().save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def _write_tokenizer(folder: Path) -> None:
    from transformers import CLIPTokenizer

    characters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    words = [*characters, *(f"{character}</w>" for character in characters)]
    words += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77).save_pretrained(
        folder
    )


def write_fairface_resnet34(path: Path) -> Path:
    """ResNet-34 with 18 outputs (21 million parameters): the state dict that FairFace's authors publish."""
    import torch
    from torchvision.models import resnet34

    torch.manual_seed(SEED)
    torch.save(resnet34(num_classes=18).state_dict(), path)
    return path


def write_yolov8x_person_face(path: Path) -> Path:
    """YOLOv8x (68 million parameters) with MiVOLO's two classes.

    It finds the same persons, a regular grid, and faces within them in every picture, so that MiVOLO has somebody
    to judge. Their number makes the suppression of overlaps a little dearer than on pictures of one person.
    """
    os.environ.update(YOLO_AUTOINSTALL="false", YOLO_OFFLINE="true", YOLO_VERBOSE="false")
    os.environ.setdefault("YOLO_CONFIG_DIR", str(path.parent))
    os.environ.setdefault("ULTRALYTICS_SAFE_LOAD", "true")
    import torch
    from ultralytics import YOLO
    from ultralytics.nn.tasks import DetectionModel

    torch.manual_seed(SEED)
    network = YOLO("yolov8n.yaml")
    network.model = DetectionModel("yolov8x.yaml", nc=2, verbose=False).eval()
    network.model.names = {0: "person", 1: "face"}
    head = network.model.model[-1]
    with torch.no_grad():
        # Logits of person and face at steps of 8, 16 and 32 pixels; each box reaches 7.5 steps to every side.
        for logits, classes, sides in zip(
            [(-9.0, -9.0), (-9.0, 0.0), (0.0, -9.0)], head.cv3, head.cv2, strict=True
        ):
            for layer in (classes[-1], sides[-1]):
                layer.weight.zero_()
            classes[-1].bias.copy_(torch.tensor(logits))
    network.save(path)
    return path


MIVOLO_CODE = {
    "configuration_real_size.py": """
        from transformers import PretrainedConfig


        class RealSizeConfig(PretrainedConfig):
            model_type = "mivolo_of_real_size"

            def __init__(self, input_size=224, **others):
                self.input_size = input_size
                self.gender_id2label = {0: "male", 1: "female"}
                super().__init__(**others)
    """,
    "modeling_real_size.py": """
        from dataclasses import dataclass

        import torch
        from timm.layers import Mlp
        from timm.layers.bottleneck_attn import PosEmbedRel
        from timm.models.volo import VOLO
        from torch import nn
        from transformers import PreTrainedModel
        from transformers.utils import ModelOutput

        from .configuration_real_size import RealSizeConfig


        @dataclass
        class RealSizeOutput(ModelOutput):
            age_output: torch.FloatTensor | None = None
            gender_probs: torch.FloatTensor | None = None
            gender_class_idx: torch.LongTensor | None = None


        def stem():
            layers = []
            for channels, size, stride in ((3, 7, 2), (64, 3, 1), (64, 3, 1)):
                layers.append(nn.Conv2d(channels, 64, size, stride, size // 2, bias=False))
                layers += [nn.BatchNorm2d(64), nn.ReLU()]
            return nn.Sequential(*layers, nn.Conv2d(64, 192, 4, 4))


        class FaceAndBody(nn.Module):
            '''Joins face and body: each looks at the other by attention; a perceptron brings them to one width.'''

            def __init__(self, input_size):
                super().__init__()
                side = input_size // 8
                self.stems = nn.ModuleList([stem(), stem()])
                projections = [nn.Conv2d(192, 3 * 192, 1, bias=False) for _ in range(2)]
                self.queries_keys_values = nn.ModuleList(projections)
                self.position = PosEmbedRel((side, side), dim_head=192, scale=192**-0.5)
                self.norm = nn.LayerNorm([2 * 192, side, side])
                self.joined = Mlp(2 * 192, 4 * 192, 192, use_conv=True)

            def forward(self, both):
                found = []
                for part, stem, project in zip(both.split(3, dim=1), self.stems, self.queries_keys_values):
                    values = stem(part)
                    found.append(project(values).flatten(2).transpose(1, 2).split(192, dim=2))
                (face_q, face_k, face_v), (body_q, body_k, body_v) = found
                looks = [self.look(face_q, body_k, body_v), self.look(body_q, face_k, face_v)]
                joined = torch.cat(looks, dim=2).transpose(1, 2).unflatten(2, self.norm.normalized_shape[1:])
                return self.joined(self.norm(joined))

            def look(self, queries, keys, values):
                weights = (queries @ keys.transpose(1, 2)) * 192**-0.5 + self.position(queries)
                return weights.softmax(dim=-1) @ values


        class RealSizeForImageClassification(PreTrainedModel):
            config_class = RealSizeConfig

            def __init__(self, config):
                super().__init__(config)
                self.volo = VOLO(
                    (4, 4, 8, 2),
                    img_size=config.input_size,
                    num_classes=3,
                    embed_dims=(192, 384, 384, 384),
                    num_heads=(6, 12, 12, 12),
                )
                self.volo.patch_embed = FaceAndBody(config.input_size)
                self.post_init()

            def forward(self, faces_input, body_input, return_dict=True):
                outputs = self.volo(torch.cat([faces_input, body_input], dim=1))
                probabilities, numbers = outputs[:, :2].softmax(-1).topk(1)
                return RealSizeOutput(outputs[:, 2:] * 94 + 48, probabilities, numbers)
    """,
}


def write_mivolo_d1(folder: Path, *, side: int = 224) -> Path:
    """A transformers checkpoint with its own code, of the size of MiVOLO's `mivolo_d1_224`: 27,432,414 parameters.

    VOLO-D1 is timm's; what joins face and body is written anew with the operations and sizes of MiVOLO's. It loads
    as `network: {backend: transformers, checkpoint: FOLDER, run_checkpoint_code: true}`.
    """
    import torch
    from transformers import AutoConfig, AutoModelForImageClassification

    folder.mkdir(parents=True, exist_ok=True)
    for name, code in MIVOLO_CODE.items():
        (folder / name).write_text(dedent(code).lstrip())
    settings = {
        "model_type": "mivolo_of_real_size",
        "input_size": side,
        "auto_map": {
            "AutoConfig": "configuration_real_size.RealSizeConfig",
            "AutoModelForImageClassification": "modeling_real_size.RealSizeForImageClassification",
        },
    }
    (folder / "config.json").write_text(json.dumps(settings))
    torch.manual_seed(SEED)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    AutoModelForImageClassification.from_config(config, trust_remote_code=True).save_pretrained(folder)
    return folder


def write_all(folder: Path) -> dict[str, Path]:
    """All of them, each only if it is not there yet, by the names that detectors know them by."""
    folder.mkdir(parents=True, exist_ok=True)
    makers = {
        "clip-vit-large-patch14": write_clip_vit_large_patch14,
        "res34_fair_align_multi_7_20190809.pt": write_fairface_resnet34,
        "yolov8x_person_face.pt": write_yolov8x_person_face,
        "mivolo_d1_224": write_mivolo_d1,
    }
    for name, write in makers.items():
        if not (folder / name).exists():
            write(folder / name)
    return {name: folder / name for name in makers}


if __name__ == "__main__":
    for written in write_all(Path(sys.argv[1])).values():
        print(written)
