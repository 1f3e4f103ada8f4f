"""Replay: recorded cases are played, and every step is compared with what was recorded."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments import paths
from expcomp.environments.digests import rows_digest
from expcomp.environments.engine import Engine
from expcomp.environments.playing import Question, Reply, Responder, Turn, asking, initial_state
from expcomp.environments.recall import replies
from expcomp.environments.records import lines
from expcomp.environments.values import equal, leaf_accuracy, parse_json
from expcomp.errors import NoApplicableRuleError, PackageSchemaError, SessionError
from expcomp.io.canon import digest
from expcomp.tables.environment import REPLAY_RESULTS, REPLAY_STEP_RESULTS

if TYPE_CHECKING:
    from expcomp.environments.package import EnvironmentPackage

Play = Generator[Question, Reply | None, list[tuple[Any, ...]]]
"""A case that is played: it asks, and ends with its rows."""


@dataclass(frozen=True)
class Replay:
    """What a replay gave.

    Attributes:
        cases: A line a case (`REPLAY_RESULTS`).
        steps: A line a step (`REPLAY_STEP_RESULTS`); steps that were not attempted are abstentions.
    """

    cases: pl.DataFrame
    steps: pl.DataFrame

    def results_digest(self) -> str:
        """`sha256:` digest of both tables."""
        return digest([rows_digest(self.cases), rows_digest(self.steps)])

    def metrics(self) -> dict[str, Any]:
        """Shares over all steps and over those that were answered; null where there is no step to measure."""
        s = self.steps
        answered = ~pl.col("abstained")
        return {
            "cases": self.cases.height,
            "cases_passed": int(self.cases["passed"].sum()),
            "steps": s.height,
            "answered": int(s.select(answered.sum()).item()),
            **s.select(
                exact=pl.col("exact").mean(),
                coverage=answered.mean(),
                selective_exact=pl.col("exact").filter(answered).mean(),
                leaf=pl.col("leaf_accuracy").mean(),
                outcome=pl.col("outcome_ok").mean(),
                state=pl.col("state_ok").mean(),
            ).row(0, named=True),
            "routes": dict(_counts(s["route"])),
            "rules_used": s["rule_id"].drop_nulls().n_unique(),
        }

    def __repr__(self) -> str:
        m = self.metrics()
        return f"Replay({m['cases_passed']:,} of {m['cases']:,} cases passed; {m['answered']:,} of {m['steps']:,} steps answered)"

    def _repr_html_(self) -> str:
        frame: Any = self.cases
        return f"<p>{escape(repr(self))}</p>{frame._repr_html_()}"


def _counts(values: pl.Series) -> Iterator[tuple[str, int]]:
    counts = values.value_counts().sort(values.name)
    return zip(counts[values.name].cast(pl.String), counts["count"], strict=True)


def replay(
    package: EnvironmentPackage,
    cases: pl.DataFrame,
    steps: pl.DataFrame,
    *,
    responder: Responder | None = None,
    teacher_forced: bool = False,
    strict: bool = False,
) -> Replay:
    """Play every case in a session of its own, on the predicted state.

    Args:
        package: What to play; also a candidate.
        cases: `REPLAY_CASES`.
        steps: `REPLAY_STEPS`.
        responder: Who answers when no rule applies.
        teacher_forced: After each step, what was recorded of the state takes the place of what was predicted.
        strict: Older semantics: a case ends at its first refused step.

    Raises:
        PackageSchemaError: Steps of a case that is not there, or JSON that is none.
    """
    loose = steps.join(cases.select("case_id"), on="case_id", how="anti", maintain_order="left")
    if loose.height:
        raise PackageSchemaError(f"replay_steps: case {loose['case_id'][0]!r} is not in replay_cases")
    engine = package.engine(strict=strict)
    by_case = _steps_by_case(steps)
    # A file of many families joins none of them; one of a single family is that family.
    whole = package["sources"] if strict else package["sources"].filter(pl.col("trajectory_group").is_not_null())
    seen_sources = set(whole["source_id"])
    seen_groups = {*package["episodes"]["trajectory_group"], *package["sources"]["trajectory_group"].drop_nulls()}
    case_rows: list[tuple[Any, ...]] = []
    step_rows: list[tuple[Any, ...]] = []
    names = (
        "case_id",
        "trajectory_group",
        "split",
        "source_ids",
        "initial_state_json",
        "initial_state_complete",
        "known_absent_paths",
    )
    told_of = {}
    for case_id, group, split, sources, start, complete, absent in lines(cases.sort("case_id"), *names):
        player = _Player(engine, responder, teacher_forced=teacher_forced, strict=strict)
        play = player.play(case_id, by_case.get(case_id, []), _json(case_id, start), complete=complete, absent=absent)
        told_of[case_id] = (player, play, group, split, sources)
    rows_of = _together({c: play for c, (_, play, *_) in told_of.items()}, responder)
    for case_id, (player, _, group, split, sources) in told_of.items():
        told = rows_of[case_id]
        step_rows += told
        independent = group not in seen_groups and not seen_sources.intersection(sources)
        passed = bool(told) and all(_right(row) for row in told)
        rules = sorted({row[4] for row in told if row[4] is not None})
        case_rows.append(
            (case_id, group, split, independent, passed, player.attempted, len(told), player.errors, rules)
        )
    return Replay(
        pl.DataFrame(case_rows, schema=REPLAY_RESULTS.schema, orient="row"),
        pl.DataFrame(step_rows, schema=REPLAY_STEP_RESULTS.schema, orient="row"),
    )


def _together(plays: Mapping[str, Play], responder: Responder | None) -> dict[str, list[tuple[Any, ...]]]:
    """Play all cases at once, so that a responder that can is asked for many answers at a time; rows by case."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    asked: dict[str, Question] = {}

    def on(case_id: str, reply: Reply | SessionError | None) -> None:
        play = plays[case_id]
        try:
            asked[case_id] = play.throw(reply) if isinstance(reply, SessionError) else play.send(reply)
        except StopIteration as end:
            rows[case_id] = end.value

    for case_id in plays:
        on(case_id, None)
    while asked and responder is not None:
        now, asked = asked, {}
        for case_id, reply in zip(now, replies(responder, list(now.values())), strict=True):
            on(case_id, reply)
    return rows


