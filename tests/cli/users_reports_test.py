"""What users have reported, in small; and docs/troubleshooting.md, which names a test for each report."""
import json
import re
import unittest
import zipfile

import program
from program import FIXTURES, ROOT, SAMPLE

NEW = FIXTURES / "torch-2.13.0"


def replace_in_pickles(checkpoint, old, new):
    """In data.pkl of every rank; both of one length, so that the pickle stays one."""
    assert len(old) == len(new)
    for path in checkpoint.glob("model_world_size_*.pt"):
        with zipfile.ZipFile(path) as source:
            records = [(i.filename, source.read(i)) for i in source.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for name, data in records:
                if name.endswith("/data.pkl"):
                    assert old in data, path
                    data = data.replace(old, new)
                target.writestr(zipfile.ZipInfo(name), data)


class UsersReportsTest(program.ProgramTest):
    def with_config(self, **changes):
        """A copy of the sample; None takes a member out."""
        checkpoint = self.copy()
        path = checkpoint / "huggingface" / "config.json"
        config = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
        return checkpoint

    def test_buffers_keep_their_shape(self):
        case = NEW / "buffers_mixed_w4"
        self.merge(case, "--dtype", "keep")
        found, record = program.read_model(self.out), json.loads((case / "expected.json").read_text())
        self.assertEqual({name: shape for name, (_, shape, _) in found.items()},
                         {name: entry["shape"] for name, entry in record["tensors"].items()})
        self.assertIn([], [shape for _, shape, _ in found.values()])

    def test_names_of_mesh_dimensions_are_labels(self):
        case = NEW / "hsdp_bf16_w4"
        checkpoint = self.copy(case)
        replace_in_pickles(checkpoint, b"ddp", b"any")
        replace_in_pickles(checkpoint, b"fsdp", b"rows")
        self.merge(checkpoint, "--dtype", "keep")
        self.assertEqual(program.read_model(self.out), program.expected_tensors(case))
        self.assertIn("(any, rows)", self.run_program("inspect", checkpoint).stdout)

    def test_flat_parameters_are_refused(self):
        checkpoint = self.copy()
        replace_in_pickles(checkpoint, b"model.norm.weight", b"model._flat_param")
        self.assert_refused(checkpoint, "model._flat_param", "SHARDED_STATE_DICT")
        self.assertIn("SHARDED_STATE_DICT", self.run_program("inspect", checkpoint).stdout)

    def test_a_value_head_is_kept(self):
        case = NEW / "critic_fp32_w4"
        self.merge(case, "--dtype", "keep")
        self.assertIn("score.weight", program.read_model(self.out))
        before, after = (json.loads((folder / "config.json").read_text())
                         for folder in (case / "huggingface", self.out))
        self.assertEqual(after["architectures"], before["architectures"])
        self.assertEqual(after["num_labels"], before["num_labels"])

    def test_an_odd_generation_config_is_copied(self):
        checkpoint = self.copy()
        path = checkpoint / "huggingface" / "generation_config.json"
        odd = b'{"do_sample":false,\n\n  "temperature" : 0.9, "eos_token_id":[1, 2]}'
        path.write_bytes(odd)
        self.merge(checkpoint)
        self.assertEqual((self.out / "generation_config.json").read_bytes(), odd)
        path.unlink()
        self.merge(checkpoint, "--overwrite")
        self.assertFalse((self.out / "generation_config.json").exists())

    def test_a_folder_without_a_tokenizer_is_told(self):
        checkpoint = self.copy()
        self.assertIn("note: no tokenizer", self.merge(checkpoint).stdout)
        (checkpoint / "huggingface" / "tokenizer.json").write_text("{}")
        self.assertNotIn("note: no tokenizer", self.merge(checkpoint, "--overwrite").stdout)

    def test_code_that_is_not_there_is_told(self):
        checkpoint = self.with_config(model_type="multi_modality",
                                      auto_map={"AutoModel": "modeling_x.X"})
        self.assertIn("'modeling_x.py', which is not in", self.merge(checkpoint).stderr)
        (checkpoint / "huggingface" / "modeling_x.py").write_text("class X: pass\n")
        self.assertEqual(self.merge(checkpoint, "--overwrite").stderr, "")
        self.assertTrue((self.out / "modeling_x.py").exists())

    def test_architectures(self):
        self.merge(SAMPLE)
        plain = json.loads((self.out / "config.json").read_text())
        for value in (None, ["FSDPQwen2ForCausalLM"]):
            with self.subTest(value=value):
                checkpoint = self.with_config(architectures=value)
                done = self.merge(checkpoint, "--overwrite")
                written = json.loads((self.out / "config.json").read_text())
                if value is None:
                    self.assertIn("names no architectures", done.stderr)
                else:
                    self.assertIn("without FSDP's name", done.stdout)
                    self.assertEqual(written["architectures"], plain["architectures"])
                for path in sorted(checkpoint.rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()
                checkpoint.rmdir()


class TroubleshootingPageTest(unittest.TestCase):
    def rows(self):
        text = (ROOT / "docs" / "troubleshooting.md").read_text()
        for line in text.splitlines():
            if line.startswith("| ") and not line.startswith("| report"):
                yield [cell.strip() for cell in line.strip("|").split(" | ")]

    def known_tests(self):
        found = set()
        for path in (ROOT / "src" / "shardkit").rglob("*_test.cc"):
            for suite, name in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(),
                                          re.MULTILINE):
                found.add("%s.%s" % (suite, name))
        for path in (ROOT / "tests" / "cli").glob("*_test.py"):
            for name in re.findall(r"^    def (test_\w+)", path.read_text(), re.MULTILINE):
                found.add("%s.%s" % (path.stem, name))
        import every_fixture_test
        for name in dir(every_fixture_test.EveryFixtureTest):
            if name.startswith("test_"):
                found.add("every_fixture_test." + name)
        return found

    def test_each_report_is_answered_and_names_a_test_that_exists(self):
        known = self.known_tests()
        rows = list(self.rows())
        self.assertGreaterEqual(len(rows), 44)
        for cells in rows:
            with self.subTest(cells[0]):
                self.assertEqual(len(cells), 4, cells)
                self.assertTrue(all(cells), cells)
                self.assertRegex(cells[0], r"\]\(https://github\.com/")
                self.assertIn(cells[3].strip("`"), known)


if __name__ == "__main__":
    unittest.main()
