"""Profiles flattened into rows of `profile_rules`, in one total order: the first rule that fits a span reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from schemas.profile import Duration, Flag, InputTokens, Match, Phase, Profile, Reading, Span
from schemas.source import Refusal, read, refused

NS_PER_UNIT: Mapping[str, float] = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
CONDITIONS_MAX = 32  # different pairs of attribute and resource that all profiles together may ask for; a bit each in the SQL
LITERAL = "="  # a key that starts so is no attribute but the value itself: what a stack means by leaving the attribute out


@dataclass(frozen=True, slots=True)
class Source:
    """A profile with the file that it came from."""

    file: str
    text: str
    profile: Profile


@dataclass(frozen=True, slots=True)
class FieldRow:
    field: str
    keys: tuple[str, ...]
    ns_per_unit: float  # 1 for what is no duration
    includes_cache: int


@dataclass(frozen=True, slots=True)
class StageRow:
    stage: str
    keys: tuple[str, ...]
    ns_per_unit: float
    quality: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of `profile_rules`, but for its config hash. Names are those of the columns."""

    profile: str
    version: int
    rule_no: int
    rank: int
    scope_names: tuple[str, ...]
    resource: Mapping[str, str]
    attribute: str
    name: str
    name_is_prefix: int
    role: str
    layer: str
    stage: str
    siblings_by: str
    delivery_proof: int
    fields: tuple[FieldRow, ...]
    stages: tuple[StageRow, ...]


class _Candidate(NamedTuple):
    """One name of one [[span]] of one file."""

    source: Source
    number: int  # of the [[span]]
    span: Span
    match: Match
    name: str
    is_prefix: bool

    @property
    def order(self) -> tuple[int, ...]:
        """Lower comes first: ordinary before fallbacks; scope and attribute, scope, attribute, none; exact name, then longer prefix."""
        match = self.match
        return (
            self.source.profile.fallback,
            -bool(match.scope_name),
            -bool(match.attribute),
            -len(match.resource),
            int(self.is_prefix),
            -len(self.name) if self.is_prefix else 0,
        )


def load(file: str, text: str) -> Source:
    """Raises SourceError with file and line."""
    return Source(file, text, read(Profile, file, text))


def rules(sources: Sequence[Source]) -> list[Rule]:
    """All rules, rank = position. Raises SourceError where a span could fit two rules equally well.

    Inside one file the earlier [[span]] wins where only the attribute asked for differs; the same conditions twice are refused.
    """
    candidates = [candidate for source in sources for candidate in _candidates(source)]
    for first, second in combinations(candidates, 2):
        if first.order == second.order and _both_can_fit(first, second):
            where = f"[[span]] {first.number + 1} of {first.source.file}"
            raise refused(
                second.source.file,
                second.source.text,
                [Refusal(("span", second.number), f"fits the same spans as {where}, and neither is more specific: narrow one by scope, "
                         "attribute, resource or name")],
            )  # fmt: skip
    _refuse_too_many_conditions(candidates)
    ordered = sorted(candidates, key=lambda one: (one.order, one.source.profile.profile, one.number, one.name))
    numbers: dict[str, int] = {}
    return [_rule(candidate, rank, numbers) for rank, candidate in enumerate(ordered)]


def _candidates(source: Source) -> list[_Candidate]:
    return [
        _Candidate(source, number, span, span.match or source.profile.match, name, span.name is None)
        for number, span in enumerate(source.profile.span)
        for name in (span.name if span.name is not None else span.name_prefix or ())
    ]


def _refuse_too_many_conditions(candidates: Sequence[_Candidate]) -> None:
    asked: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for candidate in candidates:
        asked.add((candidate.match.attribute, tuple(sorted(candidate.match.resource.items()))))
        if len(asked - {("", ())}) > CONDITIONS_MAX:
            source, place = candidate.source, ("span", candidate.number)
            message = f"profiles ask for more than {CONDITIONS_MAX} different conditions (attribute, resource); use scope names"
            raise refused(source.file, source.text, [Refusal(place, message)])


def _both_can_fit(first: _Candidate, second: _Candidate) -> bool:
    one, other = first.match, second.match
    if first.source is second.source and one.attribute != other.attribute:
        return False
    return (
        first.name == second.name
        and (not one.scope_name or bool(set(one.scope_name) & set(other.scope_name)))
        and all(other.resource.get(key, value) == value for key, value in one.resource.items())
    )


def _rule(candidate: _Candidate, rank: int, numbers: dict[str, int]) -> Rule:
    profile, span = candidate.source.profile, candidate.span
    numbers[profile.profile] = number = numbers.get(profile.profile, 0) + 1
    proof = profile.delivery_proof if span.delivery_proof is None else span.delivery_proof
    return Rule(
        profile=profile.profile,
        version=profile.version,
        rule_no=number,
        rank=rank,
        scope_names=candidate.match.scope_name,
        resource=dict(sorted(candidate.match.resource.items())),
        attribute=candidate.match.attribute,
        name=candidate.name,
        name_is_prefix=int(candidate.is_prefix),
        role=span.role,
        layer=span.where(),
        stage=span.stage,
        siblings_by=span.siblings_by,
        delivery_proof=int(proof),
        fields=tuple(_field(name, reading) for name, reading in span.readings()),
        stages=tuple(
            StageRow(one.stage, one.duration.keys, NS_PER_UNIT[one.duration.unit], one.quality) for one in span.stages
        ),
    )  # fmt: skip


def _field(name: str, reading: Reading) -> FieldRow:
    keys = reading.keys
    if isinstance(reading, Flag | Phase) and reading.absent is not None:
        keys = (*keys, LITERAL + str(reading.absent).lower())
    ns_per_unit = NS_PER_UNIT[reading.unit] if isinstance(reading, Duration) else 1.0
    return FieldRow(name, keys, ns_per_unit, int(isinstance(reading, InputTokens) and reading.includes_cache))
