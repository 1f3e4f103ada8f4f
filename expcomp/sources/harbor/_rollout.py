"""Token ids that the result of a trial holds: `agent_result.rollout_details`, a list of model calls for each agent, its own first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._values import finite, items, obj, small

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from expcomp.sources._chat import Row

WHERE = "agent_result.rollout_details"
_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "prompt_token_ids": small,
    "completion_token_ids": small,
    "logprobs": finite,
}


def read_rollout(result: Row, steps: list[Row]) -> str | None:
    """Put the token ids of the result into the steps that the model wrote; gives what was not read, and why.

    A call is told from its place only, so there must be one for each step.
    """
    found = items(obj(result.get("agent_result")).get("rollout_details"))
    if not found:
        return None
    written = [s for s in steps if s["source"] == "agent" and s["trainable"]]
    if any(s.get("completion_token_ids") for s in written):
        return f"{WHERE} holds token ids that are not read; those of the trajectory are"
    own = {name: items(obj(found[0]).get(name)) for name in _COLUMNS}
    calls = max(map(len, own.values()))
    if calls != len(written) or not calls:
        return f"{WHERE} tells of {calls} model calls, the trajectory of {len(written)}; the token ids are not read"
    for name, lists in own.items():
        made = [list(map(_COLUMNS[name], items(one))) for one in lists]
        if (made and len(made) != calls) or any(None in one for one in made):
            return f"{WHERE}.{name} is not one list of numbers a model call; not read"
        for step, numbers in zip(written, made, strict=False):
            step[name] = numbers or None
    return f"{WHERE} of {len(found) - 1} other agents is not read" if len(found) > 1 else None
