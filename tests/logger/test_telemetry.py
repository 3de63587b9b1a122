"""One span a request by the conventions for generative AI, sent to a collector that may be slow or away."""

import gzip
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from services.history.engine import HistoryError, open_engine
from services.logger import jobs
from services.logger.store import Store
from services.logger.telemetry import Telemetry, traces_url
from tests.support.records import batch_of, make_record

pytestmark = pytest.mark.process


class Collector:
    """An OTLP/HTTP collector on a real socket; `spans` as they came, `paths` and `types` of the posts."""

    def __init__(self, status=200, delay_s=0.0):
        self.spans, self.posts, self.resource = [], [], {}
        self.status, self.delay_s = status, delay_s
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, self.headers, body)
                time.sleep(collector.delay_s)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, path, headers, body):
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.posts.append((path, headers["Content-Type"]))
        for one in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = plain(one.resource.attributes)
            self.spans += [span for scope in one.scope_spans for span in scope.spans]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def plain(attributes):
    return {each.key: value(each.value) for each in attributes}


def value(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(each) for each in any_value.array_value.values]
    return getattr(any_value, kind)


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def telling(history_url):
    """A function that lets this process's jobs write to a history and tell a collector."""
    opened = []

    def start(endpoint):
        telemetry = Telemetry(endpoint)
        opened.append(telemetry)
        jobs.use(Store(open_engine(history_url)), telemetry)
        return telemetry

    yield start
    jobs.use(None)


def test_a_stored_row_is_a_span(telling, collector):
    """Named, timed and described as the conventions say; what they have no word for under our own name."""
    telemetry = telling(collector.url)
    parent = make_record()
    record = make_record(
        backend="127.0.0.1:11434",
        parent_id=parent.id,
        endpoint="/v1/chat/completions",
        received_at=1_700_000_000_123,
    )
    assert jobs.persist(batch_of([record, make_record(kind="management")])) == 2
    telemetry.close()
    assert collector.posts == [("/v1/traces", "application/x-protobuf")]
    assert collector.resource["service.name"] == "metalanchor"
    (span,) = collector.spans
    assert (span.name, span.kind) == ("chat qwen3:8b", 3)
    assert span.trace_id == UUID(record.id).bytes
    assert [link.trace_id for link in span.links] == [UUID(parent.id).bytes]
    assert span.start_time_unix_nano == 1_700_000_000_123_000_000
    assert span.end_time_unix_nano - span.start_time_unix_nano == 2_250_500_000
    found = plain(span.attributes)
    assert found | {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "ollama", "gen_ai.request.model": "qwen3:8b",
        "gen_ai.conversation.id": "s-1", "gen_ai.agent.name": "hermes",
        "gen_ai.response.finish_reasons": ["stop"], "gen_ai.usage.input_tokens": 2_000,
        "gen_ai.usage.cache_read.input_tokens": 1_870, "gen_ai.usage.output_tokens": 120,
        "server.address": "127.0.0.1", "server.port": 11_434, "http.response.status_code": 200,
        "metalanchor.hit": "prefix", "metalanchor.cause": "timestamp", "metalanchor.predicted_reuse": 0.9375,
        "metalanchor.ttft_ms": 55.25, "metalanchor.request_id": record.id,
    } == found  # fmt: skip


def test_what_is_unknown_is_left_out_and_what_failed_says_how(telling, collector):
    """No zero stands for an unknown, and the status is an error."""
    telemetry = telling(collector.url + "/v1/traces")
    unknown = {"model": None, "prompt_tokens": None, "cached_tokens": None, "error": None, "total_ms": None}
    jobs.persist(batch_of([make_record(kind="embedding", status="upstream_reset", **unknown)]))
    telemetry.close()
    (span,) = collector.spans
    found = plain(span.attributes)
    assert span.name == found["gen_ai.operation.name"] == "embeddings"
    assert (span.status.code, found["error.type"]) == (2, "upstream_reset")
    assert not {"gen_ai.request.model", "gen_ai.usage.input_tokens"} & set(found)


def test_a_batch_stored_twice_is_the_same_spans(telling, collector):
    """Ids come from the request's own, so that a collector can tell."""
    telemetry = telling(collector.url)
    batch = batch_of([make_record()])
    assert [jobs.persist(batch), jobs.persist(batch)] == [1, 0]
    telemetry.close()
    assert len(collector.spans) == 2
    assert len({(span.trace_id, span.span_id) for span in collector.spans}) == 1


@pytest.mark.parametrize("fault", ["away", "slow", "refusing"])
def test_a_collector_that_does_not_take_spans_costs_no_row_and_no_time(telling, fault, caplog):
    """Rows are stored at once, and the worker's end does not wait for the collector."""
    made = Collector(status=503 if fault == "refusing" else 200, delay_s=3.0 if fault == "slow" else 0.0)
    if fault == "away":
        made.close()
    telemetry = telling(made.url)
    began = time.monotonic()
    assert jobs.persist(batch_of([make_record() for _ in range(50)])) == 50
    telemetry.close()
    assert time.monotonic() - began < 2.5
    if fault != "away":
        made.close()


def test_the_endpoint_may_name_its_path():
    """As collectors behind a gateway want it."""
    assert traces_url("http://collector:4318") == "http://collector:4318/v1/traces"
    assert traces_url("http://collector:4318/") == "http://collector:4318/v1/traces"
    assert traces_url("https://gateway/otlp/v1/traces") == "https://gateway/otlp/v1/traces"


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    """At the worker's start, not at the first span."""
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(HistoryError, match=r"metalanchor\[otel\]"):
        Telemetry("http://127.0.0.1:4318")
