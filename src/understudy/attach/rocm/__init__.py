"""Unmodified ROCm programs: a library that is loaded before theirs, and the server that plays the kernel driver."""

from understudy.attach.rocm.library import Library as Library
from understudy.attach.rocm.library import build_library as build_library
from understudy.attach.rocm.server import Server as Server
