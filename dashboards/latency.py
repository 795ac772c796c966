"""Latency: how long users wait, against the objective, and in which stage. For SREs; UTC."""

from dashboards.cost import MODEL, TENANT
from dashboards.panel import Dashboard, Panel

LATENCY = Dashboard(
    uid="tokenpath-latency",
    title="Tokenpath / Latency",
    description="Time to first token, time per output token and end-to-end time per tenant, model and stage. Percentiles are never averaged.",
    default_range_seconds=6 * 3600,
    min_interval="15m",
    variables=(TENANT, MODEL),
    panels=(
        Panel(1, "TTFT p99", "How long did the slowest 1% wait for the first token?", "stat", "latency_ttft_p99", 0, 0, 5, 4, unit="ns"),
        Panel(2, "TPOT p99", "How long did the slowest 1% wait between tokens?", "stat", "latency_tpot_p99", 5, 0, 5, 4, unit="ns"),
        Panel(3, "End to end p99", "How long did the slowest 1% take as a whole?", "stat", "latency_e2e_p99", 10, 0, 5, 4, unit="ns"),
        Panel(
            4, "Objectives met", "Which share of all requests (failed ones included, rejected ones not) met every objective that is set for them?",
            "stat", "latency_slo", 15, 0, 5, 4, unit="ratio", decimals=2,
        ),
        Panel(5, "Requests", "How many requests are behind these figures?", "stat", "latency_requests", 20, 0, 4, 4),
        Panel(6, "TTFT", "Does the wait for the first token change?", "timeseries", "latency_ttft", 0, 4, 12, 8, unit="ns"),
        Panel(7, "TPOT", "Does the pace of the answer change?", "timeseries", "latency_tpot", 12, 4, 12, 8, unit="ns"),
        Panel(
            8, "Mean time per stage", "Where does a request spend its time? Exclusive times: the bands add up to the mean end-to-end time.",
            "bars", "latency_stages", 0, 12, 16, 9, unit="ns", stacked=True,
        ),
        Panel(
            9, "Stages", "How long does each stage take, and how is that known?",
            "table", "latency_stage_table", 16, 12, 8, 9, columns={"p50": "ns", "p99": "ns", "n": "count"},
        ),
        Panel(
            10, "Tenants and models", "Who waits longest?", "table", "latency_tenants", 0, 21, 12, 8,
            columns={"TTFT p50": "ns", "TTFT p99": "ns", "TPOT p99": "ns", "e2e p99": "ns", "objectives met": "ratio", "n": "count"},
        ),
        Panel(
            11, "Slowest requests", "Which requests should one look at?", "table", "latency_slowest", 12, 21, 12, 8,
            columns={"started": "time", "e2e": "ns", "TTFT": "ns", "slowest stage took": "ns"},
        ),
    ),
)  # fmt: skip
