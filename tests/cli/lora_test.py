"""What a merge makes of a checkpoint with a LoRA adapter, and what it refuses."""
import json
import math
import shutil
import struct
import unittest
import zipfile

import program
from program import FIXTURES, REFUSED, USAGE

CASE = FIXTURES / "torch-2.13.0" / "lora_bf16_w2"
PREFIX = "base_model.model."
STORED = program.read_safetensors(CASE / "expected.safetensors")
META = {"r": 4, "lora_alpha": 16, "task_type": "CAUSAL_LM"}


def bfloat16s(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def nearest_bfloat16(value):
    """Of a float64, to nearest even; what rounding to float32 first may change is not tested."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


def folded(w, a, b, scale):
    """W + scale * B A in float64, as the nearest bfloat16."""
    (rank, width), height = a[1], b[1][0]
    w, a, b = (bfloat16s(t[2]) for t in (w, a, b))
    return [nearest_bfloat16(w[i * width + j] + scale * math.fsum(
        b[i * rank + k] * a[k * width + j] for k in range(rank)))
        for i in range(height) for j in range(width)]


class LoraTest(program.ProgramTest):
    def with_meta(self, **members):
        """A copy of the case whose lora_train_meta.json says this; without members: no such file."""
        case = self.copy(CASE)
        path = case / "lora_train_meta.json"
        path.unlink()
        if members:
            path.write_text(json.dumps(members))
        return case

    def adapter(self):
        folder = self.out / "lora_adapter"
        return (program.read_safetensors(folder / "adapter_model.safetensors"),
                json.loads((folder / "adapter_config.json").read_text()))

    def test_by_default_the_adapter_stands_beside_the_base_model(self):
        done = self.merge(CASE)
        self.assertIn("--lora merge folds it", done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual(program.read_model(self.out), program.expected_tensors(CASE))
        tensors, config = self.adapter()
        self.assertEqual(tensors, {name.replace(".default", ""): tensor for name, tensor
                                   in STORED.items() if "lora_" in name})
        self.assertEqual((config["r"], config["lora_alpha"], config["task_type"], config["peft_type"]),
                         (4, 16, "CAUSAL_LM", "LORA"))
        self.assertEqual(config["target_modules"], ["q_proj", "v_proj"])

    def test_merge_folds_with_one_rounding(self):
        done = self.merge(CASE, "--lora", "merge")
        self.assertIn("folded into 4 weights: rank 4, lora_alpha 16 (lora_train_meta.json)", done.stdout)
        self.assertFalse((self.out / "lora_adapter").exists())
        found, expected = program.read_model(self.out), program.expected_tensors(CASE)
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in found.items():
            module = PREFIX + name.removesuffix(".weight")
            if module + ".lora_A.default.weight" not in STORED:
                self.assertEqual(tensor, expected[name])
                continue
            want = folded(expected[name], STORED[module + ".lora_A.default.weight"],
                          STORED[module + ".lora_B.default.weight"], 16 / 4)
            self.assertEqual(bfloat16s(tensor[2]), want, name)
            self.assertNotEqual(tensor, expected[name])

    def test_adapter_only(self):
        self.merge(CASE, "--lora", "adapter-only")
        self.assertEqual(sorted(p.name for p in self.out.iterdir()),
                         ["lora_adapter", "shardkit_manifest.json"])
        self.run_program("verify", self.out, "--local_dir", CASE, exit_code=0)

    def test_json_and_inspect_tell_of_the_adapter(self):
        expected = {"adapter": "default", "modules": 4, "ranks": [4], "lora_alpha": 16.0,
                    "lora_alpha_from": "lora_train_meta.json", "rslora": False, "dora": False,
                    "target_modules": ["q_proj", "v_proj"], "modules_to_save": []}
        done = self.merge(CASE, "--lora", "merge", "--json")
        self.assertEqual(json.loads(done.stdout)["lora"], {"mode": "merge", **expected})
        self.assertEqual(json.loads(done.stdout)["folds"], 4)
        manifest = json.loads((self.out / "shardkit_manifest.json").read_text())
        self.assertEqual(manifest["lora"], {"mode": "merge", **expected})
        inspected = json.loads(self.run_program("inspect", CASE, "--json", exit_code=0).stdout)
        self.assertEqual(inspected["lora"], {"mode": "adapter", **expected})
        self.assertIn("4 modules of rank 4, lora_alpha 16 (lora_train_meta.json), on q_proj, v_proj",
                      self.run_program("inspect", CASE, exit_code=0).stdout)

    def test_verify_folds_again(self):
        for flags in ([], ["--lora", "merge", "--overwrite"],
                      ["--lora", "merge", "--overwrite", "--lora-alpha", "16"]):
            self.merge(CASE, *flags)
            self.run_program("verify", self.out, "--local_dir", CASE, exit_code=0)

    def test_an_unknown_alpha_is_never_guessed(self):
        for members in ({}, {"r": 4}, {"r": 4, "lora_alpha": 0}, {"r": 4, "lora_alpha": None}):
            case = self.with_meta(**members)
            self.assert_refused(case, "lora_alpha is not known", "--lora-alpha",
                                flags=["--lora", "merge"])
            done = self.merge(case, "--quiet")
            self.assertRegex(done.stderr, "warning: lora_alpha is not known.*null")
            self.assertIsNone(self.adapter()[1]["lora_alpha"])
            self.merge(case, "--overwrite", "--lora-alpha", "2.5")
            self.assertEqual(self.adapter()[1]["lora_alpha"], 2.5)
            self.merge(case, "--overwrite", "--lora", "merge", "--lora-alpha", "16")
            told = program.read_model(self.out)
            self.merge(CASE, "--overwrite", "--lora", "merge")
            self.assertEqual(told, program.read_model(self.out))
            shutil.rmtree(self.out)
            shutil.rmtree(case)

    def test_what_contradicts_itself_is_refused(self):
        self.assert_refused(self.with_meta(**{**META, "r": 8}), "another rank", "expected 8, found 4",
                            flags=["--lora", "merge"])
        case = self.folder / "checkpoint"
        self.assert_refused(case, "another rank")
        (case / "lora_train_meta.json").write_text(json.dumps(META))
        self.assert_refused(case, "two sources disagree on lora_alpha", "--lora-alpha",
                            flags=["--lora-alpha", "8"])
        config = {"peft_type": "LORA", "r": 4, "lora_alpha": 32}
        (case / "adapter_config.json").write_text(json.dumps(config))
        self.assert_refused(case, "two sources disagree on lora_alpha", "32", "16")
        config.update(lora_alpha=16, use_dora=True)
        (case / "adapter_config.json").write_text(json.dumps(config))
        self.assert_refused(case, "use_dora", "q_proj")
        (case / "adapter_config.json").write_text("{")
        self.assert_refused(case, "adapter_config.json")

    def test_what_cannot_be_folded_is_refused_by_name(self):
        case = self.copy(CASE)
        for option, value in [("use_qalora", True), ("target_parameters", ["w"]),
                              ("layer_replication", [[0, 1]]), ("alora_invocation_tokens", [1])]:
            (case / "adapter_config.json").write_text(json.dumps({"r": 4, option: value}))
            self.assert_refused(case, option, flags=["--lora", "merge"])
        (case / "adapter_config.json").write_text('{"r": 4, "alpha_pattern": {"(q|v)_proj": 4}}')
        self.assert_refused(case, "(q|v)_proj", flags=["--lora", "merge"])
        (case / "adapter_config.json").write_text('{"peft_type": "IA3"}')
        self.assert_refused(case, "IA3")

    def test_rslora_and_patterns_change_the_scale(self):
        case = self.with_meta()
        config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": True,
                  "alpha_pattern": {"v_proj": 32}}
        (case / "lora_adapter").mkdir()
        (case / "lora_adapter" / "adapter_config.json").write_text(json.dumps(config))
        self.merge(case, "--lora", "merge")
        found = program.read_model(self.out)
        for leaf, scale in (("q_proj", 8 / 2), ("v_proj", 32 / 2)):
            name = "model.layers.1.self_attn." + leaf
            want = folded(STORED[PREFIX + name + ".base_layer.weight"],
                          STORED[PREFIX + name + ".lora_A.default.weight"],
                          STORED[PREFIX + name + ".lora_B.default.weight"], scale)
            self.assertEqual(bfloat16s(found[name + ".weight"][2]), want)

    def test_the_adapters_files_may_lie_in_any_of_several_folders(self):
        """Rank 0 wrote them, and its host's folder need not come first."""
        config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": True}
        for where, text in (("lora_adapter/adapter_config.json", config),
                            ("lora_train_meta.json", META)):
            hosts = [self.folder / "host0", self.folder / "host1"]
            for rank, host in enumerate(hosts):
                host.mkdir()
                shutil.copy(CASE / ("model_world_size_2_rank_%d.pt" % rank), host)
            shutil.copytree(CASE / "huggingface", hosts[0] / "huggingface")
            path = hosts[0] / where
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(text))
            models = []
            for first, second in (hosts, hosts[::-1]):
                done = self.run_program("merge", "--local_dir", first, "--local_dir", second,
                                        "--target_dir", self.out, "--lora", "merge", "--overwrite",
                                        exit_code=program.DONE)
                self.assertIn("lora_alpha %d (%s)" % (text["lora_alpha"], path.name), done.stdout)
                models.append(program.read_model(self.out))
            self.assertEqual(models[0], models[1])
            for host in hosts:
                shutil.rmtree(host)

    def test_a_stage_of_another_choice_is_not_taken_up(self):
        """Folded weights have the same names and sizes, whatever alpha is."""
        case = self.with_meta()
        first = self.merge(case, "--lora", "merge", "--lora-alpha", "4", "--json")
        second = self.merge(case, "--lora", "merge", "--lora-alpha", "16", "--json", "--overwrite")
        self.assertEqual(json.loads(first.stdout)["weights"], json.loads(second.stdout)["weights"])
        self.merge(CASE, "--lora", "merge", "--overwrite")
        self.run_program("verify", self.out, "--local_dir", CASE, exit_code=0)

    def test_diff_compares_the_adapters_of_both(self):
        """The base model does not change while an adapter is trained."""
        case = self.copy(CASE)
        path = case / "model_world_size_2_rank_0.pt"
        with zipfile.ZipFile(path) as source:
            records = [(i.filename, source.read(i)) for i in source.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for name, data in records:
                if name.endswith("/data/5"):  # layer 0, q_proj, lora_B
                    data = b"\x80\x3f" + data[2:]
                target.writestr(zipfile.ZipInfo(name), data)
        done = self.run_program("diff", CASE, case, exit_code=program.DIFFERENCES)
        self.assertIn("34 of 35 tensors equal", done.stdout)
        self.assertIn("'%smodel.layers.0.self_attn.q_proj.lora_B.weight': 1 of" % PREFIX, done.stdout)
        self.assertNotIn("without its adapter", done.stdout)
        self.assertIn("35 of 35", self.run_program("diff", CASE, CASE, exit_code=0).stdout)
        self.merge(CASE)
        done = self.run_program("diff", case, self.out, exit_code=0)
        self.assertIn("27 of 27", done.stdout)
        self.assertIn("the base model is compared, without its adapter ('default': 4 modules", done.stdout)

    def test_options_without_an_adapter_are_refused(self):
        for flags in (["--lora", "merge"], ["--lora", "adapter-only"], ["--adapter", "actor"],
                      ["--lora-alpha", "4"]):
            self.assert_refused(program.SAMPLE, "holds no LoRA tensors", flags=flags, exit_code=USAGE)
        self.assert_refused(CASE, "no adapter of this name", "'default'", "actor",
                            flags=["--adapter", "actor"], exit_code=REFUSED)
        for flags in (["--lora", "fold"], ["--lora-alpha", "0"], ["--lora-alpha", "-1"]):
            self.merge(CASE, *flags, exit_code=USAGE)

    def test_another_adapters_files_do_not_come_along(self):
        """With adapter_config.json beside a model, transformers takes it for an adapter."""
        case = self.copy(CASE)
        (case / "huggingface" / "adapter_config.json").write_text('{"r": 4, "lora_alpha": 16}')
        self.merge(case, "--lora", "merge")
        self.assertFalse((self.out / "adapter_config.json").exists())


if __name__ == "__main__":
    unittest.main()
