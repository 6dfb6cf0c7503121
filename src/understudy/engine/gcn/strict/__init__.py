"""A memory as lax as the model allows: caches per compute unit, stores that take their time, and what they reveal."""
