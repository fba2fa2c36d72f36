#!/usr/bin/env python3
"""A small model hub on 127.0.0.1, with faults to order: what the tests of the hub room talk to.

    python3 fake_hub.py ROOT        serves ROOT/ORG/NAME/FILE, prints `LISTENING http://127.0.0.1:PORT`

It answers as the Hugging Face hub does, as far as rtts and Python's `huggingface_hub` ask it:

    GET /api/models/ORG/NAME/revision/REV              {"sha": COMMIT, "siblings": [...], ...}
    GET /api/models/ORG/NAME/tree/REV?recursive=true   [{"type", "path", "size", "oid", "lfs"}], in pages
    GET, HEAD /ORG/NAME/resolve/REV/FILE               the bytes of a short file; a redirect to /cdn for a long one
    GET, HEAD /cdn/ORG/NAME/FILE                       the bytes of a long file

Files of LFS_FROM bytes and more count as kept in LFS. Every revision but `nowhere` is the one commit there is. An
unknown model is 401 to a caller without a token, 404 to one with any.

For the test:

    POST /__fault   {"path": "ORG/NAME/FILE", "kind": KIND, "bytes": N, "times": T}    T = -1: for ever; left out: once
        truncate  send N bytes, then drop the connection     short    the file ends after N bytes, headers included
        corrupt   byte N is flipped                          norange  the whole file, whatever range was asked for
        status    answer with status N                       slow     N ms between blocks of 64 KiB
        pointer   a Git LFS pointer in place of the content  listed   the list of files says N bytes
      {"path": "ORG/NAME", "kind": "gated", "token": T}      401 without a token, 403 with another one
      {"path": "ORG/NAME", "kind": "moved", "to": "A/B"}     redirects, without a host, to the new name
      {"path": "ORG/NAME", "kind": "info", "bytes": N}       the description is answered with status N
    POST /__reset   forget all faults and the log
    GET  /__log     [{"method", "path", "range", "auth", "status", "sent"}]
"""

import hashlib
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LFS_FROM = 1024
BLOCK = 64 * 1024
PAGE = 5
FILE_FAULTS = ("truncate", "short", "corrupt", "norange", "status", "slow", "pointer")

lock = threading.Lock()
faults = []
log = []
described = {}


def describe(root, repo, name):
    """Size and hashes of a file, worked out once for every state of it."""
    path = root / repo / name
    stat = path.stat()
    key = (path, stat.st_size, stat.st_mtime_ns)
    if key not in described:
        data = path.read_bytes()
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        described[key] = {"size": len(data), "git": git, "sha256": hashlib.sha256(data).hexdigest()}
    return described[key]


def names(root, repo):
    base = root / repo
    return sorted(path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_file())


def commit(root, repo):
    parts = "".join(name + describe(root, repo, name)["git"] for name in names(root, repo))
    return hashlib.sha1(parts.encode()).hexdigest()


