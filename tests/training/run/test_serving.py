from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from expcomp.errors import ConfigError, ExpcompError
from expcomp.io.canon import digest_bytes
from expcomp.io.model_cards import MAX_BYTES
from expcomp.training.documents import document_digest, read_document
from expcomp.training.receipts import TrainingReceipt, trained_model_id
from expcomp.training.run.context import Ports
from expcomp.training.run.machine import resume_training
from expcomp.training.run.results import TrainingSuccess
from expcomp.training.run.serve_command import CommandServing
from expcomp.training.run.serve_endpoint import EndpointServing
from expcomp.training.run.serving import Served, ServingError, ServingOrder, StaticServing
from expcomp.training.run.spec import read_ports, read_run
from expcomp.training.run.trainer import PinnedFile
from expcomp.training.run.verify import verify_job
from tests.training.made import sha
from tests.training.run.jobs import PYTHON, PYTHON_DIGEST, WEIGHTS, failed, run
from tests.training.run.test_cli import spec, told


@dataclass
class Port:
    change: dict[str, Any] = field(default_factory=dict)
    error: ServingError | None = None
    work: Callable[[Path], object] = lambda artifact: None

    def publish(self, artifact: Path, order: ServingOrder, cancelled: Callable[[], bool]) -> Served:
        self.work(artifact)
        if self.error is not None:
            raise self.error
        right = {
            "model_id": order.model_id,
            "artifact_digest": order.artifact_digest,
            "evidence_digest": sha("evidence"),
        }
        return Served(**right | self.change)


def succeeded(result: object) -> Path:
    assert isinstance(result, TrainingSuccess), result
    assert result.served
    return Path(result.output_directory)


def test_the_digest_of_the_evidence_is_in_the_receipt(tmp_path: Path) -> None:
    job = succeeded(run(tmp_path, serving=Port()))
    assert read_document(TrainingReceipt, job / "receipt.json").checkpoint.serving_digest == sha("evidence")
    assert False not in verify_job(job)["ok"].to_list()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"artifact_digest": sha("other")}, sha("other")),
        ({"model_id": "expcomp-trained/latest"}, "expcomp-trained/latest"),
        ({"evidence_digest": "none"}, "servingDigest"),
    ],
)
def test_evidence_about_something_else_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    result = failed(run(tmp_path, serving=Port(change)))
    assert (result.stage, result.serving_may_exist, result.resumable) == ("serving", True, True)
    assert told in result.reason


@pytest.mark.parametrize("undone", [True, False])
def test_a_port_that_fails_says_whether_it_is_undone(tmp_path: Path, *, undone: bool) -> None:
    result = failed(run(tmp_path, serving=Port(error=ServingError("router down", undone=undone))))
    assert (result.reason, result.serving_may_exist) == ("router down", not undone)


def test_training_is_not_lost_when_serving_fails(tmp_path: Path) -> None:
    result = failed(run(tmp_path, serving=Port(error=ServingError("router down"))))
    job = Path(str(result.output_directory))
    assert succeeded(resume_training(job, Ports(serving=Port()))) == job
    assert False not in verify_job(job)["ok"].to_list()


def test_a_port_that_changes_the_checkpoint(tmp_path: Path) -> None:
    def change(artifact: Path) -> None:
        artifact.chmod(0o600)
        artifact.write_bytes(b"another")

    result = failed(run(tmp_path, serving=Port(work=change)))
    assert result.stage == "serving"
    assert "the checkpoint was changed" in result.reason


def test_static_serving(tmp_path: Path) -> None:
    succeeded(run(tmp_path, serving=StaticServing()))
    (tmp_path / "f").write_bytes(b"weights")
    order = ServingOrder(artifact_digest=sha("weights"), artifact_bytes=7, model_id="x/y")
    with pytest.raises(ServingError, match="not there") as error:
        StaticServing().publish(tmp_path / "none", order, lambda: False)
    assert error.value.undone


def test_files_that_are_served_elsewhere_are_hashed_there(tmp_path: Path) -> None:
    served = tmp_path / "served.bin"
    result = failed(run(tmp_path, serving=StaticServing(served)))
    assert (result.stage, result.serving_may_exist, result.resumable) == ("serving", False, True)
    job = Path(str(result.output_directory))
    served.write_bytes(b"another")
    result = failed(resume_training(job, Ports(serving=StaticServing(served))))
    assert (result.serving_may_exist, sha("another") in result.reason) == (True, True)
    served.write_bytes(WEIGHTS)
    assert succeeded(resume_training(job, Ports(serving=StaticServing(served)))) == job
    assert False not in verify_job(job)["ok"].to_list()


