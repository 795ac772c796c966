"""Which spans make a request, whose it is, and what became of it. Each trace is small enough to check by eye."""

from typing import Any

import pytest

from pipeline.store.client import Store
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import MS, START, WINDOW, Row, chat, client_chat, gateway, span, stage, vllm_request

TENANTS = """
[[tenant]]
id = "acme"
name = "Acme"
aliases = ["team-red", "org-a"]
billing_account = "acme"
time_zone = "Europe/Berlin"

[[tenant]]
id = "gold"
name = "Gold"
billing_account = "gold"
time_zone = "UTC"

[[tenant]]
id = "dated"
name = "Dated"
billing_account = "dated"
time_zone = "UTC"
"""
MODELS = """
[[model]]
id = "slow"
"""
SLOS = """
[[slo]]
tenant = ""
model = "slow"
ttft_ms = 100
tpot_ms = 10
e2e_ms = 1000
from = 2026-11-01T00:00:00Z

[[slo]]
tenant = "gold"
model = "slow"
ttft_ms = 50
from = 2026-11-01T00:00:00Z

[[slo]]
tenant = "gold"
model = ""
e2e_ms = 1
from = 2026-11-01T00:00:00Z

[[slo]]
tenant = "dated"
model = "slow"
e2e_ms = 1
from = 2026-11-01T00:00:00Z
to = 2026-11-30T10:00:00Z
"""


def answer(trace: str, **more: Any) -> list[Row]:
    return [gateway(trace, 0, 100), chat(trace, "c1", 10, 90, **more)]


def streamed(
    trace: str, tenant: str = "acme", *, first: float = 100, end: float = 1000, output: int = 11, decode: float = 100
) -> list[Row]:
    """Model `slow`: a streamed answer whose decode takes `decode` ms."""
    return [
        gateway(trace, 0, end, tenant=tenant, gen_ai__request__stream=True),
        chat(trace, "c1", 10, end, output=output, gen_ai__request__model="slow"),
        stage(trace, "pf", "prefill", 20, first, "c1"),
        stage(trace, "dc", "decode", first, first + decode, "c1"),
        stage(trace, "st", "stream", first, end, "gw", tokenpath__delivered_tokens=output),
    ]


