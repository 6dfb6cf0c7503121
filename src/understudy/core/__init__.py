"""What every layer stands on: errors, words, records, registers, rules, memory, lines, order, events.

Knows no device and no instruction set.
"""
