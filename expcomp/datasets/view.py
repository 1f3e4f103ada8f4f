"""One row for human eyes: its conversation, which of it carries loss, and the evidence behind it. Text or HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from expcomp.io.counts import Count
from expcomp.io.visible import visible

# Columns that hold messages, in the order they are read, and whether what the agent writes there carries loss:
# `flag` leaves it to the message.
_PARTS = {
    "messages": "flag",
    "conversations": "flag",
    "context": "never",
    "prompt": "never",
    "completion": "always",
    "chosen": "always",
    "rejected": "always",
    "rejected_messages": "always",
}
_FLAGS = ("trainable", "training", "loss")
_AGENT = {"assistant", "gpt", "function_call"}
_IDS = (
    "row_id",
    "task_id",
    "attempt_id",
    "chosen_attempt_id",
    "rejected_attempt_id",
    "verifier",
    "label",
    "margin",
    "pass_rate",
)
_STYLE = """<style>
.xc-row{font:13px/1.45 system-ui,sans-serif;max-width:60em}
.xc-row pre{white-space:pre-wrap;overflow-wrap:anywhere;max-height:24em;overflow:auto;margin:.2em 0;font-size:12px}
.xc-turn{border-left:4px solid #bbb;padding:.2em .6em;margin:.4em 0}
.xc-turn.xc-loss{border-left:8px double #0072b2}
.xc-head{font-weight:600}.xc-small{opacity:.75}
</style>"""


class _Turn(NamedTuple):
    """One message as it is shown: blocks are (what it is, text)."""

    part: str
    role: str
    about: str
    blocks: list[tuple[str, str]]
    loss: bool

    @property
    def size(self) -> int:
        """Characters of the turn."""
        return sum(len(text) for _, text in self.blocks)


def conversation_text(row: Mapping[str, Any]) -> str:
    """A logical or wire row as plain text; lines that carry loss have a bar before them, control characters are made visible."""
    turns = list(_turns(row))
    lines = [_summary(turns), *(f"{name}: {value}" for name, value in _facts(row))]
    part = ""
    for turn in turns:
        if turn.part != part:
            part = turn.part
            lines += ["", f"== {part}"]
        bar = "┃ " if turn.loss else "  "
        lines += ["", f"{bar}{turn.role}{turn.about}{' [loss]' if turn.loss else ''}"]
        for name, text in turn.blocks:
            lines += [f"{bar}  ({name})"] if name else []
            lines += [f"{bar}  {line}" for line in text.split("\n")]
    return visible("\n".join(lines)) + "\n"


def conversation_html(row: Mapping[str, Any]) -> str:
    """The same as HTML for a notebook: every text of the row is escaped; loss is a word and a bar, not only a colour."""
    turns = list(_turns(row))
    facts = "".join(f"<div><b>{escape(n)}</b> {escape(visible(v))}</div>" for n, v in _facts(row))
    made = [_STYLE, '<div class="xc-row">', f'<div class="xc-head">{escape(_summary(turns))}</div>']
    made.append(f'<div class="xc-small">{facts}</div>')
    part = ""
    for turn in turns:
        if turn.part != part:
            part = turn.part
            made.append(f"<h4>{escape(part)}</h4>")
        mark = " xc-loss" if turn.loss else ""
        head = f"{turn.role}{turn.about}{' · loss' if turn.loss else ''}"
        made.append(f'<div class="xc-turn{mark}"><div class="xc-head">{escape(visible(head))}</div>')
        for name, text in turn.blocks:
            label = f'<div class="xc-small">{escape(visible(name))}</div>' if name else ""
            made.append(f"{label}<pre>{escape(visible(text))}</pre>")
        made.append("</div>")
    return "".join([*made, "</div>"])


def _summary(turns: list[_Turn]) -> str:
    agent = [t for t in turns if t.loss or t.role in _AGENT or t.role.startswith("step")]
    total, kept = sum(t.size for t in turns), sum(t.size for t in turns if t.loss)
    if turns and not agent:
        # Rows of GRPO and its kin end where the agent is to begin: nothing is masked, nothing is there yet.
        return f"a prompt of {Count(len(turns)):turn|turns}, {Count(total):character|characters}; the agent answers in training"
    share = f" ({kept / total:.0%})" if total else ""
    return (
        f"{sum(t.loss for t in turns)} of {len(agent)} agent turns carry loss: {kept:,} of {total:,} characters{share}"
    )


def _facts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where the row comes from and what is said of it."""
    for name in _IDS:
        if row.get(name) is not None:
            yield name, str(row[name])
    if row.get("evidence_ids"):
        yield "evidence", ", ".join(row["evidence_ids"])
    if isinstance(row.get("tools"), str) and row["tools"]:
        yield (
            "tools",
            row["tools"] if len(row["tools"]) <= 200 else f"{row['tools'][:200]}… ({len(row['tools']):,} characters)",
        )


def _turns(row: Mapping[str, Any]) -> Iterator[_Turn]:
    for part, rule in _PARTS.items():
        value = row.get(part)
        if isinstance(value, str):
            yield _Turn(part, "user", "", [("", value)], loss=False)
        elif isinstance(value, Mapping):
            yield _turn(part, value, rule)
        else:
            yield from (_turn(part, message, rule) for message in value or ())
    steps = row.get("completions")
    if steps and isinstance(steps[0], str):
        sources = row.get("label_sources") or [None] * len(steps)
        for i, (step, label, source) in enumerate(
            zip(steps, row.get("labels") or [None] * len(steps), sources, strict=True)
        ):
            said = {True: "good", False: "bad"}.get(label, "no label")
            by = f", by {source}" if source else ""
            yield _Turn("steps", f"step {i + 1}", f": {said}{by}", [("", step)], loss=label is not None)
    for ranked in steps if steps and isinstance(steps[0], Mapping) else ():
        yield from (_turn(f"completion of rank {ranked['rank']}", m, "always") for m in ranked["completion"])


def _turn(part: str, message: Mapping[str, Any], rule: str) -> _Turn:
    role = str(message.get("role") or message.get("from") or "unknown")
    about = "".join(
        f" {message[key]}"
        for key in ("name", "tool_call_id")
        if message.get(key) and message[key] != message.get("role")
    )
    if message.get("failed"):
        about += " (failed)"
    blocks = [("reasoning", text)] if (text := message.get("reasoning") or message.get("reasoning_content")) else []
    content = message.get("content") if "content" in message else message.get("value")
    blocks += [("", content)] if content else []
    for call in message.get("tool_calls") or ():
        inner = call.get("function") or call
        blocks.append((f"call {inner.get('name')} {call.get('id') or ''}".rstrip(), str(inner.get("arguments") or "")))
    return _Turn(part, role, about, blocks, _loss(role, message, rule))


def _loss(role: str, message: Mapping[str, Any], rule: str) -> bool:
    """Only what the agent wrote can carry loss; a flag decides where there is one, else its place does."""
    if role not in _AGENT or rule == "never":
        return False
    flags = [bool(message[f]) for f in _FLAGS if message.get(f) is not None]
    # A logical message has the field and may leave it open: then nothing says that it is a target.
    return flags[0] if flags else rule == "always" or not any(f in message for f in _FLAGS)
