"""The planted faults. Each changes a tree and says where; what must never reach an output is named by shape only."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from garden.model import Tree

Where = dict[str, Any]
TRACE = "attempts/{}/agent_trace.json"
BASE = TRACE.format("baseline")
REVISED = TRACE.format("revised")


def secrets() -> dict[str, str]:
    """Fake secrets by shape, put together at run time so that no scanner takes this source for a leak."""
    fake = "FAKE" * 3 + "0123456789"
    return {
        "cloud_access_id": "AK" + "IA" + "FAKEFAKEFAKE0001",
        "cloud_secret": "aws_secret_" + "access_key=" + "Fake/Fake+" * 3 + "0123456789",
        "forge_token": "gh" + "p_" + fake + "FAKEFAKEFAKEFA",
        "chat_token": "xo" + "xb-" + "FAKE-FAKE-" + fake,
        "hub_token": "h" + "f_" + fake + "FAKEFAKE",
        "payment_key": "sk" + "_test_" + fake,
        "service_key": "s" + "k-" + fake + "FAKEFAKE",
        "jwt": "ey" + "JGQUtFIjoxfQ." + "ey" + "JGQUtFIjoyfQ." + "FAKEfakeFAKE",
        "bearer": "Bea" + "rer " + fake.lower() + "xyz",
        "pem_block": "-----BEGIN " + "PRIVATE KEY-----\n" + "RkFLRQ" * 8 + "\n-----END " + "PRIVATE KEY-----",
        "url_password": "postgres://garden:" + "fakepass77" + "@db.example/seeds",
        "password": "pass" + "word: " + "fake-Pass-77!",
        "env_secret": "LABEL_API_" + "TOKEN=" + "fakevalue0123456789",
    }


def cores() -> dict[str, str]:
    """The part of each secret that may stand in no output file."""
    found = secrets()
    found["cloud_secret"] = found["cloud_secret"].split("=")[1]
    found["bearer"] = found["bearer"].split()[1]
    found["pem_block"] = "RkFLRQ" * 8
    found["url_password"] = "fakepass" + "77"
    found["password"] = found["password"].split(": ")[1]
    found["env_secret"] = found["env_secret"].split("=")[1]
    return found


def private_paths() -> dict[str, str]:
    """Paths of machines that never were, by kind of root."""
    back = "\\"
    return {
        "home": "/" + "home/fern-user/plans/closing.txt",
        "users": "/" + "Users/fern-user/closing.txt",
        "root": "/" + "root/fern-keys/list.txt",
        "tmp": "/" + "tmp/fern-run-7/out.txt",
        "mount": "/" + "mnt/fern-share/map.txt",
        "tilde": "~" + "/fern-notes/todo.txt",
        "drive": back.join(["C:", "Users", "fern-user", "closing.txt"]),
        "unc": back * 2 + back.join(["fern-server", "share", "map.txt"]),
    }


PII = {"email": "fern.person@garden.example", "phone": "+1 202-555-0147", "ip": "203.0.113.57"}
LOOKALIKES = (
    "commit 83be4107c2a94e1fb6d05a7c93e8f12d4b7a6c50",
    "id 5f0c9b1e-7a44-4c1b-9d3e-2b8f6a1c0d77",
    "task-force and risk-free lists",
    "the word token appears here, and so does password",
    "a token budget of 4000",
    "see docs/home/index.md and data/tmp/list.csv",
    "ratio 3/4, on and/or off",
    "version 10.2.1 of the label tool",
    "bearer of the plant passport",
    "key: Drosera (see key 3 in the flora)",
)
TRADE = ("the buyer asked for seeds", "each seller brings own pots", "the marketplace lists a price")


def secret_in_step(t: Tree) -> Iterator[Where]:
    """Thirteen shapes in what tools printed."""
    for place, (shape, value) in enumerate(secrets().items()):
        number = 2 + place % 8
        t.step("baseline", number)["output"] += f"\nlog: {value}"
        yield {"file": BASE, "step": number, "shape": shape}


def private_path(t: Tree) -> Iterator[Where]:
    """Eight shapes in what tools printed."""
    for place, (shape, value) in enumerate(private_paths().items()):
        number = 2 + place
        t.step("baseline", number)["output"] += f"\nsaved as {value}"
        yield {"file": BASE, "step": number, "shape": shape}


def pii_in_step(t: Tree) -> Iterator[Where]:
    """Three shapes; redacted on request only."""
    for number, (shape, value) in zip((2, 3, 4), PII.items(), strict=True):
        t.step("baseline", number)["output"] += f"\ncontact {value}"
        yield {"file": BASE, "step": number, "shape": shape}


def lookalike_text(t: Tree) -> Iterator[Where]:
    """Ten texts that look like secrets or paths and are none."""
    for place, value in enumerate(LOOKALIKES):
        number = 2 + place % 6
        t.step("revised", number)["output"] += f"\n{value}"
        yield {"file": REVISED, "step": number, "text": value}


def trade_words(t: Tree) -> Iterator[Where]:
    """Ordinary words of trade."""
    for number, value in zip((2, 3, 4), TRADE, strict=True):
        t.step("baseline", number)["output"] += f"\n{value}"
        yield {"file": BASE, "step": number, "text": value}


def _add_ref(t: Tree, number: int, ref: str) -> Where:
    t.step("baseline", number).setdefault("evidence_refs", []).append(ref)
    return {"file": BASE, "step": number}


def missing_artifact(t: Tree) -> Iterator[Where]:
    """A ref that names no file, in a step and in the output list."""
    ref = "attempts/baseline/artifacts/proof.md"
    t.docs["attempts/baseline/actual_outputs.json"]["artifact_refs"] = [ref]
    yield {"file": "attempts/baseline/actual_outputs.json"}
    yield _add_ref(t, 3, ref)


def dotdot_ref(t: Tree) -> Iterator[Where]:
    """A ref that climbs out."""
    yield _add_ref(t, 4, "../" * 2 + "outside.txt")


def absolute_ref(t: Tree) -> Iterator[Where]:
    """A ref from the root of a machine."""
    yield _add_ref(t, 5, "/" + "var/fern/outside.txt")


def symlink_escape(t: Tree) -> Iterator[Where]:
    """A link out of the package."""
    ref = "attempts/baseline/evidence/linked.txt"
    t.links[ref] = "../" * 5 + "outside.txt"
    _add_ref(t, 6, ref)
    yield {"file": ref, "step": 6}


def hidden_ref(t: Tree) -> Iterator[Where]:
    """A deliverable list and a step that name a hidden file."""
    t.docs["attempts/baseline/actual_outputs.json"]["deliverable_refs"].append("hidden_reference/names.json")
    yield {"file": "attempts/baseline/actual_outputs.json"}
    yield _add_ref(t, 7, "hidden_reference/names.json")


def _cut(t: Tree, ref: str, share: float) -> Iterator[Where]:
    text = json.dumps(t.docs[ref], indent=1)
    t.docs[ref] = text[: int(len(text) * share)]
    yield {"file": ref}


def truncated_trace(t: Tree) -> Iterator[Where]:
    """The trace ends in the middle."""
    return _cut(t, BASE, 0.6)


def truncated_grade(t: Tree) -> Iterator[Where]:
    """So does the grade."""
    return _cut(t, "grading/revised_grader_result.json", 0.5)


def trace_is_list(t: Tree) -> Iterator[Where]:
    """The trace is the bare list of its steps."""
    t.docs[BASE] = t.docs[BASE]["steps"]
    yield {"file": BASE}


def empty_trace(t: Tree) -> Iterator[Where]:
    """No steps."""
    t.docs[BASE]["steps"] = []
    yield {"file": BASE}


def missing_attempt_file(t: Tree) -> Iterator[Where]:
    """The output list of the other attempt is gone."""
    ref = "attempts/revised/actual_outputs.json"
    del t.docs[ref]
    yield {"file": ref}


def non_object_step(t: Tree) -> Iterator[Where]:
    """A text among the steps."""
    t.docs[REVISED]["steps"].insert(3, "read the probe again")
    yield {"file": REVISED, "element": 4}


def wrong_types(t: Tree) -> Iterator[Where]:
    """Numbers as text, a word as a flag, text where a list belongs, an object as output."""
    steps = {s["step"]: s for s in t.docs[REVISED]["steps"] if isinstance(s, dict)}
    steps[2]["output"] = {"ph": 7.6}
    steps[3] |= {"http_status": "200", "latency_ms": "12.0", "success": "yes"}
    steps[6]["artifact_refs"] = "attempts/revised/artifacts/log.csv"
    for number in (2, 3, 6):
        yield {"file": REVISED, "step": number}


def duplicate_steps(t: Tree) -> Iterator[Where]:
    """A step recorded twice."""
    t.docs[BASE]["steps"].insert(4, dict(t.step("baseline", 4)))
    yield {"file": BASE, "step": 4}


def _bytes(t: Tree, ref: str, change: Callable[[bytes], bytes]) -> Where:
    from garden.model import rendered

    t.docs[ref] = change(rendered(t.docs[ref]))
    return {"file": ref}


def non_utf8_text(t: Tree) -> Iterator[Where]:
    """A deliverable in Latin-1."""
    yield _bytes(t, "attempts/baseline/artifacts/log.txt", lambda b: "zwei Moose, grün\n".encode("latin-1") + b)


def non_utf8_json(t: Tree) -> Iterator[Where]:
    """A grade in Latin-1."""
    yield _bytes(
        t,
        "grading/baseline_grader_result.json",
        lambda b: b.replace(b"Does not hold", "Fehlt: grünes Moos".encode("latin-1")),
    )


def bom_json(t: Tree) -> Iterator[Where]:
    """A rubric with a byte order mark."""
    yield _bytes(t, "rubric/rubric.json", lambda b: b"\xef\xbb\xbf" + b)


def bad_jsonl_line(t: Tree) -> Iterator[Where]:
    """One line of the step labels is cut."""
    ref = "signals/process_supervision.jsonl"
    rows = t.docs[ref].split("\n")
    rows[1] = rows[1][:40]
    t.docs[ref] = "\n".join(rows)
    yield {"file": ref, "line": 2}


def line_separator_jsonl(t: Tree) -> Iterator[Where]:
    """A line separator inside a text of a line; it ends no line."""
    ref = "signals/process_supervision.jsonl"
    rows = t.docs[ref].split("\n")
    rows[2] = rows[2][:-1] + ', "failure_mode": "first\u2028second\u0085third"}'
    t.docs[ref] = "\n".join(rows)
    yield {"file": ref, "line": 3}


def huge_output(t: Tree) -> Iterator[Where]:
    """Seventy thousand characters, a little more than a row keeps."""
    t.step("revised", 4)["output"] = ("loop 2: 26.0 degrees\n" * 3334)[:70_000]
    yield {"file": REVISED, "step": 4, "chars": 70_000}


def nan_score(t: Tree) -> Iterator[Where]:
    """A score that is no number."""
    ref = "grading/baseline_grader_result.json"
    t.docs[ref]["final_score"] = math.nan
    yield {"file": ref}


def score_over_max(t: Tree) -> Iterator[Where]:
    """A score above its scale."""
    ref = "grading/revised_grader_result.json"
    t.docs[ref]["final_score"] = 1.7
    yield {"file": ref}


def duplicate_package_task(t: Tree) -> Iterator[Where]:
    """This folder holds a task that another folder holds as well."""
    yield {"file": "task/task_intake_spec.json", "task_id": t.task.task_id}


def future_and_reversed_times(t: Tree) -> Iterator[Where]:
    """A step of the year 2031, and one that ends before it starts."""
    t.step("revised", 2).update(started_at="2031-01-01T00:00:00Z", ended_at="2031-01-01T00:00:05Z")
    t.step("revised", 3).update(started_at="2026-03-02T10:00:30Z", ended_at="2026-03-02T10:00:10Z")
    yield {"file": REVISED, "step": 3}


FAULTS: Mapping[str, Callable[[Tree], Iterator[Where]]] = {
    f.__name__: f
    for f in (
        *(
            secret_in_step,
            private_path,
            pii_in_step,
            lookalike_text,
            trade_words,
            missing_artifact,
            dotdot_ref,
            absolute_ref,
        ),
        *(
            symlink_escape,
            hidden_ref,
            truncated_trace,
            truncated_grade,
            trace_is_list,
            empty_trace,
            missing_attempt_file,
        ),
        *(non_object_step, wrong_types, duplicate_steps, non_utf8_text, non_utf8_json, bom_json, bad_jsonl_line),
        *(
            line_separator_jsonl,
            huge_output,
            nan_score,
            score_over_max,
            duplicate_package_task,
            future_and_reversed_times,
        ),
    )
}
SILENT = frozenset(
    (
        *("secret_in_step", "private_path", "pii_in_step", "lookalike_text", "trade_words"),
        *("line_separator_jsonl", "huge_output", "duplicate_package_task"),
    )
)
"""Faults that are no one's mistake in a file, so that no diagnostic names them."""
