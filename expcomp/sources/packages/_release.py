"""Records of packages in the two exported spellings: a release (JSON lines by kind, many tasks) and a bundle (one package in
`traces/`, `outputs/`, `evaluation/`, `learning_data/`).

File names differ between exporters, record shapes do not: a record is known by its fields, belongs to the task it names, and is
laid at the place it has in a package folder. It is then read like a package; what its rows cite is the file it came from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.sources._contract import Unit
from expcomp.sources._json import load_json
from expcomp.sources.packages._package import Package

if TYPE_CHECKING:
    from expcomp.sources._contract import Batch, ReadOptions

RELEASE_FILES = frozenset(
    "tasks.jsonl task_intake_specs.jsonl rubrics.jsonl rubric_items.jsonl agent_traces.jsonl raw_agent_traces.jsonl actual_outputs.jsonl "
    "grader_results.jsonl verifier_results.jsonl evaluator_feedback.jsonl revision_plans.jsonl hillclimb_results.jsonl lessons.jsonl "
    "training_signals.jsonl process_supervision.jsonl reward_modeling.jsonl verifier_training.jsonl revision_preference_pairs.jsonl "
    "packages_index.jsonl".split()
)
BUNDLE_MARKS = frozenset({"contribution_manifest.json", "session_metadata.json"})
BUNDLE_FOLDERS = frozenset({"traces", "outputs", "evaluation", "learning_data"})

# Fields that only this kind of record has -> its place in a package folder, None when no row is made from it. {kind} is the
# attempt. The first that fits counts.
PLACES: tuple[tuple[frozenset[str], str | None], ...] = (
    (frozenset({"example_id", "rubric_item_scores"}), None),  # a copy of a grade, made for reward modelling
    (frozenset({"trace_steps"}), "attempts/{kind}/agent_trace.raw.json"),
    (frozenset({"steps", "trace_id"}), "attempts/{kind}/agent_trace.json"),
    (frozenset({"verification_status"}), "grading/{kind}_verifier_result.json"),
    (frozenset({"grader_kind", "rubric_item_scores"}), "grading/{kind}_grader_result.json"),
    (frozenset({"feedback_id", "feedback_summary"}), "feedback/{kind}_evaluator_feedback.json"),
    (frozenset({"step_quality_label"}), "signals/process_supervision.jsonl"),
    (frozenset({"lesson_summary"}), "signals/lesson_pack.json"),
    (frozenset({"rubric_items"}), "rubric/rubric.json"),
    (frozenset({"output_summary", "deliverable_refs"}), "attempts/{kind}/actual_outputs.json"),
    (frozenset({"normalized_instruction", "output_requirements"}), "task/task_intake_spec.json"),
    (frozenset({"raw_task_id"}), "task/raw_task_record.json"),
)


def is_release(names: frozenset[str]) -> bool:
    """A folder with two or more of the release's files."""
    return len(names & RELEASE_FILES) > 1


def is_bundle(names: frozenset[str]) -> bool:
    """A folder with a bundle's manifest beside one of its folders."""
    return bool(names & BUNDLE_MARKS) and bool(names & BUNDLE_FOLDERS)


class RecordPackage(Package):
    """A package whose files are records of other files; it cites those."""

    def __init__(self, package_id: str, host: Package, records: Mapping[str, tuple[bytes, str]]) -> None:
        super().__init__(Unit("packages", host.folder, package_id), host.batch, host.options)
        self.host = host
        self._hashes = host._hashes  # a file of many records is hashed once
        self.records = records
        self.paths = {**host.paths, **dict.fromkeys(records, host.plain)}
        self.names = frozenset(self.paths)

    def read(self, ref: str) -> bytes | None:
        """Bytes of a record, or of a real file of the folder."""
        record = self.records.get(ref)
        return super().read(ref) if record is None else record[0]

    def cite(self, ref: str) -> str:
        """Cite the file that holds the record."""
        record = self.records.get(ref)
        return super().cite(ref if record is None else record[1])


def record_packages(unit: Unit, batch: Batch, options: ReadOptions) -> Iterator[RecordPackage]:
    """One package for each task that the records of a folder name."""
    host = Package(unit, batch, options)
    placed: dict[str, dict[str, tuple[bytes, str]]] = defaultdict(dict)
    for ref in [r for r in host.paths if r.endswith((".json", ".jsonl")) and "hidden" not in r]:
        for number, record in _records(host, ref):
            _place(host, ref, number, record, placed)
    if len(placed) == 1:
        yield RecordPackage(unit.package_id, host, next(iter(placed.values())))
        return
    for task_id in sorted(placed):
        yield RecordPackage(f"{unit.package_id}/{task_id}", host, placed[task_id])


def _records(host: Package, ref: str) -> Iterator[tuple[int, dict[str, Any]]]:
    data = host.read(ref)
    if data is None:
        return
    if ref.endswith(".jsonl"):
        yield from host.parse_lines(data, ref)
        return
    value, problems = load_json(data)
    for found in problems:
        host.note(found.code, ref, found.detail, byte_offset=found.byte_offset)
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        if isinstance(item, dict):
            yield number, item


def _place(
    host: Package, ref: str, number: int, record: dict[str, Any], placed: dict[str, dict[str, tuple[bytes, str]]]
) -> None:
    place = next((p for fields, p in PLACES if _fits(fields, record)), None)
    if place is None:
        return  # an index, a derived copy, or a record of a kind that no row is made from
    task_id = record.get("task_id")
    if not isinstance(task_id, str) or not task_id:
        host.note("no_task_id", ref, f"record {number} names no task; left out", source_pos=number)
        return
    kind = record.get("attempt_kind") or _last(record.get("attempt_id"), task_id)
    if "{kind}" in place and not kind:
        host.note("no_attempt_id", ref, f"record {number} names no attempt; left out", source_pos=number)
        return
    target = place.format(kind=str(kind).replace("/", "_"))
    own = placed[task_id]
    body = orjson.dumps(record)
    if target.endswith(".jsonl"):
        before = own.get(target)
        own[target] = (before[0] + b"\n" + body if before else body, ref)
    elif target in own and own[target][0] != body:
        host.note(
            "duplicate_record",
            ref,
            f"record {number} is a second {target} of task {task_id}; the first counts",
            source_pos=number,
        )
    else:
        own.setdefault(target, (body, ref))


def _fits(fields: frozenset[str], record: Mapping[str, Any]) -> bool:
    return fields <= record.keys()


def _last(attempt_id: Any, task_id: str) -> str | None:
    """The attempt kind at the end of an attempt id such as `<task>_revised`."""
    if not isinstance(attempt_id, str) or not attempt_id:
        return None
    return attempt_id.removeprefix(task_id).strip("_-/. ") or attempt_id
