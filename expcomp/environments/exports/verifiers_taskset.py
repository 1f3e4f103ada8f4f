"""The taskset of a verifiers export: one task a case, its tools answered by the package. Needs `verifiers`.

`python -m expcomp.environments.exports.verifiers_taskset` is the tool server of one rollout, as the library starts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as McpTool
from pydantic import Field, create_model

from expcomp.environments.exports.episode import Episode
from expcomp.environments.exports.opening import open_export
from expcomp.environments.exports.verifiers import TASKS
from expcomp.io.record_files import read_records


class Calls(vf.State):  # type: ignore[misc]
    """The calls of a rollout, in order."""

    calls: list[dict[str, Any]] = Field(default_factory=list)


class ToolsConfig(vf.ToolsetConfig):  # type: ignore[misc]
    """Where the export is."""

    folder: str = ""


class CaseConfig(vf.TaskConfig):  # type: ignore[misc]
    """Settings of a task."""

    tools: ToolsConfig = ToolsConfig()


class CaseData(vf.TaskData):  # type: ignore[misc]
    """A task: what is asked, and which case it is."""

    case_id: str


class WorldTools(vf.Toolset[ToolsConfig, Calls]):  # type: ignore[misc]
    """The actions of the package as tools; each rollout has a world of its own."""

    TOOL_PREFIX = None

    async def setup_task(self, task: CaseData) -> None:
        """Begin the case."""
        self._episode = Episode(open_export(self.config.folder))
        self._episode.begin(task.case_id)

    def register(self, mcp: Any) -> None:
        """Put the tools of the package in place of the server's own: their schemas are data, not signatures."""
        mcp.list_tools = self._with_state(self.list_tools)
        mcp.call_tool = self._with_state(self.call_tool)

    async def list_tools(self) -> list[McpTool]:
        """The actions."""
        return [
            McpTool(
                name=t["function"]["name"],
                description=t["function"].get("description"),
                input_schema=t["function"]["parameters"],
            )
            for t in self._episode.environment.tools
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> CallToolResult:
        """Play an action; one that cannot be answered is an error and changes nothing."""
        del context
        result = self._episode.step(name, arguments).result
        self.state.calls.append({"tool": name, "arguments": arguments})
        failed = result.route in ("abstain", "error")
        return CallToolResult(content=[TextContent(type="text", text=result.observation)], is_error=failed)


class CaseTask(vf.Task[CaseData, Calls, CaseConfig]):  # type: ignore[misc]
    """A case to solve."""

    @classmethod
    def toolsets(cls, config: CaseConfig) -> list[Any]:
        """The tools of the package."""
        return [WorldTools(config.tools)]

    @vf.reward(weight=1.0)  # type: ignore[untyped-decorator]
    async def solved(self, trace: Any) -> float:
        """The score of the calls against the case; parts that are known become metrics."""
        environment = open_export(self.config.tools.folder)
        environment.reset(self.data.case_id)
        for call in trace.state.calls:
            environment.step(call["tool"], call["arguments"])
        score = environment.score()
        environment.close()
        known = {"state": score.state, "calls": score.calls}
        trace.record_metrics({k: v for k, v in known.items() if v is not None})
        return 0.0 if score.reward is None else score.reward

    async def validate(self, runtime: Any) -> bool:
        """Whether the recorded calls solve the case."""
        del runtime
        environment = open_export(self.config.tools.folder)
        from expcomp.environments.exports.oracle import oracle_scores

        mine = environment.cases["case_id"] == self.data.case_id
        steps = environment.case_steps.filter(environment.case_steps["case_id"] == self.data.case_id)
        found = oracle_scores(environment.package, environment.cases.filter(mine), steps)
        return bool(found["reward"][0] == 1.0)


def taskset(folder: str | Path) -> type[Any]:
    """The taskset class of an export."""
    root = Path(folder).resolve()
    settings = CaseConfig(tools=ToolsConfig(folder=str(root)))
    config: Any = create_model("WorldConfig", __base__=vf.TasksetConfig, task=(CaseConfig, settings))

    class WorldTaskset(vf.Taskset[CaseTask, config]):  # type: ignore[misc]
        """One task a case."""

        def load(self) -> Iterator[CaseTask]:
            """The tasks, in order of their case."""
            for record in read_records(root / TASKS):
                data = CaseData(id=record["case_id"], case_id=record["case_id"], prompt=record["prompt"])
                yield CaseTask(data, self.config.task)

    return WorldTaskset


if __name__ == "__main__":
    WorldTools.run()
