"""Fetch the documents of a file of questions: real manuals, forms, letters, statements, slides, and scans of some.

    python benchmarks/own_documents.py FOLDER           # fetch, verify, scan; FOLDER/questions.jsonl names the files
    python benchmarks/own_documents.py FOLDER --debs D  # with packages that lie in D already
    python benchmarks/own_documents.py --list --json    # what would be fetched; touches no network
    python benchmarks/own_documents.py FOLDER --questions benchmarks/unseen_questions.jsonl

own_questions.jsonl, the default, served to improve the reader of page text; unseen_questions.jsonl was written before
any reader had answered one of it, to judge it by (its wrong answers were looked at once, after the first run). A part
of its documents are test files of public repositories, got from GitHub at the commit that is named.

The other documents are PDFs of Debian's packages (release 12), got with `apt-get download` and opened with
`dpkg-deb`; only the files that are asked about are taken out, and each must have the SHA-256 that its questions name.
The packages are about 1 GB, most of it texlive-latex-extra-doc. Their documents are free under several licences
(LPPL, GPL, GFDL, Creative Commons, BSD: each package's usr/share/doc/PACKAGE/copyright says which): the repository
keeps questions and short answers alone, none of the documents.

The questions were written from pictures of the pages, in three languages, before any reader had answered one. `page`
is the page of the document that is asked (a scan counts its own), `wording` says how it is asked; `answers` is empty
where the document does not say. A scan is a few pages drawn, turned a little or by a quarter, blurred, with noise, and
kept as JPEG in a PDF without text: the same bytes wherever the libraries have the same versions.
"""
import argparse
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

QUESTIONS = Path(__file__).with_name("own_questions.jsonl")
GITHUB = "https://raw.githubusercontent.com"
EPOCH = time.gmtime(0)   # the date in a scan's PDF, so that its bytes are the same each time


def read_questions(file=QUESTIONS):
    "The questions, a dictionary each."
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def file_name(row):
    "Where a question's document lies in the folder of documents."
    path = Path(row["path"].removesuffix(".gz"))
    return f"{path.stem}-{row['sha256'][:8]}{'-scan' if row['scan'] else ''}{path.suffix.lower()}"


def wanted(rows):
    "{(package, version): {path: sha256}} of the questions."
    out = {}
    for row in rows:
        out.setdefault((row["package"], row["version"]), {})[row["path"]] = row["sha256"]
    return out


def run(command, folder):
    "Runs a command in the folder. Ends the script with its message where it fails."
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is missing: the documents are those of Debian's packages and need its tools")
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")


def find_deb(package, version, folder):
    "The package's file in the folder, any version if this one is not there, or None."
    exact = sorted(folder.glob(f"{package}_{version.replace(':', '%3a')}_*.deb"))
    return (exact + sorted(folder.glob(f"{package}_*.deb")) + [None])[0]


def fetch_deb(package, version, folder):
    "The package's file, downloaded if the folder has none: this version, or else the one that the mirror has."
    if deb := find_deb(package, version, folder):
        return deb
    shown = subprocess.run(["apt-cache", "show", f"{package}={version}"], capture_output=True)
    run(["apt-get", "download", package if shown.returncode else f"{package}={version}"], folder)
    return find_deb(package, version, folder)


def members(deb, paths):
    "{path: bytes} of a package's files, unzipped where they are zipped."
    out = {}
    opened = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE)
    with opened as process, tarfile.open(fileobj=process.stdout, mode="r|") as tar:
        for member in tar:
            path = member.name.removeprefix("./")
            if path in paths and member.isfile():
                data = tar.extractfile(member).read()
                out[path] = gzip.decompress(data) if path.endswith(".gz") else data
    return out


def contents(deb, paths):
    "As `members`. Ends the script with one line where the package cannot be opened."
    try:
        return members(deb, paths)
    except FileNotFoundError:
        sys.exit("dpkg-deb is missing: the documents are those of Debian's packages and need its tools")
    except (tarfile.TarError, OSError) as problem:
        sys.exit(f"{deb} cannot be opened ({problem}): remove it to fetch it again")


