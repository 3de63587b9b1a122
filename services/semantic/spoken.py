"""What an answer in one piece says, whichever API it is of. Pure."""

from collections.abc import Mapping
from typing import Any


def spoken(whole: Mapping[str, Any]) -> str:
    """The text of an answer's first choice; empty where it has none."""
    match whole:
        case {"choices": [{"message": {"content": str(text)}}, *_]} | {"choices": [{"text": str(text)}, *_]}:
            return text
        case {"message": {"content": str(text)}} | {"response": str(text)}:
            return text
        case {"content": list(blocks)}:
            return _joined(blocks)
        case {"output": list(items)}:
            return "\n".join(_joined(item["content"]) for item in items if _has_content(item))
    return ""


def _has_content(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("content"), list)


def _joined(blocks: list[Any]) -> str:
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "".join(text for text in texts if isinstance(text, str))
