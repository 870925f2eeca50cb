"""Names that a package exports, each imported from its module when it is first asked for."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, so that importing it costs nothing.

    Args:
        package: Its `__name__`.
        modules: The modules that define what it exports, relative to the package, with the names of each.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> Any:  # noqa: N807 (the module's)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    def __dir__() -> list[str]:  # noqa: N807 (the module's)
        return sorted(homes)

    return __getattr__, __dir__
