"""Error classes of harnesses and what they mean for an attempt: data, so that a class is one line (R1, R2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """What an error says of an attempt.

    Attributes:
        status: Value of `attempts.status`.
        voids_reward: Whether a reward next to the error is not to be trusted.
    """

    status: str
    voids_reward: bool


_LIMIT = ErrorClass("limit", voids_reward=False)
_AGENT = ErrorClass("agent_error", voids_reward=False)
_CANCELLED = ErrorClass("cancelled", voids_reward=True)
_INFRA = ErrorClass("infra_error", voids_reward=True)

_NAMES = {
    _LIMIT: (
        # the agent ran out of something; harnesses may still grade what is there
        "AgentTimeoutError BudgetExceededError ContextLengthExceededError ContextWindowExceededError "
        "MaxStepsExceededError OutputLengthExceededError OutputTokenExceededError"
    ),
    _AGENT: (
        # the agent program or the model did something that cannot go on
        "AgentSafetyRefusalError APIResponseValidationError ContentPolicyViolationError NonZeroAgentExitCodeError"
    ),
    _CANCELLED: "CancelledError KeyboardInterrupt",
    _INFRA: (
        # provider
        "APIConnectionError APIError APIStatusError APITimeoutError ApiProviderResourceNotFoundError BadGatewayError "
        "BadRequestError ConflictError InternalServerError ModelNotFoundError NotFoundError RateLimitError "
        "ServiceUnavailableError Timeout UnprocessableEntityError UnsupportedModelParametersError "
        "UnsupportedParamsError "
        # authentication
        "AgentAuthenticationError AuthenticationError PermissionDeniedError VercelScopeError "
        # environment and set-up
        "AgentSetupTimeoutError DspyImportError EnvironmentBuildTimeoutError EnvironmentStartTimeoutError "
        "HealthcheckError MissingExtraError SandboxBuildFailedError ServiceOperationsUnsupportedError "
        # verifier and reward file
        "AddTestsDirError DownloadVerifierDirError RegradeError RewardFileEmptyError RewardFileNotFoundError "
        "VerifierOutputParseError VerifierTimeoutError"
    ),
}
ERRORS: dict[str, ErrorClass] = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_LAST_CLASS = re.compile(r"^(?:[A-Za-z_][\w]*\.)*([A-Za-z_]\w*)(?::|$)", re.MULTILINE)


def classify(error_type: str | None, *, graded: bool, table: Mapping[str, ErrorClass] = ERRORS) -> ErrorClass:
    """Meaning of an error class; an unknown one is the agent's if the attempt was graded, else infrastructure."""
    known = table.get((error_type or "").rsplit(".", 1)[-1])
    if known is not None:
        return known
    return _AGENT if graded else _INFRA


def class_in_traceback(traceback: str | None) -> str | None:
    """Class of the error at the end of a Python traceback, without its module."""
    if not traceback:
        return None
    # Lines of a message may look like a class; the class is the first unindented line after the last frame.
    tail = re.split(r"\n(?=\S)", traceback.strip())
    frames = [i for i, part in enumerate(tail) if part.startswith("Traceback")]
    candidates = tail[frames[-1] + 1 :] if frames else tail[-1:]
    for part in candidates:
        found = _LAST_CLASS.match(part)
        if found:
            return found.group(1)
    return None
