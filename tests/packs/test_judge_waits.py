"""How long a judge waits before it asks again."""

from __future__ import annotations

import threading
import time
from email.utils import formatdate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.io.answer_store import Answer
from expcomp.io.chat_endpoint import Completion, Failure, retry_after
from expcomp.packs.judge.ask import Asker, Failed, delay_before
from expcomp.packs.judge.budget import Budget
from expcomp.packs.judge.options import AskOptions
from expcomp.packs.judge.prompt import Prompt


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 1_000_000.0) == seconds


@given(
    attempt=st.integers(1, 10_000),
    asked=st.none() | st.floats(0, 1e6),
    backoff=st.floats(0, 100),
    longest=st.floats(0, 1000),
)
def test_a_wait_is_never_shorter_than_the_endpoint_asks(
    attempt: int, asked: float | None, backoff: float, longest: float
) -> None:
    wait = delay_before(attempt, asked, backoff=backoff, longest=longest)
    assert wait >= (asked or 0.0)
    assert wait <= max(longest, asked or 0.0)
    assert delay_before(attempt + 1, asked, backoff=backoff, longest=longest) >= wait


def test_waits_double() -> None:
    assert [delay_before(n, None, backoff=1, longest=10) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def run(failures: list[Failure], **options: float) -> tuple[list[float], list[Answer | Failed]]:
    """What is waited for, and what comes of one request, when these failures come first."""
    waited: list[float] = []
    came: list[Answer | Failed] = []
    left = list(failures)

    def send(_: object) -> Completion:
        if left:
            raise left.pop(0)
        return msgspec.json.decode(b'{"choices": [{"message": {"content": "x"}}]}', type=Completion)

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        time.sleep(min(seconds, 0.01))

    options = {"concurrency": 1} | options
    Asker(send, Budget(AskOptions(**options)), sleep=sleep).run([("k", {})], lambda _, result: came.append(result))
    return waited, came


def test_without_a_word_of_the_endpoint_the_waits_grow() -> None:
    waited, came = run([Failure("status", status=500), Failure("timeout"), Failure("connection")], backoff=0.5)
    assert waited == [0.5, 1.0, 2.0]
    assert [c.attempts for c in came] == [4]


def test_what_the_endpoint_asks_for_is_waited_for_in_full() -> None:
    waited, came = run([Failure("status", status=429, retry_after=0.05)], backoff=0.0)
    assert waited
    assert max(waited) <= 0.05
    assert isinstance(came[0], Answer)


def test_no_wait_after_the_last_attempt() -> None:
    waited, came = run([Failure("status", status=500)] * 2, retries=1, backoff=0.25)
    assert waited == [0.25]
    assert came == [Failed("server_failed", "HTTP 500, 2 attempts", 2)]


def test_who_is_stopped_still_gets_what_is_in_flight() -> None:
    both = threading.Barrier(2)
    came: list[str] = []

    def send(_: object) -> Completion:
        both.wait(10)
        return msgspec.json.decode(b'{"choices": [{"message": {"content": "x"}}]}', type=Completion)

    def take(key: str, _: object) -> None:
        came.append(key)
        if len(came) == 1:
            raise KeyboardInterrupt

    budget = Budget(AskOptions(concurrency=2))
    with pytest.raises(KeyboardInterrupt):
        Asker(send, budget).run([(str(n), {}) for n in range(9)], take)
    assert sorted(came) == ["0", "1"]
    assert budget.spent.calls == 2


def test_the_digest_of_a_prompt_covers_all_that_is_sent_beside_the_content() -> None:
    prompts = [
        Prompt(),
        Prompt("Other."),
        Prompt(temperature=1.0),
        Prompt(temperature=None),
        Prompt(answer_tokens=5),
        Prompt(json_mode=True),
    ]
    assert len({p.digest for p in prompts}) == len(prompts)
    assert Prompt().digest == Prompt().digest
