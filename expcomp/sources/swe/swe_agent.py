"""SWE-agent trajectories: one `.traj` file an attempt, of 0.x and 1.x."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._emit import add_attempt
from expcomp.sources._json import dump_json, load_json
from expcomp.sources._units import add_tasks, file_unit, open_unit, report
from expcomp.sources._values import count, items, obj, redact, text
from expcomp.sources.swe._common import GROUP, add_patch, cost, instance_of, instance_task, run_of, ungraded
from expcomp.sources.swe._config import Config, read_config
from expcomp.sources.swe._walk import Walk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look
    from expcomp.sources.errors_map import ErrorClass

_STEP = {"action", "observation"}
_MAPPED_INFO = {"exit_status", "submission", "swe_agent_version"}
_VIEWS = ("edited_files30", "edited_files50", "edited_files70")
_VIEW_LIMIT = 64 * 1024


class SweAgent:
    """Reader of SWE-agent trajectories."""

    name = "swe_agent"
    summary = (
        "SWE-agent .traj files: {trajectory, history, info}; the verdict comes from SWE-bench reports in the same load"
    )
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes",
        "tools": "rebuilt from command_docs in replay_config",
        "reasoning": "thinking blocks, newer files",
        "verdict": "no (SWE-bench report)",
        "trial": "no (the run)",
        "tokens": "totals",
        "cost": "yes",
        "times": "step durations",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: each trajectory is a file."""
        return False

    def claims_file(self, look: Look) -> bool:
        """An object with trajectory and history, or whose `trajectory` entries have action and observation; also inside `attempts`."""
        if look.kind != "object" or look.keys & {"instance_id", "feedback"}:
            return False
        if {"trajectory", "history", "info"} <= look.keys:
            return True
        return any(look.at(place) >= _STEP for place in ("trajectory", "attempts/trajectory"))

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; trajectories and reports are one group."""
        file_unit(self.name, path, root, found, GROUP)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read trajectories."""
        batch = Batch()
        tasks: list[dict[str, Any]] = []
        attempts: list[dict[str, Any]] = []
        for unit in units:
            opened = open_unit(batch, unit, options.max_file_bytes)
            if opened is None:
                continue
            document, problems = load_json(opened[0])
            report(batch, unit, problems)
            if isinstance(document, dict):
                _attempt(batch, unit, _chosen(batch, unit, document), opened[1], options, attempts, tasks)
            elif not any(p.severity == "error" for p in problems):
                detail = f"expected an object with trajectory and history, found {type(document).__name__}; no attempt"
                batch.diagnose(
                    "no_attempt", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="error"
                )
        add_tasks(batch, tasks, attempts)
        return batch.frames()


def _chosen(batch: Batch, unit: Unit, document: dict[str, Any]) -> dict[str, Any]:
    """The trajectory of a file in which several tries are kept: the one chosen, else the last."""
    tries = [t for t in items(document.get("attempts")) if isinstance(t, dict)]
    if not tries:
        return document
    chosen = (
        document
        if isinstance(document.get("trajectory"), list)
        else tries[-1] | {"environment": document.get("environment")}
    )
    which = "the chosen one" if chosen is document else "the last one, as none was chosen yet,"
    detail = f"the file holds {len(tries)} tries at the task; {which} is read, the others are not"
    batch.diagnose("tries_left_out", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="info")
    return chosen


