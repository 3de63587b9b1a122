"""Vectors in memory: the nearest of many are found, and what was dropped is not."""

import numpy as np
import pytest

from services.semantic.matrix import BLOCK, Matrix


def vectors(count: int, spread: float = 0.05) -> np.ndarray:
    """As embeddings are: all in one corner, close together."""
    chance = np.random.default_rng(1)
    found = chance.standard_normal(384) * 0.1 + chance.standard_normal((count, 384)) * spread
    return (found / np.linalg.norm(found, axis=1)[:, None]).astype(np.float32)


@pytest.mark.parametrize("count", [1, 50, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_the_nearest_is_found_with_its_cosine(count: int):
    """In short groups and in long ones, where sketches choose the candidates."""
    rows, matrix = vectors(count), Matrix(10**6)
    for number, row in enumerate(rows):
        matrix.put(f"k{number}", "g", row)
    chance = np.random.default_rng(2)
    for number in chance.choice(count, min(count, 20), replace=False):
        query = rows[number] + chance.standard_normal(384).astype(np.float32) * 0.01
        query /= np.linalg.norm(query)
        key, cosine = matrix.near(query, "g", 3)[0]
        assert key == f"k{number}"
        assert cosine == pytest.approx(float(rows[number] @ query), abs=0.005)


def test_dropped_vectors_make_room_and_are_not_found():
    """A row is used again."""
    rows, matrix = vectors(BLOCK + 100), Matrix(10**6)
    for number, row in enumerate(rows):
        matrix.put(f"k{number}", "g", row)
    matrix.drop(["k7", "k7", "unknown", f"k{BLOCK + 1}"])
    assert {key for key, _ in matrix.near(rows[7], "g", 8)}.isdisjoint({"k7"})
    matrix.put("new", "g", rows[7])
    assert matrix.near(rows[7], "g", 1)[0][0] == "new"
    assert len(matrix) == BLOCK + 99


def test_the_number_of_vectors_is_bounded_over_all_groups():
    """The first to come is the first to go."""
    rows, matrix = vectors(6), Matrix(4)
    for number, row in enumerate(rows):
        matrix.put(f"k{number}", f"g{number % 2}", row)
    assert len(matrix) == 4
    assert [key for key, _ in matrix.near(rows[0], "g0", 8)] != []
    assert "k0" not in {key for key, _ in matrix.near(rows[0], "g0", 8)}


def test_a_vector_of_another_model_is_left_out():
    """Lengths that do not fit are never compared."""
    matrix = Matrix(10)
    matrix.put("a", "g", np.ones(4, np.float32) / 2)
    matrix.put("b", "g", np.ones(9, np.float32) / 3)
    assert [key for key, _ in matrix.near(np.ones(4, np.float32) / 2, "g", 8)] == ["a"]
    assert matrix.near(np.ones(9, np.float32) / 3, "g", 8) == []
    matrix.clear()
    assert len(matrix) == 0
