"""What the verification of an output contract gives: one line a failure, a requirement that could not be checked, a file looked at."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import Table, flag, integer, one_of, text

LIST = pl.Enum(["output", "artifact"])

CONTRACT_FAILURES = Table(
    "contract_failures",
    "One fault of one file, or of one field of it, against an output contract.",
    {
        "path": text("path as the contract names it", nullable=False),
        "kind": one_of(LIST, "list of the contract that names it", nullable=False),
        "issue": text("`code`, or `code:field`", nullable=False),
        "code": text("stable code", nullable=False),
        "field": text("column, path in the document, heading or sheet"),
        "expectation": text("what the contract asks for", nullable=False),
        "found": text("what stands there", nullable=False),
        "count": integer("values, rows or records that are wrong, where they were counted"),
        "row": integer("the first of them, 0-based"),
        "repair_hint": text("what to do", nullable=False),
    },
    keys=("path", "issue"),
)
CONTRACT_WARNINGS = Table(
    "contract_warnings",
    "One requirement of a contract that no check here can decide.",
    {
        "path": text("path as the contract names it"),
        "kind": one_of(LIST, "list of the contract that names it"),
        "requirement": text("the requirement, as the contract words it", nullable=False),
        "status": text("why it was not decided: requires_reader, unknown_type, unknown_operation, ...", nullable=False),
    },
)
CONTRACT_CHECKED = Table(
    "contract_checked",
    "One file that a contract names.",
    {
        "path": text("path as the contract names it", nullable=False),
        "kind": one_of(LIST, "list of the contract that names it", nullable=False),
        "sheet": text("sheet of a workbook"),
        "required": flag("the file must be there", nullable=False),
        "exists": flag("a regular file was found", nullable=False),
        "found_at": text("path below the folder where it was found"),
        "format": text("format it was read as", nullable=False),
        "bytes": integer("size"),
        "sha256": text("`sha256:` and hex digest of the bytes; null when they were not read"),
        "rows": integer("data rows, items or lines"),
    },
)
CONTRACT_TABLES = {t.name: t for t in (CONTRACT_FAILURES, CONTRACT_WARNINGS, CONTRACT_CHECKED)}
