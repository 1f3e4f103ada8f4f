"""Build: from recordings to a package that held-out families have validated, or to a candidate with the reasons why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.align import align
from expcomp.environments.assessment import SELECTIVE, Assessment, assess
from expcomp.environments.config import PackageConfig
from expcomp.environments.evaluation import HeldOut, answer_held_out, evaluated
from expcomp.environments.gathering import gather
from expcomp.environments.heldout import STATES, held_out_cases
from expcomp.environments.induction.experience import EXPERIENCE, experience
from expcomp.environments.induction.package_tables import package_tables
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.predictor import GATE, Predictor, gate_of
from expcomp.environments.recordings import Recordings, recordings
from expcomp.environments.replay import Replay, replay
from expcomp.environments.splits import place
from expcomp.environments.starting import snapshots, states_after, with_states
from expcomp.errors import SourceError, UsageError
from expcomp.tables.environment import SPLIT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from expcomp.environments.induction.reconstruct import Reconstruction
    from expcomp.sources.traceset import TraceSet

MOST_REPLAYED = 500
"""Steps that are replayed. Of more, whole families are drawn by the hash of their name; the evaluation takes them all."""


@dataclass(frozen=True)
class EnvironmentBuild:
    """A build.

    Attributes:
        assessment: The package, its replay, and the report of both: `report["evaluation"]` holds the metrics of held-out turns.
        steps: Every held-out turn with its answer and scores, see `evaluation.HeldOut`.
        learned: What was learned.
        gate: Confidence from which on answers are given.
    """

    assessment: Assessment
    steps: pl.DataFrame
    learned: Reconstruction
    gate: float

    @property
    def package(self) -> EnvironmentPackage:
        """The package; a candidate until `write` publishes it as validated."""
        return self.assessment.package

    @property
    def report(self) -> Mapping[str, Any]:
        """The report: conditions, reasons, metrics of the replay, evaluation."""
        return self.assessment.report

    @property
    def validated(self) -> bool:
        """Whether the report carries a promotion."""
        return self.assessment.eligible

    def responder(self) -> Predictor:
        """Who answers when no rule does."""
        return Predictor(self.learned, gate=self.gate, transitions=self.package["transitions"])

    def write(self, out: str | Path, *, force: bool = False) -> EnvironmentPackage:
        """Publish as validated if the report carries it, else as a candidate; report, cases and steps stand beside the tables.

        Raises:
            DestinationExistsError: `out` exists and `force` is not given.
        """
        from expcomp.environments.promotion import publish_candidate

        more = {"steps": self.steps}
        if self.validated:
            return self.assessment.promote(out, force=force, more=more)
        return publish_candidate(self.assessment, Path(out), force=force, more=more)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Risk-coverage curve of the held-out turns, the gate marked.

        Raises:
            ConfigError: matplotlib is not installed.
        """
        from expcomp.environments.evaluation import risk_curve
        from expcomp.figures.risk import risk_coverage

        clean = self.steps.filter(~pl.col("leaky"))
        return risk_coverage(risk_curve(clean), gate=self.gate, turns=clean.height, ax=ax)

    def __repr__(self) -> str:
        word = "validated" if self.validated else f"candidate: {'; '.join(self.report['reasons'])}"
        return f"EnvironmentBuild({self.package!r}, {word})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.package._repr_html_()}"


