"""Vision-language networks on this machine: the stage `generated_answers`, and the detectors that ask it."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from running import frames_of, judged, read_image, run_stages
from small_parts import small_run, write_image_set
from vlm_networks import save_blip2, save_llava_next

from detector_bench.detectors import build_detector
from detector_bench.detectors.vlm_judge import QUESTION, Blip2, VlmJudge
from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.answers import generated_answers
from detector_bench.perception.answers.generated_answers import GeneratedAnswers, answer_of
from detector_bench.perception.answers.token_choices import places_in
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import Batch, Frame, text_array, text_in
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import BLIP2_OPT_2_7B, CATALOGUE

NOWHERE = WeightsLocator()
PROMPT = "Question : does the person look like a male or a female ? Answer :"
TOKENS = 8


@pytest.fixture(scope="module", autouse=True)
def _single_thread() -> Iterator[None]:
    # Imported here, as every process of the tests reads this file, and one runs it.
    torch, *_ = (pytest.importorskip(package) for package in ("torch", "transformers", "torchvision"))
    # On a busy machine several threads spend their time waiting for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weights folder with a network of each kind."""
    made = tmp_path_factory.mktemp("networks")
    save_blip2(made / "blip2")
    save_blip2(made / "blip2-t5", language="t5")
    save_llava_next(made / "llava")
    return made


def pictures(count: int = 8) -> list[Any]:
    """Images of three shapes, each with a colour of its own."""
    generator = np.random.default_rng(0)
    shapes = [(40, 40), (30, 70), (80, 30)]
    images = []
    for number in range(count):
        noise = generator.integers(0, 77, (*shapes[number % 3], 3))
        images.append((generator.integers(0, 256, 3) * 0.7 + noise).clip(0, 255).astype(np.uint8))
    return images


def stage(checkpoint: Path, **options: Any) -> GeneratedAnswers:
    settings = {
        "question": PROMPT,
        "chat": False,
        "precision": "float32",
        "max_new_tokens": TOKENS,
        "device": "cpu",
    }
    return GeneratedAnswers(checkpoint=str(checkpoint), **{**settings, **options})


def answers(declared: GeneratedAnswers, images: list[Any]) -> list[str]:
    return [answer_of(result) for result in declared.load(NOWHERE)(frames_of(images))]


