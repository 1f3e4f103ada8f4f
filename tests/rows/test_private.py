"""What only a verifier may see: judges repeat it, rows of others do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.rows.private import MASK, masked, phrases_of
from tests.helpers import edit, package

NAME, SAID = "Acorn tally", 'The tally says "4711 acorns", no less.'


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> xc.Compilation:
    """A package whose grader, evaluator, reviewer and verifier all speak of its private criterion."""
    folder = tmp_path_factory.mktemp("private")
    root = package(folder, "pkg_a", private_item=True)

    def change(file: str, **values: Any) -> None:
        edit(root / file, lambda d: d.update(values))

    edit(
        root / "rubric/rubric.json",
        lambda d: d["rubric_items"][1].update(
            rubric_item_id="r2", criterion_name=NAME, criterion_description=SAID, verifier_only=True
        ),
    )
    for kind in ("baseline", "revised"):
        change(f"grading/{kind}_grader_result.json", failed_criteria=["counted", NAME])
        change(f"grading/{kind}_verifier_result.json", issues=[SAID], verifier_notes=f"See: {NAME}.")
        change(
            f"feedback/{kind}_evaluator_feedback.json", feedback_summary=SAID, actionable_feedback=["Recount.", SAID]
        )
    packet = {"rubric_status": {NAME: SAID, "counted": True}, "known_failures": [NAME, "miscounted"]}
    change("loops/iterations/0001/review_packet.json", **packet)
    change("loops/iterations/0001/reviewer_feedback.json", feedback=f"Mind: {SAID}", blocking_issues=[NAME])
    return xc.compile(xc.read_traces(folder))


def test_name_and_description_stand_in_flagged_evaluation_rows_only(told: xc.Compilation) -> None:
    holders = set()
    for rows in (told.rows, told.rejected):
        for family in rows:
            text = rows[family].select(pl.struct(pl.all()).struct.json_encode().alias("t"))
            flagged = rows[family]["verifier_only"] if "verifier_only" in rows[family].columns else False
            hit = text["t"].str.contains_any([NAME, "4711 acorns"])
            holders |= {(family, f) for f in rows[family].select(pl.lit(flagged).alias("f")).filter(hit)["f"]}
    assert holders == {("evaluation_example", True)}


def test_a_failed_criterion_that_is_private_keeps_its_id(told: xc.Compilation) -> None:
    rows = pl.concat([told.rows["reward_model_row"], told.rejected["reward_model_row"]])
    assert rows["failed_criteria"].to_list() == [["counted", "r2"]] * 2
    assert set(told.rows["failure_case"]["criterion"].drop_nulls()) == {"counted"}


def test_the_words_around_it_stay_and_json_stays_json(told: xc.Compilation) -> None:
    critique = told.rows["critique_revision_pair"].filter(pl.col("suggestions").list.contains("Recount."))
    assert critique.select("critique", "suggestions").row(0) == (MASK, ["Recount.", MASK])
    packet = told.rows["loop_review_row"].row(0, named=True)
    assert packet["known_failures"] == [MASK, "miscounted"]
    assert json.loads(packet["rubric_status"]) == {MASK: MASK, "counted": True}
    assert told.rows["feedback_revision_pair"]["feedback"][0] == f"Mind: {MASK}"
    assert told.rows["verifier_example"]["notes"].to_list() == [f"See: {MASK}."] * 2
    assert told.rows["verifier_example"]["issues"].to_list() == [[MASK]] * 2


def items(*phrases: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"package_id": ["p"] * len(phrases), "rubric_item_id": ["i"] * len(phrases), "criterion_name": phrases},
    ).with_columns(criterion_description=pl.lit(None, dtype=pl.String))


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("two words", "says two words here", f"says {MASK} here"),
        ("word", "one word alone", "one word alone"),
        ("two words", '{"a":["two words"]}', f'{{"a":["{MASK}"]}}'),
        ("n the total", '{"a":"x\\n the total"}', f'"{MASK}"'),
        ('yes","no way', '["yes","no way"]', f'["{MASK}"]'),
        ("two words", None, None),
    ],
)
def test_a_phrase_goes_and_what_was_json_stays_json(phrase: str, text: str | None, expected: str | None) -> None:
    frame = pl.DataFrame({"package_id": ["p", "other"], "t": [text, text]}, schema_overrides={"t": pl.String})
    assert masked(frame, ["t"], phrases_of(items(phrase)))["t"].to_list() == [expected, text]


def test_lists_keep_their_length_order_and_nulls(tmp_path: Path) -> None:
    lists = [["a", "two words", "b"], [], None, [None, "two words two words"]]
    frame = pl.DataFrame({"package_id": ["p"] * 4, "t": lists})
    got = masked(frame, ["t"], phrases_of(items("two words")))["t"].to_list()
    assert got == [["a", MASK, "b"], [], None, [None, f"{MASK} {MASK}"]]


def test_many_phrases_cost_no_more_than_their_number() -> None:
    names = [f"item number {i}" for i in range(300)]
    phrases = pl.DataFrame({"package_id": ["a", "b"], "phrases": [names, ["some words"]]})
    frame = pl.DataFrame({"package_id": ["a", "b", "c"], "t": "some words on item number 7"})
    assert masked(frame, ["t"], phrases)["t"].to_list() == [
        f"some words on {MASK}",
        f"{MASK} on item number 7",
        "some words on item number 7",
    ]
