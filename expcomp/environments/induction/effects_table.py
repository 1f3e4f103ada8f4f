"""Effects on given states in the rule language."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from expcomp.environments.induction.terms import Const, Copy
from expcomp.environments.induction.translate import Inexpressible, expression, reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.environments.induction.effects import Effect
    from expcomp.environments.induction.terms import Term

__all__ = ["state_mutations"]

_OPS = {"put": "set", "drop": "delete", "append": "append"}


def state_mutations(effects: Sequence[Effect], *, failed: bool) -> Iterator[tuple[str, str, str | None]]:
    """Changes `(op, path, JSON of an expression)` of calls with one outcome.

    Raises:
        Inexpressible: A condition inside an effect, an element that is removed by value, or a value without words.
    """
    for effect in effects:
        if effect.failed != failed:
            continue
        if effect.op not in _OPS:
            raise Inexpressible("an element of an array is removed or an array replaced by value")
        if effect.when is not None:
            raise Inexpressible("an effect with a condition of its own")
        path = _path(reference(effect.name))
        if effect.op in ("put", "drop"):
            if effect.key is None:
                raise Inexpressible("the key of an effect could not be explained")
            path += _key(effect.key)
        if effect.op == "drop":
            yield "delete", path, None
            continue
        if effect.value is None:
            raise Inexpressible("the value of an effect could not be explained")
        if isinstance(effect.value, Copy) and _path(reference(effect.value.name)) == path:
            continue  # it stays what it is
        yield _OPS[effect.op], path, json.dumps(expression(effect.value))


def _key(term: Term) -> str:
    if isinstance(term, Const):
        text = term.value.strip('"')
        return f".{text}" if re.fullmatch(r"[A-Za-z_]\w*", text) else f"[{json.dumps(text)}]"
    return ".{= text(" + expression(term) + ")}"


def _path(text: str) -> str:
    """A reference as the path of an effect: computed keys become tokens."""
    return re.sub(r"\[((?:arg|world)\.[^\[\]]+)\]", r".{= text(\1)}", text)
