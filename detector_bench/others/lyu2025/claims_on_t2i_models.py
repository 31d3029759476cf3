"""What Lyu 2025 claims about T2I models and labels (sections 3.3 and 4.1, Tables 5 to 7, appendices B and C)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from detector_bench.others.lyu2025.claim_quantities import actual, beyond_fair, kappa, minus, outputs, share
from detector_bench.others.lyu2025.claim_statements import Above, AllOf, Near
from detector_bench.others.lyu2025.claims import (
    CATEGORY_TOLERANCE,
    KAPPA_TOLERANCE,
    OUTPUTS_TOLERANCE,
    SCORE_TOLERANCE,
    SHARE_TOLERANCE,
    AskedClaim,
    Claim,
    NotAsked,
    Question,
    StudyAsked,
)
from detector_bench.others.lyu2025.published import CATEGORIES, T2I_MODELS

_TWO = 2


def _more_men(study: StudyAsked) -> Question:
    return AskedClaim(
        AllOf(
            tuple(
                Above(
                    f"share of men minus share of women, {model}",
                    minus(share("male", model), share("female", model)),
                    unit="%",
                )
                for model in study.t2i_models
            )
        ),
        "" if study.is_alike else "each T2I model of the study",
    )


def _biased(study: StudyAsked) -> Question:
    return AskedClaim(
        AllOf(
            tuple(
                Above(f"model bias score beyond that of a fair T2I model, {model}", beyond_fair(model))
                for model in study.t2i_models
            )
        ),
        "the score is above what chance alone shows with as many images"
        + ("" if study.is_alike else ", for each T2I model"),
    )


def _extreme(study: StudyAsked, *, first: str, most: bool) -> Question:
    if not study.has_paper_models:
        return NotAsked("it ranks the paper's three T2I models, and the study does not have them all")
    parts = []
    for other in T2I_MODELS:
        if other != first:
            high, low = (first, other) if most else (other, first)
            parts.append(Above(f"model bias score, {high} minus {low}", minus(actual(high), actual(low))))
    return AskedClaim(AllOf(tuple(parts)))


def _score(study: StudyAsked, *, model: str) -> Question:
    if study.too_few:
        return NotAsked(study.too_few)
    if model in study.t2i_models:
        quantity = actual(model)
        return AskedClaim(Near(f"model bias score of {model}", quantity, (quantity,), SCORE_TOLERANCE))
    return NotAsked(f"the study has no T2I model {model}; the range of all three is asked instead")


def _range_of_scores(study: StudyAsked) -> Question:
    others = [model for model in study.t2i_models if model not in T2I_MODELS]
    if not others:
        return NotAsked("each of the paper's T2I models is asked by itself")
    if study.too_few:
        return NotAsked(study.too_few)
    papers = tuple(actual(model) for model in T2I_MODELS)
    return AskedClaim(
        AllOf(
            tuple(Near(f"model bias score of {model}", actual(model), papers, SCORE_TOLERANCE) for model in others)
        ),
        "every other T2I model lies in the range of the paper's three",
    )


def _profession(study: StudyAsked) -> Question:
    others = [each for each in study.categories if each != "profession"]
    if "profession" not in study.categories or not others:
        return NotAsked("it compares professions with other categories of prompts, and the study has no such two")
    return AskedClaim(
        AllOf(
            tuple(
                Above(
                    f"category bias score, profession minus {category}, {model}",
                    minus(actual(model, "profession"), actual(model, category)),
                )
                for model in study.t2i_models
                for category in others
            )
        ),
        "" if study.is_alike else "each T2I model of the study",
    )


def _table6(study: StudyAsked, *, model: str) -> Question:
    if model not in study.t2i_models:
        return NotAsked(f"the study has no T2I model {model}")
    if study.too_few:
        return NotAsked(study.too_few)
    categories = [each for each in CATEGORIES if each in study.categories]
    if not categories:
        return NotAsked("the study has none of the paper's categories")
    return AskedClaim(
        AllOf(
            tuple(
                Near(
                    f"category bias score, {category}, {model}",
                    actual(model, category),
                    (actual(model, category),),
                    CATEGORY_TOLERANCE,
                )
                for category in categories
            )
        )
    )


def _outputs(study: StudyAsked, *, what: str, words: str) -> Question:
    if study.too_few:
        return NotAsked(study.too_few)
    if what == "mixed" and len(study.t2i_models) < _TWO:
        return NotAsked("it compares T2I models, and the study has one")

    quantity = outputs(what)
    return AskedClaim(
        Near(words, quantity, (quantity,), OUTPUTS_TOLERANCE, "%"),
        "" if study.is_alike else "of the study's own outputs",
    )


def _most_low_quality(study: StudyAsked) -> Question:
    if not study.has_paper_models:
        return NotAsked("it ranks the paper's three T2I models, and the study does not have them all")
    order = ("sdxl", "dreamlike", "sd3")
    return AskedClaim(
        AllOf(
            tuple(
                Above(
                    f"low-quality images, {more} minus {fewer}",
                    minus(share("low_quality", more), share("low_quality", fewer)),
                    unit="%",
                )
                for more, fewer in pairwise(order)
            )
        )
    )


def _some_low_quality(study: StudyAsked) -> Question:
    return AskedClaim(
        AllOf(
            tuple(
                Above(f"low-quality images, {model}", share("low_quality", model), 0.05, "%")
                for model in study.t2i_models
            )
        ),
        "each T2I model shows more than 5 % (the paper's lowest is 7.2 %)",
    )


def _overall_share(study: StudyAsked, *, label: str) -> Question:
    quantity = share(label)
    words = f"{label.replace('_', '-')} images"
    return AskedClaim(
        Near(words, quantity, (quantity,), SHARE_TOLERANCE, "%"),
        "" if study.is_alike else "over the study's own T2I models",
    )


def _kappa(study: StudyAsked) -> Question:
    if study.annotators != _TWO:
        return NotAsked(
            f"it is about two annotators, and the study has {study.annotators} without the adjudicator"
        )

    return AskedClaim(Near("Cohen's kappa", kappa(), (kappa(),), KAPPA_TOLERANCE))


CLAIMS_ON_T2I_MODELS: tuple[Claim, ...] = (
    Claim("kappa", "Labels", "Section 3.3", "Two annotators agree with Cohen's kappa 0.86", _kappa),
    Claim(
        "low-quality-share",
        "Labels",
        "Table 5, abstract",
        "12.48 % of the images are low-quality",
        partial(_overall_share, label="low_quality"),
    ),
    Claim(
        "low-quality-everywhere",
        "Labels",
        "Abstract, section 3.3",
        "Every T2I model makes a share of low-quality images that cannot be neglected",
        _some_low_quality,
    ),
    Claim(
        "low-quality-order",
        "Labels",
        "Appendix B",
        "SDXL makes the most low-quality images, SD3 the fewest",
        _most_low_quality,
    ),
    Claim(
        "male-share", "Labels", "Table 5", "63.50 % of the images show men", partial(_overall_share, label="male")
    ),
    Claim(
        "female-share",
        "Labels",
        "Table 5",
        "24.02 % of the images show women",
        partial(_overall_share, label="female"),
    ),
    Claim("more-men", "RQ1", "Section 4.1, Table 5", "All T2I models prefer to show men", _more_men),
    Claim("biased", "RQ1", "Section 4.1", "The T2I models are clearly biased", _biased),
    Claim(
        "most-biased",
        "RQ1",
        "Section 4.1, Table 6",
        "SDXL is the most biased T2I model",
        partial(_extreme, first="sdxl", most=True),
    ),
    Claim(
        "least-biased",
        "RQ1",
        "Section 4.1, Table 6",
        "Dreamlike is the least biased T2I model",
        partial(_extreme, first="dreamlike", most=False),
    ),
    *(
        Claim(
            f"score-{model}",
            "RQ1",
            "Tables 1 and 6",
            f"The model bias score of {model} is {score}",
            partial(_score, model=model),
        )
        for model, score in zip(T2I_MODELS, ("0.752", "0.730", "0.631"), strict=True)
    ),
    Claim(
        "score-range",
        "RQ1",
        "Tables 1 and 6",
        "Model bias scores lie between 0.631 and 0.752",
        _range_of_scores,
    ),
    Claim(
        "profession",
        "RQ1",
        "Section 4.1",
        "Prompts of professions are the most biased, for every T2I model",
        _profession,
    ),
    *(
        Claim(
            f"table6-{model}",
            "RQ1",
            "Table 6",
            f"The category bias scores of {model}",
            partial(_table6, model=model),
        )
        for model in T2I_MODELS
    ),
    Claim(
        "outputs-men",
        "RQ1",
        "Section 4.1, figure 3",
        "74.7 % of the outputs show more men than women",
        partial(_outputs, what="more men", words="outputs with a score above 0"),
    ),
    Claim(
        "outputs-only-men",
        "RQ1",
        "Section 4.1, figure 3",
        "31.7 % of the outputs show men only",
        partial(_outputs, what="only men", words="outputs with a score of 1"),
    ),
    Claim(
        "outputs-balanced",
        "RQ1",
        "Appendix C, figure 3",
        "2 % of the outputs are unbiased",
        partial(_outputs, what="balanced", words="outputs with a score of 0"),
    ),
    Claim(
        "outputs-strong",
        "RQ1",
        "Section 4.1",
        "Nearly 90 % of the outputs lie beyond ±0.2 (Table 7: 87.7 %)",
        partial(_outputs, what="beyond 0.2", words="outputs beyond ±0.2"),
    ),
    Claim(
        "mixed",
        "RQ1",
        "Appendix C",
        "40 % of the prompts have mixed bias: men prevail for one T2I model, women for another (Table 7: 41 %)",
        partial(_outputs, what="mixed", words="prompts with mixed bias"),
    ),
)
