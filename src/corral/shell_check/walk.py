"""Walk through the tree of a text, and find every call: in pipes, substitutions, functions, wrappers."""

from __future__ import annotations

from typing import Any

from corral.shell_check.call import UNKNOWN, Pipeline, ShellCall, Word
from corral.shell_check.downloads import Downloads
from corral.shell_check.grammar import is_too_much, parse
from corral.shell_check.interpreted import interpret, interpret_input
from corral.shell_check.words import Variables, fields, names_within, resolve, text_of
from corral.shell_check.wrappers import find_inner

#: A text in a text in a text: deeper is nobody's honest work.
MOST_DEPTH = 12
MOST_CALLS = 2000
MOST_TEXTS = 100
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_SILENT = frozenset({"comment", "heredoc_start", "heredoc_end", "variable_name"})
_INPUTS = frozenset({"<", "<&", "<>"})


class Doubt(Exception):
    """The text cannot be followed; a person has to."""


class Walk:
    """Collects the calls of a text, in the order in which they stand there."""

    def __init__(self) -> None:
        self.calls: list[ShellCall] = []
        self.doubts: list[tuple[str, int, int]] = []  # what cannot be known, and where
        self.variables = Variables()
        self.downloads = Downloads()
        self._directory = ""
        self._functions: list[str] = []
        self._pipes: list[tuple[Pipeline, int]] = []
        self._depth = self._texts = 0
        self._outer: tuple[int, int] | None = None  # where a text inside the text stands

    def read(self, text: str, outer: tuple[int, int] | None = None) -> None:
        """Walk through a text; `outer` is its place in the one that it was found in."""
        if self._depth >= MOST_DEPTH:
            self.doubt("there are too many texts inside of one another", *(outer or (0, 0)))
            return
        self._texts += 1
        if self._texts > MOST_TEXTS:
            raise Doubt(f"there are more than {MOST_TEXTS} texts inside of one another")
        if is_too_much(text):
            raise Doubt("it is too long, or has too many signs that mean something to a shell")
        kept, self._outer = self._outer, outer or self._outer
        self._depth += 1
        try:
            root = parse(text.encode("utf-8", "surrogateescape"))
            if root.has_error:
                self._find_errors(root)
            self._visit(root)
        finally:
            self._outer = kept
            self._depth -= 1

    def doubt(self, why: str, start: int, end: int) -> None:
        """Something cannot be known."""
        self.doubts.append((why, *self._place(start, end)))

    def _place(self, start: int, end: int) -> tuple[int, int]:
        return self._outer if self._outer is not None else (start, end)

    def _find_errors(self, root: Any) -> None:
        todo = [root]
        while todo:
            node = todo.pop()
            if node.is_error or node.is_missing:
                self.doubt("this is not shell, as far as the grammar tells", node.start_byte, node.end_byte)
                return
            todo += (child for child in node.children if child.has_error or child.is_missing)

    def _visit(self, node: Any) -> None:
        if len(self.calls) > MOST_CALLS:  # whatever follows would not be looked at
            raise Doubt(f"there are more than {MOST_CALLS} commands")
        visit = getattr(self, f"_visit_{node.type}", None)
        if visit is not None:
            visit(node)
        elif node.type not in _SILENT:
            for child in node.children:
                self._visit(child)

    def _visit_pipeline(self, node: Any) -> None:
        pipeline = Pipeline()
        stages = [child for child in node.children if child.is_named and child.type != "comment"]
        if self._pipes:
            outer, stage = self._pipes[-1]
            if node.parent.type == "heredoc_redirect":
                pipeline = outer
            elif node.parent.type in {"redirected_statement", "pipeline"} and not outer.stages[stage]:
                pipeline = outer  # `a | b 2>&1 | c`: the grammar has `a | b` inside
                outer.stages.pop()
        for stage in stages:
            pipeline.stages.append([])
            self._pipes.append((pipeline, len(pipeline.stages) - 1))
            self._visit(stage)
            self._pipes.pop()

    def _visit_subshell(self, node: Any) -> None:
        kept = self._directory
        for child in node.children:
            self._visit(child)
        self._directory = kept

    def _visit_command_substitution(self, node: Any) -> None:
        kept, self._pipes = self._pipes, []
        self._visit_subshell(node)
        self._pipes = kept

    _visit_process_substitution = _visit_command_substitution

    def _visit_function_definition(self, node: Any) -> None:
        self._functions.append(text_of(node.children[0 if node.children[0].is_named else 1]))
        for child in node.children[1:]:
            self._visit(child)
        self._functions.pop()

    def _visit_for_statement(self, node: Any) -> None:
        names = [child for child in node.children if child.type == "variable_name"]
        values = [child for child in node.named_children if child.type not in {"variable_name", "do_group"}]
        if names:
            found = [
                text for child in values for word in fields(child, self.variables) for text in word.texts
            ]
            self.variables.set(text_of(names[0]), tuple(found) or (UNKNOWN,))
        for child in node.named_children:
            self._visit(child)

    def _visit_variable_assignment(self, node: Any) -> None:
        call = ShellCall([], *self._place(node.start_byte, node.end_byte))
        call.assignments.append(self._assign(node))
        self.calls.append(call)

    def _assign(self, node: Any) -> tuple[str, Word]:
        for child in node.children:
            self._visit(child)
        name = text_of(node.children[0]).partition("[")[0]
        value = node.child_by_field_name("value")
        texts = resolve(value, self.variables) if value is not None else ("",)
        if any(text_of(child) == "+=" for child in node.children):
            texts = tuple(f"{before}{text}" for before in self.variables.get(name) for text in texts)
        self.variables.set(name, texts)
        return name, Word(texts, *self._place(node.start_byte, node.end_byte))

    def _visit_redirected_statement(self, node: Any) -> None:
        first = len(self.calls)
        body, redirects = node.children[0], [c for c in node.children[1:] if c.is_named]
        piped = next((p for r in redirects for p in r.children if p.type == "pipeline"), None)
        if piped is not None and not self._pipes:  # `cat <<END | sh`: the grammar has the pipe inside
            pipeline = Pipeline()
            pipeline.stages.append([])
            self._pipes.append((pipeline, 0))
        text = next((self._heredoc(r) for r in redirects if r.type == "heredoc_redirect"), None)
        if node.children[0].type.endswith("redirect"):
            redirects, body = list(node.children), None
        if body is not None:
            self._visit_with_input(body, text)
        made = self.calls[first:]
        if body is not None and body.type == "pipeline":
            made = [call for call in made if call.pipeline and call.stage == len(call.pipeline.stages) - 1]
        for redirect in redirects:
            self._redirect(redirect, made)
        if piped is not None and len(self._pipes) == 1 and self._pipes[0][1] == 0:
            self._pipes.clear()

    def _visit_with_input(self, body: Any, text: str | None) -> None:
        kept, self._input = getattr(self, "_input", None), text
        self._visit(body)
        self._input = kept

    def _heredoc(self, node: Any) -> str:
        bodies = [child for child in node.children if child.type == "heredoc_body"]
        return text_of(bodies[0]) if bodies else ""

    def _redirect(self, node: Any, calls: list[ShellCall]) -> None:
        if node.type == "file_redirect":
            operator = next((text_of(c) for c in node.children if not c.is_named), "")
            targets = [
                word for c in node.named_children if c.type != "file_descriptor" for word in self._fields(c)
            ]
            for call in calls:
                (call.reads if operator in _INPUTS else call.writes).extend(targets)
                if operator == "<>":
                    call.writes += targets
                if operator in _INPUTS:
                    interpret_input(self, call, targets)
                else:
                    self.downloads.note_written(call, targets)
        for child in node.children:
            self._visit(child)

    def _fields(self, node: Any) -> list[Word]:
        words = fields(node, self.variables)
        for word in words:
            word.start, word.end = self._place(word.start, word.end)
        return words

    def _visit_command(self, node: Any) -> None:
        self._command(node, node.children)

    def _visit_declaration_command(self, node: Any) -> None:
        """`export X=1`, `alias` is a command like others."""
        self._command(node, node.children)

    def _visit_test_command(self, node: Any) -> None:
        self._command(node, [])

    def _visit_unset_command(self, node: Any) -> None:
        self._command(node, [])

    def _command(self, node: Any, children: list[Any]) -> None:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects = []
        for child in children:
            if child.type == "variable_assignment":
                assignments.append(self._assign(child))
                if words:  # `export X=1`
                    words += self._fields(child)
            elif child.type.endswith("redirect"):
                redirects.append(child)
            elif child.is_named or child.type not in {"&"}:
                words += self._fields(child)
        call = ShellCall(words, *self._place(node.start_byte, node.end_byte))
        call.assignments = assignments
        call.input_text = getattr(self, "_input", None)
        for redirect in redirects:
            if redirect.type == "herestring_redirect":
                inner = [self._fields(c) for c in redirect.named_children]
                call.input_text = inner[0][0].text if inner and inner[0] else None
        self.add(call)
        for redirect in redirects:
            self._redirect(redirect, [call])
        for child in children:  # ORDER: after the call itself, whose place in a pipe counts
            if child.type not in {"variable_assignment", *_NO_VISIT} and not child.type.endswith("redirect"):
                self._visit_substitutions(child)
        if node.type in {"test_command", "unset_command"}:
            self._visit_substitutions(node)

    def _visit_substitutions(self, node: Any) -> None:
        if node.type in _SUBSTITUTIONS:
            self._visit(node)
            return
        for child in node.children:
            self._visit_substitutions(child)

    def add(self, call: ShellCall) -> None:
        """Take a call on, and what it runs in its turn."""
        call.directory = self._directory
        if self._pipes:
            call.pipeline, call.stage = self._pipes[-1]
            call.pipeline.stages[call.stage].append(call)
        self.calls.append(call)
        call.is_recursive = call.name in self._functions and call.pipeline is not None
        if call.name == "cd" and call.arguments:
            plain = [word for word in call.arguments if not word.text.startswith("-")]
            self._directory = _beneath(self._directory, plain[0].text) if plain else ""
        interpret(self, call)
        self.downloads.note(call)
        call.outputs_run |= self.downloads.run_by(call)
        for inner in find_inner(call.name, call.arguments):
            if inner.text is not None:
                self.run_text(inner.text)
            elif inner.words:
                self._depth += 1
                if self._depth < MOST_DEPTH:
                    more = [Word((UNKNOWN,), call.start, call.end)] if call.name in _FROM_INPUT else []
                    nested = ShellCall([*inner.words, *more], call.start, call.end)
                    nested.input_text = call.input_text
                    self.add(nested)
                else:
                    self.doubt("there are too many commands inside of one another", call.start, call.end)
                self._depth -= 1

    def run_text(self, word: Word) -> None:
        """A word that a shell is given as text."""
        for text in word.texts:
            if UNKNOWN in text:
                self.doubt("a shell runs a text that is not known", word.start, word.end)
            if text.strip(UNKNOWN).strip():
                self.read(text.replace(UNKNOWN, "$corral_unknown"), (word.start, word.end))


_NO_VISIT = ("comment",)
#: Which give their command further words, from their standard input.
_FROM_INPUT = frozenset({"xargs", "parallel"})


def _beneath(directory: str, target: str) -> str:
    if UNKNOWN in target:
        return ""
    if target.startswith(("/", "~")) or not directory:
        return target if target.startswith(("/", "~")) else directory
    return f"{directory}/{target}"


__all__ = ["Doubt", "Walk", "names_within"]
