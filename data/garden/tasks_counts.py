"""Packages about counting and measuring: seed packets, greenhouse vents, pond water, moss."""

from __future__ import annotations

from typing import Any

from garden.model import Attempt, Step, Task, failed, step, user
from garden.surfaces import DATABASE, MIXED, PHYSICAL, SOFTWARE, less, pick

SEEDS = (
    "shelf,species,packets\nA,Papaver rhoeas,40\nA,Nigella damascena,24\nB,Linum perenne,41\nC,Silene latifolia,23\n"
)
SHORT = "shelf,packets\nA,64\nB,41\nall,105\n"
WHOLE = "shelf,packets\nA,64\nB,41\nC,23\nall,128\n"
ASK = "Count the seed packets by shelf from seeds.csv and write totals.csv, totals.json and note.md."


def _seed_start() -> list[Step]:
    return [
        user(ASK),
        step(
            "plan",
            "unknown",
            None,
            None,
            "Read the list, count by shelf, check against the database, write the three files.",
        ),
        step("read", "file", "read_text", "input/seeds.csv", SEEDS, file_path="input/seeds.csv", file_operation="read"),
        failed(
            *("execute", "cli", "shell", "python tools/count.py --by shelve", "error: unknown column 'shelve'"),
            command="python tools/count.py --by shelve",
            exit_code=2,
            error_type="usage",
            error_message="unknown column 'shelve'",
            error_code="2",
        ),
    ]


def _seed_end(table: str, total: int) -> list[Step]:
    return [
        step(
            "write",
            "file",
            "write_text",
            f"artifacts/totals.csv\n{table}",
            "written",
            file_operation="write",
            change="totals.csv exists",
        ),
        step("answer", "unknown", None, None, f"{total} packets; the totals are in totals.csv.", outcome="completed"),
    ]


def _retry(command: str, came: str) -> Step:
    again = {"retry_of": 4, "caused_by": [4], "causal_type": "retry_after_failure"}
    why = "The column is called shelf."
    return step(
        "execute", "cli", "shell", command, came, why=why, outcome="corrected", command=command, exit_code=0, **again
    )


def _seed_database() -> list[Step]:
    bank = pick("database_event", "database_type", "database_name") | {"table_name": "packets", "query_type": "select"}
    wrong = "SELECT shelff, SUM(packets) FROM packets GROUP BY shelff;"
    error = pick("database_event", "db_error_code", "db_error_message")
    count = wrong.replace("shelff", "shelf")
    return [
        failed(
            "read", "database", "seedbank", wrong, "error: no such column: shelff", error_type="sql", **bank, **error
        ),
        step(
            "read",
            "database",
            "seedbank",
            count,
            "A|64\nB|41\nC|23",
            retry_of=6,
            outcome="corrected",
            row_count=3,
            **bank,
        ),
        user("Shelf C moved to the annex; please count it too and note the move.", "new_constraint"),
        step(
            *("write", "database", "seedbank", DATABASE["query_ref"].content.strip(), "1 row changed"),
            obs="shelf C: hall",
            change="shelf C: annex",
            **less("database_event", "db_error_code", "db_error_message"),
        ),
    ]


def _seed_sheet() -> list[Step]:
    full = less("structured_table_event", "spreadsheet_error")
    error = pick("structured_table_event", "sheet_name", "spreadsheet_error")
    return [
        failed(
            "write",
            "spreadsheet",
            "sheet",
            "totals!A1:B4",
            "#REF! in B5",
            error_type="formula",
            cell_range="A1:B4",
            **error,
        ),
        step("write", "spreadsheet", "sheet", "totals!A1:B5", "5 rows written", change="sheet totals filled", **full),
        step(
            "verify",
            "table",
            None,
            "sum of rows 2 to 4 of totals",
            "128 = 128",
            outcome="completed",
            row_count=5,
            column_count=2,
        ),
    ]


def _seed_revised() -> list[Step]:
    run = "python tools/count.py --by shelf"
    return [
        *_seed_start(),
        _retry(run, "A 64\nB 41\nall 105"),
        *_seed_database(),
        step(
            "edit",
            "codebase",
            "editor",
            "tools/count.py: SHELVES = 'ABC'",
            "1 line changed",
            change="shelf C is counted",
            **SOFTWARE,
        ),
        step(
            "execute",
            "cli",
            "shell",
            run,
            "A 64\nB 41\nC 23\nall 128",
            command=run,
            exit_code=0,
            latency_ms=84.0,
            outcome="completed",
        ),
        *_seed_sheet(),
        *_seed_end(WHOLE, 128),
    ]


