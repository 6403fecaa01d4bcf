"""Weights are fetched when asked for, by the library of the hub and checked here, and never otherwise.

The hubs are real servers on this machine, behind the real library. Each answers a request as the next entry of its
script for that method says, and well once the script has run out; it keeps what it was asked.
"""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import huggingface_hub.constants
import huggingface_hub.file_download
import pytest
from conftest import ROOT
from fake_servers import LocalServer

from cosee.cli.start import main
from cosee.models.registry import CLIENTS, ClientEntry, make_client
from cosee.models.weights import (WEIGHTS, FetchError, RemoteFile, Weights, WeightsError, fetch_weights, local_weights,
                                  weights_folder, weights_path, weights_state)
from cosee.utils.config import ConfigError

DATA = b"GGUF" + hashlib.shake_256(b"weights").digest(3_000_000)
EYES = b"GGUF" + hashlib.shake_256(b"eyes").digest(1_000_000)
CONFIG = b'{"model_type": "told"}'
OTHER = DATA[:-1] + b"!"


def sha256(data): return hashlib.sha256(data).hexdigest()


def remote(name="small.gguf", data=DATA):
    "What the table would say of these bytes."
    return RemoteFile(name, len(data), sha256(data))


ONE = Weights("Made/Small-GGUF", "a" * 40, "CC0-1.0", "told", (remote(),))
TWO = Weights("Made/Two", "b" * 40, "CC0-1.0", "told", (remote("config.json", CONFIG),
                                                        remote("model.safetensors", DATA)))
PAIR = Weights("Made/Pair-GGUF", "c" * 40, "CC0-1.0", "told", (remote(), remote("mmproj-small.gguf", EYES)))


class Handler(BaseHTTPRequestHandler):
    "Serves the files of its hub, large ones with their checksum as mark, by range where that is asked for."
    protocol_version = "HTTP/1.1"

    def log_message(self, *args): pass

    def head(self, code, **fields):
        self.send_response(code)
        for name, value in fields.items():
            if value is not None: self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def order(self):
        "What the script wants, and the file that is asked for"
        hub = self.server
        with hub.lock:
            hub.asked.append(SimpleNamespace(method=self.command, path=self.path, headers=dict(self.headers)))
            script = hub.script[self.command] if "/resolve/" in self.path or "/x/" in self.path else []
            order = script.pop(0) if script else {}
        return order, order.get("data", hub.files.get(self.path.partition("?")[0].rpartition("/")[2]))

    def marks(self, data):
        return {"X_Repo_Commit": self.path.split("/")[4], "ETag": f'"{sha256(data)}"'}

    def do_HEAD(self):
        order, data = self.order()
        if "code" in order or data is None:
            lost = order.get("code", 404)
            return self.head(lost, Content_Length=0, X_Error_Code="EntryNotFound" if lost == 404 else None)
        told = {**self.marks(data), "Content_Length": len(data)}
        if "plain" in order: del told["X_Repo_Commit"]
        if "redirect" in order:
            return self.head(302, Location=order["redirect"], X_Repo_Commit=told["X_Repo_Commit"],
                             X_Linked_ETag=told["ETag"], X_Linked_Size=len(data), Content_Length=0)
        self.head(200, **told)

    def do_GET(self):
        order, data = self.order()
        if "code" in order or data is None: return self.head(order.get("code", 404), Content_Length=0)
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        told = {"ETag": f'"{sha256(data)}"', "Content_Length": len(data) - start}
        if start: told["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.head(206 if start else 200, **told)
        self.wfile.write(data[start:start + order["cut"] if "cut" in order else None])
        self.wfile.flush()
        if "stall" in order:
            self.server.stalled.set()
            self.server.go_on.wait(60)


class Hub(LocalServer):
    "A hub, or a store behind one."

    def __init__(self):
        super().__init__(Handler)
        self.files = {"small.gguf": DATA, "mmproj-small.gguf": EYES, "config.json": CONFIG, "model.safetensors": DATA}
        self.script, self.asked, self.lock = {"HEAD": [], "GET": []}, [], threading.Lock()
        self.stalled, self.go_on = threading.Event(), threading.Event()

    def gets(self):
        "Which files were asked for, from where on"
        return [(a.path.rpartition("/")[2], a.headers.get("Range")) for a in self.asked
                if a.method == "GET" and not a.path.startswith("/api/")]


@pytest.fixture
def hubs():
    "Makes hubs."
    made = []
    def make():
        made.append(servers.enter_context(Hub()))
        return made[-1]
    with ExitStack() as servers:
        yield make
        for hub in made: hub.go_on.set()


@pytest.fixture
def home(tmp_path, monkeypatch):
    "Places of its own for weights, and a table with three small entries."
    for name in ("COSEE_MODELS", "HF_ENDPOINT", "HF_TOKEN", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY",
                 "all_proxy", "ALL_PROXY"): monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name, entry in dict(small=ONE, two=TWO, pair=PAIR).items(): monkeypatch.setitem(WEIGHTS, name, entry)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.file_download.time, "sleep", lambda seconds: None)
    return tmp_path


