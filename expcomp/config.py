"""Options of a compile. A frozen value: it is written into the manifest, and equal options on equal input give equal bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from expcomp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a compile may be told.

    Attributes:
        margin: Least difference of normalised scores for a preference pair, 0..1.
        min_label_strength: Labels weaker than this give no SFT, reward, preference, group or verifier row, 0..1.
        allow_simulated: Keep rows that rest on the judgement of a stand-in reviewer.
        allow_unlabelled: Keep conversations of sources that have no place for a verdict (sessions, chat sets) as SFT rows.
        pii: Redact e-mail addresses, phone numbers and IP addresses too.
        max_text_chars: A single text of a step row is cut beyond this many characters, and flagged.
        max_row_bytes: A row whose content is larger is rejected as `too_long`.
        max_rounds: Repair rounds at the most.
        check: `auto` holds every row to the rules of its table, as expressions, and asks pandera when they object; `full` asks
            pandera in any case; `off` looks at names and dtypes only.
    """

    margin: float = 0.1
    min_label_strength: float = 0.5
    allow_simulated: bool = False
    allow_unlabelled: bool = False
    pii: bool = False
    max_text_chars: int = 65_536
    max_row_bytes: int = 1 << 24
    max_rounds: int = 3
    check: str = "auto"

    def __post_init__(self) -> None:
        for name in ("margin", "min_label_strength"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                msg = f"option {name} is {value}, expected a number in 0..1"
                raise ConfigError(msg)
        for name in ("max_text_chars", "max_row_bytes", "max_rounds"):
            if getattr(self, name) < 1:
                msg = f"option {name} is {getattr(self, name)}, expected 1 or more"
                raise ConfigError(msg)
        if self.check not in ("auto", "full", "off"):
            msg = f"option check is '{self.check}', expected auto, full or off"
            raise ConfigError(msg)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the manifest."""
        return asdict(self)
