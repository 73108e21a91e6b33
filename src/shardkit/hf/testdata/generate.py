#!/usr/bin/env python3
"""Writes what transformers says of configurations, shapes and ties.

    generate.py          (Python with transformers and torch; run anywhere; no weights are made)

shapes.json         for small models: the text of config.json and the shape of each tensor
ties.json           for small tied models: config.json, the names in the state dict, the tied pairs
tie_defaults.json   model type -> tie_word_embeddings of its configuration class by default
ties_of_text.json   model type -> the same where text_config alone says that it ties them
"""
import hashlib
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

HERE = pathlib.Path(__file__).resolve().parent

TEXT = dict(vocab_size=40, hidden_size=24, intermediate_size=36, num_hidden_layers=1, num_attention_heads=4,
            num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
VISION = dict(depth=1, embed_dim=16, hidden_size=16, num_heads=2, out_hidden_size=24, intermediate_size=20,
              fullatt_block_indexes=[0], deepstack_visual_indexes=[0])
MOE = dict(moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2, num_local_experts=4,
           shared_expert_intermediate_size=12, decoder_sparse_step=1)
SIGLIP = dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2, image_size=28,
              patch_size=14)

SHAPES = {
    "llama": ("llama", dict(TEXT, attention_bias=True, mlp_bias=True)),
    "llama_head_dim": ("llama", dict(TEXT, head_dim=10)),
    "mistral": ("mistral", dict(TEXT, head_dim=10)),
    "qwen2": ("qwen2", TEXT),
    "qwen3": ("qwen3", dict(TEXT, head_dim=10, attention_bias=True)),
    "gemma": ("gemma", dict(TEXT, head_dim=10)),
    "gemma2": ("gemma2", dict(TEXT, head_dim=10)),
    "gemma3_text": ("gemma3_text", dict(TEXT, head_dim=10)),
    "gemma3": ("gemma3", dict(text_config=dict(TEXT, head_dim=10), vision_config=SIGLIP, mm_tokens_per_image=4)),
    "qwen2_vl": ("qwen2_vl", dict(text_config=TEXT, vision_config=VISION)),
    "qwen2_5_vl": ("qwen2_5_vl", dict(text_config=TEXT, vision_config=VISION)),
    "qwen3_vl": ("qwen3_vl", dict(text_config=dict(TEXT, head_dim=10), vision_config=VISION)),
    # Nothing may be implied for these.
    "qwen2_moe": ("qwen2_moe", dict(TEXT, **MOE)),
    "qwen3_moe": ("qwen3_moe", dict(TEXT, head_dim=10, **MOE)),
    "mixtral": ("mixtral", dict(TEXT, **MOE)),
    "phi3": ("phi3", TEXT),
    "gemma3n_text": ("gemma3n_text", dict(TEXT, intermediate_size=[36], num_kv_shared_layers=0, head_dim=10,
                                          activation_sparsity_pattern=[0.0], layer_types=["full_attention"])),
    "olmo2": ("olmo2", TEXT),
    "gpt2": ("gpt2", dict(vocab_size=40, n_embd=24, n_layer=1, n_head=4)),
}

TIES = {
    "llama": ("llama", dict(TEXT, tie_word_embeddings=True)),
    "llama_untied": ("llama", dict(TEXT, tie_word_embeddings=False)),
    "qwen2": ("qwen2", dict(TEXT, tie_word_embeddings=True)),
    "qwen3_moe": ("qwen3_moe", dict(TEXT, tie_word_embeddings=True, head_dim=10, **MOE)),
    "gemma2": ("gemma2", dict(TEXT, head_dim=10)),
    "gemma3": SHAPES["gemma3"],
    "qwen2_vl": ("qwen2_vl", dict(text_config=TEXT, vision_config=VISION, tie_word_embeddings=True)),
    "qwen2_5_vl": ("qwen2_5_vl", dict(text_config=TEXT, vision_config=VISION, tie_word_embeddings=True)),
    "qwen2_5_vl_untied": ("qwen2_5_vl", dict(text_config=TEXT, vision_config=VISION)),
    "smolvlm": ("smolvlm", dict(text_config=dict(TEXT, model_type="llama"), vision_config=SIGLIP,
                                tie_word_embeddings=True)),
    "gpt2": ("gpt2", dict(vocab_size=40, n_embd=24, n_layer=1, n_head=4)),
    "gpt_bigcode": ("gpt_bigcode", dict(vocab_size=40, n_embd=24, n_layer=1, n_head=4)),
    "mpt": ("mpt", dict(vocab_size=40, d_model=24, n_layers=1, n_heads=4)),
    "bloom": ("bloom", dict(vocab_size=40, hidden_size=24, n_layer=1, n_head=4)),
    "falcon": ("falcon", dict(vocab_size=40, hidden_size=24, num_hidden_layers=1, num_attention_heads=4)),
    "opt": ("opt", dict(vocab_size=40, hidden_size=24, word_embed_proj_dim=24, ffn_dim=36, num_hidden_layers=1,
                        num_attention_heads=4, max_position_embeddings=16)),
    "mamba": ("mamba", dict(vocab_size=40, hidden_size=24, num_hidden_layers=1, state_size=4)),
}


def build(model_type, fields):
    config = AutoConfig.for_model(model_type, **fields)
    vision = "vision_config" in fields
    with torch.device("meta"):
        model = (AutoModelForImageTextToText if vision else AutoModelForCausalLM).from_config(config)
    return config, model


def config_text(config):
    return config.to_json_string()


def main():
    shapes = {}
    for name, (model_type, fields) in SHAPES.items():
        config, model = build(model_type, fields)
        shapes[name] = {"config": config_text(config),
                        "shapes": {key: list(t.shape) for key, t in model.state_dict().items()}}
    ties = {}
    for name, (model_type, fields) in TIES.items():
        config, model = build(model_type, fields)
        names = list(model.state_dict())
        pairs = model.get_expanded_tied_weights_keys(all_submodels=True)
        ties[name] = {"config": config_text(config), "names": names,
                      "pairs": [{"alias": alias, "canonical": canonical}
                                for alias, canonical in sorted(pairs.items()) if alias in names]}
    defaults, of_text = {}, {}
    for model_type in sorted(CONFIG_MAPPING_NAMES):
        config_class = CONFIG_MAPPING[model_type]
        try:
            defaults[model_type] = getattr(config_class(), "tie_word_embeddings", None)
            if "text_config" in (config_class.sub_configs or {}):
                config = config_class.from_dict({"text_config": {"tie_word_embeddings": True}})
                of_text[model_type] = bool(getattr(config, "tie_word_embeddings", False))
        except Exception:  # classes that cannot be made without arguments
            continue
    out = {"shapes.json": shapes, "ties.json": ties, "tie_defaults.json": defaults,
           "ties_of_text.json": of_text}
    lines = ["made by: generate.py with transformers %s, torch %s, Python %s"
             % (transformers.__version__, torch.__version__, sys.version.split()[0])]
    for name, value in out.items():
        text = json.dumps(value, indent=1) + "\n"
        (HERE / name).write_text(text)
        lines.append("%s  %s" % (hashlib.sha256(text.encode()).hexdigest(), name))
    (HERE / "MANIFEST").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