def by_the_book(
    checkpoint: Path, images: list[Any], inputs_of: Callable[[Any, Any], Any], *, echoed: bool
) -> list[str]:
    """The library's own straightforward use, image by image."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(checkpoint, backend="pil")
    texts = []
    for image in images:
        inputs = inputs_of(processor, Image.fromarray(image))
        tokens = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)[0]
        new = tokens[inputs["input_ids"].shape[1] :] if echoed else tokens
        texts.append(processor.decode(new, skip_special_tokens=True))
    return texts


@pytest.mark.parametrize(("name", "echoed"), [("blip2", True), ("blip2-t5", False)])
@pytest.mark.slow
def test_blip2_answers_as_the_library_does(folder: Path, name: str, echoed: bool) -> None:
    images = pictures()
    expected = by_the_book(
        folder / name,
        images,
        lambda processor, image: processor(images=image, text=PROMPT, return_tensors="pt"),
        echoed=echoed,
    )
    assert len(set(expected)) >= 3, "the images should make a difference"
    assert answers(stage(folder / name), images) == expected
    assert [answers(stage(folder / name), [image])[0] for image in images] == expected


@pytest.mark.slow
def test_chat_network_answers_as_the_library_does(folder: Path) -> None:
    images, question = pictures(), "male or female ?"

    def inputs_of(processor: Any, image: Any) -> Any:
        message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}
        prompt = processor.apply_chat_template([message], add_generation_prompt=True)
        assert prompt == "user: <image> male or female ? assistant:"
        return processor(images=image, text=prompt, return_tensors="pt")

    expected = by_the_book(folder / "llava", images, inputs_of, echoed=True)
    assert len(set(expected)) >= 3
    declared = stage(folder / "llava", question=question, chat=True)
    assert answers(declared, images) == expected
    assert [answers(declared, [image])[0] for image in reversed(images)] == expected[::-1]
    # The same words, written out as a prompt.
    plain = stage(folder / "llava", question="user: <image> male or female ? assistant:")
    assert answers(plain, images) == expected


def test_network_answers_in_turns_as_the_library_does(folder: Path) -> None:
    images = pictures(4)
    first = stage(folder / "llava", question="male or female ?", chat=True)
    second = stage(folder / "llava", question="young or old ?", chat=True, earlier=first)
    frames = frames_of(images)
    run_stages([second], frames, weights=NOWHERE)
    said = iter([answer_of(frame[first]) for frame in frames])

    def inputs_of(processor: Any, image: Any) -> Any:
        prompt = f"user: <image> male or female ? assistant: {next(said)} user: young or old ? assistant:"
        return processor(images=image, text=prompt, return_tensors="pt")

    assert [answer_of(frame[second]) for frame in frames] == by_the_book(
        folder / "llava", images, inputs_of, echoed=True
    )


@pytest.mark.parametrize(("name", "chat"), [("llava", True), ("blip2-t5", False)])
def test_network_tells_what_it_might_have_said(folder: Path, name: str, chat: bool) -> None:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    declared = stage(folder / name, question="male or female ?", chat=chat, top_logprobs=3)
    images = pictures(3)
    results = declared.load(NOWHERE)(frames_of(images))
    plain = declared.model_copy(update={"top_logprobs": None})
    assert [answer_of(each) for each in results] == answers(plain, images)
    model = AutoModelForImageTextToText.from_pretrained(folder / name, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder / name, backend="pil")
    prompt = "user: <image> male or female ? assistant:" if chat else "male or female ?"
    for image, result in zip(images, results, strict=True):
        inputs = processor(images=Image.fromarray(image), text=prompt, return_tensors="pt")
        told = model.generate(
            **inputs, max_new_tokens=TOKENS, do_sample=False, return_dict_in_generate=True, output_logits=True
        )
        places = places_in(result)
        assert "".join(place[0].text for place in places) == answer_of(result)
        for place, logits in zip(places, told.logits, strict=False):
            expected = logits[0].log_softmax(-1).topk(3).values.tolist()
            assert [each.logprob for each in place] == pytest.approx(expected, abs=1e-4)


def test_judge_with_a_network_has_scores(folder: Path) -> None:
    model = {"kind": "transformers", "checkpoint": str(folder / "llava"), "precision": "float32", "device": "cpu"}
    words = {"labels": {"male": ["or", "person", "a", "is"], "female": ["user", "the", "he", "it"]}}
    parameters = {
        "model": {**model, "max_new_tokens": TOKENS, "top_logprobs": 20},
        "questions": {"gender": {"question": "male or female ?", "answers": words}},
    }
    found = judged(build_detector("vlm_judge", parameters=parameters), pictures(), weights=NOWHERE)
    scores = [each.score for each in found if each.status == "clear"]
    assert scores
    assert all(score is not None and 0 < score <= 1 for score in scores)


@pytest.mark.parametrize("name", ["blip2", "llava"])
def test_half_the_bits_are_enough(folder: Path, name: str) -> None:
    options = {"question": "male or female ?", "chat": name == "llava"}
    exact = answers(stage(folder / name, **options), pictures())
    rounded = answers(stage(folder / name, precision="bfloat16", **options), pictures())
    # Random weights leave most words on the verge.
    assert sum(first == second for first, second in zip(exact, rounded, strict=True)) >= 3


def test_answer_is_cut_off_after_so_many_tokens(folder: Path) -> None:
    long, short = (answers(stage(folder / "blip2", max_new_tokens=number), pictures()) for number in (6, 2))
    assert max(len(text.split()) for text in long) == 6
    assert max(len(text.split()) for text in short) == 2
    assert all(first.startswith(second) for first, second in zip(long, short, strict=True))


@pytest.mark.parametrize("broken", ["processor", "prompt"])
def test_prompt_without_the_image_is_refused(folder: Path, tmp_path: Path, broken: str) -> None:
    declared = stage(folder / "llava")
    if broken == "processor":
        save_blip2(tmp_path / "blip2", query_tokens=None)
        declared = stage(tmp_path / "blip2")
    with pytest.raises(ConfigError, match=r"takes no such prompt: .*(no place for the image|0 <image> tokens)"):
        declared.load(NOWHERE)


def test_chat_needs_a_template(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint blip2 has no chat template: set `chat: false`"):
        stage(folder / "blip2", chat=True).load(NOWHERE)


def change_weight(checkpoint: Path, ending: str, change: Callable[[Any], Any] | None) -> None:
    """Change one tensor of a saved network, or take it out."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(checkpoint / "model.safetensors")
    name = next(name for name in tensors if name.endswith(ending))
    tensor = tensors.pop(name)
    if change is not None:
        tensors[name] = change(tensor)
    save_file(tensors, checkpoint / "model.safetensors", metadata={"format": "pt"})


