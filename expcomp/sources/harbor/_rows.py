"""Rows of a Harbor trial: attempt, grades, task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Row
from expcomp.sources._emit import default_arm
from expcomp.sources._json import dump_json
from expcomp.sources._values import UNIT, Score, amount, count, items, moment, obj, redact, score_of, text
from expcomp.sources.atif.reader import basis

if TYPE_CHECKING:
    from expcomp.sources._contract import Batch, ReadOptions
    from expcomp.sources.harbor._trial import Trial

_PARAMS = frozenset(
    {
        "timeout_multiplier",
        "agent_timeout_multiplier",
        "verifier_timeout_multiplier",
        "agent_setup_timeout_multiplier",
        "environment_build_timeout_multiplier",
    }
)
_KEPT = (
    "id",
    "environment_setup",
    "agent_setup",
    "agent_execution",
    "verifier",
    "verifier_environment_mode",
    "reward_valid",
    "step_results",
)
_TESTS = {"passed": 1.0, "failed": 0.0}


def task_name(result: Row) -> tuple[str, str, str | None]:
    """Dataset, native id and dataset version of the task of a trial."""
    name = (
        text(result.get("task_name")) or (text(result.get("trial_name")) or "unknown").rpartition("__")[0] or "unknown"
    )
    source = text(result.get("source"))
    if source is None:
        path = text(obj(result.get("task_id")).get("path")) or text(
            obj(obj(result.get("config")).get("task")).get("path")
        )
        parts = [p for p in (path or "").replace("\\", "/").split("/") if p not in ("", ".", "..")]
        source = parts[-2] if len(parts) > 1 else "harbor"
    dataset, _, version = source.partition("@")
    return dataset or "harbor", name, version or None


def run_id(trial: Trial) -> str | None:
    """The job folder if the load shows it, else the name or id that the trial itself gives."""
    parts = trial.unit.package_id.split("/")
    if len(parts) > 1 and not trial.alone:
        return parts[-2]
    config = obj(trial.result.get("config"))
    folder = (text(config.get("trials_dir")) or "").replace("\\", "/").rstrip("/").rpartition("/")[2]
    return folder or text(config.get("job_id"))


def exception(result: Row) -> Row:
    """The exception of a trial: its own, else the first of its steps."""
    own = obj(result.get("exception_info"))
    if own or not result.get("step_results"):
        return own
    steps = [obj(obj(s).get("exception_info")) for s in items(result.get("step_results"))]
    return next((e for e in steps if e), {})


def attempt(batch: Batch, trial: Trial, options: ReadOptions) -> Row:
    """Add grades and diagnostics of a trial; give its attempt."""
    result = trial.result
    error = exception(result)
    error_type, score = text(error.get("exception_type")), _grades(batch, trial, options, error)
    if error and not obj(result.get("exception_info")):
        detail = f"{error_type} stands in step_results only; the trial itself gives no exception"
        trial.diagnose(batch, "step_exception", detail, severity="info")
    kind = options.rules.error(error_type, graded=score.value is not None)
    void = _void(result, kind.voids_reward if error else False, score)
    issue = score.issue or void
    if issue and issue != "score_missing":
        trial.diagnose(batch, issue, f"the reward of the trial is not usable: {issue}")
    start, end = _times(batch, trial)
    info = obj(result.get("agent_info"))
    model = obj(info.get("model_info"))
    name, version, served = text(info.get("name")), text(info.get("version")), text(model.get("name"))
    usage, summed = _usage(trial)
    config = obj(result.get("config"))
    documents = [doc for _, doc, _ in trial.trajectories]
    tools = next((t for d in documents if (t := obj(d.get("agent")).get("tool_definitions"))), None)
    dataset, native, _ = task_name(result)
    counted = trial.transcript.counts()
    return {
        "attempt_id": trial.attempt_id,
        "package_id": trial.unit.package_id,
        "native_attempt_id": text(result.get("trial_name")),
        "task_id": f"{dataset}/{native}",
        "run_id": run_id(trial),
        "arm": options.arm or default_arm(name, version, served),
        "trial_source": "unknown",
        "agent": name,
        "agent_version": version,
        "model": served,
        "model_provider": text(model.get("provider")),
        "params": _params(config),
        "status": kind.status if error else "completed",
        "stop_reason": error_type,
        "error_type": error_type,
        "error_message": text(error.get("exception_message")),
        "score": score.value,
        "score_min": score.scale[0] if score.scale else None,
        "score_max": score.scale[1] if score.scale else None,
        "score_norm": None if issue else score.norm,
        "passed": None if issue else score.passed,
        "score_valid": issue is None,
        "score_issue": issue,
        "grade_kind": "verifier",
        "started_at": start,
        "ended_at": end,
        "duration_s": (end - start).total_seconds() if start and end and end >= start else None,
        **usage,
        "usage_basis": basis(usage, summed=summed),
        **counted,
        "trace_id": next((text(d.get("session_id")) for d in documents), None),
        "root_attempt_id": trial.attempt_id,
        "relation": "root",
        "is_truncated": False,
        "has_compaction": any(t.has_compaction for _, _, t in trial.trajectories),
        "has_transcript": bool(trial.transcript.messages),
        "has_system_prompt": trial.transcript.has_system_prompt() or options.system is not None,
        "tools": dump_json(tools) if tools else None,
        "has_tools": bool(tools) or options.tools is not None,
        "trace_ref": trial.trajectories[0][0] if trial.trajectories else None,
        "grade_ref": trial.reward_ref() if score.value is not None else None,
        "source_format": "harbor",
        "source_version": str(result["schema_version"]) if "schema_version" in result else None,
        "source_uri": trial.uri("result.json"),
        "source_digest": trial.digest,
        "metadata": dump_json(_metadata(result)),
    }


def _void(result: Row, by_class: bool, score: Score) -> str | None:  # noqa: FBT001
    """Why a reward does not count although it is a number; the word of the harness goes before the table of errors."""
    if score.value is None:
        return None
    said = result.get("reward_valid")
    if isinstance(said, bool):
        return None if said else "reward_invalid"
    return "infrastructure" if by_class else None


def _grades(batch: Batch, trial: Trial, options: ReadOptions, error: Row) -> Score:
    """Add a grade for each reward key and each test; give the primary score."""
    result = trial.result
    rewards = obj(obj(result.get("verifier_result")).get("rewards"))
    kind = options.rules.error(text(error.get("exception_type")), graded=bool(rewards))
    by_class = kind.voids_reward and bool(error)
    primary = "reward" if "reward" in rewards else next(iter(rewards)) if len(rewards) == 1 else None
    chosen = score_of(None, None, verdict=False)
    for key, raw in rewards.items():
        score = _score(key, raw, options)
        void = _void(result, by_class, score)
        if key == primary:
            chosen = score
        _grade(batch, trial, key, score, void, is_primary=key == primary)
    if rewards and primary is None:
        detail = f"no key 'reward' among {', '.join(sorted(rewards))}; the trial has no primary score"
        trial.diagnose(batch, "missing_reward_key", detail)
    elif not rewards and not error:
        trial.diagnose(batch, "not_graded", "the trial has neither a reward nor an exception")
    if not rewards and any(r.rpartition("/")[2] in ("reward.json", "reward.txt") for r in trial.refs):
        detail = "a reward file is there but the result holds no reward; the result decides"
        trial.diagnose(batch, "reward_file_unused", detail, trial.reward_ref(), "info")
    for index, step in enumerate(trial.step_results()):
        name = text(step.get("step_name")) or text(step.get("name")) or str(index)
        for key, raw in obj(obj(step.get("verifier_result")).get("rewards")).items():
            _grade(batch, trial, f"{name}/{key}", _score(key, raw, options), None, is_primary=False)
    _tests(batch, trial)
    return chosen


def _score(key: str, raw: Any, options: ReadOptions) -> Score:
    """The scale of `reward` is 0..1 while the value keeps to it; that of any other key only the user knows (R10)."""
    inside = isinstance(raw, int | float) and 0 <= raw <= 1
    scale = options.score_scale if key == "reward" and options.score_scale else None
    if scale is None and key == "reward" and (inside or raw is None):
        scale = UNIT
    return score_of(raw, scale, verdict=key == "reward")


def _grade(batch: Batch, trial: Trial, name: str, score: Score, void: str | None, *, is_primary: bool) -> None:
    issue = score.issue or void
    batch.add(
        "grades",
        attempt_id=trial.attempt_id,
        name=name,
        value=score.value,
        label=score.label,
        passed=None if issue else score.passed,
        kind="verifier",
        grader="harbor",
        is_primary=is_primary,
        valid=issue is None,
        invalid_reason=issue,
        score_min=score.scale[0] if score.scale else None,
        score_max=score.scale[1] if score.scale else None,
        refs=[trial.reward_ref()],
        source_ref=trial.result_ref(),
    )


def _tests(batch: Batch, trial: Trial) -> None:
    for ref, doc in trial.ctrf:
        for raw in items(obj(doc.get("results")).get("tests")):
            test = obj(raw)
            name, status = text(test.get("name")), text(test.get("status"))
            if name is None:
                continue
            value = _TESTS.get(status or "")
            batch.add(
                "grades",
                attempt_id=trial.attempt_id,
                name=name,
                value=value,
                label=status,
                passed=None if value is None else value == 1.0,
                kind="test",
                grader=text(obj(obj(doc.get("results")).get("tool")).get("name")),
                rationale=text(test.get("message")),
                is_primary=False,
                valid=value is not None,
                invalid_reason=None if value is not None else f"test {status}",
                refs=[ref],
                source_ref=ref,
            )


def _times(batch: Batch, trial: Trial) -> tuple[Any, Any]:
    start, naive_start = moment(trial.result.get("started_at"))
    end, naive_end = moment(trial.result.get("finished_at"))
    if naive_start or naive_end or any(t.naive for _, _, t in trial.trajectories):
        trial.diagnose(batch, "naive_time", "times without a zone were read as UTC", severity="info")
    if start and end and end < start:
        trial.diagnose(batch, "times_reversed", "the trial ends before it starts; no duration")
    return start, end


def _usage(trial: Trial) -> tuple[Row, bool]:
    """Usage of the agent as the result reports it, else summed over the steps of the trajectories."""
    said = obj(trial.result.get("agent_result"))
    summed = trial.usage()
    reported = {
        "input_tokens": count(said.get("n_input_tokens")),
        "cached_input_tokens": count(said.get("n_cache_tokens")),
        "output_tokens": count(said.get("n_output_tokens")),
        "cost_usd": amount(said.get("cost_usd")),
    }
    if all(v is None for v in reported.values()):
        return summed, True
    # The result has no such counters; those of the steps break the reported totals down.
    return reported | {k: summed.get(k) for k in ("cache_write_tokens", "reasoning_tokens")}, False


def _params(config: Row) -> str | None:
    agent = obj(config.get("agent")) or obj(next(iter(items(config.get("agents"))), None))
    params = {k: v for k, v in config.items() if k in _PARAMS and v not in (None, 1.0)}
    # An empty text is a setting; null, false, 0 and empty lists and objects are what nobody set.
    params |= {k: v for k, v in agent.items() if (v or v == "") and k not in ("name", "import_path")}
    kept = redact(params)
    return dump_json(kept) if kept else None


def _metadata(result: Row) -> Row:
    out = {k: redact(v) for k in _KEPT if (v := result.get(k)) is not None}
    for step in items(out.get("step_results")):
        obj(step).pop("exception_info", None)
    said = obj(result.get("agent_result"))
    out |= {k: redact(said[k]) for k in ("model_usage", "metadata") if said.get(k) is not None}
    environment = obj(obj(result.get("config")).get("environment"))
    if text(environment.get("type")):
        out["environment"] = environment["type"]
    return out
