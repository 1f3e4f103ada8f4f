"""Calls of trainer and serving port: foreign code, so that anything but an explicit success is a failure of the stage."""

from __future__ import annotations

import time
from typing import Any

from expcomp.errors import ExpcompError
from expcomp.training.receipts import TrainingRequest
from expcomp.training.run.context import Context, StageError
from expcomp.training.run.racing import GivenUpError, raced
from expcomp.training.run.serving import Served, ServingError, ServingOrder, ServingPort, served_as_ordered
from expcomp.training.run.trainer import Trainer, TrainerError


def prepare_trainer(ctx: Context, trainer: Trainer) -> None:
    """Have a trainer put what it needs into the job folder.

    Raises:
        ExpcompError: It cannot, or raised anything.
    """
    try:
        trainer.prepare(ctx.place, ctx.stopped)
    except ExpcompError:
        raise
    except Exception as error:
        raise StageError(f"trainer {trainer.id}: {type(error).__name__}: {error}") from error


def call_trainer(ctx: Context, trainer: Trainer, request: TrainingRequest) -> tuple[dict[str, Any], float]:
    """Have a trainer train; what it measured, and the seconds it took.

    Raises:
        ExpcompError: It failed, raised anything, or gave something else; or it was told to stop.
    """
    who = f"trainer {trainer.id}"
    begun = time.monotonic()
    ctx.trace.training_may_exist = True
    try:
        facts: Any = _execute(ctx, trainer, request)
    except TrainerError as error:
        ctx.trace.training_may_exist = error.may_exist
        raise
    except GivenUpError as error:
        raise StageError(f"{who}: {error}") from error
    except Exception as error:
        raise StageError(f"{who}: {type(error).__name__}: {error}") from error
    if not isinstance(facts, dict):
        raise StageError(f"{who}: gave {type(facts).__name__}, expected a dict of what was measured")
    ctx.trace.training_may_exist = False
    return facts, round(time.monotonic() - begun, 3)


def call_serving(ctx: Context, port: ServingPort, order: ServingOrder) -> Served:
    """Have a checkpoint served, as ordered.

    Raises:
        ExpcompError: It is not served, or not as ordered; the port raised anything; or it was told to stop.
    """
    ctx.trace.serving_may_exist = True
    try:
        served = raced(lambda stopped: port.publish(ctx.checkpoint, order, stopped), ctx.stopped)
    except ServingError as error:
        ctx.trace.serving_may_exist = not error.undone
        raise
    except GivenUpError as error:
        raise StageError(f"serving: {error}") from error
    except Exception as error:
        raise StageError(f"serving: {type(error).__name__}: {error}") from error
    return served_as_ordered(order, served)


def _execute(ctx: Context, trainer: Trainer, request: TrainingRequest) -> dict[str, Any]:
    if trainer.mode == "command":  # it bounds itself
        return trainer.execute(request, ctx.place, ctx.left, ctx.ports.cancelled)
    return raced(lambda stopped: trainer.execute(request, ctx.place, ctx.left, stopped), ctx.stopped)
