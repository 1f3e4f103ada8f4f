"""What trainers read: one declaration a dataset config. Columns, profile, reserved names; how rows get there is in `datasets`."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from expcomp.tables._spec import Column, Table, flag, integer, real, text

# `arguments` holds JSON text in Polars; the typed profile marks it `arrow.json` when it is written.
WIRE_CALL = pl.Struct(
    {
        "id": pl.String(),
        "type": pl.String(),
        "function": pl.Struct({"name": pl.String(), "arguments": pl.String()}),
    }
)
WIRE_MESSAGE = pl.Struct(
    {
        "role": pl.String(),
        "content": pl.String(),
        "reasoning_content": pl.String(),
        "tool_calls": pl.List(WIRE_CALL),
        "tool_call_id": pl.String(),
        "name": pl.String(),
    }
)
WIRE_CHAT = pl.List(WIRE_MESSAGE)
TEXT_CHAT = pl.List(pl.Struct({"role": pl.String(), "content": pl.String()}))
SHARE_CHAT = pl.List(pl.Struct({"from": pl.String(), "value": pl.String()}))


def _flagged(name: str) -> pl.List:
    """Messages with one more field that says whether a turn carries loss."""
    return pl.List(pl.Struct([*WIRE_MESSAGE.fields, pl.Field(name, pl.Boolean())]))


AXOLOTL_CHAT = _flagged("training")
SWIFT_CHAT = _flagged("loss")
_VISION = frozenset({"image", "images"})


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One dataset config that a trainer loads as it is.

    Attributes:
        name: What the user asks for.
        config: Name of the config: folder below `data/`, and config in the dataset card.
        kind: Logical rows it is lowered from: conversation, turn, pair, prompt, judged, process, world.
        profile: Physical form: typed, plain, text, sharegpt, native (see trainers' facts in the docs of `datasets.wire`).
        description: One line for the card.
        columns: Of the wire frame, in order.
        reserved: Names that the trainer takes for something else; no column may have one.
        files: `parquet`, `jsonl` or both.
        needs: What a row must have to be a candidate: `trainable` (no assistant turn without loss: the trainer has no mask),
            `margin`, `ground_truth`.
    """

    name: str
    config: str
    kind: str
    profile: str
    description: str
    columns: dict[str, Column]
    reserved: frozenset[str] = frozenset()
    files: tuple[str, ...] = ("parquet", "jsonl")
    needs: tuple[str, ...] = ()

    @property
    def all_or_none(self) -> tuple[str, ...]:
        """Columns that hold a value in every row."""
        return tuple(n for n in self.needs if n in self.columns)

    @property
    def table(self) -> Table:
        """The wire frame as a table of the contract."""
        return Table(f"dataset_{self.config.replace('-', '_')}", self.description, self.columns)


def _chat(description: str, dtype: pl.DataType = WIRE_CHAT) -> Column:
    return Column(dtype, description, nullable=False)


TOOLS = text("JSON array of function schemas, one text for one tool set; null when unknown, never []")
LINEAGE = {
    "task_id": text("task the row comes from; the unit of splits", nullable=False),
    "attempt_id": text("attempt the row comes from", nullable=False),
    "row_id": text("row of the compile the sample was made from", nullable=False),
}
PAIR_LINEAGE = {
    "task_id": LINEAGE["task_id"],
    "chosen_attempt_id": text("attempt of chosen", nullable=False),
    "rejected_attempt_id": text("attempt of rejected", nullable=False),
    "pair_level": text("attempt, deliverable, or step", nullable=False),
    "row_id": LINEAGE["row_id"],
}
TASK_LINEAGE = {"task_id": LINEAGE["task_id"], "row_id": LINEAGE["row_id"]}
_PAIR = {
    "prompt": _chat("the whole shared history; ends with user or tool"),
    "chosen": _chat("the better next assistant message"),
    "rejected": _chat("the worse next assistant message"),
    "tools": TOOLS,
}
_TASK_STATS = {
    "pass_rate": real("share of attempts that passed", nullable=False),
    "pass_rate_low": real("lower end of the 95 % Wilson interval", nullable=False),
    "pass_rate_high": real("upper end of the 95 % Wilson interval", nullable=False),
    "n_attempts": integer("attempts behind pass_rate", nullable=False),
    "n_openings": integer(
        "ways in which recorded attempts began; with several (a simulated user) the prompt is that of the first",
        nullable=False,
    ),
}

