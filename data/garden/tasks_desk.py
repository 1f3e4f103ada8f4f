"""Packages about letters, visitors and printing."""

from __future__ import annotations

from typing import Any

from garden.model import Attempt, Step, Task, failed, step, user
from garden.surfaces import API, APP, DOCUMENT, HANDOFF, MEDIA, MESSAGE, SEARCH, less, pick


def _letter(tone: str) -> list[Step]:
    short = pick("collaboration_event", "platform_name", "sender_role", "recipient_role", "message_type")
    return [
        user("Write the loan letter for sheets 4471 and 4472 as letter.md."),
        step("read", "document", "reader", "loan rules", "Loans run for six months; list by number.", **DOCUMENT),
        step(
            "read",
            "pdf",
            "reader",
            "old letter, page 1",
            "Dear colleagues",
            document_type="letter",
            page_refs=DOCUMENT["page_refs"],
        ),
        step("analyze", "multimodal", "viewer", "sheet 4471", "two labels, the lower one older", **MEDIA),
        step("ask_user", "messaging", "chat", "May sheet 4471 leave with two labels?", "Yes, both stay.", **MESSAGE),
        step(
            "write", "collaboration", "shared_pad", f"draft, {tone}", "draft saved", **short, approval_state="pending"
        ),
        step("execute", "email", "mailer", "send draft to the curator", "queued", **short, followup_required=False),
        step("answer", "unknown", None, None, "The letter is in letter.md.", outcome="completed"),
    ]


def _letter_loop() -> list[dict[str, Any]]:
    return [
        {
            "review_packet": {
                "loop_id": "letter-loop",
                "loop_iteration": 1,
                "mode": "review",
                "current_goal": "a letter that can be sent",
                "current_attempt_summary": "A formal letter.",
                "actual_outputs_ref": "attempts/baseline/actual_outputs.json",
                "rubric_status": {"passed": ["both sheets"]},
                "verifier_status": {"verification_status": "not_run"},
            },
            "reviewer_feedback": {
                "reviewer_type": "simulated_for_test",
                "verdict": "revise",
                "feedback": "Sound friendlier.",
                "revision_instructions": ["use a friendlier opening"],
            },
            "revision_plan": {
                "loop_id": "letter-loop",
                "from_iteration": 1,
                "to_iteration": 2,
                "issues_to_fix": ["the opening"],
            },
            "loop_decision": {
                "loop_id": "letter-loop",
                "loop_iteration": 1,
                "decision": "continue_loop",
                "verdict": "revise",
                "score": 3.5,
            },
        }
    ]


def letter() -> Task:
    """Two equal attempts; the reviewer is a stand-in and the verifier was not run."""
    body = "# Loan\n\nWe lend sheets 4471 and 4472 for six months.\n"
    return Task(
        "herbarium-loan-letter",
        "tie",
        "Write a loan letter",
        "Write the loan letter for sheets 4471 and 4472 as letter.md.",
        "herbarium",
        "correspondence",
        [
            ("both sheets", "Both sheets are named by number.", 0.5),
            ("the term", "The term of six months is given.", 0.5),
        ],
        {
            "baseline": Attempt(
                _letter("formal"),
                [0.8, 0.6],
                "A formal letter.",
                {"letter.md": body},
                passed=True,
                verification="not_run",
                grader="structural_guardrail",
            ),
            "revised": Attempt(
                _letter("friendly"), [0.6, 0.8], "A friendly letter.", {"letter.md": "Hello!\n\n" + body}, passed=True
            ),
        },
        max_score=5,
        loops=_letter_loop(),
        faults=["lookalike_text", "trade_words", "pii_in_step"],
    )


