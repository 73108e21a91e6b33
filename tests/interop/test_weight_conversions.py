"""Every family of weight_conversions.cc is merged to the files that transformers itself saves."""
import json
import re

import pytest
import torch

import checkpoints
from tiny_models import tiny_model

TABLE = checkpoints.ROOT / "src" / "shardkit" / "hf" / "weight_conversions.cc"
WORLD_SIZE = 3

ROPE_PARTS = {"rope_type": "default", "rope_theta": 10000.0}
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
    # One to a text model that is saved another way than the model around it.
    "Qwen3MoeForTokenClassification": {}, "MixtralForSequenceClassification": {},
}


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


@pytest.mark.parametrize("name", CASES)
def test_same_files_as_save_pretrained(name, tmp_path):
    model = tiny_model(name, CASES[name])
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