def test_outputs_that_are_not_finite_are_errors(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "blip2", tmp_path / "blip2")
    change_weight(tmp_path / "blip2", "language_projection.bias", lambda tensor: tensor * float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        answers(stage(tmp_path / "blip2"), pictures(2))


def test_incomplete_checkpoint_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "blip2", tmp_path / "blip2")
    change_weight(tmp_path / "blip2", "language_projection.bias", None)
    with pytest.raises(WeightsError, match=r"lacks '.*language_projection\.bias'"):
        answers(stage(tmp_path / "blip2"), pictures(1))
    (tmp_path / "blip2" / "config.json").write_text("{")
    with pytest.raises(WeightsError, match="transformers cannot read AutoModelForImageTextToText"):
        answers(stage(tmp_path / "blip2"), pictures(1))
    with pytest.raises(WeightsError, match="nowhere"):
        answers(stage(tmp_path / "nowhere"), pictures(1))


@pytest.mark.slow
def test_questions_share_the_network_while_anyone_uses_it(folder: Path) -> None:
    gc.collect()
    assert not generated_answers._NETWORKS
    first, second = (stage(folder / "blip2", question=text).load(NOWHERE) for text in ("male ?", "female ?"))
    assert len(generated_answers._NETWORKS) == 1
    assert first(frames_of(pictures(1)))[0]["answer"].dtype == np.uint8
    del first, second
    gc.collect()
    assert not generated_answers._NETWORKS


