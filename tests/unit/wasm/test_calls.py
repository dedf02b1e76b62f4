"""Functions of modules, called from Python: in this process and in a worker, with the same answers."""

from __future__ import annotations

import gc
import os
import threading
from contextlib import closing

import pytest

import corral
from corral.model.errors import CallError, ModuleTrap, PolicyError, SetupError, UnenforceableError
from corral.wasi import machine
from corral.wasm.module_sandbox import ModuleSandbox
from support.descriptors import count_descriptors
from support.probed import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = b"""(module $demo
  (import "host" "ask" (func $ask (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (table $table (export "table") 1 funcref)
  (global $count (mut i32) (i32.const 0))
  (data (i32.const 100) "hello")
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "long") (param i64) (result i64) (local.get 0))
  (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2)))
  (func (export "pair") (result i32 i32) (i32.const 1) (i32.const 2))
  (func (export "count") (result i32)
    (global.set $count (i32.add (global.get $count) (i32.const 1))) (global.get $count))
  (func (export "ask") (param i32) (result i32) (call $ask (local.get 0)))
  (func (export "grow") (result i32) (memory.grow (i32.const 1000)))
  (func (export "grow_table") (result i32) (table.grow $table (ref.null func) (i32.const 10000000)))
  (func $deep unreachable)
  (func (export "fall") (call $deep))
  (func (export "spin") (loop $again (br $again)))
  (func (export "say") (result i32)
    (i32.store (i32.const 0) (i32.const 100)) (i32.store (i32.const 4) (i32.const 5))
    (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
  (func (export "flood") (loop $again
    (i32.store (i32.const 0) (i32.const 100)) (i32.store (i32.const 4) (i32.const 60000))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))) (br $again))))"""
ASK = ("module:call:host.ask",)
LIMITS = ("time:limit:5s", "memory:limit:1MiB", "output:limit:1MB")


def _answer(value: int) -> object:
    if value == 1:
        raise ValueError("no such question")
    return "text" if value == 2 else value + 1


@pytest.fixture(scope="module", params=["inline", "worker"])
def demo(request: pytest.FixtureRequest) -> Iterator[ModuleSandbox]:
    require(request, "wasm")
    policy = corral.build_policy("strict", [*ASK, *LIMITS])
    functions = {"ask": _answer}
    inline = request.param == "inline"
    made = ModuleSandbox(MODULE, policy=policy, request=ASK, functions=functions, inline=inline, name="demo")
    with closing(made):
        yield made


def test_numbers_of_every_type_go_in_and_out(demo: ModuleSandbox) -> None:
    assert demo.call("add", 2, 40) == 42
    assert demo.call("add", 0xFFFF_FFFF, 1) == 0
    assert demo.call("long", -(2**63)) == -(2**63)
    assert demo.call("half", 3) == 1.5
    assert demo.call("pair") == [1, 2]


def test_an_instance_is_kept_until_it_is_reset(demo: ModuleSandbox) -> None:
    demo.reset()
    assert [demo.call("count"), demo.call("count")] == [1, 2]
    demo.reset()
    assert demo.call("count") == 1


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("nothing",), "module-export", "it exports add"),
        (("memory",), "module-export", "it exports add"),
        (("add", 1), "module-arguments", "takes 2 arguments, and was given 1"),
        (("add", 1, 2, 3), "module-arguments", "was given 3"),
        (("add", 1, "2"), "module-arguments", "no i32"),
        (("add", 1, 1.5), "module-arguments", "no i32"),
        (("add", 1, True), "module-arguments", "no i32"),
        (("add", 1, 2**32), "module-arguments", "too large for i32"),
        (("half", None), "module-arguments", "no f64"),
        (("add", 1, b"x"), "module-arguments", ""),
    ],
)
def test_what_it_does_not_take_is_an_error_before_it_runs(
    words: tuple[object, ...], code: str, reason: str, demo: ModuleSandbox
) -> None:
    with pytest.raises(PolicyError) as caught:
        demo.call(*words)

    assert caught.value.code == code and reason in caught.value.why and not caught.value.ran


def test_a_trap_has_the_names_of_functions_and_a_new_instance_follows(demo: ModuleSandbox) -> None:
    demo.call("count")

    with pytest.raises(ModuleTrap) as caught:
        demo.call("fall")

    assert "demo!deep" in caught.value.backtrace and "unreachable" in caught.value.why
    assert demo.call("count") == 1


def test_a_loop_is_ended_by_its_time(demo: ModuleSandbox) -> None:
    with pytest.raises(ModuleTrap) as caught:
        demo.call_within("spin", (), 0.1)

    assert (caught.value.code, caught.value.limit) == ("module-limit", "wall")
    assert demo.events[-1].feature is corral.Feature.LIMIT_WALL


def test_memory_and_tables_grow_no_further_than_permitted(demo: ModuleSandbox) -> None:
    assert demo.call("grow") == -1
    assert demo.call("grow_table") == -1


def test_what_it_prints_is_kept_and_has_an_end(demo: ModuleSandbox) -> None:
    demo.call("say")
    assert demo.output == b"hello"

    with pytest.raises(ModuleTrap) as caught:
        demo.call("flood")
    assert caught.value.limit == "output"


