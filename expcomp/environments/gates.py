"""The gates of a package, as joins and group-bys: everything is checked before anything is written.

Each gate gives findings `kind, id, detail`; the first gate that finds something stops the compile under its own error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import polars as pl

from expcomp.environments import paths
from expcomp.environments.config import SCOPE_NAMES, PackageConfig
from expcomp.environments.flatten import is_json
from expcomp.environments.provenance import ownerless, provenance
from expcomp.environments.records import Frames
from expcomp.environments.static import FINDINGS, static_findings
from expcomp.errors import (
    AmbiguousAliasError,
    DanglingRefError,
    DuplicateIdError,
    EnvironmentPackageError,
    PackageSchemaError,
    ProvenanceError,
    RuleInvalidError,
    ScopeConflictError,
    SourceMismatchError,
    SplitViolationError,
    TableError,
)
from expcomp.io.digest import sha256_expr
from expcomp.io.wording import worded
from expcomp.tables.environment import PACKAGE
from expcomp.tables.models import check_schema

ELSEWHERE = frozenset("mutations.value_json action_args.enum_json state_schema.default_json rules.scope_json".split())
"""JSON that the gate of the rules looks into, by type."""
SHOWN = 5
"""Findings that an error message quotes."""


class Gate(NamedTuple):
    """A gate: its name, its error, and what finds its faults."""

    name: str
    error: type[EnvironmentPackageError]
    find: Callable[[Frames, PackageConfig], pl.DataFrame]


class Reference(NamedTuple):
    """`table.column` names a record of `target`; of a list column every item does."""

    table: str
    column: str
    target: str
    key: str


CLOSURE = (
    Reference("episodes", "source_id", "sources", "source_id"),
    Reference("events", "episode_id", "episodes", "episode_id"),
    Reference("transitions", "episode_id", "episodes", "episode_id"),
    Reference("transitions", "action_event_ids", "events", "event_id"),
    Reference("transitions", "observation_event_ids", "events", "event_id"),
    Reference("transitions", "delayed_observation_event_ids", "events", "event_id"),
    Reference("transitions", "concurrent_action_event_ids", "events", "event_id"),
    Reference("transitions", "history_event_ids", "events", "event_id"),
    Reference("evidence", "transition_id", "transitions", "transition_id"),
    Reference("facts", "evidence_id", "evidence", "evidence_id"),
    Reference("action_args", "action", "action_schema", "action"),
    Reference("action_aliases", "action", "action_schema", "action"),
    Reference("rules", "action_type", "action_schema", "action"),
    Reference("rules", "renderer", "renderers", "renderer_id"),
    Reference("renderers", "action_types", "action_schema", "action"),
    Reference("demonstrations", "action_type", "action_schema", "action"),
    Reference("demonstrations", "rule_ids", "rules", "rule_id"),
    Reference("notes", "action_types", "action_schema", "action"),
)
"""Every reference of a package that must lead somewhere."""


def finding(kind: str, frame: pl.DataFrame, id_: pl.Expr | str, detail: pl.Expr) -> pl.DataFrame:
    """Rows of a frame as findings."""
    one = pl.col(id_) if isinstance(id_, str) else id_
    # Not `select`: literals alone would make a row of an empty frame.
    found = frame.with_columns(kind=pl.lit(kind), id=one.cast(pl.String), detail=detail.cast(pl.String))
    return found.select("kind", "id", "detail")


def joined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Findings of several checks as one frame."""
    return pl.concat([pl.DataFrame(schema=dict(FINDINGS)), *parts])


