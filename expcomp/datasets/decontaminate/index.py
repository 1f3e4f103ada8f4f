"""What is looked for: the n-grams of held-out tasks without boilerplate, each with the places it has in them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from expcomp.datasets.decontaminate.words import Stream, normalized
from expcomp.datasets.options import Policy
from expcomp.tables.decontamination import FIELD

SMALL_SET = 20  # tasks; below, a share of the set says nothing
LEAST_WORDS = 4  # of an answer that is looked for as a whole: "yes" and "42" are everywhere
_U32 = pl.UInt32()
_BITS = (16, 28)
_TABLES = 3
MIX = 0x94D049BB133111EB


@dataclass(frozen=True, eq=False)
class Index:
    """Held-out tasks, ready to be looked for. Pickles; hashes are those of `Stream.grams` and belong to no file.

    Attributes:
        policy: Thresholds.
        fields: fid, field, norm, tokens (words that count: in some n-gram that is no boilerplate).
        members: fid, heldout (row of the held-out frame).
        words: Number of each word of all fields, end to end.
        vocabulary: word, id.
        grams: gram, hash (of its first n words), at (into `words`), size (words); by hash.
        places: place (in order of fid and at), gram, fid, at (into `words`), size; by gram.
        whole: fid, norm, size, field: searched as whole texts, being too short or boilerplate throughout.
        slots: Which hashes may be there, in several small tables; see `maybe`.
        counts: For the manifest.
    """

    policy: Policy
    fields: pl.DataFrame
    members: pl.DataFrame
    words: pl.Series
    vocabulary: pl.DataFrame
    grams: pl.DataFrame
    places: pl.DataFrame
    whole: pl.DataFrame
    slots: tuple[pl.Series, ...]
    counts: dict[str, int]

    @classmethod
    def build(cls, held: pl.DataFrame, policy: Policy) -> Index:
        """Index of held-out tasks (`held_out`)."""
        fields, members, tasks = _fields(held)
        # Texts that never count lie behind the fields and are counted as in every task.
        extra = pl.DataFrame({"norm": list(policy.boilerplate)}, schema={"norm": pl.String})
        extra = extra.select(normalized(pl.col("norm"))).filter(pl.col("norm") != "")
        texts = pl.concat([fields["norm"], extra["norm"]])
        stream = Stream.of(texts)
        words = stream.words(pl.int_range(len(stream), dtype=_U32, eager=True))
        vocabulary = words.to_frame("word").unique(maintain_order=True).with_row_index("id")
        ids = words.to_frame("word").join(vocabulary, on="word", how="left", maintain_order="left")["id"]
        spans = pl.DataFrame({"start": stream.first[:-1], "size": stream.first.diff()[1:].cast(_U32)})
        spans = spans.with_row_index("fid")
        found = _found(spans, ids, policy)
        stop = _stop(found, members, tasks, policy)
        kept = found.join(stop, on=["size", "key"], how="anti", maintain_order="left").filter("whole")
        kept = kept.filter(pl.col("fid") < fields.height).sort("fid", "at")
        grams = kept.group_by("size", "key", maintain_order=True).agg(pl.col("at").first()).with_row_index("gram")
        places = (
            kept.join(grams.drop("at"), on=["size", "key"], how="left", maintain_order="left")
            .with_row_index("place")
            .select("place", "gram", "fid", "at", "size")
        )
        grams = grams.with_columns(hash=stream.grams(policy.n).gather(grams["at"])).drop("key").sort("hash", "gram")
        hashes = grams["hash"]
        counted = places.group_by("fid", maintain_order=True).agg(tokens=_covered())
        fields = fields.with_columns(spans["size"].head(fields.height)).join(
            counted, on="fid", how="left", maintain_order="left"
        )
        short, lost = pl.col("size") < policy.n, pl.col("tokens").is_null()
        looked = (pl.col("field") == "prompt") | (pl.col("size") >= LEAST_WORDS)
        whole = fields.filter(lost & looked).select("fid", "norm", "size", "field")
        counts = {
            "tasks": held.height,
            "fields": fields.height,
            "fields_searched": fields.select(lost.not_().sum()).item(),
            "fields_as_whole_text": whole.height,
            "fields_not_searched": fields.select((lost & ~looked).sum()).item(),
            "fields_all_boilerplate": fields.select((lost & ~short).sum()).item(),
            "grams": grams.height,
            "stop_grams": stop.height,
        }
        keep = fields.select("fid", "field", pl.col("tokens").fill_null(pl.col("size")))
        places, members = places.sort("gram", "place"), members.drop("task")
        return cls(policy, keep, members, ids, vocabulary, grams, places, whole, _slots(hashes), counts)

    def scan(self, texts: pl.DataFrame) -> pl.DataFrame:
        """What rows hold of held-out tasks; see `scan.scan`."""
        from expcomp.datasets.decontaminate.scan import scan

        return scan(self, texts)

    def maybe(self, hashes: pl.Series) -> pl.Series:
        """Positions of hashes that may be in `grams`: all that are, and one in some hundred others.

        Nearly all of a text is turned away here, so it looks into small tables in turn instead of into a large one, which would
        not stay in the processor's cache.
        """
        at = None
        for slots in self.slots:
            here = slots.gather(_leading(hashes, slots))
            number = pl.int_range(hashes.len(), dtype=_U32, eager=True) if at is None else at
            at, hashes = number.filter(here), hashes.filter(here) * MIX
        assert at is not None
        return at


def _fields(held: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Distinct texts by field, the held-out rows that have them, and the number of distinct tasks.

    A task may stand in a set several times, under one name or several; for the count of boilerplate it is one.
    """
    names = FIELD.categories.to_list()
    texts = held.select("benchmark", "task", *(normalized(pl.col(n)).replace("", None) for n in names))
    texts = texts.with_row_index("heldout").with_columns(
        task=pl.when(pl.col("task").is_null())
        .then(pl.col("heldout"))
        .otherwise(pl.col("heldout").first().over("benchmark", "task"))
    )
    texts = texts.with_columns(pl.col("task").min().over(names))
    long = (
        texts.unpivot(names, index=["heldout", "task"], variable_name="field", value_name="norm")
        .drop_nulls("norm")
        .with_columns(pl.col("field").cast(FIELD))
        .sort("heldout", "field")
    )
    fields = long.select("field", "norm").unique(maintain_order=True).with_row_index("fid")
    members = long.join(fields, on=["field", "norm"], how="left", maintain_order="left")
    return fields, members.select("fid", "heldout", "task"), texts["task"].n_unique()


