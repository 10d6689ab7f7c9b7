"""Files that a test needs."""

import pytest


@pytest.fixture
def write_file(tmp_path):
    """A function that writes a file of the test's own folder, of bytes or of a text, and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
