"""How long a step of a continuously batching engine takes, and what each item adds (finops reference 3.3; figures: schemas/catalog.py).

For an item with m new tokens after s cached ones, the mean attended context is c = s + (m + 1)/2:
    F = 2 P m + 4 layers heads head_dim m c   FLOP,  at GPUs x FLOP/s x efficiency
    K = KV bytes per token x c                bytes, at GPUs x HBM B/s x efficiency
    W = weight bytes of a step                bytes, likewise
    step = max(sum F, W + sum K), rounded up to ns, + STEP_OVERHEAD_NS
All as integers: one tick is 2^-20 ns, and contexts are doubled (`context2 = 2 s + m + 1`) so that halves stay whole.
"""

from dataclasses import dataclass

from collectors.workload.errors import ReplayRefused
from collectors.workload.options import ReplicaOptions
from schemas.catalog import BYTES_PER_VALUE, Model, gpus, models_by_name

TICKS_PER_NS = 1 << 20
STEP_OVERHEAD_NS = 150_000  # scheduling and launch between two steps; measured in steps, so it belongs to busy time
LINK_BYTES_PER_SECOND = 450_000_000_000  # one direction of NVLink 4: NVIDIA H100 data sheet, 900 GB/s in both
KV_PAGE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Roofline:
    """One replica's constants. `*_ticks` are times; flop and bytes feed the spans."""

    token_ticks: int  # compute of one new token, without attention
    attention_ticks: int  # compute per new token and doubled context token
    cache_ticks: int  # reading one doubled context token
    weight_ticks: int  # reading the weights, once a step
    link_ticks: int  # exchanging one token's activations among the GPUs of the replica; inside the step
    token_flop: int
    attention_flop: int  # per new token and doubled context token
    cache_bytes: int  # per context token
    weight_bytes: int
    link_bytes: int  # per token
    capacity_pages: int  # KV pages of KV_PAGE_TOKENS

    def compute(self, tokens: int, context2: int) -> int:
        return tokens * (self.token_ticks + self.attention_ticks * context2)

    def flop(self, tokens: int, context2: int) -> int:
        return tokens * (self.token_flop + self.attention_flop * context2)


def catalog_model(name: str) -> Model:
    """Raises ReplayRefused for a model without figures."""
    model = models_by_name().get(name)
    if model is None:
        raise ReplayRefused(f"no figures for model {name!r}; known: {', '.join(sorted(models_by_name()))}")
    return model


def gpus_for(name: str) -> int:
    """How many H100 (a power of two) hold the fp8 weights and as much KV cache again."""
    needed = 2 * catalog_model(name).parameters
    count = 1
    while count * gpus()["h100-sxm"].hbm_bytes * 9 // 10 < needed:
        count *= 2
    return count


def roofline(replica: ReplicaOptions) -> Roofline:
    """Raises ReplayRefused if the GPU is unknown or the weights leave no room for a KV cache."""
    model = catalog_model(replica.model)
    gpu = gpus().get(replica.gpu)
    if gpu is None:
        raise ReplayRefused(f"replica {replica.id}: no figures for GPU {replica.gpu!r}; known: {', '.join(sorted(gpus()))}")
    flop_rate = gpu.flops(replica.precision) * replica.gpus * replica.compute_efficiency
    byte_rate = gpu.hbm_bytes_per_second * replica.gpus * replica.memory_efficiency
    ticks_per_second = TICKS_PER_NS * 10**9
    attention_flop = 2 * model.layers * model.attention_heads * model.head_dim
    weights = model.weight_bytes(replica.precision)
    # Two all-reduces a layer of 16-bit activations; a ring moves 2 (g - 1)/g of the bytes over each GPU's link.
    link_bytes = 2 * model.layers * model.attention_heads * model.head_dim * 2 * 2 * (replica.gpus - 1) // replica.gpus
    room = int(gpu.hbm_bytes * replica.gpus * replica.memory_share) - int(model.parameters * BYTES_PER_VALUE[replica.precision])
    capacity_tokens = replica.kv_capacity_tokens or room // model.kv_bytes_per_token
    if capacity_tokens < 1024:
        raise ReplayRefused(
            f"replica {replica.id}: {replica.gpus} x {replica.gpu} hold the weights of {model.id} but no KV cache; give it more GPUs"
        )
    return Roofline(
        token_ticks=int(model.flop_per_token * ticks_per_second / flop_rate),
        attention_ticks=int(attention_flop * ticks_per_second / flop_rate),
        cache_ticks=int(model.kv_bytes_per_token * ticks_per_second / (2 * byte_rate)),
        weight_ticks=int(weights * ticks_per_second / byte_rate),
        link_ticks=link_bytes * ticks_per_second // LINK_BYTES_PER_SECOND,
        token_flop=model.flop_per_token,
        attention_flop=attention_flop,
        cache_bytes=model.kv_bytes_per_token,
        weight_bytes=weights,
        link_bytes=link_bytes,
        capacity_pages=capacity_tokens // KV_PAGE_TOKENS,
    )