@pytest.fixture
def hub(home, hubs, monkeypatch):
    "The hub that is asked."
    made = hubs()
    monkeypatch.setenv("HF_ENDPOINT", f"{made.url}/")
    return made


def snapshot(home, entry):
    return home / f"hub/models--{entry.repository.replace('/', '--')}/snapshots/{entry.revision}"


def files(folder): return sorted(p.name for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


SHELL = """
import sys
from cosee.cli.start import main
from cosee.models.weights import WEIGHTS, RemoteFile, Weights
WEIGHTS['two'] = Weights('Made/Two', 'b' * 40, 'CC0-1.0', 'told', tuple(RemoteFile(*f) for f in {!r}))
sys.exit(main(sys.argv[1:]))
"""


def shell(*argv, before=""):
    "A process of the command, with an entry in its table; it may be interrupted, whoever started the tests."
    told = [(f.name, f.size, f.sha256) for f in TWO.files]
    return subprocess.Popen([sys.executable, "-c", before + SHELL.format(told), *argv], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


# --- all goes well ---

def test_fetch_says_where_the_file_lies_and_asks_once(hub, home, capsys):
    argv = ["models", "fetch", "small"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    path = snapshot(home, ONE) / "small.gguf"
    assert out == f"{path}\n" and path.read_bytes() == DATA == local_weights("small").read_bytes()
    assert f"small: 3 MB, licence CC0-1.0, from {hub.url}/Made/Small-GGUF" in err and "--model-path small" in err
    assert {a.path for a in hub.asked} == {f"/Made/Small-GGUF/resolve/{'a' * 40}/small.gguf"}
    assert not any({"authorization", "cookie"} & {k.lower() for k in a.headers} for a in hub.asked)
    assert not any("torch" in a.headers["user-agent"] for a in hub.asked)
    assert len(hub.gets()) == 1 and weights_folder() == home / "data/cosee/models"
    assert files(home / "data") == ["checked.json"]
    if os.name == "posix": assert weights_folder().stat().st_mode & 0o777 == 0o700
    asked = len(hub.asked)
    assert main(argv) == 0 and capsys.readouterr().out == f"{path}\n" and len(hub.asked) == asked


def test_a_folder_may_be_named(hub, home, monkeypatch):
    assert fetch_weights("small", home / "here") == home / "here/small.gguf"
    monkeypatch.setenv("COSEE_MODELS", str(home / "mine"))
    assert fetch_weights("small") == home / "mine/small/small.gguf" == weights_path("small")
    assert not (home / "hub").exists()


def test_safetensors_are_a_folder_and_go_on_with_the_next_file(hub, home):
    hub.script["HEAD"] = [{}, {}, {"code": 404}]
    with pytest.raises(FetchError, match="model.safetensors: 127.0.0.1:.* does not have it .404.: Made/Two at bbb"):
        fetch_weights("two")
    with pytest.raises(WeightsError, match="only 22 of 3,000,026 bytes are here; get it with: cosee models fetch two"):
        weights_path("two")
    hub.files["model.safetensors"] = DATA
    assert fetch_weights("two") == snapshot(home, TWO) == weights_path("two")
    assert hub.gets() == [("config.json", None), ("model.safetensors", None)]


def test_a_pair_is_the_model_with_its_mmproj_beside_it(hub, home, capsys):
    path = fetch_weights("pair")
    assert path == snapshot(home, PAIR) / "small.gguf" == weights_path("pair")
    assert path.with_name("mmproj-small.gguf").read_bytes() == EYES
    path.with_name("mmproj-small.gguf").unlink()
    with pytest.raises(WeightsError, match="only 3,000,004 of 4,000,008 bytes"): weights_path("pair")
    assert main(["models"]) == 0 and " 74 % " in capsys.readouterr().out


def test_a_store_elsewhere_gets_no_token(hub, hubs, home, monkeypatch):
    store = hubs()
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    hub.script["HEAD"] = [{"redirect": f"http://localhost:{store.server_port}/x/small.gguf?sig=1"}] * 2
    assert fetch_weights("small").read_bytes() == DATA
    def known(server): return ["authorization" in {k.lower() for k in a.headers} for a in server.asked]
    assert store.gets() == [("small.gguf?sig=1", None)] and all(known(hub)) and known(store) == [False]


# --- what breaks is mended ---

def test_broken_connections_go_on_where_they_stopped(hub, home, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 100_000)   # the library's: 10 MB
    hub.script["GET"] = [{"cut": 1_000_000}, {"cut": 500_000}]
    assert fetch_weights("small").read_bytes() == DATA
    assert hub.gets() == [("small.gguf", at) for at in (None, "bytes=1000000-", "bytes=1500000-")]


def test_a_hub_that_brings_nothing_is_given_up(hub, home):
    hub.script["GET"] = [{"cut": 0}] * 9
    with pytest.raises(FetchError, match="small.gguf: .* cannot be reached .*is there a network") as e:
        fetch_weights("small")
    assert "\n" not in str(e.value) and weights_state("small").found == "missing"
    assert fetch_weights("small").read_bytes() == DATA


@pytest.mark.faults("a download stopped in the middle")
@pytest.mark.parametrize("where", ["cache", "folder"])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_is_killed_leaves_whole_files_and_no_wrong_one(hub, home, where, signum):
    hub.script["GET"] = [{}, {"cut": 2_000_000, "stall": 1}]
    argv = ["models", "fetch", "two", *(["--to", str(home / "here")] if where == "folder" else [])]
    place = home / "here" if where == "folder" else None
    process = shell(*argv)
    assert hub.stalled.wait(60)
    process.send_signal(signum)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if signum == signal.SIGKILL else 130) and out == ""
    if signum == signal.SIGINT: assert "interrupted" in err and "Traceback" not in err
    state = weights_state("two", folder=place)
    assert (state.found, state.have) == ("partly", len(CONFIG))
    process = shell(*argv)
    out, err = process.communicate(timeout=60)
    path = place or snapshot(home, TWO)
    assert (process.returncode, out) == (0, f"{path}\n"), err
    assert [name for name, _ in hub.gets()] == ["config.json", "model.safetensors", "model.safetensors"]
    assert (path / "model.safetensors").read_bytes() == DATA
    assert not [name for name in files(home) if name.endswith("incomplete")]


# --- what is wrong is refused ---

@pytest.mark.parametrize("where", ["cache", "folder"])
def test_a_wrong_file_is_removed_and_told(hub, home, where):
    place = home / "here" if where == "folder" else None
    hub.script["GET"] = [{"data": OTHER}]
    with pytest.raises(FetchError, match=f"sent is another file .sha256 {sha256(OTHER)}, not .*it was removed; call "):
        fetch_weights("small", place)
    assert weights_state("small", folder=place).found == "missing"
    assert not [name for name in files(home) if name in ("small.gguf", sha256(DATA))]
    assert fetch_weights("small", place).read_bytes() == DATA


@pytest.mark.parametrize("data,said", [
    (DATA[:-1], "is 3,000,003 bytes long, not 3,000,004"), (DATA + b"!", "is 3,000,005 bytes long"),
    (OTHER, "has is another file (sha256 "), (b"<!DOCTYPE html>", "is 15 bytes long")])
def test_another_file_is_refused_before_it_comes(hub, home, data, said):
    hub.files["small.gguf"] = data
    with pytest.raises(FetchError) as e: fetch_weights("small")
    assert said in str(e.value) and "HF_ENDPOINT" in str(e.value) and "\n" not in str(e.value)
    assert hub.gets() == []


@pytest.mark.parametrize("code,said", [(401, "refuses it (401); log in with: hf auth login, or set HF_TOKEN"),
                                       (403, "refuses it (403)"), (404, "does not have it (404)"),
                                       (503, "answers with an error (503); call again later")])
def test_a_refusal_is_one_line(hub, home, capsys, code, said):
    hub.script["HEAD"] = [{"code": code}] * 20
    assert main(["models", "fetch", "small", "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert said in err and out == "" and err.count("\n") == 1


def test_a_server_that_is_no_hub_is_told(hub, home):
    hub.script["HEAD"] = [{"plain": 1}]
    with pytest.raises(FetchError, match="does not answer as the hub does"): fetch_weights("small")


def test_no_way_to_the_hub_is_said_at_once(hub, home, capsys, monkeypatch):
    hub.shutdown()
    hub.server_close()
    monkeypatch.setattr(huggingface_hub.file_download.time, "sleep", lambda seconds: pytest.fail("waited"))
    assert main(["models", "fetch", "small", "--quiet"]) == 1
    err = capsys.readouterr().err
    assert "cannot be reached" in err and "is there a network?" in err and err.count("\n") == 1


def test_nothing_is_fetched_offline(hub, home, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FetchError, match="HF_HUB_OFFLINE is set; unset it"): fetch_weights("small")
    assert hub.asked == []


def test_proxies_are_those_of_the_environment(home, monkeypatch):
    lines = []
    class Proxy(BaseHTTPRequestHandler):
        def log_message(self, *args): pass
        def do_CONNECT(self):
            lines.append(self.requestline)
            self.send_error(403)
    with LocalServer(Proxy) as proxy:
        code = "from cosee.models.weights import fetch_weights\nfetch_weights('qwen3-0.6b')"
        env = {**os.environ, "https_proxy": proxy.url, "no_proxy": "", "HF_ENDPOINT": "https://hub.example"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert "hub.example cannot be reached" in done.stderr.splitlines()[-1]
    assert {line.rpartition(" ")[0] for line in lines} == {"CONNECT hub.example:443"}


# --- the disk ---

def test_room_is_counted_before_anything_is_asked(hub, home, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2_000_000))
    with pytest.raises(FetchError, match="has 2,000,000 bytes free, and 3,000,026 are to come; make room"):
        fetch_weights("two")
    assert hub.asked == []


@pytest.mark.faults("a disk that is full")
@pytest.mark.skipif(os.name != "posix", reason="limits of processes are those of POSIX")
def test_a_disk_that_fills_up_is_told(hub, home):
    full = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" \
           "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY))\n"
    process = shell("models", "fetch", "two", "--quiet", before=full)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "model.safetensors: cannot be written: File too large" in err
    assert fetch_weights("two") == weights_path("two")


def test_a_folder_that_cannot_be_made_is_told(hub, home, capsys):
    (home / "taken").write_text("a file")
    assert main(["models", "fetch", "small", "--to", str(home / "taken"), "--quiet"]) == 1
    err = capsys.readouterr().err
    assert "cannot be written" in err and err.count("\n") == 1


def test_two_fetch_a_file_once(hub, home):
    hub.script["GET"] = [{"stall": 1}]
    both = [threading.Thread(target=fetch_weights, args=("small",)) for _ in range(2)]
    both[0].start()
    assert hub.stalled.wait(60)
    both[1].start()
    hub.go_on.set()
    for thread in both: thread.join(60)
    assert len(hub.gets()) == 1 and weights_path("small").read_bytes() == DATA


# --- what is there already ---

def test_a_file_that_is_there_is_checked_and_used(hub, home, capsys):
    (home / "small.gguf").write_bytes(DATA)
    assert main(["models", "fetch", "small", "--to", str(home), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"name": "small", "path": str(home / "small.gguf")} and " from " not in err
    assert hub.asked == []


def test_what_was_fetched_into_the_folder_of_the_user_is_found(hub, home):
    (weights_folder() / "small").mkdir(parents=True)
    (weights_folder() / "small/small.gguf").write_bytes(DATA)
    assert fetch_weights("small") == weights_folder() / "small/small.gguf" == weights_path("small")
    assert hub.asked == []


def test_another_file_of_the_name_is_left_alone(hub, home):
    for data in (b"mine", b"GGUF" + bytes(len(DATA) - 4)):
        (home / "small.gguf").write_bytes(data)
        with pytest.raises(FetchError, match="is there, but is another file or damaged"): fetch_weights("small", home)
        assert (home / "small.gguf").read_bytes() == data and hub.asked == []


def test_the_cache_of_the_hub_is_looked_through_and_a_damaged_file_there_is_fetched_anew(hub, home, capsys):
    blob = home / "hub/models--Made--Small-GGUF/blobs" / remote().sha256
    link = snapshot(home, ONE) / "small.gguf"
    for path in (blob, link): path.parent.mkdir(parents=True)
    blob.write_bytes(DATA)
    link.symlink_to(blob)
    assert main(["models"]) == 0 and "not checked" in capsys.readouterr().out
    assert fetch_weights("small") == link == weights_path("small") and hub.asked == []
    assert main(["models", "--json"]) == 0
    row = next(r for r in json.loads(capsys.readouterr().out)["weights"] if r["name"] == "small")
    assert (row["state"], row["path"], row["bytes"]) == ("here", str(link), len(DATA))
    blob.write_bytes(OTHER)
    with pytest.raises(WeightsError, match="damaged, or another file; .*: cosee models fetch small"):
        weights_path("small")
    assert fetch_weights("small") == link == weights_path("small") and len(hub.gets()) == 1


def test_models_tells_what_is_there_and_verify_hashes_again(hub, home, capsys):
    assert main(["models"]) == 0
    out, err = capsys.readouterr()
    servers, weights, backends = out.split("\n\n")
    assert servers == "servers on this machine, for --client:\n-" and "openai.gpt-4o" in backends
    assert weights.splitlines()[0] == "weights, for --model-path:" and len(weights.splitlines()) == 1 + len(WEIGHTS)
    assert max(map(len, weights.splitlines())) <= 119 and "cosee models fetch NAME gets some" in err
    path = fetch_weights("small", weights_folder() / "small")
    stat = path.stat()
    path.write_bytes(OTHER)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert main(["models"]) == 0 and main(["models", "list", "--verify"]) == 1 == main(["models", "--verify"])
    out = capsys.readouterr().out
    assert "DAMAGED      CC0-1.0" in out and str(path) in out
    with pytest.raises(WeightsError, match="move it away"): weights_path("small")


def test_what_stands_before_a_part_is_heard(home, capsys):
    said = []
    for argv in (["models", "list", "--json"], ["models", "--json", "list"], ["models", "--json"]):
        assert main(argv) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1] == said[2] and [*said[0]] == ["servers", "weights", "backends"]


def test_show_takes_a_name_of_the_table(hub, home, monkeypatch, capsys):
    assert main(["models", "show", "small"]) == 0
    out, err = capsys.readouterr()
    assert "--client text --model-path small" in out and "cosee models fetch small gets them" in err
    path = fetch_weights("small", weights_folder() / "small")
    assert main(["models", "show", "small", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["path"], told["client"]) == ("here", str(path), "text")
    path.write_bytes(OTHER)
    assert main(["models", "show", "small", "--verify"]) == 1 and "DAMAGED" in capsys.readouterr().out
    assert main(["models", "show", "smal"]) == 2 and "did you mean 'small'?" in capsys.readouterr().err
    monkeypatch.chdir(home)
    (home / "two").mkdir()   # a folder of that name is meant before the table
    assert main(["models", "show", "two"]) == 2 and "two" in capsys.readouterr().err


def test_show_looks_into_a_folder_that_was_fetched_by_name(home, monkeypatch, capsys):
    pytest.importorskip("torch")
    from cosee.models.testing import random_model
    random_model(weights_folder() / "mine", "smolvlm")
    there = sorted(p for p in (weights_folder() / "mine").iterdir() if p.is_file())
    told = [remote(p.name, p.read_bytes()) for p in there]
    monkeypatch.setitem(WEIGHTS, "mine", Weights("Made/Mine", "c" * 40, "CC0-1.0", "told", tuple(told)))
    assert main(["models", "show", "mine"]) == 0
    out = capsys.readouterr().out
    assert "SmolVLM (smolvlm)" in out and "CC0-1.0" in out and "--model-path mine\n" in out
    assert main(["models", "show", "mine", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], said["kind"], said["licence"]) == ("mine", "smolvlm", "CC0-1.0")


def test_a_name_that_nobody_knows_is_told(home, capsys):
    assert main(["models", "fetch", "qwen3-vl"]) == 2
    assert "there is no set of weights 'qwen3-vl'; did you mean 'qwen3-vl-" in capsys.readouterr().err
    assert main(["fetch", "small"]) == 2
    assert "there is no command fetch any more; type `cosee models fetch NAME`" in capsys.readouterr().err


# --- a name where a path is wanted ---

def test_model_path_takes_the_name(hub, home, monkeypatch):
    monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda model_path: model_path, needs={"model_path": "weights"}))
    with pytest.raises(ConfigError, match="small: is not on this machine; get it with: cosee models fetch small"):
        make_client("told", model_path="small")
    path = fetch_weights("small")
    assert make_client("told", model_path="small") == path
    assert make_client("told", model_path="other.gguf") == "other.gguf"
    (home / "torch.gguf").write_bytes(b"PK" + bytes(100))
    with pytest.raises(ConfigError, match=r"torch.gguf: is not a GGUF file: it begins with b'PK"):
        make_client("told", model_path=home / "torch.gguf")
    monkeypatch.chdir(home)
    (home / "small").mkdir()
    assert local_weights("small") == "small"


def test_the_command_takes_the_name(hub, home, doc, capsys, monkeypatch):
    safe = (120).to_bytes(8, "little") + b"{" + DATA
    hub.files["model.safetensors"] = safe
    monkeypatch.setitem(WEIGHTS, "two", Weights("Made/Two", "b" * 40, "CC0-1.0", "told", (
        remote("config.json", CONFIG), remote("model.safetensors", safe))))
    ask = ["ask", doc, "-q", "Who?", "--client", "qwen", "--model-path", "two"]
    assert main(ask) == 2
    assert "two: is not on this machine; get it with: cosee models fetch two" in capsys.readouterr().err
    fetch_weights("two")
    asked = len(hub.asked)
    assert main(ask) == 2
    assert "describes a 'told' model" in capsys.readouterr().err
    assert len(hub.asked) == asked


# --- only when asked ---

def test_only_the_command_fetches():
    texts = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / "cosee").rglob("*.py")
             if p.name != "_modidx.py"}
    assert {p for p, text in texts.items() if "fetch_weights" in text} == {"cosee/models/weights.py",
                                                                           "cosee/cli/models.py"}
    assert {p for p, text in texts.items() if "hf_hub_download" in text} == {"cosee/models/weights.py"}


def test_the_list_loads_no_library_and_asks_nobody(hub, home):
    code = ("import sys, cosee\nfrom cosee.cli.start import main\ncode = main(['models'])\n"
            "sys.exit(code or int(any(m in sys.modules for m in ('huggingface_hub', 'torch', 'httpx', 'httpx2'))))")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0 and hub.asked == []
