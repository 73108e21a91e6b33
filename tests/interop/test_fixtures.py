"""Every checkpoint that real PyTorch wrote merges to exactly the tensors that went in."""
import json

import pytest
import torch
from safetensors import safe_open

import checkpoints
from checkpoints import case_id, fixture_cases

VERSIONS = ["torch-2.4.1", "torch-2.6.0", "torch-2.10.0", "torch-2.11.0", "torch-2.13.0"]


def test_every_version_is_there():
    assert {c.parent.name for c in fixture_cases()} >= set(VERSIONS)
    assert len(fixture_cases()) >= 70


@pytest.mark.parametrize("case", fixture_cases(), ids=case_id)
def test_keep_gives_the_bytes_that_went_in(case, merged):
    checkpoints.assert_same_tensors(checkpoints.read_model(merged(case)),
                                    checkpoints.expected_tensors(case))


@pytest.mark.parametrize("case", fixture_cases(), ids=case_id)
def test_the_checkpoint_is_not_touched(case, tmp_path):
    before = checkpoints.tree_digest(case)
    checkpoints.merge(case, tmp_path / "out", "--quiet")
    assert checkpoints.tree_digest(case) == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("case", fixture_cases(), ids=case_id)
def test_casts_are_those_of_pytorch(case, dtype, merged):
    target = getattr(torch, dtype)
    expected = {name: tensor.to(target) if tensor.dtype in checkpoints.CAST_BY_MERGE else tensor
                for name, tensor in checkpoints.expected_tensors(case).items()}
    checkpoints.assert_same_tensors(checkpoints.read_model(merged(case, dtype=dtype)), expected)


def test_bfloat16_is_the_default(tmp_path, merged):
    case = checkpoints.FIXTURES / "torch-2.13.0" / "fsdp2_fp32_w4"
    done = checkpoints.run("merge", "--backend", "fsdp", "--local_dir", case, "--target_dir",
                           tmp_path / "out")
    assert done.returncode == 0, done.stderr
    checkpoints.assert_same_tensors(checkpoints.read_model(tmp_path / "out"),
                                    checkpoints.read_model(merged(case, dtype="bfloat16")))


@pytest.mark.parametrize("case", [c for c in fixture_cases() if checkpoints.config_of(c)],
                         ids=case_id)
@pytest.mark.parametrize("dtype", ["keep", "bfloat16", "auto"])
def test_config_differs_in_the_dtype_alone(case, dtype, merged):
    out = merged(case, dtype=dtype)
    before = (case / "huggingface" / "config.json").read_text()
    after = (out / "config.json").read_text()
    field = "torch_dtype"
    old, new = json.loads(before), json.loads(after)
    with safe_open(out / "model.safetensors", framework="pt") as file:
        stored = str(file.get_tensor("model.embed_tokens.weight").dtype) \
            if "model.embed_tokens.weight" in file.keys() else "torch." + old[field]
    assert "torch." + new[field] == stored
    assert {**new, field: old[field]} == old
    assert after == before.replace('"%s": "%s"' % (field, old[field]),
                                   '"%s": "%s"' % (field, new[field]))
    other = "generation_config.json"
    assert (out / other).read_bytes() == (case / "huggingface" / other).read_bytes()


# What the forms of torch.save hold that are no plain state dict of w, half and n.
OTHER_CONTENT = {"nested.pt", "extra_state.pt", "meta_tensor.pt", "quantized.pt", "sparse_coo.pt"}
MAY_BE_REFUSED = {"quantized.pt": "quantize", "sparse_coo.pt": "sparse", "legacy_not_zip.pt": "zip"}


@pytest.mark.parametrize("path", sorted(checkpoints.FIXTURES.glob("torch-*/formats_w1/formats/*.pt")),
                         ids=lambda p: "%s/%s" % (p.parts[-4], p.name))
def test_every_form_of_pt_is_read_or_refused_by_name(path):
    done = checkpoints.run("inspect", "--json", path)
    result = json.loads(done.stdout)
    if done.returncode != 0:
        assert done.returncode == 3, (done.returncode, done.stderr)
        assert path.name in MAY_BE_REFUSED and MAY_BE_REFUSED[path.name] in done.stderr, done.stderr
        assert str(path) in done.stderr
        return
    found = {t["name"]: (t["dtype"], t["shape"]) for t in result["tensors"]}
    expected = {"w": ("float32", [4, 3]), "half": ("float16", [6]), "n": ("int64", [])}
    if path.name == "nested.pt":
        assert sorted(map(repr, found.values())) == sorted(map(repr, expected.values()))
    elif path.name == "meta_tensor.pt":
        assert found == {"w": expected["w"]}
    elif path.name not in OTHER_CONTENT:
        assert found == expected
