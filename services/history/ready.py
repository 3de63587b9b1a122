"""Ready queries on the history, for the console, the command line and the docs. Pure data.

Each runs unchanged on SQLite and PostgreSQL; a test runs them all. They look at the newest 10,000 requests,
so that they cost the same in a long history: with all of a million, some take seconds.
"""

from typing import NamedTuple


class Ready(NamedTuple):
    """A query with a name for addresses and commands, and the question it answers."""

    name: str
    title: str
    sql: str


QUERIES: tuple[Ready, ...] = (
    Ready(
        "lost-by-agent",
        "Which agent lost the most time, and by what?",
        """SELECT agent, cause, count(*) AS requests,
       round(sum(lost_ms) / 1000) AS lost_s, sum(lost_tokens) AS lost_tokens
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE lost_ms > 0
GROUP BY agent, cause
ORDER BY lost_s DESC
LIMIT 50""",
    ),
    Ready(
        "cost-by-cause",
        "What did each cause cost, in which agent, session and model?",
        """SELECT cause, agent, session, model, count(*) AS requests, sum(lost_tokens) AS lost_tokens,
       round(sum(lost_ms) / 6000) / 10 AS lost_min
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE lost_ms > 0
GROUP BY cause, agent, session, model
ORDER BY lost_min DESC
LIMIT 50""",
    ),
    Ready(
        "cloud-costs",
        "What did each agent and model cost in the cloud, and what did prompt caching save?",
        """SELECT agent, model, count(*) AS requests, round(sum(cost_usd) * 10000) / 10000 AS cost_usd,
       round(sum(savings_usd) * 10000) / 10000 AS savings_usd,
       round(100.0 * sum(cached_tokens) / nullif(sum(prompt_tokens), 0)) AS cached_percent
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE cost_usd IS NOT NULL
GROUP BY agent, model
ORDER BY cost_usd DESC
LIMIT 50""",
    ),
    Ready(
        "longest-losses",
        "Which single requests lost the most time?",
        """SELECT received_at, agent, model, cause, diverged_at, lost_tokens,
       round(lost_ms / 1000) AS lost_s, id
FROM requests
WHERE lost_ms > 0
ORDER BY lost_ms DESC
LIMIT 50""",
    ),
    Ready(
        "reuse-by-agent",
        "How much of its prompts does each agent reuse?",
        """SELECT agent, count(*) AS requests, sum(prompt_tokens) AS prompt_tokens,
       sum(cached_tokens) AS cached_tokens,
       round(100.0 * sum(cached_tokens) / nullif(sum(prompt_tokens), 0)) AS reuse_percent
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE cached_tokens IS NOT NULL
GROUP BY agent
ORDER BY prompt_tokens DESC""",
    ),
    Ready(
        "below-prediction",
        "Where did the engine reuse less than the text allowed?",
        """SELECT received_at, agent, model, predicted_tokens, cached_tokens,
       predicted_tokens - cached_tokens AS missing, cause, id
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE predicted_tokens > cached_tokens
ORDER BY missing DESC
LIMIT 50""",
    ),
    Ready(
        "hits-by-model",
        "What was seen before, by model?",
        """SELECT model, hit, count(*) AS requests, round(avg(ttft_ms)) AS mean_ttft_ms
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE kind = 'generation'
GROUP BY model, hit
ORDER BY model, requests DESC""",
    ),
    Ready(
        "by-hour",
        "How did requests and reuse go, hour by hour?",
        """SELECT substr(CAST(received_at AS text), 1, 13) AS hour, count(*) AS requests,
       round(100.0 * sum(cached_tokens) / nullif(sum(prompt_tokens), 0)) AS reuse_percent,
       round(sum(lost_ms) / 1000) AS lost_s
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE kind = 'generation'
GROUP BY substr(CAST(received_at AS text), 1, 13)
ORDER BY hour DESC
LIMIT 168""",
    ),
    Ready(
        "sessions",
        "Which sessions were the longest?",
        """SELECT session, agent, count(*) AS requests, max(prompt_tokens) AS longest_prompt,
       round(sum(lost_ms) / 1000) AS lost_s
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE session IS NOT NULL
GROUP BY session, agent
ORDER BY requests DESC
LIMIT 50""",
    ),
    Ready(
        "shared-system-prompts",
        "Which system prompts do several sessions share?",
        """SELECT system_hash, count(*) AS requests, count(DISTINCT session) AS sessions,
       count(DISTINCT agent) AS agents
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE system_hash IS NOT NULL
GROUP BY system_hash
HAVING count(DISTINCT session) > 1
ORDER BY requests DESC
LIMIT 50""",
    ),
    Ready(
        "evictions",
        "Who took whose place in the engine?",
        """SELECT taker.agent AS taker, lost.agent AS loser, lost.model, count(*) AS times,
       round(sum(lost.lost_ms) / 1000) AS lost_s
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS lost
JOIN requests AS taker ON taker.id = lost.evicted_by
GROUP BY taker.agent, lost.agent, lost.model
ORDER BY lost_s DESC""",
    ),
    Ready(
        "failures",
        "What failed, and how?",
        """SELECT agent, backend, status, http_status, error, count(*) AS requests
FROM (SELECT * FROM requests ORDER BY id DESC LIMIT 10000) AS recent
WHERE status <> 'completed'
GROUP BY agent, backend, status, http_status, error
ORDER BY requests DESC
LIMIT 50""",
    ),
)
