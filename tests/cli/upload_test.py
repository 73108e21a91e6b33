"""Uploads to a stand-in Hub: what arrives, what is sent again, and what is said when it fails."""
import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import unittest

import program
from program import IO, REFUSED, SAMPLE, USAGE

sys.path.insert(0, str(program.ROOT / "tests" / "hub"))
from stand_in_hub import OTHER, READER, WRITER, StandInHub  # noqa: E402

REPO = "org/model"
PART = 300_000
BIG = bytes(range(256)) * 4000  # 4 parts


def content(seed, size):
    return b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(size // 32 + 1))[:size]


class HubTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.hub = StandInHub(self.folder / "hub", part_bytes=PART)
        self.addCleanup(self.hub.close)

    def environment(self, token=WRITER, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("HF_", "SSL_CERT", "XDG_"))}
        environment.update(HOME=str(self.folder), HF_ENDPOINT=self.hub.url,
                           XDG_CACHE_HOME=str(self.folder / "cache"))
        if token:
            environment["HF_TOKEN"] = token
        environment.update(variables)
        return environment


class UploadTest(HubTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        self.files = {
            "config.json": b'{"model_type": "llama"}\n',
            "model-00001-of-00002.safetensors": content(1, 4 * PART - 5),
            "model-00002-of-00002.safetensors": content(2, PART),
            "model.safetensors.index.json": b"{}\n",
            "sub folder/\u00e9t\u00e9 + 100%.txt": "\u00e9\n".encode(),
            "empty.txt": b"",
            ".hidden": b"sent, too\n",
        }
        for path, data in self.files.items():
            self.write(path, data)

    def write(self, path, data):
        target = self.model / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def upload(self, *flags, exit_code=0, repo=REPO, token=WRITER, variables=None, folder=None):
        done = self.run_program("upload", folder or self.model, repo, *flags, exit_code=exit_code,
                                env=self.environment(token, **(variables or {})))
        for secret in (WRITER, READER, OTHER, token or WRITER):
            self.assertNotIn(secret, done.stdout + done.stderr, "the token is printed")
        return done

    def assert_uploaded(self, branch="main"):
        self.assertEqual(self.hub.files(REPO, branch), self.files)
        self.assert_token_stays()

    def assert_token_stays(self):
        """The storage, which is another origin, never saw the token."""
        self.assertEqual([r.path for r in self.hub.requests
                          if r.server == "storage" and r.token is not None], [])

    def left_behind(self):
        return [path for path in (self.folder / "cache").rglob("*") if path.is_file()]

    def refused(self, *texts, exit_code=IO, **keywords):
        done = self.upload(exit_code=exit_code, **keywords)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")
        return done

    # ---- what arrives ----

    def test_a_folder_arrives_as_it_is(self):
        done = self.upload()
        self.assert_uploaded()
        self.assertEqual(self.hub.lfs_paths(REPO), ["model-00001-of-00002.safetensors",
                                                    "model-00002-of-00002.safetensors"])
        self.assertEqual(self.hub.titles(REPO), ["Upload model with shardkit"])
        self.assertFalse(self.hub.repos[REPO].private)
        self.assertIn("%s/%s" % (self.hub.url, REPO), done.stdout)
        self.assertIn("7 files", done.stdout)
        self.assertEqual(self.left_behind(), [])
        self.assertEqual(self.hub.done("PUT", "/parts/"), 4)
        self.assertEqual(self.hub.done("PUT", "/objects/"), 1)

    def test_private_branch_and_message(self):
        self.upload("--private", "--revision", "exp/1 b".replace(" ", "-"), "--commit-message",
                    "Step 40\n\nof run 7")
        self.assert_uploaded("exp/1-b")
        self.assertTrue(self.hub.repos[REPO].private)
        self.assertEqual(self.hub.files(REPO), {})
        commit = list(self.hub.repos[REPO].commits.values())[-1]
        self.assertEqual(commit[:2], ("Step 40", "\nof run 7"))

    def test_private_refuses_a_public_repository(self):
        self.hub.make_repo(REPO)
        done = self.run_program("upload", self.model, REPO, "--private", exit_code=IO,
                                env=self.environment())
        self.assertIn("is public", done.stderr)
        self.assertEqual(self.hub.files(REPO), {})
        self.assertEqual(self.hub.count("PUT", ""), 0)

    def test_a_repository_that_exists_is_written_to(self):
        self.hub.make_repo(REPO, private=True)
        self.upload("--private")
        self.assert_uploaded()

    def test_who_may_not_make_repositories_may_write_to_one(self):
        self.hub.make_repo(REPO)
        self.hub.fail("POST", "/api/repos/create", status=403)
        self.upload()
        self.assert_uploaded()

    def test_the_second_time_nothing_is_sent(self):
        self.upload()
        self.hub.requests.clear()
        report = json.loads(self.upload("--json").stdout)
        self.assertEqual((report["status"], report["commits"], report["files_there"],
                          report["bytes_sent"]), ("ok", [], 7, 0))
        self.assertEqual(self.hub.count("PUT", ""), 0)
        self.assertEqual(self.hub.count("POST", "/commit/"), 0)

    def test_what_changed_is_sent_alone(self):
        self.upload()
        self.hub.requests.clear()
        self.files["config.json"] = b'{"model_type": "qwen2"}\n'
        self.files["model-00002-of-00002.safetensors"] = content(3, 1000)
        for path in ("config.json", "model-00002-of-00002.safetensors"):
            self.write(path, self.files[path])
        report = json.loads(self.upload("--json").stdout)
        self.assertEqual((report["files_sent"], report["files_there"]), (2, 5))
        self.assert_uploaded()
        self.assertEqual(self.hub.count("PUT", ""), 1)

    def test_equal_files_are_sent_once(self):
        self.files["copy.safetensors"] = self.files["model-00002-of-00002.safetensors"]
        self.write("copy.safetensors", self.files["copy.safetensors"])
        self.upload()
        self.assert_uploaded()
        self.assertEqual(self.hub.done("PUT", "/objects/"), 1)

    def test_many_files_in_several_commits_the_config_last(self):
        for i in range(600):
            path = "many/%03d.txt" % i
            self.files[path] = b"%d\n" % i
            self.write(path, self.files[path])
        report = json.loads(self.upload("--json").stdout)
        self.assert_uploaded()
        self.assertEqual(len(report["commits"]), 3)
        self.assertEqual(self.hub.titles(REPO), ["Upload model with shardkit"] + [
            "Upload model with shardkit (part %d)" % i for i in (2, 3)])
        before_last = list(self.hub.repos[REPO].commits.values())[-2][2]
        self.assertNotIn("config.json", before_last)
        self.assertNotIn("model.safetensors.index.json", before_last)

    def test_many_objects_are_asked_for_together(self):
        for i in range(60):
            path = "many/%03d.bin" % i
            self.files[path] = b"\0%d\n" % i
            self.write(path, self.files[path])
        self.upload()
        self.assert_uploaded()
        self.assertLess(self.hub.count("POST", "/batch"), 40)

    # ---- what is not sent ----

    def test_git_cache_and_unfinished_merges_are_left_out(self):
        for path in (".git/HEAD", "sub folder/.git/HEAD", ".cache/huggingface/x",
                     ".other.shardkit-stage/content/model.safetensors"):
            self.write(path, b"x")
        (self.model / "elsewhere").symlink_to(self.folder)
        report = json.loads(self.upload("--json").stdout)
        self.assert_uploaded()
        self.assertEqual(report["left_out"], [".cache", ".git", ".other.shardkit-stage", "elsewhere",
                                              "sub folder/.git"])

    def test_links_to_files_are_files(self):
        target = self.folder / "blob"
        target.write_bytes(content(9, 1000))
        (self.model / "linked.safetensors").symlink_to(target)
        self.files["linked.safetensors"] = content(9, 1000)
        self.upload()
        self.assert_uploaded()

    def test_gitignore_counts_as_the_hub_says(self):
        self.files[".gitignore"] = b"*.log\n"
        self.write(".gitignore", b"*.log\n")
        self.write("train.log", b"...")
        report = json.loads(self.upload("--json").stdout)
        self.assert_uploaded()
        self.assertEqual(report["ignored"], ["train.log"])

    def test_folders_that_cannot_be_sent(self):
        (self.model / "dangling").symlink_to(self.folder / "nowhere")
        self.refused("leads nowhere", "dangling", exit_code=REFUSED)
        (self.model / "dangling").unlink()
        os.mkfifo(self.model / "pipe")
        self.refused("not a regular file", "pipe", exit_code=REFUSED)
        (self.model / "pipe").unlink()
        (self.model / ".shardkit-stage").mkdir()
        self.refused("has not ended", exit_code=REFUSED)
        self.refused("cannot list", "nowhere", exit_code=REFUSED, folder=self.folder / "nowhere")
        (self.folder / "empty").mkdir()
        self.refused("no file", exit_code=REFUSED, folder=self.folder / "empty")
        self.assertEqual(self.hub.requests, [])

    # ---- the token, and where it may go ----

    def test_the_token_is_found_where_huggingface_hub_keeps_it(self):
        def with_file(path, **variables):
            path = self.folder / path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("  " + WRITER + "\n")
            self.upload(token=None, variables={name: value and str(self.folder / value)
                                               for name, value in variables.items()})
            path.unlink()

        with_file("a/token", HF_TOKEN_PATH="a/token", HF_HOME="b")
        with_file("b/token", HF_HOME="b")
        with_file("c/huggingface/token", XDG_CACHE_HOME="c")
        with_file(".cache/huggingface/token", XDG_CACHE_HOME="")
        self.assert_uploaded()

    def test_the_variable_goes_before_the_file(self):
        (self.folder / "token").write_text("hf_wrong")
        self.upload(variables={"HF_TOKEN_PATH": str(self.folder / "token")})
        self.assert_uploaded()

    def test_without_a_token_nothing_is_sent(self):
        self.refused("no token", "HF_TOKEN", "hf auth login", token=None, exit_code=USAGE)
        self.refused("HF_TOKEN", token="two words", exit_code=USAGE)
        self.assertEqual(self.hub.requests, [])

    def test_a_redirect_to_another_origin_gets_no_token(self):
        self.hub.make_repo(REPO)
        self.hub.fail("GET", r"/api/models/org/model\?", status=307,
                      headers={"Location": self.hub.storage_url + "/api/models/org/model?expand=private"})
        self.upload(exit_code=IO)
        self.assertEqual(self.hub.count("GET", r"/api/models/org/model\?"), 2)
        self.assert_token_stays()

    def test_a_redirect_on_the_same_origin_keeps_it(self):
        self.hub.make_repo("org/new-name")
        self.hub.fail("POST", "/api/models/org/model/preupload", times=9, status=307,
                      headers={"Location": "/api/models/org/new-name/preupload/main"})
        self.hub.fail("POST", "org/model.git/info/lfs/objects/batch", times=9, status=308, headers={
            "Location": self.hub.url + "/org/new-name.git/info/lfs/objects/batch"})
        self.upload()
        self.assertEqual(self.hub.count("POST", "/api/models/org/new-name/preupload"), 1)
        self.assert_uploaded()

    def test_a_redirect_that_changes_the_method_or_never_ends_is_refused(self):
        self.hub.fail("POST", "/api/repos/create", status=302, headers={"Location": "/elsewhere"})
        self.refused("redirect")
        self.hub.fail("POST", "/api/repos/create", times=99, status=307,
                      headers={"Location": "/api/repos/create"})
        self.refused("redirect")

    def test_a_server_that_repeats_the_token_does_not_make_it_seen(self):
        self.hub.fail("POST", "/preupload", status=403, body=json.dumps(
            {"error": "bad token %s\n\x1b[31m" % WRITER}))
        done = self.refused("may not write", "***")
        self.assertNotIn("\x1b", done.stderr)

    # ---- refusals, as a person needs them ----

    def test_401_names_where_the_token_is_from(self):
        self.refused("does not accept the token", "HF_TOKEN", token="hf_unknown")
        (self.folder / "token").write_text("hf_unknown")
        self.refused("does not accept the token", str(self.folder / "token"), token=None,
                     variables={"HF_TOKEN_PATH": str(self.folder / "token")})

    def test_403(self):
        self.refused("may not make the repository", "HF_TOKEN", "You don't have the rights",
                     token=OTHER)
        self.hub.make_repo(REPO)
        self.refused("may not write", "HF_TOKEN", token=READER)

    def test_404(self):
        self.hub.make_repo(REPO, private=True)
        self.hub.fail("POST", "/api/repos/create", status=409)
        self.refused("no repository", REPO, token=OTHER)

    def test_quota(self):
        self.hub.fail("POST", "/batch", status=403,
                      headers={"X-Error-Message": "Private repository storage limit reached"})
        self.refused("storage is used up", "Private repository storage limit reached")
        self.hub.fail("PUT", "/parts/", status=507, times=99)
        self.refused("storage is used up")

    def test_network_down(self):
        self.hub.close()
        done = self.refused("network fails", self.hub.url)
        self.assertIn("3 tries", done.stderr)

    def test_a_name_that_is_none(self):
        for repo in ("model", "a/b/c", "org/-x", "org/a..b", "../x", "org/x.git", "or g/x"):
            self.refused("ORG/NAME", exit_code=USAGE, repo=repo)
        self.upload("--revision", "", exit_code=USAGE)
        self.refused("HF_ENDPOINT", exit_code=USAGE, variables={"HF_ENDPOINT": "ftp://x"})

    def test_errors_as_json(self):
        report = json.loads(self.upload("--json", exit_code=IO, token="hf_unknown").stdout)
        self.assertEqual((report["status"], report["code"]), ("error", "io"))

    # ---- answers that nobody asked for ----

    def test_answers_are_not_believed(self):
        def answered(method, path, body, *texts):
            fault = self.hub.fail(method, path, status=200,
                                  body=body if isinstance(body, str) else json.dumps(body))
            self.refused(*texts)
            self.assertEqual(fault.times, 0)

        (self.model / "model-00002-of-00002.safetensors").unlink()  # one object, so one question
        oid = hashlib.sha256(self.files["model-00001-of-00002.safetensors"]).hexdigest()

        def actions(**upload):
            return {"objects": [{"oid": oid, "size": 4 * PART - 5, "actions": {"upload": upload}}]}

        answered("POST", "/preupload", "{", "list of files")
        answered("POST", "/preupload", {"files": []}, "not all files")
        answered("POST", "/preupload", {"files": [{"path": "../x", "uploadMode": "lfs"}]},
                 "not in the list")
        answered("POST", "/batch", {"objects": [], "transfer": "xet"}, "xet")
        answered("POST", "/batch", actions(href="file:///etc/passwd"), "no http(s) address")
        answered("POST", "/batch", actions(href=self.hub.url, header={"chunk_size": "1"}), "parts")
        answered("POST", "/batch", actions(href=self.hub.url, header={"chunk_size": PART, "1": "x"}),
                 "1 of 4 parts")
        answered("POST", "/batch", actions(href=self.hub.url, header={"chunk_size": 0}), "no bytes")
        answered("POST", "/batch", "x" * (9 << 20), "longer than it may be")
        answered("POST", "/commit/", {"success": True}, "commitOid")

    # ---- what fails for a time ----

    def test_429_and_5xx_are_tried_again(self):
        self.hub.fail("POST", "/api/repos/create", status=503)
        self.hub.fail("POST", "/preupload", status=429, headers={"Retry-After": "2"})
        self.hub.fail("POST", "/batch", status=500)
        self.hub.fail("PUT", "/parts/.*/2", status=503)
        self.hub.fail("POST", "/api/complete_multipart", status=502)
        self.hub.fail("POST", "/verify", status=504)
        self.hub.fail("POST", "/commit/", status=429, headers={
            "RateLimit": '"api";r=0;t=0', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'})
        start = time.monotonic()
        done = self.upload()
        self.assertGreater(time.monotonic() - start, 2)
        self.assertIn("answers status 429; trying again in 2.0 s", done.stderr)
        self.assert_uploaded()
        self.assertEqual(self.hub.done("PUT", "/parts/"), 4)
        self.assertEqual(len(self.hub.titles(REPO)), 1)

    def test_a_wait_without_end_is_not_waited_for(self):
        self.hub.fail("POST", "/preupload", status=429, headers={"Retry-After": "90000"})
        self.refused("429", "asks to wait 90000 s")

    def test_a_part_whose_connection_drops_is_sent_again_and_no_other(self):
        self.hub.fail("PUT", "/parts/.*/3", times=2, drop_after=PART // 2)
        self.upload()
        self.assert_uploaded()
        self.assertEqual(self.hub.count("PUT", "/parts/"), 6)
        self.assertEqual(self.hub.done("PUT", "/parts/"), 4)

    def test_a_part_whose_answer_is_lost_is_sent_again(self):
        self.hub.fail("PUT", "/parts/.*/3", drop_answer=True)
        self.upload()
        self.assert_uploaded()
        self.assertEqual(self.hub.count("PUT", "/parts/"), 5)

    def test_a_completion_whose_answer_is_lost(self):
        self.hub.fail("POST", "/api/complete_multipart", drop_answer=True)
        self.upload()
        self.assert_uploaded()

    def test_a_commit_whose_answer_is_lost_is_not_made_twice(self):
        self.hub.fail("POST", "/commit/", drop_answer=True)
        done = self.upload()
        self.assert_uploaded()
        self.assertEqual(len(self.hub.titles(REPO)), 1)
        self.assertIn("commit: %s/%s/commit/" % (self.hub.url, REPO), done.stdout)

    def test_a_commit_that_was_not_made_is_made(self):
        self.hub.fail("POST", "/commit/", status=503)
        self.upload()
        self.assert_uploaded()
        self.assertEqual(len(self.hub.titles(REPO)), 1)

    def test_addresses_that_expire_are_asked_for_anew(self):
        self.hub.fail("PUT", "/parts/.*/2", status=403)
        self.upload()
        self.assert_uploaded()
        self.assertGreaterEqual(self.hub.count("POST", "/batch"), 2)

    def test_a_storage_that_refuses_everything_is_given_up(self):
        self.hub.fail("PUT", "/parts/", status=403, times=999,
                      body="", headers={"X-Error-Message": "Request has expired"})
        self.refused("Request has expired", "model-00001-of-00002.safetensors")
        self.assertEqual(self.hub.files(REPO), {})

    def test_an_object_that_is_not_whole_is_not_committed(self):
        self.hub.fail("POST", "/verify", status=404, times=99)
        self.refused("storage does not take", "safetensors")
        self.assertEqual(self.hub.count("POST", "/commit/"), 0)

    # ---- uploads that die ----

    def start(self, *flags):
        started = subprocess.Popen([program.PROGRAM, "upload", str(self.model), REPO, *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment())
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.stderr.close)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        return started

    def wait_until(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def recorded_parts(self):
        return sum(path.read_text().count('"etag"') for path in self.left_behind())

    def test_a_killed_upload_goes_on_with_the_parts_that_are_there(self):
        self.hub.fail("PUT", "/parts/.*/4", stall=120)
        started = self.start()
        self.wait_until(lambda: self.recorded_parts() == 3 and self.hub.done("POST", "/verify") == 1)
        started.kill()
        started.wait()
        self.assertEqual(len(self.left_behind()), 2)  # the record and its lock
        for path in self.left_behind():
            self.assertNotIn(WRITER, path.read_text())
            self.assertEqual(path.parent.stat().st_mode & 0o777, 0o700)
        self.hub.requests.clear()
        self.upload()
        self.assert_uploaded()
        self.assertEqual([re.search(r"/(\d+)\?", r.path)[1] for r in self.hub.requests
                          if "/parts/" in r.path], ["4"])
        self.assertEqual(self.hub.count("PUT", "/objects/"), 0)
        self.assertEqual(self.left_behind(), [])

    def test_a_killed_upload_whose_addresses_expired_starts_the_file_again(self):
        self.hub.fail("PUT", "/parts/.*/4", stall=120)
        started = self.start()
        self.wait_until(lambda: self.recorded_parts() == 3)
        started.kill()
        started.wait()
        self.hub.expire_addresses()
        self.upload()
        self.assert_uploaded()

    def test_a_killed_upload_whose_file_changed_sends_the_new_one(self):
        self.hub.fail("PUT", "/parts/.*/4", stall=120)
        started = self.start()
        self.wait_until(lambda: self.recorded_parts() == 3)
        started.kill()
        started.wait()
        self.files["model-00001-of-00002.safetensors"] = content(5, 4 * PART - 5)
        self.write("model-00001-of-00002.safetensors", content(5, 4 * PART - 5))
        self.upload()
        self.assert_uploaded()

    def test_ctrl_c_ends_soon_and_the_same_command_goes_on(self):
        for flag, path in ((signal.SIGINT, "/parts/.*/4"), (signal.SIGTERM, "/commit/")):
            self.hub.fail("PUT" if "parts" in path else "POST", path, stall=120)
            count = len(self.hub.requests)
            started = self.start()
            self.wait_until(lambda: any(re.search(path, r.path) for r in self.hub.requests[count:]))
            time.sleep(0.2)
            start = time.monotonic()
            started.send_signal(flag)
            started.communicate(timeout=30)
            self.assertLess(time.monotonic() - start, 60)
            self.assertEqual(started.returncode, 128 + flag)
        self.upload()
        self.assert_uploaded()

    def test_ctrl_c_ends_a_wait(self):
        self.hub.fail("POST", "/preupload", status=429, headers={"Retry-After": "300"})
        started = self.start()
        self.wait_until(lambda: self.hub.count("POST", "/preupload"))
        time.sleep(0.2)
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=30)
        self.assertEqual(started.returncode, 130)

    def test_two_uploads_of_one_folder_do_not_mix(self):
        self.hub.fail("PUT", "/parts/.*/4", stall=120)
        started = self.start()
        self.wait_until(lambda: self.hub.count("PUT", "/parts/.*/4"))
        self.refused("already")
        started.kill()

    def test_a_cache_that_cannot_be_written_is_no_obstacle(self):
        (self.folder / "cache").write_text("a file")
        done = self.upload()
        self.assertIn("no record", done.stderr)
        self.assert_uploaded()

    # ---- how far it is ----

    def test_a_terminal_shows_bytes_rate_and_files(self):
        self.hub.fail("PUT", "/parts/.*/4", stall=1)
        ours, theirs = pty.openpty()
        started = subprocess.Popen([program.PROGRAM, "upload", self.model, REPO], stderr=theirs,
                                   stdout=subprocess.DEVNULL, env=self.environment())
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        self.assertEqual(started.wait(timeout=60), 0)
        lines = shown.decode().split("\r\x1b[K")
        total = sum(map(len, self.files.values()))
        self.assertRegex(lines[1], r"%  .* of 1\.5 MB  .*/s")
        self.assertIn("[%s] 100%%  1.5 MB of 1.5 MB" % ("#" * 30), lines[-1])
        self.assertIn("7 of 7 files", lines[-1])
        self.assertEqual(round(total, -5), 1_500_000)

    # ---- files that change ----

    def test_a_file_that_changes_while_it_is_sent_is_noticed(self):
        self.hub.fail("PUT", "/parts/.*/4", stall=2)
        started = self.start()
        self.wait_until(lambda: self.hub.count("PUT", "/parts/.*/4"))
        path = self.model / "model-00001-of-00002.safetensors"
        with open(path, "r+b") as file:
            file.write(b"changed")
        _, errors = started.communicate(timeout=60)
        self.assertEqual(started.returncode, IO)
        self.assertIn("changed while it was uploaded", errors)
        self.assertIn(path.name, errors)
        self.assertEqual(self.hub.count("POST", "/commit/"), 0)
        self.assertEqual(self.hub.count("POST", "/complete_multipart"), 0)

    def test_a_file_that_changes_after_its_digest_leaves_no_parts_to_go_on_with(self):
        """Else what is sent of the new content would be joined with the old one's, should that return."""
        self.hub.fail("POST", "/batch", stall=2)
        started = self.start()
        self.wait_until(lambda: self.hub.count("POST", "/batch"))
        path = self.model / "model-00001-of-00002.safetensors"
        before = path.stat()
        path.write_bytes(content(5, 4 * PART - 5))
        _, errors = started.communicate(timeout=60)
        self.assertEqual(started.returncode, IO)
        self.assertIn("changed while it was uploaded", errors)
        self.assertEqual(self.recorded_parts(), 0)
        path.write_bytes(self.files[path.name])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.hub.requests.clear()
        self.upload()
        self.assert_uploaded()
        self.assertEqual(self.hub.done("PUT", "/parts/"), 4)


class MergeAndUploadTest(HubTest):
    def merge_to_hub(self, *flags, exit_code=0, token=WRITER):
        done = self.merge(SAMPLE, "--hf_upload_path", REPO, *flags, exit_code=exit_code,
                          env=self.environment(token))
        self.assertNotIn(WRITER, done.stdout + done.stderr)
        return done

    def merged(self):
        return {path.name: path.read_bytes() for path in self.out.iterdir()}

    def test_the_merged_model_arrives(self):
        done = self.merge_to_hub("--private", "--revision", "step-40", "--commit-message", "Step 40")
        self.assertEqual(self.hub.files(REPO, "step-40"), self.merged())
        self.assertIn("model.safetensors", self.merged())
        self.assertTrue(self.hub.repos[REPO].private)
        self.assertEqual(self.hub.titles(REPO), ["Step 40"])
        self.assertIn("merged 27 tensors", done.stdout)
        self.assertIn("uploaded 4 files", done.stdout)

    def test_as_json(self):
        report = json.loads(self.merge_to_hub("--json").stdout)
        self.assertEqual((report["status"], report["tensors"], report["upload"]["files_sent"]),
                         ("ok", 27, 4))
        self.assertEqual(report["upload"]["repository"], "%s/%s" % (self.hub.url, REPO))

    def test_a_failed_upload_leaves_the_merged_model_whole(self):
        self.hub.fail("POST", "/commit/", times=99, status=403)
        done = self.merge_to_hub("--private", exit_code=IO)
        self.run_program("verify", self.out, "--local_dir", SAMPLE, exit_code=0)
        hint = "shardkit upload %s %s --revision main --private" % (self.out.resolve(), REPO)
        self.assertIn(hint, done.stderr)
        self.assertIn("may not commit", done.stderr)
        self.hub.faults.clear()
        self.run_program(*hint.split()[1:], exit_code=0, env=self.environment())
        self.assertEqual(self.hub.files(REPO), self.merged())

    def test_the_same_command_goes_on_with_the_upload_and_merges_no_more(self):
        self.hub.fail("POST", "/commit/", status=403)
        self.merge_to_hub(exit_code=IO)
        before = program.snapshot(self.out)
        done = self.merge_to_hub()
        self.assertIn("holds this merge already", done.stdout)
        self.assertEqual(program.snapshot(self.out), before)
        self.assertEqual(self.hub.files(REPO), self.merged())

    def test_a_target_of_another_merge_or_a_damaged_one_is_refused_as_ever(self):
        self.hub.fail("POST", "/commit/", status=403)
        self.merge_to_hub(exit_code=IO)
        self.hub.requests.clear()
        self.assertIn("not empty", self.merge_to_hub("--dtype", "keep", exit_code=USAGE).stderr)
        weights = self.out / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"x")
        self.assertIn("not empty", self.merge_to_hub(exit_code=USAGE).stderr)
        self.assertEqual(self.hub.requests, [])

    def test_a_failed_upload_as_json(self):
        report = json.loads(self.merge_to_hub("--json", token="hf_unknown", exit_code=IO).stdout)
        self.assertEqual((report["status"], report["tensors"]), ("upload_failed", 27))
        self.assertEqual((report["upload"]["status"], report["upload"]["code"]), ("error", "io"))

    def test_what_is_wrong_with_the_upload_is_said_before_the_merge(self):
        self.assertIn("no token", self.merge_to_hub(token=None, exit_code=USAGE).stderr)
        for name in ("no-org", ""):
            done = self.merge(SAMPLE, "--hf_upload_path=" + name, exit_code=USAGE,
                              env=self.environment())
            self.assertRegex(done.stderr, "ORG/NAME|hf-upload-path")
        for flag in (["--private"], ["--revision", "x"], ["--commit-message", "x"]):
            done = self.merge(SAMPLE, *flag, exit_code=USAGE)
            self.assertIn("--hf-upload-path", done.stderr)
        self.assertFalse(self.out.exists())
        self.assertEqual(self.hub.requests, [])

    def test_a_dry_run_and_a_refused_merge_send_nothing(self):
        self.merge_to_hub("--dry-run")
        self.merge(self.folder, "--hf_upload_path", REPO, exit_code=REFUSED, env=self.environment())
        self.assertEqual(self.hub.requests, [])


class OnePartTest(program.ProgramTest):
    """TLS, and objects that the storage takes in one request."""

    def certificate(self):
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        return certificate, key

    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_bytes(b"{}")
        (self.model / "model.safetensors").write_bytes(BIG)

    def upload(self, hub, exit_code=0, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("HF_", "SSL_CERT", "XDG_"))}
        environment.update({"HOME": str(self.folder), "HF_ENDPOINT": hub.url, "HF_TOKEN": WRITER,
                            **variables})
        return self.run_program("upload", self.model, REPO, exit_code=exit_code, env=environment)

    def test_over_tls_with_a_certificate_that_is_known_and_never_without(self):
        certificate, key = self.certificate()
        with StandInHub(self.folder / "hub", certificate=(certificate, key)) as hub:
            done = self.upload(hub, exit_code=IO)
            self.assertIn("certificate", done.stderr)
            self.assertIn("1 try", done.stderr)
            self.assertEqual(hub.requests, [])
            self.upload(hub, SSL_CERT_FILE=str(certificate))
            self.assertEqual(hub.files(REPO)["model.safetensors"], BIG)
            # An address without encryption gets nothing.
            (self.model / "model.safetensors").write_bytes(BIG[1:])
            hub.storage_url = hub.storage_url.replace("https:", "http:")
            done = self.upload(hub, exit_code=IO, SSL_CERT_FILE=str(certificate))
            self.assertIn("without encryption", done.stderr)
            # Nor does a redirect out of it.
            hub.fail("POST", "/api/repos/create", status=307, headers={"Location": "http://localhost:1/"})
            done = self.upload(hub, exit_code=IO, SSL_CERT_FILE=str(certificate))
            self.assertIn("https to http", done.stderr)

    def test_a_dropped_connection_sends_the_object_again(self):
        with StandInHub(self.folder / "hub") as hub:
            hub.fail("PUT", "/objects/", drop_after=500_000)
            self.upload(hub)
            self.assertEqual(hub.files(REPO)["model.safetensors"], BIG)
            self.assertEqual(hub.count("PUT", "/objects/"), 2)

    def test_a_hub_behind_a_path(self):
        """HF_ENDPOINT may have one, as mirrors do."""
        with StandInHub(self.folder / "hub") as hub:
            done = self.upload(hub, exit_code=IO, HF_ENDPOINT=hub.url + "/mirror/")
            self.assertEqual(hub.requests[0].path, "/mirror/api/repos/create")
            self.assertIn("no repository %s/mirror/%s" % (hub.url, REPO), done.stderr)


if __name__ == "__main__":
    unittest.main()
