"""Decisions, pairs and sequences of the reference cases of the ledger, under the profile that reproduces the ancestor."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from expcomp.errors import ExpcompError
from expcomp.ledger.aggregate import Lane, aggregate
from expcomp.ledger.aggregate_document import aggregate_document
from expcomp.ledger.archive import Filter, archive
from expcomp.ledger.decide import decide, decision_documents, decision_of_nothing
from expcomp.ledger.document import ledger_document, read_ledger_document, reload, with_roles
from expcomp.ledger.documents import from_documents
from expcomp.ledger.drift import drift, history_runs
from expcomp.ledger.entries import entries
from expcomp.ledger.markdown import markdown
from expcomp.ledger.merge import merge
from expcomp.ledger.pack import read_pack
from expcomp.ledger.pairs import review_documents, review_pairs
from expcomp.ledger.upsert import upsert
from expcomp.ledger.written import score_of_record, with_whole_scores
from tests.ledger.tables import parse_markdown

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference cases", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference data", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "ledger"
CASES = [json.loads(line) for line in (ROOT / "cases.jsonl").read_bytes().splitlines()]
NOW = "2026-01-01T00:00:00+00:00"
PACK = read_pack("loopx")
TEXTS = ("current_evidence_rule", "duplicate_case_rule", "catch_up_command_template", "source_of_truth", "update_rule")


def of_kind(kind):
    return [pytest.param(c, id=c["name"]) for c in CASES if c["kind"] == kind]


def told(value):
    """A document with our own sentences as the reference has them: a token that names the rule."""
    if isinstance(value, list):
        return [told(v) for v in value]
    if not isinstance(value, dict):
        return value
    rule = value.get("repair_class") or value.get("class")
    done = {k: told(v) for k, v in value.items()}
    if isinstance(value.get("next_action"), str):
        done["next_action"] = f"@text:{rule}"
    done |= {
        k: "@text:" + k.removesuffix("_template").replace("catch_up_command", "catch_up_command")
        for k in TEXTS
        if k in value
    }
    return done


def told_report(text):
    report = parse_markdown(text)
    for section in report["sections"]:
        if "Next Action" in section["columns"]:
            for row in section["rows"]:
                row[-1] = f"@text:{row[4].strip('`')}"
    return report


def derived(pairs):
    records, options = [list(x) for x in zip(*pairs, strict=True)] if pairs else ([], [])
    return with_whole_scores(entries(records, PACK, options, recorded_at=NOW), [score_of_record(r) for r in records])


@cache
def at_once():
    """The runs of all cases, derived together: what a run becomes does not depend on its company, and together costs a hundredth."""
    steps = [s for c in CASES if c["kind"] == "sequence" for s in c["steps"]]
    sources = [x for s in steps for x in (s.get("sources") or []) if isinstance(x, dict)]
    given = [
        *((c["input"], c["options"]) for c in CASES if c["kind"] == "entry"),
        *((s["input"], s["options"]) for s in steps if s["op"] == "upsert"),
        *((r["input"], r["options"]) for x in sources if "runs" in x for r in x["runs"]),
    ]
    return {id(record): at for at, (record, _) in enumerate(given)}, derived(given)


def entries_of(pairs):
    """Runs of (record, options)."""
    places, frame = at_once()
    return frame[[places[id(record)] for record, _ in pairs]]


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "entry"][::20], ids=lambda c: c["name"])
def test_a_run_alone_is_what_it_is_among_all(case):
    assert derived([(case["input"], case["options"])]).equals(entries_of([(case["input"], case["options"])]))


class Sequence:
    """A ledger that is read and written again around every step, as a file is."""

    def __init__(self):
        self.document = None

    def load(self):
        if self.document is None:
            return read_ledger_document({"schema_version": "benchmark_run_ledger_v0", "updated_at": NOW}, PACK)
        return read_ledger_document(self.document, PACK)

    def save(self, runs, loaded):
        self.document = ledger_document(
            runs, PACK, updated_at=NOW, benchmarks=loaded.benchmarks, header=loaded.header or None
        )

    def step(self, step):
        try:
            return getattr(self, step["op"])(step, step.get("args", {}))
        except ExpcompError:
            return {"error": "ValueError"}

    def decisions(self, runs, keys):
        found = decide(runs, PACK)
        all_ = dict(
            zip(found.select("filed_benchmark", "filed_case").iter_rows(), decision_documents(found, PACK), strict=True)
        )
        return [(k, all_[k]) for k in dict.fromkeys(keys)]

    def upsert(self, step, _args):
        new = entries_of([(step["input"], step["options"])])
        loaded = self.load()
        runs, report = upsert(loaded.runs, new, PACK)
        row = new.row(0, named=True)
        skipped = report.count("skipped") == 1
        out = {"run_id": row["run_id"], "skipped": skipped, "updated": not skipped, "decision": {}}
        if not skipped:
            self.save(runs, loaded)
            out["decision"] = self.decisions(runs, [(row["filed_benchmark"], row["filed_case"])])[0][1]
        return out

    def upsert_entries(self, step, _args):
        given = [e for e in step["entries"] if isinstance(e, dict)]
        new = with_roles(from_documents(given, profile="loopx"), PACK)
        loaded = self.load()
        runs, report = upsert(loaded.runs, new, PACK)
        keys = [
            k
            for k, a in zip(
                new.select("filed_benchmark", "filed_case").iter_rows(), report.actions["action"], strict=True
            )
            if a != "skipped"
        ]
        if report.accepted:
            self.save(runs, loaded)
        return {
            "ok": True,
            "dry_run": False,
            "ledger_path": "@path",
            "markdown_path": "@path",
            "input_entry_count": len(step["entries"]),
            "accepted_entry_count": report.accepted,
            "skipped_entry_count": len(step["entries"]) - report.accepted,
            "upserted_count": report.accepted,
            "updated": report.accepted > 0,
            "case_decisions": [
                {"benchmark_id": b, "case_id": c, "decision": d} for (b, c), d in self.decisions(runs, keys)
            ],
        }

    def put_ledger(self, step, _args):
        self.document = step["ledger"]
        return {"ok": True}

    def archive(self, _step, args):
        loaded = self.load()
        which = Filter(
            args["benchmark_id"],
            groups=tuple(args.get("run_group_contains", ())),
            cases=tuple(args.get("case_ids", ())),
            arms=tuple(args.get("arm_ids", ())),
            everything=args.get("archive_all_matching_benchmark", False),
            keep=tuple(args.get("keep_run_group_contains", ())),
        )
        runs, report = archive(
            loaded.runs, which, PACK, reason=args["reason"], at=NOW, batch_id=args.get("archive_batch_id")
        )
        if not args.get("dry_run"):
            self.save(runs, loaded)
        return report

    def merge(self, step, args):
        loaded = self.load()
        runs, report = merge(
            loaded.runs,
            [source_of(s) for s in step["sources"]],
            PACK,
            benchmarks=args.get("benchmark_ids", ()),
            groups=args.get("run_group_contains", ()),
            dry_run=args.get("dry_run", False),
        )
        if not args.get("dry_run"):
            self.save(runs, loaded)
        return report | {"ledger_path": "@path", "markdown_path": "@path"}

    def drift(self, step, args):
        history = history_runs(step["history"], PACK)
        return drift(self.load().runs, history, PACK, **({"ledger": args["ledger_path"]} if args else {}))

    def aggregate(self, _step, args):
        lane = Lane(
            args.get("target_lane_id", ""),
            tuple(args.get("target_run_group_contains", ())),
            tuple(args.get("target_current_run_group_contains", ())),
            tuple(args.get("target_backfill_run_group_contains", ())),
        )
        found = aggregate(
            self.load().runs,
            PACK,
            args["benchmark_id"],
            canonical=args.get("canonical_case_ids"),
            active_cases=args.get("active_case_ids", ()),
            lane=lane,
            drop_noncanonical=args.get("exclude_noncanonical_sanity_sources", True),
        )
        return aggregate_document(found, PACK)


def source_of(source):
    if source is None:
        return None
    if "runs" not in source:
        return read_ledger_document(source, PACK).runs
    runs, _ = upsert(
        from_documents([], profile="loopx"), entries_of([(r["input"], r["options"]) for r in source["runs"]]), PACK
    )
    return reload(runs, PACK)


@pytest.mark.parametrize("case", of_kind("sequence"))
def test_a_sequence_of_operations(case):
    ledger = Sequence()
    results = [told(ledger.step(s)) for s in case["steps"]]
    assert results == case["expected"]["steps"]
    if "error" in case["expected"]:
        with pytest.raises(ExpcompError):
            ledger.load()
        return
    final = ledger.load()
    document = ledger_document(final.runs, PACK, benchmarks=final.benchmarks)
    assert told(document["benchmarks"]) == case["expected"]["ledger"]
    assert told_report(markdown(final.runs, PACK, updated_at=final.updated_at)) == case["expected"]["markdown"]


@pytest.mark.parametrize("case", of_kind("pair"))
def test_a_pair_is_reviewed(case):
    given = case["input"]
    found = review_pairs(
        [given["baseline"]],
        [given["treatment"]],
        PACK,
        benchmarks=[given.get("benchmark_id")],
        max_rounds=[given.get("max_rounds")],
    )
    assert review_documents(found, PACK) == [case["expected"]]


@pytest.mark.parametrize("case", of_kind("decision"))
def test_a_decision(case):
    given = case["input"]
    if not given["runs"]:
        assert told(decision_of_nothing(PACK)) == case["expected"]
        return
    runs = with_roles(
        from_documents(given["runs"], cases=[given["case_id"]] * len(given["runs"]), profile="loopx"), PACK
    )
    assert told(decision_documents(decide(runs, PACK), PACK)) == [case["expected"]]


@pytest.mark.parametrize("case", of_kind("entry"))
def test_the_decision_of_a_single_run(case):
    runs = entries_of([(case["input"], case["options"])])
    kept, _ = upsert(runs.clear(), runs, PACK)
    assert told(decision_documents(decide(kept, PACK), PACK)) == (
        [case["expected_decision"]] if case["expected_decision"] else []
    )


REAL = json.loads((ROOT / "benchmark-run-ledger.json").read_bytes())


# What the release that wrote the real ledger did not derive yet: a load of the ancestor's adds or changes these, and nothing else.
NEWER = ("official_score_countable", "official_score_countability_reason", "countable_score", "arm_id")


def test_the_real_ledger_comes_back_equal():
    found = read_ledger_document(REAL, PACK, as_written=True)
    assert found.runs.height == 303
    written = ledger_document(
        found.runs, PACK, updated_at=found.updated_at, benchmarks=found.benchmarks, header=found.header
    )
    assert told(written) == told(REAL)


def test_the_real_ledger_derived_again_has_the_same_decisions_and_counts():
    found = read_ledger_document(REAL, PACK)
    written = told(ledger_document(found.runs, PACK, updated_at=found.updated_at, header=found.header))

    def older(node):
        if isinstance(node, dict):
            return {k: older(v) for k, v in node.items() if k not in NEWER}
        return [older(v) for v in node] if isinstance(node, list) else node

    assert older(written) == older(told(REAL))
    arms = {
        r["run_id"]: r["arm_id"] for b in REAL["benchmarks"].values() for c in b["cases"].values() for r in c["runs"]
    }
    changed = found.runs.filter(pl.col("arm_id") != pl.col("run_id").replace_strict(arms))
    assert changed.get_column("arm_rule").unique().to_list() == ["historical"]


def test_the_real_ledger_merged_into_nothing_and_twice():
    real = read_ledger_document(REAL, PACK).runs
    once, report = merge(real.clear(), [real], PACK)
    assert report["considered_run_count"] == 303
    twice, again = merge(once, [real], PACK)
    assert again["new_run_id_count"] == 0
    assert twice.height == once.height


def test_our_profile_merges_the_real_ledger_into_nothing_without_losing_a_run():
    real = read_ledger_document(REAL, PACK).runs
    ours = read_pack("default")
    once, report = merge(real.clear(), [real], ours)
    assert (once.height, report["new_run_id_count"]) == (303, 303)
    twice, again = merge(once, [real], ours)
    assert (twice.height, again["new_run_id_count"]) == (303, 0)


def test_the_report_of_the_real_ledger_counts_what_it_holds():
    runs = read_ledger_document(REAL, PACK).runs
    report = parse_markdown(markdown(runs, PACK, updated_at=REAL["updated_at"]))
    nodes = REAL["benchmarks"].values()
    assert report["facts"]["active_run_count"] == str(sum(n["active_run_count"] for n in nodes))
    assert report["facts"]["archived_run_count"] == str(sum(n["archived_run_count"] for n in nodes))
    assert report["facts"]["active_case_count"] == str(sum(n["active_case_count"] for n in nodes))
    shown = {
        (r[0].strip("`"), r[1].strip("`")): r[2].strip("`")
        for s in report["sections"]
        if s["heading"] == "Case Decisions"
        for r in s["rows"]
    }
    held = {
        (n["benchmark_id"], c["case_id"]): c["latest_decision"]["decision"]
        for n in nodes
        for c in n["cases"].values()
        if c["active_run_count"]
    }
    assert shown == held
    assert runs.filter(pl.col("archive_state").is_null()).height == int(report["facts"]["active_run_count"])
