"""What the interop tests share: the program, the checkpoints, and how tensors are compared."""
import hashlib
import json
import os
import pathlib
import subprocess

import torch
from safetensors import safe_open

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDKIT", str(ROOT / "build" / "shardkit"))
FIXTURES = ROOT / "tests" / "fixtures"
CAST_BY_MERGE = {torch.float64, torch.float32, torch.float16, torch.bfloat16}


def fixture_cases():
    return sorted(p.parent for p in FIXTURES.glob("torch-*/*/expected.safetensors"))


def case_id(case):
    return "%s/%s" % (case.parent.name, case.name)


def config_of(case):
    path = case / "huggingface" / "config.json"
    return json.loads(path.read_text()) if path.exists() else None


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300)


def merge(case, out, *flags, dtype="keep"):
    """Merges, and fails with what the program said unless it ends with 0."""
    done = run("merge", "--backend", "fsdp", "--local_dir", case, "--target_dir", out,
               "--dtype", dtype, *flags)
    assert done.returncode == 0, "exit %d: %s" % (done.returncode, done.stderr)
    return pathlib.Path(out)


def read_file(path):
    """Every tensor of a safetensors file, by the official reader."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def read_model(folder):
    """Every tensor of a model folder, through its index if it has one."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_file(folder / "model.safetensors")
    weight_map = json.loads(index.read_text())["weight_map"]
    tensors = {}
    for name in sorted(set(weight_map.values())):
        tensors.update(read_file(folder / name))
    assert set(tensors) == set(weight_map)
    return tensors


def model_tensors(case):
    """The tensors of a case's model: without an adapter, and under clean names."""
    tensors = read_file(case / "expected.safetensors")
    record = case / "expected.json"
    if record.exists():
        tensors = {name: tensors[name] for name in json.loads(record.read_text())["tensors"]}
    return {name.removeprefix("base_model.model.").replace(".base_layer", ""): tensor
            for name, tensor in tensors.items() if "lora_" not in name}


def expected_tensors(case):
    """What a merge of a case must hold, in the order of its state dict where that is recorded."""
    tensors = model_tensors(case)
    if (config_of(case) or {}).get("tie_word_embeddings"):
        alias = tensors.pop("lm_head.weight")
        assert torch.equal(alias, tensors["model.embed_tokens.weight"])
    return tensors


def raw(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() \
        if tensor.numel() else b""


def assert_same_tensors(found, expected):
    """Names, dtypes, shapes and bytes."""
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert raw(found[name]) == raw(tensor), name


def tree_digest(folder):
    """Names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes() if path.is_file() else b"/")
    return digest.hexdigest()
