"""docs/from_verl.md against the source: headers declare what it names, tests exist and use it."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ROOT / "src" / "shardkit"
NOT_YET = "not there yet"

# What the files of verl 0.9.1 define; of base_model_merger.py, what saves and uploads; of utils and
# engine_workers.py, what keeps models in CPU memory.
VERL = {
    "model_merger/fsdp_model_merger.py": """
        merge_non_dtensor_shards FSDPModelMerger _get_world_size _load_rank_zero_state_dict
        _extract_device_mesh_info _calculate_shard_configuration _merge_by_placement
        _load_and_merge_state_dicts merge_and_save _validate_state_dict cleanup
        ModelMergerConfig save_hf_model_and_tokenizer save_lora_adapter upload_to_huggingface""",
    "third_party/torch/distributed/_state_dict_utils.py": """
        CompanionMismatch _identity_func _iterate_state_dict _all_gather_sharded_tensor
        _gather_state_dict _offload_state_dict_to_cpu _copy_state_dict _create_cpu_state_dict
        _check_state_dict_similarity _TensorInfo _broadcast_tensors _distribute_tensors
        _broadcast_state_dict _distribute_state_dict _traverse_state_dict _flatten_state_dict
        _set_element _unflatten_state_dict""",
    "utils/fsdp_utils.py": """
        fsdp1_sharded_save_to_cpu fsdp1_sharded_load_from_cpu fsdp2_sharded_save_to_cpu
        fsdp2_sharded_load_from_cpu""",
    "utils/megatron_utils.py": "copy_megatron_model_to_cpu restore_megatron_model_from_cpu",
    "experimental/separation/engine_workers.py": """
        save_model_to_cpu restore_model_from_cpu clear_cpu_model""",
}


def rows(text):
    """(section, the five cells without backticks) of each row of the page's tables."""
    section = None
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        if line.startswith("| `"):
            yield section, [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]


def tests():
    """"Suite.Name" -> the file's text, of every test that is compiled."""
    found = {}
    for path in ROOMS.glob("*/*_test.cc"):
        text = path.read_text()
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", text, re.MULTILINE):
            found["%s.%s" % (suite, name)] = text
    return found


class FromVerlTest(unittest.TestCase):
    def setUp(self):
        self.rows = list(rows((ROOT / "docs" / "from_verl.md").read_text()))

    def test_every_function_of_verl_has_a_row_and_no_other(self):
        found = {}
        for section, cells in self.rows:
            self.assertEqual(len(cells), 5, cells)
            found.setdefault(section, []).append(cells[0])
        self.assertEqual({section: sorted(names) for section, names in found.items()},
                         {section: sorted(names.split()) for section, names in VERL.items()})

    def test_headers_declare_what_the_page_names(self):
        for _, (verl, here, header, _, _) in self.rows:
            if here == NOT_YET:
                continue
            with self.subTest(verl):
                text = (ROOMS / header).read_text()
                code = "\n".join(line for line in text.splitlines()
                                 if not line.lstrip().startswith("//"))
                self.assertTrue(re.search(r"\b%s\b" % here, code), "%s lacks %s" % (header, here))

    def test_what_is_not_there_names_no_header_and_no_test(self):
        for _, (verl, here, header, _, test) in self.rows:
            if here == NOT_YET:
                self.assertEqual((header, test), ("", ""), verl)

    def test_tests_exist_and_their_files_use_it(self):
        known = tests()
        for _, (verl, here, _, _, test) in self.rows:
            if here == NOT_YET:
                continue
            with self.subTest(verl):
                self.assertIn(test, known)
                self.assertTrue(re.search(r"\b%s\b" % here, known[test]),
                                "the file of %s does not use %s" % (test, here))


if __name__ == "__main__":
    unittest.main()