_EXACT, _OUTCOME, _STATE = (list(REPLAY_STEP_RESULTS.columns).index(n) for n in ("exact", "outcome_ok", "state_ok"))


def _right(row: tuple[Any, ...]) -> bool:
    return row[_EXACT] is True and row[_OUTCOME] is not False and row[_STATE] is not False


def _json(case_id: str, text: str) -> Any:
    there, value = parse_json(text)
    if not there or not isinstance(value, dict):
        raise PackageSchemaError(f"replay case {case_id}: {text[:80]!r} is no JSON object")
    return value


def _steps_by_case(steps: pl.DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    names = ("case_id", "ordinal", "action_type", "arguments_json", "expected_observation", "match")
    for row in lines(steps.sort("case_id", "ordinal"), *names, "expected_outcome", "expected_state_json"):
        found.setdefault(row[0], []).append(row[1:])
    return found


class _Player:
    """Plays one case."""

    def __init__(self, engine: Engine, responder: Responder | None, *, teacher_forced: bool, strict: bool) -> None:
        self.engine, self.responder = engine, responder
        self.teacher_forced, self.strict = teacher_forced, strict
        self.attempted = 0
        self.errors: list[str] = []
        self.absent: set[str] = set()
        self.complete = False

    def play(
        self, case_id: str, steps: list[tuple[Any, ...]], start: Mapping[str, Any], *, complete: bool, absent: list[str]
    ) -> Play:
        self.complete, self.absent = complete, {paths.normalise(p) for p in absent}
        rows: list[tuple[Any, ...]] = []
        turns: list[Turn] = []
        try:
            state = initial_state(self.engine, start, defaults=False)
            stopped = None
        except SessionError as error:
            state, stopped = {}, f"{type(error).__name__}: {error}"
            self.errors.append(stopped)
        for ordinal, action, arguments_text, expected, match, outcome, state_text in steps:
            arguments, wanted = _json(case_id, arguments_text), _json(case_id, state_text)
            told = (case_id, ordinal, action)
            if stopped is not None:
                rows.append((*told, *self._refused(expected, outcome, wanted, f"not attempted: {stopped}")))
                continue
            self.attempted += 1
            try:
                answer = yield from asking(
                    self.engine, state, action, arguments, turns=turns, known=self._known, responder=self.responder
                )
            except SessionError as error:
                why = f"{type(error).__name__}: {error}"
                self.errors.append(f"step {ordinal}: {why}")
                rows.append(
                    (
                        *told,
                        *self._refused(
                            expected, outcome, wanted, why, abstained=isinstance(error, NoApplicableRuleError)
                        ),
                    )
                )
                if self.strict:
                    stopped = f"step {ordinal} was refused"
                else:
                    state = self._passed_over(state)
            else:
                self._forget(answer.changes)
                state = answer.state
                rows.append((*told, *_compared(answer, state, expected, match, outcome, wanted)))
                if not _right(rows[-1]):
                    self.errors.append(f"step {ordinal}: {_difference(answer, expected)}")
            if self.teacher_forced and stopped is None:
                for path, value in wanted.items():
                    state = paths.put(state, paths.split(path), value)
            turns.append(Turn(action, arguments, expected if self.teacher_forced else rows[-1][5], outcome))
        return rows

    def _known(self, path: str) -> bool:
        """Whether what is not in the state is known to be absent: the state is complete, or the path or one above it is."""
        return self.complete or any(path == a or path.startswith((f"{a}.", f"{a}[")) for a in self.absent)

    def _forget(self, changes: tuple[Mapping[str, Any], ...]) -> None:
        """What the rules deleted is known to be absent from now on."""
        self.absent.update(c["path"] for c in changes if c["op"] == "delete")

    def _passed_over(self, state: dict[str, Any]) -> dict[str, Any]:
        """The recorded world went on a step, whatever we could say of it."""
        try:
            return self.engine.begin(state).state
        except SessionError:
            return {**state, "step": int(state["step"]) + 1}

    def _refused(
        self, expected: str, outcome: str | None, wanted: Mapping[str, Any], why: str, *, abstained: bool = False
    ) -> tuple[Any, ...]:
        there, _ = parse_json(expected)
        right = None if outcome is None else False
        return (
            "abstain" if abstained else "error",
            None,
            None,
            False,
            False if there else None,
            0.0 if there else None,
            None,
            right,
            False if wanted else None,
            True,
            None,
            why,
        )


def _compared(
    answer: Any, state: Mapping[str, Any], expected: str, match: str, outcome: str | None, wanted: Mapping[str, Any]
) -> tuple[Any, ...]:
    is_json, truth = parse_json(expected)
    also, said = parse_json(answer.observation)
    json_equal = (also and equal(truth, said)) if is_json else None
    exact = bool(json_equal) if match == "json" and is_json else answer.observation == expected
    leaf = (leaf_accuracy(truth, said) if also else 0.0) if is_json else None
    found = [equal(paths.get(state, paths.split(p)), v) for p, v in wanted.items()]
    return (
        answer.route,
        answer.rule_id,
        answer.observation,
        exact,
        json_equal,
        leaf,
        answer.outcome,
        None if outcome is None else answer.outcome == outcome,
        all(found) if found else None,
        False,
        answer.confidence,
        None,
    )


def _difference(answer: Any, expected: str) -> str:
    return f"answered {str(answer.observation)[:120]!r} ({answer.outcome}), recorded {expected[:120]!r}"
