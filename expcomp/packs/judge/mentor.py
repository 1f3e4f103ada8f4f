"""A model as judge: redacted rows to an endpoint that the user names, one verdict or one reason back for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import ConfigError
from expcomp.evidence.redact import redact, residual
from expcomp.io import canon
from expcomp.io.answer_store import Answer, AnswerStore
from expcomp.io.chat_endpoint import check_url, open_endpoint
from expcomp.io.digest import PREFIX, sha256_expr
from expcomp.io.progress import Progress
from expcomp.packs.judge.answers import Read, read_answer
from expcomp.packs.judge.ask import Asker, Failed
from expcomp.packs.judge.budget import Budget
from expcomp.packs.judge.options import AskOptions
from expcomp.packs.judge.port import check_input, verdicts
from expcomp.packs.judge.prompt import Prompt
from expcomp.tables.judge import ERRORS

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANSWERS = {
    "content_hash": pl.String(),
    "verdict": pl.String(),
    "score": pl.Float64(),
    "reasons": pl.List(pl.String()),
    "error": pl.String(),
    "error_detail": pl.String(),
    "model_reported": pl.String(),
    "prompt_tokens": pl.Int64(),
    "completion_tokens": pl.Int64(),
    "attempts": pl.Int64(),
}


class MentorJudge:
    """A model behind a chat endpoint.

    Each content is asked for once: what is kept under the same model, prompt and content is not asked again, so that a run that
    was stopped goes on where it ended. Answers are kept as they came, with or without a verdict in them; failures are not.

    Args:
        endpoint: Base URL of the endpoint; there is no default, and nothing else is contacted.
        model: Model to ask for.
        cache: File of answers; None keeps them for the life of the judge.
        prompt: What the model is told.
        options: Limits of a run.
        api_key: Key for the endpoint; environment variables are not read.
        show_progress: Show a bar on stderr, when that is a terminal.

    Attributes:
        budget: What the last `score` used, and why it ended early if it did.

    Raises:
        ConfigError: The endpoint is no URL, or the model has no name.
        SourceError: `cache` is a file of another kind.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        cache: str | Path | None = None,
        prompt: Prompt | None = None,
        options: AskOptions | None = None,
        api_key: str | None = None,
        show_progress: bool = False,
    ) -> None:
        check_url(endpoint)
        if not model.strip():
            raise ConfigError("the model has no name; give the one that the endpoint knows it by")
        self.endpoint, self.model = endpoint, model
        self.prompt, self.options = prompt or Prompt(), options or AskOptions()
        self.budget = Budget(self.options)
        self._key, self._progress = api_key, Progress(show=show_progress)
        self._store = AnswerStore(None if cache is None else Path(cache))

    def score(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Verdicts of the rows of a frame (table `judge_input`), in its order.

        Raises:
            TableError: A column that is needed is missing, or row_id is null or stands twice.
            ConfigError: The extra is not installed, or the endpoint refuses every request (no key, no such model).
        """
        rows = self._looked_at(frame)
        wanted = self._wanted(rows)
        keys = {h: self._answer_key(h) for h in wanted["content_hash"].to_list()}
        answers = self._kept(keys)
        new = wanted.filter(~pl.col("content_hash").is_in(pl.Series(list(answers), dtype=pl.String).implode()))
        self.budget = Budget(self.options)
        failed = self._ask(new, keys, answers) if new.height else {}
        return self._verdicts(rows, new, answers, failed)

    def plan(self, frame: pl.DataFrame) -> dict[str, int]:
        """What `score` would do: rows refused, contents to judge, of these kept ones, and requests that are missing. Asks nothing."""
        rows = self._looked_at(frame)
        wanted = self._wanted(rows)
        kept = len(self._kept({h: self._answer_key(h) for h in wanted["content_hash"].to_list()}))
        return {
            "rows": rows.height,
            "refused": int(rows["error"].is_not_null().sum()),
            "contents": wanted.height,
            "kept": kept,
            "missing": wanted.height - kept,
        }

    def close(self) -> None:
        """Close the file of answers."""
        self._store.close()

    def _looked_at(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows with the hash of their content, and in `error` why a row may not be sent."""
        check_input(frame, ("row_id", "content", "verifier_only"))
        refusals = {
            "no_content": pl.col("content").str.strip_chars().fill_null("") == "",
            "verifier_only": pl.col("verifier_only").fill_null(value=False),
            **{_REFUSED[kind]: hit for kind, hit in residual("content", pii=self.options.pii).items()},
        }
        error = pl.coalesce(pl.when(hit).then(pl.lit(name)) for name, hit in refusals.items())
        digest = pl.concat_str(pl.lit(PREFIX), sha256_expr("content"))
        return frame.select("row_id", "content", content_hash=digest, error=error).with_columns(
            error_detail=pl.col("error").replace_strict(ERRORS, default=None, return_dtype=pl.String)
        )

    def _wanted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The contents that may be sent, each once, in the order of the rows."""
        return rows.filter(pl.col("error").is_null()).unique("content_hash", keep="first", maintain_order=True)

    def _answer_key(self, content_hash: str) -> str:
        return canon.digest([self.model, self.prompt.digest, content_hash])

    def _kept(self, keys: Mapping[str, str]) -> dict[str, Answer]:
        """Answers that are there, by content; with `ask_again` not those without a verdict."""
        found = self._store.known(list(keys.values()))
        if self.options.ask_again:
            found = {key: answer for key, answer in found.items() if not read_answer(answer).error}
        return {h: found[key] for h, key in keys.items() if key in found}

    def _ask(self, new: pl.DataFrame, keys: Mapping[str, str], answers: dict[str, Answer]) -> dict[str, Failed]:
        """Ask for what is missing; fills `answers` and returns the failures, by content."""
        failed: dict[str, Failed] = {}
        pairs = zip(new["content_hash"].to_list(), new["content"].to_list(), strict=True)
        requests = ((h, self.prompt.request(self.model, text)) for h, text in pairs)
        endpoint = open_endpoint(self.endpoint, api_key=self._key, timeout=self.options.timeout)
        try:
            with self._progress.stage("judge", new.height) as done:

                def take(content_hash: str, result: Answer | Failed) -> None:
                    if isinstance(result, Failed):
                        failed[content_hash] = result
                    else:
                        answers[content_hash] = self._store.put(
                            keys[content_hash], result, replace=self.options.ask_again
                        )
                    done(len(failed) + self.budget.spent.answers)

                Asker(endpoint.ask, self.budget).run(requests, take)
        finally:
            endpoint.close()
        return failed

    def _verdicts(
        self, rows: pl.DataFrame, new: pl.DataFrame, answers: Mapping[str, Answer], failed: Mapping[str, Failed]
    ) -> pl.DataFrame:
        stop = self.budget.stop
        left = [h for h in new["content_hash"].to_list() if h not in answers and h not in failed]
        lines: list[tuple[Any, ...]] = [_line(h, a) for h, a in answers.items()]
        lines += [
            (h, *Read(error=f.error, error_detail=f.detail), None, None, None, f.attempts) for h, f in failed.items()
        ]
        assert stop is not None or not left
        lines += [(h, *Read(error=stop.error, error_detail=stop.detail), None, None, None, 0) for h in left if stop]
        found, _ = redact(pl.DataFrame(lines, schema=_ANSWERS, orient="row"), ["reasons", "error_detail"])
        sent = pl.col("error").is_null()
        first = pl.int_range(pl.len()).over("content_hash", "error") == 0
        asked = pl.col("content_hash").is_in(new["content_hash"].implode()) & first
        judged = rows.with_columns(_sent=sent, _cached=sent & ~asked).join(
            found, on="content_hash", how="left", maintain_order="left", suffix="_found"
        )
        answered = pl.col("_sent") & pl.col("verdict").is_not_null()
        asked_for = pl.col("_sent") & (pl.col("attempts") > 0)
        value = {
            n: pl.when("_sent").then(n)
            for n in _ANSWERS
            if n not in ("content_hash", "error", "error_detail", "attempts")
        }
        return verdicts(
            judged,
            **value,
            label_source=pl.when(answered).then(pl.lit("model_judge")),
            model=pl.when(asked_for).then(pl.lit(self.model)),
            prompt_digest=pl.when(asked_for).then(pl.lit(self.prompt.digest)),
            cached=pl.col("_cached")
            & pl.col("content_hash").is_in(pl.Series(list(answers), dtype=pl.String).implode()),
            attempts=pl.when("_sent").then("attempts").otherwise(0),
            error=pl.when("_sent").then("error_found").otherwise("error"),
            error_detail=pl.when("_sent").then("error_detail_found").otherwise("error_detail"),
        )


_REFUSED = {
    "secret": "secret_after_redaction",
    "path": "private_path_after_redaction",
    "pii": "pii_after_redaction",
}


def _line(content_hash: str, answer: Answer) -> tuple[Any, ...]:
    usage = (answer.prompt_tokens, answer.completion_tokens)
    return (content_hash, *read_answer(answer), answer.model, *usage, answer.attempts)
