"""Words for tokens and for what they cost: the disjoint buckets and the cost classes (DESIGN section 1)."""

INPUT_BUCKETS: tuple[str, ...] = ("input_uncached", "input_cache_read", "input_cache_write")
OUTPUT_BUCKETS: tuple[str, ...] = ("output_text", "output_reasoning")
TOKEN_BUCKETS: tuple[str, ...] = INPUT_BUCKETS + OUTPUT_BUCKETS

# Classes of an attempt's atoms, each atom in the first that fits; all but `useful` are waste.
WASTE_CLASSES: tuple[str, ...] = (
    "late", "aborted", "failed", "superseded", "blocked", "unmetered",
    "overgenerated", "recompute", "rejected_draft", "affinity_miss", "stale_index",
)  # fmt: skip
ATTEMPT_CLASSES: tuple[str, ...] = ("useful", *WASTE_CLASSES)

# What a tenant answers for: its attempts, and time that it reserved and did not use.
TENANT_CLASSES: tuple[str, ...] = (*ATTEMPT_CLASSES, "idle_reserved")

# What no attempt answers for.
SHARED_CLASSES: tuple[str, ...] = ("unattributed", "platform_waste", "idle", "idle_reserved", "overhead")

# What costs money over time.
POOLS: tuple[str, ...] = ("gpu", "power", "network", "kv_storage", "gateway", "overhead")

ATOMS_PER_UNIT = 10**12  # atoms in one unit of the currency
