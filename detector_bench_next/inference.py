"""Long tables of inference: limits of metrics, comparisons, ranks and verdicts of detectors, bias of T2I models.

`inference` draws once about images (limits, verdicts) and once about prompts (tests, from 30 prompts on; below,
tests are about images, too). A family is all pairs of detectors in ONE metric, on everything or on one T2I model;
categories have limits, no tests. Methods: `intervals.py`; `evaluate` puts these tables beside its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from threadpoolctl import threadpool_limits

from detector_bench_next.attributes import ALL, GROUND_TRUTH
from detector_bench_next.cells import Cells, Counted
from detector_bench_next.intervals import (
    FOR_VERDICT,
    Array,
    Draws,
    Estimand,
    Estimate,
    Prompts,
    as_reported,
    bias_of_model,
    compare,
    difference,
    intervals,
    p_of,
    prompts_of,
    verdict,
)
from detector_bench_next.metrics import METRICS, below_chance, could_not_run, declared, fact, measure, scopes

COMPARED = ("f1", "filter_rate", "accuracy", "prompt_bias_score_difference", "model_bias_score_difference")
"""Metrics by which detectors are compared and ranked, beside the study's primary one."""
ENOUGH_PROMPTS = 30
"""Prompts from which on tests are about other prompts, too."""
COLUMNS = {
    "comparisons": "attribute t2i_model metric first second first_value second_value difference ci_low ci_high"
    " p_value told_apart images tests",
    "ranks": "attribute t2i_model metric detector rank rank_low rank_high score groups better_than images tests",
    "verdicts": "detector attribute t2i_model error ci_low ci_high low_proved high_proved hidden shift shift_low"
    " shift_high tolerance word why",
    "t2i_models": "attribute t2i_model category prompt_id estimand quantity estimator value ci_low ci_high"
    " by_chance p_value labels images n_left_out",
    "t2i_model_comparisons": "attribute quantity first second difference ci_low ci_high p_value prompts",
}
"""Columns of the tables."""

Rows = list[dict[str, Any]]


class Inference(NamedTuple):
    """Limits for the metric table, and the five tables."""

    limits: dict[tuple[str, str], Array]
    """By detector (or ground_truth) and number: [scope, (low, high)] in the order of `metrics.scopes`."""
    tables: dict[str, pd.DataFrame]


def inference(
    counted: Counted,
    *,
    n_clear: str,
    max_error_share: float,
    level: float,
    resamples: int,
    seed: int,
    primary: str,
    tolerance: float,
) -> Inference:
    """Everything that a study says with uncertainty; the arguments are the fields of `evaluate.Settings`."""
    rows: dict[str, Rows] = {name: [] for name in COLUMNS}
    compared, classes = dict.fromkeys((*COMPARED, primary)), counted.cells.classes
    with threadpool_limits(1, "blas"):  # the products are small: more threads cost more than they bring
        study = _draw(counted, max_error_share, list(compared), draws=resamples, seed=seed, n_clear=n_clear)
        limits = _limits(study.about_images, level)
        for scope in study.tested:
            rows["verdicts"] += _verdicts(study, scope, tolerance, level)
            for metric in compared:
                pairs, ranks = _contest(study, scope, metric, limits, level)
                rows["comparisons"] += pairs
                rows["ranks"] += ranks
        models = _models(counted.cells)
        rows["t2i_models"] = _t2i_models(models, classes, level)
        rows["t2i_model_comparisons"] = _t2i_model_comparisons(models, classes, level)
    name = counted.attribute.name
    frames = {table: pd.DataFrame(rows[table], columns=COLUMNS[table].split()) for table in rows}
    return Inference(limits, {table: frame.assign(attribute=name) for table, frame in frames.items()})


# ---------------------------------------------------------------- detectors


class _Study(NamedTuple):
    """Draws of a study's detectors."""

    cells: Cells
    model: Sequence[str]
    """T2I model of each scope."""
    images: Array
    """Labelled images [scope]."""
    able: Array
    """[detector, scope]: ran on every T2I model of it, on the same files as the others."""
    tested: list[int]
    """Scopes that have tests: everything and T2I models, where there are labels."""
    enough: Array
    """[scope]: enough prompts for tests about prompts."""
    about_images: Draws | None
    """None: no prompt has two labelled images."""
    about_prompts: Draws | None
    """Of the tested scopes, in their order; None: too few prompts everywhere."""


