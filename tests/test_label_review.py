"""The coordinator's side of the labelling desk: agreement, adjudication, exports, and who may see them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pytest
from label_answers import CALIBRATION, COUNT, F, L, M, labels_at_random, record, store_in
from small_parts import image_name, write_image_set

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import consensus
from detector_bench.labelling import Choice, DeskSettings, LabelStore
from detector_bench.vocabulary import ATTRIBUTES

pytest.importorskip("fastapi", reason="needs the extra label")

from fastapi.testclient import TestClient

from detector_bench.labelling.web.app import make_app
from detector_bench.labelling.web.desk import Desk

HERE = "http://127.0.0.1:8765"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LabelStore]:
    with store_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def client(store: LabelStore) -> TestClient:
    return client_of(store, "ann", "ben")


def client_of(store: LabelStore, *annotators: str) -> TestClient:
    return TestClient(make_app(store, Desk(annotators)), base_url=HERE)


# The agreement page


def test_the_agreement_page_is_told_numbers_and_no_image(client: TestClient, store: LabelStore) -> None:
    ann, ben = labels_at_random(seed=4, noise=0.3)
    record(store, "ann", ann)
    record(store, "ben", {**ben, 0: Choice("others", note=SCRIPT)})
    reply = client.get("/api/agreement")
    found = reply.json()
    assert found["agreement"]["images"] == COUNT
    assert found["compared"] == ["ann", "ben"]
    assert np.sum(found["confusion"]["counts"]) == COUNT
    assert [one["images"] for one in found["rounds"]] == [CALIBRATION, COUNT - CALIBRATION]
    assert "image_0" not in reply.text
    assert "script" not in reply.text
    of_a = client.get("/api/agreement", params={"t2i_model": "A"}).json()
    assert np.sum(of_a["confusion"]["counts"]) == COUNT / 2


def test_an_empty_desk_has_nothing_to_compare(client: TestClient) -> None:
    found = client.get("/api/agreement").json()
    assert found["verdict"]["title"] == "Nothing to compare yet"
    assert found["confusion"] is None
    assert {one["kappa"] for one in found["scopes"]} == {None}
    assert [one["done"] for one in found["annotators"]] == [0, 0]


def test_three_annotators_are_measured_together_and_by_two(store: LabelStore) -> None:
    for seed, name in enumerate(("ann", "ben", "cem")):
        record(store, name, labels_at_random(seed=5, noise=0.1 + 0.1 * seed)[seed % 2])
    client = client_of(store, "ann", "ben", "cem")
    found = client.get("/api/agreement").json()
    assert "Fleiss' kappa" in found["verdict"]["text"]
    assert found["confusion"] is None
    assert [(pair["first"], pair["second"]) for pair in found["pairs"]] == [
        ("ann", "ben"),
        ("ann", "cem"),
        ("ben", "cem"),
    ]
    of_two = client.get("/api/agreement", params={"first": "cem", "second": "ann"}).json()
    assert "Cohen's kappa" in of_two["verdict"]["text"]
    assert of_two["confusion"]["first"] == "cem"
    assert of_two["agreement"]["kappa"] == pytest.approx(found["pairs"][1]["kappa"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"question": "age"},
        {"second": "nobody", "first": "ann"},
        {"first": "ann", "second": "ann"},
        {"t2i_model": "C"},
        {"category": "nonsense"},
    ],
)
def test_what_is_not_there_is_refused(client: TestClient, store: LabelStore, wrong: dict[str, str]) -> None:
    record(store, "ann", {0: M})
    record(store, "ben", {0: M})
    reply = client.get("/api/agreement", params=wrong)
    assert reply.status_code == 400
    assert next(iter(wrong.values())) in reply.json()["error"]["message"]


def test_watching_pages_do_not_keep_the_store_busy(
    client: TestClient, store: LabelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[bool] = []
    given: Callable[..., Any] = store.given
    monkeypatch.setattr(store, "given", lambda **options: (readings.append(True), given(**options))[1])
    for _ in range(5):
        client.get("/api/agreement")
    assert len(readings) == 1


def test_the_calibration_round_is_closed_once_and_its_numbers_stay(client: TestClient, store: LabelStore) -> None:
    calibration = [item.item_id for item in store.items("ann", 0, CALIBRATION)]
    numbers = [int(item_id[-3:]) for item_id in calibration]
    record(store, "ann", dict(zip(numbers, (M, F, M), strict=True)))
    record(store, "ben", dict(zip(numbers, (M, F, F), strict=True)))
    sent = {"event_id": str(uuid4()), "discussed": True}
    for _ in range(2):
        assert client.post("/api/agreement/calibration", json=sent).json() == {"discussed": True}
    before = client.get("/api/agreement").json()
    assert before["calibration"] == {"total": CALIBRATION, "done": {"ann": 3, "ben": 3}, "discussed": True}
    again = client.post("/api/agreement/calibration", json={"event_id": str(uuid4()), "discussed": False})
    assert again.json() == {"discussed": False}
    record(store, "ben", {numbers[2]: M})  # revised after the discussion
    after = client.get("/api/agreement").json()
    assert after["rounds"][0] == before["rounds"][0]
    assert after["rounds"][0]["percent"] == pytest.approx(2 / 3)


# Adjudication


@pytest.fixture
def disagreeing(store: LabelStore) -> LabelStore:
    record(store, "ann", {0: M, 1: F, 2: Choice("low_quality", "blurred", "too soft"), 3: M})
    record(store, "ben", {0: M, 1: M, 2: F, 3: Choice("others", note=SCRIPT)})
    return store


def decision(number: int, choice: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {
        "answer_id": str(uuid4()),
        "item_id": image_name(number),
        "question": "gender",
        "choice": choice,
    } | more


def cases(client: TestClient, **params: str) -> dict[str, dict[str, Any]]:
    found = client.get("/api/adjudication", params=params).json()["disagreements"]
    return {one["item_id"]: one for one in found}


def test_only_disagreements_are_shown_with_all_that_was_said(client: TestClient, disagreeing: LabelStore) -> None:
    found = cases(client)
    assert list(found) == [image_name(number) for number in (1, 2, 3)]
    assert found[image_name(2)]["choices"] == [
        {"name": "ann", "label": "low_quality", "reason": "blurred", "note": "too soft", "value": None},
        {"name": "ben", "label": "female", "reason": "", "note": "", "value": None},
    ]
    assert [one["kind"] for one in found.values()] == ["Male / Female", "Female / Low quality", "Male / Other"]
    assert found[image_name(3)]["choices"][1]["note"] == SCRIPT
    assert found[image_name(3)]["t2i_model"] == "B"
    assert {one["decision"] for one in found.values()} == {None}


def test_names_can_be_hidden_and_letters_stick_to_nobody(store: LabelStore) -> None:
    record(store, "ann", dict.fromkeys(range(COUNT), M))
    record(store, "ben", dict.fromkeys(range(COUNT), F))
    client = client_of(store, "ann", "ben")
    reply = client.get("/api/adjudication", params={"names": "hidden"})
    assert '"ann"' not in reply.text
    assert '"ben"' not in reply.text
    found = cases(client, names="hidden").values()
    assert {tuple(choice["name"] for choice in one["choices"]) for one in found} == {
        ("Annotator A", "Annotator B")
    }
    assert {one["choices"][0]["label"] for one in found} == {"male", "female"}


def test_a_decision_sent_again_changes_nothing(client: TestClient, disagreeing: LabelStore) -> None:
    first = decision(1, {"label": "female", "note": "the beard is a scarf"}, milliseconds=1200)
    second = decision(1, None)
    for sent in (first, second, first):
        reply = client.post("/api/adjudication/answers", json={"answers": [sent]}).json()
        assert [result["status"] for result in reply["results"]] == ["saved"]
    assert cases(client)[image_name(1)]["decision"] == {"choice": None, "outdated": False}
    rows = disagreeing.labels()
    assert "adjudicator" not in set(rows["annotator"])


def test_decisions_reach_the_labels_and_what_is_unresolved_becomes_low_quality(
    client: TestClient, disagreeing: LabelStore
) -> None:
    sent = [
        decision(1, {"label": "female"}),
        decision(2, None),
        decision(3, {"label": "low_quality", "reason": "several_people"}),
    ]
    assert client.post("/api/adjudication/answers", json={"answers": sent}).status_code == 200
    decided = consensus(disagreeing.labels()).set_index("image_id")
    assert decided.loc[image_name(0), "label"] == "male"
    assert decided.loc[image_name(1), "label"] == "female"
    assert tuple(decided.loc[image_name(2), ["label", "reason"]]) == ("low_quality", "disagreement")
    assert tuple(decided.loc[image_name(3), ["label", "reason"]]) == ("low_quality", "several_people")
    assert "adjudicator" not in client.get("/api/agreement").json()["compared"]


def test_a_decision_can_be_taken_back(client: TestClient, disagreeing: LabelStore) -> None:
    first, second = decision(1, {"label": "female"}), decision(1, {"label": "male"})
    for sent in (first, second):
        client.post("/api/adjudication/answers", json={"answers": [sent]})
    undo = {"undo_id": str(uuid4()), "answer_id": second["answer_id"]}
    for _ in range(2):
        reply = client.post("/api/adjudication/undo", json=undo)
        assert reply.json() == {"item": {"item_id": image_name(1)}}
    assert cases(client)[image_name(1)]["decision"]["choice"]["label"] == "female"
    assert client.post("/api/adjudication/undo", json={"undo_id": str(uuid4())}).json()["item"] is not None
    assert cases(client)[image_name(1)]["decision"] is None
    assert client.post("/api/adjudication/undo", json={"undo_id": str(uuid4())}).json() == {"item": None}


def test_a_label_changed_since_is_noticed(client: TestClient, disagreeing: LabelStore) -> None:
    client.post("/api/adjudication/answers", json={"answers": [decision(1, {"label": "female"})]})
    record(disagreeing, "ann", {1: L})
    assert cases(client)[image_name(1)]["decision"]["outdated"] is True


def test_one_refused_decision_keeps_nobody_from_storing_the_others(
    client: TestClient, disagreeing: LabelStore
) -> None:
    used = decision(1, {"label": "female"})
    sent = [
        decision(99, {"label": "male"}),
        decision(1, {"label": "martian"}),
        decision(5, {"label": "male"}),  # nobody labelled it
        used,
        {**used, "choice": {"label": "male"}},  # its id for another content
    ]
    results = client.post("/api/adjudication/answers", json={"answers": sent}).json()["results"]
    assert [result["status"] for result in results] == ["refused", "refused", "refused", "saved", "refused"]
    assert "image_099" in results[0]["message"]
    assert cases(client)[image_name(1)]["decision"]["choice"]["label"] == "female"


def test_every_answer_has_a_key_of_its_own(tmp_path: Path) -> None:
    images = ImageSet.load(write_image_set(tmp_path / "images", 2), require_labels=False)
    settings = DeskSettings(attributes=tuple(ATTRIBUTES))
    with LabelStore.open(tmp_path / "labels.sqlite", images, settings=settings) as store:
        questions = client_of(store, "ann", "ben").get("/api/adjudication").json()["questions"]
    keys = {question["name"]: [choice["key"] for choice in question["choices"]] for question in questions}
    assert keys["gender"] == ["1", "2", "3", "4"]
    assert keys["skin_tone"] == [*"1234567890", "l", "o"]
    assert all(len(set(each)) == len(each) and not set(each) & set("xtnuz") for each in keys.values())


# The way out


def test_labels_can_be_taken_along(client: TestClient, disagreeing: LabelStore) -> None:
    client.post("/api/adjudication/answers", json={"answers": [decision(1, {"label": "female"})]})
    reply = client.get("/export/labels.csv")
    assert reply.headers["content-disposition"] == 'attachment; filename="labels.csv"'
    table = pd.read_csv(io.StringIO(reply.text), dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(table, disagreeing.labels(), check_dtype=False)
    assert ("adjudicator", "female") in set(zip(table["annotator"], table["label"], strict=True))
    tasks = client.get("/export/label-studio.json").json()
    assert len(tasks) == COUNT


# Who may come in


def test_only_the_coordinator_sees_agreement_and_disagreements(disagreeing: LabelStore) -> None:
    desk = Desk(("ann", "ben"), public_url="https://desk.example", secret="s" * 32)
    assert desk.tokens is not None
    pages = ("/agreement", "/adjudication", "/api/agreement", "/api/adjudication", "/export/labels.csv")
    expected = {"ann": 403, None: 200, "nobody": 401}
    for who, status in expected.items():
        client = TestClient(make_app(disagreeing, desk), base_url="https://desk.example")
        client.cookies.set(desk.tokens.cookie, "wrong" if who == "nobody" else desk.tokens.of(who))
        assert [client.get(page).status_code for page in pages] == [status] * 5
        for address, body in [
            ("/api/adjudication/answers", {"answers": [decision(1, {"label": "male"})]}),
            ("/api/adjudication/undo", {"undo_id": str(uuid4())}),
            ("/api/agreement/calibration", {"event_id": str(uuid4()), "discussed": False}),
        ]:
            assert client.post(address, json=body).status_code == status


@pytest.mark.parametrize("address", ["adjudication/answers", "adjudication/undo", "agreement/calibration"])
def test_other_sites_cannot_decide(client: TestClient, disagreeing: LabelStore, address: str) -> None:
    body = json.dumps({"answers": [decision(1, {"label": "male"})]})
    headers = {"Content-Type": "application/json", "Origin": "https://evil.example"}
    assert client.post(f"/api/{address}", content=body, headers=headers).status_code == 403
    plain = {"Content-Type": "text/plain", "Origin": HERE}
    assert client.post(f"/api/{address}", content=body, headers=plain).status_code == 415
    assert cases(client)[image_name(1)]["decision"] is None


@pytest.mark.parametrize("page", ["agreement", "adjudication"])
def test_pages_load_nothing_from_elsewhere(client: TestClient, page: str) -> None:
    reply = client.get(f"/{page}")
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    assert "http:" not in reply.text
    assert "https:" not in reply.text
    assert " style=" not in reply.text
    assert "<script>" not in reply.text
