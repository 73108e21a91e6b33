"""`shardkit verify` as a process: exit codes, messages, JSON."""
import json
import shutil
import unittest

import program
from program import DIFFERENCES, DONE, REFUSED, SAMPLE


class VerifyTest(program.ProgramTest):
    def test_a_fresh_merge_is_as_written(self):
        self.merge(SAMPLE)
        done = self.run_program("verify", self.out, exit_code=DONE)
        self.assertIn("as written", done.stdout)
        done = self.run_program("verify", self.out, "--local_dir", SAMPLE, "--json",
                                exit_code=DONE)
        report = json.loads(done.stdout)
        self.assertEqual(report["status"], "ok")
        self.assertEqual(report["differences"], [])
        self.assertEqual(report["files"], 3)

    def test_a_changed_weight_is_a_difference(self):
        self.merge(SAMPLE)
        path = self.out / "model.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        done = self.run_program("verify", self.out, exit_code=DIFFERENCES)
        self.assertIn("model.safetensors", done.stdout)
        done = self.run_program("verify", self.out, "--local_dir", SAMPLE, exit_code=DIFFERENCES)
        self.assertRegex(done.stdout, "differs from byte %d on, in tensor '" % (len(content) - 1))

    def test_a_cut_weight_file_is_a_difference(self):
        self.merge(SAMPLE)
        path = self.out / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        done = self.run_program("verify", self.out, "--json", exit_code=DIFFERENCES)
        self.assertEqual(len(json.loads(done.stdout)["differences"]), 1)

    def test_a_folder_without_manifest_is_refused(self):
        done = self.run_program("verify", SAMPLE, exit_code=REFUSED)
        self.assertIn("shardkit_manifest.json", done.stderr)

    def test_a_moved_folder_is_still_as_written(self):
        self.merge(SAMPLE)
        shutil.move(self.out, self.folder / "elsewhere")
        self.run_program("verify", self.folder / "elsewhere", exit_code=DONE)


if __name__ == "__main__":
    unittest.main()
