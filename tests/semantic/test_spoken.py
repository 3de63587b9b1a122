"""What an answer says, for the model that compares near misses."""

from typing import Any

import pytest

from services.semantic.spoken import spoken


@pytest.mark.parametrize(
    ("whole", "text"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": "Hi."}}]}, "Hi."),
        ({"choices": [{"text": "Hi."}]}, "Hi."),
        ({"message": {"content": "Hi."}, "done": True}, "Hi."),
        ({"response": "Hi."}, "Hi."),
        ({"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Hi."}]}, "Hi."),
        ({"output": [{"type": "reasoning"}, {"content": [{"type": "output_text", "text": "Hi."}]}]}, "Hi."),
        ({"choices": []}, ""),
        ({"choices": [{"message": {"content": None}}]}, ""),
        ({}, ""),
    ],
)
def test_each_apis_answer_is_read(whole: dict[str, Any], text: str):
    """The first choice's text; nothing where there is none."""
    assert spoken(whole) == text
