"""Writes the page about the interface in Python: what the installed package and its stub say of it."""

import ast
import importlib
import inspect
import pathlib

import arrow_device

STUB = pathlib.Path(arrow_device.__file__).with_name("_native.pyi")
MODULES = [
    "arrow_device",
    "arrow_device.share",
    "arrow_device.flight",
    "arrow_device.testing",
    "arrow_device.ray",
    "arrow_device.dask",
]


def stubs() -> dict[str, list[str]]:
    """The signatures that the stub has, by the name of the function or `Class.method`."""
    found: dict[str, list[str]] = {}

    def add(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        short = name.split(".")[-1]
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        if "property" in decorators:
            signature = f"{short}{returns.replace(' -> ', ': ')}"
        else:
            signature = f"{short}({ast.unparse(node.args)}){returns}"
        found.setdefault(name, []).append(signature)

    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            add(node.name, node)
        elif isinstance(node, ast.ClassDef):
            for member in ast.walk(node):
                if isinstance(member, ast.FunctionDef):
                    add(f"{node.name}.{member.name}", member)
    return found


STUBS = stubs()


def described(thing: object) -> str:
    text = inspect.getdoc(thing) or ""
    lines, code = [], False
    for line in text.splitlines():
        if line.startswith(">>>") and not code:
            lines += ["```text"] if not lines or not lines[-1] else ["", "```text"]
            code = True
        elif not line and code:
            lines.append("```")
            code = False
        lines.append(line)
    return "\n".join([*lines, "```"] if code else lines)


def signatures(name: str, thing: object) -> str:
    if name in STUBS:
        return "\n".join(STUBS[name])
    short = name.split(".")[-1]
    try:
        return f"{short}{inspect.signature(thing)}"  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return short


def show(level: int, name: str, thing: object) -> None:
    print(f"{'#' * level} `{name}`\n\n```text\n{signatures(name, thing)}\n```\n\n{described(thing)}\n")


def show_class(name: str, thing: type) -> None:
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
    print(f"### `{name}{f'({bases})' if bases else ''}`\n\n{described(thing)}\n")
    if issubclass(thing, BaseException):
        return
    for short, member in vars(thing).items():
        special = short.startswith("__") and short in ("__arrow_c_device_array__", "__arrow_c_array__", "__dlpack__")
        if not short.startswith("_") or special:
            show(4, f"{name}.{short}", member)


print("# Python: the package\n")
print("This page is made from the installed package: its signatures, and what `help()` shows.\n")
for module_name in MODULES:
    try:
        module = importlib.import_module(module_name)
    except ImportError:
        continue  # the library that the module is for is not installed
    print(f"## {module_name}\n\n{described(module)}\n")
    for name in sorted(module.__all__):
        thing = getattr(module, name)
        if inspect.isclass(thing):
            show_class(name, thing)
        elif callable(thing):
            show(3, name, thing)
