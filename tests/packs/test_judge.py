"""The judge port: verdicts are what a model said of a row, or null with the reason; nothing is asked twice or sent unredacted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from expcomp.errors import ConfigError, OutputError, SourceError, TableError
from expcomp.io.answer_store import Answer, AnswerStore
from expcomp.packs.judge.answers import read_answer
from expcomp.packs.judge.folder import verdict_report, write_verdicts
from expcomp.packs.judge.mentor import MentorJudge
from expcomp.packs.judge.options import AskOptions
from expcomp.packs.judge.port import Judge, judge_input
from expcomp.packs.judge.prompt import Prompt
from expcomp.packs.judge.rules import RuleJudge
from expcomp.tables.judge import ERRORS, JUDGE_INPUT, JUDGE_VERDICTS
from tests.packs.judge_stub import GOOD, Say, Stub, serving

pytest.importorskip("openai")

FAST = {"backoff": 0.0, "timeout": 5.0}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def rows(n: int = 3, **columns: list[Any]) -> pl.DataFrame:
    made: dict[str, list[Any]] = {
        "row_id": [f"r{i}" for i in range(n)],
        "content": [json.dumps({"n": i}) for i in range(n)],
        "verifier_only": [None] * n,
        "accepted": [True] * n,
        "reject_reasons": [[]] * n,
    }
    return pl.DataFrame(made | columns, schema=JUDGE_INPUT.schema)


def mentor(stub: Stub, cache: Path | None = None, *, prompt: Prompt | None = None, **options: Any) -> MentorJudge:
    return MentorJudge(stub.url, "m", cache=cache, prompt=prompt, options=AskOptions(**(FAST | options)))


def ask(
    script: Callable[[str, int], Say] | Say | None = None, frame: pl.DataFrame | None = None, **options: Any
) -> pl.DataFrame:
    said = (lambda _c, _n: script) if isinstance(script, Say) else script
    with serving(said) as stub:
        return checked(mentor(stub, **options).score(rows(1) if frame is None else frame))


def checked(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame, after the contract of its table was held against it."""
    assert frame.schema == JUDGE_VERDICTS.schema
    broken = frame.select((~expr).sum().alias(rule) for rule, expr in JUDGE_VERDICTS.all_rules().items()).row(
        0, named=True
    )
    assert {rule: n for rule, n in broken.items() if n} == {}
    return frame


def one(frame: pl.DataFrame) -> dict[str, Any]:
    return frame.row(0, named=True)


def test_a_verdict_is_what_the_model_said_and_says_who_said_it() -> None:
    with serving() as stub:
        judge = mentor(stub)
        found = checked(judge.score(rows(2)))
    assert found["row_id"].to_list() == ["r0", "r1"]
    assert one(found) == {
        "row_id": "r0",
        "content_hash": found["content_hash"][0],
        "verdict": "accept",
        "score": 0.75,
        "reasons": GOOD["reasons"],
        "label_source": "model_judge",
        "model": "m",
        "model_reported": "m-1",
        "prompt_digest": Prompt().digest,
        "cached": False,
        "attempts": 1,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "error": None,
        "error_detail": None,
    }
    assert stub.paths == ["/v1/chat/completions"] * 2
    assert stub.requests[0]["model"] == "m"
    assert (judge.budget.spent.calls, judge.budget.spent.prompt_tokens) == (2, 200)


def test_a_null_score_stays_null() -> None:
    assert one(ask(Say(json.dumps({"verdict": "uncertain", "score": None, "reasons": []}))))["score"] is None
    assert one(ask(Say(json.dumps({"verdict": "reject"}))))["score"] is None


@pytest.mark.parametrize(
    "text",
    [
        "```json\n" + json.dumps(GOOD) + "\n```",
        "<think>a } b</think>\n" + json.dumps(GOOD),
        "  " + json.dumps(GOOD) + "\n",
    ],
)
def test_an_object_in_a_fence_or_after_a_thought_is_read(text: str) -> None:
    assert one(ask(Say(text)))["verdict"] == "accept"


