"""The HTTP servers of `tokenpath up` against requests that no honest client sends, and inserts that arrive in pieces or cut off."""

import base64
import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import httpx
import lz4.frame
import pytest
import zstandard
from starlette.applications import Starlette

from pipeline.errors import ConfigurationError
from pipeline.serving import endpoint
from pipeline.serving.api import ATTRIBUTE_WAITING_MAX, api_app
from pipeline.serving.embedded import EmbeddedEngine, QueryRefused
from pipeline.serving.endpoint import decompressed, endpoint_app, presented_key
from pipeline.serving.workers import http_worker
from pipeline.store.client import Store
from tests.http_server import serving
from tests.integration.test_endpoint import authenticate
from tests.processes import Running, up

COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "lz4": lz4.frame.compress, "zstd": zstandard.compress}
ROOT = {"Authorization": "Bearer root-key"}


@pytest.fixture
def front(store: Store) -> Iterator[str]:
    with serving(endpoint_app(EmbeddedEngine(store.path), authenticate)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize("encoding", COMPRESS)
def test_an_insert_of_several_compressed_blocks_is_stored_whole(front: str, store: Store, encoding: str) -> None:
    body = b"".join(COMPRESS[encoding](f"h,outcome {number},all\n".encode()) for number in range(5))
    query = {"query": "INSERT INTO billable (config_hash, outcome, bucket) FORMAT CSV"}
    assert httpx.post(front, params=query, content=body, headers={**ROOT, "Content-Encoding": encoding.upper()}).status_code == 200
    assert store.query("SELECT count() FROM billable").scalar() == 5


@pytest.mark.parametrize("encoding", COMPRESS)
def test_a_body_cut_off_anywhere_is_refused_and_stores_nothing(front: str, store: Store, encoding: str) -> None:
    whole = COMPRESS[encoding](b"".join(b"h,outcome %d,all\n" % number for number in range(2000)))
    query = {"query": "INSERT INTO billable (config_hash, outcome, bucket) FORMAT CSV"}
    for size in (1, 5, len(whole) // 2, len(whole) - 1):
        answer = httpx.post(front, params=query, content=whole[:size], headers={**ROOT, "Content-Encoding": encoding})
        assert (answer.status_code, answer.headers["X-ClickHouse-Exception-Code"]) == (400, "354")
    assert store.query("SELECT count() FROM billable").scalar() == 0


@pytest.mark.parametrize("encoding", COMPRESS)
@pytest.mark.parametrize("frames", [1, 9])
def test_what_unpacks_to_more_than_the_limit_is_refused(encoding: str, frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_BODY_BYTES", 9_000)
    exactly = COMPRESS[encoding](b"x" * (9_000 // frames)) * frames
    assert decompressed(exactly, encoding) == b"x" * (9_000 // frames * frames)
    with pytest.raises(QueryRefused, match="larger"):
        decompressed(exactly + COMPRESS[encoding](b"x" * 1_000), encoding)


@pytest.mark.parametrize("encoding", COMPRESS)
def test_bytes_behind_the_last_frame_are_refused(encoding: str) -> None:
    with pytest.raises(QueryRefused, match="not valid"):
        decompressed(COMPRESS[encoding](b"x") + b"junk", encoding)


@pytest.mark.parametrize(
    "credentials", ["Basic \xe9\xe9", "Basic ====", "Basic", "Basic " + base64.b64encode(b"\xff:\xff").decode(), "Bearer "]
)
def test_credentials_that_are_none_are_no_key(credentials: str) -> None:
    assert presented_key({"authorization": credentials}) is None


@pytest.mark.parametrize("query_id", ["\u20ac", "a\r\nX-Evil: 1", "x" * 5000, ""])
def test_a_query_id_that_is_no_name_is_replaced(front: str, query_id: str) -> None:
    answer = httpx.get(front, params={"query": "SELECT 1", "query_id": query_id}, headers=ROOT)
    assert answer.text == "1\n"
    assert len(answer.headers["X-ClickHouse-Query-Id"]) == 36
    assert "X-Evil" not in answer.headers
    assert httpx.get(front, params={"query": "SELECT 1", "query_id": "mine-1"}, headers=ROOT).headers["X-ClickHouse-Query-Id"] == "mine-1"


def test_readers_beyond_those_that_may_wait_are_told_to_come_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "STATEMENTS_AT_ONCE_MAX", 1)
    monkeypatch.setattr(endpoint, "STATEMENTS_WAITING_MAX", 1)
    slow = "SELECT count() FROM numbers(60000000) WHERE sipHash64(number) = 1"
    with serving(endpoint_app(EmbeddedEngine(store.path), authenticate)) as port, ThreadPoolExecutor(4) as readers:
        asked = [readers.submit(httpx.post, f"http://127.0.0.1:{port}/", content=slow, headers=ROOT, timeout=60) for _ in range(4)]
        answers = [answer.result() for answer in as_completed(asked)]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert answers[: len(refused)] == refused and len(refused) == 2
    assert {(answer.status_code, answer.headers["X-ClickHouse-Exception-Code"]) for answer in refused} == {(503, "202")}


def api(pages_need_key: bool) -> Starlette:
    return api_app(
        ready=dict, metrics=str, attribute=lambda *_: [], may=lambda key, _: key == "admin-key", pages=[], pages_need_key=pages_need_key
    )


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:{}", 200),
        ("127.0.0.1:{}", 200),
        ("localhost", 200),
        ("[::1]:{}", 200),
        ("evil.example:{}", 421),
        ("", 421),
        ("127.0.0.1.evil", 421),
    ],
)
def test_pages_without_keys_answer_to_loopback_names_only(host: str, status: int) -> None:
    with serving(api(pages_need_key=False)) as port:
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", headers={"Host": host.format(port)}).status_code == status


def test_pages_with_keys_answer_to_any_name() -> None:
    with serving(api(pages_need_key=True)) as port:
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", headers={"Host": "tokenpath.example"}).status_code == 200


def test_a_form_of_another_site_cannot_start_attribution_with_a_key_that_the_browser_remembers() -> None:
    body = b'{"from_at": "2026-11-30T00:00:00Z", "to_at": "2026-11-30T00:15:00Z"}'
    with serving(api(pages_need_key=True)) as port:
        for content_type, status in (("text/plain", 415), ("application/json; charset=utf-8", 202)):
            headers = {"Authorization": "Bearer admin-key", "Content-Type": content_type}
            assert httpx.post(f"http://127.0.0.1:{port}/admin/attribute", content=body, headers=headers).status_code == status


def test_attribution_on_request_has_a_longest_range_and_a_longest_queue() -> None:
    go = threading.Event()
    app = api_app(
        ready=dict, metrics=str, attribute=lambda *_: [{"went": go.wait(30)}], may=lambda *_: True, pages=[], pages_need_key=False
    )

    def ask(to_at: str) -> httpx.Response:
        body = {"from_at": "2026-11-30T00:00:00Z", "to_at": to_at, "wait": True}
        return httpx.post(f"http://127.0.0.1:{port}/admin/attribute", json=body, timeout=60)

    with serving(app) as port, ThreadPoolExecutor(ATTRIBUTE_WAITING_MAX + 1) as people:
        assert [ask(to_at).status_code for to_at in ("2026-11-30T00:00:00Z", "2026-11-29T00:00:00Z", "2028-11-30T00:00:00Z")] == [400] * 3
        asked = [people.submit(ask, "2026-11-30T00:15:00Z") for _ in range(ATTRIBUTE_WAITING_MAX + 1)]
        refused = next(as_completed(asked)).result()
        go.set()
        answers = sorted(answer.result().status_code for answer in asked)
        assert ask("2026-11-30T00:15:00Z").json() == {"runs": [{"went": True}]}
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    assert answers == [200] * ATTRIBUTE_WAITING_MAX + [429]


def test_an_address_that_another_program_has_is_a_configuration_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationError, match=r"clickhouse_http = .*in use"):
            http_worker("clickhouse", Starlette(), "clickhouse_http", address)


def test_up_ends_well_while_readers_ask_without_end(tmp_path: Path) -> None:
    endless = "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1"

    def ask(running: Running) -> int:
        token = {"Authorization": f"Bearer {running.endpoint.token.get_secret_value()}"}
        return httpx.post(f"http://{running.endpoint.clickhouse_http}/", content=endless, headers=token, timeout=60).status_code

    with ThreadPoolExecutor(2) as readers:
        with up(tmp_path / "data") as running:  # asserts exit 0
            answers = [readers.submit(ask, running) for _ in range(2)]
            count = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT count() FROM numbers%'"
            token = {"Authorization": f"Bearer {running.endpoint.token.get_secret_value()}"}
            while httpx.post(f"http://{running.endpoint.clickhouse_http}/", content=count, headers=token).text != "2\n":
                assert not any(answer.done() for answer in answers)
        assert [answer.result() for answer in answers] == [400, 400]
