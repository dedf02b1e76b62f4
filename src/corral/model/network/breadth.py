"""Breadth: host patterns that stand for more than is meant: `*`, `*.com`, and where anybody gets a name."""

from __future__ import annotations

#: Beneath a country, these are not one owner's: `*.co.uk`.
_SECOND_LEVEL = "ac co com edu go gob gov gv id in ltd me mil ne net nom or org plc sch web"
#: Here anybody gets a name, and so a place for what a command has read. The best known; others are as bad.
_FOR_ANYBODY = """
    amazonaws.com appspot.com azurewebsites.net blogspot.com cloudapp.azure.com cloudfront.net
    core.windows.net deno.dev digitaloceanspaces.com firebaseapp.com fly.dev github.io gitlab.io glitch.me
    herokuapp.com netlify.app ngrok.app ngrok.io ngrok-free.app onrender.com pages.dev r2.dev railway.app
    repl.co replit.app run.app trycloudflare.com vercel.app web.app workers.dev
"""
_COUNTRY = 2  # letters


def why_too_broad(pattern: str) -> str:
    """What a canonical host pattern stands for, if that is hardly meant; empty otherwise."""
    if pattern == "*":
        return "it covers every host of the Internet"
    beneath = pattern.removeprefix("*.")
    if beneath == pattern:
        return ""
    labels = beneath.split(".")
    if len(labels) == 1:
        return f"it matches every host below the top-level domain {beneath}"
    if len(labels) == 2 and len(labels[1]) == _COUNTRY and labels[0] in _SECOND_LEVEL.split():
        return f"it matches every host below {beneath}, where names are sold to anybody"
    if beneath in _FOR_ANYBODY.split() or (beneath.startswith("s3") and beneath.endswith(".amazonaws.com")):
        return f"it matches every host below {beneath}, where anybody gets a name"
    return ""