def order(path, *kinds):
    """The next fault ordered for `path`, counted down."""
    with lock:
        for fault in faults:
            if fault["path"] == path and fault["kind"] in kinds and fault.get("times", 1) != 0:
                fault["times"] = fault.get("times", 1) - 1
                return fault
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root = pathlib.Path()

    def log_message(self, *_):
        pass

    def note(self, status, sent=0):
        with lock:
            log.append({
                "method": self.command, "path": self.path, "range": self.headers.get("Range"),
                "auth": self.headers.get("Authorization"), "status": status, "sent": sent,
            })

    def answer(self, status, value=None, **headers):
        body = b"" if value is None else json.dumps(value).encode()
        self.note(status, len(body))
        self.send_response(status)
        headers.setdefault("Content_Length", len(body))
        for key, text in headers.items():
            self.send_header(key.replace("_", "-"), str(text))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, reason):
        self.answer(status, {"error": reason}, X_Error_Code=reason, X_Error_Message=reason)

    def control(self, value):
        """Answers the test itself; the log holds only what the client under test asked for."""
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with lock:
            if self.path == "/__fault":
                faults.append(json.loads(body))
            elif self.path == "/__reset":
                faults.clear()
                log.clear()
        self.control({})

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(address.path)
        if path == "/__log":
            with lock:
                seen = list(log)
            self.control(seen)
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            if self.open(found[1], found[2]):
                self.info(found[1])
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            if self.open(found[1], found[2]):
                self.tree(found[1], urllib.parse.parse_qs(address.query))
        elif found := re.fullmatch(r"/cdn/([^/]+/[^/]+)/(.+)", path):
            self.content(found[1], found[2], {})
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            if self.open(found[1], found[2]):
                self.resolve(found[1], found[3])
        else:
            self.refuse(404, "EntryNotFound")

    def open(self, repo, revision):
        """Whether the caller may see the repository; answers where not."""
        token = self.headers.get("Authorization")
        with lock:
            standing = [fault for fault in faults if fault["path"] == repo]
        for fault in standing:
            if fault["kind"] == "moved":
                self.answer(307, None, Location=self.path.replace(repo, fault["to"]))
                return False
            if fault["kind"] == "gated" and token != "Bearer " + fault["token"]:
                self.refuse(403 if token else 401, "GatedRepo")
                return False
        if ".." in repo or not (self.root / repo).is_dir():
            self.refuse(404 if token else 401, "RepoNotFound")
            return False
        if revision == "nowhere":
            self.refuse(404, "RevisionNotFound")
            return False
        return True

    def info(self, repo):
        if fault := order(repo, "info"):
            self.refuse(fault["bytes"], "Injected")
            return
        files = [{"rfilename": name} for name in names(self.root, repo)]
        self.answer(200, {"id": repo, "modelId": repo, "sha": commit(self.root, repo), "siblings": files,
                          "private": False, "gated": False, "tags": [], "downloads": 0, "likes": 0})

    def tree(self, repo, query):
        entries = []
        for name in names(self.root, repo):
            facts = describe(self.root, repo, name)
            fault = order(f"{repo}/{name}", "listed")
            size = fault["bytes"] if fault else facts["size"]
            entry = {"type": "file", "path": name, "size": size, "oid": facts["git"]}
            if facts["size"] >= LFS_FROM:
                entry["lfs"] = {"oid": facts["sha256"], "size": size, "pointerSize": 134}
            entries.append(entry)
        start = int(query.get("cursor", ["0"])[0])
        more = {}
        if start + PAGE < len(entries):
            # A mirror passes on the links of the hub behind it: only their query is of use.
            more["Link"] = f'<http://hub.invalid/api?recursive=true&cursor={start + PAGE}>; rel="next"'
        self.answer(200, entries[start:start + PAGE], **more)

    def resolve(self, repo, name):
        if not (self.root / repo / name).is_file():
            self.refuse(404, "EntryNotFound")
            return
        facts = describe(self.root, repo, name)
        headers = {"X_Repo_Commit": commit(self.root, repo), "ETag": f'"{facts["git"]}"'}
        if facts["size"] < LFS_FROM:
            self.content(repo, name, headers)
            return
        where = f"http://{self.headers['Host']}/cdn/{repo}/{urllib.parse.quote(name)}"
        self.answer(302, None, Location=where, X_Linked_Etag=f'"{facts["sha256"]}"',
                    X_Linked_Size=facts["size"], **headers)

    def content(self, repo, name, headers):
        fault = order(f"{repo}/{name}", *FILE_FAULTS) if self.command == "GET" else None
        kind, count = (fault["kind"], fault.get("bytes", 0)) if fault else ("", 0)
        if kind == "status":
            self.refuse(count, "Injected")
            return
        data = (self.root / repo / name).read_bytes()
        if kind == "short":
            data = data[:count]
        elif kind == "corrupt":
            data = data[:count] + bytes([data[count] ^ 255]) + data[count + 1:]
        elif kind == "pointer":
            facts = describe(self.root, repo, name)
            data = (f"version https://git-lfs.github.com/spec/v1\noid sha256:{facts['sha256']}\n"
                    f"size {facts['size']}\n").encode()
        start, end, status = 0, len(data), 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if asked and kind != "norange":
            start = int(asked[1])
            end = min(int(asked[2]) + 1, end) if asked[2] else end
            if start >= len(data):
                self.answer(416, None, Content_Range=f"bytes */{len(data)}")
                return
            status = 206
            headers = {**headers, "Content_Range": f"bytes {start}-{end - 1}/{len(data)}"}
        self.send_response(status)
        for key, text in {**headers, "Content_Length": end - start, "Accept_Ranges": "bytes"}.items():
            self.send_header(key.replace("_", "-"), str(text))
        self.end_headers()
        sent = 0
        if self.command == "GET":
            stop = min(end, start + count) if kind == "truncate" else end
            try:
                for at in range(start, stop, BLOCK):
                    block = data[at:min(at + BLOCK, stop)]
                    self.wfile.write(block)
                    sent += len(block)
                    if kind == "slow":
                        time.sleep(count / 1000)
            except OSError:
                self.close_connection = True
            if kind == "truncate":
                self.close_connection = True
        self.note(status, sent)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # Clients that hang up are part of the game.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    Handler.root = pathlib.Path(sys.argv[1])
    server = Server(("127.0.0.1", 0), Handler)
    print(f"LISTENING http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
