"""Contracts: each table's pandera model, and the agreement of its verdict with the rule table of the bulk path."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.errors import TableError
from expcomp.tables import models
from expcomp.tables.core import CORE
from expcomp.tables.families import BY_NAME
from expcomp.tables.vocab import STATUS

NAMES = [*CORE, *BY_NAME]
HASH = "sha256:" + "0a" * 32
GOOD = {"content_hash": HASH, "accepted": True, "reject_reasons": [], "sha256": HASH, "evidence_ids": []}


def good_value(dtype: pl.DataType) -> Any:
    """A value that breaks no rule."""
    if isinstance(dtype, pl.Enum):
        return dtype.categories[0]
    if isinstance(dtype, pl.List):
        return [good_value(dtype.inner)]
    if isinstance(dtype, pl.Struct):
        return {f.name: good_value(f.dtype) for f in dtype.fields}
    if isinstance(dtype, pl.Boolean):
        return True
    if dtype.is_integer():
        return 1
    return 0.5 if dtype.is_float() else "x" if isinstance(dtype, pl.String) else None


def good_row(name: str, number: int = 0) -> dict[str, Any]:
    """One row that holds to the contract; rows of different numbers differ in their key."""
    columns = models.table(name).columns
    row = {n: good_value(c.dtype) for n, c in columns.items()} | {n: v for n, v in GOOD.items() if n in columns}
    for key in models.table(name).keys:
        row[key] = f"x{number}" if isinstance(row[key], str) else number
    return row | ({"row_type": name} if name in BY_NAME else {})


def any_value(dtype: pl.DataType) -> st.SearchStrategy[Any]:
    """Any value that the dtype can hold, the unwelcome ones included."""
    if isinstance(dtype, pl.Enum):
        return st.none() | st.sampled_from(dtype.categories.to_list())
    if isinstance(dtype, pl.List):
        return st.none() | st.lists(any_value(dtype.inner), max_size=2)
    if isinstance(dtype, pl.Struct):
        return st.none() | st.fixed_dictionaries({f.name: any_value(f.dtype) for f in dtype.fields})
    if isinstance(dtype, pl.Boolean):
        return st.none() | st.booleans()
    if dtype.is_integer():
        return st.sampled_from([None, -1, 0, 1, 2**31 - 1])
    if dtype.is_float():
        return st.sampled_from([None, float("nan"), float("inf"), -float("inf"), -0.5, 0.0, 0.5, 1.0, 1.5])
    if isinstance(dtype, pl.String):
        return st.sampled_from([None, "", "x", HASH, HASH.upper(), HASH + "0", "sha256:", *BY_NAME])
    return st.none()


def framed(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=models.table(name).schema)


def verdict(name: str, frame: pl.DataFrame) -> bool:
    """Whether pandera accepts the frame."""
    try:
        models.validate(name, frame)
    except TableError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_the_empty_frame_is_valid(name: str) -> None:
    models.validate(name, models.table(name).empty())


@pytest.mark.parametrize("name", NAMES)
def test_a_good_row_is_valid_on_both_paths(name: str) -> None:
    frame = framed(name, [good_row(name)])
    assert models.failures(name, frame) == {}
    models.validate(name, frame)


@pytest.mark.parametrize("name", NAMES)
def test_required_columns_alone_are_enough(name: str) -> None:
    columns = models.table(name).columns
    frame = framed(name, [{n: v if not columns[n].nullable else None for n, v in good_row(name).items()}])
    assert models.failures(name, frame) == {}
    models.validate(name, frame)


@pytest.mark.parametrize("name", NAMES)
def test_an_unexpected_column_is_refused(name: str) -> None:
    frame = models.table(name).empty().with_columns(more=pl.lit(1))
    with pytest.raises(TableError, match="more"):
        models.validate(name, frame)
    with pytest.raises(TableError, match="'more' is not expected"):
        models.check_schema(name, frame)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_column_is_refused(name: str) -> None:
    table = models.table(name)
    last = list(table.columns)[-1]
    with pytest.raises(TableError, match=last):
        models.validate(name, table.empty().drop(last))
    with pytest.raises(TableError, match=f"'{last}' is missing"):
        models.check_schema(name, table.empty().drop(last))


@pytest.mark.parametrize("name", NAMES)
def test_another_order_is_refused(name: str) -> None:
    table = models.table(name)
    with pytest.raises(TableError):
        models.validate(name, table.empty().select(reversed(list(table.columns))))


def test_the_schema_check_refuses_another_order_too() -> None:
    name, table = "steps", models.table("steps")
    with pytest.raises(TableError):
        models.check_schema(name, table.empty().select(reversed(list(table.columns))))


@pytest.mark.parametrize("name", NAMES)
def test_another_dtype_is_refused_not_coerced(name: str) -> None:
    table = models.table(name)
    first = next(n for n, c in table.columns.items() if c.dtype == pl.String())
    frame = table.empty().with_columns(pl.col(first).cast(pl.Categorical))
    with pytest.raises(TableError, match=first):
        models.validate(name, frame)
    with pytest.raises(TableError, match=f"'{first}' is Categorical"):
        models.check_schema(name, frame)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_check_of_a_lazy_frame_passes_a_frame_of_the_schema(name: str) -> None:
    models.check_schema(name, models.table(name).empty().lazy())


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_described_in_the_model(name: str) -> None:
    table = models.table(name)
    columns = models.model(name).to_schema().columns
    assert list(columns) == list(table.columns)
    for column, spec in table.columns.items():
        assert columns[column].description == spec.description
        assert spec.description.strip() == spec.description != ""
        assert columns[column].nullable == spec.nullable
    assert len(table.description) > 10


@pytest.mark.parametrize(
    ("name", "column"),
    [(n, c) for n in (*CORE, "preference_pair") for c, s in models.table(n).columns.items() if not s.nullable],
)
def test_null_in_a_required_column_is_refused_on_both_paths(name: str, column: str) -> None:
    frame = framed(name, [good_row(name), good_row(name, 1) | {column: None}])
    assert models.failures(name, frame)[f"{column}|not_null"] == 1
    with pytest.raises(TableError, match=column):
        models.validate(name, frame)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
def test_rule_table_and_pandera_agree(name: str, data: st.DataObject) -> None:
    columns = models.table(name).columns
    rows = []
    for number in range(data.draw(st.integers(1, 3))):
        changed = data.draw(st.lists(st.sampled_from(list(columns)), max_size=2, unique=True))
        rows.append(good_row(name, number) | {c: data.draw(any_value(columns[c].dtype)) for c in changed})
    frame = framed(name, rows)
    assert verdict(name, frame) == (models.failures(name, frame) == {})


@pytest.mark.parametrize("name", [n for n in NAMES if models.table(n).keys])
def test_a_repeated_key_is_refused_on_both_paths(name: str) -> None:
    frame = framed(name, [good_row(name), good_row(name)])
    assert models.failures(name, frame) == {f"{'+'.join(models.table(name).keys)}|unique": 2}
    with pytest.raises(TableError, match="unique"):
        models.validate(name, frame)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
def test_rules_are_total(name: str, data: st.DataObject) -> None:
    table = models.table(name)
    row = {n: data.draw(any_value(c.dtype)) for n, c in table.columns.items()}
    verdicts = framed(name, [row]).select(e.alias(r) for r, e in table.all_rules().items())
    assert set(verdicts.dtypes) == {pl.Boolean()}
    assert sum(verdicts.null_count().row(0)) == 0


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("attempts", {"score": float("nan")}, "score|finite"),
    ("attempts", {"score_norm": 1.01}, "score_norm|unit"),
    ("attempts", {"score_norm": -0.01}, "score_norm|unit"),
    ("attempts", {"duration_s": -1.0}, "duration_s|not_negative"),
    ("attempts", {"passed": True, "score_valid": False}, "passed|valid"),
    ("attempts", {"cost_usd": float("inf")}, "cost_usd|finite"),
    ("attempts", {"output_tokens": -1}, "output_tokens|not_negative"),
    ("steps", {"local_reward": float("inf")}, "local_reward|finite"),
    ("grades", {"value": float("nan")}, "value|finite"),
    ("feedback", {"score": float("nan")}, "score|finite"),
    ("evidence", {"sha256": "sha256:0"}, "sha256|form"),
    ("preference_pair", {"content_hash": HASH.upper()}, "content_hash|form"),
    ("preference_pair", {"accepted": True, "reject_reasons": ["no_evidence"]}, "accepted|reasons"),
    ("preference_pair", {"accepted": False, "reject_reasons": []}, "accepted|reasons"),
    ("preference_pair", {"row_type": "reward_model_row"}, "row_type|family"),
]


@pytest.mark.parametrize(("name", "change", "rule"), BROKEN)
def test_a_broken_rule_is_named_on_both_paths(name: str, change: dict[str, Any], rule: str) -> None:
    frame = framed(name, [good_row(name), good_row(name, 1) | change])
    assert models.failures(name, frame) == {rule: 1}
    with pytest.raises(TableError, match=f"table {name} ") as caught:
        models.validate(name, frame)
    assert rule in str(caught.value)


def test_every_rule_of_the_core_tables_has_a_broken_case() -> None:
    declared = {r for n in CORE for r in models.table(n).rules}
    tried = {rule for n, _, rule in BROKEN if n in CORE}
    # The usage counts share one rule, of which one is tried.
    assert {r for r in declared - tried if not r.endswith("|not_negative")} == set()


def test_an_enum_word_outside_the_vocabulary_cannot_be_made() -> None:
    with pytest.raises(pl.exceptions.InvalidOperationError):
        pl.Series(["finished"], dtype=STATUS, strict=True)


def test_an_unknown_table_is_named_with_those_that_are_known() -> None:
    with pytest.raises(TableError, match=r"no table 'pairs'.*attempts.*preference_pair"):
        models.table("pairs")


def test_the_failure_list_is_limited() -> None:
    frame = framed("grades", [good_row("grades") | {"value": float("nan")}] * 500)
    with pytest.raises(TableError) as caught:
        models.validate("grades", frame)
    assert len(str(caught.value)) < 2000


def test_a_model_is_made_once() -> None:
    assert models.model("steps") is models.model("steps")
