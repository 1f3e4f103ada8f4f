"""Redaction: every shape goes, nothing else changes, a second pass finds nothing. Shapes are built, never written out."""

from __future__ import annotations

import json
import random
import string
from itertools import product

import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from expcomp.evidence.redact import count_tokens, redact, residual, rules
from expcomp.evidence.redaction_rules import path_rules

ALNUM = string.ascii_letters + string.digits
RNG = random.Random(20)


def run(n: int, alphabet: str = ALNUM) -> str:
    return "".join(RNG.choice(alphabet) for _ in range(n))


def key_block(body: str, *, closed: bool = True) -> str:
    tail = "\n-----END " + "PRIVATE KEY-----" if closed else ""
    return "-----BEGIN " + "PRIVATE KEY-----\n" + body + tail


def web_token() -> str:
    return "ey" + "J" + run(17) + "." + run(40) + "." + run(43)


MIXED = "a1B2" + run(20)
# Name, text around the secret with the secret in braces-free form, and the part that must be gone.
SECRETS: list[tuple[str, str, str]] = [
    (name, before + value, value[-12:])
    for name, before, value in [
        ("project", "", "sk-" + "proj-" + run(40)),
        ("vendor", "", "sk-" + "ant-" + run(36)),
        ("router", "", "sk-" + "or-v1-" + run(64, "0123456789abcdef")),
        ("plain", "", "sk" + "-" + run(48)),
        ("other", "", "d" + "sk-" + run(30)),
        ("maps", "", "AI" + "za" + run(35, ALNUM + "_")),
        ("cloud", "", "AK" + "IA" + run(16, string.ascii_uppercase + "234567")),
        ("cloud session", "", "AS" + "IA" + run(16, string.ascii_uppercase + "234567")),
        ("cloud secret", "aws_secret_access_key = ", run(40, ALNUM + "/+")),
        *(("forge", "", f"gh{c}" + "_" + run(36)) for c in "pousr"),
        ("fine-grained", "", "github" + "_pat_" + run(22) + "_" + run(59)),
        ("lab", "", "gl" + "pat-" + run(20)),
        ("chat", "", "xox" + "b-" + run(12, string.digits) + "-" + run(24)),
        ("hub", "", "h" + "f_" + run(34)),
        *(("payment", "", kind + run(24)) for kind in ("sk_" + "live_", "rk_" + "live_", "sk_" + "test_")),
        ("package", "", "np" + "m_" + run(36)),
        ("index", "", "py" + "pi-" + run(60)),
        ("web token", "", web_token()),
        ("bearer", "Authorization: Bearer ", run(48)),
        ("basic", "authorization: BASIC ", run(24) + "=="),
        ("bare bearer", "bearer ", MIXED),
        ("password", "password=", "hun" + "ter2hunter"),
        ("env", "DB_PASSWORD=", "onlyletters" + "inthis"),
        ("flag", "--password ", "hun" + "ter2hunter"),
        ("token", "access_token=", MIXED),
        ("api key", "Api-Key: ", MIXED),
        ("entropy", "SESSION_KEY=", "aB3" * 4 + run(30)),
    ]
] + [
    ("url", "postgresql://svc:" + "p4ss" + "w0rdp4ssw0rd" + "@db.invalid:5432/core", "w0rdp4ssw0rd"),
    ("url without user", "redis://:" + "p4ss" + "w0rdp4ssw0rd" + "@db.invalid", "w0rdp4ssw0rd"),
    ("json", '{"password": "' + "hun" + 'ter22hunter"}', "ter22hunter"),
    ("json with a star", '{"password": "' + "h*" + 'VD4VXSDr"}', "VD4VXSDr"),
    ("json key", '{"client_secret":"' + MIXED + '", "a": 1}', MIXED[-12:]),
    ("python", "{'api_key': '" + MIXED + "'}", MIXED[-12:]),
    ("subscript", 'c["token"] = "' + MIXED + '"', MIXED[-12:]),
    ("pem", key_block(run(64)), "PRIVATE"),
    ("pem of many lines", key_block("\n".join(run(64) for _ in range(4))), "PRIVATE"),
    ("cut pem", key_block("\n".join(run(64) for _ in range(4)), closed=False), "PRIVATE"),
]
PATHS = [
    "/home/mira/work/plan.txt",
    "/Users/mira/plan.txt",
    "/root/.ssh/id_mira",
    "/mnt/share/mira/a.csv",
    "/media/mira/a.csv",
    "/opt/mira/a",
    "/srv/mira/a",
    "/workspace/mira/a.py",
    "/data/mira/a",
    "/tmp/mira.txt",
    "/private/var/mira",
    "/var/folders/zz/mira/T/x",
    "/home/mira/app/(group)/[id]/page.tsx",
    "/home/mira/naïve/日本.txt",
    "~/mira/plan.txt",
    "~mira/plan.txt",
    "file:///home/mira/plan.txt",
    "C:\\Users\\mira\\plan.txt",
    "D:\\temp\\mira\\x",
    "C:/Users/mira/plan.txt",
    "C:\\Program Files\\mira\\x.exe",
    "\\\\host01\\share\\mira\\plan.txt",
]
SPACED = [
    '"/home/a b/mira c/d"',
    "'/Users/mira/My Files/x.txt'",
    '"/home/mira/my file.txt"',
    '"C:\\My Files\\mira\\x.txt"',
]
PII = ["mira.okonkwo@mail.invalid", "+44 7700 900123", "192.168.17.4", "(555) 123-4567", "4111 1111 1111 1111"]
LOOKALIKES = [
    "STDOUT of the OUTDOOR probe",
    "os.environ['TZ'] and app.environment",
    "speed limitation of 40",
    "LogisticRegression(max_iterations=50)",
    "select source_url, listing, price from t",
    "rate limit reached, quota 3",
    "task-0123456789abcdefghijklmnop",
    "see ./tmp/cache and data/tmp/x",
    "the buyer asked the seller for a refund",
    "a deepseek checkpoint was loaded",
    "sha256:" + "ab12" * 16,
    "commit " + "ab12" * 10,
    "123e4567-e89b-12d3-a456-426614174000",
    "token count: 5",
    "max_tokens=4096",
    "tokens: 123",
    "the token: 2024-01-15",
    "password reset page",
    "rate /s and/or /v2/items",
    "~5 percent, a:b, at 10:30:00",
    "basic usage, bearer of news",
    "/app/text.txt and /usr/bin/env",
    "https://host/data/x and api/home/x",
    "https://host.invalid:8080/a@b",
    "s3://data/x/y and $HOME/tmp/x and ${ROOT}/data/x",
    "for k in x:\n    return\nif x:\n\tpass",
    "token: Token, secret: Uint8Array, password: str",
    "token = lexer.next_token()",
    "password = getpass()",
    "password=None, password=os.environ['X'], PASSWORD=$PW",
    "Bearer {token}",
    "Authorization: Bearer <token>",
    "sk-toggleable__label-arrow-wide",
    "hf_hub_download_of_some_thing",
    "re.compile('\\\\w+\\\\s') and \\begin{x}\\\\hline\\alpha and (?a:\\+)",
    '"key": "attempts/revised/artifacts/x1.csv"',
    "Token::Abc12345",
    "cache_key=abc12345def primary_key=id12345678",
    '{"token": "Hello", "logprob": -0.1}',
    '<input type="password" name="pw">',
    "HEAD~1/x, 1:/2 ratio, C: drive",
    "python 3.11.4, version 1.2.3 of x",
]
CONTEXTS = ["{}", "header seen: {}", "a\n{}\nb", 'x "{}" y', "('{}')", "see {}.", "\x1b[32m{}\x1b[0m", "<b>{}</b>"]
ENCODINGS = [lambda t: t, json.dumps, lambda t: json.dumps(json.dumps(t))]


