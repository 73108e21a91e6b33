"""What a merge takes, does and says when all is well."""
import json
import os
import shutil
import unittest

import program
from program import FIXTURES, IO, SAMPLE, USAGE


class MergeTest(program.ProgramTest):
    def assert_is_sample(self, folder, dtype="BF16"):
        tensors = program.read_model(folder)
        expected = program.expected_tensors(SAMPLE)
        self.assertEqual(sorted(tensors), sorted(expected))
        self.assertEqual({t[0] for t in tensors.values()}, {dtype})
        if dtype == "F32":
            self.assertEqual(tensors, expected)

    # ---- flags ----

    def test_default_target_is_tmp(self):
        self.run_program("merge", "--backend", "fsdp", "--local_dir", SAMPLE, exit_code=0)
        self.assertEqual(os.listdir(self.folder), ["tmp"])
        self.assert_is_sample(self.folder / "tmp")

    def test_spelling_of_verl_and_with_dashes(self):
        self.run_program("merge", "--backend=fsdp", "--local-dir", SAMPLE, "--target-dir", self.out,
                         "--hf-model-config-path", SAMPLE / "huggingface", exit_code=0)
        self.assert_is_sample(self.out)

    def test_flags_that_verl_scripts_pass_are_taken(self):
        self.merge(SAMPLE, "--hf_model_config_path", SAMPLE / "huggingface", "--trust-remote-code",
                   "--tie-word-embedding", "--is-value-model", "--use_cpu_initialization")
        self.assert_is_sample(self.out)

    def test_backend_is_fsdp_by_default_or_asked_for(self):
        done = self.run_program("merge", "--local_dir", SAMPLE, "--target_dir", self.out)
        self.assertIn(done.returncode, (0, USAGE))
        if done.returncode:
            self.assertIn("--backend", done.stderr)

    def test_megatron_is_refused_by_name(self):
        done = self.run_program("merge", "--backend", "megatron", "--local_dir", SAMPLE,
                                "--target_dir", self.out)
        self.assertIn(done.returncode, (2, 3))
        self.assertIn("megatron", done.stderr)
        self.assertFalse(self.out.exists())

    def test_usage_errors(self):
        merge = ["merge", "--backend", "fsdp", "--local_dir", SAMPLE, "--target_dir", self.out]
        for arguments, text in [
                ([], ""), (["frobnicate"], "frobnicate"), (["merge"], "local"),
                (merge + ["--no-such-flag"], "no-such-flag"), (merge + ["extra"], "extra"),
                (merge + ["--dtype", "int8"], "int8"),
                (merge[:-1] + [""], "--target-dir is empty"),
                (merge + ["--max-shard-size", "5 bananas"], "5 bananas"),
                (merge + ["--max-shard-size", "0"], "shard"),
                (merge + ["--memory-budget", "lots"], "lots"),
                (merge + ["--memory-budget", "1KB"], "budget"),
                (merge + ["--threads", "many"], "many"), (merge + ["--threads", "-1"], "threads"),
                (merge + ["--replicas", "last"], "last"),
                (merge + ["--plain-tensors", "guess"], "guess"), (["inspect"], "")]:
            with self.subTest(arguments=[a for a in arguments if a not in merge] or arguments):
                shutil.rmtree(self.out, ignore_errors=True)
                done = self.run_program(*arguments, exit_code=USAGE)
                self.assertIn(text, done.stderr)
                self.assertFalse(self.out.exists())
                self.assertEqual(done.stdout, "")

    def test_help_and_version(self):
        for arguments in (["--help"], ["merge", "--help"], ["inspect", "--help"]):
            done = self.run_program(*arguments, exit_code=0)
            self.assertIn("--help", done.stdout)
            self.assertEqual(done.stderr, "")
        text = self.run_program("merge", "--help").stdout
        for flag in ["--backend", "--local_dir", "--target_dir", "--hf_model_config_path", "--dtype",
                     "--max-shard-size", "--threads", "--memory-budget", "--overwrite", "--quiet",
                     "--json", "--replicas", "--plain-tensors", "--keep-tied", "--no-fsync", "--keep-dtype",
                     "--dry-run", "--lora", "--lora-alpha", "--adapter", "--base_model_dir"]:
            self.assertIn(flag.replace("_", "-"), text.replace("_", "-"))
        self.assertRegex(self.run_program("--version", exit_code=0).stdout,
                         r"^shardkit \d+\.\d+\.\d+\n$")

    # ---- what is written ----

    def test_dtypes(self):
        for flags, dtype in [((), "BF16"), (("--dtype", "bfloat16"), "BF16"),
                             (("--dtype", "float16"), "F16"), (("--dtype", "float32"), "F32"),
                             (("--dtype", "keep"), "F32"), (("--dtype", "auto"), "F32")]:
            with self.subTest(flags=flags):
                self.merge(SAMPLE, "--overwrite", *flags)
                self.assert_is_sample(self.out, dtype)

    def test_folder_is_whole(self):
        self.merge(SAMPLE)
        self.assertEqual(sorted(os.listdir(self.out)),
                         ["config.json", "generation_config.json", "model.safetensors",
                          "shardkit_manifest.json"])
        config = json.loads((self.out / "config.json").read_text())
        before = json.loads((SAMPLE / "huggingface" / "config.json").read_text())
        self.assertEqual(config, {**before, "torch_dtype": "bfloat16"})
        self.assertEqual(os.listdir(self.folder), ["out"])

    def test_sidecars_are_copied_but_no_weights(self):
        checkpoint = self.copy()
        hf = checkpoint / "huggingface"
        (hf / "sub").mkdir()
        (hf / "sub" / "code.py").write_bytes(b"print('\xc3\xa9')\r\n")
        (hf / "tokenizer.json").write_bytes(bytes(range(256)))
        for weights in ["model.safetensors", "model-00001-of-00002.safetensors", "pytorch_model.bin",
                        "model.safetensors.index.json", "pytorch_model.bin.index.json"]:
            (hf / weights).write_text("old weights")
        self.merge(checkpoint)
        self.assertEqual((self.out / "sub" / "code.py").read_bytes(), b"print('\xc3\xa9')\r\n")
        self.assertEqual((self.out / "tokenizer.json").read_bytes(), bytes(range(256)))
        self.assertEqual(sorted(os.listdir(self.out)),
                         ["config.json", "generation_config.json", "model.safetensors",
                          "shardkit_manifest.json", "sub", "tokenizer.json"])
        self.assert_is_sample(self.out)

    def test_another_config_folder(self):
        other = self.folder / "config"
        other.mkdir()
        (other / "config.json").write_text('{"dtype": "float32", "model_type": "other"}')
        self.merge(SAMPLE, "--hf_model_config_path", other)
        self.assertEqual((self.out / "config.json").read_text(),
                         '{"dtype": "bfloat16", "model_type": "other"}')
        self.assertFalse((self.out / "generation_config.json").exists())

    def test_no_huggingface_folder_is_a_warning(self):
        checkpoint = self.copy()
        shutil.rmtree(checkpoint / "huggingface")
        done = self.merge(checkpoint)
        self.assertIn("warning", done.stderr.lower())
        self.assertEqual(sorted(os.listdir(self.out)), ["model.safetensors", "shardkit_manifest.json"])

    def test_shards(self):
        self.merge(SAMPLE, "--dtype", "keep", "--max-shard-size", "20KB")
        names = sorted(p.name for p in self.out.glob("*.safetensors"))
        self.assertEqual(names, ["model-%05d-of-00004.safetensors" % (i + 1) for i in range(4)])
        self.assertEqual(program.read_model(self.out), program.expected_tensors(SAMPLE))
        index = json.loads((self.out / "model.safetensors.index.json").read_text())
        total = sum(len(t[2]) for t in program.expected_tensors(SAMPLE).values())
        self.assertEqual(index["metadata"], {"total_parameters": total // 4, "total_size": total})

    def test_tied(self):
        case = FIXTURES / "torch-2.13.0" / "fsdp2_bf16_tied_w2"
        self.merge(case)
        self.assertNotIn("lm_head.weight", program.read_model(self.out))
        self.merge(case, "--keep-tied", "--overwrite")
        self.assertEqual(program.read_model(self.out),
                         program.read_safetensors(case / "expected.safetensors"))

    def test_entries_that_are_no_tensors_are_listed(self):
        done = self.merge(FIXTURES / "torch-2.13.0" / "buffers_mixed_w4")
        self.assertIn("_extra_state", done.stdout + done.stderr)

    def test_threads_and_budget_do_not_change_the_bytes(self):
        self.merge(SAMPLE, "--threads", "1")
        alone = (self.out / "model.safetensors").read_bytes()
        for flags in [("--threads", "7"), ("--memory-budget", "16MiB"),
                      ("--threads", "3", "--memory-budget", "64MB")]:
            self.merge(SAMPLE, "--overwrite", *flags)
            self.assertEqual((self.out / "model.safetensors").read_bytes(), alone)

    def test_without_fsync_the_same_is_written(self):
        self.merge(SAMPLE)
        synced = program.snapshot(self.out)
        self.merge(SAMPLE, "--overwrite", "--no-fsync")
        unsynced = program.snapshot(self.out)
        self.assertEqual({name: digest for name, (_, digest) in synced.items()},
                         {name: digest for name, (_, digest) in unsynced.items()})

    def test_a_dry_run_says_what_a_merge_would_do_and_writes_nothing(self):
        planned = json.loads(self.merge(SAMPLE, "--dry-run", "--json").stdout)
        self.assertEqual(list(self.folder.iterdir()), [])
        done = json.loads(self.merge(SAMPLE, "--json").stdout)
        self.assertEqual((planned.pop("status"), done.pop("status")), ("planned", "ok"))
        self.assertEqual(planned, done)
        text = self.merge(SAMPLE, "--dry-run", "--overwrite").stdout
        self.assertIn("would merge %d tensors of 4 ranks" % done["tensors"], text)
        self.assertIn("plan proven: %d pieces" % done["pieces"], text)

    def test_a_dry_run_refuses_what_a_merge_refuses(self):
        self.out.mkdir()
        (self.out / "mine").write_text("keep me")
        self.assert_refused(SAMPLE, "--overwrite", flags=("--dry-run",),
                            exit_code=self.refusal_code())

    # ---- output on the streams ----

    def test_json_is_one_document_on_stdout(self):
        done = self.merge(SAMPLE, "--json")
        self.assertIn(str(self.out), done.stdout)
        self.assertEqual(json.loads(done.stdout)["meshes"],
                         ["27 tensors as [S(0)] on 4 (fsdp) of ranks 0-3: 4 shards"])

    def test_quiet_says_nothing(self):
        done = self.merge(SAMPLE, "--quiet")
        self.assertEqual((done.stdout, done.stderr), ("", ""))

    def test_no_control_characters_off_a_terminal(self):
        done = self.merge(SAMPLE)
        self.assertNotIn("\r", done.stdout + done.stderr)
        self.assertNotIn("\x1b", done.stdout + done.stderr)

    # ---- the target ----

    def test_a_full_target_is_refused_and_kept(self):
        self.out.mkdir()
        (self.out / "mine").write_text("keep me")
        self.assert_refused(SAMPLE, "--overwrite", str(self.out), exit_code=self.refusal_code())
        self.merge(SAMPLE, "--overwrite")
        self.assertFalse((self.out / "mine").exists())
        self.assert_is_sample(self.out)

    def refusal_code(self):
        """Whether a full target counts as usage or as refused input is the program's to say."""
        code = self.run_program("merge", "--backend", "fsdp", "--local_dir", SAMPLE, "--target_dir",
                                self.out).returncode
        self.assertIn(code, (2, 3))
        return code

    def test_an_empty_target_is_used(self):
        self.out.mkdir()
        self.merge(SAMPLE)
        self.assert_is_sample(self.out)

    def test_a_target_below_a_folder_that_is_not_there(self):
        self.run_program("merge", "--backend", "fsdp", "--local_dir", SAMPLE, "--target_dir",
                         "a/b/out", exit_code=0)
        self.assert_is_sample(self.folder / "a" / "b" / "out")

    def test_a_target_that_cannot_be_made_is_an_io_error(self):
        self.out = self.folder / ("n" * 300)  # longer than any file system takes
        done = self.merge(SAMPLE, exit_code=IO)
        self.assertIn("nnn", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_target_below_a_file(self):
        (self.folder / "file").write_text("")
        done = self.run_program("merge", "--backend", "fsdp", "--local_dir", SAMPLE, "--target_dir",
                                self.folder / "file" / "out", exit_code=USAGE)
        self.assertIn(str(self.folder / "file"), done.stderr)
        self.assertEqual(os.listdir(self.folder), ["file"])

    def test_never_over_its_own_input(self):
        checkpoint = self.copy()
        before = program.snapshot(checkpoint)
        for target in (checkpoint, checkpoint / "huggingface", checkpoint.parent):
            with self.subTest(target=target):
                done = self.run_program("merge", "--backend", "fsdp", "--local_dir", checkpoint,
                                        "--target_dir", target, "--overwrite")
                self.assertEqual(program.snapshot(checkpoint), before)
                self.assertIn(done.returncode, (2, 3), done.stderr)


class DiscoveryTest(program.ProgramTest):
    def make_run(self, steps=(10, 20), roles=("actor",)):
        run = self.folder / "run"
        for step in steps:
            for role in roles:
                shutil.copytree(SAMPLE, run / ("global_step_%d" % step) / role)
        return run

    def test_every_level_of_a_run(self):
        run = self.make_run()
        (run / "latest_checkpointed_iteration.txt").write_text("20")
        for path in (run, run / "global_step_10", run / "global_step_20" / "actor"):
            with self.subTest(path=path):
                self.merge(path, "--overwrite")
                self.assertEqual(len(program.read_model(self.out)), 27)

    def test_latest_step_is_obeyed(self):
        run = self.make_run()
        (run / "latest_checkpointed_iteration.txt").write_text("10\n")
        done = self.merge(run)
        self.assertIn("global_step_10", done.stdout + done.stderr)
        shutil.rmtree(run / "global_step_10")
        self.out = self.folder / "other"
        self.assert_refused(run, "global_step_10")

    def test_several_steps_without_a_rule(self):
        run = self.make_run()
        self.assert_refused(run, "global_step_10", "global_step_20", exit_code=self.choice_code(run))

    def test_several_roles_without_a_rule(self):
        run = self.make_run(steps=(5,), roles=("critic", "reward"))
        step = run / "global_step_5"
        self.assert_refused(step, "critic", "reward", exit_code=self.choice_code(step))

    def choice_code(self, path):
        code = self.run_program("merge", "--backend", "fsdp", "--local_dir", path, "--target_dir",
                                self.out).returncode
        self.assertIn(code, (2, 3))
        return code

    def test_world_size_from_file_names(self):
        checkpoint = self.copy()
        (checkpoint / "fsdp_config.json").unlink()
        done = self.merge(checkpoint)
        self.assertIn("fsdp_config.json", done.stdout + done.stderr)
        self.assertEqual(len(program.read_model(self.out)), 27)


if __name__ == "__main__":
    unittest.main()
