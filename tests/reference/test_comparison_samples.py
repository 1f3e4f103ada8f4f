"""Comparisons of the reference samples against the files read with json and csv, and statistics of scipy alone."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import optimize, stats

import expcomp as xc

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference samples", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE)
RESAMPLES = 4_000
LOST = ("verifier_or_infra", "runner_or_setup", "startup_surface", "score_missing")


# -- statistics, written out ---------------------------------------------------------------------------------------------------
def tango(b, c, n, z):
    """Roots of Tango's score; the nuisance rate is the larger root of a quadratic."""

    def score(d):
        half = (b + c - (2 * n - b + c) * d) / (4 * n)
        q = half + math.sqrt(max(0.0, half**2 + c * d * (1 - d) / (2 * n)))
        return (b - c - n * d) / math.sqrt(max(1e-300, n * (2 * max(q, 0.0, -d) + d * (1 - d))))

    point, edge = (b - c) / n, 1 - 1e-9
    if b + c == 0:
        return -(z**2) / (n + z**2), z**2 / (n + z**2)
    low = (
        -1.0
        if score(-edge) < z
        else optimize.brentq(lambda d: score(d) - z, -edge, min(point + 1e-9, edge), xtol=1e-12)
    )
    high = (
        1.0 if score(edge) > -z else optimize.brentq(lambda d: score(d) + z, max(point - 1e-9, -edge), edge, xtol=1e-12)
    )
    return low, high


def mid_p(b, c):
    if b == c:
        return 1.0
    below = stats.binom.cdf(min(b, c) - 1, b + c, 0.5) if min(b, c) else 0.0
    return min(1.0, 2 * (below + stats.binom.pmf(min(b, c), b + c, 0.5) / 2))


def bca(d, confidence, resamples=40_000):
    """BCa of the mean on whole numbers, so that equal resamples are equal; half of them count as below."""
    scale = next((k for k in (1, 12, 60, 840, 27720) if np.allclose(d * k, np.rint(d * k), atol=1e-9)), None)
    x = np.rint(d * scale) if scale else d
    rng = np.random.default_rng(1)
    means = x[rng.integers(0, d.size, (resamples, d.size))].sum(axis=1)
    own = x.sum()
    z0 = stats.norm.ppf(((means < own).sum() + (means == own).sum() / 2) / resamples)
    u = (x - x.mean()) / (d.size - 1)
    a = (u**3).sum() / (6 * (u**2).sum() ** 1.5)
    limits = []
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = z0 + stats.norm.ppf(tail)
        limits.append(np.quantile(means, stats.norm.cdf(z0 + z / (1 - a * z))) / d.size / (scale or 1))
    return limits


def expected(cells, confidence=0.95):
    """Estimate of (baseline trials, treatment trials) by task; a lost trial is None."""
    pairs = [([v for v in a if v is not None], [v for v in b if v is not None]) for a, b in cells]
    pairs = [(a, b) for a, b in pairs if a and b]
    d = np.array([np.mean(b) - np.mean(a) for a, b in pairs])
    d[np.abs(d) < 1e-12] = 0
    n = d.size
    found = {"n": n, "trials": (sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs))}
    if not n:
        return found
    found |= {"estimate": d.mean(), "better": int((d > 0).sum()), "worse": int((d < 0).sum())}
    found |= {"baseline": np.mean([np.mean(a) for a, _ in pairs]), "treatment": np.mean([np.mean(b) for _, b in pairs])}
    values = {v for a, b in pairs for v in (*a, *b)}
    if values <= {0.0, 1.0} and all(len(a) == len(b) == 1 for a, b in pairs):
        low, high = tango(found["better"], found["worse"], n, stats.norm.ppf((1 + confidence) / 2))
        return found | {"low": low, "high": high, "p": mid_p(found["better"], found["worse"]), "slack": 1e-6}
    if n < 2 or np.ptp(d) < 1e-12:
        return found | {"low": None, "high": None, "p": None}
    test = stats.ttest_1samp(d, 0)
    interval = test.confidence_interval(confidence)
    low, high = bca(d, confidence)
    found |= {"low": np.fmin(interval.low, low), "high": np.fmax(interval.high, high), "p": test.pvalue}
    return found | {"slack": 0.25 * stats.sem(d), "t": (interval.low, interval.high)}


