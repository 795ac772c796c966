"""The same dashboards as a web page, for a machine without Grafana. Reads through a callable; nothing is fetched from outside."""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Protocol

import plotly.offline
from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from dashboards import figures
from dashboards.cost import COST
from dashboards.latency import LATENCY
from dashboards.leak import LEAK
from dashboards.macros import TimeRange, expand
from dashboards.panel import Dashboard, Panel, query_text

DASHBOARDS: Mapping[str, Dashboard] = {"cost": COST, "latency": LATENCY, "leak": LEAK}
RANGES: Mapping[str, int] = {"3h": 3 * 3600, "6h": 6 * 3600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
INTERVALS_S = (900, 3600, 6 * 3600, 86_400)
MAX_BUCKETS = 96


class Result(Protocol):
    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[Sequence[Any]]: ...


Query = Callable[[str, Mapping[str, Any]], Result]


def viewer_routes(query: Query, clock: Callable[[], float] = time.time) -> list[Route]:
    """`/`, `/d/{dashboard}`, `/d/{dashboard}/panels/{id}.json` and the static files. `query` may raise; the panel then shows the error."""
    page = Environment(loader=PackageLoader("dashboards", "static"), autoescape=select_autoescape()).get_template("viewer.html")

    async def home(_: Request) -> Response:
        return RedirectResponse("/d/cost")

    async def dashboard(request: Request) -> Response:
        name = request.path_params["dashboard"]
        if name not in DASHBOARDS:
            return HTMLResponse(f"No dashboard of this name; there are: {', '.join(DASHBOARDS)}.", status_code=404)
        definition = DASHBOARDS[name]
        chosen = _chosen(request, definition)
        options = {
            v.name: [str(row[0]) for row in (await run_in_threadpool(query, query_text(v.query), {})).rows] for v in definition.variables
        }
        return HTMLResponse(
            page.render(
                name=name,
                definition=definition,
                names={key: value.title for key, value in DASHBOARDS.items()},
                ranges=list(RANGES),
                range=request.query_params.get("range", _range_name(definition)),
                options=options,
                custom=_custom(request),
                chosen=chosen,
            )
        )

    async def panel(request: Request) -> Response:
        definition = DASHBOARDS.get(request.path_params["dashboard"])
        wanted = next((p for p in definition.panels if p.id == request.path_params["panel"]), None) if definition else None
        if definition is None or wanted is None:
            return JSONResponse({"error": "no such panel"}, status_code=404)
        try:
            span = time_range(request.query_params, definition, clock())
            sql, parameters = expand(query_text(wanted.query), span, _chosen(request, definition))
            result = await run_in_threadpool(query, sql, parameters)
        except Exception as error:  # whatever the store says belongs on the panel, not in a blank page
            return JSONResponse({"error": str(error)[:500]}, status_code=400 if isinstance(error, ValueError) else 500)
        return JSONResponse(panel_content(wanted, result))

    async def static(request: Request) -> Response:
        return _static(request.path_params["file"])

    return [
        Route("/", home),
        Route("/d/{dashboard}", dashboard),
        Route("/d/{dashboard}/panels/{panel:int}.json", panel),
        Route("/static/{file}", static),
    ]


def panel_content(panel: Panel, result: Result) -> dict[str, Any]:
    """What the page draws: `stat`, `table` or `figure`; an empty picture or table says so instead of showing nothing."""
    if panel.kind == "stat":
        return {"kind": "stat", "text": figures.stat(panel, result.rows)}
    if not result.rows:
        return {"kind": "empty", "text": "No data in this range."}
    if panel.kind == "table":
        return {"kind": "table", "table": figures.table(panel, result.columns, result.rows)}
    return {"kind": "figure", "figure": figures.figure(panel, result.columns, result.rows)}


def time_range(parameters: Mapping[str, str], dashboard: Dashboard, now_s: float) -> TimeRange:
    """`range=24h`, or `from` and `to` in unix seconds. The bucket is the smallest that gives at most MAX_BUCKETS. Raises ValueError."""
    if "from" in parameters or "to" in parameters:
        from_s, to_s = int(parameters.get("from", "0")), int(parameters.get("to", str(int(now_s) + 1)))
    else:
        name = parameters.get("range", _range_name(dashboard))
        if name not in RANGES:
            raise ValueError(f"range must be one of {', '.join(RANGES)}")
        from_s, to_s = int(now_s) - RANGES[name], int(now_s) + 1
    if not 0 <= from_s < to_s < 2**32:
        raise ValueError("from must be before to, both in unix seconds")
    interval_s = next((i for i in INTERVALS_S if (to_s - from_s) / i <= MAX_BUCKETS), INTERVALS_S[-1])
    return TimeRange(from_s, to_s, interval_s)


def _range_name(dashboard: Dashboard) -> str:
    return next((name for name, seconds in RANGES.items() if seconds >= dashboard.default_range_seconds), "30d")


def _custom(request: Request) -> tuple[str, str] | None:
    parameters = request.query_params
    return (parameters.get("from", ""), parameters.get("to", "")) if "from" in parameters or "to" in parameters else None


def _chosen(request: Request, dashboard: Dashboard) -> dict[str, list[str]]:
    return {v.name: [value for value in request.query_params.getlist(v.name) if value] for v in dashboard.variables}


def _static(name: str) -> Response:
    if name == "plotly.js":
        return Response(plotly.offline.get_plotlyjs(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})
    kinds = {"viewer.js": "text/javascript", "viewer.css": "text/css"}
    if name not in kinds:
        return Response("no such file", status_code=404)
    return Response((files("dashboards") / "static" / name).read_text(encoding="utf-8"), media_type=kinds[name])
