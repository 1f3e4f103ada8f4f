"""A chat endpoint on loopback for the tests of judges: it answers by a script, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = {"verdict": "accept", "score": 0.75, "reasons": ["the count is what the shell printed"]}


@dataclass
class Say:
    """One response. `text` is what the model says; `raw` replaces the whole body; `hold` waits before answering."""

    text: str | None = json.dumps(GOOD)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    usage: tuple[int, int] | None = (100, 10)
    finish_reason: str = "stop"
    refusal: str | None = None
    hold: threading.Event | None = None
    code: str | None = None

    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.status != 200:
            return json.dumps({"error": {"message": "sk-should-not-be-repeated", "code": self.code}}).encode()
        choice = {
            "index": 0,
            "finish_reason": self.finish_reason,
            "message": {"role": "assistant", "content": self.text, "refusal": self.refusal},
        }
        value: dict[str, Any] = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m-1",
            "choices": [choice],
        }
        if self.usage:
            value["usage"] = {
                "prompt_tokens": self.usage[0],
                "completion_tokens": self.usage[1],
                "total_tokens": sum(self.usage),
            }
        return json.dumps(value).encode()


@dataclass
class Stub:
    """What the endpoint was asked."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def contents(self) -> list[str]:
        return [r["messages"][-1]["content"] for r in self.requests]


@contextmanager
def serving(script: Callable[[str, int], Say] | None = None) -> Iterator[Stub]:
    """An endpoint. `script` gets the content and how often that content was asked for before."""
    stub = Stub()
    released = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            content = request["messages"][-1]["content"]
            with stub.lock:
                before = stub.contents.count(content)
                stub.requests.append(request)
                stub.headers.append({k.lower(): v for k, v in self.headers.items()})
                stub.paths.append(self.path)
                stub.in_flight += 1
                stub.most_in_flight = max(stub.most_in_flight, stub.in_flight)
            say = script(content, before) if script else Say()
            while say.hold and not say.hold.wait(0.02) and not released.is_set():
                pass
            body = say.body()
            with stub.lock:
                stub.in_flight -= 1
            try:
                self.send_response(say.status)
                for name, value in {
                    "content-type": "application/json",
                    "content-length": str(len(body)),
                    **say.headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client gave up, as it should after its timeout

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        released.set()
        server.shutdown()
        server.server_close()
        thread.join()
