"""Functions by name: which ones a worker can find, and what is said about the others."""

from __future__ import annotations

import functools
import math
import operator
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from corral.model.errors import PolicyError
from corral.parallel.calls.interpreter import find_interpreter, search_path
from corral.parallel.calls.reference import refer, take_apart
from corral.parallel.functions import _check_backend

HERE = os.path.realpath(__file__)


def plain() -> None:
    pass


def decorated() -> None:
    pass


hidden, decorated = decorated, functools.lru_cache(decorated)
replaced = hidden


class Holder:
    def method(self) -> None:
        pass

    @classmethod
    def of_class(cls) -> None:
        pass

    @staticmethod
    def alone() -> None:
        pass


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (plain, "plain"),
        (Holder, "Holder"),
        (Holder.method, "Holder.method"),
        (Holder.of_class, "Holder.of_class"),
        (Holder.alone, "Holder.alone"),
        (decorated, "decorated"),
    ],
)
def test_what_a_module_has_at_its_top_is_found(function, name: str) -> None:
    assert refer(function).replace(file="") == refer(plain).replace(name=name, file="")
    assert refer(function).file == HERE


@pytest.mark.parametrize("function", [math.sqrt, operator.add, len, os.getpid, pow, dict])
def test_what_python_brings_along_needs_no_file_of_ours(function) -> None:
    found = refer(function)

    assert getattr(sys.modules[found.module], found.name) is function


def _closure():
    def inner() -> None:
        pass

    return inner


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda: None, "lambda"),
        (_closure(), "inside another function"),
        (Holder().method, "method of an object"),
        (hidden, "decorated"),
        (3, "not a function"),
        (SimpleNamespace(), "not a function"),
        ("text".upper, "something else|no module"),
    ],
)
def test_what_has_no_name_of_its_own_is_refused_with_a_way_out(function, why: str) -> None:
    with pytest.raises(PolicyError, match=why) as caught:
        refer(function)

    assert caught.value.code == "function-unnamed"
    assert "def" in caught.value.fix


def test_a_partial_is_its_function_with_more_arguments() -> None:
    wrapped = functools.partial(functools.partial(pow, 2), exp=3)

    assert take_apart(wrapped, (), {"mod": 5}) == (pow, (2,), {"exp": 3, "mod": 5})


def test_a_function_that_was_typed_in_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    exec("def typed(): pass", main.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", main)

    with pytest.raises(PolicyError, match="no file that the worker could read"):
        refer(main.typed)


def test_the_interpreter_is_that_of_the_base_installation() -> None:
    found = find_interpreter()

    assert os.path.samefile(found.program, os.path.realpath(sys._base_executable))
    assert found.program in found.reads
    assert all(os.path.isabs(path) and os.path.realpath(path) == path for path in found.reads)
    assert not {"/", os.path.expanduser("~")} & set(found.reads)


def test_of_the_search_path_only_installed_packages_are_granted(monkeypatch, tmp_path) -> None:
    packages = tmp_path / "lib/site-packages"
    packages.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(packages)])

    assert {str(tmp_path), str(packages)} <= set(search_path())
    assert str(packages) in find_interpreter().reads
    assert str(tmp_path) not in find_interpreter().reads


@pytest.mark.parametrize("backend", ["docker", "podman", "lima"])
def test_a_sandbox_with_programs_of_its_own_is_refused(backend: str) -> None:
    launch = SimpleNamespace(backend=backend)
    sandbox = SimpleNamespace(explain=lambda _: SimpleNamespace(launch=launch))

    with pytest.raises(PolicyError, match=f"the backend {backend}") as caught:
        _check_backend(sandbox, find_interpreter())
    assert caught.value.code == "function-backend"
