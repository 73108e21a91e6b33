#!/usr/bin/env python3
"""Tests check_layers.py on a small tree: it must name every line that breaks a rule, and no other."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_layers  # noqa: E402


class CheckLayersTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("tools/layers.txt", "# comment: not a room\nbase:\nio: base\njson: base\n")

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def wrong(self, path, text):
        self.write(path, text)
        return check_layers.Checker(self.root).run()

    def test_a_clean_tree_passes(self):
        self.write("src/shardkit/base/a.h", '#include <string>\n#include <tl/expected.hpp>\n')
        self.write("src/shardkit/io/a.cc", '#include "shardkit/base/a.h"\n#include <sys/stat.h>\n'
                   '#include <fmt/format.h>\n')
        self.write("src/shardkit/io/a_test.cc", '#include "shardkit/testing/m.h"\n'
                   '#include <gtest/gtest.h>\nint main() { std::cout << 1; }\n')
        self.write("src/shardkit/testing/m.h", '#include <gmock/gmock.h>\n')
        self.assertEqual(self.wrong("cli/main.cc", '#include "shardkit/io/a.h"\n'
                                    '#include <CLI/CLI.hpp>\nint main() { printf("x"); }\n'), [])

    def test_a_room_may_not_include_what_its_line_does_not_name(self):
        self.assertEqual(self.wrong("src/shardkit/io/a.cc", '\n#include "shardkit/json/a.h"\n'),
                         ["src/shardkit/io/a.cc:2: io may not include json (tools/layers.txt)"])

    def test_a_test_is_held_to_its_room(self):
        self.assertEqual(len(self.wrong("src/shardkit/base/a_test.cc",
                                        '#include "shardkit/io/a.h"\n')), 1)

    def test_testing_is_for_tests(self):
        self.assertIn("only tests, benchmarks and fuzz targets",
                      self.wrong("src/shardkit/io/a.cc", '#include "shardkit/testing/m.h"\n')[0])
        self.assertEqual(len(self.wrong("cli/main.cc", '#include "shardkit/testing/m.h"\n')), 2)

    def test_the_program_stands_above_all_rooms(self):
        self.assertEqual(self.wrong("cli/main.cc", '#include "cli/command.h"\n'), [])
        self.assertEqual(self.wrong("src/shardkit/io/a.cc", '#include "cli/command.h"\n'),
                         ["src/shardkit/io/a.cc:1: a room may not include the program's cli/command.h"])

    def test_a_library_may_belong_to_a_folder_of_a_room(self):
        self.write("tools/layers.txt", "collective:\n")
        self.assertEqual(self.wrong("src/shardkit/collective/gloo/a.cc",
                                    "#include <gloo/context.h>\n"), [])
        self.assertEqual(self.wrong("src/shardkit/collective/a.cc", "#include <gloo/context.h>\n"),
                         ["src/shardkit/collective/a.cc:1: <gloo/context.h> belongs to "
                          "collective/gloo"])

    def test_unknown_rooms_are_named(self):
        self.assertEqual(self.wrong("src/shardkit/io/a.cc", '#include "shardkit/attic/a.h"\n'),
                         ["src/shardkit/io/a.cc:1: no room is called attic"])
        self.assertEqual(len(self.wrong("src/shardkit/cellar/a.cc", "\n")), 2)

    def test_an_external_header_stays_in_its_room_and_out_of_headers(self):
        include = "#include <nlohmann/json.hpp>\n"
        self.assertEqual(self.wrong("src/shardkit/json/a.cc", include), [])
        self.assertEqual(self.wrong("src/shardkit/io/a.cc", include),
                         ["src/shardkit/io/a.cc:1: <nlohmann/json.hpp> belongs to json"])
        self.assertIn("src/shardkit/json/b.h:1: <nlohmann/json.hpp> may stand only in .cc files",
                      self.wrong("src/shardkit/json/b.h", include))

    def test_an_unknown_library_is_refused(self):
        self.assertEqual(len(self.wrong("src/shardkit/io/a.cc", "#include <boost/any.hpp>\n")), 1)

    def test_the_library_does_not_print_end_or_throw(self):
        for line in ["std::cerr << 1;", 'std::printf("x");', "fprintf (stderr, x);", "std::abort();",
                     "exit(1);", "::_exit(1);", "std::terminate();", "throw 1;", 'fmt::print("x");']:
            wrong = self.wrong("src/shardkit/io/a.cc", "void f() {\n  %s\n}\n" % line)
            self.assertEqual(len(wrong), 1, line)
            self.assertTrue(wrong[0].startswith("src/shardkit/io/a.cc:2: the library never"), wrong)

    def test_words_in_comments_and_strings_are_no_calls(self):
        self.assertEqual(self.wrong("src/shardkit/io/a.cc", "// may throw; exit(1)\n"
                                    'auto s = "printf(x) \\" abort()"; /* abort()\n exit(2) */\n'
                                    'auto r = R"(throw exit(1))"; int n = 1\'000\'000;\n'
                                    "std::snprintf(b, 1, s); on_exit_path(1); char q = '\"';\n"), [])

    def test_a_cycle_in_the_list_is_named(self):
        self.write("tools/layers.txt", "base: io\nio: base\n")
        self.assertEqual(self.wrong("src/shardkit/io/a.cc", "\n"),
                         ["tools/layers.txt:1: base names io, which does not stand above it"])


if __name__ == "__main__":
    unittest.main()
