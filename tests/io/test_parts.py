"""Parts of a build: what is written in batches is read back, any of them, in any order."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from expcomp.io.parts import read_batches, write_batches
from expcomp.tables.family import CHAT


def _frame(start: int, rows: int) -> pl.DataFrame:
    chats = [
        None
        if n % 5 == 4
        else [
            {"role": "user", "content": f"{n}~{m}" * m, "tool_calls": [{"id": f"c{n}", "name": "f"}] * m}
            for m in range(n % 3)
        ]
        for n in range(start, start + rows)
    ]
    return pl.DataFrame(
        {
            "n": range(start, start + rows),
            "text": [None if n % 7 == 3 else f"text {n}" for n in range(start, start + rows)],
        },
        schema={"n": pl.Int64, "text": pl.String},  # also where every text is null
    ).with_columns(pl.Series("chat", chats, dtype=CHAT))


@given(
    files=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=3),
    data=st.data(),
)
def test_batches_come_back_as_they_were_written(
    tmp_path_factory: object, files: list[list[int]], data: st.DataObject
) -> None:
    folder: Path = tmp_path_factory.mktemp("parts")  # type: ignore[attr-defined]
    start, batches = 0, []
    for number, lengths in enumerate(files):
        frame = _frame(start, sum(lengths))
        write_batches(frame, lengths, folder / f"{number}")
        ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
        batches.append([frame.slice(e - n, n) for e, n in zip(ends, lengths, strict=True)])
        start += frame.height
    wanted = [
        (number, data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=3)))
        for number, lengths in enumerate(files)
    ]
    chosen = [batches[number][i] for number, some in wanted for i in some]
    if not chosen:
        return
    frame, heights = read_batches((folder / f"{number}", some) for number, some in wanted)
    assert heights == [c.height for c in chosen]
    assert_frame_equal(frame, pl.concat(chosen))
