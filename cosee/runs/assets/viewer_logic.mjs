// What the run viewer computes: filters, order, pairs and means of the answers of a run. No function here touches
// the page, so that each can be tested without a browser. Rows, samples and methods are known by their numbers.
import { holdsAll, wordsOf } from '../../view/assets/words.mjs';

// -- The state in the address
export const START = {
  view: 'answers',
  q: '',
  method: '',
  group: '',
  only: '',
  sort: '',
  page: '1',
  size: '100',
  a: '',
  b: '',
  open: '',
};
export const VIEWS = { answers: 'Answers', questions: 'By question', pair: 'A against B' };
export const SIZES = ['50', '100', '500'];

// The state that stands behind `#`. A name that is unknown there is passed over, and a view that does not exist
// (or needs two methods where there is one) becomes the first.
export function readState(hash, methods) {
  const parts = [...new URLSearchParams(hash.replace(/^#/, ''))];
  const known = parts.filter(([name]) => Object.hasOwn(START, name));
  const state = { ...START, ...Object.fromEntries(known) };
  const needsTwo = state.view !== 'answers';
  if (!Object.hasOwn(VIEWS, state.view) || (needsTwo && methods < 2)) state.view = START.view;
  if (!SIZES.includes(state.size)) state.size = START.size;
  return state;
}

// The address of a state: only what differs from the start.
export function addressOf(state) {
  const changed = Object.entries(state).filter(([name, value]) => value !== START[name]);
  return `#${new URLSearchParams(changed)}`;
}

// -- The data
// Data come as columns. A row is an answer: it names its sample and its method by number.
export function indexed(data) {
  const { rows, samples, methods } = data;
  const cells = new Int32Array(samples.id.length * methods.length).fill(-1);
  const at = new Map();
  for (let i = 0; i < rows.s.length; i++) {
    cells[rows.s[i] * methods.length + rows.m[i]] = i;
    at.set(rows.key[i], i);
  }
  return {
    data,
    rows,
    samples,
    methods,
    at, // key -> row
    score: rows.scores[0] ?? rows.s.map(() => null),
    of: (s, m) => cells[s * methods.length + m], // row of a sample and a method, or -1
    texts: null, // made by the first search
  };
}

// -- Right and wrong
// A score is right from 0.5 on. -1 stands for an answer that is not there.
const isScored = (run, i) => i >= 0 && run.score[i] !== null;
export const isRight = (run, i) => isScored(run, i) && run.score[i] >= 0.5;
export const isWrong = (run, i) => isScored(run, i) && run.score[i] < 0.5;
const isFailed = (run, i) => i >= 0 && run.rows.outcome[i] === 'failed';
export const isSilent = (run, i) => i >= 0 && ['silent', 'not asked'].includes(run.rows.outcome[i]);
const silentRows = run => run.rows.s.filter((_, i) => isSilent(run, i)).length;

// What failed, and what nothing came of, is neither a right answer nor a wrong one, though it scores 0.
export function resultOf(run, i) {
  if (isFailed(run, i)) return 'error';
  if (isSilent(run, i)) return 'silent';
  if (!isScored(run, i)) return 'none';
  return isRight(run, i) ? 'right' : 'wrong';
}

// -- Search and filters
// Texts are searched without regard to case; they are prepared when a search first asks for them.
function textsOf(run) {
  const { id, question, gold, doc } = run.samples;
  run.texts ??= {
    rows: run.rows.answer.map(answer => String(answer).toLowerCase()),
    samples: id.map((name, s) => [name, question[s], gold[s], doc[s]].join('\n').toLowerCase()),
  };
  return run.texts;
}

// Whether a sample lies in a part of the data, which is named `facet=value`. A facet that does not exist lets all
// samples pass, a value that does not exist none.
function partTest(run, group) {
  const { facets } = run.data;
  const cut = group.indexOf('=');
  const f = facets.findIndex(([name]) => cut > 0 && name === group.slice(0, cut));
  if (f < 0) return () => true;
  const value = facets[f][1].indexOf(group.slice(cut + 1));
  return s => value >= 0 && run.samples.facets[f][s] === value;
}

// Rows that pass the search (all words have to be found) and lie in the part of the data.
export function passing(run, state) {
  const words = wordsOf(state.q);
  const texts = words.length ? textsOf(run) : null;
  const found = i => holdsAll(words, texts.rows[i], texts.samples[run.rows.s[i]]);
  const inPart = partTest(run, state.group);
  const rows = [];
  for (let i = 0; i < run.rows.s.length; i++) {
    if (inPart(run.rows.s[i]) && (!words.length || found(i))) rows.push(i);
  }
  return rows;
}

// -- Answers to a question
export const samplesOf = (run, rows) => [...new Set(rows.map(i => run.rows.s[i]))];
export const answersTo = (run, s) => run.methods.map((_, m) => run.of(s, m)).filter(i => i >= 0);
const some = (run, s, test) => answersTo(run, s).some(i => test(run, i));

// The share of right answers among those that have a score.
export function rightOf(run, s) {
  const scored = answersTo(run, s).filter(i => isScored(run, i));
  return { right: scored.filter(i => isRight(run, i)).length, scored: scored.length };
}

// -- Two methods
// The methods A and B; a name that is missing or unknown means the first and the last.
export function pairOf(run, state) {
  const last = run.methods.length - 1;
  const find = (name, other) => (run.methods.includes(name) ? run.methods.indexOf(name) : other);
  const a = find(state.a, 0);
  return [a, find(state.b, a === last ? 0 : last)];
}

// Two methods are compared on the questions that both have and that can be scored.
export function sharedBy(run, [a, b], rows) {
  const both = s => isScored(run, run.of(s, a)) && isScored(run, run.of(s, b));
  return samplesOf(run, rows).filter(both);
}

export const gapOf = (run, [a, b], s) => (run.score[run.of(s, b)] ?? 0) - (run.score[run.of(s, a)] ?? 0);

// -- What the buttons choose
// A choice is [key, name, test of an item]; the items of a view are rows, or samples.
const ANSWERS = [
  ['', 'All', () => true],
  ['wrong', 'Wrong', isWrong],
  ['right', 'Right', isRight],
  ['silent', 'No answer', isSilent],
  ['error', 'Errors', isFailed],
];
const QUESTIONS = [
  ['', 'All', () => true],
  ['wrong', 'Some wrong', (run, s) => some(run, s, isWrong)],
  ['parted', 'Methods part', (run, s) => some(run, s, isRight) && some(run, s, isWrong)],
  ['none', 'None right', (run, s) => some(run, s, isWrong) && !some(run, s, isRight)],
  ['silent', 'No answer', (run, s) => some(run, s, isSilent)],
  ['error', 'Errors', (run, s) => some(run, s, isFailed)],
];
const SQUARE = [
  ['both', 'both right', (x, y) => x && y],
  ['a', 'only A', (x, y) => x && !y],
  ['b', 'only B', (x, y) => !x && y],
  ['neither', 'both wrong', (x, y) => !x && !y],
];

export function choicesOf(run, state) {
  if (state.view === 'pair') {
    const [a, b] = pairOf(run, state);
    const right = (s, m) => isRight(run, run.of(s, m));
    return SQUARE.map(([key, name, test]) => [key, name, s => test(right(s, a), right(s, b))]);
  }
  const all = state.view === 'answers' ? ANSWERS : QUESTIONS;
  const choices = all.filter(([key]) => key !== 'silent' || silentRows(run));
  return choices.map(([key, name, test]) => [key, name, item => test(run, item)]);
}

// -- Means
// The mean of what is there; null where nothing is.
export function mean(values) {
  const there = values.filter(x => x !== null && x !== undefined);
  return there.length ? there.reduce((sum, x) => sum + x, 0) / there.length : null;
}

// The best of the values; null if more than half of them have it, because then it tells nothing.
export function topOf(values) {
  const top = Math.max(...values.map(x => x ?? -1));
  return values.filter(x => x === top).length > values.length / 2 ? null : top;
}

// The line of a method in the table of methods, over the rows that pass.
export function summaryOf(run, rows, m) {
  const mine = rows.filter(i => run.rows.m[i] === m);
  const meanOf = column => mean(mine.map(i => column[i]));
  return {
    count: mine.length,
    scores: run.rows.scores.map(meanOf),
    wrong: mine.filter(i => isWrong(run, i)).length,
    silent: mine.filter(i => isSilent(run, i)).length,
    errors: mine.filter(i => isFailed(run, i)).length,
    tokens: meanOf(run.rows.tokens),
    calls: meanOf(run.rows.calls),
    seconds: meanOf(run.rows.seconds),
  };
}

// Scores (in points) and tokens of both methods over the questions that they share.
export function compared(run, pair, both) {
  const meanOf = column => pair.map(m => mean(both.map(s => column[run.of(s, m)])));
  return { scores: meanOf(run.score).map(x => 100 * x), tokens: meanOf(run.rows.tokens) };
}

// -- Sorting
const FIRST = { answers: 'score', questions: 'right' };
const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const isMissing = value => value === null || value === undefined || value === '';

// Items by what `get` says of them. Equals keep the order of the data set, and what is missing stands last,
// whichever way.
export function sortedBy(items, get, down = false) {
  const keys = new Map(items.map(item => [item, get(item)]));
  const isText = items.some(item => typeof keys.get(item) === 'string');
  const order = isText ? collator.compare : (x, y) => x - y;
  return [...items].sort((x, y) => {
    const [u, v] = [keys.get(x), keys.get(y)];
    if (isMissing(u) || isMissing(v)) return isMissing(u) - isMissing(v) || x - y;
    return (down ? -1 : 1) * order(u, v) || x - y;
  });
}

// Items in the order of the state: by a column, or as the view begins (wrong ones first; where two methods part
// most first).
export function sorted(run, state, items, columns) {
  const column = columns.find(c => c.key === state.sort.replace(/^-/, ''));
  if (column) return sortedBy(items, column.get, state.sort.startsWith('-'));
  if (state.view === 'pair') return sortedBy(items, s => Math.abs(gapOf(run, pairOf(run, state), s)), true);
  const start = columns.find(c => c.key === FIRST[state.view]);
  return sortedBy(items, start.get, state.sort.startsWith('-'));
}

// How the table is sorted; in the view of two methods no column says it at first.
export const shownSort = state => state.sort || FIRST[state.view];

// What a click on the head of a column leads to: first numbers from above and words from A, then the other way,
// then as at the beginning.
export function nextSort(state, column) {
  const up = !column.num || column.up;
  const turns = up ? [column.key, `-${column.key}`, ''] : [`-${column.key}`, column.key, ''];
  return turns[(turns.indexOf(shownSort(state)) + 1) % 3];
}

// -- What is shown
// `rows` pass the filters on samples, `base` are the items of the view, `list` those that are chosen, in order.
export function select(run, state, columns) {
  const rows = passing(run, state);
  const base = itemsOf(run, state, rows);
  const choices = choicesOf(run, state);
  const chosen = choices.find(([key]) => key === state.only);
  const list = sorted(run, state, chosen ? base.filter(chosen[2]) : base, columns);
  return { rows, base, choices, list };
}

function itemsOf(run, state, rows) {
  if (state.view === 'pair') return sharedBy(run, pairOf(run, state), rows);
  if (state.view === 'questions') return samplesOf(run, rows);
  if (!state.method) return rows;
  const m = run.methods.indexOf(state.method);
  return rows.filter(i => run.rows.m[i] === m);
}

// The page of the table that is shown: from 1 to the last.
export function pageOf(state, length) {
  const last = Math.max(1, Math.ceil(length / +state.size));
  return Math.min(last, Math.max(1, Math.floor(+state.page) || 1));
}

// The answers that one goes through from row `i`: those of the list, in a view by question those of its method.
export function trailOf(run, state, list, i) {
  if (state.view === 'answers') return list;
  return list.map(s => run.of(s, run.rows.m[i])).filter(k => k >= 0);
}
