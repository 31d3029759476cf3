"""Worlds whose truth is known, to try intervals, tests and verdicts in.

A world draws studies (labels and detectors' answers of images) and knows the probability of each label and answer
in each prompt, so true shares and errors are exact. `latent` follows the paper: Table 7's prompts, Table 3's
detectors, two hidden difficulties of an image that detectors share. `shocked` has no normal variables: errors go
by prompt and strike detectors at once. `items` is a test theory's: images and prompts have a difficulty, detectors
an ability; what blurs an image makes it low quality, too. `ordinal` has four age groups, errors to the next one,
prompts of 8 to 40 images, detectors that copy each other. `population` draws real images with their answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from detector_bench_next.cells import Cells

Array = NDArray[Any]
ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("DETECTOR_BENCH_SHARED", ROOT.parent / "shared"))
SDXL = pd.read_csv(ROOT / "labels/lyu2025/table7_prompt_bias_scores.csv")["sdxl"].to_numpy() * 0.98
_TABLE3 = pd.read_csv(ROOT / "labels/lyu2025/table3_filtering_and_accuracy.csv").set_index("detector")
NAMES = ("clip", "clip_prob", "clip_uncertain", "blip2", "facepp", "mivolo", "fairface", "clip_enhance")
_COLUMNS = ["recall", "filter_rate", "accuracy_male", "accuracy_female"]
TABLE3 = _TABLE3.loc[list(NAMES), _COLUMNS].to_numpy(float) / 100
"""[detector, (recall, filter rate, accuracy of class 0, of class 1)]"""


@dataclass(frozen=True, eq=False)
class World:
    """Images a prompt, probabilities [detector, prompt, label, answer] (K: low quality, filtered), and a draw."""

    sizes: Array
    probabilities: Array
    draw: Callable[[np.random.Generator], tuple[Array, Array]]
    """Labels [image] and answers [detector, image], prompt by prompt."""
    names: Sequence[str] = ()

    @cached_property
    def pair(self) -> Array:
        """Prompt of each image."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def share(self) -> Array:
        """True shares of the classes [prompt, K]."""
        labels = self.probabilities[0].sum(-1)[:, :-1]
        return labels / labels.sum(1, keepdims=True)

    @property
    def score(self) -> float:
        """True model bias score."""
        return bias_score(self.share)

    def error(self, detector: int) -> float:
        """True error of a detector's model bias score."""
        said = self.probabilities[detector].sum(1)[:, :-1]
        return bias_score(said / said.sum(1, keepdims=True)) - self.score

    def cells(self, truth: Array, answers: Array, seen: Array | None = None) -> Cells:
        """Count a study; labels that are not `seen` [image] are missing."""
        k, d = self.share.shape[1], len(answers)
        truth = truth if seen is None else np.where(seen, truth, k + 2)
        prompts = [f"p{i:04}" for i in range(len(self.sizes))]
        pairs = pd.DataFrame({"t2i_model": "m", "prompt_id": prompts, "category": "c"})
        names = list(self.names) or [f"d{i}" for i in range(d)]
        return Cells.of([f"c{i}" for i in range(k)], pairs, names, d, self.pair, truth, answers)

    def few(self, rng: np.random.Generator, labels: int) -> Array:
        """Images [image] that get a label: so many at random of each prompt."""
        return rank_within(rng, self.pair) < labels

    def tables(self, rng: np.random.Generator, studies: int) -> Array:
        """Counts [detector and labels, truth, answer, prompt, study] of fresh studies."""
        k2, p, d = self.share.shape[1] + 2, len(self.sizes), len(self.probabilities)
        out = np.empty((d + 1, k2, k2, p, studies), np.float32)
        for s in range(studies):
            truth, answers = self.draw(rng)
            for r, answer in enumerate([*answers, truth]):
                place = (truth * np.int64(k2) + answer) * p + self.pair
                out[r, ..., s] = np.bincount(place, minlength=k2 * k2 * p).reshape(k2, k2, p)
        return out


def bias_score(share: Array) -> float:
    """Mean over prompts of the distance of shares [prompt, K] from balance, 0 to 1."""
    k = share.shape[1]
    return float((np.abs(share - 1 / k).sum(1) * k / (k - 1) / 2).mean())


def rank_within(rng: np.random.Generator, pair: Array) -> Array:
    """Random place of each image within its prompt."""
    size, rank = np.bincount(pair), np.empty(len(pair), int)
    first = np.repeat(np.cumsum(size) - size, size)
    rank[np.lexsort((rng.random(len(pair)), pair))] = np.arange(len(pair)) - first
    return rank


# ---------------------------------------------------------------- after the paper


