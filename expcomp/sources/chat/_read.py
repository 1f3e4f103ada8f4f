"""Reads sets of chats: what all formats of the family do with a file, whichever dialect its messages are in.

A record is one attempt. Records with `chosen` and `rejected` are two attempts at one task: the task is the column that names it or, without
one, the digest of the prompt; each has the grade `preference` (1 chosen, 0 rejected, no verdict). A file of bare messages or items is one
attempt. In a log of requests every conversation is one.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.sources._contract import Batch, Frames, ReadOptions, Unit
from expcomp.sources._values import obj, text
from expcomp.sources.chat import _log as _chat_log
from expcomp.sources.chat._attempt import Attempts
from expcomp.sources.chat._columns import SEARCHED, Columns, guess, report_guesses, settle
from expcomp.sources.chat._labels import Graded, grade, preference
from expcomp.sources.chat._sets import first_records, records, witnesses
from expcomp.sources.chat._shape import Chat, acts, chats_of, is_bare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.sources.chat._parquet import Record

PARAMETERS = frozenset(
    "temperature top_p top_k max_tokens max_completion_tokens parallel_tool_calls tool_choice reasoning_effort".split()
)
"""Columns of a row that say how the model was asked; of a request every further field does."""


def read_chats(name: str, units: Sequence[Unit], options: ReadOptions) -> Frames:
    """Read units of a format of the family."""
    batch = Batch()
    out = Attempts(name, batch, options)
    for unit in units:
        try:
            _Reader(out, unit).read()
        except OSError as error:
            out.tell("unreadable", f"cannot read the file: {error.strerror}", None, "error")
        except pl.exceptions.PolarsError as error:
            out.tell("bad_parquet", f"cannot be read: {str(error).splitlines()[0][:200]}", None, "error")
    return out.frames()


class _Reader:
    """The reading of one unit."""

    def __init__(self, out: Attempts, unit: Unit) -> None:
        self.out = out
        self.unit = unit
        self.options = out.options

    def read(self) -> None:
        out = self.out
        out.begin(self.unit)
        found, out.digest = records(out.batch, self.unit, self.options)
        head = list(islice(found, SEARCHED))
        # All parts of a file go by its first records, so that they agree.
        part = self.unit.span is not None and self.unit.span[2] > 0
        opening = first_records(self.unit.path, SEARCHED) if part else [r for _, _, r in head]
        if is_bare(opening):
            self._single(list(chain(head, found)))
        elif _chat_log.is_log(opening):
            self._log(list(chain(head, found)))
        else:
            self._rows(opening, chain(head, found), told=part)
        out.end()

    def _rows(self, opening: list[Any], found: Iterator[Record], *, told: bool) -> None:
        """A record is an attempt, or two."""
        out = self.out
        columns = out.columns = guess([r for r in opening if isinstance(r, dict)], self.options)
        wanted = (self.options.task_id, self.options.arm, self.options.trial)
        names = tuple(w for w in wanted if isinstance(w, str))
        if len(names) > len(columns.named) and self.unit.span is not None:
            self._settle(columns, witnesses(self.unit.path, names))
        elif len(names) > len(columns.named):
            everything = list(found)
            self._settle(columns, [r for _, _, r in everything if isinstance(r, dict)])
            found = iter(everything)
        if not told:
            report_guesses(columns, out.batch, self.unit)
        for pos, key, record in found:
            row: dict[str, Any] = record if isinstance(record, dict) else {}
            chats = chats_of(row) if row else [Chat(record, ())] if isinstance(record, list) and record else []
            if not chats:
                about = (
                    f"an object with {', '.join(list(row)[:6])}" if row else f"{type(record).__name__} without turns"
                )
                out.tell("bad_row", f"expected a record with messages, found {about[:300]}; left out", pos)
                continue
            for chat in chats:
                chat.params = {k: row[k] for k in PARAMETERS & row.keys() if row[k] is not None}
                out.add(chat, row, pos, key, preference(row, chat.mark) if chat.mark else grade(columns, row))

    def _single(self, found: list[Record]) -> None:
        """The whole file is one conversation."""
        turns = []
        for pos, _, record in found:
            if isinstance(record, dict):
                turns.append(record)
            else:
                self.out.tell("bad_row", f"expected a turn, found {type(record).__name__}; left out", pos)
        self.out.columns = guess([], self.options)
        self._settle(self.out.columns, [])
        if turns:
            self.out.add(Chat(turns, ()), {}, found[0][0], "0", Graded())

    def _log(self, found: list[Record]) -> None:
        """A conversation of the log is an attempt."""
        out = self.out
        exchanges = _chat_log.pair(found, out.tell)
        every = [e.record for e in exchanges]
        columns = out.columns = guess(every, self.options)
        self._settle(columns, every)
        for place, names in (("system", ("system", "instructions")), ("tools", ("tools", "functions"))):
            columns.paths[place] = (*((n,) for n in names), *columns.paths.get(place, ()))
            columns.mapped |= dict.fromkeys(names, place)
        for talk in _chat_log.converse(exchanges, out.tell):
            last = talk.last
            chat, row = self._conversation(talk)
            chat.asked = text(last.request.get("model"))
            chat.params = _chat_log.parameters(last.request)
            row |= {k: v for k, v in last.request.items() if columns.mapped.get(k) in ("system", "tools")}
            out.add(chat, row, last.pos, talk.exchanges[0].key, grade(columns, row))

    def _conversation(self, talk: _chat_log.Conversation) -> tuple[Chat, dict[str, Any]]:
        """Turns of the longest request and of its answer; every answer tells of its own model call."""
        last = talk.last
        chat, row = Chat(_chat_log.history(last.request), ()), dict(last.record)
        for one in talk.exchanges:
            if one.response is None:
                continue
            turns, about = _chat_log.answer(one.response)
            chat.calls[acts(_chat_log.history(one.request))] = about
            if one is not last:
                continue
            chat.turns = [*chat.turns, *turns]
            if about.get("others"):
                row["other_choices"] = about["others"]
                detail = f"{len(about['others'])} further choices of the answer are kept in the metadata"
                self.out.tell("other_choices", detail, one.pos)
            error = obj(one.response.get("error"))
            if error:
                row["response_error"] = error
        return chat, row

    def _settle(self, columns: Columns, rows: list[dict[str, Any]]) -> None:
        settle(columns, self.options, rows, self.out.batch, self.unit)