def test_a_function_of_the_host_is_called_and_what_it_raises_is_told(demo: ModuleSandbox) -> None:
    assert demo.call("ask", 41) == 42

    with pytest.raises(ModuleTrap) as caught:
        demo.call("ask", 1)
    assert caught.value.code == "module-host-error" and "ValueError: no such question" in caught.value.why
    with pytest.raises(ModuleTrap):
        demo.call("ask", 2)
    assert demo.call("ask", 3) == 4


def test_several_threads_take_turns(demo: ModuleSandbox) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda n=n: found.append(demo.call("add", n, n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found) == [2 * n for n in range(8)]


def test_it_can_be_described(demo: ModuleSandbox) -> None:
    described = demo.describe()

    assert ["host", "ask", "(i32) -> i32"] in described["imports"]
    assert described["exports"]["add"] == "(i32, i32) -> i32"
    assert described["exports"]["memory"] == "memory 1.."


INLINE = {"inline": True}
CALLER = b"""(module $caller (import "parser" "double" (func $double (param i32) (result i32)))
  (func (export "twice") (param i32) (result i32) (call $double (call $double (local.get 0)))))"""
PARSER = b"""(module $parser (func (export "double") (param i32) (result i32)
  (i32.mul (local.get 0) (i32.const 2))) (func (export "spin") (loop $again (br $again))))"""
PARENT = ("module:call:parser", "module:call:caller")


def _caller(module: bytes = CALLER, **options: object) -> ModuleSandbox:
    policy = corral.build_policy("strict", PARENT)
    return ModuleSandbox(module, policy=policy, request=PARENT[:1], **INLINE, **options)


def test_a_module_calls_another_with_the_rights_of_that_one() -> None:
    parser = ModuleSandbox(PARSER, request=["memory:limit:2MiB"], **INLINE)

    assert _caller(modules={"parser": parser}).call("twice", 3) == 12
    assert parser.policy.modules == frozenset()


@pytest.mark.parametrize("inline", [True, False])
def test_an_import_that_no_capability_grants_cannot_be_linked_and_is_told(
    inline: bool, request: pytest.FixtureRequest
) -> None:
    require(request, "wasm")
    heard: list[corral.Event] = []
    parser = ModuleSandbox(PARSER, **INLINE)
    policy = corral.build_policy("strict", PARENT)

    with closing(
        ModuleSandbox(
            CALLER,
            policy=policy,
            request=(),
            modules={"parser": parser},
            inline=inline,
            on_event=heard.append,
        )
    ) as caller:
        with pytest.raises(PolicyError) as caught:
            caller.call("twice", 3)

    assert caught.value.code == "module-import" and "parser.double" in caught.value.why
    assert [event.hint for event in heard] == ["module:call:parser"]


def test_a_function_that_the_other_module_has_not_is_an_error_of_the_call() -> None:
    wanting = CALLER.replace(b'"double"', b'"triple"')
    parser = ModuleSandbox(PARSER, **INLINE)

    with pytest.raises(ModuleTrap) as caught:
        _caller(wanting, modules={"parser": parser}).call("twice", 3)
    assert "triple" in caught.value.why


def test_time_is_that_of_the_caller() -> None:
    wanting = CALLER.replace(b'"double" (func $double (param i32) (result i32))', b'"spin" (func $double)')
    wanting = wanting.replace(b"(call $double (call $double (local.get 0)))", b"(call $double) (i32.const 0)")
    parser = ModuleSandbox(PARSER, **INLINE)

    with pytest.raises(ModuleTrap) as caught:
        _caller(wanting, modules={"parser": parser}).call_within("twice", (3,), 0.1)
    assert caught.value.code in {"module-limit", "module-host-error"}
    assert parser.events[-1].feature is corral.Feature.LIMIT_WALL


def test_a_module_that_is_called_cannot_be_called_again_by_way_of_another() -> None:
    back = b"""(module (import "host" "back" (func $back (result i32)))
      (func (export "go") (result i32) (call $back)))"""
    policy = corral.build_policy("strict", ["module:call:host.back"])
    made: list[ModuleSandbox] = []
    functions = {"back": lambda: made[0].call("go")}
    made.append(
        ModuleSandbox(back, policy=policy, request=["module:call:host.back"], functions=functions, **INLINE)
    )

    with pytest.raises(ModuleTrap) as caught:
        made[0].call("go")
    assert "in the middle of a call" in caught.value.why


def test_modules_call_each_other_so_deep_and_no_deeper() -> None:
    link = b"""(module (import "next" "go" (func $go (result i32)))
      (func (export "go") (result i32) (i32.add (call $go) (i32.const 1))))"""
    last = ModuleSandbox(b'(module (func (export "go") (result i32) (i32.const 0)))', **INLINE)
    policy = corral.build_policy("strict", ["module:call:next"])
    chain, depths = last, {}
    for depth in range(1, 20):
        chain = ModuleSandbox(
            link, policy=policy, request=["module:call:next"], modules={"next": chain}, **INLINE
        )
        depths[depth] = chain

    assert depths[16].call("go") == 16
    with pytest.raises(ModuleTrap) as caught:
        depths[17].call("go")
    assert "16 deep" in caught.value.why


def test_a_module_gets_no_more_than_its_parent_has(tmp_path: Path) -> None:
    policy = corral.build_policy("strict", [f"filesystem:read:{tmp_path}", "memory:limit:100MB"])
    request = [
        f"filesystem:write:{tmp_path}",
        "filesystem:read:/etc/shadow",
        "memory:limit:200MB",
        "network:full",
    ]

    module = ModuleSandbox(PARSER, policy=policy, request=request, **INLINE)

    assert module.policy <= policy and module.policy.limits.memory_bytes == 100_000_000
    refused = {str(cut.capability).partition(":")[0] for cut in module.cuts}
    assert refused == {"filesystem", "memory", "network"}


def test_a_manifest_that_lies_gets_nothing_by_it(tmp_path: Path) -> None:
    from corral.wasm.manifest import with_manifest

    binary = with_manifest(b"\0asm\x01\0\0\0", f"filesystem:write:{tmp_path}\nmodule:call:host.secret\n")

    module = ModuleSandbox(binary, **INLINE)

    assert len(module.cuts) == 2 and not module.policy.modules
    assert not any(rule.path == str(tmp_path) for rule in module.policy.fs)


def test_what_cannot_be_enforced_is_refused() -> None:
    policy = corral.build_policy("strict", ["network:https:example.org"])

    with pytest.raises(UnenforceableError):
        ModuleSandbox(PARSER, policy=policy, request=["network:https:example.org"], **INLINE)


def test_needing_more_memory_than_permitted_is_an_error_before_it_runs() -> None:
    policy = corral.build_policy("strict", ["memory:limit:1MiB"])
    module = ModuleSandbox(b'(module (memory 100) (func (export "go")))', policy=policy, **INLINE)

    with pytest.raises(PolicyError) as caught:
        module.call("go")
    assert caught.value.code == "module-limits"


@pytest.mark.parametrize(
    "options",
    [{"clock": "sun"}, {"fuel": 0}, {"fuel": True}, {"functions": {"f": 1}}, {"modules": {"host": 1}}],
)
def test_options_that_mean_nothing_are_errors(options: dict[str, object]) -> None:
    with pytest.raises(PolicyError) as caught:
        ModuleSandbox(PARSER, **options)
    assert caught.value.code == "argument"


def test_fuel_is_the_same_each_time() -> None:
    left = []
    for _ in range(2):
        module = ModuleSandbox(PARSER, fuel=10_000, **INLINE)
        module.call("double", 4)
        left.append(module.fuel_left)

    assert left[0] == left[1] and 0 < left[0] < 10_000
    with pytest.raises(ModuleTrap) as caught:
        ModuleSandbox(PARSER, fuel=10_000, **INLINE).call("spin")
    assert caught.value.limit == "fuel"


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util
    import sys

    from corral.host.modules import find_module_runner

    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(SetupError, match=r"corral\[wasm\]"):
        machine.import_wasmtime()
    monkeypatch.setattr("corral.host.modules.find_spec", lambda _name: None)
    assert "corral[wasm]" in find_module_runner().fix
    assert importlib.util.find_spec is not None


def test_a_version_with_known_holes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "wasmtime_version", lambda: "45.0.2")

    with pytest.raises(SetupError) as caught:
        machine.import_wasmtime()
    assert caught.value.code == "wasm-outdated"


