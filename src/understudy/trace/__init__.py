"""Subscribers that write down a device's events: text for people, JSON lines for programs, Chrome traces to look at."""
