#!/usr/bin/env python3
"""Writes the FSDP2 checkpoint that merge_bench.py merges, with PyTorch: python torch_checkpoint.py OUT

Qwen2.5-0.5B's names and shapes in float32 with random values, sharded over 8 ranks as FSDP2 does, one
torch.save a rank; the embedding tied to lm_head, so that both names share their bytes on every rank.
A process group that talks to nobody stands in for the 8 ranks: the files are those of a real run.
"""
import json
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

RANKS = 8
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
    "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 32768, "tie_word_embeddings": True, "torch_dtype": "float32",
    "use_cache": True, "use_sliding_window": False, "vocab_size": 151936}


def shapes():
    """{name: shape}, in the order of the model's state dict."""
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    kv = hidden // CONFIG["num_attention_heads"] * CONFIG["num_key_value_heads"]
    result = {"model.embed_tokens.weight": (CONFIG["vocab_size"], hidden)}
    for i in range(CONFIG["num_hidden_layers"]):
        layer = {"self_attn.q_proj.weight": (hidden, hidden), "self_attn.q_proj.bias": (hidden,),
                 "self_attn.k_proj.weight": (kv, hidden), "self_attn.k_proj.bias": (kv,),
                 "self_attn.v_proj.weight": (kv, hidden), "self_attn.v_proj.bias": (kv,),
                 "self_attn.o_proj.weight": (hidden, hidden),
                 "mlp.gate_proj.weight": (inner, hidden), "mlp.up_proj.weight": (inner, hidden),
                 "mlp.down_proj.weight": (hidden, inner), "input_layernorm.weight": (hidden,),
                 "post_attention_layernorm.weight": (hidden,)}
        result.update({"model.layers.%d.%s" % (i, name): shape for name, shape in layer.items()})
    result["model.norm.weight"] = (hidden,)
    return result


def write_rank(folder, rank):
    dist.init_process_group(backend="fake", rank=rank, world_size=RANKS, store=FakeStore())
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("fsdp",))
    random = torch.Generator().manual_seed(rank)
    state = {}
    for name, shape in shapes().items():
        assert shape[0] % RANKS == 0, name
        local = torch.randn(shape[0] // RANKS, *shape[1:], generator=random)
        state[name] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    torch.save(state, folder / ("model_world_size_%d_rank_%d.pt" % (RANKS, rank)))
    dist.destroy_process_group()


def write_vocabulary(folder):
    """The least that transformers takes for a Qwen2 tokenizer: verl's merger copies one."""
    vocabulary = {"<|endoftext|>": 0, "a": 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|endoftext|>",
         "pad_token": "<|endoftext|>"}))


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "huggingface").mkdir(parents=True)
    (folder / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": RANKS}))
    (folder / "huggingface" / "config.json").write_text(json.dumps(CONFIG, indent=2))
    write_vocabulary(folder / "huggingface")
    for rank in range(RANKS):
        write_rank(folder, rank)


if __name__ == "__main__":
    main()
