"""Models of transformers' classes, sharded by PyTorch as a trainer shards them, merge to what
save_pretrained writes of the whole model."""
import json
import os
import pathlib
import warnings

import pytest
import torch
import transformers

import checkpoints
from tiny_models import tiny_model

# Name -> class, and what its configuration needs besides tiny_models.SIZES.
MODELS = {
    "llama": ("LlamaForCausalLM", {}),
    "qwen2": ("Qwen2ForCausalLM", {}),
    "qwen2_tied": ("Qwen2ForCausalLM", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", {}),
    "gemma2_tied": ("Gemma2ForCausalLM", {"tie_word_embeddings": True}),
    "phi3": ("Phi3ForCausalLM", {}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {}),
    "mixtral": ("MixtralForCausalLM", {}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {}),
    "glm4_moe": ("Glm4MoeForCausalLM", {}),
    "gpt_oss": ("GptOssForCausalLM", {}),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", {}),
    "llava": ("LlavaForConditionalGeneration", {}),
    "gemma3_tied": ("Gemma3ForConditionalGeneration", {"tie_word_embeddings": True}),
    "critic": ("Qwen2ForTokenClassification", {"num_labels": 1}),
    "critic_moe": ("Qwen3MoeForTokenClassification", {"num_labels": 1}),
    "reward": ("LlamaForSequenceClassification", {"num_labels": 1}),
    "value_head": ("Qwen2ForCausalLM", {}),
}


def make_model(name):
    class_name, changes = MODELS[name]
    model = tiny_model(class_name, changes)
    if name == "value_head":  # as trl names it: AutoModelForCausalLMWithValueHead
        model.v_head = torch.nn.Module()
        model.v_head.summary = torch.nn.Linear(model.config.hidden_size, 1)
    return model


def layers_of(model):
    return {type(m) for m in model.modules() if type(m).__name__ in (model._no_split_modules or ())}


def shard_fsdp2(model, mesh):
    from torch.distributed.fsdp import fully_shard
    wrapped = layers_of(model)
    for module in model.modules():
        if type(module) in wrapped:
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model.state_dict()


def shard_fsdp1(model, mesh):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp import ShardedStateDictConfig, StateDictType
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    module = FSDP(model, auto_wrap_policy=ModuleWrapPolicy(layers_of(model)), use_orig_params=True,
                  device_id=torch.device("cpu"), device_mesh=mesh)
    with FSDP.state_dict_type(module, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig()):
        return module.state_dict()


def save_all(rank, size, folder):
    """In each process: every model under both versions of FSDP, in the files that verl writes."""
    warnings.simplefilter("ignore")
    mesh = torch.distributed.init_device_mesh("cpu", (size,), mesh_dim_names=("fsdp",))
    for version, shard in ((1, shard_fsdp1), (2, shard_fsdp2)):
        for name in MODELS:
            case = pathlib.Path(folder) / ("fsdp%d" % version) / name
            case.mkdir(parents=True, exist_ok=True)
            model = make_model(name)
            if rank == 0:
                model.config.architectures = [MODELS[name][0]]
                model.config.save_pretrained(case / "huggingface")
                (case / "fsdp_config.json").write_text(
                    json.dumps({"FSDP_version": version, "world_size": size}))
            torch.save(shard(model, mesh),
                       case / ("model_world_size_%d_rank_%d.pt" % (size, rank)))


@pytest.fixture(scope="session")
def sharded(torch_ranks, tmp_path_factory):
    """sharded(size): the folder of all models, saved by that many processes."""
    made = {}

    def get(size):
        if size not in made:
            made[size] = tmp_path_factory.mktemp("models_of_%d" % size)
            torch_ranks(size).run(save_all, os.fspath(made[size]))
        return made[size]

    return get


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """saved(name): what save_pretrained writes of the whole model."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("saved") / name
            make_model(name).save_pretrained(made[name])
        return made[name]

    return get


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [2, 4])
def test_same_tensors_as_save_pretrained(size, version, name, sharded, saved, tmp_path):
    case = sharded(size) / ("fsdp%d" % version) / name
    out = checkpoints.merge(case, tmp_path / "out")
    checkpoints.assert_same_tensors(checkpoints.read_model(out),
                                    checkpoints.read_model(saved(name)))
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == [MODELS[name][0]]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "value_head"])
def test_loads_without_missing_or_unexpected_keys(name, sharded, tmp_path):
    out = checkpoints.merge(sharded(2) / "fsdp2" / name, tmp_path / "out")
    model_class = getattr(transformers, MODELS[name][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, info = model_class.from_pretrained(out, dtype="auto", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), (kind, info[kind])
    expected = make_model(name).state_dict()
    checkpoints.assert_same_tensors(dict(model.state_dict()), dict(expected))


def test_a_head_that_the_class_leaves_out_is_told(sharded, tmp_path):
    case = sharded(2) / "fsdp2" / "critic"
    config = json.loads((case / "huggingface" / "config.json").read_text())
    config["architectures"] = ["FSDPQwen2ForCausalLM"]
    other = tmp_path / "config"
    other.mkdir()
    (other / "config.json").write_text(json.dumps(config))
    done = checkpoints.run("merge", "--local_dir", case, "--target_dir", tmp_path / "out",
                           "--hf_model_config_path", other)
    assert done.returncode == 0, done.stderr
    assert "hold the head 'score." in done.stderr
    assert "the class in config.json becomes Qwen2ForCausalLM" in done.stdout
    found = json.loads((tmp_path / "out" / "config.json").read_text())
    assert found["architectures"] == ["Qwen2ForCausalLM"]
    assert "score.weight" in checkpoints.read_model(tmp_path / "out")
