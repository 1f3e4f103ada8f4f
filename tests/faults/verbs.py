"""Every verb that writes, as data: what stood there before, the command, what it writes, and what counts as its content."""

from __future__ import annotations

from typing import NamedTuple

GIVEN = "tests.faults.given:"
AT = "2026-01-02T03:04:05Z"


class Verb(NamedTuple):
    """A verb that writes.

    Attributes:
        name: As the user types it, with a word in brackets when it is here more than once.
        words: The command line; `{given}` is the folder of the inputs.
        outs: What it writes, relative to where it runs.
        before: Commands that make what stands there before; none where it writes something new.
        code: Its exit code when all goes well.
        fails: Its exit code when it cannot write.
        content: How two outputs are compared: a key of `states.CONTENT`.
        text: What it reads from stdin.
    """

    name: str
    words: str
    outs: tuple[str, ...] = ("out",)
    before: tuple[str, ...] = ()
    code: int = 0
    content: str = "files"
    text: str = ""
    fails: int = 2


STEPS = "deposit amount=5\nwithdraw amount=1\nbalance\ndeposit amount=7\n"
_LEDGER = (f"ledger add book {{given}}/first.jsonl --recorded-at {AT}",)
_SESSION = "env play {given}/authored --state {given}/start.json --session out"
_SEAL = (
    "experiment seal {given}/tasks.parquet --baseline {given}/old.json --candidate {given}/new.json --grader tests={given}/grade.py "
    f"--execution-ref sha256:{'0' * 64} --run job --out out"
)


def _over(name: str, words: str, *outs: str, code: int = 0, content: str = "files", text: str = "") -> Verb:
    """A verb that replaces an earlier output: for a folder any of expcomp will do, for a file any file."""
    before = tuple(
        f"{GIVEN}{'copy_file' if '.' in out else 'copy'} {{given}}/{'rows.json' if '.' in out else 'old'} {out}"
        for out in outs
    )
    return Verb(name, words, outs, before, code, content, text)


VERBS: tuple[Verb, ...] = (
    _over("read", "read {given}/chats.jsonl --out out --force", "out"),
    Verb("read (new)", "read {given}/chats.jsonl --out out"),
    _over("compile", "compile {given}/packages --out out --force --workers 1", "out", content="compile"),
    Verb("compile (new)", "compile {given}/packages --out out --workers 1", content="compile"),
    Verb(
        "compile (update)",
        "compile src --update out --workers 1",
        before=(
            f"{GIVEN}copy {{given}}/packages src",
            "compile src --out out --workers 1",
            f"{GIVEN}change src",
        ),
        content="compile",
    ),
    _over("demo", "demo --out out", "out", content="compile"),
    _over("dataset", "dataset {given}/compiled --to trl-dpo,world-model --out out --force --workers 1", "out"),
    _over(
        "decontaminate",
        "decontaminate {given}/dataset --against {given}/heldout.jsonl --report found.parquet --drop --out out --force --workers 1",
        "found.parquet", "out", code=1,
    ),
    Verb("ledger add", f"ledger add book {{given}}/second.jsonl --recorded-at {AT}", ("book",), _LEDGER, content="ledger"),
    Verb("ledger add (new)", f"ledger add book {{given}}/second.jsonl --recorded-at {AT}", ("book",), content="ledger"),
    Verb("ledger merge", "ledger merge book {given}/book", ("book",), _LEDGER, content="ledger"),
    Verb("ledger archive", "ledger archive book --benchmark bench --all --reason wrong", ("book",), _LEDGER, content="ledger"),
    _over("ledger report", "ledger report {given}/book --out out.md --force", "out.md"),
    _over("ledger export", "ledger export {given}/book --out out.csv --force", "out.csv"),
    _over("report", "report {given}/trials.parquet -b plain -t tuned --out out --force", "out"),
    Verb(
        "decide",
        "decide {given}/trials.parquet -b plain -c tuned --policy {given}/policy.toml --untrained --preparation-usd 1 --out out",
    ),
    Verb("schema export", "schema export out", before=(f"{GIVEN}older_schemas out",), content="each file"),
    _over(
        "env build",
        "env build {given}/transcripts --env-id ledger --initial-states {given}/states.jsonl --out out --force",
        "out", code=3,
    ),
    _over("env patch", "env patch {given}/candidate {given}/fix.json --out out --force", "out"),
    Verb("env play", _SESSION, before=(f"{GIVEN}play {{given}}/authored {{given}}/start.json out",), content="session", text=STEPS),
    Verb("env play (new)", _SESSION, content="session", text=STEPS),
    _over("env export", "env export {given}/authored --to trace2env --out out --force", "out"),
    _over("env import", "env import {given}/layout --out out --force", "out"),
    Verb(
        "env score",
        "env score {given}/authored --cases {given}/cases.jsonl --session {given}/session --logs out",
        ("out/reward.txt", "out/score.json"), (f"{GIVEN}score out",),
    ),
    _over("env evaluate", "env evaluate {given}/candidate {given}/transcripts --out out --force", "out"),
    _over("pack build", "pack build {given}/compiled --out out --force", "out"),
    _over("pack judge", "pack judge {given}/compiled training_example --out out --force", "out"),
    Verb("pack contract", "pack contract {given}/packages/pkg_0 --out out.json", ("out.json",)),
    _over(
        "exposure check",
        "exposure check --profile {given}/profile.json --heldout {given}/asked.jsonl --report out.parquet --force",
        "out.parquet", code=1,
    ),
    _over("exposure index", "exposure index --profile {given}/profile.json --out out.parquet --force", "out.parquet"),
    _over(
        "train prepare",
        "train prepare {given}/ds --out train.json --heldout held.parquet --spec train.toml --model {given}/base "
        "--profile {given}/parent.json --option max_steps=2 --force",
        "train.json", "held.parquet", "train.toml",
    ),
    Verb(
        "train run",
        "train run train.toml",
        ("jobs",),
        (f"{GIVEN}copy_file {{given}}/train.toml train.toml", f"{GIVEN}copy {{given}}/jobs-old jobs"),
        content="jobs",
        fails=1,
    ),
    _over("trainset validate", "trainset validate {given}/bad.json --report out.parquet --force", "out.parquet", code=1),
    _over("trainset identity", "trainset identity {given}/rows.json --inventory out.parquet --force", "out.parquet"),
    _over("trainset pack", "trainset pack {given}/rows.json --out out --force", "out"),
    _over("trainset split", "trainset split {given}/rows.json --share 0.5 --out out.json --force", "out.json"),
    Verb("experiment seal", _SEAL),
)  # fmt: skip

SHARED: tuple[str, ...] = (
    "read {given}/fewer.jsonl --out {given}/old",
    "compile {given}/runs {given}/packages --out {given}/compiled --workers 1",
    "dataset {given}/compiled --to trl-dpo --out {given}/dataset --workers 1",
    f"ledger add {{given}}/book {{given}}/first.jsonl {{given}}/second.jsonl --recorded-at {AT}",
    "env export {given}/authored --to trace2env --out {given}/layout",
    f"{GIVEN}play {{given}}/authored {{given}}/start.json {{given}}/session",
    f"{GIVEN}train {{given}}/train.toml {{given}}/jobs-old",
)
"""What several verbs read, made once by other verbs."""
