"""Where a request's time went: exclusive time by the innermost stage, the rest `other`, in whole nanoseconds."""

import pytest

from pipeline.store.client import Store
from tests.sql.scenarios import World, assembled_world
from tests.sql.spans import MS, Row, chat, client_chat, gateway, litellm_chat, litellm_server, span, stage, vllm_request

ROWS: list[Row] = [
    gateway("whole", 0, 1000),
    stage("whole", "au", "auth", 1, 3, "gw"),
    stage("whole", "tk", "tokenize", 3, 5, "gw"),
    stage("whole", "rt", "route", 5, 8, "gw"),
    chat("whole", "c1", 10, 900, output=40),
    stage("whole", "sc", "schedule", 10, 30, "c1"),
    stage("whole", "kv", "kv_cache", 30, 40, "c1"),
    stage("whole", "pf", "prefill", 40, 100, "c1"),
    stage("whole", "dc", "decode", 100, 880, "c1"),
    stage("whole", "st", "stream", 105, 905, "gw"),
    stage("whole", "se", "settle", 910, 930, "gw"),
    *(stage("whole", f"k{n}", "kernel", 40, 60, "pf", tokenpath__busy_ns=15 * MS) for n in range(2)),
    stage("whole", "hb", "hbm", 40, 90, "pf", tokenpath__busy_ns=20 * MS),
    stage("whole", "nv", "nvlink", 100, 800, "dc", tokenpath__busy_ns=80 * MS),
    # Busy times never take more than there is, and go to the innermost first.
    gateway("busy", 0, 100),
    chat("busy", "c1", 0, 100),
    stage("busy", "pf", "prefill", 0, 50, "c1"),
    stage("busy", "k1", "kernel", 0, 50, "pf", tokenpath__busy_ns=40 * MS),
    stage("busy", "n1", "nic", 0, 50, "pf", tokenpath__busy_ns=30 * MS),
    stage("busy", "dc", "decode", 50, 80, "c1"),
    stage("busy", "h1", "hbm", 50, 80, "dc", tokenpath__busy_ns=10**15),
    stage("busy", "h2", "hbm", 0, 1, "c1", tokenpath__busy_ns=1),
    # Clipping, overlap, nesting, absence
    gateway("clipped", 100, 200),
    chat("clipped", "c1", 50, 250),
    stage("clipped", "pf", "prefill", 50, 120, "c1"),
    stage("clipped", "dc", "decode", 180, 300, "c1"),
    stage("clipped", "se", "settle", 250, 260, "gw"),
    stage("clipped", "au", "auth", 110, None, "gw"),
    gateway("overlap", 0, 100),
    chat("overlap", "c1", 0, 100),
    stage("overlap", "p1", "prefill", 0, 40, "c1"),
    stage("overlap", "p2", "prefill", 20, 60, "c1"),
    stage("overlap", "dc", "decode", 30, 50, "c1"),
    gateway("bare", 0, 100),
    gateway("tries", 0, 100),
    chat("tries", "c1", 0, 40, failed=True),
    stage("tries", "d1", "decode", 10, 40, "c1"),
    chat("tries", "c2", 50, 100),
    stage("tries", "d2", "decode", 60, 90, "c2"),
    # Durations told by attributes
    vllm_request(
        "told",
        "v1",
        0,
        100,
        gen_ai__latency__time_to_first_token=0.05,
        gen_ai__latency__time_in_queue=0.01,
        gen_ai__latency__time_in_model_prefill=0.03,
        gen_ai__latency__time_in_model_decode=0.04,
    ),
    vllm_request("toolong", "v1", 0, 100, gen_ai__latency__time_in_queue=0.03, gen_ai__latency__time_in_model_decode=5.0),
    litellm_server("mixed", 0, 200),
    litellm_chat("mixed", "c1", 50, 180),
    vllm_request("mixed", "v1", 60, 170, "c1", gen_ai__latency__time_in_queue=0.02, gen_ai__latency__time_in_model_prefill=0.03),
    stage("mixed", "pf", "prefill", 70, 75, "v1"),
    # First answers
    gateway("ttft1", 0, 100),
    chat("ttft1", "c1", 10, 90, gen_ai__response__time_to_first_chunk=0.02),
    stage("ttft1", "st", "stream", 35, 95, "gw"),
    litellm_server("ttft2", 0, 100),
    litellm_chat("ttft2", "c1", 10, 90, gen_ai__response__time_to_first_chunk=0.02),
    vllm_request("ttft2", "v1", 12, 88, "c1", gen_ai__latency__time_to_first_token=0.01),
    litellm_server("ttft3", 0, 100),
    litellm_chat("ttft3", "c1", 10, 90),
    vllm_request("ttft3", "v1", 12, 88, "c1", gen_ai__latency__time_to_first_token=0.01),
    client_chat("alone", "c1", 0, 100),
    span("alone", "x1", "db", 10, 20, "c1", scope="sql"),
    # Many of everything, in one trace
    gateway("wide", 0, 10_000),
    *(chat("wide", f"c{n}", n, n + 0.9, output=1) for n in range(2_000)),
    *(stage("wide", f"d{n}", "decode", n + 0.1, n + 0.5, f"c{n}") for n in range(2_000)),
    gateway("deep", 0, 100),
    *(span("deep", f"x{n}", "step", 0, 100, f"x{n - 1}" if n else "gw", scope="app") for n in range(3_000)),
    chat("deep", "c1", 10, 90, "x2999"),
    stage("deep", "dc", "decode", 20, 80, "c1"),
]


