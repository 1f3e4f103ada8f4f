"""The message graph of a verifiers trace as dialogue: every path from a root to a leaf is a context of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Row, Transcript
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, count, epoch, items, obj, text
from expcomp.sources.verifiers._chat import Writer
from expcomp.sources.verifiers._rows import float_list, token_list

if TYPE_CHECKING:
    from expcomp.sources._look import Look

_NODE_MARKS = frozenset({"parent", "sampled", "token_ids"})
_MAPPED = frozenset("parent message sampled timestamp token_ids mask logprobs finish_reason usage tools".split())
# Each path repeats the messages of its prefix, each step the ids of its prompt: bounds on what a hostile file can make of that.
_MAX_MESSAGES = 1 << 18
_MAX_PROMPT_IDS = 1 << 24
_MAX_DETAIL = 1 << 16


def is_graph(look: Look, *, likely: bool) -> bool:
    """Whether rows are traces or episodes of traces; `likely` (by name) decides where a first row is too long to be seen whole."""
    for place in ("nodes", "traces/nodes"):
        if "message" in look.at(place) and look.at(place) & _NODE_MARKS:
            return True
    if look.rows:
        episode = "traces" in look.keys and {"type", "data"} <= look.at("task") and {"env", "ok"} <= look.keys
        return episode or ("nodes" in look.keys and {"rewards", "is_completed"} <= look.keys)
    return {"type", "data"} <= look.at("task") and ("version" in look.at("verifiers") or "env" in look.keys or likely)


@dataclass(slots=True)
class Graph:
    """What a graph holds.

    Attributes:
        transcript: Steps and messages, path after path.
        images: Rows of `artifacts` without the attempt.
        tools: Tool schemas of the first root that has any.
    """

    transcript: Transcript
    images: list[Row] = field(default_factory=list)
    tools: Any = None


def read_graph(trace: Row, *, trainable: bool, model: str | None) -> Graph:
    """Read `nodes` and `calls` of a trace.

    A message that a later path shares with an earlier one is repeated there as copied context, so that each context is exactly what
    the model saw. Only sampled messages were written by the model in this attempt.
    """
    dialogue = Dialogue(user_origin="simulator")
    nodes = _nodes(trace.get("nodes"), dialogue)
    by_node = {c["node"]: c for c in items(trace.get("calls")) if type(obj(c).get("node")) is int}
    rejected = _rejected(nodes)
    paths, copies = _paths(nodes)
    if not copies:
        dialogue.note("prefix_not_repeated", f"{len(paths)} paths share long prefixes; shared messages stand once only")
    state = _State(Writer(dialogue), by_node, trainable, model, rejected)
    for number, path in enumerate(paths):
        if number:
            dialogue.compact()
        state.path(nodes, path, first=number == 0, copies=copies)
    state.report()
    tools = next((n["tools"] for n in nodes if n.get("parent") is None and n.get("tools")), None)
    return Graph(dialogue.finish(), state.writer.images, tools)


def _nodes(raw: Any, dialogue: Dialogue) -> list[Row]:
    """Nodes whose parent stands before them; others become roots, which is reported."""
    out: list[Row] = []
    lost = bad = 0
    for pos, value in enumerate(items(raw)):
        node = obj(value)
        if not isinstance(node.get("message"), dict):
            bad += 1
            node = node | {"message": None}
        parent = node.get("parent")
        if parent is not None and (type(parent) is not int or not 0 <= parent < pos):
            lost += 1
            node = node | {"parent": None}
        out.append(node)
    if bad:
        dialogue.note("bad_message", f"{bad} nodes hold no message; left out")
    if lost:
        dialogue.note("bad_parent", f"{lost} nodes name a parent that does not stand before them; read as roots")
    if raw is not None and not isinstance(raw, list):
        detail = f"expected a list of nodes, found {type(raw).__name__}; read as empty"
        dialogue.note("bad_transcript", detail)
    return out


def _paths(nodes: list[Row]) -> tuple[list[list[int]], bool]:
    """Paths from root to leaf in the order of the leaves, and whether they are whole.

    Where repeated prefixes would take too much room each path begins with what is new in it.
    """
    parents = {n["parent"] for n in nodes if n.get("parent") is not None}
    leaves = [i for i in range(len(nodes)) if i not in parents]
    depth: list[int] = []
    for node in nodes:
        parent = node.get("parent")
        depth.append(1 if parent is None else depth[parent] + 1)
    whole = sum(depth[leaf] for leaf in leaves) <= max(_MAX_MESSAGES, 2 * len(nodes))
    seen: set[int] = set()
    out = []
    for leaf in leaves:
        path: list[int] = []
        at: int | None = leaf
        while at is not None and (whole or at not in seen):
            path.append(at)
            seen.add(at)
            at = nodes[at].get("parent")
        out.append(path[::-1])
    return out, whole


def _links(node: Row, kind: str) -> list[int]:
    found = (obj(link) for link in items(node.get("semantic_parents")))
    return [link["node"] for link in found if link.get("type") == kind and type(link.get("node")) is int]


def _rejected(nodes: list[Row]) -> set[int]:
    """Summaries that were tried and not resumed from: the harness trains on them no more than we do."""
    accepted = {target for node in nodes for target in _links(node, "compaction")}
    tried = {
        i
        for i, node in enumerate(nodes)
        if any(obj(link).get("type") == "compaction_attempt" for link in items(node.get("semantic_parents")))
    }
    return tried - accepted


@dataclass(slots=True)
class _State:
    """The walk over the paths of one trace."""

    writer: Writer
    calls: dict[int, Row]
    trainable: bool
    model: str | None
    rejected: set[int]
    seen: set[int] = field(default_factory=set)
    sampled: bool = False
    ids_left: int = _MAX_PROMPT_IDS
    bad_ids: int = 0
    cut_ids: int = 0
    cut_detail: int = 0

    def path(self, nodes: list[Row], path: list[int], *, first: bool, copies: bool) -> None:
        """Write one path."""
        dialogue = self.writer.dialogue
        resumed = any(_links(nodes[n], "compaction") for n in path if n not in self.seen)
        prefix: list[int] | None = [] if copies else None
        spoken = False
        for at in path:
            node = nodes[at]
            message = node["message"]
            copied = at in self.seen
            self.seen.add(at)
            if message is None:
                continue
            dialogue.copied = copied
            when = epoch(node.get("timestamp"))
            role = self.writer.role(message)
            if role != "assistant":
                # Before the model speaks in a later context, what is new there was put together by the harness.
                origin = "simulator" if spoken else "human" if first or copied else "summary" if resumed else "harness"
                self.writer.other(message, role, user_origin=origin, at=when)
            elif node.get("sampled") is True:
                step = self._step(node, at, prefix if not copied else None)
                self.writer.agent(message, origin="model", trainable=step.pop("_own"), at=when, **step)
                spoken = self.sampled = True
            else:
                dialogue.copied = True
                self.writer.agent(message, origin="model" if self.sampled else "demo", at=when)
            dialogue.copied = False
            if prefix is not None:
                prefix += token_list(node.get("token_ids")) or []

    def _step(self, node: Row, at: int, prefix: list[int] | None) -> Row:
        """Columns of a step that a model call made."""
        made = self.calls.get(at, {})
        clock = obj(made.get("time"))
        out: Row = {
            "_own": self.trainable and at not in self.rejected,
            "model": text(made.get("model")) or self.model,
            "stop_reason": text(made.get("finish_reason")) or text(node.get("finish_reason")),
            "ended_at": epoch(clock.get("end")),
        }
        state = obj(node["message"]).get("provider_state")
        if state and not text(obj(node["message"]).get("reasoning_content")):
            out["reasoning_opaque"] = True
        if prefix is None:
            return out
        out |= call_usage(made.get("usage") or node.get("usage"))
        out |= self._tokens(node, prefix)
        rest = {k: v for k, v in node.items() if k not in _MAPPED and v not in (None, [], {})}
        if state:
            rest["provider_state"] = state
        if rest:
            written = dump_json(rest)
            if len(written) <= _MAX_DETAIL:
                out["detail"] = written
            else:
                self.cut_detail += 1
        return out

    def _tokens(self, node: Row, prefix: list[int]) -> Row:
        """Prompt and completion ids of a sampled node: its mask tells what of its own tokens the model made."""
        raw, mask = items(node.get("token_ids")), items(node.get("mask"))
        if not raw:
            return {}
        ids = token_list(raw)
        start = next((i for i, m in enumerate(mask) if m is True), len(mask))
        if ids is None or len(mask) != len(ids) or any(m is not True for m in mask[start:]):
            self.bad_ids += 1
            return {}
        out: Row = {"completion_token_ids": ids[start:]}
        logprobs = float_list(node.get("logprobs"))
        if logprobs is not None and len(logprobs) == len(ids) - start:
            out["logprobs"] = logprobs
        elif node.get("logprobs"):
            self.bad_ids += 1
        if len(prefix) + start <= self.ids_left:
            self.ids_left -= len(prefix) + start
            out["prompt_token_ids"] = prefix + ids[:start]
        else:
            self.cut_ids += 1
        return out

    def report(self) -> None:
        """Say what of the nodes was not used."""
        note = self.writer.dialogue.note
        if self.bad_ids:
            note(
                "bad_token_ids",
                f"{self.bad_ids} nodes have token ids, mask or logprobs that do not fit together; left out",
            )
        if self.cut_ids:
            note("prompt_ids_left_out", f"the prompt ids of {self.cut_ids} steps would take too much room; left out")
        if self.cut_detail:
            note(
                "detail_left_out",
                f"annotations of {self.cut_detail} nodes are longer than {_MAX_DETAIL}; left out",
                "info",
            )


def call_usage(raw: Any) -> Row:
    """Usage of a call; `prompt_tokens` of the source leaves cache reads out, our input has them in."""
    usage = obj(raw)
    fresh, cached = count(usage.get("prompt_tokens")), count(usage.get("cached_input_tokens"))
    return {
        "input_tokens": None if fresh is None else fresh + (cached or 0),
        "cached_input_tokens": cached,
        "output_tokens": count(usage.get("completion_tokens")),
        "reasoning_tokens": count(usage.get("reasoning_tokens")),
        "cost_usd": amount(usage.get("cost")),
    }
