"""The random statements and functions of generated C and OpenCL C.

All variables are declared at the beginning, with a value. Loop counters are not assigned by other statements and have
small bounds. Functions only call functions that were defined earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from softcard.campaign.generators.c_expressions import Expressions, Scope
from softcard.campaign.generators.c_types import UINT, Dialect, Type, draw_type
from softcard.campaign.generators.tree import Choices, Node, chance, leaf, lines, pick

DEEPEST: Final = 3
MOST_CALLED: Final = 3
ROUNDS: Final = (1, 2, 3, 4, 7)
"""The upper bounds from which those of loops are drawn."""
ARRAY_LENGTHS: Final = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of generated programs.

    It has the numbers of functions, variables and statements, and the maximum nesting depth of expressions."""

    functions: int
    variables: tuple[int, int]
    statements: tuple[int, int]
    depth: int


SMALL: Final = Size(1, (2, 4), (1, 3), 2)
"""The size of small programs, which compile and run in a third to a tenth of the time of larger ones.

In the same time, many small programs find more bugs than a few large ones.
"""


@dataclass(slots=True)
class Frame:
    """The scope of one function, and the variables, arrays and structs that its statements may write.

    `loops` is the number of nested loops around the statement that is being generated.
    """

    scope: Scope
    targets: list[tuple[Type, str]] = field(default_factory=list)
    arrays: list[tuple[Type, str, int]] = field(default_factory=list)
    structs: dict[int, list[str]] = field(default_factory=dict)
    counters: int = 0
    loops: int = 0
    assignable: bool = True


@dataclass(slots=True)
class Struct:
    """A generated struct type."""

    name: str
    fields: tuple[tuple[Type, str], ...]

    def declaration(self) -> str:
        """Return the struct's declaration as text."""
        inside = " ".join(f"{kind.name} {name};" for kind, name in self.fields)
        return f"struct {self.name} {{ {inside} }};"


