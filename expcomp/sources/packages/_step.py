"""One step as a typed struct: decoded in C where a step is well formed, field by field where it is not."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from expcomp.sources.packages import _coerce as co
from expcomp.tables import step_fields as sf

CORE_TEXT = (
    "actor action tool environment_domain interaction_surface operation step_outcome started_at ended_at observation input output "
    "state_change reasoning error_type error_message error_code"
).split()
CORE_INTEGERS = ["step", "turn", "retry_of"]
FIELDS: dict[str, str] = (
    dict.fromkeys((*CORE_TEXT, *sf.TEXT), "text")
    | dict.fromkeys((*CORE_INTEGERS, *sf.INTEGERS), "int")
    | dict.fromkeys((*sf.FLAGS, "success"), "flag")
    | dict.fromkeys(sf.REALS, "real")
    | dict.fromkeys(sf.TEXT_LISTS, "texts")
    | dict.fromkeys(sf.OBJECTS, "json")
    | {"caused_by": "ints"}
)
CORE = frozenset((*CORE_TEXT, *CORE_INTEGERS, "success", "caused_by"))

_INTEGER = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, tuple[Any, Any]] = {
    "text": (str | None, None),
    "int": (_INTEGER | None, None),
    "flag": (bool | None, None),
    "real": (float | None, None),
    "texts": (list[str] | None, None),
    "ints": (list[_INTEGER] | None, None),
    "json": (Any, None),
}
Step = msgspec.defstruct(
    "Step",
    # In order of names, as most recorders write them: the decoder looks for each key first after the one before it.
    [(name, *_TYPES[FIELDS[name]]) for name in sorted(FIELDS)] + [("extra", str | None, None)],
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
)
"""All step fields; `extra` holds unknown keys as JSON text."""

decode_steps = msgspec.json.Decoder(list[Step]).decode  # type: ignore[valid-type]
"""The fast path: all steps of a trace at once; raises `msgspec.ValidationError` on the first odd one."""

ref_values: Callable[[Any], tuple[Any, ...]] = attrgetter(*sf.REF_FIELDS)
action: Callable[[Any], str | None] = attrgetter("action")
core_values: Callable[[Any], tuple[Any, ...]] = attrgetter(*sorted(CORE))
CORE_ORDER = tuple(sorted(CORE))
_encode = msgspec.json.Encoder().encode
_EMPTIED = tuple(sorted(CORE))
_OBJECTS = tuple(sf.OBJECTS)


def ints(value: Any, report: co.Report) -> list[int] | None:
    """Step numbers; a lone number or numeric text is wrapped and reported."""
    if value is None:
        return None
    if not isinstance(value, list):
        report("caused_by", "wrong_type", f"found {co.show(value)}, expected a list; wrapped")
        value = [value]
    numbers = [co.as_int(v, "caused_by", report) for v in value]
    return [n for n in numbers if n is not None]


def lenient(raw: dict[str, Any], report: co.Report) -> Any:
    """The slow path: one step, each field of its kind, unknown keys in `extra`."""
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in raw.items():
        kind = FIELDS.get(name)
        if kind is None:
            extra[name] = value
        elif value is None:
            continue
        elif kind == "ints":
            known[name] = ints(value, report)
        elif kind == "json":
            known[name] = value
        else:
            known[name] = co.KINDS[kind](value, name, report)
    if extra:
        known["extra"] = co.json_text(extra)
        report(", ".join(sorted(extra)), "unknown_field", "not a known step field; kept in detail.extra")
    return Step(**known)


def detail(step: Any) -> str:
    """JSON text of the surface-specific fields. Empties the core fields of `step`: read them before."""
    for name in _EMPTIED:
        setattr(step, name, None)
    for name in _OBJECTS:
        value = getattr(step, name)
        if value is not None:
            # A nested object stays text, so that the column decodes with one dtype.
            setattr(step, name, co.json_text(value) if value not in ({}, []) else None)
    return _encode(step).decode()
