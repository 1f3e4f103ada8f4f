"""Telemetry: spans of whatever dialect in one model, and from their tree the attempts that a trace holds.

A dialect is a table: names of attributes to what they mean. The readers of `otel`, `openinference`, `langfuse`, `langsmith` and
`mlflow` bring their records into `Span` and `Trace`; everything after that is the same for all of them.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from expcomp.sources._values import amount, count, redact, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from expcomp.sources._chat import Note, Row
    from expcomp.sources._contract import Unit

Path = str | tuple[str, ...]
AGENT, LLM, TOOL, EVALUATOR, OTHER = "agent", "llm", "tool", "evaluator", "other"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 1, 1, tzinfo=UTC)
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_HEADER = re.compile(r"(^|[._-])headers?($|[._-])", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]+")


@dataclass(frozen=True)
class Dialect:
    """What names mean in one dialect.

    Attributes:
        fields: Meaning to the places that hold it, the first that is there counts. A place is a key, or keys one inside the other.
        kinds: Word of a kind (lower case) to kind of span.
        hints: Kind that the presence of a key shows, when no word tells.
    """

    fields: Mapping[str, tuple[Path, ...]]
    kinds: Mapping[str, str]
    hints: tuple[tuple[Path, str], ...] = ()

    @cached_property
    def _flat(self) -> dict[str, list[tuple[str, int]]]:
        """Key to its meanings, each with the rank of the key among the places of that meaning."""
        out: dict[str, list[tuple[str, int]]] = {}
        for meaning, places in self.fields.items():
            for rank, place in enumerate(places):
                if isinstance(place, str):
                    out.setdefault(place, []).append((meaning, rank))
        return out

    @cached_property
    def _nested(self) -> list[tuple[str, int, tuple[str, ...]]]:
        return [(m, r, p) for m, ps in self.fields.items() for r, p in enumerate(ps) if not isinstance(p, str)]

    def read(self, record: Row) -> Row:
        """Meanings that a record holds."""
        out: Row = {}
        ranks: dict[str, int] = {}
        for key in self._flat.keys() & record.keys():
            value = record[key]
            if value is not None and value != "":
                for meaning, rank in self._flat[key]:
                    if rank < ranks.get(meaning, 99):
                        out[meaning], ranks[meaning] = value, rank
        for meaning, rank, place in self._nested:
            if rank < ranks.get(meaning, 99):
                value = at(record, place)
                if value is not None and value != "":
                    out[meaning], ranks[meaning] = value, rank
        return out

    def kind(self, record: Row) -> str:
        """Kind of the span that a record is."""
        for place in self.fields.get("kind", ()):
            word = record.get(place) if isinstance(place, str) else at(record, place)
            known = self.kinds.get(word.lower()) if isinstance(word, str) else None
            if known is not None:
                return known
        for place, kind in self.hints:
            if (record.get(place) if isinstance(place, str) else at(record, place)) is not None:
                return kind
        return OTHER


@dataclass(slots=True)
class Grade:
    """A score, feedback, assessment or evaluation event."""

    name: str
    value: Any = None
    label: str | None = None
    kind: str = "verifier"
    grader: str | None = None
    rationale: str | None = None
    created_at: datetime | None = None
    valid: bool = True
    issue: str | None = None
    ref: str | None = None
    metadata: Row = field(default_factory=dict)


@dataclass(slots=True)
class Span:
    """One span, observation or run.

    Attributes:
        data: Meanings by the dialect's table.
        labels: Where a user's name of the task, arm or trial is looked up, in order.
        rest: What goes to the metadata of the attempt when the span is its root.
    """

    trace: str
    ident: str
    parent: str | None
    name: str
    kind: str
    unit: Unit
    pos: int | None
    data: Row
    start: datetime | None = None
    end: datetime | None = None
    word: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    labels: list[Row] = field(default_factory=list)
    resource: Row = field(default_factory=dict)
    rest: Row = field(default_factory=dict)
    grades: list[Grade] = field(default_factory=list)
    truncated: bool = False
    digest: str | None = None


@dataclass(slots=True)
class Trace:
    """Everything that was recorded under one trace id.

    Attributes:
        header: What a header of the trace says: agent, session, run, word (status), input, output, and sums to check (R15).
        labels: Metadata and tags of the trace, looked up after the spans.
        tags: Tags that are texts; `name:value` and `name=value` are looked up too.
    """

    ident: str
    spans: list[Span] = field(default_factory=list)
    header: Row = field(default_factory=dict)
    labels: list[Row] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    grades: list[Grade] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """The spans of one attempt: those of the trace, or those of an agent inside it."""

    heads: list[Span]
    spans: list[Span] = field(default_factory=list)
    children: list[Group] = field(default_factory=list)
    call: Span | None = None
    root: bool = False

    def of(self, kind: str) -> list[Span]:
        """Own spans of a kind, by start."""
        return sorted((s for s in self.spans if s.kind == kind), key=lambda s: s.start or LAST)

    @property
    def name(self) -> str | None:
        """Name of the agent; of a wrapper that of the agent inside."""
        return next((n for n in (text(h.data.get("agent")) for h in reversed(self.heads)) if n), None)


@dataclass(slots=True)
class Tree:
    """How the spans of a trace hang together, and what is odd about it."""

    top: Group
    roots: list[Span]
    orphans: int = 0
    merged: int = 0
    judged: int = 0


def at(record: Any, place: tuple[str, ...]) -> Any:
    """Value at keys one inside the other."""
    for key in place:
        if not isinstance(record, dict):
            return None
        record = record.get(key)
    return record


def nanoseconds(value: Any) -> datetime | None:
    """A time in nanoseconds since 1970, number or text."""
    number = integer(value)
    if not number or number < 0:
        return None
    try:
        return EPOCH + timedelta(microseconds=number // 1000)
    except OverflowError:
        return None


def integer(value: Any) -> int | None:
    """A whole number, also one that is written as text."""
    if isinstance(value, str):
        value = value.strip()
        if not (value.isascii() and value.removeprefix("-").isdigit()) or len(value) > 19:
            return None
        value = int(value)
    return count(value)


def real(value: Any) -> float | None:
    """An amount, also one that is written as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return amount(value)


