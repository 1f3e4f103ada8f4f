"""Near duplicates: MinHash finds candidates (extra `dedup`), exact Jaccard similarity decides, clusters are what hangs together."""

from __future__ import annotations

import importlib
from array import array
from typing import Any

import polars as pl
import polars_hash as plh
import pyarrow as pa

from expcomp.datasets.decontaminate.words import Stream, _shown, streams
from expcomp.errors import ConfigError

WORDS = 5  # of a shingle
PERMUTATIONS = 128
SEED = 42
_WIDTHS = (16, 8, 4, 2)  # permutations of a band
_MARGIN = 0.05
_FULL = 64  # members of a bucket up to which all pairs are candidates
_NEXT = 8  # and beyond, the pairs of each with so many after it and with the first
_PORTION = 2_000_000  # shingles of the pairs that are compared at a time
_BATCH = 512  # rows that are digested at a time
_HIGH = 1 << 32
_MIX = 0x9E3779B97F4A7C15
_U32 = pl.UInt32()


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
    same, full, sets = _prepared(rows[text], seed, _width(jaccard))
    cluster = _components(rows.height, same)
    # The first of each bucket gathers most of a crowd; what it leaves apart is compared pair by pair.
    for candidates in (_first, _candidates):
        cluster = _linked(cluster, candidates(full, cluster), sets, jaccard)
    found = rows.select("_given", *keys, cluster=cluster).with_columns(
        kept=pl.col("cluster") == pl.int_range(pl.len(), dtype=_U32), size=pl.len().over("cluster").cast(_U32)
    )
    return found.sort("_given").drop("_given")


def near_pairs(texts: pl.Series, *, jaccard: float = 0.8, seed: int = SEED) -> pl.DataFrame:
    """Pairs of texts (left < right, by position) with at least this similarity. In a crowd of copies, enough to hold it together.

    Raises:
        ConfigError: The extra is not installed.
    """
    same, full, sets = _prepared(texts, seed, _width(jaccard))
    alone = pl.int_range(texts.len(), dtype=_U32, eager=True)
    return pl.concat([same, _verified(_candidates(full, alone), sets, jaccard)]).sort("left", "right")


def near_matches(ours: pl.Series, theirs: pl.Series, *, jaccard: float = 0.8, seed: int = SEED) -> pl.DataFrame:
    """All pairs of one text of each side with at least this similarity: left (position in ours), right (in theirs).

    Equal texts of a side are compared once and share what is found, so nothing hides in a crowd.

    Raises:
        ConfigError: The extra is not installed.
    """
    sides = [s.rename("text").to_frame().with_row_index("at").drop_nulls() for s in (ours, theirs)]
    single = [s.select("text").unique(maintain_order=True) for s in sides]
    cut = single[0].height
    shingles, spans, bands = _sketched(pl.concat(single)["text"], seed, _width(jaccard))
    left, right = bands.filter(pl.col("row") < cut), bands.filter(pl.col("row") >= cut)
    pairs = (
        left.join(right, on="bucket", how="inner", maintain_order="left_right")
        .select(left="row", right="row_right")
        .unique(maintain_order=True)
    )
    sets = pl.DataFrame({"row": spans["row"], "set": _cut(shingles, spans["size"], pa.large_list(pa.uint64()))})
    found = _verified(pairs, sets.with_columns(size=pl.col("set").list.n_unique()), jaccard)
    for name, side, texts, first in (("left", sides[0], single[0], 0), ("right", sides[1], single[1], cut)):
        numbered = texts.with_columns((pl.int_range(pl.len()) + first).cast(_U32).alias(name))
        places = side.join(numbered, on="text", how="inner", maintain_order="left").select(name, "at")
        found = found.join(places, on=name, how="inner", maintain_order="left_right").drop(name).rename({"at": name})
    return found.sort("left", "right")


