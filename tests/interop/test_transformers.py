"""A merged folder is a model that transformers loads, runs and saves as its own."""
import json
import warnings

import pytest
import torch
import transformers

import checkpoints
from checkpoints import case_id, fixture_cases

MODELS = [c for c in fixture_cases() if checkpoints.config_of(c)]
AUTO = {"Qwen2ForCausalLM": transformers.AutoModelForCausalLM,
        "Qwen2ForTokenClassification": transformers.AutoModelForTokenClassification}


def auto_class(case):
    return AUTO[checkpoints.config_of(case)["architectures"][0]]


def load(case, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, info = auto_class(case).from_pretrained(folder, dtype="auto",
                                                       output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), (kind, info[kind])
    return model.eval()


def logits(model):
    """Of parameters in memory of their own: sums may depend on how a mapped file aligns them."""
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    torch.manual_seed(0)
    tokens = torch.randint(0, model.config.vocab_size, (2, 17))
    with torch.no_grad():
        return model(input_ids=tokens).logits


def reference(case, dtype):
    """A model of the same configuration, with the expected weights put in by PyTorch."""
    config = transformers.AutoConfig.from_pretrained(case / "huggingface")
    model = auto_class(case).from_config(config, dtype=dtype)
    tensors = {k: v.to(dtype) for k, v in checkpoints.model_tensors(case).items()}
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    return model.eval()


def test_there_are_models():
    assert len(MODELS) >= 30


@pytest.mark.parametrize("case", MODELS, ids=case_id)
@pytest.mark.parametrize("dtype", ["keep", "bfloat16"])
def test_loads_with_the_same_logits(case, dtype, merged):
    model = load(case, merged(case, dtype=dtype))
    want = getattr(torch, checkpoints.config_of(case)["torch_dtype"] if dtype == "keep" else dtype)
    assert {p.dtype for p in model.parameters()} == {want}
    found, expected = logits(model), logits(reference(case, want))
    assert torch.isfinite(found).all() and found.abs().sum() > 0
    assert torch.equal(found, expected)


@pytest.mark.parametrize("case", MODELS, ids=case_id)
def test_save_pretrained_writes_the_same_tensors(case, merged, tmp_path):
    out = merged(case)
    load(case, out).save_pretrained(tmp_path)
    checkpoints.assert_same_tensors(checkpoints.read_model(tmp_path), checkpoints.read_model(out))


@pytest.mark.parametrize("case", MODELS, ids=case_id)
def test_one_file_is_byte_equal_to_save_pretrained(case, merged, tmp_path):
    out = merged(case)
    load(case, out).save_pretrained(tmp_path)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("case", MODELS, ids=case_id)
def test_shards_load_as_one_model(case, merged):
    out = merged(case, "--max-shard-size", "20KB")
    assert not (out / "model.safetensors").exists()
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    assert torch.equal(logits(load(case, out)), logits(load(case, merged(case))))
