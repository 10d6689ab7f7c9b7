"""The command `tacit`."""
