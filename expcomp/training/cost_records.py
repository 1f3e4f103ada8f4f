"""One line of a cost ledger: a call that was let through, or what came of it. Amounts are billionths of a US dollar, whole."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from expcomp.errors import UsageError
from expcomp.training.documents import Count, Document, Name, Rule, Text

NANOS = 1_000_000_000
"""Billionths in a dollar."""

Channel = Literal["agent", "judge", "verifier", "analyst", "driver", "other"]
"""Who calls."""
Phase = Literal["preparation", "measurement"]
"""What for: to make a candidate, or to measure it."""
Provenance = Literal["observed", "estimated", "uncaptured"]


class Tokens(Document, frozen=True, kw_only=True):
    """Usage of a call. `cached` and `cacheWrite` are part of `input`, `reasoning` is part of `output`."""

    input: Count
    output: Count
    reasoning: Count = 0
    cached: Count = 0
    cache_write: Count = 0

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "tokens_cached",
            "cached",
            lambda t: t.cached + t.cache_write <= t.input,
            "cached and cacheWrite together at most input",
            lambda t: (t.cached, t.cache_write, t.input),
        ),
        Rule(
            "tokens_reasoning",
            "reasoning",
            lambda t: t.reasoning <= t.output,
            "at most output",
            lambda t: (t.reasoning, t.output),
        ),
    )


class Rates(Document, frozen=True, kw_only=True):
    """Prices in billionths of a dollar a token: 3 dollars a million tokens are 3000."""

    input: Count
    output: Count
    cached: Count | UnsetType = UNSET
    cache_write: Count | UnsetType = UNSET

    def cost(self, tokens: Tokens) -> int:
        """What these tokens cost; where a rate of the cache is not known, that of the input."""
        cached = self.input if self.cached is UNSET else self.cached
        write = self.input if self.cache_write is UNSET else self.cache_write
        fresh = tokens.input - tokens.cached - tokens.cache_write
        return int(
            fresh * self.input + tokens.cached * cached + tokens.cache_write * write + tokens.output * self.output
        )

    def maximum(self, input_tokens: int, output_tokens: int) -> int:
        """The most that a call within these caps costs."""
        known = [r for r in (self.input, self.cached, self.cache_write) if r is not UNSET]
        return int(input_tokens * max(known) + output_tokens * self.output)


_NEEDED: dict[str, tuple[str, ...]] = {
    "opened": (),
    "admitted": ("call", "owner", "channel", "phase", "model"),
    "settled": ("call", "owner", "provenance"),
}


class CostRecord(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the ledger.

    Attributes:
        kind: `opened` (first line), `admitted`, `settled`.
        revision: 0-based line.
        ceiling_nanos: opened: what all calls together may cost.
        call: Id of the call; used once.
        owner: Writer that let it through.
        maximum_nanos: admitted: what it may cost at the most.
        cost_nanos: settled: what it did; unset when nobody knows.
        provenance: settled: who says so.
        rates: settled: of an estimate.
        failure: settled: why the call failed.
    """

    kind: Literal["opened", "admitted", "settled"]
    revision: Count
    ceiling_nanos: Count | UnsetType = UNSET
    call: Name | UnsetType = UNSET
    owner: Name | UnsetType = UNSET
    channel: Channel | UnsetType = UNSET
    phase: Phase | UnsetType = UNSET
    model: Name | UnsetType = UNSET
    maximum_nanos: Count | UnsetType = UNSET
    cost_nanos: Count | UnsetType = UNSET
    provenance: Provenance | UnsetType = UNSET
    tokens: Tokens | UnsetType = UNSET
    rates: Rates | UnsetType = UNSET
    failure: Text | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "cost_record_fields",
            "kind",
            lambda r: all(getattr(r, f) is not UNSET for f in _NEEDED[r.kind]),
            "; ".join(f"{kind} with {', '.join(names)}" for kind, names in _NEEDED.items() if names),
            lambda r: r.kind,
        ),
        Rule(
            "cost_provenance",
            "provenance",
            lambda r: r.kind != "settled" or (r.provenance == "uncaptured") == (r.cost_nanos is UNSET),
            "uncaptured exactly where there is no costNanos",
            lambda r: r.provenance,
        ),
    )  # fmt: skip


def nanos(usd: float) -> int:
    """Dollars as whole billionths, rounded half to even.

    Raises:
        UsageError: Not finite, or below 0.
    """
    if not 0 <= usd < float("inf"):
        raise UsageError(f"{usd} is no amount of dollars; expected a finite number of at least 0")
    return round(usd * NANOS)