def shape(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """Columns, dtypes, nulls and value rules of every table."""
    del config
    parts = []
    for name, table in PACKAGE.items():
        if name not in frames:
            parts.append(_said(name, None, "the table is missing"))
            continue
        try:
            check_schema(table.name, frames[name])
        except TableError as error:
            parts.append(_said(name, None, str(error)))
            continue
        required = {f"{n}|not_null": pl.col(n).is_not_null() for n, c in table.columns.items() if not c.nullable}
        for rule, holds in (required | dict(table.rules)).items():
            broken = frames[name].filter(~holds)
            key = pl.col(table.keys[0]) if table.keys else pl.lit(None)
            parts.append(finding(name, broken.head(SHOWN), key, pl.lit(f"breaks {rule}")))
        texts = [n for n, c in table.columns.items() if n.endswith("_json") and c.dtype == pl.String]
        parts += [_no_json(name, frames[name], n) for n in texts if f"{name}.{n}" not in ELSEWHERE]
    return joined(parts)


def _no_json(name: str, frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Lines whose text is no JSON document."""
    text = pl.col(column).cast(pl.String)
    # The path says null of a deep document, too; few are left to be looked at one by one.
    suspect = frame.filter(text.is_not_null() & (text != "null") & text.str.json_path_match("$").is_null())
    bad = [t for t in suspect[column].unique(maintain_order=True) if not is_json(t)]
    keys = PACKAGE[name].keys
    wrong = frame.filter(pl.col(column).is_in(bad)).head(SHOWN)
    return finding(name, wrong, keys[0] if keys else pl.lit(None), pl.lit(f"{column} is no JSON"))


def _said(kind: str, id_: str | None, detail: str) -> pl.DataFrame:
    return pl.DataFrame({"kind": [kind], "id": [id_], "detail": [detail]}, schema=dict(FINDINGS))


def uniqueness(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """Records that share an id."""
    del config
    keyed = {n: t.keys for n, t in PACKAGE.items() if t.keys and n not in ("action_aliases", "state_aliases")}
    return joined([_shared(name, _one_spelling(name, frames[name]), keys) for name, keys in keyed.items()])


def _one_spelling(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Declared paths as they are looked up: `a["k"].b` is `a.k.b`."""
    if name != "state_schema":
        return frame
    return frame.with_columns(path=pl.Series([_normal(path) for path in frame["path"]], dtype=pl.String))


def _normal(path: str) -> str:
    try:
        return paths.normalise(path)
    except paths.PathError:
        return path  # the gate of the rules says what is wrong with it


def _shared(name: str, frame: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    twice = frame.group_by(keys, maintain_order=True).len().filter(pl.col("len") > 1)
    label = pl.concat_str([pl.col(k).cast(pl.String) for k in keys], separator=" ")
    return finding(name, twice, label, worded("{} records have it", "len"))


def aliases(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """Aliases that mean two things, or are names of their own."""
    del config
    parts = [_shared(n, frames[n], ("alias",)) for n in ("action_aliases", "state_aliases")]
    for name, target, key in (("action_aliases", "action_schema", "action"), ("state_aliases", "state_schema", "path")):
        own = frames[name].filter(pl.col("alias").is_in(frames[target][key].implode()))
        parts.append(finding(name, own, "alias", pl.lit(f"it is a {key} itself")))
    return joined(parts)


def splits(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """Families that cross splits, and episodes of the construction that are not for training."""
    del config
    episodes = frames["episodes"].select("trajectory_group", split=pl.col("split").cast(pl.String))
    sources = frames["sources"].select("trajectory_group", split=pl.col("split").cast(pl.String)).drop_nulls()
    crossed = (
        pl.concat([episodes, sources])
        .group_by("trajectory_group", maintain_order=True)
        .agg(pl.col("split").unique().sort())
        .filter(pl.col("split").list.len() > 1)
    )
    held = frames["episodes"].filter(pl.col("split") != "train")
    return joined(
        [
            finding("trajectory_group", crossed, "trajectory_group", worded("crosses splits {}", pl.col("split").list.join(", "))),
            finding("episodes", held, "episode_id", worded("split {}, expected train: held-out episodes are replay cases", "split")),
        ]
    )  # fmt: skip


def snapshots(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """Snapshots whose bytes are not those of their id, and reconstructions of nothing."""
    kept = frames["sources"].filter(pl.col("text_verbatim").fill_null(value=False) & pl.col("text").is_not_null())
    changed = kept.filter(
        (pl.lit("src_") + sha256_expr("text") != pl.col("source_id"))
        | (pl.col("text").str.len_bytes().cast(pl.Int64) != pl.col("n_bytes"))
    )
    parts = [finding("sources", changed, "source_id", pl.lit("the snapshot is not the bytes of the id"))]
    if config.construction_kind == "reconstructed":
        bare = [n for n in ("sources", "episodes", "transitions", "evidence") if frames[n].is_empty()]
        parts += [_said(n, None, "empty, but the package says it is reconstructed") for n in bare]
    return joined(parts)


def closure(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """References that lead nowhere."""
    del config
    parts = [_dangling(frames, r) for r in CLOSURE]
    owners = pl.concat([frames["rules"].select(id="rule_id"), frames["invariants"].select(id="invariant_id")])["id"]
    loose = frames["conditions"].filter(~pl.col("owner_id").is_in(owners.implode()))
    parts.append(finding("conditions", loose, "owner_id", pl.lit("there is no such rule or invariant")))
    for kind, table, key in (("rule", "rules", "rule_id"), ("evidence", "evidence", "evidence_id")):
        of_kind = frames["mutations"].filter(pl.col("owner_kind") == kind)
        gone = of_kind.filter(~pl.col("owner_id").is_in(frames[table][key].implode()))
        parts.append(finding("mutations", gone, "owner_id", pl.lit(f"there is no such {kind}")))
    loose = frames["refs"].filter(ownerless(frames))
    parts.append(
        finding("refs", loose, "owner_id", worded("there is no such {}", pl.col("owner_kind").cast(pl.String)))
    )
    parts.append(_foreign_events(frames))
    return joined(parts)


def _dangling(frames: Frames, ref: Reference) -> pl.DataFrame:
    spec = PACKAGE[ref.table]
    key = spec.keys[0] if spec.keys else ref.column
    named = frames[ref.table].select(_id=pl.col(key).cast(pl.String), _to=pl.col(ref.column))
    if isinstance(named.schema["_to"], pl.List):
        named = named.explode("_to", empty_as_null=False)
    gone = named.join(
        frames[ref.target].select(_to=pl.col(ref.key)), on="_to", how="anti", maintain_order="left"
    ).drop_nulls("_to")
    return finding(ref.table, gone, "_id", worded(f"{ref.column} names {{}}, which is not in {ref.target}", "_to"))


def _foreign_events(frames: Frames) -> pl.DataFrame:
    """Transitions whose events belong to another episode."""
    ids = pl.concat_list(c for c in frames["transitions"].columns if c.endswith("_event_ids"))
    named = (
        frames["transitions"]
        .select("transition_id", "episode_id", event_id=ids)
        .explode("event_id", empty_as_null=False)
    )
    events = frames["events"].select("event_id", _of="episode_id")
    other = named.join(events, on="event_id", how="inner", maintain_order="left").filter(
        pl.col("_of") != pl.col("episode_id")
    )
    return finding("transitions", other, "transition_id", worded("event {} is of another episode", "event_id"))


def rules(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """Rules, invariants and renderers that can never run as written."""
    del config
    return static_findings(frames)


def scopes(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """A configuration that contradicts itself, or an episode of another environment, tenant or version."""
    values = config.scope_values()
    named = {SCOPE_NAMES.get(k, k): v for k, v in config.scope.items()}
    own = {
        "environment_id": config.environment_id,
        "tenant": config.tenant,
        "environment_version": config.environment_version,
    }
    parts = [
        _said("config", k, f"scope says {named[k]}, the setting {v}") for k, v in own.items() if v is not None and named.get(k, v) != v
    ]  # fmt: skip
    for name in ("environment_id", "tenant", "environment_version"):
        if name in values:
            other = frames["episodes"].filter(pl.col(name) != values[name])
            parts.append(
                finding("episodes", other, "episode_id", worded(f"{name} {{}}, the package says {values[name]}", name))
            )
    return joined(parts)


GATES = (
    Gate("shape", PackageSchemaError, shape),
    Gate("uniqueness", DuplicateIdError, uniqueness),
    Gate("aliases", AmbiguousAliasError, aliases),
    Gate("split", SplitViolationError, splits),
    Gate("sources", SourceMismatchError, snapshots),
    Gate("closure", DanglingRefError, closure),
    Gate("provenance", ProvenanceError, provenance),
    Gate("rules", RuleInvalidError, rules),
    Gate("scope", ScopeConflictError, scopes),
)
"""In order; a gate may rely on those before it."""


def require(frames: Mapping[str, pl.DataFrame], config: PackageConfig) -> None:
    """Pass every gate.

    Raises:
        EnvironmentPackageError: The error of the first gate that finds something; the message quotes the first findings.
    """
    for gate in GATES:
        found = gate.find(frames, config)
        if found.height:
            label = pl.concat_str(
                [pl.col("kind"), pl.col("id").fill_null("").replace("", None)], separator=" ", ignore_nulls=True
            )
            told = found.head(SHOWN).select(worded("{}: {}", label, "detail")).to_series().to_list()
            more = f" (and {found.height - SHOWN} more)" if found.height > SHOWN else ""
            raise gate.error(f"gate {gate.name}: {'; '.join(told)}{more}")
