"""The rule language: what expressions give, what they read, and that no text breaks it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.environments import paths
from expcomp.environments.functions import FUNCTIONS
from expcomp.environments.language import (
    LanguageError,
    PathError,
    Scope,
    Unresolved,
    expression,
    fill,
    normalise,
    operand,
    state_path,
    template,
)
from expcomp.environments.values import equal, leaf_accuracy, leaves
from expcomp.errors import TooMuchWorkError

WORLD = {
    "world": {
        "parts": {"P-1": {"stock": 3, "cost": 1.5, "tags": ["a", "b"]}, "P-2": {"stock": 0, "cost": 4.0, "tags": []}},
        "jobs": {"J": {"part": "P-1", "lines": [{"qty": 2, "price": 3.0}, {"qty": 1, "price": 1}]}},
        "files": {"/tmp/a.txt": {"size": 3}, "/tmp/a": {"txt": 1}},
        "none": None,
        "flag": True,
        "name": "gift_card_12",
        "xs": [3, 1, 2],
    },
    "step": 4,
    "revision": 2,
}
AFTER = {**WORLD, "world": {**WORLD["world"], "flag": False}}  # type: ignore[dict-item]
ARGS = {"part_id": "P-1", "qty": 2, "text": "2 * (3 + 4)", "nested": {"k": [5]}, "ok": True}


def scope() -> Scope:
    return Scope("add", ARGS, WORLD, AFTER, "success")


VALUES: list[tuple[str, Any]] = [
    ("world.parts[arg.part_id].stock - arg.qty", 1),
    ("action.arguments.qty", 2),
    ("action.type", "add"),
    ('world.parts["P-1"].cost * 2', 3.0),
    ("world.parts[world.jobs.J.part].stock", 3),
    ("sum(world.jobs.J.lines[].qty)", 3),
    ("world.jobs[].lines[].price", [[3.0, 1]]),
    ("world.parts[].tags[]", [["a", "b"], []]),
    ("len(world.parts)", 2),
    ("world.jobs.J.lines[0].qty", 2),
    ("before.world.flag == after.world.flag", False),
    ("step + revision", 6),
    ("arg.nested.k[0]", 5),
    ("arithmetic(arg.text)", 14),
    ("prefix(world.name)", "gift_card"),
    ('prefix("plain")', "plain"),
    ("has(world.none) and not has(world.nope)", True),
    ("default(world.nope, 7)", 7),
    ("1 if arg.qty > 1 else 2", 1),
    ('{"a": arg.qty, "b": [world.none, true]}', {"a": 2, "b": [None, True]}),
    ("world.xs + [9]", [3, 1, 2, 9]),
    ('"x" + upper("y")', "xY"),
    ("3 in world.xs", True),
    ('"P-9" not in world.parts', True),
    ("-arg.qty // 2", -1),
    ("7 % 4", 3),
    ("round(2.675, 2)", 2.67),
    ('join(", ", sorted(["b", "a"]))', "a, b"),
    ('negated(world.jobs.J.lines, "price")', [{"qty": 2, "price": -3.0}, {"qty": 1, "price": -1}]),
    ('merge({"a": 1}, without({"a": 2, "b": 3}, "a"))', {"a": 1, "b": 3}),
    ('number("4.0")', 4.0),
    ("max(1, 2) + min([3, 4])", 5),
    ("1 == 1.0", True),
    ("1 == true", False),
    ("outcome", "success"),
    ('"a[]"', "a[]"),
    ("{j.part: len(j.lines) for j in world.jobs[]}", {"P-1": 2}),
    ("[x * 2 for x in world.xs if x > 1]", [6, 4]),
    ("sum([sum([l.qty * l.price for l in j.lines]) for j in world.jobs[] if j.part == arg.part_id])", 7.0),
    ("[p.stock for p in world.parts[] if p.cost < world.parts[arg.part_id].cost * arg.qty]", [3]),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_an_expression(text: str, value: Any) -> None:
    found = expression(text).value(scope())
    assert equal(found, value)
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "world.nope",
        "arg.nope",
        "world.flag + 1",
        "true * 2",
        "1 / 0",
        "len(5)",
        "world.name > 3",
        "world.xs[9]",
        "world.xs.a",
        "sum(world.parts[].nope)",
        "not 5",
        "arithmetic(world.name)",
        'arithmetic("9 ** 9")',
        "world.parts[world.none]",
        "{1: 2}",
        "world.none[].x",
    ],
)
def test_an_expression_without_a_value(text: str) -> None:
    with pytest.raises(Unresolved):
        expression(text).value(scope())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "x",
        "other.a",
        "before",
        "before.x",
        "action.name",
        "arg[world.x]",
        "open('f')",
        "().__class__",
        "[i for i in world.parts]",
        "[i for i in world.xs for j in world.xs]",
        "[i for i, j in world.xs]",
        "[j for i in world.xs]",
        "{i: 1 for i in world.xs}",
        "(1, 2)",
        "lambda: 1",
        "1 < 2 < 3",
        "2 ** 9",
        "f'{1}'",
        "world.a.b()",
        "len(xs=1)",
        "nofunction(1)",
        "b'x'",
        "1j",
        "world.x := 3",
        "*world.xs",
        "world.xs[1:2]",
    ],
)
def test_a_text_that_is_no_expression(text: str) -> None:
    with pytest.raises((LanguageError, Unresolved)):
        expression(text).value(scope())


def test_what_an_expression_reads() -> None:
    made = expression("world.parts[arg.part_id].stock + after.world.xs[0] * arg.qty")
    assert made.arguments == {"part_id", "qty"}
    assert made.state == {("world", "parts"), ("world", "xs", "0")}
    assert made.after
    assert operand("path", "world.parts.{action.arguments.part_id}.stock").state == {("world", "parts")}


def test_a_miss_is_remembered_with_its_whole_path() -> None:
    s = scope()
    with pytest.raises(Unresolved):
        expression('world.parts[arg.part_id]["a.b"].c').value(s)
    assert s.missed == {'world.parts.P-1["a.b"].c'}


PATHS = [
    ('a["k"].b', "a.k.b"),
    ("a['k'].b", "a.k.b"),
    ("a[0].b", "a.0.b"),
    ('a["x.y"].b', 'a["x.y"].b'),
    ("a.b", "a.b"),
    ('a["q\\"x"]', 'a["q\\"x"]'),
]


@pytest.mark.parametrize(("text", "canonical"), PATHS)
def test_a_path_has_one_spelling(text: str, canonical: str) -> None:
    assert normalise(text) == canonical
    assert normalise(canonical) == canonical


def test_names_of_files_keep_their_dots() -> None:
    state = WORLD["world"]
    assert paths.get(state, paths.split("files./tmp/a.txt.size")) == 3
    assert paths.get(state, paths.split('files["/tmp/a"].txt')) == 1
    assert paths.get(state, paths.split("files.https://x.org/a.b")) is paths.MISSING
    made = paths.put(state, paths.split("files.~/b.txt"), 1)
    assert made["files"]["~/b.txt"] == 1
    assert "~/b.txt" not in state["files"]  # type: ignore[index]


def test_literals_are_filled_in() -> None:
    s = scope()
    assert fill(
        {"a": "{action.arguments.qty}", "b": ["n={action.arguments.qty}", {"$action_arg": "nested"}], "c": 1}, s
    ) == {
        "a": 2,
        "b": ["n=2", {"k": [5]}],
        "c": 1,
    }
    with pytest.raises(Unresolved):
        fill("{action.arguments.nope}", s)


def test_braces_that_are_no_tokens_are_text() -> None:
    assert template('{"a": {x}} {state}').render(scope()) == '{"a": {x}} {state}'
    assert template("{action.arguments.nested.k} {outcome} {action.type}").render(scope()) == "[5] success add"
    with pytest.raises(LanguageError, match="not closed"):
        template("{action.arguments.x")


@given(st.text(max_size=40) | st.text(alphabet="world.[]{}\"'=+-*argstep()0 1,:", max_size=40))
def test_no_text_breaks_the_language(text: str) -> None:
    for make in (expression, state_path, template, lambda t: template(t, "application/json")):
        try:
            made = make(text)
            made.render(scope()) if hasattr(made, "render") else made.read(scope()) if hasattr(
                made, "read"
            ) else made.value(scope())
        except (LanguageError, Unresolved):
            pass
    try:
        again = normalise(text)
    except PathError:
        return
    assert normalise(again) == again


@given(
    st.lists(
        st.text(min_size=1, max_size=5) | st.sampled_from(["/tmp", "~/a", "a://b", "/a.b"]), min_size=1, max_size=4
    )
)
def test_keys_of_any_kind_survive_as_a_path(keys: list[str]) -> None:
    segments = ("world", *map(paths.Key, keys))
    assert paths.split(paths.join(segments)) == segments
    state = paths.put({}, segments, 1)
    assert paths.get(state, segments) == 1
    assert paths.put({}, paths.split(paths.join((*segments, "x"))), 1) == paths.put({}, (*segments, "x"), 1)
    assert paths.get(paths.drop(state, segments), segments) is paths.MISSING


@given(st.text(max_size=20), st.integers(-5, 5), st.lists(st.integers(-5, 5), max_size=4))
def test_functions_give_a_value_or_refuse(text: str, number: int, values: list[int]) -> None:
    for name, function in FUNCTIONS.items():
        for arguments in ((text,), (number,), (values,), (text, number), (values, text)):
            try:
                function(*arguments)
            except (ValueError, TypeError, LookupError, ArithmeticError, SyntaxError):
                continue
            except Exception as error:
                pytest.fail(f"{name}{arguments}: {error!r}")


def test_leaves() -> None:
    assert leaves({"a": [1, {"b": None}], "c": {}}) == {"/a/0": 1, "/a/1/b": None, "/c": {}}
    assert leaf_accuracy({"a": 1, "b": 2}, {"a": True, "b": 2, "c": 3}) == pytest.approx(1 / 3)
    assert leaf_accuracy(1, 1.0) == 1


@pytest.mark.parametrize("name", ["item", "scope", "name", "names", "looked"])
def test_a_loop_may_use_any_name(name: str) -> None:
    """What stands for an element has no name of its own inside."""
    assert expression(f"[{name} + 1 for {name} in world.xs if {name} > 1]").value(scope()) == [4, 3]


def test_loops_in_loops_end() -> None:
    """A package of somebody else cannot keep a session busy for ever."""
    loops = expression("[[[[[1 for e in arg.xs] for d in arg.xs] for c in arg.xs] for b in arg.xs] for a in arg.xs]")
    with pytest.raises(TooMuchWorkError, match="a rule of add looks at more than 1,000,000 elements"):
        loops.value(Scope("add", {"xs": list(range(40))}, WORLD))


@pytest.mark.parametrize(
    "text",
    [
        "1e308 * 10", "world.big + world.big", "sum([1e308, 1e308])", 'number("1e999")', "world.large + 1.5",
        "world.large * world.large", "round(5, -1000000000)", 'replace(world.long, "", world.long)', "join(world.long, world.many)",
        "world.long + replace(world.long, world.long, world.long + world.long)",
    ],
)  # fmt: skip
def test_what_is_too_large_has_no_value(text: str) -> None:
    """Numbers past the range of a float, and texts that would fill the memory."""
    world = {
        "big": 1e308,
        "large": 10**300 * 10**300,
        "long": "a" * (1 << 23),
        "many": list(range(9)),
    }
    with pytest.raises(Unresolved):
        expression(text).value(Scope("a", {}, {"world": world}))


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9" * 400])
def test_a_literal_past_the_range_of_a_float_is_refused(text: str) -> None:
    """JSON cannot say it."""
    with pytest.raises(LanguageError, match="range of a float"):
        expression(text)


def test_prefix_of_a_long_text_takes_no_time() -> None:
    """A text of separators alone."""
    text = "_" * 200_000
    assert FUNCTIONS["prefix"](text) == text
    assert FUNCTIONS["prefix"](text + "1") == ""
    assert FUNCTIONS["prefix"]("order - #7_b") == "order"


@pytest.mark.parametrize("text", ["world.\ue000", "world.a\ue000{action.type}"])
def test_a_path_with_the_private_character_is_refused(text: str) -> None:
    """It stands for tokens inside."""
    with pytest.raises(LanguageError, match=r"U\+E000"):
        state_path(text)


def test_a_position_of_thousands_of_digits_is_none() -> None:
    """Python does not read such numbers."""
    state = {"world": {"xs": [1]}}
    assert paths.get(state, ("world", "xs", "9" * 5_000)) is paths.MISSING
    assert paths.drop(state, ("world", "xs", "9" * 5_000)) == state
    with pytest.raises(KeyError):
        paths.put(state, ("world", "xs", "9" * 5_000), 1)


@pytest.mark.parametrize("text", ["NaN", '{"a": Infinity}', "1e999", "[" * 2_000])
def test_a_literal_that_is_no_json_is_refused(text: str) -> None:
    """Also what Python would take for JSON."""
    with pytest.raises(LanguageError, match="no JSON"):
        operand("literal", text)
