"""Grades of a tau2-bench simulation: the reward, and one for each check below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._emit import add_grade, voided
from expcomp.sources._json import dump_json
from expcomp.sources._values import UNIT, Score, items, obj, score_of, text

if TYPE_CHECKING:
    from expcomp.sources._contract import Batch
    from expcomp.sources.tau2_bench._files import Simulation

_CHECKS = (
    # list in reward_info, word of the basis, kind, verdict, value, what was checked, name of one check
    ("env_assertions", "ENV_ASSERTION", "environment", "met", "reward", "env_assertion", "func_name"),
    ("action_checks", "ACTION", "environment", "action_match", "action_reward", "action", "name"),
    ("communicate_checks", "COMMUNICATE", "environment", "met", "", "info", ""),
    ("nl_assertions", "NL_ASSERTION", "model_judge", "met", "", "nl_assertion", ""),
)
_SUMMARY = ("reward_basis", "reward_breakdown", "info")


def add_grades(
    batch: Batch, ident: str, simulation: Simulation, scale: tuple[float, float] | None, *, void: str | None
) -> Score:
    """Add the grades of a simulation; give the primary one.

    The basis of the reward decides: a check that is not in it may fail while the reward is 1 (its metadata say so).
    `void` is why the reward, if any, is not to be trusted (R1).
    """
    info = obj(simulation.raw.get("reward_info"))
    reward = simulation.raw.get("reward") if simulation.indexed else info.get("reward")
    score = score_of(reward, scale or UNIT, verdict=True)
    if void is not None and score.issue is None:
        score = voided(score, void)
    if reward is not None or info:
        summary = {k: info[k] for k in _SUMMARY if info.get(k) is not None}
        add_grade(
            batch,
            ident,
            "reward",
            score,
            kind="environment",
            primary=True,
            grader="tau2_bench",
            source_ref=simulation.ref,
            refs=[simulation.ref],
            metadata=dump_json(summary) if summary else None,
        )
    basis = {str(word).rpartition(".")[2].upper() for word in items(info.get("reward_basis"))}
    database = obj(info.get("db_check"))
    if database:
        check = _check(database.get("db_match"), database.get("db_reward"), void)
        _add(batch, ident, simulation, "db_check", check, "environment", {"in_basis": "DB" in basis})
    for key, word, kind, verdict, value, what, named in _CHECKS:
        for pos, raw in enumerate(items(info.get(key))):
            entry = obj(raw)
            if not entry:
                continue
            subject = entry.get(what)
            name = text(obj(subject).get(named)) or str(pos)
            rest = {k: v for k, v in entry.items() if k not in (verdict, value, "justification") and v is not None}
            more = {"in_basis": word in basis, "position": pos} | rest
            check = _check(entry.get(verdict), entry.get(value), void)
            _add(
                batch,
                ident,
                simulation,
                f"{key.removesuffix('s')}/{name}",
                check,
                kind,
                more,
                rationale=text(entry.get("justification")),
            )
    return score


def _check(verdict: Any, value: Any, void: str | None) -> Score:
    met = verdict if isinstance(verdict, bool) else None
    score = score_of(met if value is None else value, UNIT, verdict=False)
    found = Score(score.value, score.scale, score.norm, met, score.valid, score.issue, score.label)
    return voided(found, void) if void is not None and found.issue is None else found


def _add(
    batch: Batch,
    ident: str,
    simulation: Simulation,
    name: str,
    score: Score,
    kind: str,
    more: dict[str, Any],
    **columns: Any,
) -> None:
    add_grade(
        batch,
        ident,
        name,
        score,
        kind=kind,
        primary=False,
        grader="tau2_bench",
        source_ref=simulation.ref,
        metadata=dump_json(more),
        **columns,
    )