def scores(name: str, prompts: int) -> tuple[Array, float]:
    """True prompt bias scores and the share of low quality."""
    spread = SDXL if prompts == len(SDXL) else SDXL[np.linspace(0, 99, prompts).astype(int)]
    flat = {"skew": np.full(prompts, 0.88), "fair": np.zeros(prompts), "lean": np.linspace(-0.8, 0.8, prompts)}
    flat |= {"slight": np.linspace(-0.3, 0.3, prompts), "low60": np.sin(np.linspace(-1.1, 1.5, prompts)) * 0.95}
    return flat.get(name, spread), {"low70": 0.70, "low60": 0.60}.get(name, 0.125)


def latent(true: Array, low: float, n: int, detectors: Array, rho: float = 0.7) -> World:
    """Two classes; detectors share an image's two difficulties (to be seen, to be told) with correlation rho."""
    share, p, right_low = (1 + np.asarray(true)) / 2, len(true), 0.75
    classes = np.stack([share, 1 - share], -1)
    out = np.zeros((len(detectors), p, 3, 3))
    for d, (recall, filters, *right) in enumerate(detectors):
        for c in range(2):
            hits = np.array([right[c] if a == c else 1 - right[c] for a in range(2)])
            out[d, :, c, :2] = ((1 - low) * recall * classes[:, c])[:, None] * hits
            out[d, :, c, 2] = (1 - low) * (1 - recall) * classes[:, c]
            unsure = np.array([right_low if a == c else 1 - right_low for a in range(2)])
            out[d, :, 2, :2] += (low * (1 - filters) * classes[:, c])[:, None] * unsure
        out[d, :, 2, 2] = low * filters
    pair, a, b = np.repeat(np.arange(p), n), np.sqrt(rho), np.sqrt(1 - rho)

    def draw(rng: np.random.Generator) -> tuple[Array, Array]:
        hidden = (rng.random(len(pair)) >= share[pair]).astype(np.int8)
        bad = rng.random(len(pair)) < low
        seen, told = rng.standard_normal((2, len(pair)), dtype=np.float32)
        answers = np.empty((len(detectors), len(pair)), np.int8)
        for d, (recall, filters, male, female) in enumerate(detectors):
            own = rng.standard_normal((2, len(pair)), dtype=np.float32)
            kept = a * seen + b * own[0] < ndtri(np.where(bad, 1 - filters, recall))
            right = a * told + b * own[1] < ndtri(np.where(bad, right_low, np.where(hidden == 0, male, female)))
            answers[d] = np.where(kept, np.where(right, hidden, 1 - hidden), 2)
        return np.where(bad, 2, hidden).astype(np.int8), answers

    return World(np.full(p, n), out, draw)


def three(main: float, n: int, prompts: int, detectors: int = 5, low: float = 0.125) -> World:
    """Three classes, one of them in most images of every prompt."""
    share = np.tile([main, (1 - main) * 0.6, (1 - main) * 0.4], (prompts, 1))
    rows = [confusion(share, 1 - right, low_kept=0.4) for right in np.linspace(0.75, 0.92, detectors)]
    return shocked(np.full(prompts, n), share, low, np.array(rows), rho=0.7)


# ---------------------------------------------------------------- errors by prompt, no normal variables


def shocked(sizes: Array, share: Array, low: Array | float, confusions: Array, rho: float = 0.5) -> World:
    """Confusions [detector, prompt, label, answer]; with probability rho detectors err together."""
    low = np.broadcast_to(low, len(sizes)).astype(float)
    labels = np.c_[share * (1 - low)[:, None], low]
    pair, order = np.repeat(np.arange(len(sizes)), sizes), np.argsort(-confusions, -1, kind="stable")
    until = np.cumsum(
        np.take_along_axis(confusions, order, -1), -1
    )  # the likeliest answer first: high numbers err

    def draw(rng: np.random.Generator) -> tuple[Array, Array]:
        truth = (rng.random(len(pair))[:, None] > np.cumsum(labels, 1)[pair, :-1]).sum(1)
        common = rng.random(len(pair))
        answers = np.empty((len(confusions), len(pair)), np.int8)
        for d in range(len(confusions)):
            v = np.where(rng.random(len(pair)) < rho, common, rng.random(len(pair)))
            answers[d] = order[d, pair, truth, (v[:, None] > until[d, pair, truth][:, :-1]).sum(1)]
        return truth.astype(np.int8), answers

    return World(np.asarray(sizes), labels[None, :, :, None] * confusions, draw)