def test_a_worker_leaves_nothing_behind(request: pytest.FixtureRequest) -> None:
    require(request, "wasm")
    before = count_descriptors()

    with closing(ModuleSandbox(PARSER)) as module:
        module.call("double", 2)
        assert module._scratch is not None
        directory = module._launch.scratch
        assert os.path.isdir(directory)

    assert not os.path.exists(directory)
    assert count_descriptors() <= before


def test_one_that_was_forgotten_leaves_nothing_behind() -> None:
    module = ModuleSandbox(PARSER, **INLINE)
    module.call("double", 2)
    directory = module._launch.scratch
    assert os.path.isdir(directory)

    del module
    gc.collect()

    assert not os.path.exists(directory)


def test_a_worker_that_was_killed_is_an_error_and_the_next_call_has_another(
    request: pytest.FixtureRequest,
) -> None:
    require(request, "wasm")
    with closing(ModuleSandbox(PARSER)) as module:
        module.call("double", 2)
        os.kill(module._place._process.pid, 9)
        with pytest.raises(CallError) as caught:
            module.call("double", 2)
        assert caught.value.code == "module-worker"
        assert module.call("double", 2) == 4


@pytest.mark.parametrize("response", ["throttle", "terminate", "quarantine"])
def test_a_response_that_nobody_holds_for_a_kept_module_is_refused(response: str) -> None:
    policy = corral.build_policy("strict", [f"refusal:{response}"])

    with pytest.raises(corral.PolicyError) as refused:
        corral.ModuleSandbox(b"\0asm\x01\0\0\0", policy=policy)

    assert refused.value.code == "refusal-module"
