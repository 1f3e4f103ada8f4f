"""Recall and precision of redaction by kind, beside a public detector, and on real messages. Prints Markdown; asserts no time.

Run with `python -m pytest tests/benchmarks/test_secrets.py -m benchmark -s`. The public detector is `detect-secrets` (`pip install
detect-secrets`); EXPCOMP_REFERENCE adds the real messages.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import polars as pl
import pytest

from expcomp.evidence.redact import redact, redact_rows
from expcomp.sources.load import read_frames
from tests.benchmarks.page import Page
from tests.secrets.corpus import lookalikes, secrets
from tests.secrets.measuring import Score, detect_secrets, ours, score

pytestmark = pytest.mark.benchmark

REAL = {"secret:password": 2}
"""Hits in the messages of the reference traces, looked at one by one: a database password set in code, shown twice."""


def table(rows: list[tuple[object, ...]]) -> str:
    """A Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def share(part: int, whole: int) -> str:
    """A proportion with three digits; nothing of nothing is nothing."""
    return f"{part / whole:.3f}" if whole else "-"


def both(text: str, cases: int, mine: Score, peer: Score) -> tuple[object, ...]:
    """A line on one kind. Precision: found cases over these and the look-alikes that the rules of the kind hit."""
    (_, yes, wrong), (_, seen, mistaken) = mine.kinds[text], peer.kinds[text]
    return (text, cases, share(yes, cases), share(seen, cases), share(yes, yes + wrong), share(seen, seen + mistaken))


def test_recall_and_precision_by_kind(page: Page) -> None:
    pytest.importorskip("detect_secrets")
    seconds, scores = [], []
    for detector in (ours, detect_secrets):
        start = time.process_time()
        scores.append(score(detector, secrets(), lookalikes()))
        seconds.append(time.process_time() - start)
    mine, peer = scores
    head = ("kind", "cases", "recall", "recall, detect-secrets", "precision", "precision, detect-secrets")
    rows = [both(kind, cases, mine, peer) for kind, (cases, _, _) in mine.kinds.items()]
    total = (
        "all",
        len(secrets()),
        f"{mine.recall:.4f}",
        f"{peer.recall:.4f}",
        f"{mine.precision:.4f}",
        f"{peer.precision:.4f}",
    )
    kinds = table([head, *rows, total])
    print("\n" + kinds)
    page.note(f"### Secrets by kind\n\n{kinds}")
    groups = [(g, n, wrong, peer.false[g][1]) for g, (n, wrong) in mine.false.items()]
    alike = table([("look-alikes", "texts", "hit", "hit, detect-secrets"), *groups])
    print("\n" + alike)
    page.note(f"### Texts that only look like secrets\n\n{alike}")
    size = sum(len(c.text.encode()) for c in (*secrets(), *lookalikes())) / 1e6
    print(f"\n{size:.2f} MB; CPU seconds: ours {seconds[0]:.2f}, detect-secrets {seconds[1]:.2f}")
    page.add("secrets", f"{size:.2f} MB of cases", seconds[0], unit="s CPU", peer=("detect-secrets", seconds[1]))
    assert mine.recall >= 0.99
    assert mine.recall > peer.recall
    assert mine.precision >= peer.precision


@pytest.mark.reference
def test_false_hits_in_real_messages(page: Page) -> None:
    reference = os.environ.get("EXPCOMP_REFERENCE")
    if reference is None:
        pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces")
    messages = read_frames([Path(reference) / "traces"])["messages"]
    _, hits = redact_rows(messages, messages.columns, paths=())
    seen: dict[str, set[int]] = {}
    for hit in hits:
        seen.setdefault(hit.rule, set()).update(hit.rows)
    rows = [(rule, len(at), REAL.get(rule, 0), len(at) - REAL.get(rule, 0)) for rule, at in sorted(seen.items())]
    print("\n" + table([("rule", "messages hit", "real secrets", "false"), *rows]))
    false = sum(row[3] for row in rows)
    found = f"{messages.height:,} real messages, {false} false hits"
    print(f"\n{found}")
    page.note(f"### Real messages\n\n{found}; {sum(REAL.values())} hold a real secret.")
    assert all(len(seen.get(rule, ())) >= real for rule, real in REAL.items())
    assert false * 10_000 <= messages.height
    # Every text once: redaction looks at equal texts once, so repeating them would flatter it.
    text = pl.concat([messages["content"].drop_nulls().unique(maintain_order=True) + f" {n}" for n in range(8)])
    start = time.process_time()
    redact(pl.DataFrame({"t": text}), ["t"])
    spent, size = time.process_time() - start, float(text.str.len_bytes().sum()) / 1e6
    page.add("secrets, real messages", f"{size:.0f} MB", spent, unit="s CPU")
    print(f"{size / spent:.0f} MB of messages a CPU second")
