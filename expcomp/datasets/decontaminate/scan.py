"""Texts against the index: which words of which held-out field one row holds."""

from __future__ import annotations

import polars as pl

from expcomp.datasets.decontaminate.index import Index, lookup
from expcomp.datasets.decontaminate.words import Stream, normalized, streams
from expcomp.tables.decontamination import FIELD, VERDICT

FOUND: dict[str, pl.DataType] = {
    "row": pl.UInt32(),
    "heldout": pl.UInt32(),
    "field": FIELD,
    "tokens": pl.UInt32(),  # words of the field that count
    "matched": pl.UInt32(),  # of these, in the row
    "coverage": pl.Float64(),
    "longest_run": pl.UInt32(),  # longest stretch of words matched one after the other
    "evidence": pl.Boolean(),  # the stretch is an n-gram of evidence
    "verdict": VERDICT,
}
_U32 = pl.UInt32()
_HIT = {"row": _U32, "gram": _U32}
_WHOLE = {"row": _U32, "fid": _U32}


def scan(index: Index, texts: pl.DataFrame) -> pl.DataFrame:
    """What rows hold of held-out tasks (`FOUND`), where it is enough for a verdict.

    Args:
        index: What to look for.
        texts: row (UInt32), text: all texts of a row, in one call. What they hold counts together.
    """
    rows = (
        texts.filter(pl.col("text").str.len_bytes() > 0)
        .group_by("text", maintain_order=True)
        .agg(pl.col("row").unique())
    )
    grams, wholes = [pl.DataFrame(schema=_HIT)], [pl.DataFrame(schema=_WHOLE)]
    for at, stream in streams(rows["text"]):
        text = (pl.col("text") + at).alias("text")
        grams.append(_spread(_grams(index, stream).with_columns(text), rows, "gram"))
        wholes.append(_spread(_wholes(index, stream, rows["text"].slice(at)).with_columns(text), rows, "fid"))
    measured = [_measure(index, pl.concat(grams).unique(maintain_order=True)), _whole(index, pl.concat(wholes))]
    found = _judge(index, pl.concat(measured))
    return (
        found.join(index.members, on="fid", how="inner", maintain_order="left")
        .select(pl.col(n).cast(t) for n, t in FOUND.items())
        .sort("row", "heldout", "field")
    )


def _spread(hits: pl.DataFrame, rows: pl.DataFrame, what: str) -> pl.DataFrame:
    """Hits of texts as hits of the rows that hold them."""
    owners = rows["row"].gather(hits["text"])
    return hits.select(owners.alias("row"), what).explode("row").unique(maintain_order=True)


def _grams(index: Index, stream: Stream) -> pl.DataFrame:
    """text, gram: verified on the words themselves."""
    last = len(stream) - index.policy.n + 1
    if not index.grams.height or last <= 0:
        return pl.DataFrame(schema={"text": _U32, "gram": _U32})
    hashes = stream.grams(index.policy.n).head(last)
    at = index.maybe(hashes)
    near = lookup(index.grams["hash"], hashes.gather(at))
    found = index.grams.select("gram", "size", there="at")[near["found"]]
    hits = found.with_columns(at=at.gather(near["at"]))
    text = stream.first.search_sorted(hits["at"], side="right").cast(_U32) - 1
    hits = hits.with_columns(text=text)
    hits = hits.filter(pl.col("at") + pl.col("size") <= pl.lit(stream.first).gather(pl.col("text") + 1))
    if not hits.height:
        return hits.select("text", "gram")
    needed = (
        hits.select(at=pl.int_ranges("at", pl.col("at") + pl.col("size"), dtype=_U32))
        .explode("at")
        .unique(maintain_order=True)
        .sort("at")
    )
    known = needed.with_columns(word=stream.words(needed["at"])).join(
        index.vocabulary, on="word", how="left", maintain_order="left"
    )
    # One column over all words of the portion, null where nobody asks.
    here = pl.lit(pl.Series([None], dtype=_U32).new_from_index(0, len(stream)).scatter(known["at"], known["id"]))
    there = pl.lit(index.words)
    most = int(hits["size"].max())  # type: ignore[arg-type]
    same = [
        (
            here.gather(pl.col("at") + k, null_on_oob=True) == there.gather(pl.col("there") + k, null_on_oob=True)
        ).fill_null(value=False)
        | (pl.col("size") <= k)
        for k in range(most)
    ]
    return hits.filter(pl.all_horizontal(same)).select("text", "gram").unique(maintain_order=True)


def _wholes(index: Index, stream: Stream, texts: pl.Series) -> pl.DataFrame:
    """text, fid: texts that are a field as a whole."""
    sizes = stream.first.diff()[1:].cast(_U32)
    maybe = pl.DataFrame({"text": pl.int_range(sizes.len(), dtype=_U32, eager=True), "size": sizes})
    maybe = maybe.join(index.whole.select("size"), on="size", how="semi", maintain_order="left")
    maybe = maybe.select("text", texts.gather(maybe["text"]).alias("norm")).with_columns(normalized(pl.col("norm")))
    return maybe.join(index.whole.select("fid", "norm"), on="norm", how="inner", maintain_order="left").select(
        "text", "fid"
    )


def _measure(index: Index, hits: pl.DataFrame) -> pl.DataFrame:
    """row, fid, matched, longest_run, whole: over the places of the n-grams that a row holds."""
    at, size, same = pl.col("at"), pl.col("size"), pl.col("row", "fid")
    there = lookup(index.places["gram"], hits["gram"])
    found = index.places[there["found"]].with_columns(row=hits["row"].gather(there["at"])).sort("row", "place")
    follows = pl.all_horizontal(same == same.shift(1), pl.col("place") == pl.col("place").shift(1) + 1)
    runs = (
        # A place goes on from the one before if no other lies between, and no word of boilerplate either.
        found.with_columns(stretch=(follows & (at - at.shift(1) <= size)).fill_null(value=False).not_().cum_sum())
        .group_by("row", "fid", "stretch", maintain_order=True)
        .agg(begin=at.first(), end=(at + size).last())
    )
    ahead = pl.col("begin").shift(-1) - pl.col("begin")
    length = pl.col("end") - pl.col("begin")
    return runs.group_by("row", "fid", maintain_order=True).agg(
        matched=pl.min_horizontal(ahead.fill_null(length), length).sum(),
        longest_run=length.max(),
        whole=pl.lit(value=False),
    )


def _whole(index: Index, hits: pl.DataFrame) -> pl.DataFrame:
    size = index.whole.select("fid", matched="size", longest_run="size", whole=pl.lit(value=True))
    return hits.unique(maintain_order=True).join(size, on="fid", how="inner", maintain_order="left")


def _judge(index: Index, measured: pl.DataFrame) -> pl.DataFrame:
    policy = index.policy
    found = measured.join(index.fields, on="fid", how="inner", maintain_order="left")
    found = found.with_columns(
        coverage=pl.col("matched") / pl.col("tokens"),
        evidence=(pl.col("longest_run") >= policy.evidence_n),
    )
    # A short answer as a whole message may be chance; a short question hardly is.
    chance = pl.col("whole") & (pl.col("field") != "prompt")
    drop = ((pl.col("coverage") >= policy.coverage) | (pl.col("longest_run") >= policy.run)) & ~chance
    review = pl.col("evidence") | chance
    verdict = pl.when(drop).then(pl.lit("drop")).when(review).then(pl.lit("review"))
    return found.with_columns(verdict=verdict.cast(VERDICT)).drop_nulls("verdict")
