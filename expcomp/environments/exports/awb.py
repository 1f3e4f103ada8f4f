"""AgentWorldBench rows, out and in: the next answer of an environment is predicted after the recorded steps before it.

A row has task, id, prompt and response (lists: every turn up to its own), current_prompt, system_str, turn_idx (from 1) and
total_turns. A prompt is `### Turn n`, optionally `**Current State:**`, and `**Action:**` with JSON in a fence; the last one goes on
with what is asked for. A response is `**Environment Observation:**` and the observation. What is no such row is refused; a prompt or a
response in other words is kept as it is, with null for what cannot be found in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from expcomp.environments.exports.bundle import Bundle, LeftOut
from expcomp.environments.exports.case_lines import json_lines
from expcomp.environments.flatten import canonical
from expcomp.environments.overview import tool_schemas
from expcomp.environments.records import lines
from expcomp.errors import SourceError
from expcomp.io.digest import sha256_expr, sha256_file
from expcomp.io.record_files import read_records
from expcomp.io.text_files import write_texts
from expcomp.tables.environment import REPLAY_CASES, REPLAY_STEPS

ROWS = pl.Schema(
    {
        "task": pl.String(),
        "id": pl.String(),
        "prompt": pl.List(pl.String),
        "response": pl.List(pl.String),
        "current_prompt": pl.String(),
        "system_str": pl.String(),
        "turn_idx": pl.Int32(),
        "total_turns": pl.Int32(),
    }
)
"""The rows; `id` is JSON text, for it may be a number or a text."""

TURNS = pl.Schema(
    {
        "trajectory": pl.String(),
        "turn": pl.Int32(),
        "task": pl.String(),
        "id": pl.String(),
        "system_str": pl.String(),
        "total_turns": pl.Int32(),
        "prompt": pl.String(),
        "response": pl.String(),
        "asked": pl.String(),
        "state": pl.String(),
        "action": pl.String(),
        "observation": pl.String(),
    }
)
"""One line a turn. `asked` is what the last prompt of the turn's row goes on with, null when the turn has no row; `state`,
`action` (JSON text) and `observation` are cut out of prompt and response, null where those read otherwise."""

ASKED = (
    "\n\nSay what the environment answers to the last action: its text and nothing else, between <predicted_observation> and "
    "</predicted_observation>."
)
HEAD = "**Environment Observation:**\n"
FILE = "rows.jsonl"

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "task": str,
    "id": (str, int),
    "prompt": list,
    "response": list,
    "current_prompt": str,
    "system_str": str,
    "turn_idx": int,
    "total_turns": int,
}


def read_rows(path: Path) -> pl.DataFrame:
    """Rows of a JSON lines file.

    Raises:
        SourceError: Naming the record and the field.
    """
    found = read_records(path)
    records = found if isinstance(found, list) else [found]
    for number, record in enumerate(records, 1):
        where = f"{path.name}, record {number}"
        if not isinstance(record, dict):
            raise SourceError(f"{where}: expected an object")
        wrong = [n for n, t in _TYPES.items() if not isinstance(record.get(n), t) or isinstance(record.get(n), bool)]
        if wrong:
            raise SourceError(
                f"{where}: field {wrong[0]} is {record.get(wrong[0])!r:.60}, not one of an AgentWorldBench row"
            )
        texts = [*record["prompt"], *record["response"]]
        if (
            not all(isinstance(t, str) for t in texts)
            or not len(record["prompt"]) == len(record["response"]) == record["turn_idx"]
        ):
            raise SourceError(f"{where}: prompt and response: expected turn_idx ({record['turn_idx']}) texts each")
        if not record["prompt"] or not record["prompt"][-1].startswith(record["current_prompt"]):
            raise SourceError(f"{where}: the last prompt does not begin with current_prompt")
    columns = {n: [json.dumps(r[n], ensure_ascii=False) if n == "id" else r[n] for r in records] for n in ROWS.names()}
    return pl.DataFrame(columns, schema=ROWS)


def turns_of(rows: pl.DataFrame) -> pl.DataFrame:
    """`TURNS` of rows: each turn once, those of a trajectory from its longest row.

    Trajectories of one id that begin otherwise are told apart.

    Raises:
        SourceError: Two rows of one trajectory do not tell the same turns.
    """
    first = pl.when(pl.col("turn_idx") == 1).then("current_prompt").otherwise(pl.col("prompt").list.first())
    begun = rows.with_columns(_begin=sha256_expr(pl.concat_str("system_str", first, separator="\n")).str.slice(0, 8))
    many = pl.col("_begin").n_unique().over("task", "id") > 1
    named = begun.with_columns(
        trajectory=pl.concat_str("task", pl.lit("/"), pl.col("id").str.strip_chars('"'))
        + pl.when(many).then("-" + pl.col("_begin")).otherwise(pl.lit("")),
        asked=pl.col("prompt").list.last().str.slice(pl.col("current_prompt").str.len_chars()),
    )
    longest = named.sort("turn_idx", descending=True, maintain_order=True).unique(
        "trajectory", keep="first", maintain_order=True
    )
    last = pl.col("turn") == pl.col("turn_idx")
    turns = (
        longest.with_columns(turn=pl.int_ranges(1, pl.col("turn_idx") + 1, dtype=pl.Int32))
        .explode("turn", "prompt", "response", empty_as_null=False)
        .with_columns(prompt=pl.when(last).then("current_prompt").otherwise("prompt"))
        .drop("asked")
        .join(
            named.select("trajectory", "asked", turn="turn_idx"),
            on=["trajectory", "turn"],
            how="left",
            maintain_order="left",
        )
    )
    made = _read(turns).sort("trajectory", "turn")
    key = ["trajectory", "turn_idx"]
    again = rows_of(made).with_columns(trajectory=made.filter(pl.col("asked").is_not_null())["trajectory"])
    other = named.select(*key, *ROWS.names()[2:6]).sort(key)
    if not again.select(other.columns).sort(key).equals(other):
        told = other.join(again.select(other.columns), on=other.columns, how="anti", maintain_order="left").select(key)
        where = f" (as {told['trajectory'][0]}, turn {told['turn_idx'][0]})" if told.height else ""
        raise SourceError(f"rows of one trajectory do not tell the same turns, or one is there twice{where}")
    return made


def _read(turns: pl.DataFrame) -> pl.DataFrame:
    """State, action and observation out of prompt and response."""
    prompt, response = pl.col("prompt").str.strip_chars_end(), pl.col("response")
    return turns.with_columns(
        state=prompt.str.extract(r"(?s)\*\*Current State:\*\*\n(.*?)\n\n\*\*Action:\*\*"),
        action=prompt.str.extract(r"(?s)\*\*Action:\*\*\n```json\n(.*)\n```$"),
        observation=pl.when(response.str.starts_with(HEAD)).then(response.str.strip_prefix(HEAD)),
    ).select(TURNS.names())


def rows_of(turns: pl.DataFrame) -> pl.DataFrame:
    """`ROWS` of turns: one for each that is asked for, in order of trajectory and turn."""
    ordered = turns.sort("trajectory", "turn")
    told = ordered.group_by("trajectory", maintain_order=True).agg(
        _prompts=pl.col("prompt"), _responses=pl.col("response")
    )
    n = pl.col("turn")
    return (
        ordered.filter(pl.col("asked").is_not_null())
        .join(told, on="trajectory", how="left", maintain_order="left")
        .select(
            "task",
            "id",
            prompt=pl.concat_list(pl.col("_prompts").list.head(n - 1), pl.col("prompt") + pl.col("asked")),
            response=pl.col("_responses").list.head(n),
            current_prompt="prompt",
            system_str="system_str",
            turn_idx="turn",
            total_turns="total_turns",
        )
        .cast(ROWS)
    )


def rows_text(rows: pl.DataFrame) -> str:
    """Rows as JSON lines."""
    names = ROWS.names()
    return json_lines(
        [{n: json.loads(v) if n == "id" else v for n, v in zip(names, r, strict=True)} for r in lines(rows, *names)]
    )


def cases_of(turns: pl.DataFrame, source_id: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Replay cases and steps of turns, so that a package can be measured on them; a turn that cannot be read ends its case.

    An action of `name` (or `type`) and `arguments` is that call; any other is the action `task` with the argument `input`.

    Args:
        turns: `TURNS`.
        source_id: Source they were read from.
    """
    documents = canonical(turns["action"])
    named = turns.join(documents, left_on="action", right_on="text", how="left", maintain_order="left").sort(
        "trajectory", "turn"
    )
    bad = pl.col("value").is_null() | pl.col("observation").is_null()
    kept = named.filter(bad.cum_sum().over("trajectory") == 0)
    name = pl.coalesce(pl.col("value").str.json_path_match("$.name"), pl.col("value").str.json_path_match("$.type"))
    arguments = pl.col("value").str.extract(r'(?s)^\{"arguments":(\{.*\}),"(?:name|type)":"(?:[^"\\]|\\.)*"\}$')
    call = name.is_not_null() & arguments.is_not_null()
    steps = kept.select(
        case_id="trajectory",
        ordinal=pl.col("turn") - 1,
        action_type=pl.when(call).then(name).otherwise("task"),
        arguments_json=pl.when(call).then(arguments).otherwise(_input()),
        expected_observation="observation",
        match=pl.lit("exact"),
        expected_outcome=pl.lit(None, pl.String),
        expected_state_json=pl.lit("{}"),
    ).cast(REPLAY_STEPS.schema)
    cases = (
        kept.unique("trajectory", keep="first", maintain_order=True)
        .select(
            case_id="trajectory",
            trajectory_group="trajectory",
            source_ids=pl.concat_list(pl.lit(source_id)),
            split=pl.lit("test"),
            initial_state_json=pl.lit("{}"),
            initial_state_complete=pl.lit(value=False),
            known_absent_paths=pl.lit([], pl.List(pl.String)),
        )
        .cast(REPLAY_CASES.schema)
    )
    return cases, steps