class Statements:
    """The random generator of the statements, functions and structs of one program."""

    def __init__(self, choices: Choices, dialect: Dialect, size: Size) -> None:
        self.choices, self.dialect = choices, dialect
        self.expressions = Expressions(choices, dialect, size.depth)
        self.structs: list[Struct] = []
        self.functions = Scope()

    # ---- declarations ------------------------------------------------------------------------------------------------

    def declare_structs(self) -> list[Node]:
        """Draw up to two random struct types and return their declarations."""
        made = []
        for number in range(self.choices.integer(0, 2)):
            count = self.choices.integer(1, 4)
            fields = tuple((draw_type(self.choices), f"f{n}") for n in range(count))
            struct = Struct(f"S{number}", fields)
            self.structs.append(struct)
            made.append(Node(struct.declaration(), name=struct.name, may_go=True))
        return made

    def declare(self, frame: Frame, count: int, prefix: str = "v") -> list[Node]:
        """Draw declarations of `count` variables, and of some arrays and structs, all initialised.

        The names begin with `prefix` and are added to `frame`."""
        made = []
        for number in range(count):
            kind = draw_type(self.choices)
            name = f"{prefix}{number}"
            value = self.expressions.draw(kind, frame.scope, 2)
            made.append(self._declaration(kind, name, value))
            frame.scope.add(kind, name)
            frame.targets.append((kind, name))
        for number in range(self.choices.integer(0, 2)):
            made.append(self._array(frame, f"{prefix}a{number}"))
        for index, struct in enumerate(self.structs):
            if chance(self.choices, 60):
                made.append(self._struct(frame, index, struct, f"{prefix}s{index}"))
        return made

    def _declaration(self, kind: Type, name: str, value: Node) -> Node:
        return Node(f"{kind.name} {name} = {{}};", [value], name=name, may_go=True)

    def _array(self, frame: Frame, name: str) -> Node:
        kind, length = draw_type(self.choices), pick(self.choices, ARRAY_LENGTHS)
        counter = self._counter(frame)
        value = self.expressions.simple(kind, frame.scope)
        frame.arrays.append((kind, name, length))
        frame.scope.arrays.setdefault(kind, []).append((name, length))
        head = f"{kind.name} {name}[{length}]; for (uint {counter} = 0; {counter} < {length}; {counter}++)"
        return Node(f"{head} {name}[{counter}] = {{}};", [value], name=name, may_go=True)

    def _struct(self, frame: Frame, index: int, struct: Struct, name: str) -> Node:
        values = [self.expressions.simple(kind, frame.scope) for kind, _ in struct.fields]
        frame.structs.setdefault(index, []).append(name)
        for kind, part in struct.fields:
            frame.scope.add(kind, f"{name}.{part}")
            frame.targets.append((kind, f"{name}.{part}"))
        text = " ".join(f"{name}.{part} = {{}};" for _, part in struct.fields)
        return Node(f"struct {struct.name} {name}; {text}", values, name=name, may_go=True)

    def _counter(self, frame: Frame) -> str:
        frame.counters += 1
        return f"i{frame.counters}"

    def function(self, number: int) -> Node:
        """Draw a function that uses only its parameters, its own variables and earlier functions."""
        result = draw_type(self.choices)
        parameters = tuple(draw_type(self.choices) for _ in range(self.choices.integer(1, 4)))
        frame = Frame(Scope(functions={key: list(each) for key, each in self.functions.functions.items()}))
        name = f"func_{number}"
        for index, kind in enumerate(parameters):
            frame.scope.add(kind, f"p{index}")
            frame.targets.append((kind, f"p{index}"))
        variables = lines(*self.declare(frame, self.choices.integer(0, 3)))
        body = self.block(frame, self.choices.integer(1, 4), 1)
        value = self.expressions.draw(result, frame.scope, 1)
        inline = pick(self.choices, ("", "__attribute__((noinline)) ", "__attribute__((noinline)) "))
        listed = ", ".join(f"{kind.name} p{index}" for index, kind in enumerate(parameters))
        head = f"static {inline}{result.name} {name}({listed}) {{\n{{}}\n{{}}\nreturn {{}};\n}}"
        made = Node(head, [variables, body, value], name=name, may_go=True)
        self.functions.functions.setdefault(result, []).append((name, parameters))
        return made

    # ---- statements --------------------------------------------------------------------------------------------------

    def block(self, frame: Frame, count: int, depth: int) -> Node:
        """Draw `count` random statements."""
        return lines(*(self.statement(frame, depth) for _ in range(count)))

    def statement(self, frame: Frame, depth: int) -> Node:
        """Draw a random assignment, struct copy, branch, loop, or conditional ``break`` or ``continue``.

        `depth` is the nesting depth of the statement. At depth DEEPEST, no branch or loop is drawn."""
        makers = [self._assign, self._assign, self._assign, self._assign_array, self._assign_part, self._copy]
        if depth < DEEPEST:
            makers += [self._if, self._if, self._for, self._while, self._switch]
        if frame.loops:
            makers.append(self._leave)
        made = pick(self.choices, makers)(frame, depth)
        made.may_go = True
        return made

    def _assign(self, frame: Frame, depth: int) -> Node:
        if not frame.targets:
            return leaf(";")
        kind, name = pick(self.choices, frame.targets)
        value = self.expressions.draw(kind, frame.scope)
        if not kind.is_float and kind.width == 1 and not kind.is_signed and chance(self.choices, 30):
            operator = pick(self.choices, ("+", "-", "^", "|", "&"))
            return Node(f"{name} {operator}= {{}};", [value])
        return Node(f"{name} = {{}};", [value])

    def _assign_array(self, frame: Frame, depth: int) -> Node:
        if not frame.arrays:
            return self._assign(frame, depth)
        kind, name, length = pick(self.choices, frame.arrays)
        index = self.expressions.draw(UINT, frame.scope, 2)
        return Node(f"{name}[{{}} & {length - 1}u] = {{}};", [index, self.expressions.draw(kind, frame.scope)])

    def _assign_part(self, frame: Frame, depth: int) -> Node:
        """Draw a random assignment to some elements of a vector."""
        vectors = [(kind, name) for kind, name in frame.targets if kind.width > 1]
        if not vectors:
            return self._assign(frame, depth)
        kind, name = pick(self.choices, vectors)
        width = pick(self.choices, (1, 2)) if kind.width >= 2 else 1
        places = list(range(kind.width))
        first = places.pop(self.choices.integer(0, len(places) - 1))
        chosen = [first] + ([pick(self.choices, places)] if width == 2 else [])
        part = "".join(f"{each:x}" for each in chosen)
        value = self.expressions.draw(Type(kind.base, len(chosen)), frame.scope)
        return Node(f"{name}.s{part} = {{}};", [value])

    def _copy(self, frame: Frame, depth: int) -> Node:
        """Draw a random copy of a struct."""
        several = [names for names in frame.structs.values() if len(names) > 1]
        if not several:
            return self._assign(frame, depth)
        names = pick(self.choices, several)
        return leaf(f"{pick(self.choices, names)} = {pick(self.choices, names)};")

    def _if(self, frame: Frame, depth: int) -> Node:
        condition = self.expressions.condition(frame.scope)
        yes = self.block(frame, self.choices.integer(1, 3), depth + 1)
        if chance(self.choices, 50):
            return Node("if ({}) {\n{}\n}", [condition, yes])
        no = self.block(frame, self.choices.integer(1, 3), depth + 1)
        return Node("if ({}) {\n{}\n} else {\n{}\n}", [condition, yes, no])

    def _for(self, frame: Frame, depth: int) -> Node:
        counter = self._counter(frame)
        most = pick(self.choices, ROUNDS)
        bound = leaf(str(most))
        if chance(self.choices, 40):
            bound = Node(f"({{}} & {most}u)", [self.expressions.draw(UINT, frame.scope, 2)])
        return self._loop(frame, depth, counter, f"for (uint {counter} = 0; {counter} < {{}}; {counter}++)", bound)

    def _while(self, frame: Frame, depth: int) -> Node:
        """Draw a loop with a random condition and a small bound."""
        counter = self._counter(frame)
        head = f"for (uint {counter} = 0; {counter} < {pick(self.choices, ROUNDS)}u && {{}}; {counter}++)"
        return self._loop(frame, depth, counter, head, self.expressions.condition(frame.scope))

    def _loop(self, frame: Frame, depth: int, counter: str, head: str, bound: Node) -> Node:
        variables = frame.scope.variables.setdefault(UINT, [])
        variables.append(counter)
        frame.loops += 1
        body = self.block(frame, self.choices.integer(1, 3), depth + 1)
        frame.loops -= 1
        variables.remove(counter)
        return Node(f"{head} {{\n{{}}\n}}", [bound, body])

    def _switch(self, frame: Frame, depth: int) -> Node:
        count = self.choices.integer(1, 4)
        kids = [self.expressions.draw(UINT, frame.scope, 2)]
        text = "switch ({} & 7u) {\n"
        loops, frame.loops = frame.loops, 0
        for number in range(count):
            kids.append(self.block(frame, self.choices.integer(1, 2), depth + 1))
            leaves = " break;" if chance(self.choices, 70) else ""
            text += f"case {number * 2 if count < 4 else number}: {{\n{{}}\n}}{leaves}\n"
        kids.append(self.block(frame, 1, depth + 1))
        frame.loops = loops
        return Node(text + "default: {\n{}\n}\n}", kids)

    def _leave(self, frame: Frame, depth: int) -> Node:
        return Node(
            f"if ({{}}) {pick(self.choices, ('break', 'continue'))};", [self.expressions.condition(frame.scope)]
        )

    # ---- result ------------------------------------------------------------------------------------------------------

    def hashed(self, frame: Frame) -> Node:
        """Return statements that hash all variables, element by element, into the program variable ``h``."""
        made = [self._hash(kind, name) for kind, name in frame.targets]
        for kind, name, length in frame.arrays:
            counter = self._counter(frame)
            inner = self._hash(kind, f"{name}[{counter}]").form
            text = f"for (uint {counter} = 0; {counter} < {length}; {counter}++) {{ {inner} }}"
            made.append(Node(text, may_go=True))
        return lines(*made)

    @staticmethod
    def _hash(kind: Type, name: str) -> Node:
        bits = f"bits_{kind.name}({name})" if kind.is_float else name
        parts = [bits] if kind.width == 1 else [f"{bits}.s{place:x}" for place in range(kind.width)]
        text = " ".join(f"h = (h ^ (ulong){part}) * {PRIME};" for part in parts)
        return Node(text, may_go=True)


PRIME: Final = "0x9e3779b97f4a7c15ul"