def build_environment(
    source: TraceSet | Recordings | str | Path | Sequence[str | Path],
    *,
    environment_id: str,
    holdout: float = 0.2,
    seed: int = 0,
    states: pl.DataFrame | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    gate: float = GATE,
    threshold: float = SELECTIVE,
    baseline: EnvironmentPackage | None = None,
    pii: bool = False,
) -> EnvironmentBuild:
    """Learn an environment from traces, without a model, and judge it on families that were held out.

    Args:
        source: A TraceSet, files and folders of traces or transcripts, or recordings that are split already.
        environment_id: Which environment it is.
        holdout: Share of the families (tasks) that are held out.
        seed: Of the split, which is by hash and never moves a family when others come or go.
        states: States before the first step (columns `starting.GIVEN`).
        tools: Tool definitions; what they declare wins over what was seen.
        gate: Confidence from which on an answer is given.
        threshold: Exactness asked of the answers that are given.
        baseline: A package that must not do better on the same cases.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        SourceError: Nothing can be read, or no transition to learn from has a certain answer.
        UsageError: An option or a state that makes no sense.
        EnvironmentPackageError: The named error of the first gate that refuses.
    """
    if not 0 <= gate <= 1:
        raise UsageError(f"gate {gate}: expected a confidence from 0 to 1")
    recorded = _recorded(source, holdout=holdout, seed=seed, pii=pii)
    if states is not None:
        recorded = with_states(recorded, states, pii=pii)
    train, held = recorded.of("train"), recorded.of("validation")
    if train.episodes.is_empty():
        raise SourceError(
            "every family is held out; nothing is left to learn from: give more traces or a smaller holdout"
        )
    tables, learned = package_tables(train, tools=tools)
    package = compile_package(tables, PackageConfig(environment_id), pii=pii)
    predictor = Predictor(learned, gate=gate, transitions=package["transitions"])
    aligned = align(held.events)
    answered = _held_out(learned, aligned, held, gate=gate, families=train.episodes["trajectory_group"])
    cases, steps, left, drawn = _cases(aligned, held, answered)
    before = None if baseline is None else replay(baseline, cases, steps, responder=_responder(baseline, gate))
    judged = assess(package, cases, steps, threshold=threshold, baseline=before, responder=predictor)
    trained = learned.rows.select("action_type", "failed")
    evaluation = evaluated(answered.steps, gate=gate, trained=trained)
    report = _report(judged, evaluation, threshold=threshold) | {
        # Recordings came split: by whom and how is not known here.
        "holdout": None if isinstance(source, Recordings) else {"share": holdout, "seed": seed, "by": "family"},
        "learned": {"transitions": learned.n_given, "rules_from": learned.n_learned},
        "redactions": recorded.redactions,
        "copies_left_out": recorded.copies,
        "not_replayed": {"transitions": left, "families_not_drawn": drawn},
    }
    whole = Assessment(judged.package, judged.replay, report, cases, steps)
    return EnvironmentBuild(whole, answered.steps, learned, gate)


def _recorded(
    source: TraceSet | Recordings | str | Path | Sequence[str | Path], *, holdout: float, seed: int, pii: bool
) -> Recordings:
    from expcomp.sources.traceset import TraceSet

    if isinstance(source, Recordings):
        return source
    if isinstance(source, TraceSet):
        return recordings(source, holdout=holdout, seed=seed, pii=pii)
    paths = [source] if isinstance(source, str | Path) else source
    return gather(paths, holdout=holdout, seed=seed, pii=pii)


def evaluate_environment(
    package: EnvironmentPackage,
    source: TraceSet | Recordings | str | Path | Sequence[str | Path],
    *,
    gate: float | None = None,
) -> tuple[dict[str, Any], pl.DataFrame]:
    """How well a package answers other recordings of its environment: the evaluation section of a report, and the steps.

    Families that the package was learned from are counted as `leaky_steps` and left out of every figure. At most MOST_REPLAYED steps
    are also played freely, each on the state that the steps before it were predicted to leave.

    Args:
        package: A reconstructed package.
        source: As of `build_environment`; all of it is tested.
        gate: Confidence from which on an answer counts as given; by default that of the package's report.

    Raises:
        SourceError: The package or the source holds no turn with a certain answer.
    """
    recorded = _recorded(source, holdout=0.0, seed=0, pii=False)
    aligned = align(recorded.events)
    usable, _ = experience(aligned, recorded.episodes, recorded.events)
    if usable.is_empty():
        raise SourceError("the traces hold no call with a certain answer; there is nothing to evaluate on")
    predictor = Predictor.of(package, gate=gate_of(package) if gate is None else gate)
    families = package["episodes"]["trajectory_group"]
    found = answer_held_out(predictor.learned, usable, gate=predictor.gate, families=families)
    trained = predictor.learned.rows.select("action_type", "failed")
    report = evaluated(found.steps, gate=predictor.gate, trained=trained)
    fresh = recorded.episodes.filter(~pl.col("trajectory_group").is_in(families.implode()))
    # Nothing of it was learned from, whatever the split of the recordings says.
    held = replace(recorded, episodes=fresh.with_columns(split=pl.lit("validation", dtype=SPLIT)))
    cases, steps, _, _ = _cases(aligned, held, found)
    played = replay(package, cases, steps, responder=predictor)
    return report | {"free_running": free_running(played, package)}, found.steps