@pytest.fixture(scope="module")
def world(engine: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    return assembled_world(engine, ROWS, tmp_path_factory.mktemp("config"))


def ms(world: World, trace: str) -> dict[str, float]:
    return {name: value / MS for name, value in world[trace].request["stage_ns"].items()}


def test_each_nanosecond_belongs_to_the_innermost_stage(world: World) -> None:
    assert ms(world, "whole") == {
        "auth": 2, "tokenize": 2, "route": 3, "schedule": 20, "kv_cache": 10,
        "prefill": 10, "kernel": 30, "hbm": 20,  # 60 together
        "decode": 700, "nvlink": 80,  # 780 together
        "stream": 25,  # what of it no decode covers: 880 to 905
        "settle": 20,
        "gateway": 1000 - 7 - 895 - 20,
        "other": 0,
    }  # fmt: skip
    quality = world["whole"].request["stage_quality"]
    assert (quality["prefill"], quality["kernel"], quality["ttft"]) == ("span", "attribute", "span")


def test_busy_times_take_from_their_parent_what_is_left_the_innermost_first(world: World) -> None:
    stages = ms(world, "busy")
    assert (stages["nic"], stages["kernel"], stages["prefill"]) == (30, 20, 0)
    assert (stages["hbm"], stages["decode"]) == (30, 0)  # the one without a phase above it counts for decode


def test_intervals_are_cut_to_the_request(world: World) -> None:
    assert ms(world, "clipped") == {"gateway": 0, "prefill": 20, "decode": 20, "settle": 0, "other": 60}


def test_overlapping_spans_of_one_stage_count_once(world: World) -> None:
    assert ms(world, "overlap") == {"gateway": 0, "prefill": 40, "decode": 20, "other": 40}


def test_a_stage_that_nobody_emits_is_absent(world: World) -> None:
    assert ms(world, "bare") == {"gateway": 100, "other": 0}
    assert world["bare"].request["stage_quality"] == {"gateway": "span"}


def test_failed_attempts_take_their_time_too(world: World) -> None:
    assert ms(world, "tries") == {"gateway": 10, "decode": 60, "other": 30}


def test_told_durations_are_laid_in_canonical_order_and_cut_at_the_end(world: World) -> None:
    assert ms(world, "told") == {"tokenize": 10, "schedule": 10, "prefill": 30, "decode": 40, "other": 10}
    assert ms(world, "toolong") == {"schedule": 30, "decode": 70, "other": 0}
    assert world["told"].request["stage_quality"]["tokenize"] == "derived"


def test_a_stage_of_two_qualities_says_the_lesser(world: World) -> None:
    # Laid from the engine span's start: schedule 60 to 80, prefill 80 to 110; the prefill span 70 to 75 lies inside the schedule's time.
    assert ms(world, "mixed") == {"schedule": 15, "prefill": 35, "gateway": 70, "other": 80}
    assert world["mixed"].request["stage_quality"]["prefill"] == "attribute"


def test_time_to_first_token_comes_from_the_outermost_layer_that_knows(world: World) -> None:
    assert [world[trace].request["ttft_ns"] for trace in ("ttft1", "ttft2", "ttft3")] == [35 * MS, 30 * MS, 22 * MS]
    assert [world[trace].request["stage_quality"]["ttft"] for trace in ("ttft1", "ttft2")] == ["span", "attribute"]


def test_time_that_no_stage_covers_is_other(world: World) -> None:
    assert ms(world, "alone") == {"other": 100}


def test_a_trace_of_thousands_of_spans_is_no_special_case(world: World) -> None:
    wide, deep = world["wide"].request, world["deep"].request
    assert (wide["attempts"], wide["stage_ns"]["decode"], wide["outcome"]) == (2_000, 2_000 * 400_000, "useful")
    assert wide["stage_ns"]["other"] == 2_000 * 500_000
    assert (deep["tenant"], deep["attempts"], deep["stage_ns"]["decode"]) == ("acme", 1, 60 * MS)


def test_stages_and_other_add_up_for_every_request(world: World) -> None:
    assert [row["request_id"] for row in world.requests if sum(row["stage_ns"].values()) != row["e2e_ns"]] == []


def test_time_before_the_first_token_is_the_same_division_cut_there(world: World) -> None:
    early = world["whole"].request["stage_ttft_ns"]
    nvlink = 80 * MS * 5 // 780  # busy times divide as their phase does: 5 of 780 ms of decode lie before the stream's first chunk
    assert early == {
        "auth": 2 * MS, "tokenize": 2 * MS, "route": 3 * MS, "schedule": 20 * MS, "kv_cache": 10 * MS,
        "prefill": 10 * MS, "kernel": 30 * MS, "hbm": 20 * MS, "decode": 5 * MS - nvlink, "nvlink": nvlink,
        "stream": 0, "settle": 0, "gateway": 3 * MS, "other": 0,
    }  # fmt: skip


def test_stages_before_the_first_token_add_up_to_it_for_every_request(world: World) -> None:
    answered = [row for row in world.requests if row["ttft_ns"] is not None]
    assert len(answered) == 5
    for row in answered:
        assert sum(row["stage_ttft_ns"].values()) == min(row["ttft_ns"], row["e2e_ns"])
    for row in world.requests:
        assert not row["stage_ttft_ns"] or row["stage_ttft_ns"].keys() == row["stage_ns"].keys()
        assert all(ns <= row["stage_ns"][name] for name, ns in row["stage_ttft_ns"].items())
    assert world["bare"].request["stage_ttft_ns"] == {}
