"""Asking for many contents at once: bounded, with retries that wait as the endpoint asks, each answer handed on as it comes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple

from expcomp.errors import ConfigError
from expcomp.io.answer_store import Answer
from expcomp.io.chat_endpoint import Completion, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from expcomp.packs.judge.budget import Budget

# Answers of HTTP that another request may not get; 5xx is read by its hundreds.
PASSING = frozenset({408, 409, 425, 429})
# Those that every request would get: the run cannot go on.
FATAL: Mapping[int, str] = {
    401: "it asks for a key; name the variable that holds it",
    403: "the key may not be used for this",
    404: "there is no such path or model; the URL is usually to end in /v1",
    405: "this is no chat endpoint; the URL is usually to end in /v1",
}


class Failed(NamedTuple):
    """A content that got no answer: a word of `judge_error`, a sentence, and the requests made in vain."""

    error: str
    detail: str
    attempts: int


class Asker:
    """Asks for contents, within one budget.

    Args:
        send: Sends one request; raises `Failure`.
        budget: Limits of the run.
        sleep: Waits; given by tests.
    """

    def __init__(
        self,
        send: Callable[[Mapping[str, Any]], Completion],
        budget: Budget,
        *,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._send, self._budget, self._options = send, budget, budget.options
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self._until = 0.0  # when the endpoint may be asked again; one wait for all threads

    def run(
        self, requests: Iterable[tuple[str, Mapping[str, Any]]], take: Callable[[str, Answer | Failed], None]
    ) -> None:
        """Send requests in their order, at most `concurrency` at a time, and hand on what comes of each, in the caller's thread.

        What the budget leaves out is not handed on. When the caller is stopped, what is in flight is still waited for and handed
        on: it is paid for.

        Raises:
            ConfigError: The endpoint gives an answer that every request would get, such as 401.
        """
        pending: dict[Future[Answer | Failed], str] = {}

        def collect(when: str) -> None:
            done, _ = wait(pending, return_when=when)
            for future in done:
                take(pending.pop(future), future.result())

        with ThreadPoolExecutor(self._options.concurrency, thread_name_prefix="judge") as pool:
            try:
                for key, request in requests:
                    while len(pending) >= self._options.concurrency:
                        collect(FIRST_COMPLETED)
                    # Taken here and not in the thread, so that a budget of calls always falls on the same rows.
                    if not self._budget.take():
                        break
                    pending[pool.submit(self._ask, request)] = key
                while pending:
                    collect(FIRST_COMPLETED)
            except BaseException:
                self._stopped.set()
                for future, key in pending.items():
                    if future.exception() is None:
                        take(key, future.result())
                raise

    def _ask(self, request: Mapping[str, Any]) -> Answer | Failed:
        attempts = 0
        while True:
            self._pause()
            if self._stopped.is_set():
                return Failed("budget", "the run was stopped", attempts)
            attempts += 1
            try:
                completion = self._send(request)
            except Failure as failure:
                if failure.status is not None and (failure.status in FATAL or 300 <= failure.status < 400):
                    why = FATAL.get(failure.status, "it points elsewhere; name the place itself")
                    raise ConfigError(f"the endpoint answers {failure.said}: {why}") from None
                failed = self._failed(failure, attempts)
                if failed is None:
                    continue
                if failed.error != "budget":
                    self._budget.failed()
                return failed
            self._budget.answered(completion.usage)
            return _answer(completion, attempts)

    def _failed(self, failure: Failure, attempts: int) -> Failed | None:
        """What becomes of a failure; None when the request is to be sent again, after the wait and with a call taken for it."""
        error = error_of(failure)
        detail = f"{failure.said}, {attempts} attempt{'s' * (attempts > 1)}"
        if error == "request_refused" or attempts > self._options.retries or self._stopped.is_set():
            return Failed(error, detail, attempts)
        asked = failure.retry_after
        if asked is not None and asked > self._options.max_wait:
            self._budget.end(
                error,
                f"the endpoint asks for a wait of {asked:g} s, longer than max_wait; run again then, answers are kept",
            )
            return Failed(error, detail, attempts)
        delay = delay_before(attempts, asked, backoff=self._options.backoff, longest=self._options.max_wait)
        if asked is None:
            self._sleep(delay)
        else:
            self._until = max(self._until, time.monotonic() + delay)
        if not self._budget.take():
            stop = self._budget.stop
            assert stop is not None
            return (
                Failed("budget", f"{detail}; {stop.detail}", attempts)
                if stop.error == "budget"
                else Failed(error, detail, attempts)
            )
        return None

    def _pause(self) -> None:
        while (left := self._until - time.monotonic()) > 0 and not self._stopped.is_set():
            self._sleep(left)


def delay_before(attempt: int, asked: float | None, *, backoff: float, longest: float) -> float:
    """Seconds before retry number `attempt`: min(longest, backoff * 2^(attempt - 1)), or what the endpoint asks for if that is more."""
    return max(min(longest, backoff * 2.0 ** min(attempt - 1, 32)), asked or 0.0)


def error_of(failure: Failure) -> str:
    """The word of `judge_error` for a failure."""
    words = {"timeout": "timeout", "connection": "connection_failed", "response": "bad_response"}
    if failure.status is None:
        return words[failure.kind]
    if failure.status == 429:
        return "rate_limited"
    return "server_failed" if failure.status >= 500 or failure.status in PASSING else "request_refused"


def _answer(completion: Completion, attempts: int) -> Answer:
    choice, usage = completion.choices[0], completion.usage
    return Answer(
        text=choice.message.content,
        finish_reason=choice.finish_reason,
        refused=choice.message.refusal is not None and not choice.message.content,
        model=completion.model,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        completion_tokens=None if usage is None else usage.completion_tokens,
        attempts=attempts,
    )
