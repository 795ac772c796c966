"""Leak map: at which step of the path the money was lost, and as what. For FinOps and SREs; UTC."""

from dashboards.cost import MODEL, TENANT
from dashboards.panel import Dashboard, Panel, Unit

STAGES = (
    "gateway", "auth", "tokenize", "route", "schedule", "kv_cache", "prefill", "decode", "kernel", "hbm", "nvlink", "switch", "nic",
    "stream", "settle", "other",
)  # fmt: skip
HEAT: dict[str, Unit] = {"cost": "usd", **dict.fromkeys(STAGES, "usd")}

LEAK = Dashboard(
    uid="tokenpath-leak",
    title="Tokenpath / Leak map",
    description="What bought nothing useful, by class and by the stage at which it leaked. With the useful part it adds up to the bill.",
    default_range_seconds=7 * 86_400,
    min_interval="15m",
    variables=(TENANT, MODEL),
    panels=(
        Panel(
            1, "Leaked", "How much bought nothing useful? Idle and unattributed time is in it when all tenants and models are selected.",
            "stat", "leak_lost", 0, 0, 6, 4, unit="usd", decimals=2,
        ),
        Panel(2, "Of the spend", "Which share of the spend is that?", "stat", "leak_ratio", 6, 0, 6, 4, unit="ratio", decimals=1),
        Panel(3, "Largest leak", "Which class at which stage is the dearest?", "stat", "leak_largest", 12, 0, 6, 4, unit="text"),
        Panel(
            4, "Spend", "What did it cost altogether? With all tenants and models selected this is the bill of the pools.",
            "stat", "leak_spend", 18, 0, 6, 4, unit="usd", decimals=2,
        ),
        Panel(
            5, "Leak map", "At which stage does the money leak, and as what? The darker the dearer; an empty cell lost nothing.",
            "table", "leak_map", 0, 4, 24, 9, columns=HEAT, heat=STAGES,
        ),
        Panel(
            6, "Leak over time", "When does it leak? By stage; idle and unattributed time apart.",
            "bars", "leak_over_time", 0, 13, 12, 9, unit="usd", stacked=True,
        ),
        Panel(
            7, "Missed objectives", "Which stage made requests late? The one that took most more than usual where the objective measures.",
            "table", "leak_misses", 12, 13, 12, 9, columns={"requests": "count", "of these": "ratio", "more than usual": "ns"},
        ),
        Panel(
            10, "Slowest 1%", "Which stage makes the tail? Of each window, tenant and model the slowest hundredth, late or not.",
            "table", "leak_tail", 16, 22, 8, 8, columns={"requests": "count", "of these": "ratio", "more than usual": "ns"},
        ),
        Panel(
            8, "Tenants and models", "Whose money leaks, and where most of it?", "table", "leak_tenants", 0, 22, 8, 8,
            columns={"spend": "usd", "leaked": "usd", "of spend": "ratio"},
        ),
        Panel(
            9, "Replicas", "On which machine does it leak?", "table", "leak_replicas", 8, 22, 8, 8,
            columns={"spend": "usd", "leaked": "usd", "of spend": "ratio"},
        ),
    ),
)  # fmt: skip
