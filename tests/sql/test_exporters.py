"""Each exporter's page as it is, scraped over HTTP at 0, 15, 30 and 45 s with a restart in between: what a window of 60 s then says.

Names, labels and units are those of the stacks; the figures are made so that the right answer can be seen. A value that does not change
any more holds to the window's end.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.attribution.measures import measure
from pipeline.attribution.scope import Scope
from pipeline.configuration.versions import load_configuration, store_configuration
from pipeline.store.client import Store
from schemas.settings import ScrapeSettings
from tests.http_server import serving
from tests.ingest import ingest
from tests.memory_log import MemoryLog
from tests.scraping import Exporter, scrape, scraper

DATA = Path(__file__).parents[1] / "data" / "otlp"
S = 1_000_000_000
T = 1_793_577_600 * S
Found = dict[tuple[str, str], Any]


def series(metric: str, value: float, **labels: str) -> str:
    return f"{metric}{{{','.join(f'{key}={chr(34)}{text}{chr(34)}' for key, text in labels.items())}}} {value}\n"


def counter(metric: str, value: float, **labels: str) -> str:
    return f"# TYPE {metric} counter\n" + series(metric, value, **labels)


def scraped(store: Store, exporters: Mapping[str, Sequence[str]], of: str = "replica", **labels: str) -> Found:
    """Job -> its page at each scrape. Returns (quantity, replica or device or service) -> value of the first minute."""
    log, now = MemoryLog(), [T]
    held = {job: Exporter() for job in exporters}
    ports = {job: serving(exporter) for job, exporter in held.items()}
    try:
        targets = [
            ScrapeSettings(job=job, url=f"http://127.0.0.1:{server.__enter__()}/metrics", labels={"tokenpath.replica.id": job, **labels})
            for job, server in ports.items()
        ]
        one = scraper(log, lambda: now[0], *targets)
        for step in range(max(map(len, exporters.values()))):
            now[0] = T + step * 15 * S
            for job, pages in exporters.items():
                held[job].page = pages[step]
            scrape(one)
    finally:
        for server in ports.values():
            server.__exit__(None, None, None)
    ingest(store, [record.value for record in log.records], received_ns=T + 60 * S, signal="metrics")
    config_hash = store_configuration(store, load_configuration(None), datetime(2026, 11, 1, tzinfo=UTC))
    measure(store, Scope(7, config_hash, T, T + 60 * S, 60 * S, S, 300 * S, 3600 * S))
    rows = store.query("SELECT quantity, replica, device, service, value, unit FROM work_measures").dicts()
    assert {row["value"] for row in rows if row["quantity"] == "target_up"} == {1.0}
    found = [((row["quantity"], row[of]), row["value"]) for row in rows if row["quantity"] != "target_up"]
    assert len(dict(found)) == len(found), found
    return {key: pytest.approx(value) for key, value in found}


def test_vllm_with_two_engines_and_a_restart_trap_14_and_15(store: Store) -> None:
    def page(prompt: int, generated: int, hits: int, running: int) -> str:
        return "".join(
            counter("vllm:prompt_tokens_total", prompt, model_name="m", engine=engine)
            + series("vllm:prompt_tokens_created", 1.7e9, model_name="m", engine=engine)
            + counter("vllm:generation_tokens_total", generated, model_name="m", engine=engine)
            + counter("vllm:prefix_cache_queries_total", prompt, model_name="m", engine=engine)
            + counter("vllm:prefix_cache_hits_total", hits, model_name="m", engine=engine)
            + counter("vllm:mm_cache_queries_total", 9 * prompt, model_name="m", engine=engine)  # items, no tokens
            + series("vllm:num_requests_running", running, model_name="m", engine=engine)
            + series("vllm:kv_cache_usage_perc", 0.25 if engine == "0" else 0.75, model_name="m", engine=engine)
            + counter("vllm:request_success_total", 10, model_name="m", engine=engine, finished_reason="stop")
            for engine in "01"
        )

    found = scraped(store, {"r0": [page(1000, 50, 0, 4), page(1600, 80, 100, 4), page(200, 10, 40, 0), page(500, 15, 40, 0)]})
    assert found == {
        ("prompt_tokens", "r0"): 2 * (600 + 200 + 300), ("generation_tokens", "r0"): 2 * (30 + 10 + 5),
        ("cached_tokens", "r0"): 2 * (100 + 40),
        ("running_requests", "r0"): 2 * 4 * 0.5, ("kv_used_ratio", "r0"): 0.5, ("finished_requests", "r0"): 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("hits", "usage"),
    [("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_cache_usage_perc"), ("vllm:prompt_tokens_cached_total", "vllm:kv_cache_usage_perc")],
)
def test_renamed_metrics_of_vllm_are_one_quantity_and_never_two_trap_14(store: Store, hits: str, usage: str) -> None:
    pages = [counter(hits, value) + counter("vllm:prefix_cache_hits_total", value) + series(usage, 0.5) for value in (0, 10, 20, 30)]
    assert scraped(store, {"r0": pages}) == {("cached_tokens", "r0"): 30, ("kv_used_ratio", "r0"): 0.5}


def test_vllm_moves_bytes_and_its_deprecated_names_stand_beside_the_new_ones_trap_7(store: Store) -> None:
    def page(moved: int) -> str:
        return (
            counter("vllm:kv_offload_load_bytes_total", moved)
            + counter("vllm:kv_offload_load_time_total", moved)
            + counter("vllm:kv_offload_total_bytes_total", moved, transfer_type="CPU_to_GPU")
            + "# TYPE vllm:nixl_bytes_transferred histogram\n"
            + series("vllm:nixl_bytes_transferred_bucket", 2, le="+Inf")
            + f"vllm:nixl_bytes_transferred_sum {3 * moved}\nvllm:nixl_bytes_transferred_count 2\n"
        )

    found = scraped(store, {"r0": [page(0), page(100), page(20), page(30)]})
    assert found == {("kv_load_bytes", "r0"): 100 + 20 + 10, ("kv_transfer_bytes", "r0"): 3 * 130}


def test_sglang_ranks_repeat_counts_but_not_bytes_trap_13_and_7(store: Store) -> None:
    def page(tokens: int, mb: int) -> str:
        ranks = [
            {"model_name": "m", "engine_type": "unified", "tp_rank": str(rank), "pp_rank": "0", "moe_ep_rank": "0"} for rank in range(4)
        ]
        return (
            counter("sglang:prompt_tokens_total", tokens, model_name="m")
            + counter("sglang:generation_tokens_total", tokens / 10, model_name="m")
            + counter("sglang:cached_tokens_total", tokens / 4, model_name="m", cache_source="device")
            + series("sglang:cached_tokens_total", tokens / 8, model_name="m", cache_source="host")
            + "# TYPE sglang:num_retracted_requests_total counter\n"
            + "".join(series("sglang:num_retracted_requests_total", tokens / 100, **rank) for rank in ranks)
            + "# TYPE sglang:load_back_bytes_total counter\n"
            + "".join(series("sglang:load_back_bytes_total", tokens, pool="kv", **rank) for rank in ranks)
            + "".join(series("sglang:token_usage", 0.4, **rank) for rank in ranks)
            + "".join(series("sglang:num_running_reqs", 6, **rank) for rank in ranks)
            + "# TYPE sglang:kv_transfer_total_mb histogram\n"
            + series("sglang:kv_transfer_total_mb_bucket", 1, le="+Inf", **ranks[0])
            + series("sglang:kv_transfer_total_mb_sum", mb, **ranks[0])
            + series("sglang:kv_transfer_total_mb_count", 1, **ranks[0])
        )

    found = scraped(store, {"r0": [page(800, 5), page(1600, 7), page(400, 1), page(400, 1)]})
    assert found == {
        ("prompt_tokens", "r0"): 1200, ("generation_tokens", "r0"): 120, ("cached_tokens", "r0"): 300 + 150, ("preemptions", "r0"): 12,
        ("kv_load_bytes", "r0"): 4 * 1200, ("kv_used_ratio", "r0"): 0.4, ("running_requests", "r0"): 6,
        ("kv_transfer_bytes", "r0"): 3_000_000,
    }  # fmt: skip


def test_dynamo_counts_at_the_frontend_and_its_workers_pass_the_engines_metrics_through(store: Store) -> None:
    def frontend(n: int) -> str:
        return (
            counter("dynamo_frontend_requests_total", n, model="m", endpoint="chat")
            + counter("dynamo_frontend_output_tokens_total", 20 * n, model="m")
            + "# TYPE dynamo_frontend_input_sequence_tokens histogram\n"
            + series("dynamo_frontend_input_sequence_tokens_bucket", n, le="+Inf", model="m")
            + series("dynamo_frontend_input_sequence_tokens_sum", 100 * n, model="m")
            + series("dynamo_frontend_input_sequence_tokens_count", n, model="m")
        )

    def worker(n: int) -> str:
        labels = {"dynamo_component": "backend", "dynamo_namespace": "d", "model_name": "m"}
        return counter("dynamo_component_requests_total", n, **labels) + counter("vllm:generation_tokens_total", 20 * n, **labels)

    found = scraped(store, {"frontend": [frontend(n) for n in (3, 5, 1, 2)], "worker": [worker(n) for n in (3, 5, 1, 2)]})
    assert found[("generation_tokens", "worker")] == 20 * 4
    assert {key[0]: value for key, value in found.items() if key[0].startswith("gateway")} == {
        "gateway_requests": 4, "gateway_output_tokens": 80, "gateway_input_tokens": 400,
    }  # fmt: skip


def test_tensorrt_llm_counts_requests(store: Store) -> None:
    pages = [counter("trtllm_request_success_total", n, model_name="m", engine_type="trt", finished_reason="stop") for n in (7, 9, 1, 1)]
    assert scraped(store, {"r0": pages}) == {("finished_requests", "r0"): 3}


@pytest.mark.parametrize("prefix", ["inference_objective", "inference_model"])
def test_the_endpoint_picker_by_both_of_its_names_trap_14_and_15(store: Store, prefix: str) -> None:
    def page(n: int) -> str:
        labels = {"model_name": "alias", "target_model_name": "m"}
        return (
            counter(f"{prefix}_request_total", n, **labels)
            + f"# TYPE {prefix}_input_tokens histogram\n"
            + series(f"{prefix}_input_tokens_bucket", n, le="+Inf", **labels)
            + series(f"{prefix}_input_tokens_sum", 10 * n, **labels)
            + series(f"{prefix}_input_tokens_count", n, **labels)
            + series("inference_extension_prefix_indexer_hit_ratio", 0.9)  # a prediction
            + series("inference_pool_average_kv_cache_utilization", 0.5, name="pool")
        )

    found = scraped(store, {"epp": [page(n) for n in (0, 4, 2, 2)]}, of="service")
    assert found == {("gateway_requests", "epp"): 6, ("gateway_input_tokens", "epp"): 60}


def test_lmcache_hits_are_tokens_and_its_units_stand_in_no_name_trap_7_and_15(store: Store) -> None:
    def page(n: int) -> str:
        return (
            counter("lmcache:num_lookup_requests_total", n, model_name="m")
            + counter("lmcache:num_lookup_tokens_total", 256 * n, model_name="m")
            + counter("lmcache:num_lookup_hits_total", 128 * n, model_name="m")
            + series("lmcache:local_cache_usage", 5e9, model_name="m")
            + series("lmcache:lookup_hit_rate", 0.1, model_name="m")  # since the last line of its log
            + "# TYPE lmcache:remote_time_to_get histogram\n"
            + series("lmcache:remote_time_to_get_bucket", n, le="+Inf", model_name="m")
            + series("lmcache:remote_time_to_get_sum", 250 * n, model_name="m")
            + series("lmcache:remote_time_to_get_count", n, model_name="m")
        )

    found = scraped(store, {"r0": [page(n) for n in (10, 14, 1, 3)]})
    assert found == {
        ("kv_lookup_tokens", "r0"): 256 * 7, ("kv_hit_tokens", "r0"): 128 * 7, ("kv_host_bytes", "r0"): 5e9,
        ("kv_agent_seconds", "r0"): 1.75,
    }  # fmt: skip


def test_mooncake_and_nixl_tell_microseconds_in_names_that_do_not_say_so_trap_7_and_13(store: Store) -> None:
    def client(n: int) -> str:
        return (
            counter("mooncake_transfer_read_bytes", 1000 * n)
            + counter("mooncake_transfer_write_bytes", 10 * n)
            + "# TYPE mooncake_transfer_batch_get_latency histogram\n"
            + series("mooncake_transfer_batch_get_latency_bucket", n, le="+Inf")
            + f"mooncake_transfer_batch_get_latency_sum {500_000 * n}\nmooncake_transfer_batch_get_latency_count {n}\n"
            + "# TYPE master_allocated_bytes gauge\nmaster_allocated_bytes 7e+09\n"
        )

    def agent(n: int) -> str:  # two ranks move their own bytes
        return "".join(
            counter("agent_tx_bytes_total", 64 * n, hostname="n1", agent_name="decode-0", local_rank=rank)
            + counter("agent_xfer_time_total", 2_000_000 * n, hostname="n1", agent_name="decode-0", local_rank=rank)
            + series("agent_tx_last_bytes", 64, hostname="n1", agent_name="decode-0", local_rank=rank)
            for rank in "01"
        )

    found = scraped(store, {"store": [client(n) for n in (5, 9, 2, 2)], "nixl": [agent(n) for n in (5, 9, 2, 2)]})
    assert found == {
        ("kv_received_bytes", "store"): 6000, ("kv_sent_bytes", "store"): 60, ("kv_agent_seconds", "store"): 3,
        ("kv_host_bytes", ""): 7e9,
        ("kv_sent_bytes", "decode-0"): 2 * 64 * 6, ("kv_agent_seconds", "decode-0"): 2 * 2 * 6,
    }  # fmt: skip


def gpu(step: int, energy_mj: float, uuid_label: str = "UUID", host_label: str = "Hostname", pod: str = "vllm-0") -> str:
    """A GPU that draws 500 W."""
    labels = {"gpu": "0", uuid_label: "GPU-11aa", "device": "nvidia0", "modelName": "NVIDIA H100", host_label: "n1", "pod": pod}
    links = {"gpu_uuid": "GPU-11aa", "model_name": "NVIDIA H100", host_label: "n1", "pod": pod}
    return (
        counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", energy_mj, **labels)
        + series("DCGM_FI_DEV_POWER_USAGE", 500, **labels)
        + series("DCGM_FI_DEV_GPU_UTIL", 90, **labels)
        + series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.75, **labels)
        + series("DCGM_FI_DEV_FB_USED", 1024, **labels)
        + series("DCGM_FI_DEV_XID_ERRORS", 79, **labels)
        + counter("DCGM_FI_PROF_PCIE_TX_BYTES", 1000, **labels)  # declared so by older configurations
        + "# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter\n"
        + "".join(series("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 2, nvlink=link, **links) for link in ("L0", "L1"))
    )


EVERY_GPU: Found = {
    ("gpu_power_watts", "GPU-11aa"): 500, ("gpu_busy_ratio", "GPU-11aa"): 0.75, ("gpu_memory_used_bytes", "GPU-11aa"): 2**30,
    ("pcie_tx_bytes", "GPU-11aa"): 60_000, ("nvlink_bytes", "GPU-11aa"): 2 * 2e6 * 60,
}  # fmt: skip


def test_one_gpu_of_dcgm_seen_by_two_exporters_counts_once_trap_7_and_14(store: Store) -> None:
    steps = [gpu(step, 8.1e10 + step * 15 * 500_000) for step in range(4)]
    renamed = [gpu(step, 8.1e10 + step * 15 * 500_000, "uuid", "hostname" if step > 1 else "Hostname", pod="") for step in range(4)]
    found = scraped(store, {"dcgm": steps, "dcgm-again": renamed}, of="device")
    assert found == {**EVERY_GPU, ("gpu_energy_joules", "GPU-11aa"): 45 * 500}


def test_a_gpu_whose_pod_and_labels_change_keeps_its_energy_counter_and_a_reboot_resets_it_trap_14(store: Store) -> None:
    pages = [
        gpu(0, 8e10), gpu(1, 8e10 + 7.5e6, pod="vllm-1"), gpu(2, 8e10 + 15e6, host_label="hostname", pod="vllm-1"),
        gpu(3, 2e6, pod="vllm-1"),
    ]  # fmt: skip
    found = scraped(store, {"dcgm": pages}, of="device")
    assert found[("gpu_energy_joules", "GPU-11aa")] == 7500 + 7500 + 2000


def test_energy_is_integrated_from_power_where_the_counter_is_off(store: Store) -> None:
    page = series("DCGM_FI_DEV_POWER_USAGE", 500, UUID="GPU-1", hostname="n1")
    assert scraped(store, {"dcgm": [page] * 4}, of="device") == {
        ("gpu_power_watts", "GPU-1"): 500,
        ("gpu_energy_joules", "GPU-1"): 500 * 60,
    }


def test_the_replica_of_a_gpu_is_that_of_its_pod(store: Store) -> None:
    pages = [gpu(step, step * 1e6) for step in range(4)]
    scraped(store, {"dcgm": pages}, of="device")
    inventory = {"replica": "r-pod", "match": {"k8s.pod.name": "vllm-0"}, "from_ns": 0, "to_ns": 2**62}
    config_hash = store.query("SELECT any(config_hash) FROM metric_rules").scalar()
    store.insert_rows("inventory", [inventory | {"config_hash": config_hash}])
    measure(store, Scope(7, config_hash, T, T + 60 * S, 60 * S, S, 300 * S, 3600 * S))
    assert store.query("SELECT DISTINCT replica, host FROM work_measures WHERE device != ''").rows == (("r-pod", "n1"),)


def test_infiniband_ports_of_node_exporter_add_up_per_adapter_and_are_seen_once(store: Store) -> None:
    def page(n: int) -> str:
        return "".join(
            counter("node_infiniband_port_data_transmitted_bytes_total", n, device="mlx5_0", port=port)
            + counter("node_infiniband_port_data_received_bytes_total", 2 * n, device="mlx5_0", port=port)
            + counter("node_infiniband_port_transmit_wait_total", 99 * n, device="mlx5_0", port=port)
            for port in "12"
        )

    pages = [page(n) for n in (50, 80, 10, 10)]
    found = scraped(store, {"node": pages, "node-again": pages}, of="device", **{"host.name": "n1"})
    assert found == {("nic_tx_bytes", "mlx5_0"): 2 * 40, ("nic_rx_bytes", "mlx5_0"): 2 * 80}


def test_nccl_inspector_tells_how_long_a_collective_takes(store: Store) -> None:
    def page(step: int, took_us: float) -> str:
        labels = {"comm_id": "0x7f8c", "collective": "AllReduce", "hostname": "n1", "rank": "2", "n_ranks": "8", "gpu_device_id": "GPU2"}
        return series("nccl_collective_exec_time_microseconds", took_us, coll_sn=str(1400 + step), **labels) + series(
            "nccl_bus_bandwidth_gbs", 29.6, coll_sn=str(1400 + step), **labels
        )

    found = scraped(store, {"node": [page(0, 60), page(1, 60), page(2, 80), page(3, 80)]}, of="device")
    assert found == {("collective_seconds", "GPU2"): 70e-6}


def test_litellm_s_cumulative_metrics_flushed_twice_are_not_added(store: Store) -> None:
    """The capture's two exports are of one story: the last says 3584 tokens in and 857 out, and so do both together."""
    bodies = [path.read_bytes() for path in sorted((DATA / "litellm-otel-v2").glob("*metrics.binpb"))]
    config_hash = store_configuration(store, load_configuration(None), datetime(2026, 11, 1, tzinfo=UTC))
    ingest(store, [*bodies, bodies[0]], signal="metrics")
    at_ns = store.query("SELECT toUnixTimestamp64Nano(min(at)) FROM samples").scalar()
    hour = at_ns - at_ns % (3600 * S)
    measure(store, Scope(7, config_hash, hour, hour + 3600 * S, 3600 * S, S, 300 * S, 3600 * S))
    sql = "SELECT quantity, service, sum(value) FROM work_measures GROUP BY quantity, service ORDER BY quantity"
    assert store.query(sql).rows == (("gateway_input_tokens", "litellm-proxy", 3584), ("gateway_output_tokens", "litellm-proxy", 857))
