"""Subscribers that write a device's events to files: text, JSON lines, Chrome traces, HTML reports."""

from softcard.trace.chrome import ChromeTrace
from softcard.trace.html import HtmlTrace
from softcard.trace.text import JsonlTrace, TextTrace

__all__ = ["ChromeTrace", "HtmlTrace", "JsonlTrace", "TextTrace"]
