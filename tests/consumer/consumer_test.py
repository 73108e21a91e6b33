"""Builds small projects against the library as users get it, and runs them.

    consumer_test.py [TestCase]      with SHARDKIT_BUILD=FOLDER, a build tree whose targets are built

The build tree is installed into a temporary folder, and that folder is moved before it is used, so
that a path into the build tree or the first place fails.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("SHARDKIT_BUILD", str(ROOT / "build")))
CXX = os.environ.get("CXX", "g++")
SAMPLE = ROOT / "tests" / "fixtures" / "torch-2.13.0" / "fsdp2_fp32_w4"
TENSORS = 27
INCLUDE = re.compile(r'^#include [<"]([^>"]+)', re.MULTILINE)


def run(*command, **keywords):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=280, **keywords)
    if done.returncode != 0:
        raise AssertionError("%s\nexit %d\n%s" % (" ".join(map(str, command)), done.returncode,
                                                  done.stdout))
    return done.stdout


class FolderTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardkit_consumer_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_merged(self, model):
        """`model` is what the program makes of the sample."""
        expected = self.folder / "expected"
        run(BUILD / "shardkit", "merge", "--quiet", "--local_dir", SAMPLE, "--target_dir", expected)
        names = sorted(path.name for path in expected.iterdir())
        self.assertEqual(sorted(path.name for path in model.iterdir()), names)
        for name in names:
            self.assertEqual((model / name).read_bytes(), (expected / name).read_bytes(), name)


class InstalledTest(FolderTest):
    def setUp(self):
        super().setUp()
        first = self.folder / "first"
        run("cmake", "--install", BUILD, "--prefix", first)
        self.prefix = self.folder / "moved" / "prefix"
        self.prefix.parent.mkdir()
        first.rename(self.prefix)
        for path in self.prefix.rglob("*"):
            if path.suffix in (".cmake", ".pc"):
                # The clone's path, and not the end of a longer one: it may be as short as /shardkit.
                leads_out = r"(?<![\w.}/-])%s(/|\b)" % re.escape(str(ROOT))
                self.assertNotRegex(path.read_text(), leads_out, "%s leads out of the prefix" % path)


class FindPackage(InstalledTest):
    def test_merges(self):
        configured = run("cmake", "-S", HERE / "find_package", "-B", self.folder / "build",
                         "-G", "Ninja", "-DCMAKE_CXX_COMPILER=" + CXX,
                         "-DCMAKE_PREFIX_PATH=%s" % self.prefix)
        run("cmake", "--build", self.folder / "build")
        model = self.folder / "model"
        printed = run(self.folder / "build" / "consumer", SAMPLE, model)
        program = run(self.prefix / "bin" / "shardkit", "--version").strip()
        self.assertEqual(printed, "%s: %d tensors\n" % (program, TENSORS))
        self.assertIn("found %s\n" % program, configured)
        self.assert_merged(model)


class PkgConfig(InstalledTest):
    def test_lists_a_file(self):
        (self.folder / "main.cc").write_bytes((HERE / "pkg_config" / "main.cc").read_bytes())
        pc, = self.prefix.rglob("shardkit.pc")  # below lib or lib64
        environment = dict(os.environ, CXX=CXX, PKG_CONFIG_PATH=str(pc.parent))
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
            environment.pop(name, None)
        run("make", "-f", HERE / "pkg_config" / "Makefile", cwd=self.folder, env=environment)
        printed = run(self.folder / "consumer", SAMPLE / "model_world_size_4_rank_0.pt")
        self.assertEqual(len(printed.splitlines()), TENSORS)
        self.assertIn("model.embed_tokens.weight float32 [99, 24]\n", printed)
        program = run(self.prefix / "bin" / "shardkit", "--version").split()[1]
        self.assertEqual(run("pkg-config", "--modversion", "shardkit", env=environment).strip(),
                         program)


class Headers(InstalledTest):
    """Each installed header compiles first and alone, and what it includes is installed."""

    def test_each_stands_alone(self):
        include = self.prefix / "include"
        headers = sorted(str(path.relative_to(include)) for path in include.rglob("*.h"))
        self.assertGreater(len(headers), 50)
        alone = []
        for header in headers:
            self.assertNotRegex(header, "/testing/|_test_util|_internal")
            for name in INCLUDE.findall((include / header).read_text()):
                self.assertTrue(not name.startswith("shardkit/") or name in headers,
                                "%s includes %s, which is not installed" % (header, name))
            # A source that begins with its header has proven it already.
            source = (ROOT / "src" / header).with_suffix(".cc")
            if not source.exists() or INCLUDE.findall(source.read_text())[:1] != [header]:
                alone.append(header)
        self.assertIn("shardkit/base/result.h", alone)

        def compile_alone(header):
            return subprocess.run([CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                                   "-I", str(include), "-include", header, "-x", "c++", os.devnull],
                                  capture_output=True, text=True).stderr

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for header, errors in zip(alone, pool.map(compile_alone, alone)):
                self.assertEqual(errors, "", header)


class AddSubdirectory(FolderTest):
    """The room `base` is compiled as the subdirectory does it; the consumer links what the build
    tree has compiled, since all of it anew would take minutes."""

    def test_inspects(self):
        build = self.folder / "build"
        configure = ["cmake", "-S", HERE / "add_subdirectory", "-B", build, "-G", "Ninja",
                     "-DCMAKE_CXX_COMPILER=" + CXX, "-DSHARDKIT_SOURCE=%s" % ROOT]
        run(*configure, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        commands = {pathlib.Path(entry["file"]): entry["command"]
                    for entry in json.loads((build / "compile_commands.json").read_text())}
        for flag in ("-Werror", "-Wall", "-O", "-fsanitize"):
            self.assertNotIn(flag, commands[HERE / "add_subdirectory" / "main.cc"],
                             "shardkit's flags reach the project around it")
        self.assertNotIn("-Werror", commands[ROOT / "src/shardkit/base/error.cc"])

        main = "CMakeFiles/consumer.dir/main.cc.o"
        run("cmake", "--build", build, "--target", "shardkit_base", main)
        shutil.copy(BUILD / "libshardkit.a", build / "shardkit")
        link = run("ninja", "-C", build, "-t", "commands", "consumer").splitlines()[-1]
        self.assertIn(main, link)
        run("sh", "-c", link, cwd=build)
        self.assertEqual(run(build / "consumer", SAMPLE), "%d tensors\n" % TENSORS)

        run("cmake", "--install", build, "--prefix", self.folder / "prefix")
        self.assertEqual([path.name for path in (self.folder / "prefix").rglob("*")
                          if path.is_file()], ["consumer"], "shardkit installs itself along")


class Example(FolderTest):
    """examples/merge.cc, and load_and_gather.cc."""

    program = BUILD / "examples" / "example_merge"

    def test_loads_gathers_and_restores(self):
        for ranks in (1, 3, 8):
            output = run(BUILD / "examples" / "example_load_and_gather", SAMPLE, ranks)
            self.assertEqual(output, "gathered %d tensors from %d ranks\n"
                             "restored them from a snapshot\n" % (TENSORS, ranks))

    def test_a_checkpoint_that_is_not_there(self):
        done = subprocess.run([BUILD / "examples" / "example_load_and_gather", self.folder, "2"],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(str(self.folder), done.stderr)

    def test_merges_and_tells_how_far_it_is(self):
        model = self.folder / "model"
        done = subprocess.run([self.program, SAMPLE, model], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "%d tensors in %s\n" % (TENSORS, model.resolve()))
        size = (model / "model.safetensors").stat().st_size
        self.assertTrue(done.stderr.endswith("%d of %d bytes\n" % (size, size)), done.stderr)
        self.assert_merged(model)

    def test_ctrl_c_leaves_all_or_nothing(self):
        for i in range(40):
            target = self.folder / ("run%d" % i) / "model"
            target.parent.mkdir()
            started = subprocess.Popen([self.program, SAMPLE, target], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(i / 4000)
            started.send_signal(signal.SIGINT)
            code = started.wait(timeout=60)
            # Before main() has its handler, the signal ends the process.
            self.assertIn(code, (0, 130, -signal.SIGINT))
            left = [path.name for path in target.parent.iterdir()]
            self.assertEqual(left, ["model"] if code == 0 else [], "exit %d" % code)

    def test_the_readme_shows_it(self):
        self.assertIn((ROOT / "examples" / "merge.cc").read_text(), (ROOT / "README.md").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
