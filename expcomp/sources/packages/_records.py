"""What a package holds beside its attempts: task, rubric, loops, lessons, step labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from expcomp.sources.packages import _coerce as co
from expcomp.sources.packages import _documents as docs

if TYPE_CHECKING:
    from expcomp.sources.packages._attempt import AttemptReader
    from expcomp.sources.packages._package import Package

_DIGITS = 10  # numbers of iterations fit 32 bits
Label = tuple[int | None, str | None, float | None]


def read_task(p: Package) -> str:
    """Add the task and return its id (the package id when no file declares one)."""
    spec_ref = next((r for r in ("task/task_intake_spec.json", "task/task_packet.json") if p.has(r)), None)
    raw_ref = "task/raw_task_record.json" if p.has("task/raw_task_record.json") else None
    spec_doc = (p.read_json(spec_ref) if spec_ref else None) or {}
    raw_doc = (p.read_json(raw_ref) if raw_ref else None) or {}
    spec = co.typed(spec_doc, docs.TASK, p.reporter(spec_ref or "task"))
    raw = co.typed(raw_doc, docs.TASK, p.reporter(raw_ref or "task"))
    if spec_ref is None and raw_ref is None:
        p.note(
            "missing_file",
            "task/task_intake_spec.json",
            "is absent, as is the raw task record; the package id stands for the task id",
        )

    def first(*names: str) -> Any:
        return next((d[n] for d in (spec, raw) for n in names if d[n]), None)

    task_id = first("task_id") or p.id
    source = next((r for r, d in ((spec_ref, spec_doc), (raw_ref, raw_doc)) if r and d), None)
    cited = {ref: p.cite(ref) for ref in (spec_ref, raw_ref) if ref}
    metadata = {k: v for k, v in spec_doc.items() if k not in docs.TASK and v not in (None, [], {}, "")}
    p.batch.add(
        "tasks",
        task_id=task_id,
        native_id=first("raw_task_id"),
        tools=p.options.tools,
        title=first("normalized_title", "raw_title", "title"),
        instruction=first("normalized_instruction", "instruction", "raw_description"),
        domain=first("domain", "normalized_domain"),
        subdomain=first("subdomain", "normalized_subdomain"),
        workflow_family=first("workflow_family", "task_family"),
        deliverables=first("output_requirements"),
        constraints=first("constraints"),
        source_ref=cited[source] if source else None,
        metadata=co.json_text(metadata) if metadata else None,
    )
    return str(task_id)


def read_rubric(p: Package, task_id: str) -> None:
    """Add the rubric items. The verifier's private rubric is never opened."""
    ref = "rubric/rubric.json"
    doc = p.read_json(ref)
    if doc is None:
        return
    cited = p.cite(ref)
    rubric_id = co.typed(doc, docs.RUBRIC, p.reporter(ref))["rubric_id"]
    items = doc.get("rubric_items")
    for pos, item in enumerate(items if isinstance(items, list) else []):
        report = p.reporter(ref, pos)
        if not isinstance(item, dict):
            report("rubric_items", "not_an_object", f"found {type(item).__name__}, expected an object; skipped")
            continue
        row = co.typed(item, docs.RUBRIC_ITEM, report)
        row["rubric_item_id"] = row["rubric_item_id"] or f"criterion_{pos}"
        p.batch.add(
            "rubric_items",
            package_id=p.id,
            task_id=task_id,
            rubric_id=rubric_id,
            position=pos,
            source_ref=cited,
            metadata=co.rest({k: v for k, v in item.items() if v not in (None, [], {})}, docs.RUBRIC_ITEM),
            **row,
        )


def read_loops(p: Package, attempts: dict[str, AttemptReader]) -> None:
    """Add one row for each loop iteration, and the reviewer's feedback."""
    folders = sorted({"/".join(ref.split("/")[:3]) for ref in p.below("loops/iterations") if ref.count("/") >= 3})
    if p.has("loops/loop_manifest.json") and folders:
        p.cite("loops/loop_manifest.json")
    rows = [_iteration(p, folder, attempts) for folder in _numbered(p, folders)]
    for i, row in enumerate(rows):
        row["next_attempt_id"] = rows[i + 1]["attempt_id"] if i + 1 < len(rows) else None
        p.batch.add("loops", **row)


def _numbered(p: Package, folders: list[str]) -> list[str]:
    """Folders of iterations in the order of their numbers, which need not be padded with zeros; each number once."""
    found: dict[int, str] = {}
    for folder in folders:
        name = folder.rsplit("/", 1)[-1]
        if not (name.isascii() and name.isdecimal() and len(name) < _DIGITS):
            p.note("odd_folder", folder, "is no iteration number; skipped")
        elif (first := found.setdefault(int(name), folder)) != folder:
            p.note("odd_folder", folder, f"is the iteration of {first} again; skipped")
    return [found[number] for number in sorted(found)]


