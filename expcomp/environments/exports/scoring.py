"""Scoring a session that was played elsewhere, as a verifier does: only its calls are believed."""

from __future__ import annotations

from pathlib import Path

from expcomp.environments.cases import read_cases
from expcomp.environments.core import Environment, Score
from expcomp.environments.folder import open_package
from expcomp.environments.session import FILE, open_session
from expcomp.errors import PackageIntegrityError, UsageError
from expcomp.io.documents import json_document
from expcomp.io.text_files import replace_texts


def score_session(
    package: Path, cases: Path, session: Path, *, case_id: str | None = None, artifact_digest: str | None = None
) -> Score:
    """Play the calls of a session again from the state of the case, and score that.

    A session that was never begun made no call.

    Args:
        package: Folder of the package the session was played with.
        cases: Replay cases, JSON lines.
        session: Folder of the session.
        case_id: Which of the cases; None: the only one.
        artifact_digest: What the package must have.

    Raises:
        PackageIntegrityError: The package is damaged, or another one.
        SessionError: The session belongs to another package.
        UsageError: No such case, or several and none is named.
    """
    made = open_package(package)
    if artifact_digest is not None and made.artifact_digest != artifact_digest:
        raise PackageIntegrityError(f"{package}: artifact digest {made.artifact_digest}, expected {artifact_digest}")
    frames = read_cases(cases)
    env = Environment(made, cases=frames[0], steps=frames[1], allow_unvalidated=True)
    if case_id is None and len(env.case_ids) != 1:
        raise UsageError(f"{cases}: {len(env.case_ids)} cases; say which one with case_id")
    env.reset(case_id or env.case_ids[0])
    if (session / FILE).is_file():
        played = open_session(made, session, allow_unvalidated=True)
        for turn in played.turns:
            env.step(turn.action, turn.arguments)
        played.close()
    found = env.score()
    env.close()
    return found


def known(score: Score) -> dict[str, float]:
    """The parts of a score that are known."""
    parts = {"reward": score.reward, "state": score.state, "calls": score.calls}
    return {k: v for k, v in parts.items() if v is not None}


def write_score(score: Score, folder: Path) -> None:
    """Write `reward.txt` (a number; 0 when there was nothing to score) and `score.json` (the parts that are known).

    Raises:
        OutputError: They cannot be written.
    """
    reward = 0.0 if score.reward is None else score.reward
    replace_texts(folder, {"reward.txt": f"{reward}\n", "score.json": json_document(known(score))})
