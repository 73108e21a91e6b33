"""Every family of weight_conversions.cc is merged to the files that transformers itself saves."""
import re
import shutil

import pytest
import torch
import transformers

import checkpoints
from tiny_models import tiny_model

TABLE = checkpoints.ROOT / "src" / "shardkit" / "hf" / "weight_conversions.cc"
WORLD_SIZE = 3
FOLLOWED = set()  # entries of the table that a case has followed
UNTESTED = {"muse_spark"}  # its smallest model has 120 million parameters; saved as it is held

# Class -> what its configuration needs besides tiny_models.SIZES.
CASES = {
    "AXK1ForCausalLM": {}, "AXK2ForCausalLM": {}, "AfmoeForCausalLM": {},
    "AriaForConditionalGeneration": {}, "AriaTextForCausalLM": {},
    "AudioFlamingo3ForConditionalGeneration": {}, "AyaVisionForConditionalGeneration": {},
    "BailingHybridForCausalLM": {}, "BeamForCausalLM": {}, "Cohere2MoeForCausalLM": {},
    "Cosmos3OmniForConditionalGeneration": {}, "DeepseekV2ForCausalLM": {},
    "DeepseekV32ForCausalLM": {}, "DeepseekV3ForCausalLM": {}, "DeepseekV4ForCausalLM": {},
    "DoryForCausalLM": {}, "Ernie4_5_MoeForCausalLM": {}, "ExaoneMoeForCausalLM": {},
    "FlexOlmoForCausalLM": {}, "FlintForCausalLM": {}, "FuyuForCausalLM": {},
    "GPTNeoXForCausalLM": {}, "Gemma3ForConditionalGeneration": {}, "Glm4MoeForCausalLM": {},
    "Glm4MoeLiteForCausalLM": {}, "Glm4vMoeForConditionalGeneration": {},
    "GlmAsrForConditionalGeneration": {}, "GlmMoeDsaForCausalLM": {},
    "GotOcr2ForConditionalGeneration": {}, "GptOssForCausalLM": {}, "GraniteMoeForCausalLM": {},
    "GraniteMoeHybridForCausalLM": {}, "GraniteMoeSWAForCausalLM": {},
    "GraniteMoeSharedForCausalLM": {}, "GraniteSpeechForConditionalGeneration": {},
    "GraniteSpeechPlusForConditionalGeneration": {}, "HYV3ForCausalLM": {}, "HYV4ForCausalLM": {},
    "HrmTextForCausalLM": {}, "HyperCLOVAXVisionV2ForConditionalGeneration": {},
    "InternVLForConditionalGeneration": {}, "JambaForCausalLM": {}, "JetMoeForCausalLM": {},
    "KimiLinearForCausalLM": {}, "Kolibri1ForCausalLM": {}, "LagunaForCausalLM": {},
    "LaraMiniForCausalLM": {}, "Lfm3ForCausalLM": {}, "Llama4ForCausalLM": {},
    "LlavaForConditionalGeneration": {}, "LlavaNextForConditionalGeneration": {},
    "LlavaNextVideoForConditionalGeneration": {}, "LlavaOnevisionForConditionalGeneration": {},
    "LongcatFlashForCausalLM": {}, "MellumForCausalLM": {}, "MiMoV2FlashForCausalLM": {},
    "MiniMaxForCausalLM": {}, "MiniMaxM2ForCausalLM": {},
    "MiniMaxM3SparseForConditionalGeneration": {}, "MiniMaxM3VLForCausalLM": {},
    "Mistral3ForConditionalGeneration": {}, "Mistral4ForCausalLM": {}, "MixtralForCausalLM": {},
    "MllamaForConditionalGeneration": {}, "MusicFlamingoForConditionalGeneration": {},
    "NemotronHForCausalLM": {}, "OlmoHybridForCausalLM": {}, "OlmoeForCausalLM": {},
    "PaddleOCRVLForConditionalGeneration": {}, "PaliGemmaForConditionalGeneration": {},
    "PhimoeForCausalLM": {}, "Qwen2AudioForConditionalGeneration": {}, "Qwen2MoeForCausalLM": {},
    "Qwen2VLForConditionalGeneration": {}, "Qwen2_5OmniThinkerForConditionalGeneration": {},
    "Qwen2_5_VLForConditionalGeneration": {}, "Qwen3MoeForCausalLM": {}, "Qwen3NextForCausalLM": {},
    "Qwen3OmniMoeThinkerForConditionalGeneration": {}, "Qwen3VLMoeForConditionalGeneration": {},
    "Qwen3_5MoeForCausalLM": {}, "SolarOpenForCausalLM": {},
    "VideoLlavaForConditionalGeneration": {}, "VipLlavaForConditionalGeneration": {},
    "VoxtralForConditionalGeneration": {}, "VoxtralRealtimeForConditionalGeneration": {},
    # Heads.
    "Qwen3MoeForTokenClassification": {}, "MixtralForSequenceClassification": {},
    "Qwen2ForSequenceClassification": {},
    # What a class needs besides tiny_models.SIZES.
    "Cosmos3EdgeForConditionalGeneration": {"text_config": {"rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}},
    "Dots3NoteForCausalLM": {},
    "Ernie4_5_VLMoeForConditionalGeneration": {"text_config": {
        "moe_intermediate_size": [16, 8], "mlp_layer_types": ["dense", "sparse"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [1, 1, 2]}}},
    "Emu3ForConditionalGeneration": {
        "vocabulary_map": {"<|image token|>": 1},
        "vq_config": {"base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1}},
    "Dots1ForCausalLM": {"n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1,
                         "topk_group": 1},
    "Glm5NextForConditionalGeneration": {"text_config": {"num_key_value_heads": 4,
                                                         "index_topk": 16,
                                                         "qk_rope_head_dim": 0}},
    "Gemma4UnifiedForConditionalGeneration": {},
    "HunYuanMoEV1ForCausalLM": {"head_dim": 8},
    "Llama4ForConditionalGeneration": {"vision_config": {
        "projector_input_dim": 32, "projector_output_dim": 32}},
    "Lfm2MoeForCausalLM": {"layer_types": ["conv", "full_attention"]},
    "VibeVoiceAsrForConditionalGeneration": {
        "acoustic_tokenizer_encoder_config": {"num_filters": 2},
        "semantic_tokenizer_encoder_config": {"num_filters": 2}},
    "ZayaForCausalLM": {"num_experts_per_tok": 1},
    # The text model inside follows an entry of its own.
    "Qwen3_5MoeForConditionalGeneration": {},
}
# Classes that stand for a model type which is not their own.
OTHER_TYPES = {"SarvamMoEConfig": "Glm4MoeForCausalLM", "SarvamMLAConfig": "DeepseekV3ForCausalLM"}


def save_shards(model, folder):
    """The state dict as ranks of FSDP1 without sharded tensors hold it: rows of each tensor."""
    ranks = [{} for _ in range(WORLD_SIZE)]
    for name, tensor in model.state_dict().items():
        rows = tensor.chunk(WORLD_SIZE) if tensor.dim() else [tensor] * WORLD_SIZE
        for rank in range(WORLD_SIZE):
            ranks[rank][name] = (rows[rank] if rank < len(rows) else tensor[:0]).clone()
    for rank, state in enumerate(ranks):
        torch.save(state, folder / ("model_world_size_%d_rank_%d.pt" % (WORLD_SIZE, rank)))
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder / "huggingface")


def families_of(model):
    """The entries of the table that a case may follow."""
    parts = [getattr(model.config, name) for name in model.config.sub_configs or {}]
    return {type(model).__name__, model.config.model_type, *(p.model_type for p in parts if p)}


def make_case(name):
    if name in OTHER_TYPES:
        return tiny_model(OTHER_TYPES[name], config_class=getattr(transformers, name))
    return tiny_model(name, CASES[name])


@pytest.mark.parametrize("name", [*CASES, *OTHER_TYPES])
def test_same_file_as_save_pretrained(name, tmp_path):
    model = make_case(name)
    FOLLOWED.update(families_of(model))
    shards, expected = tmp_path / "shards", tmp_path / "expected"
    shards.mkdir()
    save_shards(model, shards)
    model.save_pretrained(expected)
    done = checkpoints.run("merge", "--local_dir", shards, "--target_dir", tmp_path / "merged",
                           "--dtype", "keep", "--plain-tensors", "concat")
    assert done.returncode == 0, done.stderr
    assert "written as they are" not in done.stderr
    file = "model.safetensors"
    checkpoints.assert_same_tensors(checkpoints.read_file(tmp_path / "merged" / file),
                                    checkpoints.read_file(expected / file))
    assert (tmp_path / "merged" / file).read_bytes() == (expected / file).read_bytes()
    shutil.rmtree(tmp_path)


def test_every_family_has_a_case():
    if len(FOLLOWED) < len(CASES):
        pytest.skip("not all cases ran")
    done = re.findall(r'SaveFamily\{"(\w+)", \S+, \S+, \{\}\}', TABLE.read_text())
    assert len(done) > 100
    assert set(done) - FOLLOWED - UNTESTED == set()
