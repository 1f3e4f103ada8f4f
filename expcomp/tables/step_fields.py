"""The fields a package step may carry, by type: one table that the parser, the event families and the docs share.

Names ending in `_ref` or `_refs` (and `artifact_refs`) hold refs of files inside the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT = (
    # agents and hand-over
    "actor_kind actor_role agent_id agent_name subagent_id subagent_name subagent_role parent_agent_id delegation_id handoff_reason "
    "handoff_payload_ref coordination_pattern communication_channel "
    # media
    "modality artifact_role media_type mime_type artifact_hash artifact_preview_ref ocr_text_ref transcript_ref annotation_ref "
    "derived_text_summary "
    # shared identity and state
    "resource_id resource_type object_id object_type request_id operation_id job_id event_id session_id transaction_id "
    "correlation_id idempotency_key status_before status_after state_before_ref state_after_ref raw_request_ref raw_response_ref "
    # api
    "api_provider api_service api_endpoint api_method api_version request_payload_ref response_payload_ref request_schema_ref "
    "response_schema_ref auth_mode rate_limit_state pagination_state "
    # mcp
    "mcp_server mcp_server_version mcp_tool_name mcp_resource_uri mcp_prompt_name mcp_arguments_ref mcp_result_ref mcp_schema_ref "
    "mcp_error_code mcp_error_message mcp_call_id mcp_capability_type "
    # database
    "database_type database_name schema_name table_name query_type query_ref query_hash isolation_level migration_id "
    "explain_plan_ref before_snapshot_ref after_snapshot_ref rollback_ref db_error_code db_error_message "
    # spreadsheet, table
    "workbook_ref sheet_name table_ref cell_range before_table_ref after_table_ref diff_ref calculation_mode spreadsheet_error "
    # cli, file, codebase
    "command command_ref cwd_ref stdout_ref stderr_ref file_path file_operation patch_ref git_branch git_commit_before "
    "git_commit_after test_command test_result_ref build_result_ref lint_result_ref dependency_changes_ref process_id "
    # search
    "search_provider query search_scope ranking_signal search_time_range search_error "
    # browser, computer use
    "ui_surface app_name app_version os_name device_type window_title page_title url_or_resource_id visible_state_ref screenshot_ref "
    "dom_snapshot_ref accessibility_tree_ref element_selector coordinates action_type input_text before_state_ref after_state_ref "
    "network_ref api_call_ref software_state_ref "
    # cloud console, saas
    "service_name workspace_id project_id tenant_id record_id ticket_id object_state_before_ref object_state_after_ref "
    "permission_context region environment_name deployment_id audit_log_ref change_request_ref "
    # async
    "queue_name message_id webhook_id callback_url_ref schedule_id trigger_type enqueue_time start_time completion_time "
    "delivery_status polling_status callback_status job_status_before job_status_after async_result_ref dead_letter_ref "
    # messaging
    "platform_name channel_id thread_id sender_role recipient_role message_type message_ref approval_state "
    # document
    "document_ref document_type text_extract_ref summary_ref document_diff_ref "
    # physical
    "physical_environment_type device_id device_model sensor_readings_ref actuator_command control_mode physical_state_before_ref "
    "physical_state_after_ref telemetry_ref calibration_ref tolerance rollback_action safety_state simulation_or_real_world "
    # mixed
    "system_of_record "
    # capture, causality, feedback
    "surface_type parallel_group alternatives_considered execution_mode causal_type message_role feedback_type causal_note "
    "feedback_content surface_capture_status surface_capture_notes"
).split()
TEXT_LISTS = (
    "artifact_refs evidence_refs verification_refs redaction_notes handoff_output_refs subagent_output_refs "
    "depends_on_agent_outputs modalities bbox_refs frame_refs timecode_refs table_refs sheet_refs formula_refs pivot_refs chart_refs "
    "data_validation_refs file_paths selected_result_refs citation_refs attachment_refs decision_refs page_refs section_refs "
    "table_extract_refs figure_refs annotation_refs safety_limit_refs compliance_refs connected_surfaces cross_system_dependencies "
    "handoff_refs state_sync_refs consistency_checks missing_surface_fields"
).split()
INTEGERS = (
    "delegation_source_step http_status retry_count row_count affected_row_count column_count exit_code timeout_seconds result_count"
).split()
FLAGS = "followup_required operator_override human_supervisor_present emergency_stop".split()
REALS = ["latency_ms"]
OBJECTS = "input_source metadata_json filters".split()

# Refs that name a place inside a document or a table, not a file of the package.
NOT_FILES = frozenset("timecode_refs sheet_refs section_refs cwd_ref".split())
REF_FIELDS = tuple(n for n in (*TEXT, *TEXT_LISTS) if (n.endswith(("_ref", "_refs"))) and n not in NOT_FILES)

DTYPES: Mapping[str, pl.DataType] = (
    {n: pl.String() for n in (*TEXT, *OBJECTS)}
    | {n: pl.List(pl.String()) for n in TEXT_LISTS}
    | {n: pl.Int64() for n in INTEGERS}
    | {n: pl.Boolean() for n in FLAGS}
    | {n: pl.Float64() for n in REALS}
)
"""Polars dtype of each field of `steps.detail`."""
