"""Help that fits a screen of 80x24: the most used commands and options; `--help-all` has the rest."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from corral.cli.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: In `Context.meta`: everything is shown, as `--help-all` and the documents want it.
ALL_OPTIONS = "corral.all-options"
_SCREEN = 23  # and a line for the prompt
_AROUND = 7  # headings, blank lines, and the names of the other options
_OF_A_RUN = frozenset(option.name for option in OPTIONS)
#: The most used first: what does not fit is only named.
_EVERYDAY = (
    *("profile", "read", "write", "deny", "allow", "line", "env", "timeout", "memory", "net"),
    *("json", "verbose", "backend", "cap"),
)
_SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Run commands", ("run", "shell", "session", "status", "wrap", "module")),
    ("Try first", ("try", "changes", "diff", "apply", "undo", "discard", "trials")),
    ("Ask", ("why", "explain", "check", "top", "doctor", "policy", "audit")),
    ("Set up", ("install", "mcp", "learn", "image", "compile", "completion")),
    ("See it work", ("demo", "selftest")),
)
_MOST_USED = ("run", "try", "session", "why", "doctor", "policy", "install", "demo")


class SectionedGroup(click.Group):
    """A group whose help lists the most used commands, and the others by what they are for."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if ctx.meta.get(ALL_OPTIONS):
            super().format_options(ctx, formatter)
        else:
            self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name for _, names in _SECTIONS for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in listed)
        sections = (*_SECTIONS, ("More", others))
        if not ctx.meta.get(ALL_OPTIONS):
            self._format_most_used(ctx, formatter, sections)
            return
        for title, names in sections:
            rows = list(self._rows(ctx, names))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _format_most_used(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
        sections: tuple[tuple[str, tuple[str, ...]], ...],
    ) -> None:
        with formatter.section("Commands, the most used"):
            formatter.write_dl(list(self._rows(ctx, _MOST_USED)))
        with formatter.section("Others, which --help-all explains"):
            for title, names in sections:
                rest = [name for name, _ in self._rows(ctx, names) if name not in _MOST_USED]
                if rest:
                    formatter.write(f"{'':{formatter.current_indent}}{title + ':':14}{' '.join(rest)}\n")

    def _rows(self, ctx: click.Context, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for name in names:
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield name, command.get_short_help_str(66)


class BriefCommand(click.Command):
    """A command whose help shows as many options as fit, the most used first, and names the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [found for found in self.get_params(ctx) if isinstance(found, click.Option)]
        if not _is_brief(self, ctx):
            super().format_options(ctx, formatter)
            return
        room = _SCREEN - _AROUND - formatter.getvalue().count("\n")
        shown = sorted(filter(_rank, options), key=_rank)[:room]
        with formatter.section("Options, the most used"):
            formatter.write_dl([(_label(option), option.help or "") for option in shown], col_max=24)
        names = [option.opts[-1] for option in options if option not in shown and option.opts]
        others = " ".join(name for name in names if not name.startswith("--help"))
        with formatter.section("Others, which --help-all explains"):
            width = formatter.width - formatter.current_indent
            for line in textwrap.wrap(others, width, break_on_hyphens=False):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not _is_brief(self, ctx):
            super().format_epilog(ctx, formatter)


def _is_brief(command: click.Command, ctx: click.Context) -> bool:
    return not ctx.meta.get(ALL_OPTIONS) and any(found.name in _OF_A_RUN for found in command.params[3:])


def _rank(option: click.Option) -> int:
    """Which comes first: the command's own options, then those of every run; 0 if it is only named."""
    if option.name in _EVERYDAY:
        return 2 + _EVERYDAY.index(option.name)
    return int(option.name not in _OF_A_RUN and not option.is_eager)


def _label(option: click.Option) -> str:
    metavar = f" {option.metavar}" if option.metavar else ""
    return ", ".join(option.opts[:2]) + metavar


def help_all() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `--help-all`."""
    return click.option(
        "--help-all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show everything and exit.",
    )


def _show_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta[ALL_OPTIONS] = True
        click.echo(ctx.get_help())
        ctx.exit()