def _draw(counted: Counted, max_error_share: float, compared: Sequence[str], **settings: Any) -> _Study:
    cells, (words, member) = counted.cells, scopes(counted.cells.pairs)
    names, labelled = cells.raters[: cells.detectors], cells.labelled()
    n = np.bincount(labelled.pair, labelled.n, len(cells.pairs))
    failed = could_not_run(cells, max_error_share)[: cells.detectors].astype(int)  # [detector, T2I model]
    of_pair = pd.factorize(cells.pairs["t2i_model"])[0]
    touched = np.array([np.isin(np.arange(failed.shape[1]), of_pair[own > 0]) for own in member])
    same = np.array([not counted.changed.get(name) for name in names], bool)
    prompts = np.array([cells.pairs["prompt_id"][(own > 0) & (n > 0)].nunique() for own in member])
    tested = [i for i, word in enumerate(words["category"]) if word == ALL and member[i] @ n > 0]
    every = [*(m for m in declared() if m not in FOR_VERDICT), *FOR_VERDICT]
    images = about_prompts = None
    if settings["draws"] and n.max(initial=0) > 1:
        images = Draws.of(cells, every, member, raters=(*names, GROUND_TRUTH), **settings)
    if settings["draws"] and names and (prompts[tested] >= ENOUGH_PROMPTS).any():
        some = [m for m in every if m.name in compared]
        about_prompts = Draws.of(cells, some, member[tested], about="prompts", raters=names, **settings)
    able = (failed @ touched.T == 0) & same[:, None]
    enough = prompts >= ENOUGH_PROMPTS
    return _Study(cells, list(words["t2i_model"]), member @ n, able, tested, enough, images, about_prompts)


def _limits(draws: Draws | None, level: float) -> dict[tuple[str, str], Array]:
    """Intervals about images, cut to the range of the metric."""
    if draws is None:
        return {}
    every = intervals(draws, level)
    return {
        (rater, name): np.clip(every[i, r], m.lowest, m.highest)
        for i, (m, name) in enumerate(draws.numbers)
        for r, rater in enumerate(draws.raters)
        if m.name in METRICS and (m.describes or rater != GROUND_TRUTH)
    }


def _verdicts(study: _Study, scope: int, tolerance: float, level: float) -> Iterator[dict[str, Any]]:
    draws = study.about_images
    if draws is None:
        return
    for d in np.flatnonzero(study.able[:, scope]):
        name = study.cells.raters[d]
        v = verdict(draws, name, scope, tolerance, level)
        shift = dict(zip(("shift", "shift_low", "shift_high"), v.shift, strict=True))
        facts = {"detector": name, "t2i_model": study.model[scope], "tolerance": tolerance}
        yield {**facts, **v._asdict(), "ci_low": v.low, "ci_high": v.high, **shift}


