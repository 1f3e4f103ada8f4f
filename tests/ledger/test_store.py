"""What a ledger keeps, refuses and tells."""

from __future__ import annotations

import json
import math
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.comparing.trials import trials_of
from expcomp.errors import ConfigError, ExpcompError, OutputError, SourceError, UsageError
from expcomp.ledger import opening
from expcomp.ledger.adding import ConflictError
from expcomp.ledger.archive import Filter
from expcomp.ledger.identity import plain_text
from expcomp.ledger.inputs import from_attempts
from expcomp.ledger.report import report
from expcomp.ledger.store import Ledger
from expcomp.tables.ledger import RUNS
from tests.helpers import tree
from tests.ledger.attempts import START, many, one

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", create=True)


def runs(ledger: Ledger) -> pl.DataFrame:
    return ledger.runs.collect()


# What is added


def test_the_same_attempts_again_are_nothing_new(ledger: Ledger) -> None:
    first = ledger.add(many(40))
    again = ledger.add(many(40))
    assert (first.counts, again.counts) == ({"inserted": 40, "refused": 0}, {"identical": 40, "refused": 0})
    assert (runs(ledger).height, again.version) == (40, first.version)


def test_a_rerun_with_an_equal_result_is_kept(ledger: Ledger) -> None:
    ledger.add(one(trial=None, native_attempt_id="a", score=0.0))
    ledger.add(one(trial=None, native_attempt_id="b", score=0.0))
    assert runs(ledger)["official_score"].to_list() == [0.0, 0.0]


def test_attempts_that_tell_nothing_apart_but_their_place_are_all_kept(ledger: Ledger) -> None:
    bare = many(6, cases=1).with_columns(
        native_attempt_id=pl.lit(None, pl.String),
        started_at=pl.lit(None, pl.Datetime("us", "UTC")),
        trial=pl.lit(None),
        score=0.0,
    )
    ledger.add(bare)
    assert runs(ledger).height == 6


def test_a_notebook_shows_a_ledger_by_its_cases(ledger: Ledger) -> None:
    assert "Ledger(" in ledger._repr_html_()
    ledger.add(many(4, cases=2).with_columns(task_id=pl.lit("<b>") + pl.col("task_id")))
    shown = ledger._repr_html_()
    assert "4 runs in 1 file," in shown
    assert "case-1" in shown
    assert "<b>" not in shown


def test_the_table_holds_to_its_contract(ledger: Ledger) -> None:
    ledger.add(many(20))
    frame = runs(ledger)
    assert frame.schema == RUNS.schema
    assert frame.select(rule.all().alias(name) for name, rule in RUNS.all_rules().items()).unpivot()["value"].all()


def test_adding_an_old_run_again_changes_neither_its_time_nor_the_order(ledger: Ledger) -> None:
    ledger.add(many(20), recorded_at=datetime(2026, 2, 1, tzinfo=UTC))
    before = runs(ledger)
    ledger.add(many(20).head(1), recorded_at=datetime(2026, 9, 1, tzinfo=UTC))
    assert runs(ledger).equals(before)
    assert before["run_at"].max() == START + timedelta(seconds=19)


def test_a_dry_run_tells_and_writes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    before = tree(tmp_path)
    told = ledger.add(many(5), dry_run=True)
    assert (told.counts, told.dry_run, tree(tmp_path)) == ({"inserted": 5, "refused": 0}, True, before)


def test_nothing_is_added_of_nothing(ledger: Ledger) -> None:
    assert ledger.add(many(0)).counts == {"refused": 0}
    assert (ledger.version, runs(ledger).height) == (0, 0)


def test_long_ids_that_differ_only_at_the_end_stay_two_cases(ledger: Ledger) -> None:
    long = "bench/" + "x" * 400
    ledger.add(pl.concat([one(task_id=long + "1"), one(task_id=long + "2")]))
    assert ledger.cases.collect().height == 2
    assert ledger.add(one(task_id=long + "1")).counts["identical"] == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.one_of(st.none(), st.text(max_size=4))] * 2), min_size=2, max_size=2, unique=True))
