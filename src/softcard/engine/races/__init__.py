"""The rules of race detection that waves and harts share: order, conflict, vector clocks and findings."""
