"""Results of lm-evaluation-harness with their samples as runs of the default profile: one run a sample and filter.

`results_<stamp>.json` tells task, version, model and seeds; the samples stand in it, or beside it in `samples_<task>_<stamp>.jsonl`.
Without samples there is nothing to pair, and the file is refused.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.ledger.inputs import PROFILE, REFUSED, Inputs, conform
from expcomp.ledger.values import dump
from expcomp.tables._spec import UTC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WIDE = ("score", "score_min", "score_max", "duration_s")


def is_results(document: Any) -> bool:
    """Whether a JSON document is one of the harness's results."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("results"), dict)
        and isinstance(document.get("configs"), dict)
        and ("n-shot" in document or "versions" in document)
    )


def from_results(
    document: Mapping[str, Any],
    samples: Mapping[str, Iterable[Mapping[str, Any]]],
    *,
    arm: str | None = None,
    group: str | None = None,
) -> Inputs:
    """Runs of the samples, by task, of one document of results; `document["samples"]` counts too."""
    found = {**_object(document.get("samples")), **samples}
    common = _common(document, arm, group)
    rows: defaultdict[str, list[Any]] = defaultdict(list)
    refused: list[tuple[int, str | None, str, str, None]] = []
    number = -1
    for task, records in found.items():
        facts = _task(document, task)
        for sample in records:
            number += 1
            why = _refused(sample)
            if why is not None:
                refused.append((number, task, *why, None))
                continue
            for name, value in {**common, **facts, **_sample(sample, task, common["_at"])}.items():
                rows[name].append(value)
    frame = pl.DataFrame(dict(rows), strict=False, infer_schema_length=None) if rows else pl.DataFrame()
    return Inputs(_finish(frame), pl.DataFrame(refused, schema=REFUSED, orient="row"))


def _finish(frame: pl.DataFrame) -> pl.DataFrame:
    """Verdicts and scales, as columns."""
    if not frame.height:
        return conform(pl.DataFrame())
    frame = frame.with_columns(pl.col(c).cast(pl.Float64) for c in _WIDE)
    span = pl.col("score_max") - pl.col("score_min")
    norm = (pl.col("score") - pl.col("score_min")) / span
    good = pl.when(span > 0).then(norm >= 1)
    frame = frame.with_columns(
        score_norm=pl.when(norm.is_between(0, 1)).then(norm),
        passed=good,
        official_passed=good,
        official_score=pl.col("score"),
        countable_score=pl.col("score"),
        official_score_countable=pl.col("score").is_not_null(),
        score_status=pl.when(pl.col("score").is_null())
        .then(pl.lit("missing"))
        .when(good)
        .then(pl.lit("passed"))
        .when(~good)
        .then(pl.lit("failed"))
        .otherwise(pl.lit("completed")),
        run_at=pl.from_epoch((pl.col("_at") * 1_000_000).cast(pl.Int64), time_unit="us")
        .dt.replace_time_zone("UTC")
        .cast(UTC),
        infra=pl.col("score").is_null(),
        status=pl.lit("completed"),
        filed_benchmark=pl.col("benchmark_id"),
        filed_case=pl.col("case_id"),
        case_ids=pl.concat_list("case_id"),
    )
    missing, won = pl.col("score").is_null(), pl.col("passed").fill_null(value=False)
    return conform(
        frame.with_columns(
            failure_class=pl.when(missing)
            .then(pl.lit("score_missing"))
            .when(won)
            .then(pl.lit("none"))
            .otherwise(pl.lit("task_solution_failure")),
            failure_scope=pl.when(missing)
            .then(pl.lit("score_missing"))
            .when(won)
            .then(pl.lit("passed"))
            .otherwise(pl.lit("case_or_solution")),
        )
    )


def _common(document: Mapping[str, Any], arm: str | None, group: str | None) -> dict[str, Any]:
    config = _object(document.get("config"))
    model = document.get("model_name") or _object(config.get("model_args")).get("pretrained") or config.get("model")
    at = document.get("date")
    seconds = document.get("total_evaluation_time_seconds")
    return {
        "arm_id": arm or _text(model) or "unknown_arm",
        "run_group_id": group,
        "model": _text(model),
        "agent_model": _text(model),
        "model_version": _text(config.get("model_sha") or config.get("model_revision")),
        "seed": _integer(config.get("random_seed")),
        "harness": "lm-evaluation-harness",
        "harness_version": _text(document.get("lm_eval_version")),
        "commit": _text(document.get("git_hash")),
        "duration_s": None,
        "_at": float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None,
        "notes": None if seconds is None else f"whole evaluation: {seconds} s",
        "source_event_schema": "lm_eval_results",
        "profile": PROFILE,
    }


def _task(document: Mapping[str, Any], task: str) -> dict[str, Any]:
    config = _object(_object(document.get("configs")).get(task))
    version = _object(document.get("versions")).get(task, _object(config.get("metadata")).get("version"))
    hashed = _object(document.get("task_hashes")).get(task)
    return {"benchmark_version": _text(version), "dataset_hash": _text(hashed)}


def _sample(sample: Mapping[str, Any], task: str, at: float | None) -> dict[str, Any]:
    metric, value = _metric(sample)
    low, high = _rules()["scale"].get(metric, (None, None))
    chosen = sample.get("filter")
    case = str(sample["doc_id"])
    return {
        # Two filters of one task are two readings of an answer: they are never averaged.
        "benchmark_id": task if chosen in (None, "none") else f"{task}:{chosen}",
        "case_id": case,
        "mode": _text(chosen),
        "job_name": metric,
        "score": value,
        "score_min": low,
        "score_max": high,
        "content_hash": PREFIX + sha256_hex(dump([at, sample]).encode()),
    }


def _metric(sample: Mapping[str, Any]) -> tuple[str | None, float | None]:
    names = [n for n in sample.get("metrics") or [] if isinstance(n, str)]
    order = [n for n in _rules()["first"] if n in sample and (not names or n in names)] + names
    for name in order:
        value = sample.get(name)
        if isinstance(value, bool | int | float):
            return name, float(value)
    return (order[0] if order else None), None


def _refused(sample: Any) -> tuple[str, str] | None:
    if not isinstance(sample, dict) or sample.get("doc_id") is None:
        return "doc_id", "no sample: it has no doc_id"
    value = _metric(sample)[1]
    if value is not None and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return str(_metric(sample)[0]), f"{value} is no score"
    return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@cache
def _rules() -> dict[str, Any]:
    return tomllib.loads(resources.files("expcomp.ledger").joinpath("lm_eval.toml").read_text("utf-8"))
