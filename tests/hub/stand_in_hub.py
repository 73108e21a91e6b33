"""A Hugging Face Hub in miniature, for tests: it keeps what it is sent, and fails when it is told to.

    with StandInHub(folder) as hub:      two servers on threads: hub.url, and the storage beside it
        hub.fail("PUT", "/parts/.*/3", times=1, status=503)
        ...
        hub.files("org/model")           what a branch holds: {path: bytes}

    stand_in_hub.py FOLDER [--part-bytes N] [--lfs-bytes N]       prints its address, serves until killed

The endpoints and their answers are those that huggingface_hub 2.4 speaks to (hf_api.py,
_commit_api.py, lfs.py, file_download.py). tests/interop/test_hub.py shows that the official client
uploads to it and downloads from it. It is strict where the real ones are: sizes and SHA-256 of
objects, part numbers and ETags, signatures of addresses, rights of tokens; the storage refuses a
request that brings a token. Standard library only.
"""
import argparse
import base64
import fnmatch
import hashlib
import hmac
import json
import pathlib
import re
import secrets
import socket
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRITER, READER, OTHER = "hf_writer", "hf_reader", "hf_other"
CHUNK = 1 << 20
LARGEST_REGULAR = 10_000_000
GIT_ATTRIBUTES = b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"
LFS_NAMES = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


class Refusal(Exception):
    def __init__(self, status, message, code=None, headers=None, **members):
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {"X-Error-Message": message, **(headers or {})}
        if code:
            self.headers["X-Error-Code"] = code
        self.members = {"error": message, **members}


class Drop(Exception):
    """The connection is cut without another word."""


class Fault:
    """What happens to the next `times` requests that match, after `skip` others.

    status and headers: that answer instead, once the body is read. drop_after: the connection is cut
    when so many bytes of the body have come. drop_answer: the request is carried out, and the
    connection cut instead of the answer. stall: seconds to wait before the body is read.
    """

    def __init__(self, method, path, times=1, skip=0, status=None, headers=None, body="",
                 drop_after=None, drop_answer=False, stall=0):
        self.method, self.path = method, re.compile(path)
        self.times, self.skip = times, skip
        self.status, self.headers, self.body = status, headers or {}, body
        self.drop_after, self.drop_answer, self.stall = drop_after, drop_answer, stall


class Repo:
    def __init__(self, private):
        self.private = private
        self.commits = {}   # id -> (title, description, {path: (kind, id of content, size)}), oldest first
        self.branches = {}

    def add_commit(self, branch, title, description, tree):
        text = json.dumps([title, sorted(tree.items()), len(self.commits)])
        oid = hashlib.sha1(text.encode()).hexdigest()
        self.commits[oid] = (title, description, tree)
        self.branches[branch] = oid
        return oid


