"""Tests of compiled matrix instructions."""
