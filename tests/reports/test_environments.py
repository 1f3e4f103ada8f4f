"""The report on an environment: its headline, what is not measured, the curve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.environments.evaluation import evaluated
from expcomp.reports.environments import environment_report

STEPS = pl.DataFrame(
    [
        {
            "group": f"g{i % 8}",
            "action_type": ("look", "drain")[i % 2],
            "route": ("const", "abstain")[i % 5 == 0],
            "confidence": 0.0 if i % 5 == 0 else 0.5 + i / 100,
            "answer": None if i % 5 == 0 else "1",
            "exact": i % 5 != 0 and i % 11 != 0,
            "text_exact": None,
            "leaf": 1.0 if i % 5 else 0.0,
            "failed": i % 7 == 0,
            "failed_predicted": i % 7 == 0 and i % 3 != 0,
            "outcome_ok": i % 7 != 0 or i % 3 != 0,
            "state_ok": None,
            "abstained": i % 5 == 0,
            "answered": i % 5 != 0 and i >= 20,
            "knowable": i % 4 != 0,
            "modal_exact": i % 6 == 0,
            "memory_exact": i % 3 == 0,
            "leaky": i >= 40,
        }
        for i in range(48)
    ],
    schema_overrides={"text_exact": pl.Boolean, "state_ok": pl.Boolean},
)
TRAINED = pl.DataFrame({"action_type": ["look", "drain"], "failed": [False, True]})


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return evaluated(STEPS, gate=0.7, trained=TRAINED)


def test_leaky_turns_are_in_no_figure(found: dict[str, Any]) -> None:
    assert (found["steps"], found["leaky_steps"], found["leaky"]) == (40, 8, False)
    assert evaluated(STEPS.filter("leaky"), gate=0.7, trained=TRAINED)["headline"] is None


def test_intervals_take_families_as_clusters(found: dict[str, Any]) -> None:
    overall = found["overall"]
    for name in ("exact", "coverage", "outcome_balanced", "outcome_mcc", "ece"):
        span = overall["intervals"][name]
        assert span["low"] < overall[name] < span["high"], name
    assert overall["intervals"]["state"] == {"reason": "not recorded"}
    assert [r["action_type"] for r in found["per_action"]] == ["drain", "look"]
    assert all(set(r["intervals"]) >= {"exact", "coverage", "selective_exact"} for r in found["per_action"])


def test_the_documents_say_the_headline_and_what_is_not_measured(found: dict[str, Any], tmp_path: Path) -> None:
    told = {"conditions": [{"name": "rules reach their bound", "holds": False, "found": "2 of 3"}], "eligible": False}
    free = {
        "episodes": 4,
        "exact_to_the_end": 0.5,
        "mean_exact_steps_from_the_start": 2.0,
        "rules_used_right": None,
        "steps_by_a_rule": 0.25,
    }
    made = environment_report({**found, "free_running": free}, told=told, title="Environment tanks")
    made.write(tmp_path / "report")
    text = (tmp_path / "report/report.md").read_text("utf-8")
    assert "40.0% of 40 unseen turns are answered; 87.5% of these are exact (gate 0.7, 8 families)." in text
    assert "Leaky: 8 turns are of tasks that were learned from; no figure counts them." in text
    assert "Not measured, as nothing to measure it on is recorded: text equal as written" in text
    assert "The package is a candidate." in text
    assert (tmp_path / "report/figures/risk_coverage.svg").is_file()
    assert "<svg" in (tmp_path / "report/report.html").read_text("utf-8") or "data:image/svg" in made.to_html()
    ids = [s["id"] for s in json.loads((tmp_path / "report/report.json").read_text("utf-8"))["sections"]]
    assert ids == ["evaluation", "actions", "risk_coverage", "free_running", "conditions"]


def test_nothing_unseen_is_said_and_nothing_else() -> None:
    none = evaluated(STEPS.filter("leaky"), gate=0.7, trained=TRAINED)
    assert environment_report(none).to_markdown().count("nothing can be said") == 1
