"""Who sends: scope, session and agent of a request, from headers and body fields as real agents send them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.identity import SAFE, clean, identify
from services.proxy.prompt import Hints, Prompt

KEY = bytes(range(32))


def who(headers=None, *, tenant_header=None, key=KEY, **hints):
    prompt = Prompt(dialect="d", kind="generation", model="m", stream=True, hints=Hints(**hints))
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return identify(pairs, prompt, key, tenant_header)


# Scope


def test_the_scope_is_the_credential_whichever_header_carries_it():
    bearer = who({"Authorization": "Bearer secret"}).scope
    assert who({"authorization": "bearer secret"}).scope == bearer
    assert who({"x-api-key": "secret"}).scope == bearer
    assert who({"api-key": "secret"}).scope == bearer


def test_scopes_differ_between_credentials_tenants_and_installations_and_hide_them():
    scopes = [
        who().scope,
        who({"Authorization": "Bearer a"}).scope,
        who({"Authorization": "Bearer b"}).scope,
        who({"Authorization": "Basic a"}).scope,
        who({"Authorization": "Bearer a", "X-MetalAnchor-Tenant": "t"}).scope,
        who({"Authorization": "Bearer a"}, key=bytes(32)).scope,
    ]
    assert len(set(scopes)) == len(scopes)
    assert all(len(scope) == 32 for scope in scopes)


def test_a_tenant_narrows_the_credential_and_never_replaces_it():
    with_a = who({"Authorization": "Bearer a", "X-Team": "red"}, tenant_header="X-Team")
    with_b = who({"Authorization": "Bearer b", "X-Team": "red"}, tenant_header="X-Team")
    assert with_a.tenant == with_b.tenant == "red"
    assert with_a.scope != with_b.scope


# Session


@pytest.mark.parametrize(
    ("headers", "hints", "source", "session"),
    [
        ({"X-MetalAnchor-Session": "mine", "thread-id": "t"}, {}, "x-metalanchor-session", "mine"),
        (
            {"x-claude-code-agent-id": "a1", "X-Claude-Code-Session-Id": "s"},
            {},
            "x-claude-code-agent-id",
            "a1",
        ),
        (
            {"X-Claude-Code-Session-Id": "s"},
            {"user_id": '{"session_id":"j"}'},
            "x-claude-code-session-id",
            "s",
        ),
        (
            {"session-id": "parent", "thread-id": "child"},
            {"prompt_cache_key": "parent"},
            "thread-id",
            "child",
        ),
        ({"x-session-affinity": "ses_1", "x-session-id": "ses_1"}, {}, "x-session-affinity", "ses_1"),
        ({"x-affinity": "uuid"}, {}, "x-affinity", "uuid"),
        ({"session_id": "pi"}, {"prompt_cache_key": "pi"}, "session_id", "pi"),
        ({"X-OpenWebUI-Chat-Id": "chat", "X-OpenWebUI-User-Id": "u"}, {}, "x-openwebui-chat-id", "chat"),
        ({"agent-session-id": "goose"}, {}, "agent-session-id", "goose"),
        ({}, {"user_id": '{"device_id":"d","account_uuid":"","session_id":"j"}'}, "metadata.user_id", "j"),
        ({}, {"user_id": "user_" + "a" * 64 + "_account__session_0f-1e"}, "metadata.user_id", "0f-1e"),
        ({}, {"client_metadata": {"session_id": "s", "thread_id": "t"}}, "client_metadata.thread_id", "t"),
        ({}, {"prompt_cache_key": "s9:0"}, "prompt_cache_key", "s9:0"),
        ({}, {}, None, None),
        ({}, {"user_id": "somebody@example.org"}, None, None),
        ({}, {"user_id": '{"session_id":7}'}, None, None),
        ({}, {"user_id": "{broken"}, None, None),
        ({"traceparent": "00-abc-def-01", "x-client-request-id": "r"}, {}, None, None),
    ],
)
def test_the_most_specific_id_names_the_session(headers, hints, source, session):
    found = who(headers, **hints)
    assert (found.session_source, found.session) == (source, session)


def test_header_names_are_case_insensitive_and_of_a_repeated_one_the_first_counts():
    pairs = [(b"THREAD-ID", b"one"), (b"thread-id", b"two")]
    assert identify(pairs, None, KEY, None).session == "one"


@given(st.text(max_size=300))
def test_any_value_leaves_safe(value):
    cleaned = clean(value, KEY)
    assert SAFE.fullmatch(cleaned)
    assert cleaned == value or len(cleaned) == 32


@given(st.binary(max_size=60).filter(bytes.strip), st.text(max_size=60))
def test_whatever_is_sent_what_leaves_is_safe(header, cache_key):
    names = [b"x-metalanchor-session", b"x-metalanchor-tenant", b"user-agent", b"authorization"]
    prompt = Prompt(
        dialect="d", kind="generation", model="m", stream=True, hints=Hints(prompt_cache_key=cache_key)
    )
    found = identify([(name, header) for name in names], prompt, KEY, None)
    for value in (found.scope, found.tenant, found.session, found.agent, found.agent_version):
        assert value is None or SAFE.fullmatch(value)


# Agent


@pytest.mark.parametrize(
    ("user_agent", "agent", "version"),
    [
        ("claude-cli/2.1.332 (external, sdk-cli)", "claude-code", "2.1.332"),
        ("codex_exec/0.171.0 (Debian 12) xterm (codex_exec; 0.171.0)", "codex", "0.171.0"),
        ("opencode/1.18.33 ai-sdk/provider-utils/3.0 runtime/bun/1.3", "opencode", "1.18.33"),
        ("QwenCode/0.24.4 (linux; x64)", "qwen-code", "0.24.4"),
        ("RooCode/3.2", "roo", "3.2"),
        ("OpenAI/Python 3.57.0", "openai", "3.57.0"),
        ("Anthropic/JS 0.60.0", "anthropic", "0.60.0"),
        ("python-httpx/0.28.1", "httpx", "0.28.1"),
        ("some-tool/1.0", "some-tool", "1.0"),
        ("Mozilla/5.0 (X11; Linux)", None, None),
        ("", None, None),
        ("///", None, None),
    ],
)
def test_the_user_agent_names_the_agent(user_agent, agent, version):
    found = who({"User-Agent": user_agent})
    assert (found.agent, found.agent_version) == (agent, version)


@pytest.mark.parametrize(
    ("agent", "user_agent", "head"),
    [
        ("hermes", "OpenAI/Python 2.1.0", "You are Hermes Agent, an intelligent AI assistant created by"),
        (
            "hermes",
            "OpenAI/Python 2.1.0",
            "Generate a short, descriptive title (3-7 words) for a conversation that",
        ),
        ("aider", "OpenAI/Python 2.1.0", "Act as an expert software developer.\nAlways use best practices"),
        (
            "smolagents",
            "OpenAI/Python 3.57.0",
            "You are an expert assistant who can solve any task using code blobs.",
        ),
        (
            "pi",
            "OpenAI/JS 6.1",
            "You are an expert coding assistant operating inside pi, a coding agent harness.",
        ),
        ("openclaw", "OpenAI/JS 6.1", "You are a personal assistant running inside OpenClaw."),
        ("vibe", "python-httpx/0.28.1", "You are operating as and within Mistral Vibe, a CLI coding-agent"),
        ("cline", "ai-sdk/openai-compatible/1.0", "You are Cline, a highly skilled software engineer"),
    ],
)
def test_an_anonymous_agent_is_known_by_the_first_words_of_its_system_prompt(agent, user_agent, head):
    found = who({"User-Agent": user_agent}, system_head=head)
    assert (found.agent, found.agent_version) == (agent, None)


def test_an_anonymous_agent_is_known_by_its_tools():
    found = who(
        {"User-Agent": "OpenAI/Python 2"}, tool_names=("terminal", "read_file", "search_files", "patch", "x")
    )
    assert found.agent == "hermes"
    assert who({"User-Agent": "OpenAI/Python 2"}, tool_names=("read_file",)).agent == "openai"


@pytest.mark.parametrize(
    ("headers", "agent"),
    [
        ({"originator": "codex_cli_rs"}, "codex"),
        ({"X-OpenWebUI-Chat-Id": "c"}, "open-webui"),
        ({"X-Title": "Roo Code", "User-Agent": "OpenAI/JS 6"}, "roo"),
        ({"x-affinity": "u", "User-Agent": "python-httpx/0.28.1"}, "vibe"),
    ],
)
def test_other_headers_name_the_agent(headers, agent):
    assert who(headers).agent == agent


def test_user_and_account_ids_appear_nowhere():
    private = {"X-OpenWebUI-User-Id": "u-77", "X-OpenWebUI-User-Email": "me@example.org"}
    found = who(private, user_id=json.dumps({"account_uuid": "acc-77", "session_id": "s"}))
    assert "77" not in "".join(filter(None, (found.session, found.agent, found.tenant)))
