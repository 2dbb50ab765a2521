"""`python -m hermes` and the console scripts. `--version` is answered before anything is imported."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `-m` put the working directory there: an agent runs in other people's checkouts, and a yaml/ in one of them would
    # be imported in place of PyYAML
    del sys.path[0]


def main() -> int:
    """Run the command line and return the exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from hermes.kernel.cli.version import version_line

        print(version_line())
        return 0
    from hermes.kernel.cli.app import run_app

    return run_app(arguments)


if __name__ == "__main__":
    sys.exit(main())
