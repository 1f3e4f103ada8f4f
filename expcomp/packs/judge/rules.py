"""The default judge: the gates of the compile, which ran already. No model is asked."""

from __future__ import annotations

import polars as pl

from expcomp.io.digest import PREFIX, sha256_expr
from expcomp.packs.judge.port import check_input, verdicts


class RuleJudge:
    """Accepts a row that no gate objects to, and rejects the others with the names of the gates. It gives no score."""

    def score(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Verdicts of the rows of a frame (table `judge_input`), in its order.

        Raises:
            TableError: A column that is needed is missing, or row_id is null or stands twice.
        """
        check_input(frame, ("row_id", "content", "accepted", "reject_reasons"))
        known = pl.col("accepted").is_not_null()
        return verdicts(
            frame,
            content_hash=pl.concat_str(pl.lit(PREFIX), sha256_expr("content")),
            verdict=pl.when("accepted").then(pl.lit("accept")).when(known).then(pl.lit("reject")),
            reasons=pl.when(known).then(pl.col("reject_reasons").fill_null([])),
            label_source=pl.when(known).then(pl.lit("heuristic")),
            cached=pl.lit(value=False),
            attempts=pl.lit(0),
            error=pl.when(~known).then(pl.lit("no_content")),
            error_detail=pl.when(~known).then(pl.lit("no gate has looked at the row; give the rows of a compile")),
        )
