"""The held-out guard: three levels, all ancestors, both partitions, and two reports of which one names nothing."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.decontaminate.heldout import held_out
from expcomp.errors import SourceError, UsageError
from expcomp.io.canon import digest
from expcomp.tables.models import validate
from expcomp.tables.training import EXPOSURE
from expcomp.training.bundle import write_bundle, write_inventory
from expcomp.training.dataset import TrainingDataset, read_dataset
from expcomp.training.documents import DocumentError, TamperedError, document_digest, to_wire
from expcomp.training.exposure import ExposureIndex, read_inventories
from expcomp.training.guard import Exposure, ExposureError, GuardPolicy, guard, row_texts
from expcomp.training.lineage import lineage_datasets
from tests.training.made import ancestry, document, identity, profile, row, sha, write

SECRET = "Given the ledger of the harbour office for last May find every berth that was billed twice and name the ship"


def heldout(*tasks: tuple[str, str, str], **texts: str) -> pl.DataFrame:
    rows = [{"benchmark": b, "task": t, "content_digest": c, **texts} for b, t, c in tasks]
    return held_out(pl.DataFrame(rows))


def index(*names: str, **datasets: Any) -> ExposureIndex:
    return ExposureIndex.of_profile(profile(ancestry(*names, datasets=datasets)))


def counts(found: Exposure) -> tuple[int, int | None, int | None, str]:
    report = found.report
    return report.found.content, report.found.name, report.found.near, report.verdict


def test_nothing_is_found_of_other_tasks() -> None:
    found = guard(index("one"), heldout(("bench", "two", sha("two"))))
    assert counts(found) == (0, 0, None, "clear")
    found.refuse()


def test_an_equal_content_is_found_under_any_name() -> None:
    found = guard(index("one"), heldout(("elsewhere", "renamed", sha("one"))), level="exact")
    assert counts(found) == (1, None, None, "refused")
    with pytest.raises(ExposureError):
        found.refuse()


def test_an_equal_name_is_found_with_any_content_unless_only_contents_count() -> None:
    held = heldout(("bench", "one", sha("rendered anew")))
    assert counts(guard(index("one"), held, level="exact")) == (0, None, None, "clear")
    assert counts(guard(index("one"), held, level="name")) == (0, 1, None, "refused")
    lowered = guard(index("one"), held, policy=GuardPolicy(name="warning"))
    assert counts(lowered) == (0, 1, None, "warning")
    lowered.refuse()


def test_content_and_name_of_one_task_are_one_hit() -> None:
    found = guard(index("one"), heldout(("bench", "one", sha("one"))))
    assert found.hits["kind"].to_list() == ["content"]


@pytest.mark.parametrize("depth", [0, 1, 8, 10])
def test_every_ancestor_counts(depth: int) -> None:
    names = [f"run {n}" for n in range(9)]
    names = names if depth < 9 else [f"run {n}" for n in range(depth + 1)]
    lineage = ancestry(*names)
    store = {document_digest(r): r for r in _all(names)}
    seen = ExposureIndex.of_profile(profile(lineage), store=store)
    found = guard(seen, heldout(("x", "y", sha(names[-1 - depth]))))
    assert found.hits["depth"].to_list() == [depth]
    assert found.hits["receipt_digest"].to_list() == [document_digest(_all(names)[-1 - depth])]
    assert found.report.receipts == len(names)


def _all(names: list[str]) -> list[Any]:
    return [ancestry(*names[: n + 1]).receipt for n in range(len(names))]


def test_an_ancestor_that_is_only_named_has_to_be_there() -> None:
    with pytest.raises(DocumentError, match=r"metadata\.training\.older\[0\].*receipt_missing"):
        ExposureIndex.of_profile(profile(ancestry(*(f"run {n}" for n in range(11)))))


def test_a_profile_without_training_saw_nothing() -> None:
    found = guard(ExposureIndex.of_profile(profile()), heldout(("bench", "one", sha("one"))))
    assert (found.report.receipts, found.report.tasks_seen, found.report.verdict) == (0, 0, "clear")


def test_the_public_report_names_no_task() -> None:
    found = guard(index("one"), heldout(("bench", "one", sha("one"))))
    with pytest.raises(ExposureError) as caught:
        found.refuse()
    for text in (json.dumps(to_wire(found.report)), str(caught.value)):
        assert sha("one") not in text
        assert "bench" not in text
        assert '"one"' not in text


def test_the_private_report_is_for_its_owner(tmp_path: Path) -> None:
    found = guard(index("one"), heldout(("bench", "one", sha("one"))))
    validate("exposure_hits", found.hits)
    found.write_private(tmp_path / "hits.parquet")
    assert stat.S_IMODE((tmp_path / "hits.parquet").stat().st_mode) == 0o600
    assert pl.read_parquet(tmp_path / "hits.parquet").equals(found.hits)


# Datasets behind receipts.


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def datasets(folder: Path) -> TrainingDataset:
    rows = [
        row("t0"),
        row("t1") | {"data": {"messages": [said("user", f"Please. {SECRET.upper()}!"), said("assistant", "No.")]}},
        row("v1", "validation"),
    ]  # fmt: skip
    return read_dataset(write(folder / "rows.json", document(rows)))


def test_both_partitions_count(tmp_path: Path) -> None:
    dataset = datasets(tmp_path)
    write_bundle(dataset.rows, dataset.kind, tmp_path / "b")
    file = write_inventory(dataset.rows, tmp_path / "tasks.parquet")
    wire = to_wire(read_dataset(tmp_path / "b").identity())
    listed = identity(*(("bench", t, sha(t)) for t in ("t0", "t1", "v1")), digest=wire["digest"])
    by_file = type(listed)(digest=listed.digest, task_set_digest=listed.task_set_digest, task_count=3, inventory=file)
    inventories = read_inventories([tmp_path / "b" / "inventory.parquet"])
    for known, partition in ((listed, None), (by_file, "validation")):
        seen = ExposureIndex.of_profile(profile(ancestry("one", datasets={"one": known})), inventories=inventories)
        found = guard(seen, heldout(("bench", "v1", sha("v1"))))
        assert found.hits["partition"].to_list() == [partition]
    with pytest.raises(DocumentError, match=r"receipt, dataset\.inventory: inventory_missing"):
        ExposureIndex.of_profile(profile(ancestry("one", datasets={"one": by_file})))


def test_an_inventory_with_other_tasks_is_refused_by_name(tmp_path: Path) -> None:
    dataset = datasets(tmp_path)
    file = write_inventory(dataset.rows.head(2), tmp_path / "tasks.parquet")
    wrong = type(identity())(
        digest=dataset.digest, task_set_digest=dataset.identity().task_set_digest, task_count=3, inventory=file
    )
    lineage = ancestry("old", "new", datasets={"old": wrong})
    with pytest.raises(TamperedError, match=r"ancestors\[0\], dataset\.taskSetDigest"):
        ExposureIndex.of_profile(profile(lineage), inventories=read_inventories([tmp_path / "tasks.parquet"]))
    (tmp_path / "other.parquet").write_bytes(b"x")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "rows.parquet")
    for name in ("other.parquet", "rows.parquet"):
        with pytest.raises(SourceError, match="no inventory"):
            read_inventories([tmp_path / name])


def test_a_text_in_a_row_is_found_by_its_words(tmp_path: Path) -> None:
    dataset = datasets(tmp_path)
    lineage = profile(ancestry("one", datasets={"one": dataset.identity()}))
    found_datasets, digests = lineage_datasets(lineage, [tmp_path / "rows.json"])
    held = heldout(("other", "a", sha("a")), prompt=SECRET)
    found = guard(
        ExposureIndex.of_profile(lineage), held, level="near", datasets=found_datasets, dataset_digests=digests
    )
    assert counts(found) == (0, 0, 1, "refused")
    validate("exposure_hits", found.hits)
    hit = found.hits.select("row", "task", "field", "coverage", "partition", "heldout_task").row(0)
    assert hit == (1, "t1", "prompt", 1.0, "train", "a")
    assert guard(ExposureIndex.of_profile(lineage), held).report.verdict == "clear"


def test_datasets_are_those_of_the_receipts(tmp_path: Path) -> None:
    dataset = datasets(tmp_path)
    write(tmp_path / "other.json", document([row("x")]))
    lineage = profile(ancestry("one", datasets={"one": dataset.identity()}))
    with pytest.raises(UsageError, match=r"other\.json: no receipt"):
        lineage_datasets(lineage, [tmp_path / "rows.json", tmp_path / "other.json"])
    more = profile(ancestry("zero", "one", datasets={"one": dataset.identity()}))
    with pytest.raises(DocumentError, match=r"ancestors\[0\].*dataset_missing"):
        lineage_datasets(more, [tmp_path / "rows.json"])


def test_keys_of_a_payload_are_no_texts() -> None:
    data = json.dumps({"role": 'say "hi"\n', "n": ["é😀", 1, None, {"a": ""}]})
    assert row_texts(pl.DataFrame({"data": [data, "{}"]}))["text"].to_list() == ['say "hi"\n', "é😀", ""]


JSON_TEXTS = st.recursive(
    st.text() | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [t for v in inner for t in _texts(v)]


@settings(max_examples=150)
@given(JSON_TEXTS)
def test_all_texts_of_a_payload_are_looked_at(value: Any) -> None:
    for data in (
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, separators=(",", ":"), ensure_ascii=False),
    ):
        frame = row_texts(pl.DataFrame({"data": [data]}))
        assert frame["text"].to_list() == _texts(value)


# The index as a file.


def test_an_index_is_one_file_with_its_digest(tmp_path: Path) -> None:
    seen = index("one", "two")
    validate("exposure", seen.frame)
    columns = {n: seen.frame[n].to_list() for n in EXPOSURE.columns}
    assert seen.digest == digest(columns)
    seen.write(tmp_path / "index.parquet")
    again = ExposureIndex.read(tmp_path / "index.parquet")
    assert again.frame.equals(seen.frame)


def test_a_tampered_index_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "index.parquet"
    index("one", "two").write(path)
    metadata = pl.read_parquet_metadata(path)
    kept = {k: v for k, v in metadata.items() if k.startswith("expcomp")}
    pl.read_parquet(path).head(1).write_parquet(path, metadata=kept)
    with pytest.raises(TamperedError, match=r"index\.parquet.*digest_mismatch"):
        ExposureIndex.read(path)
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(SourceError, match="no index"):
        ExposureIndex.read(path)
    path.write_bytes(b"x")
    with pytest.raises(SourceError, match="no index"):
        ExposureIndex.read(path)


NAMES = st.sampled_from(["a", "b", "c", "d__1"])


@settings(max_examples=40)
@given(
    st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=5),
    st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4, unique=True),
)
def test_the_guard_is_the_join_of_contents_and_names(seen: list[tuple[str, str]], held: list[tuple[str, str]]) -> None:
    """Names and contents are drawn apart, so that they agree and differ in all ways."""
    made = identity(*{("bench", t, sha(c)) for t, c in seen})
    found = guard(index("one", one=made), heldout(*(("bench", t, sha(c)) for t, c in held)))
    contents, names = {c for _, c in seen}, {t for t, _ in seen}
    assert found.report.found.content == sum(c in contents for _, c in held)
    assert found.report.heldout_found == sum(c in contents or t in names for t, c in held)


INVISIBLE = {"zero width": "\u200b", "soft hyphen": "\u00ad", "joiner": "\u2060"}


@pytest.mark.parametrize("character", INVISIBLE.values(), ids=INVISIBLE)
def test_invisible_characters_hide_no_text(tmp_path: Path, character: str) -> None:
    """A page that was copied may have them inside every word."""
    assert _found_near(tmp_path, character.join(SECRET)) == 1


BERTHS = "Найди в журнале портовой конторы все причалы за которые заплатили дважды и назови корабль который заплатил"


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("secret", [SECRET, BERTHS], ids=["ascii", "other"])
def test_a_text_in_json_in_a_text_is_found(tmp_path: Path, secret: str, levels: int) -> None:
    """Arguments of calls are written so, with all that is not ASCII escaped."""
    text = secret.replace(" ", "\n")
    for _ in range(levels):
        text = json.dumps({"query": text})
    assert _found_near(tmp_path, text, secret) == 1


@pytest.mark.parametrize("text", ['{"\\ud83d \\x', '"\\', "[\\u12", "{" + '"a\\"' * 50, '"\\ud800"'])
def test_what_only_looks_like_json_stays_a_text(text: str) -> None:
    """It is looked at as it is."""
    made = row_texts(pl.DataFrame({"data": [json.dumps({"text": text})]}))
    assert made["text"][0] == text


def _found_near(folder: Path, text: str, secret: str = SECRET) -> int:
    made = row("other")
    made["data"]["messages"][0]["content"] = text
    dataset = read_dataset(write(folder / "rows.json", document([made])))
    now = dataset.tasks.with_columns(receipt_digest=pl.lit(dataset.digest), depth=pl.lit(0, pl.Int64))
    seen = ExposureIndex(now.select(EXPOSURE.columns.keys()).cast(EXPOSURE.schema))
    held = heldout(("x", "y", sha("else")), prompt=secret)
    found = guard(seen, held, level="near", datasets=[dataset], dataset_digests={dataset.digest: dataset.digest})
    return found.report.errors
