"""Kills `generate` at random moments: what is made twice, what is paid for twice, is the finished set the same?

    python benchmarks/generation_kills.py [--kills N] [--images N] [--batch N]

Twice: a tiny pipeline of diffusers on this machine, and a local server that charges for every image. `generate` is
started and ended by SIGKILL after a random time, N times, and then left alone until it is done. An image counts as
made twice if its pixels were complete twice; one that was half done when its process died is not complete. Files
are compared byte by byte with those of a run that nobody disturbed, and the table of requests without the columns
that are measured (`seconds`, `made_at`).
"""

from __future__ import annotations

import argparse
import filecmp
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx
import pandas as pd
import yaml
from counted_models import LOG
from measuring import REPOSITORY, machine

sys.path.insert(0, str(REPOSITORY))
from detector_bench.vocabulary.generations import MEASURED
from tests.tiny_pipelines import stable_diffusion

PLUGIN = Path(__file__).with_name("counted_models.py")
PROMPTS = tuple(f"a photo of one person, number {number}" for number in range(10))


def write_recipe(folder: Path, images: int, model: dict[str, object]) -> Path:
    (folder / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    recipe = folder / "recipe.yaml"
    content = {
        "name": "killed",
        "prompts": "prompts.txt",
        "images_per_prompt": images // len(PROMPTS),
        "models": [{"name": "tiny", **model}],
    }
    recipe.write_text(yaml.safe_dump(content))
    return recipe


def generate(recipe: Path, out: Path, *more: str, log: Path) -> subprocess.Popen[bytes]:
    call = [
        sys.executable,
        "-m",
        "detector_bench",
        "generate",
        str(recipe),
        "--out",
        str(out),
        "--plugin",
        str(PLUGIN),
    ]
    environment = {**os.environ, LOG: str(log), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*call, "-q", *more], env=environment, stderr=subprocess.PIPE)


def finish(recipe: Path, out: Path, *more: str, log: Path) -> float:
    began = time.monotonic()
    process = generate(recipe, out, *more, log=log)
    _, said = process.communicate()
    if process.returncode:
        raise SystemExit(f"generate failed: {said.decode()}")
    return time.monotonic() - began


def same_files(left: Path, right: Path) -> bool:
    """Whether two image sets have the same images and tables, byte by byte."""
    names = {
        path.relative_to(folder)
        for folder in (left, right)
        for path in [
            *folder.rglob("images/**/*"),
            folder / "images.csv",
            folder / "prompts.csv",
            folder / "recipe.yaml",
        ]
        if path.is_file()
    }
    return bool(names) and all(
        (left / name).is_file()
        and (right / name).is_file()
        and filecmp.cmp(left / name, right / name, shallow=False)
        for name in names
    )


def same_rows(left: Path, right: Path) -> bool:
    """Whether two tables of requests say the same, but for what is measured."""
    tables = [
        pd.read_parquet(folder / "generations.parquet").drop(columns=list(MEASURED)) for folder in (left, right)
    ]
    tables = [table[table["in_recipe"]].reset_index(drop=True) for table in tables]
    return tables[0].equals(tables[1])


def kill_at_random(
    recipe: Path, out: Path, kills: int, seconds: float, *, log: Path, chance: random.Random
) -> tuple[int, list[int]]:
    """Returns how many processes were killed, and how many images were there after each."""
    there = []
    done = 0
    while done < kills:
        process = generate(recipe, out, log=log)
        try:
            process.wait(chance.uniform(0.2, seconds))
            break  # it was done before
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
            there.append(len([path for path in out.rglob("images/**/*.png") if not path.name.startswith(".")]))
    return done, there


def with_diffusers(folder: Path, options: argparse.Namespace) -> None:
    stable_diffusion(folder / "network")
    model = {
        "kind": "counted_diffusers",
        "model": str(folder / "network"),
        "steps": 6,
        "images_at_once": options.batch,
    }
    recipe = write_recipe(folder, options.images, model)
    whole = finish(recipe, folder / "undisturbed", log=folder / "undisturbed.log")
    log = folder / "killed.log"
    chance = random.Random(options.seed)  # noqa: S311
    kills, there = kill_at_random(
        recipe, folder / "killed", options.kills, 5 + whole * 2 / options.kills, log=log, chance=chance
    )
    finish(recipe, folder / "killed", log=log)
    made = Counter(log.read_text().split())
    twice = sum(number - 1 for number in made.values())
    print(
        f"diffusers, batches of {options.batch}: {options.images} images in {whole:.0f} s undisturbed; "
        f"{kills} kills"
    )
    print(f"  images there after each kill: {', '.join(map(str, there))}")
    print(
        f"  complete twice: {twice} ({twice / max(1, kills):.2f} a kill), most of one image: {max(made.values())}"
    )
    print(f"  images and tables the same bytes: {same_files(folder / 'undisturbed', folder / 'killed')}")
    print(f"  requests the same: {same_rows(folder / 'undisturbed', folder / 'killed')}")


def with_service(folder: Path, options: argparse.Namespace) -> None:
    server = subprocess.Popen(
        [sys.executable, "tests/image_service.py", "--latency", "0.5"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        model = {"kind": "openai", "model": "tiny", "base_url": address, "key_variable": None, "price": 0.04}
        model |= {"requests_at_once": 4, "seed_field": "seed"}
        recipe = write_recipe(folder, options.images, model)
        log = folder / "log"
        whole = finish(recipe, folder / "undisturbed", log=log)
        before = paid(address)
        chance = random.Random(options.seed)  # noqa: S311
        kills, there = kill_at_random(
            recipe, folder / "killed", options.kills, whole * 3 / options.kills, log=log, chance=chance
        )
        subprocess.run(generate(recipe, folder / "killed", log=log).args, check=False, capture_output=True)
        bought = paid(address) - before
        rows = pd.read_parquet(folder / "killed" / "generations.parquet")
        rows = rows[rows["in_recipe"]]
        doubtful = int((rows["may_have_been_paid"]).sum())
        print(f"service, 4 at a time: {options.images} images in {whole:.0f} s undisturbed; {kills} kills")
        print(f"  images there after each kill: {', '.join(map(str, there))}")
        print(f"  paid for twice before anybody asked for it: {max(0, bought - len(rows))}; paid for: {bought}")
        print(
            f"  left in doubt, and so not asked again: {doubtful}; made: {int((rows['status'] == 'made').sum())}"
        )
        finish(recipe, folder / "killed", "--ask-again", log=log)
        print(
            f"  after --ask-again images and tables the same bytes: "
            f"{same_files(folder / 'undisturbed', folder / 'killed')}; paid for in all: {paid(address) - before}"
        )
    finally:
        server.kill()


def paid(address: str) -> int:
    """How many images the server has charged for."""
    return int(httpx.get(f"{address.removesuffix('/v1')}/counts").json()["paid"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("diffusers", "service"))
    options = parser.parse_args(arguments)
    print(machine())
    for name, part in {"diffusers": with_diffusers, "service": with_service}.items():
        if options.only in (None, name):
            folder = Path(tempfile.mkdtemp(prefix="generation-kills-"))
            try:
                part(folder, options)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
