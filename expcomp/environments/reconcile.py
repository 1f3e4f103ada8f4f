"""Reconciliation: what a proposal gets wrong is repaired, weakened or set aside before the gates, and every act is told.

The acts, in order: older names of actions and state paths are replaced; scope keys that are neither settings nor state
paths are removed; templates with placeholder prose are removed; renderers that rules cite and nobody defined are made;
rules, invariants and renderers that can never run go to `rejected`; citations by what is not there are removed, others
are moved to the episode of their event; a supported rule or note that nothing carries becomes tentative, an invariant goes
to `rejected`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from expcomp.environments.config import SCOPE_NAMES, PackageConfig
from expcomp.environments.frames import complete
from expcomp.environments.paths import NAMESPACES
from expcomp.environments.provenance import ownerless, unanchored, unused
from expcomp.environments.static import static_findings
from expcomp.io.wording import worded
from expcomp.tables.environment import PACKAGE, REJECTED, UNRESOLVED

STAGE = "reconcile"
PROSE = r"<[A-Za-z][\w'-]*(?: [\w'-]+)+>"
"""Placeholder prose: some words between angle brackets."""

_TEXT = r'"(?:[^"\\]|\\.)*"'
_PAIR = rf"{_TEXT}\s*:\s*(?:{_TEXT}|[\w.+-]+)"
"""An entry of a scope: a key and a plain value."""

_OWNED = {
    "rule": ("rules", "rule_id"),
    "invariant": ("invariants", "invariant_id"),
    "renderer": ("renderers", "renderer_id"),
}


class _Work:
    """Tables that change, and what was done to them."""

    def __init__(self, frames: Mapping[str, pl.DataFrame]) -> None:
        self.frames = complete(frames)
        self.told: list[pl.DataFrame] = []

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.frames[name]

    def __setitem__(self, name: str, frame: pl.DataFrame) -> None:
        self.frames[name] = frame.select(PACKAGE[name].schema.names()).cast(PACKAGE[name].schema)

    def tell(self, frame: pl.DataFrame, owner: str, message: pl.Expr) -> None:
        """One line of `unresolved` for each row."""
        if frame.height:
            self.told.append(frame.select(owner_id=pl.col(owner).cast(pl.String), message=message.cast(pl.String)))


def reconcile(frames: Mapping[str, pl.DataFrame], config: PackageConfig) -> dict[str, pl.DataFrame]:
    """Tables that the gates can judge; what was done is in `unresolved`, what was set aside in `rejected`."""
    work = _Work(frames)
    _rename(work)
    _scopes(work, config)
    _placeholders(work)
    _missing_renderers(work)
    _reject(work, static_findings(work.frames))
    _anchor(work)
    if config.construction_kind != "authored":
        _weaken(work)
    _tell_all(work)
    return work.frames


def _rename(work: _Work) -> None:
    """Names by the alias tables; a state path through its longest aliased prefix."""
    actions = work["action_aliases"]
    if actions.height:
        for name in ("rules", "demonstrations"):
            old = work[name].filter(pl.col("action_type").is_in(actions["alias"].implode()))
            work.tell(
                old, PACKAGE[name].keys[0], worded("action {} is an alias; its own name was put in", "action_type")
            )
            work[name] = work[name].with_columns(pl.col("action_type").replace(actions["alias"], actions["action"]))
        for name in ("renderers", "notes"):
            renamed = pl.col("action_types").list.eval(pl.element().replace(actions["alias"], actions["action"]))
            work[name] = work[name].with_columns(renamed)
    states = work["state_aliases"].sort(pl.col("alias").str.len_chars(), descending=True, maintain_order=True)
    if states.height:
        _rename_paths(work, states)


def _rename_paths(work: _Work, states: pl.DataFrame) -> None:
    """Own state paths wherever one is written, except inside expressions."""
    read = pl.col("value_ref").cast(pl.String).is_in(["before", "after"])
    work["mutations"] = work["mutations"].with_columns(
        path=_own_path(pl.col("path"), states),
        value_json=pl.when(read).then(_own_text(pl.col("value_json"), states, '"')).otherwise("value_json"),
    )
    for side in ("left", "right"):
        path = pl.col(f"{side}_kind") == "path"
        work["conditions"] = work["conditions"].with_columns(
            pl.when(path).then(_own_path(pl.col(side), states)).otherwise(side).alias(side)
        )
    work["facts"] = work["facts"].with_columns(subject=_own_path(pl.col("subject"), states))
    root = r"state_(?:before|after)\."
    for name, column in (("rules", "observation_template"), ("renderers", "template")):
        work[name] = work[name].with_columns(_own_text(pl.col(column), states, rf"\{{{root}").alias(column))
    fields = pl.col("required_fields").list.eval(_own_text(pl.element(), states, f"^{root}"))
    work["renderers"] = work["renderers"].with_columns(required_fields=fields)


def _own_text(text: pl.Expr, states: pl.DataFrame, opening: str) -> pl.Expr:
    """Own paths in a text, where one stands behind something; the longest alias first."""
    for alias, own in zip(states["alias"], states["path"], strict=True):
        text = text.str.replace_all(
            rf'({opening}){re.escape(alias)}([.\[}}"]|$)', f"${{1}}{own.replace('$', '$$')}${{2}}"
        )
    return text


def _own_path(path: pl.Expr, states: pl.DataFrame) -> pl.Expr:
    found = path
    for alias, own in reversed(list(zip(states["alias"], states["path"], strict=True))):
        here = (path == alias) | path.str.starts_with(f"{alias}.") | path.str.starts_with(f"{alias}[")
        found = pl.when(here).then(pl.lit(own) + path.str.slice(len(alias))).otherwise(found)
    return found


def _scopes(work: _Work, config: PackageConfig) -> None:
    """Scope keys that nothing can ever be compared with are removed; a contradiction stays and keeps its rule from running."""
    rules = work["rules"]
    # What holds more than plain values is no scope; the static checks say so.
    flat = rules.filter(pl.col("scope_json").str.replace_all(_TEXT, "").str.count_matches(r"[{\[]") < 2)
    entries = (
        flat.select("rule_id", _pair=pl.col("scope_json").str.extract_all(_PAIR))
        .explode("_pair", empty_as_null=False)
        .with_columns(_key=pl.col("_pair").str.extract(r'^"((?:[^"\\]|\\.)*)"'))
    )
    known = [*config.scope_values(), *SCOPE_NAMES, "tenant", "environment_version"]
    legal = pl.col("_key").is_in(known) | pl.col("_key").str.extract(r"^([^.\[]+)").is_in(NAMESPACES)
    gone = entries.filter(~legal)
    work.tell(gone, "rule_id", worded("scope key {} names no setting and no state path; removed", "_key"))
    if gone.height:
        kept = (
            entries.filter(legal)
            .group_by("rule_id", maintain_order=True)
            .agg(_scope=pl.lit("{") + pl.col("_pair").str.join(", ") + pl.lit("}"))
        )
        touched = pl.col("rule_id").is_in(gone["rule_id"].implode())
        work["rules"] = rules.join(kept, on="rule_id", how="left", maintain_order="left").with_columns(
            scope_json=pl.when(touched).then(pl.col("_scope").fill_null("{}")).otherwise("scope_json")
        )


def _placeholders(work: _Work) -> None:
    for name, column, key in (("rules", "observation_template", "rule_id"), ("renderers", "template", "renderer_id")):
        prose = pl.col(column).str.contains(PROSE).fill_null(value=False)
        if name == "rules":
            prose &= pl.col("origin") == "model"
        work.tell(work[name].filter(prose), key, worded("template {} holds placeholder prose; removed", column))
        work[name] = work[name].with_columns(pl.when(~prose).then(column).alias(column))


def _missing_renderers(work: _Work) -> None:
    cited = work["rules"].group_by("renderer", maintain_order=True).agg(pl.col("action_type").unique().sort())
    gone = cited.filter(~pl.col("renderer").is_in(work["renderers"]["renderer_id"].implode()))
    work.tell(gone, "renderer", pl.lit("rules cite the renderer and nobody defined it; made without a template"))
    made = gone.select(
        renderer_id="renderer",
        action_types="action_type",
        content_type=pl.lit("text/plain"),
        template=pl.lit(None, pl.String),
        required_fields=pl.lit([], pl.List(pl.String)),
        instructions=pl.lit(""),
        examples=pl.lit([], pl.List(pl.String)),
    )
    work["renderers"] = pl.concat([work["renderers"], made])


def _reject(work: _Work, found: pl.DataFrame) -> None:
    """Move what has findings to `rejected`, with all that belongs to it; rules of a rejected renderer go with it."""
    broken = found.filter(pl.col("kind") == "renderer")
    lost = work["rules"].filter(pl.col("renderer").is_in(broken["id"].implode()))
    found = pl.concat(
        [
            found,
            lost.select(kind=pl.lit("rule"), id="rule_id", detail=worded("its renderer {} is rejected", "renderer")),
        ]
    )
    if found.is_empty():
        return
    issues = found.group_by("kind", "id", maintain_order=True).agg(issues="detail")
    for kind, (name, key) in _OWNED.items():
        mine = issues.filter(pl.col("kind") == kind)
        bad = work[name].join(mine, left_on=key, right_on="id", how="inner", maintain_order="left")
        if bad.is_empty():
            continue
        columns = list(PACKAGE[name].columns)
        aside = bad.select(
            kind=pl.lit(name), id=key, issues="issues", artifact_json=pl.struct(columns).struct.json_encode()
        )
        work["rejected"] = pl.concat([work["rejected"], aside.cast(REJECTED.schema)])
        work.tell(bad, key, worded("set aside: {}", pl.col("issues").list.first()))
        gone = bad[key].implode()
        work[name] = work[name].filter(~pl.col(key).is_in(gone))
        work["refs"] = work["refs"].filter((pl.col("owner_kind") != kind) | ~pl.col("owner_id").is_in(gone))
        work["conditions"] = work["conditions"].filter(~pl.col("owner_id").is_in(gone) | pl.lit(kind == "renderer"))
        if kind == "rule":
            mutations = work["mutations"]
            work["mutations"] = mutations.filter((pl.col("owner_kind") != "rule") | ~pl.col("owner_id").is_in(gone))
            left = pl.col("rule_ids").list.set_difference(pl.lit(bad[key]).implode())
            work["demonstrations"] = work["demonstrations"].with_columns(rule_ids=left)


def _anchor(work: _Work) -> None:
    """Citations of an event go to the event's own episode and its source; those by what is not there are removed."""
    loose = ownerless(work.frames)
    what = pl.col("owner_kind").cast(pl.String)
    work.tell(work["refs"].filter(loose), "owner_id", worded("there is no such {}; its citation was removed", what))
    work["refs"] = work["refs"].filter(~loose)
    refs = work["refs"]
    events = work["events"].select("event_id", _episode="episode_id")
    episodes = work["episodes"].select(_episode="episode_id", _source="source_id")
    placed = refs.join(events, on="event_id", how="left", maintain_order="left").join(
        episodes, on="_episode", how="left", maintain_order="left"
    )
    moved = (
        pl.col("_episode").is_not_null()
        & pl.col("_source").is_not_null()
        & (
            (pl.col("_episode") != pl.col("episode_id")).fill_null(value=True)
            | (pl.col("_source") != pl.col("source_id"))
        )
    )
    work.tell(
        placed.filter(moved),
        "owner_id",
        worded("its citation of event {} was moved to the event's episode", "event_id"),
    )
    work["refs"] = placed.with_columns(
        episode_id=pl.when(moved).then("_episode").otherwise("episode_id"),
        source_id=pl.when(moved).then("_source").otherwise("source_id"),
    )


def _weaken(work: _Work) -> None:
    bare = pl.concat([unanchored(work.frames), unused(work.frames)]).unique(maintain_order=True)
    work.tell(bare, "owner_id", pl.lit("supported, but no citation carries it; now tentative"))
    for kind, name, key in (("rule", "rules", "rule_id"), ("note", "notes", "note_id")):
        mine = bare.filter(pl.col("owner_kind") == kind)["owner_id"]
        weak = pl.col(key).is_in(mine.implode())
        tentative = pl.lit("tentative", dtype=PACKAGE[name].schema["status"])
        work[name] = work[name].with_columns(status=pl.when(weak).then(tentative).otherwise("status"))
    loose = bare.filter(pl.col("owner_kind") == "invariant")
    _reject(work, loose.select(kind=pl.lit("invariant"), id="owner_id", detail=pl.lit("no citation carries it")))


def _tell_all(work: _Work) -> None:
    if not work.told:
        return
    start = work["unresolved"].height
    lines = pl.concat(work.told).with_columns(
        ordinal=(pl.int_range(pl.len()) + start).cast(pl.Int32), stage=pl.lit(STAGE)
    )
    work["unresolved"] = pl.concat([work["unresolved"], lines.select(UNRESOLVED.schema.names())])