BOUNDARY = START + WINDOW
ROWS: list[Row] = [
    *answer("plain"),
    gateway("limited", 0, 5, http__response__status_code=429, error__type="rate_limit"),
    gateway("down", 0, 5, http__response__status_code=503),
    gateway("cachehit", 0, 5),
    gateway("blocked", 0, 100, tokenpath__blocked=True),
    chat("blocked", "c1", 10, 90),
    gateway("allfail", 0, 100, http__response__status_code=502),
    chat("allfail", "c1", 10, 90, failed=True),
    gateway("badend", 0, 100, http__response__status_code=500),
    chat("badend", "c1", 10, 90),
    gateway("aborted", 0, 100, failed=True),
    chat("aborted", "c1", 10, 90),
    stage("aborted", "st", "stream", 30, 60, "gw", tokenpath__delivered_tokens=5, tokenpath__client__disconnected=True),
    gateway("leftsoon", 0, 100, tokenpath__client__disconnected="True", tokenpath__delivered_tokens=0),
    chat("leftsoon", "c1", 10, 90),
    *answer("unmetered", output=None),
    gateway("open", 0, None),
    chat("open", "c1", 10, 90),
    # Objectives
    *streamed("onlimit"),
    *streamed("ttftlate", first=100.000001),
    *streamed("tpotlate", decode=100.000011),
    *streamed("e2elate", end=1000.1),
    *streamed("morettft", first=150, decode=120),
    *streamed("moretpot", first=110, decode=300),
    *streamed("bothalike", first=120, decode=120),
    *streamed("onetoken", output=1),
    *streamed("gold", "gold"),
    *streamed("goldgood", "gold", first=50),
    *streamed("dated", "dated"),
    gateway("nottft", 0, 50, gen_ai__request__stream=True),
    chat("nottft", "c1", 10, 40, gen_ai__request__model="slow", output=1),
    gateway("whole", 0, 90, gen_ai__request__stream=False),
    chat("whole", "c1", 10, 80, gen_ai__request__model="slow", output=1),
    gateway("wholelat", 0, 101, gen_ai__request__stream=False),
    chat("wholelat", "c1", 10, 80, gen_ai__request__model="slow", output=1),
    gateway("slorejct", 0, 5000, tenant="gold", http__response__status_code=401),
    # Tenants
    gateway("alias", 0, 100, tenant="team-red"),
    chat("alias", "c1", 10, 90),
    gateway("nobody", 0, 100, tenant=""),
    chat("nobody", "c1", 10, 90),
    gateway("byauth", 0, 100, tenant=""),
    stage("byauth", "au", "auth", 1, 2, "gw", tokenpath__tenant__id="acme"),
    chat("byauth", "c1", 10, 90),
    client_chat("owner", "c1", 0, 100, principal="tenant/zed", tokenpath__tenant__id="acme"),
    gateway("theirgw", 0, 100, principal="tenant/zed", tenant="acme"),
    chat("theirgw", "c1", 10, 90, principal="tenant/zed"),
    chat("theirgw", "c2", 20, 80),
    gateway("stranger", 0, 100),
    chat("stranger", "c1", 10, 90),
    chat("stranger", "c2", 15, 95, "c1", principal="tenant/zed", output=999),
    stage("stranger", "pf", "prefill", 20, 40, "c1", principal="tenant/zed"),
    gateway("invited", 0, 100, tenant="org-a"),
    chat("invited", "c1", 10, 90, principal="tenant/acme"),
    gateway("twice", 0, 100),
    chat("twice", "c1", 10, 90, input=100, received=5),
    chat("twice", "c1", 10, 90, input=777, principal="tenant/acme", received=1),
    client_chat("copycat", "c1", 0, 100, principal="tenant/zed", received=1, input=1),
    client_chat("copycat", "c1", 0, 100, principal="tenant/mallory", received=2, input=2),
    # Parents
    gateway("absent", 0, 100, parent="elsewher"),
    chat("absent", "c1", 10, 90),
    vllm_request("absent", "v1", 200, 300, "elsewher"),
    *(
        row
        for n in range(2)
        for row in (gateway("agent", n * 200, n * 200 + 100, id=f"gw{n}"), chat("agent", f"c{n}", n * 200 + 10, n * 200 + 90, f"gw{n}"))
    ),
    gateway("through", 0, 100),
    span("through", "h1", "POST", 5, 95, "gw", scope="http"),
    span("through", "h2", "send", 6, 94, "h1", scope="http"),
    chat("through", "c1", 10, 90, "h2"),
    chat("circle", "c1", 10, 90, "c2"),
    chat("circle", "c2", 10, 90, "c1"),
    chat("selfsame", "c1", 10, 90, "c1"),
    span("ring", "x1", "a", 0, 1, "x2", scope="http"),
    span("ring", "x2", "b", 0, 1, "x1", scope="http"),
    chat("ring", "c1", 10, 90, "x1"),
    span("noise", "x1", "GET /health", 0, 1, scope="http"),
    # Windows, clocks, sampling
    gateway("before", 0, 100, started_ns=BOUNDARY - 1),
    gateway("at", 0, 100, started_ns=BOUNDARY),
    gateway("skewed", 0, None, defects=["end_before_start"]),
    chat("skewed", "c1", 10, 90),
    gateway("sampled", 0, 100, trace_state="vendor=x,ot=th:8"),
    chat("sampled", "c1", 10, 90),
    gateway("allkept", 0, 100, trace_state="ot=th:0"),
    chat("allkept", "c1", 10, 90),
]


