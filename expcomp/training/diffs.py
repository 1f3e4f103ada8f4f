"""Steps from one profile to another, as JSON Patch (RFC 6902: add, remove, replace), and their way back into a profile."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from expcomp.io.canon import digest
from expcomp.training.documents import DocumentError, TamperedError, document_digest, from_wire, to_wire
from expcomp.training.experiments import ProfileDiff
from expcomp.training.profile import Profile


def profile_diff(before: Profile, after: Profile) -> ProfileDiff:
    """The step from one profile to another. Lists are replaced as a whole.

    Raises:
        DocumentError: Both are the same.
    """
    content = {"patch": list(_changes(to_wire(before), to_wire(after), ""))}
    one, two = document_digest(before), document_digest(after)
    if one == two:
        raise DocumentError("profile diff", "diff_changes_nothing", "after", two, "another state than before")
    return ProfileDiff(digest=_digest(one, two, content), before=one, after=two, content=content)


def apply_diffs(profile: Profile, diffs: Sequence[ProfileDiff], name: str = "diffs") -> Profile:
    """The profile that these steps lead to, each held to its digests.

    Raises:
        TamperedError: A step does not start or end where it says, or is not the one of its digest.
        DocumentError: A step cannot be applied, or what it leads to is no profile.
    """
    for number, diff in enumerate(diffs):
        at = f"{name}[{number}]"
        _same(at, "digest", diff.digest, _digest(diff.before, diff.after, diff.content))
        _same(at, "before", diff.before, document_digest(profile))
        profile = from_wire(Profile, _applied(to_wire(profile), diff.content, at), at)
        _same(at, "after", diff.after, document_digest(profile))
    return profile


def _digest(before: str, after: str, content: dict[str, Any]) -> str:
    return digest({"before": before, "after": after, "content": content})


def _same(name: str, path: str, found: str, expected: str) -> None:
    if found != expected:
        raise TamperedError(name, "diff_other_state", path, found, expected)


def _changes(before: Any, after: Any, at: str) -> Iterator[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            path = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in after:
                yield {"op": "remove", "path": path}
            elif key not in before:
                yield {"op": "add", "path": path, "value": after[key]}
            else:
                yield from _changes(before[key], after[key], path)
    # True and 1 are equal in Python and two values in JSON.
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": at, "value": after}


def _applied(value: dict[str, Any], content: dict[str, Any], name: str) -> dict[str, Any]:
    made = copy.deepcopy(value)
    for number, step in enumerate(content.get("patch", [])):
        try:
            *way, last = (p.replace("~1", "/").replace("~0", "~") for p in step["path"].split("/")[1:])
            inner = made
            for key in way:
                inner = inner[key]
            if step["op"] != "add" and last not in inner:
                raise KeyError(last)
            if step["op"] == "remove":
                del inner[last]
            else:
                inner[last] = step["value"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DocumentError(
                name,
                "diff_bad_patch",
                f"content.patch[{number}]",
                repr(step),
                "a step of JSON Patch that fits the profile",
            ) from error
    return made
