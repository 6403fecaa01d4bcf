// What the app computes, without a browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as logic from '../../cosee/app/assets/logic.mjs';

test('thumbnails hold what is in sight and a little more, however long it is', () => {
  assert.deepEqual(logic.cellsInSight(0, 800, 172, 1000), { first: 0, last: 7 });
  assert.deepEqual(logic.cellsInSight(86_000, 800, 172, 1000), { first: 498, last: 507 });
  assert.deepEqual(logic.cellsInSight(1e9, 800, 172, 1000), { first: 1000, last: 1000 });
  assert.deepEqual(logic.cellsInSight(0, 800, 172, 0), { first: 0, last: 0 });
  for (let at = 0; at < 172_000; at += 997) {
    const { first, last } = logic.cellsInSight(at, 800, 172, 1000);
    assert.ok(last - first <= 11);
  }
});

test('a wrong answer, or none, leads to what would help', () => {
  const start = { models: [{ name: 'qwen' }, { name: 'gemma' }, { name: 'ocr' }], advice: '' };
  const episode = { state: 'done', answer: '7', right: null, settings: {} };
  const wordsOf = (e, offered = start) =>
    logic.helpFor({ ...episode, ...e }, offered)?.steps.map(s => s.words);
  assert.equal(logic.helpFor(episode, start), null);
  assert.equal(wordsOf({ right: true }), undefined);
  assert.deepEqual(wordsOf({ right: false }), ['Ask gemma', 'Ask a team (several calls)']);
  assert.deepEqual(wordsOf({ answer: null, settings: { client: 'ocr', k: 6 } }), ['Ask qwen', 'Ask gemma']);
  assert.deepEqual(wordsOf({ state: 'failed', settings: { method: 'team' } }), ['Ask gemma']);
  assert.equal(logic.helpFor({ ...episode, state: 'running', answer: null }, start), null);
  const { steps } = logic.helpFor({ ...episode, right: false, settings: { client: 'ocr', k: 6 } }, start);
  assert.deepEqual(steps[0].settings, { client: 'qwen', k: 6, method: 'auto' });
  const voted = {
    ...episode,
    right: false,
    settings: { method: 'self_consistency', set: { num_samples: 5 } },
  };
  assert.ok(logic.helpFor(voted, start).steps.every(({ settings }) => !settings.set)); // of one method alone
  const alone = { models: [{ name: 'ocr' }], advice: 'cosee models fetch small' };
  const help = logic.helpFor({ ...episode, answer: null }, alone);
  assert.deepEqual(help.steps, []);
  assert.ok(help.said.includes('No model was asked') && help.said.endsWith('cosee models fetch small'));
});

test('scrolling brings a cell into sight by the shortest way', () => {
  assert.equal(logic.scrolledTo(0, 500, 800, 100), 0);
  assert.equal(logic.scrolledTo(7, 0, 800, 100), 0);
  assert.equal(logic.scrolledTo(9, 0, 800, 100), 200);
});

test('keys among thumbnails stay within the document', () => {
  const to = (key, page) => logic.pageByKey(key, page, 12);
  assert.deepEqual(
    ['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp', 'Home', 'End', 'x'].map(key => to(key, 5)),
    [6, 4, 12, 1, 1, 12, null],
  );
  assert.equal(to('ArrowUp', 1), 1);
  assert.equal(to('ArrowDown', 12), 12);
  assert.deepEqual(
    [logic.within(Number.NaN, 5), logic.within(99, 5), logic.within(-1, 5), logic.within(2.4, 5)],
    [1, 5, 1, 2],
  );
});

test('few pictures are held: those that are needed, and the last one that was', () => {
  assert.deepEqual(logic.heldPages([3, 4], []), [3, 4]);
  assert.deepEqual(logic.heldPages([5, 4], [3, 4]), [5, 4, 3]);
  assert.deepEqual(logic.heldPages([5, 5], [1, 2]), [5, 2]);
  assert.equal(logic.heldPages([1, 2, 3, 4, 5, 6], [7]).length, 4);
});

test('a picture is as large as it is shown, in few steps', () => {
  assert.equal(logic.sideFor([1000, 1000], 500), 1000);
  assert.equal(logic.sideFor([1000, 1414], 800), 1400);
  assert.equal(logic.sideFor([1000, 1414], 800, 3), 2400);
});

