"""The fifteen surface-event families, as one declarative table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from expcomp.tables._spec import Column, flag, integer, text, texts
from expcomp.tables.step_fields import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class EventFamily:
    """One family: which steps make a row, and what the row carries.

    Attributes:
        name: Family name.
        description: What one row stands for.
        surfaces: A step on one of these surfaces makes a row.
        domains: So does a step in one of these domains.
        marks: So does a step with one of these fields present.
        fields: Fields of `steps.detail` that the row carries.
        core: Fields that count for completeness.
        per_ref: Fields whose refs make one row each, first one that is present; empty for one row a step.
    """

    name: str
    description: str
    surfaces: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    per_ref: tuple[str, ...] = ()


def _names(words: str) -> tuple[str, ...]:
    return tuple(words.split())


EVENTS: tuple[EventFamily, ...] = (
    EventFamily(
        "multi_agent_handoff",
        "One hand-over between agents.",
        marks=_names("subagent_id delegation_id subagent_output_refs"),
        fields=_names(
            "parent_agent_id agent_id agent_name actor_role subagent_id subagent_name subagent_role delegation_id "
            "delegation_source_step handoff_reason handoff_payload_ref handoff_output_refs subagent_output_refs "
            "depends_on_agent_outputs coordination_pattern communication_channel parallel_group"
        ),
        core=_names("subagent_id delegation_id handoff_reason handoff_payload_ref subagent_output_refs"),
    ),
    EventFamily(
        "multimodal_artifact",
        "One file or page that a step read or made in a modality other than plain text.",
        surfaces=_names("multimodal document pdf table"),
        domains=("multimodal",),
        marks=_names("modality modalities"),
        fields=_names(
            "modality modalities artifact_role media_type mime_type artifact_hash artifact_preview_ref ocr_text_ref "
            "transcript_ref annotation_ref derived_text_summary bbox_refs frame_refs timecode_refs"
        ),
        core=_names("modality artifact_role mime_type"),
        per_ref=_names("artifact_refs page_refs table_extract_refs"),
    ),
    EventFamily(
        "ui_interaction_event",
        "One action on a user interface.",
        surfaces=_names("browser computer_use"),
        marks=_names("ui_surface screenshot_ref"),
        fields=_names(
            "ui_surface app_name app_version os_name device_type window_title page_title url_or_resource_id visible_state_ref "
            "screenshot_ref dom_snapshot_ref accessibility_tree_ref element_selector coordinates action_type input_text "
            "before_state_ref after_state_ref network_ref api_call_ref software_state_ref"
        ),
        core=_names("visible_state_ref screenshot_ref element_selector action_type"),
    ),
    EventFamily(
        "physical_environment_event",
        "One reading or action of a device, machine or rig.",
        surfaces=_names("device industrial physical"),
        domains=_names("device industrial physical robotics lab"),
        fields=_names(
            "physical_environment_type device_type device_id device_model sensor_readings_ref actuator_command "
            "control_mode physical_state_before_ref physical_state_after_ref telemetry_ref calibration_ref tolerance "
            "rollback_action safety_state simulation_or_real_world safety_limit_refs compliance_refs operator_override "
            "human_supervisor_present emergency_stop"
        ),
        core=_names("telemetry_ref safety_state simulation_or_real_world"),
    ),
    EventFamily(
        "api_interaction_event",
        "One API request and its response.",
        surfaces=("api",),
        fields=_names(
            "api_provider api_service api_endpoint api_method api_version http_status request_payload_ref "
            "response_payload_ref request_schema_ref response_schema_ref raw_request_ref raw_response_ref auth_mode "
            "rate_limit_state pagination_state retry_count request_id idempotency_key resource_id resource_type object_id "
            "object_type"
        ),
        core=_names("api_endpoint api_method http_status"),
    ),
    EventFamily(
        "mcp_interaction_event",
        "One use of an MCP tool, resource or prompt.",
        surfaces=_names("mcp_tool mcp_resource mcp_prompt"),
        fields=_names(
            "mcp_server mcp_server_version mcp_capability_type mcp_tool_name mcp_resource_uri mcp_prompt_name "
            "mcp_arguments_ref mcp_result_ref mcp_schema_ref mcp_call_id mcp_error_code mcp_error_message"
        ),
        core=_names("mcp_server mcp_capability_type mcp_result_ref"),
    ),
    EventFamily(
        "database_event",
        "One database statement.",
        surfaces=("database",),
        fields=_names(
            "database_type database_name schema_name table_name query_type query_ref query_hash row_count "
            "affected_row_count transaction_id isolation_level migration_id explain_plan_ref before_snapshot_ref "
            "after_snapshot_ref rollback_ref db_error_code db_error_message"
        ),
        core=_names("database_type query_ref table_name"),
    ),
    EventFamily(
        "structured_table_event",
        "One change or look at a spreadsheet or table.",
        surfaces=_names("spreadsheet table"),
        fields=_names(
            "workbook_ref sheet_name table_ref table_refs sheet_refs cell_range row_count column_count formula_refs "
            "pivot_refs chart_refs data_validation_refs before_table_ref after_table_ref diff_ref calculation_mode "
            "spreadsheet_error"
        ),
        core=_names("row_count column_count"),
    ),
    EventFamily(
        "software_execution_event",
        "One command, file operation or build step.",
        surfaces=_names("cli file codebase"),
        fields=_names(
            "command command_ref exit_code stdout_ref stderr_ref cwd_ref process_id timeout_seconds file_path file_paths "
            "file_operation diff_ref patch_ref git_branch git_commit_before git_commit_after test_command test_result_ref "
            "build_result_ref lint_result_ref dependency_changes_ref software_state_ref"
        ),
        core=_names("command exit_code file_path file_operation"),
    ),
    EventFamily(
        "search_retrieval_event",
        "One search and what it found.",
        surfaces=("search",),
        fields=_names(
            "search_provider query query_ref search_scope filters result_count selected_result_refs citation_refs "
            "ranking_signal search_time_range search_error"
        ),
        core=_names("search_provider query result_count selected_result_refs"),
    ),
    EventFamily(
        "enterprise_app_event",
        "One action in a cloud console or business application.",
        surfaces=_names("cloud_console saas_app"),
        fields=_names(
            "service_name app_name workspace_id project_id tenant_id record_id ticket_id resource_id resource_type region "
            "environment_name deployment_id permission_context object_state_before_ref object_state_after_ref "
            "audit_log_ref change_request_ref status_before status_after"
        ),
        core=_names("object_state_before_ref object_state_after_ref audit_log_ref"),
    ),
    EventFamily(
        "async_workflow_event",
        "One job, message, callback or schedule.",
        surfaces=_names("async_job queue webhook scheduler"),
        fields=_names(
            "job_id queue_name message_id webhook_id callback_url_ref schedule_id event_id trigger_type enqueue_time "
            "start_time completion_time delivery_status polling_status callback_status job_status_before job_status_after "
            "async_result_ref dead_letter_ref retry_count"
        ),
        core=_names("trigger_type"),
    ),
    EventFamily(
        "collaboration_event",
        "One message, letter or comment.",
        surfaces=_names("messaging email collaboration"),
        fields=_names(
            "platform_name channel_id thread_id message_id sender_role recipient_role message_type message_ref "
            "approval_state attachment_refs decision_refs followup_required"
        ),
        core=_names("platform_name message_type sender_role recipient_role"),
    ),
    EventFamily(
        "document_event",
        "One look at a document.",
        surfaces=_names("document pdf"),
        fields=_names(
            "document_ref document_type text_extract_ref summary_ref document_diff_ref page_refs section_refs "
            "table_extract_refs figure_refs citation_refs annotation_refs"
        ),
        core=_names("document_ref document_type"),
    ),
    EventFamily(
        "cross_system_event",
        "One step that ties several systems together.",
        surfaces=("mixed",),
        marks=_names("connected_surfaces cross_system_dependencies"),
        fields=_names(
            "connected_surfaces cross_system_dependencies handoff_refs state_sync_refs consistency_checks "
            "system_of_record surface_type"
        ),
        core=_names("connected_surfaces system_of_record"),
    ),
)


EXPECTED: Mapping[str, tuple[str, ...]] = {
    "api": _names("api_endpoint api_method http_status"),
    "mcp_tool": _names("mcp_server mcp_tool_name mcp_result_ref"),
    "mcp_resource": _names("mcp_server mcp_resource_uri mcp_result_ref"),
    "mcp_prompt": _names("mcp_server mcp_prompt_name mcp_result_ref"),
    "database": _names("database_type query_ref table_name"),
    "spreadsheet": _names("workbook_ref sheet_name cell_range"),
    "table": _names("table_ref row_count column_count"),
    "cli": _names("command|action exit_code|success stdout_ref|response"),
    "file": _names("file_path|artifact_refs|action file_operation|operation"),
    "codebase": _names("command test_result_ref|response diff_ref|artifact_refs|state_after"),
    "browser": _names("visible_state_ref screenshot_ref element_selector action_type"),
    "computer_use": _names("visible_state_ref screenshot_ref action_type"),
    "async_job": _names("job_id job_status_after async_result_ref"),
    "queue": _names("queue_name message_id delivery_status"),
    "webhook": _names("webhook_id callback_status async_result_ref"),
    "scheduler": _names("schedule_id trigger_type job_status_after"),
    "device": _names("device_type telemetry_ref safety_state"),
    "industrial": _names("physical_environment_type telemetry_ref safety_state"),
    "physical": _names("physical_environment_type physical_state_after_ref safety_state"),
}
"""Surface -> what a step on it should record: fields, `|` between those of which one is enough. Other surfaces have no list."""
NOT_APPLICABLE = _names("unknown other_tool other_surface")
"""Surfaces of which nothing can be expected."""


def event_columns(family: EventFamily) -> dict[str, Column]:
    """Content columns of an event family."""
    shared = {
        "step_number": integer("number the source gives the step"),
        "surface": text("interaction surface"),
        "surface_source": text("declared, or derived from fields or the tool name"),
        "tool": text("tool"),
        "operation": text("kind of work"),
        "agent_action": text("what the agent did, verbatim"),
        "observed_result": text("what came back, verbatim; cut when overlong, see truncated"),
        "truncated": flag("a text was cut; the whole is in tables/steps"),
        "success": flag("success flag of the source"),
        "outcome": text("how the step ended"),
        "error_type": text("class of the error"),
        "error_message": text("message of the error"),
        "surface_capture": text(
            "what the step records of the fields its surface should carry: complete, partial, unavailable, not_applicable"
        ),
        "missing_fields": texts("of those fields, the ones it lacks; null for a surface without a list of them"),
        "agent_action_chars": integer("characters before the cut"),
        "observed_result_chars": integer("characters before the cut"),
    }
    if family.per_ref:
        shared |= {
            "artifact_ref": text("the file or page this row is about; null when the step names none"),
            "artifact_exists": flag("the file is there"),
            "artifact_bytes": integer("its size"),
            "artifact_sha256": text("its digest"),
            "artifact_media_type": text("its media type by the first bytes, whatever name and step say; null for text"),
        }
    return shared | {n: Column(DTYPES[n], n.replace("_", " ")) for n in family.fields}
