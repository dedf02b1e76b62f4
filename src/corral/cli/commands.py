"""The commands, for click: help, completion, errors. Each imports what it does when it is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from corral import __version__
from corral.cli.help import BriefCommand, SectionedGroup, help_all
from corral.cli.options import OF_A_RUN, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_EXAMPLES = """
\b
Examples:
  corral run -- pytest -q
  corral run -c 'grep -r TODO . | wc -l'
  corral run -p strict --timeout 30s -- python untrusted.py
  corral run --read ~/data --env LANG --json -- ./analyse

\b
Exit status: the command's own; 124 timed out; 125 the sandbox could not be set
up and the command did not run; 126, 127 as in a shell; 128+n signal n; 2 wrong
usage or policy; 3 this host cannot enforce the policy.
"""


def with_options(*, without: Iterable[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of the table."""
    left_out = set(without)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        switches: dict[str, list[Any]] = {}
        for option in reversed(OPTIONS):
            if option.name in left_out:
                continue
            if option.metavar:
                function = click.option(
                    *option.flags,
                    option.name,
                    metavar=option.metavar,
                    multiple=option.multiple,
                    help=option.help,
                )(function)
            else:
                switches.setdefault(option.name, []).insert(0, option)
        for name, group in switches.items():
            function = _switch(name, group)(function)
        return help_all()(function)

    return decorate


