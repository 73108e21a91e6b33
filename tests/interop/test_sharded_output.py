"""Files, headers and index are those that transformers and huggingface_hub would write."""
import json

import pytest
import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file

import checkpoints
import test_transformers
from checkpoints import case_id
from test_transformers import MODELS

SIZES = ["3KB", "20KB", "1MB"]


def written_by_huggingface(tensors, size, folder):
    """As transformers' save_pretrained: split by huggingface_hub, saved by safetensors."""
    split = split_torch_state_dict_into_shards(tensors, max_shard_size=size,
                                               filename_pattern="model{suffix}.safetensors")
    for name, keys in split.filename_to_tensors.items():
        save_file({k: tensors[k] for k in keys}, folder / name, metadata={"format": "pt"})
    if split.is_sharded:
        metadata = {"total_parameters": sum(t.numel() for t in tensors.values()), **split.metadata}
        index = {"metadata": metadata, "weight_map": split.tensor_to_filename}
        (folder / "model.safetensors.index.json").write_text(
            json.dumps(index, indent=2, sort_keys=True) + "\n")


def weight_files(folder):
    return {p.name: p.read_bytes() for p in folder.glob("model*.safetensors*")}


def assert_same_files(found, expected):
    assert sorted(found) == sorted(expected)
    for name, content in expected.items():
        if name.endswith(".json"):
            assert found[name].decode() == content.decode()
        assert found[name] == content, name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", MODELS, ids=case_id)
def test_same_bytes_as_huggingface_hub_and_safetensors(case, size, merged, tmp_path):
    written_by_huggingface(checkpoints.expected_tensors(case), size, tmp_path)
    expected = weight_files(tmp_path)
    assert (len(expected) > 1) == (size != "1MB")
    assert_same_files(weight_files(merged(case, "--max-shard-size", size)), expected)


# The model that saves is built in memory: of one that was loaded from a file, transformers counts the
# sizes of mapped storages and may order the keys anew.
@pytest.mark.parametrize("case", MODELS, ids=case_id)
def test_same_bytes_as_save_pretrained(case, merged, tmp_path):
    dtype = getattr(torch, checkpoints.config_of(case)["torch_dtype"])
    model = test_transformers.reference(case, dtype)
    order = [name for name in model.state_dict() if name in checkpoints.expected_tensors(case)]
    assert order == list(checkpoints.expected_tensors(case)), "the model's order is another"
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    expected = weight_files(tmp_path)
    assert len(expected) >= 3
    assert_same_files(weight_files(merged(case, "--max-shard-size", "20KB")), expected)
