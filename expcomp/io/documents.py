"""Small JSON documents for people and scripts: indented, keys in the order given, no NaN."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def json_document(value: Any) -> str:
    """Indented JSON text, ended by a newline."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document."""
    path.write_text(json_document(value), encoding="utf-8")
