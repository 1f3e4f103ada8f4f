"""Refs: package-relative POSIX paths. Rules as data; each rule once as an expression for columns, once for a single text."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

import polars as pl

from expcomp.io.digest import sha256_expr

# Code and pattern of what is no ref, on the text with backslashes turned and white space trimmed; the first that fits counts.
PROBLEMS: tuple[tuple[str, str], ...] = (
    ("empty_ref", r"^(?:\./)*\.?$"),
    ("nul_ref", r"\x00"),
    ("url_ref", r"^[A-Za-z][A-Za-z0-9+.-]+:(?://|[^\\/\s]+@)"),
    ("drive_ref", r"^[A-Za-z]:"),
    ("home_ref", r"^~"),
    ("absolute_ref", r"^/"),
    ("dotdot_ref", r"(?:^|/)\.\.(?:/|$)"),
)
# Evidence kind by path; the first that fits counts.
KINDS: tuple[tuple[str, str], ...] = (
    ("task_spec", r"^(?:source_)?task/"),
    ("rubric", r"^rubric/"),
    ("artifact", r"/artifacts/"),
    ("trace", r"^attempts/.*agent_trace[^/]*\.json$"),
    ("actual_outputs", r"^attempts/.*actual_outputs[^/]*\.json$"),
    ("grader", r"^grading/.*grader"),
    ("verifier", r"^grading/.*verifier"),
    ("feedback", r"^feedback/"),
    ("training_signal", r"^signals/"),
    ("review_packet", r"^loops/.*review_packet"),
    ("revision_plan", r"^loops/.*revision_plan"),
    ("loop_decision", r"^loops/.*loop_decision"),
    ("contract_verification_or_repair", r"^loops/.*contract_"),
    ("loop_evidence", r"^loops/"),
)
HIDDEN = r"(?:^|/)hidden|(?:^|/)verifier_private_rubric\.json$"
_PROBLEMS = tuple((code, re.compile(pattern.replace("$", r"\Z"))) for code, pattern in PROBLEMS)
_HIDDEN = re.compile(HIDDEN.replace("$", r"\Z"))


def _turned(column: str) -> pl.Expr:
    return pl.col(column).str.replace_all("\\", "/", literal=True).str.strip_chars(" \t\r\n")


def ref_problem(column: str) -> pl.Expr:
    """Why a text is no ref (a code of `PROBLEMS`); null where it is one or where it is null."""
    text = _turned(column)
    return pl.coalesce(*(pl.when(text.str.contains(pattern)).then(pl.lit(code)) for code, pattern in PROBLEMS))


def normalise_ref(column: str) -> pl.Expr:
    """The ref in its one spelling; null where the text is no ref."""
    text = (
        _turned(column)
        .str.replace_all(r"/(?:\./)+", "/")
        .str.replace_all(r"/{2,}", "/")
        .str.replace(r"^(?:\./)+", "")
        .str.strip_suffix("/")
    )
    return pl.when(ref_problem(column).is_null()).then(text)


@lru_cache(maxsize=65_536)
def problem(ref: str) -> str | None:
    """`ref_problem` of one text."""
    text = ref.replace("\\", "/").strip(" \t\r\n")
    return next((code for code, pattern in _PROBLEMS if pattern.search(text)), None)


@lru_cache(maxsize=65_536)
def normalise(ref: str) -> str | None:
    """`normalise_ref` of one text."""
    if problem(ref) is not None:
        return None
    text = ref.replace("\\", "/").strip(" \t\r\n")
    text = re.sub(r"/(?:\./)+", "/", text)
    text = re.sub(r"/{2,}", "/", text)
    return re.sub(r"^(?:\./)+", "", text).removesuffix("/")


def is_hidden(ref: str) -> bool:
    """Whether a ref names a file that no agent and no row may see: a hidden folder or file, or the verifier's private rubric."""
    return ("hidden" in ref and _HIDDEN.search(ref) is not None) or ref.endswith("verifier_private_rubric.json")


def visibility_of(column: str) -> pl.Expr:
    """`hidden_excluded` or `visible`, by path."""
    return pl.when(pl.col(column).str.contains(HIDDEN)).then(pl.lit("hidden_excluded")).otherwise(pl.lit("visible"))


def kind_of(column: str) -> pl.Expr:
    """Evidence kind, by path."""
    return pl.coalesce(
        *(pl.when(pl.col(column).str.contains(pattern)).then(pl.lit(kind)) for kind, pattern in KINDS),
        pl.lit("package_file"),
    )


def evidence_id(ref: str) -> str:
    """`evidence_` and the first 16 hex digits of the sha256 of the ref; unique inside a package."""
    return "evidence_" + sha256(ref.encode("utf-8", "replace")).hexdigest()[:16]


def evidence_id_expr(column: str) -> pl.Expr:
    """`evidence_id` of a column."""
    return pl.concat_str(pl.lit("evidence_"), sha256_expr(column).str.head(16))