def _attempt(
    batch: Batch,
    unit: Unit,
    document: dict[str, Any],
    digest: str,
    options: ReadOptions,
    attempts: list[dict[str, Any]],
    tasks: list[dict[str, Any]],
) -> None:
    ident = attempt_id("swe_agent", unit.package_id)
    info = obj(document.get("info"))
    for key in ("trajectory", "history", "info"):
        if not isinstance(document.get(key), dict if key == "info" else list):
            _tell(batch, unit, ident, "bad_field", f"{key} is {type(document.get(key)).__name__}; read as empty", key)
    config = read_config(document.get("replay_config"))
    instance = config.instance or instance_of(unit.path)
    run = run_of(unit.path, instance)
    config.name_parts(run)
    steps = items(document.get("trajectory"))
    walk = Walk(steps, items(document.get("history")), text(info.get("exit_status")), scripted=config.scripted)
    transcript = walk.read()
    for artifact in walk.pictures:
        batch.add("artifacts", attempt_id=ident, **artifact)
    if config.elides and not any(isinstance(s, dict) and (s.get("query") or s.get("messages")) for s in steps):
        detail = "history processors hid parts of the history from the model, and the file does not tell which"
        _tell(batch, unit, ident, "prompt_not_recorded", detail, "replay_config", "info")
    word = text(info.get("exit_status"))
    meaning, known = options.rules.status("swe_agent", word)
    if not known:
        _tell(
            batch,
            unit,
            ident,
            "unknown_status",
            f"exit_status {word!r} is in no table; status unknown",
            "info.exit_status",
        )
    row = add_attempt(
        batch,
        unit,
        ident,
        transcript,
        score=ungraded(meaning),
        usage=_usage(info),
        native_attempt_id=instance,
        run_id=run,
        agent="SWE-agent",
        agent_version=text(info.get("swe_agent_version")),
        model=config.model,
        params=dump_json(config.params) if config.params else None,
        status=meaning.status,
        stop_reason=word,
        error_type=_error(word, meaning),
        error_message=walk.last_words if _error(word, meaning) else None,
        tools=dump_json(config.tools) if config.tools else None,
        is_truncated=word is None,
        source_version=text(info.get("swe_agent_version")),
        source_digest=digest,
        metadata=_metadata(document, info, config),
    )
    add_patch(batch, ident, "submission", text(info.get("submission")))
    _views(batch, ident, info)
    if instance is not None:
        task = instance_task(
            instance, instruction=config.problem, environment=config.environment, source_ref=unit.path.name
        )
        row["task_id"] = task["task_id"]
        tasks.append(task)
    attempts.append(row)


def _tell(
    batch: Batch,
    unit: Unit,
    ident: str,
    code: str,
    detail: str,
    field: str | None = None,
    severity: str = "warning",
) -> None:
    uri = unit.package_id
    batch.diagnose(code, detail, package_id=uri, source_uri=uri, attempt_id=ident, field=field, severity=severity)


def _error(word: str | None, meaning: ErrorClass) -> str | None:
    return word if meaning.status in ("agent_error", "infra_error") else None


def _usage(info: dict[str, Any]) -> dict[str, Any]:
    """Totals of the run; 0 is what replays and local models write, and means unknown."""
    stats = obj(info.get("model_stats"))
    return {
        "input_tokens": count(stats.get("tokens_sent")) or None,
        "output_tokens": count(stats.get("tokens_received")) or None,
        "cost_usd": cost(stats.get("instance_cost")),
    }


def _views(batch: Batch, ident: str, info: dict[str, Any]) -> None:
    """Edited files with the lines around the change, as the harness writes them for reviewers."""
    for name in _VIEWS:
        view = text(info.get(name))
        if view:
            raw = view.encode("utf-8", "replace")
            batch.add(
                "artifacts",
                attempt_id=ident,
                kind="other",
                name=name,
                mime="text/plain",
                bytes=len(raw),
                digest=PREFIX + sha256_hex(raw),
                content=view if len(view) <= _VIEW_LIMIT else None,
            )


def _metadata(document: dict[str, Any], info: dict[str, Any], config: Config) -> str | None:
    skipped = {"trajectory", "history", "info", "replay_config", "attempts"}
    rest = {k: v for k, v in document.items() if k not in skipped and v is not None}
    inner = {k: v for k, v in info.items() if k not in _MAPPED_INFO and k not in _VIEWS}
    if info.get("submission") is not None and not isinstance(info["submission"], str):
        inner["submission"] = info["submission"]
    if inner:
        rest["info"] = inner
    if config.rest:
        rest["replay_config"] = config.rest
    agents = Counter(a for h in items(document.get("history")) if (a := text(obj(h).get("agent"))) is not None)
    if agents:
        rest["agents"] = list(agents)
    out = redact(rest)
    return dump_json(out) if out else None


SOURCE = SweAgent()
