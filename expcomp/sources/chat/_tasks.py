"""Tasks of a set of chats: which one a row is an attempt at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._json import canonical, dump_json
from expcomp.sources.chat._values import word

if TYPE_CHECKING:
    from expcomp.sources._contract import Unit
    from expcomp.sources.chat._columns import Columns
    from expcomp.sources.chat._rows import Talk
    from expcomp.sources.chat._shape import Chat

_LONGEST_ID = 200
_MOST_WORDS = 4


def task_of(columns: Columns, chat: Chat, row: dict[str, Any], talk: Talk, unit: Unit) -> dict[str, Any] | None:
    """The task's row, or null where nothing says which task it is.

    The id is what the source writes, after dataset and domain where it has such columns. Where a statement stands in place of
    an id, or nothing but a prompt that two attempts share, the id is its digest. Ids that are mere numbers mean another task in every
    set (R11): a digest of the statement follows them.
    """
    given = "task" in columns.values
    native = word(columns.values["task"] if given else columns.get("task", row))
    given = given or "task" in columns.named
    statement = columns.texts("statement", row)
    if native is not None and not given and _is_prose(native):
        statement, native = statement or native, f"task_{_digest(native)[:16]}"
    elif native is None and statement is not None:
        native = f"{columns.paths['statement'][0][-1]}_{_digest(statement)[:16]}"
    elif native is None and chat.mark is not None:
        native = f"prompt_{sha256_hex(canonical(chat.prompt))[:16]}"
    if native is None:
        return None
    instruction = statement or talk.instruction
    dataset, domain = word(columns.get("dataset", row)), word(columns.get("domain", row))
    task_id = "/".join(p for p in (dataset, domain, native) if p)
    digest = None
    if instruction is not None and not given and not any(c.isalpha() for c in native):
        digest = _digest(instruction)
        task_id = f"{task_id}@{digest[:8]}"
    gold = {p[-1]: row[p[0]] for p in columns.paths.get("gold", ()) if len(p) == 1 and row.get(p[0]) is not None}
    repo, commit = columns.texts("cluster", row), columns.texts("commit", row)
    return {
        "task_id": task_id,
        "dataset": dataset,
        "domain": domain,
        "native_id": native,
        "instruction": instruction,
        "target": dump_json(gold) if gold else None,
        "environment": columns.texts("environment", row) or (f"{repo}@{commit}" if repo and commit else None),
        "cluster": repo,
        "split": columns.texts("split", row),
        "task_digest": PREFIX + digest if digest else None,
        "source_ref": unit.path.name,
    }


def _digest(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "replace"))


def _is_prose(native: str) -> bool:
    """Whether what stands in a column of ids is what was asked."""
    return len(native) > _LONGEST_ID or "\n" in native or native.count(" ") > _MOST_WORDS
