"""Serving by a command: it gets the order on its standard input, and ends with a line of JSON that says what it serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from expcomp.io.canon import CanonError, digest, dumps
from expcomp.io.processes import PinnedExecutableError, open_executable, run_process
from expcomp.training.documents import Name, Sha256, to_wire
from expcomp.training.run.serving import Served, ServingError, ServingOrder
from expcomp.training.run.trainer import PinnedFile


class _Answer(msgspec.Struct, rename="camel"):
    model_id: Name
    artifact_digest: Sha256
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CommandServing:
    """A command that deploys a checkpoint, or checks one that is deployed.

    On standard input: the order with `artifactPath`. The last line that it writes: `modelId`, `artifactDigest` of what it verified itself,
    and `evidence`, an object whose digest goes into the receipt. It ends as a trainer does: no process of it is left, so what serves has to
    run elsewhere.
    """

    executable: PinnedFile
    args: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    loader: Sequence[str] = ()
    max_output_bytes: int = 1 << 20

    def publish(self, artifact: Path, order: ServingOrder, cancelled: Callable[[], bool]) -> Served:
        """Run the command.

        Raises:
            ServingError: It failed, or gave no such line.
        """
        try:
            with open_executable(self.executable.path, self.executable.digest) as program:
                result = run_process(
                    program,
                    self.args,
                    cwd=artifact.parent,
                    environment=self.environment,
                    stdin=dumps(to_wire(order) | {"artifactPath": str(artifact)}),
                    max_output=self.max_output_bytes,
                    cancelled=cancelled,
                    loader=self.loader,
                )
                program.verify()
        except PinnedExecutableError as error:
            raise ServingError(f"serving: {error}") from error
        if result.reason is not None:
            raise ServingError(f"serving: {result.words}", undone=result.reason == "not_started")
        try:
            answer = msgspec.json.decode(result.tail.strip().rpartition(b"\n")[2], type=_Answer)
            evidence = digest(answer.evidence)
        except (msgspec.DecodeError, CanonError) as error:
            raise ServingError(
                f"serving: its last line is {error}; expected JSON with modelId, artifactDigest and evidence"
            ) from error
        return Served(answer.model_id, answer.artifact_digest, evidence)