BAD_ANSWERS: dict[str, tuple[Say, str]] = {
    "no JSON": (Say("I accept."), "malformed_answer"),
    "two objects": (Say(json.dumps(GOOD) + json.dumps(GOOD)), "malformed_answer"),
    "a list": (Say("[]"), "malformed_answer"),
    "no verdict": (Say('{"score": 0.5, "reasons": []}'), "malformed_answer"),
    "score as text": (Say('{"verdict": "accept", "score": "0.5"}'), "malformed_answer"),
    "score as boolean": (Say('{"verdict": "accept", "score": true}'), "malformed_answer"),
    "NaN": (Say('{"verdict": "accept", "score": NaN}'), "malformed_answer"),
    "another word": (Say('{"verdict": "great", "score": 0.5}'), "unknown_verdict"),
    "score too large": (Say('{"verdict": "accept", "score": 7}'), "score_out_of_range"),
    "score below 0": (Say('{"verdict": "accept", "score": -0.01}'), "score_out_of_range"),
    "nothing": (Say(""), "empty_answer"),
    "null": (Say(None), "empty_answer"),
    "cut": (Say('{"verdict": "acc', finish_reason="length"), "cut_answer"),
    "filtered": (Say(None, finish_reason="content_filter"), "withheld_answer"),
    "refusal": (Say(None, refusal="I cannot"), "withheld_answer"),
}