def pass_over(text: str, *, pii: bool = False) -> tuple[str, dict[str, int]]:
    frame, counts = redact(pl.DataFrame({"t": [text]}), ["t"], pii=pii)
    return frame["t"][0], counts


def tokens(text: str) -> int:
    return pl.select(count_tokens(pl.lit(text))).item()


def still_dirty(frame: pl.DataFrame, *, pii: bool) -> pl.Series:
    return frame.select(dirty=pl.any_horizontal(residual("t", pii=pii).values()))["dirty"]


def assert_gone(texts: list[str], gone: str, *, pii: bool = False) -> None:
    """In all texts, each of which holds one hit."""
    frame = pl.DataFrame({"t": texts})
    assert still_dirty(frame, pii=pii).all()
    out, counts = redact(frame, ["t"], pii=pii)
    left = out.filter(pl.col("t").str.contains(gone, literal=True) | (count_tokens("t") != 1))
    assert left["t"].to_list() == []
    assert sum(counts.values()) == len(texts)
    again, more = redact(out, ["t"], pii=pii)
    assert (again["t"].to_list(), more) == (out["t"].to_list(), {})
    assert not still_dirty(out, pii=pii).any()


def everywhere(text: str, contexts: list[str]) -> list[str]:
    return [encode(context.replace("{}", text)) for context, encode in product(contexts, ENCODINGS)]


