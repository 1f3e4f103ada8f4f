"""A responder that is asked each question once, however often the same cases are played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expcomp.environments.playing import Batched, Question, Reply, Responder, Rival, Turn
from expcomp.environments.values import dump
from expcomp.errors import SessionError
from expcomp.io.canon import digest_bytes

if TYPE_CHECKING:
    from expcomp.environments.effects import State


class Recalled:
    """Another responder and all that it has replied, by the digest of the question; what it doubts is not kept.

    Args:
        responder: Who is asked.
    """

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self._replied: dict[str, Reply | SessionError | None] = {}

    def reply(self, action: str, arguments: Mapping[str, Any], state: State, turns: Sequence[Turn]) -> Reply | None:
        """The reply to the question, now or before.

        Raises:
            SessionError: The responder's own.
        """
        found = self.replies([Question(action, arguments, state, turns)])[0]
        if isinstance(found, SessionError):
            raise found
        return found

    def replies(self, asked: Sequence[Question]) -> list[Reply | SessionError | None]:
        """The reply to each question; an error in place of one that was refused."""
        names = [_name(q) for q in asked]
        new = {n: q for n, q in zip(names, asked, strict=True) if n not in self._replied}
        self._replied.update(zip(new, replies(self._responder, list(new.values())), strict=True))
        return [self._replied[n] for n in names]

    def doubts(self, action: str, arguments: Mapping[str, Any], confidence: float) -> bool:
        """As the responder says; one that cannot tell doubts nothing."""
        return isinstance(self._responder, Rival) and self._responder.doubts(action, arguments, confidence)


def replies(responder: Responder, asked: Sequence[Question]) -> Sequence[Reply | SessionError | None]:
    """Replies to questions of sessions that know nothing of each other, many at a time where the responder can."""
    if not asked:
        return []
    if isinstance(responder, Batched):
        return responder.replies(asked)
    found: list[Reply | SessionError | None] = []
    for q in asked:
        try:
            found.append(responder.reply(q.action, q.arguments, q.state, q.turns))
        except SessionError as error:
            found.append(error)
    return found


def _name(q: Question) -> str:
    turns = [(t.action, dict(t.arguments), t.observation, t.outcome) for t in q.turns]
    return digest_bytes(dump([q.action, dict(q.arguments), q.state, turns]).encode("utf-8", "surrogatepass"))
