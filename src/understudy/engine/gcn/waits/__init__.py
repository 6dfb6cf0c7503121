"""What software must wait for by itself: a scoreboard of outstanding results, and wait states, over paths of code."""
