"""Models of transformers' classes with random weights and a few thousand parameters each."""
import torch
import transformers

# What a configuration is made small by; of these a class gets those that it has.
SIZES = dict(
    vocab_size=64, hidden_size=32, d_model=32, intermediate_size=24, moe_intermediate_size=8,
    ffn_hidden_size=24, expert_ffn_hidden_size=8, shared_expert_intermediate_size=8,
    moe_shared_expert_intermediate_size=8, num_hidden_layers=2, num_layers=2, n_layers=2, depth=2,
    encoder_layers=2, decoder_layers=2, num_attention_heads=4, num_heads=4, attention_heads=4,
    encoder_attention_heads=4, decoder_attention_heads=4, num_key_value_heads=2, head_dim=8,
    encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, num_experts=4, num_local_experts=4, n_routed_experts=4,
    moe_num_experts=4, zero_expert_num=2, num_experts_per_tok=2, num_experts_per_token=2,
    moe_topk=2, moe_k=2, n_group=1, topk_group=1, first_k_dense_replace=1, num_dense_layers=1,
    q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
    qk_head_dim=16, index_n_heads=2, index_head_dim=8, index_topk=4, linear_num_value_heads=4,
    linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, mamba_d_state=8,
    mamba_d_head=8, mamba_n_heads=8, mamba_expand=2, mamba_num_heads=8, mamba_head_dim=8,
    ssm_state_size=8, embed_dim=32, image_size=16, patch_size=4, projection_dim=32,
    out_hidden_size=32, num_global_layers=1, intermediate_layers_indices=[0], vision_output_dim=64,
    num_mel_bins=16)


def tiny_config(config_class, changes=()):
    """A small configuration; `changes` name what a class wants besides, of parts as dicts."""
    changes = dict(changes)
    default = config_class()
    values = {}
    for name, size in SIZES.items():
        try:
            now = getattr(default, name, None)
        except Exception:  # one for each layer: transformers raises where it is asked for all
            continue
        is_derived = isinstance(getattr(config_class, name, None), property)
        if now is not None and not is_derived and not isinstance(now, (list, tuple, dict)):
            values[name] = size
    for name in default.sub_configs or {}:
        part = getattr(default, name, None)
        of_part = dict(changes.pop(name, ()))
        if part is not None and of_part.get("model_type", part.model_type) != part.model_type:
            values[name] = transformers.AutoConfig.for_model(**of_part).to_dict()
        elif part is not None:
            values[name] = tiny_config(type(part), of_part).to_dict()
    return config_class(**{**values, **changes})


def tiny_model(class_name, changes=(), dtype=torch.float32, config_class=None):
    """A model of a class of transformers, every parameter and buffer random."""
    model_class = getattr(transformers, class_name)
    torch.manual_seed(0)
    model = model_class(tiny_config(config_class or model_class.config_class, changes)).to(dtype)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.normal_()
    return model.eval()
