"""A Markdown report as data, for tests."""

from __future__ import annotations

from typing import Any


def parse_markdown(text: str) -> dict[str, Any]:
    """Title, facts, and sections with the columns and cells of their table."""
    out: dict[str, Any] = {"title": None, "facts": {}, "sections": []}
    for line in text.splitlines():
        if line.startswith("# "):
            out["title"] = line[2:]
        elif line.startswith("- "):
            key, value = line[2:].split(": ", 1)
            out["facts"][key] = value.strip("`")
        elif line.startswith("## "):
            out["sections"].append({"heading": line[3:], "columns": [], "rows": []})
        elif line.startswith("| "):
            cells = line[2:-2].split(" | ")
            section = out["sections"][-1]
            if not section["columns"]:
                section["columns"] = cells
            elif set(cells) != {"---"}:
                section["rows"].append(cells)
    return out