def _windows(ids: pl.Series, n: int) -> pl.Series:
    """A number for each word and the n - 1 after it, equal where and only where the words are equal."""

    def pair(left: pl.Series, right: pl.Series) -> pl.Series:
        both = left.cast(pl.UInt64) * (1 << 32) + right.cast(pl.UInt64)
        return both.rank("dense").cast(_U32)

    key, width = ids, 1
    while width * 2 <= n:
        key, width = pair(key, key.shift(-width, fill_value=0)), width * 2
    return key if width == n else pair(key, key.shift(width - n, fill_value=0))


def _found(spans: pl.DataFrame, ids: pl.Series, policy: Policy) -> pl.DataFrame:
    """Windows of the texts (fid, at, size, key, whole). `whole` marks those that are searched, the others only count.

    Texts of n to evidence_n - 1 words are searched as one window; longer ones by windows of n words.
    """
    n, long = policy.n, max(policy.n, policy.evidence_n)
    at = pl.int_ranges(pl.col("start"), pl.col("start") + pl.col("size") - pl.col("width") + 1, dtype=_U32)
    parts = []
    sizes = spans.filter(pl.col("size").is_between(n, long - 1, closed="both") & (long > n))["size"]
    for width in sorted({n, *sizes.unique(maintain_order=True)}):
        every = (
            spans.filter(pl.col("size") >= width)
            .with_columns(pl.lit(width, _U32).alias("width"))
            .select("fid", "size", "width", at=at)
            .explode("at")
        )
        every = every.with_columns(key=_windows(ids, width).gather(every["at"]))
        searched = (pl.col("size") >= long) if width == n else pl.lit(value=False)
        own = (pl.col("size") == width) & (pl.col("size") < long)
        every = every.with_columns(whole=searched | own).select(
            "fid", "at", pl.col("width").alias("size"), "key", "whole"
        )
        if width != n:  # only windows that are a whole field somewhere
            every = every.join(every.filter("whole").select("key"), on="key", how="semi", maintain_order="left")
        parts.append(every)
    return pl.concat(parts)


