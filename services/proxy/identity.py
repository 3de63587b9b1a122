"""Who sends a request: scope, session and agent, from its headers and body fields. Pure tables, no state.

What clients send was measured on real agents; the tables hold it, the code only walks them. Values that leave
here match `SAFE` or are their keyed hash; user and account ids are never read.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from services.proxy.flow import Identity
from services.proxy.key import keyed
from services.proxy.prompt import Hints, Prompt

SAFE = re.compile(r"[A-Za-z0-9._:-]{1,128}")
TENANT_HEADER = "x-metalanchor-tenant"

# Most specific first: an agent or thread before the session it belongs to, because sub-agents carry their
# parent's session id (Claude Code, Codex), and both before a cache key, which sub-agents of Codex also share.
SESSION_HEADERS: tuple[str, ...] = (
    "x-metalanchor-session",
    "x-claude-code-agent-id",
    "thread-id",
    "x-claude-code-session-id",
    "x-session-affinity",
    "x-opencode-session",
    "x-session-id",
    "session-id",
    "session_id",
    "x-affinity",
    "agent-session-id",
    "x-openwebui-chat-id",
    "x-conversation-id",
    "conversation_id",
    "x-task-id",
    "x-roo-task-id",
)
METADATA_KEYS: tuple[str, ...] = ("thread_id", "session_id")
CACHE_KEY = "prompt_cache_key"

# A cache key may be shared by all users of an application, so it names a session but proves no continuation.
WEAK_SOURCES = frozenset({CACHE_KEY, "lineage"})

# The product named first in the User-Agent, as it is on the wire; generic libraries are in LIBRARIES.
PRODUCTS: Mapping[str, str] = {
    "claude-cli": "claude-code",
    "codex_exec": "codex",
    "codex_cli_rs": "codex",
    "codex-tui": "codex",
    "codex_vscode": "codex",
    "opencode": "opencode",
    "qwencode": "qwen-code",
    "roocode": "roo",
    "cline": "cline",
    "goose": "goose",
    "zed": "zed",
    "openwebui": "open-webui",
    "open-webui": "open-webui",
    "aider": "aider",
    "continue": "continue",
    "hermes-agent": "hermes",
    "openclaw": "openclaw",
    "mistral-vibe": "vibe",
    "geminicli": "gemini-cli",
    "crush": "crush",
}
LIBRARIES: Mapping[str, str] = {
    "openai": "openai",
    "asyncopenai": "openai",
    "anthropic": "anthropic",
    "asyncanthropic": "anthropic",
    "ai-sdk": "ai-sdk",
    "ollama-python": "ollama",
    "ollama-js": "ollama",
    "ollama": "ollama",
    "python-httpx": "httpx",
    "python-requests": "requests",
    "python-urllib": "urllib",
    "aiohttp": "aiohttp",
    "axios": "axios",
    "node": "node",
    "node-fetch": "node",
    "undici": "node",
    "bun": "bun",
    "okhttp": "okhttp",
    "go-http-client": "go",
    "curl": "curl",
}

# (header, text that its value contains, agent); an empty text asks only that the header is there.
HEADER_AGENTS: tuple[tuple[str, str, str], ...] = (
    ("x-claude-code-session-id", "", "claude-code"),
    ("originator", "codex", "codex"),
    ("x-codex-window-id", "", "codex"),
    ("x-opencode-session", "", "opencode"),
    ("x-openwebui-chat-id", "", "open-webui"),
    ("x-openwebui-message-id", "", "open-webui"),
    ("x-title", "roo code", "roo"),
    ("x-title", "cline", "cline"),
    ("x-title", "aider", "aider"),
    ("x-title", "goose", "goose"),
    ("x-affinity", "", "vibe"),
    ("agent-session-id", "", "goose"),
)

# All headers that say something of who sends; whatever else a client writes is not looked at.
TELLING = frozenset(
    name.encode()
    for name in (
        *SESSION_HEADERS, *(header for header, _, _ in HEADER_AGENTS), TENANT_HEADER, "user-agent",
        "authorization", "x-api-key", "api-key",
    )
)  # fmt: skip

# First words of system prompts, for the agents that are anonymous on the wire.
SYSTEM_AGENTS: tuple[tuple[str, str], ...] = (
    ("You are Hermes Agent", "hermes"),
    ("Generate a short, descriptive title (3-7 words) for a conversation", "hermes"),
    ("running inside OpenClaw", "openclaw"),
    ("operating inside pi, a coding agent", "pi"),
    ("operating as and within Mistral Vibe", "vibe"),
    ("You are Cline, ", "cline"),
    ("You are Roo, ", "roo"),
    ("You are Qwen Code", "qwen-code"),
    ("You are Claude Code", "claude-code"),
    ("x-anthropic-billing-header: cc_version=", "claude-code"),
    ("You are opencode", "opencode"),
    ("You are Codex", "codex"),
    ("running in the Codex CLI", "codex"),
    ("agent called goose", "goose"),
    ("You are an expert assistant who can solve any task using code blobs", "smolagents"),
    ("You are an expert assistant who can solve any task using tool calls", "smolagents"),
    ("Act as an expert software developer", "aider"),
    ("Act as an expert code analyst", "aider"),
    ("Act as an expert architect engineer", "aider"),
    ("You are an expert software engineer that generates concise, one-line Git commit messages", "aider"),
)

# Sets of tool names that only one agent sends together; the first set that is wholly present decides.
TOOL_AGENTS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"skill_view", "skills_list", "session_search"}), "hermes"),
    (frozenset({"terminal", "read_file", "search_files", "patch"}), "hermes"),
    (frozenset({"sessions_spawn", "sessions_send"}), "openclaw"),
    (frozenset({"execute_command", "read_file", "attempt_completion"}), "cline"),
    (frozenset({"search_replace", "write_file", "bash", "grep", "todo"}), "vibe"),
    (frozenset({"final_answer"}), "smolagents"),
)

_CLAUDE_USER = re.compile(r"user_[0-9a-f]+_account_[0-9a-f-]*_session_([A-Za-z0-9-]+)")
_PRODUCT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:/([A-Za-z0-9._+-]+))?")
_VERSION = re.compile(r"v?\d[A-Za-z0-9._:-]{0,63}")


def identify(
    headers: Iterable[tuple[bytes, bytes]], prompt: Prompt | None, key: bytes, tenant_header: str | None
) -> Identity:
    """Scope, session and agent of a request; `session` stays None where the client names none."""
    extra = tenant_header.lower().encode() if tenant_header else None
    telling = [header for header in headers if (name := header[0].lower()) in TELLING or name == extra]
    sender = _sender(tuple(telling), key, tenant_header)
    source, session = sender.source, sender.session
    agent, version = sender.agent, sender.version
    if prompt is not None:
        if session is None:
            source, session = _hinted_session(prompt.hints)
        if not sender.certain:
            found = _from_system(prompt.hints.system_head) or _from_tools(prompt.hints.tool_names)
            agent, version = (found, None) if found else (agent, version)
    return Identity(
        scope=sender.scope,
        tenant=sender.tenant,
        session=clean(session, key) if session else None,
        session_source=source,
        agent=clean(agent, key) if agent else None,
        agent_version=version,
    )


class _Sender(NamedTuple):
    """What the headers say of who sends; `certain` where no body can say better who the agent is."""

    scope: str
    tenant: str | None
    source: str | None
    session: str | None
    agent: str | None
    version: str | None
    certain: bool


@lru_cache(maxsize=256)  # a client's headers are the same from turn to turn, those that tell something
def _sender(headers: tuple[tuple[bytes, bytes], ...], key: bytes, tenant_header: str | None) -> _Sender:
    named = _by_name(headers)
    tenant = _tenant(named, key, tenant_header)
    source = next((header for header in SESSION_HEADERS if named.get(header)), None)
    product, version = _product(named.get("user-agent", ""))
    agent, certain = PRODUCTS.get(product), True
    if agent is None and (agent := _from_headers(named)):
        version = None
    elif agent is None:
        agent, certain = LIBRARIES.get(product, product), False
    if not agent or agent == "mozilla":
        agent = version = None
    scope = keyed(key, "scope", _credential(named), tenant or "")
    return _Sender(scope, tenant, source, named[source] if source else None, agent, version, certain)


def clean(value: str, key: bytes) -> str:
    """`value` where it is safe in headers, logs and rows, else its keyed hash."""
    return value if SAFE.fullmatch(value) else keyed(key, "value", value)


def _by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name; of a repeated one the first counts."""
    named: dict[str, str] = {}
    for name, value in headers:
        named.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "surrogateescape").strip())
    return named


