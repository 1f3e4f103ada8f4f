"""An OpenEnv environment: a folder that serves the package over HTTP and websockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from expcomp.environments.exports.bundle import Bundle, LeftOut, put_cases, put_package
from expcomp.environments.exports.texts import IMAGE, WHEELS, module_name, pyproject, quoted, requirement, slug
from expcomp.environments.overview import tool_schemas
from expcomp.environments.records import Frames
from expcomp.io.documents import json_document
from expcomp.io.text_files import write_texts

PORT = 8000
NEEDS = "openenv-core[core]>=0.3"

APP = f'''"""The application that OpenEnv serves."""

from pathlib import Path

from expcomp.environments.exports.openenv_server import application

app = application(Path(__file__).resolve().parents[1])


def main(host: str = "0.0.0.0", port: int = {PORT}) -> None:
    """Serve."""
    import uvicorn

    uvicorn.run(app, host=host, port=port)


if __name__ == "__main__":
    main()
'''

CLIENT = '''"""Client of the environment: `list_tools()`, `reset(case_id=...)`, `call_tool(name, **arguments)`."""

from openenv.core.mcp_client import MCPToolClient as WorldEnv

__all__ = ["WorldEnv"]
'''

DOCKERFILE = f"""FROM {IMAGE}
COPY . /app/env
# A wheel of expcomp in {WHEELS}/ is taken first.
RUN pip install --no-cache-dir --find-links /app/env/{WHEELS} "{requirement()}" "{NEEDS}"
WORKDIR /app/env
EXPOSE {PORT}
CMD ["uvicorn", "server.app:app", "--host", "0.0.0.0", "--port", "{PORT}"]
"""


def action_schema(frames: Frames) -> dict[str, Any]:
    """JSON Schema of an action: a call of one of the tools, with its arguments, or `type` list_tools."""
    calls = [
        {
            "type": "object",
            "properties": {
                "type": {"const": "call_tool"},
                "tool_name": {"const": tool["name"]},
                "arguments": tool["parameters"],
            },
            "required": ["tool_name", *(["arguments"] if tool["parameters"]["required"] else [])],
        }
        for tool in (t["function"] for t in tool_schemas(frames))
    ]
    listing = {"type": "object", "properties": {"type": {"const": "list_tools"}}, "required": ["type"]}
    # A call needs its tool, the listing its type: every action fits one alternative.
    return {"title": "Action", "anyOf": [*calls, listing]}


def write_openenv(made: Bundle, staging: Path) -> LeftOut:
    """Write the folder; every case may be reset to."""
    put_package(made, staging)
    put_cases(made, staging)
    write_texts(staging, _files(made))
    return {}


def _files(made: Bundle) -> Iterator[tuple[str, str]]:
    config = made.package.config
    name = module_name(config.environment_id)
    about = config.description or f"Environment package {config.environment_id}"
    yield (
        "openenv.yaml",
        f"spec_version: 1\nname: {name}\ntype: space\nruntime: fastapi\napp: server.app:app\nport: {PORT}\n",
    )
    scripts = f"\n[project.scripts]\nserver = {quoted(f'{name}.server.app:main')}\n"
    yield "pyproject.toml", pyproject(f"openenv-{slug(name)}", about, [requirement(), NEEDS], name, scripts)
    yield "__init__.py", ""
    yield "client.py", CLIENT
    yield "action_schema.json", json_document(action_schema(made.package.frames))
    yield "server/__init__.py", ""
    yield "server/app.py", APP
    yield "server/Dockerfile", DOCKERFILE
    readme = (
        f"# {config.name or config.environment_id}\n\n{about}\n\n"
        f"Artifact digest `{made.package.artifact_digest}`, {made.cases.height:,} cases.\n\n"
        f"`uvicorn server.app:app --port {PORT}` serves it; `reset` takes case_id, initial_state or seed.\n"
    )
    yield "README.md", readme
