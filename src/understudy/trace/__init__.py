"""Subscribers that write down a device's events: text for people, JSON lines for programs, Chrome traces
and reports to look at."""

from understudy.trace.chrome import ChromeTrace
from understudy.trace.html import HtmlTrace
from understudy.trace.jsonl import JsonlTrace
from understudy.trace.text import TextTrace

__all__ = ["ChromeTrace", "HtmlTrace", "JsonlTrace", "TextTrace"]
