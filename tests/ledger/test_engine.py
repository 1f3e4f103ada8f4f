"""Rules as data: what a rule set may say, what it gives, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import ConfigError
from expcomp.ledger.engine import RuleSet, compile_rules, compile_when
from expcomp.ledger.entries import entries
from expcomp.ledger.pack import profiles, read_pack

SCHEMA = {
    "word": pl.String(),
    "count": pl.Int64(),
    "share": pl.Float64(),
    "flag": pl.Boolean(),
    "labels": pl.List(pl.String()),
}
FRAME = pl.DataFrame(
    {
        "word": ["setup_timeout", "none", None],
        "count": [0, 3, None],
        "share": [0.5, float("nan"), None],
        "flag": [True, False, None],
        "labels": [["Setup failed", "timeout"], [], None],
    },
    schema=SCHEMA,
)
REST = {"id": "rest", "then": "rest"}


def fires(when):
    return FRAME.select(compile_when(when, SCHEMA, "here")).to_series().to_list()


def rules(*given, name="demo"):
    return RuleSet(name, tuple(given))


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({"word": "none"}, [False, True, False]),
        ({"word": {"ne": "none"}}, [True, False, True]),
        ({"word": {"in": ["none", "x"]}}, [False, True, False]),
        ({"word": {"not_in": ["none"]}}, [True, False, True]),
        ({"word": {"null": True}}, [False, False, True]),
        ({"word": {"prefix": ["setup", "x"]}}, [True, False, False]),
        ({"word": {"ends": "_timeout"}}, [True, False, False]),
        ({"word": {"contains": ["zz", "_t"]}}, [True, False, False]),
        ({"word": {"contains_all": ["setup", "time"]}}, [True, False, False]),
        ({"word": {"contains": "."}}, [False, False, False]),
        ({"count": {"nonzero": True}}, [False, True, False]),
        ({"count": {"ge": 3}}, [False, True, False]),
        ({"count": {"gt": 0}}, [False, True, False]),
        ({"share": {"gt": 0}}, [True, False, False]),
        ({"share": {"le": 0.5}}, [True, False, False]),
        ({"flag": True}, [True, False, False]),
        ({"flag": {"ne": True}}, [False, True, True]),
        ({"labels": {"has": "timeout"}}, [True, False, False]),
        ({"labels": {"has_all": ["timeout", "x"]}}, [False, False, False]),
        ({"labels": {"nonempty": True}}, [True, False, False]),
        ({"labels": {"nonempty": False}}, [False, True, True]),
        ({"labels": {"item_contains": ["ailed"]}}, [True, False, False]),
        ({"labels": {"item_contains_all": ["Setup", "timeout"]}}, [False, False, False]),
        ({"labels": {"item_contains_all": ["Setup", "fail"]}}, [True, False, False]),
        ({"word": {"null": False}, "flag": True}, [True, False, False]),
        ({"any": [{"flag": True}, {"count": 3}]}, [True, True, False]),
        ({"all": [{"flag": True}, {"count": 3}]}, [False, False, False]),
        ({"not": {"flag": True}}, [False, True, True]),
        ({}, [True, True, True]),
    ],
)
def test_an_operator_is_total(when, expected):
    assert fires(when) == expected or (when == {} and fires(when) == [True])


def test_the_first_rule_that_matches_gives_the_value_and_its_id():
    value, rule = compile_rules(
        rules(
            {"id": "label", "when": {"labels": {"nonempty": True}}, "first_of": "labels"},
            {"id": "word", "when": {"word": {"null": False}}, "take": "word"},
            {"id": "rest", "nothing": True},
        ),
        SCHEMA,
    )
    found = FRAME.select(value=value, rule=rule)
    assert found["value"].to_list() == ["Setup failed", "none", None]
    assert found["rule"].to_list() == ["label", "word", "rest"]


def test_a_rule_may_give_several_values():
    value, _ = compile_rules(
        rules(
            {"id": "a", "when": {"flag": True}, "then": {"priority": "P0", "score": 1.0, "from": {"take": "word"}}},
            {"id": "b", "when": {"flag": False}, "then": {"priority": "P1"}},
            {"id": "rest", "nothing": True},
        ),
        SCHEMA,
    )
    found = FRAME.select(value.alias("v")).unnest("v").to_dicts()
    assert found[0] == {"priority": "P0", "score": 1.0, "from": "setup_timeout"}
    assert found[1] == {"priority": "P1", "score": None, "from": None}
    assert set(found[2].values()) == {None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no rules"),
        ([{"then": "x"}], "no id"),
        ([{"id": "a"}], "exactly one of"),
        ([{"id": "a", "then": "x", "take": "word"}], "exactly one of"),
        ([{"id": "a", "then": "x", "wenn": {}}], "unknown key 'wenn'"),
        ([{"id": "a", "when": {"flag": True}, "then": "x"}], "no catch-all"),
        ([REST, REST], "used twice"),
        ([REST, {"id": "b", "when": {"flag": True}, "then": "x"}], "demo/b: can never fire, rest takes everything"),
        (
            [{"id": i, "when": {"word": {"prefix": "a"}, "flag": True}, "then": "x"} for i in "ab"] + [REST],
            "demo/b: can never fire, a takes",
        ),
        (
            [
                {"id": "a", "when": {"word": {"prefix": "verifier_"}}, "then": "x"},
                {"id": "b", "when": {"word": {"in": ["verifier_x", "verifier_y"]}, "flag": True}, "then": "x"},
                REST,
            ],
            "demo/b: can never fire, a takes",
        ),
        (
            [
                {"id": "a", "when": {"any": [{"word": "x"}, {"flag": True}]}, "then": "x"},
                {"id": "b", "when": {"word": "x"}, "then": "x"},
                REST,
            ],
            "demo/b: can never fire",
        ),
        ([{"id": "a", "when": {"wort": "x"}, "then": "x"}, REST], "unknown column 'wort'; known are count"),
        ([{"id": "a", "when": {"word": {"like": "x"}}, "then": "x"}, REST], "unknown operator 'like'"),
        ([{"id": "a", "when": {"labels": {"prefix": "x"}}, "then": "x"}, REST], "'prefix' does not work on 'labels'"),
        ([{"id": "a", "when": {"any": [{"wort": "x"}]}, "then": "x"}, REST], "unknown column 'wort'"),
        ([{"id": "a", "when": {"flag": True}, "take": "wort"}, REST], "unknown column 'wort'"),
        ([{"id": "a", "when": {"flag": True}, "first_of": "word"}, REST], "needs a list column"),
    ],
)
def test_a_rule_set_that_cannot_mean_what_it_says_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        compile_rules(rules(*given), SCHEMA)


@pytest.mark.parametrize(
    "later",
    [
        {"word": {"in": ["verifier_x", "agent_x"]}},
        {"word": {"contains": "verifier_"}},
        {"flag": True},
        {"word": {"null": False}},
    ],
)
def test_a_rule_that_can_fire_is_not_refused(later):
    earlier = {"id": "a", "when": {"word": {"prefix": "verifier_"}}, "then": "x"}
    compile_rules(rules(earlier, {"id": "b", "when": later, "then": "y"}, REST), SCHEMA)


@given(st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=6), st.text(min_size=1, max_size=3))
def test_a_text_operator_agrees_with_the_text(words, needle):
    frame = pl.DataFrame({"word": words}, schema={"word": pl.String()})
    for op, holds in (("contains", str.__contains__), ("prefix", str.startswith), ("ends", str.endswith)):
        test = compile_when({"word": {op: needle}}, frame.schema, "here")
        expected = [w is not None and holds(w, needle) for w in words]
        assert frame.select(test).to_series().to_list() == expected


def test_every_packaged_profile_holds_together():
    assert {"default", "loopx"} <= set(profiles())
    for name in profiles():
        assert read_pack(name).profile == name


def test_an_unknown_profile_is_named():
    with pytest.raises(ConfigError, match="unknown profile 'lopx'; known are default, loopx"):
        read_pack("lopx")


def extra(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text, "utf-8")
    return path


def class_of(pack, **record):
    return entries([{"benchmark_id": "b", "case_id": "c", **record}], pack)["failure_class"].item()


OWN = """
[rules]
failure_class = [{ id = "own", when = { first_blocker = "quota" }, then = "quota_exceeded" }]
[lists]
known_classes = ["quota_exceeded"]
"""


def test_rules_of_the_user_go_in_front(tmp_path):
    pack = read_pack("default", extra(tmp_path, OWN))
    assert class_of(pack, first_blocker="quota", score_failure_attribution="x") == "quota_exceeded"
    assert class_of(pack, first_blocker="other", score_failure_attribution="x") == "x"


def test_or_before_the_catch_all(tmp_path):
    pack = read_pack("default", extra(tmp_path, 'place = "behind"\n' + OWN.replace('"quota"', '"none"')))
    assert class_of(pack, first_blocker="none", score_failure_attribution="x") == "x"
    assert class_of(pack, first_blocker="none") == "quota_exceeded"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[rulez]\na = 1", "unknown section 'rulez'"),
        ('place = "last"', "place is 'last'"),
        ("[rules]\nfailure_class = 3", "expected a list of rules"),
        ('[rules]\nfailure_class = [{ id = "a", when = { wort = "x" }, then = "x" }]', "unknown column 'wort'"),
        ('[rules]\nrepair = [{ id = "a", when = { failure_class = "tpyo" }, then = {} }]', "no rule of failure_class gives 'tpyo'"),
        ('[rules]\nstatus = [{ id = "a", when = { status = { in = "$nope" } }, then = "x" }]', "unknown list '\\$nope'"),
        ('[fields.record]\nseed = "integer seed"', "unknown kind 'integer'"),
        ('[fields.record]\nseed = "int(1,2) seed"', "takes 1 numbers"),
        ("rules = [", "cannot be read as TOML"),
    ],
)  # fmt: skip
def test_a_bad_file_of_the_user_is_refused_with_its_reason(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read_pack("default", extra(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        read_pack("default", tmp_path / "absent.toml")


def test_no_vendor_is_named_in_code():
    words = ("skillsbench", "terminal-bench", "terminal_bench_", "gpt-", "codex_cli", "harbor_")
    folder = Path(__file__).parents[2] / "expcomp" / "ledger"
    mine = ("ancestor arms artifacts build derive documents engine entries facts fields objects operators pack quality "
            "recompute repair rounds standard values verdict")  # fmt: skip
    found = [(n, w) for n in mine.split() for w in words if w in (folder / f"{n}.py").read_text("utf-8")]
    assert found == []


def test_a_rule_of_the_user_takes_the_place_of_those_it_covers(tmp_path):
    text = '[rules]\nfailure_scope = [{ id = "own", when = { failure_class = { prefix = "verifier_" } }, then = "case_or_solution" }]'
    pack = read_pack("default", extra(tmp_path, text))
    assert [r["id"] for r in pack.rules["failure_scope"].rules if r["id"] in ("own", "verifier")] == ["own"]
