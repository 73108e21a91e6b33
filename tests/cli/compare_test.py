"""`test` and `diff`: checkpoints, model folders and files against each other."""
import argparse
import json
import shutil
import struct
import unittest

import program
import torch_file
from program import DIFFERENCES, DONE, FIXTURES, REFUSED, SAMPLE, USAGE, write_safetensors

NEW = FIXTURES / "torch-2.13.0"


def with_float32(data, position, value):
    return data[:4 * position] + struct.pack("<f", value) + data[4 * position + 4:]


class CompareTest(program.ProgramTest):
    def against(self, *flags, checkpoint=SAMPLE, reference=None, exit_code=DONE):
        return self.run_program("test", "--backend", "fsdp", "--local_dir", checkpoint,
                                "--test_hf_dir", reference or self.reference, *flags,
                                exit_code=exit_code)

    def diff(self, first, second, *flags, exit_code=DONE):
        return self.run_program("diff", first, second, *flags, exit_code=exit_code)

    def setUp(self):
        super().setUp()
        self.reference = self.folder / "reference"
        self.tensors = program.read_safetensors(SAMPLE / "expected.safetensors")

    def write_reference(self):
        write_safetensors(self.reference / "model.safetensors", self.tensors)

    def change(self, name, position, value):
        dtype, shape, data = self.tensors[name]
        self.tensors[name] = (dtype, shape, with_float32(data, position, value))

    def test_every_layout_equals_what_went_in(self):
        for case in ["fsdp2_fp32_w4", "hsdp_tp_fp32_w8", "fsdp1_shardedtensor_fp32_w4",
                     "tp_uneven_fp32_w12", "fsdp2_bf16_tied_w2", "dtypes_w2", "views_w2",
                     "buffers_mixed_w4", "placements_fp32_w4"]:
            with self.subTest(case=case):
                folder = NEW / case
                count = len(json.loads((folder / "expected.json").read_text())["tensors"])
                text = "%d of %d tensors equal" % (count, count)
                reference = folder / "expected.safetensors"
                self.assertIn(text, self.against(checkpoint=folder, reference=reference).stdout)
                self.assertIn(text, self.diff(folder, reference).stdout)

    def test_what_a_merge_wrote(self):
        for flags in [(), ("--max-shard-size", "20KB")]:
            self.merge(SAMPLE, "--overwrite", *flags)
            self.assertIn("27 of 27 tensors equal", self.against(reference=self.out).stdout)
        # As stored, float32 against bfloat16.
        self.assertIn("0 of 27", self.diff(SAMPLE, self.out, exit_code=DIFFERENCES).stdout)
        self.diff(SAMPLE, self.out, "--dtype", "bfloat16")

    def test_pytorch_model_bin(self):
        case = NEW / "formats_w1"
        rank = case / "model_world_size_1_rank_0.pt"
        self.reference.mkdir()
        shutil.copy(rank, self.reference / "pytorch_model.bin")
        self.assertIn("3 of 3", self.against(checkpoint=case).stdout)
        (self.reference / "pytorch_model.bin").rename(self.reference / "part.bin")
        index = self.reference / "pytorch_model.bin.index.json"
        names = program.read_safetensors(case / "expected.safetensors")
        index.write_text(json.dumps({"weight_map": {name: "part.bin" for name in names}}))
        self.assertIn("3 of 3", self.against(checkpoint=case).stdout)
        index.write_text(json.dumps({"weight_map": {"more": "part.bin"}}))
        self.assertIn("'more'", self.against(checkpoint=case, exit_code=REFUSED).stderr)
        self.assertIn("3 of 3", self.diff(rank, case / "formats" / "protocol5.pt").stdout)

    def torch_file(self, name, shapes, *values):
        path = self.folder / name
        torch_file.write(path, shapes, [struct.pack("<%df" % len(each), *each) for each in values])
        return path

    def test_a_training_checkpoint_in_one_file(self):
        model = {"w": (2,), "b": (1,)}
        both = {"epoch": {}, "model": model, "optimizer": {"state": {"w": {"exp_avg": (2,)}}}}
        first = self.torch_file("1.pt", both, (1, 2), (3,), (4, 5))
        second = self.torch_file("2.pt", both, (1, 2), (3,), (4, 6))
        done = self.diff(first, second, exit_code=DIFFERENCES)
        self.assertIn("2 of 3 tensors equal", done.stdout)
        self.assertIn("'optimizer.state.w.exp_avg': 1 of 2", done.stdout)
        alone = self.torch_file("3.pt", {"epoch": {}, "model": model}, (1, 2), (3,))
        flat = self.torch_file("4.pt", model, (1, 2), (3,))
        done = self.diff(alone, flat)
        self.assertIn("2 of 2 tensors equal", done.stdout)
        self.assertIn("the tensors under 'model'", done.stdout)

    def test_tensors_that_have_no_names(self):
        hidden = self.torch_file("hidden.pt", {"w": (1,), "state": argparse.Namespace(ema=(1,))},
                                 (1,), (2,))
        done = self.diff(hidden, hidden, exit_code=REFUSED)
        self.assertIn("tensors inside an object", done.stderr)
        self.assertIn("'state'", done.stderr)

    def test_nothing_does_not_equal_nothing(self):
        empty = self.torch_file("empty.pt", {"epoch": {}})
        self.assertIn("no tensors", self.diff(empty, empty, exit_code=REFUSED).stderr)

    def test_a_file_beside_an_index_is_what_transformers_loads(self):
        self.merge(SAMPLE, "--max-shard-size", "20KB", "--dtype", "keep")
        self.assertTrue((self.out / "model.safetensors.index.json").exists())
        self.change("model.norm.weight", 7, 50.0)
        write_safetensors(self.out / "model.safetensors", self.tensors)
        done = self.against("--dtype", "keep", reference=self.out, exit_code=DIFFERENCES)
        self.assertIn("26 of 27", done.stdout)
        self.assertIn("model.safetensors and model.safetensors.index.json: the first was taken",
                      done.stdout)

    def test_experts_as_they_are_in_memory(self):
        """What torch.save makes of model.state_dict() with transformers 5, against what it saves."""
        experts = "model.layers.0.mlp.experts."
        write_safetensors(self.out / "model.safetensors", {
            experts + "%d.%s_proj.weight" % (expert, part): ("F32", [1, 1], struct.pack("<f", value))
            for part, values in (("gate", (1, 3)), ("up", (2, 4)), ("down", (5, 6)))
            for expert, value in enumerate(values)})
        (self.out / "config.json").write_text(json.dumps(
            {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 2}))
        shapes = {experts + "gate_up_proj": (2, 2, 1), experts + "down_proj": (2, 1, 1)}
        held = self.torch_file("held.pt", shapes, (1, 2, 3, 4), (5, 6))
        done = self.diff(held, self.out)
        self.assertIn("6 of 6 tensors equal", done.stdout)
        self.assertIn("held.pt': as transformers saves this model: 6 tensors", done.stdout)
        other = self.torch_file("other.pt", shapes, (1, 2, 9, 4), (5, 6))
        done = self.diff(self.out, other, exit_code=DIFFERENCES)
        self.assertIn("5 of 6 tensors equal", done.stdout)
        self.assertIn("'%s1.gate_proj.weight'" % experts, done.stdout)
        self.assertIn("1 of 2 tensors equal", self.diff(held, other, exit_code=DIFFERENCES).stdout)

    def test_two_checkpoints_of_other_world_sizes(self):
        done = self.diff(SAMPLE, NEW / "hsdp_tp_fp32_w8")
        self.assertIn("27 of 27 tensors equal", done.stdout)
        self.assertIn("4 ranks", done.stdout)
        self.assertIn("8 ranks", done.stdout)

    def test_every_difference_the_largest_first(self):
        self.change("model.norm.weight", 7, 50.0)
        self.change("lm_head.weight", 97 * 24 + 5, 900.0)
        self.change("lm_head.weight", 98 * 24 + 1, float("nan"))
        self.change("model.embed_tokens.weight", 3, 700.0)
        del self.tensors["model.layers.1.mlp.up_proj.weight"]
        self.tensors["more.weight"] = ("F32", [1], bytes(4))
        bias = "model.layers.0.self_attn.q_proj.bias"
        self.tensors[bias] = ("F32", [2, 12], self.tensors[bias][2])
        scale = "model.layers.0.input_layernorm.weight"
        self.tensors[scale] = ("I32", [24], self.tensors[scale][2])
        self.write_reference()
        for threads in ["1", "2"]:
            done = self.against("--json", "--threads", threads, exit_code=DIFFERENCES)
            result = json.loads(done.stdout)
            self.assertEqual((result["status"], result["tensors"], result["equal"]),
                             ("differences", 28, 21))
            self.assertEqual([(d["tensor"], d["kind"]) for d in result["differences"]],
                             [("model.layers.1.mlp.up_proj.weight", "only_in_first"),
                              ("more.weight", "only_in_second"), (bias, "shape"),
                              (scale, "dtype"), ("lm_head.weight", "values"),
                              ("model.embed_tokens.weight", "values"),
                              ("model.norm.weight", "values")])
            head, embedding = result["differences"][4:6]
            self.assertEqual((head["differing"], head["first_index"], head["largest_error"],
                              head["second"]), (2, [97, 5], "inf", 900))
            self.assertEqual((embedding["differing"], embedding["first_index"]), (1, [0, 3]))
            self.assertAlmostEqual(embedding["largest_error"], 700, delta=5)
        text = self.against(exit_code=DIFFERENCES).stdout
        for part in ["21 of 28 tensors equal", "only in the reference", "[24] in the checkpoint",
                     "int32 in the reference", "2 of 2376 elements", "first at [97, 5]"]:
            self.assertIn(part, text)
        self.assertEqual(self.against("--quiet", exit_code=DIFFERENCES).stdout, "")

    def test_tolerances(self):
        value = struct.unpack_from("<f", self.tensors["model.norm.weight"][2])[0]
        self.change("model.norm.weight", 0, value * (1 + 2e-7))
        self.write_reference()
        self.against()  # both are cast to bfloat16
        self.against("--dtype", "float32")
        self.against("--dtype", "float32", "--rtol", "0", "--atol", "0", exit_code=DIFFERENCES)
        self.assertIn("26 of 27", self.diff(SAMPLE, self.reference, exit_code=DIFFERENCES).stdout)
        self.diff(SAMPLE, self.reference, "--rtol", "1e-6")
        self.against("--atol", "-1", exit_code=USAGE)
        self.against("--atol", "nan", exit_code=USAGE)

    def test_nan_is_never_equal(self):
        self.change("model.norm.weight", 7, float("nan"))
        self.write_reference()
        done = self.diff(self.reference, self.reference, exit_code=DIFFERENCES)
        self.assertIn("26 of 27", done.stdout)
        self.assertIn("nan against nan", done.stdout)

    def test_ties_are_resolved(self):
        tied = NEW / "fsdp2_bf16_tied_w2"
        self.merge(tied)
        self.assertNotIn("lm_head.weight", program.read_model(self.out))
        done = self.against(checkpoint=tied, reference=self.out)
        self.assertIn("27 of 27 tensors equal", done.stdout)
        self.assertIn("'lm_head.weight' is compared with 'model.embed_tokens.weight'", done.stdout)

    def test_what_is_no_reference(self):
        empty = self.folder / "empty"
        empty.mkdir()
        for reference, text in [(self.folder / "nowhere", "nowhere"), (empty, "no"),
                                (SAMPLE / "model_world_size_4_rank_1.pt", "whole tensors"),
                                (NEW / "formats_w1" / "formats" / "meta_tensor.pt", "meta")]:
            with self.subTest(reference=reference.name):
                done = self.run_program("test", "--local_dir", SAMPLE, "--test_hf_dir", reference)
                self.assertIn(done.returncode, (USAGE, REFUSED))
                self.assertIn(text, done.stderr)
        self.run_program("test", "--local_dir", SAMPLE, exit_code=USAGE)

    def test_a_truncated_reference(self):
        self.write_reference()
        path = self.reference / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        self.assertIn(str(path), self.against(exit_code=REFUSED).stderr)

    def test_nothing_is_written(self):
        self.write_reference()
        before = program.snapshot(self.folder)
        self.against()
        self.diff(self.reference, self.reference)
        self.assertEqual(program.snapshot(self.folder), before)


if __name__ == "__main__":
    unittest.main()