def _seed_loop() -> list[dict[str, Any]]:
    first: dict[str, Any] = {
        "review_packet": {
            "loop_id": "seeds-loop",
            "loop_iteration": 1,
            "mode": "review",
            "current_goal": "count every shelf",
            "current_attempt_summary": "Counted shelves A and B.",
            "actual_outputs_ref": "attempts/baseline/actual_outputs.json",
            "rubric_status": {"failed": ["every shelf"], "passed": ["three files"]},
            "verifier_status": {"verification_status": "verified"},
            "evaluator_status": {"feedback": "given"},
            "known_failures": ["shelf C is missing"],
            "missing_outputs": ["note.md"],
            "recommended_review_focus": ["totals by shelf"],
            "artifact_refs": ["attempts/baseline/artifacts/totals.csv"],
        },
        "reviewer_feedback": {
            "reviewer_type": "human_expert",
            "verdict": "revise",
            "score": 55,
            "feedback": "Shelf C stands in the list but not in the totals.",
            "blocking_issues": ["shelf C is missing"],
            "revision_instructions": ["count shelf C", "write note.md"],
            "evidence_refs": ["attempts/baseline/artifacts/totals.csv"],
        },
        "revision_plan": {
            "loop_id": "seeds-loop",
            "from_iteration": 1,
            "to_iteration": 2,
            "revision_required": True,
            "feedback_applied": True,
            "issues_to_fix": ["shelf C is missing", "note.md is missing"],
            "verification_steps": ["the total equals the sum of the list"],
            "stop_conditions": ["all criteria hold"],
        },
        "loop_decision": {
            "loop_id": "seeds-loop",
            "loop_iteration": 1,
            "decision": "continue_loop",
            "verdict": "revise",
            "score": 55,
            "continue_loop": True,
            "training_value_notes": "The miss is easy to see in the list.",
        },
        "contract_verification": {
            "contract_verification_passed": False,
            "actual_outputs_json_ok": True,
            "failures": [{"path": "artifacts/note.md", "kind": "missing", "hint": "write the note"}],
            "failure_count": 1,
            "semantic_warnings": [{"requirement": "the note says where shelf C is"}],
            "semantic_warning_count": 1,
            "checked": ["artifacts/totals.csv", "artifacts/totals.json", "artifacts/note.md"],
        },
        "contract_repair_plan": {
            "repair_id": "seeds-repair-1",
            "repair_required": True,
            "repair_allowed": True,
            "preserve_passing_items": True,
            "issues_to_fix": [{"path": "artifacts/note.md", "issue": "missing"}],
            "files_to_modify": ["artifacts/note.md"],
            "files_to_preserve": ["artifacts/totals.json"],
            "repair_steps": ["write note.md with the place of shelf C"],
            "risk_of_regression": "low",
        },
        "contract_repair_result": {
            "repair_id": "seeds-repair-1",
            "before_score": 55,
            "after_score": 95,
            "before_contract_status": False,
            "after_contract_status": True,
            "regression_detected": False,
            "reverted": False,
            "files_modified": ["artifacts/note.md"],
            "files_preserved": ["artifacts/totals.json"],
            "notes": "The note was added.",
        },
        "diff_report": {"available": False, "added_refs": [], "removed_refs": [], "changed_summary": {}},
    } | _snapshots("baseline")
    second: dict[str, Any] = {
        "review_packet": first["review_packet"]
        | {
            "loop_iteration": 2,
            "current_attempt_summary": "Counted shelves A, B and C.",
            "actual_outputs_ref": "attempts/revised/actual_outputs.json",
            "rubric_status": {"failed": [], "passed": ["every shelf", "three files", "the note"]},
            "known_failures": [],
            "missing_outputs": [],
            "artifact_refs": ["attempts/revised/artifacts/totals.csv"],
            "diff_from_previous_iteration": {"changed_summary": {"totals.csv": "shelf C added"}},
        },
        "reviewer_feedback": {
            "reviewer_type": "human_expert",
            "verdict": "pass",
            "score": 95,
            "feedback": "All shelves are counted.",
        },
        "loop_decision": {
            "loop_id": "seeds-loop",
            "loop_iteration": 2,
            "decision": "stop",
            "verdict": "pass",
            "stop_condition": "all criteria hold",
            "termination_reason": "done",
            "score": 95,
            "continue_loop": False,
        },
        "contract_verification": {
            "contract_verification_passed": True,
            "actual_outputs_json_ok": True,
            "failures": [],
            "failure_count": 0,
            "checked": first["contract_verification"]["checked"],
        },
        "diff_report": {
            "available": True,
            "added_refs": ["attempts/revised/artifacts/note.md"],
            "removed_refs": [],
            "changed_summary": {"totals.csv": "shelf C added"},
        },
    } | _snapshots("revised")
    return [first, second]


