"""Topic to public function: pass@k, power, multiple comparisons, sequential looks, cost, ship. Only names are changed here."""

from __future__ import annotations

from typing import Any

import numpy as np

from expcomp.stats.cost import cost_per_success
from expcomp.stats.multiple import METHODS, adjust
from expcomp.stats.passk import best_of_k, best_of_k_by_proxy, g_pass_at_k, pass_at_k, pass_hat_k
from expcomp.stats.power import detectable_lift, mcnemar_power, paired_t, tasks_needed, unpaired_proportions
from expcomp.stats.sequential import e_process
from expcomp.stats.ship import Evidence, Guard, ShipPolicy, ship_decision

TRIALS = {"K_baseline": "trials_baseline", "K_candidate": "trials_candidate"}


def _trials(inputs: dict[str, Any]):
    known = {TRIALS.get(k, k): v for k, v in inputs.items()}
    answer = tasks_needed(**known) if "delta" in known else detectable_lift(**known)
    return answer._asdict()


def _adjusted(*, p_values, alpha):
    return {m: adjust(p_values, method=m, alpha=alpha)._asdict() for m in METHODS}


def _cost(**inputs: Any):
    answer = cost_per_success(**inputs)
    bounded = answer.high_fieller is not None
    return answer._asdict() | {
        "ci_delta": [answer.low_delta, answer.high_delta],
        "ci_fieller": [answer.low_fieller, answer.high_fieller] if bounded else None,
    }


def _ship(*, minimum_lift, min_units, alpha, cost_ceiling_usd, guards, **evidence: Any):
    policy = ShipPolicy(minimum_lift=minimum_lift, min_units=min_units, alpha=alpha, cost_ceiling_usd=cost_ceiling_usd)
    return ship_decision(Evidence(**evidence, guards=[Guard(**g) for g in guards]), policy)._asdict()


TOPICS = {
    "pass_at_k": lambda i: pass_at_k(**i),
    "pass_hat_k": lambda i: np.mean(pass_hat_k(i["n"], i["successes"], i["k"])),
    "g_pass_at_k": lambda i: g_pass_at_k(**i),
    "best_of_k": lambda i: best_of_k(**i)._asdict(),
    "best_of_k_by_proxy": lambda i: best_of_k_by_proxy(**i),
    "power_paired_trials": _trials,
    "power_paired_t": lambda i: paired_t(**{"pairs" if k == "nobs" else k: v for k, v in i.items()}),
    "power_mcnemar": lambda i: mcnemar_power(**{"pairs" if k == "n_pairs" else k: v for k, v in i.items()})._asdict(),
    "power_unpaired_proportions": lambda i: unpaired_proportions(**i)._asdict(),
    "multiple_comparisons": lambda i: _adjusted(**i),
    "e_process": lambda i: e_process(**i)._asdict(),
    "cost_per_success": lambda i: _cost(**i),
    "ship_decision": lambda i: _ship(**i),
}