def test_lack_of_memory_halves_the_batch(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    generate, sizes = generated_answers._Network.answers, []

    def cramped(self: Any, images: Any, **options: Any) -> list[str]:
        sizes.append(len(images))
        if len(images) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(self, images, **options)

    monkeypatch.setattr(generated_answers._Network, "answers", cramped)
    images = write_image_set(tmp_path / "set", 6)
    small_run(images, tmp_path / "out", blip2(folder, batch_size=4), batch_size=6)
    assert sizes == [4, 2, 2, 2]
    assert {row["status"] for row in rows(tmp_path / "out")} <= {"clear", "filtered"}


def test_fingerprint_holds_what_decides_an_answer_and_no_more(folder: Path) -> None:
    def of(**options: Any) -> str:
        return fingerprint(stage(folder / "blip2", **options), weights=NOWHERE)

    assert of(batch_size=3, device="auto") == of()
    decisive = [{}, {"question": "?"}, {"chat": True}, {"precision": "bfloat16"}, {"max_new_tokens": 3}]
    assert len({of(**options) for options in decisive}) == len(decisive)
    assert stage(folder / "blip2", batch_size=3).images_per_call == 3


@pytest.mark.parametrize("text", ["", "a man", " It's a \N{WOMAN}\n", "\N{NULL}", "half \ud83d"])
def test_text_is_stored_as_it_is(text: str) -> None:
    assert text_in(text_array(text)) == text.replace("\ud83d", "?")


# The detectors


def blip2(folder: Path, **options: Any) -> Any:
    assert Blip2
    settings = {"checkpoint": str(folder / "blip2"), "precision": "float32", "max_new_tokens": TOKENS, **options}
    return build_detector("blip2", parameters=settings)


def rows(out: Path, name: str = "blip2") -> list[dict[str, Any]]:
    return sorted(pq.read_table(out / name).to_pylist(), key=lambda row: row["image_id"])


def test_blip2_reads_the_sentence_and_keeps_it(folder: Path) -> None:
    detector = blip2(folder)
    (declared,) = detector.stages
    sentences = ["it's a woman", " male.", "both", "", "the person is standing", "a man\nAnswer: a man"]
    frames = [
        Frame(str(number), results={declared: {"answer": text_array(text)}})
        for number, text in enumerate(sentences)
    ]
    found = detector.predict(Batch(frames))
    assert [(each.label, each.reason) for each in found] == [
        ("female", None),
        ("male", None),
        (None, "ambiguous"),
        (None, "no_answer"),
        (None, "no_answer"),
        ("male", None),
    ]
    assert [each.raw for each in found] == sentences


def test_blip2_is_asked_as_in_the_paper() -> None:
    (declared,) = build_detector("blip2").stages
    assert isinstance(declared, GeneratedAnswers)
    assert declared.question == QUESTION == "Question: does the person look like a male or a female? Answer:"
    assert (declared.checkpoint, declared.chat) == (BLIP2_OPT_2_7B, False)
    assert BLIP2_OPT_2_7B.downloadable
    assert CATALOGUE[BLIP2_OPT_2_7B.name] == BLIP2_OPT_2_7B
    with pytest.raises(ConfigError, match="unknown class 'man' of 'gender'"):
        build_detector("blip2", parameters={"answers": {"labels": {"man": ["man"]}}})


def test_blip2_in_a_run(folder: Path, tmp_path: Path) -> None:
    images = write_image_set(tmp_path / "set", 5)
    record = small_run(images, tmp_path / "out", blip2(folder))
    found = rows(tmp_path / "out")
    seen = [read_image(path) for path in sorted((images / "images").iterdir())]
    expected = answers(stage(folder / "blip2", question=QUESTION), seen)
    assert [row["raw"] for row in found] == expected
    assert sum(record.images_per_stage.values()) == 5
    again = small_run(images, tmp_path / "again", blip2(folder, batch_size=2))
    assert sum(again.images_per_stage.values()) == 0, "the answers are in the cache"


def test_judge_with_a_network_of_ones_own(folder: Path) -> None:
    assert VlmJudge
    model = {
        "kind": "transformers",
        "checkpoint": str(folder / "llava"),
        "precision": "float32",
        "max_new_tokens": 5,
    }
    words = {
        "labels": {"male": ["or", "person"], "female": ["user", "is"]},
        "reasons": {"unknown": ["unknown", "assistant"]},
    }
    questions = {"gender": {"question": "male or female ?", "answers": words}, "age": "young or old ?"}
    detector = build_detector("vlm_judge", parameters={"model": model, "questions": questions})
    images = pictures()
    found = judged(detector, images, weights=NOWHERE)
    raw = answers(stage(folder / "llava", question="male or female ?", chat=True, max_new_tokens=5), images)
    assert [each.raw for each in found if each.attribute == "gender"] == raw
    assert {each.status for each in found} <= {"clear", "filtered"}
    assert all(each.label in (None, *ATTRIBUTES[each.attribute].classes) for each in found)