def test_no_two_lists_of_values_have_one_text(pair: list[tuple[str | None, ...]]) -> None:
    frame = pl.DataFrame(pair, schema={"a": pl.String, "b": pl.String}, orient="row")
    assert frame.select(plain_text(["a", "b"])).to_series().n_unique() == 2


# What is refused


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("cost_usd", math.nan, "finite"),
        ("score", math.inf, "finite"),
        ("duration_s", -1.0, "negative"),
        ("status", "running", "not ended"),
        ("task_id", None, "no task"),
        ("task_id", "", "empty"),
    ],
)
def test_a_bad_record_is_refused_by_field_and_the_rest_goes_in(
    ledger: Ledger, column: str, value: object, reason: str
) -> None:
    bad = one(**{column: value}).with_columns(attempt_id=pl.lit("bad"))
    told = ledger.add(pl.concat([many(20).tail(3), bad]))
    assert told.count("inserted") == 3
    assert told.refused.select("record", "field").row(0) == (3, column)
    assert reason in told.refused["reason"][0]
    assert ledger.history.collect()["refused"][0] == 1


@pytest.mark.parametrize("what", [pl.DataFrame({"a": [1]}), 7, None])
def test_what_is_no_input_is_refused(ledger: Ledger, what: object) -> None:
    with pytest.raises(UsageError, match="cannot be added"):
        ledger.add(what)


@pytest.mark.parametrize("when", ["yesterday", "2026-01-01T00:00:00", datetime(2026, 1, 1)])  # noqa: DTZ001
def test_a_time_without_a_zone_is_refused(ledger: Ledger, when: object) -> None:
    with pytest.raises(UsageError, match="recorded_at"):
        ledger.add(many(1), recorded_at=when)


def test_offsets_are_times_not_texts(ledger: Ledger) -> None:
    ledger.add(many(1), recorded_at="2026-01-01T23:00:00+14:00")
    assert runs(ledger)["ingested_at"][0] == datetime(2026, 1, 1, 9, tzinfo=UTC)


# Two records of one attempt


def rivals() -> tuple[pl.DataFrame, pl.DataFrame]:
    return one(score=0.2), one(score=0.7, started_at=START + timedelta(hours=1))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("together", [True, False])
def test_the_newest_record_of_an_attempt_wins_whatever_comes_first(
    ledger: Ledger, order: tuple[int, int], together: bool
) -> None:
    both = [rivals()[i] for i in order]
    reports = [ledger.add(pl.concat(both))] if together else [ledger.add(r) for r in both]
    assert runs(ledger)["score"].to_list() == [0.7]
    late = "conflicting" if together or order == (1, 0) else "updated"
    assert reports[-1].count(late) == 1


def test_a_conflict_can_be_an_error_that_changes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    old, new = rivals()
    ledger.add(old)
    before = tree(tmp_path)
    for batch in (new, pl.concat([new, new.with_columns(score=pl.lit(0.9))])):
        with pytest.raises(ConflictError, match="bench/case-0, attempt 0"):
            ledger.add(batch, conflict="error")
    assert tree(tmp_path) == before


def test_a_conflict_can_be_kept(ledger: Ledger) -> None:
    for record in rivals():
        ledger.add(record, conflict="keep_both")
    assert sorted(runs(ledger)["score"]) == [0.2, 0.7]


def test_an_unknown_policy_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="newest, error, keep_both"):
        ledger.add(many(1), conflict="oldest")


# Versions, merge, compaction


