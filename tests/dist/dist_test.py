"""Holds the archive of `make dist` against what it promises: a program to be carried anywhere.

    dist_test.py BUILD           packs the program of a build tree, and tests that
"""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ROOT / "src" / "shardkit"
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import program  # noqa: E402

# What every Debian has in its base system with a C++ library, and how new it is in Debian 12.
NEEDED = re.compile(r"(libc\.so\.6|libm\.so\.6|libstdc\+\+\.so\.6|libgcc_s\.so\.1|ld-linux.*)$")
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12,)}
# Found by CMake, but not in the program; libcurl and OpenSSL are loaded when something is uploaded.
NOT_INSIDE = {"Threads", "PkgConfig", "GTest", "benchmark", "Python3", "Gloo", "CURL", "OpenSSL"}


def output_of(*command, **keywords):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True,
                          timeout=280, **keywords).stdout


class DistTest(unittest.TestCase):
    build = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="shardkit_dist_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        archive = pathlib.Path(
            output_of(ROOT / "tools" / "make_dist.sh", cls.build, cls.folder / "dist").strip())
        with tarfile.open(archive) as packed:
            packed.extractall(cls.folder)
        cls.top = cls.folder / archive.name.removesuffix(".tar.gz")
        cls.program = cls.top / "shardkit"

    def test_holds_the_program_and_every_licence(self):
        self.assertEqual([path.name for path in self.folder.glob("shardkit-*")], [self.top.name])
        version = output_of(self.program, "--version").split()[1]
        self.assertEqual(self.top.name, "shardkit-%s-linux-%s" % (version, platform.machine()))
        lists = (ROOT / "CMakeLists.txt").read_text()
        parts = set(re.findall(r"(?:find_package|pkg_check_modules)\(([\w-]+)", lists)) - NOT_INSIDE
        self.assertIn("fmt", parts)
        self.assertEqual({path.name for path in self.top.iterdir()},
                         {"shardkit", "LICENSE", "README.md", "licenses"})
        self.assertLessEqual(parts, {path.stem for path in (self.top / "licenses").iterdir()})
        for path in (self.top / "licenses").iterdir():
            self.assertIn("License", path.read_text(encoding="utf-8"))

    def test_needs_only_what_every_debian_has(self):
        dynamic = output_of("readelf", "-dW", self.program)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.assertIn("libc.so.6", needed)
        for name in needed:
            self.assertRegex(name, NEEDED)
        self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")
        self.assertNotIn(".symtab", output_of("readelf", "-SW", self.program), "not stripped")
        # Not the clone's path itself, which may be as short as /shardkit.
        for folder in filter(pathlib.Path.is_dir, ROOT.iterdir()):
            self.assertNotIn(str(folder).encode(), self.program.read_bytes())

    def test_runs_with_the_libraries_of_debian_12(self):
        here = tuple(map(int, platform.libc_ver()[1].split(".")))
        if here > NEWEST["GLIBC"]:
            self.skipTest("built with glibc %s: what is made here needs it" % platform.libc_ver()[1])
        wanted = re.findall(r"Name: ([A-Z]+)_([0-9.]+) ", output_of("readelf", "-VW", self.program))
        self.assertIn("GLIBCXX", {name for name, _ in wanted})
        for name, version in wanted:
            self.assertLessEqual(tuple(map(int, version.split("."))), NEWEST[name], name)

    def test_merges_in_an_empty_root(self):
        """Nothing is there but the program, the libraries it names, and a checkpoint."""
        root = self.folder / "root"
        root.mkdir()
        shutil.copy(self.program, root)
        libraries = re.findall(r"(/\S+) \(0x", output_of("ldd", self.program))
        self.assertGreaterEqual(len(libraries), 4)
        for library in libraries:
            self.assertRegex(pathlib.Path(library).name, NEEDED)
            place = root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)  # follows links
        shutil.copytree(program.SAMPLE, root / "checkpoint")
        enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
        command = [*enter, str(root), "/shardkit"]
        tried = subprocess.run([*command, "--version"], capture_output=True, text=True, env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        if tried.returncode != 0 and os.geteuid() != 0 and "unshare" in tried.stderr:
            self.skipTest("may not change the root here: " + tried.stderr.strip())
        self.assertEqual(tried.returncode, 0, tried.stderr)
        for dtype in ("keep", "bfloat16"):
            output_of(*command, "merge", "--local_dir", "/checkpoint", "--target_dir",
                      "/" + dtype, "--dtype", dtype, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        self.assertEqual(program.read_model(root / "keep"), program.expected_tensors(program.SAMPLE))
        cast = program.read_model(root / "bfloat16")
        self.assertEqual({dtype for dtype, _, _ in cast.values()}, {"BF16"})

    def test_merges_every_fixture(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "tests/cli/every_fixture_test.py"],
                              env=dict(os.environ, SHARDKIT=str(self.program)),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def outputs(self, text, *ways):
        """What a small program prints, built with each of `ways` (words of the command line)."""
        source = self.folder / "small.cc"
        source.write_text(text)
        printed = []
        for way in ways:
            output_of(os.environ.get("CXX", "g++"), "-std=c++20", source, *way, "-o",
                      self.folder / "small")
            printed.append(output_of(self.folder / "small").split())
        return printed

    def test_chooses_the_instruction_sets_that_highway_would(self):
        ours, highway = self.outputs(
            "#include <hwy/targets.h>\n#include <cstdio>\nint main() {\n"
            "  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())\n"
            "    std::puts(hwy::TargetName(target));\n}\n",
            [ROOMS / "tensor/portable/highway_targets.cc"], ["-lhwy"])
        # Best first. Sets beyond AVX3 are left out.
        self.assertEqual(ours, [name for name in highway
                                if not name.startswith(("AVX3_", "AVX10"))])

    @unittest.skipUnless("avx2" in pathlib.Path("/proc/cpuinfo").read_text(), "needs AVX2")
    def test_hashes_as_xxhash_does(self):
        ours, xxhash = self.outputs(
            "#include <xxh_x86dispatch.h>\n#include <cstdio>\n#include <vector>\nint main() {\n"
            "  std::vector<unsigned char> bytes;\n  for (unsigned i = 0; i < 3000; ++i) {\n"
            "    std::printf(\"%llx\\n\", XXH3_64bits(bytes.data(), i) + 0ULL);\n"
            "    bytes.push_back(static_cast<unsigned char>(i * i / 7));\n  }\n}\n",
            [ROOMS / "transfer/portable/xxh3_dispatch.cc", "-mavx2",
             ROOMS / "transfer/portable/xxh3_avx2.cc"], ["-lxxhash"])
        self.assertEqual(len(set(ours)), 3000)
        self.assertEqual(ours, xxhash)


if __name__ == "__main__":
    DistTest.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
