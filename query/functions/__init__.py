"""The functions of ELF QL: each is one row of a table, each family has a file. Imports `query.physical` and
`query.model`."""

from query.functions import addresses, choices, json_paths, numbers, regexes, strings, times, urls, user_agents
from query.functions.aggregates import AGGREGATES
from query.functions.function import ConstantError, ScalarFunction

FAMILIES = {
    "Choosing": choices.FUNCTIONS,
    "Texts": strings.FUNCTIONS,
    "Regular expressions": regexes.FUNCTIONS,
    "Numbers": numbers.FUNCTIONS,
    "Times": times.FUNCTIONS,
    "URLs": urls.FUNCTIONS,
    "JSON": json_paths.FUNCTIONS,
    "IP addresses": addresses.FUNCTIONS,
    "User agents": user_agents.FUNCTIONS,
}
"""The scalar functions by family, as documentation names them."""
FUNCTIONS: dict[str, ScalarFunction] = {one.name: one for family in FAMILIES.values() for one in family}

__all__ = ["FAMILIES", "FUNCTIONS", "ConstantError", "ScalarFunction", "signatures"]


def signatures() -> dict[str, tuple[str, str]]:
    """Every function a query can call, in alphabetical order: name to signature and description."""
    aggregates = {row.key: (row.signature, row.doc) for row in AGGREGATES.values()}
    scalars = {row.name: (row.signature, row.doc) for row in FUNCTIONS.values()}
    return dict(sorted((aggregates | scalars).items()))
