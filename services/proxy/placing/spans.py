"""Where two texts part and meet again, in bytes. Pure; the scanning is done by memcmp, never byte by byte."""

# Compared at once before bisecting: large enough to run at memory speed, small enough to copy.
STRIDE = 1 << 16


def common_prefix(a: bytes, b: bytes) -> int:
    """Bytes that `a` and `b` share at their heads."""
    limit = min(len(a), len(b))
    low = 0
    while low < limit:
        high = min(low + STRIDE, limit)
        if a[low:high] != b[low:high]:
            return _bisect(a, b, low, high)
        low = high
    return limit


def common_suffix(a: bytes, b: bytes, limit: int) -> int:
    """Bytes, `limit` at most, that `a` and `b` share at their tails."""
    la, lb, done = len(a), len(b), 0
    while done < limit:
        step = min(STRIDE, limit - done)
        left, right = a[la - done - step : la - done], b[lb - done - step : lb - done]
        if left != right:
            return done + common_prefix(left[::-1], right[::-1])
        done += step
    return limit


def divergence(old: bytes, new: bytes) -> tuple[int, int]:
    """(offset, suffix): UTF-8 bytes before the first differing character, and bytes equal again at the end.

    Both fall on character borders, and never overlap in either text.
    """
    offset = common_prefix(old, new)
    while offset and (_inside(old, offset) or _inside(new, offset)):
        offset -= 1
    suffix = common_suffix(old, new, min(len(old), len(new)) - offset)
    while suffix and _inside(old, len(old) - suffix):
        suffix -= 1
    return offset, suffix


def _bisect(a: bytes, b: bytes, low: int, high: int) -> int:
    """First differing position in [low, high), where the two are known to differ."""
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _inside(text: bytes, position: int) -> bool:
    """Whether `position` falls inside a character of UTF-8 `text`."""
    return position < len(text) and text[position] & 0xC0 == 0x80
