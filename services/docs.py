"""Writes the tables of the documentation from the code they describe: ``python -m services.docs``.

A page holds ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; what stands between them is replaced. With
``--check`` nothing is written and the exit code says whether a page is out of date (a test asks the same).
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from services.cli import COMMANDS, cli
from services.cli.agents import AGENTS, text_for
from services.history.ready import QUERIES
from services.proxy.admin import cache_metrics, counters
from services.proxy.admin.metrics import Metrics, outbox_families, state_families
from services.settings import FILE_ONLY, HELP, PREFIX, Settings

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/architecture.md",
    "docs/cli.md",
    "docs/headers.md",
    "docs/metrics.md",
    "docs/queries.md",
    "docs/settings.md",
)
BLOCK = re.compile(r"(?s)<!-- begin ([a-z-]+) -->\n.*?<!-- end \1 -->")
BASE = "http://127.0.0.1:8084"

RESPONSE_HEADERS = {
    "Request-Id": "The request's id, a UUIDv7: for `metalanchor explain ID` and the API.",
    "Hit": "`exact`, `prefix`, `system+tools`, `system_only`, `tools_only` or `none`: what was seen before.",
    "Reuse": "Predicted share of the prompt that the engine can reuse, 0.0000 to 1.0000.",
    "Reused-Chunks": "Leading chunks equal to those of the request it is compared with.",
    "Chunks": "Chunks of this prompt: parameters, tools, system, then one a message.",
    "TTFT-ms": "Time to first token; present when that came with or before the first body byte.",
    "Session": "The client's own session id, else the lineage.",
    "Cause": "The first cause of lost reuse known when the headers leave.",
    "Cached-Tokens": "Tokens the engine says it reused; non-streamed answers only.",
    "Fix": "Fixes that were switched on and applied to this request, such as `breakpoint:system`.",
    "Cache": "Response cache: `hit`, `semantic`, `miss` or `bypass:REASON`.",
    "Error": "Code of an error of the proxy's own; an answer without it is the backend's.",
}
REQUEST_HEADERS = {
    "Token": "The proxy's token, where one is set; also accepted as Bearer or x-api-key.",
    "Session": "Names the session, before every other sign.",
    "Tenant": "Narrows who shares hits, where tenants are used.",
    "Namespace": "Keeps cached answers apart, as `namespace=` of the next one.",
    "Cache-Control": (
        "What is asked of the response cache: `no-cache`, `no-store`, `only-if-cached`, `ttl=S`, "
        "`namespace=N`, `tag=T`, `warm` (store the answer, count nothing)."
    ),
}


def settings_table() -> str:
    """Each setting with its default and meaning."""
    rows = []
    for name, default in zip(Settings.__struct_fields__, _defaults(), strict=True):
        variable = f"`[[{name}]]`" if name in FILE_ONLY else f"`{PREFIX}{name.upper()}`"
        rows.append((variable, f"`{name}`", default, HELP[name]))
    return table(("variable", "in metalanchor.toml", "default", "meaning"), rows)


def _defaults() -> Iterator[str]:
    settings = Settings()
    for name in Settings.__struct_fields__:
        value = getattr(settings, name)
        if name == "data_dir":
            yield "the platform's data folder"
        elif value is None or value == ():
            yield ""
        else:
            yield f"`{str(value).lower() if isinstance(value, bool) else value}`"


def commands_text() -> str:
    """The help of each command as it prints it."""
    parts: list[str] = []
    with click.Context(cli, info_name="metalanchor", **cli.context_settings) as parent:
        for name in COMMANDS:
            command = cli.get_command(parent, name)
            assert command is not None
            parts += _helps(command, name, parent)
    return "\n\n".join(parts)


def _helps(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=80, max_content_width=80)
    heading = context.command_path.removeprefix("metalanchor ")
    yield f"### {heading}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            inner = command.get_command(context, below)
            assert inner is not None
            yield from _helps(inner, below, context)


def response_headers_table() -> str:
    """The headers that the proxy adds to answers."""
    return _headers_table(RESPONSE_HEADERS)


def request_headers_table() -> str:
    """The request headers that the proxy reads and never forwards."""
    return _headers_table(REQUEST_HEADERS)


def _headers_table(headers: dict[str, str]) -> str:
    return table(("header", "meaning"), [(f"`X-MetalAnchor-{name}`", text) for name, text in headers.items()])


def metrics_table() -> str:
    """Every metric family with its type, labels and help text."""
    metrics = Metrics()
    metrics.attach(lambda: [*outbox_families(_Everything()), *state_families(_Everything())])
    metrics.attach(lambda: [*counters.families((), None), *cache_metrics.families(None, {})])
    rows = []
    for family in sorted(metrics.registry.collect(), key=lambda found: found.name):
        if family.name.startswith("metalanchor_process_"):
            continue  # read from /proc: which there are depends on the system
        name = family.name + ("_total" if family.type == "counter" else "")
        rows.append((f"`{name}`", family.type, family.documentation))
    return table(("metric", "type", "meaning"), rows)


class _Everything(dict[str, Any]):
    """A status in which every figure exists, so that every family is shown."""

    def __missing__(self, key: str) -> Any:
        return 0 if key in NUMBERS else _Everything()

    def get(self, key: str, default: Any = None) -> Any:
        return 0 if key in NUMBERS else default


NUMBERS = frozenset(
    {"depth", "bytes", "oldest_s", "records", "open", "recovered", "unjournalled", "lineages", "requests"}
)


def agents_text() -> str:
    """How each agent is pointed at the proxy."""
    parts = []
    for agent in AGENTS:
        where = f", in `{agent.file}`" if agent.file else ""
        text = text_for(agent, BASE, "MODEL", None)
        parts.append(f"**{agent.title}**{where}:\n\n```text\n{text}\n```")
    return "\n\n".join(parts)


def queries_text() -> str:
    """The ready queries as they stand, each with its question and the command that runs it."""
    parts = [
        f"### {ready.title}\n\n`metalanchor query --ready {ready.name}`\n\n```sql\n{ready.sql}\n```"
        for ready in QUERIES
    ]
    return "\n\n".join(parts)


def modules_text() -> str:
    """The tree of modules, each with the first sentence it says of itself."""
    lines = []
    for path in sorted((ROOT / "services").rglob("*.py"), key=_tree_order):
        depth = len(path.relative_to(ROOT).parts) - 1
        if path.name == "__init__.py":
            depth -= 1
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        first = re.split(r"[.:;](?:\s|$)", " ".join(said.split()), maxsplit=1)[0]
        name = f"{path.parent.name}/" if path.name == "__init__.py" else path.name
        lines.append(f"{'  ' * depth}{name:<{30 - 2 * depth}} {first}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```"


def _tree_order(path: Path) -> list[tuple[bool, str]]:
    """Modules before packages, and a package's own file before what is in it."""
    *folders, name = path.relative_to(ROOT).parts
    return [*((True, folder) for folder in folders), (False, "" if name == "__init__.py" else name)]


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "commands": commands_text,
    "response-headers": response_headers_table,
    "request-headers": request_headers_table,
    "metrics": metrics_table,
    "agents": agents_text,
    "queries": queries_text,
    "modules": modules_text,
}


def render(page: str) -> str:
    """A page with its generated blocks made anew; raises `KeyError` for a block nobody makes."""
    return BLOCK.sub(lambda m: f"<!-- begin {m[1]} -->\n\n{BLOCKS[m[1]]()}\n\n<!-- end {m[1]} -->", page)


def main(arguments: list[str]) -> int:
    """Write all pages, or check them; the exit code."""
    stale = []
    for name in PAGES:
        path = ROOT / name
        old = path.read_text("utf-8")
        new = render(old)
        if new != old:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(new, "utf-8")
    for name in stale:
        click.echo(f"{name} {'is out of date' if '--check' in arguments else 'written'}")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
