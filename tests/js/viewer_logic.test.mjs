// The logic of the run viewer without a browser: `node --test tests/js/*.test.mjs`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as logic from '../../cosee/runs/assets/viewer_logic.mjs';
import * as words from '../../cosee/view/assets/words.mjs';

// Answers as [sample, method, answer, score, tokens]; a score of null was not given, 'failed' is a failure, and so are
// 'silent' and 'not asked'.
function runOf(answers, more = {}) {
  const ids = [...new Set(answers.map(([s]) => s))];
  const methods = [...new Set(answers.map(([, m]) => m))];
  const scores = answers.map(([, , , score]) => (typeof score === 'string' ? 0 : score));
  const rows = {
    s: answers.map(([s]) => ids.indexOf(s)),
    m: answers.map(([, m]) => methods.indexOf(m)),
    key: answers.map((_, i) => `k${i}`),
    answer: answers.map(([, , text]) => text),
    outcome: answers.map(([, , , score]) => (typeof score === 'string' ? score : 'answered')),
    scores: [scores],
    tokens: answers.map(([, , , , tokens]) => tokens ?? null),
    calls: answers.map(() => 1),
    seconds: answers.map(() => null),
  };
  const samples = {
    id: ids,
    question: ids.map(id => `What is ${id}?`),
    gold: ids.map(() => 'Zürich'),
    doc: ids.map(() => 'report.pdf'),
    facets: [ids.map((_, s) => s % 2)],
  };
  return logic.indexed({ rows, samples, methods, facets: [['kind', ['form', 'letter']]], ...more });
}

const small = () =>
  runOf([
    ['q1', 'direct', 'Bern', 0, 100],
    ['q1', 'team', 'Zürich', 1, 300],
    ['q2', 'direct', 'Zürich', 1, 100],
    ['q2', 'team', '', 'failed', 200],
    ['q3', 'direct', 'Basel', null, 100],
    ['q3', 'team', 'zürich', 0.5, 100],
    ['q10', 'direct', 'Bern', 0.4, 50],
  ]);
const state = change => ({ ...logic.START, ...change });
const columns = [
  { key: 'score', get: i => small().score[i], num: true },
  { key: 'answer', get: i => small().rows.answer[i] },
];

test('the address keeps the state, and holds only what is not as at the start', () => {
  const changed = state({ view: 'pair', q: 'a b&c=d#é', size: '50', sort: '-tokens' });
  assert.deepEqual(logic.readState(logic.addressOf(changed), 2), changed);
  assert.equal(logic.addressOf(state({})), '#');
});

test('an odd address leads to the start', () => {
  const odd = '#view=nothing&size=7&evil=1&__proto__=x&constructor=y&toString=z';
  assert.deepEqual(logic.readState(odd, 3), state({}));
  assert.equal(logic.readState('#view=pair', 1).view, 'answers');
  assert.equal(logic.readState('#view=constructor', 2).view, 'answers');
});

test('a score is right from 0.5 on; failed and not scored are neither', () => {
  const run = small();
  const results = run.rows.s.map((_, i) => logic.resultOf(run, i));
  assert.deepEqual(results, ['wrong', 'right', 'right', 'error', 'none', 'right', 'wrong']);
  assert.equal(logic.resultOf(run, -1), 'none');
  assert.equal(logic.isWrong(run, -1) || logic.isRight(run, -1), false);
});

test('what nothing came of is neither right nor wrong, and is counted and chosen apart', () => {
  const run = runOf([
    ['q1', 'team', '', 'silent'],
    ['q1', 'direct', '7', 1],
    ['q2', 'team', '', 'not asked'],
    ['q2', 'direct', '8', 0],
    ['q3', 'team', '', 'failed'],
  ]);
  const results = run.rows.s.map((_, i) => logic.resultOf(run, i));
  assert.deepEqual(results, ['silent', 'right', 'silent', 'wrong', 'error']);
  const { count, silent, errors } = logic.summaryOf(run, [0, 1, 2, 3, 4], 0);
  assert.deepEqual([count, silent, errors], [3, 2, 1]);
  const keys = (view, of) => logic.choicesOf(of, state({ view })).map(([key]) => key);
  assert.deepEqual(keys('answers', run), ['', 'wrong', 'right', 'silent', 'error']);
  assert.deepEqual(keys('answers', small()), ['', 'wrong', 'right', 'error']);
  const test = logic.choicesOf(run, state({ view: 'questions' })).find(([key]) => key === 'silent')[2];
  assert.deepEqual([0, 1, 2].filter(test), [0, 1]);
});

test('all words of a search have to be found, in the answer or in the sample, in any case', () => {
  const run = small();
  const found = q => logic.passing(run, state({ q }));
  assert.deepEqual(found('BERN'), [0, 6]);
  assert.deepEqual(found('  bern   Q10 '), [6]);
  assert.deepEqual(found('zürich q1?'), [0, 1]);
  assert.deepEqual(found('nowhere'), []);
  assert.equal(found('').length, 7);
});

test('a part of the data; an unknown facet lets all pass, an unknown value nothing', () => {
  const run = small();
  const part = group => logic.samplesOf(run, logic.passing(run, state({ group })));
  assert.deepEqual(part('kind=form'), [0, 2]);
  assert.deepEqual(part('kind=letter'), [1, 3]);
  assert.deepEqual(part('kind=novel'), []);
  assert.equal(part('shape=round').length, 4);
  assert.equal(part('=form').length, 4);
});

