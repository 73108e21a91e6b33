"""The official huggingface_hub client and shardkit at one stand-in Hub: what one sends the other finds.

That the stand-in is true to the real Hub is what the first test shows; the others compare shardkit
with the official client there. Nothing leaves this machine.
"""
import hashlib
import json
import os
import subprocess
import sys

import pytest

from checkpoints import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests" / "hub"))
from stand_in_hub import GIT_ATTRIBUTES, WRITER, StandInHub  # noqa: E402

REPO = "org/model"
PART = 1_000_000

UPLOAD = """
import sys, huggingface_hub
folder, repo, revision, private, message = sys.argv[1:]
api = huggingface_hub.HfApi()
api.create_repo(repo, private=private == "private", exist_ok=True)
if revision != "main":
    api.create_branch(repo, branch=revision, exist_ok=True)
api.upload_folder(folder_path=folder, repo_id=repo, revision=revision, commit_message=message)
"""
DOWNLOAD = """
import sys, huggingface_hub
repo, revision, folder = sys.argv[1:]
huggingface_hub.snapshot_download(repo, revision=revision, local_dir=folder)
"""
PARTS = [None, PART]


def content(seed, size):
    return b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(size // 32 + 1))[:size]


FILES = {
    "config.json": b'{"model_type": "llama"}\n',
    "README.md": b"---\nlicense: apache-2.0\n---\n# A model\n",
    "model-00001-of-00002.safetensors": content(1, 3 * PART + 17),
    "model-00002-of-00002.safetensors": content(2, PART),
    "model.safetensors.index.json": b'{"weight_map": {}}\n',
    "tokenizer.json": content(3, 300_000).hex().encode(),
    "sub folder/d\u00e9j\u00e0 vu + 100%.txt": b"text\n",
    "sub folder/deeper/training_args.bin": b"\0\1\2",
    "empty.txt": b"",
    ".hidden": b"hidden\n",
}


class Place:
    """A hub, a folder to send, and both clients."""

    def __init__(self, path, part_bytes):
        self.path = path
        self.hub = StandInHub(path / "hub", part_bytes=part_bytes)
        self.folder = path / "sent"
        for name, data in FILES.items():
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_", "HUGGING"))}
        return dict(kept, HOME=str(self.path / "home"), HF_ENDPOINT=self.hub.url, HF_TOKEN=WRITER,
                    HF_HOME=str(self.path / "home"), HF_HUB_DISABLE_XET="1",
                    HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")

    def run(self, *command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              env=self.environment(), timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def official_upload(self, revision="main", private="public", message="by the official client"):
        self.run(sys.executable, "-c", UPLOAD, self.folder, REPO, revision, private, message)

    def official_download(self, revision="main"):
        """{path: bytes} of what huggingface_hub leaves in a folder."""
        target = self.path / ("downloaded-%d" % len(list(self.path.iterdir())))
        self.run(sys.executable, "-c", DOWNLOAD, REPO, revision, target)
        return {path.relative_to(target).as_posix(): path.read_bytes()
                for path in target.rglob("*")
                if path.is_file() and ".cache" not in path.parts
                and path.read_bytes() != GIT_ATTRIBUTES}

    def our_upload(self, *flags):
        return json.loads(self.run(PROGRAM, "upload", self.folder, REPO, "--json", *flags))


@pytest.fixture
def place(tmp_path, request):
    made = Place(tmp_path, getattr(request, "param", None))
    yield made
    made.hub.close()


@pytest.mark.parametrize("place", PARTS, indirect=True)
def test_the_stand_in_is_true_to_the_official_client(place):
    place.official_upload()
    assert place.hub.files(REPO) == FILES
    assert place.official_download() == FILES
    if place.hub.part_bytes:
        assert place.hub.done("PUT", "/parts/") == 4


@pytest.mark.parametrize("place", PARTS, indirect=True)
def test_what_we_upload_the_official_client_downloads(place):
    report = place.our_upload()
    assert report["files_sent"] == len(FILES)
    assert place.official_download() == FILES


@pytest.mark.parametrize("place", PARTS, indirect=True)
def test_both_uploads_make_the_same_tree(place):
    """Content, and what is a regular file and what LFS, on branches of one repository."""
    place.official_upload()
    place.our_upload("--revision", "ours/1")
    assert place.hub.tree(REPO, "ours/1") == place.hub.tree(REPO, "main")


def test_what_the_official_client_sent_is_not_sent_again(place):
    place.official_upload()
    report = place.our_upload()
    assert (report["commits"], report["files_there"]) == ([], len(FILES))
    place.hub.requests.clear()
    place.official_upload()
    assert place.hub.count("PUT", "") == 0


def test_what_we_sent_the_official_client_does_not_send_again(place):
    place.our_upload()
    place.hub.requests.clear()
    place.official_upload()
    assert place.hub.count("PUT", "") == 0
    assert place.hub.count("POST", "/commit/") == 0


def test_private_and_revisions(place):
    place.our_upload("--private", "--revision", "exp/1", "--commit-message", "Ours\n\nmore")
    assert place.hub.repos[REPO].private
    assert place.official_download("exp/1") == FILES
    assert place.official_download() == {}
    title, description, _ = list(place.hub.repos[REPO].commits.values())[-1]
    assert (title, description) == ("Ours", "\nmore")
    place.official_upload("official/1", "private", "Theirs")
    assert place.hub.tree(REPO, "official/1") == place.hub.tree(REPO, "exp/1")


def test_commits_are_the_same_lines(place):
    """The bodies of both clients' commits, line by line as JSON, in any order."""
    bodies = []
    commit = place.hub.commit

    def keep(token, name, revision, body):
        bodies.append(body)
        return commit(token, name, revision, body)

    place.hub.commit = keep
    place.official_upload("theirs", message="One")
    place.our_upload("--revision", "ours", "--commit-message", "One")
    official, ours = ([json.loads(line) for line in body.splitlines()] for body in bodies)
    assert official[0] == ours[0]

    def by_path(lines):
        return sorted(lines[1:], key=lambda line: line["value"]["path"])

    assert by_path(official) == by_path(ours)
