"""`merge --launched`: processes that a launcher has started share a merge."""
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
import unittest

import large_merge
import program
from large_merge import BLOCKS, RECORD

sys.path.insert(0, str(program.ROOT / "tests" / "launch"))
import ports  # noqa: E402
from launchers import (MPIRUN, clean_environment, has_mpirun, needs,  # noqa: E402
                       needs_torchrun)

LORA = program.FIXTURES / "torch-2.13.0" / "lora_bf16_w2"
SECONDS = 60


def content_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


class LaunchedTest(program.ProgramTest):
    def command(self, checkpoint, *flags):
        return [program.PROGRAM, "merge", "--launched", "--backend", "fsdp", "--local_dir",
                str(checkpoint), "--target_dir", str(self.out), *flags]

    def start(self, size, checkpoint, *flags, folders=None):
        """The processes, as torchrun would start them; `folders`: where each of them runs."""
        port = str(ports.free_port())
        processes = []
        for rank in range(size):
            processes.append(subprocess.Popen(
                self.command(checkpoint, *flags), cwd=folders[rank] if folders else self.folder,
                env=clean_environment(RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=port,
                                      MASTER_ADDR="localhost", GLOO_SOCKET_IFNAME="lo"),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        self.addCleanup(self.end, processes)
        return processes

    def end(self, processes):
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def wait(self, processes):
        """(exit code, standard output, standard error) of each."""
        ended = []
        for process in processes:
            out, err = process.communicate(timeout=SECONDS)
            ended.append((process.returncode, out, err))
        return ended

    def merge_launched(self, size, checkpoint, *flags, exit_code=program.DONE, folders=None):
        ended = self.wait(self.start(size, checkpoint, *flags, folders=folders))
        for code, out, err in ended:
            self.assertEqual(code, exit_code, "stdout: %s\nstderr: %s" % (out, err))
        return ended

    def expected(self, checkpoint, *flags):
        """The bytes of a merge by one process."""
        target = self.folder / "expected"
        self.run_program("merge", "--backend", "fsdp", "--local_dir", checkpoint, "--target_dir",
                         target, *flags, exit_code=program.DONE)
        return content_of(target)


class SmallTest(LaunchedTest):
    def test_the_bytes_of_one_process_and_one_that_speaks(self):
        expected = self.expected(program.SAMPLE)
        for size in (1, 2, 4):
            ended = self.merge_launched(size, program.SAMPLE)
            self.assertEqual(content_of(self.out), expected)
            self.assertIn("merged 27 tensors of 4 ranks", ended[0][1])
            for _, out, err in ended[1:]:
                self.assertEqual((out, err), ("", ""))
            shutil.rmtree(self.out)
            self.expect_no_leftover()

    def test_every_host_has_the_files_of_its_own_ranks(self):
        expected = self.expected(program.SAMPLE)
        for size in (2, 4):
            hosts = [self.folder / ("host%d_of_%d" % (rank, size)) for rank in range(size)]
            for rank, host in enumerate(hosts):
                (host / "checkpoint").mkdir(parents=True)
                for path in program.SAMPLE.iterdir():
                    name = path.name
                    if name.endswith(".pt"):
                        if int(name[:-len(".pt")].rsplit("_", 1)[1]) % size == rank:
                            shutil.copy2(path, host / "checkpoint")
                    elif rank == size - 1 and path.is_dir():
                        shutil.copytree(path, host / "checkpoint" / name)
                    elif rank == size - 1 and not name.startswith("expected"):
                        shutil.copy2(path, host / "checkpoint")
            self.merge_launched(size, "checkpoint", folders=hosts)
            self.assertEqual(content_of(self.out), expected)
            shutil.rmtree(self.out)

    def test_an_adapter_folded_in(self):
        expected = self.expected(LORA, "--lora", "merge")
        self.merge_launched(2, LORA, "--lora", "merge")
        self.assertEqual(content_of(self.out), expected)

    def test_dry_run_and_json(self):
        ended = self.merge_launched(2, program.SAMPLE, "--dry-run", "--json")
        self.assertEqual(json.loads(ended[0][1])["status"], "planned")
        self.assertEqual(ended[1][1], "")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_one_refuses_all_refuse(self):
        checkpoint = self.copy()
        (checkpoint / "model_world_size_4_rank_2.pt").unlink()
        for _, _, err in self.merge_launched(3, checkpoint, exit_code=program.REFUSED):
            self.assertIn("missing: 2", err)
        self.out.mkdir()
        (self.out / "file").write_text("x")
        for _, _, err in self.merge_launched(2, program.SAMPLE, exit_code=program.USAGE):
            self.assertIn("rank 0: the target folder is not empty", err)

    def test_without_the_flag_a_launchers_variables_mean_nothing(self):
        self.merge(program.SAMPLE, env=clean_environment(RANK="0", WORLD_SIZE="2"))
        self.assertTrue((self.out / "model.safetensors").exists())

    def test_the_flag_without_a_launcher(self):
        done = self.merge(program.SAMPLE, "--launched", exit_code=program.REFUSED,
                          env=clean_environment())
        self.assertIn("no launcher has started this process", done.stderr)
        self.assertFalse(self.out.exists())

    def launch(self, *command, **variables):
        expected = self.expected(program.SAMPLE)
        done = subprocess.run([*command, *self.command(program.SAMPLE)], cwd=self.folder,
                              env=clean_environment(**variables), capture_output=True, text=True,
                              timeout=SECONDS)
        self.assertEqual(done.returncode, program.DONE, done.stderr)
        self.assertEqual(content_of(self.out), expected)
        self.assertEqual(done.stdout.count("merged 27 tensors"), 1)

    @needs(has_mpirun(), "mpirun of Open MPI")
    def test_mpirun(self):
        self.launch("mpirun", "-n", "3", **MPIRUN)

    @needs_torchrun
    def test_torchrun(self):
        self.launch("torchrun", "--standalone", "--nproc-per-node", "3", "--no-python")


class InterruptedTest(large_merge.LargeMergeTest, LaunchedTest):
    """A merge of some 200 MB by several processes, one of which is lost or stopped on the way."""

    RANKS = 4

    def start_and_stop(self, size):
        """Processes that stand still (SIGSTOP) when a few of all blocks are written."""
        for _ in range(20):
            processes = self.start(size, self.checkpoint, *self.flags())
            while all(process.poll() is None for process in processes):
                with contextlib.suppress(FileNotFoundError):
                    if self.journal.stat().st_size >= 2 * RECORD:
                        for process in processes:
                            process.send_signal(signal.SIGSTOP)
                        time.sleep(0.05)
                        if self.journal.stat().st_size < (BLOCKS - 5) * RECORD:
                            return processes
                        for process in processes:
                            process.send_signal(signal.SIGCONT)
                        break
                time.sleep(0.0005)
            self.wait(processes)
            shutil.rmtree(self.out)  # they were faster than this process
        self.fail("no merge could be stopped in time")

    def kill_one(self, size, rank):
        processes = self.start_and_stop(size)
        processes[rank].kill()
        for process in processes:
            process.send_signal(signal.SIGCONT)
        for other, (code, out, err) in enumerate(self.wait(processes)):
            if other == rank:
                self.assertEqual(code, -signal.SIGKILL)
            else:
                self.assertEqual(code, program.IO, err)
                self.assertIn("rank %d" % rank, err)
                self.assertEqual(out, "")
        self.assertFalse(self.out.exists())
        self.assertTrue(self.stage.exists())

    def expect_taken_up(self, out):
        self.assertIn("took up the stage of an earlier run", out)
        self.expect_complete()

    def test_a_rank_is_killed_and_others_take_up_what_is_written(self):
        self.kill_one(3, 2)
        self.expect_taken_up(self.merge_launched(2, self.checkpoint, *self.flags())[0][1])

    def test_rank_0_is_killed_and_one_process_takes_up_what_is_written(self):
        self.kill_one(2, 0)
        self.expect_taken_up(self.merge(self.checkpoint, *self.flags()).stdout)

    def test_a_signal_to_one_rank_leaves_nothing(self):
        for rank in (0, 1):
            processes = self.start_and_stop(2)
            processes[rank].send_signal(signal.SIGTERM)
            for process in processes:
                process.send_signal(signal.SIGCONT)
            ended = self.wait(processes)
            self.assertEqual(ended[rank][0], 128 + signal.SIGTERM, ended[rank][2])
            self.assertEqual(ended[1 - rank][0], 130, ended[1 - rank][2])
            for _, _, err in ended:
                self.assertIn("rank %d: stopped on request" % rank, err)
            self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