test('the choices of each view', () => {
  const run = small();
  const chosen = (view, only, items) => {
    const choices = logic.choicesOf(run, state({ view, a: 'direct', b: 'team' }));
    return items.filter(choices.find(([key]) => key === only)[2]);
  };
  assert.deepEqual(chosen('answers', 'wrong', [0, 1, 2, 3, 4, 5, 6]), [0, 3, 6]);
  assert.deepEqual(chosen('answers', 'error', [0, 1, 2, 3, 4, 5, 6]), [3]);
  assert.deepEqual(chosen('questions', 'parted', [0, 1, 2, 3]), [0, 1]);
  assert.deepEqual(chosen('questions', 'none', [0, 1, 2, 3]), [3]);
  assert.deepEqual(chosen('questions', 'error', [0, 1, 2, 3]), [1]);
  assert.deepEqual(chosen('pair', 'a', [0, 1]), [1]);
  assert.deepEqual(chosen('pair', 'b', [0, 1]), [0]);
});

test('a pair is the first and the last method, unless others are named', () => {
  const run = runOf([
    ['q', 'x', '', 1],
    ['q', 'y', '', 1],
    ['q', 'z', '', 1],
  ]);
  const pair = (a, b) => logic.pairOf(run, state({ a, b }));
  assert.deepEqual(pair('', ''), [0, 2]);
  assert.deepEqual(pair('z', ''), [2, 0]);
  assert.deepEqual(pair('y', 'y'), [1, 1]);
  assert.deepEqual(pair('gone', 'y'), [0, 1]);
});

test('a pair is compared on what both have and can be scored', () => {
  const run = small();
  const both = logic.sharedBy(run, [0, 1], [...run.rows.s.keys()]);
  assert.deepEqual(both, [0, 1]);
  assert.deepEqual(logic.compared(run, [0, 1], both), { scores: [50, 50], tokens: [100, 250] });
  assert.equal(logic.gapOf(run, [0, 1], 0), 1);
  const list = logic.select(run, state({ view: 'pair' }), []).list;
  assert.deepEqual(list, [0, 1]); // equal gaps keep the order of the data
});

test('sorting: numbers by size, words by their numbers, equals as they came, what is missing last', () => {
  const order = (values, down) =>
    logic.sortedBy([...values.keys()], i => values[i], down).map(i => values[i]);
  assert.deepEqual(order([3, null, -1, 10]), [-1, 3, 10, null]);
  assert.deepEqual(order([3, null, -1, 10], true), [10, 3, -1, null]);
  assert.deepEqual(order(['q10', 'Q2', '', 'a']), ['a', 'Q2', 'q10', '']);
  assert.deepEqual(
    logic.sortedBy([2, 0, 1], () => 7, true),
    [0, 1, 2],
  );
  const items = [2, 1];
  logic.sortedBy(items, i => i);
  assert.deepEqual(items, [2, 1]); // the list that is given stays as it is
});

test('wrong answers stand first, unless a column is chosen', () => {
  const run = small();
  const list = change => logic.select(run, state(change), columns).list;
  assert.deepEqual(list({}), [0, 3, 6, 5, 1, 2, 4]);
  assert.deepEqual(list({ sort: '-score' }), [1, 2, 5, 6, 0, 3, 4]);
  assert.deepEqual(list({ sort: 'answer', method: 'direct' }), [4, 0, 6, 2]);
  assert.deepEqual(list({ only: 'right' }), [5, 1, 2]);
  assert.deepEqual(list({ method: 'gone' }), []);
  assert.equal(list({ only: 'nothing' }).length, 7);
});

test('a click on a head: numbers from above, words from A, then the other way, then as at the beginning', () => {
  const turn = (column, sort) => logic.nextSort(state({ view: 'pair', sort }), column);
  const [number, word] = [{ key: 'n', num: true }, { key: 'w' }];
  assert.deepEqual(
    ['', '-n', 'n'].map(sort => turn(number, sort)),
    ['-n', 'n', ''],
  );
  assert.deepEqual(
    ['', 'w', '-w'].map(sort => turn(word, sort)),
    ['w', '-w', ''],
  );
  assert.equal(turn({ key: 'n', num: true, up: true }, ''), 'n');
  // Answers begin sorted by score from below: the first click on it turns that round.
  assert.equal(logic.nextSort(state({}), { key: 'score' }), '-score');
});

test('means leave out what is missing, and a best that most have is none', () => {
  assert.equal(logic.mean([1, null, undefined, 3]), 2);
  assert.equal(logic.mean([null]), null);
  assert.equal(logic.topOf([0.2, 0.9, null]), 0.9);
  assert.equal(logic.topOf([0.9, 0.9, 0.1]), null);
  const run = small();
  const { count, scores, wrong, errors, tokens, seconds } = logic.summaryOf(run, [0, 1, 2, 3, 4, 5, 6], 1);
  assert.deepEqual([count, scores, wrong, errors, tokens, seconds], [3, [0.5], 1, 1, 200, null]);
});

test('pages of the table', () => {
  const page = (at, length) => logic.pageOf(state({ page: at, size: '50' }), length);
  assert.deepEqual(
    [page('1', 0), page('9', 101), page('-3', 101), page('x', 101), page('2.7', 101)],
    [1, 3, 1, 1, 2],
  );
});

test('one goes through the list, or through the answers of the method', () => {
  const run = small();
  assert.deepEqual(logic.trailOf(run, state({}), [4, 0], 0), [4, 0]);
  assert.deepEqual(logic.trailOf(run, state({ view: 'questions' }), [3, 0, 1], 1), [1, 3]);
  assert.deepEqual(logic.rightOf(run, 2), { right: 1, scored: 1 });
});

test('numbers in words', () => {
  assert.deepEqual([words.inWords(1234.5, 1), words.inWords(null), words.inWords(0)], ['1,234.5', '', '0']);
  assert.deepEqual([words.plural(1, 'answer'), words.plural(1000, 'answer')], ['1 answer', '1,000 answers']);
});
