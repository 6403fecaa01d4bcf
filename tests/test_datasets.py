"Loaders on files of the true form: both layouts agree, what is broken is named, nothing outside the folder is read."
import json, shutil

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image

from cosee.datasets.records import DataError
from cosee.datasets.registry import load
from cosee.datasets.folder import Folder, from_jsonl, to_jsonl
from benchmark_files import WRITERS, write_layout
from cosee.datasets.synthetic.document import make_samples

BOTH = ['mpdocvqa', 'slidevqa', 'docvqa', 'infographicvqa']


@pytest.fixture(scope='module')
def made():
    wordings = ['literal', 'unanswerable']
    samples = list(make_samples(6, seed=5, kinds=['slides', 'invoice'], per_doc=3, dpi=36, wordings=wordings))
    return [{**s, 'images': list(s['images'])} for s in samples]


@pytest.fixture(scope='module')
def folders(made, tmp_path_factory):
    wanted = [(name, kind) for name, kind in WRITERS if name in BOTH or name == 'dude']
    return {(name, kind): write_layout(name, made, tmp_path_factory.mktemp(f'{name}_{kind}'), kind)
            for name, kind in wanted}


@pytest.fixture
def mp(folders, tmp_path):
    shutil.copytree(folders['mpdocvqa', 'raw'], tmp_path / 'mp')
    return tmp_path / 'mp'


def edit(path, change):
    data = json.loads(path.read_text())
    change(data['data'])
    path.write_text(json.dumps(data))


@pytest.mark.parametrize('name', BOTH)
def test_layouts_read_the_same(name, folders):
    raw, hub = list(load(name, 'val', root=folders[name, 'raw'])), list(load(name, 'val', root=folders[name, 'hub']))
    assert len(raw) == 6
    for a, b in zip(raw, hub, strict=True):
        assert (a['question'], a['answer'], a['meta']['id']) == (b['question'], b['answer'], b['meta']['id'])
        assert a['meta'].get('evidence_pages') == b['meta'].get('evidence_pages')
        assert [im.size for im in a['images']] == [im.size for im in b['images']]


@pytest.mark.parametrize('name, kind', WRITERS)
def test_every_layout_is_read_as_it_was_written(name, kind, made, tmp_path):
    split = 'test' if name in ('chartqapro', 'mmlongbench') else 'val'
    back = list(load(name, split, root=write_layout(name, made, tmp_path, kind, split)))
    answers = [s['answer'] if isinstance(s['answer'], str) else s['answer'][0] for s in back]
    assert [s['question'] for s in back] == [s['question'] for s in made]
    assert [a.lower() for a in answers] == [s['answer'][0].lower() for s in made]


def test_pages_count_from_one(made, folders):
    for s, m in zip(load('mpdocvqa', 'val', root=folders['mpdocvqa', 'raw']), made, strict=True):
        assert s['meta']['evidence_pages'][0] == (m['meta'].get('evidence_pages') or [1])[0]


def test_boxes_come_back(made, folders):
    for s, m in zip(load('dude', 'val', root=folders['dude', 'raw']), made, strict=True):
        for a, b in zip(s['meta'].get('evidence_boxes', []), m['meta'].get('evidence_boxes', []), strict=True):
            assert a['page'] == b['page'] and all(abs(u - v) < .01 for u, v in zip(a['bbox'], b['bbox'], strict=True))


BREAKS = {
    'wrong type': (lambda d: d[1].update(question=7), r"val.json, record 2: field 'question' should be str"),
    'no field': (lambda d: d[1].pop('doc_id'), r"val.json, record 2: field 'doc_id'"),
    'twice': (lambda d: d[1].update(questionId=d[0]['questionId']), r'val.json, record 2: id 1 is there twice'),
    'parent': (lambda d: d[1].update(page_ids=['../../secret'], answer_page_idx=0),
               r"val.json, record 2: field 'page_ids'.*leads out"),
    'absolute': (lambda d: d[1].update(page_ids=['/etc/passwd'], answer_page_idx=0),
                 r"val.json, record 2: field 'page_ids'"),
    'page': (lambda d: d[1].update(answer_page_idx=99), r"val.json, record 2: field 'answer_page_idx': 99"),
    'no object': (lambda d: d.__setitem__(1, 'text'), r'val.json, record 2: expected an object'),
}


