"""Profile rules as lookup arrays: what 100_rules.sql and 101_spans.sql need to read spans without a join.

Numbers used by the statements: `rule` is rank + 1 (0: none), `number` an attribute's place in `keys` (1-based), `field` a field's place in
`field_names` (1-based), `slot` = field * 64 + place of the attribute in the field's list of keys.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.profile_rules import LITERAL

FLAGS = frozenset({"streamed", "disconnected", "blocked"})
COUNTS = frozenset({"http_status", "attempt_no", "token_limit"})
ROLES = ("none", "request", "inference", "stage", "attempt_hint", "ignore")
LAYERS = ("none", "client", "gateway", "router", "engine", "cache")
CONDITIONS_MAX = 32
PLACES_MAX = 63


@dataclass(frozen=True, slots=True)
class _Reading:
    rule: int
    field: str
    place: int
    key: str
    factor: float  # 0: text, -1: boolean, else what one unit of the number is


def lookups(store: Store, config_hash: str, stages: Sequence[str]) -> dict[str, Any]:
    """Parameters of 100_rules and 101_spans, from the rules of one configuration. `stages`: the numbering of stages."""
    rules = store.query(statement("pipeline.attribution.sql.assembly", "10_profile_rules"), {"config_hash": config_hash}).dicts()
    return compiled(rules, stages)


def compiled(rules: Sequence[Mapping[str, Any]], stages: Sequence[str]) -> dict[str, Any]:
    """`rules`: rows of profile_rules of one configuration, by rank. Equal rules give equal arrays."""
    readings = [reading for rule in rules for reading in _readings(rule)]
    fields = sorted({reading.field for reading in readings})
    conditions = sorted({_condition(rule) for rule in rules} - {("", ())})
    if len(conditions) > CONDITIONS_MAX:
        raise ValueError(f"profiles ask for {len(conditions)} different conditions (attribute, resource); the limit is {CONDITIONS_MAX}")
    attributes = {reading.key for reading in readings if not reading.key.startswith(LITERAL)} | {name for name, _ in conditions if name}
    keys = sorted(attributes)
    number, field = {key: n for n, key in enumerate(keys, 1)}, {name: n for n, name in enumerate(fields, 1)}
    return {
        "ranks": [rule["rank"] for rule in rules],
        "needed": [1 << conditions.index(_condition(rule)) if _condition(rule) in conditions else 0 for rule in rules],
        "keys": keys,
        "field_names": fields,
        **_conditions(conditions, number),
        **_rules(rules, stages),
        **_slots(readings, number, field),
    }


def _condition(rule: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return rule["attribute"], tuple(sorted(rule["resource"].items()))


def _conditions(conditions: Sequence[tuple[str, tuple[tuple[str, str], ...]]], number: Mapping[str, int]) -> dict[str, Any]:
    """`free_bits`: conditions without an attribute; `condition_numbers` -> `condition_bits`; `resource_*`: the pairs that must hold."""
    bits: dict[int, int] = {}
    for bit, (name, _) in enumerate(conditions):
        if name:
            bits[number[name]] = bits.get(number[name], 0) | 1 << bit
    pairs = [(key, value, 1 << bit) for bit, (_, resource) in enumerate(conditions) for key, value in resource]
    return {
        "free_bits": sum(1 << bit for bit, (name, _) in enumerate(conditions) if not name),
        "condition_numbers": list(bits),
        "condition_bits": list(bits.values()),
        "resource_keys": [key for key, _, _ in pairs],
        "resource_values": [value for _, value, _ in pairs],
        "resource_bits": [bit for _, _, bit in pairs],
    }


def _rules(rules: Sequence[Mapping[str, Any]], stages: Sequence[str]) -> dict[str, Any]:
    def stage(rule: Mapping[str, Any]) -> int:
        if rule["role"] == "inference":
            return stages.index("") + 1
        return stages.index(rule["stage"]) + 1 if rule["stage"] else 0

    return {
        "rules": [rule["rank"] + 1 for rule in rules],
        "rule_roles": [ROLES.index(rule["role"]) for rule in rules],
        "rule_layers": [LAYERS.index(rule["layer"]) for rule in rules],
        "rule_stages": [stage(rule) for rule in rules],
        "rule_proofs": [int(rule["delivery_proof"]) for rule in rules],
        "rule_excludes": [
            int(any(one["field"] == "input_tokens" and not one["includes_cache"] for one in rule["fields"])) for rule in rules
        ],
        "rank_rules": [rule["rank"] + 1 for rule in rules if rule["siblings_by"] and rule["role"] == "ignore"],
        "sibling_rules": [rule["rank"] + 1 for rule in rules if rule["siblings_by"]],
        "sibling_keys": [rule["siblings_by"] for rule in rules if rule["siblings_by"]],
    }  # fmt: skip


def _readings(rule: Mapping[str, Any]) -> Iterable[_Reading]:
    for one in rule["fields"]:
        yield from _placed(rule, one["field"], one["keys"], _factor(one["field"], one["ns_per_unit"]))
    for one in rule["stages"]:
        yield from _placed(rule, f"told/{one['quality']}/{one['stage']}", one["keys"], one["ns_per_unit"])


def _placed(rule: Mapping[str, Any], field: str, keys: Sequence[str], factor: float) -> Iterable[_Reading]:
    if len(keys) > PLACES_MAX:
        raise ValueError(f"profile {rule['profile']!r}: {field} has {len(keys)} keys; the limit is {PLACES_MAX}")
    return (_Reading(rule["rank"] + 1, field, place, key, factor) for place, key in enumerate(keys, 1))


def _factor(field: str, ns_per_unit: float) -> float:
    if field in FLAGS:
        return -1.0
    return ns_per_unit if field.endswith(("_ns", "_tokens")) or field in COUNTS else 0.0


def _slots(readings: Sequence[_Reading], number: Mapping[str, int], field: Mapping[str, int]) -> dict[str, Any]:
    """An attribute may serve several fields of one rule: `first_*` leads to one slot, `next_*` from there to the others, one by one."""
    uses: dict[tuple[int, str], list[int]] = {}
    for reading in readings:
        if not reading.key.startswith(LITERAL):
            uses.setdefault((reading.rule, reading.key), []).append(field[reading.field] * 64 + reading.place)
    chain = [(rule, *pair) for (rule, _), slots in uses.items() for pair in pairwise(slots)]
    literals = [reading for reading in readings if reading.key.startswith(LITERAL)]
    counted: dict[int, int] = {}
    for reading in literals:
        counted[reading.rule] = counted.get(reading.rule, 0) + 1
    factors = {(reading.rule << 16) + field[reading.field]: reading.factor for reading in readings if reading.factor}
    return {
        "first_keys": [(rule << 16) + number[key] for rule, key in uses],
        "first_slots": [slots[0] for slots in uses.values()],
        "next_keys": [(rule << 32) + slot for rule, slot, _ in chain],
        "next_slots": [slot for _, _, slot in chain],
        "uses_max": max((len(slots) for slots in uses.values()), default=1),
        "factor_keys": list(factors),
        "factors": list(factors.values()),
        "slot_keys": [(rule << 32) + slot for (rule, _), slots in uses.items() for slot in slots],
        "slot_attributes": [key for (_, key), slots in uses.items() for _ in slots],
        "literal_rules": list(counted),
        "literal_counts": list(counted.values()),
        "literal_keys": [
            (one.rule << 8) + 1 + sum(other.rule == one.rule for other in literals[:place]) for place, one in enumerate(literals)
        ],
        "literal_slots": [field[one.field] * 64 + one.place for one in literals],
        "literal_values": [one.key.removeprefix(LITERAL) for one in literals],
        "token_fields": [n for name, n in field.items() if name.endswith("_tokens")],
    }  # fmt: skip
