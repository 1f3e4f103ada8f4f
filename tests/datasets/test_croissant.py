"""Structure of the Croissant document; that mlcroissant reads it is checked with the client programs."""

from __future__ import annotations

import json
from typing import Any

from expcomp.datasets.croissant import croissant
from expcomp.tables.targets import TARGETS
from tests.datasets.test_card import config, manifest


def document(*targets: str, **more: Any) -> dict[str, Any]:
    return croissant(manifest(*(config(t) for t in targets)), **more)


def test_files_have_relative_paths_digests_and_formats() -> None:
    made = document("trl-sft")
    files = {f["@id"]: f for f in made["distribution"] if f["@type"] == "cr:FileObject"}
    assert files["data/sft/train-00000-of-00001.parquet"] == {
        "@type": "cr:FileObject",
        "@id": "data/sft/train-00000-of-00001.parquet",
        "name": "data/sft/train-00000-of-00001.parquet",
        "contentUrl": "data/sft/train-00000-of-00001.parquet",
        "contentSize": "10 B",
        "encodingFormat": "application/x-parquet",
        "sha256": "0" * 64,
    }
    assert {f["encodingFormat"] for f in files.values()} == {"application/x-parquet", "application/jsonlines"}


def test_one_record_set_a_config_without_chats() -> None:
    made = document(*TARGETS)
    assert [r["@id"] for r in made["recordSet"]] == [t.config for t in TARGETS.values()]
    fields = {f["@id"]: f for r in made["recordSet"] for f in r["field"]}
    assert "sft/messages" not in fields
    assert "verl-rl/reward_model" not in fields
    assert fields["sft/task_id"]["dataType"] == "sc:Text"
    assert fields["reward/margin"]["dataType"] == "sc:Float"
    assert fields["kto/label"]["dataType"] == "sc:Boolean"
    assert fields["prm/labels"]["isArray"] is True


def test_every_reference_exists_and_ids_are_unique() -> None:
    made = document(*TARGETS)
    ids = [d["@id"] for d in made["distribution"]]
    assert len(ids) == len(set(ids))
    used = {f["source"]["fileSet"]["@id"] for r in made["recordSet"] for f in r["field"]}
    assert used <= set(ids)


def test_the_date_is_the_callers() -> None:
    assert "datePublished" not in document("trl-sft")
    assert document("trl-sft", date="2026-01-02")["datePublished"] == "2026-01-02"


def test_a_json_only_config_reads_its_json() -> None:
    made = document("nemo-rl")
    assert made["distribution"][-1]["includes"] == "data/nemo-rl/*.jsonl"


def test_a_config_without_rows_has_no_record_set() -> None:
    made = croissant(manifest(config("trl-sft") | {"files": []}))
    assert made["recordSet"] == made["distribution"] == []
    assert json.loads(json.dumps(made)) == made