@pytest.mark.parametrize('case', BREAKS)
def test_a_broken_record_is_named_and_skipped(case, mp):
    change, message = BREAKS[case]
    edit(mp / 'val.json', change)
    with pytest.raises(DataError, match=message): list(load('mpdocvqa', 'val', root=mp))
    split = load('mpdocvqa', 'val', root=mp, errors='skip')
    assert [s['meta']['id'] for s in split] == [1, 3, 4, 5, 6] and len(split.skipped) == 1


@pytest.mark.parametrize('damage', ['missing', 'cut', 'text', 'link'])
def test_a_broken_image_is_named_and_skipped(damage, mp, tmp_path):
    records = json.loads((mp / 'val.json').read_text())['data']
    page = records[3]['page_ids'][0]
    hit = [n for n, r in enumerate(records, 1) if page in r['page_ids']]
    image = mp / f'images/{page}.jpg'
    data = image.read_bytes()
    image.unlink()
    if damage == 'cut': image.write_bytes(data[:len(data) // 2])
    if damage == 'text': image.write_text('no image')
    if damage == 'link':
        (tmp_path / 'outside.jpg').write_bytes(data)
        image.symlink_to(tmp_path / 'outside.jpg')
    with pytest.raises(DataError, match=rf"record {hit[0]}: field 'page_ids'"): list(load('mpdocvqa', 'val', root=mp))
    split = load('mpdocvqa', 'val', root=mp, errors='skip')
    assert [s['meta']['id'] for s in split] == [n for n in range(1, 7) if n not in hit]
    assert len(split.skipped) == len(hit) < 6


def test_broken_line_of_jsonl(folders, tmp_path):
    shutil.copytree(folders['slidevqa', 'raw'], tmp_path / 's')
    path = tmp_path / 's/annotations/qa/dev.jsonl'
    lines = path.read_text().splitlines()
    path.write_text('\n'.join([*lines[:2], '{"qa_id": ', *lines[2:]]))
    with pytest.raises(DataError, match=r'dev.jsonl, line 3: broken JSON'):
        list(load('slidevqa', 'dev', root=tmp_path / 's'))
    split = load('slidevqa', 'dev', root=tmp_path / 's', errors='skip')
    assert len(list(split)) == 6 and len(split.skipped) == 1


def test_missing_column(folders, tmp_path):
    import pyarrow.parquet as pq
    (source,) = folders['mpdocvqa', 'hub'].rglob('*.parquet')
    pq.write_table(pq.read_table(source).drop_columns(['page_ids']), tmp_path / 'val.parquet')
    with pytest.raises(DataError, match=r"val.parquet: column 'page_ids' is missing"):
        list(load('mpdocvqa', 'val', root=tmp_path))


def test_no_parquet_at_all(tmp_path):
    (tmp_path / 'val.parquet').write_text('nothing')
    with pytest.raises(DataError, match='no readable parquet'): list(load('mpdocvqa', 'val', root=tmp_path))


def test_roots(tmp_path, monkeypatch, folders):
    monkeypatch.delenv('COSEE_DATA', raising=False)
    with pytest.raises(DataError, match='COSEE_DATA'): load('mpdocvqa', 'val')
    shutil.copytree(folders['mpdocvqa', 'raw'], tmp_path / 'mpdocvqa')
    monkeypatch.setenv('COSEE_DATA', str(tmp_path))
    assert len(list(load('mpdocvqa', 'val'))) == 6
    with pytest.raises(ValueError, match='choose from'): load('nothing', 'val')
    with pytest.raises(ValueError, match='train, val, test'): load('mpdocvqa', 'all')


def test_own_layout_round_trip(made, tmp_path):
    for s, m in zip(from_jsonl(to_jsonl(made, tmp_path)), made, strict=True):
        assert (s['question'], s['answer']) == (m['question'], m['answer'])
        assert s['meta'].get('evidence_pages') == m['meta'].get('evidence_pages')
        assert s['images'][0].tobytes() == m['images'][0].tobytes()


def rename_decks(root, name):
    lines = root / 'annotations/qa/dev.jsonl'
    records = [json.loads(l) | {'deck_name': name} for l in lines.read_text().splitlines()]
    lines.write_text(''.join(json.dumps(r) + '\n' for r in records))


ELSEWHERE = {'../../..': 'leads out of the data set; use', 'linked': 'leads out of the data set through',
             'what leads out': 'no image of slide 1 in images/dev/what leads out/'}


@pytest.mark.parametrize('deck,says', ELSEWHERE.items())
def test_a_slide_elsewhere_is_refused_and_a_missing_one_is_looked_for(folders, tmp_path, deck, says):
    shutil.copytree(folders['slidevqa', 'raw'], root := tmp_path / 's')
    (tmp_path / 'elsewhere').mkdir()
    shutil.copy(next((root / 'images').rglob('*.jpg')), tmp_path / 'elsewhere/1.jpg')
    (root / 'images/dev/linked').symlink_to(tmp_path / 'elsewhere')
    rename_decks(root, deck)
    with pytest.raises(DataError, match=says): list(load('slidevqa', 'dev', root=root))


def test_page_numbers_as_a_spreadsheet_with_an_empty_cell_writes_them(tmp_path):
    Image.new("RGB", (40, 40), "white").save(tmp_path / "a.png")
    rows = [dict(file="a.png", question="What?", answer="x", page=1), dict(file="a.png", question="Who?", answer="y")]
    pd.DataFrame(rows).to_csv(tmp_path / "questions.csv", index=False)
    assert "1.0" in (tmp_path / "questions.csv").read_text()
    assert [s["meta"].get("evidence_pages") for s in Folder(tmp_path / "questions.csv")] == [[1], None]


def test_folder_of_documents(tmp_path):
    from cosee.datasets.synthetic.document import samples_dir
    shutil.copy(samples_dir() / 'invoice.pdf', tmp_path)
    lines = [dict(file='invoice.pdf', question='What is the total?', page=1), dict(file='../x.pdf', question='?')]
    (tmp_path / 'q.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    split = Folder(tmp_path / 'q.jsonl', errors='skip', dpi=40)
    (s,) = split
    assert len(s['images']) == 1 and s['images'][0].size[0] > 100 and s['meta']['evidence_pages'] == [1]
    assert 'leads out' in split.skipped[0]


numbers = st.one_of(st.integers(-2**62, 2**62), st.floats(allow_nan=False, allow_infinity=False))
plain = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=20))


def nested(inner):
    return st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3))


