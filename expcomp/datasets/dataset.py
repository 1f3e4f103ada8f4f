"""`dataset`: rows of a compile as what one trainer reads, in memory; for notebooks and small sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.datasets.candidates import Guard, candidates
from expcomp.datasets.compiled import Compiled, prepared
from expcomp.datasets.folder import Built, finish
from expcomp.datasets.guard import guard_of
from expcomp.datasets.lower import lower
from expcomp.datasets.needs import chosen
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.registry import KINDS
from expcomp.datasets.shards import plan_shards, ranked, run_shard
from expcomp.datasets.split import assign
from expcomp.errors import UsageError
from expcomp.io.nearest import nearest
from expcomp.io.parts import write_batches
from expcomp.io.publish import publish
from expcomp.io.staging import PARTS, scratch, subfolder
from expcomp.tables.targets import TARGETS

if TYPE_CHECKING:
    from expcomp.compiler.compilation import Compilation
    from expcomp.tables.targets import Target

_PART = "rows.arrow"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows that one trainer takes as they are.

    Attributes:
        target: What the rows are for.
        rows: Logical rows in the order of the files, with `split` and `evidence_ids`; loss masks stand in the messages.
        frame: The same as the trainer reads them; `arguments` of calls are JSON text here and JSON in the files.
        left_out: Candidates that are not in it, with reason and detail.
    """

    target: Target
    rows: pl.DataFrame
    frame: pl.DataFrame
    left_out: pl.DataFrame
    _chosen: pl.DataFrame
    _keys: pl.DataFrame
    _built: Built
    _input: str | None

    def __len__(self) -> int:
        return self.frame.height

    def __repr__(self) -> str:
        splits = ", ".join(f"{s} {n:,}" for s, n in self.splits.items()) or "no rows"
        return f"Dataset({self.target.name}: {splits}; {self.left_out.height:,} candidates left out)"

    @cached_property
    def splits(self) -> dict[str, int]:
        """Rows by split."""
        counts = self.rows["split"].value_counts().sort("split")
        return dict(zip(counts["split"], counts["count"], strict=True))

    @cached_property
    def reasons(self) -> pl.DataFrame:
        """How many candidates were left out, by reason."""
        return self.left_out["reason"].value_counts(sort=True, name="candidates")

    def arrow(self) -> Any:
        """The rows as a `pyarrow.Table` with the types of the files: `datasets.Dataset(table)` takes it as it is."""
        from expcomp.datasets.arrow import to_arrow

        return to_arrow(self.target, self.frame)

    def show(self, i: int = 0) -> Shown:
        """One row as a conversation: who says what, which words carry loss, which evidence it rests on.

        Raises:
            IndexError: There is no such row.
        """
        if not 0 <= i < self.rows.height:
            msg = f"row {i}: the dataset has {self.rows.height} rows"
            raise IndexError(msg)
        return Shown(self.rows.row(i, named=True))

    def plot(self, ax: Any = None) -> Any:
        """Distribution of row lengths, in tokens where they were counted; returns the matplotlib axes."""
        from expcomp.datasets.figures import lengths

        return lengths(self._keys, ax, column="_tokens" if "_tokens" in self._keys.columns else "_size")

    def plot_labels(self, ax: Any = None) -> Any:
        """Distribution of the labels, pass rates or margins; returns the matplotlib axes."""
        from expcomp.datasets.figures import labels, shares

        return (shares if {"margin", "pass_rate"} & set(self.rows.columns) else labels)(self.rows, ax)

    def write(
        self, out: str | Path, *, about: Mapping[str, str | None] | None = None, force: bool = False
    ) -> dict[str, Any]:
        """Publish as a folder: the same files that `write_datasets` makes for this target; returns the manifest.

        Raises:
            OutputError: `out` exists or cannot be written.
        """
        with publish(Path(out), force=force) as staging, scratch(staging / PARTS) as parts:
            done = []
            if self._keys.height:
                data = subfolder(staging / "data" / self.target.config)
                write_batches(self._chosen, [self._chosen.height], parts / _PART)
                place = {"_part": pl.lit(_PART), "_batch": pl.lit(0, pl.UInt32)}
                keys = self._keys.with_columns(**place, _row=pl.int_range(pl.len(), dtype=pl.UInt32))
                done = [run_shard(job) for job in plan_shards(self.target, keys, parts, data)]
            return finish(replace(self._built, done=done), staging, self._input, about or {})

    def card(self) -> str:
        """The dataset card that `write` would put beside the files, without file names."""
        from expcomp.datasets.card import card
        from expcomp.datasets.folder import config_of

        taken = self._keys.join(self.rows.select("row_id"), on="row_id", how="semi", maintain_order="left")
        config = config_of(self.target, taken, [], self.left_out)
        return card({"configs": [config], "options": self._built.options.to_dict()})

    def _repr_html_(self) -> str:
        counts = zip(self.reasons["reason"], self.reasons["candidates"], strict=True)
        rows = "".join(f"<tr><td>{escape(str(r))}</td><td>{n:,}</td></tr>" for r, n in counts)
        body = self.frame.head(5)._repr_html_()
        return f"<p>{escape(repr(self))}</p>{body}<table><tr><th>left out</th><th>candidates</th></tr>{rows}</table>"


