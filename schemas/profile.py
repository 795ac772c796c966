"""Profile files: how the spans of one serving stack are read. A new stack is a new file, not new code."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from schemas.metric import Labels, Metric
from schemas.stages import GROUPS, Layer, Stage

Role = Literal["request", "inference", "stage", "attempt_hint", "ignore"]
Unit = Literal["s", "ms", "us", "ns"]

Key = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^=\s]")]


def _once(keys: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(keys)) != len(keys):
        raise ValueError("an attribute is named twice")
    return keys


Keys = Annotated[tuple[Key, ...], Field(min_length=1, max_length=32), AfterValidator(_once)]
USES_MAX = 3  # fields and stages of one [[span]] that may read the same attribute; the SQL has so many look-ups


class Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reading(Entry):
    """The first of these attributes that has a value. Missing: absent, empty, `-`, `null`, negative. Never a sum."""

    keys: Keys = Field(alias="from")


class Duration(Reading):
    unit: Unit


class InputTokens(Reading):
    """`includes_cache`: whether the figure counts cached tokens, as OpenTelemetry asks, or leaves them out."""

    includes_cache: bool


class Flag(Reading):
    """`absent`: what it means when no attribute has a value, for stacks that write only `true`."""

    absent: bool | None = None


class Phase(Reading):
    """Which half of one inference a worker ran: `prefill`, else decode. `absent`: where the name of the span says it, or its match."""

    absent: Literal["prefill", "decode"] | None = None


class StageReading(Entry):
    """A stage whose duration is told by an attribute; laid out in canonical order, or carved out of the parent stage."""

    stage: Stage
    duration: Duration
    quality: Literal["attribute", "derived"] = "attribute"


class Match(Entry):
    """All that is given must hold."""

    scope_name: tuple[str, ...] = ()
    resource: Mapping[str, str] = Field(default_factory=dict)
    attribute: str = ""


class Readings(Entry):
    """What a span can tell: columns of `requests` and `attempts`, and a few that only serve to derive those."""

    tenant: Reading | None = None
    model: Reading | None = None
    response_model: Reading | None = None
    provider: Reading | None = None
    task_id: Reading | None = None
    client_request_id: Reading | None = None
    response_id: Reading | None = None
    call_id: Reading | None = None
    join_key: Reading | None = None  # an id that the stack made for one inference (SGLang's bootstrap_room), equal on all its workers
    phase: Phase | None = None  # of an engine whose prefill and decode run on different workers
    replica: Reading | None = None
    attempt_no: Reading | None = None
    http_status: Reading | None = None
    error_type: Reading | None = None
    finish_reason: Reading | None = None
    streamed: Flag | None = None
    disconnected: Flag | None = None
    blocked: Flag | None = None
    ttft_ns: Duration | None = None
    queue_ns: Duration | None = None
    prefill_ns: Duration | None = None
    decode_ns: Duration | None = None
    input_tokens: InputTokens | None = None
    output_tokens: Reading | None = None
    input_cache_read_tokens: Reading | None = None
    input_cache_write_tokens: Reading | None = None
    output_reasoning_tokens: Reading | None = None
    delivered_tokens: Reading | None = None
    token_limit: Reading | None = None  # what the client asked for at most (max_tokens)
    recompute_tokens: Reading | None = None
    rejected_draft_tokens: Reading | None = None
    draft_proposed_tokens: Reading | None = None
    draft_accepted_tokens: Reading | None = None
    expected_hit_tokens: Reading | None = None
    best_hit_tokens: Reading | None = None


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _lone_names(value: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if value is not None and (not value or len(set(value)) != len(value)):
        raise ValueError("names must be given, each once")
    return value


Names = Annotated[tuple[str, ...] | None, BeforeValidator(_several), AfterValidator(_lone_names)]


class Span(Readings):
    """One [[span]]. `stage = "x"`: its own interval is stage x. `[[span.stage]]`: stages told by its attributes; the interval is none.

    `siblings_by`: spans under one parent with the same value of this attribute are one. Inference spans: the choices of one request
    (n > 1). Ignored spans: ranks that each report the same work; what hangs directly under the first of them counts, the rest goes.
    """

    name: Names = None
    name_prefix: Names = None
    match: Match | None = None  # instead of the file's
    role: Role
    layer: Layer | None = None
    stage: Annotated[Stage | Literal[""], BeforeValidator(lambda value: "" if isinstance(value, list) else value)] = ""
    stages: Annotated[tuple[StageReading, ...], BeforeValidator(lambda value: () if isinstance(value, str) else value)] = Field(
        default=(), alias="stage"
    )
    siblings_by: str = ""
    delivery_proof: bool | None = None

    @model_validator(mode="after")
    def hangs_together(self) -> "Span":
        if (self.name is None) == (self.name_prefix is None):
            raise ValueError("give either name or name_prefix")
        if self.role in ("request", "inference") and self.layer is None:
            raise ValueError(f"role {self.role!r} needs a layer")
        if self.role == "stage" and not self.stage and not self.stages:
            raise ValueError("role 'stage' needs stage = … or [[span.stage]]")
        if self.role in ("inference", "ignore") and self.stage:
            raise ValueError(f"role {self.role!r} has no stage of its own")
        if self.role == "ignore" and (self.stages or self.readings()):
            raise ValueError("role 'ignore' reads nothing")
        if self.siblings_by and self.role not in ("inference", "ignore"):
            raise ValueError("siblings_by belongs to role 'inference' or 'ignore'")
        everything = [reading for _, reading in self.readings()] + [stage.duration for stage in self.stages]
        for key, uses in Counter(key for reading in everything for key in set(reading.keys)).items():
            if uses > USES_MAX:
                raise ValueError(f"attribute {key!r} is read {uses} times; {USES_MAX} are possible")
        return self

    def readings(self) -> list[tuple[str, Reading]]:
        named = ((name, getattr(self, name)) for name in Readings.model_fields)
        return [(name, reading) for name, reading in named if reading is not None]

    def where(self) -> Layer:
        """Spans that are no request and no inference lie in the layer that their stage belongs to."""
        if self.layer is not None:
            return self.layer
        stage = self.stage or (self.stages[0].stage if self.stages else "gateway")
        return Layer.GATEWAY if stage in GROUPS["gateway"] else Layer.ENGINE


class Profile(Entry):
    """One file. `fallback`: 0 for a stack; higher numbers are tried after all lower ones."""

    profile: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    version: Annotated[int, Field(ge=1)]
    fallback: Annotated[int, Field(ge=0, le=9)] = 0
    delivery_proof: bool = False  # whether the stack can show that a client left
    match: Match = Match()
    span: tuple[Span, ...] = ()
    labels: Labels = Labels()  # of its metrics
    metric: tuple[Metric, ...] = ()

    @model_validator(mode="after")
    def reads_something(self) -> "Profile":
        if not self.span and not self.metric:
            raise ValueError("reads nothing: give a [[span]] or a [[metric]]")
        return self