def agrees(found, wanted):
    assert (found.n_units, found.n_trials) == (wanted["n"], wanted["trials"])
    if not wanted["n"]:
        assert found.estimate is None
        return
    assert found.estimate == pytest.approx(wanted["estimate"], abs=1e-12)
    assert (found.better, found.worse) == (wanted["better"], wanted["worse"])
    assert (found.baseline_mean, found.treatment_mean) == pytest.approx((wanted["baseline"], wanted["treatment"]))
    if wanted["low"] is None:
        assert (found.low, found.high, found.p_value) == (None, None, None)
        return
    assert found.p_value == pytest.approx(wanted["p"])
    assert found.low == pytest.approx(wanted["low"], abs=wanted["slack"])
    assert found.high == pytest.approx(wanted["high"], abs=wanted["slack"])
    if "t" in wanted:
        assert found.low <= wanted["t"][0] + 1e-12
        assert found.high >= wanted["t"][1] - 1e-12


def paired(a, b):
    """Trials of both arms by task, of all tasks of either."""
    return [(a.get(task, []), b.get(task, [])) for task in sorted(a.keys() | b.keys())]


# -- the files, read plainly ---------------------------------------------------------------------------------------------------
def tau_v1(path):
    """A row with an error has no verdict of its own."""
    return [
        (row["task_id"], None if "error" in row["info"] else float(row["reward"]))
        for row in json.loads(path.read_bytes())
    ]


def tau2(path):
    return [(s["task_id"], s["reward_info"]["reward"]) for s in json.loads(path.read_bytes())["simulations"]]


def verifiers(path):
    """Prompt and answer say which task a row is; its id may be the number of the row."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [(json.dumps([row["prompt"], row["answer"]]), row["reward"]) for row in rows]


def of_files(paths, rows):
    found = defaultdict(list)
    for path in paths:
        for task, value in rows(path):
            found[task].append(value)
    return dict(found)


def groups():
    """Arms, as the files of each, by the set of tasks they share: an arm's trials may be in several files."""
    kinds = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "traces" / "tau").rglob("*.json")):
        kind = tau2 if isinstance(json.loads(path.read_bytes()), dict) else tau_v1
        arm = re.sub(r"_trial\d+$", "", path.stem)
        kinds[kind, path.parent.name][arm].append(path)
    for path in sorted((ROOT / "traces" / "verifiers").rglob("results.jsonl")):
        kinds[verifiers, path.parents[1].name.split("--")[0]][path.parents[1].name].append(path)
    return [(kind, a, b) for (kind, _), arms in kinds.items() for a, b in combinations(arms.values(), 2)]


PAIRS = groups()


def read_as(paths, arm):
    return xc.trials_of(xc.read_traces(*paths, arm=arm))


def test_there_are_arms_to_compare():
    assert len(PAIRS) >= 5
    assert {kind.__name__ for kind, _, _ in PAIRS} == {"tau_v1", "tau2", "verifiers"}


@pytest.mark.parametrize(
    ("rows", "first", "second"),
    PAIRS,
    ids=[f"{a[0].parts[-2]}-{b[0].parts[-2]}-{i}" for i, (_, a, b) in enumerate(PAIRS)],
)
def test_arms_in_files_of_their_own(rows, first, second):
    both = pl.concat([read_as(first, "a"), read_as(second, "b")])
    wanted = expected(paired(of_files(first, rows), of_files(second, rows)))
    agrees(xc.compare(both, "a", "b", resamples=RESAMPLES), wanted)


TABLES = sorted((ROOT / "traces" / "terminal_bench").rglob("*.csv"))


