"""Nested objects by allow-list: listed keys of the right type stay, everything else goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.errors import ConfigError
from expcomp.ledger.values import converter, dump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Clean = Callable[[Any], dict[str, Any] | None]

_WORDS = ("object", "require", "instead", "phases")


def dig(value: Any, path: str) -> Any:
    """The value at a dotted path; None when there is none."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def cleaner(name: str, specs: Mapping[str, Mapping[str, Any]]) -> Clean:
    """A function from a JSON value to the allowed part of it, None when nothing is left.

    Raises:
        ConfigError: An unknown object or kind.
    """
    if name not in specs:
        raise ConfigError(f"unknown object {name!r}; known are {', '.join(sorted(specs))}")
    spec = specs[name]
    if "phases" in spec:
        return _phases(spec)
    keys = {
        key: converter(kind, f"objects.{name}")[1]
        for kind, listed in spec.items()
        if kind not in _WORDS
        for key in listed.split()
    }
    inner = {key: cleaner(f"{name}.{key}", specs) for key in spec.get("object", "").split()}
    require: Mapping[str, Any] = spec.get("require", {})
    instead: Mapping[str, str] = spec.get("instead", {})

    def clean(value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict) or any(value.get(k) != v for k, v in require.items()):
            return None
        found: dict[str, Any] = {}
        for key, convert in keys.items():
            kept = convert(value[key]) if key in value else None
            if kept is None and key in instead:
                kept = convert(dig(value, instead[key]))
            if kept is not None:
                found[key] = kept
        for key, sub in inner.items():
            if (kept := sub(value.get(key))) is not None:
                found[key] = kept
        return found or None

    return clean


def _phases(spec: Mapping[str, Any]) -> Clean:
    """Projection of an object that says which of a row of phases are ready; a ready phase implies all before it."""
    names: list[str] = spec["phases"].split()
    open_word: str = spec["open"]
    ends: list[str] = [open_word, *spec["ends"].split()]

    def clean(value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict) or value.get("schema_version") != spec["schema_version"]:
            return None
        given, end = value.get("phase_ready"), value.get("terminal_disposition")
        if not isinstance(given, dict) or end not in ends:
            return None
        last = max((i for i, n in enumerate(names) if given.get(n) is True), default=-1)
        terminal = end != open_word
        following = "" if terminal or last + 1 >= len(names) else names[last + 1]
        return {
            "schema_version": spec["schema_version"],
            "current_phase": names[last] if last >= 0 else spec["none"],
            "next_required_phase": following,
            "phase_ready": {n: i <= last for i, n in enumerate(names)},
            "worker_live": last >= names.index(spec["live_from"]) and not terminal,
            "agent_active_observed": last >= names.index(spec["active_from"]),
            "terminal": terminal,
            "terminal_disposition": end,
            "public_evidence_only": True,
        }

    return clean


def clean_json(clean: Clean) -> Callable[[Any], str | None]:
    """`clean`, its result as JSON text."""

    def convert(value: Any) -> str | None:
        found = clean(value)
        return found if found is None else dump(found)

    return convert