def _credential(named: Mapping[str, str]) -> str:
    """The secret itself, whichever header carries it, so that two spellings of one key are one scope."""
    authorization = named.get("authorization", "")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return authorization or named.get("x-api-key") or named.get("api-key") or ""


def _tenant(named: Mapping[str, str], key: bytes, header: str | None) -> str | None:
    value = (named.get(header.lower()) if header else None) or named.get(TENANT_HEADER)
    return clean(value, key) if value else None


def _hinted_session(hints: Hints) -> tuple[str | None, str | None]:
    if value := _claude_session(hints.user_id):
        return "metadata.user_id", value
    for name in METADATA_KEYS:
        if value := (hints.client_metadata or {}).get(name):
            return f"client_metadata.{name}", value
    return (CACHE_KEY, hints.prompt_cache_key) if hints.prompt_cache_key else (None, None)


def _claude_session(user_id: str | None) -> str | None:
    """The session inside `metadata.user_id`, in its text form or its JSON form; never the user."""
    if not user_id:
        return None
    if found := _CLAUDE_USER.fullmatch(user_id):
        return found[1]
    if user_id.startswith("{"):
        try:
            fields = msgspec.json.decode(user_id, type=dict[str, object])
        except msgspec.DecodeError:
            return None
        session = fields.get("session_id")
        return session if isinstance(session, str) and session else None
    return None


def _product(user_agent: str) -> tuple[str, str | None]:
    """The first product of a User-Agent, lower-case, and its version where it has the shape of one.

    The OpenAI SDKs write ``OpenAI/Python 2.1``: there the word after the slash is the language.
    """
    found = _PRODUCT.match(user_agent)
    if not found:
        return "", None
    name, version = found[1].lower(), found[2]
    if version and not _VERSION.fullmatch(version):
        rest = user_agent[found.end() :].split()
        version = rest[0] if rest and _VERSION.fullmatch(rest[0]) else None
    return name, version if version and SAFE.fullmatch(version) else None


def _from_headers(named: Mapping[str, str]) -> str | None:
    for header, text, agent in HEADER_AGENTS:
        value = named.get(header)
        if value is not None and text in value.lower():
            return agent
    return None


def _from_system(head: str) -> str | None:
    return next((agent for words, agent in SYSTEM_AGENTS if words in head), None)


def _from_tools(names: tuple[str, ...]) -> str | None:
    present = set(names)
    return next((agent for needed, agent in TOOL_AGENTS if needed <= present), None)
