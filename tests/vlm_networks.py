"""Tiny image-text-to-text networks of the real classes, with random weights, saved as transformers saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = (
    *("question", ":", "does", "the", "person", "look", "like", "a", "male", "or", "female", "?", "answer"),
    *("man", "woman", "it", "is", "both", "unknown", "young", "old", "she", "he", "user:", "assistant:"),
)
IMAGE_MARK = "<image>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def tokenizer() -> Any:
    """A token for each of a few words; begins a text with `<s>`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    vocabulary = [*special.values(), IMAGE_MARK, *WORDS]
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(vocabulary)}, "<unk>"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=words, additional_special_tokens=[IMAGE_MARK], **special)


def _seed() -> None:
    """For what `_excite` leaves as it was made."""
    import torch

    torch.manual_seed(3)


def _excite(model: Any) -> Any:
    # Freshly made networks hardly notice the image, and repeat one word.
    import torch

    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.5)
    return model.eval()


def save_blip2(folder: Path, *, query_tokens: int | None = 4, language: str = "opt") -> None:
    """BLIP-2 with OPT, or with T5; `query_tokens` is what the processor knows of the network."""
    from transformers import Blip2Config, Blip2ForConditionalGeneration, Blip2Processor, BlipImageProcessorPil

    words = tokenizer()
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Blip2Config(
        vision_config={**small, "image_size": 28, "patch_size": 7},
        qformer_config={**small, "encoder_hidden_size": 16, "vocab_size": 8},
        text_config=(_opt if language == "opt" else _t5)(len(words)),
        num_query_tokens=4,
        image_token_index=words.convert_tokens_to_ids(IMAGE_MARK),
    )
    _seed()
    _excite(Blip2ForConditionalGeneration(config)).save_pretrained(folder)
    images = BlipImageProcessorPil(size={"height": 28, "width": 28})
    Blip2Processor(images, words, num_query_tokens=query_tokens).save_pretrained(folder)


def _opt(vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "opt",
        "hidden_size": 16,
        "ffn_dim": 32,
        "word_embed_proj_dim": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "vocab_size": vocabulary,
        "max_position_embeddings": 100,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _t5(vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "t5",
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 1,
        "num_heads": 2,
        "vocab_size": vocabulary,
        "pad_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 0,
    }


def save_llava_next(folder: Path, *, chat: bool = True) -> None:
    """LLaVA-NeXT with CLIP and Llama: images of other shapes take another number of tokens."""
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessorPil,
        LlavaNextProcessor,
    )

    words = tokenizer()
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    grids = [[28, 28], [28, 56], [56, 28]]
    config = LlavaNextConfig(
        vision_config=CLIPVisionConfig(**small, image_size=28, patch_size=14).to_dict(),
        text_config=LlamaConfig(
            **small,
            vocab_size=len(words),
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            max_position_embeddings=200,
        ).to_dict(),
        image_token_index=words.convert_tokens_to_ids(IMAGE_MARK),
        image_grid_pinpoints=grids,
        vision_feature_layer=-1,
    )
    _seed()
    _excite(LlavaNextForConditionalGeneration(config)).save_pretrained(folder)
    images = LlavaNextImageProcessorPil(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}, image_grid_pinpoints=grids
    )
    LlavaNextProcessor(
        images,
        words,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE if chat else None,
    ).save_pretrained(folder)