@pytest.mark.parametrize(("say", "error"), BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_an_answer_that_cannot_be_read_gives_no_verdict_and_no_score(say: Say, error: str) -> None:
    row = one(ask(say))
    assert (row["verdict"], row["score"], row["reasons"], row["label_source"]) == (None, None, None, None)
    assert row["error"] == error
    assert row["error_detail"]


_WORDS = st.sampled_from(["accept", "reject", "uncertain", "Accept", "", "maybe"])
_VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
_OBJECTS = st.fixed_dictionaries(
    {}, optional={"verdict": _WORDS | _VALUES, "score": _VALUES, "reasons": st.lists(_VALUES, max_size=2)}
)


@given(st.text() | _OBJECTS.map(json.dumps))
def test_whatever_is_answered_there_is_a_verdict_in_range_or_a_reason(text: str) -> None:
    read = read_answer(Answer(text, "stop", False, None, None, None, 1))
    if read.verdict is None:
        assert (read.score, read.reasons) == (None, None)
        assert read.error in ERRORS
    else:
        said = json.loads(text)
        assert (read.verdict, read.score, read.error) == (said["verdict"], said.get("score"), None)
        assert read.score is None or 0 <= read.score <= 1


PASSING: dict[str, tuple[Say, str]] = {
    "500": (Say(status=500), "server_failed"),
    "503": (Say(status=503), "server_failed"),
    "408": (Say(status=408), "server_failed"),
    "429": (Say(status=429), "rate_limited"),
    "no completion": (Say(raw=b'{"object": "error"}'), "bad_response"),
    "malformed JSON": (Say(raw=b'{"choices": [{"mess'), "bad_response"),
    "no UTF-8": (Say(raw=b'{"choices": ["\xff"]}'), "bad_response"),
    "no choices": (Say(raw=b'{"choices": []}'), "bad_response"),
    "cut short": (Say(headers={"content-length": "99999"}), "connection_failed"),
}


@pytest.mark.parametrize(("say", "error"), PASSING.values(), ids=PASSING.keys())
def test_a_passing_failure_is_tried_again(say: Say, error: str) -> None:
    if error == "connection_failed":
        say.headers["connection"] = "close"
    with serving(lambda _c, before: say if before < 2 else Say()) as stub:
        row = one(checked(mentor(stub, retries=2).score(rows(1))))
        assert (row["verdict"], row["attempts"], row["error"]) == ("accept", 3, None)
    row = one(ask(say, retries=1))
    assert (row["verdict"], row["error"], row["attempts"]) == (None, error, 2)


def test_a_timeout_is_tried_again_and_then_named() -> None:
    never = threading.Event()
    with serving(lambda _c, before: Say(hold=never) if before < 1 else Say()) as stub:
        assert one(mentor(stub, timeout=0.2, retries=1).score(rows(1)))["attempts"] == 2
    row = one(ask(Say(hold=never), timeout=0.2, retries=1))
    assert (row["error"], row["error_detail"]) == ("timeout", "no answer in time, 2 attempts")


def test_no_server_is_a_connection_failure() -> None:
    with serving() as stub:
        pass
    assert one(mentor(stub, retries=1).score(rows(1)))["error"] == "connection_failed"


def test_a_request_that_is_refused_is_not_sent_again_and_the_message_of_the_endpoint_is_not_repeated() -> None:
    with serving(lambda _c, _n: Say(status=400, code="context_length_exceeded")) as stub:
        row = one(checked(mentor(stub).score(rows(1))))
    assert len(stub.requests) == 1
    assert (row["error"], row["error_detail"]) == ("request_refused", "HTTP 400 (context_length_exceeded), 1 attempt")


@pytest.mark.parametrize("status", [401, 403, 404, 307])
def test_what_every_request_would_be_answered_ends_the_run(status: int, tmp_path: Path) -> None:
    def script(content: str, _before: int) -> Say:
        return Say() if "0" in content else Say(status=status, headers={"location": "http://192.0.2.1/v1"})

    with serving(script) as stub:
        judge = mentor(stub, tmp_path / "a.sqlite", concurrency=1)
        with pytest.raises(ConfigError, match=f"HTTP {status}"):
            judge.score(rows(5))
        assert len(stub.requests) == 2
        assert judge.plan(rows(5))["kept"] == 1, "what was answered before is kept"


def test_an_endpoint_that_asks_for_too_long_a_wait_ends_the_run() -> None:
    with serving(lambda _c, _n: Say(status=429, headers={"retry-after": "3600"})) as stub:
        judge = mentor(stub, concurrency=1, max_wait=1)
        found = checked(judge.score(rows(4)))
    assert len(stub.requests) == 1
    assert found["error"].to_list() == ["rate_limited"] * 4
    assert found["attempts"].to_list() == [1, 0, 0, 0]
    assert judge.budget.stop is not None
    assert "3600" in judge.budget.stop.detail


def test_an_endpoint_that_keeps_failing_is_left_alone() -> None:
    with serving(lambda _c, _n: Say(status=500)) as stub:
        found = checked(mentor(stub, concurrency=1, retries=0, max_failures=3).score(rows(9)))
    assert len(stub.requests) == 3
    assert found["error"].to_list() == ["server_failed"] * 3 + ["endpoint_failing"] * 6


def test_rows_that_are_refused_one_after_another_end_the_run_too() -> None:
    with serving(lambda _c, _n: Say(status=400)) as stub:
        found = checked(mentor(stub, concurrency=1, max_failures=2).score(rows(5)))
    assert len(stub.requests) == 2
    assert found["error"].to_list() == ["request_refused"] * 2 + ["endpoint_failing"] * 3


def test_never_more_requests_at_once_than_allowed() -> None:
    full = threading.Event()
    with serving(lambda _c, _n: Say(hold=full)) as stub:
        judge = mentor(stub, concurrency=3)
        thread = threading.Thread(target=lambda: (wait_for(lambda: stub.in_flight == 3), full.set()))
        thread.start()
        with_all = checked(judge_in_this_thread(judge, rows(12)))
        thread.join()
    assert stub.most_in_flight == 3
    assert with_all["verdict"].to_list() == ["accept"] * 12


def wait_for(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(2000):
        if condition():
            return
        waiting.wait(0.005)
    raise AssertionError("it never came")


def judge_in_this_thread(judge: Judge, frame: pl.DataFrame) -> pl.DataFrame:
    return judge.score(frame)


def test_the_order_of_verdicts_is_that_of_the_rows_whatever_comes_first(tmp_path: Path) -> None:
    def script(content: str, _before: int) -> Say:
        n = json.loads(content)["n"]
        return Say(json.dumps({"verdict": "accept", "score": n / 10, "reasons": []}), hold=held if n == 0 else None)

    frames = []
    for _ in range(2):
        held = threading.Event()
        with serving(script) as stub:
            threading.Thread(target=lambda s=stub, h=held: (wait_for(lambda: len(s.requests) > 4), h.set())).start()
            frames.append(checked(mentor(stub, concurrency=3).score(rows(8))))
    assert_frame_equal(*frames)
    assert frames[0]["score"].to_list() == [n / 10 for n in range(8)]


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    with serving(lambda c, _n: Say("nonsense") if "2" in c else Say()) as stub:
        first = checked(mentor(stub, cache).score(rows(4)))
        again = mentor(stub, cache)
        second = checked(again.score(rows(6)))
        assert len(stub.requests) == 6
    assert first["cached"].to_list() == [False] * 4
    assert second["cached"].to_list() == [True] * 4 + [False] * 2
    assert second["error"].to_list() == [None, None, "malformed_answer", None, None, None]
    assert_frame_equal(first.drop("cached"), second.head(4).drop("cached"))
    assert again.budget.spent.calls == 2


def test_kept_answers_need_no_endpoint_and_give_the_same_bytes(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    with serving(lambda c, n: Say(status=500) if "1" in c and n == 0 else Say()) as stub:
        fresh = mentor(stub, cache).score(rows(5))
    kept = mentor(stub, cache).score(rows(5))
    about = {"family": "f", "judge": "model"}
    for name, frame in (("fresh", fresh), ("kept", kept)):
        write_verdicts(frame, tmp_path / name, about=about)
    files = [
        [(tmp_path / d / f).read_bytes() for f in ("verdicts.parquet", "manifest.json")] for d in ("fresh", "kept")
    ]
    assert files[0] == files[1]
    assert kept["cached"].all()
    assert kept["attempts"].to_list() == [1, 2, 1, 1, 1]


def test_another_model_prompt_or_content_is_another_question(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    with serving() as stub:
        mentor(stub, cache).score(rows(1))
        mentor(stub, cache, prompt=Prompt("Judge harshly.")).score(rows(1))
        mentor(stub, cache, prompt=Prompt(temperature=0.5)).score(rows(1))
        MentorJudge(stub.url, "other", cache=cache).score(rows(1))
        mentor(stub, cache).score(rows(1, content=['{"n": 0.0}']))
        assert len(stub.requests) == 5
        mentor(stub, cache).score(rows(1, row_id=["another row"]))
        assert len(stub.requests) == 5


def test_rows_of_one_content_are_asked_for_once() -> None:
    with serving() as stub:
        found = checked(mentor(stub).score(rows(3, content=["{}", "{ }", "{}"])))
    assert len(stub.requests) == 2
    assert found["cached"].to_list() == [False, False, True]
    assert found["verdict"].null_count() == 0


def test_answers_without_a_verdict_are_asked_again_on_request_only(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    with serving(lambda _c, n: Say("nonsense") if n == 0 else Say()) as stub:
        mentor(stub, cache).score(rows(2))
        assert mentor(stub, cache).score(rows(2))["error"].to_list() == ["malformed_answer"] * 2
        assert len(stub.requests) == 2
        assert mentor(stub, cache, ask_again=True).plan(rows(2))["missing"] == 2
        assert mentor(stub, cache, ask_again=True).score(rows(2))["verdict"].to_list() == ["accept"] * 2
        assert len(stub.requests) == 4
        assert mentor(stub, cache).score(rows(2))["cached"].all()


def test_asking_again_in_vain_loses_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    with serving(lambda _c, n: Say("nonsense") if n == 0 else Say(status=500)) as stub:
        mentor(stub, cache).score(rows(1))
        assert one(mentor(stub, cache, ask_again=True, retries=0).score(rows(1)))["error"] == "server_failed"
        assert one(mentor(stub, cache).score(rows(1)))["error"] == "malformed_answer"


def test_failures_are_not_kept(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    with serving(lambda _c, n: Say(status=500) if n == 0 else Say()) as stub:
        assert mentor(stub, cache, retries=0).score(rows(2))["error"].to_list() == ["server_failed"] * 2
        assert mentor(stub, cache, retries=0).score(rows(2))["verdict"].to_list() == ["accept"] * 2


def test_a_budget_of_calls_is_held_to_the_call_and_the_next_run_makes_the_missing_ones_only(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    with serving() as stub:
        half = mentor(stub, cache, max_calls=5, concurrency=3)
        found = checked(half.score(rows(12)))
        assert len(stub.requests) == 5
        assert found["verdict"].to_list() == ["accept"] * 5 + [None] * 7
        assert found["error"].to_list() == [None] * 5 + ["budget"] * 7
        assert found["attempts"].to_list() == [1] * 5 + [0] * 7
        assert half.budget.to_dict()["stopped"]["error"] == "budget"
        rest = mentor(stub, cache)
        whole = checked(rest.score(rows(12)))
        assert (len(stub.requests), rest.budget.spent.calls) == (12, 7)
    assert sorted(stub.contents) == sorted(rows(12)["content"])
    assert whole["error"].null_count() == 12


def test_retries_count_against_the_budget() -> None:
    with serving(lambda _c, _n: Say(status=500)) as stub:
        found = checked(mentor(stub, max_calls=3, retries=9, concurrency=1).score(rows(2)))
    assert len(stub.requests) == 3
    assert found["error"].to_list() == ["budget", "budget"]
    assert found["attempts"].to_list() == [3, 0]
    assert "HTTP 500" in found["error_detail"][0]


def test_a_budget_of_tokens_or_dollars_begins_no_further_call() -> None:
    for options in ({"max_tokens": 220}, {"max_usd": 0.0024, "price_in": 10, "price_out": 20}):
        with serving() as stub:
            judge = mentor(stub, concurrency=1, **options)
            found = checked(judge.score(rows(6)))
        assert len(stub.requests) == 2
        assert found["error"].to_list() == [None] * 2 + ["budget"] * 4
    assert judge.budget.usd == pytest.approx((200 * 10 + 20 * 20) / 1e6)


def test_tokens_that_nobody_reports_cannot_be_counted_and_end_a_run_that_has_to() -> None:
    found = ask(Say(usage=None), rows(3), concurrency=1, max_tokens=1000)
    assert found["error"].to_list() == [None, "budget", "budget"]
    assert "max_calls" in found["error_detail"][1]
    half = Say(raw=Say().body().replace(b'"prompt_tokens": 100', b'"prompt_tokens": null'))
    assert ask(half, rows(3), concurrency=1, max_tokens=1000)["error"].to_list() == [None, "budget", "budget"]
    free = ask(Say(usage=None), rows(3))
    assert free["prompt_tokens"].to_list() == [None] * 3
    assert free["verdict"].null_count() == 0


# Made of parts, so that no secret stands in this file.
SECRET = "gh" + "p_" + "a1B2" * 9


def test_only_redacted_rows_are_sent() -> None:
    home = "/ho" + "me/someone/work/notes.txt"
    contents = [
        json.dumps({"text": t})
        for t in (f"token {SECRET}", f"see {home}", "<secret:forge_token> ok", "mail a.b@example.org")
    ]
    frame = rows(6, content=[*contents, "", None])
    with serving() as stub:
        found = checked(mentor(stub).score(frame))
        assert stub.contents == [contents[2], contents[3]] or sorted(stub.contents) == sorted(contents[2:4])
        assert found["error"].to_list() == [
            "secret_after_redaction",
            "private_path_after_redaction",
            None,
            None,
            "no_content",
            "no_content",
        ]
        assert found.filter(pl.col("error").is_not_null())["attempts"].sum() == 0
        assert mentor(stub, pii=True).score(frame)["error"][3] == "pii_after_redaction"


def test_what_only_a_verifier_may_see_is_not_sent() -> None:
    with serving() as stub:
        found = checked(mentor(stub).score(rows(2, verifier_only=[True, False])))
    assert stub.contents == ['{"n": 1}']
    assert found["error"].to_list() == ["verifier_only", None]
    assert found["model"].to_list() == [None, "m"], "a row that was not sent names no model"
    assert found["prompt_digest"].to_list() == [None, Prompt().digest]


def test_a_secret_that_a_model_makes_up_is_redacted() -> None:
    row = one(ask(Say(json.dumps({"verdict": "reject", "reasons": [f"it prints {SECRET}"]}))))
    assert SECRET not in row["reasons"][0]
    assert "<secret:" in row["reasons"][0]


def test_nothing_of_the_machine_or_its_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {
        "OPENAI_API_KEY": "planted-key",
        "OPENAI_ADMIN_KEY": "planted-admin",
        "OPENAI_ORG_ID": "planted-org",
        "OPENAI_PROJECT_ID": "planted-project",
        "OPENAI_CUSTOM_HEADERS": "x-planted: planted-header",
        "OPENAI_BASE_URL": "http://192.0.2.1/planted",
    }
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    with serving() as stub:
        mentor(stub).score(rows(1))
        MentorJudge(stub.url, "m", api_key="mine").score(rows(1))
    plain, keyed = stub.headers
    assert "planted" not in json.dumps(stub.headers)
    assert "authorization" not in plain
    assert keyed["authorization"] == "Bearer mine"
    assert sorted(plain) == [
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-stainless-raw-response",
    ]


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://x/v1", "http://", "http://me:pw@127.0.0.1/v1", "http://[::1"]
)
def test_an_endpoint_is_named_by_a_plain_url(url: str) -> None:
    with pytest.raises(ConfigError):
        MentorJudge(url, "m")


@pytest.mark.parametrize(
    "bad",
    [
        {"concurrency": 0},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"retries": -1},
        {"max_usd": 1.0},
        {"max_calls": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        AskOptions(**bad)


def test_a_frame_that_is_no_judge_input_is_refused() -> None:
    for judge in (RuleJudge(), MentorJudge("http://127.0.0.1:9/v1", "m")):
        with pytest.raises(TableError, match="content"):
            judge.score(rows(1).drop("content"))
        with pytest.raises(TableError, match="row_id"):
            judge.score(rows(2, row_id=["a", "a"]))


def test_no_rows_give_no_verdicts_and_no_call() -> None:
    with serving() as stub:
        assert checked(mentor(stub).score(rows(0))).height == 0
    assert stub.requests == []
    assert checked(RuleJudge().score(rows(0))).height == 0


def test_the_rules_say_what_the_gates_said_and_give_no_score() -> None:
    frame = rows(3, accepted=[True, False, None], reject_reasons=[[], ["too_long", "no_evidence"], None])
    found = checked(RuleJudge().score(frame))
    assert found["verdict"].to_list() == ["accept", "reject", None]
    assert found["reasons"].to_list() == [[], ["too_long", "no_evidence"], None]
    assert found["label_source"].to_list() == ["heuristic", "heuristic", None]
    assert found["score"].null_count() == 3
    assert found["model"].null_count() == 3


def test_rows_of_a_compile_are_shown_without_gates_measures_and_ids(compiled: Path) -> None:
    from expcomp.compiler.compilation import open_compilation

    family = open_compilation(compiled).rows["training_example"]
    made = judge_input(family)
    judged = checked(RuleJudge().score(made))
    assert judged["content_hash"].to_list() == family["content_hash"].to_list()
    assert not set(json.loads(made["content"][0])) & {"quality", "accepted", "reject_reasons", "row_id", "package_id"}
    private = judge_input(open_compilation(compiled).rows["evaluation_example"])
    with serving() as stub:
        found = mentor(stub).score(private)
    assert private["verifier_only"].any()
    assert found.filter(pl.col("error") == "verifier_only").height == int(private["verifier_only"].sum())


def test_a_report_counts_and_takes_the_mean_of_what_was_scored() -> None:
    said = iter([Say(), Say('{"verdict": "reject", "score": 0.25}'), Say('{"verdict": "reject"}'), Say("nonsense")])
    report = verdict_report(ask(lambda _c, _n: next(said), rows(4), concurrency=1))
    assert report["verdicts"] == {"accept": 1, "reject": 2}
    assert report["errors"] == {"malformed_answer": 1}
    assert (report["scored"], report["score_mean"]) == (2, 0.5)


def test_a_file_of_something_else_is_not_written_to(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be looked at as one" * 50)
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE t (x)")
    before = [p.read_bytes() for p in (text, other)]
    for path in (text, other):
        with pytest.raises(SourceError, match=path.name):
            AnswerStore(path)
    assert [p.read_bytes() for p in (text, other)] == before
    with pytest.raises(OutputError):
        AnswerStore(text / "below")


def test_the_first_answer_to_a_question_stands(tmp_path: Path) -> None:
    a, b = AnswerStore(tmp_path / "s"), AnswerStore(tmp_path / "s")
    first = Answer("one", "stop", False, None, 1, 2, 1)
    assert a.put("k", first) == first
    assert b.put("k", first._replace(text="two")) == first
    assert b.known([f"x{i}" for i in range(1200)] + ["k"]) == {"k": first}
    a.close()
    b.close()
