"""LoRA against peft: what is folded equals merge_and_unload, what is kept apart loads as it was."""
import json
import pathlib
import tempfile
import warnings

import peft
import pytest
import torch
from peft.mapping import PEFT_TYPE_TO_PREFIX_MAPPING

import checkpoints
import lora_models
from lora_models import KINDS

CASES = [(kind, fsdp) for kind in KINDS for fsdp in (2, 1)
         # FSDP1 flattens parameters of one dtype alone.
         if not (kind == "bfloat16" and fsdp == 1)]


@pytest.fixture(scope="session")
def saved(torch_ranks, tmp_path_factory):
    """saved(kind, fsdp, lora_only): the folder of a checkpoint, made once; by 2 processes or `size`."""
    folders = {}

    def get(kind, fsdp, lora_only=False, tells=lora_models.save_adapter_configs, size=2):
        key = (kind, fsdp, lora_only, tells, size)
        if key not in folders:
            folder = tmp_path_factory.mktemp("lora")
            torch_ranks(size).run(lora_models.save, str(folder), kind, fsdp, lora_only)
            lora_models.save_beside(folder, kind, fsdp, size)
            if tells:
                tells(folder, kind)
            folders[key] = folder
        return folders[key]

    return get


def adapter_flags(kind, adapter):
    return ["--adapter", adapter] if len(KINDS[kind][1]) > 1 else []


def tensors_of(model):
    """As save_pretrained writes them: experts one by one."""
    if not hasattr(model, "save_pretrained"):
        return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return checkpoints.read_model(pathlib.Path(folder))


def peft_merged(kind, adapter, dtype):
    """The tensors of merge_and_unload, computed in `dtype`."""
    model = lora_models.build(kind).to(dtype)
    model.set_adapter(adapter)
    return tensors_of(model.merge_and_unload(adapter_names=[adapter]))


def magnitudes(kind, adapter):
    """For each tensor of the base the sum of the absolute terms that a fold adds up."""
    model = lora_models.build(kind).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
    model.set_adapter(adapter)
    for module in model.modules():  # the norm of DoRA is no sum of terms
        getattr(module, "lora_variant", {}).clear()
    return tensors_of(model.merge_and_unload(adapter_names=[adapter]))


def assert_within_one_rounding(found, expected, terms):
    """Of the output's type, and of float32 for each term of the sum."""
    assert sorted(found) == sorted(expected)
    folded = 0
    for name, tensor in found.items():
        want = expected[name]
        assert tensor.shape == want.shape, name
        room = (torch.finfo(tensor.dtype).eps * want.abs()
                + 8 * torch.finfo(torch.float32).eps * terms[name])
        assert ((tensor.double() - want.double()).abs() <= room).all(), name
        folded += not torch.equal(tensor.double(), want.double())
    return folded


@pytest.mark.parametrize("kind,fsdp", CASES)
def test_folded_equals_merge_and_unload(kind, fsdp, saved, tmp_path):
    for adapter in KINDS[kind][1]:
        out = checkpoints.merge(saved(kind, fsdp), tmp_path / adapter, "--lora", "merge",
                                *adapter_flags(kind, adapter))
        assert not (out / "lora_adapter").exists()
        found = checkpoints.read_model(out)
        base = KINDS[kind][2]
        terms = magnitudes(kind, adapter)
        if kind == "dora":  # factors of at most 1.5 m / |W| on everything
            terms = {name: 4 * tensor for name, tensor in terms.items()}
        for reference in (torch.float64, torch.float32):
            expected = peft_merged(kind, adapter, reference)
            assert {t.dtype for t in found.values()} == {base}
            assert_within_one_rounding(found, expected, terms)


@pytest.mark.parametrize("kind,fsdp", CASES)
def test_four_processes_give_the_bytes_of_two(kind, fsdp, saved, tmp_path):
    for adapter in KINDS[kind][1]:
        for mode in ("merge", "adapter"):
            two, four = (checkpoints.merge(saved(kind, fsdp, size=size),
                                           tmp_path / adapter / mode / str(size), "--lora", mode,
                                           *adapter_flags(kind, adapter)) for size in (2, 4))
            checkpoints.assert_same_tensors(checkpoints.read_model(four),
                                            checkpoints.read_model(two))
            if mode == "adapter":
                checkpoints.assert_same_tensors(
                    *(checkpoints.read_file(out / "lora_adapter" / "adapter_model.safetensors")
                      for out in (four, two)))


