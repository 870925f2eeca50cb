"""What may wait in source code: calls without a limit, loops around waits, waits while a lock is held."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

LIMIT_AT = {"acquire": 1, "communicate": 1, "join": 0, "result": 0, "select": 0, "wait": 0, "wait_for": 1}
"""Methods that wait until something happens, and the first place that the last argument, `timeout`, has."""
ON_SOCKETS = {"accept", "recv", "recv_bytes", "recv_into", "recvfrom", "sendall"}
"""Methods without such an argument: a socket has a limit of its own, or none."""
ENDLESS = {"input", "os.read", "os.waitid", "os.waitpid", "sys.stdin.read", "sys.stdin.readline"}
PROGRAMS = {f"subprocess.{name}" for name in ("call", "check_call", "check_output", "run")}
SLICES = {"_await_events", "_process_events", "has_message", "is_over", "receive", "sleep"}
"""Further functions that wait for a moment."""
PIPES = (".stdin", ".stdout", ".stderr")
LOCKS = {"Condition", "Lock", "RLock"}


@dataclass(frozen=True)
class Wait:
    """A place that may wait, within a function."""

    function: str
    """Its name, after those of its classes."""
    text: str
    """The source, on one line."""

    def __str__(self) -> str:
        return f"{self.function}: {self.text}"


class Waits(ast.NodeVisitor):
    """The waits of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self.endless: list[Wait] = []
        """Calls that have no limit."""
        self.loops: list[str] = []
        """Functions with a loop around a wait: they wait for as long as the loop goes on."""
        self.locked: list[Wait] = []
        """Waits while a lock is held."""
        self._names: list[str] = []
        self._unlimited: list[set[str]] = [set()]
        self._locks = set(_locks(tree))
        self.visit(tree)

    def _visit_scope(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._names.append(node.name)
        self._unlimited.append(set() if isinstance(node, ast.ClassDef) else set(_optional(node.args)))
        self.generic_visit(node)
        self._names.pop()
        self._unlimited.pop()

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _visit_scope

    def visit_Call(self, node: ast.Call) -> None:
        """Note a call that may wait for ever."""
        if self._is_endless(node):
            self.endless.append(self._wait(node))
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        """Note a loop over what a process writes."""
        if ast.unparse(node.iter).endswith(PIPES):
            self.endless.append(self._wait(node.iter))
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Note a loop around a wait."""
        if any(_waits(call) for call in _calls(node)):
            self.loops.append(".".join(self._names))
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        """Note what waits while a lock is held; a condition lets go of its own lock."""
        held = {text for item in node.items if (text := ast.unparse(item.context_expr)) in self._locks}
        if held:
            for statement in node.body:
                for call in _calls(statement):
                    if _waits(call) and ast.unparse(call.func).rpartition(".")[0] not in held:
                        self.locked.append(self._wait(call))
        self.generic_visit(node)

    def _wait(self, node: ast.expr) -> Wait:
        return Wait(".".join(self._names), ast.unparse(node))

    def _is_endless(self, call: ast.Call) -> bool:
        name, limit = ast.unparse(call.func), _keyword(call, "timeout")
        if name in ENDLESS:
            return True
        if name in PROGRAMS:
            return limit is None or self._is_none(limit)
        if not isinstance(call.func, ast.Attribute) or _joins_text(call.func):
            return False
        method, given = call.func.attr, call.args
        if method in ON_SOCKETS:
            return method != "accept" or not given
        if method == "get":  # of a queue: that of a mapping has a key
            return (not given and limit is None) or [ast.unparse(one) for one in given] == ["True"]
        if method not in LIMIT_AT:
            return False
        if method == "acquire" and _is(given[0] if given else _keyword(call, "blocking"), False):
            return False
        limit = given[-1] if len(given) > LIMIT_AT[method] else limit
        return limit is None or self._is_none(limit)

    def _is_none(self, limit: ast.expr) -> bool:
        """Whether it is no limit, or an argument that may be none."""
        if isinstance(limit, ast.Name):
            return any(limit.id in names for names in self._unlimited)
        return _is(limit, None) or ast.unparse(limit) == "math.inf"


def _waits(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if isinstance(call.func, ast.Attribute) and _joins_text(call.func):
        return False
    return name in ENDLESS or name.rpartition(".")[2] in {*LIMIT_AT, *ON_SOCKETS, *SLICES}


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Calls within a statement, but not those of an inner loop, nor of a function that is only defined."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.While, ast.FunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _calls(child)


def _locks(tree: ast.Module) -> Iterator[str]:
    """The names of what is made as a lock."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func).rpartition(".")[2] in LOCKS
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from map(ast.unparse, targets if made else ())


def _optional(arguments: ast.arguments) -> Iterator[str]:
    """The names of arguments that may be None."""
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if one.annotation is not None and "None" in ast.unparse(one.annotation):
            yield one.arg


def _joins_text(method: ast.Attribute) -> bool:
    """Whether it is `join` of a text or a path, which takes what it joins."""
    owner = method.value
    of_text = isinstance(owner, (ast.Constant, ast.JoinedStr)) or ast.unparse(owner) == "os.path"
    return method.attr == "join" and of_text


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