def _input() -> pl.Expr:
    return pl.lit('{"input":') + pl.col("value") + pl.lit("}")


def read_cases_of_rows(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Replay cases and steps of a file of rows.

    Raises:
        SourceError: A row that is none, or rows that contradict each other.
    """
    return cases_of(turns_of(read_rows(path)), f"src_{sha256_file(path).removeprefix('sha256:')}")


def turns_of_cases(made: Bundle) -> pl.DataFrame:
    """`TURNS` of replay cases: every step is asked for, the state before the first is told with it."""
    config = made.package.config
    tools = json.dumps(tool_schemas(made.package.frames), ensure_ascii=False)
    system = f"You are the environment {config.name or config.environment_id}. {config.description or ''}".rstrip()
    system += f"\n\nIts actions, as JSON Schema:\n{tools}"
    number, begun = pl.col("ordinal") + 1, pl.col("initial_state_json")
    state = pl.when((pl.col("ordinal") == 0) & (begun != "{}")).then(begun)
    action = pl.concat_str(
        pl.lit('{"name": '),
        pl.struct(n="action_type").struct.json_encode().str.slice(5).str.strip_suffix("}"),
        pl.lit(', "arguments": '),
        pl.col("arguments_json"),
        pl.lit("}"),
    )
    return (
        made.steps.with_columns(pl.col("action_type").cast(pl.String))
        .join(made.cases.select("case_id", "initial_state_json"), on="case_id", how="inner", maintain_order="left")
        .with_columns(state=state, action=action)
        .select(
            trajectory=pl.lit(config.environment_id) + "/" + pl.col("case_id"),
            turn=number,
            task=pl.lit(config.environment_id),
            id=pl.struct(n="case_id").struct.json_encode().str.slice(5).str.strip_suffix("}"),
            system_str=pl.lit(system),
            total_turns=pl.len().over("case_id"),
            prompt=pl.concat_str(
                pl.lit("### Turn "),
                number,
                pl.lit("\n"),
                pl.when(pl.col("state").is_null())
                .then(pl.lit(""))
                .otherwise(pl.lit("**Current State:**\n") + pl.col("state") + pl.lit("\n\n")),
                pl.lit("**Action:**\n```json\n"),
                "action",
                pl.lit("\n```"),
            ),
            response=pl.lit(HEAD) + pl.col("expected_observation"),
            asked=pl.lit(ASKED),
            state="state",
            action="action",
            observation="expected_observation",
        )
        .cast(TURNS)
        .sort("trajectory", "turn")
    )


def write_awb(made: Bundle, staging: Path) -> LeftOut:
    """One file of rows, one a step of a case."""
    write_texts(staging, [(FILE, rows_text(rows_of(turns_of_cases(made))))])
    return {}
