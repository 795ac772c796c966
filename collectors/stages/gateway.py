"""The stages of a gateway: the request itself, and in it auth, tokenize, route, stream, settle."""

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from collectors.stages.span import Stage, Value


class Gateway(Stage):
    """The root of one client's request. `request_id` is the id that the client sees, `task` the agent run or conversation."""

    __slots__ = ()
    stage, kind = "gateway", SpanKind.SERVER

    def __init__(
        self,
        *,
        tenant: str | None = None,
        task: str | None = None,
        request_id: str | None = None,
        model: str | None = None,
        parent: Context | None = None,
        start_ns: int | None = None,
    ) -> None:
        attributes: dict[str, Value] = {}
        if tenant is not None:
            attributes["tokenpath.tenant.id"] = tenant
        if task is not None:
            attributes["tokenpath.task.id"] = task
        if request_id is not None:
            attributes["tokenpath.request.id"] = request_id
        if model is not None:
            attributes["gen_ai.request.model"] = model
        super().__init__(parent, start_ns, attributes)

    def answered(self, status: int) -> None:
        """The HTTP status that the client got."""
        self.span.set_attribute("http.response.status_code", status)

    def blocked(self) -> None:
        """A guardrail withheld the answer."""
        self.span.set_attribute("tokenpath.blocked", True)

    def disconnected(self) -> None:
        """The client left before its answer was complete."""
        self.span.set_attribute("tokenpath.client.disconnected", True)


class Auth(Stage):
    """Who is asking. A tenant found here counts where the gateway span names none."""

    __slots__ = ()
    stage = "auth"

    def __init__(self, *, tenant: str | None = None, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {} if tenant is None else {"tokenpath.tenant.id": tenant})

    def tenant(self, tenant: str) -> None:
        self.span.set_attribute("tokenpath.tenant.id", tenant)


class Tokenize(Stage):
    __slots__ = ()
    stage = "tokenize"

    def __init__(self, *, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {})


class Route(Stage):
    """Which replica gets the request. `policy`: `prefix_aware`, `round_robin`, ..."""

    __slots__ = ()
    stage = "route"

    def __init__(self, *, policy: str | None = None, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {} if policy is None else {"tokenpath.route.policy": policy})

    def chose(self, replica: str, *, expected_hit_tokens: int | None = None, best_hit_tokens: int | None = None) -> None:
        """`expected_hit_tokens`: in the cache of the chosen replica; `best_hit_tokens`: in the best other one's."""
        self.span.set_attribute("tokenpath.route.replica.id", replica)
        self.set("tokenpath.route.expected_hit_tokens", expected_hit_tokens)
        self.set("tokenpath.route.best_hit_tokens", best_hit_tokens)


class Stream(Stage):
    """From the first chunk to the client to the last one."""

    __slots__ = ()
    stage = "stream"

    def __init__(self, *, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {})

    def delivered(self, tokens: int) -> None:
        """Tokens that were written to the client's socket."""
        self.span.set_attribute("tokenpath.delivered_tokens", tokens)

    def disconnected(self) -> None:
        """The client left in the middle."""
        self.span.set_attribute("tokenpath.client.disconnected", True)


class Settle(Stage):
    """Work after the answer: writing the bill, the cache of answers, logs."""

    __slots__ = ()
    stage = "settle"

    def __init__(self, *, parent: Context | None = None, start_ns: int | None = None) -> None:
        super().__init__(parent, start_ns, {})