def _stop(found: pl.DataFrame, members: pl.DataFrame, tasks: int, policy: Policy) -> pl.DataFrame:
    """Windows (size, key) that are boilerplate: in too many tasks, or in a text that says so."""
    share = policy.stop_share * tasks if tasks >= SMALL_SET else tasks
    owners = members.select("fid", "task").unique(maintain_order=True)
    named = found.join(owners, on="fid", how="anti", maintain_order="left").select("size", "key")
    # Counted with repeats first, which is cheap and leaves few to be counted well.
    limit = min(policy.stop_tasks, share)
    weights = owners.group_by("fid", maintain_order=True).agg(weight=pl.len())
    often = (
        found.select("fid", "size", "key")
        .join(weights, on="fid", how="inner", maintain_order="left")
        .group_by("size", "key", maintain_order=True)
        .agg(pl.col("weight").sum() > limit)
        .filter("weight")
    )
    many = (
        found.select("fid", "size", "key")
        .join(often, on=["size", "key"], how="semi", maintain_order="left")
        .unique(maintain_order=True)
        .join(owners, on="fid", how="inner", maintain_order="left")
        .group_by("size", "key", maintain_order=True)
        .agg(many=pl.col("task").n_unique() > limit)
        .filter("many")
    )
    return pl.concat([named, many.drop("many")]).unique(maintain_order=True)


def _covered() -> pl.Expr:
    """Words under windows (`at`, `size`) that ascend."""
    step = pl.col("at").shift(-1) - pl.col("at")
    return pl.min_horizontal(step.fill_null(pl.col("size")), "size").sum()


def lookup(sorted_: pl.Series, wanted: pl.Series) -> pl.DataFrame:
    """Where values stand in a sorted column: `at` (into `wanted`), `found`. For few values: nothing is built over the column."""
    low = sorted_.search_sorted(wanted).cast(_U32)
    there = (
        sorted_.gather(low.clip(upper_bound=max(0, sorted_.len() - 1))) == wanted if sorted_.len() else low.is_null()
    )
    spans = pl.DataFrame({"at": pl.int_range(wanted.len(), dtype=_U32, eager=True), "low": low}).filter(there)
    high = sorted_.search_sorted(wanted.filter(there), side="right")
    return spans.select("at", found=pl.int_ranges("low", high.cast(_U32), dtype=_U32)).explode("found")


def _leading(hashes: pl.Series, slots: pl.Series) -> pl.Series:
    return (hashes // (1 << (65 - slots.len().bit_length()))).cast(_U32)


def _slots(hashes: pl.Series) -> tuple[pl.Series, ...]:
    size = max(_BITS[0], min(_BITS[1], (4 * hashes.len()).bit_length()))
    tables = []
    for _ in range(_TABLES):
        slots = pl.zeros(1 << size, pl.Boolean, eager=True)
        tables.append(slots.scatter(_leading(hashes, slots), values=True) if hashes.len() else slots)
        hashes = hashes * MIX
    return tuple(tables)
