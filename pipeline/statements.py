"""SQL lives in `.sql` files, one statement each; this module reads them."""

from functools import cache
from importlib.resources import files


@cache
def statement(package: str, name: str) -> str:
    """Text of `<name>.sql` in a package folder such as `pipeline.billing.sql`; parameters are server-side (`{name:Type}`)."""
    root, _, inner = package.partition(".")
    folder = files(root)
    for part in inner.split(".") if inner else ():
        folder = folder / part
    return (folder / f"{name}.sql").read_text(encoding="utf-8").strip().removesuffix(";")
