"""What a run has used, and whether it may go on. One for all threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from expcomp.io.chat_endpoint import Usage
    from expcomp.packs.judge.options import AskOptions


class Stop(NamedTuple):
    """Why a run asks no more: a word of `judge_error`, and a sentence."""

    error: str
    detail: str


@dataclass
class Spent:
    """What a run has used.

    Attributes:
        calls: Requests, retries counted.
        answers: Completions that came back.
        answers_without_usage: Those whose tokens the endpoint does not report; they are in no sum.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
    """

    calls: int = 0
    answers: int = 0
    answers_without_usage: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Budget:
    """The limits of a run against what it has used.

    Attributes:
        spent: What was used so far.
        stop: Why no more is asked; None while the run may go on.
    """

    def __init__(self, options: AskOptions) -> None:
        self.options = options
        self.spent = Spent()
        self.stop: Stop | None = None
        self._failed = 0
        self._lock = threading.Lock()

    @property
    def usd(self) -> float | None:
        """Cost of the tokens that were reported; None without both prices."""
        o, s = self.options, self.spent
        if o.price_in is None or o.price_out is None:
            return None
        return (s.prompt_tokens * o.price_in + s.completion_tokens * o.price_out) / 1e6

    def take(self) -> bool:
        """Take one request; False when there is none left."""
        with self._lock:
            if self.stop is None:
                self.stop = self._used_up()
            if self.stop is not None:
                return False
            self.spent.calls += 1
            return True

    def answered(self, usage: Usage | None) -> None:
        """Note a completion and its tokens."""
        with self._lock:
            self._failed = 0
            self.spent.answers += 1
            if usage is not None and usage.prompt_tokens is not None and usage.completion_tokens is not None:
                self.spent.prompt_tokens += usage.prompt_tokens
                self.spent.completion_tokens += usage.completion_tokens
                return
            self.spent.answers_without_usage += 1
            if self.options.max_tokens is not None or self.options.max_usd is not None:
                self._end(
                    "budget",
                    "the endpoint reports no tokens, so a limit on tokens or cost cannot be held; set max_calls",
                )

    def failed(self) -> None:
        """Note a content that got no completion after all retries."""
        with self._lock:
            self._failed += 1
            if self._failed >= self.options.max_failures:
                self._end(
                    "endpoint_failing",
                    f"{self._failed} rows before it failed one after another; see their errors and run again",
                )

    def end(self, error: str, detail: str) -> None:
        """Ask no more."""
        with self._lock:
            self._end(error, detail)

    def _end(self, error: str, detail: str) -> None:
        if self.stop is None:
            self.stop = Stop(error, detail)

    def _used_up(self) -> Stop | None:
        o, s, usd = self.options, self.spent, self.usd
        tokens = s.prompt_tokens + s.completion_tokens
        limits: tuple[tuple[str, Any, Any], ...] = (
            ("max_calls", o.max_calls, s.calls),
            ("max_tokens", o.max_tokens, tokens),
            ("max_usd", o.max_usd, usd),
        )
        for name, limit, used in limits:
            if limit is not None and used is not None and used >= limit:
                return Stop("budget", f"{name} {limit:g} is used up; run again with a larger one, answers are kept")
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a report."""
        stop = None if self.stop is None else self.stop._asdict()
        usd = None if self.usd is None else round(self.usd, 6)
        return vars(self.spent) | {"usd": usd, "stopped": stop}
