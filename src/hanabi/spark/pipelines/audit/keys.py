"""Index hashes of many messages at once: `key_hash` of each "topic#key"."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hanabi.spark.decode.fields import Mask
from hanabi.spark.decode.slices import content_of
from hanabi.store.index.key_hash import key_hash
from hanabi.wire.message import property_names as names

_TOGETHER_MAX: Final = 256  # characters; the few longer texts are hashed one by one
_INT_MAX: Final = 2**31 - 1


def key_hashes(topics: pa.Array, keys: pa.Array, unique_keys: pa.Array, has_none: Mask) -> pa.Array:
    """Return a list for each record: the hashes of its keys and of its unique key. Empty if *has_none*."""
    parts = pc.split_pattern(keys, names.KEY_SEPARATOR)
    unique_rows = np.flatnonzero(pc.is_valid(unique_keys).to_numpy(zero_copy_only=False))
    rows = np.concatenate([pc.list_parent_indices(parts).to_numpy(zero_copy_only=False), unique_rows]).astype(np.int64)
    texts = pa.concat_arrays([pc.list_flatten(parts), unique_keys.drop_null()])
    wanted = (pc.binary_length(texts).to_numpy(zero_copy_only=False) > 0) & ~has_none[rows]
    rows, texts = rows[wanted], texts.filter(pa.array(wanted))
    order = np.argsort(rows, kind="stable")
    joined = pc.binary_join_element_wise(topics.take(pa.array(rows)), texts, "#")
    hashes = hash_texts(joined)[order]
    ends = np.searchsorted(rows[order], np.arange(len(topics) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(hashes))


def hash_texts(texts: pa.Array) -> NDArray[np.int32]:
    """Return `key_hash` of each of *texts*, an unsliced array.

    Java's hash is Horner's rule: each step handles one character of all texts.
    """
    content, offsets = content_of(texts)
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    codes = np.zeros(len(texts), np.uint32)
    order = np.argsort(-lengths, kind="stable")  # the longest first, so that unfinished texts are a prefix
    longest = int(min(lengths.max(initial=0), _TOGETHER_MAX))
    going_on = np.searchsorted(-lengths[order], -np.arange(longest), "left")
    for at in range(longest):
        rows = order[: int(going_on[at])]
        codes[rows] = codes[rows] * np.uint32(31) + content[starts[rows] + at]
    signed = codes.astype(np.int64)
    hashes = np.where(signed <= _INT_MAX, signed, ((1 << 32) - signed) & _INT_MAX).astype(np.int32)
    for row in np.flatnonzero((lengths > _TOGETHER_MAX) | ~_is_ascii(texts)).tolist():
        hashes[row] = key_hash(texts[row].as_py())
    return hashes


def _is_ascii(texts: pa.Array) -> Mask:
    found: Mask = pc.string_is_ascii(texts).to_numpy(zero_copy_only=False)
    return found
