"""A pack: the rule sets, fields, allow-lists and settings of one profile, read from TOML and checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.errors import ConfigError
from expcomp.io.toml_files import packaged_folders, packaged_toml, read_toml
from expcomp.ledger.engine import RuleSet, check_rules, covers
from expcomp.ledger.fields import Fields, compile_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PACKAGE, FOLDER = "expcomp.ledger", "packs"
SECTIONS = frozenset(
    "rules fields objects lists settings artifacts repair_profiles next_action arms benchmarks infra".split()
)
PLACES = ("front", "behind")
OWN = "_own"  # marks a rule of the user until the sets are put together


@dataclass(frozen=True, slots=True)
class Pack:
    """The rules of one profile, checked.

    Attributes:
        profile: Its name.
        rules: Rule sets by name.
        fields: Compiled tables of fields by name.
        sections: The other sections as they were written.
        documents: Files of the pack that are no sections, by stem: what later steps go by.
    """

    profile: str
    rules: Mapping[str, RuleSet]
    fields: Mapping[str, Fields]
    sections: Mapping[str, Mapping[str, Any]]
    documents: Mapping[str, Mapping[str, Any]]

    def both(self, one: str, other: str) -> Fields:
        """Two tables of fields that read the same records, as one."""
        tables = {**self.section("fields")[one], **self.section("fields")[other]}
        return compile_fields(f"{one}+{other}", tables, self.section("objects"))

    def data(self, name: str) -> Mapping[str, Any]:
        """A document of the pack.

        Raises:
            ConfigError: The pack has none of the name.
        """
        if name not in self.documents:
            known = ", ".join(sorted(self.documents))
            raise ConfigError(f"profile {self.profile!r} has no document {name!r}; known are {known}")
        return self.documents[name]

    def section(self, name: str) -> Mapping[str, Any]:
        """A section; empty when the pack has none of the name."""
        return self.sections.get(name, {})

    @property
    def settings(self) -> Mapping[str, Any]:
        """The section `settings`."""
        return self.section("settings")


def profiles() -> list[str]:
    """Names of the packaged profiles."""
    return packaged_folders(PACKAGE, FOLDER)


def read_pack(profile: str, extra: Path | str | Sequence[Path | str] | None = None) -> Pack:
    """Read a packaged profile, with the user's own files.

    A file of the user has the same sections. Its rules go before those of the profile and take the place of those they cover, or
    go directly before the catch-all with `place = "behind"`; its lists add to those of the profile; its settings, fields and
    tables replace those of the same name.

    Args:
        profile: `loopx` reproduces the ancestor, `default` is ours.
        extra: TOML files, each over the one before.

    Raises:
        ConfigError: An unknown profile or section, or a pack that does not hold together.
    """
    known = profiles()
    if profile not in known:
        raise ConfigError(f"unknown profile {profile!r}; known are {', '.join(known)}")
    files = [] if extra is None else [extra] if isinstance(extra, (str, Path)) else list(extra)
    return _read(profile, files) if files else _packaged(profile)


@cache
def _packaged(profile: str) -> Pack:
    return _read(profile, [])


def _read(profile: str, files: Sequence[Path | str]) -> Pack:
    found: dict[str, dict[str, Any]] = {}
    documents: dict[str, dict[str, Any]] = {}
    for name, document in packaged_toml(PACKAGE, f"{FOLDER}/{profile}").items():
        if set(document) <= SECTIONS and not isinstance(document.get("rules"), list):
            for section, content in document.items():
                _merge(found.setdefault(section, {}), section, content, f"{profile}/{name}")
        else:
            documents[name.removesuffix(".toml")] = document
    for file in files:
        _overlay(found, documents, read_toml(Path(file)), str(file))
    pack = make_pack(profile, found, documents)
    _try(pack)
    return pack


def _try(pack: Pack) -> None:
    """Compile every rule set against the columns it will meet, on no records: an unknown column or operator shows here."""
    from expcomp.ledger.entries import entries
    from expcomp.ledger.recompute import recompute

    recompute(entries([], pack), pack)


def make_pack(
    profile: str, found: Mapping[str, Mapping[str, Any]], documents: Mapping[str, Mapping[str, Any]] | None = None
) -> Pack:
    """Check sections and compile what can be.

    Raises:
        ConfigError: See `read_pack`.
    """
    lists = {n: _resolve(v, found.get("lists", {}), f"lists.{n}") for n, v in found.get("lists", {}).items()}
    rules = {
        name: RuleSet(name, _effective([_resolve(r, lists, f"{name}/{r.get('id')}") for r in written]))
        for name, written in found.get("rules", {}).items()
    }
    for one in rules.values():
        check_rules(one)
    data: dict[str, dict[str, Any]] = {n: _resolve(d, lists, n) for n, d in (documents or {}).items()}
    for name, document in data.items():
        if isinstance(document.get("rules"), list):
            document["rules"] = list(_effective(document["rules"]))
            check_rules(RuleSet(name, tuple(document["rules"])))
    _check_classes(rules, set(lists.get("known_classes", ())))
    objects = found.get("objects", {})
    fields = {name: compile_fields(name, table, objects) for name, table in found.get("fields", {}).items()}
    rest = {n: v for n, v in found.items() if n not in ("rules", "lists")}
    return Pack(profile, rules, fields, {**rest, "lists": lists}, data)


def _effective(rules: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The rules without those of the profile that a rule of the user before them takes the place of."""
    own: list[Mapping[str, Any]] = []
    kept = []
    for rule in rules:
        when = rule.get("when", {})
        if OWN in rule:
            own.append(when)
        elif any(covers(w, when) for w in own):
            continue
        kept.append({k: v for k, v in rule.items() if k != OWN})
    return tuple(kept)


