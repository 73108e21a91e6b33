"""What a cast leaves alone, and what it loses, against PyTorch."""
import json

import torch

import checkpoints


def save(folder, state, config):
    folder.mkdir()
    torch.save(state, folder / "model_world_size_1_rank_0.pt")
    (folder / "huggingface").mkdir()
    (folder / "huggingface" / "config.json").write_text(json.dumps(config))
    return folder


def merge(folder, out, *flags):
    done = checkpoints.run("merge", "--local_dir", folder, "--target_dir", out, "--json", *flags)
    assert done.returncode == 0, done.stderr
    return checkpoints.read_model(out), json.loads(done.stdout)


def test_patterns_keep_tensors_as_stored(tmp_path):
    torch.manual_seed(0)
    state = {"model.layers.0.mlp.gate.e_score_correction_bias": torch.randn(8) * 1e-3 + 1,
             "model.layers.0.mlp.gate.weight": torch.randn(8, 4),
             "model.norm.weight": torch.randn(4),
             "steps": torch.tensor(3), "mask": torch.tensor([True, False])}
    tensors, report = merge(save(tmp_path / "in", state, {}), tmp_path / "out",
                            "--keep-dtype", "*e_score_correction_bias", "--keep-dtype",
                            "model.norm.*", "--keep-dtype", "*.no_such.*")
    for name, stored in state.items():
        cast = name.endswith("gate.weight")
        assert checkpoints.raw(tensors[name]) == \
            checkpoints.raw(stored.to(torch.bfloat16) if cast else stored), name
    assert any("'*.no_such.*' fits the name of no tensor" in w for w in report["warnings"])
    assert "1 tensors keep their dtype by '*e_score_correction_bias'" in report["notes"]


def test_values_too_large_for_float16_are_counted(tmp_path):
    torch.manual_seed(0)
    state = {"a": torch.randn(1000, 50) * 40000, "b": torch.randn(64),
             "c": torch.tensor([1e9, float("inf"), float("nan"), -7e4, 65519.0, 65520.0]),
             "d": (torch.randn(4096) * 3e4).to(torch.bfloat16)}
    tensors, report = merge(save(tmp_path / "in", state, {}), tmp_path / "out",
                            "--dtype", "float16")
    expected = {}
    for name, stored in state.items():
        half = stored.to(torch.float16)
        lost = int((half.isinf() & ~stored.isinf()).sum())
        if lost:
            expected[name] = lost
        assert torch.equal(tensors[name].isinf(), half.isinf())
    assert report["float16_overflows"] == expected and set(expected) == {"a", "c", "d"}
    total = sum(expected.values())
    assert any(w.startswith("%d values of 3 tensors are too large" % total)
               for w in report["warnings"])


def test_scales_of_eight_bit_weights_stay_as_stored(tmp_path):
    torch.manual_seed(0)
    weight = torch.randn(128, 128).to(torch.float8_e4m3fn)
    state = {"model.layers.0.q_proj.weight": weight,
             "model.layers.0.q_proj.weight_scale_inv": torch.rand(1, 1),
             "model.norm.weight": torch.randn(128)}
    config = {"architectures": ["LlamaModel"],
              "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    tensors, report = merge(save(tmp_path / "in", state, config), tmp_path / "out")
    for name, stored in state.items():
        expected = stored.to(torch.bfloat16) if name == "model.norm.weight" else stored
        assert tensors[name].dtype == expected.dtype
        assert checkpoints.raw(tensors[name]) == checkpoints.raw(expected), name
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written["quantization_config"] == config["quantization_config"]
    assert "1 tensors of 8-bit floats and their 1 scales stay as stored" in report["notes"]
    assert not report["warnings"]

    _, report = merge(save(tmp_path / "bare", state, {}), tmp_path / "bare_out")
    assert any("config.json has no quantization_config" in w for w in report["warnings"])
    plain = {"model.norm.weight": torch.randn(128)}
    _, report = merge(save(tmp_path / "plain", plain, config), tmp_path / "plain_out")
    assert any("no tensor is quantized" in w for w in report["warnings"])
