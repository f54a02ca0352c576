"""`__main__` of the child processes that a script run by `python -m offarray` starts through multiprocessing."""

from __future__ import annotations

if __name__ == "__mp_main__":
    from offarray._import import child_main

    child_main(globals())