def _iteration(p: Package, folder: str, attempts: dict[str, AttemptReader]) -> dict[str, Any]:
    read: dict[str, dict[str, Any]] = {}
    row: dict[str, Any] = {"package_id": p.id, "loop_iteration": int(folder.rsplit("/", 1)[-1])}
    for stem, fields in docs.LOOP.items():
        ref = f"{folder}/{stem}.json"
        doc = p.read_json(ref)
        if doc is None:
            continue
        row[f"{stem}_ref"] = p.cite(ref)
        read[stem] = typed = co.typed(doc, fields, p.reporter(ref))
        row[stem] = co.json_text({k: v for k, v in typed.items() if v is not None and v != []})
    packet, review = read.get("review_packet", {}), read.get("reviewer_feedback", {})
    parts = (packet.get("actual_outputs_ref") or "").split("/")
    reader = attempts.get(parts[1]) if len(parts) > 1 else None
    row["attempt_id"] = reader.id if reader else None
    row["loop_id"] = packet.get("loop_id") or read.get("loop_decision", {}).get("loop_id")
    row["reviewer_type"] = review.get("reviewer_type")
    row["simulated_review"] = (
        review["reviewer_type"] in docs.SIMULATED_REVIEWERS if review.get("reviewer_type") else None
    )
    content = review.get("feedback") or review.get("feedback_text") or review.get("summary")
    if review and reader is not None:
        p.batch.add(
            "feedback",
            package_id=p.id,
            attempt_id=reader.id,
            loop_iteration=row["loop_iteration"],
            kind="reviewer",
            reviewer_type=review.get("reviewer_type"),
            simulated=bool(row["simulated_review"]),
            verdict=review.get("verdict"),
            score=review.get("score"),
            content=content,
            suggestions=review.get("revision_instructions"),
            failed_items=review.get("blocking_issues"),
            source_ref=row["reviewer_feedback_ref"],
        )
    return row


def read_lessons(p: Package, attempts: dict[str, AttemptReader]) -> None:
    """Add the lesson pack as feedback of kind lesson, once for each attempt it names."""
    ref = "signals/lesson_pack.json"
    doc = p.read_json(ref)
    if doc is None:
        return
    cited = p.cite(ref)
    lesson = co.typed(doc, docs.LESSON, p.reporter(ref))
    for reader in attempts.values():
        if reader.native_ids & set(lesson["source_attempt_ids"]):
            p.batch.add(
                "feedback",
                package_id=p.id,
                attempt_id=reader.id,
                kind="lesson",
                simulated=False,
                content=lesson["lesson_summary"],
                suggestions=lesson["strategy_lessons"],
                failed_items=lesson["common_failure_modes"],
                source_ref=cited,
            )


class _Signal(msgspec.Struct):
    """A well-formed step label; anything else takes the tolerant path."""

    attempt_kind: str | None = None
    attempt_id: str | None = None
    trace_id: str | None = None
    step: int | None = None
    step_quality_label: str | None = None
    label_source: str | None = None
    local_reward: float | None = None


_signals = msgspec.json.Decoder(_Signal).decode_lines


def read_labels(p: Package, attempts: dict[str, AttemptReader]) -> dict[tuple[str, int], Label]:
    """The package's own step labels, by attempt id and step number."""
    ref = "signals/process_supervision.jsonl"
    data = p.read(ref)
    if data is None:
        return {}
    try:
        rows = list(enumerate(_signals(data), 1))
    except msgspec.DecodeError:
        rows = [
            (number, _Signal(**co.typed(doc, docs.SIGNAL, p.reporter(ref, number))))
            for number, doc in p.parse_lines(data, ref)
        ]
    labels: dict[tuple[str, int], Label] = {}
    by_trace = {r.trace.get("trace_id"): r for r in attempts.values() if r.trace.get("trace_id")}
    by_native = {n: r for r in attempts.values() for n in r.native_ids}
    for number, row in rows:
        reader = (
            attempts.get(row.attempt_kind or "") or by_trace.get(row.trace_id) or by_native.get(row.attempt_id or "")
        )
        if reader is None or row.step is None:
            p.note("dangling_label", ref, f"line {number} labels no step of this package", source_pos=number)
            continue
        source = row.label_source if row.label_source in docs.LABEL_SOURCES else None
        labels[reader.id, row.step] = (docs.STEP_LABEL.get(row.step_quality_label or ""), source, row.local_reward)
    if labels:
        p.cite(ref)
    return labels
