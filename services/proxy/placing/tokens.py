"""Owns what was learnt about each model's tokenizer: how many tokens its bytes make.

Two ratios a model, one for ASCII bytes and one for bytes of wider characters, by recursive least squares on
the backend's own prompt counts. Pure arithmetic; a prompt costs a microsecond.
"""

import math
from collections import OrderedDict

from services.proxy.prompt import Prompt

# Before a model has answered: 4 bytes a token is what common BPE and SentencePiece vocabularies reach on
# English and code, and a CJK character (3 bytes) is about one token. The learnt figures replace them.
ASCII_RATIO = 1 / 4
WIDE_RATIO = 1 / 3
MEDIA_TOKENS = 576  # a 336-pixel image in 14-pixel patches, the common vision tower of small local models

FORGETTING = 0.95  # another template or model under the same name is followed within some twenty requests
SANE = (0.02, 1.5)  # tokens a byte outside of which a count is no tokenisation of these bytes
MODELS = 512  # models remembered; the one used longest ago goes first


class Ratio:
    """The fit of one model: tokens ≈ a * ascii_bytes + w * wide_bytes."""

    __slots__ = ("aa", "ascii", "aw", "error", "samples", "wide", "ww")

    def __init__(self) -> None:
        self.ascii, self.wide = ASCII_RATIO, WIDE_RATIO
        self.aa, self.aw, self.ww = 1.0, 0.0, 1.0  # covariance of the two ratios, scaled
        self.error: float | None = None
        self.samples = 0

    def tokens(self, narrow: float, wide: float) -> float:
        """Estimated tokens of that many ASCII and wide bytes."""
        return self.ascii * narrow + self.wide * wide

    def learn(self, narrow: float, wide: float, tokens: float) -> None:
        """Move the ratios towards one more measured prompt."""
        x, y = narrow / 1000, wide / 1000
        gain_x, gain_y = self.aa * x + self.aw * y, self.aw * x + self.ww * y
        scale = FORGETTING + x * gain_x + y * gain_y
        miss = tokens - self.tokens(narrow, wide)
        relative = abs(miss) / max(tokens, 1.0)
        self.error = relative if self.error is None else 0.9 * self.error + 0.1 * relative
        self.ascii = _clamp(self.ascii + gain_x / scale * miss / 1000)
        self.wide = _clamp(self.wide + gain_y / scale * miss / 1000)
        self.aa = min((self.aa - gain_x * gain_x / scale) / FORGETTING, 1.0)
        self.ww = min((self.ww - gain_y * gain_y / scale) / FORGETTING, 1.0)
        bound = 0.999 * math.sqrt(self.aa * self.ww)  # the caps above must leave a covariance
        self.aw = min(max((self.aw - gain_x * gain_y / scale) / FORGETTING, -bound), bound)
        self.samples += 1


def model_key(backend: str, model: str) -> str:
    """How a model is named here and in `/status`: the backend, a space, the model."""
    return f"{backend} {model}"


class Estimator:
    """Token estimates per (backend, model)."""

    def __init__(self) -> None:
        self._ratios: OrderedDict[str, Ratio] = OrderedDict()

    def estimate(self, model_key: str, size: int, wide: int, media: int = 0) -> int:
        """Tokens of `size` bytes, `wide` of them in non-ASCII characters, and `media` images or files."""
        return round(self.exact(model_key, size, wide, media))

    def exact(self, model_key: str, size: float, wide: float, media: int = 0) -> float:
        """The same before rounding, for shares of a prompt."""
        ratio = self._ratios.get(model_key)
        narrow = size - wide
        text = ratio.tokens(narrow, wide) if ratio else ASCII_RATIO * narrow + WIDE_RATIO * wide
        return text + MEDIA_TOKENS * media

    def learn(self, model_key: str, prompt: Prompt, prompt_tokens: int) -> None:
        """Take in the backend's own count of a whole prompt; media, and odd counts, teach nothing."""
        size, wide = sum(c.size for c in prompt.chunks), sum(c.wide for c in prompt.chunks)
        if prompt.has_media or size == 0 or not SANE[0] * size <= prompt_tokens <= SANE[1] * size:
            return
        ratio = self._ratios.setdefault(model_key, Ratio())
        self._ratios.move_to_end(model_key)
        ratio.learn(size - wide, wide, prompt_tokens)
        if len(self._ratios) > MODELS:
            self._ratios.popitem(last=False)

    def error(self, model_key: str) -> float | None:
        """Mean relative error of recent estimates, before each was learnt from; None before the first."""
        ratio = self._ratios.get(model_key)
        return ratio.error if ratio else None

    def status(self) -> dict[str, dict[str, float | int | None]]:
        """Ratios, error and sample count of each model, for `/status`."""
        return {
            name: {
                "ascii_tokens_per_byte": round(ratio.ascii, 4),
                "wide_tokens_per_byte": round(ratio.wide, 4),
                "error": None if ratio.error is None else round(ratio.error, 4),
                "samples": ratio.samples,
            }
            for name, ratio in self._ratios.items()
        }


def _clamp(value: float) -> float:
    return min(max(value, SANE[0]), SANE[1])