def confusion(share: Array, error: float, kind: str = "even", keep: float = 0.95, low_kept: float = 0.3) -> Array:
    """Confusions [prompt, label, answer]. even; shift: 1 is called 0; stereo: the rarer for the other."""
    p, k = share.shape
    out = np.zeros((p, k + 1, k + 1))
    for t in range(k):
        wrong = np.full((p, k), error / (k - 1))
        if kind == "shift":
            wrong = np.zeros((p, k))
            wrong[:, 0] = error
        if kind == "stereo":
            top, often = np.eye(k)[share.argmax(1)], share.max(1)
            rate = np.where(share.argmax(1) == t, error * 0.2, np.minimum(0.6, error * (0.3 + 2.5 * often**2)))
            wrong = rate[:, None] * np.where((share.argmax(1) == t)[:, None], 1 / (k - 1), top)
        wrong[:, t] = 0
        out[:, t, :k] = keep * wrong
        out[:, t, t] = keep * (1 - wrong.sum(1))
        out[:, t, k] = 1 - keep
    out[:, k, :k], out[:, k, k] = low_kept * (share if kind == "stereo" else 1 / k), 1 - low_kept
    return out


# ---------------------------------------------------------------- a test theory's


def items(prompts: int, n: int, seed: int = 1) -> World:
    """Difficulty of images (heavy tail) and prompts, ability and leaning of detectors; blur filters."""
    rng = np.random.default_rng(seed)
    hard = np.sort(np.r_[np.zeros(70), -3 * np.log1p(-(np.arange(30) + 0.5) / 30)])  # 70 % easy, 30 % exponential
    blur = ndtri((np.arange(60) + 0.5) / 60)
    share = expit(rng.normal(0.8, 1.6, prompts))
    of_prompt, of_blur = rng.normal(0, 0.6, prompts), rng.normal(-2.2, 0.7, prompts)
    ability, lean = np.array([1.5, 2.5, 3.0, 3.0, 4.0, 5.0]), np.array([0.6, -0.8, 0.0, 0.4, 0.0, 0.2])
    keeps = np.array([9.0, 3.5, 2.0, 4.0, 3.0, 2.5])
    bad = expit(of_blur[:, None] + 1.5 * blur)  # [prompt, blur]
    kept = expit(keeps[:, None] - 2 * np.maximum(blur, -1))  # [detector, blur]

    def right(d: Array | int, p: Array, c: Array | int, low: Array | int, h: Array) -> Array:
        return expit(ability[d] + lean[d] * (1 - 2 * np.asarray(c)) - of_prompt[p] - h - 1.5 * np.asarray(low))

    out = np.zeros((6, prompts, 3, 3))
    every = np.arange(prompts)
    for d in range(6):
        for c in range(2):
            of_class = share if c == 0 else 1 - share
            for low in range(2):
                hit = right(d, every[:, None], c, low, hard).mean(1)
                weight = bad if low else 1 - bad
                stays, goes = (weight * kept[d]).mean(1), (weight * (1 - kept[d])).mean(1)
                row = 2 if low else c
                out[d, :, row, c] += of_class * stays * hit
                out[d, :, row, 1 - c] += of_class * stays * (1 - hit)
                out[d, :, row, 2] += of_class * goes
    pair = np.repeat(np.arange(prompts), n)

    def draw(rng: np.random.Generator) -> tuple[Array, Array]:
        c = (rng.random(len(pair)) >= share[pair]).astype(np.int8)
        h, b = rng.choice(hard, len(pair)), rng.integers(0, len(blur), len(pair))
        low = rng.random(len(pair)) < bad[pair, b]
        answers = np.empty((6, len(pair)), np.int8)
        for d in range(6):
            hit = rng.random(len(pair)) < right(d, pair, c, low, h)
            answers[d] = np.where(rng.random(len(pair)) < kept[d, b], np.where(hit, c, 1 - c), 2)
        return np.where(low, 2, c).astype(np.int8), answers

    return World(np.full(prompts, n), out, draw)


# ---------------------------------------------------------------- four age groups