def fetch_raw(repository, commit, paths, server):
    "{path: bytes} of a public repository's files. Ends the script with one line where one cannot be fetched."
    out = {}
    for path in paths:
        address = f"{server}/{repository}/{commit}/{urllib.parse.quote(path)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as reply:
                out[path] = reply.read()
        except OSError as problem:
            sys.exit(f"{address} cannot be fetched ({problem})")
    return out


def verify(package, files, sums):
    "Ends the script with one line where a file is missing or another one than the questions were written on."
    for path, sha in sums.items():
        if path not in files:
            sys.exit(f"{package} has no {path}")
        if hashlib.sha256(files[path]).hexdigest() != sha:
            sys.exit(f"{package}: {path} is not the file that the questions were written on (SHA-256 differs)")


def worn(image, settings, seed):
    "A page as a scanner gives it: turned, blurred, greyish, with noise."
    import numpy as np
    from PIL import Image, ImageFilter
    image = image.convert("L").rotate(settings["turn"], Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    image = image.rotate(settings["quarter"], expand=True).filter(ImageFilter.GaussianBlur(settings["blur"]))
    noise = np.random.default_rng(seed).normal(0, settings["noise"], (image.height, image.width))
    grey = np.asarray(image, dtype="float64") * settings["paper"] + noise
    return Image.fromarray(grey.clip(0, 255).astype("uint8"))


def make_scan(data, settings):
    "A PDF of pictures without text, of some pages of a PDF."
    import pypdfium2
    with pypdfium2.PdfDocument(data) as pdf:
        drawn = [pdf[n - 1].render(scale=settings["dpi"] / 72).to_pil() for n in settings["pages"]]
    first, *others = [worn(image, settings, seed) for seed, image in enumerate(drawn)]
    out = io.BytesIO()
    first.save(out, "PDF", save_all=True, append_images=others, resolution=settings["dpi"],
               quality=settings["quality"], creationDate=EPOCH, modDate=EPOCH)
    return out.getvalue()


def build(rows, folder, debs, server=GITHUB):
    "Fetches packages and files, and writes the documents, the scans and the questions with their files' names."
    documents = folder / "documents"
    for each in (documents, debs):
        each.mkdir(parents=True, exist_ok=True)
    for (package, version), sums in wanted(rows).items():
        repository = package.removeprefix("github:")
        files = (contents(fetch_deb(package, version, debs), sums) if repository == package
                 else fetch_raw(repository, version, sums, server))
        verify(package, files, sums)
        for name, row in {file_name(r): r for r in rows if r["package"] == package}.items():
            data = files[row["path"]]
            (documents / name).write_bytes(make_scan(data, row["scan"]) if row["scan"] else data)
    lines = [json.dumps({**row, "file": f"documents/{file_name(row)}"}, ensure_ascii=False) for row in rows]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def summary(rows):
    "How many questions, documents and scans, by language and wording."
    def counts(key):
        return {value: sum(r[key] == value for r in rows) for value in sorted({r[key] for r in rows})}
    scanned = [r for r in rows if r["scan"]]
    return dict(questions=len(rows), documents=len({file_name(r) for r in rows}),
                scans=len({file_name(r) for r in scanned}), scanned_questions=len(scanned),
                unanswerable=sum(not r["answers"] for r in rows), languages=counts("language"),
                wordings=counts("wording"), kinds=counts("kind"),
                packages=[f"{package} {version}" for package, version in wanted(rows)])


def main():
    "Runs the script."
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the documents go")
    parser.add_argument("--questions", type=Path, default=QUESTIONS, help="JSON Lines (default: own_questions.jsonl)")
    parser.add_argument("--debs", type=Path, help="where packages lie or go (default: FOLDER/debs)")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--json", action="store_true", help="say it as one JSON object")
    args = parser.parse_args()
    rows = read_questions(args.questions)
    if not args.list:
        if not args.folder:
            parser.error("give a FOLDER, or --list")
        build(rows, args.folder, args.debs or args.folder / "debs")
    told = summary(rows)
    print(json.dumps(told) if args.json else "\n".join(f"{key}: {value}" for key, value in told.items()))


if __name__ == "__main__":
    main()
