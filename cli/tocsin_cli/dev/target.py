"""What the sample jobs call: a small HTTP server in the dev process, on loopback.

`/hello` greets; `/flaky` answers 503 to the first two attempts of each run and 200 to the third; `/dst` says
which nominal time it was called for; `/canary` is for the dev server's own check. Attempts are counted by the
Idempotency-Key, which is the run ID; the last KEYS runs are remembered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

KEYS = 1000
_FAILURES = 2
_LARGEST_BODY = 1_048_576


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self.seen: OrderedDict[str, int] = OrderedDict()
        self.lock = threading.Lock()

    def count(self, key: str) -> int:
        """How often this run has called, this call included."""
        with self.lock:
            calls = self.seen.pop(key, 0) + 1
            self.seen[key] = calls
            if len(self.seen) > KEYS:
                self.seen.popitem(last=False)
            return calls


class Target:
    """The server; it runs in a thread of its own until `stop`."""

    def __init__(self, host: str, port: int) -> None:
        self._server = _Server((host, port))
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="target", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: ClassVar[dict[str, str]] = {
        "/hello": "hello from tocsin",
        "/dst": "good morning",
        "/canary": "alive",
    }

    def _handle(self) -> None:
        self.rfile.read(min(int(self.headers.get("content-length") or 0), _LARGEST_BODY))
        path = self.path.partition("?")[0]
        run = self.headers.get("idempotency-key", "nobody").strip('"')
        if path == "/flaky":
            calls = self.server.count(run) if isinstance(self.server, _Server) else 0
            if calls <= _FAILURES:
                self._send(503, f"attempt {calls} of {run} fails on purpose")
            else:
                self._send(200, f"attempt {calls} of {run} works")
        elif path in self.answers:
            self._send(200, f"{self.answers[path]}, run {run}")
        else:
            self._send(404, f"the sample target has no {path}")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _send(self, status: int, text: str) -> None:
        content = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the runs tell what happened."""
