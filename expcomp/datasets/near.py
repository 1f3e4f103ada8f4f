"""Near duplicates: MinHash finds candidates (extra `dedup`), exact Jaccard similarity decides, clusters are what hangs together."""

from __future__ import annotations

import importlib
from array import array
from typing import Any

import polars as pl
import polars_hash as plh
import pyarrow as pa

from expcomp.datasets.decontaminate.words import Stream, streams
from expcomp.errors import ConfigError

WORDS = 5  # of a shingle
PERMUTATIONS = 128
SEED = 42
_WIDTHS = (16, 8, 4, 2)  # permutations of a band
_MARGIN = 0.05
_FULL = 64  # members of a bucket up to which all pairs are candidates
_NEXT = 8  # and beyond, the pairs of each with so many after it and with the first
_PORTION = 8_000_000  # shingles of the pairs that are compared at a time
_U32 = pl.UInt32()
_MIX = 0x9E3779B97F4A7C15


def near_duplicates(frame: pl.DataFrame, *, jaccard: float = 0.8, seed: int = SEED, text: str = "text") -> pl.DataFrame:
    """Clusters of rows whose texts share most of their word 5-grams.

    Args:
        frame: Key columns, unique and without null, and the text.
        jaccard: Similarity from which two rows are near duplicates.
        seed: Of the permutations.
        text: The column of the text.

    Returns:
        The key columns in the order of the frame, `cluster` (place of its kept row in the order of the keys), `kept` (true
        for its least key) and `size`. It depends on the set of rows alone, not on their order. A row like no other, and a
        row without words, is a cluster of one.

    Raises:
        ConfigError: The extra is not installed.
    """
    keys = [c for c in frame.columns if c != text]
    rows = frame.with_row_index("_given").sort(keys)
    pairs = near_pairs(rows[text], jaccard=jaccard, seed=seed)
    cluster = _components(rows.height, pairs)
    found = rows.select("_given", *keys, cluster=cluster).with_columns(
        kept=pl.col("cluster") == pl.int_range(pl.len(), dtype=_U32), size=pl.len().over("cluster").cast(_U32)
    )
    return found.sort("_given").drop("_given")


