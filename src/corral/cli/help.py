"""Help that fits a screen: commands by what they are for, and of many options the most used ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: In `Context.meta`: every option is shown, as `--help-all` and the documents want it.
ALL_OPTIONS = "corral.all-options"
_MOST_SHOWN = 16
_EVERYDAY = frozenset({
    *("profile", "backend", "read", "write", "deny", "net", "allow", "cap", "env"),
    *("memory", "timeout", "line", "json", "verbose"),
})  # fmt: skip
_SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Run commands", ("run", "shell", "session", "status", "wrap", "module")),
    ("Try first", ("try", "changes", "diff", "apply", "undo", "discard", "trials")),
    ("Ask", ("why", "explain", "check", "top", "doctor", "policy", "audit")),
    ("Set up", ("install", "mcp", "learn", "image", "compile", "completion")),
    ("See it hold", ("demo", "selftest")),
)


class SectionedGroup(click.Group):
    """A group whose help lists the most used commands first; what is in no section follows."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name for _, names in _SECTIONS for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in listed)
        for title, names in (*_SECTIONS, ("More", others)):
            rows = list(self._rows(ctx, names))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _rows(self, ctx: click.Context, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for name in names:
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield name, command.get_short_help_str(66)


class BriefCommand(click.Command):
    """A command whose help shows the most used of many options, and names the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [found for found in self.get_params(ctx) if isinstance(found, click.Option)]
        if ctx.meta.get(ALL_OPTIONS) or len(options) <= _MOST_SHOWN:
            super().format_options(ctx, formatter)
            return
        shown = [option for option in options if option.name in _EVERYDAY]
        shown.sort(key=lambda option: option.metavar is None)
        with formatter.section("Options, the most used"):
            formatter.write_dl([row for option in shown if (row := option.get_help_record(ctx)) is not None])
        others = " ".join(option.opts[-1] for option in options if option not in shown and option.opts)
        with formatter.section("Others, which --help-all explains"):
            formatter.write_text(others)


def help_all() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `--help-all`."""
    return click.option(
        "--help-all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show all options and exit.",
    )


def _show_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta[ALL_OPTIONS] = True
        click.echo(ctx.get_help())
        ctx.exit()
