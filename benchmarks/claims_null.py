"""How often does `reproduce lyu2025 --study` say of a claim what is not true?

    python benchmarks/claims_null.py --studies 200 --workers 2

Two independent studies are simulated each time: one in the place of the paper, whose tables are computed, rounded
and handed to the program as the printed ones; and one that is asked all claims. Both are made as
`claim_draws.simulated_counts` does, from tables that say what is true:

- **same**: both from the paper's own tables. Every number of the paper is then within its tolerance.
- **tie**: the study's detectors all have FairFace's rates, its T2I models SDXL's scores, its categories the same
  scores: every order is exactly at its border, and neither verdict may be given.
- **edge**: shares and rates lie a tolerance away from the paper's, scores about one: those, too, are at their
  borders.
- **small**: as **tie**, with 3 prompts of each category.

Cohen's kappa is the paper's in **same** and its tolerance below it in the other three. What is true is what
studies of that size show on average (`--truth` of them, 1,000 by default); where that mean
lies within three of its standard errors of the border, both verdicts count as false. To reach: at most 5 % of the
studies have any false verdict, `holds` and `does not hold` together.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from detector_bench.evaluation.counting import Counts
from detector_bench.metrics import JointVerdicts, Scopes
from detector_bench.metrics.agreement import cohen_kappa
from detector_bench.metrics.counts import CountArray
from detector_bench.others.lyu2025 import claim_draws as drawing
from detector_bench.others.lyu2025.claim_numbers import PAPER_KAPPA, RATES, CountedNumbers
from detector_bench.others.lyu2025.claim_statements import Above, AllOf, AnyOf, Near
from detector_bench.others.lyu2025.claims import KAPPA_TOLERANCE, NotAsked, StudyAsked
from detector_bench.others.lyu2025.published import CATEGORIES, T2I_MODELS, PublishedTables, published_tables
from detector_bench.others.lyu2025.referee import CLAIMS, ClaimVerdict, judged_claims
from detector_bench.vocabulary import attribute_named

WORLDS = ("same", "tie", "edge", "small")
PROMPTS_OF_SMALL = 3
PAPER_LABELLED = 6000
"""Images that both of the paper's annotators labelled."""


class Allowed(NamedTuple):
    """Which verdicts would be right."""

    holds: bool
    fails: bool


_EITHER = Allowed(holds=True, fails=True)