def _overlay(
    found: dict[str, dict[str, Any]], documents: dict[str, dict[str, Any]], document: Mapping[str, Any], where: str
) -> None:
    place = document.get("place", "front")
    if place not in PLACES:
        raise ConfigError(f"{where}: place is {place!r}; expected one of {', '.join(PLACES)}")
    for name, content in document.items():
        if name == "place":
            continue
        if name in SECTIONS:
            _merge(found.setdefault(name, {}), name, content, where, place)
        elif name in documents and isinstance(content, dict):
            have = dict(documents[name])
            for key, value in content.items():
                _add(have, key, key, value, f"{where}: {name}.{key}", place)
            documents[name] = have
        else:
            known = ", ".join(sorted({*SECTIONS, *documents}))
            raise ConfigError(f"{where}: unknown section {name!r}; known are {known}")


def _merge(into: dict[str, Any], section: str, content: Any, where: str, place: str | None = None) -> None:
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: {section} must be a table")
    for name, value in content.items():
        _add(into, section, name, value, f"{where}: {section}.{name}", place)


def _add(into: dict[str, Any], section: str, name: str, value: Any, where: str, place: str | None) -> None:
    if section == "rules":
        if not isinstance(value, list) or not all(isinstance(r, dict) for r in value):
            raise ConfigError(f"{where}: expected a list of rules")
        have = into.get(name, [])
        value = value if place is None else [{**r, OWN: True} for r in value]
        into[name] = [*have[:-1], *value, have[-1]] if place == "behind" and have else [*value, *have]
    elif isinstance(value, list) and isinstance(into.get(name), list) and place is not None and section == "lists":
        into[name] = [*into[name], *(v for v in value if v not in into[name])]
    elif name in into and place is None:
        raise ConfigError(f"{where}: is written twice")
    elif isinstance(value, dict) and isinstance(into.get(name), dict):
        into[name] = {**into[name], **value}
    else:
        into[name] = value


def _resolve(value: Any, lists: Mapping[str, Any], where: str) -> Any:
    """Replace `$name` by the list of that name."""
    if isinstance(value, str) and value.startswith("$"):
        if value[1:] not in lists:
            raise ConfigError(f"{where}: unknown list {value!r}; known are {', '.join(sorted(lists))}")
        return _resolve(lists[value[1:]], lists, where)
    if isinstance(value, dict):
        return {k: _resolve(v, lists, where) for k, v in value.items()}
    if isinstance(value, list):
        return list(_flat(value, lists, where))
    return value


def _flat(value: list[Any], lists: Mapping[str, Any], where: str) -> Iterator[Any]:
    for item in value:
        found = _resolve(item, lists, where)
        if isinstance(item, str) and isinstance(found, list):
            yield from found
        else:
            yield found


def _check_classes(rules: Mapping[str, RuleSet], known: set[str]) -> None:
    """Refuse a rule on a failure class that nothing gives: it is a misspelling or a leftover."""
    if "failure_class" not in rules:
        return
    given = rules["failure_class"].produced() | known
    for name, one in rules.items():
        for column in ("failure_class", "routing_class"):
            for rule, classes in one.mentioned(column).items():
                if lost := classes - given:
                    raise ConfigError(
                        f"{name}/{rule}: no rule of failure_class gives {min(lost)!r}; correct it, or list it in lists.known_classes"
                    )