@pytest.mark.parametrize("kind", ["linear", "dora", "embedding", "conv1d"])
def test_any_threads_and_memory_give_the_same_bytes(kind, saved, tmp_path):
    files = set()
    for i, flags in enumerate([["--threads", "1"], ["--threads", "4", "--memory-budget", "128MiB"],
                               ["--max-shard-size", "3KB", "--threads", "2"]]):
        out = checkpoints.merge(saved(kind, 2), tmp_path / str(i), "--lora", "merge", *flags)
        tensors = checkpoints.read_model(out)
        files.add(tuple(sorted((name, checkpoints.raw(t)) for name, t in tensors.items())))
    assert len(files) == 1


@pytest.mark.parametrize("kind,fsdp", CASES)
def test_the_adapter_loads_in_peft_as_it_was(kind, fsdp, saved, tmp_path):
    for adapter in KINDS[kind][1]:
        out = checkpoints.merge(saved(kind, fsdp), tmp_path / adapter, *adapter_flags(kind, adapter))
        trained = lora_models.build(kind)
        base = checkpoints.read_model(out)
        assert not [name for name in base if "lora_" in name or "base_layer" in name
                    or name.startswith("base_model.")]
        plain = KINDS[kind][0]().to(KINDS[kind][2])
        if kind.startswith("experts"):  # saved one by one
            plain, loading = type(plain).from_pretrained(out, dtype=KINDS[kind][2],
                                                         output_loading_info=True)
            assert not any(loading[keys] for keys in ("missing_keys", "unexpected_keys"))
        else:
            missing, unexpected = plain.load_state_dict(base, strict=False)
            assert not unexpected and set(missing) <= {"lm_head.weight"}
        in_adapter = checkpoints.read_file(out / "lora_adapter" / "adapter_model.safetensors")
        for name, tensor in plain.state_dict().items():  # biases come back from there
            module = "base_model.model." + name.removesuffix(".bias")
            if module + ".bias" in in_adapter or module + ".base_layer.bias" in in_adapter:
                tensor.zero_()
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # peft warns of missing keys
            warnings.filterwarnings("ignore", "Could not find a config file")
            warnings.filterwarnings("ignore", "Setting `save_embedding_layers`")
            warnings.filterwarnings("ignore", "fan_in_fan_out is set to")
            loaded = peft.PeftModel.from_pretrained(plain, out / "lora_adapter").eval()
        found = loaded.state_dict()
        expected = {name.replace("." + adapter, ".default"): tensor
                    for name, tensor in trained.state_dict().items()
                    if "lora_" in name or "modules_to_save" in name}
        others = [other for other in KINDS[kind][1] if other != adapter]
        expected = {name: tensor for name, tensor in expected.items()
                    if not any("." + other + "." in name for other in others)}
        if "default" in others:
            expected = {name.replace("." + adapter, ".default"): tensor
                        for name, tensor in trained.state_dict().items() if "." + adapter in name}
        assert {n for n in found if "lora_" in n or "modules_to_save" in n} == set(expected)
        for name, tensor in expected.items():
            assert torch.equal(found[name].to(tensor.dtype), tensor), name
        if kind == "convolution":
            inputs = dict(x=torch.ones(1, 3, 5, 5))
        else:
            inputs = dict(input_ids=torch.arange(20).view(2, 10))
        trained.set_adapter(adapter)
        with torch.no_grad():
            a, b = (m(**inputs) for m in (trained, loaded))
        a, b = (a, b) if isinstance(a, torch.Tensor) else (a.logits, b.logits)
        assert torch.equal(a, b)


def test_a_saved_adapter_file_has_the_names_of_peft(saved, tmp_path):
    for kind in KINDS:
        # Of embeddings peft saves the base weights, too.
        if len(KINDS[kind][1]) > 1 or kind == "embedding":
            continue
        out = checkpoints.merge(saved(kind, 2), tmp_path / kind, "--lora", "adapter-only")
        assert not list(out.glob("*.safetensors")) and not (out / "config.json").exists()
        lora_models.build(kind).save_pretrained(tmp_path / (kind + "_peft"))
        expected = checkpoints.read_file(tmp_path / (kind + "_peft") / "adapter_model.safetensors")
        for name in list(expected):  # biases of a trained copy, which peft saves three times
            if name.endswith((".original_module.bias", ".modules_to_save.bias")):
                del expected[name]
        checkpoints.assert_same_tensors(
            checkpoints.read_file(out / "lora_adapter" / "adapter_model.safetensors"), expected)


