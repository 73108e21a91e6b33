"""--base_model_dir, and what config.json implies without it: told or refused before a byte is written."""
import json
import shutil
import unittest

import program
from program import DONE, FIXTURES, REFUSED, SAMPLE, USAGE, write_safetensors


class BaseModelTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.base = self.folder / "base"
        self.tensors = program.read_safetensors(SAMPLE / "expected.safetensors")

    def write_base(self, **config):
        write_safetensors(self.base / "model.safetensors", self.tensors)
        text = json.loads((SAMPLE / "huggingface" / "config.json").read_text())
        (self.base / "config.json").write_text(json.dumps({**text, **config}))

    def test_the_base_model_it_came_from(self):
        self.write_base()
        done = self.merge(SAMPLE, "--base_model_dir", self.base, "--strict-names")
        self.assertIn("27 of 27 tensors of the base model", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_missing_more_and_of_another_shape(self):
        del self.tensors["model.norm.weight"]
        self.tensors["mtp.0.weight"] = ("F32", [2], bytes(8))
        bias = "model.layers.0.self_attn.q_proj.bias"
        self.tensors[bias] = ("F32", [12], bytes(48))
        self.write_base(vocab_size=100)
        flags = ("--base_model_dir", self.base)
        done = self.merge(SAMPLE, *flags, "--json")
        base = json.loads(done.stdout)["base_model"]
        self.assertEqual((base["tensors"], base["same"]), (27, 25))
        self.assertEqual(base["missing"], ["mtp.0.weight"])
        self.assertEqual(base["extra"], ["model.norm.weight"])
        self.assertEqual(base["other_shape"], ["'%s': [24] against [12]" % bias])
        self.assertEqual(base["other_config"], ["vocab_size 99 against 100"])
        for text in ["warning: 25 of 27", "mtp.0.weight", "model.norm.weight", bias,
                     "vocab_size 99 against 100"]:
            self.assertIn(text, done.stderr)
        shutil.rmtree(self.out)
        self.assertIn("25 of 27", self.merge(SAMPLE, *flags, "--dry-run").stderr)
        self.assert_refused(SAMPLE, "25 of 27", "mtp.0.weight", flags=(*flags, "--strict-names"))

    def test_a_tied_tensor_is_not_missing(self):
        tied = FIXTURES / "torch-2.13.0" / "fsdp2_bf16_tied_w2"
        self.merge(tied)
        self.out.rename(self.base)
        self.merge(tied, "--base_model_dir", self.base, "--strict-names")

    def test_the_base_model_of_an_adapter(self):
        """Its clean names are compared, whatever of the merge is written."""
        case = FIXTURES / "torch-2.13.0" / "lora_bf16_w2"
        base = program.expected_tensors(case)
        write_safetensors(self.base / "model.safetensors", base)
        flags = ("--base_model_dir", self.base, "--strict-names", "--overwrite")
        for mode in ("adapter", "merge", "adapter-only"):
            done = self.merge(case, *flags, "--lora", mode)
            self.assertIn("27 of 27 tensors of the base model", done.stdout)
        del base["model.norm.weight"]
        base["mtp.0.weight"] = ("BF16", [2], bytes(4))
        write_safetensors(self.base / "model.safetensors", base)
        shutil.rmtree(self.out)
        self.assert_refused(case, "26 of 27", "1 missing: mtp.0.weight",
                            "1 more: model.norm.weight", flags=flags)
        done = self.merge(case, *flags[:2], "--lora", "merge")
        self.assertIn("warning: 26 of 27 tensors of the base model", done.stderr)

    def test_names_of_experts(self):
        for expert in range(3):
            self.tensors["model.layers.0.mlp.experts.%d.up_proj.weight" % expert] = (
                "F32", [1], bytes(4))
        self.write_base()
        done = self.merge(SAMPLE, "--base_model_dir", self.base)
        self.assertIn("0 of 3 of experts", done.stderr)

    def test_no_base_model_there(self):
        self.assert_refused(SAMPLE, str(self.base), flags=("--base_model_dir", self.base))
        self.assert_refused(SAMPLE, "--base-model-dir", flags=("--strict-names",),
                            exit_code=USAGE)

    def with_config(self, **changes):
        checkpoint = self.copy(name="checkpoint%d" % len(list(self.folder.iterdir())))
        path = checkpoint / "huggingface" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        return checkpoint

    def test_what_the_config_implies(self):
        for changes, texts in [
                ({"vocab_size": 100}, ["vocab_size 100", "[99, 24]", "model.embed_tokens.weight"]),
                ({"intermediate_size": 41}, ["[41, 24]", "[40, 24]"]),
                ({"num_key_value_heads": 2}, ["k_proj"])]:
            with self.subTest(**changes):
                checkpoint = self.with_config(**changes)
                self.assert_refused(checkpoint, *texts)
                self.assert_refused(checkpoint, *texts, flags=("--dry-run",))
                shown = self.run_program("inspect", checkpoint, exit_code=REFUSED).stdout
                for text in texts:
                    self.assertIn(text, shown)
        padded = self.merge(self.with_config(vocab_size=96))
        self.assertIn("99 rows", padded.stdout)
        moe = self.merge(self.with_config(num_experts=8), "--overwrite")
        self.assertIn("8 experts", moe.stderr)

    def test_a_head_that_is_neither_there_nor_tied(self):
        tied = FIXTURES / "torch-2.13.0" / "fsdp2_bf16_tied_w2"
        self.merge(tied, "--dtype", "keep")
        self.run_program("diff", tied, self.out, exit_code=DONE)
        checkpoint = self.copy(FIXTURES / "torch-2.13.0" / "critic_fp32_w4")
        path = checkpoint / "huggingface" / "config.json"
        path.write_text(path.read_text().replace("ForTokenClassification", "ForCausalLM"))
        self.merge(checkpoint, "--overwrite")  # its score.weight is a head of its own


if __name__ == "__main__":
    unittest.main()
