"""All row families: grain, content columns, what completeness counts, and which trainers use them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import polars as pl

from expcomp.tables._spec import Column, Table, flag, integer, json, real, small, text, texts, time
from expcomp.tables.envelope import row_table
from expcomp.tables.events import EVENTS, event_columns

CALL = pl.Struct({"id": pl.String(), "name": pl.String(), "arguments": pl.String()})
MESSAGE = pl.Struct(
    {
        "role": pl.String(),
        "content": pl.String(),
        "reasoning": pl.String(),
        "tool_calls": pl.List(CALL),
        "tool_call_id": pl.String(),
        "name": pl.String(),
        "trainable": pl.Boolean(),
    }
)
CHAT = pl.List(MESSAGE)
TRANSITION = pl.Struct(
    {
        "step_index": pl.Int32(),
        "observation": pl.String(),
        "action": pl.String(),
        "response": pl.String(),
        "reward": pl.Float64(),
        "success": pl.Boolean(),
    }
)
CRITERION_REWARD = pl.Struct({"rubric_item_id": pl.String(), "reward": pl.Float64(), "passed": pl.Boolean()})


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The declared side of a row family.

    Attributes:
        name: Family name; the stem of its files.
        grain: What one row stands for.
        description: One line for the dictionary.
        columns: Content columns.
        core: What counts for completeness: a column, or columns of which one is enough.
        uses: What trainers use it for.
        input: Columns of which at least one must hold something, else `missing_input`.
        target: The same for the target, else `missing_target`.
        texts: Text columns that are cut when overlong.
        labelled: Whether label strength is measured on it.
        gated_label: Whether a weak label keeps the row out.
        dedupe: Whether a second row of equal content in one package is a duplicate.
    """

    name: str
    grain: str
    description: str
    columns: dict[str, Column]
    core: tuple[str | tuple[str, ...], ...] = ()
    uses: tuple[str, ...] = ()
    input: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    labelled: bool = False
    gated_label: bool = False
    dedupe: bool = False

    @property
    def table(self) -> Table:
        """Envelope and content as one table."""
        return _table(self.name)


def chat(description: str) -> Column:
    """A list of chat messages."""
    return Column(CHAT, description)


def _step_columns() -> dict[str, Column]:
    return {
        "step_number": integer("number the source gives the step"),
        "turn": integer("user turn"),
        "actor": text("who acted, native name"),
        "tool": text("tool"),
        "operation": text("kind of work"),
        "surface": text("interaction surface"),
        "environment_domain": text("environment domain of the step"),
    }


