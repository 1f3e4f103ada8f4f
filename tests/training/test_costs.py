"""The ledger of paid calls: what is let through, what is refused, who wins, and what its summary says."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.errors import OutputError, UsageError
from expcomp.tables.models import validate
from expcomp.training.cost_frames import SUMMARY, cost_frame, cost_summary, read_costs
from expcomp.training.cost_records import CostRecord, Rates, Tokens, nanos
from expcomp.training.costs import CostLedger, CostRefusedError
from expcomp.training.documents import DocumentError, document_bytes
from tests.helpers import environment

USED = Tokens(input=1_000, output=100, cached=400, cache_write=100, reasoning=50)
RATES = Rates(input=3_000, output=15_000, cached=300, cache_write=3_750)


def admit(ledger: CostLedger, call: str, maximum: int | None = None, **more: Any) -> None:
    ledger.admit(call, channel=more.pop("channel", "agent"), model="m", maximum_nanos=maximum, **more)


def summary(path: Path) -> dict[str, Any]:
    return cost_summary(cost_frame(path)).row(0, named=True)


def test_calls_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "costs.jsonl"
    with CostLedger(path) as ledger:
        admit(ledger, "observed", 50)
        ledger.settle("observed", cost_nanos=40, tokens=USED)
        admit(ledger, "estimated", phase="preparation")
        ledger.settle("estimated", tokens=USED, rates=RATES)
        admit(ledger, "bounded", 30, channel="judge")
        ledger.settle("bounded", failure="timeout")
        admit(ledger, "pending", 20, channel="judge")
    calls = cost_frame(path)
    validate("cost_calls", calls)
    estimate = 500 * 3_000 + 400 * 300 + 100 * 3_750 + 100 * 15_000
    assert calls["cost_nanos"].to_list() == [40, estimate, None, None]
    assert calls["provenance"].to_list() == ["observed", "estimated", "uncaptured", None]
    assert calls["state"].to_list() == ["known", "known", "unknown", "pending"]
    assert calls["cached_tokens"].to_list() == [400, 400, None, None]
    told = summary(path)
    assert (told["calls"], told["known_nanos"], told["unknown_calls"]) == (4, 40 + estimate, 2)
    assert (told["unknown_maximum_nanos"], told["upper_bound_nanos"]) == (50, 90 + estimate)
    assert (told["status"], told["accounting_complete"]) == ("bounded_unknown", False)
    assert told["reasons"] == ["pending_call", "unknown_cost", "unknown_usage"]
    assert (told["unpriced_models"], told["failed_calls"]) == (["m"], 1)
    by = cost_summary(calls, ["channel"])
    assert by["channel"].to_list() == ["agent", "judge"]
    assert by["status"].to_list() == ["complete", "bounded_unknown"]
    assert by["known_nanos"].sum() == told["known_nanos"]
    assert list(by.columns[1:]) == list(SUMMARY)


@pytest.mark.parametrize(
    ("maximum", "cost", "tokens", "status", "reasons"),
    [
        (None, 7, USED, "complete", []),
        (None, 7, None, "complete", ["unknown_usage"]),
        (5, 7, USED, "complete", ["charged_above_maximum"]),
        (5, None, USED, "bounded_unknown", ["unknown_cost"]),
        (None, None, USED, "unknown", ["unknown_cost"]),
    ],
)
def test_why_an_accounting_is_not_complete(
    tmp_path: Path, maximum: int | None, cost: int | None, tokens: Tokens | None, status: str, reasons: list[str]
) -> None:
    with CostLedger(tmp_path / "c") as ledger:
        admit(ledger, "a", maximum)
        ledger.settle("a", cost_nanos=cost, tokens=tokens)
    told = summary(tmp_path / "c")
    assert (told["status"], told["reasons"], told["accounting_complete"]) == (status, reasons, not reasons)
    assert (told["upper_bound_nanos"] is None) == (status == "unknown")


def test_a_ledger_without_calls(tmp_path: Path) -> None:
    CostLedger(tmp_path / "c").close()
    told = summary(tmp_path / "c")
    assert (told["calls"], told["known_nanos"], told["status"], told["reasons"]) == (0, 0, "complete", [])


@pytest.mark.parametrize("first", ["known", "unknown", "pending"])
def test_a_ceiling_counts_what_was_spent_at_its_cost_and_the_rest_at_its_maximum(tmp_path: Path, first: str) -> None:
    with CostLedger(tmp_path / "c", ceiling_nanos=100) as ledger:
        admit(ledger, "a", 60)
        if first != "pending":
            ledger.settle("a", cost_nanos=30 if first == "known" else None)
        left = {"known": 70, "unknown": 40, "pending": 40}[first]
        with pytest.raises(CostRefusedError) as refused:
            admit(ledger, "b", left + 1)
        assert refused.value.code == "above_ceiling"
        admit(ledger, "b", left)
        with pytest.raises(CostRefusedError, match="no_maximum"):
            admit(ledger, "c")


def test_waiting_for_a_reservation(tmp_path: Path) -> None:
    with CostLedger(tmp_path / "c", ceiling_nanos=100) as one, CostLedger(tmp_path / "c") as two:
        admit(one, "a", 90)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(admit, two, "b", 50, wait=30)
            one.settle("a", cost_nanos=10)
            waiting.result()
        assert cost_frame(tmp_path / "c")["call"].to_list() == ["a", "b"]
        with pytest.raises(CostRefusedError, match="spent"):  # no waiting helps
            admit(two, "c", 1_000, wait=30)


def test_the_ceiling_of_a_file_stays(tmp_path: Path) -> None:
    CostLedger(tmp_path / "c", ceiling_nanos=100).close()
    with pytest.raises(UsageError, match="stays so"):
        CostLedger(tmp_path / "c", ceiling_nanos=200)
    with CostLedger(tmp_path / "c") as again:
        assert again.ceiling_nanos == 100
    assert read_costs(tmp_path / "c").ceiling_nanos == 100


def test_an_id_is_used_once_and_settled_once(tmp_path: Path) -> None:
    with CostLedger(tmp_path / "c") as one, CostLedger(tmp_path / "c") as two:
        admit(one, "a")
        for ledger in (one, two):
            with pytest.raises(CostRefusedError, match="call_used"):
                admit(ledger, "a")
        with pytest.raises(UsageError, match="another writer"):
            two.settle("a", cost_nanos=1)
        one.settle("a", cost_nanos=1)
        for call, why in (("a", "settled already"), ("b", "never admitted")):
            with pytest.raises(UsageError, match=why):
                two.settle(call, cost_nanos=1)


def test_a_writer_that_looked_before_another_wrote_loses(tmp_path: Path) -> None:
    with CostLedger(tmp_path / "c") as one, CostLedger(tmp_path / "c") as two:
        seen = two.revision
        admit(one, "a", expected_revision=seen)
        with pytest.raises(CostRefusedError) as refused:
            admit(two, "b", expected_revision=seen)
        assert refused.value.code == "revision_moved"
        admit(two, "b", expected_revision=two.revision)


WRITER = """
import sys
from pathlib import Path
from expcomp.training.costs import CostLedger, CostRefusedError
won = []
with CostLedger(Path(sys.argv[1])) as ledger:
    for n in range(40):
        try:
            ledger.admit(f"call-{n}", channel="agent", model="m", maximum_nanos=10)
        except CostRefusedError as error:
            assert error.code in ("call_used", "above_ceiling"), error
        else:
            won.append(n)
            ledger.settle(f"call-{n}", cost_nanos=10)
