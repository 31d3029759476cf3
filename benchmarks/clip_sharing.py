"""What three CLIP detectors cost in one run, against one alone.

`clip`, `clip_prob` and `clip_uncertain` share one image embedding. The figure to reach: together, without the time
of clip_prob's face stage, at most 1.05 times `clip` alone. The network has the sizes of CLIP ViT-L/14 and random
weights; each run is a fresh process, and reads the weights from disk.

    python benchmarks/clip_sharing.py
    python benchmarks/clip_sharing.py --images 32 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from measuring import in_fresh_process, machine, pairs, portraits, shared_folder, spread

FACES = "yunet_faces"
DETECTORS = ("clip", "clip_prob", "clip_uncertain")


def save_large_clip(folder: Path) -> None:
    """Write a checkpoint of CLIP ViT-L/14's sizes, with random weights and CLIP's vocabulary."""
    import torch
    import transformers

    torch.manual_seed(0)
    text = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    vision = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**vision, "patch_size": 14, "image_size": 224}, projection_dim=768
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    transformers.CLIPImageProcessorPil().save_pretrained(folder)
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(shared_folder() / "weights" / "clip_tokenizer" / name, folder / name)


def run(image_set: Path, checkpoint: Path, names: list[str]) -> dict[str, float]:
    """Seconds of one run, without those of the face stage, which stand apart."""
    from detector_bench.dataset import ImageSet
    from detector_bench.detectors import build_detector
    from detector_bench.runner.run import run_detectors
    from detector_bench.runner.run_settings import RunSettings
    from detector_bench.weights import WeightsLocator

    encoder = {"checkpoint": str(checkpoint), "precision": "float32"}
    detectors = [build_detector(name, parameters={"encoder": encoder}) for name in names]
    locator = WeightsLocator(folders=(shared_folder() / "weights",))
    with tempfile.TemporaryDirectory() as out:
        began, began_computing = time.perf_counter(), time.process_time()
        images = ImageSet.load(image_set)
        record = run_detectors(images, detectors, Path(out), weights=locator, settings=RunSettings())
        seconds = time.perf_counter() - began
        computing = time.process_time() - began_computing
    faces = sum(value for name, value in record.seconds_per_stage.items() if name.startswith(FACES))
    embedded = sum(
        value for name, value in record.images_per_stage.items() if name.startswith("clip_image_embeddings")
    )
    return {"seconds": seconds - faces, "computing": computing, "faces": faces, "embedded": embedded}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        what, *paths = arguments.part
        if what == "save":
            save_large_clip(Path(paths[0]))
            print("{}")
        else:
            print(json.dumps(run(Path(paths[0]), Path(paths[1]), what.split(","))))
        return
    with tempfile.TemporaryDirectory() as folder:
        image_set = portraits(Path(folder) / "set", images=arguments.images)
        checkpoint = Path(folder) / "clip"
        in_fresh_process(Path(__file__).name, "--part", "save", str(checkpoint))
        faces: list[float] = []
        computing: list[float] = []

        def measured(names: tuple[str, ...]) -> float:
            found = in_fresh_process(
                Path(__file__).name, "--part", ",".join(names), str(image_set), str(checkpoint)
            )
            if found["embedded"] != arguments.images:
                sys.exit(f"{found['embedded']} embeddings for {arguments.images} images: nothing is shared")
            faces.append(found["faces"])
            computing.append(found["computing"])
            return found["seconds"]

        together, alone, ratios = pairs(
            lambda: measured(DETECTORS), lambda: measured(DETECTORS[:1]), rounds=arguments.rounds
        )
    print(machine())
    print(f"{arguments.images} portraits of 480 px, CLIP ViT-L/14 with random weights; {arguments.rounds} rounds")
    print(f"clip alone, s:                          {spread(alone)}")
    print(f"clip, clip_prob and clip_uncertain, s:  {spread(together)}")
    print(f"clip_prob's faces ({FACES}), s:    {spread(faces[::2])}")
    # On a machine that others use at the same time, seconds of the processor say more than those of the clock.
    busy = [one / other for one, other in zip(computing[::2], computing[1::2], strict=True)]
    print(f"the same, seconds of the processor, faces included: {spread(busy)}")
    print(f"together / alone, without faces:        {spread(ratios)}   (to reach: at most 1.05)")


if __name__ == "__main__":
    main()
