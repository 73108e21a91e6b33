"""What inspect shows of everything that it takes."""
import json
import shutil
import unittest

import program
from program import DONE, FIXTURES, REFUSED, SAMPLE


class InspectTest(program.ProgramTest):
    def inspect(self, path, *flags, exit_code=DONE):
        return self.run_program("inspect", path, *flags, exit_code=exit_code).stdout

    def test_checkpoint(self):
        text = self.inspect(SAMPLE)
        for part in ["model.embed_tokens.weight", "lm_head.weight", "99", "24", "float32", "fsdp",
                     "S(0)", "27"]:
            self.assertIn(part, text)

    def test_every_tensor_with_shape_and_dtype(self):
        for case in ["hsdp_tp_fp32_w8", "fsdp1_shardedtensor_fp32_w4", "dtypes_w2",
                     "placements_fp32_w4"]:
            with self.subTest(case=case):
                folder = FIXTURES / "torch-2.13.0" / case
                listed = {t["name"]: t for t in json.loads(self.inspect(folder, "--json"))["tensors"]}
                record = json.loads((folder / "expected.json").read_text())["tensors"]
                self.assertEqual(sorted(listed), sorted(record))
                for name, entry in record.items():
                    self.assertEqual(listed[name]["shape"], entry["shape"], name)
                    self.assertEqual(listed[name]["dtype"], entry["dtype"], name)

    def test_one_rank_file(self):
        self.assertIn("lm_head.weight", self.inspect(SAMPLE / "model_world_size_4_rank_2.pt"))

    def test_optimizer_and_extra_state(self):
        folder = FIXTURES / "torch-2.13.0" / "optimizer_w2"
        self.assertIn("exp_avg", self.inspect(folder / "optim_world_size_2_rank_0.pt"))
        self.assertIn("lr_scheduler", self.inspect(folder / "extra_state_world_size_2_rank_1.pt"))

    def test_safetensors_file(self):
        text = self.inspect(SAMPLE / "expected.safetensors")
        self.assertIn("model.norm.weight", text)

    def test_model_folder(self):
        for flags in [(), ("--max-shard-size", "20KB")]:
            self.merge(SAMPLE, "--overwrite", *flags)
            text = self.inspect(self.out)
            self.assertIn("model.norm.weight", text)
            self.assertIn("bfloat16", text)

    def test_a_run(self):
        run = self.folder / "run"
        shutil.copytree(SAMPLE, run / "global_step_7" / "actor")
        self.assertIn("lm_head.weight", self.inspect(run))
        self.assertIn("lm_head.weight", self.inspect(run / "global_step_7"))

    def test_ties_are_shown(self):
        text = self.inspect(FIXTURES / "torch-2.13.0" / "fsdp2_bf16_tied_w2")
        self.assertRegex(text, r"(?i)(tie|shar)")

    def test_what_is_wrong_with_a_folder(self):
        checkpoint = self.copy()
        (checkpoint / "model_world_size_4_rank_1.pt").unlink()
        done = self.run_program("inspect", checkpoint)
        self.assertIn(done.returncode, (0, 3))
        self.assertRegex(done.stdout + done.stderr, r"(?i)missing.*\b1\b|\b1\b.*missing")

    def test_what_a_merge_would_tell(self):
        checkpoint = self.copy()
        path = checkpoint / "huggingface" / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "vocab_size": 96, "architectures": None}))
        notes = json.loads(self.inspect(checkpoint, "--json"))["notes"]
        report = json.loads(self.merge(checkpoint, "--dry-run", "--json").stdout)
        self.assertEqual(notes, report["warnings"] + report["notes"])
        text = self.inspect(checkpoint)
        for note in ["'lm_head.weight' has 99 rows", "names no architectures", "no tokenizer in"]:
            self.assertRegex(text, "note +.*" + note)

    def test_weights_that_a_loader_passes_over(self):
        self.merge(SAMPLE, "--max-shard-size", "20KB")
        shutil.copy(SAMPLE / "expected.safetensors", self.out / "model.safetensors")
        self.assertIn("PROBLEM    model.safetensors stands beside an index",
                      self.inspect(self.out, exit_code=REFUSED))

    def test_json_alone_on_stdout(self):
        done = self.run_program("inspect", SAMPLE, "--json", exit_code=DONE)
        self.assertIsInstance(json.loads(done.stdout), dict)
        self.assertEqual(done.stderr, "")

    def test_nothing_is_written(self):
        checkpoint = self.copy()
        before = program.snapshot(self.folder)
        self.inspect(checkpoint)
        self.assertEqual(program.snapshot(self.folder), before)


if __name__ == "__main__":
    unittest.main()