@pytest.mark.parametrize(("name", "text", "gone"), SECRETS, ids=[s[0] for s in SECRETS])
def test_secrets_go_in_every_context_and_encoding(name: str, text: str, gone: str) -> None:
    assert_gone(everywhere(text, CONTEXTS), gone)


@pytest.mark.parametrize("path", PATHS)
def test_private_paths_go(path: str) -> None:
    assert_gone(everywhere(path, CONTEXTS), "mira")


@pytest.mark.parametrize("path", SPACED)
def test_quoted_paths_with_spaces_go_whole(path: str) -> None:
    for encode in ENCODINGS:
        out, counts = pass_over(encode(f"open {path} now"))
        assert counts
        assert not {"mira", "Files", "file", "/d"} & set(
            out.replace("/", " /").replace('"', " ").replace("'", " ").split()
        )
        assert pass_over(out) == (out, {})


@pytest.mark.parametrize("value", PII)
def test_personal_data_goes_only_on_request(value: str) -> None:
    texts = everywhere(value, ["contact {}", "a\n{}\nb", "({})", "{}, next"])
    frame = pl.DataFrame({"t": texts})
    assert redact(frame, ["t"])[1] == {}
    assert_gone(texts, value, pii=True)
    assert pass_over(f"{value} {value}, {value}", pii=True)[0].count("<pii:") == 3


@pytest.mark.parametrize("pii", [False, True])
def test_lookalikes_stay(pii: bool) -> None:
    texts = [encode(f"see {text}\nnext") for text, encode in product(LOOKALIKES, ENCODINGS)]
    frame = pl.DataFrame({"t": texts})
    out, counts = redact(frame, ["t"], pii=pii)
    assert out["t"].to_list() == texts
    assert counts == {}
    assert not still_dirty(frame, pii=pii).any()


def test_the_ref_inside_a_private_path_is_kept() -> None:
    text = "read /home/mira/run/packages/p1/attempts/revised/artifacts/a.csv and ~/x/attempts/k/b.txt."
    out, _ = pass_over(text)
    assert out == "read <path:home>/packages/p1/attempts/revised/artifacts/a.csv and <path:home>/attempts/k/b.txt."


def test_what_stands_around_a_hit_stays() -> None:
    secret, path = SECRETS[0][1], PATHS[0]
    out, counts = pass_over(f"a={secret}; b='{path}':12, (see {path}) ünd\tend")
    assert out == "a=<secret:project_key>; b='<path:home>':12, (see <path:home>) ünd\tend"
    assert counts == {"path:home": 2, "secret:project_key": 1}


def test_neighbouring_hits_are_all_found() -> None:
    pair = f"password=x{'9z' * 5} token={MIXED} password=x{'8y' * 5}\n{PATHS[0]}:{PATHS[1]},{PATHS[2]}"
    out, counts = pass_over(pair)
    assert out == (
        "password=<secret:password> token=<secret:token> password=<secret:password>\n<path:home>:<path:home>,<path:home>"
    )
    assert sum(counts.values()) == 6


