"""Owns what was learnt about each model's tokens: what its bytes, its turns and its tool schemas make.

A prompt's tokens are taken to be a sum: so many a byte of ASCII text, of wider characters and of tool
schemas, so many a turn for what the chat template writes around it, and so many a prompt. The five weights
are learnt from the backend's own totals, each moved as far as it could be to blame (a Kalman filter). So a
template that prints no tools is noticed by the first prompt that has some. Pure arithmetic; done off the
request path, when an answer has ended; an estimate costs a microsecond.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from services.proxy.prompt import Chunk, Prompt

# Before a model has answered: 4 bytes a token is what common BPE and SentencePiece vocabularies reach on
# English and code, and a CJK character (3 bytes) is about one token. The learnt figures replace them.
ASCII_RATIO = 1 / 4
WIDE_RATIO = 1 / 3
MEDIA_TOKENS = 576  # a 336-pixel image in 14-pixel patches, the common vision tower of small local models

SANE = (0.02, 1.5)  # tokens a byte outside of which a count is no tokenisation of these bytes
AROUND = 16  # tokens a turn that a template may add to that; 14 were measured where its marks are plain text
MODELS = 512  # models remembered; the one used longest ago goes first

# How far the weights may lie from where they start (standard deviations): prose to code differ by 0.05 tokens
# a byte; templates print a tool's schema whole, as another notation, or not at all; marks that are no tokens
# of the vocabulary cost 6 tokens each. They drift by a twentieth of that a prompt, so that another template
# or model under the same name is followed.
SPREAD = (8.0, 6.0, 0.05, 0.10, 0.15)
TOLD_SPREAD = (1.0, 1.0, 0.05, 0.10, 0.03)  # where the server rendered and counted an example
DRIFT = 0.05
NOISE = (3.0, 0.01)  # of a count against the sum: some tokens, and a hundredth, for what joints and words do
OUTLIER = 3.0  # standard deviations from which a count weighs less: it may be of a cut or a rewritten prompt
LIMITS = ((0.0, 64.0), (0.0, 64.0), SANE, SANE, (0.0, SANE[1]))


class Bulk(NamedTuple):
    """How much text there is to tokenise: bytes (tool schemas apart), turns that a template frames, media."""

    narrow: float = 0
    wide: float = 0
    tools: float = 0
    turns: float = 0
    media: float = 0

    @property
    def row(self) -> tuple[float, ...]:
        """What each weight is multiplied with, for a whole prompt."""
        return (float(self.turns > 0), self.turns, self.narrow, self.wide, self.tools)

    def plus(self, other: "Bulk") -> "Bulk":
        """Both together."""
        return Bulk(*[a + b for a, b in zip(self, other, strict=True)])

    def part(self, share: float) -> "Bulk":
        """The first bytes of it, as a share; neither its frame nor its media."""
        return Bulk(self.narrow * share, self.wide * share, self.tools * share)


class Template(NamedTuple):
    """What a server was found to write around texts, in tokens: once a prompt, a turn, a byte of schemas."""

    constant: float
    turn: float
    tools: float


def bulk_of(chunks: Iterable[Chunk]) -> Bulk:
    """The sum over chunks; params reach no tokeniser."""
    narrow = wide = tools = turns = media = 0
    for chunk in chunks:
        if chunk.kind == "tools":
            tools += chunk.size
        elif chunk.kind != "params":
            narrow += chunk.size - chunk.wide
            wide += chunk.wide
            media += chunk.media
            turns += chunk.kind != "prompt"
    return Bulk(narrow, wide, tools, turns, media)


COLD = (0.0, 0.0, ASCII_RATIO, WIDE_RATIO, ASCII_RATIO)


class Fit:
    """The weights of one model, and how sure they are; and the share of its answers it was seen to keep."""

    __slots__ = ("_covariance", "_spread", "error", "reply", "samples", "weights")

    def __init__(self, told: Template | None) -> None:
        self.weights = list(COLD)
        spread = SPREAD
        if told is not None:
            self.weights[0], self.weights[1], self.weights[4] = told
            spread = TOLD_SPREAD
        self._spread = spread
        self._covariance = [[a * a * (i == j) for j, _ in enumerate(spread)] for i, a in enumerate(spread)]
        self.error: float | None = None
        self.reply = 0.0
        self.samples = 0

    def tokens(self, row: tuple[float, ...]) -> float:
        """Estimated tokens of that much text."""
        a, b, c, d, e = self.weights
        return a * row[0] + b * row[1] + c * row[2] + d * row[3] + e * row[4]

    def learn(self, row: tuple[float, ...], tokens: float) -> None:
        """Move the weights towards one more counted prompt."""
        miss = tokens - self.tokens(row)
        relative = abs(miss) / max(tokens, 1.0)
        self.error = relative if self.error is None else 0.9 * self.error + 0.1 * relative
        self._drift()
        blame = [sum(c * x for c, x in zip(line, row, strict=True)) for line in self._covariance]
        doubt = sum(b * x for b, x in zip(blame, row, strict=True))
        noise = (NOISE[0] + NOISE[1] * tokens) ** 2
        far = abs(miss) / math.sqrt(doubt + noise)
        scale = doubt + noise * max(1.0, far / OUTLIER) ** 2
        for i, b in enumerate(blame):
            low, high = LIMITS[i]
            self.weights[i] = min(max(self.weights[i] + b / scale * miss, low), high)
            for j, other in enumerate(blame):
                self._covariance[i][j] -= b * other / scale
        self.samples += 1

    def _drift(self) -> None:
        """Let every weight be a little less sure, never less than at the start."""
        for i, most in enumerate(self._spread):
            own = self._covariance[i]
            own[i] += (DRIFT * most) ** 2
            if own[i] > most * most:
                shrink = most / math.sqrt(own[i])
                for j in range(len(own)):
                    own[j] *= shrink
                    self._covariance[j][i] *= shrink


def model_key(backend: str, model: str) -> str:
    """How a model is named here and in `/status`: the backend, a space, the model."""
    return f"{backend} {model}"


class Estimator:
    """Token estimates per (backend, model)."""

    def __init__(self) -> None:
        self._fits: OrderedDict[str, Fit] = OrderedDict()

    def estimate(self, model_key: str, bulk: Bulk) -> int:
        """Tokens of a whole prompt."""
        return round(self.exact(model_key, bulk))

    def exact(self, model_key: str, bulk: Bulk, *, whole: bool = True) -> float:
        """The same before rounding; of a part, not `whole`, without what there is once a prompt."""
        fit = self._fits.get(model_key)
        narrow, wide, tools, turns, media = bulk
        if fit is None:
            return ASCII_RATIO * (narrow + tools) + WIDE_RATIO * wide + MEDIA_TOKENS * media
        a, b, c, d, e = fit.weights
        text = b * turns + c * narrow + d * wide + e * tools + MEDIA_TOKENS * media
        return text + a if whole and turns else text

    def learn(
        self, model_key: str, prompt: Prompt, tokens: int, told: Mapping[str, float] | None = None
    ) -> None:
        """Take in the backend's own count of a whole prompt; media, and odd counts, teach nothing.

        `told` is the backend's `template` fact, what it was found to write around texts; it gives a model
        not heard of before its start.
        """
        bulk = bulk_of(prompt.chunks)
        size = bulk.narrow + bulk.wide
        most = SANE[1] * (size + bulk.tools) + AROUND * (bulk.turns + 1)
        if prompt.has_media or not size or not SANE[0] * size <= tokens <= most:
            return
        fit = self._fits.get(model_key)
        if fit is None:
            fit = self._fits[model_key] = Fit(Template(**told) if told else None)
        self._fits.move_to_end(model_key)
        fit.learn(bulk.row, tokens)
        if len(self._fits) > MODELS:
            self._fits.popitem(last=False)

    def learn_reply(self, model_key: str, share: float) -> None:
        """Take in what share of a repeated answer was found again; the last few count."""
        fit = self._fits.get(model_key)
        if fit is not None:
            fit.reply += (share - fit.reply) / 2

    def reply_share(self, model_key: str) -> float:
        """What share of its answers a model keeps; 0 before it was seen to."""
        fit = self._fits.get(model_key)
        return fit.reply if fit else 0.0

    def error(self, model_key: str) -> float | None:
        """Mean relative error of recent estimates, before each was learnt from; None before the first."""
        fit = self._fits.get(model_key)
        return fit.error if fit else None

    def status(self) -> dict[str, dict[str, float | int | None]]:
        """Weights, error and sample count of each model, for `/status`."""
        return {
            name: {
                "ascii_tokens_per_byte": round(fit.weights[2], 4),
                "wide_tokens_per_byte": round(fit.weights[3], 4),
                "tools_tokens_per_byte": round(fit.weights[4], 4),
                "tokens_per_turn": round(fit.weights[1], 2),
                "tokens_per_prompt": round(fit.weights[0], 2),
                "answer_kept": round(fit.reply, 2),
                "error": None if fit.error is None else round(fit.error, 4),
                "samples": fit.samples,
            }
            for name, fit in self._fits.items()
        }
