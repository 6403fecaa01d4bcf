"Any samples, written as a data set is published: the folders, names and fields of the true files."
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Optional, Union

from PIL.Image import Image

from cosee.utils.boxes import pixel_box, placed
from cosee.datasets.records import Record
from cosee.datasets.sample import Sample
from cosee.datasets.submissions import official_golds
from cosee.utils.text import means_none


def _jpeg(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, 'JPEG', quality=90)
    return buffer.getvalue()


def _put(path: Path, data: bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _put_json(path: Path, data: Union[Record, list[Record]]): _put(path, json.dumps(data, ensure_ascii=False).encode())


def _put_lines(path: Path, records: Iterable[Record]):
    _put(path, ''.join(json.dumps(r, ensure_ascii=False) + '\n' for r in records).encode())


def _put_parquet(path: Path, rows: list[Record]):
    import pyarrow as pa
    import pyarrow.parquet as pq
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def _doc(sample: Sample) -> str: return str(sample['meta'].get('doc_id', 'doc')).replace('/', '_')


def _answers(sample: Sample) -> list[str]:
    return [sample['answer']] if isinstance(sample['answer'], str) else list(sample['answer'])


def _page(sample: Sample) -> int: return (sample['meta'].get('evidence_pages') or [1])[0]


def _page_image(sample: Sample) -> Image: return sample['images'][_page(sample) - 1]


def _image_cell(image: Image) -> Record: return dict(bytes=_jpeg(image), path=None)


def _page_cells(name: str, sample: Sample) -> dict[str, Optional[Record]]:
    "A column for each of twenty pages, empty behind the last"
    images = sample['images']
    return {f'{name}_{i}': _image_cell(images[i - 1]) if i <= len(images) else None for i in range(1, 21)}


Numbered = Sequence[tuple[int, Sample]]         # samples with a running number
Writer = Callable[[Numbered, Path, str], None]  # of samples, into a folder, as a split

WRITERS: dict[tuple[str, str], Writer] = {}     # by data set and layout


def writer(
    name: str, # data set, e.g. 'mpdocvqa'
    kind: str  # 'raw' or 'hub'
) -> Callable[[Writer], Writer]:
    "Decorator: registers a writer of a data set in a layout."
    def add(write: Writer) -> Writer:
        WRITERS[name, kind] = write
        return write
    return add


@writer('mpdocvqa', 'raw')
def _mpdocvqa_raw(samples: Numbered, root: Path, split: str):
    "A JSON file for the split, and the pages as JPEG"
    records = []
    for n, s in samples:
        ids = [f'{_doc(s)}_p{i}' for i in range(len(s['images']))]
        for page_id, image in zip(ids, s['images'], strict=True): _put(root / f'images/{page_id}.jpg', _jpeg(image))
        record = dict(questionId=n, question=s['question'], doc_id=_doc(s), page_ids=ids, data_split=split)
        if split != 'test': record.update(answers=_answers(s), answer_page_idx=_page(s) - 1)
        records.append(record)
    _put_json(root / f'{split}.json',
              dict(dataset_name='MP-DocVQA', dataset_split=split, dataset_version='1.0', data=records))


@writer('mpdocvqa', 'hub')
def _mpdocvqa_hub(samples: Numbered, root: Path, split: str):
    "Parquet with lists as text and the pages in twenty columns"
    rows = []
    for n, s in samples:
        ids = [f'{_doc(s)}_p{i}' for i in range(len(s['images']))]
        answers, page = (str(_answers(s)), str(_page(s) - 1)) if split != 'test' else (None, None)
        rows.append(dict(
            questionId=str(n), question=s['question'], doc_id=_doc(s), page_ids=str(ids), answers=answers,
            answer_page_idx=page, data_split=split, **_page_cells('image', s)))
    _put_parquet(root / f'data/{split}-00000-of-00001.parquet', rows)


def _slide_record(n: int, s: Sample) -> Record:
    return dict(
        deck_name=_doc(s), deck_url=f'https://example.org/{_doc(s)}', qa_id=n, question=s['question'],
        answer=_answers(s)[0], arithmetic_expression='None', evidence_pages=s['meta'].get('evidence_pages') or [1],
        reasoning_type='Single-hop', answer_type='Single-span')


def _slide_boxes(s: Sample) -> list[tuple[int, list[Record]]]:
    "(page, boxes) as SlideVQA has them: [x, y, width, height] in pixels"
    out = []
    for number, evidence in enumerate(s['meta'].get('evidence_boxes', [])):
        page = evidence['page']
        bbox = list(placed(evidence['bbox'], s['images'][page - 1].size))
        out.append((page, [{'bbox_id': number, 'class': 'Page-text', 'bbox': bbox}]))
    return out


def _slide_urls(s: Sample) -> list[str]:
    return [f'https://example.org/{_doc(s)}/{_doc(s)}-{i}-1024.jpg' for i in range(1, len(s['images']) + 1)]


@writer('slidevqa', 'raw')
def _slidevqa_raw(samples: Numbered, root: Path, split: str):
    "Lines of JSON for questions and for boxes, and a folder of JPEG files for each deck"
    split, qa, decks = 'dev' if split == 'val' else split, [], {}
    for n, s in samples:
        urls, folder = _slide_urls(s), root / f'images/{split}/{_doc(s)}'
        for url, image in zip(urls, s['images'], strict=True): _put(folder / url.rsplit('/', 1)[-1], _jpeg(image))
        qa.append({**_slide_record(n, s), 'image_urls': urls})
        deck = dict(deck_name=_doc(s), deck_url='', image_urls=urls, category='made', bboxes=[])
        decks.setdefault(_doc(s), deck)['bboxes'] += _slide_boxes(s)
    _put_lines(root / f'annotations/qa/{split}.jsonl', qa)
    _put_lines(root / f'annotations/bbox/{split}.jsonl', decks.values())


@writer('slidevqa', 'hub')
def _slidevqa_hub(samples: Numbered, root: Path, split: str):
    "Parquet with the pages in twenty columns"
    rows = [{**_slide_record(n, s), **_page_cells('page', s)} for n, s in samples]
    _put_parquet(root / f'data/{split}-00000-of-00001.parquet', rows)


def _dude_boxes(s: Sample) -> list[list[Record]]:
    "A list for each box of the evidence, in pixels"
    out = []
    for evidence in s['meta'].get('evidence_boxes', []):
        x0, y0, x1, y1 = pixel_box(evidence['bbox'], s['images'][evidence['page'] - 1].size)
        box = dict(left=round(x0), top=round(y0), width=round(x1 - x0), height=round(y1 - y0))
        out.append([dict(page=evidence['page'], **box)])
    return out


def _dude_record(n: int, s: Sample, split: str) -> Record:
    answers = [a for a in _answers(s) if not means_none(a)]
    return dict(
        questionId=f'{_doc(s)}_{n}', question=s['question'], answers=answers, answers_variants=[],
        docId=_doc(s), data_split=split, answers_page_bounding_boxes=_dude_boxes(s),
        answer_type='extractive' if answers else 'not-answerable')


@writer('dude', 'raw')
def _dude_raw(samples: Numbered, root: Path, split: str):
    "One JSON file for all splits, and the pages as JPEG"
    for _, s in samples:
        for i, image in enumerate(s['images']): _put(root / f'images/{split}/{_doc(s)}_{i}.jpg', _jpeg(image))
    records = [_dude_record(n, s, split) for n, s in samples]
    _put_json(root / '2023-03-23_DUDE_gt.json', dict(dataset_name='DUDE Dataset', dataset_version='0.1', data=records))


def _images_as_pdf(images: Iterable[Image]) -> bytes:
    buffer, (first, *rest) = io.BytesIO(), [image.convert('RGB') for image in images]
    first.save(buffer, 'PDF', save_all=True, append_images=rest, resolution=200)
    return buffer.getvalue()


def _mmlongbench_record(s: Sample) -> Record:
    none = means_none(_answers(s)[0])
    return dict(
        doc_id=f'{_doc(s)}.pdf', doc_type='made', question=s['question'], answer_format='None' if none else 'Str',
        answer='Not answerable' if none else _answers(s)[0],
        evidence_pages=str(s['meta'].get('evidence_pages', [])), evidence_sources="['Pure-text (Plain-text)']")


@writer('mmlongbench', 'raw')
def _mmlongbench_raw(samples: Numbered, root: Path, split: str):
    "One JSON file with lists as text, and the documents as PDF"
    for _, s in samples: _put(root / f'data/documents/{_doc(s)}.pdf', _images_as_pdf(s['images']))
    _put_json(root / 'data/samples.json', [_mmlongbench_record(s) for _, s in samples])


def _one_page_record(n: int, s: Sample, split: str) -> Record:
    known = {} if split == 'test' else dict(answers=_answers(s))
    return dict(questionId=n, question=s['question'], data_split=split, **known)


def _png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, 'PNG')
    return buffer.getvalue()