@pytest.mark.parametrize("kind", ["linear", "bfloat16", "conv1d", "experts"])
def test_verls_metadata_is_enough(kind, saved, tmp_path):
    case = saved(kind, 2, tells=lora_models.save_train_meta)
    told = checkpoints.merge(saved(kind, 2), tmp_path / "told", "--lora", "merge")
    out = checkpoints.merge(case, tmp_path / "out", "--lora", "merge")
    checkpoints.assert_same_tensors(checkpoints.read_model(out), checkpoints.read_model(told))
    out = checkpoints.merge(case, tmp_path / "adapter", "--lora", "adapter-only")
    config = peft.LoraConfig.from_pretrained(out / "lora_adapter")
    original = lora_models.build(kind).peft_config["default"]
    assert (config.r, config.lora_alpha) == (original.r, original.lora_alpha)
    assert config.target_modules == set(original.target_modules)
    assert ({name.rpartition(".")[2] for name in config.target_parameters or []}
            == {name.rpartition(".")[2] for name in original.target_parameters or []})
    loaded = peft.PeftModel.from_pretrained(KINDS[kind][0](), out / "lora_adapter").state_dict()
    for name, tensor in lora_models.build(kind).state_dict().items():
        if "lora_" in name:
            assert torch.equal(loaded[name].to(tensor.dtype), tensor), name


def test_an_unknown_alpha_is_refused_or_told(saved, tmp_path):
    case = saved("linear", 2, tells=None)
    done = checkpoints.run("merge", "--local_dir", case, "--target_dir", tmp_path / "no", "--lora",
                           "merge")
    assert done.returncode == 3 and "--lora-alpha" in done.stderr
    out = checkpoints.merge(case, tmp_path / "out")
    config = json.loads((out / "lora_adapter" / "adapter_config.json").read_text())
    assert config["lora_alpha"] is None and config["r"] == 4
    with pytest.raises(TypeError):
        peft.PeftModel.from_pretrained(lora_models.causal_lm(), out / "lora_adapter")
    told = checkpoints.merge(case, tmp_path / "told", "--lora", "merge", "--lora-alpha", "16")
    checkpoints.assert_same_tensors(
        checkpoints.read_model(told),
        checkpoints.read_model(checkpoints.merge(saved("linear", 2), tmp_path / "by_file", "--lora",
                                                 "merge")))


@pytest.mark.parametrize("fsdp", [2, 1])
def test_shards_of_an_adapter_alone(fsdp, saved, tmp_path):
    case = saved("linear", fsdp, lora_only=True)
    whole = saved("linear", fsdp)
    found, expected = (checkpoints.merge(c, tmp_path / name, "--lora", "adapter-only")
                       for c, name in ((case, "alone"), (whole, "whole")))
    checkpoints.assert_same_tensors(
        checkpoints.read_file(found / "lora_adapter" / "adapter_model.safetensors"),
        checkpoints.read_file(expected / "lora_adapter" / "adapter_model.safetensors"))
    done = checkpoints.run("merge", "--local_dir", case, "--target_dir", tmp_path / "no", "--lora",
                           "merge")
    assert done.returncode == 3 and "--base_model_dir" in done.stderr
    lora_models.build("linear").unload().save_pretrained(tmp_path / "base")
    checkpoints.assert_same_tensors(
        checkpoints.read_model(checkpoints.merge(case, tmp_path / "folded", "--lora", "merge",
                                                 "--base_model_dir", tmp_path / "base")),
        checkpoints.read_model(checkpoints.merge(whole, tmp_path / "expected", "--lora", "merge")))


# Beside LoRA itself, what trains prompts wraps no modules.
OF_PROMPTS = {"prompt_tuning_", "multitask_prompt_tuning_", "p_tuning_", "prefix_tuning_", "cpt_",
              "cartridge_"}
WRAPPING = {kind.value: prefix for kind, prefix in PEFT_TYPE_TO_PREFIX_MAPPING.items()
            if prefix not in OF_PROMPTS | {"lora_"}}


@pytest.mark.parametrize("kind", sorted(WRAPPING))
def test_adapters_of_other_kinds_are_refused(kind, tmp_path):
    torch.save({"base_model.model.q.%sx.default" % WRAPPING[kind]: torch.ones(2, 2)},
               tmp_path / "model_world_size_1_rank_0.pt")
    done = checkpoints.run("merge", "--local_dir", tmp_path, "--target_dir", tmp_path / "out")
    assert done.returncode == 3 and "of another kind than LoRA" in done.stderr, done.stderr


def test_a_saved_adapter_of_another_kind_is_refused(tmp_path):
    model = peft.get_peft_model(torch.nn.Sequential(torch.nn.Linear(4, 4)),
                                peft.LoHaConfig(target_modules=["0"]))
    torch.save(peft.get_peft_model_state_dict(model), tmp_path / "model_world_size_1_rank_0.pt")
    done = checkpoints.run("merge", "--local_dir", tmp_path, "--target_dir", tmp_path / "out")
    assert done.returncode == 3 and "of another kind than LoRA" in done.stderr, done.stderr
