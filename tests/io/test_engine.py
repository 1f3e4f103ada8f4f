"""Engines by name, and files that appear whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import orjson
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from expcomp.errors import ConfigError, InternalError, SourceError, UsageError
from expcomp.io import row_files
from expcomp.io.engine import LOCAL, Engine, engine_of
from expcomp.io.pool import HERE, workers
from expcomp.io.row_files import Cut, cuts, read_cut
from expcomp.io.whole import sweep, whole
from tests.helpers import compile_cli, environment


def test_an_engine_goes_by_its_name() -> None:
    assert engine_of(None) == engine_of("local") == LOCAL
    assert engine_of("ray", 3) == Engine("ray", workers=3)
    assert engine_of(Engine("ray", "auto"), 2) == Engine("ray", "auto", 2)
    assert engine_of(Engine("ray", workers=4)) == Engine("ray", workers=4)
    assert Engine("ray").remote
    assert not LOCAL.remote


@pytest.mark.parametrize(("name", "address", "said"), [("spark", None, "local, ray"), ("local", "auto", "engine ray")])
def test_an_engine_that_there_is_not_is_refused(name: str, address: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Engine(name, address)


def test_ray_without_its_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"pip install 'expcomp\[ray\]'"), workers(2, engine=Engine("ray")):
        pass


def test_a_ray_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(*args: object, **more: object) -> None:
        msg = "The current node timed out during startup."
        raise Exception(msg)

    ray = ModuleType("ray")
    vars(ray).update(init=init, shutdown=lambda: None, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", ModuleType("ray.data"))
    with (
        pytest.raises(InternalError, match=r"Ray did not start: .* timed out during startup; .*less busy"),
        workers(2, engine=Engine("ray")),
    ):
        pass


def test_what_a_worker_of_ray_imports_first_leaves_polars_for_later() -> None:
    """It sets the number of its threads in between."""
    code = "import sys, expcomp.io.engine_ray; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), check=False).returncode == 0


def test_the_command_line_refuses_an_unknown_engine(tmp_path: Path) -> None:
    done = compile_cli("read", tmp_path, "--engine", "spark")
    assert done.returncode == 2
    assert "there is no engine 'spark'; known are local, ray" in done.stderr


def test_a_pool_says_how_many_jobs_run_at_once() -> None:
    assert HERE.size == 1
    with workers(1) as pool:
        assert pool.size == 1


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), whole(path) as beside:
        beside.write_text("half") and (tmp_path / "not there").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"
    with whole(path) as beside:
        beside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_sweep_removes_what_killed_writers_left(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    kept = tmp_path / "below" / "mine.unfinished"
    kept.write_text("a name of the user's")
    gone = whole(tmp_path / "below" / "file").__enter__()
    gone.write_text("half")
    sweep(tmp_path)
    assert kept.exists()
    assert not gone.exists()


@given(
    rows=st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=12), size=st.integers(1, 40), last=st.booleans()
)
def test_pieces_of_a_file_hold_each_line_once(
    rows: list[str | None], size: int, last: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However it is cut; None stands for a blank line."""
    path = tmp_path_factory.getbasetemp() / "pieces.jsonl"
    path.write_bytes(
        b"\n".join(b"" if r is None else orjson.dumps({"text": r, "row_id": r}) for r in rows) + b"\n" * last
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_files, "PORTION", size)
        pieces = cuts(path)
        found = [read_cut(piece) for piece in pieces]
    whole_file = read_cut(Cut(path, 0, path.stat().st_size))
    names = [pl.Series("row_id", [], pl.String), *(p.ids["row_id"] for p in found)]
    assert pl.concat(names).to_list() == whole_file.ids["row_id"].to_list() == [r for r in rows if r is not None]
    starts = pl.Series([0, *(p.ids.height for p in found)]).cum_sum().to_list()
    moved = [p.texts.with_columns((pl.col("row") + s).cast(pl.UInt32)) for p, s in zip(found, starts, strict=False)]
    assert_frame_equal(pl.concat([whole_file.texts.clear(), *moved]), whole_file.texts)


def test_a_bad_line_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\nno json\n', encoding="utf-8")
    with pytest.raises(SourceError, match=r"rows\.jsonl, line 4: no JSON"):
        read_cut(Cut(path, 12, 100))
