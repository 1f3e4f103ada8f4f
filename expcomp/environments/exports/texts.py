"""Small texts that several exports hold."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from expcomp.version import __version__

IMAGE = "python:3.12-slim"
WHEELS = "wheels"
"""Folder beside a Dockerfile in which wheels are looked for first: expcomp itself, where no index has it."""


def slug(text: str) -> str:
    """A name of small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "world"


def unique_names(keys: Iterable[str], name: Callable[[str], str]) -> dict[str, str]:
    """A file name by key; names that would be one, case aside, get the first digits of the SHA-256 of their key."""
    plain = {key: name(key) for key in keys}
    count = Counter(n.casefold() for n in plain.values())
    return {
        k: n if count[n.casefold()] == 1 else f"{n}-{hashlib.sha256(k.encode()).hexdigest()[:8]}"
        for k, n in plain.items()
    }


def module_name(text: str) -> str:
    """A name that may be a Python module."""
    found = slug(text).replace("-", "_")
    return found if found[0].isalpha() else f"env_{found}"


def quoted(text: str) -> str:
    """A TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """TOML of tables of texts, numbers, booleans and lists of texts; the table `""` comes first, without a head."""
    blocks = []
    for name, values in tables.items():
        rows = [f"[{name}]"] if name else []
        blocks.append("\n".join(rows + [f"{key} = {_value(value)}" for key, value in values.items()]))
    return "\n\n".join(blocks) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(v) for v in value)}]"
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def requirement(extra: str = "") -> str:
    """This release of expcomp as a requirement."""
    return f"expcomp{extra}=={__version__}"


def pyproject(name: str, about: str, needs: list[str], module: str, more: str = "") -> str:
    """The pyproject.toml of a package of one module with its data beside it."""
    head = toml(
        {
            "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
            "project": {
                "name": name,
                "version": "0.1.0",
                "description": about,
                "requires-python": ">=3.11",
                "dependencies": needs,
            },
            "tool.hatch.build.targets.wheel": {"packages": [module]},
        }
    )
    return head + more