def _snapshots(kind: str) -> dict[str, Any]:
    return {
        "output_snapshot": {"files": [f"attempts/{kind}/artifacts/totals.csv"]},
        "artifact_index": [{"package_relative_path": f"attempts/{kind}/artifacts/totals.csv"}],
        "trace_refs": {"trace": f"attempts/{kind}/agent_trace.json"},
        "rubric_status": {"attempt": kind},
        "verifier_status": {"attempt": kind, "verification_status": "verified"},
        "evaluator_feedback": {"attempt": kind},
    }


def seeds() -> Task:
    """The clean one: everything that a package may hold, and no fault."""
    first = [*_seed_start(), _retry("python tools/count.py --by shelf", "A 64\nB 41\nall 105"), *_seed_end(SHORT, 105)]
    missed = "Shelf C is in the list but not in the totals."
    return Task(
        "seed-packet-count",
        "better",
        "Count seed packets",
        ASK,
        "seed bank",
        "inventory",
        [
            ("every shelf", "All shelves of the list are counted.", 0.5),
            ("three files", "totals.csv and totals.json agree.", 0.3),
            ("the note", "note.md says where each shelf is.", 0.2),
        ],
        {
            "baseline": Attempt(
                first,
                [0.3, 1.0, 0.5],
                "Counted shelves A and B: 105 packets.",
                {"totals.csv": SHORT, "totals.json": '{"A": 64, "B": 41, "all": 105}\n'},
                passed=False,
                notes=[missed, "", "There is no note."],
                feedback=(missed, "Count shelf C and add note.md."),
                system="You help in the seed bank. Never change the input files.",
            ),
            "revised": Attempt(
                _seed_revised(),
                [1.0, 1.0, 0.75],
                "Counted shelves A, B and C: 128 packets.",
                {
                    "totals.csv": WHOLE,
                    "totals.json": '{"A": 64, "B": 41, "C": 23, "all": 128}\n',
                    "note.md": "# Totals\n\n128 packets on three shelves. Shelf C stands in the annex.\n",
                },
                passed=True,
                notes=["The total equals the sum of the list."],
                system="You help in the seed bank. Never change the input files.",
            ),
        },
        max_score=100,
        inputs={"seeds.csv": SEEDS, "task_brief.md": "Shelf C was moved in winter.\n"},
        lesson=(
            "Compare the shelves of the totals with those of the list.",
            ["List the distinct shelves first.", "Sum the list as a check."],
        ),
        labels=True,
        loops=_seed_loop(),
    )


def _vents(opening: int, temperature: str, *, end: str) -> list[Step]:
    look = pick(
        "physical_environment_event",
        "physical_environment_type",
        "device_id",
        "safety_state",
        "simulation_or_real_world",
    )
    return [
        user("Bring the fern house below 28 degrees with the roof vents, and write settings.json."),
        step(
            "read",
            "device",
            "vent_panel",
            "read vent-07",
            "open 20 percent, 29.5 degrees",
            obs="29.5 degrees",
            **look,
            device_type="vent actuator",
        ),
        step(
            "execute",
            "physical",
            "vent_panel",
            f"open {opening}",
            f"vent-07 at {opening}",
            change=f"vent-07 open {opening}",
            **PHYSICAL,
        ),
        step("read", "industrial", "climate_rack", "read loop 2", f"{temperature} degrees after ten minutes", **look),
        step("verify", "mixed", None, "compare controller and climate log", f"both say {opening}", **MIXED),
        step(
            "write",
            "scheduler",
            "cron_panel",
            "add evening close",
            "evening-close added",
            schedule_id="evening-close",
            trigger_type="time",
        ),
        step("answer", "other_surface", None, None, end, outcome="completed"),
    ]


def vents() -> Task:
    """A revision that made it worse."""
    return Task(
        "fern-house-vents",
        "worse",
        "Tune the fern house vents",
        "Bring the fern house below 28 degrees with the roof vents, and write settings.json.",
        "greenhouse",
        "climate",
        [
            ("below 28", "The house is below 28 degrees after ten minutes.", 0.6),
            ("limit kept", "No vent passes the rain limit.", 0.4),
        ],
        {
            "baseline": Attempt(
                _vents(35, "27.4", end="27.4 degrees; vent-07 stays at 35."),
                [1.0, 0.9],
                "The house is at 27.4 degrees with vent-07 at 35.",
                {"settings.json": '{"vent-07": 35}\n'},
                passed=True,
                feedback=("The house is cool enough.", "Try whether a wider opening is quicker."),
            ),
            "revised": Attempt(
                _vents(75, "26.0", end="26.0 degrees; vent-07 at 75."),
                [0.8, 0.0],
                "The house is at 26.0 degrees with vent-07 at 75.",
                {"settings.json": '{"vent-07": 75}\n'},
                passed=False,
                notes=["Cool enough.", "75 passes the rain limit of 60."],
                verification="partially_verified",
                verifier_notes="The reading is grounded; the limit is not kept.",
            ),
        },
        faults=["future_and_reversed_times", "duplicate_steps", "huge_output"],
    )