@pytest.mark.parametrize("answer", [None, True, {"model_id": "x"}])
def test_a_port_that_gives_no_evidence_at_all(tmp_path: Path, answer: object) -> None:
    port: Any = SimpleNamespace(publish=lambda *_: answer)
    result = failed(run(tmp_path, serving=port))
    assert (result.stage, result.serving_may_exist, result.resumable) == ("serving", True, True)
    assert "expected Served" in result.reason


# An endpoint on this machine.

MODEL = trained_model_id(digest_bytes(WEIGHTS))
CARD = {"id": MODEL, "created": 1, "root": "/srv/weights", "artifactDigest": digest_bytes(WEIGHTS)}


@dataclass
class Endpoint:
    """What an endpoint answers, and what it was asked."""

    url: str = ""
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def lists(self, *cards: Any) -> None:
        self.body = json.dumps({"object": "list", "data": cards}).encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    stub = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stub.asked.append((self.path, dict(self.headers)))
            self.send_response(stub.status)
            for name, value in {"Content-Length": str(len(stub.body)), **stub.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(stub.body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield stub
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_whose_model_card_names_the_artifact(tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.lists({"id": "other"}, CARD)
    job = succeeded(run(tmp_path / "a", serving=EndpointServing(endpoint.url)))
    (path, headers), *_ = endpoint.asked
    assert path == "/v1/models"
    assert set(headers) == {"Host", "Accept-Encoding", "Accept", "User-Agent"}
    assert False not in verify_job(job)["ok"].to_list()
    endpoint.lists(CARD | {"created": 2, "root": "/elsewhere"})
    again = succeeded(run(tmp_path / "b", serving=EndpointServing(endpoint.url + "/")))
    digests = {document_digest(read_document(TrainingReceipt, j / "receipt.json")) for j in (job, again)}
    assert len(digests) == 1, "times and places on a card are no part of the evidence"


def test_the_key_of_an_endpoint_comes_from_its_variable(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.lists(CARD)
    port = EndpointServing(endpoint.url, api_key_env="ENDPOINT_KEY")
    result = failed(run(tmp_path / "a", serving=port))
    assert ("ENDPOINT_KEY is not set" in result.reason, result.serving_may_exist, endpoint.asked) == (True, False, [])
    monkeypatch.setenv("ENDPOINT_KEY", "not-a-real-key")
    job = succeeded(run(tmp_path / "b", serving=port))
    assert endpoint.asked[0][1]["Authorization"] == "Bearer not-a-real-key"
    assert not any(b"not-a-real-key" in f.read_bytes() for f in job.rglob("*") if f.is_file())


def test_a_digest_may_stand_deeper_in_a_card(tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.lists({"id": MODEL, "metadata": {"digest": digest_bytes(WEIGHTS)}})
    succeeded(run(tmp_path, serving=EndpointServing(endpoint.url, "metadata.digest")))


def listing(*cards: Any) -> bytes:
    return json.dumps({"data": cards}).encode()


@pytest.mark.parametrize(
    ("status", "body", "may_exist", "told"),
    [
        (200, listing(), False, "none of the 0 models"),
        (
            200,
            listing({"id": "expcomp-trained/latest"} | {"artifactDigest": CARD["artifactDigest"]}),
            False,
            "none of the 1",
        ),
        (200, listing({"id": MODEL}), True, "no text in artifactDigest"),
        (200, listing({"id": MODEL, "artifactDigest": 7}), True, "no text in artifactDigest"),
        (200, listing(CARD | {"artifactDigest": sha("other")}), True, sha("other")),
        (200, b"<html>", False, "no list of models"),
        (200, b'{"data":{}}', False, "no list of models"),
        (200, b" " * (MAX_BYTES + 1), False, "more than"),
        (401, b"", False, "HTTP 401"),
        (302, b"", False, "HTTP 302"),
        (500, b"", False, "HTTP 500"),
    ],
)
def test_an_endpoint_that_does_not_serve_the_artifact(
    tmp_path: Path, endpoint: Endpoint, status: int, body: bytes, may_exist: bool, told: str
) -> None:
    endpoint.status, endpoint.body = status, body
    endpoint.headers = {"Location": endpoint.url + "/elsewhere"} if status == 302 else {}
    result = failed(run(tmp_path, serving=EndpointServing(endpoint.url)))
    assert (result.stage, result.serving_may_exist, result.resumable) == ("serving", may_exist, True)
    assert told in result.reason
    assert len(endpoint.asked) == 1
    endpoint.status, endpoint.headers = 200, {}
    endpoint.lists(CARD)
    succeeded(resume_training(Path(str(result.output_directory)), Ports(serving=EndpointServing(endpoint.url))))


def test_an_endpoint_that_is_not_there_or_silent(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = failed(run(tmp_path / "a", serving=EndpointServing(url, timeout=0.05)))
        assert (result.reason, result.serving_may_exist) == ("serving: the endpoint gives no answer in time", False)
    result = failed(run(tmp_path / "b", serving=EndpointServing(url)))
    assert "cannot be reached" in result.reason


@pytest.mark.parametrize(
    "given",
    [
        {"url": "file:///etc"},
        {"url": "http://me:pass@127.0.0.1/"},
        {"url": "http://127.0.0.1", "field": "a..b"},
        {"url": "http://127.0.0.1", "timeout": 0},
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused_where_it_is_made(given: dict[str, Any]) -> None:
    with pytest.raises(ExpcompError):
        EndpointServing(**given)


ANSWER = """
import json, os, sys
order = json.load(sys.stdin)
assert os.path.getsize(order["artifactPath"]) == order["artifactBytes"]
print("deploying")
print(json.dumps({"modelId": order["modelId"], "artifactDigest": order["artifactDigest"], "evidence": {"url": "local"}}))
"""


def served_by(code: str) -> CommandServing:
    return CommandServing(PinnedFile(PYTHON, PYTHON_DIGEST), ("-I", "-S", "-c", code))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_a_command_serves(tmp_path: Path) -> None:
    succeeded(run(tmp_path, serving=served_by(ANSWER)))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print('fine')", "last line"),
        ("print('{}')", "last line"),
        ("raise SystemExit(2)", "exit code 2"),
        ("", "last line"),
    ],
)
def test_a_command_that_does_not_serve(tmp_path: Path, code: str, told: str) -> None:
    result = failed(run(tmp_path, serving=served_by(code)))
    assert (result.stage, result.serving_may_exist) == ("serving", True)
    assert told in result.reason


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_a_serving_command_that_is_not_the_pinned_one(tmp_path: Path) -> None:
    result = failed(run(tmp_path, serving=CommandServing(PinnedFile(PYTHON, sha("other")))))
    assert "expected the pinned" in result.reason


# In the file of a run.


def described(folder: Path, *lines: str) -> Path:
    return spec(folder, top="[serving]\n" + "\n".join(lines))


def test_serving_in_the_file_of_a_run(tmp_path: Path) -> None:
    at = '"http://127.0.0.1:1/v1"'
    described(tmp_path, f"url = {at}", 'field = "metadata.digest"', 'api_key_env = "KEY"', "timeout = 2.5")
    port = EndpointServing("http://127.0.0.1:1/v1", "metadata.digest", "KEY", 2.5)
    assert read_run(tmp_path / "train.toml")[1].serving == port
    assert read_ports(tmp_path / "train.toml").serving == port
    described(tmp_path, 'path = "served"')
    assert read_ports(tmp_path / "train.toml").serving == StaticServing(tmp_path / "served")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (('url = "file:///etc"',), "http"),
        (('url = "http://127.0.0.1"', "retries = 3"), "retries"),
        (('url = "http://127.0.0.1"', 'timeout = "x"'), "timeout"),
        (('path = "x"', 'digest = "x"'), "digest"),
        (('executable = "/bin/x"',), "executable_digest"),
    ],
)
def test_serving_that_cannot_be_used_is_refused_by_field(tmp_path: Path, lines: tuple[str, ...], told: str) -> None:
    path = described(tmp_path, *lines)
    for read in (read_run, read_ports):
        with pytest.raises(ConfigError, match=rf"train\.toml.*{told}"):
            read(path)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_a_checkpoint_is_deployed_and_then_the_job_is_taken_up(tmp_path: Path, endpoint: Endpoint) -> None:
    """The way from a checkpoint that nobody serves yet to a candidate that somebody does, on the command line."""
    endpoint.lists()
    path = described(tmp_path, f'url = "{endpoint.url}"')
    failed = told("run", path, code=1)
    assert (failed["stage"], failed["servingMayExist"], failed["resumable"]) == ("serving", False, True)
    endpoint.lists(CARD)
    again = told("resume", failed["outputDirectory"], "--spec", path)
    assert (again["served"], again["model"]) == (True, MODEL)
    assert told("verify", again["outputDirectory"])["ok"]
