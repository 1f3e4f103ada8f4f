"""How a model is asked: limits of time, number and cost. They decide what is asked, never what an answer means."""

from __future__ import annotations

from dataclasses import dataclass

from expcomp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AskOptions:
    """Limits of a run.

    Attributes:
        concurrency: Requests in flight at most.
        timeout: Seconds without a byte of a response after which it counts as lost.
        retries: Requests for one content after the first, when it failed for a passing reason.
        backoff: Seconds before the first retry; doubled for each further one. A longer Retry-After of the endpoint counts.
        max_wait: Longest wait in seconds. An endpoint that asks for more ends the run.
        max_failures: So many contents that fail one after another end the run.
        max_calls: Requests of this run at most, retries counted.
        max_tokens: No request is begun once the run has used so many tokens; those in flight are finished.
        max_usd: The same for the cost, by the two prices.
        price_in: US dollars for a million tokens read.
        price_out: US dollars for a million tokens written.
        pii: Refuse rows with e-mail addresses, phone numbers and IP addresses, too.
        ask_again: Ask again for contents whose kept answer gives no verdict.
    """

    concurrency: int = 4
    timeout: float = 60.0
    retries: int = 4
    backoff: float = 1.0
    max_wait: float = 120.0
    max_failures: int = 10
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    pii: bool = False
    ask_again: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not least <= value < float("inf"):
                raise ConfigError(f"option {name} is {value}, expected {least} or more")
        if not self.timeout > 0:
            raise ConfigError(f"option timeout is {self.timeout}, expected more than 0")
        if self.max_usd is not None and (self.price_in is None or self.price_out is None):
            raise ConfigError("option max_usd needs price_in and price_out: US dollars for a million tokens")


_LEAST = {
    "concurrency": 1,
    "timeout": 0,
    "retries": 0,
    "backoff": 0,
    "max_wait": 0,
    "max_failures": 1,
    "max_calls": 0,
    "max_tokens": 0,
    "max_usd": 0,
    "price_in": 0,
    "price_out": 0,
}
