"""One full set of fields for each event family, with the small files that its refs name."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple


class File(NamedTuple):
    """A small evidence file of the step; becomes a ref to `attempts/<kind>/evidence/<name>`."""

    name: str
    content: str


def _f(name: str, content: str) -> File:
    return File(name, content + "\n")


HANDOFF: dict[str, Any] = {
    "parent_agent_id": "agent-label-lead",
    "agent_id": "agent-label-lead",
    "agent_name": "label lead",
    "actor_kind": "apprentice_agent",
    "actor_role": "planner",
    "subagent_id": "agent-latin-check",
    "subagent_name": "latin check",
    "subagent_role": "checks botanical names",
    "delegation_id": "dlg-01",
    "delegation_source_step": 2,
    "handoff_reason": "names need a second reading before printing",
    "handoff_payload_ref": _f("names_to_check.txt", "Paphiopedilum micranthum\nCattleya labiata\nVanda coerulia"),
    "handoff_output_refs": [
        _f("names_checked.txt", "Paphiopedilum micranthum: ok\nCattleya labiata: ok\nVanda coerulia: coerulea")
    ],
    "subagent_output_refs": [_f("latin_check_notes.md", "Vanda coerulia should read Vanda coerulea.")],
    "depends_on_agent_outputs": ["agent-latin-check"],
    "coordination_pattern": "planner_worker",
    "communication_channel": "file",
    "parallel_group": "names",
}
SHEET = _f("sheet_4471.svg", '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="60"/>')
MEDIA: dict[str, Any] = {
    "modality": "image",
    "modalities": ["image", "text"],
    "artifact_role": "input",
    "media_type": "image",
    "mime_type": "image/svg+xml",
    "artifact_hash": "sha256:" + sha256(SHEET.content.encode()).hexdigest(),
    "artifact_preview_ref": _f("sheet_preview.svg", '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>'),
    "ocr_text_ref": _f("sheet_ocr.txt", "Herb. LINDGATE no. 4471, Drosera rotundifolia, leg. 1931"),
    "transcript_ref": _f("sheet_voice_note.txt", "Curator: the lower label is the older one."),
    "annotation_ref": _f("sheet_marks.json", '{"marks": [{"box": [10, 12, 40, 20], "text": "older label"}]}'),
    "derived_text_summary": "Sheet 4471 carries two labels; the lower one is older.",
    "bbox_refs": [_f("sheet_boxes.json", '{"label_lower": [10, 12, 40, 20]}')],
    "frame_refs": [_f("sheet_frame_1.txt", "frame 1: whole sheet")],
    "timecode_refs": ["00:00:04"],
    "artifact_refs": [SHEET],
}
UI: dict[str, Any] = {
    "ui_surface": "browser",
    "app_name": "Lindgate visitor site",
    "app_version": "3.2",
    "os_name": "kiosk-linux",
    "device_type": "kiosk",
    "window_title": "Plan your visit",
    "page_title": "Plan your visit - Lindgate Garden",
    "url_or_resource_id": "https://garden.example/visit",
    "visible_state_ref": _f("visit_page.txt", "Opening hours: 9 to 17. Last entry: 16.30. Button: Show map"),
    "screenshot_ref": _f(
        "visit_page.svg", '<svg xmlns="http://www.w3.org/2000/svg"><text>Plan your visit</text></svg>'
    ),
    "dom_snapshot_ref": _f(
        "visit_page.html", "<main><h1>Plan your visit</h1><button id='map'>Show map</button></main>"
    ),
    "accessibility_tree_ref": _f("visit_page_tree.txt", "main > heading 'Plan your visit' > button 'Show map'"),
    "element_selector": "#map",
    "coordinates": "412,230",
    "action_type": "click",
    "input_text": "fern house",
    "before_state_ref": _f("map_hidden.txt", "map: hidden"),
    "after_state_ref": _f("map_shown.txt", "map: shown, 14 pins"),
    "network_ref": _f("visit_network.txt", "GET /map.json 200 3 kB"),
    "api_call_ref": _f("map_call.json", '{"path": "/map.json", "status": 200}'),
}
PHYSICAL: dict[str, Any] = {
    "physical_environment_type": "greenhouse",
    "device_type": "vent actuator",
    "device_id": "vent-07",
    "device_model": "VA-2",
    "sensor_readings_ref": _f("readings.csv", "minute,temp_c,humidity\n0,29.5,71\n5,28.9,70\n10,28.1,68"),
    "actuator_command": "open 35",
    "control_mode": "manual",
    "physical_state_before_ref": _f("vents_before.json", '{"vent-07": 20}'),
    "physical_state_after_ref": _f("vents_after.json", '{"vent-07": 35}'),
    "telemetry_ref": _f("telemetry.jsonl", '{"t": 0, "vent": 20}\n{"t": 5, "vent": 35}'),
    "calibration_ref": _f("calibration.txt", "vent-07: zero at 0, full at 100, checked in January"),
    "tolerance": "2 percent",
    "rollback_action": "close to 20",
    "safety_state": "normal",
    "simulation_or_real_world": "simulation",
    "safety_limit_refs": [_f("limits.txt", "vents must not pass 60 percent while it rains")],
    "compliance_refs": [_f("house_rules.txt", "a gardener stays in the house while vents are tuned by hand")],
    "operator_override": False,
    "human_supervisor_present": True,
    "emergency_stop": False,
}
API: dict[str, Any] = {
    "api_provider": "garden",
    "api_service": "events",
    "api_endpoint": "/v2/tours",
    "api_method": "GET",
    "api_version": "2",
    "http_status": 200,
    "request_payload_ref": _f("tours_query.json", '{"from": "2026-05-01", "to": "2026-05-07"}'),
    "response_payload_ref": _f(
        "tours_reply.json", '{"tours": [{"id": 12, "start": "10:30"}, {"id": 13, "start": "14:00"}]}'
    ),
    "request_schema_ref": _f("tours_query.schema.json", '{"type": "object", "required": ["from", "to"]}'),
    "response_schema_ref": _f("tours_reply.schema.json", '{"type": "object", "required": ["tours"]}'),
    "raw_request_ref": _f("tours_request.txt", "GET /v2/tours?from=2026-05-01&to=2026-05-07"),
    "raw_response_ref": _f("tours_response.txt", "200 OK, 2 tours"),
    "auth_mode": "service account",
    "rate_limit_state": "58 of 60 left",
    "pagination_state": "page 1 of 1",
    "retry_count": 0,
    "request_id": "req-0193",
    "idempotency_key": "tours-2026-05-01",
    "resource_id": "tours",
    "resource_type": "collection",
    "object_id": "12",
    "object_type": "tour",
}
MCP: dict[str, Any] = {
    "mcp_server": "plant-names",
    "mcp_server_version": "0.4",
    "mcp_capability_type": "tool",
    "mcp_tool_name": "resolve_name",
    "mcp_resource_uri": "plantnames://accepted/vanda",
    "mcp_prompt_name": "name_review",
    "mcp_arguments_ref": _f("resolve_args.json", '{"name": "Vanda coerulia"}'),
    "mcp_result_ref": _f("resolve_result.json", '{"accepted": "Vanda coerulea", "distance": 1}'),
    "mcp_schema_ref": _f("resolve_schema.json", '{"type": "object", "required": ["name"]}'),
    "mcp_call_id": "mcp-0031",
    "mcp_error_code": "ambiguous",
    "mcp_error_message": "three names match",
}
DATABASE: dict[str, Any] = {
    "database_type": "sqlite",
    "database_name": "seedbank",
    "schema_name": "main",
    "table_name": "shelves",
    "query_type": "update",
    "query_ref": _f("move_shelf.sql", "UPDATE shelves SET place = 'annex' WHERE shelf = 'C';"),
    "query_hash": "q-5d1f",
    "row_count": 0,
    "affected_row_count": 1,
    "transaction_id": "tx-18",
    "isolation_level": "serializable",
    "migration_id": "m-004",
    "explain_plan_ref": _f("move_shelf_plan.txt", "SEARCH shelves USING INDEX by_shelf"),
    "before_snapshot_ref": _f("shelves_before.csv", "shelf,place\nC,hall"),
    "after_snapshot_ref": _f("shelves_after.csv", "shelf,place\nC,annex"),
    "rollback_ref": _f("move_shelf_back.sql", "UPDATE shelves SET place = 'hall' WHERE shelf = 'C';"),
    "db_error_code": "1",
    "db_error_message": "no such column: shelff",
}
TABLE: dict[str, Any] = {
    "workbook_ref": _f("inventory.fods.txt", "sheets: counts, totals"),
    "sheet_name": "totals",
    "table_ref": _f("totals_table.csv", "shelf,packets\nA,64\nB,41\nC,23\nall,128"),
    "table_refs": [_f("counts_table.csv", "shelf,species,packets\nA,Papaver rhoeas,40")],
    "sheet_refs": ["totals", "counts"],
    "cell_range": "A1:B5",
    "row_count": 5,
    "column_count": 2,
    "formula_refs": [_f("formulas.txt", "B5: =SUM(B2:B4)")],
    "pivot_refs": [_f("pivot.txt", "rows: shelf, values: sum of packets")],
    "chart_refs": [_f("chart.txt", "bars by shelf")],
    "data_validation_refs": [_f("validation.txt", "packets: whole number, 0 or more")],
    "before_table_ref": _f("totals_before.csv", "shelf,packets"),
    "after_table_ref": _f("totals_after.csv", "shelf,packets\nA,64\nB,41\nC,23\nall,128"),
    "diff_ref": _f("totals.diff", "+A,64\n+B,41\n+C,23\n+all,128"),
    "calculation_mode": "automatic",
    "spreadsheet_error": "#REF! in B5",
}
SOFTWARE: dict[str, Any] = {
    "command": "python tools/count.py --by shelf",
    "command_ref": _f("command.txt", "python tools/count.py --by shelf"),
    "exit_code": 0,
    "stdout_ref": _f("count_stdout.txt", "A 64\nB 41\nC 23\nall 128"),
    "stderr_ref": _f("count_stderr.txt", "1 note: shelf C read from the annex list"),
    "cwd_ref": "work",
    "process_id": "p-118",
    "timeout_seconds": 60,
    "file_path": "tools/count.py",
    "file_paths": ["tools/count.py", "tools/shelves.py"],
    "file_operation": "edit",
    "diff_ref": _f("count.diff", "-SHELVES = 'AB'\n+SHELVES = 'ABC'"),
    "patch_ref": _f(
        "count.patch", "--- a/tools/count.py\n+++ b/tools/count.py\n@@ -1 +1 @@\n-SHELVES = 'AB'\n+SHELVES = 'ABC'"
    ),
    "git_branch": "shelf-c",
    "git_commit_before": "1f0c2aa",
    "git_commit_after": "83be410",
    "test_command": "python -m unittest",
    "test_result_ref": _f("tests.txt", "Ran 4 tests, OK"),
    "build_result_ref": _f("build_result.txt", "nothing to build"),
    "lint_result_ref": _f("lint.txt", "0 findings"),
    "dependency_changes_ref": _f("dependencies.txt", "no change"),
    "software_state_ref": _f("work_tree.txt", "clean at 83be410"),
}
SEARCH: dict[str, Any] = {
    "search_provider": "garden archive",
    "query": "fern house closing dates 2026",
    "query_ref": _f("archive_query.txt", "fern house closing dates 2026"),
    "search_scope": "notices",
    "filters": {"year": 2026, "kind": "notice"},
    "result_count": 2,
    "selected_result_refs": [_f("notice_31.txt", "Notice 31: the fern house is closed from 4 to 6 May 2026.")],
    "citation_refs": [_f("notice_31_cite.txt", "Notice 31, paragraph 2")],
    "ranking_signal": "date",
    "search_time_range": "2026",
    "search_error": "index busy",
}
APP: dict[str, Any] = {
    "service_name": "visitor desk",
    "app_name": "deskboard",
    "workspace_id": "ws-garden",
    "project_id": "pr-visit",
    "tenant_id": "tn-lindgate",
    "record_id": "rec-77",
    "ticket_id": "VD-204",
    "resource_id": "page-visit",
    "resource_type": "page",
    "region": "north",
    "environment_name": "staging",
    "deployment_id": "dep-12",
    "permission_context": "editor",
    "object_state_before_ref": _f("ticket_before.json", '{"ticket": "VD-204", "state": "open"}'),
    "object_state_after_ref": _f("ticket_after.json", '{"ticket": "VD-204", "state": "in review"}'),
    "audit_log_ref": _f("audit.txt", "VD-204: open to in review"),
    "change_request_ref": _f("change.txt", "Show the fern house closing on the visit page."),
    "status_before": "open",
    "status_after": "in review",
}
ASYNC: dict[str, Any] = {
    "job_id": "job-310",
    "queue_name": "labels",
    "message_id": "msg-9",
    "webhook_id": "wh-2",
    "callback_url_ref": _f("callback.txt", "https://labels.example/done"),
    "schedule_id": "nightly-labels",
    "event_id": "ev-55",
    "trigger_type": "manual",
    "enqueue_time": "2026-03-02T09:10:00Z",
    "start_time": "2026-03-02T09:10:04Z",
    "completion_time": "2026-03-02T09:11:30Z",
    "delivery_status": "delivered",
    "polling_status": "finished",
    "callback_status": "200",
    "job_status_before": "queued",
    "job_status_after": "done",
    "async_result_ref": _f("job_310.json", '{"printed": 3, "failed": 0}'),
    "dead_letter_ref": _f("dead_letters.txt", "no messages"),
    "retry_count": 1,
}
MESSAGE: dict[str, Any] = {
    "platform_name": "garden chat",
    "channel_id": "ch-loans",
    "thread_id": "th-18",
    "message_id": "m-401",
    "sender_role": "assistant",
    "recipient_role": "curator",
    "message_type": "question",
    "message_ref": _f("question.txt", "May sheet 4471 leave the house with two labels?"),
    "approval_state": "approved",
    "attachment_refs": [_f("loan_list.csv", "sheet,species\n4471,Drosera rotundifolia\n4472,Drosera anglica")],
    "decision_refs": [_f("decision.txt", "Both labels stay on the sheet.")],
    "followup_required": True,
}
DOCUMENT: dict[str, Any] = {
    "document_ref": _f("loan_rules.txt", "1 Loans run for six months.\n2 Every sheet is listed by number."),
    "document_type": "rules",
    "text_extract_ref": _f("loan_rules_extract.txt", "six months; list by number"),
    "summary_ref": _f("loan_rules_summary.txt", "Six months, listed by number."),
    "document_diff_ref": _f("loan_rules.diff", "-four months\n+six months"),
    "page_refs": [_f("loan_rules_p1.txt", "page 1: loans run for six months")],
    "section_refs": ["1", "2"],
    "table_extract_refs": [_f("loan_terms.csv", "kind,months\nsheet,6\nslide,3")],
    "figure_refs": [_f("loan_form.svg", '<svg xmlns="http://www.w3.org/2000/svg"/>')],
    "citation_refs": [_f("loan_rules_cite.txt", "rule 2")],
    "annotation_refs": [_f("loan_rules_notes.txt", "rule 2 was missed last year")],
}
MIXED: dict[str, Any] = {
    "connected_surfaces": ["device", "database", "scheduler"],
    "cross_system_dependencies": ["climate log waits for the vent controller"],
    "handoff_refs": [_f("vent_to_log.txt", "vent-07 35 at 09:05")],
    "state_sync_refs": [_f("sync.json", '{"controller": 35, "log": 35}')],
    "consistency_checks": ["controller and log show the same opening"],
    "system_of_record": "climate log",
    "surface_type": "controller and log",
}
FULL: dict[str, dict[str, Any]] = {
    "multi_agent_handoff": HANDOFF,
    "multimodal_artifact": MEDIA,
    "ui_interaction_event": UI,
    "physical_environment_event": PHYSICAL,
    "api_interaction_event": API,
    "mcp_interaction_event": MCP,
    "database_event": DATABASE,
    "structured_table_event": TABLE,
    "software_execution_event": SOFTWARE,
    "search_retrieval_event": SEARCH,
    "enterprise_app_event": APP,
    "async_workflow_event": ASYNC,
    "collaboration_event": MESSAGE,
    "document_event": DOCUMENT,
    "cross_system_event": MIXED,
}
"""Every field of every event family, once."""


def less(family: str, *names: str) -> dict[str, Any]:
    """All fields of a family but some, which another step carries."""
    return {name: value for name, value in FULL[family].items() if name not in names}


def pick(family: str, *names: str) -> dict[str, Any]:
    """Some fields of a family, for steps that carry less."""
    return {name: FULL[family][name] for name in names}