def test_columns_of_any_depth_and_clean_columns_untouched() -> None:
    secret = SECRETS[0][1]
    frame = pl.DataFrame(
        {
            "text": ["fine", None, secret],
            "names": [[], None, ["a", None, secret]],
            "calls": [[{"id": "1", "args": secret, "n": 1}, None], [], None],
            "deep": [{"x": {"y": ["q", secret]}}, None, {"x": None}],
            "clean": [["a"], ["b"], None],
        }
    )
    out, counts = redact(frame, frame.columns)
    token = "<secret:project_key>"
    assert counts == {"secret:project_key": 4}
    assert out.schema == frame.schema
    assert out["text"].to_list() == ["fine", None, token]
    assert out["names"].to_list() == [[], None, ["a", None, token]]
    assert out["calls"].to_list() == [[{"id": "1", "args": token, "n": 1}, None], [], None]
    assert out["deep"].to_list() == [{"x": {"y": ["q", token]}}, frame["deep"].to_list()[1], {"x": None}]
    assert out["clean"].to_list() == frame["clean"].to_list()
    same, none = redact(frame.select("clean"), ["clean"])
    assert (same["clean"].to_list(), none) == (frame["clean"].to_list(), {})


def test_roots_can_be_set() -> None:
    frame = pl.DataFrame({"t": ["/scratch/mira/x and /data/y/z"]})
    out, _ = redact(frame, ["t"], paths=path_rules({"work": ("scratch",)}))
    assert out["t"][0] == "<path:work> and /data/y/z"


def test_empty_frames_and_columns() -> None:
    frame = pl.DataFrame({"t": [], "l": []}, schema={"t": pl.String, "l": pl.List(pl.String)})
    assert redact(frame, ["t", "l"])[1] == {}


def test_every_prefilter_holds_whenever_its_pattern_does() -> None:
    texts = [t for _, t, _ in SECRETS] + PATHS + SPACED + PII
    frame = pl.DataFrame({"t": texts + [json.dumps(t) for t in texts]})
    for rule in rules(pii=True):
        missed = frame.filter(pl.col("t").str.contains(rule.pattern) & ~pl.col("t").str.contains(rule.near))
        assert missed.is_empty(), (rule.name, missed["t"].to_list())


# Words that could hide or fake a boundary, put around planted shapes.
WORDS = [*"ab1 \n\t\"'\\/:=.,;()[]{}<>@~-_%$é…", " the ", "token", "password", "://", "C:", "\\n", "/tmp/"]
NOISE = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)
PLANTS = st.sampled_from([t for _, t, _ in SECRETS] + PATHS + SPACED + PII)


PIECES = st.lists(st.tuples(NOISE, PLANTS), max_size=3).map(lambda parts: "".join(a + b for a, b in parts))
TEXTS = st.lists(
    st.builds(lambda a, b, e: e(a + b), PIECES, NOISE, st.sampled_from(ENCODINGS)), min_size=1, max_size=40
)


@settings(max_examples=30, deadline=None)
@given(TEXTS, st.booleans())
@example(["/home/a\\", "a@b.invalid/home/x", "1.1.1.1 1.1.1.1"], True)
def test_a_second_pass_finds_nothing(texts: list[str], pii: bool) -> None:
    frame = pl.DataFrame({"t": texts})
    out, counts = redact(frame, ["t"], pii=pii)
    again, more = redact(out, ["t"], pii=pii)
    assert (again["t"].to_list(), more) == (out["t"].to_list(), {})
    assert not still_dirty(out, pii=pii).any()
    assert (sum(counts.values()) == 0) == (out["t"].to_list() == texts)


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40),
    st.sampled_from(SECRETS[:8]),
    st.booleans(),
)
def test_text_before_and_after_stays(noise: str, shape: tuple[str, str, str], encoded: bool) -> None:
    before, after = f"{noise} ;\n", f"\n; {noise}"
    assume(not pass_over(before)[1] and not pass_over(after)[1] and not tokens(noise))
    out = (
        json.loads(pass_over(json.dumps(before + shape[1] + after))[0])
        if encoded
        else pass_over(before + shape[1] + after)[0]
    )
    assert out.startswith(before)
    assert out.endswith(after)
    assert tokens(out) == 1


def test_rows_do_not_depend_on_their_neighbours() -> None:
    texts = [t for _, t, _ in SECRETS] + PATHS + LOOKALIKES
    whole, _ = redact(pl.DataFrame({"t": texts}), ["t"])
    assert whole["t"].to_list() == [pass_over(t)[0] for t in texts]


def test_a_long_clean_text_passes_unchanged() -> None:
    text = "plain words, https://host.invalid/a?b=1 and {'a': [1, 2]}\n" * 40_000
    frame = pl.DataFrame({"t": [text] * 4})
    out, counts = redact(frame, ["t"])
    assert counts == {}
    assert out is frame