_TARGETS = (
    Target(
        "trl-sft",
        "sft",
        "conversation",
        "typed",
        "TRL SFT: whole conversations of which every assistant turn deserves its loss.",
        {"messages": _chat("ends with an assistant turn"), "tools": TOOLS, **LINEAGE},
        frozenset(
            "prompt completion chosen rejected conversations text input_ids labels completion_mask assistant_masks "
            "seq_lengths".split()
        )
        | _VISION,
        needs=("trainable",),
    ),
    Target(
        "trl-sft-pc",
        "sft_pc",
        "turn",
        "typed",
        "TRL SFT, one assistant turn a row: the history and the next turn; bad turns are history only.",
        {
            "prompt": _chat("ends with user or tool"),
            "completion": _chat("exactly one assistant message"),
            "tools": TOOLS,
            **LINEAGE,
        },
        frozenset(
            "messages chosen rejected conversations text input_ids labels completion_mask assistant_masks seq_lengths".split()
        )
        | _VISION,
    ),
    Target(
        "trl-dpo",
        "dpo",
        "pair",
        "typed",
        "TRL DPO: pairs of one task, cut at the first assistant turn that differs.",
        {**_PAIR, **PAIR_LINEAGE},
        frozenset(
            "messages completion margin prompt_ids chosen_ids rejected_ids ref_chosen_logps ref_rejected_logps".split()
        )
        | _VISION,
    ),
    Target(
        "trl-kto",
        "kto",
        "judged",
        "typed",
        "TRL KTO: single turns with the verdict of a verifier; rows of one task are never neighbours.",
        {
            "prompt": _chat("ends with user or tool"),
            "completion": _chat("exactly one assistant message"),
            "label": flag("the verifier's verdict on the attempt", nullable=False),
            "tools": TOOLS,
            **LINEAGE,
        },
        frozenset("messages chosen rejected prompt_ids completion_ids KL_completion_ids ref_logps ref_KL_logps".split())
        | _VISION,
    ),
    Target(
        "trl-grpo",
        "grpo",
        "prompt",
        "typed",
        "TRL GRPO and RLOO: one prompt a task, with what a reward function needs.",
        {
            "prompt": _chat("what came before the agent's first word"),
            "ground_truth": text("reference answer, gold actions or tests of the task"),
            "verifier": text("who graded the recorded attempts"),
            **_TASK_STATS,
            "tools": TOOLS,
            **TASK_LINEAGE,
        },
        frozenset(
            "messages completion chosen rejected prompts completions completion_ids trainer_state log_extra log_metric "
            "environments environment".split()
        )
        | _VISION,
    ),
    Target(
        "trl-reward",
        "reward",
        "pair",
        "typed",
        "TRL reward model: pairs of one task, with the margin of their scores.",
        {**_PAIR, "margin": real("difference of the normalised scores", nullable=False), **PAIR_LINEAGE},
        frozenset("messages completion chosen_ids rejected_ids chosen_input_ids rejected_input_ids".split()) | _VISION,
        needs=("margin",),
    ),
    Target(
        "trl-prm",
        "prm",
        "process",
        "text",
        "Process reward model: steps with a boolean label each, cut before the first step nothing speaks for.",
        {
            "prompt": text("the task", nullable=False),
            "completions": Column(pl.List(pl.String()), "steps, without the separator", nullable=False),
            "labels": Column(pl.List(pl.Boolean()), "one a step", nullable=False),
            "label_sources": Column(pl.List(pl.String()), "where each label comes from", nullable=False),
            **LINEAGE,
        },
        frozenset({"messages", "completion", "input_ids"}),
    ),
    Target(
        "verl-rl",
        "verl-rl",
        "prompt",
        "text",
        "verl RLHFDataset: prompts with a rule-based ground truth.",
        {
            "data_source": text("`expcomp/<benchmark>`", nullable=False),
            "prompt": _chat("text messages", TEXT_CHAT),
            "ability": text("always `agent`", nullable=False),
            "reward_model": Column(
                pl.Struct({"style": pl.String(), "ground_truth": pl.String()}), "style `rule`", nullable=False
            ),
            "extra_info": Column(
                pl.Struct(
                    {
                        "split": pl.String(),
                        "index": pl.Int64(),
                        "task_id": pl.String(),
                        "pass_rate": pl.Float64(),
                        "n_attempts": pl.Int64(),
                        "verifier": pl.String(),
                        "row_id": pl.String(),
                    }
                ),
                "lineage and statistics",
                nullable=False,
            ),
        },
        needs=("ground_truth",),
    ),
    Target(
        "verl-sft",
        "verl-sft",
        "conversation",
        "text",
        "verl MultiTurnSFTDataset: text messages, calls and tools rendered into them.",
        {"messages": _chat("text messages", TEXT_CHAT), **LINEAGE},
        frozenset({"tools", "enable_thinking"}),
        needs=("trainable",),
    ),
    Target(
        "axolotl",
        "axolotl",
        "conversation",
        "plain",
        "Axolotl chat_template: conversations with a `training` flag on each message.",
        {"messages": _chat("with `training` flags", AXOLOTL_CHAT), "tools": TOOLS, **LINEAGE},
    ),
    Target(
        "llama-factory",
        "llama-factory",
        "conversation",
        "sharegpt",
        "LLaMA-Factory SFT, formatting sharegpt.",
        {
            "conversations": _chat("human/observation and gpt/function_call in turn", SHARE_CHAT),
            "system": text("system prompt; empty when there is none", nullable=False),
            "tools": text("JSON array of functions; empty when there are none", nullable=False),
            **LINEAGE,
        },
        needs=("trainable",),
    ),
    Target(
        "llama-factory-dpo",
        "llama-factory-dpo",
        "pair",
        "sharegpt",
        "LLaMA-Factory pairs, formatting sharegpt, ranking.",
        {
            "conversations": _chat("the shared history", SHARE_CHAT),
            "chosen": Column(pl.Struct({"from": pl.String(), "value": pl.String()}), "one message", nullable=False),
            "rejected": Column(pl.Struct({"from": pl.String(), "value": pl.String()}), "one message", nullable=False),
            "system": text("system prompt; empty when there is none", nullable=False),
            "tools": text("JSON array of functions; empty when there are none", nullable=False),
            **PAIR_LINEAGE,
        },
    ),
    Target(
        "llama-factory-kto",
        "llama-factory-kto",
        "judged",
        "sharegpt",
        "LLaMA-Factory KTO, formatting sharegpt.",
        {
            "conversations": _chat("history and one answer", SHARE_CHAT),
            "kto_tag": flag("the verifier's verdict", nullable=False),
            "system": text("system prompt; empty when there is none", nullable=False),
            "tools": text("JSON array of functions; empty when there are none", nullable=False),
            **LINEAGE,
        },
    ),
    Target(
        "ms-swift",
        "ms-swift",
        "conversation",
        "plain",
        "ms-swift SFT: conversations with a `loss` flag on each message; reasoning stands in content as <think>.",
        {"messages": _chat("with `loss` flags", SWIFT_CHAT), "tools": TOOLS, **LINEAGE},
        frozenset({"prompt", "chosen"}),
    ),
    Target(
        "ms-swift-dpo",
        "ms-swift-dpo",
        "pair",
        "plain",
        "ms-swift DPO: history with the better answer, and with the worse one.",
        {
            "messages": _chat("prompt and chosen"),
            "rejected_messages": _chat("prompt and rejected"),
            "tools": TOOLS,
            **PAIR_LINEAGE,
        },
        frozenset({"prompt", "chosen", "rejected"}),
    ),
    Target(
        "ms-swift-kto",
        "ms-swift-kto",
        "judged",
        "plain",
        "ms-swift KTO.",
        {
            "messages": _chat("history and one answer"),
            "label": flag("the verifier's verdict", nullable=False),
            "tools": TOOLS,
            **LINEAGE,
        },
        frozenset({"prompt", "completion"}),
    ),
    Target(
        "ms-swift-grpo",
        "ms-swift-grpo",
        "prompt",
        "plain",
        "ms-swift GRPO: prompts with a solution.",
        {
            "messages": _chat("the prompt"),
            "solution": text("reference answer, gold actions or tests of the task"),
            "verifier": text("who graded the recorded attempts"),
            **_TASK_STATS,
            "tools": TOOLS,
            **TASK_LINEAGE,
        },
        frozenset({"prompt"}),
    ),
    Target(
        "openrlhf",
        "openrlhf",
        "conversation",
        "text",
        "OpenRLHF SFT: text messages, calls and tools rendered into them.",
        {"messages": _chat("text messages", TEXT_CHAT), **LINEAGE},
        files=("parquet",),
        needs=("trainable",),
    ),
    Target(
        "openrlhf-dpo",
        "openrlhf-dpo",
        "pair",
        "typed",
        "OpenRLHF reward model and DPO.",
        {
            "prompt": _chat("the whole shared history; tools stand in the system text"),
            "chosen": _chat("the better next assistant message"),
            "rejected": _chat("the worse next assistant message"),
            "margin": real("difference of the normalised scores", nullable=False),
            **PAIR_LINEAGE,
        },
        files=("parquet",),
        needs=("margin",),
    ),
    Target(
        "openrlhf-rl",
        "openrlhf-rl",
        "prompt",
        "text",
        "OpenRLHF RL prompts.",
        {
            "prompt": _chat("text messages", TEXT_CHAT),
            "ground_truth": text("reference answer, gold actions or tests of the task", nullable=False),
            "datasource": text("benchmark", nullable=False),
            **_TASK_STATS,
            **TASK_LINEAGE,
        },
        files=("parquet",),
        needs=("ground_truth",),
    ),
    Target(
        "nemo-rl",
        "nemo-rl",
        "conversation",
        "native",
        "NeMo-RL SFT: native objects, read with use_preserving_dataset.",
        {"messages": _chat("ends with an assistant turn"), "tools": TOOLS, **LINEAGE},
        files=("jsonl",),
        needs=("trainable",),
    ),
    Target(
        "nemo-rl-dpo",
        "nemo-rl-dpo",
        "pair",
        "native",
        "NeMo-RL preference rows: context and ranked completions, 0 is best.",
        {
            "context": _chat("the whole shared history"),
            "completions": Column(
                pl.List(pl.Struct({"rank": pl.Int64(), "completion": WIRE_CHAT})), "rank 0 is best", nullable=False
            ),
            "tools": TOOLS,
            **PAIR_LINEAGE,
        },
        files=("jsonl",),
    ),
    Target(
        "nemo-rl-grpo",
        "nemo-rl-grpo",
        "prompt",
        "text",
        "NeMo-RL prompts: input_key `input`, output_key `output`.",
        {
            "input": text("the prompt as text", nullable=False),
            "output": text("reference answer, gold actions or tests of the task", nullable=False),
            **_TASK_STATS,
            **TASK_LINEAGE,
        },
        files=("jsonl",),
        needs=("ground_truth",),
    ),
    Target(
        "prime-rl",
        "prime-rl",
        "conversation",
        "typed",
        "prime-rl SFT.",
        {"messages": _chat("ends with an assistant turn"), "tools": TOOLS, **LINEAGE},
        frozenset({"prompt", "completion"}),
        needs=("trainable",),
    ),
    Target(
        "world-model",
        "world-model",
        "world",
        "typed",
        "World model: predict what the environment answers; actions are user turns, observations assistant turns.",
        {"messages": _chat("system, then action and observation in turn"), "tools": TOOLS, **LINEAGE},
    ),
)
TARGETS: dict[str, Target] = {t.name: t for t in _TARGETS}
GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(n for n in TARGETS if n == group or n.startswith(f"{group}-"))
    for group in (
        "trl",
        "verl",
        "axolotl",
        "llama-factory",
        "ms-swift",
        "openrlhf",
        "nemo-rl",
        "prime-rl",
        "world-model",
    )
}
GROUPS["all"] = tuple(TARGETS)
