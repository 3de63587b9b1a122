"""What workers sampled last of the model servers' own counters, as status and as metrics. Pure.

It owns what counts as too little to judge. The samples travel in heartbeats of workers, so that nothing here
waits for a database; where several workers told of one backend the latest counts.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from prometheus_client.core import GaugeMetricFamily

from services.queue import Heartbeat, Sampled

# Below so much looked up in a quarter of an hour a rate says nothing: one cold request would ring the alarm.
ENOUGH = {"tokens": 2_000, "lookups": 10}
GAUGES = {
    "hit_rate": "Share of looked-up prompt that the backend found in its cache, last quarter of an hour.",
    "hit_rate_alarm": "Whether that share is below METALANCHOR_ALARM_HIT_RATE.",
    "kv_usage": "Share of the backend's KV cache in use, by its own count.",
    "running": "Requests that the backend works on.",
    "waiting": "Requests that wait in the backend.",
}


def latest(beats: Iterable[Heartbeat]) -> dict[str, Sampled]:
    """What was sampled last of each backend, by its name."""
    found: dict[str, Sampled] = {}
    for beat in beats:
        for sampled in beat.sampled:
            if sampled.backend not in found or found[sampled.backend].sampled_at < sampled.sampled_at:
                found[sampled.backend] = sampled
    return found


def alarms(sampled: Sampled, below: float | None) -> bool | None:
    """Whether a backend's hit rate is too low; None where that is not asked or cannot be said."""
    enough = sampled.unit is None or sampled.lookups >= ENOUGH[sampled.unit]
    if below is None or sampled.hit_rate is None or not enough:
        return None
    return sampled.hit_rate < below


def status_of(sampled: Sampled | None, below: float | None) -> dict[str, Any] | None:
    """A backend's counters as ``/status`` has them, None where none were sampled."""
    if sampled is None:
        return None
    return {**msgspec.structs.asdict(sampled), "alarm": alarms(sampled, below)}


def families(beats: Sequence[Heartbeat], below: float | None) -> Iterable[GaugeMetricFamily]:
    """The gauges; a figure that is unknown has no sample."""
    found = latest(beats)
    for name, text in GAUGES.items():
        gauge = GaugeMetricFamily(f"metalanchor_backend_{name}", text, labels=["backend"])
        for backend, sampled in found.items():
            value = alarms(sampled, below) if name == "hit_rate_alarm" else getattr(sampled, name)
            if value is not None:
                gauge.add_metric([backend], float(value))
        yield gauge
