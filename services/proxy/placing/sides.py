"""Makes the two sides of a comparison: one from the request at hand, one from what is remembered. Pure."""

from collections.abc import Callable

from services.proxy.placing.compare import Side, start_of
from services.proxy.placing.marks import Marker
from services.proxy.placing.outline import LETTERS
from services.proxy.placing.pieces import Piece, seen
from services.proxy.placing.texts import Texts
from services.proxy.prompt import Prompt
from services.proxy.state.base import HASH_BYTES, Marks, Node

KINDS = {letter: kind for kind, letter in LETTERS.items()}


def newer(prompt: Prompt, node: Node, texts: Texts) -> Side:
    """The request at hand; its chunks are cut into sections once, when first asked for."""
    cut: dict[int, list[Piece]] = {}

    def pieces(index: int) -> list[Piece]:
        if index not in cut:
            cut[index] = [seen(section) for section in texts.sections_of(prompt, prompt.chunks[index])]
        return cut[index]

    def path(index: int) -> str:
        if index < len(prompt.chunks):
            return prompt.path(prompt.chunks[index])
        return f"{prompt.list_name}[{prompt.message_count}]"

    return _side(node, path, pieces)


def older(node: Node, texts: Texts, marks: Marks | None, key: bytes) -> Side:
    """An earlier request: by its texts where they are held, else by its marks."""
    marker = Marker(key) if marks else None
    cut: dict[int, list[Piece] | None] = {}

    def pieces(index: int) -> list[Piece] | None:
        if index not in cut:
            cut[index] = look(index)
        return cut[index]

    def look(index: int) -> list[Piece] | None:
        name = node.chunks[index * HASH_BYTES : (index + 1) * HASH_BYTES]
        sections = texts.sections(KINDS[node.kinds[index]], name)
        if sections is not None:
            return [seen(section) for section in sections]
        return _marked(marks, marker, index) if marks and marker else None

    return _side(node, lambda _: "", pieces)


def _marked(marks: Marks, marker: Marker, index: int) -> list[Piece] | None:
    pieces = [
        Piece(path, kind, label, size, None, digest, head, tail, marker)  # type: ignore[arg-type]
        for position, path, kind, label, size, digest, head, tail in marks.sections
        if position == index
    ]
    return pieces or None


def _side(node: Node, path: Callable[[int], str], pieces: Callable[[int], list[Piece] | None]) -> Side:
    return Side(node.kinds, node.roles, node.chunks, node.sizes, start_of(node.kinds), path, pieces)
