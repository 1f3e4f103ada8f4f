"""The ancestor's `experience_compiler/` tree as data: which of our rows, files and statements each of its files takes."""

from __future__ import annotations

ROOT = "experience_compiler"

EVENTS = {
    "environment_response_pair": "environment_response_pairs",
    "multi_agent_handoff": "multi_agent_handoffs",
    "multimodal_artifact": "multimodal_artifacts",
    **{
        f"{name}_event": f"{name}_events"
        for name in (
            "ui_interaction",
            "physical_environment",
            "api_interaction",
            "mcp_interaction",
            "database",
            "structured_table",
            "software_execution",
            "search_retrieval",
            "enterprise_app",
            "async_workflow",
            "collaboration",
            "document",
            "cross_system",
        )
    },
}
ROWS: dict[str, str] = {
    **{f"environment/{name}.jsonl": family for family, name in EVENTS.items()},
    "environment/state_transition_rows.jsonl": "environment_response_pair",
    "evals/evaluation_examples.jsonl": "evaluation_example",
    "eval_package/evaluation_examples.jsonl": "evaluation_example",
    "loop_learning/contract_verification_rows.jsonl": "contract_verification_row",
    "loop_learning/feedback_revision_pairs.jsonl": "feedback_revision_pair",
    "loop_learning/loop_review_rows.jsonl": "loop_review_row",
    "loop_learning/repair_loop_rows.jsonl": "repair_loop_row",
    "loop_learning/reviewer_decision_rows.jsonl": "reviewer_decision_row",
    "reward/preference_pairs.jsonl": "preference_pair",
    "reward/reward_model_rows.jsonl": "reward_model_row",
    "training_time_package/agentic_rollouts.jsonl": "agentic_rl_rollout",
    "training_time_package/critique_revision_pairs.jsonl": "critique_revision_pair",
    "training_time_package/environment_response_pairs.jsonl": "environment_response_pair",
    "training_time_package/evaluation_examples.jsonl": "evaluation_example",
    "training_time_package/failure_cases.jsonl": "failure_case",
    "training_time_package/grpo_rollout_groups.jsonl": "grpo_rollout_group",
    "training_time_package/preference_pairs.jsonl": "preference_pair",
    "training_time_package/process_supervision.jsonl": "process_supervision",
    "training_time_package/reward_model_rows.jsonl": "reward_model_row",
    "training_time_package/sft_examples.jsonl": "training_example",
    "training_time_package/task_variants.jsonl": "task_variant",
    "training_time_package/training_examples.jsonl": "training_example",
    "training_time_package/verifier_examples.jsonl": "verifier_example",
    "training_time_package/verifier_training_rows.jsonl": "verifier_example",
    "verifier/verifier_examples.jsonl": "verifier_example",
}
"""File of the tree -> row family."""

COPIES: dict[str, str] = {
    "skill_pack/skill.md": "SKILL.md",
    "skill_pack/canonical_skill.json": "skill.json",
    "skill_pack/retrieval_card.json": "card.json",
    "skill_pack/skill_card.json": "card.json",
    "skill_pack/skill_manifest.json": "pack.json",
    "skill_pack/verifier_checklist.md": "runtime/checklist.md",
    "runtime_learning_package/skill.md": "SKILL.md",
    "runtime_learning_package/retrieval_card.json": "card.json",
    "runtime_learning_package/runtime_memory.jsonl": "runtime/memory.jsonl",
    "runtime_learning_package/tool_use_patterns.jsonl": "runtime/tool_use.jsonl",
    "runtime_learning_package/correction_patterns.jsonl": "runtime/corrections.jsonl",
    "runtime_learning_package/artifact_expectations.jsonl": "runtime/artifacts.jsonl",
    "runtime_learning_package/repair_instructions.md": "runtime/repair.md",
    "runtime_learning_package/output_contract.json": "runtime/contract.json",
    "eval_package/rubric_items.jsonl": "evals/rubric_items.jsonl",
    "eval_package/grader_cases.jsonl": "evals/grader_cases.jsonl",
    "eval_package/verifier_cases.jsonl": "evals/verifier_cases.jsonl",
    "eval_package/expected_artifacts.jsonl": "evals/expected_artifacts.jsonl",
    "eval_package/transfer_eval_tasks.jsonl": "evals/transfer_tasks.jsonl",
    "training_time_package/transfer_eval_tasks.jsonl": "evals/transfer_tasks.jsonl",
    "environment/environment_spec.json": "environment.json",
    "reports/optimized_task_spec.json": "task.json",
    "reports/domain_value_profile.json": "domain.json",
}
"""File of the tree -> file of a pack."""