json_like = st.recursive(plain, nested, max_leaves=6)
FIELDS = ['questionId', 'question', 'doc_id', 'page_ids', 'answers', 'answer_page_idx']


@pytest.fixture(scope='module')
def fuzzed(folders, tmp_path_factory):
    root = tmp_path_factory.mktemp('fuzz') / 'mp'
    shutil.copytree(folders['mpdocvqa', 'raw'], root)
    return root, json.loads((root / 'val.json').read_text())['data']


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(field=st.sampled_from(FIELDS), value=json_like)
def test_any_value_is_a_sample_or_a_data_error(field, value, fuzzed):
    root, records = fuzzed
    (root / 'val.json').write_text(json.dumps(dict(data=[{**records[0], field: value}, *records[1:]])))
    split = load('mpdocvqa', 'val', root=root, errors='skip')
    found = list(split)                                    # anything but a DataError would come through here
    assert len(found) + len(split.skipped) == 6 and len(split.skipped) <= 2


@pytest.fixture(scope='module')
def fuzzed_dude(folders, tmp_path_factory):
    root = tmp_path_factory.mktemp('fuzz') / 'dude'
    shutil.copytree(folders['dude', 'raw'], root)
    (path,) = root.glob('*.json')
    return root, path, json.loads(path.read_text())['data']


def test_a_box_beside_the_page_is_no_evidence(fuzzed_dude):
    root, path, records = fuzzed_dude
    box = dict(left=90_000, top=0, width=10, height=10, page=1)
    path.write_text(json.dumps(dict(data=[{**records[0], 'answers_page_bounding_boxes': [[box]]}])))
    (sample,) = load('dude', 'val', root=root)
    assert 'evidence_boxes' not in sample['meta']