def world(name: str) -> PublishedTables:
    """What is true of the study."""
    tables = published_tables()
    if name == "same":
        return tables
    if name == "edge":
        lower = tables.table3.copy()
        lower[["recall", "accuracy_male", "accuracy_female", "accuracy"]] -= 0.05
        lower["filter_rate"] = np.abs(lower["filter_rate"] - 0.05)
        shares = tables.table5.copy()
        shares["low_quality"] += 0.05
        scores = tables.table7.copy()
        scores[list(T2I_MODELS)] *= 0.93
        return replace(tables, table3=lower.clip(lower=0.01), table5=shares, table7=scores)
    one = tables.table3.copy()
    one[:] = tables.table3.loc["fairface"].to_numpy()
    judged = tables.table2.fillna(0.1)
    alike = tables.table5.copy()
    alike[:] = tables.table5.loc["sdxl"].to_numpy()
    scores = np.sort(tables.table7["sdxl"].to_numpy(dtype=np.float64))
    rows = tables.table7.copy()
    if name == "small":
        rows = rows.groupby("category", sort=False).head(PROMPTS_OF_SMALL).reset_index(drop=True)
    for category in CATEGORIES:
        own = rows["category"] == category
        # The same ten scores, as often as they fit.
        places = np.linspace(0, len(scores) - 1, PROMPTS_OF_SMALL if name == "small" else 10).astype(int)
        values = np.tile(scores[places], int(own.sum()) // len(places))
        for model in T2I_MODELS:
            rows.loc[own, model] = values
    return replace(tables, table2=judged, table3=one, table5=alike, table7=rows)


def counted(tables: PublishedTables, draws: int, random: np.random.Generator, *, causes: bool) -> CountedNumbers:
    """Numbers of simulated studies, `draws` of them."""
    sizes = [50] * (draws // 50) + ([draws % 50] if draws % 50 else [])
    return CountedNumbers.of(
        (drawing.simulated_counts(tables, size, random) for size in sizes),
        detectors=tuple(map(str, tables.table3.index)),
        t2i_models=T2I_MODELS,
        scopes=scopes_of(tables),
        with_causes=causes,
    )


def scopes_of(tables: PublishedTables) -> Scopes:
    return Scopes.of_prompts(list(tables.table7["category"].astype(str)))


def printed(tables: PublishedTables, random: np.random.Generator) -> PublishedTables:
    """What a paper would print of one study."""
    counts = drawing.simulated_counts(tables, 1, random)
    found = CountedNumbers.of(
        [counts],
        detectors=tuple(map(str, tables.table3.index)),
        t2i_models=T2I_MODELS,
        scopes=scopes_of(tables),
        with_causes=False,
    )
    scores, seven = tables.table1_scores.copy(), tables.table7.copy()
    two, three = tables.table2.copy(), tables.table3.copy()
    five, six = tables.table5.copy(), tables.table6.copy()
    for column, model in enumerate(T2I_MODELS):
        scores[model] = np.round(found.scores[0, :, 1 + column, 0], 3)
        two[model] = np.round(found.differences[0, :, 1 + column], 3)
        for category in CATEGORIES:
            place = 1 + found.categories.index(category)
            six.loc[model, category] = np.round(found.scores[0, 0, 1 + column, place], 3)
        men, women = (counts[0, 0, column, :, label].sum(axis=-1) for label in range(2))
        seven[model] = np.round((men - women) / np.maximum(men + women, 1), 2)
        five.loc[model, ["male", "female", "low_quality"]] = np.round(found.shares[0, 1 + column, :3], 4)
    five.loc["total", ["male", "female", "low_quality"]] = np.round(found.shares[0, 0, :3], 4)
    for name in RATES:
        three[name] = np.round(found.rates[name][0], 4)
    deviations = (scores.drop(index="ground_truth") / scores.loc["ground_truth"] - 1).round(4)
    return replace(
        tables,
        table1_scores=scores,
        table1_deviations=deviations,
        table2=two,
        table3=three,
        table5=five,
        table6=six,
        table7=seven,
    )


def study(tables: PublishedTables, random: np.random.Generator) -> Counts:
    """Images one by one: the detectors err independently."""
    cells = drawing.simulated_counts(tables, 1, random)[0]
    detectors = tuple(map(str, tables.table3.index))
    prompts, labels = len(tables.table7), drawing.LABELS
    truth, verdicts, pair = [], [], []
    for place in range(len(T2I_MODELS) * prompts):
        of_pair = cells[:, place // prompts, place % prompts]
        for label in range(labels):
            images = int(of_pair[0, label].sum())
            truth += [label] * images
            pair += [place] * images
            verdicts.append(
                np.stack([random.permutation(np.repeat(np.arange(labels), each[label])) for each in of_pair[1:]])
            )
    joint = JointVerdicts(
        np.array(truth, dtype=np.int8),
        np.concatenate(verdicts, axis=1).astype(np.int8),
        np.array(pair),
        len(T2I_MODELS),
        scopes_of(tables),
        2,
    )
    nothing = np.zeros((len(T2I_MODELS), prompts), dtype=np.int64)
    return Counts(
        attribute=attribute_named("gender"),
        detectors=detectors,
        t2i_models=T2I_MODELS,
        prompt_ids=tuple(map(str, range(prompts))),
        scopes=joint.scopes,
        verdicts=joint.counts(),
        human=joint.counts()[0].sum(axis=-1),
        unlabelled=nothing,
        not_run=np.stack([nothing] * len(detectors)),
        joint=joint,
    )


def annotators(name: str, tables: PublishedTables, images: int, random: np.random.Generator) -> CountArray:
    """Two annotators' labels of a study's images, `[first, second]`.

    The program holds them against the kappa that the paper prints, which is one study's, too. What chance moves
    that one by is taken off the study's own instead.
    """
    paper = cohen_kappa(_labelled_twice(PAPER_KAPPA, published_tables(), PAPER_LABELLED, random)).value
    true = PAPER_KAPPA if name == "same" else PAPER_KAPPA - KAPPA_TOLERANCE
    return _labelled_twice(true - (float(paper) - PAPER_KAPPA), tables, images, random)


def _labelled_twice(kappa: float, tables: PublishedTables, images: int, random: np.random.Generator) -> CountArray:
    shares = tables.table5.loc["total", ["male", "female", "low_quality"]].to_numpy(dtype=np.float64)
    shares = shares / shares.sum()
    together = kappa * np.diag(shares) + (1 - kappa) * np.outer(shares, shares)
    return random.multinomial(images, together.ravel()).reshape(together.shape)


@lru_cache
def truth_of(name: str, studies: int) -> dict[str, Allowed]:
    """Which verdicts are right in a world, by claim."""
    random = np.random.default_rng(99)
    own = counted(world(name), studies, random, causes=True)
    paper = counted(published_tables(), studies, random, causes=True)
    asked = StudyAsked(own.detectors, T2I_MODELS, own.categories, 20.0, 2, len(world(name).table7))
    found = {}
    for claim in CLAIMS:
        question = claim.ask(asked)
        if claim.id == "kappa":
            found[claim.id] = Allowed(holds=name == "same", fails=False)
        elif not isinstance(question, NotAsked):
            found[claim.id] = allowed(question.statement, own, paper)
    return found


def allowed(statement: object, own: CountedNumbers, paper: CountedNumbers) -> Allowed:
    if isinstance(statement, AllOf | AnyOf):
        parts = [allowed(each, own, paper) for each in statement.of]
        known = [each for each in parts if each is not None]
        if isinstance(statement, AllOf):
            return Allowed(all(each.holds for each in known), any(each.fails for each in known))
        return Allowed(any(each.holds for each in known), all(each.fails for each in known))
    if isinstance(statement, Above):
        return side(statement.quantity(own) - statement.border)
    assert isinstance(statement, Near)
    mine = statement.quantity(own)
    papers = [each(paper) for each in statement.of_paper]
    papers = [each for each in papers if not np.isnan(each).all()]
    if np.isnan(mine).all() or not papers:
        return _EITHER
    low = min(papers, key=np.nanmean)
    high = max(papers, key=np.nanmean)
    inside, outside = side(mine - low + statement.tolerance), side(high + statement.tolerance - mine)
    return Allowed(inside.holds and outside.holds, inside.fails or outside.fails)


def side(drawn: np.ndarray) -> Allowed:
    known = drawn[~np.isnan(drawn)]
    if not known.size:
        return _EITHER
    doubt = 3 * known.std() / np.sqrt(known.size) + 1e-9
    return Allowed(bool(known.mean() > doubt), bool(known.mean() < -doubt))


def one_study(seed: int, *, name: str) -> dict[str, str]:
    """The verdicts of one pair of studies, by claim."""
    random = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(WORLDS.index(name), seed)))
    paper, own = printed(published_tables(), random), study(world(name), random)
    labels = annotators(name, world(name), own.joint.images, random)
    judged = judged_claims(own, paper, annotators=labels, number_of_annotators=2, seed=seed)
    drawing.numbers_of_paper.cache_clear()
    return {each.claim.id: str(each.verdict) for each in judged}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--truth", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worlds", nargs="*", default=WORLDS, choices=WORLDS)
    options = parser.parse_args()
    for name in options.worlds:
        right = truth_of(name, options.truth)
        with ProcessPoolExecutor(options.workers) as pool:
            verdicts = list(pool.map(partial(one_study, name=name), range(options.studies), chunksize=2))
        holds, fails, by_claim = 0, 0, {}
        given = {str(each): 0 for each in ClaimVerdict}
        for found in verdicts:
            wrong_holds = [each for each in right if found[each] == "holds" and not right[each].holds]
            wrong_fails = [each for each in right if found[each] == "does not hold" and not right[each].fails]
            holds, fails = holds + bool(wrong_holds), fails + bool(wrong_fails)
            for each in (*wrong_holds, *wrong_fails):
                by_claim[each] = by_claim.get(each, 0) + 1
            for verdict in found.values():
                given[verdict] += 1
        mean = {verdict: round(number / len(verdicts), 1) for verdict, number in given.items()}
        rates = [f"{100 * number / len(verdicts):.1f} %" for number in (holds, fails)]
        print(
            f"{name:6} {len(verdicts)} studies, a false `holds` {rates[0]}, a false `does not hold` {rates[1]};"
            f" verdicts on average: {mean}; false ones by claim: {by_claim}",
            flush=True,
        )


if __name__ == "__main__":
    main()
