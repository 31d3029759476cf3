"""Diffusers pipelines of a few thousand random weights, built in code and saved as folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LONGEST_PROMPT = 24
"""Tokens that their text encoders read, with the two that mark beginning and end."""
SIZE = 64
"""Pixels of what they make unless they are asked for another size."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789,.-'"


def _vocabulary() -> dict[str, int]:
    marks = ["<|startoftext|>", "<|endoftext|>"]
    return {piece: place for place, piece in enumerate([*marks, *_LETTERS, *(f"{each}</w>" for each in _LETTERS)])}


def letters_tokenizer(*, longest: int = LONGEST_PROMPT) -> Any:
    """CLIP's, of single letters: a word of five letters is five tokens."""
    transformers = pytest.importorskip("transformers")
    return transformers.CLIPTokenizer(vocab=_vocabulary(), merges=[], model_max_length=longest)


def _text_encoder(*, projected: bool = False) -> Any:
    transformers = pytest.importorskip("transformers")
    settings = transformers.CLIPTextConfig(
        vocab_size=len(_vocabulary()),
        hidden_size=8,
        intermediate_size=16,
        projection_dim=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=LONGEST_PROMPT,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    kind = transformers.CLIPTextModelWithProjection if projected else transformers.CLIPTextModel
    return kind(settings)


def _image_decoder(**settings: Any) -> Any:
    """Eight pixels per latent number, as those of Stable Diffusion have it."""
    diffusers = pytest.importorskip("diffusers")
    return diffusers.AutoencoderKL(
        block_out_channels=(4, 4, 4, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        norm_num_groups=2,
        sample_size=SIZE,
        **{"latent_channels": 4, **settings},
    )


def _denoiser(**settings: Any) -> Any:
    diffusers = pytest.importorskip("diffusers")
    return diffusers.UNet2DConditionModel(
        **{
            "sample_size": SIZE // 8,
            "block_out_channels": (4, 8),
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "layers_per_block": 1,
            "norm_num_groups": 2,
            "attention_head_dim": 2,
            "cross_attention_dim": 8,
            **settings,
        }
    )


def _safety_checker(*, flags: bool) -> tuple[Any, Any]:
    """One that flags every image, or none; and what prepares images for it."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker

    vision = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings = transformers.CLIPConfig(
        vision_config={**vision, "image_size": 32, "patch_size": 16}, text_config=vision, projection_dim=8
    )
    checker = StableDiffusionSafetyChecker(settings)
    # A threshold that every similarity is above, or none.
    with torch.no_grad():
        for thresholds in (checker.concept_embeds_weights, checker.special_care_embeds_weights):
            thresholds.fill_(-2.0 if flags else 2.0)
    size = {"height": 32, "width": 32}
    return checker, transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size)


def stable_diffusion(
    folder: Path, *, flags: bool | None = None, in_channels: int = 4, pipeline: str = "StableDiffusionPipeline"
) -> Path:
    """Save a tiny Stable Diffusion; equal arguments give equal weights.

    Args:
        folder: to save it in.
        flags: None: without a safety checker; else with one that flags every image, or none.
        in_channels: of the denoiser: 4; 9 for `StableDiffusionInpaintPipeline`, 8 for
            `StableDiffusionInstructPix2PixPipeline`.
        pipeline: the class.
    """
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")
    torch.manual_seed(0)
    checker, extractor = (None, None) if flags is None else _safety_checker(flags=flags)
    made = getattr(diffusers, pipeline)(
        vae=_image_decoder(),
        text_encoder=_text_encoder(),
        tokenizer=letters_tokenizer(),
        unet=_denoiser(in_channels=in_channels),
        scheduler=diffusers.DDIMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False, steps_offset=1
        ),
        safety_checker=checker,
        feature_extractor=extractor,
        requires_safety_checker=flags is not None,
    )
    return _saved(made, folder)


def _saved(pipeline: Any, folder: Path) -> Path:
    pipeline.save_pretrained(folder, safe_serialization=True)
    return folder


def change_settings(folder: Path, part: str, **changes: Any) -> None:
    """Write other settings into a saved pipeline: `part` is a file below its folder."""
    path = folder / part
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, **changes}), encoding="utf-8")


def stable_diffusion_xl(folder: Path, *, pipeline: str = "StableDiffusionXLPipeline") -> Path:
    """Save a tiny SDXL: two text encoders, no safety checker."""
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")
    torch.manual_seed(0)
    made = getattr(diffusers, pipeline)(
        vae=_image_decoder(),
        text_encoder=_text_encoder(),
        text_encoder_2=_text_encoder(projected=True),
        tokenizer=letters_tokenizer(),
        tokenizer_2=letters_tokenizer(),
        unet=_denoiser(
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            # Two encoders give 16 numbers a token; 6 about the size and the 8 of the whole prompt are added.
            cross_attention_dim=16,
            projection_class_embeddings_input_dim=6 * 8 + 8,
        ),
        scheduler=diffusers.EulerDiscreteScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
        ),
    )
    return _saved(made, folder)


def _t5() -> tuple[Any, Any]:
    """A text encoder of the kind of T5, and its tokenizer, which knows letters."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -10.0), ("▁", -2.0), *((each, -3.0) for each in _LETTERS)]
    fast = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2))
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    fast.decoder = tokenizers.decoders.Metaspace()
    fast.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    marks = ("pad_token", "eos_token", "unk_token")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, model_max_length=512, **dict(zip(marks, ("<pad>", "</s>", "<unk>"), strict=True))
    )
    settings = transformers.T5Config(
        vocab_size=len(pieces), d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    return transformers.T5EncoderModel(settings), tokenizer


def stable_diffusion_3(folder: Path) -> Path:
    """Save a tiny Stable Diffusion 3: three text encoders, the third of which reads more than the others."""
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")
    torch.manual_seed(0)
    third, third_tokenizer = _t5()
    made = diffusers.StableDiffusion3Pipeline(
        transformer=diffusers.SD3Transformer2DModel(
            sample_size=SIZE // 8,
            patch_size=2,
            in_channels=4,
            out_channels=4,
            num_layers=1,
            attention_head_dim=4,
            num_attention_heads=2,
            joint_attention_dim=16,
            caption_projection_dim=8,
            pooled_projection_dim=16,
            pos_embed_max_size=64,  # of patches of 16 pixels: up to 1024 x 1024
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_image_decoder(shift_factor=0.06, scaling_factor=1.5, use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=_text_encoder(projected=True),
        tokenizer=letters_tokenizer(),
        text_encoder_2=_text_encoder(projected=True),
        tokenizer_2=letters_tokenizer(),
        text_encoder_3=_widened(third),
        tokenizer_3=third_tokenizer,
    )
    return _saved(made, folder)


def _widened(encoder: Any) -> Any:
    """T5 with as many numbers a token as the two other encoders have together."""
    transformers = pytest.importorskip("transformers")
    return transformers.T5EncoderModel(transformers.T5Config(**{**encoder.config.to_dict(), "d_model": 16}))


def flux_kontext(folder: Path, *, pipeline: str = "FluxKontextPipeline") -> Path:
    """Save a tiny Flux, or one that edits photos."""
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")
    torch.manual_seed(0)
    second, second_tokenizer = _t5()
    made = getattr(diffusers, pipeline)(
        transformer=diffusers.FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=1,
            joint_attention_dim=8,
            pooled_projection_dim=8,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=True,
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=_image_decoder(shift_factor=0.1, scaling_factor=0.4, use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=_text_encoder(),
        tokenizer=letters_tokenizer(),
        text_encoder_2=second,
        tokenizer_2=second_tokenizer,
    )
    return _saved(made, folder)
