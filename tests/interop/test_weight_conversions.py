"""Every family of weight_conversions*.cc is merged to the files that transformers itself saves."""
import pathlib
import re
import shutil

import pytest
import torch
import transformers
from transformers import conversion_mapping
from transformers.core_model_loading import PrefixChange
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

import checkpoints
from conversion_cases import CASES, OTHER_TYPES, TIED_CASES
from tiny_models import tiny_model

SOURCES = (checkpoints.ROOT / "src" / "shardkit" / "hf").glob("weight_conversions*.cc")
# Name and renames of our tables' entries.
TABLES = re.findall(r'SaveFamily\{"([\w -]+)",\s+[^,]+,\s+(\{\}|\w+)',
                    "".join(source.read_text() for source in SOURCES))
WORLD_SIZE = 3
FOLLOWED = set()  # entries of our tables that a case has followed
SAVED_BY = set()  # entries of transformers' table that a case was saved by
# Entries of transformers' table that no model is saved by.
NEVER_SAVED_BY = {
    "legacy",  # of loading alone
    "MtpModel",  # made beside a loaded model, from its checkpoint
    "qwen2_5_omni_thinker", "qwen3_omni_moe_thinker",  # each of their classes has an entry
}


def save_shards(model, state, folder):
    """The state dict as ranks of FSDP1 without sharded tensors hold it: rows of each tensor."""
    ranks = [{} for _ in range(WORLD_SIZE)]
    for name, tensor in state.items():
        rows = tensor.chunk(WORLD_SIZE) if tensor.dim() else [tensor] * WORLD_SIZE
        for rank in range(WORLD_SIZE):
            ranks[rank][name] = (rows[rank] if rank < len(rows) else tensor[:0]).clone()
    for rank, rows in enumerate(ranks):
        torch.save(rows, folder / ("model_world_size_%d_rank_%d.pt" % (WORLD_SIZE, rank)))
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder / "huggingface")


def families_of(model):
    """The entries of our tables that a case may follow."""
    names = {type(model).__name__, model.config.model_type}
    for name in model.config.sub_configs or {}:
        part = getattr(model.config, name)
        if part is not None:
            names |= {part.model_type, "%s backbone" % part.model_type, "%s model" % part.model_type}
    return names


def saved(model, folder, monkeypatch):
    """What save_pretrained writes; notes by which entries."""
    look_up = conversion_mapping.get_checkpoint_conversion_mapping

    def noted(key):
        found = look_up(key)
        if found is not None:
            SAVED_BY.add(key)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(conversion_mapping, "get_checkpoint_conversion_mapping", noted)
        model.save_pretrained(folder)
    return folder / "model.safetensors"


def merged(model, state, folder):
    shards = folder / "shards"
    shards.mkdir(parents=True)
    save_shards(model, state, shards)
    done = checkpoints.run("merge", "--local_dir", shards, "--target_dir", folder / "merged",
                           "--dtype", "keep", "--plain-tensors", "concat")
    assert done.returncode == 0, done.stderr
    assert "written as they are" not in done.stderr
    return folder / "merged" / "model.safetensors"


def make_case(name):
    if name in OTHER_TYPES:
        return tiny_model(OTHER_TYPES[name], config_class=getattr(transformers, name))
    return tiny_model(name, {**CASES, **TIED_CASES}[name])


@pytest.mark.parametrize("name", [*CASES, *OTHER_TYPES])
def test_same_file_as_save_pretrained(name, tmp_path, monkeypatch):
    model = make_case(name)
    FOLLOWED.update(families_of(model))
    expected = saved(model, tmp_path / "expected", monkeypatch)
    found = merged(model, model.state_dict(), tmp_path)
    published = checkpoints.read_file(expected)
    checkpoints.assert_same_tensors(checkpoints.read_file(found), published)
    assert found.read_bytes() == expected.read_bytes()
    # Other code than transformers 5 may hold the model as it is published already.
    again = checkpoints.read_file(merged(model, published, tmp_path / "again"))
    checkpoints.assert_same_tensors(again, published)
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("name", TIED_CASES)
def test_same_tensors_as_save_pretrained_but_for_ties(name, tmp_path, monkeypatch):
    model = make_case(name)
    FOLLOWED.update(families_of(model))
    expected = checkpoints.read_file(saved(model, tmp_path / "expected", monkeypatch))
    found = checkpoints.read_file(merged(model, model.state_dict(), tmp_path))
    held = {checkpoints.raw(tensor) for tensor in expected.values()}
    more = set(found) - set(expected)
    assert more and all(checkpoints.raw(found.pop(tied)) in held for tied in more)
    checkpoints.assert_same_tensors(found, expected)
    shutil.rmtree(tmp_path)


def need_all_cases():
    if len(FOLLOWED) < len(CASES):
        pytest.skip("not all cases ran")


def same_without_a_head():
    """Classes that transformers saves by the same rules as LlavaModel, which has a case."""
    table = conversion_mapping._build_checkpoint_conversion_mapping()
    names = {name for name, renames in TABLES
             if renames == "kTextModelRenames" and not name.endswith(" model")}
    return {name for name in names if repr(table[name]) == repr(table["LlavaModel"])}


def test_every_family_has_a_case():
    need_all_cases()
    assert len(TABLES) > 200
    assert {name for name, _ in TABLES} - FOLLOWED - same_without_a_head() == set()


def has_models(key):
    """Whether transformers has a class of this name or a model type."""
    models = pathlib.Path(transformers.__file__).parent / "models"
    return key in CONFIG_MAPPING_NAMES or any(
        re.search(r"^class %s\b" % key, source.read_text(), re.MULTILINE)
        for source in models.glob("*/modeling_*.py"))


def test_all_of_transformers_table_is_followed():
    """A family that a newer transformers saves in another form fails here, not at a user's."""
    need_all_cases()
    table = conversion_mapping._build_checkpoint_conversion_mapping()
    unsaid = {key for key, conversions in table.items()
              if not all(isinstance(conversion, PrefixChange) for conversion in conversions)}
    unsaid -= SAVED_BY | NEVER_SAVED_BY
    assert {key for key in unsaid if has_models(key)} == set()