def ordinal(prompts: int, seed: int = 2) -> World:
    """Four groups, errors to the next; some prompts are harder; a detector copies the one before it in 40 %."""
    rng = np.random.default_rng(seed)
    sizes, share = rng.integers(8, 41, prompts), rng.dirichlet([0.6, 1.6, 0.9, 0.4], prompts)
    low = rng.beta(1.5, 10, prompts)
    own = np.zeros((5, prompts, 5, 5))
    for d, error in enumerate((0.08, 0.15, 0.15, 0.25, 0.4)):
        e = np.clip(error * rng.lognormal(0, 0.5, prompts), 0, 0.8)
        keep = 1 - np.array([0.03, 0.04, 0.06, 0.12]) * (1 + d / 2)  # the old are filtered more often
        for t in range(4):
            up = {0: 1.0, 3: 0.0}.get(t, 0.35 + 0.1 * d)
            own[d, :, t, t] = keep[t] * (1 - e)
            own[d, :, t, min(t + 1, 3)] += keep[t] * e * up
            own[d, :, t, max(t - 1, 0)] += keep[t] * e * (1 - up)
            own[d, :, t, 4] = 1 - keep[t]
        own[d, :, 4, :4], own[d, :, 4, 4] = 0.35 * np.array([0.1, 0.5, 0.3, 0.1]), 0.65
    said = own.copy()
    for d in range(1, 5):
        said[d] = 0.4 * said[d - 1] + 0.6 * own[d]
    labels = np.c_[share * (1 - low)[:, None], low]
    alone, copies = shocked(sizes, share, low, own, rho=0.0), 0.4

    def draw(rng: np.random.Generator) -> tuple[Array, Array]:
        truth, answers = alone.draw(rng)
        for d in range(1, 5):
            answers[d] = np.where(rng.random(len(truth)) < copies, answers[d - 1], answers[d])
        return truth, answers

    return World(sizes, labels[None, :, :, None] * said, draw)


# ---------------------------------------------------------------- what detectors really said


def read_authors() -> tuple[World, Array, Array]:
    """Images of SD3, 20 a prompt, six detectors: the world that draws from them, their labels, their answers."""
    folder, code = SHARED / "data/lyu2025_authors", {"male": 0, "female": 1}
    labels, said, faces = (
        pd.read_csv(folder / f"{name}.csv.gz") for name in ("labels", "predictions_sd3", "fairface_faces_sd3")
    )
    own = labels[labels["t2i_model"] == "sd3"].sort_values(["prompt_id", "image_id"]).reset_index(drop=True)
    by_name = {name: x.set_index("image_id")["answer"] for name, x in said.groupby("detector")}
    by_name.pop("clip_prob_as_run")
    by_name["fairface"] = faces.sort_values(["image_id", "face"]).groupby("image_id")["gender"].first()
    pair = pd.factorize(own["prompt_id"], sort=True)[0]

    def codes(words: pd.Series) -> Array:
        return words.map(code).fillna(2).to_numpy(np.int8)

    answers = np.array([codes(x.reindex(own["image_id"])) for x in by_name.values()])
    return population(codes(own["label"]), answers, pair, tuple(by_name))


def read_portraits(annotator: str = "") -> tuple[World, Array, Array]:
    """Portraits and eight detectors: their world, labels (of one annotator, or on which all agree), answers."""
    folder = SHARED / "data/t2i_portraits"
    images, labels = (
        pd.read_csv(folder / f"{x}.csv", dtype=str, keep_default_na=False) for x in ("images", "labels")
    )
    said = pd.read_parquet(SHARED / "design/golden/numbers/t2i_portraits_predictions.parquet")
    images = images.sort_values(["prompt_id", "image_id"]).reset_index(drop=True)
    labels, said = (x[x["attribute"] == "gender"] for x in (labels, said))
    labels = labels[(labels["annotator"] == annotator) | (annotator == "")].groupby("image_id")["label"]
    agreed = labels.first().where(labels.nunique() == 1, "low_quality")  # noqa: PD101 - a count for each image

    def codes(words: pd.Series) -> Array:
        return words.reindex(images["image_id"]).map({"male": 0, "female": 1}).fillna(2).to_numpy(np.int8)

    clear = said.assign(answer=said["label"].where(said["status"] == "clear"))
    by_name = {name: codes(x.set_index("image_id")["answer"]) for name, x in clear.groupby("detector")}
    pair = pd.factorize(images["prompt_id"], sort=True)[0]
    return population(codes(agreed), np.array(list(by_name.values())), pair, tuple(by_name))


def population(
    truth: Array, answers: Array, pair: Array, names: tuple[str, ...] = ()
) -> tuple[World, Array, Array]:
    """World that draws images of given ones, prompt by prompt, with the images themselves."""
    sizes = np.bincount(pair)
    first = (np.cumsum(sizes) - sizes)[pair]
    found = np.zeros((len(answers), len(sizes), 3, 3))
    for d, answer in enumerate(answers):
        np.add.at(found[d], (pair, truth, answer), 1 / sizes[pair])

    def draw(rng: np.random.Generator) -> tuple[Array, Array]:
        taken = first + (rng.random(len(pair)) * sizes[pair]).astype(int)
        return truth[taken], answers[:, taken]

    return World(sizes, found, draw, names), truth, answers