def _responder(package: EnvironmentPackage, gate: float) -> Predictor | None:
    return None if package["transitions"].is_empty() else Predictor.of(package, gate=gate)


def _held_out(
    learned: Reconstruction, aligned: pl.DataFrame, held: Recordings, *, gate: float, families: pl.Series
) -> HeldOut:
    usable, _ = experience(aligned, held.episodes, held.events)
    # With nothing held out a trained turn gives the columns.
    rows = usable if usable.height else learned.rows.select(list(EXPERIENCE)).head(1)
    found = answer_held_out(learned, rows, gate=gate, families=families)
    return found if usable.height else HeldOut(found.steps.clear(), found.outcomes.clear(), found.first.clear())


def _cases(
    aligned: pl.DataFrame, held: Recordings, answered: HeldOut
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, int], int]:
    """Cases, steps, transitions that are in no case by reason, and families that were not drawn."""
    sizes = (
        aligned.join(held.episodes.select("episode_id", "trajectory_group"), on="episode_id", how="inner", maintain_order="left")
        .group_by("trajectory_group", maintain_order=True)
        .agg(n=pl.len())
        .sort(place(pl.col("trajectory_group"), seed="replay"), "trajectory_group")
    )  # fmt: skip
    kept = sizes.filter((pl.col("n").cum_sum() <= MOST_REPLAYED) | (pl.int_range(pl.len()) == 0))
    episodes = held.episodes.join(kept, on="trajectory_group", how="semi", maintain_order="left")
    mine = aligned.join(episodes.select("episode_id"), on="episode_id", how="semi", maintain_order="left")
    given = snapshots(held.events).select("episode_id", "state_json")
    seen = answered.first.join(given, on="episode_id", how="anti", maintain_order="left")
    start = pl.concat([given, seen]).select(list(STATES))
    after = states_after(mine, held.events)
    cases, steps, left = held_out_cases(episodes, mine, outcomes=answered.outcomes, states=start, after=after)
    counts = left.group_by("reason", maintain_order=True).agg(n=pl.len()).sort("reason")
    return cases, steps, dict(zip(counts["reason"], counts["n"], strict=True)), sizes.height - kept.height


def _report(judged: Assessment, evaluation: dict[str, Any], *, threshold: float) -> dict[str, Any]:
    """The report of the replay with the evaluation, which must hold the threshold too."""
    headline = evaluation["headline"]
    share = None if headline is None else headline["selective_exact"]
    asked = {
        "name": "exactness of held-out turns that are answered",
        "holds": share is not None and share >= threshold,
        "found": "nothing was answered"
        if share is None
        else f"{share:.4f} of {headline['answered']} turns, asked {threshold}",
    }
    conditions = [*judged.report["conditions"], asked]
    return {
        **judged.report,
        "conditions": conditions,
        "eligible": all(c["holds"] for c in conditions),
        "reasons": [f"{c['name']}: {c['found']}" for c in conditions if not c["holds"]],
        "evaluation": {**evaluation, "free_running": free_running(judged.replay, judged.package)},
    }


def free_running(played: Replay, package: EnvironmentPackage) -> dict[str, Any]:
    """What a replay on the predicted state shows: horizon, episodes exact to the end, coverage of the rules; null without a step."""
    steps = played.steps.sort("case_id", "ordinal").with_columns(_still=pl.col("exact").cum_min().over("case_id"))
    horizon = steps.group_by("case_id", maintain_order=True).agg(pl.col("_still").sum())["_still"]
    runs = package["rules"].filter(pl.col("status") == "supported")["rule_id"]
    right = steps.filter("exact")["rule_id"].drop_nulls().unique()
    used = runs.is_in(right.implode()).sum()
    return {
        "episodes": played.cases.height,
        "exact_to_the_end": played.cases.select(pl.col("passed").mean()).item(),
        "mean_exact_steps_from_the_start": horizon.mean(),
        "rules_used_right": None if runs.is_empty() else used / len(runs),
        "steps_by_a_rule": steps.select((pl.col("route") == "rule").mean()).item(),
    }
