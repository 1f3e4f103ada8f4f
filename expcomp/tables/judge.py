"""Tables of a judge: the rows it is given, and one verdict for each."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import Table, flag, integer, not_negative, one_of, real, text, texts, unit_interval
from expcomp.tables.vocab import LABEL_SOURCE

VERDICT = pl.Enum(["accept", "reject", "uncertain"])

ERRORS = {
    "no_content": "the row has no content to judge",
    "secret_after_redaction": "the row still holds a secret and was not sent",
    "private_path_after_redaction": "the row still holds a private path and was not sent",
    "pii_after_redaction": "the row still holds personal data and was not sent",
    "verifier_only": "only a verifier may see the row; it was not sent",
    "malformed_answer": "the model's answer is not the JSON object that it was asked for",
    "unknown_verdict": "the model's verdict is none of accept, reject and uncertain",
    "score_out_of_range": "the model's score lies outside 0..1",
    "empty_answer": "the model answered nothing",
    "cut_answer": "the answer was cut off at its greatest length",
    "withheld_answer": "the model or its endpoint declined to answer",
    "timeout": "no answer in time, after all retries",
    "connection_failed": "no connection, after all retries",
    "rate_limited": "the endpoint asks for fewer requests, or for a longer wait",
    "server_failed": "the endpoint failed, after all retries",
    "bad_response": "the endpoint's response is no chat completion, after all retries",
    "request_refused": "the endpoint does not take the request",
    "endpoint_failing": "not asked: too many rows before it failed one after another",
    "budget": "not asked, or not asked again: the budget is used up",
}
"""Why a row has no verdict."""

JUDGE_ERROR = pl.Enum(list(ERRORS))

JUDGE_INPUT = Table(
    "judge_input",
    "One row as a judge is given it.",
    {
        "row_id": text("row", nullable=False),
        "content": text("canonical JSON of the row without envelope, ids and measures: what a model is shown"),
        "verifier_only": flag("only a verifier may see the row"),
        "accepted": flag("no gate objects"),
        "reject_reasons": texts("gates that object"),
    },
    keys=("row_id",),
)

JUDGE_VERDICTS = Table(
    "judge_verdicts",
    "What a judge says of one row. A row without a verdict says why; it never gets one by default.",
    {
        "row_id": text("row", nullable=False),
        "content_hash": text("`sha256:` and hex digest of the content that was judged"),
        "verdict": one_of(VERDICT, "the verdict; null when there is none"),
        "score": real("the score that the model gives, 0..1; null when it gives none, and for rules"),
        "reasons": texts("what the judge names as reasons; null without a verdict"),
        "label_source": one_of(LABEL_SOURCE, "model_judge, or heuristic for rules; null without a verdict"),
        "model": text("model that was asked for"),
        "model_reported": text("model that the endpoint says has answered"),
        "prompt_digest": text(
            "digest of all that is sent beside the content: instruction, form of the answer, sampling"
        ),
        "cached": flag("no call was made for this row in this run: its content was judged before", nullable=False),
        "attempts": integer("requests it took to get the answer, or that were made in vain", nullable=False),
        "prompt_tokens": integer("tokens read, as the endpoint reports them"),
        "completion_tokens": integer("tokens written, as the endpoint reports them"),
        "error": one_of(JUDGE_ERROR, "why there is no verdict; null when there is one"),
        "error_detail": text("what was found, and what to do"),
    },
    {
        "score|unit": unit_interval("score"),
        "attempts|not_negative": not_negative("attempts"),
        "verdict|error": pl.col("verdict").is_null() == pl.col("error").is_not_null(),
        "verdict|label_source": pl.col("verdict").is_null() == pl.col("label_source").is_null(),
        "verdict|reasons": pl.col("verdict").is_null() == pl.col("reasons").is_null(),
        "score|verdict": pl.col("score").is_null() | pl.col("verdict").is_not_null(),
    },
    keys=("row_id",),
)
JUDGE_TABLES = {t.name: t for t in (JUDGE_INPUT, JUDGE_VERDICTS)}
