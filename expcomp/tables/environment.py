"""Frames of an environment package: what was recorded, what was learned from it, and how it is replayed."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import (
    Column,
    Table,
    finite,
    flag,
    integer,
    json,
    not_negative,
    one_of,
    real,
    small,
    text,
    texts,
    time,
    unit_interval,
)

ACTOR = pl.Enum("user agent environment tool system unknown".split())
EVENT_KIND = pl.Enum("message action observation state error meta".split())
EPISTEMIC = pl.Enum("observed inferred hypothesized conflicted".split())
OUTCOME = pl.Enum("success failure partial unknown".split())
ALIGNMENT = pl.Enum("correlated sequential ambiguous".split())
VALUE_TYPE = pl.Enum("string integer number boolean object array any".split())
MUTATION_OP = pl.Enum("set create delete increment decrement append merge remove schedule".split())
CONDITION_OP = pl.Enum("eq ne gt gte lt lte exists not_exists contains in".split())
RULE_STATUS = pl.Enum("supported tentative conflicted deprecated".split())
NOTE_KIND = pl.Enum("convention format constraint fact concept".split())
INVARIANT_SEVERITY = pl.Enum("error warning".split())
SPLIT = pl.Enum("train validation test".split())
CONSTRUCTION = pl.Enum("reconstructed authored ablated".split())
MEDIA = pl.Enum("json jsonl text parquet atif".split())
NAMESPACE = pl.Enum("world session surface epistemic".split())
OPERAND = pl.Enum("path action_arg literal expr".split())
VALUE_REF = pl.Enum("literal arg before after expr".split())
ORIGIN = pl.Enum("deterministic model authored".split())
FACT_ROLE = pl.Enum("precondition observation".split())
OWNER = pl.Enum("evidence rule pending action argument state renderer invariant demonstration note".split())
REF_ROLE = pl.Enum("support counterexample".split())
MATCH = pl.Enum("exact json".split())
ROUTE = pl.Enum("const function entity_episode effect entity_kb memo retrieval rule authored abstain error".split())
SEARCH_KIND = pl.Enum("rule demonstration note evidence action".split())

_SOURCE_ID = pl.col("source_id").str.contains(r"^src_[0-9a-f]{64}$")
_SMALL = pl.Int16()

SOURCES = Table(
    "environment_sources",
    "One input file; its identity is that of its bytes.",
    {
        "source_id": text("`src_` and the hex SHA-256 of the bytes", nullable=False),
        "n_bytes": integer("size of the file; null when the load does not tell"),
        "media": one_of(MEDIA, "what the bytes are", nullable=False),
        "label": text("file name, never a path", nullable=False),
        "text": text("redacted snapshot; null when it is not kept"),
        "text_verbatim": flag("the snapshot is the bytes themselves; null without a snapshot"),
        "split": one_of(SPLIT, "split of the source"),
        "trajectory_group": text("family of dependent trajectories; a family never crosses splits"),
    },
    {
        "source_id|form": _SOURCE_ID.fill_null(value=True),
        "n_bytes|not_negative": not_negative("n_bytes"),
        "label|no_path": ~pl.col("label").str.contains(r"[/\\]").fill_null(value=False),
    },
    keys=("source_id",),
)

EPISODES = Table(
    "environment_episodes",
    "One ordered list of events from one source.",
    {
        "episode_id": text("digest of source, ordinal and original id", nullable=False),
        "source_id": text("source", nullable=False),
        "original_id": text("id as the source writes it"),
        "trajectory_group": text("family of dependent trajectories", nullable=False),
        "split": one_of(SPLIT, "split of the family", nullable=False),
        "environment_id": text("environment the episode was recorded in"),
        "tenant": text("tenant"),
        "environment_version": text("version of the environment"),
        "task_id": text("task"),
        "agent": text("who acted"),
        "reward": real("recorded reward of the episode"),
        "n_events": small("events", nullable=False),
        "metadata_json": json("everything not mapped"),
    },
    {"reward|finite": finite("reward")},
    keys=("episode_id",),
)

EVENTS = Table(
    "environment_events",
    "One thing that happened.",
    {
        "event_id": text("digest of episode and ordinal", nullable=False),
        "episode_id": text("episode", nullable=False),
        "ordinal": small("0-based position in the episode", nullable=False),
        "actor": one_of(ACTOR, "who", nullable=False),
        "kind": one_of(EVENT_KIND, "what", nullable=False),
        "content": text("text, redacted", nullable=False),
        "content_is_json": flag("content is one JSON document", nullable=False),
        "call_id": text("call that the event is or answers"),
        "action_name": text("tool of an action event"),
        "arguments": json("arguments of an action event, as recorded"),
        "is_error": flag("flag of the source; null when it has none"),
        "parent_event_id": text("event that holds this one: the message of a call"),
        "batch_size": Column(_SMALL, "calls of one message", nullable=False),
        "timestamp": time("when; an unparsable stamp is kept in the metadata"),
        "char_start": small("first character, when the event was cut out of a longer text"),
        "char_end": small("character after the last"),
        "metadata_json": json("everything not mapped"),
    },
    keys=("event_id",),
)

TRANSITIONS = Table(
    "environment_transitions",
    "One action, what answered it, and a window of what came before.",
    {
        "transition_id": text("digest of episode, action events and observation events", nullable=False),
        "episode_id": text("episode", nullable=False),
        "turn": small("1-based order of the action in the episode", nullable=False),
        "action_event_ids": texts("the action", nullable=False),
        "observation_event_ids": texts("its answer", nullable=False),
        "delayed_observation_event_ids": texts("answers that came after the next action", nullable=False),
        "concurrent_action_event_ids": texts("calls that overlap in time or share a message", nullable=False),
        "history_event_ids": texts("at most `max_history_events` earlier events", nullable=False),
        "alignment": one_of(ALIGNMENT, "how the answer was found", nullable=False),
        "ambiguities": texts("why it is not certain, in words", nullable=False),
        "usable": flag("not ambiguous and nothing concurrent", nullable=False),
        "action_type": text("tool or verb", nullable=False),
        "arguments_json": text("arguments as canonical JSON", nullable=False),
        "args_key": text("first 16 hex digits of the SHA-256 of `arguments_json`", nullable=False),
        "observation": text("observation events, verbatim, joined by newlines; null when there are none"),
    },
    keys=("transition_id",),
)

EVIDENCE = Table(
    "environment_evidence",
    "What is claimed about one transition.",
    {
        "evidence_id": text("digest of the transition", nullable=False),
        "transition_id": text("transition", nullable=False),
        "action_type": text("normalised action", nullable=False),
        "arguments_json": text("arguments as canonical JSON", nullable=False),
        "outcome": one_of(OUTCOME, "what the answer says", nullable=False),
        "confidence": real("measured precision of the marker that gave the outcome; null when unmeasured"),
        "rationale": text("which marker gave the outcome"),
        "observation_text": text("copied from the source"),
        "latent_variables": texts("hidden quantities the answer depends on"),
        "ambiguities": texts("why it is not certain, in words"),
        "origin": one_of(ORIGIN, "who claims it", nullable=False),
    },
    {"confidence|unit": unit_interval("confidence")},
    keys=("evidence_id",),
)

FACTS = Table(
    "environment_facts",
    "One fact before or in the answer of a transition.",
    {
        "evidence_id": text("evidence", nullable=False),
        "role": one_of(FACT_ROLE, "before the action, or seen in the answer", nullable=False),
        "subject": text("state path", nullable=False),
        "predicate": one_of(CONDITION_OP, "relation to the value", nullable=False),
        "value_json": json("value"),
        "status": one_of(EPISTEMIC, "how it is known", nullable=False),
        "confidence": real("measured; null when unmeasured"),
    },
    {"confidence|unit": unit_interval("confidence")},
)

MUTATIONS = Table(
    "environment_mutations",
    "One change of the state: seen in evidence, or an effect of a rule.",
    {
        "owner_kind": one_of(OWNER, "evidence, rule or pending", nullable=False),
        "owner_id": text("its id", nullable=False),
        "ordinal": Column(_SMALL, "order of application", nullable=False),
        "op": one_of(MUTATION_OP, "what is done", nullable=False),
        "path": text("state path, may hold tokens", nullable=False),
        "value_json": json("literal with tokens, or a JSON string: argument name, state path or expression"),
        "value_ref": one_of(VALUE_REF, "what value_json is", nullable=False),
        "delay_steps": small("schedule only: steps until it is due"),
    },
    keys=("owner_kind", "owner_id", "ordinal"),
)

ACTION_SCHEMA = Table(
    "environment_action_schema",
    "One action.",
    {
        "action": text("name", nullable=False),
        "description": text("what it does; null when nobody says"),
        "declared": flag("from a tool definition, not only seen", nullable=False),
    },
    keys=("action",),
)

ACTION_ARGS = Table(
    "environment_action_args",
    "One argument of an action.",
    {
        "action": text("action", nullable=False),
        "arg": text("name", nullable=False),
        "type": one_of(VALUE_TYPE, "a boolean is never an integer", nullable=False),
        "required": flag("in every call, or declared so", nullable=False),
        "enum_json": json("array of the legal values"),
        "description": text("what it means; null when nobody says"),
        "n_seen": integer("calls that give it"),
        "n_missing": integer("calls that do not"),
        "n_null": integer("calls that give null"),
        "min": real("least number seen"),
        "max": real("largest number seen"),
        "max_len": small("longest text or list seen"),
        "examples_json": json("array of values seen"),
    },
    {"min|finite": finite("min"), "max|finite": finite("max")},
    keys=("action", "arg"),
)

ACTION_ALIASES = Table(
    "environment_action_aliases",
    "Another name of an action.",
    {"alias": text("name", nullable=False), "action": text("the action it means", nullable=False)},
    keys=("alias",),
)

STATE_SCHEMA = Table(
    "environment_state_schema",
    "One declared state path; what lies below an object, array or any is declared with it.",
    {
        "path": text("dotted path that starts with a namespace", nullable=False),
        "type": one_of(VALUE_TYPE, "type of the value", nullable=False),
        "default_json": json("value of an authored package before anything happened; null: none"),
        "mutable": flag("effects may change it", nullable=False),
        "visibility": one_of(NAMESPACE, "first segment of the path", nullable=False),
        "description": text("what it means; null when nobody says"),
    },
    {"visibility|first_segment": pl.col("path").str.extract(r"^([^.\[]+)") == pl.col("visibility").cast(pl.String)},
    keys=("path",),
)

STATE_ALIASES = Table(
    "environment_state_aliases",
    "Another name of a state path; a path is rewritten through its longest aliased prefix.",
    {"alias": text("path", nullable=False), "path": text("the path it means", nullable=False)},
    keys=("alias",),
)

RULES = Table(
    "environment_rules",
    "For an action, if all conditions hold: outcome, effects and how the answer reads.",
    {
        "rule_id": text("id", nullable=False),
        "action_type": text("action", nullable=False),
        "description": text("what it says"),
        "priority": small("higher wins", nullable=False),
        "outcome": one_of(OUTCOME, "what the rule asserts", nullable=False),
        "renderer": text("renderer id", nullable=False),
        "observation_template": text("takes the place of the renderer's template"),
        "confidence": real("lower bound of held-out precision; authored: as stated; null when unmeasured"),
        "status": one_of(RULE_STATUS, "only supported rules run", nullable=False),
        "scope_json": text("JSON object of texts; all must match", nullable=False),
        "n_support": small("transitions the rule explains"),
        "n_counter": small("transitions that contradict it"),
        "heldout_n": small("held-out transitions it was tried on"),
        "heldout_hit": small("of them, those it got right"),
        "origin": one_of(ORIGIN, "who made it", nullable=False),
    },
    {"confidence|unit": unit_interval("confidence")},
    keys=("rule_id",),
)

CONDITIONS = Table(
    "environment_conditions",
    "One condition of a rule or invariant; those of a group hold together, one group is enough.",
    {
        "owner_id": text("rule or invariant", nullable=False),
        "group": Column(_SMALL, "alternatives: OR over groups, AND inside one", nullable=False),
        "ordinal": Column(_SMALL, "order inside the owner", nullable=False),
        "left_kind": one_of(OPERAND, "what left is", nullable=False),
        "left": text("path, argument, JSON literal or expression", nullable=False),
        "op": one_of(CONDITION_OP, "relation", nullable=False),
        "right_kind": one_of(OPERAND, "what right is; null for exists and not_exists"),
        "right": text("path, argument, JSON literal or expression; null for exists and not_exists"),
    },
    keys=("owner_id", "ordinal"),
)

INVARIANTS = Table(
    "environment_invariants",
    "One condition on the state that holds after every step; the condition is in `conditions`.",
    {
        "invariant_id": text("id", nullable=False),
        "description": text("what it says"),
        "severity": one_of(INVARIANT_SEVERITY, "an error refuses the step", nullable=False),
        "n_support": small("states it was seen to hold in"),
    },
    keys=("invariant_id",),
)

RENDERERS = Table(
    "environment_renderers",
    "How an observation looks.",
    {
        "renderer_id": text("id", nullable=False),
        "action_types": texts("actions it serves; empty: all", nullable=False),
        "content_type": text("media type; `application/json` renders values as JSON", nullable=False),
        "template": text("text with tokens"),
        "required_fields": texts("references that must have a value", nullable=False),
        "instructions": text("for people and models"),
        "examples": texts("observations, verbatim", nullable=False),
    },
    keys=("renderer_id",),
)

DEMONSTRATIONS = Table(
    "environment_demonstrations",
    "One verbatim example.",
    {
        "demo_id": text("id", nullable=False),
        "action_type": text("action", nullable=False),
        "arguments_json": text("arguments as canonical JSON", nullable=False),
        "state_before_json": json("facts that were seen before"),
        "state_after_json": json("facts that were seen after"),
        "observation": text("verbatim", nullable=False),
        "outcome": one_of(OUTCOME, "what the answer says", nullable=False),
        "rule_ids": texts("rules that explain it", nullable=False),
    },
    keys=("demo_id",),
)

NOTES = Table(
    "environment_notes",
    "Knowledge that does not run.",
    {
        "note_id": text("id", nullable=False),
        "kind": one_of(NOTE_KIND, "what it is", nullable=False),
        "statement": text("one sentence", nullable=False),
        "action_types": texts("actions it is about; empty: all", nullable=False),
        "confidence": real("measured share that agrees; null when unmeasured"),
        "status": one_of(RULE_STATUS, "how well it stands", nullable=False),
    },
    {"confidence|unit": unit_interval("confidence")},
    keys=("note_id",),
)

REFS = Table(
    "environment_refs",
    "Where a claim comes from.",
    {
        "owner_kind": one_of(OWNER, "what cites", nullable=False),
        "owner_id": text("its id", nullable=False),
        "role": one_of(REF_ROLE, "for or against", nullable=False),
        "source_id": text("source", nullable=False),
        "episode_id": text("episode"),
        "event_id": text("event"),
        "locator": text("place inside the source"),
        "excerpt": text("a few words of it"),
    },
)

UNRESOLVED = Table(
    "environment_unresolved",
    "What was repaired, weakened or left open while the package was made.",
    {
        "ordinal": small("order", nullable=False),
        "stage": text("where", nullable=False),
        "owner_id": text("what"),
        "message": text("what was found and done", nullable=False),
    },
    keys=("ordinal",),
)

REJECTED = Table(
    "environment_rejected",
    "A record that failed the static checks, with its reasons.",
    {
        "kind": text("table it belongs to", nullable=False),
        "id": text("its id", nullable=False),
        "issues": texts("reasons", nullable=False),
        "artifact_json": text("the record", nullable=False),
    },
    keys=("kind", "id"),
)

REPLAY_CASES = Table(
    "environment_replay_cases",
    "One recorded trajectory to replay.",
    {
        "case_id": text("id", nullable=False),
        "trajectory_group": text("family", nullable=False),
        "source_ids": texts("sources it was recorded in", nullable=False),
        "split": one_of(SPLIT, "split of the family", nullable=False),
        "initial_state_json": text("state before the first step", nullable=False),
        "initial_state_complete": flag("what it does not hold is absent", nullable=False),
        "known_absent_paths": texts("paths known to be absent", nullable=False),
    },
    {"source_ids|some": pl.col("source_ids").list.len() > 0},
    keys=("case_id",),
)

REPLAY_STEPS = Table(
    "environment_replay_steps",
    "One step of a case: what was done, what came back.",
    {
        "case_id": text("case", nullable=False),
        "ordinal": small("0-based position", nullable=False),
        "action_type": text("action", nullable=False),
        "arguments_json": text("arguments as JSON", nullable=False),
        "expected_observation": text("recorded answer", nullable=False),
        "match": one_of(MATCH, "equal as text, or as parsed JSON", nullable=False),
        "expected_outcome": one_of(OUTCOME, "recorded outcome; null is not scored"),
        "expected_state_json": text("object of path to value; only listed paths are scored", nullable=False),
    },
    keys=("case_id", "ordinal"),
)

REPLAY_RESULTS = Table(
    "environment_replay_results",
    "One replayed case.",
    {
        "case_id": text("case", nullable=False),
        "trajectory_group": text("family", nullable=False),
        "split": one_of(SPLIT, "split of the case", nullable=False),
        "independent": flag("no source or family in common with the construction", nullable=False),
        "passed": flag("every step was right", nullable=False),
        "attempted_steps": small("steps that ran", nullable=False),
        "expected_steps": small("steps of the case", nullable=False),
        "errors": texts("what went wrong", nullable=False),
        "rule_ids": texts("rules that were used", nullable=False),
    },
    keys=("case_id",),
)

REPLAY_STEP_RESULTS = Table(
    "environment_replay_step_results",
    "One replayed step.",
    {
        "case_id": text("case", nullable=False),
        "ordinal": small("0-based position", nullable=False),
        "action_type": text("action", nullable=False),
        "route": one_of(ROUTE, "what answered; error: the step was refused", nullable=False),
        "rule_id": text("rule that answered"),
        "predicted": text("the answer; null when there was none"),
        "exact": flag("equal under the match of the step", nullable=False),
        "json_equal": flag("equal as parsed JSON; null when the recorded answer is no JSON"),
        "leaf_accuracy": real("share of leaf paths, of both answers, with equal value; null unless both are JSON"),
        "outcome_predicted": one_of(OUTCOME, "outcome given; null when there was none"),
        "outcome_ok": flag("equal to the recorded one; null when it is not scored"),
        "state_ok": flag("every listed path equal; null when none is listed"),
        "abstained": flag("no answer was given", nullable=False),
        "confidence": real("confidence of the answer; null when unmeasured"),
        "error": text("why there was no answer"),
    },
    {"confidence|unit": unit_interval("confidence"), "leaf_accuracy|unit": unit_interval("leaf_accuracy")},
    keys=("case_id", "ordinal"),
)

PACKAGE: dict[str, Table] = {
    t.name.removeprefix("environment_"): t
    for t in (
        SOURCES,
        EPISODES,
        EVENTS,
        TRANSITIONS,
        EVIDENCE,
        FACTS,
        MUTATIONS,
        ACTION_SCHEMA,
        ACTION_ARGS,
        ACTION_ALIASES,
        STATE_SCHEMA,
        STATE_ALIASES,
        RULES,
        CONDITIONS,
        INVARIANTS,
        RENDERERS,
        DEMONSTRATIONS,
        NOTES,
        REFS,
        UNRESOLVED,
        REJECTED,
    )
}
"""Tables of a package, by file stem, in the order they are written."""

REPLAY: dict[str, Table] = {
    t.name.removeprefix("environment_"): t for t in (REPLAY_CASES, REPLAY_STEPS, REPLAY_RESULTS, REPLAY_STEP_RESULTS)
}
"""Tables of a replay, by file stem."""

ENVIRONMENT_TABLES: dict[str, Table] = {t.name: t for t in (*PACKAGE.values(), *REPLAY.values())}
