"""Bad input: a clear message, exit 3, nothing left behind, nothing touched."""
import json
import shutil
import unittest
import zipfile

import program
from program import FIXTURES, REFUSED, SAMPLE

RANK = "model_world_size_4_rank_%d.pt"


class RefusalTest(program.ProgramTest):
    def test_no_such_folder(self):
        done = self.merge(self.folder / "nowhere", exit_code=REFUSED)
        self.assertIn(str(self.folder / "nowhere"), done.stderr)
        self.assertFalse(self.out.exists())

    def test_an_empty_folder(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assert_refused(empty, str(empty))

    def test_missing_ranks_are_all_listed(self):
        checkpoint = self.copy()
        for rank in (1, 3):
            (checkpoint / (RANK % rank)).unlink()
        self.assert_refused(checkpoint, "1, 3")

    def test_two_world_sizes_without_a_config(self):
        checkpoint = self.copy()
        for rank in (0, 1):
            shutil.copy(FIXTURES / "torch-2.13.0" / "fsdp1_dtensor_fp32_w2" /
                        ("model_world_size_2_rank_%d.pt" % rank), checkpoint)
        self.merge(checkpoint)  # fsdp_config.json decides
        self.assertEqual(len(program.read_model(self.out)), 27)
        shutil.rmtree(self.out)
        (checkpoint / "fsdp_config.json").unlink()
        self.assert_refused(checkpoint, "2", "4")

    def test_a_config_without_its_files(self):
        checkpoint = self.copy()
        (checkpoint / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 8}')
        self.assert_refused(checkpoint, "8")

    def test_a_damaged_config(self):
        for text in ["", "{", "[]", '{"world_size": -1}', '{"world_size": 1e30}',
                     '{"world_size": "4"}', '{"world_size": 4, "world_size": 4}']:
            with self.subTest(text=text):
                checkpoint = self.copy(name="checkpoint%d" % len(text))
                (checkpoint / "fsdp_config.json").write_text(text)
                self.assert_refused(checkpoint, "fsdp_config.json")

    def test_files_that_are_no_checkpoint(self):
        whole = (SAMPLE / (RANK % 2)).read_bytes()
        pointer = (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 +
                   b"\nsize 12345\n")
        for name, content in [("empty", b""), ("half", whole[:len(whole) // 2]),
                              ("cut", whole[:-1]), ("pointer", pointer), ("zeros", bytes(5000)),
                              ("page", b"<!DOCTYPE html>\n<html><body>404</body></html>\n"),
                              ("longer", whole + bytes(70000))]:
            with self.subTest(name=name):
                checkpoint = self.copy(name=name)
                (checkpoint / (RANK % 2)).write_bytes(content)
                done = self.assert_refused(checkpoint, RANK % 2)
                if name == "pointer":
                    self.assertIn("LFS", done.stderr)
                if name == "page":
                    self.assertIn("HTML", done.stderr)

    def test_a_folder_in_place_of_a_file(self):
        checkpoint = self.copy()
        (checkpoint / (RANK % 0)).unlink()
        (checkpoint / (RANK % 0)).mkdir()
        before = program.snapshot(self.folder)
        done = self.run_program("merge", "--backend", "fsdp", "--local_dir", checkpoint,
                                "--target_dir", self.out)
        self.assertIn(done.returncode, (3, 4))
        self.assertIn(RANK % 0, done.stderr)
        self.assertEqual(program.snapshot(self.folder), before)

    def rewrite(self, path, change):
        """The zip file anew, stored, with data.pkl changed by `change`."""
        with zipfile.ZipFile(path) as source:
            records = [(info.filename, source.read(info)) for info in source.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for name, data in records:
                target.writestr(zipfile.ZipInfo(name),
                                change(data) if name.endswith("/data.pkl") else data)

    def test_a_global_off_the_list(self):
        evil = b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R."
        checkpoint = self.copy()
        path = checkpoint / (RANK % 1)
        self.rewrite(path, lambda data: evil)
        with zipfile.ZipFile(path) as source:
            info = source.infolist()[0]
        # The record's data lies behind its local header; the opcode is the pickle's third byte.
        offset = info.header_offset + 30 + len(info.filename) + 2
        self.assert_refused(checkpoint, "posix", "system", str(path), "offset %d" % offset)

    def test_pickles_that_nest_or_blow_up(self):
        for name, pickle in [
                ("deep", b"\x80\x02" + b"]" * 100000 + b"a" * 99999 + b"."),
                ("frame", b"\x80\x04\x95" + b"\xff" * 8 + b"."),
                ("length", b"\x80\x02\x8e" + b"\xff" * 7 + b"\x7f."),
                ("memo", b"\x80\x02]r\xff\xff\xff\x7f."), ("no stop", b"\x80\x02]"),
                ("empty", b""), ("underflow", b"\x80\x02R."), ("no dict", b"\x80\x02K\x01.")]:
            with self.subTest(name=name):
                checkpoint = self.copy(name=name.replace(" ", "_"))
                self.rewrite(checkpoint / (RANK % 3), lambda data, p=pickle: p)
                self.assert_refused(checkpoint, RANK % 3)

    def test_a_missing_storage(self):
        checkpoint = self.copy()
        path = checkpoint / (RANK % 1)
        with zipfile.ZipFile(path) as source:
            records = [(i.filename, source.read(i)) for i in source.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for name, data in records:
                if not name.endswith("/data/3"):
                    target.writestr(zipfile.ZipInfo(name), data)
        self.assert_refused(checkpoint, RANK % 1, "data/3")

    def test_compressed_records(self):
        checkpoint = self.copy()
        path = checkpoint / (RANK % 1)
        with zipfile.ZipFile(path) as source:
            records = [(i.filename, source.read(i)) for i in source.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
            for name, data in records:
                target.writestr(name, data)
        self.assert_refused(checkpoint, RANK % 1, "compress")

    def test_a_rank_of_another_model(self):
        checkpoint = self.copy()
        shutil.copy(FIXTURES / "torch-2.13.0" / "critic_fp32_w4" / (RANK % 2), checkpoint)
        self.assert_refused(checkpoint, "lm_head.weight")

    def test_a_rank_file_twice(self):
        checkpoint = self.copy()
        shutil.copy(checkpoint / (RANK % 0), checkpoint / (RANK % 1))
        self.assert_refused(checkpoint)

    def test_replicas_that_differ(self):
        checkpoint = self.copy(FIXTURES / "torch-2.13.0" / "hsdp_bf16_w4")
        path = checkpoint / (RANK % 3)
        with zipfile.ZipFile(path) as source:
            largest = max((i for i in source.infolist() if "/data/" in i.filename),
                          key=lambda i: i.file_size)
            content = source.read(largest)
        data = bytearray(path.read_bytes())
        at = data.find(content)
        data[at + 5] ^= 1
        path.write_bytes(data)
        done = self.assert_refused(checkpoint, "1", "3")
        self.assertRegex(done.stderr, r"model\.|lm_head")
        self.merge(checkpoint, "--replicas", "first", "--dtype", "keep")
        self.assertEqual(program.read_model(self.out),
                         program.expected_tensors(FIXTURES / "torch-2.13.0" / "hsdp_bf16_w4"))

    def test_plain_tensors_that_are_equal_are_ambiguous(self):
        case = FIXTURES / "torch-2.13.0" / "plain_fp32_w2"
        checkpoint = self.copy(case)
        shutil.copy(checkpoint / "model_world_size_2_rank_0.pt",
                    checkpoint / "model_world_size_2_rank_1.pt")
        self.assert_refused(checkpoint, "--plain-tensors")
        self.merge(checkpoint, "--plain-tensors", "replicate", "--dtype", "keep")
        self.assertEqual(program.read_model(self.out)["a.weight"][1], [4, 3])
        self.merge(checkpoint, "--plain-tensors", "concat", "--dtype", "keep", "--overwrite")
        self.assertEqual(program.read_model(self.out)["a.weight"][1], [8, 3])

    def test_errors_are_json_when_asked_for(self):
        checkpoint = self.copy()
        (checkpoint / (RANK % 1)).unlink()
        done = self.merge(checkpoint, "--json", exit_code=REFUSED)
        result = json.loads(done.stdout)
        self.assertEqual((result["status"], result["code"]), ("error", "incomplete"))
        self.assertIn("1", result["message"])

    def test_inspect_refuses_too(self):
        path = self.folder / "model.pt"
        path.write_bytes(b"not a zip file, not a pickle, not safetensors")
        done = self.run_program("inspect", path, exit_code=REFUSED)
        self.assertIn(str(path), done.stderr)
        self.run_program("inspect", self.folder / "nowhere", exit_code=REFUSED)


if __name__ == "__main__":
    unittest.main()