def test_each_version_can_be_read_and_none_but_the_last_written(ledger: Ledger) -> None:
    for n in (3, 5, 9):
        ledger.add(many(n))
    assert [ledger.at(v).runs.collect().height for v in range(4)] == [0, 3, 5, 9]
    assert ledger.history.collect().select("version", "action", "inserted").rows() == [
        (3, "add", 4),
        (2, "add", 2),
        (1, "add", 3),
        (0, "create", None),
    ]
    with pytest.raises(UsageError, match="to read"):
        ledger.at(1).add(many(1))
    with pytest.raises(SourceError, match="no version 99"):
        ledger.at(99)


def test_a_frame_handed_out_does_not_change_with_the_ledger(ledger: Ledger) -> None:
    ledger.add(many(5))
    lazy = ledger.runs
    ledger.add(many(9))
    ledger.compact()
    assert (lazy.collect().height, runs(ledger).height) == (5, 9)


def test_merging_is_adding_each_run_once(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add(many(30))
    other = Ledger(tmp_path / "other", create=True)
    other.add(many(12))
    assert other.merge(ledger).counts == {"identical": 12, "inserted": 18, "refused": 0}
    assert (
        runs(other)
        .sort("run_key")
        .equals(runs(ledger).sort("run_key").with_columns(ingested_at=runs(other).sort("run_key")["ingested_at"]))
    )


def test_compaction_keeps_every_run_and_later_writers_go_on(ledger: Ledger) -> None:
    for i in range(12):
        ledger.add(many(i + 1))
    before = runs(ledger).sort("run_key")
    assert ledger.compact() == (12, 1)
    assert runs(ledger).sort("run_key").equals(before)
    assert ledger.compact() == (1, 1)
    assert ledger.add(many(14)).counts == {"identical": 12, "inserted": 2, "refused": 0}
    assert ledger.compact(keep_hours=0) == (2, 1)
    assert runs(ledger).height == 14
    with pytest.raises(SourceError, match="is gone"):
        ledger.at(3).runs.collect()


def test_other_engines_read_the_same(ledger: Ledger) -> None:
    ledger.add(many(7))
    ledger.add(many(9))
    table = DeltaTable(str(ledger.path))
    counted = (
        QueryBuilder().register("runs", table).execute("select count(*), sum(score), count(failure_class) from runs")
    )
    frame = runs(ledger)
    assert pl.DataFrame(counted.read_all()).row(0) == (9, pytest.approx(frame["score"].sum()), 9)
    assert pl.read_delta(str(ledger.path)).sort("run_key").equals(frame.sort("run_key"))


def test_another_engine_may_compact(ledger: Ledger) -> None:
    for n in (3, 6):
        ledger.add(many(n))
    DeltaTable(str(ledger.path)).optimize.compact()
    assert ledger.add(many(8)).counts == {"identical": 6, "inserted": 2, "refused": 0}
    assert runs(ledger).height == 8


def test_a_ledger_of_an_older_schema_gets_the_new_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = {"seed", "harness", "issues"}
    young = {n: t for n, t in RUNS.schema.items() if n not in new}
    from expcomp.io.delta import create_table

    meta = json.dumps({"profile": "default", "roles": {}})
    create_table(tmp_path / "old", pl.Schema(young), name="expcomp ledger", description=meta)
    ledger = Ledger(tmp_path / "old")
    assert runs(ledger).schema == RUNS.schema
    ledger.add(many(2))
    assert runs(ledger)["harness"].to_list() == ["harbor"] * 2


# Roles


def test_roles_are_declared_not_guessed(tmp_path: Path) -> None:
    roles = {"control": "baseline", "new": "treatment"}
    Ledger(tmp_path / "ledger", create=True, roles=roles).add(
        pl.concat([many(2, cases=1), one(arm="treatment-baseline-safe", native_attempt_id="x")])
    )
    found = (
        Ledger(tmp_path / "ledger")
        .runs.select("arm_id", "role", "is_baseline", "is_treatment")
        .sort("arm_id")
        .collect()
    )
    assert found.rows() == [
        ("control", "baseline", True, False),
        ("new", "treatment", False, True),
        ("treatment-baseline-safe", None, False, False),
    ]


# What is there, and what is not


def test_roles_of_who_made_the_ledger_second_are_refused_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Ledger(tmp_path / "ledger", create=True, roles={"control": "baseline"})
    many(2).write_parquet(tmp_path / "runs.parquet")
    # As if the other had made it after this one looked.
    monkeypatch.setattr(opening, "is_table", lambda *_: False)
    monkeypatch.setattr(opening, "take", lambda *_, **__: from_attempts(many(2)))
    with pytest.raises(UsageError, match="keeps the roles it was made with"):
        opening.add_to(tmp_path / "ledger", [tmp_path / "runs.parquet"], roles={"new": "baseline"})
    assert runs(made).height == 0
    opening.add_to(tmp_path / "ledger", [tmp_path / "runs.parquet"], roles={"control": "baseline"})
    assert runs(made).height == 2


def test_a_missing_ledger_is_an_error_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no table"):
        Ledger(tmp_path / "typo")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_keeps_its_profile(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="profile default, not loopx"):
        Ledger(ledger.path, "loopx")
    with pytest.raises((ConfigError, UsageError), match="unknown profile 'nobody'"):
        Ledger(tmp_path / "new", "nobody", create=True)
    assert not (tmp_path / "new").exists()


def test_other_tables_and_folders_are_left_alone(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "table"), pl.DataFrame({"a": [1]}))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = tree(tmp_path)
    for name, error in (("table", SourceError), ("notes", OutputError), ("file", OutputError)):
        with pytest.raises(error):
            Ledger(tmp_path / name, create=True)
    assert tree(tmp_path) == before


