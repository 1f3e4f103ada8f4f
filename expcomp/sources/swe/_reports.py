"""One file of SWE-bench verdicts or predictions to rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes
from expcomp.sources._chat import Transcript
from expcomp.sources._contract import attempt_id
from expcomp.sources._emit import add_attempt, add_grade, verdict, voided
from expcomp.sources._json import dump_json
from expcomp.sources._units import add_evidence
from expcomp.sources._values import Score, count, items, obj, redact, text
from expcomp.sources.swe._common import add_patch, instance_task, stem

if TYPE_CHECKING:
    from pathlib import Path

    from expcomp.sources._contract import Batch, ReadOptions, Unit

INSTANCE_KEYS = frozenset({"tests_status", "patch_successfully_applied", "patch_exists", "patch_is_None"})
PREDICTION_KEYS = frozenset({"instance_id", "model_patch"})
RUN_KEYS = frozenset({"resolved_ids", "unresolved_ids", "submitted_ids", "completed_ids"})
_COUNT_KEYS = frozenset({"total_instances", "submitted_instances", "resolved_instances"})
_CLASSES = {
    "resolved": "resolved_ids",
    "unresolved": "unresolved_ids",
    "empty_patch": "empty_patch_ids",
    "error": "error_ids",
    "failed": "failed_ids",
    "pending": "pending_ids",
}
_PASSED = {"resolved": True, "unresolved": False, "empty_patch": False}
_COUNTED = ("submitted", "completed", "resolved", "unresolved", "empty_patch", "error", "pending", "failed")
_HOSTED = re.compile(r"(?P<subset>swe-bench(?:[_-][a-z]+)?)__(?P<split>[a-z]+)__(?P<run>.+)", re.IGNORECASE)
_PLAIN_NAMES = frozenset({"report", "results", "preds", "all_preds", "predictions", "patches"})
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS", "FAIL_TO_FAIL", "PASS_TO_FAIL")
_LOGS = {"run_instance.log": "log", "test_output.txt": "test_report", "eval.sh": "file"}
_PREDICTED = ("instance_id", "model_name_or_path", "model_patch")
_JUDGED = ("resolved", "tests_status")
_EVALUATION = "run_evaluation"


def is_run_report(keys: AbstractSet[str]) -> bool:
    """Whether an object with these keys is the report of a run; the lists of a large one lie beyond the first look."""
    return ("resolved_ids" in keys and len(keys & RUN_KEYS) > 1) or keys >= _COUNT_KEYS


@dataclass(slots=True)
class Report:
    """Rows of one file.

    Attributes:
        batch: Where grades, artifacts and diagnostics go.
        unit: File, or folder of an instance.
        path: The file.
        uri: The file, relative to the load root.
        digest: Of the file.
        options: Status words and limits.
        attempts: Attempts found, which are in the batch too.
        tasks: Their tasks.
    """

    batch: Batch
    unit: Unit
    path: Path
    uri: str
    digest: str
    options: ReadOptions
    attempts: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    _seen: Counter[str] = field(default_factory=Counter)

    def document(self, document: dict[str, Any]) -> None:
        """Read an object: the report of a run, or instances by their ids."""
        if is_run_report(document.keys()):
            self._run(document)
            return
        judged: list[tuple[int, str, dict[str, Any]]] = []
        predicted: list[tuple[int, str | None, Any]] = []
        for pos, (instance, value) in enumerate(document.items()):
            entry = obj(value)
            if "resolved" in entry or entry.keys() & INSTANCE_KEYS:
                judged.append((pos, instance, entry))
            elif "model_patch" in entry:
                predicted.append((pos, instance, entry))
            else:
                found = f"keys {', '.join(sorted(entry)[:5])}" if entry else type(value).__name__
                self._tell(
                    "bad_entry", f"entry {instance[:80]!r} holds {found}, expected a verdict or a patch; left out", pos
                )
        self._instances(judged)
        self.predictions(predicted)

    def predictions(self, rows: list[tuple[int, str | None, Any]]) -> None:
        """Read predictions: position, the id they stand under if there is one, and the record."""
        where = self._from_names(None)
        for pos, key, row in rows:
            entry = obj(row)
            instance = text(entry.get("instance_id")) or key
            if not instance or "model_patch" not in entry:
                detail = f"record {pos} has no instance_id or no model_patch; left out"
                self._tell("bad_prediction", detail, pos, "error")
                continue
            model = text(entry.get("model_name_or_path"))
            ident = self._attempt(
                pos, instance, where["run"], model, None, "predictions", {}, None, _rest(entry, *_PREDICTED)
            )
            patch = entry["model_patch"]
            if patch is not None and not isinstance(patch, str):
                self._tell("bad_patch", f"model_patch of record {pos} is {type(patch).__name__}; no patch", pos)
            add_patch(self.batch, ident, "model_patch", text(patch))

    # -- reports -------------------------------------------------------------------------------------------------------

    def _run(self, document: dict[str, Any]) -> None:
        where = self._from_names(document)
        lists = {
            name: self._ids(document, f"{name}_ids") for name in (*_CLASSES, "submitted", "completed", "incomplete")
        }
        for name in _COUNTED:
            said = count(document.get(f"{name}_instances"))
            if said is not None and f"{name}_ids" in document and said != len(set(lists[name])):
                detail = f"{name}_instances is {said}, {name}_ids has {len(set(lists[name]))}; the list is taken"
                self._tell("header_differs", detail, field=f"{name}_instances")
        # What was never submitted is no attempt; a report without that list tells of what it has classes for.
        order = lists["submitted"] or [i for name in (*_CLASSES, "completed") for i in lists[name]]
        listed = dict.fromkeys(order)
        for name in _CLASSES:
            extra = [i for i in lists[name] if i not in listed]
            if extra:
                detail = f"{len(extra)} of {name}_ids are not in submitted_ids ({extra[0][:80]}); read all the same"
                self._tell("header_differs", detail, field="submitted_ids")
                listed |= dict.fromkeys(extra)
        words: dict[str, list[str]] = {}
        for name in _CLASSES:
            for instance in set(lists[name]):
                words.setdefault(instance, []).append(name)
        version = f"run_report/{document.get('schema_version')}" if "schema_version" in document else "run_report"
        for pos, instance in enumerate(listed):
            score = self._class(instance, words.get(instance, []), pos)
            self._attempt(pos, instance, where["run"], where["model"], score, version, where, None, None)

    def _class(self, instance: str, words: list[str], pos: int) -> Score:
        """The verdict of a run report. An empty patch resolves nothing; an evaluation that broke says nothing of the patch (R1)."""
        judged = [w for w in words if w in _PASSED]
        if len(judged) == 1 and not set(words) & {"error", "failed"}:
            return replace(verdict(passed=_PASSED[judged[0]]), label=judged[0])
        if len(judged) > 1:
            self._tell("verdict_conflict", f"{instance[:80]} is in {' and '.join(judged)}; no verdict", pos)
            return replace(voided(verdict(passed=None), "verdict_conflict"), label="+".join(judged))
        other = next((w for w in ("error", "failed", "pending") if w in words), None)
        issue = f"evaluation_{other}" if other else "not_evaluated"
        detail = f"{instance[:80]} is submitted and has no verdict ({other or 'in no list'}); not graded"
        self._tell(issue, detail, pos, "info")
        return replace(voided(verdict(passed=None), issue), label=other)

    def _instances(self, judged: list[tuple[int, str, dict[str, Any]]]) -> None:
        where = self._from_path()
        for pos, instance, entry in judged:
            resolved = entry.get("resolved")
            empty = entry.get("patch_is_None") is True or entry.get("patch_exists") is False
            if isinstance(resolved, bool):
                word = "resolved" if resolved else "empty_patch" if empty else "unresolved"
                score = replace(verdict(passed=resolved), label=word)
            else:
                detail = f"resolved of {instance[:80]} is {str(resolved)[:40]!r}, expected true or false; not graded"
                self._tell("bad_verdict", detail, pos)
                score = verdict(passed=None)
            ident = self._attempt(
                pos, instance, where["run"], where["model"], score, "instance_report", {}, _rest(entry, *_JUDGED), None
            )
            self._tests(ident, obj(entry.get("tests_status")))
            if len(judged) == 1:
                self._beside(ident)

    def _tests(self, ident: str, status: dict[str, Any]) -> None:
        """One grade for each list of tests: the share that came out as it should, in words as a count."""
        for name in (*_LISTS, *(k for k in status if k not in _LISTS)):
            tests = obj(status.get(name))
            good, bad = items(tests.get("success")), items(tests.get("failure"))
            total = len(good) + len(bad)
            if not total:
                continue
            share = len(good) / total
            add_grade(
                self.batch,
                ident,
                name,
                Score(share, (0.0, 1.0), share, None, valid=True, issue=None, label=f"{len(good)}/{total}"),
                kind="test",
                primary=False,
                grader="swebench",
                source_ref=self.path.name,
                refs=[self.path.name],
                metadata=dump_json({"success": good, "failure": bad}),
            )

    def _beside(self, ident: str) -> None:
        """The patch that was judged, and names of the logs."""
        folder = self.path.parent
        patch = folder / "patch.diff"
        if patch.is_file() and not patch.is_symlink():
            try:
                data, raw = read_bytes(patch, self.options.max_file_bytes)
            except UnreadableError as error:
                self._tell(error.code, f"patch.diff: {error.detail}")
            else:
                inside = self.unit.path != self.path
                if inside:
                    digest = PREFIX + sha256_hex(raw)
                    add_evidence(self.batch, self.unit.package_id, patch.name, "artifact", size=len(raw), digest=digest)
                uri = patch.name if inside else None
                add_patch(self.batch, ident, patch.name, data.decode("utf-8", "replace"), uri, blank=True)
        for name, kind in _LOGS.items():
            path = folder / name
            if path.is_file() and not path.is_symlink():
                mime = "text/x-shellscript" if name.endswith(".sh") else "text/plain"
                size = path.stat().st_size
                self.batch.add("artifacts", attempt_id=ident, kind=kind, name=name, uri=name, mime=mime, bytes=size)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _attempt(
        self,
        pos: int,
        instance: str,
        run: str | None,
        model: str | None,
        score: Score | None,
        version: str,
        where: dict[str, str | None],
        of_grade: dict[str, Any] | None,
        rest: dict[str, Any] | None,
    ) -> str:
        """Add an attempt without transcript, and its verdict if there is one; a file may predict an instance several times."""
        again = self._seen[instance]
        self._seen[instance] += 1
        ident = attempt_id("swe_bench_report", self.unit.package_id, instance, *([again] if again else []))
        task = instance_task(instance, split=where.get("split"))
        columns: dict[str, Any] = {} if model is not None else {"arm": run}
        row = add_attempt(
            self.batch,
            self.unit,
            ident,
            Transcript(),
            score=score,
            native_attempt_id=instance,
            task_id=task["task_id"],
            run_id=run,
            model=model,
            grade_kind="verifier" if score is not None else None,
            grade_ref=self.path.name if score is not None else None,
            source_version=version,
            source_uri=self.uri,
            source_digest=self.digest,
            source_pos=pos,
            metadata=dump_json(rest) if rest else None,
            **columns,
        )
        if score is not None:
            add_grade(
                self.batch,
                ident,
                "resolved",
                score,
                kind="verifier",
                primary=True,
                grader="swebench",
                source_ref=self.path.name,
                refs=[self.path.name],
                metadata=dump_json(of_grade) if of_grade else None,
            )
        self.attempts.append(row)
        self.tasks.append(task)
        return ident

    def _ids(self, document: dict[str, Any], key: str) -> list[str]:
        raw = document.get(key, [])
        if raw is not None and not isinstance(raw, list):
            self._tell("bad_field", f"{key} is {type(raw).__name__}, expected a list; read as empty", field=key)
        found = [i for i in items(raw) if isinstance(i, str) and i]
        if len(found) < len(items(raw)):
            detail = f"{len(items(raw)) - len(found)} entries of {key} are no ids; left out"
            self._tell("bad_entry", detail, field=key)
        return found

    def _from_names(self, document: dict[str, Any] | None) -> dict[str, str | None]:
        """Run, model and split by the name of the file: `<model>.<run>`, `<subset>__<split>__<run>`, `<run>.preds`, or the folder's."""
        name = stem(self.path)
        hosted = _HOSTED.fullmatch(name)
        if hosted is not None:
            return {"run": hosted["run"], "model": None, "split": hosted["split"]}
        above = self.path.parent
        if document is None and above.name == name:
            return {"run": above.parent.name or None, "model": None, "split": None}
        if name.lower() in _PLAIN_NAMES or self.path.name.endswith(".pred"):
            return {"run": above.name or None, "model": None, "split": None}
        model, dot, run = name.rpartition(".")
        if document is None or not dot:
            return {"run": name, "model": None, "split": None}
        return {"run": run, "model": _model(model), "split": None}

    def _from_path(self) -> dict[str, str | None]:
        """Run and model by the folders `run_evaluation/<run>/<model>/<instance>`, else the run by the folder above."""
        above = [p.name for p in self.path.parents][:4]
        if len(above) == 4 and above[3] == _EVALUATION:
            return {"run": above[2], "model": _model(above[1])}
        names = [n for n in above[1:3] if n and n != "logs"]
        return {"run": names[0] if names else None, "model": None}

    def _tell(
        self, code: str, detail: str, pos: int | None = None, severity: str = "warning", field: str | None = None
    ) -> None:
        self.batch.diagnose(
            code,
            detail,
            package_id=self.unit.package_id,
            source_uri=self.uri,
            source_pos=pos,
            severity=severity,
            field=field,
        )


def _model(name: str) -> str | None:
    """A model name that a file name holds with `__` for the slash; names of runs hold it several times and stay."""
    return (name.replace("__", "/") if name.count("__") == 1 else name) or None


def _rest(entry: dict[str, Any], *known: str) -> dict[str, Any]:
    rest: dict[str, Any] = redact({k: v for k, v in entry.items() if k not in known})
    return rest
