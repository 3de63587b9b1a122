"""Which requests have an answer that is theirs alone to give: those whose body says all of it. Pure."""

from collections.abc import Mapping
from typing import Any

# Members that refer to what the server keeps and may change. So does a `prompt` that is an object: a template
# of the Responses API.
STATEFUL = ("conversation", "background", "container")
# Tools that the server runs by itself, whose results are of the moment.
HOSTED = (
    "web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "mcp", "image_generation",
)  # fmt: skip


def refusal(body: Mapping[str, Any]) -> str | None:
    """Why an equal request may be due another answer: ``stateful`` or ``hosted_tools``; None where not."""
    if any(body.get(name) for name in STATEFUL) or isinstance(body.get("prompt"), dict):
        return "stateful"
    if body.get("mcp_servers") or body.get("web_search_options") is not None:
        return "hosted_tools"
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and str(tool.get("type")).startswith(HOSTED):
            return "hosted_tools"
    return None