FAMILIES: tuple[Family, ...] = (
    Family(
        "training_example",
        "attempt, or deliverable",
        "Supervised fine-tuning: a conversation of a passing attempt, or an instruction with a real deliverable.",
        {
            "example_kind": text("conversation, or deliverable"),
            "messages": chat("the conversation; trainable marks what the agent under study wrote"),
            "tools": json("tool schemas, null when unknown"),
            "deliverable_ref": text("file that the assistant turn holds, for deliverable rows"),
            "score": real("normalised score of the attempt"),
            "passed": flag("verdict of the attempt"),
            "n_messages": small("messages"),
            "n_tool_calls": small("tool calls"),
        },
        core=("messages", "tools", "score", "passed"),
        uses=("sft",),
        input=("messages",),
        target=("messages",),
        labelled=True,
        gated_label=True,
        dedupe=True,
    ),
    Family(
        "evaluation_example",
        "rubric item x attempt",
        "One criterion with the attempt's score on it.",
        {
            "rubric_id": text("rubric"),
            "rubric_item_id": text("criterion"),
            "verifier_only": flag("never show this row to an agent: the criterion is private"),
            "instruction": text("the task"),
            "criterion_name": text("short name"),
            "criterion_description": text("what is asked"),
            "weight": real("share of the total"),
            "pass_threshold": real("score from which the criterion holds"),
            "score": real("score on the criterion, 0..1"),
            "score_raw": real("as given"),
            "score_max": real("upper end of the scale"),
            "passed": flag("the criterion holds"),
            "rationale": text("the grader's words"),
            "required_artifacts": texts("files the criterion looks at"),
        },
        core=("instruction", "criterion_description", "score", "passed", "rationale"),
        uses=("evaluation", "reward"),
        input=("criterion_description", "criterion_name"),
        target=("score", "passed"),
        labelled=True,
    ),
    Family(
        "verifier_example",
        "verifier record",
        "Claim, evidence and verdict.",
        {
            "instruction": text("the task"),
            "claim": text("what the attempt says it did"),
            "evidence": Column(
                pl.List(pl.Struct({"ref": pl.String(), "content": pl.String()})), "contents of the files handed over"
            ),
            "verdict": text("verified, partially_verified, failed"),
            "checks": json("the single checks of the verifier"),
            "issues": texts("issues found"),
            "unsupported_claims": texts("claims without support"),
            "notes": text("the verifier's words"),
            "confidence": real("the verifier's own confidence"),
        },
        core=("instruction", "claim", "evidence", "verdict"),
        uses=("verifier",),
        input=("claim",),
        target=("verdict",),
        labelled=True,
        gated_label=True,
    ),
    Family(
        "reward_model_row",
        "graded attempt",
        "Prompt, completion and reward in 0..1.",
        {
            "prompt": chat("what came before the agent's first word"),
            "completion": chat("what the agent did"),
            "reward": real("(score - min) / (max - min)"),
            "score_raw": real("as given"),
            "score_min": real("lower end of the scale"),
            "score_max": real("upper end of the scale"),
            "passed": flag("verdict"),
            "failed_criteria": texts("criteria that failed"),
            "criterion_rewards": Column(pl.List(CRITERION_REWARD), "reward by criterion id"),
        },
        core=("prompt", "completion", "reward", "passed"),
        uses=("reward",),
        input=("prompt",),
        target=("completion",),
        labelled=True,
        gated_label=True,
    ),
    Family(
        "preference_pair",
        "ordered pair of attempts, or of steps",
        "The better and the worse way on from the same prompt.",
        {
            "pair_level": text("attempt, or step"),
            "prompt": chat("messages both sides share"),
            "chosen": chat("the better continuation"),
            "rejected": chat("the worse continuation"),
            "chosen_attempt_id": text("attempt of chosen"),
            "rejected_attempt_id": text("attempt of rejected"),
            "chosen_score": real("normalised score"),
            "rejected_score": real("normalised score"),
            "margin": real("chosen_score - rejected_score; null for step pairs"),
            "chosen_step_index": small("step pairs: the step that worked"),
            "rejected_step_index": small("step pairs: the step that failed"),
        },
        core=("prompt", "chosen", "rejected"),
        uses=("dpo", "kto", "reward"),
        input=("prompt",),
        target=("chosen", "rejected"),
        labelled=True,
        gated_label=True,
        dedupe=True,
    ),
    Family(
        "failure_case",
        "failed criterion, or failed step",
        "What went wrong, with what repaired it if anything did.",
        {
            "failure_kind": text("criterion, or step"),
            "instruction": text("the task"),
            "criterion": text("id of the criterion that failed"),
            "criterion_name": text("its short name"),
            "criterion_description": text("what it asks"),
            "rationale": text("the grader's words"),
            "feedback": text("feedback on this attempt"),
            "agent_action": text("step: what the agent did"),
            "observed_result": text("step: what came back"),
            "outcome": text("step: failed or blocked"),
            "error_type": text("class of the error"),
            "error_message": text("message of the error"),
            "error_code": text("code of the error"),
            "fixed_by_step_index": small("step: the retry that worked"),
            "fixed_by_attempt_id": text("criterion: the attempt in which it holds"),
            "truncated": flag("a text was cut"),
        },
        core=(
            "instruction",
            ("criterion", "agent_action"),
            ("rationale", "observed_result"),
            ("fixed_by_attempt_id", "fixed_by_step_index"),
        ),
        uses=("critique", "evaluation"),
        input=("criterion", "agent_action"),
        target=("rationale", "feedback", "criterion", "error_type", "error_message", "observed_result", "outcome"),
        texts=("agent_action", "observed_result"),
        labelled=True,
    ),
    Family(
        "task_variant",
        "change of the task",
        "A real change of what was asked: a follow-up turn, or an edited instruction.",
        {
            "variant_kind": text("follow_up, or edited_spec"),
            "base_instruction": text("what was asked first"),
            "variant_instruction": text("what was asked then"),
        },
        core=("base_instruction", "variant_instruction"),
        uses=("evaluation", "sft"),
        input=("base_instruction",),
        target=("variant_instruction",),
        dedupe=True,
    ),
    Family(
        "environment_response_pair",
        "step",
        "What the agent did and what the environment answered.",
        {
            **_step_columns(),
            "agent_action": text("what the agent did, verbatim"),
            "observed_environment_response": text("what came back, verbatim"),
            "response_source": text("tool, or user when the answer to a message is the next user turn"),
            "state_before": text("recorded state before"),
            "state_after": text("recorded state change"),
            "success": flag("success flag of the source"),
            "outcome": text("how the step ended"),
            "error_type": text("class of the error"),
            "error_message": text("message of the error"),
            "error_code": text("code of the error"),
            "exit_code": small("exit code"),
            "started_at": time("start"),
            "ended_at": time("end"),
            "duration_ms": real("null when the times are reversed or absent"),
            "total_steps": small("agent steps of the attempt"),
            "truncated": flag("a text was cut; the whole is in tables/steps"),
            "agent_action_chars": integer("characters before the cut"),
            "observed_environment_response_chars": integer("characters before the cut"),
        },
        core=("agent_action", "observed_environment_response", "state_before", "state_after", "success", "started_at"),
        uses=("world_model",),
        input=("agent_action",),
        target=("observed_environment_response",),
        texts=("agent_action", "observed_environment_response"),
    ),
    *(
        Family(
            e.name,
            "step x ref" if e.per_ref else "step",
            e.description,
            event_columns(e),
            core=("agent_action", "observed_result", *e.core),
            uses=("tool_use", "world_model"),
            input=("agent_action", *e.fields),
            texts=("agent_action", "observed_result"),
        )
        for e in EVENTS
    ),
    Family(
        "process_supervision",
        "step",
        "One step with its label.",
        {
            **_step_columns(),
            "agent_action": text("what the agent did"),
            "observed_result": text("what came back"),
            "label": small("+1, 0, -1; null when nobody and nothing says"),
            "label_source": text("who says so"),
            "local_reward": real("the source's own step reward"),
            "outcome": text("how the step ended"),
            "success": flag("success flag of the source"),
            "retry_of_step_index": small("step that this one repeats"),
            "attempt_score": real("normalised score of the attempt"),
            "truncated": flag("a text was cut"),
        },
        core=("agent_action", "observed_result", "label"),
        uses=("prm",),
        input=("agent_action",),
        texts=("agent_action", "observed_result"),
        labelled=True,
    ),
    Family(
        "agentic_rl_rollout",
        "attempt",
        "One attempt as a rollout: prompt, ordered transitions, terminal reward.",
        {
            "prompt": chat("what came before the agent's first word"),
            "transitions": Column(pl.List(TRANSITION), "ordered steps of the agent"),
            "terminal_reward": real("normalised score; null without a usable grade"),
            "passed": flag("verdict"),
            "termination_reason": text("native word"),
            "status": text("how the attempt ended"),
            "n_steps": small("transitions"),
        },
        core=("prompt", "transitions", "terminal_reward", "termination_reason"),
        uses=("rl",),
        input=("prompt",),
        target=("transitions",),
        labelled=True,
        gated_label=True,
    ),
    Family(
        "grpo_rollout_group",
        "task",
        "All usable attempts at one task, with rewards and advantages.",
        {
            "prompt": chat("messages all attempts share"),
            "completions": Column(pl.List(CHAT), "one continuation for each attempt"),
            "rewards": Column(pl.List(pl.Float64()), "normalised score of each attempt"),
            "advantages": Column(pl.List(pl.Float64()), "(reward - mean) / population standard deviation"),
            "attempt_ids": texts("attempts, in the order of completions"),
            "group_size": small("attempts"),
            "n_without_transcript": small("attempts with a usable score that left no transcript, not in the group"),
            "reward_mean": real("mean reward"),
            "reward_std": real("population standard deviation"),
            "pass_rate": real("share of attempts that passed"),
            "solver_gap": real("best reward - worst reward"),
        },
        core=("prompt", "completions", "rewards"),
        uses=("grpo",),
        input=("prompt",),
        target=("completions",),
        labelled=True,
        gated_label=True,
    ),
    Family(
        "critique_revision_pair",
        "feedback followed by an attempt",
        "Critique, the work before it and the work after it.",
        {
            "instruction": text("the task"),
            "critique": text("the feedback"),
            "suggestions": texts("actions asked for"),
            "reviewer_type": text("who gave it"),
            "simulated_review": flag("the reviewer was a stand-in"),
            "before": Column(pl.List(pl.Struct({"ref": pl.String(), "content": pl.String()})), "deliverables before"),
            "after": Column(pl.List(pl.Struct({"ref": pl.String(), "content": pl.String()})), "deliverables after"),
            "before_attempt_id": text("attempt criticised"),
            "after_attempt_id": text("attempt that followed"),
            "score_before": real("normalised score"),
            "score_after": real("normalised score"),
            "score_change": real("after - before"),
        },
        core=("critique", "before", "after", "score_change"),
        uses=("critique",),
        input=("critique",),
        target=("after",),
        labelled=True,
        gated_label=True,
    ),
    Family(
        "loop_review_row",
        "loop iteration",
        "What a reviewer saw in one iteration.",
        {
            "loop_id": text("loop"),
            "loop_iteration": small("iteration"),
            "mode": text("native word"),
            "current_goal": text("goal"),
            "current_attempt_summary": text("the attempt's summary"),
            "known_failures": texts("failures known"),
            "missing_outputs": texts("outputs that are missing"),
            "recommended_review_focus": texts("where to look"),
            "rubric_status": json("rubric status"),
            "verifier_status": json("verifier status"),
            "changed_summary": json("what changed since the iteration before"),
            "reviewer_type": text("who reviewed"),
            "simulated_review": flag("the reviewer was a stand-in"),
        },
        core=("current_attempt_summary", "rubric_status", "verifier_status"),
        uses=("critique",),
        input=("current_attempt_summary",),
        target=("rubric_status", "verifier_status", "known_failures"),
    ),
    Family(
        "feedback_revision_pair",
        "loop iteration with feedback and plan",
        "Reviewer feedback and the plan it led to.",
        {
            "loop_id": text("loop"),
            "loop_iteration": small("iteration"),
            "reviewer_type": text("who reviewed"),
            "simulated_review": flag("the reviewer was a stand-in"),
            "feedback": text("the feedback"),
            "blocking_issues": texts("issues that block"),
            "revision_instructions": texts("actions asked for"),
            "issues_to_fix": texts("what the plan takes up"),
            "verification_steps": texts("how the plan checks"),
            "feedback_applied": flag("the feedback was applied"),
            "next_attempt_id": text("attempt that followed"),
        },
        core=("feedback", "revision_instructions", "issues_to_fix"),
        uses=("critique",),
        input=("feedback",),
        target=("issues_to_fix",),
    ),
    Family(
        "reviewer_decision_row",
        "loop iteration",
        "Whether the loop went on, and why.",
        {
            "loop_id": text("loop"),
            "loop_iteration": small("iteration"),
            "reviewer_type": text("who reviewed"),
            "simulated_review": flag("the reviewer was a stand-in"),
            "current_attempt_summary": text("what was judged"),
            "decision": text("native word"),
            "verdict": text("native word"),
            "stop_condition": text("native word"),
            "termination_reason": text("native word"),
            "score": real("as given"),
            "continue_loop": flag("the loop went on"),
            "training_value_notes": text("notes"),
        },
        core=("decision", "verdict", "score"),
        uses=("critique", "verifier"),
        input=("current_attempt_summary",),
        target=("decision", "verdict"),
    ),
    Family(
        "contract_verification_row",
        "loop iteration",
        "One check of the output contract.",
        {
            "loop_id": text("loop"),
            "loop_iteration": small("iteration"),
            "passed": flag("the contract holds"),
            "actual_outputs_ok": flag("the output list is sound"),
            "failures": json("failures with path and hint"),
            "failure_count": integer("failures"),
            "semantic_warnings": json("requirements that need a reader"),
            "semantic_warning_count": integer("warnings"),
            "checked": json("what was checked"),
        },
        core=("passed", "checked"),
        uses=("verifier",),
        input=("checked", "passed"),
        target=("passed",),
    ),
    Family(
        "repair_loop_row",
        "loop iteration with a repair plan",
        "A repair plan and what came of it.",
        {
            "loop_id": text("loop"),
            "loop_iteration": small("iteration"),
            "repair_id": text("repair"),
            "repair_required": flag("a repair was needed"),
            "issues_to_fix": json("issues"),
            "files_to_modify": texts("files to change"),
            "files_to_preserve": texts("files to keep"),
            "preserve_passing_items": flag("passing items are kept"),
            "risk_of_regression": text("low, medium, high"),
            "repair_steps": texts("steps"),
            "changed_refs": texts("files added in the next iteration"),
            "before_score": real("as given"),
            "after_score": real("as given; null when no repair was made"),
            "regression_detected": flag("the repair made it worse"),
        },
        core=("issues_to_fix", "files_to_modify", "after_score"),
        uses=("critique",),
        input=("issues_to_fix",),
        target=("files_to_modify", "repair_steps"),
    ),
)
BY_NAME = {f.name: f for f in FAMILIES}


@cache
def _table(name: str) -> Table:
    family = BY_NAME[name]
    return row_table(name, family.description, family.columns)
