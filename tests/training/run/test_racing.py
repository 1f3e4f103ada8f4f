"""Foreign code that does not come back: it is told to stop, and given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from expcomp.training.run import context, racing
from expcomp.training.run.context import Ports
from expcomp.training.run.machine import resume_training
from expcomp.training.run.racing import raced
from expcomp.training.run.results import TrainingSuccess
from expcomp.training.run.trainer import TrainerError
from tests.training.run.jobs import InProcess, failed, run


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What is set only when the test is over."""
    monkeypatch.setattr(racing, "GRACE", 0.05)
    event = threading.Event()
    yield event
    event.set()


def test_a_managed_trainer_that_ignores_being_cancelled(tmp_path: Path, never: threading.Event) -> None:
    begun = threading.Event()
    trainer = InProcess(lambda _: (begun.set(), never.wait(60)))
    result = failed(run(tmp_path, trainer=trainer, cancelled=begun.is_set))
    assert (result.stage, result.training_may_exist, result.resumable) == ("training", True, False)
    assert "still at work" in result.reason


def test_a_managed_trainer_whose_time_is_up(
    tmp_path: Path, never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[float] = []
    monkeypatch.setattr(context, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + sum(late)))
    trainer = InProcess(lambda _: (late.append(1_000), never.wait(60)))
    result = failed(run(tmp_path, trainer=trainer, timeout=900))
    assert (result.stage, result.training_may_exist) == ("training", True)


def test_a_managed_trainer_that_stops_its_remote_job(tmp_path: Path) -> None:
    class Heeding(InProcess):
        def execute(self, request: Any, job: Path, timeout: float | None, cancelled: Callable[[], bool]) -> Any:
            begun.set()
            while not cancelled():
                time.sleep(0.001)
            raise TrainerError("the remote job was cancelled", may_exist=False)

    begun = threading.Event()
    result = failed(run(tmp_path, trainer=Heeding(), cancelled=begun.is_set))
    assert (result.reason, result.training_may_exist) == ("the remote job was cancelled", False)


def test_a_serving_port_that_ignores_being_cancelled(tmp_path: Path, never: threading.Event) -> None:
    begun = threading.Event()
    port: Any = SimpleNamespace(publish=lambda *_: (begun.set(), never.wait(60)))
    result = failed(run(tmp_path, serving=port, cancelled=begun.is_set))
    assert (result.stage, result.serving_may_exist, result.resumable) == ("serving", True, True)
    assert "still at work" in result.reason
    assert isinstance(resume_training(Path(str(result.output_directory)), Ports()), TrainingSuccess)


def test_an_interrupt_of_the_run_reaches_the_call() -> None:
    told = threading.Event()

    def call(stopped: Callable[[], bool]) -> None:
        while not stopped():
            time.sleep(0.001)
        told.set()

    main = threading.current_thread()

    def stopped() -> bool:
        if threading.current_thread() is main:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        raced(call, stopped)
    assert told.is_set()


def test_what_a_call_gives_or_raises_is_given_or_raised() -> None:
    assert raced(lambda _: 7, lambda: False) == 7
    with pytest.raises(ZeroDivisionError):
        raced(lambda _: 1 // 0, lambda: False)
