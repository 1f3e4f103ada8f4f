"""Steps that compare task with task: by content, by name, by normalised text, and (extra `dedup`) by likeness."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from expcomp.datasets.decontaminate.heldout import task_identity
from expcomp.datasets.decontaminate.words import normalized
from expcomp.datasets.options import Policy
from expcomp.errors import ConfigError
from expcomp.io.digest import sha256_expr

LEVELS = ("exact_content", "exact_name", "normalized_text", "ngram", "minhash")
TASK_HITS: dict[str, pl.DataType] = {"task_id": pl.String(), "level": pl.String(), "heldout": pl.UInt32()}
# An id like `django__django-11099` or `tau_bench/airline/8` names one task without its benchmark; `17` does not.
_DISTINCTIVE = r"__|[^/]/[^/]"


def task_hits(tasks: pl.DataFrame, held: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Tasks that are held-out ones (`TASK_HITS`), a line for each level and held-out task.

    Args:
        tasks: Table `tasks` of a compile, or any frame with some of its columns.
        held: Held-out tasks (`held_out`).
        policy: Says which levels count.

    Raises:
        ConfigError: A level that there is not.
    """
    check_levels(policy)
    ours = task_identity(tasks)
    theirs = held.with_columns(heldout=pl.int_range(pl.len(), dtype=pl.UInt32), norm=normalized(pl.col("prompt")))
    theirs = theirs.with_columns(norm=pl.when(pl.col("norm") != "").then("norm")).with_columns(
        text_digest=sha256_expr("norm")
    )
    steps: dict[str, Callable[[], pl.DataFrame]] = {
        "exact_content": lambda: _equal(ours, theirs, "content_digest"),
        "exact_name": lambda: _named(ours, theirs),
        "normalized_text": lambda: _equal(ours, theirs, "text_digest"),
        "minhash": lambda: _alike(tasks, held, policy),
    }
    hits = [step().with_columns(level=pl.lit(n)) for n, step in steps.items() if n in policy.levels]
    found = [h.select(*TASK_HITS).cast(pl.Schema(TASK_HITS)) for h in hits]
    return pl.concat([pl.DataFrame(schema=TASK_HITS), *found]).unique(maintain_order=True)


def check_levels(policy: Policy) -> None:
    """Refuse levels that do not exist.

    Raises:
        ConfigError: There is one.
    """
    wrong = [n for n in policy.levels if n not in LEVELS]
    if wrong:
        msg = f"no level {', '.join(wrong)} of the decontamination; expected some of {', '.join(LEVELS)}"
        raise ConfigError(msg)


def _equal(ours: pl.DataFrame, theirs: pl.DataFrame, *on: str) -> pl.DataFrame:
    left = ours.select("task_id", *on)
    return left.join(theirs.select("heldout", *on), on=on, how="inner", maintain_order="left_right").select(
        "task_id", "heldout"
    )


def _named(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    # Tasks go by the name inside their benchmark, by the native id, which may leave the domain open, and by our own id; each may
    # have reached a held-out list, and of several that a name fits all are kept out.
    natives = ours.with_columns(task="native_id")
    ids = ours.with_columns(task="task_id")
    names = pl.concat([ours, natives, ids]).drop_nulls("task").unique(maintain_order=True)
    alone = pl.col("task").str.contains(_DISTINCTIVE)
    both = _equal(names, theirs, "benchmark", "task")
    return pl.concat([both, _equal(names.filter(alone), theirs.filter(alone), "task")])


def _alike(tasks: pl.DataFrame, held: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    from expcomp.datasets.near import near_matches

    if "instruction" not in tasks.columns:
        return pl.DataFrame(schema={"task_id": pl.String, "heldout": pl.UInt32})
    pairs = near_matches(tasks["instruction"].cast(pl.String), held["prompt"], jaccard=policy.jaccard)
    return pl.DataFrame({"task_id": tasks["task_id"].gather(pairs["left"]), "heldout": pairs["right"]})


def semantic_review(
    texts: pl.DataFrame, held: pl.DataFrame, embed: Callable[[list[str]], list[list[float]]], *, cosine: float = 0.9
) -> pl.DataFrame:
    """Texts near a held-out prompt by an embedding of the caller's: a list to look at, from which nothing is ever dropped.

    Args:
        texts: row, text.
        held: Held-out tasks.
        embed: Texts to vectors, all of one length.
        cosine: Likeness from which a text is on the list.

    Returns:
        row, heldout, cosine; for each text its nearest held-out task.
    """
    asked = held.with_row_index("heldout").drop_nulls("prompt")
    if not asked.height or not texts.height:
        return pl.DataFrame(schema={"row": texts.schema["row"], "heldout": pl.UInt32, "cosine": pl.Float64})

    def unit(column: pl.Series) -> pl.DataFrame:
        vectors = embed(column.to_list())
        flat = pl.DataFrame({"v": [[float(x) for x in v] for v in vectors]}, schema={"v": pl.List(pl.Float64)})
        norm = pl.col("v").list.eval(pl.element().pow(2)).list.sum().sqrt()
        return flat.select(pl.col("v") / pl.when(norm > 0).then(norm))

    theirs = asked.select("heldout").hstack(unit(asked["prompt"]).rename({"v": "b"}))
    parts = []
    for start in range(0, texts.height, 256):
        some = texts.slice(start, 256)
        ours = some.select("row").hstack(unit(some["text"].fill_null("")).rename({"v": "a"}))
        near = ours.join(theirs, how="cross", maintain_order="left").select(
            "row", "heldout", cosine=(pl.col("a") * pl.col("b")).list.sum()
        )
        best = near.sort("row", "cosine", "heldout", descending=[False, True, False]).unique(
            "row", keep="first", maintain_order=True
        )
        parts.append(best.filter(pl.col("cosine") >= cosine))
    return pl.concat(parts)
