"""What a detector finds in the corpus: ours, and a public one beside it."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from expcomp.evidence.redact import redact_rows
from tests.secrets.corpus import Case

Found = list[tuple[bool, set[str]]]
"""For each case: whether the secret is gone (or found), and the names of the rules that fired."""


def ours(cases: Sequence[Case]) -> Found:
    """Redaction of all texts in one pass; a secret is found when nothing of it is left."""
    out, hits = redact_rows(pl.DataFrame({"t": [c.text for c in cases]}), ["t"], paths=())
    fired: dict[int, set[str]] = defaultdict(set)
    for hit in hits:
        for row in hit.rows:
            fired[row].add(hit.rule)
    return [
        (bool(fired[n]) and case.gone(text), fired[n])
        for n, (case, text) in enumerate(zip(cases, out["t"], strict=True))
    ]


def detect_secrets(cases: Sequence[Case]) -> Found:
    """`detect-secrets` with its default plugins and filters over one file of all texts; any finding in a text counts as found."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings

    owner: list[int] = []
    types: list[set[str]] = [set() for _ in cases]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.txt"
        with path.open("w", encoding="utf-8", newline="\n") as out:
            for n, case in enumerate(cases):
                lines = case.text.split("\n")
                owner += [n] * len(lines)
                out.write("\n".join(lines) + "\n")
        with default_settings():
            for found in scan_file(str(path)):
                types[owner[found.line_number - 1]].add(found.type)
    return [(bool(t), t) for t in types]


@dataclass
class Score:
    """One detector on the corpus.

    Attributes:
        kinds: By kind: cases, found, and false hits of the rules that find this kind.
        false: By group of look-alikes: texts, and those hit.
    """

    kinds: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    false: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def recall(self) -> float:
        """Found among all cases of secrets."""
        return sum(k[1] for k in self.kinds.values()) / sum(k[0] for k in self.kinds.values())

    @property
    def precision(self) -> float:
        """True among all texts hit."""
        true, wrong = sum(k[1] for k in self.kinds.values()), sum(f[1] for f in self.false.values())
        return true / (true + wrong)


def score(detector: Callable[[Sequence[Case]], Found], secrets: Sequence[Case], lookalikes: Sequence[Case]) -> Score:
    """Recall and false hits of a detector, by kind and by group."""
    found, false = detector(secrets), detector(lookalikes)
    wrong: Counter[str] = Counter(rule for _, rules in false for rule in rules)
    out = Score()
    for kind in dict.fromkeys(c.kind for c in secrets):
        own = [f for c, f in zip(secrets, found, strict=True) if c.kind == kind]
        # The rule that tells a kind fires in most of its cases; others fire now and then on what stands around.
        fired = Counter(rule for yes, rules in own if yes for rule in rules)
        telling = [rule for rule, n in fired.items() if n * 2 > len(own)]
        out.kinds[kind] = (len(own), sum(yes for yes, _ in own), sum(wrong[rule] for rule in telling))
    for group in dict.fromkeys(c.kind for c in lookalikes):
        own = [f for c, f in zip(lookalikes, false, strict=True) if c.kind == group]
        out.false[group] = (len(own), sum(bool(rules) for _, rules in own))
    return out
