"""Reads what image services reply: an image, a refusal, or neither.

A refusal is what the service calls one: a code of its moderation in an error, or a reply without an image that is
otherwise as documented. Anything else that is no image is an error.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from detector_bench.generation.image_prices import ImageUsage
from detector_bench.perception.answers.openai_servers import Complaint

MOST_IMAGE_BYTES = 64 * 1024**2
"""Of an image file that is taken."""
MOST_REPLY_BYTES = MOST_IMAGE_BYTES * 4 // 3 + 1024**2
"""Of a reply with an image in base64."""

_REFUSALS = re.compile(
    r"moderation|content_?policy|content_?filter|safety|responsible_?ai|prohibited", re.IGNORECASE
)
_REFUSING_WORDS = re.compile(r"\brejected (by|as a result of) (our|the) safety system\b", re.IGNORECASE)
_FLAGS = ("nsfw_content_detected", "has_nsfw_concept", "has_nsfw_concepts", "nsfw")
_TOLD = ("size", "quality", "background", "output_format")
_COUNTED = ("input_tokens", "output_tokens")
_LONGEST_WORD = 40
_LONGEST_REVISED = 100_000


@dataclass(frozen=True)
class ImageReply:
    """What a reply with status 200 says.

    Attributes:
        content: the image file, as it came; None: there is none in the reply.
        url: where the image can be fetched instead.
        refusal: why there is no image, or none that counts: a word in snake_case, after a colon what was said.
        revised_prompt: what the service made of the prompt.
        usage: tokens that it counted.
        parameters: what it says that it did.
    """

    content: bytes | None = None
    url: str | None = None
    refusal: str | None = None
    revised_prompt: str | None = None
    usage: ImageUsage | None = None
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)


def read_image_reply(body: bytes) -> ImageReply:
    """Read the body of a reply with status 200.

    Raises:
        ValueError: it is no reply of an image service, or what stands in the image's place is no base64.
    """
    if not body.strip():
        raise ValueError("the body of the reply is empty")
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError(f"the reply is no JSON: {_beginning(body)}") from None
    if not isinstance(reply, Mapping) or not {"data", "error"} & set(reply):
        raise ValueError(f"the reply has no `data`: {_beginning(body)}")
    data = reply.get("data")
    entry = data[0] if isinstance(data, list) and data and isinstance(data[0], Mapping) else {}
    told: dict[str, str | int | float] = {
        name: value for name in _TOLD if isinstance(value := reply.get(name), str) and len(value) <= _LONGEST_WORD
    }
    usage = ImageUsage.of(reply.get("usage"))
    if usage is not None:
        told |= {name: int(reply["usage"][name]) for name in _COUNTED}
    revised = entry.get("revised_prompt")
    url = entry.get("url")
    found = ImageReply(
        url=url if isinstance(url, str) and url else None,
        refusal=_refusal(reply, entry),
        revised_prompt=revised[:_LONGEST_REVISED] if isinstance(revised, str) and revised else None,
        usage=usage,
        parameters=told,
    )
    if found.refusal is not None:
        return found
    packed = entry.get("b64_json")
    if isinstance(packed, str) and packed:
        return replace(found, content=_unpacked(packed), url=None)
    if found.url is None:
        if reply.get("error"):
            raise ValueError(f"the reply is an error: {_plain(reply['error'])}")
        return replace(found, refusal="no_image: the reply has none, and gives no reason")
    if found.url.startswith("data:"):
        return replace(found, content=_unpacked(found.url), url=None)
    return found


def refusal_in(complaint: Complaint) -> str | None:
    """The code by which a service refuses a prompt or a photo; None: it complains of something else."""
    for code in sorted(complaint.codes, key=lambda each: (each != "moderation_blocked", each)):
        if _REFUSALS.search(code):
            return _snake(code)
    # Older models name no code.
    return "safety_system" if _REFUSING_WORDS.search(complaint.message) else None


def _refusal(reply: Mapping[str, Any], entry: Mapping[str, Any]) -> str | None:
    error = reply.get("error")
    if isinstance(error, Mapping):
        codes = [value for name in ("code", "type") if isinstance(value := error.get(name), str)]
        code = next((each for each in codes if _REFUSALS.search(each)), None)
        if code is not None:
            return f"{_snake(code)}: {_plain(error.get('message', 'no message'))}"
    for part in (entry, reply):
        reason = part.get("finish_reason")
        if isinstance(reason, str) and (_REFUSALS.search(reason) or "filter" in reason.lower()):
            return f"content_filter: finish_reason is {_plain(reason)}"
        if part.get("respect_moderation") is False:
            return "moderation: respect_moderation is false"
        filtered = sorted(set(_filtered(part)))
        if filtered:
            return f"content_filter: {', '.join(filtered)}"
        for name in _FLAGS:
            flag = part.get(name)
            if flag is True or (isinstance(flag, list) and True in flag):
                return f"safety_checker: {name} is true"
    return None


def _filtered(part: Mapping[str, Any]) -> Iterator[str]:
    """Categories that a content filter names, in the form of Azure's replies."""
    for name in ("content_filter_results", "prompt_filter_results"):
        found = part.get(name)
        for each in found if isinstance(found, list) else [found]:
            inner = each.get("content_filter_results", each) if isinstance(each, Mapping) else {}
            if isinstance(inner, Mapping):
                yield from (
                    _snake(str(category))
                    for category, state in inner.items()
                    if isinstance(state, Mapping) and state.get("filtered") is True
                )


def _unpacked(packed: str) -> bytes:
    text = packed.partition(",")[2] if packed.startswith("data:") else packed
    try:
        return base64.b64decode("".join(text.split()) if "\n" in text else text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the image is no base64: {_beginning(text[:200].encode(errors='replace'))}") from None


def _snake(word: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower()).strip("_")[:60]


def _plain(said: Any) -> str:
    return " ".join(str(said).split())[:200]


def _beginning(content: bytes) -> str:
    return repr(" ".join(content[:60].decode("utf-8", errors="replace").split()))
