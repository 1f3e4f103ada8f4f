from __future__ import annotations

import pytest

from expcomp.errors import ConfigError
from expcomp.sources.rules import Rules, read_rules


def written(tmp_path, text):
    path = tmp_path / "expcomp.toml"
    path.write_text(text)
    return path


def test_a_file_adds_to_the_tables_and_changes_them(tmp_path):
    rules = read_rules(
        written(
            tmp_path,
            """
            [errors]
            MyGatewayError = { status = "infra_error" }
            AgentTimeoutError = { status = "agent_error", voids_reward = true }

            [status.swe_agent]
            "submitted (exit_quota)" = { status = "limit" }

            [score]
            verifiers = { min = 0, max = 2.25, pass = 1.5 }
            """,
        )
    )
    mine = rules.error("pkg.MyGatewayError", graded=True)
    assert (mine.status, mine.voids_reward) == ("infra_error", True)
    assert rules.error("AgentTimeoutError", graded=True).voids_reward
    assert rules.status("swe_agent", "submitted (exit_quota)")[0].status == "limit"
    assert rules.status("swe_agent", "submitted")[0].status == "completed"
    assert rules.scores["verifiers"].passes == 1.5


def test_the_built_in_tables_stay_as_they_are(tmp_path):
    read_rules(written(tmp_path, '[errors]\nX = { status = "limit" }\n[status.codex]\nx = { status = "limit" }'))
    assert "X" not in Rules().errors
    assert "x" not in Rules().statuses["codex"]


def test_an_unknown_word_is_told_apart_from_no_word():
    assert Rules().status("swe_agent", "exit_moon") == (Rules().status("swe_agent", None)[0], False)
    assert Rules().status("swe_agent", None)[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[error]\n", r"\[error\] is not known"),
        ("x = ", "no TOML"),
        ("[errors]\nA = 1", "A: expected a table"),
        ('[errors]\nA = { status = "done" }', "status = one of"),
        ('[errors]\nA = { status = "limit", void = true }', "status = one of"),
        ('[status.moon]\nA = { status = "limit" }', "no such table"),
        ("[score]\nx = { min = 0 }", "min and max together"),
        ("[score]\nx = { min = 2, max = 1 }", "not above"),
        ("[score]\nx = { min = -inf, max = inf }", "number"),
        ("[score]\nx = { min = -1.7e308, max = 1.7e308 }", "not above"),
        ('[score]\nx = { pass = "1" }', "number"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        read_rules(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        read_rules(tmp_path / "none.toml")
