"""Support for unmodified ROCm programs: a preloaded library, and the server that emulates the kernel driver."""

from softcard.attach.rocm.library import Library as Library
from softcard.attach.rocm.library import build_library as build_library
from softcard.attach.rocm.server import Server as Server
