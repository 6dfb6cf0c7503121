"""Subscribers that write down a device's events: text for people, JSON lines for programs, Chrome traces to look at."""

from understudy.trace.chrome import ChromeTrace
from understudy.trace.jsonl import JsonlTrace
from understudy.trace.text import TextTrace

__all__ = ["ChromeTrace", "JsonlTrace", "TextTrace"]