def test_links_are_not_followed(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add(many(3))
    (tmp_path / "link").symlink_to(ledger.path)
    with pytest.raises(UsageError, match="symbolic link"):
        Ledger(tmp_path / "link")
    part = next(Path(ledger.path).glob("*.parquet"))
    shutil.move(part, tmp_path / "elsewhere")
    part.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="no regular file"):
        ledger.runs.collect()


def damaged(ledger: Ledger, what: str) -> None:
    where = Path(ledger.path)
    part, log = next(where.glob("*.parquet")), where / "_delta_log" / f"{1:020}.json"
    if what == "part gone":
        part.unlink()
    elif what == "part cut":
        part.write_bytes(part.read_bytes()[:-100])
    elif what == "log cut":
        log.write_bytes(log.read_bytes()[:-40])
    elif what == "log no JSON":
        log.write_bytes(b"\x00\xff" * 20)
    else:
        (where / "_delta_log" / f"{0:020}.json").unlink()


@pytest.mark.parametrize("what", ["part gone", "part cut", "log cut", "log no JSON", "first log gone"])
def test_damage_is_named_and_nothing_is_written_over_it(ledger: Ledger, tmp_path: Path, what: str) -> None:
    ledger.add(many(3))
    damaged(ledger, what)
    before = tree(tmp_path)
    for act in (lambda one: one.runs.collect(), lambda one: one.add(many(5)), lambda one: one.compact()):
        with pytest.raises(ExpcompError) as caught:
            act(Ledger(ledger.path))
        assert str(ledger.path) in str(caught.value)
    assert tree(tmp_path) == before


def test_a_folder_that_cannot_be_written_says_so(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: pl.DataFrame, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(OutputError, match="No space left on device; nothing was changed"):
        ledger.add(many(3))
    monkeypatch.undo()
    assert (runs(ledger).height, ledger.version) == (0, 0)
    assert ledger.add(many(3)).count("inserted") == 3


@pytest.mark.parametrize("name", ["a b", "日本 ü", "50% off", "[a]*"])
def test_odd_names_of_folders(tmp_path: Path, name: str) -> None:
    ledger = Ledger(tmp_path / name, create=True)
    ledger.add(many(3))
    ledger.add(many(5))
    assert runs(ledger).height == 5
    assert ledger.history.collect().height == 3


@pytest.mark.parametrize("name", ["a%41", "a#b", "a?b", "a\\b"])
def test_a_name_delta_cannot_open_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="percent escape"):
        Ledger(tmp_path / name, create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_tilde_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="give it in full"):
        Ledger("~/ledger", create=True)
    assert list(tmp_path.iterdir()) == []


