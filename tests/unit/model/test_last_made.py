"""What was made of the same objects is made once; what was made of others never stands in for it."""

from __future__ import annotations

from corral.model.last_made import _MOST, LastMade


def test_the_same_objects_make_it_once() -> None:
    made, cache, key = [], LastMade(), (("a",), ("b",))

    found = [cache.get(key, lambda: made.append(1) or len(made)) for _ in range(3)]

    assert (found, made) == ([1, 1, 1], [1])


def test_equal_objects_are_others() -> None:
    cache = LastMade()
    one, other = ([1],), ([1],)

    assert cache.get(one, lambda: "one") == "one"
    assert cache.get(other, lambda: "other") == "other"


def test_an_object_that_is_gone_leaves_its_place_to_nobody() -> None:
    """It is held, so that no new object has its identity, as long as something is kept for it."""
    cache = LastMade()

    found = [cache.get(([number],), lambda number=number: number) for number in range(10 * _MOST)]

    assert found == list(range(10 * _MOST))


def test_few_are_kept() -> None:
    cache = LastMade()
    for number in range(10 * _MOST):
        cache.get(([number],), lambda: 0)

    assert len(cache._made) <= _MOST
