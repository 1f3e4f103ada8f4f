"""Single values of a row of a set of chats: names, tools, the prompt of a header, usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._dialogue import USAGE
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, moment, obj, text, whole
from expcomp.sources.chat._columns import number
from expcomp.sources.chat._parts import parsed, usage_of

if TYPE_CHECKING:
    from expcomp.sources.chat._columns import Columns
    from expcomp.sources.chat._rows import Talk

_TEXTS = frozenset(
    "model provider agent agent_version statement split cluster environment commit patch log status error".split()
)


def taken(meaning: str, value: Any) -> bool:
    """Whether a column of this meaning could take the value."""
    if meaning in _TEXTS:
        return isinstance(value, str)
    if meaning in ("started", "ended"):
        return moment(value)[0] is not None
    if meaning == "usage":
        return bool(usage_of(value)) and obj(value).keys() <= _USAGE_KEYS
    if meaning == "cost":
        return bool(amount(value))
    if meaning == "tools":
        return tool_schemas(value) is not None
    if meaning == "trial":
        return number(value) is not None
    if meaning == "seed":
        return whole(value) is not None
    return meaning in ("verdict", "score", "judge", "system", "gold") or word(value) is not None


_USAGE_KEYS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens"})


def word(value: Any) -> str | None:
    """A name or an id as text."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(int(value)) if value == value // 1 else str(value)


def tool_schemas(value: Any) -> str | None:
    """Tool schemas as JSON text; a text that is JSON stays as it is, an empty list is unknown."""
    if isinstance(value, str):
        return value if isinstance(parsed(value), list) and len(parsed(value)) > 0 else None
    return dump_json(value) if isinstance(value, list) and value else None


def system_prompt(columns: Columns, row: dict[str, Any]) -> tuple[str | None, Any]:
    """The system prompt of the header as text and, when it is no plain text, its parts."""
    value = columns.get("system", row)
    if value is None or isinstance(value, str):
        return value or None, None
    if isinstance(value, list):
        texts = [p if isinstance(p, str) else text(obj(p).get("text")) for p in value]
        said = "\n".join(t for t in texts if t)
        return said or None, value
    return None, value


def usage_columns(columns: Columns, row: dict[str, Any], talk: Talk) -> tuple[dict[str, Any], str]:
    """Usage of the attempt: of its calls, else of its row."""
    usage, basis = dict(talk.usage), "summed"
    if not usage and "usage" in columns.paths:
        usage, basis = usage_of(columns.get("usage", row)), "reported"
    if "cost" in columns.paths and usage.get("cost_usd") is None:
        cost = amount(columns.get("cost", row))
        if cost:
            usage["cost_usd"] = cost
            basis = "reported" if len(usage) == 1 else basis
    return dict.fromkeys(USAGE) | usage, basis if usage else "missing"