STATED: dict[str, tuple[str, ...]] = {
    "skill_pack/decision_rules.jsonl": ("tool_gap", "program_gap", "criterion_gap"),
    "skill_pack/failure_modes.jsonl": ("step_failure", "criterion_failure"),
    "skill_pack/usage_examples.jsonl": ("sequence",),
    "runtime_learning_package/reusable_steps.jsonl": ("step", "program", "order"),
    "runtime_learning_package/reusable_decision_rules.jsonl": (
        "tool_gap",
        "program_gap",
        "criterion_gap",
        "measure_gap",
    ),
    "runtime_learning_package/failure_recovery_patterns.jsonl": ("step_failure",),
    "runtime_learning_package/common_errors_to_avoid.jsonl": ("step_failure", "criterion_failure"),
    "runtime_learning_package/mentor_feedback_patterns.jsonl": ("review",),
    "runtime_learning_package/verifier_feedback_patterns.jsonl": ("criterion", "criterion_failure"),
    "runtime_learning_package/output_verification_steps.jsonl": ("plan_check", "contract_check", "verify_action"),
    "runtime_learning_package/environment_expectations.jsonl": ("input_file", "constraint"),
    "environment/allowed_actions.jsonl": ("step", "unrated_use"),
    "environment/verification_commands.jsonl": ("verify_action",),
}
"""File of the tree -> kinds of statements."""

_CHECKS = ("criterion", "plan_check", "contract_check", "verify_action")
LISTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "skill_pack/tool_recipe.json": ("tools", ("step", "unrated_use")),
    "skill_pack/verifier_checklist.json": ("checks", _CHECKS),
    "runtime_learning_package/tool_recipe.json": ("tools", ("step", "unrated_use")),
    "runtime_learning_package/tool_execution_recipe.json": (
        "recommended_steps",
        ("step", "program", "order", "sequence"),
    ),
    "runtime_learning_package/prefinal_verification_checklist.json": ("checks", _CHECKS),
    "runtime_learning_package/verifier_spec.json": ("checks", ("criterion",)),
}
"""File of the tree -> key of its list, and kinds of statements in it."""

SECTION_TEXTS: dict[str, tuple[str, str]] = {
    "runtime_learning_package/runtime_context.md": ("when", "When to use"),
    "runtime_learning_package/runtime_instructions.md": ("steps", "Steps"),
    "runtime_learning_package/minimal_prompt_context.md": ("inputs", "Inputs and deliverables"),
}
"""File of the tree -> section whose statements it lists, and its heading."""

EMPTY: dict[str, str] = {
    "compiler_trace.jsonl": "the compile keeps no events of its own work",
    "compiler_rounds.jsonl": "rounds are counted for a whole compile, in its report.json",
    "compiler_judge_results.jsonl": "no judge was asked",
    "compiler_recipe.json": "no recipe is learned; the options of the compile are in its manifest.json",
    "quality_report.json": "measured parts of quality stand in each row",
    "skill_pack/anti_patterns.jsonl": "nothing is recorded beyond failures, see failure_modes.jsonl",
    "runtime_learning_package/tool_use_hints.jsonl": "measured use is in tool_use_patterns.jsonl; advice has no evidence",
    "runtime_learning_package/transfer_runbook.md": "no transfer was recorded",
    "runtime_learning_package/transfer_checklist.json": "no transfer was recorded",
    "runtime_learning_package/artifact_contract.json": "files handed over are in artifact_expectations.jsonl",
    "eval_package/transfer_test_report.json": "no transfer was tested",
    "environment/replay_plan.json": "no replay was recorded; `expcomp env` builds what can be replayed",
    "environment/reset_strategy.json": "no reset was recorded",
    "environment/setup_requirements.json": "no set-up was recorded",
    "training_time_package/trajectory_rollouts.jsonl": "rollouts are in agentic_rollouts.jsonl",
    "training_time_package/rl_environment_replay_rows.jsonl": "no replay was recorded",
    "training_time_package/distillation_records.jsonl": "conversations of passing attempts are in sft_examples.jsonl",
    "reports/transfer_test_report.json": "no transfer was tested",
    "reports/compiler_rounds.jsonl": "rounds are counted for a whole compile, in its report.json",
    "reports/compiler_judge_results.jsonl": "no judge was asked",
    "reports/compiler_recipe.json": "no recipe is learned; the options of the compile are in its manifest.json",
    "reports/generation_notes.md": "what was left out is in the report.json of the packs",
    "reports/meta_optimization_records.jsonl": "nothing was optimised",
    "reports/optimized_rubric.json": "no rubric was changed; its items are in eval_package/rubric_items.jsonl",
    "reports/rejected_rows.jsonl": "rejected rows are in the compile, with all reasons",
}
"""Files of the tree that nothing of ours speaks for, with the reason."""