@pytest.mark.parametrize("path", TABLES, ids=[p.stem for p in TABLES])
def test_arms_in_one_table(path):
    cells = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        cells[row["model_name"].split("/")[-1]][row["task_name"]].append(float(row["reward"]))
    arms = sorted(cells)
    ts = xc.read_traces(path)
    assert set(ts.attempts["arm"]) == set(arms)
    for baseline in arms[:2]:
        others = [a for a in arms if a != baseline]
        found = xc.compare(ts, baseline, others, resamples=RESAMPLES)
        for other in others:
            agrees(found[other], expected(paired(cells[baseline], cells[other])))
        ranked = sorted(range(len(others)), key=lambda i: found[i].p_value)
        holm = np.maximum.accumulate([min(1.0, found[i].p_value * (len(others) - k)) for k, i in enumerate(ranked)])
        assert [found[i].p_adjusted for i in ranked] == pytest.approx(list(holm))


# -- the ledger ----------------------------------------------------------------------------------------------------------------
LEDGERS = sorted((ROOT / "ledger").glob("*ledger*.json"))


def ledger_runs(path):
    document = json.loads(path.read_bytes())
    for benchmark in document["benchmarks"].values():
        for case, about in benchmark["cases"].items():
            for run in about["runs"]:
                if run.get("archive_state") != "archived" and run.get("status") != "running":
                    lost = run["failure_scope"] in LOST or run.get("official_score") is None
                    yield (
                        (benchmark["benchmark_id"], case),
                        run["arm_id"],
                        None if lost else float(run["official_score"]),
                    )


@pytest.fixture(scope="module", params=LEDGERS, ids=[p.stem for p in LEDGERS])
def ledger(request, tmp_path_factory):
    found = xc.Ledger(tmp_path_factory.mktemp("ledger") / "l", "loopx", create=True)
    found.add(request.param, recorded_at="2026-01-01T00:00:00+00:00")
    cells = defaultdict(lambda: defaultdict(list))
    for case, arm, value in ledger_runs(request.param):
        cells[arm][case].append(value)
    return found, cells


def shared(cells):
    return [(a, b) for a, b in combinations(sorted(cells), 2) if len(cells[a].keys() & cells[b].keys()) > 1]


def test_arms_of_the_ledger(ledger):
    runs, cells = ledger
    pairs = shared(cells)
    assert pairs
    for baseline, treatment in pairs:
        found = xc.compare(runs, baseline, treatment, resamples=RESAMPLES)
        agrees(found, expected(paired(cells[baseline], cells[treatment])))


def test_lost_runs_of_the_ledger_under_every_policy(ledger):
    runs, cells = ledger
    for baseline, treatment in shared(cells):
        sides = paired(cells[baseline], cells[treatment])
        found = xc.compare(runs, baseline, treatment, resamples=200).sensitivity
        for name, fills in {"fail": (0.0, 0.0), "worst": (1.0, 0.0), "best": (0.0, 1.0)}.items():
            filled = [
                tuple(
                    [v if v is not None else fill for v in side] or [fill]
                    for side, fill in zip(pair, fills, strict=True)
                )
                for pair in sides
            ]
            row = found.filter((pl.col("missing") == name) & (pl.col("infra") == name)).row(0, named=True)
            assert row["n_units"] == len(filled)
            assert row["estimate"] == pytest.approx(np.mean([np.mean(b) - np.mean(a) for a, b in filled]), abs=1e-12)


def test_the_gap_of_the_ledger_is_the_difference_of_its_arms(ledger):
    runs, cells = ledger
    for weak, strong in shared(cells)[:3]:
        wanted = expected(paired(cells[weak], cells[strong]))
        found = xc.solver_gap(runs, weak, strong, resamples=200)
        assert found.n_units == wanted["n"]
        if wanted["n"]:
            assert found.estimate == pytest.approx(wanted["estimate"])
        passes = {task: [v for v in values if v is not None] for task, values in cells[weak].items()}
        told = found.frame.filter(pl.col("n_verdicts") > 0).select("benchmark", "task", "pass_rate").rows()
        assert {(b, t): rate for b, t, rate in told} == pytest.approx({k: np.mean(v) for k, v in passes.items() if v})
