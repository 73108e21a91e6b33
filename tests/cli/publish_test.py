"""How an output folder appears, on real disks and with real signals: docs/publish.md."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import large_merge
import program
from large_merge import BLOCKS, MIB, RECORD

NOBODY = 65534


class PublishTest(program.ProgramTest):
    def mount(self, folder, size):
        """A tmpfs of that size, where this process may mount."""
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "shardkit_test",
                               str(folder)], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("left out, for it may not mount: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", str(folder)], check=True)


class MountTest(PublishTest):
    def setUp(self):
        if shutil.which("mount") is None or os.geteuid() != 0:
            self.skipTest("left out: only root may mount")
        super().setUp()

    def test_free_space_is_looked_at_first(self):
        disk = self.folder / "disk"
        self.mount(disk, "1m")
        self.out = disk / "out"
        checkpoint = large_merge.write_checkpoint(self.folder / "checkpoint", 1, 1, 4 * MIB)
        done = self.merge(checkpoint, "--dtype", "keep", exit_code=program.IO)
        self.assertIn("not enough space", done.stderr)
        self.assertEqual(list(disk.iterdir()), [])

    def test_a_disk_that_is_full_though_the_bytes_would_fit(self):
        disk = self.folder / "disk"
        self.mount(disk, "1m")
        self.out = disk / "out"
        checkpoint = self.copy()
        for i in range(400):  # each takes a page
            (checkpoint / "huggingface" / ("%d.txt" % i)).write_text("x")
        before = program.snapshot(checkpoint)
        done = self.merge(checkpoint, exit_code=program.IO)
        self.assertIn("No space left on device", done.stderr)
        self.assertEqual(list(disk.iterdir()), [])
        self.assertEqual(program.snapshot(checkpoint), before)

    def test_a_target_that_is_a_mount_point(self):
        self.mount(self.out, "64m")
        self.merge(program.SAMPLE, "--dtype", "keep")
        self.assertTrue(os.path.ismount(self.out))
        self.assertEqual(program.read_model(self.out), program.expected_tensors(program.SAMPLE))
        self.expect_no_leftover()
        done = self.merge(program.SAMPLE, exit_code=program.USAGE)
        self.assertIn("--overwrite", done.stderr)
        (self.out / "sub").mkdir()
        (self.out / "sub" / "old.txt").write_text("old")
        (self.out / "tokenizer").write_text("a file where a folder was")
        self.merge(program.SAMPLE, "--overwrite", "--max-shard-size", "2KB")
        self.assertTrue(os.path.ismount(self.out))
        self.assertTrue((self.out / "model.safetensors.index.json").exists())
        self.assertFalse((self.out / "model.safetensors").exists())
        self.assertFalse((self.out / "sub").exists())
        self.assertEqual(len(program.read_model(self.out)), 27)
        self.merge(program.SAMPLE, "--overwrite", "--dtype", "keep", "--no-fsync")
        self.assertFalse((self.out / "model.safetensors.index.json").exists())
        self.assertEqual(program.read_model(self.out), program.expected_tensors(program.SAMPLE))
        self.expect_no_leftover()


class ReadOnlyParentTest(PublishTest):
    def test_a_target_whose_parent_is_read_only(self):
        parent = self.folder / "parent"
        self.out = parent / "out"
        self.out.mkdir(parents=True)
        self.folder.chmod(0o755)
        keywords = {}
        if os.geteuid() == 0:  # root writes everywhere
            os.chown(self.out, NOBODY, NOBODY)
            keywords["user"] = NOBODY
        parent.chmod(0o555)
        self.addCleanup(parent.chmod, 0o755)
        checkpoint = self.copy()
        try:
            self.run_program("--version", exit_code=program.DONE, **keywords)
        except PermissionError:
            self.skipTest("left out: another user may not run " + program.PROGRAM)
        self.merge(checkpoint, "--dtype", "keep", **keywords)
        self.assertEqual(program.read_model(self.out), program.expected_tensors(program.SAMPLE))
        self.merge(checkpoint, "--dtype", "keep", "--overwrite", "--max-shard-size", "2KB",
                   **keywords)
        self.assertEqual(program.read_model(self.out), program.expected_tensors(program.SAMPLE))
        self.assertFalse((self.out / "model.safetensors").exists())
        self.expect_no_leftover()
        self.out = parent / "new"
        done = self.merge(checkpoint, exit_code=program.IO, **keywords)
        self.assertIn("Permission denied", done.stderr)


class InterruptedTest(large_merge.LargeMergeTest):
    """A merge of some 200 MB that is stopped on the way."""

    def start_and_stop(self, *more):
        """A merge that stands still (SIGSTOP) when a few of its blocks are written."""
        for _ in range(20):
            running = subprocess.Popen(
                [program.PROGRAM, "merge", "--backend", "fsdp", "--local_dir", self.checkpoint,
                 "--target_dir", self.out, *self.flags(*more)], cwd=self.folder,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(running.stdout.close)
            self.addCleanup(running.stderr.close)
            while running.poll() is None:
                with contextlib.suppress(FileNotFoundError):
                    if self.journal.stat().st_size >= 2 * RECORD:
                        running.send_signal(signal.SIGSTOP)
                        os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                        size = self.journal.stat().st_size
                        if running.poll() is None and size < (BLOCKS - 5) * RECORD:
                            return running
                        running.send_signal(signal.SIGCONT)
                        break
                time.sleep(0.0005)
            running.wait()
            shutil.rmtree(self.out)  # it was faster than this process
        self.fail("no merge could be stopped in time")

    def kill(self):
        running = self.start_and_stop()
        running.kill()
        running.wait()
        self.assertFalse(self.out.exists())
        self.assertTrue(self.stage.exists())

    def test_the_same_command_goes_on_after_kill_9(self):
        self.kill()
        done = self.merge(self.checkpoint, *self.flags("--json"))
        notes = json.loads(done.stdout)["notes"]
        self.assertTrue(any("took up the stage" in note for note in notes), notes)
        self.expect_complete()

    def test_another_command_discards_what_kill_9_left(self):
        self.kill()
        done = self.merge(self.checkpoint, "--threads", "1", "--json")
        notes = json.loads(done.stdout)["notes"]
        self.assertTrue(any("was discarded" in note for note in notes), notes)
        self.expect_complete()

    def test_signals_leave_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            running = self.start_and_stop()
            running.send_signal(number)
            running.send_signal(signal.SIGCONT)
            running.wait(timeout=60)
            self.assertEqual(running.returncode, 128 + number, running.stderr.read())
            self.assertEqual(list(self.folder.iterdir()), [])
            self.assertEqual(program.snapshot(self.checkpoint), self.before)

    def test_of_two_mergers_one_is_told_who_is_at_work(self):
        running = self.start_and_stop()
        done = self.merge(self.checkpoint, *self.flags(), exit_code=program.IO)
        self.assertIn("another merge is writing this target", done.stderr)
        self.assertIn("process %d on " % running.pid, done.stderr)
        running.send_signal(signal.SIGCONT)
        self.assertEqual(running.wait(timeout=60), program.DONE)
        self.expect_complete()


if __name__ == "__main__":
    unittest.main()
