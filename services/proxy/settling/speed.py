"""How fast each model prefills when nothing is cached, learnt from its own answers.

Owns a short list of cold samples a (backend, model), in memory: a rate measured on this machine is worth
more than any table, and a restart learns it again within a few requests. A sample is tokens that were
surely processed, over the time that took, load time taken out. From it come two things: the milliseconds
that lost tokens cost, and, where a backend reports no cached tokens, an inference of them from the time it
took, which is always labelled ``inferred_ttft`` and carries a confidence.
"""

from collections import OrderedDict, deque
from statistics import median
from typing import NamedTuple

MODELS = 256  # (backend, model) pairs remembered; a machine has tens
SAMPLES = 32  # a rate drifts with context length and load: the last few dozen follow it
MIN_TOKENS = 200  # below it, fixed costs (sampling, HTTP, one batch) outweigh prefill
MIN_MS = 20.0  # likewise, in time
LONE_TOKENS = 1_000  # one single sample convinces only from this size on
ENOUGH = 3  # samples from which figures between warm and cold are given
COLD, WARM = 0.75, 0.35  # of the prompt processed: beyond them even one sample tells which it was

Key = tuple[str, str]


class Rate(NamedTuple):
    """A learnt rate in tokens a millisecond, its number of samples, and their relative spread (0 = equal)."""

    tokens_per_ms: float
    samples: int
    spread: float


class Inference(NamedTuple):
    """Cached tokens inferred from time, and how far to trust it (0 to 1)."""

    cached_tokens: int
    confidence: float


class Speeds:
    """The learnt cold prefill rates of every (backend, model) seen."""

    def __init__(self) -> None:
        self._samples: OrderedDict[Key, deque[tuple[float, int]]] = OrderedDict()

    def learn(self, key: Key, tokens: int, milliseconds: float) -> None:
        """Add a sample: `tokens` surely processed in `milliseconds`; too small ones are ignored."""
        if tokens < MIN_TOKENS or milliseconds < MIN_MS:
            return
        samples = self._samples.setdefault(key, deque(maxlen=SAMPLES))
        samples.append((tokens / milliseconds, tokens))
        self._samples.move_to_end(key)
        if len(self._samples) > MODELS:
            self._samples.popitem(last=False)

    def rate(self, key: Key) -> Rate | None:
        """The median rate of a model; None before enough cold samples exist."""
        samples = self._samples.get(key)
        if not samples or (len(samples) < ENOUGH and max(tokens for _, tokens in samples) < LONE_TOKENS):
            return None
        rates = [rate for rate, _ in samples]
        middle = median(rates)
        spread = median(abs(rate - middle) for rate in rates) / middle
        return Rate(middle, len(rates), spread)

    def cost_ms(self, key: Key, tokens: int) -> float | None:
        """Milliseconds that prefilling so many tokens takes on this model, or None where it is not known."""
        rate = self.rate(key)
        return None if rate is None or tokens <= 0 else round(tokens / rate.tokens_per_ms, 3)

    def infer(self, key: Key, prompt_tokens: int, milliseconds: float) -> Inference | None:
        """How many of `prompt_tokens` the engine must have had, by the time it took; None if that is open."""
        rate = self.rate(key)
        if rate is None or prompt_tokens < MIN_TOKENS:
            return None
        share = milliseconds * rate.tokens_per_ms / prompt_tokens
        if rate.samples < ENOUGH and WARM < share < COLD:
            return None
        cached = 0 if share >= COLD else round(prompt_tokens * (1.0 - share))
        return Inference(cached, confidence(rate, share))


def confidence(rate: Rate, share: float) -> float:
    """Trust in an inference: grows with the samples, falls with their spread and near the border of cold."""
    base = {1: 0.5, 2: 0.6}.get(rate.samples, min(0.9, 0.7 + 0.02 * rate.samples))
    steady = 1.0 - min(0.5, rate.spread)
    clear = 1.0 if share <= WARM or share >= COLD else 0.8
    return round(base * steady * clear, 2)
