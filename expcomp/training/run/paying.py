"""A training run as a paid call: let through before the trainer is called, settled however it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from expcomp.training.costs import CostLedger
from expcomp.training.run.context import RunCosts
from expcomp.training.run.plan import RunPlan


@contextmanager
def paid(costs: RunCosts | None, plan: RunPlan) -> Iterator[None]:
    """Enter what is done inside as one call of the preparation.

    Raises:
        CostRefusedError: It may not run: the trainer was not called.
    """
    if costs is None:
        yield
        return
    call = f"training-{plan.invocation_id}"
    with CostLedger(costs.ledger) as ledger:
        ledger.admit(
            call, channel="other", model=plan.trainer.id, phase="preparation", maximum_nanos=costs.maximum_nanos
        )
        begun, failure = time.monotonic(), "stopped"
        try:
            yield
            failure = ""
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            price = costs.nanos_per_second
            spent = None if price is None else math.ceil((time.monotonic() - begun) * price)
            ledger.settle(call, cost_nanos=spent, estimated=spent is not None, failure=failure or None)
