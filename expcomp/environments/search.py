"""Search in a package: one line of text for each rule, note, demonstration, action and recorded transition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from expcomp.environments.records import Frames
from expcomp.io.text_index import TextIndex
from expcomp.tables.environment import SEARCH_KIND

FIELDS = ("action", "arguments", "observation", "text")
WEIGHTS = (4.0, 3.0, 1.0, 2.0)
"""BM25 weights of the fields: names say more than answers."""

KIND_WEIGHTS = {"rule": 1.5, "action": 1.3, "note": 1.2, "demonstration": 1.1, "evidence": 1.0}
PER_EPISODE = 3
WORDS = 32
DEEP = 20
"""Candidates looked at for each hit that is asked for: the rest is left out by kind, confidence and episode."""

_WORD = re.compile(r"[\w./-]+")

HITS: dict[str, pl.DataType] = {
    "kind": SEARCH_KIND,
    "id": pl.String(),
    "score": pl.Float64(),
    "action_type": pl.String(),
    "status": pl.String(),
    "episode_id": pl.String(),
    "snippet": pl.String(),
}


def catalogue(frames: Frames) -> pl.DataFrame:
    """Every line that can be found, in a fixed order: kind, id, status, confidence, episode, args_key and the text fields."""
    return pl.concat(
        [_rules(frames), _actions(frames), _notes(frames), _demonstrations(frames), _evidence(frames)], how="vertical"
    )


def _line(frame: pl.DataFrame, kind: str, **columns: pl.Expr | str) -> pl.DataFrame:
    none = pl.lit(None, pl.String)
    names = ("id", "status", "episode_id", "args_key", *FIELDS)
    values = {n: columns.get(n, none) for n in names}
    made = {n: (pl.col(v) if isinstance(v, str) else v).cast(pl.String) for n, v in values.items()}
    confidence = columns.get("confidence", pl.lit(None))
    number = pl.col(confidence) if isinstance(confidence, str) else confidence
    return frame.with_columns(
        _kind=pl.lit(kind, SEARCH_KIND), _confidence=number.cast(pl.Float64), **{f"_{n}": e for n, e in made.items()}
    ).select(
        pl.col("_kind").alias("kind"),
        pl.col("_confidence").alias("confidence"),
        *(pl.col(f"_{n}").alias(n) if n not in FIELDS else pl.col(f"_{n}").fill_null("").alias(n) for n in names),
    )


def _words(*columns: str) -> pl.Expr:
    return pl.concat_str([pl.col(c).cast(pl.String) for c in columns], separator=" ", ignore_nulls=True)


def _rules(frames: Frames) -> pl.DataFrame:
    """Also those that do not run: a withheld rule is knowledge too, and says so."""
    conditions = (
        frames["conditions"]
        .sort("owner_id", "ordinal")
        .group_by("owner_id", maintain_order=True)
        .agg(_when=_words("left", "op", "right").str.join(" "))
    )
    joined = frames["rules"].join(conditions, left_on="rule_id", right_on="owner_id", how="left", maintain_order="left")
    return _line(
        joined,
        "rule",
        id="rule_id",
        status="status",
        confidence="confidence",
        action="action_type",
        observation="observation_template",
        text=_words("rule_id", "description", "outcome", "_when"),
    )


def _actions(frames: Frames) -> pl.DataFrame:
    arguments = (
        frames["action_args"]
        .sort("action", "arg")
        .group_by("action", maintain_order=True)
        .agg(_args=pl.col("arg").str.join(" "))
    )
    joined = frames["action_schema"].join(arguments, on="action", how="left", maintain_order="left")
    return _line(joined, "action", id="action", action="action", arguments="_args", text="description")


def _notes(frames: Frames) -> pl.DataFrame:
    actions = pl.col("action_types").list.join(" ")
    return _line(
        frames["notes"],
        "note",
        id="note_id",
        status="status",
        confidence="confidence",
        action=actions,
        text=_words("kind", "statement"),
    )


def _demonstrations(frames: Frames) -> pl.DataFrame:
    return _line(
        frames["demonstrations"],
        "demonstration",
        id="demo_id",
        action="action_type",
        arguments="arguments_json",
        observation="observation",
        text="outcome",
    )


def _evidence(frames: Frames) -> pl.DataFrame:
    return _line(
        frames["transitions"],
        "evidence",
        id="transition_id",
        episode_id="episode_id",
        args_key="args_key",
        action="action_type",
        arguments="arguments_json",
        observation="observation",
    )


def write_index(frames: Frames, path: Path) -> None:
    """Write the index of a package; it can be made again from the tables at any time."""
    index = TextIndex(path, FIELDS)
    try:
        index.fill(_texts(catalogue(frames)))
    finally:
        index.close()


def _texts(lines: pl.DataFrame) -> zip[tuple[str, ...]]:
    return zip(*(lines[f].to_list() for f in FIELDS), strict=True)


@dataclass
class Search:
    """Search over one package.

    Args:
        frames: Its tables.
        path: Its index file; without one an index is made in memory.
        fts: Use FTS5; by default where there is.
    """

    frames: Frames
    path: Path | None = None
    fts: bool | None = None

    def __post_init__(self) -> None:
        self.lines = catalogue(self.frames).with_row_index("_at")
        if self.path is not None and self.path.is_file():
            self.index = TextIndex.open(self.path)
        else:
            self.index = TextIndex(None, FIELDS, fts=self.fts)
            self.index.fill(_texts(self.lines))

    def find(
        self,
        text: str = "",
        *,
        kinds: Sequence[str] = (),
        action: str | None = None,
        args_key: str | None = None,
        limit: int = 10,
    ) -> pl.DataFrame:
        """The best lines: those of equal arguments first, then by BM25 x kind weight x (1 + confidence) / 2.

        Args:
            text: Words; any of them counts.
            kinds: Only these kinds; default: all.
            action: Only of this action.
            args_key: Recorded transitions with exactly these arguments come first.
            limit: Lines to return; at most 3 of them from one episode.
        """
        words = list(dict.fromkeys(w.strip("./-") for w in _WORD.findall(text)))
        hits = self.index.search([w for w in words if w][:WORDS], WEIGHTS, limit * DEEP)
        scored = pl.DataFrame(hits, schema={"_at": pl.UInt32, "_rank": pl.Float64}, orient="row")
        same = pl.col("args_key") == args_key if args_key is not None else pl.lit(value=False)
        found = self.lines.join(scored, on="_at", how="left", maintain_order="left").filter(
            pl.col("_rank").is_not_null() | same.fill_null(value=False)
        )
        if kinds:
            found = found.filter(pl.col("kind").cast(pl.String).is_in(list(kinds)))
        if action is not None:
            found = found.filter(pl.col("action") == action)
        weight = pl.col("kind").cast(pl.String).replace_strict(KIND_WEIGHTS, return_dtype=pl.Float64)
        claims = pl.col("kind").cast(pl.String).is_in(["rule", "note"])
        trust = pl.when(claims).then((1 + pl.col("confidence").fill_null(0)) / 2).otherwise(1.0)
        return (
            found.with_columns(score=pl.col("_rank").fill_null(0) * weight * trust, _same=same.fill_null(value=False))
            .sort("_same", "score", "_at", descending=[True, True, False])
            .filter(pl.col("episode_id").is_null() | (pl.int_range(pl.len()).over("episode_id") < PER_EPISODE))
            .head(limit)
            .select(
                "kind",
                "id",
                "score",
                pl.col("action").alias("action_type"),
                "status",
                "episode_id",
                pl.concat_str([pl.col(f).replace("", None) for f in FIELDS], separator=" | ", ignore_nulls=True)
                .str.slice(0, 240)
                .alias("snippet"),
            )
            .cast(HITS)  # type: ignore[arg-type]
        )

    def close(self) -> None:
        """Close the index."""
        self.index.close()
