"""Rules of the house that a reader cannot see at a glance: checked over the source, not over its behaviour."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import ROOT, environment

SOURCES = sorted((ROOT / "expcomp").rglob("*.py"))
FORBIDDEN = {
    "map_elements": "runs Python on every value",
    "iter_rows": "runs Python on every row",
    "drop_invalid_rows": "drops rows without a reason",
}


@cache
def trees(word: str = "") -> tuple[tuple[str, ast.AST], ...]:
    """The files, of those that hold a word."""
    texts = ((path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in SOURCES)
    return tuple((name, ast.parse(text)) for name, text in texts if word in text)


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Method calls with the method's name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func.attr


@cache
def method_calls() -> tuple[tuple[str, ast.Call, str], ...]:
    """Of every file its method calls; the trees are walked once."""
    return tuple((name, call, method) for name, tree in trees() for call, method in calls(tree))


def needs_order(call: ast.Call, method: str) -> bool:
    """Whether this is a join, group_by or unique of a frame: one whose order Polars leaves open unless it is stated."""
    keywords = {k.arg for k in call.keywords}
    if method == "join":
        return bool(keywords & {"on", "left_on", "right_on", "how"})
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(receiver, ast.Name) and receiver.id == "np":
        return False  # numpy's unique sorts
    if method == "unique" and isinstance(receiver, ast.Attribute) and receiver.attr in ("list", "arr"):
        return True
    return method == "group_by" or (method == "unique" and bool(call.args or keywords))


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 50
    assert sum(needs_order(c, m) for _, c, m in method_calls()) > 50


def test_the_order_check_sees_what_it_must() -> None:
    code = (
        "a.join(b, on='x'); ','.join(c); p.list.join('-'); d.group_by('k'); e.unique('k'); f.unique(); "
        "g.list.unique(); np.unique(h, axis=0)"
    )
    assert [needs_order(c, m) for c, m in calls(ast.parse(code))].count(True) == 4


def test_joins_groups_and_uniques_state_their_order() -> None:
    silent = [
        f"{name}:{call.lineno}: {method}"
        for name, call, method in method_calls()
        if needs_order(call, method) and "maintain_order" not in {k.arg for k in call.keywords}
    ]
    assert silent == []


@pytest.mark.parametrize("word", FORBIDDEN)
def test_a_word_that_is_never_used(word: str) -> None:
    used = [
        f"{name}:{node.lineno if isinstance(node, ast.Attribute) else node.value.lineno}"
        for name, tree in trees(word)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == word)
        or (isinstance(node, ast.keyword) and node.arg == word)
    ]
    assert used == [], FORBIDDEN[word]


def test_sentences_are_not_made_by_what_panics() -> None:
    """`pl.format` of Polars 2.1 panics over a frame of which a part is empty; `io.wording.worded` does not."""
    assert not [
        f"{name}:{call.lineno}"
        for name, call, method in method_calls()
        if method == "format" and ast.unparse(call.func) == "pl.format"
    ]


def test_no_identity_rests_on_the_hash_of_polars() -> None:
    assert [f"{name}:{c.lineno}" for name, c, m in method_calls() if m in ("hash", "hash_rows")] == []


def test_rows_become_python_objects_only_on_the_command_line() -> None:
    used = [f"{name}:{c.lineno}" for name, c, m in method_calls() if m in ("to_dicts", "rows", "rows_by_key")]
    assert [u for u in used if not u.startswith("expcomp/cli/")] == []


def test_no_string_in_the_source_has_an_invalid_escape() -> None:
    # Compiled afresh: a cached bytecode file hides the warning.
    code = "import sys, pathlib\nfor p in sys.argv[1:]: compile(pathlib.Path(p).read_text('utf-8'), p, 'exec')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(os.fspath, SOURCES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
        timeout=60,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("heavy", ["polars", "pandera", "pyarrow", "numpy", "rich", "typer", "msgspec"])
def test_importing_the_package_imports_nothing_heavy(heavy: str) -> None:
    assert heavy not in modules_after("import expcomp")


def test_every_public_name_can_be_imported() -> None:
    import expcomp

    assert [n for n in expcomp.__all__ if getattr(expcomp, n, None) is None] == []
    assert dir(expcomp) == sorted(expcomp.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import expcomp

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = expcomp.no_such_name


def test_imports_only_go_down() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run(
        [tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, env=environment(), timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pandera_runs_on_its_polars_backend() -> None:
    assert "PANDERA_USE_NARWHALS_BACKEND" not in os.environ
    assert [p.name for p in SOURCES if "PANDERA_USE_NARWHALS_BACKEND" in p.read_text("utf-8")] == []


def test_no_file_of_the_repository_holds_a_path_of_this_machine() -> None:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        pytest.skip("not a git clone")
    beside = [p for p in ROOT.parent.iterdir() if p.is_dir()] if len(ROOT.parts) > 2 else []
    needles = [os.fspath(p).encode() for p in (ROOT, *beside, Path(sys.prefix)) if len(p.parts) > 2]
    pattern = re.compile(b"|".join(map(re.escape, needles)) + rb"(?![A-Za-z0-9_-])")
    paths = [ROOT / n for n in done.stdout.splitlines()]
    assert [p.name for p in paths if p.is_file() and pattern.search(p.read_bytes())] == []
