"""Structure-aware mutations of a seed: files by name to bytes. The same random state gives the same bytes."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable
from typing import Any

Files = dict[str, bytes]

# What stands in the document as a mark is put in as raw text afterwards: values that no JSON writer would write.
MARK = "\u0001raw{}\u0001"
RAW = [
    b"NaN", b"-Infinity", b"1e999", b"-0", b"1" * 400, b"7" * 5000, b"9" * 19, b"-9223372036854775809", b"0.1e-400", b"01", b"tru", b"",
    b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\xff\xfe"', b'"\x00"', b'"\xed\xa0\x80"', b"[" * 3000 + b"]" * 3000,
    b'{"a":' * 1200 + b"1" + b"}" * 1200, b'{"k":1,"k":2,"type":3,"type":[]}', b'"' + b"a" * 70_000 + b'"', b"[1,2", b"'x'",
    b"{" + b",".join(b'"%d":0' % n for n in range(3000)) + b"}",
]  # fmt: skip
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 0.5, -1.5, 1e300, 1e-320, "", " ", "x", "0", "-1",
    "1e9", "nan", "true", "null", "\x00", "a\x00b", "é\u202e", "\U0001f600", "../../x", "/etc/passwd", "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999+14:00", "0000-00-00", "1969-12-31", "{}", "[]", '{"a":', "[[[]]]", "user", "assistant", "tool",
    "system", "=1+1", "<b>", [], {}, [None], [[]], [{}], {"": None}, {"type": None}, {"role": 1}, [1, "a", None, {}], {"id": {}},
    [{"type": "text", "text": None}], {"text": "x"}, [{"id": 1}, {"id": 1}], {"a": {"b": {"c": []}}},
]  # fmt: skip

DEEPER = 0.8
"""Chance of a random way to go on into a list or object."""


def mutate(seed: Files, others: list[Files], rng: random.Random) -> Files:
    """One to five changes of one or two files of the seed; sometimes a part of another seed."""
    out = dict(seed)
    names = list(out)
    for _ in range(rng.choice((1, 1, 1, 2))):
        name = rng.choice(names)
        rounds = rng.choice((1, 1, 2, 3, 5))
        if rng.random() < 0.8:
            try:
                out[name] = _tree(out[name], others, rng, rounds)
            except RecursionError:  # nested deeper than can be taken apart
                out[name] = _bytes(out[name], others, rng)
        else:
            out[name] = _bytes(out[name], others, rng)
    if len(names) > 1 and rng.random() < 0.05:
        del out[rng.choice(names)]
    return out


def damaged(seed: Files, others: list[Files], rng: random.Random) -> Files:
    """A change of the bytes of one file, without regard to what they mean."""
    name = rng.choice(list(seed))
    return seed | {name: _bytes(seed[name], others, rng)}


def _tree(data: bytes, others: list[Files], rng: random.Random, rounds: int) -> bytes:
    documents, lines = parsed(data)
    if documents is None:
        return _bytes(data, others, rng)
    box: list[Any] = list(documents)
    raw: list[bytes] = []
    for _ in range(rounds):
        _edit(box, others, rng, raw)
    texts = [json.dumps(d, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass") for d in box]
    if not lines:
        texts = texts[:1] if rng.random() < 0.97 else texts
    out = (b"\r\n" if rng.random() < 0.03 else b"\n").join(texts) + (b"\n" if lines else b"")
    for n, value in enumerate(raw):
        out = out.replace(json.dumps(MARK.format(n)).encode(), value).replace(
            json.dumps(MARK.format(n), ensure_ascii=False).encode(), value
        )
    return out


def parsed(data: bytes) -> tuple[list[Any] | None, bool]:
    """The documents of a file and whether it holds one on each line; None is no JSON."""
    try:
        return [json.loads(data)], False
    except (ValueError, RecursionError):
        pass
    try:
        found = [json.loads(line) for line in data.split(b"\n") if line.strip()]
    except (ValueError, RecursionError):
        return None, False
    return (found or None), True


def _edit(box: list[Any], others: list[Files], rng: random.Random, raw: list[bytes]) -> None:
    holder, key = _pick(box, rng)
    if holder is None:
        return
    kind = rng.random()
    if kind < 0.45:
        holder[key] = copy.deepcopy(rng.choice(ODD))
    elif kind < 0.6:
        del holder[key]
    elif kind < 0.7:
        raw.append(rng.choice(RAW))
        holder[key] = MARK.format(len(raw) - 1)
    elif kind < 0.78:
        there, at = _pick(box, rng)
        if there is not None:
            holder[key] = json.loads(json.dumps(there[at]))
    elif kind < 0.84:
        holder[key] = rng.choice(([holder[key]], {"x": holder[key]}, json.dumps(holder[key]), str(holder[key])))
    elif kind < 0.9 and isinstance(holder, dict):
        other = rng.choice(list(holder))
        holder[other], holder[key] = holder[key], holder[other]
    elif kind < 0.93 and isinstance(holder, dict):
        holder[rng.choice((key + "x", "", "type", "id", "role", "content", "a\x00", "messages"))] = holder.pop(key)
    elif kind < 0.97 and isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 2, 40)))]
    elif isinstance(holder, list):
        rng.shuffle(holder)
    else:
        documents, _ = parsed(rng.choice(list(rng.choice(others).values())))
        there, at = _pick(documents or [None], rng)
        holder[key] = copy.deepcopy(there[at]) if there is not None else None


def _pick(box: list[Any], rng: random.Random) -> tuple[Any, Any]:
    """A random place: a few steps down a random way, so that shallow places come often."""
    holder: Any = box
    if not box:
        return None, None
    key: Any = rng.randrange(len(box))
    while isinstance(holder[key], (dict, list)) and holder[key] and rng.random() < DEEPER:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    return holder, key


def _bytes(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    return rng.choice(_BYTE_WAYS)(data, others, rng) if data else rng.choice((b"", b"{}", b"\x00", b"[", b"null"))


def _at(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _cut(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    return data[: _at(data, rng)]


def _drop(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    a, b = sorted((_at(data, rng), _at(data, rng)))
    return data[:a] + data[b:]


def _double(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    a, b = sorted((_at(data, rng), _at(data, rng)))
    return data[:b] + data[a:]


def _flip(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 12))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _insert(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    at = _at(data, rng)
    return (
        data[:at]
        + rng.choice(
            (
                b"\x00",
                b"\xff",
                b"\xed\xa0\x80",
                b"\xef\xbb\xbf",
                b"\n",
                b"\r",
                b'"',
                b"\\",
                b"{",
                b"}",
                b"[",
                b",",
                b"\xe2\x80\xa8",
            )
        )
        + data[at:]
    )


def _line(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice((*RAW, b"{}", b"[]", b"null", b"1", b'"x"')))
    return b"\n".join(lines)


def _splice(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    other = rng.choice(list(rng.choice(others).values()))
    return data[: _at(data, rng)] + other[_at(other, rng) :]


def _swap(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    return rng.choice(list(rng.choice(others).values()))


def _bom(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    return (
        rng.choice(
            (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1")
        )
        + data
    )


def _wide(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "utf-16-be")), "replace")


def _newlines(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\x0b", b" ")))


def _pack(data: bytes, others: list[Files], rng: random.Random) -> bytes:
    packed = gzip.compress(data, 1, mtime=0)
    return rng.choice((packed, packed[: _at(packed, rng)], _flip(packed, others, rng)))


_BYTE_WAYS: tuple[Callable[[bytes, list[Files], random.Random], bytes], ...] = (
    _cut, _drop, _double, _flip, _flip, _insert, _insert, _line, _splice, _swap, _bom, _wide, _newlines, _pack,
)  # fmt: skip
