"""The held-out guard: what a lineage of training runs could see against the tasks that it will be measured on.

A check of declared provenance. It finds equal contents and names, and, where the rows are at hand, stretches of text; it neither
finds paraphrases nor proves that undeclared training was clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import polars as pl

from expcomp.datasets.decontaminate.chain import task_hits
from expcomp.datasets.decontaminate.index import Index
from expcomp.datasets.identity import COLUMNS, KEY
from expcomp.datasets.options import Policy
from expcomp.errors import CheckFailedError
from expcomp.io.row_files import replacing
from expcomp.io.sinks import write_private_parquet
from expcomp.tables.training import EXPOSURE_HITS, KIND
from expcomp.training.checks import Severity
from expcomp.training.dataset import TrainingDataset
from expcomp.training.documents import Count, Document, Rule, Sealed, Sha256, seal
from expcomp.training.exposure import ExposureIndex

Level = Literal["exact", "name", "near"]
LEVELS: Mapping[Level, tuple[str, ...]] = {
    "exact": ("content",),
    "name": ("content", "name"),
    "near": ("content", "name", "near"),
}
"""What each level looks at; each holds the ones before it."""

_STEPS = {"content": "exact_content", "name": "exact_name"}
_PORTION = 64 << 20
_STRING = r'"(?:[^"\\]|\\.)*":?'
_PAIR = r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_CODE = rf"\\u(?:[0-9abcefABCEF][0-9a-fA-F]{{3}}|[dD][0-7][0-9a-fA-F]{{2}}|{_PAIR})"
_SOUND = rf'^"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|{_CODE})*"$'
"""A JSON string that can be decoded: no half characters."""
_NESTED = r'^\s*[\[{"][\s\S]*\\'
"""A text that may be JSON itself, with escapes in it."""
_LEVELS = 3
"""Of JSON in JSON: the arguments of a call in a message that was written as text."""


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """How hits count.

    Attributes:
        name: Of a task with the name of a held-out one and another content: a new rendering, or a new version.
        text: Thresholds of `near`: a row to drop is an error, one to review a warning.
    """

    name: Severity = "error"
    text: Policy = field(default_factory=Policy)


class ExposureCounts(Document, frozen=True, kw_only=True):
    """Held-out tasks that were found, by what found them; a task may be in several. `near` is null where no text was looked at."""

    content: Count
    name: Count | None
    near: Count | None


class ExposureReport(Sealed, frozen=True, kw_only=True):
    """The public report: counts only, so that an optimiser that reads it learns no task."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "exposure_counts",
            "heldoutFound",
            lambda r: r.errors <= r.heldout_found <= r.heldout_tasks,
            "at most the number of held-out tasks, and at least that of the errors",
            lambda r: r.heldout_found,
        ),
        Rule(
            "exposure_verdict",
            "verdict",
            lambda r: (r.verdict == "refused") == (r.errors > 0),
            "refused exactly when a held-out task was found that counts as an error",
            lambda r: r.verdict,
            tampered=True,
        ),
    )

    kind: Literal["exposure-report"] = "exposure-report"
    level: Level
    index_digest: Sha256
    receipts: Count
    tasks_seen: Count
    heldout_tasks: Count
    heldout_found: Count
    errors: Count
    found: ExposureCounts
    verdict: Literal["clear", "warning", "refused"]


class ExposureError(CheckFailedError):
    """A profile whose training could see held-out tasks. The message names none, on purpose."""


@dataclass(frozen=True)
class Exposure:
    """What the guard found.

    Attributes:
        hits: `EXPOSURE_HITS`: for the owner of the held-out set.
        report: Counts, for anybody.
        heldout: What was looked for (`HELD_OUT`): for the owner, too.
    """

    hits: pl.DataFrame
    report: ExposureReport
    heldout: pl.DataFrame

    def refuse(self) -> None:
        """Refuse the profile when a held-out task was found.

        Raises:
            ExposureError: One was.
        """
        if self.report.verdict == "refused":
            msg = "the training of this profile could see held-out tasks; measure it on others, or train without them"
            raise ExposureError(msg)

    def write_private(self, path: Path, *, force: bool = False) -> None:
        """Write the hits as Parquet that only the owner can read (mode 0600), in one step.

        Raises:
            OutputError: `path` exists, or cannot be written.
        """
        with replacing(path, force=force) as beside:
            write_private_parquet(self.hits, beside)


def guard(
    index: ExposureIndex,
    held: pl.DataFrame,
    *,
    level: Level = "name",
    datasets: Iterable[TrainingDataset] = (),
    dataset_digests: Mapping[str, str] | None = None,
    policy: GuardPolicy | None = None,
) -> Exposure:
    """Held-out tasks that a lineage could see.

    Args:
        index: Of the lineage.
        held: Held-out tasks (`datasets.decontaminate.heldout.held_out`).
        level: `exact` compares contents, `name` names, too, `near` also looks for texts in rows.
        datasets: near: the datasets of the lineage.
        dataset_digests: near: digest of the dataset by digest of its receipt.
        policy: Severities and thresholds.
    """
    policy = policy or GuardPolicy()
    kinds = LEVELS[level]
    hits = [_tasks(index, held, kinds, policy)]
    if "near" in kinds:
        hits += _near(index, held, datasets, dataset_digests or {}, policy)
    order = (
        "heldout",
        "kind",
        "depth",
        "receipt_digest",
        "row",
        "benchmark",
        "task",
        "content_digest",
        "partition",
        "field",
    )
    every = pl.concat(hits).sort(order, maintain_order=True)
    return Exposure(every, _report(index, held, every, level), held)