test('what is known of an episode follows from its events', () => {
  const events = [
    { kind: 'waiting', ahead: 2 },
    { kind: 'begun' },
    { kind: 'reading', done: 0, of: 5 },
    { kind: 'reading', done: 5, of: 5 },
    { kind: 'start', agent: 'scanner', step: 1, shown: [2, 4] },
    { kind: 'turn', agent: 'scanner', cell: { id: 1, view: { page: 4 } } },
    { kind: 'start', agent: 'x', step: 1, shown: [1, 2, 3, 4, 5] },
    { kind: 'turn', agent: 'x', cell: null, error: 'no action' },
    { kind: 'something new' },
    { kind: 'answer', episode: { page: 2 } },
    { kind: 'ended', state: 'done', error: '' },
  ];
  const seen = [];
  events.reduce((now, told) => {
    const next = logic.take(now, told);
    seen.push(next);
    return next;
  }, logic.QUIET);
  assert.deepEqual(
    seen.map(now => now.doing),
    [
      'waiting, 2 before it',
      'starting',
      'reading 5 pages',
      'reading 5 pages',
      'scanner is looking at pages 2, 4',
      'scanner is looking at pages 2, 4',
      'x is looking',
      'x is looking',
      'x is looking',
      'x is looking',
      '',
    ],
  );
  assert.deepEqual(
    seen.map(now => now.read),
    [null, null, 0, null, null, null, null, null, null, null, null],
  );
  assert.deepEqual(seen[4].looking, { agent: 'scanner', pages: [2, 4] });
  assert.deepEqual([seen[5].looking, seen[5].goto, seen[5].notes, seen[7].notes], [null, 4, 1, 1]);
  assert.deepEqual([seen.at(-1).state, seen.at(-1).goto], ['done', 2]);
  assert.equal(logic.QUIET.doing, ''); // nothing was changed in place
});

test('what is written is shown until it is a note or an answer', () => {
  const events = [
    { kind: 'begun' },
    { kind: 'start', agent: 'scanner', step: 1 },
    { kind: 'text', agent: 'scanner', at: 0, text: '{"act', preview: '' },
    { kind: 'text', agent: 'scanner', at: 5, text: '...', preview: '<b>1,250.00 EUR' },
    { kind: 'turn', agent: 'scanner', cell: null },
    { kind: 'text', agent: 'x', at: 0, text: 'It', preview: 'It' },
    { kind: 'ended', state: 'done' },
  ];
  const drafts = [];
  events.reduce((now, told) => {
    const next = logic.take(now, told);
    drafts.push(next.draft);
    return next;
  }, logic.QUIET);
  assert.deepEqual(drafts, ['', '', 'writing ...', '<b>1,250.00 EUR', '', 'It', '']);
});

test('agents have the colours that they have everywhere', () => {
  const others = [];
  const names = ['detail_reader', 'you', 'scanner', 'planner', 'you'];
  assert.deepEqual(
    names.map(name => logic.colourOf(name, others)),
    [1, 3, 0, 4, 3],
  );
});

test('a box by hand lies on the page, whichever way it was drawn', () => {
  assert.deepEqual(logic.boxBetween([0.5, 0.6], [0.1, 0.2]), [0.1, 0.2, 0.5, 0.6]);
  assert.deepEqual(logic.boxBetween([-1, 0.2], [0.5, 7]), [0, 0.2, 0.5, 1]);
  assert.equal(logic.boxBetween([0.5, 0.5], [0.501, 0.9]), null);
  const box = [0.3, 0.4, 0.5, 0.6];
  assert.deepEqual(logic.boxByKey(box, 'ArrowRight', false), [0.31, 0.4, 0.51, 0.6]);
  assert.deepEqual(logic.boxByKey(box, 'ArrowUp', true), [0.3, 0.4, 0.5, 0.59]);
  assert.deepEqual(logic.boxByKey([0.9, 0, 1, 0.1], 'ArrowRight', false), [0.9, 0, 1, 0.1]);
  assert.equal(logic.boxByKey(box, 'Enter', false), null);
});

