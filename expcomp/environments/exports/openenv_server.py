"""The server of an OpenEnv export: an HTTP and websocket application around one package. Needs `openenv-core`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment as Server
from openenv.core.env_server.mcp_types import (
    CallToolObservation,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

from expcomp.environments.exports.episode import MAX_STEPS, Episode
from expcomp.environments.exports.openenv import action_schema
from expcomp.environments.exports.opening import open_export
from expcomp.environments.package import EnvironmentPackage

SESSIONS = 64
"""Websocket sessions at once."""


def application(folder: str | Path, *, max_steps: int = MAX_STEPS, max_concurrent_envs: int = SESSIONS) -> Any:
    """The FastAPI application of an export.

    Raises:
        PackageIntegrityError: A file of the package is missing, changed or unlisted.
    """
    root = Path(folder)
    package = open_export(root).package  # a damaged package stops the server, not the first request
    return create_app(
        lambda: PackageServer(root, max_steps=max_steps),
        call_type(package),
        CallToolObservation,
        env_name=package.config.environment_id,
        max_concurrent_envs=max_concurrent_envs,
    )


def call_type(package: EnvironmentPackage) -> type[Action]:
    """The action: a call of a tool, or the request to list them. Its JSON Schema is that of the package."""
    schema = action_schema(package.frames)

    class Call(Action):  # type: ignore[misc]
        """A call of a tool, or `type` list_tools."""

        type: Literal["call_tool", "list_tools"] = "call_tool"
        tool_name: str = ""
        arguments: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            """The schema of the package."""
            del args, options
            return dict(schema)

    return Call


class PackageServer(Server):  # type: ignore[misc]
    """One episode. `reset` takes case_id or initial_state; a step before a reset begins the first case."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, folder: Path, *, max_steps: int = MAX_STEPS) -> None:
        super().__init__()
        self._environment = open_export(folder)
        self._episode = Episode(self._environment, max_steps=max_steps)
        self._id: str | None = None
        self._begun = False

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        case_id: str | None = None,
        initial_state: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Observation:
        """Begin an episode; the observation lists the tools.

        Args:
            seed: Draws the case when none is named; without a seed it is the first.
            episode_id: Name of the episode; by default that of the case.
            case_id: Case to begin.
            initial_state: State to begin from in place of a case.
            options: Taken for the sake of the interface.
        """
        del options
        chance = None if seed is None else random.Random(seed)  # noqa: S311 - a draw, no secret
        draw = (lambda n: 0) if chance is None else chance.randrange
        self._episode.begin(case_id, initial_state=initial_state, draw=draw)
        self._begun, self._id = True, episode_id or self._environment.case_id
        return self._listed(case_id=self._environment.case_id)

    def step(self, action: Any, timeout_s: float | None = None, **options: Any) -> Observation:
        """Call a tool; what cannot be answered is told in the result and changes nothing."""
        del timeout_s, options
        if action.type == "list_tools":
            return self._listed()
        if not self._begun:
            self.reset()
        taken = self._episode.step(action.tool_name, action.arguments)
        return CallToolObservation(
            tool_name=action.tool_name,
            result=taken.result.observation,
            done=taken.terminated or taken.truncated,
            reward=taken.reward,
        )

    def _listed(self, **metadata: Any) -> Observation:
        tools = [
            Tool(
                name=t["function"]["name"],
                description=t["function"].get("description", ""),
                input_schema=t["function"]["parameters"],
            )
            for t in self._environment.tools
        ]
        return ListToolsObservation(tools=tools, metadata=metadata)

    @property
    def state(self) -> State:
        """The state of the episode: `state` is that of the world, None before it began."""
        now = self._environment.state if self._begun else None
        return State(episode_id=self._id, step_count=self._episode.steps, case_id=self._environment.case_id, state=now)

    def get_metadata(self) -> EnvironmentMetadata:
        """Name and description of the package."""
        config = self._environment.package.config
        return EnvironmentMetadata(
            name=config.environment_id,
            description=config.description or f"Environment package {config.environment_id}",
            version=self._environment.package.artifact_digest,
        )

    def close(self) -> None:
        """End the episode."""
        self._environment.close()
