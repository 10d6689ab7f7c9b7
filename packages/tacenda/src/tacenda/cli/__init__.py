"""The command `tacenda`."""


def start() -> None:
    """Run the command line and exit, quietly too if it is interrupted while it is imported."""
    try:
        from tacenda.cli.main import main
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    main()
