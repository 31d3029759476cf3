"""What Lyu 2025 claims about detectors (sections 4.2, 4.3 and 5.1, Tables 1 to 3, appendix D)."""

from __future__ import annotations

from functools import partial

from detector_bench.others.lyu2025.claims import Claim
from detector_bench.others.lyu2025.detector_questions import (
    ENHANCED,
    FACES,
    RIGHT,
    SEVEN,
    accurate_but_filtering,
    better_filter,
    better_on_men,
    changed_order,
    filtering_is_the_cause,
    fourth,
    language_models_filter_badly,
    largest_overestimate,
    none_accurate,
    rates_above,
    sign_of_deviation,
    smallest_or_largest,
    some_overestimate,
    table1,
    table2,
    table3,
    worse_than_fairface,
)
from detector_bench.others.lyu2025.published import T2I_MODELS

_RQ2, _RQ3, _OWN = "RQ2", "RQ3", "CLIP-Enhance"
_EIGHT = (*SEVEN, ENHANCED)

CLAIMS_ON_DETECTORS: tuple[Claim, ...] = (
    Claim(
        "none-accurate",
        _RQ2,
        "Answer to RQ2",
        "None of the detectors measures the bias accurately",
        none_accurate,
    ),
    Claim(
        "overestimate-27",
        _RQ2,
        "Abstract, Table 1",
        "CLIP-Prob overestimates Dreamlike by 26.95 %",
        largest_overestimate,
    ),
    Claim(
        "overestimate-some",
        _RQ2,
        "Abstract, answer to RQ2",
        "Some detectors overestimate bias by as much as 26.95 %",
        some_overestimate,
    ),
    *(
        Claim(
            f"over-{name}",
            _RQ2,
            "Section 4.2, Table 1",
            f"{words} overestimates every T2I model",
            partial(sign_of_deviation, detector=name, up=True, everywhere=True),
        )
        for name, words in (("clip_prob", "CLIP-Prob"), ("clip_uncertain", "CLIP-Uncertain"), ("blip2", "BLIP-2"))
    ),
    Claim(
        "under-clip",
        _RQ2,
        "Section 4.2, Table 1",
        "CLIP underestimates every T2I model",
        partial(sign_of_deviation, detector="clip", up=False, everywhere=True),
    ),
    *(
        Claim(
            f"under-{name}",
            _RQ2,
            "Section 4.2",
            f"{words} tends to underestimate",
            partial(sign_of_deviation, detector=name, up=False, everywhere=False),
        )
        for name, words in (("mivolo", "MiVOLO"), ("fairface", "FairFace"))
    ),
    Claim(
        "best-mivolo",
        _RQ2,
        "Section 4.2",
        "Of seven detectors, MiVOLO's model bias scores are the closest",
        partial(smallest_or_largest, detector="mivolo", rivals=SEVEN, of="deviation", most=False),
    ),
    Claim(
        "worst-clip-prob",
        _RQ2,
        "Section 4.2",
        "CLIP-Prob's model bias scores are the farthest off",
        partial(smallest_or_largest, detector="clip_prob", rivals=SEVEN, of="deviation", most=True),
    ),
    Claim(
        "clip-and-fairface",
        _RQ2,
        "Section 1, answer to RQ2",
        "CLIP, the most used, deviates up to seven times as much as FairFace",
        worse_than_fairface,
    ),
    Claim(
        "changed-order",
        _RQ2,
        "Section 4.2",
        "CLIP-Prob turns the order of SD3 and Dreamlike round",
        changed_order,
    ),
    Claim(
        "prompts-fairface",
        _RQ2,
        "Section 4.2, Table 2",
        "Of seven detectors, FairFace has the smallest prompt bias score difference on every T2I model",
        partial(
            smallest_or_largest,
            detector="fairface",
            rivals=SEVEN,
            of="prompt difference",
            most=False,
            models=T2I_MODELS,
        ),
    ),
    Claim(
        "prompts-clip-prob",
        _RQ2,
        "Section 4.2, Table 2",
        "CLIP-Prob has the largest prompt bias score difference on SDXL and SD3",
        partial(
            smallest_or_largest,
            detector="clip_prob",
            rivals=SEVEN,
            of="prompt difference",
            most=True,
            models=("sdxl", "sd3"),
        ),
    ),
    Claim(
        "prompts-clip-uncertain",
        _RQ2,
        "Section 4.2, Table 2",
        "CLIP-Uncertain has the largest prompt bias score difference on Dreamlike",
        partial(
            smallest_or_largest,
            detector="clip_uncertain",
            rivals=SEVEN,
            of="prompt difference",
            most=True,
            models=("dreamlike",),
        ),
    ),
    Claim(
        "prompts-mivolo",
        _RQ2,
        "Section 4.2, Table 2",
        "MiVOLO is fourth by prompt bias score difference, behind FairFace, CLIP and Face++",
        fourth,
    ),
    *(
        Claim(
            f"table1-{name}",
            _RQ2,
            "Table 1",
            f"The deviations of {name}, as printed",
            partial(table1, detector=name),
        )
        for name in _EIGHT
    ),
    *(
        Claim(
            f"table2-{name}",
            _RQ2,
            "Table 2",
            f"The prompt bias score differences of {name}, as printed",
            partial(table2, detector=name),
        )
        for name in _EIGHT
    ),
    Claim(
        "accurate-but-filtering",
        _RQ3,
        "Answer to RQ3",
        "CLIP-Prob and BLIP-2 are accurate (above 95 %) and fail by their recall (below 67 %)",
        accurate_but_filtering,
    ),
    Claim(
        "filtering-is-the-cause",
        _RQ3,
        "Section 4.3",
        "The errors of CLIP-Prob and BLIP-2 come from filtering",
        filtering_is_the_cause,
    ),
    Claim(
        "language-models-filter",
        _RQ3,
        "Answer to RQ3",
        "Vision-language models are no good at filtering low-quality images",
        language_models_filter_badly,
    ),
    Claim(
        "faces-filter",
        _RQ3,
        "Answer to RQ3",
        "Face detectors filter well: recall above 97 %, filter rate above 70 %",
        partial(rates_above, borders={"recall": 0.97, "filter_rate": 0.7}, detectors=FACES),
    ),
    Claim(
        "language-models-classify",
        _RQ3,
        "Answer to RQ3",
        "Vision-language models name the gender rightly (above 95 %)",
        partial(rates_above, borders={"accuracy": RIGHT}, detectors=("clip", "blip2")),
    ),
    Claim(
        "better-on-men", _RQ3, "Appendix D", "All detectors are more accurate on men than on women", better_on_men
    ),
    Claim(
        "smallest-gap",
        _RQ3,
        "Appendix D",
        "CLIP-Prob has the smallest accuracy gap between the genders",
        partial(smallest_or_largest, detector="clip_prob", rivals=SEVEN, of="gap", most=False),
    ),
    Claim(
        "largest-gap",
        _RQ3,
        "Appendix D",
        "CLIP-Uncertain has the largest accuracy gap between the genders",
        partial(smallest_or_largest, detector="clip_uncertain", rivals=SEVEN, of="gap", most=True),
    ),
    Claim(
        "f1-fairface",
        _RQ3,
        "Appendix D",
        "Of seven detectors, FairFace has the highest F1",
        partial(smallest_or_largest, detector="fairface", rivals=SEVEN, of="f1", most=True),
    ),
    Claim(
        "accuracy-clip-prob",
        _RQ3,
        "Appendix D",
        "CLIP-Prob has the highest accuracy",
        partial(smallest_or_largest, detector="clip_prob", rivals=_EIGHT, of="accuracy", most=True),
    ),
    *(
        Claim(
            f"table3-{name}",
            _RQ3,
            "Table 3",
            f"Filtering and accuracy of {name}, as printed",
            partial(table3, detector=name),
        )
        for name in _EIGHT
    ),
    Claim(
        "enhance-deviation",
        _OWN,
        "Section 5.1",
        "CLIP-Enhance has the smallest mean deviation of all",
        partial(smallest_or_largest, detector=ENHANCED, rivals=_EIGHT, of="deviation", most=False),
    ),
    Claim(
        "enhance-prompts",
        _OWN,
        "Section 5.1, Table 2",
        "CLIP-Enhance has the smallest prompt bias score difference on every T2I model",
        partial(
            smallest_or_largest,
            detector=ENHANCED,
            rivals=_EIGHT,
            of="prompt difference",
            most=False,
            models=T2I_MODELS,
        ),
    ),
    Claim(
        "enhance-f1",
        _OWN,
        "Section 5.1",
        "CLIP-Enhance has the highest F1 of all",
        partial(smallest_or_largest, detector=ENHANCED, rivals=_EIGHT, of="f1", most=True),
    ),
    Claim(
        "enhance-filter",
        _OWN,
        "Section 5.1",
        "CLIP-Enhance filters more low-quality images than FairFace (82.91 % and 71.56 %)",
        better_filter,
    ),
)
