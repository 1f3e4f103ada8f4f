"""Assessment: what a replay must show before a package counts as validated.

`graded` (default) asks of the independent validation cases: (a) there is one; (b) every supported rule reaches its bound on
held-out families, else it is made tentative and the replay is run again; (c) the answers that are given are exact often
enough; (d) no step got worse than the baseline beyond the confidence interval; (e) the report is of these tables, settings
and cases. `strict` asks that every case passes, every executable rule is used by a case that passes, all validation cases
are independent, and nothing that passed on the baseline fails. A case of the test split never promotes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.digests import cases_digest, ordered
from expcomp.environments.induction.status import wilson_low
from expcomp.environments.reader import eligible_rules
from expcomp.environments.recall import Recalled
from expcomp.environments.replay import Replay, replay
from expcomp.errors import StatsError
from expcomp.tables.environment import UNRESOLVED

if TYPE_CHECKING:
    from expcomp.environments.package import EnvironmentPackage
    from expcomp.environments.playing import Responder

SELECTIVE = 0.95
"""Exactness asked of the answers that are given."""

FEW = 10
"""Below this many held-out uses the bound is (hits + 1) / (n + 2), from it on Wilson's lower limit."""

ROUNDS = 8


@dataclass(frozen=True)
class Assessment:
    """A replay judged.

    Attributes:
        package: The package, rules that missed their bound made tentative.
        replay: Its replay.
        report: What was asked and found; a promotion is bound to it.
        cases: The cases.
        steps: Their steps.
    """

    package: EnvironmentPackage
    replay: Replay
    report: Mapping[str, Any]
    cases: pl.DataFrame
    steps: pl.DataFrame

    @property
    def eligible(self) -> bool:
        """Whether the package may be promoted."""
        return bool(self.report["eligible"])

    def promote(
        self, out: str | Path, *, force: bool = False, more: Mapping[str, pl.DataFrame] | None = None
    ) -> EnvironmentPackage:
        """Publish the package as validated, further frames beside the report.

        Raises:
            PromotionRefusedError: The report does not carry it.
            DestinationExistsError: `out` exists and `force` is not given.
        """
        from expcomp.environments.promotion import promote

        return promote(
            self.package, self.report, self.cases, self.steps, self.replay, Path(out), force=force, more=more
        )


def rule_bounds(package: EnvironmentPackage, played: Replay) -> pl.DataFrame:
    """Held-out uses and hits of every supported rule, of the build and of independent validation cases together, with their bound.

    Columns: rule_id, origin, n, hit, families, bound (null when n is 0).
    """
    held = played.cases.filter(pl.col("independent") & (pl.col("split") == "validation"))
    used = (
        played.steps.drop_nulls("rule_id")
        .join(held.select("case_id", "trajectory_group"), on="case_id", how="inner", maintain_order="left")
        .with_columns(
            _hit=pl.col("exact") & pl.col("outcome_ok").fill_null(value=True) & pl.col("state_ok").fill_null(value=True)
        )
        .group_by("rule_id", maintain_order=True)
        .agg(_n=pl.len(), _hit=pl.col("_hit").sum(), families=pl.col("trajectory_group").n_unique())
    )
    rules = (
        package["rules"].filter(pl.col("status") == "supported").select("rule_id", "origin", "heldout_n", "heldout_hit")
    )
    counted = rules.join(used, on="rule_id", how="left", maintain_order="left").select(
        "rule_id",
        pl.col("origin").cast(pl.String),
        n=(pl.col("heldout_n").fill_null(0) + pl.col("_n").fill_null(0)).cast(pl.Int64),
        hit=(pl.col("heldout_hit").fill_null(0) + pl.col("_hit").fill_null(0)).cast(pl.Int64),
        families=pl.col("families").fill_null(0).cast(pl.Int64),
    )
    return counted.with_columns(_bound(counted))


def _bound(counted: pl.DataFrame) -> pl.Series:
    pairs = zip(counted["hit"], counted["n"], strict=True)
    low = [wilson_low(hit, n) if n >= FEW else (hit + 1) / (n + 2) if n else None for hit, n in pairs]
    return pl.Series("bound", low, dtype=pl.Float64)


def assess(
    package: EnvironmentPackage,
    cases: pl.DataFrame,
    steps: pl.DataFrame,
    *,
    mode: str = "graded",
    threshold: float = SELECTIVE,
    baseline: Replay | None = None,
    responder: Responder | None = None,
) -> Assessment:
    """Replay a package and judge the result.

    Args:
        package: A candidate, or an authored package.
        cases: `REPLAY_CASES`.
        steps: `REPLAY_STEPS`.
        mode: `graded` or `strict`.
        threshold: Exactness asked of answered steps, graded mode.
        baseline: Replay of the same cases with the package before.
        responder: Who answers when no rule applies.
    """
    strict = mode == "strict"
    asked_once = None if responder is None else Recalled(responder)
    demoted: list[str] = []
    for _ in range(ROUNDS):
        played = replay(package, cases, steps, responder=asked_once, strict=strict)
        bounds = rule_bounds(package, played)
        short = [] if strict else _short(package, bounds)
        if not short:
            break
        demoted += short
        package = _demoted(package, short)
    asked = _strict(package, played, baseline) if strict else _graded(played, bounds, package, threshold, baseline)
    report = {
        "mode": mode,
        "environment_id": package.config.environment_id,
        "artifact_digest": package.artifact_digest,
        "config_digest": package.config.digest(),
        "cases_digest": cases_digest(cases, steps),
        "results_digest": played.results_digest(),
        "threshold": threshold,
        "metrics": played.metrics(),
        "validation": _validation(played),
        "demoted": sorted(demoted),
        "conditions": [{"name": n, "holds": h, "found": f} for n, h, f in asked],
        "eligible": all(h for _, h, _ in asked),
        "reasons": [f"{n}: {f}" for n, h, f in asked if not h],
    }
    return Assessment(package, played, report, cases, steps)