def pond() -> Task:
    """Odd shapes in the traces."""

    def steps(value: str) -> list[Step]:
        probe = pick("physical_environment_event", "device_id", "telemetry_ref", "safety_state")
        return [
            user("Log the pH of the lily pond in log.csv."),
            step("read", "device", "probe", "read pH", value, **probe),
            step(
                "read",
                "api",
                "http",
                "GET /v1/ponds/lily",
                "lily pond, limit 8.0",
                api_endpoint="/v1/ponds/lily",
                api_method="GET",
                http_status=200,
            ),
            step("analyze", "unknown", None, None, "One reading is not enough; read again."),
            step(
                "verify",
                None,
                "sql console",
                "select avg(ph) from readings",
                value,
                why="the tool alone says which surface this is",
            ),
            step(
                "write",
                None,
                "write_text",
                f"log.csv\nph\n{value}",
                "written",
                file_path="log.csv",
                why="a field alone says the surface",
            ),
            step("answer", "unknown", None, None, f"The pH is {value}.", outcome="completed"),
        ]

    return Task(
        "pond-water-log",
        "better",
        "Log the pond water",
        "Log the pH of the lily pond in log.csv.",
        "water",
        "measurement",
        [("two readings", "At least two readings are averaged.", 0.5), ("the log", "log.csv holds the value.", 0.5)],
        {
            "baseline": Attempt(
                steps("7.9"),
                [0.2, 0.8],
                "pH 7.9 from one reading.",
                {"log.csv": "ph\n7.9\n"},
                passed=False,
                notes=["One reading."],
            ),
            "revised": Attempt(
                steps("7.6"), [1.0, 1.0], "pH 7.6 from two readings.", {"log.csv": "ph\n7.6\n"}, passed=True
            ),
        },
        max_score=5,
        faults=["trace_is_list", "non_object_step", "wrong_types"],
    )


def moss() -> Task:
    """Files whose bytes are not what their names say."""

    def steps(found: str, text: str) -> list[Step]:
        hunt = {"search_provider": "garden archive"}
        return [
            user("Turn the moss notes into species.json."),
            step(
                "read",
                "file",
                "read_text",
                "input/notes.txt",
                "three mosses, one with an umlaut",
                file_path="input/notes.txt",
                file_operation="read",
            ),
            failed(
                "search",
                "search",
                "archive",
                "Tortula",
                "error: index busy",
                error_type="busy",
                **hunt,
                search_error="index busy",
            ),
            step(
                "search",
                "search",
                "archive",
                "Tortula muralis",
                "1 hit",
                query="Tortula muralis",
                result_count=1,
                **hunt,
            ),
            step(
                "write",
                "file",
                "write_text",
                "species.json",
                "written",
                file_path="species.json",
                file_operation="write",
            ),
            step(
                "verify",
                "cli",
                "shell",
                "python -m json.tool species.json",
                text,
                command="python -m json.tool species.json",
                exit_code=0,
            ),
            step("answer", "unknown", None, None, f"Found {found}.", outcome="completed"),
        ]

    two, three = '["Tortula", "Bryum"]\n', '["Tortula", "Bryum", "Mnium"]\n'
    return Task(
        "moss-survey-notes",
        "better",
        "Moss notes to JSON",
        "Turn the moss notes into species.json.",
        "survey",
        "transcription",
        [("all species", "Every moss of the notes is in the file.", 1.0)],
        {
            "baseline": Attempt(
                steps("two species", two.strip()),
                [0.5],
                "Two species.",
                {"species.json": two, "log.txt": "two\n"},
                passed=False,
            ),
            "revised": Attempt(
                steps("three species", three.strip()),
                [1.0],
                "Three species.",
                {"species.json": three},
                passed=True,
            ),
        },
        inputs={"notes.txt": "Tortula, Bryum, Mnium\n"},
        labels=True,
        faults=["non_utf8_text", "non_utf8_json", "bom_json", "bad_jsonl_line", "line_separator_jsonl"],
    )
