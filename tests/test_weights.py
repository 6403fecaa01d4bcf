"""Weights are fetched when asked for, whatever the server does, and never otherwise.

The servers are real and on this machine. Each answers a request as the next entry of its script says, and well once
the script has run out; it keeps what it was asked.
"""
import gzip
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

import pytest
from conftest import ROOT
from fake_servers import LocalServer

from cosee.cli.start import main
from cosee.utils.config import ConfigError
from cosee.models import download as download_module
from cosee.models.download import FetchError, RemoteFile, download
from cosee.models.registry import CLIENTS, ClientEntry, make_client
from cosee.models.weights import WEIGHTS, Weights, WeightsError, fetch_weights, local_weights, weights_path

DATA = b"GGUF" + hashlib.shake_256(b"weights").digest(3_000_000)
CONFIG = b'{"model_type": "told"}'


def remote(name="small.gguf", data=DATA):
    "What the table would say of these bytes."
    return RemoteFile(name, len(data), hashlib.sha256(data).hexdigest())


ONE = Weights("Made/Small-GGUF", "a" * 40, "CC0-1.0", "told", (remote(),))
TWO = Weights("Made/Two", "b" * 40, "CC0-1.0", "told", (remote("config.json", CONFIG), remote()))


class Handler(BaseHTTPRequestHandler):
    "Serves the files of its server, by range where that is asked for."
    protocol_version = "HTTP/1.1"

    def log_message(self, *args): pass

    def head(self, code, **fields):
        self.send_response(code)
        for name, value in fields.items():
            if value is not None: self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def do_GET(self):
        hub = self.server
        hub.asked.append(SimpleNamespace(path=self.path, headers=dict(self.headers)))
        order = hub.script.pop(0) if hub.script else {}
        data = order.get("data", hub.files.get(self.path.partition("?")[0].rpartition("/")[2]))
        if "redirect" in order: return self.head(302, Location=order["redirect"], Content_Length=0)
        if "code" in order or data is None: return self.head(order.get("code", 404), Content_Length=0)
        self.answer(order, data, order.get("etag", hub.etag))

    def answer(self, order, data, etag):
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        if self.headers.get("If-Range", etag) != etag or "no_range" in order: start = 0
        if start >= len(data): return self.head(416, Content_Length=0)
        total, rest = order.get("total", len(data)), data[start:]
        told = {"Content_Length": None if "no_length" in order else total - start, "ETag": etag,
                "Content_Encoding": order.get("encoding")}
        if start: told["Content_Range"] = f"bytes {start + order.get('shift', 0)}-{len(data) - 1}/{total}"
        self.head(206 if start else 200, **told)
        self.wfile.write(rest[:order.get("cut", len(rest))])
        if "stall" in order: self.server.go_on.wait(60)


class Hub(LocalServer):
    "A server of weights."

    def __init__(self):
        super().__init__(Handler)
        self.files, self.script, self.asked, self.etag = {"small.gguf": DATA, "config.json": CONFIG}, [], [], '"one"'
        self.go_on = threading.Event()

    def ranges(self):
        "What each request asked for: the range, and the version that the range is of"
        return [(a.headers.get("Range"), a.headers.get("If-Range")) for a in self.asked]


@pytest.fixture
def hubs():
    "Makes servers."
    made = []
    def make():
        made.append(servers.enter_context(Hub()))
        return made[-1]
    with ExitStack() as servers:
        yield make
        for hub in made: hub.go_on.set()