def visitors() -> Task:
    """A single attempt with secrets and private paths in what the tools printed."""
    steps = [
        user("Show the fern house closing on the visit page and write change.md."),
        step(
            "search",
            "search",
            "archive",
            SEARCH["query"],
            "2 notices",
            **less("search_retrieval_event", "search_error"),
        ),
        step(
            "execute",
            "browser",
            "kiosk_browser",
            "click Show map",
            "map shown, 14 pins",
            **less("ui_interaction_event", "input_text"),
        ),
        step("read", "api", "http", "GET /v2/tours", "2 tours", **API),
        step("edit", "saas_app", "deskboard", "VD-204: in review", "state changed", **APP),
        failed(
            "execute",
            "cloud_console",
            "console",
            "deploy dep-12",
            "blocked: no approval",
            error_type="permission",
            error_message="no approval",
        ),
        step(
            "execute",
            "cloud_console",
            "console",
            "deploy dep-12 to staging",
            "deployed",
            retry_of=6,
            outcome="corrected",
            deployment_id="dep-12",
        ),
        step(
            "execute",
            "computer_use",
            "kiosk",
            "type fern house",
            "1 pin left",
            action_type="type",
            **pick("ui_interaction_event", "ui_surface", "screenshot_ref", "input_text"),
        ),
        step("verify", "browser", "kiosk_browser", "reload", "closing shown", action_type="reload"),
        step("answer", "unknown", None, None, "The closing is on the page in staging.", outcome="completed"),
    ]
    note = {"change.md": "The fern house is closed from 4 to 6 May 2026.\n"}
    return Task(
        "visit-page-notice",
        "single",
        "Put a notice on the visit page",
        "Show the fern house closing on the visit page and write change.md.",
        "visitors",
        "web content",
        [("right dates", "The dates of notice 31 are shown.", 1.0)],
        {"baseline": Attempt(steps, [1.0], "The closing is shown in staging.", note, passed=True)},
        faults=["secret_in_step", "private_path"],
    )


def _labels(check: str, *, asked: bool) -> list[Step]:
    mcp = pick("mcp_interaction_event", "mcp_server", "mcp_result_ref")
    elsewhere = ("mcp_resource_uri", "mcp_prompt_name", "mcp_error_code", "mcp_error_message")
    tool = less("mcp_interaction_event", *elsewhere)
    queue = pick(
        "async_workflow_event", "queue_name", "message_id", "delivery_status", "dead_letter_ref", "trigger_type"
    )
    hook = pick("async_workflow_event", "webhook_id", "callback_status", "callback_url_ref", "event_id", "trigger_type")
    job = less("async_workflow_event", *queue, *hook, "schedule_id") | {"trigger_type": "queue"}
    tail = [user("Please use the accepted names.", "correction")] if asked else []
    return [
        user("Print three orchid labels; names.csv lists what was printed."),
        step("plan", "other_tool", "hand_over", "give the names to a second reader", check, **HANDOFF),
        *tail,
        failed(
            *("read", "mcp_tool", "resolve_name", "Vanda", "error: three names match"),
            error_type="ambiguous",
            **pick("mcp_interaction_event", "mcp_server", "mcp_tool_name", "mcp_error_code", "mcp_error_message"),
        ),
        step("read", "mcp_tool", "resolve_name", "Vanda coerulia", "accepted: Vanda coerulea", **tool),
        step(
            *("read", "mcp_resource", "plantnames", "plantnames://accepted/vanda", "Vanda coerulea"),
            **(mcp | {"mcp_capability_type": "resource", "mcp_resource_uri": "plantnames://accepted/vanda"}),
        ),
        step(
            *("select", "mcp_prompt", "name_review", "three names", "review text"),
            **(mcp | {"mcp_capability_type": "prompt", "mcp_prompt_name": "name_review"}),
        ),
        step("execute", "queue", "label_queue", "3 labels", "queued", **queue),
        step("execute", "async_job", "printer", "job-310", "done", **job),
        step("verify", "webhook", "callback", "wh-2", "200", **hook),
        step("answer", "unknown", None, None, f"Three labels, {check}.", outcome="completed"),
    ]


