"""Each checkpoint that real PyTorch wrote merges to the bytes that went in, and can be inspected."""
import json
import unittest

import program
from program import DONE, FIXTURES, REFUSED

# torch.save forms that may be refused, by a message with this word.
MAY_BE_REFUSED = {"quantized.pt": "quantize", "sparse_coo.pt": "sparse", "legacy_not_zip.pt": "zip"}


class EveryFixtureTest(program.ProgramTest):
    def check_merge(self, case):
        before = program.snapshot(case)
        self.merge(case, "--dtype", "keep", "--quiet")
        found, expected = program.read_model(self.out), program.expected_tensors(case)
        self.assertEqual(sorted(found), sorted(expected))
        for name in expected:
            self.assertEqual(found[name], expected[name], name)
        self.assertEqual(program.snapshot(case), before)

    def check_inspect(self, path):
        done = self.run_program("inspect", path, "--json", exit_code=DONE)
        self.assertIsInstance(json.loads(done.stdout), dict)
        self.assertNotEqual(self.run_program("inspect", path, exit_code=DONE).stdout, "")

    def check_form(self, path):
        done = self.run_program("inspect", path)
        if done.returncode != DONE:
            self.assertEqual(done.returncode, REFUSED, done.stderr)
            self.assertIn(path.name, MAY_BE_REFUSED, done.stderr)
            self.assertIn(MAY_BE_REFUSED[path.name], done.stderr)
            self.assertIn(str(path), done.stderr)


def add_tests():
    cases = sorted(p.parent for p in FIXTURES.glob("torch-*/*/fsdp_config.json"))
    assert len(cases) >= 70, "the fixtures are not there"
    for case in cases:
        name = ("%s_%s" % (case.parent.name, case.name)).replace(".", "_").replace("-", "_")
        setattr(EveryFixtureTest, "test_merge_" + name, lambda self, c=case: self.check_merge(c))
        setattr(EveryFixtureTest, "test_inspect_" + name, lambda self, c=case: self.check_inspect(c))
        for path in sorted(case.glob("formats/*.pt")):
            setattr(EveryFixtureTest, "test_form_%s_%s" % (name, path.stem),
                    lambda self, p=path: self.check_form(p))
        for path in sorted(list(case.glob("optim_*.pt")) + list(case.glob("extra_state_*.pt"))):
            setattr(EveryFixtureTest, "test_inspect_%s_%s" % (name, path.stem),
                    lambda self, p=path: self.check_inspect(p))


add_tests()

if __name__ == "__main__":
    unittest.main()
