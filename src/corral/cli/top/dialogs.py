"""Small screens over the view: a text, a question, a word to type."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

_STYLE = """
    align: center middle;
    & > * { width: 72; max-width: 95%; max-height: 90%; height: auto; border: round $accent; padding: 0 1; }
"""


class TextDialog(ModalScreen[None]):
    """A text that can be scrolled. Escape leaves it."""

    CSS = f"TextDialog {{ {_STYLE} }} .heading {{ text-style: bold; }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,p", "dismiss", "Close"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._heading, self._text = title, text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Label(self._heading, markup=False, classes="heading")
            yield Static(self._text, markup=False)


class Question(ModalScreen[bool]):
    """Yes or no; anything but y is no."""

    CSS = f"Question {{ {_STYLE} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,q,enter", "dismiss(False)", "No"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(f"{self._text} (y/n)", markup=False)


class Ask(ModalScreen[str | None]):
    """A word to type; escape is none."""

    CSS = f"Ask {{ {_STYLE} }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel")]

    def __init__(self, text: str, value: str = "") -> None:
        super().__init__()
        self._text, self._value = text, value

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(self._text, markup=False)
            yield Input(self._value, id="word")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        self.dismiss(event.value.strip())
