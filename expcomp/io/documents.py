"""Small JSON documents for people and scripts: indented, keys in the order given, no NaN."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from expcomp.errors import SourceError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def json_document(value: Any) -> str:
    """Indented JSON text, ended by a newline."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Read a JSON document.

    Raises:
        SourceError: It is absent, unreadable or no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        msg = f"{path.parent}: no {path.name}; expected the output folder of a compile"
        raise SourceError(msg) from None
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path.parent}: {path.name} cannot be read ({error})"
        raise SourceError(msg) from error


def read_text(path: Path, name: str) -> str:
    """Read a text that an option names.

    Raises:
        UsageError: It cannot be read; the message names the option.
    """
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        msg = f"{name}: {path} cannot be read ({getattr(error, 'strerror', None) or error})"
        raise UsageError(msg) from error


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document."""
    path.write_text(json_document(value), encoding="utf-8")


def write_text(path: Path, value: str) -> None:
    """Write a text, UTF-8."""
    path.write_text(value, encoding="utf-8")