def identifier(value: Any, size: int) -> str | None:
    """An id in lower-case hex, whether it is written in hex or base64; zeros and nothing are none."""
    if not isinstance(value, str) or not value:
        return None
    if len(value) == 2 * size and _HEX.fullmatch(value):
        out = value.lower()
    else:
        try:
            raw = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        out = raw.hex() if len(raw) == size else value
    return out if out.strip("0") else None


def clean(value: Any) -> Any:
    """The value without secrets, dumps of the environment and headers (R14)."""
    return redact(_without(value, 0))


def _without(value: Any, depth: int) -> Any:
    if depth > 200:
        return None
    if isinstance(value, dict):
        return {
            k: _without(v, depth + 1)
            for k, v in value.items()
            if not (isinstance(k, str) and (_ENVIRONMENT.fullmatch(k) or _HEADER.search(k)))
        }
    if isinstance(value, list):
        return [_without(v, depth + 1) for v in value]
    return value


def merge(record: Row, other: Row) -> Row:
    """Two records of one span: what the later says wins, where it says something."""
    return record | {k: v for k, v in other.items() if v is not None}


def arrange(trace: Trace) -> Tree:
    """Attempts of a trace from the tree of its spans; what an evaluator did is left out."""
    spans = sorted(trace.spans, key=lambda s: s.start or LAST)
    ids = {s.ident: s for s in spans}
    children: dict[str, list[Span]] = {}
    roots, orphans = [], 0
    for span in spans:
        if span.parent is not None and span.parent in ids and span.parent != span.ident:
            children.setdefault(span.parent, []).append(span)
        else:
            roots.append(span)
            orphans += span.parent is not None
    tree = Tree(Group(roots, root=True), [r for r in roots if r.parent is None], orphans)
    reached = _walk(tree, roots, children)
    if len(reached) < len(spans):
        # Spans that are each other's parents hang nowhere.
        lost = [s for s in spans if s.ident not in reached]
        tree.orphans += len(lost)
        tree.top.heads = tree.top.heads or lost[:1]
        tree.top.spans += lost
    _prune(tree.top)
    return tree


def _walk(tree: Tree, roots: Iterable[Span], children: dict[str, list[Span]]) -> set[str]:
    reached: set[str] = set()
    stack: list[tuple[Span, Group, Span | None, Span | None]] = [
        (r, tree.top, None, None) for r in reversed(list(roots))
    ]
    while stack:
        span, group, model, tool = stack.pop()
        if span.ident in reached:
            continue
        reached.add(span.ident)
        if span.kind == EVALUATOR:
            below = [span]
            while below:
                inner = below.pop()
                reached.add(inner.ident)
                tree.judged += inner.kind == LLM
                below += [c for c in children.get(inner.ident, ()) if c.ident not in reached]
            continue
        if span.kind == AGENT and span not in tree.top.heads:
            inside = Group([span], [span], call=tool)
            group.children.append(inside)
            group, model, tool = inside, None, None
        elif span.kind == LLM and model is not None:
            # Two instrumentations recorded one call: the outer span is kept, with what only the inner one says.
            model.data = span.data | model.data
            model.grades += span.grades
            tree.merged += 1
        elif span.kind == TOOL and tool is not None:
            span.kind = OTHER
            group.spans.append(span)
        else:
            group.spans.append(span)
            model = span if span.kind == LLM else model
            tool = span if span.kind == TOOL else tool
        stack += [(c, group, model, tool) for c in reversed(children.get(span.ident, ()))]
    return reached


def _prune(group: Group) -> None:
    """Drop agents in which nothing happened; take in the only agent of one that did nothing itself."""
    order = [group]
    for one in order:
        order += one.children
    for one in reversed(order):
        kept = []
        for child in one.children:
            if child.children or any(s.kind in (LLM, TOOL) for s in child.spans):
                kept.append(child)
            else:
                one.spans += child.spans
        one.children = kept
        absorb(one)


def absorb(group: Group) -> None:
    """A wrapper around one agent is that agent."""
    while len(group.children) == 1 and not group.of(LLM):
        child = group.children[0]
        group.heads = group.heads + child.heads
        group.spans = group.spans + child.spans
        group.children = child.children
        group.call = group.call or child.call