def test_an_estimate_names_itself_and_its_denominators(ledger: Ledger) -> None:
    ledger.add(many(40))
    told = ledger.estimate("best_of_n")
    assert told.select("arm_id", "estimator", "cases", "runs", "max_runs_per_case").rows() == [
        ("control", "best_of_n", 10, 20, 2),
        ("new", "best_of_n", 10, 20, 2),
    ]


# Archive and decisions


def test_archive_is_reasoned_reversible_and_sticky(ledger: Ledger) -> None:
    ledger.add(many(40))
    which = Filter("bench", arms=("new",))
    assert ledger.archive(which, reason="wrong prompt", dry_run=True)["newly_archived_run_count"] == 20
    assert ledger.version == 1
    assert ledger.archive(which, reason="wrong prompt")["newly_archived_run_count"] == 20
    assert ledger.archive(which, reason="again")["already_archived_run_count"] == 20
    ledger.add(many(40).with_columns(started_at=pl.col("started_at") + pl.duration(days=1)))
    found = ledger.runs.group_by("arm_id", "archive_reason", maintain_order=True).len().sort("arm_id").collect()
    assert found.rows() == [("control", None, 20), ("new", "wrong prompt", 20)]
    assert ledger.unarchive(which)["archive_reason"].to_list() == ["wrong prompt"] * 20
    assert ledger.runs.collect()["archive_state"].null_count() == 40
    assert ledger.history.collect()["action"].to_list() == ["unarchive", "add", "archive", "add", "create"]
    assert ledger.at(2).runs.collect()["archive_state"].null_count() == 20


def test_adding_an_old_run_again_does_not_flip_a_decision(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", create=True, roles={"control": "baseline", "new": "treatment"})
    at = [START + timedelta(hours=h) for h in range(3)]
    old = one(arm="new", score=0.0, passed=False, native_attempt_id="old", started_at=at[0], trial=0)
    base = one(arm="control", score=0.0, passed=False, native_attempt_id="base", started_at=at[1])
    new = one(arm="new", score=1.0, passed=True, native_attempt_id="new", started_at=at[2], trial=1)
    for i, record in enumerate((old, base, new)):
        ledger.add(record, recorded_at=datetime(2026, 2, 1 + i, tzinfo=UTC))
    before = ledger.decisions.collect()
    assert before["decision"].to_list() == ["paired_treatment_improved"]
    ledger.add(old, recorded_at=datetime(2026, 3, 1, tzinfo=UTC))
    other = Ledger(tmp_path / "other", create=True, roles=ledger.roles)
    for record in (new, base, old):  # the order in which a ledger learns of them does not count
        other.add(record)
    assert ledger.decisions.collect().equals(before)
    assert other.decisions.collect().equals(before)


def test_an_arm_with_two_roles_in_its_name_is_not_paired_with_itself(ledger: Ledger) -> None:
    ledger.add(one(arm="treatment-baseline-safe"))
    assert ledger.decisions.collect()["decision"].to_list() == ["single_arm_recorded"]


def test_a_part_damaged_inside_is_named_by_whatever_reads_it(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add(many(40))
    (part,) = (tmp_path / "ledger").glob("*.parquet")
    inside = bytearray(part.read_bytes())
    inside[4:-2000] = bytes(len(inside) - 2004)  # the ends and the size are as they were
    part.write_bytes(inside)
    for read in (
        lambda: ledger.collect(ledger.runs),
        lambda: ledger.decisions,
        lambda: ledger.estimate("latest"),
        lambda: report(ledger),
        lambda: trials_of(ledger),
    ):
        with pytest.raises(SourceError, match=part.name):
            read()
