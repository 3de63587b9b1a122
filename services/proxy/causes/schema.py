"""Recognisers for structured text: tools, template parameters, tool-call arguments. Pure."""

import re
from typing import Any

import msgspec

from services.proxy.flow import Breaker, Cause

_TOOL = re.compile(r"tools\[\d+\](?:\.tools\[\d+\])*")
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]{1,32}\Z")
_decoder = msgspec.json.Decoder()
UNREADABLE = object()


def tool_causes(breakers: list[Breaker], intervening: str | None) -> list[tuple[Breaker, Cause]]:
    """The causes of a tool list's breakers, each with its breaker."""
    changed = {_tool(breaker.path) for breaker in breakers if _is_real(breaker)}
    return [(breaker, _tool_cause(breaker, changed, intervening)) for breaker in breakers]


def param_cause(breaker: Breaker) -> Cause:
    """A template input changed: a risk until this model's measured reuse shows that it costs."""
    detail = {
        "param": breaker.path.removeprefix("params."),
        "old": _short(breaker.old),
        "new": _short(breaker.new),
    }
    return Cause(code="template_param_changed", severity="risk", at=breaker.path, detail=detail)


def equal_parsed(old: bytes | None, new: bytes | None) -> bool:
    """Whether two JSON texts differ only in spelling: key order, spacing, escapes."""
    left, right = parsed(old), parsed(new)
    return left is not UNREADABLE and right is not UNREADABLE and same_value(left, right)


def same_value(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same; unlike Python's ``==``, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_value(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right)


def parsed(text: bytes | None) -> Any:
    """The value of a JSON text, or `UNREADABLE`."""
    if text is None:
        return UNREADABLE
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return UNREADABLE


def _tool(path: str) -> str:
    found = _TOOL.match(path)
    return found[0] if found else path


def _is_real(breaker: Breaker) -> bool:
    """Whether a tool's breaker is more than description text or key order."""
    if breaker.change != "edit" and breaker.path == _tool(breaker.path):
        return False
    if breaker.path.endswith(".description"):
        return False
    if breaker.kind != "json" or breaker.old is None or breaker.new is None:
        return True
    old, new = parsed(breaker.old), parsed(breaker.new)
    return old is UNREADABLE or new is UNREADABLE or not same_value(_bare(old), _bare(new))


def _tool_cause(breaker: Breaker, changed: set[str], intervening: str | None) -> Cause:
    names = list(breaker.names)
    listed = {"added": "tools_added", "removed": "tools_removed", "reorder": "tool_reorder"}
    if breaker.change in listed and breaker.path == _tool(breaker.path):
        detail: dict[str, Any] = {"names": names}
        if breaker.change != "reorder":
            detail["intervening"] = intervening
        return Cause(code=listed[breaker.change], severity="break", at=breaker.path, detail=detail)
    return Cause(
        code=_edit_code(breaker, changed), severity="break", at=breaker.path, detail={"names": names}
    )


def _edit_code(breaker: Breaker, changed: set[str]) -> str:
    if _tool(breaker.path) in changed:
        return "tool_schema_changed"
    if breaker.kind == "json" and equal_parsed(breaker.old, breaker.new):
        return "tool_schema_key_order"
    return "tool_description_dynamic"


def _bare(value: Any) -> Any:
    """A schema without its descriptions; a property that is called "description" is an object and stays."""
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items() if not (k == "description" and isinstance(v, str))}
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return value


def _short(text: bytes | None) -> Any:
    """A parameter's value where it is a mere switch or level; larger ones (schemas) are only named."""
    value = parsed(text)
    if isinstance(value, bool | int | float) or (isinstance(value, str) and _PLAIN.match(value)):
        return value
    return None
