"""Decides on the parsed tree whether a reader's statement may run on the embedded engine, which has no users of its own.

The engine parses (`formatQuerySingleLine` refuses several statements, then `EXPLAIN AST` on a read-only handle); this
module only reads the tree's text. Rows are protected separately, by table filters on the handle (embedded.py): what is
refused here are the ways around them: table functions, files, network, other databases' tables, settings.
"""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

READABLE_SYSTEM_TABLES = frozenset({"system.one", "system.settings", "system.databases", "system.tables", "system.columns"})
ALLOWED_TABLE_FUNCTIONS = frozenset({"numbers"})
# Regular functions that read files or other tables, reach the network, hold a thread, or tell about the host.
REFUSED_FUNCTIONS = re.compile(
    r"^(file|joinget.*|dict.*|sleep.*|ai[A-Z].*|AI[A-Z].*|reverseDNSQuery|evalMLMethod|catboostEvaluate|showCertificate|addressTo.*|"
    r"getSetting.*|getServerSetting|getMergeTreeSetting|getMacro|getOSKernelVersion|getServerPort|getClientHTTPHeader|currentRequestURL|"
    r"filesystem.*|zookeeper.*|(full)?host_?name|serverUUID|(current|enabled|default)(Profiles|Roles|User))$",
    re.IGNORECASE,
)
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`", re.DOTALL)
IN_FUNCTIONS = frozenset({"in", "notIn", "globalIn", "globalNotIn", "nullIn", "notNullIn", "globalNullIn", "globalNotNullIn"})
KNOWN_NODES = frozenset(
    {
        "SelectWithUnionQuery", "SelectIntersectExceptQuery", "SelectQuery", "ExpressionList", "Function", "Identifier", "Literal",
        "Asterisk", "QualifiedAsterisk", "ColumnsRegexpMatcher", "ColumnsListMatcher", "QualifiedColumnsRegexpMatcher",
        "QualifiedColumnsListMatcher", "ColumnsTransformerList", "ColumnsExceptTransformer", "ColumnsReplaceTransformer",
        "ColumnsApplyTransformer", "ColumnsReplaceTransformer::Replacement", "TablesInSelectQuery", "TablesInSelectQueryElement",
        "TableExpression", "TableIdentifier", "TableJoin", "ArrayJoin", "Subquery", "WithElement", "OrderByElement", "SampleRatio",
        "WindowDefinition", "WindowListElement", "InterpolateElement", "StorageOrderByElement", "Set",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    depth: int
    kind: str
    text: str  # what follows the kind: name, literal, alias


def parse_tree(explained: str) -> list[Node]:
    """Lines of `EXPLAIN AST` (TSVRaw), which prints names as they are: check `forged_name` first, or a name could write lines of its own.

    Lines end with a newline only; other characters that Python would split at may stand in a literal.
    """
    nodes = []
    for line in explained.split("\n"):
        stripped = line.lstrip(" ")
        kind, _, text = stripped.partition(" ")
        nodes.append(Node(len(line) - len(stripped), kind, text))
    return nodes


def forged_name(formatted: str, parameters: Mapping[str, str]) -> str | None:
    """Why a name in the statement may not be: it would break a line of the tree. `formatted` is formatQuerySingleLine's answer, which has
    no comments, quotes strings with ' and strange names with `, and escapes with backslashes; parameters are in TabSeparated's escapes."""
    names = [token for token in QUOTED.findall(formatted) if token.startswith("`")]
    names += [
        value
        for name, value in parameters.items()
        if re.search(rf"\{{\s*{re.escape(name.removeprefix('param_'))}\s*:\s*Identifier", formatted)
    ]
    strange = next((name for name in names if "\\" in name or not name.isprintable()), None)
    return None if strange is None else f"the name {strange!r} has a backslash, a line break or a control character"


