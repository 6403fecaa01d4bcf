"""axe-core, which finds what keeps people with a screen reader or a keyboard out of a page; got from npm."""
import subprocess
from pathlib import Path
from shutil import which

VERSION = "4.14.1"
SERIOUS = {"serious", "critical"}


def source(folder):
    "The script as text; None where npm is not there, or cannot get it."
    npm = which("npm")
    if npm is None: return None
    options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    done = subprocess.run([npm, "install", "--prefix", str(folder), *options, f"axe-core@{VERSION}"],
                          capture_output=True, timeout=120)
    path = Path(folder) / "node_modules/axe-core/axe.min.js"
    return path.read_text(encoding="utf-8") if done.returncode == 0 and path.is_file() else None


def findings(browser, script):
    "What is wrong with the page that a browser shows, as (rule, where); only what is serious."
    browser.js(script + "; 0")
    where = "v.nodes.map(n => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).slice(0, 4)"
    found = browser.js("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map("
                       f"v => [v.id, v.impact, {where}]))")
    return [(rule, where) for rule, impact, where in found if impact in SERIOUS]
