"""Asks a llama-server what its chat template writes around texts: tokens a prompt, a turn, a byte of schemas.

One question a template, off the request path: a few short prompts rendered and counted by the server itself,
nothing generated. Owns nothing; the watcher keeps the answer among a backend's facts, and a model's token
estimates start from it.
"""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from services.probe import connection_to

WORD = "Yes"  # its own tokens are counted apart and taken out
TIMEOUT_S = 5.0  # rendering and counting a line takes milliseconds, also beside a running prefill
ANSWER_MAX = 1 << 20


def template_of(url: str) -> dict[str, float] | None:
    """``constant``, ``turn`` and ``tools`` in tokens, as `tokens.Template`; None where it cannot be told.

    Blocking.
    """
    word = _count(url, WORD, special=False)
    plain = _prompt(url, _say("user"))
    couple = _prompt(url, _say("user"), _say("assistant"), _say("user"))
    if word is None or plain is None or couple is None:
        return None
    headed = _prompt(url, _say("system"), _say("user"))  # some templates refuse the role
    longer = [(couple - plain) / 2] + ([headed - plain] if headed is not None else [])
    turn = max(0.0, sum(longer) / len(longer) - word)
    return {
        "constant": max(0.0, plain - word - turn),
        "turn": round(turn, 2),
        "tools": _schemas(url, plain),
    }


def _schemas(url: str, plain: int) -> float:
    """Tokens a byte of tool schemas: what a second tool adds, since the first brings a preamble."""
    one, two = ([_tool(n) for n in range(count)] for count in (1, 2))
    counts = [_prompt(url, _say("user"), tools=tools) for tools in (one, two)]
    if counts[0] is None or counts[1] is None or counts[1] <= max(counts[0], plain):
        return 0.0
    return round((counts[1] - counts[0]) / len(_encoded(two[1])), 4)


def _prompt(url: str, *messages: dict[str, str], tools: list[dict[str, Any]] | None = None) -> int | None:
    """Tokens of the prompt that the template makes of messages."""
    body = {"messages": messages} | ({"tools": tools} if tools else {})
    rendered = _post(url, "/apply-template", body)
    text = rendered.get("prompt") if isinstance(rendered, dict) else None
    return _count(url, text, special=True) if isinstance(text, str) else None


def _count(url: str, text: str, *, special: bool) -> int | None:
    found = _post(url, "/tokenize", {"content": text, "add_special": special, "parse_special": special})
    tokens = found.get("tokens") if isinstance(found, dict) else None
    return len(tokens) if isinstance(tokens, list) else None


def _say(role: str) -> dict[str, str]:
    return {"role": role, "content": WORD}


def _tool(number: int) -> dict[str, Any]:
    """A schema like those that agents send; `number` tells one from another."""
    entry = {"type": "integer", "description": "The number of the entry that is looked for."}
    return {
        "type": "function",
        "function": {
            "name": f"look_up_entry_{number}",
            "description": "Looks an entry of the register up by its number and returns what it says.",
            "parameters": {"type": "object", "properties": {"number": entry}, "required": ["number"]},
        },
    }


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _post(url: str, path: str, value: Any) -> Any:
    """A JSON answer, None for anything else."""
    connection = connection_to(url, TIMEOUT_S)
    try:
        base = urlsplit(url).path.rstrip("/")
        connection.request("POST", base + path, _encoded(value), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read(ANSWER_MAX)
        return json.loads(text) if response.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()