def labels() -> Task:
    """Three attempts, hidden files, and refs that lead nowhere or out."""
    names = "name\nPaphiopedilum micranthum\nCattleya labiata\n{}\n"

    def attempt(check: str, mark: float, third: str, *, asked: bool) -> Attempt:
        files = {"names.csv": names.format(third)}
        note = "" if mark > 0.6 else "The third name is not the accepted one."
        return Attempt(
            _labels(check, asked=asked),
            [mark, 1.0, mark],
            f"Three labels; {check}.",
            files,
            passed=mark > 0.6,
            notes=[note],
        )

    return Task(
        "orchid-label-print",
        "three",
        "Print orchid labels",
        "Print three orchid labels; names.csv lists what was printed.",
        "labels",
        "printing",
        [
            ("accepted names", "Every name is the accepted one.", 0.5),
            ("three labels", "Three labels were printed.", 0.3),
            ("private name check", "The third name matches the hidden list.", 0.2),
        ],
        {
            "baseline": attempt("one name read", 0.2, "Vanda coerulia", asked=False),
            "revised": attempt("names read once", 0.6, "Vanda coerulea?", asked=True),
            "apprentice_with_lessons": attempt("names read twice", 1.0, "Vanda coerulea", asked=True),
        },
        max_score=100,
        private=("Vanda coerulea, hidden-key-orchid-73", "only the verifier reads this"),
        hidden={"names.json": '{"hidden-answer-orchid-73": "Vanda coerulea"}\n'},
        faults=["missing_artifact", "dotdot_ref", "absolute_ref", "symlink_escape", "hidden_ref"],
    )


def _rota(note: str) -> list[Step]:
    return [
        user("Fill the volunteer rota for May as rota.csv."),
        step(
            "read",
            "spreadsheet",
            "sheet",
            "May!A1:C9",
            "8 volunteers",
            sheet_name="May",
            cell_range="A1:C9",
            row_count=9,
            column_count=3,
        ),
        step("read", "email", "mailer", "replies to the call", "7 replies", platform_name="mail", message_type="reply"),
        step("analyze", "unknown", None, None, note),
        step("write", "file", "write_text", "rota.csv", "written", file_path="rota.csv", file_operation="write"),
        step("answer", "unknown", None, None, "The rota is in rota.csv.", outcome="completed"),
    ]


def _rota_task(package: str, title: str, faults: list[str]) -> Task:
    ask = "Fill the volunteer rota for May as rota.csv."
    first = Attempt(
        _rota("One Sunday is open."),
        [0.5, 0.8],
        "One Sunday is open.",
        {"rota.csv": "day,who\n3,Volunteer 1\n"},
        passed=False,
    )
    second = Attempt(
        _rota("Every Sunday has someone."),
        [1.0, 0.9],
        "Every Sunday is filled.",
        {"rota.csv": "day,who\n3,Volunteer 1\n10,Volunteer 2\n"},
        passed=True,
    )
    rules = [
        ("all Sundays", "Every Sunday has a volunteer.", 0.7),
        ("nobody twice", "Nobody serves two Sundays in a row.", 0.3),
    ]
    return Task(
        package,
        "better",
        title,
        ask,
        "volunteers",
        "planning",
        rules,
        {"baseline": first, "revised": second},
        faults=faults,
    )


def rota() -> Task:
    """Files cut in the middle."""
    return _rota_task("volunteer-rota", "Fill the May rota", ["truncated_trace", "truncated_grade"])


def sale() -> Task:
    """Scores that are none."""
    task = _rota_task("plant-sale-rota", "Fill the plant sale rota", ["nan_score", "score_over_max"])
    task.instruction = "Fill the volunteer rota for the plant sale as rota.csv."
    return task


def tours() -> Task:
    """Attempts with nothing in them; its folder stands twice."""
    task = _rota_task("tour-timetable", "Fill the tour timetable", ["empty_trace", "missing_attempt_file"])
    task.instruction = "Fill the tour guides' timetable for May as rota.csv."
    return task


def twin() -> Task:
    """The same task in a second folder."""
    task = tours()
    task.id, task.faults = "tour-timetable-copy", ["duplicate_package_task"]
    for attempt in task.attempts.values():
        attempt.steps = [*attempt.steps[:5], attempt.steps[-1]]
    return task