print(*won)
"""


def test_of_several_processes_one_wins_each_call_and_the_ceiling_holds(tmp_path: Path) -> None:
    path = tmp_path / "c"
    CostLedger(path, ceiling_nanos=300).close()
    command = [sys.executable, "-c", WRITER, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(3)]
    won = [n for r in running for n in r.communicate(timeout=120)[0].split()]
    assert [r.returncode for r in running] == [0, 0, 0]
    assert len(won) == len(set(won)) == 30
    told = summary(path)
    assert (told["known_nanos"], told["status"]) == (300, "complete")
    assert [f.name for f in tmp_path.iterdir()] == ["c"]


def test_a_call_whose_writer_is_gone_blocks_until_it_is_settled(tmp_path: Path) -> None:
    path = tmp_path / "c"
    code = (
        "import os, sys; from pathlib import Path; from expcomp.training.costs import CostLedger; "
        "CostLedger(Path(sys.argv[1])).admit('lost', channel='agent', model='m', maximum_nanos=9); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, env=environment())
    assert done.returncode == -9
    with CostLedger(path) as ledger:
        with pytest.raises(CostRefusedError, match="unresolved_calls: lost"):
            admit(ledger, "next")
        ledger.settle("lost")
        admit(ledger, "next")
    assert summary(path)["unknown_maximum_nanos"] is None  # "next" has no maximum


def test_a_line_that_a_kill_cut_off_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with CostLedger(path) as ledger:
        admit(ledger, "a")
        ledger.settle("a", cost_nanos=1)
    with path.open("ab") as handle:
        handle.write(b'{"kind":"admi')
    assert summary(path)["calls"] == 1
    with CostLedger(path) as ledger:
        admit(ledger, "b")
        ledger.settle("b", cost_nanos=1)
    assert summary(path)["known_nanos"] == 2


def test_a_file_that_was_replaced_is_no_longer_written(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with CostLedger(path) as ledger:
        path.replace(tmp_path / "old")
        CostLedger(path).close()
        with pytest.raises(OutputError, match="replaced"):
            admit(ledger, "a")


LINES = [
    {"kind": "opened", "revision": 0},
    {
        "kind": "admitted",
        "revision": 1,
        "call": "a",
        "owner": "o",
        "channel": "agent",
        "phase": "measurement",
        "model": "m",
    },
    {"kind": "settled", "revision": 2, "call": "a", "owner": "o", "provenance": "observed", "costNanos": 1},
]
BAD = [
    (lambda x: x[1].update(revision=7), "cost_revision"),
    (lambda x: x.pop(0), "cost_revision"),
    (lambda x: x[0].update(kind="settled"), "cost_first_line|cost_record_fields"),
    (lambda x: x[1].pop("channel"), "cost_record_fields"),
    (lambda x: x[2].pop("costNanos"), "cost_record_fields|cost_provenance"),
    (lambda x: x.insert(2, x[1] | {"revision": 2}) or x[3].update(revision=3), "cost_call_used"),
    (lambda x: x[2].update(call="b"), "cost_not_admitted"),
    (lambda x: x.append(x[2] | {"revision": 3}), "cost_not_admitted"),
    (lambda x: x[2].update(costNanos=-1), "cost_negative|bad_document"),
    (lambda x: x[2].update(costNanos="1"), "not_json|bad_document"),
]


@pytest.mark.parametrize(("edit", "code"), BAD)
def test_a_line_that_is_no_record_is_named_by_both_readers(tmp_path: Path, edit: Any, code: str) -> None:
    lines = json.loads(json.dumps(LINES))
    edit(lines)
    path = tmp_path / "c"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DocumentError, match=code):
        read_costs(path)
    with pytest.raises(DocumentError, match=code):
        CostLedger(path)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 10**15), st.none() | st.integers(0, 10**15), st.booleans()), max_size=30
    )
)
def test_the_summary_is_the_sum_of_the_calls(calls: list[tuple[int | None, int | None, bool]]) -> None:
    frame = pl.DataFrame(
        {
            "model": ["m"] * len(calls),
            "state": ["pending" if p else "unknown" if c is None else "known" for _, c, p in calls],
            "maximum_nanos": [m for m, _, _ in calls],
            "cost_nanos": [None if p else c for _, c, p in calls],
            "provenance": [None if p else "uncaptured" if c is None else "observed" for _, c, p in calls],
            "input_tokens": [1] * len(calls),
            "output_tokens": [1] * len(calls),
            "failure": [None] * len(calls),
        },
        schema_overrides={"maximum_nanos": pl.Int64, "cost_nanos": pl.Int64, "model": pl.String, "state": pl.String,
                          "provenance": pl.String, "failure": pl.String, "input_tokens": pl.Int64, "output_tokens": pl.Int64},
    )  # fmt: skip
    told = cost_summary(frame).row(0, named=True)
    known = sum(c for _, c, p in calls if c is not None and not p)
    unknown = [m for m, c, p in calls if c is None or p]
    assert (told["known_nanos"], told["unknown_calls"]) == (known, len(unknown))
    assert told["unknown_maximum_nanos"] == (None if None in unknown else sum(m for m in unknown if m is not None))


@pytest.mark.parametrize(("usd", "whole"), [(0, 0), (0.1, 100_000_000), (1e-9, 1), (12.345678901, 12_345_678_901)])
def test_dollars_are_whole_billionths(usd: float, whole: int) -> None:
    assert nanos(usd) == whole


@pytest.mark.parametrize("usd", [-0.1, float("nan"), float("inf")])
def test_an_amount_that_is_none(usd: float) -> None:
    with pytest.raises(UsageError, match="no amount"):
        nanos(usd)


def test_tokens_that_contradict_themselves() -> None:
    record = {"kind": "settled", "revision": 2, "call": "a", "owner": "o", "provenance": "observed", "cost_nanos": 1}
    wrong = {
        "tokens_cached": {"input": 1, "output": 0, "cached": 2},
        "tokens_reasoning": {"input": 1, "output": 1, "reasoning": 2},
    }
    for code, used in wrong.items():
        with pytest.raises(ValueError, match=code):
            document_bytes(CostRecord(**record, tokens=Tokens(**used)))  # type: ignore[arg-type]
    assert RATES.maximum(10, 10) == 10 * 3_750 + 10 * 15_000