def _contest(study: _Study, scope: int, metric: str, limits: Any, level: float) -> tuple[Rows, Rows]:
    """Rows of comparisons and of ranks of a scope's detectors by one metric; those without a value come last."""
    draws, at = study.about_images, scope
    if study.enough[scope]:
        draws, at = study.about_prompts, study.tested.index(scope)
    runs = np.flatnonzero(study.able[:, scope])
    if draws is None or not len(runs) or metric not in [name for _, name in draws.numbers]:
        return [], []
    names, value = draws.raters, draws.points.value[draws.at(metric), :, at]
    valued = [names[d] for d in runs if np.isfinite(value[d])]
    silent = [names[d] for d in runs if not np.isfinite(value[d])]
    about = {"t2i_model": study.model[scope], "metric": metric, "images": int(study.images[scope])}
    about["tests"] = len(valued) * (len(valued) - 1) // 2
    last = {"rank": len(valued) + (len(silent) + 1) / 2, "rank_low": len(valued) + 1, "rank_high": len(runs)}
    ranks: Rows = [about | {"detector": name, **last, "groups": "", "better_than": ""} for name in silent]
    if not valued:
        return [], ranks
    c = shown = compare(draws, metric, at, level, valued)
    if study.about_images and study.about_images is not draws:
        shown = compare(study.about_images, metric, scope, level, valued)
    told = c.p_family <= 1 - level
    compared = [
        about
        | {"first": names[a], "second": names[b], "first_value": value[a], "second_value": value[b]}
        | {"difference": c.difference[k], "ci_low": shown.low[k], "ci_high": shown.high[k]}
        | {"p_value": c.p_family[k], "told_apart": bool(told[k])}
        for k, (a, b) in enumerate(zip(c.first, c.second, strict=True))
    ]
    # best first; whose accuracy lies wholly below chance comes last: its classes may be swapped
    own = value[[names.index(name) for name in valued]]
    loss = {"lower": own, "zero": np.abs(own)}.get(fact(metric, study.cells.classes).better, -own)
    none = np.full((len(study.model), 2), np.nan)
    top = np.array([limits.get((name, "accuracy"), none)[scope, 1] for name in valued])
    swapped = below_chance(top, len(study.cells.classes))
    rank = pd.Series(np.where(swapped, loss + 2 * np.ptp(loss) + 1, loss)).rank().to_numpy()
    sets = np.where(swapped[:, None], np.maximum(c.ranks, (~swapped).sum() + 1), c.ranks)
    apart = {(int(a), int(b)) for a, b in np.argwhere(np.triu(np.ones((len(valued),) * 2), 1))[told]}
    best = sorted(range(len(valued)), key=lambda k: float(rank[k]))
    groups, ordered = _letters(apart, best), []
    for k in best:
        worse = [valued[o] for o in best if (min(k, o), max(k, o)) in apart and rank[k] < rank[o]]
        row = {"detector": valued[k], "rank": rank[k], "rank_low": int(sets[k, 0]), "rank_high": int(sets[k, 1])}
        ordered.append(about | row | {"score": own[k], "groups": groups[k], "better_than": " ".join(worse)})
    return compared, ordered + ranks