def _switch(name: str, group: list[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    yes = "/".join(option.flags[0] for option in group)
    flags = (yes, *(flag for option in group[:1] for flag in option.flags[1:] if len(group) == 1))
    text = " ".join(option.help for option in group)
    return click.option(*flags, name, is_flag=True, default=None if len(group) > 1 else False, help=text)


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="corral")
@help_all()
def cli() -> None:
    """Run commands nobody has read yet: `corral run -- COMMAND`.

    What a policy says is enforced, or the command does not run. `corral COMMAND --help` explains a command.
    """


cli.command_class = BriefCommand


@cli.command(context_settings={"allow_interspersed_args": False}, epilog=_EXAMPLES)
@with_options()
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(command: tuple[str, ...], **options: Any) -> None:
    """Run a command in a sandbox.

    For example `corral run -- pytest -q`, or `corral run -c 'ls | wc -l'`.
    """
    from corral.cli.run import run_request

    sys.exit(run_request(options, command))


@cli.command()
@with_options(without=("line", "terminal", "debug", "json"))
def shell(**options: Any) -> None:
    """Open a shell in a sandbox."""
    from corral.cli.run import run_shell

    sys.exit(run_shell({**options, "line": None, "terminal": True, "json": False}))


@cli.command(context_settings={"allow_interspersed_args": False})
@with_options(without=OF_A_RUN)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def explain(command: tuple[str, ...], **options: Any) -> None:
    """Show what a command could do, and how it is confined."""
    from corral.cli.explain import explain_request

    sys.exit(explain_request(options, command))


@cli.command(context_settings={"allow_interspersed_args": False})
@click.option("--rules", multiple=True, metavar="FILE", help="Your own rules; can be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, with the key `verdict`.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def check(command: tuple[str, ...], rules: tuple[str, ...], *, as_json: bool) -> None:
    """Judge the text of a command by rules; run nothing.

    One word is a text for a shell (`-`: it is on stdin), several are a command. The status is 0 for allow,
    10 for ask, 11 for deny. It is advice from the text alone: `allow` says that no rule objects, not that the
    command is safe.
    """
    from corral.cli.check import check_command

    sys.exit(check_command(command, rules, as_json=as_json))


@cli.command(context_settings={"allow_interspersed_args": False})
@with_options(without=OF_A_RUN | {"json", "verbose"})
@click.option("--apply", is_flag=True, help="Write it to the project's corral.toml, and ask first.")
@click.option("--user", "for_user", is_flag=True, help="With --apply: your own configuration instead.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask.")
@click.option("--forget", is_flag=True, help="Ignore what earlier runs in this workspace used.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def learn(
    command: tuple[str, ...], *, apply: bool, for_user: bool, yes: bool, forget: bool, **options: Any
) -> None:
    """Run a command, and print the smallest policy that it needs.

    Several runs add up. Without a command it prints the result so far. The options are
    those of `corral run`, and say what the command may do while it is observed.
    """
    from corral.cli.learn import learn_policy

    sys.exit(learn_policy(options, command, forget=forget, apply=apply, for_user=for_user, yes=yes))


@cli.command(name="compile")
@with_options(without=OF_A_RUN | {"sandbox", "image", "line", "json", "verbose"})
@click.option("-o", "--output", metavar="FILE", help="Where to write the plan; not where commands may write.")
@click.option("--show", metavar="FILE", help="Explain what a plan contains, and compile nothing.")
@click.option("--usage", is_flag=True, help="Count what commands cost, with control groups.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def compile_(output: str | None, show: str | None, *, usage: bool, as_json: bool, **options: Any) -> None:
    """Compile a plan, to run commands without Python.

    The options are those of `corral run`. `corral-launch --plan FILE -- COMMAND` then refuses to run anything
    once the host or an input of the policy has changed.
    """
    from corral.cli.compile import compile_request, show_plan

    if (output is None) == (show is None):
        raise click.UsageError("give either -o FILE or --show FILE")
    if show is not None:
        sys.exit(show_plan(show, as_json=as_json))
    sys.exit(compile_request(options, output or "", counts=usage, as_json=as_json))


@cli.command()
@with_options(without=OF_A_RUN | {"sandbox", "image", "line", "json"})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, required=True, metavar="AGENT...")
def wrap(words: tuple[str, ...], **options: Any) -> None:
    """Run an agent itself in a sandbox: claude, codex or gemini.

    Its arguments follow its name.

    It can write the workspace and what it keeps in your home, but not its settings, and reach the host of its
    model. Its tools, its MCP servers and its commands are all inside.
    """
    from corral.cli.options import defaults
    from corral.cli.wrap import wrap as wrap_agent

    sys.exit(wrap_agent({**defaults(), **options}, words))


@cli.command()
@click.option("-v", "--verbose", is_flag=True, help="Show every backend: what it enforces and needs.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def doctor(*, verbose: bool, as_json: bool) -> None:
    """Check whether sandboxes work here, and how to fix what does not."""
    from corral.cli.doctor import examine

    sys.exit(examine(as_json=as_json, verbose=verbose))


@cli.command()
@click.option("--backend", default="auto", metavar="NAME", help="The backend to show; auto by default.")
def demo(backend: str) -> None:
    """Watch hostile commands being contained, on throw-away files."""
    from corral.cli.demo import show

    sys.exit(show(backend))


@cli.command(hidden=True)
@click.option("--told", metavar="RUN", help="Print how an earlier request ended, and delete the note.")
@click.argument("request", required=False)
def guest(request: str | None, told: str | None) -> None:
    """Carry out a request for a corral outside of this machine.

    This is for the backend `lima`, which calls it inside its virtual machine. You do not need it otherwise.
    """
    from corral.cli.guest import carry_out, tell

    if (request is None) == (told is None):
        raise click.UsageError("give either a request or --told")
    sys.exit(tell(told) if told is not None else carry_out(request or ""))


@cli.command()
@click.option("--backend", default="auto", metavar="NAME", help="The backend to attack; auto by default.")
@click.option("--only", multiple=True, metavar="PROBE", help="Run just this probe; can be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the receipt as JSON.")
@click.argument("gate", required=False, metavar="[GATE]")
def selftest(backend: str, only: tuple[str, ...], gate: str | None, *, as_json: bool) -> None:
    """Attack the sandbox on this host, and report what held.

    Every probe first runs unconfined, on its own files, to show that it works. It does no harm.
    With a GATE, WebAssembly modules are tried instead: isolation, limits, capabilities or violations.
    """
    from corral.cli.selftest import attack, try_gate

    sys.exit(try_gate(gate, as_json=as_json) if gate else attack(backend, only, as_json=as_json))


@cli.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    Write it to the file that your shell reads:

    \b
    bash   ~/.local/share/bash-completion/completions/corral
    zsh    ~/.local/share/zsh/_corral, with its directory in $fpath
    fish   ~/.config/fish/completions/corral.fish
    """
    from corral.cli.completion import script_for

    click.echo(script_for(shell))


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print one snapshot as JSON; needs no terminal.")
def top(*, as_json: bool) -> None:
    """Watch your sessions and runs: state, cost, and what is refused.

    Keys start, stop, open a shell, show the policy, and allow a host for a minute. It needs
    `pip install 'corral[top]'`.
    """
    from corral.cli.top.open import open_top

    sys.exit(open_top(as_json=as_json))


def _add_groups() -> None:
    from corral.cli.audit.commands import audit
    from corral.cli.hook.commands import hook
    from corral.cli.image.commands import image
    from corral.cli.install.commands import install
    from corral.cli.mcp.commands import mcp
    from corral.cli.module.commands import module
    from corral.cli.policy.commands import policy, why  # they need `with_options`, from above
    from corral.cli.session.commands import sandbox, session, status_here
    from corral.cli.trial.commands import COMMANDS as TRIAL_COMMANDS

    cli.add_command(audit)
    cli.add_command(hook)
    cli.add_command(image)
    cli.add_command(install)
    cli.add_command(mcp)
    cli.add_command(module)
    cli.add_command(policy)
    cli.add_command(why)
    for command in (session, sandbox, status_here, *TRIAL_COMMANDS):
        cli.add_command(command)


_add_groups()
