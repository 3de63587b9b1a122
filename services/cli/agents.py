"""How each agent is pointed at the proxy: one line, or the lines of its configuration file.

The settings were seen working with the versions that `make test-agents` installs. `{base}` is the proxy's
address, `{model}` the model's name, `{key}` the proxy's token or any word where it has none.
"""

from typing import NamedTuple


class Agent(NamedTuple):
    """An agent's name, the file the text goes into (None: a command line), and the text."""

    name: str
    title: str
    file: str | None
    text: str


AGENTS = (
    Agent(
        "hermes",
        "Hermes",
        "~/.hermes/config.yaml",
        'model: {provider: custom, base_url: "{base}/v1", api_key: "{key}", default: "{model}"}',
    ),
    Agent(
        "claude",
        "Claude Code",
        None,
        "CLAUDE_CODE_ATTRIBUTION_HEADER=0 ANTHROPIC_BASE_URL={base} ANTHROPIC_AUTH_TOKEN={key} "
        "claude --model {model}",
    ),
    Agent(
        "codex",
        "Codex",
        "~/.codex/config.toml",
        'model = "{model}"\nmodel_provider = "metalanchor"\n[model_providers.metalanchor]\n'
        'name = "MetalAnchor"\nbase_url = "{base}/v1"\nwire_api = "responses"\n'
        'http_headers = { "X-MetalAnchor-Token" = "{key}" }',
    ),
    Agent(
        "opencode",
        "opencode",
        "~/.config/opencode/opencode.json",
        '{"model": "local/{model}", "small_model": "local/{model}", "provider": {"local": '
        '{"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "{base}/v1", "apiKey": "{key}"}, '
        '"models": {"{model}": {}}}}}',
    ),
    Agent(
        "openclaw",
        "OpenClaw",
        "~/.openclaw/openclaw.json",
        '{"models": {"mode": "merge", "providers": {"local": {"baseUrl": "{base}/v1", "apiKey": "{key}", '
        '"api": "openai-completions", "models": [{"id": "{model}", "name": "{model}", "input": ["text"], '
        '"contextWindow": 131072, "maxTokens": 8192}]}}}, '
        '"agents": {"defaults": {"model": {"primary": "local/{model}"}}}}',
    ),
    Agent(
        "pi",
        "Pi",
        "~/.pi/agent/models.json",
        '{"providers": {"local": {"baseUrl": "{base}/v1", "api": "openai-completions", "apiKey": "{key}", '
        '"models": [{"id": "{model}", "name": "{model}", "input": ["text"], "contextWindow": 131072, '
        '"maxTokens": 8192}]}}}',
    ),
    Agent("cline", "Cline", None, "cline auth -p openai-compatible -k {key} -m {model} -b {base}/v1"),
    Agent(
        "aider",
        "aider",
        None,
        "OPENAI_API_BASE={base}/v1 OPENAI_API_KEY={key} aider --model openai/{model}",
    ),
    Agent(
        "qwen",
        "Qwen Code",
        None,
        "OPENAI_BASE_URL={base}/v1 OPENAI_API_KEY={key} OPENAI_MODEL={model} qwen --auth-type openai",
    ),
    Agent(
        "vibe",
        "mistral-vibe",
        "~/.vibe/config.toml",
        'active_model = "local"\n[[providers]]\nname = "metalanchor"\napi_base = "{base}/v1"\n'
        'api_key_env_var = ""\n[[models]]\nname = "{model}"\nprovider = "metalanchor"\nalias = "local"',
    ),
    Agent(
        "open-webui",
        "Open WebUI",
        None,
        "OPENAI_API_BASE_URL={base}/v1 OPENAI_API_KEY={key} ENABLE_FORWARD_USER_INFO_HEADERS=true "
        "open-webui serve",
    ),
    Agent(
        "llm",
        "llm",
        '"$(dirname "$(llm logs path)")/extra-openai-models.yaml"',
        '- {model_id: local, model_name: "{model}", api_base: "{base}/v1", supports_tools: true}',
    ),
    Agent("openai", "any OpenAI client", None, "export OPENAI_BASE_URL={base}/v1 OPENAI_API_KEY={key}"),
    Agent(
        "anthropic",
        "any Anthropic client",
        None,
        "export ANTHROPIC_BASE_URL={base} ANTHROPIC_AUTH_TOKEN={key}",
    ),
    Agent("ollama", "any Ollama client", None, "export OLLAMA_HOST={base}"),
)
BY_NAME = {agent.name: agent for agent in AGENTS}


def text_for(agent: Agent, base: str, model: str, token: str | None) -> str:
    """The agent's text with this proxy's address, and with its token where it wants one."""
    kept = [line for line in agent.text.splitlines() if token or "X-MetalAnchor-Token" not in line]
    filled = "\n".join(kept)
    for name, value in (("base", base), ("model", model), ("key", token or "x")):
        filled = filled.replace("{" + name + "}", value)
    return filled
