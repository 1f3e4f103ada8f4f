from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from expcomp.datasets.arrow import arrow_schema, to_arrow
from expcomp.datasets.lines import json_lines
from expcomp.datasets.lower import lower
from expcomp.io import dataset_files
from expcomp.io.dataset_files import write_shard
from expcomp.tables.targets import TARGETS
from tests.datasets.logical import BARE, CHATS, conversations, rows_of

PARQUET = [t for t in TARGETS.values() if "parquet" in t.files]
SFT = TARGETS["trl-sft"]


def leaves(dtype: pa.DataType, name: str = "") -> list[tuple[str, pa.DataType]]:
    if pa.types.is_struct(dtype):
        return [leaf for f in dtype for leaf in leaves(f.type, f.name)]
    return leaves(dtype.value_type, name) if pa.types.is_list(dtype) else [(name, dtype)]


def table_of(rows: pl.DataFrame) -> pa.Table:
    return to_arrow(SFT, lower(SFT, rows).frame)


@pytest.mark.parametrize("target", PARQUET, ids=lambda t: t.name)
def test_only_types_that_every_loader_knows(target: Any) -> None:
    known = {pa.string(), pa.bool_(), pa.int64(), pa.float64()}
    found = [leaf for f in arrow_schema(target) for leaf in leaves(f.type, f.name)]
    assert {t for n, t in found if n != "arguments"} <= known
    marked = {t for n, t in found if n == "arguments"}
    assert marked <= ({pa.json_(pa.string())} if target.profile == "typed" else {pa.string()})


def test_typed_messages_are_as_the_trainers_read_them() -> None:
    function = pa.struct([("name", pa.string()), ("arguments", pa.json_(pa.string()))])
    call = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", function)])
    texts = [(n, pa.string()) for n in ("role", "content", "reasoning_content", "tool_call_id", "name")]
    message = pa.struct([*texts[:3], ("tool_calls", pa.list_(call)), *texts[3:]])
    assert arrow_schema(SFT).field("messages").type == pa.list_(message)


@pytest.mark.parametrize("target", PARQUET, ids=lambda t: t.name)
def test_a_table_has_the_schema_of_its_target_and_the_values_of_the_frame(target: Any) -> None:
    frame = lower(target, rows_of(target.kind)).frame
    for part in (frame, frame.head(0), frame.slice(1), frame.head(1)):
        table = to_arrow(target, part)
        table.validate(full=True)
        assert table.schema.equals(arrow_schema(target), check_metadata=True)
        assert table.to_pylist() == part.to_dicts()


def test_columns_without_a_value_keep_their_type() -> None:
    table = table_of(conversations({"bare": BARE}))
    assert table["tools"].null_count == 1
    assert table.schema.equals(table_of(conversations(CHATS)).schema)


def test_a_file_gives_the_rows_and_the_schema_back(tmp_path: Path) -> None:
    table, out = table_of(conversations(CHATS)), tmp_path / "a.parquet"
    written = write_shard([table.slice(0, 3), table.slice(3)], table.schema, out)
    back = pq.read_table(out)
    assert back.schema.equals(table.schema)
    assert back.to_pylist() == table.to_pylist()
    data = out.read_bytes()
    assert written == (table.num_rows, len(data), "sha256:" + hashlib.sha256(data).hexdigest())


def test_a_file_and_its_twin_hold_the_same_rows(tmp_path: Path) -> None:
    frame = lower(SFT, conversations(CHATS)).frame
    write_shard([to_arrow(SFT, frame)], arrow_schema(SFT), tmp_path / "a.parquet")
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    held = [[{k: v for k, v in m.items() if v is not None} for m in r["messages"]] for r in rows]
    for message in [m for h in held for m in h]:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    assert held == [json.loads(line)["messages"] for line in json_lines(SFT, frame)]


def test_a_file_is_made_as_the_hub_likes_it(tmp_path: Path) -> None:
    out = tmp_path / "a.parquet"
    write_shard([table_of(conversations(CHATS))], arrow_schema(SFT), out)
    meta = pq.ParquetFile(out).metadata
    columns = [meta.row_group(0).column(i) for i in range(meta.num_columns)]
    assert {c.compression for c in columns} == {"ZSTD"}
    assert all(c.has_column_index and c.has_offset_index for c in columns)
    assert list(meta.metadata) == [b"ARROW:schema"]


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    table = table_of(conversations(CHATS))
    first, second = (write_shard([table], table.schema, tmp_path / n) for n in ("a", "b"))
    assert first == second
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_shard_without_rows_has_its_schema(tmp_path: Path) -> None:
    assert write_shard([], arrow_schema(SFT), tmp_path / "a").rows == 0
    assert pq.read_table(tmp_path / "a").schema.equals(arrow_schema(SFT))


def test_row_groups_end_by_bytes_and_hold_a_row_at_least(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(conversations({f"{name}-{n}": chat for n in range(8) for name, chat in CHATS.items()}))
    limit = table.nbytes // 5
    monkeypatch.setattr(dataset_files, "GROUP_BYTES", limit)
    write_shard([table], table.schema, tmp_path / "a")
    meta = pq.ParquetFile(tmp_path / "a").metadata
    sizes = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    assert all(table.slice(at, n).nbytes <= limit for at, n in zip(starts, sizes, strict=True))
    assert 5 <= len(sizes) <= 7
    monkeypatch.setattr(dataset_files, "GROUP_BYTES", 1)
    write_shard([table], table.schema, tmp_path / "b")
    assert pq.ParquetFile(tmp_path / "b").metadata.num_row_groups == table.num_rows
