"""A small file system that can be filled up and emptied again: a tmpfs, which only root can mount."""

import os
import subprocess
from pathlib import Path
from typing import Final

_BALLAST: Final = "ballast"
_PIECE_BYTES: Final = 1 << 20


class DiskUnavailable(Exception):
    """No small file system can be had here; the text says why."""


class SmallDisk:
    """A mounted tmpfs of so many MiB at *path*."""

    def __init__(self, path: Path, mib: int) -> None:
        self.path = path
        path.mkdir(parents=True)
        try:
            mounted = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(path)],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise DiskUnavailable(f"mount cannot be run: {error.strerror}") from error
        if mounted.returncode != 0:
            raise DiskUnavailable(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")

    def fill(self) -> None:
        """Take all the room that is left, down to the last bytes."""
        with (self.path / _BALLAST).open("wb", buffering=0) as ballast:
            for piece in (_PIECE_BYTES, 4_096, 1):
                try:
                    while True:
                        os.posix_fallocate(ballast.fileno(), ballast.tell(), piece)
                        ballast.seek(piece, os.SEEK_CUR)
                except OSError:
                    continue  # so much does not fit any more; less may

    def free(self) -> None:
        """Give the room back."""
        (self.path / _BALLAST).unlink(missing_ok=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
