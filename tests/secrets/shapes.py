"""Texts from shape descriptions: `{h:40}` is a run of 40 hexadecimal digits, `{a:20-40}` of 20 to 40 letters and digits."""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass

ALPHABETS = {
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "l": string.ascii_lowercase,
    "U": string.ascii_uppercase,
    "x": string.ascii_lowercase + string.digits,
    "X": string.ascii_uppercase + string.digits,
    "2": string.ascii_uppercase + "234567",
    "3": string.ascii_lowercase + "234567",
    "a": string.ascii_letters + string.digits,
    "u": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "p": string.ascii_letters + string.digits + "!#^_+-~@%*",
    "g": string.ascii_lowercase + string.digits + "!@#$%^&*(-_=+",
}
_RUN = re.compile(r"\{([hHdlUxX23aubpg]):(\d+)(?:-(\d+))?\}")


@dataclass(frozen=True)
class Drawn:
    """A text of a shape, and the runs in it that were drawn at random."""

    text: str
    runs: tuple[str, ...]


def draw(shape: str, rng: random.Random) -> Drawn:
    """One text of the shape. A run of letters and digits holds both, and begins and ends with one of them."""
    runs = []

    def run(match: re.Match[str]) -> str:
        alphabet, least, most = ALPHABETS[match[1]], int(match[2]), int(match[3] or match[2])
        chars = [rng.choice(alphabet) for _ in range(rng.randint(least, most))]
        if len(chars) >= 6 and len(alphabet) > 30:
            chars[-2], chars[2] = (
                rng.choice("23456789"[: 6 if match[1] in "23" else 8]),
                rng.choice([c for c in alphabet if c.isalpha()]),
            )
            plain = [c for c in alphabet if c.isalnum()]
            chars[0], chars[-1] = rng.choice(plain), rng.choice(plain)
        runs.append("".join(chars))
        return runs[-1]

    return Drawn(_RUN.sub(run, shape), tuple(runs))