@dataclass(frozen=True)
class Shown:
    """One row, rendered: text in a terminal, HTML in a notebook."""

    row: Mapping[str, Any]

    def __repr__(self) -> str:
        from expcomp.datasets.view import conversation_text

        return conversation_text(dict(self.row))

    def _repr_html_(self) -> str:
        from expcomp.datasets.view import conversation_html

        return conversation_html(dict(self.row))


def dataset(
    source: Compilation | str | Path,
    target: str,
    *,
    against: Any = (),
    columns: Mapping[str, str] | None = None,
    options: DatasetOptions | None = None,
    **changes: Any,
) -> Dataset:
    """Rows of a compile as one trainer reads them, in memory.

    Args:
        source: A Compilation, or the output folder of a compile. For many rows use `write_datasets`, which streams.
        target: Name of a target, as `trl-dpo`.
        against: Held-out set, or a list of them: files, folders, frames.
        columns: Names of columns in held-out files, where they are not found by themselves.
        options: What the dataset may be told.
        changes: Single options by name, as `min_margin=0.2`.

    Raises:
        UsageError: A target or option that does not exist.
        SourceError: The compile or a held-out set cannot be read.
    """
    if target not in TARGETS:
        msg = f"there is no target '{target}'; known are {', '.join(TARGETS)}{nearest(target, TARGETS)}"
        raise UsageError(msg)
    options = _options(options, changes)
    wanted = TARGETS[target]
    kind = KINDS[wanted.kind]
    compiled = Compiled.of(source)
    look = compiled.lookups(users=options.group == "user")
    places = assign(look.tasks, look.attempts, options)
    sets: Sequence[Any] = against if isinstance(against, (list, tuple)) else [against]
    checked = guard_of(look.tasks, sets, options.policy, columns=columns)
    look = prepared(look, compiled, {kind.name: kind})
    guard = Guard(checked.index, checked.hits, checked.banned)
    made = candidates(kind, compiled.family(kind.family).collect(), look, places, guard, options)
    keys, more = chosen(wanted, made.keys.with_row_index("_row"), options)
    keys = ranked(keys)
    rows = made.rows.drop("group")[keys["_row"]]
    lowered = [lower(wanted, part, split=part["split"][0]) for part in rows.partition_by("split", maintain_order=True)]
    left = pl.concat([made.left, more])
    frame = pl.concat([p.frame for p in lowered]) if lowered else wanted.table.empty()
    refused = pl.concat([left.clear(), *(p.left for p in lowered)])
    fine = ~rows["row_id"].is_in(refused["row_id"].implode())
    built = Built(
        [wanted],
        {wanted.name: keys},
        {wanted.name: left},
        [],
        made.hits,
        look,
        places,
        checked,
        options,
        compiled.rejections({kind.name: kind}),
    )
    return Dataset(
        wanted,
        rows.filter(fine),
        frame,
        pl.concat([left, refused]),
        rows.drop("split"),
        keys,
        built,
        compiled.fingerprint,
    )


def _options(options: DatasetOptions | None, changes: Mapping[str, Any]) -> DatasetOptions:
    options = options or DatasetOptions()
    unknown = sorted(set(changes) - set(options.to_dict()))
    if unknown:
        msg = f"there is no option {', '.join(unknown)}; known are {', '.join(options.to_dict())}{nearest(min(unknown), options.to_dict())}"
        raise UsageError(msg)
    splits = changes.get("splits")
    if isinstance(splits, Mapping):
        changes = {**changes, "splits": tuple(splits.items())}
    return replace(options, **changes)
