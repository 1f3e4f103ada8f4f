"""The labelled corpus: every kind in every context and encoding, and the look-alikes."""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass
from functools import cache

from tests.secrets.contexts import ANYWHERE, ENCODINGS, KEYED
from tests.secrets.kinds import KINDS, RARE, Kind
from tests.secrets.lookalikes import GROUPS
from tests.secrets.shapes import Drawn, draw

WINDOW = 8


@dataclass(frozen=True)
class Case:
    """A text and its label.

    Attributes:
        kind: Kind of secret, or group of look-alikes.
        text: The text.
        parts: What must be gone: pieces of the secret; empty for a look-alike.
    """

    kind: str
    text: str
    parts: tuple[str, ...] = ()

    def gone(self, text: str) -> bool:
        """Whether nothing of the secret is left."""
        return not any(part in text for part in self.parts)


@cache
def secrets() -> tuple[Case, ...]:
    """All kinds in all their contexts, plain and JSON-encoded once and twice."""
    return tuple(case for kind in KINDS for case in _cases(kind))


@cache
def rare() -> tuple[Case, ...]:
    """The kinds outside the measure, in all contexts."""
    return tuple(case for kind in RARE for case in _cases(kind))


@cache
def lookalikes() -> tuple[Case, ...]:
    """Texts without a secret, one plain and one encoded of each."""
    out = []
    for group, shapes in GROUPS.items():
        rng = random.Random(group)
        for n, shape in enumerate(shapes):
            out.append(Case(group, draw(shape, rng).text))
            out.append(Case(group, ENCODINGS[1 + n % 2](draw(shape, rng).text)))
    return tuple(out)


def _cases(kind: Kind) -> list[Case]:
    rng = random.Random(kind.name)
    contexts = list(kind.around)
    if kind.keys:
        contexts = [c.replace("{k}", key) for key in kind.keys for c in KEYED if _fits(c, key)]
    elif not contexts:
        contexts = list(ANYWHERE)
    out = []
    for context in contexts:
        for encode in ENCODINGS:
            drawn = draw(kind.shape, rng)
            if kind.wrapped:
                text = base64.b64encode(drawn.text.encode()).decode()
                drawn = Drawn(text, (text[20:].rstrip("="),))
            out.append(Case(kind.name, encode(context.replace("{}", drawn.text)), _parts(drawn)))
    return out


def _fits(context: str, key: str) -> bool:
    """Names with dots or dashes are no variables."""
    return key.replace("_", "").isalnum() or not any(
        m in context for m in ("export", "ENV", "Client(", "docker", "{k}='")
    )


def _parts(drawn: Drawn) -> tuple[str, ...]:
    """First, middle and last piece of each long run; short runs only where there is no long one."""
    long = [r for r in drawn.runs if len(r) >= 12] or [
        "".join(drawn.runs) if "".join(drawn.runs) in drawn.text else max(drawn.runs, key=len)
    ]
    return tuple(
        dict.fromkeys(
            run[at : at + WINDOW]
            for run in long
            for at in (0, max(0, len(run) - WINDOW) // 2, max(0, len(run) - WINDOW))
        )
    )
