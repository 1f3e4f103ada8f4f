"""What an environment compiler has to show on the reference data, beside the floors (`test_environment_reconstruction`).

A held-out task is walked to its end by hand and by Gymnasium; a package that was touched is refused; a split that leaks says so.
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from expcomp.cli.env_play import loop
from expcomp.environments.build import build_environment
from expcomp.environments.core import Environment, case_state
from expcomp.environments.folder import open_package, read_replay
from expcomp.environments.induction.evaluate import cross_validate
from expcomp.environments.session import open_session
from expcomp.errors import PackageIntegrityError
from tests.environments.induction.recorded import recorded
from tests.reference.environments import ROOT

if TYPE_CHECKING:
    from tests.reference.conftest import Built

pytestmark = pytest.mark.reference
RAW = sorted((ROOT / "raw").glob("*.txt"))


def longest(built: Built) -> tuple[str, pl.DataFrame]:
    """The longest held-out case whose answers are known, and its steps."""
    passed = built.build.assessment.replay.cases.filter("passed").sort("expected_steps", "case_id")
    steps = built.build.assessment.steps.filter(pl.col("case_id") == passed["case_id"][-1]).sort("ordinal")
    assert steps.height > 1
    return passed["case_id"][-1], steps


def test_there_are_samples() -> None:
    assert RAW


@pytest.mark.parametrize("path", RAW, ids=lambda p: p.name)
def test_a_transcript_declares_its_actions(path: Path) -> None:
    package = build_environment(path, environment_id="ledger", holdout=0.0).package
    args = package["action_args"].select("action", "arg", pl.col("type").cast(pl.String), "required").sort("action")
    assert args.rows() == [("deposit", "amount", "integer", True), ("withdraw", "amount", "integer", True)]
    assert (package["episodes"].height, package["events"].height) == (1, 6)
    assert package["transitions"]["usable"].to_list() == [True, True]


def test_a_held_out_task_is_played_to_its_end(chats: Built, capsys: pytest.CaptureFixture[str]) -> None:
    case, steps = longest(chats)
    package = open_package(chats.folder)
    start = case_state(read_replay(package)[0], case)
    session = open_session(
        package, None, start=start, responder=chats.build.responder(), allow_unvalidated=not chats.build.validated
    )
    calls = steps.select("action_type", "arguments_json").rows()
    loop(session, io.StringIO("".join(f"{a} {g}\n" for a, g in calls) + ":quit\n"), as_json=True)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert same([t["observation"] for t in told], steps)
    assert len(session.turns) == steps.height


def test_gymnasium_walks_a_held_out_task_to_its_end(chats: Built) -> None:
    pytest.importorskip("gymnasium")
    from expcomp.environments.gym import ReplayEnv

    case, steps = longest(chats)
    allowed = not chats.build.validated
    world = Environment(open_package(chats.folder), responder=chats.build.responder(), allow_unvalidated=allowed)
    env = ReplayEnv(world)
    _, info = env.reset(options={"case_id": case})
    assert info["case_id"] == case
    calls = steps.select("action_type", "arguments_json").rows()
    done = [env.step({"tool": a, "arguments": g}) for a, g in calls]
    assert same([d[0] for d in done], steps)
    reward, terminated, truncated = done[-1][1:4]
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert not any(d[4]["abstained"] for d in done)


def same(told: list[str], steps: pl.DataFrame) -> bool:
    """Whether answers are the recorded ones: JSON as values, the rest as texts."""
    wanted = steps.select("expected_observation", "match").rows()
    return [json.loads(t) if m == "json" else t for t, (_, m) in zip(told, wanted, strict=True)] == [
        json.loads(w) if m == "json" else w for w, m in wanted
    ]


def test_a_package_that_was_touched_is_refused(chats: Built, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(chats.folder, folder)
    for table in sorted((folder / "tables").iterdir()):
        data = table.read_bytes()
        place = len(data) // 2
        table.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(PackageIntegrityError, match=table.name):
            open_package(folder)
        table.write_bytes(data)
    (folder / "tables" / "more.parquet").write_bytes(b"")
    with pytest.raises(PackageIntegrityError, match=r"more\.parquet"):
        open_package(folder)


def test_a_split_inside_of_tasks_is_labelled_leaky() -> None:
    for name, rows in recorded(ROOT, "chats").items():
        found = cross_validate(rows, unit="episode_id", only=[0]).summary().row(0, named=True)
        assert found["leaky"] is True, name
