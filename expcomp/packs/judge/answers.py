"""What a model answered, read: a verdict, or the reason why there is none. Never a default."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from expcomp.tables.judge import VERDICT

if TYPE_CHECKING:
    from expcomp.io.answer_store import Answer

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_THOUGHT = re.compile(r"\A<think>.*?</think>", re.DOTALL)
_WORDS = frozenset(VERDICT.categories)
_CUT = frozenset({"length", "max_tokens"})
_WITHHELD = frozenset({"content_filter", "refusal"})


class Read(NamedTuple):
    """What an answer says; `verdict` is None exactly when `error` is not."""

    verdict: str | None = None
    score: float | None = None
    reasons: list[str] | None = None
    error: str | None = None
    error_detail: str | None = None


class _Said(msgspec.Struct):
    verdict: str
    score: float | None = None
    reasons: list[str] = []


def read_answer(answer: Answer) -> Read:
    """Read an answer: one JSON object, bare or as one fenced block, after a thought in `<think>` if there is one."""
    if answer.refused or answer.finish_reason in _WITHHELD:
        return Read(
            error="withheld_answer",
            error_detail=f"the endpoint gave {_quote(answer.finish_reason)} as its reason to stop",
        )
    if answer.finish_reason in _CUT:
        return Read(error="cut_answer", error_detail="the answer ran into its greatest length; allow more tokens")
    text = _THOUGHT.sub("", (answer.text or "").strip()).strip()
    if not text:
        return Read(error="empty_answer", error_detail="the answer holds no text")
    fenced = _FENCE.fullmatch(text)
    try:
        said = msgspec.json.decode(fenced.group(1) if fenced else text, type=_Said)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        # The position of the fault is in the message; the text of the model is not repeated here.
        return Read(
            error="malformed_answer", error_detail=f"expected an object with verdict, score and reasons: {error}"
        )
    if said.verdict not in _WORDS:
        return Read(
            error="unknown_verdict",
            error_detail=f"expected {', '.join(VERDICT.categories)}; found {_quote(said.verdict)}",
        )
    if said.score is not None and not 0 <= said.score <= 1:
        return Read(error="score_out_of_range", error_detail=f"expected a number in 0..1 or null, found {said.score:g}")
    return Read(said.verdict, said.score, said.reasons)


def _quote(text: str | None) -> str:
    return "nothing" if text is None else f"'{text[:40]}'"
