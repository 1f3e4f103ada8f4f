"""The resolver is tolerant of spelling and strict about attempts."""

from __future__ import annotations

import pytest

from expcomp.evidence.resolve import resolve

A, B = "attempts/a", "attempts/b"
PATHS = frozenset(
    [
        f"{A}/agent_trace.json",
        f"{A}/artifacts/x y.csv",
        f"{A}/artifacts/out.csv",
        f"{A}/artifacts/sub/n.txt",
        f"{A}/n2/n3.txt",
        f"{A}/z/n3.txt",
        f"{B}/artifacts/out.csv",
        f"{B}/artifacts/only.md",
        "task/brief.md",
        "hidden_reference/key.json",
        "rubric/verifier_private_rubric.json",
    ]
)


@pytest.mark.parametrize(
    ("text", "ref", "how"),
    [
        (f"{A}/artifacts/out.csv", f"{A}/artifacts/out.csv", "exact"),
        (f"{A}/artifacts/x y.csv", f"{A}/artifacts/x y.csv", "exact"),
        ("attempts\\a\\artifacts\\out.csv", f"{A}/artifacts/out.csv", "exact"),
        ("packages/p1/attempts/a/artifacts/out.csv", f"{A}/artifacts/out.csv", "exact"),
        ("/home/m/packages/p1/attempts/a/artifacts/out.csv", f"{A}/artifacts/out.csv", "exact"),
        ("task/brief.md", "task/brief.md", "exact"),
        (f"{B}/artifacts/out.csv", f"{B}/artifacts/out.csv", "exact"),
        ("artifacts/out.csv", f"{A}/artifacts/out.csv", "attempt"),
        ("./artifacts/x y.csv", f"{A}/artifacts/x y.csv", "attempt"),
        ("agent_trace.json", f"{A}/agent_trace.json", "attempt"),
        ("out.csv", f"{A}/artifacts/out.csv", "artifacts"),
        ('"out.csv"', f"{A}/artifacts/out.csv", "artifacts"),
        ("out.csv (truncated)", f"{A}/artifacts/out.csv", "artifacts"),
        ("out.csv (parse_error: bad (row) 3)", f"{A}/artifacts/out.csv", "artifacts"),
        ("out.csv:12", f"{A}/artifacts/out.csv", "artifacts"),
        ("out.csv, and more", f"{A}/artifacts/out.csv", "artifacts"),
        ("artifact_content_previews_truncated: artifacts/out.csv", f"{A}/artifacts/out.csv", "attempt"),
        ("artifacts/out.csv_preview", f"{A}/artifacts/out.csv", "attempt"),
        ("n.txt", f"{A}/artifacts/sub/n.txt", "basename"),
        ("elsewhere/n.txt", f"{A}/artifacts/sub/n.txt", "basename"),
    ],
)
def test_what_resolves(text: str, ref: str, how: str) -> None:
    found = resolve(text, attempt="a", paths=PATHS)
    assert (found.ref, found.how, found.candidates) == (ref, how, ())
    assert resolve(text, attempt="a", paths=dict.fromkeys(PATHS)) == found


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("only.md", (f"{B}/artifacts/only.md",)),
        (f"{B}/artifacts/n.txt", (f"{A}/artifacts/sub/n.txt",)),
        ("n3.txt", (f"{A}/n2/n3.txt", f"{A}/z/n3.txt")),
        ("hidden_reference/key.json", ()),
        ("key.json", ()),
        ("verifier_private_rubric.json", ()),
        ("../task/brief.md", ()),
        ("https://host.invalid/out.csv", ()),
        ("", ()),
        ("nothing like it", ()),
    ],
)
def test_what_does_not(text: str, candidates: tuple[str, ...]) -> None:
    found = resolve(text, attempt="a", paths=PATHS)
    assert (found.ref, found.how, found.candidates) == (None, "unresolved", candidates)


def test_without_an_attempt_only_exact_paths_resolve() -> None:
    assert resolve("out.csv", attempt=None, paths=PATHS).ref is None
    assert resolve("task/brief.md", attempt=None, paths=PATHS).ref == "task/brief.md"