@writer('docvqa', 'raw')
def _docvqa_raw(samples: Numbered, root: Path, split: str):
    "A JSON file for the split, and the pages as PNG"
    records = []
    for n, s in samples:
        name = f'{_doc(s)}_{_page(s)}.png'
        _put(root / 'spdocvqa_images' / name, _png(_page_image(s)))
        source = dict(image=f'documents/{name}', docId=n, ucsf_document_id=_doc(s),
                      ucsf_document_page_no=str(_page(s)))
        records.append({**_one_page_record(n, s, split), **source})
    _put_json(root / f'{split}_v1.0_withQT.json', dict(dataset_name='SP-DocVQA', dataset_split=split, data=records))


def _one_page_hub(samples: Numbered, root: Path, split: str):
    "Parquet with the page in a column"
    name = 'validation' if split == 'val' else split
    rows = [{**_one_page_record(n, s, split), 'questionId': str(n), 'image': _image_cell(_page_image(s)), 'docId': n}
            for n, s in samples]
    _put_parquet(root / f'{name}-00000-of-00001.parquet', rows)


@writer('docvqa', 'hub')
def _docvqa_hub(samples: Numbered, root: Path, split: str):
    "Parquet with the page in a column, in a folder of its name"
    _one_page_hub(samples, root / 'DocVQA', split)


