"""Tiny models with LoRA adapters of each kind, made by peft and saved in shards by FSDP.

`build(kind)` gives the same model in each process; `save(rank, size, ...)` runs on every rank.
"""
import json
import pathlib

import peft
import torch
import torch.nn as nn
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tiny_models import tiny_model

DECODER = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
               num_key_value_heads=1, vocab_size=99, max_position_embeddings=64,
               tie_word_embeddings=False, pad_token_id=0)


class Convolutions(nn.Module):
    """A convolution of 3 x 3 and one of 1 x 1; no transformers model of such is tiny."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 10, 3)
        self.second = nn.Conv2d(10, 6, 1)

    def forward(self, x):
        return self.second(self.first(x))


def causal_lm():
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**DECODER))


def token_classifier():
    return transformers.Qwen2ForTokenClassification(
        transformers.Qwen2Config(**DECODER, num_labels=3))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=24, n_inner=40, n_layer=2, n_head=2, vocab_size=99, n_positions=64))


def qwen3_moe():
    return tiny_model("Qwen3MoeForCausalLM", {"tie_word_embeddings": False})


def mixtral():
    return tiny_model("MixtralForCausalLM", {"tie_word_embeddings": False})


def gpt_oss():
    """Of whose experts down_proj is square, as in the published models."""
    return tiny_model("GptOssForCausalLM", {"tie_word_embeddings": False, "intermediate_size": 32})


EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
LINEAR = ["q_proj", "v_proj", "down_proj"]
# name: (model, LoraConfig of each adapter, dtype of the base)
KINDS = {
    "linear": (causal_lm, {"default": dict(r=4, lora_alpha=16, target_modules=LINEAR)},
               torch.float32),
    # The base in bfloat16, the adapter in float32, as peft casts it.
    "bfloat16": (causal_lm, {"default": dict(r=8, lora_alpha=3, target_modules=LINEAR)},
                 torch.bfloat16),
    "rslora": (causal_lm, {"default": dict(r=5, lora_alpha=7, use_rslora=True,
                                           target_modules=LINEAR)}, torch.float32),
    "patterns": (causal_lm, {"default": dict(
        r=4, lora_alpha=8, target_modules=LINEAR,
        rank_pattern={"down_proj": 6, "^model.layers.0.self_attn.q_proj": 2},
        alpha_pattern={"v_proj": 3, r"layers\.\d+\.mlp\.down_proj": 5})}, torch.float32),
    "some_layers": (causal_lm, {"default": dict(r=4, lora_alpha=8, target_modules=["q_proj"],
                                                layers_to_transform=[1])}, torch.float32),
    "conv1d": (gpt2, {"default": dict(r=3, lora_alpha=6, fan_in_fan_out=True,
                                      target_modules=["c_attn", "c_proj", "c_fc"])}, torch.float32),
    "embedding": (causal_lm, {"default": dict(
        r=4, lora_alpha=8, target_modules=["embed_tokens", "lm_head", "q_proj"])}, torch.float32),
    "modules_to_save": (token_classifier, {"default": dict(
        r=4, lora_alpha=8, task_type="TOKEN_CLS", target_modules=["q_proj"],
        modules_to_save=["score"])}, torch.float32),
    "adapters": (causal_lm, {"default": dict(r=4, lora_alpha=8, target_modules=["q_proj"]),
                             "actor": dict(r=2, lora_alpha=16, target_modules=["q_proj", "v_proj"])},
                 torch.float32),
    "dora": (causal_lm, {"default": dict(r=4, lora_alpha=8, use_dora=True, target_modules=LINEAR)},
             torch.float32),
    "bias_lora_only": (causal_lm, {"default": dict(
        r=4, lora_alpha=8, bias="lora_only", target_modules=["q_proj", "o_proj"])}, torch.float32),
    "bias_all": (token_classifier, {"default": dict(
        r=4, lora_alpha=8, bias="all", task_type="TOKEN_CLS", target_modules=["q_proj"],
        modules_to_save=["score"])}, torch.float32),
    "experts": (qwen3_moe, {"default": dict(
        r=3, lora_alpha=8, target_modules=["q_proj"], target_parameters=EXPERTS)}, torch.float32),
    "experts_patterns": (mixtral, {"default": dict(
        r=2, lora_alpha=4, use_rslora=True, target_modules=[], target_parameters=EXPERTS,
        rank_pattern={"experts.gate_up_proj": 4}, alpha_pattern={r".*\.down_proj": 3})},
        torch.float32),
    "experts_one_of_two": (mixtral, {"default": dict(
        r=2, lora_alpha=4, target_modules=["v_proj"], target_parameters=EXPERTS[1:])},
        torch.float32),
    "experts_transposed": (gpt_oss, {"default": dict(
        r=2, lora_alpha=6, target_modules=["o_proj"], target_parameters=EXPERTS)}, torch.float32),
    "experts_square": (gpt_oss, {"default": dict(
        r=2, lora_alpha=6, target_modules=[], target_parameters=EXPERTS[1:])}, torch.float32),
    "experts_adapters": (qwen3_moe, {
        "default": dict(r=2, lora_alpha=8, target_modules=["q_proj"], target_parameters=EXPERTS),
        "actor": dict(r=3, lora_alpha=5, target_modules=["v_proj"], target_parameters=EXPERTS)},
        torch.float32),
    "parameter": (gpt2, {"default": dict(
        r=3, lora_alpha=6, target_modules=[], target_parameters=["attn.c_proj.weight"],
        rank_pattern={"c_proj": 2, "h.0.attn.c_proj.weight": 5})}, torch.float32),
    "convolution": (Convolutions, {"default": dict(r=2, lora_alpha=6,
                                                   target_modules=["first", "second"])},
                    torch.float32),
}


def build(kind):
    """A model whose adapters are as after training: none of their tensors is zero."""
    make, adapters, dtype = KINDS[kind]
    torch.manual_seed(7)
    base = make().to(dtype)
    model = None
    for name, options in adapters.items():
        config = peft.LoraConfig(**options)
        if model is None:
            model = peft.get_peft_model(base, config, adapter_name=name)
        else:
            model.add_adapter(name, config)
    torch.manual_seed(8)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if "lora_magnitude" in name:
                parameter.mul_(torch.rand_like(parameter) + 0.5)
            elif ("lora_" in name or "modules_to_save" in name
                  or (parameter.requires_grad and name.endswith(".bias"))):
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def blocks(model):
    """What FSDP wraps one by one."""
    return [m for m in model.modules()
            if type(m).__name__.endswith("DecoderLayer") or type(m).__name__ == "GPT2Block"]


def state_dict_of(model, size, fsdp):
    if fsdp == 2:
        mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("fsdp",))
        for block in blocks(model):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model.state_dict()
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp import ShardedStateDictConfig, StateDictType
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    classes = {type(block) for block in blocks(model)}
    wrapped = FSDP(model, auto_wrap_policy=ModuleWrapPolicy(classes) if classes else None,
                   use_orig_params=True, device_id=torch.device("cpu"))
    with FSDP.state_dict_type(wrapped, StateDictType.SHARDED_STATE_DICT,
                              ShardedStateDictConfig(offload_to_cpu=False)):
        return wrapped.state_dict()


def save(rank, size, folder, kind, fsdp, lora_only):
    state = state_dict_of(build(kind), size, fsdp)
    if lora_only:
        state = {k: v for k, v in state.items() if "lora_" in k}
    torch.save(state, pathlib.Path(folder) / f"model_world_size_{size}_rank_{rank}.pt")


def save_beside(folder, kind, fsdp, size):
    """What stands beside the shards, but for what tells of the adapter."""
    (folder / "fsdp_config.json").write_text(json.dumps({"FSDP_version": fsdp, "world_size": size}))
    model = build(kind).get_base_model()
    if hasattr(model, "config"):
        model.config.save_pretrained(folder / "huggingface")


def save_adapter_configs(folder, kind):
    """As peft's save_pretrained: the default adapter's in the folder, others' below it."""
    for name, config in build(kind).peft_config.items():
        config.save_pretrained(folder if name == "default" else folder / name)


def save_train_meta(folder, kind):
    """As verl's fsdp_checkpoint_manager."""
    config = build(kind).peft_config["default"]
    (folder / "lora_train_meta.json").write_text(json.dumps(
        {"r": config.r, "lora_alpha": config.lora_alpha, "task_type": "CAUSAL_LM"}))
