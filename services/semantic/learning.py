"""Puts near misses to a vote of a model, one at a time and only when idle. Owns one thread.

The rubric asks for one word of JSON. Whatever else comes back (an explanation, another spelling, silence) is
a no: an alias is worth little, and a wrong one gives wrong answers for a month.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from redis.exceptions import RedisError

from services.semantic.aliases import Alias, Aliases, Miss
from services.semantic.server import JsonServer, ServerError, openai_path

ROUNDS = 3  # each way round: six votes, all of which have to be yes
TEMPERATURE = 0.4  # so that a model which only guesses does not guess the same six times
VOTE_S = 60.0
LOOK_S = 5.0
ANSWER = 2_000  # characters of the stored answer that are shown
RUBRIC = """\
You check a cache of answers. You are given a stored question with its answer, and a new question.
Reply {"same": true} only if that answer, word for word, is a complete and correct answer to the new question.
Reply {"same": false} if the two ask for anything different: another number, unit, date, version, name, place,
person, negation, opposite, direction or order, cause instead of manner, yes or no instead of an explanation,
another language, length or form, all instead of some, best instead of any. If you are not certain, reply
{"same": false}. Reply with that JSON and nothing else."""

log = logging.getLogger("metalanchor")

Answers = Callable[[str], Awaitable[str | None]]


class Learner:
    """Votes by `model` at `url`; `answer_of` gives the text under a key, `idle` says if there is time."""

    def __init__(
        self, url: str, model: str, aliases: Aliases, answer_of: Answers, idle: Callable[[], bool]
    ) -> None:
        self._server = JsonServer(url, VOTE_S)
        self._path = openai_path(url, "/chat/completions")
        self._model, self._aliases, self._answer_of, self._idle = model, aliases, answer_of, idle
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aliases")

    async def run(self) -> None:
        """Learn while there is time, for ever."""
        while True:
            try:
                worked = self._idle() and await self.learn()
            except (RedisError, OSError, ServerError, ValueError) as error:
                log.warning("No alias was learned: %s.", type(error).__name__)
                worked = False
            await asyncio.sleep(0 if worked else LOOK_S)

    async def learn(self) -> bool:
        """Decide one near miss; whether there was one."""
        miss = await self._aliases.next_miss()
        if miss is None:
            return False
        answer = await self._answer_of(miss.key)
        if answer is not None and await self._agreed(miss, answer[:ANSWER]):
            kept: Alias = await self._aliases.keep(miss, self._model, 2 * ROUNDS)
            log.info("Learned alias %s.", kept.id)
        return True

    async def _agreed(self, miss: Miss, answer: str) -> bool:
        for seed in range(ROUNDS):
            for stored, asked in ((miss.stored, miss.asked), (miss.asked, miss.stored)):
                if not self._idle() or not await self._vote(stored, asked, answer, seed):
                    return False
        return True

    async def _vote(self, stored: str, asked: str, answer: str, seed: int) -> bool:
        body = {
            "model": self._model, "temperature": TEMPERATURE, "seed": seed, "max_tokens": 16, "stream": False,
            "messages": [{"role": "system", "content": RUBRIC},
                         {"role": "user", "content": _shown(stored, answer, asked)}],
        }  # fmt: skip
        loop = asyncio.get_running_loop()
        reply = await loop.run_in_executor(self._thread, self._server.post, self._path, body)
        return _is_yes(reply)

    async def close(self) -> None:
        """Let go of the thread; a vote under way is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._server.close()


def _shown(stored: str, answer: str, asked: str) -> str:
    """The case, each part as a JSON string, so that no question can pretend to be another part."""
    parts = (("STORED QUESTION", stored), ("STORED ANSWER", answer), ("NEW QUESTION", asked))
    return "\n".join(f"{name}: {json.dumps(text, ensure_ascii=False)}" for name, text in parts)


def _is_yes(reply: dict[str, Any]) -> bool:
    try:
        text = reply["choices"][0]["message"]["content"].strip()
        vote = json.loads(text)
        return list(vote) == ["same"] and vote["same"] is True
    except (LookupError, TypeError, AttributeError, ValueError):
        return False