@writer('infographicvqa', 'raw')
def _infographicvqa_raw(samples: Numbered, root: Path, split: str):
    "A JSON file for the split, and the pages as JPEG"
    records = []
    for n, s in samples:
        name = f'{n}.jpeg'
        _put(root / f'infographicsvqa_images/{name}', _jpeg(_page_image(s)))
        source = dict(image_local_name=name, image_url=f'https://example.org/{name}')
        records.append({**_one_page_record(n, s, split), **source})
    _put_json(root / f'infographicsVQA_{split}_v1.0_withQT.json',
              dict(dataset_name='InfographicVQA', dataset_split=split, data=records))


@writer('infographicvqa', 'hub')
def _infographicvqa_hub(samples: Numbered, root: Path, split: str):
    "Parquet as that of DocVQA, in a folder of its own"
    _one_page_hub(samples, root / 'InfographicVQA', split)


@writer('chartqapro', 'hub')
def _chartqapro_hub(samples: Numbered, root: Path, split: str):
    "Parquet with questions, answers and years in lists"
    fixed = {'Question Type': 'Factoid', 'Year': ['NO'], 'Paragraph': ''}
    rows = [{'Question': [s['question']], 'Answer': _answers(s)[:1], **fixed, 'image': _jpeg(_page_image(s))}
            for _, s in samples]
    _put_parquet(root / 'data/test-00000-of-00001.parquet', rows)


@writer('docvqa2026', 'hub')
def _docvqa2026_hub(samples: Numbered, root: Path, split: str):
    "Parquet with a row for each document, and its questions and answers in lists"
    documents: dict[str, list[tuple[str, Sample]]] = {}
    for n, s in samples: documents.setdefault(_doc(s), []).append((f'{_doc(s)}_q{n}', s))
    rows = []
    for doc, asked in documents.items():
        ids, pages = [i for i, _ in asked], [_image_cell(image) for image in asked[0][1]['images']]
        known = official_golds('docvqa2026', [_answers(s)[0] for _, s in asked])
        answers = dict(question_id=ids, answer=known) if split != 'test' else None
        questions = dict(question_id=ids, question=[s['question'] for _, s in asked])
        rows.append(dict(doc_id=doc, doc_category='made', document=pages, questions=questions, answers=answers))
    _put_parquet(root / f'{split}.parquet', rows)


def write_layout(
    name: str,                # data set, e.g. 'mpdocvqa'
    samples: Iterable[Sample],# samples to write
    root: Union[str, Path],   # folder to write into; made if missing
    kind: str = 'raw',        # 'raw' as the owners publish it, 'hub' as parquet
    split: str = 'val'        # name of the split
) -> Path:                    # `root`, ready for `load`
    "Writes `samples` as files of data set `name`; an unknown layout raises ValueError."
    if (name, kind) not in WRITERS:
        raise ValueError(f"no layout {name!r}, {kind!r}: choose from {', '.join('/'.join(k) for k in WRITERS)}")
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    WRITERS[name, kind](list(enumerate(samples, 1)), root, split)
    return root
