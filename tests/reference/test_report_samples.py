"""Reports on the reference samples against the files read with json and csv, and statistics of scipy alone."""

from __future__ import annotations

import csv
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from scipy import stats
from test_comparison_samples import LEDGERS, PAIRS, TABLES, bca, expected, ledger_runs, of_files, paired, read_as

import expcomp as xc

pytestmark = pytest.mark.reference
AT = "2026-01-01T00:00:00+00:00"


def table(report, name):
    return next(t["rows"] for s in report.to_dict()["sections"] for t in s["tables"] if t["id"] == name)


def agrees(row, cells):
    """A row of outcomes with the trials of its tasks; a lost trial is None."""
    known = [[v for v in values if v is not None] for values in cells.values()]
    known = [values for values in known if values]
    assert (row["tasks"], row["attempted"]) == (len(cells), sum(map(len, cells.values())))
    assert (row["scored"], row["infra"] + row["missing"]) == (
        sum(map(len, known)),
        row["attempted"] - sum(map(len, known)),
    )
    if not known:
        assert row["score_estimate"] is None
        return
    means = np.array([np.mean(values) for values in known])
    assert row["score_estimate"] == pytest.approx(means.mean())
    assert (row["score_tasks"], row["score_n"]) == (len(known), row["scored"])
    if row["pass_estimate"] is None:
        return
    verdicts = all(v in (0.0, 1.0) for values in known for v in values)
    assert not verdicts or row["pass_estimate"] == pytest.approx(means.mean())
    if verdicts and all(len(values) == 1 for values in known):
        low, high = stats.binomtest(int(means.sum()), means.size).proportion_ci(method="wilson")
        assert (row["pass_low"], row["pass_high"]) == pytest.approx((low, high), abs=1e-9)
    elif verdicts and means.size > 1 and np.ptp(means) > 1e-12:
        t = stats.ttest_1samp(means, 0).confidence_interval(0.95)
        wanted = [np.clip(f(a, b), 0, 1) for f, a, b in zip((np.fmin, np.fmax), t, bca(means, 0.95), strict=True)]
        # Resampled means come in steps, as wide as one task is worth, and a quantile may fall on either side of one.
        assert [row["pass_low"], row["pass_high"]] == pytest.approx(wanted, abs=np.ptp(means) / means.size)
        assert row["pass_low"] <= max(t.low, 0) + 1e-12
        assert row["pass_high"] >= min(t.high, 1) - 1e-12


def compared(row, wanted):
    assert row["n_units"] == wanted["n"]
    if wanted["n"]:
        assert row["estimate"] == pytest.approx(wanted["estimate"], abs=1e-12)
        assert (row["baseline_trials"], row["treatment_trials"]) == wanted["trials"]
        assert (row["better"], row["worse"]) == (wanted["better"], wanted["worse"])
    if wanted.get("low") is not None:
        assert row["p_value"] == pytest.approx(wanted["p"])
        assert [row["low"], row["high"]] == pytest.approx([wanted["low"], wanted["high"]], abs=wanted["slack"])


@pytest.mark.parametrize(
    ("rows", "first", "second"),
    PAIRS,
    ids=[f"{a[0].parts[-2]}-{b[0].parts[-2]}-{i}" for i, (_, a, b) in enumerate(PAIRS)],
)
def test_arms_in_files_of_their_own(rows, first, second):
    cells = {"a": of_files(first, rows), "b": of_files(second, rows)}
    both = pl.concat([read_as(first, "a"), read_as(second, "b")]).collect()
    found = xc.report(both, baseline="a", treatment="b")
    told = table(found, "runs_outcomes")
    assert {r["arm"] for r in told} == {"a", "b"}
    for row in told:
        agrees(row, cells[row["arm"]])
    compared(table(found, "comparison_summary")[0], expected(paired(cells["a"], cells["b"])))


@pytest.mark.parametrize("path", TABLES, ids=[p.stem for p in TABLES])
def test_arms_in_one_table(path):
    cells = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        cells[row["model_name"].split("/")[-1]][row["task_name"]].append(float(row["reward"]))
    baseline, treatment = sorted(cells)[:2]
    found = xc.report(path, baseline=baseline, treatment=treatment)
    for row in table(found, "runs_outcomes"):
        agrees(row, cells[row["arm"]])
    compared(table(found, "comparison_summary")[0], expected(paired(cells[baseline], cells[treatment])))
    for point in table(found, "passk"):
        tasks = [(len(v), int(sum(v))) for v in cells[point["arm"]].values() if len(v) >= point["k"]]
        draws = [stats.hypergeom(n, c, point["k"]) for n, c in tasks]
        values = [1 - d.pmf(0) if point["measure"] == "pass@k" else d.pmf(point["k"]) for d in draws]
        assert (point["tasks"], point["estimate"]) == (len(tasks), pytest.approx(np.mean(values)))


@pytest.mark.parametrize("path", LEDGERS, ids=[p.stem for p in LEDGERS])
def test_the_ledger(path, tmp_path):
    ledger = xc.Ledger(tmp_path / "l", "loopx", create=True)
    ledger.add(path, recorded_at=AT)
    cells = defaultdict(lambda: defaultdict(list))
    for (benchmark, case), arm, value in ledger_runs(path):
        cells[benchmark, arm][case].append(value)
    told = table(xc.report(ledger), "runs_outcomes")
    named = {(b, a): tasks for (b, a), tasks in cells.items() if a != "unknown_arm"}
    assert {(r["benchmark"], r["arm"]) for r in told if r["arm"] is not None} == set(named)
    for row in told:
        if row["arm"] is not None:
            agrees(row, named[row["benchmark"], row["arm"]])