@pytest.fixture
def hub(hubs): return hubs()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    "A place of its own for weights, and a table with two small entries."
    monkeypatch.setenv("COSEE_MODELS", str(tmp_path / "data/models"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("COSEE_MODELS_FROM", "HF_ENDPOINT", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(WEIGHTS, "small", ONE)
    monkeypatch.setitem(WEIGHTS, "two", TWO)
    monkeypatch.setattr(download_module.time, "sleep", lambda seconds: None)
    return tmp_path / "data/models"


def get(hub, folder, file=None, **options):
    "The file, fetched from a server."
    return download(f"{hub.url}/Made/small.gguf", file or remote(), folder, pause=0, **options)


def names(folder): return sorted(p.name for p in folder.iterdir())


SHELL = """
import sys
from cosee.cli.start import main
from cosee.models.download import RemoteFile
from cosee.models.weights import WEIGHTS, Weights
WEIGHTS['small'] = Weights('Made/Small-GGUF', 'a' * 40, 'CC0-1.0', 'told', (RemoteFile({!r}, {!r}, {!r}),))
sys.exit(main(sys.argv[1:]))
"""


def shell(*argv, before=""):
    "A process of the command, with the small entry in its table; it may be interrupted, whoever started the tests."
    file = remote()
    return subprocess.Popen([sys.executable, "-c", before + SHELL.format(file.name, file.size, file.sha256), *argv],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


# --- all goes well ---

def test_fetch_says_where_the_file_lies_and_asks_once(hub, home, capsys):
    argv = ["fetch", "small", "--from", f"{hub.url}/"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    path = home / "small/small.gguf"
    assert out == f"{path}\n" and path.read_bytes() == DATA
    assert "3 MB, licence CC0-1.0, from http://127.0.0.1" in err and "--model-path small" in err
    assert [a.path for a in hub.asked] == [f"/Made/Small-GGUF/resolve/{'a' * 40}/small.gguf"]
    assert not {"Authorization", "Cookie"} & set(hub.asked[0].headers)
    assert names(home) == ["checked.json", "small"] and names(home / "small") == ["small.gguf"]
    if os.name == "posix": assert home.stat().st_mode & 0o777 == 0o700
    assert main(argv) == 0 and capsys.readouterr().out == f"{path}\n"
    assert len(hub.asked) == 1


def test_the_address_may_come_from_the_environment(hubs, home, monkeypatch):
    first, second, third = hubs(), hubs(), hubs()
    monkeypatch.setenv("HF_ENDPOINT", first.url)
    fetch_weights("small", home / "1")
    monkeypatch.setenv("COSEE_MODELS_FROM", second.url)
    fetch_weights("small", home / "2")
    fetch_weights("small", home / "3", base=third.url)
    assert [len(h.asked) for h in (first, second, third)] == [1, 1, 1]


def test_an_entry_of_several_files_is_a_folder(hub, home):
    hub.script = [{}, {"code": 404}]
    with pytest.raises(FetchError, match="404"): fetch_weights("two", base=hub.url)
    with pytest.raises(WeightsError, match="only 22 of 3,000,026 bytes are here; get it with: cosee fetch two"):
        weights_path("two")
    assert fetch_weights("two", base=hub.url) == home / "two" == weights_path("two")
    assert [a.path.rpartition("/")[2] for a in hub.asked] == ["config.json", "small.gguf", "small.gguf"]


def test_a_redirect_is_followed_with_its_range(hubs, tmp_path):
    hub, store = hubs(), hubs()
    hub.script = [{"redirect": f"{store.url}/x/small.gguf?sig=1"}] * 2
    store.script = [{"cut": 1000}]
    assert get(hub, tmp_path).read_bytes() == DATA
    assert store.ranges() == [(None, None), ("bytes=1000-", '"one"')]


# --- what breaks is mended ---

def test_broken_connections_go_on_where_they_stopped(hub, tmp_path):
    hub.script = [{"cut": 1_000_000}, {"cut": 0}, {"code": 503}, {"cut": 500_000, "no_length": 1}]
    assert get(hub, tmp_path).read_bytes() == DATA
    assert hub.ranges() == [(None, None), *[("bytes=1000000-", '"one"')] * 3, ("bytes=1500000-", '"one"')]
    assert names(tmp_path) == ["small.gguf"]


def test_many_breaks_are_no_reason_to_give_up_while_bytes_come(hub, tmp_path):
    hub.script = [{"cut": 200_000}] * 12
    assert get(hub, tmp_path, attempts=2).read_bytes() == DATA


@pytest.mark.parametrize("order", [{"cut": 0}, {"code": 503}, {"code": 429}])
def test_a_server_that_brings_nothing_is_given_up(hub, tmp_path, order):
    hub.script = [{"cut": 700}, *[order] * 9]
    with pytest.raises(FetchError, match="700 of 3,000,004 bytes are kept, and the same command goes on"):
        get(hub, tmp_path, attempts=3)
    assert len(hub.asked) == 4
    assert get(hub, tmp_path, attempts=9).read_bytes() == DATA


@pytest.mark.faults("a download stopped in the middle")
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_is_killed_leaves_what_has_come(hub, home, signum):
    hub.script = [{"cut": 2_000_000, "stall": 1}]
    process = shell("fetch", "small", "--from", hub.url)
    part = home / "small/small.gguf.part"
    for _ in range(3000):
        if part.exists() and part.stat().st_size == 2_000_000: break
        threading.Event().wait(0.02)
    process.send_signal(signum)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if signum == signal.SIGKILL else 130) and out == ""
    if signum == signal.SIGINT: assert "interrupted; the same command goes on" in err and "Traceback" not in err
    assert names(home / "small") == ["small.gguf.part", "small.gguf.part.json"]
    process = shell("fetch", "small", "--from", hub.url)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, f"{home}/small/small.gguf\n"), err
    assert hub.ranges() == [(None, None), ("bytes=2000000-", '"one"')]
    assert names(home / "small") == ["small.gguf"] and (home / "small/small.gguf").read_bytes() == DATA


def test_another_version_on_the_server_is_fetched_from_its_start(hub, tmp_path):
    old = b"GGUF" + bytes(len(DATA) - 4)
    hub.script = [{"data": old, "cut": 900}, {"code": 404}]
    with pytest.raises(FetchError, match="900 of"): get(hub, tmp_path)
    hub.etag = '"two"'
    assert get(hub, tmp_path).read_bytes() == DATA
    assert hub.ranges()[-1] == ("bytes=900-", '"one"')


@pytest.mark.parametrize("first,second", [({"etag": 'W/"weak"'}, {}), ({}, {"no_range": 1})])
def test_weak_marks_and_servers_without_ranges(hub, tmp_path, first, second):
    hub.script = [first | {"cut": 900}, second]
    assert get(hub, tmp_path).read_bytes() == DATA
    assert hub.ranges()[1] == ("bytes=900-", None if first else '"one"')


def test_another_mirror_goes_on_without_the_mark_of_the_first(hubs, tmp_path):
    first, second = hubs(), hubs()
    first.script, second.etag = [{"cut": 900}, {"code": 403}], '"other"'
    with pytest.raises(FetchError, match=r"refuses it \(403\); 900 of"): get(first, tmp_path)
    assert get(second, tmp_path).read_bytes() == DATA
    assert second.ranges() == [("bytes=900-", None)]


# --- what is wrong is refused ---

@pytest.mark.parametrize("order,said", [
    ({"data": DATA[:-1]}, "is 3,000,003 bytes long, not 3,000,004"),
    ({"data": DATA + b"!"}, "is 3,000,005 bytes long"),
    ({"data": DATA + b"!", "no_length": 1}, "sends is longer than 3,000,004 bytes; nothing of it is kept"),
    ({"data": DATA[:-1] + b"!"}, "sent is another file (sha256 "),
    ({"data": b"<!DOCTYPE html>".ljust(len(DATA))}, "is not a GGUF file: it begins with b'<!DOCTYPE ht'"),
    ({"data": b"version https://git-lfs", "no_length": 1}, "is not a GGUF file"),
    ({"data": gzip.compress(DATA), "encoding": "gzip"}, "sends no file"),
    ({"code": 404}, "does not have it (404)"), ({"code": 401}, "refuses it (401)")])
def test_what_is_not_the_file_is_not_kept(hub, tmp_path, order, said):
    hub.script = [order] * 9
    with pytest.raises(FetchError) as e: get(hub, tmp_path, attempts=2)
    assert said in str(e.value) and "\n" not in str(e.value)
    assert names(tmp_path) == []
    hub.script = []
    assert get(hub, tmp_path).read_bytes() == DATA


@pytest.mark.parametrize("order,said", [({"shift": 5}, "another part"), ({"total": 7_000_000}, "7,000,000 bytes long"),
                                        ({"data": DATA[:900]}, "shorter than 3,000,004")])
def test_a_part_of_another_file_is_not_put_behind_what_is_there(hub, tmp_path, order, said):
    hub.script = [{"cut": 900}, order]
    with pytest.raises(FetchError, match=f"{said}.*900 of 3,000,004 bytes are kept"): get(hub, tmp_path)
    assert get(hub, tmp_path).read_bytes() == DATA


def test_a_part_that_was_changed_is_noticed_at_the_end(hub, tmp_path):
    (tmp_path / "small.gguf.part").write_bytes(bytes(1000))
    with pytest.raises(FetchError, match="it was removed"): get(hub, tmp_path)
    assert names(tmp_path) == []
    (tmp_path / "small.gguf.part").write_bytes(bytes(len(DATA) + 1000))
    with pytest.raises(FetchError, match="it was removed"): get(hub, tmp_path)


@pytest.mark.parametrize("target", ["http://example.com/x", "ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_a_redirect_away_from_https_is_not_followed(hub, tmp_path, target):
    hub.script = [{"redirect": target}]
    with pytest.raises(FetchError, match="which does not speak https|leads nowhere"): get(hub, tmp_path)


def test_redirects_in_a_circle_end(hub, tmp_path):
    hub.script = [{"redirect": f"{hub.url}/Made/small.gguf"}] * 30
    with pytest.raises(FetchError, match="leads nowhere"): get(hub, tmp_path)


def test_no_way_to_the_server_is_said_at_once(hub, home, capsys, monkeypatch):
    hub.shutdown()
    hub.server_close()
    assert main(["fetch", "small", "--from", hub.url]) == 1
    err = capsys.readouterr().err
    assert "cannot be reached" in err and "is there a network?" in err and "Traceback" not in err
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    assert main(["fetch", "small"]) == 2
    assert "https:// only" in capsys.readouterr().err


def test_proxies_are_those_of_the_environment_and_not_for_this_machine(hub, tmp_path, monkeypatch):
    lines = []
    class Proxy(BaseHTTPRequestHandler):
        def log_message(self, *args): pass
        def do_CONNECT(self):
            lines.append(self.requestline)
            self.send_error(403)
    with LocalServer(Proxy) as proxy:
        for name in ("http_proxy", "https_proxy"): monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("no_proxy", "")
        get(hub, tmp_path)
        with pytest.raises(FetchError, match="cannot be reached"):
            download("https://hub.example/small.gguf", remote(), tmp_path / "new")
    assert [line.rpartition(" ")[0] for line in lines] == ["CONNECT hub.example:443"]


# --- the disk ---

def test_room_is_counted_before_anything_is_asked(hub, home, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2_000_000))
    with pytest.raises(FetchError, match="has 2,000,000 bytes free, and 3,000,026 are to come"):
        fetch_weights("two", base=hub.url)
    assert hub.asked == []


@pytest.mark.faults("a disk that is full")
@pytest.mark.skipif(os.name != "posix", reason="limits of processes are those of POSIX")
def test_a_disk_that_fills_up_leaves_what_has_come(hub, home):
    full = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" \
           "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY))\n"
    process = shell("fetch", "small", "--from", hub.url, before=full)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "File too large; 1,500,000 of 3,000,004 bytes are kept" in err
    assert fetch_weights("small", base=hub.url).read_bytes() == DATA
    assert hub.ranges()[1] == ("bytes=1500000-", '"one"')


def test_a_folder_that_cannot_be_made_is_told(hub, tmp_path, capsys):
    (tmp_path / "taken").write_text("a file")
    assert main(["fetch", "small", "--from", hub.url, "--to", str(tmp_path / "taken")]) == 1
    assert "taken: " in capsys.readouterr().err


def test_two_do_not_write_into_the_same_part(hub, tmp_path):
    hub.script = [{"cut": 1000, "stall": 1}]
    first = threading.Thread(target=get, args=(hub, tmp_path))
    first.start()
    part = tmp_path / "small.gguf.part"
    while not part.exists() or part.stat().st_size < 1000: threading.Event().wait(0.02)
    with pytest.raises(FetchError, match="another process is fetching it"): get(hub, tmp_path)
    hub.go_on.set()
    first.join(60)
    assert names(tmp_path) == ["small.gguf"]


# --- what is there already ---

def test_a_file_that_is_there_is_checked_and_used(hub, tmp_path, capsys):
    (tmp_path / "small.gguf").write_bytes(DATA)
    assert main(["fetch", "small", "--to", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"name": "small", "path": str(tmp_path / "small.gguf")} and " from " not in err


def test_another_file_of_the_name_is_left_alone(hub, tmp_path):
    for data in (b"mine", b"GGUF" + bytes(len(DATA) - 4)):
        (tmp_path / "small.gguf").write_bytes(data)
        with pytest.raises(FetchError, match="is there, but is another file or damaged"):
            fetch_weights("small", tmp_path, hub.url)
        assert (tmp_path / "small.gguf").read_bytes() == data and hub.asked == []


def test_the_cache_of_the_hub_is_looked_through(hub, home, tmp_path, capsys):
    blob = tmp_path / "hub/models--Made--Small-GGUF/blobs" / remote().sha256
    link = tmp_path / "hub/models--Made--Small-GGUF/snapshots/cafe/small.gguf"
    for path in (blob, link): path.parent.mkdir(parents=True)
    blob.write_bytes(DATA)
    link.symlink_to(blob)
    assert main(["models"]) == 0 and "not checked" in capsys.readouterr().out
    assert fetch_weights("small", base=hub.url) == link == weights_path("small") and hub.asked == []
    assert main(["models", "--json"]) == 0
    row = next(r for r in json.loads(capsys.readouterr().out) if r["name"] == "small")
    assert (row["state"], row["path"], row["bytes"]) == ("here", str(link), len(DATA))
    blob.write_bytes(DATA[:-1] + b"!")
    with pytest.raises(WeightsError, match="damaged"): weights_path("small")
    assert fetch_weights("small", base=hub.url) == home / "small/small.gguf" == weights_path("small")


def test_models_tells_what_is_there_and_verify_hashes_again(hub, home, capsys):
    assert main(["models"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == len(WEIGHTS) and f"nothing is in {home}" in err
    path = fetch_weights("small", base=hub.url)
    stat = path.stat()
    path.write_bytes(DATA[:-1] + b"!")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert main(["models"]) == 0 and main(["models", "--verify"]) == 1
    out = capsys.readouterr().out
    assert "DAMAGED     CC0-1.0" in out and str(path) in out
    with pytest.raises(WeightsError, match="move it away"): weights_path("small")
    (home / "two").mkdir()
    (home / "two/small.gguf.part").write_bytes(DATA[:1_500_013])
    assert main(["models"]) == 1 and "50 %" in capsys.readouterr().out


def test_models_takes_a_name_of_the_table(hub, home, tmp_path, monkeypatch, capsys):
    assert main(["models", "small"]) == 0
    out, err = capsys.readouterr()
    assert "small" in out and "--client print --model-path small" in out and "cosee fetch small gets them" in err
    path = fetch_weights("small", base=hub.url)
    assert main(["models", "small", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["path"], told["client"]) == ("here", str(path), "print")
    path.write_bytes(DATA[:-1] + b"!")
    assert main(["models", "small", "--verify"]) == 1 and "DAMAGED" in capsys.readouterr().out
    assert main(["models", "smal"]) == 2 and "did you mean 'small'?" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two").mkdir()   # a folder of that name is meant before the table
    assert main(["models", "two"]) == 2 and "two" in capsys.readouterr().err


def test_models_looks_into_a_folder_that_was_fetched_by_name(home, monkeypatch, capsys):
    pytest.importorskip("torch")
    from cosee.models.testing import random_model
    random_model(home / "mine", "smolvlm")
    files = [remote(p.name, p.read_bytes()) for p in sorted((home / "mine").iterdir()) if p.is_file()]
    monkeypatch.setitem(WEIGHTS, "mine", Weights("Made/Mine", "c" * 40, "CC0-1.0", "told", tuple(files)))
    assert main(["models", "mine"]) == 0
    out = capsys.readouterr().out
    assert "SmolVLM (smolvlm)" in out and "CC0-1.0" in out and "--model-path mine\n" in out
    assert main(["models", "mine", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["kind"], told["licence"]) == ("mine", "smolvlm", "CC0-1.0")


def test_without_a_name_fetch_lists_what_there_is(capsys):
    assert main(["fetch"]) == 0
    out = capsys.readouterr().out
    assert "qwen2.5-coder-0.5b   491 MB  -           Apache-2.0" in out and "qwen3-vl-4b" in out
    assert main(["fetch", "qwen3-vl"]) == 2
    assert "there is no set of weights 'qwen3-vl'; did you mean 'qwen3-vl-" in capsys.readouterr().err
    assert max(map(len, out.splitlines())) <= 119


# --- a name where a path is wanted ---

def test_model_path_takes_the_name(hub, home, tmp_path, monkeypatch):
    monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda model_path: model_path, needs={"model_path": "weights"}))
    with pytest.raises(ConfigError, match="small: is not on this machine; get it with: cosee fetch small"):
        make_client("told", model_path="small")
    path = fetch_weights("small", base=hub.url)
    assert make_client("told", model_path="small") == path
    assert make_client("told", model_path="other.gguf") == "other.gguf"
    (tmp_path / "torch.gguf").write_bytes(b"PK" + bytes(100))
    with pytest.raises(ConfigError, match=r"torch.gguf: is not a GGUF file: it begins with b'PK"):
        make_client("told", model_path=tmp_path / "torch.gguf")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    assert local_weights("small") == "small"


def test_the_command_takes_the_name(hub, doc, capsys):
    ask = ["ask", doc, "-q", "Who?", "--client", "qwen", "--model-path", "two"]
    assert main(ask) == 2
    assert "two: is not on this machine; get it with: cosee fetch two" in capsys.readouterr().err
    fetch_weights("two", base=hub.url)
    assert main(ask) == 2
    assert "describes a 'told' model" in capsys.readouterr().err
    assert len(hub.asked) == 2


def test_only_the_command_fetches():
    texts = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / "cosee").rglob("*.py")
             if p.name not in ("_modidx.py", "download.py")}
    for name in ("fetch_weights", "download import"):
        assert {p for p, text in texts.items() if name in text} == {"cosee/models/weights.py", "cosee/cli/weights.py"}