test('only what differs from the usual is said', () => {
  const usual = {
    client: 'ocr',
    method: 'auto',
    agents: ['scanner', 'detail_reader'],
    order: 'sequential',
    focus: 'auto',
    max_steps: 3,
    max_tokens: null,
    k: 4,
    tools: false,
    set: {},
  };
  const fields = { ...usual, set: '', max_steps: '3', max_tokens: '', k: '4' };
  assert.deepEqual(logic.settingsOf(fields, usual), {});
  assert.deepEqual(logic.settingsOf({ ...fields, max_tokens: ' 5000 ', agents: ['scanner'] }, usual), {
    agents: ['scanner'],
    max_tokens: 5000,
  });
  const own = { num_samples: 5, reasons: false, accept: ['self_check', 'rules_first'], otherwise: 'team' };
  const typed = 'num_samples=5, reasons=false, accept=self_check+rules_first, otherwise=team';
  assert.deepEqual(logic.settingsOf({ ...fields, set: ` ${typed}, ` }, usual), { set: own });
  assert.equal(logic.ownSettingsInWords(own), typed);
  assert.deepEqual(logic.settingsOf({ ...fields, set: ' ' }, usual), {});
  assert.deepEqual(logic.ownSettings('num_samples, =3, a=constructor'), {
    num_samples: '',
    a: 'constructor',
  }); // the server says what it lacks
  assert.equal(logic.settingsInWords({}, usual), 'ocr');
  assert.equal(logic.settingsInWords({ method: 'team' }, usual), 'ocr, team of 2');
  assert.equal(logic.settingsInWords({ method: 'rules_first' }, usual), 'ocr, rules first');
  assert.equal(logic.settingsInWords({ method: 'escalate' }, usual), 'ocr, escalate');
  const said = { method: 'direct', max_tokens: 12_000, order: 'parallel' };
  assert.equal(logic.settingsInWords(said, usual), 'ocr, direct, 12,000 tokens at most');
});

test('two answers in a sentence', () => {
  const done = answer => ({ state: 'done', answer });
  assert.match(logic.pairInWords(done('19'), done(' 19. ')), /same answer/);
  assert.match(logic.pairInWords(done('19'), done('20')), /different/);
  assert.match(logic.pairInWords(done(null), done(null)), /no answer/);
  assert.match(logic.pairInWords(done('1'), { state: 'running' }), /being asked/);
  assert.match(logic.pairInWords(done('1'), { state: 'failed' }), /One/);
});

test('the address leads back, and an odd one nowhere', () => {
  const at = { document: 'a'.repeat(24), episode: 'b'.repeat(24), page: 7 };
  assert.deepEqual(logic.readAddress(logic.addressOf(at)), at);
  assert.deepEqual(logic.readAddress('#d=../../etc&e=<b>&p=x'), { document: '', episode: '', page: 1 });
  assert.equal(logic.addressOf({ document: '', episode: '', page: 1 }), '#');
});

test('two episodes about one document may be compared', () => {
  const [a, b, other] = [
    { id: '1', document: 'd' },
    { id: '2', document: 'd' },
    { id: '3', document: 'x' },
  ];
  assert.deepEqual(
    [[], [a], [a, b]].map(chosen => [a, b, other].map(e => logic.comparable(chosen, e))),
    [
      [true, true, true],
      [false, true, false],
      [false, false, false],
    ],
  );
});

test('the history in words', () => {
  assert.equal(logic.answerInWords({ state: 'done', answer: null }), 'Not answerable from these pages');
  assert.equal(logic.answerInWords({ state: 'done', answer: null, fault: 'budget' }), 'No answer');
  const guess = { state: 'done', answer: null, guess: '42 EUR' };
  assert.equal(logic.answerInWords(guess), 'Withheld; the guess is: 42 EUR');
  assert.equal(logic.answerInWords({ state: 'failed', error: 'ValueError: no' }), 'failed: no');
  assert.equal(logic.answerInWords({ state: 'stopped', error: 'stopped: by hand' }), 'stopped');
  assert.equal(logic.costInWords({ usage: { total_tokens: 1234 }, seconds: 2.25 }), '1,234 tokens, 2.3 s');
  assert.equal(logic.costInWords({}), '');
  assert.equal(logic.costInWords({ usage: { total_tokens: 1234 }, cost: 0.0035 }), '1,234 tokens, $0.0035');
  assert.deepEqual(
    [0, 2.5, null].map(cost => logic.moneyInWords({ cost })),
    ['', '$2.50', ''],
  );
  assert.equal(logic.costInWords({ usage: { total_tokens: 0, calls: 2 } }), 'no model');
  const read = { pages: 2, kept: 1, total_tokens: 4075 };
  assert.equal(
    logic.costInWords({ usage: { total_tokens: 12 }, reading: read }),
    '12 tokens, 2 pages written down for 4,075 tokens, 1 page kept for none',
  );
  assert.equal(logic.readingInWords({ reading: { pages: 0, kept: 1 } }), '1 page kept for none');
  const now = new Date('2026-03-02T10:00:00');
  assert.equal(logic.timeInWords('2026-03-02T09:05:00', now), '09:05');
  assert.equal(logic.timeInWords('2026-03-01T09:05:00', now), '1 Mar 2026');
  assert.equal(logic.timeInWords('never', now), '');
  const tests = logic.MARKS.map(([, , test]) => test({ right: null }));
  assert.deepEqual(tests, [true, false, false, true]);
});
