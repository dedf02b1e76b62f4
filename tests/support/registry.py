"""A registry with one image, on the loopback address: what `docker pull` asks for, and no more.

    python registry.py PORT ROOT.tar

It says `ready` when it listens, and ends with its stdin.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_KIND = "application/vnd.docker.distribution.manifest.v2+json"


def blob_of(data: bytes) -> dict[str, object]:
    return {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


def contents(root: bytes) -> dict[str, tuple[str, bytes]]:
    """Path -> type and content."""
    layer = gzip.compress(root, 1)
    difference = f"sha256:{hashlib.sha256(root).hexdigest()}"
    about = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        # What an image may ask for, and nobody follows.
        "config": {"Entrypoint": ["/evil"], "User": "5", "Env": ["FROM=image"]},
        "rootfs": {"type": "layers", "diff_ids": [difference]},
    }
    config = json.dumps(about).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _KIND,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **blob_of(config)},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **blob_of(layer)}],
        }
    ).encode()
    found = {"/v2/": ("application/json", b"{}")}
    for data in (layer, config):
        found[f"/v2/test/image/blobs/{blob_of(data)['digest']}"] = ("application/octet-stream", data)
    for tag in ("1", blob_of(manifest)["digest"]):
        found[f"/v2/test/image/manifests/{tag}"] = (_KIND, manifest)
    return found


def serve(port: int, found: dict[str, tuple[str, bytes]]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            kind, data = found.get(self.path, ("", b""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Docker-Content-Digest", str(blob_of(data)["digest"]))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(found.get(self.path, ("", b""))[1])

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]), contents(Path(sys.argv[2]).read_bytes()))
