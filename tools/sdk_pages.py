"""What `generate.py` writes of the SDK: public names with their signatures and docstrings, read from the source.

Nothing is imported, so the page needs neither PyTorch nor TensorFlow. A name is public when the `__all__` of its module
has it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src"
SECTIONS = (
    ("Datasets and files", ("headrace.client.dataset", "headrace.client.open_file")),
    ("fsspec", ("headrace.client.filesystem",)),
    ("WebDataset", ("headrace.client.webdataset",)),
    ("PyTorch", ("headrace.client.torch",)),
    ("TensorFlow", ("headrace.client.tensorflow",)),
    ("Orders and records", ("headrace.client.read_order", "headrace.client.tfrecords")),
)
REPORTS = (
    "headrace.engine.status",
    ("Report", "WorkerReport"),  # those that no call of the SDK returns
)
WIDTH = 110
SEPARATOR = ",\n    "

Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference() -> list[str]:
    """The parts of the page."""
    parts = [
        "# Python SDK",
        "How to use it in a training loop: [training.md](../training.md). What it promises: "
        "[semantics.md](../semantics.md#python). `import headrace` gives "
        + ", ".join(f"`{name}`" for name in exported("headrace"))
        + "; everything else is imported from its module. Names that are not on this page may change.",
    ]
    for title, modules in SECTIONS:
        parts.append(f"## {title}")
        for module in modules:
            parts += module_parts(module)
    return [*parts, *report_parts(), *error_parts()]


def module_parts(module: str) -> Iterator[str]:
    """A module: what it is for, then its public names in the order in which they are defined."""
    tree = parsed(module)
    yield f"### `{module}`"
    yield prose(tree)
    public = exported(module)
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef) and node.name in public:
            yield from class_parts(node)
        elif isinstance(node, Function) and node.name in public:
            yield from function_parts(node)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in public:
            yield f"#### {ast.unparse(node.targets[0])}"
            yield f"    {ast.unparse(node)}"
            yield text_of(following)


def function_parts(node: Function, owner: str = "") -> Iterator[str]:
    """A function or method."""
    yield f"#### {owner}{node.name}"
    if not is_property(node):
        yield indented(signature(node, owner))
    elif node.returns is not None:
        yield f"Property: `{ast.unparse(node.returns)}`."
    yield prose(node)


def class_parts(node: ast.ClassDef) -> Iterator[str]:
    """A class with its constructor, unless a function makes its objects, and its public methods."""
    yield f"#### {node.name}"
    methods = [each for each in node.body if isinstance(each, Function)]
    for each in methods:
        if each.name == "__init__" and node.name not in MADE_BY_OTHERS:
            yield indented(signature(each, "", name=node.name))
    yield prose(node)
    for each in methods:
        if not each.name.startswith("_") and each.name != "loop":
            yield from function_parts(each, f"{node.name}.")


MADE_BY_OTHERS = ("Dataset", "DatasetFile", "BufferedDatasetFile")
"""Classes whose constructor nobody calls."""


def report_parts() -> Iterator[str]:
    """What `status`, `warm` and `refresh` return."""
    module, others = REPORTS
    classes = [node for node in parsed(module).body if isinstance(node, ast.ClassDef)]
    yield "## Reports"
    yield (
        f"What `Dataset.status`, `warm` and `refresh` return, from `{module}`: frozen pydantic models. "
        "Versions to come may add fields."
    )
    for each in classes:
        if each.name not in others:
            yield f"#### {each.name}"
            yield prose(each)
            rows = [row for node in each.body if (row := field_row(node))]
            yield table(("field", "type", "meaning"), rows)


def field_row(node: ast.stmt) -> tuple[str, str, str] | None:
    """A field or a property of a report."""
    if isinstance(node, ast.AnnAssign):
        return f"`{ast.unparse(node.target)}`", f"`{ast.unparse(node.annotation)}`", description(node.value)
    if isinstance(node, ast.FunctionDef) and is_property(node) and node.returns is not None:
        return f"`{node.name}`", f"`{ast.unparse(node.returns)}`", prose(node).rstrip(".")
    return None


def description(value: ast.expr | None) -> str:
    """The description in `Field(…)`."""
    keywords = value.keywords if isinstance(value, ast.Call) else []
    return next((ast.literal_eval(each.value) for each in keywords if each.arg == "description"), "")


def error_parts() -> Iterator[str]:
    """The exceptions."""
    tree = parsed("headrace.errors")
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    yield "## Errors"
    yield (
        "From `headrace.errors`; `headrace` has "
        "`HeadraceError`, `ConfigError` and `StaleDataError`, too. "
        "[errors.md](errors.md) has the errno and the exit code of each."
    )
    rows = [
        (
            f"`{name}`",
            ", ".join(f"`{ast.unparse(base)}`" for base in node.bases),
            prose(node),
        )
        for name, node in classes.items()
        if "Job" not in name
    ]
    yield table(("class", "is a", "meaning"), rows)


def signature(node: Function, owner: str, name: str | None = None) -> str:
    """A call as the source spells it, without `self`; over several lines where it is long."""
    arguments = argument_texts(node.args)[1 if owner or name else 0 :]
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None and name is None else ""
    words = name or f"{owner}{node.name}"
    line = f"{words}({', '.join(arguments)}){result}"
    if len(line) <= WIDTH:
        return line
    return f"{words}(\n    {SEPARATOR.join(arguments)},\n){result}"


def argument_texts(arguments: ast.arguments) -> list[str]:
    """Each argument as the source spells it."""
    given = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(given) - len(arguments.defaults))
    texts = [one_argument(*pair) for pair in zip(given, [*defaults, *arguments.defaults], strict=True)]
    if arguments.posonlyargs:
        texts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        texts.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        texts.append("*")
    texts += [one_argument(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return texts + ([f"**{ast.unparse(arguments.kwarg)}"] if arguments.kwarg else [])


def one_argument(argument: ast.arg, default: ast.expr | None) -> str:
    """`name: type = default`."""
    if default is None:
        return ast.unparse(argument)
    separator = " = " if argument.annotation else "="
    return f"{ast.unparse(argument)}{separator}{ast.unparse(default)}"


def decorators(node: Function) -> list[str]:
    """What stands before a function."""
    return [ast.unparse(each) for each in node.decorator_list]


def is_property(node: Function) -> bool:
    """True for what is read like a field."""
    return "property" in decorators(node)


def exported(module: str) -> list[str]:
    """The names in the module's `__all__`."""
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise LookupError(f"{module} has no __all__")


def parsed(module: str) -> ast.Module:
    """The source of a module."""
    path = SOURCES.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def prose(node: ast.Module | ast.ClassDef | Function) -> str:
    """The docstring as paragraphs of one line each."""
    return paragraphs(ast.get_docstring(node) or "")


def text_of(node: ast.stmt | None) -> str:
    """The string that stands behind a name as its documentation."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return paragraphs(inspect.cleandoc(str(node.value.value)))
    return ""


def paragraphs(text: str) -> str:
    """Text whose paragraphs are lines; what is indented stays as it is."""
    blocks = text.split("\n\n")
    return "\n\n".join(block if block.startswith(" ") else " ".join(block.split()) for block in blocks)


def indented(text: str) -> str:
    """Text as a block of code."""
    return f"```python\n{text}\n```"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
