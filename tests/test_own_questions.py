"""The questions about real documents are well formed; none of the documents is here, and nothing is fetched."""
import hashlib
import io
import re
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'benchmarks'))

own = import_module('own_documents')   # a script of the repository, no module of the package

ROWS = own.read_questions()
FIELDS = ['id', 'package', 'version', 'path', 'sha256', 'scan', 'language', 'kind', 'wording', 'question', 'answers',
          'page']
SCAN = {'pages', 'dpi', 'turn', 'quarter', 'noise', 'blur', 'paper', 'quality'}


@pytest.fixture(scope='module')
def pdf(made_text=(('Invoice 4711', 40), ('Total 82,13', 70))):
    "The bytes of a made PDF of two pages."
    from PIL import Image, ImageDraw
    pages = []
    for text, y in made_text:
        pages.append(Image.new('RGB', (200, 260), 'white'))
        ImageDraw.Draw(pages[-1]).text((20, y), text, fill='black')
    out = io.BytesIO()
    pages[0].save(out, 'PDF', save_all=True, append_images=pages[1:])
    return out.getvalue()


@pytest.mark.parametrize('row', ROWS, ids=lambda row: row['id'])
def test_row(row):
    assert list(row) == FIELDS
    assert re.fullmatch(r'[0-9a-f]{64}', row['sha256'])
    assert re.fullmatch(r'usr/share/[^ ]+\.pdf(\.gz)?', row['path']) and '..' not in row['path']
    assert row['id'].startswith(row['language'] + '-') and row['question'].endswith('?')
    assert row['scan'] is None or set(row['scan']) == SCAN
    assert (row['wording'] == 'unanswerable') == (not row['answers']) == (row['page'] is None)


@pytest.mark.parametrize('row', [r for r in ROWS if r['answers']], ids=lambda row: row['id'])
def test_answers_are_short(row):
    assert len(set(row['answers'])) == len(row['answers']) and row['page'] >= 1
    assert all(a.strip() == a and 1 <= len(a.split()) <= 9 for a in row['answers'])
    assert not row['scan'] or row['page'] <= len(row['scan']['pages'])


def package(folder, path, data):
    "A Debian package of one file, made by hand."
    def tar(name, content, mode):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as archive:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        return out.getvalue()
    parts = [('debian-binary', b'2.0\n'), ('control.tar.gz', tar('./control', b'Package: own\n', 'w:gz')),
             ('data.tar.gz', tar(f'./{path}', data, 'w:gz'))]
    body = b'!<arch>\n'
    for name, content in parts:
        body += f'{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n'.encode()
        body += content + b'\n' * (len(content) % 2)
    (folder / 'own_1%3a2-3_all.deb').write_bytes(body)


@pytest.fixture
def rows(pdf, tmp_path):
    "Two questions about a file of a package that lies there: one on the PDF, one on its scan."
    if subprocess.run(['which', 'dpkg-deb'], capture_output=True).returncode: pytest.skip('needs dpkg-deb')
    path, scan = 'usr/share/doc/own/invoice.pdf', next(r['scan'] for r in ROWS if r['scan'])
    package(tmp_path, path, pdf)
    row = {**ROWS[0], 'package': 'own', 'version': '1:2-3', 'path': path, 'sha256': hashlib.sha256(pdf).hexdigest()}
    return [{**row, 'scan': None}, {**row, 'scan': {**scan, 'pages': [1]}}]


def test_build(rows, pdf, tmp_path):
    own.build(rows, tmp_path / 'out', tmp_path)
    told = own.read_questions(tmp_path / 'out/questions.jsonl')
    assert [t['question'] for t in told] == [r['question'] for r in rows]
    first, second = [(tmp_path / 'out' / t['file']).read_bytes() for t in told]
    assert first == pdf and second == own.make_scan(pdf, rows[1]['scan'])


def test_another_file_is_refused(rows, tmp_path):
    with pytest.raises(SystemExit, match='not the file that the questions were written on'):
        own.build([{**rows[0], 'sha256': '0' * 64}], tmp_path / 'out', tmp_path)
    with pytest.raises(SystemExit, match=r'own has no usr/share/doc/own/letter\.pdf'):
        own.build([{**rows[0], 'path': 'usr/share/doc/own/letter.pdf'}], tmp_path / 'out', tmp_path)
    assert not list((tmp_path / 'out/documents').iterdir())


UNSEEN, OFFICE = (own.read_questions(ROOT / f'benchmarks/{name}_questions.jsonl') for name in ('unseen', 'office'))


@pytest.mark.parametrize('row', [*UNSEEN, *OFFICE], ids=lambda row: row['id'])
def test_row_of_unseen_papers(row):
    assert list(row) == FIELDS and '..' not in row['path']
    assert re.fullmatch(r'[0-9a-f]{64}', row['sha256'])
    if row['package'].startswith('github:'): assert re.fullmatch(r'[0-9a-f]{40}', row['version'])
    assert (row['wording'] == 'unanswerable') == (not row['answers'])
    assert len({own.file_name(r) for r in UNSEEN}) >= 30 and len({own.file_name(r) for r in OFFICE}) == 15


def test_files_of_public_repositories_are_fetched_and_verified(tmp_path, pdf):
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread
    commit = 'a' * 40
    path = tmp_path / 'site/someone/papers' / commit / 'in voices/bill.pdf'
    path.parent.mkdir(parents=True)
    path.write_bytes(pdf)
    row = dict(ROWS[0], package='github:someone/papers', version=commit, path='in voices/bill.pdf', scan=None,
               sha256=hashlib.sha256(pdf).hexdigest())
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / 'site')
    with ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f'http://127.0.0.1:{server.server_port}'
        own.build([row], tmp_path / 'out', tmp_path / 'debs', address)
        with pytest.raises(SystemExit, match='SHA-256 differs'):
            own.build([dict(row, sha256='0' * 64)], tmp_path / 'out', tmp_path / 'debs', address)
        with pytest.raises(SystemExit, match='cannot be fetched'):
            own.build([dict(row, path='none.pdf')], tmp_path / 'out', tmp_path / 'debs', address)
        server.shutdown()
    assert (tmp_path / 'out/documents' / own.file_name(row)).read_bytes() == pdf
