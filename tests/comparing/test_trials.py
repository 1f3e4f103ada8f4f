"""Trials of ledgers, trace sets, compilations and frames are one table, and nothing vanishes on the way."""

from __future__ import annotations

import polars as pl
import pytest

import expcomp as xc
from expcomp.comparing.trials import read_trials
from expcomp.errors import TableError, UsageError
from expcomp.ledger.archive import Filter
from expcomp.tables.core import TASKS
from tests.comparing.frames import trials
from tests.ledger.attempts import many, one


def frame_of(what, **options):
    found = xc.trials_of(what, **options)
    assert isinstance(found, pl.LazyFrame)
    return found.collect()


def trace_set(attempts, **task):
    from expcomp.tables.core import ATTEMPTS

    whole = attempts.select(
        *(pl.col(n).cast(t) if n in attempts.columns else pl.lit(None, t).alias(n) for n, t in ATTEMPTS.schema.items())
    )
    ids = attempts.select("task_id").unique(maintain_order=True).drop_nulls()
    about = {"dataset": "bench"} | task
    tasks = ids.select(
        *(pl.col(n) if n == "task_id" else pl.lit(about.get(n), t).cast(t).alias(n) for n, t in TASKS.schema.items())
    )
    return xc.TraceSet({"attempts": whole, "tasks": tasks})


def test_a_trace_set_a_ledger_of_it_and_its_attempts_hold_the_same_trials(tmp_path):
    attempts = many(60)
    ledger = xc.Ledger(tmp_path / "l", create=True)
    ledger.add(attempts)
    by, own_only = ["task", "arm", "attempt"], ["cluster", "domain", "role"]  # a ledger has roles, a trace set tasks
    own = frame_of(trace_set(attempts)).sort(by)
    assert own.height == 60
    assert frame_of(ledger).sort(by).drop(own_only).equals(own.drop(own_only))
    assert frame_of(attempts).sort(by).drop(own_only).equals(own.drop(own_only))


def test_trials_hold_to_their_table():
    xc.validate("trials", frame_of(trace_set(many(30))))


def test_cluster_and_domain_come_from_the_task():
    found = frame_of(
        trace_set(many(10), cluster="repo", domain="web", split="dev"), columns=["split", "harness_name"][:1]
    )
    assert set(found["cluster"]) == {"repo"}
    assert set(found["domain"]) == {"web"}
    assert set(found["split"]) == {"dev"}


def test_archived_runs_are_no_trials_and_are_counted(tmp_path):
    ledger = xc.Ledger(tmp_path / "l", create=True)
    ledger.add(many(40))
    ledger.archive(Filter(benchmark="bench", arms=("control",)), reason="old")
    found = read_trials(ledger)
    assert set(found.frame.collect()["arm"]) == {"new"}
    assert found.left_out.to_dicts() == [{"reason": "archived", "attempts": 20}]


def test_what_is_lost_to_infrastructure_stays_without_a_score():
    found = frame_of(one(status="infra_error", score_valid=False, passed=None))
    assert found.select("infra", "score", "passed").row(0) == (True, None, None)


def test_attempts_without_a_task_are_counted():
    found = read_trials(pl.concat([many(4), one(task_id=None)]))
    assert found.frame.collect().height == 4
    assert found.left_out["attempts"].sum() == 1


def test_a_score_of_unknown_scale_stays_raw():
    found = frame_of(one(score=2.5, score_min=None, score_max=None, score_norm=None, passed=None))
    assert found.select("score", "scale_known").row(0) == (2.5, False)


def test_a_scale_that_is_given_normalises():
    raw = trials({"a": [[1.0], [5.0]]}, column="score")
    found = frame_of(raw, score_scale=(1, 5))
    assert found["score"].to_list() == [0.0, 1.0]
    assert found["scale_known"].to_list() == [True, True]


def test_a_score_outside_the_given_scale_is_refused():
    with pytest.raises(UsageError, match=r"score_scale is 0 to 1, but task t000 has 7 by arm a"):
        frame_of(trials({"a": [[7.0]]}, column="score"), score_scale=(0, 1))


@pytest.mark.parametrize("scale", [(0, float("inf")), (float("-inf"), 1), (0, float("nan")), (1, 1)])
def test_a_scale_that_is_none_is_refused(scale):
    frame = pl.DataFrame({"task": ["x", "x"], "arm": ["a", "b"], "score": [1.0, 2.0]})
    with pytest.raises(UsageError, match="score_scale is"):
        xc.trials_of(frame, score_scale=scale)


def test_a_frame_of_the_caller_may_name_its_columns_as_its_harness_does():
    found = frame_of(trials({"a": [[True, False]]}).rename({"task": "task_id", "attempt": "trial"}))
    assert found["attempt"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("frame", "error", "words"),
    [
        (pl.DataFrame({"task": ["t"], "passed": [True]}), UsageError, "no column arm"),
        (pl.DataFrame({"task": ["t"], "arm": ["a"]}), UsageError, "no column score and no passed"),
        (
            pl.DataFrame({"task": ["t", "u"], "arm": ["a", "a"], "score": ["1", "x"]}),
            TableError,
            "row 2 of the trials: score is 'x', expected a number",
        ),
        (
            pl.DataFrame({"task": ["t"], "arm": ["a"], "passed": ["maybe"]}),
            TableError,
            "row 1 of the trials: passed is 'maybe', expected true or false",
        ),
        (pl.DataFrame({"task": ["t"], "arm": ["a"], "score": [float("nan")]}), TableError, r"score\|finite"),
        (
            pl.DataFrame({"task": ["t"], "arm": ["a"], "score": [2.0], "scale_known": [True]}),
            TableError,
            "unit_interval",
        ),
        (pl.DataFrame({"task": [None], "arm": ["a"], "passed": [True]}), TableError, "task"),
        (
            pl.DataFrame({"task": ["t", "t"], "arm": ["a", "a"], "attempt": [1, 1], "passed": [True, False]}),
            TableError,
            "attempt 1 of arm a at task t is there twice",
        ),
    ],
    ids=["no arm", "no score", "text", "word", "nan", "over scale", "no task", "twice"],
)
def test_a_frame_that_cannot_be_compared_is_refused(frame, error, words):
    with pytest.raises(error, match=words):
        xc.trials_of(frame)


def test_a_thing_without_trials_is_refused():
    with pytest.raises(UsageError, match="int has no trials"):
        xc.trials_of(3)


@pytest.mark.parametrize("what", [many(4), trials({"a": [[True]]})], ids=["attempts", "frame"])
def test_an_unknown_column_is_refused_and_the_others_named(what):
    with pytest.raises(UsageError, match="no column wheather"):
        xc.trials_of(what, columns=["wheather"])
