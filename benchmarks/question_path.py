"""What a reader follows for one question, from the shell to the client: modules, functions, and how deep the stack is.

    python benchmarks/question_path.py                          a table
    python benchmarks/question_path.py --functions              and the functions on the stack, in their order
    python benchmarks/question_path.py --tree DIR --out FILE    another checkout, too: before and now

Each method answers a question about a packaged document by `cosee ask`, in a fresh process without a cache, under a
profile function. The model is a server on this machine that has the answer at once. Nothing here is a time.

`functions` counts each function of the package once, also where only the import of its module calls it, without what
has no name of its own (comprehensions, generator expressions, lambdas), bodies of modules and classes, and methods
that a library writes; `modules_entered` are the files of these. `code_objects` counts nameless code and bodies, too.

The stack is that at the first byte for the server, without nameless code, from `main` of the command on; a thread goes
on from where it was started. `stack_client` is how many functions of the package lead to the first one of
`cosee.models`, with that; `stack_cosee` are all of the package, `stack_all` all. The process that draws pages is not
followed. On a slow machine a count may hold one function more, which tells how long the rest takes.

DIR of the stored result is the checkout before "Answer at every door through one function". A method that the command
of a checkout does not take has no row.
"""
import argparse
import inspect
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

METHODS = "auto", "direct", "team", "cosee_pages"
QUESTION, ANSWER = "How much is the subtotal?", "36,871.72 USD"
ACTION = dict(action="HYPOTHESIZE", view=dict(page=1), content="It stands there.", answer=ANSWER, supporting_cells=[],
              confidence=.97)
PACKAGES = "openai", "httpx", "pydantic", "typer"
COLUMNS = "when", "method", "modules_imported", "modules_entered", "functions", "code_objects", "stack_client", \
    "stack_cosee", "stack_all"


class Model(BaseHTTPRequestHandler):
    "Replies with the answer, as an action where JSON is wanted."
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps(ACTION) if "response_format" in body else f"Page: 1\nAnswer: {ANSWER}"
        choice = dict(index=0, finish_reason="stop", message=dict(role="assistant", content=text))
        usage = dict(prompt_tokens=200, completion_tokens=9, total_tokens=209)
        reply = dict(id="c", object="chat.completion", created=0, model="m", choices=[choice], usage=usage)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *args): pass


def function_of(frame):
    "What a frame runs, as module:function; '' for what is left out."
    code = frame.f_code
    if code.co_name.startswith("<") or not code.co_flags & inspect.CO_OPTIMIZED: return ""
    return f"{frame.f_globals['__name__']}:{getattr(code, 'co_qualname', code.co_name)}"


def follow(argv, folder, port):
    "Run the command in this process: its exit code, and what it enters of the package in a folder."
    entered = {}   # place of a code object -> does it have a name?
    started = {}   # thread -> stack where it was started
    sent = []      # stack at each piece for the server

    def is_own(frame): return frame.f_code.co_filename.startswith(folder + os.sep)

    def to_model(peer): return isinstance(peer, socket.socket) and peer.getpeername()[1] == port

    def stack(frame):
        "Functions from the outermost on, and whether each is the package's."
        inner = []
        while frame:
            if name := function_of(frame): inner.insert(0, (name, is_own(frame)))
            frame = frame.f_back
        return started.get(threading.current_thread(), []) + inner

    def profile(frame, event, arg):
        code = frame.f_code
        if event == "call" and code is threading.Thread.start.__code__: started[frame.f_locals["self"]] = stack(frame)
        elif event == "call" and is_own(frame):
            entered[code.co_filename, code.co_firstlineno, code.co_name] = bool(function_of(frame))
        elif event == "c_call" and arg.__name__ in ("send", "sendall") and to_model(arg.__self__):
            sent.append(stack(frame))

    sys.argv = ["cosee", *argv]
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        from cosee.cli.start import main
        code = main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if code: return code, {}
    way = sent[0][[own for _, own in sent[0]].index(True):]
    own = [name for name, own in way if own]
    files = {getattr(module, "__file__", None) or "" for module in sys.modules.values()}
    functions = [place for place, named in entered.items() if named]
    to_client = [name.startswith("cosee.models.") for name in own].index(True) + 1
    return code, dict(modules_imported=sum(file.startswith(folder + os.sep) for file in files),
                      modules_entered=len({file for file, *_ in functions}), functions=len(functions),
                      code_objects=len(entered), stack_client=to_client, stack_cosee=len(own), stack_all=len(way),
                      stack=own)


def measure(tree, method, document, port):
    "Ask with a checkout in a process of its own: what `follow` finds; {} for a method that it does not take."
    with tempfile.TemporaryDirectory() as scratch:
        own = {k: v for k, v in os.environ.items() if not k.startswith(("COSEE_", "OPENAI_", "XDG_"))}
        own |= dict(PYTHONPATH=str(tree), HOME=scratch, PYTHONHASHSEED="0", OMP_NUM_THREADS="1", TQDM_DISABLE="1")
        ask = ["ask", str(document), "-q", QUESTION, "--client", "openai", "--model", "m", "--base-url",
               f"http://127.0.0.1:{port}/v1", "--method", method, "--json"]
        result = Path(scratch) / "found.json"
        argv = [sys.executable, __file__, "--child", str(result), str(tree / "cosee"), str(port), *ask]
        r = subprocess.run(argv, capture_output=True, text=True, env=own, cwd=scratch)
        if f"--method: there is no value '{method}'" in r.stderr: return {}
        if r.returncode: raise SystemExit(r.stdout[-1000:] + r.stderr[-3000:])
        answer = json.loads(r.stdout)[0]["answer"]
        assert answer == ANSWER, (tree, method, answer)
        return json.loads(result.read_text())


def main():
    if sys.argv[1:2] == ["--child"]:
        result, folder, port, *argv = sys.argv[2:]
        code, found = follow(argv, folder, int(port))
        Path(result).write_text(json.dumps(found))
        return code
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="default: all")
    p.add_argument("--tree", type=Path, metavar="DIR", help="a checkout from before, which is measured, too")
    p.add_argument("--functions", action="store_true", help="list the functions on the stack")
    p.add_argument("--out", type=Path, help="write the result to this file")
    args = p.parse_args()
    if args.tree and not (args.tree / "cosee").is_dir():
        p.error("--tree: name a checkout of this project, with a folder cosee")
    from cosee import samples_dir
    from cosee.models.checkpoint import processor_name
    trees = dict(before=args.tree.resolve()) if args.tree else {}
    trees["now"] = Path(__file__).resolve().parents[1]
    rows = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for method in args.methods:
            for when, tree in trees.items():
                if found := measure(tree, method, samples_dir() / "invoice.pdf", server.server_port):
                    rows.append(dict(when=when, method=method, **found))
        server.shutdown()
    if args.out:
        about = dict(python=platform.python_version(), processor=processor_name(),
                     packages={name: version(name) for name in PACKAGES})
        args.out.write_text(json.dumps(dict(about, rows=rows), indent=1) + "\n", encoding="utf-8")
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for row in rows: print("| " + " | ".join(str(row[name]) for name in COLUMNS) + " |")
    for row in rows if args.functions else ():
        print("", f"{row['when']}, {row['method']}:", *row["stack"], sep="\n")
    return 0


if __name__ == "__main__": sys.exit(main())
