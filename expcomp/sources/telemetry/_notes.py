"""What a load report says of a trace: one line a kind of finding, with its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._chat import Note
from expcomp.sources.telemetry._spans import LLM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.sources.telemetry._spans import Group, Trace, Tree
    from expcomp.sources.telemetry._talk import Talk

_TALK = (
    (
        "lost",
        "lost_input",
        "warning",
        "inputs of model calls are not recorded; answers and tool spans make up the dialogue",
    ),
    (
        "dropped",
        "answer_not_kept",
        "info",
        "answers are not in the history of the next call; kept as steps, not as messages",
    ),
    ("named", "matched_by_name", "info", "tool spans have no call id; matched by name and arguments"),
    ("unknown", "unknown_shape", "warning", "inputs or outputs are in no known shape; kept as JSON text"),
    ("aside", "tool_without_call", "info", "tool spans answer no call of the model; kept as steps of the environment"),
)
_ADVICE = (
    "switch content capture on in the instrumentation, or load the log records that hold it together with the spans"
)


def trace_notes(trace: Trace, tree: Tree) -> Iterator[Note]:
    """What is odd about a trace and its tree."""
    pos = tree.top.heads[0].pos
    yield from trace.notes
    if not tree.roots:
        yield Note("missing_root", f"the root span of trace {trace.ident} is not there; its status is unknown", pos=pos)
    elif tree.orphans:
        detail = f"{tree.orphans} spans name a parent that is not there; taken as spans of the root"
        yield Note("missing_parent", detail, pos=pos)
    if len(tree.roots) > 1:
        detail = f"trace {trace.ident} has {len(tree.roots)} root spans; read as one attempt"
        yield Note("several_roots", detail, pos=pos)
    if tree.merged:
        detail = f"{tree.merged} model spans stand inside a model span; each pair is one call"
        yield Note("nested_model_span", detail, "info", pos)
    if tree.judged:
        detail = f"{tree.judged} model calls of evaluators are no steps of the agent; left out"
        yield Note("evaluator_calls", detail, "info", pos)


def talk_notes(trace: Trace, group: Group, talk: Talk) -> Iterator[Note]:
    """What the spans of an attempt do not say."""
    pos = group.heads[0].pos
    calls = group.of(LLM)
    if not calls and not group.children:
        yield Note("no_model_call", "no span of a model call, so no steps of the agent and no messages", pos=pos)
    elif calls and not talk.recorded:
        advice = trace.header.get("advice") or _ADVICE
        yield Note("no_content", f"trace {trace.ident}: the spans hold no message content; {advice}", pos=pos)
    elif talk.silent:
        detail = f"{talk.silent} model calls have no recorded answer; their messages are missing"
        yield Note("partial_content", detail, pos=pos)
    for name, code, severity, detail in _TALK:
        number = getattr(talk, name)
        if number:
            yield Note(code, f"{number} {detail}", severity, pos)
    cut = sum(s.truncated for s in group.spans)
    if cut:
        yield Note("cut_by_source", f"{cut} spans lost attributes or text to limits of the exporter", pos=pos)