def refusal(
    nodes: list[Node], database: str, table_functions: Set[str], regular_functions: Set[str], closed_tables: Set[str] = frozenset()
) -> str | None:
    """Why the statement may not run, or None. `table_functions` and `regular_functions` are the engine's own lists; `closed_tables` are
    those of `database` that this reader may not name, though views that it may read do."""
    if not nodes or nodes[0].kind != "SelectWithUnionQuery":
        return "only SELECT is allowed here"
    checks = (
        _unknown_nodes(nodes),
        _outfile(nodes),
        _tables(nodes, database, closed_tables),
        _functions(nodes, table_functions - regular_functions - ALLOWED_TABLE_FUNCTIONS),
        _right_of_in(nodes, database, table_functions - ALLOWED_TABLE_FUNCTIONS, closed_tables),
    )
    return next((reason for reason in checks if reason), None)


def output_format(nodes: list[Node]) -> str | None:
    """The FORMAT clause, which EXPLAIN AST shows as an identifier beside the query."""
    return next((_name(node) for node in nodes if node.depth == 1 and node.kind == "Identifier"), None)


def _name(node: Node) -> str:
    return node.text.split(" (")[0].strip()


def _unknown_nodes(nodes: Iterable[Node]) -> str | None:
    for node in nodes:
        if node.kind == "Set":
            return "SETTINGS are not taken from clients"
        if node.kind not in KNOWN_NODES:
            return f"{node.kind or 'this statement'} is not allowed here"
    return None


def _outfile(nodes: Iterable[Node]) -> str | None:
    if any(node.depth == 1 and node.kind not in ("ExpressionList", "Identifier") for node in nodes):
        return "INTO OUTFILE is not allowed"
    return None


def _tables(nodes: list[Node], database: str, closed: Set[str]) -> str | None:
    for position, node in enumerate(nodes):
        if node.kind == "TableExpression":
            following = nodes[position + 1] if position + 1 < len(nodes) else None
            allowed_function = following and following.kind == "Function" and _name(following) in ALLOWED_TABLE_FUNCTIONS
            if not following or (following.kind not in ("TableIdentifier", "Subquery") and not allowed_function):
                return f"table function {_name(following) if following else ''} is not allowed".replace("  ", " ")
        if node.kind == "TableIdentifier":
            # The engine looks for a row filter by alias too: an alias like the full name of another table would take that one's filter.
            alias = node.text.partition(" (alias ")[2]
            reason = f"the table alias {alias.rstrip(')')} has a dot" if "." in alias else _foreign_table(_name(node), database, closed)
            if reason:
                return reason
    return None


def _foreign_table(name: str, database: str, closed: Set[str]) -> str | None:
    # Without a qualifier it is a table of our database or a WITH name; with one it must be ours or one that clients ask for at connect.
    if name.removeprefix(f"{database}.") in closed:
        return f"table {name} holds sums over all tenants"
    if "." not in name or name.startswith(f"{database}.") or name in READABLE_SYSTEM_TABLES:
        return None
    return f"table {name} may not be read here"


def _functions(nodes: Iterable[Node], table_functions: Set[str]) -> str | None:
    for node in nodes:
        if node.kind == "Function" and (_name(node) in table_functions or REFUSED_FUNCTIONS.match(_name(node))):
            return f"function {_name(node)} is not allowed"
    return None


def _right_of_in(nodes: list[Node], database: str, table_functions: Set[str], closed: Set[str]) -> str | None:
    """`x IN merge(...)` and `x IN system.users` read tables without a FROM."""
    for position, node in enumerate(nodes):
        if node.kind != "Function" or _name(node) not in IN_FUNCTIONS:
            continue
        operands = 0
        for inner in nodes[position + 1 :]:
            if inner.depth <= node.depth:
                break
            if inner.depth != node.depth + 2:
                continue
            operands += 1
            if operands == 1:  # the left one is a value: `r.state IN (…)` names a column
                continue
            if inner.kind == "Function" and _name(inner) in table_functions:
                return f"table function {_name(inner)} is not allowed"
            if inner.kind in ("Identifier", "TableIdentifier") and _foreign_table(_name(inner), database, closed):
                return f"table {_name(inner)} may not be read here"
    return None