Asked = tuple[str, bool, str]


def _short(package: EnvironmentPackage, bounds: pl.DataFrame) -> list[str]:
    """Rules below their bound; of what people wrote only those that were tried and failed."""
    below = pl.col("bound") < package.config.min_rule_confidence
    untried = pl.col("bound").is_null() & (pl.col("origin") != "authored")
    return bounds.filter(below | untried)["rule_id"].to_list()


def _demoted(package: EnvironmentPackage, rules: list[str]) -> EnvironmentPackage:
    status = package["rules"].schema["status"]
    made = package["rules"].with_columns(
        status=pl.when(pl.col("rule_id").is_in(rules)).then(pl.lit("tentative", dtype=status)).otherwise("status")
    )
    told = pl.DataFrame({"owner_id": sorted(rules)}).select(
        ordinal=(pl.int_range(pl.len()) + package["unresolved"].height).cast(pl.Int32),
        stage=pl.lit("promotion"),
        owner_id="owner_id",
        message=pl.lit("missed its bound on held-out families; now tentative"),
    )
    frames = {
        **package.frames,
        "rules": made,
        "unresolved": ordered("unresolved", pl.concat([package["unresolved"], told.select(list(UNRESOLVED.columns))])),
    }
    return replace(package, frames=frames, validation=None)


def _validation(played: Replay) -> dict[str, Any]:
    """Metrics of the independent validation cases alone."""
    held = played.cases.filter(pl.col("independent") & (pl.col("split") == "validation"))
    steps = played.steps.join(held.select("case_id"), on="case_id", how="semi", maintain_order="left")
    return {"families": held["trajectory_group"].n_unique(), **Replay(held, steps).metrics()}


def _no_test(played: Replay) -> Asked:
    test = played.cases.filter(pl.col("split") == "test").height
    return "no test-split case", test == 0, f"{test} cases of the test split"


def _graded(
    played: Replay, bounds: pl.DataFrame, package: EnvironmentPackage, threshold: float, baseline: Replay | None
) -> list[Asked]:
    found = _validation(played)
    share = found["selective_exact"]
    short = _short(package, bounds)
    return [
        _no_test(played),
        ("independent validation family", found["families"] > 0, f"{found['families']} families"),
        ("rules reach their bound", not short, f"{len(short)} of {bounds.height} supported rules do not"),
        (
            "exactness of what is answered",
            share is not None and share >= threshold,
            "nothing was answered" if share is None else f"{share:.4f} of {found['answered']} steps, asked {threshold}",
        ),
        _no_regression(played, baseline),
    ]


def _no_regression(played: Replay, baseline: Replay | None) -> Asked:
    """Steps of both replays, paired; worse when the whole 95 % interval (CR1, families as clusters) is below 0."""
    name = "no regression"
    if baseline is None:
        return name, True, "no baseline was given"
    groups = played.cases.select("case_id", "trajectory_group")
    pairs = (
        played.steps.select("case_id", "ordinal", "exact")
        .join(baseline.steps.select("case_id", "ordinal", _was="exact"), on=["case_id", "ordinal"], how="inner", maintain_order="left")
        .join(groups, on="case_id", how="left", maintain_order="left")
        .with_columns(_d=pl.col("exact").cast(pl.Float64) - pl.col("_was").cast(pl.Float64))
    )  # fmt: skip
    if pairs.height < played.steps.height or pairs.height < baseline.steps.height:
        return name, False, "the baseline was replayed on other cases"
    worse = int((pairs["_d"] < 0).sum())
    if not worse:
        return name, True, f"no step of {pairs.height} got worse"
    from expcomp.stats.clusters import clustered_se

    try:
        interval = clustered_se(pairs["_d"].to_numpy(), pairs["trajectory_group"]).t
    except StatsError:
        # Too few families, or every one changed alike: there is no interval to hide behind.
        mean = float(pairs.select(pl.col("_d").mean()).item())
        return name, mean >= 0, f"{worse} steps got worse, mean change {mean:+.4f}, no interval"
    told = f"{worse} steps got worse, change of exactness {interval.low:+.4f} to {interval.high:+.4f}"
    return name, interval.high >= 0, told


def _strict(package: EnvironmentPackage, played: Replay, baseline: Replay | None) -> list[Asked]:
    cases = played.cases
    validation = cases.filter(pl.col("split") == "validation")
    overlap = validation.filter(~pl.col("independent")).height
    failed = cases.filter(~pl.col("passed")).height
    passing = played.steps.join(
        cases.filter("passed").select("case_id"), on="case_id", how="semi", maintain_order="left"
    )
    runs = eligible_rules(package)
    uncovered = runs.filter(~pl.col("rule_id").is_in(passing["rule_id"].drop_nulls().unique().implode())).height
    asked: list[Asked] = [
        ("a case", cases.height > 0, f"{cases.height} cases"),
        _no_test(played),
        ("an independent validation case", validation.height > overlap, f"{validation.height - overlap} cases"),
        ("no validation case overlaps the construction", overlap == 0, f"{overlap} overlap"),
        ("every case passes", failed == 0, f"{failed} of {cases.height} failed"),
        ("every executable rule is covered", uncovered == 0, f"{uncovered} of {runs.height} are not"),
    ]
    if baseline is not None:
        was = baseline.cases.filter("passed").select("case_id")
        lost = cases.filter(~pl.col("passed")).join(was, on="case_id", how="semi", maintain_order="left").height
        asked.append(("no regression", lost == 0, f"{lost} cases passed before"))
    return asked
