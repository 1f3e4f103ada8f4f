"""The tables that decide what a reader makes of errors, status words and score scales, and what a user adds to them in a TOML file."""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from expcomp.errors import ConfigError
from expcomp.sources.errors_map import ERRORS, ErrorClass, classify
from expcomp.sources.status_map import STATUSES, UNKNOWN
from expcomp.tables import vocab as v

_STATUS = frozenset(v.STATUS.categories.to_list())
_SECTIONS = frozenset({"errors", "status", "score"})


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of a grade, and the value from which it passes; null where nobody said so."""

    low: float | None = None
    high: float | None = None
    passes: float | None = None


@dataclass(frozen=True)
class Rules:
    """Tables of the readers.

    Attributes:
        errors: Class of an error (without its module) -> meaning.
        statuses: Format -> native word -> meaning.
        scores: `<format>/<dataset>`, `<format>/<grade name>` or `<format>` -> scale; the first of these that is there counts.
    """

    errors: dict[str, ErrorClass] = field(default_factory=lambda: dict(ERRORS))
    statuses: dict[str, dict[str, ErrorClass]] = field(
        default_factory=lambda: {k: dict(w) for k, w in STATUSES.items()}
    )
    scores: dict[str, Scale] = field(default_factory=dict)

    def error(self, error_type: str | None, *, graded: bool) -> ErrorClass:
        """Meaning of an error class; an unknown one is the agent's if the attempt was graded, else infrastructure."""
        return classify(error_type, graded=graded, table=self.errors)

    def status(self, format_name: str, word: str | None) -> tuple[ErrorClass, bool]:
        """Meaning of a status word and whether the table has it; no word at all is `unknown` and no surprise."""
        if word is None:
            return UNKNOWN, True
        known = self.statuses.get(format_name, {}).get(word)
        return (known, True) if known is not None else (UNKNOWN, False)

    def changed(self) -> dict[str, Any]:
        """What differs from the built-in tables, as plain values for a manifest."""
        plain = Rules()
        statuses = {
            f"{name}/{word}": asdict(meaning)
            for name, words in self.statuses.items()
            for word, meaning in words.items()
            if plain.statuses.get(name, {}).get(word) != meaning
        }
        return {
            "errors": {n: asdict(m) for n, m in self.errors.items() if plain.errors.get(n) != m},
            "status": statuses,
            "score": {n: asdict(s) for n, s in self.scores.items()},
        }


def read_rules(path: str | Path) -> Rules:
    """The built-in tables with what a TOML file adds or changes.

    ```toml
    [errors]
    MyGatewayError = { status = "infra_error", voids_reward = true }

    [status.swe_agent]
    "submitted (exit_quota)" = { status = "limit" }

    [score]
    verifiers = { min = 0, max = 2.25, pass = 1.5 }
    ```

    Raises:
        ConfigError: The file cannot be read, or an entry is not of this form; the message names it.
    """
    file = Path(path)
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        msg = f"{file.name}: cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{file.name}: is no TOML: {error}"
        raise ConfigError(msg) from error
    for section in document:
        if section not in _SECTIONS:
            msg = f"{file.name}: section [{section}] is not known; there are [errors], [status.<format>] and [score]"
            raise ConfigError(msg)
    rules = Rules()
    for name, entry in _table(document.get("errors", {}), f"{file.name}: [errors]").items():
        rules.errors[name] = _meaning(entry, f"{file.name}: [errors] {name}")
    for format_name, words in _table(document.get("status", {}), f"{file.name}: [status]").items():
        if format_name not in rules.statuses:
            msg = f"{file.name}: [status.{format_name}]: no such table; there are {', '.join(sorted(rules.statuses))}"
            raise ConfigError(msg)
        for word, entry in _table(words, f"{file.name}: [status.{format_name}]").items():
            rules.statuses[format_name][word] = _meaning(entry, f"{file.name}: [status.{format_name}] {word}")
    for name, entry in _table(document.get("score", {}), f"{file.name}: [score]").items():
        rules.scores[name] = _scale(entry, f"{file.name}: [score] {name}")
    return rules


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"{where}: expected a table, found {type(value).__name__}"
        raise ConfigError(msg)
    return value


def _meaning(entry: Any, where: str) -> ErrorClass:
    values = _table(entry, where)
    status = values.get("status")
    voids = values.get("voids_reward", status == "infra_error")
    if (
        not isinstance(status, str)
        or status not in _STATUS
        or not isinstance(voids, bool)
        or not values.keys() <= {"status", "voids_reward"}
    ):
        msg = f"{where}: expected {{ status = one of {', '.join(sorted(_STATUS))}, voids_reward = true or false }}"
        raise ConfigError(msg)
    return ErrorClass(status, voids_reward=voids)


def _scale(entry: Any, where: str) -> Scale:
    values = _table(entry, where)
    numbers = {
        k: float(n)
        for k, n in values.items()
        if isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)
    }
    low, high, passes = numbers.get("min"), numbers.get("max"), numbers.get("pass")
    if len(numbers) != len(values) or not values.keys() <= {"min", "max", "pass"} or (low is None) != (high is None):
        msg = f"{where}: expected {{ min = number, max = number, pass = number }}, min and max together"
        raise ConfigError(msg)
    if low is not None and high is not None and not 0 < high - low < math.inf:
        msg = f"{where}: max {high} is not above min {low}"
        raise ConfigError(msg)
    return Scale(low, high, passes)