def near_pairs(texts: pl.Series, *, jaccard: float = 0.8, seed: int = SEED) -> pl.DataFrame:
    """Pairs of texts (left < right, by position) with at least this similarity. In a crowd of copies, enough to hold it together.

    Raises:
        ConfigError: The extra is not installed.
    """
    shingles, spans, bands = _sketched(texts, seed, _width(jaccard))
    # Equal texts need no comparison; the first stands for all of them.
    spans = spans.with_columns(_sum(shingles, "sum"), _sum(shingles * (shingles // 2 + 1), "mixed")).sort("row")
    spans = spans.with_columns(first=pl.col("row").first().over("size", "sum", "mixed"))
    same = spans.filter(pl.col("row") != pl.col("first")).select(left="first", right="row")
    pairs = _candidates(bands.join(same.select(row="right"), on="row", how="anti", maintain_order="left"))
    return pl.concat([same, _verified(pairs, spans.select("row", "at", "size"), shingles, jaccard)]).sort(
        "left", "right"
    )


def _sum(values: pl.Series, name: str) -> pl.Expr:
    """The sum of each span's values, which wraps."""
    total = pl.lit(pl.concat([pl.Series([0], dtype=pl.UInt64), values.cum_sum()]))
    return (total.gather(pl.col("at") + pl.col("size")) - total.gather("at")).alias(name)


def _rensa() -> Any:
    try:
        return importlib.import_module("rensa").RMinHash
    except ImportError as error:
        msg = "near duplicates need the extra dedup: pip install 'expcomp[dedup]'"
        raise ConfigError(msg) from error


def _width(jaccard: float) -> int:
    """Permutations of a band: as many as leave the similarity at which half of the pairs become candidates below what is wanted.

    For 0.8 these are 16 bands of 8, which cross at 0.71.
    """
    wide = [w for w in _WIDTHS if (w / PERMUTATIONS) ** (1 / w) <= jaccard - _MARGIN]
    return max(wide, default=_WIDTHS[-1])


def _sketched(texts: pl.Series, seed: int, width: int) -> tuple[pl.Series, pl.DataFrame, pl.DataFrame]:
    """Shingles, the span of each row in them (row, at, size), and bands (row, bucket)."""
    minhash = _rensa()
    shingles = [pl.Series("shingle", [], dtype=pl.UInt64)]
    spans = [pl.DataFrame(schema={"row": _U32, "at": _U32, "size": _U32})]
    bands = [pl.DataFrame(schema={"row": _U32, "bucket": pl.UInt64})]
    behind = 0
    for first, stream in streams(texts):
        rows, values = _shingles(stream)
        if not rows.height:
            continue
        rows = rows.with_columns(pl.col("row") + first, at=pl.col("size").cum_sum() - pl.col("size") + behind)
        offsets = [0, *rows["size"].cum_sum()]
        matrix = minhash.digest_matrix_from_flat_token_hashes(_buffer(values), offsets, PERMUTATIONS, seed)
        bands.append(_banded(rows["row"], matrix.to_rows(), width))
        shingles.append(values)
        spans.append(rows.select("row", "at", "size").cast(_U32))
        behind += values.len()
    return pl.concat(shingles), pl.concat(spans), pl.concat(bands)


def _buffer(column: pl.Series) -> memoryview[int]:
    """The numbers of a column as a buffer, without a copy."""
    values = column.rechunk().to_arrow()
    whole = memoryview(values.buffers()[1]).cast("B").cast("Q")
    return whole[values.offset : values.offset + len(values)]


def _shingles(stream: Stream) -> tuple[pl.DataFrame, pl.Series]:
    """Rows that have words with the number of their shingles (row, size), and the shingles in that order.

    A shingle is five words; a text with fewer is one shingle.
    """
    words = stream.words(pl.int_range(len(stream), dtype=_U32, eager=True))
    rows = pl.DataFrame({"at": stream.first[:-1], "size": stream.first.diff()[1:].cast(_U32)}).with_row_index("row")
    rows = rows.filter(pl.col("size") > 0)
    wide = rows.filter(pl.col("size") >= WORDS)
    hashes = words.to_frame("word").select(plh.col("word").nchash.xxhash64()).to_series()
    rolled = hashes
    for k in range(1, WORDS):
        rolled = rolled * _MIX + hashes.shift(-k)
    number = pl.int_ranges("at", pl.col("at") + pl.col("size") - WORDS + 1, dtype=_U32)
    long = rolled.gather(wide.select(number.explode()).to_series())
    few = rows.filter(pl.col("size") < WORDS)
    few = few.select("row", "size", at=pl.int_ranges("at", pl.col("at") + pl.col("size"), dtype=_U32)).explode("at")
    place = pl.int_range(pl.len(), dtype=_U32).over("row")
    power = pl.lit(pl.Series([pow(_MIX, k, 1 << 64) for k in range(1, WORDS)], dtype=pl.UInt64))
    few = few.with_columns(shingle=(hashes.gather(few["at"]) + pl.col("size")) * power.gather(place))
    short = few.group_by("row", maintain_order=True).agg(pl.col("shingle").sum())
    spans = pl.concat([wide.select("row", pl.col("size") - (WORDS - 1)), short.select("row", size=pl.lit(1, _U32))])
    return spans, pl.concat([long.rename("shingle"), short["shingle"]])


def _banded(rows: pl.Series, digests: list[list[int]], width: int) -> pl.DataFrame:
    """row, bucket: a line for each band; a bucket is of one band."""
    values, bands = array("I"), PERMUTATIONS // width
    for digest in digests:
        values.fromlist(digest)
    flat = pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.uint32(), len(values), [None, pa.py_buffer(values)])))
    wide = flat.cast(pl.UInt64)
    number = pl.int_range(rows.len() * bands, dtype=_U32, eager=True)
    bucket = (number % bands).cast(pl.UInt64)
    for k in range(width):
        bucket = bucket * _MIX + wide.gather_every(width, k)
    return pl.DataFrame({"row": rows.gather(number // bands), "bucket": bucket * _MIX})


def _candidates(bands: pl.DataFrame) -> pl.DataFrame:
    """left, right: pairs of rows in one bucket, each once."""
    full = bands.filter(pl.col("bucket").is_duplicated()).sort("bucket", "row")
    size, first = pl.len().over("bucket"), pl.col("row").first().over("bucket")
    full = full.with_columns(size=size, first=first)
    most = int(full["size"].max() or 0)  # type: ignore[arg-type]
    parts = [
        full.filter(pl.col("size") > _FULL).select(left="first", right="row").filter(pl.col("left") < pl.col("right"))
    ]
    for step in range(1, min(most, _FULL)):
        ahead = pl.col("row").shift(-step)
        among = (pl.col("size") <= _FULL) if step > _NEXT else pl.lit(value=True)
        same = pl.col("bucket") == pl.col("bucket").shift(-step)
        parts.append(full.select(left="row", right=ahead, ok=same & among).filter("ok").drop("ok"))
    return pl.concat(parts).unique(maintain_order=True)


def _verified(pairs: pl.DataFrame, spans: pl.DataFrame, shingles: pl.Series, jaccard: float) -> pl.DataFrame:
    """Pairs whose sets of shingles are alike enough; counted, not estimated."""
    for side in ("left", "right"):
        named = spans.select(pl.col("row").alias(side), *(pl.col(c).alias(f"{side}_{c}") for c in ("at", "size")))
        pairs = pairs.join(named, on=side, how="inner", maintain_order="left")
    portion = ((pl.col("left_size") + pl.col("right_size")).cast(pl.UInt64).cum_sum() // _PORTION).alias("portion")
    parts = [p.drop("portion") for p in pairs.with_columns(portion).partition_by("portion", maintain_order=True)]
    kept = [p.filter(_likeness(p, shingles) >= jaccard) for p in parts]
    return pl.concat([pairs.clear(), *kept]).select("left", "right")


def _likeness(pairs: pl.DataFrame, shingles: pl.Series) -> pl.Series:
    numbered = pairs.with_row_index("pair")

    def side(name: str) -> pl.DataFrame:
        begin = pl.col(f"{name}_at")
        at = numbered.select("pair", at=pl.int_ranges(begin, begin + pl.col(f"{name}_size"), dtype=_U32)).explode("at")
        return at.select("pair", shingle=shingles.gather(at["at"])).unique(maintain_order=True)

    # A shingle stands once in each set, so one that occurs twice in a pair is in both.
    counts = (
        pl.concat([side("left"), side("right")])
        .group_by("pair", "shingle", maintain_order=True)
        .agg(n=pl.len())
        .group_by("pair", maintain_order=True)
        .agg(shared=(pl.col("n") == 2).sum(), all=pl.len())
    )
    known = numbered.select("pair").join(counts, on="pair", how="left", maintain_order="left")
    return known.select(pl.col("shared") / pl.col("all")).to_series()


def _components(count: int, pairs: pl.DataFrame) -> pl.Series:
    """The least row of each row's cluster."""
    label = pl.int_range(count, dtype=_U32, eager=True)
    edges = pairs.select("left", "right")
    while edges.height:
        # Each larger end hangs itself on its smallest neighbour; then chains are cut short and edges within a cluster go.
        hooks = edges.group_by("right", maintain_order=True).agg(pl.col("left").min())
        parent = pl.int_range(count, dtype=_U32, eager=True).scatter(hooks["right"], hooks["left"])
        while not (above := parent.gather(parent)).equals(parent):
            parent = above
        label = parent.gather(label)
        left, right = parent.gather(edges["left"]), parent.gather(edges["right"])
        ends = pl.DataFrame({"left": left, "right": right})
        edges = (
            ends.filter(pl.col("left") != pl.col("right"))
            .select(left=pl.min_horizontal("left", "right"), right=pl.max_horizontal("left", "right"))
            .unique(maintain_order=True)
        )
    return label
