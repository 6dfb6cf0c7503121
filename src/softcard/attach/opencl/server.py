"""The server of one program that uses the OpenCL platform: ``python -m softcard.attach.opencl.server``.

Standard input is the socket through which the program's library sends its first request and further connections. Each
connection has a thread, so that a call that blocks delays no other one. Requests begin in the order of their tickets.
The process ends with the program.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from mmap import mmap
from pathlib import Path
from typing import Final, cast

from softcard.attach.host_session import NOTE_ERR, NOTE_OUT, REPLY, REQUEST
from softcard.attach.opencl.entry_points import HANDLES, INVALID, Entry, Reader, decoded, table
from softcard.core.checks import MEMORY, VARIABLE
from softcard.core.errors import ModelBug, SoftcardError, WireError, with_issue
from softcard.device.hsa.settings import GpuOptions
from softcard.host.opencl import constants as cl
from softcard.host.opencl import contexts, kernels, memory, programs  # noqa: F401: they register functions
from softcard.host.opencl.calls import FUNCTIONS, Made, Performed
from softcard.host.opencl.errors import OpenClError
from softcard.host.opencl.events import Command
from softcard.host.opencl.objects import DEFAULT_AGENTS, Arena, Callback, Copy, Object, Platform
from softcard.host.opencl.programs import file_with
from softcard.report.diagnostic_text import as_text
