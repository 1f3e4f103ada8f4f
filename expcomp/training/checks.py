"""Every check of a training dataset: its code, whether it refuses, and what has to be there. Findings name nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from expcomp.datasets.identity import EXPECTED
from expcomp.errors import SourceError
from expcomp.tables.training import FORMAT, PARTITION, TRAINING_FINDINGS

Severity = Literal["error", "warning"]
FOUND = 200
"""Characters of what was found that a finding keeps."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        code: Stable name.
        scope: What it looks at: the bytes of a file, the document, one row, or all rows together.
        expected: What has to be there.
        severity: Errors refuse the dataset.
    """

    code: str
    scope: Literal["file", "document", "row", "rows"]
    expected: str
    severity: Severity = "error"


ROW_KEYS = ("data", "partition", "task")
TASK_KEYS = ("benchmark", "task", "contentDigest")
_ALL = (
    Check("dataset_not_regular_file", "file", "a regular file that can be read, no link"),
    Check("dataset_too_large", "file", "at most the limit of bytes; use a bundle for more"),
    Check("dataset_changed", "file", "a file that stays as it is while it is read"),
    Check("dataset_digest_mismatch", "file", "the digest that was asked for"),
    Check("dataset_file_missing", "file", "every file that manifest.json lists"),
    Check("dataset_file_unlisted", "file", "no file that manifest.json does not list"),
    Check("dataset_file_mismatch", "file", "the bytes, size and rows that manifest.json states"),
    Check("dataset_not_utf8", "document", "UTF-8"),
    Check("dataset_not_json", "document", "strict JSON with each key once"),
    Check("dataset_not_canonicalizable", "document", "values with a canonical JSON form (RFC 8785)"),
    Check("dataset_bad_shape", "document", "version 1, format sft, dpo or grpo, rows; nothing else"),
    Check("dataset_empty", "document", "at least one row"),
    Check("dataset_too_many_rows", "document", "at most the limit of rows"),
    Check("dataset_identity_mismatch", "document", "the identity that its rows give"),
    Check("row_bad_shape", "row", f"an object with exactly {', '.join(ROW_KEYS)}"),
    Check("row_bad_partition", "row", " or ".join(PARTITION.categories)),
    Check("row_bad_task", "row", f"{', '.join(TASK_KEYS)}: {EXPECTED['benchmark']}; {EXPECTED['content_digest']}"),
    Check("row_bad_data", "row", "a payload of the format"),
    Check("partition_overlap_name", "rows", "each benchmark and task in one partition only"),
    Check("partition_overlap_content", "rows", "each content digest in one partition only"),
    Check("no_training_rows", "rows", "at least one row in train"),
    Check("task_content_conflict", "rows", "one content digest for each benchmark and task", "warning"),
)
CHECKS: Mapping[str, Check] = {c.code: c for c in _ALL}
FORMATS = tuple(FORMAT.categories)
UNREADABLE = frozenset(
    {"dataset_not_regular_file", "dataset_changed", "dataset_file_missing", "dataset_not_utf8", "dataset_not_json"}
)
"""Checks after which there are no rows to look at, when they are about the whole document."""


class DatasetError(SourceError):
    """A training dataset that a check refuses.

    Attributes:
        code: Of the first check that does.
        findings: All that was found (`TRAINING_FINDINGS`).
        exit_code: 3 when it could not be read at all, else 1.
    """

    exit_code = 1

    def __init__(self, findings: pl.DataFrame) -> None:
        errors = findings.filter(pl.col("severity") == "error")
        first = {c: errors[c][0] for c in ("document", "row", "code", "path", "found", "expected")}
        at = "".join(f", {name}" for name in (_row(first["row"]), first["path"]) if name)
        more = f"; and {errors.height - 1:,} more findings" if errors.height > 1 else ""
        super().__init__(
            f"{first['document']}{at}: {first['code']}: found {first['found'] or 'nothing'}; expected {first['expected']}{more}"
        )
        self.code, self.findings = str(first["code"]), findings
        self.exit_code = 3 if unreadable(findings) else 1


class Refused(Exception):  # noqa: N818 - it is no error for the caller, but a finding
    """A check of the whole document that ends the reading."""

    def __init__(self, code: str, found: str, *, path: str | None = None, document: str | None = None) -> None:
        super().__init__(code)
        self.code, self.found, self.path, self.document = code, found, path, document


def findings(
    code: str, document: str, where: pl.DataFrame, severities: Mapping[str, Severity] | None = None
) -> pl.DataFrame:
    """Findings of one check.

    Args:
        code: Of the check.
        document: What the dataset is called.
        where: row, path, found, and expected where it says more than the check; one line a finding.
        severities: In place of those of the checks.
    """
    check = CHECKS[code]
    expected = pl.col("expected") if "expected" in where.columns else pl.lit(check.expected)
    made = where.select(
        pl.lit(document).alias("document"),
        "row",
        pl.lit(code).alias("code"),
        pl.lit((severities or {}).get(code, check.severity)).alias("severity"),
        "path",
        pl.col("found").str.head(FOUND),
        expected.fill_null(check.expected).alias("expected"),
    )
    return made.cast(TRAINING_FINDINGS.schema)


def finding(
    code: str,
    document: str,
    found: str,
    *,
    path: str | None = None,
    severities: Mapping[str, Severity] | None = None,
) -> pl.DataFrame:
    """One finding about a whole document."""
    where = {"row": pl.Int64(), "path": pl.String(), "found": pl.String()}
    return findings(
        code, document, pl.DataFrame({"row": [None], "path": [path], "found": [found]}, schema=where), severities
    )


def unreadable(findings: pl.DataFrame) -> bool:
    """Whether findings say that the dataset could not be read at all."""
    return findings.filter(pl.col("row").is_null(), pl.col("code").is_in(list(UNREADABLE))).height > 0


def joined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Findings in the order of rows, those of whole documents first, then of the checks."""
    every = pl.concat([TRAINING_FINDINGS.empty(), *parts])
    order = pl.col("code").replace_strict({c: n for n, c in enumerate(CHECKS)}, return_dtype=pl.Int64)
    return every.sort("document", "row", order, "path", nulls_last=False, maintain_order=True)


def _row(number: int | None) -> str:
    return "" if number is None else f"row {number}"