@pytest.fixture(scope="module")
def world(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    return assembled_world(
        engine, ROWS, tmp_path_factory.mktemp("config"), {"tenants.toml": TENANTS, "slo.toml": SLOS, "inventory.toml": MODELS}
    )


@pytest.mark.parametrize(
    ("trace", "outcome", "delivery", "delivered", "useful"),
    [
        ("plain", "useful", "assumed", 20, 20),
        ("limited", "rejected", "none", 0, 0),
        ("down", "failed", "none", 0, 0),
        ("cachehit", "unmetered", "unknown", None, 0),  # the gateway said 200 and no attempt was made
        ("blocked", "blocked", "none", 0, 0),
        ("allfail", "failed", "none", 0, 0),
        ("badend", "failed", "none", 0, 0),  # the attempt ended well, the client got a 500
        ("aborted", "aborted", "partial", 5, 0),
        ("leftsoon", "aborted", "none", 0, 0),
        ("unmetered", "unmetered", "assumed", None, 0),
        ("open", "useful", "unknown", None, 0),
    ],
)
def test_the_first_outcome_that_fits(world: World, trace: str, outcome: str, delivery: str, delivered: int | None, useful: int) -> None:
    request = world[trace].request
    assert (request["outcome"], request["delivery"], request["delivered_tokens"], request["useful_tokens"]) == (
        outcome, delivery, delivered, useful,
    )  # fmt: skip


def test_an_aborted_request_is_not_failed_although_its_gateway_span_is(world: World) -> None:
    assert world["aborted"].attempt["outcome"] == "aborted" and world["aborted"].attempt["generated_tokens"] == 20


def test_objectives_are_met_at_their_limit_and_missed_a_nanosecond_later(world: World) -> None:
    slo = ("slo_ttft", "slo_tpot", "slo_e2e", "outcome")
    assert world["onlimit"].of_requests(*slo) == [(1, 1, 1, "useful")]
    assert world["ttftlate"].of_requests(*slo) == [(0, 1, 1, "late")]
    assert world["tpotlate"].of_requests(*slo) == [(1, 0, 1, "late")]
    assert world["tpotlate"].request["tpot_ns"] == 10 * MS + 1
    assert world["e2elate"].of_requests(*slo) == [(1, 1, 0, "late")]


def test_an_answer_of_one_token_has_no_time_per_token_and_passes(world: World) -> None:
    assert world["onetoken"].of_requests("tpot_ns", "slo_tpot", "outcome") == [(None, 1, "useful")]


def test_a_missing_first_token_fails_when_streamed_and_falls_back_to_the_whole_time_when_not(world: World) -> None:
    assert world["nottft"].of_requests("ttft_ns", "slo_ttft", "outcome") == [(None, 0, "late")]
    assert world["whole"].of_requests("ttft_ns", "slo_ttft", "outcome") == [(None, 1, "useful")]
    assert world["wholelat"].of_requests("ttft_ns", "slo_ttft", "outcome") == [(None, 0, "late")]


def test_the_most_specific_objective_that_holds_on_the_day_wins(world: World) -> None:
    assert world["gold"].of_requests("slo_ttft", "slo_tpot", "slo_e2e", "outcome") == [(0, None, None, "late")]
    assert world["goldgood"].of_requests("slo_ttft", "outcome") == [(1, "useful")]
    assert world["dated"].of_requests("slo_ttft", "slo_e2e", "outcome") == [(1, 1, "useful")]  # its own row ended at 10:00


def test_without_an_objective_attainment_is_unknown(world: World) -> None:
    assert world["plain"].of_requests("slo_ttft", "slo_tpot", "slo_e2e") == [(None, None, None)]
    assert world["slorejct"].of_requests("slo_ttft", "slo_tpot", "slo_e2e", "outcome") == [(None, None, None, "rejected")]


def test_a_tenant_is_named_by_the_gateway_or_by_its_key(world: World) -> None:
    named = {trace: world[trace].of_requests("tenant", "tenant_source")[0] for trace in ("plain", "alias", "nobody", "byauth", "owner")}
    assert named == {
        "plain": ("acme", "gateway"),
        "alias": ("acme", "gateway"),
        "nobody": ("unknown", "unknown"),
        "byauth": ("acme", "gateway"),
        "owner": ("zed", "principal"),  # whatever its attributes say
    }
    assert "unlisted" in world["owner"].request["flags"] and "unlisted" not in world["alias"].request["flags"]
    assert world["alias"].attempt["tenant"] == "acme"


def test_a_tenants_gateway_span_roots_only_its_own_spans(world: World) -> None:
    assert sorted(world["theirgw"].of_requests("tenant", "attempts", "flags")) == [
        ("unknown", 1, ["foreign", "replica_unlisted", "split_unknown"]),
        ("zed", 1, ["replica_unlisted", "split_unknown", "unlisted"]),
    ]


def test_a_strangers_span_does_not_join_and_is_flagged(world: World) -> None:
    mine, theirs = world["stranger"].requests
    assert (mine["tenant"], mine["output_tokens"], mine["attempts"]) == ("acme", 20, 1)
    assert "prefill" not in mine["stage_ns"]
    assert (theirs["tenant"], theirs["output_tokens"]) == ("zed", 999) and "foreign" in theirs["flags"]
    assert "foreign" not in mine["flags"]


def test_the_requests_own_tenant_may_add_its_spans(world: World) -> None:
    assert world["invited"].of_requests("tenant", "attempts", "input_tokens") == [("acme", 1, 100)]


def test_one_span_through_two_principals_counts_once_and_the_platforms_copy_wins(world: World) -> None:
    assert world["twice"].of_requests("attempts", "input_tokens") == [(1, 100)]
    assert world["copycat"].of_requests("tenant", "input_tokens") == [("zed", 1)]  # received first


def test_a_shared_parent_that_is_not_stored_joins_nothing(world: World) -> None:
    assert world["absent"].of_requests("attempts", "input_tokens") == [(1, 100), (1, 100)]


def test_a_trace_may_hold_many_requests(world: World) -> None:
    assert world["agent"].of_requests("attempts", "outcome") == [(1, "useful"), (1, "useful")]
    assert len({row["request_id"] for row in world["agent"].requests}) == 2


def test_spans_that_no_rule_reads_lead_through(world: World) -> None:
    assert world["through"].of_requests("tenant", "attempts") == [("acme", 1)]


def test_parents_in_a_circle_end(world: World) -> None:
    assert [row["attempts"] for row in world["circle"].requests] == [1, 1]
    assert world["selfsame"].request["attempts"] == world["ring"].request["attempts"] == 1
    assert world["noise"].requests == []


def test_ids_name_trace_and_span(world: World) -> None:
    request, attempt = world["plain"].request, world["plain"].attempt
    assert request["request_id"] == b"plain...........".hex() + "-" + b"gw......".hex()
    assert attempt["attempt_id"] == b"plain...........".hex() + "-" + b"c1......".hex()


def test_a_window_owns_its_first_nanosecond_and_not_its_last(world: World) -> None:
    owned = {trace: int(world[trace].request["window_from"].timestamp()) * 10**9 for trace in ("before", "at")}
    assert owned == {"before": START, "at": START + WINDOW}


def test_an_end_before_the_start_is_no_duration(world: World) -> None:
    request = world["skewed"].request
    assert (request["e2e_ns"], request["ended_at"], request["stage_ns"]) == (None, None, {}) and "clock_skew" in request["flags"]


def test_sampled_traces_are_flagged(world: World) -> None:
    assert "sampled" in world["sampled"].request["flags"] and "sampled" not in world["allkept"].request["flags"]


def test_of_several_missed_objectives_the_one_missed_by_the_largest_part_of_it_decides(world: World) -> None:
    wanted = {
        "onlimit": "none", "ttftlate": "ttft", "tpotlate": "tpot", "e2elate": "e2e", "gold": "ttft", "plain": "none", "slorejct": "none",
        "nottft": "ttft", "morettft": "ttft", "moretpot": "tpot", "bothalike": "ttft",
    }  # fmt: skip
    assert {trace: world[trace].request["missed_slo"] for trace in wanted} == wanted