def _tasks(index: ExposureIndex, held: pl.DataFrame, kinds: tuple[str, ...], policy: GuardPolicy) -> pl.DataFrame:
    # The key of a task stands for it: no held-out task has such a name.
    seen = index.tasks.with_columns(task_id=KEY)
    ours = seen.with_columns(native_id=pl.lit(None, pl.String), text_digest=pl.lit(None, pl.String))
    steps = tuple(_STEPS[k] for k in kinds if k in _STEPS)
    found = task_hits(ours, held, Policy(levels=steps))
    kind = pl.col("level").replace_strict({v: k for k, v in _STEPS.items()}, return_dtype=pl.String)
    # An equal content under an equal name is one hit, not two.
    found = found.with_columns(kind=kind.cast(KIND)).sort("kind", maintain_order=True)
    found = found.unique(["task_id", "heldout"], keep="first", maintain_order=True)
    severity = pl.when(pl.col("kind") == "name").then(pl.lit(policy.name)).otherwise(pl.lit("error"))
    made = (
        found.join(seen, on="task_id", how="inner", maintain_order="left")
        .join(index.frame, on=list(COLUMNS), how="inner", maintain_order="left")
        .with_columns(severity=severity)
    )
    return _complete(made, held)


def _near(
    index: ExposureIndex,
    held: pl.DataFrame,
    datasets: Iterable[TrainingDataset],
    digests: Mapping[str, str],
    policy: GuardPolicy,
) -> list[pl.DataFrame]:
    lookup = Index.build(held, policy.text)
    receipts = index.frame.select("receipt_digest", "depth").unique(maintain_order=True)
    named = pl.DataFrame(
        {"receipt_digest": list(digests), "dataset": list(digests.values())},
        schema={"receipt_digest": pl.String, "dataset": pl.String},
    )
    receipts = receipts.join(named, on="receipt_digest", how="inner", maintain_order="left")
    made = []
    for dataset in datasets:
        here = receipts.filter(pl.col("dataset") == dataset.digest).drop("dataset")
        for part in _portions(dataset.rows):
            texts = row_texts(part)
            found = lookup.scan(texts).rename({"row": "at"})
            rows = part.select("row", *COLUMNS, "partition").with_row_index("at")
            severity = pl.when(pl.col("verdict") == "drop").then(pl.lit("error")).otherwise(pl.lit("warning"))
            hit = (
                found.join(rows, on="at", how="inner", maintain_order="left")
                .with_columns(kind=pl.lit("near"), severity=severity)
                .join(here, how="cross", maintain_order="left")
            )
            made.append(_complete(hit, held))
    return made


def row_texts(rows: pl.DataFrame) -> pl.DataFrame:
    """Texts in the payloads (`data`) of rows: row (UInt32, position in the frame), text. Keys are no texts.

    A text that is JSON itself, as arguments of calls often are, gives the texts in it, too: most writers escape all that is not ASCII.
    """
    parts = [_strings(rows.select(row=pl.int_range(pl.len(), dtype=pl.UInt32), text="data"))]
    for _ in range(_LEVELS):
        inner = parts[-1].filter(pl.col("text").str.contains(_NESTED))
        if inner.is_empty():
            break
        parts.append(_strings(inner))
    return pl.concat(parts)


def _strings(texts: pl.DataFrame) -> pl.DataFrame:
    """What stands in quotes in JSON texts and is no key."""
    found = texts.select("row", pl.col("text").str.extract_all(_STRING)).explode("text", empty_as_null=False)
    sound = ~pl.col("text").str.ends_with('":') & pl.col("text").str.contains(_SOUND)
    return found.filter(sound).with_columns(pl.col("text").str.json_decode(pl.String))


def _portions(rows: pl.DataFrame) -> Iterable[pl.DataFrame]:
    sizes = (rows["data"].str.len_bytes().cast(pl.UInt64).cum_sum() // _PORTION).rle().struct.field("len")
    start = 0
    for size in sizes:
        yield rows.slice(start, size)
        start += size


def _complete(hits: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    names = held.select(
        heldout=pl.int_range(pl.len(), dtype=pl.UInt32),
        heldout_benchmark="benchmark",
        heldout_task="task",
        heldout_digest="content_digest",
    )
    made = hits.join(names, on="heldout", how="left", maintain_order="left")
    return made.select(
        pl.col(n).cast(t) if n in made.columns else pl.lit(None, t).alias(n) for n, t in EXPOSURE_HITS.schema.items()
    )


def _report(index: ExposureIndex, held: pl.DataFrame, hits: pl.DataFrame, level: Level) -> ExposureReport:
    def count(where: pl.Expr) -> int:
        return int(hits.filter(where)["heldout"].n_unique())

    kinds = LEVELS[level]
    found = {k: count(pl.col("kind") == k) if k in kinds else None for k in KIND.categories}
    errors = count(pl.col("severity") == "error")
    verdict: Literal["clear", "warning", "refused"] = "refused" if errors else "warning" if hits.height else "clear"
    report: ExposureReport = seal(
        ExposureReport(
            level=level,
            index_digest=index.digest,
            receipts=index.frame["receipt_digest"].n_unique(),
            tasks_seen=index.tasks.height,
            heldout_tasks=held.height,
            heldout_found=count(pl.lit(value=True)),
            errors=errors,
            found=ExposureCounts(**found),  # type: ignore[arg-type]
            verdict=verdict,
        )
    )
    return report
