"""Cost: what serving cost, per useful token and tenant, and what of it was wasted. For FinOps; UTC."""

from dashboards.panel import Dashboard, Panel, Variable

TENANT = Variable("tenant", "Tenant", "variable_tenant")
MODEL = Variable("model", "Model", "variable_model")

COST = Dashboard(
    uid="tokenpath-cost",
    title="Tokenpath / Cost",
    description="What serving cost per useful token and tenant, what was wasted, what the cache saved. The bands of the cost picture add up to the pools.",
    default_range_seconds=7 * 86_400,
    min_interval="15m",
    variables=(TENANT, MODEL),
    panels=(
        Panel(
            1, "Spend", "What did the selected tenants and models cost, idle and unattributed time included when all are selected?",
            "stat", "cost_spend", 0, 0, 6, 4, unit="usd", decimals=2,
        ),
        Panel(
            2, "Cost per 1M useful tokens", "What does a million tokens cost that arrived complete, in time and were used? Fully loaded: idle, waste and unattributed time are shared by busy time.",
            "stat", "cost_per_useful", 6, 0, 6, 4, unit="usd", decimals=2,
        ),
        Panel(
            3, "Spent on waste", "Which share of the spend bought nothing useful: late, aborted, failed, superseded, blocked, recomputed, idle, unattributed?",
            "stat", "cost_waste_ratio", 12, 0, 6, 4, unit="ratio", decimals=1,
        ),
        Panel(
            4, "Saved by cache (estimate, gross)", "What would the prompt tokens that came from the prefix cache have cost to prefill? An estimate outside the ledger, before KV storage and transfer.",
            "stat", "cost_cache_saved", 18, 0, 6, 4, unit="usd", decimals=2,
        ),
        Panel(
            5, "Cost over time", "Who spent it, and how much stood idle? The bands add up to the pools.",
            "bars", "cost_over_time", 0, 4, 16, 9, unit="usd", stacked=True,
        ),
        Panel(
            6, "Cost by class", "What was the money spent on? useful is what one wants; everything else leaks.",
            "table", "cost_by_class", 16, 4, 8, 9, columns={"cost": "usd", "share": "ratio"},
        ),
        Panel(
            7, "Tenants", "Who pays how much for a useful token, and why?",
            "table", "cost_tenants", 0, 13, 24, 8,
            columns={
                "spend": "usd", "fully loaded": "usd", "share": "ratio", "useful tokens": "tokens", "per 1M useful": "usd", "waste": "ratio",
                "cache hits": "ratio", "cache saved": "usd", "charged": "usd", "p99 TTFT": "ns", "requests": "count",
            },
        ),
        Panel(
            8, "Cost by model", "Which model costs what per useful token?",
            "table", "cost_models", 0, 21, 12, 6,
            columns={"spend": "usd", "useful tokens": "tokens", "per 1M useful": "usd", "waste": "ratio"},
        ),
        Panel(
            9, "Can these figures be trusted?", "Do pools and ledger agree to the atom, is every window closed, is anything unknown?",
            "table", "cost_trust", 12, 21, 12, 6,
        ),
        Panel(
            10, "Cost by pool", "What costs money: GPU time, power, network, KV storage, gateways, overhead? Pools appear as soon as the price book has a row of them.",
            "table", "cost_pools", 0, 27, 12, 6, columns={"cost": "usd", "share": "ratio"},
        ),
    ),
)  # fmt: skip
