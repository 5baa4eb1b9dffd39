# cython: language_level=3
"""Admission of frames by access control: see `_admission.pyx`."""

from hanabi.broker.fast_path._header cimport Header
from hanabi.wire._bytes cimport Text


cdef class Admission:
    cdef object generation_of, origin_of, secrets_of, meter_of
    cdef object generation, origin, connection, meter
    cdef Py_ssize_t bytes_in
    cdef dict kept, verdicts, origins
    cdef Py_ssize_t count
    cdef bint is_direct

    cdef bint meet(self, connection) except -1
    cdef bint admits(self, Header *header, Text body, Text topic, Text group) except -1
    cdef tuple verdict(self, Header *header, bytes key, Text account, Text topic, Text group)
    cdef keep(self, bytes key, tuple verdict)
    cdef settle(self, Py_ssize_t bytes_out)