def _prepared(texts: pl.Series, seed: int, width: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Pairs of equal texts (left, right), buckets of the first of each (`_buckets`), and sets of shingles (row, set, size)."""
    shingles, spans, bands = _sketched(texts, seed, width)
    # Equal texts need no comparison; the first stands for all of them.
    sums = spans.select("row", "size", _sum(shingles, "sum"), _sum(shingles * (shingles // 2 + 1), "mixed")).sort("row")
    sums = sums.with_columns(first=pl.col("row").first().over("size", "sum", "mixed"))
    same = sums.filter(pl.col("row") != pl.col("first")).select(left="first", right="row")
    bands = bands.join(same.select(row="right"), on="row", how="anti", maintain_order="left")
    sets = pl.DataFrame({"row": spans["row"], "set": _cut(shingles, spans["size"], pa.large_list(pa.uint64()))})
    return same, _buckets(bands), sets.with_columns(size=pl.col("set").list.n_unique())


def _cut(values: pl.Series, sizes: pl.Series, kind: pa.DataType) -> pl.Series:
    """Lists, or texts, of these sizes over the values laid end to end, without a copy."""
    ends = pl.concat([pl.Series([0], dtype=pl.UInt64), sizes.cast(pl.UInt64).cum_sum()])
    inner = values.rechunk().to_arrow()
    bounds = pa.py_buffer(_buffer(ends))
    if pa.types.is_large_string(kind):
        return _column(pa.Array.from_buffers(kind, sizes.len(), [None, bounds, inner.buffers()[1]]))
    return _column(pa.Array.from_buffers(kind, sizes.len(), [None, bounds], children=[inner]))


def _column(values: pa.Array) -> pl.Series:
    column = pl.from_arrow(values)
    assert isinstance(column, pl.Series)
    return column


def _sum(values: pl.Series, name: str) -> pl.Expr:
    """The sum of each span's values, which wraps."""
    total = pl.lit(pl.concat([pl.Series([0], dtype=pl.UInt64), values.cum_sum()]))
    return (total.gather(pl.col("at") + pl.col("size")) - total.gather("at")).alias(name)


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
        bands.append(_banded(rows["row"], _digests(minhash, values, rows["size"], seed), width))
        shingles.append(values)
        spans.append(rows.select("row", "at", "size").cast(_U32))
        behind += values.len()
    return pl.concat(shingles), pl.concat(spans), pl.concat(bands)


def _digests(minhash: Any, values: pl.Series, sizes: pl.Series, seed: int) -> pl.Series:
    """The permutations' least hashes of each row, end to end."""
    tokens, found = _buffer(values), array("I")
    ends = [0, *sizes.cum_sum()]
    # Digests come as lists; of few rows at a time they stay in the cache and below what wakes the garbage collector.
    for start in range(0, sizes.len(), _BATCH):
        bounds = ends[start : start + _BATCH + 1]
        own = tokens[bounds[0] : bounds[-1]]
        offsets = [end - bounds[0] for end in bounds]
        for digest in minhash.digest_matrix_from_flat_token_hashes(own, offsets, PERMUTATIONS, seed).to_rows():
            found.fromlist(digest)
    return _column(pa.Array.from_buffers(pa.uint32(), len(found), [None, pa.py_buffer(found)]))


def _buffer(column: pl.Series) -> memoryview[int]:
    """The numbers of a column as a buffer, without a copy."""
    values = column.rechunk().to_arrow()
    whole = memoryview(values.buffers()[1]).cast("B").cast("Q")
    return whole[values.offset : values.offset + len(values)]


def _words(stream: Stream) -> pl.Series:
    """All words of a stream (`Stream.words`): its bytes in lower case without what lies between the words, cut at their ends."""
    byte = pl.col("byte")
    low = byte | 32
    inside = ((low - 97) < 26) | ((byte - 48) < 10) | (byte == 95) | (byte >= 128)
    lower = byte + ((byte - 65) < 26).cast(pl.UInt8) * 32  # what is not ASCII comes folded
    kept = pl.DataFrame({"byte": _shown(stream._data)}).select(lower.filter(inside)).to_series()
    return _cut(kept, stream.end - stream.start, pa.large_string())


def _shingles(stream: Stream) -> tuple[pl.DataFrame, pl.Series]:
    """Rows that have words with the number of their shingles (row, size), and the shingles in that order.

    A shingle is five words; a text with fewer is one shingle.
    """
    rows = pl.DataFrame({"at": stream.first[:-1], "size": stream.first.diff()[1:].cast(_U32)}).with_row_index("row")
    rows = rows.filter(pl.col("size") > 0)
    wide = rows.filter(pl.col("size") >= WORDS)
    hashes = _words(stream).to_frame("word").select(plh.col("word").nchash.xxhash64()).to_series()
    rolled = pl.col("word")
    for k in range(1, WORDS):
        rolled = rolled * _MIX + pl.col("word").shift(-k)
    shingles = hashes.to_frame("word").select(shingle=rolled).to_series()
    number = pl.int_ranges("at", pl.col("at") + pl.col("size") - WORDS + 1, dtype=_U32)
    long = shingles.gather(wide.select(number.explode()).to_series())
    few = rows.filter(pl.col("size") < WORDS)
    few = few.select("row", "size", at=pl.int_ranges("at", pl.col("at") + pl.col("size"), dtype=_U32)).explode("at")
    place = pl.int_range(pl.len(), dtype=_U32).over("row")
    power = pl.lit(pl.Series([pow(_MIX, k, 1 << 64) for k in range(1, WORDS)], dtype=pl.UInt64))
    few = few.with_columns(shingle=(hashes.gather(few["at"]) + pl.col("size")) * power.gather(place))
    short = few.group_by("row", maintain_order=True).agg(pl.col("shingle").sum())
    spans = pl.concat([wide.select("row", pl.col("size") - (WORDS - 1)), short.select("row", size=pl.lit(1, _U32))])
    return spans, pl.concat([long.rename("shingle"), short["shingle"]])


def _banded(rows: pl.Series, digests: pl.Series, width: int) -> pl.DataFrame:
    """row, bucket: a line for each band; a bucket is of one band."""
    bands = PERMUTATIONS // width
    wide = digests.cast(pl.UInt64)
    number = pl.int_range(rows.len() * bands, dtype=_U32, eager=True)
    bucket = (number % bands).cast(pl.UInt64)
    for k in range(width):
        bucket = bucket * _MIX + wide.gather_every(width, k)
    return pl.DataFrame({"row": rows.gather(number // bands), "bucket": bucket * _MIX})


def _rensa() -> Any:
    try:
        return importlib.import_module("rensa").RMinHash
    except ImportError as error:
        msg = "near duplicates need the extra dedup: pip install 'expcomp[dedup]'"
        raise ConfigError(msg) from error


def _buckets(bands: pl.DataFrame) -> pl.DataFrame:
    """row, bucket, first, size: the lines of buckets that hold more than one row."""
    full = bands.filter(pl.col("bucket").is_duplicated()).sort("bucket", "row")
    return full.with_columns(first=pl.col("row").first().over("bucket"), size=pl.len().over("bucket"))


def _first(full: pl.DataFrame, cluster: pl.Series) -> pl.DataFrame:
    """left, right: each row with the first of its buckets, unless both are of one cluster."""
    return _distinct([_apart(full.select(left="first", right="row"), cluster)])


def _candidates(full: pl.DataFrame, cluster: pl.Series) -> pl.DataFrame:
    """left, right: pairs of rows in one bucket that are of two clusters, each once, by right and left."""
    named = full.with_columns(cluster=cluster.gather(full["row"]))
    full = named.filter((pl.col("cluster") != pl.col("cluster").first()).any().over("bucket"))
    most = int(full["size"].max() or 0)  # type: ignore[arg-type]
    parts = [_apart(full.filter(pl.col("size") > _FULL).select(left="first", right="row"), cluster)]
    for step in range(1, min(most, _FULL)):
        ahead = pl.col("row").shift(-step)
        among = (pl.col("size") <= _FULL) if step > _NEXT else pl.lit(value=True)
        same = pl.col("bucket") == pl.col("bucket").shift(-step)
        beside = full.select(left="row", right=ahead, ok=same & among).filter("ok").drop("ok")
        parts.append(_apart(beside, cluster))
    return _distinct(parts)


def _apart(pairs: pl.DataFrame, cluster: pl.Series) -> pl.DataFrame:
    """Pairs of two clusters."""
    return pairs.filter(cluster.gather(pairs["left"]) != cluster.gather(pairs["right"]))


def _distinct(pairs: list[pl.DataFrame]) -> pl.DataFrame:
    """Pairs, each once, by right and left; as one number they sort far faster than they hash."""
    both = pl.concat(pairs).select(both=pl.col("right").cast(pl.UInt64) * _HIGH + pl.col("left")).to_series().sort()
    once = both.to_frame().filter((pl.col("both") != pl.col("both").shift(1)).fill_null(value=True))
    return once.select(left=(pl.col("both") % _HIGH).cast(_U32), right=(pl.col("both") // _HIGH).cast(_U32))


def _linked(cluster: pl.Series, pairs: pl.DataFrame, sets: pl.DataFrame, jaccard: float) -> pl.Series:
    """Clusters joined by those of the pairs that are alike.

    Each row tries its least partner, then the next two, the next four and so on, but none that is already in its cluster:
    a row of a crowd is compared about once.
    """
    turn = pl.int_range(1, pl.len() + 1).over("right").log(2).floor()
    turns = pairs.with_columns(turn=turn).sort("turn", maintain_order=True)
    for some in turns.partition_by("turn", maintain_order=True, include_key=False):
        alike = _verified(_apart(some, cluster), sets, jaccard)
        cluster = _components(cluster.len(), _between(cluster, alike)).gather(cluster)
    return cluster


def _verified(pairs: pl.DataFrame, sets: pl.DataFrame, jaccard: float) -> pl.DataFrame:
    """Pairs whose sets of shingles are alike enough; counted, not estimated."""
    places = sets.select("row", "size").with_row_index("at")
    for side in ("left", "right"):
        named = places.select(pl.col("row").alias(side), *(pl.col(c).alias(f"{side}_{c}") for c in ("at", "size")))
        pairs = pairs.join(named, on=side, how="inner", maintain_order="left")
    less, more = pl.min_horizontal("left_size", "right_size"), pl.max_horizontal("left_size", "right_size")
    pairs = pairs.filter(less / more >= jaccard)  # more than the smaller they cannot share
    portion = ((pl.col("left_size") + pl.col("right_size")).cast(pl.UInt64).cum_sum() // _PORTION).alias("portion")
    parts = pairs.with_columns(portion).partition_by("portion", maintain_order=True, include_key=False)
    kept = [p.filter(_likeness(p, sets["set"]) >= jaccard) for p in parts]
    return pl.concat([pairs.clear(), *kept]).select("left", "right")


def _likeness(pairs: pl.DataFrame, sets: pl.Series) -> pl.Series:
    both = pairs.with_columns(left=sets.gather(pairs["left_at"]), right=sets.gather(pairs["right_at"]))
    shared = pl.col("left").list.set_intersection("right").list.len()
    return both.select(shared / (pl.col("left_size") + pl.col("right_size") - shared)).to_series()


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
        edges = _between(parent, edges).unique(maintain_order=True)
    return label


def _between(label: pl.Series, pairs: pl.DataFrame) -> pl.DataFrame:
    """Pairs of labels (left < right) that pairs of rows lie between."""
    ends = pl.DataFrame({"left": label.gather(pairs["left"]), "right": label.gather(pairs["right"])})
    return ends.filter(pl.col("left") != pl.col("right")).select(
        left=pl.min_horizontal("left", "right"), right=pl.max_horizontal("left", "right")
    )
