"""A script under the runner is `__main__` in every way that it can tell."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .conftest import Run

FACTS = """
import sys, os
print(__name__, os.path.basename(__file__), sys.argv, os.path.basename(sys.path[0]))
print(__spec__ is None, __package__, sys.modules["__main__"].__dict__ is globals(), __doc__)
"""


def test_script_facts_are_pythons(run: Run) -> None:
    text = '"""A docstring."""\n' + FACTS
    mine = run("job/script.py", "--flag", "-m", "x", job__script=text).stdout
    assert mine == run("job/script.py", "--flag", "-m", "x", plain=True).stdout


def test_module_facts_are_pythons(run: Run) -> None:
    text = FACTS.replace("__spec__ is None", "__spec__.name")
    files = {"package/__init__": "", "package/tool": text, "package/__main__": text}
    for name in ("package.tool", "package"):
        mine = run("-m", name, "a", "--report", **files).stdout
        assert mine == run("-m", name, "a", "--report", plain=True).stdout


def test_code_facts_are_pythons(run: Run) -> None:
    text = "import sys\nprint(__name__, sys.argv, sys.path[0], '__file__' in globals())"
    assert run("-c", text, "a", "-c").stdout == run("-c", text, "a", "-c", plain=True).stdout
    assert run("-c", "import numpy\nprint(numpy.__name__)").stdout == "offarray\n"


def test_folder_with_main(run: Run) -> None:
    files = {
        "tool/__main__": "import numpy as n, part\nprint(n.__name__, part.n.__name__)",
        "tool/part": "import numpy as n",
    }
    assert run("tool", **files).stdout == "offarray offarray\n"


def test_timeit_runs_statements_on_offarray(run: Run) -> None:
    done = run("-m", "timeit", "-n", "1", "-r", "1", "-s", "import numpy as np", "print(np.__name__)")
    assert done.stdout.startswith("offarray\n")


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("sys.exit()", 0), ("sys.exit(3)", 3), ("sys.exit('told')", 1), ("raise SystemExit(None)", 0),
        ("1 / 0", 1), ("import os; os._exit(7)", 7), ("raise KeyboardInterrupt", -signal.SIGINT),
    ],
)  # fmt: skip
def test_exit_status(run: Run, ending: str, status: int) -> None:
    text = f"import sys\nprint('ran', flush=True)\n{ending}\n"
    mine = run("script.py", script=text, status=status)
    plain = run("script.py", script=text, status=status, plain=True)
    assert (mine.stdout, mine.stderr) == (plain.stdout, plain.stderr)


def test_traceback_shows_the_users_lines_alone(run: Run) -> None:
    files = {
        "script": "import beside\ndef f():\n    beside.g()\nf()\n",
        "beside": "def g():\n    try:\n        1 / 0\n    except Exception as e:\n        raise ValueError from e\n",
    }
    assert run("script.py", status=1, **files).stderr == run("script.py", status=1, plain=True).stderr


def test_traceback_of_an_import(run: Run) -> None:
    files = {"script": "import beside\n", "beside": "import below\n", "below": "import numpy\n1 / 0\n"}
    assert run("script.py", status=1, **files).stderr == run("script.py", status=1, plain=True).stderr


def test_syntax_error(run: Run) -> None:
    mine = run("script.py", script="x = (\n", status=1).stderr
    assert mine == run("script.py", status=1, plain=True).stderr


def test_users_excepthook_is_called_once(run: Run) -> None:
    text = "import sys\nsys.excepthook = lambda kind, error, trace: print('hook', error)\nraise ValueError('x')\n"
    done = run("script.py", script=text, status=1)
    assert (done.stdout, done.stderr) == ("hook x\n", "")


def test_missing_script(run: Run) -> None:
    assert "No such file" in run("nothing.py", status=2).stderr
    assert "No module named" in run("-m", "nothing.at.all", status=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("--nonsense", "x.py"), ("--settings",), ("--settings", "eager_size=-1", "x.py"),
     ("--settings", "bogus=1", "x.py"), ("-m",), ("--json",)],
)  # fmt: skip
def test_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    assert "error:" in run(*arguments, status=2).stderr


def test_help_and_version(run: Run) -> None:
    assert "--compare" in run("--help").stdout


def test_settings_hold_in_the_script_and_its_children(run: Run) -> None:
    text = """
    import os, subprocess, sys
    import offarray
    from offarray.runtime.config import settings
    print(settings.eager_size, settings.fallback, os.environ["OFFARRAY_EAGER_SIZE"])
    """
    done = run("--settings", "eager_size=0", "fallback=warn", "script.py", script=text)
    assert done.stdout == "0 warn 0\n"


def test_pickle_of_the_scripts_own_classes(run: Run) -> None:
    text = """
    import pickle
    class Thing:
        value = 3
    print(pickle.loads(pickle.dumps(Thing())).value, pickle.dumps(Thing()).count(b"__main__"))
    """
    assert run("script.py", script=text).stdout == "3 1\n"


CHILDREN = """
import multiprocessing, sys
import numpy as np
import beside

class Answer:
    def __init__(self, value):
        self.value = value

def work(n):
    import numpy
    return Answer((np.__name__, numpy.__name__, beside.np.__name__, float(np.arange(n).sum()), __name__, sys.argv[1:]))

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print([a.value for a in pool.map(work, [10])])
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("as_module", [False, True])
def test_multiprocessing_children_run_on_offarray(run: Run, method: str, as_module: bool) -> None:
    how = ("-m", "script") if as_module else ("script.py",)
    done = run(*how, method, script=CHILDREN, beside="import numpy as np\n").stdout
    main = "__main__" if method == "fork" else "__mp_main__"
    assert done == f"[('offarray', 'offarray', 'offarray', 45.0, '{main}', ['{method}'])]\n"


def test_children_of_children(run: Run) -> None:
    text = """
    import multiprocessing
    import numpy as np

    def leaf(_):
        return np.__name__

    def middle(queue):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            queue.put(pool.map(leaf, [0])[0])

    if __name__ == "__main__":
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=middle, args=(queue,))
        process.start()
        print(queue.get())
        process.join()
    """
    assert run("script.py", script=text).stdout == "offarray\n"


def test_scripts_through_a_link(run: Run, tmp_path: Path) -> None:
    run("real/script.py", real__script="", real__beside="import numpy as np\n")
    (tmp_path / "real" / "script.py").write_text("import beside\nprint(beside.np.__name__)\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "script.py")
    assert run("link.py").stdout == "offarray\n"


def test_hint_where_compiled_code_wants_numpys_array(run: Run) -> None:
    text = """
    import numpy as np
    x = np.arange(5000.0) * 2
    raise TypeError("expected numpy.ndarray, got ndarray")
    """
    done = run("script.py", script=text, status=1)
    assert done.stderr.splitlines()[-1] == (
        "If compiled code demands NumPy's own array, give it x.__array__() in place of x."
    )
    assert "x.__array__" not in run("script.py", script="raise TypeError('buffer')", status=1).stderr
