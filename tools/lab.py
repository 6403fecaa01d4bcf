"A JupyterLab of its own, with settings of its own, for a look at notebooks in headless Chromium."
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN_ALL = "jupyterapp.commands.execute('notebook:run-all-cells')"
IDLE = """[...document.querySelectorAll('.jp-CodeCell')].length > 0 &&
  ![...document.querySelectorAll('.jp-InputPrompt')].some(e => e.textContent.includes('[*]'))"""


def cell_ready(browser):
    "Wait until a notebook stands there and its kernel is ready"
    browser.wait("!!document.querySelector('.jp-CodeCell') && !!window.jupyterapp")
    browser.wait("[...jupyterapp.serviceManager.sessions.running()].length > 0")
    browser.wait("document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Lab:
    "JupyterLab in `folder`; what it keeps of its user's settings lies in `home`"
    def __init__(self, folder, home, dark=False):
        self.port = free_port()
        theme = f"JupyterLab {'Dark' if dark else 'Light'}"
        self.settings(home / "settings", "apputils-extension/themes", theme=theme)
        self.settings(home / "settings", "apputils-extension/notification", fetchNews="false", checkForUpdates=False)
        env = {**os.environ, "JUPYTER_CONFIG_DIR": str(home / "config"), "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
               "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "PYTHONPATH": str(ROOT),
               "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
        options = [f"--ServerApp.port={self.port}", "--ServerApp.token=", "--ServerApp.open_browser=False",
                   f"--ServerApp.root_dir={folder}", "--ServerApp.allow_root=True", "--ServerApp.ip=127.0.0.1",
                   "--LabApp.expose_app_in_browser=True", "--log-level=ERROR"]
        self.process = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=env,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def settings(self, folder, name, **values):
        file = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))

    def url(self, notebook): return f"http://127.0.0.1:{self.port}/lab/tree/{notebook}"

    def __enter__(self):
        while self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api", timeout=5): return self
            except (urllib.error.URLError, OSError): continue
        raise RuntimeError("JupyterLab did not start")

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait(30)
