"""The command `tacenda`."""
