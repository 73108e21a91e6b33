"""Checkpoints whose files lie in several folders, or not all there: hosts with disks of their own."""
import json
import shutil
import unittest

import program
from program import DONE, FIXTURES, REFUSED, SAMPLE

NEW = FIXTURES / "torch-2.13.0"
HSDP = NEW / "hsdp_bf16_w4"  # ranks 0 and 2 hold one shard, 1 and 3 the other
RANK = "model_world_size_4_rank_%d.pt"


class JoinedFoldersTest(program.ProgramTest):
    def part(self, name, ranks, case=SAMPLE, *others):
        """A folder with some ranks' files, and what `others` names."""
        folder = self.folder / name
        folder.mkdir()
        for rank in ranks:
            shutil.copy(case / (RANK % rank), folder)
        for other in others:
            source = case / other
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / other)
        return folder

    def merge_of(self, *folders, exit_code=DONE, flags=()):
        places = [part for folder in folders for part in ("--local_dir", folder)]
        return self.run_program("merge", "--backend", "fsdp", *places, "--target_dir", self.out,
                                "--dtype", "keep", *flags, exit_code=exit_code)

    def test_two_hosts(self):
        first = self.part("first", [0, 1])
        second = self.part("second", [2, 3], SAMPLE, "huggingface", "fsdp_config.json")
        self.merge_of(first, second)
        self.assertEqual(program.read_model(self.out), program.expected_tensors(SAMPLE))
        self.assertTrue((self.out / "config.json").exists())
        reference = SAMPLE / "expected.safetensors"
        done = self.run_program("test", "--local_dir", first, "--local_dir", second,
                                "--test_hf_dir", reference, exit_code=DONE)
        self.assertIn("27 of 27 tensors equal", done.stdout)
        self.run_program("verify", self.out, "--local_dir", first, "--local_dir", second,
                         exit_code=DONE)
        shown = self.run_program("inspect", first, second, exit_code=DONE).stdout
        self.assertIn("world size 4", shown)
        self.assertIn("lm_head.weight", shown)

    def test_ranks_that_are_in_no_folder(self):
        first = self.part("first", [1])
        second = self.part("second", [3])
        done = self.merge_of(first, second, exit_code=REFUSED)
        for text in ["found ranks 1, 3; missing: 0, 2", str(first), str(second), "--local-dir"]:
            self.assertIn(text, done.stderr)
        self.assertFalse(self.out.exists())
        shown = self.run_program("inspect", first, second, exit_code=REFUSED).stdout
        self.assertIn("missing: 0, 2", shown)

    def test_equal_files_in_both(self):
        done = self.merge_of(self.part("first", [0, 1, 2]), self.part("second", [1, 2, 3]))
        self.assertIn("rank 1 is in 2 folders, with equal bytes", done.stdout)
        self.assertEqual(program.read_model(self.out), program.expected_tensors(SAMPLE))

    def test_different_files_in_both(self):
        first = self.part("first", [0, 1, 2])
        second = self.part("second", [2, 3])
        path = second / (RANK % 2)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        done = self.merge_of(first, second, exit_code=REFUSED)
        for text in ["different files of rank 2", str(path), str(first / (RANK % 2))]:
            self.assertIn(text, done.stderr)
        self.assertFalse(self.out.exists())

    def test_stale_files_of_another_world_size_are_named(self):
        first = self.part("first", [0, 1], SAMPLE, "fsdp_config.json")
        second = self.part("second", [2, 3])
        for rank in (0, 1):
            shutil.copy(NEW / "fsdp1_dtensor_fp32_w2" / ("model_world_size_2_rank_%d.pt" % rank),
                        second)
        done = self.merge_of(first, second)
        self.assertIn("left aside: 2 files of world size 2, model_world_size_2_rank_R.pt of ranks "
                      "0-1", done.stdout)
        self.assertEqual(program.read_model(self.out), program.expected_tensors(SAMPLE))

    def test_of_hsdp_one_full_set_is_enough(self):
        for ranks in [(0, 1), (2, 3), (0, 3), (1, 2), (0, 1, 3)]:
            with self.subTest(ranks=ranks):
                folder = self.part("part%s" % "".join(map(str, ranks)), ranks, HSDP, "huggingface",
                                   "fsdp_config.json")
                done = self.merge_of(folder, flags=("--overwrite", "--json"))
                self.assertEqual(program.read_model(self.out), program.expected_tensors(HSDP))
                missing = sorted(set(range(4)) - set(ranks))
                self.assertEqual(json.loads(done.stdout)["missing_ranks"], missing)
                self.assertIn("1 of 2 copies of 27 tensors", done.stderr)
                self.run_program("verify", self.out, "--local_dir", folder, exit_code=DONE)
        self.assert_refused(self.part("half", [0, 2], HSDP), "missing: 1, 3")

    def test_of_hsdp_with_tensor_parallelism(self):
        case = NEW / "hsdp_tp_fp32_w8"
        checkpoint = self.copy(case)
        there = []
        for rank in range(8):
            path = checkpoint / ("model_world_size_8_rank_%d.pt" % rank)
            path.rename(path.with_suffix(".gone"))
            if self.merge(checkpoint, "--dry-run", exit_code=None).returncode == DONE:
                there.append(rank)  # not needed
            else:
                path.with_suffix(".gone").rename(path)
        self.assertEqual(len(there), 4)
        self.merge(checkpoint, "--dtype", "keep")
        self.assertEqual(program.read_model(self.out), program.expected_tensors(case))

    def test_replicas_in_two_folders_are_compared(self):
        first = self.part("first", [0, 1], HSDP)
        second = self.part("second", [2, 3], NEW / "fsdp2_fp32_w4")
        self.assertIn("disagree", self.merge_of(first, second, exit_code=REFUSED).stderr)

    def test_configs_are_rank_zeros_in_any_order_and_one(self):
        """Rank 0 writes huggingface/; another host's may be of an older run."""
        first = self.part("first", [0, 1], SAMPLE, "huggingface", "fsdp_config.json")
        second = self.part("second", [2, 3], SAMPLE, "huggingface", "fsdp_config.json")
        (second / "huggingface" / "generation_config.json").write_text("{}")
        for folders in ((first, second), (second, first)):
            self.merge_of(*folders, flags=("--overwrite",))
            self.assertEqual((self.out / "generation_config.json").read_bytes(),
                             (first / "huggingface" / "generation_config.json").read_bytes())
        path = second / "huggingface" / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "vocab_size": config["vocab_size"] - 1}))
        for folders in ((first, second), (second, first)):
            done = self.merge_of(*folders, flags=("--overwrite",), exit_code=REFUSED)
            self.assertIn("two folders hold different configs", done.stderr)
            self.assertIn("PROBLEM    two folders hold different configs",
                          self.run_program("inspect", *folders, exit_code=REFUSED).stdout)
            self.merge_of(*folders, flags=("--overwrite", "--hf_model_config_path",
                                           first / "huggingface"))
            self.assertEqual(json.loads((self.out / "config.json").read_text())["vocab_size"],
                             config["vocab_size"])

    def test_versions_of_fsdp_may_not_differ(self):
        first = self.part("first", [0, 1], SAMPLE, "fsdp_config.json")
        second = self.part("second", [2, 3])
        (second / "fsdp_config.json").write_text('{"FSDP_version": 1, "world_size": 4}')
        done = self.merge_of(first, second, exit_code=REFUSED)
        self.assertIn("are of two checkpoints: expected FSDP_version 2, found FSDP_version 1",
                      done.stderr)

    def test_the_target_may_be_none_of_them(self):
        first = self.part("first", [0, 1])
        second = self.part("second", [2, 3])
        self.out = second
        before = program.snapshot(self.folder)
        self.merge_of(first, second, flags=("--overwrite",), exit_code=program.USAGE)
        self.assertEqual(program.snapshot(self.folder), before)


if __name__ == "__main__":
    unittest.main()
