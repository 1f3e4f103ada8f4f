"""Options of a dataset. A frozen value: it is written into the manifest, and equal options on equal input give equal bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from expcomp.datasets.tools import tool_set
from expcomp.errors import ConfigError

GROUPS = ("task", "repository", "template", "user")
_RANGES = {
    "max_attempts": (1, inf),
    "min_words": (0, inf),
    "min_margin": (0, 1),
    "max_pairs": (1, inf),
    "min_attempts": (1, inf),
    "class_ratio": (1, inf),
    "near": (0, 1),
    "max_tokens": (1, inf),
}
_BOUNDS = ("length_ratio", "longer_share", "pass_rate")


@dataclass(frozen=True, slots=True)
class Policy:
    """How rows are held against held-out tasks (spec: 8-gram coverage, 13-gram evidence).

    Attributes:
        levels: Steps of the chain; `exact_content`, `exact_name`, `normalized_text`, `ngram`, and the extra `minhash`.
        n: Words of an n-gram for coverage.
        evidence_n: Words of an n-gram that alone puts a row on the review list.
        coverage: Share of a held-out field found in one row from which the row is dropped.
        run: Longest stretch of matched words from which the row is dropped.
        stop_tasks: An n-gram in more held-out tasks than this is boilerplate.
        stop_share: So is one in more than this share of the held-out set.
        boilerplate: Texts whose n-grams never count.
        jaccard: Similarity from which `minhash` takes two tasks for copies.
    """

    levels: tuple[str, ...] = ("exact_content", "exact_name", "normalized_text", "ngram")
    n: int = 8
    evidence_n: int = 13
    coverage: float = 0.5
    run: int = 50
    stop_tasks: int = 10
    stop_share: float = 0.05
    boilerplate: tuple[str, ...] = ()
    jaccard: float = 0.8


@dataclass(frozen=True, slots=True)
class DatasetOptions:
    """What a dataset may be told. Defaults follow the practice notes in the README, each with its source.

    Attributes:
        splits: Names and shares, which sum to 1. A group's place depends on `seed` and the group alone.
        seed: Of splits and of the order of rows.
        group: Unit of the split: `task`, or something above it: `repository`, `template`, `user`.
        before: ISO date; groups whose first attempt began later go to the last split.
        max_attempts: SFT: attempts of one task at the most, shortest first.
        min_words: SFT: words and signs of the agent that a row without a call needs.
        mask_failed: A call that failed, with later turns after it, is history and no target.
        keep_truncated: Keep passed attempts that hit a limit or whose record is cut.
        keep_unasked: Keep conversations without a user turn, which strict templates (Qwen3.5) refuse.
        min_margin: Pairs: least difference of normalised scores.
        max_pairs: Pairs of one task at the most.
        length_ratio: Pairs: bounds of len(chosen) / len(rejected); None keeps all.
        longer_share: Pairs: bounds of the share in which chosen is the longer one; None keeps all.
        pass_rate: GRPO: band of pass rates that is kept.
        min_attempts: GRPO: attempts a pass rate rests on at least.
        class_ratio: KTO: the larger class is cut to this multiple of the smaller one.
        near: Jaccard similarity from which rows count as near duplicates (extra `dedup`); None looks for none.
        max_tokens: Rows with more tokens are left out; needs `tokenizer`.
        tokenizer: Folder or file of a tokenizer (extra `tokenizers`).
        templates: Folder of chat templates (.jinja) under which every row has to render.
        system: System prompt for rows whose source has none.
        tools: Tool schemas, a JSON array, for rows whose source has none.
        policy: Of the decontamination.
    """

    splits: tuple[tuple[str, float], ...] = (("train", 1.0),)
    seed: str = "expcomp"
    group: str = "task"
    before: str | None = None
    max_attempts: int = 3
    min_words: int = 16
    mask_failed: bool = True
    keep_truncated: bool = False
    keep_unasked: bool = False
    min_margin: float = 0.5
    max_pairs: int = 4
    length_ratio: tuple[float, float] | None = (0.5, 2.0)
    longer_share: tuple[float, float] | None = (0.45, 0.55)
    pass_rate: tuple[float, float] = (0.1, 0.9)
    min_attempts: int = 2
    class_ratio: float = 4.0
    near: float | None = None
    max_tokens: int | None = None
    tokenizer: str | None = None
    templates: str | None = None
    system: str | None = None
    tools: str | None = None
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        names = [n for n, _ in self.splits]
        if not names or len(set(names)) < len(names) or abs(sum(s for _, s in self.splits) - 1) > 1e-9:
            msg = f"splits are {self.splits}, expected distinct names with shares that sum to 1"
            raise ConfigError(msg)
        if any(not n.isidentifier() or not 0 < s <= 1 for n, s in self.splits):
            msg = f"splits are {self.splits}, expected names like train and shares in 0..1"
            raise ConfigError(msg)
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                msg = f"option {name} is {value}, expected {low} or more" + (
                    f", and {high} at the most" if high < inf else ""
                )
                raise ConfigError(msg)
        for name in _BOUNDS:
            value = getattr(self, name)
            if value is not None and not value[0] <= value[1]:
                msg = f"option {name} is {value}, expected the lower bound first"
                raise ConfigError(msg)
        if self.group not in GROUPS:
            msg = f"option group is '{self.group}', expected one of {', '.join(GROUPS)}"
            raise ConfigError(msg)
        if self.before is not None and len(self.splits) < 2:
            msg = "option before needs a second split, as in train=0.9,test=0.1"
            raise ConfigError(msg)
        if self.max_tokens is not None and self.tokenizer is None:
            msg = "option max_tokens needs a tokenizer"
            raise ConfigError(msg)
        if self.tools is not None:
            schemas = tool_set(self.tools)
            if schemas is None:
                msg = "option tools holds no schema of a function; expected a JSON array of them"
                raise ConfigError(msg)
            object.__setattr__(self, "tools", schemas)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the manifest."""
        return asdict(self)