class Request:
    """What the log keeps of a request."""

    def __init__(self, server, method, path, token):
        self.server, self.method, self.path, self.token = server, method, path, token
        self.status = None
        self.received = 0


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class StandInHub:
    def __init__(self, folder, part_bytes=None, lfs_bytes=LARGEST_REGULAR, certificate=None):
        self.folder = pathlib.Path(folder)
        (self.folder / "objects").mkdir(parents=True, exist_ok=True)
        (self.folder / "parts").mkdir(exist_ok=True)
        self.part_bytes = part_bytes     # None: objects are sent in one request
        self.lfs_bytes = lfs_bytes
        self.users = {WRITER: {"org", "me"}, READER: set(), OTHER: {"other"}}
        self.repos = {}
        self.blobs = {}     # git's id -> bytes
        self.uploads = {}   # id -> (oid, size, part_bytes, {number: etag})
        self.verified = set()
        self.faults = []
        self.requests = []
        self.lock = threading.RLock()
        self.secret = secrets.token_bytes(16)
        self.epoch = 0      # of signatures
        self.transfer = None  # what the batch says to have chosen
        self.servers = [Server(self, name, certificate) for name in ("hub", "storage")]
        self.url, self.storage_url = (server.url for server in self.servers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in self.servers:
            server.close()

    # ---- for tests ----

    def fail(self, method, path, **keywords):
        """`path` is a pattern for path and query. See Fault."""
        fault = Fault(method, path, **keywords)
        with self.lock:
            self.faults.append(fault)
        return fault

    def expire_addresses(self):
        """No address that was given out until now is good any more."""
        self.epoch += 1

    def count(self, method, path):
        """How many requests came, whatever became of them."""
        return sum(1 for r in self.requests if r.method == method and re.search(path, r.path))

    def done(self, method, path):
        return sum(1 for r in self.requests
                   if r.method == method and re.search(path, r.path) and r.status in (200, 201))

    def tree(self, name, branch="main"):
        repo = self.repos[name]
        return repo.commits[repo.branches[branch]][2]

    def files(self, name, branch="main"):
        """{path: bytes}, but for the .gitattributes that every repository starts with."""
        return {path: self.content(entry) for path, entry in self.tree(name, branch).items()
                if self.content(entry) != GIT_ATTRIBUTES}

    def lfs_paths(self, name, branch="main"):
        return sorted(path for path, entry in self.tree(name, branch).items() if entry[0] == "lfs")

    def titles(self, name):
        """Of all commits, oldest first, but the first of all."""
        return [title for title, _, _ in self.repos[name].commits.values()][1:]

    def content(self, entry):
        kind, oid, _ = entry
        return self.object_path(oid).read_bytes() if kind == "lfs" else self.blobs[oid]

    def object_path(self, oid):
        return self.folder / "objects" / oid

    def make_repo(self, name, private=False):
        repo = self.repos[name] = Repo(private)
        repo.add_commit("main", "initial commit", "", {".gitattributes": self.blob(GIT_ATTRIBUTES)})
        return repo

    def blob(self, data):
        oid = git_blob(data)
        self.blobs[oid] = data
        return ("file", oid, len(data))

    # ---- addresses that are permissions ----

    def sign(self, path):
        mark = hmac.new(self.secret, ("%s %d" % (path, self.epoch)).encode(), "sha256").hexdigest()
        return "%s?signature=%s" % (path, mark)

    def check_signature(self, path, query):
        if not hmac.compare_digest(self.sign(path), "%s?signature=%s" % (path, query.get("signature"))):
            raise Refusal(403, "Request has expired")

    # ---- rights ----

    def user_of(self, token):
        if token is None:
            return None
        if token not in self.users:
            raise Refusal(401, "Invalid username or password.")
        return self.users[token]

    def repo_for(self, name, token, write=False):
        user = self.user_of(token)
        repo = self.repos.get(name)
        mine = user is not None and name.split("/")[0] in user
        if repo is None or (repo.private and not mine and token != READER):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        if write and user is None:
            raise Refusal(401, "Invalid username or password.")
        if write and not mine:
            raise Refusal(403, "Forbidden: you must use a write token to upload to a repository.")
        return repo

    def commit_of(self, repo, revision):
        oid = repo.branches.get(revision, revision)
        if oid not in repo.commits:
            raise Refusal(404, "Invalid rev id: %s" % revision, "RevisionNotFound")
        return oid

    # ---- endpoints ----

    def create_repo(self, token, body):
        user = self.user_of(token)
        asked = json.loads(body)
        owner = asked.get("organization") or "me"
        name = "%s/%s" % (owner, asked["name"])
        if user is None:
            raise Refusal(401, "Invalid username or password.")
        if owner not in user:
            raise Refusal(403, "You don't have the rights to create a model under the namespace \"%s\"."
                          % owner)
        if name in self.repos:
            raise Refusal(409, "You already created this model repo",
                          url="%s/%s" % (self.url, name))
        self.make_repo(name, asked.get("visibility") == "private")
        return {"url": "%s/%s" % (self.url, name), "id": secrets.token_hex(12)}

    def model_info(self, token, name, revision, query):
        repo = self.repo_for(name, token)
        oid = self.commit_of(repo, revision or "main")
        if "expand" in query:
            key = query["expand"]
            return {"id": name, key: {"private": repo.private, "sha": oid}[key]}
        siblings = [{"rfilename": path} for path in repo.commits[oid][2]]
        return {"id": name, "modelId": name, "private": repo.private, "sha": oid, "tags": [],
                "downloads": 0, "likes": 0, "siblings": siblings, "author": name.split("/")[0]}

    def list_tree(self, token, name, revision):
        repo = self.repo_for(name, token)
        tree = repo.commits[self.commit_of(repo, revision)][2]
        return [self.describe(path, entry) for path, entry in sorted(tree.items())]

    def describe(self, path, entry):
        kind, oid, size = entry
        described = {"type": "file", "path": path, "size": size, "oid": oid}
        if kind == "lfs":
            pointer = self.pointer(oid, size)
            described["oid"] = git_blob(pointer)
            described["lfs"] = {"oid": oid, "size": size, "pointerSize": len(pointer)}
        return described

    @staticmethod
    def pointer(oid, size):
        return ("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n"
                % (oid, size)).encode()

    def paths_info(self, token, name, revision, body):
        asked = urllib.parse.parse_qs(body.decode())
        paths = asked.get("paths") or json.loads(body)["paths"]
        return [entry for entry in self.list_tree(token, name, revision) if entry["path"] in paths]

    def create_branch(self, token, name, branch, body):
        repo = self.repo_for(name, token, write=True)
        if branch in repo.branches:
            raise Refusal(409, "Reference already exists")
        start = json.loads(body or b"{}").get("startingPoint", "main")
        repo.branches[branch] = self.commit_of(repo, start)
        return {}

    def refs(self, token, name):
        repo = self.repo_for(name, token)
        return {"branches": [{"name": branch, "ref": "refs/heads/" + branch, "targetCommit": oid}
                             for branch, oid in repo.branches.items()], "tags": [], "converts": []}

    def preupload(self, token, name, revision, body):
        repo = self.repo_for(name, token, write=True)
        tree = repo.commits[self.commit_of(repo, revision)][2]
        asked = json.loads(body)
        if len(asked["files"]) > 256:
            raise Refusal(413, "too many files")
        ignored = [line for line in asked.get("gitIgnore", "").splitlines() if line]
        answers = []
        for file in asked["files"]:
            sample = base64.b64decode(file["sample"], validate=True)
            if len(sample) != min(512, file["size"]):
                raise Refusal(400, "the sample of %s has %d bytes" % (file["path"], len(sample)))
            path = file["path"]
            is_lfs = (file["size"] > self.lfs_bytes or b"\0" in sample or
                      any(fnmatch.fnmatch(path, pattern) for pattern in LFS_NAMES))
            answer = {"path": path, "uploadMode": "lfs" if is_lfs else "regular",
                      "shouldIgnore": any(fnmatch.fnmatch(path, line) for line in ignored)}
            if path in tree:
                answer["oid"] = tree[path][1]
            answers.append(answer)
        return {"files": answers, "commitOid": self.commit_of(repo, revision)}

    def lfs_batch(self, token, name, body):
        self.repo_for(name, token, write=True)
        asked = json.loads(body)
        if asked["operation"] != "upload" or asked["hash_algo"] != "sha256":
            raise Refusal(422, "operation or hash_algo")
        if len(asked["objects"]) > 256:
            raise Refusal(413, "too many objects")
        if not set(asked["transfers"]) & {"basic", "multipart"}:
            raise Refusal(422, "transfers")
        answer = {"objects": [self.actions(name, **item) for item in asked["objects"]]}
        answer["transfer"] = self.transfer or ("multipart" if self.part_bytes else "basic")
        return answer

    def actions(self, name, oid, size):
        answer = {"oid": oid, "size": size, "authenticated": True}
        if not re.fullmatch("[0-9a-f]{64}", oid) or size < 1:
            return dict(answer, error={"code": 422, "message": "no object"})
        if oid in self.verified:
            return answer
        verify = {"href": "%s/%s.git/info/lfs/objects/verify" % (self.url, name), "header": {}}
        if not self.part_bytes or size <= self.part_bytes:
            href = self.storage_url + self.sign("/objects/" + oid)
            return dict(answer, actions={"upload": {"href": href}, "verify": verify})
        upload = secrets.token_hex(8)
        self.uploads[upload] = (oid, size, self.part_bytes, {})
        count = -(-size // self.part_bytes)
        header = {"chunk_size": str(self.part_bytes)}
        for number in range(1, count + 1):
            # With leading zeros, as the real one has them.
            header["%05d" % number] = self.storage_url + self.sign("/parts/%s/%d" % (upload, number))
        href = self.url + self.sign("/api/complete_multipart/" + upload)
        return dict(answer, actions={"upload": {"href": href, "header": header}, "verify": verify})

    def complete(self, upload, body):
        asked = json.loads(body)
        if upload not in self.uploads:
            raise Refusal(404, "The specified upload does not exist")
        oid, size, part_bytes, etags = self.uploads[upload]
        count = -(-size // part_bytes)
        if asked["oid"] != oid or [p["partNumber"] for p in asked["parts"]] != list(range(1, count + 1)):
            raise Refusal(400, "oid or part numbers")
        if [p["etag"] for p in asked["parts"]] != [etags.get(n) for n in range(1, count + 1)]:
            raise Refusal(400, "InvalidPart")
        whole = self.folder / "parts" / (upload + "-whole")
        digest = hashlib.sha256()
        with open(whole, "wb") as out:
            for number in range(1, count + 1):
                with open(self.folder / "parts" / ("%s-%d" % (upload, number)), "rb") as part:
                    while chunk := part.read(CHUNK):
                        digest.update(chunk)
                        out.write(chunk)
        if digest.hexdigest() != oid or whole.stat().st_size != size:
            raise Refusal(400, "the parts are not the object")
        whole.rename(self.object_path(oid))
        for number in range(1, count + 1):
            (self.folder / "parts" / ("%s-%d" % (upload, number))).unlink()
        del self.uploads[upload]
        return {"success": True}

    def verify(self, token, name, body):
        self.repo_for(name, token, write=True)
        asked = json.loads(body)
        path = self.object_path(asked["oid"])
        if not path.exists() or path.stat().st_size != asked["size"]:
            raise Refusal(404, "the object is not there")
        self.verified.add(asked["oid"])
        return {}

    def commit(self, token, name, revision, body):
        repo = self.repo_for(name, token, write=True)
        if revision not in repo.branches:
            raise Refusal(404, "Invalid rev id: %s" % revision, "RevisionNotFound")
        tree = dict(repo.commits[repo.branches[revision]][2])
        lines = [json.loads(line) for line in body.splitlines()]
        if not lines or lines[0]["key"] != "header" or not lines[0]["value"]["summary"]:
            raise Refusal(400, "no header")
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, repo.branches[revision]):
            raise Refusal(412, "A commit has happened since")
        for line in lines[1:]:
            value = line["value"]
            path = value["path"]
            if path.startswith("/") or ".." in path.split("/") or ".git" in path.split("/"):
                raise Refusal(400, "path: " + path)
            if line["key"] == "file":
                data = base64.b64decode(value["content"], validate=True)
                if value["encoding"] != "base64" or len(data) > LARGEST_REGULAR:
                    raise Refusal(400, "%s must be sent as LFS" % path)
                tree[path] = self.blob(data)
            elif line["key"] == "lfsFile":
                stored = self.object_path(value["oid"])
                if value["algo"] != "sha256" or not stored.exists():
                    raise Refusal(400, "LFS pointer pointed to a file that does not exist")
                size = stored.stat().st_size
                if value.get("size", size) != size or value["oid"] not in self.verified:
                    raise Refusal(400, "LFS object was not verified")
                tree[path] = ("lfs", value["oid"], size)
            elif line["key"] == "deletedFile":
                tree.pop(path)
            else:
                raise Refusal(400, line["key"])
        oid = repo.add_commit(revision, header["summary"], header["description"], tree)
        return {"success": True, "commitOid": oid, "hookOutput": "",
                "commitUrl": "%s/%s/commit/%s" % (self.url, name, oid)}


class Server:
    """One of the two: its own port, so its own origin."""

    def __init__(self, hub, name, certificate):
        handler = type("Handler", (Handler,), {"hub": hub, "name": name})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        # localhost, since certificates are for names.
        self.url = "%s://localhost:%d" % ("https" if certificate else "http", self.http.server_port)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


MODEL = r"/api/models/(?P<name>[^/]+/[^/]+)"
REVISION = r"/(?P<revision>[^/?]+)"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rbufsize = CHUNK
    disable_nagle_algorithm = True
    hub = name = None

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            pass

    def do_any(self):
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))
        authorization = self.headers.get("Authorization")
        self.token = authorization.removeprefix("Bearer ") if authorization else None
        self.left = int(self.headers.get("Content-Length") or 0)
        self.chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        self.record = Request(self.name, self.command, self.path, self.token)
        with self.hub.lock:
            self.hub.requests.append(self.record)
            self.fault = self.take_fault()
        if self.fault and self.fault.stall:
            time.sleep(self.fault.stall)
        try:
            self.answer(path)
        except Refusal as refusal:
            self.drain()
            self.respond(refusal.status, refusal.members, refusal.headers)
        except Drop:
            self.close_connection = True
            self.connection.close() if self.hub.url.startswith("https") else \
                self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_POST = do_PUT = do_any

    def take_fault(self):
        for fault in self.hub.faults:
            if fault.times > 0 and fault.method == self.command and fault.path.search(self.path):
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    # ---- the body ----

    def chunks(self):
        """The body piece by piece; cuts the connection where the fault says so."""
        limit = self.fault.drop_after if self.fault else None
        while True:
            if self.chunked:
                size = int(self.rfile.readline().split(b";")[0], 16)
                data = self.rfile.read(size)
                self.rfile.readline()
                self.chunked = size > 0
            else:
                data = self.rfile.read(min(CHUNK, self.left))
                if self.left and not data:
                    raise Drop()
                self.left -= len(data)
            if not data:
                return
            self.record.received += len(data)
            if limit is not None and self.record.received >= limit:
                raise Drop()
            yield data

    def drain(self):
        for _ in self.chunks():
            pass

    def body(self):
        return b"".join(self.chunks())

    # ---- the answer ----

    def respond(self, status, answer=None, headers=None, file=None):
        if self.fault and self.fault.drop_answer:
            raise Drop()
        self.record.status = status
        data = b"" if answer is None else answer if isinstance(answer, bytes) else \
            json.dumps(answer).encode()
        headers = dict(headers or {})
        headers.setdefault("Content-Length", str(file.stat().st_size if file else len(data)))
        if not isinstance(answer, bytes):
            headers.setdefault("Content-Type", "application/json; charset=utf-8")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if file:
            with open(file, "rb") as content:
                while chunk := content.read(CHUNK):
                    self.wfile.write(chunk)
        elif data:
            self.wfile.write(data)

    def answer(self, path):
        if self.fault and self.fault.status:
            self.drain()
            self.respond(self.fault.status, self.fault.body.encode(), self.fault.headers)
            return
        self.answer_storage(path) if self.name == "storage" else self.answer_hub(path)

    def answer_storage(self, path):
        hub = self.hub
        if self.token is not None:
            raise Refusal(400, "Only one auth mechanism allowed")
        hub.check_signature(path, self.query)
        if match := re.fullmatch(r"/objects/([0-9a-f]{64})", path):
            if self.command in ("GET", "HEAD"):
                self.respond(200, b"", file=hub.object_path(match[1]))
                return
            place = hub.folder / "parts" / secrets.token_hex(8)
            digest = self.store(place, "sha256")
            if digest != match[1]:
                place.unlink()
                raise Refusal(400, "the content's SHA-256 is %s" % digest)
            place.rename(hub.object_path(match[1]))
            self.respond(200, headers={"ETag": '"%s"' % digest[:32]})
        elif match := re.fullmatch(r"/parts/(\w+)/(\d+)", path):
            upload, number = match[1], int(match[2])
            if upload not in hub.uploads:
                raise Refusal(404, "NoSuchUpload")
            _, size, part_bytes, etags = hub.uploads[upload]
            place = hub.folder / "parts" / ("%s-%d" % (upload, number))
            temporary = place.with_suffix("." + secrets.token_hex(4))
            etag = '"%s"' % self.store(temporary, "md5")
            if temporary.stat().st_size != min(part_bytes, size - (number - 1) * part_bytes):
                raise Refusal(400, "EntityTooSmall or EntityTooLarge")
            temporary.rename(place)
            with hub.lock:
                etags[number] = etag
            self.respond(200, headers={"ETag": etag})
        else:
            raise Refusal(404, "no such address")

    def store(self, place, algorithm):
        digest = hashlib.new(algorithm)
        with open(place, "wb") as out:
            for data in self.chunks():
                digest.update(data)
                out.write(data)
        return digest.hexdigest()

    def answer_hub(self, path):
        hub, token = self.hub, self.token
        unquote = urllib.parse.unquote

        def matches(method, pattern):
            found = re.fullmatch(pattern, path) if self.command == method else None
            return {k: unquote(v) for k, v in found.groupdict().items() if v} if found else None

        if self.command == "POST":
            body = self.body()
            with hub.lock:
                if path == "/api/repos/create":
                    self.respond(200, hub.create_repo(token, body))
                elif path == "/api/validate-yaml":
                    self.respond(200, {"errors": [], "warnings": []})
                elif found := matches("POST", MODEL + "/preupload" + REVISION):
                    self.respond(200, hub.preupload(token, **found, body=body))
                elif found := matches("POST", MODEL + "/paths-info" + REVISION):
                    self.respond(200, hub.paths_info(token, **found, body=body))
                elif found := matches("POST", MODEL + "/branch/(?P<branch>[^/]+)"):
                    self.respond(201, hub.create_branch(token, **found, body=body))
                elif found := matches("POST", MODEL + "/commit" + REVISION):
                    self.respond(200, hub.commit(token, **found, body=body))
                elif found := matches("POST", r"/(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/batch"):
                    self.respond(200, hub.lfs_batch(token, **found, body=body), {
                        "Content-Type": "application/vnd.git-lfs+json; charset=utf-8"})
                elif found := matches("POST", r"/(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/verify"):
                    self.respond(200, hub.verify(token, **found, body=body))
                elif found := matches("POST", r"/api/complete_multipart/(?P<upload>\w+)"):
                    hub.check_signature(path, self.query)
                    self.respond(200, hub.complete(**found, body=body))
                else:
                    raise Refusal(404, "no such endpoint")
            return
        with hub.lock:
            if found := matches("GET", MODEL + "(/revision" + REVISION + ")?"):
                self.respond(200, hub.model_info(token, found["name"], found.get("revision"),
                                                 self.query))
                return
            if found := matches("GET", MODEL + "/tree" + REVISION + "/?"):
                self.respond(200, hub.list_tree(token, **found))
                return
            if found := matches("GET", MODEL + "/refs"):
                self.respond(200, hub.refs(token, **found))
                return
        self.resolve(path)

    def resolve(self, path):
        hub = self.hub
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if self.command not in ("GET", "HEAD") or not found:
            raise Refusal(404, "no such endpoint")
        name, revision, file = map(urllib.parse.unquote, found.groups())
        repo = hub.repo_for(name, self.token)
        commit = hub.commit_of(repo, revision)
        entry = repo.commits[commit][2].get(file)
        if entry is None:
            raise Refusal(404, "Entry not found", "EntryNotFound", {"X-Repo-Commit": commit})
        kind, oid, size = entry
        headers = {"X-Repo-Commit": commit, "ETag": '"%s"' % oid}
        if kind == "file":
            self.respond(200, hub.blobs[oid], headers)
            return
        headers.update({"X-Linked-Etag": '"%s"' % oid, "X-Linked-Size": str(size),
                        "Location": hub.storage_url + hub.sign("/objects/" + oid)})
        self.respond(302, b"", headers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--part-bytes", type=int)
    parser.add_argument("--lfs-bytes", type=int, default=LARGEST_REGULAR)
    arguments = parser.parse_args()
    with StandInHub(arguments.folder, arguments.part_bytes, arguments.lfs_bytes) as hub:
        print(hub.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