def _letters(apart: set[tuple[int, int]], order: Sequence[int]) -> dict[int, str]:
    """Letters of the largest sets of which no two are told apart, best first: insert and absorb (Piepho 2004)."""
    groups = [set(order)]
    for pair in sorted(apart):
        split = [part for g in groups for part in ([g - {one} for one in pair] if {*pair} <= g else [g]) if part]
        groups = [
            g for i, g in enumerate(split) if not any(g < o or (g == o and i > k) for k, o in enumerate(split))
        ]
    groups.sort(key=lambda g: sorted(order.index(one) for one in g))
    words = [ascii_lowercase[i % 26] * (1 + i // 26) for i in range(len(groups))]
    return {one: "".join(w for w, g in zip(words, groups, strict=True) if one in g) for one in order}


def rightly_by_one(cells: Cells, first: str, second: str) -> pd.DataFrame:
    """Images that only one of two detectors treats rightly, with McNemar's exact test (McNemar 1947).

    The filter is right about a clear image that it keeps and a low-quality one that it filters; classes are
    compared on images clear to people and to both. Images without an answer of either, and others, are left out.

    Returns:
        Rows filtering and classes: images, both, only_first, only_second, neither, p_value.
    """
    k, answers = len(cells.classes), [cells.answer(name) for name in (first, second)]
    answered = (answers[0] <= k) & (answers[1] <= k) & (cells.truth <= k)
    clear = answered & (cells.truth < k) & (answers[0] < k) & (answers[1] < k)
    rows = []
    for question, used, right in (
        ("filtering", answered, [(a == k) == (cells.truth == k) for a in answers]),
        ("classes", clear, [a == cells.truth for a in answers]),
    ):
        both, one, other, none = (
            int(cells.n[used & (right[0] == a) & (right[1] == b)].sum())
            for a, b in ((True, True), (True, False), (False, True), (False, False))
        )
        p = min(1.0, 2 * float(scipy.special.bdtr(min(one, other), one + other, 0.5))) if one + other else 1.0
        counts = {"both": both, "only_first": one, "only_second": other, "neither": none}
        names = {"question": question, "first": first, "second": second}
        rows.append({**names, "images": sum(counts.values()), **counts, "p_value": p})
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- T2I models


class _Model(NamedTuple):
    """A T2I model, or ("all") those that have labels."""

    name: str
    cells: Cells
    labels: Array
    """Labels that count [pair]."""
    images: Array
    """[pair]"""
    prompts: Prompts | None
    """None: fewer than two clear labels."""

    def some(self, inside: Array) -> _Model:
        """Some of its prompts, by a mask of pairs."""
        cells, prompts = self.cells.only(inside[self.cells.pair]), self.prompts and self.prompts.only(inside)
        return _Model(self.name, cells, self.labels[inside], self.images[inside], prompts)

    @property
    def estimand(self) -> Estimand:
        """`prompts` where labelled prompts stand for others that have no label."""
        known = 0 if self.prompts is None else int(np.isfinite(self.prompts.share[:, 0]).sum())
        return "prompts" if (self.labels == 0).any() and known > 1 else "t2i_model"

    @property
    def counts(self) -> dict[str, Any]:
        """Columns on labels and images."""
        complete = bool((self.labels >= self.images).all())
        estimator = "labels" if complete or not self.cells.detectors else "labels_and_detectors"
        return {"estimator": estimator, "labels": int(self.labels.sum()), "images": int(self.images.sum())}


def _models(cells: Cells) -> list[_Model]:
    k, names = len(cells.classes), cells.pairs["t2i_model"].astype("str").to_numpy()
    counts, of_cell = cells.n * (cells.sampled & (cells.truth < k + 2)), names[cells.pair]
    masks = {name: of_cell == name for name in dict.fromkeys(names)}
    labelled = [mask for mask in masks.values() if counts[mask].any()]
    if len(labelled) > 1:
        masks = {ALL: np.any(labelled, 0), **masks}
    found = []
    for name, mask in masks.items():
        own = cells.only(mask)
        labels, images = (np.bincount(own.pair, x, len(own.pairs)).astype(int) for x in (counts[mask], own.n))
        enough = counts[mask & (cells.truth < k)].sum() > 1
        found.append(_Model(name, own, labels, images, prompts_of(own) if enough else None))
    return found


def _quantities(
    m: _Model, estimand: Estimand, classes: Sequence[str], level: float
) -> Iterator[tuple[str, Estimate, Any]]:
    """Every number of a T2I model, with the columns that only it has."""
    b = bias_of_model(m.cells, estimand, level, m.prompts)
    facts = {"by_chance": np.nan, "p_value": np.nan, "n_left_out": len(m.labels) - b.prompts}
    yield from ((f"class_share_{name}", e, facts) for name, e in zip(classes, b.share, strict=True))
    if b.mean_prompt_bias_score:
        yield "mean_prompt_bias_score", b.mean_prompt_bias_score, facts
    yield "model_bias_score", b.model_bias_score, facts | {"by_chance": b.by_chance, "p_value": b.p_fair}


def _t2i_models(models: Sequence[_Model], classes: Sequence[str], level: float) -> Rows:
    """Rows over all prompts and by category, then of single prompts; p adjusted over T2I models."""
    rows: Rows = []
    for whole in models:
        category = whole.cells.pairs["category"].astype("str").to_numpy()
        for word in [ALL, *dict.fromkeys(category[category != ""])]:
            m = whole.some((category == word) | (word == ALL))
            about = {"t2i_model": m.name, "category": word, "prompt_id": ALL, **m.counts}
            if m.prompts is None:
                rows += [about | row for row in (_silent(m, classes) if m.labels.any() else _reported(m, classes))]
                continue
            exact = about["estimator"] == "labels" and m.cells.n.sum() == m.labels.sum()
            estimands: tuple[Estimand, ...] = (m.estimand, *(("these_images",) if exact else ()))
            for estimand in estimands:
                for name, e, facts in _quantities(m, estimand, classes, level):
                    row = {**about, "estimand": estimand, "quantity": name, "value": e.value, **facts}
                    limits = {"ci_low": e.low, "ci_high": e.high}
                    rows.append(row | ({"by_chance": np.nan} if estimand == "these_images" else limits))
    for word in dict.fromkeys(row["category"] for row in rows):
        own = [row for row in rows if row["category"] == word and row["t2i_model"] != ALL]
        _adjust([row for row in own if row.get("p_value", np.nan) >= 0])
    some = [m for m in models if m.name != ALL]
    return rows + [row for m in some if m.prompts for row in _single(m, m.prompts, classes, level)]


def _silent(m: _Model, classes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows without a value: fewer than two of the labels are clear."""
    for name in (*(f"class_share_{c}" for c in classes), "model_bias_score"):
        yield {"estimand": "t2i_model", "quantity": name, "value": np.nan, "n_left_out": len(m.labels)}


def _reported(m: _Model, classes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows without labels: what detectors report, on average; no interval says how right they are."""
    wanted, every = [METRICS["class_share_<class>"], METRICS["model_bias_score"]], np.ones((1, len(m.labels)))
    tables = [as_reported(m.cells, name).table(GROUND_TRUTH) for name in m.cells.raters[: m.cells.detectors]]
    if not tables:
        return
    scores = [measure(table, wanted, every) for table in tables]
    *shares, score = np.mean([s.value[:, 0, 0] for s in scores], 0)
    left = min(int(s.left_out[-1, 0, 0]) for s in scores)
    made = [(f"class_share_{c}", x) for c, x in zip(classes, shares, strict=True)]
    made += [("mean_prompt_bias_score", 2 * shares[0] - 1)] if len(classes) == 2 else []
    for name, x in (*made, ("model_bias_score", score)):
        facts = {"estimand": "t2i_model", "estimator": "detectors", "n_left_out": left}
        yield facts | {"quantity": name, "value": x}


def _single(m: _Model, prompts: Prompts, classes: Sequence[str], level: float) -> Iterator[dict[str, Any]]:
    """Rows of single prompts with a label: shares, and for two classes the prompt bias score."""
    ends, pairs = np.dstack([prompts.share, prompts.limits(level)]), m.cells.pairs
    names = ("value", "ci_low", "ci_high")
    for i, (category, prompt) in enumerate(pairs[["category", "prompt_id"]].astype("str").itertuples(index=False)):
        if not m.labels[i]:
            continue
        estimator = "labels" if m.labels[i] >= m.images[i] or not m.cells.detectors else "labels_and_detectors"
        about = {"t2i_model": m.name, "category": category, "prompt_id": prompt, "estimand": "t2i_model"}
        about |= {"estimator": estimator, "labels": int(m.labels[i]), "images": int(m.images[i]), "n_left_out": 0}
        for c, own in zip(classes, ends[i], strict=True):
            yield about | {"quantity": f"class_share_{c}"} | dict(zip(names, own, strict=True))
        if len(classes) == 2:
            yield about | {"quantity": "prompt_bias_score"} | dict(zip(names, 2 * ends[i, 0] - 1, strict=True))


def _t2i_model_comparisons(models: Sequence[_Model], classes: Sequence[str], level: float) -> Rows:
    """Rows of two T2I models on the prompts that have a share in both; p adjusted over pairs, by quantity."""
    rows: Rows = []
    for pair in combinations([m for m in models if m.prompts and m.name != ALL], 2):
        ids = [m.cells.pairs["prompt_id"].where(np.isfinite(m.prompts.share[:, 0])) for m in pair if m.prompts]
        both = [(own.notna() & own.isin(other)).to_numpy() for own, other in (ids, ids[::-1])]
        if not both[0].any():
            continue
        whole = [m.estimand for m in pair]
        about: Estimand = "prompts" if "prompts" in whole and both[0].sum() > 1 else "t2i_model"
        parts = [m.some(inside) for m, inside in zip(pair, both, strict=True)]

        @cache
        def apart(level: float, parts: Any = tuple(parts), about: Estimand = about) -> dict[str, Estimate]:
            one, other = ({name: e for name, e, _ in _quantities(m, about, classes, level)} for m in parts)
            return {name: difference(one[name], other[name]) for name in one}

        facts = {"first": pair[0].name, "second": pair[1].name, "prompts": int(both[0].sum())}
        for name, e in apart(level).items():
            if np.isfinite(e.value) and (len(classes) > 2 or not name.startswith("class_share_")):
                limits = {"difference": e.value, "ci_low": e.low, "ci_high": e.high}
                p = p_of(lambda at: apart(at)[name])  # noqa: B023 - it is called at once
                rows.append({**facts, "quantity": name, **limits, "p_value": p})
    for name in dict.fromkeys(row["quantity"] for row in rows):
        _adjust([row for row in rows if row["quantity"] == name])
    return sorted(rows, key=lambda row: [r["quantity"] for r in rows].index(row["quantity"]))


def _adjust(rows: Rows) -> None:
    """Adjust p values of a family by Holm."""
    p = np.array([row["p_value"] for row in rows])
    order = np.argsort(p)
    adjusted = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    for i, value in zip(order, adjusted, strict=True):
        rows[i]["p_value"] = float(value)
